#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: assemble.sh PROGRAM
# Runs PROGRAM with the path of NVIDIA's assembler: $PTXAS, or what scripts/fetch-ptxas puts into the
# user's cache. Skipped where there is none and the package registry cannot be reached.
set -eu

if [ -z "${PTXAS:-}" ]; then
  code=0
  PTXAS=$(scripts/fetch-ptxas) || code=$?
  [ "$code" -eq 3 ] && exit 77
  [ "$code" -eq 0 ] || exit 1
fi
exec "$1" "$PTXAS"

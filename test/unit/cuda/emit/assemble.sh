#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: assemble.sh PROGRAM [full]
# Runs PROGRAM with the path of NVIDIA's assembler: $PTXAS, or what scripts/fetch-ptxas puts into the
# user's cache, and with whose turn it is: a quarter of the programs, by the number of commits, or all
# of them (full). Skipped where there is none and the package registry cannot be reached.
set -eu

if [ -z "${PTXAS:-}" ]; then
  code=0
  PTXAS=$(scripts/fetch-ptxas) || code=$?
  [ "$code" -eq 3 ] && exit 77
  [ "$code" -eq 0 ] || exit 1
fi
[ "${2:-}" != full ] || exec "$1" "$PTXAS" 0 1
exec "$1" "$PTXAS" $(($(git rev-list --count HEAD 2>/dev/null || echo 0) % 4)) 4

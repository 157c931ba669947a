#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: assemble.sh PROGRAM [full]
# Runs PROGRAM with the paths of NVIDIA's assembler and disassembler: $PTXAS and $NVDISASM, or what
# scripts/fetch-ptxas and fetch-nvdisasm put into the user's cache, and with whose turn it is: a
# quarter of the programs, by the number of commits, or all of them (full). Skipped where they are
# not and the package registry cannot be reached.
set -eu

# The path that SCRIPT prints.
fetch() {
  code=0
  "scripts/$1" || code=$?
  [ "$code" -ne 3 ] || exit 77
  [ "$code" -eq 0 ] || exit 1
}

PTXAS=${PTXAS:-$(fetch fetch-ptxas)}
NVDISASM=${NVDISASM:-$(fetch fetch-nvdisasm)}
[ "${2:-}" != full ] || exec "$1" "$PTXAS" "$NVDISASM" 0 1
turn=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % 4))
exec "$1" "$PTXAS" "$NVDISASM" "$turn" 4

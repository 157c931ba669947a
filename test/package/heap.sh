#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: heap.sh LIBRARY. The private jemalloc is inside the shared library, which its heap calls, and
# nothing of it is seen from outside: neither its names nor those of the malloc family.
set -euo pipefail
library=$1

if [[ -z $(nm "$library" | awk '$2 ~ /^[tT]$/ && $3 == "dtje_malloc"') ]]; then
  printf '%s has no dtje_malloc: its heap is not the private jemalloc\n' "$library"
  exit 1
fi
seen=$(nm -D --defined-only "$library" | awk '{ print $3 }' |
  grep -E 'dtje|jemalloc|^(malloc|calloc|realloc|free|posix_memalign|mallctl)' || true)
if [[ -n $seen ]]; then
  printf '%s shows names of its heap:\n%s\n' "$library" "$seen"
  exit 1
fi
printf 'the private heap is inside and not seen\n'

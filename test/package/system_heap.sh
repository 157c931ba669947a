#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: system_heap.sh CMAKE SOURCES. What a build with DUCTILE_JEMALLOC=system is: its programs have the
# system's jemalloc for their malloc, which the heap finds and asks; the library itself brings none into
# a process.
set -euo pipefail
cmake=$1
sources=$2
pkg-config --exists jemalloc || exit 77
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

"$cmake" -S "$sources" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DDUCTILE_LLVM=OFF \
  -DDUCTILE_JEMALLOC=system >"$build/log" 2>&1 || {
  cat "$build/log"
  exit 1
}
ninja -C "$build" unit_base_memory >"$build/log" 2>&1 || {
  tail -n 30 "$build/log"
  exit 1
}
memory=$build/test/unit/base/unit_base_memory
"$memory"
LD_BIND_NOW=1 LD_DEBUG=bindings "$memory" >"$build/log" 2>&1
# shellcheck disable=SC2016
grep -q 'unit_base_memory .* to .*libjemalloc.*`malloc' "$build/log"
links() { ninja -C "$build" -t commands "$1" | tail -n 1; }
if [[ $(links library/libductile.so) == *jemalloc* ]]; then
  printf 'the library would bring jemalloc into a process\n'
  exit 1
fi
[[ $(links ductile-command) == *libjemalloc* ]]

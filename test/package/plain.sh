#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: plain.sh CMAKE SOURCES. A build without preset, as docs/install.md has it, is a release with
# CMake's own flags. It needs nothing of the tests, and another compiler's new warning must not end
# it; and what -O3 alone shows to the compiler is without warning.
set -euo pipefail
cmake=$1
sources=$2
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

said=$(sed -n 's/^cmake -B build\(.*\) && cmake --build build$/\1/p' "$sources/docs/install.md")
[[ -n $said ]] || { printf 'docs/install.md says no flags\n' && exit 1; }
read -r -a flags <<<"$said"
"$cmake" -S "$sources" -B "$build" -G Ninja "${flags[@]}" -DDUCTILE_JEMALLOC=off >"$build/log" 2>&1 || {
  cat "$build/log"
  exit 1
}
if grep -q -- '-Werror' "$build/compile_commands.json"; then
  printf 'warnings are errors in a build without preset\n'
  exit 1
fi
if grep -q cmocka "$build/build.ninja"; then
  printf 'the build of docs/install.md wants the library of the tests\n'
  exit 1
fi
if grep -vq -e '-O3 -DNDEBUG' <<<"$(grep '"command"' "$build/compile_commands.json")"; then
  printf 'a build without preset is no release\n'
  exit 1
fi
"$cmake" -DDUCTILE_WERROR=ON "$build" >/dev/null
objects=$(ninja -C "$build" -t targets all | sed -n 's/^\(.*ops_einsum\.c\.o\): .*/\1/p')
[[ -n $objects ]]
# shellcheck disable=SC2086
ninja -C "$build" $objects

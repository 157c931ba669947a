#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: examples.sh CMAKE PREFIX FAKE_CUDA. The programs of docs/passes.md and docs/own-ops.md against an
# installed tree: as C11 by find_package and as C++17 by pkg-config (PKG_CONFIG_PATH is set), with every
# warning an error, under AddressSanitizer and UndefinedBehaviorSanitizer. They print what the pages show.
set -euo pipefail
cmake=$1
prefix=$2
fake=$3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{c11,cc17}
sanitize=(-g '-fsanitize=address,undefined' -fno-sanitize-recover=undefined)
programs=()
for source in "$root"/examples/{passes,ops}/*.c; do
  [[ ${source##*/} == acme.c ]] || programs+=("$source")
done
[[ ${#programs[@]} -ge 7 ]]

{
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(examples C)\nfind_package(Ductile 0.1 REQUIRED)\n'
  printf 'set(CMAKE_C_STANDARD 11)\nset(CMAKE_C_EXTENSIONS OFF)\n'
  printf 'add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Werror -pedantic %s)\n' "${sanitize[*]}"
  printf 'add_link_options(%s)\n' "${sanitize[*]}"
  printf 'link_libraries(Ductile::ductile m)\nadd_library(acme MODULE %s/examples/ops/acme.c)\n' "$root"
  for source in "${programs[@]}"; do
    name=${source##*/}
    printf 'add_executable(%s %s)\n' "${name%.c}" "$source"
  done
} >"$work/c11/CMakeLists.txt"
if ! {
  "$cmake" -G Ninja -S "$work/c11" -B "$work/c11" -DCMAKE_PREFIX_PATH="$prefix" &&
    "$cmake" --build "$work/c11"
} >"$work/log" 2>&1; then
  cat "$work/log"
  exit 1
fi

read -r -a flags < <(pkg-config --cflags --libs ductile)
compile() {
  "${CXX:-g++}" -x c++ -std=c++17 -Wall -Wextra -Werror -pedantic "${sanitize[@]}" "$@" -x none "${flags[@]}" -lm
}
compile -fPIC -shared -o "$work/cc17/libacme.so" "$root/examples/ops/acme.c"
for source in "${programs[@]}"; do
  name=${source##*/}
  compile -o "$work/cc17/${name%.c}" "$source"
done

# scripts/test may load a library of its own before ASan's.
export ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS:-}
for language in c11 cc17; do
  for source in "${programs[@]}"; do
    name=${source##*/} name=${name%.c}
    arguments=()
    [[ $name != onnx_domain ]] || arguments=("$work/$language/libacme.so")
    variables=()
    [[ $name != graph_kernel ]] || variables=(DUCTILE_CUDA="$fake" DUCTILE_CACHE_DIR= FAKE_CUDA_STRICT=1)
    env "${variables[@]}" "$root/test/tutorial/run.sh" "$work/$language/$name" \
      "$root/test/tutorial/$name.txt" "${arguments[@]}"
    printf '%s as %s\n' "$name" "$language"
  done
done

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: serving.sh SOURCES PREFIX. Does what docs/serving.md says under "Install and link", with its own lines:
# builds the server by pkg-config and by CMake against PREFIX, and lets both serve.
set -eu
sources=$1 prefix=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
page=$sources/docs/serving.md

# block LANGUAGE: the section's block in it.
block() {
  awk -v begin="\`\`\`$1" '/^## /{ inside = /Install and link/ } inside && $0 == begin { take = 1; next }
                           /^```/ { take = 0 } take' "$page" | sed "s|PREFIX|$prefix|g"
}

mkdir "$work/pc" "$work/cmake"
cp "$sources/examples/serve_onnx.c" "$work/pc/"
cp "$sources/examples/serve_onnx.c" "$work/cmake/"
block sh >"$work/pc/build.sh"
grep -q pkg-config "$work/pc/build.sh"
(cd "$work/pc" && sh -eux ./build.sh)

{
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(server C)\n'
  block cmake
} >"$work/cmake/CMakeLists.txt"
grep -q Ductile::ductile "$work/cmake/CMakeLists.txt"
if ! {
  cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$work/cmake/build"
} >"$work/log" 2>&1; then
  cat "$work/log"
  exit 1
fi

for server in "$work/pc/serve_onnx" "$work/cmake/build/serve_onnx"; do
  LD_LIBRARY_PATH=$prefix/lib "$server" "$sources/test/cli/models/small.onnx" 4 20 2 >"$work/log" 2>&1 || true
  grep '^80 requests, 0 failed, 0 wrong' "$work/log" || {
    cat "$work/log"
    exit 1
  }
done

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh PROGRAM EXPECTED [ARGUMENT…]. The program prints what EXPECTED holds, but for times, which are N
# there, and the folder that sources were compiled in. 77 where the program says that it is skipped.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=0
"$1" "${@:3}" >"$work/out" || code=$?
if [[ $code -eq 77 ]]; then
  cat "$work/out"
  exit 77
fi
sed -E 's/[0-9.]+ ms/N ms/; s,[^ (]*examples/(tutorial|passes)/,examples/\1/,g' "$work/out" >"$work/got"
diff -u "$2" "$work/got"
[[ $code -eq 0 ]]

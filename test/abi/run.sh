#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh PROGRAM MODELS WORKER EXPECTED [--update]. The program prints what EXPECTED holds, but
# for the lines and the folder of its sources.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$2" "$3" >"$work/out"
sed -E 's,[^ (]*test/abi/,test/abi/,g; s/(every_[a-z]+\.c):[0-9]+/\1:N/g' "$work/out" >"$work/got"
if [[ ${5:-} == --update ]]; then
  cp "$work/got" "$4"
else
  diff -u "$4" "$work/got"
fi

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: readme.sh README LIBRARY INCLUDE_DIR. The program in the README is complete, under 60 lines, and
# runs as it stands.
set -euo pipefail
readme=$1
library=$2
include=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2016
sed -n '/^```c$/,/^```$/p' "$readme" | sed '1d;$d' >"$work/mlp.c"
lines=$(wc -l <"$work/mlp.c")
[[ $lines -gt 10 && $lines -lt 60 ]] || { printf 'the program has %s lines\n' "$lines" && exit 1; }
"${CC:-gcc}" -std=c17 -Wall -Wextra -Werror -I"$include" "$work/mlp.c" -o "$work/mlp" "$library" \
  -Wl,-rpath,"$(dirname "$library")"
"$work/mlp" | tee "$work/out"
[[ $(grep -c '^batch *[0-9]*: y\[0\]\[0\] = 0\.[0-9]*$' "$work/out") -eq 4 ]]
# Each row's answer does not depend on the rows beside it.
[[ $(sed 's/.*= //' "$work/out" | sort -u | wc -l) -eq 1 ]]

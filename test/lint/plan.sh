#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: plan.sh BUILD
# Every test that docs/testing.md names is one of the build's (a * stands for anything), and every row of its
# tables of bits and of asks names one (of asks, or has a dash for the answer and the test).
set -eu
build=$1
doc=$(dirname "$0")/../../docs/testing.md
tests=$(mktemp)
trap 'rm -f "$tests"' EXIT
find "$build" -name CTestTestfile.cmake -exec cat {} + |
  sed -n 's/^add_test(\[=*\[\([^]]*\)\]=*\].*/\1/p; s/^add_test(\([^[ ]*\) .*/\1/p' | sort -u >"$tests"
faults=0
fault() {
  echo "docs/testing.md: $1"
  faults=$((faults + 1))
}
exists() {
  pattern=$(printf '%s' "$1" | sed 's/\./\\./g; s/\*/.*/g')
  grep -qx -e "$pattern" "$tests"
}
# shellcheck disable=SC2016 # the quotes are the document's
names='`(abi|cli|conform|fuzz|golden|lint|model|onnx|package|proofs|python|soak|tutorial|unit)\.[a-z0-9_.*]*`'
for name in $(grep -oE "$names" "$doc" | tr -d '`' | sort -u); do
  exists "$name" || fault "there is no test $name"
done
rows=$(sed -n '/^## Bits$/,/^## /p' "$doc" | grep '^| ' | tail -n +2)
[ -n "$rows" ] || fault "there is no table of bits"
while IFS= read -r row; do
  printf '%s\n' "$row" | grep -qE "$names|, none:" || fault "a row of bits names no test: $row"
done <<EOT
$rows
EOT
rows=$(sed -n '/^## Asks$/,/^## /p' "$doc" | grep '^| [0-9]')
[ -n "$rows" ] || fault "there is no table of asks"
while IFS= read -r row; do
  printf '%s\n' "$row" | grep -qE "$names|\| – \| – \|" || fault "an ask has an answer and no test: $row"
done <<EOT
$rows
EOT
[ "$faults" -eq 0 ]

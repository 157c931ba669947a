#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: package.sh DUCTILE. Models as packages: `ductile compile`, and what run, inspect, bench and
# check say of packages.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
x=(--input 'x=values:1,2,3' --input trips=values:3)

failures=0
# expect STATUS PATTERN ARGUMENT…: the command ends so, and says PATTERN.
expect() {
  local expected=$1 pattern=$2 status=0 said
  shift 2
  said=$("$ductile" "$@" 2>&1) || status=$?
  if [[ $status -ne $expected || $said != *"$pattern"* ]]; then
    printf 'ductile %s: status %s, expected %s with "%s"; it said: %s\n' "$*" "$status" "$expected" \
      "$pattern" "$said"
    failures=$((failures + 1))
  fi
}
fail() {
  printf '%s\n' "$*"
  failures=$((failures + 1))
}

expect 0 "$work/loop.dtp: " compile models/loop.onnx -o "$work/loop.dtp" --isa 'v2,v3'
expect 0 '"levels":["v2"]' compile models/loop.onnx --out="$work/other.dtp" --isa v2 --name again --json
"$ductile" inspect "$work/other.dtp" --json | while IFS= read -r line; do
  printf '%s\n' "$line" | python3 -m json.tool >"$work/log" || printf '%s\n' "$line" >>"$work/broken"
done
[[ ! -e $work/broken ]] || fail "no JSON: $(cat "$work/broken")"
expect 0 'levels v2, v3' inspect "$work/loop.dtp"
expect 0 '"event":"variant"' inspect "$work/loop.dtp" --json
expect 0 'function again:' inspect "$work/other.dtp"
# The same answers as those of the model, to the last bit, and nothing compiled.
for file in models/loop.onnx "$work/loop.dtp"; do
  "$ductile" run "$file" "${x[@]}" --json | grep -v '"event":"memory"' >"$work/${file##*.}.json"
done
cmp "$work/onnx.json" "$work/dtp.json" || fail 'a package gives other answers'
log=$(DUCTILE_LOG=compile:1,cache:1 "$ductile" run "$work/loop.dtp" "${x[@]}" 2>&1)
[[ $log == *'variants of a package, for x86-64-v'* ]] || fail "no package in the log: $log"
[[ $log != *'the host program'* ]] || fail 'a package was compiled'
expect 0 '1 variant in 0 ms' bench "$work/loop.dtp" "${x[@]}" --seconds 0.01
DUCTILE_CPU=x86-64-v2 expect 0 ' f32' run "$work/loop.dtp" "${x[@]}"

# Weights that stay in the model's file, or in one beside it: moved together they are found, and another
# file is told.
mkdir -p "$work/there" "$work/away"
cp models/loop.onnx models/outside.onnx models/small.data "$work/there/"
expect 0 "$work/there/ref.dtp: " compile "$work/there/loop.onnx" -o "$work/there/ref.dtp" --weights ref --no-forms
"$ductile" run "$work/there/ref.dtp" "${x[@]}" --json | grep -v '"event":"memory"' | cmp - "$work/onnx.json" ||
  fail 'weights in a file give other answers'
expect 2 'no such value for WHERE' compile models/loop.onnx -o "$work/none.dtp" --weights out

# Calls before the package is written: at sizes, or of inputs alone.
expect 0 "$work/called.dtp: " compile models/small.onnx -o "$work/called.dtp" --dim batch=1,2 --dim seq=3
expect 0 "$work/called.dtp: " compile models/loop.onnx -o "$work/called.dtp" "${x[@]}"
expect 1 'no sizes of batch, seq: give each' compile models/small.onnx -o "$work/none.dtp" --input x=ones
expect 2 'no input is called so' compile models/small.onnx -o "$work/none.dtp" --input none=ones
expect 2 'the input was given before' compile models/loop.onnx -o "$work/none.dtp" "${x[@]}" "${x[@]}"
expect 2 "no dim of an input is called 'none'" compile models/small.onnx -o "$work/none.dtp" --dim none=1

# What cannot be done is told, and nothing is left behind.
expect 2 'give -o FILE' compile models/loop.onnx
expect 1 "expected some of v2, v3, v3+vnni, v4, v4+vnni" compile models/loop.onnx -o "$work/none.dtp" --isa v5
expect 1 'it is a package already' compile "$work/loop.dtp" -o "$work/none.dtp"
expect 1 '/nowhere/none.dtp' compile models/loop.onnx -o /nowhere/none.dtp
expect 1 'No such file' compile models/none.onnx -o "$work/none.dtp"
"$ductile" compile models/loop.onnx -o "$work/v3.dtp" --isa v3 >"$work/log"
DUCTILE_CPU=x86-64-v2 expect 1 'code for v3, and this machine runs v2' run "$work/v3.dtp" "${x[@]}"
head -c 1000 "$work/loop.dtp" >"$work/short.dtp"
expect 1 'cut off' run "$work/short.dtp" "${x[@]}"
expect 1 'cut off' inspect "$work/short.dtp"
[[ ! -e $work/none.dtp && -z $(find "$work" -name '*.tmp') ]] || fail 'files are left'

# Sixteen writers of one file, and readers: each sees a whole one.
for k in {1..16}; do
  "$ductile" compile models/small.onnx -o "$work/many.dtp" --isa v2 >"$work/log.$k" 2>&1 &
done
for k in {1..8}; do
  [[ ! -e $work/many.dtp ]] || expect 0 'levels v2' inspect "$work/many.dtp"
done
wait
expect 0 'levels v2' inspect "$work/many.dtp"
exit $((failures > 0))

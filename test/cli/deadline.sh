#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: deadline.sh DUCTILE. Commands with --deadline end by themselves, with an exit status of their
# own; what is in time is as without it.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"

failures=0
# expect STATUS PATTERN ARGUMENT…: the command ends so, by itself, and says PATTERN.
expect() {
  local expected=$1 pattern=$2 status=0 said
  shift 2
  said=$(timeout -s KILL 60 "$ductile" "$@" 2>&1) || status=$?
  if [[ $status -ne $expected || $said != *"$pattern"* ]]; then
    printf 'ductile %s: status %s, expected %s with "%s"; it said: %s\n' "$*" "$status" "$expected" \
      "$pattern" "$said"
    failures=$((failures + 1))
  fi
}

x=(--input 'x=values:1,2,3')
trips=$((1 << 62))
expect 0 ' 4 8 12' run models/loop.onnx "${x[@]}" --input trips=values:3 --deadline 1m
expect 4 'DT_E_DEADLINE' run models/loop.onnx "${x[@]}" --input "trips=values:$trips" --deadline 0.5s
expect 4 'DT_E_DEADLINE' run models/loop.onnx "${x[@]}" --input trips=values:3 --deadline 1us
expect 0 '1 shape' bench models/loop.onnx --input trips=values:3 --seconds 0.1 --deadline 50s
expect 4 'DT_E_DEADLINE' bench models/loop.onnx --input "trips=values:$trips" --deadline 500ms
expect 4 'late     loop: set 0: DT_E_DEADLINE' check models/loop --deadline 1s
expect 4 '1 folder: 0 pass, 0 wrong, 0 refused, 0 error, 1 late' check models/loop --deadline 1s --jobs 0
expect 4 '"late":1' check models/loop --deadline 100ms --json
expect 1 '1 wrong, 0 refused, 0 error, 1 late' check folders/wrong models/loop --deadline 8s
expect 0 '1 pass, 0 wrong, 0 refused, 0 error' check folders/good --deadline 1m
expect 4 'late     good: ' check folders/good --deadline 1us
expect 0 'all nodes are supported' inspect models/loop.onnx --deadline 1m
expect 4 'DT_E_DEADLINE: models/loop.onnx: the deadline passed' inspect models/loop.onnx --deadline 1ns
expect 0 'answered' explain graphs/add.dtt --call x=3x4,y=3x4 --deadline 1m
expect 4 'DT_E_DEADLINE' explain graphs/add.dtt --call x=3x4,y=3x4 --call x=5x4,y=5x4 --deadline 1ns
expect 4 'DT_E_DEADLINE' explain graphs/add.dtt --deadline 1ns
expect 2 "no input is called 'z'" explain graphs/add.dtt --call x=3x4,y=3x4 --call z=1 --deadline 1ns
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]

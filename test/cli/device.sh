#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: device.sh DUCTILE DRIVER. run, check and bench on a device, which DRIVER stands in for; and that
# a device that is not there is an error, not a refusal of the models.
set -euo pipefail
ductile=$1
driver=$2
cd "$(dirname "${BASH_SOURCE[0]}")"

failures=0
# expect STATUS PATTERN ARGUMENT…: the command ends so and says PATTERN.
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

export DUCTILE_CACHE_DIR='' FAKE_CUDA_STRICT=1 DUCTILE_CUDA=$driver
x=(--input "x=values:1,2,3,4,5,6:2x3" --input "y=ones")
expect 0 '2 3 4 5 6 7' run models/sum.onnx "${x[@]}" --device cuda
expect 1 'CUDA device 63' run models/sum.onnx "${x[@]}" --device cuda:63
expect 1 '15 folders: 3 pass, 3 wrong, 1 refused, 8 error' check folders --device cuda --jobs 2
expect 0 '"graph_calls":12' bench models/sum.onnx --dim batch=1,3 --seconds 0 --device cuda \
  --mode reduce-overhead --json
export DUCTILE_CUDA=/nowhere/libcuda.so.1
expect 1 '1 folder: 0 pass, 0 wrong, 0 refused, 1 error' check folders/good --device cuda
expect 1 'DT_E_UNSUPPORTED' bench models/sum.onnx --dim batch=1 --device cuda
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]

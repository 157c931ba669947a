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
# Packages, without a code generator: on the device, on the CPU, and on an older device.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expect 0 "$work/both.dtp: " compile models/sum.onnx -o "$work/both.dtp" --isa v2 --cuda sm_89,sm_90a
expect 0 'levels v2, sm_89, sm_90a' inspect "$work/both.dtp"
expect 0 '"levels":["sm_80"]' compile models/sum.onnx -o "$work/one.dtp" --isa none --cuda sm_80 --json
expect 1 "'sm_70' in \"v3,v4,sm_70\" is none" compile models/sum.onnx -o "$work/none.dtp" --cuda sm_70
expect 1 "'none' in \"none\" is none" compile models/sum.onnx -o "$work/none.dtp" --isa none
export DUCTILE_JIT=/nowhere
for device in cpu cuda; do
  expect 0 '2 3 4 5 6 7' run "$work/both.dtp" "${x[@]}" --device "$device"
done
expect 0 '2 3 4 5 6 7' run "$work/one.dtp" "${x[@]}" --device cuda
expect 1 'code for sm_80, and this machine runs v2' run "$work/one.dtp" "${x[@]}"
FAKE_CUDA_ARCH=80 expect 1 'code for v2, sm_89, sm_90a, and the device is Fake GPU 0 sm_80' \
  run "$work/both.dtp" "${x[@]}" --device cuda
expect 0 '"graph_calls":12' bench "$work/both.dtp" --dim batch=1,3 --seconds 0 --device cuda \
  --mode reduce-overhead --json
log=$(DUCTILE_LOG=compile:1,cache:1 "$ductile" run "$work/both.dtp" "${x[@]}" --device cuda 2>&1)
[[ $log == *'variants of a package, for sm_90a'* && $log != *'code generator was opened'* ]] || {
  printf 'a package on a device: %s\n' "$log"
  failures=$((failures + 1))
}
unset DUCTILE_JIT
# Weights that stay in a file beside the model go to the device from there.
cp models/outside.onnx models/small.data "$work/"
expect 0 "$work/ref.dtp: " compile "$work/outside.onnx" -o "$work/ref.dtp" --weights ref --isa none --cuda sm_90a
small=(--dim batch=2 --dim seq=3 --input x=ones --json)
"$ductile" run "$work/outside.onnx" "${small[@]}" | grep -v '"event":"memory"' >"$work/want"
DUCTILE_JIT=/nowhere "$ductile" run "$work/ref.dtp" "${small[@]}" --device cuda |
  grep -v '"event":"memory"' | cmp - "$work/want" || failures=$((failures + 1))
rm "$work/small.data"
expect 1 'small.data' run "$work/ref.dtp" "${small[@]}" --device cuda
expect 0 '1 folder: 1 pass' check folders/good --device cuda --package sm_90a,v2
[[ ! -e $work/none.dtp ]] || failures=$((failures + 1))
export DUCTILE_CUDA=/nowhere/libcuda.so.1
expect 1 '1 folder: 0 pass, 0 wrong, 0 refused, 1 error' check folders/good --device cuda
expect 1 'DT_E_UNSUPPORTED' bench models/sum.onnx --dim batch=1 --device cuda
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: tune.sh DUCTILE. `ductile tune`: what it says, what it keeps, and that run, bench and
# compile take it up with the same bits.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DUCTILE_CACHE_DIR=$work/cache
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

DUCTILE_CACHE_DIR='' "$ductile" run models/loop.onnx "${x[@]}" --json | grep -v '"event":"memory"' >"$work/usual"
expect 0 'variant 0, optimised: ' tune models/loop.onnx "${x[@]}" --seconds 2 --quiet
expect 0 'kept on disk' tune models/loop.onnx "${x[@]}" --seconds 2
expect 0 '0 of ' tune models/loop.onnx "${x[@]}" --seconds 2 --forget
"$ductile" tune models/loop.onnx "${x[@]}" --seconds 2 --json 2>"$work/progress" >"$work/report"
for file in "$work/progress" "$work/report"; do
  while IFS= read -r line; do
    printf '%s\n' "$line" | python3 -m json.tool >/dev/null || fail "no JSON: $line"
  done <"$file"
done
grep -q '"event":"progress","choice":"own-codes"' "$work/progress" || fail 'no progress is told'
grep -q '"event":"tuned"' "$work/report" || fail 'nothing is told of what was tuned'
[[ $(grep -c '"outcome":"other bits"' "$work/report") -ge 5 ]] || fail 'what changes bits was tried'
ls "$work/cache"/*.tuned >/dev/null || fail 'nothing is kept'
expect 0 ' tuned ' cache ls
# What is kept is taken up, with the same bits.
"$ductile" run models/loop.onnx "${x[@]}" --json | grep -v '"event":"memory"' >"$work/tuned"
cmp "$work/usual" "$work/tuned" || fail 'a tuned model gives other answers'
expect 0 'tuned.dtp' compile models/loop.onnx -o "$work/tuned.dtp" --isa v2
"$ductile" run "$work/tuned.dtp" "${x[@]}" --json | grep -v '"event":"memory"' >"$work/package"
cmp "$work/usual" "$work/package" || fail 'a package of a tuned model gives other answers'
expect 0 'variant 0 is compiled' tune models/loop.onnx "${x[@]}" --seconds 1 --out "$work/out.dtp" --isa v2
expect 0 'levels v2' inspect "$work/out.dtp"
# A damaged one counts as absent.
entries=("$work/cache"/*.tuned)
printf 'x' | dd of="${entries[0]}" bs=1 seek=100 conv=notrunc 2>/dev/null
"$ductile" run models/loop.onnx "${x[@]}" --json | grep -v '"event":"memory"' >"$work/damaged"
cmp "$work/usual" "$work/damaged" || fail 'a damaged entry changes answers'
# What was kept stays where nothing more is kept, until it is dropped.
expect 0 'call 0: ' tune models/loop.onnx "${x[@]}" --seconds 2 --quiet --forget
ls "$work/cache"/*.tuned >/dev/null || fail '--forget removed what was kept'
expect 0 ' bytes removed' cache drop --kind tuned
[[ -z $(find "$work/cache" -name '*.tuned') ]] || fail 'cache drop left what was kept'
ls "$work/cache"/*.variant >/dev/null || fail 'cache drop removed code'
# A model from standard input has the same entry as its file.
"$ductile" tune - "${x[@]}" --seconds 1 --quiet <models/loop.onnx >"$work/log"
entries=("$work/cache"/*.tuned)
expect 0 'variant 0' tune models/loop.onnx "${x[@]}" --seconds 1 --quiet
[[ $(find "$work/cache" -name '*.tuned') == "${entries[0]}" ]] || fail 'tune - keeps another entry'

expect 2 'at most 64' tune models/loop.onnx --dim x.0=1..65 "${x[@]}"
expect 4 'DT_E_DEADLINE' tune models/loop.onnx "${x[@]}" --deadline 1ns
expect 2 'no model' tune
expect 1 'DT_E_IO' tune models/none.onnx
exit $((failures > 0))

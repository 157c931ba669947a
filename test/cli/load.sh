#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: load.sh DUCTILE. ductile bench with many callers over fewer sessions, closed and open; what it
# saves is what ductile run computes; what cannot be is refused. ductile explain compiles a model.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf '%s\n' "$1"
  exit 1
}
# field NAME LINE: a number of a JSON line.
field() { sed -nE "s/.*\"$1\":([0-9.eE+-]+).*/\1/p" <<<"$2"; }
# in_order A B C …: ascending.
in_order() { printf '%s\n' "$@" | sort -gC || fail "not in order: $*"; }

[[ $("$ductile" explain models/sum.onnx) == *'variant 0'* ]] || fail 'explain does not compile a model'

load=$("$ductile" bench models/sum.onnx --dim batch=3 --concurrency 5 --sessions 2 --seconds 0.2 \
  --warmup 2 --save "$work/saved" --json | grep '"event":"load"')
[[ $(field callers "$load") == 5 && $(field sessions "$load") == 2 ]] || fail "$load"
in_order 100 "$(field requests "$load")"
in_order 0 "$(field p50_us "$load")" "$(field p90_us "$load")" "$(field p99_us "$load")" \
  "$(field p999_us "$load")" "$(field max_us "$load")"

# At 400 requests a second for half a second some 200 arrive, whatever the calls take.
load=$("$ductile" bench models/sum.onnx --dim batch=3 --concurrency 4 --rate 400 --seconds 0.5 --json |
  grep '"event":"load"')
in_order 120 "$(field requests "$load")" 300

"$ductile" run models/sum.onnx --input "x=$work/saved/set_0/input_0.npy" \
  --input "y=$work/saved/set_0/input_1.npy" --output "z=$work/z.npy"
cmp "$work/z.npy" "$work/saved/set_0/output_0.npy" || fail 'what was saved is another result'

status=0
"$ductile" bench models/sum.onnx --dim batch=3 --rate 5 2>"$work/err" || status=$?
[[ $status -eq 2 && $(<"$work/err") == *'needs --concurrency'* ]] || fail "$(<"$work/err")"

# Another engine, by an interpreter that stands for it: its arguments are -c, the script, the model, the
# folder.
engine() {
  printf '#!/bin/sh\n%s\n' "$1" >"$work/engine"
  chmod +x "$work/engine"
  "$ductile" bench models/sum.onnx --dim batch=3 --seconds 0.05 --save "$work/both" --against onnxruntime \
    --python "$work/engine" --json 2>&1
}
# shellcheck disable=SC2016 # those are the engine's own
line=$(engine 'cp "$4/set_0/output_0.npy" "$4/set_0/against_0.npy"; echo "0 0.5 0.75"' | grep '"event":"against"')
[[ $line == *'"median_us":500000.000,"p99_us":750000.000'* && $line == *'"same":true'* ]] || fail "$line"
# shellcheck disable=SC2016 # those are the engine's own
line=$(engine 'cp "$4/set_0/input_1.npy" "$4/set_0/against_0.npy"; echo "0 0.5 0.75"' | grep '"event":"against"')
[[ $line == *'"same":false'* ]] || fail "$line"
line=$(engine 'echo "! no such module"' || true)
[[ $line == *'"event":"error"'*'no such module"'* ]] || fail "$line"
line=$(engine 'exit 3' || true)
[[ $line == *'ended behind 0 of 1 sets'* ]] || fail "$line"
status=0
"$ductile" bench models/sum.onnx --dim batch=3 --against onnxruntime 2>"$work/err" || status=$?
[[ $status -eq 2 && $(<"$work/err") == *'needs --save'* ]] || fail "$(<"$work/err")"

# A model from standard input is the one from its file.
"$ductile" inspect - <models/sum.onnx | tail -n +2 >"$work/standard"
"$ductile" inspect models/sum.onnx | tail -n +2 | cmp - "$work/standard" || fail 'inspect -'
grep -q '^answered' <<<"$("$ductile" explain - --call "x=2x3,y=3" <models/sum.onnx)" || fail 'explain -'
grep -q '^z: 2x3 f32' <<<"$("$ductile" run - --dim batch=2 <models/sum.onnx)" || fail 'run -'
grep -q '^answered' <<<"$("$ductile" explain - --call "x=3x4,y=3x4" <graphs/add.dtt)" || fail 'explain - of text'

grep -q '^batch=2 ' <<<"$("$ductile" bench - --dim batch=2 --seconds 0.01 <models/sum.onnx)" || fail 'bench -'
"$ductile" compile - -o "$work/sum.dtp" --isa v2 <models/sum.onnx >/dev/null
# refused PATTERN ARGUMENT…: what cannot be read from standard input, which is a package here.
refused() {
  local pattern=$1 status=0
  shift
  "$ductile" "$@" <"$work/sum.dtp" 2>"$work/err" >"$work/out" || status=$?
  [[ $status -ne 0 && $(<"$work/err") == *"$pattern"* ]] || fail "$*: $(<"$work/err")"
}
for command in run inspect bench tune; do
  refused 'a package is not read from standard input; give its file' $command -
done
refused 'a package; ductile inspect says' explain "$work/sum.dtp"
refused 'standard input is no folder' check -
refused 'needs the model' compile - -o "$work/none.dtp" --weights ref
refused 'needs the model' bench - --save "$work/saved" --against onnxruntime

# The log tells of calls on a CPU, too.
log=$(DUCTILE_LOG=exec:1 "$ductile" run models/sum.onnx --dim batch=2 2>&1 >/dev/null)
[[ $log == *'[exec]'* ]] || fail 'DUCTILE_LOG=exec says nothing'

# All sizes that are missing are told at once.
for command in run bench tune; do
  status=0
  "$ductile" $command models/small.onnx 2>"$work/err" >"$work/out" || status=$?
  [[ $status -eq 1 && $(<"$work/err") == *'no sizes of batch, seq: give each'* ]] || fail "$command: $(<"$work/err")"
done
status=0
"$ductile" compile models/small.onnx -o "$work/none.dtp" --dim batch=2 2>"$work/err" || status=$?
[[ $status -eq 1 && $(<"$work/err") == *'no sizes of seq: give each'* ]] || fail "compile: $(<"$work/err")"

# Each combination is looked at: those of a sweep, of a trace, and of the sizes that an input has.
status=0
"$ductile" bench models/sum.onnx --input x=zeros:2x3 --dim batch=2,3 --seconds 0.01 2>"$work/err" >"$work/out" || status=$?
[[ $status -eq 1 && $(<"$work/err") == *'dim 0 is 2 here and 3 by --dim batch=3'* ]] || fail "$(<"$work/err")"
status=0
"$ductile" bench models/sum.onnx --dim batch=2 --dim x.0=2,3 --seconds 0.01 2>"$work/err" >"$work/out" || status=$?
[[ $status -eq 2 && $(<"$work/err") == *'--dim batch=2 and --dim x.0=3: two sizes of batch'* ]] || fail "$(<"$work/err")"
printf 'batch=2 x.0=2\nbatch=2 x.0=3\n' >"$work/sizes.trace"
status=0
"$ductile" bench models/sum.onnx --trace "$work/sizes.trace" 2>"$work/err" || status=$?
[[ $status -eq 2 && $(<"$work/err") == *'two sizes of batch'* ]] || fail "$(<"$work/err")"
grep -q 's1: dynamic' <<<"$("$ductile" explain models/named.onnx --names-are-hints)" || fail 'explain --names-are-hints'
grep -q '^z: 2x3 f32' <<<"$("$ductile" run models/sum.onnx --dim x.0=2 --dim batch=2)" || fail 'INPUT.D of a named dim'

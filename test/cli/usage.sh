#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: usage.sh DUCTILE. Exit statuses, and where messages go.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"

failures=0
# expect STATUS PATTERN ARGUMENT…: the command ends so, and says PATTERN on standard error when it
# fails, on standard output when it does not.
expect() {
  local expected=$1 pattern=$2 status=0 out err said
  shift 2
  out=$("$ductile" "$@" 2>/dev/null) || status=$?
  err=$("$ductile" "$@" 2>&1 >/dev/null) || true
  said=$err
  [[ $expected -ne 0 ]] || said=$out
  # What is told of the exit status is true.
  [[ $said != *'"exit":'* || $said == *"\"exit\":$status,"* ]] || status="$status, another one is told"
  if [[ $status != "$expected" || $said != *"$pattern"* || ($expected -eq 0 && -n $err) ]]; then
    printf 'ductile %s: status %s, expected %s with "%s"; it said: %s\n' "$*" "$status" "$expected" \
      "$pattern" "$said"
    failures=$((failures + 1))
  fi
}

expect 0 'usage: ductile COMMAND' --help
expect 0 'ductile 0.' --version
expect 0 'usage: ductile explain' explain --help
expect 2 'usage: ductile COMMAND'
expect 2 "no command 'nope'" nope
expect 2 'no file' explain
expect 2 'one file only' explain a b
expect 2 '--nope' explain --nope
expect 2 '--call: needs TEXT' explain graphs/add.dtt --call
expect 2 '--dynamic always' explain graphs/add.dtt --dynamic always
expect 2 '--limit 0' explain graphs/add.dtt --limit 0
expect 2 '--limit 5x' explain graphs/add.dtt --limit 5x
expect 2 '--json=1: no such option' explain --json=1 a
expect 2 'no sizes for input 1, y' explain --call=x=3x4 -- graphs/add.dtt
expect 1 'nowhere.dtt: No such file' explain nowhere.dtt
expect 1 'graphs: Is a directory' explain graphs
expect 1 'bad.dtt:2:' explain graphs/bad.dtt
expect 1 'no input binds the symbol s1' explain graphs/unbound.dtt
expect 2 'no sizes for input 1, y' explain graphs/add.dtt --call x=3x4
expect 2 "no input is called 'z'" explain graphs/add.dtt --call z=3
expect 2 "'x' stands twice" explain graphs/add.dtt --call x=3x4,x=3x4
expect 2 'expected a number at the end' explain graphs/add.dtt --call x=3x
expect 2 "expected a number at 'y'" explain graphs/add.dtt --call x=y
expect 2 'behind the last comma' explain graphs/add.dtt --call x=3x4,
expect 2 'expected NAME=SIZES' explain graphs/add.dtt --call x
expect 2 '1 strides for 2 sizes' explain graphs/add.dtt --call x=3x4@1,y=3x4
expect 2 'out of range' explain graphs/add.dtt --call x=-1x4,y=3x4
expect 2 'out of range' explain graphs/add.dtt --call x=1x99999999999999999,y=3x4
expect 2 'more than 4294967296 bytes' explain graphs/add.dtt --call x=99999x99999,y=3x4
expect 2 'more than 8 sizes' explain graphs/add.dtt --call x=1x1x1x1x1x1x1x1x1,y=3x4
expect 2 'there are --help, --call, --dynamic' explain --nope
expect 2 'there are symbolic, automatic, static' explain graphs/add.dtt --dynamic always
expect 2 "there are run, check" nope
expect 2 '--json: given twice' explain graphs/add.dtt --json --json
expect 2 '--threads: given twice' run models/sum.onnx --threads 1 --threads 2
expect 2 '{"event":"error","command":"explain","exit":2,"message":"--nope: no such option' explain --json --nope
expect 2 '{"event":"error","command":"","exit":2,"message":"no command' nope --json
expect 2 '{"event":"error","command":"","exit":2,"message":"no command' --json
expect 2 "no command 'nope'" nope -- --json
expect 2 '{"event":"error","command":"check","exit":2,' check folders --json --list good
expect 2 'there are onnxruntime' bench models/sum.onnx --against nothing
for command in run check bench tune explain repro inspect compile cache; do
  expect 2 "{\"event\":\"error\",\"command\":\"$command\",\"exit\":2,\"message\":\"no " $command --json
  [[ $command == check ]] || expect 2 '"exit":2,"message":"one ' $command a b --json
done
expect 1 '"code":"DT_E_IO","message":"nowhere.onnx: cannot open' run nowhere.onnx --json
expect 1 'not supported' explain folders/refused/model.onnx
expect 0 'usage: ductile inspect' inspect --help
expect 0 'operator sets: ai.onnx 17' inspect models/small.onnx
expect 0 '"event":"model"' inspect --json models/small.onnx
expect 0 'external files:' inspect models/outside.onnx
expect 0 'external files:' inspect --data models models/outside.onnx
expect 2 'no file' inspect
expect 2 'one file only' inspect a b
expect 2 '--nope' inspect models/small.onnx --nope
expect 2 '--data: needs FOLDER' inspect models/small.onnx --data
expect 1 'nowhere.onnx: cannot open: No such file' inspect nowhere.onnx
expect 1 'models: not a regular file' inspect models
expect 1 'DT_E_FORMAT: models/cut.onnx: byte 10: a length reaches beyond' inspect models/cut.onnx
expect 1 'graph.initializer[0]: byte' inspect models/outside.onnx --data graphs
expect 1 'graphs/add.dtt: byte 0:' inspect graphs/add.dtt
for command in run check bench; do
  expect 0 "usage: ductile $command" $command --help
  expect 2 '--nope' $command a --nope
  expect 2 'expected cpu, cuda or cuda:N' $command models --device gpu
  expect 2 'expected cpu, cuda or cuda:N' $command models --device cuda:x
done
for command in run bench; do
  expect 2 'no model' $command
  expect 2 'one model only' $command a b
  expect 1 'nowhere.onnx: cannot open: No such file' $command nowhere.onnx
  expect 1 'DT_E_FORMAT: models/cut.onnx: byte 10' $command models/cut.onnx
  expect 2 '--threads 0' $command models/sum.onnx --threads 0
done
expect 2 'no folder' check
expect 1 'nowhere: No such file' check nowhere
expect 1 'no folder with a model.onnx' check graphs
expect 1 'no folder with a model.onnx is called nope*' check folders --only 'nope*'
expect 2 'expected pass, wrong, refused, error or late' check folders --list good
expect 2 '--rtol -1' check folders --rtol -1
expect 2 '--jobs 257' check folders --jobs 257
expect 2 '--dim x: expected NAME=SIZES' bench models/sum.onnx --dim x
for time in 0s -1s 5 5x s 1e3s 25h .s 1.2.3s ''; do
  expect 2 "--deadline $time: no such value for TIME" run models/sum.onnx --deadline "$time"
done
expect 2 '--deadline: needs TIME' explain graphs/add.dtt --deadline

# Names that there are not: all of them, and those that there are.
for command in run bench tune; do
  expect 2 "no dim of an input is called 'none', 'x.7'; there are batch, seq (and INPUT.D)" \
    $command models/small.onnx --dim none=1 --dim batch=1 --dim x.7=1
  expect 2 '--input none=ones, more=ones: no input is called so; there are x, y' \
    $command models/sum.onnx --dim batch=1 --input none=ones --input x=ones --input more=ones
  expect 2 'x=zeros: the input was given before' $command models/sum.onnx --dim batch=1 --input x=ones --input x=zeros
  expect 2 '0=zeros: the input was given before' $command models/sum.onnx --dim batch=1 --input x=ones --input 0=zeros
done
expect 2 '--output none=a.npy, more=b.npy: no output is called so; there are s, d' \
  run models/both.onnx --dim batch=1 --output none=a.npy --output more=b.npy
expect 2 '--dim batch: given twice; expected one size' run models/sum.onnx --dim batch=1 --dim batch=1
for command in bench tune; do
  expect 2 '--dim batch=1: the dim was given before' $command models/sum.onnx --dim batch=1 --dim batch=1
done
expect 2 'no sizes for input 0, x; input 1, y' explain graphs/add.dtt --call ''

# Sizes that contradict, and such as cannot be.
expect 2 '--dim batch=2 and --dim x.0=5: two sizes of batch; give one of them' run models/sum.onnx --dim batch=2 --dim x.0=5
expect 2 '--dim x.0=2 and --dim y.0=3: two sizes of n; give one of them (or --names-are-hints' \
  run models/named.onnx --dim x.0=2 --dim y.0=3
expect 2 '--dim x.1=4: the model says 3; leave it out' run models/sum.onnx --dim batch=2 --dim x.1=4
expect 1 'dim 0 is 2 here and 7 by --dim batch=7; give one of them' run models/sum.onnx --input x=zeros:2x3 --dim batch=7
expect 2 '--dim batch=-1: expected NAME=SIZE, with a size of 0 or more' run models/sum.onnx --dim batch=-1
for command in bench tune; do
  expect 2 "expected sizes such as 4 or 16..128:16 at '-1'" $command models/sum.onnx --dim batch=-1
  expect 2 "expected sizes such as 4 or 16..128:16 at '2..-1'" $command models/sum.onnx --dim batch=2..-1
done
expect 1 "expected a size at '-2x3'" run models/sum.onnx --input x=zeros:-2x3
expect 1 'these sizes come to more than 8589934592 bytes' run models/sum.onnx --dim batch=999999999
expect 1 'these sizes come to more than 8589934592 bytes' run models/sum.onnx --input x=ones:99999999999x3
expect 1 'these sizes come to more than 8589934592 bytes' bench models/sum.onnx --dim batch=999999999
expect 2 '--mode fast' bench models/sum.onnx --mode fast

# Output that cannot be written is a failure.
if [[ -w /dev/full ]]; then
  status=0
  "$ductile" --help >/dev/full 2>/dev/null || status=$?
  [[ $status -eq 1 ]] || { printf 'a full disk: status %s\n' "$status" && failures=$((failures + 1)); }
fi
printf '%d failures\n' "$failures"
[[ $failures -eq 0 ]]

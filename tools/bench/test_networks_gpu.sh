#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_gpu_networks and networks_gpu_peer.py on tiny networks: right answers on the CPU and, as
# CUDA graphs, on the fake driver; wrong answers, wrong files and wrong usage are told; the table.
# usage: test_networks_gpu.sh PYTHON BENCH_GPU_NETWORKS FAKE_CUDA
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$1 program=$2 driver=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -c 'import numpy' 2>/dev/null || {
  printf 'SKIP: numpy is not there\n'
  exit 77
}

# expect CODE COMMAND…: its output goes to $work/got and $work/told.
expect() {
  local wanted=$1 code=0
  shift
  "$@" >"$work/got" 2>"$work/told" || code=$?
  [[ $code -eq $wanted ]] || {
    printf 'exit code %d, expected %d: %s\n' "$code" "$wanted" "$*"
    cat "$work/got" "$work/told"
    exit 1
  }
}

# count NUMBER PATTERN: lines of $work/got.
count() {
  local found
  found=$(grep -cE "$2" "$work/got" || true)
  [[ $found -eq $1 ]] || {
    printf '%d lines, expected %d: %s\n' "$found" "$1" "$2"
    cat "$work/got"
    exit 1
  }
}

# told PATTERN
told() {
  grep -qE "$1" "$work/told" || {
    printf 'not told: %s\n' "$1"
    cat "$work/told"
    exit 1
  }
}

peer() { "$python" -B "$here/networks_gpu_peer.py" "$@"; }
cpu=("$program" --device cpu --rounds 1 --json)
expect 0 peer --weights "$work/tiny" --tiny
expect 0 "${cpu[@]}" --weights "$work/tiny" --tiny --batches 1,3
count 6 '"metric":"time"'
count 8 '"metric":"least cosine"'
cp "$work/got" "$work/both.jsonl"
expect 0 env DUCTILE_CUDA="$driver" FAKE_CUDA_PROCESSORS=4 "$program" --rounds 1 --json \
  --weights "$work/tiny" --tiny --batches 2
count 3 '"metric":"time"'
count 2 '"metric":"graph skips","unit":"count","value":0}'

# The peer's side as it would say it.
cat >>"$work/both.jsonl" <<'TEXT'
{"bench":"networks_gpu","case":"resnet50 1x32x32","metric":"time","value":1e6,"who":"torch"}
{"bench":"networks_gpu","case":"bert 3x20","metric":"skipped","why":"took more than 1 s"}
TEXT
expect 0 peer --table "$work/both.jsonl"
count 1 '^resnet50 1x32x32 +[0-9.]+ +1000000.0 +[0-9.]+$'
count 1 '^bert 3x20 +[0-9.]+ peer skipped: took more than 1 s$'
count 1 '^geometric mean; least '

# Rows that change places.
"$python" -B - "$here" "$work/tiny/bert.safetensors" <<'TEXT'
import sys
sys.path.insert(0, sys.argv[1])
import networks_gpu_peer as peer
tensors = peer.read(sys.argv[2])
tensors["output.1"] = tensors["output.1"][::-1].copy()
peer.write(sys.argv[2], tensors)
TEXT
expect 1 "${cpu[@]}" --weights "$work/tiny" --tiny
told 'bert 1x5: wrong'
count 3 'resnet50 [0-9]+x32x32","metric":"time"' # the other network is measured all the same

expect 1 "${cpu[@]}" --weights "$work/tiny"
told 'has another dtype or other sizes'
expect 1 "${cpu[@]}" --weights "$work/none" --networks bert
told 'networks_gpu_peer.py --weights FOLDER makes them'
expect 2 "${cpu[@]}"
told 'weights is missing'
for wrong in "--networks vgg" "--batches 0" "--batches 1," "--mode fast" "--rounds 0" "--what"; do
  # shellcheck disable=SC2086
  expect 2 "${cpu[@]}" --weights "$work/tiny" $wrong
done
expect 0 "$program" --help
count 1 '^usage: bench_gpu_networks '

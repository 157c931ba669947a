#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: devices.sh
# A kind of device is named where it is implemented, where the public interface names it, and where
# somebody chooses it; nowhere else, so that the next kind is a folder and a row. What runs the calls
# asks no session whether it is on a device. Exit codes: 0 so it is, 1 findings.
set -eu
cd "$(dirname "$0")/../.."

# Where CUDA may be named, by the beginning of a path.
allowed='backend_cuda/
cudagraphs/
test/
include/ductile/device.h
include/ductile/graphs.h
bench/bench_gpu
cli/model.h
cli/compile.c
bench/bench_minilm.c
examples/minilm/main.c
examples/ops/graph_kernel.c
examples/tutorial/gpu.c
'
# The last five are options of commands and the tutorial's step about GPUs.

findings=$(mktemp)
trap 'rm -f "$findings"' EXIT
# The library's tree and no other: neither builds nor dependencies.
git ls-files -co --exclude-standard '*.c' '*.h' '*.def' | while read -r file; do
  [ -f "$file" ] || continue
  printf '%s' "$allowed" | {
    while read -r prefix; do
      case $file in "$prefix"*) exit 0 ;; esac
    done
    grep -niH 'cuda' "$file" | sed 's/$/  <- names CUDA/' || true
  }
done >>"$findings"
grep -nE '(session|call)[^;]*->device *\?|home->number *[=!]= *DT_CPU *\?' runtime/exec/*.c runtime/exec/*.h |
  sed 's/$/  <- asks for a device/' >>"$findings" || true

if [ -s "$findings" ]; then
  cat "$findings"
  printf '%s findings\n' "$(wc -l <"$findings")"
  exit 1
fi
printf 'CUDA is named nowhere but where it may be\n'

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: assemble.sh full|turn|kept BUILD-FOLDER
# Compiles the programs of the conform suites for GPUs, each at one tiny size, and has NVIDIA's
# assembler take all PTX that comes of it (scripts/assemble).
#   full   all suites for all architectures; rewrites test/conform/assembled.tsv
#   turn   for the architectures that conform.cuda.* do not run as: a suite for each, by turns
#   kept   what tests have kept for sm_90a: a quarter of the texts, by turns
# Whose turn it is goes by the number of commits, so that eight commits in a row take all.
# Exit codes: scripts/assemble's; 77: skipped.
set -eu

case ${1:-} in full | turn | kept) known=1 ;; *) known=0 ;; esac
if [ $# -ne 2 ] || [ "$known" -eq 0 ]; then
  sed -n '3,11s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
mode=$1 build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
code=0
PTXAS=${PTXAS:-$(scripts/fetch-cuda-tool ptxas)} || code=$?
[ "$code" -eq 3 ] && echo "SKIP: no assembler here, and the package registry cannot be reached" && exit 77
[ "$code" -eq 0 ] || exit 1
export PTXAS

turns=10
turn=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % turns))
work=$(mktemp -d "${TMPDIR:-/tmp}/ductile-ptx-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

if [ "$mode" = kept ]; then
  turn=$((turn % 4))
  echo "turn $turn of 4"
  code=0
  scripts/assemble --take --jobs 2 --share "$turn/4" "$build/ptx" || code=$?
  # The others' turn comes with texts of their own: nothing is left for the next run.
  [ "$code" -ne 0 ] || find "$build/ptx" -name '*.ptx' -delete
  exit "$code"
fi

# One suite for one architecture; its last line is told.
compile() {
  export FAKE_CUDA_ARCH="$1" FAKE_CUDA_KEEP="$work/ptx/$2"
  mkdir -p "$FAKE_CUDA_KEEP"
  if [ "$2" = graphs ]; then
    set -- "$1" "$2" "$build/test/conform/graphs/conform_cpu_graphs" --corpus \
      test/conform/graphs/corpus.txt --seed 7 --count 20
  else
    set -- "$1" "$2" "$build/test/conform/conform_cpu_$2" "$2" --tiny
  fi
  arch=$1 suite=$2
  shift 2
  code=0
  "$@" >"$work/$suite-$arch.log" 2>&1 || code=$?
  echo "sm_$arch $suite: $(tail -n 1 "$work/$suite-$arch.log")"
  if [ "$code" -ne 0 ]; then
    cat "$work/$suite-$arch.log"
    exit 1
  fi
}

export DUCTILE_TEST_DEVICE=cuda DUCTILE_CACHE_DIR="" FAKE_CUDA_STRICT=1
export DUCTILE_CUDA="$build/test/fake_cuda/libfake_cuda.so"
if [ "$mode" = full ]; then
  for arch in 90 80 89; do
    for suite in unary binary reduce view composite matmul data index window graphs; do
      compile "$arch" "$suite"
    done
  done
  scripts/assemble "$work/ptx" --table "$build/assembled.tsv" --summary test/conform/assembled.tsv
  exit 0
fi

# Each turn has a suite for either architecture, so that no turn is much longer than another.
set -- unary matmul reduce data composite window graphs binary view index
shift "$turn"
older=$1
set -- composite graphs binary view index unary matmul reduce data window
shift "$turn"
newer=$1
echo "turn $turn of $turns: sm_80 $older, sm_89 $newer"
compile 80 "$older" &
first=$!
(compile 89 "$newer")
wait "$first"
scripts/assemble "$work/ptx"

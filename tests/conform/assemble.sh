#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: assemble.sh full|third|kept BUILD-FOLDER
# Compiles the programs of the conform suites for GPUs, each at one tiny size, and has NVIDIA's
# assembler take all PTX that comes of it (scripts/assemble).
#   full   all suites for all architectures; rewrites tests/conform/assembled.tsv
#   third  a third of them for the architectures that conform.cuda.* do not run as; which one goes by
#          the number of commits, so that three commits in a row take all
#   kept   what tests have kept for sm_90a: all that unit tests did, and the same third of the suites
# Exit codes: scripts/assemble's; 77: skipped.
set -eu

case ${1:-} in full | third | kept) known=1 ;; *) known=0 ;; esac
if [ $# -ne 2 ] || [ "$known" -eq 0 ]; then
  sed -n '3,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
mode=$1 build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
code=0
PTXAS=${PTXAS:-$(scripts/fetch-ptxas)} || code=$?
[ "$code" -eq 3 ] && echo "SKIP: no assembler here, and the package registry cannot be reached" && exit 77
[ "$code" -eq 0 ] || exit 1
export PTXAS

if [ "$mode" = full ]; then
  arches="90 80 89" suites="unary binary reduce view composite matmul data index graphs"
else
  arches="80 89"
  case $(($(git rev-list --count HEAD 2>/dev/null || echo 0) % 3)) in
  0) suites="unary reduce" ;;
  1) suites="binary matmul graphs" ;;
  *) suites="composite view data" ;;
  esac
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/ductile-ptx-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Suites of which nothing was kept are passed over, as with a filter on tests.
if [ "$mode" = kept ]; then
  mkdir "$work/ptx"
  for folder in "$build"/ptx/*/; do
    folder=${folder%/}
    case " $suites halves " in
    *" ${folder##*/conform.cuda.} "*) ln -s "$folder" "$work/ptx/" ;;
    esac
    case ${folder##*/} in unit.*) ln -s "$folder" "$work/ptx/" ;; esac
  done
  scripts/assemble --take --jobs 2 "$work/ptx"
  exit 0
fi

# One suite for one architecture; its last line is told.
compile() {
  export FAKE_CUDA_ARCH="$1" FAKE_CUDA_KEEP="$work/ptx/$2"
  mkdir -p "$FAKE_CUDA_KEEP"
  if [ "$2" = graphs ]; then
    set -- "$1" "$2" "$build/tests/conform/graphs/conform_cpu_graphs" --corpus \
      tests/conform/graphs/corpus.txt --seed 7 --count 20
  else
    set -- "$1" "$2" "$build/tests/conform/conform_cpu_$2" "$2" --tiny
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
export DUCTILE_CUDA="$build/tests/fake_cuda/libfake_cuda.so"
for arch in $arches; do
  for suite in $suites; do
    compile "$arch" "$suite"
  done
done
if [ "$mode" = full ]; then
  scripts/assemble "$work/ptx" --table "$build/assembled.tsv" --summary tests/conform/assembled.tsv
else
  scripts/assemble "$work/ptx"
fi

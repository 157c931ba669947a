#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: repro.sh DUCTILE. Faults that are shown again: files that `check` writes for a wrong result,
# graphs that differ or do not, and what is left of them after reducing.
set -euo pipefail
ductile=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect CODE PATTERN ARGUMENT…: exit code and a pattern of what `repro` prints.
expect() {
  local wanted=$1 pattern=$2 code=0
  shift 2
  "$ductile" repro "$@" >"$work/got" 2>&1 || code=$?
  if [[ $code -ne $wanted ]] || ! grep -qE -e "$pattern" "$work/got"; then
    printf 'exit code %d, expected %d and /%s/: repro %s\n' "$code" "$wanted" "$pattern" "$*"
    cat "$work/got"
    exit 1
  fi
}

sizes=0=40x50,1=40x50
expect 0 '^nothing$' graphs/inexact.dtt --call $sizes
expect 0 '"shown":"nothing"' graphs/inexact.dtt --call $sizes --json
expect 0 '^nothing$' graphs/inexact.dtt # compiled without a call
expect 1 '^wrong: result 1: ' graphs/inexact.dtt --call $sizes --rtol 0 --atol 0
expect 1 '^status: DT_E_ARGUMENT: |no input is called' graphs/inexact.dtt --call 7=3
expect 2 'expected cpu, cuda or cuda:N' graphs/inexact.dtt --device here
expect 3 'nowhere: No such file' "$work/nowhere"
expect 3 '"exit":3,"message":".*nowhere: No such file' "$work/nowhere" --json
expect 3 'graphs: Is a directory' graphs
expect 1 '^wrong: result 1: ' - --call $sizes --rtol 0 --atol 0 <graphs/inexact.dtt

# Reducing: fewer nodes, the same fault, in a file that repro and ductile explain read.
expect 1 ' [12] of 8 nodes' graphs/inexact.dtt --call $sizes --rtol 0 --atol 0 \
  --reduce "$work/small.dtt"
expect 1 '^wrong: result 0: ' "$work/small.dtt" --rtol 0 --atol 0
expect 0 '^nothing$' "$work/small.dtt"
"$ductile" explain "$work/small.dtt" >/dev/null
expect 1 '"event":"reduced"' graphs/inexact.dtt --call $sizes --rtol 0 --atol 0 --json \
  --reduce "$work/small.dtt" --tries 3

# Which node it was: the exponential, not what reads it; and none, where the data are wrong.
code=0
"$ductile" check models/inexact --rtol 0 --atol 0 --bisect >"$work/got" 2>&1 || code=$?
if [[ $code -ne 1 ]] || ! grep -q '; first wrong is %[0-9]* = exp (node of "e" (Exp' "$work/got"; then
  cat "$work/got"
  exit 1
fi
"$ductile" check folders/wrong --bisect >"$work/got" 2>&1 || true
grep -q 'agrees with the evaluator' "$work/got"
"$ductile" check folders/wrong --sizes-only >"$work/got" 2>&1
grep -q '^pass ' "$work/got"

# What check writes for a wrong result; the fault is the data's here, so compiled code is right.
code=0
DUCTILE_REPRO_DIR=$work/faults "$ductile" check folders/wrong >"$work/got" 2>&1 || code=$?
if [[ $code -ne 1 ]] || ! grep -q 'shows it again (ductile repro)' "$work/got"; then
  cat "$work/got"
  exit 1
fi
file=$(ls "$work"/faults/*.dtt)
grep -q '^call: 0=' "$file"
grep -q '^target: ' "$file"
expect 0 '^nothing$' "$file"
expect 0 '^nothing$' - <"$file" # with its lines

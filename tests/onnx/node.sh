#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: node.sh DUCTILE [--update]. Runs ductile check over the node cases of ONNX's own test data and
# compares with node.tsv: case, status, reason. Fails where a case that passed no longer does, where one
# is wrong or an error that was not, and where cases came or went. With --update the table is written
# anew. Skipped (77) where the data cannot be fetched.
set -euo pipefail
ductile=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
table=$root/tests/onnx/node.tsv

status=0
onnx=$("$root/scripts/fetch-onnx") || status=$?
if [[ $status -eq 3 ]]; then
  printf 'SKIP: the packages cannot be fetched\n'
  exit 77
fi
[[ $status -eq 0 ]] || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each case is checked by code that is compiled here, not found on disk.
DUCTILE_CACHE_DIR='' "$ductile" check "$onnx/backend/test/data/node" --jobs 2 --timeout 60 \
  >"$work/lines" || true
sed '$d' "$work/lines" | awk '{
  status = $1
  name = $2
  sub(/:$/, "", name)
  reason = $0
  sub(/^[a-z]+ +[^ ]+: ?/, "", reason)
  sub(/^model\.onnx: /, "", reason)
  gsub(/\t/, " ", reason)
  printf "%s\t%s\t%s\n", name, status, status == "pass" ? "" : reason
}' >"$work/actual"
tail -n 1 "$work/lines"
if [[ ${2:-} == --update ]]; then
  cp "$work/actual" "$table"
  exit 0
fi
awk -F '\t' '
  NR == FNR { expected[$1] = $2; next }
  { seen[$1] = 1 }
  !($1 in expected) { printf "%s: not in the table; it is %s\n", $1, $2; failures++; next }
  expected[$1] == $2 { next }
  $2 == "pass" { better++; next }
  expected[$1] == "pass" || $2 == "wrong" || $2 == "error" {
    printf "%s: %s, expected %s: %s\n", $1, $2, expected[$1], $3
    failures++
  }
  END {
    for (name in expected)
      if (!(name in seen)) { printf "%s: in the table, and not in the data\n", name; failures++ }
    if (better) printf "%d cases pass that did not: tests/onnx/node.sh DUCTILE --update\n", better
    printf "%d failures\n", failures
    exit failures > 0
  }' "$table" "$work/actual"

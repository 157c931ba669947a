#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: oracle.sh SUMMARY. The reader and protobuf's find the same in every model and every tensor of
# ONNX's own test data. Skipped (77) where the packages cannot be fetched.
set -euo pipefail
summary=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

onnx=$("$root/test/onnx/data.sh")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$onnx") \
  python3 "$root/test/onnx/summary.py" "$onnx" "$work/list" >"$work/expected"
status=0
"$summary" <"$work/list" >"$work/actual" || status=1
diff "$work/expected" "$work/actual" | head -n 40 || true
cmp -s "$work/expected" "$work/actual" || status=1
printf '%d files, %d lines\n' "$(wc -l <"$work/list")" "$(wc -l <"$work/expected")"
# The count that reference data have, so that an empty folder is no success.
[[ $(grep -c 'data/node/.*\.onnx$' "$work/list") -eq 1765 ]] || status=1
exit "$status"

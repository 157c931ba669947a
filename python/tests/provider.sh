#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: provider.sh PYTHON. test/onnx/provider.py over the networks of ONNX's own test data, and that each is taken as a
# whole. Skipped (77) where the data cannot be fetched, or without onnxruntime.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$1
test=$here/../../test/onnx

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
onnx=$("$test/data.sh")
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$onnx") python3 "$test/light.py" "$onnx" "$work/light"
status=0
"$python" -B "$test/provider.py" --sets 1 --option strict=1 "$work/light" | tee "$work/rows" || status=$?
[[ $status -eq 0 ]] || exit "$status"
[[ $(grep -c '^light_' "$work/rows") -eq 9 ]] || { printf 'there are not nine networks\n' && exit 1; }

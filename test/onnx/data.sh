#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: data.sh. Prints the folder of ONNX's own test data, which scripts/fetch-onnx fetches, for the tests
# over it: onnx=$("$here/data.sh") ends them with 77, a skip, where the data cannot be fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

status=0
"$here/../../scripts/fetch-onnx" || status=$?
if [[ $status -eq 3 ]]; then
  printf 'SKIP: the packages cannot be fetched\n' >&2
  exit 77
fi
[[ $status -eq 0 ]] || exit 1

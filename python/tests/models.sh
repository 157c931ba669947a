#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: models.sh PYTHON DUCTILE [FOLDER…]. test_models.py over the networks of ONNX's own test data and each
# thirtieth of its node cases; or over the models in the FOLDERs, such as those that test/onnx/models.sh makes.
# Skipped (77) where the data cannot be fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$1
ductile=$2
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Both take the code that one of them has compiled.
export DUCTILE_CACHE_DIR=$work/code
if [[ $# -eq 0 ]]; then
  onnx=$("$here/../../test/onnx/data.sh")
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$onnx") python3 "$here/../../test/onnx/light.py" "$onnx" "$work/light"
  set -- "$work/light" "$onnx/backend/test/data/node/30"
fi
"$python" -B "$here/test_models.py" "$ductile" "$@"

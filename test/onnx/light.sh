#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: light.sh DUCTILE [--update]. The networks of ONNX's own test data whose weights are made by the
# graph, put into folders by light.py: cases.sh with light.tsv. Skipped (77) where the data cannot be
# fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

onnx=$("$here/data.sh")
light=$(mktemp -d)
trap 'rm -rf "$light"' EXIT
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$onnx") python3 "$here/light.py" "$onnx" "$light"
"$here/cases.sh" "$1" "$light" "$here/light.tsv" "${@:2}" -- --buffers

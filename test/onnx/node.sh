#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: node.sh DUCTILE [--update]. The node cases of ONNX's own test data: cases.sh with node.tsv.
# Skipped (77) where the data cannot be fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

onnx=$("$here/data.sh")
exec "$here/cases.sh" "$1" "$onnx/backend/test/data/node" "$here/node.tsv" "${@:2}" -- --buffers

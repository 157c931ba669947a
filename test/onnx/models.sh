#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: models.sh OUT [--minilm FILE] [--bytes N]. Makes the folders of models.py in OUT, of trained
# models (scripts/fetch-models, scripts/fetch-minilm; FILE are other weights of MiniLM), and of exports
# where a Python has torch. Skipped (77) without onnxruntime (scripts/deps --python, or
# DUCTILE_PYTHON), or where the models cannot be fetched.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$1
shift
python=${DUCTILE_PYTHON:-$root/.venv/bin/python}
if ! "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
  printf 'SKIP: onnxruntime is not there: scripts/deps --python\n'
  exit 77
fi
if ! wheels=$("$root/scripts/fetch-models"); then
  printf 'SKIP: the models cannot be fetched\n'
  exit 77
fi
arguments=(--wheels "$wheels")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for candidate in "$root/.deps/torch/bin/python" python3 /usr/bin/python3; do
  "$candidate" -c 'import torch, torchvision' 2>/dev/null || continue
  PYTHONDONTWRITEBYTECODE=1 "$candidate" "$root/test/onnx/exports.py" "$work" >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    exit 1
  }
  arguments+=(--exports "$work")
  # As PyTorch's newer exporter writes them, where it is there.
  if "$candidate" -c 'import onnxscript' 2>/dev/null; then
    PYTHONDONTWRITEBYTECODE=1 "$candidate" "$root/test/onnx/exports.py" --graphs "$work/graphs" >"$work/log" 2>&1 &&
      arguments+=(--graphs "$work/graphs")
  fi
  if [[ " $* " != *' --minilm '* ]] && minilm=$("$root/scripts/fetch-minilm" | tail -n 1); then
    arguments+=(--minilm "$minilm/model.safetensors")
  fi
  break
done
[[ ${#arguments[@]} -gt 2 ]] || printf 'models.sh: no Python has torch: exports are left out\n' >&2
PYTHONDONTWRITEBYTECODE=1 "$python" "$root/test/onnx/models.py" "$out" "${arguments[@]}" "$@"

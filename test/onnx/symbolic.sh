#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A few of ONNX's node tests get other sizes, the same ones each time. Skipped (77)
# without the Python packages (scripts/deps --python).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${DUCTILE_PYTHON:-$root/.venv/bin/python}
if ! [[ -x $python ]] || ! cases=$("$python" -c \
  'import onnx, onnxruntime; print(onnx.__path__[0])' 2>/dev/null)/backend/test/data/node; then
  printf 'SKIP: the packages are not there\n'
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
only=(--only 'test_add_bcast' --only 'test_adam' --only 'test_matmul_?d' --only 'test_conv_with_strides_*'
  --only 'test_reshape_one_dim' --only 'test_sequence_map_identity_1_sequence' --only 'test_bernoulli'
  --only 'test_maxunpool_export_with_output_shape' --only 'test_convinteger_with_padding'
  --only 'test_affine_grid_2d_expanded')
for run in 1 2; do
  PYTHONDONTWRITEBYTECODE=1 "$python" "$root/test/onnx/symbolic.py" "$cases" "$work/$run" --jobs 2 \
    "${only[@]}" >"$work/counts$run"
done
diff -r "$work/1" "$work/2"
diff "$work/counts1" - <<'TEXT'
     8  2 by onnxruntime and reference
     2  2 by reference
     2  no other sizes are accepted
     1  a sequence or an optional comes in or out
     1  no oracle computes set 0 as it is
    14  cases
TEXT
grep -qF 'x[3,4,5] y[5] | x[4,5,6] y[6] | x[2,1,4] y[4]' "$work/1/table.tsv"
# Where an oracle takes more than the format: no kernel is larger than the padded input, and the
# length of a shape is no symbol.
grep -qF 'x[4,4,1,2] w[1,4,1,3]' "$work/1/table.tsv"
"$python" -c 'import onnx, sys
dims = onnx.load(sys.argv[1]).graph.input[1].type.tensor_type.shape.dim
assert [dim.dim_value for dim in dims] == [4]' "$work/1/test_affine_grid_2d_expanded/model.onnx"

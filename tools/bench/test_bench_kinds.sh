#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: test_bench_kinds.sh LIBRARY BENCH_MACHINE. bench_kinds.py on a tiny model, f32 and quantised; a
# library that is none; what is refused, and what has wrong answers. Skipped (77) without onnxruntime
# (scripts/deps --python, or DUCTILE_PYTHON).
set -euo pipefail

library=$1 machine=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${DUCTILE_PYTHON:-$here/../../.venv/bin/python}
if ! "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
  printf 'SKIP: onnxruntime is not there: scripts/deps --python\n'
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here

# bench FILE ARGUMENT…: its lines go to FILE.
bench() {
  local out=$1
  shift
  "$python" "$here/bench_kinds.py" --machine "$machine" --threads 1 --quick --rounds 1 "$@" \
    >"$out" 2>"$work/told" || {
    cat "$work/told"
    exit 1
  }
}

bench "$work/lines" --library "$library" --variants f32,dynamic tiny
# The machine need not be measured again.
grep '"case": "1 thread"' "$work/lines" >"$work/ceilings"
printf '#!/bin/sh\ncat %q\n' "$work/ceilings" >"$work/machine"
chmod +x "$work/machine"
machine=$work/machine
bench "$work/none" --library "$work/nowhere.so" --json "$work/json" tiny
diff "$work/none" "$work/json"
"$python" - "$work" <<'TEXT'
import json
import sys

def rows(name):
    with open(f"{sys.argv[1]}/{name}", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return lines, [line for line in lines if "status" in line]

# Without VNNI the peer adds products of bytes with saturation (its reduce_range is for that), and is what is wrong.
with open("/proc/cpuinfo", encoding="ascii") as file:
    exact = "vnni" in file.read()
lines, found = rows("lines")
measured = [row for row in found if row["status"] == "measured"]
assert len(found) == 4, found
assert all(row in measured or not exact and row["variant"] == "dynamic" and row["status"] == "wrong" for row in found), found
assert all(row["ratio"] > 0 and row["processor_ratio"] > 0 for row in measured)
# Two products of 16 x 32 and 32 x 8 a row; biases, weights, inputs and results in bytes.
f32 = [row for row in found if row["variant"] == "f32"]
assert [row["gflop"] for row in f32] == [round(2 * 768 * n * 1e-9, 4) for n in (1, 3)], f32
assert [row["case"] for row in f32] == ["tiny 1", "tiny 3"]
assert {line["variant"] for line in lines if line.get("case") == "summary"} == {row["variant"] for row in measured}
_, found = rows("none")
assert [row["status"] for row in found] == ["crashed"] * 2, found
assert "nowhere.so" in found[0]["message"], found
TEXT

"$python" - "$library" "$work" <<'TEXT'
import json
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from kinds import TESTED, child, count, store

library, work = sys.argv[1:]
node = helper.make_node("Nothing", ["x"], ["y"], domain="nobody")
info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in "xy"]
onnx.save(helper.make_model(helper.make_graph([node], "g", info[:1], info[1:]), ir_version=8,
                            opset_imports=[helper.make_opsetid("", 17),
                                           helper.make_opsetid("nobody", 1)]), f"{work}/none.onnx")
tiny = TESTED["tiny"]
task = {"library": library, "name": "tiny", "variant": "f32", "threads": 1, "rows": [0, 1],
        "rounds": 1, "turn_s": 0.001, "count": True, "path": str(store.file_of(tiny, "f32"))}


def lines(code, **changes):
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps({**task, **changes}),
                          stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in found if line["status"] != "begins"]


run = "from kinds import child; child.main()"
for line in lines(run, path=f"{work}/none.onnx"):
    assert line["status"] == "peer refused" and "Ductile refuses, too" in line["message"], line
# What Ductile alone cannot open is refused.
alone = ("from kinds import child; made = child.Function.__init__; child.Function.__init__ = "
         f"lambda self, library, path, threads: made(self, library, '{work}/none.onnx', threads); "
         "child.main()")
for line in lines(alone):
    assert line["status"] == "refused" and "Nothing" in line["message"], line
# An answer that is off by a thousandth is wrong.
off = ("from kinds import child; first = child.Function.first; "
       "child.Function.first = lambda self, ins: {k: v * 1.001 for k, v in first(self, ins).items()}; "
       "child.main()")
assert [line["status"] for line in lines(off)] == ["wrong"] * 2

counted = count.Counter(task["path"]).of(tiny.inputs(np.random.default_rng(0), 3), 3 * 8 * 4)
assert counted == {"f32": 2 * 768 * 3, "i8": 0,
                   "bytes": 4 * (16 * 32 + 32 + 32 * 8 + 8 + 3 * 16 + 3 * 8)}, counted
# A table that only Gather reads counts by the rows that it takes, dequantised ones, too.
table = np.ones((1000, 8), np.int8)
graph = helper.make_graph(
    [helper.make_node("DequantizeLinear", ["table", "scale"], ["real"]),
     helper.make_node("Gather", ["real", "ids"], ["y"])], "rows",
    [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
    [onnx.numpy_helper.from_array(table, "table"),
     onnx.numpy_helper.from_array(np.float32(1), "scale")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
          f"{work}/rows.onnx")
counted = count.Counter(f"{work}/rows.onnx").of({"ids": np.zeros(3, np.int64)}, 3 * 8 * 4)
assert counted["bytes"] == 4 + 3 * 8 + 3 * 8 + 3 * 8 * 4, counted
rates = {10: 5.0, 1000: 2.0}
assert [count.rate_for(size, rates) for size in (1, 10, 999, 1000)] == [5.0, 5.0, 5.0, 2.0]
one, nan = {"y": np.ones(4, np.float32)}, {"y": np.full(4, np.nan, np.float32)}
assert child.difference(one, one) == 0 and child.difference(nan, nan) == 0
assert child.difference(one, nan) == np.inf and child.difference({}, one) == np.inf
assert child.difference({"y": np.ones((2, 2), np.float32)}, one) == np.inf
assert abs(child.difference({"y": np.full(4, 1.5, np.float32)}, one) - 0.5) < 1e-9
assert child.difference({"y": np.arange(4)}, {"y": np.zeros(4, np.int64)}) == 0.75
TEXT

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the light models of ONNX's test data into folders as ductile check reads them.

usage: light.py ONNX FOLDER. The input is what ONNX's own runner makes for the expected outputs: of n
elements the k-th is k / n, open sizes being 1.
"""

import array
import os
import shutil
import sys

onnx_folder, folder = sys.argv[1:]
sys.path.insert(0, onnx_folder)

import onnx_ml_pb2 as onnx  # noqa: E402

DATA = os.path.join(onnx_folder, "backend", "test", "data")
LIGHT, REAL = os.path.join(DATA, "light"), os.path.join(DATA, "real")


def made_input(info):
    if info.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        sys.exit(f"input {info.name}: no f32")
    sizes = [dim.dim_value or 1 for dim in info.type.tensor_type.shape.dim]
    n = 1
    for size in sizes:
        n *= size
    values = array.array("f", (k / n for k in range(n)))
    return onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=sizes, raw_data=values.tobytes())


def main():
    for file in sorted(os.listdir(LIGHT)):
        if not file.endswith(".onnx"):
            continue
        stem = file[: -len(".onnx")]
        case = os.path.join(folder, stem)
        data = os.path.join(case, "test_data_set_0")
        os.makedirs(data)
        shutil.copy(os.path.join(LIGHT, file), os.path.join(case, "model.onnx"))
        shutil.copy(os.path.join(LIGHT, stem + "_output_0.pb"), os.path.join(data, "output_0.pb"))
        # Its tolerances.
        shutil.copy(os.path.join(REAL, stem.replace("light_", "test_"), "data.json"), case)
        with open(os.path.join(case, "model.onnx"), "rb") as model:
            graph = onnx.ModelProto.FromString(model.read()).graph
        constants = {tensor.name for tensor in graph.initializer}
        inputs = [info for info in graph.input if info.name not in constants]
        for k, info in enumerate(inputs):
            with open(os.path.join(data, f"input_{k}.pb"), "wb") as out:
                out.write(made_input(info).SerializeToString())


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the models and folders that the tests of run, check and bench read, into models/ and folders/.

usage: PYTHONPATH=$(scripts/fetch-onnx):$(dirname $(scripts/fetch-onnx)) test/cli/make.py
"""

import os
import shutil
import struct

import onnx_ml_pb2 as onnx

HERE = os.path.dirname(os.path.abspath(__file__))
FLOAT, INT64, BOOL = 1, 7, 9


def value(info, name, kind, dims):
    info.name = name
    tensor = info.type.tensor_type
    tensor.elem_type = kind
    tensor.shape.SetInParent()
    for dim in dims:
        place = tensor.shape.dim.add()
        if isinstance(dim, str):
            place.dim_param = dim
        else:
            place.dim_value = dim


def model(nodes, inputs, outputs, axis=None):
    made = onnx.ModelProto(ir_version=8)
    made.opset_import.add(version=17)
    made.graph.name = "test"
    for op, takes, gives in nodes:
        node = made.graph.node.add(op_type=op, input=takes, output=gives)
        if axis is not None:
            node.attribute.add(name="axis", type=2, i=axis)
    for entry in inputs:
        value(made.graph.input.add(), *entry)
    for entry in outputs:
        value(made.graph.output.add(), *entry)
    return made.SerializeToString()


def tensor(kind, dims, values):
    form = {FLOAT: "f", INT64: "q"}[kind]
    data = struct.pack(f"<{len(values)}{form}", *values)
    return onnx.TensorProto(data_type=kind, dims=dims, raw_data=data).SerializeToString()


def write(path, data):
    path = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


ROWS = [("x", FLOAT, ["batch", 3]), ("y", FLOAT, [3])]
SUM = model([("Add", ["x", "y"], ["s"]), ("Relu", ["s"], ["z"])], ROWS, [("z", FLOAT, ["batch", 3])])
BOTH = model([("Add", ["x", "y"], ["s"]), ("Sub", ["x", "y"], ["d"])], ROWS,
             [("s", FLOAT, ["batch", 3]), ("d", FLOAT, ["batch", 3])])
COUNTS = model([("Mul", ["n", "n"], ["m"])], [("n", INT64, ["len", "?"])], [("m", INT64, ["len", "?"])])
# Named alike, and not equal.
NAMED = model([("Concat", ["x", "y"], ["z"])], [("x", FLOAT, ["n"]), ("y", FLOAT, ["n"])],
              [("z", FLOAT, ["m"])], axis=0)
REFUSED = model([("Det", ["x"], ["z"])], ROWS[:1], [("z", FLOAT, ["batch", 3])])


# Whose exponentials are not the nearest numbers, which a tolerance of 0 shows.
INEXACT = model([("Abs", ["x"], ["a"]), ("Exp", ["a"], ["e"]), ("Neg", ["e"], ["z"])], ROWS[:1],
                [("z", FLOAT, ["batch", 3])])


def looping():
    """One more for each trip, as many as the input says."""
    made = onnx.ModelProto(ir_version=8)
    made.opset_import.add(version=17)
    made.graph.name = "test"
    body = onnx.GraphProto(name="body")
    body.node.add(op_type="Identity", input=["going"], output=["goes_on"])
    body.node.add(op_type="Add", input=["before", "x"], output=["after"])
    value(body.input.add(), "trip", INT64, [])
    value(body.input.add(), "going", BOOL, [])
    value(body.input.add(), "before", FLOAT, [3])
    value(body.output.add(), "goes_on", BOOL, [])
    value(body.output.add(), "after", FLOAT, [3])
    node = made.graph.node.add(op_type="Loop", input=["trips", "", "x"], output=["z"])
    node.attribute.add(name="body", type=5).g.CopyFrom(body)
    value(made.graph.input.add(), "x", FLOAT, [3])
    value(made.graph.input.add(), "trips", INT64, [])
    value(made.graph.output.add(), "z", FLOAT, [3])
    return made.SerializeToString()


def folder(name, model_bytes, sets, more=None, root="folders"):
    write(f"{root}/{name}/model.onnx", model_bytes)
    for number, (inputs, outputs) in enumerate(sets):
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for k, data in enumerate(tensors):
                if data is not None:
                    write(f"{root}/{name}/test_data_set_{number}/{kind}_{k}.pb", data)
    for file, data in (more or {}).items():
        write(f"{root}/{name}/{file}", data)


def floats(rows, values):
    return tensor(FLOAT, [rows, 3] if rows else [3], values)


def main():
    for made in ("folders", "models/inexact", "models/loop"):
        shutil.rmtree(os.path.join(HERE, made), ignore_errors=True)
    write("models/sum.onnx", SUM)
    write("models/both.onnx", BOTH)
    write("models/counts.onnx", COUNTS)
    write("models/named.onnx", NAMED)
    write("models/loop.onnx", looping())
    folder("loop", looping(), [([floats(0, [1, 2, 3]), tensor(INT64, [], [1 << 62])], [floats(0, [0] * 3)])],
           root="models")
    one = [floats(1, [1, 2, -9]), floats(0, [0.5, 1, 2])]
    two = [floats(2, [1, 2, 3, 4, 5, 6]), floats(0, [0, 0, -4])]
    one_z, two_z = floats(1, [1.5, 3, 0]), floats(2, [1, 2, 0, 4, 5, 2])
    folder("good", SUM, [(one, [one_z]), (two, [two_z])])
    folder("more/optional", BOTH, [(one, [None, floats(1, [0.5, 1, -11])])])
    folder("more/tolerant", SUM, [(one, [floats(1, [1.6, 3.1, 0])])], {"data.json": b'{"rtol": 0.1, "atol": 1e-3}\n'})
    folder("wrong", SUM, [(one, [one_z]), (two, [floats(2, [1, 2, 0, 4.5, 5, 7])])])
    folder("sizes", SUM, [(one, [floats(2, [1.5, 3, 0] * 2)])])
    folder("dtype", SUM, [(one, [tensor(INT64, [1, 3], [1, 3, 0])])])
    folder("named", NAMED, [([tensor(FLOAT, [1], [1]), tensor(FLOAT, [2], [2, 3])],
                             [tensor(FLOAT, [3], [1, 2, 3])])])
    folder("refused", REFUSED, [(one[:1], [one_z])])
    folder("cut", SUM[:-4], [(one, [one_z])])
    folder("few", SUM, [(one[:1], [one_z])])
    folder("many", SUM, [(one + one[:1], [one_z])])
    folder("bare", SUM, [])
    folder("blind", SUM, [(one, [])])
    folder("broken", SUM, [([one[0][:-3], one[1]], [one_z])])
    many = [k * 0.0371 - 5 for k in range(300)]
    folder("inexact", INEXACT, [([floats(100, many)], [floats(100, [0] * 300)])], root="models")
    folder("misfit", SUM, [([one[0], floats(2, [0] * 6)], [one_z])])


main()

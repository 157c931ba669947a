# SPDX-License-Identifier: Apache-2.0
"""Prints what summary.c prints, by the classes that protoc makes from onnx.proto.

usage: summary.py ONNX LIST   (ONNX is the folder of the package `onnx`)

Finds the models and tensors beneath ONNX, writes their paths to LIST and what is in them to standard
output. Needs the package protobuf only.
"""

import glob
import hashlib
import importlib.util
import os
import struct
import sys

PLAIN = set(b"_./:-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
# Element types by number: bytes of an item of the typed field in memory, and its struct code.
NARROW = {2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 9: "B", 10: "H", 16: "H"}
WIDE = {1: ("float_data", "f"), 7: ("int64_data", "q"), 11: ("double_data", "d"),
        12: ("uint64_data", "I"), 13: ("uint64_data", "Q"), 14: ("float_data", "f"),
        15: ("double_data", "d")}


def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def esc(value):
    data = value.encode() if isinstance(value, str) else value
    return "".join(chr(c) if c in PLAIN else "%%%02X" % c for c in data)


def bits(value):
    return "%08x" % struct.unpack("<I", struct.pack("<f", value))[0]


def content(t):
    if t.data_type == 8:
        return b"".join(struct.pack("<I", len(s)) + s for s in t.string_data)
    if t.raw_data:
        return t.raw_data
    if t.data_type in WIDE:
        field, code = WIDE[t.data_type]
        values = getattr(t, field)
    else:
        values, code = t.int32_data, NARROW.get(t.data_type, "B")
    return struct.pack("<%d%s" % (len(values), code), *values)


def tensor(t):
    return " %d[%s] %s" % (t.data_type, ",".join(map(str, t.dims)),
                           hashlib.sha1(content(t)).hexdigest())


def shape(holder):
    if not holder.HasField("shape"):
        return "*"
    dims = []
    for d in holder.shape.dim:
        kind = d.WhichOneof("value")
        dims.append(str(d.dim_value) if kind == "dim_value"
                    else esc(d.dim_param) if kind == "dim_param" else "?")
    return "[" + ",".join(dims) + "]"


def type_text(t):
    kind = t.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        inner = getattr(t, kind)
        return ("" if kind == "tensor_type" else "sparse") + str(inner.elem_type) + shape(inner)
    if kind == "map_type":
        return "map%d(%s)" % (t.map_type.key_type, type_text(t.map_type.value_type))
    if kind in ("sequence_type", "optional_type"):
        return "%s0(%s)" % (kind[:3], type_text(getattr(t, kind).elem_type))
    return "opaque" if kind else "none"


def attribute(a, out):
    lists = [" " + bits(f) for f in a.floats] + [" %d" % i for i in a.ints]
    lists += [" " + esc(s) for s in a.strings]
    lists += [tensor(a.t)] if a.HasField("t") else []
    lists += [tensor(t) for t in a.tensors]
    out("attribute name=%s ref=%s type=%d f=%s i=%d s=%s%s %s" % (
        esc(a.name), esc(a.ref_attr_name), a.type, bits(a.f), a.i, esc(a.s), "".join(lists),
        type_text(a.tp) if a.HasField("tp") else ""))
    if a.HasField("g"):
        graph(a.g, out)
    for g in a.graphs:
        graph(g, out)


def names(values):
    return ",".join(map(esc, values))


def nodes(items, out):
    for n in items:
        out("node op=%s domain=%s overload=%s name=%s in=%s out=%s" % (
            esc(n.op_type), esc(n.domain), esc(n.overload), esc(n.name), names(n.input),
            names(n.output)))
        for a in n.attribute:
            attribute(a, out)


def graph(g, out):
    out("graph name=" + esc(g.name))
    for title, values in (("input", g.input), ("output", g.output), ("value", g.value_info)):
        for v in values:
            out("%s name=%s %s" % (title, esc(v.name), type_text(v.type)))
    for t in g.initializer:
        out("initializer name=%s%s" % (esc(t.name), tensor(t)))
    nodes(g.node, out)
    out("end")


def opsets(items, out):
    for o in items:
        out("opset domain=%s %d" % (esc(o.domain), o.version))


def model(m, out):
    out("model %d %d producer=%s version=%s domain=%s" % (
        m.ir_version, m.model_version, esc(m.producer_name), esc(m.producer_version),
        esc(m.domain)))
    opsets(m.opset_import, out)
    for p in m.metadata_props:
        out("metadata key=%s value=%s" % (esc(p.key), esc(p.value)))
    graph(m.graph, out)
    for f in m.functions:
        out("function name=%s domain=%s overload=%s in=%s out=%s%s" % (
            esc(f.name), esc(f.domain), esc(f.overload), names(f.input), names(f.output),
            "".join(" attribute=" + esc(a) for a in f.attribute)))
        for a in f.attribute_proto:
            attribute(a, out)
        opsets(f.opset_import, out)
        nodes(f.node, out)


def data_files(path, m):
    """The tensors of a test's data: what is no tensor by the model's types is left out."""
    for title, values in (("input", m.graph.input), ("output", m.graph.output)):
        given = [v for v in values]
        for file in sorted(glob.glob(os.path.join(os.path.dirname(path), "test_data_set_*",
                                                  title + "_*.pb"))):
            k = int(os.path.basename(file)[len(title) + 1:-3])
            if k < len(given) and given[k].type.WhichOneof("value") == "tensor_type":
                yield file


def main():
    folder, list_path = sys.argv[1:]
    proto = load(folder, "onnx_ml_pb2")
    files = []

    def read(kind, path):
        files.append(path)
        print("file " + path)
        value = kind()
        with open(path, "rb") as f:
            value.ParseFromString(f.read())
        return value

    root = os.path.join(folder, "backend", "test", "data")
    for path in sorted(glob.glob(os.path.join(root, "**", "*.onnx"), recursive=True)):
        m = read(proto.ModelProto, path)
        model(m, print)
        for file in data_files(path, m):
            t = read(proto.TensorProto, file)
            print("tensor name=%s%s" % (esc(t.name), tensor(t)))
    with open(list_path, "w") as f:
        f.writelines(path + "\n" for path in files)


main()

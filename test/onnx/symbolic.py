#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes ONNX's node tests into tests of dynamic sizes.

usage: symbolic.py CASES OUT [--only GLOB]... [--jobs N] [--sets N] [--timeout SECONDS]

CASES is a folder of folders in the layout of ONNX's tests. For each of them the dims of the inputs
become parameters (dim_param), other sizes are found by trying which ones onnxruntime and ONNX's
reference evaluator accept and compute alike (or one of them, where the other cannot compute ONNX's
own data), and OUT/<case> gets the model and the data: set 0 is ONNX's own, sets 1 and up have the
other sizes and what was computed for them.
`ductile check OUT` runs all sets of a folder through one function.

Inputs whose elements are sizes, axes, amounts and the like keep their sizes and elements. A case
without other sizes makes no folder. OUT/table.tsv has a line a case: name, outcome, sizes. The same
arguments give the same files. Needs the packages of `scripts/deps --python`.
"""

import argparse
import fnmatch
import itertools
import json
import os
import select
import shutil
import signal
import sys
import traceback
import warnings
import zlib

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

# Inputs that are numbers, not data: by operator, the positions.
VALUES = {
    "AffineGrid": [1], "BlackmanWindow": [0], "CenterCropPad": [1], "Clip": [1, 2], "Col2Im": [1, 2],
    "ConstantOfShape": [0], "CumProd": [1], "CumSum": [1], "DFT": [1, 2], "Dropout": [1, 2],
    "Expand": [1], "GatherND": [], "HammingWindow": [0], "HannWindow": [0], "IDFT": [1, 2],
    "Loop": [0, 1], "MaxUnpool": [2], "MelWeightMatrix": [0, 1, 2, 3, 4],
    "NonMaxSuppression": [2, 3, 4], "OneHot": [1], "Pad": [1, 2, 3], "Range": [0, 1, 2],
    "ReduceL1": [1], "ReduceL2": [1], "ReduceLogSum": [1], "ReduceLogSumExp": [1], "ReduceMax": [1],
    "ReduceMean": [1], "ReduceMin": [1], "ReduceProd": [1], "ReduceSum": [1], "ReduceSumSquare": [1],
    "Reshape": [1], "Resize": [1, 2, 3], "SequenceAt": [1], "SequenceErase": [1],
    "SequenceInsert": [2], "Slice": [1, 2, 3, 4], "Split": [1], "SplitToSequence": [1],
    "Squeeze": [1], "STFT": [1, 3], "Tile": [1], "TopK": [1], "Trilu": [1], "Unsqueeze": [1],
    "Upsample": [1],
}
# Operators that make such a number of others: by operator, the positions of those.
PASSES = {
    "Add": [0, 1], "Cast": [0], "CastLike": [0], "Concat": range(64), "Div": [0, 1], "Gather": [0],
    "Identity": [0], "Mod": [0, 1], "Mul": [0, 1], "Neg": [0], "Slice": [0], "Split": [0],
    "Squeeze": [0], "Sub": [0, 1], "Unsqueeze": [0],
}
# Operands of which ONNX says that they have another one's sizes, by operator. Where its own data give
# them another rank they keep their sizes: an oracle that takes others says nothing of the operator.
SIZED_AS = {"DequantizeLinear": (2, 1), "QuantizeLinear": (2, 1)}
SEED = 20261122
MOST_RUNS = 600  # of an oracle, a case
MOST_FOR_BOTH = 1 << 14  # elements that the slow one is asked about, too


class Refused(Exception):
    """Why a case has no other sizes."""


# ---- Reading ----------------------------------------------------------------------------------------
def read_tensors(folder, kind, infos):
    out = []
    for k, info in enumerate(infos):
        path = os.path.join(folder, f"{kind}_{k}.pb")
        if info.type.WhichOneof("value") != "tensor_type":
            raise Refused("a sequence or an optional comes in or out")
        if not os.path.exists(path):
            raise Refused("data of an input or output are missing")
        with open(path, "rb") as file:
            out.append(numpy_helper.to_array(onnx.TensorProto.FromString(file.read())))
    return out


def bodies_of(node):
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def mark_values(graph, names):
    """Adds to the names of numbers those that they are computed from, last nodes first."""
    for node in reversed(graph.node):
        for body in bodies_of(node):
            if node.op_type == "If":
                names.update(inner.name for inner, outer in zip(body.output, node.output)
                             if outer in names)
            mark_values(body, names)
        places = list(VALUES.get(node.op_type, []))
        if any(name in names for name in node.output):
            places += PASSES.get(node.op_type, [])
        names.update(node.input[k] for k in places if k < len(node.input))


def value_names(graph):
    """Inputs of operators that are numbers, and of the graph those that such ones come from."""
    direct = {node.input[k] for node in graph.node for k in VALUES.get(node.op_type, [])
              if k < len(node.input)}
    names = set(direct)
    mark_values(graph, names)
    integers = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    lists = {item.name for item in graph.input
             if item.type.tensor_type.elem_type in integers
             and len(item.type.tensor_type.shape.dim) == 1}
    return direct | (names & lists)


def other_ranks(graph, ranks):
    """The inputs that have another rank than ONNX says."""
    names = set()
    for node in graph.node:
        operand, other = SIZED_AS.get(node.op_type, (0, 0))
        if operand < len(node.input) and operand != other:
            name = node.input[operand]
            if ranks.get(name) != ranks.get(node.input[other]):
                names.add(name)
    return names


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.model = onnx.load(os.path.join(folder, "model.onnx"))
        graph = self.model.graph
        own = {item.name for item in graph.initializer}
        self.inputs = [item for item in graph.input if item.name not in own]
        first = os.path.join(folder, "test_data_set_0")
        self.data = read_tensors(first, "input", self.inputs)
        self.want = read_tensors(first, "output", graph.output)
        values = value_names(graph)
        values |= other_ranks(graph, {item.name: data.ndim for item, data in zip(self.inputs, self.data)})
        self.dims = [
            (k, d)
            for k, item in enumerate(self.inputs)
            if item.name not in values
            for d in range(self.data[k].ndim)
        ]
        if not self.inputs:
            raise Refused("no inputs")
        if not self.dims:
            raise Refused("no dim of an input that is data")

    def size(self, at):
        return self.data[at[0]].shape[at[1]]


# ---- Models -----------------------------------------------------------------------------------------
def forget_sizes(graph):
    """Sizes that are written down inside say what they were for set 0."""
    del graph.value_info[:]
    for node in graph.node:
        for body in bodies_of(node):
            for item in list(body.input) + list(body.output):
                if item.type.WhichOneof("value") == "tensor_type":
                    item.type.tensor_type.ClearField("shape")
            forget_sizes(body)


def set_dims(info, names):
    shape = info.type.tensor_type.shape
    for d, name in enumerate(names):
        if name is not None:
            shape.dim[d].Clear()
            if isinstance(name, int):
                shape.dim[d].dim_value = name
            else:
                shape.dim[d].dim_param = name


def with_parameters(case, name_of):
    """The model with its inputs' dims called name_of(input, dim)."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    forget_sizes(model.graph)
    inputs = {item.name: item for item in model.graph.input}
    for k, item in enumerate(case.inputs):
        set_dims(inputs[item.name],
                 [name_of(k, d) if (k, d) in case.dims else None for d in range(case.data[k].ndim)])
    for k, item in enumerate(model.graph.output):
        shape = item.type.tensor_type.shape
        set_dims(item, [f"out{k}_{d}" for d in range(len(shape.dim))])
    return model


# ---- The format -------------------------------------------------------------------------------------
# Sizes that an operator's text rules out, and an oracle or its shape inference takes all the same: by
# operator, what (node, shapes of its inputs, operator set) must be. It is asked where all of a node's
# inputs are the graph's.
def ints_of(node, name, default):
    for attribute in node.attribute:
        if attribute.name == name:
            return list(attribute.ints) or attribute.i or attribute.s.decode()
    return default


def windows_fit(node, kernel, data):
    """No window is larger than what it moves over, with its padding."""
    rank = len(data) - 2
    if ints_of(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return True
    pads = ints_of(node, "pads", [0] * (2 * rank))
    steps = ints_of(node, "dilations", [1] * rank)
    return all((kernel[d] - 1) * steps[d] + 1 <= data[2 + d] + pads[d] + pads[rank + d]
               for d in range(rank))


def pool_fits(node, shapes, _):
    return windows_fit(node, ints_of(node, "kernel_shape", []), shapes[0])


def conv_fits(node, shapes, _):
    weights = shapes[3] if node.op_type == "QLinearConv" else shapes[1]
    return windows_fit(node, weights[2:], shapes[0])


def mask_fits(_, shapes, opset):
    """Before operator set 24 a mask is for all keys, those of the past included."""
    if opset >= 24 or len(shapes) < 4 or not shapes[3]:
        return True
    past = shapes[4][-2] if len(shapes) > 4 and shapes[4] else 0
    return shapes[3][-1] in (1, shapes[1][-2] + past)


def indices_fit(_, shapes, __):
    return shapes[0] == shapes[1]


FORMAT = {
    "Attention": mask_fits, "AveragePool": pool_fits, "Conv": conv_fits, "ConvInteger": conv_fits,
    "LpPool": pool_fits, "MaxPool": pool_fits, "MaxUnpool": indices_fit, "QLinearConv": conv_fits,
}


def in_format(model, shape_of):
    opset = max((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")),
                default=0)
    for node in model.graph.node:
        known = all(name in shape_of or not name for name in node.input)
        fits = FORMAT.get(node.op_type) if known and node.domain in ("", "ai.onnx") else None
        if fits and not fits(node, [shape_of.get(name) for name in node.input], opset):
            return False
    return True


# ---- Oracles ----------------------------------------------------------------------------------------
class Runtime:
    name = "onnxruntime"

    def __init__(self, model):
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, feed):
        return self.session.run(None, feed)


class Reference:
    name = "reference"

    def __init__(self, model):
        from onnx.reference import ReferenceEvaluator

        self.evaluator = ReferenceEvaluator(model)

    def run(self, feed):
        return self.evaluator.run(None, feed)


def same(got, want):
    for a, b in zip(got, want, strict=True):
        a = np.asarray(a)
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if b.dtype.kind in "OSU":
            if not (a.astype(str) == b.astype(str)).all():
                return False
        elif b.dtype.kind in "biu":
            if not (a == b).all():
                return False
        else:
            wide = np.complex128 if b.dtype.kind == "c" else np.float64
            if not np.allclose(a.astype(wide), b.astype(wide), 1e-3, 1e-5, equal_nan=True):
                return False
    return True


def oracles_of(case, model):
    """Those that compute set 0 as ONNX has it, and twice the same."""
    feed = {item.name: array for item, array in zip(case.inputs, case.data)}
    found = []
    for kind in (Runtime, Reference):
        if found and sum(array.size for array in case.data) > MOST_FOR_BOTH:
            break
        try:
            oracle = kind(model)
            if same(oracle.run(feed), case.want) and same(oracle.run(feed), case.want):
                found.append(oracle)
        except Exception:  # whatever an oracle cannot do
            continue
    if not found:
        raise Refused("no oracle computes set 0 as it is")
    return found


# ---- Data -------------------------------------------------------------------------------------------
def resample(rng, array, shape):
    """Elements like those of `array`: these, moved a little where they are no whole numbers."""
    if array.shape == tuple(shape):
        return array
    flat = array.reshape(-1)
    if flat.size == 0:
        return np.zeros(shape, array.dtype)
    out = flat[rng.integers(0, flat.size, int(np.prod(shape)))]
    if array.dtype in (np.float32, np.float64, np.float16):
        finite = flat[np.isfinite(flat)].astype(np.float64)
        if finite.size and (finite != np.round(finite)).any():
            moved = out.astype(np.float64) + rng.uniform(-0.1, 0.1, out.shape) * finite.std()
            moved = np.clip(moved, finite.min(), finite.max())
            out = np.where(np.isfinite(out), moved, out).astype(array.dtype)
    return np.ascontiguousarray(out.reshape(shape))


class Search:
    """Tries sizes: a set of sizes is {(input, dim): size} for all dims."""

    def __init__(self, case, oracles):
        self.case, self.oracles = case, oracles
        self.seed = zlib.crc32(os.path.basename(case.folder).encode()) ^ SEED
        self.runs = 0

    def feed(self, sizes):
        rng = np.random.default_rng(self.seed)
        out = {}
        for k, item in enumerate(self.case.inputs):
            array = self.case.data[k]
            shape = [sizes.get((k, d), array.shape[d]) for d in range(array.ndim)]
            out[item.name] = resample(rng, array, shape)
        return out

    def infers(self, sizes, outputs):
        """What ONNX says of the shapes: oracles let things pass."""
        model = with_parameters(self.case, lambda k, d: int(sizes[k, d]))
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True,
                                                data_prop=True)
        for item, got in zip(inferred.graph.output, outputs, strict=True):
            dims = item.type.tensor_type.shape.dim
            if len(dims) != np.ndim(got):
                return False
            for dim, size in zip(dims, np.shape(got)):
                if dim.HasField("dim_value") and dim.dim_value != size:
                    return False
        return True

    def accepts(self, sizes):
        """The outputs at these sizes, or None."""
        if self.runs >= MOST_RUNS:
            return None
        self.runs += 1
        shapes = [self.shape_of(k, sizes) for k in range(len(self.case.data))]
        if max(int(np.prod(shape)) for shape in shapes) > 1 << 20:
            return None
        if not in_format(self.case.model, {item.name: shape for item, shape
                                           in zip(self.case.inputs, shapes, strict=True)}):
            return None
        try:
            feed = self.feed(sizes)
            outputs = [np.asarray(item) for item in self.oracles[0].run(feed)]
            if not self.infers(sizes, outputs):
                return None
            # One lets things pass that the other refuses, or computes otherwise.
            good = all(same(oracle.run(feed), outputs) for oracle in self.oracles[1:])
            return (feed, outputs) if good else None
        except Exception:  # whatever an oracle refuses
            return None

    def shape_of(self, k, sizes):
        return [sizes.get((k, d), n) for d, n in enumerate(self.case.data[k].shape)]

    # Sizes that change together: each dim of the group is a multiple of `unit`.
    def candidates(self, unit, which, index):
        larger = [unit + 1, unit + 2, 2 * unit, unit + 3, 2 * unit + 1, unit + 4, 4 * unit]
        smaller = [unit - 1] if unit > 2 else []
        if which == 0:
            return larger + smaller
        one = [1] if unit > 1 and index % 2 else []
        return one + smaller + larger[3:] + larger[:3]

    def changed(self, sizes, group, unit, to):
        out = dict(sizes)
        for at in group:
            out[at] = sizes[at] // unit * to
        return out

    def free(self, base, group, unit):
        for to in self.candidates(unit, 0, 0)[:5]:
            if self.accepts(self.changed(base, group, unit, to)):
                return True
        return False

    def groups(self, base):
        """Dims that can change, each alone or with others: [(dims, unit)]."""
        found, left = [], []
        for at in self.case.dims:
            if base[at] and self.free(base, [at], base[at]):
                found.append(([at], base[at]))
            elif base[at]:
                left.append(at)
        for tied in self.ties(base, left):
            if all(at in left for at in tied[0]) and self.free(base, *tied):
                found.append(tied)
                left = [at for at in left if at not in tied[0]]
        return found

    # Dims that may have to change together, likelier ones first.
    def ties(self, base, left):
        for unit in sorted({base[at] for at in left}, reverse=True):
            equal = [at for at in left if base[at] == unit]
            multiples = [at for at in left if base[at] % unit == 0]
            if len(equal) > 1:
                yield equal, unit
            for n in (2, 3):
                for some in itertools.islice(itertools.combinations(equal, n), 40):
                    if len(some) < len(equal):
                        yield list(some), unit
            if unit > 1 and len(multiples) > len(equal):
                yield multiples, unit
                for n in (2, 3, 4):
                    for some in itertools.islice(itertools.combinations(multiples, n), 40):
                        if any(base[at] != unit for at in some) and unit in (base[at] for at in some):
                            yield list(some), unit
        if len(left) > 1:
            yield left, 1

    def find(self, n_sets):
        """The groups, and sizes with data for each further set."""
        base = {at: self.case.size(at) for at in self.case.dims}
        groups, sets, seen = self.groups(base), [], [base]
        for which in range(n_sets):
            sizes, best = dict(base), None
            for index, (group, unit) in enumerate(groups):
                for to in self.candidates(unit, which, index):
                    next_sizes = self.changed(sizes, group, unit, to)
                    if next_sizes in seen:
                        continue
                    got = self.accepts(next_sizes)
                    if got:
                        sizes, best = next_sizes, got
                        break
            if best:
                seen.append(sizes)
                sets.append((sizes, *best))
        return groups, sets


# ---- Writing ----------------------------------------------------------------------------------------
def names_of(case, groups):
    """Dims that change together and are equal share a name; every other has its own."""
    names = {}
    for group, _ in groups:
        for at in group:
            peers = [other for other in group if case.size(other) == case.size(at)]
            names[at] = "n%d_%d" % peers[0]
    return lambda k, d: names.get((k, d), f"n{k}_{d}")


def write_set(folder, case, feed, outputs):
    os.makedirs(folder)
    for k, item in enumerate(case.inputs):
        write_tensor(folder, "input", k, item, feed[item.name])
    for k, item in enumerate(case.model.graph.output):
        write_tensor(folder, "output", k, item, outputs[k])


def write_tensor(folder, kind, k, item, array):
    declared = onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
    if array.dtype.kind not in "OSU":
        array = np.ascontiguousarray(array.astype(declared)).reshape(array.shape)
    with open(os.path.join(folder, f"{kind}_{k}.pb"), "wb") as file:
        file.write(numpy_helper.from_array(array, item.name).SerializeToString(deterministic=True))


def write_case(out, case, model, sets):
    os.makedirs(out)
    with open(os.path.join(out, "model.onnx"), "wb") as file:
        file.write(model.SerializeToString(deterministic=True))
    if os.path.exists(os.path.join(case.folder, "data.json")):
        shutil.copy(os.path.join(case.folder, "data.json"), out)
    shutil.copytree(os.path.join(case.folder, "test_data_set_0"), os.path.join(out, "test_data_set_0"))
    for k, (_, feed, outputs) in enumerate(sets):
        write_set(os.path.join(out, f"test_data_set_{k + 1}"), case, feed, outputs)


def sizes_text(case, sets):
    def shapes(sizes):
        rows = []
        for k, item in enumerate(case.inputs):
            row = [str(sizes.get((k, d), n)) for d, n in enumerate(case.data[k].shape)]
            rows.append(f"{item.name}[{','.join(row)}]")
        return " ".join(rows)

    return " | ".join([shapes({})] + [shapes(sizes) for sizes, _, _ in sets])


def work(folder, out, options):
    """(outcome, detail) of one case."""
    warnings.simplefilter("ignore")
    try:
        case = Case(folder)
        model = with_parameters(case, lambda k, d: f"n{k}_{d}")
        oracles = oracles_of(case, model)
        search = Search(case, oracles)
        groups, sets = search.find(options.sets)
        if not sets:
            raise Refused("no other sizes are accepted")
        write_case(out, case, with_parameters(case, names_of(case, groups)), sets)
        return f"{len(sets)} by {' and '.join(oracle.name for oracle in oracles)}", sizes_text(case, sets)
    except Refused as why:
        return str(why), ""
    except Exception as why:  # of this program, too: the table has it
        return "failed", traceback.format_exception_only(why)[-1].strip()


# ---- All cases, each in a process of its own: an oracle may end it ----------------------------------
def start(name, options):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        signal.alarm(options.timeout)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        result = work(os.path.join(options.cases, name), os.path.join(options.out, name), options)
        os.write(write, json.dumps(result).encode()[:60000])
        os._exit(0)
    os.close(write)
    return read, pid


def finish(read, pid):
    text = b""
    while part := os.read(read, 65536):
        text += part
    os.close(read)
    _, status = os.waitpid(pid, 0)
    if status == 0:
        return json.loads(text)
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    return ["out of time" if late else "an oracle ended the process", ""]


def run_all(names, options):
    results, running, waiting = {}, {}, list(names)
    while running or waiting:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            read, pid = start(name, options)
            running[read] = (name, pid)
        for read in select.select(list(running), [], [])[0]:
            name, pid = running.pop(read)
            results[name] = finish(read, pid)
            if results[name][1] == "":
                shutil.rmtree(os.path.join(options.out, name), ignore_errors=True)
    return results


def report(results, options):
    with open(os.path.join(options.out, "table.tsv"), "w", encoding="utf-8") as file:
        for name in sorted(results):
            file.write("\t".join([name, *results[name]]) + "\n")
    counts = {}
    for outcome, _ in results.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    for outcome, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:6}  {outcome}")
    print(f"{len(results):6}  cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases")
    parser.add_argument("out")
    parser.add_argument("--only", action="append", metavar="GLOB",
                        help="of the folders, those whose names are so; may be given again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sets", type=int, default=2, help="of other sizes (default 2)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds, for a case")
    options = parser.parse_args()
    if os.path.exists(options.out) and os.listdir(options.out):
        sys.exit(f"symbolic.py: {options.out} is not empty")
    os.makedirs(options.out, exist_ok=True)
    names = sorted(name for name in os.listdir(options.cases)
                   if any(fnmatch.fnmatch(name, glob) for glob in options.only or ["*"])
                   and os.path.exists(os.path.join(options.cases, name, "model.onnx")))
    import onnx.reference.ops._op_list  # noqa: F401  once, not in each process
    import onnxruntime  # noqa: F401

    report(run_all(names, options), options)


if __name__ == "__main__":
    main()

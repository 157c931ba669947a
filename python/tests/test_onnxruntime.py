# SPDX-License-Identifier: Apache-2.0
"""usage: test_onnxruntime.py BETWEEN. onnxruntime with Ductile's provider, against its CPU provider and numpy. BETWEEN is
the library of test/onnxruntime."""

import ctypes
import gc
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

from support import main, np, same

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("SKIP: no onnx or onnxruntime: scripts/deps --python")
    sys.exit(77)
if not hasattr(onnxruntime, "register_execution_provider_library"):
    print(f"SKIP: onnxruntime {onnxruntime.__version__} has no providers in libraries")
    sys.exit(77)

import ductile.onnxruntime as provider

BETWEEN = sys.argv.pop(1)
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
RECORDS = VERSION >= (1, 24)  # which provider has which nodes
SIZES = (0, 1, 2, 3, 5, 8, 13, 31, 64, 100)
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

# Failures of onnxruntime's, which are no subclasses of one.
Failure = Exception
node, value = helper.make_node, helper.make_tensor_value_info


def model(nodes, inputs, outputs, constants=(), opset=20):
    graph = helper.make_graph(nodes, "graph", [value(*row) for row in inputs], [value(*row) for row in outputs],
                              [numpy_helper.from_array(array, name) for name, array in constants])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 10
    return made


def session(made, ours=True, **settings):
    """Of a model, or of the file at a path."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = made if isinstance(made, str) else made.SerializeToString()
    if not ours:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    if RECORDS:
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    provider.add(options, **settings)
    return onnxruntime.InferenceSession(source, options)


def assigned(session):
    """The nodes of each part of Ductile's, and those of others."""
    parts = [(part.ep_name, [each.op_type for each in part.get_nodes()])
             for part in session.get_provider_graph_assignment_info()]
    return ([ops for name, ops in parts if name == provider.NAME],
            [op for name, ops in parts if name != provider.NAME for op in ops])


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rng = np.random.default_rng(7)

    def floats(self, *sizes):
        return self.rng.standard_normal(sizes).astype(np.float32)

    def check(self, made, feeds, whole=True, **settings):
        """Both providers' answers to each of the feeds agree; gives the session."""
        ours, theirs = session(made, **settings), session(made, ours=False)
        for feed in feeds:
            got, expected = ours.run(None, feed), theirs.run(None, feed)
            for a, b in zip(got, expected, strict=True):
                self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                if a.dtype.kind == "f":
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
                else:
                    np.testing.assert_array_equal(a, b)
        if whole and RECORDS:
            self.assertEqual(assigned(ours)[1], [])
        return ours


class Ops(Case):
    def test_dtypes(self):
        """Elements of each type that is handed over come through as they are."""
        import ml_dtypes
        types = [np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
                 np.uint32, np.uint64, np.bool_, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
                 ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz]
        for dtype in types:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            made = model([node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Reshape", ["t", "flat"], ["y"])],
                         [("x", kind, ["n", "m"])], [("y", kind, ["k"])], [("flat", np.array([-1]))], opset=23)
            with self.subTest(dtype=np.dtype(dtype).name):
                run = session(made)
                for n in (0, 1, 3):
                    x = self.rng.integers(0, 2 if dtype is np.bool_ else 100, (n, 5)).astype(dtype)
                    given = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x, kind)
                    made_value = run.run_with_ort_values(None, {"x": given})[0]
                    self.assertEqual(list(made_value.shape()), [5 * n])
                    self.assertEqual(made_value.element_type(), kind)
                    expected = x.T.ravel()
                    raw = np.frombuffer(memory_of(made_value, expected.nbytes), expected.dtype)
                    self.assertEqual(raw.tobytes(), expected.tobytes())
                if RECORDS:
                    self.assertEqual(assigned(run)[1], [])

    def test_arithmetic(self):
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            made = model([node("Add", ["x", "b"], ["s"]), node("Mul", ["s", "x"], ["p"]),
                          node("ReduceSum", ["p", "axes"], ["y"], keepdims=0)],
                         [("x", kind, ["n", 7])], [("p", kind, ["n", 7]), ("y", kind, ["n"])],
                         [("b", np.arange(7).astype(dtype)), ("axes", np.array([1]))])
            with self.subTest(dtype=np.dtype(dtype).name):
                self.check(made, [{"x": (10 * self.floats(n, 7)).astype(dtype)} for n in SIZES])

    def test_sizes(self):
        """Two open dims, weights, and a shape that the model computes."""
        made = model([node("MatMul", ["x", "w"], ["p"]), node("Shape", ["x"], ["s"]),
                      node("Slice", ["s", "zero", "two"], ["lead"]), node("Concat", ["lead", "heads"], ["to"], axis=0),
                      node("Reshape", ["p", "to"], ["h"]), node("Softmax", ["h"], ["y"])],
                     [("x", F32, ["batch", "length", 24])], [("y", F32, ["batch", "length", 4, 8])],
                     [("w", self.floats(24, 32)), ("zero", np.array([0])), ("two", np.array([2])),
                      ("heads", np.array([4, 8]))])
        self.check(made, [{"x": self.floats(b, s, 24)} for b, s in
                          ((1, 1), (2, 3), (0, 4), (3, 0), (1, 17), (5, 5), (8, 2), (4, 31), (2, 64), (7, 9))])

    def test_scalars(self):
        made = model([node("Mul", ["x", "x"], ["s"]), node("Add", ["s", "one"], ["y"])],
                     [("x", F32, [])], [("y", F32, [])], [("one", np.array(1, np.float32))])
        self.check(made, [{"x": np.array(k, np.float32)} for k in range(3)])

    def test_input_through(self):
        """Results that are inputs, constants, or one value twice."""
        made = model([node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"]), node("Identity", ["c"], ["k"])],
                     [("x", F32, ["n"])],
                     [("y", F32, ["n"]), ("z", F32, ["n"]), ("x", F32, ["n"]), ("k", F32, [2])],
                     [("c", np.array([3, 4], np.float32))])
        made.graph.output[2].name = "x"
        self.check(made, [{"x": self.floats(n)} for n in (0, 1, 6)], whole=False)

    def test_data_decide_sizes(self):
        made = model([node("NonZero", ["x"], ["z"]), node("Transpose", ["z"], ["y"]), node("Neg", ["x"], ["n"])],
                     [("x", F32, ["n", "m"])], [("y", I64, ["k", 2]), ("n", F32, ["n", "m"])])
        self.check(made, [{"x": (self.rng.random((n, 6)) > 0.5).astype(np.float32)} for n in SIZES])

    def test_numbers_decide_sizes(self):
        """Elements of an input that are sizes change while its own size does not."""
        made = model([node("Expand", ["x", "to"], ["e"]), node("Neg", ["e"], ["y"])],
                     [("x", F32, ["n", 1]), ("to", I64, [2])], [("y", F32, ["a", "b"])])
        self.check(made, [{"x": self.floats(n, 1), "to": np.array([n, m])}
                          for n, m in ((2, 3), (2, 3), (2, 5), (2, 3), (3, 3), (2, 3), (0, 3), (2, 1))])

    def test_attributes(self):
        """Numbers, lists and texts of attributes come over."""
        made = model([node("Pad", ["x", "pads", "fill"], ["p"], mode="constant"),
                      node("Conv", ["p", "w"], ["c"], strides=[2, 1], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
                      node("LeakyRelu", ["c"], ["l"], alpha=0.25),
                      node("LSTM", ["s", "W", "R"], ["", "h"], hidden_size=4, direction="bidirectional",
                           activations=["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Softsign"])],
                     [("x", F32, ["n", 2, "h", "w"]), ("s", F32, ["t", "n", 3])],
                     [("l", F32, None), ("h", F32, [2, "n", 4])],
                     [("pads", np.array([0, 0, 1, 0, 0, 0, 0, 2])), ("fill", np.array(0.5, np.float32)),
                      ("w", self.floats(3, 2, 3, 3)), ("W", self.floats(2, 16, 3)), ("R", self.floats(2, 16, 4))])
        self.check(made, [{"x": self.floats(n, 2, h, 5), "s": self.floats(t, n, 3)}
                          for n, h, t in ((1, 4, 1), (2, 7, 3), (3, 9, 5))])

    def test_contrib(self):
        """An operator of onnxruntime's own domain, as its optimiser writes them into files."""
        made = model([node("Gelu", ["x"], ["g"], domain="com.microsoft"),
                      node("FusedMatMul", ["g", "w"], ["y"], domain="com.microsoft", transB=1, alpha=0.5)],
                     [("x", F32, ["n", 8])], [("y", F32, ["n", 5])], [("w", self.floats(5, 8))])
        made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        self.check(made, [{"x": self.floats(n, 8)} for n in SIZES])


def memory_of(ort_value, n):
    return (ctypes.c_char * n).from_address(ort_value.data_ptr()) if n else b""


def branch(name, nodes, outputs, inputs=(), constants=()):
    return helper.make_graph(nodes, name, [value(*row) for row in inputs], [value(*row) for row in outputs],
                             [numpy_helper.from_array(array, key) for key, array in constants])


class Control(Case):
    def test_if(self):
        then = branch("then", [node("Mul", ["p", "two"], ["t"])], [("t", F32, None)],
                      constants=[("two", np.array(2, np.float32))])
        otherwise = branch("else", [node("Neg", ["p"], ["a"]), node("Exp", ["a"], ["e"])], [("e", F32, None)])
        made = model([node("MatMul", ["x", "w"], ["p"]),
                      node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)],
                     [("x", F32, ["n", 8]), ("c", BOOL, [])], [("y", F32, ["n", 8])], [("w", self.floats(8, 8))])
        self.check(made, [{"x": self.floats(n, 8), "c": np.array(c)} for n in SIZES for c in (True, False)],
                   whole=VERSION >= (1, 24))

    def test_loop(self):
        """With constants outside and within, a state, and an output of each trip."""
        body = branch("body", [node("Add", ["s", "step"], ["r"]), node("Add", ["r", "more"], ["next"]),
                               node("Identity", ["go"], ["on"]), node("Identity", ["next"], ["row"])],
                      [("on", BOOL, []), ("next", F32, [3]), ("row", F32, [3])],
                      [("i", I64, []), ("go", BOOL, []), ("s", F32, [3])],
                      [("step", np.array([1, 2, 3], np.float32))])
        made = model([node("Loop", ["trips", "", "x"], ["last", "rows"], body=body)],
                     [("trips", I64, []), ("x", F32, [3]), ("more", F32, [3])],
                     [("last", F32, [3]), ("rows", F32, ["t", 3])])
        self.check(made, [{"trips": np.array(t), "x": self.floats(3), "more": self.floats(3)} for t in (0, 1, 2, 9)],
                   whole=VERSION >= (1, 27))

    def test_branch_not_supported(self):
        """What a branch has that is not supported leaves the node to the other; what stands around goes on."""
        then = branch("then", [node("Det", ["p"], ["t"])], [("t", F32, ["n"])])
        otherwise = branch("else", [node("ReduceSum", ["p", "axes"], ["e"], keepdims=0)], [("e", F32, ["n"])],
                           constants=[("axes", np.array([1, 2]))])
        made = model([node("MatMul", ["x", "w"], ["p"]),
                      node("If", ["c"], ["d"], then_branch=then, else_branch=otherwise),
                      node("Exp", ["d"], ["e"]), node("Add", ["e", "e"], ["a"]), node("Mul", ["a", "d"], ["m"]),
                      node("Sin", ["m"], ["y"])],
                     [("x", F32, ["n", 4, 4]), ("c", BOOL, [])], [("y", F32, ["n"])],
                     [("w", 0.3 * self.floats(4, 4))])
        run = self.check(made, [{"x": self.floats(n, 4, 4), "c": np.array(c)} for n in (1, 5) for c in (True, False)],
                         whole=False)
        if RECORDS:
            parts, others = assigned(run)
            self.assertIn(["MatMul"], parts)
            self.assertIn(["Exp", "Add", "Mul", "Sin"], parts)
            self.assertIn("If", others)


class Parts(Case):
    def middle(self):
        """Det is not supported."""
        return model([node("MatMul", ["x", "w"], ["p"]), node("Tanh", ["p"], ["q"]), node("Det", ["q"], ["d"]),
                      node("Exp", ["d"], ["e"]), node("Neg", ["e"], ["n"]), node("Mul", ["n", "d"], ["m"]),
                      node("ReduceSum", ["q", "axes"], ["r"], keepdims=0), node("Add", ["m", "r"], ["y"])],
                     [("x", F32, ["n", 4, 4])], [("y", F32, ["n"])],
                     [("w", self.floats(4, 4)), ("axes", np.array([1, 2]))])

    def test_middle(self):
        run = self.check(self.middle(), [{"x": self.floats(n, 4, 4)} for n in SIZES if n], whole=False)
        if RECORDS:
            parts, others = assigned(run)
            self.assertEqual(others, ["Det"])
            self.assertEqual(sorted(map(sorted, parts)),
                             [["Add", "Exp", "Mul", "Neg"], ["MatMul", "ReduceSum", "Tanh"]])

    def test_small(self):
        """A part that does not pay is left, unless it shall not be."""
        made = model([node("Neg", ["x"], ["a"]), node("Det", ["a"], ["y"])], [("x", F32, ["n", 3, 3])],
                     [("y", F32, ["n"])])
        feeds = [{"x": self.floats(2, 3, 3)}]
        for settings, ours in (({}, []), ({"min_nodes": 1}, [["Neg"]])):
            run = self.check(made, feeds, whole=False, **settings)
            if RECORDS:
                self.assertEqual(assigned(run)[0], ours)

    def test_nothing(self):
        made = model([node("StringConcat", ["x", "x"], ["y"])], [("x", TensorProto.STRING, ["n"])],
                     [("y", TensorProto.STRING, ["n"])])
        run = session(made)
        self.assertEqual(list(run.run(None, {"x": np.array(["a", "b"], object)})[0]), ["aa", "bb"])

    def test_texts_beside(self):
        """Values that are not handed over end parts."""
        made = model([node("MatMul", ["x", "w"], ["p"]), node("Cast", ["p"], ["s"], to=TensorProto.STRING),
                      node("Cast", ["s"], ["f"], to=F32), node("MatMul", ["f", "w"], ["y"])],
                     [("x", F32, ["n", 4])], [("y", F32, ["n", 4])], [("w", self.floats(4, 4))])
        self.check(made, [{"x": self.floats(n, 4)} for n in (1, 3)], whole=False)

    def test_strict(self):
        with self.assertRaisesRegex(Failure, r"Ductile: 1 of 8 nodes are not supported \(strict\): Det: .*\"d\""):
            session(self.middle(), strict=True)
        made = model([node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["y"])], [("x", F32, ["n"])], [("y", F32, ["n"])])
        self.check(made, [{"x": self.floats(3)}], strict=True)


class Settings(Case):
    def linear(self):
        return model([node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])], [("x", F32, ["n", 16])],
                     [("y", F32, ["n", 8])], [("w", self.floats(16, 8)), ("b", self.floats(8))])

    def test_refused(self):
        for settings, told in (({"strikt": 1}, "no option \"strikt\": there are dims, min_nodes"),
                               ({"strict": "yes"}, "option strict is \"yes\": expected 0 or 1"),
                               ({"threads": 0}, "option threads is \"0\": expected \"session\" or a number"),
                               ({"min_nodes": -1}, "option min_nodes is \"-1\""),
                               ({"prepare": "worst"}, "option prepare is \"worst\""),
                               ({"weights": "f16"}, "option weights is \"f16\""),
                               ({"dims": "n"}, "option dims is \"n\": expected NAME=SIZE"),
                               ({"dims": {"n": (1, "x")}}, "option dims is \"n=1:x\"")):
            with self.assertRaisesRegex(Failure, re.escape(told)):
                session(self.linear(), **settings)

    def test_taken(self):
        made = self.linear()
        feeds = [{"x": self.floats(n, 16)} for n in SIZES]
        for settings in ({"threads": 1}, {"threads": 2}, {"threads": "session"}, {"prepare": "none"},
                         {"prepare": "first"}, {"strict_fp": True}, {"names_are_hints": True},
                         {"dims": {"n": (0, 200), "m": 3}}, {"dims": ""}, {"weights": ""}):
            with self.subTest(**settings):
                self.check(made, feeds, **settings)

    def test_weights(self):
        """Rounded weights give other results, near those."""
        made, x = self.linear(), self.floats(4, 16)
        exact, rounded = (session(made, weights=w).run(None, {"x": x})[0] for w in ("", "bf16"))
        self.assertFalse(np.array_equal(exact, rounded))
        np.testing.assert_allclose(exact, rounded, atol=0.2)

    def test_dims(self):
        """Bounds of a dim hold at each call."""
        run = session(self.linear(), dims={"n": (1, 4)})
        run.run(None, {"x": self.floats(4, 16)})
        with self.assertRaisesRegex(Failure, "Ductile: DT_E_SHAPE: .*5"):
            run.run(None, {"x": self.floats(5, 16)})

    def test_names_are_hints(self):
        """Dims of one name that have two sizes."""
        made = model([node("ReduceSum", ["a", "axes"], ["s"]), node("Mul", ["s", "b"], ["y"])],
                     [("a", F32, ["n"]), ("b", F32, ["n"])], [("y", F32, ["n"])], [("axes", np.array([0]))])
        feed = {"a": self.floats(3), "b": self.floats(5)}
        with self.assertRaisesRegex(Failure, "Ductile: DT_E_SHAPE: "):
            session(made).run(None, feed)
        self.check(made, [feed], names_are_hints=True)


class Calls(Case):
    def gather(self):
        return model([node("Gather", ["t", "i"], ["g"]), node("Add", ["g", "x"], ["y"])],
                     [("i", I64, ["n"]), ("x", F32, ["m", 3])], [("y", F32, ["k", 3])], [("t", self.floats(10, 3))])

    def test_failures(self):
        """They come with Ductile's words, and the session goes on."""
        run = session(self.gather())
        good = {"i": np.array([0, 9]), "x": self.floats(2, 3)}
        run.run(None, good)
        with self.assertRaisesRegex(Failure, r"INVALID_ARGUMENT : .*Ductile: DT_E_RANGE: .*10 is outside \[-10, 10\)"):
            run.run(None, {"i": np.array([0, 10]), "x": self.floats(2, 3)})
        with self.assertRaisesRegex(Failure, "INVALID_ARGUMENT : .*Ductile: DT_E_SHAPE: "):
            run.run(None, {"i": np.array([0, 9, 1]), "x": self.floats(2, 3)})
        self.assertEqual(run.run(None, good)[0].shape, (2, 3))

    def test_threads(self):
        """Eight threads in one session, and two sessions; each call has its own size."""
        made = model([node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])], [("x", F32, ["n", 32])],
                     [("y", F32, ["n", 16])], [("w", self.floats(32, 16))])
        runs = [session(made), session(made, threads=2)]
        inputs = [self.floats(n, 32) for n in SIZES]
        expected = [runs[0].run(None, {"x": x})[0] for x in inputs]
        wrong = []

        def work(first):
            for turn in range(60):
                k = (first + turn) % len(inputs)
                got = runs[turn % 2].run(None, {"x": inputs[k]})[0]
                if not same(got, expected[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_bound(self):
        """Results in memory of the caller's; memory that is input and result at once."""
        made = model([node("Mul", ["x", "two"], ["d"]), node("Sub", ["d", "one"], ["y"])], [("x", F32, ["n"])],
                     [("y", F32, ["n"])], [("two", np.array(2, np.float32)), ("one", np.array(1, np.float32))])
        run = session(made)
        x = self.floats(50)
        for into in (np.zeros(50, np.float32), x.copy()):
            source = into if into.any() else x
            binding = run.io_binding()
            for bind, name, array in ((binding.bind_input, "x", source), (binding.bind_output, "y", into)):
                bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
            run.run_with_iobinding(binding)
            np.testing.assert_array_equal(into, x * 2 - 1)

    def test_default(self):
        """An input with a default value is given by the call or not."""
        made = model([node("Add", ["x", "d"], ["y"])], [("x", F32, ["n"]), ("d", F32, [1])], [("y", F32, ["n"])],
                     [("d", np.array([5], np.float32))])
        x = self.floats(4)
        self.check(made, [{"x": x}, {"x": x, "d": np.array([7], np.float32)}])

    def test_external(self):
        """Weights in a file beside the model, which are read where onnxruntime has them."""
        w, e = self.floats(64, 512), self.floats(300, 64)
        made = model([node("Gather", ["e", "i"], ["g"]), node("MatMul", ["g", "w"], ["y"])], [("i", I64, ["n"])],
                     [("y", F32, ["n", 512])], [("w", w), ("e", e)])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
            run = self.check(path, [{"i": self.rng.integers(0, 300, n)} for n in SIZES])
        i = np.array([1, 2])
        np.testing.assert_allclose(run.run(None, {"i": i})[0], e[i] @ w, rtol=1e-4, atol=1e-4)


PROGRAM = """
import sys, numpy, ductile.onnxruntime as provider
assert "onnxruntime" not in sys.modules
import onnxruntime
from onnx import ModelProto
path, between = sys.argv[1:]
def session(**settings):
    options = provider.options(**settings)
    options.log_severity_level = 1
    return onnxruntime.InferenceSession(path, options)
"""


class Life(Case):
    def program(self, text):
        """What a process says that runs the text after PROGRAM, with a model at path."""
        made = model([node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])], [("x", F32, ["n", 64])],
                     [("y", F32, ["n", 64])], [("w", self.floats(64, 64)), ("b", self.floats(64))])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.onnx")
            onnx.save(made, path)
            done = subprocess.run([sys.executable, "-B", "-c", PROGRAM + text, path, BETWEEN], capture_output=True,
                                  text=True, env={**os.environ, "BETWEEN_PROVIDER": provider.library()})
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout + done.stderr

    def test_constants_stay(self):
        """What was lent to the function while it was compiled is where calls give it."""
        said = self.program("session().run(None, {'x': numpy.ones((3, 64), 'f4')})")
        self.assertIn("Ductile takes all", said)
        self.assertNotIn("constants have moved", said)

    def test_constants_move(self):
        """If they lie elsewhere, the function is made anew over them, once."""
        said = self.between("""
library.between_move()
run = session()
for rows in (3, 1, 3):
    x = numpy.arange(64 * rows, dtype='f4').reshape(rows, 64)
    assert numpy.allclose(run.run(None, {'x': x})[0], plain.run(None, {'x': x})[0], rtol=1e-4)
""")
        self.assertEqual(said.count("constants have moved"), 0)  # they were there from the beginning
        said = self.between("""
run = session()
library.between_move()
for rows in (3, 1, 3):
    x = numpy.arange(64 * rows, dtype='f4').reshape(rows, 64)
    assert numpy.allclose(run.run(None, {'x': x})[0], plain.run(None, {'x': x})[0], rtol=1e-4)
""")
        self.assertEqual(said.count("constants have moved"), 1)

    def test_onnxruntime_fails(self):
        """Each of onnxruntime's functions fails once: the session or the call fails with its words, or answers."""
        said = self.between("""
x = numpy.arange(64 * 3, dtype='f4').reshape(3, 64)
expected = plain.run(None, {'x': x})[0]
def attempt(n):
    library.between_fail(n)
    try:
        got = session().run(None, {'x': x})[0]
    except Exception as failed:
        assert 'asked to fail' in str(failed), failed
        return 'refused'
    finally:
        made = library.between_calls()
        library.between_fail(0)
    assert numpy.allclose(got, expected, rtol=1e-4)
    return 'answered' if made >= n else 'done'
ends, n = [], 0
while not ends or ends[-1] != 'done':
    n += 1
    ends.append(attempt(n))
assert attempt(0) in ('answered', 'done')
print('ends', {end: ends.count(end) for end in ends})
""")
        ends = re.search(r"ends .*'refused': (\d+)", said)
        self.assertGreater(int(ends[1]), 20, said[-500:])

    def between(self, text):
        """As `program`, with the library between them registered, which makes `session`'s provider, too."""
        return self.program("""
import ctypes
library = ctypes.CDLL(between)
onnxruntime.register_execution_provider_library('between', between)
plain = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
""" + text)

    def test_again(self):
        self.program("""
for turn in range(3):
    assert provider.devices() == []
    provider.register()
    provider.register()
    assert len(provider.devices()) == 1
    session().run(None, {'x': numpy.ones((turn, 64), 'f4')})
    provider.unregister()
    provider.unregister()
""")

    def test_outlives(self):
        """A session that is released after the registration."""
        self.program("""
run = session()
x = numpy.ones((3, 64), 'f4')
before = run.run(None, {'x': x})[0]
provider.unregister()
assert (run.run(None, {'x': x})[0] == before).all()
provider.register()
other = session(threads=1)
del run
assert (other.run(None, {'x': x})[0] == before).all()
del other
""")

    def test_exit(self):
        """The process ends with sessions alive, one of which nobody has called, and with the registration."""
        self.program("""
runs = [session(), session(prepare='none'), session(threads=2)]
runs[0].run(None, {'x': numpy.ones((3, 64), 'f4')})
""")

    def test_no_leaks(self):
        """Sessions give back what they took."""
        made = model([node("MatMul", ["x", "w"], ["y"])], [("x", F32, ["n", 512])], [("y", F32, ["n", 1024])],
                     [("w", self.floats(512, 1024))])
        x = self.floats(3, 512)

        def turn():
            session(made).run(None, {"x": x})
            gc.collect()

        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        for _ in range(5):
            turn()
        before = resident()
        for _ in range(20):
            turn()
        self.assertLess(resident() - before, 10 * x.nbytes + 20 * (1 << 20))


if __name__ == "__main__":
    main()

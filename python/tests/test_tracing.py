# SPDX-License-Identifier: Apache-2.0
"""Programs in Python against numpy: each builder, operators, indices, control, guards over sizes."""

import inspect
import math
import traceback
import unittest

from support import main, np

import ductile
from ductile import ops

INPUT = ductile.Input
SIZES = ((3, 4), (1, 4), (0, 4), (2, 1), (5, 7))


def trace(program, *inputs, outputs=1, **options):
    """A Function; an input is (dtype, rank), or an Input."""
    named = [i if isinstance(i, INPUT) else INPUT("abcdefgh"[k], i[0], [None] * i[1]) for k, i in enumerate(inputs)]
    return ductile.function(program, inputs=named, outputs=outputs, **options)


def filled(rng, dtype, sizes):
    if dtype == "bool":
        return rng.integers(0, 2, sizes).astype(bool)
    if dtype.startswith("f"):
        return rng.uniform(0.1, 0.9, sizes).astype({"f32": "f4", "f64": "f8"}[dtype])
    return rng.integers(0, 5, sizes).astype({"i64": "i8", "i32": "i4", "u8": "u1"}[dtype])


FLOAT = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": lambda x: x * np.nan, "atanh": np.arctanh, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "isnan": np.isnan, "isinf": np.isinf,
    "erf": np.vectorize(math.erf, otypes="f"), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": np.vectorize(lambda x: x * (1 + math.erf(x / 2 ** 0.5)) / 2, otypes="f"),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3))),
}
OTHER = {"logical_not": ("bool", np.logical_not), "bit_not": ("i64", np.invert)}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.mod, "fmod": np.fmod,
    "pow": np.power, "maximum": np.maximum, "minimum": np.minimum, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
BIT = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
       "shift_left": np.left_shift, "shift_right": np.right_shift}
REDUCE = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min, "var": np.var}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def normalise(x, scale, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def convolve(x, w):
    """Stride 1, no padding, two spatial dims."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwij,mcij->nmhw", windows, w)


def scattered(x, k, u):
    y = x.copy()
    for at, value in zip(k, u):
        y[at] += value
    return y


# Name, inputs, program, what numpy says; sizes of each input where not (3, 4).
CASES = [
    ("scalar", ["f32"], lambda x: x + ops.scalar("f32", 2.5), lambda x: x + np.float32(2.5)),
    ("iota", ["f32"], lambda x: ops.iota("i64", x.shape, 1), lambda x: np.indices(x.shape)[1]),
    ("full", ["f32"], lambda x: ops.full("f32", 2, [x.shape[1], 3]), lambda x: np.full((x.shape[1], 3), 2, "f4")),
    ("range", ["f32"], lambda x: ops.range("i32", 0, x.shape[0], 2), lambda x: np.arange(0, x.shape[0], 2, "i4")),
    ("size_value", ["f32"], lambda x: ops.size_value(x.shape[0] * 2), lambda x: np.int64(x.shape[0] * 2)),
    ("where", ["f32", "f32"], lambda a, b: ops.where(a < b, a, 0), lambda a, b: np.where(a < b, a, np.float32(0))),
    ("cast", ["f32"], lambda x: ops.cast(x * 9, "i32"), lambda x: (x * 9).astype("i4")),
    ("cast_as", ["f32"], lambda x: ops.cast(ops.cast_as(x * 1000, "f8e4m3fn", 1), "f32") * 0, lambda x: np.where(x * 1000 >= 464, np.nan, 0).astype("f4")),
    ("bitcast", ["f32"], lambda x: ops.bitcast(x, "i32"), lambda x: x.view("i4")),
    ("reshape", ["f32"], lambda x: ops.reshape(x, [x.shape[0] * x.shape[1]]), lambda x: x.reshape(x.size)),
    ("permute", ["f32"], lambda x: ops.permute(x, [1, 0]), lambda x: x.T),
    ("transpose", ["f32"], lambda x: ops.transpose(x), lambda x: x.T),
    ("unsqueeze", ["f32"], lambda x: ops.unsqueeze(x, 1), lambda x: x[:, None]),
    ("squeeze", ["f32"], lambda x: ops.squeeze(x[:, None], axis=1), lambda x: x),
    ("expand", ["f32"], lambda x: ops.expand(x[None], [3, *x.shape]), lambda x: np.broadcast_to(x, (3, *x.shape))),
    ("slice", ["f32"], lambda x: ops.slice(x, 1, 0, 1, 1), lambda x: x[:, :1]),
    ("slice_range", ["f32"], lambda x: ops.slice_range(x, 0, -2, 9), lambda x: x[-2:9]),
    ("as_strided", ["f32"], lambda x: ops.as_strided(x, x.shape, [x.shape[1], 1]), lambda x: x),
    ("diagonal", ["f32"], lambda x: ops.diagonal(x), lambda x: np.diagonal(x)),
    ("unfold", ["f32"], lambda x: ops.unfold(x, 1, 1), lambda x: x[..., None]),
    ("concat", ["f32", "f32"], lambda a, b: ops.concat([a, b, a], 1), lambda a, b: np.concatenate([a, b, a], 1)),
    ("pad", ["f32"], lambda x: ops.pad(x, [1, 0], [0, x.shape[1]], 2.0), lambda x: np.pad(x, ((1, 0), (0, x.shape[1])), constant_values=2)),
    ("split", ["f32"], lambda x: ops.split(x, 1, [1, x.shape[1] - 1]), lambda x: (x[:, :1], x[:, 1:])),
    ("gather_elements", ["f32", "i64"], lambda x, k: ops.gather_elements(x[:, :1], k * 0, 1), lambda x, k: np.take_along_axis(x[:, :1], k * 0, 1)),
    ("topk", ["f32"], lambda x: ops.topk(x, 1), lambda x: (x.max(-1, keepdims=True), x.argmax(-1)[:, None])),
    ("sort", ["f32"], lambda x: ops.sort(x, descending=True), lambda x: (-np.sort(-x, -1), np.argsort(-x, -1, kind="stable"))),
    ("argmax", ["f32"], lambda x: ops.argmax(x, 1), lambda x: x.argmax(1)),
    ("argmin", ["f32"], lambda x: ops.argmin(x, axis=1, keepdims=True), lambda x: x.argmin(1)[:, None]),
    ("softmax", ["f32"], lambda x: ops.softmax(x), softmax),
    ("log_softmax", ["f32"], lambda x: ops.log_softmax(x, -1), lambda x: np.log(softmax(x))),
    ("layer_norm", ["f32"], lambda x: ops.layer_norm(x, x[0] * 0 + 1, x[0] * 0), lambda x: normalise(x, 1, 0), [(3, 4), (1, 4), (2, 1)]),
    ("rms_norm", ["f32"], lambda x: ops.rms_norm(x, x[0] * 0 + 2, 0.25), lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.25) * 2, [(3, 4), (1, 4), (2, 1)]),
    ("matmul", ["f32", "f32"], lambda a, b: ops.matmul(a, ops.transpose(b)), lambda a, b: a @ b.T),
    ("cumsum", ["f32"], lambda x: ops.cumsum(x), lambda x: x.cumsum(-1, "f4")),
    ("cumprod", ["f32"], lambda x: ops.cumprod(x, 0), lambda x: x.cumprod(0, "f4")),
    ("cummax", ["f32"], lambda x: ops.cummax(x, -1), lambda x: np.maximum.accumulate(x, -1)),
    ("cummin", ["f32"], lambda x: ops.cummin(x, -1, mode="reverse"), lambda x: np.minimum.accumulate(x[:, ::-1], -1)[:, ::-1]),
    ("logcumsumexp", ["f32"], lambda x: ops.logcumsumexp(x, -1), lambda x: np.logaddexp.accumulate(x, -1)),
    ("searchsorted", ["f32"], lambda x: ops.searchsorted(ops.iota("f32", [4]) * 0.25, x, True), lambda x: np.searchsorted(np.arange(4, dtype="f4") / 4, x, "right")),
    ("nonzero", ["i64"], lambda x: ops.nonzero(x), lambda x: np.argwhere(x)),
    ("masked_select", ["f32", "bool"], lambda x, m: ops.masked_select(x, m), lambda x, m: x[m]),
    ("repeat_interleave", ["f32"], lambda x: ops.repeat_interleave(x, 2), lambda x: np.repeat(x, 2, 0)),
    ("item", ["i64"], lambda x: ops.iota("i64", [ops.item(ops.sum(x))]), lambda x: np.arange(x.sum())),
    ("size_min", ["f32"], lambda x: x[:ops.size_min(x.shape[0], 2)], lambda x: x[:2]),
    ("size_max", ["f32"], lambda x: ops.iota("i64", [ops.size_max(x.shape[0], 2)]), lambda x: np.arange(max(x.shape[0], 2))),
    ("size_select", ["f32"], lambda x: ops.iota("i64", [ops.size_select(x.shape[0] > 2, 1, x.shape[1])]), lambda x: np.arange(1 if x.shape[0] > 2 else x.shape[1])),
    ("ceildiv", ["f32"], lambda x: ops.size_value(ops.ceildiv(x.shape[1], 3)), lambda x: np.int64(-(-x.shape[1] // 3))),
    ("exactdiv", ["f32"], lambda x: ops.size_value(ops.exactdiv(x.shape[1] * 3, 3)), lambda x: np.int64(x.shape[1])),
]


class Builders(unittest.TestCase):
    def compare(self, name, program, expected, dtypes, sizes=SIZES, outputs=1, rank=2):
        f = trace(program, *((dtype, rank) for dtype in dtypes), outputs=outputs)
        rng = np.random.default_rng(7)
        for size in sizes:
            arrays = [filled(rng, dtype, size) for dtype in dtypes]
            got = f(*arrays)
            with np.errstate(all="ignore"):
                want = expected(*arrays)
            for one, other in zip(got if outputs > 1 else [got], want if outputs > 1 else [want]):
                self.assertEqual((one.shape, one.dtype), (np.shape(other), np.asarray(other).dtype), (name, size))
                self.assertTrue(np.allclose(one, other, 1e-5, 1e-6, equal_nan=True), (name, size, one, other))

    def test_one_operand(self):
        for name, expected in FLOAT.items():
            self.compare(name, getattr(ops, name), expected, ["f32"])
        for name, (dtype, expected) in OTHER.items():
            self.compare(name, getattr(ops, name), expected, [dtype])

    def test_two_operands(self):
        for table, dtype in ((BINARY, "f32"), (LOGIC, "bool"), (BIT, "i64")):
            for name, expected in table.items():
                self.compare(name, getattr(ops, name), expected, [dtype, dtype])

    def test_reductions(self):
        for name, expected in REDUCE.items():
            build = getattr(ops, name)
            sizes = [(3, 4), (1, 4), (2, 1)]
            self.compare(name, build, expected, ["f32"], sizes)
            self.compare(name, lambda x: build(x, 1, keepdims=True), lambda x: expected(x, 1, keepdims=True), ["f32"], sizes)
            self.compare(name, lambda x: build(x, axes=[-2]), lambda x: expected(x, axis=0), ["f32"], sizes)
        for name, expected in (("any", np.any), ("all", np.all)):
            self.compare(name, lambda x: getattr(ops, name)(x, 0), lambda x: expected(x, 0), ["bool"])

    def test_others(self):
        for name, dtypes, program, expected, *sizes in CASES:
            outputs = 2 if name in ("split", "topk", "sort") else 1
            filled_rows = [s for s in SIZES if s[1] > 1] if name in ("topk", "argmax", "argmin") else SIZES
            self.compare(name, program, expected, dtypes, *(sizes or [filled_rows]), outputs=outputs)

    def test_indices(self):
        x, k = np.arange(12, dtype="f4").reshape(4, 3), np.array([2, 0, -1])
        u = np.ones((3, 3), "f4")
        given = [("f32", 2), ("i64", 1), ("f32", 2)]
        run = lambda program: trace(program, *given)(x, k, u)
        self.assertEqual(run(lambda x, k, u: ops.gather(x, k, 0)).tolist(), x[k].tolist())
        nd = lambda x, k, u: ops.gather_nd(x, k[:, None])
        self.assertEqual(run(nd).tolist(), x[k].tolist())
        added = scattered(x, k, u).tolist()
        self.assertEqual(run(lambda x, k, u: ops.scatter_nd(x, k[:, None], u, mode="add")).tolist(), added)
        self.assertEqual(run(lambda x, k, u: ops.index_put(x, [k], u, "add")).tolist(), added)
        wide = lambda x, k, u: ops.scatter_elements(x, ops.expand(k[:, None], [3, 3]), u, 0, "add")
        self.assertEqual(run(wide).tolist(), added)
        self.assertEqual(run(lambda x, k, u: ops.update_slice(x, u, 1))[1:].tolist(), u.tolist())
        self.assertEqual(run(lambda x, k, u: ops.update_view(ops.cast(x, "f32")[1:, :], u)).tolist()[1:], u.tolist())

    def test_windows(self):
        rng = np.random.default_rng(1)
        x, w = rng.standard_normal((2, 3, 6, 5)).astype("f4"), rng.standard_normal((4, 3, 2, 3)).astype("f4")
        given = [("f32", 4), ("f32", 4)]
        want = convolve(x, w)
        self.assertTrue(np.allclose(trace(lambda x, w: ops.conv(x, w), *given)(x, w), want, atol=1e-5))
        padded = convolve(np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2))), w)[:, :, ::2, ::1]
        got = trace(lambda x, w: ops.conv(x, w, [2, 1], low=[1, 0], high=[0, 2]), *given)(x, w)
        self.assertTrue(np.allclose(got, padded, atol=1e-5))
        # The derivative: <conv(x), y> = <x, conv_transpose(y)>.
        y = rng.standard_normal(want.shape).astype("f4")
        back = trace(lambda y, w: ops.conv_transpose(y, w), *given)(y, w)
        self.assertAlmostEqual(float((want * y).sum()) / float((x * back).sum()), 1, places=3)
        blocks = x[:, :, :, :4].reshape(2, 3, 3, 2, 2, 2)
        pool = lambda build: trace(lambda x: build(x, [2, 2], [2, 2]), ("f32", 4))(x[:, :, :, :4])
        self.assertTrue(np.allclose(pool(ops.max_pool), blocks.max((3, 5))))
        self.assertTrue(np.allclose(pool(ops.avg_pool), blocks.mean((3, 5)), atol=1e-6))

    def test_random(self):
        seed = INPUT("seed", "i64", [], kind="integer")
        n = ("f32", 1)
        x = np.zeros(1000, "f4")
        run = lambda program, outputs=1: trace(program, seed, n, outputs=outputs)
        uniform = run(lambda s, x: ops.random_uniform("f32", s, None, x.shape))
        self.assertTrue(np.array_equal(uniform(5, x), uniform(5, x)))
        self.assertFalse(np.array_equal(uniform(5, x), uniform(6, x)))
        self.assertTrue(0.45 < uniform(5, x).mean() < 0.55)
        offset = run(lambda s, x: ops.random_uniform("f32", s, 3, x.shape))
        self.assertFalse(np.array_equal(uniform(5, x), offset(5, x)))
        bits = run(lambda s, x: ops.random_bits(s, None, x.shape))(5, x)
        self.assertTrue(np.array_equal(uniform(5, x), (bits >> 40).astype("f4") * np.float32(2.0 ** -24)))
        self.assertTrue(abs(run(lambda s, x: ops.random_normal("f32", s, None, x.shape))(1, x).std() - 1) < 0.1)
        drawn = run(lambda s, x: ops.random_integers(s, None, -2, 3, x.shape))(1, x)
        self.assertEqual(sorted(set(drawn.tolist())), [-2, -1, 0, 1, 2])
        order = run(lambda s, x: ops.random_permutation(s, None, x.shape[0]))(1, x)
        self.assertEqual(sorted(order.tolist()), list(range(1000)))
        self.assertTrue(0.2 < run(lambda s, x: ops.bernoulli(s, None, x + 0.25))(1, x).mean() < 0.3)
        dropped, mask = run(lambda s, x: ops.dropout(s, None, x + 1, 0.5), 2)(1, x)
        self.assertTrue(np.array_equal(dropped, mask * np.float32(2)))

    def test_each_is_called(self):
        """A builder that is added to builders.def is added here; one of the table of ops need not be."""
        named = {*FLOAT, *OTHER, *BINARY, *LOGIC, *BIT, *REDUCE, "any", "all", *(case[0] for case in CASES)}
        named |= {"gather", "gather_nd", "scatter_nd", "index_put", "scatter_elements", "update_slice", "update_view",
                  "conv", "conv_transpose", "max_pool", "avg_pool", "random_uniform", "random_bits", "random_normal",
                  "random_integers", "random_permutation", "bernoulli", "dropout", "update", "int_value", "check",
                  "guard_or"}
        for name in sorted(set(ductile._core._ops) - named):
            self.against_evaluator(name)

    def against_evaluator(self, name):
        """A builder of the library's table of ops that is not in the tables above."""
        build = getattr(ops, name)
        n = {"x": 1, "a,b": 2, "x,axes,keepdims": 1}[",".join(inspect.signature(build).parameters)]
        for dtype in ("f32", "bool", "i64"):
            arrays = [filled(np.random.default_rng(5), dtype, (3, 4)) for _ in range(n)]
            given = [(dtype, 2)] * n
            try:
                expected = trace(build, *given, answer="evaluator")(*arrays)
            except ductile.DtypeError:
                continue
            self.assertTrue(np.allclose(trace(build, *given)(*arrays), expected, 1e-5, equal_nan=True), name)
            return
        self.fail(f"{name} takes no dtype")


class Values(unittest.TestCase):
    def test_operators(self):
        x = np.array([[1.5, -2], [3, 4]], "f4")
        k = np.array([[5, 6], [7, 8]])
        cases = [
            (lambda x: 1 + x * 2 - 3, None), (lambda x: 2 / x, None), (lambda x: -x ** 2, None),
            (lambda x: abs(x) % 2, None), (lambda x: x @ x, None), (lambda x: 2 ** x, None),
        ]
        for program, _ in cases:
            self.assertTrue(np.allclose(trace(program, ("f32", 2))(x), program(x)))
        for program in (lambda k: k & 3, lambda k: k | 8, lambda k: k ^ 1, lambda k: ~k, lambda k: k << 2,
                        lambda k: k >> 1, lambda k: (k > 5) & (k != 7), lambda k: (k == 5) | ~(k <= 7),
                        lambda k: (k >= 6) ^ (k < 8), lambda k: 7 - k, lambda k: 9 % k):
            self.assertEqual(trace(program, ("i64", 2))(k).tolist(), program(k).tolist())

    def test_indexing(self):
        x = np.arange(60, dtype="f4").reshape(3, 4, 5)
        keys = [np.s_[0], np.s_[-1], np.s_[:, 1], np.s_[..., 2], np.s_[1:, ::2, ::-1], np.s_[None, ..., 0],
                np.s_[:, None, 1:3], np.s_[2, 3, 4], np.s_[5:1], np.s_[-2:, 1:-1], np.s_[:, ::-2], np.s_[...]]
        for key in keys:
            self.assertEqual(trace(lambda x: x[key], ("f32", 3))(x).tolist(), x[key].tolist(), key)
        k = np.array([2, 0])
        both = [("f32", 3), ("i64", 1)]
        self.assertEqual(trace(lambda x, k: x[:, k, 1:], *both)(x, k).tolist(), x[:, k, 1:].tolist())
        self.assertEqual(trace(lambda x: x[:, k], ("f32", 3))(x).tolist(), x[:, k].tolist())
        self.assertEqual(trace(lambda x: x[x.shape[0] - 1], ("f32", 3))(x).tolist(), x[-1].tolist())
        for bad in (lambda x: x[0, 0, 0, 0], lambda x: x[k, k]):
            with self.assertRaises(ductile.ShapeError):
                trace(bad, ("f32", 3))(x)

    def test_numbers(self):
        self.assertEqual(trace(lambda x: x + (1 << 60), ("i64", 1))(np.array([1])).tolist(), [(1 << 60) + 1])
        self.assertEqual(trace(lambda x: x * x.shape[0], ("f32", 1))(np.ones(3, "f4")).tolist(), [3, 3, 3])
        for bad in (lambda x: ops.add(1, 2), lambda x: x + (1 << 70), lambda x: x + None, lambda x: x + "text"):
            with self.assertRaises((TypeError, OverflowError, ductile.Error)):
                trace(bad, ("i64", 1))(np.array([1]))

    def test_constants(self):
        w = np.arange(4, dtype="f4").reshape(2, 2)
        f = trace(lambda x: x @ ops.constant("w", w) + w, ("f32", 2))
        x = np.eye(2, dtype="f4")
        self.assertEqual(f(x).tolist(), (2 * w).tolist())
        f.update("w", np.zeros((2, 2), "f4"))
        self.assertEqual(f(x).tolist(), w.tolist())
        with self.assertRaises(ductile.ShapeError):
            f.update("w", np.zeros((2, 3), "f4"))
        with self.assertRaises(ductile.ArgumentError):
            f.update("v", w)
        # Another trace of the same program makes its arrays anew.
        g = trace(lambda x: x + ops.constant("c", np.full(1, 3, "f4")), ("f32", 1), dynamic="static")
        for n in range(4):
            self.assertEqual(g(np.zeros(n, "f4")).tolist(), [3] * n)

    def test_updates(self):
        def program(x, k):
            ops.update(x, x + 1)
            ops.update_view(x[k:k + 1], ops.full("f32", 9, [1]))
            return x * 2
        f = trace(lambda x, k: program(x, ops.int_value(k)), ("f32", 1), INPUT("k", "i64", [], kind="integer"))
        x = np.arange(3, dtype="f4")
        self.assertEqual(f(x, 1).tolist(), [2, 18, 6])
        self.assertEqual(x.tolist(), [1, 9, 3])

    def test_functions_in_functions(self):
        inner = trace(lambda x: x * 2, ("f32", 1))
        self.assertEqual(trace(lambda x: inner(x) + 1, ("f32", 1))(np.ones(2, "f4")).tolist(), [3, 3])

    def test_failures(self):
        x = np.ones((2, 3), "f4")
        try:
            trace(lambda x: 1 // 0, ("f32", 2))(x)
        except ZeroDivisionError as error:
            frames = traceback.extract_tb(error.__traceback__)
            self.assertIn("1 // 0", frames[-1].line)
        with self.assertRaises(ductile.ShapeError) as caught:
            trace(lambda x: x @ x, ("f32", 2))(x)
        self.assertIn("test_tracing.py:", str(caught.exception))
        with self.assertRaises(ductile.DtypeError):
            trace(lambda x: x + ops.iota("i64", x.shape), ("f32", 2))(x)
        with self.assertRaises(ductile.ArgumentError) as caught:
            trace(lambda x: (x, x), ("f32", 2))(x)
        self.assertIn("returned 2 values; 1 are declared", str(caught.exception))
        with self.assertRaises(TypeError) as caught:
            trace(lambda x: x if x > 0 else -x, ("f32", 2))(x)
        self.assertIn("ops.where", str(caught.exception))
        kept = []
        trace(lambda x: kept.append(x) or x, ("f32", 2))(x)
        for stale in (lambda: kept[0] + 1, lambda: kept[0].shape, lambda: kept[0][0]):
            with self.assertRaises(ductile.StateError):
                stale()
        with self.assertRaises(ductile.Error):
            trace(lambda x: x + kept[0], ("f32", 2))(x)
        for bad in (lambda x: ops.softmax(), lambda x: ops.softmax(x, axis=0, x=x), lambda x: ops.softmax(x, 0, 0),
                    lambda x: ops.softmax(x, ax=0), lambda x: ops.cast(x, dtype=3.0)):
            with self.assertRaises((TypeError, ductile.DtypeError)):
                trace(bad, ("f32", 2))(x)
        for bad in (lambda x: ops.pad(x, [1], [0, 0]), lambda x: ops.pad(x, [0, 0], []), lambda x: ops.permute(x, [0]),
                    lambda x: ops.permute(x, None), lambda x: ops.as_strided(x, [2, 2], [1]),
                    lambda x: ops.reshape(x, [1] * 20), lambda x: ops.sum(x, [0] * 20), lambda x: ops.concat([]),
                    lambda x: ops.split(x, 0, [1] * 100), lambda x: ops.unsqueeze(x, 99), lambda x: ops.squeeze(x, -9),
                    lambda x: ops.transpose(x, 5, 1), lambda x: ops.conv(x, x, [1] * 9), lambda x: ops.iota("f32", [])):
            with self.assertRaises(ductile.Error):
                trace(bad, ("f32", 2))(x)
        # A failure that the program swallows is the trace's all the same.
        def swallows(x):
            try:
                return x @ x
            except ductile.ShapeError:
                return x
        with self.assertRaises(ductile.ShapeError):
            trace(swallows, ("f32", 2))(x)
        # The session is the call's while its program is traced.
        other = trace(lambda x: x, ("f32", 2))
        with self.assertRaises(ductile.StateError):
            trace(lambda x: (other(np.ones((1, 1), "f4")), x)[1], ("f32", 2))(x)


class Sizes(unittest.TestCase):
    def test_arithmetic(self):
        def program(x):
            n, m = x.shape
            sizes = [n + 1, 2 * m, n - m + 20, (n * m) // 3, m % 3, abs(n - m), -n + 30, n << 2, m >> 1, 7 - n % 2]
            return ops.concat([ops.reshape(ops.size_value(size), [1]) for size in sizes])
        f = trace(program, ("f32", 2))
        for n, m in SIZES:
            expected = [n + 1, 2 * m, n - m + 20, n * m // 3, m % 3, abs(n - m), 30 - n, n << 2, m >> 1, 7 - n % 2]
            self.assertEqual(f(np.zeros((n, m), "f4")).tolist(), expected)
        self.assertEqual(f.stats()["variants"], 1)

    def test_static_dims_are_ints(self):
        seen = []
        f = ductile.function(lambda x: seen.append(x.shape) or x, inputs=[INPUT("x", "f32", ["n", 4])])
        f(np.zeros((2, 4), "f4"))
        n, four = seen[0]
        self.assertIsInstance(n, ductile.Size)
        self.assertEqual(four, 4)
        self.assertIsInstance(four, int)

    def test_guards(self):
        """A branch on a size makes a variant for each answer; others are shared."""
        def program(x):
            n = x.shape[0]
            if n > 8 or n == 3:
                return x * 2
            return x * 3 if not (n >= 2) & (n < 5) else x
        f = trace(program, ("f32", 1))
        for n in (1, 9, 3, 2, 12, 0, 4, 7, 3, 9):
            want = 2 if n > 8 or n == 3 else 3 if not 2 <= n < 5 else 1
            self.assertEqual(f(np.ones(n, "f4")).tolist(), [want] * n)
        self.assertLess(f.stats()["variants"], 7)
        text = f.explain(np.ones(9, "f4"))
        self.assertIn("test_tracing.py:", text)
        with self.assertRaises(ductile.StateError):
            trace(program, ("f32", 1)).prepare()

    def test_int_specialises(self):
        f = trace(lambda x: x * int(x.shape[0]), ("f32", 1))
        for n in (2, 3, 2, 3):
            self.assertEqual(f(np.ones(n, "f4")).tolist(), [n] * n)
        self.assertEqual(f.stats()["variants"], 2)

    def test_check(self):
        def program(x):
            ops.check(x.shape[0] % 2 == 0, "the length is even")
            return x
        f = trace(program, ("f32", 1))
        self.assertEqual(f(np.ones(4, "f4")).tolist(), [1] * 4)
        with self.assertRaises(ductile.ShapeError) as caught:
            f(np.ones(3, "f4"))
        self.assertIn("the length is even", str(caught.exception))
        self.assertEqual(trace(lambda x: x * 2 if ops.guard_or(x.shape[0] == 4, False) else x, ("f32", 1))(np.ones(4, "f4"))[0], 2)

    def test_declared(self):
        d = ductile.Dim
        f = ductile.function(lambda x, y: ops.sum(x) + ops.sum(y), inputs=[
            INPUT("x", "f32", [d("n", min=1, max=8, multiple_of=2)]),
            INPUT("y", "f32", [d(of="n", scale=2, offset=1)])])
        self.assertEqual(float(f(np.ones(4, "f4"), np.ones(9, "f4"))), 13)
        for n, m in ((3, 7), (4, 8), (10, 21), (0, 1)):
            with self.assertRaises(ductile.ShapeError):
                f(np.ones(n, "f4"), np.ones(m, "f4"))
        self.assertEqual([spec.dims for spec in f.inputs], [("n",), ("y.size(0)",)])

    def test_from_data(self):
        f = trace(lambda x: (ops.nonzero(x), ops.nonzero(x).shape[0] * 2 + x * 0), ("i64", 1), outputs=2)
        places, count = f(np.array([0, 1, 0, 2]))
        self.assertEqual((places.tolist(), count[0]), ([[1], [3]], 4))
        self.assertEqual(f.output_sizes(np.array([1]))[0], ("i64", (None, 1)))
        with self.assertRaises(ductile.StateError):
            trace(lambda x: x if ops.nonzero(x).shape[0] > 1 else -x, ("i64", 1))(np.array([1]))


class Control(unittest.TestCase):
    def test_cond(self):
        f = trace(lambda x: ops.cond(ops.sum(x) > 0, lambda x: x * 2, lambda x: -x, [x]), ("f32", 1))
        self.assertEqual(f(np.array([1, -3], "f4")).tolist(), [-1, 3])
        self.assertEqual(f(np.array([4, -3], "f4")).tolist(), [8, -6])
        two = trace(lambda x: ops.cond(ops.sum(x) > 0, lambda: (x, x + 1), lambda: (x + 1, x), outputs=2),
                    ("f32", 1), outputs=2)
        self.assertEqual([part.tolist() for part in two(np.array([1], "f4"))], [[1], [2]])
        with self.assertRaises(ZeroDivisionError):
            trace(lambda x: ops.cond(ops.sum(x) > 0, lambda: 1 // 0, lambda: x), ("f32", 1))(np.ones(1, "f4"))

    def test_switch(self):
        cases = [lambda x, k=k: x + k for k in range(12)]
        f = trace(lambda x, k: ops.switch(k, cases, [x]), ("f32", 1), ("i64", 0))
        for k in range(-1, 14):
            self.assertEqual(f(np.zeros(1, "f4"), np.array(k))[0], min(max(k, 0), 11))

    def test_while(self):
        def collatz(x):
            state = ops.while_loop(lambda n, steps: n != 1,
                                   lambda n, steps: (ops.where(n % 2 == 0, n // 2 if False else ops.shift_right(n, 1), 3 * n + 1), steps + 1),
                                   [x, x * 0])
            return state[1]
        f = trace(collatz, ("i64", 0))
        for n, steps in ((1, 0), (6, 8), (27, 111)):
            self.assertEqual(int(f(np.array(n))), steps)
        powers = trace(lambda x, n: ops.while_loop(lambda k, y, n: k < n, lambda k, y, n: (k + 1, y * 2),
                                                   [ops.scalar("i64", 0), x], [n])[1], ("f32", 1), ("i64", 0))
        self.assertEqual(powers(np.ones(2, "f4"), np.array(5)).tolist(), [32, 32])

    def test_scan(self):
        f = trace(lambda x: ops.scan(lambda c, row: (c + row, c * row), [x[0] * 0], [x], outputs=1), ("f32", 2), outputs=2)
        x = np.arange(6, dtype="f4").reshape(3, 2)
        last, ys = f(x)
        self.assertEqual(last.tolist(), x.sum(0).tolist())
        self.assertEqual(ys.tolist(), ((x.cumsum(0) - x) * x).tolist())
        numbered = trace(lambda x: ops.scan(lambda k, c: (c + k,), [ops.scalar("i64", 0)], [], length=x.shape[0], numbered=True)[0], ("f32", 2))
        self.assertEqual(int(numbered(x)), 3)
        back = trace(lambda x: ops.scan(lambda c, row: (row + c * 0,), [x[0]], [x], backwards=True)[0], ("f32", 2))
        self.assertEqual(back(x).tolist(), x[0].tolist())

    def test_associative_scan(self):
        f = trace(lambda a, b: ops.associative_scan(lambda a, b, c, d: (a * c, b * c + d), [a, b], 1), ("f32", 2), ("f32", 2), outputs=2)
        rng = np.random.default_rng(3)
        a, b = rng.uniform(0, 1, (2, 2, 9)).astype("f4")
        want, at = np.zeros_like(b), np.zeros(2)
        for k in range(9):
            at = at * a[:, k] + b[:, k]
            want[:, k] = at
        self.assertTrue(np.allclose(f(a, b)[1], want, atol=1e-5))

    def test_subgraph(self):
        traced = []
        def layer(x, w):
            traced.append(1)
            return ops.tanh(x @ w)
        def program(x, w):
            for k in range(6):
                x = ops.subgraph(layer, [x, w[k]])
            return x
        f = trace(program, ("f32", 2), INPUT("w", "f32", [6, 4, 4]))
        rng = np.random.default_rng(3)
        x, w = rng.standard_normal((2, 4)).astype("f4"), rng.standard_normal((6, 4, 4)).astype("f4")
        want = x
        for k in range(6):
            want = np.tanh(want @ w[k])
        self.assertTrue(np.allclose(f(x, w), want, atol=1e-5))
        self.assertLessEqual(len(traced), 2)


if __name__ == "__main__":
    main()

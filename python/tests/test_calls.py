# SPDX-License-Identifier: Apache-2.0
"""Calls: failures by code, options, threads, sessions, memory, forks."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support import left, main, np, resident, same

import ductile
from ductile import ops


def add_one(dtype="f32", **options):
    return ductile.function(lambda x: x + 1, inputs=[ductile.Input("x", dtype, ["n"])], **options)


class Failures(unittest.TestCase):
    def fails(self, error, code, text, call, *args, **keywords):
        with self.assertRaises(error) as caught:
            call(*args, **keywords)
        self.assertEqual(caught.exception.code, code)
        self.assertIn(text, str(caught.exception))

    def test_codes(self):
        x = np.arange(3, dtype="f4")
        self.fails(ductile.IoError, "DT_E_IO", "nowhere", ductile.load, "/nowhere.onnx")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"\xff" * 64)
            file.flush()
            self.fails(ductile.FormatError, "DT_E_FORMAT", file.name, ductile.load, file.name)
            self.fails(ductile.FormatError, "DT_E_FORMAT", "", ductile.open_package, file.name)
        narrow = ductile.function(lambda x: x, inputs=[ductile.Input("x", "f32", [ductile.Dim("n", max=2)])])
        self.fails(ductile.ShapeError, "DT_E_SHAPE", '"n"', narrow, x)
        self.fails(ductile.DtypeError, "DT_E_DTYPE", "f64", narrow, x.astype("f8"))
        gather = ductile.function(lambda x, k: x[k], inputs=[
            ductile.Input("x", "f32", [None]), ductile.Input("k", "i64", [None])])
        self.fails(ductile.RangeError, "DT_E_RANGE", "", gather, x, np.array([7]))
        self.assertEqual(gather(x, np.array([-1])).tolist(), [2])
        small = add_one(max_call_bytes=1)
        self.fails(ductile.LimitError, "DT_E_LIMIT", "", small, np.zeros(1 << 20, "f4"))
        frozen = add_one()
        frozen.freeze()
        self.fails(ductile.StateError, "DT_E_STATE", "", frozen, x)
        frozen.freeze(False)
        frozen(x)
        self.fails(ductile.ArgumentError, "DT_E_ARGUMENT", "", ductile.Session, "toaster")
        flag = ductile.Cancel()
        flag.request()
        self.fails(ductile.CancelledError, "DT_E_CANCELLED", "", frozen.run, [x], cancel=flag)
        flag.reset()
        frozen.run([x], cancel=flag)
        self.fails(ductile.DeadlineError, "DT_E_DEADLINE", "", frozen.run, [x], timeout=0)
        self.assertTrue(issubclass(ductile.DeadlineError, TimeoutError))
        frozen.run([x], timeout=1e12)
        frozen.run([x], timeout=60.0)

    def test_wrong_use(self):
        f, x = add_one(), np.arange(3, dtype="f4")
        for call in (lambda: f(), lambda: f(x, x), lambda: f(y=x), lambda: f(x, x=x), lambda: f.run(),
                     lambda: f.run([x], nothing=1), lambda: f.run([x], cancel=1), lambda: f.run(3),
                     lambda: ductile.load(3), lambda: ductile.load("x", nothing=1),
                     lambda: ductile.load("x", dims=3), lambda: ductile.Runtime(nothing=1),
                     lambda: add_one(nothing=1), lambda: ductile.Function(), lambda: ductile.Tensor(),
                     lambda: ductile.load("x", runtime=3)):
            self.assertRaises(TypeError, call)
        for call in (lambda: f.run([x], mode="fast"), lambda: f.run([x], timeout=-1),
                     lambda: ductile.function(lambda x: x, inputs=[ductile.Input("x", "f32", [], kind="odd")]),
                     lambda: ductile.runtime().set_mode("warp", 9)):
            self.assertRaises(ValueError, call)
        with self.assertRaises(OverflowError):
            ductile.Runtime(threads=1 << 40)
        with self.assertRaises(ductile.DtypeError):
            ductile.Input  # the name is read when the function is made
            ductile.function(lambda x: x, inputs=[ductile.Input("x", "f31", [])])

    def test_runtime_options(self):
        with self.assertRaises(ductile.ArgumentError):
            ductile.Runtime(threads=1 << 30)
        runtime = ductile.Runtime(threads=1, max_nodes=10)
        f = ductile.function(lambda x: sum((x for _ in range(20)), x), runtime=runtime,
                             inputs=[ductile.Input("x", "f32", ["n"])])
        with self.assertRaises(ductile.LimitError):
            f(np.zeros(3, "f4"))
        self.assertEqual(add_one(runtime=ductile.Runtime(cpus="0"))(np.zeros(2, "f4")).tolist(), [1, 1])
        with self.assertRaises(ductile.ArgumentError):
            ductile.Runtime(cpus="all")
        runtime.set_mode("kernel_threads", 1)
        self.assertEqual(runtime.mode("kernel_threads"), 1)
        self.assertGreaterEqual(runtime.stats()["bytes"], 0)
        self.assertEqual(runtime.device_count("cpu"), 1)
        self.assertGreaterEqual(runtime.device_count("cuda"), 0)


    def test_odd_objects(self):
        """Objects whose attributes are new at each time, or change what they are asked for in."""
        class Odd:
            @property
            def fields(self):
                return {"name": "".join(["na", "me"] * 50), "dtype": "f32"}
            @property
            def dims(self):
                return [OddDim() for _ in range(2)]
        class OddDim:
            @property
            def fields(self):
                for k in range(40):
                    dims[f"more{k}"] = 3
                return {"min": 1, "name": "".join(["d"] * 40)}
        dims = {"n": OddDim()}
        f = ductile.function(lambda x: x, inputs=[Odd()], answer="evaluator")
        self.assertEqual(f.inputs[0].name, "name" * 50)
        self.assertEqual(f.inputs[0].dims, ("d" * 40, "d" * 40))
        for bad in (object(), 3, None):
            with self.assertRaises((TypeError, AttributeError)):
                ductile.function(lambda x: x, inputs=[bad])
            with self.assertRaises((TypeError, AttributeError, ductile.Error)):
                ductile.load("/nowhere.onnx", dims={"n": bad})
        with self.assertRaises(ductile.Error):
            ductile.load("/nowhere.onnx", dims=dims)
        session = ductile.Session()
        class Closes:
            def __dlpack__(self, **_):
                session.close()
        with session, self.assertRaises(ductile.StateError):
            f(Closes())


class Sessions(unittest.TestCase):
    def test_with(self):
        f, x = add_one(), np.arange(3, dtype="f4")
        with ductile.Session() as outer:
            self.assertEqual(f(x).tolist(), [1, 2, 3])
            with ductile.Session("cpu", priority="urgent") as inner:
                f(x)
                with self.assertRaises(ductile.StateError):
                    outer.__exit__()
                inner.wait()
                inner.trim()
                inner.step_begin()
                self.assertEqual(inner.stream, 0)
                self.assertGreaterEqual(inner.stats()["bytes"], 0)
        outer.close()
        outer.close()
        with self.assertRaises(ValueError):
            ductile.Session(priority="royal")
        with self.assertRaises(ductile.StateError):
            outer.wait()
        with self.assertRaises(ductile.StateError), outer:
            f(x)
        self.assertEqual(f(x).tolist(), [1, 2, 3])

    def test_other_runtime(self):
        """A `with` of one runtime says nothing of another's functions."""
        runtime = ductile.Runtime(threads=1)
        f, x = add_one(runtime=runtime), np.arange(3, dtype="f4")
        with ductile.Session():
            self.assertEqual(f(x).tolist(), [1, 2, 3])
        with ductile.Session(runtime=runtime) as session:
            f(x)
            self.assertGreaterEqual(session.stats()["bytes"], 0)

    def test_runtimes_end(self):
        x = np.arange(3, dtype="f4")
        def once():
            add_one(runtime=ductile.Runtime(threads=1, compile_threads=1), answer="evaluator")(x)
        once()
        before = len(os.listdir("/proc/self/task"))
        for _ in range(5):
            once()
        gc.collect()
        self.assertLessEqual(len(os.listdir("/proc/self/task")), before)

    def test_one_session_in_two_threads(self):
        session, started, go = ductile.Session(), threading.Event(), threading.Event()
        def program(x):
            started.set()
            go.wait(20)
            return x
        slow = ductile.function(program, inputs=[ductile.Input("x", "f32", ["n"])])
        f, x, seen = add_one(), np.arange(3, dtype="f4"), []
        f(x)
        def work():
            with session:
                seen.append(slow(x))
        thread = threading.Thread(target=work)
        thread.start()
        self.assertTrue(started.wait(20))
        with self.assertRaises(ductile.StateError), session:
            f(x)
        with self.assertRaises(ductile.StateError):
            session.close()
        go.set()
        thread.join()
        self.assertTrue(same(seen[0], x))


class Threads(unittest.TestCase):
    def test_many(self):
        """16 threads, other sizes each, one function that compiles meanwhile."""
        f = ductile.function(lambda x, y: ops.softmax(x @ y, -1), inputs=[
            ductile.Input("x", "f32", ["a", "b"]), ductile.Input("y", "f32", ["b", "c"])])
        wrong, start = [], threading.Barrier(16)
        def work(seed):
            rng = np.random.default_rng(seed)
            start.wait()
            for _ in range(20):
                a, b, c = rng.integers(0, 20, 3)
                x, y = (rng.standard_normal(s).astype("f4") for s in ((a, b), (b, c)))
                product = x.astype("f8") @ y
                with np.errstate(all="ignore"):
                    e = np.exp(product - product.max(-1, keepdims=True, initial=-np.inf))
                    expected = e / e.sum(-1, keepdims=True)
                got = f(x, y)
                if got.shape != (a, c) or not np.allclose(got, expected, atol=1e-5):
                    wrong.append((a, b, c))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(f.stats()["calls"], 16 * 20)

    def test_asked_while_tracing(self):
        """Whoever asks a function something while another thread traces it does not hold the lock meanwhile."""
        started, answers = threading.Event(), []
        def program(x):
            started.set()
            for _ in range(20):
                time.sleep(0.005)
                x = x + 1
            return x
        f = ductile.function(program, inputs=[ductile.Input("x", "f32", ["n"])])
        x = np.zeros(3, "f4")
        thread = threading.Thread(target=lambda: answers.append(f(x)))
        thread.start()
        started.wait(20)
        while thread.is_alive():
            f.stats(), f.report(), f.freeze(False), f.inputs, ductile.runtime().stats()
            add_one(answer="evaluator")(x)
        self.assertEqual(answers[0].tolist(), [20, 20, 20])

    def test_raised_to_all(self):
        """Each caller of a program that fails gets a failure, and the next call traces again."""
        broken, caught = [True], []
        def program(x):
            time.sleep(0.02)
            if broken:
                raise KeyError("broken")
            return x
        f = ductile.function(program, inputs=[ductile.Input("x", "f32", ["n"])])
        def work():
            try:
                f(np.zeros(3, "f4"))
            except (KeyError, ductile.Error) as error:
                caught.append(error)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(caught), 4)
        self.assertTrue(all("broken" in str(error) for error in caught), caught)
        broken.clear()
        self.assertEqual(f(np.zeros(3, "f4")).tolist(), [0, 0, 0])

    def test_lock_is_free(self):
        """Another thread runs while this one is in a call, whatever the clock says."""
        flag, ticks = ductile.Cancel(), []
        def forever(x):
            return ops.while_loop(lambda n: n >= 0, lambda n: [n * 0 + 1], [ops.sum(x)])[0]
        f = ductile.function(forever, inputs=[ductile.Input("x", "f32", ["n"])])
        def watch():
            while len(ticks) < 20:
                ticks.append(1)
                time.sleep(0.001)
            flag.request()
        thread = threading.Thread(target=watch)
        thread.start()
        with self.assertRaises(ductile.CancelledError):
            f.run([np.ones(3, "f4")], cancel=flag, timeout=60)
        thread.join()
        self.assertEqual(len(ticks), 20)

    def test_thread_ends_its_session(self):
        f, x = add_one(), np.arange(1000, dtype="f4")
        f(x)
        def work():
            for _ in range(50):
                thread = threading.Thread(target=f, args=(x,))
                thread.start()
                thread.join()
        work()
        before = resident()
        for _ in range(10):
            work()
        self.assertLess(resident() - before, 2 << 20)


class Memory(unittest.TestCase):
    def test_nothing_is_left(self):
        """Python's own blocks and the process's memory, over calls that succeed and calls that do not."""
        f = ductile.function(lambda x: (x + 1, ops.sum(x)), outputs=2,
                             inputs=[ductile.Input("x", "f32", ["n"])])
        x, bad = np.arange(1 << 16, dtype="f4"), np.arange(3, dtype="f8")
        def turn():
            f(x)
            f(x=x)
            f.run([x], tensors=True)
            f.run({"x": x}, out=[np.empty_like(x), None])
            f.output_sizes(x)
            f.explain(x)
            f.report()
            f.stats(), f.inputs, f.outputs
            ductile.from_dlpack(x).numpy()
            np.from_dlpack(ductile.tensor(x))
            ductile.tensor(x).__dlpack__()
            for wrong in (lambda: f(bad), lambda: f(), lambda: f(y=x), lambda: f(object()),
                          lambda: f.run([x], out=[x, None]), lambda: f.run([x], nothing=1),
                          lambda: f.run([x], timeout=0), lambda: ductile.tensor(x, "f64")):
                try:
                    wrong()
                except (ductile.Error, TypeError):
                    continue
                raise AssertionError
        self.assertIsNone(left(turn))

    def test_functions_end(self):
        x = np.arange(3, dtype="f4")
        def once():
            weights = np.zeros(1 << 18, "f4")
            f = ductile.function(lambda x: ops.sum(ops.constant("w", weights)) + x, answer="evaluator",
                                 inputs=[ductile.Input("x", "f32", ["n"])])
            f(x)
        def cycle():
            class Program:
                def __call__(self, x):
                    return x + self.weights
            program = Program()
            program.weights = np.zeros(1, "f4")
            program.function = ductile.function(program, answer="evaluator", name="cycle",
                                                inputs=[ductile.Input("x", "f32", ["n"])])
            program.function(x)
        for _ in range(3):
            cycle()
        gc.collect()
        held = len(gc.get_objects())
        for _ in range(50):
            cycle()
        gc.collect()
        self.assertLess(len(gc.get_objects()) - held, 50)


class Processes(unittest.TestCase):
    def run_program(self, text):
        done = subprocess.run([sys.executable, "-B", "-c", text], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def test_fork(self):
        said = self.run_program("""
import os, numpy as np, ductile
x = np.arange(3, dtype="f4")
f = ductile.function(lambda x: x + 1, inputs=[ductile.Input("x", "f32", ["n"])])
f(x)
if os.fork() == 0:
    try:
        f(x)
    except ductile.ForkedError as error:
        print(error.code, flush=True)
    os._exit(0)
os.wait()
""")
        self.assertEqual(said, "DT_E_FORKED")

    def test_fork_before(self):
        said = self.run_program("""
import os, numpy as np, ductile
x = np.arange(3, dtype="f4")
for _ in range(2):
    if os.fork() == 0:
        f = ductile.function(lambda x: x + 1, inputs=[ductile.Input("x", "f32", ["n"])])
        print(f(x).tolist(), flush=True)
        os._exit(0)
    os.wait()
""")
        self.assertEqual(said, "[1.0, 2.0, 3.0]\n[1.0, 2.0, 3.0]")

    def test_ends_in_the_middle(self):
        """Threads in calls while the interpreter ends."""
        self.run_program("""
import threading, numpy as np, ductile
x = np.arange(3, dtype="f4")
f = ductile.function(lambda x: x + 1, inputs=[ductile.Input("x", "f32", ["n"])])
kept = ductile.tensor(x)
def work():
    while True:
        f(x)
f(x)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
""")

    def test_subinterpreters(self):
        self.run_program("""
import _xxsubinterpreters as interpreters
interpreter = interpreters.create()
try:
    interpreters.run_string(interpreter, "import ductile")
except interpreters.RunFailedError as error:
    assert "main interpreter" in str(error), error
else:
    raise AssertionError
""" if sys.version_info < (3, 13) else "pass")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Profiles and metrics: what they say, in each form; their ends; threads; memory."""

import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

from support import left, main, np

import ductile
from ductile import ops


def program(x):
    y = x @ np.ones((4, 8), "f4")
    return ops.softmax(y, -1)


def made(program=program, **options):
    return ductile.function(program, inputs=[ductile.Input("x", "f32", ["n", 4])], **options)


def array(rows):
    return np.ones((rows, 4), "f4")


class Reports(unittest.TestCase):
    def test_report(self):
        f = made(name="reported")
        f(array(2))  # before it
        with ductile.Profile() as profile:
            for rows in (3, 3, 50):
                f(array(rows))
            self.assertEqual(profile.report()["calls"], 3)  # while it runs
        f(array(4))  # after it
        report = profile.report()
        self.assertEqual((report["calls"], report["lost"], len(report["variants"])), (3, 0, 1))
        self.assertGreaterEqual(report["wall_ns"], report["total_ns"])
        self.assertTrue(0 < report["named"] <= 1)
        variant = report["variants"][0]
        self.assertEqual((variant["function"], variant["calls"], variant["shapes"]), ("reported", 3, 2))
        self.assertEqual(variant["total_ns"], report["total_ns"])
        self.assertEqual(set(variant["parts_ns"]), {
            "arguments", "guards", "compile", "plan", "memory", "host", "kernels", "wait", "evaluator", "finish",
            "recording"})
        self.assertLessEqual(sum(variant["parts_ns"].values()), variant["total_ns"] + 11)
        kernels = variant["kernels"]
        self.assertTrue(kernels)
        for kernel in kernels:
            self.assertEqual(kernel["launches"], kernel["sized_launches"])
            self.assertTrue(kernel["min_ns"] <= kernel["max_ns"] <= kernel["total_ns"])
            self.assertTrue(kernel["bytes"] > 0 and kernel["floor_ns"] > 0)
        self.assertGreater(sum(kernel["flops"] for kernel in kernels), 2 * 4 * 8 * 56)
        self.assertTrue(0 < sum(kernel["share"] for kernel in kernels) <= 1.001)
        file, first = program.__code__.co_filename, program.__code__.co_firstlineno
        sources = {(source["op"], source["file"], source["line"]) for kernel in kernels for source in kernel["sources"]}
        self.assertEqual(sources, {("matmul", file, first + 1), ("softmax", file, first + 2)})

    def test_forms(self):
        f = made(name="a<b> \u00e9")
        with ductile.Profile() as profile:
            f(array(5))
        self.assertRegex(profile.text(), "^profile: 1 calls, ")
        self.assertIn("a<b> \u00e9.0: 1 calls of 1 sizes", profile.text("text"))
        told, report = json.loads(profile.text(form="json")), profile.report()
        self.assertEqual((told.keys(), told["calls"]), (report.keys(), 1))
        events = json.loads(profile.text("trace"))["traceEvents"]
        self.assertTrue(any(event.get("cat") == "kernel" for event in events))
        self.assertIn("a&#60;b&#62; \u00e9", profile.text("html"))
        with tempfile.TemporaryDirectory() as folder:
            for name, begin in (("p.html", "<!DOCTYPE html>"), ("p.trace.json", '{"displayTimeUnit"'),
                                ("p.json", '{"wall_ns"'), ("p.txt", "profile: "), ("p", "profile: ")):
                for path in (os.path.join(folder, name), pathlib.Path(folder, name), os.fsencode(f"{folder}/{name}")):
                    profile.write(path)
                    with open(path, encoding="utf-8") as file:
                        self.assertTrue(file.read().startswith(begin), name)
            profile.write(pathlib.Path(folder, "p.json"), form="html")
            self.assertTrue(pathlib.Path(folder, "p.json").read_text(encoding="utf-8").startswith("<!DOCTYPE"))
            with self.assertRaises(ductile.IoError) as caught:
                profile.write(os.path.join(folder, "none", "p.json"))
            self.assertIn("none", str(caught.exception))

    def test_wrong_use(self):
        profile = ductile.Profile()
        for call in (lambda: profile.text("table"), lambda: profile.write("/nowhere/p", "trace.json"),
                     lambda: profile.write("/nowhere/p\0"), lambda: ductile.Profile(most_events=1 << 30)):
            self.assertRaises(ValueError, call)
        for call in (lambda: profile.text(3), lambda: profile.write(3), lambda: profile.write(), lambda: profile.report(1),
                     lambda: ductile.Profile(3), lambda: ductile.Profile(most_events="many"),
                     lambda: ductile.Profile(None, 5), lambda: ductile.Profile(nothing=1),
                     lambda: ductile.runtime().metrics(1)):
            self.assertRaises(TypeError, call)
        self.assertRaises(OverflowError, ductile.Profile, most_events=1 << 40)
        profile.close()

    def test_options(self):
        f = made()
        f(array(3))
        with ductile.Profile(most_events=8, whole_graphs=True) as profile:
            for _ in range(20):
                f(array(3))
        report = profile.report()
        self.assertEqual((report["calls"], report["events"]), (20, 8))
        self.assertGreater(report["dropped_events"], 8)

    def test_runtimes(self):
        """A profile is of one runtime, and two runtimes may have one each."""
        runtime = ductile.Runtime(threads=1)
        here, there = made(name="here"), made(name="there", runtime=runtime)
        with ductile.Profile() as own, ductile.Profile(runtime=runtime) as other:
            here(array(3))
            there(array(3))
        for profile, name in ((own, "here"), (other, "there")):
            self.assertEqual([variant["function"] for variant in profile.report()["variants"]], [name])
        again = ductile.Profile(runtime)
        del runtime, there
        gc.collect()
        self.assertEqual(again.report()["calls"], 0)  # it keeps its runtime

    def test_evaluator(self):
        f = made(answer="evaluator")
        with ductile.Profile() as profile:
            f(array(3))
        (variant,) = profile.report()["variants"]
        self.assertEqual((variant["kernels"], variant["unknown"]), ([], "answered by the reference evaluator"))
        self.assertGreater(variant["parts_ns"]["evaluator"], 0)


class Ends(unittest.TestCase):
    def test_one_at_a_time(self):
        with ductile.Profile() as profile:
            for _ in range(2):
                with self.assertRaises(ductile.StateError) as caught:
                    ductile.Profile()
                self.assertEqual(caught.exception.code, "DT_E_STATE")
                self.assertIn("has a profile that runs", str(caught.exception))
            with profile as same:
                self.assertIs(same, profile)
        ductile.Profile().close()
        ductile.Profile()  # nobody has it
        with ductile.Profile():
            pass

    def test_states(self):
        profile = ductile.Profile()
        profile.stop()
        profile.stop()
        self.assertEqual(profile.report()["calls"], 0)
        with self.assertRaisesRegex(ductile.StateError, "has stopped"), profile:
            pass
        with ductile.Profile() as closed:
            closed.close()
            closed.close()
        for call in (closed.stop, closed.report, closed.text, lambda: closed.write("/nowhere/p"), closed.__enter__):
            with self.assertRaisesRegex(ductile.StateError, "is closed"):
                call()

    def test_raised(self):
        f = made()
        with self.assertRaises(KeyError), ductile.Profile() as profile:
            f(array(3))
            raise KeyError("in the block")
        f(array(3))
        self.assertEqual(profile.report()["calls"], 1)
        def broken(x):
            raise KeyError("in the program")
        with ductile.Profile() as profile, self.assertRaises(KeyError):
            made(broken)(array(3))
        self.assertIn("profile: ", profile.text())

    def test_keeps_what_it_saw(self):
        weights = np.ones((4, 8), "f4")
        seen = weakref.ref(weights)
        f = made(lambda x: x @ weights)
        with ductile.Profile() as profile:
            f(array(3))
        del f, weights
        gc.collect()
        self.assertIsNotNone(seen())
        self.assertEqual(profile.report()["variants"][0]["kernels"][0]["sources"][0]["op"], "matmul")
        profile.close()
        gc.collect()
        self.assertIsNone(seen())

    def run_program(self, text):
        head = ("import os, threading, numpy as np, ductile\n"
                "x = np.arange(3, dtype='f4')\n"
                "f = ductile.function(lambda x: x + 1, inputs=[ductile.Input('x', 'f32', ['n'])])\n"
                "profile = ductile.Profile()\n"
                "f(x)\n")
        done = subprocess.run([sys.executable, "-B", "-c", head + text], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def test_fork(self):
        said = self.run_program("""
if os.fork() == 0:
    for call in (profile.report, profile.text, profile.stop, ductile.Profile, ductile.runtime().metrics):
        try:
            call()
        except ductile.ForkedError as error:
            print(error.code, flush=True)
    profile.close()
    os._exit(0)
os.wait()
print(profile.report()["calls"])
""")
        self.assertEqual(said.split(), ["DT_E_FORKED"] * 5 + ["1"])

    def test_ends_in_the_middle(self):
        """The interpreter ends while it runs, with threads in calls and in reports."""
        self.run_program("""
def work(call):
    while True:
        call()
for call in (lambda: f(x), lambda: f(x), profile.report):
    threading.Thread(target=work, args=(call,), daemon=True).start()
profile.text()
""")


class Threads(unittest.TestCase):
    def test_many(self):
        """Each call of eight threads is counted, while others report."""
        f, start = made(), threading.Barrier(9)
        profile, wrong = ductile.Profile(), []
        def work(seed):
            start.wait()
            for k in range(40):
                f(array(1 + (seed + k) % 7))
        def read():
            start.wait()
            last = 0
            for form in ("text", "trace", "html", "json") * 3:
                profile.text(form)
                calls = profile.report()["calls"]
                if calls < last:
                    wrong.append((last, calls))
                last = calls
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)] + [threading.Thread(target=read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        profile.stop()
        report = profile.report()
        self.assertEqual((wrong, report["calls"]), ([], 8 * 40))
        self.assertEqual(sum(variant["calls"] for variant in report["variants"]), 8 * 40)

    def test_closed_by_another(self):
        """Who closes it while others are in it is refused; afterwards the others are."""
        f, started = made(), threading.Event()
        profile, caught = ductile.Profile(), []
        f(array(3))
        over = threading.Event()
        def work():
            try:
                while not over.is_set():
                    profile.text("html")
                    started.set()
            except ductile.StateError as error:
                caught.append(str(error))
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        started.wait(20)
        for _ in range(50):
            try:
                profile.close()
                break
            except ductile.StateError as error:
                self.assertIn("in use", str(error))
                time.sleep(0.0001)
        over.set()
        for thread in threads:
            thread.join()
        profile.close()
        self.assertTrue(all("is closed" in text for text in caught), caught)
        ductile.Profile().close()

    def test_lock_is_free(self):
        """Another thread runs while the machine is measured for a runtime's first report."""
        runtime, ticks, done = ductile.Runtime(threads=1), [], threading.Event()
        with ductile.Profile(runtime) as profile:
            made(runtime=runtime)(array(3))
        def watch():
            while not done.is_set():
                ticks.append(1)
                time.sleep(0.001)
        thread = threading.Thread(target=watch)
        thread.start()
        before = len(ticks)
        profile.report()
        after = len(ticks)
        done.set()
        thread.join()
        self.assertGreater(after - before, 3)


class Metrics(unittest.TestCase):
    def read(self, runtime):
        """{name with labels: value}, of text whose lines are all as they must be."""
        found = {}
        for line in runtime.metrics().splitlines():
            if not line.startswith(("# HELP ", "# TYPE ")):
                match = re.fullmatch(r'([a-z_]+(?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)', line)
                self.assertIsNotNone(match, line)
                found[match[1]] = float(match[2])
        return found

    def test_text(self):
        runtime = ductile.Runtime(threads=1)
        self.assertNotIn('ductile_calls_total{function="f"}', self.read(runtime))
        f, g = made(runtime=runtime, name="f"), made(runtime=runtime, name='"g" \u00e9')
        for rows in (3, 4, 5):
            f(array(rows))
        g(array(2))
        found = self.read(runtime)
        self.assertEqual(found['ductile_calls_total{function="f"}'], 3)
        self.assertEqual(found['ductile_compiles_total{function="f"}'], 1)
        self.assertEqual(found['ductile_calls_total{function="\\"g\\" \u00e9"}'], 1)
        self.assertGreater(found["ductile_bytes"], 0)
        self.assertNotIn('ductile_calls_total{function="f"}', self.read(ductile.Runtime(threads=1)))

    def test_latency(self):
        runtime = ductile.Runtime(threads=1)
        f = made(runtime=runtime, name="f")
        count = lambda: self.read(runtime).get('ductile_call_seconds_count{function="f"}', 0)
        f(array(3))
        self.assertEqual(count(), 0)
        runtime.metrics_latency()
        f(array(3))
        f(array(4))
        self.assertEqual(count(), 2)
        runtime.metrics_latency(False)
        f(array(3))
        self.assertEqual(count(), 2)
        self.assertEqual(self.read(runtime)['ductile_call_seconds_bucket{function="f",le="+Inf"}'], 2)
        runtime.metrics_latency(True)
        f(array(3))
        self.assertEqual(count(), 3)


class Memory(unittest.TestCase):
    def test_nothing_is_left(self):
        f, x = made(), array(3)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.trace.json")
            def turn():
                with ductile.Profile(most_events=64) as profile:
                    f(x)
                    for wrong in (ductile.Profile, lambda: profile.text("table"), lambda: profile.write(folder),
                                  lambda: profile.write(3), lambda: ductile.Profile(most_events=1 << 30)):
                        try:
                            wrong()
                        except (ductile.Error, ValueError, TypeError):
                            continue
                        raise AssertionError
                profile.report()
                profile.text("html")
                profile.write(path)
                ductile.runtime().metrics()
            self.assertIsNone(left(turn, 100))


if __name__ == "__main__":
    main()

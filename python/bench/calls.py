#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs over the same call from C.

usage: calls.py BENCH_CALL [--rounds N] [--calls N]

A function of one kernel, a + b over eight numbers. C's figures are those of the program BENCH_CALL
(bench/bench_call.c) for the same: the overhead and the addition. Both are run by turns, each with one kernel
thread; Python's figures are processor time of the calling thread, the loop's own taken off, C's are by the clock.
Medians in microseconds. Then calls of a kernel of about a millisecond from one Python thread, and from two, whose ratio says
whether the interpreter's lock is free (on cores that are).
"""

import argparse
import json
import statistics
import subprocess
import threading
import time

import numpy as np

import ductile
from ductile import ops


def c_times(program, calls):
    """Nanoseconds of a call by case."""
    done = subprocess.run([program, "--json", "--threads", "1", "--calls", str(calls)], capture_output=True,
                          text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["case"]: row["value"] for row in rows if row["metric"] == "call mean"}


def python_time(call, calls):
    def loop(n, body):
        begin = time.thread_time_ns()
        for _ in range(n):
            body()
        return time.thread_time_ns() - begin

    return (loop(calls, call) - loop(calls, lambda: None)) / calls


def rate(function, x, threads, seconds=1.0):
    """Calls a second of several Python threads."""
    counts, until = [0] * threads, time.monotonic() + seconds

    def work(k):
        while time.monotonic() < until:
            function(x)
            counts[k] += 1

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=50000)
    arguments = parser.parse_args()
    runtime = ductile.Runtime(threads=1)
    add = ductile.function(lambda x, y: x + y, runtime=runtime,
                           inputs=[ductile.Input("x", "f32", ["n"]), ductile.Input("y", "f32", ["n"])])
    x, y, out = np.ones(8, "f4"), np.ones(8, "f4"), np.empty(8, "f4")
    given = [ductile.tensor(x), ductile.tensor(y)]
    cases = {"f(x, y)": lambda: add(x, y), "f(x, y), of Tensors": lambda: add(*given),
             "f.run([x, y], out=[z])": lambda: add.run([x, y], out=[out]),
             "numpy: x + y": lambda: x + y}
    times = {}
    for call in cases.values():
        python_time(call, 2000)
    for _ in range(arguments.rounds):
        for name, ns in c_times(arguments.program, arguments.calls).items():
            times.setdefault(f"C, {name}", []).append(ns)
        for name, call in cases.items():
            times.setdefault(name, []).append(python_time(call, arguments.calls))
    for name, all_times in times.items():
        print(f"{name:24} {statistics.median(all_times) / 1000:8.3f} us")
    over = statistics.median(times["f(x, y)"]) - statistics.median(times["C, allocated"])
    print(f"{'f(x, y) over C':24} {over / 1000:8.3f} us")
    long = ductile.function(lambda x: ops.sum(ops.tanh(x)), runtime=runtime, inputs=[ductile.Input("x", "f32", ["n"])])
    many = np.ones(1 << 20, "f4")
    long(many)
    rates = [(rate(long, many, 1), rate(long, many, 2)) for _ in range(5)]
    one, two = (statistics.median(r) for r in zip(*rates))
    print(f"calls a second: {one:.0f} from one thread, {two:.0f} from two")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools on the CPU: Ductile and onnxruntime by turns, in f32, same threads.

  tools/bench/bench_conv_peer.py --program build/release/bench/bench_conv [--threads N] [--only NAME]
      [--rounds N] [--processor-time] [--json FILE]

Needs numpy, onnx and onnxruntime. Each case is made on both sides with N, H and W symbolic and the
same numbers; their results must agree. Rounds of calls are taken by turns with a pause in between,
so that nobody's threads spin while another is measured; medians over all rounds are compared. The
floor is the arithmetic at --peak GFLOP/s a thread (measured here with a large product by the peer
where it is not given): transposed convolutions are counted a window an element of the input.

Standard output is JSON lines, first the machine, then a line a case: ratio = peer_value / value,
above 1 where Ductile is faster. A table goes to standard error.

Exit codes: 0 measured, whatever the figures; 1 something failed or the answers differ; 2 wrong
usage.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from bench_cpu import Ductile as Served, cpu_model, git

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEER = f"onnxruntime {onnxruntime.__version__}"
SETTLE_S, TURN_S = 0.05, 0.1
FIELDS = ("name", "op", "channels", "height", "width", "rows", "kernel", "stride", "padding",
          "groups", "flops")
TOLERANCE = 1e-5    # of sums, over the sum of absolute values


def say(text):
    print(text, file=sys.stderr, flush=True)


def numbers(shape, count):
    """What bench_conv fills its tensors with."""
    i = np.arange(int(np.prod(shape)))
    return ((i % count - count // 2).astype(np.float32) * np.float32(0.1)).reshape(shape)


class Ductile(Served):
    def __init__(self, program, arguments):
        command = [program, "--serve", "--threads", str(arguments.threads)]
        command += ["--processor-time"] * arguments.processor_time
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.version = self.read().removeprefix("ready ")

    def cases(self):
        rows = [dict(zip(FIELDS, row.split(":"))) for row in self.ask("list").split()]
        return [{k: v if k in ("name", "op") else int(v) for k, v in row.items()} for row in rows]

    def times(self, case, calls):
        return [float(ns) for ns in self.ask(f"run {case['name']} {calls}").split()]

    def sums(self, case):
        return [float(value) for value in self.ask(f"sum {case['name']}").split()]


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


class Peer:
    def __init__(self, case, arguments):
        self.clock = time.thread_time_ns if arguments.processor_time else time.perf_counter_ns
        kernel, weights = case["kernel"], []
        attributes = {"kernel_shape": [kernel] * 2, "strides": [case["stride"]] * 2,
                      "pads": [case["padding"]] * 4}
        if case["rows"]:
            attributes["group"] = case["groups"]
            ends = [case["rows"], case["channels"] // case["groups"]]
            if case["op"] == "ConvTranspose":
                ends = [case["channels"], case["rows"] // case["groups"]]
            weights = [onnx.numpy_helper.from_array(numbers(ends + [kernel] * 2, 13), "w")]
        node = helper.make_node(case["op"], ["x"] + ["w"] * len(weights), ["y"], **attributes)
        shape = ["n", case["channels"], "h", "w_"]
        graph = helper.make_graph(
            [node], "case", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        self.session = session(model, arguments.threads)
        self.x = {"x": numbers([1, case["channels"], case["height"], case["width"]], 17)}

    def times(self, _case, calls):
        times = []
        for _ in range(calls):
            start = self.clock()
            self.session.run(None, self.x)
            times.append(float(self.clock() - start))
        return times

    def sums(self, _case):
        y = self.session.run(None, self.x)[0].astype(np.float64)
        return [y.sum(), np.abs(y).sum()]


def measure(sides, case, rounds):
    """Median microseconds of each side."""
    times = [[] for _ in sides]
    calls = []
    for side in sides:
        side.times(case, 2)
        once = statistics.median(side.times(case, 3)) * 1e-9
        calls.append(max(3, min(1000, int(TURN_S / max(once, 1e-6)))))
    for turn in range(rounds):
        for i in range(len(sides)):
            at = (i + turn) % len(sides)
            time.sleep(SETTLE_S)
            times[at] += sides[at].times(case, 2 + calls[at])[2:]
    return [statistics.median(values) * 1e-3 for values in times]


def peak_of(threads):
    """GFLOP/s a thread of a large product: what libraries reach of the machine's peak."""
    a = numbers([512, 512], 13)
    weights = onnx.numpy_helper.from_array(a, "b")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["c"])], "peak",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["m", 512])],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    run, best = session(model, threads), 1e9
    for _ in range(50):
        start = time.perf_counter()
        run.run(None, {"a": a})
        best = min(best, time.perf_counter() - start)
    return 2 * 512 ** 3 / best * 1e-9 / threads


def one_case(ductile, case, arguments):
    sides = [ductile, Peer(case, arguments)]
    ours, theirs = (side.sums(case) for side in sides)
    difference = max(abs(a - b) for a, b in zip(ours, theirs)) / max(theirs[1], 1e-30)
    if not difference <= TOLERANCE:
        raise RuntimeError(f"answers of {case['name']} differ: {ours} against {theirs}")
    value, peer_value = measure(sides, case, arguments.rounds)
    floor = case["flops"] / (arguments.peak * arguments.threads) * 1e-3
    say(f"{case['name']:22} {value:9.1f} us  peer {peer_value:9.1f} us  ratio "
        f"{peer_value / value:6.3f}  floor {floor:8.1f} us")
    return {"bench": "conv", "case": case["name"], "metric": "latency", "unit": "us",
            "value": round(value, 2), "peer": PEER, "peer_value": round(peer_value, 2),
            "ratio": round(peer_value / value, 4), "floor": round(floor, 2),
            "threads": arguments.threads,
            "clock": "processor" if arguments.processor_time else "wall"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench_conv")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", metavar="NAME", help="cases with NAME in their name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peak", type=float, default=0, metavar="G", help="GFLOP/s of a thread")
    parser.add_argument("--processor-time", action="store_true",
                        help="that of the calling thread: with --threads 1 a figure that other "
                             "programs on the machine hardly change")
    parser.add_argument("--json", metavar="FILE", help="write the lines there, too")
    arguments = parser.parse_args()
    if arguments.processor_time and arguments.threads != 1:
        parser.error("--processor-time is for --threads 1: it sees the calling thread alone")
    if arguments.threads < 1 or arguments.rounds < 1 or arguments.peak < 0:
        parser.error("--threads and --rounds are at least 1")
    return arguments


def main():
    arguments = parse_arguments()
    arguments.peak = arguments.peak or peak_of(arguments.threads)
    lines = [{"bench": "machine", "date": datetime.date.today().isoformat(),
              "commit": git("rev-parse", "--short=12", "HEAD") or "unknown",
              "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
              "cpu": cpu_model(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2),
              "threads": arguments.threads, "peer": PEER, "peak": round(arguments.peak, 1),
              "rounds": arguments.rounds}]
    print(json.dumps(lines[0]), flush=True)
    try:
        ductile = Ductile(arguments.program, arguments)
        for case in ductile.cases():
            if arguments.only in case["name"]:
                lines.append(one_case(ductile, case, arguments))
                print(json.dumps(lines[-1]), flush=True)
        ductile.close()
    except (RuntimeError, OSError) as error:
        say(f"bench: {error}")
        return 1
    if arguments.json:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        pathlib.Path(arguments.json).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

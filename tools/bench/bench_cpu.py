#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MiniLM on the CPU: Ductile and onnxruntime by turns, same machine, threads, weights and inputs.

scripts/bench runs this after building. Per number of threads and shape, rounds of: Ductile (a
`bench_minilm --serve` child), the peer on the plain ONNX file, the peer on the file its own
optimizer made, with a pause in between so that nobody's threads spin while another is measured. The
first calls of each turn only wake the processor and are not counted. Compared are the medians over
all rounds; the peer's is the better of its two files at that shape.

The peer runs with all graph optimisations, sequential execution, spinning threads (its defaults),
the same number of threads, and inputs and outputs bound ahead.

Standard output is JSON lines: first the machine, then one line a figure; ratio = peer_value / value,
above 1 where Ductile is faster. The table and progress go to standard error. The same lines are
written to --json FILE, by default bench/results/cpu-<date>-<commit>.jsonl for a full run.

Exit codes: 0 measured, whatever the figures; 1 something failed or the answers differ; 2 wrong
usage.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

import export_minilm
from bench_shapes import SHAPES

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEER = f"onnxruntime {onnxruntime.__version__}"
MAX_DIFFERENCE = 1e-4
FIRST_WORD, VOCAB, HIDDEN = 1996, 30522, 384
SETTLE_S = 0.05     # the peer's threads spin for some milliseconds after a call
TURN_S = 0.08       # of one side's calls in one round
MIN_CALLS, WARM_CALLS = 2, 2


def say(text):
    print(text, file=sys.stderr, flush=True)


def inputs_of(shape):
    """What bench_minilm makes: arbitrary tokens, no padding."""
    count = shape[0] * shape[1]
    ids = FIRST_WORD + np.arange(count, dtype=np.int64) * 7919 % (VOCAB - FIRST_WORD)
    return ids.reshape(shape), np.ones(shape, np.int64)


# ---- The two sides --------------------------------------------------------------------------------
# Both have times(shape, calls) → nanoseconds of each call, and embed(shape) → array.

class Ductile:
    name = "ductile"

    def __init__(self, program, model, threads):
        command = [program, "--serve", "--threads", str(threads)]
        if model:
            command += ["--model", model]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.version = self.read().removeprefix("ready ")

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("bench_minilm --serve ended: its message stands above")
        if line.startswith("error "):
            raise RuntimeError("bench_minilm: " + line.strip())
        return line.strip()

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.read()

    def times(self, shape, calls):
        return [float(ns) for ns in self.ask(f"run {shape[0]} {shape[1]} {calls}").split()]

    def embed(self, shape):
        values = self.ask(f"embed {shape[0]} {shape[1]}").split()
        return np.array(values, np.float32).reshape(shape[0], HIDDEN)

    def stats(self):
        names = ("variants", "evaluator_calls", "kernels", "session_bytes")
        return dict(zip(names, map(int, self.ask("stats").split())))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Peer:
    def __init__(self, name, path, threads):
        self.name = name
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options,
                                                    providers=["CPUExecutionProvider"])

    def bind(self, shape):
        binding = self.session.io_binding()
        ids, mask = inputs_of(shape)
        self.output = np.empty((shape[0], HIDDEN), np.float32)
        self.kept = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in (ids, mask)]
        binding.bind_ortvalue_input("ids", self.kept[0])
        binding.bind_ortvalue_input("mask", self.kept[1])
        binding.bind_output("embeddings", "cpu", 0, np.float32, self.output.shape,
                            self.output.ctypes.data)
        return binding

    def times(self, shape, calls):
        binding, run, times = self.bind(shape), self.session.run_with_iobinding, []
        for _ in range(calls):
            start = time.perf_counter_ns()
            run(binding)
            times.append(float(time.perf_counter_ns() - start))
        return times

    def embed(self, shape):
        binding = self.bind(shape)
        self.session.run_with_iobinding(binding)
        return self.output.copy()

    def close(self):
        self.session = None


# ---- Measuring ------------------------------------------------------------------------------------

def check_answers(sides, shape):
    """The largest difference between the sides' embeddings."""
    answers = [side.embed(shape) for side in sides]
    if not all(np.isfinite(answer).all() for answer in answers):
        return math.inf
    return float(max(np.abs(answers[0] - answer).max() for answer in answers[1:]))


def calls_of_a_turn(side, shape):
    side.times(shape, WARM_CALLS)
    once = statistics.median(side.times(shape, 3)) * 1e-9
    return max(MIN_CALLS, min(2000, math.ceil(TURN_S / max(once, 1e-7))))


def measure_shape(sides, shape, rounds):
    """Median nanoseconds of each side."""
    times = {side.name: [] for side in sides}
    calls = {side.name: calls_of_a_turn(side, shape) for side in sides}
    for turn in range(rounds):
        # Who begins changes, so that nobody always runs on a processor that another has warmed.
        for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
            time.sleep(SETTLE_S)
            times[side.name] += side.times(shape, WARM_CALLS + calls[side.name])[WARM_CALLS:]
    return {name: statistics.median(values) for name, values in times.items()}


def figure(shape, threads, metric, unit, value, **more):
    return {"bench": "minilm", "case": f"{shape[0]}x{shape[1]}", "metric": metric, "unit": unit,
            "value": value, **more, "threads": threads}


def summary(name, threads, value, limit):
    return {"bench": "minilm", "case": name, "metric": "peer / ours", "unit": "ratio",
            "value": round(value, 4), "limit": limit, "within": value >= limit, "threads": threads}


def measure_threads(threads, arguments, files, emit):
    ductile = Ductile(arguments.program, arguments.model, threads)
    peers = [Peer(name, path, threads) for name, path in files]
    sides = [ductile, *peers]
    ratios = []
    try:
        for shape in arguments.shapes:
            difference = check_answers(sides, shape)
            if not difference <= MAX_DIFFERENCE:
                raise RuntimeError(f"answers at {shape} differ by {difference:.3g}, allowed is "
                                   f"{MAX_DIFFERENCE:g}: nothing was measured there")
            medians = measure_shape(sides, shape, arguments.rounds)
            ours = medians.pop(ductile.name)
            best = min(medians, key=medians.get)
            ratios.append(medians[best] / ours)
            emit(figure(shape, threads, "latency", "ms", round(ours * 1e-6, 5), peer=PEER,
                        peer_value=round(medians[best] * 1e-6, 5), ratio=round(ratios[-1], 4),
                        peer_file=best, difference=float(f"{difference:.2g}")))
            say(f"  {threads} thread{'s' if threads > 1 else ' '}  {shape[0]:3} x {shape[1]:<4} "
                f"{ours * 1e-6:10.3f} ms  peer {medians[best] * 1e-6:10.3f} ms  "
                f"ratio {ratios[-1]:.3f}")
        stats = ductile.stats()
    finally:
        for side in sides:
            side.close()
    emit(summary("geometric mean", threads, statistics.geometric_mean(ratios), 0.7))
    emit(summary("minimum", threads, min(ratios), 0.5))
    for metric, value in stats.items():
        emit({"bench": "minilm", "case": "function", "metric": metric,
              "unit": "B" if metric == "session_bytes" else "count", "value": value,
              "threads": threads})
    if stats["evaluator_calls"]:
        raise RuntimeError("the reference evaluator answered calls: these figures do not count")


# ---- The report -----------------------------------------------------------------------------------

def git(*command):
    result = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def machine(arguments):
    changed = bool(git("status", "--porcelain", "--untracked-files=no"))
    return {"bench": "machine", "date": datetime.date.today().isoformat(),
            "commit": git("rev-parse", "--short=12", "HEAD") or "unknown", "changed": changed,
            "cpu": cpu_model(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2),
            "system": platform.platform(), "threads": arguments.threads, "peer": PEER,
            "weights": "trained" if arguments.model else "seeded", "rounds": arguments.rounds}


def print_table(lines):
    rows = [line for line in lines if line.get("metric") == "latency" and "ratio" in line]
    say(f"\n{'threads':>7} {'shape':>8} {'ductile ms':>11} {'peer ms':>11} {'ratio':>7}  peer's file")
    for row in rows:
        say(f"{row['threads']:7} {row['case']:>8} {row['value']:11.3f} {row['peer_value']:11.3f} "
            f"{row['ratio']:7.3f}  {row['peer_file']}")
    for line in lines:
        if line.get("metric") == "peer / ours":
            say(f"{line['threads']:7} {line['case']}: {line['value']:.3f} "
                f"({'within' if line['within'] else 'BELOW'} {line['limit']})")


def parse_shapes(text):
    try:
        shapes = [tuple(int(size) for size in shape.split("x")) for shape in text.split(",")]
    except ValueError:
        shapes = [()]
    if not all(len(shape) == 2 and min(shape) >= 1 and shape[1] <= 512 for shape in shapes):
        raise argparse.ArgumentTypeError("shapes look like 1x16,3x19; lengths go up to 512")
    return shapes


def parse_threads(text):
    try:
        threads = [int(count) for count in text.split(",")]
    except ValueError:
        threads = [0]
    if min(threads) < 1:
        raise argparse.ArgumentTypeError("threads look like 1,2")
    return threads


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench cpu minilm", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", metavar="DIR", help="folder of the model (default: seeded weights)")
    parser.add_argument("--threads", type=parse_threads, default=None, metavar="LIST",
                        help="numbers of threads to measure with (default: 1 and one a core)")
    parser.add_argument("--shapes", type=parse_shapes, default=SHAPES, metavar="LIST",
                        help="batch x length, such as 1x16,3x19 (default: the twelve)")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each side (default: 9)")
    parser.add_argument("--json", metavar="FILE", help="write the lines there")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if arguments.threads is None:
        arguments.threads = sorted({1, os.cpu_count() or 1})
    return arguments


def result_file(arguments, first):
    if arguments.json:
        return pathlib.Path(arguments.json)
    if arguments.shapes != SHAPES:
        return None
    changed = "-changed" if first["changed"] else ""
    return ROOT / "bench" / "results" / f"cpu-{first['date']}-{first['commit']}{changed}.jsonl"


def main():
    arguments = parse_arguments()
    if os.getloadavg()[0] > 0.5:
        say(f"warning: the load average is {os.getloadavg()[0]:.1f}: on a machine that others use too, "
            "these figures say little, above all with more than one thread")
    lines = []

    def emit(line):
        lines.append(line)
        print(json.dumps(line), flush=True)

    with tempfile.TemporaryDirectory(prefix="ductile-bench-") as folder:
        say("exporting the model to ONNX")
        plain, fused, counts = export_minilm.export(arguments.model, folder)
        emit({**machine(arguments), "fused": counts})
        files = [("plain", plain), ("fused", fused)]
        try:
            for threads in arguments.threads:
                measure_threads(threads, arguments, files, emit)
        except (RuntimeError, BrokenPipeError) as error:
            say(f"bench: {error}")
            return 1
    print_table(lines)
    path = result_file(arguments, lines[0])
    if path:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        say(f"\nwritten to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs models through onnxruntime with Ductile's provider, beside its CPU provider and beside Ductile itself.

usage: provider.py [--sets N] [--time] [--threads N] [--option NAME=VALUE]… [--kinds NAME]… FOLDER…

A FOLDER is a model's, or has such folders, as test/onnx/models.sh and light.py make them: model.onnx,
test_data_set_K/input_K.pb, and data.json with tolerances. --kinds: a model of tools/bench/kinds, at N sizes
between the first two that are measured. Each of the first N sets (10) is run by one session
with the provider and by one of the CPU provider; results are compared, and a row is printed for each model:
sets, nodes that Ductile takes of all that onnxruntime gives out, in how many parts, and the largest
difference. With --time also how long the session's calls take beside those of ductile.load(model).run, in
turns: Ductile's shortest call in microseconds of processor time; how many times as long as a session's its
calls take, in processor time and in time, the median over the sets and the least; and how much more
processor time a call of the session takes. With one thread the processor time is the calling thread's,
which a busy machine changes little. A set that the CPU provider refuses must be refused.
Exit codes: 0 all agree; 1 some do not, or cannot be run; 77 no onnxruntime with providers in libraries.
"""

import argparse
import json
import math
import os
import re
import statistics
import sys
import time

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError:
    print("SKIP: no onnx or onnxruntime: scripts/deps --python")
    sys.exit(77)

import ductile
import ductile.onnxruntime as provider

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "bench"))
import kinds  # noqa: E402
from kinds import store  # noqa: E402

ROUNDS = 9  # of timings
LEAST_SECONDS = 0.004  # of one


def read(path):
    with open(path, "rb") as file:
        return numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))


def models(folders):
    for folder in folders:
        inner = [folder] + [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        yield from (path for path in inner if os.path.exists(os.path.join(path, "model.onnx")))


def sets(folder, most):
    """The inputs of each set."""
    names = [name for name in os.listdir(folder) if re.match(r"test_data_set_\d+$", name)]
    for name in sorted(names, key=lambda name: int(name.rsplit("_", 1)[1]))[:most]:
        path = os.path.join(folder, name)
        files = [file for file in os.listdir(path) if re.match(r"input_\d+\.pb$", file)]
        yield [read(os.path.join(path, file)) for file in sorted(files, key=lambda f: int(f[6:-3]))]


def between(low, high, k, n):
    """The k-th of n sizes, as far from another as both are multiples of something; 1, 2, 3 where they are one."""
    unit = math.gcd(low, high)
    return low + unit * round((high - low) / unit * k / max(n - 1, 1)) if low != high else low + k % 3


def made_sets(model, names, most):
    """The inputs of a model of tools/bench/kinds, in the session's order."""
    rng = np.random.default_rng(5)
    low, high = model.sizes[0], model.sizes[min(1, len(model.sizes) - 1)]
    for k in range(most):
        given = model.inputs(rng, *(between(a, b, k, most) for a, b in zip(low, high)))
        yield [given[name] for name in names]


def assigned(session):
    """Nodes of the provider, of all, and parts."""
    ours = everyone = parts = 0
    for part in session.get_provider_graph_assignment_info():
        n = len(part.get_nodes())
        everyone += n
        ours += n if part.ep_name == provider.NAME else 0
        parts += part.ep_name == provider.NAME
    return ours, everyone, parts


def difference(got, expected, rtol, atol):
    """How far results are apart, as a part of what they may be; infinity where they are of other kinds."""
    worst = 0.0
    for a, b in zip(got, expected, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return float("inf")
        if a.dtype.kind not in "fc" and a.dtype.name != "bfloat16":
            worst = max(worst, 0.0 if np.array_equal(a, b) else float("inf"))
        elif a.size:
            a, b = a.astype(np.float64), b.astype(np.float64)
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            worst = max(worst, float(np.max(np.where(same, 0, np.abs(a - b) / (atol + rtol * np.abs(b))))))
    return worst


def measure(run, clock):
    """Processor time and time of one call."""
    n, began, wall = 0, clock(), time.perf_counter()
    while n == 0 or time.perf_counter() - wall < LEAST_SECONDS:
        run()
        n += 1
    return (clock() - began) / n, (time.perf_counter() - wall) / n


def compare_times(session, function, feeds, arrays, clock):
    """Median over rounds, in turns, of each one's processor time and time."""
    runs = [lambda: session.run(None, feeds), lambda: function.run(arrays)]
    for run in runs:
        run()
        run()
    rounds = [[measure(run, clock) for run in runs] for _ in range(ROUNDS)]
    return [[statistics.median(row[who][what] for row in rounds) for what in range(2)] for who in range(2)]


class Row:
    def __init__(self, folder, arguments, kind=None):
        self.name = kind.name if kind else os.path.basename(folder.rstrip("/"))
        self.folder, self.arguments, self.kind = folder, arguments, kind
        self.path = str(store.base(kind)) if kind else os.path.join(folder, "model.onnx")
        self.worst, self.sets, self.wrong = 0.0, 0, []
        self.times = []

    def open(self):
        path = self.path
        options = provider.options(**self.arguments.options)
        options.log_severity_level = 3
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        plain = onnxruntime.SessionOptions()
        plain.log_severity_level = 3
        self.expected = onnxruntime.InferenceSession(path, plain, providers=["CPUExecutionProvider"])
        if self.arguments.threads:
            options.intra_op_num_threads = self.arguments.threads
        self.session = onnxruntime.InferenceSession(path, options)
        self.ours, self.everyone, self.parts = assigned(self.session)
        self.function = None
        if self.arguments.time:
            self.function = ductile.load(path, runtime=ductile.Runtime(threads=self.arguments.threads))
            try:
                self.function.prepare()
            except ductile.StateError:  # it needs a call's sizes
                pass

    def run(self):
        said = {}
        try:
            with open(os.path.join(self.folder or "", "data.json"), encoding="utf-8") as file:
                said = json.load(file)
        except OSError:
            pass
        rtol, atol = float(said.get("rtol", 1e-3)), float(said.get("atol", 1e-4))
        names = [value.name for value in self.session.get_inputs()]
        most = self.arguments.sets
        for arrays in made_sets(self.kind, names, most) if self.kind else sets(self.folder, most):
            self.sets += 1
            feeds = dict(zip(names, arrays))
            try:
                expected = self.expected.run(None, feeds)
            except Exception:  # pylint: disable=broad-except
                expected = None
            try:
                got = self.session.run(None, feeds)
            except Exception as failed:  # pylint: disable=broad-except
                got = None
                if expected is not None:
                    self.wrong.append(str(failed)[:300])
            if got is None or expected is None:
                continue
            far = difference(got, expected, rtol, atol)
            self.worst = max(self.worst, far)
            if not far <= 1:
                self.wrong.append(f"set {self.sets - 1}: {far:.3g} times as far as it may be")
            if self.function:
                self.times.append(compare_times(self.session, self.function, feeds, arrays,
                                                self.arguments.clock))

    def __str__(self):
        text = f"{self.name}\t{self.sets}\t{self.ours} of {self.everyone}\t{self.parts}\t{self.worst:.2g}"
        if self.times:
            text += f"\t{1e6 * min(own[0] for _, own in self.times):.0f}"
            for what in range(2):
                ratios = [own[what] / ep[what] for ep, own in self.times]
                text += f"\t{statistics.median(ratios):.2f}\t{min(ratios):.2f}"
            text += f"\t{1e6 * statistics.median(ep[0] - own[0] for ep, own in self.times):.0f}"
        return text


def main():
    parser = argparse.ArgumentParser(prog="provider.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10, help="sets of each model, at most")
    parser.add_argument("--time", action="store_true", help="measure beside Ductile's own calls")
    parser.add_argument("--threads", type=int, default=0, help="of sessions and of Ductile's own runtime")
    parser.add_argument("--option", action="append", default=[], help="of the provider")
    parser.add_argument("--kinds", action="append", default=[], help="models of tools/bench/kinds, besides")
    parser.add_argument("folders", nargs="*")
    arguments = parser.parse_args()
    arguments.options = dict(option.split("=", 1) for option in arguments.option)
    arguments.clock = time.thread_time if arguments.threads == 1 else time.process_time
    if not hasattr(onnxruntime, "register_execution_provider_library"):
        print(f"SKIP: onnxruntime {onnxruntime.__version__} has no providers in libraries")
        return 77
    times = "\town us\tprocessor time\tleast\ttime\tleast\tmore us" if arguments.time else ""
    print(f"model\tsets\tnodes\tparts\tdifference{times}")
    wrong = 0
    rows = [Row(folder, arguments) for folder in models(arguments.folders)]
    chosen = kinds.chosen(arguments.kinds) if arguments.kinds else []
    for row in rows + [Row(None, arguments, kind) for kind in chosen]:
        try:
            row.open()
            row.run()
            print(row, flush=True)
        except Exception as failed:  # pylint: disable=broad-except
            row.wrong.append(str(failed)[:400])
        for text in row.wrong:
            print(f"{row.name}: {text}")
        wrong += len(row.wrong) > 0
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())

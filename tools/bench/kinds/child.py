# SPDX-License-Identifier: Apache-2.0
"""One model in a process of its own: Ductile and onnxruntime by turns, a line of JSON a row.

Standard input is one JSON object: library, path, base (the f32 model), name (of the table), threads, rows (places in the
model's sizes), rounds, turn_s, variant. Lines are told when they are known, so that the parent
knows the row at which a process ended.
"""
import json
import math
import statistics
import sys
import time

import numpy as np
import onnxruntime

from . import TABLE, TESTED
from .count import Counter
from .library import Function, Library, Refused, aligned

SETTLE_S = 0.05     # threads of the other side spin for some milliseconds after a call
WARM_CALLS, MIN_CALLS, MAX_CALLS = 2, 2, 2000
# Of the answers: root mean square of the difference over that of the peer's answer.
TOLERANCES = {"f32": 1e-4}
QUANTISED = 0.05


class Peer:
    def __init__(self, path, threads, optimised=True):
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimised else level.ORT_DISABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(str(path), options,
                                                    providers=["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]

    def first(self, inputs):
        self.feeds = {i.name: inputs[i.name] for i in self.session.get_inputs()}
        results = self.session.run(None, self.feeds)
        self.bind(results)
        return dict(zip(self.names, results))

    def bind(self, results):
        self.binding = self.session.io_binding()
        values = onnxruntime.OrtValue
        self.ins = {name: values.ortvalue_from_numpy(array) for name, array in self.feeds.items()}
        self.arrays = [aligned(array) for array in results]
        for name, value in self.ins.items():
            self.binding.bind_ortvalue_input(name, value)
        for name, array in zip(self.names, self.arrays):
            self.binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def call(self):
        self.session.run_with_iobinding(self.binding)


# ---- Answers --------------------------------------------------------------------------------------

def difference(ours, theirs):
    """The largest, over the results, of the difference's root mean square over the answer's."""
    worst = 0.0
    for name, b in theirs.items():
        a = ours.get(name)
        if a is None or a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        if not np.issubdtype(b.dtype, np.inexact):
            worst = max(worst, float(np.mean(a != b)) if b.size else 0.0)
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, a - b)
        if not np.isfinite(apart).all():
            return math.inf
        size = math.sqrt(float(np.mean(np.square(b[np.isfinite(b)])))) if np.isfinite(b).any() else 0.0
        if b.size:
            worst = max(worst, math.sqrt(float(np.mean(np.square(apart)))) / max(size, 1e-6))
    return worst


def judge(task, ours, theirs, inputs):
    """How far the answers are from the peer's, and what is allowed. A step of a quantised value may
    go either way where its number lies between two, and steps add up from layer to layer. So a
    quantised model may be as far from the peer as the peer is from itself without optimisations
    (half as much more), or as quantising took its answer from that of the f32 model."""
    allowed = TOLERANCES.get(task["variant"], QUANTISED)
    apart = difference(ours, theirs)
    if apart <= allowed:
        return apart, allowed
    plain = Peer(task["path"], task["threads"], optimised=False).first(inputs)
    allowed = max(allowed, 1.5 * difference(theirs, plain))
    if apart > allowed and task["variant"] != "f32":
        base = Peer(task["base"], task["threads"]).first(inputs)
        allowed = max(allowed, difference(theirs, base))
    return min(apart, difference(ours, plain)), allowed


# ---- Times ----------------------------------------------------------------------------------------

def take(side, calls):
    """Wall nanoseconds of each call, and the processor's of one, warm calls apart."""
    for _ in range(WARM_CALLS):
        side.call()
    wall, begin = [], time.process_time_ns()
    for _ in range(calls):
        start = time.perf_counter_ns()
        side.call()
        wall.append(time.perf_counter_ns() - start)
    return wall, (time.process_time_ns() - begin) / calls


def measure(sides, task):
    """(wall, processor) of each side: medians, milliseconds."""
    walls, processors, calls = [[] for _ in sides], [[] for _ in sides], []
    for side in sides:
        wall, _ = take(side, 1)
        calls.append(max(MIN_CALLS, min(MAX_CALLS, int(task["turn_s"] * 1e9 / max(1, wall[0])))))
    for turn in range(task["rounds"]):
        for i in range(len(sides)):
            at = (i + turn) % len(sides)
            time.sleep(SETTLE_S)
            wall, processor = take(sides[at], calls[at])
            walls[at] += wall
            processors[at].append(processor)
    return [(statistics.median(w) * 1e-6, statistics.median(p) * 1e-6)
            for w, p in zip(walls, processors)]


# ---- Rows -----------------------------------------------------------------------------------------

class Rig:
    def __init__(self, task):
        self.task, self.model = task, {**TABLE, **TESTED}[task["name"]]
        self.own, self.peer, self.counter = None, None, None

    def inputs(self, place):
        made = self.model.inputs(np.random.default_rng(place + 1), *self.model.sizes[place])
        return {name: np.array(array, order="C") for name, array in made.items()}

    def count(self, inputs, results):
        if not self.task["count"]:
            return None
        try:
            self.counter = self.counter or Counter(self.task["path"])
            return self.counter.of(inputs, sum(array.nbytes for array in results.values()))
        except Exception as error:  # onnxruntime has no narrower class; a row without a floor
            print(f"{self.model.name}: nothing counted: {error}", file=sys.stderr)
            return None

    def first(self, inputs):
        if self.own is None:
            library = Library(self.task["library"])
            self.own = Function(library, self.task["path"], self.task["threads"])
        begin = time.perf_counter()
        ours = self.own.first(inputs)
        return ours, {"first_ms": (time.perf_counter() - begin) * 1e3}

    def own_word(self, inputs):
        """What Ductile says where the peer has no answer."""
        try:
            self.first(inputs)
        except Refused as error:
            return f"Ductile refuses, too: {error}"
        return "Ductile answers"

    def row(self, place):
        inputs = self.inputs(place)
        try:
            self.peer = self.peer or Peer(self.task["path"], self.task["threads"])
            theirs = self.peer.first(inputs)
        except Exception as error:  # as above
            return {"status": "peer refused", "message": f"{error}; {self.own_word(inputs)}"}
        ours, found = self.first(inputs)
        apart, allowed = judge(self.task, ours, theirs, inputs)
        found |= {"difference": float(f"{apart:.3g}"), "allowed": float(f"{allowed:.3g}")}
        if not apart <= allowed:
            return {**found, "status": "wrong", "message": f"differs by {apart:.3g}, allowed {allowed:.3g}"}
        found["counts"] = self.count(inputs, theirs)
        if self.task["rounds"] == 0:
            return {**found, "status": "right"}
        (wall, processor), (peer_wall, peer_processor) = measure([self.own, self.peer], self.task)
        stats = self.own.stats()
        if stats["evaluator_calls"]:
            return {**found, "status": "refused", "message": "the reference evaluator answered"}
        return {**found, "status": "measured", "wall": wall, "processor": processor,
                "peer_wall": peer_wall, "peer_processor": peer_processor,
                "compile_ms": stats["compile_ns"] * 1e-6, "variants": stats["variants"]}


def main():
    task = json.loads(sys.stdin.readline())
    rig = Rig(task)
    for place in task["rows"]:
        print(json.dumps({"place": place, "status": "begins"}), flush=True)
        try:
            line = rig.row(place)
        except Refused as error:
            line = {"status": "refused", "message": str(error)}
        print(json.dumps({"place": place, **line}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

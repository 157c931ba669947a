#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What others take to find out that a call fits what they compiled: PyTorch's guards and
onnxruntime's overhead of a run, on this machine and beside Ductile's figures.

scripts/bench guards runs this after building. First bench_guards runs; then each peer in a process
of its own, with the interpreter that has it:
  PyTorch      torch.compile(backend="eager", dynamic dims marked) over ten tensors of rank 4 whose
               dims are equal across tensors; timed is the check itself (the guard manager of the
               one entry, called on the frame's locals), and, as a bound from outside, a call of the
               compiled function less a call of the plain one.
  onnxruntime  a model of ten Identity nodes over rank-4 tensors of one element, inputs and outputs
               bound ahead, one thread: a run less nothing, for its kernels do next to nothing.

Standard output is JSON lines; a peer's line has bench_guards' "hit warm mean" for one variant as
"value", the peer's figure as "peer_value", and their "ratio", above 1 where Ductile is faster.

Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

TENSORS, CALLS, ROUNDS = 10, 2000, 9
SIZES = (3, 5, 7, 2)


def say(text):
    print(text, file=sys.stderr, flush=True)


def median_ns(call, calls=CALLS):
    """The median over rounds of the mean of `calls` calls."""
    for _ in range(calls // 4):
        call()
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        times.append((time.perf_counter_ns() - begin) / calls)
    return statistics.median(times)


def loop_ns():
    """What the loop itself and an empty Python call take."""
    return median_ns(lambda: None, 20 * CALLS)


# ---- The peers, each run by `--peer NAME` in its own process --------------------------------------

def peer_torch():
    import torch
    import torch._dynamo

    torch.set_num_threads(1)

    tensors = [torch.zeros(SIZES) for _ in range(TENSORS)]
    for tensor in tensors:
        for dim in range(4):
            torch._dynamo.mark_dynamic(tensor, dim)

    def program(a, b, c, d, e, f, g, h, i, j):
        # Equal dims across the ten, as Ductile's variant asks for.
        return a + b + c + d + e + f + g + h + i + j

    compiled = torch.compile(program, backend="eager", dynamic=True)
    with torch.no_grad():
        compiled(*tensors)
        entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(program.__code__)
        if len(entries) != 1:
            raise RuntimeError(f"expected one compiled entry, found {len(entries)}")
        names = program.__code__.co_varnames[:TENSORS]
        scope = dict(zip(names, tensors))
        manager = entries[0].guard_manager
        root = getattr(manager, "root", manager)
        if not root.check(scope):
            raise RuntimeError("the guards do not take the arguments that they were made for")
        empty = loop_ns()
        check = median_ns(lambda: root.check(scope)) - empty
        outside = median_ns(lambda: compiled(*tensors)) - median_ns(lambda: program(*tensors))
    name = f"torch {torch.__version__}"
    return [{"case": name, "metric": "guard check", "value": check},
            {"case": name, "metric": "call overhead over eager", "value": outside}]


def peer_onnxruntime():
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    names = [f"x{k}" for k in range(TENSORS)]
    dims = ["a", "b", "c", "d"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in names]
    outputs = [helper.make_tensor_value_info("y" + n, TensorProto.FLOAT, dims) for n in names]
    nodes = [helper.make_node("Identity", [n], ["y" + n]) for n in names]
    graph = helper.make_graph(nodes, "identity", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    array = numpy.zeros((1, 1, 1, 1), numpy.float32)
    for name in names:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        result = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        binding.bind_ortvalue_input(name, value)
        binding.bind_ortvalue_output("y" + name, result)
    run = median_ns(lambda: session.run_with_iobinding(binding)) - loop_ns()
    return [{"case": f"onnxruntime {onnxruntime.__version__}", "metric": "identity run",
             "value": run}]


PEERS = {"torch": peer_torch, "onnxruntime": peer_onnxruntime}


# ---- The run --------------------------------------------------------------------------------------

def run_ductile(program):
    """Passes the lines on and gives the figure that the peers are compared with."""
    result = subprocess.run([program, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    ours = None
    for text in result.stdout.splitlines():
        print(text, flush=True)
        line = json.loads(text)
        if line["case"] == "grid 1" and line["metric"] == "hit warm mean":
            ours = line["value"]
    if not ours:
        raise RuntimeError("bench_guards gave no figure for one variant")
    return ours


def run_peer(python, name, ours):
    if not os.access(python, os.X_OK):
        say(f"bench: {name} is left out: there is no {python}")
        return
    result = subprocess.run([python, os.path.abspath(__file__), "--peer", name],
                            stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{name} could not be measured: its message stands above")
    for text in result.stdout.splitlines():
        line = json.loads(text)
        print(json.dumps({"bench": "guards", "case": "grid 1", "metric": line["metric"],
                          "unit": "ns", "value": ours, "peer": line["case"],
                          "peer_value": round(line["value"], 1),
                          "ratio": round(line["value"] / ours, 2)}), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench guards", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--torch-python", default="", help=argparse.SUPPRESS)
    parser.add_argument("--peer", choices=sorted(PEERS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        for line in PEERS[arguments.peer]():
            print(json.dumps(line))
        return 0
    if not arguments.program:
        parser.error("--program is missing")
    if os.getloadavg()[0] > 0.5:
        say(f"warning: the load average is {os.getloadavg()[0]:.1f}: these figures say little")
    try:
        ours = run_ductile(arguments.program)
        run_peer(sys.executable, "onnxruntime", ours)
        run_peer(arguments.torch_python, "torch", ours)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        say(f"bench: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ductile beside torch.compile (Inductor) on the CPU: models of PyTorch, by turns.

scripts/bench inductor runs this in PyTorch's own environment, with Ductile's wheel in it. MODEL is one
of MODELS (--list names them); all without any. Each has a process of its own: the model, with seeded
weights, is compiled by torch.compile, and exported to ONNX, as users do who leave PyTorch, which
Ductile opens with all of its dims symbolic. Both are called at all sizes once, answers are compared
(rows whose answers differ are told as wrong and not timed), then by turns, three warm calls before each:
medians of processor and wall time over the rounds.

The peer runs with weights frozen (freezing=True) without gradients, in two ways: dynamic=True, one
compile for all sizes, which is what Ductile does, and dynamic=False, a compile for each size. Both may
take as many compiles as they like.

Standard output is JSON lines, ratio = peer / Ductile, above 1 where Ductile is faster; a table goes to
standard error; --json FILE gets the lines, too.

Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.
"""
import argparse
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
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "test" / "onnx"))
WAYS = ("dynamic", "static")


# ---- Models ---------------------------------------------------------------------------------------

def ids(torch, batch, length):
    return torch.randint(0, 1000, (batch, length))


def sentences(width, heads, layers):
    def make(torch):
        import exports
        return exports.Bert(width, heads, layers, 1000, 512)

    def inputs(torch, batch, length):
        x = ids(torch, batch, length)
        return x, torch.ones_like(x), torch.zeros_like(x)

    two = {0: "batch", 1: "length"}
    return make, inputs, ["ids", "mask", "kinds"], [two, two, two], ((1, 16), (1, 128), (8, 64))


def speech(torch):
    import exports
    return exports.Whisper(80, 384, 6, 4)


def tagger(torch):
    import exports
    return exports.Tagger(256, 1000)


def images(name, **options):
    def make(torch):
        import torchvision
        return getattr(torchvision.models, name)(weights=None, **options)

    def inputs(torch, batch, height, width):
        return (torch.randn(batch, 3, height, width),)

    return (make, inputs, ["image"], [{0: "batch", 2: "height", 3: "width"}],
            ((1, 96, 96), (1, 224, 224), (4, 128, 160)))


def vit(torch):
    import exports
    return exports.Vit(224, 16, 384, 6, 12)


MODELS = {
    "encoder_384": sentences(384, 12, 6),
    "encoder_768": sentences(768, 12, 6),
    "vit_384": (vit, lambda torch, batch: (torch.randn(batch, 3, 224, 224),), ["image"],
                [{0: "batch"}], ((1,), (4,))),
    "whisper_384": (speech, lambda torch, batch, frames: (torch.randn(batch, 80, frames),), ["mel"],
                    [{0: "batch", 2: "frames"}], ((1, 100), (1, 500), (4, 200))),
    "tagger_256": (tagger, lambda torch, batch, length: (ids(torch, batch, length),), ["ids"],
                   [{0: "batch", 1: "length"}], ((1, 16), (4, 64))),
    "resnet18": images("resnet18"),
    "resnet50": images("resnet50"),
    "mobilenet_v3_large": images("mobilenet_v3_large"),
    "efficientnet_b0": images("efficientnet_b0"),
    "densenet121": images("densenet121"),
}


# ---- One model, in a process of its own -----------------------------------------------------------

def export(torch, model, inputs, names, axes, path):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, path, input_names=names, dynamo=False, opset_version=17,
                          dynamic_axes=dict(zip(names, axes)))


def first(results):
    return results[0] if isinstance(results, (tuple, list)) else results


def turn(call, seconds):
    """Medians of wall and processor time of a call, in seconds."""
    for _ in range(3):
        call()
    wall, used = [], []
    end = time.perf_counter() + seconds
    while not wall or time.perf_counter() < end:
        a, p = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - a)
        used.append(time.process_time() - p)
    return statistics.median(wall), statistics.median(used)


def row(torch, calls, rounds, seconds):
    times = {side: [] for side in calls}
    for at in range(rounds):
        sides = list(calls)
        for side in sides[at % len(sides):] + sides[:at % len(sides)]:
            time.sleep(0.05)
            times[side].append(turn(calls[side], seconds))
    return {side: [statistics.median(t[k] for t in taken) for k in (0, 1)] for side, taken in times.items()}


def child(task):
    import numpy as np
    import torch
    import torch._inductor.config

    import ductile

    torch._inductor.config.freezing = True
    torch._dynamo.config.cache_size_limit = 64
    torch.set_num_threads(task["threads"])
    os.environ["DUCTILE_THREADS"] = str(task["threads"])
    os.environ["DUCTILE_QUICK"] = "0"
    warnings.filterwarnings("ignore")
    make, inputs, names, axes, sizes = MODELS[task["model"]]
    torch.manual_seed(7)
    model = make(torch).eval()
    sets = [inputs(torch, *size) for size in sizes]
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "model.onnx")
        export(torch, model, sets[-1], names, axes, path)
        ours = ductile.load(path)
    peers, compiles = {}, {}
    with torch.no_grad():
        expected = [first(model(*given)).numpy() for given in sets]
        for way in WAYS:
            torch._dynamo.reset()
            peers[way] = torch.compile(make(torch).eval(), dynamic=way == "dynamic")
            peers[way]._orig_mod.load_state_dict(model.state_dict())
            start = time.perf_counter()
            for given in sets:
                peers[way](*given)
            compiles[way] = time.perf_counter() - start
        for size, given, right in zip(sizes, sets, expected):
            arrays = [x.numpy() for x in given]
            answers = {"Ductile": np.asarray(first(ours(*arrays)))}
            answers |= {way: first(peers[way](*given)).numpy() for way in WAYS}
            scale = float(np.abs(right).max())
            apart = {side: float(np.abs(a - right).max()) / scale for side, a in answers.items()}
            line = {"model": task["model"], "sizes": "x".join(map(str, size)), "threads": task["threads"]}
            if max(apart.values()) > 1e-3:
                print(json.dumps({**line, "wrong": apart}), flush=True)
                continue
            calls = {"Ductile": lambda: ours(*arrays)}
            calls |= {way: (lambda peer=peers[way]: peer(*given)) for way in WAYS}
            times = row(torch, calls, task["rounds"], task["seconds"])
            for side, (wall, used) in times.items():
                line[side] = {"wall_us": wall * 1e6, "processor_us": used * 1e6}
            line["first_s"] = compiles
            print(json.dumps(line), flush=True)


# ---- All of them ----------------------------------------------------------------------------------

def ratios(line):
    kind = "processor_us" if line["threads"] == 1 else "wall_us"
    return {way: line[way][kind] / line["Ductile"][kind] for way in WAYS}


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(json.loads(given.child))
        return 0
    if given.list:
        print("\n".join(MODELS))
        return 0
    unknown = [name for name in given.models if name not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {', '.join(MODELS)}")
    import torch
    lines = [{"bench": "inductor", "peer": f"PyTorch {torch.__version__}", "cpu": platform.processor() or platform.machine(),
              "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2), "rounds": given.rounds, "seconds": given.seconds}]
    print(json.dumps(lines[0]), flush=True)
    failed = False
    for name in given.models or MODELS:
        task = {"model": name, "threads": given.threads, "rounds": given.rounds, "seconds": given.seconds}
        done = subprocess.run([sys.executable, __file__, "--child", json.dumps(task)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        for line in map(json.loads, done.stdout.splitlines()):
            if "wrong" not in line:
                line["ratio"] = ratios(line)
                print(f"{line['model']:20} {line['sizes']:12} " +
                      " ".join(f"{way} {line['ratio'][way]:6.2f}" for way in WAYS), file=sys.stderr, flush=True)
            failed |= "wrong" in line
            lines.append(line)
            print(json.dumps(line), flush=True)
        if done.returncode:
            failed = True
            print(f"{name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr, flush=True)
    timed = [line["ratio"] for line in lines if "ratio" in line]
    for way in WAYS:
        values = [ratio[way] for ratio in timed]
        print(json.dumps({"peer": way, "rows": len(values), "geometric_mean": geometric(values),
                          "least": min(values, default=float("nan"))}), flush=True)
    if given.json:
        given.json.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

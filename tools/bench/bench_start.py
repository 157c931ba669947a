#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From start to first answer, and the memory that takes: Ductile and onnxruntime by turns.

scripts/bench runs this after building. Each turn is a process of its own (the system's cache of
files is warm): bench_start with nothing kept (cold), with what an earlier process kept (kept), with a
package that `ductile compile` made of the model (package), and the peer, which loads the model and
runs it once. Time is counted from the making of the runtime, or of the peer's session, to the answer;
programs, libraries and Python are loaded before. Memory is the proportional set size that this added;
the peak is by what most was resident on the way. Answers are compared first: the first result, where
it is f32.

MODEL is a file, with sizes behind it where dims vary: model.onnx,batch=1,sequence=128. Without any,
the networks of ONNX's own test data are taken whose weights the graph makes (test/onnx/light.py):
for them constants are computed at start, by both sides. --wide takes those of the table
tools/bench/kinds that have a size to start at instead: practical widths, seeded weights, which the
files hold.

The peer runs with its defaults: all graph optimisations, sequential execution.

Standard output is JSON lines: the machine, then a line a figure; ratio = peer_value / value, above 1
where Ductile is faster or smaller. The table and progress go to standard error; --json FILE gets the
lines, too.

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
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(float16)": np.float16}
RTOL, ATOL = 1e-3, 1e-4
WAYS = ("cold", "kept", "package")


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- The peer, in a process of its own ------------------------------------------------------------

def pss():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024


def resident(field):
    with open("/proc/self/status", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(field)) * 1024


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def array_of(kind, shape):
    """What bench_start.c makes."""
    k = np.arange(math.prod(shape), dtype=np.int64)
    dtype = TYPES[kind]
    if dtype in (np.float32, np.float64):
        values = (k * 37 % 101 - 50) / 64
    elif dtype in (np.int64, np.int32):
        values = k % 2
    else:
        values = k * 0
    return values.astype(dtype).reshape(shape)


def peer(path, threads, dims, output):
    import time

    import onnxruntime
    onnxruntime.set_default_logger_severity(3)
    forget_peak()
    before, least, begin = pss(), resident("VmRSS:"), time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: array_of(i.type, [d if isinstance(d, int) else dims.get(d, 1) for d in i.shape])
             for i in session.get_inputs()}
    results = session.run(None, feeds)
    figures = {"first answer": (time.perf_counter() - begin) * 1e3,
               "memory added": (pss() - before) / 1e6,
               "peak added": (resident("VmHWM:") - least) / 1e6}
    later = []
    for _ in range(5):
        begin = time.perf_counter()
        session.run(None, feeds)
        later.append((time.perf_counter() - begin) * 1e3)
    figures["later call"] = statistics.median(later)
    if results[0].dtype == np.float32:
        results[0].tofile(output)
    print(json.dumps(figures))


# ---- Turns ----------------------------------------------------------------------------------------

def run_peer(options, model, threads, output):
    done = subprocess.run([sys.executable, __file__, "--peer", str(threads), str(output), model],
                          stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def run_own(options, model, threads, output, folder):
    path, *dims = model.split(",")
    command = [options.program, "--json", "--threads", str(threads), "--output", str(output)]
    for dim in dims:
        command += ["--dim", dim]
    done = subprocess.run([*command, path], stdout=subprocess.PIPE, check=True, text=True,
                          env=dict(os.environ, DUCTILE_CACHE_DIR=str(folder)))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["metric"]: line["value"] for line in lines}


def check_answers(model, own, peer_output):
    if not own.exists() or not peer_output.exists():
        return
    a, b = np.fromfile(own, np.float32), np.fromfile(peer_output, np.float32)
    if a.shape != b.shape or not np.allclose(a, b, RTOL, ATOL, equal_nan=True):
        raise RuntimeError(f"{model}: the answers differ")


def measure(options, model, threads, work):
    own, other, kept = work / "own", work / "peer", work / "kept"
    for stale in (own, other):
        stale.unlink(missing_ok=True)
    shutil.rmtree(kept, ignore_errors=True)
    run_own(options, model, threads, own, kept)
    run_peer(options, model, threads, other)
    check_answers(model, own, other)
    run_own(options, model, threads, own, kept)
    check_answers(model, own, other)  # by kept code
    package = work / (name_of(model) + ".dtp")
    subprocess.run([options.command, "compile", model.split(",")[0], "-o", package],
                   stdout=subprocess.DEVNULL, check=True)
    packed = ",".join([str(package), *model.split(",")[1:]])
    run_own(options, packed, threads, own, "")
    check_answers(model, own, other)
    turns = {"cold": [], "kept": [], "package": [], "peer": []}
    for _ in range(options.rounds):
        turns["peer"].append(run_peer(options, model, threads, other))
        turns["cold"].append(run_own(options, model, threads, own, ""))
        turns["kept"].append(run_own(options, model, threads, own, kept))
        turns["package"].append(run_own(options, packed, threads, own, ""))
    package.unlink()
    return {who: {metric: statistics.median(turn[metric] for turn in all_of)
                  for metric in all_of[0]} for who, all_of in turns.items()}


def geomean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"],
                            stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    import onnxruntime
    return {"bench": "start", "date": datetime.date.today().isoformat(), "commit": commit,
            "cpu": names[0] if names else platform.machine(), "cores": os.cpu_count(),
            "peer": f"onnxruntime {onnxruntime.__version__}"}


def lines_of(name, threads, medians):
    for way in WAYS:
        for metric, unit in (("first answer", "ms"), ("memory added", "MB"), ("peak added", "MB"),
                             ("later call", "ms")):
            value, other = medians[way][metric], medians["peer"][metric]
            yield {"bench": "start", "case": name, "threads": threads, "way": way, "metric": metric,
                   "unit": unit, "value": round(value, 3), "peer_value": round(other, 3),
                   "ratio": round(other / value, 3) if value > 0 else None}


def light_models(work):
    onnx = subprocess.run([str(ROOT / "test/onnx/data.sh")], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()
    folder = work / "light"
    folder.mkdir()
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(onnx), PYTHONDONTWRITEBYTECODE="1")
    subprocess.run(["/usr/bin/python3", str(ROOT / "test/onnx/light.py"), onnx, str(folder)],
                   env=environment, check=True, stdout=subprocess.DEVNULL)
    return sorted(str(path) for path in folder.glob("*/model.onnx"))


def wide_models():
    from kinds import TABLE, store
    rows = []
    for model in TABLE.values():
        if model.start:
            dims = (f",{name}={size}" for name, size in zip(model.dims, model.start))
            rows.append(str(store.file_of(model, "f32")) + "".join(dims))
    return rows


def name_of(model):
    path = pathlib.Path(model.split(",")[0])
    if path.name.endswith(".f32.onnx"):
        return path.name.split(".")[0]
    return path.parent.name if path.stem == "model" else path.stem


def tell(figures, models, threads):
    say(f"\n{threads} threads; ms to the first answer, MB added; ratios to the peer, below 1 is better")
    say(f"{'model':28} {'peer':>8}" + "".join(f" {way:>9} {'ratio':>6}" for way in WAYS) +
        f" {'MB peer':>8}" + "".join(f" {way:>7}" for way in WAYS) +
        f" {'peak':>8}" + "".join(f" {way:>7}" for way in WAYS))
    for model in models:
        own = figures[model]
        first = {way: own[way]["first answer"] for way in own}
        memory = {way: own[way]["memory added"] for way in own}
        peak = {way: own[way]["peak added"] for way in own}
        say(f"{name_of(model):28} {first['peer']:8.1f}" +
            "".join(f" {first[way]:9.1f} {first[way] / first['peer']:6.2f}" for way in WAYS) +
            f" {memory['peer']:8.1f}" +
            "".join(f" {memory[way] / memory['peer']:7.2f}" for way in WAYS) +
            f" {peak['peer']:8.1f}" +
            "".join(f" {peak[way] / peak['peer']:7.2f}" for way in WAYS))
    for way in WAYS:
        ratios = [figures[m][way]["first answer"] / figures[m]["peer"]["first answer"] for m in models]
        memory = [figures[m][way]["memory added"] / figures[m]["peer"]["memory added"] for m in models]
        peak = [figures[m][way]["peak added"] / figures[m]["peer"]["peak added"] for m in models]
        say(f"{way}: geometric mean of times {geomean(ratios):.3f}, worst {max(ratios):.2f}; of memory"
            f" {geomean(memory):.3f}, worst {max(memory):.2f}; of peaks {geomean(peak):.3f}, worst"
            f" {max(peak):.2f}")


def run(options, models, work):
    lines = [machine()]
    for threads in options.threads:
        figures = {}
        for model in models:
            say(f"{threads} threads: {name_of(model)}")
            figures[model] = measure(options, model, threads, work)
            lines += lines_of(name_of(model), threads, figures[model])
        tell(figures, models, threads)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    print(text, end="")
    if options.json:
        pathlib.Path(options.json).write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--peer":
        path, *dims = sys.argv[4].split(",")
        peer(path, int(sys.argv[2]), {d.split("=")[0]: int(d.split("=")[1]) for d in dims},
             sys.argv[3])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=__doc__.split("\n", 2)[2])
    parser.add_argument("--program", required=True, help="bench_start")
    parser.add_argument("--command", required=True, help="ductile")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, by commas (1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="of each model (5)")
    parser.add_argument("--json", metavar="FILE", help="where the lines go besides")
    parser.add_argument("--wide", action="store_true", help="models of practical widths")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="FILE[,DIM=SIZE…]")
    options = parser.parse_args()
    options.threads = [int(n) for n in options.threads.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        try:
            models = options.models + (wide_models() if options.wide else [])
            run(options, models or light_models(work), work)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            say(f"bench_start: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

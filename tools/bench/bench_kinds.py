#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kinds of models on the CPU: Ductile and onnxruntime by turns, same machine, threads and inputs.

scripts/bench runs this after building. KIND is a kind or a model of tools/bench/kinds (--list names
them); all without any. Models are made once, with seeded weights, and kept in the user's cache;
those of kind `real` are the trained ones of the tests. --quantised measures, besides, what
onnxruntime's own tools make of each (quantise.py says how).

Each model, variant and number of threads has a process of its own. At each size the answers are
compared first: rows whose answers differ are told as wrong and not timed; what Ductile refuses is a
row, too, with its message. Then rounds of turns, with a pause before each so that no thread of the
other side still spins, and warm calls that do not count; wall and processor time, medians. The peer
runs with all graph optimisations, sequential execution, spinning threads (its defaults), inputs and
results bound ahead, like Ductile's.

A row's floor is the larger of its products at the machine's sustained rate for their dtype and its
bytes (weights, inputs, results, each once) at the rate of reading as many; both rates are measured
at the begin (bench_machine).

Standard output is JSON lines: the machine, its ceilings, a line a row, then a line a kind. A table
and the rows to look at go to standard error; kinds_report.py tells them again of a file. The lines
are written to --json FILE, by default bench/results/kinds-<date>-<commit>.jsonl for a full run.

Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

import onnx
import onnxruntime

import kinds
import kinds_report
from bench_cpu import cpu_model, git, parse_threads
from kinds import count, store

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEER = f"onnxruntime {onnxruntime.__version__}"
ROW_SECONDS = 600
READS = {"read of 1 MiB": 1 << 20, "read of 42 MB": 42_000_000, "read of 512 MiB": 512 << 20}


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- The machine ----------------------------------------------------------------------------------

def ceilings_of(program, threads, tries, emit):
    """{threads: {"f32": GFLOP/s, "i8": Gop/s, "read": {bytes: GB/s}}}, the best of some tries: what
    other programs take of a machine is not its limit."""
    best = {}
    for most in tries * sorted(set(threads)):
        done = subprocess.run([program, "--json", "--threads", str(most)], stdout=subprocess.PIPE,
                              text=True, check=True)
        for line in map(json.loads, done.stdout.splitlines()):
            key = line["case"], line["metric"]
            if int(line["case"].split()[0]) in threads:
                best[key] = max(line, best.get(key, line), key=lambda found: found["value"])
    for line in best.values():
        emit(line)

    def value(at, metric):
        return best[f"{at} thread{'s' if at > 1 else ''}", metric]["value"]

    return {at: {"f32": value(at, "f32 multiply-add, sustained"),
                 "i8": value(at, "8-bit multiply-add, sustained"),
                 "read": {size: value(at, name) for name, size in READS.items()}}
            for at in threads}


def machine(arguments):
    return {"bench": "machine", "date": datetime.date.today().isoformat(),
            "commit": git("rev-parse", "--short=12", "HEAD") or "unknown",
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
            "cpu": cpu_model(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2),
            "threads": arguments.threads, "peer": PEER, "onnx": onnx.__version__,
            "weights": "seeded", "rounds": arguments.rounds, "turn_s": arguments.turn}


# ---- A process a model ----------------------------------------------------------------------------

class Child:
    """Lines of kinds/child.py, with a limit for each."""

    def __init__(self, task, log):
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(
            filter(None, (str(ROOT / "tools" / "bench"), os.environ.get("PYTHONPATH")))))
        self.log = log
        self.process = subprocess.Popen([sys.executable, "-m", "kinds.child"], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.process.stdin.write(json.dumps(task).encode() + b"\n")
        self.process.stdin.close()
        self.rest = b""

    def line(self):
        """The next line; None at its end. TimeoutError when none came."""
        end = time.monotonic() + ROW_SECONDS
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                return None
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def ended(self):
        """How it ended, for people."""
        code = self.process.wait()
        self.log.seek(0)
        last = self.log.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return ": ".join([how, *last])

    def stop(self):
        self.process.kill()
        self.process.wait()


def results_of(task, log_path):
    """(place, what is known of that row) for all rows, whatever becomes of processes."""
    left = list(task["rows"])
    while left:
        with open(log_path, "w+b") as log:
            child, at = Child({**task, "rows": left}, log), left[0]
            try:
                while (line := child.line()) is not None:
                    at = line["place"]
                    if line["status"] != "begins":
                        left.remove(at)
                        yield at, line
                if left:
                    left.remove(at) if at in left else left.clear()
                    yield at, {"status": "crashed", "message": child.ended()}
            except TimeoutError:
                left.remove(at)
                yield at, {"status": "timed out", "message": f"no answer in {ROW_SECONDS} s"}
            finally:
                child.stop()


# ---- Rows -----------------------------------------------------------------------------------------

def line_of(model, variant, threads, busy, place, found, ceilings):
    line = {"bench": "kinds", "kind": model.kind,
            "case": f"{model.name} {'x'.join(map(str, model.sizes[place]))}", "variant": variant,
            "threads": threads, "status": found["status"]}
    if busy:
        line["busy"] = busy
    line |= {key: found[key] for key in ("message", "difference", "allowed", "variants") if key in found}
    if "first_ms" in found:
        line["first"] = round(found["first_ms"], 1)
    if found["status"] != "measured":
        return line
    wall, processor = found["wall"], found["processor"]
    line |= {"metric": "latency", "unit": "ms", "value": round(wall, 5), "peer": PEER,
             "peer_value": round(found["peer_wall"], 5),
             "ratio": round(found["peer_wall"] / wall, 4), "processor": round(processor, 5),
             "peer_processor": round(found["peer_processor"], 5),
             "processor_ratio": round(found["peer_processor"] / processor, 4)}
    counts = found.get("counts")
    if counts:
        floor = count.floor_ms(counts, ceilings[threads])
        line |= {"gflop": round(counts["f32"] * 1e-9, 4), "gop8": round(counts["i8"] * 1e-9, 4),
                 "mb": round(counts["bytes"] * 1e-6, 2), "floor": round(floor, 5),
                 "of_floor": round(floor / (processor if threads == 1 else wall), 4),
                 "bound": count.bound_of(counts, ceilings[threads])}
    return line


def tell(line):
    beside = f" +{line['busy']}" if "busy" in line else ""
    name = f"  {line['threads']} thr{beside}  {line['variant']:9} {line['case']:34}"
    if line["status"] != "measured":
        message = " ".join(line.get("message", "").split())[:120]
        say(f"{name} {line['status'].upper()} {message}")
        return
    share = f"  {100 * line['of_floor']:4.0f} % of the floor" if "of_floor" in line else ""
    say(f"{name} {line['value']:10.3f} ms  peer {line['peer_value']:10.3f} ms  ratio "
        f"{line['ratio']:6.3f}  processor {line['processor_ratio']:6.3f}{share}")


def file_for(model, variant):
    """The variant's file, None where there is none, or text: why it could not be made."""
    try:
        path = store.file_of(model, variant)
    except Exception as error:  # the peer's tools raise anything
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if path and not path.exists():
        return f"{path} is not there"
    return path


@contextlib.contextmanager
def spinning(n):
    """With so many processes beside, each of which keeps a core busy for as long as this one lives."""
    loop = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100000))"
    processes = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(model, variant, arguments, ceilings, emit, log_path):
    path = file_for(model, variant)
    if path is None:
        return
    if isinstance(path, str):
        say(f"  {model.name} {variant}: left out: {path}")
        emit({"bench": "kinds", "kind": model.kind, "case": model.name, "variant": variant,
              "left_out": path})
        return
    places = list(range(len(model.sizes)))[:2 if arguments.quick else None]
    for threads, busy in arguments.settings:
        task = {"library": str(arguments.library), "path": str(path), "name": model.name,
                "base": str(store.base(model)),
                "variant": variant, "threads": threads, "rows": places, "count": True,
                "rounds": arguments.rounds, "turn_s": arguments.turn}
        with spinning(busy):
            for place, found in results_of(task, log_path):
                line = line_of(model, variant, threads, busy, place, found, ceilings)
                tell(line)
                emit(line)


# ---- The report -----------------------------------------------------------------------------------

def list_models():
    for model in kinds.TABLE.values():
        sizes = ", ".join("x".join(map(str, sizes)) for sizes in model.sizes)
        print(f"{model.kind:10} {model.name:22} {' x '.join(model.dims)}: {sizes}")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench cpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--machine", required=True, help=argparse.SUPPRESS)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="kinds or models (default: all)")
    parser.add_argument("--list", action="store_true", help="name kinds, models and sizes")
    parser.add_argument("--threads", type=parse_threads, default=None, metavar="LIST",
                        help="numbers of threads to measure with (default: 1 and one a core)")
    parser.add_argument("--busy", type=int, default=0, metavar="N",
                        help="measure more than one thread also beside N processes that keep a core "
                             "busy each; kinds_report.py --scaling compares all with one thread")
    parser.add_argument("--rounds", type=int, default=None, help="turns of each side (7; quick: 3)")
    parser.add_argument("--quick", action="store_true", help="two sizes a model, short turns")
    parser.add_argument("--quantised", action="store_true", help="quantised variants, too")
    parser.add_argument("--variants", metavar="LIST",
                        help=f"these alone, of f32,{','.join(kinds.VARIANTS)}")
    parser.add_argument("--peer", default="onnxruntime", help="onnxruntime, the one there is")
    parser.add_argument("--json", metavar="FILE", help="write the lines there")
    arguments = parser.parse_args()
    known = ("f32", *kinds.VARIANTS)
    arguments.wanted = ("f32", *kinds.VARIANTS) if arguments.quantised else ("f32",)
    if arguments.variants:
        arguments.wanted = tuple(arguments.variants.split(","))
    if not set(arguments.wanted) <= set(known):
        parser.error(f"variants are {','.join(known)}")
    if arguments.peer != "onnxruntime":
        parser.error(f"--peer {arguments.peer}: only onnxruntime reads these models")
    arguments.threads = arguments.threads or sorted({1, os.cpu_count() or 1})
    arguments.settings = [(threads, 0) for threads in arguments.threads]
    if arguments.busy:
        arguments.settings += [(threads, arguments.busy) for threads in arguments.threads if threads > 1]
    if arguments.rounds is None:
        arguments.rounds = 3 if arguments.quick else 7
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    arguments.turn = 0.02 if arguments.quick else 0.08
    try:
        arguments.models = kinds.chosen(arguments.kinds)
    except KeyError as word:
        parser.error(f"{word} is neither a kind ({', '.join(kinds.KINDS)}) nor a model (--list)")
    return arguments


def result_file(arguments, first):
    if arguments.json:
        return pathlib.Path(arguments.json)
    if arguments.kinds or arguments.quick:
        return None
    changed = "-changed" if first["changed"] else ""
    return ROOT / "bench" / "results" / f"kinds-{first['date']}-{first['commit']}{changed}.jsonl"


def main():
    arguments = parse_arguments()
    if arguments.list:
        list_models()
        return 0
    if os.getloadavg()[0] > 0.5:
        say(f"warning: the load average is {os.getloadavg()[0]:.1f}: on a machine that others use too, "
            "wall times say little, above all with more than one thread")
    lines = [machine(arguments)]
    path = result_file(arguments, lines[0])
    out = open(path, "w", encoding="utf-8") if path else None

    def emit(line):
        lines.append(line)
        for file in filter(None, (sys.stdout, out)):
            print(json.dumps(line), file=file, flush=True)

    emit(lines.pop())
    log_path = store.folder() / f"child-{os.getpid()}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    try:
        ceilings = ceilings_of(arguments.machine, arguments.threads, 1 if arguments.quick else 3,
                               emit)
        for model in arguments.models:
            say(f"{model.kind}: {model.name}")
            for variant in arguments.wanted:
                measure(model, variant, arguments, ceilings, emit, log_path)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"bench: {error}")
        return 1
    finally:
        log_path.unlink(missing_ok=True)
    for line in kinds_report.summaries(lines):
        emit(line)
    say("\n" + kinds_report.table(lines) + "\n" + kinds_report.to_look_at(lines))
    if out:
        out.close()
        say(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MiniLM on a GPU: Ductile and PyTorch by turns, same device, weights and tokens, in one run.

`scripts/test-gpu run bench-models` calls this where a GPU is. Ductile answers as a child, `bench_minilm
--serve`; the peer is the same architecture in plain PyTorch, in this process, compiled by
torch.compile with dynamic=True, fullgraph and both modes that are documented for inference: the default
and reduce-overhead (CUDA graphs). Before anything is timed at a shape, every side has had it three times,
so that recompiles and recordings lie behind. A time is that of one call from its beginning until the
device has finished; what is compared are medians over all rounds, and each round asks all sides in turn.

--graphs measures Ductile's CUDA graphs instead (mode reduce-overhead), over thirteen shapes, beside
PyTorch's reduce-overhead and Ductile's own plain launches; then `bench_minilm --cases graphs`. All calls
must have been graphs, none skipped, of one variant.

Without PyTorch, Ductile alone is measured. With --model both sides have those weights, and embeddings
must agree (cosine over 0.999); without it the weights are random and nothing is compared.

Lines of JSON go to standard output: ratio = peer_value / value, above 1 where Ductile is faster.
Exit codes: 0 measured, whatever the figures; 1 something failed or the answers differ; 2 wrong usage.
"""
import argparse
import datetime
import json
import math
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    torch = None

SHAPES = [(1, 16), (1, 128), (2, 37), (4, 64), (8, 100), (16, 128), (32, 77), (64, 128)]
GRAPH_SHAPES = SHAPES + [(3, 19), (5, 41), (7, 90), (11, 33), (24, 111)]
LAYERS, HEADS, HIDDEN, INNER, VOCAB, POSITIONS = 6, 12, 384, 1536, 30522, 512
FIRST_WORD = 1996
WARM_CALLS = 5       # of each turn, not counted
MODES = {"compile": {}, "reduce-overhead": {"mode": "reduce-overhead"}}


def say(text):
    print(text, file=sys.stderr, flush=True)


def emit(case, metric, unit, value, **more):
    line = {"bench": "minilm-gpu", "case": case, "metric": metric, "unit": unit, "value": value}
    print(json.dumps({**line, **more}), flush=True)


def quantile(values, share):
    """Nearest rank."""
    ranked = sorted(values)
    return ranked[min(len(ranked), max(1, math.ceil(share * len(ranked)))) - 1]


def random_shapes(seed, count, tokens):
    """Shapes no two of which are equal, of 1 to that many tokens."""
    source, shapes = random.Random(seed), {}
    while len(shapes) < count:
        shape = source.randint(1, 64), source.randint(1, POSITIONS)
        if shape[0] * shape[1] <= tokens and shape not in SHAPES:
            shapes[shape] = None
    return list(shapes)


# ---- Ductile --------------------------------------------------------------------------------------

class Ductile:
    def __init__(self, arguments, dtype, mode="plain", name="ductile"):
        command = command_of(arguments, dtype) + ["--mode", mode, "--serve"]
        self.name = name
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
        """Microseconds of each call."""
        return [float(ns) / 1e3 for ns in self.ask(f"run {shape[0]} {shape[1]} {calls}").split()]

    def embed(self, shape):
        values = [float(value) for value in self.ask(f"embed {shape[0]} {shape[1]}").split()]
        return [values[at:at + HIDDEN] for at in range(0, len(values), HIDDEN)]

    def stats(self):
        names = ("variants", "evaluator_calls", "kernels", "session_bytes", "launches")
        return dict(zip(names, map(int, self.ask("stats").split())))

    def graphs(self):
        names = ("graph_calls", "graph_skips", "builds", "growths", "pool_bytes", "scratch_bytes",
                 "graph_bytes", "skip")
        values = self.ask("graphs").split(" ", len(names) - 1)
        return {name: value if name == "skip" else int(value)
                for name, value in zip(names, values)}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def command_of(arguments, dtype):
    command = [arguments.program, "--device", arguments.device, "--dtype", dtype]
    if arguments.layers:
        command += ["--layers", str(arguments.layers)]
    return command + (["--model", arguments.model] if arguments.model else [])


# ---- The peer -------------------------------------------------------------------------------------

def read_safetensors(path):
    """Name → tensor on the host: eight bytes of length, a header in JSON, then the data."""
    dtypes = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    with open(path, "rb") as file:
        data = bytearray(file.read())
    length = struct.unpack_from("<Q", data)[0]
    header, begin = json.loads(data[8:8 + length]), 8 + length
    tensors = {}
    for name, info in header.items():
        if name != "__metadata__" and info["dtype"] in dtypes:
            dtype, count = dtypes[info["dtype"]], math.prod(info["shape"])
            at = begin + info["data_offsets"][0]
            tensors[name] = torch.frombuffer(data, dtype=dtype, count=count, offset=at)
            tensors[name] = tensors[name].reshape(info["shape"])
    return tensors


def make_model():
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
            self.dense = nn.Linear(HIDDEN, HIDDEN)
            self.norm_1, self.norm_2 = (nn.LayerNorm(HIDDEN, eps=1e-12) for _ in range(2))
            self.inner, self.outer = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

        def heads(self, x):
            return x.unflatten(-1, (HEADS, HIDDEN // HEADS)).transpose(1, 2)

        def forward(self, x, bias):
            attended = nn.functional.scaled_dot_product_attention(
                self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x)),
                attn_mask=bias)
            x = self.norm_1(x + self.dense(attended.transpose(1, 2).flatten(2)))
            return self.norm_2(x + self.outer(nn.functional.gelu(self.inner(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(VOCAB, HIDDEN)
            self.positions = nn.Embedding(POSITIONS, HIDDEN)
            self.sentences = nn.Embedding(2, HIDDEN)
            self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

        def forward(self, ids, mask):
            length = ids.shape[1]
            x = self.words(ids) + self.positions.weight[:length] + self.sentences.weight[0]
            x = self.norm(x)
            keep = mask.to(x.dtype)
            lowest = torch.finfo(x.dtype).min
            bias = ((1 - keep) * lowest)[:, None, None, :]
            for layer in self.layers:
                x = layer(x, bias)
            keep = keep.unsqueeze(-1)
            mean = (x * keep).sum(1) / keep.sum(1).clamp(min=1e-4)
            return nn.functional.normalize(mean, dim=1, eps=1e-6).float()

    return Model()


def load(model, path):
    tensors = read_safetensors(path)
    names = {"words": "embeddings.word_embeddings", "positions": "embeddings.position_embeddings",
             "sentences": "embeddings.token_type_embeddings", "norm": "embeddings.LayerNorm"}
    parts = {"query": "attention.self.query", "key": "attention.self.key",
             "value": "attention.self.value", "dense": "attention.output.dense",
             "norm_1": "attention.output.LayerNorm", "inner": "intermediate.dense",
             "outer": "output.dense", "norm_2": "output.LayerNorm"}
    for layer in range(LAYERS):
        for own, name in parts.items():
            names[f"layers.{layer}.{own}"] = f"encoder.layer.{layer}.{name}"
    state = {}
    for own in model.state_dict():
        module, kind = own.rsplit(".", 1)
        state[own] = tensors[f"{names[module]}.{kind}"].float()
    model.load_state_dict(state)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


class Peer:
    def __init__(self, name, model, device, options):
        self.name = name
        self.device = device
        self.compiled = torch.compile(model, dynamic=True, fullgraph=True, **options)
        self.inputs = {}

    def inputs_of(self, shape):
        """The tokens that bench_minilm makes. Sizes are marked, but for 0 and 1, which PyTorch always
        gives code of their own."""
        if shape not in self.inputs:
            count = shape[0] * shape[1]
            ids = FIRST_WORD + torch.arange(count) * 7919 % (VOCAB - FIRST_WORD)
            pair = (ids.reshape(shape).to(self.device),
                    torch.ones(shape, dtype=torch.int64, device=self.device))
            for tensor in pair:
                for dim in (0, 1):
                    if shape[dim] > 1:
                        torch._dynamo.maybe_mark_dynamic(tensor, dim)
            self.inputs[shape] = pair
            wait(self.device)
        return self.inputs[shape]

    def times(self, shape, calls):
        """Microseconds of each call."""
        ids, mask = self.inputs_of(shape)
        times = []
        with torch.no_grad():
            for _ in range(calls):
                start = time.perf_counter_ns()
                self.compiled(ids, mask)
                wait(self.device)
                times.append((time.perf_counter_ns() - start) / 1e3)
        return times

    def embed(self, shape):
        with torch.no_grad():
            return self.compiled(*self.inputs_of(shape)).tolist()


def make_peers(arguments, dtype, modes=tuple(MODES)):
    if torch is None or (arguments.device == "cuda" and not torch.cuda.is_available()):
        return []
    torch._dynamo.reset()
    dynamo, graphs = torch._dynamo.config, torch._inductor.config.triton
    limit = "recompile_limit" if hasattr(dynamo, "recompile_limit") else "cache_size_limit"
    setattr(dynamo, limit, 64)
    if hasattr(graphs, "cudagraph_dynamic_shape_warn_limit"):
        graphs.cudagraph_dynamic_shape_warn_limit = None
    torch.manual_seed(7)
    model = make_model().eval()
    if arguments.model:
        load(model, os.path.join(arguments.model, "model.safetensors"))
    model = model.to(arguments.device, {"f32": torch.float32, "f16": torch.float16}[dtype])
    return [Peer(name, model, arguments.device, MODES[name]) for name in modes]


# ---- Measuring ------------------------------------------------------------------------------------

def warm_up_one(side, dtype, shapes):
    """Every shape three times: recompiles, recordings, memory. A batch of one comes last, so that PyTorch
    compiles for sizes in general first."""
    for at, shape in enumerate(sorted(shapes, key=lambda shape: shape[0] == 1)):
        first = side.times(shape, 3)[0]
        if at == 0:
            emit(f"{dtype} {side.name}", "first call of all", "ms", round(first / 1e3, 3))
        elif first > 1e5:
            emit(f"{dtype} {side.name} {shape[0]}x{shape[1]}", "first call, stalled", "ms",
                 round(first / 1e3, 3))


def warm_up(ductile, peers, dtype, shapes):
    """The peers that work."""
    warm_up_one(ductile, dtype, shapes)
    working = []
    for peer in peers:
        try:
            warm_up_one(peer, dtype, shapes)
            working.append(peer)
        except RuntimeError as error:
            say(f"minilm_gpu_peer: {peer.name} is left out: {error}")
    return working


def compare(ours, peers, shape):
    """The least cosine between a row of ours and of a peer."""
    least = 1.0
    for peer in peers:
        for a, b in zip(ours, peer):
            dot = sum(x * y for x, y in zip(a, b))
            least = min(least, dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b)))
    if not least > 0.999:
        raise RuntimeError(f"embeddings at {shape} have a cosine of {least:.5f} to the peer's")
    return least


def measure_latency(sides, dtype, arguments):
    ratios = []
    for shape in arguments.shapes:
        more = {}
        if arguments.model and len(sides) > 1:
            answers = [side.embed(shape) for side in sides]
            more["cosine"] = round(compare(answers[0], answers[1:], shape), 6)
        times = {side.name: [] for side in sides}
        for turn in range(arguments.rounds):
            for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
                times[side.name] += side.times(shape, WARM_CALLS + arguments.calls)[WARM_CALLS:]
        medians = {name: statistics.median(values) for name, values in times.items()}
        ours = medians.pop("ductile")
        more["p99"] = round(quantile(times["ductile"], 0.99), 2)
        for name, value in medians.items():
            more[name] = round(value, 2)
        if medians:
            best = min(medians, key=medians.get)
            ratios.append(medians[best] / ours)
            more.update(peer=f"torch {torch.__version__} {best}",
                        peer_value=round(medians[best], 2), ratio=round(ratios[-1], 4))
        before = sides[0].stats()["launches"]
        sides[0].times(shape, 1)
        more["launches"] = sides[0].stats()["launches"] - before
        emit(f"{dtype} {shape[0]}x{shape[1]}", "latency", "us", round(ours, 2), **more)
    if ratios:
        emit(f"{dtype}", "peer / ours, geometric mean", "ratio",
             round(statistics.geometric_mean(ratios), 4))
        emit(f"{dtype}", "peer / ours, minimum", "ratio", round(min(ratios), 4))


def measure_new_sizes(side, dtype, count, later, tokens):
    """The first call at sizes that this process has not called yet, beside later ones there. A shape of
    the most tokens comes before, so that memory has grown."""
    shapes = random_shapes(20261122, count, tokens)
    side.times((max(1, tokens // POSITIONS), min(tokens, POSITIONS)), 3)
    firsts, ratios = [], []
    for shape in shapes:
        first = side.times(shape, 1)[0]
        firsts.append(first)
        ratios.append(first / statistics.median(side.times(shape, later)))
    for name, values, unit in (("first call / median", ratios, "ratio"), ("first call", firsts, "us")):
        for label, share in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
            emit(f"{dtype} {side.name}, {count} new sizes", f"{name}, {label}", unit,
                 round(quantile(values, share), 3))


def device_bytes():
    """Bytes of the device's memory in use, by whomever; 0 where there is no device."""
    if torch is not None and torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        return total - free
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used",
                               "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=False).stdout
    except OSError:
        return 0
    return int(text.split()[0]) << 20 if text.strip() else 0


def measure_shapes(side, dtype, calls, tokens):
    """Many shapes through one function: variants, evaluator calls, device memory."""
    shapes = random_shapes(7, min(200, calls), tokens)
    for shape in shapes:
        side.times(shape, 1)
    before = device_bytes()
    for call in range(calls):
        side.times(shapes[call % len(shapes)], 1)
    after, stats = device_bytes(), side.stats()
    case = f"{dtype} {len(shapes)} shapes"
    for metric, value in stats.items():
        emit(case, metric.replace("_", " "), "B" if metric == "session_bytes" else "count", value)
    emit(case, f"device memory, growth over {calls} calls", "B", after - before)
    if stats["evaluator_calls"]:
        raise RuntimeError("the reference evaluator answered calls: these figures do not count")


def measure_start(arguments, dtype):
    """Whole processes, from nothing to an answer: with an empty folder for device code, then with what
    the first process left there."""
    with tempfile.TemporaryDirectory(prefix="ductile-bench-") as folder:
        for label in ("empty cache", "filled cache", "filled cache again"):
            started = time.monotonic_ns()
            result = subprocess.run(command_of(arguments, dtype) +
                                    ["--cases", "start", "--json", "--started", str(started)],
                                    env={**os.environ, "DUCTILE_CACHE_DIR": folder},
                                    capture_output=True, text=True, check=False)
            if result.returncode:
                raise RuntimeError("bench_minilm: " + result.stderr.strip())
            for line in result.stdout.splitlines():
                item = json.loads(line)
                emit(f"{dtype} start, {label}", item["metric"], item["unit"], item["value"])


def measure(arguments, dtype):
    measure_start(arguments, dtype)
    peers = make_peers(arguments, dtype)
    ductile = Ductile(arguments, dtype)
    try:
        peers = warm_up(ductile, peers, dtype, arguments.shapes)
        measure_latency([ductile, *peers], dtype, arguments)
        measure_new_sizes(ductile, dtype, arguments.new_sizes, 25, arguments.tokens)
        for peer in peers:
            measure_new_sizes(peer, dtype, max(1, arguments.new_sizes // 6), 10, arguments.tokens)
        measure_shapes(ductile, dtype, arguments.memory_calls, arguments.tokens)
    finally:
        ductile.close()


# ---- CUDA graphs ----------------------------------------------------------------------------------

def take_turns(sides, shape, arguments):
    """Microseconds of the calls of each side, by its name."""
    times = {side.name: [] for side in sides}
    for turn in range(arguments.rounds):
        for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
            times[side.name] += side.times(shape, WARM_CALLS + arguments.calls)[WARM_CALLS:]
    return times


def measure_graph_latency(sides, dtype, arguments):
    """The first side is ours. Each shape beside every other side, and means over all shapes."""
    ratios = {side.name: [] for side in sides[1:]}
    for shape in arguments.shapes:
        more = {}
        if arguments.model and len(sides) > 1:
            answers = [side.embed(shape) for side in sides]
            more["cosine"] = round(compare(answers[0], answers[1:], shape), 6)
        times = take_turns(sides, shape, arguments)
        medians = {name: statistics.median(values) for name, values in times.items()}
        ours = medians.pop(sides[0].name)
        more["p99"] = round(quantile(times[sides[0].name], 0.99), 2)
        for name, value in medians.items():
            more[name] = round(value, 2)
            ratios[name].append(value / ours)
        if torch is not None and "reduce-overhead" in medians:
            value = medians["reduce-overhead"]
            more.update(peer=f"torch {torch.__version__} reduce-overhead",
                        peer_value=round(value, 2), ratio=round(value / ours, 4))
        emit(f"{dtype} graphs {shape[0]}x{shape[1]}", "latency", "us", round(ours, 2), **more)
    for name, values in ratios.items():
        if values:
            emit(f"{dtype} graphs", f"{name} / ours, geometric mean", "ratio",
                 round(statistics.geometric_mean(values), 4))
            emit(f"{dtype} graphs", f"{name} / ours, minimum", "ratio", round(min(values), 4))


def check_graphs(side, dtype):
    """Figures count only where every call was a graph of one variant."""
    stats, graphs = side.stats(), side.graphs()
    for metric in ("graph_calls", "graph_skips", "builds", "growths", "pool_bytes", "scratch_bytes",
                   "graph_bytes"):
        emit(f"{dtype} graphs", metric.replace("_", " "), "B" if "bytes" in metric else "count",
             graphs[metric])
    for metric in ("variants", "evaluator_calls", "kernels"):
        emit(f"{dtype} graphs", metric.replace("_", " "), "count", stats[metric])
    if graphs["graph_skips"] or not graphs["graph_calls"]:
        raise RuntimeError(f"calls did not run as graphs: {graphs}")
    if stats["variants"] != 1 or stats["evaluator_calls"]:
        raise RuntimeError(f"more than one variant, or calls that the evaluator answered: {stats}")


def measure_new_graph_sizes(arguments, dtype):
    """The case graphs of bench_minilm, as it is."""
    result = subprocess.run(command_of(arguments, dtype) + ["--cases", "graphs", "--json"] +
                            arguments.graph_options.split(),
                            stdout=subprocess.PIPE, text=True, check=False)
    print(result.stdout, end="", flush=True)
    if result.returncode:
        raise RuntimeError("bench_minilm --cases graphs failed: its message stands above")


def measure_graphs(arguments, dtype):
    begin = time.monotonic()
    peers = make_peers(arguments, dtype, ("reduce-overhead",))
    sides = [Ductile(arguments, dtype, "reduce-overhead")]
    try:
        sides.append(Ductile(arguments, dtype, "plain", "plain launches"))
        warm_up_one(sides[1], dtype, arguments.shapes)
        sides += warm_up(sides[0], peers, dtype, arguments.shapes)
        measure_graph_latency(sides, dtype, arguments)
        check_graphs(sides[0], dtype)
    finally:
        for side in sides:
            if isinstance(side, Ductile):
                side.close()
    emit(f"{dtype} graphs", "time of these measurements", "s", round(time.monotonic() - begin, 1))
    measure_new_graph_sizes(arguments, dtype)


def table(path):
    """Prints the latencies of a file of lines."""
    with open(path, encoding="utf-8") as lines:
        rows = [item for item in map(json.loads, lines) if item["metric"] == "latency"]
    if any("graphs" in row["case"] for row in rows):
        graph_table(rows)
        return
    print(f"{'case':12} {'ours us':>9} {'p99':>9} {'compile':>9} {'reduce-o.':>9} {'ratio':>6} "
          f"{'launches':>8}")
    for row in rows:
        print(f"{row['case']:12} {row['value']:9.1f} {row['p99']:9.1f} {row.get('compile', 0):9.1f} "
              f"{row.get('reduce-overhead', 0):9.1f} {row.get('ratio', 0):6.2f} {row['launches']:8}")


def graph_table(rows):
    print(f"{'case':18} {'graphs us':>9} {'p99':>9} {'plain us':>9} {'torch':>9} {'ratio':>6}")
    for row in rows:
        print(f"{row['case']:18} {row['value']:9.1f} {row['p99']:9.1f} "
              f"{row.get('plain launches', 0):9.1f} {row.get('reduce-overhead', 0):9.1f} "
              f"{row.get('ratio', 0):6.2f}")


def parse_shapes(text):
    try:
        shapes = [tuple(int(size) for size in shape.split("x")) for shape in text.split(",")]
    except ValueError:
        shapes = [()]
    if not all(len(shape) == 2 and min(shape) >= 1 and shape[1] <= POSITIONS for shape in shapes):
        raise argparse.ArgumentTypeError(f"shapes look like 1x16,2x37; lengths go up to {POSITIONS}")
    return shapes


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="bench_minilm")
    parser.add_argument("--model", metavar="DIR", help="folder with model.safetensors")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"],
                        help="of both sides; cpu is for trying this program (default: cuda)")
    parser.add_argument("--graphs", action="store_true", help="CUDA graphs instead, in f16")
    parser.add_argument("--graph-options", default="", metavar="TEXT",
                        help="more options for bench_minilm --cases graphs")
    parser.add_argument("--layers", type=int, default=0, metavar="N",
                        help="of the model, without a peer: for trying this program (default: all)")
    parser.add_argument("--dtypes", metavar="LIST", help="(default: f16,f32; f16 with --graphs)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default: 5)")
    parser.add_argument("--calls", type=int, default=50, help="of a turn (default: 50)")
    parser.add_argument("--shapes", type=parse_shapes, metavar="LIST",
                        help="batch x length, such as 1x16,2x37 (default: the eight, or thirteen)")
    parser.add_argument("--new-sizes", type=int, default=120, metavar="N",
                        help="for the first call at a size (default: 120)")
    parser.add_argument("--memory-calls", type=int, default=1000, metavar="N",
                        help="over which memory must not grow (default: 1000)")
    parser.add_argument("--tokens", type=int, default=4096, metavar="N",
                        help="of a random shape, at most (default: 4096)")
    parser.add_argument("--table", metavar="FILE", help="print what such a run has written")
    arguments = parser.parse_args()
    if arguments.table:
        table(arguments.table)
        return 0
    if not arguments.program:
        parser.error("--program is missing")
    if arguments.layers and torch is not None:
        parser.error("--layers: PyTorch's side has all of them")
    arguments.shapes = arguments.shapes or (GRAPH_SHAPES if arguments.graphs else SHAPES)
    arguments.dtypes = arguments.dtypes or ("f16" if arguments.graphs else "f16,f32")
    known = torch is not None and torch.cuda.is_available()
    emit("run", "rounds", "count", arguments.rounds, date=datetime.date.today().isoformat(),
         device=torch.cuda.get_device_name() if known else arguments.device,
         peer=f"torch {torch.__version__}" if torch is not None else "none",
         weights="trained" if arguments.model else "random")
    try:
        for dtype in arguments.dtypes.split(","):
            (measure_graphs if arguments.graphs else measure)(arguments, dtype)
    except (RuntimeError, BrokenPipeError) as error:
        say(f"minilm_gpu_peer: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

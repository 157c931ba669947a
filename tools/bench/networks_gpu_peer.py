#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ResNet50 and BERT in f16: weights and right answers for bench_gpu_networks, and PyTorch's times.

usage: networks_gpu_peer.py --weights FOLDER [--networks LIST] [--tiny]   makes the files
       networks_gpu_peer.py --time FOLDER [--networks LIST] [--batches LIST] [--mode MODE] …
       networks_gpu_peer.py --table FILE    both sides' medians over FILE's lines, and their ratio

--weights needs numpy alone. FOLDER/<network>.safetensors has the network's weights, seeded, in f16,
as PyTorch's modules name them, and a few inputs of two rows each with their answers, which numpy
computes in f32 from the same weights: input.0 and output.0 of odd sizes, at which only answers are
compared; input.1 and on are those that both sides are timed at.

--time calls the same networks in plain PyTorch: f16, inference mode, torch.compile of fixed sizes
with CUDA graphs (MODE: reduce-overhead, the default, or max-autotune), ResNet50 with channels last,
attention by scaled_dot_product_attention. Answers must have a cosine above 0.999 with numpy's. The
microseconds of a call are the median over rounds of calls queued behind each other. Each network
has a process of its own, and each case is told at once. One that takes longer than --limit-seconds,
compiling included, ends the process: it and the later cases of its network are told as skipped. So
are all that --total-seconds leaves no time for.
Exit codes: 0 measured; 1 something failed or the answers differ; 2 wrong usage.
"""
import argparse
import json
import math
import os
import select
import signal
import statistics
import struct
import subprocess
import sys
import time

FULL = {"resnet50": {"blocks": (3, 4, 6, 3), "width": 64, "classes": 1000,
                     "inputs": ((75, 96), (224, 224))},
        "bert": {"layers": 12, "hidden": 768, "inner": 3072, "inputs": ((37,), (128,), (384,))}}
TINY = {"resnet50": {"blocks": (2, 1, 1, 1), "width": 8, "classes": 10,
                     "inputs": ((35, 48), (32, 32))},
        "bert": {"layers": 2, "hidden": 128, "inner": 256, "inputs": ((7,), (5,), (20,))}}
HEAD = 64       # width of an attention head
EPSILON = 1e-5  # of layer norms
ROWS = 2        # of an input with a right answer
SEED = 20261128


def emit(case, metric, **more):
    print(json.dumps({"bench": "networks_gpu", "case": case, "metric": metric, **more}), flush=True)


def case_of(network, batch, sizes):
    return f"{network} {batch}x" + "x".join(map(str, sizes))


# ---- Weights -------------------------------------------------------------------------------------

def blocks_of(spec):
    """Each bottleneck: name, channels in, inside and out, stride."""
    channels, width = spec["width"], spec["width"]
    for stage, count in enumerate(spec["blocks"], 1):
        for index in range(count):
            stride = 2 if stage > 1 and not index else 1
            yield f"layer{stage}.{index}", channels, width, 4 * width, stride
            channels = 4 * width
        width *= 2


def resnet_shapes(spec):
    """Name, shape of the weight, and gain: the share of the standard deviation that keeps the size
    of what goes through. The last one of a branch is small, so that sums hardly grow."""
    yield "conv1", (spec["width"], 3, 7, 7), 1.0
    outside = 0
    for name, before, inside, outside, stride in blocks_of(spec):
        yield name + ".conv1", (inside, before, 1, 1), 1.0
        yield name + ".conv2", (inside, inside, 3, 3), 1.0
        yield name + ".conv3", (outside, inside, 1, 1), 0.3
        if stride > 1 or before != outside:
            yield name + ".downsample", (outside, before, 1, 1), 0.7
    yield "fc", (spec["classes"], outside), 0.7


def bert_shapes(spec):
    """Queries and keys are large, so that tokens look at few others, and rows stay apart."""
    hidden, inner = spec["hidden"], spec["inner"]
    for layer in range(spec["layers"]):
        for name, gain in (("query", 1.4), ("key", 1.4), ("value", 0.7), ("dense", 0.7)):
            yield f"layers.{layer}.{name}", (hidden, hidden), gain
        yield f"layers.{layer}.norm_1", (hidden,), 0
        yield f"layers.{layer}.inner", (inner, hidden), 0.7
        yield f"layers.{layer}.outer", (hidden, inner), 0.5
        yield f"layers.{layer}.norm_2", (hidden,), 0


def make_weights(network, spec):
    """Batch norms are folded into weights and biases, as an inference export has them."""
    import numpy
    source = numpy.random.default_rng(SEED)
    weights = {}

    def normal(shape, deviation, mean=0.0):
        values = source.standard_normal(shape, dtype=numpy.float32) * numpy.float32(deviation)
        return (values + numpy.float32(mean)).astype(numpy.float16)

    for name, shape, gain in (resnet_shapes if network == "resnet50" else bert_shapes)(spec):
        if gain:
            weights[name + ".weight"] = normal(shape, gain * math.sqrt(2 / math.prod(shape[1:])))
        else:
            weights[name + ".weight"] = normal(shape, 0.1, 1)
        weights[name + ".bias"] = normal(shape[:1], 0.05)
    return weights


def make_inputs(network, spec):
    """Images are noise around a colour each, so that answers that change places are seen."""
    import numpy
    source = numpy.random.default_rng(SEED + 1)
    inputs = []
    for sizes in spec["inputs"]:
        shape = (ROWS, 3, *sizes) if network == "resnet50" else (ROWS, *sizes, spec["hidden"])
        values = source.standard_normal(shape, dtype=numpy.float32)
        if network == "resnet50":
            values += numpy.float32([[1, 0, -1], [-1, 1, 0.5]])[:, :, None, None]
        inputs.append(values.astype(numpy.float16))
    return inputs


# ---- Right answers -------------------------------------------------------------------------------

def convolve(weights, name, x, stride=1, padding=0):
    import numpy
    w, bias = weights[name + ".weight"], weights[name + ".bias"]
    kernel = w.shape[2]
    x = numpy.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = numpy.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)
    rows, height, width = windows.shape[:3]
    product = windows.reshape(rows * height * width, -1) @ w.reshape(len(w), -1).T + bias
    return product.reshape(rows, height, width, -1).transpose(0, 3, 1, 2)


def resnet_answer(weights, spec, x):
    import numpy

    def relu(values):
        return numpy.maximum(values, 0)

    x = relu(convolve(weights, "conv1", x, 2, 3))
    x = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-numpy.inf)
    windows = numpy.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    x = windows[:, :, ::2, ::2].max((4, 5))
    for name, _, _, _, stride in blocks_of(spec):
        inside = relu(convolve(weights, name + ".conv1", x))
        inside = relu(convolve(weights, name + ".conv2", inside, stride, 1))
        inside = convolve(weights, name + ".conv3", inside)
        if name + ".downsample.weight" in weights:
            x = convolve(weights, name + ".downsample", x, stride)
        x = relu(inside + x)
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


def erf(x):
    """Within 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    import numpy
    t = 1 / (1 + 0.3275911 * numpy.abs(x))
    series = 0
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + factor) * t
    return numpy.sign(x) * (1 - series * numpy.exp(-x * x))


def bert_answer(weights, spec, x):
    import numpy
    hidden = spec["hidden"]

    def linear(values, name):
        return values @ weights[name + ".weight"].T + weights[name + ".bias"]

    def norm(values, name):
        values = values - values.mean(-1, keepdims=True)
        values = values / numpy.sqrt((values * values).mean(-1, keepdims=True) + EPSILON)
        return values * weights[name + ".weight"] + weights[name + ".bias"]

    def heads(values):
        return values.reshape(*values.shape[:2], hidden // HEAD, HEAD).transpose(0, 2, 1, 3)

    for layer in range(spec["layers"]):
        name = f"layers.{layer}."
        query, key, value = (heads(linear(x, name + part)) for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(HEAD)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        attended = (scores / scores.sum(-1, keepdims=True)) @ value
        x = norm(x + linear(attended.transpose(0, 2, 1, 3).reshape(x.shape), name + "dense"),
                 name + "norm_1")
        inner = linear(x, name + "inner")
        inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
        x = norm(x + linear(inner, name + "outer"), name + "norm_2")
    return x


# ---- Files ---------------------------------------------------------------------------------------

def path_of(folder, network):
    return os.path.join(folder, network + ".safetensors")


def write(path, tensors):
    """Eight bytes of length, a header in JSON, then the data; f32 first, so that all is aligned."""
    names = {"float32": "F32", "float16": "F16"}
    order = sorted(tensors, key=lambda name: tensors[name].dtype.name != "float32")
    header, at = {}, 0
    for name in order:
        value = tensors[name]
        header[name] = {"dtype": names[value.dtype.name], "shape": list(value.shape),
                        "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".new", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            file.write(tensors[name].astype(tensors[name].dtype.newbyteorder("<")).tobytes())
    os.replace(path + ".new", path)


def read(path):
    import numpy
    names = {"F32": "<f4", "F16": "<f2"}
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack_from("<Q", data)[0]
    tensors = {}
    for name, info in json.loads(data[8:8 + length]).items():
        count, at = math.prod(info["shape"]), 8 + length + info["data_offsets"][0]
        values = numpy.frombuffer(data, names[info["dtype"]], count, at)
        tensors[name] = values.reshape(info["shape"])
    return tensors


def make(folder, networks, specs):
    import numpy
    os.makedirs(folder, exist_ok=True)
    for network in networks:
        spec = specs[network]
        tensors = make_weights(network, spec)
        exact = {name: value.astype(numpy.float32) for name, value in tensors.items()}
        answer = resnet_answer if network == "resnet50" else bert_answer
        for index, x in enumerate(make_inputs(network, spec)):
            right = answer(exact, spec, x.astype(numpy.float32)).astype(numpy.float32)
            if not numpy.isfinite(right).all():
                raise RuntimeError(f"{network}: answers are not finite")
            tensors[f"input.{index}"] = x
            tensors[f"output.{index}"] = numpy.ascontiguousarray(right)
        write(path_of(folder, network), tensors)


# ---- PyTorch -------------------------------------------------------------------------------------

def make_resnet(torch, spec):
    nn, relu = torch.nn, torch.nn.functional.relu

    class Bottleneck(nn.Module):
        def __init__(self, before, inside, outside, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(before, inside, 1)
            self.conv2 = nn.Conv2d(inside, inside, 3, stride, 1)
            self.conv3 = nn.Conv2d(inside, outside, 1)
            self.downsample = None
            if stride > 1 or before != outside:
                self.downsample = nn.Conv2d(before, outside, 1, stride)

        def forward(self, x):
            inside = self.conv3(relu(self.conv2(relu(self.conv1(x)))))
            return relu(inside + (x if self.downsample is None else self.downsample(x)))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, spec["width"], 7, 2, 3)
            stages, outside = {}, 0
            for name, before, inside, outside, stride in blocks_of(spec):
                stages.setdefault(name.split(".")[0], []).append(
                    Bottleneck(before, inside, outside, stride))
            for name, blocks in stages.items():
                self.add_module(name, nn.Sequential(*blocks))
            self.stages = list(stages)
            self.fc = nn.Linear(outside, spec["classes"])

        def forward(self, x):
            x = torch.nn.functional.max_pool2d(relu(self.conv1(x)), 3, 2, 1)
            for name in self.stages:
                x = getattr(self, name)(x)
            return self.fc(x.mean((2, 3)))

    return ResNet()


def make_bert(torch, spec):
    nn, hidden = torch.nn, spec["hidden"]

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
            self.dense = nn.Linear(hidden, hidden)
            self.norm_1, self.norm_2 = (nn.LayerNorm(hidden, eps=EPSILON) for _ in range(2))
            self.inner = nn.Linear(hidden, spec["inner"])
            self.outer = nn.Linear(spec["inner"], hidden)

        def heads(self, x):
            return x.unflatten(-1, (hidden // HEAD, HEAD)).transpose(1, 2)

        def forward(self, x):
            attended = nn.functional.scaled_dot_product_attention(
                self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x)))
            x = self.norm_1(x + self.dense(attended.transpose(1, 2).flatten(2)))
            return self.norm_2(x + self.outer(nn.functional.gelu(self.inner(x))))

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(spec["layers"]))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    return Bert()


def repeat(torch, x, batch):
    """The first rows of x over and over, `batch` in all."""
    return x.repeat(-(-batch // len(x)), *[1] * (x.dim() - 1))[:batch]


def least_cosine(torch, answer, right):
    """Of a row of both, which lies along the last dim."""
    right = repeat(torch, right, len(answer))
    least = torch.nn.functional.cosine_similarity(answer.float().cpu(), right, dim=-1).min().item()
    if not least > 0.999:
        raise RuntimeError(f"an answer has a cosine of {least:.5f} to the right one")
    return least


def time_case(torch, args, model, x, right, case):
    from bench_gpu_peer import measure
    begin = time.monotonic()
    torch._dynamo.reset()
    # Calls have this input where it is: nothing has to be copied to where a graph reads it.
    torch._dynamo.mark_static_address(x)
    compiled = torch.compile(model, fullgraph=True, dynamic=False, mode=args.mode)
    for _ in range(5):
        compiled(x)
    cosine = least_cosine(torch, compiled(x), right)
    took = time.monotonic() - begin
    if args.device == "cpu":
        begin = time.perf_counter()
        compiled(x)
        us = (time.perf_counter() - begin) * 1e6
    else:
        torch.cuda.synchronize()
        us = measure(torch, lambda: compiled(x), args.rounds)
    emit(case, "time", unit="us", value=round(us, 2), who=f"torch {torch.__version__} {args.mode}",
         cosine=round(cosine, 6), compile_s=round(took, 1))


def time_network(args, network):
    """Of the process that --only-network makes. Says each case before it begins."""
    import torch
    spec, tensors = args.specs[network], read(path_of(args.time, network))
    model = (make_resnet if network == "resnet50" else make_bert)(torch, spec)
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in tensors.items()
                           if not name.startswith(("input.", "output."))})
    layout = torch.channels_last if network == "resnet50" else torch.contiguous_format
    model = model.to(args.device, torch.float16, memory_format=layout).eval()
    torch.backends.cudnn.benchmark = True
    with torch.inference_mode():
        for index, batch, case in cases_of(args, network):
            x = repeat(torch, torch.from_numpy(tensors[f"input.{index}"].copy()), batch)
            x = x.to(args.device).contiguous(memory_format=layout)
            right = torch.from_numpy(tensors[f"output.{index}"].copy())
            time_case(torch, args, model, x, right, case)


def cases_of(args, network):
    """Index of the input, batch, name; the first length at all batches, then the next one."""
    for index, sizes in enumerate(args.specs[network]["inputs"]):
        for batch in args.batches:
            if index:
                yield index, batch, case_of(network, batch, sizes)


# ---- Limits --------------------------------------------------------------------------------------

def lines_of(process, seconds):
    """Each line of the process; it ends with that, or once `seconds()` have gone by without one."""
    rest = b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], max(0, seconds()))
        data = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode()


def run_network(args, network, end):
    """Passes on the lines of the network's process. False where it failed."""
    command = [sys.executable, os.path.abspath(__file__), *args.own, "--only-network", network]
    waiting = [case for _, _, case in cases_of(args, network)]
    spent = f"nothing was left of {args.total_seconds} s"
    if time.monotonic() >= end:
        skip(waiting, spent)
        return True
    # A group of its own, so that compilers that it started end with it.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    begin = time.monotonic()

    def until():
        return min(begin + args.limit_seconds, end)

    try:
        for line in lines_of(process, lambda: until() - time.monotonic()):
            print(line, flush=True)
            begin = time.monotonic()
            waiting = waiting[1:] if '"metric": "time"' in line else waiting
        if not waiting:
            return process.wait(timeout=60) == 0
        if time.monotonic() < until():
            skip(waiting, f"PyTorch's side ended with {process.wait(timeout=60)}")
            return False
        if until() == end:
            skip(waiting, spent)
        else:
            skip(waiting[:1], f"took more than {args.limit_seconds} s")
            skip(waiting[1:], "a case before it took too long")
        return True
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def skip(cases, why):
    for case in cases:
        emit(case, "skipped", why=why, who="torch")


def run(args):
    end, good = time.monotonic() + args.total_seconds, True
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without the network's process
    for network in args.networks:
        good = run_network(args, network, end) and good
    return good


# ---- The table -----------------------------------------------------------------------------------

def table(path):
    ours, theirs, skipped = {}, {}, {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("bench") != "networks_gpu":
                continue
            if entry["metric"] == "time":
                side = theirs if "who" in entry else ours
                side.setdefault(entry["case"], []).append(entry["value"])
            elif entry["metric"] == "skipped":
                skipped[entry["case"]] = entry["why"]
    ratios = []
    print(f"{'call':<24} {'ours, us':>10} {'peer, us':>10} {'ratio':>7}")
    for case in dict.fromkeys([*ours, *theirs, *skipped]):
        mine, peer = (statistics.median(side.get(case, [0])) for side in (ours, theirs))
        text = f"{case:<24} {mine:>10.1f}" if mine else f"{case:<24} {'':>10}"
        if peer:
            text += f" {peer:>10.1f}"
        elif case in skipped:
            text += f" peer skipped: {skipped[case]}"
        if mine and peer:
            ratios.append(peer / mine)
            text += f" {ratios[-1]:>7.2f}"
        print(text)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{'geometric mean; least':<46} {mean:>7.2f} {min(ratios):.2f}")


def words(text):
    names = text.split(",")
    if not set(names) <= set(FULL):
        raise argparse.ArgumentTypeError(f"networks are {', '.join(FULL)}")
    return names


def numbers(text):
    values = [int(word) if word.isdigit() else 0 for word in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError("batches are numbers from 1 on, such as 1,64")
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--weights", metavar="FOLDER", help="make the files there")
    what.add_argument("--time", metavar="FOLDER", help="time PyTorch on the files there")
    what.add_argument("--table", metavar="FILE", help="print what both sides have written")
    parser.add_argument("--networks", type=words, default=list(FULL), metavar="LIST",
                        help="(default: resnet50,bert)")
    parser.add_argument("--batches", type=numbers, default=[1, 64, 8], metavar="LIST",
                        help="in this order (default: 1,64,8)")
    parser.add_argument("--mode", choices=["reduce-overhead", "max-autotune"],
                        default="reduce-overhead", help="(default: reduce-overhead)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--limit-seconds", type=int, default=120, metavar="N",
                        help="of a case, compiling included (default: 120)")
    parser.add_argument("--total-seconds", type=int, default=3600, metavar="N",
                        help="of all cases (default: 3600)")
    parser.add_argument("--tiny", action="store_true",
                        help="networks of few layers and channels, for trying both programs")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda",
                        help="cpu is for trying this program (default: cuda)")
    parser.add_argument("--only-network", choices=list(FULL), help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.specs, args.own = TINY if args.tiny else FULL, sys.argv[1:]
    try:
        if args.table:
            table(args.table)
        elif args.weights:
            make(args.weights, args.networks, args.specs)
        elif args.only_network:
            time_network(args, args.only_network)
        elif not run(args):
            return 1
    except (OSError, RuntimeError, ImportError, subprocess.SubprocessError) as error:
        print(f"networks_gpu_peer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The forward pass of all-MiniLM-L6-v2 in NumPy: what the C model's answers are checked against.

It shares nothing with the C code: its own safetensors reader, its own arithmetic, by default in
float64. Input is JSON lines, each a list of token ids or an object with "ids" (as `minilm --json`
prints); every line is a sentence. Other lines are passed over.

  reference.py --model DIR --out embeddings.npy < ids.jsonl
  minilm --model DIR --json | reference.py --model DIR --check 1e-4

Exit codes: 0 done, and with --check all embeddings are near enough; 1 they are not, or there were
none; 2 wrong usage.
"""
import argparse
import json
import math
import struct
import sys

import numpy as np

CONFIG = {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 12,
          "num_hidden_layers": 6, "max_position_embeddings": 512, "vocab_size": 30522,
          "type_vocab_size": 2, "layer_norm_eps": 1e-12}


# ---- Weights --------------------------------------------------------------------------------------

def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    weights = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        weights[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return weights


def weight_sizes(config):
    """Name and sizes of every tensor that the forward pass reads."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    sizes = {"embeddings.word_embeddings.weight": (config["vocab_size"], hidden),
             "embeddings.position_embeddings.weight": (config["max_position_embeddings"], hidden),
             "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], hidden),
             "embeddings.LayerNorm.weight": (hidden,), "embeddings.LayerNorm.bias": (hidden,)}
    for index in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{index}."
        for part, rows, columns in (("attention.self.query", hidden, hidden),
                                    ("attention.self.key", hidden, hidden),
                                    ("attention.self.value", hidden, hidden),
                                    ("attention.output.dense", hidden, hidden),
                                    ("intermediate.dense", inner, hidden),
                                    ("output.dense", hidden, inner)):
            sizes[layer + part + ".weight"] = (rows, columns)
            sizes[layer + part + ".bias"] = (rows,)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            sizes[layer + part + ".weight"] = (hidden,)
            sizes[layer + part + ".bias"] = (hidden,)
    return sizes


def seeded_weights(config):
    """The weights of `minilm --seeded`, bit by bit: splitmix64 over a seed made from the name."""
    weights = {}
    for name, sizes in weight_sizes(config).items():
        seed = 0xCBF29CE484222325
        for byte in name.encode():
            seed = (seed ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        count = math.prod(sizes)
        with np.errstate(over="ignore"):
            z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
        uniform = (z >> np.uint64(40)).astype(np.float64) * 2.0 ** -23 - 1.0
        scale, offset = (0.1, 1.0) if name.endswith("LayerNorm.weight") else (0.0625, 0.0)
        weights[name] = (offset + scale * uniform).astype(np.float32).reshape(sizes)
    return weights


# ---- Forward pass ---------------------------------------------------------------------------------

erf = np.frompyfunc(math.erf, 1, 1)


def gelu(x):
    return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)).astype(x.dtype))


def softmax(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


class Model:
    def __init__(self, weights, config, dtype):
        self.config = config
        self.weights = {name: weights[name].astype(dtype) for name in weight_sizes(config)}
        self.dtype = dtype

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def layer_norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        normal = centred / np.sqrt(variance + self.dtype(self.config["layer_norm_eps"]))
        return normal * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def attention(self, x, mask_bias, layer):
        batch, length, hidden = x.shape
        heads = self.config["num_attention_heads"]

        def split(y):
            return y.reshape(batch, length, heads, hidden // heads).transpose(0, 2, 1, 3)

        query, key, value = (split(self.linear(x, f"{layer}attention.self.{part}"))
                             for part in ("query", "key", "value"))
        scores = query @ key.swapaxes(-1, -2) / self.dtype(math.sqrt(hidden // heads))
        context = softmax(scores + mask_bias) @ value
        return context.transpose(0, 2, 1, 3).reshape(batch, length, hidden)

    def embed(self, ids, mask):
        """ids, mask: [batch, length]; the result is [batch, hidden], each row of length 1."""
        words = self.weights["embeddings.word_embeddings.weight"][ids]
        positions = self.weights["embeddings.position_embeddings.weight"][:ids.shape[1]]
        kind = self.weights["embeddings.token_type_embeddings.weight"][0]
        x = self.layer_norm(words + positions + kind, "embeddings.LayerNorm")
        mask_bias = np.where(mask[:, None, None, :] != 0, 0.0, np.finfo(np.float32).min)
        mask_bias = mask_bias.astype(self.dtype)
        for index in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{index}."
            attended = self.linear(self.attention(x, mask_bias, layer), layer + "attention.output.dense")
            x = self.layer_norm(x + attended, layer + "attention.output.LayerNorm")
            inner = gelu(self.linear(x, layer + "intermediate.dense"))
            x = self.layer_norm(x + self.linear(inner, layer + "output.dense"), layer + "output.LayerNorm")
        weight = mask[:, :, None].astype(self.dtype)
        pooled = (x * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), self.dtype(1e-9))
        length = np.sqrt((pooled * pooled).sum(axis=-1, keepdims=True))
        return pooled / np.maximum(length, self.dtype(1e-12))


# ---- Command --------------------------------------------------------------------------------------

def read_sentences(stream):
    """(ids, embedding or None) of each line that has ids."""
    for line in stream:
        if not line.strip():
            continue
        entry = json.loads(line)
        if isinstance(entry, list):
            yield entry, None
        elif isinstance(entry, dict) and "ids" in entry:
            yield entry["ids"], entry.get("embedding")


def embed_all(model, sentences, pad):
    """One row a sentence: each by itself, or all in one batch that is padded to `pad` ids."""
    if not pad:
        return np.concatenate([model.embed(np.array([ids]), np.ones((1, len(ids)), np.int64))
                               for ids in sentences])
    ids = np.zeros((len(sentences), pad), np.int64)
    mask = np.zeros_like(ids)
    for row, sentence in enumerate(sentences):
        ids[row, :len(sentence)] = sentence
        mask[row, :len(sentence)] = 1
    return model.embed(ids, mask)


def check(embeddings, given, bound):
    worst = 0.0
    for row, (mine, theirs) in enumerate(zip(embeddings, given)):
        if theirs is None or len(theirs) != len(mine):
            print(f"sentence {row}: no embedding of {len(mine)} numbers to check", file=sys.stderr)
            return 1
        difference = float(np.abs(mine - np.array(theirs)).max())
        worst = max(worst, difference if difference == difference else math.inf)
    print(f"{len(given)} embeddings, largest difference {worst:.3g}, allowed {bound:.3g}")
    return 0 if worst <= bound else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", help="folder with model.safetensors and config.json")
    source.add_argument("--seeded", action="store_true", help="the weights of `minilm --seeded`")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--pad", type=int, default=0, help="one batch, padded to this many ids")
    parser.add_argument("--out", help="write the embeddings to this .npy file")
    parser.add_argument("--check", type=float, metavar="BOUND",
                        help="compare with the lines' own embeddings: largest allowed difference")
    arguments = parser.parse_args()

    config, weights = CONFIG, None
    if arguments.model:
        with open(arguments.model + "/config.json", encoding="utf-8") as file:
            config = {**CONFIG, **json.load(file)}
        weights = read_safetensors(arguments.model + "/model.safetensors")
    model = Model(weights or seeded_weights(config), config, np.dtype(arguments.dtype).type)
    lines = list(read_sentences(sys.stdin))
    if not lines:
        print("no line with ids", file=sys.stderr)
        return 1
    sentences, given = zip(*lines)
    embeddings = embed_all(model, sentences, arguments.pad)
    if arguments.out:
        np.save(arguments.out, embeddings)
    return check(embeddings, given, arguments.check) if arguments.check is not None else 0


if __name__ == "__main__":
    sys.exit(main())

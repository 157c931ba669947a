#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports models with random weights to ONNX, as people's exporters do, with dynamic dims.

usage: exports.py [--graphs] OUT

Needs torch and torchvision (Debian: python3-torch, python3-torchvision; any version that exports by
tracing). --graphs: by torch.export instead, as PyTorch does by default from 2.9 on (needs onnxscript);
minilm.onnx is left out. Writes OUT/<name>.onnx: a BERT-like encoder, ViT, Swin, a Llama-style decoder with a cache
that grows, a Whisper-style encoder, an LSTM tagger. Models are small, their graphs are not.
minilm.onnx has MiniLM's sizes and no weights: they are inputs with the names of its safetensors file,
which models.py turns into external data.
"""
import inspect
import math
import sys
import warnings
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")


class Block(nn.Module):
    """Attention and two layers around it, as BERT, ViT and Whisper have them."""

    def __init__(self, width, heads, pre, epsilon=1e-5):
        super().__init__()
        self.heads, self.pre = heads, pre
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = (nn.LayerNorm(width, epsilon) for _ in range(2))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def attend(self, x, bias):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if bias is not None:
            scores = scores + bias
        mixed = F.softmax(scores, -1) @ v
        return self.o(mixed.permute(0, 2, 1, 3).reshape(x.shape))

    def forward(self, x, bias=None):
        if self.pre:
            x = x + self.attend(self.norm1(x), bias)
            return x + self.second(F.gelu(self.first(self.norm2(x))))
        x = self.norm1(x + self.attend(x, bias))
        return self.norm2(x + self.second(F.gelu(self.first(x))))


class Bert(nn.Module):
    def __init__(self, width=64, heads=4, layers=6, words=500, longest=128, epsilon=1e-5):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, epsilon)
        self.blocks = nn.ModuleList(Block(width, heads, False, epsilon) for _ in range(layers))

    def forward(self, ids, mask, kinds):
        places = torch.arange(ids.shape[1]).unsqueeze(0)
        x = self.norm(self.words(ids) + self.places(places) + self.kinds(kinds))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for block in self.blocks:
            x = block(x, bias)
        weight = mask.unsqueeze(-1).to(x.dtype)
        mean = (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return x, F.normalize(mean, dim=1)


class Whisper(nn.Module):
    def __init__(self, mels=20, width=64, heads=4, layers=4, longest=200):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.places = nn.Parameter(torch.randn(longest, width) * 0.1)
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.places[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.scale1, self.scale2 = (nn.Parameter(1 + 0.1 * torch.randn(width)) for _ in range(2))

    @staticmethod
    def norm(x, scale):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * scale

    @staticmethod
    def turn(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def split(self, x, n):
        return x.view(x.shape[0], x.shape[1], n, self.size).transpose(1, 2)

    def forward(self, x, cos, sin, bias, past_k, past_v):
        y = self.norm(x, self.scale1)
        q = self.turn(self.split(self.q(y), self.heads), cos, sin)
        k = self.turn(self.split(self.k(y), self.groups), cos, sin)
        k, v = torch.cat((past_k, k), 2), torch.cat((past_v, self.split(self.v(y), self.groups)), 2)
        many = self.heads // self.groups
        batch, groups, length, size = k.shape
        wide_k = k[:, :, None].expand(batch, groups, many, length, size).reshape(
            batch, self.heads, length, size)
        wide_v = v[:, :, None].expand(batch, groups, many, length, size).reshape(
            batch, self.heads, length, size)
        scores = q @ wide_k.transpose(2, 3) / math.sqrt(size) + bias
        mixed = F.softmax(scores, -1) @ wide_v
        x = x + self.o(mixed.transpose(1, 2).reshape(x.shape))
        y = self.norm(x, self.scale2)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Llama(nn.Module):
    """past_*: [batch, groups, past, size], past may be 0; returns the cache with the new rows."""

    def __init__(self, width=64, heads=8, groups=2, layers=4, words=300):
        super().__init__()
        self.size = width // heads
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, groups) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, self.size, 2) / self.size))

    def forward(self, ids, *past):
        before, new = past[0].shape[2], ids.shape[1]
        places = torch.arange(before, before + new)
        angles = places[:, None].to(torch.float32) * self.rates[None]
        angles = torch.cat((angles, angles), -1)
        ahead = torch.arange(before + new)[None] > places[:, None]
        bias = torch.zeros(new, before + new).masked_fill(ahead, -1e9)
        x, cache = self.words(ids), []
        for at, layer in enumerate(self.layers):
            x, k, v = layer(x, angles.cos(), angles.sin(), bias, past[2 * at], past[2 * at + 1])
            cache += [k, v]
        return (self.head(x), *cache)


class Tagger(nn.Module):
    def __init__(self, width=24, words=100):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(2 * width, width, batch_first=True)
        self.out = nn.Linear(width, 7)

    def forward(self, ids):
        x, _ = self.lstm(self.words(ids))
        x, last = self.gru(x)
        return F.log_softmax(self.out(x), -1), last


class Vit(nn.Module):
    def __init__(self, side=32, patch=8, width=64, heads=4, layers=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(0.1 * torch.randn(1, 1 + (side // patch) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def swin():
    from torchvision.models import SwinTransformer

    return SwinTransformer(patch_size=[4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4],
                           window_size=[4, 4], num_classes=10)


# What MiniLM's file calls the parts of Bert, within a block and outside.
MINILM = {
    "words": "embeddings.word_embeddings", "places": "embeddings.position_embeddings",
    "kinds": "embeddings.token_type_embeddings", "norm": "embeddings.LayerNorm",
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "o": "attention.output.dense", "norm1": "attention.output.LayerNorm",
    "first": "intermediate.dense", "second": "output.dense", "norm2": "output.LayerNorm",
}


def minilm_name(parameter):
    *block, part, kind = parameter.split(".")
    place = f"encoder.layer.{block[1]}." if block else ""
    return f"{place}{MINILM[part]}.{kind}"


def by_tracing(model, args, path, inputs, outputs, axes, opset, **more):
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        more["dynamo"] = False
    torch.onnx.export(model, args, str(path), input_names=inputs, output_names=outputs,
                      dynamic_axes=axes, opset_version=opset, **more)


def by_graph(model, args, path, inputs, outputs, axes, _opset):
    dims = [axes[name] for name in inputs]
    named = [p for p in inspect.signature(model.forward).parameters.values()]
    if named[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        dims[len(named) - 1:] = [tuple(dims[len(named) - 1:])]
    torch.onnx.export(model, args, str(path), input_names=inputs, output_names=outputs,
                      dynamic_shapes=tuple(dims), dynamo=True)


def export(how, model, args, path, *rest, **more):
    model.eval()
    try:
        with torch.no_grad():
            how(model, args, path, *rest, **more)
    except Exception as error:  # whatever PyTorch's newer exporter cannot do yet
        if how is by_tracing:
            raise
        print(path.name, "is left out, PyTorch cannot export it:", str(error).strip().splitlines()[0])
        return
    print(path, path.stat().st_size)


def main():
    graphs = sys.argv[1:2] == ["--graphs"]
    how = by_graph if graphs else by_tracing
    out = Path(sys.argv[-1])
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    ids = torch.randint(0, 100, (2, 9))
    two = {0: "batch", 1: "sequence"}
    export(how, Bert(), (ids, torch.ones_like(ids), torch.zeros_like(ids)), out / "bert.onnx",
           ["input_ids", "attention_mask", "token_type_ids"], ["hidden", "embedding"],
           {"input_ids": two, "attention_mask": two, "token_type_ids": two}, 14)
    export(how, Whisper(), (torch.randn(2, 20, 36),), out / "whisper.onnx", ["mel"], ["hidden"],
           {"mel": {0: "batch", 2: "frames"}}, 16)
    image = torch.randn(2, 3, 32, 32)
    export(how, Vit(), (image,), out / "vit.onnx", ["image"], ["logits"], {"image": {0: "batch"}}, 14)
    export(how, swin(), (image,), out / "swin.onnx", ["image"], ["logits"],
           {"image": {0: "batch", 2: "height", 3: "width"}}, 16)
    past = [torch.randn(2, 2, 5, 8) for _ in range(8)]
    names = [f"past.{k}.{kind}" for k in range(4) for kind in ("key", "value")]
    grown = [name.replace("past", "present") for name in names]
    axes = {name: {0: "batch", 2: "past"} for name in names}
    axes["input_ids"] = two
    export(how, Llama(), (torch.randint(0, 300, (2, 3)), *past), out / "llama.onnx",
           ["input_ids", *names], ["logits", *grown], axes, 15)
    export(how, Tagger(), (ids,), out / "tagger.onnx", ["ids"], ["tags", "last"], {"ids": two}, 14)
    if graphs:
        return
    minilm = Bert(384, 12, 6, 30522, 512, 1e-12)
    for parameter in minilm.parameters():
        nn.init.normal_(parameter)  # equal ones would be written as one
    weights = [minilm_name(name) for name, _ in minilm.named_parameters()]
    export(how, minilm, (ids, torch.ones_like(ids), torch.zeros_like(ids)), out / "minilm.onnx",
           ["input_ids", "attention_mask", "token_type_ids", *weights], ["hidden", "embedding"],
           {"input_ids": two, "attention_mask": two, "token_type_ids": two}, 17,
           export_params=False, do_constant_folding=False)


if __name__ == "__main__":
    main()

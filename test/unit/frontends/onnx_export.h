// SPDX-License-Identifier: Apache-2.0
// A BERT-like encoder as exporters of operator set 13 write it, as a model's text: norms, gelu and
// attention spelled out, sizes read by Shape, each weight an initializer of its own.
#ifndef DT_TESTS_UNIT_FRONTENDS_ONNX_EXPORT_H
#define DT_TESTS_UNIT_FRONTENDS_ONNX_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

enum { EXPORT_WORDS = 11, EXPORT_LONGEST = 9, EXPORT_WIDTH = 8, EXPORT_HEADS = 2 };

// Inputs: ids and mask, i64 [batch, length]. Outputs: the last norm, f32 [batch, length,
// EXPORT_WIDTH]. `pre`: norms stand in front of attention and the two products, not behind the
// sums, and the sums go on. The caller frees the text.
char *export_text(uint32_t layers, bool pre);

#endif // DT_TESTS_UNIT_FRONTENDS_ONNX_EXPORT_H

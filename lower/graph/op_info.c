// SPDX-License-Identifier: Apache-2.0
// The op table as data, and ops by name.
#include "lower/graph/graph.h"

#include <string.h>

// The decompose column: `none` is explicit, anything else names a decomposition.
enum {
  DECOMPOSE_none = 0,
  DECOMPOSE_mean = 1,
  DECOMPOSE_var = 1,
  DECOMPOSE_relu = 1,
  DECOMPOSE_silu = 1,
  DECOMPOSE_gelu = 1,
  DECOMPOSE_gelu_tanh = 1,
  DECOMPOSE_softmax = 1,
  DECOMPOSE_log_softmax = 1,
  DECOMPOSE_layer_norm = 1,
  DECOMPOSE_rms_norm = 1,
  DECOMPOSE_cumsum = 1,
  DECOMPOSE_scatter = 1,
  DECOMPOSE_nonzero = 1,
  DECOMPOSE_masked_select = 1,
  DECOMPOSE_conv = 1,
  DECOMPOSE_conv_transpose = 1,
};

// The dtype_rule column: whether ops of that rule compute with their inputs.
enum {
  COMPUTES_same = 0,
  COMPUTES_float_only = 1,
  COMPUTES_number = 1,
  COMPUTES_integer = 0,
  COMPUTES_logic = 0,
  COMPUTES_compare = 1,
  COMPUTES_order = 1,
  COMPUTES_float_test = 1,
  COMPUTES_arg = 1,
  COMPUTES_attr = 0,
  COMPUTES_where = 0,
  COMPUTES_gather = 0,
  COMPUTES_scatter = 0, // widened by their decomposition
  COMPUTES_index = 0,
  COMPUTES_item = 0,
  COMPUTES_search = 1,
  COMPUTES_compress = 0,
  COMPUTES_select = 0,
  COMPUTES_control = 0,
  COMPUTES_result = 0,
  COMPUTES_input = 0,
  COMPUTES_constant = 0,
  COMPUTES_iota = 0,
};

static const dt_op_info_t infos[DT_OP_COUNT] = {
    [DT_OP_NONE] = {.name = "none", .arity = 0, .doc = ""},
#define OP(id, inputs, bits, dtype_rule, shape_rule, decompose, lowering, eval, text)              \
  [DT_OP_##id] = {.name = #id,                                                                     \
                  .arity = inputs,                                                                 \
                  .flags = bits,                                                                   \
                  .lower = DT_LOWER_##lowering,                                                    \
                  .has_decomposition = DECOMPOSE_##decompose != 0,                                 \
                  .computes = COMPUTES_##dtype_rule != 0,                                          \
                  .doc = text},
#include "lower/graph/ops.def"
};

// Every op can be lowered: by itself or by its decomposition, and composites only by the latter.
// Others may have one for the cases that it makes better.
#define OP(id, inputs, bits, dtype_rule, shape_rule, decompose, lowering, eval, text)              \
  _Static_assert(DT_LOWER_##lowering != DT_LOWER_none || DECOMPOSE_##decompose != 0,               \
                 #id " needs a lowering or a decomposition");                                      \
  _Static_assert((((bits) & DT_OPF_COMPOSITE) != 0) == (DT_LOWER_##lowering == DT_LOWER_none),     \
                 #id " is a composite exactly when it has no lowering");
#include "lower/graph/ops.def"

const dt_op_info_t *dt__op_info(dt_op_t op) {
  return &infos[(unsigned)op < DT_OP_COUNT ? op : DT_OP_NONE];
}

dt_op_t dt__op_find(const char *name, size_t len) {
  for (uint32_t op = DT_OP_NONE + 1; op < DT_OP_COUNT; op++) {
    if (strlen(infos[op].name) == len && memcmp(infos[op].name, name, len) == 0)
      return (dt_op_t)op;
  }
  return DT_OP_NONE;
}

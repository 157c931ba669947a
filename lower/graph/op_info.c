// SPDX-License-Identifier: Apache-2.0
// The op table as data, and ops by name.
#include "lower/graph/infer.h"

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

// What the columns of rules say.
enum {
#define RULE(name, attrs) SHAPE_READS_##name = (attrs),
  DT_SHAPE_RULES
#undef RULE
};
enum {
#define DTYPE_RULE(name, attrs, computes, moves) DTYPE_READS_##name = (attrs),
  DT_DTYPE_RULES
#undef DTYPE_RULE
};
enum {
#define DTYPE_RULE(name, attrs, computes, moves) COMPUTES_##name = (computes),
  DT_DTYPE_RULES
#undef DTYPE_RULE
};
enum {
#define DTYPE_RULE(name, attrs, computes, moves) MOVES_##name = (moves),
  DT_DTYPE_RULES
#undef DTYPE_RULE
};

// The lower column: the scalar op of rows that are lowered to one.
#define SCALAR_none(name) DT_SCALAR_NONE
#define SCALAR_leaf(name) DT_SCALAR_NONE
#define SCALAR_cast(name) DT_SCALAR_NONE
#define SCALAR_bits(name) DT_SCALAR_NONE
#define SCALAR_view(name) DT_SCALAR_NONE
#define SCALAR_reduce(name) DT_SCALAR_NONE
#define SCALAR_argreduce(name) DT_SCALAR_NONE
#define SCALAR_gather(name) DT_SCALAR_NONE
#define SCALAR_gather_at(name) DT_SCALAR_NONE
#define SCALAR_scatter(name) DT_SCALAR_NONE
#define SCALAR_pad(name) DT_SCALAR_NONE
#define SCALAR_concat(name) DT_SCALAR_NONE
#define SCALAR_matmul(name) DT_SCALAR_NONE
#define SCALAR_overlap(name) DT_SCALAR_NONE
#define SCALAR_item(name) DT_SCALAR_NONE
#define SCALAR_scan(name) DT_SCALAR_NONE
#define SCALAR_search(name) DT_SCALAR_NONE
#define SCALAR_compress(name) DT_SCALAR_NONE
#define SCALAR_control(name) DT_SCALAR_NONE
#define SCALAR_external(name) DT_SCALAR_NONE
#define SCALAR_ew(name) DT_SCALAR_##name
#define SCALAR_part(name) DT_SCALAR_##name

// Nothing reads these columns yet; whoever first does gives them other values.
enum { DERIVATIVE_none = 0 };
enum { BATCH_none = 0 };

static const dt_op_info_t infos[DT_OP_COUNT] = {
    [DT_OP_NONE] = {.name = "none", .arity = 0, .doc = ""},
#define OP(id, inputs, bits, dtype_rule, shape_rule, decompose, lowering, eval, build, derivative, \
           batch, text)                                                                            \
  [DT_OP_##id] = {.name = #id,                                                                     \
                  .arity = inputs,                                                                 \
                  .flags = bits,                                                                   \
                  .attrs = DTYPE_READS_##dtype_rule | (uint32_t)SHAPE_READS_##shape_rule,          \
                  .infer_dtype = dt__dtype_rule_##dtype_rule,                                      \
                  .infer_shape = dt__shape_rule_##shape_rule,                                      \
                  .lower = DT_LOWER_##lowering,                                                    \
                  .scalar = SCALAR_##lowering(id),                                                 \
                  .has_decomposition = DECOMPOSE_##decompose != 0,                                 \
                  .computes = COMPUTES_##dtype_rule != 0,                                          \
                  .moves = MOVES_##dtype_rule != 0,                                                \
                  .doc = text},
#include "lower/graph/ops.def"
};

// Every op can be lowered: by itself or by its decomposition, and composites only by the latter.
// Others may have one for the cases that it makes better.
#define OP(id, inputs, bits, dtype_rule, shape_rule, decompose, lowering, eval, build, derivative, \
           batch, text)                                                                            \
  _Static_assert(DT_LOWER_##lowering != DT_LOWER_none || DECOMPOSE_##decompose != 0,               \
                 #id " needs a lowering or a decomposition");                                      \
  _Static_assert((((bits) & DT_OPF_COMPOSITE) != 0) == (DT_LOWER_##lowering == DT_LOWER_none),     \
                 #id " is a composite exactly when it has no lowering");                           \
  _Static_assert(DERIVATIVE_##derivative == 0 && BATCH_##batch == 0,                               \
                 #id " has rules that nothing reads");
#include "lower/graph/ops.def"

const dt_op_info_t *dt__op_info(dt_op_t op) {
  return &infos[(unsigned)op < DT_OP_COUNT ? op : DT_OP_NONE];
}

bool dt__op_exists(dt_op_t op) { return dt__op_info(op) != &infos[DT_OP_NONE]; }

dt_op_t dt__op_find(const char *name, size_t len) {
  for (uint32_t op = DT_OP_NONE + 1; op < DT_OP_COUNT; op++) {
    if (strlen(infos[op].name) == len && memcmp(infos[op].name, name, len) == 0)
      return (dt_op_t)op;
  }
  return DT_OP_NONE;
}

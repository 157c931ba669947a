// SPDX-License-Identifier: Apache-2.0
// See random_calls.h.
#define DT_NO_SOURCE_LINES // a node says its place itself
#include "test/conform/graphs/random_calls.h"

#include "ductile/op.h"
#include "ductile/pass.h"
#include "runtime/base/status.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/op_list.h"

#include <string.h>

static _Thread_local bool made_here;

void rg_calls_made(bool made) { made_here = made; }

bool rg_call_is_sum(dt_dtype_t dtype) {
  return dtype == DT_F32 || dtype == DT_F64 || dtype == DT_I32 || dtype == DT_I64;
}

// ---- Written out --------------------------------------------------------------------------------
static dt_sym_t half_of(dt_trace_t *t, dt_value_t x, int32_t axis) {
  return dt_sym_floordiv(t, dt_dim(t, x, axis), dt_sym_const(t, 2));
}

static void write_flip(dt_trace_t *t, int32_t axis, const dt_value_t *in, dt_value_t *out) {
  dt_sym_t size = dt_dim(t, in[0], axis), last = dt_sym_sub(t, size, dt_sym_const(t, 1));
  out[0] = dt_slice(t, in[0], axis, last, size, -1);
}

static void write_halves(dt_trace_t *t, int32_t axis, const dt_value_t *in, dt_value_t *out) {
  dt_sym_t size = dt_dim(t, in[0], axis), half = half_of(t, in[0], axis);
  out[0] = dt_slice(t, in[0], axis, dt_sym_const(t, 0), half, 1);
  out[1] = dt_slice(t, in[0], axis, half, dt_sym_sub(t, size, half), 1);
}

static void write_where(dt_trace_t *t, int32_t axis, const dt_value_t *in, dt_value_t *out) {
  (void)axis;
  out[0] = dt_where(t, in[2], in[0], in[1]);
}

static void write_pair(dt_trace_t *t, int32_t axis, const dt_value_t *in, dt_value_t *out) {
  (void)axis;
  out[0] = dt_add(t, in[0], in[1]);
  out[1] = dt_sub(t, in[0], in[1]);
}

// ---- Kernels ------------------------------------------------------------------------------------
static char *element(const dt_op_tensor_t *x, const int64_t *index) {
  int64_t at = 0;
  for (uint32_t d = 0; d < x->rank; d++)
    at += index[d] * x->strides[d];
  return (char *)x->data + at * (int64_t)dt_dtype_size(x->dtype);
}

// An item is an index of dim 0, or all elements.
static int32_t axis_of(const dt_op_args_t *args) {
  const dt_op_attr_t *axis = dt_op_attr(args, "axis", DT_OP_ATTR_INT);
  return axis ? (int32_t)axis->i : -1;
}

typedef void (*one_fn_t)(const dt_op_args_t *args, uint32_t result, const int64_t *index);

static void each(const dt_op_args_t *args, uint32_t result, int64_t begin, int64_t end,
                 one_fn_t one) {
  const dt_op_tensor_t *y = args->results[result];
  bool shared = y->rank && axis_of(args) != 0;
  int64_t inner = 1, index[DT_MAX_RANK] = {0};
  for (uint32_t d = shared; d < y->rank; d++)
    inner *= y->sizes[d];
  // There is an item also where dim 0 has no index.
  int64_t stop = shared && end > y->sizes[0] ? y->sizes[0] : end;
  for (int64_t k = shared ? begin * inner : 0; k < (shared ? stop * inner : inner); k++) {
    int64_t rest = k;
    for (uint32_t d = y->rank; d-- > 0; rest /= y->sizes[d])
      index[d] = rest % y->sizes[d];
    one(args, result, index);
  }
}

static void copy(const dt_op_args_t *args, uint32_t result, uint32_t input, const int64_t *to,
                 const int64_t *from) {
  memcpy(element(args->results[result], to), element(args->inputs[input], from),
         dt_dtype_size(args->results[result]->dtype));
}

static void flip_one(const dt_op_args_t *args, uint32_t result, const int64_t *index) {
  int64_t from[DT_MAX_RANK];
  int32_t axis = axis_of(args);
  memcpy(from, index, sizeof(from));
  from[axis] = args->inputs[0]->sizes[axis] - 1 - from[axis];
  copy(args, result, 0, index, from);
}

static void halves_one(const dt_op_args_t *args, uint32_t result, const int64_t *index) {
  int64_t from[DT_MAX_RANK];
  int32_t axis = axis_of(args);
  memcpy(from, index, sizeof(from));
  from[axis] += result ? args->inputs[0]->sizes[axis] / 2 : 0;
  copy(args, result, 0, index, from);
}

static void where_one(const dt_op_args_t *args, uint32_t result, const int64_t *index) {
  bool first = *element(args->inputs[2], index) != 0;
  copy(args, result, first ? 0 : 1, index, index);
}

static void pair_one(const dt_op_args_t *args, uint32_t result, const int64_t *index) {
  const void *a = element(args->inputs[0], index), *b = element(args->inputs[1], index);
  void *y = element(args->results[result], index);
  switch (args->results[result]->dtype) {
#define CASE(dtype, type)                                                                          \
  case dtype: {                                                                                    \
    type p, q;                                                                                     \
    memcpy(&p, a, sizeof(p));                                                                      \
    memcpy(&q, b, sizeof(q));                                                                      \
    p = result ? p - q : p + q;                                                                    \
    memcpy(y, &p, sizeof(p));                                                                      \
    break;                                                                                         \
  }
    CASE(DT_F32, float)
    CASE(DT_F64, double)
    CASE(DT_I32, uint32_t)
    CASE(DT_I64, uint64_t)
#undef CASE
  default:
    break;
  }
}

// ---- The ops ------------------------------------------------------------------------------------
typedef struct call_t {
  const char *name;
  rg_op_t op;
  uint32_t n_in, n_results;
  void (*write)(dt_trace_t *t, int32_t axis, const dt_value_t *in, dt_value_t *out);
  one_fn_t one;
} call_t;

#define INSTRUCTION(name) RG_##name
static const call_t calls[] = {
    {"rg.flip", INSTRUCTION(call_flip), 1, 1, write_flip, flip_one},
    {"rg.halves", INSTRUCTION(call_halves), 1, 2, write_halves, halves_one},
    {"rg.where", INSTRUCTION(call_where), 3, 1, write_where, where_one},
    {"rg.pair", INSTRUCTION(call_pair), 2, 2, write_pair, pair_one},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static dt_status_t infer(dt_op_call_t *call, void *closure) {
  const call_t *which = closure;
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  const dt_op_attr_t *axis = dt_op_call_attr(call, "axis", DT_OP_ATTR_INT);
  if (which->op != RG_call_halves) {
    for (uint32_t k = 0; k < which->n_results; k++)
      dt_op_set_result_like(call, k, x, DT_DTYPE_NONE);
  } else {
    dt_sym_t sizes[DT_MAX_RANK];
    for (uint32_t d = 0; d < dt_value_rank(t, x); d++)
      sizes[d] = dt_dim(t, x, (int32_t)d);
    dt_sym_t size = sizes[axis->i], half = half_of(t, x, (int32_t)axis->i);
    for (uint32_t k = 0; k < 2; k++) {
      sizes[axis->i] = k ? dt_sym_sub(t, size, half) : half;
      dt_op_set_result(call, k, dt_value_dtype(t, x), dt_value_rank(t, x), sizes);
    }
  }
  if (dt_value_rank(t, x) && !(axis && axis->i == 0))
    dt_op_set_items(call, dt_dim(t, x, 0));
  return NULL;
}

static dt_status_t decompose(dt_op_call_t *call, dt_value_t *results, void *closure) {
  const call_t *which = closure;
  const dt_op_attr_t *axis = dt_op_call_attr(call, "axis", DT_OP_ATTR_INT);
  dt_value_t in[3];
  for (uint32_t k = 0; k < which->n_in; k++)
    in[k] = dt_op_call_input(call, k);
  which->write(dt_op_call_trace(call), axis ? (int32_t)axis->i : 0, in, results);
  return NULL;
}

static dt_status_t kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const call_t *which = args->closure;
  for (uint32_t k = 0; k < args->n_results; k++)
    each(args, k, begin, end, which->one);
  return NULL;
}

static dt_op_options_t options_of(const call_t *call) {
  return (dt_op_options_t){.struct_size = sizeof(dt_op_options_t),
                           .name = call->name,
                           .least_inputs = call->n_in,
                           .infer = infer,
                           .decompose = decompose,
                           .kernel = kernel,
                           .closure = (void *)(uintptr_t)call};
}

dt_status_t rg_calls_register(dt_runtime_t *runtime) {
  for (uint32_t k = 0; k < CALLS; k++) {
    const dt_op_options_t options = options_of(&calls[k]);
    DT_TRY(dt_op_register(runtime, &options));
  }
  return NULL;
}

dt_status_t rg_calls_hooks(dt_hooks_t **out) {
  dt_op_list_t *ops = NULL;
  dt_hooks_t *none = NULL;
  dt_status_t status = dt__hooks_create(&none);
  for (uint32_t k = 0; k < CALLS && !status; k++) {
    const dt_op_options_t options = options_of(&calls[k]);
    dt_op_list_t *more = NULL;
    dt_op_def_t *def = NULL;
    status = dt__op_list_add(ops, &options, &more, &def);
    dt__op_list_release(ops);
    ops = more;
  }
  if (!status)
    status = dt__hooks_with_ops(none, ops, out);
  dt__op_list_release(ops);
  dt__hooks_release(none);
  return status;
}

// ---- Instructions -------------------------------------------------------------------------------
// Numbers: the axis, or any; which result.
dt_value_t rg_call_build(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  const call_t *which = calls;
  dt_value_t out[2] = {{0}, {0}};
  while (which->op != node->op)
    which++;
  bool has_axis = which->n_in == 1;
  if (made_here) {
    const dt_op_attr_t axis = {.name = "axis", .kind = DT_OP_ATTR_INT, .i = node->numbers[0]};
    dt_op_call(t, which->name, which->n_in, in, has_axis, &axis, which->n_results, out);
  } else {
    which->write(t, node->numbers[0], in, out);
  }
  return out[node->numbers[1]];
}

// ---- Rewriting ----------------------------------------------------------------------------------
// Of two nodes, one.
static bool takes(uint64_t seed, dt_value_t node) {
  uint64_t state = seed + node.id;
  return rg_below(&state, 2) == 0;
}

static dt_status_t sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

static dt_status_t as_call(dt_match_t *match, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  (void)match;
  (void)closure;
  dt_op_call(t, "rg.pair", 2, in, 0, NULL, 1, out);
  return NULL;
}

static const char *may_be_call(dt_match_t *match, void *closure) {
  const uint64_t *seed = closure;
  dt_trace_t *t = dt_rewriter_trace(dt_match_rewriter(match));
  dt_value_t a = dt_match_node(match, "a"), b = dt_match_node(match, "b");
  if (!takes(*seed, dt_match_output(match, 0)))
    return "left by chance";
  if (!rg_call_is_sum(dt_value_dtype(t, a)))
    return "no kernel for the dtype";
  if (dt_value_rank(t, a) != dt_value_rank(t, b))
    return "a broadcast";
  for (uint32_t d = 0; d < dt_value_rank(t, a); d++) {
    bool same = false;
    dt_sym_t eq = dt_sym_eq(t, dt_dim(t, a, (int32_t)d), dt_dim(t, b, (int32_t)d));
    if (!dt_sym_known(t, eq, &same) || !same)
      return "a broadcast, or not known to be none";
  }
  return NULL;
}

static dt_status_t choice(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  const uint64_t *seed = closure;
  const dt_value_t in[3] = {dt_rewriter_input(r, node, 1), dt_rewriter_input(r, node, 2),
                            dt_rewriter_input(r, node, 0)};
  if (takes(*seed, node))
    dt_op_call(dt_rewriter_trace(r), "rg.where", 3, in, 0, NULL, 1, out);
  return NULL;
}

dt_status_t rg_calls_rewrite(dt_runtime_t *runtime, uint64_t seed) {
  static uint64_t kept; // a process runs one program
  kept = seed;
  const dt_wildcard_t wildcards[] = {{.name = "a"}, {.name = "b", .same_dtype = "a"}};
  const dt_pattern_options_t options = {.struct_size = sizeof(options),
                                        .name = "sums",
                                        .point = (dt_point_t)(DT_POINT_TRACED + seed / 8 % 4),
                                        .n_wildcards = 2,
                                        .n_outputs = 1,
                                        .wildcard_size = sizeof(wildcards[0]),
                                        .dim_size = sizeof(dt_dim_decl_t),
                                        .wildcards = wildcards};
  const dt_pass_options_t choices = {.struct_size = sizeof(choices), .name = "choices"};
  dt_pattern_t *pattern = NULL;
  DT_TRY(dt_pattern_create(sum, as_call, may_be_call, &kept, &options, &pattern));
  dt_status_t status = dt_runtime_add_pattern(runtime, pattern);
  dt_pattern_release(pattern);
  DT_TRY(status);
  return dt_lowering_override(runtime, "where", choice, &kept, &choices);
}

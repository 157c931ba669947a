// SPDX-License-Identifier: Apache-2.0
// Replays a random program on a trace with the public builders.
#define DT_NO_SOURCE_LINES // a node says its place itself
#include "test/conform/graphs/random_calls.h"
#include "test/conform/graphs/random_data.h"

#include <stdio.h>

typedef dt_value_t (*unary_fn_t)(dt_trace_t *, dt_value_t);
typedef dt_value_t (*binary_fn_t)(dt_trace_t *, dt_value_t, dt_value_t);
typedef dt_value_t (*ternary_fn_t)(dt_trace_t *, dt_value_t, dt_value_t, dt_value_t);
typedef dt_value_t (*reduce_fn_t)(dt_trace_t *, dt_value_t, uint32_t, const int32_t *, bool);
typedef dt_value_t (*argreduce_fn_t)(dt_trace_t *, dt_value_t, int32_t, bool);
typedef dt_value_t (*along_fn_t)(dt_trace_t *, dt_value_t, int32_t);

typedef union builder_t {
  unary_fn_t unary;
  binary_fn_t binary;
  ternary_fn_t ternary;
  reduce_fn_t reduce;
  argreduce_fn_t argreduce;
  along_fn_t along;
} builder_t;

#define FN_unary(fn) {.unary = fn}
#define FN_test(fn) {.unary = fn}
#define FN_binary(fn) {.binary = fn}
#define FN_compare(fn) {.binary = fn}
#define FN_reduce(fn) {.reduce = fn}
#define FN_argreduce(fn) {.argreduce = fn}
#define FN_along(fn) {.along = fn}
#define FN_matmul(fn) {.binary = fn}
#define FN_input(fn) {0}
#define FN_constant(fn) {0}
#define FN_scalar(fn) {0}
#define FN_size(fn) {0}
#define FN_iota(fn) {0}
#define FN_cast(fn) {0}
#define FN_where(fn) {0}
#define FN_ternary(fn) {.ternary = fn}
#define FN_permute(fn) {0}
#define FN_transpose(fn) {0}
#define FN_unsqueeze(fn) {0}
#define FN_squeeze(fn) {0}
#define FN_regroup(fn) {0}
#define FN_split(fn) {0}
#define FN_flatten(fn) {0}
#define FN_reshape_like(fn) {0}
#define FN_expand(fn) {0}
#define FN_slice(fn) {0}
#define FN_concat(fn) {0}
#define FN_pad(fn) {0}
#define FN_gather(fn) {0}
#define FN_layer_norm(fn) {0}
#define FN_rms_norm(fn) {0}
#define FN_branch(fn) {0}
#define FN_scan(fn) {0}
#define FN_search(fn) {0}
#define FN_pick(fn) {0}
#define FN_pick_rows(fn) {0}
#define FN_scatter(fn) {0}
#define FN_scatter_rows(fn) {0}
#define FN_places(fn) {0}
#define FN_select(fn) {0}
#define FN_item(fn) {0}
#define FN_cond(fn) {0}
#define FN_switch(fn) {0}
#define FN_while(fn) {0}
#define FN_call(fn) {0}
#define FN_conv(fn) {0}
#define FN_conv_transpose(fn) {0}
#define FN_call_axis(fn) {0}
#define FN_call_where(fn) {0}
#define FN_call_pair(fn) {0}

static const builder_t builders[RG_OP_COUNT] = {
#define RG_OP(name, form, domain, weight, style) FN_##form(dt_##name),
#include "test/conform/graphs/random_ops.def"
};

static uint32_t dims_of(dt_trace_t *t, dt_value_t x, dt_sym_t *out) {
  uint32_t rank = dt_value_rank(t, x);
  for (uint32_t d = 0; d < rank && d < DT_MAX_RANK; d++)
    out[d] = dt_dim(t, x, (int32_t)d);
  return rank;
}

static dt_value_t regroup(dt_trace_t *t, const rg_node_t *node, dt_value_t x) {
  int32_t axes[RG_RANK];
  dt_sym_t from[DT_MAX_RANK], sizes[DT_MAX_RANK];
  uint32_t n = 0, rank = 0;
  (void)dims_of(t, x, from);
  for (uint32_t k = 0; k < node->n_numbers; k++) {
    if (node->numbers[k] < 0)
      continue;
    bool first = k == 0 || node->numbers[k - 1] < 0;
    dt_sym_t dim = from[node->numbers[k]];
    axes[n++] = node->numbers[k];
    if (first)
      sizes[rank++] = dim;
    else
      sizes[rank - 1] = dt_sym_mul(t, sizes[rank - 1], dim);
  }
  return dt_reshape(t, dt_permute(t, x, axes), rank, sizes);
}

static dt_value_t split(dt_trace_t *t, const rg_node_t *node, dt_value_t x) {
  dt_sym_t from[DT_MAX_RANK], sizes[DT_MAX_RANK];
  uint32_t rank = dims_of(t, x, from), axis = (uint32_t)node->numbers[0];
  dt_sym_t factor = dt_sym_const(t, node->numbers[1]);
  dt_sym_t rest = dt_sym_floordiv(t, from[axis], factor);
  for (uint32_t d = 0; d < rank; d++)
    sizes[d < axis ? d : d + 1] = from[d];
  sizes[axis] = node->numbers[2] ? factor : rest;
  sizes[axis + 1] = node->numbers[2] ? rest : factor;
  return dt_reshape(t, x, rank + 1, sizes);
}

static dt_value_t flatten(dt_trace_t *t, const rg_node_t *node, dt_value_t x) {
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = dims_of(t, x, sizes), first = (uint32_t)node->numbers[0];
  uint32_t gone = (uint32_t)node->numbers[1] - first;
  sizes[first] = dt_sym_const(t, -1);
  for (uint32_t d = first + 1; d + gone < rank; d++)
    sizes[d] = sizes[d + gone];
  return dt_reshape(t, x, rank - gone, sizes);
}

static dt_value_t expand(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  dt_sym_t sizes[DT_MAX_RANK + 1];
  bool leading = node->numbers[0] < 0;
  uint32_t rank = dims_of(t, in[0], sizes + leading);
  sizes[leading ? 0 : node->numbers[0]] =
      node->n_args == 2 ? dt_dim(t, in[1], node->numbers[1]) : dt_sym_const(t, node->numbers[1]);
  return dt_expand(t, in[0], rank + leading, sizes);
}

static dt_value_t slice(dt_trace_t *t, const rg_node_t *node, dt_value_t x) {
  int32_t axis = node->numbers[0];
  int64_t number = node->numbers[2], step = 1;
  dt_sym_t dim = dt_dim(t, x, axis), one = dt_sym_const(t, 1), n = dt_sym_const(t, number);
  dt_sym_t start = dt_sym_const(t, 0), size = dim;
  dt_sym_t half = dt_sym_floordiv(t, dim, dt_sym_const(t, 2));
  switch ((rg_slice_t)node->numbers[1]) {
  case RG_SLICE_HALF:
    size = half;
    break;
  case RG_SLICE_REST:
    start = half;
    size = dt_sym_sub(t, dim, half);
    break;
  case RG_SLICE_TAIL:
    start = dt_sym_min(t, n, dim);
    size = dt_sym_sub(t, dim, start);
    break;
  case RG_SLICE_FIRST:
    size = dt_sym_min(t, n, dim);
    break;
  case RG_SLICE_REVERSE:
    start = dt_sym_sub(t, dim, one);
    step = -1;
    break;
  case RG_SLICE_EVERY:
  case RG_SLICE_BACKWARD:
    step = number;
    size = dt_sym_floordiv(t, dt_sym_add(t, dim, dt_sym_const(t, number - 1)), n);
    if (node->numbers[1] == RG_SLICE_BACKWARD) {
      start = dt_sym_sub(t, dim, one);
      step = -number;
    }
    break;
  case RG_SLICE_NONE:
    size = start;
    break;
  case RG_SLICE_LITERAL:
    start = n;
    size = dt_sym_const(t, node->numbers[3]);
    step = node->numbers[4];
    break;
  case RG_SLICE_COUNT:
    break;
  }
  return dt_slice(t, x, axis, start, size, step);
}

static dt_value_t pad(dt_trace_t *t, const rg_node_t *node, dt_value_t x) {
  dt_sym_t low[RG_RANK + 1], high[RG_RANK + 1];
  for (uint32_t d = 0; 2 * d < node->n_numbers; d++) {
    low[d] = dt_sym_const(t, node->numbers[2 * d]);
    high[d] = dt_sym_const(t, node->numbers[2 * d + 1]);
  }
  return dt_pad(t, x, low, high, node->value);
}

static dt_value_t gather(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in) {
  dt_value_t indices = in[1];
  if (!node->numbers[1]) {
    dt_value_t size = dt_size_value(t, dt_dim(t, in[0], node->numbers[0]));
    if (dt_value_dtype(t, indices) == DT_I32)
      size = dt_cast(t, size, DT_I32);
    indices = dt_fmod(t, indices, size);
  }
  return dt_gather(t, in[0], indices, node->numbers[0]);
}

static dt_value_t branch(dt_trace_t *t, const rg_node_t *node, dt_value_t x) {
  dt_sym_t small = dt_sym_lt(t, dt_dim(t, x, node->numbers[0]), dt_sym_const(t, node->numbers[1]));
  return dt_sym_true(t, small) ? dt_neg(t, x) : dt_add(t, x, x);
}

static dt_value_t build(dt_trace_t *t, const rg_replay_t *replay, uint32_t i,
                        const dt_value_t *in) {
  const rg_node_t *node = &replay->program->nodes[i];
  const builder_t *fn = &builders[node->op];
  dt_sym_t sizes[DT_MAX_RANK];
  char name[16];
  if (rg_form_is_data(rg_ops[node->op].form))
    return rg_data_form(rg_ops[node->op].form)->build(t, node, in);
  switch (rg_ops[node->op].form) {
  case RG_FORM_input:
    break; // taken from the arguments
  case RG_FORM_constant:
    (void)snprintf(name, sizeof(name), "c%u", i);
    return dt_constant(t, name, replay->constants[i]);
  case RG_FORM_scalar:
    return dt_scalar(t, node->dtype, node->value);
  case RG_FORM_size:
    return dt_size_value(t, dt_dim(t, in[0], node->numbers[0]));
  case RG_FORM_iota:
    return dt_iota(t, node->dtype, dims_of(t, in[0], sizes), sizes, node->numbers[0]);
  case RG_FORM_unary:
  case RG_FORM_test:
    return fn->unary(t, in[0]);
  case RG_FORM_cast:
    return dt_cast(t, in[0], node->dtype);
  case RG_FORM_binary:
  case RG_FORM_compare:
  case RG_FORM_matmul:
    return fn->binary(t, in[0], in[1]);
  case RG_FORM_where:
    return dt_where(t, in[0], in[1], in[2]);
  case RG_FORM_ternary:
    return fn->ternary(t, in[0], in[1], in[2]);
  case RG_FORM_permute:
    return dt_permute(t, in[0], node->numbers);
  case RG_FORM_transpose:
    return dt_transpose(t, in[0], node->numbers[0], node->numbers[1]);
  case RG_FORM_unsqueeze:
    return dt_unsqueeze(t, in[0], node->numbers[0]);
  case RG_FORM_squeeze:
    return dt_squeeze(t, in[0], node->numbers[0]);
  case RG_FORM_regroup:
    return regroup(t, node, in[0]);
  case RG_FORM_split:
    return split(t, node, in[0]);
  case RG_FORM_flatten:
    return flatten(t, node, in[0]);
  case RG_FORM_reshape_like:
    return dt_reshape(t, in[0], dims_of(t, in[1], sizes), sizes);
  case RG_FORM_expand:
    return expand(t, node, in);
  case RG_FORM_slice:
    return slice(t, node, in[0]);
  case RG_FORM_concat:
    return dt_concat(t, node->n_args, in, node->numbers[0]);
  case RG_FORM_pad:
    return pad(t, node, in[0]);
  case RG_FORM_gather:
    return gather(t, node, in);
  case RG_FORM_reduce:
    return fn->reduce(t, in[0], node->n_numbers - 1, node->numbers + 1, node->numbers[0] != 0);
  case RG_FORM_argreduce:
    return fn->argreduce(t, in[0], node->numbers[0], node->numbers[1] != 0);
  case RG_FORM_along:
    return fn->along(t, in[0], node->numbers[0]);
  case RG_FORM_layer_norm:
    return dt_layer_norm(t, in[0], in[1], in[2], 1e-5);
  case RG_FORM_rms_norm:
    return dt_rms_norm(t, in[0], in[1], 1e-5);
  case RG_FORM_branch:
    return branch(t, node, in[0]);
  default:
    return (dt_value_t){0};
  }
  return (dt_value_t){0};
}

dt_status_t rg_replay(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const rg_replay_t *replay = closure;
  const rg_program_t *p = replay->program;
  rg_calls_made(replay->calls);
  dt_value_t values[RG_NODES];
  uint32_t next = 0;
  for (uint32_t i = 0; i < p->n_nodes && !dt_trace_status(t); i++) {
    dt_value_t args[RG_ARGS] = {{0}};
    for (uint32_t k = 0; k < p->nodes[i].n_args; k++)
      args[k] = values[p->nodes[i].args[k]];
    (void)dt_trace_at(t, rg_ops[p->nodes[i].op].name, (int)i);
    values[i] = p->nodes[i].op == RG_input ? in[next++] : build(t, replay, i, args);
  }
  if (dt_trace_status(t))
    return NULL;
  for (uint32_t k = 0; k < p->n_outputs; k++)
    out[k] = values[p->outputs[k]];
  for (uint32_t k = 0; k < p->n_updates; k++)
    dt_update(t, values[p->updates[k].input], values[p->updates[k].value]);
  return NULL;
}

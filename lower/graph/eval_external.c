// SPDX-License-Identifier: Apache-2.0
// Calls of users' ops, by their own kernels, on operands rounded to their dtypes. Where an operand
// may be off, nothing bounds the results: a kernel may do anything with it.
#include "lower/graph/eval_private.h"

#include "lower/graph/external.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

// One call over values in memory.
typedef struct call_t {
  const dt_eval_t *e;
  const dt_graph_external_t *external;
  uint32_t n_inputs;
  bool exact;              // all operands are
  dt_op_tensor_t *tensors; // inputs, then results
  dt_eval_value_t *values; // of the results
} call_t;

static dt_status_t make_tensor(const dt_eval_t *e, const dt_eval_value_t *value,
                               dt_op_tensor_t *out) {
  int64_t *numbers = DT_ARENA_ARRAY(e->arena, int64_t, 2 * (size_t)value->rank + 1);
  size_t size = dt_dtype_size(value->dtype);
  char *data = DT_ARENA_ARRAY(e->arena, char, (size_t)value->count *size + 1);
  if (!numbers || !data)
    return DT_NO_MEMORY();
  for (uint32_t d = 0; d < value->rank; d++)
    numbers[d] = value->sizes[d];
  dt__eval_strides(value, numbers + value->rank);
  *out = (dt_op_tensor_t){data, value->dtype, value->rank, numbers, numbers + value->rank};
  return NULL;
}

static dt_status_t take_inputs(call_t *call, const dt_node_t *node) {
  call->exact = true;
  for (uint32_t k = 0; k < call->n_inputs; k++) {
    const dt_eval_value_t *value = dt__eval_in(call->e, node, k);
    size_t size = dt_dtype_size(value->dtype);
    DT_TRY(make_tensor(call->e, value, &call->tensors[k]));
    char *data = call->tensors[k].data;
    for (int64_t i = 0; i < value->count; i++) {
      dt__scalar_store(value->dtype, data + (size_t)i * size, value->data[i]);
      call->exact = call->exact && (!value->bound || value->bound[i] == 0.0);
    }
  }
  return NULL;
}

// The value of a result behind the first: its sizes and room.
static dt_status_t make_value(const dt_eval_t *e, const dt_external_result_t *result,
                              dt_eval_value_t *out) {
  int64_t *left = e->left;
  bool empty = false;
  *out = (dt_eval_value_t){.dtype = result->dtype, .rank = result->rank, .count = 1};
  for (uint32_t d = 0; d < result->rank; d++) {
    DT_TRY(dt__eval_sym(e, result->sizes[d], &out->sizes[d]));
    if (out->sizes[d] < 0 || out->sizes[d] >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_SHAPE, "size %u of a result is %lld", d, (long long)out->sizes[d]);
    empty = empty || out->sizes[d] == 0;
  }
  for (uint32_t d = 0; d < result->rank && !empty; d++)
    if (!dt__mul_i64(out->count, out->sizes[d], &out->count) || out->count > *left)
      return DT_FAIL(DT_E_LIMIT, "a result has more elements than an evaluation may have");
  out->count = empty ? 0 : out->count;
  *left -= out->count;
  out->data = DT_ARENA_ARRAY(e->arena, dt_scalar_t, out->count);
  out->bound = e->bounds ? DT_ARENA_ARRAY(e->arena, double, out->count) : NULL;
  return out->data && (out->bound || !e->bounds) ? NULL : DT_NO_MEMORY();
}

static dt_status_t make_results(call_t *call, const dt_eval_value_t *first) {
  for (uint32_t k = 0; k < call->external->n_results; k++) {
    call->values[k] = *first;
    if (k > 0)
      DT_TRY(make_value(call->e, &call->external->results[k], &call->values[k]));
    DT_TRY(make_tensor(call->e, &call->values[k], &call->tensors[call->n_inputs + k]));
  }
  return NULL;
}

static void read_back(const call_t *call, uint32_t k) {
  const char *data = call->tensors[call->n_inputs + k].data;
  dt_eval_value_t *value = &call->values[k];
  for (int64_t i = 0; i < value->count; i++) {
    value->data[i] = dt__scalar_load(value->dtype, data + (size_t)i * dt_dtype_size(value->dtype));
    if (value->bound)
      value->bound[i] = call->exact ? 0.0 : INFINITY;
  }
}

dt_status_t dt__eval_external(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  const dt_graph_external_t *external = dt__graph_external(e->graph, node);
  call_t call = {.e = e, .external = external, .n_inputs = node->n_inputs};
  int64_t items = 1;
  call.values = DT_ARENA_ARRAY(e->arena, dt_eval_value_t, external->n_results + 1);
  call.tensors = DT_ARENA_ARRAY(e->arena, dt_op_tensor_t, call.n_inputs + external->n_results + 1);
  if (!call.values || !call.tensors)
    return DT_NO_MEMORY();
  DT_TRY(take_inputs(&call, node));
  DT_TRY(make_results(&call, out));
  DT_TRY(dt__eval_sym(e, external->items, &items));
  DT_TRY(dt__external_invoke(external, call.tensors, call.n_inputs, 0, items < 1 ? 1 : items));
  for (uint32_t k = 0; k < external->n_results; k++)
    read_back(&call, k);
  e->externals[node->attrs->index] = call.values;
  return NULL;
}

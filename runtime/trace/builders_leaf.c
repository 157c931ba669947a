// SPDX-License-Identifier: Apache-2.0
// Builders of leaves: constants, literals, sizes as values, indices.
#include "runtime/trace/builder.h"

#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"

#include <string.h>

static const dt_value_t none_value = {0};

// ---- Constants ----------------------------------------------------------------------------------
// The identity of a constant through all traces of its function: its name, and a count where two
// names hash alike.
static uint64_t constant_key(const dt_graph_t *graph, const char *name) {
  uint64_t base = dt__hash(name, strlen(name), 0);
  for (uint64_t index = 0;; index++) {
    uint64_t key = dt__hash_mix(base, index);
    bool taken = key == 0;
    for (uint32_t k = 0; !taken && k < graph->constants.len; k++)
      taken = graph->constants.items[k].key == key;
    if (!taken)
      return key;
  }
}

static dt_value_t add_constant(dt_trace_t *trace, const char *name, dt_tensor_t *tensor) {
  dt_arena_t *arena = &trace->traced->arena;
  dt_graph_constant_t constant = {.name = name,
                                  .dtype = tensor->dtype,
                                  .rank = tensor->rank,
                                  .data = tensor->data,
                                  .key = constant_key(trace->graph, name)};
  memcpy(constant.sizes, tensor->sizes, sizeof(constant.sizes));
  // Room first: nothing may fail between the graph's entry and the share in the tensor.
  if (!DT_VEC_RESERVE(arena, &trace->traced->constants) ||
      !DT_VEC_RESERVE(arena, &trace->constant_values)) {
    (void)dt__trace_take(trace, DT_NO_MEMORY());
    return none_value;
  }
  dt_node_id_t id = {0};
  if (!dt__trace_take(trace, dt__graph_add_constant(trace->graph, &constant, &trace->origin, &id)))
    return none_value;
  dt_value_t value = dt__trace_value(trace, id);
  dt_tensor_retain(tensor);
  trace->traced->constants.items[trace->traced->constants.len++] = tensor;
  trace->constant_values.items[trace->constant_values.len++] = value;
  return value;
}

void dt_constant_taken(dt_trace_t *trace, const char *name) {
  if (!dt__trace_begin(trace, "constant_taken"))
    return;
  if (!name || !name[0]) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "name: %s; expected that of a constant",
                  name ? "empty" : "NULL");
    return;
  }
  dt_traced_t *traced = trace->traced;
  for (uint32_t k = 0; k < traced->taken.len; k++)
    if (strcmp(traced->taken.items[k], name) == 0)
      return;
  const char *copy = dt__arena_strdup(&traced->arena, name);
  if (!copy || !DT_VEC_PUSH(&traced->arena, &traced->taken, copy))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
}

dt_value_t dt_constant(dt_trace_t *trace, const char *name, dt_tensor_t *tensor) {
  if (!dt__trace_begin(trace, "constant"))
    return none_value;
  if (!name || !name[0]) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "name: %s; a constant needs a name of its own",
                  name ? "empty" : "NULL");
    return none_value;
  }
  if (!tensor) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "\"%s\": tensor is NULL", name);
    return none_value;
  }
  if (!dt__tensor_is_contiguous(tensor)) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "\"%s\": the tensor is strided; expected contiguous", name);
    return none_value;
  }
  if (tensor->device != DT_CPU) {
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "\"%s\": the tensor is not in host memory", name);
    return none_value;
  }
  for (uint32_t k = 0; k < trace->graph->constants.len; k++) {
    if (strcmp(trace->graph->constants.items[k].name, name) != 0)
      continue;
    if (trace->traced->constants.items[k] == tensor)
      return trace->constant_values.items[k];
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                  "\"%s\" names another tensor already; names of constants are unique", name);
    return none_value;
  }
  return add_constant(trace, name, tensor);
}

// ---- Literals, sizes, indices -------------------------------------------------------------------
dt_value_t dt_scalar(dt_trace_t *trace, dt_dtype_t dtype, double value) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  if (!dt__trace_begin(trace, "scalar") || !dt__trace_literal(trace, dtype, value, &attrs))
    return none_value;
  return dt__trace_add(trace, DT_OP_scalar, NULL, 0, &attrs);
}

dt_value_t dt_size_value(dt_trace_t *trace, dt_sym_t a) {
  dt_attrs_t attrs = {0};
  if (!dt__trace_begin(trace, "size_value") || !dt__trace_sym(trace, &a, "the size"))
    return none_value;
  attrs.n_syms = 1;
  attrs.syms[0] = a;
  return dt__trace_add(trace, DT_OP_size, NULL, 0, &attrs);
}

dt_value_t dt_iota(dt_trace_t *trace, dt_dtype_t dtype, uint32_t rank, const dt_sym_t *sizes,
                   int32_t axis) {
  dt_attrs_t attrs = {0};
  uint32_t dim = 0;
  if (!dt__trace_begin(trace, "iota") ||
      !dt__trace_syms(trace, rank, sizes, DT_MAX_RANK, "sizes", attrs.syms) ||
      !dt__trace_axis(trace, axis, rank, &dim))
    return none_value;
  if (!dt__dtype_is_valid(dtype)) {
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "%d is no dtype", (int)dtype);
    return none_value;
  }
  attrs.dtype = dtype;
  attrs.n_syms = rank;
  attrs.n_axes = 1;
  attrs.axes[0] = (int32_t)dim;
  return dt__trace_add(trace, DT_OP_iota, NULL, 0, &attrs);
}

// SPDX-License-Identifier: Apache-2.0
// How operators read the inputs of their nodes and set the outputs.
#include "frontends/onnx/import/walk.h"

#include <stdarg.h>
#include <stdio.h>

static const dt_value_t none_value = {0};

// ---- Failures, memory -------------------------------------------------------------------------------
bool dt__imp_failed(const dt_imp_node_t *n) { return dt_trace_status(n->t) != NULL; }

void dt__imp_fail(dt_imp_node_t *n, dt_code_t code, const char *fmt, ...) {
  char message[512];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(message, sizeof(message), fmt, args);
  va_end(args);
  dt_trace_fail(n->t, code, message);
}

void *dt__imp_alloc(dt_imp_node_t *n, size_t count, size_t bytes) {
  size_t all = 0;
  void *made =
      dt__mul_size(count ? count : 1, bytes, &all) ? dt__arena_alloc(&n->imp->arena, all) : NULL;
  if (!made)
    dt__imp_fail(n, DT_E_NO_MEMORY, "out of memory");
  return made;
}

// ---- Tensors ----------------------------------------------------------------------------------------
static bool is_alive(const dt_imp_t *imp, const dt_imp_val_t *value) {
  if (!value->tensor.id)
    return false;
  for (uint32_t k = 0; k < imp->scopes.len; k++)
    if (imp->scopes.items[k] == value->scope)
      return true;
  return false;
}

// A tensor of one element is a literal: nothing to load, and rules fold it.
static dt_value_t literal(dt_imp_node_t *n, const dt_imp_constant_t *constant) {
  const dt_imp_val_t value = {.data = constant->tensor};
  const dt_imp_known_t *known = dt__imp_val_known(n, &value);
  return known ? dt__imp_known_tensor(n, known) : none_value;
}

static dt_value_t constant(dt_imp_node_t *n, const dt_onnx_tensor_t *tensor) {
  const dt_imp_constant_t *found = dt__imp_find_constant(n->imp->model, tensor);
  if (!found) {
    dt__imp_fail(n, DT_E_UNSUPPORTED, "a constant of an element type that is not supported");
    return none_value;
  }
  dt_value_t made = tensor->elements == 1 ? literal(n, found) : none_value;
  return made.id ? made : dt_constant(n->t, found->name, found->data);
}

dt_value_t dt__imp_val_tensor(dt_imp_node_t *n, const dt_imp_val_t *value) {
  if (!value || value->list) {
    dt__imp_fail(n, DT_E_UNSUPPORTED,
                 value ? "a sequence or optional stands where a tensor must"
                       : "a value that is needed is left out");
    return none_value;
  }
  if (is_alive(n->imp, value))
    return value->tensor;
  // Values never change but for this: the tensor that was made of them last.
  dt_imp_val_t *cached = (dt_imp_val_t *)value;
  cached->tensor = value->known  ? dt__imp_known_tensor(n, value->known)
                   : value->data ? constant(n, value->data)
                                 : none_value;
  cached->scope = n->imp->scopes.items[n->imp->scopes.len - 1];
  if (!cached->tensor.id)
    dt__imp_fail(n, DT_E_UNSUPPORTED, "a value of a branch or a loop is read outside of it");
  return cached->tensor;
}

// ---- Inputs -----------------------------------------------------------------------------------------
static uint32_t trimmed(const dt_onnx_names_t *names) {
  uint32_t len = names->len;
  while (len > 0 && names->items[len - 1].id == 0)
    len--;
  return len;
}

uint32_t dt__imp_n_in(const dt_imp_node_t *n) { return trimmed(&n->node->input); }
uint32_t dt__imp_n_out(const dt_imp_node_t *n) { return trimmed(&n->node->output); }

const dt_imp_val_t *dt__imp_val(dt_imp_node_t *n, uint32_t k) {
  if (k >= n->node->input.len || n->node->input.items[k].id == 0)
    return NULL;
  return n->imp->values[n->node->input.items[k].id];
}

bool dt__imp_has(const dt_imp_node_t *n, uint32_t k) {
  // A caller of a function may have left out what the node passes on.
  return k < n->node->input.len && n->node->input.items[k].id != 0 &&
         (!n->t || n->imp->values[n->node->input.items[k].id]);
}

bool dt__imp_wants(const dt_imp_node_t *n, uint32_t k) {
  return k < n->node->output.len && n->node->output.items[k].id != 0;
}

dt_value_t dt__imp_in(dt_imp_node_t *n, uint32_t k) {
  if (!dt__imp_has(n, k)) {
    dt__imp_fail(n, DT_E_FORMAT, "input %u is missing", k);
    return none_value;
  }
  return dt__imp_val_tensor(n, dt__imp_val(n, k));
}

dt_value_t dt__imp_weights(dt_imp_node_t *n, uint32_t k) {
  dt_value_t w = dt__imp_in(n, k);
  dt_dtype_t to = n->imp->model->weights;
  const dt_imp_val_t *value = dt__imp_val(n, k);
  if (to == DT_DTYPE_NONE || !value || !value->data || value->data->dtype->dtype != DT_F32 ||
      value->data->dims.len < 2)
    return w;
  return dt_cast(n->t, dt_cast(n->t, w, to), DT_F32);
}

uint32_t dt__imp_rank(dt_imp_node_t *n, uint32_t k) {
  const dt_imp_val_t *value = dt__imp_val(n, k);
  if (value && value->known)
    return value->known->rank;
  if (value && value->data)
    return value->data->dims.len;
  dt_value_t in = dt__imp_in(n, k);
  return dt__imp_failed(n) ? 0 : dt_value_rank(n->t, in);
}

dt_dtype_t dt__imp_dtype(dt_imp_node_t *n, uint32_t k) {
  const dt_imp_val_t *value = dt__imp_val(n, k);
  if (value && value->known)
    return value->known->dtype;
  if (value && value->data)
    return value->data->dtype->dtype;
  dt_value_t in = dt__imp_in(n, k);
  return dt__imp_failed(n) ? DT_DTYPE_NONE : dt_value_dtype(n->t, in);
}

const dt_imp_list_t *dt__imp_list(dt_imp_node_t *n, uint32_t k) {
  const dt_imp_val_t *value = dt__imp_val(n, k);
  return value ? value->list : NULL;
}

// ---- Outputs ----------------------------------------------------------------------------------------
void dt__imp_out_val(dt_imp_node_t *n, uint32_t k, const dt_imp_val_t *value) {
  if (value && dt__imp_wants(n, k) && !dt__imp_failed(n))
    n->imp->values[n->node->output.items[k].id] = (dt_imp_val_t *)value;
}

const dt_imp_val_t *dt__imp_val_of(dt_imp_node_t *n, dt_value_t tensor) {
  dt_imp_val_t *value = tensor.id ? dt__imp_new_val(n->imp) : NULL;
  if (value)
    value->tensor = tensor;
  return value;
}

void dt__imp_out(dt_imp_node_t *n, uint32_t k, dt_value_t tensor) {
  dt__imp_out_val(n, k, dt__imp_val_of(n, tensor));
}

void dt__imp_out_known(dt_imp_node_t *n, uint32_t k, const dt_imp_known_t *known) {
  dt_imp_val_t *value = known ? dt__imp_new_val(n->imp) : NULL;
  if (value)
    value->known = known;
  dt__imp_out_val(n, k, value);
}

void dt__imp_out_list(dt_imp_node_t *n, uint32_t k, uint32_t len, const dt_imp_val_t *const *items,
                      bool optional) {
  dt_imp_val_t *value = dt__imp_new_val(n->imp);
  dt_imp_list_t *list = DT_IMP_ARRAY(n, dt_imp_list_t, 1);
  const dt_imp_val_t **copied = DT_IMP_ARRAY(n, const dt_imp_val_t *, len);
  if (!value || !list || !copied)
    return;
  for (uint32_t i = 0; i < len; i++)
    copied[i] = items[i];
  *list = (dt_imp_list_t){len, copied, optional};
  value->list = list;
  dt__imp_out_val(n, k, value);
}

// ---- Numbers ----------------------------------------------------------------------------------------
const dt_imp_known_t *dt__imp_known(dt_imp_node_t *n, uint32_t k) {
  const dt_imp_val_t *value = dt__imp_val(n, k);
  return value ? dt__imp_val_known(n, value) : NULL;
}

static bool is_integral(dt_dtype_t dtype) { return dtype >= DT_BOOL && dtype <= DT_U64; }

// Each is a size of its own, and what is proved of their sums grows with its third power.
#define MOST_READ 128

// Reads each element of a vector.
static bool read_elements(dt_imp_node_t *n, uint32_t k, dt_imp_syms_t *out) {
  dt_value_t in = dt__imp_in(n, k);
  uint32_t rank = dt__imp_rank(n, k);
  if (rank > 1)
    dt__imp_fail(n, DT_E_SHAPE, "input %u has rank %u; expected 0 or 1", k, rank);
  int64_t len = rank == 1 ? dt_sym_int(n->t, dt_dim(n->t, in, 0)) : 1;
  if (len > MOST_READ)
    dt__imp_fail(n, DT_E_LIMIT,
                 "input %u has %lld elements; at most %d that data decide can be used as sizes", k,
                 (long long)len, MOST_READ);
  dt_sym_t *items = dt__imp_failed(n) ? NULL : DT_IMP_ARRAY(n, dt_sym_t, (size_t)len);
  for (int64_t i = 0; items && i < len; i++)
    items[i] = dt_item(
        n->t,
        rank == 0 ? in : dt_slice(n->t, in, 0, dt_sym_const(n->t, i), dt_sym_const(n->t, 1), 1));
  *out = (dt_imp_syms_t){items ? (uint32_t)len : 0, items};
  return !dt__imp_failed(n);
}

bool dt__imp_syms(dt_imp_node_t *n, uint32_t k, dt_imp_syms_t *out) {
  *out = (dt_imp_syms_t){0};
  const dt_imp_known_t *known = dt__imp_known(n, k);
  if (!is_integral(dt__imp_dtype(n, k))) {
    dt__imp_fail(n, DT_E_DTYPE, "input %u is %s; expected integers", k,
                 dt_dtype_name(dt__imp_dtype(n, k)));
    return false;
  }
  if (!known)
    return read_elements(n, k, out);
  dt_sym_t *items = DT_IMP_ARRAY(n, dt_sym_t, known->n);
  for (uint32_t i = 0; items && i < known->n; i++)
    items[i] = known->items[i].sym;
  *out = (dt_imp_syms_t){items ? known->n : 0, items};
  return items != NULL;
}

dt_sym_t dt__imp_sym(dt_imp_node_t *n, uint32_t k, int64_t otherwise) {
  dt_imp_syms_t syms;
  if (!dt__imp_has(n, k))
    return dt_sym_const(n->t, otherwise);
  if (dt__imp_syms(n, k, &syms) && syms.len == 1)
    return syms.items[0];
  dt__imp_fail(n, DT_E_SHAPE, "input %u has %u elements; expected one", k, syms.len);
  return (dt_sym_t){0};
}

bool dt__imp_ints(dt_imp_node_t *n, uint32_t k, dt_imp_ints_t *out) {
  dt_imp_syms_t syms;
  *out = (dt_imp_ints_t){0};
  if (!dt__imp_syms(n, k, &syms))
    return false;
  int64_t *items = DT_IMP_ARRAY(n, int64_t, syms.len);
  for (uint32_t i = 0; items && i < syms.len; i++)
    items[i] = dt_sym_int(n->t, syms.items[i]);
  if (dt__imp_failed(n))
    return false;
  *out = (dt_imp_ints_t){syms.len, items};
  return true;
}

bool dt__imp_ints_of(dt_imp_node_t *n, const char *attr, uint32_t k, dt_imp_ints_t *out,
                     bool *out_given) {
  *out_given = dt__imp_attr_ints(n, attr, out) || dt__imp_has(n, k);
  return dt__imp_has_attr(n, attr) || !*out_given ? !dt__imp_failed(n) : dt__imp_ints(n, k, out);
}

bool dt__imp_syms_of(dt_imp_node_t *n, const char *attr, uint32_t k, dt_imp_syms_t *out,
                     bool *out_given) {
  dt_imp_ints_t ints;
  *out = (dt_imp_syms_t){0};
  if (!dt__imp_attr_ints(n, attr, &ints)) {
    *out_given = dt__imp_has(n, k);
    return *out_given ? dt__imp_syms(n, k, out) : !dt__imp_failed(n);
  }
  dt_sym_t *items = DT_IMP_ARRAY(n, dt_sym_t, ints.len);
  for (uint32_t i = 0; items && i < ints.len; i++)
    items[i] = dt_sym_const(n->t, ints.items[i]);
  *out = (dt_imp_syms_t){items ? ints.len : 0, items};
  *out_given = true;
  return items != NULL;
}

bool dt__imp_axis(dt_imp_node_t *n, int64_t axis, uint32_t rank, uint32_t *out) {
  int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
  *out = 0;
  if (at < 0 || at >= (int64_t)rank) {
    dt__imp_fail(n, DT_E_SHAPE, "axis %lld of a value of rank %u", (long long)axis, rank);
    return false;
  }
  *out = (uint32_t)at;
  return !dt__imp_failed(n);
}

dt_sym_t dt__imp_size(dt_imp_node_t *n, uint32_t input, uint32_t k) {
  const dt_imp_val_t *value = dt__imp_val(n, input);
  if (value && value->known && k < value->known->rank)
    return dt_sym_const(n->t, value->known->sizes[k]);
  if (value && value->data && k < value->data->dims.len)
    return dt_sym_const(n->t, value->data->dims.items[k]);
  return dt_dim(n->t, dt__imp_in(n, input), (int32_t)k);
}

void dt__imp_sizes(dt_imp_node_t *n, dt_value_t x, dt_sym_t *out) {
  uint32_t rank = dt_value_rank(n->t, x);
  for (uint32_t k = 0; k < rank; k++)
    out[k] = dt_dim(n->t, x, (int32_t)k);
}

bool dt__imp_reals(dt_imp_node_t *n, uint32_t k, dt_imp_reals_t *out) {
  const dt_imp_known_t *known = dt__imp_known(n, k);
  *out = (dt_imp_reals_t){0};
  if (!known || is_integral(known->dtype))
    return false;
  double *items = DT_IMP_ARRAY(n, double, known->n);
  for (uint32_t i = 0; items && i < known->n; i++) {
    if (known->items[i].sym.id)
      return false;
    items[i] = known->items[i].real;
  }
  *out = (dt_imp_reals_t){known->n, items};
  return items != NULL;
}

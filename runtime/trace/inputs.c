// SPDX-License-Identifier: Apache-2.0
// A function's declared inputs: whether the declarations make sense, whether arguments fit them,
// and what they become in the graph (symbols, literals, layouts).
#include "runtime/trace/capture.h"

#include "runtime/base/dtype.h"

#include <stdio.h>
#include <string.h>

// ---- Naming -------------------------------------------------------------------------------------
typedef struct label_t {
  char text[160];
} label_t;

// `argument 0 "ids"`
static label_t label(const dt_trace_request_t *request, uint32_t k) {
  label_t out;
  const char *name = request->inputs[k].name;
  if (name && name[0])
    (void)snprintf(out.text, sizeof(out.text), "argument %u \"%.100s\"", k, name);
  else
    (void)snprintf(out.text, sizeof(out.text), "argument %u", k);
  return out;
}

// `argument 0 "ids", dim 1 "seq"`
static label_t dim_label(const dt_trace_request_t *request, uint32_t k, uint32_t dim) {
  label_t out = label(request, k);
  const dt_dim_decl_t *dims = request->inputs[k].dims;
  const char *name = dims ? dims[dim].name : NULL;
  size_t len = strlen(out.text);
  if (name && name[0])
    (void)snprintf(out.text + len, sizeof(out.text) - len, ", dim %u \"%.24s\"", dim, name);
  else
    (void)snprintf(out.text + len, sizeof(out.text) - len, ", dim %u", dim);
  return out;
}

// ---- Declarations -------------------------------------------------------------------------------
static const dt_dim_decl_t *dim_of(const dt_trace_request_t *request, uint32_t k, uint32_t dim) {
  static const dt_dim_decl_t any = {0};
  return request->inputs[k].dims ? &request->inputs[k].dims[dim] : &any;
}

static bool is_named(const dt_dim_decl_t *dim) { return dim->name && dim->name[0]; }

// What one dim's declaration allows.
static dt_range_t range_of(const dt_dim_decl_t *dim) {
  if (dim->is_static)
    return (dt_range_t){dim->value, dim->value};
  return (dt_range_t){dim->min, dim->max ? dim->max : DT_SIZE_LIMIT - 1};
}

typedef struct dim_at_t {
  uint32_t input, dim;
} dim_at_t;

// The first dim of the same name; the dim itself where it has none.
static dim_at_t first_of_name(const dt_trace_request_t *request, uint32_t input, uint32_t dim) {
  const dt_dim_decl_t *self = dim_of(request, input, dim);
  for (uint32_t k = 0; is_named(self) && k <= input; k++) {
    for (uint32_t d = 0; d < request->inputs[k].rank; d++) {
      const dt_dim_decl_t *other = dim_of(request, k, d);
      if (is_named(other) && strcmp(other->name, self->name) == 0)
        return (dim_at_t){k, d};
    }
  }
  return (dim_at_t){input, dim};
}

// What all declarations of the dim's name allow together. `out_static`: one says a size.
static dt_range_t joint_range(const dt_trace_request_t *request, uint32_t input, uint32_t dim,
                              bool *out_static) {
  const dt_dim_decl_t *self = dim_of(request, input, dim);
  dt_range_t range = range_of(self);
  *out_static = self->is_static;
  for (uint32_t k = 0; is_named(self) && k < request->n_inputs; k++) {
    for (uint32_t d = 0; d < request->inputs[k].rank; d++) {
      const dt_dim_decl_t *other = dim_of(request, k, d);
      if (!is_named(other) || strcmp(other->name, self->name) != 0)
        continue;
      dt_range_t more = range_of(other);
      range.lo = more.lo > range.lo ? more.lo : range.lo;
      range.hi = more.hi < range.hi ? more.hi : range.hi;
      *out_static |= other->is_static;
    }
  }
  return range;
}

static dt_status_t check_dim(const dt_trace_request_t *request, uint32_t k, uint32_t d) {
  const dt_dim_decl_t *dim = dim_of(request, k, d);
  label_t who = dim_label(request, k, d);
  if (dim->is_static && (dim->value < 0 || dim->value >= DT_SIZE_LIMIT))
    return DT_FAIL(DT_E_ARGUMENT, "%s: static size %lld; expected 0 to %lld", who.text,
                   (long long)dim->value, (long long)DT_SIZE_LIMIT - 1);
  if (!dim->is_static && (dim->min < 0 || dim->max < 0 || dim->max >= DT_SIZE_LIMIT))
    return DT_FAIL(DT_E_ARGUMENT, "%s: min %lld, max %lld; expected 0 to %lld", who.text,
                   (long long)dim->min, (long long)dim->max, (long long)DT_SIZE_LIMIT - 1);
  if (!dim->is_static && dim->max && dim->max < dim->min)
    return DT_FAIL(DT_E_ARGUMENT, "%s: max %lld is less than min %lld", who.text,
                   (long long)dim->max, (long long)dim->min);
  return NULL;
}

static dt_status_t check_declared(const dt_trace_request_t *request) {
  if (!request->program)
    return DT_FAIL(DT_E_ARGUMENT, "program: NULL; expected a function to trace");
  if (request->n_inputs && !request->inputs)
    return DT_FAIL(DT_E_ARGUMENT, "inputs: NULL; expected %u declarations", request->n_inputs);
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    const dt_input_decl_t *input = &request->inputs[k];
    if (!dt__dtype_is_valid(input->dtype))
      return DT_FAIL(DT_E_DTYPE, "%s: declared dtype %d is none", label(request, k).text,
                     (int)input->dtype);
    if (input->rank > DT_MAX_RANK)
      return DT_FAIL(DT_E_LIMIT, "%s: declared rank %u; the most is %d", label(request, k).text,
                     input->rank, DT_MAX_RANK);
    for (uint32_t d = 0; d < input->rank; d++)
      DT_TRY(check_dim(request, k, d));
  }
  // Ranges of one name are joined only once each is known to make sense.
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    for (uint32_t d = 0; d < request->inputs[k].rank; d++) {
      bool is_static = false;
      dt_range_t range = joint_range(request, k, d, &is_static);
      if (range.lo > range.hi)
        return DT_FAIL(DT_E_ARGUMENT, "%s: no size satisfies all declarations of this name",
                       dim_label(request, k, d).text);
    }
  }
  return NULL;
}

// The function's name in front of a failure.
static dt_status_t in_function(const dt_trace_request_t *request, dt_status_t status) {
  if (!request->name || !request->name[0])
    return status;
  return dt__status_annotate(status, "%s", request->name);
}

dt_status_t dt__trace_check_declarations(const dt_trace_request_t *request) {
  return in_function(request, check_declared(request));
}

// ---- Arguments ----------------------------------------------------------------------------------
static dt_status_t check_size(const dt_trace_request_t *request, uint32_t k, uint32_t d) {
  const dt_dim_decl_t *dim = dim_of(request, k, d);
  int64_t size = request->example[k]->sizes[d];
  dt_range_t range = range_of(dim);
  if (dim->is_static && size != dim->value)
    return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected %lld", dim_label(request, k, d).text,
                   (long long)size, (long long)dim->value);
  if (size < range.lo)
    return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected at least %lld",
                   dim_label(request, k, d).text, (long long)size, (long long)range.lo);
  if (size > range.hi)
    return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected at most %lld",
                   dim_label(request, k, d).text, (long long)size, (long long)range.hi);
  dim_at_t first = first_of_name(request, k, d);
  int64_t expected = request->example[first.input]->sizes[first.dim];
  if (size != expected)
    return DT_FAIL(DT_E_SHAPE, "%s: size %lld; expected %lld, the size of %s",
                   dim_label(request, k, d).text, (long long)size, (long long)expected,
                   dim_label(request, first.input, first.dim).text);
  return NULL;
}

static dt_status_t check_arguments(const dt_trace_request_t *request) {
  // Headers of all first: sizes of one name are compared across arguments.
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    const dt_tensor_t *tensor = request->example[k];
    const dt_input_decl_t *input = &request->inputs[k];
    if (!tensor)
      return DT_FAIL(DT_E_ARGUMENT, "%s: NULL; expected a tensor", label(request, k).text);
    if (tensor->device != DT_CPU)
      return DT_FAIL(DT_E_UNSUPPORTED, "%s: not in host memory", label(request, k).text);
    if (tensor->dtype != input->dtype)
      return DT_FAIL(DT_E_DTYPE, "%s: dtype %s; expected %s", label(request, k).text,
                     dt_dtype_name(tensor->dtype), dt_dtype_name(input->dtype));
    if (tensor->rank != input->rank)
      return DT_FAIL(DT_E_SHAPE, "%s: rank %u; expected %u", label(request, k).text, tensor->rank,
                     input->rank);
  }
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    for (uint32_t d = 0; d < request->inputs[k].rank; d++)
      DT_TRY(check_size(request, k, d));
  }
  return NULL;
}

dt_status_t dt__trace_check_inputs(const dt_trace_request_t *request) {
  if (!request->example || request->n_inputs == 0)
    return NULL;
  return in_function(request, check_arguments(request));
}

// ---- Symbols and layout -------------------------------------------------------------------------
// "ids.size(1)"
static label_t part_name(const dt_trace_request_t *request, uint32_t k, const char *part,
                         uint32_t dim) {
  label_t out;
  const char *name = request->inputs[k].name;
  if (name && name[0])
    (void)snprintf(out.text, sizeof(out.text), "%.100s.%s(%u)", name, part, dim);
  else
    (void)snprintf(out.text, sizeof(out.text), "argument %u.%s(%u)", k, part, dim);
  return out;
}

static dt_sym_t make_size(dt_trace_t *trace, const dt_trace_request_t *request, uint32_t k,
                          uint32_t d, const dt_graph_input_t *self) {
  const dt_dim_decl_t *dim = dim_of(request, k, d);
  bool is_static = false;
  dt_range_t range = joint_range(request, k, d, &is_static);
  if (is_static)
    return dt__sym_const(trace->env, range.lo);
  dim_at_t first = first_of_name(request, k, d);
  if (first.input < k)
    return trace->graph->inputs.items[first.input].sizes[first.dim];
  if (first.dim < d)
    return self->sizes[first.dim];
  const int64_t *hint = request->example ? &request->example[k]->sizes[d] : NULL;
  label_t name = part_name(request, k, "size", d);
  return dt__sym_new(trace->env, DT_SYMBOL_SIZE, range, hint,
                     is_named(dim) ? dim->name : name.text);
}

static void make_strides(dt_trace_t *trace, const dt_trace_request_t *request, uint32_t k,
                         dt_graph_input_t *input) {
  const dt_tensor_t *example = request->example ? request->example[k] : NULL;
  dt_symenv_t *env = trace->env;
  input->contiguous = !example || dt__tensor_is_contiguous(example);
  dt_sym_t stride = dt__sym_const(env, 1);
  for (uint32_t d = input->rank; d-- > 0;) {
    input->strides[d] = stride;
    if (input->contiguous) {
      stride = dt__sym_mul(env, stride, input->sizes[d]);
    } else if (d + 1 < input->rank || example->strides[d] != 1) {
      label_t name = part_name(request, k, "stride", d);
      input->strides[d] = dt__sym_new(env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX},
                                      &example->strides[d], name.text);
    }
  }
}

dt_status_t dt__trace_declare(dt_trace_t *trace, const dt_trace_request_t *request,
                              dt_value_t *out) {
  for (uint32_t k = 0; k < request->n_inputs; k++) {
    const dt_input_decl_t *decl = &request->inputs[k];
    dt_graph_input_t input = {
        .name = decl->name ? decl->name : "", .dtype = decl->dtype, .rank = decl->rank};
    for (uint32_t d = 0; d < decl->rank; d++)
      input.sizes[d] = make_size(trace, request, k, d, &input);
    make_strides(trace, request, k, &input);
    DT_TRY(dt__symenv_status(trace->env));
    dt_node_id_t id = {0};
    DT_TRY(dt__graph_add_input(trace->graph, &input, &id));
    out[k] = (dt_value_t){id.id};
  }
  return NULL;
}

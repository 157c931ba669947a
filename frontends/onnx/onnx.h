// SPDX-License-Identifier: Apache-2.0
// An open model from inside, and the data of its tensors. For importers: they need no other header.
#ifndef DT_FRONTENDS_ONNX_ONNX_H
#define DT_FRONTENDS_ONNX_ONNX_H

#include "ductile/tensor.h"
#include "frontends/onnx/dtype.h"
#include "frontends/onnx/external.h"
#include "frontends/onnx/model.h"

#include <stdatomic.h>

struct dt_onnx {
  dt_arena_t arena; // all structs
  const char *what; // the file's path, for messages
  dt_onnx_bytes_t bytes;
  dt_onnx_model_t model; // checked
  dt_onnx_externals_t externals;
  dt_onnx_limits_t limits;
  // What callers give and get: which inputs of the graph have no initializer, and all names,
  // terminated.
  uint32_t n_inputs, *inputs;
  const char **input_names, **output_names;
  dt_spec_t *input_specs, *output_specs;
  atomic_uint_fast32_t shares; // the caller's, and one of each function made of it
};

void dt__onnx_retain(dt_onnx_t *file);
// As dt_onnx_close.
void dt__onnx_release(dt_onnx_t *file);
// Sets what callers see of a checked model.
dt_status_t dt__onnx_interface(dt_onnx_t *file) DT_MUST_USE;

// The model's own function; NULL: none.
const dt_onnx_function_t *dt__onnx_find_function(const dt_onnx_model_t *model, dt_onnx_str_t domain,
                                                 dt_onnx_str_t name, dt_onnx_str_t overload);

// Where the elements of a tensor of the model lie as they are in memory, tensor->bytes of them and
// not always aligned; *out is NULL where they stand in a typed field, which only copying reads. Not
// for strings. Loads an external file at the first use. DT_E_IO, DT_E_FORMAT, DT_E_NO_MEMORY,
// DT_E_RANGE (a BOOL other than 0 and 1); what ends the pace, which may be NULL here and below.
// [any]
dt_status_t dt__onnx_tensor_view(dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                 dt_onnx_pace_t *pace, const void **out) DT_MUST_USE;
// What holds the data of a view, and where in the file they begin.
const dt_onnx_bytes_t *dt__onnx_tensor_bytes(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                             const void *data, uint64_t *out_at);
// Copies the elements to `out`, which has room for exactly `bytes` = tensor->bytes. Besides:
// DT_E_RANGE where an item of a typed field is no value of the element type. [any]
dt_status_t dt__onnx_tensor_copy(dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                 dt_onnx_pace_t *pace, void *out, size_t bytes) DT_MUST_USE;
// Whether rows of packed elements do not end where bytes do, so that its data are no tensor's.
bool dt__onnx_rows_split(const dt_onnx_tensor_t *tensor);
// A new contiguous tensor with a copy of the elements. DT_E_UNSUPPORTED where Ductile does not have
// their type. [any]
dt_status_t dt__onnx_tensor_make(dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                 dt_onnx_pace_t *pace, dt_tensor_t **out) DT_MUST_USE;
// The elements of a tensor of strings, tensor->elements of them. [any]
dt_status_t dt__onnx_tensor_strings(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                    dt_onnx_str_t *out) DT_MUST_USE;

// One TensorProto in a file of its own (a test's `.pb`), as `tensor` of *out, without external
// data. As dt_onnx_open; closed with dt_onnx_close.
dt_status_t dt__onnx_open_tensor(const char *path, dt_onnx_t **out,
                                 dt_onnx_tensor_t **out_tensor) DT_MUST_USE;

#endif // DT_FRONTENDS_ONNX_ONNX_H

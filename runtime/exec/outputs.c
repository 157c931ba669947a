// SPDX-License-Identifier: Apache-2.0
// What a function's caller says of its results: taken at any size of entries, checked, copied.
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/function.h"

// ---- Checking -------------------------------------------------------------------------------------

static dt_status_t check_order(const dt_output_decl_t *output) {
  uint32_t seen = 0;
  if (output->rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_LIMIT, "rank %u; expected at most %d", output->rank, DT_MAX_RANK);
  for (uint32_t k = 0; k < output->rank; k++) {
    uint32_t dim = output->order[k];
    if (dim >= output->rank)
      return DT_FAIL(DT_E_ARGUMENT, "order: dim %u of rank %u; expected each of its dims once", dim,
                     output->rank);
    if (seen >> dim & 1)
      return DT_FAIL(DT_E_ARGUMENT, "order: dim %u twice; expected each of %u dims once", dim,
                     output->rank);
    seen |= 1u << dim;
  }
  return NULL;
}

static dt_status_t check_like(const dt_output_decl_t *output,
                              const dt_function_options_t *options) {
  if (output->order || output->rank)
    return DT_FAIL(DT_E_ARGUMENT, "%s and like_input: expected one of them",
                   output->order ? "order" : "rank");
  if (output->like_input > options->n_inputs)
    return DT_FAIL(DT_E_ARGUMENT, "like_input: %u with %u inputs; expected 1 + an input's index",
                   output->like_input, options->n_inputs);
  if (!dt__is_tensor_kind(options->inputs[output->like_input - 1].kind))
    return DT_FAIL(DT_E_ARGUMENT, "like_input: %u is an integer; expected a tensor's",
                   output->like_input);
  return NULL;
}

static dt_status_t check_output(const dt_output_decl_t *output,
                                const dt_function_options_t *options) {
  if (output->like_input)
    return check_like(output, options);
  if (output->order)
    return check_order(output);
  return output->rank
             ? DT_FAIL(DT_E_ARGUMENT, "order: NULL, and rank %u; expected %u dims, or rank 0",
                       output->rank, output->rank)
             : NULL;
}

// ---- Taking ---------------------------------------------------------------------------------------

// The input as it is traced, beside integers that are spread.
static uint32_t traced_input(const dt_function_t *function, uint32_t given) {
  uint32_t k = 0;
  while (dt__input_position(function, k) != given)
    k++;
  return k;
}

static dt_status_t take_output(dt_function_t *function, const dt_function_options_t *options,
                               dt_output_decl_t *own) {
  dt_arena_t *arena = &function->arena;
  DT_TRY(check_output(own, options));
  if (own->like_input)
    own->like_input = 1 + traced_input(function, own->like_input - 1);
  if (own->name && !(own->name = dt__arena_strdup(arena, own->name)))
    return DT_NO_MEMORY();
  if (!own->order)
    return NULL;
  uint32_t *order = DT_ARENA_ARRAY(arena, uint32_t, own->rank + 1);
  if (!order)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < own->rank; k++)
    order[k] = own->order[k];
  own->order = order;
  return NULL;
}

dt_status_t dt__outputs_take(dt_function_t *function, const dt_function_options_t *options) {
  if (!options->outputs)
    return NULL;
  dt_output_decl_t *own = DT_ARENA_ARRAY(&function->arena, dt_output_decl_t, options->n_outputs);
  if (!own)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < options->n_outputs; k++) {
    DT_TRY(DT_ELEMENT_TAKE(dt_output_decl_t, &own[k], options->outputs, options->output_size, k));
    char name[96];
    dt_status_t status = take_output(function, options, &own[k]);
    if (status)
      return dt__status_annotate(status, "%s", dt__output_name(own, k, name, sizeof(name)));
  }
  function->outputs = own;
  return NULL;
}

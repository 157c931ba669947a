// SPDX-License-Identifier: Apache-2.0
// Inputs of kind DT_INPUT_INTEGERS. A call passes one host tensor. Between the call's entry and the
// program each of its elements is an integer or boolean input of its own, since guards, profiles
// and machine code know only single numbers. Here declarations and arguments are spread into
// elements, and the program's values are made of the elements' symbols.
#include "runtime/trace/builder.h"

#include "runtime/trace/declare.h"

#include <stdio.h>
#include <string.h>

static uint32_t count_of(const dt_input_decl_t *input) {
  if (input->kind != DT_INPUT_INTEGERS || input->rank == 0)
    return 1;
  return (uint32_t)input->dims[0].value;
}

// ---- Declarations -------------------------------------------------------------------------------
// "shape[2]"
static const char *element_name(dt_arena_t *arena, const dt_input_decl_t *input, uint32_t position,
                                uint32_t index) {
  char unnamed[32];
  (void)snprintf(unnamed, sizeof(unnamed), "argument%u", position);
  const char *name = input->name && input->name[0] ? input->name : unnamed;
  return input->rank ? dt__arena_printf(arena, "%s[%u]", name, index)
                     : dt__arena_printf(arena, "%s", name);
}

static dt_status_t spread_input(dt_arena_t *arena, const dt_input_decl_t *input, uint32_t position,
                                dt_input_decl_t *out) {
  for (uint32_t i = 0; i < count_of(input); i++) {
    out[i] = *input;
    if (input->kind != DT_INPUT_INTEGERS)
      continue;
    out[i] =
        (dt_input_decl_t){.name = element_name(arena, input, position, i),
                          .dtype = input->dtype,
                          .kind = input->dtype == DT_BOOL ? DT_INPUT_BOOLEAN : DT_INPUT_INTEGER};
    if (!out[i].name)
      return DT_NO_MEMORY();
  }
  return NULL;
}

dt_status_t dt__spread_create(dt_arena_t *arena, uint32_t n, const dt_input_decl_t *given,
                              const dt_spread_t **out) {
  *out = NULL;
  uint32_t total = 0, n_integers = 0;
  for (uint32_t k = 0; k < n; k++) {
    total += count_of(&given[k]);
    n_integers += given[k].kind == DT_INPUT_INTEGERS;
  }
  if (n_integers == 0)
    return NULL;
  dt_spread_t *spread = DT_ARENA_ARRAY(arena, dt_spread_t, 1);
  dt_input_decl_t *inputs = DT_ARENA_ARRAY(arena, dt_input_decl_t, (size_t)total + 1);
  uint32_t *positions = DT_ARENA_ARRAY(arena, uint32_t, (size_t)total + 1);
  if (!spread || !inputs || !positions)
    return DT_NO_MEMORY();
  *spread = (dt_spread_t){
      .n_given = n, .given = given, .n_inputs = total, .inputs = inputs, .positions = positions};
  uint32_t at = 0;
  for (uint32_t k = 0; k < n; k++) {
    DT_TRY(spread_input(arena, &given[k], k, &inputs[at]));
    for (uint32_t i = 0; i < count_of(&given[k]); i++)
      positions[at++] = k;
  }
  *out = spread;
  return NULL;
}

// ---- Arguments ----------------------------------------------------------------------------------
static bool fits(const dt_input_decl_t *input, const dt_tensor_t *tensor) {
  return tensor->device == DT_CPU && tensor->dtype == input->dtype && tensor->rank == input->rank &&
         tensor->count == count_of(input);
}

dt_status_t dt__spread_arguments(const dt_spread_t *spread, dt_device_t place,
                                 dt_tensor_t *const *given, struct dt_tensor *room,
                                 dt_tensor_t **out) {
  for (uint32_t k = 0; k < spread->n_given; k++) {
    const dt_input_decl_t *input = &spread->given[k];
    dt_tensor_t *tensor = given[k];
    if (input->kind != DT_INPUT_INTEGERS) {
      *out++ = tensor;
      continue;
    }
    if (!fits(input, tensor)) {
      const dt_trace_request_t request = {
          .n_inputs = spread->n_given, .inputs = spread->given, .place = place, .example = given};
      DT_TRY(dt__trace_check_input(&request, k));
    }
    int64_t step = tensor->rank ? tensor->strides[0] * (int64_t)dt_dtype_size(tensor->dtype) : 0;
    for (int64_t i = 0; i < tensor->count; i++, room++) {
      *room = (struct dt_tensor){.refs = 1,
                                 .dtype = tensor->dtype,
                                 .device = DT_CPU,
                                 .data = (char *)tensor->data + i * step,
                                 .count = 1,
                                 .contiguous = true};
      *out++ = room;
    }
  }
  return NULL;
}

// ---- The program's values -----------------------------------------------------------------------
static dt_node_id_t add(dt_trace_t *trace, dt_status_t *status, dt_op_t op,
                        const dt_node_id_t *inputs, uint32_t n, const dt_attrs_t *attrs) {
  dt_node_id_t id = {0};
  const dt_origin_t origin = {.op = "argument", .file = ""};
  if (!*status)
    *status = dt__graph_add(trace->graph, op, inputs, n, attrs, &origin, &id);
  return id;
}

// The elements, one after another: i64 of rank 1.
static dt_status_t join(dt_trace_t *trace, const dt_trace_integers_t *own, dt_node_id_t *out) {
  dt_status_t status = NULL;
  dt_attrs_t vector = {.n_syms = 1, .syms = {dt__sym_const(trace->env, own->n ? 1 : 0)}};
  dt_attrs_t axis = {.n_axes = 1, .n_syms = 1, .dtype = DT_I64};
  dt_node_id_t *parts = DT_ARENA_ARRAY(&trace->traced->arena, dt_node_id_t, own->n + 1);
  if (!parts)
    return DT_NO_MEMORY();
  axis.syms[0] = vector.syms[0];
  if (own->n == 0)
    parts[0] = add(trace, &status, DT_OP_iota, NULL, 0, &axis);
  for (uint32_t i = 0; i < own->n; i++) {
    const dt_attrs_t number = {.n_syms = 1, .syms = {own->symbols[i]}};
    dt_node_id_t element = add(trace, &status, DT_OP_size, NULL, 0, &number);
    parts[i] = add(trace, &status, DT_OP_reshape, &element, 1, &vector);
  }
  axis = (dt_attrs_t){.n_axes = 1};
  *out = own->n > 1 ? add(trace, &status, DT_OP_concat, parts, own->n, &axis) : parts[0];
  return status;
}

static dt_status_t gather(dt_trace_t *trace, const dt_input_decl_t *given, uint32_t first,
                          dt_trace_integers_t *own) {
  dt_node_id_t id = {0};
  dt_status_t status = NULL;
  own->n = count_of(given);
  own->symbols = DT_ARENA_ARRAY(&trace->traced->arena, dt_sym_t, own->n + 1);
  own->told = DT_ARENA_ARRAY(&trace->traced->arena, dt_sym_t, own->n + 1);
  if (!own->symbols || !own->told)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < own->n; i++)
    own->symbols[i] = trace->inputs[first + i].value;
  if (given->rank) {
    DT_TRY(join(trace, own, &id));
  } else {
    const dt_attrs_t number = {.n_syms = 1, .syms = {own->symbols[0]}};
    id = add(trace, &status, DT_OP_size, NULL, 0, &number);
  }
  own->handle = dt__trace_value(trace, id);
  return status;
}

dt_status_t dt__trace_gather(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out) {
  const dt_spread_t *spread = trace->request->spread;
  trace->integers =
      DT_ARENA_ARRAY(&trace->traced->arena, dt_trace_integers_t, (size_t)spread->n_given);
  if (!trace->integers)
    return DT_NO_MEMORY();
  uint32_t at = 0;
  for (uint32_t k = 0; k < spread->n_given; k++) {
    dt_trace_integers_t *own = &trace->integers[k];
    *own = (dt_trace_integers_t){0};
    if (spread->given[k].kind == DT_INPUT_INTEGERS) {
      DT_TRY(gather(trace, &spread->given[k], at, own));
      out[k] = own->handle;
    } else {
      out[k] = in[at];
    }
    at += count_of(&spread->given[k]);
  }
  return dt__symenv_status(trace->env);
}

const dt_sym_t *dt_int_elements(dt_trace_t *trace, dt_value_t x, uint32_t *out_n) {
  if (out_n)
    *out_n = 0;
  if (!dt__trace_begin(trace, "int_elements") || !dt__trace_node(trace, x, "the value"))
    return NULL;
  if (!out_n) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "out_n: NULL; expected where to put the count");
    return NULL;
  }
  for (uint32_t k = 0; trace->integers && k < trace->request->spread->n_given; k++) {
    dt_trace_integers_t *own = &trace->integers[k];
    if (own->handle.id != x.id)
      continue;
    for (uint32_t i = 0; i < own->n; i++) {
      own->told[i] = dt__trace_told(trace, dt__sym_simplify(trace->env, own->symbols[i]));
      if (trace->status)
        return NULL;
    }
    *out_n = own->n;
    return own->told;
  }
  return NULL;
}

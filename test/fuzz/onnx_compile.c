// SPDX-License-Identifier: Apache-2.0
// Fuzzes the compiler by models: what the importer accepts is compiled without sizes, and called
// once at small ones. Neither may fail by an invariant of ours, and results have the sizes and
// types that the evaluator gives. Every call has a deadline, since a model's loops may be endless:
// one that does not end soon after it is a finding. With DUCTILE_TEST_DEVICE=cuda compiles and
// calls are for a CUDA device, where what is queued runs out: there loops are compiled and not
// called.
#include "test/fuzz/onnx_fuzz.h"

#include "ductile/device.h"
#include "frontends/onnx/declare.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NODES 40
#define MOST_ELEMENTS 4096
#define CALL_NS 300000000LL // that a call has
#define LATE_NS                                                                                    \
  10000000000LL // after which one that has not ended is a finding, also on a busy machine

typedef struct call_t {
  dt_onnx_decls_t decls;
  uint32_t n_outputs;
  dt_tensor_t **inputs;
  bool large; // an input is too large to be made
} call_t;

// ---- Models that are called -----------------------------------------------------------------------
static bool may_go_on(const dt_onnx_nodes_t *nodes) {
  for (uint32_t k = 0; k < nodes->len; k++) {
    dt_onnx_str_t op = nodes->items[k].op_type;
    if ((op.len == 4 && memcmp(op.at, "Loop", 4) == 0) ||
        (op.len == 4 && memcmp(op.at, "Scan", 4) == 0))
      return true;
    const dt_onnx_attributes_t *attributes = &nodes->items[k].attribute;
    for (uint32_t i = 0; i < attributes->len; i++)
      if (attributes->items[i].g && may_go_on(&attributes->items[i].g->node))
        return true;
  }
  return false;
}

static bool may_be_endless(const dt_onnx_t *model) {
  bool endless = may_go_on(&model->model.graph->node);
  for (uint32_t k = 0; k < model->model.functions.len; k++)
    endless |= may_go_on(&model->model.functions.items[k].node);
  return endless;
}

// ---- Inputs ---------------------------------------------------------------------------------------
// The size of a name: 1 to 3, the same wherever it stands.
static int64_t size_of_name(const char *name) {
  uint32_t sum = 0;
  for (; name && *name; name++)
    sum = sum * 31 + (unsigned char)*name;
  return 1 + sum % 3;
}

static int64_t size_of(const dt_dim_decl_t *dim, uint32_t index) {
  if (dim->is_static)
    return dim->value;
  if (dim->of)
    return (dim->scale ? dim->scale : 1) * size_of_name(dim->of) + dim->offset;
  return dim->name ? size_of_name(dim->name) : 2 + index % 2;
}

// Small numbers of either sign, zeros among them.
static void fill(dt_tensor_t *tensor) {
  dt_dtype_t dtype = dt_tensor_dtype(tensor);
  unsigned char *data = dt_tensor_data(tensor);
  size_t bytes = dt_dtype_size(dtype);
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++) {
    float real = (float)(k % 5) * 0.5F - 1.0F;
    double wide = real;
    uint64_t whole = (uint64_t)(k % 3);
    uint32_t bits = 0;
    memcpy(&bits, &real, sizeof bits);
    uint16_t half = (uint16_t)(dtype == DT_BF16 ? bits >> 16 : 0x3800 + k % 7 * 0x80);
    const void *from = dtype == DT_F32                       ? (const void *)&real
                       : dtype == DT_F64                     ? (const void *)&wide
                       : dtype == DT_F16 || dtype == DT_BF16 ? (const void *)&half
                                                             : (const void *)&whole;
    whole = dtype == DT_BOOL ? whole & 1 : whole;
    memcpy(data + (size_t)k * bytes, from, bytes);
  }
}

static bool make_input(const dt_input_decl_t *decl, dt_tensor_t **out) {
  int64_t sizes[DT_MAX_RANK] = {0}, elements = 1;
  for (uint32_t k = 0; k < decl->rank; k++) {
    sizes[k] = size_of(&decl->dims[k], k);
    if (sizes[k] < 0 || sizes[k] > MOST_ELEMENTS || (elements *= sizes[k]) > MOST_ELEMENTS)
      return false;
  }
  if (dt_tensor_create_empty(decl->dtype, decl->rank, sizes, out))
    abort();
  fill(*out);
  return true;
}

static void make_inputs(dt_onnx_t *model, dt_arena_t *arena, call_t *call) {
  fuzz_require(!dt__onnx_declare(model, arena, &call->decls));
  call->n_outputs = dt_onnx_n_outputs(model);
  call->inputs = DT_ARENA_ARRAY(arena, dt_tensor_t *, call->decls.len + 1);
  fuzz_require(call->inputs != NULL);
  for (uint32_t k = 0; k < call->decls.len && !call->large; k++)
    call->large = !make_input(&call->decls.items[k], &call->inputs[k]);
}

// ---- Calls ----------------------------------------------------------------------------------------
static bool on_device(void) {
  const char *device = getenv("DUCTILE_TEST_DEVICE");
  return device && strcmp(device, "cuda") == 0;
}

// Checks of data on a device are told by the wait.
static bool answer(dt_function_t *function, dt_device_t device, const call_t *call,
                   dt_tensor_t **outputs) {
  dt_session_options_t on = {.struct_size = sizeof(on), .device = device};
  dt_session_t *session = NULL;
  fuzz_require(!dt_session_create(fuzz_runtime(), &on, &session));
  dt_call_options_t options = {.struct_size = sizeof(options),
                               .deadline_ns = dt__now_ns() + CALL_NS};
  dt_status_t status =
      dt_call(session, function, call->inputs, call->decls.len, outputs, call->n_outputs, &options);
  if (!status)
    status = dt_session_wait(session);
  bool answered = !status, late = dt__now_ns() > options.deadline_ns + LATE_NS;
  if (late)
    (void)fprintf(stderr, "a call ended long after its deadline: %s\n", dt_status_message(status));
  fuzz_require(!late);
  fuzz_expect(status);
  dt_session_destroy(session);
  return answered;
}

static void compare(const dt_tensor_t *actual, const dt_tensor_t *expected) {
  uint32_t rank = dt_tensor_rank(expected);
  bool same =
      dt_tensor_dtype(actual) == dt_tensor_dtype(expected) && dt_tensor_rank(actual) == rank;
  for (uint32_t k = 0; same && k < rank; k++)
    same = dt_tensor_sizes(actual)[k] == dt_tensor_sizes(expected)[k];
  if (!same)
    (void)fprintf(stderr, "the evaluator's result has another type or other sizes\n");
  fuzz_require(same);
}

static void run(dt_onnx_t *model, dt_function_t *compiled, const call_t *call) {
  dt_tensor_t **got = calloc(2 * (size_t)call->n_outputs + 1, sizeof(*got));
  fuzz_require(got != NULL);
  dt_tensor_t **expected = got + call->n_outputs;
  dt_function_t *evaluated = fuzz_function(model, DT_ANSWER_EVALUATOR);
  fuzz_require(evaluated != NULL);
  bool answered = answer(compiled, on_device() ? DT_CUDA : DT_CPU, call, got);
  if (answer(evaluated, DT_CPU, call, expected) && answered)
    for (uint32_t k = 0; k < call->n_outputs; k++)
      compare(got[k], expected[k]);
  for (uint32_t k = 0; k < 2 * call->n_outputs; k++)
    dt_tensor_release(got[k]);
  free(got);
  dt_function_release(evaluated);
}

static void check(dt_onnx_t *model, dt_function_t *function) {
  dt_arena_t arena;
  call_t call = {0};
  const dt_prepare_options_t where = {.device = on_device() ? DT_CUDA : DT_CPU};
  fuzz_expect(dt_function_prepare(function, &where));
  dt__arena_init(&arena, 0);
  if (!on_device() || !may_be_endless(model)) {
    make_inputs(model, &arena, &call);
    if (!call.large)
      run(model, function, &call);
    for (uint32_t k = 0; k < call.decls.len; k++)
      dt_tensor_release(call.inputs[k]);
  }
  dt__arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dt_onnx_t *model = fuzz_open(data, size, MOST_NODES);
  dt_function_t *function = model ? fuzz_function(model, DT_ANSWER_COMPILED) : NULL;
  if (function)
    check(model, function);
  dt_function_release(function);
  dt_onnx_close(model);
  return 0;
}

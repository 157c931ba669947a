// SPDX-License-Identifier: Apache-2.0 An op whose result is as long as the data say: the spans of a
// mask, as (begin, end) pairs. The mask is made by the library's own code, and its code reads the
// spans. docs/own-ops.md explains it.
#include "ductile/accessor.h"
#include "ductile/ductile.h"

#include <stdio.h>
#include <stdlib.h>

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// ---- The op -------------------------------------------------------------------------------------
static int64_t find_spans(dt_accessor_t *mask, dt_accessor_t *spans) {
  int64_t n = 0;
  for (int64_t i = 0; i < dt_access_size(mask, 0); i++) {
    bool here = *DT_AT_1(bool, mask, i), before = i > 0 && *DT_AT_1(bool, mask, i - 1);
    n += here && !before;
    if (spans && here && !before)
      *DT_AT_2(int64_t, spans, n - 1, 0) = i;
    if (spans && here)
      *DT_AT_2(int64_t, spans, n - 1, 1) = i + 1;
  }
  return n;
}

// Runs at each call, before the result is made: how many spans there are.
static dt_status_t count(const dt_op_args_t *args, int64_t *numbers) {
  dt_accessor_t mask = dt_access(args->inputs[0], DT_BOOL, 1);
  numbers[0] = find_spans(&mask, NULL);
  return dt_access_status(&mask, NULL);
}

static dt_status_t fill(const dt_op_args_t *args, int64_t begin, int64_t end) {
  dt_accessor_t mask = dt_access(args->inputs[0], DT_BOOL, 1);
  dt_accessor_t spans = dt_access(args->results[0], DT_I64, 2);
  (void)begin, (void)end; // all of it is one item
  (void)find_spans(&mask, &spans);
  return dt_access_status(&mask, &spans, NULL);
}

// Runs once, where a program is traced: what the result is.
static dt_status_t infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_sym_t sizes[2] = {dt_op_number(call, 0, 1 << 20), dt_sym_const(t, 2)};
  (void)closure;
  dt_op_set_result(call, 0, DT_I64, 2, sizes);
  return NULL;
}

// ---- The program --------------------------------------------------------------------------------
// How long each stretch of values above 0 is.
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t mask = dt_gt(t, in[0], dt_scalar(t, DT_F32, 0)), spans;
  (void)closure;
  dt_op_call(t, "example.spans", 1, &mask, 0, NULL, 1, &spans);
  dt_sym_t zero = dt_sym_const(t, 0), one = dt_sym_const(t, 1);
  dt_value_t begin = dt_slice(t, spans, 1, zero, one, 1), end = dt_slice(t, spans, 1, one, one, 1);
  out[0] = dt_squeeze(t, dt_sub(t, end, begin), 1);
  return NULL;
}

static void call(dt_session_t *session, dt_function_t *function, const char *signs, int64_t n) {
  dt_tensor_t *x = NULL, *lengths = NULL;
  must(dt_tensor_create_empty(DT_F32, 1, &n, &x));
  for (int64_t i = 0; i < n; i++)
    ((float *)dt_tensor_data(x))[i] = signs[i] == '+' ? 1 : -1;
  must(dt_call(session, function, &x, 1, &lengths, 1, NULL));
  printf("%-10s %d spans:", signs, (int)dt_tensor_sizes(lengths)[0]);
  for (int64_t i = 0; i < dt_tensor_sizes(lengths)[0]; i++)
    printf(" %d", (int)((const int64_t *)dt_tensor_data(lengths))[i]);
  printf("\n");
  dt_tensor_release(x);
  dt_tensor_release(lengths);
}

int main(void) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_function_t *function = NULL;
  must(dt_runtime_create(NULL, &runtime));
  must(dt_session_create(runtime, NULL, &session));
  dt_op_options_t op = DT_ZERO;
  op.struct_size = sizeof op;
  op.name = "example.spans";
  op.infer = infer;
  op.kernel = fill;
  op.n_numbers = 1;
  op.numbers = count;
  must(dt_op_register(runtime, &op));
  dt_input_decl_t input = DT_ZERO;
  input.name = "x";
  input.dtype = DT_F32;
  input.rank = 1;
  dt_function_options_t options = DT_ZERO;
  options.struct_size = sizeof options;
  options.name = "spans";
  options.n_inputs = 1;
  options.n_outputs = 1;
  options.inputs = &input;
  options.input_size = sizeof input;
  options.dim_size = sizeof(dt_dim_decl_t);
  must(dt_function_create(runtime, program, NULL, &options, &function));
  call(session, function, "++-+--+++-", 10);
  call(session, function, "-----", 5);
  call(session, function, "+", 1);
  call(session, function, "", 0);
  dt_function_release(function);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return 0;
}

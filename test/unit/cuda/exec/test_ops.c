// SPDX-License-Identifier: Apache-2.0
// Ops of users on a GPU: their PTX among our kernels, launched one by one and in CUDA graphs, at
// sizes that change; decompositions where there is none; and what is refused.
#include "test/support/subjects.h"
#include "test/unit/cuda/exec/twice_op.h"

#include "ductile/experimental.h"
#include "ductile/ir.h"
#include "ductile/pass.h"

#include <string.h>

static dt_status_t decompose(dt_op_call_t *call, dt_value_t *results, void *closure) {
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  results[0] = dt_add(dt_op_call_trace(call), x, x);
  return NULL;
}

static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};

static void call_at(fixture_t *f, dt_function_t *function, int64_t n, dt_call_mode_t mode) {
  const dt_call_options_t options = {.struct_size = sizeof(options), .mode = mode};
  dt_tensor_t *host = tensor_f32(&f->rng, 1, &n), *x = tensor_upload(f->session, host), *out = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, &options));
  dt_tensor_t *back = tensor_download(f->session, out);
  for (int64_t i = 0; i < n; i++) {
    float sum = 2 * (((const float *)dt_tensor_data(host))[i] + 1) + 3;
    assert_true(((const float *)dt_tensor_data(back))[i] == (sum < 0 ? -sum : 0));
  }
  RELEASE(host, x, out, back);
}

static const int64_t lengths[] = {5, 64, 1, 1000, 65, 0, 5, 1000, 1000, 5};

static void call_at_all(dt_op_options_t options, dt_call_mode_t mode) {
  fixture_t f = fixture_on(DT_CUDA, 2);
  f.rng = (rng_t){7};
  expect_ok(dt_op_register(f.runtime, &options));
  dt_function_options_t about = options_of(1, one_vector);
  dt_function_t *function = function_of(&f, twice_program, NULL, &about);
  for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++)
    call_at(&f, function, lengths[k], mode);
  dt_function_counters_t counters = stats_of(function);
  assert_int_equal(counters.evaluator_calls, 0);
  if (mode == DT_CALL_REDUCE_OVERHEAD)
    assert_true(counters.graph_calls > 0);
  dt_function_release(function);
  fixture_end(&f);
}

static void test_ptx_among_our_kernels(void **state) {
  (void)state;
  call_at_all(twice_op(), DT_CALL_DEFAULT);
}

static void test_ptx_in_graphs(void **state) {
  (void)state;
  call_at_all(twice_op(), DT_CALL_REDUCE_OVERHEAD);
}

// Its result in its operand's memory, of which each thread reads the element that it writes.
static void test_ptx_in_place(void **state) {
  dt_op_options_t options = twice_op();
  (void)state;
  options.updates[0] = 1;
  options.in_place = true;
  call_at_all(options, DT_CALL_DEFAULT);
  call_at_all(options, DT_CALL_REDUCE_OVERHEAD);
}

// The argument itself, which is doubled where it lies, and read afterwards.
static dt_status_t doubled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_op_call(t, "test.twice", 1, in, 0, NULL, 0, NULL);
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_F32, 1));
  (void)closure;
  return NULL;
}

static void test_ptx_updates_an_argument(void **state) {
  static const dt_input_decl_t kinds[] = {
      {.name = "x", .dtype = DT_F32, .rank = 1},
      {.name = "x", .dtype = DT_F32, .rank = 1, .kind = DT_INPUT_DONATED}};
  dt_op_options_t op = twice_op();
  fixture_t f = fixture_on(DT_CUDA, 2);
  (void)state;
  f.rng = (rng_t){5};
  op.updates[0] = 1;
  op.in_place = true;
  expect_ok(dt_op_register(f.runtime, &op));
  for (int donated = 0; donated < 2; donated++) {
    dt_function_options_t about = options_of(1, &kinds[donated]);
    dt_function_t *function = function_of(&f, doubled, NULL, &about);
    for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
      dt_tensor_t *host = tensor_f32(&f.rng, 1, &lengths[k]), *x = tensor_upload(f.session, host);
      dt_tensor_t *out = NULL;
      expect_ok(dt_call(f.session, function, &x, 1, &out, 1, NULL));
      dt_tensor_t *after = tensor_download(f.session, x), *back = tensor_download(f.session, out);
      for (int64_t i = 0; i < lengths[k]; i++) {
        float twice = 2 * ((const float *)dt_tensor_data(host))[i];
        assert_true(((const float *)dt_tensor_data(after))[i] == twice);
        assert_true(((const float *)dt_tensor_data(back))[i] == twice + 1);
      }
      RELEASE(host, x, out, after, back);
    }
    dt_function_release(function);
  }
  fixture_end(&f);
}

// ---- Passes -------------------------------------------------------------------------------------
static dt_status_t look(dt_rewriter_t *r, void *closure) {
  assert_int_equal(dt_rewriter_device(r), DT_CUDA);
  ++*(int *)closure;
  return NULL;
}

static void test_passes_know_their_device(void **state) {
  fixture_t f = fixture_on(DT_CUDA, 2);
  dt_op_options_t op = twice_op();
  int seen = 0;
  (void)state;
  expect_ok(dt_op_register(f.runtime, &op));
  for (int point = DT_POINT_TRACED; point <= DT_POINT_FUSED; point++)
    expect_ok(dt_runtime_add_pass(f.runtime, (dt_point_t)point, look, &seen,
                                  &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t),
                                                       .name = dt_point_name((dt_point_t)point)}));
  dt_function_options_t about = options_of(1, one_vector);
  dt_function_t *function = function_of(&f, twice_program, NULL, &about);
  call_at(&f, function, 9, DT_CALL_DEFAULT);
  assert_int_equal(seen, 5);
  dt_function_release(function);
  fixture_end(&f);
}

static void test_a_decomposition_where_there_is_no_ptx(void **state) {
  dt_op_options_t options = twice_op();
  (void)state;
  options.device_kernel = NULL;
  options.decompose = decompose;
  call_at_all(options, DT_CALL_DEFAULT);
}

// The same by its elements.
static dt_value_t twice_element(dt_loop_t *loop, void *closure) {
  dt_value_t i = dt_loop_index(loop, 0), x = dt_loop_load(loop, *(dt_value_t *)closure, 1, &i);
  return dt_add(dt_loop_trace(loop), x, x);
}

static dt_status_t decompose_by_elements(dt_op_call_t *call, dt_value_t *results, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  dt_sym_t n = dt_dim(t, x, 0);
  (void)closure;
  results[0] = dt_loop(t, 1, &n, twice_element, &x);
  return NULL;
}

static void test_a_decomposition_by_elements(void **state) {
  dt_op_options_t options = twice_op();
  (void)state;
  options.device_kernel = NULL;
  options.decompose = decompose_by_elements;
  call_at_all(options, DT_CALL_DEFAULT);
}

static void expect_refused(dt_op_options_t options, dt_code_t code, const char *says) {
  fixture_t f = fixture_on(DT_CUDA, 2);
  expect_ok(dt_op_register(f.runtime, &options));
  dt_function_options_t about = options_of(1, one_vector);
  dt_function_t *function = function_of(&f, twice_program, NULL, &about);
  dt_tensor_t *host = tensor_full(1, 1, SIZES(3)), *x = tensor_upload(f.session, host), *out = NULL;
  expect_told(dt_call(f.session, function, &x, 1, &out, 1, NULL), code, says);
  RELEASE(host, x);
  dt_function_release(function);
  fixture_end(&f);
}

// A size that the data decide, of an op with kernels for both.
static dt_status_t infer_by_number(dt_op_call_t *call, void *closure) {
  dt_sym_t n = dt_op_number(call, 0, 100);
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 1, &n);
  return NULL;
}

static dt_status_t one_number(const dt_op_args_t *args, int64_t *numbers) {
  (void)args;
  numbers[0] = 1;
  return NULL;
}

static void test_refusals(void **state) {
  dt_op_options_t options = twice_op();
  dt_op_device_kernel_t own = twice_device_kernel;
  (void)state;
  options.device_kernel = NULL;
  expect_refused(options, DT_E_UNSUPPORTED, "test.twice: the op has no kernel for the session's");
  dt_op_options_t by_number = twice_op();
  by_number.infer = infer_by_number;
  by_number.n_numbers = 1;
  by_number.numbers = one_number;
  expect_refused(by_number, DT_E_UNSUPPORTED, "test.twice: its numbers are read by the CPU alone");
  options.device_kernel = &own;
  own.entry = "absent";
  expect_refused(options, DT_E_COMPILE, "test.twice: device code has no kernel absent");
  own.entry = "affine";
  own.text = "no text of the kind";
  expect_refused(options, DT_E_COMPILE, "test.twice: ");
}

// The text of a graph that the CPU ran, at a device: its numbers are read nowhere else.
static void test_numbers_in_a_text_are_refused(void **state) {
  dt_op_options_t op = twice_op();
  char *ir = NULL;
  (void)state;
  op.infer = infer_by_number;
  op.n_numbers = 1;
  op.numbers = one_number;
  for (int kind = DT_CPU; kind <= (int)DT_CUDA; kind++) {
    fixture_t f = fixture_on((dt_device_t)kind, 2);
    dt_function_options_t about = options_of(1, one_vector);
    dt_function_options_t text = {.struct_size = sizeof(text), .name = "text"};
    dt_function_t *function = NULL;
    dt_tensor_t *x = tensor_full(1, 1, SIZES(1)), *out = NULL;
    expect_ok(dt_op_register(f.runtime, &op));
    if (kind == (int)DT_CPU) {
      function = function_of(&f, twice_program, NULL, &about);
      expect_ok(dt_call(f.session, function, &x, 1, &out, 1, NULL));
      expect_ok(dt_function_graph(function, &x, 1, &ir));
    } else {
      dt_tensor_t *there = tensor_upload(f.session, x);
      expect_ok(
          dt_function_create_from_ir(f.runtime, ir, strlen(ir), "text.dtt", &text, &function));
      expect_told(dt_call(f.session, function, &there, 1, &out, 1, NULL), DT_E_UNSUPPORTED,
                  "test.twice: its numbers are read by the CPU alone");
      RELEASE(there);
    }
    RELEASE(x, out);
    dt_function_release(function);
    fixture_end(&f);
  }
  dt_text_free(ir);
}

static void test_registrations_that_are_refused(void **state) {
  fixture_t f = fixture_on(DT_CUDA, 1);
  dt_op_options_t options = twice_op();
  dt_op_device_kernel_t own = twice_device_kernel;
  (void)state;
  options.device_kernel = &own;
  own.entry = NULL;
  expect_told(dt_op_register(f.runtime, &options), DT_E_ARGUMENT, "entry: NULL");
  own = twice_device_kernel;
  own.text = NULL;
  expect_told(dt_op_register(f.runtime, &options), DT_E_ARGUMENT, "text, image: NULL");
  own.image = twice_device_kernel.text;
  expect_told(dt_op_register(f.runtime, &options), DT_E_ARGUMENT, "an image of 0 bytes");
  own = twice_device_kernel;
  own.threads = 0;
  expect_told(dt_op_register(f.runtime, &options), DT_E_ARGUMENT, "0 threads");
  own.threads = 1025;
  expect_told(dt_op_register(f.runtime, &options), DT_E_ARGUMENT, "1025 threads");
  own = twice_device_kernel;
  own.items = 5;
  expect_told(dt_op_register(f.runtime, &options), DT_E_ARGUMENT, "64 threads for 5 items");
  own = twice_device_kernel;
  own.device = DT_CPU;
  expect_told(dt_op_register(f.runtime, &options), DT_E_ARGUMENT, "the CPU's is `kernel`");
  fixture_end(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ptx_among_our_kernels),
      cmocka_unit_test(test_ptx_in_graphs),
      cmocka_unit_test(test_ptx_in_place),
      cmocka_unit_test(test_ptx_updates_an_argument),
      cmocka_unit_test(test_a_decomposition_where_there_is_no_ptx),
      cmocka_unit_test(test_a_decomposition_by_elements),
      cmocka_unit_test(test_passes_know_their_device),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_numbers_in_a_text_are_refused),
      cmocka_unit_test(test_registrations_that_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Ops of users: kernels of theirs among the library's, several results, sizes from data,
// decompositions, what is refused, and who owns what.
#include "test/support/subjects.h"

#include "ductile/op.h"
#include "ductile/pass.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 17); }

static const dt_input_decl_t one_matrix[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};
static const dt_input_decl_t one_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};

static void register_op(fixture_t *f, dt_op_options_t options) {
  options.struct_size = sizeof(options);
  expect_ok(dt_op_register(f->runtime, &options));
}

static dt_function_t *make(fixture_t *f, dt_program_fn_t fn, const dt_input_decl_t *inputs,
                           uint32_t n_outputs, void *closure) {
  dt_function_options_t options = options_of(1, inputs);
  options.n_outputs = n_outputs;
  return function_of(f, fn, closure, &options);
}

// ---- A kernel on strided rows -------------------------------------------------------------------
// Rows times `factor`; an item a row.
static _Atomic int64_t items_run;

static dt_status_t scale_infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_set_result_like(call, 0, x, DT_DTYPE_NONE);
  dt_op_set_items(call, dt_dim(t, x, 0));
  return NULL;
}

static dt_status_t scale_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0], *y = args->results[0];
  const dt_op_attr_t *factor = dt_op_attr(args, "factor", DT_OP_ATTR_FLOAT);
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++)
    for (int64_t j = 0; j < x->sizes[1]; j++)
      ((float *)y->data)[i * y->strides[0] + j * y->strides[1]] =
          ((const float *)x->data)[i * x->strides[0] + j * x->strides[1]] * (float)factor->f;
  atomic_fetch_add(&items_run, end - begin);
  return NULL;
}

static const dt_op_options_t scale_op = {
    .name = "test.scale", .infer = scale_infer, .kernel = scale_kernel};

static dt_value_t scale(dt_trace_t *t, dt_value_t x, double factor) {
  dt_value_t out;
  dt_op_attr_t attr = {.name = "factor", .kind = DT_OP_ATTR_FLOAT, .f = factor};
  dt_op_call(t, "test.scale", 1, &x, 1, &attr, 1, &out);
  return out;
}

// 3 (x + x) + 1: an op between two maps.
static dt_status_t between(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t twice = scale(t, dt_add(t, in[0], in[0]), 3);
  out[0] = dt_add(t, twice, dt_scalar(t, DT_F32, 1));
  return NULL;
}

// The argument itself, whatever its strides, and the result as it is.
static dt_status_t alone(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = scale(t, in[0], -2);
  return NULL;
}

// The result is the op's own, and what the op reads: it gets and gives row-major ones.
static dt_status_t around(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  out[1] = scale(t, out[0], 3);
  return NULL;
}

// Each element and its place, by the sizes that the kernel is told.
static dt_status_t places_infer(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_DTYPE_NONE);
  return NULL;
}
static dt_status_t places_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0], *y = args->results[0];
  (void)begin, (void)end;
  int64_t at[4] = {0}, n = 1;
  for (uint32_t d = 0; d < 4; d++)
    n *= x->sizes[d];
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i, from = 0, to = 0;
    for (int d = 4; d-- > 0; rest /= x->sizes[d]) {
      at[d] = rest % x->sizes[d];
      from += at[d] * x->strides[d];
      to += at[d] * y->strides[d];
    }
    ((float *)y->data)[to] =
        ((const float *)x->data)[from] + (float)(at[0] * 1000 + at[1] * 100 + at[2] * 10 + at[3]);
  }
  return NULL;
}
static dt_status_t places_decompose(dt_op_call_t *call, dt_value_t *results, void *closure) {
  static const int32_t weights[] = {1000, 100, 10, 1};
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  dt_sym_t sizes[4];
  (void)closure;
  for (int32_t d = 0; d < 4; d++)
    sizes[d] = dt_dim(t, x, d);
  results[0] = x;
  for (int32_t d = 0; d < 4; d++)
    results[0] =
        dt_add(t, results[0],
               dt_mul(t, dt_iota(t, DT_F32, 4, sizes, d), dt_scalar(t, DT_F32, weights[d])));
  return NULL;
}

// Between maps whose views would have the dims of both temporaries in another order.
static dt_status_t between_views(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  static const int32_t order[] = {0, 2, 1, 3};
  (void)closure;
  dt_value_t x = dt_permute(t, dt_add(t, in[0], in[0]), order);
  dt_op_call(t, "test.places", 1, &x, 0, NULL, 1, &x);
  dt_value_t turned = dt_permute(t, x, order);
  dt_sym_t sizes[3] = {dt_dim(t, turned, 0), dt_dim(t, turned, 1),
                       dt_sym_mul(t, dt_dim(t, turned, 2), dt_dim(t, turned, 3))};
  out[0] = dt_exp(t, dt_mul(t, dt_reshape(t, turned, 3, sizes), dt_scalar(t, DT_F32, 0.001)));
  return NULL;
}

static void test_temporaries_of_many_dims(void **state) {
  fixture_t *f = *state;
  static const dt_dim_decl_t dims[4] = {
      {.name = "b"}, {.name = "m"}, {.name = "h"}, {.is_static = true, .value = 32}};
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 4, .dims = dims};
  dt_op_options_t op = {.name = "test.places",
                        .infer = places_infer,
                        .kernel = places_kernel,
                        .decompose = places_decompose};
  register_op(f, op);
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *function = function_of(f, between_views, NULL, &options);
  options.answer = DT_ANSWER_EVALUATOR;
  dt_function_t *evaluated = function_of(f, between_views, NULL, &options);
  for (int64_t m = 0; m < 4; m++) {
    dt_tensor_t *x = tensor_f32(&f->rng, 4, SIZES(2, m, 3, 32)), *out = NULL, *expected = NULL;
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
    expect_ok(dt_call(f->session, evaluated, &x, 1, &expected, 1, NULL));
    expect_close(out, expected, 1e-5, 1e-5, "temporaries of four dims");
    RELEASE(x, out, expected);
  }
  dt_function_release(function);
  dt_function_release(evaluated);
}

static void test_results_in_other_orders(void **state) {
  fixture_t *f = *state;
  const uint32_t turned[2] = {1, 0};
  const dt_output_decl_t outputs[2] = {{.order = turned, .rank = 2}, {.order = turned, .rank = 2}};
  register_op(f, scale_op);
  dt_function_options_t options = options_of(1, one_matrix);
  options.n_outputs = 2;
  options.outputs = outputs;
  options.output_size = sizeof(outputs[0]);
  dt_function_t *function = function_of(f, around, NULL, &options);
  for (int64_t rows = 0; rows < 4; rows++) {
    dt_tensor_t *x = tensor_f32(&f->rng, 2, SIZES(rows, 3)), *out[2] = {NULL};
    expect_ok(dt_call(f->session, function, &x, 1, out, 2, NULL));
    const float *from = dt_tensor_data(x), *a = dt_tensor_data(out[0]), *b = dt_tensor_data(out[1]);
    for (int64_t i = 0; i < rows * 3; i++) {
      int64_t at = i % 3 * rows + i / 3; // columns lie one behind the other
      assert_true(a[at] == from[i] + from[i] && b[at] == a[at] * 3);
    }
    RELEASE(x, out[0], out[1]);
  }
  dt_function_release(function);
}

// A view that no strides of a buffer describe.
static dt_status_t of_a_view(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = scale(t, dt_permute(t, in[0], (const int32_t[]){1, 0}), 2);
  return NULL;
}

static void expect_each(dt_tensor_t *out, dt_tensor_t *x, bool turned, double factor, double more) {
  const int64_t *sizes = dt_tensor_sizes(x);
  const int64_t *strides = dt_tensor_strides(x);
  int64_t rows = sizes[turned], cols = sizes[!turned];
  expect_sizes(out, 2, SIZES(rows, cols));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      int64_t at = turned ? j * strides[0] + i * strides[1] : i * strides[0] + j * strides[1];
      float want = (float)((double)((const float *)dt_tensor_data(x))[at] * factor + more);
      assert_true(fabsf(((const float *)dt_tensor_data(out))[i * cols + j] - want) <= 1e-5f);
    }
}

static void test_a_kernel_among_ours_at_every_size(void **state) {
  fixture_t *f = *state;
  register_op(f, scale_op);
  dt_function_t *functions[] = {make(f, between, one_matrix, 1, NULL),
                                make(f, alone, one_matrix, 1, NULL),
                                make(f, of_a_view, one_matrix, 1, NULL)};
  const double factors[] = {6, -2, 2}, more[] = {1, 0, 0};
  static const int64_t sizes[][2] = {{3, 5}, {1, 1}, {0, 4}, {4, 0}, {64, 33}, {1, 200}, {7, 1}};
  for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
    for (size_t p = 0; p < 3; p++) {
      dt_tensor_t *x = tensor_f32(&f->rng, 2, sizes[k]), *turned = tensor_transposed(x);
      dt_tensor_t *given[] = {x, turned};
      for (int strided = 0; strided < 2; strided++) {
        dt_tensor_t *out = NULL;
        expect_ok(dt_call(f->session, functions[p], &given[strided], 1, &out, 1, NULL));
        expect_each(out, given[strided], p == 2, factors[p], more[p]);
        RELEASE(out);
      }
      RELEASE(turned, x);
    }
  for (size_t p = 0; p < 3; p++) {
    assert_int_equal(stats_of(functions[p]).evaluator_calls != 0,
                     compiled_answer() != DT_ANSWER_COMPILED);
    assert_true(variants_of(functions[p]) <= 2); // as declared, and with strides
    dt_function_release(functions[p]);
  }
}

static void test_each_item_runs_once(void **state) {
  fixture_t *f = *state;
  register_op(f, scale_op);
  dt_function_t *function = make(f, alone, one_matrix, 1, NULL);
  static const int64_t rows[] = {1, 2, 17, 5000};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_tensor_t *x = tensor_f32(&f->rng, 2, SIZES(rows[k], 3)), *out = NULL;
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL)); // compiles, too
    RELEASE(out);
    out = NULL;
    atomic_store(&items_run, 0);
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
    assert_int_equal(atomic_load(&items_run), rows[k]);
    RELEASE(x, out);
  }
  dt_function_release(function);
}

// ---- Several results ----------------------------------------------------------------------------
// Of each row: the row less its mean, the mean, and how long it is.
static dt_status_t centre_infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  dt_sym_t sizes[2] = {dt_dim(t, x, 0), dt_dim(t, x, 1)};
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 2, sizes);
  dt_op_set_result(call, 1, DT_F32, 1, sizes);
  dt_op_set_result(call, 2, DT_I64, 0, NULL);
  dt_op_set_items(call, sizes[0]);
  return NULL;
}

static dt_status_t centre_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  int64_t rows = x->sizes[0], cols = x->sizes[1];
  float *out = args->results[0]->data, *means = args->results[1]->data;
  if (begin == 0)
    *(int64_t *)args->results[2]->data = cols;
  for (int64_t i = begin; i < end && i < rows; i++) {
    const float *row = (const float *)x->data + i * x->strides[0];
    double sum = 0;
    for (int64_t j = 0; j < cols; j++)
      sum += row[j * x->strides[1]];
    means[i] = cols ? (float)(sum / (double)cols) : 0;
    for (int64_t j = 0; j < cols; j++)
      out[i * cols + j] = row[j * x->strides[1]] - means[i];
  }
  return NULL;
}

static const dt_op_options_t centre_op = {
    .name = "test.centre", .infer = centre_infer, .kernel = centre_kernel};

// closure: which results are read, as bits. out[0]: their sum over all that is read.
static dt_status_t centred(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  unsigned read = *(const unsigned *)closure;
  dt_value_t results[3], x = dt_mul(t, in[0], dt_scalar(t, DT_F32, 2));
  dt_op_call(t, "test.centre", 1, &x, 0, NULL, 3, results);
  dt_value_t sum = dt_full(t, DT_F32, 0, 0, NULL);
  for (uint32_t k = 0; k < 3; k++)
    if (read >> k & 1)
      sum = dt_add(t, sum, dt_sum(t, dt_cast(t, dt_abs(t, results[k]), DT_F32), 0, NULL, false));
  out[0] = sum;
  return NULL;
}

static void test_results_that_are_read_and_not(void **state) {
  fixture_t *f = *state;
  static const int64_t sizes[][2] = {{2, 3}, {1, 1}, {5, 64}, {3, 0}, {0, 3}};
  register_op(f, centre_op);
  for (unsigned read = 0; read < 8; read++) {
    dt_function_t *function = make(f, centred, one_matrix, 1, &read);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
      int64_t rows = sizes[k][0], cols = sizes[k][1];
      dt_tensor_t *x = tensor_f32(&f->rng, 2, sizes[k]), *out = NULL;
      const float *data = dt_tensor_data(x);
      double want = read & 4 ? (double)cols : 0;
      for (int64_t i = 0; i < rows; i++) {
        double mean = 0;
        for (int64_t j = 0; j < cols; j++)
          mean += 2 * (double)data[i * cols + j];
        mean = cols ? mean / (double)cols : 0;
        want += read & 2 ? fabs(mean) : 0;
        for (int64_t j = 0; j < cols && read & 1; j++)
          want += fabs(2 * (double)data[i * cols + j] - mean);
      }
      expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
      assert_true(fabs(((const float *)dt_tensor_data(out))[0] - want) <= 1e-4 * (1 + want));
      RELEASE(x, out);
    }
    dt_function_release(function);
  }
}

static dt_status_t all_three(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_op_call(t, "test.centre", 1, in, 0, NULL, 3, out);
  return NULL;
}

static void test_results_of_the_function(void **state) {
  fixture_t *f = *state;
  register_op(f, centre_op);
  dt_function_t *function = make(f, all_three, one_matrix, 3, NULL);
  dt_tensor_t *x = tensor_full(4, 2, SIZES(2, 3)), *out[3] = {NULL};
  expect_ok(dt_call(f->session, function, &x, 1, out, 3, NULL));
  expect_sizes(out[0], 2, SIZES(2, 3));
  expect_sizes(out[1], 1, SIZES(2));
  assert_true(((const float *)dt_tensor_data(out[0]))[5] == 0);
  assert_true(((const float *)dt_tensor_data(out[1]))[1] == 4);
  assert_int_equal(((const int64_t *)dt_tensor_data(out[2]))[0], 3);
  RELEASE(x, out[0], out[1], out[2]);
  dt_function_release(function);
}

// ---- Sizes from data ----------------------------------------------------------------------------
// The elements of a vector that are above 0.
static dt_status_t above_infer(dt_op_call_t *call, void *closure) {
  dt_sym_t n = dt_op_number(call, 0, 1000);
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 1, &n);
  return NULL;
}

static dt_status_t above_numbers(const dt_op_args_t *args, int64_t *numbers) {
  const dt_op_tensor_t *x = args->inputs[0];
  numbers[0] = 0;
  for (int64_t i = 0; i < x->sizes[0]; i++)
    numbers[0] += ((const float *)x->data)[i * x->strides[0]] > 0;
  return NULL;
}

static dt_status_t above_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  int64_t n = 0;
  (void)begin, (void)end;
  for (int64_t i = 0; i < x->sizes[0]; i++) {
    float value = ((const float *)x->data)[i * x->strides[0]];
    if (value > 0 && n < args->results[0]->sizes[0])
      ((float *)args->results[0]->data)[n++] = value;
  }
  return NULL;
}

static const dt_op_options_t above_op = {.name = "test.above",
                                         .infer = above_infer,
                                         .kernel = above_kernel,
                                         .n_numbers = 1,
                                         .numbers = above_numbers};

static dt_status_t selected(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = dt_neg(t, in[0]), some;
  (void)closure;
  dt_op_call(t, "test.above", 1, &x, 0, NULL, 1, &some);
  out[0] = dt_add(t, some, some);
  return NULL;
}

static void test_the_data_decide_a_size(void **state) {
  fixture_t *f = *state;
  register_op(f, above_op);
  dt_function_t *function = make(f, selected, one_vector, 1, NULL);
  static const int64_t lengths[] = {5, 0, 1, 40, 999};
  for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
    dt_tensor_t *x = tensor_f32(&f->rng, 1, &lengths[k]), *out = NULL;
    const float *data = dt_tensor_data(x);
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
    int64_t n = 0;
    for (int64_t i = 0; i < lengths[k]; i++)
      if (data[i] < 0) {
        assert_true(n < dt_tensor_sizes(out)[0]);
        assert_true(((const float *)dt_tensor_data(out))[n++] == -2 * data[i]);
      }
    expect_sizes(out, 1, &n);
    RELEASE(x, out);
  }
  assert_int_equal(variants_of(function), 1);
  dt_tensor_t *x = tensor_full(-1, 1, SIZES(1001)), *out = NULL;
  expect_told(dt_call(f->session, function, &x, 1, &out, 1, NULL), DT_E_RANGE, "1001");
  RELEASE(x);
  dt_function_release(function);
}

// ---- Decompositions -----------------------------------------------------------------------------
static dt_status_t twice_infer(dt_op_call_t *call, void *closure) {
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_set_result_like(call, 0, x, DT_DTYPE_NONE);
  dt_op_set_result_like(call, 1, x, DT_BOOL);
  return NULL;
}

static dt_status_t twice_decompose(dt_op_call_t *call, dt_value_t *results, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  results[0] = dt_add(t, x, x);
  results[1] = dt_gt(t, x, dt_scalar(t, DT_F32, 0));
  return NULL;
}

static const dt_op_options_t twice_op = {
    .name = "test.twice", .infer = twice_infer, .decompose = twice_decompose};

static dt_status_t count_calls(dt_rewriter_t *r, void *closure) {
  dt_node_info_t info = {.struct_size = sizeof(info)};
  for (dt_value_t v = {0}; (v = dt_rewriter_next(r, v)).id;) {
    expect_ok(dt_rewriter_node(r, v, &info));
    *(int *)closure += strcmp(info.op, "external") == 0;
  }
  return NULL;
}

static dt_status_t twice_where(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  dt_value_t results[2];
  (void)closure;
  dt_op_call(t, "test.twice", 1, in, 0, NULL, 2, results);
  out[0] = dt_where(t, results[1], results[0], in[0]);
  return NULL;
}

static void test_a_decomposition_is_whole_for_passes(void **state) {
  fixture_t *f = *state;
  int seen = 0;
  register_op(f, twice_op);
  expect_ok(dt_runtime_add_pass(
      f->runtime, DT_POINT_TRACED, count_calls, &seen,
      &(dt_pass_options_t){.struct_size = sizeof(dt_pass_options_t), .name = "count"}));
  dt_function_t *function = make(f, twice_where, one_vector, 1, NULL);
  dt_tensor_t *x = tensor_f32(&f->rng, 1, SIZES(9)), *out = NULL;
  expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
  for (int k = 0; k < 9; k++) {
    float value = ((const float *)dt_tensor_data(x))[k];
    assert_true(((const float *)dt_tensor_data(out))[k] == (value > 0 ? 2 * value : value));
  }
  assert_int_equal(seen, 1);
  RELEASE(x, out);
  dt_function_release(function);
}

// ---- Bodies -------------------------------------------------------------------------------------
static dt_status_t below_4(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[1], dt_scalar(t, DT_I64, 4));
  return NULL;
}

static dt_status_t one_trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, scale(t, in[0], 2), dt_scalar(t, DT_F32, 1));
  out[1] = dt_add(t, in[1], dt_scalar(t, DT_I64, 1));
  return NULL;
}

static dt_status_t looped(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t init[2] = {in[0], dt_scalar(t, DT_I64, 0)}, state[2];
  (void)closure;
  dt_while(t, below_4, one_trip, NULL, 2, init, 0, NULL, state);
  out[0] = state[0];
  return NULL;
}

static void test_a_kernel_in_a_loop(void **state) {
  fixture_t *f = *state;
  register_op(f, scale_op);
  dt_function_t *function = make(f, looped, one_matrix, 1, NULL);
  for (int64_t rows = 0; rows < 4; rows++) {
    dt_tensor_t *x = tensor_f32(&f->rng, 2, SIZES(rows, 3)), *out = NULL;
    expect_ok(dt_call(f->session, function, &x, 1, &out, 1, NULL));
    expect_each(out, x, false, 16, 15);
    RELEASE(x, out);
  }
  dt_function_release(function);
}

// ---- Failures -----------------------------------------------------------------------------------
static dt_status_t failing_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0];
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++)
    if (((const float *)x->data)[i * x->strides[0]] > 100)
      return dt_status_make(DT_E_RANGE, "a row begins above 100");
  return scale_kernel(args, begin, end);
}

static void test_a_kernel_fails_and_the_next_call_is_right(void **state) {
  fixture_t *f = *state;
  dt_op_options_t options = scale_op;
  options.kernel = failing_kernel;
  register_op(f, options);
  dt_function_t *function = make(f, alone, one_matrix, 1, NULL);
  for (int turn = 0; turn < 4; turn++) {
    dt_tensor_t *x = tensor_full(turn % 2 ? 1 : 200, 2, SIZES(64, 3)), *out = NULL;
    dt_status_t status = dt_call(f->session, function, &x, 1, &out, 1, NULL);
    if (turn % 2) {
      expect_ok(status);
      assert_true(((const float *)dt_tensor_data(out))[0] == -2);
    } else {
      expect_told(status, DT_E_RANGE, "test.scale: a row begins above 100");
      assert_null(out);
    }
    RELEASE(x, out);
  }
  dt_function_release(function);
}

// An op reads an argument that the call updates, and its result is what is written: a row (in[1] is
// one) and the whole. What the call gives is the op of the argument as it was.
static dt_status_t updated(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t of_row = scale(t, in[1], 2), before = scale(t, in[0], 3);
  dt_value_t first = dt_scalar(t, DT_I64, 1);
  dt_update(t, in[0],
            closure ? before : dt_update_slice(t, in[0], of_row, first, 0, DT_UPDATE_CHECKED));
  out[0] = dt_add(t, before, of_row);
  return NULL;
}

static void test_arguments_that_are_written_with_results(void **state) {
  static const dt_input_decl_t two[] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                        {.name = "row", .dtype = DT_F32, .rank = 2}};
  fixture_t *f = *state;
  dt_op_options_t options = scale_op;
  options.kernel = failing_kernel;
  register_op(f, options);
  for (int whole = 0; whole < 2; whole++) {
    dt_function_options_t made = options_of(2, two);
    dt_function_t *function = function_of(f, updated, whole ? "" : NULL, &made);
    for (int turn = 0; turn < 4; turn++) {
      bool fails = turn % 2 == 0;
      dt_tensor_t *out = NULL;
      dt_tensor_t *in[] = {tensor_full(1, 2, SIZES(3 + turn, 2)),
                           tensor_full(fails ? 200 : 5, 2, SIZES(1, 2))};
      dt_status_t status = dt_call(f->session, function, in, 2, &out, 1, NULL);
      const float *x = dt_tensor_data(in[0]);
      if (fails)
        expect_told(status, DT_E_RANGE, "test.scale: a row begins above 100");
      else
        expect_ok(status);
      for (int64_t k = 0; k < dt_tensor_count(in[0]); k++) {
        float wrote = whole ? 3 : k / 2 == 1 ? 10 : 1;
        assert_true(x[k] == (fails ? 1 : wrote));
        assert_true(fails || ((const float *)dt_tensor_data(out))[k] == 13);
      }
      RELEASE(in[0], in[1], out);
    }
    dt_function_release(function);
  }
}

static dt_status_t call_named(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t many[66];
  for (int k = 0; k < 66; k++)
    many[k] = in[0];
  uint32_t n = (uint32_t)((const char *)closure)[0] - '0';
  dt_op_call(t, (const char *)closure + 1, n, many, 0, NULL, 1, out);
  return NULL;
}

static void expect_refused(fixture_t *f, const char *what, dt_code_t code, const char *says) {
  char text[64];
  (void)snprintf(text, sizeof(text), "%s", what);
  dt_function_t *function = make(f, call_named, one_matrix, 1, text);
  dt_tensor_t *x = tensor_full(1, 2, SIZES(2, 2)), *out = NULL;
  expect_told(dt_call(f->session, function, &x, 1, &out, 1, NULL), code, says);
  RELEASE(x);
  dt_function_release(function);
}

static dt_status_t no_result(dt_op_call_t *call, void *closure) {
  (void)call, (void)closure;
  return NULL;
}

static dt_status_t odd_result(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result(call, 1, DT_F32, 0, NULL);
  return NULL;
}

static dt_status_t stored_result(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result(call, 0, DT_F8E5M2, 0, NULL);
  return NULL;
}

static dt_status_t like_nothing(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 7), DT_F32);
  return NULL;
}

static dt_status_t refusing(dt_op_call_t *call, void *closure) {
  (void)call, (void)closure;
  return dt_status_make(DT_E_DTYPE, "expected halves");
}

static dt_status_t lying(dt_op_call_t *call, dt_value_t *results, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  (void)closure;
  results[0] = dt_scalar(t, DT_F32, 1);
  results[1] = results[0];
  dt_op_set_items(call, dt_sym_const(t, 3));
  return NULL;
}

// What makes the op of itself: while it is inferred, and as its decomposition.
static dt_status_t endless_infer(dt_op_call_t *call, void *closure) {
  dt_value_t x = dt_op_call_input(call, 0), out;
  (void)closure;
  dt_op_call(dt_op_call_trace(call), "test.endless", 1, &x, 0, NULL, 1, &out);
  return NULL;
}

static dt_status_t itself(dt_op_call_t *call, dt_value_t *results, void *closure) {
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_call(dt_op_call_trace(call), "test.itself", 1, &x, 0, NULL, 2, results);
  return NULL;
}

static void test_calls_that_are_refused(void **state) {
  fixture_t *f = *state;
  dt_op_options_t odd = twice_op;
  register_op(f, scale_op);
  register_op(f,
              (dt_op_options_t){.name = "test.none", .infer = no_result, .kernel = scale_kernel});
  register_op(f,
              (dt_op_options_t){.name = "test.odd", .infer = odd_result, .kernel = scale_kernel});
  register_op(
      f, (dt_op_options_t){.name = "test.low", .infer = stored_result, .kernel = scale_kernel});
  register_op(
      f, (dt_op_options_t){.name = "test.like", .infer = like_nothing, .kernel = scale_kernel});
  register_op(f, (dt_op_options_t){.name = "test.half", .infer = refusing, .kernel = scale_kernel});
  odd.name = "test.lies";
  odd.decompose = lying;
  register_op(f, odd);
  odd.name = "test.itself";
  odd.decompose = itself;
  register_op(f, odd);
  register_op(
      f, (dt_op_options_t){.name = "test.endless", .infer = endless_infer, .kernel = scale_kernel});
  expect_refused(f, "1test.itself", DT_E_LIMIT, "an op cannot be made of itself");
  expect_refused(f, "1test.endless", DT_E_LIMIT, "an op cannot be made of itself");
  expect_refused(f, "1test.absent", DT_E_UNSUPPORTED, "test.absent: the function's runtime has no");
  expect_refused(f, "2test.scale", DT_E_ARGUMENT, "test.scale: 2 inputs; expected 1 to 1");
  expect_refused(f, "0test.scale", DT_E_ARGUMENT, "test.scale: 0 inputs");
  expect_refused(f, "1test.none", DT_E_ARGUMENT, "test.none: infer set no result");
  expect_refused(f, "1test.odd", DT_E_ARGUMENT, "test.odd: result 1 is set; the next is 0");
  expect_refused(f, "1test.low", DT_E_DTYPE, "result 0 is f8e5m2, a dtype for storage");
  expect_refused(f, "1test.like", DT_E_ARGUMENT, "like");
  expect_refused(f, "1test.half", DT_E_DTYPE, "test.half: expected halves");
  expect_refused(f, "1test.lies", DT_E_STATE, "outside of infer");
}

static void test_registrations_that_are_refused(void **state) {
  fixture_t *f = *state;
  static const char *const names[] = {NULL, "", "scale", ".scale", "a..b", "a.", "a b.c", "1a.b"};
  dt_op_options_t options = scale_op;
  options.struct_size = sizeof(options);
  for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
    options.name = names[k];
    expect_told(dt_op_register(f->runtime, &options), DT_E_ARGUMENT, "dt_op_register: name: ");
  }
  options.name = "test.scale";
  expect_told(dt_op_register(NULL, &options), DT_E_ARGUMENT, "runtime: NULL");
  expect_told(dt_op_register(f->runtime, NULL), DT_E_ARGUMENT, "options: NULL");
  options.kernel = NULL;
  expect_told(dt_op_register(f->runtime, &options), DT_E_ARGUMENT,
              "kernel, decompose, device_kernel: NULL");
  options.kernel = scale_kernel;
  options.n_numbers = 1;
  expect_told(dt_op_register(f->runtime, &options), DT_E_ARGUMENT, "n_numbers: 1; expected 0");
  options.n_numbers = 0;
  options.most_inputs = 65;
  expect_told(dt_op_register(f->runtime, &options), DT_E_LIMIT, "the most is 64");
  options.most_inputs = 0;
  expect_ok(dt_op_register(f->runtime, &options));
  expect_told(dt_op_register(f->runtime, &options), DT_E_ARGUMENT, "has an op \"test.scale\"");
  expect_told(dt_op_remove(f->runtime, "test.other"), DT_E_ARGUMENT, "no op is named test.other");
  expect_ok(dt_op_remove(f->runtime, "test.scale"));
  expect_refused(f, "1test.scale", DT_E_UNSUPPORTED, "no such op");
}

// ---- Owners -------------------------------------------------------------------------------------
static void count_free(void *closure) { (*(int *)closure)++; }

static void test_a_closure_lives_as_long_as_its_functions(void **state) {
  fixture_t own = fixture_on(DT_CPU, 2);
  dt_op_options_t options = scale_op;
  int freed = 0;
  (void)state;
  options.closure = &freed;
  options.closure_free = count_free;
  register_op(&own, options);
  options.struct_size = sizeof(options);
  expect_told(dt_op_register(own.runtime, &options), DT_E_ARGUMENT, "already");
  assert_int_equal(freed, 0);
  dt_function_t *function = make(&own, alone, one_matrix, 1, NULL);
  dt_tensor_t *x = tensor_full(1, 2, SIZES(2, 2)), *out = NULL;
  expect_ok(dt_op_remove(own.runtime, "test.scale"));
  expect_ok(dt_call(own.session, function, &x, 1, &out, 1, NULL));
  assert_true(((const float *)dt_tensor_data(out))[0] == -2);
  assert_int_equal(freed, 0);
  RELEASE(x, out);
  dt_function_release(function);
  fixture_end(&own);
  assert_int_equal(freed, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_a_kernel_among_ours_at_every_size, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_each_item_runs_once, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_results_that_are_read_and_not, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_results_of_the_function, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_temporaries_of_many_dims, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_results_in_other_orders, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_the_data_decide_a_size, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_a_decomposition_is_whole_for_passes, setup,
                                      fixture_close),
      cmocka_unit_test_setup_teardown(test_a_kernel_in_a_loop, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_arguments_that_are_written_with_results, setup,
                                      fixture_close),
      cmocka_unit_test_setup_teardown(test_a_kernel_fails_and_the_next_call_is_right, setup,
                                      fixture_close),
      cmocka_unit_test_setup_teardown(test_calls_that_are_refused, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_registrations_that_are_refused, setup, fixture_close),
      cmocka_unit_test(test_a_closure_lives_as_long_as_its_functions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

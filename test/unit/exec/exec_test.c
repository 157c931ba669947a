// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of this folder; see exec_test.h.
#include "test/unit/exec/exec_test.h"
#include "ductile/experimental.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void expect_ok_at(dt_status_t status, const char *file, int line) {
  expect_code_at(status, DT_OK, file, line);
}

void expect_code_at(dt_status_t status, dt_code_t code, const char *file, int line) {
  expect_told_at(status, code, "", file, line);
}

void expect_told_at(dt_status_t status, dt_code_t code, const char *part, const char *file,
                    int line) {
  dt_code_t actual = dt_status_code(status);
  bool told = strstr(dt_status_message(status), part) != NULL;
  if (actual != code || !told)
    print_error("got %s (%s); expected %s with '%s'\n", dt_code_name(actual),
                dt_status_message(status), dt_code_name(code), part);
  dt_status_free(status);
  _assert_true(actual == code && told, "status", file, line);
}

dt_answer_t compiled_answer(void) {
#ifdef DT_HAVE_LLVM
  return DT_ANSWER_COMPILED;
#else
  return DT_ANSWER_EVALUATOR;
#endif
}

// ---- Numbers --------------------------------------------------------------------------------------

uint64_t rng_next(rng_t *rng) {
  uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t rng_between(rng_t *rng, int64_t low, int64_t high) {
  return low + (int64_t)(rng_next(rng) % (uint64_t)(high - low + 1));
}

float rng_float(rng_t *rng) {
  return (float)((double)(rng_next(rng) >> 11) / (double)((uint64_t)1 << 52) - 1.0);
}

// ---- Tensors --------------------------------------------------------------------------------------

dt_tensor_t *tensor_f32(rng_t *rng, uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create_empty(DT_F32, rank, sizes, &tensor));
  float *data = dt_tensor_data(tensor);
  for (int64_t i = 0; i < dt_tensor_count(tensor); i++)
    data[i] = rng_float(rng);
  return tensor;
}

dt_tensor_t *tensor_full(float value, uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create_empty(DT_F32, rank, sizes, &tensor));
  float *data = dt_tensor_data(tensor);
  for (int64_t i = 0; i < dt_tensor_count(tensor); i++)
    data[i] = value;
  return tensor;
}

dt_tensor_t *tensor_i64(uint32_t rank, const int64_t *sizes, const int64_t *values) {
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create_empty(DT_I64, rank, sizes, &tensor));
  memcpy(dt_tensor_data(tensor), values, (size_t)dt_tensor_count(tensor) * sizeof(int64_t));
  return tensor;
}

dt_tensor_t *tensor_transposed(dt_tensor_t *base) {
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
  uint32_t rank = dt_tensor_rank(base);
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t from = k == 0 ? 1 : k == 1 ? 0 : k;
    sizes[k] = dt_tensor_sizes(base)[from];
    strides[k] = dt_tensor_strides(base)[from];
  }
  dt_tensor_desc_t desc = {.dtype = dt_tensor_dtype(base),
                           .rank = rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = dt_tensor_data(base)};
  dt_tensor_t *tensor = NULL;
  expect_ok(dt_tensor_create(&desc, &tensor));
  return tensor;
}

void expect_close(dt_tensor_t *actual, dt_tensor_t *expected, double atol, double rtol,
                  const char *what) {
  assert_int_equal(dt_tensor_rank(actual), dt_tensor_rank(expected));
  for (uint32_t k = 0; k < dt_tensor_rank(actual); k++)
    assert_int_equal(dt_tensor_sizes(actual)[k], dt_tensor_sizes(expected)[k]);
  const float *got = dt_tensor_data(actual), *want = dt_tensor_data(expected);
  for (int64_t i = 0; i < dt_tensor_count(actual); i++) {
    if (isnan(got[i]) && isnan(want[i]))
      continue;
    double difference = fabs((double)got[i] - (double)want[i]);
    if (got[i] != want[i] && !(difference <= atol + rtol * fabs((double)want[i]))) {
      print_error("%s: element %lld: got %.9g; expected %.9g\n", what, (long long)i, (double)got[i],
                  (double)want[i]);
      fail();
    }
  }
}

int fixture_open(void **state, uint32_t threads, uint64_t seed) {
  static fixture_t fixture;
  fixture = (fixture_t){.rng = {seed}};
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = threads};
  expect_ok(dt_runtime_create(&options, &fixture.runtime));
  expect_ok(dt_session_create(fixture.runtime, NULL, &fixture.session));
  *state = &fixture;
  return 0;
}

int fixture_close(void **state) {
  fixture_t *fixture = *state;
  dt_session_destroy(fixture->session);
  dt_runtime_release(fixture->runtime);
  return 0;
}

dt_function_options_t options_of(uint32_t n, const dt_input_decl_t *inputs) {
  return (dt_function_options_t){.struct_size = sizeof(dt_function_options_t),
                                 .name = "f",
                                 .n_inputs = n,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .answer = compiled_answer()};
}

dt_function_t *function_of(fixture_t *fixture, dt_program_fn_t program, void *closure,
                           const dt_function_options_t *options) {
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(fixture->runtime, program, closure, options, &function));
  return function;
}

dt_function_counters_t stats_of(dt_function_t *function) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_counters(function, &stats));
  return stats;
}

uint32_t variants_of(dt_function_t *function) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_counters(function, &stats));
  return stats.variants;
}

dt_function_t *subject_function(dt_runtime_t *runtime, const subject_t *subject, void *closure,
                                dt_answer_t answer) {
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = subject->name,
                                   .n_inputs = subject->n_inputs,
                                   .n_outputs = subject->n_outputs,
                                   .inputs = subject->inputs,
                                   .answer = answer};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(runtime, subject->program, closure, &options, &function));
  assert_non_null(function);
  return function;
}

// ---- Programs -------------------------------------------------------------------------------------

static const dt_dim_decl_t rows_width[] = {{.name = "rows"}, {.name = "width"}};
static const dt_dim_decl_t width_only[] = {{.name = "width"}};
static const dt_dim_decl_t count_only[] = {{.name = "n"}};

static dt_status_t add_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}
static const dt_input_decl_t add_inputs[] = {
    {.name = "a", .dtype = DT_F32, .rank = 1, .dims = count_only},
    {.name = "b", .dtype = DT_F32, .rank = 1, .dims = count_only}};
const subject_t add_subject = {"add", add_program, 2, 1, add_inputs};

static dt_status_t mlp_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  const mlp_t *mlp = closure;
  dt_value_t h = dt_matmul(t, in[0], dt_constant(t, "w1", mlp->w1));
  h = dt_gelu(t, dt_add(t, h, dt_constant(t, "b1", mlp->b1)));
  h = dt_matmul(t, h, dt_constant(t, "w2", mlp->w2));
  out[0] = dt_add(t, h, dt_constant(t, "b2", mlp->b2));
  return NULL;
}
static const dt_dim_decl_t mlp_dims[] = {
    {.name = "batch"}, {.name = "seq"}, {.is_static = true, .value = 16}};
static const dt_input_decl_t mlp_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 3, .dims = mlp_dims}};
const subject_t mlp_subject = {"mlp", mlp_program, 1, 1, mlp_inputs};

void mlp_init(mlp_t *mlp, rng_t *rng) {
  mlp->w1 = tensor_f32(rng, 2, (const int64_t[]){16, 33});
  mlp->b1 = tensor_f32(rng, 1, (const int64_t[]){33});
  mlp->w2 = tensor_f32(rng, 2, (const int64_t[]){33, 9});
  mlp->b2 = tensor_f32(rng, 1, (const int64_t[]){9});
}

void mlp_fini(mlp_t *mlp) {
  dt_tensor_release(mlp->w1);
  dt_tensor_release(mlp->b1);
  dt_tensor_release(mlp->w2);
  dt_tensor_release(mlp->b2);
}

static dt_status_t layer_norm_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                      void *closure) {
  (void)closure;
  out[0] = dt_layer_norm(t, in[0], in[1], in[2], 1e-5);
  return NULL;
}
static const dt_input_decl_t layer_norm_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = rows_width},
    {.name = "scale", .dtype = DT_F32, .rank = 1, .dims = width_only},
    {.name = "bias", .dtype = DT_F32, .rank = 1, .dims = width_only}};
const subject_t layer_norm_subject = {"layer_norm", layer_norm_program, 3, 1, layer_norm_inputs};

static const dt_input_decl_t one_matrix[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = rows_width}};

static dt_status_t softmax_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, in[0], -1);
  return NULL;
}
const subject_t softmax_subject = {"softmax", softmax_program, 1, 1, one_matrix};

static dt_status_t columns_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  (void)closure;
  out[0] = dt_sum(t, in[0], 1, (const int32_t[]){0}, false);
  return NULL;
}
const subject_t columns_subject = {"columns", columns_program, 1, 1, one_matrix};

static dt_status_t transpose_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                     void *closure) {
  (void)closure;
  out[0] = dt_transpose(t, in[0], 0, 1);
  return NULL;
}
const subject_t transpose_subject = {"transpose", transpose_program, 1, 1, one_matrix};

static dt_status_t gather_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  out[0] = dt_gather(t, in[0], in[1], 0);
  return NULL;
}
static const dt_input_decl_t gather_inputs[] = {
    {.name = "table", .dtype = DT_F32, .rank = 2, .dims = rows_width},
    {.name = "ids", .dtype = DT_I64, .rank = 1, .dims = count_only}};
const subject_t gather_subject = {"gather", gather_program, 2, 1, gather_inputs};

static dt_status_t scale_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  dt_value_t w = dt_constant(t, "w", closure);
  // Depends on the constant alone, so it is computed once for each of its values.
  dt_value_t factor = dt_sum(t, dt_mul(t, w, w), 0, NULL, false);
  out[0] = dt_mul(t, in[0], factor);
  return NULL;
}
static const dt_input_decl_t scale_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = count_only}};
const subject_t scale_subject = {"scale", scale_program, 1, 1, scale_inputs};

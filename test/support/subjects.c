// SPDX-License-Identifier: Apache-2.0
// See subjects.h.
#include "test/support/subjects.h"

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

dt_status_t negate_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_neg(t, in[0]);
  return NULL;
}

dt_status_t double_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}

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

static dt_status_t turned_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  dt_value_t x = dt_transpose(t, in[0], 0, 1);
  return mlp_program(t, &x, out, closure);
}
const subject_t turned_subject = {"turned", turned_program, 1, 1, mlp_inputs};

void mlp_init(mlp_t *mlp, rng_t *rng) {
  mlp->w1 = tensor_f32(rng, 2, SIZES(16, 33));
  mlp->b1 = tensor_f32(rng, 1, SIZES(33));
  mlp->w2 = tensor_f32(rng, 2, SIZES(33, 9));
  mlp->b2 = tensor_f32(rng, 1, SIZES(9));
}

void mlp_fini(mlp_t *mlp) { RELEASE(mlp->w1, mlp->b1, mlp->w2, mlp->b2); }

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

// ---- Kept code ------------------------------------------------------------------------------------
static dt_status_t whole_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  const int32_t first[] = {0};
  dt_value_t w = dt_constant(t, "w", closure);
  dt_value_t factor = dt_sum(t, dt_mul(t, w, w), 1, first, false);
  dt_value_t rows = dt_gather(t, in[0], in[1], 0);
  out[0] = dt_mul(t, dt_softmax(t, rows, -1), factor);
  dt_sym_t n = dt_item(t, dt_amax(t, in[1], 1, first, false));
  out[1] = dt_slice(t, in[0], 0, dt_sym_const(t, 0), n, 1);
  return NULL;
}

static const dt_dim_decl_t whole_table_dims[] = {{.name = "rows"}, {.name = "width", .max = 4096}};
static const dt_dim_decl_t whole_id_dims[] = {{.name = "n"}};
static const dt_input_decl_t whole_inputs[] = {
    {.name = "table", .dtype = DT_F32, .rank = 2, .dims = whole_table_dims},
    {.name = "ids", .dtype = DT_I64, .rank = 1, .dims = whole_id_dims}};
const subject_t whole_subject = {"all", whole_program, 2, 2, whole_inputs};

static const dt_dim_decl_t whole_short_dims[] = {{.name = "rows"}, {.name = "width", .max = 2048}};
static const dt_input_decl_t whole_short_inputs[] = {
    {.name = "table", .dtype = DT_F32, .rank = 2, .dims = whole_short_dims},
    {.name = "ids", .dtype = DT_I64, .rank = 1, .dims = whole_id_dims}};
const subject_t whole_short_subject = {"all", whole_program, 2, 2, whole_short_inputs};

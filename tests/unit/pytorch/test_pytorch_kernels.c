// SPDX-License-Identifier: Apache-2.0
// Behaviours of dynamic-shape compilers in which data decides sizes, by number: right answers by
// compiled code, calls refused where data breaks what a program states, and how often is compiled.
#include "tests/unit/exec/exec_test.h"

#include "lower/passes/passes.h"
#include "runtime/trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef dt_value_t v_t;
#define MAX_INPUTS 4

// ---- Programs and calls -------------------------------------------------------------------------
typedef v_t (*make_t)(dt_trace_t *t, const v_t *in);

static dt_status_t program(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  const make_t *make = closure;
  out[0] = (*make)(t, in);
  return NULL;
}

static dt_runtime_t *runtime;

// One function, called again and again.
typedef struct rig_t {
  make_t make;
  dt_function_t *function;
  dt_session_t *session;
} rig_t;

static void rig_init(rig_t *rig, make_t make, uint32_t n, const dt_input_decl_t *inputs,
                     dt_answer_t answer) {
  rig->make = make;
  const subject_t subject = {"behaviour", program, n, 1, inputs};
  rig->function = subject_function(runtime, &subject, &rig->make, answer);
  expect_ok(dt_session_create(runtime, &rig->session));
}

static void rig_fini(rig_t *rig) {
  dt_session_destroy(rig->session);
  dt_function_release(rig->function);
}

static dt_function_stats_t rig_stats(const rig_t *rig) {
  dt_function_stats_t stats = {.struct_size = sizeof(stats)};
  expect_ok(dt_function_stats(rig->function, &stats));
  return stats;
}

static void expect_compiles(const rig_t *rig, uint64_t compiles) {
  assert_int_equal(rig_stats(rig).compiles, compiles);
}

// A tensor of `data`, copied.
static dt_tensor_t *tensor(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                           const void *data) {
  dt_tensor_t *made = NULL;
  expect_ok(dt_tensor_create_empty(dtype, rank, sizes, &made));
  size_t bytes = (size_t)dt_tensor_count(made) * dt_dtype_size(dtype);
  if (bytes)
    memcpy(dt_tensor_data(made), data, bytes);
  return made;
}
#define N(...) ((const int64_t[]){__VA_ARGS__})
#define F(...) ((const float[]){__VA_ARGS__})
#define I64(rank, sizes, ...) tensor(DT_I64, (rank), (sizes), N(__VA_ARGS__))
#define F32(rank, sizes, ...) tensor(DT_F32, (rank), (sizes), F(__VA_ARGS__))
#define INT(value) tensor(DT_I64, 0, NULL, N(value))

// Calls with tensors that are released here.
static dt_status_t call_with(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs,
                             dt_tensor_t **out) {
  *out = NULL;
  dt_status_t status = dt_call(rig->session, rig->function, inputs, n, out, 1);
  for (uint32_t k = 0; k < n; k++)
    dt_tensor_release(inputs[k]);
  return status;
}
#define TENSORS(...)                                                                               \
  (uint32_t)(sizeof((dt_tensor_t *[]){__VA_ARGS__}) / sizeof(dt_tensor_t *)), (dt_tensor_t *[]) {  \
    __VA_ARGS__                                                                                    \
  }

// The answer's sizes and elements; floats within a relative error of 1e-6.
static void expect_answer(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs, uint32_t rank,
                          const int64_t *sizes, const double *want, int line) {
  dt_tensor_t *out = NULL;
  expect_ok_at(call_with(rig, n, inputs, &out), __FILE__, line);
  bool right = dt_tensor_rank(out) == rank;
  for (uint32_t k = 0; right && k < rank; k++)
    right = dt_tensor_sizes(out)[k] == sizes[k];
  if (!right)
    fail_msg("line %d: sizes differ", line);
  for (int64_t k = 0; k < dt_tensor_count(out); k++) {
    const void *data = dt_tensor_data(out);
    double got = dt_tensor_dtype(out) == DT_I64    ? (double)((const int64_t *)data)[k]
                 : dt_tensor_dtype(out) == DT_F64  ? ((const double *)data)[k]
                 : dt_tensor_dtype(out) == DT_BOOL ? (double)((const uint8_t *)data)[k]
                                                   : (double)((const float *)data)[k];
    bool close = got == want[k] || (isnan(got) && isnan(want[k])) ||
                 fabs(got - want[k]) <= 1e-6 * fabs(want[k]);
    if (!close)
      fail_msg("line %d: element %lld is %g, expected %g", line, (long long)k, got, want[k]);
  }
  dt_tensor_release(out);
}
#define D(...) ((const double[]){__VA_ARGS__})
#define EXPECT(rig, tensors, rank, sizes, want)                                                    \
  expect_answer((rig), tensors, (rank), (sizes), (want), __LINE__)

static void expect_refused(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs, dt_code_t code,
                           const char *part, int line) {
  dt_tensor_t *out = NULL;
  expect_told_at(call_with(rig, n, inputs, &out), code, part, __FILE__, line);
  assert_null(out);
}
#define REFUSED(rig, tensors, code, part) expect_refused((rig), tensors, (code), (part), __LINE__)

// Declarations: one tensor a letter: i, rank-0 i64; j, rank-1 i64; x, rank-1 f32; m, rank-2 f32; b,
// rank-1 bool; f, rank-0 f32.
static uint32_t declare(const char *letters, dt_input_decl_t *out) {
  uint32_t n = 0;
  for (; letters[n]; n++) {
    char c = letters[n];
    out[n] = (dt_input_decl_t){.dtype = strchr("ij", c) ? DT_I64
                                        : c == 'b'      ? DT_BOOL
                                                        : DT_F32,
                               .rank = strchr("if", c) ? 0
                                       : c == 'm'      ? 2
                                                       : 1};
  }
  return n;
}

static void begin_with(rig_t *rig, make_t make, const char *letters, dt_answer_t answer) {
  dt_input_decl_t inputs[MAX_INPUTS];
  uint32_t n = declare(letters, inputs);
  rig_init(rig, make, n, inputs, answer);
}
static void begin(rig_t *rig, make_t make, const char *letters) {
  begin_with(rig, make, letters, compiled_answer());
}

static dt_sym_t number(dt_trace_t *t, int64_t value) { return dt_sym_const(t, value); }
static dt_sym_t absolute(dt_trace_t *t, dt_sym_t a) {
  return dt_sym_max(t, a, dt_sym_sub(t, number(t, 0), a));
}

// ---- 61 to 67: symbolic reasoning -----------------------------------------------------------------
// The question that goes on without an answer: it never guards, and takes what it is told to.
static void behaviour_61_guard_or_false_takes_the_false_branch(void **state) {
  (void)state;
  dt_symenv_t *env = NULL;
  expect_ok(dt__symenv_create(&env));
  dt_sym_t u = dt__sym_new(env, DT_SYMBOL_UNBACKED, (dt_range_t){0, 9}, NULL, "item");
  const dt_origin_t origin = {"item", __FILE__, __LINE__};
  bool answer = true;
  expect_ok(
      dt__sym_decide(env, dt__sym_eq(env, u, dt__sym_const(env, 1)), false, &origin, &answer));
  assert_false(answer);
  assert_int_equal(dt__sym_known(env, dt__sym_eq(env, u, dt__sym_const(env, 1))), DT_UNKNOWN);
  expect_ok(dt__sym_decide(env, dt__sym_eq(env, u, u), false, &origin, &answer));
  assert_true(answer);
  dt__symenv_destroy(env);
}

static v_t make_sum_check(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), a = dt_dim(t, in[1], 0), b = dt_dim(t, in[1], 1);
  dt_check(t, dt_sym_eq(t, dt_sym_add(t, u, dt_sym_add(t, a, b)), number(t, 102)), "sum is 102");
  return dt_add(t, in[1], dt_cast(t, in[0], DT_F32));
}

static v_t make_sum_check_then_pin(dt_trace_t *t, const v_t *in) {
  v_t out = make_sum_check(t, in);
  (void)dt_sym_int(t, dt_dim(t, in[1], 0));
  return out;
}

static dt_tensor_t *zeros(int64_t rows, int64_t columns) {
  return tensor_full(0, 2, N(rows, columns));
}

static void behaviour_62_a_sum_with_data_is_checked(void **state) {
  (void)state;
  static const make_t makes[] = {make_sum_check, make_sum_check_then_pin};
  const dt_answer_t answers[] = {compiled_answer(), DT_ANSWER_EVALUATOR};
  double want[100];
  for (int k = 0; k < 100; k++)
    want[k] = 50;
  for (int m = 0; m < 2; m++)
    for (int a = 0; a < 2; a++) {
      rig_t rig;
      begin_with(&rig, makes[m], "im", answers[a]);
      EXPECT(&rig, TENSORS(INT(50), zeros(2, 50)), 2, N(2, 50), want);
      REFUSED(&rig, TENSORS(INT(51), zeros(2, 50)), DT_E_SHAPE, "sum is 102");
      EXPECT(&rig, TENSORS(INT(50), zeros(2, 50)), 2, N(2, 50), want);
      REFUSED(&rig, TENSORS(INT(50), zeros(2, 49)), DT_E_SHAPE, "sum is 102");
      assert_int_equal(variants_of(rig.function), 1);
      rig_fini(&rig);
    }
}

static v_t make_not_five(dt_trace_t *t, const v_t *in) {
  dt_check(t, dt_sym_eq(t, dt_sym_eq(t, dt_item(t, in[0]), number(t, 5)), number(t, 0)),
           "not five");
  return dt_neg(t, in[0]);
}

static v_t make_one_is_five(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_sym_eq(t, dt_item(t, in[0]), number(t, 5));
  dt_sym_t b = dt_sym_eq(t, dt_item(t, in[1]), number(t, 5));
  dt_check(t, dt_sym_le(t, number(t, 1), dt_sym_add(t, a, b)), "one is five");
  return dt_add(t, in[0], in[1]);
}

static void behaviour_63_checks_of_unequal_and_of_either(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_not_five, "i");
  EXPECT(&rig, TENSORS(INT(100)), 0, NULL, D(-100));
  REFUSED(&rig, TENSORS(INT(5)), DT_E_SHAPE, "not five");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_one_is_five, "ii");
  EXPECT(&rig, TENSORS(INT(5), INT(1)), 0, NULL, D(6));
  EXPECT(&rig, TENSORS(INT(1), INT(5)), 0, NULL, D(6));
  REFUSED(&rig, TENSORS(INT(1), INT(1)), DT_E_SHAPE, "one is five");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_double(dt_trace_t *t, const v_t *in) { return dt_add(t, in[0], in[0]); }

// Every dim is what others call unbacked: sizes of 1 are nothing special.
static void behaviour_64_no_shape_guard_for_one_and_many(void **state) {
  (void)state;
  rig_t rig;
  double want[20] = {0};
  char *text = NULL;
  begin(&rig, make_double, "m");
  EXPECT(&rig, TENSORS(zeros(1, 1)), 2, N(1, 1), want);
  EXPECT(&rig, TENSORS(zeros(4, 5)), 2, N(4, 5), want);
  expect_compiles(&rig, 1);
  expect_ok(dt_function_explain(rig.function, &text));
  assert_null(strstr(text, "=="));
  dt_text_free(text);
  rig_fini(&rig);
}

static v_t make_same_size(dt_trace_t *t, const v_t *in) {
  v_t a = dt_masked_select(t, in[0], dt_lt(t, in[0], dt_scalar(t, DT_F32, 0)));
  v_t b = dt_masked_select(t, in[1], dt_lt(t, in[1], dt_scalar(t, DT_F32, 0)));
  dt_check(t, dt_sym_eq(t, dt_dim(t, a, 0), dt_dim(t, b, 0)), "as many in both");
  return dt_add(t, a, b);
}

static void behaviour_65_unequal_sizes_from_data_are_refused(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_same_size, "xx");
  EXPECT(&rig, TENSORS(F32(1, N(3), -1, 2, -3), F32(1, N(2), -5, -6)), 1, N(2), D(-6, -9));
  REFUSED(&rig, TENSORS(F32(1, N(3), -1, 2, -3), F32(1, N(2), -5, 6)), DT_E_SHAPE,
          "as many in both");
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, -3), F32(1, N(1), -5)), 1, N(1), D(-8));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_square(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), sizes[2] = {u, u};
  return dt_neg(t, dt_reshape(t, in[1], 2, sizes));
}

// Strides of 2, then of 1. The stride of the first is a symbol of its variant, so that dense
// arguments need no other one.
static void behaviour_66_views_by_data_of_strided_arguments(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_square, "ix");
  static float memory[128];
  double want[49];
  for (int k = 0; k < 128; k++)
    memory[k] = (float)k;
  for (int64_t stride = 2; stride >= 1; stride--)
    for (int64_t side = 2; side <= 7; side += 5) {
      const int64_t size = side * side;
      dt_tensor_desc_t desc = {
          .dtype = DT_F32, .rank = 1, .sizes = &size, .strides = &stride, .data = memory};
      dt_tensor_t *x = NULL;
      expect_ok(dt_tensor_create(&desc, &x));
      for (int64_t k = 0; k < size; k++)
        want[k] = -(double)(k * stride);
      EXPECT(&rig, TENSORS(INT(side), x), 2, N(side, side), want);
      expect_compiles(&rig, 1);
    }
  REFUSED(&rig, TENSORS(INT(3), F32(1, N(4), 1, 2, 3, 4)), DT_E_SHAPE, "reshape");
  rig_fini(&rig);
}

static v_t make_add(dt_trace_t *t, const v_t *in) { return dt_add(t, in[0], in[1]); }

static void behaviour_67_broadcasting_is_asked_of_equal_sizes_once(void **state) {
  (void)state;
  rig_t rig;
  double want[100] = {0};
  begin(&rig, make_add, "mm");
  EXPECT(&rig, TENSORS(zeros(1, 10), zeros(1, 10)), 2, N(1, 10), want);
  EXPECT(&rig, TENSORS(zeros(1, 1), zeros(1, 1)), 2, N(1, 1), want);
  EXPECT(&rig, TENSORS(zeros(10, 10), zeros(10, 10)), 2, N(10, 10), want);
  EXPECT(&rig, TENSORS(zeros(10, 10), zeros(1, 10)), 2, N(10, 10), want);
  expect_compiles(&rig, rig_stats(&rig).variants);
  assert_true(rig_stats(&rig).variants <= 2);
  rig_fini(&rig);
}

// ---- 68 to 79: kernels ----------------------------------------------------------------------------
static v_t make_plus_nothing(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_dim(t, in[0], 0);
  v_t none = dt_sub(t, dt_full(t, DT_I64, 1, 1, &n), dt_scalar(t, DT_I64, 1));
  return dt_add(t, in[0], none);
}

// The graph that is lowered: nothing but the argument. What is left to run is the copy that makes a
// result of it. (Of floats x + 0 is not x where x is -0, so it is one kernel that reads x alone.)
static void behaviour_68_a_uniform_zero_adds_no_kernel(void **state) {
  (void)state;
  dt_input_decl_t inputs[1];
  make_t make = make_plus_nothing;
  dt_trace_request_t request = {.name = "f",
                                .program = program,
                                .closure = &make,
                                .n_inputs = declare("j", inputs),
                                .n_outputs = 1,
                                .inputs = inputs};
  dt_traced_t *traced = NULL;
  const dt_graph_t *graph = NULL;
  expect_ok(dt__trace_run(&request, &traced));
  expect_ok(dt__pass_fold(&traced->arena, traced->graph, &graph));
  expect_ok(dt__pass_dce(&traced->arena, graph, &graph));
  assert_int_equal(graph->nodes.len, 1);
  assert_int_equal(graph->nodes.items[0].op, DT_OP_input);
  dt__traced_destroy(traced);
  rig_t rig;
  begin(&rig, make, "j");
  EXPECT(&rig, TENSORS(I64(1, N(3), 1, 2, 3)), 1, N(3), D(1, 2, 3));
  EXPECT(&rig, TENSORS(I64(1, N(2), 7, -8)), 1, N(2), D(7, -8));
  expect_compiles(&rig, 1);
  if (compiled_answer() == DT_ANSWER_COMPILED)
    assert_int_equal(rig_stats(&rig).kernels, 1);
  rig_fini(&rig);
}

static v_t make_filled(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_item(t, in[0]), sizes[2] = {n, n};
  return dt_full(t, DT_F32, 7, 2, sizes);
}

static void behaviour_69_a_filled_square_of_a_number(void **state) {
  (void)state;
  rig_t rig;
  double want[16];
  for (int k = 0; k < 16; k++)
    want[k] = 7;
  begin(&rig, make_filled, "i");
  EXPECT(&rig, TENSORS(INT(3)), 2, N(3, 3), want);
  EXPECT(&rig, TENSORS(INT(4)), 2, N(4, 4), want);
  EXPECT(&rig, TENSORS(INT(0)), 2, N(0, 0), want);
  REFUSED(&rig, TENSORS(INT(-1)), DT_E_SHAPE, "full");
  REFUSED(&rig, TENSORS(INT(INT64_C(1) << 50)), DT_E_SHAPE, "full");
  REFUSED(&rig, TENSORS(INT(INT64_C(1) << 46)), DT_E_LIMIT, "");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_slice_by_sizes(dt_trace_t *t, const v_t *in) {
  dt_sym_t way = dt_sym_sub(t, dt_dim(t, in[1], 0), dt_dim(t, in[2], 0)), zero = number(t, 0);
  v_t parts[2] = {dt_slice_range(t, in[0], 0, zero, way, 1),
                  dt_slice_range(t, in[0], 0, zero, absolute(t, way), 1)};
  return dt_concat(t, 2, parts, 0);
}

static v_t make_slice_by_items(dt_trace_t *t, const v_t *in) {
  dt_sym_t way = dt_sym_sub(t, dt_item(t, in[1]), dt_item(t, in[2])), zero = number(t, 0);
  v_t parts[2] = {dt_slice_range(t, in[0], 0, zero, way, 1),
                  dt_slice_range(t, in[0], 0, zero, absolute(t, way), 1)};
  return dt_concat(t, 2, parts, 0);
}

static void behaviour_70_slices_by_differences_of_both_signs(void **state) {
  (void)state;
  rig_t rig;
#define FIVE F32(1, N(5), 1, 2, 3, 4, 5)
  begin(&rig, make_slice_by_sizes, "xxx");
  EXPECT(&rig, TENSORS(FIVE, F32(1, N(3), 0, 0, 0), F32(1, N(1), 0)), 1, N(4), D(1, 2, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, F32(1, N(1), 0), F32(1, N(3), 0, 0, 0)), 1, N(5), D(1, 2, 3, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, F32(1, N(1), 0), F32(1, N(1), 0)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_slice_by_items, "xii");
  EXPECT(&rig, TENSORS(FIVE, INT(3), INT(1)), 1, N(4), D(1, 2, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, INT(1), INT(3)), 1, N(5), D(1, 2, 3, 1, 2));
  EXPECT(&rig, TENSORS(FIVE, INT(9), INT(0)), 1, N(10), D(1, 2, 3, 4, 5, 1, 2, 3, 4, 5));
  EXPECT(&rig, TENSORS(FIVE, INT(0), INT(9)), 1, N(5), D(1, 2, 3, 4, 5));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// y over the middle of x: from half of its size on.
static v_t make_slice_scatter(dt_trace_t *t, const v_t *in) {
  dt_sym_t half = dt_sym_floordiv(t, dt_dim(t, in[0], 0), number(t, 2)), zero = number(t, 0);
  v_t parts[2] = {dt_slice_range(t, in[0], 0, zero, half, 1),
                  dt_slice_range(t, in[1], 0, half, number(t, INT64_MAX), 1)};
  return dt_concat(t, 2, parts, 0);
}

static v_t make_pad_to_blocks(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_dim(t, in[0], 0), block = dt_dim(t, in[1], 0), one = number(t, 1);
  dt_sym_t up = dt_sym_floordiv(t, dt_sym_add(t, n, dt_sym_sub(t, block, one)), block);
  dt_sym_t high = dt_sym_sub(t, dt_sym_mul(t, up, block), n), low = number(t, 0);
  return dt_pad(t, in[0], &low, &high, -1);
}

static void behaviour_71_halves_and_rounded_up_pads_are_exact(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_slice_scatter, "xx");
  EXPECT(&rig, TENSORS(F32(1, N(4), 1, 2, 3, 4), F32(1, N(4), 5, 6, 7, 8)), 1, N(4), D(1, 2, 7, 8));
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, 3), F32(1, N(3), 5, 6, 7)), 1, N(3), D(1, 6, 7));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_pad_to_blocks, "xx");
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, 3), F32(1, N(2), 0, 0)), 1, N(4), D(1, 2, 3, -1));
  EXPECT(&rig, TENSORS(F32(1, N(3), 1, 2, 3), F32(1, N(3), 0, 0, 0)), 1, N(3), D(1, 2, 3));
  EXPECT(&rig, TENSORS(F32(1, N(1), 1), F32(1, N(4), 0, 0, 0, 0)), 1, N(4), D(1, -1, -1, -1));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// ---- Branches -----------------------------------------------------------------------------------
static dt_status_t sine(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sin(t, in[0]);
  return NULL;
}
static dt_status_t cosine(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_cos(t, in[0]);
  return NULL;
}
static v_t make_constant_branch(dt_trace_t *t, const v_t *in) {
  v_t out;
  dt_cond(t, dt_scalar(t, DT_BOOL, 1), sine, cosine, NULL, 1, in, 1, &out);
  return out;
}

static void behaviour_88_a_constant_condition_keeps_one_branch(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_constant_branch, "x");
  EXPECT(&rig, TENSORS(F32(1, N(2), 0, 1)), 1, N(2), D(0, sin(1)));
  EXPECT(&rig, TENSORS(F32(1, N(1), 2)), 1, N(1), D(sin(2)));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  make_t make = make_constant_branch;
  dt_trace_request_t request = {
      .program = program, .closure = &make, .n_inputs = 1, .n_outputs = 1, .inputs = &input};
  dt_traced_t *traced = NULL;
  expect_ok(dt__trace_run(&request, &traced));
  uint32_t sines = 0, others = 0;
  for (uint32_t k = 0; k < traced->graph->nodes.len; k++) {
    sines += traced->graph->nodes.items[k].op == DT_OP_sin;
    others += traced->graph->nodes.items[k].op == DT_OP_cos ||
              traced->graph->nodes.items[k].op == DT_OP_cond;
  }
  assert_int_equal(sines, 1);
  assert_int_equal(others, 0);
  dt__traced_destroy(traced);
}

static v_t make_nonzero(dt_trace_t *t, const v_t *in) { return dt_nonzero(t, in[0]); }

static v_t make_masked(dt_trace_t *t, const v_t *in) {
  return dt_masked_select(t, in[0], dt_lt(t, dt_scalar(t, DT_F32, 0), in[0]));
}

static v_t make_item_sized(dt_trace_t *t, const v_t *in) {
  dt_sym_t n = dt_item(t, dt_cast(t, dt_amax(t, in[0], 0, NULL, false), DT_I64));
  return dt_add(t, dt_full(t, DT_F32, 0, 1, &n), dt_iota(t, DT_F32, 1, &n, 0));
}

static v_t make_select_of_ones(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]);
  v_t ones = dt_full(t, DT_F32, 1, 1, &u);
  return dt_gather(t, ones, in[1], 0);
}

// [1, u] x [u, 1]
static v_t make_inner_product(dt_trace_t *t, const v_t *in) {
  v_t picked = dt_masked_select(t, in[0], dt_lt(t, dt_scalar(t, DT_F32, 0), in[0]));
  dt_sym_t u = dt_dim(t, picked, 0), one = number(t, 1);
  v_t row = dt_reshape(t, picked, 2, (dt_sym_t[]){one, u});
  return dt_matmul(t, row, dt_reshape(t, picked, 2, (dt_sym_t[]){u, one}));
}

static void behaviour_72_selections_and_item_sizes(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_nonzero, "m");
  EXPECT(&rig, TENSORS(F32(2, N(2, 3), 0, 5, 0, -1, 0, NAN)), 2, N(3, 2), D(0, 1, 1, 0, 1, 2));
  EXPECT(&rig, TENSORS(zeros(4, 4)), 2, N(0, 2), D(0));
  EXPECT(&rig, TENSORS(zeros(0, 4)), 2, N(0, 2), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_masked, "x");
  EXPECT(&rig, TENSORS(F32(1, N(5), 1, -2, 3, 0, 5)), 1, N(3), D(1, 3, 5));
  EXPECT(&rig, TENSORS(F32(1, N(1), -2)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_item_sized, "x");
  EXPECT(&rig, TENSORS(F32(1, N(2), 1, 4)), 1, N(4), D(0, 1, 2, 3));
  EXPECT(&rig, TENSORS(F32(1, N(1), 0)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_select_of_ones, "ij");
  EXPECT(&rig, TENSORS(INT(4), I64(1, N(3), 0, 3, -4)), 1, N(3), D(1, 1, 1));
  REFUSED(&rig, TENSORS(INT(3), I64(1, N(3), 0, 3, -1)), DT_E_RANGE, "gather");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_inner_product, "x");
  EXPECT(&rig, TENSORS(F32(1, N(4), 1, -2, 3, 4)), 2, N(1, 1), D(26));
  EXPECT(&rig, TENSORS(F32(1, N(2), -1, -2)), 2, N(1, 1), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_cat(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_item(t, in[0]), b = dt_item(t, in[1]);
  v_t parts[3] = {dt_iota(t, DT_F32, 1, &a, 0), dt_full(t, DT_F32, 5, 1, &a),
                  dt_full(t, DT_F32, 9, 1, &b)};
  return dt_concat(t, 3, parts, 0);
}

static v_t make_split(dt_trace_t *t, const v_t *in) {
  dt_sym_t sizes[2] = {dt_item(t, in[0]), dt_item(t, in[1])};
  v_t parts[2];
  dt_split(t, in[2], 0, 2, sizes, parts);
  return dt_concat(t, 2, (v_t[]){dt_neg(t, parts[1]), parts[0]}, 0);
}

static void behaviour_73_concat_and_split_by_data(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_cat, "ii");
  EXPECT(&rig, TENSORS(INT(2), INT(1)), 1, N(5), D(0, 1, 5, 5, 9));
  EXPECT(&rig, TENSORS(INT(0), INT(3)), 1, N(3), D(9, 9, 9));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_split, "iix");
  EXPECT(&rig, TENSORS(INT(2), INT(3), FIVE), 1, N(5), D(-3, -4, -5, 1, 2));
  EXPECT(&rig, TENSORS(INT(5), INT(0), FIVE), 1, N(5), D(1, 2, 3, 4, 5));
  REFUSED(&rig, TENSORS(INT(2), INT(2), FIVE), DT_E_SHAPE, "split");
  REFUSED(&rig, TENSORS(INT(-1), INT(6), FIVE), DT_E_SHAPE, "split");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_item_twice(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_item(t, in[0]), b = dt_item(t, in[0]);
  dt_check(t, dt_sym_eq(t, a, b), "one number");
  dt_sym_t twice = dt_sym_add(t, a, b);
  return dt_iota(t, DT_I64, 1, &twice, 0);
}

static v_t make_infinite(dt_trace_t *t, const v_t *in) {
  v_t high = dt_eq(t, in[0], dt_scalar(t, DT_F32, INFINITY));
  v_t low = dt_eq(t, in[0], dt_scalar(t, DT_F32, -INFINITY));
  dt_sym_t n = dt_sym_add(t, dt_item(t, high), dt_sym_mul(t, number(t, 2), dt_item(t, low)));
  return dt_size_value(t, n);
}

static void behaviour_74_an_item_read_twice_and_infinities(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_item_twice, "i");
  EXPECT(&rig, TENSORS(INT(2)), 1, N(4), D(0, 1, 2, 3));
  EXPECT(&rig, TENSORS(INT(1)), 1, N(2), D(0, 1));
  rig_fini(&rig);
  begin(&rig, make_infinite, "f");
  EXPECT(&rig, TENSORS(F32(0, NULL, INFINITY)), 0, NULL, D(1));
  EXPECT(&rig, TENSORS(F32(0, NULL, -INFINITY)), 0, NULL, D(2));
  EXPECT(&rig, TENSORS(F32(0, NULL, 1e38f)), 0, NULL, D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

enum { LIST = 320 };
static v_t make_list_sum(dt_trace_t *t, const v_t *in) {
  dt_sym_t total = number(t, 0), one = number(t, 1);
  for (int64_t k = 0; k < LIST; k++)
    total = dt_sym_add(t, total, dt_item(t, dt_slice(t, in[0], 0, number(t, k), one, 1)));
  return dt_iota(t, DT_I64, 1, &total, 0);
}

static void behaviour_75_a_list_of_320_numbers_sums_to_a_size(void **state) {
  (void)state;
  rig_t rig;
  int64_t values[LIST];
  double want[2 * LIST];
  for (int k = 0; k < LIST; k++)
    values[k] = k % 3;
  for (int k = 0; k < 2 * LIST; k++)
    want[k] = k;
  begin(&rig, make_list_sum, "j");
  EXPECT(&rig, TENSORS(tensor(DT_I64, 1, N(LIST), values)), 1, N(319), want);
  values[0] = 2;
  EXPECT(&rig, TENSORS(tensor(DT_I64, 1, N(LIST), values)), 1, N(321), want);
  values[0] = -1000;
  REFUSED(&rig, TENSORS(tensor(DT_I64, 1, N(LIST), values)), DT_E_SHAPE, "iota");
  expect_compiles(&rig, 1);
  double seconds = (double)rig_stats(&rig).compile_ns / 1e9;
  print_message("compiled in %.2f s\n", seconds);
  assert_true(seconds < 30);
  rig_fini(&rig);
}

static v_t make_pinned(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), five = number(t, 5);
  dt_check(t, dt_sym_le(t, five, u), "at least five");
  dt_check(t, dt_sym_le(t, u, five), "at most five");
  int64_t pinned = dt_sym_int(t, u); // known without a guard, or the trace fails
  dt_sym_t n = number(t, pinned);
  return dt_iota(t, DT_I64, 1, &n, 0);
}

static v_t make_unpinned(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]);
  dt_check(t, dt_sym_le(t, number(t, 5), u), "at least five");
  dt_sym_t n = number(t, dt_sym_int(t, u));
  return dt_iota(t, DT_I64, 1, &n, 0);
}

static v_t make_pinned_by_equality(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]);
  dt_check(t, dt_sym_eq(t, u, number(t, 5)), "five");
  dt_sym_t n = number(t, dt_sym_int(t, u));
  return dt_iota(t, DT_I64, 1, &n, 0);
}

static void behaviour_76_checks_of_both_sides_pin_a_number(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_unpinned, "i");
  REFUSED(&rig, TENSORS(INT(5)), DT_E_STATE, "sym_int");
  rig_fini(&rig);
  static const make_t makes[] = {make_pinned, make_pinned_by_equality};
  for (int k = 0; k < 2; k++) {
    begin(&rig, makes[k], "i");
    EXPECT(&rig, TENSORS(INT(5)), 1, N(5), D(0, 1, 2, 3, 4));
    REFUSED(&rig, TENSORS(INT(4)), DT_E_SHAPE, "five");
    REFUSED(&rig, TENSORS(INT(6)), DT_E_SHAPE, "five");
    expect_compiles(&rig, 1);
    rig_fini(&rig);
  }
}

// sqrt … atan of a number, as a value and as a size.
static v_t make_functions(dt_trace_t *t, const v_t *in) {
  v_t x = dt_cast(t, dt_size_value(t, dt_item(t, in[0])), DT_F64), small = x, values[9];
  small = dt_mul(t, x, dt_scalar(t, DT_F64, 0.015625));
  values[0] = dt_sqrt(t, x);
  values[1] = dt_cos(t, x);
  values[2] = dt_cosh(t, small);
  values[3] = dt_sin(t, x);
  values[4] = dt_sinh(t, small);
  values[5] = dt_tan(t, x);
  values[6] = dt_tanh(t, small);
  values[7] = dt_asin(t, small);
  values[8] = dt_atan(t, x);
  for (int k = 0; k < 9; k++)
    values[k] = dt_unsqueeze(t, values[k], 0);
  return dt_concat(t, 9, values, 0);
}

static void behaviour_78_math_functions_of_a_number(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_functions, "i");
  for (int n = 0; n < 60; n += 7) {
    double x = n, y = x / 64;
    EXPECT(&rig, TENSORS(INT(n)), 1, N(9),
           D(sqrt(x), cos(x), cosh(y), sin(x), sinh(y), tan(x), tanh(y), asin(y), atan(x)));
  }
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

static v_t make_float_argument(dt_trace_t *t, const v_t *in) {
  v_t x = dt_sub(t, dt_add(t, in[0], in[1]), dt_scalar(t, DT_F32, 1));
  return dt_div(t, dt_mul(t, x, in[1]), dt_add(t, in[1], dt_scalar(t, DT_F32, 3)));
}

static void behaviour_79_a_float_argument_compiles_once(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_float_argument, "xf");
  for (int k = 0; k < 20; k++) {
    float f = (float)k * 0.25f;
    double want[2];
    for (int e = 0; e < 2; e++)
      want[e] = ((double)(e + 1) + (double)f - 1) * (double)f / ((double)f + 3);
    EXPECT(&rig, TENSORS(F32(1, N(2), 1, 2), F32(0, NULL, f)), 1, N(2), want);
  }
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// ---- 87, 89 ---------------------------------------------------------------------------------------
static v_t make_pad_by_data(dt_trace_t *t, const v_t *in) {
  dt_sym_t low = dt_item(t, in[0]), high = dt_item(t, in[1]);
  return dt_pad(t, in[2], &low, &high, 0);
}

static void behaviour_87_pads_by_data_of_either_sign(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_pad_by_data, "iix");
  EXPECT(&rig, TENSORS(INT(1), INT(2), F32(1, N(2), 5, 6)), 1, N(5), D(0, 5, 6, 0, 0));
  EXPECT(&rig, TENSORS(INT(-1), INT(0), FIVE), 1, N(4), D(2, 3, 4, 5));
  EXPECT(&rig, TENSORS(INT(-2), INT(-2), FIVE), 1, N(1), D(3));
  EXPECT(&rig, TENSORS(INT(1), INT(-5), FIVE), 1, N(1), D(0));
  REFUSED(&rig, TENSORS(INT(-3), INT(-3), FIVE), DT_E_SHAPE, "pad");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// A dim of ten times a number gives the number back, with nothing to check.
static v_t make_tenfold(dt_trace_t *t, const v_t *in) {
  dt_sym_t u = dt_item(t, in[0]), ten = number(t, 10), wide = dt_sym_mul(t, u, ten);
  v_t x = dt_iota(t, DT_I64, 1, &wide, 0);
  dt_sym_t back = dt_sym_floordiv(t, dt_dim(t, x, 0), ten);
  if (back.id != u.id)
    dt_trace_fail(t, DT_E_INTERNAL, "the quotient is another size");
  return dt_sum(t, dt_reshape(t, x, 2, (dt_sym_t[]){back, ten}), 1, (int32_t[]){1}, false);
}

static void behaviour_89_ten_times_a_number_divides_back(void **state) {
  (void)state;
  rig_t rig;
  begin(&rig, make_tenfold, "i");
  EXPECT(&rig, TENSORS(INT(2)), 1, N(2), D(45, 145));
  EXPECT(&rig, TENSORS(INT(0)), 1, N(0), D(0));
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

// ---- Nothing outside is touched ---------------------------------------------------------------------
static v_t make_slice_by_item(dt_trace_t *t, const v_t *in) {
  return dt_neg(t, dt_slice(t, in[1], 0, dt_item(t, in[0]), number(t, 2), 1));
}

// What holds of the first number by what is stated of the second must not be relied on before the
// second is read: its value comes from a kernel that runs in between.
static v_t make_ordered_items(dt_trace_t *t, const v_t *in) {
  dt_sym_t a = dt_item(t, in[0]);
  dt_check(t, dt_sym_le(t, number(t, 0), a), "not negative");
  v_t nothing = dt_minimum(t, dt_size_value(t, a), dt_scalar(t, DT_I64, 0));
  dt_sym_t b = dt_item(t, dt_add(t, dt_sum(t, in[1], 0, NULL, false), nothing));
  dt_check(t, dt_sym_lt(t, a, b), "in order");
  dt_check(t, dt_sym_le(t, b, dt_dim(t, in[2], 0)), "inside");
  v_t one = dt_cumsum(t, dt_slice(t, in[2], 0, a, number(t, 1), 1), 0, DT_CUMSUM_INCLUSIVE);
  dt_sym_t wide = b;
  return dt_add(t, one, dt_full(t, DT_F32, 1, 1, &wide));
}

static void test_far_numbers_touch_nothing_outside(void **state) {
  (void)state;
  rig_t rig;
  static const int64_t far[] = {4,         5,        -1, INT64_C(1) << 40, -(INT64_C(1) << 40),
                                INT64_MAX, INT64_MIN};
  begin(&rig, make_slice_by_item, "ix");
  EXPECT(&rig, TENSORS(INT(3), FIVE), 1, N(2), D(-4, -5));
  for (size_t k = 0; k < sizeof(far) / sizeof(far[0]); k++)
    REFUSED(&rig, TENSORS(INT(far[k]), FIVE), DT_E_SHAPE, "slice");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
  begin(&rig, make_ordered_items, "ijx");
  EXPECT(&rig, TENSORS(INT(2), I64(1, N(2), 1, 3), FIVE), 1, N(4), D(4, 4, 4, 4));
  for (size_t k = 0; k < sizeof(far) / sizeof(far[0]); k++)
    REFUSED(&rig, TENSORS(INT(far[k]), I64(1, N(2), 1, 3), FIVE), DT_E_SHAPE, "");
  REFUSED(&rig, TENSORS(INT(2), I64(1, N(2), 1, 5), FIVE), DT_E_SHAPE, "inside");
  expect_compiles(&rig, 1);
  rig_fini(&rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(behaviour_61_guard_or_false_takes_the_false_branch),
      cmocka_unit_test(behaviour_62_a_sum_with_data_is_checked),
      cmocka_unit_test(behaviour_63_checks_of_unequal_and_of_either),
      cmocka_unit_test(behaviour_64_no_shape_guard_for_one_and_many),
      cmocka_unit_test(behaviour_65_unequal_sizes_from_data_are_refused),
      cmocka_unit_test(behaviour_66_views_by_data_of_strided_arguments),
      cmocka_unit_test(behaviour_67_broadcasting_is_asked_of_equal_sizes_once),
      cmocka_unit_test(behaviour_68_a_uniform_zero_adds_no_kernel),
      cmocka_unit_test(behaviour_69_a_filled_square_of_a_number),
      cmocka_unit_test(behaviour_70_slices_by_differences_of_both_signs),
      cmocka_unit_test(behaviour_71_halves_and_rounded_up_pads_are_exact),
      cmocka_unit_test(behaviour_72_selections_and_item_sizes),
      cmocka_unit_test(behaviour_73_concat_and_split_by_data),
      cmocka_unit_test(behaviour_74_an_item_read_twice_and_infinities),
      cmocka_unit_test(behaviour_75_a_list_of_320_numbers_sums_to_a_size),
      cmocka_unit_test(behaviour_76_checks_of_both_sides_pin_a_number),
      cmocka_unit_test(behaviour_78_math_functions_of_a_number),
      cmocka_unit_test(behaviour_79_a_float_argument_compiles_once),
      cmocka_unit_test(behaviour_87_pads_by_data_of_either_sign),
      cmocka_unit_test(behaviour_88_a_constant_condition_keeps_one_branch),
      cmocka_unit_test(behaviour_89_ten_times_a_number_divides_back),
      cmocka_unit_test(test_far_numbers_touch_nothing_outside),
  };
  expect_ok(dt_runtime_create(NULL, &runtime));
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  dt_runtime_release(runtime);
  return failed;
}

// SPDX-License-Identifier: Apache-2.0
// Behaviours 80 to 85: what is declared of sizes, and what a program that needs more is told.
#include "test/support/fixture.h"

#include <string.h>

#define MOST_INPUTS 3

// ---- Rig ------------------------------------------------------------------------------------------
typedef struct rig_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
  uint32_t n;
} rig_t;

static dt_status_t make(rig_t *rig, dt_program_fn_t program, uint32_t n,
                        const dt_input_decl_t *inputs) {
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "f",
                                   .n_inputs = n,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .answer = DT_ANSWER_EVALUATOR};
  dt_function_release(rig->function);
  rig->function = NULL;
  rig->n = n;
  return dt_function_create(rig->runtime, program, NULL, &options, &rig->function);
}

static int set_up(void **state) {
  static rig_t rig;
  rig = (rig_t){.runtime = runtime_of(1)};
  rig.session = session_of(rig.runtime);
  *state = &rig;
  return 0;
}

static int tear_down(void **state) {
  rig_t *rig = *state;
  dt_function_release(rig->function);
  dt_session_destroy(rig->session);
  dt_runtime_release(rig->runtime);
  return 0;
}

static dt_tensor_t *vector_of(int64_t size) {
  dt_tensor_t *tensor = tensor_empty(DT_F32, 1, &size);
  float *data = dt_tensor_data(tensor);
  for (int64_t k = 0; k < size; k++)
    data[k] = (float)k;
  return tensor;
}

// Calls with vectors of these sizes, as many as the function takes.
static dt_status_t call(rig_t *rig, const int64_t *sizes) {
  dt_tensor_t *args[MOST_INPUTS], *result = NULL;
  for (uint32_t k = 0; k < rig->n; k++)
    args[k] = vector_of(sizes[k]);
  dt_status_t status = dt_call(rig->session, rig->function, args, rig->n, &result, 1, NULL);
  release_tensors(args, rig->n);
  dt_tensor_release(result);
  return status;
}
#define CALL(rig, ...) call((rig), SIZES(__VA_ARGS__))

static uint64_t compiles_of(rig_t *rig) { return stats_of(rig->function).compiles; }

// ---- Derived dims ---------------------------------------------------------------------------------
// x + y[1:] + z[2:]
static dt_value_t from(dt_trace_t *t, dt_value_t x, int64_t start) {
  dt_sym_t first = dt_sym_const(t, start);
  return dt_slice(t, x, 0, first, dt_sym_sub(t, dt_dim(t, x, 0), first), 1);
}

static dt_status_t staggered(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, dt_add(t, in[0], from(t, in[1], 1)), from(t, in[2], 2));
  return NULL;
}

static const dt_dim_decl_t dx[] = {{.name = "dx", .min = 4}};
static const dt_dim_decl_t dy[] = {{.name = "dy", .of = "dx", .offset = 1}};
static const dt_dim_decl_t dz[] = {{.of = "dx", .offset = 2}};
static const dt_dim_decl_t own[] = {{.name = "dz"}};
static const dt_input_decl_t related[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dx},
                                          {.name = "y", .dtype = DT_F32, .rank = 1, .dims = dy},
                                          {.name = "z", .dtype = DT_F32, .rank = 1, .dims = dz}};
static const dt_input_decl_t unrelated[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dx},
                                            {.name = "y", .dtype = DT_F32, .rank = 1, .dims = dy},
                                            {.name = "z", .dtype = DT_F32, .rank = 1, .dims = own}};

// A dim that the program relates to others is no refusal here: the relation is a guard, sizes that
// break it are refused, and the explanation names the dims and only them.
static void behaviour_80_an_undeclared_relation_is_told_with_its_dims(void **state) {
  rig_t *rig = *state;
  expect_ok(make(rig, staggered, 3, unrelated));
  expect_ok(CALL(rig, 4, 5, 6));
  expect_ok(CALL(rig, 6, 7, 8));
  assert_int_equal(compiles_of(rig), 1);
  dt_tensor_t *args[3] = {vector_of(6), vector_of(7), vector_of(9)};
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(rig->function, args, 3, &report));
  assert_int_equal(report->n_misses, 1);
  const dt_miss_info_t *miss = report->misses[0];
  assert_false(miss->hit);
  assert_string_equal(miss->guard->op, "add");
  assert_non_null(strstr(miss->guard->file, "test_pytorch_constraints.c"));
  assert_non_null(strstr(miss->remedy, "declare one of dx and dz as derived of the other"));
  dt_report_free(report);
  for (int k = 0; k < 3; k++)
    dt_tensor_release(args[k]);
  expect_told(CALL(rig, 6, 7, 9), DT_E_SHAPE, "s1 is dz = 9");
}

static void behaviour_81_a_derived_dim_has_the_range_of_what_it_derives_from(void **state) {
  rig_t *rig = *state;
  expect_ok(make(rig, staggered, 3, related));
  expect_ok(CALL(rig, 4, 5, 6));
  expect_told(CALL(rig, 4, 5, 5), DT_E_SHAPE, "z.size(0) >= 6");
  expect_ok(CALL(rig, 6, 7, 8));
  expect_told(CALL(rig, 6, 7, 9), DT_E_SHAPE, "(z.size(0) == x.size(0) + 2)");
  assert_int_equal(compiles_of(rig), 1);
}

static dt_status_t both(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], from(t, dt_add(t, in[1], in[2]), 1));
  return NULL;
}

static void behaviour_82_two_inputs_share_a_derived_dim(void **state) {
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dx},
                                           {.name = "y", .dtype = DT_F32, .rank = 1, .dims = dy},
                                           {.name = "y1", .dtype = DT_F32, .rank = 1, .dims = dy}};
  rig_t *rig = *state;
  expect_ok(make(rig, both, 3, inputs));
  expect_ok(CALL(rig, 4, 5, 5));
  expect_told(CALL(rig, 6, 7, 5), DT_E_SHAPE, "(y1.size(0) == y.size(0))");
  expect_ok(CALL(rig, 6, 7, 7));
  assert_int_equal(compiles_of(rig), 1);
}

// ---- Declarations ---------------------------------------------------------------------------------
static dt_status_t sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}

// x and y of 4, said in five ways.
static void behaviour_83_equivalent_declarations_refuse_the_same_shapes(void **state) {
  static const dt_dim_decl_t plain[] = {{.is_static = true, .value = 4}};
  static const dt_dim_decl_t range[] = {{.min = 4, .max = 4}};
  static const dt_dim_decl_t named[] = {{.name = "n", .is_static = true, .value = 4}};
  static const dt_dim_decl_t by_name[] = {{.name = "n"}};
  static const dt_dim_decl_t low[] = {{.name = "n", .min = 4}};
  static const dt_dim_decl_t high[] = {{.name = "n", .max = 4}};
  static const dt_dim_decl_t derived[] = {{.of = "n"}};
  static const dt_dim_decl_t *const spellings[5][2] = {
      {plain, plain}, {range, range}, {named, by_name}, {low, high}, {named, derived}};
  static const int64_t wrong[3][2] = {{5, 5}, {4, 5}, {3, 4}};
  rig_t *rig = *state;
  for (int k = 0; k < 5; k++) {
    const dt_input_decl_t inputs[] = {
        {.name = "x", .dtype = DT_F32, .rank = 1, .dims = spellings[k][0]},
        {.name = "y", .dtype = DT_F32, .rank = 1, .dims = spellings[k][1]}};
    expect_ok(make(rig, sum, 2, inputs));
    expect_ok(CALL(rig, 4, 4));
    for (int w = 0; w < 3; w++)
      expect_told(call(rig, wrong[w]), DT_E_SHAPE,
                  wrong[w][0] == 4 ? "\"y\", dim 0" : "\"x\", dim 0");
    assert_int_equal(compiles_of(rig), 1);
  }
}

static void behaviour_84_a_declaration_that_does_not_fit_names_the_place(void **state) {
  static const dt_dim_decl_t rows_cols[] = {{.name = "rows"}, {.name = "cols"}};
  static const dt_dim_decl_t lost[] = {{.of = "nowhere"}};
  static const dt_dim_decl_t upside_down[] = {{0}, {.min = 5, .max = 4}};
  dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 2, .dims = rows_cols},
                              {.name = "y", .dtype = DT_F32, .rank = 1}};
  rig_t *rig = *state;
  expect_ok(make(rig, sum, 2, inputs));
  // Of another rank, and of another number of arguments.
  expect_told(CALL(rig, 4, 4), DT_E_SHAPE, "argument 0 \"x\": rank 1; expected 2");
  dt_tensor_t *x = vector_of(4), *y = NULL;
  expect_told(dt_call(rig->session, rig->function, &x, 1, &y, 1, NULL), DT_E_ARGUMENT,
              "got 1 inputs and 1 outputs; expected 2 and 1");
  dt_tensor_release(x);
  // Declarations that make no sense.
  inputs[1].dims = lost;
  expect_told(make(rig, sum, 2, inputs), DT_E_ARGUMENT, "argument 1 \"y\", dim 0");
  inputs[1].dims = NULL;
  inputs[0].dims = upside_down;
  expect_told(make(rig, sum, 2, inputs), DT_E_ARGUMENT, "dim 1");
}

// ---- Questions about data -------------------------------------------------------------------------
static dt_status_t asks(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0);
  bool small = dt_sym_true(t, dt_sym_lt(t, n, dt_sym_const(t, 8)));
  out[0] = small ? dt_neg(t, in[0]) : dt_relu(t, in[0]);
  return NULL;
}

static dt_status_t checks_first(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_check(t, dt_sym_lt(t, n, dt_sym_const(t, 8)), "fewer than 8");
  return asks(t, in, out, closure);
}

static dt_status_t checks_the_other(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_check(t, dt_sym_le(t, dt_sym_const(t, 8), n), "8 or more");
  return asks(t, in, out, closure);
}

// A dim that is marked unbacked is as if it were read from data.
static void behaviour_85_a_branch_on_data_lists_the_checks_that_decide_it(void **state) {
  static const dt_dim_decl_t dims[] = {{.mark = DT_MARK_UNBACKED}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  rig_t *rig = *state;
  expect_ok(make(rig, asks, 1, inputs));
  expect_told(CALL(rig, 3), DT_E_STATE, "dt_check(u0 <= 7) or dt_check(8 <= u0)");
  expect_ok(make(rig, checks_first, 1, inputs));
  expect_ok(CALL(rig, 3));
  expect_told(CALL(rig, 9), DT_E_SHAPE, "fewer than 8");
  expect_ok(make(rig, checks_the_other, 1, inputs));
  expect_ok(CALL(rig, 9));
  expect_told(CALL(rig, 3), DT_E_SHAPE, "8 or more");
  assert_int_equal(compiles_of(rig), 1);
}

#define BEHAVIOUR(name) TEST_WITH(name, set_up, tear_down)
RUN_TESTS(BEHAVIOUR(behaviour_80_an_undeclared_relation_is_told_with_its_dims),
          BEHAVIOUR(behaviour_81_a_derived_dim_has_the_range_of_what_it_derives_from),
          BEHAVIOUR(behaviour_82_two_inputs_share_a_derived_dim),
          BEHAVIOUR(behaviour_83_equivalent_declarations_refuse_the_same_shapes),
          BEHAVIOUR(behaviour_84_a_declaration_that_does_not_fit_names_the_place),
          BEHAVIOUR(behaviour_85_a_branch_on_data_lists_the_checks_that_decide_it))

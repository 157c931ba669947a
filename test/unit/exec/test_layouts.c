// SPDX-License-Identifier: Apache-2.0
// Results whose layout is asked for.
#include "test/support/check.h"

#include "ductile/ductile.h"

static dt_runtime_t *runtime;

// ---- Declarations ---------------------------------------------------------------------------------

static dt_status_t same(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)trace;
  (void)closure;
  out[0] = in[0];
  return NULL;
}

static dt_status_t declare(const dt_output_decl_t *output) {
  const dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F32, .rank = 3},
                                     {.name = "n", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "same",
                                         .n_inputs = 2,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .input_size = sizeof(inputs[0]),
                                         .outputs = output,
                                         .output_size = sizeof(*output)};
  dt_function_t *function = NULL;
  dt_status_t status = dt_function_create(runtime, same, NULL, &options, &function);
  assert_true(!status == !!function);
  dt_function_release(function);
  return status;
}

static void wrong_declarations_are_refused_by_name(void **state) {
  (void)state;
  const uint32_t order[] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, twice[] = {0, 1, 1}, beyond[] = {0, 3, 1};
  expect_ok(declare(&(dt_output_decl_t){.name = "y", .may_alias_input = true}));
  expect_ok(declare(&(dt_output_decl_t){.name = "y", .order = order, .rank = 3}));
  expect_parts(declare(&(dt_output_decl_t){.name = "y", .order = twice, .rank = 3}), DT_E_ARGUMENT,
               EACH_OF("result 'y'", "dim 1 twice"));
  expect_parts(declare(&(dt_output_decl_t){.order = beyond, .rank = 3}), DT_E_ARGUMENT,
               EACH_OF("result 0", "dim 3 of rank 3"));
  expect_told(declare(&(dt_output_decl_t){.order = order, .rank = 9}), DT_E_LIMIT, "rank 9");
  expect_told(declare(&(dt_output_decl_t){.rank = 3}), DT_E_ARGUMENT, "order: NULL");
  expect_told(declare(&(dt_output_decl_t){.like_input = 3}), DT_E_ARGUMENT, "like_input: 3");
  expect_told(declare(&(dt_output_decl_t){.like_input = 2}), DT_E_ARGUMENT, "integer");
  expect_told(declare(&(dt_output_decl_t){.like_input = 1, .order = order, .rank = 3}),
              DT_E_ARGUMENT, "one of them");
}

static void other_orders_are_refused(void **state) {
  (void)state;
  const uint32_t order[] = {0, 2, 1};
  expect_parts(declare(&(dt_output_decl_t){.name = "y", .order = order, .rank = 3}),
               DT_E_UNSUPPORTED, EACH_OF("result 'y'", "row-major"));
  expect_told(declare(&(dt_output_decl_t){.like_input = 1}), DT_E_UNSUPPORTED, "row-major");
}

static int setup(void **state) {
  (void)state;
  expect_ok(dt_runtime_create(NULL, &runtime));
  return 0;
}

static int teardown(void **state) {
  (void)state;
  dt_runtime_release(runtime);
  return 0;
}

RUN_TESTS_WITH(setup, teardown, TEST(wrong_declarations_are_refused_by_name),
               TEST(other_orders_are_refused))

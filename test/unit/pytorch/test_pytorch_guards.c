// SPDX-License-Identifier: Apache-2.0
// Behaviours 23 to 39 of guards, in C's terms: arguments and captures stand for objects, the modes
// of the runtime for global state, the list of a call's arguments for containers.
#include "ductile/ductile.h"
#include "ductile/experimental.h"
#include "guards/tree.h"
#include "test/support/report_as_text.h"
#include "test/unit/guards/guard_test.h"

#include <string.h>

static _Alignas(64) char block[256];

static dt_sym_t any_size(guard_fixture_t *f) { return size_symbol(f, 0, DT_SIZE_LIMIT - 1, ""); }

static dt_sym_t any_integer(guard_fixture_t *f) {
  return dt__sym_new(f->env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX}, NULL, "");
}

static void set_vector(guard_fixture_t *f, uint32_t k, int64_t offset, int64_t n) {
  set_input_at(f, k, DT_U8, 1, &n, NULL, block + offset);
}

static void expect_why(guard_fixture_t *f, const char *part) {
  assert_false(hit(f));
  if (!strstr(why(f), part))
    fail_msg("expected \"%s\" in \"%s\"", part, why(f));
}

static void behaviour_23_changed_global_state_fails_and_restored_passes(void **state) {
  (void)state;
  enum { DETERMINISTIC = 1, STRICT = 2, THREADS = 4 };
  guard_fixture_t f;
  guard_fixture_init(&f);
  f.context = (dt_guard_context_t){.modes = STRICT, .modes_mask = DETERMINISTIC | STRICT};
  make_guards(&f);
  f.modes = STRICT;
  assert_true(hit(&f));
  f.modes = STRICT | DETERMINISTIC;
  expect_why(&f, "modes");
  f.modes = STRICT | THREADS; // a mode that the variant does not depend on
  assert_true(hit(&f));
  f.modes = 0;
  expect_why(&f,
             "deterministic is off, strict_fp is on, got deterministic is off, strict_fp is off");
  f.modes = STRICT;
  assert_true(hit(&f));
  guard_fixture_fini(&f);
}

static void behaviour_24_value_guards_take_equal_values_and_identity_guards_do_not(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  add_integer(&f, "n", DT_I64, literal(&f, 3));
  make_guards(&f);
  int64_t values[2] = {3, 3};
  set_input_at(&f, 0, DT_I64, 0, NULL, NULL, &values[0]);
  assert_true(hit(&f));
  set_input_at(&f, 0, DT_I64, 0, NULL, NULL, &values[1]); // an equal copy
  assert_true(hit(&f));
  values[1] = 4;
  expect_why(&f, "expected n == 3, got 4");
  double other = 3;
  set_input_at(&f, 0, DT_F64, 0, NULL, NULL, &other); // another type
  expect_why(&f, "f64");
  guard_fixture_fini(&f);

  // A length of at least one fails on nothing.
  guard_fixture_init(&f);
  dt_sym_t s = any_size(&f);
  add_input(&f, "x", DT_U8, 1, &s);
  add_cond(&f, dt__sym_le(f.env, literal(&f, 1), s), "index", NULL, 0);
  make_guards(&f);
  set_vector(&f, 0, 0, 0);
  assert_false(hit(&f));
  set_vector(&f, 0, 0, 1);
  assert_true(hit(&f));
  guard_fixture_fini(&f);

  // Identity: memory with equal contents is not the same memory.
  guard_fixture_init(&f);
  dt_sym_t a = any_size(&f), b = any_size(&f);
  add_input(&f, "x", DT_U8, 1, &a);
  add_input(&f, "y", DT_U8, 1, &b);
  add_update(&f, 0);
  const uint32_t shared[2] = {0, 0};
  f.context.shared = shared;
  make_guards(&f);
  set_vector(&f, 0, 0, 4);
  set_vector(&f, 1, 0, 4);
  assert_true(hit(&f));
  set_vector(&f, 1, 64, 4);
  expect_why(&f, "another address");
  guard_fixture_fini(&f);
}

static void behaviour_25_aliased_arguments_have_one_guard_and_unaliased_fail(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  for (uint32_t k = 0; k < 2; k++) {
    dt_sym_t s = any_size(&f);
    add_input(&f, k ? "y" : "x", DT_U8, 1, &s);
  }
  add_update(&f, 1);
  make_guards(&f);
  uint32_t apart = dt__guards_count(f.guards);
  const uint32_t shared[2] = {0, 0};
  f.context.shared = shared;
  make_guards(&f);
  assert_int_equal(dt__guards_count(f.guards), apart); // one for the pair either way
  set_vector(&f, 0, 8, 5);
  set_vector(&f, 1, 8, 5);
  assert_true(hit(&f));
  set_vector(&f, 1, 16, 5);
  expect_why(&f, "y is the memory of x");
  guard_fixture_fini(&f);
}

static void behaviour_26_no_alias_over_three_fails_for_any_pair_and_keeps_no_state(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  for (uint32_t k = 0; k < 3; k++) {
    dt_sym_t s = any_size(&f);
    add_input(&f, (const char *[]){"x", "y", "z"}[k], DT_U8, 1, &s);
    add_update(&f, k);
  }
  make_guards(&f);
  for (uint32_t clean = 0; clean < 2; clean++) {
    for (uint32_t k = 0; k < 3; k++)
      set_vector(&f, k, 16 * (int64_t)k, 8);
    assert_true(hit(&f));
    assert_true(hit(&f)); // and again, at once
    for (uint32_t k = 0; k < 3; k++) {
      uint32_t other = (k + 1) % 3;
      set_vector(&f, k, 16 * (int64_t)other, 8);
      assert_false(hit(&f));
      set_vector(&f, k, 16 * (int64_t)k, 8);
    }
  }
  guard_fixture_fini(&f);
}

static void behaviour_27_captured_values_fail_after_a_change_in_place(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  add_capture(&f, "limit", literal(&f, 7));
  make_guards(&f);
  int64_t limit = 7, copy = 7;
  f.captures[0] = &limit;
  assert_true(hit(&f));
  limit = 8;
  expect_why(&f, "expected limit == 7, got 8");
  // What counts is the value: an equal copy is as good, where a version tag would refuse it.
  f.captures[0] = &copy;
  assert_true(hit(&f));
  guard_fixture_fini(&f);
}

static void behaviour_29_another_tensor_of_the_layout_passes_and_transposed_fails(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  const dt_sym_t sizes[2] = {literal(&f, 4), literal(&f, 4)};
  const dt_sym_t strides[2] = {literal(&f, 4), literal(&f, 1)};
  add_strided(&f, "x", 2, sizes, strides);
  make_guards(&f);
  const int64_t square[2] = {4, 4}, across[2] = {1, 4};
  set_input_at(&f, 0, DT_U8, 2, square, NULL, block);
  assert_true(hit(&f));
  set_input_at(&f, 0, DT_U8, 2, square, NULL, block + 64);
  assert_true(hit(&f));
  set_input_at(&f, 0, DT_U8, 2, square, across, block);
  expect_why(&f, "expected x.stride(0) == 4, got 1");
  guard_fixture_fini(&f);
}

static void behaviour_30_free_sizes_and_strides_take_any_of_the_rank(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  const dt_sym_t sizes[2] = {any_size(&f), any_size(&f)};
  const dt_sym_t strides[2] = {any_integer(&f), any_integer(&f)};
  add_strided(&f, "x", 2, sizes, strides);
  make_guards(&f);
  const int64_t shapes[2][3] = {{8, 8, 1}, {2, 16, 1}};
  for (int k = 0; k < 2; k++) {
    set_input(&f, 0, DT_U8, 2, shapes[k], NULL);
    assert_true(hit(&f));
    const int64_t swapped[2] = {1, shapes[k][0]};
    set_input(&f, 0, DT_U8, 2, shapes[k], swapped);
    assert_true(hit(&f));
    assert_int_equal(f.symbols[2], 1);
  }
  set_input(&f, 0, DT_U8, 3, shapes[0], NULL);
  expect_why(&f, "rank 3");
  set_input(&f, 0, DT_F32, 2, shapes[0], NULL);
  expect_why(&f, "f32");
  set_input(&f, 0, DT_U8, 2, shapes[0], NULL);
  f.inputs[0]->device = dt__place(DT_CUDA, 0);
  dt__device_name_set(DT_CUDA, "CUDA device"); // as a runtime does
  expect_why(&f, "CUDA device 0");
  f.inputs[0]->device = DT_CPU;
  assert_true(hit(&f));
  guard_fixture_fini(&f);
}

static void behaviour_31_the_type_is_looked_at_before_the_value(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t n = any_integer(&f);
  add_cond(&f, dt__sym_lt(f.env, n, literal(&f, 10)), "less", NULL, 0); // asked for first
  add_cond(&f, dt__sym_le(f.env, literal(&f, 5), n), "at least", NULL, 0);
  add_integer(&f, "n", DT_I32, n);
  make_guards(&f);
  assert_int_equal(dt__guards_count(f.guards), 4); // type, fits, two bounds
  int32_t value = 6;
  set_input_at(&f, 0, DT_I32, 0, NULL, NULL, &value);
  assert_true(hit(&f));
  value = 4;
  expect_why(&f, "n0 = 4");
  float text = 4;
  set_input_at(&f, 0, DT_F32, 0, NULL, NULL, &text);
  expect_why(&f, "expected n is i32 of rank 0 on the host, got f32");
  guard_fixture_fini(&f);
}

// Asked four times, in two spellings, also where nothing can be implied since it may have no value.
static void behaviour_32_the_same_question_twice_is_one_guard(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t a = any_size(&f), b = any_size(&f);
  const dt_sym_t sizes[2] = {a, b};
  add_input(&f, "x", DT_U8, 2, sizes);
  make_guards(&f);
  uint32_t before = dt__guards_count(f.guards);
  for (int k = 0; k < 4; k++)
    add_cond(&f, dt__sym_eq(f.env, dt__sym_floordiv(f.env, a, b), literal(&f, 3)), "view", NULL, k);
  make_guards(&f);
  assert_int_equal(dt__guards_count(f.guards), before + 1);
  guard_fixture_fini(&f);
}

static dt_status_t twice(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(trace, in[0], in[0]);
  return NULL;
}

// One input whose size is asked about again and again, as a program with a loop would.
static dt_status_t asks_often(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  (void)closure;
  out[0] = in[0];
  for (int k = 0; k < 4; k++) {
    dt_sym_t n = dt_dim(trace, in[0], 0);
    if (dt_sym_true(trace, dt_sym_lt(trace, dt_sym_const(trace, 2), n)))
      out[0] = dt_add(trace, out[0], in[0]);
  }
  return NULL;
}

typedef struct called_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
} called_t;

static void called_init(called_t *c, dt_program_fn_t program) {
  static const dt_dim_decl_t dims[] = {{.name = "n"}};
  static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  const dt_function_options_t options = {.name = "f",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .answer = DT_ANSWER_EVALUATOR,
                                         .variant_limit = 1};
  expect_ok(dt_runtime_create(NULL, &c->runtime));
  expect_ok(dt_session_create(c->runtime, NULL, &c->session));
  expect_ok(dt_function_create(c->runtime, program, NULL, &options, &c->function));
}

static void called_fini(called_t *c) {
  dt_function_release(c->function);
  dt_session_destroy(c->session);
  dt_runtime_release(c->runtime);
}

static dt_status_t call_with(called_t *c, int64_t n, uint32_t n_inputs) {
  dt_tensor_t *inputs[2] = {NULL, NULL}, *output = NULL;
  expect_ok(dt_tensor_create_empty(DT_F32, 1, &n, &inputs[0]));
  memset(dt_tensor_data(inputs[0]), 0, (size_t)n * sizeof(float));
  inputs[1] = inputs[0];
  dt_status_t status = dt_call(c->session, c->function, inputs, n_inputs, &output, 1, NULL);
  dt_tensor_release(inputs[0]);
  dt_tensor_release(output);
  return status;
}

static void
behaviour_33_another_number_of_arguments_fails_and_foreign_guards_are_refused(void **state) {
  (void)state;
  called_t c;
  called_init(&c, twice);
  expect_ok(call_with(&c, 3, 1));
  for (uint32_t n = 0; n <= 2; n += 2) {
    expect_code(call_with(&c, 3, n), DT_E_ARGUMENT);
  }
  expect_ok(call_with(&c, 3, 1));
  called_fini(&c);

  // A condition on what no argument brings.
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t s = any_size(&f);
  add_input(&f, "x", DT_U8, 1, &s);
  add_cond(&f, dt__sym_lt(f.env, s, any_integer(&f)), "foreign", NULL, 0);
  expect_code(dt__guards_create(f.graph, f.conds, f.n_conds, NULL, &f.guards), DT_E_INTERNAL);
  guard_fixture_fini(&f);
}

static void behaviour_34_a_dim_past_the_end_fails_without_crashing(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t sizes[8];
  for (uint32_t d = 0; d < 8; d++)
    sizes[d] = any_size(&f);
  add_input(&f, "x", DT_U8, 8, sizes);
  add_cond(&f, dt__sym_eq(f.env, sizes[7], literal(&f, 0)), "last", NULL, 0);
  make_guards(&f);
  const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 0};
  set_input(&f, 0, DT_U8, 8, ones, NULL);
  assert_true(hit(&f));
  for (uint32_t rank = 0; rank < 8; rank++) {
    set_input(&f, 0, DT_U8, rank, ones, NULL);
    assert_false(hit(&f));
  }
  // An argument that was given no memory has no elements, and so is no integer.
  guard_fixture_fini(&f);
  guard_fixture_init(&f);
  add_integer(&f, "n", DT_I64, any_integer(&f));
  make_guards(&f);
  const int64_t none[1] = {0};
  set_input_at(&f, 0, DT_I64, 1, none, NULL, NULL);
  expect_why(&f, "rank 1");
  guard_fixture_fini(&f);
}

static void behaviour_35_what_cannot_be_computed_is_a_miss_that_says_so(void **state) {
  (void)state;
  guard_fixture_t f;
  guard_fixture_init(&f);
  dt_sym_t a = any_size(&f), b = any_size(&f);
  const dt_sym_t sizes[2] = {a, b};
  add_input(&f, "x", DT_U8, 2, sizes);
  add_cond(&f, dt__sym_eq(f.env, dt__sym_floordiv(f.env, a, b), literal(&f, 2)), "view", "m.c", 3);
  make_guards(&f);
  set_input(&f, 0, DT_U8, 2, (const int64_t[]){4, 2}, NULL);
  assert_true(hit(&f));
  set_input(&f, 0, DT_U8, 2, (const int64_t[]){4, 0}, NULL);
  expect_why(&f, "no 64-bit value for s0 = 4, s1 = 0 (view, m.c:3)");
  guard_fixture_fini(&f);
}

// Two variants over one vector; the conditions that `conds` has bits for.
static void conditions(guard_fixture_t *f, uint32_t conds) {
  guard_fixture_init(f);
  dt_sym_t s = any_size(f);
  add_input(f, "x", DT_U8, 1, &s);
  if (conds & 1)
    add_cond(f, dt__sym_le(f->env, literal(f, 2), s), "low", NULL, 0);
  if (conds & 2)
    add_cond(f, dt__sym_eq(f->env, dt__sym_mod(f->env, s, literal(f, 4)), literal(f, 0)), "foo",
             NULL, 0);
  if (conds & 4)
    add_cond(f, dt__sym_ne(f->env, dt__sym_mod(f->env, s, literal(f, 4)), literal(f, 0)), "bar",
             NULL, 0);
  make_guards(f);
}

static void behaviour_36_a_program_without_one_guard_passes_when_only_that_changed(void **state) {
  (void)state;
  guard_fixture_t full, clone, less;
  conditions(&full, 3);
  conditions(&clone, 3);
  conditions(&less, 1);
  for (int64_t n = 0; n < 20; n++) {
    set_vector(&full, 0, 0, n);
    set_vector(&clone, 0, 0, n);
    set_vector(&less, 0, 0, n);
    assert_int_equal(hit(&clone), hit(&full));
    assert_int_equal(hit(&full), n >= 2 && n % 4 == 0);
    assert_int_equal(hit(&less), n >= 2);
  }
  guard_fixture_fini(&full);
  guard_fixture_fini(&clone);
  guard_fixture_fini(&less);
}

// Nodes of the decision that ask for a remainder.
static uint32_t remainders(const dt_tree_t *tree) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < tree->n_nodes; k++)
    n += tree->terms[tree->nodes[k].term].kind == DT_TERM_MOD;
  return n;
}

static void
behaviour_37_a_decision_asks_for_what_tells_variants_apart_once_there_are_two(void **state) {
  (void)state;
  guard_fixture_t first, second;
  conditions(&first, 1);
  dt_tree_t *tree = NULL;
  const dt_guards_t *programs[2] = {first.guards};
  expect_ok(dt__tree_create(programs, 1, &tree));
  assert_int_equal(remainders(tree), 0); // nothing depends on foo
  dt__tree_destroy(tree);
  guard_fixture_fini(&first);

  conditions(&first, 3);
  conditions(&second, 5);
  programs[0] = first.guards;
  programs[1] = second.guards;
  expect_ok(dt__tree_create(programs, 2, &tree));
  assert_int_equal(remainders(tree), 1); // and what they share is asked once
  assert_int_equal(tree->n_nodes, 3);
  for (int64_t n = 0; n < 20; n++) {
    set_vector(&first, 0, 0, n);
    int64_t symbols[64];
    int64_t found = dt__tree_run(tree, &(dt_guard_args_t){.inputs = first.inputs}, symbols);
    assert_int_equal(found, n < 2 ? -1 : n % 4 != 0);
  }
  dt__tree_destroy(tree);
  guard_fixture_fini(&first);
  guard_fixture_fini(&second);
}

static void behaviour_38_a_property_tested_four_times_is_one_guard(void **state) {
  (void)state;
  called_t c;
  called_init(&c, asks_often);
  expect_ok(call_with(&c, 5, 1));
  char *text = NULL;
  expect_ok(report_as_text(c.function, NULL, 0, DT_REPORT_VARIANTS, &text));
  uint32_t times = 0;
  for (const char *at = text; (at = strstr(at, "3 <= s0, asked")) != NULL; at++)
    times++;
  if (times != 1)
    fail_msg("expected the guard once, found it %u times:\n%s", times, text);
  dt_text_free(text);
  called_fini(&c);
}

static void behaviour_39_after_one_compile_an_identical_call_makes_nothing(void **state) {
  (void)state;
  called_t c;
  called_init(&c, twice); // one variant is the limit: a second one would be an error
  expect_ok(call_with(&c, 5, 1));
  expect_ok(call_with(&c, 5, 1));
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  expect_ok(dt_function_counters(c.function, &stats));
  assert_int_equal(stats.compiles, 1);
  assert_int_equal(stats.variants, 1);
  assert_int_equal(stats.misses, 1);
  assert_int_equal(stats.calls, 2);
  called_fini(&c);
}

RUN_TESTS(TEST(behaviour_23_changed_global_state_fails_and_restored_passes),
          TEST(behaviour_24_value_guards_take_equal_values_and_identity_guards_do_not),
          TEST(behaviour_25_aliased_arguments_have_one_guard_and_unaliased_fail),
          TEST(behaviour_26_no_alias_over_three_fails_for_any_pair_and_keeps_no_state),
          TEST(behaviour_27_captured_values_fail_after_a_change_in_place),
          TEST(behaviour_29_another_tensor_of_the_layout_passes_and_transposed_fails),
          TEST(behaviour_30_free_sizes_and_strides_take_any_of_the_rank),
          TEST(behaviour_31_the_type_is_looked_at_before_the_value),
          TEST(behaviour_32_the_same_question_twice_is_one_guard),
          TEST(behaviour_33_another_number_of_arguments_fails_and_foreign_guards_are_refused),
          TEST(behaviour_34_a_dim_past_the_end_fails_without_crashing),
          TEST(behaviour_35_what_cannot_be_computed_is_a_miss_that_says_so),
          TEST(behaviour_36_a_program_without_one_guard_passes_when_only_that_changed),
          TEST(behaviour_37_a_decision_asks_for_what_tells_variants_apart_once_there_are_two),
          TEST(behaviour_38_a_property_tested_four_times_is_one_guard),
          TEST(behaviour_39_after_one_compile_an_identical_call_makes_nothing))

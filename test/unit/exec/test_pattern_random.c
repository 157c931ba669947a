// SPDX-License-Identifier: Apache-2.0
// Random programs with random sets of patterns, all of them exact on small whole numbers: what they
// leave computes what the program does. usage: test_pattern_random [--runs N]
#include "test/support/subjects.h"

#include "ductile/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 40
#define OUTPUTS 3

static const int32_t last_axis = -1;

// ---- Programs -----------------------------------------------------------------------------------
typedef struct step_t {
  uint32_t op, in[3];
} step_t;

typedef struct plan_t {
  uint32_t n;
  step_t steps[MOST];
} plan_t;

enum { OPS = 14 };

// All values have one shape; the row v[2] broadcasts.
static dt_value_t step(dt_trace_t *t, const step_t *s, const dt_value_t *v) {
  dt_value_t a = v[s->in[0]], b = v[s->in[1]], c = v[s->in[2]];
  switch (s->op) {
  case 0:
    return dt_add(t, a, b);
  case 1:
    return dt_sub(t, a, b);
  case 2:
    return dt_maximum(t, a, b);
  case 3:
    return dt_minimum(t, a, b);
  case 4:
    return dt_neg(t, a);
  case 5:
    return dt_add(t, a, dt_neg(t, b));
  case 6:
    return dt_maximum(t, dt_neg(t, a), a);
  case 7:
    return dt_mul(t, dt_scalar(t, DT_F32, 2), a);
  case 8:
    return dt_mul(t, a, dt_scalar(t, DT_F32, s->in[1] % 2 ? -1 : 0.5));
  case 9:
    return dt_sub(t, b, dt_amax(t, a, 1, &last_axis, true));
  case 10:
    return dt_transpose(t, dt_transpose(t, a, 0, 1), 0, 1);
  case 11:
    return dt_where(t, dt_lt(t, a, b), a, b);
  case 12:
    return dt_where(t, dt_lt(t, a, b), dt_minimum(t, b, a), c);
  default:
    return dt_maximum(t, dt_add(t, a, b), dt_sub(t, a, b));
  }
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const plan_t *plan = closure;
  dt_value_t v[MOST + 3] = {in[0], in[1], dt_add(t, in[2], dt_sub(t, in[0], in[0]))};
  for (uint32_t k = 0; k < plan->n; k++)
    v[k + 3] = step(t, &plan->steps[k], v);
  for (uint32_t k = 0; k < OUTPUTS; k++)
    out[k] = v[plan->n + 2 - k];
  return NULL;
}

static void draw(rng_t *rng, plan_t *plan) {
  plan->n = 4 + rng_below(rng, MOST - 4);
  for (uint32_t k = 0; k < plan->n; k++) {
    step_t *s = &plan->steps[k];
    s->op = rng_below(rng, OPS);
    for (int i = 0; i < 3; i++) // near ones more often
      s->in[i] = rng_below(rng, 2) ? rng_below(rng, k + 3) : k + 2 - rng_below(rng, 3);
  }
}

// ---- Patterns -----------------------------------------------------------------------------------
#define PATTERN(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *c)
#define PUT(name)                                                                                  \
  static dt_status_t name(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,     \
                          void *c)

PATTERN(twice_negated) {
  (void)c;
  out[0] = dt_neg(t, dt_neg(t, in[0]));
  return NULL;
}
PUT(itself) {
  (void)m;
  (void)c;
  (void)t;
  out[0] = in[0];
  return NULL;
}
PATTERN(added_negative) {
  (void)c;
  out[0] = dt_add(t, in[0], dt_neg(t, in[1]));
  return NULL;
}
PUT(difference) {
  (void)m;
  (void)c;
  out[0] = dt_sub(t, in[0], in[1]);
  return NULL;
}
PATTERN(of_both_signs) {
  (void)c;
  out[0] = dt_maximum(t, in[0], dt_neg(t, in[0]));
  return NULL;
}
PUT(absolute) {
  (void)m;
  (void)c;
  out[0] = dt_abs(t, in[0]);
  return NULL;
}
PATTERN(sum_and_difference) {
  (void)c;
  out[0] = dt_add(t, in[0], in[1]);
  out[1] = dt_sub(t, in[0], in[1]);
  return NULL;
}
PUT(turned) {
  (void)m;
  (void)c;
  out[0] = dt_add(t, in[1], in[0]);
  out[1] = dt_neg(t, dt_sub(t, in[1], in[0]));
  return NULL;
}
PATTERN(both_ends) {
  (void)c;
  out[0] = dt_minimum(t, in[0], in[1]);
  out[1] = dt_maximum(t, in[0], in[1]);
  return NULL;
}
PUT(by_where) {
  (void)m;
  (void)c;
  dt_value_t less = dt_lt(t, in[0], in[1]);
  out[0] = dt_where(t, less, in[0], in[1]);
  out[1] = dt_where(t, less, in[1], in[0]);
  return NULL;
}
PATTERN(doubled) {
  (void)c;
  out[0] = dt_mul(t, in[0], dt_scalar(t, dt_value_dtype(t, in[0]), 2));
  return NULL;
}
PUT(sum_of_one) {
  (void)m;
  (void)c;
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}
PATTERN(scaled) {
  (void)c;
  out[0] = dt_mul(t, in[0], in[1]);
  return NULL;
}
PUT(scaled_twice) {
  double factor = 0;
  (void)c;
  assert_true(dt_match_literal(m, "y", &factor));
  dt_value_t half = dt_mul(t, in[0], dt_scalar(t, DT_F32, factor / 2));
  out[0] = dt_add(t, half, half);
  return NULL;
}
PATTERN(less_the_most) {
  (void)c;
  out[0] = dt_sub(t, in[1], dt_amax(t, in[0], 1, &last_axis, true));
  return NULL;
}
PUT(plus_the_least) {
  (void)m;
  (void)c;
  out[0] = dt_add(t, dt_amin(t, dt_neg(t, in[0]), 1, &last_axis, true), in[1]);
  return NULL;
}
PATTERN(turned_twice) {
  (void)c;
  out[0] = dt_transpose(t, dt_transpose(t, in[0], -1, -2), -1, -2);
  return NULL;
}
PATTERN(the_less) {
  (void)c;
  out[0] = dt_where(t, dt_lt(t, in[0], in[1]), in[0], in[1]);
  return NULL;
}
PUT(minimum) {
  (void)m;
  (void)c;
  out[0] = dt_minimum(t, in[0], in[1]);
  return NULL;
}
PATTERN(three_outputs) {
  (void)c;
  out[0] = dt_maximum(t, dt_add(t, in[0], in[1]), dt_sub(t, in[0], in[1]));
  out[1] = dt_sub(t, in[0], in[1]);
  out[2] = dt_add(t, in[0], in[1]);
  return NULL;
}
PUT(by_size) {
  (void)m;
  (void)c;
  out[0] = dt_add(t, in[0], dt_abs(t, in[1]));
  out[1] = dt_add(t, in[0], dt_neg(t, in[1]));
  out[2] = dt_sub(t, in[0], dt_neg(t, in[1]));
  return NULL;
}

static const dt_wildcard_t two[] = {{.name = "x"}, {.name = "y"}};
static const dt_wildcard_t with_number[] = {{.name = "x"},
                                            {.name = "y", .kind = DT_WILDCARD_LITERAL}};
static const struct {
  dt_program_fn_t program;
  dt_replacement_fn_t replacement;
  uint32_t n, n_outputs;
  const dt_wildcard_t *wildcards;
} all[] = {
    {twice_negated, itself, 1, 1, two},        {added_negative, difference, 2, 1, two},
    {of_both_signs, absolute, 1, 1, two},      {sum_and_difference, turned, 2, 2, two},
    {both_ends, by_where, 2, 2, two},          {doubled, sum_of_one, 1, 1, two},
    {scaled, scaled_twice, 2, 1, with_number}, {less_the_most, plus_the_least, 2, 1, two},
    {turned_twice, itself, 1, 1, two},         {the_less, minimum, 2, 1, two},
    {three_outputs, by_size, 2, 3, two},
};
enum { PATTERNS = sizeof(all) / sizeof(all[0]) };

// Some of them, in some order; returns the names with minuses.
static void add_some(dt_runtime_t *runtime, rng_t *rng, dt_point_t point, dt_pattern_t **patterns,
                     char *without) {
  without[0] = 0;
  for (uint32_t k = 0; k < PATTERNS; k++) {
    patterns[k] = NULL;
    if (rng_below(rng, 3) == 0)
      continue;
    char name[8];
    (void)snprintf(name, sizeof(name), "p%u", k);
    const dt_pattern_options_t options = {.struct_size = sizeof(options),
                                          .name = name,
                                          .priority = (int32_t)rng_below(rng, 5),
                                          .point = point,
                                          .shared = rng_below(rng, 3) == 0,
                                          .n_wildcards = all[k].n,
                                          .n_outputs = all[k].n_outputs,
                                          .wildcard_size = sizeof(dt_wildcard_t),
                                          .dim_size = sizeof(dt_dim_decl_t),
                                          .wildcards = all[k].wildcards};
    expect_ok(
        dt_pattern_create(all[k].program, all[k].replacement, NULL, NULL, &options, &patterns[k]));
    expect_ok(dt_runtime_add_pattern(runtime, patterns[k]));
    (void)strcat(strcat(without, ",-"), name);
  }
}

static uint64_t counts[PATTERNS];
static void drop_all(dt_runtime_t *runtime, dt_pattern_t **patterns) {
  for (uint32_t k = 0; k < PATTERNS; k++) {
    char name[8];
    (void)snprintf(name, sizeof(name), "p%u", k);
    if (patterns[k])
      expect_ok(dt_runtime_remove_pass(runtime, name));
    counts[k] += dt_pattern_count(patterns[k]);
    dt_pattern_release(patterns[k]);
  }
}

// ---- Runs ---------------------------------------------------------------------------------------
static uint32_t runs = 600;

static void call(fixture_t *f, plan_t *plan, dt_answer_t answer, const char *passes,
                 dt_tensor_t *const *in, dt_tensor_t **out) {
  static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.name = "width"}};
  static const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims},
      {.name = "y", .dtype = DT_F32, .rank = 2, .dims = dims},
      {.name = "z", .dtype = DT_F32, .rank = 1, .dims = &dims[1]}};
  dt_function_options_t options = options_of(3, inputs);
  options.n_outputs = OUTPUTS;
  options.answer = answer;
  options.passes = passes;
  dt_function_t *function = function_of(f, program, plan, &options);
  expect_ok(dt_call(f->session, function, in, 3, out, OUTPUTS, NULL));
  dt_function_release(function);
}

static void run(fixture_t *f, uint32_t k) {
  static const dt_point_t points[] = {DT_POINT_BEFORE_DECOMPOSE, DT_POINT_AFTER_DECOMPOSE,
                                      DT_POINT_BEFORE_LOWER};
  bool compiled = k % 15 == 0 && compiled_answer() == DT_ANSWER_COMPILED;
  dt_pattern_t *patterns[PATTERNS];
  dt_tensor_t *in[3], *got[OUTPUTS] = {NULL}, *want[OUTPUTS] = {NULL};
  char without[128], what[32];
  plan_t plan;
  rng_t rng = {.state = 40 + k};
  draw(&rng, &plan);
  for (int i = 0; i < 3; i++) {
    in[i] = tensor_full(0, i < 2 ? 2 : 1, i < 2 ? SIZES(2, 3) : SIZES(3));
    for (int64_t e = 0; e < dt_tensor_count(in[i]); e++)
      ((float *)dt_tensor_data(in[i]))[e] = (float)rng_between(&rng, -8, 8);
  }
  add_some(f->runtime, &rng, compiled ? points[k / 15 % 3] : DT_POINT_TRACED, patterns, without);
  call(f, &plan, compiled ? DT_ANSWER_COMPILED : DT_ANSWER_EVALUATOR, NULL, in, got);
  call(f, &plan, DT_ANSWER_EVALUATOR, without, in, want);
  (void)snprintf(what, sizeof(what), "run %u", k);
  for (int i = 0; i < OUTPUTS; i++)
    expect_close(got[i], want[i], 0, compiled ? 1e-6 : 0, what);
  RELEASE(in[0], in[1], in[2]);
  release_tensors(got, OUTPUTS);
  release_tensors(want, OUTPUTS);
  drop_all(f->runtime, patterns);
}

static void test_random_programs(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  for (uint32_t k = 0; k < runs; k++)
    run(&f, k);
  for (uint32_t k = 0; k < PATTERNS; k++) {
    print_message("pattern %u: %u replaced\n", k, (unsigned)counts[k]);
    assert_true(counts[k] > 0);
  }
  fixture_end(&f);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--runs") == 0)
    runs = (uint32_t)atoi(argv[2]);
  const struct CMUnitTest tests[] = {TEST(test_random_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

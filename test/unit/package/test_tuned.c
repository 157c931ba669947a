// SPDX-License-Identifier: Apache-2.0
// Packages of tuned functions: they have the tuned code, say so, give its bits, and can be tuned
// again; variants for hot sizes go with the others.
#include "test/support/folder.h"
#include "test/support/subjects.h"
#include "test/unit/package/lives.h"

#include "ductile/tune.h"
#include "runtime/compile/level.h"
#include "runtime/exec/function.h"
#include "runtime/exec/policy.h"
#include "runtime/exec/tune.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define BIT(choice) ((dt_choices_t)1 << DT_CHOICE_##choice)

static char folder[FOLDER_BYTES], path[FOLDER_BYTES + 16];

typedef struct life_tuned_t {
  fixture_t f;
  mlp_t mlp;
  dt_tensor_t *in;
} life_tuned_t;

static void live(life_tuned_t *l) {
  const int64_t sizes[] = {3, 21, 16};
  *l = (life_tuned_t){.f = fixture_on(DT_CPU, 2)};
  l->f.rng = (rng_t){11};
  mlp_init(&l->mlp, &l->f.rng);
  l->in = tensor_f32(&l->f.rng, 3, sizes);
}

static void end(life_tuned_t *l) {
  RELEASE(l->in);
  mlp_fini(&l->mlp);
  fixture_end(&l->f);
}

static dt_tensor_t *call(life_tuned_t *l, dt_function_t *function) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(l->f.session, function, &l->in, 1, &out, 1, NULL));
  return out;
}

static void tune(life_tuned_t *l, dt_function_t *function, dt_choices_t favoured) {
  const dt_tune_call_t calls = {.inputs = &l->in};
  const dt_tune_options_t options = {.struct_size = sizeof(options),
                                     .n_calls = 1,
                                     .calls = &calls,
                                     .call_size = sizeof(calls),
                                     .allow_other_bits = true,
                                     .budget_ns = 60000000000};
  dt__trial_favour(favoured);
  expect_ok(dt_function_tune(l->f.session, function, &options, NULL));
  dt__trial_favour(0);
}

static bool same(const dt_tensor_t *a, const dt_tensor_t *b) {
  return memcmp(dt_tensor_data(a), dt_tensor_data(b), dt_tensor_bytes(a)) == 0;
}

static void expect_tuned(dt_function_t *function, uint32_t index, const char *begin) {
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(function, NULL, 0, &report));
  assert_true(index < report->n_variants);
  const char *tuned = report->variants[index]->tuned;
  if (strncmp(tuned, begin, strlen(begin)) != 0 || (!begin[0] && tuned[0])) // "": not at all
    fail_msg("'%s', expected '%s…'", report->variants[index]->tuned, begin);
  dt_report_free(report);
}

static void write_package(dt_function_t *function, const char *levels) {
  const dt_package_write_options_t options = {.struct_size = sizeof(options), .levels = levels};
  expect_ok(dt_package_write(path, &function, 1, &options));
}

// At each level that runs here, by its own runtime. Of choices that a level has nothing for the
// others are taken.
static void test_has_tuned_code(void **state) {
  (void)state;
  for (uint32_t level = 0; level < DT_LEVELS; level++) {
    if (!dt__level_runs(level))
      continue;
    life_tuned_t l;
    variable_set("DUCTILE_CPU", dt__levels[level].cpu);
    live(&l);
    dt_function_t *own = subject_function(l.f.runtime, &mlp_subject, &l.mlp, DT_ANSWER_COMPILED);
    tune(&l, own, BIT(optimised) | BIT(plain_products));
    expect_tuned(own, 0, "optimised,plain-products: ");
    dt_tensor_t *want = call(&l, own);
    write_package(own, "v2,v3,v4");
    dt_package_t *package = opened(l.f.runtime, path);
    dt_function_t *taken = function_in(package, NULL);
    dt_tensor_t *got = call(&l, taken);
    assert_true(same(want, got));
    assert_int_equal(stats_of(taken).compiles, 0);
    expect_tuned(taken, 0, "optimised,plain-products: ");
    tune(&l, taken, BIT(long_slices)); // it is tuned on, by what it has
    expect_tuned(taken, 0, "optimised,plain-products: ");
    RELEASE(got);
    got = call(&l, taken);
    assert_true(same(want, got));
    RELEASE(got, want);
    dt_function_release(taken);
    dt_package_release(package);
    dt_function_release(own);
    end(&l);
  }
  variable_set("DUCTILE_CPU", NULL);
}

static void test_has_hot_sizes(void **state) {
  (void)state;
  life_tuned_t l;
  variable_set("DUCTILE_HOT_SIZES", "60");
  live(&l);
  dt_function_t *own = subject_function(l.f.runtime, &mlp_subject, &l.mlp, DT_ANSWER_COMPILED);
  dt_tensor_t *want = call(&l, own);
  const int64_t values[] = {3, 21};
  dt__histogram_add(&own->policy.histogram, values, 1000, 0);
  dt__trial_favour(DT_TRIAL_SECOND);
  dt__hot_request(own);
  const struct timespec pause = {.tv_nsec = 1000000};
  while (atomic_load(&own->hot.posted))
    (void)nanosleep(&pause, NULL);
  dt__trial_favour(0);
  assert_int_equal(stats_of(own).variants, 2);
  write_package(own, "v2,v3,v4");
  dt_function_release(own);
  dt_package_t *package = opened(l.f.runtime, path);
  dt_function_t *taken = function_in(package, NULL);
  assert_int_equal(stats_of(taken).variants, 2);
  expect_tuned(taken, 0, "for hot sizes: ");
  expect_tuned(taken, 1, "");
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(taken, &l.in, 1, &report));
  assert_true(report->misses[0]->hit && report->misses[1]->hit);
  dt_report_free(report);
  dt_tensor_t *got = call(&l, taken);
  expect_close(got, want, 1e-6, 1e-6, "a variant for a size");
  assert_int_equal(stats_of(taken).compiles, 0);
  RELEASE(got, want);
  dt_function_release(taken);
  dt_package_release(package);
  end(&l);
  variable_set("DUCTILE_HOT_SIZES", NULL);
}

static int begin(void **state) {
  (void)state;
  folder_make(folder);
  (void)snprintf(path, sizeof(path), "%s/tuned.dtp", folder);
  return 0;
}

static int finish(void **state) {
  (void)state;
  return folder_drop(folder);
}

RUN_TESTS_WITH(begin, finish, TEST(test_has_tuned_code), TEST(test_has_hot_sizes))

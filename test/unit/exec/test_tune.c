// SPDX-License-Identifier: Apache-2.0
// Tuning: what is tried, and what is told of it; code exchanged while calls go on, with the same
// bits; the caller's tensors as they were; ends at any time; and what the next runtime has of it.
#include "test/support/folder.h"
#include "test/support/subjects.h"

#include "ductile/tune.h"
#include "runtime/compile/tuned.h"
#include "runtime/exec/tune.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define N_THREADS 4
#define BIT(choice) ((dt_choices_t)1 << DT_CHOICE_##choice)

static char folder[FOLDER_BYTES];

// ---- A runtime, the function and inputs of two sizes ----------------------------------------------
static const int64_t sizes[2][3] = {{3, 5, 16}, {19, 37, 16}};

typedef struct life_t {
  fixture_t f;
  mlp_t mlp;
  dt_function_t *function;
  dt_tensor_t *in[2];
  dt_tune_call_t calls[2];
  dt_tune_options_t options;
} life_t;

static void live(life_t *l) {
  *l = (life_t){.f = fixture_on(DT_CPU, 2)};
  l->f.rng = (rng_t){11};
  mlp_init(&l->mlp, &l->f.rng);
  for (uint32_t k = 0; k < 2; k++) {
    l->in[k] = tensor_f32(&l->f.rng, 3, sizes[k]);
    l->calls[k].inputs = &l->in[k];
  }
  l->function = subject_function(l->f.runtime, &mlp_subject, &l->mlp, DT_ANSWER_COMPILED);
  l->options = (dt_tune_options_t){.struct_size = sizeof(l->options),
                                   .n_calls = 2,
                                   .calls = l->calls,
                                   .call_size = sizeof(l->calls[0]),
                                   .budget_ns = 60000000000};
}

static void end(life_t *l) {
  dt_function_release(l->function);
  RELEASE(l->in[0], l->in[1]);
  mlp_fini(&l->mlp);
  fixture_end(&l->f);
}

static dt_tensor_t *call(life_t *l, uint32_t k) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(l->f.session, l->function, &l->in[k], 1, &out, 1, NULL));
  return out;
}

static bool same(const dt_tensor_t *a, const dt_tensor_t *b) {
  return dt_tensor_bytes(a) == dt_tensor_bytes(b) &&
         memcmp(dt_tensor_data(a), dt_tensor_data(b), dt_tensor_bytes(a)) == 0;
}

static dt_tune_report_t *tune(life_t *l) {
  dt_tune_report_t *report = NULL;
  expect_ok(dt_function_tune(l->f.session, l->function, &l->options, &report));
  return report;
}

static const dt_tune_item_t *item_of(const dt_tune_report_t *report, dt_choice_t choice) {
  for (uint32_t k = 0; k < report->n_items; k++)
    if (strcmp(report->items[k]->choice, dt__choice(choice)->name) == 0)
      return report->items[k];
  fail_msg("%s was not tried", dt__choice(choice)->name);
  return NULL;
}

// "": it was not tuned.
static void expect_tuned(life_t *l, const char *begin) {
  dt_report_t *report = NULL;
  expect_ok(dt_function_report(l->function, NULL, 0, &report));
  assert_int_equal(report->n_variants, 1);
  const char *tuned = report->variants[0]->tuned;
  if (strncmp(tuned, begin, strlen(begin)) != 0 || (!begin[0] && tuned[0]))
    fail_msg("'%s', expected '%s…'", report->variants[0]->tuned, begin);
  dt_report_free(report);
}

// ---- Tests ----------------------------------------------------------------------------------------
static void test_told(void **state) {
  (void)state;
  life_t l;
  live(&l);
  expect_ok(dt_function_prepare(l.function, NULL));
  expect_tuned(&l, "");
  l.options.budget_ns = 2000000000;
  dt_tune_report_t *report = tune(&l);
  assert_int_equal(report->n_items, DT_CHOICES);
  for (uint32_t k = 0; k < DT_CHOICES; k++) {
    const dt_tune_item_t *item = report->items[k];
    assert_string_equal(item->choice, dt__choice((dt_choice_t)k)->name);
    assert_int_equal(item->keeps_bits, dt__choice((dt_choice_t)k)->keeps_bits);
    assert_int_not_equal(item->outcome, DT_TUNE_FAILED);
    if (!item->keeps_bits)
      assert_int_equal(item->outcome, DT_TUNE_OTHER_BITS);
    assert_true(item->outcome != DT_TUNE_OTHER_BITS || item->ratio == 0);
  }
  assert_int_equal(item_of(report, DT_CHOICE_long_slices)->outcome, DT_TUNE_SAME);
  assert_int_equal(report->n_variants, 1);
  assert_int_equal(report->variants[0]->n_calls, 2);
  for (uint32_t k = 0; k < 2; k++) {
    assert_int_equal(report->variants[0]->calls[k], k);
    assert_true(report->variants[0]->ns[k] > 0);
    assert_true(report->variants[0]->before_ns[k] >= report->variants[0]->ns[k]);
  }
  char *text = NULL, *json = NULL;
  expect_ok(dt_tune_report_text(report, &text));
  expect_ok(dt_tune_report_json(report, &json));
  assert_non_null(strstr(text, "variant 0, optimised: "));
  assert_non_null(strstr(text, "  call 1: "));
  assert_non_null(strstr(json, "{\"event\":\"tuned\",\"function\":\"mlp\",\"variant\":0,"));
  dt_text_free(text);
  dt_text_free(json);
  dt_tune_report_free(report);
  assert_int_equal(stats_of(l.function).variants, 1);
  end(&l);
}

// What is better takes its place, with the same bits; what it is upon is turned back, too.
static void test_taken(void **state) {
  (void)state;
  life_t l;
  live(&l);
  dt_tensor_t *before[2] = {call(&l, 0), call(&l, 1)};
  uint64_t calls = stats_of(l.function).calls;
  dt__trial_favour(BIT(optimised) | BIT(own_codes));
  dt_tune_report_t *report = tune(&l);
  assert_int_equal(item_of(report, DT_CHOICE_optimised)->outcome, DT_TUNE_TAKEN);
  assert_non_null(strstr(report->variants[0]->choices, "optimised"));
  dt_tune_report_free(report);
  dt__trial_favour(0);
  assert_int_equal(stats_of(l.function).calls, calls);
  assert_int_equal(stats_of(l.function).variants, 1);
  for (uint32_t k = 0; k < 2; k++) {
    dt_tensor_t *after = call(&l, k);
    assert_true(same(before[k], after));
    RELEASE(after, before[k]);
  }
  assert_int_equal(stats_of(l.function).compiles, 1);
  dt_report_t *told = NULL;
  char *text = NULL;
  expect_ok(dt_function_report(l.function, NULL, 0, &told));
  expect_ok(dt_report_text(told, DT_REPORT_VARIANTS, &text));
  assert_non_null(strstr(text, "tuned: "));
  assert_non_null(strstr(text, "optimised: "));
  if (!strstr(text, "x 3x5x16, "))
    fail_msg("%s", text);
  dt_text_free(text);
  dt_report_free(told);
  end(&l);
}

// Floats may change where that is asked for, within the policy.
static void test_other_bits(void **state) {
  (void)state;
  life_t l;
  live(&l);
  dt_tensor_t *before = call(&l, 1);
  l.options.allow_other_bits = true;
  dt__trial_favour(BIT(plain_products));
  dt_tune_report_t *report = tune(&l);
  dt__trial_favour(0);
  assert_int_equal(item_of(report, DT_CHOICE_plain_products)->outcome, DT_TUNE_TAKEN);
  assert_string_equal(report->variants[0]->choices, "plain-products");
  dt_tune_report_free(report);
  dt_tensor_t *after = call(&l, 1);
  expect_close(after, before, 1e-5, 1e-5, "plain products");
  RELEASE(before, after);
  end(&l);
}

// ---- While calls go on ----------------------------------------------------------------------------
typedef struct caller_t {
  life_t *life;
  dt_tensor_t *want[2];
  _Atomic bool *stop;
  _Atomic uint64_t *calls;
  bool wrong;
} caller_t;

static void *keep_calling(void *opaque) {
  caller_t *caller = opaque;
  life_t *l = caller->life;
  dt_session_t *session = session_of(l->f.runtime);
  for (uint32_t k = 0; !atomic_load(caller->stop) && !caller->wrong; k ^= 1) {
    dt_tensor_t *out = NULL;
    dt_status_t status = dt_call(session, l->function, &l->in[k], 1, &out, 1, NULL);
    caller->wrong = status || !same(out, caller->want[k]);
    dt_status_free(status);
    dt_tensor_release(out);
    atomic_fetch_add(caller->calls, 1);
  }
  dt_session_destroy(session);
  return NULL;
}

static void *keep_tuning(void *opaque) {
  caller_t *caller = opaque;
  life_t *l = caller->life;
  dt_session_t *session = session_of(l->f.runtime);
  dt_status_t status = dt_function_tune(session, l->function, &l->options, NULL);
  caller->wrong = status != NULL;
  dt_status_free(status);
  dt_session_destroy(session);
  return NULL;
}

// Four threads call, two tune, one exchanges a constant, whose bits stay.
static void test_threads(void **state) {
  (void)state;
  life_t l;
  live(&l);
  _Atomic bool stop = false;
  _Atomic uint64_t calls = 0;
  dt_tensor_t *want[2] = {call(&l, 0), call(&l, 1)};
  caller_t callers[N_THREADS + 2];
  pthread_t threads[N_THREADS + 2];
  dt__trial_favour(BIT(optimised) | BIT(own_codes) | BIT(any_model));
  for (uint32_t k = 0; k < N_THREADS + 2; k++) {
    callers[k] = (caller_t){&l, {want[0], want[1]}, &stop, &calls, false};
    assert_int_equal(
        pthread_create(&threads[k], NULL, k < N_THREADS ? keep_calling : keep_tuning, &callers[k]),
        0);
  }
  for (uint32_t k = 0; k < 20; k++)
    expect_ok(dt_constant_update(l.function, "b1", l.mlp.b1));
  for (uint32_t k = N_THREADS; k < N_THREADS + 2; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  atomic_store(&stop, true);
  for (uint32_t k = 0; k < N_THREADS; k++)
    assert_int_equal(pthread_join(threads[k], NULL), 0);
  dt__trial_favour(0);
  for (uint32_t k = 0; k < N_THREADS + 2; k++)
    assert_false(callers[k].wrong);
  assert_true(atomic_load(&calls) > 0);
  assert_int_equal(stats_of(l.function).variants, 1);
  assert_int_equal(stats_of(l.function).failed_calls, 0);
  RELEASE(want[0], want[1]);
  end(&l);
}

// A constant that is exchanged meanwhile is the new one in code that comes later.
static void update_in_progress(void *closure, const dt_tune_progress_t *progress) {
  life_t *l = closure;
  if (progress->choice[0])
    return;
  float *bias = dt_tensor_data(l->mlp.b2);
  dt_tensor_t *fresh = NULL;
  expect_ok(dt_tensor_create_empty(DT_F32, 1, dt_tensor_sizes(l->mlp.b2), &fresh));
  for (int64_t k = 0; k < dt_tensor_count(fresh); k++)
    ((float *)dt_tensor_data(fresh))[k] = bias[k] + 1;
  expect_ok(dt_constant_update(l->function, "b2", fresh));
  RELEASE(fresh);
}

static void test_updated(void **state) {
  (void)state;
  life_t l;
  live(&l);
  dt_tensor_t *before = call(&l, 0);
  l.options.progress = update_in_progress;
  l.options.closure = &l;
  dt__trial_favour(BIT(optimised));
  expect_ok(dt_function_tune(l.f.session, l.function, &l.options, NULL));
  dt__trial_favour(0);
  dt_tensor_t *after = call(&l, 0);
  assert_false(same(before, after));
  RELEASE(before, after);
  end(&l);
}

// ---- Arguments that are written -------------------------------------------------------------------
// in[0] becomes in[0] + in[1], and in[2] is given up.
static dt_status_t write_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  dt_update(t, in[0], dt_add(t, in[0], in[1]));
  out[0] = dt_mul(t, in[2], in[1]);
  return NULL;
}

static const dt_input_decl_t write_inputs[] = {
    {.name = "sum", .dtype = DT_F32, .rank = 1, .dims = (dt_dim_decl_t[]){{.name = "n"}}},
    {.name = "more", .dtype = DT_F32, .rank = 1, .dims = (dt_dim_decl_t[]){{.name = "n"}}},
    {.name = "given",
     .dtype = DT_F32,
     .rank = 1,
     .dims = (dt_dim_decl_t[]){{.name = "n"}},
     .kind = DT_INPUT_DONATED}};
static const subject_t write_subject = {"write", write_program, 3, 1, write_inputs};

static void test_written(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 2);
  const int64_t n = 100;
  dt_tensor_t *in[3] = {tensor_f32(&f.rng, 1, &n), tensor_f32(&f.rng, 1, &n),
                        tensor_f32(&f.rng, 1, &n)};
  float before[3][100];
  for (uint32_t k = 0; k < 3; k++)
    memcpy(before[k], dt_tensor_data(in[k]), sizeof(before[k]));
  dt_function_t *function = subject_function(f.runtime, &write_subject, NULL, DT_ANSWER_COMPILED);
  const dt_tune_call_t calls = {.inputs = in};
  const dt_tune_options_t options = {.struct_size = sizeof(options),
                                     .n_calls = 1,
                                     .calls = &calls,
                                     .call_size = sizeof(calls),
                                     .budget_ns = 300000000};
  dt_tune_report_t *report = NULL;
  expect_ok(dt_function_tune(f.session, function, &options, &report));
  for (uint32_t k = 0; k < report->n_items; k++)
    assert_int_not_equal(report->items[k]->outcome, DT_TUNE_FAILED);
  dt_tune_report_free(report);
  for (uint32_t k = 0; k < 3; k++)
    assert_memory_equal(dt_tensor_data(in[k]), before[k], sizeof(before[k]));
  RELEASE(in[0], in[1], in[2]);
  dt_function_release(function);
  fixture_end(&f);
}

// ---- Ends -----------------------------------------------------------------------------------------
static void cancel(void *closure, const dt_tune_progress_t *progress) {
  if (progress->done == 3)
    dt_cancel_request(closure);
}

static void test_ends(void **state) {
  (void)state;
  life_t l;
  live(&l);
  dt_tensor_t *before = call(&l, 1);
  dt_tune_report_t *report = NULL;
  l.options.deadline_ns = 1;
  expect_told(dt_function_tune(l.f.session, l.function, &l.options, &report), DT_E_DEADLINE,
              "tune");
  assert_null(report);
  l.options.deadline_ns = 0;
  dt_cancel_t flag = {0};
  l.options.cancel = &flag;
  l.options.progress = cancel;
  l.options.closure = &flag;
  dt__trial_favour(BIT(own_codes) | BIT(optimised));
  expect_told(dt_function_tune(l.f.session, l.function, &l.options, &report), DT_E_CANCELLED,
              "tune");
  dt__trial_favour(0);
  assert_null(report);
  expect_tuned(&l, ""); // as it was
  dt_tensor_t *after = call(&l, 1);
  assert_true(same(before, after));
  RELEASE(before, after);
  end(&l);
}

static void test_no_time(void **state) {
  (void)state;
  life_t l;
  live(&l);
  l.options.budget_ns = 1;
  dt_tune_report_t *report = tune(&l);
  assert_int_equal(item_of(report, DT_CHOICE_optimised)->outcome, DT_TUNE_NO_TIME);
  assert_string_equal(report->variants[0]->choices, "");
  dt_tune_report_free(report);
  end(&l);
}

static void test_refused(void **state) {
  (void)state;
  life_t l;
  live(&l);
  dt_tune_options_t options = l.options;
  options.n_calls = 0;
  expect_told(dt_function_tune(l.f.session, l.function, &options, NULL), DT_E_ARGUMENT, "calls");
  options.n_calls = DT_TUNE_MOST_CALLS + 1;
  expect_told(dt_function_tune(l.f.session, l.function, &options, NULL), DT_E_ARGUMENT, "calls");
  options = l.options;
  l.calls[1].weight = -1;
  expect_told(dt_function_tune(l.f.session, l.function, &options, NULL), DT_E_ARGUMENT, "weight");
  l.calls[1] = (dt_tune_call_t){0};
  expect_told(dt_function_tune(l.f.session, l.function, &options, NULL), DT_E_ARGUMENT, "inputs");
  expect_told(dt_function_tune(NULL, l.function, &options, NULL), DT_E_ARGUMENT, "session");
  expect_told(dt_function_tune(l.f.session, NULL, &options, NULL), DT_E_ARGUMENT, "function");
  dt_function_t *oracle = subject_function(l.f.runtime, &mlp_subject, &l.mlp, DT_ANSWER_EVALUATOR);
  expect_told(dt_function_tune(l.f.session, oracle, &options, NULL), DT_E_UNSUPPORTED, "evaluator");
  dt_function_release(oracle);
  end(&l);
}

// Calls that fail are told as calls tell them.
static void test_failing(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  const int64_t table[] = {4, 5}, n = 2, ids[] = {1, 9};
  dt_tensor_t *in[2] = {tensor_f32(&f.rng, 2, table), tensor_i64(1, &n, ids)};
  dt_function_t *function = subject_function(f.runtime, &gather_subject, NULL, DT_ANSWER_COMPILED);
  const dt_tune_call_t calls = {.inputs = in};
  const dt_tune_options_t options = {
      .struct_size = sizeof(options), .n_calls = 1, .calls = &calls, .budget_ns = 200000000};
  expect_told(dt_function_tune(f.session, function, &options, NULL), DT_E_RANGE, "gather");
  RELEASE(in[0], in[1]);
  dt_function_release(function);
  fixture_end(&f);
}

// ---- The next runtime -----------------------------------------------------------------------------
static void test_kept(void **state) {
  (void)state;
  life_t l;
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
  live(&l);
  dt__trial_favour(BIT(optimised));
  dt_tune_report_t *report = tune(&l);
  dt__trial_favour(0);
  assert_true(report->variants[0]->kept);
  dt_tensor_t *first = call(&l, 1);
  dt_tune_report_free(report);
  end(&l);
  live(&l);
  dt_tensor_t *second = call(&l, 1);
  expect_tuned(&l, "optimised: ");
  assert_true(same(first, second));
  RELEASE(second);
  end(&l);
  variable_set("DUCTILE_TUNED", "0");
  live(&l);
  second = call(&l, 1);
  expect_tuned(&l, "");
  assert_true(same(first, second));
  RELEASE(first, second);
  end(&l);
  variable_set("DUCTILE_TUNED", NULL);
  variable_set("DUCTILE_CACHE_DIR", "");
  assert_int_equal(folder_drop(folder), 0);
}

// Bits that are not the usual ones come only to who wants that; and what was found later counts.
static void test_kept_other_bits(void **state) {
  (void)state;
  life_t l;
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
  live(&l);
  dt_tensor_t *usual = call(&l, 1);
  l.options.allow_other_bits = true;
  dt__trial_favour(BIT(plain_products));
  expect_ok(dt_function_tune(l.f.session, l.function, &l.options, NULL));
  dt__trial_favour(0);
  dt_tensor_t *tuned = call(&l, 1);
  end(&l);
  for (int wants = 1; wants <= 2; wants++) {
    variable_set("DUCTILE_TUNED", wants == 1 ? "1" : "2");
    live(&l);
    dt_tensor_t *now = call(&l, 1);
    assert_true(same(now, wants == 1 ? usual : tuned));
    expect_tuned(&l, wants == 1 ? "" : "plain-products: ");
    RELEASE(now);
    if (wants == 2) { // the usual way is better after all
      dt__trial_favour(BIT(long_slices));
      l.options.forget = true;
      expect_ok(dt_function_tune(l.f.session, l.function, &l.options, NULL));
      dt__trial_favour(0);
    }
    end(&l);
  }
  live(&l);
  expect_ok(dt_function_prepare(l.function, NULL));
  RELEASE(usual, tuned);
  end(&l);
  variable_set("DUCTILE_TUNED", NULL);
  variable_set("DUCTILE_CACHE_DIR", "");
  assert_int_equal(folder_drop(folder), 0);
}

// ---- Choices --------------------------------------------------------------------------------------
static void test_choices(void **state) {
  (void)state;
  dt_choices_t set = 0;
  dt_text_t text;
  set = dt__choices_turn(set, DT_CHOICE_long_slices);
  set = dt__choices_turn(set, DT_CHOICE_optimised);
  assert_true(dt__choices_keep_bits(set));
  set = dt__choices_turn(set, DT_CHOICE_short_slices); // of one group
  assert_true(set == (BIT(short_slices) | BIT(optimised)));
  set = dt__choices_turn(set, DT_CHOICE_plain_layouts);
  assert_false(dt__choices_keep_bits(set));
  dt__text_init(&text);
  dt__choices_print(set, &text);
  assert_string_equal(dt__text_str(&text), "short-slices,optimised,plain-layouts");
  dt_choices_t read = 0;
  expect_ok(dt__choices_parse(dt__text_str(&text), &read));
  assert_true(read == set);
  expect_told(dt__choices_parse("optimised,fast", &read), DT_E_ARGUMENT, "'fast'");
  assert_true(read == 0);
  dt__text_fini(&text);
  dt_target_t target = {.l2_bytes = 1 << 20, .vector_bytes = 32, .vector_registers = 16};
  assert_true(dt__choices_within(BIT(half_vectors) | BIT(long_slices), &target) ==
              BIT(long_slices));
  expect_told(dt__choices_apply(BIT(half_vectors), &target), DT_E_UNSUPPORTED, "half-vectors");
  expect_ok(dt__choices_apply(BIT(long_slices), &target));
  assert_int_equal(target.l2_bytes, 4 << 20);
  expect_told(dt__choices_apply(BIT(whole_windows), &target), DT_E_UNSUPPORTED,
              "DUCTILE_FAST_CONV=0");
  target.fast_conv = true;
  expect_ok(dt__choices_apply(BIT(whole_windows), &target));
  assert_false(target.fast_conv);
}

// What is kept is read back; each byte that is other is found or means something else, and no
// length is believed.
static void test_stored(void **state) {
  (void)state;
  const dt_tuned_call_t calls[] = {{"x 8x128", 2100000, 1900000}, {"", 900, 800}};
  dt_tuned_t *tuned = dt__tuned_create(BIT(optimised), calls, 2), *read = NULL;
  dt_text_t entry, told;
  assert_non_null(tuned);
  dt__text_init(&entry);
  dt__text_init(&told);
  dt_stream_t out = {.to = &entry};
  dt__tuned_store(&out, &tuned);
  dt_stream_t in = {.from = (const unsigned char *)entry.data, .left = entry.len};
  dt__tuned_store(&in, &read);
  assert_true(dt__stream_is_done(&in));
  dt__tuned_put(read, &told);
  assert_string_equal(dt__text_str(&told),
                      "optimised: 1900.0 us for 2100.0 us at x 8x128, 800 ns for 900 ns");
  dt__tuned_destroy(read);
  for (size_t n = 0; n < entry.len; n++) {
    dt_stream_t cut = {.from = (const unsigned char *)entry.data, .left = n};
    read = NULL;
    dt__tuned_store(&cut, &read);
    assert_false(dt__stream_is_done(&cut));
    dt__tuned_destroy(read);
  }
  for (size_t n = 0; n < 8 * entry.len; n++) {
    entry.data[n / 8] ^= (char)(1 << n % 8);
    dt_stream_t forged = {.from = (const unsigned char *)entry.data, .left = entry.len};
    read = NULL;
    dt__tuned_store(&forged, &read);
    dt__tuned_destroy(read);
    entry.data[n / 8] ^= (char)(1 << n % 8);
  }
  dt__tuned_destroy(tuned);
  dt__text_fini(&entry);
  dt__text_fini(&told);
}

RUN_TESTS(TEST(test_told), TEST(test_taken), TEST(test_other_bits), TEST(test_threads),
          TEST(test_updated), TEST(test_written), TEST(test_ends), TEST(test_no_time),
          TEST(test_refused), TEST(test_failing), TEST(test_kept), TEST(test_kept_other_bits),
          TEST(test_choices), TEST(test_stored))

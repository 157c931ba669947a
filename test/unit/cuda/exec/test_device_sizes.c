// SPDX-License-Identifier: Apache-2.0
// Programs whose sizes come from data, on a device, without the host reading anything: results
// against the reference evaluator, checks that fail told later and once, memory never left (the
// fake driver looks), and programs that do read, with their reason.
#include "test/unit/cuda/exec/size_programs.h"

#include "runtime/base/log.h"
#include "test/fake_cuda/fake_cuda.h"

#include <string.h>

// ---- Calls ----------------------------------------------------------------------------------------

#define MAX_TENSORS 2

typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *host, *device;
  dt_function_t *function, *oracle;
  const subject_t *subject;
  rng_t rng;
} place_t;

static place_t open_place(const subject_t *subject, void *closure) {
  fake_cuda_reset(11);
  place_t place = {.subject = subject, .rng = {77}};
  fixture_t there = fixture_on(DT_CUDA, 1);
  place.runtime = there.runtime;
  place.device = there.session;
  place.host = session_of(place.runtime);
  place.function = subject_function(place.runtime, subject, closure, DT_ANSWER_COMPILED);
  place.oracle = subject_function(place.runtime, subject, closure, DT_ANSWER_EVALUATOR);
  return place;
}

static void close_place(place_t *place) {
  const char *first = "";
  dt_function_release(place->function);
  dt_function_release(place->oracle);
  dt_session_destroy(place->device);
  dt_session_destroy(place->host);
  dt_runtime_release(place->runtime);
  if (fake_cuda_violations(&first))
    fail_msg("violation: %s", first);
}

// The same by device and evaluator, twice, the second time into the first one's results. The device
// is not waited for in between.
static void expect_agree(place_t *place, dt_tensor_t **inputs) {
  uint32_t n = place->subject->n_inputs, n_out = place->subject->n_outputs;
  dt_tensor_t *there[MAX_TENSORS] = {NULL}, *got[MAX_TENSORS] = {NULL}, *want[MAX_TENSORS] = {NULL};
  for (uint32_t k = 0; k < n; k++)
    there[k] = tensor_upload(place->device, inputs[k]);
  expect_ok(dt_call(place->device, place->function, there, n, got, n_out, NULL));
  uint64_t waits = fake_cuda_calls(DT_CUDA_SYM_stream_synchronize);
  expect_ok(dt_call(place->device, place->function, there, n, got, n_out, NULL));
  if (!stats_of(place->function).readbacks)
    assert_int_equal(fake_cuda_calls(DT_CUDA_SYM_stream_synchronize), waits);
  expect_ok(dt_call(place->host, place->oracle, inputs, n, want, n_out, NULL));
  for (uint32_t k = 0; k < n_out; k++) {
    dt_tensor_t *back = tensor_download(place->device, got[k]);
    expect_close(back, want[k], 1e-4, 1e-4, place->subject->name);
    dt_tensor_release(back);
  }
  expect_ok(dt_session_wait(place->device));
  release_tensors(there, n);
  release_tensors(got, n_out);
  release_tensors(want, n_out);
}

// The call is queued; what is wrong with it is told by the wait for it, once, and its result was
// not touched.
static void expect_told_later(place_t *place, dt_tensor_t **inputs, dt_code_t code,
                              const char *part) {
  uint32_t n = place->subject->n_inputs;
  dt_tensor_t *there[MAX_TENSORS] = {NULL}, *rubbish = tensor_full(42, 0, NULL);
  dt_tensor_t *out = tensor_upload(place->device, rubbish);
  for (uint32_t k = 0; k < n; k++)
    there[k] = tensor_upload(place->device, inputs[k]);
  expect_ok(dt_call(place->device, place->function, there, n, &out, 1, NULL));
  dt_status_t status = dt_session_wait(place->device);
  assert_non_null(status);
  if (!strstr(dt_status_message(status), "(size_programs.c:"))
    fail_msg("no source line: %s", dt_status_message(status));
  expect_told(status, code, part);
  expect_ok(dt_session_wait(place->device));
  dt_tensor_t *back = tensor_download(place->device, out);
  expect_ok(dt_session_wait(place->device));
  expect_close(back, rubbish, 0, 0, "a result of a call that failed");
  RELEASE(out, back, rubbish);
  release_tensors(there, n);
}

// n multiples of 1/4 in [-2, 2]; `some` in every eight are not negative, the others are.
static dt_tensor_t *marks(rng_t *rng, int64_t n, int64_t some) {
  dt_tensor_t *tensor = tensor_empty(DT_F32, 1, &n);
  float *data = dt_tensor_data(tensor);
  for (int64_t k = 0; k < n; k++) {
    float size = (float)rng_between(rng, 1, 8) / 4;
    data[k] = k % 8 < some ? size : -size;
  }
  return tensor;
}

static const int64_t sizes[] = {0, 1, 2, 9, 64, 700, 3000, 31};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
static const int64_t shares[] = {0, 8, 3}; // none, all, some

// All sizes with none, all and some of the elements taken, by one variant that reads nothing back.
static void run_vectors(const subject_t *subject) {
  place_t place = open_place(subject, NULL);
  for (size_t k = 0; k < N_SIZES; k++)
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
      dt_tensor_t *inputs[2] = {tensor_f32(&place.rng, 1, &sizes[k]),
                                marks(&place.rng, sizes[k], shares[i])};
      expect_agree(&place, inputs);
      release_tensors(inputs, 2);
    }
  assert_int_equal(stats_of(place.function).readbacks, 0);
  assert_int_equal(variants_of(place.function), 1);
  close_place(&place);
}

static void elements_at_places(void **state) {
  (void)state;
  place_t place = open_place(&sizes_nonzero, NULL);
  for (size_t k = 0; k < N_SIZES; k++)
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
      dt_tensor_t *inputs[2] = {marks(&place.rng, sizes[k], shares[i]),
                                tensor_f32(&place.rng, 1, &sizes[k])};
      float *data = dt_tensor_data(inputs[0]);
      for (int64_t e = 0; e < sizes[k]; e++)
        data[e] = data[e] > 0 ? data[e] : 0;
      expect_agree(&place, inputs);
      release_tensors(inputs, 2);
    }
  assert_int_equal(stats_of(place.function).readbacks, 0);
  assert_int_equal(variants_of(place.function), 1);
  close_place(&place);
}

static void rows_of_a_length_from_data(void **state) {
  (void)state;
  run_vectors(&sizes_softmax);
}

static void selections_of_selections(void **state) {
  (void)state;
  run_vectors(&sizes_chain);
}

static void repeated_rows(void **state) {
  (void)state;
  static const int64_t widths[] = {1, 5, 70};
  place_t place = open_place(&sizes_repeat, NULL);
  for (size_t k = 0; k < 5; k++)
    for (size_t w = 0; w < 3; w++) {
      int64_t n = sizes[k], repeats[64];
      for (int64_t r = 0; r < n; r++)
        repeats[r] = w == 1 ? 0 : rng_between(&place.rng, 0, 4);
      dt_tensor_t *inputs[2] = {tensor_f32(&place.rng, 2, (const int64_t[]){n, widths[w]}),
                                tensor_i64(1, &n, repeats)};
      expect_agree(&place, inputs);
      release_tensors(inputs, 2);
    }
  assert_int_equal(stats_of(place.function).readbacks, 0);
  close_place(&place);
}

// Matrices of 24 columns. An amax of no rows is refused, so that some have a mark.
static void run_matrices(const subject_t *subject, bool some) {
  rng_t rng = {5};
  dt_tensor_t *w = tensor_f32(&rng, 2, (const int64_t[]){24, 20});
  place_t place = open_place(subject, w);
  for (size_t k = some ? 1 : 0; k < 6; k++) {
    const int64_t n[] = {sizes[k] > 100 ? 100 : sizes[k], 24};
    for (size_t i = some ? 1 : 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
      dt_tensor_t *inputs[2] = {tensor_f32(&place.rng, 2, n), marks(&place.rng, n[0], shares[i])};
      expect_agree(&place, inputs);
      release_tensors(inputs, 2);
    }
  }
  assert_int_equal(stats_of(place.function).readbacks, 0);
  close_place(&place);
  dt_tensor_release(w);
}

static void products_of_rows_from_data(void **state) {
  (void)state;
  run_matrices(&sizes_product, false);
}

static void chains_over_rows_from_data(void **state) {
  (void)state;
  run_matrices(&sizes_norm, true);
}

static void chains_over_keys_from_data(void **state) {
  (void)state;
  run_matrices(&sizes_attention, false);
}

// ---- Checks ---------------------------------------------------------------------------------------

static dt_tensor_t *number(int64_t value) { return tensor_i64(0, NULL, &value); }

static void check_number(const subject_t *subject) {
  place_t place = open_place(subject, NULL);
  static const int64_t lengths[] = {0, 1, 17, 400};
  for (size_t s = 0; s < 4; s++) {
    int64_t n = lengths[s];
    dt_tensor_t *inputs[2] = {tensor_f32(&place.rng, 1, &n), NULL};
    const int64_t good[] = {0, n / 2, n};
    const int64_t bad[] = {-1, n + 1, INT64_MIN, INT64_MAX, DT_SIZE_LIMIT};
    for (int k = 0; k < 3; k++) {
      inputs[1] = number(good[k]);
      expect_agree(&place, inputs);
      dt_tensor_release(inputs[1]);
    }
    for (int k = 0; k < 5; k++) {
      inputs[1] = number(bad[k]);
      expect_told_later(&place, inputs, DT_E_SHAPE, "slice");
      dt_tensor_release(inputs[1]);
    }
    dt_tensor_release(inputs[0]);
  }
  assert_int_equal(stats_of(place.function).readbacks, 0);
  assert_int_equal(variants_of(place.function), 1);
  close_place(&place);
}

static void a_number_is_checked(void **state) {
  (void)state;
  check_number(&sizes_cut);
}

// Where the first check fails nothing that stands behind the second one is run.
static void a_shut_gate_shuts_those_behind_it(void **state) {
  (void)state;
  check_number(&sizes_cut_chain);
}

static void selections_of_other_sizes_are_told(void **state) {
  (void)state;
  place_t place = open_place(&sizes_pair, NULL);
  for (size_t k = 2; k < 6; k++) { // a single one is broadcast
    int64_t n = sizes[k];
    dt_tensor_t *inputs[2] = {marks(&place.rng, n, 3), marks(&place.rng, n, 3)};
    expect_agree(&place, inputs);
    dt_tensor_release(inputs[1]);
    inputs[1] = marks(&place.rng, n, 0);
    expect_told_later(&place, inputs, DT_E_SHAPE, "mul");
    release_tensors(inputs, 2);
    inputs[0] = marks(&place.rng, n, 0);
    inputs[1] = marks(&place.rng, n, 8);
    expect_told_later(&place, inputs, DT_E_SHAPE, "mul");
    release_tensors(inputs, 2);
  }
  assert_int_equal(stats_of(place.function).readbacks, 0);
  close_place(&place);
}

// A call that fails leaves its arguments as they were.
static void arguments_stay(void **state) {
  (void)state;
  place_t place = open_place(&sizes_update, NULL);
  int64_t n = 6;
  dt_tensor_t *x = marks(&place.rng, n, 2), *there = tensor_upload(place.device, x), *out = NULL;
  expect_ok(dt_call(place.device, place.function, &there, 1, &out, 1, NULL));
  expect_ok(dt_session_wait(place.device)); // some are above 0 now that were not before
  dt_tensor_t *before = tensor_download(place.device, there), *after = NULL;
  expect_ok(dt_session_wait(place.device));
  int above = 0;
  for (int64_t k = 0; k < n; k++)
    above += ((float *)dt_tensor_data(before))[k] > 0;
  assert_true(above > 3);
  expect_ok(dt_call(place.device, place.function, &there, 1, &out, 1, NULL));
  expect_told(dt_session_wait(place.device), DT_E_SHAPE, "three at most");
  after = tensor_download(place.device, there);
  expect_ok(dt_session_wait(place.device));
  expect_close(after, before, 0, 0, "an argument of a call that failed");
  assert_int_equal(stats_of(place.function).readbacks, 0);
  RELEASE(x, there, out, before, after);
  close_place(&place);
}

// ---- Programs that read -----------------------------------------------------------------------------

typedef struct heard_t {
  const char *part;
  bool told;
} heard_t;

static void hear(void *user, const char *line, size_t len) {
  heard_t *heard = user;
  char text[512];
  len = len < sizeof(text) - 1 ? len : sizeof(text) - 1;
  memcpy(text, line, len);
  text[len] = 0;
  heard->told |= strstr(text, heard->part) != NULL;
}

static void run_reader(const subject_t *subject, dt_tensor_t *second, const char *reason) {
  heard_t heard = {.part = reason};
  place_t place = open_place(subject, NULL);
  expect_ok(dt_log_configure("compile:1"));
  dt_log_sink_set(hear, &heard);
  dt_tensor_t *inputs[2] = {tensor_f32(&place.rng, 1, (const int64_t[]){40}), second};
  expect_agree(&place, inputs);
  dt_log_sink_set(NULL, NULL);
  expect_ok(dt_log_configure(""));
  assert_int_equal(stats_of(place.function).readbacks, 2);
  assert_true(heard.told);
  release_tensors(inputs, 2);
  close_place(&place);
}

static void others_read_and_say_why(void **state) {
  (void)state;
  rng_t rng = {3};
  run_reader(&sizes_selection, marks(&rng, 40, 3), "dim 0 of result 0 is read from data");
  run_reader(&sizes_unbounded, number(7), "nothing bounds the");
}

int main(int argc, char **argv) {
  if (argc > 1) // a pattern: only the tests that match
    cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {TEST(elements_at_places),
                                     TEST(rows_of_a_length_from_data),
                                     TEST(selections_of_selections),
                                     TEST(repeated_rows),
                                     TEST(products_of_rows_from_data),
                                     TEST(chains_over_rows_from_data),
                                     TEST(chains_over_keys_from_data),
                                     TEST(a_number_is_checked),
                                     TEST(a_shut_gate_shuts_those_behind_it),
                                     TEST(selections_of_other_sizes_are_told),
                                     TEST(arguments_stay),
                                     TEST(others_read_and_say_why)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

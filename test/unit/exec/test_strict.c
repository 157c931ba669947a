// SPDX-License-Identifier: Apache-2.0
// strict_fp: what folds floats gives the bits of the plain loops of strict_model.h, in each float
// dtype, for sizes that code knows nothing of, however the inputs lie in memory, on one thread and
// on four, with wide vectors and narrow ones, fused or not, and on a device (the fake driver runs
// the PTX). The numbers are of many magnitudes, so that another order gives other bits: without the
// option some do.
#include "test/unit/exec/strict_subjects.h"

#include "test/support/folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Calls ----------------------------------------------------------------------------------------
typedef struct place_t {
  fixture_t on;
  const char *name;
  uint32_t threads;
  int64_t most; // elements of an input
} place_t;

// Where the suite runs on a device (test/device/suites.c), no kernel has threads: it is called by
// one.
static place_t open_place(dt_device_t device, uint32_t threads, const char *cpu, int64_t most) {
  if (getenv("DUCTILE_TEST_DEVICE"))
    threads = 1;
  place_t place = {.name = device == DT_CPU ? cpu : "device", .threads = threads, .most = most};
  variable_set("DUCTILE_CPU", cpu);
  place.on = fixture_on(device, threads);
  variable_set("DUCTILE_CPU", NULL);
  return place;
}

static dt_function_t *open_function(place_t *place, const subject_row_t *subject, dt_dtype_t *dtype,
                                    bool strict) {
  dt_input_decl_t inputs[MOST_IN] = {{0}};
  for (uint32_t k = 0; k < subject->n_in; k++)
    inputs[k] = (dt_input_decl_t){.name = (const char *[]){"x", "y", "z"}[k],
                                  .dtype = k + 1 == subject->index ? DT_I64 : *dtype,
                                  .rank = subject->ranks[k]};
  dt_function_options_t options = options_of(subject->n_in, inputs);
  options.n_outputs = subject->n_out;
  options.strict_fp = strict;
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(place->on.runtime, subject->program, dtype, &options, &function));
  return function;
}

static array_t numbers(rng_t *rng, const subject_row_t *subject, uint32_t k, const int64_t *sizes,
                       dt_dtype_t dtype, int64_t bound) {
  array_t a = array_of(subject->ranks[k], sizes);
  int low = dtype == DT_F16 ? -9 : -12, high = dtype == DT_F16 ? 1 : 8;
  for (int64_t i = 0; i < array_count(&a); i++) {
    double x = (double)rng_float(rng);
    if (k + 1 == subject->index)
      a.at[i] = (double)rng_between(rng, 0, bound - 1);
    else if (subject->near_one >> k & 1)
      a.at[i] = rounded(dtype, 1 + x / 8);
    else
      a.at[i] = rounded(dtype, ldexp(x, (int)rng_between(rng, low, high)));
  }
  return a;
}

// How inputs lie in memory.
enum { PLAIN, APART, BACKWARDS, TURNED, N_LAYOUTS };

typedef struct memory_t {
  dt_tensor_t *tensor;
  void *block;
} memory_t;

static memory_t lay_out(const array_t *a, dt_dtype_t dtype, int layout) {
  int64_t strides[DT_MAX_RANK], first = 0, step = layout == APART ? 3 : 1;
  for (uint32_t d = a->rank; d-- > 0;) {
    uint32_t dim = layout == TURNED ? a->rank - 1 - d : d;
    strides[dim] = layout == BACKWARDS ? -step : step;
    step *= a->sizes[dim] > 0 ? a->sizes[dim] : 1;
    step += layout == APART ? 5 : 0;
    if (layout == BACKWARDS && a->sizes[dim] > 0)
      first -= (a->sizes[dim] - 1) * strides[dim];
  }
  memory_t memory = {.block = calloc((size_t)step + 1, 8)};
  assert_non_null(memory.block);
  char *at = (char *)memory.block + (size_t)first * dt_dtype_size(dtype);
  array_store(dtype, a, strides, at);
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = dtype,
                           .rank = a->rank,
                           .sizes = a->sizes,
                           .strides = strides,
                           .data = at};
  expect_ok(dt_tensor_create(&desc, &memory.tensor));
  return memory;
}

// How many elements are others than the model's; the first is told where `must` says none may be.
static int64_t compare(place_t *place, const array_t *want, dt_dtype_t dtype, dt_tensor_t *got,
                       const char *what, bool must) {
  int64_t differ = 0;
  dt_tensor_t *here = NULL;
  assert_int_equal(dt_tensor_rank(got), want->rank);
  for (uint32_t d = 0; d < want->rank; d++)
    assert_int_equal(dt_tensor_sizes(got)[d], want->sizes[d]);
  expect_ok(dt_tensor_create_empty(dtype, want->rank, want->sizes, &here));
  expect_ok(dt_tensor_copy(place->on.session, got, here));
  expect_ok(dt_session_wait(place->on.session));
  for (int64_t i = 0; i < array_count(want); i++) {
    double expected = rounded(dtype, want->at[i]), value = element(dtype, dt_tensor_data(here), i);
    if ((isnan(expected) && isnan(value)) ||
        (expected == value && signbit(expected) == signbit(value)))
      continue;
    if (must)
      fail_msg("%s: element %lld of %lld is %a; expected %a", what, (long long)i,
               (long long)array_count(want), value, expected);
    differ++;
  }
  dt_tensor_release(here);
  return differ;
}

static bool is_large(const subject_row_t *subject, const int64_t sizes[MOST_IN][4], int64_t most) {
  for (uint32_t k = 0; k < subject->n_in; k++) {
    int64_t n = 1;
    for (uint32_t d = 0; d < subject->ranks[k]; d++)
      n *= sizes[k][d];
    if (n > most)
      return true;
  }
  return false;
}

typedef struct asked_t {
  const subject_row_t *subject;
  dt_function_t *function;
  dt_dtype_t dtype;
  uint32_t set; // of sizes
  bool must;    // no bit may differ
} asked_t;

// One call, its inputs laid out in one way.
static int64_t call(place_t *place, const asked_t *asked, const array_t *in, const array_t *want,
                    int layout) {
  const subject_row_t *subject = asked->subject;
  memory_t memory[MOST_IN] = {{0}};
  dt_tensor_t *tensors[MOST_IN] = {NULL}, *got[MOST_OUT] = {NULL};
  int64_t differ = 0;
  char what[160];
  for (uint32_t k = 0; k < subject->n_in; k++) {
    memory[k] = lay_out(&in[k], k + 1 == subject->index ? DT_I64 : asked->dtype, layout);
    tensors[k] = memory[k].tensor;
  }
  expect_ok(dt_call(place->on.session, asked->function, tensors, subject->n_in, got, subject->n_out,
                    NULL));
  for (uint32_t k = 0; k < subject->n_out; k++) {
    (void)snprintf(what, sizeof(what), "%s, %u threads: %s of %s, sizes %u, layout %d, result %u",
                   place->name, dt_runtime_mode_get(place->on.runtime, DT_MODE_KERNEL_THREADS),
                   subject->name, dt_dtype_name(asked->dtype), asked->set, layout, k);
    differ += compare(place, &want[k], asked->dtype, got[k], what, asked->must);
    dt_tensor_release(got[k]);
  }
  for (uint32_t k = 0; k < subject->n_in; k++) {
    dt_tensor_release(tensors[k]);
    free(memory[k].block);
  }
  return differ;
}

static int64_t check_sizes(place_t *place, const asked_t *asked, uint32_t layouts) {
  const subject_row_t *subject = asked->subject;
  const int64_t (*sizes)[4] = subject->sizes[asked->set];
  rng_t rng = {20261123 + asked->set};
  array_t in[MOST_IN] = {{0}}, want[MOST_OUT] = {{0}};
  int64_t differ = 0;
  for (uint32_t k = 0; k < subject->n_in; k++)
    in[k] = numbers(&rng, subject, k, sizes[k], asked->dtype, sizes[0][0]);
  subject->model(asked->dtype, in, want);
  for (uint32_t threads = place->threads;; threads = 1) {
    expect_ok(dt_runtime_mode_set(place->on.runtime, DT_MODE_KERNEL_THREADS, threads));
    for (int layout = 0; layout < N_LAYOUTS; layout++)
      if (layouts >> layout & 1)
        differ += call(place, asked, in, want, layout);
    if (threads == 1)
      break;
  }
  for (uint32_t k = 0; k < subject->n_in; k++)
    array_free(&in[k]);
  for (uint32_t k = 0; k < subject->n_out; k++)
    array_free(&want[k]);
  return differ;
}

// `layouts` by bit. How many elements differ.
static int64_t check(place_t *place, const subject_row_t *subject, dt_dtype_t dtype, bool strict,
                     uint32_t layouts) {
  asked_t asked = {.subject = subject, .dtype = dtype, .must = strict};
  int64_t differ = 0;
  asked.function = open_function(place, subject, &asked.dtype, strict);
  for (; asked.set < subject->n_sizes; asked.set++)
    if (!is_large(subject, subject->sizes[asked.set], place->most))
      differ += check_sizes(place, &asked, layouts);
  dt_function_release(asked.function);
  return differ;
}

// ---- Tests ----------------------------------------------------------------------------------------
static const dt_dtype_t dtypes[] = {DT_F32, DT_F16, DT_F64, DT_BF16};
#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

// Of f32 all layouts, of other dtypes one by turns beside the plain one.
static void check_all(place_t place, size_t n_dtypes, bool layouts) {
  for (size_t s = 0; s < strict_n_subjects; s++)
    for (size_t k = 0; k < n_dtypes; k++) {
      uint32_t apart = k == 0 ? (1u << N_LAYOUTS) - 1 : 1u | 1u << (1 + (s + k) % (N_LAYOUTS - 1));
      (void)check(&place, &strict_subjects[s], dtypes[k], true, layouts ? apart : 1);
    }
  fixture_end(&place.on);
}

static void test_cpu(void **state) {
  (void)state;
  check_all(open_place(DT_CPU, 4, "", INT64_MAX), N_DTYPES, true);
}
// Narrow vectors, no multiply-add, no conversion of halves: the same bits, elementary functions
// included.
static void test_older_cpu(void **state) {
  (void)state;
  check_all(open_place(DT_CPU, 2, "x86-64-v2", INT64_MAX), 2, false);
}
// f32, and the others by turns: most of the time goes into simulating.
static void test_cuda(void **state) {
  (void)state;
  place_t place = open_place(DT_CUDA, 1, "", 1600);
  for (size_t s = 0; s < strict_n_subjects; s++) {
    (void)check(&place, &strict_subjects[s], DT_F32, true, 1u << PLAIN);
    (void)check(&place, &strict_subjects[s], dtypes[1 + s % (N_DTYPES - 1)], true, 1u << PLAIN);
  }
  fixture_end(&place.on);
}

// Else none of the above would say anything.
static void test_order_shows(void **state) {
  (void)state;
  place_t place = open_place(DT_CPU, 2, "", INT64_MAX);
  for (size_t s = 0; s < strict_n_subjects; s++)
    if (strict_subjects[s].shows && check(&place, &strict_subjects[s], DT_F32, false, 1) == 0)
      fail_msg("%s: every bit is that of the loops without strict_fp, too",
               strict_subjects[s].name);
  fixture_end(&place.on);
}

// ---- Kept code --------------------------------------------------------------------------------------
// Of one function, with the option and without, two entries are kept, and each finds its own.
static void test_entries_are_apart(void **state) {
  (void)state;
  char folder[FOLDER_BYTES];
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
  for (int round = 0; round < 2; round++)
    for (int strict = 0; strict < 2; strict++) {
      place_t place = open_place(DT_CUDA, 1, "", 4000);
      int64_t differ = check(&place, &strict_subjects[STRICT_SUMS], DT_F32, strict, 1);
      assert_true(strict ? differ == 0 : differ > 0);
      fixture_end(&place.on);
      assert_int_equal(folder_count(folder, ".variant"), round ? 2 : strict + 1);
    }
  variable_set("DUCTILE_CACHE_DIR", "");
  assert_int_equal(folder_drop(folder), 0);
}

static int setup(void **state) {
  int failed = fixture_open(state, 1, 1);
  strict_use(*state);
  return failed;
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_cpu), TEST(test_older_cpu), TEST(test_order_shows),
               TEST(test_cuda), TEST(test_entries_are_apart))

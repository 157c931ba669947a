// SPDX-License-Identifier: Apache-2.0
// Kernels that are equal but for numbers: which of them share a code, and that it computes what
// codes of their own do, in every bit. Facts that decide how code is made stay in what must be
// equal; each has numbers here that differ in it alone.
#include "test/unit/backend_llvm/rig.h"

#include <stdio.h>
#include <string.h>

#define KERNELS 2
#define ROW_VECTORS 8 // of an iteration, so many that fewer are no short row

static dt_schedule_t outer(const rig_t *r, uint32_t unroll, int64_t block) {
  return (dt_schedule_t){.kind = DT_SCHEDULE_OUTER_LANES,
                         .lanes = rig_lanes(r, DT_F32),
                         .unroll = unroll,
                         .outer.block = block};
}

static dt_schedule_t inner(const rig_t *r, uint32_t unroll) {
  return (dt_schedule_t){
      .kind = DT_SCHEDULE_INNER_LANES, .lanes = rig_lanes(r, DT_F32), .unroll = unroll};
}

// The numbers of a kernel. What they mean is the case's.
typedef struct numbers_t {
  int64_t m, n, k;
} numbers_t;

// A kernel from input `at` to result `at`, which has out[0] * out[1] elements.
typedef struct case_t {
  const char *name;
  void (*build)(rig_t *r, uint32_t at, numbers_t numbers);
  size_t (*reads)(numbers_t numbers); // elements of its input
  size_t (*writes)(numbers_t numbers);
} case_t;

static dt_buffer_id_t buffer(rig_t *r, dt_buffer_kind_t kind, uint32_t at, int64_t rows,
                             int64_t columns) {
  dt_sym_t sizes[2] = {rig_const(r, rows), rig_const(r, columns)};
  return rig_buffer(r, kind, DT_F32, at, 2, sizes, NULL);
}

static dt_sym_t plus(const rig_t *r, dt_sym_t a, int64_t b) {
  return dt__sym_add(r->env, a, dt__sym_const(r->env, b));
}

static dt_sym_t times(const rig_t *r, dt_sym_t a, int64_t b) {
  return dt__sym_mul(r->env, a, dt__sym_const(r->env, b));
}

static size_t whole(numbers_t n) { return (size_t)(n.m * n.n); }
static size_t rows(numbers_t n) { return (size_t)n.m; }

// ---- z[i, j] = x[i, j] * x[i, 0] in blocks of k ----------------------------------------------------
static void build_map(rig_t *r, uint32_t at, numbers_t n) {
  dt_buffer_id_t x = buffer(r, DT_BUFFER_INPUT, at, n.m, n.n);
  dt_buffer_id_t z = buffer(r, DT_BUFFER_OUTPUT, at, n.m, n.n);
  rig_kernel(r, "map");
  dt_sym_t i = rig_outer(r, rig_const(r, n.m)), j = rig_outer(r, rig_const(r, n.n));
  rig_stage(r);
  dt_sym_t own[2] = {i, j}, first[2] = {i, rig_const(r, 0)};
  uint32_t a = rig_load(r, x, own), b = rig_load(r, x, first);
  rig_store(r, z, own, rig_op(r, DT_SCALAR_mul, a, b, DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, outer(r, 2, n.k));
  rig_kernel_end(r);
}

// ---- z[i] = the sum of x[i, …], lanes on it --------------------------------------------------------
static void build_rows(rig_t *r, uint32_t at, numbers_t n, bool mean) {
  dt_sym_t m = rig_const(r, n.m);
  dt_buffer_id_t x = buffer(r, DT_BUFFER_INPUT, at, n.m, n.n);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, DT_F32, at, 1, &m, NULL);
  rig_kernel(r, "rows");
  dt_sym_t i = rig_outer(r, m);
  rig_stage(r);
  dt_sym_t own[2] = {i, rig_inner(r, rig_const(r, n.n))}, first[2] = {i, rig_const(r, 0)};
  uint32_t value = rig_load(r, x, own);
  if (mean)
    value = rig_op(r, DT_SCALAR_div, value, rig_load(r, x, first), DT_NO_INST);
  uint32_t row = rig_fold(r, DT_REDUCE_SUM, value, DT_NO_INST);
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, z, &i, rig_row(r, row, DT_F32));
  rig_stage_end(r);
  rig_schedule(r, inner(r, ROW_VECTORS));
  rig_kernel_end(r);
}

static void build_sums(rig_t *r, uint32_t at, numbers_t n) { build_rows(r, at, n, false); }
static void build_quotients(rig_t *r, uint32_t at, numbers_t n) { build_rows(r, at, n, true); }

// ---- z[j] = the sum of x[i + k', j] over a window of k, lanes on j ----------------------------------
static void build_window(rig_t *r, uint32_t at, numbers_t n) {
  dt_buffer_id_t x = buffer(r, DT_BUFFER_INPUT, at, n.m + n.k - 1, n.n);
  dt_buffer_id_t z = buffer(r, DT_BUFFER_OUTPUT, at, n.m, n.n);
  rig_kernel(r, "window");
  dt_sym_t i = rig_outer(r, rig_const(r, n.m)), j = rig_outer(r, rig_const(r, n.n));
  rig_stage(r);
  dt_sym_t k = rig_inner(r, rig_const(r, n.k));
  dt_sym_t from[2] = {dt__sym_add(r->env, i, k), j}, own[2] = {i, j};
  uint32_t row = rig_fold(r, DT_REDUCE_SUM, rig_load(r, x, from), DT_NO_INST);
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, z, own, rig_row(r, row, DT_F32));
  rig_stage_end(r);
  rig_schedule(r, outer(r, 1, rig_lanes(r, DT_F32)));
  rig_kernel_end(r);
}

static size_t window_reads(numbers_t n) { return (size_t)((n.m + n.k - 1) * n.n); }

// ---- z[i] = twice x[i, i // k] ---------------------------------------------------------------------------
static void build_divided(rig_t *r, uint32_t at, numbers_t n) {
  dt_sym_t m = rig_const(r, n.m);
  dt_buffer_id_t x = buffer(r, DT_BUFFER_INPUT, at, n.m, n.n);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, DT_F32, at, 1, &m, NULL);
  rig_kernel(r, "divided");
  dt_sym_t i = rig_outer(r, m);
  rig_stage(r);
  dt_sym_t from[2] = {i, dt__sym_floordiv(r->env, i, rig_const(r, n.k))};
  uint32_t value = rig_load(r, x, from);
  rig_store(r, z, &i, rig_op(r, DT_SCALAR_add, value, value, DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, outer(r, 1, 64));
  rig_kernel_end(r);
}

// ---- z[i, j] = twice x[i, k j], lanes on j ---------------------------------------------------------------
static void build_steps(rig_t *r, uint32_t at, numbers_t n) {
  dt_buffer_id_t x = buffer(r, DT_BUFFER_INPUT, at, n.m, n.n * n.k);
  dt_buffer_id_t z = buffer(r, DT_BUFFER_OUTPUT, at, n.m, n.n);
  rig_kernel(r, "steps");
  dt_sym_t i = rig_outer(r, rig_const(r, n.m)), j = rig_outer(r, rig_const(r, n.n));
  rig_stage(r);
  dt_sym_t from[2] = {i, times(r, j, n.k)}, own[2] = {i, j};
  uint32_t value = rig_load(r, x, from);
  rig_store(r, z, own, rig_op(r, DT_SCALAR_add, value, value, DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, outer(r, 1, 64));
  rig_kernel_end(r);
}

static size_t steps_reads(numbers_t n) { return (size_t)(n.m * n.n * n.k); }

// ---- z[i, j] = x[i - k, j - k] inside of a frame of zeros -------------------------------------------
static void build_frame(rig_t *r, uint32_t at, numbers_t n) {
  dt_buffer_id_t x = buffer(r, DT_BUFFER_INPUT, at, n.m, n.n);
  dt_buffer_id_t z = buffer(r, DT_BUFFER_OUTPUT, at, n.m + 2 * n.k, n.n + 2 * n.k);
  rig_kernel(r, "frame");
  dt_sym_t i = rig_outer(r, rig_const(r, n.m + 2 * n.k));
  dt_sym_t j = rig_outer(r, rig_const(r, n.n + 2 * n.k));
  rig_stage(r);
  dt_sym_t own[2] = {i, j}, from[2] = {plus(r, i, -n.k), plus(r, j, -n.k)};
  dt_sym_t inside = dt__sym_and(r->env, dt__sym_le(r->env, rig_const(r, n.k), i),
                                dt__sym_lt(r->env, i, rig_const(r, n.m + n.k)));
  inside = dt__sym_and(r->env, inside, dt__sym_le(r->env, rig_const(r, n.k), j));
  inside = dt__sym_and(r->env, inside, dt__sym_lt(r->env, j, rig_const(r, n.n + n.k)));
  uint32_t mask = rig_index(r, DT_BOOL, inside);
  rig_store(r, z, own, rig_load_masked(r, x, from, mask, DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, outer(r, 2, 64));
  rig_kernel_end(r);
}

static size_t frame_writes(numbers_t n) { return (size_t)((n.m + 2 * n.k) * (n.n + 2 * n.k)); }

// ---- L[j] = x[i, j] + x[i, j]; z[i] = the sum of L[…] * L[…] -----------------------------------------
static void build_local(rig_t *r, uint32_t at, numbers_t n) {
  dt_sym_t m = rig_const(r, n.m), width[2] = {rig_const(r, n.n), rig_const(r, 1)};
  dt_buffer_id_t x = buffer(r, DT_BUFFER_INPUT, at, n.m, n.n);
  dt_buffer_id_t local = rig_buffer(r, DT_BUFFER_LOCAL, DT_F32, 0, 2, width, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, DT_F32, at, 1, &m, NULL);
  rig_kernel(r, "local");
  dt_sym_t i = rig_outer(r, m);
  rig_stage(r);
  dt_sym_t j = rig_inner(r, width[0]);
  dt_sym_t own[2] = {i, j}, there[2] = {j, rig_const(r, 0)};
  uint32_t a = rig_load(r, x, own);
  rig_store(r, local, there, rig_op(r, DT_SCALAR_add, a, a, DT_NO_INST));
  rig_stage_end(r);
  rig_stage(r);
  there[0] = rig_inner(r, width[0]);
  uint32_t b = rig_load(r, local, there);
  uint32_t row = rig_fold(r, DT_REDUCE_SUM, rig_op(r, DT_SCALAR_mul, b, b, DT_NO_INST), DT_NO_INST);
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, z, &i, rig_row(r, row, DT_F32));
  rig_stage_end(r);
  rig_schedule(r, inner(r, 2));
  rig_kernel_end(r);
}

static const case_t map_case = {"map", build_map, whole, whole};
static const case_t sums_case = {"sums", build_sums, whole, rows};
static const case_t quotients_case = {"quotients", build_quotients, whole, rows};
static const case_t window_case = {"window", build_window, window_reads, whole};
static const case_t divided_case = {"divided", build_divided, whole, rows};
static const case_t steps_case = {"steps", build_steps, steps_reads, whole};
static const case_t frame_case = {"frame", build_frame, whole, frame_writes};
static const case_t local_case = {"local", build_local, whole, rows};

// ---- Running ---------------------------------------------------------------------------------------
typedef struct results_t {
  region_t at[KERNELS];
  size_t n[KERNELS];
} results_t;

static void run(rig_t *r, const case_t *c, const numbers_t *numbers, results_t *out,
                uint32_t *out_codes) {
  code_t code;
  call_t call = {.pieces = 3};
  region_t inputs[KERNELS];
  rig_compile(r, &code);
  *out_codes = code.n_kernels;
  for (uint32_t k = 0; k < KERNELS; k++) {
    size_t reads = c->reads(numbers[k]);
    out->n[k] = c->writes(numbers[k]);
    inputs[k] = region_open(4 * reads);
    out->at[k] = region_open(4 * out->n[k]);
    fill(DT_F32, inputs[k].at, reads, k + 1, true);
    for (size_t i = 0; i < reads; i++) // sums are rounded, so that their order shows
      ((float *)inputs[k].at)[i] = ((float *)inputs[k].at)[i] * 1.37f + 0.71f;
    call.inputs[k] = inputs[k].at;
  }
  compare_call(r, &code, &call, KERNELS, out->n, 1e-4, c->name);
  for (uint32_t k = 0; k < KERNELS; k++)
    call.outputs[k] = out->at[k].at;
  assert_int_equal(code_call(&code, &call), 0);
  for (uint32_t k = 0; k < KERNELS; k++)
    region_close(&inputs[k]);
  code_close(&code);
}

// Kernels of these numbers have `codes` codes, and compute the same with and without parameters.
static void check(const case_t *c, numbers_t a, numbers_t b, uint32_t codes) {
  rig_t r;
  results_t apart, together;
  uint32_t n = 0;
  const numbers_t numbers[KERNELS] = {a, b};
  rig_open(&r);
  for (uint32_t k = 0; k < KERNELS; k++)
    c->build(&r, k, numbers[k]);
  run(&r, c, numbers, &apart, &n);
  assert_int_equal(n, KERNELS);
  expect_ok(dt__fuse_parameters(r.program, &r.target));
  expect_ok(dt__program_verify(r.program));
  run(&r, c, numbers, &together, &n);
  if (n != codes)
    fail_msg("%s of %lld, %lld, %lld and %lld, %lld, %lld: %u codes, expected %u", c->name,
             (long long)a.m, (long long)a.n, (long long)a.k, (long long)b.m, (long long)b.n,
             (long long)b.k, n, codes);
  for (uint32_t k = 0; k < KERNELS; k++) {
    assert_memory_equal(together.at[k].at, apart.at[k].at, 4 * apart.n[k]);
    region_close(&apart.at[k]);
    region_close(&together.at[k]);
  }
  rig_close(&r);
}

static int64_t lanes(void) {
  rig_t r;
  rig_open(&r);
  int64_t n = rig_lanes(&r, DT_F32);
  rig_close(&r);
  return n;
}

// A whole number of iterations is a code of its own; blocks are none, but where there are several.
static void test_maps(void **state) {
  (void)state;
  int64_t group = 2 * lanes();
  check(&map_case, (numbers_t){3, 37, 64}, (numbers_t){5, 21, 64}, 1);
  check(&map_case, (numbers_t){3, 2 * group, 256}, (numbers_t){4, 5 * group, 256}, 1);
  check(&map_case, (numbers_t){3, 2 * group, 256}, (numbers_t){3, 2 * group + 1, 256}, 2);
  check(&map_case, (numbers_t){3, 37, 64}, (numbers_t){3, 107, 128}, 1);
  check(&map_case, (numbers_t){3, 300, 128}, (numbers_t){3, 107, 128}, 1);
  check(&map_case, (numbers_t){3, 300, 128}, (numbers_t){3, 107, 256}, 2);
}

// Sums are taken apart by how many vectors an iteration has: with fewer there is another order.
static void test_sums(void **state) {
  (void)state;
  int64_t group = ROW_VECTORS * lanes();
  int64_t few = group > DT_WRITTEN_OUT ? group : DT_WRITTEN_OUT;
  check(&sums_case, (numbers_t){4, few + 3, 0}, (numbers_t){7, 3 * few + 1, 0}, 1);
  check(&sums_case, (numbers_t){4, 2 * few, 0}, (numbers_t){4, 3 * few, 0}, 1);
  check(&sums_case, (numbers_t){4, 2 * few, 0}, (numbers_t){4, 2 * few + 1, 0}, 2);
  check(&sums_case, (numbers_t){4, few + 3, 0}, (numbers_t){4, group - 1, 0}, 2);
  check(&sums_case, (numbers_t){4, group - 1, 0}, (numbers_t){9, group - 1, 0}, 1);
}

// Whether quotients are taken by a reciprocal hangs on how many there are.
static void test_quotients(void **state) {
  (void)state;
  check(&quotients_case, (numbers_t){4, 200, 0}, (numbers_t){4, 1200, 0}, 2);
  check(&quotients_case, (numbers_t){4, 200, 0}, (numbers_t){9, 200, 0}, 1);
}

static void test_windows(void **state) {
  (void)state;
  check(&window_case, (numbers_t){5, 41, 3}, (numbers_t){9, 41, 3}, 1);
  check(&window_case, (numbers_t){5, 41, 3}, (numbers_t){5, 51, 3}, 2); // steps of window rows
  check(&window_case, (numbers_t){5, 41, 3}, (numbers_t){5, 41, 4}, 2);
  check(&window_case, (numbers_t){5, 41, 33}, (numbers_t){6, 51, 47}, 1);
  check(&window_case, (numbers_t){5, 41, 32}, (numbers_t){5, 41, 33}, 2);
}

static void test_divisors(void **state) {
  (void)state;
  check(&divided_case, (numbers_t){51, 22, 3}, (numbers_t){61, 22, 3}, 1);
  check(&divided_case, (numbers_t){51, 22, 3}, (numbers_t){51, 22, 4}, 2);
}

static void test_steps(void **state) {
  (void)state;
  check(&steps_case, (numbers_t){3, 21, 3}, (numbers_t){5, 31, 3}, 1);
  check(&steps_case, (numbers_t){3, 21, 3}, (numbers_t){3, 21, 2}, 2);
}

static void test_frames(void **state) {
  (void)state;
  check(&frame_case, (numbers_t){3, 21, 2}, (numbers_t){8, 40, 5}, 1);
  check(&frame_case, (numbers_t){3, 21, 1}, (numbers_t){8, 43, 1}, 1);
}

static void test_locals(void **state) {
  (void)state;
  check(&local_case, (numbers_t){3, 133, 0}, (numbers_t){8, 301, 0}, 1);
  check(&local_case, (numbers_t){3, 133, 0}, (numbers_t){8, 17, 0}, 2);
}

// One number that a group has twice, and numbers that are the same in all of it.
static void test_text(void **state) {
  (void)state;
  rig_t r;
  dt_text_t text;
  rig_open(&r);
  build_map(&r, 0, (numbers_t){3, 37, 64});
  build_map(&r, 1, (numbers_t){3, 21, 64});
  expect_ok(dt__fuse_parameters(r.program, &r.target));
  dt__text_init(&text);
  dt__program_print(r.program, &text);
  const char *at = dt__text_str(&text);
  assert_non_null(strstr(at, "symbol c0: [21, 37] hint 37\n"));
  assert_non_null(strstr(at, "symbol c1: [21, 37] hint 21\n"));
  assert_non_null(strstr(at, "kernel \"map\" by_offset outer i2 < 3, i3 < c0 {\n"));
  assert_non_null(strstr(at, "load f32 b1[c0*i2 + i3]\n"));
  assert_null(strstr(at, "c2"));
  dt__text_fini(&text);
  rig_close(&r);
}

// Targets that do not ask for it have their programs as they are.
static void test_target(void **state) {
  (void)state;
  rig_t r;
  rig_open(&r);
  build_map(&r, 0, (numbers_t){3, 37, 64});
  build_map(&r, 1, (numbers_t){3, 21, 64});
  r.target.parameters = false;
  expect_ok(dt__fuse_parameters(r.program, &r.target));
  assert_false(r.program->kernels.items[0].by_offset);
  rig_close(&r);
}

RUN_RIG_TESTS(TEST(test_maps), TEST(test_sums), TEST(test_quotients), TEST(test_windows),
              TEST(test_divisors), TEST(test_steps), TEST(test_frames), TEST(test_locals),
              TEST(test_text), TEST(test_target))

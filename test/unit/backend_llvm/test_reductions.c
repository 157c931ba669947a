// SPDX-License-Identifier: Apache-2.0
// Every reduction kind over every dtype it takes, under all loop schedules, with NaN and
// infinities, ties, several inner loops, and nothing to reduce.
#include "test/unit/backend_llvm/rig.h"

#include <math.h>
#include <stdio.h>

static const int64_t sizes[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 1000};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

typedef struct case_t {
  dt_reduction_kind_t kind;
  dt_dtype_t dtype;
  dt_schedule_t schedule;
  bool two_loops; // reduction over n and then 3
  bool shifted;   // ARG: the index starts at 10
} case_t;

static bool with_index(dt_reduction_kind_t kind) {
  return kind == DT_REDUCE_ARGMAX || kind == DT_REDUCE_ARGMIN;
}

// y[i] = reduction over j (and l) of x[i, j, l]
static void build(rig_t *r, const case_t *c) {
  dt_symenv_t *e = r->env;
  dt_sym_t m = rig_size(r), n = rig_size(r), l = rig_const(r, c->two_loops ? 3 : 1);
  dt_sym_t shape[3] = {m, n, l};
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, c->dtype, 0, 3, shape, NULL);
  dt_dtype_t out = with_index(c->kind) ? DT_I64 : c->dtype;
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, out, 0, 1, &m, NULL);
  rig_kernel(r, "reduction");
  dt_sym_t i = rig_outer(r, m);
  rig_stage(r);
  dt_sym_t at[3] = {i, rig_inner(r, n), rig_const(r, 0)};
  if (c->two_loops)
    at[2] = rig_inner(r, l);
  uint32_t index = DT_NO_INST;
  if (with_index(c->kind)) {
    dt_sym_t flat = dt__sym_add(e, dt__sym_mul(e, at[1], l), at[2]);
    index = rig_index(r, DT_I64, dt__sym_add(e, flat, rig_const(r, c->shifted ? 10 : 0)));
  }
  uint32_t row = rig_fold(r, c->kind, rig_load(r, x, at), index);
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, y, &i, rig_row(r, row, out));
  rig_stage_end(r);
  rig_schedule(r, c->schedule);
  rig_kernel_end(r);
}

// Values whose sums and products are exact in any order, with specials at places that differ by
// row.
static void fill_case(const case_t *c, void *at, size_t m, size_t n) {
  fill(c->dtype, at, m * n, 11, false);
  size_t size = dt_dtype_size(c->dtype);
  for (size_t i = 0; i < m * n && c->kind == DT_REDUCE_PROD; i++) {
    dt_scalar_t one;
    if (dt__dtype_is_float(c->dtype))
      one.f = i % 5 == 1 ? -1 : i % 97 == 0 ? 2 : 1;
    else
      one.i = i % 7 == 0 ? 3 : 1;
    dt__scalar_store(c->dtype, (char *)at + i * size, one);
  }
  if (!dt__dtype_is_float(c->dtype) || n == 0)
    return;
  for (size_t i = 0; i < m; i++) {
    dt_scalar_t special = {.f = i % 6 == 1 ? NAN : i % 6 == 2 ? INFINITY : -INFINITY};
    char *row = (char *)at + i * n * size;
    if (i % 6 == 4) { // all equal to the reduction's identity
      for (size_t j = 0; j < n; j++)
        dt__scalar_store(c->dtype, row + j * size, special);
    } else if (i % 6 != 0) {
      dt__scalar_store(c->dtype, row + (n * 2 / 3) * size, special);
      dt__scalar_store(c->dtype, row + (n / 3) * size, special);
    }
  }
}

static void check(const case_t *c) {
  rig_t r;
  code_t code;
  rig_open(&r);
  build(&r, c);
  rig_compile(&r, &code);
  const int64_t rows[] = {1, 6, 37};
  for (size_t a = 0; a < 3; a++)
    for (size_t s = 0; s < N_SIZES; s++) {
      size_t m = (size_t)rows[a], n = (size_t)sizes[s], each = n * (c->two_loops ? 3 : 1);
      if (m * each > 3000)
        continue;
      region_t x = region_open(m * each * dt_dtype_size(c->dtype));
      fill_case(c, x.at, m, each);
      call_t call = {.symbols = {rows[a], sizes[s]}, .inputs = {x.at}, .pieces = 2};
      char what[128];
      snprintf(what, sizeof(what), "reduction %d of %s, schedule %d x %u, %zu x %zu%s",
               (int)c->kind, dt_dtype_name(c->dtype), (int)c->schedule.kind, c->schedule.unroll, m,
               each, c->shifted ? ", shifted" : "");
      compare_call(&r, &code, &call, 1, &m, 1e-6, what);
      region_close(&x);
    }
  code_close(&code);
  rig_close(&r);
}

static void check_schedules(dt_reduction_kind_t kind, dt_dtype_t dtype) {
  rig_t r;
  rig_open(&r);
  uint32_t lanes = rig_lanes(&r, with_index(kind) ? DT_I64 : dtype);
  rig_close(&r);
  const dt_schedule_t schedules[] = {
      {.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1},
      {.kind = DT_SCHEDULE_INNER_LANES, .lanes = lanes, .unroll = 1},
      {.kind = DT_SCHEDULE_INNER_LANES, .lanes = lanes, .unroll = 4},
      {.kind = DT_SCHEDULE_INNER_LANES, .lanes = lanes, .unroll = 3},
      {.kind = DT_SCHEDULE_OUTER_LANES, .lanes = lanes, .unroll = 1, .outer.block = 32},
      {.kind = DT_SCHEDULE_OUTER_LANES, .lanes = lanes, .unroll = 2, .outer.block = 1024},
  };
  for (size_t s = 0; s < sizeof(schedules) / sizeof(schedules[0]); s++) {
    check(&(case_t){kind, dtype, schedules[s], false, false});
    check(&(case_t){kind, dtype, schedules[s], true, with_index(kind)});
  }
}

static const dt_dtype_t numbers[] = {DT_F32, DT_F64, DT_I8, DT_I32, DT_I64, DT_U8, DT_U16, DT_U64};

static void over_numbers(dt_reduction_kind_t kind) {
  for (size_t d = 0; d < sizeof(numbers) / sizeof(numbers[0]); d++)
    check_schedules(kind, numbers[d]);
}

static void test_sum(void **state) {
  (void)state;
  over_numbers(DT_REDUCE_SUM);
}

static void test_prod(void **state) {
  (void)state;
  over_numbers(DT_REDUCE_PROD);
}

static void test_max(void **state) {
  (void)state;
  over_numbers(DT_REDUCE_MAX);
}

static void test_min(void **state) {
  (void)state;
  over_numbers(DT_REDUCE_MIN);
}

static void test_any_all(void **state) {
  (void)state;
  check_schedules(DT_REDUCE_ANY, DT_BOOL);
  check_schedules(DT_REDUCE_ALL, DT_BOOL);
}

static void test_arg(void **state) {
  (void)state;
  for (size_t d = 0; d < sizeof(numbers) / sizeof(numbers[0]); d++) {
    check_schedules(DT_REDUCE_ARGMAX, numbers[d]);
    check_schedules(DT_REDUCE_ARGMIN, numbers[d]);
  }
}

// The fused sum of a product, several reductions in one stage, a reduction of something that no
// lane changes.
static void test_products(void **state) {
  (void)state;
  for (uint32_t kind = 0; kind < 3; kind++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    dt_sym_t m = rig_size(&r), n = rig_size(&r), shape[2] = {m, n};
    dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 2, shape, NULL);
    dt_buffer_id_t w = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 1, 1, &m, NULL);
    dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &m, NULL);
    rig_kernel(&r, "norm");
    dt_sym_t i = rig_outer(&r, m);
    rig_stage(&r);
    dt_sym_t at[2] = {i, rig_inner(&r, n)};
    uint32_t a = rig_load(&r, x, at), b = rig_load(&r, w, &i);
    uint32_t square =
        rig_fold(&r, DT_REDUCE_SUM, rig_op(&r, DT_SCALAR_mul, a, a, DT_NO_INST), DT_NO_INST);
    uint32_t total = rig_fold(&r, DT_REDUCE_SUM, b, DT_NO_INST);
    rig_stage_end(&r);
    rig_stage(&r);
    uint32_t sum = rig_op(&r, DT_SCALAR_add, rig_row(&r, square, DT_F32),
                          rig_row(&r, total, DT_F32), DT_NO_INST);
    rig_store(&r, y, &i, sum);
    rig_stage_end(&r);
    uint32_t lanes = rig_lanes(&r, DT_F32);
    dt_schedule_t schedule = {.kind = kind == 0   ? DT_SCHEDULE_SERIAL
                                      : kind == 1 ? DT_SCHEDULE_INNER_LANES
                                                  : DT_SCHEDULE_OUTER_LANES,
                              .lanes = kind ? lanes : 1,
                              .unroll = 2};
    if (kind > 1)
      schedule.outer.block = 64;
    rig_schedule(&r, schedule);
    rig_kernel_end(&r);
    rig_compile(&r, &code);
    for (size_t s = 0; s < N_SIZES; s++) {
      size_t rows = 21, n_cols = (size_t)sizes[s];
      region_t xs = region_open(rows * n_cols * 4), ws = region_open(rows * 4);
      fill(DT_F32, xs.at, rows * n_cols, 3, true);
      fill(DT_F32, ws.at, rows, 4, true);
      call_t call = {.symbols = {21, sizes[s]}, .inputs = {xs.at, ws.at}, .pieces = 2};
      compare_call(&r, &code, &call, 1, &rows, 1e-6, "norm");
      region_close(&xs);
      region_close(&ws);
    }
    code_close(&code);
    rig_close(&r);
  }
}

RUN_RIG_TESTS(TEST(test_sum), TEST(test_prod), TEST(test_max), TEST(test_min), TEST(test_any_all),
              TEST(test_arg), TEST(test_products))

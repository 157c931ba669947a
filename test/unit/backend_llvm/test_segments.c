// SPDX-License-Identifier: Apache-2.0
// Calls in segments: numbers read from data become sizes of what comes after, memory of earlier
// segments is kept while the block moves, and numbers that must not be used end the call.
#include "test/unit/backend_llvm/rig.h"

#include <string.h>

#define MOST 3000
#define LARGEST (DT_SIZE_LIMIT - 1)

static const dt_schedule_t serial = {.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1};

static dt_schedule_t lanes_on_outer(const rig_t *r) {
  return (dt_schedule_t){.kind = DT_SCHEDULE_OUTER_LANES,
                         .lanes = rig_lanes(r, DT_I64),
                         .unroll = 2,
                         .outer.block = 128,
                         .grain = 3};
}

// A rank-0 i64 TEMP: the sum of from[n].
static dt_buffer_id_t sum_kernel(rig_t *r, dt_buffer_id_t from, dt_sym_t n) {
  dt_buffer_id_t total = rig_buffer(r, DT_BUFFER_TEMP, DT_I64, 0, 0, NULL, NULL);
  rig_kernel(r, "sum");
  rig_stage(r);
  dt_sym_t i = rig_inner(r, n);
  uint32_t row = rig_fold(r, DT_REDUCE_SUM, rig_load(r, from, &i), DT_NO_INST);
  rig_stage_end(r);
  rig_stage(r);
  rig_store(r, total, NULL, rig_row(r, row, DT_I64));
  rig_stage_end(r);
  rig_schedule(r, serial);
  rig_kernel_end(r);
  return total;
}

// into[i] = from[at] + i * step, over n.
static void ramp_kernel(rig_t *r, dt_buffer_id_t from, dt_sym_t at, dt_buffer_id_t into, dt_sym_t n,
                        int64_t step) {
  rig_kernel(r, "ramp");
  dt_sym_t i = rig_outer(r, n);
  rig_stage(r);
  uint32_t own = rig_index(r, DT_I64, dt__sym_mul(r->env, i, rig_const(r, step)));
  uint32_t start = rig_load(r, from, &at);
  rig_store(r, into, &i, rig_op(r, DT_SCALAR_add, start, own, DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, lanes_on_outer(r));
  rig_kernel_end(r);
}

// t[n] = x[0] + i;  u = sum(x);  w[u] = t[0] + 2 i;  v = sum(t);  y[u] = w[0] + 3 i;
// z[v] = t[0] + 5 i: segments of one, two and two kernels.
static void chain_program(rig_t *r) {
  dt_sym_t n = rig_size(r), first = rig_const(r, 0);
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, DT_I64, 0, 1, &n, NULL);
  dt_buffer_id_t t = rig_buffer(r, DT_BUFFER_TEMP, DT_I64, 0, 1, &n, NULL);
  ramp_kernel(r, x, first, t, n, 1);
  dt_sym_t u = rig_item(r, sum_kernel(r, x, n), 1, LARGEST, "u");
  rig_segment(r);
  dt_buffer_id_t w = rig_buffer(r, DT_BUFFER_TEMP, DT_I64, 0, 1, &u, NULL);
  ramp_kernel(r, t, first, w, u, 2);
  dt_sym_t v = rig_item(r, sum_kernel(r, t, n), 0, LARGEST, "v");
  rig_segment(r);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, DT_I64, 0, 1, &v, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, DT_I64, 1, 1, &u, NULL);
  ramp_kernel(r, t, first, z, v, 5);
  ramp_kernel(r, w, first, y, u, 3);
  rig_segment(r);
}

static void expect_ramp(const int64_t *got, int64_t n, int64_t start, int64_t step) {
  for (int64_t i = 0; i < n; i++)
    if (got[i] != start + i * step)
      fail_msg("element %lld of %lld is %lld, expected %lld", (long long)i, (long long)n,
               (long long)got[i], (long long)(start + i * step));
}

static void test_chain(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  chain_program(&r);
  rig_compile(&r, &code);
  assert_int_equal(code.n_segments, 3);
  const int64_t sizes[] = {1, 2, 17, 40, 64};
  for (size_t s = 0; s < 5; s++) {
    int64_t n = sizes[s], x[64] = {0}, u = 0, v = 0;
    for (int64_t i = 0; i < n; i++) {
      x[i] = i % 3 + 1;
      u += x[i];
      v += x[0] + i;
    }
    region_t z = region_open((size_t)v * 8), y = region_open((size_t)u * 8);
    call_t call = {.symbols = {n}, .inputs = {x}, .outputs = {z.at, y.at}, .pieces = 3};
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.segments, 3);
    assert_int_equal(call.output_sizes[0], v);
    assert_int_equal(call.output_sizes[1], u);
    assert_int_equal(call.launches, 6);
    expect_ramp(z.at, v, 1, 5);
    expect_ramp(y.at, u, 1, 3);
    region_close(&z);
    region_close(&y);
  }
  code_close(&code);
  rig_close(&r);
}

// The value of a rank-0 argument is a size; the first segment reads it.
static void size_program(rig_t *r, int64_t lo, int64_t hi) {
  dt_sym_t n = rig_size(r);
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, DT_I64, 0, 1, &n, NULL);
  dt_buffer_id_t k = rig_buffer(r, DT_BUFFER_INPUT, DT_I64, 1, 0, NULL, NULL);
  dt_sym_t u = rig_item(r, k, lo, hi, "size");
  r->next_items = 1;
  dt_sym_t sizes[2] = {u, n}, at[2];
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, DT_I64, 0, 2, sizes, NULL);
  rig_kernel(r, "repeat");
  at[0] = rig_outer(r, u);
  at[1] = rig_outer(r, n);
  rig_stage(r);
  rig_store(r, y, at, rig_load(r, x, &at[1]));
  rig_stage_end(r);
  rig_schedule(r, lanes_on_outer(r));
  rig_kernel_end(r);
  rig_segment(r);
}

static void test_argument(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  size_program(&r, 0, LARGEST);
  rig_compile(&r, &code);
  assert_int_equal(code.n_segments, 1);
  int64_t x[5] = {1, 2, 3, 4, 5}, y[MOST];
  const int64_t sizes[] = {0, 1, 7, 600};
  for (size_t s = 0; s < 4; s++) {
    int64_t u = sizes[s];
    call_t call = {.symbols = {5}, .inputs = {x, &u}, .outputs = {y}};
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.output_sizes[0], u);
    assert_int_equal(call.output_sizes[1], 5);
    assert_int_equal(call.launches, u ? 1 : 0);
    for (int64_t i = 0; i < 5 * u; i++)
      assert_int_equal(y[i], x[i % 5]);
  }
  code_close(&code);
  rig_close(&r);
}

// Values outside of the symbol's range, and sizes that are too many bytes: nothing runs.
static void test_out_of_range(void **state) {
  (void)state;
  const struct {
    int64_t lo, hi, value, answer;
  } cases[] = {
      {0, LARGEST, -1, -2},
      {0, LARGEST, INT64_MIN, -2},
      {0, LARGEST, DT_SIZE_LIMIT, -2},
      {0, LARGEST, INT64_MAX, -2},
      {3, 10, 2, -2},
      {3, 10, 11, -2},
      {3, 10, 3, 0},
      {3, 10, 10, 0},
      {0, LARGEST, (int64_t)1 << 44, -1}, // times 5 elements of 8 bytes
      {INT64_MIN, INT64_MAX, -1, -1},
      {INT64_MIN, INT64_MAX, INT64_MIN, -1},
      {INT64_MIN, INT64_MAX, INT64_MAX, -1},
  };
  int64_t x[5] = {1, 2, 3, 4, 5}, y[50];
  for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    size_program(&r, cases[c].lo, cases[c].hi);
    rig_compile(&r, &code);
    int64_t u = cases[c].value;
    call_t call = {.symbols = {5}, .inputs = {x, &u}, .outputs = {y}};
    assert_int_equal(code_call(&code, &call), cases[c].answer);
    assert_int_equal(call.symbols[1], u); // for the message
    assert_int_equal(call.launches, cases[c].answer ? 0 : 1);
    code_close(&code);
    rig_close(&r);
  }
}

// Asserts are made where their newest symbol is bound: one at entry, one on the first readback and
// one on the second, and each before anything is computed from it.
static void test_asserts(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  chain_program(&r);
  dt_sym_t n = dt__symbol_sym(r.env, 0);
  dt_sym_t u = dt__symbol_sym(r.env, r.program->readbacks.items[0].symbol);
  dt_sym_t v = dt__symbol_sym(r.env, r.program->readbacks.items[1].symbol);
  dt_graph_assert_t asserts[3] = {
      {.cond = dt__sym_lt(r.env, dt__sym_add(r.env, u, n), v), .what = "on the second"},
      {.cond = dt__sym_lt(r.env, n, rig_const(&r, 10)), .what = "at entry"},
      {.cond = dt__sym_le(r.env, u, n), .what = "on the first"}};
  for (int i = 0; i < 3; i++)
    assert_true(DT_VEC_PUSH(&r.arena, &r.graph->asserts, asserts[i]));
  rig_compile(&r, &code);
  const struct {
    int64_t n, x; // every element
    int64_t answer;
    uint32_t segments, launches;
  } cases[] = {
      {10, 1, 2, 1, 0}, // n < 10
      {4, 2, 3, 2, 2},  // u = 8 > 4
      {2, 1, 1, 3, 4},  // u + n = 4, v = 3
      {6, 1, 0, 3, 6},  // u = 6, v = 21
  };
  for (size_t c = 0; c < 4; c++) {
    int64_t x[10], z[100], y[100];
    for (int i = 0; i < 10; i++)
      x[i] = cases[c].x;
    memset(z, 0x55, sizeof(z));
    call_t call = {.symbols = {cases[c].n}, .inputs = {x}, .outputs = {z, y}};
    assert_int_equal(code_call(&code, &call), cases[c].answer);
    assert_int_equal(call.segments, cases[c].segments);
    assert_int_equal(call.launches, cases[c].launches);
    if (cases[c].answer)
      assert_int_equal(z[0], 0x5555555555555555);
  }
  code_close(&code);
  rig_close(&r);
}

// What segments must be like is checked before code is made of them.
static void test_refusals(void **state) {
  (void)state;
  for (int wrong = 0; wrong < 5; wrong++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    chain_program(&r);
    dt_program_t *program = r.program;
    if (wrong == 0)
      program->readbacks.items[0].buffer = program->outputs.items[0]; // rank 1
    if (wrong == 1)
      program->readbacks.items[1].symbol = program->readbacks.items[0].symbol;
    if (wrong == 2)
      program->segments.items[2].kernel_end--;
    if (wrong == 3)
      program->segments.items[2].readback_end--;
    if (wrong == 4)
      program->segments.items[1].kernel_end = 0;
    expect_code(rig_try_compile(&r, &code), DT_E_INTERNAL);
    rig_close(&r);
  }
}

RUN_RIG_TESTS(TEST(test_chain), TEST(test_argument), TEST(test_out_of_range), TEST(test_asserts),
              TEST(test_refusals))

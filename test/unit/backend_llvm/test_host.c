// SPDX-License-Identifier: Apache-2.0
// Host programs: sizes of results and of the block, asserts, overflow, schedules by predicate,
// kernels that run once, kernels skipped when there is nothing to do, codes shared by equal
// kernels.
#include "test/unit/backend_llvm/rig.h"

#include <string.h>

static dt_schedule_t lanes_on_outer(const rig_t *r) {
  return (dt_schedule_t){.kind = DT_SCHEDULE_OUTER_LANES,
                         .lanes = rig_lanes(r, DT_F32),
                         .unroll = 2,
                         .outer.block = 128,
                         .grain = 3};
}

// into[i] = from[i] + add, over n.
static void add_kernel(rig_t *r, dt_buffer_id_t from, dt_buffer_id_t into, dt_sym_t n, double add) {
  rig_kernel(r, "add");
  dt_sym_t i = rig_outer(r, n);
  rig_stage(r);
  uint32_t a = rig_load(r, from, &i);
  rig_store(r, into, &i, rig_op(r, DT_SCALAR_add, a, rig_literal(r, DT_F32, add), DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, lanes_on_outer(r));
  rig_kernel_end(r);
}

static void test_chain(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t n = rig_size(&r);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t a = rig_buffer(&r, DT_BUFFER_TEMP, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t b = rig_buffer(&r, DT_BUFFER_TEMP, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &n, NULL);
  add_kernel(&r, x, a, n, 1);
  add_kernel(&r, a, b, n, 1);
  add_kernel(&r, b, y, n, 5);
  rig_compile(&r, &code);
  assert_int_equal(code.n_kernels, 2); // two of the three are equal
  const int64_t sizes[] = {0, 1, 17, 128, 1000};
  for (size_t s = 0; s < 5; s++) {
    float in[1000], out[1000];
    for (size_t i = 0; i < 1000; i++)
      in[i] = (float)i;
    call_t call = {.symbols = {sizes[s]}, .inputs = {in}, .outputs = {out}};
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.output_sizes[0], sizes[s]);
    assert_int_equal(call.launches, sizes[s] ? 3 : 0);
    assert_int_equal(call.items, 3 * ((sizes[s] + 127) / 128));
    for (int64_t i = 0; i < sizes[s]; i++)
      if (out[i] != in[i] + 7)
        fail_msg("element %lld is %g, expected %g", (long long)i, (double)out[i],
                 (double)in[i] + 7);
  }
  code_close(&code);
  rig_close(&r);
}

static void test_overflow(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t m = rig_size(&r), n = rig_size(&r), flat = dt__sym_mul(r.env, m, n);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &m, NULL);
  dt_sym_t shape[2] = {m, n};
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 2, shape, NULL);
  (void)flat;
  rig_kernel(&r, "outer");
  dt_sym_t at[2];
  at[0] = rig_outer(&r, m);
  at[1] = rig_outer(&r, n);
  rig_stage(&r);
  rig_store(&r, y, at, rig_load(&r, x, &at[0]));
  rig_stage_end(&r);
  rig_schedule(&r, lanes_on_outer(&r));
  rig_kernel_end(&r);
  rig_compile(&r, &code);
  const int64_t big = (int64_t)1 << 40;
  call_t call = {.symbols = {big, big}};
  assert_int_equal(code_call(&code, &call), -1);
  call.symbols[0] = (int64_t)1 << 23;
  call.symbols[1] = (int64_t)1 << 23;
  assert_int_equal(code_call(&code, &call), -1); // 2^46 elements of 4 bytes
  float in[3] = {1, 2, 3}, out[6];
  call = (call_t){.symbols = {3, 2}, .inputs = {in}, .outputs = {out}};
  assert_int_equal(code_call(&code, &call), 0);
  assert_int_equal(call.output_sizes[0], 3);
  assert_int_equal(call.output_sizes[1], 2);
  for (int i = 0; i < 6; i++)
    assert_true(out[i] == in[i / 2]);
  code_close(&code);
  rig_close(&r);
}

// A result of four sizes of five parts each: their product has 625 terms in canonical form. Its
// code grows with the parts; sizes, offsets and the check of the bytes stay as they are.
static void test_long_sums(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t shape[4], at[4], s[2] = {rig_size(&r), rig_size(&r)};
  for (int64_t d = 0; d < 4; d++) {
    dt_sym_t one = dt__sym_min(r.env, s[0], dt__sym_const(r.env, d + 2));
    dt_sym_t two = dt__sym_max(r.env, s[1], dt__sym_const(r.env, d + 1));
    dt_sym_t three = dt__sym_floordiv(r.env, s[0], dt__sym_const(r.env, d + 3));
    shape[d] = dt__sym_add(r.env, dt__sym_add(r.env, s[d / 2], one),
                           dt__sym_sub(r.env, dt__sym_add(r.env, two, three),
                                       dt__sym_min(r.env, s[1], dt__sym_const(r.env, d + 1))));
  }
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_I64, 0, 4, shape, NULL);
  rig_kernel(&r, "count");
  for (int d = 0; d < 4; d++)
    at[d] = rig_outer(&r, shape[d]);
  rig_stage(&r);
  dt_sym_t number = at[0];
  for (int d = 1; d < 4; d++)
    number = dt__sym_add(r.env, dt__sym_mul(r.env, number, shape[d]), at[d]);
  rig_store(&r, y, at, rig_index(&r, DT_I64, number));
  rig_stage_end(&r);
  rig_schedule(&r, (dt_schedule_t){.kind = DT_SCHEDULE_OUTER_LANES,
                                   .lanes = rig_lanes(&r, DT_I64),
                                   .unroll = 2,
                                   .outer.block = 16});
  rig_kernel_end(&r);
  rig_compile(&r, &code);
  if (code.bytes > 32 << 10)
    fail_msg("%zu bytes of code for a product of four sums", code.bytes);
  for (int64_t a = 0; a < 4; a++)
    for (int64_t b = 0; b < 4; b++) {
      static int64_t out[1 << 14];
      int64_t count = 1, sizes[4];
      for (int64_t d = 0; d < 4; d++) {
        sizes[d] = (d < 2 ? a : b) + (a < d + 2 ? a : d + 2) + (b > d + 1 ? b : d + 1) +
                   a / (d + 3) - (b < d + 1 ? b : d + 1);
        count *= sizes[d];
      }
      assert_in_range(count, 0, 1 << 14);
      call_t call = {.symbols = {a, b}, .outputs = {out}};
      assert_int_equal(code_call(&code, &call), 0);
      for (int d = 0; d < 4; d++)
        assert_int_equal(call.output_sizes[d], sizes[d]);
      for (int64_t i = 0; i < count; i++)
        assert_int_equal(out[i], i);
    }
  static const int64_t large[][2] = {{1 << 24, 1 << 23}, {(int64_t)1 << 46, 0}, {1, 1 << 23}};
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
    call_t call = {.symbols = {large[i][0], large[i][1]}};
    assert_int_equal(code_call(&code, &call), -1);
  }
  code_close(&code);
  rig_close(&r);
}

// y[i] = i >> n for i < m << n, by lanes and one at a time; a count that is none, or a result that
// does not fit, is refused.
static void test_shifts(void **state) {
  (void)state;
  for (int serial = 0; serial < 2; serial++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    dt_sym_t m = rig_size(&r), n = rig_size(&r), size = dt__sym_shl(r.env, m, n);
    dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_I64, 0, 1, &size, NULL);
    rig_kernel(&r, "shifts");
    dt_sym_t i = rig_outer(&r, size);
    rig_stage(&r);
    rig_store(&r, y, &i, rig_index(&r, DT_I64, dt__sym_shr(r.env, i, n)));
    rig_stage_end(&r);
    dt_schedule_t schedule = {.kind = DT_SCHEDULE_OUTER_LANES,
                              .lanes = rig_lanes(&r, DT_I64),
                              .unroll = 2,
                              .outer.block = 16};
    if (serial)
      schedule = (dt_schedule_t){.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1};
    rig_schedule(&r, schedule);
    rig_kernel_end(&r);
    rig_compile(&r, &code);
    static const int64_t rows[][2] = {{0, 3}, {1, 0}, {5, 3}, {13, 1}, {1, 6}, {0, 62}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
      int64_t out[64], count = rows[k][0] << rows[k][1];
      call_t call = {.symbols = {rows[k][0], rows[k][1]}, .outputs = {out}};
      assert_int_equal(code_call(&code, &call), 0);
      assert_int_equal(call.output_sizes[0], count);
      for (int64_t at = 0; at < count; at++)
        assert_int_equal(out[at], at >> rows[k][1]);
    }
    static const int64_t bad[][2] = {{1, 63}, {0, 64}, {2, 62}, {1 << 20, 45}, {1, 46}};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
      call_t call = {.symbols = {bad[k][0], bad[k][1]}};
      assert_int_equal(code_call(&code, &call), -1);
    }
    code_close(&code);
    rig_close(&r);
  }
}

static void test_asserts(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t n = rig_size(&r), u = rig_size(&r);
  dt_graph_assert_t asserts[2] = {
      {.cond = dt__sym_lt(r.env, u, n), .what = "u below n"},
      {.cond = dt__sym_ne(r.env, u, rig_const(&r, 5)), .what = "not 5"}};
  for (int i = 0; i < 2; i++)
    assert_true(DT_VEC_PUSH(&r.arena, &r.graph->asserts, asserts[i]));
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &n, NULL);
  add_kernel(&r, x, y, n, 1);
  rig_compile(&r, &code);
  float in[10] = {0}, out[10];
  const int64_t us[] = {3, 10, 5, 9, 11}, answers[] = {0, 1, 2, 0, 1};
  for (int i = 0; i < 5; i++) {
    call_t call = {.symbols = {10, us[i]}, .inputs = {in}, .outputs = {out}};
    assert_int_equal(code_call(&code, &call), answers[i]);
  }
  code_close(&code);
  rig_close(&r);
}

// Different schedules leave different marks only in how many items they have.
static void test_predicates(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t n = rig_size(&r);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &n, NULL);
  rig_kernel(&r, "copy");
  dt_sym_t i = rig_outer(&r, n);
  rig_stage(&r);
  rig_store(&r, y, &i, rig_load(&r, x, &i));
  rig_stage_end(&r);
  dt_schedule_t small = {.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1};
  small.predicate = dt__sym_lt(r.env, n, rig_const(&r, 5));
  dt_schedule_t middle = lanes_on_outer(&r);
  middle.outer.block = 16;
  middle.predicate = dt__sym_lt(r.env, n, rig_const(&r, 100));
  rig_schedule(&r, small);
  rig_schedule(&r, middle);
  rig_schedule(&r, lanes_on_outer(&r));
  rig_kernel_end(&r);
  rig_compile(&r, &code);
  assert_int_equal(code.n_kernels, 3);
  const int64_t sizes[] = {4, 5, 99, 100, 300}, items[] = {4, 1, 7, 1, 3};
  float in[300], out[300];
  for (int k = 0; k < 300; k++)
    in[k] = (float)k;
  for (int s = 0; s < 5; s++) {
    memset(out, 0, sizeof(out));
    call_t call = {.symbols = {sizes[s]}, .inputs = {in}, .outputs = {out}};
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.items, items[s]);
    assert_memory_equal(out, in, (size_t)sizes[s] * 4);
  }
  code_close(&code);
  rig_close(&r);
}

static void once_launch(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                        int64_t grain) {
  (void)grain;
  char scratch[256];
  fn(words, 0, count, scratch, &frame->record);
}

// A constant doubled once, then added to what each call brings.
static void test_once(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t n = rig_const(&r, 21);
  dt_buffer_id_t c = rig_buffer(&r, DT_BUFFER_CONSTANT, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t d = rig_buffer(&r, DT_BUFFER_ONCE, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &n, NULL);
  add_kernel(&r, c, d, n, 100);
  rig_kernel(&r, "sum");
  dt_sym_t i = rig_outer(&r, n);
  rig_stage(&r);
  uint32_t sum = rig_op(&r, DT_SCALAR_add, rig_load(&r, d, &i), rig_load(&r, x, &i), DT_NO_INST);
  rig_store(&r, y, &i, sum);
  rig_stage_end(&r);
  rig_schedule(&r, lanes_on_outer(&r));
  rig_kernel_end(&r);
  r.program->n_once = 1;
  float constant[21], in[21], out[21];
  for (int k = 0; k < 21; k++) {
    constant[k] = (float)k;
    in[k] = 1000 * (float)k;
  }
  int64_t twenty_one = 21;
  dt_graph_constant_t made = {
      .name = "c", .dtype = DT_F32, .rank = 1, .sizes = {twenty_one}, .data = constant, .key = 1};
  dt_node_id_t node;
  expect_ok(dt__graph_add_constant(r.graph, &made, NULL, &node));
  rig_compile(&r, &code);
  assert_int_equal(code.once_scratch(), 0);
  int64_t once_bytes;
  assert_true(dt__sym_is_const(r.env, r.program->once_bytes, &once_bytes));
  assert_int_equal(once_bytes, 128);
  char *once = dt__alloc_aligned(128, 64);
  assert_non_null(once);
  void *constants[1] = {constant};
  code.once_memory[0] = once;
  dt_frame_t frame = {.constants = constants,
                      .once = code.once_memory,
                      .kernels = code.kernels,
                      .launch = once_launch};
  code.once(&frame);
  call_t call = {.inputs = {in}, .outputs = {out}};
  assert_int_equal(code_call(&code, &call), 0);
  for (int k = 0; k < 21; k++)
    assert_true(out[k] == constant[k] + 100 + in[k]);
  dt__free(once);
  code_close(&code);
  rig_close(&r);
}

// A schedule that the kernel cannot run under is refused, not mis-compiled.
static void test_refusals(void **state) {
  (void)state;
  const dt_schedule_t bad[] = {
      {.kind = DT_SCHEDULE_OUTER_LANES, .lanes = 3, .unroll = 1, .outer.block = 16},
      {.kind = DT_SCHEDULE_OUTER_LANES, .lanes = 8, .unroll = 9, .outer.block = 16},
      {.kind = DT_SCHEDULE_MATMUL, .lanes = 8, .unroll = 1},
  };
  for (size_t b = 0; b < 3; b++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    dt_sym_t n = rig_size(&r);
    dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &n, NULL);
    dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &n, NULL);
    rig_kernel(&r, "copy");
    dt_sym_t i = rig_outer(&r, n);
    rig_stage(&r);
    rig_store(&r, y, &i, rig_load(&r, x, &i));
    rig_stage_end(&r);
    rig_schedule(&r, bad[b]);
    rig_kernel_end(&r);
    expect_code(rig_try_compile(&r, &code), DT_E_INTERNAL);
    rig_close(&r);
  }
}

RUN_RIG_TESTS(TEST(test_chain), TEST(test_overflow), TEST(test_long_sums), TEST(test_shifts),
              TEST(test_asserts), TEST(test_predicates), TEST(test_once), TEST(test_refusals))

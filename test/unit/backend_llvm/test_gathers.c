// SPDX-License-Identifier: Apache-2.0
// Indices loaded from data: rows looked up in a table, negative indices, and failures, which must
// be recorded once and keep every access in bounds.
#include "test/unit/backend_llvm/rig.h"

#include <stdio.h>

// y[i, j] = table[ids[i], j]; shape 0: j inner with lanes; 1: lanes on j as last outer; 2: serial;
// 3: lanes on i, j inner; 4: one loop y[i] = table[ids[i], 0] with lanes on i.
static void build(rig_t *r, dt_dtype_t ids_dtype, dt_dtype_t dtype, uint32_t shape) {
  dt_sym_t v = rig_size(r), d = rig_size(r), n = rig_size(r);
  dt_sym_t table_shape[2] = {v, d}, out_shape[2] = {n, d};
  dt_buffer_id_t table = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 2, table_shape, NULL);
  dt_buffer_id_t ids = rig_buffer(r, DT_BUFFER_INPUT, ids_dtype, 1, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 0, shape == 4 ? 1 : 2, out_shape, NULL);
  rig_kernel(r, "embed");
  dt_sym_t i = rig_outer(r, n), j = rig_const(r, 0);
  if (shape == 1)
    j = rig_outer(r, d);
  rig_stage(r);
  if (shape == 0 || shape == 2 || shape == 3)
    j = rig_inner(r, d);
  uint32_t id = rig_load(r, ids, &i);
  dt_sym_t data = dt__sym_new(r->env, DT_SYMBOL_DATA, (dt_range_t){0, DT_SIZE_LIMIT}, NULL, "");
  uint32_t ok = rig_bind(r, data, v, id, "gather: index of ids");
  dt_sym_t at[2] = {data, j}, out[2] = {i, j};
  rig_store(r, y, out, rig_load_masked(r, table, at, ok, DT_NO_INST));
  rig_stage_end(r);
  uint32_t lanes = rig_lanes(r, shape == 4 || shape == 3 ? DT_I64 : dtype);
  dt_schedule_t s = {.lanes = lanes, .unroll = 2};
  s.kind = shape == 0   ? DT_SCHEDULE_INNER_LANES
           : shape == 2 ? DT_SCHEDULE_SERIAL
                        : DT_SCHEDULE_OUTER_LANES;
  if (shape == 2)
    s.lanes = s.unroll = 1;
  if (s.kind == DT_SCHEDULE_OUTER_LANES)
    s.outer.block = 64;
  rig_schedule(r, s);
  rig_kernel_end(r);
}

static void check(dt_dtype_t ids_dtype, dt_dtype_t dtype, uint32_t shape) {
  rig_t r;
  code_t code;
  rig_open(&r);
  build(&r, ids_dtype, dtype, shape);
  rig_compile(&r, &code);
  const int64_t ns[] = {0, 1, 5, 16, 37}, ds[] = {1, 3, 16, 33, 0};
  for (size_t a = 0; a < 5; a++)
    for (size_t b = 0; b < 5; b++) {
      size_t v = 11, n = (size_t)ns[a], d = (size_t)ds[b];
      size_t count = shape == 4 ? n : n * d;
      if (shape == 4 && d == 0)
        continue;
      region_t table = region_open(v * d * dt_dtype_size(dtype));
      region_t ids = region_open(n * dt_dtype_size(ids_dtype));
      fill(dtype, table.at, v * d, 8, false);
      for (size_t k = 0; k < n; k++) {
        dt_scalar_t id = {.i = (int64_t)(k * 7 % 22) - 11};
        dt__scalar_store(ids_dtype, (char *)ids.at + k * dt_dtype_size(ids_dtype), id);
      }
      call_t call = {.symbols = {11, ds[b], ns[a]}, .inputs = {table.at, ids.at}, .pieces = 2};
      char what[64];
      snprintf(what, sizeof(what), "embed shape %u, %zu x %zu", shape, n, d);
      compare_call(&r, &code, &call, 1, &count, 0, what);
      assert_int_equal(call.record.check, 0);

      if (count == 0) {
        region_close(&table);
        region_close(&ids);
        continue;
      }
      size_t broken = n / 2;
      dt_scalar_t bad = {.i = n % 2 ? 11 : -12};
      dt__scalar_store(ids_dtype, (char *)ids.at + broken * dt_dtype_size(ids_dtype), bad);
      region_t out = region_open(count * dt_dtype_size(dtype));
      call.outputs[0] = out.at;
      assert_int_equal(code_call(&code, &call), 0);
      assert_int_equal(call.record.check, 1);
      assert_int_equal(call.record.value, bad.i);
      assert_int_equal(call.record.extent, 11);
      region_close(&out);
      region_close(&table);
      region_close(&ids);
    }
  code_close(&code);
  rig_close(&r);
}

static void test_embed(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < 5; shape++) {
    check(DT_I64, DT_F32, shape);
    check(DT_I32, DT_F32, shape);
    check(DT_I64, DT_F64, shape);
    check(DT_I32, DT_I8, shape);
    check(DT_I64, DT_BOOL, shape);
    check(DT_I64, DT_F16, shape);
    check(DT_I32, DT_BF16, shape);
  }
}

// With no columns nothing is looked up, so that a wrong index is no failure.
static void test_nothing_looked_up(void **state) {
  (void)state;
  for (uint32_t shape = 0; shape < 4; shape++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    build(&r, DT_I64, DT_F32, shape);
    rig_compile(&r, &code);
    int64_t ids[3] = {99, -99, 5};
    call_t call = {.symbols = {11, 0, 3}, .inputs = {NULL, ids}, .pieces = 1};
    call.outputs[0] = ids;
    assert_int_equal(code_call(&code, &call), 0);
    assert_int_equal(call.record.check, 0);
    code_close(&code);
    rig_close(&r);
  }
}

RUN_RIG_TESTS(TEST(test_embed), TEST(test_nothing_looked_up))

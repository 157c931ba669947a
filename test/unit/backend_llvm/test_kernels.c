// SPDX-License-Identifier: Apache-2.0
// Maps under all three loop schedules: contiguous, strided, reversed and broadcast inputs, masks,
// index values, several stages with LOCAL buffers, over sizes around the vector width.
#include "test/unit/backend_llvm/rig.h"

#include <math.h>
#include <stdio.h>

static const int64_t sizes[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 1000};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static dt_schedule_t outer(uint32_t lanes, uint32_t unroll, int64_t block) {
  return (dt_schedule_t){
      .kind = DT_SCHEDULE_OUTER_LANES, .lanes = lanes, .unroll = unroll, .outer.block = block};
}

static dt_schedule_t inner(uint32_t lanes, uint32_t unroll) {
  return (dt_schedule_t){.kind = DT_SCHEDULE_INNER_LANES, .lanes = lanes, .unroll = unroll};
}

static dt_schedule_t serial(void) {
  return (dt_schedule_t){.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1};
}

// ---- z = x * y + x over one loop -------------------------------------------------------------------
static void build_map(rig_t *r, dt_dtype_t dtype, dt_schedule_t schedule) {
  dt_sym_t n = rig_size(r);
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_INPUT, dtype, 1, 1, &n, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 0, 1, &n, NULL);
  rig_kernel(r, "map");
  dt_sym_t i = rig_outer(r, n);
  rig_stage(r);
  uint32_t a = rig_load(r, x, &i), b = rig_load(r, y, &i);
  uint32_t p = rig_op(r, DT_SCALAR_mul, a, b, DT_NO_INST);
  rig_store(r, z, &i, rig_op(r, DT_SCALAR_add, p, a, DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, schedule);
  rig_kernel_end(r);
}

static void check_map(dt_dtype_t dtype, dt_schedule_t schedule) {
  rig_t r;
  code_t code;
  rig_open(&r);
  build_map(&r, dtype, schedule);
  rig_compile(&r, &code);
  for (size_t s = 0; s < N_SIZES; s++)
    for (uint32_t pieces = 1; pieces <= 3; pieces++) {
      size_t n = (size_t)sizes[s], bytes = n * dt_dtype_size(dtype);
      region_t x = region_open(bytes), y = region_open(bytes);
      fill(dtype, x.at, n, 1, true);
      fill(dtype, y.at, n, 2, true);
      call_t call = {.symbols = {sizes[s]}, .inputs = {x.at, y.at}, .pieces = pieces};
      char what[64];
      snprintf(what, sizeof(what), "map %s, schedule %d, n %zu", dt_dtype_name(dtype),
               (int)schedule.kind, n);
      compare_call(&r, &code, &call, 1, &n, 0, what);
      assert_int_equal(call.output_sizes[0], sizes[s]);
      region_close(&x);
      region_close(&y);
    }
  code_close(&code);
  rig_close(&r);
}

static void test_map(void **state) {
  (void)state;
  rig_t r;
  rig_open(&r);
  const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I8, DT_I16, DT_I32, DT_I64, DT_U8, DT_U32};
  for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
    uint32_t lanes = rig_lanes(&r, dtypes[d]);
    check_map(dtypes[d], outer(lanes, 1, 48));
    check_map(dtypes[d], outer(lanes, 4, 256));
    check_map(dtypes[d], serial());
    check_map(dtypes[d], inner(lanes, 2));
  }
  rig_close(&r);
}

// ---- Strides: x[i, j] with given strides plus a row y[j] and a column v[i] --------------------------
typedef struct layout_t {
  const char *name;
  bool transposed, reversed, wide; // wide: j lies at stride 3
} layout_t;

static void build_strided(rig_t *r, layout_t layout, dt_schedule_t schedule, bool inner_j) {
  dt_sym_t m = rig_size(r), n = rig_size(r), one = rig_const(r, 1);
  dt_sym_t plain[2] = {m, n};
  dt_sym_t strides[2] = {n, one};
  if (layout.transposed) {
    strides[0] = one;
    strides[1] = m;
  } else if (layout.reversed) {
    strides[1] = rig_const(r, -1);
  } else if (layout.wide) {
    strides[0] = dt__sym_mul(r->env, n, rig_const(r, 3));
    strides[1] = rig_const(r, 3);
  }
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, DT_F32, 0, 2, plain, strides);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_INPUT, DT_F32, 1, 1, &n, NULL);
  dt_buffer_id_t v = rig_buffer(r, DT_BUFFER_INPUT, DT_F32, 2, 1, &m, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, DT_F32, 0, 2, plain, NULL);
  rig_kernel(r, "strided");
  dt_sym_t i = rig_outer(r, m), j;
  if (!inner_j)
    j = rig_outer(r, n);
  rig_stage(r);
  if (inner_j)
    j = rig_inner(r, n);
  dt_sym_t at[2] = {i, j};
  uint32_t a = rig_load(r, x, at), b = rig_load(r, y, &j), c = rig_load(r, v, &i);
  uint32_t sum =
      rig_op(r, DT_SCALAR_add, rig_op(r, DT_SCALAR_mul, a, b, DT_NO_INST), c, DT_NO_INST);
  rig_store(r, z, at, sum);
  rig_stage_end(r);
  rig_schedule(r, schedule);
  rig_kernel_end(r);
}

static void check_strided(layout_t layout, dt_schedule_t schedule, bool inner_j) {
  rig_t r;
  code_t code;
  rig_open(&r);
  build_strided(&r, layout, schedule, inner_j);
  rig_compile(&r, &code);
  const int64_t rows[] = {0, 1, 3, 17};
  for (size_t a = 0; a < 4; a++)
    for (size_t b = 0; b < N_SIZES; b++) {
      size_t m = (size_t)rows[a], n = (size_t)sizes[b], count = m * n;
      size_t stored = layout.wide ? (count ? count * 3 - 2 : 0) : count;
      region_t x = region_open(stored * 4), y = region_open(n * 4), v = region_open(m * 4);
      fill(DT_F32, x.at, stored, 3, true);
      fill(DT_F32, y.at, n, 4, true);
      fill(DT_F32, v.at, m, 5, true);
      float *origin = x.at;
      if (layout.reversed && count)
        origin += n - 1;
      call_t call = {.symbols = {rows[a], sizes[b]}, .inputs = {origin, y.at, v.at}, .pieces = 2};
      char what[96];
      snprintf(what, sizeof(what), "%s, schedule %d, %zu x %zu", layout.name, (int)schedule.kind, m,
               n);
      compare_call(&r, &code, &call, 1, &count, 0, what);
      region_close(&x);
      region_close(&y);
      region_close(&v);
    }
  code_close(&code);
  rig_close(&r);
}

static void test_strides(void **state) {
  (void)state;
  const layout_t layouts[] = {{"contiguous", false, false, false},
                              {"transposed", true, false, false},
                              {"reversed", false, true, false},
                              {"wide", false, false, true}};
  rig_t r;
  rig_open(&r);
  uint32_t lanes = rig_lanes(&r, DT_F32);
  for (size_t l = 0; l < 4; l++) {
    check_strided(layouts[l], outer(lanes, 2, 64), false);
    check_strided(layouts[l], inner(lanes, 2), true);
    check_strided(layouts[l], outer(lanes, 1, 16), true); // lanes on i, j serial
    check_strided(layouts[l], serial(), true);
  }
  rig_close(&r);
}

// ---- Masked loads (a pad), index values, floor division ---------------------------------------------
// z[i] = (2 <= i < n + 2 ? x[i - 2] : 7) + (i // 3) * (i % 5), with i < n + 5
static void build_pad(rig_t *r, dt_dtype_t dtype, dt_schedule_t schedule) {
  dt_symenv_t *e = r->env;
  dt_sym_t n = rig_size(r), wide = dt__sym_add(e, n, rig_const(r, 5));
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, dtype, 0, 1, &n, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, dtype, 0, 1, &wide, NULL);
  rig_kernel(r, "pad");
  dt_sym_t i = rig_outer(r, wide), two = rig_const(r, 2);
  rig_stage(r);
  dt_sym_t inside = dt__sym_and(e, dt__sym_le(e, two, i), dt__sym_lt(e, i, dt__sym_add(e, n, two)));
  uint32_t mask = rig_index(r, DT_BOOL, inside), seven = rig_literal(r, dtype, 7);
  dt_sym_t at = dt__sym_sub(e, i, two);
  uint32_t a = rig_load_masked(r, x, &at, mask, seven);
  uint32_t b = rig_load_masked(r, x, &at, mask, DT_NO_INST);
  dt_sym_t product =
      dt__sym_mul(e, dt__sym_floordiv(e, i, rig_const(r, 3)), dt__sym_mod(e, i, rig_const(r, 5)));
  uint32_t c = rig_index(r, dtype, product);
  uint32_t sum =
      rig_op(r, DT_SCALAR_add, rig_op(r, DT_SCALAR_add, a, b, DT_NO_INST), c, DT_NO_INST);
  rig_store(r, z, &i, sum);
  rig_stage_end(r);
  rig_schedule(r, schedule);
  rig_kernel_end(r);
}

static void check_pad(dt_dtype_t dtype, dt_schedule_t schedule) {
  rig_t r;
  code_t code;
  rig_open(&r);
  build_pad(&r, dtype, schedule);
  rig_compile(&r, &code);
  for (size_t s = 0; s < N_SIZES; s++) {
    size_t n = (size_t)sizes[s], out = n + 5;
    region_t x = region_open(n * dt_dtype_size(dtype));
    fill(dtype, x.at, n, 6, false);
    call_t call = {.symbols = {sizes[s]}, .inputs = {x.at}, .pieces = 2};
    char what[64];
    snprintf(what, sizeof(what), "pad %s, schedule %d, n %zu", dt_dtype_name(dtype),
             (int)schedule.kind, n);
    compare_call(&r, &code, &call, 1, &out, 0, what);
    region_close(&x);
  }
  code_close(&code);
  rig_close(&r);
}

static void test_pad(void **state) {
  (void)state;
  rig_t r;
  rig_open(&r);
  const dt_dtype_t dtypes[] = {DT_F32, DT_F64, DT_I64, DT_I16, DT_I8};
  for (size_t d = 0; d < 5; d++) {
    check_pad(dtypes[d], outer(rig_lanes(&r, dtypes[d]), 2, 256));
    check_pad(dtypes[d], serial());
  }
  rig_close(&r);
}

// ---- Stages through a LOCAL buffer: softmax -----------------------------------------------------------
static void build_softmax(rig_t *r, dt_schedule_t schedule) {
  dt_sym_t m = rig_size(r), n = rig_size(r), shape[2] = {m, n};
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, DT_F32, 0, 2, shape, NULL);
  dt_buffer_id_t l = rig_buffer(r, DT_BUFFER_LOCAL, DT_F32, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, DT_F32, 0, 2, shape, NULL);
  rig_kernel(r, "softmax");
  dt_sym_t i = rig_outer(r, m);
  rig_stage(r);
  dt_sym_t a[2] = {i, rig_inner(r, n)};
  uint32_t most = rig_fold(r, DT_REDUCE_MAX, rig_load(r, x, a), DT_NO_INST);
  rig_stage_end(r);
  rig_stage(r);
  dt_sym_t b[2] = {i, rig_inner(r, n)};
  uint32_t d = rig_op(r, DT_SCALAR_sub, rig_load(r, x, b), rig_row(r, most, DT_F32), DT_NO_INST);
  uint32_t e = rig_op(r, DT_SCALAR_exp, d, DT_NO_INST, DT_NO_INST);
  rig_store(r, l, &b[1], e);
  uint32_t sum = rig_fold(r, DT_REDUCE_SUM, e, DT_NO_INST);
  rig_stage_end(r);
  rig_stage(r);
  dt_sym_t c[2] = {i, rig_inner(r, n)};
  uint32_t q = rig_op(r, DT_SCALAR_div, rig_load(r, l, &c[1]), rig_row(r, sum, DT_F32), DT_NO_INST);
  rig_store(r, y, c, q);
  rig_stage_end(r);
  rig_schedule(r, schedule);
  rig_kernel_end(r);
}

static void test_softmax(void **state) {
  (void)state;
  rig_t probe;
  rig_open(&probe);
  uint32_t lanes = rig_lanes(&probe, DT_F32);
  rig_close(&probe);
  const dt_schedule_t schedules[] = {inner(lanes, 1), inner(lanes, 4), serial(),
                                     outer(lanes, 1, 16), outer(lanes, 2, 64)};
  for (size_t k = 0; k < 5; k++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    build_softmax(&r, schedules[k]);
    rig_compile(&r, &code);
    const int64_t rows[] = {0, 1, 5, 40};
    for (size_t a = 0; a < 4; a++)
      for (size_t s = 0; s < N_SIZES; s++) {
        size_t m = (size_t)rows[a], n = (size_t)sizes[s], count = m * n;
        region_t x = region_open(count * 4);
        fill(DT_F32, x.at, count, 7, true);
        call_t call = {.symbols = {rows[a], sizes[s]}, .inputs = {x.at}, .pieces = 3};
        char what[64];
        snprintf(what, sizeof(what), "softmax, schedule %zu, %zu x %zu", k, m, n);
        compare_call(&r, &code, &call, 1, &count, 1e-5, what);
        region_close(&x);
      }
    code_close(&code);
    rig_close(&r);
  }
}

// ---- Division by a row's value, made into a multiplication ----------------------------------------------
static double row_divisor(dt_dtype_t dtype, size_t i) {
  const double narrow[] = {3, -7, 0.1, 1e-3, 1e-39, 1e-45, 3e38, -1e35, 0, -0.0, INFINITY, NAN, 1};
  const double wide[] = {3,      -7, 0.1,  1e-3,     1e-310, 5e-324, 1.7e308,
                         -1e300, 0,  -0.0, INFINITY, NAN,    1};
  return dtype == DT_F32 ? narrow[i % 13] : wide[i % 13];
}

static void check_division(dt_dtype_t dtype, bool lanes_on_rows) {
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t m = rig_size(&r), n = rig_const(&r, 311), shape[2] = {m, n};
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, dtype, 0, 2, shape, NULL);
  dt_buffer_id_t d = rig_buffer(&r, DT_BUFFER_INPUT, dtype, 1, 1, &m, NULL);
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, dtype, 0, 2, shape, NULL);
  rig_kernel(&r, "scale");
  dt_sym_t at[2] = {rig_outer(&r, m)};
  rig_stage(&r);
  at[1] = rig_inner(&r, n);
  uint32_t a = rig_load(&r, x, at), b = rig_load(&r, d, at);
  rig_store(&r, y, at, rig_op(&r, DT_SCALAR_div, a, b, DT_NO_INST));
  rig_stage_end(&r);
  uint32_t lanes = rig_lanes(&r, dtype);
  rig_schedule(&r, lanes_on_rows ? outer(lanes, 2, 64) : inner(lanes, 2));
  rig_kernel_end(&r);
  rig_compile(&r, &code);
  size_t rows = 39, cols = 311, count = rows * cols, size = dt_dtype_size(dtype);
  region_t xs = region_open(count * size), ds = region_open(rows * size);
  for (size_t i = 0; i < rows; i++)
    dt__scalar_store(dtype, (char *)ds.at + i * size, (dt_scalar_t){.f = row_divisor(dtype, i)});
  double magnitude = dtype == DT_F32 ? 1e-45 : 5e-324, step = dtype == DT_F32 ? 2.3 : 950;
  for (size_t i = 0; i < count; i++) {
    double value = i % cols < 3 ? (double[]){INFINITY, NAN, 0}[i % cols] : magnitude;
    dt__scalar_store(dtype, (char *)xs.at + i * size, (dt_scalar_t){.f = i % 2 ? value : -value});
    magnitude *= step;
    if (magnitude > (dtype == DT_F32 ? 3e38 : 1.7e308))
      magnitude = (dtype == DT_F32 ? 1e-45 : 5e-324) * (double)(1 + i % 7);
  }
  call_t call = {.symbols = {(int64_t)rows}, .inputs = {xs.at, ds.at}, .pieces = 2};
  compare_call(&r, &code, &call, 1, &count, dtype == DT_F32 ? 1.2e-7 : 2.3e-16, "division");
  region_close(&xs);
  region_close(&ds);
  code_close(&code);
  rig_close(&r);
}

static void test_division(void **state) {
  (void)state;
  check_division(DT_F32, false);
  check_division(DT_F64, false);
  check_division(DT_F32, true);
}

// ---- Strict floating point -----------------------------------------------------------------------------
static void test_strict(void **state) {
  (void)state;
  rig_t r;
  code_t code;
  rig_open(&r);
  r.target.strict_fp = true;
  build_map(&r, DT_F32, outer(rig_lanes(&r, DT_F32), 2, 128));
  rig_compile(&r, &code);
  float x[100], y[100], z[100];
  for (int i = 0; i < 100; i++) {
    x[i] = 1.0f / (float)(i + 3);
    y[i] = -1.0f + 1e-3f / (float)(i + 7);
  }
  call_t call = {.symbols = {100}, .inputs = {x, y}, .outputs = {z}};
  assert_int_equal(code_call(&code, &call), 0);
  for (int i = 0; i < 100; i++) {
    volatile float product = x[i] * y[i];
    volatile float sum = product + x[i];
    if (z[i] != sum)
      fail_msg("element %d is %.9g, expected %.9g", i, (double)z[i], (double)sum);
  }
  code_close(&code);
  rig_close(&r);
}

// A load that no iteration reaches must not be made: x is empty, and its element 0 a wild address.
static void test_hoisted_loads(void **state) {
  (void)state;
  for (uint32_t kind = 0; kind < 3; kind++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    dt_sym_t m = rig_size(&r), n = rig_size(&r), zero = rig_const(&r, 0);
    dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, DT_F32, 0, 1, &n, NULL);
    dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_OUTPUT, DT_F32, 0, 1, &m, NULL);
    rig_kernel(&r, "sum_first");
    dt_sym_t i = rig_outer(&r, m);
    rig_stage(&r);
    (void)rig_inner(&r, n);
    uint32_t sum = rig_fold(&r, DT_REDUCE_SUM, rig_load(&r, x, &zero), DT_NO_INST);
    rig_stage_end(&r);
    rig_stage(&r);
    rig_store(&r, y, &i, rig_row(&r, sum, DT_F32));
    rig_stage_end(&r);
    uint32_t lanes = rig_lanes(&r, DT_F32);
    rig_schedule(&r, kind == 0 ? serial() : kind == 1 ? inner(lanes, 2) : outer(lanes, 1, 64));
    rig_kernel_end(&r);
    rig_compile(&r, &code);
    size_t count = 20;
    float three = 3;
    call_t call = {.symbols = {20, 0}, .inputs = {(void *)(uintptr_t)64}, .pieces = 1};
    compare_call(&r, &code, &call, 1, &count, 0, "empty rows");
    call.symbols[1] = 9;
    call.inputs[0] = &three;
    compare_call(&r, &code, &call, 1, &count, 0, "nine threes");
    code_close(&code);
    rig_close(&r);
  }
}

// ---- Orders, blocks and halos ------------------------------------------------------------------------
static void lay_out(rig_t *r, dt_buffer_id_t id, const dt_buffer_layout_t *layout) {
  dt_buffer_t *buffer = dt__program_buffer(r->program, id);
  buffer->layout = layout;
  dt__buffer_set_strides(r->env, buffer);
}

// x[n, c, w] with a halo, then differences of elements three apart, in another order.
static void build_halo(rig_t *r, const dt_buffer_layout_t *temp, const dt_buffer_layout_t *out,
                       dt_schedule_t schedule) {
  dt_sym_t n[3] = {rig_size(r), rig_size(r), rig_size(r)}, two = rig_const(r, 2);
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, DT_F32, 0, 3, n, NULL);
  dt_buffer_id_t t = rig_buffer(r, DT_BUFFER_TEMP, DT_F32, 0, 3, n, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_OUTPUT, DT_F32, 0, 3, n, NULL);
  lay_out(r, t, temp);
  lay_out(r, y, out);
  rig_kernel(r, "pad");
  dt_sym_t at[3] = {rig_outer(r, n[0]), rig_outer(r, n[1])};
  dt_sym_t i = rig_outer(r, dt__sym_add(r->env, n[2], rig_const(r, 3)));
  at[2] = dt__sym_sub(r->env, i, two);
  rig_stage(r);
  dt_sym_t inside =
      dt__sym_and(r->env, dt__sym_le(r->env, two, i), dt__sym_lt(r->env, at[2], n[2]));
  uint32_t mask = rig_index(r, DT_BOOL, inside);
  rig_store(r, t, at, rig_load_masked(r, x, at, mask, rig_literal(r, DT_F32, 0.5)));
  rig_stage_end(r);
  rig_schedule(r, schedule);
  rig_kernel_end(r);
  rig_kernel(r, "difference");
  dt_sym_t to[3] = {rig_outer(r, n[0]), rig_outer(r, n[1]), rig_outer(r, n[2])};
  dt_sym_t low[3] = {to[0], to[1], dt__sym_sub(r->env, to[2], two)};
  dt_sym_t high[3] = {to[0], to[1], dt__sym_add(r->env, to[2], rig_const(r, 1))};
  rig_stage(r);
  rig_store(r, y, to,
            rig_op(r, DT_SCALAR_sub, rig_load(r, t, high), rig_load(r, t, low), DT_NO_INST));
  rig_stage_end(r);
  rig_schedule(r, schedule);
  rig_kernel_end(r);
}

static void test_layouts(void **state) {
  (void)state;
  static const dt_buffer_layout_t temps[] = {
      {.order = {0, 1, 2}, .before = {0, 0, 2}, .behind = {0, 0, 1}, .filled = true, .fill.f = 0.5},
      {.order = {2, 0, 1}, .before = {0, 1, 2}, .behind = {3, 0, 2}},
      {.order = {0, 2, 1}, .blocked = 1, .block = 4, .before = {0, 0, 2}, .behind = {0, 0, 1}},
      {.order = {1, 0, 2}, .blocked = 2, .block = 3, .before = {0, 0, 2}, .behind = {0, 0, 1}}};
  static const dt_buffer_layout_t outs[] = {{.order = {0, 2, 1}}, {.order = {2, 1, 0}}};
  static const int64_t shapes[][3] = {{0, 2, 3}, {1, 1, 1}, {2, 3, 5}, {1, 9, 17}, {3, 4, 40}};
  for (uint32_t k = 0; k < 12; k++) {
    rig_t r;
    code_t code;
    rig_open(&r);
    uint32_t lanes = rig_lanes(&r, DT_F32);
    build_halo(&r, &temps[k % 4], &outs[k % 2],
               k < 4   ? serial()
               : k < 8 ? outer(lanes, 2, 128)
                       : inner(lanes, 1));
    expect_ok(dt__program_verify(r.program));
    rig_compile(&r, &code);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
      const int64_t *n = shapes[s];
      size_t count = (size_t)(n[0] * n[1] * n[2]);
      region_t x = region_open(count * 4);
      fill(DT_F32, x.at, count, 8, true);
      call_t call = {.symbols = {n[0], n[1], n[2]}, .inputs = {x.at}, .pieces = 2};
      char what[64];
      snprintf(what, sizeof(what), "layout %u, shape %zu", k, s);
      compare_call(&r, &code, &call, 1, &count, 0, what);
      region_close(&x);
    }
    code_close(&code);
    rig_close(&r);
  }
}

RUN_RIG_TESTS(TEST(test_map), TEST(test_strides), TEST(test_pad), TEST(test_softmax),
              TEST(test_hoisted_loads), TEST(test_division), TEST(test_strict), TEST(test_layouts))

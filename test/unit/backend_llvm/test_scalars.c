// SPDX-License-Identifier: Apache-2.0
// Every scalar op over every dtype it takes, and every cast, on all pairs of a list of awkward
// values: limits, zeros of both signs, infinities, NaN. Serial and vector code against scalar.c.
#include "test/unit/backend_llvm/rig.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const dt_dtype_t dtypes[] = {DT_BOOL, DT_I8,  DT_I16, DT_I32,  DT_I64, DT_U8, DT_U16,
                                    DT_U32,  DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64};
#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

static size_t awkward(dt_dtype_t dtype, dt_scalar_t *out) {
  static const double reals[] = {0.0,  -0.0, 1.0,   -1.0,      0.5,   -0.5,  1.5,          2.5,
                                 -2.5, 3.0,  -7.25, 10.0,      0.1,   88.0,  -87.0,        1e-5,
                                 1e6,  -1e9, 1e-30, 3e38,      1e10,  1e19,  2147483648.0, -9.3e18,
                                 0.75, -0.9, 0.999, 123456.75, 255.5, -128.0};
  static const int64_t whole[] = {0,
                                  1,
                                  -1,
                                  2,
                                  -2,
                                  3,
                                  7,
                                  -7,
                                  10,
                                  100,
                                  -100,
                                  127,
                                  -128,
                                  255,
                                  32767,
                                  -32768,
                                  65535,
                                  INT32_MAX,
                                  INT32_MIN,
                                  UINT32_MAX,
                                  INT64_MAX,
                                  INT64_MIN,
                                  1234567890123LL};
  size_t n = 0;
  if (dt__dtype_is_float(dtype)) {
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
      out[n++] = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = reals[i]});
    out[n++].f = INFINITY;
    out[n++].f = -INFINITY;
    out[n++].f = NAN;
    return n;
  }
  for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
    out[n++] = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = whole[i]});
  return n;
}

// ---- One op ------------------------------------------------------------------------------------------
static dt_schedule_t schedule_of(const rig_t *r, uint32_t turn, dt_dtype_t widest) {
  if (turn == 0)
    return (dt_schedule_t){.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1};
  return (dt_schedule_t){.kind = DT_SCHEDULE_OUTER_LANES,
                         .lanes = rig_lanes(r, widest),
                         .unroll = 2,
                         .outer.block = 4096};
}

// Error bounds of the elementary functions (test_math is the judge of their accuracy).
static double tolerance(const dt_scalar_info_t *info, dt_dtype_t dtype) {
  if (info->domain != 'F' && strcmp(info->name, "pow") != 0)
    return 0;
  return dtype == DT_F32 ? 1e-6 : 1e-14;
}

static bool far(double got, double want, double rtol, dt_dtype_t dtype) {
  if (isnan(got) || isnan(want))
    return !(isnan(got) && isnan(want));
  want = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = want}).f;
  if (got == want)
    return false;
  double tiny = dtype == DT_F32 ? FLT_MIN : DBL_MIN;
  return !(fabs(got - want) <= rtol * fabs(want) + 4 * tiny * (rtol > 0));
}

typedef struct run_t {
  dt_scalar_t a[2048], b[2048];
  unsigned char got[2048 * 8];
  size_t n;
} run_t;

static void pairs(run_t *run, dt_dtype_t dtype, bool binary) {
  dt_scalar_t values[64];
  size_t n = awkward(dtype, values);
  run->n = 0;
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < (binary ? n : 1); j++) {
      run->a[run->n] = values[i];
      run->b[run->n++] = values[j];
    }
}

static void execute(rig_t *r, run_t *run, dt_dtype_t in, dt_dtype_t out, bool binary) {
  code_t code;
  rig_compile(r, &code);
  size_t in_size = dt_dtype_size(in), out_size = dt_dtype_size(out);
  region_t x = region_open(run->n * in_size), y = region_open(run->n * in_size);
  region_t z = region_open(run->n * out_size);
  for (size_t i = 0; i < run->n; i++) {
    dt__scalar_store(in, (char *)x.at + i * in_size, run->a[i]);
    dt__scalar_store(in, (char *)y.at + i * in_size, run->b[i]);
  }
  call_t call = {.symbols = {(int64_t)run->n}, .inputs = {x.at, y.at}, .outputs = {z.at}};
  (void)binary;
  assert_int_equal(code_call(&code, &call), 0);
  memcpy(run->got, z.at, run->n * out_size);
  region_close(&x);
  region_close(&y);
  region_close(&z);
  code_close(&code);
}

static void check_op(dt_scalar_op_t op, dt_dtype_t dtype, uint32_t turn) {
  static run_t run;
  const dt_scalar_info_t *info = dt__scalar_info(op);
  dt_dtype_t out = info->result_bool ? DT_BOOL : dtype;
  rig_t r;
  rig_open(&r);
  dt_sym_t n = rig_size(&r);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, dtype, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(&r, DT_BUFFER_INPUT, dtype, 1, 1, &n, NULL);
  dt_buffer_id_t z = rig_buffer(&r, DT_BUFFER_OUTPUT, out, 0, 1, &n, NULL);
  rig_kernel(&r, info->name);
  dt_sym_t i = rig_outer(&r, n);
  rig_stage(&r);
  uint32_t a = rig_load(&r, x, &i), b = info->arity >= 2 ? rig_load(&r, y, &i) : DT_NO_INST;
  uint32_t result;
  if (op == DT_SCALAR_philox) {
    result = rig_op(&r, op, a, b, a);
  } else if (info->arity == 3) {
    uint32_t x_wide = a, y_wide = b; // halves are compared as f32
    if (dt__dtype_is_half(dtype)) {
      x_wide = rig_cast(&r, DT_F32, a);
      y_wide = rig_cast(&r, DT_F32, b);
    }
    uint32_t same = rig_op(&r, DT_SCALAR_eq, x_wide, y_wide, DT_NO_INST);
    result = rig_op(&r, op, same, a, b);
  } else {
    result = rig_op(&r, op, a, b, DT_NO_INST);
  }
  rig_store(&r, z, &i, result);
  rig_stage_end(&r);
  rig_schedule(&r, schedule_of(&r, turn, dtype));
  rig_kernel_end(&r);
  pairs(&run, dtype, info->arity >= 2);
  execute(&r, &run, dtype, out, info->arity >= 2);
  for (size_t k = 0; k < run.n; k++) {
    dt_scalar_t args[3] = {run.a[k], run.b[k], run.a[k]};
    if (op == DT_SCALAR_where) {
      args[2] = args[1];
      args[1] = args[0];
      args[0] = dt__scalar_eval(DT_SCALAR_eq, dtype, (dt_scalar_t[]){run.a[k], run.b[k]});
    }
    dt_scalar_t want = dt__scalar_eval(op, dtype, args);
    dt_scalar_t got = dt__scalar_load(out, run.got + k * dt_dtype_size(out));
    if (dt__dtype_is_float(out)) {
      double rtol = tolerance(info, dtype);
      if (op == DT_SCALAR_mod || op == DT_SCALAR_fmod)
        rtol = dtype == DT_F32 ? 1e-7 : 0;
      double near =
          op == DT_SCALAR_ndtr ? dtype == DT_F32 ? 0x1p-22 : 0x1p-51 : 0; // as math.h says
      if (far(got.f, want.f, rtol, dtype) && !(fabs(got.f - want.f) <= near))
        fail_msg("%s %s (%.17g, %.17g), code %u: %.17g, expected %.17g", info->name,
                 dt_dtype_name(dtype), run.a[k].f, run.b[k].f, turn, got.f, want.f);
    } else if (got.i != want.i) {
      bool f = dt__dtype_is_float(dtype);
      fail_msg("%s %s (%.17g, %.17g), code %u: %lld, expected %lld", info->name,
               dt_dtype_name(dtype), f ? run.a[k].f : (double)run.a[k].i,
               f ? run.b[k].f : (double)run.b[k].i, turn, (long long)got.i, (long long)want.i);
    }
  }
  rig_close(&r);
}

static bool takes(dt_scalar_op_t op, dt_dtype_t dtype) {
  char domain = dt__scalar_info(op)->domain;
  if (dt__dtype_is_half(dtype))
    return op == DT_SCALAR_where;
  if (domain == 'F')
    return dt__dtype_is_float(dtype);
  if (domain == 'I')
    return dt__dtype_is_int(dtype);
  if (domain == 'B')
    return dtype == DT_BOOL;
  return domain == 'A' || dtype != DT_BOOL;
}

static void test_ops(void **state) {
  (void)state;
  for (dt_scalar_op_t op = DT_SCALAR_NONE + 1; op < DT_SCALAR_COUNT; op++)
    for (size_t d = 0; d < N_DTYPES; d++)
      for (uint32_t turn = 0; turn < 2; turn++)
        if (takes(op, dtypes[d]))
          check_op(op, dtypes[d], turn);
}

// ---- Casts ---------------------------------------------------------------------------------------------
static void check_cast(dt_dtype_t from, dt_dtype_t to, uint32_t turn) {
  static run_t run;
  rig_t r;
  rig_open(&r);
  dt_sym_t n = rig_size(&r);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, from, 0, 1, &n, NULL);
  dt_buffer_id_t z = rig_buffer(&r, DT_BUFFER_OUTPUT, to, 0, 1, &n, NULL);
  rig_kernel(&r, "cast");
  dt_sym_t i = rig_outer(&r, n);
  rig_stage(&r);
  rig_store(&r, z, &i, rig_cast(&r, to, rig_load(&r, x, &i)));
  rig_stage_end(&r);
  rig_schedule(&r, schedule_of(&r, turn, dt_dtype_size(from) > dt_dtype_size(to) ? from : to));
  rig_kernel_end(&r);
  pairs(&run, from, false);
  execute(&r, &run, from, to, false);
  for (size_t k = 0; k < run.n; k++) {
    dt_scalar_t want = dt__scalar_cast(from, to, run.a[k]);
    dt_scalar_t got = dt__scalar_load(to, run.got + k * dt_dtype_size(to));
    double shown = dt__dtype_is_float(from) ? run.a[k].f : (double)run.a[k].i;
    if (dt__dtype_is_float(to)) {
      unsigned char rounded[8] = {0};
      dt__scalar_store(to, rounded, want);
      want = dt__scalar_load(to, rounded);
      if (far(got.f, want.f, 0, to))
        fail_msg("cast %s to %s of %.17g, code %u: %.17g, expected %.17g", dt_dtype_name(from),
                 dt_dtype_name(to), shown, turn, got.f, want.f);
    } else if (got.i != want.i) {
      fail_msg("cast %s to %s of %.17g, code %u: %lld, expected %lld", dt_dtype_name(from),
               dt_dtype_name(to), shown, turn, (long long)got.i, (long long)want.i);
    }
  }
  rig_close(&r);
}

static void test_casts(void **state) {
  (void)state;
  for (size_t a = 0; a < N_DTYPES; a++)
    for (size_t b = 0; b < N_DTYPES; b++)
      for (uint32_t turn = 0; turn < 2; turn++)
        if (a != b)
          check_cast(dtypes[a], dtypes[b], turn);
}

// ---- Floats to integers ----------------------------------------------------------------------------------
// Every half; of wider floats, quarters from -70,000 to 70,000, what is next to ends of integers
// of every width, and numbers of every exponent.
#define MOST_GRID 600000

static size_t near(double at, bool wide, double *out, size_t n) {
  double below = at, above = at;
  out[n++] = at;
  for (int k = 0; k < 4; k++) {
    below = wide ? nextafter(below, -INFINITY) : (double)nextafterf((float)below, -INFINITY);
    above = wide ? nextafter(above, INFINITY) : (double)nextafterf((float)above, INFINITY);
    out[n++] = below;
    out[n++] = above;
  }
  for (double part = -1; part <= 1; part += 0.25)
    out[n++] = wide ? at + part : (double)(float)(at + part);
  return n;
}

static size_t real_grid(bool wide, double *out) {
  size_t n = 0;
  out[n++] = NAN;
  out[n++] = INFINITY;
  out[n++] = -INFINITY;
  out[n++] = -0.0;
  for (int k = -280000; k <= 280000; k++)
    out[n++] = k * 0.25;
  for (int bits = 0; bits <= 64; bits++) {
    n = near(ldexp(1, bits), wide, out, n);
    n = near(-ldexp(1, bits), wide, out, n);
  }
  for (int exponent = wide ? -1074 : -149; exponent < (wide ? 1024 : 128); exponent++) {
    out[n++] = ldexp(1, exponent);
    out[n++] = -ldexp(1, exponent);
  }
  return n;
}

static size_t grid_of(dt_dtype_t dtype, char *memory) {
  static double reals[MOST_GRID];
  size_t n = dt__dtype_is_half(dtype) ? 1 << 16 : real_grid(dtype == DT_F64, reals);
  assert_true(n <= MOST_GRID);
  for (size_t k = 0; k < n; k++) {
    uint16_t bits = (uint16_t)k;
    if (dt__dtype_is_half(dtype))
      memcpy(memory + 2 * k, &bits, 2);
    else
      dt__scalar_store(dtype, memory + k * dt_dtype_size(dtype), (dt_scalar_t){.f = reals[k]});
  }
  return n;
}

static void check_grid(dt_dtype_t from, dt_dtype_t to, uint32_t turn) {
  static char memory[MOST_GRID * 8];
  size_t count = grid_of(from, memory), in_size = dt_dtype_size(from), size = dt_dtype_size(to);
  rig_t r;
  code_t code;
  rig_open(&r);
  dt_sym_t n = rig_size(&r);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, from, 0, 1, &n, NULL);
  dt_buffer_id_t z = rig_buffer(&r, DT_BUFFER_OUTPUT, to, 0, 1, &n, NULL);
  rig_kernel(&r, "cast");
  dt_sym_t i = rig_outer(&r, n);
  rig_stage(&r);
  rig_store(&r, z, &i, rig_cast(&r, to, rig_load(&r, x, &i)));
  rig_stage_end(&r);
  rig_schedule(&r, schedule_of(&r, turn, in_size > size ? from : to));
  rig_kernel_end(&r);
  rig_compile(&r, &code);
  region_t in = region_open(count * in_size), out = region_open(count * size);
  memcpy(in.at, memory, count * in_size);
  call_t call = {.symbols = {(int64_t)count}, .inputs = {in.at}, .outputs = {out.at}};
  assert_int_equal(code_call(&code, &call), 0);
  for (size_t k = 0; k < count; k++) {
    dt_scalar_t value = dt__scalar_load(from, memory + k * in_size);
    dt_scalar_t want = dt__scalar_cast(from, to, value);
    dt_scalar_t got = dt__scalar_load(to, (char *)out.at + k * size);
    if (got.i != want.i)
      fail_msg("cast %s to %s of %.17g, code %u: %lld, expected %lld", dt_dtype_name(from),
               dt_dtype_name(to), value.f, turn, (long long)got.i, (long long)want.i);
  }
  region_close(&in);
  region_close(&out);
  code_close(&code);
  rig_close(&r);
}

static void test_float_to_int(void **state) {
  (void)state;
  for (size_t a = 0; a < N_DTYPES; a++)
    for (size_t b = 0; b < N_DTYPES; b++)
      for (uint32_t turn = 0; turn < 2; turn++)
        if (dt__dtype_is_float(dtypes[a]) && dt__dtype_is_int(dtypes[b]))
          check_grid(dtypes[a], dtypes[b], turn);
}

RUN_RIG_TESTS(TEST(test_ops), TEST(test_casts), TEST(test_float_to_int))

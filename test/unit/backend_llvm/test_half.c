// SPDX-License-Identifier: Apache-2.0
// Compiled conversions of 16-bit floats against scalar.c: all 65,536 values of each to every other
// dtype, and from f32, f64 and integers all values, what lies halfway between every two
// neighbours, and the numbers next to both. Serial and vector code, bit for bit but NaN's payload.
#include "test/unit/backend_llvm/rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALVES 65536
#define MOST ((size_t)HALVES * 8)

static const dt_dtype_t halves[] = {DT_F16, DT_BF16};

typedef struct values_t {
  dt_dtype_t dtype;
  size_t n;
  unsigned char *at;
} values_t;

static void put(values_t *v, dt_scalar_t x) {
  assert_true(v->n < MOST);
  dt__scalar_store(v->dtype, v->at + v->n++ * dt_dtype_size(v->dtype), x);
}

static double half_value(dt_dtype_t half, uint32_t bits) {
  uint16_t memory = (uint16_t)bits;
  return dt__scalar_load(half, &memory).f;
}

static double beside(dt_dtype_t dtype, double x, double towards) {
  return dtype == DT_F32 ? (double)nextafterf((float)x, (float)towards) : nextafter(x, towards);
}

// Every number of `half`, every midpoint, and the numbers of `wide` next to them.
static void fill_reals(values_t *v, dt_dtype_t half) {
  for (uint32_t bits = 0; bits < HALVES; bits++) {
    double x = half_value(half, bits), next = half_value(half, bits + 1);
    put(v, (dt_scalar_t){.f = x});
    if (!isfinite(x))
      continue;
    // Past the largest number, as far as it is from the one before.
    double step =
        isfinite(next) && (bits & 0x7fff) != 0x7fff ? next - x : x - half_value(half, bits - 1);
    double middle = x + step / 2, beyond = x + step;
    put(v, (dt_scalar_t){.f = middle});
    put(v, (dt_scalar_t){.f = beside(v->dtype, middle, x)});
    put(v, (dt_scalar_t){.f = beside(v->dtype, middle, beyond)});
    put(v, (dt_scalar_t){.f = beside(v->dtype, x, beyond)});
    put(v, (dt_scalar_t){.f = beside(v->dtype, beyond, x)});
  }
}

static void put_whole(values_t *v, uint64_t bits) {
  put(v, dt__scalar_cast(DT_I64, v->dtype, (dt_scalar_t){.i = (int64_t)bits}));
}

// Powers of two and sums of two of them, and their neighbours, of both signs; all small numbers.
static void fill_integers(values_t *v) {
  for (uint64_t i = 0; i < HALVES; i++)
    put_whole(v, i - HALVES / 2);
  for (unsigned a = 0; a < 64; a++)
    for (unsigned b = 0; b <= a; b++)
      for (unsigned c = 0; c <= b; c += 3)
        for (int by = -1; by <= 1; by++) {
          uint64_t x = ((uint64_t)1 << a) + ((uint64_t)1 << b) + ((uint64_t)1 << c) / 2;
          put_whole(v, x + (uint64_t)(int64_t)by);
          put_whole(v, 0 - (x + (uint64_t)(int64_t)by));
        }
}

static dt_schedule_t schedule_of(const rig_t *r, uint32_t turn, dt_dtype_t widest) {
  if (turn == 0)
    return (dt_schedule_t){.kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1};
  return (dt_schedule_t){.kind = DT_SCHEDULE_OUTER_LANES,
                         .lanes = rig_lanes(r, widest),
                         .unroll = 2,
                         .outer.block = 4096};
}

static void run_cast(const values_t *in, dt_dtype_t to, uint32_t turn, void *out) {
  rig_t r;
  rig_open(&r);
  dt_sym_t n = rig_size(&r);
  dt_buffer_id_t x = rig_buffer(&r, DT_BUFFER_INPUT, in->dtype, 0, 1, &n, NULL);
  dt_buffer_id_t z = rig_buffer(&r, DT_BUFFER_OUTPUT, to, 0, 1, &n, NULL);
  rig_kernel(&r, "cast");
  dt_sym_t i = rig_outer(&r, n);
  rig_stage(&r);
  rig_store(&r, z, &i, rig_cast(&r, to, rig_load(&r, x, &i)));
  rig_stage_end(&r);
  bool wider = dt_dtype_size(in->dtype) > dt_dtype_size(to);
  rig_schedule(&r, schedule_of(&r, turn, wider ? in->dtype : to));
  rig_kernel_end(&r);
  code_t code;
  rig_compile(&r, &code);
  call_t call = {.symbols = {(int64_t)in->n}, .inputs = {in->at}, .outputs = {out}};
  assert_int_equal(code_call(&code, &call), 0);
  code_close(&code);
  rig_close(&r);
}

static void check_cast(const values_t *in, dt_dtype_t to) {
  size_t from_size = dt_dtype_size(in->dtype), to_size = dt_dtype_size(to);
  unsigned char *got = malloc(in->n * to_size);
  assert_non_null(got);
  for (uint32_t turn = 0; turn < 2; turn++) {
    run_cast(in, to, turn, got);
    for (size_t k = 0; k < in->n; k++) {
      unsigned char want[8] = {0};
      dt_scalar_t x = dt__scalar_load(in->dtype, in->at + k * from_size);
      dt__scalar_store(to, want, dt__scalar_cast(in->dtype, to, x));
      dt_scalar_t had = dt__scalar_load(to, got + k * to_size), wanted = dt__scalar_load(to, want);
      bool both_nan = dt__dtype_is_float(to) && isnan(had.f) && isnan(wanted.f);
      if (memcmp(got + k * to_size, want, to_size) != 0 && !both_nan)
        fail_msg("cast %s to %s of %a (%lld), code %u: got %a (%lld), expected %a (%lld)",
                 dt_dtype_name(in->dtype), dt_dtype_name(to), x.f, (long long)x.i, turn, had.f,
                 (long long)had.i, wanted.f, (long long)wanted.i);
    }
  }
  free(got);
}

static void check_from(dt_dtype_t from, dt_dtype_t half) {
  values_t in = {.dtype = from, .at = malloc(MOST * dt_dtype_size(from))};
  assert_non_null(in.at);
  if (dt__dtype_is_float(from))
    fill_reals(&in, half);
  else
    fill_integers(&in);
  check_cast(&in, half);
  free(in.at);
}

static void test_from_reals(void **state) {
  (void)state;
  for (size_t h = 0; h < 2; h++) {
    check_from(DT_F32, halves[h]);
    check_from(DT_F64, halves[h]);
  }
}

static void test_from_integers(void **state) {
  (void)state;
  static const dt_dtype_t integers[] = {DT_BOOL, DT_I8,  DT_I16, DT_I32, DT_I64,
                                        DT_U8,   DT_U16, DT_U32, DT_U64};
  for (size_t h = 0; h < 2; h++)
    for (size_t d = 0; d < sizeof(integers) / sizeof(integers[0]); d++)
      check_from(integers[d], halves[h]);
}

static void test_from_halves(void **state) {
  (void)state;
  for (size_t h = 0; h < 2; h++) {
    values_t in = {.dtype = halves[h], .n = HALVES, .at = malloc(HALVES * 2)};
    assert_non_null(in.at);
    for (uint32_t bits = 0; bits < HALVES; bits++) {
      uint16_t memory = (uint16_t)bits;
      memcpy(in.at + (size_t)2 * bits, &memory, 2);
    }
    for (int d = 1; d < DT_LOW_DTYPES; d++)
      if (dt__dtype_is_valid((dt_dtype_t)d) && (dt_dtype_t)d != halves[h])
        check_cast(&in, (dt_dtype_t)d);
    free(in.at);
  }
}

// ---- Roundings in between -------------------------------------------------------------------------------
// x * y + x, rounded after each op: no multiply-add may skip the first rounding, although f32 ops
// may be contracted and CPUs have arithmetic on f16.
static void build_mul_add(rig_t *r, dt_dtype_t half, uint32_t turn) {
  dt_sym_t n = rig_size(r);
  dt_buffer_id_t x = rig_buffer(r, DT_BUFFER_INPUT, half, 0, 1, &n, NULL);
  dt_buffer_id_t y = rig_buffer(r, DT_BUFFER_INPUT, half, 1, 1, &n, NULL);
  dt_buffer_id_t z = rig_buffer(r, DT_BUFFER_OUTPUT, half, 0, 1, &n, NULL);
  rig_kernel(r, "mul_add");
  dt_sym_t i = rig_outer(r, n);
  rig_stage(r);
  uint32_t a = rig_cast(r, DT_F32, rig_load(r, x, &i));
  uint32_t b = rig_cast(r, DT_F32, rig_load(r, y, &i));
  uint32_t product = rig_cast(r, half, rig_op(r, DT_SCALAR_mul, a, b, DT_NO_INST));
  uint32_t sum = rig_op(r, DT_SCALAR_add, rig_cast(r, DT_F32, product), a, DT_NO_INST);
  rig_store(r, z, &i, rig_cast(r, half, sum));
  rig_stage_end(r);
  rig_schedule(r, schedule_of(r, turn, DT_F32));
  rig_kernel_end(r);
}

static void check_roundings(dt_dtype_t half, uint32_t turn) {
  static uint16_t x[HALVES], y[HALVES], z[HALVES];
  rig_t r;
  code_t code;
  rig_open(&r);
  build_mul_add(&r, half, turn);
  rig_compile(&r, &code);
  for (uint32_t k = 0; k < HALVES; k++) {
    dt__scalar_store(half, &x[k], (dt_scalar_t){.f = 1.0 + (double)(k % 256) / 256});
    dt__scalar_store(half, &y[k], (dt_scalar_t){.f = 1.0 + (double)(k / 256 % 256) / 1024});
  }
  call_t call = {.symbols = {HALVES}, .inputs = {x, y}, .outputs = {z}};
  assert_int_equal(code_call(&code, &call), 0);
  for (uint32_t k = 0; k < HALVES; k++) {
    uint16_t product, want;
    double a = dt__scalar_load(half, &x[k]).f, b = dt__scalar_load(half, &y[k]).f;
    dt__scalar_store(half, &product, (dt_scalar_t){.f = a * b});
    dt__scalar_store(half, &want, (dt_scalar_t){.f = dt__scalar_load(half, &product).f + a});
    if (z[k] != want)
      fail_msg("%s: %a * %a + %a, code %u: got %04x, expected %04x", dt_dtype_name(half), a, b, a,
               turn, z[k], want);
  }
  code_close(&code);
  rig_close(&r);
}

static void test_roundings(void **state) {
  (void)state;
  for (size_t h = 0; h < 2; h++)
    for (uint32_t turn = 0; turn < 2; turn++)
      check_roundings(halves[h], turn);
}

RUN_RIG_TESTS(TEST(test_from_reals), TEST(test_from_integers), TEST(test_from_halves),
              TEST(test_roundings))

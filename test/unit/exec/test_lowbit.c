// SPDX-License-Identifier: Apache-2.0
// Low-bit dtypes in compiled code, on CPUs and on devices (the fake driver runs the PTX), against
// the evaluator: casts of every code and to every type, moves of packed elements over odd sizes,
// what lies in the bits behind a row, and what is refused.
#include "runtime/base/dtype.h"
#include "test/support/subjects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const dt_dtype_t low_dtypes[] = {DT_F8E4M3FN, DT_F8E5M2, DT_F8E4M3FNUZ, DT_F8E5M2FNUZ,
                                        DT_F8E8M0,   DT_F4E2M1, DT_I4,         DT_U4,
                                        DT_I2,       DT_U2};
static const dt_dtype_t wide_dtypes[] = {DT_BOOL, DT_I8,  DT_I16, DT_I32,  DT_I64, DT_U8, DT_U16,
                                         DT_U32,  DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64};
#define N_LOW (sizeof(low_dtypes) / sizeof(low_dtypes[0]))
#define N_WIDE (sizeof(wide_dtypes) / sizeof(wide_dtypes[0]))

// ---- Both answers ---------------------------------------------------------------------------------
#define MOST_RESULTS 32
typedef struct program_t {
  dt_program_fn_t fn;
  dt_dtype_t from;
  uint32_t rank;
  uint32_t n; // results; casts: to which, and how
  dt_dtype_t to[MOST_RESULTS];
  uint32_t how[MOST_RESULTS];
} program_t;

// The evaluator is asked on the CPU.
static fixture_t host;

typedef struct both_t {
  fixture_t *place;
  dt_function_t *compiled, *evaluated;
} both_t;

static both_t both_of(fixture_t *place, program_t *program) {
  static const dt_dim_decl_t dims[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  const dt_input_decl_t input = {
      .name = "x", .dtype = program->from, .rank = program->rank, .dims = dims};
  const subject_t subject = {"low", program->fn, 1, program->n, &input};
  return (both_t){place, subject_function(place->runtime, &subject, program, DT_ANSWER_COMPILED),
                  subject_function(host.runtime, &subject, program, DT_ANSWER_EVALUATOR)};
}

static void drop(both_t *both) {
  dt_function_release(both->compiled);
  dt_function_release(both->evaluated);
}

static bool is_nan_at(dt_dtype_t dtype, const void *data, size_t k) {
  float single = 0;
  double wide = 0;
  uint16_t half = 0;
  switch (dtype) {
  case DT_F32:
    memcpy(&single, (const char *)data + 4 * k, 4);
    return isnan(single);
  case DT_F64:
    memcpy(&wide, (const char *)data + 8 * k, 8);
    return isnan(wide);
  case DT_F16:
  case DT_BF16:
    memcpy(&half, (const char *)data + 2 * k, 2);
    return (half & 0x7fff) > (dtype == DT_F16 ? 0x7c00 : 0x7f80);
  case DT_F8E4M3FN:
  case DT_F8E5M2:
    return (((const unsigned char *)data)[k] & 0x7f) > (dtype == DT_F8E5M2 ? 0x7c : 0x7e);
  default:
    return false;
  }
}

// Bytes, but for NaNs of types that have several. Bits behind a row are 0 on both sides.
static void expect_same(const program_t *p, uint32_t result, const dt_tensor_t *x,
                        const dt_tensor_t *got, const dt_tensor_t *want) {
  size_t bytes = dt_tensor_bytes(want), size = dt_dtype_size(dt_tensor_dtype(want));
  assert_int_equal(dt_tensor_dtype(got), dt_tensor_dtype(want));
  assert_int_equal(dt_tensor_bytes(got), bytes);
  expect_sizes(got, dt_tensor_rank(want), dt_tensor_sizes(want));
  for (size_t k = 0; k < bytes / size; k++) {
    const unsigned char *a = (const unsigned char *)dt_tensor_data(got) + k * size;
    const unsigned char *b = (const unsigned char *)dt_tensor_data(want) + k * size;
    bool nan = is_nan_at(dt_tensor_dtype(want), dt_tensor_data(got), k) &&
               is_nan_at(dt_tensor_dtype(want), dt_tensor_data(want), k);
    if (nan || memcmp(a, b, size) == 0)
      continue;
    unsigned long long in = 0;
    if (dt_dtype_bits(p->from) >= 8 && k < (size_t)dt_tensor_count(x))
      memcpy(&in, (const char *)dt_tensor_data(x) + k * dt_dtype_size(p->from),
             dt_dtype_size(p->from));
    fail_msg("%s to %s (how %u), unit %zu of %zu, from %llx: got %02x.., expected %02x..",
             dt_dtype_name(p->from), dt_dtype_name(dt_tensor_dtype(want)), p->how[result], k,
             bytes / size, in, a[0], b[0]);
  }
}

static void check(both_t *both, const program_t *p, dt_tensor_t *x) {
  dt_session_t *session = both->place->session;
  dt_tensor_t *got[MOST_RESULTS] = {NULL}, *want[MOST_RESULTS] = {NULL};
  dt_tensor_t *there = tensor_upload(session, x);
  expect_ok(dt_call(session, both->compiled, &there, 1, got, p->n, NULL));
  expect_ok(dt_call(host.session, both->evaluated, &x, 1, want, p->n, NULL));
  for (uint32_t k = 0; k < p->n; k++) {
    dt_tensor_t *here = tensor_download(session, got[k]);
    expect_same(p, k, x, here, want[k]);
    RELEASE(here, got[k], want[k]);
  }
  dt_tensor_release(there);
}

// ---- Elements -------------------------------------------------------------------------------------
static dt_tensor_t *tensor_bytes_of(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                                    rng_t *rng) {
  dt_tensor_t *x = tensor_empty(dtype, rank, sizes);
  for (size_t k = 0; k < dt_tensor_bytes(x); k++)
    ((unsigned char *)dt_tensor_data(x))[k] = (unsigned char)rng_next(rng);
  return x;
}

static dt_status_t cast_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  const program_t *p = closure;
  for (uint32_t k = 0; k < p->n; k++)
    out[k] = dt_cast_as(t, in[0], p->to[k], p->how[k]);
  return NULL;
}

static void add_cast(program_t *p, dt_dtype_t to, uint32_t how) {
  assert_true(p->n < MOST_RESULTS);
  p->to[p->n] = to;
  p->how[p->n++] = how;
}

// Every code, in rows of 16.
static void test_from(fixture_t *place) {
  for (size_t i = 0; i < N_LOW; i++) {
    program_t p = {.fn = cast_program, .from = low_dtypes[i], .rank = 2};
    for (size_t k = 0; k < N_WIDE; k++)
      add_cast(&p, wide_dtypes[k], 0);
    for (size_t k = 0; k < N_LOW; k++)
      if (k != i)
        add_cast(&p, low_dtypes[k], 0);
    both_t both = both_of(place, &p);
    uint32_t per = dt__dtype_per_byte(p.from);
    dt_tensor_t *x = tensor_empty(p.from, 2, SIZES(per == 2 ? 32 : 64, per == 1 ? 4 : 16));
    for (size_t b = 0; b < dt_tensor_bytes(x); b++)
      ((unsigned char *)dt_tensor_data(x))[b] = (unsigned char)b;
    assert_int_equal(dt_tensor_bytes(x), 256); // every byte
    check(&both, &p, x);
    dt_tensor_release(x);
    drop(&both);
  }
}

// ---- To -------------------------------------------------------------------------------------------
// All halves (where PTX is interpreted, one of 17); of wider floats what is on, between and beside
// numbers of few bits; of integers what is small, and the ends.
static uint32_t half_step;

static dt_tensor_t *all_halves(dt_dtype_t dtype) {
  uint32_t n = 65536 / half_step;
  dt_tensor_t *x = tensor_empty(dtype, 2, SIZES(1, n));
  for (uint32_t k = 0; k < n; k++)
    ((uint16_t *)dt_tensor_data(x))[k] = (uint16_t)(k * half_step);
  return x;
}

#define MOST_VALUES 16384
static double values[MOST_VALUES];
static int64_t n_values;

static void put(double x) {
  for (int turn = 0; turn < 2 && n_values < MOST_VALUES; turn++)
    values[n_values++] = turn ? -x : x;
}

static void put_around(double x) {
  put(x);
  put(nextafter(x, (double)INFINITY));
  put(nextafter(x, 0));
  put((double)nextafterf((float)x, INFINITY));
  put((double)nextafterf((float)x, 0));
}

static dt_tensor_t *floats_around(dt_dtype_t dtype) {
  n_values = 0;
  for (int e = -20; e <= 18; e++)
    for (int part = 0; part < 16; part++)
      put_around(ldexp(1 + part / 16.0, e));
  static const double more[] = {0,     0x1p-149, 0x1p-1074, 0x1p-127,  0x1.8p-127, 0x1p-126,
                                1e-30, 1e30,     0x1p127,   0x1.8p127, 0x1.fp127,  1e300};
  for (size_t k = 0; k < sizeof(more) / sizeof(more[0]); k++)
    put_around(more[k]);
  put((double)INFINITY);
  put((double)NAN);
  if (n_values % 2 == 0)
    put(1), n_values--; // an odd number
  dt_tensor_t *x = tensor_empty(dtype, 2, SIZES(1, n_values));
  for (int64_t k = 0; k < n_values; k++) {
    if (dtype == DT_F32)
      ((float *)dt_tensor_data(x))[k] = (float)values[k];
    else
      ((double *)dt_tensor_data(x))[k] = values[k];
  }
  return x;
}

static dt_tensor_t *integers(dt_dtype_t dtype) {
  static const uint64_t more[] = {57344,
                                  61439,
                                  61440,
                                  65535,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  (1ULL << 53) + 1,
                                  (1ULL << 62) + 1,
                                  (1ULL << 63) - 1,
                                  1ULL << 63,
                                  UINT64_MAX};
  int64_t n = 2048 + (int64_t)(sizeof(more) / sizeof(more[0])) + 1;
  dt_tensor_t *x = tensor_empty(dtype, 2, SIZES(1, n));
  size_t size = dt_dtype_size(dtype);
  memset(dt_tensor_data(x), 0, (size_t)n * size);
  for (int64_t k = 0; k < n - 1; k++) {
    uint64_t bits = k < 2048 ? (uint64_t)(k - 1024) : more[k - 2048];
    if (dtype == DT_BOOL)
      bits &= 1;
    memcpy((char *)dt_tensor_data(x) + (size_t)k * size, &bits, size);
  }
  return x;
}

static dt_tensor_t *given(dt_dtype_t dtype) {
  if (dt__dtype_is_half(dtype))
    return all_halves(dtype);
  return dt__dtype_is_float(dtype) ? floats_around(dtype) : integers(dtype);
}

static void test_to(fixture_t *place) {
  for (size_t k = 0; k < N_WIDE; k++) {
    program_t p = {.fn = cast_program, .from = wide_dtypes[k], .rank = 2};
    for (size_t i = 0; i < N_LOW; i++) {
      add_cast(&p, low_dtypes[i], 0);
      if (low_dtypes[i] <= DT_F8E8M0)
        add_cast(&p, low_dtypes[i], DT_CAST_OVERFLOW);
    }
    add_cast(&p, DT_F8E8M0, DT_CAST_DOWN);
    add_cast(&p, DT_F8E8M0, DT_CAST_NEAREST);
    add_cast(&p, DT_F8E8M0, DT_CAST_NEAREST | DT_CAST_OVERFLOW);
    both_t both = both_of(place, &p);
    dt_tensor_t *x = given(wide_dtypes[k]);
    check(&both, &p, x);
    dt_tensor_release(x);
    drop(&both);
  }
}

// ---- Moves ----------------------------------------------------------------------------------------
static dt_status_t same_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)t;
  (void)closure;
  out[0] = in[0];
  return NULL;
}

static dt_status_t turn_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_transpose(t, in[0], -1, -2);
  return NULL;
}

static dt_status_t flat_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_reshape(t, in[0], 1, (const dt_sym_t[]){dt_sym_const(t, -1)});
  return NULL;
}

static dt_status_t none_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  const dt_sym_t zero = dt_sym_const(t, 0), three = dt_sym_const(t, 3);
  out[0] = dt_as_strided(t, in[0], 2, (const dt_sym_t[]){three, zero},
                         (const dt_sym_t[]){three, three}, three);
  return NULL;
}

// Padded, joined with itself along the last dim, and picked by index, backwards.
static dt_status_t many_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  const program_t *p = closure;
  dt_sym_t zeros[3], ones[3], size = dt_dim(t, in[0], -1), one = dt_sym_const(t, 1);
  for (uint32_t k = 0; k < p->rank; k++) {
    zeros[k] = dt_sym_const(t, 0);
    ones[k] = one;
  }
  dt_value_t x = dt_pad(t, in[0], zeros, ones, 1);
  x = dt_concat(t, 2, (const dt_value_t[]){x, x}, -1);
  dt_value_t back = dt_iota(t, DT_I64, 1, &size, 0);
  back = dt_sub(t, dt_size_value(t, size), back);
  x = dt_gather(t, x, back, -1);
  dt_value_t odd = dt_eq(t, dt_mod(t, back, dt_scalar(t, DT_I64, 2)), dt_scalar(t, DT_I64, 1));
  dt_value_t other = dt_slice(t, x, -1, dt_sym_const(t, 0), size, 1);
  out[0] = dt_where(t, odd, x, dt_bitcast(t, dt_bitcast(t, other, DT_U8), p->from));
  return NULL;
}

static void test_moves(fixture_t *place) {
  static const dt_program_fn_t programs[] = {same_program, turn_program, flat_program, none_program,
                                             many_program};
  static const int64_t sizes[][3] = {{2, 3, 5}, {1, 1, 1}, {3, 2, 4}, {2, 1, 7},
                                     {0, 3, 3}, {2, 3, 0}, {1, 4, 2}, {3, 5, 33}};
  rng_t rng = {20261125};
  for (size_t i = 0; i < N_LOW; i++)
    for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++) {
      program_t p = {.fn = programs[k], .from = low_dtypes[i], .rank = 3, .n = 1};
      both_t both = both_of(place, &p);
      for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        dt_tensor_t *x = tensor_bytes_of(p.from, 3, sizes[s], &rng);
        if (programs[k] != same_program) // which hands on what is behind a row, too
          check(&both, &p, x);
        dt_tensor_release(x);
      }
      drop(&both);
    }
}

// Results that are an argument as it is, and scalars.
static void test_whole(fixture_t *place) {
  rng_t rng = {7};
  for (size_t i = 0; i < N_LOW; i++)
    for (uint32_t rank = 0; rank <= 2; rank++) {
      program_t p = {.fn = same_program, .from = low_dtypes[i], .rank = rank, .n = 1};
      both_t both = both_of(place, &p);
      dt_tensor_t *x = tensor_bytes_of(p.from, rank, SIZES(3, 8), &rng), *out = NULL;
      if (rank == 0)
        *(unsigned char *)dt_tensor_data(x) &= (unsigned char)((1 << dt_dtype_bits(p.from)) - 1);
      if (rank == 1)
        *(unsigned char *)dt_tensor_data(x) &=
            (unsigned char)(dt_dtype_bits(p.from) == 2 ? 63 : 255);
      dt_tensor_t *there = tensor_upload(place->session, x);
      expect_ok(dt_call(place->session, both.compiled, &there, 1, &out, 1, NULL));
      dt_tensor_t *here = tensor_download(place->session, out);
      assert_int_equal(dt_tensor_bytes(here), dt_tensor_bytes(x));
      if (rank != 1 || dt_dtype_bits(p.from) != 4)
        assert_memory_equal(dt_tensor_data(here), dt_tensor_data(x), dt_tensor_bytes(x));
      RELEASE(x, there, out, here);
      drop(&both);
    }
}

// ---- Products with packed weights -------------------------------------------------------------------
typedef struct weights_t {
  dt_tensor_t *w, *scale;
} weights_t;

static dt_status_t product_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  const weights_t *all = closure;
  dt_value_t w = dt_cast(t, dt_constant(t, "w", all->w), DT_F32);
  dt_value_t scale = dt_cast(t, dt_constant(t, "scale", all->scale), DT_F32);
  out[0] = dt_matmul(t, in[0], dt_mul(t, w, scale));
  return NULL;
}

static void test_product(fixture_t *place) {
  static const dt_dim_decl_t dims[] = {{.name = "n"}, {.is_static = true, .value = 33}};
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims};
  const subject_t subject = {"product", product_program, 1, 1, &input};
  rng_t rng = {5};
  for (size_t i = 0; i < N_LOW; i++) {
    dt_dtype_t dtype = low_dtypes[i];
    weights_t all = {tensor_bytes_of(dtype, 2, SIZES(33, 19), &rng),
                     tensor_empty(DT_F8E8M0, 2, SIZES(1, 19))};
    for (size_t k = 0; dt_dtype_bits(dtype) == 8 && k < dt_tensor_bytes(all.w); k++)
      ((unsigned char *)dt_tensor_data(all.w))[k] &= 0x37; // small, and no NaN
    if (dtype == DT_F8E8M0)
      memset(dt_tensor_data(all.w), 127, dt_tensor_bytes(all.w));
    memset(dt_tensor_data(all.scale), 125, 19);
    dt_function_t *functions[2] = {
        subject_function(place->runtime, &subject, &all, DT_ANSWER_COMPILED),
        subject_function(host.runtime, &subject, &all, DT_ANSWER_EVALUATOR)};
    for (int64_t n = 0; n < 40; n += 13) {
      dt_tensor_t *x = tensor_f32(&rng, 2, SIZES(n, 33)), *out[2] = {NULL, NULL};
      dt_tensor_t *there = tensor_upload(place->session, x);
      expect_ok(dt_call(place->session, functions[0], &there, 1, &out[0], 1, NULL));
      dt_tensor_t *here = tensor_download(place->session, out[0]);
      expect_ok(dt_call(host.session, functions[1], &x, 1, &out[1], 1, NULL));
      expect_close(here, out[1], 1e-4, 1e-5, dt_dtype_name(dtype));
      RELEASE(x, there, here, out[0], out[1]);
    }
    dt_function_release(functions[0]);
    dt_function_release(functions[1]);
    RELEASE(all.w, all.scale);
  }
}

// ---- Updates --------------------------------------------------------------------------------------
static dt_status_t update_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  out[0] = dt_cast(t, in[0], DT_F32);
  dt_update(t, in[0], in[1]);
  return NULL;
}

// The state and what it becomes lie side by side, so guards know to the byte where each ends.
static void test_update(void **state) {
  (void)state;
  static const dt_dim_decl_t dims[] = {{.name = "a"}, {.name = "b"}};
  fixture_t place = fixture_on(DT_CPU, 1);
  rng_t rng = {11};
  for (size_t i = 0; i < N_LOW; i++)
    for (int which = 0; which < 2; which++) {
      const dt_input_decl_t inputs[] = {
          {.name = "x", .dtype = low_dtypes[i], .rank = 2, .dims = dims},
          {.name = "y", .dtype = low_dtypes[i], .rank = 2, .dims = dims}};
      const subject_t subject = {"update", update_program, 2, 1, inputs};
      dt_function_t *function = subject_function(place.runtime, &subject, NULL,
                                                 which ? DT_ANSWER_EVALUATOR : DT_ANSWER_COMPILED);
      for (int64_t n = 2; n < 40; n += 6) {
        dt_tensor_t *about = tensor_empty(low_dtypes[i], 2, SIZES(n, 4 * n));
        size_t bytes = dt_tensor_bytes(about);
        unsigned char *memory = malloc(2 * bytes);
        for (size_t k = 0; k < 2 * bytes; k++)
          memory[k] = (unsigned char)(rng_next(&rng) & 0x37); // no NaN, of which there are several
        dt_tensor_t *in[2] = {tensor_over(low_dtypes[i], 2, SIZES(n, 4 * n), NULL, memory),
                              tensor_over(low_dtypes[i], 2, SIZES(n, 4 * n), NULL, memory + bytes)};
        dt_tensor_t *out = NULL;
        expect_ok(dt_call(place.session, function, in, 2, &out, 1, NULL));
        assert_memory_equal(memory, memory + bytes, bytes);
        RELEASE(about, in[0], in[1], out);
        free(memory);
      }
      assert_int_equal(variants_of(function), 1);
      dt_function_release(function);
    }
  fixture_end(&place);
}

// ---- Refusals -------------------------------------------------------------------------------------
static dt_status_t add_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[0]);
  return NULL;
}

static dt_status_t sum_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_sum(t, in[0], 0, NULL, false);
  return NULL;
}

static dt_status_t literal_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  const program_t *p = closure;
  (void)in;
  out[0] = dt_scalar(t, p->from, 1);
  return NULL;
}

static dt_status_t width_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  out[0] = dt_bitcast(t, in[0], DT_I32);
  return NULL;
}

static dt_status_t how_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_cast_as(t, in[0], DT_F8E8M0, DT_CAST_DOWN | DT_CAST_NEAREST);
  return NULL;
}

static void expect_refused(fixture_t *place, dt_program_fn_t fn, dt_dtype_t dtype, dt_code_t code,
                           const char *const *parts) {
  program_t p = {.fn = fn, .from = dtype, .rank = 1, .n = 1};
  both_t both = both_of(place, &p);
  dt_tensor_t *x = tensor_empty(dtype, 1, SIZES(4)), *out = NULL;
  memset(dt_tensor_data(x), 0, dt_tensor_bytes(x));
  expect_parts(dt_call(place->session, both.compiled, &x, 1, &out, 1, NULL), code, parts);
  dt_tensor_release(x);
  drop(&both);
}

static void test_refused(void **state) {
  (void)state;
  fixture_t place = fixture_on(DT_CPU, 1);
  host = place;
  expect_refused(&place, add_program, DT_F8E4M3FN, DT_E_DTYPE,
                 EACH_OF("add", "f8e4m3fn", "dt_cast it to f32"));
  expect_refused(&place, sum_program, DT_I4, DT_E_DTYPE,
                 EACH_OF("sum", "i4", "dt_cast it to i8 or i32"));
  expect_refused(&place, literal_program, DT_U2, DT_E_DTYPE, EACH_OF("u2", "dt_cast"));
  expect_refused(&place, width_program, DT_F8E5M2, DT_E_DTYPE,
                 EACH_OF("bitcast", "f8e5m2 as i32", "same width"));
  expect_refused(&place, how_program, DT_F32, DT_E_ARGUMENT, EACH_OF("cast", "how: 6"));
  fixture_end(&place);
}

static void test_strides(void **state) {
  (void)state;
  unsigned char bytes[16] = {0};
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_I4,
                           .rank = 2,
                           .sizes = SIZES(2, 3),
                           .strides = SIZES(4, 1),
                           .data = bytes};
  dt_tensor_t *x = NULL;
  expect_parts(dt_tensor_create(&desc, &x), DT_E_SHAPE, EACH_OF("strides[0]", "i4", "share bytes"));
  desc.strides = SIZES(3, 1);
  expect_ok(dt_tensor_create(&desc, &x));
  assert_int_equal(dt_tensor_bytes(x), 4);
  dt_tensor_release(x);
  static const struct {
    dt_dtype_t dtype;
    int64_t sizes[2];
    size_t bytes;
  } cases[] = {{DT_I4, {3, 4}, 6}, {DT_U4, {0, 3}, 0},     {DT_U2, {3, 5}, 6},
               {DT_I2, {2, 4}, 2}, {DT_F4E2M1, {5, 0}, 0}, {DT_F8E5M2, {3, 3}, 9}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    x = tensor_empty(cases[k].dtype, 2, cases[k].sizes);
    assert_int_equal(dt_tensor_bytes(x), cases[k].bytes);
    dt_tensor_release(x);
  }
  x = tensor_empty(DT_U2, 0, NULL);
  assert_int_equal(dt_tensor_bytes(x), 1);
  dt_tensor_release(x);
  assert_int_equal(dt_dtype_bits(DT_U2), 2);
  assert_int_equal(dt_dtype_bits(DT_BOOL), 8);
  assert_int_equal(dt_dtype_bits((dt_dtype_t)99), 0);
}

// ---- Devices --------------------------------------------------------------------------------------
static void everywhere(dt_device_t device) {
  fixture_t place = fixture_on(device, 1);
  host = fixture_on(DT_CPU, 1);
  half_step = device == DT_CPU ? 1 : 17;
  test_from(&place);
  test_to(&place);
  test_moves(&place);
  test_whole(&place);
  test_product(&place);
  fixture_end(&place);
  fixture_end(&host);
}

static void test_cpu(void **state) {
  (void)state;
  everywhere(DT_CPU);
}

static void test_cuda(void **state) {
  (void)state;
  everywhere(DT_CUDA);
}

// By way of programs as text.
static const char *worker_path;

static void test_worker(void **state) {
  (void)state;
  dt_runtime_options_t options = {.struct_size = sizeof(options),
                                  .threads = 1,
                                  .isolation = DT_ISOLATION_WORKER,
                                  .worker_path = worker_path};
  fixture_t place = {0};
  host = fixture_on(DT_CPU, 1);
  expect_ok(dt_runtime_create(&options, &place.runtime));
  place.session = session_of(place.runtime);
  rng_t rng = {3};
  dt_tensor_t *x = tensor_f32(&rng, 2, SIZES(3, 7));
  for (size_t i = 0; i < N_LOW; i++) {
    program_t to = {.fn = cast_program, .from = DT_F32, .rank = 2};
    program_t turn = {.fn = turn_program, .from = low_dtypes[i], .rank = 2, .n = 1};
    add_cast(&to, low_dtypes[i], 0);
    dt_tensor_t *low = tensor_bytes_of(low_dtypes[i], 2, SIZES(3, 7), &rng);
    both_t both = both_of(&place, &to);
    check(&both, &to, x);
    drop(&both);
    both = both_of(&place, &turn);
    check(&both, &turn, low);
    drop(&both);
    dt_tensor_release(low);
  }
  dt_tensor_release(x);
  fixture_end(&place);
  fixture_end(&host);
}

// usage: PROGRAM WORKER
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {TEST(test_refused), TEST(test_strides), TEST(test_update),
                                     TEST(test_worker),  TEST(test_cpu),     TEST(test_cuda)};
  worker_path = argc > 1 ? argv[1] : NULL;
  return cmocka_run_group_tests(tests, NULL, NULL);
}

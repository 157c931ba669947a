// SPDX-License-Identifier: Apache-2.0
// The matrix template on whole numbers, bit by bit: sizes around its tiles, batches, epilogues,
// dtypes, a strided left operand, nothing to sum.
#include "test/unit/backend_llvm/rig.h"

#include <stdio.h>
#include <string.h>

static const int64_t sizes[] = {0, 1, 2, 3, 13, 14, 15, 17, 31, 33, 64, 100};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

typedef struct case_t {
  dt_dtype_t dtype;
  uint32_t tile_row_groups, tile_panels;
  bool batched, epilogue, transposed;
  dt_dtype_t a, b; // of 8 bits, in words of four; DT_DTYPE_NONE: what sums are of
} case_t;

#define NO_WORDS DT_DTYPE_NONE, DT_DTYPE_NONE
#define WORD 4
static bool of_words(const case_t *c) { return c->a != DT_DTYPE_NONE; }
static dt_dtype_t a_of(const case_t *c) { return of_words(c) ? c->a : c->dtype; }
static dt_dtype_t b_of(const case_t *c) { return of_words(c) ? c->b : c->dtype; }

// C[b, m, n] = max(sum over k of A[b, m, k] B[b, n // w, k, n % w] + bias[n], 0) or the sum alone.
// transposed: A's storage is [m, b, k]. Of words: B[b, n // w, k // 4, n % w, k % 4].
static void build(rig_t *r, const case_t *c) {
  dt_symenv_t *e = r->env;
  uint32_t which = dt_dtype_size(c->dtype) == 8;
  uint32_t width = r->target.matmul_width[which], rows = r->target.matmul_rows[which];
  dt_sym_t bs = rig_size(r), ms = rig_size(r), ns = rig_size(r), ks = rig_size(r);
  if (!c->batched)
    bs = rig_const(r, 1);
  dt_sym_t w = rig_const(r, width), one = rig_const(r, 1);
  dt_sym_t a_shape[3] = {bs, ms, ks}, c_shape[3] = {bs, ms, ns};
  dt_sym_t four = rig_const(r, WORD);
  dt_sym_t b_shape[5] = {bs, dt__sym_ceildiv(e, ns, w), ks, w, four};
  if (of_words(c))
    b_shape[2] = dt__sym_ceildiv(e, ks, four);
  dt_sym_t a_strides[3] = {ks, dt__sym_mul(e, bs, ks), one};
  dt_buffer_id_t a =
      rig_buffer(r, DT_BUFFER_INPUT, a_of(c), 0, 3, a_shape, c->transposed ? a_strides : NULL);
  dt_buffer_id_t b = rig_buffer(r, DT_BUFFER_INPUT, b_of(c), 1, of_words(c) ? 5 : 4, b_shape, NULL);
  dt_buffer_id_t bias = rig_buffer(r, DT_BUFFER_INPUT, c->dtype, 2, 1, &ns, NULL);
  dt_buffer_id_t out = rig_buffer(r, DT_BUFFER_OUTPUT, c->dtype, 0, 3, c_shape, NULL);
  rig_kernel(r, "matmul");
  dt_sym_t bi = c->batched ? rig_outer(r, bs) : rig_const(r, 0);
  dt_sym_t m = rig_outer(r, ms), n = rig_outer(r, ns);
  rig_stage(r);
  dt_sym_t k = rig_inner(r, ks);
  dt_sym_t a_at[3] = {bi, m, k}, c_at[3] = {bi, m, n};
  dt_sym_t b_at[5] = {bi, dt__sym_floordiv(e, n, w), k, dt__sym_mod(e, n, w),
                      dt__sym_mod(e, k, four)};
  if (of_words(c))
    b_at[2] = dt__sym_floordiv(e, k, four);
  uint32_t x = rig_load(r, a, a_at), y = rig_load(r, b, b_at), left = x, right = y;
  if (of_words(c)) {
    left = rig_cast(r, c->dtype, x);
    right = rig_cast(r, c->dtype, y);
  }
  uint32_t row =
      rig_fold(r, DT_REDUCE_SUM, rig_op(r, DT_SCALAR_mul, left, right, DT_NO_INST), DT_NO_INST);
  rig_stage_end(r);
  rig_stage(r);
  uint32_t v = rig_row(r, row, c->dtype);
  if (c->epilogue) {
    v = rig_op(r, DT_SCALAR_add, v, rig_load(r, bias, &n), DT_NO_INST);
    v = rig_op(r, DT_SCALAR_maximum, v, rig_literal(r, c->dtype, 0), DT_NO_INST);
  }
  rig_store(r, out, c_at, v);
  rig_stage_end(r);
  dt_schedule_t schedule = {.kind = DT_SCHEDULE_MATMUL,
                            .lanes = rig_lanes(r, c->dtype),
                            .unroll = 2,
                            .matmul = {.a = x,
                                       .b = y,
                                       .width = width,
                                       .rows = rows,
                                       .tile_rows = rows * c->tile_row_groups,
                                       .tile_cols = width * c->tile_panels}};
  rig_schedule(r, schedule);
  rig_kernel_end(r);
}

// Elements of k that a panel has room for.
static size_t room(size_t depth, size_t word) { return (depth + word - 1) / word * word; }

static void pack(dt_dtype_t dtype, void *packed, const void *plain, size_t batch, size_t depth,
                 size_t cols, size_t width, size_t word) {
  size_t size = dt_dtype_size(dtype), panels = (cols + width - 1) / width;
  memset(packed, 0, batch * panels * room(depth, word) * width * size);
  for (size_t b = 0; b < batch; b++)
    for (size_t k = 0; k < depth; k++)
      for (size_t n = 0; n < cols; n++) {
        size_t step = (b * panels + n / width) * room(depth, word) / word + k / word;
        memcpy((char *)packed + ((step * width + n % width) * word + k % word) * size,
               (const char *)plain + ((b * depth + k) * cols + n) * size, size);
      }
}

// The product in plain C on whole numbers (every partial sum is exact in f32).
static void reference(const case_t *c, const void *a, const void *b, const void *bias, void *out,
                      size_t batch, size_t m, size_t n, size_t k) {
  size_t size = dt_dtype_size(c->dtype);
  bool real = dt__dtype_is_float(c->dtype);
  for (size_t i = 0; i < batch * m * n; i++) {
    size_t col = i % n, row = i / n % m, bi = i / n / m;
    size_t a_row = c->transposed ? (row * batch + bi) * k : (bi * m + row) * k;
    double f = 0;
    uint64_t z = 0;
    for (size_t p = 0; p < k; p++) {
      size_t x_size = dt_dtype_size(a_of(c)), y_size = dt_dtype_size(b_of(c));
      size_t at = (bi * k + p) * n + col;
      dt_scalar_t x = dt__scalar_load(a_of(c), (const char *)a + (a_row + p) * x_size);
      dt_scalar_t y = dt__scalar_load(b_of(c), (const char *)b + at * y_size);
      f += real ? x.f * y.f : 0;
      z += (uint64_t)x.i * (uint64_t)y.i;
    }
    dt_scalar_t sum = {.f = f};
    if (!real)
      sum.i = (int64_t)z;
    dt__scalar_store(c->dtype, (char *)out + i * size, sum);
    if (!c->epilogue)
      continue;
    sum = dt__scalar_load(c->dtype, (char *)out + i * size);
    dt_scalar_t add = dt__scalar_load(c->dtype, (const char *)bias + col * size);
    dt_scalar_t args[2] = {sum, add}, zero = {0};
    args[0] = dt__scalar_eval(DT_SCALAR_add, c->dtype, args);
    args[1] = zero;
    dt__scalar_store(c->dtype, (char *)out + i * size,
                     dt__scalar_eval(DT_SCALAR_maximum, c->dtype, args));
  }
}

// Of words every second number is an end of its range, for sums of products that would saturate.
static void fill_operand(const case_t *c, dt_dtype_t dtype, void *at, size_t n, uint32_t seed) {
  fill(dtype, at, n, seed, false);
  uint32_t x = seed;
  for (size_t i = 0; of_words(c) && i < n; i++) {
    x = x * 1664525u + 1013904223u;
    bool end = (x >> 16) & 1;
    ((uint8_t *)at)[i] = end ? (dtype == DT_U8 ? 255 : 128) : (uint8_t)(x >> 24);
  }
}

static void check_size(const case_t *c, rig_t *r, code_t *code, size_t batch, size_t m, size_t n,
                       size_t k) {
  size_t size = dt_dtype_size(c->dtype);
  size_t width = r->target.matmul_width[size == 8], panels = (n + width - 1) / width;
  size_t a_size = dt_dtype_size(a_of(c)), b_size = dt_dtype_size(b_of(c));
  size_t word = of_words(c) ? WORD : 1;
  region_t a = region_open(batch * m * k * a_size), plain = region_open(batch * k * n * b_size);
  region_t b = region_open(batch * panels * room(k, word) * width * b_size);
  region_t bias = region_open(n * size);
  region_t got = region_open(batch * m * n * size), want = region_open(batch * m * n * size);
  fill_operand(c, a_of(c), a.at, batch * m * k, 1);
  fill_operand(c, b_of(c), plain.at, batch * k * n, 2);
  fill(c->dtype, bias.at, n, 3, false);
  pack(b_of(c), b.at, plain.at, batch, k, n, width, word);
  memset(got.at, 0xcd, batch * m * n * size);
  reference(c, a.at, plain.at, bias.at, want.at, batch, m, n, k);
  call_t call = {.symbols = {(int64_t)batch, (int64_t)m, (int64_t)n, (int64_t)k},
                 .inputs = {a.at, b.at, bias.at},
                 .outputs = {got.at},
                 .pieces = 2};
  assert_int_equal(code_call(code, &call), 0);
  char what[96];
  snprintf(what, sizeof(what), "matmul %s %zu x %zu x %zu x %zu", dt_dtype_name(c->dtype), batch, m,
           n, k);
  expect_equal(c->dtype, got.at, want.at, batch * m * n, 0, what);
  region_t *all[] = {&a, &plain, &b, &bias, &got, &want};
  for (size_t i = 0; i < 6; i++)
    region_close(all[i]);
}

static void check(case_t c, size_t step) {
  rig_t r;
  code_t code;
  rig_open(&r);
  build(&r, &c);
  rig_compile(&r, &code);
  size_t turn = 0;
  for (size_t m = 0; m < N_SIZES; m++)
    for (size_t n = 0; n < N_SIZES; n++)
      for (size_t k = 0; k < N_SIZES; k++)
        if (turn++ % step == 0)
          check_size(&c, &r, &code, c.batched ? 1 + (m + k) % 3 : 1, (size_t)sizes[m],
                     (size_t)sizes[n], (size_t)sizes[k]);
  check_size(&c, &r, &code, 1, 5, 40, 512);
  check_size(&c, &r, &code, 1, 9, 70, 1300);
  check_size(&c, &r, &code, 1, 9, 70, 2051);
  if (c.batched)
    check_size(&c, &r, &code, 0, 5, 5, 5);
  code_close(&code);
  rig_close(&r);
}

static void test_plain(void **state) {
  (void)state;
  check((case_t){DT_F32, 2, 2, false, false, false, NO_WORDS}, 1);
}

static void test_epilogue(void **state) {
  (void)state;
  check((case_t){DT_F32, 4, 1, false, true, false, NO_WORDS}, 3);
  check((case_t){DT_F32, 1, 4, true, true, false, NO_WORDS}, 5);
}

static void test_strided(void **state) {
  (void)state;
  check((case_t){DT_F32, 2, 2, true, false, true, NO_WORDS}, 5);
}

static void test_dtypes(void **state) {
  (void)state;
  const dt_dtype_t dtypes[] = {DT_F64, DT_I32, DT_I64, DT_U32, DT_U64};
  for (size_t d = 0; d < 5; d++)
    check((case_t){dtypes[d], 2, 2, true, true, false, NO_WORDS}, 7);
}

// Four at a time: the rest of k is padded, and nothing saturates.
static void test_words(void **state) {
  (void)state;
  check((case_t){DT_I32, 2, 2, false, false, false, DT_U8, DT_I8}, 1);
  check((case_t){DT_I32, 2, 2, true, true, false, DT_I8, DT_U8}, 3);
  check((case_t){DT_I32, 1, 3, true, false, true, DT_U8, DT_I8}, 5);
}

RUN_RIG_TESTS(TEST(test_plain), TEST(test_epilogue), TEST(test_strided), TEST(test_dtypes),
              TEST(test_words))

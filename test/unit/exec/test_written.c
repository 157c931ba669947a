// SPDX-License-Identifier: Apache-2.0
// A step that appends a row to two caches writes two rows, and copies no cache: all other pages of
// the caches can only be read, and the call may take little memory. This holds for caches of any
// dtype, and for caches that are seen as the bits of another.
#include "test/support/fixture.h"

#include <string.h>
#include <sys/mman.h>

enum { KEYS, VALUES, ROW, AT, P, N_IN };

#define PAGE 4096
#define MANY 4096

// ---- Programs -----------------------------------------------------------------------------------
static dt_value_t row_at_p(dt_trace_t *t, dt_value_t values, const dt_value_t *in) {
  return dt_slice(t, values, 0, dt_int_value(t, in[P]), dt_sym_const(t, 1), 1);
}

static dt_status_t decode(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t k = dt_mul(t, in[ROW], dt_scalar(t, DT_F32, 0.5)), v = dt_neg(t, in[ROW]);
  dt_value_t row = row_at_p(t, in[VALUES], in);
  dt_update(t, in[KEYS], dt_update_slice(t, in[KEYS], k, in[AT], 0, DT_UPDATE_CHECKED));
  (void)dt_update_view(t, row, v);
  dt_value_t scores = dt_matmul(t, in[ROW], dt_transpose(t, in[KEYS], 0, 1));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 1), in[VALUES]);
  return NULL;
}

// The greatest of each column, after the update.
static dt_value_t greatest(dt_trace_t *t, dt_value_t x) {
  return dt_amax(t, dt_cast(t, x, DT_F32), 1, (int32_t[]){0}, false);
}

// Rows of the caches' own dtype.
static dt_status_t append(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_update(t, in[KEYS], dt_update_slice(t, in[KEYS], in[ROW], in[AT], 0, DT_UPDATE_CHECKED));
  (void)dt_update_view(t, row_at_p(t, in[VALUES], in), in[ROW]);
  out[0] = dt_maximum(t, greatest(t, in[KEYS]), greatest(t, in[VALUES]));
  return NULL;
}

typedef struct cache_t {
  const char *name;
  dt_dtype_t dtype, as;
  dt_program_fn_t program;
  dt_scatter_mode_t mode;
} cache_t;

// Caches of bits.
static dt_status_t append_bits(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  const cache_t *cache = closure;
  dt_dtype_t as = cache->as, own = cache->dtype;
  dt_value_t keys = dt_bitcast(t, in[KEYS], as), row = dt_bitcast(t, in[ROW], as);
  keys = dt_update_slice(t, keys, row, in[AT], 0, DT_UPDATE_CHECKED);
  dt_update(t, in[KEYS], dt_bitcast(t, keys, own));
  (void)dt_update_view(t, row_at_p(t, dt_bitcast(t, in[VALUES], as), in), row);
  out[0] = dt_maximum(t, greatest(t, keys), greatest(t, dt_bitcast(t, in[VALUES], as)));
  return NULL;
}

// A row at an index, into both caches, which are read.
static dt_status_t put(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const cache_t *cache = closure;
  dt_value_t row = dt_squeeze(t, in[ROW], 0), p = dt_size_value(t, dt_int_value(t, in[P]));
  p = dt_unsqueeze(t, p, 0);
  dt_update(t, in[KEYS], dt_index_put(t, in[KEYS], 1, &in[AT], row, cache->mode));
  dt_update(t, in[VALUES], dt_index_put(t, in[VALUES], 1, &p, in[ROW], cache->mode));
  out[0] = dt_maximum(t, greatest(t, in[KEYS]), greatest(t, in[VALUES]));
  return NULL;
}

// Rows joined with what is there: one row of the one cache, which is read, and two of the other,
// which are one row.
static dt_status_t accumulate(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const cache_t *cache = closure;
  dt_sym_t one = dt_sym_const(t, 1), ones[] = {one, one};
  dt_sym_t row[] = {one, dt_dim(t, in[KEYS], 1)};
  dt_value_t at = dt_expand(t, dt_reshape(t, in[AT], 2, ones), 2, row);
  dt_value_t p = dt_size_value(t, dt_int_value(t, in[P])), twice[2], rows;
  twice[0] = twice[1] = dt_unsqueeze(t, p, 0);
  rows = dt_concat(t, 2, twice, 0);
  dt_update(t, in[KEYS], dt_scatter_elements(t, in[KEYS], at, in[ROW], 0, cache->mode));
  dt_update(t, in[VALUES], dt_index_put(t, in[VALUES], 1, &rows, in[ROW], cache->mode));
  out[0] = greatest(t, in[KEYS]);
  return NULL;
}

// ---- Caches -------------------------------------------------------------------------------------
static int64_t width_of(const cache_t *cache) {
  return PAGE / (int64_t)dt_dtype_size(cache->dtype);
}

// Nor may a call take the memory of a cache, to copy it there.
static dt_function_t *function_on(fixture_t *on, cache_t *cache) {
  static const dt_dim_decl_t many[] = {{.name = "rows"}, {.name = "width"}},
                             row[] = {{.is_static = true, .value = 1}, {.name = "width"}};
  const dt_input_decl_t inputs[N_IN] = {
      {.name = "keys", .dtype = cache->dtype, .rank = 2, .dims = many},
      {.name = "values", .dtype = cache->dtype, .rank = 2, .dims = many},
      {.name = "row", .dtype = cache->dtype, .rank = 2, .dims = row},
      {.name = "at", .dtype = DT_I64},
      {.name = "p", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  dt_function_options_t options = options_of(N_IN, inputs);
  options.max_call_bytes = 64 * PAGE;
  return function_of(on, cache->program, cache, &options);
}

// Small numbers above zero of any dtype.
static void fill(const cache_t *cache, void *memory, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    if (cache->dtype == DT_F32)
      ((float *)memory)[k] = (float)(k % 251) / 1024;
    else if (dt_dtype_size(cache->dtype) == 2)
      ((uint16_t *)memory)[k] = (uint16_t)(0x3000 + k % 251);
    else
      ((uint8_t *)memory)[k] = (uint8_t)(k % 61);
  }
}

static char *cache_memory(const cache_t *cache) {
  char *memory =
      mmap(NULL, (size_t)MANY * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  fill(cache, memory, MANY * width_of(cache));
  return memory;
}

// All but the page of one row can only be read.
static void guard(char *memory, int64_t row) {
  assert_int_equal(mprotect(memory, (size_t)MANY * PAGE, PROT_READ), 0);
  assert_int_equal(mprotect(memory + row * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
}

static float joined(dt_scatter_mode_t mode, float old, float given) {
  switch (mode) {
  case DT_SCATTER_ADD:
    return old + given;
  case DT_SCATTER_MUL:
    return old * given;
  case DT_SCATTER_MAX:
    return old > given ? old : given;
  case DT_SCATTER_MIN:
    return old < given ? old : given;
  default:
    return given;
  }
}

// What the rows hold: `old` is what each row of f32 held before.
static void check_rows(const cache_t *cache, const char *key, const char *value, const void *row,
                       const char *old) {
  const float *given = row, *k = (const float *)key, *v = (const float *)value;
  const float *was_k = (const float *)old, *was_v = was_k + PAGE / sizeof(float);
  if (cache->program != decode && cache->mode == DT_SCATTER_REPLACE) {
    assert_memory_equal(key, row, PAGE);
    assert_memory_equal(value, row, PAGE);
    return;
  }
  for (int64_t j = 0; j < width_of(cache); j++) {
    if (cache->program == decode) {
      assert_true(k[j] == given[j] * 0.5f && v[j] == -given[j]);
    } else {
      float once = joined(cache->mode, was_v[j], given[j]);
      assert_true(k[j] == joined(cache->mode, was_k[j], given[j]));
      float twice = cache->program == put ? once : joined(cache->mode, once, given[j]);
      assert_true(v[j] == twice);
    }
  }
}

static void check_cache(fixture_t *on, cache_t *cache) {
  const int64_t sizes[] = {MANY, width_of(cache)}, row[] = {1, width_of(cache)};
  static _Alignas(float) char given[PAGE], old[2 * PAGE];
  dt_function_t *compiled = function_on(on, cache);
  char *keys = cache_memory(cache), *values = cache_memory(cache);
  fill(cache, given, width_of(cache));
  memmove(given, given + PAGE / 4, PAGE / 2);
  dt_tensor_t *in[N_IN] = {tensor_over(cache->dtype, 2, sizes, NULL, keys),
                           tensor_over(cache->dtype, 2, sizes, NULL, values),
                           tensor_over(cache->dtype, 2, row, NULL, given)};
  for (int64_t at = 0; at < MANY; at += cache->program == decode ? MANY / 2 - 1 : MANY - 1) {
    dt_tensor_t *out = NULL;
    int64_t p = (at + 7) % MANY;
    in[AT] = tensor_integer(at);
    in[P] = tensor_integer(p);
    guard(keys, at);
    guard(values, p);
    memcpy(old, keys + at * PAGE, PAGE);
    memcpy(old + PAGE, values + p * PAGE, PAGE);
    expect_ok(dt_call(on->session, compiled, in, N_IN, &out, 1, NULL));
    check_rows(cache, keys + at * PAGE, values + p * PAGE, given, old);
    RELEASE(out, in[AT], in[P]);
  }
  munmap(keys, (size_t)MANY * PAGE);
  munmap(values, (size_t)MANY * PAGE);
  release_tensors(in, ROW + 1);
  dt_function_release(compiled);
}

static void test_rows_written(void **state) {
  (void)state;
  cache_t caches[] = {{"f32", DT_F32, DT_F32, decode, DT_SCATTER_REPLACE},
                      {"i8", DT_I8, DT_I8, append, DT_SCATTER_REPLACE},
                      {"f8e4m3fn", DT_F8E4M3FN, DT_F8E4M3FN, append, DT_SCATTER_REPLACE},
                      {"bf16", DT_BF16, DT_BF16, append, DT_SCATTER_REPLACE},
                      {"u8 as f8e4m3fn", DT_U8, DT_F8E4M3FN, append_bits, DT_SCATTER_REPLACE},
                      {"f8e5m2 as i8", DT_F8E5M2, DT_I8, append_bits, DT_SCATTER_REPLACE},
                      {"u16 as f16", DT_U16, DT_F16, append_bits, DT_SCATTER_REPLACE},
                      {"bf16 as u16", DT_BF16, DT_U16, append_bits, DT_SCATTER_REPLACE},
                      {"f32 as u32", DT_F32, DT_U32, append_bits, DT_SCATTER_REPLACE},
                      {"put", DT_F16, DT_F16, put, DT_SCATTER_REPLACE},
                      {"put add", DT_F32, DT_F32, put, DT_SCATTER_ADD},
                      {"add", DT_F32, DT_F32, accumulate, DT_SCATTER_ADD},
                      {"mul", DT_F32, DT_F32, accumulate, DT_SCATTER_MUL},
                      {"max", DT_F32, DT_F32, accumulate, DT_SCATTER_MAX},
                      {"min", DT_F32, DT_F32, accumulate, DT_SCATTER_MIN}};
  fixture_t on = fixture_on(DT_CPU, 2);
  for (size_t k = 0; k < sizeof(caches) / sizeof(caches[0]); k++) {
    print_message("%s\n", caches[k].name);
    check_cache(&on, &caches[k]);
  }
  fixture_end(&on);
}

RUN_TESTS(TEST(test_rows_written))

// SPDX-License-Identifier: Apache-2.0
// A step that appends a row to two caches writes two rows, and copies no cache: all other pages of
// the caches can only be read, and the call may take little memory.
#include "test/support/fixture.h"

#include <sys/mman.h>

enum { KEYS, VALUES, ROW, AT, P, N_IN };

#define PAGE 4096
#define MANY 4096
#define FLOATS (PAGE / (int64_t)sizeof(float))

static dt_status_t decode(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t k = dt_mul(t, in[ROW], dt_scalar(t, DT_F32, 0.5)), v = dt_neg(t, in[ROW]);
  dt_value_t row = dt_slice(t, in[VALUES], 0, dt_int_value(t, in[P]), dt_sym_const(t, 1), 1);
  dt_update(t, in[KEYS], dt_update_slice(t, in[KEYS], k, in[AT], 0, DT_UPDATE_CHECKED));
  (void)dt_update_view(t, row, v);
  dt_value_t scores = dt_matmul(t, in[ROW], dt_transpose(t, in[KEYS], 0, 1));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 1), in[VALUES]);
  return NULL;
}

// Nor may a call take the memory of a cache, to copy it there.
static dt_function_t *decoder(fixture_t *on) {
  static const dt_dim_decl_t cache[] = {{.name = "rows"}, {.name = "width"}},
                             row[] = {{.is_static = true, .value = 1}, {.name = "width"}};
  static const dt_input_decl_t inputs[N_IN] = {
      {.name = "keys", .dtype = DT_F32, .rank = 2, .dims = cache},
      {.name = "values", .dtype = DT_F32, .rank = 2, .dims = cache},
      {.name = "row", .dtype = DT_F32, .rank = 2, .dims = row},
      {.name = "at", .dtype = DT_I64},
      {.name = "p", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  dt_function_options_t options = options_of(N_IN, inputs);
  options.max_call_bytes = 64 * PAGE;
  return function_of(on, decode, NULL, &options);
}

static float *cache_memory(void) {
  float *memory =
      mmap(NULL, (size_t)MANY * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  for (int64_t k = 0; k < MANY * FLOATS; k++)
    memory[k] = (float)(k % 251) / 1024;
  return memory;
}

// All but the page of one row can only be read.
static void guard(float *memory, int64_t row) {
  assert_int_equal(mprotect(memory, (size_t)MANY * PAGE, PROT_READ), 0);
  assert_int_equal(mprotect(memory + row * FLOATS, PAGE, PROT_READ | PROT_WRITE), 0);
}

static void test_rows_written(void **state) {
  (void)state;
  static const int64_t sizes[] = {MANY, FLOATS}, row[] = {1, FLOATS};
  fixture_t on = fixture_on(DT_CPU, 2);
  dt_function_t *compiled = decoder(&on);
  float *keys = cache_memory(), *values = cache_memory();
  dt_tensor_t *in[N_IN] = {tensor_over(DT_F32, 2, sizes, NULL, keys),
                           tensor_over(DT_F32, 2, sizes, NULL, values),
                           tensor_f32(&on.rng, 2, row)};
  const float *given = dt_tensor_data(in[ROW]);
  for (int64_t at = 0; at < MANY; at += MANY / 2 - 1) {
    dt_tensor_t *out = NULL;
    int64_t p = (at + 7) % MANY;
    in[AT] = tensor_integer(at);
    in[P] = tensor_integer(p);
    guard(keys, at);
    guard(values, p);
    expect_ok(dt_call(on.session, compiled, in, N_IN, &out, 1, NULL));
    for (int64_t j = 0; j < FLOATS; j++) {
      assert_true(keys[at * FLOATS + j] == given[j] * 0.5f);
      assert_true(values[p * FLOATS + j] == -given[j]);
    }
    RELEASE(out, in[AT], in[P]);
  }
  munmap(keys, (size_t)MANY * PAGE);
  munmap(values, (size_t)MANY * PAGE);
  release_tensors(in, ROW + 1);
  dt_function_release(compiled);
  fixture_end(&on);
}

RUN_TESTS(TEST(test_rows_written))

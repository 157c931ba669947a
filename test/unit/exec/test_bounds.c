// SPDX-License-Identifier: Apache-2.0
// What a program is cut into: kernels have few stores, units little work, and long host functions
// are pieces, which do what one function did.
#include "test/support/fixture.h"

#include "backend_llvm/emit/compile.h"
#include "fuse/merge.h"
#include "lower/loop/loop.h"
#include "runtime/base/memory.h"
#include "runtime/compile/compile.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 700 };

// ---- Programs -------------------------------------------------------------------------------------
// x + x, MANY times, each an output.
static dt_status_t outputs_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  (void)closure;
  for (uint32_t k = 0; k < MANY; k++)
    out[k] = dt_add(t, in[0], dt_scalar(t, DT_F32, (double)k));
  return dt_trace_status(t);
}

// x, MANY times, one behind the other.
static dt_status_t concat_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  static dt_value_t parts[MANY];
  (void)closure;
  for (uint32_t k = 0; k < MANY; k++)
    parts[k] = in[0];
  out[0] = dt_concat(t, MANY, parts, 0);
  return dt_trace_status(t);
}

// Sums of columns, one after another: kernels that do not fuse, each of its own size.
static dt_status_t sums_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  const uint32_t *count = closure;
  dt_value_t x = in[0];
  const int32_t rows = 0;
  for (uint32_t k = 0; k < (count ? *count : MANY); k++) {
    dt_sym_t low[1] = {dt_sym_const(t, 0)}, high[1] = {dt_sym_const(t, 1)};
    dt_value_t sum = dt_sum(t, x, 1, &rows, true);
    x = dt_pad(t, dt_sub(t, x, dt_mul(t, sum, dt_scalar(t, DT_F32, 1e-4))), low, high, 0.5);
  }
  out[0] = x;
  return dt_trace_status(t);
}

// Products of x in a row: equal kernels, which share their code, and none joins another.
static dt_status_t products_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  const uint32_t *count = closure;
  dt_value_t x = in[0];
  for (uint32_t k = 0; k < *count; k++)
    x = dt_tanh(t, dt_matmul(t, x, in[0]));
  out[0] = x;
  return dt_trace_status(t);
}

// ---- Through the pipeline ---------------------------------------------------------------------------
typedef struct planned_t {
  dt_traced_t *traced;
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
  dt_target_t target;
} planned_t;

static void plan(planned_t *p, dt_program_fn_t program, uint32_t n_outputs) {
  static const dt_dim_decl_t dim;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1, .dims = &dim};
  dt_trace_request_t request = {
      .program = program, .n_inputs = 1, .n_outputs = n_outputs, .inputs = &input};
  memset(p, 0, sizeof(*p));
  expect_ok(dt__trace_run(&request, &p->traced));
  expect_ok(dt__symenv_clone(p->traced->env, &p->env));
  p->target = (dt_target_t){.device = DT_CPU,
                            .vector_bytes = 32,
                            .vector_registers = 16,
                            .threads = 2,
                            .l1_bytes = 32 << 10,
                            .l2_bytes = 1 << 20};
  expect_ok(dt__pipeline_run(&p->arena, p->env, p->traced->graph,
                             &(dt_pipeline_request_t){.target = &p->target}, &p->program));
}

static void unplan(planned_t *p) {
  dt__symenv_destroy(p->env);
  dt__arena_fini(&p->arena);
  dt__traced_destroy(p->traced);
}

static void check_kernels(const dt_program_t *program) {
  uint32_t stores = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_size_t size = dt__kernel_size(&program->kernels.items[k]);
    assert_in_range(size.stores, 1, DT_MOST_STORES);
    assert_in_range(size.insts, 1, DT_MOST_INSTS);
    assert_in_range(size.stages, 1, DT_MOST_STAGES);
    stores += size.stores;
  }
  assert_true(stores >= MANY);
  assert_true(program->kernels.len < MANY / 8); // they are joined, for all that
}

static void test_stores(void **state) {
  (void)state;
  planned_t p;
  plan(&p, outputs_program, MANY);
  check_kernels(p.program);
  unplan(&p);
  plan(&p, concat_program, 1);
  check_kernels(p.program);
  unplan(&p);
}

// Many kernels, each of another code: more units than threads, and none above its share.
static void test_units(void **state) {
  (void)state;
  planned_t p;
  dt_unit_map_t map;
  plan(&p, sums_program, 1);
  expect_ok(dt__llvm_split(p.program, &p.target, 3, DT_UNIT_WORK, &map));
  uint64_t *work = DT_ARENA_ARRAY(&p.arena, uint64_t, map.n_units), all = 0;
  uint32_t *codes = DT_ARENA_ARRAY(&p.arena, uint32_t, map.n_units);
  assert_true(work && codes);
  for (uint32_t k = 0; k < map.n_codes; k++) {
    assert_true(map.unit_of_code[k] < map.n_units - 1);
    work[map.unit_of_code[k]] += map.work_of_code[k];
    codes[map.unit_of_code[k]]++;
    all += map.work_of_code[k];
  }
  assert_true(all > 4 * DT_UNIT_WORK); // else this shows nothing
  for (uint32_t u = 0; u + 1 < map.n_units; u++)
    if (codes[u] > 1 && work[u] > DT_UNIT_WORK)
      fail_msg("unit %u of %u: %llu", u, map.n_units, (unsigned long long)work[u]);
  unplan(&p);
}

// ---- Host programs in pieces --------------------------------------------------------------------------
static uint64_t compare(fixture_t *fixture, dt_program_fn_t program, void *closure,
                        uint32_t n_outputs, uint32_t rank, int64_t size, double tolerance) {
  static const dt_dim_decl_t dims[2];
  const int64_t sizes[2] = {size, size};
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = rank, .dims = dims};
  dt_tensor_t *x = tensor_f32(&fixture->rng, rank, sizes);
  uint64_t kernels = 0;
  dt_tensor_t *got[MANY] = {NULL}, *want[MANY] = {NULL};
  for (int k = 0; k < 2; k++) {
    dt_function_options_t options = options_of(1, &input);
    options.n_outputs = n_outputs;
    options.answer = k ? DT_ANSWER_EVALUATOR : compiled_answer();
    dt_function_t *function = function_of(fixture, program, closure, &options);
    expect_ok(dt_call(fixture->session, function, &x, 1, k ? want : got, n_outputs, NULL));
    kernels = k ? kernels : stats_of(function).kernels;
    dt_function_release(function);
  }
  for (uint32_t k = 0; k < n_outputs; k++) {
    expect_close(got[k], want[k], tolerance, tolerance, "piece");
    RELEASE(got[k], want[k]);
  }
  dt_tensor_release(x);
  return kernels;
}

static void test_pieces(void **state) {
  uint32_t few = 20, many = 300;
  (void)compare(*state, outputs_program, NULL, MANY, 1, 5, 1e-4);
  (void)compare(*state, outputs_program, NULL, MANY, 1, 0, 1e-4);
  (void)compare(*state, concat_program, NULL, 1, 1, 3, 0);
  (void)compare(*state, sums_program, &few, 1, 1, 3, 1e-3);
  assert_in_range(compare(*state, products_program, &many, 1, 2, 3, 1e-3), many, 2 * many + 2);
}

// Checks in any piece end the call with what they say, and sizes that are too large do behind them.
typedef struct checks_t {
  uint32_t failing; // which check fails where x has 3 elements; MANY: none
} checks_t;

static dt_status_t checks_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  const checks_t *checks = closure;
  dt_sym_t n = dt_item(t, in[1]);
  char what[16];
  for (uint32_t k = 0; k < MANY; k++) {
    (void)snprintf(what, sizeof(what), "check %u", k);
    int64_t least = k == checks->failing ? 4 : -(int64_t)k;
    dt_check(t, dt_sym_le(t, dt_sym_const(t, least), n), what);
  }
  out[0] = dt_add(t, in[0], dt_cast(t, dt_size_value(t, n), DT_F32));
  return dt_trace_status(t);
}

static void test_checks(void **state) {
  fixture_t *fixture = *state;
  static const dt_dim_decl_t dim;
  const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = &dim},
                                    {.name = "n", .dtype = DT_I64, .rank = 0}};
  const uint32_t failing[] = {0, 63, 64, 300, MANY - 1, MANY};
  const int64_t size = 2, n = 3;
  for (uint32_t k = 0; k < sizeof(failing) / sizeof(failing[0]); k++) {
    checks_t checks = {failing[k]};
    dt_function_options_t options = options_of(2, inputs);
    dt_function_t *function = function_of(fixture, checks_program, &checks, &options);
    dt_tensor_t *in[2] = {tensor_full(1, 1, &size), tensor_i64(0, NULL, &n)}, *out = NULL;
    dt_status_t status = dt_call(fixture->session, function, in, 2, &out, 1, NULL);
    if (failing[k] == MANY) {
      expect_ok(status);
    } else {
      char what[16];
      (void)snprintf(what, sizeof(what), "check %u", failing[k]);
      expect_told(status, DT_E_SHAPE, what);
    }
    RELEASE(out, in[0], in[1]);
    dt_function_release(function);
  }
}

static int setup(void **state) { return fixture_open(state, 2, 77); }

RUN_TESTS(TEST(test_stores), TEST(test_units), TEST_WITH(test_pieces, setup, fixture_close),
          TEST_WITH(test_checks, setup, fixture_close))

// SPDX-License-Identifier: Apache-2.0
// What the tests of calls share: programs, random tensors, and comparing with the evaluator.
#ifndef DT_TESTS_UNIT_EXEC_EXEC_TEST_H
#define DT_TESTS_UNIT_EXEC_EXEC_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ductile/ductile.h"
#include "ductile/experimental.h"

// Fails the test with the status's message, or frees a status of the expected code.
void expect_ok_at(dt_status_t status, const char *file, int line);
void expect_code_at(dt_status_t status, dt_code_t code, const char *file, int line);
// As expect_code, and the message contains `part`.
void expect_told_at(dt_status_t status, dt_code_t code, const char *part, const char *file,
                    int line);
#define expect_ok(status) expect_ok_at((status), __FILE__, __LINE__)
#define expect_code(status, code) expect_code_at((status), (code), __FILE__, __LINE__)
#define expect_told(status, code, part) expect_told_at((status), (code), (part), __FILE__, __LINE__)

// Who answers "compiled" functions here: compiled code, or the evaluator in builds without a code
// generator.
dt_answer_t compiled_answer(void);

// Deterministic random numbers.
typedef struct rng_t {
  uint64_t state;
} rng_t;
uint64_t rng_next(rng_t *rng);
int64_t rng_between(rng_t *rng, int64_t low, int64_t high); // inclusive
float rng_float(rng_t *rng);                                // in [-1, 1)

// Contiguous tensors of the library's own memory.
dt_tensor_t *tensor_f32(rng_t *rng, uint32_t rank, const int64_t *sizes);
dt_tensor_t *tensor_full(float value, uint32_t rank, const int64_t *sizes);
dt_tensor_t *tensor_i64(uint32_t rank, const int64_t *sizes, const int64_t *values);
// Elements of `base` seen with its first two dims exchanged; `base` must outlive it.
dt_tensor_t *tensor_transposed(dt_tensor_t *base);

// Every element of the f32 tensors within atol + rtol * |expected|, NaN like NaN, sizes equal.
void expect_close(dt_tensor_t *actual, dt_tensor_t *expected, double atol, double rtol,
                  const char *what);

uint32_t variants_of(dt_function_t *function);

// What most tests of a group share. fixture_open() makes a runtime of `threads` threads and a
// session, and seeds the random numbers; both fit a setup and a teardown of cmocka.
typedef struct fixture_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  rng_t rng;
} fixture_t;
int fixture_open(void **state, uint32_t threads, uint64_t seed);
int fixture_close(void **state);

// Options of a function "f" with `n` inputs and one output, answered by compiled code.
dt_function_options_t options_of(uint32_t n, const dt_input_decl_t *inputs);
dt_function_t *function_of(fixture_t *fixture, dt_program_fn_t program, void *closure,
                           const dt_function_options_t *options);
dt_function_counters_t stats_of(dt_function_t *function);

// A program with its declarations.
typedef struct subject_t {
  const char *name;
  dt_program_fn_t program;
  uint32_t n_inputs, n_outputs;
  const dt_input_decl_t *inputs;
} subject_t;
dt_function_t *subject_function(dt_runtime_t *runtime, const subject_t *subject, void *closure,
                                dt_answer_t answer);

extern const subject_t add_subject;        // a[n] + b[n]
extern const subject_t mlp_subject;        // x[batch, seq, 16] through two layers; closure: mlp_t
extern const subject_t layer_norm_subject; // x[rows, width], scale[width], bias[width]
extern const subject_t softmax_subject;    // x[rows, width] over width
extern const subject_t columns_subject;    // sums over the rows of x[rows, width]
extern const subject_t transpose_subject;  // x[rows, width] as [width, rows]
extern const subject_t gather_subject;     // table[rows, width] at ids[n]
extern const subject_t scale_subject;      // x[n] * sum(w * w) of constant w[4]; closure: w

typedef struct mlp_t {
  dt_tensor_t *w1, *b1, *w2, *b2;
} mlp_t;
void mlp_init(mlp_t *mlp, rng_t *rng);
void mlp_fini(mlp_t *mlp);

#endif // DT_TESTS_UNIT_EXEC_EXEC_TEST_H

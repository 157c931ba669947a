// SPDX-License-Identifier: Apache-2.0
// What the tests of programs whose sizes data gives share: one function of a program with one
// result, called again and again with tensors of literals.
#ifndef DT_TESTS_UNIT_PYTORCH_CALLS_TEST_H
#define DT_TESTS_UNIT_PYTORCH_CALLS_TEST_H

#include "test/support/subjects.h"

typedef dt_value_t v_t;
typedef v_t (*make_t)(dt_trace_t *t, const v_t *in);

// The program of one result by a make_t, to which `closure` points.
dt_status_t program(dt_trace_t *t, const v_t *in, v_t *out, void *closure);
// At most four inputs, declared by a letter each: i, rank-0 i64; j, rank-1 i64; x, rank-1 f32; m,
// rank-2 f32; b, rank-1 bool; f, rank-0 f32. How many.
uint32_t declare(const char *letters, dt_input_decl_t *out);

// The runtime of all rigs: setup and teardown of a group of tests.
int calls_open(void **state);
int calls_close(void **state);

typedef struct rig_t {
  make_t make;
  dt_function_t *function;
  dt_session_t *session;
} rig_t;
// Inputs are declared by letters. `begin`: answers are compiled.
void begin_with(rig_t *rig, make_t make, const char *letters, dt_answer_t answer);
void begin(rig_t *rig, make_t make, const char *letters);
void rig_fini(rig_t *rig);

dt_function_counters_t rig_stats(const rig_t *rig);
void expect_compiles(const rig_t *rig, uint64_t compiles);

// ---- Tensors --------------------------------------------------------------------------------------
dt_tensor_t *zeros(int64_t rows, int64_t columns); // f32
#define N(...) (SIZES(__VA_ARGS__))
#define F(...) ((const float[]){__VA_ARGS__})
#define I64(rank, sizes, ...) tensor_from(DT_I64, (rank), (sizes), N(__VA_ARGS__))
#define F32(rank, sizes, ...) tensor_from(DT_F32, (rank), (sizes), F(__VA_ARGS__))
#define INT(value) tensor_from(DT_I64, 0, NULL, N(value))
#define FIVE F32(1, N(5), 1, 2, 3, 4, 5)

// ---- Calls: with tensors that are released there --------------------------------------------------
#define TENSORS(...)                                                                               \
  (uint32_t)(sizeof((dt_tensor_t *[]){__VA_ARGS__}) / sizeof(dt_tensor_t *)), (dt_tensor_t *[]) {  \
    __VA_ARGS__                                                                                    \
  }
// The answer's sizes and elements; floats within a relative error of 1e-6.
void expect_answer(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs, uint32_t rank,
                   const int64_t *sizes, const double *want, const char *file, int line);
#define D(...) ((const double[]){__VA_ARGS__})
#define EXPECT(rig, tensors, rank, sizes, want)                                                    \
  expect_answer((rig), tensors, (rank), (sizes), (want), __FILE__, __LINE__)

void expect_refused(rig_t *rig, uint32_t n, dt_tensor_t *const *inputs, dt_code_t code,
                    const char *part, const char *file, int line);
#define REFUSED(rig, tensors, code, part)                                                          \
  expect_refused((rig), tensors, (code), (part), __FILE__, __LINE__)

static inline dt_sym_t number(dt_trace_t *t, int64_t value) { return dt_sym_const(t, value); }

#endif // DT_TESTS_UNIT_PYTORCH_CALLS_TEST_H

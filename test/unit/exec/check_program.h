// SPDX-License-Identifier: Apache-2.0
// Random programs that read numbers from data, make sizes of them and state what must hold of both:
// by checks, and by what slices, reshapes, broadcasts and selections need. Many contradict
// themselves, their declarations or the call. A program is data: it is replayed on a trace, and run
// on numbers alone (the model), which says what a call must give, or that it must be refused.
#ifndef DT_TESTS_UNIT_EXEC_CHECK_PROGRAM_H
#define DT_TESTS_UNIT_EXEC_CHECK_PROGRAM_H

#include "ductile/ductile.h"

enum {
  CP_TENSORS = 2, // f32 [n], [m]
  CP_NUMBERS = 3, // i64 []
  CP_INPUTS = CP_TENSORS + CP_NUMBERS,
  CP_STEPS = 14,
  CP_SYMS = CP_TENSORS + 2 * CP_STEPS,
  CP_VALUES = CP_TENSORS + 2 * CP_STEPS,
  CP_ELEMENTS = 512, // of a value in the model
};

typedef enum cp_kind_t {
  // Make a number.
  CP_ITEM, // number `a` of the call
  CP_CONST,
  CP_DIM, // of value a
  CP_ADD,
  CP_SUB,
  CP_MUL,
  CP_DIV,
  CP_MOD,
  CP_MIN,
  CP_MAX,
  CP_NEG,
  CP_ABS,
  CP_EQ,
  CP_NE,
  CP_LT,
  CP_LE,
  CP_AND,
  CP_OR,
  CP_NOT,
  CP_SELECT,
  // Make a value.
  CP_SLICE,       // [number b, of number c elements]
  CP_SLICE_RANGE, // [number b : number c : step]
  CP_SPLIT,       // by numbers b, c: the second part
  CP_FULL,
  CP_RANGE,
  CP_RESHAPE, // to number b
  CP_GRID,    // to numbers b × c, and the sums of rows
  CP_OPEN,    // to -1 × step, and the sums of rows
  CP_PAD,
  CP_CONCAT,
  CP_BROADCAST, // values a + b
  CP_EXPAND,    // to number b
  CP_SELECTION, // elements that are more than 0
  CP_PLACES,    // indices of elements that are not 0
  CP_REPEAT,    // number b times
  CP_CUMSUM,
  CP_DOT, // of values a and b
  // Make none.
  CP_CHECK_TRUE, // number a
  CP_CHECK_EQ,
  CP_CHECK_NE,
  CP_CHECK_LT,
  CP_CHECK_LE,
  CP_KIND_COUNT
} cp_kind_t;

typedef struct cp_step_t {
  cp_kind_t kind;
  uint32_t a, b, c; // modulo what is there; values a by cp_at
  int64_t number;
} cp_step_t;

typedef struct cp_program_t {
  dt_mark_t marks[CP_TENSORS];
  dt_dynamic_t dynamic;
  uint32_t n_steps;
  cp_step_t steps[CP_STEPS];
} cp_program_t;

typedef struct cp_call_t {
  int64_t sizes[CP_TENSORS], numbers[CP_NUMBERS];
} cp_call_t;

typedef enum cp_verdict_t {
  CP_TAKEN,
  CP_REFUSED,
  CP_BEYOND, // more than the model keeps: nothing is said
} cp_verdict_t;

typedef struct cp_result_t {
  cp_verdict_t verdict;
  uint32_t at; // the step that refused
  int64_t n, number;
  double elements[CP_ELEMENTS];
} cp_result_t;

// The value that index `a` means of `n`: often the newest, so that one is made from another.
static inline uint32_t cp_at(uint32_t a, uint32_t n) { return a < 500 ? a % n : n - 1; }

void cp_generate(uint64_t seed, cp_program_t *out);
void cp_call(uint64_t seed, uint32_t k, cp_call_t *out);
void cp_model(const cp_program_t *p, const cp_call_t *call, cp_result_t *out);
// A dt_program_fn_t with the program as its closure; outputs: f32 [n], i64 [].
dt_status_t cp_replay(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
void cp_print(const cp_program_t *p);
double cp_element(uint32_t tensor, int64_t k); // of the arguments

#endif // DT_TESTS_UNIT_EXEC_CHECK_PROGRAM_H

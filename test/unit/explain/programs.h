// SPDX-License-Identifier: Apache-2.0
// Programs with a first call and a second one that recompiles or is refused.
#ifndef DT_TESTS_UNIT_EXPLAIN_PROGRAMS_H
#define DT_TESTS_UNIT_EXPLAIN_PROGRAMS_H

#include "ductile/ductile.h"

#define CASE_INPUTS 2
#define CASE_RANK 3

// One argument of a call. Strides all 0: contiguous.
typedef struct case_arg_t {
  dt_dtype_t dtype; // 0: f32
  uint32_t rank;
  int64_t sizes[CASE_RANK], strides[CASE_RANK];
  uint32_t past;   // elements between an address of 64 and the first one
  uint32_t shares; // 1 + an earlier argument whose memory it has; 0: its own
  int64_t value;   // of the first element, an integer
} case_arg_t;

typedef struct case_call_t {
  case_arg_t args[CASE_INPUTS];
} case_call_t;

typedef struct case_t {
  const char *name; // of the function, and of the golden text
  dt_program_fn_t program;
  uint32_t n_inputs;
  const dt_input_decl_t *inputs;
  case_call_t first, second;
  uint32_t variant_limit; // 0: the usual one
  dt_dynamic_t dynamic;
  bool compiled; // by the code generator; else the evaluator answers
  void *closure;
  void (*between)(dt_runtime_t *runtime); // what changes besides the arguments; NULL: nothing
} case_t;

typedef struct case_list_t {
  uint32_t n;
  const case_t *items;
} case_list_t;
extern const case_list_t explain_cases;  // sizes and layouts
extern const case_list_t explain_values; // integers, captures, modes, shared memory
// The case of explain_cases named `name`, or NULL.
const case_t *explain_case(const char *name);

#endif // DT_TESTS_UNIT_EXPLAIN_PROGRAMS_H

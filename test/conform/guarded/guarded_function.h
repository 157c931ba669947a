// SPDX-License-Identifier: Apache-2.0
// Guarded programs of one traced function: a new one where the guards of none take the arguments.
#ifndef DT_TESTS_CONFORM_GUARDED_FUNCTION_H
#define DT_TESTS_CONFORM_GUARDED_FUNCTION_H

#include "runtime/trace/trace.h"
#include "test/conform/guarded/guarded.h"

enum { GUARDED_VARIANTS = 16, GUARDED_SYMBOLS = 8192 };

typedef struct guarded_variant_t {
  dt_traced_t *traced;
  dt_guards_t *guards;
  dt_symenv_t *env;
  dt_program_t *program;
  guarded_t *code;
} guarded_variant_t;

typedef struct guarded_function_t {
  dt_target_t target;
  dt_compile_options_t options;
  dt_arena_t arena; // of programs
  uint32_t n;
  guarded_variant_t variants[GUARDED_VARIANTS];
  int64_t symbols[GUARDED_SYMBOLS]; // of the last call
} guarded_function_t;

void guarded_function_init(guarded_function_t *f, const dt_target_t *target,
                           const dt_compile_options_t *options);
void guarded_function_fini(guarded_function_t *f);
// The variant that takes request->example, the arguments; its symbols are in f->symbols.
dt_status_t guarded_function_find(guarded_function_t *f, const dt_trace_request_t *request,
                                  guarded_variant_t **out) DT_MUST_USE;

#endif // DT_TESTS_CONFORM_GUARDED_FUNCTION_H

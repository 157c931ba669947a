// SPDX-License-Identifier: Apache-2.0
// What tests of patterns share: making them, calls with them and without, and one pattern that will
// do for any test.
#ifndef DT_TESTS_UNIT_EXEC_PATTERN_KIT_H
#define DT_TESTS_UNIT_EXEC_PATTERN_KIT_H

#include "test/support/subjects.h"

#include "ductile/pattern.h"

// A pattern under test: `options` as far as they are said.
typedef struct made_t {
  dt_program_fn_t program;
  dt_replacement_fn_t replacement;
  dt_match_check_fn_t check;
  void *closure;
  dt_pattern_options_t options;
} made_t;

#define WILDCARDS(...)                                                                             \
  .n_wildcards = sizeof((const dt_wildcard_t[]){__VA_ARGS__}) / sizeof(dt_wildcard_t),             \
  .wildcards = (const dt_wildcard_t[]) {                                                           \
    __VA_ARGS__                                                                                    \
  }

dt_status_t try_make(const made_t *made, dt_pattern_t **out);
// Added to the runtime; the caller's share is returned.
dt_pattern_t *add_pattern(fixture_t *f, const made_t *made);
void drop_pattern(fixture_t *f, dt_pattern_t *pattern, const char *name);

// The function as it is made with all patterns, or, with `passes`, without some, and answered by
// the evaluator.
dt_function_t *make(fixture_t *f, dt_program_fn_t program, void *closure, uint32_t n_in,
                    const dt_input_decl_t *inputs, uint32_t n_out, const char *passes);
// Calls the program with the patterns, and without `names` by the evaluator: the same answers, of
// 4 outputs at most.
void same_answers(fixture_t *f, dt_program_fn_t program, void *closure, uint32_t n_in,
                  const dt_input_decl_t *inputs, uint32_t n_out, dt_tensor_t *const *in,
                  const char *names);
// The same of one input; returns how often the pattern, named "p", was replaced.
uint64_t matches(fixture_t *f, const made_t *made, dt_program_fn_t program, uint32_t rank);
// Builds without a code generator trace and evaluate: there only DT_POINT_TRACED is a point.
bool compiles(void);

// x sigmoid(x), of one input or wildcard "x", and silu in its place.
dt_status_t swish(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t as_silu(dt_match_t *m, dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                    void *closure);
extern const made_t silu;
// 2 swish(x + x), with operands the other way.
dt_status_t swish_of_sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);

#endif // DT_TESTS_UNIT_EXEC_PATTERN_KIT_H

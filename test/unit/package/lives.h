// SPDX-License-Identifier: Apache-2.0
// Functions of the subjects, called at several sizes: in the process that compiles them, and from a
// package.
#ifndef DT_TEST_PACKAGE_LIVES_H
#define DT_TEST_PACKAGE_LIVES_H

#include "ductile/package.h"
#include "test/support/subjects.h"

#define N_LIVES 9
typedef struct life_t {
  const subject_t *subject;
  void *closure;
  uint32_t n_sizes;
  int64_t sizes[2][4]; // calls: sizes that `arguments` makes inputs of
  void (*arguments)(rng_t *rng, const int64_t *sizes, dt_tensor_t **in);
} life_t;
extern life_t lives[N_LIVES]; // closures are set between lives_begin and lives_end
void lives_begin(void);
void lives_end(void);

// The function's own, in a runtime with `threads` threads.
dt_function_t *life_function(dt_runtime_t *runtime, const life_t *life);
// A hash of all bits of its answers in a session anywhere.
uint64_t life_hash(dt_session_t *session, dt_function_t *function, const life_t *life);
// A package of one life's function, or of all, that was called once; `threads` compile.
void lives_write(const char *path, const life_t *life, uint32_t n, uint32_t threads,
                 const char *levels);

dt_package_t *opened(dt_runtime_t *runtime, const char *path);
dt_function_t *function_in(dt_package_t *package, const char *name);

// A variant a branch, so that there is something to decide: -x below 8 elements, else x + x.
dt_status_t branch_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);

#endif // DT_TEST_PACKAGE_LIVES_H

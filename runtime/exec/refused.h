// SPDX-License-Identifier: Apache-2.0
// Remembers for a short while which calls were refused for their arguments alone: another call with
// the same sizes costs a look-up, not a trace. An entry holds everything that the trace depended on
// (metadata of the inputs, integers, captures that it read, what the function had learned). So it
// answers only calls whose trace would have the same result. A program may also read values that it
// should have declared as captures; therefore entries expire.
#ifndef DT_RUNTIME_EXEC_REFUSED_H
#define DT_RUNTIME_EXEC_REFUSED_H

#include "runtime/exec/policy.h"

// What is asked about: metadata of a call's inputs, in words. Calls of more are not remembered.
#define DT_REFUSED_WORDS 1024u
typedef struct dt_refused_key_t {
  uint32_t n; // 0: not to be remembered
  uint64_t hash;
  int64_t words[DT_REFUSED_WORDS];
} dt_refused_key_t;

typedef struct dt_refused_t dt_refused_t; // a function's; guarded by its mutex

void dt__refused_key(const dt_function_t *function, dt_device_t place, dt_tensor_t *const *inputs,
                     dt_refused_key_t *out);
// Mutex held. A copy of the failure that such a call met; NULL: none is remembered.
dt_status_t dt__refused_find(const dt_function_t *function,
                             const dt_refused_key_t *key) DT_MUST_USE;
// Mutex held. The trace `build` of such a call failed with `status`, which is borrowed. Remembers
// it where nothing but the key, the policy and the build's captures had a part in it.
void dt__refused_note(dt_function_t *function, const dt_refused_key_t *key,
                      const dt_policy_build_t *build, dt_status_t status);
// Whether a trace that fails so does for its arguments or its program; other failures may pass.
bool dt__refused_is(dt_code_t code);
void dt__refused_destroy(dt_refused_t *refused); // NULL allowed

#endif // DT_RUNTIME_EXEC_REFUSED_H

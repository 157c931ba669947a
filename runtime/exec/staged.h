// SPDX-License-Identifier: Apache-2.0
// Inputs that lie on the host, in calls of a session whose place has memory of its own: tensors of
// that place stand for them before guards look, so that guards, variants and messages see nothing
// else. They are copied once the variant is known. Where their bytes go and how they are copied is
// the place's; which they are, and what stands for them, is kept here.
#ifndef DT_RUNTIME_EXEC_STAGED_H
#define DT_RUNTIME_EXEC_STAGED_H

#include "runtime/exec/call.h"

// A session's, for the call that is being made. Valid when zeroed.
typedef struct dt_staged_t {
  struct dt_tensor *tensors; // by input; those that are staged stand for the caller's
  dt_tensor_t **inputs;      // what the call is made with instead of what it was given
  uint32_t cap;
  uint32_t n;                // how many are staged
  uint32_t n_inputs;         // of the call; 0 where none is staged
  dt_tensor_t *const *given; // the caller's
} dt_staged_t;

// One of them: `bytes` from the first element's on, gaps included.
typedef struct dt_staged_input_t {
  struct dt_tensor *tensor; // that stands for it; a place may keep what the bytes are in there
  const dt_tensor_t *given;
  const void *from;
  void *to; // where it was put; before that it says nothing
  size_t bytes;
} dt_staged_input_t;

// Finds those of the call. What stands for them is nowhere yet.
dt_status_t dt__staged_begin(dt_staged_t *staged, const dt_call_t *call) DT_MUST_USE;
// The first from input *at on, which is behind it afterwards. False: there is no more.
bool dt__staged_next(const dt_staged_t *staged, uint32_t *at, dt_staged_input_t *out);
// Its first byte goes there.
void dt__staged_put(const dt_staged_input_t *input, void *to);
// All that there are were put somewhere: the call is made with what stands for them.
void dt__staged_enter(dt_staged_t *staged, dt_call_t *call);
// DT_E_ARGUMENT where the variant writes to one of them.
dt_status_t dt__staged_check(const dt_staged_t *staged, const dt_call_t *call,
                             const dt_variant_t *variant) DT_MUST_USE;
void dt__staged_fini(dt_staged_t *staged); // nothing may use it

#endif // DT_RUNTIME_EXEC_STAGED_H

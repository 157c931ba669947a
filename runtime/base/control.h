// SPDX-License-Identifier: Apache-2.0
// Until when a call may go on: a deadline, a flag that anyone may set, and what came of them. A
// call looks at it wherever it may end; what runs for it sees `stopped` alone, which stays.
#ifndef DT_RUNTIME_BASE_CONTROL_H
#define DT_RUNTIME_BASE_CONTROL_H

#include "ductile/base.h"

#include <stdatomic.h>

// In its call's memory. Generated code reads `stopped`: the layout is part of DT_FRAME_VERSION.
typedef struct dt_control_t {
  _Atomic uint32_t stopped;  // the dt_code_t that the call ends with; 0: it goes on
  int64_t deadline_ns;       // of dt__now_ns; 0: none
  const dt_cancel_t *cancel; // or NULL
} dt_control_t;

// Whether there is anything to look at.
static inline bool dt__control_is_wanted(int64_t deadline_ns, const dt_cancel_t *cancel) {
  return deadline_ns != 0 || cancel != NULL;
}
void dt__control_init(dt_control_t *control, int64_t deadline_ns, const dt_cancel_t *cancel);
// Looks; whether the call is to end. *out_now, where wanted: the time.
bool dt__control_look(dt_control_t *control, int64_t *out_now);
// What was found so far, without a look; NULL: nothing.
dt_status_t dt__control_found(const dt_control_t *control) DT_MUST_USE;
static inline DT_MUST_USE dt_status_t dt__control_status(const dt_control_t *control) {
  return control ? dt__control_found(control) : NULL;
}
// Looks. NULL control: go on.
static inline DT_MUST_USE dt_status_t dt__control_check(dt_control_t *control) {
  return control && dt__control_look(control, NULL) ? dt__control_found(control) : NULL;
}
// Until when to sleep before the next look: nothing wakes a sleeper when the flag is set. `now` is
// that of a look.
int64_t dt__control_wake_ns(const dt_control_t *control, int64_t now);

// For tests: the n-th look from now (1 = next) that finds nothing else finds `code`; n = 0 switches
// it off. Returns how many looks were counted since the last call of this; they are counted while
// it is on only.
uint64_t dt__control_end_at(uint64_t n, dt_code_t code);

#endif // DT_RUNTIME_BASE_CONTROL_H

// SPDX-License-Identifier: Apache-2.0
// Kernels that a first call got in their quick form, replaced by their best: made by the thread in
// the background, when a variant has been published, and swapped in while calls go on (swap.h).
// Both forms have the same bits.
#ifndef DT_RUNTIME_EXEC_BETTER_H
#define DT_RUNTIME_EXEC_BETTER_H

#include "ductile/function.h"
#include "runtime/base/control.h"

// Has the best form made of what is quick; does nothing if that is under way. Mutex held.
void dt__better_request(dt_function_t *function);
// The last release's: ends what is under way, and waits until it has ended.
void dt__better_stop(dt_function_t *function);
// Waits until no variant is to get a better form, mutex held. A failure: `control` (NULL: none)
// ended the wait.
dt_status_t dt__better_wait(dt_function_t *function, dt_control_t *control) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_BETTER_H

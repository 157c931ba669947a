// SPDX-License-Identifier: Apache-2.0
// How a build is waited for by calls that may leave before it ends.
#ifndef DT_RUNTIME_EXEC_APART_H
#define DT_RUNTIME_EXEC_APART_H

#include "ductile/function.h"
#include "runtime/base/control.h"
#include "runtime/base/status.h"

// Waits for function->idle, mutex held; a failure: `control` (NULL: none) ended the call, and where
// nobody else waits the build is stopped.
dt_status_t dt__build_wait(dt_function_t *function, dt_control_t *control) DT_MUST_USE;
// The build that goes on without its call, on a thread of its own: `compile` without the mutex,
// then `publish` with it, both of `user`, which `publish` releases. Mutex held, `building` set. A
// failure: the call ended before, and `publish` is called later all the same; or there is no
// thread, and *out_started is false. Else publish's status.
typedef struct dt_apart_t {
  dt_status_t (*compile)(void *user);
  dt_status_t (*publish)(void *user, dt_status_t status);
  void *user;
} dt_apart_t;
dt_status_t dt__build_apart(dt_function_t *function, const dt_apart_t *apart, dt_control_t *control,
                            bool *out_started) DT_MUST_USE;
// The builder's: joins the thread of the last such build, which has ended.
void dt__build_join(dt_function_t *function);
// The last release's: nobody waits for a build any more.
void dt__build_end(dt_function_t *function);

#endif // DT_RUNTIME_EXEC_APART_H

// SPDX-License-Identifier: Apache-2.0
// Making, annotating and propagating statuses. See include/ductile/base.h for the public half.
#ifndef DT_RUNTIME_BASE_STATUS_H
#define DT_RUNTIME_BASE_STATUS_H

#include "ductile/base.h"

// Whether it is a dt_code_t other than DT_OK: those that callers hand in are asked about.
bool dt__code_is_failure(dt_code_t code);
// Makes a failure status. Never returns NULL: without memory it returns a static status with the
// given code (freeing it is a no-op).
dt_status_t dt__status_make(dt_code_t code, const char *file, int line, const char *fmt, ...)
    DT_PRINTF(4, 5) DT_MUST_USE __attribute__((returns_nonnull));
// Puts a sentence of context in front of a failure's message and returns it; NULL stays NULL.
// Consumes `status`.
dt_status_t dt__status_annotate(dt_status_t status, const char *fmt, ...)
    DT_PRINTF(2, 3) DT_MUST_USE;
// Keeps `first` if it failed (freeing `second`), else returns `second`. Consumes both.
dt_status_t dt__status_join(dt_status_t first, dt_status_t second) DT_MUST_USE;
// The same failure under another code, which is not DT_OK; NULL stays NULL. Consumes `status`.
dt_status_t dt__status_recode(dt_status_t status, dt_code_t code) DT_MUST_USE;
// An independent copy (static statuses copy to themselves; without memory: a static status).
dt_status_t dt__status_clone(dt_status_t status) DT_MUST_USE;
// File and line where the status was made, for logs.
const char *dt__status_file(dt_status_t status);
int dt__status_line(dt_status_t status);

#define DT_FAIL(code, ...) dt__status_make((code), __FILE__, __LINE__, __VA_ARGS__)
#define DT_NO_MEMORY() dt__status_make(DT_E_NO_MEMORY, __FILE__, __LINE__, "out of memory")

// Propagation. Each stands alone on its line.
#define DT_TRY(expr)                                                                               \
  do {                                                                                             \
    dt_status_t dt_try_status_ = (expr);                                                           \
    if (dt_try_status_)                                                                            \
      return dt_try_status_;                                                                       \
  } while (0)
// Stores the failure in a local named `status` and jumps.
#define DT_TRY_GOTO(expr, label)                                                                   \
  do {                                                                                             \
    status = (expr);                                                                               \
    if (status)                                                                                    \
      goto label;                                                                                  \
  } while (0)

#endif // DT_RUNTIME_BASE_STATUS_H

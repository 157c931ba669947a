// SPDX-License-Identifier: Apache-2.0
// Calls that no variant covers.
#ifndef DT_RUNTIME_EXEC_MISS_H
#define DT_RUNTIME_EXEC_MISS_H

#include "ductile/session.h"
#include "runtime/base/control.h"
#include "runtime/base/status.h"
#include "runtime/exec/variant.h"

// Makes sure that a variant covers `inputs`, or with inputs NULL (session NULL) that there is any
// variant for `place`: checks the arguments, waits for a compile under way, or compiles. Not inside
// an epoch. At a limit with DT_LIMIT_EVALUATOR *out_once (NULL with inputs NULL) is a variant for
// this call alone, which the caller destroys; else it is NULL. `quick`: kernels in their quick form
// will do.
dt_status_t dt__function_cover(dt_session_t *session, dt_function_t *function, dt_device_t place,
                               dt_tensor_t *const *inputs, bool quick, dt_control_t *control,
                               dt_variant_t **out_once) DT_MUST_USE;

// The same without inputs, for those of a layout (dt_prepare_layout_t).
dt_status_t dt__function_cover_layout(dt_function_t *function, dt_device_t place, uint32_t layout,
                                      bool quick, dt_control_t *control) DT_MUST_USE;

// Binds a variant's constants and puts it behind those that the function has. Takes it also on
// failure. The function's mutex held.
dt_status_t dt__variant_publish(dt_function_t *function, dt_variant_t *variant) DT_MUST_USE;

// Traces the function from its declarations alone, when no compile is under way: a variant without
// code that nobody else has, for the caller to destroy. DT_E_STATE where sizes of a call are
// needed.
dt_status_t dt__function_trace(dt_function_t *function, dt_variant_t **out) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_MISS_H

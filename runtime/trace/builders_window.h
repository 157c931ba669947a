// SPDX-License-Identifier: Apache-2.0
// Functions that the builders of windows share.
#ifndef DT_RUNTIME_TRACE_BUILDERS_WINDOW_H
#define DT_RUNTIME_TRACE_BUILDERS_WINDOW_H

#include "runtime/trace/builder.h"

// `n` windows (NULL: all plain) with everything but the size filled in; strides and dilations are
// required to be positive. False fails the trace.
bool dt__windows_read(dt_trace_t *trace, uint32_t n, const dt_window_t *windows, dt_window_t *out);
// A condition that the program needs: proved, refused (DT_E_SHAPE), or checked at each call.
bool dt__windows_need(dt_trace_t *trace, dt_sym_t cond, const char *what);
// A window of that reach fits; of windows of one element there may be none.
bool dt__windows_fit(dt_trace_t *trace, dt_sym_t reach, dt_sym_t room);

#endif // DT_RUNTIME_TRACE_BUILDERS_WINDOW_H

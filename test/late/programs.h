// SPDX-License-Identifier: Apache-2.0
// Programs whose calls take long: in a loop, in a kernel, in the compile. For tests that end them.
#ifndef DT_TESTS_LATE_PROGRAMS_H
#define DT_TESTS_LATE_PROGRAMS_H

#include "ductile/ductile.h"

// x + trips, of any rank, by as many trips of a loop as `trips` (I64, rank 0) says.
dt_value_t late_loop(dt_trace_t *t, dt_value_t x, dt_value_t trips);
// One kernel of n x n items of work over n numbers, n after n.
dt_value_t late_kernel(dt_trace_t *t, dt_value_t x);
// Many kernels over a row, `steps` times a few, none like another. Those of another `version` are
// other code, with the same answer for numbers above -1000.
dt_value_t late_compile(dt_trace_t *t, dt_value_t x, int steps, int version);

// Programs of x (F32, rank 1) and trips.
dt_status_t late_loop_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t late_kernel_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure);

#endif // DT_TESTS_LATE_PROGRAMS_H

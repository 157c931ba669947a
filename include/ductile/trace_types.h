// SPDX-License-Identifier: Apache-2.0
// What builders take and return. Programs include trace.h.
#ifndef DUCTILE_TRACE_TYPES_H
#define DUCTILE_TRACE_TYPES_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A trace: a program that is being recorded. Every builder takes it first. It ends when the program
// returns.
typedef struct dt_trace dt_trace_t;

// A tensor of the trace; id 0 is "none". Copy freely. Both fields are for the library only.
typedef struct dt_value_t {
  uint32_t id;
  uint32_t trace; // the trace that made the value; any other trace refuses it. 0: not known
} dt_value_t;

// A body: reads in[] and sets out[]. Its failures are treated as dt_program_fn_t says.
// - It is traced once, whether or not calls will run it.
// - It may read values made outside of it; they become operands. Its own values end with it.
// - It may itself branch and loop. It may not read numbers from data (dt_item, dt_nonzero,
//   dt_masked_select, dt_repeat_interleave) or call dt_update: DT_E_STATE.
// - A dt_check in it must hold at each call, whether or not the call runs the body. Checks on
//   elements (dt_gather) are made only where the body runs.
typedef dt_status_t (*dt_branch_fn_t)(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                                      void *closure);

// What dt_cumsum and its like join to an element's result.
typedef enum dt_cumsum_mode_t {
  DT_CUMSUM_INCLUSIVE = 0,
  DT_CUMSUM_EXCLUSIVE = 1, // without the element itself: the first is 0
  DT_CUMSUM_REVERSE = 2,   // from the end
  DT_CUMSUM_EXCLUSIVE_REVERSE = 3,
} dt_cumsum_mode_t;

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_TYPES_H

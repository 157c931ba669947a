// SPDX-License-Identifier: Apache-2.0
// How long the opening of a model, or the making of a function of it, may go on. Whatever grows
// with the file says how much it has done, and every now and then the clock and the caller's flag
// are looked at. Private to frontends/onnx.
#ifndef DT_FRONTENDS_ONNX_PACE_H
#define DT_FRONTENDS_ONNX_PACE_H

#include "runtime/base/control.h"

// One thread's, in its caller's memory; zeroed: as long as it takes.
typedef struct dt_onnx_pace_t {
  dt_control_t *control;
  uint64_t work; // since the last look
} dt_onnx_pace_t;

// What a piece of a file, read or copied at once, comes to: a look each.
#define DT_ONNX_PIECE_BYTES ((size_t)4 << 20)
#define DT_ONNX_WORK_A_LOOK 16384U

// `work` steps of some ten nanoseconds were done, or are next. DT_E_DEADLINE, DT_E_CANCELLED;
// `pace` may be NULL.
dt_status_t dt__onnx_go_on(dt_onnx_pace_t *pace, uint64_t work) DT_MUST_USE;

#endif // DT_FRONTENDS_ONNX_PACE_H

// SPDX-License-Identifier: Apache-2.0
// See pace.h.
#include "frontends/onnx/pace.h"

dt_status_t dt__onnx_go_on(dt_onnx_pace_t *pace, uint64_t work) {
  if (!pace || !pace->control)
    return NULL;
  pace->work += work;
  if (pace->work < DT_ONNX_WORK_A_LOOK)
    return NULL;
  pace->work = 0;
  return dt__control_check(pace->control);
}

// SPDX-License-Identifier: Apache-2.0
// A report as text, in one step.
#ifndef DT_TEST_SUPPORT_REPORT_AS_TEXT_H
#define DT_TEST_SUPPORT_REPORT_AS_TEXT_H

#include "ductile/explain.h"

// What dt_report_text says of `function` and, where there are any, `inputs`. *out is released with
// dt_text_free.
static inline dt_status_t report_as_text(dt_function_t *function, dt_tensor_t *const *inputs,
                                         uint32_t n_inputs, uint32_t parts, char **out) {
  dt_report_t *report = NULL;
  *out = NULL;
  dt_status_t status = dt_function_report(function, inputs, n_inputs, &report);
  if (!status)
    status = dt_report_text(report, parts, out);
  dt_report_free(report);
  return status;
}

#endif // DT_TEST_SUPPORT_REPORT_AS_TEXT_H

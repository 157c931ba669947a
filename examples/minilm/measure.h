// SPDX-License-Identifier: Apache-2.0
// How long calls take at one batch and length, and what the function and the process hold then.
#ifndef EXAMPLES_MINILM_MEASURE_H
#define EXAMPLES_MINILM_MEASURE_H

#include "ductile/ductile.h"

typedef struct measurement_t {
  int64_t batch, length;
  int repeats;            // of the calls after the first
  double first_ns;        // the first call ever made at these sizes
  double median_ns;       // of the repeats
  double guard_ns;        // finding the variant
  uint32_t variants;      // of the function, after these calls
  int64_t resident_bytes; // of the process, after these calls
} measurement_t;

// Nanoseconds of a clock that only goes forward.
double now_ns(void);
dt_status_t measure(dt_session_t *session, dt_function_t *function, dt_call_mode_t mode,
                    int64_t batch, int64_t length, measurement_t *out) DT_MUST_USE;

#endif // EXAMPLES_MINILM_MEASURE_H

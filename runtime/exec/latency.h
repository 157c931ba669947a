// SPDX-License-Identifier: Apache-2.0
// Histograms of how long calls take, while somebody wants them (dt_metrics_latency).
#ifndef DT_RUNTIME_EXEC_LATENCY_H
#define DT_RUNTIME_EXEC_LATENCY_H

#include "ductile/base.h"

#include <stdatomic.h>

// Bounds are 1, 2 and 5 times powers of ten, from 10 us to 10 s; one bucket more is for the rest.
#define DT_LATENCY_BOUNDS 19
extern const int64_t dt__latency_bounds_ns[DT_LATENCY_BOUNDS];

typedef struct dt_latency_t {
  _Atomic uint64_t calls[DT_LATENCY_BOUNDS + 1];
  _Atomic uint64_t ns; // of all
} dt_latency_t;

void dt__latency_note(dt_latency_t *latency, int64_t ns);

#endif // DT_RUNTIME_EXEC_LATENCY_H

// SPDX-License-Identifier: Apache-2.0
// What this machine does at most: operations and bytes a second, of all threads of a pool.
#ifndef DT_RUNTIME_EXEC_TIMING_RATES_H
#define DT_RUNTIME_EXEC_TIMING_RATES_H

#include "runtime/base/pool.h"

typedef struct dt_rates_t {
  double flops_per_s;        // f32 multiply and add; 0: there is no code to measure it
  double cache_bytes_per_s;  // read from the caches of cores
  double memory_bytes_per_s; // read from memory, and from caches that cores share
} dt_rates_t;

// Measures for some tenths of a second, beside whatever else runs. DT_E_NO_MEMORY.
dt_status_t dt__rates_measure(dt_pool_t *pool, dt_rates_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_TIMING_RATES_H

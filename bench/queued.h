// SPDX-License-Identifier: Apache-2.0
// The time of calls that a device makes one behind the other.
#ifndef BENCH_QUEUED_H
#define BENCH_QUEUED_H

#include "ductile/ductile.h"

enum { QUEUED_ROUNDS = 64 }; // at most

typedef struct queued_call_t {
  dt_session_t *session;
  dt_function_t *function;
  dt_tensor_t *const *inputs;
  dt_tensor_t **outputs; // all given: nothing is allocated
  uint32_t n_inputs, n_outputs;
} queued_call_t;

// Microseconds of one call, many queued behind each other: the median over `rounds` of 4 ms at
// least, after some that do not count. 0: a call failed, which stderr says.
double queued_us(const queued_call_t *call, long rounds);

#endif // BENCH_QUEUED_H

// SPDX-License-Identifier: Apache-2.0
// Programs of every kind that takes memory in a call, all of the same arguments: x[rows, 64] in f32
// and a number k in i64.
#ifndef DT_TESTS_UNIT_EXEC_HOST_PROGRAMS_H
#define DT_TESTS_UNIT_EXEC_HOST_PROGRAMS_H

#include "test/support/subjects.h"

enum { HOST_COLUMNS = 64, HOST_WEIGHTS = 5, HOST_PROGRAMS = 15, HOST_RESULTS = 4 };

// The closure of all of them.
typedef struct host_weights_t {
  dt_tensor_t *items[HOST_WEIGHTS];
} host_weights_t;
void host_weights_init(host_weights_t *weights, rng_t *rng);
void host_weights_fini(host_weights_t *weights);

extern const subject_t host_programs[HOST_PROGRAMS];
// The functions of users that some of them call, in each runtime that is to run them.
void host_ops_register(dt_runtime_t *runtime);

#endif // DT_TESTS_UNIT_EXEC_HOST_PROGRAMS_H

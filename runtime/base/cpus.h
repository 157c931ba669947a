// SPDX-License-Identifier: Apache-2.0
// Sets of CPUs that threads run on. A thread begins with its maker's.
#ifndef DT_RUNTIME_BASE_CPUS_H
#define DT_RUNTIME_BASE_CPUS_H

#include "ductile/base.h"

#include <sched.h>

typedef struct dt_cpus_t {
  cpu_set_t set;
  bool given; // false: whatever the thread has
} dt_cpus_t;

// Reads a list as Linux writes them, "0-3,8", behind which nodes may be named, "0-3,node:1,2". A
// node is its CPUs that the calling thread may run on, at least one. DT_E_ARGUMENT;
// DT_E_UNSUPPORTED: the system does not say which CPUs nodes have.
dt_status_t dt__cpus_read(const char *text, dt_cpus_t *out) DT_MUST_USE;
// The same where nodes are cut down to `allowed`, and every path begins with `root`: for tests.
dt_status_t dt__cpus_parse(const char *text, const char *root, const cpu_set_t *allowed,
                           dt_cpus_t *out) DT_MUST_USE;
// Moves the calling thread there; *before: where it was. DT_E_ARGUMENT names a CPU that it may not
// run on: then it stays. Nothing is done, and nothing to be undone, if `cpus` is not given.
dt_status_t dt__cpus_enter(const dt_cpus_t *cpus, dt_cpus_t *before) DT_MUST_USE;
void dt__cpus_leave(const dt_cpus_t *before);

#endif // DT_RUNTIME_BASE_CPUS_H

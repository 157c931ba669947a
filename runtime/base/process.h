// SPDX-License-Identifier: Apache-2.0
// What the system says about this process. [any]
#ifndef DT_RUNTIME_BASE_PROCESS_H
#define DT_RUNTIME_BASE_PROCESS_H

#include "ductile/base.h"

// Resident memory in bytes (0 when it cannot be read).
int64_t dt__resident_bytes(void);
// Threads that may run at once: cores that the process may run on, or fewer where its control
// groups give it less of their time. At least 1.
int dt__core_count(void);

// Processors' worth of time that the control groups of this process allow (cpu.max; in groups of
// version 1 cpu.cfs_quota_us), rounded up; 0: no limit, or none that can be read. Every path begins
// with `root`, which is "" but for tests.
int dt__cgroup_cores(const char *root);
// The whole small file at `path`, terminated, for dt__free; NULL: it cannot be read.
char *dt__process_read(const char *path);

#endif // DT_RUNTIME_BASE_PROCESS_H

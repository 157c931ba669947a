// SPDX-License-Identifier: Apache-2.0
// Limits that a worker process sets for itself, and its last words when it dies.
#ifndef DT_RUNTIME_COMPILE_WORKER_LIMITS_H
#define DT_RUNTIME_COMPILE_WORKER_LIMITS_H

#include "ductile/base.h"

// At the very beginning: signals as they are by default, no core files, standard error into memory,
// where last words are taken from, first to go when the machine runs out of memory.
void dt__worker_prepare(void);
// On the thread that works: faults and limits end in last words (DT_FRAME_DIED).
void dt__worker_catch_signals(void);
// Memory in MiB and processor time in seconds that one request may take. 0: no limit.
void dt__worker_limit(uint64_t mib, uint64_t seconds);
// None for a while: what the code generator itself takes is loaded.
void dt__worker_lift(void);
// A request begins, which ends the process after `budget_ns` of processor time (0: after the
// limit).
void dt__worker_budget_begin(int64_t budget_ns);
void dt__worker_budget_end(void);

#endif // DT_RUNTIME_COMPILE_WORKER_LIMITS_H

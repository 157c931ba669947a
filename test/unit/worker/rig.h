// SPDX-License-Identifier: Apache-2.0
// What the tests of workers share: a worker program under a name of the test's own, so that its
// processes can be told from those of other tests; functions by number; runtimes with workers.
#ifndef DT_TESTS_UNIT_WORKER_RIG_H
#define DT_TESTS_UNIT_WORKER_RIG_H

#include "test/support/fixture.h"

#include <sys/types.h>

// A folder with a link to `program`, by whose path its processes are known. `name` is the link's.
void worker_link(const char *program, const char *name, char path[256]);
void worker_unlink(const char *path);
// Processes that run under this path and have not ended. Returns how many; writes at most `cap`.
uint32_t worker_pids(const char *path, pid_t *out, uint32_t cap);
// Waits up to `seconds` until there are none; false: there are still some.
bool worker_none(const char *path, double seconds);
// Sets a variable for the runtimes to come.
void worker_variable(const char *name, long value);

// A runtime with workers of that program; NULL: without workers.
dt_status_t runtime_open(const char *path, uint32_t compile_threads, dt_runtime_t **out);
// Program number `seed`: other ops for other numbers. The larger `size`, the longer its compile.
dt_status_t function_make(dt_runtime_t *runtime, uint64_t seed, uint32_t size, dt_function_t **out);
// Compiles and calls it once; *out_sum is a hash of the result's bits.
dt_status_t function_run(dt_runtime_t *runtime, uint64_t seed, uint32_t size, uint64_t *out_sum);

double now_seconds(void);
void sleep_ms(long ms);

#endif // DT_TESTS_UNIT_WORKER_RIG_H

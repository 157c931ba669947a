// SPDX-License-Identifier: Apache-2.0
// Tells Linux perf of code made at run time, so that samples in it get names: function.variant.k5
// for a kernel, by the number of its code, function.variant.run_0 and others for host programs.
//
// /tmp/perf-PID.map has lines of address, size and name, and is read by `perf report`; it cannot
// say that code was unloaded. A jitdump has the code, too, and when it was there; `perf inject
// --jit` reads it. Both formats are documented with perf (tools/perf/Documentation).
#ifndef DT_RUNTIME_EXEC_PERF_H
#define DT_RUNTIME_EXEC_PERF_H

#include "runtime/compile/compile.h"

typedef struct dt_perf_t dt_perf_t;

// `what` lists "map" and "jitdump" by commas. *out is NULL where it lists nothing. DT_E_ARGUMENT,
// DT_E_IO (the jitdump in `folder`, or the map, cannot be written), DT_E_NO_MEMORY.
dt_status_t dt__perf_open(const char *what, const char *folder, dt_perf_t **out) DT_MUST_USE;
void dt__perf_close(dt_perf_t *perf); // NULL allowed; the files stay
// Code was loaded and may run from now on. What cannot be written is logged. [any]
void dt__perf_tell(dt_perf_t *perf, const char *function, uint32_t variant,
                   const dt_compiled_t *compiled);

// ---- The file format (jitdump-specification.txt), in the machine's byte order ---------------------
#define DT_JITDUMP_MAGIC 0x4A695444u
#define DT_JITDUMP_VERSION 1u
#define DT_JITDUMP_LOAD 0u // a record of code that was loaded

typedef struct dt_jitdump_head_t {
  uint32_t magic, version, bytes, machine, pad, pid;
  uint64_t ns, flags; // of CLOCK_MONOTONIC
} dt_jitdump_head_t;
_Static_assert(sizeof(dt_jitdump_head_t) == 40, "as the format has it");

// Followed by the name with its zero, and the code.
typedef struct dt_jitdump_load_t {
  uint32_t id, bytes; // of the whole record
  uint64_t ns;
  uint32_t pid, thread;
  uint64_t address, code_address, code_bytes, index;
} dt_jitdump_load_t;
_Static_assert(sizeof(dt_jitdump_load_t) == 56, "as the format has it");

#endif // DT_RUNTIME_EXEC_PERF_H

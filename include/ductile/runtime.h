// SPDX-License-Identifier: Apache-2.0
// The runtime: threads, budgets, modes, logs, and what it holds.
#ifndef DUCTILE_RUNTIME_H
#define DUCTILE_RUNTIME_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Runtime ------------------------------------------------------------------------------------

// Compile threads, the kernel thread pool, logs. A process may have several; objects of one must
// not be mixed with another's. Reference-counted; functions and sessions hold a reference.
typedef struct dt_runtime dt_runtime_t;

// Where machine code is made. A compiler that runs out of memory, crashes or hangs ends the process
// that it runs in.
typedef enum dt_isolation_t {
  DT_ISOLATION_DEFAULT = 0,    // what DUCTILE_ISOLATION says, else in this process
  DT_ISOLATION_IN_PROCESS = 1, // on compile threads of this process: the fastest
  // In processes of its own (docs/worker.md), limited in memory and time. What ends one of them
  // gives those calls that asked for the code DT_E_COMPILE or DT_E_NO_MEMORY; all others go on. It
  // is no sandbox.
  DT_ISOLATION_WORKER = 2,
} dt_isolation_t;

// Valid when zeroed.
typedef struct dt_runtime_options_t {
  uint32_t struct_size; // sizeof(dt_runtime_options_t); 0 is taken as the size of version 0.1
  uint32_t threads;     // that run kernels, callers included; 0: DUCTILE_THREADS, else one a core
                        // (of as many as the process's control groups allow, cpu.max)
  uint32_t compile_threads; // 0: DUCTILE_COMPILE_THREADS, else one a core, at most 8
  // Budgets of one compile, tracing included (docs/limits.md). Where one is used up, the call or
  // dt_function_prepare that asked for it gets DT_E_LIMIT naming the budget, how much was used and
  // where; the function goes on with the variants it has, and may be called again.
  uint32_t max_nodes;         // ops that a program records; 0: DUCTILE_MAX_NODES, else 50,000
  uint64_t max_compile_ns;    // nanoseconds of processor time, over all threads; 0:
                              // DUCTILE_COMPILE_SECONDS, else 600 s
  uint64_t max_compile_bytes; // of memory at any one time, LLVM's by estimate; 0:
                              // DUCTILE_COMPILE_MIB, else 4 GiB
  // What the runtime may hold of the host's memory, that can be made again (dt_runtime_stats):
  // traced graphs, code, packed constants, memory of sessions, the host's part of graphs.
  // Beyond it, what was used longest ago goes: variants, for the CPU or a device, which are
  // compiled again when a call needs them and count against no limit for it; graphs, which are
  // assembled again; and what idle sessions hold. Never what a call is in; what it left queued on a
  // device is done, and failed checks of it are told, as ever. 0: DUCTILE_MAX_MIB, else no limit.
  // Devices have a limit of their own, max_device_bytes.
  uint64_t max_bytes;
  dt_isolation_t isolation;
  const char *worker_path; // of the program ductile-worker, copied; NULL: DUCTILE_WORKER, else
                           // beside the library, else where it was installed
  // As max_bytes, of the memory of all its devices together: code, copies of constants and what is
  // packed of them, memory of sessions, graphs by estimate (which DUCTILE_GRAPH_MIB limits,
  // too). Results of plain calls, the caller's tensors and what the driver keeps are not counted.
  // 0: DUCTILE_MAX_DEVICE_MIB, else no limit.
  uint64_t max_device_bytes;
} dt_runtime_options_t;

// Reads DUCTILE_* variables once; those of logs and dumps are the process's, and hold for its other
// runtimes, too. `options` may be NULL. DT_E_ARGUMENT (an option or variable out
// of range), DT_E_NO_MEMORY, DT_E_UNSUPPORTED (also where the system lets this process make no
// code; the message says what it forbids), DT_E_FORKED. On failure *out is NULL. [any]
//
// Fork: a child that is forked while any runtime lives can release what it got, and gets
// DT_E_FORKED from all else, a runtime of its own included, since the threads stay with the parent;
// so fork first, or exec. A child that is forked before the first runtime is made, or after the
// last one is gone, has the library for itself, with the tensors and models that the parent had.
//
// The end of the process: it may end in any way at any time, with nothing released. exit, also by a
// return from main, waits until no thread is inside the code generator, which is a fraction of a
// second; what is compiled or called for the first time from then on gets DT_E_STATE. When the main
// thread has ended by pthread_exit, the runtimes' threads end with the last of the host's that made
// a runtime or a session.
DT_API dt_status_t dt_runtime_create(const dt_runtime_options_t *options,
                                     dt_runtime_t **out) DT_MUST_USE;
DT_API void dt_runtime_retain(dt_runtime_t *runtime); // [any]
// The last release waits for compiles under way and joins all threads. NULL allowed. [any]
DT_API void dt_runtime_release(dt_runtime_t *runtime);

// What the program ductile-worker does: makes code for the process that started it, and gives its
// exit status. A program of yours whose main returns this may be `worker_path`, where the library
// is linked into it rather than shared. Nothing else is to run in that process. [main thread]
DT_API int dt_worker_main(int argc, char **argv);

// Modes of a runtime: read by each call, and part of the guards of what was compiled under them.
typedef enum dt_mode_t {
  // 1: equal inputs give equal bits, whatever the threads. All code of this version does at any
  // setting, so it makes no variants.
  DT_MODE_DETERMINISTIC = 0,
  // 1: floats are summed and multiplied up as the plain loop does it that the op's definition is.
  // Each sum or product of many (of reductions and running sums, of matrix products, windows,
  // norms, softmax, updates that meet) begins at 0 or 1 and takes one element after another, in
  // row-major order of what is summed (from the end where a running sum says so), in f64 for f64
  // and in f32 for f32, f16 and bf16, whose results are rounded once at the end; each product is
  // rounded before it is added. No sum is made in parts, nothing is contracted, and elementary
  // functions are the same code everywhere. So no bit of a result depends on sizes beyond its own
  // sum, on threads, vectors, tiles, fusion, the CPU or the device; which NaN a NaN is may.
  // Slower, most of all for few long sums, and on devices. Functions with strict_fp are always so.
  // At first what DUCTILE_STRICT_FP says.
  DT_MODE_STRICT_FP = 1,
  // The most threads that work on one kernel, 0 to 65535; 0: all of the runtime's. Makes no
  // variants.
  DT_MODE_KERNEL_THREADS = 2,
} dt_mode_t;
// Holds from each session's next call on. DT_E_ARGUMENT (no such mode, a value out of range). [any]
DT_API dt_status_t dt_runtime_mode_set(dt_runtime_t *runtime, dt_mode_t mode,
                                       uint32_t value) DT_MUST_USE;
DT_API uint32_t dt_runtime_mode_get(const dt_runtime_t *runtime, dt_mode_t mode); // [any]

// ---- Statistics ---------------------------------------------------------------------------------

// What a runtime holds that its limits are about. Set struct_size before asking: nothing beyond it
// is written, and what a newer header has than the library is 0.
typedef struct dt_runtime_stats_t {
  uint32_t struct_size;
  uint64_t max_bytes; // the limit; 0: none
  // Held of the host's memory: graphs, code, packed constants, sessions, warm memory, and the
  // host's part of graphs, by estimate. What went and waits for work on a device is not in it.
  uint64_t bytes;
  uint64_t evicted_variants;     // that went for either limit's sake
  uint64_t evicted_bytes;        // of those, on the host
  uint64_t trims;                // times that an idle session's memory went
  uint64_t max_device_bytes;     // the limit; 0: none
  uint64_t device_bytes;         // the same of devices: code, constants, sessions, graphs
  uint64_t evicted_device_bytes; // of evicted variants, on devices
  uint64_t evicted_graphs;       // graphs that went, for DUCTILE_GRAPH_MIB's sake, too
} dt_runtime_stats_t;
// DT_E_ARGUMENT, DT_E_FORKED. [any]
DT_API dt_status_t dt_runtime_stats(dt_runtime_t *runtime, dt_runtime_stats_t *stats) DT_MUST_USE;

// ---- Logs ---------------------------------------------------------------------------------------

// Which channels log, as DUCTILE_LOG says it ("guards:2,recompiles", "" or NULL for none;
// docs/env.md has the channels), for all runtimes of the process, from now on. A runtime that is
// made later reads the variable again. DT_E_ARGUMENT names the channels there are; then nothing
// changes. [any]
DT_API dt_status_t dt_log_configure(const char *channels) DT_MUST_USE;
// Takes the lines that go to standard error else, of all runtimes of the process: one line at a
// time, `len` bytes with its line end, not terminated by a zero, from any thread. It must not call
// into the library, and must return soon.
typedef void (*dt_log_sink_t)(void *user, const char *line, size_t len);
// NULL: standard error again. When it returns, the sink that was there before runs no more. [any,
// not inside a sink]
DT_API void dt_log_sink_set(dt_log_sink_t write, void *user);

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_RUNTIME_H

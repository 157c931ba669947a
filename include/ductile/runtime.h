// SPDX-License-Identifier: Apache-2.0
// The runtime: threads, budgets, modes, logs, and statistics of the memory it holds.
#ifndef DUCTILE_RUNTIME_H
#define DUCTILE_RUNTIME_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Runtime ------------------------------------------------------------------------------------

// The root of all objects: it has the compile threads, the pool of kernel threads and the limits. A
// process may have several runtimes; objects of two runtimes must not be mixed. Reference-counted;
// functions and sessions hold a reference.
typedef struct dt_runtime dt_runtime_t;

// Where machine code is compiled. A compiler that runs out of memory, crashes or hangs ends the
// process that it runs in.
typedef enum dt_isolation_t {
  DT_ISOLATION_DEFAULT = 0,    // as DUCTILE_ISOLATION says, else in this process
  DT_ISOLATION_IN_PROCESS = 1, // on compile threads of this process: the fastest
  // In worker processes (docs/worker.md), limited in memory and time. If one ends, the calls that
  // asked it for code get DT_E_COMPILE or DT_E_NO_MEMORY; all others go on. It is no sandbox.
  DT_ISOLATION_WORKER = 2,
} dt_isolation_t;

// The host's own memory, for what calls make and work in: results on the CPU and tensors of
// dt_tensor_create_on, the blocks and scratch of sessions there, and what is computed from
// constants once, unless it lies in a mapped file (packages, kept code). Calls that compiled code
// answers take nothing elsewhere that grows with the sizes of tensors. Small things (objects,
// names, lists), code, what compiles, trials of variants and the evaluator work in,
// dt_tensor_create_empty, dt_host_alloc, and memory of devices are not taken from it. Both
// functions may be called from any thread at any time, and must not call into the library.
typedef struct dt_allocator_t {
  uint32_t struct_size; // sizeof(dt_allocator_t); 0 is taken as the size of version 0.1
  // At least `bytes` bytes (never 0) that begin at a multiple of `alignment`, a power of two up to
  // 64; NULL: there are none, and what asked for them gets DT_E_NO_MEMORY.
  void *(*take)(void *user, size_t bytes, size_t alignment);
  // What `take` gave, with the bytes that it was asked for. Tensors may give theirs back when the
  // runtime is long gone.
  void (*give)(void *user, void *memory, size_t bytes);
  void *user;
} dt_allocator_t;

// Part `part` of a kernel's grid.
typedef void (*dt_part_fn_t)(void *arg, uint32_t part);
// The host's own threads, to run kernels on. The runtime then starts no threads for kernels.
// Results have the bits that they have on its own, and as much scratch.
typedef struct dt_executor_t {
  uint32_t struct_size; // sizeof(dt_executor_t); 0 is taken as the size of version 0.1
  // Calls fn(arg, k) for each k below `n`, once each, on threads of the host's, the one that calls
  // this among them or not, and returns when all these calls have returned. No part waits for
  // another, so they may be run one after another. Later parts find less to do, and what the host
  // leaves out the caller does when this returns. It is called by any thread that is in a call or
  // makes a variant ready, by several at once, with n at most dt_runtime_options_t.threads; parts
  // of one must not wait for parts of another that have not begun. Parts do not call into the
  // library; `run` must not either.
  void (*run)(void *user, uint32_t n, dt_part_fn_t fn, void *arg);
  void *user;
} dt_executor_t;

// Valid when zeroed.
typedef struct dt_runtime_options_t {
  uint32_t struct_size; // sizeof(dt_runtime_options_t); 0 is taken as the size of version 0.1
  uint32_t threads;     // threads that run kernels, callers included; 0: DUCTILE_THREADS, else one
                        // per core (of as many as the process's control groups allow, cpu.max)
  uint32_t compile_threads; // 0: DUCTILE_COMPILE_THREADS, else one per core, at most 8
  // Budgets of one compile, tracing included (docs/limits.md). If a budget is used up, the call or
  // dt_function_prepare that asked for the compile gets DT_E_LIMIT, which names the budget, how
  // much was used and where. The function keeps its variants and may be called again.
  uint32_t max_nodes;         // ops that a program records; 0: DUCTILE_MAX_NODES, else 50,000
  uint64_t max_compile_ns;    // nanoseconds of processor time, over all threads; 0:
                              // DUCTILE_COMPILE_SECONDS, else 600 s
  uint64_t max_compile_bytes; // of memory at any one time, LLVM's by estimate; 0:
                              // DUCTILE_COMPILE_MIB, else 4 GiB
  // The most host memory that the runtime may hold in things that can be made again
  // (dt_runtime_stats): traced graphs, code, packed constants, memory of sessions, the host's part
  // of graphs. 0: DUCTILE_MAX_MIB, else no limit. max_device_bytes limits the memory of devices.
  //
  // Beyond the limit the runtime frees first what was used longest ago, but nothing that a call is
  // in. It may free:
  // - variants, for the CPU or a device; they are compiled again when a call needs them, which
  //   counts against no limit;
  // - graphs; they are assembled again;
  // - memory that idle sessions hold.
  //
  // Work that a call left queued on a device is still done, and its failed checks are still
  // reported.
  uint64_t max_bytes;
  dt_isolation_t isolation;
  const char *worker_path; // path of the program ductile-worker, copied; NULL: DUCTILE_WORKER, else
                           // beside the library, else where it was installed
  // As max_bytes, for the memory of all the runtime's devices together: code, copies of constants
  // and packed constants, memory of sessions, and graphs by estimate (DUCTILE_GRAPH_MIB limits
  // graphs, too). Not counted: results of plain calls, the caller's tensors and what the driver
  // keeps. 0: DUCTILE_MAX_DEVICE_MIB, else no limit.
  uint64_t max_device_bytes;
  const dt_allocator_t *allocator; // copied; NULL: the library's own memory
  const dt_executor_t *executor;   // copied; NULL: threads of the runtime's own
  // The CPUs of the runtime's threads, as Linux writes lists ("0-3,8"), copied; NULL: DUCTILE_CPUS,
  // else those of the thread that makes the runtime. Behind the CPUs, or alone, NUMA nodes may be
  // named: "node:1", "node:0,2", "0-3,node:1" (all numbers behind "node:" are of nodes). A node
  // stands for those of its CPUs that the thread that makes the runtime may run on. A CPU that it
  // may not run on, and a node that there is not or that has none of these CPUs, is DT_E_ARGUMENT;
  // DT_E_UNSUPPORTED if the system does not say which CPUs a node has. Where `threads` and
  // `compile_threads` are 0 they are counted among these. Threads of the host's stay where they
  // are, in calls as well. Memory is of the node of the thread that writes it first
  // (docs/serving.md).
  const char *cpus;
} dt_runtime_options_t;

// Makes a runtime. Reads the DUCTILE_* variables once. Those of logs and dumps belong to the
// process and apply to its other runtimes, too. `options` may be NULL. DT_E_ARGUMENT (an option or
// variable out of range), DT_E_NO_MEMORY, DT_E_UNSUPPORTED (also if the system does not let this
// process make code; the message says what it forbids), DT_E_FORKED. On failure *out is NULL. [any]
//
// Fork: the library's threads stay with the parent, so fork first, or exec in the child. A child
// forked while any runtime lives can only release the objects that it inherited; all else gives
// DT_E_FORKED, also making a runtime of its own. A child forked before the first runtime is made,
// or after the last one is gone, can use the library freely, with the parent's tensors and models.
//
// End of the process: it may end in any way at any time, with nothing released. exit, and a return
// from main, wait until no thread is inside the code generator, which takes a fraction of a second.
// A compile or a first call that begins after that gets DT_E_STATE. If the main thread has ended by
// pthread_exit, the runtimes' threads end with the last of the host's threads that made a runtime
// or a session.
DT_API dt_status_t dt_runtime_create(const dt_runtime_options_t *options,
                                     dt_runtime_t **out) DT_MUST_USE;
DT_API void dt_runtime_retain(dt_runtime_t *runtime); // [any]
// The last release waits for compiles under way and joins all threads. NULL allowed. [any]
DT_API void dt_runtime_release(dt_runtime_t *runtime);

// The program ductile-worker: compiles for the process that started it, and returns the exit
// status. If the library is linked into your program rather than shared, a program of yours whose
// main returns this may be the `worker_path`. Nothing else may run in that process. [main thread]
DT_API int dt_worker_main(int argc, char **argv);

// Modes of a runtime. Each call reads them, and they are part of the guards of what was compiled
// under them.
typedef enum dt_mode_t {
  // 1: equal inputs give equal bits, whatever the threads. In this version all code does so at any
  // setting, so the mode makes no variants.
  DT_MODE_DETERMINISTIC = 0,
  // 1: each sum or product of many floats is computed in order, as the plain loop of the op's
  // definition does it. This holds for reductions, running sums, matrix products, windows, norms,
  // softmax and updates of one place:
  // - It begins at 0 or 1 and takes one element after another, in row-major order of what is summed
  //   (from the end if a running sum says so).
  // - It is computed in f64 for f64, and in f32 for f32, f16 and bf16, whose results are rounded
  //   once at the end. Each product is rounded before it is added.
  // - No sum is made in parts, nothing is contracted (FMA), and elementary functions are the same
  //   code everywhere.
  //
  // So no bit of a result depends on sizes beyond its own sum, on threads, vectors, tiles, fusion,
  // the CPU or the device. The exception is which NaN a NaN is. The mode is slower, most of all for
  // a few long sums, and on devices. Functions with strict_fp always work like this. The initial
  // value is DUCTILE_STRICT_FP.
  DT_MODE_STRICT_FP = 1,
  // The most threads that work on one kernel, 0 to 65535; 0: all of the runtime's. The mode makes
  // no variants.
  DT_MODE_KERNEL_THREADS = 2,
} dt_mode_t;
// Sets a mode from each session's next call on. DT_E_ARGUMENT (no such mode, a value out of range).
// [any]
DT_API dt_status_t dt_runtime_mode_set(dt_runtime_t *runtime, dt_mode_t mode,
                                       uint32_t value) DT_MUST_USE;
DT_API uint32_t dt_runtime_mode_get(const dt_runtime_t *runtime, dt_mode_t mode); // [any]

// ---- Statistics ---------------------------------------------------------------------------------

// What a runtime holds of the memory that its limits count. Set struct_size before asking: nothing
// beyond it is written. Fields that a newer header has and this library does not are 0.
typedef struct dt_runtime_stats_t {
  uint32_t struct_size;
  uint64_t max_bytes; // the limit; 0: none
  // Host memory held: graphs, code, packed constants, sessions, warm memory, and the host's part of
  // graphs, by estimate. What was evicted and waits for work on a device is not counted.
  uint64_t bytes;
  uint64_t evicted_variants;     // evicted for either limit
  uint64_t evicted_bytes;        // their bytes on the host
  uint64_t trims;                // times that an idle session's memory was freed
  uint64_t max_device_bytes;     // the limit; 0: none
  uint64_t device_bytes;         // device memory held: code, constants, sessions, graphs
  uint64_t evicted_device_bytes; // bytes of evicted variants on devices
  uint64_t evicted_graphs;       // graphs evicted, for DUCTILE_GRAPH_MIB, too
  // Of `bytes`, by kind. What is computed from constants once (packed operands of matrix products,
  // weights that were decoded), held once however many variants and functions use it; and how much
  // more it would be if each variant had its own.
  uint64_t packed_bytes, shared_bytes;
  uint64_t program_bytes; // traced graphs and machine code
  uint64_t session_bytes; // what sessions keep for their next call
  uint64_t warm_bytes;    // made ready for sessions to come
  uint64_t code_bytes;    // machine code, of devices too
  // The data of constants, each once, which are not in `bytes`: in mapped files, of which pages
  // that only packing has read are let go; and others, in the library's memory or the caller's.
  uint64_t mapped_bytes, constant_bytes;
} dt_runtime_stats_t;
// DT_E_ARGUMENT, DT_E_FORKED, DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_runtime_stats(dt_runtime_t *runtime, dt_runtime_stats_t *stats) DT_MUST_USE;

// ---- Logs ---------------------------------------------------------------------------------------

// Sets which channels log, for all runtimes of the process, from now on. `channels` is written as
// in DUCTILE_LOG: "guards:2,recompiles"; "" or NULL for none; docs/env.md lists them. A runtime
// made later reads the variable again. DT_E_ARGUMENT names the channels that exist; then nothing
// has changed. [any]
DT_API dt_status_t dt_log_configure(const char *channels) DT_MUST_USE;
// Receives the log lines of all runtimes of the process, which otherwise go to standard error. One
// line at a time, from any thread: `len` bytes with the line end, not terminated by a zero. The
// sink must not call into the library, and must return soon.
typedef void (*dt_log_sink_t)(void *user, const char *line, size_t len);
// Sets the sink; NULL: standard error again. When this returns, the previous sink no longer runs.
// [any, not inside a sink]
DT_API void dt_log_sink_set(dt_log_sink_t write, void *user);

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_RUNTIME_H

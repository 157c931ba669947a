// SPDX-License-Identifier: Apache-2.0
// What may change or go in any version: counters that mirror how things are done today, measuring,
// help with faults. Not part of ductile.h; nothing here keeps a program from linking with the next
// version of what the other headers say.
#ifndef DUCTILE_EXPERIMENTAL_H
#define DUCTILE_EXPERIMENTAL_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Counters -----------------------------------------------------------------------------------

// Since the function was made. Set struct_size before asking: nothing beyond it is written.
typedef struct dt_function_counters_t {
  uint32_t struct_size;
  uint32_t variants; // published
  uint64_t compiles; // failed ones included, but those that a lack of memory, a deadline or a flag
                     // ended; not calls refused for arguments
  uint64_t calls;    // that returned an answer
  uint64_t misses;   // calls for which no variant's guards held
  uint64_t evaluator_calls; // answered by the reference evaluator
  uint64_t failed_calls;
  uint64_t compile_ns;     // spent in compiles, wall time
  uint64_t kernels;        // of the newest variant, launches a call
  uint64_t code_bytes;     // mapped, all variants
  uint64_t constant_bytes; // packed constants, all variants
  uint64_t promotions;     // sizes, integers and captures that became symbols by changing
  uint64_t limit_misses;   // misses beyond a limit, whatever was done about them
  uint64_t frozen_misses;  // misses refused because the function was frozen
  uint64_t sampled_calls;  // that the histogram of sizes has seen; misses are always seen
  uint64_t readbacks;      // times a call on a device waited for numbers that its sizes depend on
  uint64_t launches;       // that calls have queued on devices; empty work needs none
  uint64_t device_load_ns; // of compile_ns: machine code of devices, made or found on disk, loaded
  uint64_t graph_calls;    // that ran as graphs
  uint64_t graph_skips;    // that should have, and were launched kernel by kernel
  const char *graph_skip;  // why the last of these was; NULL: none
} dt_function_counters_t;
// DT_E_ARGUMENT, DT_E_FORKED. [any]
DT_API dt_status_t dt_function_counters(dt_function_t *function,
                                        dt_function_counters_t *counters) DT_MUST_USE;

// Since the session was made; zeros on the CPU. Set struct_size before asking: nothing beyond it is
// written.
typedef struct dt_session_counters_t {
  uint32_t struct_size;
  uint32_t path_length;      // graphs of this generation so far: one a call, or a chain
  uint64_t generation;       // from 1
  uint64_t graph_calls;      // that ran as graphs, whole, or in a graph's place (direct_calls)
  uint64_t graph_skips;      // that should have, and were launched kernel by kernel
  const char *graph_skip;    // why the last of these was; NULL: none
  uint64_t unchanged_calls;  // of their graphs: at sizes and addresses of the place's last call
  uint64_t builds;           // graphs assembled
  uint64_t build_ns;         // for all of them
  uint64_t nodes_set;        // kernels whose arguments were set for a call
  uint64_t grids_set;        // of these, whose grid was
  uint64_t functions_set;    // of these, whose code was
  uint64_t places;           // of the tree: calls that differ in what came before them
  uint64_t executables;      // graphs that the session holds
  uint64_t executable_nodes; // their kernels
  uint64_t executable_bytes; // estimated, on the device
  uint64_t pool_bytes;       // mapped for blocks and results; the most needed so far
  uint64_t scratch_bytes;    // mapped for scratch of kernels
  uint64_t growths;          // times that more was mapped
  uint64_t growth_ns;        // the longest of them
  uint64_t live_results;     // held by anybody, of this generation
  uint64_t live_bytes;
  uint64_t frozen_builds;  // while frozen: graphs not assembled
  uint64_t frozen_growths; // while frozen: times that more was mapped
  uint64_t staged_inputs;  // tensors on the host that calls copied to the device, graphs or not
  uint64_t staged_bytes;   // of their elements
  uint64_t staging_bytes;  // mapped for them
  uint64_t shared_set;     // of nodes_set: whose shared memory was
  // Of graph_calls: the kernels were launched one by one in the graph's place and memory. At sizes
  // that want other code of most kernels this is sooner done than to set the graph; the next call
  // of the same sizes sets it. DUCTILE_GRAPH_CODES says from how many on.
  uint64_t direct_calls;
} dt_session_counters_t;
// DT_E_ARGUMENT, DT_E_STATE (in a call), DT_E_FORKED. [external by session]
DT_API dt_status_t dt_session_counters(dt_session_t *session,
                                       dt_session_counters_t *counters) DT_MUST_USE;

// Bytes a session holds, whether it is in a call or not; 0 of NULL. [external by session]
DT_API uint64_t dt_session_bytes(const dt_session_t *session);

// ---- Measuring ----------------------------------------------------------------------------------

// Nanoseconds that finding the variant for `inputs` takes, the mean over `repeats` look-ups; the
// call itself is not made. DT_E_STATE when no variant covers them. [external by session]
DT_API dt_status_t dt_function_guard_ns(dt_session_t *session, dt_function_t *function,
                                        dt_tensor_t *const *inputs, uint32_t n_inputs,
                                        uint32_t repeats, double *out_ns) DT_MUST_USE;

// ---- Programs that read files -------------------------------------------------------------------

// Tells the failure so far as `to` where it is one of `from`; its message stays. A program that
// builds what a file of its user's says ends with it, so that a wrong argument of a builder
// (DT_E_ARGUMENT) is the file's (DT_E_FORMAT) and not the caller's. A `to` that is no failure's
// changes nothing. [external]
DT_API void dt_trace_recode(dt_trace_t *trace, dt_code_t from, dt_code_t to);

// ---- Faults -------------------------------------------------------------------------------------

// Writes into DUCTILE_REPRO_DIR what `ductile repro` needs to see a fault of this call again: the
// graph of the variant that takes `inputs`, their dtypes, sizes and strides (never their elements),
// integers' values, and what it was compiled for; constants' data where DUCTILE_REPRO_WEIGHTS says
// so. `why` is the fault in words. Compiles that fail inside the compiler (DT_E_COMPILE,
// DT_E_INTERNAL) write such a file by themselves. *out_path, the file's, is released with
// dt_text_free; NULL where the variable names no folder. DT_E_ARGUMENT, DT_E_STATE (no variant
// takes them), DT_E_IO, DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_function_repro(dt_function_t *function, dt_tensor_t *const *inputs,
                                     uint32_t n_inputs, const char *why,
                                     char **out_path) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_EXPERIMENTAL_H

// SPDX-License-Identifier: Apache-2.0
// Functions that may change or go in any version: counters that mirror the present implementation,
// measurements, help with faults. Not part of ductile.h. A program that uses only the other headers
// links with the next version, whatever changes here.
#ifndef DUCTILE_EXPERIMENTAL_H
#define DUCTILE_EXPERIMENTAL_H

#include "ductile/session.h"
#include "ductile/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Counters -----------------------------------------------------------------------------------

// Counts since the function was made. Set struct_size before asking: nothing beyond it is written.
typedef struct dt_function_counters_t {
  uint32_t struct_size;
  uint32_t variants; // published
  uint64_t compiles; // failed ones included. Not counted: compiles ended by lack of memory, a
                     // deadline or a flag, and calls refused for their arguments
  uint64_t calls;    // that returned an answer
  uint64_t misses;   // calls for which no variant's guards held
  uint64_t evaluator_calls; // answered by the reference evaluator
  uint64_t failed_calls;
  uint64_t compile_ns;     // spent in compiles, wall time
  uint64_t kernels;        // launches in one call of the newest variant
  uint64_t code_bytes;     // mapped, all variants
  uint64_t constant_bytes; // packed constants, all variants: those that several have, once
  uint64_t promotions;     // sizes, integers and captures that became symbols by changing
  uint64_t limit_misses;   // misses beyond a limit, whatever was done about them
  uint64_t frozen_misses;  // misses refused because the function was frozen
  uint64_t sampled_calls;  // calls that the histogram of sizes counted; it counts all misses
  uint64_t readbacks;      // times a call on a device waited for numbers that its sizes depend on
  uint64_t launches;       // kernel launches queued on devices; empty work needs none
  uint64_t device_load_ns; // part of compile_ns: device code made or found on disk, and loaded
  uint64_t graph_calls;    // that ran as graphs
  uint64_t graph_skips;    // that should have, and were launched kernel by kernel
  const char *graph_skip;  // why the last of these was; NULL: none
  uint64_t quick_variants; // whose kernels are in their quick form
  uint64_t bettered;       // variants whose kernels were replaced by their best form
} dt_function_counters_t;
// DT_E_ARGUMENT, DT_E_FORKED. [any]
DT_API dt_status_t dt_function_counters(dt_function_t *function,
                                        dt_function_counters_t *counters) DT_MUST_USE;

// Counts since the session was made; zeros on the CPU. Set struct_size before asking: nothing
// beyond it is written.
typedef struct dt_session_counters_t {
  uint32_t struct_size;
  uint32_t path_length;      // graphs of this generation so far: one per call, or a chain
  uint64_t generation;       // from 1
  uint64_t graph_calls;      // calls that ran as graphs, or in a graph's place (direct_calls)
  uint64_t graph_skips;      // that should have, and were launched kernel by kernel
  const char *graph_skip;    // why the last of these was; NULL: none
  uint64_t unchanged_calls;  // of their graphs: same sizes and addresses as the place's last call
  uint64_t builds;           // graphs assembled
  uint64_t build_ns;         // for all of them
  uint64_t nodes_set;        // kernels whose arguments were set for a call
  uint64_t grids_set;        // of these, kernels whose grid was set
  uint64_t functions_set;    // of these, kernels whose code was set
  uint64_t places;           // nodes of the tree: calls that differ in the calls before them
  uint64_t executables;      // graphs that the session holds
  uint64_t executable_nodes; // their kernels
  uint64_t executable_bytes; // estimated, on the device
  uint64_t pool_bytes;       // mapped for blocks and results; the most needed so far
  uint64_t scratch_bytes;    // mapped for scratch of kernels
  uint64_t growths;          // times that more was mapped
  uint64_t growth_ns;        // the longest of them
  uint64_t live_results;     // results of this generation that somebody holds
  uint64_t live_bytes;
  uint64_t frozen_builds;  // graphs not assembled while frozen
  uint64_t frozen_growths; // times that more was mapped while frozen
  uint64_t staged_inputs;  // host tensors that calls copied to the device, as graphs or not
  uint64_t staged_bytes;   // of their elements
  uint64_t staging_bytes;  // mapped for them
  uint64_t shared_set;     // part of nodes_set: kernels whose shared memory was set
  // Part of graph_calls: the kernels were launched one by one in the graph's place and memory. If
  // new sizes need other code for most kernels, this is faster than setting the graph. The next
  // call of the same sizes sets the graph. DUCTILE_GRAPH_CODES says from how many kernels on.
  uint64_t direct_calls;
} dt_session_counters_t;
// DT_E_ARGUMENT, DT_E_STATE (in a call), DT_E_FORKED. [external by session]
DT_API dt_status_t dt_session_counters(dt_session_t *session,
                                       dt_session_counters_t *counters) DT_MUST_USE;

// The bytes that a session holds, whether or not it is in a call; 0 for NULL. [external by session]
DT_API uint64_t dt_session_bytes(const dt_session_t *session);

// ---- Measuring ----------------------------------------------------------------------------------

// Measures how long finding the variant for `inputs` takes: nanoseconds, the mean over `repeats`
// look-ups. The call itself is not made. DT_E_STATE when no variant covers the inputs. [external by
// session]
DT_API dt_status_t dt_function_guard_ns(dt_session_t *session, dt_function_t *function,
                                        dt_tensor_t *const *inputs, uint32_t n_inputs,
                                        uint32_t repeats, double *out_ns) DT_MUST_USE;

// ---- Values by their elements -------------------------------------------------------------------

// A value given by what one element of it is, over the indices of its dims: in programs, passes,
// lowerings and decompositions of ops. The library makes one loop of it, which is fused with what
// stands around it.
//
// Elements are values for which all element-wise builders can be used: dt_add, dt_where, dt_cast
// and others; dt_scalar and dt_size_value give the same one at all indices. Whole tensors are read
// by dt_loop_load alone. A loop and its elements end when dt_loop returns, and what a fold makes
// ends with it, but for its result. Nothing tells where a program uses a tensor, or an element of
// another loop or fold, in an element's place and its sizes fit: the result is then another one.
typedef struct dt_loop dt_loop_t;
// One element, at all indices: the body runs once.
typedef dt_value_t (*dt_loop_fn_t)(dt_loop_t *loop, void *closure);
// A value of these sizes. DT_E_ARGUMENT, DT_E_LIMIT (with its folds it has more than DT_MAX_RANK
// dims). [external by trace]
DT_API dt_value_t dt_loop(dt_trace_t *trace, uint32_t rank, const dt_sym_t *sizes,
                          dt_loop_fn_t body, void *closure);
// The trace, for element-wise builders. [external by trace]
DT_API dt_trace_t *dt_loop_trace(const dt_loop_t *loop);
// The index along dim `axis` of the loop, i64, from 0 on. [external by trace]
DT_API dt_value_t dt_loop_index(dt_loop_t *loop, uint32_t axis);
// The element of x at these indices, one a dim, i32 or i64. Indices that dt_loop_index or a fold
// gave, each of another dim, are known to be inside where sizes say so, and are strides then.
// Others are computed and checked: one that is not from 0 to the size less 1 ends the call with
// DT_E_RANGE.
// [external by trace]
DT_API dt_value_t dt_loop_load(dt_loop_t *loop, dt_value_t x, uint32_t n_indices,
                               const dt_value_t *indices);
// The same, but where an index is outside the element is `outside`, of x's dtype. A call in which x
// has no elements, and the loop has, ends with DT_E_RANGE. [external by trace]
DT_API dt_value_t dt_loop_load_or(dt_loop_t *loop, dt_value_t x, uint32_t n_indices,
                                  const dt_value_t *indices, dt_value_t outside);
// How a fold joins elements: as dt_sum, dt_prod, dt_amax, dt_amin, dt_any and dt_all do.
typedef enum dt_loop_fold_t {
  DT_LOOP_SUM = 1,
  DT_LOOP_PROD = 2,
  DT_LOOP_MAX = 3,
  DT_LOOP_MIN = 4,
  DT_LOOP_ANY = 5,
  DT_LOOP_ALL = 6,
} dt_loop_fold_t;
// What is joined, at `index` (i64, from 0 on).
typedef dt_value_t (*dt_loop_term_fn_t)(dt_loop_t *loop, dt_value_t index, void *closure);
// The fold of `term` over `extent` indices; folds may stand in folds. [external by trace]
DT_API dt_value_t dt_loop_reduce(dt_loop_t *loop, dt_loop_fold_t fold, dt_sym_t extent,
                                 dt_loop_term_fn_t term, void *closure);
#ifndef DT_NO_SOURCE_LINES
#define dt_loop(trace, ...) (dt_loop)(DT_AT(trace), __VA_ARGS__)
#endif

// ---- Programs that read files -------------------------------------------------------------------

// If the trace has failed with code `from`, changes the code to `to` and keeps the message. If `to`
// is no failure's code, nothing changes. A program that builds what a user's file describes calls
// this at its end: a builder's wrong argument (DT_E_ARGUMENT) is then the file's fault
// (DT_E_FORMAT) and not the caller's. [external]
DT_API void dt_trace_recode(dt_trace_t *trace, dt_code_t from, dt_code_t to);

// ---- Faults -------------------------------------------------------------------------------------

// Writes a file into DUCTILE_REPRO_DIR with which `ductile repro` repeats a fault of this call. It
// holds the graph of the variant that accepts `inputs`, the inputs' dtypes, sizes and strides
// (never their elements), the values of integers, and the target it was compiled for. It holds the
// constants' data if DUCTILE_REPRO_WEIGHTS says so. `why` is the fault in words. Compiles that fail
// inside the compiler (DT_E_COMPILE, DT_E_INTERNAL) write such a file without being asked.
// *out_path is the file's path, released with dt_text_free; NULL if the variable names no folder.
// DT_E_ARGUMENT, DT_E_STATE (no variant accepts the inputs), DT_E_IO, DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_function_repro(dt_function_t *function, dt_tensor_t *const *inputs,
                                     uint32_t n_inputs, const char *why,
                                     char **out_path) DT_MUST_USE;

// ---- The folder of compiled code ----------------------------------------------------------------

// Of an entry of DUCTILE_CACHE_DIR, which other processes add to and take from meanwhile. What it
// points to ends with the visit.
typedef struct dt_cache_entry_t {
  const char *name; // of its file
  const char *kind; // "variant": all code of one; "cubin": code of a device, and nothing else;
                    // "tuned": what tuning found; "form": what is computed from weights alone
  const char *of;   // the library's version and build, and what the code is for; "" if damaged
  uint64_t bytes;   // of the file
  int64_t used_ns;  // when it was found or written last: nanoseconds of CLOCK_REALTIME
  bool sound;       // its sums are right; others are never used
} dt_cache_entry_t;
typedef void (*dt_cache_visit_fn_t)(void *closure, const dt_cache_entry_t *entry);

// Reads each entry and hands it to `visit`, those that were not used for the longest time first.
// `folder` NULL: the one that a runtime would use. DT_E_STATE: it would keep nothing. DT_E_IO: the
// folder cannot be used, and why. [any]
DT_API dt_status_t dt_cache_visit(const char *folder, dt_cache_visit_fn_t visit,
                                  void *closure) DT_MUST_USE;
// Removes damaged entries, files of processes that died, and what was not used for the longest time
// until at most `most_bytes` are left. *out_bytes, which may be NULL, is what went. Statuses as
// above. [any]
DT_API dt_status_t dt_cache_clean(const char *folder, uint64_t most_bytes,
                                  uint64_t *out_bytes) DT_MUST_USE;
// Removes all entries of a kind, as dt_cache_entry_t names it, and nothing else: "tuned", what
// tuning found, so that processes from then on compile as usual. Statuses as above, and
// DT_E_ARGUMENT. [any]
DT_API dt_status_t dt_cache_drop(const char *folder, const char *kind,
                                 uint64_t *out_bytes) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_EXPERIMENTAL_H

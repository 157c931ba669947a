// SPDX-License-Identifier: Apache-2.0
// From a frozen graph to code that can be called: the pipeline's stages (pipeline.c, one array: the
// file to read first), the compile threads and the assembled result.
#ifndef DT_RUNTIME_COMPILE_COMPILE_H
#define DT_RUNTIME_COMPILE_COMPILE_H

#include "backend_llvm/load/native.h"
#include "fuse/edges.h"
#include "fuse/target.h"
#include "runtime/compile/choices.h"
#include "runtime/compile/once.h"
#include "runtime/trace/trace.h"

// How code for a kind of device is made and loaded (codegen.h).
typedef struct dt_codegen_t dt_codegen_t;

// Threads that run compile work with 8 MiB stacks; the only threads LLVM runs on.
typedef struct dt_compiler dt_compiler_t;

typedef struct dt_compiler_options_t {
  uint32_t threads;    // compile threads, at least 1
  uint32_t helpers;    // of the thread in the background (jobs.h)
  bool early;          // cores are left to make the best form beside the quick one
  uint32_t pool_width; // of the kernel pool: for the target description
  const char *cpu;     // the level of features that code may use, "" for all that the host has
  const char *jit;     // the code generator's file, "" for where it is looked for; copied
  bool verify;         // verify graph and loops after every stage
  const char *without; // stages that are left out (dt__pipeline_without)
  bool fast_conv;      // dt_target_t.fast_conv
  const struct dt_workers_options_t *workers; // where code is made: worker.h; NULL: in this process
  const char *cache_dir; // where code for the CPU is kept (disk_cache.h); NULL, "": nowhere
  uint64_t cache_bytes;  // the most that is kept there
  int64_t cache_wait_ns; // the most that another process is waited for, on any device
  uint32_t tuned;        // DUCTILE_TUNED
} dt_compiler_options_t;

dt_status_t dt__compiler_create(const dt_compiler_options_t *options,
                                dt_compiler_t **out) DT_MUST_USE;
void dt__compiler_destroy(dt_compiler_t *compiler); // waits for running jobs; NULL allowed
// Its threads, for other work, and what they compile for. Borrowed.
struct dt_jobs *dt__compiler_jobs(dt_compiler_t *compiler);
struct dt_disk_cache_t *dt__compiler_cache(const dt_compiler_t *compiler); // NULL: none
struct dt_workers *dt__compiler_workers(const dt_compiler_t *compiler);
const dt_target_t *dt__compiler_target(const dt_compiler_t *compiler);
// What code that is carried to others is made for: a machine in general that is a CPU of that name.
// On a compile thread.
dt_status_t dt__compiler_level(const dt_compiler_t *compiler, const char *cpu,
                               dt_target_t *out) DT_MUST_USE;
bool dt__compiler_verifies(const dt_compiler_t *compiler);
const char *dt__compiler_jit(const dt_compiler_t *compiler);
// Whether there is a code generator. Where its file is found it is not opened; on any thread but a
// compile thread.
bool dt__compiler_has_codegen(dt_compiler_t *compiler);

// A part of a call: planned, then run. A call has several where it reads numbers from its own data.
typedef struct dt_compiled_segment_t {
  dt_host_plan_fn_t plan;
  dt_host_run_fn_t run;
  // On a device, where the segment begins by reading numbers: writes their device addresses to the
  // frame's readback_addresses, before plan. Else NULL.
  dt_host_run_fn_t readbacks;
} dt_compiled_segment_t;

// A number that a call reads from its data.
typedef struct dt_compiled_readback_t {
  const char *text; // "item of lengths (model.c:41)"; owned
  uint32_t symbol;  // where a frame's symbols have it
  dt_range_t range; // inclusive; a call with another value ends
} dt_compiled_readback_t;

// What is told when a check of data fails (dt_check_t).
typedef struct dt_compiled_check_t {
  const char *text;  // "gather: index of ids (model.c:41)"; owned
  uint32_t readback; // 1 + the readback that is checked, or 0: an index
  dt_code_t code;    // of an assert on it; OK: its range is checked
} dt_compiled_check_t;

// Code of one variant, immutable. Sizes in bytes. Without a code generator none can be made
// (DT_E_UNSUPPORTED).
typedef struct dt_compiled_t {
  dt_native_t **units;
  uint32_t n_units;
  // By code index. For devices, whose launch callback takes entries for what they are, they point
  // into `device_code`. An entry may be replaced by better code while calls run (exec/swap.c).
  dt_kernel_fn_t *kernels;
  uint32_t n_kernels;
  // Kernels are as quickly made; the same compile without haste has them at their best, and is
  // `early` where that is not NULL.
  bool quick;
  struct dt_early_t *early;        // (early.h); taken out once, guarded by whoever has this
  dt_choices_t choices;            // by which it was compiled
  struct dt_tuned_t *tuned;        // why (tuned.h); NULL: nothing was measured. Owned
  dt_compiled_segment_t *segments; // in order; at least one
  uint32_t n_segments;
  struct dt_externals_t *externals; // calls of users' ops (external.h); NULL: there are none
  const dt_external_entry_t *const *external_table; // of these, for frames
  uint32_t *output_segments; // by output: the segment whose plan knows its sizes
  // By output: 1 + the donated argument in whose memory it may lie (fuse/donate.h), or 0; and
  // whether the call runs nothing for it where it has no address (dt__kernel_copies_result).
  uint32_t *donations, *copies;
  dt_host_run_fn_t once;
  // After the last segment's run: kernels that update arguments, which cannot fail. On the CPU only
  // where the record says of no failure; on a device they are behind a gate. NULL: there are none.
  dt_host_run_fn_t commit;
  dt_compiled_readback_t *readbacks;
  uint32_t n_readbacks;
  int64_t once_bytes, once_scratch_bytes;
  dt_once_plan_t once_plan;
  uint32_t n_launches; // of a call: kernels, and chains of them
  dt_edge_t *edges;    // of a device's launches, where they are no chain; else NULL
  uint32_t n_edges;
  uint32_t n_regions;      // of kernels that data decides about
  uint32_t n_others;       // of these: elses, and cases of a switch
  uint32_t n_loops;        // of these: whiles
  uint32_t n_symbols;      // length of a frame's symbol array
  uint32_t n_output_sizes; // length of a frame's output_sizes
  // On a device: NULL where the host reads no numbers (readbacks are then what checks tell of),
  // else why it does; owned.
  const char *segments_reason;
  uint32_t n_checks;
  dt_compiled_check_t *checks;
  const char **assert_texts; // of the graph's asserts; owned
  dt_code_t *assert_codes;   // what a call that fails them gets
  uint32_t n_asserts;
  uint64_t code_bytes;         // all
  uint64_t device_code_bytes;  // of these, in a device's memory
  uint64_t device_load_ns;     // what loading it there took
  const dt_codegen_t *codegen; // whose kernels these are; NULL: the CPU's
  void *device_code;           // its own; NULL: there is none, or it was unloaded
} dt_compiled_t;

// All of a segment, for devices: nothing of it runs before it is queued.
static inline void dt__compiled_queue(const dt_compiled_t *compiled, uint32_t segment,
                                      dt_frame_t *frame) {
  compiled->segments[segment].run(frame);
  if (!compiled->commit || segment + 1 != compiled->n_segments)
    return;
  struct dt_control_t *control = frame->control;
  frame->control = NULL; // nothing ends the call between two of these
  compiled->commit(frame);
  frame->control = control;
}

// Which form of kernels will do. What is made says which it is (dt_compiled_t.quick).
typedef enum dt_haste_t { // DUCTILE_QUICK's numbers
  DT_HASTE_NONE,          // the best
  DT_HASTE_SOME,          // the quick one, if that spares much
  DT_HASTE_ALL,           // the quick one
  DT_HASTE_EARLY,         // the quick one, and the best is begun beside it
} dt_haste_t;

typedef struct dt_compile_request_t {
  const dt_traced_t *traced; // only read
  const char *name;          // with `variant`, for logs and dumps
  uint32_t variant;
  bool strict_fp;
  const dt_codegen_t *codegen; // of the device to compile for; NULL: the CPU
  void *device;                // as it knows it
  dt_haste_t haste;
  bool
      beside_calls; // nobody waits for it, and callers need the cores: a quarter of the threads, or
                    // the thread in the background with its helpers, if that asks
  bool claimed;     // somebody else has the right to keep it for this compile (disk_cache.h)
  // Of CPUs: `choices` are how it is compiled. Else what tuning found before is looked for, and 0
  // of it is what is not found, or not to be used.
  bool chosen;
  dt_choices_t choices;
  const struct dt_tuned_t *tuned; // of entries for levels: why they have the choices; or NULL
  // What it may take, and who may stop it (runtime/base/watch.h): looked at between stages, between
  // units, and in arenas. NULL: no limits. Outlives the compile.
  struct dt_watch_t *watch;
} dt_compile_request_t;

// Runs every stage on the compile threads and waits. The trace, the name and the device stay as
// long as what is made. DT_E_LIMIT where a budget is used up, or the
// code that its watch was stopped with.
dt_status_t dt__compile(dt_compiler_t *compiler, const dt_compile_request_t *request,
                        dt_compiled_t **out) DT_MUST_USE;
// Keeps on disk what tuning found for such compiles, whatever the request chooses: those of this
// process and of others take it from then on. False: nothing is kept. Not on a compile thread.
bool dt__compile_keep_tuned(dt_compiler_t *compiler, const dt_compile_request_t *request,
                            const struct dt_tuned_t *tuned);
// Says by a number which loops `request` makes by its choices, without code: the same for the same
// loops. Not on a compile thread.
dt_status_t dt__compile_loops(dt_compiler_t *compiler, const dt_compile_request_t *request,
                              uint64_t *out) DT_MUST_USE;
// The same for machines of a level, as an entry (artifact.h) and the bytes of its linked code:
// nothing in them depends on this machine, on its devices or on how many threads compile. The
// request names no device. `compiled` is what was compiled: its code may be none that runs here,
// and a device's is not loaded. All is the caller's, also on failure (dt__entry_fini).
typedef struct dt_level_t dt_level_t; // (level.h)
typedef struct dt_entry_t {
  dt_text_t text;
  void *code;
  size_t code_bytes;
  dt_compiled_t *compiled;
} dt_entry_t;
dt_status_t dt__compile_entry(dt_compiler_t *compiler, const dt_compile_request_t *request,
                              const dt_level_t *level, dt_entry_t *out) DT_MUST_USE;
void dt__entry_fini(dt_entry_t *entry);
// The same programs in code for this machine: what they compute of constants is equal bit by bit.
dt_status_t dt__compile_here(dt_compiler_t *compiler, const dt_compile_request_t *request,
                             const dt_level_t *level, dt_compiled_t **out) DT_MUST_USE;
// Such an entry, and its code, which is mapped where that is in an open file.
typedef struct dt_code_bytes_t {
  const void *data;
  size_t bytes;
  int fd; // -1: it is copied
  uint64_t offset;
} dt_code_bytes_t;
typedef struct dt_entry_source_t {
  const void *data;
  size_t bytes;
  dt_code_bytes_t code;
  const dt_codegen_t *codegen; // of the device that it is for; NULL: the CPU
  void *device;                // that loads it, as it knows it
  bool bare;                   // nothing is loaded on a device; for tests
} dt_entry_source_t;
// Loads an entry of what `traced` is. Not on a compile thread. DT_E_FORMAT.
dt_status_t dt__compiled_read(dt_compiler_t *compiler, const dt_traced_t *traced,
                              const dt_entry_source_t *source, dt_compiled_t **out) DT_MUST_USE;
// Unloads what is in a device's memory, if there is any: its launches have ended.
void dt__compiled_unload(dt_compiled_t *compiled);
// NULL allowed; no code of it may be running, and none is in a device's memory any more.
void dt__compiled_destroy(dt_compiled_t *compiled);

typedef struct dt_stage_view_t {
  const char *stage;
  const char *dump;                 // DUCTILE_DUMP's name for this stage: "graph", "fused", "loops"
  uint32_t order;                   // 0 is the input graph
  int64_t ns;                       // that the stage took, verification not counted
  const dt_graph_t *graph;          // graph stages, else NULL
  const struct dt_program *program; // loop stages, else NULL
} dt_stage_view_t;
typedef void (*dt_stage_observer_t)(void *user, const dt_stage_view_t *view);
// `target` is required; the rest is valid when zeroed.
typedef struct dt_pipeline_request_t {
  const dt_target_t *target;
  const char *until;           // the last stage: "graph", "decompose", …, "plan"; NULL: "plan"
  bool verify;                 // graph and loops after every stage
  struct dt_hooks_t *hooks;    // passes of users; NULL: none
  dt_stage_observer_t observe; // sees what each stage made; NULL: nobody does
  void *user;                  // for `observe`
} dt_pipeline_request_t;
// The stages up to loop IR with memory plan, on the calling thread. *out is the program, NULL if a
// graph stage was the last. `graph` is only read. Its symbols must have the same ids in `env`,
// which is frozen and receives the facts that stages learn.
dt_status_t dt__pipeline_run(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph,
                             const dt_pipeline_request_t *request,
                             struct dt_program **out) DT_MUST_USE;
// Why the pipeline, or a new variant's guards, refused what was traced. They find faults of ours
// where a program's own conditions contradict each other, too: then it is DT_E_SHAPE, naming the
// last of them. Where data decide sizes that may be so without being found, which the message then
// says. All else stays as it is. Takes and returns the status.
dt_status_t dt__pipeline_explain(const dt_traced_t *traced, dt_status_t status) DT_MUST_USE;
// Names of the stages in order, NULL-terminated.
const char *const *dt__pipeline_stages(void);
// The stages that every program is right without, and those of them that a list such as
// "cse,inline" names (NULL and "": none), as dt_target_t.left_out has them. DT_E_ARGUMENT for what
// is none.
uint64_t dt__pipeline_optional(void);
dt_status_t dt__pipeline_without(const char *list, uint64_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_COMPILE_H

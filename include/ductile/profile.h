// SPDX-License-Identifier: Apache-2.0
// Where the time of calls goes: by kernel, and by what the library does around kernels. A profile
// is started and ended while other threads call. docs/profile.md shows how to read one.
#ifndef DUCTILE_PROFILE_H
#define DUCTILE_PROFILE_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Profiles -----------------------------------------------------------------------------------

// What all calls of a runtime did between its start and its stop. While none runs, a call costs
// what it costs without profiles. While one runs, each kernel is stamped twice by the calling
// thread, and each thread that takes part in a kernel stamps its share.
typedef struct dt_profile dt_profile_t;

// Calls that run as graphs of a device stay so, and each graph is timed as one. Without it their
// kernels are launched one by one, and are timed each.
#define DT_PROFILE_WHOLE_GRAPHS UINT64_C(1)

// Valid when zeroed.
typedef struct dt_profile_options_t {
  uint32_t struct_size; // sizeof(dt_profile_options_t); 0 is taken as the size of version 0.1
  uint32_t most_events; // of the timeline (DT_PROFILE_TRACE), newer ones in place of older ones; at
                        // most 16 Mi; 0: 65536. Each takes 40 bytes
  uint64_t flags;       // DT_PROFILE_* joined by or
} dt_profile_options_t;
// Starts a profile of all calls that begin from now on, in any session. It keeps the runtime, and
// the functions and variants that it sees: what is evicted or released meanwhile gives back no
// memory before dt_profile_free. `options` may be NULL. *out is the caller's; NULL on failure.
// DT_E_ARGUMENT, DT_E_STATE (the runtime has a profile that runs), DT_E_NO_MEMORY, DT_E_FORKED.
// [any]
DT_API dt_status_t dt_profile_start(dt_runtime_t *runtime, const dt_profile_options_t *options,
                                    dt_profile_t **out) DT_MUST_USE;
// Calls that begin later are not recorded; those under way are, when they end. Stopping again does
// nothing. DT_E_ARGUMENT, DT_E_FORKED. [any]
DT_API dt_status_t dt_profile_stop(dt_profile_t *profile) DT_MUST_USE;
// Stops it, and frees it as soon as no call records into it. NULL allowed. [any, each profile once]
DT_API void dt_profile_free(dt_profile_t *profile);

// ---- Reports ------------------------------------------------------------------------------------

// What a call's time is spent on, as its thread sees it. Each moment of a call belongs to one.
typedef enum dt_profile_part_t {
  DT_PROFILE_ARGUMENTS = 0,  // arguments are checked, a device is entered
  DT_PROFILE_GUARDS = 1,     // a variant is looked for
  DT_PROFILE_COMPILE = 2,    // one is made, or waited for
  DT_PROFILE_PLAN = 3,       // sizes are computed and checked
  DT_PROFILE_MEMORY = 4,     // memory is leased, results are made
  DT_PROFILE_HOST = 5,       // between kernels: addresses and sizes of the next one
  DT_PROFILE_KERNELS = 6,    // kernels run; on a device: they, graphs and copies are queued
  DT_PROFILE_WAIT = 7,       // numbers of a device are waited for
  DT_PROFILE_EVALUATOR = 8,  // the reference evaluator answers
  DT_PROFILE_FINISH = 9,     // results are handed over
  DT_PROFILE_RECORDING = 10, // the profile adds up what it noted
} dt_profile_part_t;
#define DT_PROFILE_PARTS 11
// "guards"; static storage. [any]
DT_API const char *dt_profile_part_name(dt_profile_part_t part);

// In the structs below texts are never NULL. Programs get each struct by pointer, so later versions
// may add fields at its end. Times are nanoseconds.

// An op of the program that a kernel computes, or a part of one.
typedef struct dt_profile_source_t {
  const char *op;   // "softmax"
  const char *file; // of the program, or the node of a model; "" if unknown
  int line;
} dt_profile_source_t;

// A launch in the program of a variant. Launches that one place of the host program makes are one
// of these: those of a loop, and those of the calls of one subgraph.
typedef struct dt_profile_kernel_t {
  const char *name;  // "matmul_add_gelu"
  uint32_t code;     // which code of the variant, as DUCTILE_LOG=exec:2 has it; UINT32_MAX: a
                     // user's kernel
  bool packs;        // it only brings operands into the order that a product wants
  uint64_t launches; // that were timed
  uint64_t total_ns, min_ns, max_ns; // on a device: in its own time
  // In launches that several threads share: what they worked, added up, and what the calling thread
  // waited for the others.
  uint64_t busy_ns, wait_ns;
  double share; // total_ns over the time of the variant's calls, compiles left out; on a device:
                // over device_ns
  // Of those launches whose sizes are known: bytes that it must read and write, each once, and
  // operations; 0 if the kernel's parts are unknown. And the time that they take at least, by the
  // rates of this machine.
  uint64_t sized_launches;
  double bytes, flops, floor_ns;
  uint32_t n_sources; // 0: unknown
  const dt_profile_source_t *const *sources;
  uint32_t n_reads; // kernels of this variant that make what it reads
  const uint32_t *reads;
} dt_profile_kernel_t;

// Copies between the host and a device.
typedef struct dt_profile_copies_t {
  uint64_t copies, bytes, total_ns;
} dt_profile_copies_t;

// A variant, and all calls that it answered.
typedef struct dt_profile_variant_t {
  const char *function;
  uint32_t number;
  dt_device_t device;
  int32_t ordinal;
  uint64_t calls;
  uint64_t total_ns, min_ns, max_ns; // of calls, from the call's beginning to its return
  uint64_t parts_ns[DT_PROFILE_PARTS];
  uint64_t shapes; // calls of different sizes, counted up to 512
  uint32_t n_kernels;
  const dt_profile_kernel_t *const *kernels; // in the order of the program
  const char *unknown; // why kernels have no sources, bytes and operations; "" where they have
  // Of a device that queues its calls; 0 elsewhere. Times are what passes on the device between two
  // of its events.
  uint64_t device_calls; // that had work there which was timed
  uint64_t device_ns;    // from the first piece of a call's work to the end of its last one
  uint64_t kernels_ns;   // of that: kernels and graphs
  uint64_t idle_ns;      // of that: between pieces, while the host prepares the next one
  uint64_t behind_ns;    // before that: from when a call's first piece was queued to its beginning
  dt_profile_copies_t to_device, from_device; // inputs on the host; numbers that the host reads
  uint64_t split_graphs;     // graphs that were launched kernel by kernel for the profile
  uint64_t untimed;          // pieces without a time: in a capture, or where events failed
  double memory_bytes_per_s; // of the device, by its clock and its width; 0: not known
} dt_profile_variant_t;

// The whole profile up to one moment.
typedef struct dt_profile_report_t {
  uint64_t wall_ns; // since its start, or from its start to its stop
  uint64_t calls, total_ns;
  double named; // the part of total_ns that kernels and other parts say, 0 to 1
  uint32_t threads;
  // Measured on this machine with all threads of the runtime: operations a second (f32 multiply and
  // add; 0: not known), and bytes a second read from the caches of cores and from memory.
  double flops_per_s, cache_bytes_per_s, memory_bytes_per_s;
  uint32_t n_variants;
  const dt_profile_variant_t *const *variants; // in the order of their first calls
  uint64_t events, dropped_events; // of the timeline: kept, and taken out for newer ones
  uint64_t lost;                   // calls and launches that memory could not be had for
} dt_profile_report_t;

// Reports what was recorded so far; the profile goes on. The first report with a variant takes as
// long as a part of its compile, passes of users included, and the first of a runtime measures the
// machine, some tenths of a second. *out is the caller's, released with dt_profile_report_free;
// NULL on failure. DT_E_ARGUMENT, DT_E_NO_MEMORY, DT_E_FORKED. [any]
DT_API dt_status_t dt_profile_report(dt_profile_t *profile, dt_profile_report_t **out) DT_MUST_USE;
// NULL allowed. [any, each report once]
DT_API void dt_profile_report_free(dt_profile_report_t *report);

// Forms of a profile as text.
typedef enum dt_profile_format_t {
  DT_PROFILE_TEXT = 0,  // a table, the dearest kernels first
  DT_PROFILE_JSON = 1,  // one object: the report
  DT_PROFILE_TRACE = 2, // a timeline for ui.perfetto.dev or chrome://tracing
  DT_PROFILE_HTML = 3,  // a page that needs nothing else, with the kernels as a graph
} dt_profile_format_t;
// The form that a file's name asks for: DT_PROFILE_HTML by .html, DT_PROFILE_TRACE by .trace.json,
// DT_PROFILE_JSON by any other .json; else, and of NULL, DT_PROFILE_TEXT. [any]
DT_API dt_profile_format_t dt_profile_format_of(const char *path);
// *out is released with dt_text_free; NULL on failure. Statuses as dt_profile_report. [any]
DT_API dt_status_t dt_profile_text(dt_profile_t *profile, dt_profile_format_t format,
                                   char **out) DT_MUST_USE;
// The same to a file, which is replaced as a whole. DT_E_IO besides. [any]
DT_API dt_status_t dt_profile_write(dt_profile_t *profile, dt_profile_format_t format,
                                    const char *path) DT_MUST_USE;

// ---- Metrics ------------------------------------------------------------------------------------

// What the runtime and its functions count, in the text format that Prometheus reads (version
// 0.0.4): lines such as `ductile_calls_total{function="encoder"} 3`, functions of one name added
// up. docs/profile.md lists them; later versions may add some. *out is released with dt_text_free;
// NULL on failure. DT_E_ARGUMENT, DT_E_NO_MEMORY, DT_E_FORKED. [any]
DT_API dt_status_t dt_metrics_text(dt_runtime_t *runtime, char **out) DT_MUST_USE;
// Whether calls are timed, from now on, for the histogram ductile_call_seconds, of those that
// return an answer: two looks at the clock for each. On a device a call returns when its work is
// queued. Off at first, but as DUCTILE_LATENCY says. DT_E_ARGUMENT. [any]
DT_API dt_status_t dt_metrics_latency(dt_runtime_t *runtime, bool on) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_PROFILE_H

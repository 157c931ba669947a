// SPDX-License-Identifier: Apache-2.0
// Profiles of time (ductile/profile.h) inside the runtime.
//
//   call ──► recorder, the session's: stamps of this call's parts and launches
//     │        when the call ends, or the log is full
//     ▼
//   profile: variant ► sites ► sums        under its mutex, shortly
//     │        when a report is asked for
//     ▼
//   report: sites matched with the kernels of the variant's program, which is made once more
//
// A launch is known by its site: the address in the host program that it returns to, and by the
// kernel that the host program says before it. A call without a profile runs nothing else for them.
#ifndef DT_RUNTIME_EXEC_TIMING_H
#define DT_RUNTIME_EXEC_TIMING_H

#include "ductile/profile.h"
#include "lower/loop/loop.h"
#include "runtime/base/reclaim.h"
#include "runtime/base/tasks.h"
#include "runtime/base/ticks.h"
#include "runtime/exec/function.h"

#include <stdatomic.h>

// ---- Calls (timing_record.c) ----------------------------------------------------------------------

typedef enum dt_stamp_kind_t {
  DT_STAMP_CALL,
  DT_STAMP_PART,
  DT_STAMP_LAUNCH,
  DT_STAMP_SHARE, // a thread's of the launch before it
  // Of a device that queues its work: also what the device says of them itself.
  DT_STAMP_GRAPH,
  DT_STAMP_TO_DEVICE, // copies
  DT_STAMP_FROM_DEVICE,
  DT_STAMP_QUEUED, // what the host does for any of these, and for a launch there
} dt_stamp_kind_t;

struct dt_timed_piece_t;
struct dt_timed_queue_t;

typedef struct dt_stamp_t {
  uint64_t begin, end;
  uint64_t thread;
  dt_stamp_kind_t kind;
  dt_profile_part_t part;
  // Of a launch, and of a graph.
  const void *site;
  dt_kernel_fn_t fn; // NULL: a graph
  uint32_t kernel;   // 1 + its number in the program; 0: the code does not say
  uint64_t busy, wait;
  struct dt_timed_piece_t *piece; // that the device times; NULL: it does not (timing_queue.h)
} dt_stamp_t;

// A thread's share of the launch under way: its first stamp, its last one, and what lies in chunks.
// A line of its own, since threads write them at the same time.
typedef struct dt_span_t {
  _Alignas(64) uint64_t begin, end, busy;
  uint64_t thread;
} dt_span_t;

#define DT_MOST_STAMPS 1024u // of a call, until they are added up

// What a session notes of its call.
typedef struct dt_recorder_t {
  dt_profile_t *profile; // of the call under way, a reference
  bool counter;          // dt_ticks_t.counter
  uint64_t thread;       // that calls
  uint64_t began, at;    // the call's first stamp, and the last one of a part
  uint64_t parts[DT_PROFILE_PARTS];
  uint64_t launched; // in launches, since the host program was entered
  uint64_t waited;   // and for numbers of a device
  dt_function_t *function;
  dt_device_t place;     // where the session runs
  dt_variant_t *variant; // that answers; NULL: none yet, or one that is made for the call alone
  const int64_t *symbols;
  uint32_t last; // 1 + the site launched last in this call
  dt_session_t *session;
  // Where its place queues work, and times it.
  struct dt_timed_queue_t *kept;  // a reference
  struct dt_timed_queue_t *queue; // the same, while this call's work is timed
  bool fresh;                     // nothing of this call is queued yet
  uint64_t untimed, split_graphs; // of this call (dt_timed_device_t)
  uint32_t n;
  dt_stamp_t stamps[DT_MOST_STAMPS];
  uint32_t n_spans; // the pool's width
  dt_span_t *spans;
} dt_recorder_t;

static inline uint64_t dt__thread_id(void) { return (uint64_t)(uintptr_t)pthread_self(); }

// Inside an epoch: the recorder of the session for a call of `function`, where a profile runs and
// there is memory; else NULL.
dt_recorder_t *dt__record_begin(dt_session_t *session, dt_function_t *function);
// What has passed since the last part, or the beginning, was `part`.
void dt__record_part(dt_recorder_t *recorder, dt_profile_part_t part);
// `variant` answers the call, whose symbols are at `symbols`.
void dt__record_variant(dt_recorder_t *recorder, dt_variant_t *variant, const int64_t *symbols);
// The variant was for this call alone, and goes.
void dt__record_drop(dt_recorder_t *recorder);
static inline void dt__note_part(dt_recorder_t *recorder, dt_profile_part_t part) { // NULL allowed
  if (recorder)
    dt__record_part(recorder, part);
}
// What has passed was the host program: its launches, its waits, and what lies between them.
void dt__record_run(dt_recorder_t *recorder);
// The call returns; it counts where it has an answer.
void dt__record_end(dt_recorder_t *recorder, bool answered);
void dt__recorder_free(dt_recorder_t *recorder); // NULL allowed

// Around a launch from `site`. What is returned is valid until the next stamp.
dt_stamp_t *dt__record_launch(dt_recorder_t *recorder, const void *site, dt_kernel_fn_t fn,
                              int64_t kernel);
void dt__record_launched(dt_recorder_t *recorder, dt_stamp_t *launch);
// The same of a launch that threads shared, whose spans are then empty again.
void dt__record_shared(dt_recorder_t *recorder, dt_stamp_t *launch);

// Around work that a call queues on its device: a launch or a graph, which have a site, or copies.
dt_stamp_t *dt__record_queue(dt_recorder_t *recorder, dt_stamp_kind_t kind, const void *site,
                             dt_kernel_fn_t fn, int64_t kernel);
void dt__record_queued(dt_recorder_t *recorder, dt_stamp_t *stamp, uint64_t bytes);

// Functions that are those of recorded calls, too: `recorded` is a literal where they are called,
// so other calls ask nothing for it.
#define ALSO_RECORDED static inline __attribute__((always_inline))

// ---- Sums -----------------------------------------------------------------------------------------

#define DT_MOST_SHAPES 512u // of one variant

typedef struct dt_timed_site_t {
  const void *site;
  bool graph;      // else a launch
  uint32_t code;   // UINT32_MAX: none of the variant's
  uint32_t kernel; // as a stamp's
  uint32_t next;   // 1 + the one that follows in the program's order; 0: it is the last
  uint64_t launches, ticks, least, most, busy, wait;
} dt_timed_site_t;

// Calls of the same sizes.
typedef struct dt_timed_shape_t {
  uint64_t hash;
  int64_t *values;    // by symbol
  uint64_t *launches; // by site
  uint32_t n_launches;
} dt_timed_shape_t;

// Numbers of sites or shapes by hash.
typedef struct dt_timed_index_t {
  uint32_t *slots; // 1 + the number; 0: free
  uint32_t cap;    // a power of two, or 0
} dt_timed_index_t;

struct dt_timed_kernels_t;

// What a device says of a variant's calls, in its own time, and what was not asked.
typedef struct dt_timed_device_t {
  uint64_t calls, total_ns, kernels_ns, idle_ns, behind_ns;
  dt_profile_copies_t to_device, from_device;
  uint64_t untimed, split_graphs;
} dt_timed_device_t;

// What is known of a variant's calls.
typedef struct dt_timed_t {
  struct dt_timed_t *next, *beside; // in order; in the same bucket
  dt_variant_t *variant;            // a reference; NULL: calls that no lasting variant answered
  uint64_t id;                      // its; 0: there is none
  dt_function_t *function;          // a reference
  uint32_t number;
  dt_device_t place;
  uint64_t calls, ticks, least, most, parts[DT_PROFILE_PARTS];
  bool queued; // its place queues work: times of sites are the device's nanoseconds, not ticks
  dt_timed_device_t device;
  uint32_t n_sites, sites_cap, first; // first: 1 + the site that comes first
  dt_timed_site_t *sites;
  dt_timed_index_t site_index;
  uint32_t n_shapes, shapes_cap, last_shape;
  dt_timed_shape_t *shapes;
  dt_timed_index_t shape_index;
  struct dt_timed_kernels_t *kernels; // (timing_kernels.h); guarded by the runtime's report_mutex
} dt_timed_t;

typedef struct dt_timed_event_t {
  uint64_t begin, end;
  uint64_t thread;
  const dt_timed_t *of;
  uint32_t kind, index; // a dt_stamp_kind_t; which part or site
} dt_timed_event_t;     // of a device: `thread` is its dt_timed_queue_t's address

#define DT_TIMED_BUCKETS 64u
#define DT_TIMED_COMPILES 256u

struct dt_profile {
  dt_retired_t retired; // first: the reclaimer's item
  _Atomic uint32_t refs;
  dt_runtime_t *runtime; // a reference until dt_profile_free
  dt_ticks_t begin;
  bool whole_graphs;
  dt_tasks_t *tasks; // of compile threads
  dt_mutex_t mutex;  // guards what follows
  uint32_t n_queues;
  struct dt_timed_queue_t *queues; // of sessions on devices, by next; grows in front
  int64_t stopped_ns;              // 0: it runs
  dt_timed_t *first, *last, *buckets[DT_TIMED_BUCKETS];
  uint64_t lost, n_events; // all events, also those that others have replaced
  uint32_t most_events;
  dt_timed_event_t *events; // a ring
  uint32_t n_compiles;
  dt_timed_event_t compiles[DT_TIMED_COMPILES]; // the first ones
};
void dt__profile_release(dt_profile_t *profile);

// timing_sums.c. Adds up the recorder's stamps; none are left. The call goes on.
void dt__profile_take(dt_profile_t *profile, dt_recorder_t *recorder);
// The same, and the call, which has ended.
void dt__profile_count(dt_profile_t *profile, dt_recorder_t *recorder);
void dt__profile_lose(dt_profile_t *profile); // what memory was not there for
void dt__profile_put(dt_profile_t *profile, const dt_timed_event_t *event); // mutex held
void dt__profile_free_sums(dt_profile_t *profile);

// timing_kernels.c. NULL allowed.
void dt__timed_kernels_free(struct dt_timed_kernels_t *kernels);

#endif // DT_RUNTIME_EXEC_TIMING_H

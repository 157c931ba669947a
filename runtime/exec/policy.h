// SPDX-License-Identifier: Apache-2.0
// The statistics of a function's calls, and how a compile uses them: which sizes, integers and
// captures change ("automatic dynamic"), the addresses of captures, and a histogram of the sizes of
// calls.
//
// Every source of a number is a lattice: unset < one value < dynamic. A compile joins the call's
// number into it. A source that is still one value becomes a literal of the variant.
#ifndef DT_RUNTIME_EXEC_POLICY_H
#define DT_RUNTIME_EXEC_POLICY_H

#include "runtime/trace/trace.h"

#include <stdatomic.h>

typedef enum dt_learned_state_t {
  DT_LEARNED_UNSET = 0,
  DT_LEARNED_VALUE = 1,
  DT_LEARNED_DYNAMIC = 2
} dt_learned_state_t;

typedef struct dt_learned_t {
  dt_learned_state_t state;
  int64_t value;
} dt_learned_t;

// A size or integer argument that calls may change: the first dim of each name.
typedef struct dt_source_t {
  const char *name; // "x.size(0)", "argument 2"
  uint32_t input, dim;
  dt_learned_t learned; // guarded by the function's mutex
} dt_source_t;

// A captured integer; its index is that in the graphs of all variants.
typedef struct dt_captured_t {
  const char *name;
  const int64_t *address; // NULL: a profile named it, and nothing has read it yet
  bool used;              // a variant reads it, so it stays where it is
  dt_learned_t learned;
} dt_captured_t;

typedef struct dt_histogram_row_t {
  uint64_t calls; // sampled; at most so many
  uint64_t misses;
} dt_histogram_row_t;

// Rows of sizes with their counts. The least frequent row makes room for a new one.
typedef struct dt_histogram_t {
  _Atomic bool busy;        // held by whoever reads or writes the rest
  uint32_t n, cap;          // rows
  uint32_t width;           // values of a row: the first of the sources
  dt_histogram_row_t *rows; // the arena's, like values
  int64_t *values;
} dt_histogram_t;

#define DT_MOST_CAPTURES 64

typedef struct dt_policy_t {
  uint64_t version; // counts changes of what was learned; guarded by the mutex
  uint32_t n_sources;
  dt_source_t *sources;           // the arena's
  uint32_t *first;                // by input: the index of dim 0 in `by_dim`
  uint32_t *by_dim;               // the source's index, or UINT32_MAX
  DT_VEC(dt_captured_t) captures; // guarded by the function's mutex
  dt_histogram_t histogram;
} dt_policy_t;

// Finds the sources; `function`'s arena and inputs are set.
dt_status_t dt__policy_init(dt_function_t *function) DT_MUST_USE;

// ---- Compiles -----------------------------------------------------------------------------------
// For a trace of `function`: takes its mutex, so the caller must not hold it.
typedef struct dt_policy_read_t {
  uint32_t index; // of the capture
  int64_t value;
} dt_policy_read_t;
typedef struct dt_policy_build_t {
  dt_function_t *function;
  bool generic; // everything a symbol
  // What the trace came by, so that it can be known whether another would come by the same.
  uint64_t began;   // the policy's version before it
  uint64_t changes; // of the version that are the trace's own
  uint32_t n_reads;
  dt_policy_read_t reads[DT_MOST_CAPTURES];
} dt_policy_build_t;
bool dt__policy_literal(void *build, uint32_t input, uint32_t dim, int64_t value);
dt_status_t dt__policy_capture(void *build, const char *name, const int64_t *address, int64_t value,
                               uint32_t *out_index, bool *out_literal) DT_MUST_USE;
// Mutex held: notes the captures a new variant reads, and gives the addresses of all (NULL: there
// are none). They stay valid for the function's life.
dt_status_t dt__policy_publish(dt_function_t *function, const dt_traced_t *traced,
                               const int64_t *const **out) DT_MUST_USE;
// Mutex held. The capture of that name, or NULL; dt__policy_add_capture makes one (NULL: no
// memory).
dt_captured_t *dt__policy_find_capture(dt_policy_t *policy, const char *name);
dt_captured_t *dt__policy_add_capture(dt_function_t *function, const char *name);
// The state becomes the least that covers both; true where it became dynamic by that.
bool dt__learned_join(dt_learned_t *learned, dt_learned_t other);

// ---- Histogram (histogram.c) --------------------------------------------------------------------
dt_status_t dt__histogram_init(dt_histogram_t *histogram, dt_arena_t *arena,
                               uint32_t n_sources) DT_MUST_USE;
// Counts one call. A sampled hit never waits: where another is at it, it is not counted.
void dt__histogram_miss(dt_function_t *function, dt_tensor_t *const *inputs);
void dt__histogram_sample(dt_function_t *function, dt_tensor_t *const *inputs);
// Waits until it is ours.
void dt__histogram_lock(dt_histogram_t *histogram);
void dt__histogram_unlock(dt_histogram_t *histogram);
// Locked: adds counts to the row of `values` (width of them).
void dt__histogram_add(dt_histogram_t *histogram, const int64_t *values, uint64_t calls,
                       uint64_t misses);

#endif // DT_RUNTIME_EXEC_POLICY_H

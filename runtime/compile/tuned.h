// SPDX-License-Identifier: Apache-2.0
// What tuning found: the choices by which a program is compiled, and the times that they were
// measured by. The disk cache keeps it under the key of the usual compile, so the next process
// compiles, or finds, that code; packages have it beside theirs.
#ifndef DT_RUNTIME_COMPILE_TUNED_H
#define DT_RUNTIME_COMPILE_TUNED_H

#include "runtime/base/stream.h"
#include "runtime/compile/artifact.h"
#include "runtime/compile/choices.h"

// A call that was measured.
typedef struct dt_tuned_call_t {
  const char *sizes;      // of its inputs: "x 8x128, n 3"
  uint64_t before_ns, ns; // by the usual code, and by these choices; equal where there are none
} dt_tuned_call_t;

typedef struct dt_tuned_t {
  dt_choices_t choices; // 0: the usual way was the best
  bool sizes;           // it is a variant for these sizes, or for such as these
  uint32_t n_calls;
  dt_tuned_call_t *calls;
} dt_tuned_t;

// On the heap; NULL without memory. Texts are copied.
dt_tuned_t *dt__tuned_create(dt_choices_t choices, const dt_tuned_call_t *calls, uint32_t n_calls);
dt_tuned_t *dt__tuned_copy(const dt_tuned_t *tuned); // NULL allowed
void dt__tuned_destroy(dt_tuned_t *tuned);           // NULL allowed

// Of choices that this build does not know nothing is left but the failure.
void dt__choices_store(dt_stream_t *s, dt_choices_t *choices);
// One that may be none: *tuned NULL.
void dt__tuned_store(dt_stream_t *s, dt_tuned_t **tuned);
// "long-slices: 1.92 ms for 2.11 ms at x 8x128"; "" of NULL.
void dt__tuned_put(const dt_tuned_t *tuned, dt_text_t *out);

// Of the compile of that key, which is the usual one's, whatever sizes its first call had. NULL:
// nothing is there.
void dt__tuned_keep(struct dt_disk_cache_t *cache, const dt_text_t *key, const dt_tuned_t *tuned);
dt_tuned_t *dt__tuned_find(struct dt_disk_cache_t *cache, const dt_text_t *key);

#endif // DT_RUNTIME_COMPILE_TUNED_H

// SPDX-License-Identifier: Apache-2.0
// Variants for sizes that come often, made of the histogram of sampled calls by the thread in the
// background: for one size, or for ranges and divisors that the calls have in common. Each is timed
// beside the variant that answered until then, and stands before it in the list if that pays.
// Off unless the function's hot_percent or DUCTILE_HOT_SIZES says which share of the calls is hot.
#ifndef DT_RUNTIME_EXEC_HOT_H
#define DT_RUNTIME_EXEC_HOT_H

#include "runtime/base/watch.h"
#include "runtime/compile/jobs.h"

#include <stdatomic.h>

struct dt_function;

#define DT_MOST_HOT 8 // variants that one function is offered

typedef struct dt_hot_t {
  uint32_t percent;     // of sampled calls; 0: nothing is made
  _Atomic bool posted;  // the job is queued or runs
  _Atomic bool stopped; // for good
  dt_job_t job;         // whose who has set `posted`
  dt_watch_t watch;     // of its compiles
  // Which were offered, by a hash; the job's.
  uint64_t offered[DT_MOST_HOT];
  uint32_t n_offered;
  _Atomic uint32_t made; // published
} dt_hot_t;

// A call was sampled: now and then it has the histogram looked at. Takes no lock.
void dt__hot_sampled(struct dt_function *function, uint64_t n_sampled);
// A profile was loaded: it is looked at now.
void dt__hot_request(struct dt_function *function);
// The last release's: ends what is under way, and waits until it has ended.
void dt__hot_stop(struct dt_function *function);

#endif // DT_RUNTIME_EXEC_HOT_H

// SPDX-License-Identifier: Apache-2.0
// Compiles whose results are kept on disk: found there, or made and kept for the next process. Of
// processes that want the same one makes it, and the others wait for that, for a bounded time.
#ifndef DT_RUNTIME_COMPILE_KEPT_H
#define DT_RUNTIME_COMPILE_KEPT_H

#include "runtime/base/disk_cache.h"
#include "runtime/compile/artifact.h"
#include "runtime/compile/jobs.h"

typedef struct dt_kept_request_t {
  dt_jobs_t *jobs;
  dt_artifact_place_t place;
  const dt_traced_t *traced;
  const dt_target_t *target;
  // Whether what tuning found is looked for, by whoever owns the target, which `choose` then edits;
  // it takes *tuned where it uses it. NULL: it is not.
  bool (*choose)(void *user, struct dt_tuned_t **tuned);
  struct dt_watch_t *watch; // what ends the wait; NULL: its time alone
  int64_t wait_ns;          // the most that another process is waited for
  // The right to make it: taken, and given up by the caller. NULL: the caller has one for this.
  dt_disk_claim_t *claim;
  const char *name; // with `variant`, for logs
  uint32_t variant;
  bool quick; // code in its quick form will do: kept under a name of its own, and found there
  // Makes what is in `own`, and fills `keep`, which is fini'd by the caller.
  dt_status_t (*make)(void *user, dt_artifact_t *keep, dt_compiled_t *own);
  void *user;
} dt_kept_request_t;

// *own is zeroed, and the caller's; where an entry is found another takes its place. Not on a
// compile thread.
dt_status_t dt__compile_kept(const dt_kept_request_t *request, dt_compiled_t **own) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_KEPT_H

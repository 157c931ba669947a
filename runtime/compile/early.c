// SPDX-License-Identifier: Apache-2.0
// See early.h.
#include "runtime/compile/early.h"

#include "runtime/base/life.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"
#include "runtime/compile/jobs.h"

struct dt_early_t {
  dt_compiler_t *compiler;
  dt_compile_request_t request;
  dt_watch_t watch;
  dt_job_t job;
  dt_mutex_t mutex;
  pthread_cond_t ended;
  bool under_way;         // queued or running; with `fresh` guarded by the mutex
  dt_compiled_t *fresh;   // NULL: it failed, was taken, or is not there yet
  dt_disk_cache_t *cache; // of `claim`
  dt_disk_claim_t claim;
};

static dt_status_t run(void *opaque) {
  dt_early_t *early = opaque;
  dt_compiled_t *fresh = NULL;
  dt_status_t status = dt__compile(early->compiler, &early->request, &fresh);
  dt_status_free(status); // the log has it
  dt__mutex_lock(&early->mutex);
  early->fresh = fresh;
  early->under_way = false;
  (void)pthread_cond_broadcast(&early->ended);
  dt__mutex_unlock(&early->mutex);
  return NULL;
}

static void early_free(dt_early_t *early) {
  if (!dt__forked()) {
    (void)pthread_cond_destroy(&early->ended);
    dt__mutex_fini(&early->mutex);
  }
  dt__free(early);
}

dt_status_t dt__early_begin(dt_compiler_t *compiler, const dt_compile_request_t *request,
                            dt_early_t **out) {
  *out = NULL;
  dt_early_t *early = dt__calloc(1, sizeof(*early));
  if (!early)
    return DT_NO_MEMORY();
  early->compiler = compiler;
  early->claim.lock = -1;
  dt__watch_init(&early->watch, request->watch ? &request->watch->limits : NULL);
  early->request = *request;
  early->request.haste = DT_HASTE_NONE;
  early->request.beside_calls = early->request.claimed = true;
  early->request.watch = &early->watch;
  early->job = (dt_job_t){.run = run,
                          .arg = early,
                          .what = "best form, beside the quick one",
                          .of = request->name,
                          .variant = request->variant};
  early->under_way = true;
  dt_status_t status = dt__mutex_init(&early->mutex, DT_RANK_COMPILE);
  if (status) {
    dt__free(early);
    return status;
  }
  (void)pthread_cond_init(&early->ended, NULL);
  status = dt__jobs_post(dt__compiler_jobs(compiler), &early->job, 0);
  if (status) {
    early_free(early);
    return status;
  }
  DT_LOG(DT_LOG_COMPILE, 2, "%s.%u gets its best form beside the quick one", request->name,
         request->variant);
  *out = early;
  return NULL;
}

void dt__early_claim(dt_early_t *early, dt_disk_cache_t *cache, dt_disk_claim_t *claim) {
  early->cache = cache;
  early->claim = *claim;
  claim->lock = -1;
}

void dt__early_stop(dt_early_t *early) {
  if (early)
    dt__watch_stop(&early->watch, DT_E_CANCELLED);
}

static void wait_for(dt_early_t *early) {
  dt__mutex_lock(&early->mutex);
  while (early->under_way)
    dt__cond_wait(&early->ended, &early->mutex);
  dt__mutex_unlock(&early->mutex);
}

dt_compiled_t *dt__early_take(dt_early_t *early) {
  wait_for(early);
  dt_compiled_t *fresh = early->fresh;
  early->fresh = NULL;
  return fresh;
}

void dt__early_destroy(dt_early_t *early) {
  if (!early)
    return;
  if (!dt__forked()) { // else nobody compiles here
    dt__early_stop(early);
    if (!dt__jobs_cancel(dt__compiler_jobs(early->compiler), &early->job))
      wait_for(early);
  }
  if (early->fresh) {
    dt__compiled_unload(early->fresh); // nothing of it was launched
    dt__compiled_destroy(early->fresh);
  }
  if (early->cache)
    dt__disk_cache_unclaim(early->cache, &early->claim);
  early_free(early);
}

// SPDX-License-Identifier: Apache-2.0
// See kept.h.
#include "runtime/compile/kept.h"

#include "runtime/compile/codegen.h"
#include "runtime/compile/maker.h"
#include "runtime/compile/tuned.h"

#include "runtime/base/disk_cache.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"

#include <time.h>

#define LEAST_PAUSE_NS INT64_C(1000000) // between two looks at another process
#define MOST_PAUSE_NS INT64_C(20000000)

// Behind the key of the best form: that of the quick one.
#define QUICK_MARK "quick\n"

typedef struct kept_t {
  const dt_kept_request_t *request;
  dt_text_t key,
      quick_key; // of the best form; and of the quick one, empty if that is not asked for
  dt_compiled_t *found;
  bool refused; // an entry was there that cannot be used
  dt_maker_t maker;
} kept_t;

static void make_key(kept_t *kept) {
  const dt_kept_request_t *request = kept->request;
  dt__artifact_key(request->traced, request->target, &request->place, &kept->key);
}

// What tuning found is under the key of the usual compile.
static void choose(kept_t *kept) {
  const dt_kept_request_t *request = kept->request;
  dt_tuned_t *tuned = dt__tuned_find(request->place.cache, &kept->key);
  if (tuned && request->choose(request->user, &tuned)) {
    dt__text_fini(&kept->key);
    dt__text_init(&kept->key);
    make_key(kept);
  }
  dt__tuned_destroy(tuned);
}

static void make_keys(kept_t *kept) {
  const dt_kept_request_t *request = kept->request;
  make_key(kept);
  if (request->choose)
    choose(kept);
  if (!request->quick || kept->key.failed)
    return;
  dt__text_put(&kept->quick_key, dt__text_str(&kept->key));
  dt__text_put(&kept->quick_key, QUICK_MARK);
  kept->key.failed |= kept->quick_key.failed;
}

static dt_status_t run_find(void *opaque) {
  kept_t *kept = opaque;
  const dt_kept_request_t *request = kept->request;
  if (!kept->key.len)
    make_keys(kept);
  DT_TRY(dt__artifact_find(&request->place, &kept->key, request->traced, &kept->found,
                           &kept->refused));
  if (kept->found || !kept->quick_key.len)
    return NULL;
  DT_TRY(dt__artifact_find(&request->place, &kept->quick_key, request->traced, &kept->found,
                           &kept->refused));
  if (kept->found)
    kept->found->quick = true;
  return NULL;
}

static dt_status_t find(kept_t *kept) {
  dt_job_t job = {.run = run_find,
                  .arg = kept,
                  .what = "find kept code",
                  .of = kept->request->name,
                  .variant = kept->request->variant};
  return dt__jobs_run(kept->request->jobs, &job, 1, 0);
}

static void pause_for(int64_t ns) {
  struct timespec time = {.tv_nsec = ns};
  (void)nanosleep(&time, NULL);
}

// Until nobody else makes the entry, in whichever form, or it took too long.
static dt_status_t claim(const kept_t *kept, dt_disk_claim_t *out) {
  const dt_kept_request_t *request = kept->request;
  int64_t begin = dt__now_ns(), pause = LEAST_PAUSE_NS;
  while (!dt__disk_cache_claim(request->place.cache, DT_ARTIFACT_KIND, &kept->key, out)) {
    if (dt__now_ns() - begin >= request->wait_ns) {
      DT_LOG(DT_LOG_CACHE, 1, "%s.%u: another process still compiles it after %.1f s",
             request->name, request->variant, (double)request->wait_ns * 1e-9);
      return NULL;
    }
    DT_TRY(dt__watch_check(request->watch));
    pause_for(pause);
    pause = pause < MOST_PAUSE_NS / 2 ? 2 * pause : MOST_PAUSE_NS;
  }
  return NULL;
}

static dt_status_t run_maker(void *opaque) {
  kept_t *kept = opaque;
  const dt_artifact_place_t *place = &kept->request->place;
  return dt__codegen_maker(place->workers, place->jit, &kept->maker);
}

static void keep(kept_t *kept, const dt_artifact_t *artifact, const dt_compiled_t *own) {
  const dt_kept_request_t *request = kept->request;
  dt_job_t job = {.run = run_maker,
                  .arg = kept,
                  .what = "keep code",
                  .of = request->name,
                  .variant = request->variant};
  dt_status_t status = dt__jobs_run(request->jobs, &job, 1, 0);
  if (status)
    DT_LOG(DT_LOG_CACHE, 1, "%s.%u is not kept: %s", request->name, request->variant,
           dt_status_message(status));
  else
    dt__artifact_keep(&request->place, own->quick ? &kept->quick_key : &kept->key, &kept->maker,
                      artifact, own, request->traced->graph->outputs.len);
  dt_status_free(status);
}

static dt_status_t make(kept_t *kept, dt_compiled_t *own) {
  const dt_kept_request_t *request = kept->request;
  dt_artifact_t artifact = {0};
  dt_status_t status = request->make(request->user, &artifact, own);
  if (!status && !kept->key.failed)
    keep(kept, &artifact, own);
  dt__artifact_fini(&artifact);
  return status;
}

static dt_status_t find_or_make(kept_t *kept, dt_compiled_t *own) {
  DT_TRY(find(kept));
  if (kept->found)
    return NULL;
  if (kept->key.failed) {
    DT_LOG(DT_LOG_CACHE, 1, "%s.%u is not kept: this build of the library has no build id",
           kept->request->name, kept->request->variant);
    return make(kept, own);
  }
  if (!kept->request->claim)
    return make(kept, own);
  DT_TRY(claim(kept, kept->request->claim));
  if (!kept->refused) // else somebody may have made it meanwhile
    DT_TRY(find(kept));
  return kept->found ? NULL : make(kept, own);
}

dt_status_t dt__compile_kept(const dt_kept_request_t *request, dt_compiled_t **own) {
  kept_t kept = {.request = request};
  dt__text_init(&kept.key);
  dt__text_init(&kept.quick_key);
  dt__maker_init(&kept.maker);
  dt_status_t status = find_or_make(&kept, *own);
  dt__text_fini(&kept.key);
  dt__text_fini(&kept.quick_key);
  dt__maker_fini(&kept.maker);
  if (!kept.found)
    return status;
  DT_LOG(DT_LOG_CACHE, 2, "all of %s.%u", request->name, request->variant);
  dt__compiled_destroy(*own);
  *own = kept.found;
  return status;
}

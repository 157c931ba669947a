// SPDX-License-Identifier: Apache-2.0
// See pager.h. The background thread touches only a region that no session has yet, so sessions and
// this thread never wait for each other.
#include "runtime/exec/pager.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <stdatomic.h>

#define KEPT 4                 // regions kept for later sessions
#define STEP ((size_t)1 << 20) // made resident between looks at `stop`
// What is left of memory made ready ahead when the first session takes it: so many times what its
// call needs, and at least so much, for calls of other sizes.
#define TIMES ((size_t)2)
#define LEAST ((size_t)8 << 20)

struct dt_pager {
  dt_mutex_t mutex;
  dt_region_t ready[KEPT]; // guarded by mutex
  uint32_t n_ready;        // guarded by mutex
  dt_region_t warming;     // the thread's until it has ended
  const char *unused;      // of `ready`: the base of what it made, until it is taken; guarded too
  size_t warm_bytes;
  bool running; // the thread was started
  pthread_t thread;
  _Atomic bool stop;
};

// True when the region was kept; false: it is the caller's still.
static bool keep(dt_pager_t *pager, dt_region_t region, bool unused) {
  dt__mutex_lock(&pager->mutex);
  bool kept = pager->n_ready < KEPT && !(unused && pager->stop);
  if (kept && unused)
    pager->unused = region.base;
  if (kept)
    pager->ready[pager->n_ready++] = region;
  dt__mutex_unlock(&pager->mutex);
  return kept;
}

static void *warm(void *arg) {
  dt_pager_t *pager = arg;
  bool more = true;
  while (more && pager->warming.bytes < pager->warm_bytes) {
    more = !atomic_load_explicit(&pager->stop, memory_order_relaxed) &&
           dt__region_grow(&pager->warming, pager->warming.bytes + STEP);
  }
  if (!keep(pager, pager->warming, true))
    dt__region_free(&pager->warming);
  pager->warming = (dt_region_t){0};
  return NULL;
}

dt_status_t dt__pager_create(size_t warm_bytes, dt_pager_t **out) {
  *out = NULL;
  dt_pager_t *pager = dt__calloc(1, sizeof(*pager));
  if (!pager)
    return DT_NO_MEMORY();
  pager->warm_bytes = warm_bytes;
  dt_status_t status = dt__mutex_init(&pager->mutex, DT_RANK_SESSION);
  if (status) {
    dt__free(pager);
    return status;
  }
  // Where no range can be reserved, memory made ready would have to move when it grows.
  if (warm_bytes && dt__region_reserve(&pager->warming)) {
    status = dt__thread_start(&pager->thread, "dt-pages", true, warm, pager);
    pager->running = status == NULL;
  }
  if (status) {
    dt__pager_destroy(pager);
    return status;
  }
  *out = pager;
  return NULL;
}

void dt__pager_stop(dt_pager_t *pager) {
  atomic_store_explicit(&pager->stop, true, memory_order_relaxed);
}

// In a child after fork the thread is not there, and may have been about to change what it keeps.
void dt__pager_destroy(dt_pager_t *pager) {
  if (!pager || dt__forked())
    return;
  dt__pager_stop(pager);
  if (pager->running)
    (void)pthread_join(pager->thread, NULL);
  dt__region_free(&pager->warming);
  for (uint32_t k = 0; k < pager->n_ready; k++)
    dt__region_free(&pager->ready[k]);
  dt__mutex_fini(&pager->mutex);
  dt__free(pager);
}

static dt_region_t take(dt_pager_t *pager, bool *out_unused) {
  dt_region_t region = {0};
  dt__mutex_lock(&pager->mutex);
  if (pager->n_ready)
    region = pager->ready[--pager->n_ready];
  *out_unused = region.base && region.base == pager->unused;
  if (*out_unused)
    pager->unused = NULL;
  dt__mutex_unlock(&pager->mutex);
  return region;
}

dt_region_t dt__pager_take(dt_pager_t *pager, size_t need) {
  bool unused = false;
  dt_region_t region = take(pager, &unused);
  size_t enough = need < LEAST / TIMES ? LEAST : TIMES * need;
  if (unused)
    dt__region_shrink(&region, enough);
  else if (!region.base)
    dt__pager_stop(pager);
  return region;
}

void dt__pager_give(dt_pager_t *pager, dt_region_t region) {
  if (region.reserved == 0 || !keep(pager, region, false))
    dt__region_free(&region);
}

uint64_t dt__pager_bytes(dt_pager_t *pager) {
  uint64_t bytes = 0;
  dt__mutex_lock(&pager->mutex);
  for (uint32_t k = 0; k < pager->n_ready; k++)
    bytes += pager->ready[k].bytes;
  dt__mutex_unlock(&pager->mutex);
  return bytes;
}

uint64_t dt__pager_drop(dt_pager_t *pager) {
  bool unused = false;
  dt_region_t region = take(pager, &unused);
  uint64_t bytes = region.bytes;
  dt__region_free(&region);
  return bytes;
}

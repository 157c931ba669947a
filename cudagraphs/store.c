// SPDX-License-Identifier: Apache-2.0
// See store.h. The cost of assembling an executable again, and its bytes, both grow with its nodes.
// So the least recently used one is taken first.
#include "cudagraphs/store.h"

#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

dt_status_t dt__graph_store_init(dt_graph_store_t *store, size_t budget) {
  *store = (dt_graph_store_t){.budget = budget};
  (void)pthread_cond_init(&store->ended, NULL); // cannot fail on Linux without attributes
  return dt__mutex_init(&store->mutex, DT_RANK_GRAPHS);
}

static void release(dt_graph_exec_t *exec) {
  if (atomic_fetch_sub_explicit(&exec->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt__cuda_gpu_release(exec->gpu);
  dt__free(exec);
}

// Mutex held. Takes an executable that nobody is inside of off the list; the caller unbuilds it.
static bool take_off(dt_graph_store_t *store, dt_graph_exec_t *exec) {
  uint32_t idle = 0;
  if (!atomic_compare_exchange_strong_explicit(&exec->state, &idle, 2, memory_order_acq_rel,
                                               memory_order_relaxed))
    return false;
  *exec->link = exec->next;
  if (exec->next)
    exec->next->link = exec->link;
  store->bytes -= exec->bytes;
  store->n--;
  store->ending++;
  return true;
}

// What take_off gave.
static void end(dt_graph_store_t *store, dt_graph_exec_t *exec) {
  dt__graph_unbuild(exec);
  release(exec);
  dt__mutex_lock(&store->mutex);
  store->ending--;
  (void)pthread_cond_broadcast(&store->ended);
  dt__mutex_unlock(&store->mutex);
}

void dt__graph_store_fini(dt_graph_store_t *store) {
  for (dt_graph_exec_t *exec = store->first; exec && take_off(store, exec); exec = store->first)
    end(store, exec);
  dt__mutex_fini(&store->mutex);
  (void)pthread_cond_destroy(&store->ended);
}

static dt_graph_exec_t *find_free(dt_graph_store_t *store, const dt_cuda_gpu_t *gpu,
                                  uint64_t variant) {
  for (dt_graph_exec_t *exec = store->first; exec; exec = exec->next)
    if (!exec->held && exec->variant == variant && exec->gpu == gpu)
      return exec;
  return NULL;
}

dt_status_t dt__graph_lease(dt_graph_store_t *store, dt_cuda_gpu_t *gpu, uint64_t variant,
                            dt_graph_exec_t **out) {
  *out = NULL;
  dt__mutex_lock(&store->mutex);
  dt_graph_exec_t *exec = find_free(store, gpu, variant);
  if (!exec) {
    exec = dt__calloc(1, sizeof(*exec));
    if (!exec) {
      dt__mutex_unlock(&store->mutex);
      return DT_NO_MEMORY();
    }
    atomic_init(&exec->refs, 1); // the store's
    exec->gpu = gpu;
    dt__cuda_gpu_retain(gpu);
    exec->variant = variant;
    exec->next = store->first;
    exec->link = &store->first;
    if (exec->next)
      exec->next->link = &exec->next;
    store->first = exec;
    store->n++;
  }
  exec->held = true;
  exec->n_key = 0; // the key does not name what the last holder's kernels have besides it: scratch
  (void)atomic_fetch_add_explicit(&exec->refs, 1, memory_order_relaxed);
  dt__mutex_unlock(&store->mutex);
  *out = exec;
  return NULL;
}

void dt__graph_give_back(dt_graph_store_t *store, dt_graph_exec_t *exec) {
  dt__mutex_lock(&store->mutex);
  exec->held = false;
  bool empty = atomic_load_explicit(&exec->state, memory_order_acquire) == 0 &&
               !dt__graph_is_built(exec) && take_off(store, exec);
  dt__mutex_unlock(&store->mutex);
  if (empty)
    end(store, exec);
  release(exec);
}

// Mutex held. The one used longest ago that nobody is inside of; off the list.
static dt_graph_exec_t *oldest(dt_graph_store_t *store, const dt_graph_exec_t *but) {
  dt_graph_exec_t *found = NULL;
  int64_t least = 0;
  for (dt_graph_exec_t *exec = store->first; exec; exec = exec->next) {
    int64_t used = atomic_load_explicit(&exec->used, memory_order_relaxed);
    bool idle = atomic_load_explicit(&exec->state, memory_order_relaxed) == 0;
    if (exec == but || !exec->bytes || !idle || (found && used >= least))
      continue;
    found = exec;
    least = used;
  }
  return found;
}

// Mutex held. Reserves all that `exec` is to take, where it fits.
static bool reserve(dt_graph_store_t *store, dt_graph_exec_t *exec, size_t bytes) {
  if (bytes > store->budget || store->bytes - exec->bytes > store->budget - bytes)
    return false;
  store->bytes += bytes - exec->bytes;
  exec->bytes = bytes;
  return true;
}

bool dt__graph_admit(dt_graph_store_t *store, dt_graph_exec_t *exec, uint32_t n) {
  size_t bytes = n * DT_GRAPH_NODE_BYTES;
  if (bytes <= exec->bytes)
    return true;
  if (bytes > store->budget)
    return false;
  for (;;) {
    dt__mutex_lock(&store->mutex);
    bool fits = reserve(store, exec, bytes);
    dt_graph_exec_t *gone = fits ? NULL : oldest(store, exec);
    bool taken = gone && take_off(store, gone);
    store->evicted += taken;
    dt__mutex_unlock(&store->mutex);
    if (fits || !gone)
      return fits;
    if (taken) {
      DT_LOG(DT_LOG_GRAPHS, 1, "dropped: %u kernels, for room in the budget", gone->n);
      end(store, gone);
    }
  }
}

// Who takes one away does so under the mutex; only the holder assembles.
bool dt__graph_measure(dt_graph_store_t *store, const dt_graph_exec_t *exec, uint32_t *out_nodes,
                       size_t *out_bytes) {
  dt__mutex_lock(&store->mutex);
  bool there =
      atomic_load_explicit(&exec->state, memory_order_acquire) != 2 && dt__graph_is_built(exec);
  *out_nodes = there ? exec->n : 0;
  *out_bytes = there ? exec->bytes : 0;
  dt__mutex_unlock(&store->mutex);
  return there;
}

uint32_t dt__graph_nodes(dt_graph_store_t *store) {
  dt__mutex_lock(&store->mutex);
  size_t bytes = store->bytes;
  dt__mutex_unlock(&store->mutex);
  return (uint32_t)(bytes / DT_GRAPH_NODE_BYTES);
}

uint64_t dt__graph_evicted(dt_graph_store_t *store) {
  dt__mutex_lock(&store->mutex);
  uint64_t evicted = store->evicted;
  dt__mutex_unlock(&store->mutex);
  return evicted;
}

uint64_t dt__graph_oldest_tick(dt_graph_store_t *store) {
  dt__mutex_lock(&store->mutex);
  const dt_graph_exec_t *exec = oldest(store, NULL);
  uint64_t tick = exec ? atomic_load_explicit(&exec->tick, memory_order_relaxed) : UINT64_MAX;
  dt__mutex_unlock(&store->mutex);
  return tick;
}

bool dt__graph_evict(dt_graph_store_t *store, size_t bytes) {
  size_t freed = 0;
  while (freed < bytes) {
    dt__mutex_lock(&store->mutex);
    dt_graph_exec_t *gone = oldest(store, NULL);
    bool taken = gone && take_off(store, gone);
    store->evicted += taken;
    dt__mutex_unlock(&store->mutex);
    if (!gone)
      return false;
    if (taken) {
      freed += gone->bytes;
      end(store, gone);
    }
  }
  return true;
}

void dt__graph_forget(dt_graph_store_t *store, uint64_t variant) {
  for (;;) {
    dt__mutex_lock(&store->mutex);
    dt_graph_exec_t *found = store->first;
    while (found && found->variant != variant)
      found = found->next;
    bool taken = found && take_off(store, found);
    while (!found && store->ending)
      dt__cond_wait(&store->ended, &store->mutex);
    dt__mutex_unlock(&store->mutex);
    if (!found)
      return;
    if (taken)
      end(store, found);
  }
}

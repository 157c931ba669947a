// SPDX-License-Identifier: Apache-2.0
// Sessions whose calls run as graphs: generations, copies to keep, trimming, freezing, statistics.
#include "ductile/graphs.h"
#include "runtime/exec/session_device.h"

#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <string.h>

dt_status_t dt__check_call_mode(dt_call_mode_t mode) {
  if (mode != DT_CALL_DEFAULT && mode != DT_CALL_PLAIN && mode != DT_CALL_REDUCE_OVERHEAD)
    return DT_FAIL(DT_E_ARGUMENT, "call mode: %d is none", (int)mode);
  return NULL;
}

// Begins a use of the session.
static dt_status_t begin(dt_session_t *session, const char *what) {
  if (!session)
    return DT_FAIL(DT_E_ARGUMENT, "%s: session: NULL", what);
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "%s in a child after fork", what);
  return dt__status_annotate(dt__session_begin(session), "%s", what);
}

dt_status_t dt_step_begin(dt_session_t *session) {
  DT_TRY(begin(session, "dt_step_begin"));
  dt_session_device_t *own = session->device;
  if (own) {
    dt__graph_pool_end(own->pool);
    dt__graph_tree_restart(&own->graphs.tree, &session->runtime->graphs);
  }
  dt__session_end(session);
  return NULL;
}

dt_status_t dt_session_freeze(dt_session_t *session, bool frozen) {
  DT_TRY(begin(session, "dt_session_freeze"));
  if (session->device)
    session->device->graphs.frozen = frozen;
  dt__session_end(session);
  return NULL;
}

void dt__session_device_trim(dt_session_device_t *own) {
  dt__graph_pool_trim(own->pool);
  dt__cuda_region_trim(&own->scratch, own->gpu, 0);
  dt__cuda_region_trim(&own->staged.region, own->gpu, 0);
  dt_status_t status = dt__cuda_enter(own->gpu->device);
  if (!status) {
    dt__cuda_staging_fini(&own->staging, own->gpu->device);
    dt__cuda_leave(own->gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  own->pool->trims++;
}

static dt_status_t trim(dt_session_t *session) {
  dt_session_device_t *own = session->device;
  if (!own) {
    dt__session_drop(session);
    return NULL;
  }
  DT_TRY(dt__session_settle(session));
  uint32_t depth = own->graphs.tree.depth; // the generation goes on
  dt__graph_tree_fini(&own->graphs.tree, &session->runtime->graphs);
  own->graphs.tree.depth = depth;
  dt__session_device_trim(own);
  dt__session_device_note(session);
  return NULL;
}

dt_status_t dt_session_trim(dt_session_t *session) {
  DT_TRY(begin(session, "dt_session_trim"));
  dt_status_t status = trim(session);
  dt__session_end(session);
  dt__runtime_collect(session->runtime);
  return status;
}

// ---- The budget -----------------------------------------------------------------------------------

static dt_graph_store_t *store_of(const dt_holder_t *holder) {
  uintptr_t runtime = (uintptr_t)holder - offsetof(dt_runtime_t, assembled);
  return &((dt_runtime_t *)runtime)->graphs;
}

static uint64_t held_bytes(const dt_holder_t *holder, dt_memory_t memory) {
  uint64_t nodes = dt__graph_nodes(store_of(holder));
  return nodes * (memory == DT_MEMORY_HOST ? DT_GRAPH_NODE_HOST_BYTES : DT_GRAPH_NODE_BYTES);
}

// Older than a variant that was used as long ago, which costs more to make.
static uint64_t last_used(dt_holder_t *holder, dt_memory_t memory) {
  (void)memory;
  uint64_t tick = dt__graph_oldest_tick(store_of(holder));
  return tick == UINT64_MAX || !tick ? tick : tick - 1;
}

static uint64_t give(dt_holder_t *holder, dt_memory_t memory) {
  uint64_t before = held_bytes(holder, memory);
  if (!dt__graph_evict(store_of(holder), 1))
    return 0;
  uint64_t after = held_bytes(holder, memory);
  return before > after ? before - after : 1; // others assemble meanwhile
}

const dt_holder_kind_t dt__graphs_holder = {held_bytes, last_used, give};

// ---- Copies ---------------------------------------------------------------------------------------

static dt_status_t keep(dt_session_t *session, const dt_tensor_t *tensor, dt_tensor_t **out) {
  DT_TRY(dt__tensor_check_live(tensor));
  if (!tensor->contiguous)
    return DT_FAIL(DT_E_UNSUPPORTED, "a tensor with strides; expected contiguous");
  DT_TRY(dt__session_tensor(session, tensor->dtype, tensor->rank, tensor->sizes, out));
  dt_status_t status = dt__session_copy(session, tensor, *out);
  if (status) {
    dt_tensor_release(*out);
    *out = NULL;
  }
  return status;
}

dt_status_t dt_tensor_keep(dt_session_t *session, const dt_tensor_t *tensor, dt_tensor_t **out) {
  if (out)
    *out = NULL;
  if (!tensor || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_tensor_keep: %s: NULL", tensor ? "out" : "tensor");
  DT_TRY(begin(session, "dt_tensor_keep"));
  dt_status_t status = keep(session, tensor, out);
  dt__session_end(session);
  return dt__status_annotate(status, "dt_tensor_keep");
}

// ---- Statistics -----------------------------------------------------------------------------------

// Executables of the places below `place`; paths are at most DT_GRAPH_MOST_DEPTH deep.
static void count_places(const dt_graph_place_t *place, dt_graph_store_t *store,
                         dt_session_counters_t *stats) {
  for (const dt_graph_place_t *child = place->first; child; child = child->next) {
    uint32_t nodes = 0;
    size_t bytes = 0;
    stats->places++;
    if (child->exec && dt__graph_measure(store, child->exec, &nodes, &bytes)) {
      stats->executables++;
      stats->executable_nodes += nodes;
      stats->executable_bytes += bytes;
    }
    count_places(child, store, stats);
  }
}

void dt__session_count(dt_session_t *session, dt_session_counters_t *all) {
  dt_session_device_t *own = session->device;
  const dt_session_graphs_t *graphs = &own->graphs;
  const dt_graph_counts_t *counts = &graphs->counts;
  uint32_t live = 0;
  (void)dt__graph_pool_sweep(own->pool, &live);
  *all = (dt_session_counters_t){.path_length = graphs->tree.depth,
                                 .generation = own->pool->generation,
                                 .graph_calls = graphs->calls,
                                 .graph_skips = graphs->skips,
                                 .graph_skip = dt__skip_text(graphs->skip),
                                 .unchanged_calls = counts->unchanged,
                                 .builds = counts->builds,
                                 .build_ns = counts->build_ns,
                                 .nodes_set = counts->nodes_set,
                                 .grids_set = counts->grids_set,
                                 .functions_set = counts->functions_set,
                                 .pool_bytes = own->pool->region.bytes,
                                 .scratch_bytes = own->scratch.bytes,
                                 .growths = own->pool->growths,
                                 .growth_ns = (uint64_t)own->pool->growth_ns,
                                 .live_results = live,
                                 .live_bytes = dt__graph_pool_live_bytes(own->pool),
                                 .frozen_builds = graphs->frozen_builds,
                                 .frozen_growths = graphs->frozen_growths,
                                 .staged_inputs = own->staged.all_inputs,
                                 .staged_bytes = own->staged.all_bytes,
                                 .staging_bytes = own->staged.region.bytes,
                                 .shared_set = counts->shared_set,
                                 .direct_calls = counts->direct};
  count_places(&graphs->tree.root, &session->runtime->graphs, all);
}

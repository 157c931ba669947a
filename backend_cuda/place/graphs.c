// SPDX-License-Identifier: Apache-2.0
// Sessions whose calls run as graphs: generations, freezing, trimming, statistics. And the graphs
// of a runtime, which its budget counts.
#include "backend_cuda/place/place.h"

#include "runtime/base/process.h"
#include "runtime/base/status.h"

void dt__cuda_session_step(dt_session_t *session) {
  dt_cuda_session_t *own = session->own;
  dt__graph_pool_end(own->pool);
  dt__graph_tree_restart(&own->graphs.tree, own->store);
}

void dt__cuda_session_freeze(dt_session_t *session, bool frozen) {
  dt__cuda_session(session)->graphs.frozen = frozen;
}

void dt__cuda_session_drop(dt_cuda_session_t *own) {
  dt__graph_pool_trim(own->pool);
  dt__cuda_region_trim(&own->scratch, own->gpu, 0);
  dt__cuda_region_trim(&own->staged_region, own->gpu, 0);
  dt_status_t status = dt__cuda_enter(own->gpu->device);
  if (!status) {
    dt__cuda_staging_fini(&own->staging, own->gpu->device);
    dt__cuda_leave(own->gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  own->pool->trims++;
}

dt_status_t dt__cuda_session_trim(dt_session_t *session) {
  dt_cuda_session_t *own = session->own;
  DT_TRY(dt__cuda_session_settle(session));
  uint32_t depth = own->graphs.tree.depth; // the generation goes on
  dt__graph_tree_fini(&own->graphs.tree, own->store);
  own->graphs.tree.depth = depth;
  dt__cuda_session_drop(own);
  dt__cuda_session_note(session);
  return NULL;
}

// ---- The budget -----------------------------------------------------------------------------------

static dt_graph_store_t *store_of(const dt_holder_t *holder) {
  uintptr_t shared = (uintptr_t)holder - offsetof(dt_cuda_shared_t, assembled);
  return &((dt_cuda_shared_t *)shared)->graphs;
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

static const dt_holder_kind_t holder_kind = {held_bytes, last_used, give};

dt_status_t dt__cuda_graphs_begin(dt_runtime_t *runtime) {
  dt_cuda_shared_t *shared = dt__calloc(1, sizeof(*shared));
  if (!shared)
    return DT_NO_MEMORY();
  size_t n = 0;
  const dt_param_row_t *rows = dt__cuda_params_rows(&n);
  dt_status_t status = dt__params_read(rows, n, &shared->params);
  if (!status)
    status = dt__graph_store_init(&shared->graphs, (size_t)shared->params.graph_mib << 20);
  if (status) {
    dt__free(shared);
    return status;
  }
  runtime->shared[DT_CUDA] = shared;
  dt__budget_join(&runtime->budget, &shared->assembled, &holder_kind);
  return NULL;
}

void dt__cuda_graphs_end(dt_runtime_t *runtime) {
  dt_cuda_shared_t *shared = runtime->shared[DT_CUDA];
  if (!shared)
    return;
  dt__budget_leave(&runtime->budget, &shared->assembled);
  if (!dt__forked())
    dt__graph_store_fini(&shared->graphs);
  dt__free(shared);
}

void dt__cuda_graphs_count(dt_runtime_t *runtime, dt_runtime_stats_t *all) {
  all->evicted_graphs = dt__graph_evicted(dt__cuda_graphs(runtime));
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

void dt__cuda_session_count(dt_session_t *session, dt_session_counters_t *all) {
  dt_cuda_session_t *own = session->own;
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
                                 .staged_inputs = own->staged_count,
                                 .staged_bytes = own->staged_bytes,
                                 .staging_bytes = own->staged_region.bytes,
                                 .shared_set = counts->shared_set,
                                 .direct_calls = counts->direct};
  count_places(&graphs->tree.root, own->store, all);
}

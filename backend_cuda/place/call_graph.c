// SPDX-License-Identifier: Apache-2.0
// Calls that run as CUDA graphs: which graph, what has to be set in it, one launch. What a graph is
// set for is a key: everything that the host program's launches depend on. Where it is the same as
// last time, the host program does not run at all.
#include "backend_cuda/place/place.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/exec/timing.h"

#include <string.h>

static const char *const skip_texts[DT_SKIP_COUNT] = {
#define SKIP(id, text) [DT_SKIP_##id] = text,
#include "cudagraphs/skips.def"
};

const char *dt__skip_text(uint32_t skip) { return skip < DT_SKIP_COUNT ? skip_texts[skip] : NULL; }

// ---- Results --------------------------------------------------------------------------------------

dt_status_t dt__cuda_call_result(const dt_call_t *call, uint32_t index, size_t bytes,
                                 dt_storage_t **out) {
  dt_session_t *session = call->session;
  dt_cuda_session_t *own = session->own;
  const dt_graph_maker_t maker = {
      .function = call->function->name, .call = own->graphs.tree.depth, .output = index};
  return call->managed ? dt__graph_pool_take(own->pool, bytes, &maker, out)
                       : dt__cuda_memory(session->home, session, bytes, out);
}

// ---- Whether --------------------------------------------------------------------------------------

static void note_skip(const dt_call_t *call, dt_skip_t skip) {
  dt_session_graphs_t *graphs = &dt__cuda_session(call->session)->graphs;
  dt_function_t *function = call->function;
  graphs->skips++;
  graphs->skip = skip;
  graphs->frozen_builds += skip == DT_SKIP_FROZEN;
  (void)atomic_fetch_add_explicit(&function->graph_skips, 1, memory_order_relaxed);
  atomic_store_explicit(&function->graph_skip, skip_texts[skip], memory_order_relaxed);
  uint32_t bit = 1u << skip;
  uint32_t told = atomic_fetch_or_explicit(&function->graph_skips_told, bit, memory_order_relaxed);
  if (!(told & bit))
    DT_LOG(DT_LOG_GRAPHS, 1, "%s: no graph: %s", function->name, skip_texts[skip]);
}

static dt_status_t is_captured(const dt_cuda_session_t *own, bool *out) {
  int capturing = 0;
  if (own->stream->lent)
    DT_CUDA_TRY(own->gpu->device, stream_capturing, own->stream->handle, &capturing);
  *out = capturing != 0;
  return NULL;
}

// A generation whose results are all released ends with the call that begins.
static void end_if_dead(dt_cuda_session_t *own, dt_graph_store_t *store, uint64_t *out_live) {
  uint32_t live = 0;
  *out_live = dt__graph_pool_sweep(own->pool, &live);
  if (live || !own->graphs.tree.depth)
    return;
  own->pool->generation++;
  dt__graph_tree_restart(&own->graphs.tree, store);
}

// What can be told before anything is prepared.
static dt_status_t find_reason(const dt_call_t *call, const dt_compiled_t *compiled,
                               dt_skip_t *out) {
  const dt_cuda_session_t *own = call->session->own;
  bool captured = false;
  *out = DT_SKIP_NONE;
  if (!dt__cuda_shared(call->session->runtime)->params.graphs)
    *out = DT_SKIP_OFF;
  else if (compiled->n_launches == 0)
    *out = DT_SKIP_NO_KERNELS;
  else if (own->graphs.tree.depth >= DT_GRAPH_MOST_DEPTH)
    *out = DT_SKIP_DEPTH;
  else if (compiled->n_others && own->gpu->device->cuda->version < DT_GRAPH_BRANCHES_VERSION)
    *out = DT_SKIP_BRANCHES;
  else if (call->control && compiled->n_loops)
    *out = DT_SKIP_ENDS;
  if (!*out)
    DT_TRY(is_captured(own, &captured));
  if (captured)
    *out = DT_SKIP_CAPTURE;
  return NULL;
}

dt_status_t dt__graph_wanted(const dt_call_t *call, const dt_compiled_t *compiled, bool *out) {
  dt_skip_t skip = DT_SKIP_NONE;
  *out = false;
  if (call->mode != DT_CALL_REDUCE_OVERHEAD)
    return NULL;
  uint64_t live = 0;
  end_if_dead(call->session->own, dt__cuda_session(call->session)->store, &live);
  DT_TRY(find_reason(call, compiled, &skip));
  if (skip)
    note_skip(call, skip);
  *out = !skip;
  return NULL;
}

// ---- Keys -----------------------------------------------------------------------------------------

static dt_status_t make_key(const dt_call_t *call, const dt_variant_t *variant,
                            const dt_bindings_t *bindings, const dt_graph_frame_t *graph,
                            uint32_t *out_n) {
  const dt_session_t *session = call->session;
  dt_session_graphs_t *graphs = &dt__cuda_session(session)->graphs;
  uint32_t n_symbols = variant->n_symbols;
  uint32_t n_addresses = call->function->n_inputs + call->function->n_outputs;
  const uint64_t rest[] = {dt__cuda_address(graph->launch.frame.block), bindings->id,
                           graph->launch.record, dt__cuda_session(session)->pool->trims,
                           atomic_load_explicit(&variant->kernels_swapped, memory_order_acquire)};
  uint32_t n_rest = (uint32_t)(sizeof(rest) / sizeof(rest[0]));
  uint32_t n = n_symbols + n_addresses + n_rest;
  if (n > graphs->key_cap) {
    uint64_t *key = dt__calloc(n, sizeof(*key));
    if (!key)
      return DT_NO_MEMORY();
    dt__free(graphs->key);
    graphs->key = key;
    graphs->key_cap = n;
  }
  if (n_symbols) // a variant of one size alone has none, and so has a new session
    memcpy(graphs->key, session->symbols, n_symbols * sizeof(uint64_t));
  memcpy(graphs->key + n_symbols, session->addresses, n_addresses * sizeof(uint64_t));
  memcpy(graphs->key + n_symbols + n_addresses, rest, sizeof(rest));
  *out_n = n;
  return NULL;
}

// ---- A call ---------------------------------------------------------------------------------------

// The executable of the call's place, entered. NULL: none is to be had.
static dt_status_t enter_place(const dt_call_t *call, dt_graph_place_t *place,
                               dt_graph_exec_t **out) {
  dt_cuda_session_t *own = call->session->own;
  dt_graph_store_t *store = own->store;
  *out = NULL;
  for (int round = 0; round < 2; round++) {
    if (!place->exec)
      DT_TRY(dt__graph_lease(store, own->gpu, place->variant, &place->exec));
    if (dt__graph_enter(place->exec)) {
      *out = place->exec;
      return NULL;
    }
    dt__graph_give_back(store, place->exec); // it was taken away
    place->exec = NULL;
  }
  return NULL;
}

// The kernels are known: assembles the graph where it has not all of them. Where the device has no
// memory for it, graphs that nobody is inside of make room.
static dt_status_t settle(const dt_call_t *call, dt_graph_frame_t *graph, uint32_t n_key) {
  const uint64_t *key = dt__cuda_session(call->session)->graphs.key;
  dt_runtime_t *runtime = call->session->runtime;
  uint64_t builds = graph->counts->builds;
  dt_status_t status = dt__graph_settle(graph, key, n_key);
  if (dt_status_code(status) == DT_E_NO_MEMORY && !dt__graph_is_whole(graph->exec)) {
    dt_status_free(status);
    (void)dt__graph_evict(dt__cuda_session(call->session)->store,
                          graph->exec->n * DT_GRAPH_NODE_BYTES);
    status = dt__graph_settle(graph, key, n_key);
  }
  if (graph->counts->builds != builds) // the call is inside of this one, which stays
    dt__budget_keep(&runtime->budget);
  return status;
}

// Memory that is not to be had is a reason, not a failure: without a graph less is needed, and what
// that lacks is told by itself.
static dt_status_t forgive(const dt_call_t *call, dt_status_t status, dt_skip_t *out_skip) {
  if (dt_status_code(status) != DT_E_NO_MEMORY)
    return status;
  DT_LOG(DT_LOG_GRAPHS, 1, "%s: %s", call->function->name, dt_status_message(status));
  dt_status_free(status);
  *out_skip = DT_SKIP_MEMORY;
  return NULL;
}

// Runs the host program of a segment into the graph.
static dt_status_t set_graph(const dt_call_t *call, const dt_compiled_t *compiled, uint32_t segment,
                             dt_graph_frame_t *graph, uint32_t n_key, dt_skip_t *out_skip) {
  dt_session_graphs_t *graphs = &dt__cuda_session(call->session)->graphs;
  dt_graph_store_t *store = dt__cuda_session(call->session)->store;
  dt_graph_exec_t *exec = graph->exec;
  uint32_t n = compiled->n_segments > 1 ? 1 : compiled->n_launches; // known exactly below
  if (!dt__graph_is_built(exec) && graphs->frozen)
    *out_skip = DT_SKIP_FROZEN;
  else if (!dt__graph_is_built(exec) && !dt__graph_admit(store, exec, n))
    *out_skip = DT_SKIP_BUDGET;
  if (*out_skip)
    return NULL;
  graph->launch.frame.launch = dt__graph_take;
  graph->launch.frame.region = dt__graph_region;
  dt__graph_begin(graph, graphs->key, n_key);
  dt__compiled_queue(compiled, segment, &graph->launch.frame);
  dt_status_t status = graph->launch.status;
  graph->launch.status = NULL;
  DT_TRY(status);
  if (exec->n == 0) // a segment without kernels
    return NULL;
  // Slices may need more than one launch a kernel, and more than at the sizes before.
  if (!dt__graph_is_whole(exec) && graphs->frozen)
    *out_skip = DT_SKIP_FROZEN;
  else if (!dt__graph_is_whole(exec) && !dt__graph_admit(store, exec, exec->n))
    *out_skip = DT_SKIP_BUDGET;
  if (*out_skip) {
    dt__graph_cut(exec);
    return NULL;
  }
  return settle(call, graph, n_key);
}

// Kernel by kernel, after everything was prepared. `launches`: how many there were before.
static dt_status_t launch_kernels(const dt_call_t *call, const dt_compiled_t *compiled,
                                  uint32_t segment, uint64_t launches, dt_graph_frame_t *graph) {
  graph->launch.frame.launch = dt__cuda_launch_of(call);
  graph->launch.frame.region = NULL;
  graph->launch.follows = false;
  graph->launch.launches = launches;
  dt__compiled_queue(compiled, segment, &graph->launch.frame);
  if (call->recorder)
    dt__record_run(call->recorder);
  return graph->launch.status;
}

// One launch, which a recorder knows by the segment.
static dt_status_t replay(const dt_call_t *call, const dt_variant_t *variant, uint32_t segment,
                          dt_graph_frame_t *graph) {
  dt_recorder_t *recorder = call->recorder;
  if (!recorder)
    return dt__graph_launch(graph);
  dt_stamp_t *stamp =
      dt__record_queue(recorder, DT_STAMP_GRAPH, &variant->compiled->segments[segment], NULL, 0);
  dt_status_t status = dt__graph_launch(graph);
  dt__record_queued(recorder, stamp, 0);
  dt__record_run(recorder);
  return status;
}

// Whether the place's executable is of other sizes, and so many of its kernels of other code that
// plain launches are sooner done than setting it. Not for sizes that come again.
static bool is_far(const dt_call_t *call, const dt_variant_t *variant, uint32_t segment,
                   dt_graph_frame_t *graph) {
  const uint64_t *key = dt__cuda_session(call->session)->graphs.key;
  size_t bytes = variant->n_symbols * sizeof(*key);
  dt_graph_exec_t *exec = graph->exec;
  uint64_t sizes = dt__hash(key, bytes, 1) | 1;
  if (!dt__graph_is_whole(exec) || !exec->n_key || memcmp(exec->key, key, bytes) == 0 ||
      exec->direct == sizes)
    return false;
  graph->launch.frame.launch = dt__graph_compare;
  graph->launch.frame.region = dt__graph_compare_region;
  graph->at = graph->others = 0;
  dt__compiled_queue(variant->compiled, segment, &graph->launch.frame);
  bool far = graph->others != UINT32_MAX &&
             (int64_t)graph->others > dt__cuda_shared(call->session->runtime)->params.graph_codes;
  exec->direct = far ? sizes : 0;
  return far;
}

static dt_status_t launch_graph(const dt_call_t *call, const dt_variant_t *variant,
                                const dt_bindings_t *bindings, uint32_t segment,
                                dt_graph_place_t *place, dt_graph_frame_t *graph,
                                dt_skip_t *out_skip) {
  dt_session_graphs_t *graphs = &dt__cuda_session(call->session)->graphs;
  uint64_t launches = graph->launch.launches;
  uint32_t n_key = 0;
  DT_TRY(make_key(call, variant, bindings, graph, &n_key));
  DT_TRY(enter_place(call, place, &graph->exec));
  if (!graph->exec) {
    *out_skip = DT_SKIP_BUDGET;
    return NULL;
  }
  dt__budget_touch(&call->session->runtime->budget, &graph->exec->tick);
  dt_status_t status = NULL;
  if (dt__graph_is_set_for(graph->exec, graphs->key, n_key)) {
    graphs->counts.unchanged++;
    graph->launch.launches += graph->exec->n;
  } else if (is_far(call, variant, segment, graph)) {
    graphs->counts.direct++;
    status = launch_kernels(call, variant->compiled, segment, launches, graph);
    dt__graph_leave(graph->exec);
    return status;
  } else {
    status = set_graph(call, variant->compiled, segment, graph, n_key, out_skip);
  }
  if (!status && !*out_skip && graph->exec->n)
    status = replay(call, variant, segment, graph);
  dt__graph_leave(graph->exec);
  return forgive(call, status, out_skip);
}

// Numbers, sizes, results and memory of a segment. The results of later ones, whose sizes data
// says, have memory of their own: they move at each call in any case, and the block grows over
// what is behind it.
static dt_status_t prepare(const dt_queued_t *queued, uint32_t segment) {
  dt_call_t *call = queued->call;
  const dt_variant_t *variant = queued->variant;
  dt_cuda_session_t *own = call->session->own;
  dt_frame_t *frame = queued->frame;
  DT_TRY(dt__queued_read(queued, segment));
  dt__note_part(call->recorder, DT_PROFILE_WAIT);
  DT_TRY(dt__segment_plan(call, variant, segment, frame));
  dt__note_part(call->recorder, DT_PROFILE_PLAN);
  call->managed = segment == 0;
  DT_TRY(dt__segment_outputs(call, variant, segment));
  if (variant->compiled->n_segments > 1)
    DT_TRY(dt__session_lease_segment(own, segment, frame->block_bytes));
  else
    DT_TRY(dt__session_lease_pool(own, frame->block_bytes, false, &own->block));
  frame->block = dt__cuda_pointer(own->block);
  dt__note_part(call->recorder, DT_PROFILE_MEMORY);
  return NULL;
}

// A profile wants times of kernels: they are launched one by one, in the place and memory of their
// graph.
static bool is_split(const dt_call_t *call) {
  return call->recorder && !call->recorder->profile->whole_graphs;
}

// Each segment has a place of its own in the tree, behind the one before it.
static dt_status_t run_segment(const dt_call_t *call, const dt_variant_t *variant,
                               const dt_bindings_t *bindings, uint32_t segment, uint64_t live,
                               dt_graph_frame_t *graph, dt_skip_t *out_skip) {
  dt_session_graphs_t *graphs = &dt__cuda_session(call->session)->graphs;
  uint64_t launches = graph->launch.launches;
  dt_graph_place_t *place = NULL;
  dt_skip_t skip = DT_SKIP_NONE;
  DT_TRY(dt__graph_tree_find(&graphs->tree, variant->id + segment, live, &place));
  if (!place) {
    skip = DT_SKIP_DEPTH;
  } else if (is_split(call)) {
    graphs->counts.direct++;
    call->recorder->split_graphs++;
    DT_TRY(launch_kernels(call, variant->compiled, segment, launches, graph));
  } else {
    DT_TRY(launch_graph(call, variant, bindings, segment, place, graph, &skip));
  }
  if (skip) {
    *out_skip = skip;
    return launch_kernels(call, variant->compiled, segment, launches, graph);
  }
  dt__graph_tree_advance(&graphs->tree, place);
  return NULL;
}

// What a segment does not know yet is no part of its key.
static void forget_numbers(const dt_call_t *call, const dt_compiled_t *compiled) {
  dt_session_t *session = call->session;
  if (compiled->n_segments == 1)
    return;
  for (uint32_t i = 0; i < compiled->n_readbacks; i++)
    session->symbols[compiled->readbacks[i].symbol] = 0;
  memset(session->addresses + call->function->n_inputs, 0,
         call->function->n_outputs * sizeof(session->addresses[0]));
}

dt_status_t dt__graph_call(dt_cuda_frame_t *frame, const dt_bindings_t *bindings) {
  const dt_call_t *call = frame->queued.call;
  const dt_variant_t *variant = frame->queued.variant;
  dt_cuda_session_t *own = call->session->own;
  dt_session_graphs_t *graphs = &own->graphs;
  dt_skip_t skip = DT_SKIP_NONE;
  uint64_t live = 0;
  uint32_t n_live = 0;
  end_if_dead(own, dt__cuda_session(call->session)->store, &live);
  forget_numbers(call, variant->compiled);
  for (uint32_t k = 0; k < variant->compiled->n_segments; k++) {
    if (k)
      live = dt__graph_pool_sweep(own->pool, &n_live);
    DT_TRY(prepare(&frame->queued, k));
    DT_TRY(run_segment(call, variant, bindings, k, live, &frame->graph, &skip));
  }
  if (skip) {
    note_skip(call, skip);
    return NULL;
  }
  graphs->calls++;
  (void)atomic_fetch_add_explicit(&call->function->graph_calls, 1, memory_order_relaxed);
  return NULL;
}

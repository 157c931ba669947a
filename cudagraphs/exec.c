// SPDX-License-Identifier: Apache-2.0
// See exec.h.
#include "cudagraphs/exec_private.h"

#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <string.h>

// Forms that one call sets without need, at 1.5 us each.
#define MOST_FORMS 12u

// ---- Nodes ----------------------------------------------------------------------------------------

static dt_cu_kernel_node_t node_params(const dt_cuda_ready_t *ready, void **params) {
  return (dt_cu_kernel_node_t){.function = ready->kernel->function,
                               .grid = {ready->blocks, 1, 1},
                               .block = {ready->kernel->info.threads, 1, 1},
                               .shared_bytes = ready->shared_bytes,
                               .params = params};
}

static dt_status_t shadow(dt_graph_node_t *node, const dt_cuda_ready_t *ready, bool empty) {
  if (ready->n_params > node->cap) {
    uint64_t *params = dt__calloc(ready->n_params, sizeof(*params));
    if (!params)
      return DT_NO_MEMORY();
    dt__free(node->params);
    node->params = params;
    node->cap = ready->n_params;
  }
  node->kernel = ready->kernel;
  node->blocks = ready->blocks;
  node->shared_bytes = ready->shared_bytes;
  node->n_params = ready->n_params;
  node->empty = empty;
  memcpy(node->params, ready->params, ready->n_params * sizeof(node->params[0]));
  return NULL;
}

static bool is_shadow(const dt_graph_node_t *node, const dt_cuda_ready_t *ready) {
  return node->kernel == ready->kernel && node->blocks == ready->blocks &&
         node->shared_bytes == ready->shared_bytes && node->n_params == ready->n_params &&
         memcmp(node->params, ready->params, ready->n_params * sizeof(node->params[0])) == 0;
}

void dt__graph_drop(dt_graph_exec_t *exec) {
  const dt_cuda_t *cuda = exec->gpu->device->cuda;
  if (exec->exec)
    (void)cuda->graph_exec_destroy(exec->exec); // in flight: when it has ended
  if (exec->graph)
    (void)cuda->graph_destroy(exec->graph);
  exec->exec = NULL;
  exec->graph = NULL;
  exec->n_built = 0;
  for (uint32_t k = 0; k < exec->n; k++)
    exec->nodes[k].node = NULL;
}

// Forgets the nodes from `at` on: another number of launches came before them than last time.
static void cut_to(dt_graph_exec_t *exec, uint32_t at) {
  dt__graph_drop(exec);
  while (exec->n > at)
    dt__free(exec->nodes[--exec->n].params);
}

// `ready` NULL: a mark without a kernel.
static dt_status_t append(dt_graph_exec_t *exec, dt_graph_kind_t kind, const dt_cuda_ready_t *ready,
                          bool empty) {
  if (exec->n == exec->cap) {
    uint32_t cap = exec->cap ? 2 * exec->cap : 32;
    dt_graph_node_t *nodes = dt__calloc(cap, sizeof(*nodes));
    if (!nodes)
      return DT_NO_MEMORY();
    if (exec->n)
      memcpy(nodes, exec->nodes, exec->n * sizeof(*nodes));
    dt__free(exec->nodes);
    exec->nodes = nodes;
    exec->cap = cap;
  }
  memset(&exec->nodes[exec->n], 0, sizeof(exec->nodes[0]));
  exec->nodes[exec->n].kind = kind;
  if (ready)
    DT_TRY(shadow(&exec->nodes[exec->n], ready, empty));
  exec->n++;
  return NULL;
}

// Sets a node of the executable, where there is one, and its shadow. Room for the shadow comes
// first, so that the two never differ.
static dt_status_t set(dt_graph_frame_t *frame, dt_graph_node_t *node, dt_cuda_ready_t *ready,
                       bool empty) {
  dt_graph_exec_t *exec = frame->exec;
  dt_cuda_device_t *device = exec->gpu->device;
  dt_graph_node_t was = *node;
  // Edges say what a kernel does about the work before it.
  if (was.kernel->info.waits != ready->kernel->info.waits)
    dt__graph_drop(exec);
  if (ready->n_params > node->cap)
    dt__graph_drop(exec); // a kernel with more parameters: not another code of the same
  if (node->node) {
    void *params[] = {ready->params};
    dt_cu_kernel_node_t now = node_params(ready, params);
    dt_status_t status =
        dt__cuda_check(device, device->cuda->graph_set_kernel(exec->exec, node->node, &now),
                       dt__cuda_symbol(DT_CUDA_SYM_graph_set_kernel));
    if (status) {
      dt__graph_drop(exec); // nobody says what it is set to
      return status;
    }
    frame->counts->nodes_set++;
    frame->counts->grids_set += was.blocks != ready->blocks;
    frame->counts->shared_set += was.shared_bytes != ready->shared_bytes;
    frame->counts->functions_set += was.kernel->function != ready->kernel->function;
  }
  return shadow(node, ready, empty);
}

// The node that the next of the host program's kernels or marks goes to; NULL: there is none yet.
static dt_graph_node_t *next_node(dt_graph_frame_t *frame, dt_graph_kind_t kind) {
  dt_graph_exec_t *exec = frame->exec;
  if (frame->at < exec->n && exec->nodes[frame->at].kind != kind)
    cut_to(exec, frame->at);
  uint32_t at = frame->at++;
  return at < exec->n ? &exec->nodes[at] : NULL;
}

static dt_status_t take_ready(dt_graph_frame_t *frame, dt_graph_node_t *node, dt_graph_kind_t kind,
                              dt_cuda_ready_t *ready, bool empty) {
  if (!node)
    return append(frame->exec, kind, ready, empty);
  return is_shadow(node, ready) ? NULL : set(frame, node, ready, empty);
}

static dt_status_t take(dt_graph_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                        int64_t count, int64_t bytes) {
  dt_cuda_ready_t ready;
  dt_graph_node_t *node = next_node(frame, DT_GRAPH_KERNEL);
  DT_TRY(dt__cuda_ready(&frame->launch, fn, words, count, bytes, 0, &ready));
  uint32_t fit = dt__graph_form(frame, node, &ready);
  frame->launch.launches++;
  DT_TRY(take_ready(frame, node, DT_GRAPH_KERNEL, &ready, count <= 0));
  frame->exec->nodes[frame->at - 1].fit = fit;
  return NULL;
}

// The condition is the predicate's byte, but at most `n_cases` - 1; of two without a number.
static dt_status_t take_mark(dt_graph_frame_t *frame, dt_graph_kind_t kind, uint32_t n_cases,
                             const void *predicate) {
  dt_cuda_ready_t ready;
  dt_kernel_fn_t fn = NULL;
  dt_graph_node_t *node = next_node(frame, kind);
  bool decides = kind == DT_GRAPH_IF || kind == DT_GRAPH_WHILE || kind == DT_GRAPH_AGAIN ||
                 kind == DT_GRAPH_SWITCH;
  if (!decides)
    return node ? NULL : append(frame->exec, kind, NULL, false);
  DT_TRY(dt__cuda_gpu_setter(frame->launch.gpu, &fn));
  const uint64_t words[] = {node ? node->condition : 0, dt__cuda_address(predicate),
                            n_cases ? n_cases - 1 : 1};
  DT_TRY(dt__cuda_ready(&frame->launch, fn, words, 1, 0, 1, &ready));
  uint32_t at = frame->at - 1;
  DT_TRY(take_ready(frame, node, kind, &ready, false));
  frame->exec->nodes[at].n_cases = n_cases;
  return NULL;
}

void dt__graph_region(dt_frame_t *frame, int64_t mark, const void *predicate) {
  dt_graph_frame_t *graph = (dt_graph_frame_t *)frame;
  if (!graph->launch.status)
    graph->launch.status = take_mark(graph, (dt_graph_kind_t)(mark & ((1 << DT_MARK_CASES) - 1)),
                                     (uint32_t)(mark >> DT_MARK_CASES), predicate);
}

void dt__graph_take(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                    int64_t grain) {
  dt_graph_frame_t *graph = (dt_graph_frame_t *)frame;
  if (!graph->launch.status)
    graph->launch.status = take(graph, fn, words, count, grain);
}

// Work that is empty has another code perhaps, and is not launched.
void dt__graph_compare(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words, int64_t count,
                       int64_t grain) {
  (void)words, (void)grain;
  dt_graph_frame_t *graph = (dt_graph_frame_t *)frame;
  const dt_graph_exec_t *exec = graph->exec;
  uint32_t at = graph->at++;
  if (graph->others == UINT32_MAX)
    return;
  if (at >= exec->n || exec->nodes[at].kind != DT_GRAPH_KERNEL)
    graph->others = UINT32_MAX;
  else if (count > 0)
    graph->others += exec->nodes[at].kernel->function != dt__cuda_kernel_of(fn)->function;
}

// Launched one by one, the host would wait for what decides.
void dt__graph_compare_region(dt_frame_t *frame, int64_t mark, const void *predicate) {
  (void)mark, (void)predicate;
  ((dt_graph_frame_t *)frame)->others = UINT32_MAX;
}

// Nodes that no kernel came to: slices that these sizes do not have.
static dt_status_t empty_rest(dt_graph_frame_t *frame) {
  dt_graph_exec_t *exec = frame->exec;
  for (uint32_t k = frame->at; k < exec->n; k++) {
    dt_graph_node_t *node = &exec->nodes[k];
    if (node->empty || node->kind != DT_GRAPH_KERNEL)
      continue;
    dt_cuda_ready_t ready = {.kernel = node->kernel,
                             .blocks = node->blocks,
                             .shared_bytes = node->shared_bytes,
                             .n_params = node->n_params};
    memcpy(ready.params, node->params, node->n_params * sizeof(ready.params[0]));
    ready.params[node->kernel->info.n_words + DT_CUDA_TAIL_COUNT] = 0;
    DT_TRY(set(frame, node, &ready, true));
  }
  return NULL;
}

// ---- Before and after the host program -------------------------------------------------------------

void dt__graph_cut(dt_graph_exec_t *exec) {
  while (exec->exec && exec->n > exec->n_built)
    dt__free(exec->nodes[--exec->n].params);
}

bool dt__graph_is_whole(const dt_graph_exec_t *exec) {
  return exec->exec && exec->n == exec->n_built;
}

static bool is_key(const dt_graph_exec_t *exec, const uint64_t *key, uint32_t n) {
  return exec->n_key == n && n && memcmp(exec->key, key, n * sizeof(*key)) == 0;
}

void dt__graph_begin(dt_graph_frame_t *frame, const uint64_t *key, uint32_t n) {
  dt__graph_cut(frame->exec); // of a call that failed
  frame->equal = is_key(frame->exec, key, n);
  frame->at = 0;
  frame->forms_left = MOST_FORMS;
  frame->deferred = false;
  frame->exec->n_key = 0;
}

bool dt__graph_is_built(const dt_graph_exec_t *exec) { return exec->exec != NULL; }

// ---- Keys -----------------------------------------------------------------------------------------

bool dt__graph_is_set_for(const dt_graph_exec_t *exec, const uint64_t *key, uint32_t n) {
  return exec->exec && !exec->deferred && is_key(exec, key, n);
}

static dt_status_t keep_key(dt_graph_exec_t *exec, const uint64_t *key, uint32_t n) {
  if (n > exec->key_cap) {
    uint64_t *room = dt__calloc(n, sizeof(*room));
    if (!room)
      return DT_NO_MEMORY();
    dt__free(exec->key);
    exec->key = room;
    exec->key_cap = n;
  }
  memcpy(exec->key, key, n * sizeof(*key));
  exec->n_key = n;
  return NULL;
}

// ---- A call ---------------------------------------------------------------------------------------

dt_status_t dt__graph_settle(dt_graph_frame_t *frame, const uint64_t *key, uint32_t n) {
  dt_graph_exec_t *exec = frame->exec;
  exec->n_key = 0;
  DT_TRY(empty_rest(frame));
  if (!dt__graph_is_whole(exec))
    DT_TRY(dt__graph_build(frame));
  exec->deferred = frame->deferred;
  exec->direct = 0;
  return keep_key(exec, key, n);
}

dt_status_t dt__graph_launch(dt_graph_frame_t *frame) {
  dt_graph_exec_t *exec = frame->exec;
  DT_CUDA_TRY(exec->gpu->device, graph_launch, exec->exec, frame->launch.stream);
  frame->counts->replays++;
  return NULL;
}

void dt__graph_unbuild(dt_graph_exec_t *exec) {
  dt_status_t status = dt__cuda_enter(exec->gpu->device);
  if (!status) {
    dt__graph_drop(exec);
    dt__cuda_leave(exec->gpu->device);
  }
  dt_status_free(status); // a lost context has nothing to give back
  for (uint32_t k = 0; k < exec->n; k++)
    dt__free(exec->nodes[k].params);
  dt__free(exec->nodes);
  dt__free(exec->key);
  exec->exec = NULL;
  exec->graph = NULL;
  exec->nodes = NULL;
  exec->key = NULL;
  exec->n = exec->cap = exec->n_built = exec->n_key = exec->key_cap = 0;
  exec->direct = 0;
}

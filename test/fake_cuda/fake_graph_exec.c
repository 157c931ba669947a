// SPDX-License-Identifier: Apache-2.0
// Executables of the fake driver's graphs: copies whose kernels may be set and turned off, and
// their launches, each with what the executable was at that time. A launch of one that is still in
// flight comes after its last launch, on whatever stream that is.
#include "test/fake_cuda/fake_graph.h"

#include <stdlib.h>
#include <string.h>

#define CUDA_SYM(name, symbol, params) FAKE_API dt_cu_result_t symbol params;
#include "backend_cuda/driver/driver_syms.def"

#define MAX_EXECS 65536

static struct CUgraphExec_st {
  bool live;
  uint32_t pending; // launches that are queued
  fake_shape_t shape;
  fake_setting_t **settings; // of the shape's kernels
  bool *enabled;
  uint32_t
      *clusters; // blocks, of a kernel that a node has had: it is launched in these from then on
  fake_order_t *last; // launch
  uint64_t bytes;     // of device memory
} execs[MAX_EXECS];
static uint32_t n_execs, next_exec;

// A launch that the host may not have waited for, and the modules whose code it runs.
typedef struct flight_t {
  struct flight_t *next;
  fake_order_t *order;
  uint32_t n;
  uint64_t modules[];
} flight_t;
static flight_t *flights;

static struct {
  uint64_t exec, node, most;
} memory = {65536, 1024, 0};

void fake_cuda_graph_memory(uint64_t an_exec, uint64_t a_node, uint64_t most) {
  memory.exec = an_exec;
  memory.node = a_node;
  memory.most = most;
}

static void *room(size_t n, size_t size) {
  void *at = calloc(n ? n : 1, size);
  if (!at)
    abort();
  return at;
}

// ---- Copies of graphs ---------------------------------------------------------------------------

// Whether the edges of the graph and of its bodies allow an order.
static bool is_sound(dt_cu_graph_t graph) {
  bool *done = room(graph->n, sizeof(*done));
  uint32_t n = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t k = 0; k < graph->n; k++) {
      const fake_node_t *is = &graph->nodes[k]->is;
      bool ready = !done[k];
      for (uint32_t e = 0; e < is->n_in && ready; e++)
        ready = done[is->in[e].from];
      done[k] |= ready;
      n += ready;
      moved |= ready;
    }
  }
  free(done);
  bool sound = n == graph->n && fake_conditions_used(graph);
  for (uint32_t k = 0; k < graph->n && sound; k++)
    for (uint32_t b = 0; b < graph->nodes[k]->is.n_bodies && sound; b++)
      sound = is_sound(graph->nodes[k]->bodies[b]);
  return sound;
}

static uint32_t copy_graph(dt_cu_graph_exec_t exec, dt_cu_graph_t graph);

static void copy_node(dt_cu_graph_exec_t exec, dt_cu_node_t node, fake_shape_node_t *to) {
  fake_shape_t *shape = &exec->shape;
  to->is = node->is;
  to->is.in = room(node->is.n_in, sizeof(to->is.in[0]));
  for (uint32_t k = 0; k < node->is.n_in; k++)
    to->is.in[k] = node->is.in[k];
  if (node->is.kernel) {
    to->kernel = shape->n_kernels++;
    exec->settings = realloc(exec->settings, shape->n_kernels * sizeof(exec->settings[0]));
    if (!exec->settings)
      abort();
    exec->settings[to->kernel] = node->setting;
    node->setting->uses++;
    return;
  }
  shape->conditions =
      realloc(shape->conditions, (shape->n_conditions + 1) * sizeof(shape->conditions[0]));
  if (!shape->conditions)
    abort();
  const fake_condition_t *condition = fake_condition_at(node->is.condition);
  shape->conditions[shape->n_conditions++] = (fake_value_t){
      .index = node->is.condition, .value = condition->value, .known = condition->assigns};
  to->bodies = room(node->is.n_bodies, sizeof(to->bodies[0]));
  for (uint32_t k = 0; k < node->is.n_bodies; k++)
    to->bodies[k] = copy_graph(exec, node->bodies[k]);
}

// Its index. The list may move while bodies are copied, its nodes do not.
static uint32_t copy_graph(dt_cu_graph_exec_t exec, dt_cu_graph_t graph) {
  fake_shape_t *shape = &exec->shape;
  uint32_t index = shape->n++;
  shape->graphs = realloc(shape->graphs, shape->n * sizeof(shape->graphs[0]));
  if (!shape->graphs)
    abort();
  fake_shape_node_t *nodes = room(graph->n, sizeof(nodes[0]));
  shape->graphs[index] = (fake_shape_graph_t){.id = graph->id, .nodes = nodes, .n = graph->n};
  for (uint32_t k = 0; k < graph->n; k++)
    copy_node(exec, graph->nodes[k], &nodes[k]);
  return index;
}

static uint64_t count_nodes(dt_cu_graph_t graph) {
  uint64_t n = graph->n;
  for (uint32_t k = 0; k < graph->n; k++)
    for (uint32_t b = 0; b < graph->nodes[k]->is.n_bodies; b++)
      n += count_nodes(graph->nodes[k]->bodies[b]);
  return n;
}

// Once it is destroyed and its last launch has been done.
static void drop_exec(dt_cu_graph_exec_t exec) {
  if (exec->live || exec->pending)
    return;
  fake_shape_t *shape = &exec->shape;
  for (uint32_t g = 0; g < shape->n; g++) {
    for (uint32_t k = 0; k < shape->graphs[g].n; k++)
      free(shape->graphs[g].nodes[k].is.in), free(shape->graphs[g].nodes[k].bodies);
    free(shape->graphs[g].nodes);
  }
  for (uint32_t k = 0; k < shape->n_kernels; k++)
    fake_setting_release(exec->settings[k]);
  free(shape->graphs), free(shape->conditions), free(exec->settings), free(exec->enabled);
  free(exec->clusters);
  fake_release_order(exec->last);
  fake_graph_counts.bytes -= exec->bytes;
  *exec = (struct CUgraphExec_st){0};
}

static bool is_exec(dt_cu_graph_exec_t exec, const char *what) {
  if (exec >= execs && exec < execs + MAX_EXECS && exec->live)
    return true;
  fake_violation("%s: no such executable graph", what);
  return false;
}

void fake_graph_reset(void) {
  for (uint32_t k = 0; k < n_execs; k++) {
    execs[k].live = false;
    execs[k].pending = 0; // streams have forgotten their work
    drop_exec(&execs[k]);
  }
  while (flights) {
    flight_t *flight = flights;
    flights = flight->next;
    fake_release_order(flight->order);
    free(flight);
  }
  n_execs = next_exec = 0;
  fake_graph_reset_nodes();
  fake_cuda_graph_memory(65536, 1024, 0);
}

uint32_t fake_graph_held(void) {
  return (uint32_t)fake_graph_counts.live + fake_graph_held_nodes();
}

dt_cu_result_t cuGraphInstantiateWithFlags(dt_cu_graph_exec_t *out, dt_cu_graph_t graph,
                                           uint64_t flags) {
  FAKE_ENTER(graph_instantiate, FAKE_IN_CONTEXT);
  if (flags || !fake_is_graph(graph) || graph->owned || !is_sound(graph))
    return fake_leave(DT_CU_INVALID_VALUE);
  uint32_t at = MAX_EXECS;
  for (uint32_t k = 0; k < MAX_EXECS && at == MAX_EXECS; k++) {
    uint32_t index = (next_exec + k) % MAX_EXECS;
    at = execs[index].live || execs[index].pending ? MAX_EXECS : index;
  }
  uint64_t bytes = memory.exec + memory.node * count_nodes(graph);
  if (at == MAX_EXECS || (memory.most && fake_graph_counts.bytes + bytes > memory.most))
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  next_exec = (at + 1) % MAX_EXECS;
  n_execs = at + 1 > n_execs ? at + 1 : n_execs;
  dt_cu_graph_exec_t exec = &execs[at];
  *exec = (struct CUgraphExec_st){.live = true, .bytes = bytes};
  (void)copy_graph(exec, graph);
  exec->enabled = room(exec->shape.n_kernels, sizeof(bool));
  memset(exec->enabled, 1, exec->shape.n_kernels * sizeof(bool));
  exec->clusters = room(exec->shape.n_kernels, sizeof(exec->clusters[0]));
  for (uint32_t k = 0; k < exec->shape.n_kernels; k++)
    exec->clusters[k] =
        exec->settings[k]->code.entry ? exec->settings[k]->code.entry->cluster[0] : 0;
  fake_graph_counts.instantiations++;
  fake_graph_counts.live++;
  fake_graph_counts.bytes += bytes;
  *out = exec;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuGraphExecDestroy(dt_cu_graph_exec_t exec) {
  FAKE_ENTER(graph_exec_destroy, FAKE_IN_CONTEXT);
  if (!is_exec(exec, "cuGraphExecDestroy"))
    return fake_leave(DT_CU_INVALID_VALUE);
  exec->live = false;
  fake_graph_counts.live--;
  drop_exec(exec);
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Changes ------------------------------------------------------------------------------------

// The index of a kernel node's setting; UINT32_MAX: the executable has no such kernel.
static uint32_t find_kernel(dt_cu_graph_exec_t exec, dt_cu_node_t node, const char *what) {
  if (!is_exec(exec, what) || !fake_is_node(node, what) || !node->is.kernel)
    return UINT32_MAX;
  for (uint32_t g = 0; g < exec->shape.n; g++) {
    const fake_shape_graph_t *graph = &exec->shape.graphs[g];
    if (graph->id == node->graph->id && node->place < graph->n)
      return graph->nodes[node->place].kernel;
  }
  return UINT32_MAX;
}

static void count_change(const fake_setting_t *old, const fake_setting_t *new) {
  const fake_launch_t *a = &old->code.launch, *b = &new->code.launch;
  if (old->function != new->function || old->code.module != new->code.module)
    fake_graph_counts.set_functions++;
  else if (memcmp(a->grid, b->grid, sizeof(a->grid)) || a->shared_bytes != b->shared_bytes ||
           memcmp(a->block, b->block, sizeof(a->block)))
    fake_graph_counts.set_grids++;
  else
    fake_graph_counts.set_arguments++;
}

dt_cu_result_t cuGraphExecKernelNodeSetParams_v2(dt_cu_graph_exec_t exec, dt_cu_node_t node,
                                                 const dt_cu_kernel_node_t *params) {
  FAKE_ENTER(graph_set_kernel, FAKE_IN_CONTEXT);
  uint32_t kernel = find_kernel(exec, node, "cuGraphExecKernelNodeSetParams");
  if (kernel == UINT32_MAX)
    return fake_leave(DT_CU_INVALID_VALUE);
  fake_setting_t *setting = NULL;
  dt_cu_result_t result = fake_setting_create(&setting, params);
  if (result)
    return fake_leave(result);
  const ptx_function_t *entry = setting->code.entry;
  uint32_t *cluster = &exec->clusters[kernel];
  if (entry && entry->cluster[0])
    *cluster = entry->cluster[0];
  if (*cluster && params->grid[0] % *cluster) {
    fake_setting_release(setting);
    return fake_leave(DT_CU_INVALID_CLUSTER_SIZE);
  }
  count_change(exec->settings[kernel], setting);
  fake_setting_release(exec->settings[kernel]);
  exec->settings[kernel] = setting;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuGraphNodeSetEnabled(dt_cu_graph_exec_t exec, dt_cu_node_t node, uint32_t enabled) {
  FAKE_ENTER(graph_set_enabled, FAKE_IN_CONTEXT);
  uint32_t kernel = find_kernel(exec, node, "cuGraphNodeSetEnabled");
  if (kernel == UINT32_MAX)
    return fake_leave(DT_CU_INVALID_VALUE);
  exec->enabled[kernel] = enabled != 0;
  fake_graph_counts.set_enabled++;
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Flights ------------------------------------------------------------------------------------

static void forget_flights(void) {
  for (flight_t **at = &flights; *at;) {
    flight_t *flight = *at;
    if (!fake_is_waited_for(flight->order)) {
      at = &flight->next;
      continue;
    }
    *at = flight->next;
    fake_release_order(flight->order);
    free(flight);
  }
}

static void add_flight(const fake_work_t *work) {
  forget_flights();
  const fake_replay_t *replay = work->replay;
  uint32_t n = replay->shape->n_kernels;
  flight_t *flight = room(1, sizeof(*flight) + n * sizeof(flight->modules[0]));
  for (uint32_t k = 0; k < n; k++) {
    uint64_t module = replay->settings[k]->code.module;
    if (flight->n == 0 || flight->modules[flight->n - 1] != module)
      flight->modules[flight->n++] = module;
  }
  flight->order = fake_retain_order(work->order);
  flight->next = flights;
  flights = flight;
}

bool fake_graph_flies(uint64_t module) {
  forget_flights();
  for (const flight_t *flight = flights; flight; flight = flight->next)
    for (uint32_t k = 0; k < flight->n; k++)
      if (flight->modules[k] == module)
        return true;
  return false;
}

bool fake_replay_uses(const fake_replay_t *replay, uint64_t module) {
  for (uint32_t k = 0; k < replay->shape->n_kernels; k++)
    if (replay->settings[k]->code.module == module)
      return true;
  return false;
}

// ---- Launches -----------------------------------------------------------------------------------

static fake_replay_t *create_replay(dt_cu_graph_exec_t exec) {
  const fake_shape_t *shape = &exec->shape;
  fake_replay_t *replay = room(1, sizeof(*replay));
  *replay = (fake_replay_t){.exec = exec,
                            .shape = shape,
                            .settings = room(shape->n_kernels, sizeof(replay->settings[0])),
                            .enabled = room(shape->n_kernels, sizeof(bool)),
                            .values = room(shape->n_conditions, sizeof(replay->values[0]))};
  for (uint32_t k = 0; k < shape->n_kernels; k++) {
    replay->settings[k] = exec->settings[k];
    replay->settings[k]->uses++;
    replay->enabled[k] = exec->enabled[k];
  }
  exec->pending++;
  return replay;
}

void fake_replay_destroy(fake_replay_t *replay) {
  if (!replay)
    return;
  for (uint32_t k = 0; k < replay->shape->n_kernels; k++)
    fake_setting_release(replay->settings[k]);
  free(replay->settings), free(replay->enabled), free(replay->values);
  replay->exec->pending--;
  drop_exec(replay->exec);
  free(replay);
}

// Whether all code is still there: where not, a violation.
static bool has_code(dt_cu_graph_exec_t exec, const char *what) {
  uint64_t known = 0;
  for (uint32_t k = 0; k < exec->shape.n_kernels; k++) {
    const fake_setting_t *setting = exec->settings[k];
    if (setting->code.module != known && !fake_code_lives(setting->code.module)) {
      fake_violation("%s: the module of %s was unloaded", what, setting->name);
      return false;
    }
    known = setting->code.module;
  }
  return true;
}

static fake_work_t *queue_replay(dt_cu_graph_exec_t exec, dt_cu_stream_t stream) {
  fake_replay_t *replay = create_replay(exec);
  fake_access_t *accesses = NULL;
  uint32_t n = fake_replay_accesses(replay, &accesses);
  if (exec->last)
    fake_come_after(stream, exec->last);
  fake_work_t *work = fake_queue(stream, accesses, n, 0, "cuGraphLaunch");
  free(accesses);
  if (!work) {
    fake_replay_destroy(replay);
    return NULL;
  }
  work->replay = replay;
  work->launch.name = work->what;
  if (exec->last)
    fake_wait_for(work, exec->last);
  fake_release_order(exec->last);
  exec->last = fake_retain_order(work->order);
  fake_defer(work, fake_graph_run);
  return work;
}

dt_cu_result_t cuGraphUpload(dt_cu_graph_exec_t exec, dt_cu_stream_t stream) {
  FAKE_ENTER(graph_upload, FAKE_IN_CONTEXT);
  if (!is_exec(exec, "cuGraphUpload") || !fake_is_stream(stream) ||
      !has_code(exec, "cuGraphUpload"))
    return fake_leave(DT_CU_INVALID_VALUE);
  fake_graph_counts.uploads++;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuGraphLaunch(dt_cu_graph_exec_t exec, dt_cu_stream_t stream) {
  FAKE_ENTER(graph_launch, FAKE_IN_CONTEXT);
  if (!is_exec(exec, "cuGraphLaunch") || !has_code(exec, "cuGraphLaunch"))
    return fake_leave(DT_CU_INVALID_VALUE);
  if (!fake_is_stream(stream))
    return fake_leave(400);
  const fake_work_t *work = queue_replay(exec, stream);
  if (!work)
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  add_flight(work);
  fake_graph_counts.launches++;
  return fake_leave(DT_CU_SUCCESS);
}

// SPDX-License-Identifier: Apache-2.0
// Runs a graph launch: nodes in an order of the seed's choice among those that the edges allow,
// bodies as the values of conditions say at that time.
#include "test/fake_cuda/fake_graph.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ACCESSES 256
#define MAX_TRIPS ((uint32_t)1 << 16) // of a loop: more is taken for no end

// The launch that is running, and what its kernel that is running has set.
static struct {
  fake_work_t *work;
  const fake_replay_t *replay;
  fake_touched_t *touched; // of the kernel; NULL: none is running
  uint64_t *setters;       // of each condition: the thread that set it; 0: none
} running;

static void *room(size_t n, size_t size) {
  void *at = calloc(n ? n : 1, size);
  if (!at)
    abort();
  return at;
}

// ---- Conditions ---------------------------------------------------------------------------------

static void add_place(fake_touched_t *list, uint64_t begin, uint64_t bytes) {
  if (bytes && !fake_add_bytes(list, begin, begin + bytes))
    abort();
}

const char *fake_condition_set(uint64_t handle, uint32_t value, uint64_t thread) {
  if (!running.touched)
    return "a condition is set outside of a graph";
  const fake_shape_t *shape = running.replay->shape;
  for (uint32_t k = 0; k < shape->n_conditions; k++) {
    fake_value_t *at = &running.replay->values[k];
    if (FAKE_CONDITION(at->index) != handle)
      continue;
    if (running.setters[k] && running.setters[k] != thread && at->value != value)
      return "threads of a launch set a condition to different values";
    running.setters[k] = thread;
    at->value = value;
    at->known = true;
    add_place(&running.touched[1], handle, 8);
    return NULL;
  }
  return "a condition is set that the graph does not have";
}

static uint32_t condition_value(const fake_replay_t *replay, uint32_t index) {
  for (uint32_t k = 0; k < replay->shape->n_conditions; k++) {
    const fake_value_t *at = &replay->values[k];
    if (at->index != index)
      continue;
    if (!at->known)
      fake_violation("cuGraphLaunch: a condition without a default is used that no kernel has set");
    return at->known ? at->value : 0;
  }
  return 0;
}

// ---- Kernels ------------------------------------------------------------------------------------

static uint32_t ask_accesses(const fake_kernel_t *kernel, const fake_launch_t *launch,
                             fake_access_t out[MAX_ACCESSES]) {
  uint32_t n = kernel->accesses ? kernel->accesses(launch, out, MAX_ACCESSES, kernel->user) : 0;
  return n < MAX_ACCESSES ? n : MAX_ACCESSES;
}

uint32_t fake_replay_accesses(const fake_replay_t *replay, fake_access_t **out) {
  const fake_shape_graph_t *graph = &replay->shape->graphs[0];
  fake_access_t found[MAX_ACCESSES], *all = NULL;
  uint32_t n = 0;
  for (uint32_t k = 0; k < graph->n; k++) {
    const fake_shape_node_t *node = &graph->nodes[k];
    if (!node->is.kernel || !replay->enabled[node->kernel])
      continue;
    const fake_launch_t *launch = &replay->settings[node->kernel]->code.launch;
    const fake_kernel_t *kernel = fake_find_kernel(launch->name);
    uint32_t more = kernel ? ask_accesses(kernel, launch, found) : 0;
    if (more == 0)
      continue;
    all = realloc(all, (n + more) * sizeof(all[0]));
    if (!all)
      abort();
    memcpy(all + n, found, more * sizeof(all[0]));
    n += more;
  }
  *out = all;
  return n;
}

// A kernel that is a host function: what it touches must still be there.
static void run_host(const fake_kernel_t *kernel, const fake_launch_t *launch,
                     fake_touched_t out[2]) {
  fake_access_t accesses[MAX_ACCESSES];
  uint32_t n = ask_accesses(kernel, launch, accesses);
  bool there = true;
  for (uint32_t k = 0; k < n; k++) {
    there &= fake_use(accesses[k].begin, accesses[k].bytes, launch->name) != NULL;
    add_place(&out[accesses[k].write], accesses[k].begin, accesses[k].bytes);
  }
  if (there && kernel->run)
    kernel->run(launch, kernel->user);
}

// `top`: of the graph itself, so that a host function's accesses were checked when it was queued.
// Says whether all threads waited, and what they did before.
static void run_kernel(const fake_setting_t *setting, bool programmatic, bool top,
                       fake_end_t *end) {
  fake_touched_t *out = end->touched;
  const fake_kernel_t *kernel = fake_find_kernel(setting->name);
  fake_work_t work = {.module = setting->code.ptx,
                      .entry = setting->code.entry,
                      .waits = setting->code.waits,
                      .launch = setting->code.launch};
  work.launch.programmatic = programmatic;
  fake_touched_t set[2] = {{0}}; // conditions
  running.touched = set;
  memset(running.setters, 0, running.replay->shape->n_conditions * sizeof(running.setters[0]));
  if (kernel)
    run_host(kernel, &work.launch, out);
  else
    fake_ptx_do(&work, out);
  running.touched = NULL;
  for (uint32_t k = 0; k < 2 && !(kernel && top); k++)
    fake_check_touched(running.work, setting->name, &out[k], k == 1);
  fake_merge(&out[1], &set[1]);
  free(set[1].at);
  fake_graph_counts.nodes_run++;
  end->waits = work.waits;
  end->early = work.early;
}

// ---- Nodes --------------------------------------------------------------------------------------

static void run_graph(uint32_t index, fake_touched_t out[2]);

static void run_conditional(const fake_shape_node_t *node, fake_touched_t out[2]) {
  const fake_replay_t *replay = running.replay;
  uint32_t condition = node->is.condition;
  uint32_t value = condition_value(replay, condition), n = node->is.n_bodies;
  add_place(&out[0], FAKE_CONDITION(condition), 8);
  if (node->is.type != DT_CU_CONDITION_WHILE) {
    uint32_t body = node->is.type == DT_CU_CONDITION_SWITCH ? value : value == 0;
    if (body < n)
      run_graph(node->bodies[body], out);
    return;
  }
  for (uint32_t trips = 0; value; trips++) {
    if (trips == MAX_TRIPS) {
      fake_violation("cuGraphLaunch: a loop does not end");
      return;
    }
    run_graph(node->bodies[0], out);
    value = condition_value(replay, condition);
  }
}

static void run_node(const fake_shape_graph_t *graph, uint32_t place, bool top, fake_ends_t *ends,
                     fake_touched_t out[2]) {
  const fake_shape_node_t *node = &graph->nodes[place];
  fake_end_t end = {
      .place = place, .node = &node->is, .enabled = true, .name = "a conditional node"};
  if (node->is.kernel) {
    const fake_setting_t *setting = running.replay->settings[node->kernel];
    bool programmatic = false;
    for (uint32_t k = 0; k < node->is.n_in; k++)
      programmatic |= node->is.in[k].programmatic;
    end.name = setting->name;
    end.enabled = running.replay->enabled[node->kernel];
    if (end.enabled)
      run_kernel(setting, programmatic, top, &end);
  } else {
    run_conditional(node, end.touched);
  }
  for (uint32_t k = 0; k < 2; k++)
    fake_merge(&out[k], &end.touched[k]);
  fake_ends_add(ends, end);
}

// Adds what its nodes touch to `out`.
static void run_graph(uint32_t index, fake_touched_t out[2]) {
  const fake_shape_graph_t *graph = &running.replay->shape->graphs[index];
  fake_ends_t *ends = fake_ends_create(graph->n);
  bool *done = room(graph->n, sizeof(*done));
  uint32_t *ready = room(graph->n, sizeof(*ready));
  for (uint32_t left = graph->n; left > 0; left--) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < graph->n; k++) {
      const fake_node_t *is = &graph->nodes[k].is;
      bool can = !done[k];
      for (uint32_t e = 0; e < is->n_in && can; e++)
        can = done[is->in[e].from];
      if (can)
        ready[n++] = k;
    }
    uint32_t place = ready[fake_random() % n];
    run_node(graph, place, index == 0, ends, out);
    done[place] = true;
  }
  fake_ends_destroy(ends);
  free(done), free(ready);
}

// ---- Launches -----------------------------------------------------------------------------------

void fake_graph_run(fake_work_t *work) {
  const fake_replay_t *replay = work->replay;
  const fake_shape_t *shape = replay->shape;
  running.work = work;
  running.replay = replay;
  running.setters = room(shape->n_conditions, sizeof(running.setters[0]));
  for (uint32_t k = 0; k < shape->n_conditions; k++)
    replay->values[k] = shape->conditions[k];
  fake_touched_t touched[2] = {{0}};
  run_graph(0, touched);
  free(running.setters);
  memset(&running, 0, sizeof(running));
  for (uint32_t k = 0; k < 2; k++) {
    while (touched[k].n && touched[k].at[touched[k].n - 1].begin >= FAKE_CONDITION_BASE)
      touched[k].n--; // an executable's own
    fake_touched(work, touched[k], k == 1);
  }
}

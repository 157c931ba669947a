// SPDX-License-Identifier: Apache-2.0
// Assembles a graph of an executable's nodes. Regions of kernels that data decides about become
// conditional nodes (IF with or without else, SWITCH, WHILE) with their kernels in the bodies. In
// front of each, and at the end of a loop's body, a kernel sets the condition to the predicate's
// value at that time.
#include "cudagraphs/exec_private.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#define MOST_NESTED 32

// A graph in the making: the root, or the body of a conditional node.
typedef struct body_t {
  dt_cu_graph_t graph;
  dt_cu_node_t last; // added last; NULL: none
  bool waits;        // that is a kernel that waits by itself
  uint32_t depth;
} body_t;

static dt_status_t walk(dt_graph_frame_t *frame, body_t *body, uint32_t *at);

// ---- Kernels --------------------------------------------------------------------------------------

static dt_status_t add_edge(const dt_graph_frame_t *frame, dt_cu_graph_t graph, dt_cu_node_t from,
                            dt_cu_node_t to, bool early) {
  dt_cu_edge_t edge = {0};
  if (frame->set_early && early)
    edge = (dt_cu_edge_t){.from_port = DT_CU_PORT_PROGRAMMATIC, .type = DT_CU_EDGE_PROGRAMMATIC};
  DT_CUDA_TRY(frame->exec->gpu->device, graph_add_edges, graph, &from, &to, &edge, 1);
  return NULL;
}

static dt_status_t add_kernel(const dt_graph_frame_t *frame, dt_cu_graph_t graph,
                              dt_graph_node_t *node) {
  void *params[] = {node->params};
  dt_cu_kernel_node_t made = {.function = node->kernel->function,
                              .grid = {node->blocks, 1, 1},
                              .block = {node->kernel->info.threads, 1, 1},
                              .shared_bytes = node->shared_bytes,
                              .params = params};
  DT_CUDA_TRY(frame->exec->gpu->device, graph_add_kernel, &node->node, graph, NULL, 0, &made);
  return NULL;
}

// The kernel comes after what was added last. A kernel that does not wait would end before the work
// in front of it.
static dt_status_t add_next(const dt_graph_frame_t *frame, body_t *body, dt_graph_node_t *node) {
  bool waits = node->kernel->info.waits;
  DT_TRY(add_kernel(frame, body->graph, node));
  if (body->last)
    DT_TRY(add_edge(frame, body->graph, body->last, node->node, body->waits && waits));
  body->last = node->node;
  body->waits = waits;
  return NULL;
}

// Kernels of branches that run side by side. Where several are in front of one it waits for all of
// them; an edge from the only one is programmatic.
static dt_status_t add_branches(const dt_graph_frame_t *frame, dt_cu_graph_t graph) {
  dt_graph_exec_t *exec = frame->exec;
  const dt_edge_t *edges = frame->edges;
  for (uint32_t k = 0; k < exec->n; k++)
    DT_TRY(add_kernel(frame, graph, &exec->nodes[k]));
  for (uint32_t k = 0; k < frame->n_edges; k++) {
    const dt_graph_node_t *from = &exec->nodes[edges[k].from], *to = &exec->nodes[edges[k].to];
    bool alone = (k == 0 || edges[k - 1].to != edges[k].to) &&
                 (k + 1 == frame->n_edges || edges[k + 1].to != edges[k].to);
    DT_TRY(add_edge(frame, graph, from->node, to->node,
                    alone && from->kernel->info.waits && to->kernel->info.waits));
  }
  return NULL;
}

// ---- Regions --------------------------------------------------------------------------------------

// The mark at `at` is an IF: whether an ELSE comes before its end.
static bool has_else(const dt_graph_exec_t *exec, uint32_t at) {
  uint32_t depth = 0;
  for (uint32_t k = at; k < exec->n; k++) {
    dt_graph_kind_t kind = exec->nodes[k].kind;
    depth += kind == DT_GRAPH_IF;
    if (kind == DT_GRAPH_ELSE && depth == 1)
      return true;
    if (kind == DT_GRAPH_ENDIF && --depth == 0)
      return false;
  }
  return false;
}

// The kernel that sets the condition, and the conditional node behind it.
static dt_status_t add_condition(const dt_graph_frame_t *frame, body_t *body, dt_graph_node_t *node,
                                 int type, uint32_t n_bodies, body_t *out_bodies) {
  dt_cuda_device_t *device = frame->exec->gpu->device;
  dt_cu_node_t made = NULL;
  if (body->depth >= MOST_NESTED)
    return DT_FAIL(DT_E_LIMIT, "control nested deeper than %d", MOST_NESTED);
  DT_CUDA_TRY(device, graph_condition, &node->condition, frame->exec->graph, device->context, 0, 0);
  node->params[0] = node->condition;
  DT_TRY(add_next(frame, body, node));
  dt_cu_node_params_t params = {
      .type = DT_CU_NODE_CONDITIONAL,
      .of.condition = {
          .condition = node->condition, .type = type, .n = n_bodies, .context = device->context}};
  DT_CUDA_TRY(device, graph_add_node, &made, body->graph, &node->node, NULL, 1, &params);
  for (uint32_t k = 0; k < n_bodies; k++)
    out_bodies[k] = (body_t){.graph = params.of.condition.bodies[k], .depth = body->depth + 1};
  body->last = made;
  body->waits = false;
  return NULL;
}

static dt_status_t expect(const dt_graph_exec_t *exec, uint32_t at, dt_graph_kind_t kind) {
  if (at < exec->n && exec->nodes[at].kind == kind)
    return NULL;
  return DT_FAIL(DT_E_INTERNAL, "a program's regions do not nest");
}

static dt_status_t add_if(dt_graph_frame_t *frame, body_t *body, uint32_t *at) {
  dt_graph_exec_t *exec = frame->exec;
  bool other = has_else(exec, *at);
  body_t bodies[2];
  DT_TRY(add_condition(frame, body, &exec->nodes[*at], DT_CU_CONDITION_IF, other ? 2 : 1, bodies));
  ++*at;
  DT_TRY(walk(frame, &bodies[0], at));
  if (other) {
    DT_TRY(expect(exec, *at, DT_GRAPH_ELSE));
    ++*at;
    DT_TRY(walk(frame, &bodies[1], at));
  }
  DT_TRY(expect(exec, *at, DT_GRAPH_ENDIF));
  ++*at;
  return NULL;
}

static dt_status_t add_switch(dt_graph_frame_t *frame, body_t *body, uint32_t *at) {
  dt_graph_exec_t *exec = frame->exec;
  uint32_t n = exec->nodes[*at].n_cases;
  body_t bodies[DT_GRAPH_MOST_CASES];
  if (n == 0 || n > DT_GRAPH_MOST_CASES)
    return DT_FAIL(DT_E_INTERNAL, "a switch of %u cases", n);
  DT_TRY(add_condition(frame, body, &exec->nodes[*at], DT_CU_CONDITION_SWITCH, n, bodies));
  ++*at;
  for (uint32_t k = 0; k < n; k++) {
    DT_TRY(walk(frame, &bodies[k], at));
    DT_TRY(expect(exec, *at, k + 1 < n ? DT_GRAPH_CASE : DT_GRAPH_ENDSWITCH));
    ++*at;
  }
  return NULL;
}

static dt_status_t add_while(dt_graph_frame_t *frame, body_t *body, uint32_t *at) {
  dt_graph_exec_t *exec = frame->exec;
  dt_graph_node_t *first = &exec->nodes[*at];
  body_t inside;
  DT_TRY(add_condition(frame, body, first, DT_CU_CONDITION_WHILE, 1, &inside));
  ++*at;
  DT_TRY(walk(frame, &inside, at));
  DT_TRY(expect(exec, *at, DT_GRAPH_AGAIN));
  dt_graph_node_t *again = &exec->nodes[(*at)++];
  again->condition = first->condition;
  again->params[0] = again->condition;
  return add_next(frame, &inside, again);
}

// Adds nodes from `at` on, up to a mark that ends the body.
static dt_status_t walk(dt_graph_frame_t *frame, body_t *body, uint32_t *at) {
  dt_graph_exec_t *exec = frame->exec;
  while (*at < exec->n) {
    dt_graph_node_t *node = &exec->nodes[*at];
    if (node->kind == DT_GRAPH_IF) {
      DT_TRY(add_if(frame, body, at));
    } else if (node->kind == DT_GRAPH_SWITCH) {
      DT_TRY(add_switch(frame, body, at));
    } else if (node->kind == DT_GRAPH_WHILE) {
      DT_TRY(add_while(frame, body, at));
    } else if (node->kind == DT_GRAPH_KERNEL) {
      DT_TRY(add_next(frame, body, node));
      ++*at;
    } else {
      break;
    }
  }
  return NULL;
}

// ---- The whole ------------------------------------------------------------------------------------

static dt_status_t assemble(dt_graph_frame_t *frame) {
  dt_graph_exec_t *exec = frame->exec;
  dt_cuda_device_t *device = exec->gpu->device;
  uint32_t at = 0;
  DT_CUDA_TRY(device, graph_create, &exec->graph, 0);
  body_t root = {.graph = exec->graph};
  if (frame->n_edges) {
    DT_TRY(add_branches(frame, exec->graph));
  } else {
    DT_TRY(walk(frame, &root, &at));
    if (at < exec->n)
      return DT_FAIL(DT_E_INTERNAL, "a program's regions do not nest");
  }
  DT_CUDA_TRY(device, graph_instantiate, &exec->exec, exec->graph, 0);
  DT_CUDA_TRY(device, graph_upload, exec->exec, frame->launch.stream);
  exec->n_built = exec->n;
  return NULL;
}

dt_status_t dt__graph_build(dt_graph_frame_t *frame) {
  dt_graph_exec_t *exec = frame->exec;
  int64_t begin = dt__now_ns();
  dt__graph_drop(exec); // one of fewer nodes
  dt_status_t status = assemble(frame);
  if (status) {
    dt__graph_drop(exec);
    return dt__status_annotate(status, "a CUDA graph of %u kernels", exec->n);
  }
  int64_t ns = dt__now_ns() - begin;
  frame->counts->builds++;
  frame->counts->build_ns += (uint64_t)ns;
  DT_LOG(DT_LOG_GRAPHS, 1, "built: %u kernels, %.0f us", exec->n, (double)ns * 1e-3);
  return NULL;
}

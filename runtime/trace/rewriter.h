// SPDX-License-Identifier: Apache-2.0
// Passes of users over a graph (include/ductile/pass.h).
//
//        graph ──► work: a copy of its nodes, to which builders append and in which passes change
//                  operands. Ids stay; the order is a list of its own
//                    │ the pass has ended well
//                    ▼
//        a new graph: nodes in the list's order, each behind what it needs
//
// What a node needs is what it is made of, and the items that bind the numbers from data in its
// sizes and attributes. No change makes a node need itself: each is looked at before it is done.
#ifndef DT_RUNTIME_TRACE_REWRITER_H
#define DT_RUNTIME_TRACE_REWRITER_H

#include "runtime/trace/builder.h"
#include "runtime/trace/hooks.h"

// Where a pass runs.
typedef struct dt_site_t {
  dt_point_t point;
  dt_device_t device;
  bool strict_fp;    // the library's own patterns that change results do not run
  dt_hooks_t *hooks; // of the function: whose ops can be called
  // Of what must outlive the graph's own memory: names of files that passes say.
  dt_arena_t *keep;
  dt_traced_t *traced;        // at DT_POINT_TRACED: what gets constants; else NULL
  struct dt_program *program; // at DT_POINT_FUSED: for its text; else NULL
  void (*print)(const struct dt_program *program, dt_text_t *out); // its text
} dt_site_t;

// Runs all passes of `site->point` over the graph and the bodies in it; the graph's environment is
// frozen. *out is a new graph, in the arena of `graph`'s, where a pass changed it; else `graph`.
dt_status_t dt__hooks_run(const dt_hooks_t *hooks, const dt_site_t *site, dt_arena_t *arena,
                          const dt_graph_t *graph, const dt_graph_t **out) DT_MUST_USE;

// One pass that is in no list, over the same, on a thread that has the turn (dt__hooks_enter).
dt_status_t dt__pass_run(const char *name, dt_pass_fn_t pass, void *closure, const dt_site_t *site,
                         dt_arena_t *arena, const dt_graph_t *graph,
                         const dt_graph_t **out) DT_MUST_USE;

// ---- Between rewriter.c and rewriter_read.c -----------------------------------------------------
// A use of a node, as an operand of another one.
typedef struct dt_node_use_t {
  uint32_t user; // node
  struct dt_node_use_t *prev, *next;
} dt_node_use_t;

// What the rewriter knows of a node, besides the node.
typedef struct dt_rewrite_node_t {
  uint32_t prev, next; // in order; 0: none
  uint32_t stamp;      // of the last walk that came here
  bool erased;
  bool own_inputs;         // the array of operands is the rewriter's own
  uint32_t n_results;      // results and updates of the graph that it is
  dt_node_use_t *uses;     // one for each operand that it is
  dt_node_use_t *operands; // by operand of its own: its use of that
} dt_rewrite_node_t;

struct dt_rewriter {
  dt_trace_t trace; // what builders append to; trace.graph is `work`
  dt_trace_request_t request;
  dt_traced_t stub; // where there is no traced program: an arena for what builders make
  const dt_site_t *site;
  const dt_hook_t *hook;
  uint32_t depth;
  uint32_t n_given; // nodes of the graph that it began with
  dt_arena_t *arena;
  dt_graph_t work;
  bool changed;
  bool read_only;
  bool held;                       // a pattern's check or replacement looks at it: no changes
  DT_VEC(dt_rewrite_node_t) nodes; // by id; [0] is the list's end on both sides
  uint32_t at;                     // in front of which builders put nodes; 0: at the end
  uint32_t stamp;
  uint32_t walked;   // nodes that dt_rewriter_next gave
  uint32_t *binders; // by symbol: the item that binds it; 0: none
  uint32_t *found;   // room for as many symbols as there are
  uint32_t n_symbols;
  DT_VEC(uint32_t) stack;
};

// Takes in what builders appended. False: no memory.
bool dt__rewriter_sync(dt_rewriter_t *r);
// The graph as it is by now: nodes in order, each behind what it needs.
dt_status_t dt__rewriter_emit(dt_rewriter_t *r, dt_graph_t **out) DT_MUST_USE;
// The node of a value; DT_E_ARGUMENT naming it as `what`.
dt_status_t dt__rewriter_find(dt_rewriter_t *r, dt_value_t value, const char *what,
                              uint32_t *out) DT_MUST_USE;
// What of a node of the trace's graph needs no rewriter: all but users and outputs.
void dt__node_info(const dt_trace_t *trace, const dt_node_t *node, dt_node_info_t *out);
// ---- For patterns -------------------------------------------------------------------------------
// Takes away all nodes behind the first n, which nothing else uses, and constants made with them.
void dt__rewriter_forget(dt_rewriter_t *r, uint32_t n);
// DT_E_DTYPE, DT_E_SHAPE where `made` cannot stand where `old` does.
dt_status_t dt__rewriter_check_same(dt_rewriter_t *r, uint32_t old, uint32_t made) DT_MUST_USE;
// dt_rewriter_replace of nodes that were checked. `quick`: no node that `made` needs uses `old`.
dt_status_t dt__rewriter_redirect(dt_rewriter_t *r, uint32_t old, uint32_t made,
                                  bool quick) DT_MUST_USE;
// Erases a node where that can be done.
void dt__rewriter_drop(dt_rewriter_t *r, uint32_t id);
// "%7 (add, model.c:41)".
void dt__rewriter_label(const dt_rewriter_t *r, uint32_t id, dt_text_t *out);

#endif // DT_RUNTIME_TRACE_REWRITER_H

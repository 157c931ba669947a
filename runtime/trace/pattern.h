// SPDX-License-Identifier: Apache-2.0
// Patterns of users (include/ductile/pattern.h): what is kept of one, and a matcher at work.
//
//        program on a sample ──► skeleton: its ops, reshapes and expands left out, since
//                                broadcasting makes them, and other ranks make others
//        node of the graph ──► ops agree with the skeleton (match.c): what wildcards stand for
//                          ──► the program on these values, in the graph itself: each node equals
//                              the graph's (verify.c). Only this makes a match
//                          ──► uses, check, replacement (replace.c)
#ifndef DT_RUNTIME_TRACE_PATTERN_H
#define DT_RUNTIME_TRACE_PATTERN_H

#include "runtime/trace/rewriter.h"

#include "ductile/pattern.h"

#define DT_PATTERN_MOST_NODES 256u
#define DT_PATTERN_MOST_WILDCARDS 64u

typedef struct dt_pattern_node_t {
  dt_op_t op; // DT_OP_NONE: a wildcard
  uint32_t wildcard;
  uint32_t n_inputs;
  const uint32_t *inputs; // indices in the skeleton
  // On the sample; `rank` is the first operand's.
  dt_dtype_t dtype;
  uint32_t rank;
  const dt_attrs_t *attrs;
} dt_pattern_node_t;

// How output k > 0 is found: from a node that is known by then, up through users.
typedef struct dt_pattern_climb_t {
  uint32_t from;         // index in the skeleton
  uint32_t n;            // steps
  const uint32_t *steps; // the nodes on the way; the last one is the output
} dt_pattern_climb_t;

#define DT_PATTERN_MOST_ROOTS 4u

// Finds a place of one of the library's own patterns (rewrites.h) whose first output is node `root`
// of one of its roots' ops: m->wild and m->inner, the latter behind their operands, the root last.
// False: it is none, and dt__match_miss says why.
typedef bool (*dt_pattern_find_fn_t)(struct dt_match *m, uint32_t root);

struct dt_pattern {
  _Atomic uint32_t refs;
  _Atomic uint64_t count;    // of replaced matches
  dt_arena_t arena;          // of all below
  dt_program_fn_t program;   // NULL: `find` does
  dt_pattern_find_fn_t find; // the library's own; NULL: the program does
  dt_replacement_fn_t replacement;
  dt_match_check_fn_t check;
  void *closure;
  void (*closure_free)(void *closure);
  dt_point_t point;
  int32_t priority;
  bool on_demand, shared;
  const char *name, *identity;
  uint32_t n_wildcards, n_outputs;
  const dt_wildcard_t *wildcards; // their dims are arrays of ours
  const uint32_t *same;           // by wildcard: 1 + the one whose dtype it has; 0: none
  uint32_t n_sizes;               // names of dims
  const char *const *sizes;
  uint32_t (*size_of)[DT_MAX_RANK]; // by wildcard and dim: 1 + the size by name; 0: none
  uint32_t n_nodes;
  const dt_pattern_node_t *nodes;   // operands before what is made of them
  const uint32_t *outputs;          // indices in the skeleton
  const dt_pattern_climb_t *climbs; // by output; [0] is not used
  uint32_t n_roots;                 // ops that the first output can have
  dt_op_t roots[DT_PATTERN_MOST_ROOTS];
  // Of the library's own: graphs without any of these ops have no place, and are not walked.
  uint32_t n_anchors;
  dt_op_t anchors[DT_PATTERN_MOST_ROOTS];
  bool inexact;     // not where floats are computed in order (dt_site_t.strict_fp)
  dt_op_t first[2]; // ops that operands of the first output must be; DT_OP_NONE: any
};

dt_pattern_t *dt__pattern_retain(dt_pattern_t *pattern);

// ---- A matcher ----------------------------------------------------------------------------------
// The nearest miss at one root.
typedef struct dt_near_t {
  uint32_t score; // 0: none
  uint32_t root;
  dt_text_t text;
} dt_near_t;

// Node `g` of the graph is what `p` of the skeleton stands for, and so on.
typedef struct dt_goal_t {
  uint32_t p, g;
  const struct dt_goal_t *next;
} dt_goal_t;

// A node that the program computes in a match, behind its operands.
typedef struct dt_inner_t {
  uint32_t id;
  bool free;    // may be used outside: made of literals alone, or a broadcast
  bool literal; // made of no wildcard
} dt_inner_t;

struct dt_match {
  dt_rewriter_t *r;
  const dt_pattern_t *pattern;
  uint32_t n_live;         // nodes that were there at the beginning
  const bool *live;        // by id, of those: a result is made of it
  DT_VEC(uint32_t) places; // by id: where a node stands in the order
  // By index in the skeleton, by wildcard and by output: the node, or 0.
  uint32_t bound[DT_PATTERN_MOST_NODES];
  uint32_t wild[DT_PATTERN_MOST_WILDCARDS], outputs[DT_PATTERN_MOST_WILDCARDS];
  dt_sym_t sizes[DT_PATTERN_MOST_NODES]; // by name
  uint32_t n_bound, depth;
  uint32_t steps, traces; // at this root
  uint32_t work;          // since it last looked whether it may go on
  bool stop;              // no other way is tried at this root
  bool slow;              // an edit was made that places do not follow
  bool looking;           // nothing is to be replaced
  dt_status_t status;     // no memory, or nobody waits
  DT_VEC(dt_inner_t) inner;
  DT_VEC(uint32_t) memo; // by node of the program's trace: the node that equals it
  dt_near_t *near;       // NULL: nobody wants to know
};

// The patterns of a point: the closure of the pass that looks for all of them.
typedef struct dt_patterns_t {
  uint32_t n;
  dt_pattern_t *const *patterns; // in the order in which they are tried
} dt_patterns_t;
dt_status_t dt__match_walk(dt_rewriter_t *r, void *patterns) DT_MUST_USE;

// Room for one matcher over the rewriter's graph. (match.c)
dt_status_t dt__match_begin(dt_match_t *m, dt_rewriter_t *r) DT_MUST_USE;
// Whether `pattern` matches with its first output at `root`; replaces it there unless m->looking.
// m->status: what ends the walk.
bool dt__match_at(dt_match_t *m, const dt_pattern_t *pattern, uint32_t root);

// Whether a node of this op can be its first output.
bool dt__pattern_begins(const dt_pattern_t *pattern, dt_op_t op);

// Whether the program on what wildcards stand for is the graph's; then m->inner. (verify.c)
bool dt__match_verify(dt_match_t *m);
// Uses, the check, and, unless m->looking, the replacement. (replace.c)
bool dt__match_finish(dt_match_t *m);

// dt_pattern_explain into `out`. (match_explain.c)
dt_status_t dt__pattern_explain(const dt_pattern_t *pattern, dt_rewriter_t *r,
                                dt_text_t *out) DT_MUST_USE;

// A miss at node `g`: kept where no nearer one is. `score`: nodes that agree, or DT_NEAR_*.
enum { DT_NEAR_TRACED = 1000, DT_NEAR_USES, DT_NEAR_CHECK, DT_NEAR_REPLACEMENT };
bool dt__match_is_near(const dt_match_t *m, uint32_t score);
void dt__match_miss(dt_match_t *m, uint32_t score, uint32_t g, const char *fmt, ...)
    DT_PRINTF(4, 5);
// What builders failed with, as text of m->r's arena; "" where they did not. Takes the failure.
const char *dt__match_failure(dt_match_t *m, dt_status_t returned);

// The number that node g is: a literal, or at point traced a constant of one element.
bool dt__match_number(const dt_match_t *m, uint32_t g, double *out);

static inline const dt_node_t *dt__match_node(const dt_match_t *m, uint32_t id) {
  return &m->r->work.nodes.items[id - 1];
}
static inline bool dt__is_broadcast(dt_op_t op) {
  return op == DT_OP_reshape || op == DT_OP_expand;
}
// Nodes of programs that nothing reads are as if they were not there.
static inline bool dt__match_is_live(const dt_match_t *m, uint32_t id) {
  return !m->r->nodes.items[id].erased && (id > m->n_live || m->live[id]);
}

#endif // DT_RUNTIME_TRACE_PATTERN_H

// SPDX-License-Identifier: Apache-2.0
// See rewrites.h.
#include "runtime/trace/rewrites.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#define PRIORITY 1000     // behind what users add, in lists, too
#define MOST_NODES 64     // that a constant is made of
#define MOST_NODE_COUNT 2 // of which a place has at least as many, for explanations

typedef struct named_row_t {
  const char *name;
  dt_point_t point;
  bool inexact;
  const dt_rewrite_row_t *row;
} named_row_t;

enum { EXACT = 0, INEXACT = 1 };
static const named_row_t rows[] = {
#define REWRITE(id, point, exactness, looks_for, needs, exactly)                                   \
  {"ductile." #id, DT_POINT_##point, exactness, &dt__rewrite_##id},
#include "runtime/trace/rewrites.def"
};

// ---- Making them --------------------------------------------------------------------------------
static void copy_ops(const dt_op_t *from, dt_op_t *to, uint32_t *n) {
  for (; *n < DT_PATTERN_MOST_ROOTS && from[*n] != DT_OP_NONE; (*n)++)
    to[*n] = from[*n];
}

static dt_pattern_t *make(const named_row_t *named) {
  static const dt_wildcard_t values[DT_PATTERN_MOST_ROOTS] = {
      {.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
  dt_pattern_t *pattern = dt__calloc(1, sizeof(*pattern));
  if (!pattern)
    return NULL;
  dt__arena_init(&pattern->arena, 0);
  pattern->refs = 1;
  pattern->find = named->row->find;
  pattern->replacement = named->row->build;
  pattern->point = named->point;
  pattern->priority = PRIORITY;
  pattern->name = pattern->identity = named->name;
  pattern->inexact = named->inexact;
  pattern->n_wildcards = named->row->n_values;
  pattern->wildcards = values;
  pattern->n_outputs = 1;
  pattern->n_nodes = MOST_NODE_COUNT;
  copy_ops(named->row->roots, pattern->roots, &pattern->n_roots);
  copy_ops(named->row->anchors, pattern->anchors, &pattern->n_anchors);
  return pattern;
}

static dt_status_t add(const dt_hooks_t *hooks, dt_pattern_t *pattern, dt_hooks_t **out) {
  dt_pass_options_t options = dt__pattern_options(pattern);
  return dt__hooks_add_pattern(hooks, pattern, &options, NULL, out);
}

dt_status_t dt__rewrites_add(dt_hooks_t *hooks, dt_hooks_t **out) {
  dt_status_t status = NULL;
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]) && !status; k++) {
    dt_hooks_t *more = NULL;
    dt_pattern_t *pattern = make(&rows[k]);
    status = pattern ? add(hooks, pattern, &more) : DT_NO_MEMORY();
    dt_pattern_release(pattern);
    dt__hooks_release(hooks);
    hooks = more;
  }
  *out = hooks;
  return status;
}

// ---- For rows -----------------------------------------------------------------------------------
static bool has_constant_sizes(const dt_match_t *m, const dt_node_t *node) {
  const dt_symenv_t *env = m->r->work.env;
  for (uint32_t d = 0; d < node->rank; d++)
    if (!dt__sym_is_const(env, node->sizes[d], NULL))
      return false;
  for (uint32_t k = 0; k < node->attrs->n_syms; k++)
    if (!dt__sym_is_const(env, node->attrs->syms[k], NULL))
      return false;
  return true;
}

// `left`: how many nodes may still be looked at.
static bool is_constant(const dt_match_t *m, uint32_t id, uint32_t *left) {
  const dt_node_t *node = dt__match_node(m, id);
  if (node->op == DT_OP_constant || node->op == DT_OP_scalar)
    return true;
  if (*left == 0 || node->n_inputs == 0 || !has_constant_sizes(m, node) ||
      !(dt__op_info(node->op)->flags & (DT_OPF_VIEW | DT_OPF_EW)))
    return false;
  (*left)--;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    if (!is_constant(m, node->inputs[k].id, left))
      return false;
  return true;
}

bool dt__rewrite_is_constant(const dt_match_t *m, uint32_t id) {
  uint32_t left = MOST_NODES;
  return is_constant(m, id, &left);
}

bool dt__rewrite_take(dt_match_t *m, uint32_t id) {
  if (DT_VEC_PUSH(m->r->arena, &m->inner, (dt_inner_t){.id = id}))
    return true;
  m->status = DT_NO_MEMORY();
  m->stop = true;
  return false;
}

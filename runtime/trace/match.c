// SPDX-License-Identifier: Apache-2.0
// Where patterns match: ops of the graph against the skeleton, with backtracking over orders of
// operands and over how much of a chain of broadcasts a wildcard stands for.
#include "runtime/trace/pattern.h"

#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/base/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_STEPS 20000 // at one root
#define MOST_DEPTH 1500
#define WORK_A_LOOK 4096 // nodes that were looked at, about

// ---- Misses -------------------------------------------------------------------------------------
bool dt__match_is_near(const dt_match_t *m, uint32_t score) {
  return m->near && score > m->near->score;
}

void dt__match_miss(dt_match_t *m, uint32_t score, uint32_t g, const char *fmt, ...) {
  char what[400];
  va_list args;
  if (!dt__match_is_near(m, score))
    return;
  va_start(args, fmt);
  (void)vsnprintf(what, sizeof(what), fmt, args);
  va_end(args);
  dt__text_fini(&m->near->text);
  dt__text_init(&m->near->text);
  if (g != m->near->root) {
    dt__rewriter_label(m->r, g, &m->near->text);
    dt__text_put(&m->near->text, ": ");
  }
  dt__text_put(&m->near->text, what);
  m->near->score = score;
}

// ---- Wildcards ----------------------------------------------------------------------------------
static double number_of(const dt_node_t *node) {
  if (dt__dtype_is_float(node->dtype))
    return node->attrs->floats[0];
  return node->dtype == DT_U64 ? (double)(uint64_t)node->attrs->ints[0]
                               : (double)node->attrs->ints[0];
}

// The one element of a constant, where it cannot change after the trace.
static bool read_constant(const dt_match_t *m, const dt_node_t *node, double *out) {
  if (node->op != DT_OP_constant || m->pattern->point != DT_POINT_TRACED ||
      !(m->looking || m->r->site->traced))
    return false;
  const dt_graph_constant_t *constant = &m->r->work.constants.items[node->attrs->index];
  bool one = constant->data != NULL;
  for (uint32_t d = 0; d < constant->rank; d++)
    one = one && constant->sizes[d] == 1;
  if (!one)
    return false;
  dt_scalar_t element = dt__scalar_load(constant->dtype, constant->data);
  *out = dt__scalar_cast(constant->dtype, DT_F64, element).f;
  return true;
}

bool dt__match_number(const dt_match_t *m, uint32_t g, double *out) {
  const dt_node_t *node = dt__match_node(m, g);
  *out = 0;
  if (node->op != DT_OP_scalar)
    return read_constant(m, node, out);
  *out = number_of(node);
  return true;
}

static bool is_of_kind(dt_match_t *m, const dt_wildcard_t *wildcard, uint32_t g) {
  const dt_node_t *node = dt__match_node(m, g);
  double number = 0;
  if (wildcard->kind == DT_WILDCARD_LITERAL) {
    if (!dt__match_number(m, g, &number))
      dt__match_miss(m, m->n_bound, g, "wanted a literal for \"%s\"", wildcard->name);
    else if (!wildcard->accepts || wildcard->accepts(number, m->pattern->closure))
      return true;
    else
      dt__match_miss(m, m->n_bound, g, "\"%s\" does not accept %g", wildcard->name, number);
    return false;
  }
  if (wildcard->kind != DT_WILDCARD_CONSTANT || node->op == DT_OP_constant)
    return true;
  dt__match_miss(m, m->n_bound, g, "wanted a constant for \"%s\"", wildcard->name);
  return false;
}

static bool has_dtype(dt_match_t *m, uint32_t w, uint32_t g) {
  const dt_pattern_t *pattern = m->pattern;
  dt_dtype_t own = dt__match_node(m, g)->dtype, wanted = pattern->wildcards[w].dtype;
  for (uint32_t v = 0; v < pattern->n_wildcards && !wanted; v++)
    if (m->wild[v] && (pattern->same[w] == v + 1 || pattern->same[v] == w + 1))
      wanted = dt__match_node(m, m->wild[v])->dtype;
  if (!wanted || wanted == own)
    return true;
  dt__match_miss(m, m->n_bound, g, "wanted dtype %s for \"%s\", found %s", dt_dtype_name(wanted),
                 pattern->wildcards[w].name, dt_dtype_name(own));
  return false;
}

static void miss_size(dt_match_t *m, uint32_t g, const char *what, dt_sym_t wanted, uint32_t dim) {
  dt_text_t text;
  if (!dt__match_is_near(m, m->n_bound))
    return;
  dt__text_init(&text);
  dt__text_printf(&text, "dim %u: size ", dim);
  dt__sym_print(m->r->work.env, dt__match_node(m, g)->sizes[dim], &text);
  dt__text_printf(&text, " is not known to be %s%s", what, *what ? " " : "");
  dt__sym_print(m->r->work.env, wanted, &text);
  dt__match_miss(m, m->n_bound, g, "%s", dt__text_str(&text));
  dt__text_fini(&text);
}

// What a dim declares of its size, besides its name.
static bool has_facts(dt_match_t *m, const dt_dim_decl_t *dim, uint32_t g, uint32_t d) {
  dt_symenv_t *env = m->r->work.env;
  dt_sym_t size = dt__match_node(m, g)->sizes[d], zero = dt__sym_const(env, 0);
  const struct {
    const char *what;
    bool asked;
    dt_sym_t wanted, cond;
  } facts[] = {
      {"", dim->is_static, dt__sym_const(env, dim->value),
       dt__sym_eq(env, size, dt__sym_const(env, dim->value))},
      {"at least", dim->min > 0, dt__sym_const(env, dim->min),
       dt__sym_le(env, dt__sym_const(env, dim->min), size)},
      {"at most", dim->max > 0, dt__sym_const(env, dim->max),
       dt__sym_le(env, size, dt__sym_const(env, dim->max))},
      {"a multiple of", dim->multiple_of > 1, dt__sym_const(env, dim->multiple_of),
       dt__sym_eq(
           env,
           dt__sym_mod(env, size, dt__sym_const(env, dim->multiple_of > 1 ? dim->multiple_of : 1)),
           zero)},
  };
  for (size_t k = 0; k < sizeof(facts) / sizeof(facts[0]); k++)
    if (facts[k].asked && !(facts[k].cond.id && dt__sym_known_true(env, facts[k].cond))) {
      miss_size(m, g, facts[k].what, facts[k].wanted, d);
      return false;
    }
  return true;
}

// `made` gets the names whose size this node says first.
static bool has_sizes(dt_match_t *m, uint32_t w, uint32_t g, uint32_t *made, uint32_t *n_made) {
  const dt_wildcard_t *wildcard = &m->pattern->wildcards[w];
  const dt_node_t *node = dt__match_node(m, g);
  if (wildcard->kind == DT_WILDCARD_LITERAL) // one element, of whatever rank
    return true;
  if (wildcard->ranked && node->rank != wildcard->rank) {
    dt__match_miss(m, m->n_bound, g, "wanted rank %u for \"%s\", found %u", wildcard->rank,
                   wildcard->name, node->rank);
    return false;
  }
  for (uint32_t d = 0; wildcard->dims && d < wildcard->rank; d++) {
    uint32_t size = m->pattern->size_of[w][d];
    if (!has_facts(m, &wildcard->dims[d], g, d))
      return false;
    if (!size)
      continue;
    dt_sym_t *known = &m->sizes[size - 1];
    if (!known->id) {
      *known = node->sizes[d];
      made[(*n_made)++] = size - 1;
    } else if (!dt__sym_known_eq(m->r->work.env, *known, node->sizes[d])) {
      char what[100];
      (void)snprintf(what, sizeof(what), "\"%.64s\",", m->pattern->sizes[size - 1]);
      miss_size(m, g, what, *known, d);
      return false;
    }
  }
  return true;
}

// ---- Goals --------------------------------------------------------------------------------------
static bool solve(dt_match_t *m, const dt_goal_t *goals, uint32_t next_output);

static bool solve_wildcard_as(dt_match_t *m, const dt_goal_t *goal, uint32_t g,
                              uint32_t next_output) {
  uint32_t w = m->pattern->nodes[goal->p].wildcard, made[DT_MAX_RANK], n_made = 0;
  bool done = false;
  if (is_of_kind(m, &m->pattern->wildcards[w], g) && has_dtype(m, w, g) &&
      has_sizes(m, w, g, made, &n_made)) {
    m->bound[goal->p] = m->wild[w] = g;
    m->n_bound++;
    done = solve(m, goal->next, next_output);
    if (done)
      return true; // all stays bound
    m->n_bound--;
    m->bound[goal->p] = m->wild[w] = 0;
  }
  while (n_made)
    m->sizes[made[--n_made]] = DT_SYM_NONE_ID;
  return false;
}

// A wildcard stands for the operand, or for what was broadcast to it.
static bool solve_wildcard(dt_match_t *m, const dt_goal_t *goal, uint32_t next_output) {
  uint32_t known = m->bound[goal->p], g = goal->g;
  // Numbers and constants are no broadcasts.
  if (m->pattern->wildcards[m->pattern->nodes[goal->p].wildcard].kind != DT_WILDCARD_VALUE)
    while (dt__is_broadcast(dt__match_node(m, g)->op))
      g = dt__match_node(m, g)->inputs[0].id;
  for (;; g = dt__match_node(m, g)->inputs[0].id) {
    if (known == g && solve(m, goal->next, next_output))
      return true;
    if (!known && solve_wildcard_as(m, goal, g, next_output))
      return true;
    if (m->stop)
      return false;
    if (!dt__is_broadcast(dt__match_node(m, g)->op))
      break;
  }
  if (known)
    dt__match_miss(m, m->n_bound, goal->g, "\"%s\" stands for %%%u elsewhere",
                   m->pattern->wildcards[m->pattern->nodes[goal->p].wildcard].name, known);
  return false;
}

static bool same_op(dt_match_t *m, const dt_pattern_node_t *p, uint32_t g) {
  const dt_node_t *node = dt__match_node(m, g);
  if (node->op != p->op)
    dt__match_miss(m, m->n_bound, g, "wanted %s, found %s", dt__op_info(p->op)->name,
                   dt__op_info(node->op)->name);
  else if (node->n_inputs != p->n_inputs)
    dt__match_miss(m, m->n_bound, g, "wanted %u operands, found %u", p->n_inputs, node->n_inputs);
  else if (p->op == DT_OP_scalar && node->dtype == p->dtype &&
           !dt__attrs_equal(node->attrs, p->attrs))
    dt__match_miss(m, m->n_bound, g, "wanted the number %g, found %g",
                   number_of(&(dt_node_t){.dtype = p->dtype, .attrs = p->attrs}), number_of(node));
  else
    return true;
  return false;
}

// Attributes that the program has for all ranks and dtypes that are the sample's, or for all there
// are. Who wants to know gets a better answer of the whole program.
static bool same_attrs(const dt_match_t *m, const dt_pattern_node_t *p, uint32_t g) {
  const dt_node_t *node = dt__match_node(m, g);
  const dt_attrs_t *a = p->attrs, *b = node->attrs;
  if (m->near || !p->n_inputs)
    return true;
  if (a->keepdims != b->keepdims || a->mode != b->mode)
    return false;
  if (p->rank != dt__match_node(m, node->inputs[0].id)->rank)
    return true;
  return a->n_axes == b->n_axes && memcmp(a->axes, b->axes, sizeof(a->axes)) == 0 &&
         memcmp(a->ints, b->ints, sizeof(a->ints)) == 0;
}

// The operands of `p` as goals in front of the others.
static bool solve_operands(dt_match_t *m, const dt_pattern_node_t *p, uint32_t g, bool swapped,
                           const dt_goal_t *next, uint32_t next_output) {
  const dt_node_t *node = dt__match_node(m, g);
  dt_goal_t few[4], *goals = few;
  if (p->n_inputs > 4)
    goals = DT_ARENA_ARRAY(m->r->arena, dt_goal_t, p->n_inputs);
  if (!goals) {
    m->stop = true;
    m->status = DT_NO_MEMORY();
    return false;
  }
  for (uint32_t k = p->n_inputs; k-- > 0;) {
    goals[k] = (dt_goal_t){p->inputs[k], node->inputs[swapped ? 1 - k : k].id, next};
    next = &goals[k];
  }
  return solve(m, next, next_output);
}

static bool solve_op(dt_match_t *m, const dt_goal_t *goal, uint32_t next_output) {
  const dt_pattern_node_t *p = &m->pattern->nodes[goal->p];
  uint32_t g = goal->g, known = m->bound[goal->p];
  while (!dt__is_broadcast(p->op) && dt__is_broadcast(dt__match_node(m, g)->op))
    g = dt__match_node(m, g)->inputs[0].id;
  if (known == g)
    return solve(m, goal->next, next_output);
  if (!same_op(m, p, g) || !same_attrs(m, p, g))
    return false;
  if (!known) { // else it is computed twice in the graph
    m->bound[goal->p] = g;
    m->n_bound++;
  }
  bool done = solve_operands(m, p, g, false, goal->next, next_output);
  if (!done && !m->stop && p->n_inputs == 2 && (dt__op_info(p->op)->flags & DT_OPF_COMM))
    done = solve_operands(m, p, g, true, goal->next, next_output);
  if (!done && !known) {
    m->bound[goal->p] = 0;
    m->n_bound--;
  }
  return done;
}

// ---- Outputs ------------------------------------------------------------------------------------
static bool take_step(dt_match_t *m) {
  if (m->stop || m->steps++ < MOST_STEPS)
    return !m->stop;
  m->stop = true;
  return false;
}

// From node `g` up to output k, of which `step` steps are done.
static bool climb(dt_match_t *m, uint32_t k, uint32_t step, uint32_t g) {
  const dt_pattern_climb_t *way = &m->pattern->climbs[k];
  const dt_pattern_node_t *wanted = &m->pattern->nodes[way->steps[step]];
  bool done = false;
  if (!take_step(m) || ++m->depth > MOST_DEPTH) {
    m->stop = true;
    return false;
  }
  for (const dt_node_use_t *use = m->r->nodes.items[g].uses; use && !done && !m->stop;
       use = use->next) {
    uint32_t user = use->user;
    if (!dt__match_is_live(m, user))
      continue;
    const dt_node_t *node = dt__match_node(m, user);
    if (node->op == wanted->op && step + 1 < way->n)
      done = climb(m, k, step + 1, user);
    else if (node->op == wanted->op) {
      m->outputs[k] = user;
      const dt_goal_t goal = {way->steps[step], user, NULL};
      done = solve(m, &goal, k + 1);
    }
    if (!done && !m->stop && dt__is_broadcast(node->op))
      done = climb(m, k, step, user);
  }
  m->depth--;
  return done;
}

// Everything agrees up to output k.
static bool next_output(dt_match_t *m, uint32_t k) {
  const dt_pattern_t *pattern = m->pattern;
  for (; k < pattern->n_outputs && m->bound[pattern->outputs[k]]; k++)
    m->outputs[k] = m->bound[pattern->outputs[k]];
  if (k == pattern->n_outputs)
    return dt__match_verify(m) && dt__match_finish(m);
  const dt_pattern_climb_t *way = &pattern->climbs[k];
  if (climb(m, k, 0, m->bound[way->from]))
    return true;
  dt__match_miss(m, m->n_bound, m->bound[way->from], "no user of it leads to output %u (%s)", k,
                 dt__op_info(pattern->nodes[pattern->outputs[k]].op)->name);
  return false;
}

static bool solve(dt_match_t *m, const dt_goal_t *goals, uint32_t k) {
  if (!take_step(m))
    return false;
  if (!goals)
    return next_output(m, k);
  if (++m->depth > MOST_DEPTH) {
    m->stop = true;
    return false;
  }
  bool done = m->pattern->nodes[goals->p].op == DT_OP_NONE ? solve_wildcard(m, goals, k)
                                                           : solve_op(m, goals, k);
  m->depth--;
  return done;
}

bool dt__pattern_begins(const dt_pattern_t *pattern, dt_op_t op) {
  for (uint32_t k = 0; k < pattern->n_roots; k++)
    if (pattern->roots[k] == op)
      return true;
  return false;
}

static bool find(dt_match_t *m, uint32_t root) {
  m->inner.len = 0;
  m->outputs[0] = root;
  return m->pattern->find(m, root) && dt__match_finish(m);
}

bool dt__match_at(dt_match_t *m, const dt_pattern_t *pattern, uint32_t root) {
  m->pattern = pattern;
  m->n_bound = m->depth = m->steps = m->traces = 0;
  m->stop = false;
  memset(m->bound, 0, pattern->n_nodes * sizeof(m->bound[0]));
  memset(m->wild, 0, pattern->n_wildcards * sizeof(m->wild[0]));
  memset(m->sizes, 0, pattern->n_sizes * sizeof(m->sizes[0]));
  if (pattern->find)
    return find(m, root);
  const dt_goal_t goal = {pattern->outputs[0], root, NULL};
  if (dt__match_node(m, root)->op != pattern->nodes[goal.p].op)
    return false;
  m->outputs[0] = root;
  return solve(m, &goal, 1);
}

// ---- The walk -----------------------------------------------------------------------------------
static bool push_live(dt_match_t *m, bool *live, uint32_t id) {
  if (live[id])
    return true;
  live[id] = true;
  return DT_VEC_PUSH(m->r->arena, &m->r->stack, id);
}

// Marks what results and updates are made of, and what binds numbers.
static dt_status_t find_live(dt_match_t *m, bool *live) {
  dt_rewriter_t *r = m->r;
  bool good = true;
  r->stack.len = 0;
  for (uint32_t k = 0; k < r->work.outputs.len; k++)
    good = good && push_live(m, live, r->work.outputs.items[k].id);
  for (uint32_t k = 0; k < r->work.updates.len; k++)
    good = good && push_live(m, live, r->work.updates.items[k].value.id);
  for (uint32_t id = 1; id <= r->work.nodes.len; id++)
    if (r->work.nodes.items[id - 1].op == DT_OP_item && !r->nodes.items[id].erased)
      good = good && push_live(m, live, id);
  while (good && r->stack.len) {
    const dt_node_t *node = &r->work.nodes.items[r->stack.items[--r->stack.len] - 1];
    for (uint32_t k = 0; k < node->n_inputs; k++)
      good = good && push_live(m, live, node->inputs[k].id);
  }
  return good ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__match_begin(dt_match_t *m, dt_rewriter_t *r) {
  m->r = r;
  if (!dt__rewriter_sync(r))
    return DT_NO_MEMORY();
  m->n_live = r->work.nodes.len;
  bool *live = DT_ARENA_ARRAY(r->arena, bool, (size_t)m->n_live + 1);
  if (!live)
    return DT_NO_MEMORY();
  m->live = live;
  for (uint32_t id = 0; id <= m->n_live; id++)
    if (!DT_VEC_PUSH(r->arena, &m->places, 0))
      return DT_NO_MEMORY();
  uint32_t place = 0;
  for (uint32_t id = r->nodes.items[0].next; id; id = r->nodes.items[id].next)
    m->places.items[id] = ++place;
  return find_live(m, live);
}

// Patterns by the ops of their first output.
typedef struct by_op_t {
  uint32_t first[DT_OP_COUNT]; // 1 + an entry; [DT_OP_NONE]: of all other ops
  uint32_t n;
  struct {
    const dt_pattern_t *pattern;
    uint32_t next; // 1 + an entry
  } *entries;
} by_op_t;

static uint32_t slot_of(dt_op_t op) { return (uint32_t)op < DT_OP_COUNT ? (uint32_t)op : 0; }

// Of the library's own patterns, or of all others.
static dt_status_t make_index(const dt_match_t *m, const dt_patterns_t *patterns, bool own,
                              by_op_t *index) {
  index->entries =
      dt__arena_alloc(m->r->arena, patterns->n * DT_PATTERN_MOST_ROOTS * sizeof(*index->entries));
  if (!index->entries)
    return DT_NO_MEMORY();
  for (uint32_t k = patterns->n; k-- > 0;) {
    const dt_pattern_t *pattern = patterns->patterns[k];
    for (uint32_t i = 0; (pattern->find != NULL) == own && i < pattern->n_roots; i++) {
      uint32_t *first = &index->first[slot_of(pattern->roots[i])];
      index->entries[index->n].pattern = pattern;
      index->entries[index->n].next = *first;
      *first = ++index->n;
    }
  }
  return NULL;
}

// The ops of the first two operands before broadcasts.
static void look_at_operands(const dt_match_t *m, uint32_t root, dt_op_t *ops) {
  const dt_node_t *node = dt__match_node(m, root);
  for (uint32_t k = 0; k < 2; k++) {
    ops[k] = DT_OP_NONE;
    for (uint32_t g = k < node->n_inputs ? node->inputs[k].id : 0; g;) {
      const dt_node_t *operand = dt__match_node(m, g);
      ops[k] = operand->op;
      g = dt__is_broadcast(operand->op) ? operand->inputs[0].id : 0;
    }
  }
}

static bool may_be(dt_op_t wanted, dt_op_t op) { return wanted == DT_OP_NONE || wanted == op; }

static bool may_match(const dt_pattern_t *pattern, const dt_op_t *ops) {
  const dt_op_t *wanted = pattern->first;
  return (may_be(wanted[0], ops[0]) && may_be(wanted[1], ops[1])) ||
         (may_be(wanted[0], ops[1]) && may_be(wanted[1], ops[0]));
}

// Whether somebody still waits; looked at now and then.
static bool goes_on(dt_match_t *m, uint32_t work) {
  m->work += work;
  if (m->work < WORK_A_LOOK)
    return true;
  m->work = 0;
  if (!dt__watch_is_over(m->r->arena->watch))
    return true;
  m->status = dt__watch_check(m->r->arena->watch);
  return false;
}

static void try_root(dt_match_t *m, const by_op_t *index, uint32_t root) {
  uint32_t at = index->first[slot_of(dt__match_node(m, root)->op)];
  dt_op_t ops[2];
  if (at)
    look_at_operands(m, root, ops);
  for (; at && !m->status; at = index->entries[at - 1].next) {
    const dt_pattern_t *pattern = index->entries[at - 1].pattern;
    if (!may_match(pattern, ops))
      continue;
    if (dt__match_at(m, pattern, root) || !goes_on(m, m->steps + m->traces * pattern->n_nodes))
      return;
  }
}

// From the graph's end to its beginning.
static dt_status_t try_all(dt_match_t *m, const dt_patterns_t *patterns, bool own, uint32_t n,
                           const uint32_t *order) {
  by_op_t *index = DT_ARENA_NEW(m->r->arena, by_op_t);
  if (!index)
    return DT_NO_MEMORY();
  DT_TRY(make_index(m, patterns, own, index));
  for (uint32_t k = n; index->n && k-- > 0 && !m->status;)
    if (goes_on(m, WORK_A_LOOK / 64) && dt__match_is_live(m, order[k]))
      try_root(m, index, order[k]);
  return m->status;
}

// The library's own patterns come behind those of users, which see graphs as programs made them.
dt_status_t dt__match_walk(dt_rewriter_t *r, void *closure) {
  const dt_patterns_t *patterns = closure;
  dt_match_t *m = DT_ARENA_NEW(r->arena, dt_match_t);
  uint32_t *order = DT_ARENA_ARRAY(r->arena, uint32_t, (size_t)r->work.nodes.len + 1), n = 0;
  if (!m || !order)
    return DT_NO_MEMORY();
  DT_TRY(dt__match_begin(m, r));
  for (uint32_t id = r->nodes.items[0].next; id; id = r->nodes.items[id].next)
    order[n++] = id;
  DT_TRY(try_all(m, patterns, false, n, order));
  return try_all(m, patterns, true, n, order);
}

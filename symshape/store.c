// SPDX-License-Identifier: Apache-2.0
// A whole environment as text that reads back as the same one, for code generation in another
// process. Every node keeps its id, and every list of facts its order, so what is built and asked
// afterwards is the same as here. Expressions are then named by their ids: e12.
//
//   environment FROZEN STEPS NODES SYMBOLS FACTS USES PAIRS DIRTY     how many of each follow
//   n OP VALUE LATE COUNT ARGUMENT…       from node 1 on; LATE of symbols only
//   s KIND HINT? HINT NODE EXTENT LO HI MODULUS RESIDUE FACTS IN DIRTY
//   f COND GE0 ONLY LATE                  all zero: a fact that was dropped
//   u WHAT NEXT                           from use 1 on
//   p LESS MORE USES
//   d SYMBOL
//   l NODE REP LO HI LESS                 of nodes that something was learned of; then `end`
//
// Names of symbols, reasons and memos are not written: code generation does not read them.
#include "symshape/sym_private.h"

#define MOST_ITEMS SYM_MAX_NODES

// ---- Writing -----------------------------------------------------------------------------------
static void put(dt_text_t *out, const char *tag, const int64_t *numbers, uint32_t n) {
  dt__text_put(out, tag);
  for (uint32_t k = 0; k < n; k++) {
    dt__text_put(out, " ");
    dt__text_i64(out, numbers[k]);
  }
}

#define PUT_LINE(out, tag, ...)                                                                    \
  do {                                                                                             \
    const int64_t line_[] = {__VA_ARGS__};                                                         \
    put(out, tag, line_, sizeof line_ / sizeof line_[0]);                                          \
    dt__text_put(out, "\n");                                                                       \
  } while (0)

static void write_node(const dt_symenv_t *env, uint32_t id, dt_text_t *out) {
  const dt_sym_node_t *node = &env->nodes[id];
  bool leaf = node->op == DT_SYM_CONST || node->op == DT_SYM_SYMBOL;
  const int64_t head[] = {node->op, leaf ? node->value : 0,
                          node->op == DT_SYM_SYMBOL ? node->late : 0, node->n_args};
  put(out, "n", head, 4);
  for (uint32_t k = 0; k < node->n_args; k++) {
    dt__text_put(out, " ");
    dt__text_i64(out, dt__arg(env, id, k));
  }
  dt__text_put(out, "\n");
}

static void write_learned(const dt_symenv_t *env, dt_text_t *out) {
  for (uint32_t id = 1; id < env->n_nodes; id++) {
    const dt_sym_node_t *node = &env->nodes[id];
    if (node->rep || node->less || node->lo != INT64_MIN || node->hi != INT64_MAX)
      PUT_LINE(out, "l", id, node->rep, node->lo, node->hi, node->less);
  }
}

// Those whose facts were all dropped have their slot still.
static uint32_t count_pairs(const dt_symenv_t *env) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < env->cap_pairs; k++)
    n += env->pairs[k].uses != 0;
  return n;
}

dt_status_t dt__symenv_write(const dt_symenv_t *env, dt_text_t *out) {
  DT_TRY(dt__symenv_status(env));
  PUT_LINE(out, "environment", env->frozen, env->n_steps, env->n_nodes, env->n_symbols,
           env->n_facts, env->n_uses, count_pairs(env), env->n_dirty);
  for (uint32_t id = 1; id < env->n_nodes; id++)
    write_node(env, id, out);
  for (uint32_t k = 0; k < env->n_symbols; k++) {
    const dt_symbol_t *s = &env->symbols[k];
    PUT_LINE(out, "s", s->kind, s->has_hint, s->hint, s->node, s->extent, s->made.lo, s->made.hi,
             s->modulus, s->residue, s->whole, s->divisor, s->facts, s->in, s->dirty);
  }
  for (uint32_t k = 0; k < env->n_facts; k++) {
    const dt_fact_t *fact = &env->facts[k];
    PUT_LINE(out, "f", fact->cond, fact->ge0, fact->only, fact->late);
  }
  for (uint32_t k = 1; k < env->n_uses; k++)
    PUT_LINE(out, "u", env->uses[k].what, env->uses[k].next);
  for (uint32_t k = 0; k < env->cap_pairs; k++)
    if (env->pairs[k].uses)
      PUT_LINE(out, "p", env->pairs[k].less, env->pairs[k].more, env->pairs[k].uses);
  for (uint32_t k = 0; k < env->n_dirty; k++)
    PUT_LINE(out, "d", env->dirty[k]);
  write_learned(env, out);
  dt__text_put(out, "end\n");
  return dt__text_status(out);
}

// ---- Reading -----------------------------------------------------------------------------------
typedef struct dt_counts_t {
  uint32_t nodes, symbols, facts, uses, pairs, dirty;
} dt_counts_t;

typedef struct dt_reader_t {
  dt_symenv_t *env;
  dt_scan_t *scan;
  dt_counts_t n; // as the first line says
} dt_reader_t;

// A number below `end`.
static dt_status_t read_below(dt_scan_t *scan, uint32_t end, uint32_t *out) {
  int64_t value = 0;
  *out = 0;
  DT_TRY(dt__scan_i64(scan, &value));
  if (value < 0 || value >= end)
    return dt__scan_fail(scan, "%lld, expected a number below %u", (long long)value, end);
  *out = (uint32_t)value;
  return NULL;
}

static dt_status_t read_flag(dt_scan_t *scan, bool *out) {
  uint32_t value = 0;
  DT_TRY(read_below(scan, 2, &value));
  *out = value != 0;
  return NULL;
}

// The first of a list's uses, or 0.
static dt_status_t read_list(dt_reader_t *r, uint32_t *out) {
  return read_below(r->scan, r->n.uses ? r->n.uses : 1, out);
}

static dt_status_t read_counts(dt_reader_t *r) {
  uint32_t *const counts[] = {&r->n.nodes, &r->n.symbols, &r->n.facts,
                              &r->n.uses,  &r->n.pairs,   &r->n.dirty};
  DT_TRY(dt__scan_expect(r->scan, "environment"));
  DT_TRY(read_flag(r->scan, &r->env->frozen));
  DT_TRY(read_below(r->scan, UINT32_MAX, &r->env->n_steps));
  for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
    DT_TRY(read_below(r->scan, MOST_ITEMS, counts[k]));
  if (r->n.nodes == 0)
    return dt__scan_fail(r->scan, "an environment without its first node");
  return NULL;
}

// -1: two at least.
static const int arities[] = {
#define SYM_OP(id, name, arity, kind, doc) [DT_SYM_##id] = (arity),
#include "symshape/sym_ops.def"
};

static bool has_arity(uint32_t op, uint32_t n) {
  return arities[op] < 0 ? n >= 2 : n == (uint32_t)arities[op];
}

// Products keep a number of their own, which is found anew.
static bool has_value(uint32_t op) {
  return op == DT_SYM_CONST || op == DT_SYM_SYMBOL || op == DT_SYM_MUL;
}

// Arguments come before the node that holds them.
static dt_status_t read_node(dt_reader_t *r, uint32_t id) {
  uint32_t op = 0, late = 0, n = 0;
  int64_t value = 0;
  DT_TRY(dt__scan_expect(r->scan, "n"));
  DT_TRY(read_below(r->scan, DT_SYM_OP_COUNT, &op));
  DT_TRY(dt__scan_i64(r->scan, &value));
  DT_TRY(read_below(r->scan, MOST_ITEMS, &late));
  DT_TRY(read_below(r->scan, SYM_MAX_TERMS + 1, &n));
  if (op == DT_SYM_NONE || !has_arity(op, n) || (value && !has_value(op)))
    return dt__scan_fail(r->scan, "operation %u with %u arguments and number %lld", op, n,
                         (long long)value);
  if (op == DT_SYM_SYMBOL && (value < 0 || value >= r->n.symbols))
    return dt__scan_fail(r->scan, "symbol %lld of %u", (long long)value, r->n.symbols);
  dt_sym_t few[16], *args = n > 16 ? dt__alloc(n * sizeof *args) : few;
  if (!args)
    return DT_NO_MEMORY();
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < n && !status; k++) {
    status = read_below(r->scan, id, &args[k].id);
    if (!status && args[k].id == 0)
      status = dt__scan_fail(r->scan, "argument %u of node %u is none", k, id);
  }
  if (op == DT_SYM_MUL)
    value = 0;
  uint32_t made = status ? 0 : dt__intern(r->env, (dt_sym_op_t)op, args, n, value);
  if (args != few)
    dt__free(args);
  if (!status)
    status = dt__symenv_status(r->env);
  if (!status && made != id)
    status = dt__scan_fail(r->scan, "node %u is there already, or out of order", id);
  if (!status && op == DT_SYM_SYMBOL)
    r->env->nodes[id].late = late;
  return status;
}

static dt_status_t read_symbol(dt_reader_t *r, uint32_t at) {
  dt_symbol_t s = {0};
  uint32_t kind = 0;
  DT_TRY(dt__scan_expect(r->scan, "s"));
  DT_TRY(read_below(r->scan, DT_SYMBOL_PARAMETER + 1, &kind));
  s.kind = (dt_symbol_kind_t)kind;
  DT_TRY(read_flag(r->scan, &s.has_hint));
  DT_TRY(dt__scan_i64(r->scan, &s.hint));
  DT_TRY(read_below(r->scan, r->n.nodes, &s.node));
  DT_TRY(read_below(r->scan, r->n.nodes, &s.extent));
  DT_TRY(dt__scan_i64(r->scan, &s.made.lo));
  DT_TRY(dt__scan_i64(r->scan, &s.made.hi));
  DT_TRY(dt__scan_i64(r->scan, &s.modulus));
  DT_TRY(dt__scan_i64(r->scan, &s.residue));
  DT_TRY(read_below(r->scan, at + 1, &s.whole));
  DT_TRY(dt__scan_i64(r->scan, &s.divisor));
  DT_TRY(read_list(r, &s.facts));
  DT_TRY(read_list(r, &s.in));
  DT_TRY(read_flag(r->scan, &s.dirty));
  const dt_sym_node_t *node = &r->env->nodes[s.node];
  if (node->op != DT_SYM_SYMBOL || node->value != at)
    return dt__scan_fail(r->scan, "node %u is not symbol %u", s.node, at);
  if ((s.kind == DT_SYMBOL_LOOP) != (s.extent != 0))
    return dt__scan_fail(r->scan, "symbol %u: a loop has an extent, others none", at);
  if ((s.whole != 0) != (s.divisor > 1) || (s.whole && s.kind != DT_SYMBOL_SIZE))
    return dt__scan_fail(r->scan, "symbol %u: a part is of a size, and has a divisor", at);
  s.name = dt__strdup("");
  if (!s.name)
    return DT_NO_MEMORY();
  r->env->symbols[at] = s;
  r->env->n_symbols = at + 1;
  return NULL;
}

static dt_status_t read_fact(dt_reader_t *r, uint32_t at) {
  dt_fact_t fact = {0};
  DT_TRY(dt__scan_expect(r->scan, "f"));
  DT_TRY(read_below(r->scan, r->n.nodes, &fact.cond));
  DT_TRY(read_below(r->scan, r->n.nodes, &fact.ge0));
  DT_TRY(read_below(r->scan, r->n.symbols + 1, &fact.only));
  DT_TRY(read_below(r->scan, r->n.symbols + 1, &fact.late));
  r->env->facts[at] = fact;
  r->env->n_facts = at + 1;
  return NULL;
}

// An entry leads to older ones, so that every list ends.
static dt_status_t read_use(dt_reader_t *r, uint32_t at) {
  uint32_t most = r->n.facts > r->n.symbols ? r->n.facts : r->n.symbols;
  DT_TRY(dt__scan_expect(r->scan, "u"));
  DT_TRY(read_below(r->scan, most, &r->env->uses[at].what));
  DT_TRY(read_below(r->scan, at, &r->env->uses[at].next));
  r->env->n_uses = at + 1;
  return NULL;
}

static dt_status_t read_pair(dt_reader_t *r) {
  uint32_t less = 0, more = 0, uses = 0;
  DT_TRY(dt__scan_expect(r->scan, "p"));
  DT_TRY(read_below(r->scan, r->n.nodes, &less));
  DT_TRY(read_below(r->scan, r->n.nodes, &more));
  DT_TRY(read_below(r->scan, r->n.uses, &uses));
  if (!less || !more || !uses)
    return dt__scan_fail(r->scan, "a pair without facts");
  return dt__fact_pair_restore(r->env, less, more, uses) ? NULL : DT_NO_MEMORY();
}

static dt_status_t read_learned(dt_reader_t *r) {
  uint32_t id = 0;
  DT_TRY(read_below(r->scan, r->n.nodes, &id));
  dt_sym_node_t *node = &r->env->nodes[id];
  DT_TRY(read_below(r->scan, r->n.nodes, &node->rep));
  DT_TRY(dt__scan_i64(r->scan, &node->lo));
  DT_TRY(dt__scan_i64(r->scan, &node->hi));
  return read_list(r, &node->less);
}

// Lists of facts name facts, those of replacements symbols: `end[at]` is what an entry must be
// below, handed on from the first of a list to its last.
static dt_status_t check_lists(dt_reader_t *r) {
  dt_symenv_t *env = r->env;
  uint32_t *end = dt__calloc((size_t)r->n.uses + 1, sizeof *end);
  if (!end)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < env->n_symbols; k++) {
    end[env->symbols[k].facts] = env->n_facts;
    end[env->symbols[k].in] = env->n_symbols;
  }
  for (uint32_t id = 1; id < env->n_nodes; id++)
    end[env->nodes[id].less] = env->n_facts;
  for (uint32_t k = 0; k < env->cap_pairs; k++)
    end[env->pairs[k].uses] = env->n_facts;
  bool ok = true;
  for (uint32_t at = env->n_uses; at-- > 1;) {
    ok &= !end[at] || env->uses[at].what < end[at];
    end[env->uses[at].next] = end[at] ? end[at] : end[env->uses[at].next];
  }
  dt__free(end);
  return ok ? NULL : dt__scan_fail(r->scan, "a list names a fact or symbol that is not there");
}

// ---- What leads where -----------------------------------------------------------------------------
// Recursions go from a node to what it was learned to be equal to, to its arguments, and from a
// loop to its extent. None of that may lead back, or far.
#define MOST_STEPS (4 * SYM_MAX_DEPTH)

typedef struct walk_t {
  const dt_symenv_t *env;
  uint32_t *stack, *next; // nodes under way; by node: which of its ways is next
  uint32_t *steps;        // by node: the most that lie behind it, and 1; 0: not known
} walk_t;

// The k-th way from a node; 0: it has no such way.
static uint32_t way(const dt_symenv_t *env, uint32_t id, uint32_t k) {
  const dt_sym_node_t *node = &env->nodes[id];
  if (k < node->n_args)
    return dt__arg(env, id, k);
  uint32_t own = node->op == DT_SYM_SYMBOL ? env->symbols[node->value].extent : 0;
  uint32_t more[2] = {node->rep, own};
  return k < node->n_args + 2 ? more[k - node->n_args] : 0;
}

static bool goes_from(walk_t *w, uint32_t id) {
  uint32_t depth = 0;
  w->stack[depth++] = id;
  while (depth) {
    uint32_t at = w->stack[depth - 1], k = w->next[at]++;
    if (k >= w->env->nodes[at].n_args + 2) {
      w->steps[at]++;
      depth--;
      if (depth && w->steps[w->stack[depth - 1]] < w->steps[at])
        w->steps[w->stack[depth - 1]] = w->steps[at];
      continue;
    }
    uint32_t to = way(w->env, at, k);
    if (!to)
      continue;
    bool done = w->next[to] > w->env->nodes[to].n_args + 2;
    if (w->next[to] && !done)
      return false; // it is under way
    if (!done)
      w->stack[depth++] = to;
    else if (w->steps[at] < w->steps[to])
      w->steps[at] = w->steps[to];
  }
  return w->steps[id] <= MOST_STEPS;
}

static dt_status_t check_ways(dt_reader_t *r) {
  uint32_t n = r->env->n_nodes;
  uint32_t *all = dt__calloc((size_t)n * 3 + 1, sizeof *all);
  if (!all)
    return DT_NO_MEMORY();
  walk_t w = {r->env, all, all + n, all + 2 * (size_t)n};
  bool ok = true;
  for (uint32_t id = 1; ok && id < n; id++)
    ok = w.next[id] || goes_from(&w, id);
  dt__free(all);
  return ok ? NULL : dt__scan_fail(r->scan, "an expression leads back to itself, or too far");
}

// ---- All ------------------------------------------------------------------------------------------
static bool make_room(dt_reader_t *r) {
  dt_symenv_t *env = r->env;
  return dt__grow((void **)&env->symbols, &env->cap_symbols, r->n.symbols + 1,
                  sizeof *env->symbols) &&
         dt__grow((void **)&env->facts, &env->cap_facts, r->n.facts + 1, sizeof *env->facts) &&
         dt__grow((void **)&env->uses, &env->cap_uses, r->n.uses + 1, sizeof *env->uses) &&
         dt__grow((void **)&env->dirty, &env->cap_dirty, r->n.dirty + 1, sizeof *env->dirty);
}

// How many there are is said before they are there: no more than the text has room for.
static dt_status_t check_counts(const dt_reader_t *r) {
  size_t left = (size_t)(r->scan->end - r->scan->at);
  const dt_counts_t *n = &r->n;
  size_t all = (size_t)n->nodes + n->symbols + n->facts + n->uses + n->pairs + n->dirty;
  return all > left ? dt__scan_fail(r->scan, "%zu items in %zu characters", all, left) : NULL;
}

static dt_status_t read_all(dt_reader_t *r) {
  DT_TRY(read_counts(r));
  DT_TRY(check_counts(r));
  if (!make_room(r))
    return DT_NO_MEMORY();
  for (uint32_t id = 1; id < r->n.nodes; id++)
    DT_TRY(read_node(r, id));
  for (uint32_t k = 0; k < r->n.symbols; k++)
    DT_TRY(read_symbol(r, k));
  for (uint32_t k = 0; k < r->n.facts; k++)
    DT_TRY(read_fact(r, k));
  for (uint32_t k = 1; k < r->n.uses; k++)
    DT_TRY(read_use(r, k));
  for (uint32_t k = 0; k < r->n.pairs; k++)
    DT_TRY(read_pair(r));
  for (uint32_t k = 0; k < r->n.dirty; k++) {
    DT_TRY(dt__scan_expect(r->scan, "d"));
    DT_TRY(read_below(r->scan, r->n.symbols, &r->env->dirty[k]));
    r->env->n_dirty = k + 1;
  }
  while (dt__scan_accept_word(r->scan, "l"))
    DT_TRY(read_learned(r));
  DT_TRY(dt__scan_expect(r->scan, "end"));
  DT_TRY(check_ways(r));
  return check_lists(r);
}

dt_status_t dt__symenv_read(dt_scan_t *scan, dt_symenv_t **out) {
  *out = NULL;
  dt_reader_t reader = {.scan = scan};
  DT_TRY(dt__symenv_create(&reader.env));
  dt_status_t status = read_all(&reader);
  if (!status)
    status = dt__symenv_status(reader.env);
  if (status) {
    dt__symenv_destroy(reader.env);
    return status;
  }
  reader.env->named = true;
  *out = reader.env;
  return NULL;
}

void dt__sym_write(dt_sym_t e, dt_text_t *out) {
  dt__text_put(out, "e");
  dt__text_i64(out, e.id);
}

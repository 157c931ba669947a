// SPDX-License-Identifier: Apache-2.0
// Patterns as they are made: options copied, the program traced on a sample, its skeleton.
#include "runtime/trace/pattern.h"

#include "runtime/base/dtype.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Shares -------------------------------------------------------------------------------------
static void destroy(dt_pattern_t *pattern) {
  dt__arena_fini(&pattern->arena);
  dt__free(pattern);
}

dt_pattern_t *dt__pattern_retain(dt_pattern_t *pattern) {
  (void)atomic_fetch_add_explicit(&pattern->refs, 1, memory_order_relaxed);
  return pattern;
}

void dt_pattern_release(dt_pattern_t *pattern) {
  if (!pattern || atomic_fetch_sub_explicit(&pattern->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (pattern->closure_free)
    pattern->closure_free(pattern->closure);
  destroy(pattern);
}

uint64_t dt_pattern_count(const dt_pattern_t *pattern) {
  return pattern ? atomic_load_explicit(&pattern->count, memory_order_relaxed) : 0;
}

// ---- Wildcards ----------------------------------------------------------------------------------
static dt_status_t find_same(const dt_pattern_t *pattern, uint32_t w, uint32_t *out) {
  const char *name = pattern->wildcards[w].same_dtype;
  for (uint32_t k = 0; k < w; k++)
    if (strcmp(pattern->wildcards[k].name, name) == 0) {
      *out = k + 1;
      return NULL;
    }
  return DT_FAIL(DT_E_ARGUMENT,
                 "wildcard \"%s\": same_dtype: no wildcard before it is named "
                 "\"%.64s\"",
                 pattern->wildcards[w].name, name);
}

static dt_status_t check_wildcard(const dt_pattern_t *pattern, uint32_t w) {
  const dt_wildcard_t *wildcard = &pattern->wildcards[w];
  if (!wildcard->name || !wildcard->name[0])
    return DT_FAIL(DT_E_ARGUMENT, "wildcard %u: name: %s; expected one of its own", w,
                   wildcard->name ? "empty" : "NULL");
  for (uint32_t k = 0; k < w; k++)
    if (strcmp(pattern->wildcards[k].name, wildcard->name) == 0)
      return DT_FAIL(DT_E_ARGUMENT, "wildcards %u and %u are both named \"%s\"", k, w,
                     wildcard->name);
  if ((unsigned)wildcard->kind > DT_WILDCARD_CONSTANT)
    return DT_FAIL(DT_E_ARGUMENT, "wildcard \"%s\": kind %d; expected one of DT_WILDCARD_*",
                   wildcard->name, (int)wildcard->kind);
  if (wildcard->dtype != DT_DTYPE_NONE && !dt__dtype_is_valid(wildcard->dtype))
    return DT_FAIL(DT_E_ARGUMENT, "wildcard \"%s\": %d is no dtype", wildcard->name,
                   (int)wildcard->dtype);
  if (wildcard->ranked && wildcard->rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_LIMIT, "wildcard \"%s\": rank %u; the most is %d", wildcard->name,
                   wildcard->rank, DT_MAX_RANK);
  if (wildcard->dims && !wildcard->ranked)
    return DT_FAIL(DT_E_ARGUMENT, "wildcard \"%s\" has dims: say its rank (ranked, rank)",
                   wildcard->name);
  if (wildcard->kind == DT_WILDCARD_LITERAL && wildcard->ranked && wildcard->rank)
    return DT_FAIL(DT_E_ARGUMENT, "wildcard \"%s\" is a literal, and has rank 0, not %u",
                   wildcard->name, wildcard->rank);
  if (wildcard->accepts && wildcard->kind != DT_WILDCARD_LITERAL)
    return DT_FAIL(DT_E_ARGUMENT, "wildcard \"%s\": accepts is for literals; use the check",
                   wildcard->name);
  return NULL;
}

static dt_status_t copy_dims(dt_pattern_t *pattern, dt_wildcard_t *wildcard, uint32_t size) {
  dt_dim_decl_t *dims = DT_ARENA_ARRAY(&pattern->arena, dt_dim_decl_t, wildcard->rank + 1);
  if (!dims)
    return DT_NO_MEMORY();
  for (uint32_t d = 0; d < wildcard->rank; d++) {
    DT_TRY(DT_ELEMENT_TAKE(dt_dim_decl_t, &dims[d], wildcard->dims, size, d));
    if (dims[d].of || dims[d].mark)
      return DT_FAIL(DT_E_ARGUMENT,
                     "wildcard \"%s\", dim %u: marks and derived dims are for functions; use the "
                     "check",
                     wildcard->name, d);
    const char *name = dims[d].name && dims[d].name[0] ? dims[d].name : NULL;
    dims[d].name = name ? dt__arena_strdup(&pattern->arena, name) : NULL;
    if (name && !dims[d].name)
      return DT_NO_MEMORY();
  }
  wildcard->dims = dims;
  return NULL;
}

static dt_status_t copy_wildcards(dt_pattern_t *pattern, const dt_pattern_options_t *options) {
  dt_arena_t *arena = &pattern->arena;
  uint32_t n = options->n_wildcards;
  if (n == 0 || n > DT_PATTERN_MOST_WILDCARDS)
    return DT_FAIL(n ? DT_E_LIMIT : DT_E_ARGUMENT, "n_wildcards: %u; expected 1 to %u", n,
                   DT_PATTERN_MOST_WILDCARDS);
  if (!options->wildcards)
    return DT_FAIL(DT_E_ARGUMENT, "wildcards: NULL; expected %u", n);
  dt_wildcard_t *wildcards = DT_ARENA_ARRAY(arena, dt_wildcard_t, n);
  uint32_t *same = DT_ARENA_ARRAY(arena, uint32_t, n);
  if (!wildcards || !same)
    return DT_NO_MEMORY();
  pattern->wildcards = wildcards;
  pattern->same = same;
  pattern->n_wildcards = n;
  for (uint32_t w = 0; w < n; w++) {
    DT_TRY(DT_ELEMENT_TAKE(dt_wildcard_t, &wildcards[w], options->wildcards, options->wildcard_size,
                           w));
    DT_TRY(check_wildcard(pattern, w));
    wildcards[w].name = dt__arena_strdup(arena, wildcards[w].name);
    if (!wildcards[w].name)
      return DT_NO_MEMORY();
    if (wildcards[w].same_dtype)
      DT_TRY(find_same(pattern, w, &same[w]));
    wildcards[w].same_dtype = NULL; // `same` says it
    if (wildcards[w].kind == DT_WILDCARD_LITERAL) {
      wildcards[w].ranked = true;
      wildcards[w].dims = NULL;
    }
    if (wildcards[w].dims)
      DT_TRY(copy_dims(pattern, &wildcards[w], options->dim_size));
  }
  return NULL;
}

// Names of dims, each once.
static dt_status_t name_sizes(dt_pattern_t *pattern) {
  dt_arena_t *arena = &pattern->arena;
  const char **names = DT_ARENA_ARRAY(arena, const char *, DT_PATTERN_MOST_NODES);
  pattern->size_of = dt__arena_alloc(arena, pattern->n_wildcards * sizeof(*pattern->size_of));
  if (!names || !pattern->size_of)
    return DT_NO_MEMORY();
  pattern->sizes = names;
  for (uint32_t w = 0; w < pattern->n_wildcards; w++) {
    const dt_wildcard_t *wildcard = &pattern->wildcards[w];
    for (uint32_t d = 0; wildcard->dims && d < wildcard->rank; d++) {
      const char *name = wildcard->dims[d].name;
      uint32_t at = 0;
      while (name && at < pattern->n_sizes && strcmp(names[at], name) != 0)
        at++;
      if (!name)
        continue;
      if (at == DT_PATTERN_MOST_NODES)
        return DT_FAIL(DT_E_LIMIT, "more than %u names of dims", DT_PATTERN_MOST_NODES);
      names[at] = name;
      pattern->n_sizes = at < pattern->n_sizes ? pattern->n_sizes : at + 1;
      pattern->size_of[w][d] = at + 1;
    }
  }
  return NULL;
}

// ---- The sample ---------------------------------------------------------------------------------
static dt_status_t trace_sample(const dt_pattern_t *pattern, dt_dtype_t dtype, uint32_t rank,
                                dt_traced_t **out) {
  dt_input_decl_t inputs[DT_PATTERN_MOST_WILDCARDS];
  for (uint32_t w = 0; w < pattern->n_wildcards; w++) {
    const dt_wildcard_t *wildcard = &pattern->wildcards[w];
    dt_dtype_t own = wildcard->dtype;
    if (!own)
      own = pattern->same[w] ? inputs[pattern->same[w] - 1].dtype : dtype;
    inputs[w] = (dt_input_decl_t){.name = wildcard->name,
                                  .dtype = own,
                                  .rank = wildcard->ranked ? wildcard->rank : rank,
                                  .dims = wildcard->dims};
  }
  const dt_trace_request_t request = {.program = pattern->program,
                                      .closure = pattern->closure,
                                      .n_inputs = pattern->n_wildcards,
                                      .n_outputs = pattern->n_outputs,
                                      .inputs = inputs,
                                      .no_calls = true};
  return dt__trace_run(&request, out);
}

// Of some rank and dtype that the program takes.
static dt_status_t find_sample(const dt_pattern_t *pattern, dt_traced_t **out) {
  static const dt_dtype_t dtypes[] = {DT_F32, DT_I64, DT_I32, DT_BOOL, DT_U8, DT_F64, DT_F16};
  static const uint32_t ranks[] = {2, 3, 4, 1, 0, 5, 6};
  dt_status_t first = NULL;
  for (size_t t = 0; t < sizeof(dtypes) / sizeof(dtypes[0]); t++)
    for (size_t k = 0; k < sizeof(ranks) / sizeof(ranks[0]); k++) {
      dt_status_t status = trace_sample(pattern, dtypes[t], ranks[k], out);
      if (!status) {
        dt_status_free(first);
        return NULL;
      }
      if (dt_status_code(status) == DT_E_NO_MEMORY) {
        dt_status_free(first);
        return status;
      }
      if (first)
        dt_status_free(status);
      else
        first = status;
    }
  return dt__status_annotate(first, "the program on wildcards");
}

// ---- The skeleton -------------------------------------------------------------------------------
typedef struct skeleton_t {
  dt_pattern_t *pattern;
  const dt_graph_t *graph;
  uint32_t *index; // by id: 1 + its index
  dt_pattern_node_t *nodes;
} skeleton_t;

// Before reshapes and expands.
static uint32_t look_through(const dt_graph_t *graph, uint32_t id) {
  for (;;) {
    const dt_node_t *node = dt__graph_node(graph, (dt_node_id_t){id});
    if (!dt__is_broadcast(node->op))
      return id;
    id = node->inputs[0].id;
  }
}

static dt_status_t add_node(skeleton_t *s, uint32_t id, uint32_t *out);

static dt_status_t add_operands(skeleton_t *s, const dt_node_t *node, dt_pattern_node_t *made) {
  uint32_t *inputs = DT_ARENA_ARRAY(&s->pattern->arena, uint32_t, node->n_inputs + 1);
  dt_attrs_t *attrs = dt__arena_copy(&s->pattern->arena, node->attrs, sizeof(*node->attrs));
  if (!inputs || !attrs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < node->n_inputs; k++)
    DT_TRY(add_node(s, look_through(s->graph, node->inputs[k].id), &inputs[k]));
  if (node->n_inputs)
    made->rank = dt__graph_node(s->graph, node->inputs[0])->rank;
  made->inputs = inputs;
  made->n_inputs = node->n_inputs;
  made->attrs = attrs;
  return NULL;
}

// The depth is bounded by the number of nodes.
static dt_status_t add_node(skeleton_t *s, uint32_t id, uint32_t *out) {
  const dt_node_t *node = dt__graph_node(s->graph, (dt_node_id_t){id});
  *out = s->index[id] - 1;
  if (s->index[id])
    return NULL;
  dt_pattern_node_t made = {.op = node->op, .dtype = node->dtype};
  if (node->op == DT_OP_input) {
    made.op = DT_OP_NONE;
    made.wildcard = node->attrs->index;
  } else {
    DT_TRY(add_operands(s, node, &made));
  }
  dt_pattern_t *pattern = s->pattern;
  *out = pattern->n_nodes++;
  s->nodes[*out] = made;
  s->index[id] = *out + 1;
  return NULL;
}

static dt_status_t check_graph(const dt_graph_t *graph) {
  const char *what = graph->constants.len  ? "constants: let a wildcard stand for them"
                     : graph->asserts.len  ? "checks"
                     : graph->captures.len ? "captures"
                     : graph->updates.len  ? "updates"
                     : graph->controls.len ? "branches and loops"
                                           : NULL;
  for (uint32_t k = 0; k < graph->nodes.len && !what; k++)
    what = graph->nodes.items[k].op == DT_OP_item ? "numbers from data" : NULL;
  if (what)
    return DT_FAIL(DT_E_UNSUPPORTED, "a pattern has no %s", what);
  if (graph->nodes.len > DT_PATTERN_MOST_NODES)
    return DT_FAIL(DT_E_LIMIT, "the pattern has %u nodes; the most is %u", graph->nodes.len,
                   DT_PATTERN_MOST_NODES);
  return NULL;
}

static dt_status_t make_nodes(skeleton_t *s) {
  dt_pattern_t *pattern = s->pattern;
  uint32_t *outputs = DT_ARENA_ARRAY(&pattern->arena, uint32_t, pattern->n_outputs);
  s->index = DT_ARENA_ARRAY(&pattern->arena, uint32_t, s->graph->nodes.len + 1);
  s->nodes = DT_ARENA_ARRAY(&pattern->arena, dt_pattern_node_t, s->graph->nodes.len + 1);
  if (!outputs || !s->index || !s->nodes)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < pattern->n_outputs; k++) {
    DT_TRY(add_node(s, s->graph->outputs.items[k].id, &outputs[k]));
    if (s->nodes[outputs[k]].n_inputs == 0)
      return DT_FAIL(DT_E_ARGUMENT, "output %u of the pattern is no op on wildcards", k);
  }
  pattern->nodes = s->nodes;
  pattern->outputs = outputs;
  for (uint32_t w = 0; w < pattern->n_wildcards; w++) {
    bool used = false;
    for (uint32_t k = 0; k < pattern->n_nodes; k++)
      used = used || (s->nodes[k].op == DT_OP_NONE && s->nodes[k].wildcard == w);
    if (!used)
      return DT_FAIL(DT_E_ARGUMENT, "wildcard \"%s\": no output of the pattern is made of it",
                     pattern->wildcards[w].name);
  }
  return NULL;
}

// ---- Climbs -------------------------------------------------------------------------------------
// Marks what node `at` is made of, itself included.
static void mark_known(const dt_pattern_t *pattern, uint32_t at, bool *known) {
  known[at] = true;
  for (uint32_t k = at + 1; k-- > 0;)
    for (uint32_t i = 0; known[k] && i < pattern->nodes[k].n_inputs; i++)
      known[pattern->nodes[k].inputs[i]] = true;
}

// A node to begin at says more the fewer places it can have: ops before wildcards. Literals and
// literal wildcards say nothing.
static uint32_t worth(const dt_pattern_t *pattern, uint32_t at) {
  const dt_pattern_node_t *node = &pattern->nodes[at];
  if (node->op == DT_OP_NONE)
    return pattern->wildcards[node->wildcard].kind == DT_WILDCARD_LITERAL ? 0 : 1;
  return node->n_inputs ? 2 : 0;
}

// The way from `output` down to the nearest node of most worth that is known.
static dt_status_t make_climb(dt_pattern_t *pattern, const bool *known, uint32_t k,
                              dt_pattern_climb_t *climb) {
  uint32_t via[DT_PATTERN_MOST_NODES], steps[DT_PATTERN_MOST_NODES];
  uint32_t output = pattern->outputs[k], queue[DT_PATTERN_MOST_NODES], n = 0, best = UINT32_MAX;
  bool seen[DT_PATTERN_MOST_NODES] = {false};
  queue[n++] = output;
  seen[output] = true;
  for (uint32_t at = 0; at < n; at++) {
    const dt_pattern_node_t *node = &pattern->nodes[queue[at]];
    if (known[queue[at]]) {
      uint32_t is = worth(pattern, queue[at]);
      if (is && (best == UINT32_MAX || is > worth(pattern, best)))
        best = queue[at];
      continue;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
      if (seen[node->inputs[i]])
        continue;
      seen[node->inputs[i]] = true;
      via[node->inputs[i]] = queue[at];
      queue[n++] = node->inputs[i];
    }
  }
  if (best == UINT32_MAX)
    return DT_FAIL(DT_E_ARGUMENT,
                   "output %u of the pattern has nothing in common with the outputs before it", k);
  climb->from = best;
  for (uint32_t at = best; at != output; at = via[at])
    steps[climb->n++] = via[at];
  climb->steps = dt__arena_copy(&pattern->arena, steps, climb->n * sizeof(steps[0]));
  return climb->steps ? NULL : DT_NO_MEMORY();
}

// The op that stands for node `at` in every match; DT_OP_NONE: any may.
static dt_op_t op_at(const dt_pattern_t *pattern, uint32_t at) {
  const dt_pattern_node_t *node = &pattern->nodes[at];
  if (node->op != DT_OP_NONE)
    return node->op;
  dt_wildcard_kind_t kind = pattern->wildcards[node->wildcard].kind;
  if (kind == DT_WILDCARD_LITERAL) // constants count, too, where their data may be read
    return pattern->point == DT_POINT_TRACED ? DT_OP_NONE : DT_OP_scalar;
  return kind == DT_WILDCARD_CONSTANT ? DT_OP_constant : DT_OP_NONE;
}

static void note_root(dt_pattern_t *pattern) {
  const dt_pattern_node_t *root = &pattern->nodes[pattern->outputs[0]];
  pattern->roots[pattern->n_roots++] = root->op;
  for (uint32_t k = 0; k < 2 && k < root->n_inputs; k++)
    pattern->first[k] = op_at(pattern, root->inputs[k]);
}

static dt_status_t make_climbs(dt_pattern_t *pattern) {
  dt_pattern_climb_t *climbs =
      DT_ARENA_ARRAY(&pattern->arena, dt_pattern_climb_t, pattern->n_outputs);
  bool known[DT_PATTERN_MOST_NODES] = {false};
  if (!climbs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < pattern->n_outputs; k++) {
    if (k && !known[pattern->outputs[k]])
      DT_TRY(make_climb(pattern, known, k, &climbs[k]));
    mark_known(pattern, pattern->outputs[k], known);
  }
  pattern->climbs = climbs;
  return NULL;
}

// ---- Making one ---------------------------------------------------------------------------------
static dt_status_t make_skeleton(dt_pattern_t *pattern) {
  dt_traced_t *traced = NULL;
  DT_TRY(find_sample(pattern, &traced));
  skeleton_t s = {.pattern = pattern, .graph = traced->graph};
  dt_status_t status = check_graph(s.graph);
  if (!status)
    status = make_nodes(&s);
  if (!status)
    status = make_climbs(pattern);
  if (!status)
    note_root(pattern);
  dt__traced_destroy(traced);
  return status;
}

static dt_status_t fill(dt_pattern_t *pattern, const dt_pattern_options_t *options) {
  dt_arena_t *arena = &pattern->arena;
  if (!options->name)
    return DT_FAIL(DT_E_ARGUMENT, "name: NULL");
  pattern->name = dt__arena_strdup(arena, options->name);
  if (pattern->point == DT_POINT_FUSED || strcmp(dt_point_name(pattern->point), "none") == 0)
    return DT_FAIL(DT_E_ARGUMENT, "point %d (%s); expected one at which graphs are changed",
                   (int)pattern->point, dt_point_name(pattern->point));
  if (options->n_outputs == 0 || options->n_outputs > DT_PATTERN_MOST_WILDCARDS)
    return DT_FAIL(options->n_outputs ? DT_E_LIMIT : DT_E_ARGUMENT,
                   "n_outputs: %u; expected 1 to %u", options->n_outputs,
                   DT_PATTERN_MOST_WILDCARDS);
  pattern->identity =
      options->identity ? dt__arena_strdup(arena, options->identity) : pattern->name;
  if (!pattern->name || !pattern->identity)
    return DT_NO_MEMORY();
  pattern->priority = options->priority;
  pattern->on_demand = options->on_demand;
  pattern->shared = options->shared;
  pattern->n_outputs = options->n_outputs;
  DT_TRY(copy_wildcards(pattern, options));
  DT_TRY(name_sizes(pattern));
  return make_skeleton(pattern);
}

static dt_status_t create(dt_pattern_t *pattern, const dt_pattern_options_t *options) {
  dt_pattern_options_t own;
  DT_TRY(DT_OPTIONS_TAKE(dt_pattern_options_t, &own, options));
  pattern->point = own.point ? own.point : DT_POINT_BEFORE_DECOMPOSE;
  DT_TRY(fill(pattern, &own));
  pattern->closure_free = own.closure_free;
  return NULL;
}

dt_status_t dt_pattern_create(dt_program_fn_t program, dt_replacement_fn_t replacement,
                              dt_match_check_fn_t check, void *closure,
                              const dt_pattern_options_t *options, dt_pattern_t **out) {
  if (!program || !replacement || !options || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_pattern_create: %s: NULL",
                   !program       ? "pattern"
                   : !replacement ? "replacement"
                   : !options     ? "options"
                                  : "out");
  *out = NULL;
  dt_pattern_t *pattern = dt__calloc(1, sizeof(*pattern));
  if (!pattern)
    return DT_NO_MEMORY();
  dt__arena_init(&pattern->arena, 4096);
  pattern->refs = 1;
  pattern->program = program;
  pattern->replacement = replacement;
  pattern->check = check;
  pattern->closure = closure;
  dt_status_t status = create(pattern, options);
  if (status) {
    bool named = pattern->name != NULL;
    status = named ? dt__status_annotate(status, "dt_pattern_create: pattern %.64s", pattern->name)
                   : dt__status_annotate(status, "dt_pattern_create");
    destroy(pattern);
    return status;
  }
  *out = pattern;
  return NULL;
}

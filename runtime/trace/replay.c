// SPDX-License-Identifier: Apache-2.0
// Graph IR text as a program: declarations from its inputs, then node for node.
#include "runtime/trace/builder.h"

#include "runtime/trace/hooks.h"
#include "runtime/trace/op_call.h"
#include "runtime/trace/op_list.h"
#include "runtime/trace/replay.h"

#include <string.h>

struct dt_replay_t {
  dt_arena_t arena;
  dt_symenv_t *env; // of the text
  dt_graph_t *graph;
  const char *file;
  int *lines;        // by node
  int *assert_lines; // by assert
  dt_input_decl_t *inputs;
  dt_output_decl_t *outputs;
  int64_t *captures;       // what the text's captures read: their hints
  dt_tensor_t **constants; // of the text, borrowing its data
  dt_traced_t *traced;     // whose graph it is, and environment, and constants; NULL: a text's
};

// ---- Declarations -------------------------------------------------------------------------------
// How many dims of inputs read the symbol `e`.
static uint32_t uses(const dt_replay_t *r, dt_sym_t e) {
  uint32_t n = 0, symbol = 0;
  (void)dt__sym_is_symbol(r->env, e, &symbol);
  for (uint32_t k = 0; k < r->graph->inputs.len; k++) {
    const dt_graph_input_t *input = &r->graph->inputs.items[k];
    for (uint32_t d = 0; d < input->rank; d++)
      n += dt__sym_depends(r->env, input->sizes[d], dt__symbol_sym(r->env, symbol));
  }
  return n;
}

// What the dims of a symbol are called; NULL where it needs no name. *failed: no memory.
static const char *name_of(dt_replay_t *r, dt_sym_t e, bool *failed) {
  uint32_t symbol = 0;
  (void)dt__sym_is_symbol(r->env, e, &symbol);
  const char *name = dt__symbol_info(r->env, symbol).name;
  bool own = name && name[0] && !strchr(name, '(');
  if (!own && uses(r, e) < 2)
    return NULL;
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(r->env, e, &text);
  const char *out = dt__arena_strdup(&r->arena, own ? name : dt__text_str(&text));
  *failed |= !out || text.failed;
  dt__text_fini(&text);
  return out;
}

static bool is_a_dim(const dt_replay_t *r, dt_sym_t symbol) {
  for (uint32_t k = 0; k < r->graph->inputs.len; k++) {
    const dt_graph_input_t *input = &r->graph->inputs.items[k];
    for (uint32_t d = 0; d < input->rank; d++) {
      if (input->sizes[d].id == symbol.id)
        return true;
    }
  }
  return false;
}

// e == scale * symbol + offset with numbers for scale and offset, and the symbol is a dim's size.
static bool is_derived(const dt_replay_t *r, dt_sym_t e, dt_sym_t *symbol, int64_t *scale,
                       int64_t *offset) {
  uint32_t index = 0;
  dt_sym_t coef, rest;
  if (dt__sym_symbols(r->env, e, &index, 1) != 1)
    return false;
  *symbol = dt__symbol_sym(r->env, index);
  return dt__sym_linear(r->env, e, *symbol, &coef, &rest) &&
         dt__sym_is_const(r->env, coef, scale) && dt__sym_is_const(r->env, rest, offset) &&
         *scale > 0 && is_a_dim(r, *symbol);
}

static void declare_dim(dt_replay_t *r, dt_sym_t e, dt_dim_decl_t *out, bool *failed) {
  uint32_t symbol = 0;
  dt_sym_t of;
  int64_t value = 0, scale = 0, offset = 0;
  if (dt__sym_is_const(r->env, e, &value)) {
    out->is_static = true;
    out->value = value;
  } else if (dt__sym_is_symbol(r->env, e, &symbol)) {
    dt_range_t range = dt__symbol_info(r->env, symbol).range;
    out->name = name_of(r, e, failed);
    out->min = range.lo > 0 ? range.lo : 0;
    out->max = range.hi < DT_SIZE_LIMIT - 1 ? range.hi : 0;
  } else if (is_derived(r, e, &of, &scale, &offset)) {
    out->of = name_of(r, of, failed);
    out->scale = scale;
    out->offset = offset;
  } // else: compared when it is replayed
}

static dt_status_t declare(dt_replay_t *r) {
  uint32_t n = r->graph->inputs.len;
  bool failed = false;
  r->inputs = DT_ARENA_ARRAY(&r->arena, dt_input_decl_t, n + 1);
  if (!r->inputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    const dt_graph_input_t *input = &r->graph->inputs.items[k];
    dt_dim_decl_t *dims = DT_ARENA_ARRAY(&r->arena, dt_dim_decl_t, input->rank + 1);
    if (!dims)
      return DT_NO_MEMORY();
    for (uint32_t d = 0; d < input->rank; d++)
      declare_dim(r, input->sizes[d], &dims[d], &failed);
    r->inputs[k] = (dt_input_decl_t){.name = input->name[0] ? input->name : NULL,
                                     .dtype = input->dtype,
                                     .rank = input->rank,
                                     .dims = dims,
                                     .alignment = input->align};
    if (input->donated)
      r->inputs[k].kind = DT_INPUT_DONATED;
    if (input->is_int)
      r->inputs[k].kind = input->dtype == DT_BOOL ? DT_INPUT_BOOLEAN : DT_INPUT_INTEGER;
  }
  return failed ? DT_NO_MEMORY() : NULL;
}

// The orders that the text asks for; NULL where it asks for none.
static dt_status_t declare_outputs(dt_replay_t *r) {
  const dt_graph_t *graph = r->graph;
  if (graph->orders.len == 0)
    return NULL;
  r->outputs = DT_ARENA_ARRAY(&r->arena, dt_output_decl_t, graph->outputs.len);
  if (!r->outputs)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < graph->orders.len; k++) {
    const dt_graph_order_t *from = &graph->orders.items[k];
    uint32_t rank = dt__graph_node(graph, graph->outputs.items[k])->rank;
    r->outputs[k].like_input = from->like;
    if (from->like)
      continue;
    uint32_t *order = DT_ARENA_ARRAY(&r->arena, uint32_t, rank + 1);
    if (!order)
      return DT_NO_MEMORY();
    for (uint32_t d = 0; d < rank; d++)
      order[d] = from->dims[d];
    r->outputs[k].order = order;
    r->outputs[k].rank = rank;
  }
  return NULL;
}

// ---- Reading the text ---------------------------------------------------------------------------
// A line that begins with `word`, and goes on behind it.
static bool begins(const char *at, const char *end, const char *word) {
  size_t len = strlen(word);
  return (size_t)(end - at) > len && memcmp(at, word, len) == 0;
}

// The lines of nodes, which begin with their numbers, and of asserts. Bodies begin at the end of a
// line; their nodes have numbers of their own.
static dt_status_t find_lines(dt_replay_t *r, const char *text, size_t len) {
  const char *end = text + len;
  int line = 1, depth = 0;
  uint32_t asserts = 0;
  r->lines = DT_ARENA_ARRAY(&r->arena, int, r->graph->nodes.len + 1);
  r->assert_lines = DT_ARENA_ARRAY(&r->arena, int, r->graph->asserts.len + 1);
  if (!r->lines || !r->assert_lines)
    return DT_NO_MEMORY();
  for (const char *at = text; at < end; line++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    uint32_t id = 0;
    while (at < end && *at == ' ')
      at++;
    if (begins(at, end, "assert ") && asserts < r->graph->asserts.len)
      r->assert_lines[asserts++] = line;
    bool node = at < end && *at == '%' && depth == 1;
    depth -= at < end && *at == '}';
    depth += stop && stop > text && stop[-1] == '{';
    for (at++; node && at < end && *at >= '0' && *at <= '9' && id <= r->graph->nodes.len; at++)
      id = id * 10 + (uint32_t)(*at - '0');
    if (node && id && id <= r->graph->nodes.len)
      r->lines[id - 1] = line;
    at = stop ? stop + 1 : end;
  }
  return NULL;
}

static dt_status_t keep_constants(dt_replay_t *r, dt_tensor_t *const *given) {
  uint32_t n = r->graph->constants.len;
  r->constants = DT_ARENA_ARRAY(&r->arena, dt_tensor_t *, n + 1);
  if (!r->constants)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    if (given) {
      dt_tensor_retain(given[k]);
      r->constants[k] = given[k];
      continue;
    }
    const dt_graph_constant_t *constant = &r->graph->constants.items[k];
    dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                             .dtype = constant->dtype,
                             .rank = constant->rank,
                             .sizes = constant->sizes,
                             .data = (void *)(uintptr_t)constant->data};
    DT_TRY(dt_tensor_create(&desc, &r->constants[k]));
  }
  return NULL;
}

static dt_status_t keep_captures(dt_replay_t *r) {
  r->captures = DT_ARENA_ARRAY(&r->arena, int64_t, r->graph->captures.len + 1);
  if (!r->captures)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < r->graph->captures.len; k++) {
    if (!dt__sym_hint(r->env, r->graph->captures.items[k].value, &r->captures[k]))
      r->captures[k] = 0;
  }
  return NULL;
}

static dt_status_t read_text(dt_replay_t *r, const char *text, size_t len,
                             dt_tensor_t *const *constants, uint32_t n_constants) {
  dt_scan_t scan;
  const void **data = constants ? DT_ARENA_ARRAY(&r->arena, const void *, n_constants + 1) : NULL;
  if (constants && !data)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n_constants; k++)
    data[k] = constants[k]->data;
  DT_TRY(dt__symenv_create(&r->env));
  dt__scan_init(&scan, text, len, r->file);
  DT_TRY(dt__graph_parse_over(&r->arena, r->env, &scan, data, &r->graph));
  if (!dt__scan_end(&scan))
    return dt__scan_fail(&scan, "expected the end of the text");
  DT_TRY(dt__graph_verify(r->graph));
  if (r->graph->outputs.len == 0)
    return DT_FAIL(DT_E_FORMAT, "%s: the graph returns nothing", r->file);
  DT_TRY(find_lines(r, text, len));
  DT_TRY(declare(r));
  DT_TRY(declare_outputs(r));
  DT_TRY(keep_captures(r));
  return keep_constants(r, constants);
}

dt_status_t dt__replay_create(const char *text, size_t len, const char *file,
                              dt_tensor_t *const *constants, uint32_t n_constants,
                              dt_replay_t **out) {
  *out = NULL;
  dt_replay_t *r = dt__calloc(1, sizeof(*r));
  if (!r)
    return DT_NO_MEMORY();
  dt__arena_init(&r->arena, 0);
  r->file = dt__arena_strdup(&r->arena, file);
  dt_status_t status = r->file ? read_text(r, text, len, constants, n_constants) : DT_NO_MEMORY();
  if (status) {
    dt__replay_destroy(r);
    return status;
  }
  *out = r;
  return NULL;
}

dt_status_t dt__replay_create_traced(dt_traced_t *traced, dt_replay_t **out) {
  *out = NULL;
  dt_replay_t *r = dt__calloc(1, sizeof(*r));
  if (!r) {
    dt__traced_destroy(traced);
    return DT_NO_MEMORY();
  }
  dt__arena_init(&r->arena, 0);
  r->traced = traced;
  r->env = traced->env;
  r->graph = traced->graph;
  r->constants = traced->constants.items;
  *out = r;
  return NULL;
}

void dt__replay_destroy(dt_replay_t *r) {
  if (!r)
    return;
  for (uint32_t k = 0; !r->traced && r->constants && k < r->graph->constants.len; k++)
    dt_tensor_release(r->constants[k]);
  if (!r->traced)
    dt__symenv_destroy(r->env);
  dt__traced_destroy(r->traced);
  dt__arena_fini(&r->arena);
  dt__free(r);
}

const dt_input_decl_t *dt__replay_inputs(const dt_replay_t *r, uint32_t *out_n) {
  *out_n = r->graph->inputs.len;
  return r->inputs;
}

const dt_output_decl_t *dt__replay_outputs(const dt_replay_t *r) { return r->outputs; }

uint32_t dt__replay_n_outputs(const dt_replay_t *r) { return r->graph->outputs.len; }

// ---- Symbols ------------------------------------------------------------------------------------
typedef struct run_t {
  const dt_replay_t *r;
  const dt_graph_t *text; // the text's graph, or a body of it
  const int *lines;       // by node; NULL: of a body, whose lines are those of what it belongs to
  dt_trace_t *trace;
  const dt_value_t *in;
  dt_sym_t *symbols;              // by symbol of the text: in the trace; none until it is bound
  dt_value_t *values;             // by node of the text
  dt_value_t **results;           // by control of the text: what came out
  dt_value_t **externals;         // by call of a user's op in the text: its results
  struct replayed_call_t **calls; // of the whole text, one for each body that is called
} run_t;

// Binds `e` of the text, where it is a symbol that stands for nothing yet.
static void bind(const run_t *run, dt_sym_t e, dt_sym_t here) {
  uint32_t symbol = 0;
  if (dt__sym_is_symbol(run->r->env, e, &symbol) && run->symbols[symbol].id == 0)
    run->symbols[symbol] = here;
}

static dt_sym_t import_symbol(const run_t *run, uint32_t symbol) {
  if (run->symbols[symbol].id)
    return run->symbols[symbol];
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(run->r->env, dt__symbol_sym(run->r->env, symbol), &text);
  DT_TRACE_FAIL(run->trace, DT_E_UNSUPPORTED, "no input binds the symbol %s", dt__text_str(&text));
  dt__text_fini(&text);
  return DT_SYM_NONE_ID;
}

typedef dt_sym_t (*binary_fn_t)(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
static const binary_fn_t builders[DT_SYM_OP_COUNT] = {
    [DT_SYM_ADD] = dt__sym_add, [DT_SYM_MUL] = dt__sym_mul, [DT_SYM_MIN] = dt__sym_min,
    [DT_SYM_MAX] = dt__sym_max, [DT_SYM_AND] = dt__sym_and, [DT_SYM_OR] = dt__sym_or,
    [DT_SYM_EQ] = dt__sym_eq,   [DT_SYM_NE] = dt__sym_ne,   [DT_SYM_LT] = dt__sym_lt,
    [DT_SYM_LE] = dt__sym_le,   [DT_SYM_MOD] = dt__sym_mod, [DT_SYM_FLOORDIV] = dt__sym_floordiv,
};

// The expression in the trace; none with the trace failed. Depth is bounded by the reader's.
static dt_sym_t import(const run_t *run, dt_sym_t e) {
  dt_symenv_t *env = run->trace->env;
  dt_sym_view_t view = dt__sym_view(run->r->env, e);
  if (run->trace->status)
    return DT_SYM_NONE_ID;
  if (view.op == DT_SYM_CONST)
    return dt__trace_made(run->trace, dt__sym_const(env, view.value));
  if (view.op == DT_SYM_SYMBOL)
    return import_symbol(run, view.symbol);
  dt_sym_t out = view.n_args ? import(run, view.args[0]) : DT_SYM_NONE_ID;
  if (view.op == DT_SYM_NOT) {
    out = dt__sym_not(env, out);
  } else if (view.op == DT_SYM_SELECT) {
    dt_sym_t a = import(run, view.args[1]);
    out = dt__sym_select(env, out, a, import(run, view.args[2]));
  } else {
    for (uint32_t k = 1; k < view.n_args; k++) {
      dt_sym_t next = import(run, view.args[k]);
      out = builders[view.op] ? builders[view.op](env, out, next) : DT_SYM_NONE_ID;
    }
  }
  return run->trace->status ? DT_SYM_NONE_ID : dt__trace_made(run->trace, out);
}

static void bind_inputs(const run_t *run) {
  const dt_graph_t *text = run->r->graph;
  for (uint32_t k = 0; k < text->inputs.len; k++) {
    const dt_graph_input_t *from = &text->inputs.items[k];
    const dt_graph_input_t *to = &run->trace->graph->inputs.items[k];
    for (uint32_t d = 0; d < from->rank; d++)
      bind(run, from->sizes[d], to->sizes[d]);
    if (from->is_int)
      bind(run, from->value, to->value);
  }
  for (uint32_t k = 0; k < text->inputs.len; k++) {
    for (uint32_t d = 0; d < text->inputs.items[k].rank; d++)
      bind(run, text->inputs.items[k].strides[d], run->trace->graph->inputs.items[k].strides[d]);
  }
  for (uint32_t k = 0; k < text->captures.len; k++) {
    dt_sym_t here = (dt_capture)(run->trace, text->captures.items[k].name, &run->r->captures[k]);
    here.id %= DT_TRACE_MOST_SYMS; // without the tag that programs see
    bind(run, text->captures.items[k].value, here);
  }
}

// The trace's size and the text's are one: known, or a guard.
static void require_equal(const run_t *run, dt_sym_t here, dt_sym_t e, const char *what) {
  dt_symenv_t *env = run->trace->env;
  dt_sym_t there = import(run, e);
  if (run->trace->status || dt__sym_known_eq(env, here, there))
    return;
  dt_sym_t cond = dt__trace_made(run->trace, dt__sym_eq(env, here, there));
  if (cond.id)
    (void)dt__trace_take(run->trace, dt__sym_require(env, cond, &run->trace->origin, what));
}

static void check_inputs(const run_t *run) {
  const dt_graph_t *text = run->r->graph;
  for (uint32_t k = 0; k < text->inputs.len; k++) {
    for (uint32_t d = 0; d < text->inputs.items[k].rank; d++)
      require_equal(run, run->trace->graph->inputs.items[k].sizes[d],
                    text->inputs.items[k].sizes[d], "a size is what the text says");
  }
}

// ---- Nodes --------------------------------------------------------------------------------------
static dt_value_t add_node(const run_t *run, const dt_node_t *node) {
  static const dt_value_t none = {0};
  dt_value_t few[8], *inputs = few;
  if (node->n_inputs > 8)
    inputs = DT_ARENA_ARRAY(&run->trace->traced->arena, dt_value_t, node->n_inputs);
  if (!inputs) {
    (void)dt__trace_take(run->trace, DT_NO_MEMORY());
    return none;
  }
  for (uint32_t k = 0; k < node->n_inputs; k++)
    inputs[k] = run->values[node->inputs[k].id - 1];
  dt_attrs_t attrs = *node->attrs;
  for (uint32_t k = 0; k < attrs.n_syms && k < 2 * DT_MAX_RANK; k++)
    attrs.syms[k] = import(run, node->attrs->syms[k]);
  return dt__trace_add(run->trace, node->op, inputs, node->n_inputs, &attrs);
}

// A number from data: a symbol of the trace's own, in the range that the text gives.
static dt_value_t replay_item(const run_t *run, const dt_node_t *node) {
  static const dt_value_t none = {0};
  uint32_t symbol = 0;
  if (!dt__trace_begin(run->trace, "item"))
    return none;
  if (!dt__sym_is_symbol(run->r->env, node->attrs->syms[0], &symbol)) {
    DT_TRACE_FAIL(run->trace, DT_E_FORMAT, "it binds no symbol");
    return none;
  }
  dt_range_t range = dt__symbol_info(run->r->env, symbol).range;
  dt_sym_t made = dt__trace_bind(run->trace, run->values[node->inputs[0].id - 1], range);
  if (run->trace->status)
    return none;
  bind(run, node->attrs->syms[0], made);
  return dt__trace_value(run->trace, (dt_node_id_t){run->trace->graph->nodes.len});
}

// ---- Bodies -------------------------------------------------------------------------------------
static void replay_nodes(const run_t *run);

typedef struct body_run_t {
  const run_t *outer;
  const dt_graph_control_t *bodies;
  uint32_t next;              // case
  const dt_value_t *captured; // associative_scan
} body_run_t;

static dt_status_t replay_body(const body_run_t *own, uint32_t b, const dt_value_t *in,
                               dt_value_t *out) {
  run_t run = *own->outer;
  dt_arena_t *arena = &run.trace->traced->arena;
  run.text = own->bodies->bodies[b];
  run.lines = NULL;
  run.in = in;
  run.values = DT_ARENA_ARRAY(arena, dt_value_t, run.text->nodes.len + 1);
  run.results = DT_ARENA_ARRAY(arena, dt_value_t *, run.text->controls.len + 1);
  run.externals = DT_ARENA_ARRAY(arena, dt_value_t *, run.text->externals.len + 1);
  if (!run.values || !run.results || !run.externals)
    return DT_NO_MEMORY();
  replay_nodes(&run);
  for (uint32_t k = 0; k < run.text->outputs.len && !run.trace->status; k++)
    out[k] = run.values[run.text->outputs.items[k].id - 1];
  return NULL;
}

// A body that calls share has one closure, by which the trace knows it again.
typedef struct replayed_call_t {
  struct replayed_call_t *next;
  run_t outer;
  body_run_t own;
} replayed_call_t;

static body_run_t *called(const run_t *run, const dt_graph_control_t *bodies) {
  replayed_call_t *call = *run->calls;
  while (call && call->own.bodies->bodies[0] != bodies->bodies[0])
    call = call->next;
  if (call)
    return &call->own;
  call = DT_ARENA_NEW(&run->trace->traced->arena, replayed_call_t);
  if (!call)
    return NULL;
  *call = (replayed_call_t){.next = *run->calls, .outer = *run, .own = {.bodies = bodies}};
  call->own.outer = &call->outer;
  *run->calls = call;
  return &call->own;
}

static dt_status_t first_body(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                              void *closure) {
  (void)trace;
  return replay_body(closure, 0, in, out);
}

static dt_status_t second_body(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)trace;
  return replay_body(closure, 1, in, out);
}

// Cases are traced in order.
static dt_status_t next_case(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                             void *closure) {
  body_run_t *own = closure;
  (void)trace;
  return replay_body(own, own->next++, in, out);
}

static void replay_switch(const run_t *run, body_run_t *own, const dt_node_t *node,
                          const dt_value_t *in, uint32_t n_out, dt_value_t *out) {
  dt_branch_fn_t cases[DT_MOST_CASES];
  uint32_t n = dt__control_n(own->bodies);
  for (uint32_t k = 0; k < n; k++)
    cases[k] = next_case;
  (dt_switch)(run->trace, in[0], n, cases, own, node->n_inputs - 1, in + 1, n_out, out);
}

static void replay_call(const run_t *run, const dt_graph_control_t *bodies, uint32_t n_in,
                        const dt_value_t *in, uint32_t n_out, dt_value_t *out) {
  body_run_t *own = called(run, bodies);
  if (!own)
    (void)dt__trace_take(run->trace, DT_NO_MEMORY());
  else
    (dt_subgraph)(run->trace, first_body, own, n_in, in, n_out, 0, out);
}

// The two tuples come from the scan, what is captured from outside.
static dt_status_t join_body(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                             void *closure) {
  const body_run_t *own = closure;
  const dt_graph_t *body = own->bodies->bodies[0];
  uint32_t n = 2 * body->outputs.len;
  dt_value_t *all = DT_ARENA_ARRAY(&trace->traced->arena, dt_value_t, body->inputs.len + 1);
  if (!all)
    return DT_NO_MEMORY();
  memcpy(all, in, n * sizeof(*all));
  for (uint32_t k = n; k < body->inputs.len; k++)
    all[k] = own->captured[k - n];
  return replay_body(own, 0, all, out);
}

// The node is no value in the trace; what came out is kept for its `result` nodes.
static void replay_control(const run_t *run, const dt_node_t *node) {
  dt_arena_t *arena = &run->trace->traced->arena;
  body_run_t own = {run, dt__graph_control(run->text, node), 0, NULL};
  uint32_t n_out = own.bodies->bodies[node->op == DT_OP_while]->outputs.len;
  dt_value_t *in = DT_ARENA_ARRAY(arena, dt_value_t, node->n_inputs + 1);
  dt_value_t *out = DT_ARENA_ARRAY(arena, dt_value_t, n_out + 1);
  if (!in || !out) {
    (void)dt__trace_take(run->trace, DT_NO_MEMORY());
    return;
  }
  run->results[node->attrs->index] = out;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    in[k] = run->values[node->inputs[k].id - 1];
  own.captured = in + n_out;
  if (node->op == DT_OP_associative_scan)
    (dt_associative_scan)(run->trace, join_body, &own, n_out, in, node->attrs->axes[0], 0, out);
  else if (node->op == DT_OP_switch)
    replay_switch(run, &own, node, in, n_out, out);
  else if (node->op == DT_OP_call)
    replay_call(run, own.bodies, node->n_inputs, in, n_out, out);
  else if (node->op == DT_OP_cond)
    (dt_cond)(run->trace, in[0], first_body, second_body, &own, node->n_inputs - 1, in + 1, n_out,
              out);
  else
    (dt_while)(run->trace, first_body, second_body, &own, n_out, in, node->n_inputs - n_out,
               in + n_out, out);
}

// ---- Calls of users' ops ------------------------------------------------------------------------
// The op of this runtime is asked what its results are: the text's word is not taken for it. Its
// results are kept for their `result` nodes.
static dt_value_t replay_external(const run_t *run, const dt_node_t *node) {
  static const dt_value_t none = {0};
  const dt_graph_external_t *external = dt__graph_external(run->text, node);
  dt_trace_t *trace = run->trace;
  dt_value_t in[DT_OP_MAX_INPUTS];
  dt_value_t *out = DT_ARENA_ARRAY(&trace->traced->arena, dt_value_t, DT_OP_MAX_RESULTS);
  const dt_op_list_t *ops = trace->request->hooks ? trace->request->hooks->ops : NULL;
  const dt_op_def_t *def = dt__op_list_find(ops, external->name);
  if (!out) {
    (void)dt__trace_take(trace, DT_NO_MEMORY());
    return none;
  }
  if (def && strcmp(def->options.identity, external->identity) != 0) {
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED,
                  "%s: the text was made with \"%.64s\", and the runtime's op is \"%.64s\"",
                  external->name, external->identity, def->options.identity);
    return none;
  }
  for (uint32_t k = 0; k < node->n_inputs && k < DT_OP_MAX_INPUTS; k++)
    in[k] = run->values[node->inputs[k].id - 1];
  if (external->part == DT_EXTERNAL_NUMBERS)
    return dt__op_numbers(trace, external->name, node->n_inputs, in, external->n_attrs,
                          external->attrs);
  dt_op_call(trace, external->name, node->n_inputs, in, external->n_attrs, external->attrs,
             external->n_results, out);
  run->externals[node->attrs->index] = out;
  return out[0];
}

static dt_value_t replay_result(const run_t *run, const dt_node_t *node) {
  const dt_node_t *of = dt__graph_node(run->text, node->inputs[0]);
  dt_value_t **results = of->op == DT_OP_external ? run->externals : run->results;
  return results[of->attrs->index][node->attrs->index];
}

static dt_value_t replay_node(const run_t *run, const dt_node_t *node) {
  const dt_graph_t *text = run->text;
  uint32_t index = node->attrs->index;
  if (node->op == DT_OP_input)
    return dt__trace_current(run->trace, run->in[index]); // updates come last
  if (node->op == DT_OP_constant)
    return (dt_constant)(run->trace, text->constants.items[index].name, run->r->constants[index]);
  if (node->op == DT_OP_result)
    return replay_result(run, node);
  if (node->op == DT_OP_external)
    return replay_external(run, node);
  if (node->op == DT_OP_item)
    return replay_item(run, node);
  if (!dt__trace_begin(run->trace, dt__op_info(node->op)->name))
    return (dt_value_t){0};
  return add_node(run, node);
}

// A size that the text gives as a symbol of its own is bound by the node's; others must agree.
static void take_sizes(const run_t *run, const dt_node_t *node, dt_value_t made) {
  for (uint32_t d = 0; d < node->rank && !run->trace->status; d++) {
    dt_sym_t here = dt__graph_node(run->trace->graph, (dt_node_id_t){made.id})->sizes[d];
    bind(run, node->sizes[d], here);
    require_equal(run, here, node->sizes[d], "a size is what the text says");
  }
}

static void replay_nodes(const run_t *run) {
  const dt_graph_t *text = run->text;
  for (uint32_t k = 0; k < text->nodes.len && !run->trace->status; k++) {
    const dt_node_t *node = &text->nodes.items[k];
    if (run->lines)
      (void)dt_trace_at(run->trace, run->r->file, run->lines[k]);
    else if (run->r->traced)
      (void)dt_trace_at(run->trace, node->origin.file, node->origin.line);
    if (dt__op_is_control(node->op)) {
      replay_control(run, node);
      continue;
    }
    run->values[k] = replay_node(run, node);
    if (!run->trace->status)
      take_sizes(run, node, run->values[k]);
  }
}

static void replay_check(const run_t *run, dt_sym_t asked, const char *what) {
  dt_sym_t cond = import(run, asked);
  if (cond.id)
    (dt_check)(run->trace, cond, what);
}

static void replay_checks(const run_t *run) {
  const dt_graph_t *text = run->r->graph;
  for (uint32_t k = 0; k < text->asserts.len && !run->trace->status; k++) {
    const dt_origin_t *origin = &text->asserts.items[k].origin;
    if (run->r->traced)
      (void)dt_trace_at(run->trace, origin->file, origin->line);
    else
      (void)dt_trace_at(run->trace, run->r->file, run->r->assert_lines[k]);
    replay_check(run, text->asserts.items[k].cond, text->asserts.items[k].what);
  }
}

// What the trace assumed: the graph is the program only where it holds.
static void replay_conditions(const run_t *run) {
  const dt_traced_t *traced = run->r->traced;
  for (uint32_t k = 0; traced && k < traced->conds.len && !run->trace->status; k++) {
    const dt_guard_cond_t *item = &traced->conds.items[k];
    (void)dt_trace_at(run->trace, item->origin.file, item->origin.line);
    replay_check(run, item->cond, "what the first trace was made for");
  }
}

dt_status_t dt__replay_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                               void *replay) {
  const dt_replay_t *r = replay;
  const dt_graph_t *text = r->graph;
  dt_arena_t *arena = &trace->traced->arena;
  replayed_call_t *calls = NULL;
  run_t run = {.r = r, .text = text, .lines = r->lines, .trace = trace, .in = in, .calls = &calls};
  run.symbols = DT_ARENA_ARRAY(arena, dt_sym_t, dt__symenv_symbol_count(r->env) + 1);
  run.values = DT_ARENA_ARRAY(arena, dt_value_t, text->nodes.len + 1);
  run.results = DT_ARENA_ARRAY(arena, dt_value_t *, text->controls.len + 1);
  run.externals = DT_ARENA_ARRAY(arena, dt_value_t *, text->externals.len + 1);
  if (!run.symbols || !run.values || !run.results || !run.externals)
    return DT_NO_MEMORY();
  if (!r->traced)
    (void)dt_trace_at(trace, r->file, 1);
  if (!dt__trace_begin(trace, "input"))
    return NULL;
  bind_inputs(&run);
  check_inputs(&run);
  replay_conditions(&run);
  replay_nodes(&run);
  replay_checks(&run);
  for (uint32_t k = 0; k < text->updates.len && !trace->status; k++)
    (dt_update)(trace, in[text->updates.items[k].input],
                run.values[text->updates.items[k].value.id - 1]);
  for (uint32_t k = 0; k < text->outputs.len && !trace->status; k++)
    out[k] = run.values[text->outputs.items[k].id - 1];
  return NULL;
}

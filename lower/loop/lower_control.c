// SPDX-License-Identifier: Apache-2.0
// Lowering of `cond`, `switch` and `while`: their bodies' kernels become regions of the program.
// Only outputs that are read are lowered, with the values that they need.
//
//   cond   IF p {then; R = …} ELSE {else; R = …}                 R: STATE, the results
//   switch CASE p is 0 {…; R = …} CASE 1 {…; R = …} …
//   while  P = test(init); S = init; WHILE P {new = body(S); p = test(new); S = new; P = p}
//
// The test is lowered twice. So a loop's last kernels can be plain copies into the state, which
// read nothing of it: all values of the body are computed before any of the state changes.
#include "lower/loop/lower_private.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Regions --------------------------------------------------------------------------------------
static dt_status_t open_region(dt_lowering_t *ctx, dt_region_kind_t kind, dt_buffer_id_t predicate,
                               uint32_t *out) {
  dt_program_t *program = ctx->program;
  dt_program_region_t region = {
      .kind = kind, .predicate = predicate, .section_first = dt__lower_new_section(ctx)};
  *out = program->regions.len;
  return DT_VEC_PUSH(ctx->arena, &program->regions, region) ? NULL : DT_NO_MEMORY();
}

static void close_region(dt_lowering_t *ctx, uint32_t at) {
  ctx->program->regions.items[at].section_end = ctx->program->n_sections;
}

// ---- Bodies -----------------------------------------------------------------------------------------
dt_status_t dt__lower_body(dt_lowering_t *outer, const dt_graph_t *body,
                           const dt_lowered_t *operands, const bool *wanted, dt_lowering_t *out) {
  uint32_t n = body->nodes.len;
  bool *live = DT_ARENA_ARRAY(outer->arena, bool, (size_t)n + 1);
  *out = *outer;
  out->graph = body;
  if (!live)
    return DT_NO_MEMORY();
  DT_TRY(dt__lower_tables(out));
  for (uint32_t k = 0; k < body->outputs.len; k++)
    if (!wanted || wanted[k])
      live[body->outputs.items[k].id - 1] = true;
  for (uint32_t k = n; k-- > 0;)
    for (uint32_t i = 0; live[k] && i < body->nodes.items[k].n_inputs; i++)
      live[body->nodes.items[k].inputs[i].id - 1] = true;
  for (uint32_t k = 0; k < n; k++) {
    const dt_node_t *node = &body->nodes.items[k];
    if (node->op == DT_OP_input)
      out->values[k] = operands[node->attrs->index];
    else if (live[k])
      DT_TRY(dt__lower_node_of(out, (dt_node_id_t){k + 1}));
  }
  return NULL;
}

static dt_status_t add_state(dt_lowering_t *ctx, dt_lowering_t *from, dt_node_id_t like,
                             uint32_t index, dt_buffer_id_t *out) {
  DT_TRY(dt__lower_temp(from, like, out));
  dt_buffer_t *buffer = dt__program_buffer(ctx->program, *out);
  buffer->kind = DT_BUFFER_STATE;
  buffer->index = index;
  return NULL;
}

// A buffer that holds value `id` and nothing else, made where it is read otherwise.
static dt_status_t predicate_buffer(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t *out) {
  const dt_inst_t *read = &ctx->values[id.id - 1].read;
  *out = (dt_buffer_id_t){0};
  if (read->kind == DT_INST_LOAD && read->mask == DT_NO_INST &&
      dt__program_buffer(ctx->program, read->buffer)->rank == 0) {
    *out = read->buffer;
    return NULL;
  }
  DT_TRY(dt__lower_temp(ctx, id, out));
  return dt__lower_copy(ctx, id, *out);
}

// The operands of a node, as they are read outside.
static dt_lowered_t *operands_of(const dt_lowering_t *ctx, const dt_node_t *node, uint32_t first) {
  dt_lowered_t *made = DT_ARENA_ARRAY(ctx->arena, dt_lowered_t, (size_t)node->n_inputs + 1);
  for (uint32_t k = first; made && k < node->n_inputs; k++)
    made[k - first] = ctx->values[node->inputs[k].id - 1];
  return made;
}

// ---- cond -------------------------------------------------------------------------------------------
typedef struct control_t {
  dt_lowering_t *ctx;
  dt_node_id_t id;
  const dt_node_t *node;
  const dt_graph_control_t *bodies;
  dt_lowered_t *operands;
  uint32_t n_outputs;
  bool *wanted;           // by output: a `result` reads it
  dt_buffer_id_t *states; // by output
} control_t;

// The first `result` node of the control, then the one after node `id`; 0: none.
static uint32_t result_after(const control_t *c, uint32_t id) {
  return c->ctx->next_result[id - 1];
}

// Calls `result` nodes of the control what they read.
static dt_status_t give_results(const control_t *c) {
  for (uint32_t id = result_after(c, c->id.id); id; id = result_after(c, id)) {
    const dt_node_t *node = dt__lower_node(c->ctx, (dt_node_id_t){id});
    DT_TRY(dt__lower_from_buffer(c->ctx, (dt_node_id_t){id}, c->states[node->attrs->index]));
  }
  return NULL;
}

static bool find_wanted(control_t *c) {
  uint32_t first = result_after(c, c->id.id);
  for (uint32_t id = first; id; id = result_after(c, id))
    c->wanted[dt__lower_node(c->ctx, (dt_node_id_t){id})->attrs->index] = true;
  return first != 0;
}

static dt_status_t lower_branch(control_t *c, uint32_t b, dt_buffer_id_t predicate) {
  const dt_graph_t *body = c->bodies->bodies[b];
  dt_lowering_t inner;
  uint32_t region = 0;
  dt_region_kind_t kind = c->node->op == DT_OP_switch ? DT_REGION_CASE
                          : b                         ? DT_REGION_ELSE
                                                      : DT_REGION_IF;
  DT_TRY(open_region(c->ctx, kind, predicate, &region));
  c->ctx->program->regions.items[region].index = kind == DT_REGION_CASE ? b : 0;
  c->ctx->program->regions.items[region].n = kind == DT_REGION_CASE ? dt__control_n(c->bodies) : 0;
  DT_TRY(dt__lower_body(c->ctx, body, c->operands, c->wanted, &inner));
  for (uint32_t k = 0; k < c->n_outputs; k++)
    if (c->wanted[k])
      DT_TRY(dt__lower_copy(&inner, body->outputs.items[k], c->states[k]));
  close_region(c->ctx, region);
  return NULL;
}

static dt_status_t lower_branches(control_t *c) {
  dt_buffer_id_t predicate;
  DT_TRY(predicate_buffer(c->ctx, c->node->inputs[0], &predicate));
  for (uint32_t id = result_after(c, c->id.id); id; id = result_after(c, id)) {
    uint32_t index = dt__lower_node(c->ctx, (dt_node_id_t){id})->attrs->index;
    if (!c->states[index].id)
      DT_TRY(add_state(c->ctx, c->ctx, (dt_node_id_t){id}, 0, &c->states[index]));
  }
  for (uint32_t b = 0; b < dt__control_n(c->bodies); b++)
    DT_TRY(lower_branch(c, b, predicate));
  (void)dt__lower_new_section(c->ctx);
  return give_results(c);
}

// ---- while ------------------------------------------------------------------------------------------
// The state as it is read inside of the loop, and after it.
static dt_status_t read_states(control_t *c, dt_lowered_t *out) {
  dt_lowering_t *ctx = c->ctx;
  for (uint32_t k = 0; k < c->n_outputs; k++) {
    dt_lowered_t outside = ctx->values[c->node->inputs[k].id - 1];
    DT_TRY(dt__lower_from_buffer(ctx, c->node->inputs[k], c->states[k]));
    out[k] = ctx->values[c->node->inputs[k].id - 1];
    ctx->values[c->node->inputs[k].id - 1] = outside;
  }
  return NULL;
}

// State that a body gives back as it got it needs no copy.
static bool stays(const dt_graph_t *body, uint32_t k) {
  const dt_node_t *node = dt__graph_node(body, body->outputs.items[k]);
  return node->op == DT_OP_input && node->attrs->index == k;
}

// The value in a temporary of its own, which no state's change touches.
static dt_status_t own_temporary(dt_lowering_t *inner, dt_node_id_t id, dt_buffer_id_t *out) {
  *out = dt__lower_own_buffer(inner, id);
  if (out->id && dt__program_buffer(inner->program, *out)->kind == DT_BUFFER_TEMP)
    return NULL;
  DT_TRY(dt__lower_temp(inner, id, out));
  return dt__lower_copy(inner, id, *out);
}

// One trip: the new state and its test, then the copies.
static dt_status_t lower_trip(control_t *c, const dt_lowered_t *state, dt_buffer_id_t predicate) {
  const dt_graph_t *body = c->bodies->bodies[1], *test = c->bodies->bodies[0];
  uint32_t n = c->n_outputs;
  dt_lowering_t inner, tested;
  dt_lowered_t *operands = operands_of(c->ctx, c->node, 0);
  dt_buffer_id_t *sources = DT_ARENA_ARRAY(c->ctx->arena, dt_buffer_id_t, (size_t)n + 1);
  if (!operands || !sources)
    return DT_NO_MEMORY();
  memcpy(operands, state, n * sizeof(*operands));
  DT_TRY(dt__lower_body(c->ctx, body, operands, NULL, &inner));
  for (uint32_t k = 0; k < n; k++) {
    if (!stays(body, k))
      DT_TRY(own_temporary(&inner, body->outputs.items[k], &sources[k]));
    operands[k] = inner.values[body->outputs.items[k].id - 1];
  }
  DT_TRY(dt__lower_body(c->ctx, test, operands, NULL, &tested));
  DT_TRY(own_temporary(&tested, test->outputs.items[0], &sources[n]));
  for (uint32_t k = 0; k < n; k++)
    if (!stays(body, k))
      DT_TRY(dt__lower_move(&inner, body->outputs.items[k], sources[k], c->states[k], "carry"));
  return dt__lower_move(&tested, test->outputs.items[0], sources[n], predicate, "carry");
}

static dt_status_t lower_while(control_t *c) {
  dt_lowering_t *ctx = c->ctx, first;
  const dt_graph_t *test = c->bodies->bodies[0];
  uint32_t region = 0;
  dt_buffer_id_t predicate;
  dt_lowered_t *state = DT_ARENA_ARRAY(ctx->arena, dt_lowered_t, (size_t)c->n_outputs + 1);
  if (!state)
    return DT_NO_MEMORY();
  DT_TRY(dt__lower_body(ctx, test, c->operands, NULL, &first));
  // The region's number is known once the first test has made its own.
  uint32_t index = ctx->program->regions.len + 1;
  DT_TRY(add_state(ctx, &first, test->outputs.items[0], index, &predicate));
  DT_TRY(dt__lower_copy(&first, test->outputs.items[0], predicate));
  for (uint32_t k = 0; k < c->n_outputs; k++) {
    DT_TRY(add_state(ctx, ctx, c->node->inputs[k], index, &c->states[k]));
    DT_TRY(dt__lower_copy(ctx, c->node->inputs[k], c->states[k]));
  }
  DT_TRY(open_region(ctx, DT_REGION_WHILE, predicate, &region));
  DT_TRY(read_states(c, state));
  DT_TRY(lower_trip(c, state, predicate));
  close_region(ctx, region);
  (void)dt__lower_new_section(ctx);
  return give_results(c);
}

// ---- Both -------------------------------------------------------------------------------------------
dt_status_t dt__lower_control(dt_lowering_t *ctx, dt_node_id_t id) {
  const dt_node_t *node = dt__lower_node(ctx, id);
  if (node->op == DT_OP_result) // its value was set with that of what it reads
    return NULL;
  if (node->op == DT_OP_associative_scan) // a kernel, and no region
    return dt__lower_associative_scan(ctx, id);
  if (node->op == DT_OP_call)
    return dt__lower_call(ctx, id);
  control_t c = {.ctx = ctx, .id = id, .node = node, .bodies = dt__graph_control(ctx->graph, node)};
  c.n_outputs = c.bodies->bodies[node->op == DT_OP_while]->outputs.len;
  c.operands = operands_of(ctx, node, node->op != DT_OP_while);
  c.wanted = DT_ARENA_ARRAY(ctx->arena, bool, (size_t)c.n_outputs + 1);
  c.states = DT_ARENA_ARRAY(ctx->arena, dt_buffer_id_t, (size_t)c.n_outputs + 1);
  if (!c.operands || !c.wanted || !c.states)
    return DT_NO_MEMORY();
  if (!find_wanted(&c))
    return NULL;
  return node->op == DT_OP_while ? lower_while(&c) : lower_branches(&c);
}

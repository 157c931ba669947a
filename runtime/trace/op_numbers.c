// SPDX-License-Identifier: Apache-2.0
// Numbers that users' ops read from data (dt_op_number): one node reads all of a call, and calls of
// an op on the same inputs share it and its symbols. A trace finds both by the call, in a table.
#include "runtime/trace/op_call.h"

#include "runtime/base/hash.h"

#include <string.h>

// ---- Calls that read the same -------------------------------------------------------------------
bool dt__op_node_ids(const dt_op_call_t *call, dt_node_id_t *out) {
  for (uint32_t k = 0; k < call->n_inputs; k++) {
    if (!dt__trace_node(call->trace, call->inputs[k], "an input"))
      return false;
    out[k] = (dt_node_id_t){dt__trace_current(call->trace, call->inputs[k]).id};
  }
  return true;
}

// Where the value lies, and how many bytes it is.
static const void *attr_value(const dt_op_attr_t *attr, size_t *bytes) {
  switch (attr->kind) {
  case DT_OP_ATTR_INT:
    *bytes = sizeof(attr->i);
    return &attr->i;
  case DT_OP_ATTR_FLOAT:
    *bytes = sizeof(attr->f);
    return &attr->f;
  case DT_OP_ATTR_TEXT:
    *bytes = strlen(attr->text);
    return attr->text;
  case DT_OP_ATTR_INTS:
    *bytes = attr->n * sizeof(*attr->ints);
    return attr->ints;
  case DT_OP_ATTR_FLOATS:
    *bytes = attr->n * sizeof(*attr->floats);
    return attr->floats;
  }
  *bytes = 0;
  return NULL;
}

static bool same_attr(const dt_op_attr_t *a, const dt_op_attr_t *b) {
  size_t a_bytes = 0, b_bytes = 0;
  const void *a_value = attr_value(a, &a_bytes), *b_value = attr_value(b, &b_bytes);
  return a->kind == b->kind && a_bytes == b_bytes && strcmp(a->name, b->name) == 0 &&
         (!a_bytes || memcmp(a_value, b_value, a_bytes) == 0);
}

static uint64_t hash_call(const dt_op_call_t *call, const dt_node_id_t *inputs) {
  const char *name = call->external.name;
  uint64_t hash = dt__hash(name, strlen(name), call->external.n_attrs);
  for (uint32_t k = 0; k < call->external.n_attrs; k++) {
    const dt_op_attr_t *attr = &call->external.attrs[k];
    size_t bytes = 0;
    const void *value = attr_value(attr, &bytes);
    hash = dt__hash_mix(hash, dt__hash(attr->name, strlen(attr->name), (uint64_t)attr->kind));
    hash = dt__hash_mix(hash, bytes ? dt__hash(value, bytes, 0) : 0);
  }
  return dt__hash_mix(hash, dt__hash(inputs, call->n_inputs * sizeof(*inputs), 0));
}

static bool is_of(const dt_op_call_t *call, dt_node_id_t id, const dt_node_id_t *inputs) {
  const dt_node_t *node = dt__graph_node(call->trace->graph, id);
  const dt_graph_external_t *other = dt__graph_external(call->trace->graph, node);
  bool same = other->def == call->def && other->n_attrs == call->external.n_attrs &&
              node->n_inputs == call->n_inputs;
  for (uint32_t k = 0; same && k < call->n_inputs; k++)
    same = node->inputs[k].id == inputs[k].id;
  for (uint32_t k = 0; same && k < other->n_attrs; k++)
    same = same_attr(&other->attrs[k], &call->external.attrs[k]);
  return same;
}

// ---- The table ----------------------------------------------------------------------------------
typedef struct read_t {
  uint64_t hash;                       // of the call
  dt_node_id_t node;                   // which reads all of its numbers
  dt_sym_t numbers[DT_OP_MAX_NUMBERS]; // none: not bound yet
} read_t;

typedef struct dt_trace_reads_t {
  DT_VEC(read_t) all; // in the order of their nodes
  uint32_t mask;      // the length of `slots` less 1
  uint32_t *slots;    // by hash: 1 + an index of `all`; at most half of them are taken
} reads_t;

static bool make_room(dt_trace_t *trace) {
  dt_arena_t *arena = &trace->traced->arena;
  if (!trace->reads)
    trace->reads = DT_ARENA_NEW(arena, reads_t);
  reads_t *reads = trace->reads;
  if (!reads)
    return dt__trace_take(trace, DT_NO_MEMORY());
  if (reads->slots && (reads->all.len + 1) * 2 <= reads->mask)
    return true;
  uint32_t mask = reads->slots ? reads->mask * 2 + 1 : 15;
  uint32_t *slots = DT_ARENA_ARRAY(arena, uint32_t, (size_t)mask + 1);
  for (uint32_t k = 0; slots && k < reads->all.len; k++) {
    uint32_t at = (uint32_t)reads->all.items[k].hash & mask;
    while (slots[at])
      at = (at + 1) & mask;
    slots[at] = k + 1;
  }
  if (!slots)
    return dt__trace_take(trace, DT_NO_MEMORY());
  reads->slots = slots;
  reads->mask = mask;
  return true;
}

// The read of just this call, or where it goes. The table has room.
static const read_t *find(const dt_op_call_t *call, uint64_t hash, const dt_node_id_t *inputs,
                          uint32_t *slot) {
  const reads_t *reads = call->trace->reads;
  *slot = (uint32_t)hash & reads->mask;
  for (; reads->slots[*slot]; *slot = (*slot + 1) & reads->mask) {
    const read_t *read = &reads->all.items[reads->slots[*slot] - 1];
    if (read->hash == hash && is_of(call, read->node, inputs))
      return read;
  }
  return NULL;
}

// The read whose node this is; they stand in the order of their nodes.
static read_t *read_of(const dt_trace_t *trace, uint32_t id) {
  reads_t *reads = trace->reads;
  uint32_t low = 0, high = reads ? reads->all.len : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (reads->all.items[middle].node.id < id)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = reads && low < reads->all.len && reads->all.items[low].node.id == id;
  return found ? &reads->all.items[low] : NULL;
}

// ---- Reading ------------------------------------------------------------------------------------
static dt_value_t add_node(dt_op_call_t *call) {
  dt_symenv_t *env = call->trace->env;
  dt_external_result_t result = {.dtype = DT_I64, .rank = 1};
  result.sizes[0] = dt__sym_const(env, call->def->options.n_numbers);
  dt_graph_external_t numbers = call->external;
  numbers.part = DT_EXTERNAL_NUMBERS;
  numbers.n_results = 1;
  numbers.results = &result;
  numbers.items = dt__sym_const(env, 1);
  return dt__trace_add_external(call->trace, &numbers, call->inputs, call->n_inputs);
}

void dt__op_read_numbers(dt_op_call_t *call) {
  dt_trace_t *trace = call->trace;
  dt_node_id_t inputs[DT_OP_MAX_INPUTS];
  uint32_t slot = 0;
  if (!dt__op_node_ids(call, inputs) || !dt__trace_may_bind(trace) || !make_room(trace))
    return;
  read_t made = {.hash = hash_call(call, inputs)};
  const read_t *read = find(call, made.hash, inputs, &slot);
  if (read) {
    call->numbers = dt__trace_value(trace, read->node);
    return;
  }
  call->numbers = add_node(call);
  made.node.id = call->numbers.id;
  if (trace->status)
    return;
  if (!DT_VEC_PUSH(&trace->traced->arena, &trace->reads->all, made))
    (void)dt__trace_take(trace, DT_NO_MEMORY());
  else
    trace->reads->slots[slot] = trace->reads->all.len;
}

void dt__op_note_number(dt_trace_t *trace, dt_value_t scalar, dt_sym_t number) {
  const dt_graph_t *graph = trace->graph;
  const dt_node_t *node = dt__graph_node(graph, (dt_node_id_t){scalar.id});
  int64_t start = -1;
  if (node->op == DT_OP_reshape)
    node = dt__graph_node(graph, node->inputs[0]);
  read_t *read = node->op == DT_OP_slice ? read_of(trace, node->inputs[0].id) : NULL;
  if (read && dt__sym_is_const(graph->env, node->attrs->syms[0], &start) && start >= 0 &&
      start < DT_OP_MAX_NUMBERS)
    read->numbers[start] = number;
}

// A number that a call before this one reads, if it may not be more than `most`.
static dt_sym_t read_number(const dt_op_call_t *call, uint32_t index, int64_t most) {
  dt_trace_t *trace = call->trace;
  const read_t *read = read_of(trace, call->numbers.id);
  dt_sym_t known = read ? read->numbers[index] : DT_SYM_NONE_ID;
  if (known.id) {
    dt_range_t range = dt__sym_range(trace->env, known);
    if (range.lo >= 0 && range.hi <= most)
      return known;
  }
  dt_value_t one = dt__trace_slice(trace, call->numbers, 0, dt__sym_const(trace->env, index),
                                   dt__sym_const(trace->env, 1), 1);
  return trace->status ? DT_SYM_NONE_ID : dt__trace_bind(trace, one, (dt_range_t){0, most});
}

dt_sym_t dt_op_number(dt_op_call_t *call, uint32_t index, int64_t most) {
  if (!dt__op_inferring(call, "dt_op_number"))
    return DT_SYM_NONE_ID;
  dt_trace_t *trace = call->trace;
  const char *name = call->external.name;
  if (index >= call->def->options.n_numbers || most < 0 || most >= DT_SIZE_LIMIT)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%s: number %u of %u, of at most %lld", name, index,
                  call->def->options.n_numbers, (long long)most);
  else if (trace->pass)
    DT_TRACE_FAIL(trace, DT_E_STATE, "%s: a pass reads no numbers from data", name);
  else if (dt__place_device(trace->request->place) != DT_CPU ||
           !dt__op_has_kernel(call->def, DT_CPU))
    DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "%s: its numbers are read by the CPU alone", name);
  if (!trace->status && !call->numbers.id)
    dt__op_read_numbers(call);
  if (!trace->status && !call->number[index].id)
    call->number[index] = read_number(call, index, most);
  return trace->status ? DT_SYM_NONE_ID : dt__trace_told(trace, call->number[index]);
}

// SPDX-License-Identifier: Apache-2.0
// See random_twin.h. Every step is checked like an instruction of the generator's, and undone where
// it is not valid or does not come back to the dims it began with.
#include "test/conform/graphs/random_twin.h"

#include "runtime/base/dtype.h"

#include <string.h>

typedef struct twin_t {
  const rg_program_t *p;
  rg_program_t *q;
  uint64_t random;
  uint32_t left;              // nodes of p that are still to come
  uint32_t plain[RG_NODES];   // by node of p: its copy
  uint32_t seen[RG_NODES][2]; // what stands for it; users choose
  uint64_t *uses;
} twin_t;

const char *rg_twin_text(rg_twin_t twin) {
  static const char *const texts[] = {
#define RG_TWIN(id, text) text,
      RG_TWINS
#undef RG_TWIN
  };
  return texts[twin];
}

// ---- Steps ----------------------------------------------------------------------------------------
static bool append(twin_t *t, const rg_node_t *node, uint32_t *out) {
  rg_program_t *q = t->q;
  if (q->n_nodes + t->left >= RG_NODES)
    return false;
  q->nodes[q->n_nodes] = *node;
  if (!rg_check_node(q, q->n_nodes))
    return false;
  *out = q->n_nodes++;
  return true;
}

static bool step(twin_t *t, rg_op_t op, uint32_t n_numbers, const int32_t *numbers,
                 uint32_t *value) {
  rg_node_t node = {.op = op, .n_args = 1, .args = {*value}, .n_numbers = n_numbers};
  if (n_numbers)
    memcpy(node.numbers, numbers, n_numbers * sizeof(*numbers));
  return append(t, &node, value);
}

static const rg_node_t *at(const twin_t *t, uint32_t value) { return &t->q->nodes[value]; }

static int32_t any_axis(twin_t *t, uint32_t value) {
  return (int32_t)rg_below(&t->random, at(t, value)->rank);
}

static bool make_transposed(twin_t *t, uint32_t *value) {
  int32_t axes[2] = {any_axis(t, *value), any_axis(t, *value)};
  return step(t, RG_transpose, 2, axes, value) && step(t, RG_transpose, 2, axes, value);
}

static bool make_permuted(twin_t *t, uint32_t *value) {
  int32_t axes[RG_RANK];
  uint32_t rank = at(t, *value)->rank;
  for (uint32_t d = 0; d < rank; d++)
    axes[d] = (int32_t)(rank - 1 - d);
  return step(t, RG_permute, rank, axes, value) && step(t, RG_permute, rank, axes, value);
}

static bool make_unsqueezed(twin_t *t, uint32_t *value) {
  int32_t axis = any_axis(t, *value);
  return step(t, RG_unsqueeze, 1, &axis, value) && step(t, RG_squeeze, 1, &axis, value);
}

static bool make_reversed(twin_t *t, uint32_t *value) {
  int32_t slice[3] = {any_axis(t, *value), RG_SLICE_REVERSE, 1};
  return step(t, RG_slice, 3, slice, value) && step(t, RG_slice, 3, slice, value);
}

static bool join(twin_t *t, int32_t axis, uint32_t first, uint32_t second, uint32_t *value) {
  rg_node_t node = {.op = RG_concat, .n_args = 2, .args = {first, second}, .n_numbers = 1};
  node.numbers[0] = axis;
  return append(t, &node, value);
}

static bool make_halves(twin_t *t, uint32_t *value) {
  int32_t low[3] = {any_axis(t, *value), RG_SLICE_HALF, 1}, high[3] = {low[0], RG_SLICE_REST, 1};
  uint32_t first = *value, second = *value;
  return step(t, RG_slice, 3, low, &first) && step(t, RG_slice, 3, high, &second) &&
         join(t, low[0], first, second, value);
}

static bool make_nothing(twin_t *t, uint32_t *value) {
  int32_t none[3] = {any_axis(t, *value), RG_SLICE_NONE, 1};
  uint32_t nothing = *value;
  bool first = rg_below(&t->random, 2) != 0;
  return step(t, RG_slice, 3, none, &nothing) &&
         join(t, none[0], first ? nothing : *value, first ? *value : nothing, value);
}

static bool make_padded(twin_t *t, uint32_t *value) {
  int32_t axis = any_axis(t, *value), low = (int32_t)rg_below(&t->random, 3) + 1;
  int32_t tail[3] = {axis, RG_SLICE_TAIL, low};
  rg_node_t pad = {.op = RG_pad, .n_args = 1, .args = {*value}, .value = 1};
  pad.n_numbers = 2 * at(t, *value)->rank;
  pad.numbers[2 * axis] = low;
  return append(t, &pad, value) && step(t, RG_slice, 3, tail, value);
}

static bool make_flattened(twin_t *t, uint32_t *value) {
  uint32_t like = *value;
  int32_t all[2] = {0, (int32_t)at(t, like)->rank - 1};
  if (!step(t, RG_flatten, 2, all, value))
    return false;
  rg_node_t back = {.op = RG_reshape_like, .n_args = 2, .args = {*value, like}};
  return append(t, &back, value);
}

static bool make_negated(twin_t *t, uint32_t *value) {
  rg_op_t op = at(t, *value)->dtype == DT_BOOL ? RG_logical_not : RG_neg;
  return step(t, op, 0, NULL, value) && step(t, op, 0, NULL, value);
}

static bool make_widened(twin_t *t, uint32_t *value) {
  dt_dtype_t from = at(t, *value)->dtype;
  rg_node_t wide = {.op = RG_cast, .n_args = 1, .args = {*value}};
  wide.dtype = dt__dtype_is_float(from) ? DT_F64 : from == DT_U64 ? DT_U64 : DT_I64;
  if (from == DT_BOOL)
    wide.dtype = DT_U8;
  if (!append(t, &wide, value))
    return false;
  wide.args[0] = *value;
  wide.dtype = from;
  return append(t, &wide, value);
}

// Beside the value: what is made stays, and nobody uses it.
static bool make_dead(twin_t *t, uint32_t *value) {
  uint32_t unused = *value;
  return make_negated(t, &unused);
}

typedef bool (*make_fn_t)(twin_t *t, uint32_t *value);
static const struct {
  rg_twin_t twin;
  make_fn_t make;
  bool of_dims; // not of rank 0
} steps[] = {{RG_TWIN_transposed, make_transposed, true},
             {RG_TWIN_permuted, make_permuted, true},
             {RG_TWIN_unsqueezed, make_unsqueezed, true},
             {RG_TWIN_reversed, make_reversed, true},
             {RG_TWIN_halves, make_halves, true},
             {RG_TWIN_nothing, make_nothing, true},
             {RG_TWIN_padded, make_padded, true},
             {RG_TWIN_flattened, make_flattened, true},
             {RG_TWIN_negated, make_negated, false},
             {RG_TWIN_widened, make_widened, false},
             {RG_TWIN_dead, make_dead, false}};

static bool comes_back(const twin_t *t, uint32_t from, uint32_t to) {
  const rg_node_t *a = at(t, from), *b = at(t, to);
  bool same = a->rank == b->rank && a->dtype == b->dtype;
  for (uint32_t d = 0; same && d < a->rank; d++)
    same = rg_dim_same(t->q, &a->dims[d], &b->dims[d]);
  return same;
}

static uint32_t there_and_back(twin_t *t, uint32_t value) {
  uint32_t k = rg_below(&t->random, sizeof(steps) / sizeof(steps[0])), n = t->q->n_nodes;
  uint32_t made = value;
  bool asks = t->q->asks;
  if ((at(t, value)->rank || !steps[k].of_dims) && steps[k].make(t, &made) &&
      comes_back(t, value, made)) {
    t->uses[steps[k].twin]++;
    return made;
  }
  t->q->n_nodes = n;
  t->q->asks = asks;
  return value;
}

// ---- Nodes ----------------------------------------------------------------------------------------
static bool is_leaf(const rg_node_t *node) { return rg_ops[node->op].form <= RG_FORM_constant; }

// The op with its operands exchanged, or itself when that is another function.
static bool exchanged(rg_op_t op, rg_op_t *out) {
  static const rg_op_t pairs[][2] = {{RG_add, RG_add},
                                     {RG_mul, RG_mul},
                                     {RG_maximum, RG_maximum},
                                     {RG_minimum, RG_minimum},
                                     {RG_eq, RG_eq},
                                     {RG_ne, RG_ne},
                                     {RG_lt, RG_gt},
                                     {RG_gt, RG_lt},
                                     {RG_le, RG_ge},
                                     {RG_ge, RG_le},
                                     {RG_bit_and, RG_bit_and},
                                     {RG_bit_or, RG_bit_or},
                                     {RG_bit_xor, RG_bit_xor},
                                     {RG_logical_and, RG_logical_and},
                                     {RG_logical_or, RG_logical_or},
                                     {RG_logical_xor, RG_logical_xor}};
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
    if (pairs[i][0] == op) {
      *out = pairs[i][1];
      return true;
    }
  return false;
}

static bool copy(twin_t *t, uint32_t i, uint32_t *out) {
  rg_node_t node = t->p->nodes[i];
  for (uint32_t k = 0; k < node.n_args; k++)
    node.args[k] = t->seen[node.args[k]][rg_below(&t->random, 2)];
  rg_op_t op;
  bool is_control =
      node.op == RG_cond || node.op == RG_switch || node.op == RG_while || node.op == RG_call;
  bool written = is_control && rg_below(&t->random, 2);
  bool turns = exchanged(node.op, &op) && rg_below(&t->random, 2);
  if (written)
    node.numbers[0] = 1;
  if (turns) {
    uint32_t first = node.args[0];
    node.op = op;
    node.args[0] = node.args[1];
    node.args[1] = first;
  }
  if (append(t, &node, out)) {
    t->uses[RG_TWIN_exchanged] += turns;
    t->uses[RG_TWIN_written] += written;
    return true;
  }
  node = t->p->nodes[i]; // an operand must be a leaf
  for (uint32_t k = 0; k < node.n_args; k++)
    node.args[k] = t->plain[node.args[k]];
  return append(t, &node, out);
}

static bool add_node(twin_t *t, uint32_t i) {
  uint32_t own = 0;
  t->left--;
  if (!copy(t, i, &own))
    return false;
  t->plain[i] = t->seen[i][0] = t->seen[i][1] = own;
  if (!is_leaf(&t->p->nodes[i]) && rg_below(&t->random, 4) == 0 && copy(t, i, &t->seen[i][1]))
    t->uses[RG_TWIN_twice]++;
  for (uint32_t k = 0; k < 2; k++)
    if (rg_below(&t->random, 3) == 0)
      t->seen[i][k] = there_and_back(t, t->seen[i][k]);
  return true;
}

static bool is_ready(const rg_program_t *p, const bool *done, uint32_t i) {
  for (uint32_t k = 0; k < p->nodes[i].n_args; k++)
    if (!done[p->nodes[i].args[k]])
      return false;
  for (uint32_t before = 0; before < i && is_leaf(&p->nodes[i]); before++)
    if (is_leaf(&p->nodes[before]) && !done[before]) // leaves stay in order
      return false;
  return true;
}

bool rg_make_twin(const rg_program_t *p, uint64_t seed, rg_program_t *out, uint32_t map[RG_NODES],
                  uint64_t uses[RG_TWIN_COUNT]) {
  twin_t t = {.p = p, .q = out, .random = seed * 0x9E3779B97F4A7C15u + 1, .left = p->n_nodes};
  bool done[RG_NODES] = {false};
  t.uses = uses;
  *out = *p;
  out->n_nodes = 0;
  out->asks = false;
  for (uint32_t n = 0; n < p->n_nodes; n++) {
    uint32_t ready[RG_NODES], n_ready = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++)
      if (!done[i] && is_ready(p, done, i))
        ready[n_ready++] = i;
    uint32_t i = ready[rg_below(&t.random, n_ready)];
    uses[RG_TWIN_ordered] += i != ready[0];
    if (!add_node(&t, i))
      return false;
    done[i] = true;
    map[i] = is_leaf(&p->nodes[i]) ? t.plain[i] : t.seen[i][0];
  }
  for (uint32_t k = 0; k < p->n_outputs; k++)
    out->outputs[k] = map[p->outputs[k]];
  for (uint32_t k = 0; k < p->n_updates; k++) {
    out->updates[k].input = map[p->updates[k].input];
    out->updates[k].value = map[p->updates[k].value];
  }
  return rg_check(out);
}

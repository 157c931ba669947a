// SPDX-License-Identifier: Apache-2.0
// Which instructions are valid, and the dtype and dims of their results, evaluated at every point.
#include "runtime/base/dtype.h"
#include "test/conform/graphs/random_data.h"

#include <math.h>

const rg_op_info_t rg_ops[RG_OP_COUNT] = {
#define RG_OP(name, form, domain, weight, style)                                                   \
  {#name, RG_FORM_##form, (#domain)[0], weight, RG_STYLE_##style},
#include "test/conform/graphs/random_ops.def"
};

// ---- Points and dims ------------------------------------------------------------------------------
int64_t rg_symbol_at(const rg_program_t *p, uint32_t symbol, uint32_t point) {
  return point < p->n_calls ? p->calls[point].sizes[symbol] : p->primes[point - p->n_calls][symbol];
}

bool rg_dim_same(const rg_program_t *p, const rg_dim_t *a, const rg_dim_t *b) {
  for (uint32_t k = 0; k < rg_point_count(p); k++)
    if (a->at[k] != b->at[k])
      return false;
  return true;
}

bool rg_dim_is(const rg_program_t *p, const rg_dim_t *dim, int64_t value) {
  for (uint32_t k = 0; k < rg_point_count(p); k++)
    if (dim->at[k] != value)
      return false;
  return true;
}

static void set_dim(const rg_program_t *p, rg_dim_t *dim, int64_t value) {
  for (uint32_t k = 0; k < rg_point_count(p); k++)
    dim->at[k] = value;
}

// A dim as input declarations say it: a literal, or a symbol.
static bool declared_dim(const rg_program_t *p, int32_t number, rg_dim_t *out) {
  if (number < -(int32_t)p->n_symbols)
    return false;
  for (uint32_t k = 0; k < rg_point_count(p); k++)
    out->at[k] = number >= 0 ? number : rg_symbol_at(p, (uint32_t)(-1 - number), k);
  return true;
}

static int64_t count_at(const rg_node_t *node, uint32_t point) {
  int64_t count = 1;
  for (uint32_t d = 0; d < node->rank; d++)
    count *= node->dims[d].at[point];
  return count;
}

// Joins a dim by the broadcasting rule: equal, or one of them 1, at every point.
static bool join_dim(rg_program_t *p, rg_dim_t *into, const rg_dim_t *dim) {
  bool same = rg_dim_same(p, into, dim), one = rg_dim_is(p, into, 1) || rg_dim_is(p, dim, 1);
  for (uint32_t k = 0; k < rg_point_count(p); k++) {
    if (into->at[k] != dim->at[k] && into->at[k] != 1 && dim->at[k] != 1)
      return false;
    if (into->at[k] == 1)
      into->at[k] = dim->at[k];
  }
  if (!same && !one)
    p->asks = true;
  return true;
}

// Joins the dims of `from` but the last `keep` into node's, aligned at the end.
static bool join_dims(rg_program_t *p, rg_node_t *node, const rg_node_t *from, uint32_t keep) {
  uint32_t n = from->rank - keep;
  while (node->rank < n) {
    if (node->rank == RG_RANK)
      return false;
    for (uint32_t d = node->rank++; d > 0; d--)
      node->dims[d] = node->dims[d - 1];
    set_dim(p, &node->dims[0], 1);
  }
  for (uint32_t d = 0; d < n; d++)
    if (!join_dim(p, &node->dims[node->rank - n + d], &from->dims[d]))
      return false;
  return true;
}

// ---- Forms ----------------------------------------------------------------------------------------
typedef rg_check_t check_t;

static bool like(check_t *c, const rg_node_t *from) {
  c->node->rank = from->rank;
  for (uint32_t d = 0; d < from->rank; d++)
    c->node->dims[d] = from->dims[d];
  return true;
}

static bool axis_ok(const check_t *c, uint32_t number, uint32_t rank) {
  return number < c->node->n_numbers && c->node->numbers[number] >= 0 &&
         c->node->numbers[number] < (int32_t)rank;
}

static bool check_leaf(check_t *c) {
  rg_node_t *node = c->node;
  if (node->n_numbers < 2 || node->n_numbers - 2 > RG_RANK || node->n_args)
    return false;
  node->rank = node->n_numbers - 2;
  int32_t fill = node->numbers[node->rank];
  if (fill < 0 || fill >= RG_FILL_COUNT)
    return false;
  if (fill == RG_FILL_INDEX &&
      (node->numbers[node->rank + 1] < 1 || (node->dtype != DT_I32 && node->dtype != DT_I64)))
    return false;
  for (uint32_t d = 0; d < node->rank; d++)
    if (!declared_dim(c->p, node->numbers[d], &node->dims[d]) ||
        (node->op == RG_constant && node->numbers[d] < 0))
      return false;
  return true;
}

static bool check_permute(check_t *c) {
  uint32_t seen = 0;
  c->node->rank = c->in[0]->rank;
  if (c->node->n_numbers != c->node->rank)
    return false;
  for (uint32_t d = 0; d < c->node->rank; d++) {
    if (!axis_ok(c, d, c->node->rank) || (seen & (1u << c->node->numbers[d])))
      return false;
    seen |= 1u << c->node->numbers[d];
    c->node->dims[d] = c->in[0]->dims[c->node->numbers[d]];
  }
  return true;
}

static bool check_transpose(check_t *c) {
  if (!axis_ok(c, 0, c->in[0]->rank) || !axis_ok(c, 1, c->in[0]->rank))
    return false;
  like(c, c->in[0]);
  c->node->dims[c->node->numbers[0]] = c->in[0]->dims[c->node->numbers[1]];
  c->node->dims[c->node->numbers[1]] = c->in[0]->dims[c->node->numbers[0]];
  return true;
}

static void insert_dim(rg_node_t *node, uint32_t at, const rg_dim_t *dim) {
  for (uint32_t d = node->rank++; d > at; d--)
    node->dims[d] = node->dims[d - 1];
  node->dims[at] = *dim;
}

static void remove_dim(rg_node_t *node, uint32_t at) {
  node->rank--;
  for (uint32_t d = at; d < node->rank; d++)
    node->dims[d] = node->dims[d + 1];
}

static bool check_unsqueeze(check_t *c) {
  if (c->in[0]->rank == RG_RANK || !axis_ok(c, 0, c->in[0]->rank + 1))
    return false;
  like(c, c->in[0]);
  rg_dim_t one;
  set_dim(c->p, &one, 1);
  insert_dim(c->node, (uint32_t)c->node->numbers[0], &one);
  return true;
}

static bool check_squeeze(check_t *c) {
  if (!axis_ok(c, 0, c->in[0]->rank) || !rg_dim_is(c->p, &c->in[0]->dims[c->node->numbers[0]], 1))
    return false;
  like(c, c->in[0]);
  remove_dim(c->node, (uint32_t)c->node->numbers[0]);
  return true;
}

static bool check_regroup(check_t *c) {
  uint32_t seen = 0, used = 0;
  rg_node_t *node = c->node;
  node->rank = 0;
  for (uint32_t k = 0; k < node->n_numbers; k++) {
    bool first = k == 0 || node->numbers[k - 1] == -1;
    if (node->numbers[k] == -1)
      continue;
    if (!axis_ok(c, k, c->in[0]->rank) || (seen & (1u << node->numbers[k])))
      return false;
    seen |= 1u << node->numbers[k];
    used++;
    const rg_dim_t *dim = &c->in[0]->dims[node->numbers[k]];
    if (first)
      node->dims[node->rank++] = *dim;
    else
      for (uint32_t at = 0; at < rg_point_count(c->p); at++)
        node->dims[node->rank - 1].at[at] *= dim->at[at];
  }
  return used == c->in[0]->rank;
}

static bool check_split(check_t *c) {
  if (c->in[0]->rank == RG_RANK || !axis_ok(c, 0, c->in[0]->rank) || c->node->n_numbers != 3 ||
      c->node->numbers[1] < 1)
    return false;
  like(c, c->in[0]);
  uint32_t axis = (uint32_t)c->node->numbers[0];
  rg_dim_t factor, rest = c->in[0]->dims[axis];
  set_dim(c->p, &factor, c->node->numbers[1]);
  for (uint32_t k = 0; k < rg_point_count(c->p); k++) {
    if (rest.at[k] % c->node->numbers[1])
      return false;
    rest.at[k] /= c->node->numbers[1];
  }
  bool first = c->node->numbers[2] != 0;
  c->node->dims[axis] = first ? rest : factor;
  insert_dim(c->node, axis, first ? &factor : &rest);
  return true;
}

static bool check_flatten(check_t *c) {
  if (!axis_ok(c, 0, c->in[0]->rank) || !axis_ok(c, 1, c->in[0]->rank) ||
      c->node->numbers[0] > c->node->numbers[1])
    return false;
  like(c, c->in[0]);
  uint32_t first = (uint32_t)c->node->numbers[0], n = (uint32_t)(c->node->numbers[1]) - first;
  for (uint32_t d = 0; d < n; d++) {
    for (uint32_t k = 0; k < rg_point_count(c->p); k++)
      c->node->dims[first].at[k] *= c->node->dims[first + 1].at[k];
    remove_dim(c->node, first + 1);
  }
  // The open size is found by dividing by the others, which must not be the literal 0; where calls'
  // sizes may be literals, not 0 at any of them.
  for (uint32_t d = 0; d < c->node->rank; d++) {
    if (rg_dim_is(c->p, &c->node->dims[d], 0))
      return false;
    for (uint32_t k = 0; k < c->p->n_calls && c->p->dynamic != DT_DYNAMIC_SYMBOLIC; k++)
      if (c->node->dims[d].at[k] == 0)
        return false;
  }
  return true;
}

static bool check_reshape_like(check_t *c) {
  for (uint32_t k = 0; k < rg_point_count(c->p); k++)
    if (count_at(c->in[0], k) != count_at(c->in[1], k))
      return false;
  return like(c, c->in[1]);
}

static bool check_expand(check_t *c) {
  rg_node_t *node = c->node;
  rg_dim_t to;
  if (node->n_numbers != 2 || node->n_args > 2)
    return false;
  if (node->n_args == 2) {
    if (!axis_ok(c, 1, c->in[1]->rank))
      return false;
    to = c->in[1]->dims[node->numbers[1]];
  } else {
    if (node->numbers[1] < 0)
      return false;
    set_dim(c->p, &to, node->numbers[1]);
  }
  like(c, c->in[0]);
  if (node->numbers[0] == -1) {
    if (node->rank == RG_RANK)
      return false;
    insert_dim(node, 0, &to);
    return true;
  }
  if (!axis_ok(c, 0, node->rank) || !rg_dim_is(c->p, &node->dims[node->numbers[0]], 1))
    return false;
  node->dims[node->numbers[0]] = to;
  return true;
}

static bool check_slice(check_t *c) {
  rg_node_t *node = c->node;
  if (node->n_numbers < 3 || !axis_ok(c, 0, c->in[0]->rank))
    return false;
  like(c, c->in[0]);
  rg_dim_t *dim = &node->dims[node->numbers[0]];
  int64_t number = node->numbers[2];
  if (node->numbers[1] < 0 || node->numbers[1] >= RG_SLICE_COUNT ||
      (number < 1 && node->numbers[1] != RG_SLICE_LITERAL))
    return false;
  for (uint32_t k = 0; k < rg_point_count(c->p); k++) {
    int64_t d = dim->at[k], *out = &dim->at[k];
    switch ((rg_slice_t)node->numbers[1]) {
    case RG_SLICE_HALF:
      *out = d / 2;
      break;
    case RG_SLICE_REST:
      *out = d - d / 2;
      break;
    case RG_SLICE_TAIL:
      *out = d > number ? d - number : 0;
      break;
    case RG_SLICE_FIRST:
      *out = d > number ? number : d;
      break;
    case RG_SLICE_EVERY:
    case RG_SLICE_BACKWARD:
      *out = (d + number - 1) / number;
      break;
    case RG_SLICE_NONE:
      *out = 0;
      break;
    case RG_SLICE_REVERSE:
    case RG_SLICE_LITERAL:
    case RG_SLICE_COUNT:
      break;
    }
  }
  // The size min(n, 1) is 1 at all points that are no 0: broadcasting it asks which it is.
  c->p->asks |= node->numbers[1] == RG_SLICE_FIRST && number == 1;
  if (node->numbers[1] != RG_SLICE_LITERAL)
    return true;
  if (node->n_numbers != 5 || !rg_dim_is(c->p, dim, dim->at[0]))
    return false;
  int64_t size = node->numbers[3], step = node->numbers[4], last = number + (size - 1) * step;
  if (size < 0 || step == 0 ||
      (size && (number < 0 || number >= dim->at[0] || last < 0 || last >= dim->at[0])))
    return false;
  set_dim(c->p, dim, size);
  return true;
}

static bool check_concat(check_t *c) {
  if (!axis_ok(c, 0, c->in[0]->rank))
    return false;
  like(c, c->in[0]);
  for (uint32_t k = 1; k < c->node->n_args; k++) {
    if (c->in[k]->rank != c->node->rank)
      return false;
    for (uint32_t d = 0; d < c->node->rank; d++) {
      if ((int32_t)d != c->node->numbers[0]) {
        if (!rg_dim_same(c->p, &c->node->dims[d], &c->in[k]->dims[d]))
          return false;
        continue;
      }
      for (uint32_t at = 0; at < rg_point_count(c->p); at++)
        c->node->dims[d].at[at] += c->in[k]->dims[d].at[at];
    }
  }
  return true;
}

static bool check_pad(check_t *c) {
  like(c, c->in[0]);
  if (c->node->n_numbers != 2 * c->node->rank)
    return false;
  for (uint32_t d = 0; d < c->node->rank; d++) {
    if (c->node->numbers[2 * d] < 0 || c->node->numbers[2 * d + 1] < 0)
      return false;
    for (uint32_t at = 0; at < rg_point_count(c->p); at++)
      c->node->dims[d].at[at] += c->node->numbers[2 * d] + c->node->numbers[2 * d + 1];
  }
  return true;
}

static bool check_gather(check_t *c) {
  const rg_node_t *x = c->in[0], *at = c->in[1];
  if (c->node->n_numbers != 2 || !axis_ok(c, 0, x->rank) || x->rank - 1 + at->rank > RG_RANK ||
      (at->dtype != DT_I32 && at->dtype != DT_I64))
    return false;
  const rg_dim_t *dim = &x->dims[c->node->numbers[0]];
  bool raw = c->node->numbers[1] != 0;
  if (raw && (rg_ops[at->op].form > RG_FORM_constant || at->numbers[at->rank] != RG_FILL_INDEX))
    return false;
  for (uint32_t k = 0; k < rg_point_count(c->p); k++)
    if (count_at(at, k) && dim->at[k] < (raw ? at->numbers[at->rank + 1] : 1))
      return false;
  like(c, x);
  uint32_t axis = (uint32_t)c->node->numbers[0];
  remove_dim(c->node, axis);
  for (uint32_t d = 0; d < at->rank; d++)
    insert_dim(c->node, axis + d, &at->dims[d]);
  return true;
}

static bool check_folded(check_t *c, uint32_t axes, bool keepdims) {
  rg_node_t *node = c->node;
  node->rank = 0;
  for (uint32_t d = 0; d < c->in[0]->rank; d++) {
    if (axes & (1u << d)) {
      if (keepdims)
        set_dim(c->p, &node->dims[node->rank++], 1);
    } else {
      node->dims[node->rank++] = c->in[0]->dims[d];
    }
  }
  return true;
}

static bool check_reduce(check_t *c) {
  uint32_t axes = 0;
  if (c->node->n_numbers < 1)
    return false;
  for (uint32_t k = 1; k < c->node->n_numbers; k++) {
    if (!axis_ok(c, k, c->in[0]->rank) || (axes & (1u << c->node->numbers[k])))
      return false;
    axes |= 1u << c->node->numbers[k];
  }
  return check_folded(c, c->node->n_numbers > 1 ? axes : UINT32_MAX, c->node->numbers[0] != 0);
}

static bool check_norm(check_t *c) {
  const rg_node_t *x = c->in[0];
  for (uint32_t k = 1; k < c->node->n_args; k++) {
    if (c->in[k]->rank != c->in[1]->rank || c->in[k]->rank == 0 || c->in[k]->rank > x->rank)
      return false;
    for (uint32_t d = 0; d < c->in[k]->rank; d++)
      if (!rg_dim_same(c->p, &c->in[k]->dims[d], &x->dims[x->rank - c->in[k]->rank + d]))
        return false;
  }
  return like(c, x);
}

static bool check_matmul(check_t *c) {
  const rg_node_t *a = c->in[0], *b = c->in[1];
  rg_node_t *node = c->node;
  if (a->rank == 0 || b->rank == 0)
    return false;
  const rg_dim_t *inner = &b->dims[b->rank == 1 ? 0 : b->rank - 2];
  if (!rg_dim_same(c->p, &a->dims[a->rank - 1], inner))
    return false;
  node->rank = 0;
  if (!join_dims(c->p, node, a, a->rank == 1 ? 1 : 2) ||
      !join_dims(c->p, node, b, b->rank == 1 ? 1 : 2) || node->rank + 2 > RG_RANK)
    return false;
  if (a->rank > 1)
    node->dims[node->rank++] = a->dims[a->rank - 2];
  if (b->rank > 1)
    node->dims[node->rank++] = b->dims[b->rank - 1];
  for (uint32_t k = 0; k < c->p->n_calls; k++)
    if (count_at(node, k) * inner->at[k] > RG_MAX_WORK)
      return false;
  return true;
}

static bool check_broadcast(check_t *c) {
  c->node->rank = 0;
  for (uint32_t k = 0; k < c->node->n_args; k++)
    if (!join_dims(c->p, c->node, c->in[k], 0))
      return false;
  return true;
}

static bool check_data(check_t *c) {
  const rg_data_form_t *form = rg_data_form(rg_ops[c->node->op].form);
  return c->node->n_numbers == form->n_numbers && like(c, c->in[0]) && form->check(c);
}

static bool check_form(check_t *c) {
  rg_node_t *node = c->node;
  if (rg_form_is_data(rg_ops[node->op].form))
    return check_data(c);
  switch (rg_ops[node->op].form) {
  case RG_FORM_input:
  case RG_FORM_constant:
    return check_leaf(c);
  case RG_FORM_scalar:
    node->rank = 0;
    return true;
  case RG_FORM_size:
    node->rank = 0;
    return axis_ok(c, 0, c->in[0]->rank);
  case RG_FORM_iota:
    return axis_ok(c, 0, c->in[0]->rank) && like(c, c->in[0]);
  case RG_FORM_unary:
  case RG_FORM_test:
  case RG_FORM_cast:
    return like(c, c->in[0]);
  case RG_FORM_binary:
  case RG_FORM_compare:
  case RG_FORM_where:
  case RG_FORM_ternary:
    return check_broadcast(c);
  case RG_FORM_permute:
    return check_permute(c);
  case RG_FORM_transpose:
    return check_transpose(c);
  case RG_FORM_unsqueeze:
    return check_unsqueeze(c);
  case RG_FORM_squeeze:
    return check_squeeze(c);
  case RG_FORM_regroup:
    return check_regroup(c);
  case RG_FORM_split:
    return check_split(c);
  case RG_FORM_flatten:
    return check_flatten(c);
  case RG_FORM_reshape_like:
    return check_reshape_like(c);
  case RG_FORM_expand:
    return check_expand(c);
  case RG_FORM_slice:
    return check_slice(c);
  case RG_FORM_concat:
    return check_concat(c);
  case RG_FORM_pad:
    return check_pad(c);
  case RG_FORM_gather:
    return check_gather(c);
  case RG_FORM_reduce:
    return check_reduce(c);
  case RG_FORM_argreduce:
    return node->n_numbers == 2 && axis_ok(c, 0, c->in[0]->rank) &&
           check_folded(c, 1u << node->numbers[0], node->numbers[1] != 0);
  case RG_FORM_along:
    return axis_ok(c, 0, c->in[0]->rank) && like(c, c->in[0]);
  case RG_FORM_layer_norm:
  case RG_FORM_rms_norm:
    return check_norm(c);
  case RG_FORM_matmul:
    return check_matmul(c);
  case RG_FORM_branch:
    c->p->asks = true;
    return node->n_numbers == 2 && axis_ok(c, 0, c->in[0]->rank) && like(c, c->in[0]);
  default:
    return false;
  }
}

// ---- Dtypes ---------------------------------------------------------------------------------------
static uint32_t least_args(rg_form_t form) {
  if (rg_form_is_data(form))
    return rg_data_form(form)->n_args;
  static const uint8_t least[] = {
      [RG_FORM_input] = 0,      [RG_FORM_constant] = 0,     [RG_FORM_scalar] = 0,
      [RG_FORM_binary] = 2,     [RG_FORM_compare] = 2,      [RG_FORM_where] = 3,
      [RG_FORM_ternary] = 3,    [RG_FORM_reshape_like] = 2, [RG_FORM_gather] = 2,
      [RG_FORM_layer_norm] = 3, [RG_FORM_rms_norm] = 2,     [RG_FORM_matmul] = 2,
      [RG_FORM_branch] = 1,
  };
  return least[form] || form <= RG_FORM_scalar ? least[form] : 1;
}

// A literal of integers is one of their numbers.
static bool literal_ok(dt_dtype_t dtype, double value) {
  if (dt__dtype_is_float(dtype))
    return true;
  int bits = 8 * (int)dt_dtype_size(dtype);
  bool is_signed = dt__dtype_is_signed(dtype);
  double high = dtype == DT_BOOL ? 2 : ldexp(1, is_signed ? bits - 1 : bits);
  return value >= (is_signed ? -high : 0) && value < high && value == trunc(value);
}

static bool check_dtype(check_t *c) {
  const rg_op_info_t *info = &rg_ops[c->node->op];
  rg_node_t *node = c->node;
  if (info->form == RG_FORM_scalar)
    return dt__dtype_is_valid(node->dtype) && literal_ok(node->dtype, node->value);
  if (info->form <= RG_FORM_scalar || info->form == RG_FORM_cast)
    return dt__dtype_is_valid(node->dtype);
  if (info->form == RG_FORM_iota)
    return dt__dtype_is_valid(node->dtype) && node->dtype != DT_BOOL;
  if (info->form == RG_FORM_size) {
    node->dtype = DT_I64;
    return true;
  }
  uint32_t first = info->form == RG_FORM_where ? 1 : 0, last = node->n_args;
  if (info->form == RG_FORM_gather || info->form == RG_FORM_expand ||
      info->form == RG_FORM_reshape_like || rg_form_is_data(info->form))
    last = 1;
  if (first && c->in[0]->dtype != DT_BOOL)
    return false;
  dt_dtype_t dtype = c->in[first]->dtype;
  for (uint32_t k = first; k < last; k++)
    if (c->in[k]->dtype != dtype)
      return false;
  if ((info->domain == 'F' && !dt__dtype_is_float(dtype)) ||
      (info->domain == 'N' && dtype == DT_BOOL) || (info->domain == 'B' && dtype != DT_BOOL) ||
      (info->domain == 'I' && (dtype == DT_BOOL || dt__dtype_is_float(dtype))))
    return false;
  if (info->form == RG_FORM_pad && !literal_ok(dtype, node->value))
    return false;
  bool truth = info->form == RG_FORM_compare || info->form == RG_FORM_test;
  node->dtype = truth ? DT_BOOL : info->form == RG_FORM_argreduce ? DT_I64 : dtype;
  return true;
}

bool rg_check_node(rg_program_t *p, uint32_t i) {
  check_t c = {.p = p, .node = &p->nodes[i]};
  uint32_t least = least_args(rg_ops[c.node->op].form);
  bool more =
      rg_ops[c.node->op].form == RG_FORM_concat || rg_ops[c.node->op].form == RG_FORM_expand;
  if (c.node->n_args < least || (c.node->n_args > least && !more))
    return false;
  for (uint32_t k = 0; k < c.node->n_args; k++) {
    if (c.node->args[k] >= i)
      return false;
    c.in[k] = &p->nodes[c.node->args[k]];
  }
  if (!check_dtype(&c) || !check_form(&c))
    return false;
  for (uint32_t k = 0; k < p->n_calls; k++)
    if (count_at(c.node, k) > RG_MAX_ELEMENTS)
      return false;
  // Dims stay small enough at the primes, too, for products of them to be exact.
  for (uint32_t k = p->n_calls; k < rg_point_count(p); k++) {
    double count = 1;
    for (uint32_t d = 0; d < c.node->rank; d++)
      count *= (double)c.node->dims[d].at[k];
    if (count > 0x1p50)
      return false;
  }
  return true;
}

bool rg_is_updated(const rg_program_t *p, uint32_t node) {
  for (uint32_t k = 0; k < p->n_updates; k++)
    if (p->updates[k].input == node)
      return true;
  return false;
}

static bool check_update(const rg_program_t *p, uint32_t k) {
  if (p->updates[k].input >= p->n_nodes || p->updates[k].value >= p->n_nodes)
    return false;
  const rg_node_t *to = &p->nodes[p->updates[k].input], *from = &p->nodes[p->updates[k].value];
  for (uint32_t j = 0; j < k; j++)
    if (p->updates[j].input == p->updates[k].input)
      return false;
  if (to->op != RG_input || to->dtype != from->dtype || to->rank != from->rank)
    return false;
  for (uint32_t d = 0; d < to->rank; d++)
    if (!rg_dim_same(p, &to->dims[d], &from->dims[d]))
      return false;
  return true;
}

bool rg_check(rg_program_t *p) {
  p->asks = false;
  bool has_input = false;
  if (p->n_outputs == 0 || p->n_outputs > RG_OUTPUTS || p->n_calls == 0)
    return false;
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    if (!rg_check_node(p, i))
      return false;
    has_input |= p->nodes[i].op == RG_input;
  }
  for (uint32_t k = 0; k < p->n_outputs; k++)
    if (p->outputs[k] >= p->n_nodes)
      return false;
  for (uint32_t k = 0; k < p->n_updates; k++)
    if (!check_update(p, k))
      return false;
  return has_input;
}

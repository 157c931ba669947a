// SPDX-License-Identifier: Apache-2.0
// See random_graph.h. An op that its sizes do not allow is left out; what it asked before it failed
// stays among the assumptions, which is harmless.
#include "test/unit/loop/random_graph.h"

#include <string.h>

#define POOL 24

typedef struct maker_t {
  random_graph_t *g;
  graph_fixture_t *f;
  dt_symenv_t *env;
  uint32_t n;
  dt_node_id_t pool[POOL];
} maker_t;

static void note_assumption(void *user, dt_symenv_t *env, dt_sym_t cond,
                            const dt_origin_t *origin) {
  random_graph_t *g = user;
  (void)env;
  (void)origin;
  if (g->n_conds < RANDOM_CONDS)
    g->conds[g->n_conds++] = cond;
  else
    g->too_many = true;
}

static uint32_t pick(maker_t *m, uint32_t n) { return rig_below(&m->g->rig, n); }

static const dt_node_t *node_of(const maker_t *m, dt_node_id_t id) {
  return dt__graph_node(m->f->graph, id);
}

static dt_sym_t lit(const maker_t *m, int64_t value) { return dt__sym_const(m->env, value); }

static int64_t hint_of(const maker_t *m, dt_sym_t e) {
  int64_t value = 0;
  assert_true(dt__sym_hint(m->env, e, &value));
  return value;
}

// Adds the op and puts it into the pool; refusals for shape are no failure.
static void try_add(maker_t *m, dt_op_t op, uint32_t n, const dt_node_id_t *in,
                    const dt_attrs_t *attrs) {
  dt_node_id_t id;
  dt_status_t status = dt__graph_add(m->f->graph, op, in, n, attrs, NULL, &id);
  dt_code_t code = dt_status_code(status);
  if (code == DT_E_SHAPE || code == DT_E_LIMIT || code == DT_E_ARGUMENT) {
    dt_status_free(status);
    return;
  }
  expect_ok(status);
  if (m->n < POOL)
    m->pool[m->n++] = id;
}

// ---- Ops ------------------------------------------------------------------------------------------------
// Dims are merged, split at a literal, put in (as ones) or given as the literals that they happen
// to be.
static void add_reshape(maker_t *m, dt_node_id_t x) {
  dt_node_t node = *node_of(m, x);
  dt_attrs_t attrs = {0};
  for (uint32_t k = 0; k < node.rank && attrs.n_syms < 6; k++) {
    dt_sym_t size = node.sizes[k];
    int64_t hint = hint_of(m, size);
    switch (pick(m, 8)) {
    case 0:
      attrs.syms[attrs.n_syms++] = lit(m, 1);
      break;
    case 1:
      if (hint > 1 && hint % 2 == 0) {
        attrs.syms[attrs.n_syms++] = lit(m, 2);
        size = dt__sym_floordiv(m->env, size, lit(m, 2));
      }
      break;
    case 2:
      size = lit(m, hint);
      break;
    case 3:
    case 4:
      if (k + 1 < node.rank)
        size = dt__sym_mul(m->env, size, node.sizes[++k]);
      break;
    default:
      break;
    }
    attrs.syms[attrs.n_syms++] = size;
  }
  if (pick(m, 6) == 0) {
    // All at once, or in the opposite order: no group matches.
    uint32_t n = attrs.n_syms;
    for (uint32_t k = 0; k < n / 2; k++) {
      dt_sym_t keep = attrs.syms[k];
      attrs.syms[k] = attrs.syms[n - 1 - k];
      attrs.syms[n - 1 - k] = keep;
    }
  }
  try_add(m, DT_OP_reshape, 1, &x, &attrs);
}

static void add_permute(maker_t *m, dt_node_id_t x) {
  uint32_t rank = node_of(m, x)->rank;
  dt_attrs_t attrs = {.n_axes = rank};
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t at = pick(m, k + 1);
    attrs.axes[k] = attrs.axes[at];
    attrs.axes[at] = (int32_t)k;
  }
  try_add(m, DT_OP_permute, 1, &x, &attrs);
}

static void add_slice(maker_t *m, dt_node_id_t x) {
  dt_node_t node = *node_of(m, x);
  dt_attrs_t attrs = {.n_syms = 2 * node.rank};
  for (uint32_t k = 0; k < node.rank; k++) {
    dt_sym_t size = node.sizes[k];
    int64_t hint = hint_of(m, size);
    attrs.syms[2 * k] = lit(m, 0);
    attrs.syms[2 * k + 1] = size;
    attrs.ints[k] = 1;
    switch (pick(m, 5)) {
    case 0: // backwards
      attrs.syms[2 * k] = dt__sym_sub(m->env, size, lit(m, 1));
      attrs.ints[k] = -1;
      break;
    case 1: // without the first
      if (hint > 0) {
        attrs.syms[2 * k] = lit(m, 1);
        attrs.syms[2 * k + 1] = dt__sym_sub(m->env, size, lit(m, 1));
      }
      break;
    case 2: // every second
      attrs.syms[2 * k + 1] = dt__sym_ceildiv(m->env, size, lit(m, 2));
      attrs.ints[k] = 2;
      break;
    default:
      break;
    }
  }
  try_add(m, DT_OP_slice, 1, &x, &attrs);
}

// Dims that are 1, as literals or by hint, are repeated.
static void add_expand(maker_t *m, dt_node_id_t x) {
  dt_node_t node = *node_of(m, x);
  dt_attrs_t attrs = {.n_syms = node.rank};
  for (uint32_t k = 0; k < node.rank; k++) {
    attrs.syms[k] = node.sizes[k];
    if (hint_of(m, node.sizes[k]) == 1 && pick(m, 2))
      attrs.syms[k] =
          pick(m, 2) ? lit(m, (int64_t)pick(m, 4)) : dt__symbol_sym(m->env, pick(m, RANDOM_SIZES));
  }
  try_add(m, DT_OP_expand, 1, &x, &attrs);
}

static void add_pad(maker_t *m, dt_node_id_t x) {
  dt_node_t node = *node_of(m, x);
  dt_attrs_t attrs = {.n_syms = 2 * node.rank, .floats = {0.5}};
  for (uint32_t k = 0; k < 2 * node.rank; k++)
    attrs.syms[k] =
        pick(m, 3) ? lit(m, (int64_t)pick(m, 3)) : dt__symbol_sym(m->env, pick(m, RANDOM_SIZES));
  try_add(m, DT_OP_pad, 1, &x, &attrs);
}

static void add_reduce(maker_t *m, dt_node_id_t x) {
  static const dt_op_t ops[] = {DT_OP_sum, DT_OP_amax, DT_OP_amin, DT_OP_mean};
  dt_attrs_t attrs = {.keepdims = pick(m, 2)};
  for (uint32_t k = 0; k < node_of(m, x)->rank; k++)
    if (pick(m, 2))
      attrs.axes[attrs.n_axes++] = (int32_t)k;
  try_add(m, ops[pick(m, 4)], 1, &x, &attrs);
}

static void add_cumsum(maker_t *m, dt_node_id_t x) {
  const dt_node_t *node = node_of(m, x);
  if (node->rank == 0)
    return;
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)pick(m, node->rank)}, .mode = pick(m, 4)};
  try_add(m, DT_OP_cumsum, 1, &x, &attrs);
}

static void add_concat(maker_t *m, dt_node_id_t x) {
  dt_node_id_t in[3] = {x, m->pool[pick(m, m->n)], x};
  uint32_t rank = node_of(m, x)->rank;
  if (rank == 0)
    return;
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)pick(m, rank)}};
  try_add(m, DT_OP_concat, 1 + pick(m, 3), in, &attrs);
}

static void add_unary(maker_t *m, dt_node_id_t x) {
  static const dt_op_t ops[] = {DT_OP_neg, DT_OP_abs, DT_OP_tanh, DT_OP_relu};
  try_add(m, ops[pick(m, 4)], 1, &x, NULL);
}

static void add_binary(maker_t *m, dt_node_id_t x) {
  static const dt_op_t ops[] = {DT_OP_add, DT_OP_mul, DT_OP_maximum, DT_OP_sub};
  dt_node_id_t in[2] = {x, m->pool[pick(m, m->n)]};
  dt_status_t status = dt__graph_broadcast(m->f->graph, in, 2, NULL);
  if (status && dt_status_code(status) == DT_E_SHAPE) {
    dt_status_free(status);
    return;
  }
  expect_ok(status);
  try_add(m, ops[pick(m, 4)], 2, in, NULL);
}

static void add_softmax(maker_t *m, dt_node_id_t x) {
  uint32_t rank = node_of(m, x)->rank;
  if (rank == 0)
    return;
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)pick(m, rank)}};
  try_add(m, DT_OP_softmax, 1, &x, &attrs);
}

// x times its own transpose.
static void add_matmul(maker_t *m, dt_node_id_t x) {
  uint32_t rank = node_of(m, x)->rank;
  if (rank < 2)
    return;
  dt_attrs_t attrs = {.n_axes = rank};
  for (uint32_t k = 0; k < rank; k++)
    attrs.axes[k] = (int32_t)(k + 2 == rank ? k + 1 : k + 1 == rank ? k - 1 : k);
  dt_node_id_t in[2] = {x};
  expect_ok(dt__graph_add(m->f->graph, DT_OP_permute, &x, 1, &attrs, NULL, &in[1]));
  try_add(m, DT_OP_matmul, 2, in, NULL);
}

// The first elements again, by index: 0, 1, … as far as there are any (an index is checked).
static void add_gather(maker_t *m, dt_node_id_t x) {
  dt_node_t node = *node_of(m, x);
  if (node.rank == 0)
    return;
  uint32_t axis = pick(m, node.rank);
  dt_attrs_t iota = {.dtype = DT_I64, .n_axes = 1, .n_syms = 1, .syms = {node.sizes[axis]}};
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)axis}};
  dt_node_id_t in[2] = {x};
  expect_ok(dt__graph_add(m->f->graph, DT_OP_iota, NULL, 0, &iota, NULL, &in[1]));
  if (pick(m, 2)) {
    // -1 - index counts from the end.
    dt_node_id_t one = {0}, minus = {0};
    expect_ok(dt__graph_full(m->f->graph, DT_I64, -1.0, 1, &node.sizes[axis], NULL, &one));
    dt_node_id_t both[2] = {one, in[1]};
    expect_ok(dt__graph_add(m->f->graph, DT_OP_sub, both, 2, NULL, NULL, &minus));
    in[1] = minus;
  }
  try_add(m, DT_OP_gather, 2, in, &attrs);
}

typedef void (*add_fn_t)(maker_t *m, dt_node_id_t x);
static const add_fn_t adders[] = {add_reshape, add_reshape, add_reshape, add_reshape, add_permute,
                                  add_permute, add_permute, add_slice,   add_slice,   add_slice,
                                  add_expand,  add_cumsum,  add_expand,  add_pad,     add_reduce,
                                  add_concat,  add_unary,   add_binary,  add_binary,  add_softmax,
                                  add_matmul,  add_gather};
#define N_ADDERS (sizeof(adders) / sizeof(adders[0]))

// ---- Graphs -----------------------------------------------------------------------------------------------
static int64_t total_of(const maker_t *m, dt_node_id_t id) {
  dt_node_t node = *node_of(m, id);
  int64_t total = 1;
  for (uint32_t k = 0; k < node.rank; k++)
    total *= hint_of(m, node.sizes[k]);
  return total;
}

static void add_inputs(maker_t *m) {
  static const dt_dtype_t dtypes[] = {DT_F32, DT_F32, DT_F32, DT_F16, DT_BF16};
  uint32_t n = 1 + pick(m, 2);
  dt_dtype_t dtype = dtypes[pick(m, 5)];
  for (uint32_t k = 0; k < n; k++) {
    dt_sym_t sizes[DT_MAX_RANK];
    uint32_t rank = 1 + pick(m, 3);
    for (uint32_t d = 0; d < rank; d++)
      sizes[d] = pick(m, 5) ? dt__symbol_sym(m->env, pick(m, RANDOM_SIZES))
                            : lit(m, 1 + (int64_t)pick(m, 4));
    m->pool[m->n++] = rig_input(&m->g->rig, dtype, rank, sizes, pick(m, 2) != 0, FILL_FINITE);
  }
}

void random_graph_make(random_graph_t *g, uint64_t seed) {
  static const int64_t sizes[] = {0, 1, 1, 2, 2, 3, 4, 6, 7};
  memset(g, 0, sizeof(*g));
  rig_init(&g->rig, seed);
  maker_t m = {.g = g, .f = &g->rig.f, .env = g->rig.f.env};
  dt__symenv_on_assume(m.env, note_assumption, g);
  for (uint32_t k = 0; k < 5; k++)
    (void)pick(&m, 2); // the generator's first numbers depend little on the seed
  for (uint32_t k = 0; k < RANDOM_SIZES; k++) {
    g->hints[k] = sizes[pick(&m, 9)];
    (void)size_symbol(m.f, g->hints[k]);
  }
  add_inputs(&m);
  uint32_t steps = 2 + pick(&m, 7);
  for (uint32_t k = 0; k < steps; k++) {
    dt_node_id_t x = m.pool[pick(&m, 3) ? m.n - 1 : pick(&m, m.n)];
    if (node_of(&m, x)->rank <= 5 && total_of(&m, x) <= 3000)
      adders[pick(&m, N_ADDERS)](&m, x);
  }
  rig_output(&g->rig, m.pool[m.n - 1]);
  if (pick(&m, 3) == 0)
    rig_output(&g->rig, m.pool[pick(&m, m.n)]);
}

bool random_graph_other_sizes(random_graph_t *g, int64_t *symbols) {
  dt_symenv_t *env = g->rig.f.env;
  if (g->too_many)
    return false;
  for (uint32_t attempt = 0; attempt < 40; attempt++) {
    bool same = true, holds = true;
    for (uint32_t k = 0; k < RANDOM_SIZES; k++) {
      symbols[k] = rig_below(&g->rig, 3) ? (int64_t)rig_below(&g->rig, 8) : g->hints[k];
      same &= symbols[k] == g->hints[k];
    }
    for (uint32_t k = 0; holds && k < g->n_conds; k++) {
      int64_t value = 0;
      holds = dt__sym_eval(env, g->conds[k], symbols, &value) && value != 0;
    }
    if (!same && holds)
      return true;
  }
  return false;
}

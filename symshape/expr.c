// SPDX-License-Identifier: Apache-2.0
// Nodes: interning, limits, canonical order, and the memo of two-argument builders.
//
// Nodes and their arguments lie in two growable arrays; a node is found by hashing operation, value
// and arguments, and compared in full. Limits on depth, terms and tree size keep every recursion
// over an expression short, whatever the input.
#include "symshape/sym_private.h"

#include "runtime/base/hash.h"

#include <string.h>

dt_sym_t dt__sym_fail(dt_symenv_t *env, dt_code_t code, const char *text) {
  if (env->quiet && code != DT_E_NO_MEMORY)
    return DT_SYM_NONE_ID;
  if (env->fail_code == DT_OK) {
    env->fail_code = code;
    env->fail_text = text;
  }
  return DT_SYM_NONE_ID;
}

bool dt__grow(void **items, uint32_t *cap, uint32_t need, size_t item) {
  if (need <= *cap)
    return true;
  uint32_t bigger = *cap ? *cap : 16;
  while (bigger < need) {
    if (bigger > UINT32_MAX / 2)
      return false;
    bigger *= 2;
  }
  size_t bytes;
  if (!dt__mul_size(bigger, item, &bytes))
    return false;
  void *moved = dt__realloc(*items, bytes);
  if (!moved)
    return false;
  *items = moved;
  *cap = bigger;
  return true;
}

static uint32_t hash_node(dt_sym_op_t op, const dt_sym_t *args, uint32_t n, int64_t value) {
  uint64_t h = dt__hash_mix((uint64_t)op + 0x9e37u, (uint64_t)value);
  for (uint32_t k = 0; k < n; k++)
    h = dt__hash_mix(h, args[k].id);
  return (uint32_t)(h ^ (h >> 32));
}

static bool same_node(const dt_symenv_t *env, uint32_t id, dt_sym_op_t op, const dt_sym_t *args,
                      uint32_t n, int64_t value) {
  const dt_sym_node_t *node = &env->nodes[id];
  return node->op == op && node->n_args == n && node->value == value &&
         (n == 0 || memcmp(env->args + node->first, args, n * sizeof *args) == 0);
}

static bool grow_table(dt_symenv_t *env) {
  uint32_t cap = env->table_cap * 2;
  uint32_t *table = dt__calloc(cap, sizeof *table);
  if (!table)
    return false;
  for (uint32_t id = 1; id < env->n_nodes; id++) {
    uint32_t slot = env->nodes[id].hash & (cap - 1);
    while (table[slot])
      slot = (slot + 1) & (cap - 1);
    table[slot] = id;
  }
  dt__free(env->table);
  env->table = table;
  env->table_cap = cap;
  return true;
}

// Depth, tree size and symbol mask from the arguments; false when a limit is exceeded.
static bool measure(dt_symenv_t *env, dt_sym_node_t *node, const dt_sym_t *args) {
  uint64_t tree = 1;
  for (uint32_t k = 0; k < node->n_args; k++) {
    const dt_sym_node_t *arg = &env->nodes[args[k].id];
    node->depth = arg->depth + 1 > node->depth ? arg->depth + 1 : node->depth;
    tree += arg->tree;
    node->mask |= arg->mask;
    node->late = arg->late > node->late ? arg->late : node->late;
  }
  node->tree = (uint32_t)tree;
  if (node->depth > SYM_MAX_DEPTH) {
    dt__sym_fail(env, DT_E_LIMIT, "a symbolic expression is nested deeper than 256");
    return false;
  }
  if (node->n_args > SYM_MAX_TERMS) {
    dt__sym_fail(env, DT_E_LIMIT, "a symbolic expression has more than 4096 terms");
    return false;
  }
  if (tree > SYM_MAX_TREE) {
    dt__sym_fail(env, DT_E_LIMIT, "a symbolic expression is larger than 2^20 nodes");
    return false;
  }
  if (env->n_nodes >= SYM_MAX_NODES) {
    dt__sym_fail(env, DT_E_LIMIT, "more than 2^26 symbolic expressions");
    return false;
  }
  return true;
}

// The monomial of a product that begins with a literal, kept in the node's value.
static uint32_t mono_of(dt_symenv_t *env, const dt_sym_t *args, uint32_t n) {
  return n == 2 ? args[1].id : dt__intern(env, DT_SYM_MUL, args + 1, n - 1, 0);
}

uint32_t dt__intern(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n,
                    int64_t value) {
  for (uint32_t k = 0; k < n; k++)
    if (!args[k].id)
      return 0;
  if (op == DT_SYM_MUL && env->nodes[args[0].id].op == DT_SYM_CONST) {
    value = mono_of(env, args, n);
    if (!value)
      return 0;
  }
  uint32_t hash = hash_node(op, args, n, value);
  uint32_t slot = hash & (env->table_cap - 1);
  for (; env->table[slot]; slot = (slot + 1) & (env->table_cap - 1)) {
    uint32_t id = env->table[slot];
    if (env->nodes[id].hash == hash && same_node(env, id, op, args, n, value))
      return id;
  }
  dt_sym_node_t node = {.op = op, .n_args = n, .hash = hash, .value = value};
  node.lo = INT64_MIN;
  node.hi = INT64_MAX;
  if (op == DT_SYM_SYMBOL)
    node.mask = (uint64_t)1 << ((uint64_t)value & 63);
  if (!measure(env, &node, args))
    return 0;
  if (!dt__grow((void **)&env->nodes, &env->cap_nodes, env->n_nodes + 1, sizeof *env->nodes) ||
      !dt__grow((void **)&env->args, &env->cap_args, env->n_args + n, sizeof *env->args) ||
      (env->n_nodes * 2 >= env->table_cap && !grow_table(env)))
    return dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory").id;
  for (slot = hash & (env->table_cap - 1); env->table[slot];)
    slot = (slot + 1) & (env->table_cap - 1);
  node.first = env->n_args;
  if (n)
    memcpy(env->args + env->n_args, args, n * sizeof *args);
  env->n_args += n;
  env->table[slot] = env->n_nodes;
  env->nodes[env->n_nodes] = node;
  return env->n_nodes++;
}

uint32_t dt__intern2(dt_symenv_t *env, dt_sym_op_t op, uint32_t a, uint32_t b) {
  dt_sym_t args[2] = {SYM(a), SYM(b)};
  return dt__intern(env, op, args, 2, 0);
}

uint32_t dt__literal(dt_symenv_t *env, int64_t value) {
  return dt__intern(env, DT_SYM_CONST, NULL, 0, value);
}

uint32_t dt__finish(dt_symenv_t *env, uint32_t id) {
  if (!id)
    return 0;
  if (env->nodes[id].rep) {
    dt__rule(env, DT_RULE_FACT_VALUE);
    return env->nodes[id].rep;
  }
  uint32_t op = env->nodes[id].op;
  if (op == DT_SYM_CONST || op == DT_SYM_SYMBOL)
    return id;
  dt_range_t range = dt__range_of(env, id);
  if (range.lo == range.hi) {
    dt__rule(env, DT_RULE_RANGE_VALUE);
    return dt__literal(env, range.lo);
  }
  return id;
}

static uint32_t degree(const dt_symenv_t *env, uint32_t id) {
  const dt_sym_node_t *node = &env->nodes[id];
  return node->op != DT_SYM_MUL ? 1 : node->value ? node->n_args - 1 : node->n_args;
}

int dt__sym_order(const dt_symenv_t *env, uint32_t a, uint32_t b) {
  if (a == b)
    return 0;
  const dt_sym_node_t *x = &env->nodes[a], *y = &env->nodes[b];
  if ((x->op == DT_SYM_CONST) != (y->op == DT_SYM_CONST))
    return x->op == DT_SYM_CONST ? 1 : -1;
  uint32_t dx = degree(env, a), dy = degree(env, b);
  if (dx != dy)
    return dx > dy ? -1 : 1;
  if (x->op != y->op)
    return x->op < y->op ? -1 : 1;
  if (x->op == DT_SYM_CONST || x->op == DT_SYM_SYMBOL)
    return x->value < y->value ? -1 : 1;
  if (x->n_args != y->n_args)
    return x->n_args < y->n_args ? -1 : 1;
  for (uint32_t k = 0; k < x->n_args; k++) {
    int order = dt__sym_order(env, dt__arg(env, a, k), dt__arg(env, b, k));
    if (order)
      return order;
  }
  return 0;
}

// Insertion for the few arguments that operations have; merging for long lists.
static void merge_sort(const dt_symenv_t *env, dt_sym_t *items, dt_sym_t *spare, uint32_t n) {
  if (n < 12) {
    for (uint32_t i = 1; i < n; i++) {
      dt_sym_t item = items[i];
      uint32_t j = i;
      for (; j && dt__sym_order(env, items[j - 1].id, item.id) > 0; j--)
        items[j] = items[j - 1];
      items[j] = item;
    }
    return;
  }
  uint32_t half = n / 2, a = 0, b = half;
  merge_sort(env, items, spare, half);
  merge_sort(env, items + half, spare, n - half);
  memcpy(spare, items, n * sizeof *items);
  for (uint32_t k = 0; k < n; k++) {
    bool left = b == n || (a < half && dt__sym_order(env, spare[a].id, spare[b].id) <= 0);
    items[k] = left ? spare[a++] : spare[b++];
  }
}

void dt__sym_sort(const dt_symenv_t *env, dt_sym_t *items, uint32_t n) {
  merge_sort(env, items, items + n, n);
}

// `out` NULL: counts only.
static uint32_t open_nested(const dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args,
                            uint32_t n, dt_sym_t *out) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t id = dt__resolve(env, args[k].id);
    bool nested = env->nodes[id].op == op;
    uint32_t parts = nested ? env->nodes[id].n_args : 1;
    for (uint32_t j = 0; out && j < parts; j++)
      out[count + j] = SYM(nested ? dt__resolve(env, dt__arg(env, id, j)) : id);
    count += parts;
  }
  return count;
}

bool dt__items_open(dt_symenv_t *env, dt_sym_op_t op, const dt_sym_t *args, uint32_t n,
                    dt_sym_items_t *out) {
  for (uint32_t k = 0; k < n; k++)
    if (!args[k].id)
      return false;
  out->n = open_nested(env, op, args, n, NULL);
  if (out->n > SYM_MAX_TERMS) {
    (void)dt__sym_fail(env, DT_E_LIMIT, "a symbolic expression has more than 4096 terms");
    return false;
  }
  bool few = 2 * out->n <= sizeof out->few / sizeof out->few[0];
  out->at = few ? out->few : dt__alloc(2 * out->n * sizeof *out->at);
  if (!out->at) {
    (void)dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
    return false;
  }
  (void)open_nested(env, op, args, n, out->at);
  return true;
}

void dt__items_close(dt_sym_items_t *items) {
  if (items->at != items->few)
    dt__free(items->at);
}

bool dt__is_bool(const dt_symenv_t *env, uint32_t id) {
  uint32_t op = env->nodes[id].op;
  return op >= DT_SYM_EQ && op <= DT_SYM_NOT;
}

static dt_op_memo_t *cache_slot(const dt_symenv_t *env, dt_sym_op_t op, uint32_t a, uint32_t b) {
  uint64_t h = dt__hash_mix(dt__hash_mix((uint64_t)op, a), b);
  return &env->cache[(h ^ (h >> 32)) & (SYM_CACHE - 1)];
}

bool dt__cache_get(const dt_symenv_t *env, dt_sym_op_t op, uint32_t a, uint32_t b, uint32_t *out) {
  const dt_op_memo_t *memo = cache_slot(env, op, a, b);
  if (memo->op != op || memo->a != a || memo->b != b || memo->epoch != env->epoch)
    return false;
  *out = memo->result;
  return true;
}

void dt__cache_put(dt_symenv_t *env, dt_sym_op_t op, uint32_t a, uint32_t b, uint32_t result) {
  // Inside of a proof a builder may have given up early: such results are not kept.
  if (result && !env->prove_depth)
    *cache_slot(env, op, a, b) = (dt_op_memo_t){(uint32_t)op, a, b, env->epoch, result};
}

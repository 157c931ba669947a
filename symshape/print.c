// SPDX-License-Identifier: Apache-2.0
// Expressions as text. Operators bind as in Python: or, and, comparisons, + -, * // %, unary minus;
// a quotient or remainder is always bracketed inside of a product or another one.
#include "symshape/sym_private.h"

static const char *const op_names[] = {
#define SYM_OP(id, name, arity, kind, doc) name,
#include "symshape/sym_ops.def"
};

enum { LEVEL_OR, LEVEL_AND, LEVEL_COMPARE, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_ATOM };

static int level_of(const dt_symenv_t *env, uint32_t id) {
  const dt_sym_node_t *node = &env->nodes[id];
  switch (node->op) {
  case DT_SYM_CONST:
    return node->value < 0 ? LEVEL_SUM : LEVEL_ATOM;
  case DT_SYM_ADD:
    return LEVEL_SUM;
  case DT_SYM_MUL:
    return node->value && env->nodes[dt__arg(env, id, 0)].value < 0 ? LEVEL_SUM : LEVEL_PRODUCT;
  case DT_SYM_FLOORDIV:
  case DT_SYM_MOD:
    return LEVEL_PRODUCT;
  case DT_SYM_EQ:
  case DT_SYM_NE:
  case DT_SYM_LT:
  case DT_SYM_LE:
    return LEVEL_COMPARE;
  case DT_SYM_AND:
    return LEVEL_AND;
  case DT_SYM_OR:
    return LEVEL_OR;
  default:
    return LEVEL_ATOM;
  }
}

static void put(const dt_symenv_t *env, uint32_t id, int level, dt_text_t *out);

static void put_list(const dt_symenv_t *env, uint32_t id, const char *between, int level,
                     dt_text_t *out) {
  for (uint32_t k = 0; k < env->nodes[id].n_args; k++) {
    if (k)
      dt__text_put(out, between);
    put(env, dt__arg(env, id, k), level, out);
  }
}

// A product as s0*s1*384; its sign is written by the caller when `negate`.
static void put_product(const dt_symenv_t *env, uint32_t id, bool negate, dt_text_t *out) {
  const dt_sym_node_t *node = &env->nodes[id];
  uint32_t first = node->value ? 1 : 0;
  for (uint32_t k = first; k < node->n_args; k++) {
    if (k > first)
      dt__text_put(out, "*");
    put(env, dt__arg(env, id, k), LEVEL_ATOM, out);
  }
  int64_t coef = first ? env->nodes[dt__arg(env, id, 0)].value : 1;
  if (negate && coef == -1)
    return;
  if (negate)
    dt__text_printf(out, "*%llu", (unsigned long long)(0 - (uint64_t)coef));
  else if (first)
    dt__text_printf(out, "*%lld", (long long)coef);
}

// True when a term is written with a minus in front of it. The least integer keeps its sign.
static bool minus_in_front(const dt_symenv_t *env, uint32_t id) {
  const dt_sym_node_t *node = &env->nodes[id];
  int64_t value = node->op == DT_SYM_CONST                ? node->value
                  : node->op == DT_SYM_MUL && node->value ? env->nodes[dt__arg(env, id, 0)].value
                                                          : 0;
  return value < 0 && value != INT64_MIN;
}

static void put_term(const dt_symenv_t *env, uint32_t id, bool negate, dt_text_t *out) {
  const dt_sym_node_t *node = &env->nodes[id];
  if (node->op == DT_SYM_MUL)
    put_product(env, id, negate, out);
  else if (negate)
    dt__text_printf(out, "%lld", (long long)-node->value);
  else
    put(env, id, LEVEL_PRODUCT, out);
}

static void put_sum(const dt_symenv_t *env, uint32_t id, dt_text_t *out) {
  for (uint32_t k = 0; k < env->nodes[id].n_args; k++) {
    uint32_t term = dt__arg(env, id, k);
    bool negate = minus_in_front(env, term);
    dt__text_put(out, k == 0 ? (negate ? "-" : "") : negate ? " - " : " + ");
    put_term(env, term, negate, out);
  }
}

static void put_bare(const dt_symenv_t *env, uint32_t id, dt_text_t *out) {
  const dt_sym_node_t *node = &env->nodes[id];
  char letter[16];
  switch (node->op) {
  case DT_SYM_NONE:
    dt__text_put(out, "none");
    return;
  case DT_SYM_CONST:
    dt__text_printf(out, "%lld", (long long)node->value);
    return;
  case DT_SYM_SYMBOL:
    dt__symbol_letter(env, (uint32_t)node->value, letter);
    dt__text_put(out, letter);
    return;
  case DT_SYM_ADD:
    put_sum(env, id, out);
    return;
  case DT_SYM_MUL: {
    bool negate = minus_in_front(env, id);
    dt__text_put(out, negate ? "-" : "");
    put_product(env, id, negate, out);
    return;
  }
  case DT_SYM_FLOORDIV:
  case DT_SYM_MOD:
    put_list(env, id, op_names[node->op], LEVEL_ATOM, out);
    return;
  case DT_SYM_EQ:
  case DT_SYM_NE:
  case DT_SYM_LT:
  case DT_SYM_LE:
  case DT_SYM_AND:
  case DT_SYM_OR:
    put(env, dt__arg(env, id, 0), level_of(env, id) + 1, out);
    for (uint32_t k = 1; k < node->n_args; k++) {
      dt__text_printf(out, " %s ", op_names[node->op]);
      put(env, dt__arg(env, id, k), level_of(env, id) + 1, out);
    }
    return;
  default: // min, max, select, not: like a function
    dt__text_printf(out, "%s(", op_names[node->op]);
    put_list(env, id, ", ", LEVEL_OR, out);
    dt__text_put(out, ")");
    return;
  }
}

static void put(const dt_symenv_t *env, uint32_t id, int level, dt_text_t *out) {
  bool bracket = level_of(env, id) < level;
  dt__text_put(out, bracket ? "(" : "");
  put_bare(env, id, out);
  dt__text_put(out, bracket ? ")" : "");
}

void dt__sym_print(const dt_symenv_t *env, dt_sym_t e, dt_text_t *out) {
  put(env, e.id, LEVEL_OR, out);
}

// ---- Environments ------------------------------------------------------------------------------
static void print_symbol(const dt_symenv_t *env, uint32_t k, dt_text_t *out) {
  const dt_symbol_t *symbol = &env->symbols[k];
  dt_range_t range = dt__symbol_info(env, k).range;
  dt__text_printf(out, "symbol %d [%lld, %lld]", (int)symbol->kind, (long long)range.lo,
                  (long long)range.hi);
  if (symbol->has_hint)
    dt__text_printf(out, " hint %lld", (long long)symbol->hint);
  if (symbol->modulus != 1)
    dt__text_printf(out, " = %lld mod %lld", (long long)symbol->residue,
                    (long long)symbol->modulus);
  if (symbol->whole)
    dt__text_printf(out, " of %u by %lld", symbol->whole - 1, (long long)symbol->divisor);
  if (symbol->extent) {
    dt__text_put(out, " < ");
    dt__sym_print(env, SYM(symbol->extent), out);
  }
  dt__text_put(out, "\n");
}

static void print_learned(const dt_symenv_t *env, uint32_t id, dt_text_t *out) {
  const dt_sym_node_t *node = dt__node(env, id);
  bool bounded = node->lo != INT64_MIN || node->hi != INT64_MAX;
  if (node->op == DT_SYM_CONST || (!node->rep && !bounded))
    return;
  dt__sym_print(env, SYM(id), out);
  if (node->rep) {
    dt__text_put(out, " = ");
    dt__sym_print(env, SYM(node->rep), out);
  }
  dt__text_printf(out, " in [%lld, %lld]\n", (long long)node->lo, (long long)node->hi);
}

void dt__symenv_print(const dt_symenv_t *env, dt_text_t *out) {
  for (uint32_t k = 0; k < env->n_symbols; k++)
    print_symbol(env, k, out);
  for (uint32_t k = 0; k < env->n_facts; k++) {
    const dt_fact_t *fact = &env->facts[k];
    if (!fact->cond && !fact->ge0)
      continue;
    dt__text_put(out, "fact ");
    if (fact->cond)
      dt__sym_print(env, SYM(fact->cond), out);
    if (fact->ge0) {
      dt__text_put(out, " 0 <= ");
      dt__sym_print(env, SYM(fact->ge0), out);
    }
    dt__text_printf(out, " after %u\n", fact->late);
  }
  for (uint32_t id = 1; id < env->n_nodes; id++)
    print_learned(env, id, out);
}

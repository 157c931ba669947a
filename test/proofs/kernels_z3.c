// SPDX-License-Identifier: Apache-2.0
// Terms of symbolic expressions: shared by the queries of one program, with the givens that each
// query needs for the terms it uses.
#include "test/proofs/kernels_z3.h"

#include "runtime/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct node_t {
  kz_value_t value; // v is NULL until made
  Z3_ast meaning;   // of a quotient or remainder that are unknowns, and of symbols: their range
  uint32_t query;   // the last one that was given the meaning
} node_t;

// A division by something else than a literal: its quotient and remainder are the same unknowns
// wherever they occur.
typedef struct division_of_t {
  uint32_t x, by; // ids
  Z3_ast q, r;
} division_of_t;

typedef struct ranged_t {
  dt_sym_t e;
  dt_range_t range;
} ranged_t;

struct kz_t {
  Z3_context z3;
  Z3_sort integer;
  const dt_symenv_t *env;
  unsigned limit_ms;
  node_t *nodes; // by id of an expression
  uint32_t n_nodes;
  DT_VEC(dt_sym_t) always;
  DT_VEC(ranged_t) ranged;
  DT_VEC(division_of_t) divisions;
  DT_VEC(Z3_ast) givens; // of the query
  dt_arena_t arena;
  uint32_t query, n_fresh;
  double seconds;
};

// ---- Terms ----------------------------------------------------------------------------------------
Z3_context kz_context(const kz_t *kz) { return kz->z3; }
Z3_ast kz_int(const kz_t *kz, int64_t value) { return Z3_mk_int64(kz->z3, value, kz->integer); }
Z3_ast kz_true(const kz_t *kz) { return Z3_mk_true(kz->z3); }

static Z3_ast unknown(kz_t *kz, const char *name, uint32_t number, Z3_sort sort) {
  char text[48];
  snprintf(text, sizeof text, "%s%u", name, number);
  return Z3_mk_const(kz->z3, Z3_mk_string_symbol(kz->z3, text), sort);
}
Z3_ast kz_flag(kz_t *kz) { return unknown(kz, "flag.", kz->n_fresh++, Z3_mk_bool_sort(kz->z3)); }
Z3_ast kz_fresh(kz_t *kz) { return unknown(kz, "any.", kz->n_fresh++, kz->integer); }

Z3_ast kz_and(const kz_t *kz, Z3_ast a, Z3_ast b) {
  Z3_ast both[2] = {a, b};
  return Z3_mk_and(kz->z3, 2, both);
}
Z3_ast kz_or(const kz_t *kz, Z3_ast a, Z3_ast b) {
  Z3_ast both[2] = {a, b};
  return Z3_mk_or(kz->z3, 2, both);
}
Z3_ast kz_fits(const kz_t *kz, Z3_ast v) {
  return kz_and(kz, Z3_mk_le(kz->z3, kz_int(kz, INT64_MIN), v),
                Z3_mk_le(kz->z3, v, kz_int(kz, INT64_MAX)));
}
Z3_ast kz_is_true(const kz_t *kz, Z3_ast v) {
  return Z3_mk_not(kz->z3, Z3_mk_eq(kz->z3, v, kz_int(kz, 0)));
}
Z3_ast kz_inside(const kz_t *kz, Z3_ast v, Z3_ast end) {
  return kz_and(kz, Z3_mk_le(kz->z3, kz_int(kz, 0), v), Z3_mk_lt(kz->z3, v, end));
}
Z3_ast kz_whole(const kz_t *kz, kz_value_t value) {
  return kz_and(kz, value.has, kz_fits(kz, value.v));
}

// ---- Operations -----------------------------------------------------------------------------------
typedef struct args_t {
  uint32_t n;
  const kz_value_t *at;
  const dt_sym_t *exprs;
} args_t;

static Z3_ast number(const kz_t *kz, Z3_ast cond) {
  return Z3_mk_ite(kz->z3, cond, kz_int(kz, 1), kz_int(kz, 0));
}

static Z3_ast all_have(const kz_t *kz, const args_t *args, bool read) {
  Z3_ast all = kz_true(kz);
  for (uint32_t k = 0; k < args->n; k++)
    all = kz_and(kz, all, read ? kz_whole(kz, args->at[k]) : args->at[k].has);
  return all;
}

// A sum or product is exact inside.
static kz_value_t ring(const kz_t *kz, const args_t *args, bool product) {
  Z3_ast *terms = malloc(args->n * sizeof(*terms));
  for (uint32_t k = 0; k < args->n; k++)
    terms[k] = args->at[k].v;
  kz_value_t out = {.v = product ? Z3_mk_mul(kz->z3, args->n, terms)
                                 : Z3_mk_add(kz->z3, args->n, terms),
                    .has = all_have(kz, args, false)};
  free(terms);
  return out;
}

static division_of_t division_of(kz_t *kz, const args_t *args) {
  uint32_t x = args->exprs[0].id, by = args->exprs[1].id;
  for (uint32_t k = 0; k < kz->divisions.len; k++)
    if (kz->divisions.items[k].x == x && kz->divisions.items[k].by == by)
      return kz->divisions.items[k];
  division_of_t made = {x, by, kz_fresh(kz), kz_fresh(kz)};
  (void)DT_VEC_PUSH(&kz->arena, &kz->divisions, made);
  return made;
}

static kz_value_t divide(kz_t *kz, const args_t *args, bool rest, Z3_ast *meaning) {
  Z3_context z3 = kz->z3;
  Z3_ast x = args->at[0].v, by = args->at[1].v, zero = kz_int(kz, 0);
  int64_t literal = 0;
  kz_value_t out = {.has = kz_and(kz, all_have(kz, args, true), kz_is_true(kz, by))};
  if (dt__sym_is_const(kz->env, args->exprs[1], &literal) && literal > 0) {
    out.v = rest ? Z3_mk_mod(z3, x, by) : Z3_mk_div(z3, x, by);
    return out;
  }
  division_of_t made = division_of(kz, args);
  Z3_ast q = made.q, r = made.r;
  Z3_ast product[2] = {by, q}, sum[2] = {NULL, r};
  sum[0] = Z3_mk_mul(z3, 2, product);
  Z3_ast up = kz_inside(kz, r, by);
  Z3_ast down = kz_and(kz, Z3_mk_lt(z3, by, r), Z3_mk_le(z3, r, zero));
  Z3_ast is = kz_and(kz, Z3_mk_eq(z3, x, Z3_mk_add(z3, 2, sum)), kz_or(kz, up, down));
  *meaning = Z3_mk_implies(z3, kz_is_true(kz, by), is);
  out.v = rest ? r : q;
  return out;
}

// The product with 2^count, or the quotient by it: one literal power for each count. The result of
// a shift to the left must fit, as code refuses it otherwise.
static kz_value_t shift(const kz_t *kz, const args_t *args, bool left) {
  Z3_context z3 = kz->z3;
  Z3_ast x = args->at[0].v, by = args->at[1].v, v = x;
  int64_t most = left ? 62 : 63;
  for (int64_t c = 1; c <= most; c++) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", 1ULL << c);
    Z3_ast pair[2] = {x, Z3_mk_numeral(z3, digits, kz->integer)};
    Z3_ast moved = left ? Z3_mk_mul(z3, 2, pair) : Z3_mk_div(z3, pair[0], pair[1]);
    v = Z3_mk_ite(z3, Z3_mk_eq(z3, by, kz_int(kz, c)), moved, v);
  }
  Z3_ast counts = kz_inside(kz, by, kz_int(kz, most + 1));
  return (kz_value_t){
      .v = v, .has = kz_and(kz, all_have(kz, args, true), kz_and(kz, counts, kz_fits(kz, v)))};
}

static kz_value_t extremum(const kz_t *kz, const args_t *args, bool least) {
  kz_value_t out = {.v = args->at[0].v, .has = all_have(kz, args, true)};
  for (uint32_t k = 1; k < args->n; k++) {
    Z3_ast other = args->at[k].v;
    Z3_ast wins = least ? Z3_mk_lt(kz->z3, other, out.v) : Z3_mk_lt(kz->z3, out.v, other);
    out.v = Z3_mk_ite(kz->z3, wins, other, out.v);
  }
  return out;
}

static kz_value_t compare(const kz_t *kz, const args_t *args, dt_sym_op_t op) {
  Z3_ast a = args->at[0].v, b = args->at[1].v, cond;
  if (op == DT_SYM_LT)
    cond = Z3_mk_lt(kz->z3, a, b);
  else if (op == DT_SYM_LE)
    cond = Z3_mk_le(kz->z3, a, b);
  else
    cond = Z3_mk_eq(kz->z3, a, b);
  if (op == DT_SYM_NE)
    cond = Z3_mk_not(kz->z3, cond);
  return (kz_value_t){.v = number(kz, cond), .has = all_have(kz, args, true)};
}

// One argument that decides is enough, whatever the others are.
static kz_value_t junction(const kz_t *kz, const args_t *args, bool deciding) {
  Z3_ast decided = Z3_mk_false(kz->z3), decided_has = decided;
  for (uint32_t k = 0; k < args->n; k++) {
    Z3_ast yes = kz_is_true(kz, args->at[k].v);
    if (!deciding)
      yes = Z3_mk_not(kz->z3, yes);
    decided = kz_or(kz, decided, yes);
    decided_has = kz_or(kz, decided_has, kz_and(kz, yes, kz_whole(kz, args->at[k])));
  }
  Z3_ast cond = deciding ? decided : Z3_mk_not(kz->z3, decided);
  return (kz_value_t){.v = number(kz, cond),
                      .has = kz_or(kz, decided_has, all_have(kz, args, true))};
}

static kz_value_t choose(const kz_t *kz, const args_t *args) {
  Z3_ast yes = kz_is_true(kz, args->at[0].v);
  Z3_ast branch = Z3_mk_ite(kz->z3, yes, kz_whole(kz, args->at[1]), kz_whole(kz, args->at[2]));
  return (kz_value_t){.v = Z3_mk_ite(kz->z3, yes, args->at[1].v, args->at[2].v),
                      .has = kz_and(kz, kz_whole(kz, args->at[0]), branch)};
}

static kz_value_t operation(kz_t *kz, dt_sym_op_t op, const args_t *args, Z3_ast *meaning) {
  switch (op) {
  case DT_SYM_ADD:
  case DT_SYM_MUL:
    return ring(kz, args, op == DT_SYM_MUL);
  case DT_SYM_FLOORDIV:
  case DT_SYM_MOD:
    return divide(kz, args, op == DT_SYM_MOD, meaning);
  case DT_SYM_SHL:
  case DT_SYM_SHR:
    return shift(kz, args, op == DT_SYM_SHL);
  case DT_SYM_MIN:
  case DT_SYM_MAX:
    return extremum(kz, args, op == DT_SYM_MIN);
  case DT_SYM_SELECT:
    return choose(kz, args);
  case DT_SYM_EQ:
  case DT_SYM_NE:
  case DT_SYM_LT:
  case DT_SYM_LE:
    return compare(kz, args, op);
  case DT_SYM_AND:
  case DT_SYM_OR:
    return junction(kz, args, op == DT_SYM_OR);
  case DT_SYM_NOT:
    return (kz_value_t){.v = number(kz, Z3_mk_not(kz->z3, kz_is_true(kz, args->at[0].v))),
                        .has = all_have(kz, args, true)};
  default: // an operation that this file does not know says nothing of its value
    return (kz_value_t){.v = kz_fresh(kz), .has = kz_flag(kz)};
  }
}

// ---- Expressions ----------------------------------------------------------------------------------
static node_t *node_of(kz_t *kz, dt_sym_t e) {
  if (e.id >= kz->n_nodes) {
    uint32_t n = e.id * 2 + 64;
    kz->nodes = realloc(kz->nodes, n * sizeof(*kz->nodes));
    memset(kz->nodes + kz->n_nodes, 0, (n - kz->n_nodes) * sizeof(*kz->nodes));
    kz->n_nodes = n;
  }
  return &kz->nodes[e.id];
}

static Z3_ast in_range(const kz_t *kz, Z3_ast v, dt_range_t range) {
  return kz_and(kz, Z3_mk_le(kz->z3, kz_int(kz, range.lo), v),
                Z3_mk_le(kz->z3, v, kz_int(kz, range.hi)));
}

// What is known of a symbol wherever it occurs. Loops, slices and data say more, where they are
// visible.
static Z3_ast symbol_range(const kz_t *kz, uint32_t symbol, Z3_ast v) {
  dt_symbol_info_t info = dt__symbol_info(kz->env, symbol);
  if (info.kind == DT_SYMBOL_SIZE)
    return in_range(kz, v, (dt_range_t){0, DT_SIZE_LIMIT - 1});
  return info.kind == DT_SYMBOL_UNBACKED ? in_range(kz, v, info.range) : kz_fits(kz, v);
}

static void make(kz_t *kz, dt_sym_t e) {
  static const char letters[] = {'s', 'n', 'u', 'i', 'd', 'p'};
  dt_sym_view_t view = dt__sym_view(kz->env, e);
  kz_value_t value = {.has = kz_true(kz)};
  Z3_ast meaning = NULL;
  if (view.op == DT_SYM_CONST) {
    value.v = kz_int(kz, view.value);
  } else if (view.op == DT_SYM_SYMBOL) {
    char name[2] = {letters[dt__symbol_info(kz->env, view.symbol).kind], 0};
    value.v = unknown(kz, name, view.symbol, kz->integer);
    meaning = symbol_range(kz, view.symbol, value.v);
  } else {
    kz_value_t *at = malloc((view.n_args + 1) * sizeof(*at));
    for (uint32_t k = 0; k < view.n_args; k++)
      at[k] = node_of(kz, view.args[k])->value;
    args_t args = {view.n_args, at, view.args};
    value = operation(kz, view.op, &args, &meaning);
    free(at);
  }
  node_t *node = node_of(kz, e);
  node->value = value;
  node->meaning = meaning;
}

kz_value_t kz_term(kz_t *kz, dt_sym_t e) {
  if (node_of(kz, e)->value.v && node_of(kz, e)->query == kz->query)
    return node_of(kz, e)->value;
  dt_sym_view_t view = dt__sym_view(kz->env, e);
  for (uint32_t k = 0; k < view.n_args; k++)
    (void)kz_term(kz, view.args[k]);
  if (!node_of(kz, e)->value.v)
    make(kz, e);
  node_t *node = node_of(kz, e);
  node->query = kz->query;
  if (node->meaning)
    kz_given(kz, node->meaning);
  return node->value;
}

// ---- Queries --------------------------------------------------------------------------------------
static void on_error(Z3_context z3, Z3_error_code code) {
  fprintf(stderr, "Z3: %s\n", Z3_get_error_msg(z3, code));
}

kz_t *kz_create(const dt_symenv_t *env, unsigned limit_ms) {
  kz_t *kz = calloc(1, sizeof(*kz));
  Z3_config config = Z3_mk_config();
  kz->z3 = Z3_mk_context(config);
  Z3_del_config(config);
  Z3_set_error_handler(kz->z3, on_error);
  kz->integer = Z3_mk_int_sort(kz->z3);
  kz->env = env;
  kz->limit_ms = limit_ms;
  dt__arena_init(&kz->arena, 0);
  return kz;
}

void kz_destroy(kz_t *kz) {
  dt__arena_fini(&kz->arena);
  free(kz->nodes);
  Z3_del_context(kz->z3);
  free(kz);
}

void kz_always(kz_t *kz, dt_sym_t cond) { (void)DT_VEC_PUSH(&kz->arena, &kz->always, cond); }

void kz_always_in(kz_t *kz, dt_sym_t e, dt_range_t range) {
  (void)DT_VEC_PUSH(&kz->arena, &kz->ranged, ((ranged_t){e, range}));
}

void kz_limit(kz_t *kz, unsigned limit_ms) { kz->limit_ms = limit_ms; }

void kz_given(kz_t *kz, Z3_ast cond) { (void)DT_VEC_PUSH(&kz->arena, &kz->givens, cond); }

void kz_begin(kz_t *kz) {
  kz->query++;
  kz->givens.len = 0;
  for (uint32_t k = 0; k < kz->always.len; k++)
    kz_given_sym(kz, kz->always.items[k]);
  for (uint32_t k = 0; k < kz->ranged.len; k++) {
    kz_value_t value = kz_term(kz, kz->ranged.items[k].e);
    kz_given(kz, value.has);
    kz_given(kz, in_range(kz, value.v, kz->ranged.items[k].range));
  }
}

void kz_given_sym(kz_t *kz, dt_sym_t cond) {
  kz_value_t value = kz_term(kz, cond);
  kz_given(kz, kz_and(kz, kz_whole(kz, value), kz_is_true(kz, value.v)));
}

void kz_given_loop(kz_t *kz, dt_sym_t var, dt_sym_t extent) {
  kz_value_t i = kz_term(kz, var), end = kz_term(kz, extent);
  kz_given(kz, kz_and(kz, kz_whole(kz, end), kz_inside(kz, i.v, end.v)));
}

void kz_compare_quotients(kz_t *kz, dt_sym_t e, dt_sym_t end) {
  dt_sym_view_t view = dt__sym_view(kz->env, e);
  if (view.op == DT_SYM_FLOORDIV && !dt__sym_is_const(kz->env, view.args[1], NULL)) {
    Z3_context z3 = kz->z3;
    Z3_ast q = kz_term(kz, e).v, by = kz_term(kz, view.args[1]).v, most = kz_term(kz, end).v;
    Z3_ast whole[2] = {q, by}, least[2] = {most, by};
    Z3_ast product = Z3_mk_mul(z3, 2, whole), limit = Z3_mk_mul(z3, 2, least);
    Z3_ast positive = Z3_mk_lt(z3, kz_int(kz, 0), by);
    Z3_ast above = kz_and(kz, positive, Z3_mk_le(z3, most, q));
    Z3_ast below = kz_and(kz, positive, Z3_mk_lt(z3, q, kz_int(kz, 0)));
    kz_given(kz, Z3_mk_implies(z3, above, Z3_mk_le(z3, limit, product)));
    kz_given(kz, Z3_mk_implies(z3, below, Z3_mk_le(z3, product, Z3_mk_unary_minus(z3, by))));
  }
  for (uint32_t k = 0; k < view.n_args; k++)
    kz_compare_quotients(kz, dt__sym_view(kz->env, e).args[k], end);
}

static void bound_product(kz_t *kz, dt_sym_view_t view, uint32_t loop, dt_sym_t extent) {
  Z3_context z3 = kz->z3;
  Z3_ast rest[16], one = kz_int(kz, 1), end = kz_term(kz, extent).v;
  uint32_t n = 0;
  for (uint32_t k = 0; k < view.n_args && n < 16; k++)
    if (k != loop)
      rest[n++] = kz_term(kz, view.args[k]).v;
  if (n + 1 != view.n_args)
    return;
  Z3_ast c = n == 1 ? rest[0] : Z3_mk_mul(z3, n, rest), i = kz_term(kz, view.args[loop]).v;
  Z3_ast product[2] = {i, c}, whole[2] = {end, c}, sides[2] = {end, one};
  Z3_ast most[2] = {Z3_mk_mul(z3, 2, whole), c};
  Z3_ast runs =
      kz_and(kz, Z3_mk_le(z3, i, Z3_mk_sub(z3, 2, sides)), Z3_mk_le(z3, kz_int(kz, 0), c));
  kz_given(
      kz, Z3_mk_implies(z3, runs, Z3_mk_le(z3, Z3_mk_mul(z3, 2, product), Z3_mk_sub(z3, 2, most))));
}

void kz_bound_products(kz_t *kz, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(kz->env, e);
  for (uint32_t k = 0; k < view.n_args; k++) {
    uint32_t symbol;
    dt_sym_t extent = DT_SYM_NONE_ID;
    if (view.op == DT_SYM_MUL && dt__sym_is_symbol(kz->env, view.args[k], &symbol))
      extent = dt__symbol_extent(kz->env, symbol);
    if (extent.id)
      bound_product(kz, view, k, extent);
    else
      kz_bound_products(kz, view.args[k]);
  }
}

static char *copy_text(const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = malloc(n);
  return copy ? memcpy(copy, text, n) : NULL;
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

verdict_t kz_prove(kz_t *kz, Z3_ast claim, char **out_model) {
  double begin = seconds_now();
  Z3_solver solver = Z3_mk_simple_solver(kz->z3);
  Z3_solver_inc_ref(kz->z3, solver);
  Z3_params params = Z3_mk_params(kz->z3);
  Z3_params_inc_ref(kz->z3, params);
  Z3_params_set_uint(kz->z3, params, Z3_mk_string_symbol(kz->z3, "timeout"), kz->limit_ms);
  Z3_solver_set_params(kz->z3, solver, params);
  for (uint32_t k = 0; k < kz->givens.len; k++)
    Z3_solver_assert(kz->z3, solver, kz->givens.items[k]);
  Z3_solver_assert(kz->z3, solver, Z3_mk_not(kz->z3, claim));
  Z3_lbool answer = Z3_solver_check(kz->z3, solver);
  if (out_model && answer == Z3_L_TRUE)
    *out_model = copy_text(Z3_model_to_string(kz->z3, Z3_solver_get_model(kz->z3, solver)));
  else if (out_model && answer == Z3_L_UNDEF)
    *out_model = copy_text(Z3_solver_get_reason_unknown(kz->z3, solver));
  Z3_params_dec_ref(kz->z3, params);
  Z3_solver_dec_ref(kz->z3, solver);
  kz->seconds += seconds_now() - begin;
  return answer == Z3_L_FALSE ? PROVED : answer == Z3_L_TRUE ? REFUTED : UNKNOWN;
}

uint32_t kz_queries(const kz_t *kz) { return kz->query; }
double kz_seconds(const kz_t *kz) { return kz->seconds; }

// SPDX-License-Identifier: Apache-2.0
// The environment: its memory, its symbols, cloning, freezing, and its first failure.
#include "symshape/apply.h"
#include "symshape/sym_private.h"

#include <stdio.h>
#include <string.h>

#define FIRST_TABLE 256u

static const char *const symbol_letters = "snuidpc"; // ORDER(dt_symbol_kind_t)
_Static_assert(DT_SYMBOL_SIZE == 0 && DT_SYMBOL_PARAMETER == 6, "ORDER(dt_symbol_kind_t)");

dt_status_t dt__symenv_create(dt_symenv_t **out) {
  *out = NULL;
  dt_symenv_t *env = dt__calloc(1, sizeof *env);
  if (!env)
    return DT_NO_MEMORY();
  env->epoch = 1;
  env->table_cap = FIRST_TABLE;
  env->table = dt__calloc(FIRST_TABLE, sizeof *env->table);
  env->cache = dt__calloc(SYM_CACHE, sizeof *env->cache);
  if (!env->table || !env->cache ||
      !dt__grow((void **)&env->nodes, &env->cap_nodes, 64, sizeof *env->nodes)) {
    dt__symenv_destroy(env);
    return DT_NO_MEMORY();
  }
  memset(env->nodes, 0, sizeof *env->nodes);
  env->n_nodes = 1;
  *out = env;
  return NULL;
}

void dt__symenv_destroy(dt_symenv_t *env) {
  if (!env)
    return;
  for (uint32_t k = 0; k < env->n_symbols; k++)
    dt__free(env->symbols[k].name);
  dt__free(env->nodes);
  dt__free(env->args);
  dt__free(env->table);
  dt__free(env->symbols);
  dt__free(env->facts);
  dt__free(env->uses);
  dt__free(env->pairs);
  dt__free(env->whys);
  dt__free(env->dirty);
  dt__free(env->cache);
  dt__free(env);
}

static void *copy(const void *items, uint32_t n, size_t item, bool *ok) {
  if (!n)
    return NULL;
  void *made = dt__alloc(n * item);
  if (made)
    memcpy(made, items, n * item);
  else
    *ok = false;
  return made;
}

dt_status_t dt__symenv_clone(const dt_symenv_t *env, dt_symenv_t **out) {
  *out = NULL;
  dt_symenv_t *made = dt__alloc(sizeof *made);
  if (!made)
    return DT_NO_MEMORY();
  *made = *env;
  bool ok = true;
  made->nodes = copy(env->nodes, env->n_nodes, sizeof *env->nodes, &ok);
  made->cap_nodes = env->n_nodes;
  made->args = copy(env->args, env->n_args, sizeof *env->args, &ok);
  made->cap_args = env->n_args;
  made->table = copy(env->table, env->table_cap, sizeof *env->table, &ok);
  made->facts = copy(env->facts, env->n_facts, sizeof *env->facts, &ok);
  made->cap_facts = env->n_facts;
  made->uses = copy(env->uses, env->n_uses, sizeof *env->uses, &ok);
  made->cap_uses = env->n_uses;
  made->pairs = copy(env->pairs, env->cap_pairs, sizeof *env->pairs, &ok);
  made->whys = copy(env->whys, env->n_whys, sizeof *env->whys, &ok);
  made->cap_whys = env->n_whys;
  made->dirty = copy(env->dirty, env->n_dirty, sizeof *env->dirty, &ok);
  made->cap_dirty = env->n_dirty;
  made->cache = copy(env->cache, SYM_CACHE, sizeof *env->cache, &ok);
  made->symbols = copy(env->symbols, env->n_symbols, sizeof *env->symbols, &ok);
  made->cap_symbols = env->n_symbols;
  made->n_symbols = 0;
  made->assume = NULL;
  made->assume_user = NULL;
  for (uint32_t k = 0; made->symbols && k < env->n_symbols; k++, made->n_symbols++) {
    made->symbols[k].name = dt__strdup(env->symbols[k].name);
    ok &= made->symbols[k].name != NULL;
  }
  if (!ok) {
    dt__symenv_destroy(made);
    return DT_NO_MEMORY();
  }
  *out = made;
  return NULL;
}

size_t dt__symenv_bytes(const dt_symenv_t *env) {
  return sizeof *env + env->cap_nodes * sizeof *env->nodes + env->cap_args * sizeof *env->args +
         env->table_cap * sizeof *env->table + env->cap_symbols * sizeof *env->symbols +
         env->cap_facts * sizeof *env->facts + env->cap_uses * sizeof *env->uses +
         env->cap_pairs * sizeof *env->pairs + env->cap_whys * sizeof *env->whys +
         env->cap_dirty * sizeof *env->dirty + SYM_CACHE * sizeof *env->cache;
}

dt_status_t dt__symenv_status(const dt_symenv_t *env) {
  if (env->fail_code == DT_OK)
    return NULL;
  return DT_FAIL(env->fail_code, "symbolic sizes: %s", env->fail_text);
}

void dt__symenv_on_assume(dt_symenv_t *env, dt_assume_fn_t fn, void *user) {
  env->assume = fn;
  env->assume_user = user;
}

void dt__symenv_freeze(dt_symenv_t *env) { env->frozen = true; }
bool dt__symenv_is_frozen(const dt_symenv_t *env) { return env->frozen; }

// ---- Symbols -----------------------------------------------------------------------------------
static dt_sym_t new_symbol(dt_symenv_t *env, const dt_symbol_t *given, dt_range_t range,
                           const char *name) {
  if (!dt__grow((void **)&env->symbols, &env->cap_symbols, env->n_symbols + 1,
                sizeof *env->symbols))
    return dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
  char *text = dt__strdup(name ? name : "");
  uint32_t literal = range.lo == range.hi ? dt__literal(env, range.lo) : 0;
  uint32_t id = text ? dt__intern(env, DT_SYM_SYMBOL, NULL, 0, (int64_t)env->n_symbols) : 0;
  if (!id || (range.lo == range.hi && !literal)) {
    dt__free(text);
    return dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
  }
  if (given->kind == DT_SYMBOL_UNBACKED)
    env->nodes[id].late = env->n_symbols + 1;
  else if (given->kind == DT_SYMBOL_LOOP)
    env->nodes[id].late = env->nodes[given->extent].late;
  env->nodes[id].lo = range.lo;
  env->nodes[id].hi = range.hi;
  env->nodes[id].rep = literal;
  dt_symbol_t *symbol = &env->symbols[env->n_symbols++];
  *symbol = *given;
  symbol->node = id;
  symbol->modulus = 1;
  symbol->made = range;
  symbol->residue = 0;
  symbol->name = text;
  return SYM(id);
}

dt_sym_t dt__sym_new(dt_symenv_t *env, dt_symbol_kind_t kind, dt_range_t range, const int64_t *hint,
                     const char *name) {
  if (kind == DT_SYMBOL_LOOP)
    return dt__sym_fail(env, DT_E_ARGUMENT, "a loop symbol needs an extent");
  if (env->frozen && kind != DT_SYMBOL_DATA && kind != DT_SYMBOL_SLICE &&
      kind != DT_SYMBOL_PARAMETER)
    return dt__sym_fail(env, DT_E_STATE, "a new size after the symbols were frozen");
  if (kind == DT_SYMBOL_SIZE) {
    range.lo = range.lo < 0 ? 0 : range.lo;
    range.hi = range.hi >= DT_SIZE_LIMIT ? DT_SIZE_LIMIT - 1 : range.hi;
  }
  if (range.lo > range.hi)
    return dt__sym_fail(env, DT_E_ARGUMENT, "a symbol whose range is empty");
  dt_symbol_t symbol = {.kind = kind, .has_hint = hint != NULL, .hint = hint ? *hint : 0};
  return new_symbol(env, &symbol, range, name);
}

dt_sym_t dt__sym_new_loop(dt_symenv_t *env, dt_sym_t extent) {
  extent = dt__sym_simplify(env, extent);
  if (!extent.id)
    return DT_SYM_NONE_ID;
  dt_range_t range = dt__range_of(env, extent.id);
  int64_t hi = range.hi == INT64_MAX ? INT64_MAX - 1 : range.hi < 1 ? 0 : range.hi - 1;
  dt_symbol_t symbol = {.kind = DT_SYMBOL_LOOP, .extent = extent.id};
  return new_symbol(env, &symbol, (dt_range_t){0, hi}, "");
}

dt_sym_t dt__sym_new_part(dt_symenv_t *env, uint32_t symbol, int64_t divisor) {
  if (symbol >= env->n_symbols || env->symbols[symbol].kind != DT_SYMBOL_SIZE || divisor < 2)
    return dt__sym_fail(env, DT_E_ARGUMENT, "only sizes have parts");
  const dt_symbol_t *of = &env->symbols[symbol];
  if (of->modulus % divisor || of->residue % divisor)
    return dt__sym_fail(env, DT_E_ARGUMENT, "a size is not known to be a multiple");
  const dt_sym_node_t *node = &env->nodes[of->node];
  dt_range_t range = {dt__floordiv_i64(node->lo + divisor - 1, divisor), node->hi / divisor};
  dt_symbol_t part = {.kind = DT_SYMBOL_SIZE,
                      .has_hint = of->has_hint,
                      .hint = of->hint / divisor,
                      .whole = symbol + 1,
                      .divisor = divisor};
  dt_sym_t whole = SYM(of->node), made = new_symbol(env, &part, range, of->name);
  dt_status_t status = dt__sym_learn(
      env, dt__sym_eq(env, whole, dt__sym_mul(env, made, dt__sym_const(env, divisor))));
  if (status) {
    dt_status_free(status);
    return dt__sym_fail(env, DT_E_NO_MEMORY, "out of memory");
  }
  return made;
}

uint32_t dt__symenv_symbol_count(const dt_symenv_t *env) { return env->n_symbols; }

dt_symbol_info_t dt__symbol_info(const dt_symenv_t *env, uint32_t symbol) {
  if (symbol >= env->n_symbols)
    return (dt_symbol_info_t){.range = {0, -1}, .name = ""};
  const dt_symbol_t *s = &env->symbols[symbol];
  const dt_sym_node_t *node = &env->nodes[s->node];
  return (dt_symbol_info_t){.kind = s->kind,
                            .range = {node->lo, node->hi},
                            .made = s->made,
                            .has_hint = s->has_hint,
                            .hint = s->hint,
                            .modulus = s->modulus,
                            .residue = s->residue,
                            .divisor = s->divisor,
                            .whole = s->whole ? s->whole - 1 : symbol,
                            .name = s->name};
}

dt_sym_t dt__symbol_sym(const dt_symenv_t *env, uint32_t symbol) {
  return symbol < env->n_symbols ? SYM(env->symbols[symbol].node) : DT_SYM_NONE_ID;
}

bool dt__symbol_call(dt_symenv_t *env, uint32_t symbol, const char *name) {
  char *text = symbol < env->n_symbols ? dt__strdup(name) : NULL;
  if (!text)
    return false;
  dt__free(env->symbols[symbol].name);
  env->symbols[symbol].name = text;
  return true;
}

dt_sym_t dt__symbol_extent(const dt_symenv_t *env, uint32_t symbol) {
  return symbol < env->n_symbols ? SYM(env->symbols[symbol].extent) : DT_SYM_NONE_ID;
}

void dt__symbol_letter(const dt_symenv_t *env, uint32_t symbol, char out[16]) {
  snprintf(out, 16, "%c%u", symbol_letters[env->symbols[symbol].kind], symbol);
}

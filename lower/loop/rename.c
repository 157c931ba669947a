// SPDX-License-Identifier: Apache-2.0
// The same expressions in another environment, under symbols numbered in order of first use.
#include "lower/loop/loop_private.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <string.h>

#define FIRST_SLOTS 64

dt_status_t dt__rename_init(dt_rename_t *rename, const dt_symenv_t *from) {
  *rename = (dt_rename_t){.from = from, .n_slots = FIRST_SLOTS};
  rename->slots = dt__calloc(FIRST_SLOTS, sizeof(*rename->slots));
  if (!rename->slots)
    return DT_NO_MEMORY();
  dt_status_t status = dt__symenv_create(&rename->to);
  if (status)
    dt__rename_fini(rename);
  return status;
}

void dt__rename_fini(dt_rename_t *rename) {
  dt__free(rename->made);
  dt__free(rename->slots);
  dt__symenv_destroy(rename->to);
  memset(rename, 0, sizeof(*rename));
}

// ---- Counterparts ---------------------------------------------------------------------------------
// The place of `symbol` in the table, or the free one where it would stand.
static uint32_t slot_of(const dt_rename_t *rename, uint32_t symbol) {
  uint32_t at = (uint32_t)dt__hash_mix(symbol, 0) & (rename->n_slots - 1);
  while (rename->slots[at] && rename->made[rename->slots[at] - 1].symbol != symbol)
    at = (at + 1) & (rename->n_slots - 1);
  return at;
}

dt_sym_t dt__rename_find(const dt_rename_t *rename, uint32_t symbol) {
  uint32_t at = rename->slots[slot_of(rename, symbol)];
  return at ? rename->made[at - 1].made : DT_SYM_NONE_ID;
}

// At most half of the table is in use.
static bool grow(dt_rename_t *rename) {
  uint32_t cap = rename->n_slots; // of `made`: half of the new table
  dt_renamed_t *made = dt__realloc(rename->made, cap * sizeof(*made));
  if (!made)
    return false;
  rename->made = made;
  uint32_t *slots = dt__calloc((size_t)cap * 2, sizeof(*slots));
  if (!slots)
    return false;
  dt__free(rename->slots);
  rename->slots = slots;
  rename->n_slots = cap * 2;
  rename->cap_made = cap;
  for (uint32_t k = 0; k < rename->n_made; k++)
    rename->slots[slot_of(rename, made[k].symbol)] = k + 1;
  return true;
}

void dt__rename_symbol(dt_rename_t *rename, uint32_t symbol) {
  if (symbol >= dt__symenv_symbol_count(rename->from) || dt__rename_find(rename, symbol).id)
    return;
  dt_symbol_info_t info = dt__symbol_info(rename->from, symbol);
  dt_sym_t made;
  if (info.kind == DT_SYMBOL_LOOP)
    made = dt__sym_new_loop(rename->to,
                            dt__rename_expr(rename, dt__symbol_extent(rename->from, symbol)));
  else
    made = dt__sym_new(rename->to, info.kind, info.range, info.has_hint ? &info.hint : NULL,
                       info.name);
  bool room = rename->n_made < rename->cap_made || grow(rename);
  if (made.id == 0 || !room) {
    rename->failed = true;
    rename->no_memory |= !room;
    return;
  }
  rename->made[rename->n_made++] = (dt_renamed_t){.symbol = symbol, .made = made};
  rename->slots[slot_of(rename, symbol)] = rename->n_made;
}

// ---- Building by operation ------------------------------------------------------------------------
typedef dt_sym_t (*build2_fn_t)(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);

// Operations of two arguments, or of any number where they are associative.
static const build2_fn_t builders[DT_SYM_OP_COUNT] = {
    [DT_SYM_ADD] = dt__sym_add, [DT_SYM_MUL] = dt__sym_mul, [DT_SYM_FLOORDIV] = dt__sym_floordiv,
    [DT_SYM_MOD] = dt__sym_mod, [DT_SYM_MIN] = dt__sym_min, [DT_SYM_MAX] = dt__sym_max,
    [DT_SYM_EQ] = dt__sym_eq,   [DT_SYM_NE] = dt__sym_ne,   [DT_SYM_LT] = dt__sym_lt,
    [DT_SYM_LE] = dt__sym_le,   [DT_SYM_AND] = dt__sym_and, [DT_SYM_OR] = dt__sym_or,
    [DT_SYM_SHL] = dt__sym_shl, [DT_SYM_SHR] = dt__sym_shr,
};

static dt_sym_t rename_expr(dt_rename_t *rename, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(rename->from, e);
  dt_symenv_t *to = rename->to;
  if (view.op == DT_SYM_CONST)
    return dt__sym_const(to, view.value);
  if (view.op == DT_SYM_SYMBOL) {
    dt__rename_symbol(rename, view.symbol);
    return dt__rename_find(rename, view.symbol);
  }
  if (view.n_args == 0)
    return DT_SYM_NONE_ID;
  dt_sym_t first = rename_expr(rename, view.args[0]);
  if (view.op == DT_SYM_NOT)
    return dt__sym_not(to, first);
  if (view.op == DT_SYM_SELECT) {
    dt_sym_t second = rename_expr(rename, view.args[1]);
    return dt__sym_select(to, first, second, rename_expr(rename, view.args[2]));
  }
  for (uint32_t k = 1; k < view.n_args && builders[view.op]; k++)
    first = builders[view.op](to, first, rename_expr(rename, view.args[k]));
  return first;
}

dt_sym_t dt__rename_expr(dt_rename_t *rename, dt_sym_t e) {
  dt_sym_t made = rename_expr(rename, e);
  rename->failed |= made.id == 0;
  return made;
}

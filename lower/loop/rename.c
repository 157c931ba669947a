// SPDX-License-Identifier: Apache-2.0
// The same expressions in another environment, under symbols numbered in order of first use.
#include "lower/loop/loop_private.h"
#include "runtime/base/status.h"

#include <string.h>

dt_status_t dt__rename_init(dt_rename_t *rename, const dt_symenv_t *from) {
  memset(rename, 0, sizeof(*rename));
  rename->from = from;
  rename->n_map = dt__symenv_symbol_count(from);
  rename->map = dt__calloc(rename->n_map ? rename->n_map : 1, sizeof(*rename->map));
  if (!rename->map)
    return DT_NO_MEMORY();
  dt_status_t status = dt__symenv_create(&rename->to);
  if (status)
    dt__rename_fini(rename);
  return status;
}

void dt__rename_fini(dt_rename_t *rename) {
  dt__free(rename->map);
  dt__symenv_destroy(rename->to);
  memset(rename, 0, sizeof(*rename));
}

void dt__rename_symbol(dt_rename_t *rename, uint32_t symbol) {
  if (symbol >= rename->n_map || rename->map[symbol].id)
    return;
  dt_symbol_info_t info = dt__symbol_info(rename->from, symbol);
  dt_sym_t made;
  if (info.kind == DT_SYMBOL_LOOP)
    made = dt__sym_new_loop(rename->to,
                            dt__rename_expr(rename, dt__symbol_extent(rename->from, symbol)));
  else
    made = dt__sym_new(rename->to, info.kind, info.range, info.has_hint ? &info.hint : NULL,
                       info.name);
  rename->failed |= made.id == 0;
  rename->map[symbol] = made;
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
    return view.symbol < rename->n_map ? rename->map[view.symbol] : DT_SYM_NONE_ID;
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

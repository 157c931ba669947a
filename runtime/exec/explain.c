// SPDX-License-Identifier: Apache-2.0
// The facts of an explanation: whether a variant accepts arguments, how it sees the dims of its
// inputs, and what fixed them. Reads what the function holds; traces and compiles nothing.
#include "runtime/exec/explain.h"

#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

#define MOST_FACTS 64u
#define MOST_EQUALS 16u // of one dim, in an explanation

// ---- Facts --------------------------------------------------------------------------------------
static const char *or_empty(const char *text) { return text ? text : ""; }

// "s0 == 4 (sym_int, model.c:41)"
static void put_fact(const dt_symenv_t *env, const dt_sym_fact_t *fact, dt_text_t *out) {
  const dt_origin_t *origin = &fact->origin;
  dt__sym_print(env, fact->cond, out);
  if (!origin->op || !origin->op[0])
    dt__text_put(out, " (declared)");
  else if (!origin->file || !origin->file[0])
    dt__text_printf(out, " (%s)", origin->op);
  else
    dt__text_printf(out, " (%s, %s:%d)", origin->op, origin->file, origin->line);
}

// The facts of `symbol`, at most `cap` of them.
static uint32_t own_facts(const dt_symenv_t *env, uint32_t symbol, dt_sym_fact_t *out,
                          uint32_t cap) {
  uint32_t n = dt__symbol_facts(env, symbol, out, cap);
  return n < cap ? n : cap;
}

// Whether the fact says that `symbol` equals another one, and which.
static bool equates(const dt_symenv_t *env, const dt_sym_fact_t *fact, uint32_t symbol,
                    uint32_t *other) {
  dt_sym_view_t view = dt__sym_view(env, fact->cond);
  uint32_t a = 0, b = 0;
  if (view.op != DT_SYM_EQ || !dt__sym_is_symbol(env, view.args[0], &a) ||
      !dt__sym_is_symbol(env, view.args[1], &b) || (a != symbol && b != symbol))
    return false;
  *other = a == symbol ? b : a;
  return true;
}

// The symbols that are `symbol` by some chain of equalities, itself first.
static uint32_t equals_of(const dt_symenv_t *env, uint32_t symbol, uint32_t *out, uint32_t cap) {
  dt_sym_fact_t facts[MOST_FACTS];
  uint32_t n = 1;
  out[0] = symbol;
  for (uint32_t at = 0; at < n; at++) {
    for (uint32_t k = 0; k < dt__symenv_symbol_count(env); k++) {
      uint32_t n_facts = own_facts(env, k, facts, MOST_FACTS), other = 0;
      for (uint32_t i = 0; i < n_facts; i++) {
        bool fresh = equates(env, &facts[i], out[at], &other);
        for (uint32_t j = 0; fresh && j < n; j++)
          fresh = out[j] != other;
        if (fresh && n < cap)
          out[n++] = other;
      }
    }
  }
  return n;
}

// The facts that pinned `symbol`: its own, and those of what it is equal to.
static uint32_t facts_of(const dt_symenv_t *env, uint32_t symbol, dt_sym_fact_t *out,
                         uint32_t cap) {
  uint32_t symbols[MOST_EQUALS], count = 0;
  uint32_t n = equals_of(env, symbol, symbols, MOST_EQUALS);
  for (uint32_t k = 0; k < n; k++)
    count += own_facts(env, symbols[k], out + count, cap - count);
  return count;
}

// Appends `text` unless it is `same` or stands there already; false without memory.
static bool add_text(dt_arena_t *arena, const char *text, const char *same, const char **items,
                     uint32_t *n) {
  bool known = strcmp(text, same) == 0;
  for (uint32_t k = 0; k < *n && !known; k++)
    known = strcmp(items[k], text) == 0;
  if (known)
    return true;
  items[*n] = dt__arena_strdup(arena, text);
  return items[(*n)++] != NULL;
}

// What pinned the dims that the failed guard reads, less the guard itself.
static bool take_facts(dt_arena_t *arena, const dt_symenv_t *env, const dt_guard_failure_t *failure,
                       dt_miss_info_t *out) {
  dt_sym_fact_t facts[MOST_FACTS];
  const char **items = DT_ARENA_ARRAY(arena, const char *, MOST_FACTS);
  const dt_guard_told_t *told = &failure->told;
  char same[512];
  (void)snprintf(same, sizeof(same), told->file[0] ? "%s (%s, %s:%d)" : "%s (%s)", told->guard,
                 told->op, told->file, told->line);
  bool good = items != NULL;
  for (uint32_t k = 0; good && k < failure->n_symbols; k++) {
    uint32_t n = facts_of(env, failure->symbols[k], facts, MOST_FACTS);
    for (uint32_t i = 0; good && i < n && out->n_facts < MOST_FACTS; i++) {
      dt_text_t text;
      dt__text_init(&text);
      put_fact(env, &facts[i], &text);
      good = !text.failed && add_text(arena, dt__text_str(&text), same, items, &out->n_facts);
      dt__text_fini(&text);
    }
  }
  out->facts = items;
  return good;
}

// ---- Misses -------------------------------------------------------------------------------------
static const dt_guard_info_t *copy_guard(dt_arena_t *arena, const char *guard, const char *op,
                                         const char *file, int line) {
  dt_guard_info_t *out = DT_ARENA_NEW(arena, dt_guard_info_t);
  if (!out)
    return NULL;
  *out = (dt_guard_info_t){.guard = dt__arena_strdup(arena, guard),
                           .op = dt__arena_strdup(arena, op),
                           .file = dt__arena_strdup(arena, file),
                           .line = line};
  return out->guard && out->op && out->file ? out : NULL;
}

static bool take_failure(dt_arena_t *arena, const dt_guard_failure_t *failure,
                         dt_miss_info_t *out) {
  const dt_guard_told_t *told = &failure->told;
  out->guard = copy_guard(arena, told->guard, told->op, told->file, told->line);
  out->actual = dt__arena_strdup(arena, dt__text_str(&failure->actual));
  out->remedy = dt__arena_strdup(arena, dt__text_str(&failure->remedy));
  return out->guard && out->actual && out->remedy && !failure->actual.failed &&
         !failure->remedy.failed;
}

static const dt_guard_info_t no_guard = {.guard = "", .op = "", .file = ""};

const dt_miss_info_t *dt__miss_make(dt_arena_t *arena, const dt_variant_t *variant,
                                    const dt_guard_args_t *args) {
  dt_miss_info_t *out = DT_ARENA_NEW(arena, dt_miss_info_t);
  if (!out)
    return NULL;
  *out = (dt_miss_info_t){.variant = variant->number, .guard = &no_guard};
  out->actual = out->remedy = "";
  dt_guard_failure_t failure;
  out->hit = !dt__guards_failure(variant->guards, args, &failure);
  bool good = out->hit || (take_failure(arena, &failure, out) &&
                           take_facts(arena, variant->traced->env, &failure, out));
  dt__guard_failure_fini(&failure);
  return good ? out : NULL;
}

const dt_miss_info_t *dt__miss_nearest(dt_arena_t *arena, const dt_variant_list_t *list,
                                       const dt_guard_args_t *args) {
  const dt_variant_t *best = NULL;
  uint32_t most = 0;
  for (uint32_t i = 0; i < list->n; i++) {
    dt_guard_failure_t failure;
    bool failed = dt__guards_failure(list->items[i]->guards, args, &failure);
    uint32_t passed = failed ? failure.record : UINT32_MAX;
    dt__guard_failure_fini(&failure);
    if (best && passed < most)
      continue;
    best = list->items[i];
    most = passed;
  }
  return best ? dt__miss_make(arena, best, args) : NULL;
}

const dt_miss_info_t *dt__miss_copy(dt_arena_t *arena, const dt_miss_info_t *miss) {
  dt_miss_info_t *out = DT_ARENA_NEW(arena, dt_miss_info_t);
  const char **facts = DT_ARENA_ARRAY(arena, const char *, miss->n_facts);
  if (!out || !facts)
    return NULL;
  *out = *miss;
  out->guard =
      copy_guard(arena, miss->guard->guard, miss->guard->op, miss->guard->file, miss->guard->line);
  out->actual = dt__arena_strdup(arena, miss->actual);
  out->remedy = dt__arena_strdup(arena, miss->remedy);
  out->facts = facts;
  bool good = out->guard && out->actual && out->remedy;
  for (uint32_t k = 0; good && k < miss->n_facts; k++) {
    facts[k] = dt__arena_strdup(arena, miss->facts[k]);
    good = facts[k] != NULL;
  }
  return good ? out : NULL;
}

void dt__miss_put(const dt_miss_info_t *miss, dt_text_t *out) {
  if (miss->hit) {
    dt__text_put(out, "the guards hold when walked, but not when run");
    return;
  }
  dt__text_printf(out, "expected %s, got %s (%s", miss->guard->guard, miss->actual,
                  miss->guard->op);
  if (miss->guard->file[0])
    dt__text_printf(out, ", %s:%d", miss->guard->file, miss->guard->line);
  dt__text_put(out, ")");
}

// ---- Dims ---------------------------------------------------------------------------------------
typedef struct dims_t {
  dt_arena_t *arena;
  const dt_function_t *function;
  const dt_graph_t *graph;
  dt_symenv_t *env; // a clone: simplifying adds expressions
} dims_t;

static const char *dim_name(const dims_t *x, uint32_t input, uint32_t dim) {
  const char *name = x->function->inputs[input].name;
  uint32_t position = dt__input_position(x->function, input);
  if (x->graph->inputs.items[input].is_int)
    return name && name[0] ? dt__arena_strdup(x->arena, name)
                           : dt__arena_printf(x->arena, "argument %u", position);
  if (name && name[0])
    return dt__arena_printf(x->arena, "%s.size(%u)", name, dim);
  return dt__arena_printf(x->arena, "argument %u.size(%u)", position, dim);
}

static const dt_dim_decl_t *declared(const dims_t *x, uint32_t input, uint32_t dim) {
  static const dt_dim_decl_t any = {0};
  const dt_dim_decl_t *dims = x->function->inputs[input].dims;
  return dims && x->function->inputs[input].rank ? &dims[dim] : &any;
}

// The facts of the symbol, and where `all` is set of what it is equal to, joined; or a word for
// none.
static const char *why_facts(const dims_t *x, uint32_t symbol, bool all) {
  dt_sym_fact_t facts[MOST_FACTS];
  uint32_t n = (all ? facts_of : own_facts)(x->env, symbol, facts, MOST_FACTS);
  dt_text_t text;
  dt__text_init(&text);
  for (uint32_t k = 0; k < n; k++) {
    dt__text_put(&text, k ? ", " : "");
    put_fact(x->env, &facts[k], &text);
  }
  const char *out = dt__arena_strdup(x->arena, text.len ? dt__text_str(&text) : "a guard");
  bool failed = text.failed;
  dt__text_fini(&text);
  return failed ? NULL : out;
}

// "any size", "1 <= s0 <= 512". Bounds that are near what every size has are no news.
static const char *why_range(const dims_t *x, uint32_t symbol, const char *size) {
  dt_range_t range = dt__symbol_info(x->env, symbol).range;
  bool lo = range.lo > 0, hi = range.hi < DT_SIZE_LIMIT / 1024;
  if (lo && hi)
    return dt__arena_printf(x->arena, "%lld <= %s <= %lld", (long long)range.lo, size,
                            (long long)range.hi);
  if (lo)
    return dt__arena_printf(x->arena, "%lld <= %s", (long long)range.lo, size);
  if (hi)
    return dt__arena_printf(x->arena, "%s <= %lld", size, (long long)range.hi);
  return dt__symbol_info(x->env, symbol).kind == DT_SYMBOL_INT ? "any value" : "any size";
}

// The first dim of all inputs whose size is exactly `e`.
static void first_with(const dims_t *x, dt_sym_t e, uint32_t *input, uint32_t *dim) {
  for (uint32_t k = 0; k < x->graph->inputs.len; k++) {
    for (uint32_t d = 0; d < x->graph->inputs.items[k].rank; d++) {
      if (x->graph->inputs.items[k].sizes[d].id != e.id)
        continue;
      *input = k;
      *dim = d;
      return;
    }
  }
}

static bool fill_symbol(const dims_t *x, uint32_t symbol, dt_sym_t e, dt_dim_info_t *out) {
  dt_sym_t now = dt__sym_simplify(x->env, e);
  if (dt__sym_is_const(x->env, now, NULL)) {
    out->state = DT_DIM_SPECIALISED;
    out->why = why_facts(x, symbol, true);
    return out->why != NULL;
  }
  uint32_t input = out->input, dim = out->dim;
  first_with(x, e, &input, &dim);
  if (input != out->input || dim != out->dim) {
    const char *name = declared(x, out->input, out->dim)->name;
    out->state = DT_DIM_EQUAL;
    out->why = dt__arena_printf(x->arena, "declared as '%s', like %s", or_empty(name),
                                or_empty(dim_name(x, input, dim)));
  } else if (now.id != e.id) {
    out->state = dt__sym_is_symbol(x->env, now, NULL) ? DT_DIM_EQUAL : DT_DIM_DERIVED;
    out->why = why_facts(x, symbol, false);
  } else {
    out->state = DT_DIM_DYNAMIC;
    out->why = why_range(x, symbol, out->size);
  }
  return out->why != NULL;
}

static bool fill_dim(const dims_t *x, dt_dim_info_t *out) {
  const dt_graph_input_t *from = &x->graph->inputs.items[out->input];
  dt_sym_t e = from->is_int ? from->value : from->sizes[out->dim];
  const dt_dim_decl_t *decl = declared(x, out->input, out->dim);
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(x->env, dt__sym_simplify(x->env, e), &text);
  out->name = dim_name(x, out->input, out->dim);
  out->size = dt__arena_strdup(x->arena, dt__text_str(&text));
  bool good = out->name && out->size && !text.failed;
  dt__text_fini(&text);
  uint32_t symbol = 0;
  if (good && dt__sym_is_symbol(x->env, e, &symbol))
    return fill_symbol(x, symbol, e, out);
  out->state = dt__sym_is_const(x->env, e, NULL) ? DT_DIM_STATIC : DT_DIM_DERIVED;
  if (out->state == DT_DIM_DERIVED)
    out->why = "declared by another dim";
  else
    out->why = decl->is_static                ? "declared static"
               : decl->mark == DT_MARK_STATIC ? "marked static: its number was compiled in"
                                              : "its number was compiled in";
  return good;
}

// An integer argument is one number, a tensor as many as it has dims.
static uint32_t n_parts(const dt_graph_input_t *input) { return input->is_int ? 1 : input->rank; }

bool dt__dims_make(dt_arena_t *arena, const dt_function_t *function, const dt_variant_t *variant,
                   dt_variant_info_t *out) {
  dims_t x = {.arena = arena, .function = function, .graph = variant->traced->graph};
  uint32_t most = 0;
  for (uint32_t k = 0; k < x.graph->inputs.len; k++)
    most += n_parts(&x.graph->inputs.items[k]);
  dt_status_t status = dt__symenv_clone(variant->traced->env, &x.env);
  const dt_dim_info_t **dims = DT_ARENA_ARRAY(arena, const dt_dim_info_t *, most);
  bool good = !status && dims;
  dt_status_free(status);
  out->n_dims = 0;
  out->dims = dims;
  for (uint32_t k = 0; good && k < x.graph->inputs.len; k++) {
    for (uint32_t d = 0; good && d < n_parts(&x.graph->inputs.items[k]); d++) {
      dt_dim_info_t *dim = DT_ARENA_NEW(arena, dt_dim_info_t);
      good = dim != NULL;
      if (!good)
        break;
      dim->input = k;
      dim->dim = d;
      good = fill_dim(&x, dim);
      dims[out->n_dims++] = dim;
    }
  }
  dt__symenv_destroy(x.env);
  return good;
}

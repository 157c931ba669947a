// SPDX-License-Identifier: Apache-2.0
// What a program does: on numbers, on a trace, and as text.
#include "test/conform/guards/size_program.h"

#include <string.h>

// ---- The model ------------------------------------------------------------------------------------
typedef struct model_t {
  const sp_program_t *p;
  const int32_t *sizes;
  sp_result_t *out;
} model_t;

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

// False: a division by 0.
static bool value_of(const model_t *m, const sp_step_t *step, uint8_t at, int64_t *out) {
  const sp_expr_t *e = &step->exprs[at];
  int64_t a = 0, b = 0;
  if (e->op == SP_CONST) {
    *out = e->value;
    return true;
  }
  if (e->op == SP_DIM || e->op == SP_HERE) {
    *out = e->op == SP_DIM ? m->sizes[e->a * SP_RANK + e->b] : m->out->sizes[e->a];
    return true;
  }
  if (!value_of(m, step, e->a, &a) || !value_of(m, step, e->b, &b))
    return false;
  if ((e->op == SP_DIV || e->op == SP_MOD) && b == 0)
    return false;
  const int64_t values[SP_OP_COUNT] = {
      [SP_ADD] = a + b,
      [SP_SUB] = a - b,
      [SP_MUL] = a * b,
      [SP_DIV] = e->op == SP_DIV ? floor_div(a, b) : 0,
      [SP_MOD] = e->op == SP_MOD ? a - floor_div(a, b) * b : 0,
      [SP_MIN] = a < b ? a : b,
      [SP_MAX] = a > b ? a : b,
      [SP_EQ] = a == b,
      [SP_LT] = a < b,
      [SP_LE] = a <= b,
  };
  *out = values[e->op];
  return true;
}

// Every expression of a step is made, so each must have a value.
static bool all_have_values(const model_t *m, const sp_step_t *step) {
  int64_t value;
  for (uint8_t k = 0; k < step->n_exprs; k++)
    if (!value_of(m, step, k, &value))
      return false;
  return true;
}

static bool broadcast(const model_t *m, uint32_t input) {
  sp_result_t *v = m->out;
  uint32_t rank = m->p->ranks[input], most = rank > v->rank ? rank : v->rank;
  int64_t sizes[SP_MOST_RANK];
  for (uint32_t d = 0; d < most; d++) {
    int64_t a = d + v->rank >= most ? v->sizes[d + v->rank - most] : 1;
    int64_t b = d + rank >= most ? m->sizes[input * SP_RANK + d + rank - most] : 1;
    if (a != b && a != 1 && b != 1)
      return false;
    if (d + v->rank >= most && d + rank >= most)
      v->pairs[v->n_pairs++] = a != b ? SP_PAIR_REPEATED : a == 1 ? SP_PAIR_ONES : SP_PAIR_EQUAL;
    sizes[d] = a == 1 ? b : a;
  }
  v->rank = most;
  memcpy(v->sizes, sizes, most * sizeof(*sizes));
  return true;
}

static int64_t count(const sp_result_t *v) {
  int64_t n = 1;
  for (uint32_t d = 0; d < v->rank; d++)
    n *= v->sizes[d];
  return n;
}

static bool reshape(const model_t *m, const sp_step_t *step) {
  sp_result_t *v = m->out;
  sp_result_t made = {.rank = v->rank};
  if (step->kind == SP_SPLIT) {
    made.rank++;
    for (uint32_t d = 0; d < v->rank; d++)
      made.sizes[d < step->k ? d : d + 1] = v->sizes[d];
    made.sizes[step->k] = v->sizes[step->k] / step->number;
    made.sizes[step->k + 1] = step->number;
  } else if (step->kind == SP_OPEN) {
    made.rank = 2;
    made.sizes[0] = count(v) / step->number;
    made.sizes[1] = step->number;
  } else {
    made.rank = m->p->ranks[step->k];
    for (uint32_t d = 0; d < made.rank; d++)
      made.sizes[d] = m->sizes[step->k * SP_RANK + d];
  }
  if (count(&made) != count(v))
    return false;
  v->rank = made.rank;
  memcpy(v->sizes, made.sizes, sizeof(made.sizes));
  return true;
}

static bool slice(const model_t *m, const sp_step_t *step) {
  int64_t start = 0, size = 0, *dim = &m->out->sizes[step->k];
  if (!value_of(m, step, step->e, &start) || !value_of(m, step, step->f, &size) || size < 0)
    return false;
  if (size > 0 && (start < 0 || start + size > *dim))
    return false;
  *dim = size;
  return true;
}

static bool join(const model_t *m, uint32_t input) {
  sp_result_t *v = m->out;
  for (uint32_t d = 0; d + 1 < v->rank; d++)
    if (v->sizes[d] != m->sizes[input * SP_RANK + d])
      return false;
  v->sizes[v->rank - 1] += m->sizes[input * SP_RANK + v->rank - 1];
  return true;
}

static bool model_step(const model_t *m, const sp_step_t *step) {
  int64_t value = 0;
  if (!all_have_values(m, step))
    return false;
  switch (step->kind) {
  case SP_BRANCH:
  case SP_INT:
    (void)value_of(m, step, step->e, &value);
    m->out->answers[m->out->n_answers++] = value;
    return true;
  case SP_CHECK:
    (void)value_of(m, step, step->e, &value);
    return value != 0;
  case SP_BROADCAST:
    return broadcast(m, step->k);
  case SP_SPLIT:
  case SP_OPEN:
  case SP_LIKE:
    return reshape(m, step);
  case SP_SLICE:
    return slice(m, step);
  case SP_SUM:
    m->out->sizes[step->k] = 1;
    return true;
  case SP_JOIN:
    return join(m, step->k);
  default:
    return true;
  }
}

static bool as_declared(const sp_program_t *p, const int32_t *sizes) {
  int32_t named[4] = {-1, -1, -1, -1};
  for (uint32_t k = 0; k < p->n_inputs; k++)
    for (uint32_t d = 0; d < p->ranks[k]; d++) {
      const sp_slot_t *slot = &p->slots[k * SP_RANK + d];
      int32_t size = sizes[k * SP_RANK + d];
      if (slot->is_static ? size != slot->value
                          : size < slot->min || (slot->max && size > slot->max))
        return false;
      if (slot->name < 0)
        continue;
      if (named[slot->name] >= 0 && named[slot->name] != size)
        return false;
      named[slot->name] = size;
    }
  return true;
}

void sp_model(const sp_program_t *p, uint32_t set, sp_result_t *out) {
  memset(out, 0, sizeof(*out));
  model_t m = {.p = p, .sizes = p->sets[set].sizes, .out = out};
  out->rank = p->ranks[0];
  for (uint32_t d = 0; d < out->rank; d++)
    out->sizes[d] = m.sizes[d];
  out->refused = !as_declared(p, m.sizes);
  for (uint32_t k = 0; k < p->n_steps && !out->refused; k++)
    out->refused = !model_step(&m, &p->steps[k]);
}

// ---- On a trace -----------------------------------------------------------------------------------
typedef struct tracing_t {
  dt_trace_t *t;
  const sp_program_t *p;
  const dt_value_t *in;
  dt_value_t v;
  sp_result_t *record;
  dt_sym_t made[SP_EXPRS]; // of the step
} tracing_t;

static dt_sym_t trace_expr(tracing_t *g, const sp_expr_t *e) {
  typedef dt_sym_t (*make_fn_t)(dt_trace_t *, dt_sym_t, dt_sym_t);
  static const make_fn_t makers[SP_OP_COUNT] = {[SP_ADD] = dt_sym_add, [SP_SUB] = dt_sym_sub,
                                                [SP_MUL] = dt_sym_mul, [SP_DIV] = dt_sym_floordiv,
                                                [SP_MOD] = dt_sym_mod, [SP_MIN] = dt_sym_min,
                                                [SP_MAX] = dt_sym_max, [SP_EQ] = dt_sym_eq,
                                                [SP_LT] = dt_sym_lt,   [SP_LE] = dt_sym_le};
  if (e->op == SP_CONST)
    return dt_sym_const(g->t, e->value);
  if (e->op == SP_DIM)
    return dt_dim(g->t, g->in[e->a], e->b);
  if (e->op == SP_HERE)
    return dt_dim(g->t, g->v, e->a);
  return makers[e->op](g->t, g->made[e->a], g->made[e->b]);
}

static void answer(tracing_t *g, int64_t value) {
  if (g->record && g->record->n_answers < SP_ANSWERS)
    g->record->answers[g->record->n_answers++] = value;
}

static dt_value_t plus(tracing_t *g, double value) {
  return dt_add(g->t, g->v, dt_scalar(g->t, DT_F32, value));
}

static dt_value_t trace_reshape(tracing_t *g, const sp_step_t *step) {
  dt_sym_t sizes[SP_MOST_RANK], by = dt_sym_const(g->t, step->number ? step->number : 1);
  uint32_t rank = dt_value_rank(g->t, g->v);
  if (step->kind == SP_OPEN) {
    sizes[0] = dt_sym_const(g->t, -1);
    sizes[1] = by;
    return dt_reshape(g->t, g->v, 2, sizes);
  }
  if (step->kind == SP_LIKE) {
    rank = g->p->ranks[step->k];
    for (uint32_t d = 0; d < rank; d++)
      sizes[d] = dt_dim(g->t, g->in[step->k], (int32_t)d);
    return dt_reshape(g->t, g->v, rank, sizes);
  }
  for (uint32_t d = 0; d < rank; d++)
    sizes[d < step->k ? d : d + 1] = dt_dim(g->t, g->v, (int32_t)d);
  sizes[step->k] = dt_sym_floordiv(g->t, dt_dim(g->t, g->v, step->k), by);
  sizes[step->k + 1] = by;
  return dt_reshape(g->t, g->v, rank + 1, sizes);
}

static void trace_step(tracing_t *g, const sp_step_t *step) {
  const int32_t axis[1] = {step->k};
  for (uint8_t k = 0; k < step->n_exprs; k++)
    g->made[k] = trace_expr(g, &step->exprs[k]);
  switch (step->kind) {
  case SP_BRANCH: {
    bool yes = dt_sym_true(g->t, g->made[step->e]);
    answer(g, yes);
    g->v = yes ? plus(g, 1) : dt_neg(g->t, g->v);
    return;
  }
  case SP_INT: {
    int64_t value = dt_sym_int(g->t, g->made[step->e]);
    answer(g, value);
    g->v = plus(g, (double)value);
    return;
  }
  case SP_CHECK:
    dt_check(g->t, g->made[step->e], "the check of a size");
    return;
  case SP_SIZE:
    g->v = dt_add(g->t, g->v, dt_cast(g->t, dt_size_value(g->t, g->made[step->e]), DT_F32));
    return;
  case SP_BROADCAST:
    g->v = dt_add(g->t, g->v, g->in[step->k]);
    return;
  case SP_SPLIT:
  case SP_OPEN:
  case SP_LIKE:
    g->v = trace_reshape(g, step);
    return;
  case SP_SLICE:
    g->v = dt_slice(g->t, g->v, step->k, g->made[step->e], g->made[step->f], 1);
    return;
  case SP_SUM:
    g->v = dt_sum(g->t, g->v, 1, axis, true);
    return;
  case SP_JOIN:
    g->v = dt_concat(g->t, 2, (const dt_value_t[]){g->v, g->in[step->k]}, -1);
    return;
  default:
    return;
  }
}

dt_status_t sp_replay(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  const sp_replay_t *replay = closure;
  tracing_t g = {.t = trace, .p = replay->program, .in = in, .v = in[0], .record = replay->record};
  if (g.record)
    g.record->n_answers = 0;
  for (uint32_t k = 0; k < g.p->n_steps; k++)
    trace_step(&g, &g.p->steps[k]);
  out[0] = dt_neg(trace, g.v); // a result is no input
  return NULL;
}

// ---- Text -----------------------------------------------------------------------------------------
static void print_expr(const sp_step_t *step, uint8_t at, dt_text_t *out) {
  static const char *const names[SP_OP_COUNT] = {
      [SP_ADD] = "+",   [SP_SUB] = "-",   [SP_MUL] = "*", [SP_DIV] = "//", [SP_MOD] = "%",
      [SP_MIN] = "min", [SP_MAX] = "max", [SP_EQ] = "==", [SP_LT] = "<",   [SP_LE] = "<="};
  const sp_expr_t *e = &step->exprs[at];
  if (e->op == SP_CONST) {
    dt__text_printf(out, "%d", e->value);
  } else if (e->op == SP_DIM) {
    dt__text_printf(out, "in%u.%u", e->a, e->b);
  } else if (e->op == SP_HERE) {
    dt__text_printf(out, "v.%u", e->a);
  } else {
    dt__text_put(out, "(");
    print_expr(step, e->a, out);
    dt__text_printf(out, " %s ", names[e->op]);
    print_expr(step, e->b, out);
    dt__text_put(out, ")");
  }
}

static void print_step(const sp_step_t *step, dt_text_t *out) {
  static const char *const names[SP_KIND_COUNT] = {"nothing", "branch",    "int",   "check",
                                                   "size",    "broadcast", "split", "open",
                                                   "like",    "slice",     "sum",   "join"};
  dt__text_printf(out, "  %s", names[step->kind]);
  if (step->kind >= SP_BROADCAST)
    dt__text_printf(out, " %u", step->k);
  if (step->number)
    dt__text_printf(out, " by %d", step->number);
  if (step->n_exprs) {
    dt__text_put(out, " ");
    print_expr(step, step->e, out);
  }
  if (step->kind == SP_SLICE) {
    dt__text_put(out, ", ");
    print_expr(step, step->f, out);
  }
  dt__text_put(out, "\n");
}

void sp_print(const sp_program_t *p, dt_text_t *out) {
  dt__text_printf(out, "program %llu\n", (unsigned long long)p->seed);
  for (uint32_t k = 0; k < p->n_inputs; k++) {
    dt__text_printf(out, "  in%u:", k);
    for (uint32_t d = 0; d < p->ranks[k]; d++) {
      const sp_slot_t *slot = &p->slots[k * SP_RANK + d];
      if (slot->is_static)
        dt__text_printf(out, " %d", slot->value);
      else if (slot->name >= 0)
        dt__text_printf(out, " %c", 'a' + slot->name);
      else
        dt__text_put(out, " _");
      if (slot->min || slot->max)
        dt__text_printf(out, "[%d..%d]", slot->min, slot->max);
    }
    dt__text_put(out, "\n");
  }
  for (uint32_t k = 0; k < p->n_steps; k++)
    if (p->steps[k].kind != SP_NOTHING)
      print_step(&p->steps[k], out);
}

void sp_print_set(const sp_program_t *p, uint32_t set, dt_text_t *out) {
  for (uint32_t k = 0; k < p->n_inputs; k++) {
    dt__text_put(out, k ? " [" : "[");
    for (uint32_t d = 0; d < p->ranks[k]; d++)
      dt__text_printf(out, d ? ", %d" : "%d", p->sets[set].sizes[k * SP_RANK + d]);
    dt__text_put(out, "]");
  }
  if (p->sets[set].strided)
    dt__text_put(out, " strided");
}

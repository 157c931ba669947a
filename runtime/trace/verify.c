// SPDX-License-Identifier: Apache-2.0
// Whether a pattern's program, traced on what its wildcards stand for, is what the graph has. What
// is traced for this is taken away again.
#include "runtime/trace/pattern.h"

#include "runtime/base/status.h"
#include "runtime/base/watch.h"

#include <string.h>

#define MOST_TRACES 32 // at one root

typedef struct verify_t {
  dt_match_t *m;
  uint32_t n; // nodes of the graph: those behind are the program's
} verify_t;

const char *dt__match_failure(dt_match_t *m, dt_status_t returned) {
  dt_trace_t *trace = &m->r->trace;
  if (returned == trace->status) // a program may hand back what dt_trace_status lent it
    returned = NULL;
  dt_status_t status = dt__status_join(trace->status, returned);
  trace->status = NULL;
  if (!status)
    return "";
  const char *why = dt__arena_strdup(m->r->arena, dt_status_message(status));
  if (!why || dt_status_code(status) == DT_E_NO_MEMORY || dt__watch_is_over(m->r->arena->watch)) {
    m->status = dt__status_join(m->status, status);
    m->stop = true;
    return "no memory";
  }
  dt_status_free(status);
  return why[0] ? why : "failed";
}

// ---- Attributes ---------------------------------------------------------------------------------
static void put_axes(const dt_attrs_t *attrs, dt_text_t *out) {
  dt__text_put(out, "[");
  for (uint32_t k = 0; k < attrs->n_axes; k++)
    dt__text_printf(out, "%s%d", k ? ", " : "", (int)attrs->axes[k]);
  dt__text_put(out, "]");
}

static void put_difference(dt_symenv_t *env, const dt_attrs_t *want, const dt_attrs_t *have,
                           dt_text_t *out) {
  if (want->dtype != have->dtype) {
    dt__text_printf(out, "wanted dtype %s, found %s", dt_dtype_name(want->dtype),
                    dt_dtype_name(have->dtype));
  } else if (want->n_axes != have->n_axes ||
             memcmp(want->axes, have->axes, sizeof(want->axes)) != 0) {
    dt__text_put(out, "wanted axes ");
    put_axes(want, out);
    dt__text_put(out, ", found ");
    put_axes(have, out);
  } else if (want->keepdims != have->keepdims) {
    dt__text_printf(out, "wanted keepdims %u, found %u", want->keepdims, have->keepdims);
  } else if (want->mode != have->mode) {
    dt__text_printf(out, "wanted mode %u, found %u", want->mode, have->mode);
  } else if (want->n_syms != have->n_syms) {
    dt__text_printf(out, "wanted %u sizes, found %u", want->n_syms, have->n_syms);
  } else if (memcmp(want->floats, have->floats, sizeof(want->floats)) != 0) {
    dt__text_printf(out, "wanted the number %.9g, found %.9g", want->floats[0], have->floats[0]);
  } else if (memcmp(want->ints, have->ints, sizeof(want->ints)) != 0) {
    uint32_t k = 0;
    while (want->ints[k] == have->ints[k])
      k++;
    dt__text_printf(out, "wanted the number %lld, found %lld", (long long)want->ints[k],
                    (long long)have->ints[k]);
  } else if (!want->n_syms) {
    dt__text_put(out, "wanted other attributes");
  } else {
    uint32_t k = 0;
    while (k + 1 < want->n_syms && dt__sym_known_eq(env, want->syms[k], have->syms[k]))
      k++;
    dt__text_put(out, "wanted the size ");
    dt__sym_print(env, want->syms[k], out);
    dt__text_put(out, ", found ");
    dt__sym_print(env, have->syms[k], out);
  }
}

static bool same_attrs(dt_symenv_t *env, const dt_attrs_t *want, const dt_attrs_t *have) {
  if (dt__attrs_equal(want, have))
    return true;
  if (want->n_syms != have->n_syms)
    return false;
  dt_attrs_t like;
  memcpy(&like, have, sizeof(like)); // as bytes: the padding takes part in comparisons
  for (uint32_t k = 0; k < want->n_syms; k++)
    if (dt__sym_known_eq(env, want->syms[k], have->syms[k]))
      like.syms[k] = want->syms[k];
  return dt__attrs_equal(want, &like);
}

// ---- Nodes --------------------------------------------------------------------------------------
static bool equal_alone(const verify_t *v, uint32_t made, uint32_t g) {
  dt_match_t *m = v->m;
  const dt_node_t *want = dt__match_node(m, made), *have = dt__match_node(m, g);
  if (want->op != have->op || want->n_inputs != have->n_inputs) {
    dt__match_miss(m, DT_NEAR_TRACED, g, "wanted %s, found %s", dt__op_info(want->op)->name,
                   dt__op_info(have->op)->name);
    return false;
  }
  if (want->dtype != have->dtype) {
    dt__match_miss(m, DT_NEAR_TRACED, g, "wanted dtype %s, found %s", dt_dtype_name(want->dtype),
                   dt_dtype_name(have->dtype));
    return false;
  }
  if (same_attrs(m->r->work.env, want->attrs, have->attrs))
    return true;
  if (dt__match_is_near(m, DT_NEAR_TRACED)) {
    dt_text_t text;
    dt__text_init(&text);
    put_difference(m->r->work.env, want->attrs, have->attrs, &text);
    dt__match_miss(m, DT_NEAR_TRACED, g, "%s", dt__text_str(&text));
    dt__text_fini(&text);
  }
  return false;
}

static bool commutes(const dt_node_t *node) {
  return node->n_inputs == 2 && (dt__op_info(node->op)->flags & DT_OPF_COMM);
}

static uint32_t before_broadcasts(const dt_match_t *m, uint32_t id) {
  while (dt__is_broadcast(dt__match_node(m, id)->op))
    id = dt__match_node(m, id)->inputs[0].id;
  return id;
}

// One element that is repeated: it makes no difference by which steps.
static bool is_repeated(const dt_match_t *m, uint32_t id) {
  return dt__is_broadcast(dt__match_node(m, id)->op) &&
         dt__match_node(m, before_broadcasts(m, id))->rank == 0;
}

static bool same_sizes(const dt_match_t *m, uint32_t a, uint32_t b) {
  const dt_node_t *x = dt__match_node(m, a), *y = dt__match_node(m, b);
  return x->rank == y->rank && dt__syms_known_eq(m->r->work.env, x->rank, x->sizes, y->sizes);
}

static bool equal(const verify_t *v, uint32_t made, uint32_t g);

static bool equal_repeated(const verify_t *v, uint32_t made, uint32_t g) {
  const dt_match_t *m = v->m;
  return is_repeated(m, made) && is_repeated(m, g) && same_sizes(m, made, g) &&
         equal(v, before_broadcasts(m, made), before_broadcasts(m, g));
}

// Whether node `made` of the program is node `g` of the graph: the same op on equal operands.
static bool equal(const verify_t *v, uint32_t made, uint32_t g) {
  dt_match_t *m = v->m;
  if (made <= v->n) {
    if (made != g)
      dt__match_miss(m, DT_NEAR_TRACED, g, "wanted %%%u here", made);
    return made == g;
  }
  uint32_t *memo = &m->memo.items[made - v->n - 1];
  if (*memo == g)
    return true;
  if (equal_repeated(v, made, g)) {
    *memo = g;
    return true;
  }
  if (!equal_alone(v, made, g))
    return false;
  const dt_node_t *want = dt__match_node(m, made), *have = dt__match_node(m, g);
  bool same = true;
  for (uint32_t k = 0; same && k < want->n_inputs; k++)
    same = equal(v, want->inputs[k].id, have->inputs[k].id);
  if (!same && commutes(want))
    same = equal(v, want->inputs[0].id, have->inputs[1].id) &&
           equal(v, want->inputs[1].id, have->inputs[0].id);
  if (same)
    *memo = g;
  return same;
}

// ---- What is inside of the match ----------------------------------------------------------------
static const dt_inner_t *find_inner(const dt_match_t *m, uint32_t id) {
  for (uint32_t k = 0; k < m->inner.len; k++)
    if (m->inner.items[k].id == id)
      return &m->inner.items[k];
  return NULL;
}

static bool collect(const verify_t *v, uint32_t made, uint32_t g);

// The broadcasts from `end`, one element, to node g, behind what they are of.
static bool collect_repeated(const verify_t *v, uint32_t made, uint32_t end, uint32_t g) {
  dt_match_t *m = v->m;
  if (g == end)
    return collect(v, before_broadcasts(m, made), g);
  if (!collect_repeated(v, made, end, dt__match_node(m, g)->inputs[0].id))
    return false;
  if (find_inner(m, g))
    return true;
  const dt_inner_t *below = before_broadcasts(m, made) > v->n ? find_inner(m, end) : NULL;
  const dt_inner_t inner = {.id = g, .free = true, .literal = below && below->literal};
  return DT_VEC_PUSH(m->r->arena, &m->inner, inner);
}

// Node g, which `made` equals, behind its operands.
static bool collect(const verify_t *v, uint32_t made, uint32_t g) {
  dt_match_t *m = v->m;
  if (made <= v->n || find_inner(m, g))
    return true;
  if (is_repeated(m, made) && is_repeated(m, g))
    return collect_repeated(v, made, before_broadcasts(m, g), g);
  const dt_node_t *want = dt__match_node(m, made), *have = dt__match_node(m, g);
  bool swapped = commutes(want) && !(equal(v, want->inputs[0].id, have->inputs[0].id) &&
                                     equal(v, want->inputs[1].id, have->inputs[1].id));
  dt_inner_t inner = {.id = g, .literal = true};
  bool is_free = true;
  for (uint32_t k = 0; k < want->n_inputs; k++) {
    uint32_t operand = have->inputs[swapped ? 1 - k : k].id;
    if (!collect(v, want->inputs[k].id, operand))
      return false;
    const dt_inner_t *below = want->inputs[k].id > v->n ? find_inner(m, operand) : NULL;
    inner.literal = inner.literal && below && below->literal;
    is_free = is_free && (!below || below->free);
  }
  inner.free = inner.literal || (is_free && dt__is_broadcast(have->op));
  return DT_VEC_PUSH(m->r->arena, &m->inner, inner);
}

// ---- The program --------------------------------------------------------------------------------
static bool run_program(const verify_t *v, dt_value_t *out) {
  dt_match_t *m = v->m;
  dt_trace_t *trace = &m->r->trace;
  dt_value_t in[DT_PATTERN_MOST_WILDCARDS];
  for (uint32_t w = 0; w < m->pattern->n_wildcards; w++)
    in[w] = dt__trace_value(trace, (dt_node_id_t){m->wild[w]});
  m->r->held = trace->no_calls = true;
  dt_status_t returned = m->pattern->program(trace, in, out, m->pattern->closure);
  m->r->held = trace->no_calls = false;
  const char *why = dt__match_failure(m, returned);
  if (why[0]) {
    dt__match_miss(m, DT_NEAR_TRACED, m->outputs[0], "the pattern on its values: %s", why);
    return false;
  }
  for (uint32_t k = 0; k < m->pattern->n_outputs; k++)
    if (out[k].id == 0 || out[k].id > m->r->work.nodes.len || out[k].trace != trace->tag) {
      dt__match_miss(m, DT_NEAR_TRACED, m->outputs[0], "the pattern did not set output %u", k);
      return false;
    }
  m->memo.len = 0;
  for (uint32_t id = v->n + 1; id <= m->r->work.nodes.len; id++)
    if (!DT_VEC_PUSH(m->r->arena, &m->memo, 0)) {
      m->status = DT_NO_MEMORY();
      m->stop = true;
      return false;
    }
  return true;
}

bool dt__match_verify(dt_match_t *m) {
  if (m->traces++ >= MOST_TRACES) {
    m->stop = true;
    return false;
  }
  verify_t v = {.m = m, .n = m->r->work.nodes.len};
  dt_value_t out[DT_PATTERN_MOST_WILDCARDS] = {{0, 0}};
  dt_origin_t origin = m->r->trace.origin;
  bool same = run_program(&v, out);
  for (uint32_t k = 0; same && k < m->pattern->n_outputs; k++)
    same = equal(&v, out[k].id, m->outputs[k]);
  m->inner.len = 0;
  for (uint32_t k = 0; same && k < m->pattern->n_outputs; k++)
    if (!collect(&v, out[k].id, m->outputs[k])) {
      m->status = DT_NO_MEMORY();
      m->stop = true;
      same = false;
    }
  dt__rewriter_forget(m->r, v.n);
  m->r->trace.origin = origin;
  return same;
}

// SPDX-License-Identifier: Apache-2.0
// What becomes of a match: uses outside of it, the check, the replacement.
#include "runtime/trace/pattern.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Uses ---------------------------------------------------------------------------------------
static bool is_inside(const dt_match_t *m, uint32_t id) {
  for (uint32_t k = 0; k < m->inner.len; k++)
    if (m->inner.items[k].id == id)
      return true;
  return false;
}

static bool is_output(const dt_match_t *m, uint32_t id) {
  for (uint32_t k = 0; k < m->pattern->n_outputs; k++)
    if (m->outputs[k] == id)
      return true;
  return false;
}

static bool is_used_outside(dt_match_t *m, uint32_t id) {
  if (m->r->nodes.items[id].n_results) {
    dt__match_miss(m, DT_NEAR_USES, id, "inside of the match, and a result of the graph");
    return true;
  }
  for (const dt_node_use_t *use = m->r->nodes.items[id].uses; use; use = use->next) {
    if (is_inside(m, use->user) || !dt__match_is_live(m, use->user))
      continue;
    if (dt__match_is_near(m, DT_NEAR_USES)) {
      dt_text_t text;
      dt__text_init(&text);
      dt__rewriter_label(m->r, use->user, &text);
      dt__match_miss(m, DT_NEAR_USES, id, "inside of the match, and used outside by %s",
                     dt__text_str(&text));
      dt__text_fini(&text);
    }
    return true;
  }
  return false;
}

static bool any_used_outside(dt_match_t *m) {
  for (uint32_t k = 0; k < m->inner.len; k++)
    if (!m->inner.items[k].free && !is_output(m, m->inner.items[k].id) &&
        is_used_outside(m, m->inner.items[k].id))
      return true;
  return false;
}

// ---- The check ----------------------------------------------------------------------------------
static bool is_checked(dt_match_t *m) {
  const dt_pattern_t *pattern = m->pattern;
  if (!pattern->check)
    return true;
  uint32_t n = m->r->work.nodes.len;
  dt_origin_t origin = m->r->trace.origin;
  m->r->held = true;
  const char *why = pattern->check(m, pattern->closure);
  m->r->held = false;
  const char *failed = dt__match_failure(m, NULL);
  dt__rewriter_forget(m->r, n);
  m->r->trace.origin = origin;
  if (!why && failed[0])
    why = failed;
  if (why)
    dt__match_miss(m, DT_NEAR_CHECK, m->outputs[0], "the check: %s", why);
  return why == NULL;
}

// ---- The replacement ----------------------------------------------------------------------------
static void skip(dt_match_t *m, const char *why) {
  dt_text_t text;
  m->stop = true;
  if (!dt__log_on(DT_LOG_PASSES, 1))
    return;
  dt__text_init(&text);
  dt__rewriter_label(m->r, m->outputs[0], &text);
  dt__log_write(DT_LOG_PASSES, "pattern %s at %s: left %s: %s", m->pattern->name,
                dt_point_name(m->r->site->point), dt__text_str(&text), why);
  dt__text_fini(&text);
}

static dt_status_t find_made(dt_match_t *m, const dt_value_t *out, uint32_t *made) {
  for (uint32_t k = 0; k < m->pattern->n_outputs; k++) {
    DT_TRY(dt__rewriter_find(m->r, out[k], "an output of the replacement", &made[k]));
    DT_TRY(dt__rewriter_check_same(m->r, m->outputs[k], made[k]));
  }
  return NULL;
}

// Runs it; false: nothing is left of it.
static bool build(dt_match_t *m, uint32_t *made) {
  const dt_pattern_t *pattern = m->pattern;
  dt_trace_t *trace = &m->r->trace;
  dt_value_t in[DT_PATTERN_MOST_WILDCARDS], out[DT_PATTERN_MOST_WILDCARDS] = {{0, 0}};
  uint32_t n = m->r->work.nodes.len, at = m->r->at;
  for (uint32_t w = 0; w < pattern->n_wildcards; w++)
    in[w] = dt__trace_value(trace, (dt_node_id_t){m->wild[w]});
  dt_origin_t origin = trace->origin;
  m->r->at = m->outputs[0];
  m->r->held = true;
  dt_status_t returned = pattern->replacement(m, trace, in, out, pattern->closure);
  m->r->held = false;
  const char *why = dt__match_failure(m, returned);
  if (!why[0])
    why = dt__match_failure(m, find_made(m, out, made)); // takes what was built into the order
  if (why[0]) {
    dt__rewriter_forget(m->r, n);
    skip(m, why);
  }
  m->r->at = at;
  trace->origin = origin;
  return why[0] == 0;
}

// Whether nothing that was made needs what uses the outputs, by what is near alone: places tell it.
static bool is_before(const dt_match_t *m, uint32_t id, uint32_t place) {
  return dt__match_node(m, id)->n_inputs == 0 || m->places.items[id] < place;
}

static bool is_quick(const dt_match_t *m, uint32_t n, const uint32_t *made, uint32_t place) {
  if (m->slow || m->r->n_symbols)
    return false;
  for (uint32_t k = 0; k < m->pattern->n_outputs; k++)
    if (made[k] <= n && !is_before(m, made[k], place))
      return false;
  for (uint32_t id = n + 1; id <= m->r->work.nodes.len; id++) {
    const dt_node_t *node = dt__match_node(m, id);
    for (uint32_t k = 0; k < node->n_inputs; k++)
      if (node->inputs[k].id <= n && !is_before(m, node->inputs[k].id, place))
        return false;
  }
  return true;
}

// New nodes are said to be of the line that made the first output.
static bool settle(dt_match_t *m, uint32_t n, uint32_t place) {
  dt_origin_t origin = dt__match_node(m, m->outputs[0])->origin;
  for (uint32_t id = n + 1; id <= m->r->work.nodes.len; id++) {
    dt_node_t *node = &m->r->work.nodes.items[id - 1];
    if (origin.file && origin.file[0]) {
      node->origin.file = origin.file;
      node->origin.line = origin.line;
    }
    if (!DT_VEC_PUSH(m->r->arena, &m->places, place))
      return false;
  }
  return true;
}

static void log_done(const dt_match_t *m) {
  dt_text_t text;
  if (!dt__log_on(DT_LOG_PASSES, 2))
    return;
  dt__text_init(&text);
  dt__rewriter_label(m->r, m->outputs[0], &text);
  dt__log_write(DT_LOG_PASSES, "pattern %s at %s: replaced %s", m->pattern->name,
                dt_point_name(m->r->site->point), dt__text_str(&text));
  dt__text_fini(&text);
}

// Constants that were read as numbers cannot be updated any more.
static void take_constants(dt_match_t *m) {
  for (uint32_t w = 0; w < m->pattern->n_wildcards; w++) {
    const dt_node_t *node = dt__match_node(m, m->wild[w]);
    if (m->pattern->wildcards[w].kind == DT_WILDCARD_LITERAL && node->op == DT_OP_constant)
      dt_constant_taken(&m->r->trace, m->r->work.constants.items[node->attrs->index].name);
  }
}

static bool replace(dt_match_t *m) {
  uint32_t made[DT_PATTERN_MOST_WILDCARDS], n = m->r->work.nodes.len, place = UINT32_MAX;
  if (!build(m, made))
    return false;
  for (uint32_t k = 0; k < m->pattern->n_outputs; k++)
    if (m->places.items[m->outputs[k]] < place)
      place = m->places.items[m->outputs[k]];
  bool quick = is_quick(m, n, made, place);
  m->slow = m->slow || !quick;
  log_done(m);
  take_constants(m);
  if (dt__match_failure(m, NULL)[0]) // no memory
    return false;
  m->status = settle(m, n, place) ? NULL : DT_NO_MEMORY();
  for (uint32_t k = 0; k < m->pattern->n_outputs && !m->status; k++)
    if (made[k] != m->outputs[k])
      m->status = dt__rewriter_redirect(m->r, m->outputs[k], made[k], quick);
  if (m->status)
    return false;
  for (uint32_t k = m->inner.len; k-- > 0;)
    dt__rewriter_drop(m->r, m->inner.items[k].id);
  dt_pattern_t *pattern = (dt_pattern_t *)(uintptr_t)m->pattern;
  (void)atomic_fetch_add_explicit(&pattern->count, 1, memory_order_relaxed);
  return true;
}

bool dt__match_finish(dt_match_t *m) {
  if (!m->pattern->shared && any_used_outside(m))
    return false;
  if (!is_checked(m))
    return false;
  return m->looking || replace(m);
}

// ---- What checks and replacements ask -----------------------------------------------------------
dt_rewriter_t *dt_match_rewriter(dt_match_t *m) { return m ? m->r : NULL; }

// By its name; n_wildcards where there is none.
static uint32_t find_wildcard(const dt_match_t *m, const char *name) {
  uint32_t w = 0;
  while (w < m->pattern->n_wildcards && strcmp(m->pattern->wildcards[w].name, name) != 0)
    w++;
  return w;
}

dt_value_t dt_match_node(dt_match_t *m, const char *name) {
  uint32_t w = m && name ? find_wildcard(m, name) : UINT32_MAX;
  if (!m || w >= m->pattern->n_wildcards)
    return (dt_value_t){0, 0};
  return dt__trace_value(&m->r->trace, (dt_node_id_t){m->wild[w]});
}

dt_value_t dt_match_output(dt_match_t *m, uint32_t index) {
  if (!m || index >= m->pattern->n_outputs)
    return (dt_value_t){0, 0};
  return dt__trace_value(&m->r->trace, (dt_node_id_t){m->outputs[index]});
}

bool dt_match_size(dt_match_t *m, const char *name, dt_sym_t *out) {
  if (out)
    *out = DT_SYM_NONE_ID;
  for (uint32_t k = 0; m && name && out && k < m->pattern->n_sizes; k++)
    if (strcmp(m->pattern->sizes[k], name) == 0) {
      *out = dt__trace_told(&m->r->trace, m->sizes[k]);
      return out->id != 0;
    }
  return false;
}

bool dt_match_literal(dt_match_t *m, const char *name, double *out) {
  if (out)
    *out = 0;
  uint32_t w = m && name ? find_wildcard(m, name) : UINT32_MAX;
  if (!m || !out || w >= m->pattern->n_wildcards ||
      m->pattern->wildcards[w].kind != DT_WILDCARD_LITERAL)
    return false;
  return dt__match_number(m, m->wild[w], out);
}

// SPDX-License-Identifier: Apache-2.0
// Why a pattern does not match: of all nodes where it could begin, those where most nodes agree.
#include "runtime/trace/pattern.h"

#include "runtime/base/status.h"
#include "runtime/base/watch.h"

#define MOST_SHOWN 3
#define NODES_A_LOOK 64

typedef struct explanation_t {
  dt_match_t *m;
  const dt_pattern_t *pattern;
  uint32_t n_matches, n_roots;
  dt_text_t matches;
  dt_near_t nearest[MOST_SHOWN]; // the nearest first
} explanation_t;

static void keep_near(explanation_t *e, dt_near_t *near) {
  uint32_t at = 0;
  while (at < MOST_SHOWN && e->nearest[at].score >= near->score)
    at++;
  if (at == MOST_SHOWN) {
    dt__text_fini(&near->text);
    return;
  }
  dt__text_fini(&e->nearest[MOST_SHOWN - 1].text);
  for (uint32_t k = MOST_SHOWN - 1; k > at; k--)
    e->nearest[k] = e->nearest[k - 1];
  e->nearest[at] = *near;
}

static void look_at(explanation_t *e, uint32_t root) {
  dt_near_t near = {.root = root};
  if (!dt__pattern_begins(e->pattern, dt__match_node(e->m, root)->op))
    return;
  dt__text_init(&near.text);
  e->n_roots++;
  e->m->near = &near;
  bool matches = dt__match_at(e->m, e->pattern, root);
  e->m->near = NULL;
  if (!matches) {
    keep_near(e, &near);
    return;
  }
  dt__text_fini(&near.text);
  dt__text_put(&e->matches, "  at ");
  dt__rewriter_label(e->m->r, root, &e->matches);
  dt__text_put(&e->matches, "\n");
  e->n_matches++;
}

static void put(const explanation_t *e, dt_text_t *out) {
  const dt_pattern_t *pattern = e->pattern;
  dt__text_printf(out, "pattern %s: %u match%s\n", pattern->name, e->n_matches,
                  e->n_matches == 1 ? "" : "es");
  dt__text_put(out, dt__text_str(&e->matches));
  for (uint32_t k = 0; !e->n_roots && k < pattern->n_roots; k++)
    dt__text_printf(out, "%s%s%s", k ? ", " : "no node is its first output: wanted ",
                    dt__op_info(pattern->roots[k])->name, k + 1 == pattern->n_roots ? "\n" : "");
  for (uint32_t k = 0; k < MOST_SHOWN && e->nearest[k].score; k++) {
    const dt_near_t *near = &e->nearest[k];
    uint32_t agree = near->score < DT_NEAR_TRACED ? near->score : pattern->n_nodes;
    dt__text_put(out, k ? "" : "nearest misses:\n");
    dt__text_put(out, "  at ");
    dt__rewriter_label(e->m->r, near->root, out);
    dt__text_printf(out, ", %u of %u nodes found: %s\n", agree, pattern->n_nodes,
                    dt__text_str(&near->text));
  }
}

static dt_status_t look(explanation_t *e, dt_rewriter_t *r, dt_text_t *out) {
  DT_TRY(dt__match_begin(e->m, r));
  uint32_t n = 0;
  for (uint32_t id = r->nodes.items[0].next; id && !e->m->status; id = r->nodes.items[id].next) {
    if (n++ % NODES_A_LOOK == 0)
      DT_TRY(dt__watch_check(r->arena->watch));
    if (dt__match_is_live(e->m, id))
      look_at(e, id);
  }
  put(e, out);
  return e->m->status;
}

dt_status_t dt__pattern_explain(const dt_pattern_t *pattern, dt_rewriter_t *r, dt_text_t *out) {
  explanation_t e = {.pattern = pattern, .m = DT_ARENA_NEW(r->arena, dt_match_t)};
  if (!e.m)
    return DT_NO_MEMORY();
  e.m->looking = true;
  dt__text_init(&e.matches);
  for (uint32_t k = 0; k < MOST_SHOWN; k++)
    dt__text_init(&e.nearest[k].text);
  dt_status_t failure = r->trace.status; // the pass's own, for later
  r->trace.status = NULL;
  dt_status_t status = look(&e, r, out);
  r->trace.status = failure;
  for (uint32_t k = 0; k < MOST_SHOWN; k++)
    dt__text_fini(&e.nearest[k].text);
  dt__text_fini(&e.matches);
  return status ? status : dt__text_status(out);
}

static dt_status_t explain(dt_pattern_t *pattern, dt_rewriter_t *r, char **out) {
  if (!pattern || !r || !out)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", !pattern ? "pattern" : !r ? "rewriter" : "out");
  *out = NULL;
  if (r->held || r->read_only)
    return DT_FAIL(DT_E_STATE, "%s",
                   r->held ? "in a pattern's check or replacement"
                           : "at point fused; patterns are about graphs");
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = dt__pattern_explain(pattern, r, &text);
  if (!status) {
    *out = dt__strdup(dt__text_str(&text));
    status = *out ? NULL : DT_NO_MEMORY();
  }
  dt__text_fini(&text);
  return status;
}

dt_status_t dt_pattern_explain(dt_pattern_t *pattern, dt_rewriter_t *r, char **out) {
  return dt__status_annotate(explain(pattern, r, out), "dt_pattern_explain");
}

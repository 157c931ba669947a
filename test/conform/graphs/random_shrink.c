// SPDX-License-Identifier: Apache-2.0
// Makes a failing program smaller by trying changes, one at a time, and keeping those that leave it
// valid and failing.
#include "test/conform/graphs/random_graph.h"

#include <string.h>

typedef struct shrink_t {
  rg_program_t *p;
  rg_program_t trial;
  rg_fails_fn_t fails;
  void *user;
  bool stop;
} shrink_t;

void rg_sweep(rg_program_t *p) {
  bool needed[RG_NODES] = {false};
  uint32_t renamed[RG_NODES] = {0}, n = 0;
  for (uint32_t k = 0; k < p->n_outputs; k++)
    needed[p->outputs[k]] = true;
  for (uint32_t k = 0; k < p->n_updates; k++)
    needed[p->updates[k].input] = needed[p->updates[k].value] = true;
  for (uint32_t i = p->n_nodes; i-- > 0;)
    for (uint32_t k = 0; needed[i] && k < p->nodes[i].n_args; k++)
      needed[p->nodes[i].args[k]] = true;
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    if (!needed[i])
      continue;
    renamed[i] = n;
    if (n != i)
      p->nodes[n] = p->nodes[i];
    for (uint32_t k = 0; k < p->nodes[n].n_args; k++)
      p->nodes[n].args[k] = renamed[p->nodes[n].args[k]];
    n++;
  }
  for (uint32_t k = 0; k < p->n_outputs; k++)
    p->outputs[k] = renamed[p->outputs[k]];
  for (uint32_t k = 0; k < p->n_updates; k++) {
    p->updates[k].input = renamed[p->updates[k].input];
    p->updates[k].value = renamed[p->updates[k].value];
  }
  p->n_nodes = n;
}

// Keeps the trial when it is valid and fails.
static bool keep(shrink_t *s) {
  if (s->stop || !rg_check(&s->trial))
    return false;
  rg_verdict_t verdict = s->fails(s->user, &s->trial);
  s->stop = verdict == RG_STOP;
  if (verdict == RG_FAILS)
    *s->p = s->trial;
  return verdict == RG_FAILS;
}

static bool shrink_calls(shrink_t *s) {
  bool any = false;
  for (uint32_t k = s->p->n_calls; k-- > 0 && s->p->n_calls > 1;) {
    if (k >= s->p->n_calls)
      continue;
    s->trial = *s->p;
    s->trial.n_calls--;
    memmove(&s->trial.calls[k], &s->trial.calls[k + 1],
            (s->trial.n_calls - k) * sizeof(s->trial.calls[0]));
    any |= keep(s);
  }
  for (uint32_t k = 0; k < s->p->n_calls; k++) {
    if (s->p->calls[k].layout) {
      s->trial = *s->p;
      s->trial.calls[k].layout = 0;
      any |= keep(s);
    }
  }
  if (s->p->prepare) {
    s->trial = *s->p;
    s->trial.prepare = false;
    any |= keep(s);
  }
  return any;
}

static bool shrink_outputs(shrink_t *s) {
  bool any = false;
  for (uint32_t k = s->p->n_outputs; k-- > 0 && s->p->n_outputs > 1;) {
    s->trial = *s->p;
    s->trial.n_outputs--;
    memmove(&s->trial.outputs[k], &s->trial.outputs[k + 1],
            (s->trial.n_outputs - k) * sizeof(s->trial.outputs[0]));
    rg_sweep(&s->trial);
    any |= keep(s);
  }
  return any;
}

static void replace_uses(rg_program_t *p, uint32_t i, uint32_t by) {
  for (uint32_t at = 0; at < p->n_nodes; at++)
    for (uint32_t k = 0; at != i && k < p->nodes[at].n_args; k++)
      if (p->nodes[at].args[k] == i)
        p->nodes[at].args[k] = by;
  for (uint32_t k = 0; k < p->n_outputs; k++)
    if (p->outputs[k] == i)
      p->outputs[k] = by;
  for (uint32_t k = 0; k < p->n_updates; k++)
    if (p->updates[k].value == i)
      p->updates[k].value = by;
}

// Node `i` becomes an input of its dims, where a declaration says them.
static bool make_input(rg_program_t *p, uint32_t i) {
  rg_node_t *node = &p->nodes[i];
  rg_node_t leaf = {.op = RG_input, .dtype = node->dtype, .n_numbers = node->rank + 2};
  for (uint32_t d = 0; d < node->rank; d++) {
    bool found = rg_dim_is(p, &node->dims[d], node->dims[d].at[0]);
    leaf.numbers[d] = (int32_t)node->dims[d].at[0];
    for (uint32_t symbol = 0; !found && symbol < p->n_symbols; symbol++) {
      found = true;
      for (uint32_t k = 0; found && k < rg_point_count(p); k++)
        found = node->dims[d].at[k] == rg_symbol_at(p, symbol, k);
      leaf.numbers[d] = -1 - (int32_t)symbol;
    }
    if (!found)
      return false;
  }
  leaf.numbers[node->rank] = RG_FILL_SMOOTH;
  *node = leaf;
  return true;
}

static bool shrink_nodes(shrink_t *s) {
  bool any = false;
  for (uint32_t i = s->p->n_nodes; i-- > 0 && !s->stop;) {
    if (i >= s->p->n_nodes)
      continue;
    bool done = false;
    for (uint32_t k = 0; !done && i < s->p->n_nodes && k < s->p->nodes[i].n_args; k++) {
      s->trial = *s->p;
      replace_uses(&s->trial, i, s->trial.nodes[i].args[k]);
      rg_sweep(&s->trial);
      done = keep(s);
    }
    if (!done && i < s->p->n_nodes && rg_ops[s->p->nodes[i].op].form > RG_FORM_constant) {
      s->trial = *s->p;
      if (make_input(&s->trial, i)) {
        rg_sweep(&s->trial);
        done = keep(s);
      }
    }
    any |= done;
  }
  return any;
}

// A node of one operand is taken out of a chain together with the next, dims permitting: views that
// undo each other go only in pairs.
static bool shrink_pairs(shrink_t *s) {
  bool any = false;
  for (uint32_t i = s->p->n_nodes; i-- > 0 && !s->stop;) {
    if (i >= s->p->n_nodes)
      continue;
    bool done = false;
    for (uint32_t j = 0; !done && j < i && i < s->p->n_nodes; j++) {
      const rg_node_t *a = &s->p->nodes[i], *b = &s->p->nodes[j];
      bool same = a->dtype == b->dtype && a->rank == b->rank;
      for (uint32_t d = 0; same && d < a->rank; d++)
        same = rg_dim_same(s->p, &a->dims[d], &b->dims[d]);
      if (!same || rg_ops[a->op].form <= RG_FORM_constant)
        continue;
      s->trial = *s->p;
      replace_uses(&s->trial, i, j);
      rg_sweep(&s->trial);
      done = keep(s);
    }
    any |= done;
  }
  return any;
}

// Updates, and what calls and compiles have of options.
static bool shrink_options(shrink_t *s) {
  bool any = false;
  for (uint32_t k = s->p->n_updates; k-- > 0;) {
    s->trial = *s->p;
    s->trial.n_updates--;
    if (k == 0)
      s->trial.updates[0] = s->trial.updates[1];
    rg_sweep(&s->trial);
    any |= keep(s);
  }
  s->trial = *s->p;
  s->trial.dynamic = DT_DYNAMIC_SYMBOLIC;
  s->trial.strict = false;
  s->trial.threads = 1;
  if (memcmp(&s->trial, s->p, sizeof(s->trial)) != 0)
    any |= keep(s);
  for (uint32_t k = 0; k < s->p->n_calls; k++) {
    s->trial = *s->p;
    s->trial.calls[k].layout = RG_LAYOUT_PLAIN;
    if (s->p->calls[k].layout != RG_LAYOUT_PLAIN)
      any |= keep(s);
  }
  return any;
}

static bool shrink_sizes(shrink_t *s) {
  static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 8, 16, 17, 33};
  bool any = false;
  for (uint32_t k = 0; k < s->p->n_calls; k++)
    for (uint32_t symbol = 0; symbol < s->p->n_symbols; symbol++)
      for (uint32_t c = 0; c < sizeof(sizes) / sizeof(sizes[0]); c++) {
        if (sizes[c] >= s->p->calls[k].sizes[symbol])
          break;
        s->trial = *s->p;
        s->trial.calls[k].sizes[symbol] = sizes[c];
        if (keep(s)) {
          any = true;
          break;
        }
      }
  return any;
}

// Literal dims of leaves, all of one size at once; fills; numbers of pads.
static bool shrink_literals(shrink_t *s) {
  bool any = false;
  for (uint32_t i = 0; i < s->p->n_nodes; i++) {
    const rg_node_t *node = &s->p->nodes[i];
    bool leaf = rg_ops[node->op].form <= RG_FORM_constant;
    for (uint32_t d = 0; leaf && d < node->rank; d++) {
      int32_t old = node->numbers[d];
      for (int32_t to = 1; to < old && to < 4; to++) {
        s->trial = *s->p;
        for (uint32_t at = 0; at < s->trial.n_nodes; at++)
          for (uint32_t e = 0; rg_ops[s->trial.nodes[at].op].form <= RG_FORM_constant &&
                               e < s->trial.nodes[at].rank;
               e++)
            if (s->trial.nodes[at].numbers[e] == old)
              s->trial.nodes[at].numbers[e] = to;
        if (keep(s)) {
          any = true;
          break;
        }
      }
    }
    for (uint32_t k = 0; node->op == RG_pad && k < node->n_numbers; k++) {
      if (node->numbers[k] == 0)
        continue;
      s->trial = *s->p;
      s->trial.nodes[i].numbers[k]--;
      any |= keep(s);
    }
    if (leaf &&
        (node->numbers[node->rank] == RG_FILL_ANY || node->numbers[node->rank] == RG_FILL_SMOOTH)) {
      s->trial = *s->p;
      s->trial.nodes[i].numbers[node->rank]--;
      any |= keep(s);
    }
  }
  return any;
}

void rg_shrink(rg_program_t *p, rg_fails_fn_t fails, void *user) {
  shrink_t s = {.p = p, .fails = fails, .user = user};
  s.trial = *p;
  rg_sweep(&s.trial);
  (void)keep(&s);
  bool any = true;
  while (any && !s.stop) {
    any = shrink_calls(&s);
    any |= shrink_outputs(&s);
    any |= shrink_nodes(&s);
    any |= shrink_pairs(&s);
    any |= shrink_options(&s);
    any |= shrink_sizes(&s);
    any |= shrink_literals(&s);
  }
}

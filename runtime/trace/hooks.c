// SPDX-License-Identifier: Apache-2.0
// See hooks.h.
#include "runtime/trace/hooks.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/watch.h"
#include "runtime/trace/op_list.h"
#include "runtime/trace/pattern.h"

#include <ctype.h>
#include <string.h>

#define MOST_NAME 63
#define LOOK_NS 5000000 // how often who waits for a turn looks whether it may still

const char *dt_point_name(dt_point_t point) {
  static const char *const names[] = {
      [DT_POINT_TRACED] = "traced",
      [DT_POINT_BEFORE_DECOMPOSE] = "before_decompose",
      [DT_POINT_AFTER_DECOMPOSE] = "after_decompose",
      [DT_POINT_BEFORE_LOWER] = "before_lower",
      [DT_POINT_FUSED] = "fused",
  };
  bool is_one = (unsigned)point < sizeof(names) / sizeof(names[0]) && names[point];
  return is_one ? names[point] : "none";
}

// ---- One pass -----------------------------------------------------------------------------------
static void release_hook(dt_hook_t *hook) {
  if (atomic_fetch_sub_explicit(&hook->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (hook->closure_free)
    hook->closure_free(hook->closure);
  dt_pattern_release(hook->pattern);
  dt__library_release(hook->library);
  dt__free(hook);
}

static bool is_name(const char *name) {
  size_t len = name ? strlen(name) : 0;
  for (size_t k = 0; k < len; k++)
    if (!isalnum((unsigned char)name[k]) && !strchr("_.-", name[k]))
      return false;
  return len > 0 && len <= MOST_NAME && name[0] != '-';
}

static dt_status_t make_hook(dt_point_t point, dt_pass_fn_t pass, void *closure,
                             const dt_pass_options_t *options, dt_hook_t **out) {
  const char *identity = options->identity ? options->identity : options->name;
  size_t name_bytes = strlen(options->name) + 1, bytes = strlen(identity) + 1;
  dt_hook_t *hook = dt__calloc(1, sizeof(*hook) + name_bytes + bytes);
  if (!hook)
    return DT_NO_MEMORY();
  hook->point = point;
  hook->priority = options->priority;
  hook->on_demand = options->on_demand;
  hook->optional = options->optional;
  hook->pass = pass;
  hook->closure = closure;
  memcpy(hook->name, options->name, name_bytes);
  hook->identity = memcpy(hook->name + name_bytes, identity, bytes);
  *out = hook;
  return NULL;
}

// ---- Lists --------------------------------------------------------------------------------------
static void release_turn(dt_turn_t *turn) {
  if (!turn || atomic_fetch_sub_explicit(&turn->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt__mutex_fini(&turn->mutex);
  (void)pthread_cond_destroy(&turn->idle);
  dt__free(turn);
}

static dt_status_t make_turn(dt_turn_t **out) {
  dt_turn_t *turn = dt__calloc(1, sizeof(*turn));
  if (!turn)
    return DT_NO_MEMORY();
  dt_status_t status = dt__mutex_init(&turn->mutex, DT_RANK_PASSES);
  if (status) {
    dt__free(turn);
    return status;
  }
  dt__cond_init(&turn->idle);
  turn->refs = 1;
  *out = turn;
  return NULL;
}

// A list with room for `most`; it takes the reference to `turn`, and keeps none on failure.
static dt_hooks_t *make_list(dt_turn_t *turn, uint32_t most) {
  dt_hooks_t *list = dt__calloc(1, sizeof(*list) + most * sizeof(list->hooks[0]));
  if (!list) {
    release_turn(turn);
    return NULL;
  }
  list->refs = 1;
  list->turn = turn;
  return list;
}

static dt_hooks_t *list_beside(const dt_hooks_t *hooks, uint32_t most) {
  (void)atomic_fetch_add_explicit(&hooks->turn->refs, 1, memory_order_relaxed);
  dt_hooks_t *list = make_list(hooks->turn, most);
  if (list)
    list->ops = dt__op_list_retain(hooks->ops);
  return list;
}

static void push(dt_hooks_t *list, dt_hook_t *hook) {
  (void)atomic_fetch_add_explicit(&hook->refs, 1, memory_order_relaxed);
  list->hooks[list->n++] = hook;
}

dt_status_t dt__hooks_create(dt_hooks_t **out) {
  dt_turn_t *turn = NULL;
  *out = NULL;
  DT_TRY(make_turn(&turn));
  *out = make_list(turn, 0);
  return *out ? NULL : DT_NO_MEMORY();
}

dt_hooks_t *dt__hooks_retain(dt_hooks_t *hooks) {
  (void)atomic_fetch_add_explicit(&hooks->refs, 1, memory_order_relaxed);
  return hooks;
}

void dt__hooks_release(dt_hooks_t *hooks) {
  if (!hooks || atomic_fetch_sub_explicit(&hooks->refs, 1, memory_order_acq_rel) != 1)
    return;
  for (uint32_t k = 0; k < hooks->n; k++)
    release_hook(hooks->hooks[k]);
  dt__op_list_release(hooks->ops);
  release_turn(hooks->turn);
  dt__free(hooks);
}

static const dt_hook_t *find(const dt_hooks_t *hooks, const char *name, size_t len) {
  for (uint32_t k = 0; k < hooks->n; k++)
    if (strlen(hooks->hooks[k]->name) == len && memcmp(hooks->hooks[k]->name, name, len) == 0)
      return hooks->hooks[k];
  return NULL;
}

static bool comes_before(const dt_hook_t *a, const dt_hook_t *b) {
  return a->point != b->point ? a->point < b->point : a->priority < b->priority;
}

static dt_status_t add(const dt_hooks_t *hooks, dt_point_t point, dt_pass_fn_t pass, void *closure,
                       const dt_pass_options_t *options, dt_library_t *library, dt_hooks_t **out,
                       dt_hook_t **made) {
  const char *name = options->name;
  if (strcmp(dt_point_name(point), "none") == 0)
    return DT_FAIL(DT_E_ARGUMENT, "point %d; expected one of DT_POINT_*", (int)point);
  if (!is_name(name))
    return DT_FAIL(DT_E_ARGUMENT,
                   "name: %s%.64s%s; expected 1 to %d letters, digits, _, - and ., the first no -",
                   name ? "\"" : "", name ? name : "NULL", name ? "\"" : "", MOST_NAME);
  if (find(hooks, name, strlen(name)))
    return DT_FAIL(DT_E_ARGUMENT, "name: the runtime has a pass \"%s\" already", name);
  dt_hooks_t *list = list_beside(hooks, hooks->n + 1);
  dt_hook_t *hook = NULL;
  dt_status_t status = list ? make_hook(point, pass, closure, options, &hook) : DT_NO_MEMORY();
  if (status) {
    dt__hooks_release(list);
    return status;
  }
  hook->library = dt__library_retain(library);
  uint32_t at = 0;
  while (at < hooks->n && !comes_before(hook, hooks->hooks[at]))
    at++;
  for (uint32_t k = 0; k <= hooks->n; k++)
    push(list, k < at ? hooks->hooks[k] : k == at ? hook : hooks->hooks[k - 1]);
  *out = list;
  *made = hook;
  return NULL;
}

dt_status_t dt__hooks_add(const dt_hooks_t *hooks, dt_point_t point, dt_pass_fn_t pass,
                          void *closure, const dt_pass_options_t *options, dt_library_t *library,
                          dt_hooks_t **out) {
  dt_hook_t *made = NULL;
  *out = NULL;
  if (!pass)
    return DT_FAIL(DT_E_ARGUMENT, "pass: NULL");
  DT_TRY(add(hooks, point, pass, closure, options, library, out, &made));
  made->closure_free = options->closure_free;
  return NULL;
}

dt_pass_options_t dt__pattern_options(const dt_pattern_t *pattern) {
  return (dt_pass_options_t){.name = pattern->name,
                             .identity = pattern->identity,
                             .priority = pattern->priority,
                             .on_demand = pattern->on_demand};
}

dt_status_t dt__hooks_add_pattern(const dt_hooks_t *hooks, dt_pattern_t *pattern,
                                  const dt_pass_options_t *options, dt_library_t *library,
                                  dt_hooks_t **out) {
  dt_hook_t *made = NULL;
  *out = NULL;
  DT_TRY(add(hooks, pattern->point, NULL, NULL, options, library, out, &made));
  made->pattern = dt__pattern_retain(pattern);
  return NULL;
}

dt_pattern_t *dt__hooks_pattern(const dt_hooks_t *hooks, const char *name) {
  const dt_hook_t *hook = find(hooks, name, strlen(name));
  return hook ? hook->pattern : NULL;
}

dt_status_t dt__hooks_remove(const dt_hooks_t *hooks, const char *name, dt_hooks_t **out) {
  *out = NULL;
  const dt_hook_t *gone = name ? find(hooks, name, strlen(name)) : NULL;
  if (!gone)
    return DT_FAIL(DT_E_ARGUMENT, "name: %s%.64s; expected that of a pass of the runtime",
                   name ? "no pass is named " : "NULL", name ? name : "");
  dt_hooks_t *list = list_beside(hooks, hooks->n);
  if (!list)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < hooks->n; k++)
    if (hooks->hooks[k] != gone)
      push(list, hooks->hooks[k]);
  *out = list;
  return NULL;
}

dt_status_t dt__hooks_remove_library(const dt_hooks_t *hooks, const dt_library_t *library,
                                     dt_hooks_t **out) {
  dt_op_list_t *ops = NULL;
  *out = NULL;
  DT_TRY(dt__op_list_remove_library(hooks->ops, library, &ops));
  dt_hooks_t *list = list_beside(hooks, hooks->n);
  if (!list) {
    dt__op_list_release(ops);
    return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < hooks->n; k++)
    if (hooks->hooks[k]->library != library)
      push(list, hooks->hooks[k]);
  dt__op_list_release(list->ops);
  list->ops = ops;
  *out = list;
  return NULL;
}

dt_status_t dt__hooks_with_ops(const dt_hooks_t *hooks, dt_op_list_t *ops, dt_hooks_t **out) {
  *out = list_beside(hooks, hooks->n);
  if (!*out)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < hooks->n; k++)
    push(*out, hooks->hooks[k]);
  dt__op_list_release((*out)->ops);
  (*out)->ops = dt__op_list_retain(ops);
  return NULL;
}

// ---- Choice -------------------------------------------------------------------------------------
// The next word of a list; false behind the last.
static bool next_word(const char **at, const char **word, size_t *len) {
  while (**at == ',' || **at == ' ')
    (*at)++;
  *word = *at;
  *len = strcspn(*at, ", ");
  *at += *len;
  return *len > 0;
}

static bool is_chosen(const dt_hook_t *hook, const char *chosen) {
  bool is = !hook->on_demand;
  const char *word;
  size_t len;
  for (const char *at = chosen ? chosen : ""; next_word(&at, &word, &len);) {
    bool off = word[0] == '-';
    if (strlen(hook->name) == len - off && memcmp(hook->name, word + off, len - off) == 0)
      is = !off;
  }
  return is;
}

dt_status_t dt__hooks_choose(const dt_hooks_t *hooks, const char *chosen, dt_hooks_t **out) {
  *out = NULL;
  const char *word;
  size_t len;
  for (const char *at = chosen ? chosen : ""; next_word(&at, &word, &len);) {
    bool off = word[0] == '-';
    if (!find(hooks, word + off, len - off))
      return DT_FAIL(DT_E_ARGUMENT, "passes: the runtime has no pass \"%.*s\"",
                     (int)(len - off < 64 ? len - off : 64), word + off);
  }
  dt_hooks_t *list = list_beside(hooks, hooks->n);
  if (!list)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < hooks->n; k++)
    if (is_chosen(hooks->hooks[k], chosen))
      push(list, hooks->hooks[k]);
  *out = list;
  return NULL;
}

// ---- What runs ----------------------------------------------------------------------------------
static bool is_own(const dt_hook_t *hook) { return hook->pattern && hook->pattern->find; }

typedef struct op_set_t {
  bool has[DT_OP_COUNT];
} op_set_t;

static void add_ops(const dt_graph_t *graph, op_set_t *set) {
  for (uint32_t k = 0; k < graph->nodes.len; k++)
    set->has[(uint32_t)graph->nodes.items[k].op % DT_OP_COUNT] = true;
  for (uint32_t k = 0; k < graph->controls.len; k++)
    for (uint32_t b = 0; b < dt__control_own_n(&graph->controls.items[k]); b++)
      add_ops(graph->controls.items[k].bodies[b], set);
}

// Whether a pattern of the library's own may have a place among these ops.
static bool may_be(const dt_pattern_t *pattern, bool strict_fp, const op_set_t *set) {
  for (uint32_t k = 0; k < pattern->n_anchors && !(strict_fp && pattern->inexact); k++)
    if (set->has[pattern->anchors[k]])
      return true;
  return false;
}

bool dt__hooks_any_user(const dt_hooks_t *hooks, dt_point_t point) {
  for (uint32_t k = 0; hooks && k < hooks->n; k++)
    if (hooks->hooks[k]->point == point && !is_own(hooks->hooks[k]))
      return true;
  return false;
}

uint32_t dt__hooks_patterns(const dt_hooks_t *hooks, dt_point_t point, bool strict_fp,
                            const dt_graph_t *graph, dt_pattern_t **list) {
  op_set_t set = {{false}};
  bool looked = false;
  uint32_t n = 0;
  for (uint32_t k = 0; hooks && k < hooks->n; k++) {
    const dt_hook_t *hook = hooks->hooks[k];
    if (hook->point != point || !hook->pattern)
      continue;
    if (is_own(hook) && !looked) {
      add_ops(graph, &set);
      looked = true;
    }
    if (is_own(hook) && !may_be(hook->pattern, strict_fp, &set))
      continue;
    if (list)
      list[n] = hook->pattern;
    n++;
  }
  return n;
}

bool dt__hooks_any(const dt_hooks_t *hooks, dt_point_t point, bool strict_fp,
                   const dt_graph_t *graph) {
  return dt__hooks_any_user(hooks, point) ||
         dt__hooks_patterns(hooks, point, strict_fp, graph, NULL) > 0;
}

void dt__hooks_key(const dt_hooks_t *hooks, dt_text_t *out) {
  bool behind = false;
  for (uint32_t k = 0; hooks && k < hooks->n; k++) {
    const dt_hook_t *hook = hooks->hooks[k];
    dt__text_printf(out, "%s %s %s %zu ", hook->pattern ? "pattern" : "pass",
                    dt_point_name(hook->point), hook->name, strlen(hook->identity));
    dt__text_put(out, hook->identity);
    dt__text_put(out, "\n");
    behind |= hook->point != DT_POINT_TRACED && !is_own(hook);
  }
  // Passes behind `traced` may put in calls of ops that the traced graph does not name.
  for (uint32_t k = 0; behind && hooks->ops && k < hooks->ops->n; k++) {
    const dt_op_options_t *op = &hooks->ops->ops[k]->options;
    dt__text_printf(out, "op %s %d %d %d ", op->name, op->kernel != NULL,
                    op->device_kernel ? (int)op->device_kernel->device : -1, op->in_place);
    for (uint32_t r = 0; r < DT_OP_MAX_RESULTS; r++)
      dt__text_printf(out, "%u,", op->updates[r]);
    dt__text_printf(out, " %zu ", strlen(op->identity));
    dt__text_put(out, op->identity);
    dt__text_put(out, "\n");
  }
}

// ---- Turns --------------------------------------------------------------------------------------
static uintptr_t own_address(void) {
  static _Thread_local char own;
  return (uintptr_t)&own;
}

dt_status_t dt__turn_outside(const dt_turn_t *turn, const char *what) {
  if (atomic_load_explicit(&turn->thread, memory_order_relaxed) != own_address())
    return NULL;
  return DT_FAIL(DT_E_STATE, "a pass of the runtime called for %s, which would wait for the pass",
                 what);
}

dt_status_t dt__hooks_enter(const dt_hooks_t *hooks, dt_watch_t *watch) {
  dt_turn_t *turn = hooks->turn;
  DT_TRY(dt__turn_outside(turn, "another pass"));
  dt_status_t status = NULL;
  dt__mutex_lock(&turn->mutex);
  while (turn->busy && !status) {
    dt__cond_wait_until(&turn->idle, &turn->mutex, dt__now_ns() + LOOK_NS);
    status = dt__watch_check(watch);
  }
  if (!status) {
    turn->busy = true;
    atomic_store_explicit(&turn->thread, own_address(), memory_order_relaxed);
  }
  dt__mutex_unlock(&turn->mutex);
  return status;
}

void dt__hooks_leave(const dt_hooks_t *hooks) {
  dt_turn_t *turn = hooks->turn;
  dt__mutex_lock(&turn->mutex);
  turn->busy = false;
  atomic_store_explicit(&turn->thread, 0, memory_order_relaxed);
  (void)pthread_cond_signal(&turn->idle);
  dt__mutex_unlock(&turn->mutex);
}

// ---- A runtime's list ---------------------------------------------------------------------------
dt_status_t dt__hooks_change(dt_turn_t *turn, dt_hooks_t **hooks, const char *what,
                             dt_hooks_make_fn_t make, void *arg) {
  dt_hooks_t *made = NULL, *old = NULL;
  DT_TRY(dt__turn_outside(turn, what));
  dt__mutex_lock(&turn->mutex);
  dt_status_t status = make(arg, *hooks, &made);
  if (!status) {
    old = *hooks;
    *hooks = made;
  }
  dt__mutex_unlock(&turn->mutex);
  dt__hooks_release(old); // may free closures
  return status;
}

dt_hooks_t *dt__hooks_share(dt_turn_t *turn, dt_hooks_t *const *hooks) {
  dt__mutex_lock(&turn->mutex);
  dt_hooks_t *share = dt__hooks_retain(*hooks);
  dt__mutex_unlock(&turn->mutex);
  return share;
}

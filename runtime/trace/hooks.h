// SPDX-License-Identifier: Apache-2.0
// Passes of users as the library keeps them: what was added to a runtime, and the list that a
// function was made with; with it goes the list of their ops. Lists never change; who changes the
// runtime's makes another one.
#ifndef DT_RUNTIME_TRACE_HOOKS_H
#define DT_RUNTIME_TRACE_HOOKS_H

#include "ductile/pass.h"
#include "lower/graph/graph.h"
#include "runtime/base/library.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"
#include "runtime/base/watch.h"

#include <stdatomic.h>

// What all passes of a runtime share: one runs at a time. No mutex is held while it does.
typedef struct dt_turn_t {
  _Atomic uint32_t refs;
  dt_mutex_t mutex;
  pthread_cond_t idle;
  bool busy;                // guarded by the mutex
  _Atomic uintptr_t thread; // that a pass runs on (an address that only it has); 0: none does
} dt_turn_t;

typedef struct dt_hook_t {
  _Atomic uint32_t refs;
  dt_point_t point;
  int32_t priority;
  bool on_demand, optional;
  dt_pass_fn_t pass;
  void *closure;
  void (*closure_free)(void *closure);
  dt_library_t *library;      // that its code is in; a share; NULL: none
  struct dt_pattern *pattern; // a share; NULL: it is a pass
  const char *identity;       // behind the name, in the same block
  char name[];
} dt_hook_t;

// In the order in which they run: by point, priority, and as added.
typedef struct dt_hooks_t {
  _Atomic uint32_t refs;
  dt_turn_t *turn;
  struct dt_op_list_t *ops; // a share; NULL: none
  uint32_t n;
  dt_hook_t *hooks[];
} dt_hooks_t;

// An empty list with a turn of its own.
dt_status_t dt__hooks_create(dt_hooks_t **out) DT_MUST_USE;
dt_hooks_t *dt__hooks_retain(dt_hooks_t *hooks);
void dt__hooks_release(dt_hooks_t *hooks); // NULL allowed; passes in no other list are freed
// `hooks` and one more; `options` are complete. DT_E_ARGUMENT, DT_E_NO_MEMORY.
// `library` brought it; NULL: none did.
dt_status_t dt__hooks_add(const dt_hooks_t *hooks, dt_point_t point, dt_pass_fn_t pass,
                          void *closure, const dt_pass_options_t *options, dt_library_t *library,
                          dt_hooks_t **out) DT_MUST_USE;
// `hooks` without what the library brought.
dt_status_t dt__hooks_remove_library(const dt_hooks_t *hooks, const dt_library_t *library,
                                     dt_hooks_t **out) DT_MUST_USE;
// As a pass's: its name, identity, priority and whether it is on demand.
dt_pass_options_t dt__pattern_options(const struct dt_pattern *pattern);
// The same of a pattern, in which it takes a share. Patterns of a point run behind its passes.
dt_status_t dt__hooks_add_pattern(const dt_hooks_t *hooks, struct dt_pattern *pattern,
                                  const dt_pass_options_t *options, dt_library_t *library,
                                  dt_hooks_t **out) DT_MUST_USE;
// The pattern of this name; NULL: none.
struct dt_pattern *dt__hooks_pattern(const dt_hooks_t *hooks, const char *name);
// `hooks` without the one of this name.
dt_status_t dt__hooks_remove(const dt_hooks_t *hooks, const char *name,
                             dt_hooks_t **out) DT_MUST_USE;
// `hooks` with these ops, of which it takes a share.
dt_status_t dt__hooks_with_ops(const dt_hooks_t *hooks, struct dt_op_list_t *ops,
                               dt_hooks_t **out) DT_MUST_USE;
// The passes of a function that says `chosen`, a list such as "a,-b" or NULL: passes that are not
// on demand, without those that it names with a minus, and passes on demand that it names.
// DT_E_ARGUMENT for a name that no pass has.
dt_status_t dt__hooks_choose(const dt_hooks_t *hooks, const char *chosen,
                             dt_hooks_t **out) DT_MUST_USE;
// Puts what `make` makes of the list *hooks in its place. One thread at a time changes a list, and
// none while it runs a pass of the turn: DT_E_STATE, as `what` would.
typedef dt_status_t (*dt_hooks_make_fn_t)(void *arg, const dt_hooks_t *old, dt_hooks_t **out);
dt_status_t dt__hooks_change(dt_turn_t *turn, dt_hooks_t **hooks, const char *what,
                             dt_hooks_make_fn_t make, void *arg) DT_MUST_USE;
// A share in *hooks, which other threads may change.
dt_hooks_t *dt__hooks_share(dt_turn_t *turn, dt_hooks_t *const *hooks);
// Whether something runs at the point: passes and patterns of users, or such of the library's own
// patterns as may have a place in the graph. `strict_fp`: inexact ones do not run. `hooks` may be
// NULL: nothing.
bool dt__hooks_any(const dt_hooks_t *hooks, dt_point_t point, bool strict_fp,
                   const dt_graph_t *graph);
// The same, of passes and patterns of users alone.
bool dt__hooks_any_user(const dt_hooks_t *hooks, dt_point_t point);
// The patterns of the point that run on the graph, into `list`, which has room for all; their
// number.
uint32_t dt__hooks_patterns(const dt_hooks_t *hooks, dt_point_t point, bool strict_fp,
                            const dt_graph_t *graph, struct dt_pattern **list);
// Waits until no pass of the runtime runs, and lets no other begin. DT_E_STATE where the calling
// thread runs one, or what ends the watch (NULL: nothing does) in the meantime.
dt_status_t dt__hooks_enter(const dt_hooks_t *hooks, dt_watch_t *watch) DT_MUST_USE;
void dt__hooks_leave(const dt_hooks_t *hooks);
// DT_E_STATE where the calling thread runs a pass of this runtime: `what` would wait for it.
dt_status_t dt__turn_outside(const dt_turn_t *turn, const char *what) DT_MUST_USE;
// What code depends on: points, names, identities, in order; and ops, which passes may call.
void dt__hooks_key(const dt_hooks_t *hooks, dt_text_t *out);

#endif // DT_RUNTIME_TRACE_HOOKS_H

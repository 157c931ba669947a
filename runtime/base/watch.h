// SPDX-License-Identifier: Apache-2.0
// What one compile may take, and whether anyone still waits for it. Whoever traces, lowers, fuses
// or emits looks at it: between passes, inside of long ones, between units. Arenas that have a
// watch count their blocks with it, so that a pass that grows too large fails as if memory had run
// out; dt__watch_explain then says what really ended it.
#ifndef DT_RUNTIME_BASE_WATCH_H
#define DT_RUNTIME_BASE_WATCH_H

#include "ductile/base.h"

#include <stdatomic.h>

// 0: no limit.
typedef struct dt_watch_limits_t {
  uint64_t max_ns;    // processor time, over all threads that work for it, tracing included
  uint64_t max_bytes; // held at any one time, as far as it is counted: docs/limits.md
  uint32_t max_nodes; // of the traced graph
} dt_watch_limits_t;

// In its user's memory; no part of it needs to be released.
typedef struct dt_watch_t {
  dt_watch_limits_t limits; // set by dt__watch_init alone
  _Atomic uint64_t ns;      // used so far, as far as threads have told
  _Atomic uint64_t bytes;   // held
  _Atomic uint64_t most;    // the most that was held at any one time
  _Atomic uint64_t refused; // bytes that were over the limit with what was held; 0: none were
  _Atomic uint32_t stopped; // the dt_code_t that dt__watch_stop was given; 0: it goes on
  // What ends the call that works for it, or NULL; set and cleared by that call's thread while no
  // other works for it.
  struct dt_control_t *control;
} dt_watch_t;

void dt__watch_init(dt_watch_t *watch, const dt_watch_limits_t *limits); // NULL: no limits
// The calling thread begins to work for a watch: its processor time counts from here on. On
// whatever thread, at the beginning of each piece of work.
void dt__watch_enter(dt_watch_t *watch);

// NULL: go on. Else what is to end the work: DT_E_LIMIT naming a budget and how to raise it, or the
// code that stopped it. `watch` may be NULL: go on. Costs a look at a thread's clock: not for every
// instruction.
dt_status_t dt__watch_check(dt_watch_t *watch) DT_MUST_USE;
// Whether there is anything to end the work for, without a status of its own.
bool dt__watch_is_over(dt_watch_t *watch);
// Nobody waits for it any more: the next check gives `code`. From any thread and any signal
// handler.
void dt__watch_stop(dt_watch_t *watch, dt_code_t code);

// Counts memory. False: the work is to end, and nothing was counted.
bool dt__watch_take(dt_watch_t *watch, uint64_t bytes);
void dt__watch_give(dt_watch_t *watch, uint64_t bytes);

// What a failure means: where memory was refused by the watch, or the work was ended by it, what
// dt__watch_check says; else `status` as it is. Consumes `status`; NULL stays NULL.
dt_status_t dt__watch_explain(dt_watch_t *watch, dt_status_t status) DT_MUST_USE;

#endif // DT_RUNTIME_BASE_WATCH_H

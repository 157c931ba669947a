// SPDX-License-Identifier: Apache-2.0
// Updates of arguments where the host does not see a failed check before they are queued.
#ifndef DT_FUSE_COMMIT_H
#define DT_FUSE_COMMIT_H

#include "lower/loop/loop.h"

// Puts a kernel before those that update arguments, and behind all others, that stores to a gate
// whether all checks held; the gate becomes theirs. Nothing changes where there are no updates or
// no checks. After segments are made.
dt_status_t dt__gate_updates(dt_program_t *program) DT_MUST_USE;

#endif // DT_FUSE_COMMIT_H

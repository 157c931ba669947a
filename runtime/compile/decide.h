// SPDX-License-Identifier: Apache-2.0
// Deciders: one compiled function over the guard programs of many variants.
#ifndef DT_RUNTIME_COMPILE_DECIDE_H
#define DT_RUNTIME_COMPILE_DECIDE_H

#include "guards/guards.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/jobs.h"

// Finds the program whose guards hold first: its index with `symbols` filled as dt__guards_run
// leaves them, or -1. Takes no lock, allocates nothing.
typedef int64_t (*dt_decide_fn_t)(const dt_guard_args_t *args, int64_t *symbols);

// The decider over `n` programs, the first of highest rank. On a compile thread. `*out_fn` is code
// of `*out_native`, which the caller owns. The programs are only read and not kept.
dt_status_t dt__decide_compile(const dt_compiler_t *compiler, const dt_guards_t *const *programs,
                               uint32_t n, const char *name, dt_native_t **out_native,
                               dt_decide_fn_t *out_fn) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_DECIDE_H

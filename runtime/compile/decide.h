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

// A decider to be kept, for a CPU of that name: an entry, which names all that it decides by, and
// the bytes of its code. On a compile thread. *out is the caller's, also on failure
// (dt__entry_fini).
dt_status_t dt__decide_entry(const dt_compiler_t *compiler, const dt_guards_t *const *programs,
                             uint32_t n, const char *name, const char *cpu,
                             dt_entry_t *out) DT_MUST_USE;
// Such an entry of `n` programs.
typedef struct dt_decide_kept_t {
  uint32_t n;
  const void *data; // NULL: there is none
  size_t bytes;
  dt_code_bytes_t code;
} dt_decide_kept_t;
// Loads it as dt__decide_compile would make it, if it decides between just these programs; else
// *out_native is NULL. DT_E_FORMAT.
dt_status_t dt__decide_find(const dt_decide_kept_t *kept, const dt_guards_t *const *programs,
                            uint32_t n, dt_native_t **out_native,
                            dt_decide_fn_t *out_fn) DT_MUST_USE;
// Loads it, whatever it decides between, and runs nothing; for tests.
dt_status_t dt__decide_load(const dt_decide_kept_t *kept) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_DECIDE_H

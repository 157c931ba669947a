// SPDX-License-Identifier: Apache-2.0
// A planned program as machine code, each kernel of which runs over copies of its buffers: every
// buffer lies alone between pages that nobody may touch, by turns at the first and at the last of
// its pages' bytes; one that the kernel does not write cannot be written; what it is the first to
// write, and its scratch, hold bytes that are no one's. So an access outside of a buffer ends the
// process or changes the bytes around it, and one of what was not yet written changes the answer.
// The addresses that the host program gives a kernel are compared with the plan's on the way.
#ifndef DT_TESTS_CONFORM_GUARDED_H
#define DT_TESTS_CONFORM_GUARDED_H

#include "backend_llvm/emit/compile.h"
#include "lower/loop/loop.h"

typedef struct guarded_t guarded_t;

// Compiles all units. The program, which is kept, must stay; it is for `target`, a CPU.
dt_status_t guarded_create(dt_program_t *program, const dt_target_t *target,
                           const dt_compile_options_t *options, guarded_t **out) DT_MUST_USE;
void guarded_destroy(guarded_t *guarded); // NULL allowed

// One call over values by symbol (items are bound in it) and memory that may lie anywhere. `number`
// chooses where copies lie and what is in memory that nobody wrote. DT_E_INTERNAL: what lies around
// a buffer was changed, or a kernel was called with other addresses than the plan's. `note`, of
// GUARDED_NOTE bytes, says whose memory was touched when the call does not come back.
#define GUARDED_NOTE 200
dt_status_t guarded_call(guarded_t *guarded, int64_t *symbols, void *const *inputs,
                         void *const *outputs, uint32_t number, char *note) DT_MUST_USE;
uint64_t guarded_launches(const guarded_t *guarded);

#endif // DT_TESTS_CONFORM_GUARDED_H

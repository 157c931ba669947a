// SPDX-License-Identifier: Apache-2.0
// The program of code that was compiled before: compiles throw theirs away, and no kept code or
// package has it. The stages up to the plan make it once more, without a code generator.
#ifndef DT_RUNTIME_COMPILE_AGAIN_H
#define DT_RUNTIME_COMPILE_AGAIN_H

#include "backend_llvm/units/units.h"
#include "lower/loop/loop.h"
#include "runtime/compile/compile.h"

typedef struct dt_again_t {
  dt_arena_t arena;
  dt_symenv_t *env;      // a clone of the traced one
  dt_program_t *program; // in the arena
  dt_unit_map_t map;     // of its codes
  dt_target_t target;
} dt_again_t;

// The request says what was compiled: its traced program, strict_fp, codegen and device; `observe`
// is as in dt_pipeline_request_t, and may be called for several programs, of which the last counts:
// a stage of order 0 begins one. *out is the caller's, also on failure (dt__again_fini).
// DT_E_UNSUPPORTED: no target that this runtime knows gives the program of `compiled`. Not on a
// compile thread.
dt_status_t dt__compile_again(dt_compiler_t *compiler, const dt_compile_request_t *request,
                              const dt_compiled_t *compiled, dt_stage_observer_t observe,
                              void *user, dt_again_t *out) DT_MUST_USE;
void dt__again_fini(dt_again_t *again); // zeroed ones, too

#endif // DT_RUNTIME_COMPILE_AGAIN_H

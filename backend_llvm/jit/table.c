// SPDX-License-Identifier: Apache-2.0
// What the code generator is, and who has made it.
#include "backend_llvm/emit/compile.h"
#include "backend_llvm/emit/decide.h"
#include "backend_llvm/jit/core.h"
#include "runtime/base/build.h"

#include <dlfcn.h>

// LLVM's own file, or, where it is linked into another, that one.
static dt_status_t maker(dt_text_t *out_file, dt_text_t *out_build) {
  unsigned major = 0, minor = 0, patch = 0;
  bool shared = false;
  union {
    void (*function)(unsigned *, unsigned *, unsigned *);
    void *address; // of one size wherever LLVM runs; ISO C has no cast for it
  } inside = {.function = LLVMGetVersion};
  Dl_info info;
  LLVMGetVersion(&major, &minor, &patch);
  dt__text_put(out_file, dladdr(inside.address, &info) && info.dli_fname ? info.dli_fname : "");
  dt__text_printf(out_build, "LLVM %u.%u.%u ", major, minor, patch);
  dt__build_put(inside.address, out_build, &shared);
  out_build->failed = false; // what has no build id has its version
  return dt__text_status(out_file);
}

const dt_jit_t dt__jit_table = {.compile_unit = dt__llvm_compile_unit,
                                .compile_decider = dt__llvm_compile_decider,
                                .maker = maker,
                                .devices = dt__jit_devices};

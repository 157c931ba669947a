// SPDX-License-Identifier: Apache-2.0
// The code generator as the rest of the library sees it. It stands in a file of its own,
// libductile-jit.so, with everything that needs LLVM, and is opened when the first code must be
// made; a process that finds all of its code on disk, or has workers make it, never opens it.
// Programs of the project's own have it in themselves instead (inside.c).
//
// The file has no copy of the library's code or state: it is handed the addresses of all functions
// that it calls (core.h). A file of another build is refused.
#ifndef DT_BACKEND_LLVM_JIT_JIT_H
#define DT_BACKEND_LLVM_JIT_JIT_H

#include "backend_llvm/units/units.h"
#include "guards/tree.h"

// Code for a kind of device: units of kernels, as bytes that the caller owns (dt__free), with a
// zero behind them; and how a code is launched, as that device's runtime has it.
typedef struct dt_jit_device_t {
  dt_status_t (*compile_unit)(const dt_program_t *program, const dt_unit_map_t *map, uint32_t unit,
                              const dt_target_t *target, const dt_compile_options_t *options,
                              char **out, size_t *out_bytes);
  dt_status_t (*describe)(dt_program_t *program, const dt_unit_map_t *map, uint32_t code,
                          const dt_target_t *target, void *out);
} dt_jit_device_t;

// All of it on compile threads; emit/compile.h and emit/decide.h say what they do.
typedef struct dt_jit_t {
  dt_status_t (*compile_unit)(const dt_program_t *program, const dt_unit_map_t *map, uint32_t unit,
                              const dt_target_t *target, const dt_compile_options_t *options,
                              void **out_object, size_t *out_bytes);
  dt_status_t (*compile_decider)(const dt_tree_t *tree, const dt_target_t *target,
                                 const dt_compile_options_t *options, void **out_object,
                                 size_t *out_bytes);
  // The file that LLVM is in, as the loader knows it, and "LLVM 22.1.0 " with that file's build.
  dt_status_t (*maker)(dt_text_t *out_file, dt_text_t *out_build);
  const dt_jit_device_t *const *devices; // by dt_device_t; NULL: there is none
} dt_jit_t;

// Which build of the code generator belongs to this library, and no other.
const char *dt__jit_identity(void);
// The code generator, opened if nobody has opened it: at `path`, or where it is looked for ("" or
// NULL). DT_E_UNSUPPORTED names the file, where it was looked for and what to do. On compile
// threads: LLVM is loaded by it.
dt_status_t dt__jit_open(const char *path, const dt_jit_t **out) DT_MUST_USE;
// What was opened; NULL: nothing yet. [any]
const dt_jit_t *dt__jit(void);
// The file that would be opened: *out (dt__free); NULL: the loader may find one, "": none is
// needed.
dt_status_t dt__jit_find(const char *path, char **out) DT_MUST_USE;
// The file that is open, as the loader knows it.
const char *dt__jit_file(void);

#endif // DT_BACKEND_LLVM_JIT_JIT_H

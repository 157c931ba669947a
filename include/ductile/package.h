// SPDX-License-Identifier: Apache-2.0
// Packages: compiled functions in one file, for processes and machines without a compiler. A
// package holds the variants that its functions had when it was written: their guards, their
// machine code for each level of CPUs and devices that was asked for, and the constants. Who opens
// it calls functions as in the process that wrote it, and no code is generated. docs/package.md has
// the format.
//
// A package is code: open only what you trust. Its parts carry sums against damage; against malice
// there is the callback `verify`, which sees all bytes before any of them is used.
#ifndef DUCTILE_PACKAGE_H
#define DUCTILE_PACKAGE_H

#include "ductile/function.h"

#ifdef __cplusplus
extern "C" {
#endif

// An open package. Its functions keep what they need of it.
typedef struct dt_package dt_package_t;

// Valid when zeroed.
typedef struct dt_package_write_options_t {
  uint32_t struct_size; // sizeof(dt_package_write_options_t); 0: the size of the first version
  // Levels of CPUs to make code for, such as "v2,v3,v4": those of x86-64, as its ABI defines them,
  // and v3+vnni and v4+vnni, with AVX-VNNI and AVX512-VNNI. A process takes the best that its
  // machine has, the last in v2, v3, v3+vnni, v4, v4+vnni. NULL: "v3,v4". In the same list may be
  // architectures of devices, such as "v3,sm_80,sm_90a": code for sm_80 runs on that and on newer
  // devices, code for sm_90a on that alone. No device need be there.
  const char *levels;
  // Weights that lie in one of these files, mapped as it is now, are not written: the package says
  // where they are, by the file's path from the package's folder, and needs the file from then on.
  // For a model these are its own file and those of its external data, opened with DT_ONNX_MAP.
  // NULL: all weights are in the package.
  const char *const *files;
  uint32_t n_files;
  // Without what is computed from weights alone for each level, such as packed operands: a smaller
  // file, but each process that opens it computes that, in memory of its own.
  bool no_forms;
} dt_package_write_options_t;

// Writes a package with `n` functions of different names. Each has its variants for the CPU or, if
// it was called on a device alone, for that; one that has none is traced and compiled first, as
// dt_function_prepare does. The code is made anew for each level, and for no machine in particular:
// the same functions, levels and build give the same bytes. Constants are as last updated. `path`
// is the old file or the new one, whole, whatever happens. `options` may be NULL. DT_E_ARGUMENT;
// DT_E_UNSUPPORTED: captured integers, answers of the evaluator, a build without code generator;
// DT_E_IO; and what compiles give. [any]
DT_API dt_status_t dt_package_write(const char *path, dt_function_t *const *functions, uint32_t n,
                                    const dt_package_write_options_t *options) DT_MUST_USE;

// Valid when zeroed.
typedef struct dt_package_options_t {
  uint32_t struct_size; // sizeof(dt_package_options_t); 0: the size of the first version
  // The file is read into memory. Otherwise it is mapped: pages come when they are touched and are
  // shared between processes; who shortens the file then ends this process (SIGBUS). Replace it by
  // renaming another one, as dt_package_write does.
  bool copy;
  // Looks at all bytes before anything of them is used, such as at a signature that is kept beside.
  // What it returns, if not NULL, is the failure of opening. NULL: nobody looks.
  dt_status_t (*verify)(void *user, const void *data, size_t bytes);
  void *user;
  // The folder from which the package names files with weights (dt_package_write_options_t.files).
  // NULL: that of its path; without a path such a package makes no functions.
  const char *folder;
} dt_package_options_t;

// Opens a package for functions of `runtime`, which it keeps alive. `options` may be NULL. On
// failure *out is NULL: DT_E_IO; DT_E_FORMAT: it is no package, or damaged; DT_E_UNSUPPORTED: it
// was written for another ABI number, which the message names; what `verify` gives. [any]
DT_API dt_status_t dt_package_open(dt_runtime_t *runtime, const char *path,
                                   const dt_package_options_t *options,
                                   dt_package_t **out) DT_MUST_USE;
// The same of an open file, which stays the caller's, from its first byte on. [any]
DT_API dt_status_t dt_package_open_descriptor(dt_runtime_t *runtime, int descriptor,
                                              const dt_package_options_t *options,
                                              dt_package_t **out) DT_MUST_USE;
// The same of bytes in memory, at an address that 64 divides. They are borrowed, and must not
// change, until the package and the last of its functions are released; unless options->copy.
// [any]
DT_API dt_status_t dt_package_open_memory(dt_runtime_t *runtime, const void *data, size_t bytes,
                                          const dt_package_options_t *options,
                                          dt_package_t **out) DT_MUST_USE;
DT_API void dt_package_release(dt_package_t *package); // NULL allowed [any]

// How many functions it has; 0 for NULL. [any]
DT_API uint32_t dt_package_n_functions(const dt_package_t *package);
// NULL if there is no such index; lives as long as the package. [any]
DT_API const char *dt_package_function_name(const dt_package_t *package, uint32_t index);

// Makes the function called `name` (NULL: the only one) with its variants, for this machine's best
// level. Sums of its code and of its constants are looked at here. If the package has code for
// devices, too, all that is done where it is first called, or prepared, on the CPU or on a device,
// for that place; what is said below of levels and of damage is then told there. Inputs, results,
// `dynamic` and `strict_fp` are the package's; of `options`, which may be NULL, those and `answer`
// must be 0, the rest is as for dt_function_create. Calls that no variant covers compile one where
// this build has a code generator, from the first variant's graph; else the function is frozen
// (dt_function_freeze). On failure *out is NULL: DT_E_ARGUMENT: no such function; DT_E_UNSUPPORTED:
// no level of the package runs on this machine; DT_E_FORMAT: damaged; DT_E_STATE: a user's op is
// not registered. [any]
DT_API dt_status_t dt_package_function(dt_package_t *package, const char *name,
                                       const dt_function_options_t *options,
                                       dt_function_t **out) DT_MUST_USE;

// Describes the package as text for people: who wrote it, levels, functions with their inputs,
// variants with their guards, bytes of code and constants. *out is released with dt_text_free.
// [any]
DT_API dt_status_t dt_package_report_text(const dt_package_t *package, char **out) DT_MUST_USE;
// The same as JSON lines: objects whose "event" is "package", "function", "input", "output",
// "variant" or "constants". [any]
DT_API dt_status_t dt_package_report_json(const dt_package_t *package, char **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_PACKAGE_H

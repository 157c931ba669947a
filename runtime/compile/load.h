// SPDX-License-Identifier: Apache-2.0
// Loads machine code, from a code generator or from disk, into a dt_compiled_t. No LLVM here. The
// caller owns what was filled in, also on failure (dt__compiled_destroy).
#ifndef DT_RUNTIME_COMPILE_LOAD_H
#define DT_RUNTIME_COMPILE_LOAD_H

#include "runtime/base/stream.h"
#include "runtime/compile/compile.h"

// Native objects; that of the host program is the last. Copied.
dt_status_t dt__load_objects(const dt_object_t *objects, uint32_t n,
                             dt_compiled_t *out) DT_MUST_USE;
// One image, in which are all of them, and whose bytes are `code`: mapped where that is in an open
// file. DT_E_FORMAT: they are not its.
dt_status_t dt__load_image(const dt_image_t *image, const dt_code_bytes_t *code,
                           dt_compiled_t *out) DT_MUST_USE;
dt_status_t dt__load_native(const dt_image_t *image, const dt_code_bytes_t *code,
                            dt_native_t **out) DT_MUST_USE;
// An image but for its bytes.
void dt__image_store(dt_stream_t *s, dt_image_t *image);
// Entries dt_k0 … dt_k<n-1> of the native objects.
dt_status_t dt__load_kernels(const uint32_t *unit_of_code, uint32_t n,
                             dt_compiled_t *out) DT_MUST_USE;
// Entry points of the host program.
dt_status_t dt__load_host(uint32_t n_segments, dt_compiled_t *out) DT_MUST_USE;
// What new code says of itself, by calling it: the version of its frames, checked, and the scratch
// that ONCE kernels need. Entries have it in words, so that what was kept is loaded and not run.
dt_status_t dt__load_numbers(dt_compiled_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_COMPILE_LOAD_H

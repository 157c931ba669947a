// SPDX-License-Identifier: Apache-2.0
// Which build of a program or shared library some code is of. [any]
#ifndef DT_RUNTIME_BASE_BUILD_H
#define DT_RUNTIME_BASE_BUILD_H

#include "runtime/base/text.h"

// The build id, in hexadecimal digits, of the object that has the address `inside`, and whether
// that is a shared library. *out is failed where the linker gave none.
void dt__build_put(const void *inside, dt_text_t *out, bool *out_shared);

// The same of a file on disk. *out is failed where it has none, or cannot be read.
void dt__build_put_file(const char *path, dt_text_t *out);

#endif // DT_RUNTIME_BASE_BUILD_H

// SPDX-License-Identifier: Apache-2.0
// Element types as numpy and the buffer protocol name them.
#ifndef DUCTILE_PYTHON_DTYPE_H
#define DUCTILE_PYTHON_DTYPE_H

#include "python/src/core.h"

// Of a buffer's format and the bytes of an item; DT_DTYPE_NONE: none of ours, or of another order
// of bytes.
dt_dtype_t dt__py_dtype_of_format(const char *format, Py_ssize_t bytes);
// The format of elements in a buffer; NULL: buffers have no such elements.
const char *dt__py_format_of(dt_dtype_t dtype);
// "float32", "bfloat16"; NULL for a value that is no dtype.
const char *dt__py_array_name(dt_dtype_t dtype);
// By either name; DT_DTYPE_NONE: there is none.
dt_dtype_t dt__py_dtype_named(const char *name);

#endif // DUCTILE_PYTHON_DTYPE_H

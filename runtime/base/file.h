// SPDX-License-Identifier: Apache-2.0
// Reading files.
#ifndef DT_RUNTIME_BASE_FILE_H
#define DT_RUNTIME_BASE_FILE_H

#include "ductile/base.h"

// All of `bytes` from `offset` on. DT_E_IO, also where the file ends before; `what` names it.
dt_status_t dt__file_read(int fd, void *to, uint64_t bytes, uint64_t offset,
                          const char *what) DT_MUST_USE;

#endif // DT_RUNTIME_BASE_FILE_H

// SPDX-License-Identifier: Apache-2.0
// Memory in whole pages, for large things that come and go: what is given back is the system's at
// once. And pages of files. [any]
#ifndef DT_RUNTIME_BASE_PAGES_H
#define DT_RUNTIME_BASE_PAGES_H

#include "ductile/runtime.h"

// Memory with undefined contents that begins at a multiple of 64: `from`'s, where that is not NULL,
// else whole pages, but small pieces, and all under sanitizers, which are the heap's. NULL: no
// memory.
void *dt__pages_take(const dt_allocator_t *from, size_t bytes);
// As they were taken; NULL allowed.
void dt__pages_give(const dt_allocator_t *from, void *memory, size_t bytes);
// Lets the whole pages go that lie inside a range of a private mapping of a file that was only
// read: they come back from the file when they are touched.
void dt__pages_drop(const void *from, size_t bytes);

#endif // DT_RUNTIME_BASE_PAGES_H

// SPDX-License-Identifier: Apache-2.0
// Memory in whole pages, for large things that come and go: what is given back is the system's at
// once. And pages of files. [any]
#ifndef DT_RUNTIME_BASE_PAGES_H
#define DT_RUNTIME_BASE_PAGES_H

#include <stddef.h>

// Memory with undefined contents that begins at a multiple of 64: whole pages, but small pieces,
// and all under sanitizers, which are the heap's. NULL: no memory.
void *dt__pages_take(size_t bytes);
void dt__pages_give(void *memory, size_t bytes); // as they were taken; NULL allowed
// Lets the whole pages go that lie inside a range of a private mapping of a file that was only
// read: they come back from the file when they are touched.
void dt__pages_drop(const void *from, size_t bytes);

#endif // DT_RUNTIME_BASE_PAGES_H

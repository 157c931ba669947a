// SPDX-License-Identifier: Apache-2.0
// Memory for code: written through one view and run through another, or first the one and then the
// other. No mapping is ever writable and executable. [any]
#ifndef DT_BACKEND_LLVM_LOAD_CODE_H
#define DT_BACKEND_LLVM_LOAD_CODE_H

#include "ductile/base.h"

// Ways to have it, in the order in which they are tried.
typedef enum dt_code_way_t {
  // Memory of the process that becomes executable when it is written.
  DT_CODE_PROTECT = 0,
  // A file in memory, mapped twice, where what was writable may not become executable
  // (MemoryDenyWriteExecute, prctl PR_SET_MDWE). The writable view goes before the code runs.
  DT_CODE_TWICE = 1,
  DT_CODE_WAYS = 2,
} dt_code_way_t;

typedef struct dt_code_memory_t {
  void *base; // where it runs; NULL: nothing is mapped
  void *to;   // where it is written, until it is finished
  size_t bytes;
  bool of_file;
} dt_code_memory_t;

// Zeroed memory of at least `bytes`. DT_E_NO_MEMORY; DT_E_UNSUPPORTED: the system does not allow
// this way (here or in finish).
dt_status_t dt__code_map(dt_code_way_t way, size_t bytes, dt_code_memory_t *out) DT_MUST_USE;
// From now on it can be run and read, and not written.
dt_status_t dt__code_finish(dt_code_memory_t *memory) DT_MUST_USE;
// Code in an open file, at `offset`, and behind it data: both whole pages. The code runs from where
// it is; the data are this process's own, and are written at `to`, until it is finished.
// DT_E_NO_MEMORY; DT_E_UNSUPPORTED: the system does not let code run from there.
dt_status_t dt__code_map_file(int fd, uint64_t offset, size_t code_bytes, size_t data_bytes,
                              dt_code_memory_t *out) DT_MUST_USE;
dt_status_t dt__code_finish_file(dt_code_memory_t *memory, size_t code_bytes) DT_MUST_USE;
void dt__code_unmap(dt_code_memory_t *memory); // zeroed ones, too

// NULL where some way works; else DT_E_UNSUPPORTED, which says what the system forbids and what to
// do, or DT_E_NO_MEMORY.
dt_status_t dt__code_probe(void) DT_MUST_USE;

#endif // DT_BACKEND_LLVM_LOAD_CODE_H

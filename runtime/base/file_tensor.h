// SPDX-License-Identifier: Apache-2.0
// Tensors over bytes that front ends have, which know tensors from outside only. runtime/tensor
// makes them.
#ifndef DT_RUNTIME_BASE_FILE_TENSOR_H
#define DT_RUNTIME_BASE_FILE_TENSOR_H

#include "ductile/tensor.h"

// A file as it was when it was mapped: of equal stamps, equal places hold equal bytes.
typedef struct dt_file_stamp_t {
  uint64_t device, inode, bytes;
  int64_t modified[2], changed[2]; // seconds, nanoseconds
} dt_file_stamp_t;
// Whether the file was not written to between the two.
static inline bool dt__file_same(const dt_file_stamp_t *a, const dt_file_stamp_t *b) {
  return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
         a->modified[0] == b->modified[0] && a->modified[1] == b->modified[1] &&
         a->changed[0] == b->changed[0] && a->changed[1] == b->changed[1];
}
typedef struct dt_file_place_t {
  const dt_file_stamp_t *stamp; // NULL: none
  uint64_t offset;
  // Whether the bytes are those that were written, of the tensor's `owner`: asked before kernels
  // read them, by any thread, again and again. NULL: they are.
  dt_status_t (*check)(void *owner);
} dt_file_place_t;

// A contiguous tensor over `bytes` bytes at any address that are only read, and of which `owner`
// has a share, which `destroy` gets back. `place.stamp` where they are in a private mapping of a
// file that nobody writes, and lives as long: their pages may then be let go at any time. On
// failure nothing was taken.
dt_status_t dt__file_tensor(const void *data, size_t bytes, dt_dtype_t dtype, uint32_t rank,
                            const int64_t *sizes, dt_file_place_t place,
                            void (*destroy)(void *owner), void *owner,
                            dt_tensor_t **out) DT_MUST_USE;

#endif // DT_RUNTIME_BASE_FILE_TENSOR_H

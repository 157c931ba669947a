// SPDX-License-Identifier: Apache-2.0
// Elements of a kernel's tensors (op.h) by their indices: typed, and checked.
//
//   dt_accessor_t x = dt_access(args->inputs[0], DT_F32, 2);
//   dt_accessor_t y = dt_access(args->results[0], DT_F32, 2);
//   for (int64_t i = begin; i < end; i++)
//     for (int64_t j = 0; j < dt_access_size(&x, 1); j++)
//       *DT_AT_2(float, &y, i, j) = 2 * *DT_AT_2(float, &x, i, j);
//   return dt_access_status(&x, &y, NULL);
//
// A tensor of another dtype or rank, an index outside of it and an element of another size are
// kept: what is then read and written is memory that belongs to the accessor, and dt_access_status
// tells. With DT_ACCESS_UNCHECKED defined before this header, indices are not looked at.
//
// Everything is inline, for C11 and C++17. Not part of ductile.h.
#ifndef DUCTILE_ACCESSOR_H
#define DUCTILE_ACCESSOR_H

#include "ductile/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// A tensor seen as one of a dtype and rank. Belongs to one thread.
typedef struct dt_accessor_t {
  const dt_op_tensor_t *tensor;
  dt_dtype_t dtype;
  uint32_t element; // bytes
  uint32_t rank;
  int32_t bad_dim;    // of the first index that is outside: the dim; -1: none
  bool unfit;         // another dtype, rank or element
  uint32_t bad_bytes; // of the first element of another size or rank
  uint32_t bad_rank;
  int64_t bad_index;
  uint64_t nowhere[2]; // where elements that are not there are read and written
} dt_accessor_t;

// [any]
static inline dt_accessor_t dt_access(const dt_op_tensor_t *tensor, dt_dtype_t dtype,
                                      uint32_t rank) {
  dt_accessor_t a;
  memset(&a, 0, sizeof(a));
  a.tensor = tensor;
  a.dtype = dtype;
  a.rank = rank;
  a.bad_dim = -1;
  a.element = (uint32_t)dt_dtype_size(dtype);
  a.unfit = !tensor || tensor->dtype != dtype || tensor->rank != rank;
  return a;
}
// The size of a dim; 0 where there is none. [any]
static inline int64_t dt_access_size(const dt_accessor_t *a, uint32_t dim) {
  return a->unfit || dim >= a->rank ? 0 : a->tensor->sizes[dim];
}

// The address of an element, of `bytes` bytes, at `rank` indices. [external by a]
static inline void *dt_access_at(dt_accessor_t *a, size_t bytes, uint32_t rank,
                                 const int64_t *index) {
  int64_t offset = 0;
  if (a->unfit || rank != a->rank || bytes != a->element) {
    if (!a->unfit) {
      a->bad_bytes = (uint32_t)bytes;
      a->bad_rank = rank;
    }
    a->unfit = true;
    return a->nowhere;
  }
  for (uint32_t d = 0; d < rank; d++) {
#ifndef DT_ACCESS_UNCHECKED
    if (index[d] < 0 || index[d] >= a->tensor->sizes[d]) {
      if (a->bad_dim < 0) {
        a->bad_dim = (int32_t)d;
        a->bad_index = index[d];
      }
      return a->nowhere;
    }
#endif
    offset += index[d] * a->tensor->strides[d];
  }
  return (char *)a->tensor->data + offset * (int64_t)bytes;
}

// The same for each rank; DT_AT_… below gives them a type. [external by a]
static inline void *dt_access_0(dt_accessor_t *a, size_t bytes) {
  return dt_access_at(a, bytes, 0, NULL);
}
static inline void *dt_access_1(dt_accessor_t *a, size_t bytes, int64_t i) {
  return dt_access_at(a, bytes, 1, &i);
}
static inline void *dt_access_2(dt_accessor_t *a, size_t bytes, int64_t i, int64_t j) {
  const int64_t index[] = {i, j};
  return dt_access_at(a, bytes, 2, index);
}
static inline void *dt_access_3(dt_accessor_t *a, size_t bytes, int64_t i, int64_t j, int64_t k) {
  const int64_t index[] = {i, j, k};
  return dt_access_at(a, bytes, 3, index);
}
static inline void *dt_access_4(dt_accessor_t *a, size_t bytes, int64_t i, int64_t j, int64_t k,
                                int64_t l) {
  const int64_t index[] = {i, j, k, l};
  return dt_access_at(a, bytes, 4, index);
}
static inline void *dt_access_5(dt_accessor_t *a, size_t bytes, int64_t i, int64_t j, int64_t k,
                                int64_t l, int64_t m) {
  const int64_t index[] = {i, j, k, l, m};
  return dt_access_at(a, bytes, 5, index);
}
static inline void *dt_access_6(dt_accessor_t *a, size_t bytes, int64_t i, int64_t j, int64_t k,
                                int64_t l, int64_t m, int64_t n) {
  const int64_t index[] = {i, j, k, l, m, n};
  return dt_access_at(a, bytes, 6, index);
}
static inline void *dt_access_7(dt_accessor_t *a, size_t bytes, int64_t i, int64_t j, int64_t k,
                                int64_t l, int64_t m, int64_t n, int64_t o) {
  const int64_t index[] = {i, j, k, l, m, n, o};
  return dt_access_at(a, bytes, 7, index);
}
static inline void *dt_access_8(dt_accessor_t *a, size_t bytes, int64_t i, int64_t j, int64_t k,
                                int64_t l, int64_t m, int64_t n, int64_t o, int64_t p) {
  const int64_t index[] = {i, j, k, l, m, n, o, p};
  return dt_access_at(a, bytes, 8, index);
}

// A pointer to the element of `type` at the indices, as many as the name says.
#define DT_AT_0(type, a) ((type *)dt_access_0((a), sizeof(type)))
#define DT_AT_1(type, a, i) ((type *)dt_access_1((a), sizeof(type), (i)))
#define DT_AT_2(type, a, ...) ((type *)dt_access_2((a), sizeof(type), __VA_ARGS__))
#define DT_AT_3(type, a, ...) ((type *)dt_access_3((a), sizeof(type), __VA_ARGS__))
#define DT_AT_4(type, a, ...) ((type *)dt_access_4((a), sizeof(type), __VA_ARGS__))
#define DT_AT_5(type, a, ...) ((type *)dt_access_5((a), sizeof(type), __VA_ARGS__))
#define DT_AT_6(type, a, ...) ((type *)dt_access_6((a), sizeof(type), __VA_ARGS__))
#define DT_AT_7(type, a, ...) ((type *)dt_access_7((a), sizeof(type), __VA_ARGS__))
#define DT_AT_8(type, a, ...) ((type *)dt_access_8((a), sizeof(type), __VA_ARGS__))

// NULL, or what the first of the accessors met: DT_E_DTYPE, DT_E_SHAPE, DT_E_RANGE. The list ends
// with NULL. [external by the accessors]
static inline dt_status_t dt_access_status(const dt_accessor_t *first, ...) {
  char text[160];
  dt_status_t status = NULL;
  uint32_t k = 0;
  va_list more;
  va_start(more, first);
  for (const dt_accessor_t *a = first; a && !status; a = va_arg(more, const dt_accessor_t *), k++) {
    if (a->unfit && a->bad_bytes) {
      (void)snprintf(text, sizeof(text),
                     "accessor %u: an element of %u bytes at %u indices; it is %s of rank %u",
                     (unsigned)k, (unsigned)a->bad_bytes, (unsigned)a->bad_rank,
                     dt_dtype_name(a->dtype), (unsigned)a->rank);
      status = dt_status_make(a->bad_rank == a->rank ? DT_E_DTYPE : DT_E_SHAPE, text);
    } else if (a->unfit) {
      (void)snprintf(
          text, sizeof(text), "accessor %u: the tensor is %s of rank %u, not %s of rank %u",
          (unsigned)k, a->tensor ? dt_dtype_name(a->tensor->dtype) : "none",
          a->tensor ? (unsigned)a->tensor->rank : 0u, dt_dtype_name(a->dtype), (unsigned)a->rank);
      status =
          dt_status_make(a->tensor && a->tensor->dtype != a->dtype ? DT_E_DTYPE : DT_E_SHAPE, text);
    } else if (a->bad_dim >= 0) {
      (void)snprintf(text, sizeof(text), "accessor %u: index %lld of dim %d, whose size is %lld",
                     (unsigned)k, (long long)a->bad_index, (int)a->bad_dim,
                     (long long)a->tensor->sizes[a->bad_dim]);
      status = dt_status_make(DT_E_RANGE, text);
    }
  }
  va_end(more);
  return status;
}

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_ACCESSOR_H

// SPDX-License-Identifier: Apache-2.0
// Tensors: typed, strided views of memory that the caller lends or Ductile owns.
#ifndef DUCTILE_TENSOR_H
#define DUCTILE_TENSOR_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A tensor: dtype, sizes, strides (in elements), and a share in its storage. Reference-counted.
// Only dt_tensor_rebind changes its metadata, and dt_call that of a buffer (`room`).
typedef struct dt_tensor dt_tensor_t;

// Describes a tensor over borrowed memory. Valid when zeroed, except dtype, rank and data.
typedef struct dt_tensor_desc_t {
  uint32_t struct_size;   // sizeof(dt_tensor_desc_t); 0 is taken as the size of version 0.1
  dt_dtype_t dtype;       // required
  dt_device_t device;     // 0: host memory; else a device, and `data` is an address of that device
  uint32_t rank;          // 0 to DT_MAX_RANK; 0 is a scalar
  const int64_t *sizes;   // `rank` sizes, each in [0, DT_SIZE_LIMIT); copied
  const int64_t *strides; // `rank` strides in elements, may be 0 or negative; NULL: contiguous.
                          // Elements that share a byte: contiguous ones, or DT_E_SHAPE
  void *data; // address of element (0, …, 0), aligned to its dtype; may be NULL only when
              // the tensor has no elements
  void (*release)(void *user); // called once, after the last release; NULL: nothing
  void *user;
  int32_t ordinal; // which device, 0 to 254; 0 in host memory
  // Bytes of memory at `data`, where the tensor is a buffer for results; 0: it is not. Given to
  // dt_call as an output, a buffer takes the rank, sizes and order of the result, whatever it had,
  // if the bytes are enough, and the getters tell them after the call; bytes behind the result stay
  // as they are. What `sizes` say must fit in it (DT_E_SHAPE), and strides must be contiguous. A
  // call that fails may leave other sizes.
  uint64_t room;
} dt_tensor_desc_t;

// Makes a tensor over the caller's memory. The memory must stay valid until `release` runs, or,
// without `release`, until the last reference is released. On failure *out is NULL and `release` is
// not called. DT_E_ARGUMENT, DT_E_DTYPE, DT_E_SHAPE (negative or too large sizes, bytes at or over
// DT_SIZE_LIMIT), DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_tensor_create(const dt_tensor_desc_t *desc, dt_tensor_t **out) DT_MUST_USE;

// Makes a contiguous tensor with memory of its own (64-byte aligned, contents undefined). [any]
DT_API dt_status_t dt_tensor_create_empty(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                                          dt_tensor_t **out) DT_MUST_USE;

// Points a tensor made by dt_tensor_create at other memory or other sizes without allocating, for
// callers that reuse one handle. The old memory's `release` runs. Nothing may use this tensor at
// the same time. On failure the tensor is unchanged. [external]
DT_API dt_status_t dt_tensor_rebind(dt_tensor_t *tensor, const dt_tensor_desc_t *desc) DT_MUST_USE;

DT_API void dt_tensor_retain(dt_tensor_t *tensor);  // NULL allowed [any]
DT_API void dt_tensor_release(dt_tensor_t *tensor); // NULL allowed [any]

// Getters borrow. [any]
DT_API dt_dtype_t dt_tensor_dtype(const dt_tensor_t *tensor);
DT_API dt_device_t dt_tensor_device(const dt_tensor_t *tensor);
DT_API int32_t dt_tensor_ordinal(const dt_tensor_t *tensor); // 0 on the host
DT_API uint32_t dt_tensor_rank(const dt_tensor_t *tensor);
DT_API const int64_t *dt_tensor_sizes(const dt_tensor_t *tensor);   // `rank` values
DT_API const int64_t *dt_tensor_strides(const dt_tensor_t *tensor); // `rank` values, elements
// The address of element (0, …, 0). On a device the host may not access it. [any]
DT_API void *dt_tensor_data(const dt_tensor_t *tensor);
DT_API int64_t dt_tensor_count(const dt_tensor_t *tensor); // number of elements [any]
// Bytes of a buffer for results (dt_tensor_desc_t.room); 0 of other tensors. [any]
DT_API uint64_t dt_tensor_room(const dt_tensor_t *tensor);
// Bytes of all elements, lying close together as in a contiguous tensor. Packed ones take whole
// bytes for each row (ductile/base.h). [any]
DT_API size_t dt_tensor_bytes(const dt_tensor_t *tensor);

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_TENSOR_H

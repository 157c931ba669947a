// SPDX-License-Identifier: Apache-2.0
// The tensor as the library sees it: laid out for the call path, which reads dtype, rank, sizes,
// strides and the address of every argument on every call.
//
// Strides are canonical from the moment a tensor exists: a dim of size 0 or 1, and every dim of a
// tensor without elements, has the contiguous stride (the product of the sizes after it, so 0 where
// one of those is 0). A test of a stride against that product therefore holds for every contiguous
// tensor, whatever strides the caller wrote for dims along which nobody can step. The order of the
// dims is taken from what the caller wrote: it tells formats apart also where a size is 1.
#ifndef DT_RUNTIME_TENSOR_TENSOR_H
#define DT_RUNTIME_TENSOR_TENSOR_H

#include "ductile/runtime.h"
#include "ductile/tensor.h"
#include "runtime/base/file_tensor.h"

#include <stdatomic.h>

// Where memory is, in one number of a byte: a place. 0 is the host; on other devices it is the kind
// of device and the ordinal behind it. What is typed dt_device_t inside the library holds a place.
#define DT_DEVICES 4 // kinds of devices, the CPU among them
#define DT_MOST_ORDINALS 64
#define DT_PLACES (DT_DEVICES * DT_MOST_ORDINALS)
static inline dt_device_t dt__place(dt_device_t device, int ordinal) {
  return (dt_device_t)((unsigned)device * DT_MOST_ORDINALS + (unsigned)ordinal);
}
static inline dt_device_t dt__place_device(dt_device_t place) {
  return (dt_device_t)((unsigned)place / DT_MOST_ORDINALS);
}
static inline int dt__place_ordinal(dt_device_t place) { return (int)place % DT_MOST_ORDINALS; }
// What messages call devices of a kind, once a runtime that has them said so. `name` is static.
void dt__device_name_set(dt_device_t device, const char *name);
// "the CPU", "device 1 of kind 2", or with the name of that kind "GPU 1", in `buf`.
const char *dt__place_name(dt_device_t place, char *buf, size_t bytes);

// Bytes that Ductile owns, shared by the tensors over them. Released by the last of them.
typedef struct dt_storage_t {
  _Atomic uint32_t refs;
  dt_device_t place;
  size_t bytes;
  // DT_STORAGE_ALIGNMENT-aligned, but in files: there anywhere. NULL on a device when there are no
  // bytes.
  void *data;
  void (*destroy)(struct dt_storage_t *storage); // NULL: the heap's
  // Memory that its owner may take back while tensors still hold it: set from then on, and what
  // to tell whoever uses one.
  _Atomic bool ended;
  dt_status_t (*why_ended)(const struct dt_storage_t *storage);
  uint32_t in_use; // of a constant's copy: by bindings that are in use; their function's mutex
  // Of bytes in a file: where they are in it, if that is mapped (dt__tensor_place), and what they
  // are checked by. NULL: others.
  const dt_file_place_t *file;
} dt_storage_t;

#define DT_STORAGE_ALIGNMENT ((size_t)64)

// Host memory with undefined contents; `bytes` may be 0. DT_E_LIMIT at DT_SIZE_LIMIT and over.
dt_status_t dt__storage_create(size_t bytes, dt_storage_t **out) DT_MUST_USE;
// The same of the host's memory, where `from`, which is copied, is not NULL.
dt_status_t dt__storage_create_from(const dt_allocator_t *from, size_t bytes,
                                    dt_storage_t **out) DT_MUST_USE;
void dt__storage_retain(dt_storage_t *storage);  // NULL allowed
void dt__storage_release(dt_storage_t *storage); // NULL allowed

// The order of dims in memory, outermost first, as one number: four bits a place, which hold the
// dim xor the place; so row-major is 0, whatever the rank.
#define DT_ORDER_ROW_MAJOR 0u
#define DT_ORDER_APART UINT32_MAX // of no order: with gaps, overlapping or backwards
static inline uint32_t dt__order_dim(uint32_t order, uint32_t place) {
  return (order >> 4 * place & 15) ^ place;
}
static inline uint32_t dt__order_with(uint32_t order, uint32_t place, uint32_t dim) {
  return order | (dim ^ place) << 4 * place;
}
// Strides without gaps in this order.
void dt__order_strides(uint32_t order, uint32_t rank, const int64_t *sizes, int64_t *out);

// What a tensor's metadata comes to once dt__layout_set has checked every field.
typedef struct dt_layout_t {
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t count;   // elements
  bool contiguous; // row-major without gaps; true for scalars and for tensors without elements
  int64_t sizes[DT_MAX_RANK];   // 0 from `rank` on
  int64_t strides[DT_MAX_RANK]; // canonical, in elements; 0 from `rank` on
  int64_t low, high; // byte offsets from element (0, …, 0): first byte, one past the last
  // Of the strides as they were written; where a dim of size 1 has stride 0, it has the contiguous
  // one. Row-major without elements, and of packed dtypes.
  uint32_t order;
} dt_layout_t;

// Checks and canonicalises; `strides` NULL: contiguous. *out is untouched on failure. The product
// of the sizes, those of 0 counted as 1, times the element's bytes must be below DT_SIZE_LIMIT, so
// that no partial product of sizes can overflow either.
dt_status_t dt__layout_set(dt_layout_t *out, dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                           const int64_t *strides) DT_MUST_USE;

struct dt_tensor {
  _Atomic uint32_t refs;
  dt_dtype_t dtype;
  dt_device_t device; // a place
  uint32_t rank;
  void *data;      // element (0, …, 0); NULL only without elements
  int64_t count;   // elements
  bool contiguous; // as in dt_layout_t, like sizes and strides
  int64_t sizes[DT_MAX_RANK];
  int64_t strides[DT_MAX_RANK];
  dt_storage_t *storage;       // a share; NULL over borrowed memory
  void (*release)(void *user); // borrowed memory only; may be NULL
  void *user;
  uint32_t order; // as in dt_layout_t
  uint64_t room;  // bytes at `data`, of a buffer for results; 0: it is none
  bool read_only; // nobody may write its elements
};

// A tensor over a storage of ours, `offset` bytes into it. Takes a share of its own. The elements
// must lie inside the storage and be aligned, as its beginning is: DT_E_INTERNAL otherwise.
dt_status_t dt__tensor_create_over(dt_storage_t *storage, size_t offset, dt_dtype_t dtype,
                                   uint32_t rank, const int64_t *sizes, const int64_t *strides,
                                   dt_tensor_t **out) DT_MUST_USE;

// Where its elements lie in a private mapping of a file, which nobody writes: their pages may be
// let go at any time, and come back when they are touched. NULL: elsewhere.
static inline const dt_file_place_t *dt__tensor_place(const dt_tensor_t *tensor) {
  const dt_file_place_t *file = tensor->storage ? tensor->storage->file : NULL;
  return file && file->stamp ? file : NULL;
}
// Lets the pages of its elements go, where they can come back.
void dt__tensor_let_go(const dt_tensor_t *tensor);
// Whether its elements are those that were written, where that is known (dt_file_place_t.check).
dt_status_t dt__tensor_check_bytes(const dt_tensor_t *tensor) DT_MUST_USE;

// A buffer takes the layout of a result; `order` as in dt_layout_t. DT_E_SHAPE: its bytes are too
// few.
dt_status_t dt__tensor_fit(dt_tensor_t *tensor, uint32_t rank, const int64_t *sizes,
                           uint32_t order) DT_MUST_USE;

// NULL while the tensor's elements are there; DT_E_STATE saying what ended them.
static inline dt_status_t dt__tensor_check_live(const dt_tensor_t *tensor) {
  const dt_storage_t *storage = tensor->storage;
  if (!storage || !atomic_load_explicit(&storage->ended, memory_order_acquire))
    return NULL;
  return storage->why_ended(storage);
}

static inline bool dt__tensor_is_contiguous(const dt_tensor_t *tensor) {
  return tensor->contiguous;
}
// Of its elements, lying close together.
size_t dt__tensor_bytes(const dt_tensor_t *tensor);

#endif // DT_RUNTIME_TENSOR_TENSOR_H

// SPDX-License-Identifier: Apache-2.0
// Tensors: handles over the caller's memory or over storages of ours, and their reference counts.
#include "runtime/tensor/tensor.h"

#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/pages.h"
#include "runtime/base/status.h"

#include <string.h>

static void take_layout(dt_tensor_t *tensor, const dt_layout_t *layout) {
  tensor->dtype = layout->dtype;
  tensor->rank = layout->rank;
  tensor->count = layout->count;
  tensor->contiguous = layout->contiguous;
  tensor->order = layout->order;
  memcpy(tensor->sizes, layout->sizes, sizeof(tensor->sizes));
  memcpy(tensor->strides, layout->strides, sizeof(tensor->strides));
}

// What is said of a buffer for results.
static dt_status_t check_room(const dt_tensor_desc_t *desc, const dt_layout_t *layout) {
  if (!desc->room)
    return NULL;
  if (desc->room >= (uint64_t)DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_SHAPE, "room: %llu bytes; expected less than %lld",
                   (unsigned long long)desc->room, (long long)DT_SIZE_LIMIT);
  if (!desc->data)
    return DT_FAIL(DT_E_ARGUMENT, "data: NULL; expected the address of %llu bytes of room",
                   (unsigned long long)desc->room);
  if (!layout->contiguous)
    return DT_FAIL(DT_E_SHAPE, "strides: a buffer for results (room) has none of its own; expected "
                               "NULL or contiguous ones");
  if ((uint64_t)layout->high > desc->room)
    return DT_FAIL(DT_E_SHAPE, "room: %llu bytes; `sizes` need %lld",
                   (unsigned long long)desc->room, (long long)layout->high);
  return NULL;
}

// Checks the whole descriptor and fills the tensor's layout, device and address.
static dt_status_t apply_desc(dt_tensor_t *tensor, const dt_tensor_desc_t *given) {
  if (!given)
    return DT_FAIL(DT_E_ARGUMENT, "desc: NULL; expected a tensor descriptor");
  dt_tensor_desc_t own, *desc = &own;
  DT_TRY(DT_OPTIONS_TAKE(dt_tensor_desc_t, desc, given));
  if ((unsigned)desc->device >= DT_DEVICES)
    return DT_FAIL(DT_E_ARGUMENT, "device: %d is no device", (int)desc->device);
  int32_t ordinal = desc->ordinal;
  if (ordinal < 0 || ordinal >= DT_MOST_ORDINALS || (ordinal && desc->device == DT_CPU))
    return DT_FAIL(DT_E_ARGUMENT, "ordinal: %d; expected %s", (int)ordinal,
                   desc->device == DT_CPU ? "0 for host memory" : "0 to 63");
  dt_layout_t layout;
  DT_TRY(dt__layout_set(&layout, desc->dtype, desc->rank, desc->sizes, desc->strides));
  if (layout.count && !desc->data)
    return DT_FAIL(DT_E_ARGUMENT, "data: NULL; expected the address of %lld elements",
                   (long long)layout.count);
  size_t item = dt_dtype_size(desc->dtype);
  if ((layout.count || desc->room) && (uintptr_t)desc->data % item != 0)
    return DT_FAIL(DT_E_ARGUMENT, "data: %p is not aligned to the %zu bytes of %s", desc->data,
                   item, dt_dtype_name(desc->dtype));
  DT_TRY(check_room(desc, &layout));
  take_layout(tensor, &layout);
  tensor->device = dt__place(desc->device, ordinal);
  tensor->data = desc->data;
  tensor->release = desc->release;
  tensor->user = desc->user;
  tensor->room = desc->room;
  tensor->read_only = false;
  return NULL;
}

dt_status_t dt__tensor_fit(dt_tensor_t *tensor, uint32_t rank, const int64_t *sizes,
                           uint32_t order) {
  dt_layout_t layout;
  int64_t strides[DT_MAX_RANK];
  bool ordered = order != DT_ORDER_ROW_MAJOR;
  if (ordered)
    dt__order_strides(order, rank, sizes, strides);
  DT_TRY(dt__layout_set(&layout, tensor->dtype, rank, sizes, ordered ? strides : NULL));
  if ((uint64_t)layout.high > tensor->room)
    return DT_FAIL(DT_E_SHAPE, "the result has %lld bytes; the buffer has room for %llu",
                   (long long)layout.high, (unsigned long long)tensor->room);
  take_layout(tensor, &layout);
  return NULL;
}

static dt_tensor_t *tensor_new(void) {
  dt_tensor_t *tensor = dt__alloc(sizeof(*tensor));
  if (tensor)
    *tensor = (dt_tensor_t){.refs = 1};
  return tensor;
}

dt_status_t dt_tensor_create(const dt_tensor_desc_t *desc, dt_tensor_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "out: NULL; expected where to put the tensor");
  *out = NULL;
  dt_tensor_t *tensor = tensor_new();
  if (!tensor)
    return DT_NO_MEMORY();
  dt_status_t status = apply_desc(tensor, desc);
  if (status) {
    dt__free(tensor);
    return dt__status_annotate(status, "dt_tensor_create");
  }
  *out = tensor;
  return NULL;
}

dt_status_t dt__tensor_create_over(dt_storage_t *storage, size_t offset, dt_dtype_t dtype,
                                   uint32_t rank, const int64_t *sizes, const int64_t *strides,
                                   dt_tensor_t **out) {
  *out = NULL;
  dt_layout_t layout;
  DT_TRY(dt__layout_set(&layout, dtype, rank, sizes, strides));
  // low <= 0 <= high, and both are 0 where there are no elements.
  bool inside = offset <= storage->bytes && (size_t)-layout.low <= offset &&
                (size_t)layout.high <= storage->bytes - offset;
  if (!inside || offset % dt_dtype_size(dtype) != 0)
    return DT_FAIL(DT_E_INTERNAL,
                   "a tensor over bytes %lld to %lld from offset %zu of a storage of %zu bytes",
                   (long long)layout.low, (long long)layout.high, offset, storage->bytes);
  dt_tensor_t *tensor = tensor_new();
  if (!tensor)
    return DT_NO_MEMORY();
  take_layout(tensor, &layout);
  tensor->device = storage->place;
  tensor->data = storage->data ? (char *)storage->data + offset : NULL;
  tensor->storage = storage;
  dt__storage_retain(storage);
  *out = tensor;
  return NULL;
}

dt_status_t dt_tensor_create_empty(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                                   dt_tensor_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "out: NULL; expected where to put the tensor");
  *out = NULL;
  dt_layout_t layout;
  dt_status_t status = dt__layout_set(&layout, dtype, rank, sizes, NULL);
  if (status)
    return dt__status_annotate(status, "dt_tensor_create_empty");
  dt_storage_t *storage = NULL;
  DT_TRY(dt__storage_create((size_t)layout.high, &storage));
  status = dt__tensor_create_over(storage, 0, dtype, rank, sizes, NULL, out);
  dt__storage_release(storage); // the tensor has its own share
  return status;
}

// Lets the tensor's memory go: its share of a storage, or the caller's loan.
static void release_memory(dt_storage_t *storage, void (*release)(void *user), void *user) {
  dt__storage_release(storage);
  if (release)
    release(user);
}

dt_status_t dt_tensor_rebind(dt_tensor_t *tensor, const dt_tensor_desc_t *desc) {
  if (!tensor)
    return DT_FAIL(DT_E_ARGUMENT, "tensor: NULL; expected a tensor made by dt_tensor_create");
  if (tensor->storage)
    return DT_FAIL(DT_E_ARGUMENT,
                   "tensor: owns its memory; expected a tensor made by dt_tensor_create");
  void (*release)(void *user) = tensor->release;
  void *user = tensor->user;
  dt_status_t status = apply_desc(tensor, desc);
  if (status)
    return dt__status_annotate(status, "dt_tensor_rebind");
  release_memory(NULL, release, user);
  return NULL;
}

void dt_tensor_retain(dt_tensor_t *tensor) {
  if (tensor)
    (void)atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
}

void dt_tensor_release(dt_tensor_t *tensor) {
  if (!tensor || atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) != 1)
    return;
  release_memory(tensor->storage, tensor->release, tensor->user);
  dt__free(tensor);
}

// ---- Getters --------------------------------------------------------------------------------------

dt_dtype_t dt_tensor_dtype(const dt_tensor_t *tensor) { return tensor->dtype; }

dt_device_t dt_tensor_device(const dt_tensor_t *tensor) { return dt__place_device(tensor->device); }

int32_t dt_tensor_ordinal(const dt_tensor_t *tensor) { return dt__place_ordinal(tensor->device); }

uint32_t dt_tensor_rank(const dt_tensor_t *tensor) { return tensor->rank; }

const int64_t *dt_tensor_sizes(const dt_tensor_t *tensor) { return tensor->sizes; }

const int64_t *dt_tensor_strides(const dt_tensor_t *tensor) { return tensor->strides; }

void *dt_tensor_data(const dt_tensor_t *tensor) { return tensor->data; }

uint64_t dt_tensor_room(const dt_tensor_t *tensor) { return tensor->room; }

int64_t dt_tensor_count(const dt_tensor_t *tensor) { return tensor->count; }

size_t dt__tensor_bytes(const dt_tensor_t *tensor) {
  int64_t bytes = 0;
  if (!dt__dtype_is_packed(tensor->dtype))
    return (size_t)tensor->count * dt_dtype_size(tensor->dtype);
  if (tensor->count)
    (void)dt__dtype_bytes(tensor->dtype, tensor->rank, tensor->sizes, &bytes);
  return (size_t)bytes;
}

void dt__tensor_let_go(const dt_tensor_t *tensor) {
  if (dt__tensor_place(tensor))
    dt__pages_drop(tensor->data, dt__tensor_bytes(tensor));
}

size_t dt_tensor_bytes(const dt_tensor_t *tensor) { return dt__tensor_bytes(tensor); }

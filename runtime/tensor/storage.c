// SPDX-License-Identifier: Apache-2.0
// Storages: one heap block each, the header on a line of its own in front of the bytes.
#include "runtime/tensor/tensor.h"

#include "runtime/base/memory.h"
#include "runtime/base/pages.h"
#include "runtime/base/status.h"

#include <stdio.h>

#define HEAD DT_STORAGE_ALIGNMENT
_Static_assert(sizeof(dt_storage_t) <= HEAD, "the header fits in front of the aligned bytes");

static dt_status_t check_bytes(size_t bytes) {
  if (bytes >= (size_t)DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "a storage of %zu bytes; the limit is %lld", bytes,
                   (long long)DT_SIZE_LIMIT - 1);
  return NULL;
}

dt_status_t dt__storage_create(size_t bytes, dt_storage_t **out) {
  *out = NULL;
  DT_TRY(check_bytes(bytes));
  dt_storage_t *storage = dt__alloc_aligned(HEAD + bytes, DT_STORAGE_ALIGNMENT);
  if (!storage)
    return DT_FAIL(DT_E_NO_MEMORY, "out of memory: %zu bytes for a tensor", bytes);
  *storage =
      (dt_storage_t){.refs = 1, .place = DT_CPU, .bytes = bytes, .data = (char *)storage + HEAD};
  *out = storage;
  return NULL;
}

// The host's memory is what the tensor's data are, with nothing in front.
typedef struct hosted_t {
  dt_storage_t storage; // first
  dt_allocator_t from;
} hosted_t;

static void destroy_hosted(dt_storage_t *storage) {
  hosted_t *own = (hosted_t *)storage;
  dt__pages_give(&own->from, own->storage.data, own->storage.bytes);
  dt__free(own);
}

dt_status_t dt__storage_create_from(const dt_allocator_t *from, size_t bytes, dt_storage_t **out) {
  if (!from)
    return dt__storage_create(bytes, out);
  *out = NULL;
  DT_TRY(check_bytes(bytes));
  hosted_t *own = dt__alloc(sizeof(*own));
  void *data = own ? dt__pages_take(from, bytes) : NULL;
  if (!data) {
    dt__free(own);
    return DT_FAIL(DT_E_NO_MEMORY, "out of memory: the host gave no %zu bytes for a tensor", bytes);
  }
  *own = (hosted_t){.storage = {.refs = 1,
                                .place = DT_CPU,
                                .bytes = bytes,
                                .data = data,
                                .destroy = destroy_hosted},
                    .from = *from};
  *out = &own->storage;
  return NULL;
}

typedef struct over_t {
  dt_storage_t storage; // first
  dt_file_place_t file;
  void (*destroy)(void *owner);
  void *owner;
} over_t;

static void destroy_over(dt_storage_t *storage) {
  over_t *own = (over_t *)storage;
  own->destroy(own->owner);
  dt__free(own);
}

static dt_status_t storage_over(const void *data, size_t bytes, dt_file_place_t place,
                                void (*destroy)(void *owner), void *owner, over_t **out) {
  *out = NULL;
  over_t *own = dt__alloc(sizeof(*own));
  if (!own)
    return DT_NO_MEMORY();
  *own = (over_t){.storage = {.refs = 1,
                              .place = DT_CPU,
                              .bytes = bytes,
                              .data = (void *)(uintptr_t)data,
                              .destroy = destroy_over},
                  .file = place,
                  .destroy = destroy,
                  .owner = owner};
  own->storage.file = place.stamp || place.check ? &own->file : NULL;
  *out = own;
  return NULL;
}

dt_status_t dt__file_tensor(const void *data, size_t bytes, dt_dtype_t dtype, uint32_t rank,
                            const int64_t *sizes, dt_file_place_t place,
                            void (*destroy)(void *owner), void *owner, dt_tensor_t **out) {
  over_t *own = NULL;
  *out = NULL;
  DT_TRY(storage_over(data, bytes, place, destroy, owner, &own));
  dt_status_t status = dt__tensor_create_over(&own->storage, 0, dtype, rank, sizes, NULL, out);
  if (status)
    dt__free(own); // nothing was taken
  else
    dt__storage_release(&own->storage); // the tensor has a share of its own
  return status;
}

dt_status_t dt__tensor_check_bytes(const dt_tensor_t *tensor) {
  const dt_storage_t *storage = tensor->storage;
  if (!storage || !storage->file || !storage->file->check)
    return NULL;
  return storage->file->check(((const over_t *)storage)->owner);
}

void dt__storage_retain(dt_storage_t *storage) {
  if (storage)
    (void)atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
}

void dt__storage_release(dt_storage_t *storage) {
  if (!storage || atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) != 1)
    return;
  if (storage->destroy)
    storage->destroy(storage);
  else
    dt__free(storage);
}

// ---- Places ---------------------------------------------------------------------------------------

static const char *_Atomic device_names[DT_DEVICES];

void dt__device_name_set(dt_device_t device, const char *name) {
  atomic_store_explicit(&device_names[device], name, memory_order_release);
}

const char *dt__place_name(dt_device_t place, char *buf, size_t bytes) {
  if (place == DT_CPU)
    return "the CPU";
  dt_device_t device = dt__place_device(place);
  const char *name = atomic_load_explicit(&device_names[device], memory_order_acquire);
  if (name)
    (void)snprintf(buf, bytes, "%s %d", name, dt__place_ordinal(place));
  else
    (void)snprintf(buf, bytes, "device %d of kind %d", dt__place_ordinal(place), (int)device);
  return buf;
}

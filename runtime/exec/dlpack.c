// SPDX-License-Identifier: Apache-2.0
// Tensors from and for other libraries (ductile/dlpack.h). Which kinds of devices have a number in
// DLPack is said by their places.
#include "ductile/dlpack.h"

#include "runtime/base/dtype.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/session.h"

#include <string.h>

// ---- Dtypes ---------------------------------------------------------------------------------------
typedef struct type_t {
  uint8_t code, bits;
  dt_dtype_t dtype;
  const char *name;
} type_t;

static const type_t types[] = {
#define TYPE(code, bits, dtype, name) {code, bits, dtype, name},
#include "runtime/exec/dlpack.def"
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static const type_t *type_of(dt_dtype_t dtype) {
  for (size_t k = 0; k < N_TYPES; k++)
    if (types[k].dtype == dtype)
      return &types[k];
  return NULL;
}

static dt_status_t find_type(const dt_dlpack_managed_t *managed, const type_t **out) {
  const dt_dlpack_dtype_t *given = &managed->tensor.dtype;
  const type_t *found = NULL;
  for (size_t k = 0; k < N_TYPES && !found; k++)
    if (types[k].code == given->code && (types[k].bits == given->bits || !types[k].bits))
      found = &types[k];
  if (!found || found->dtype == DT_DTYPE_NONE)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "dtype: %s of %u bits (DLPack's type code %u): Ductile has no such elements",
                   found ? found->name : "elements", given->bits, given->code);
  // Two elements of 4 bits are also said as one of two lanes, which is the byte that they share.
  uint32_t per = dt__dtype_per_byte(found->dtype) > 1 ? 8U / given->bits : 1;
  if (given->lanes != 1 && given->lanes != per)
    return DT_FAIL(DT_E_UNSUPPORTED, "dtype: %s of %u lanes; expected 1", found->name,
                   given->lanes);
  if (per > 1 && (managed->flags & DT_DLPACK_PADDED))
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "dtype: %s with a byte for each element (padded); expected packed ones",
                   found->name);
  *out = found;
  return NULL;
}

// ---- Devices --------------------------------------------------------------------------------------
static int32_t kind_of(dt_device_t device) {
  const dt_place_kind_t *kind = dt__place_kinds[dt__place_device(device)];
  return kind ? kind->dlpack : 0;
}

static dt_status_t find_device(const dt_dlpack_device_t *given, dt_tensor_desc_t *desc) {
  for (uint32_t k = 0; k < DT_DEVICES; k++) {
    const dt_place_kind_t *kind = dt__place_kinds[k];
    if (!kind || !given->kind || kind->dlpack != given->kind)
      continue;
    desc->device = (dt_device_t)k;
    desc->ordinal = k == DT_CPU ? 0 : given->ordinal;
    return NULL;
  }
  if (given->kind == DT_DLPACK_GPU_PINNED)
    return NULL;
  return DT_FAIL(DT_E_UNSUPPORTED, "device: DLPack's kind %d; Ductile has no such devices",
                 (int)given->kind);
}

// ---- Taking ---------------------------------------------------------------------------------------
typedef struct layout_t {
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
} layout_t;

// Lanes that share a byte are the innermost dim's.
static dt_status_t take_sizes(const dt_dlpack_managed_t *managed, dt_tensor_desc_t *desc,
                              layout_t *own) {
  const dt_dlpack_tensor_t *given = &managed->tensor;
  uint32_t rank = (uint32_t)given->rank, lanes = given->dtype.lanes;
  bool whole = lanes > 1;
  if (whole && rank == 0)
    return DT_FAIL(DT_E_SHAPE, "rank: 0, with %u elements in a byte; expected a dim for them",
                   lanes);
  for (uint32_t d = 0; d < rank; d++) {
    own->sizes[d] = given->sizes[d];
    own->strides[d] = given->strides ? given->strides[d] : 0;
  }
  if (whole) {
    if (own->sizes[rank - 1] >= DT_SIZE_LIMIT / 8)
      return DT_FAIL(DT_E_SHAPE, "sizes[%u]: %lld bytes of %u elements", rank - 1,
                     (long long)own->sizes[rank - 1], lanes);
    own->sizes[rank - 1] *= lanes;
    for (uint32_t d = 0; d + 1 < rank; d++)
      if (__builtin_mul_overflow(own->strides[d], (int64_t)lanes, &own->strides[d]))
        return DT_FAIL(DT_E_SHAPE, "strides[%u]: too large", d);
  }
  desc->sizes = own->sizes;
  desc->strides = given->strides && rank ? own->strides : NULL;
  return NULL;
}

// Packed rows begin with bytes of their own here, and follow each other closely in DLPack.
static dt_status_t check_rows(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes) {
  int64_t per = dt__dtype_per_byte(dtype), rows = 1;
  for (uint32_t d = 0; d + 1 < rank; d++)
    rows = sizes[d] > 1 ? 2 : rows;
  if (per > 1 && rank > 1 && rows > 1 && sizes[rank - 1] % per)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "rows of %lld %s end within a byte; expected rows of whole bytes",
                   (long long)sizes[rank - 1], dt_dtype_name(dtype));
  return NULL;
}

static void let_go(void *user) {
  dt_dlpack_managed_t *managed = user;
  if (managed->deleter)
    managed->deleter(managed);
}

static dt_status_t take(dt_dlpack_managed_t *managed, dt_tensor_t **out) {
  const dt_dlpack_tensor_t *given = &managed->tensor;
  const type_t *type = NULL;
  layout_t own;
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc)};
  if (managed->version.major != DT_DLPACK_MAJOR)
    return DT_FAIL(DT_E_UNSUPPORTED, "version: DLPack %u.%u; version %d is read",
                   managed->version.major, managed->version.minor, DT_DLPACK_MAJOR);
  if (given->rank < 0 || given->rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_SHAPE, "rank: %d; expected 0 to %d", (int)given->rank, DT_MAX_RANK);
  if (given->rank && !given->sizes)
    return DT_FAIL(DT_E_ARGUMENT, "sizes: NULL; expected %d", (int)given->rank);
  DT_TRY(find_type(managed, &type));
  DT_TRY(find_device(&given->device, &desc));
  DT_TRY(take_sizes(managed, &desc, &own));
  DT_TRY(check_rows(type->dtype, (uint32_t)given->rank, desc.sizes));
  desc.dtype = type->dtype;
  desc.rank = (uint32_t)given->rank;
  desc.data = given->data ? (char *)given->data + given->byte_offset : NULL;
  desc.release = let_go;
  desc.user = managed;
  DT_TRY(dt_tensor_create(&desc, out));
  (*out)->read_only = (managed->flags & DT_DLPACK_READ_ONLY) != 0;
  return NULL;
}

dt_status_t dt_tensor_from_dlpack(dt_dlpack_managed_t *managed, dt_tensor_t **out) {
  if (out)
    *out = NULL;
  if (!managed || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_tensor_from_dlpack: %s: NULL", managed ? "out" : "managed");
  return dt__status_annotate(take(managed, out), "dt_tensor_from_dlpack");
}

// ---- Giving ---------------------------------------------------------------------------------------
typedef struct given_t {
  dt_dlpack_managed_t managed; // first
  dt_tensor_t *tensor;         // a reference
  layout_t layout;
} given_t;

static void release_given(dt_dlpack_managed_t *managed) {
  given_t *given = (given_t *)(void *)managed;
  dt_tensor_release(given->tensor);
  dt__free(given);
}

// Whoever reads on `stream` does so behind what the session has queued.
static dt_status_t order(const dt_tensor_t *tensor, const dt_dlpack_options_t *options) {
  dt_session_t *session = options->session;
  if (!session)
    return options->stream ? DT_FAIL(DT_E_ARGUMENT, "stream: given without a session") : NULL;
  if (tensor->device != DT_CPU && tensor->device != session->place)
    return DT_FAIL(DT_E_ARGUMENT, "session: runs elsewhere than the tensor is");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  const dt_place_kind_t *kind = session->home->kind;
  DT_TRY(dt__session_begin(session));
  dt_status_t status = options->stream && kind->hand_over
                           ? kind->hand_over(session, options->stream)
                           : dt__session_settle(session);
  dt__session_end(session);
  return status;
}

static dt_status_t check_given(const dt_tensor_t *tensor) {
  char name[32];
  DT_TRY(dt__tensor_check_live(tensor));
  if (!kind_of(tensor->device))
    return DT_FAIL(DT_E_UNSUPPORTED, "device: %s has no number in DLPack",
                   dt__place_name(tensor->device, name, sizeof(name)));
  return check_rows(tensor->dtype, tensor->rank, tensor->sizes);
}

static dt_status_t give(dt_tensor_t *tensor, const dt_dlpack_options_t *said,
                        dt_dlpack_managed_t **out) {
  dt_dlpack_options_t options;
  DT_TRY(DT_OPTIONS_TAKE(dt_dlpack_options_t, &options, said));
  DT_TRY(check_given(tensor));
  given_t *own = dt__calloc(1, sizeof(*own));
  if (!own)
    return DT_NO_MEMORY();
  dt_status_t status = order(tensor, &options);
  if (status) {
    dt__free(own);
    return status;
  }
  const type_t *type = type_of(tensor->dtype);
  dt_tensor_retain(tensor);
  own->tensor = tensor;
  memcpy(own->layout.sizes, tensor->sizes, sizeof(own->layout.sizes));
  memcpy(own->layout.strides, tensor->strides, sizeof(own->layout.strides));
  own->managed = (dt_dlpack_managed_t){
      .version = {DT_DLPACK_MAJOR, DT_DLPACK_MINOR},
      .context = own,
      .deleter = release_given,
      .flags = options.read_only || tensor->read_only ? DT_DLPACK_READ_ONLY : 0,
      .tensor = {.data = tensor->data,
                 .device = {kind_of(tensor->device), dt__place_ordinal(tensor->device)},
                 .rank = (int32_t)tensor->rank,
                 .dtype = {type->code, type->bits, 1},
                 .sizes = own->layout.sizes,
                 .strides = own->layout.strides}};
  *out = &own->managed;
  return NULL;
}

dt_status_t dt_tensor_to_dlpack(dt_tensor_t *tensor, const dt_dlpack_options_t *options,
                                dt_dlpack_managed_t **out) {
  if (out)
    *out = NULL;
  if (!tensor || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_tensor_to_dlpack: %s: NULL", tensor ? "out" : "tensor");
  return dt__status_annotate(give(tensor, options, out), "dt_tensor_to_dlpack");
}

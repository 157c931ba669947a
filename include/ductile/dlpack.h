// SPDX-License-Identifier: Apache-2.0
// Tensors from and for other libraries, by DLPack 1.1: numpy, PyTorch, JAX, CuPy and others give
// and take these structs. Their layouts are the specification's, under names of Ductile's own, so
// that a program may include its dlpack.h, too, and cast between the two pointers.
#ifndef DUCTILE_DLPACK_H
#define DUCTILE_DLPACK_H

#include "ductile/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- The specification's structs ------------------------------------------------------------------

// The version that dt_tensor_to_dlpack writes. What has the same major version can be read.
#define DT_DLPACK_MAJOR 1
#define DT_DLPACK_MINOR 1

// DLPackVersion.
typedef struct dt_dlpack_version_t {
  uint32_t major, minor;
} dt_dlpack_version_t;

// Kinds of devices that Ductile knows by DLPack's numbers.
typedef enum dt_dlpack_kind_t {
  DT_DLPACK_CPU = 1,
  DT_DLPACK_GPU = 2,        // NVIDIA's
  DT_DLPACK_GPU_PINNED = 3, // host memory that such a GPU copies without staging
} dt_dlpack_kind_t;

// DLDevice.
typedef struct dt_dlpack_device_t {
  int32_t kind; // dt_dlpack_kind_t, or another number of the specification's
  int32_t ordinal;
} dt_dlpack_device_t;

// DLDataType.
typedef struct dt_dlpack_dtype_t {
  uint8_t
      code; // integer 0, unsigned 1, float 2, bfloat 4, boolean 6, floats of 8 and 4 bits from 7
  uint8_t bits; // of one lane
  uint16_t lanes;
} dt_dlpack_dtype_t;

// DLTensor: elements of some memory.
typedef struct dt_dlpack_tensor_t {
  void *data;
  dt_dlpack_device_t device;
  int32_t rank;
  dt_dlpack_dtype_t dtype;
  int64_t *sizes;
  int64_t *strides;     // in elements; NULL: contiguous
  uint64_t byte_offset; // of the first element from `data`
} dt_dlpack_tensor_t;

// Bits of dt_dlpack_managed_t.flags.
typedef enum dt_dlpack_flag_t {
  DT_DLPACK_READ_ONLY = 1, // nobody may write the elements
  DT_DLPACK_COPIED = 2,    // the elements are a copy, made for whoever takes them
  DT_DLPACK_PADDED = 4,    // elements of less than 8 bits have a byte each
} dt_dlpack_flag_t;

// DLManagedTensorVersioned: a tensor and who frees it.
typedef struct dt_dlpack_managed_t {
  dt_dlpack_version_t version;
  void *context;                                     // its maker's
  void (*deleter)(struct dt_dlpack_managed_t *self); // called once by who took it; may be NULL
  uint64_t flags;                                    // dt_dlpack_flag_t, or'ed
  dt_dlpack_tensor_t tensor;
} dt_dlpack_managed_t;

// ---- Giving ---------------------------------------------------------------------------------------

// Valid when zeroed.
typedef struct dt_dlpack_options_t {
  uint32_t struct_size; // sizeof(dt_dlpack_options_t); 0 is the size of the first version
  bool read_only;       // says DT_DLPACK_READ_ONLY; always said of tensors that are read-only
  // Whose queued work makes the elements: NULL: nobody's, or it has been waited for.
  dt_session_t *session;
  // The stream on which the elements will be read (a CUstream, its special values included): what
  // is queued there from now on runs behind the session's work. NULL: the host waits for that work.
  void *stream;
} dt_dlpack_options_t;

// Gives a tensor away as DLPack has it, without a copy. *out holds a reference to `tensor`, which
// out->deleter releases, in any thread; `options` may be NULL. A result in the memory of a session
// (graphs.h) is good until its generation ends: copy it to keep it. On failure *out is NULL.
// DT_E_ARGUMENT (a session on another device), DT_E_UNSUPPORTED (a device without a number in
// DLPack, rows of packed elements that end within a byte), DT_E_STATE (elements that ended),
// DT_E_NO_MEMORY, DT_E_DEVICE, DT_E_RANGE (a failed check of the session's). [any; external by
// options->session]
DT_API dt_status_t dt_tensor_to_dlpack(dt_tensor_t *tensor, const dt_dlpack_options_t *options,
                                       dt_dlpack_managed_t **out) DT_MUST_USE;

// ---- Taking ---------------------------------------------------------------------------------------

// Makes a tensor over the elements that `managed` has, without a copy. On success the tensor owns
// `managed`, whose deleter runs, in any thread, after the tensor's last release; on failure *out is
// NULL and `managed` stays the caller's. The elements must be there for whoever uses the tensor: on
// a device, ask the giver to order them before the stream of the session that reads them
// (dt_session_stream). A tensor with DT_DLPACK_READ_ONLY may be an input that no program updates;
// as an output, or to be copied to, it is DT_E_ARGUMENT.
//
// DT_E_ARGUMENT (a NULL, a pointer that is not aligned to its dtype), DT_E_UNSUPPORTED naming the
// dtype (complex, opaque, lanes, padded, floats that Ductile does not have), the device or the
// version, DT_E_SHAPE (rank, sizes, strides of packed elements), DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_tensor_from_dlpack(dt_dlpack_managed_t *managed,
                                         dt_tensor_t **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_DLPACK_H

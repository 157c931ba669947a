// SPDX-License-Identifier: Apache-2.0
// Reading safetensors files: named tensors, all checked before the first is handed out.
//
// A file is untrusted. Opening it checks the header against the format's rules: one JSON object, no
// key twice, known dtypes, every size computed without overflow, the data covered exactly, without
// gap or overlap. The file is either refused as a whole or opened as a handle whose tensors all lie
// inside it. An open file never changes, so any thread may call everything except closing it.
#ifndef DUCTILE_SAFETENSORS_H
#define DUCTILE_SAFETENSORS_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// An open file. Owns all memory that its functions return pointers to.
typedef struct dt_safetensors dt_safetensors_t;

// How the tensors' bytes are held. Values are stable.
typedef enum dt_safetensors_access_t {
  // Read into the library's memory. The file may change or go afterwards.
  DT_SAFETENSORS_READ = 0,
  // Mapped read-only: pages are loaded when touched and shared between processes. If another
  // process shortens the file, a later access kills this process (SIGBUS). Map only files that
  // nobody else may write.
  DT_SAFETENSORS_MAP = 1,
} dt_safetensors_access_t;

// Valid when zeroed. max_header_bytes and max_tensors can only be lowered: a larger value is taken
// as the default.
typedef struct dt_safetensors_options_t {
  uint32_t struct_size; // sizeof(dt_safetensors_options_t); 0 is taken as the size of version 0.1
  dt_safetensors_access_t access; // 0: DT_SAFETENSORS_READ
  uint64_t max_file_bytes;        // 0: 16 GiB
  uint64_t max_header_bytes;      // 0: 100 000 000
  uint32_t max_tensors;           // 0: 1 000 000
} dt_safetensors_options_t;

// One tensor, contiguous and in row-major order. Set struct_size before asking: nothing beyond it
// is written. Fields that a newer header has and this library does not are 0.
typedef struct dt_safetensors_info_t {
  uint32_t struct_size;
  dt_dtype_t dtype;
  uint32_t rank;              // 0 to DT_MAX_RANK
  int64_t sizes[DT_MAX_RANK]; // those at `rank` and above are 0
  const void *data;           // little-endian elements, valid until the file is closed; read-only
  size_t bytes;               // of data; may be 0
  bool aligned;               // `data` is aligned to its dtype. If false, do not read elements from
                              // `data` directly: copy them with dt_safetensors_copy
} dt_safetensors_info_t;

// Opens and checks the file at `path`. `options` may be NULL. On success the caller owns *out and
// closes it; on failure it is NULL. The arguments are not kept. DT_E_IO (cannot be opened or read,
// not a regular file), DT_E_FORMAT (a rule is broken: the message names it and the byte or the
// tensor), DT_E_LIMIT (a limit exceeded), DT_E_ARGUMENT, DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_safetensors_open(const char *path, const dt_safetensors_options_t *options,
                                       dt_safetensors_t **out) DT_MUST_USE;

// As dt_safetensors_open, for a file's bytes in memory, which are borrowed until the handle is
// closed and must not change. `options->access` is not used. [any]
DT_API dt_status_t dt_safetensors_open_memory(const void *data, size_t bytes,
                                              const dt_safetensors_options_t *options,
                                              dt_safetensors_t **out) DT_MUST_USE;

// Frees the handle and everything that it gave out. NULL is allowed. No other call on the handle
// may be running. [external]
DT_API void dt_safetensors_close(dt_safetensors_t *file);

// How many tensors the file holds; 0 for NULL. [any]
DT_API uint32_t dt_safetensors_count(const dt_safetensors_t *file);

// Name of tensor `index`, in the order of their data in the file; NULL when there is none. UTF-8,
// borrowed from the file. [any]
DT_API const char *dt_safetensors_name(const dt_safetensors_t *file, uint32_t index);

// The dtype of tensor `index` as the file spells it, such as "F8_E4M3", also if Ductile has no such
// dtype. NULL when there is no such tensor. Static storage. [any]
DT_API const char *dt_safetensors_dtype_name(const dt_safetensors_t *file, uint32_t index);

// Describes the tensor called `name` in *info, which is zeroed on failure. DT_E_ARGUMENT: the file
// has no such tensor. DT_E_UNSUPPORTED: its dtype is valid but not one of Ductile's. DT_E_RANGE: a
// BOOL tensor holds a byte other than 0 and 1 (each call reads all bytes of a BOOL tensor). [any]
DT_API dt_status_t dt_safetensors_find(const dt_safetensors_t *file, const char *name,
                                       dt_safetensors_info_t *info) DT_MUST_USE;

// Copies the elements of the tensor called `name` to `data`, which has room for exactly `bytes`
// bytes. DT_E_ARGUMENT if `bytes` is not the tensor's; other errors as dt_safetensors_find. [any]
DT_API dt_status_t dt_safetensors_copy(const dt_safetensors_t *file, const char *name, void *data,
                                       size_t bytes) DT_MUST_USE;

// The `__metadata__` entries: their number, the key of entry `index` (sorted by byte value; NULL
// when there is none), and the value for `key` (NULL when there is none). Strings are UTF-8,
// borrowed. [any]
DT_API uint32_t dt_safetensors_metadata_count(const dt_safetensors_t *file);
DT_API const char *dt_safetensors_metadata_key(const dt_safetensors_t *file, uint32_t index);
DT_API const char *dt_safetensors_metadata(const dt_safetensors_t *file, const char *key);

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_SAFETENSORS_H

// SPDX-License-Identifier: Apache-2.0
// Tensors whose data lie in files beside the model. Every such file goes through here: beneath the
// model's folder, no link of any kind, within bounds, of the checksum that the model gives. Private
// to frontends/onnx.
#ifndef DT_FRONTENDS_ONNX_EXTERNAL_H
#define DT_FRONTENDS_ONNX_EXTERNAL_H

#include "frontends/onnx/files.h"
#include "frontends/onnx/read.h"
#include "frontends/onnx/sha1.h"
#include "runtime/base/thread.h"

// What TensorProto.external_data says.
typedef struct dt_onnx_location_t {
  dt_onnx_str_t path; // relative, without "." and ".."
  uint64_t offset;
  bool has_checksum;
  unsigned char checksum[DT_SHA1_BYTES]; // of the whole file
} dt_onnx_location_t;

// Reads and checks it, without a look at any file; `out` may be NULL. The tensor's bytes are known.
dt_status_t dt__onnx_read_location(const char *what, const dt_onnx_tensor_t *tensor,
                                   const dt_onnx_at_t *at, dt_onnx_location_t *out) DT_MUST_USE;

// Bytes [begin, end) of a file that tensors use, with what lies between tensors that are near.
typedef struct dt_onnx_range_t {
  uint64_t begin, end;
  dt_onnx_bytes_t content; // once loaded
} dt_onnx_range_t;

typedef struct dt_onnx_external_t {
  dt_onnx_location_t location; // of the first tensor in it
  const char *name;            // of the path, terminated
  uint32_t tensors;
  uint64_t tensor_bytes;              // of all of them
  uint64_t device, inode, file_bytes; // of the file that was found
  const unsigned char *memory; // the caller's, file_bytes of it, in the file's place; or NULL
  uint32_t n_ranges;
  dt_onnx_range_t *ranges; // rising, apart from each other
} dt_onnx_external_t;

typedef struct dt_onnx_externals_t {
  int folder; // open; -1: none
  dt_onnx_access_t access;
  DT_ONNX_LIST(dt_onnx_memory_t) memory;  // by name, copied but for the data
  DT_ONNX_LIST(dt_onnx_external_t) files; // sorted by path
  uint64_t bytes;                         // that tensors use, of all of them
  dt_mutex_t lock;                        // of `loading`, and of contents while nobody loads
  pthread_cond_t loaded;                  // `loading` became false
  bool loading;                           // somebody loads, without the lock
  bool has_lock;
} dt_onnx_externals_t;

// What the caller has in memory, sorted. DT_E_ARGUMENT, DT_E_NO_MEMORY.
dt_status_t dt__onnx_set_memory(dt_onnx_externals_t *externals, const dt_onnx_options_t *options,
                                dt_arena_t *arena) DT_MUST_USE;
// Finds the external files of a checked model, sets the tensors' `external` and `external_offset`.
// `externals` has its folder and access; it needs fini whatever comes.
dt_status_t dt__onnx_find_external(dt_onnx_externals_t *externals, dt_onnx_model_t *model,
                                   const char *what, dt_arena_t *arena,
                                   const dt_onnx_limits_t *limits,
                                   dt_onnx_pace_t *pace) DT_MUST_USE;
// Sets the file's ranges from places that its tensors have in it (`n` of them, in any order; they
// are sorted), of which *io_bytes counts all files' bytes. DT_E_LIMIT, DT_E_NO_MEMORY.
typedef struct dt_onnx_span_t {
  uint64_t begin, end;
} dt_onnx_span_t;
dt_status_t dt__onnx_set_ranges(dt_onnx_external_t *file, dt_onnx_access_t access, uint32_t n,
                                dt_onnx_span_t *spans, dt_arena_t *arena,
                                const dt_onnx_limits_t *limits, uint64_t *io_bytes) DT_MUST_USE;
// One range, which is there: all of the memory in a file's place. DT_E_NO_MEMORY.
dt_status_t dt__onnx_set_whole(dt_onnx_external_t *file, dt_arena_t *arena) DT_MUST_USE;
// The data of an external tensor, which are loaded at the first call with those around them (with
// all of the file's where it has a checksum); valid until fini. Thread-safe. DT_E_IO (it changed
// since it was found, …), DT_E_FORMAT (another checksum), DT_E_NO_MEMORY; what ends the pace, after
// which nothing of the range is loaded.
dt_status_t dt__onnx_load_external(dt_onnx_externals_t *externals, const dt_onnx_tensor_t *tensor,
                                   const char *what, dt_onnx_pace_t *pace,
                                   const unsigned char **out) DT_MUST_USE;
// What holds the data that were loaded, and where in the file they begin.
const dt_onnx_bytes_t *dt__onnx_external_bytes(const dt_onnx_externals_t *externals,
                                               const dt_onnx_tensor_t *tensor, uint64_t *out_at);
void dt__onnx_externals_fini(dt_onnx_externals_t *externals);

#endif // DT_FRONTENDS_ONNX_EXTERNAL_H

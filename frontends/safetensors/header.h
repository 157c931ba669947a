// SPDX-License-Identifier: Apache-2.0
// The checked header of a safetensors file. Private to frontends/safetensors.
//
// A file is: the header's length (8 bytes, little-endian), the header (one JSON object, from tensor
// name to dtype, shape and data_offsets; `__metadata__` maps strings to strings; spaces may
// follow), then the data that the offsets count from.
#ifndef DT_FRONTENDS_SAFETENSORS_HEADER_H
#define DT_FRONTENDS_SAFETENSORS_HEADER_H

#include "ductile/base.h"
#include "runtime/base/memory.h"

// A dtype of the format; bits, because some are narrower than a byte.
typedef struct dt_st_dtype_t {
  const char *name;
  uint32_t bits;
  dt_dtype_t dtype; // DT_DTYPE_NONE: Ductile has no such dtype
} dt_st_dtype_t;

typedef struct dt_st_entry_t {
  const char *name;
  const dt_st_dtype_t *dtype;
  const int64_t *sizes; // `rank` of them
  uint32_t rank;
  uint64_t begin, end; // bytes, counted from the start of the data
} dt_st_entry_t;

typedef struct dt_st_pair_t {
  const char *key, *value;
} dt_st_pair_t;

typedef struct dt_st_limits_t {
  uint64_t file_bytes, header_bytes;
  uint32_t tensors;
} dt_st_limits_t;

// All strings and arrays live in the arena.
typedef struct dt_st_header_t {
  dt_arena_t arena;
  DT_VEC(dt_st_entry_t) entries; // in order of begin, then end, then name
  const dt_st_entry_t **by_name; // entries.len pointers, in order of name
  DT_VEC(dt_st_pair_t) metadata; // in order of key
} dt_st_header_t;

// Parses and checks `bytes` bytes of header, for a file with `data_bytes` after it. `header` must
// be zeroed; on failure it still needs fini. `what` names the file in messages and is not kept.
dt_status_t dt__st_header_parse(dt_st_header_t *header, const char *text, size_t bytes,
                                uint64_t data_bytes, const dt_st_limits_t *limits,
                                const char *what) DT_MUST_USE;
void dt__st_header_fini(dt_st_header_t *header);
// NULL when there is none.
const dt_st_entry_t *dt__st_header_find(const dt_st_header_t *header, const char *name);
const dt_st_pair_t *dt__st_header_metadata(const dt_st_header_t *header, const char *key);

#endif // DT_FRONTENDS_SAFETENSORS_HEADER_H

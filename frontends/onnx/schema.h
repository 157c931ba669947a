// SPDX-License-Identifier: Apache-2.0
// Which fields of the format's messages are read, and into which members. Private to
// frontends/onnx.
#ifndef DT_FRONTENDS_ONNX_SCHEMA_H
#define DT_FRONTENDS_ONNX_SCHEMA_H

#include "frontends/onnx/model.h"

// How a field stands in the file and what its member is. The second half may come many times.
typedef enum dt_onnx_kind_t {
  DT_ONNX_INT,      // varint → int64_t
  DT_ONNX_FLOAT,    // 32 bits → float
  DT_ONNX_TEXT,     // an identifier → dt_onnx_str_t; UTF-8, bounded
  DT_ONNX_BYTES,    // → dt_onnx_str_t
  DT_ONNX_NAME,     // a value's name → dt_onnx_name_t; UTF-8, bounded
  DT_ONNX_MESSAGE,  // → a pointer
  DT_ONNX_INTS,     // packed or not → dt_onnx_ints_t
  DT_ONNX_FLOATS,   // packed or not → dt_onnx_floats_t
  DT_ONNX_TEXTS,    // → dt_onnx_strs_t
  DT_ONNX_BYTESES,  // → dt_onnx_strs_t
  DT_ONNX_NAMES,    // → dt_onnx_names_t
  DT_ONNX_MESSAGES, // → a list of structs
  DT_ONNX_VARINTS,  // packed or not → dt_onnx_typed_t, only counted, as those that follow
  DT_ONNX_WORDS32,
  DT_ONNX_WORDS64,
  DT_ONNX_STRINGS,
} dt_onnx_kind_t;

typedef struct dt_onnx_message_t dt_onnx_message_t;

typedef struct dt_onnx_field_t {
  uint32_t number;
  dt_onnx_kind_t kind;
  size_t member;                // offset in the struct
  const char *name;             // of the format
  const dt_onnx_message_t *sub; // of MESSAGE and MESSAGES
} dt_onnx_field_t;

// What a message counts against.
typedef enum dt_onnx_counted_t {
  DT_ONNX_UNCOUNTED,
  DT_ONNX_COUNT_NODES,
  DT_ONNX_COUNT_TENSORS,
  DT_ONNX_COUNT_GRAPHS, // those that enclose each other, not all
  DT_ONNX_N_COUNTED,
} dt_onnx_counted_t;

#define DT_ONNX_MAX_FIELDS 20u

struct dt_onnx_message_t {
  const char *name;
  size_t size; // of the struct, which begins with a dt_onnx_head_t
  const dt_onnx_field_t *fields;
  uint32_t n_fields; // at most DT_ONNX_MAX_FIELDS
  dt_onnx_counted_t counted;
};

extern const dt_onnx_message_t dt__onnx_model_message, dt__onnx_tensor_message;

// The row of field `number`; NULL: none, it is skipped.
const dt_onnx_field_t *dt__onnx_field(const dt_onnx_message_t *message, uint64_t number);
// The kind's wire type, for one element of it.
uint32_t dt__onnx_wire_type(dt_onnx_kind_t kind);
bool dt__onnx_is_repeated(dt_onnx_kind_t kind);
// Elements of numbers may be packed in one length-delimited field.
bool dt__onnx_is_packable(dt_onnx_kind_t kind);
// Bytes of a list's item; 0 for what is no list.
size_t dt__onnx_item_size(const dt_onnx_field_t *field);

#endif // DT_FRONTENDS_ONNX_SCHEMA_H

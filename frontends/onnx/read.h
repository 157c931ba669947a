// SPDX-License-Identifier: Apache-2.0
// Turns a file's bytes into the structs of model.h by the tables of schema.h, within limits, and
// says where in the file something is wrong.
#ifndef DT_FRONTENDS_ONNX_READ_H
#define DT_FRONTENDS_ONNX_READ_H

#include "frontends/onnx/pace.h"
#include "frontends/onnx/schema.h"
#include "runtime/base/memory.h"

typedef struct dt_onnx_limits_t {
  uint64_t file_bytes;      // of the model, and of each external file
  uint64_t external_bytes;  // that tensors take of external files, all together
  uint64_t structure_bytes; // memory for what is read, data apart
  uint32_t counted[DT_ONNX_N_COUNTED];
} dt_onnx_limits_t;

// The most messages within each other, and the most bytes of an identifier.
#define DT_ONNX_MAX_NESTING 128u
#define DT_ONNX_MAX_NAME_BYTES 4096u

// A place in the model: the way to a message, from the inside out. Lives on the stack.
typedef struct dt_onnx_at_t {
  const struct dt_onnx_at_t *up; // NULL: the whole
  const char *field;
  int64_t index; // among the field's messages; -1: the field comes once
} dt_onnx_at_t;

// DT_FAIL with "<what>: graph.node[12].attribute[3]: byte 4711: …"; `at` may be NULL.
dt_status_t dt__onnx_fail(const char *what, dt_code_t code, const dt_onnx_at_t *at, uint64_t offset,
                          const char *fmt, ...) DT_PRINTF(5, 6) DT_MUST_USE;

// Text for messages of at most so many bytes; what is no UTF-8, or would break a line, becomes ?.
#define DT_ONNX_SHOWN 100
typedef struct dt_onnx_shown_t {
  char text[DT_ONNX_SHOWN + 8];
} dt_onnx_shown_t;
dt_onnx_shown_t dt__onnx_show(dt_onnx_str_t str);

// One reading. Zeroed but for what the caller sets.
typedef struct dt_onnx_read_t {
  const unsigned char *data; // the caller's; the structs point into it
  uint64_t bytes;
  const char *what;  // names the file in messages
  dt_arena_t *arena; // for the structs
  const dt_onnx_limits_t *limits;
  dt_onnx_pace_t *pace;                // may be NULL
  uint32_t counted[DT_ONNX_N_COUNTED]; // so far
  uint64_t taken;                      // bytes of structs so far
} dt_onnx_read_t;

// Reads all bytes as one `message` into the zeroed struct `out`. DT_E_FORMAT, DT_E_LIMIT,
// DT_E_NO_MEMORY; what ends its pace.
dt_status_t dt__onnx_read(dt_onnx_read_t *read, const dt_onnx_message_t *message,
                          void *out) DT_MUST_USE;

#endif // DT_FRONTENDS_ONNX_READ_H

// SPDX-License-Identifier: Apache-2.0
// A bounded pull parser for JSON (RFC 8259): the caller asks for one token after another and keeps
// what it needs, so memory is that of the longest string, whatever the document holds.
//
// It checks the whole grammar, UTF-8 and the limits. It does not look for duplicate keys: which
// keys there were is known to the caller only.
#ifndef DT_FRONTENDS_JSON_JSON_H
#define DT_FRONTENDS_JSON_JSON_H

#include "ductile/base.h"

// The deepest nesting any limit can allow.
#define DT_JSON_MAX_DEPTH 256

// What a reader accepts. A zero field takes its default.
typedef struct dt_json_limits_t {
  size_t total_bytes;  // of the document; 0: 100 MB
  size_t string_bytes; // of one decoded string or key; 0: 64 KiB
  uint32_t depth;      // of open objects and arrays, at most DT_JSON_MAX_DEPTH; 0: 32
} dt_json_limits_t;

typedef enum dt_json_kind_t {
  DT_JSON_END, // the document is over; comes again on every later call
  DT_JSON_OBJECT_BEGIN,
  DT_JSON_OBJECT_END,
  DT_JSON_ARRAY_BEGIN,
  DT_JSON_ARRAY_END,
  DT_JSON_KEY, // an object member's name; its value follows
  DT_JSON_STRING,
  DT_JSON_INT,   // no fraction, no exponent, fits int64; "-0" is a DT_JSON_FLOAT
  DT_JSON_FLOAT, // every other number, rounded to nearest; finite
  DT_JSON_BOOL,
  DT_JSON_NULL,
} dt_json_kind_t;

typedef struct dt_json_token_t {
  dt_json_kind_t kind;
  bool boolean;
  size_t offset;    // of the token's first byte in the document
  const char *text; // KEY, STRING: decoded UTF-8, not NUL-terminated, may hold U+0000; valid until
                    // the next call
  size_t len;
  int64_t integer; // INT
  double number;   // INT and FLOAT
} dt_json_token_t;

// A reader over a caller's buffer; fields are private. [external]
typedef struct dt_json_t {
  const char *begin, *at, *end;
  const char *what; // the document's name in messages
  char *scratch;    // decoded text of the last string that had escapes; owner
  size_t scratch_cap;
  dt_json_limits_t limits;
  uint32_t depth;
  uint8_t expect;                            // what the grammar allows next
  uint8_t in_object[DT_JSON_MAX_DEPTH / 8u]; // one bit per open container
} dt_json_t;

// `data` and `what` are borrowed until dt__json_fini; `limits` may be NULL. DT_E_LIMIT when the
// document is longer than allowed (the reader then needs no fini, but may have it).
dt_status_t dt__json_init(dt_json_t *json, const char *data, size_t len, const char *what,
                          const dt_json_limits_t *limits) DT_MUST_USE;
void dt__json_fini(dt_json_t *json);

// The next token. DT_E_FORMAT with the byte offset, DT_E_LIMIT, DT_E_NO_MEMORY; after a failure
// only dt__json_fini may follow.
dt_status_t dt__json_next(dt_json_t *json, dt_json_token_t *out) DT_MUST_USE;
// The next token, which must be of `kind`: else DT_E_FORMAT saying what was found.
dt_status_t dt__json_expect(dt_json_t *json, dt_json_kind_t kind, dt_json_token_t *out) DT_MUST_USE;
// Reads one value whole (after a key or inside an array) and forgets it.
dt_status_t dt__json_skip(dt_json_t *json) DT_MUST_USE;
// DT_E_FORMAT "<what>: byte <offset>: …", for the caller's own findings.
dt_status_t dt__json_fail(const dt_json_t *json, size_t offset, const char *fmt, ...)
    DT_PRINTF(3, 4) DT_MUST_USE;
const char *dt__json_kind_name(dt_json_kind_t kind);

#endif // DT_FRONTENDS_JSON_JSON_H

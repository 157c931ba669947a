// SPDX-License-Identifier: Apache-2.0
// The grammar of the JSON reader: one byte of state says what may come next, one bit per level says
// whether the open container is an object. Scalars are read in json_scalar.c.
#include "frontends/json/json_scalar.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
  EXPECT_VALUE,        // a value: at the top, after a key, after a comma in an array
  EXPECT_FIRST_KEY,    // a key or '}'
  EXPECT_FIRST_VALUE,  // a value or ']'
  EXPECT_COMMA_OR_END, // after a value inside a container
  EXPECT_NOTHING,      // after the top value
};

static const size_t default_total_bytes = 100000000;
static const size_t default_string_bytes = 65536;
static const uint32_t default_depth = 32;

const char *dt__json_kind_name(dt_json_kind_t kind) {
  static const char *const names[] = {
      "the end", "an object", "the end of an object", "an array", "the end of an array",
      "a key",   "a string",  "an integer",           "a number", "a boolean",
      "null",
  };
  return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "an unknown token";
}

dt_status_t dt__json_fail(const dt_json_t *json, size_t offset, const char *fmt, ...) {
  char message[320];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  return DT_FAIL(DT_E_FORMAT, "%s: byte %zu: %s", json->what, offset, message);
}

dt_status_t dt__json_init(dt_json_t *json, const char *data, size_t len, const char *what,
                          const dt_json_limits_t *limits) {
  memset(json, 0, sizeof *json);
  json->begin = json->at = data;
  json->end = data + len;
  json->what = what;
  if (limits)
    json->limits = *limits;
  if (json->limits.total_bytes == 0)
    json->limits.total_bytes = default_total_bytes;
  if (json->limits.string_bytes == 0)
    json->limits.string_bytes = default_string_bytes;
  if (json->limits.depth == 0)
    json->limits.depth = default_depth;
  if (json->limits.depth > DT_JSON_MAX_DEPTH)
    json->limits.depth = DT_JSON_MAX_DEPTH;
  if (len > json->limits.total_bytes)
    return DT_FAIL(DT_E_LIMIT, "%s: %zu bytes of JSON, the limit is %zu", what, len,
                   json->limits.total_bytes);
  return NULL;
}

void dt__json_fini(dt_json_t *json) {
  dt__free(json->scratch);
  json->scratch = NULL;
  json->scratch_cap = 0;
}

// ---- Containers ---------------------------------------------------------------------------------

static bool in_object(const dt_json_t *json) {
  uint32_t level = json->depth - 1;
  return json->depth > 0 && (json->in_object[level / 8] >> (level % 8) & 1) != 0;
}

static void value_done(dt_json_t *json) {
  json->expect = json->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static dt_status_t open_container(dt_json_t *json, bool object, dt_json_token_t *out) {
  if (json->depth >= json->limits.depth)
    return DT_FAIL(DT_E_LIMIT, "%s: byte %zu: nested deeper than the limit of %u", json->what,
                   out->offset, json->limits.depth);
  uint32_t level = json->depth++;
  uint8_t bit = (uint8_t)(1u << (level % 8));
  if (object)
    json->in_object[level / 8] |= bit;
  else
    json->in_object[level / 8] &= (uint8_t)~bit;
  json->at++;
  json->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_VALUE;
  out->kind = object ? DT_JSON_OBJECT_BEGIN : DT_JSON_ARRAY_BEGIN;
  return NULL;
}

static void close_container(dt_json_t *json, dt_json_token_t *out) {
  out->kind = in_object(json) ? DT_JSON_OBJECT_END : DT_JSON_ARRAY_END;
  json->at++;
  json->depth--;
  value_done(json);
}

// ---- Tokens -------------------------------------------------------------------------------------

static void skip_space(dt_json_t *json) {
  while (json->at < json->end &&
         (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
    json->at++;
}

static dt_status_t fail_here(const dt_json_t *json, const char *wanted) {
  size_t offset = (size_t)(json->at - json->begin);
  if (json->at == json->end)
    return dt__json_fail(json, offset, "expected %s, found the end of the text", wanted);
  unsigned char found = (unsigned char)*json->at;
  if (found < 0x20 || found >= 0x7f)
    return dt__json_fail(json, offset, "expected %s, found byte 0x%02x", wanted, found);
  return dt__json_fail(json, offset, "expected %s, found '%c'", wanted, found);
}

static dt_status_t read_key(dt_json_t *json, dt_json_token_t *out) {
  if (json->at == json->end || *json->at != '"')
    return fail_here(json, "a key in quotes");
  out->offset = (size_t)(json->at - json->begin);
  DT_TRY(dt__json_read_string(json, out));
  out->kind = DT_JSON_KEY;
  skip_space(json);
  if (json->at == json->end || *json->at != ':')
    return fail_here(json, "':' after a key");
  json->at++;
  json->expect = EXPECT_VALUE;
  return NULL;
}

static dt_status_t read_word(dt_json_t *json, const char *word) {
  size_t len = strlen(word);
  if ((size_t)(json->end - json->at) < len || memcmp(json->at, word, len) != 0)
    return fail_here(json, "a value");
  json->at += len;
  return NULL;
}

static dt_status_t read_value(dt_json_t *json, dt_json_token_t *out) {
  if (json->at == json->end)
    return fail_here(json, "a value");
  switch (*json->at) {
  case '{':
    return open_container(json, true, out);
  case '[':
    return open_container(json, false, out);
  case '"':
    out->kind = DT_JSON_STRING;
    DT_TRY(dt__json_read_string(json, out));
    break;
  case 't':
    out->kind = DT_JSON_BOOL;
    out->boolean = true;
    DT_TRY(read_word(json, "true"));
    break;
  case 'f':
    out->kind = DT_JSON_BOOL;
    DT_TRY(read_word(json, "false"));
    break;
  case 'n':
    out->kind = DT_JSON_NULL;
    DT_TRY(read_word(json, "null"));
    break;
  default:
    if (*json->at != '-' && (*json->at < '0' || *json->at > '9'))
      return fail_here(json, "a value");
    DT_TRY(dt__json_read_number(json, out));
  }
  value_done(json);
  return NULL;
}

// Steps over the comma between two members or elements; *out_closed when the container ended.
static dt_status_t after_value(dt_json_t *json, dt_json_token_t *out, bool *out_closed) {
  bool object = in_object(json);
  *out_closed = false;
  if (json->at < json->end && *json->at == (object ? '}' : ']')) {
    close_container(json, out);
    *out_closed = true;
    return NULL;
  }
  if (json->at == json->end || *json->at != ',')
    return fail_here(json, object ? "',' or '}'" : "',' or ']'");
  json->at++;
  skip_space(json);
  out->offset = (size_t)(json->at - json->begin);
  return NULL;
}

dt_status_t dt__json_next(dt_json_t *json, dt_json_token_t *out) {
  memset(out, 0, sizeof *out);
  skip_space(json);
  out->offset = (size_t)(json->at - json->begin);
  switch (json->expect) {
  case EXPECT_NOTHING:
    if (json->at != json->end)
      return fail_here(json, "the end");
    out->kind = DT_JSON_END;
    return NULL;
  case EXPECT_FIRST_KEY:
    if (json->at < json->end && *json->at == '}') {
      close_container(json, out);
      return NULL;
    }
    return read_key(json, out);
  case EXPECT_FIRST_VALUE:
    if (json->at < json->end && *json->at == ']') {
      close_container(json, out);
      return NULL;
    }
    return read_value(json, out);
  case EXPECT_COMMA_OR_END: {
    bool closed;
    DT_TRY(after_value(json, out, &closed));
    if (closed)
      return NULL;
    return in_object(json) ? read_key(json, out) : read_value(json, out);
  }
  default:
    return read_value(json, out);
  }
}

dt_status_t dt__json_expect(dt_json_t *json, dt_json_kind_t kind, dt_json_token_t *out) {
  DT_TRY(dt__json_next(json, out));
  if (out->kind != kind)
    return dt__json_fail(json, out->offset, "expected %s, found %s", dt__json_kind_name(kind),
                         dt__json_kind_name(out->kind));
  return NULL;
}

dt_status_t dt__json_skip(dt_json_t *json) {
  uint32_t depth = json->depth;
  dt_json_token_t token;
  do {
    DT_TRY(dt__json_next(json, &token));
    if (token.kind == DT_JSON_END || json->depth < depth)
      return dt__json_fail(json, token.offset, "expected a value, found %s",
                           dt__json_kind_name(token.kind));
  } while (json->depth > depth || token.kind == DT_JSON_KEY);
  return NULL;
}

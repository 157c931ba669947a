// SPDX-License-Identifier: Apache-2.0
// Strings (escapes, UTF-8) and numbers of the JSON reader.
#include "frontends/json/json_scalar.h"

#include "runtime/base/c_locale.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// More digits than any shortest or exact decimal of a useful double; a longer number is refused.
#define NUMBER_BYTES 400

static size_t encode_utf8(uint32_t code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | code >> 18);
  out[1] = (char)(0x80 | (code >> 12 & 0x3f));
  out[2] = (char)(0x80 | (code >> 6 & 0x3f));
  out[3] = (char)(0x80 | (code & 0x3f));
  return 4;
}

// ---- Strings ------------------------------------------------------------------------------------

static size_t offset_of(const dt_json_t *json) { return (size_t)(json->at - json->begin); }

// Finds the closing quote, checking bytes on the way; json->at is left on the first byte of the
// content. *out_close points at the quote.
static dt_status_t measure_string(dt_json_t *json, const char **out_close, bool *out_escapes) {
  const char *at = ++json->at;
  *out_escapes = false;
  for (;;) {
    size_t offset = (size_t)(at - json->begin);
    if (at == json->end)
      return dt__json_fail(json, offset, "the text ends inside a string");
    unsigned char c = (unsigned char)*at;
    if (c == '"')
      break;
    if (c < 0x20)
      return dt__json_fail(json, offset, "control byte 0x%02x inside a string", c);
    if (c == '\\') {
      *out_escapes = true;
      at += 1; // The escaped byte is checked when it is decoded; a quote must not end the string.
      if (at == json->end)
        return dt__json_fail(json, offset, "the text ends inside a string");
      if ((unsigned char)*at >= 0x80)
        return dt__json_fail(json, offset, "unknown escape in a string");
      at += 1;
      continue;
    }
    size_t len = dt__utf8_length(at, json->end);
    if (len == 0)
      return dt__json_fail(json, offset, "byte 0x%02x is not valid UTF-8", c);
    at += len;
  }
  *out_close = at;
  return NULL;
}

static bool read_hex4(const char *at, const char *end, uint32_t *out) {
  if (end - at < 4)
    return false;
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    uint32_t digit;
    if (c >= '0' && c <= '9')
      digit = (uint32_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = (uint32_t)(c - 'a') + 10;
    else if (c >= 'A' && c <= 'F')
      digit = (uint32_t)(c - 'A') + 10;
    else
      return false;
    value = value << 4 | digit;
  }
  *out = value;
  return true;
}

// Decodes the \uXXXX (or surrogate pair) whose backslash is at json->at; advances past it.
static dt_status_t read_unicode_escape(dt_json_t *json, const char *close, uint32_t *out) {
  uint32_t code, low;
  if (!read_hex4(json->at + 2, close, &code))
    return dt__json_fail(json, offset_of(json), "\\u needs four hexadecimal digits");
  size_t used = 6;
  if (code >= 0xdc00 && code <= 0xdfff)
    return dt__json_fail(json, offset_of(json), "a low surrogate without its high surrogate");
  if (code >= 0xd800 && code <= 0xdbff) {
    const char *next = json->at + 6;
    if (close - next < 6 || next[0] != '\\' || next[1] != 'u' ||
        !read_hex4(next + 2, close, &low) || low < 0xdc00 || low > 0xdfff)
      return dt__json_fail(json, offset_of(json), "a high surrogate without its low surrogate");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    used = 12;
  }
  json->at += used;
  *out = code;
  return NULL;
}

// Writes the character of the escape at json->at to `to`; advances past it. An escape is never
// shorter than what it stands for, so the source's length bounds the output.
static dt_status_t decode_escape(dt_json_t *json, const char *close, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  char c = json->at[1];
  if (c == 'u') {
    uint32_t code = 0;
    DT_TRY(read_unicode_escape(json, close, &code));
    *to += encode_utf8(code, *to);
    return NULL;
  }
  const char *found = c == '\0' ? NULL : strchr(from, c);
  if (!found)
    return dt__json_fail(json, offset_of(json), "unknown escape in a string");
  *(*to)++ = into[found - from];
  json->at += 2;
  return NULL;
}

dt_status_t dt__json_read_string(dt_json_t *json, dt_json_token_t *out) {
  size_t offset = offset_of(json);
  const char *close = NULL;
  bool escapes = false;
  DT_TRY(measure_string(json, &close, &escapes));
  size_t len = (size_t)(close - json->at);
  out->text = json->at;
  if (escapes) {
    if (len > json->scratch_cap) {
      char *grown = dt__realloc(json->scratch, len);
      if (!grown)
        return DT_NO_MEMORY();
      json->scratch = grown;
      json->scratch_cap = len;
    }
    char *to = json->scratch;
    while (json->at < close) {
      if (*json->at == '\\')
        DT_TRY(decode_escape(json, close, &to));
      else
        *to++ = *json->at++;
    }
    out->text = json->scratch;
    len = (size_t)(to - json->scratch);
  }
  if (len > json->limits.string_bytes)
    return DT_FAIL(DT_E_LIMIT, "%s: byte %zu: a string of %zu bytes, the limit is %zu", json->what,
                   offset, len, json->limits.string_bytes);
  out->len = len;
  json->at = close + 1;
  return NULL;
}

// ---- Numbers ------------------------------------------------------------------------------------

static size_t count_digits(const char *at, const char *end) {
  size_t count = 0;
  while (at + count < end && at[count] >= '0' && at[count] <= '9')
    count++;
  return count;
}

// The length of the number at json->at by the grammar; *out_whole when it has neither fraction nor
// exponent.
static dt_status_t measure_number(const dt_json_t *json, size_t *out_len, bool *out_whole) {
  const char *at = json->at, *end = json->end;
  *out_whole = true;
  if (*at == '-')
    at++;
  size_t digits = count_digits(at, end);
  if (digits == 0)
    return dt__json_fail(json, offset_of(json), "a number without digits");
  if (digits > 1 && *at == '0')
    return dt__json_fail(json, offset_of(json), "a number with a leading zero");
  at += digits;
  if (at < end && *at == '.') {
    *out_whole = false;
    digits = count_digits(++at, end);
    if (digits == 0)
      return dt__json_fail(json, offset_of(json), "no digit after the decimal point");
    at += digits;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    *out_whole = false;
    at++;
    if (at < end && (*at == '+' || *at == '-'))
      at++;
    digits = count_digits(at, end);
    if (digits == 0)
      return dt__json_fail(json, offset_of(json), "no digit in the exponent");
    at += digits;
  }
  *out_len = (size_t)(at - json->at);
  return NULL;
}

static bool read_integer(const char *text, size_t len, int64_t *out) {
  bool negative = text[0] == '-';
  int64_t value = 0;
  for (size_t i = negative; i < len; i++) {
    int64_t digit = text[i] - '0';
    // Accumulating on the negative side reaches INT64_MIN without overflow.
    if (!dt__mul_i64(value, 10, &value) || !dt__add_i64(value, -digit, &value))
      return false;
  }
  if (!negative && value == INT64_MIN)
    return false;
  *out = negative ? value : -value;
  return !(negative && value == 0);
}

dt_status_t dt__json_read_number(dt_json_t *json, dt_json_token_t *out) {
  size_t len = 0;
  bool whole = false;
  DT_TRY(measure_number(json, &len, &whole));
  if (whole && read_integer(json->at, len, &out->integer)) {
    out->kind = DT_JSON_INT;
    out->number = (double)out->integer;
    json->at += len;
    return NULL;
  }
  char text[NUMBER_BYTES];
  if (len >= sizeof text)
    return dt__json_fail(json, offset_of(json), "a number of %zu characters", len);
  memcpy(text, json->at, len);
  text[len] = '\0';
  locale_t c_locale = dt__c_locale();
  if (!c_locale)
    return DT_NO_MEMORY();
  out->number = strtod_l(text, NULL, c_locale);
  if (!isfinite(out->number))
    return dt__json_fail(json, offset_of(json), "a number beyond the range of a double");
  out->kind = DT_JSON_FLOAT;
  out->integer = 0;
  json->at += len;
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// The bounded scanner that the IR parsers share. It never reads at or past `end`, copies nothing
// but numbers and strings, and finds line and column only when a message needs them.
#include "runtime/base/text.h"

#include "runtime/base/c_locale.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_word(char c) { return is_alpha(c) || is_digit(c) || c == '.'; }

static int hex_value(char c) {
  if (is_digit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

void dt__scan_init(dt_scan_t *scan, const char *data, size_t len, const char *what) {
  const char *begin = len ? data : "";
  *scan = (dt_scan_t){.at = begin, .end = begin + len, .begin = begin, .what = what};
}

void dt__scan_space(dt_scan_t *scan) {
  while (scan->at < scan->end) {
    char c = *scan->at;
    if (c == ';') {
      while (scan->at < scan->end && *scan->at != '\n')
        scan->at++;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      scan->at++;
    } else {
      return;
    }
  }
}

bool dt__scan_end(dt_scan_t *scan) {
  dt__scan_space(scan);
  return scan->at == scan->end;
}

bool dt__scan_peek(dt_scan_t *scan, const char *token) {
  dt__scan_space(scan);
  size_t len = strlen(token);
  return len <= (size_t)(scan->end - scan->at) && memcmp(scan->at, token, len) == 0;
}

bool dt__scan_accept(dt_scan_t *scan, const char *token) {
  if (!dt__scan_peek(scan, token))
    return false;
  scan->at += strlen(token);
  return true;
}

bool dt__scan_accept_word(dt_scan_t *scan, const char *word) {
  if (!dt__scan_peek(scan, word))
    return false;
  const char *after = scan->at + strlen(word);
  if (after < scan->end && is_word(*after))
    return false;
  scan->at = after;
  return true;
}

dt_status_t dt__scan_expect(dt_scan_t *scan, const char *token) {
  if (dt__scan_accept(scan, token))
    return NULL;
  return dt__scan_fail(scan, "expected '%s'", token);
}

dt_status_t dt__scan_word(dt_scan_t *scan, const char **out, size_t *out_len) {
  *out = NULL;
  *out_len = 0;
  dt__scan_space(scan);
  const char *at = scan->at;
  if (at == scan->end || !is_alpha(*at))
    return dt__scan_fail(scan, "expected a word");
  while (at < scan->end && is_word(*at))
    at++;
  *out = scan->at;
  *out_len = (size_t)(at - scan->at);
  scan->at = at;
  return NULL;
}

dt_status_t dt__scan_i64(dt_scan_t *scan, int64_t *out) {
  *out = 0;
  dt__scan_space(scan);
  const char *at = scan->at;
  bool negative = at < scan->end && *at == '-';
  if (negative)
    at++;
  if (at == scan->end || !is_digit(*at))
    return dt__scan_fail(scan, "expected an integer");
  // Digits are subtracted, because only the negative side holds the magnitude of INT64_MIN.
  int64_t value = 0;
  for (; at < scan->end && is_digit(*at); at++) {
    if (!dt__mul_i64(value, 10, &value) || __builtin_sub_overflow(value, *at - '0', &value))
      return dt__scan_fail(scan, "integer does not fit 64 bits");
  }
  if (!negative && __builtin_sub_overflow((int64_t)0, value, &value))
    return dt__scan_fail(scan, "integer does not fit 64 bits");
  *out = value;
  scan->at = at;
  return NULL;
}

static const char *skip_digits(const char *at, const char *end, bool hex) {
  while (at < end && (hex ? hex_value(*at) >= 0 : is_digit(*at)))
    at++;
  return at;
}

// The end of the floating-point literal at `at`, or `at` itself where none stands.
static const char *float_end(const char *at, const char *end) {
  const char *begin = at;
  if (at < end && (*at == '-' || *at == '+'))
    at++;
  if (end - at >= 3 && (memcmp(at, "inf", 3) == 0 || memcmp(at, "nan", 3) == 0))
    return at + 3;
  bool hex = end - at >= 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
  if (hex)
    at += 2;
  const char *whole = at;
  at = skip_digits(at, end, hex);
  int64_t digits = at - whole;
  if (at < end && *at == '.') {
    const char *fraction = at + 1;
    at = skip_digits(fraction, end, hex);
    digits += at - fraction;
  }
  if (digits == 0)
    return begin;
  if (at < end && (hex ? (*at == 'p' || *at == 'P') : (*at == 'e' || *at == 'E'))) {
    const char *sign = at + 1;
    if (sign < end && (*sign == '-' || *sign == '+'))
      sign++;
    const char *exponent = skip_digits(sign, end, false);
    if (exponent > sign)
      at = exponent;
  }
  return at;
}

dt_status_t dt__scan_f64(dt_scan_t *scan, double *out) {
  *out = 0.0;
  dt__scan_space(scan);
  const char *after = float_end(scan->at, scan->end);
  size_t len = (size_t)(after - scan->at);
  if (len == 0)
    return dt__scan_fail(scan, "expected a number");
  // Longer than any exactly printed double (1074 fraction digits), so nothing real is refused.
  char buf[1200];
  if (len >= sizeof(buf))
    return dt__scan_fail(scan, "number of %zu characters is longer than %zu", len, sizeof(buf) - 1);
  memcpy(buf, scan->at, len);
  buf[len] = '\0';
  locale_t plain = dt__c_locale();
  if (!plain)
    return DT_NO_MEMORY();
  *out = strtod_l(buf, NULL, plain);
  scan->at = after;
  return NULL;
}

// Reads the escape behind a backslash at scan->at; false where it is none.
static bool escape(dt_scan_t *scan, char *out) {
  if (scan->at == scan->end)
    return false;
  char c = *scan->at++;
  if (c == '"' || c == '\\') {
    *out = c;
    return true;
  }
  if (c == 'n') {
    *out = '\n';
    return true;
  }
  if (c != 'x' || scan->end - scan->at < 2)
    return false;
  int high = hex_value(scan->at[0]), low = hex_value(scan->at[1]);
  if (high < 0 || low < 0)
    return false;
  scan->at += 2;
  *out = (char)(high * 16 + low);
  return true;
}

dt_status_t dt__scan_string(dt_scan_t *scan, char *buf, size_t cap, size_t *out_len) {
  *out_len = 0;
  DT_TRY(dt__scan_expect(scan, "\""));
  size_t len = 0;
  while (scan->at < scan->end && *scan->at != '"' && *scan->at != '\n') {
    char c = *scan->at++;
    if (c == '\\' && !escape(scan, &c))
      return dt__scan_fail(scan, "unknown escape in a string; known: \\\" \\\\ \\n \\xNN");
    if (len + 1 >= cap)
      return dt__scan_fail(scan, "string is longer than %zu characters", cap ? cap - 1 : 0);
    buf[len++] = c;
  }
  if (scan->at == scan->end || *scan->at != '"')
    return dt__scan_fail(scan, "string without an end");
  scan->at++;
  if (cap == 0)
    return dt__scan_fail(scan, "no room for a string");
  buf[len] = '\0';
  *out_len = len;
  return NULL;
}

// The next few characters in printable form, for messages.
static void excerpt(const dt_scan_t *scan, char *out, size_t cap) {
  size_t len = 0;
  for (const char *at = scan->at; at < scan->end && *at != '\n' && len + 1 < cap; at++)
    out[len++] = (*at >= ' ' && *at <= '~') ? *at : '?';
  out[len] = '\0';
}

dt_status_t dt__scan_fail(dt_scan_t *scan, const char *fmt, ...) {
  char message[512];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(message, sizeof(message), fmt, args);
  va_end(args);
  int64_t line = 1, column = 1;
  for (const char *at = scan->begin; at < scan->at; at++) {
    column = *at == '\n' ? 1 : column + 1;
    line += *at == '\n';
  }
  char next[25];
  excerpt(scan, next, sizeof(next));
  return DT_FAIL(DT_E_FORMAT, "%s:%lld:%lld: %s, found %s%s%s", scan->what ? scan->what : "text",
                 (long long)line, (long long)column, message, next[0] ? "'" : "",
                 next[0] ? next : (scan->at == scan->end ? "the end" : "a line end"),
                 next[0] ? "'" : "");
}

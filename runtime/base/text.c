// SPDX-License-Identifier: Apache-2.0
// The growable string that printers write into. The scanner of text.h stands in scan.c.
//
// What is printed must not depend on the process's locale: IR texts and dumps are read back, and a
// decimal comma would break them. Formatting therefore happens under the C locale of this thread.
#include "runtime/base/text.h"

#include "runtime/base/c_locale.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

locale_t dt__c_locale(void) {
  (void)pthread_once(&locale_once, make_c_locale);
  return c_locale;
}

static int format(char *out, size_t cap, const char *fmt, va_list args) {
  locale_t plain = dt__c_locale();
  locale_t before = plain ? uselocale(plain) : (locale_t)0;
  int len = vsnprintf(out, cap, fmt, args);
  if (before)
    (void)uselocale(before);
  return len;
}

void dt__text_init(dt_text_t *text) { *text = (dt_text_t){0}; }

void dt__text_fini(dt_text_t *text) {
  dt__free(text->data);
  *text = (dt_text_t){0};
}

// Makes room for `more` characters and the NUL.
static bool reserve(dt_text_t *text, size_t more) {
  if (text->failed)
    return false;
  size_t need = 0;
  if (!dt__add_size(text->len, more, &need) || !dt__add_size(need, 1, &need)) {
    text->failed = true;
    return false;
  }
  if (need <= text->cap)
    return true;
  size_t cap = text->cap < 64 ? 64 : text->cap;
  while (cap < need && dt__mul_size(cap, 2, &cap)) {
  }
  char *data = dt__realloc(text->data, cap < need ? need : cap);
  if (!data) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->cap = cap < need ? need : cap;
  return true;
}

void dt__text_write(dt_text_t *text, const char *str, size_t len) {
  if (!reserve(text, len))
    return;
  if (len)
    memcpy(text->data + text->len, str, len);
  text->len += len;
  text->data[text->len] = '\0';
}

void dt__text_put(dt_text_t *text, const char *str) { dt__text_write(text, str, strlen(str)); }

void dt__text_i64(dt_text_t *text, int64_t value) {
  char digits[20];
  size_t at = sizeof(digits);
  uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do {
    digits[--at] = (char)('0' + left % 10);
    left /= 10;
  } while (left);
  if (value < 0)
    digits[--at] = '-';
  dt__text_write(text, digits + at, sizeof(digits) - at);
}

void dt__text_printf(dt_text_t *text, const char *fmt, ...) {
  if (!reserve(text, 64))
    return;
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int len = format(text->data + text->len, text->cap - text->len, fmt, args);
  va_end(args);
  if (len < 0)
    len = 0;
  if ((size_t)len >= text->cap - text->len) {
    if (reserve(text, (size_t)len))
      (void)format(text->data + text->len, text->cap - text->len, fmt, again);
    else
      len = 0;
  }
  va_end(again);
  text->len += (size_t)len;
  text->data[text->len] = '\0';
}

void dt__text_quote(dt_text_t *text, const char *str, size_t most) {
  dt__text_put(text, "\"");
  for (const char *at = str; *at && (size_t)(at - str) < most; at++) {
    if (*at == '"' || *at == '\\')
      dt__text_printf(text, "\\%c", *at);
    else if (*at == '\n')
      dt__text_put(text, "\\n");
    else if (*at < ' ' || *at > '~')
      dt__text_printf(text, "\\x%02x", (unsigned)(unsigned char)*at);
    else
      dt__text_write(text, at, 1);
  }
  dt__text_put(text, "\"");
}

size_t dt__utf8_length(const char *at, const char *end) {
  const unsigned char *s = (const unsigned char *)at;
  size_t room = (size_t)(end - at);
  if (s[0] < 0x80)
    return 1;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  unsigned char low = 0x80, high = 0xbf;
  size_t len;
  if (s[0] >= 0xc2 && s[0] <= 0xdf) {
    len = 2;
  } else if (s[0] >= 0xe0 && s[0] <= 0xef) {
    len = 3;
    if (s[0] == 0xe0)
      low = 0xa0;
    if (s[0] == 0xed)
      high = 0x9f;
  } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
    len = 4;
    if (s[0] == 0xf0)
      low = 0x90;
    if (s[0] == 0xf4)
      high = 0x8f;
  } else {
    return 0;
  }
  if (room < len || s[1] < low || s[1] > high)
    return 0;
  for (size_t i = 2; i < len; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  return len;
}

void dt__text_json(dt_text_t *text, const char *str, size_t len) {
  for (size_t k = 0; k < len;) {
    unsigned char c = (unsigned char)str[k];
    size_t step = dt__utf8_length(str + k, str + len);
    if (step == 0)
      dt__text_put(text, "\\ufffd");
    else if (c == '"' || c == '\\')
      dt__text_printf(text, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      dt__text_printf(text, "\\u%04x", c);
    else
      dt__text_write(text, str + k, step);
    k += step ? step : 1;
  }
}

const char *dt__text_str(const dt_text_t *text) { return text->data ? text->data : ""; }

dt_status_t dt__text_status(const dt_text_t *text) { return text->failed ? DT_NO_MEMORY() : NULL; }

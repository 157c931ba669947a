// SPDX-License-Identifier: Apache-2.0
// Where something is wrong, as text, and the comparisons of strings.
#include "frontends/onnx/read.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 640
#define PIECE_BYTES 96

// Writes the path to the end of `buffer`, from the inside out, and returns where it begins. What
// stands outermost gives way to an ellipsis.
static const char *write_path(const dt_onnx_at_t *at, char buffer[PATH_BYTES]) {
  static const char left_out[] = "...";
  size_t from = PATH_BYTES - 1;
  buffer[from] = '\0';
  for (; at; at = at->up) {
    char piece[PIECE_BYTES];
    const char *dot = at->up ? "." : "";
    int len = at->index < 0 ? snprintf(piece, sizeof piece, "%s%s", dot, at->field)
                            : snprintf(piece, sizeof piece, "%s%s[%lld]", dot, at->field,
                                       (long long)at->index);
    if ((size_t)len + sizeof left_out > from) {
      from -= sizeof left_out - 1;
      memcpy(buffer + from, left_out, sizeof left_out - 1);
      break;
    }
    from -= (size_t)len;
    memcpy(buffer + from, piece, (size_t)len);
  }
  return buffer + from;
}

dt_status_t dt__onnx_fail(const char *what, dt_code_t code, const dt_onnx_at_t *at, uint64_t offset,
                          const char *fmt, ...) {
  char path[PATH_BYTES], text[1024];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return DT_FAIL(code, "%s: %s%sbyte %llu: %s", what, write_path(at, path), at ? ": " : "",
                 (unsigned long long)offset, text);
}

dt_onnx_shown_t dt__onnx_show(dt_onnx_str_t str) {
  dt_onnx_shown_t shown;
  size_t len = 0, at = 0, step = 0;
  for (; at < str.len; at += step ? step : 1) {
    unsigned char c = (unsigned char)str.at[at];
    step = dt__utf8_length(str.at + at, str.at + str.len);
    if (len + step > DT_ONNX_SHOWN || len == DT_ONNX_SHOWN)
      break;
    if (step == 0 || c < 0x20 || c == 0x7f)
      shown.text[len++] = '?';
    else
      for (size_t k = 0; k < step; k++)
        shown.text[len++] = str.at[at + k];
  }
  (void)snprintf(shown.text + len, sizeof shown.text - len, "%s", at < str.len ? "..." : "");
  return shown;
}

bool dt__onnx_str_is(dt_onnx_str_t a, const char *text) {
  return a.len == strlen(text) && (a.len == 0 || memcmp(a.at, text, a.len) == 0);
}

int dt__onnx_str_compare(dt_onnx_str_t a, dt_onnx_str_t b) {
  if (a.len != b.len)
    return a.len < b.len ? -1 : 1;
  return a.len == 0 ? 0 : memcmp(a.at, b.at, a.len);
}

bool dt__onnx_str_equal(dt_onnx_str_t a, dt_onnx_str_t b) {
  return dt__onnx_str_compare(a, b) == 0;
}

dt_onnx_str_t dt__onnx_domain(dt_onnx_str_t domain) {
  return dt__onnx_str_is(domain, "ai.onnx") ? (dt_onnx_str_t){NULL, 0} : domain;
}

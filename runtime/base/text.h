// SPDX-License-Identifier: Apache-2.0
// A growable string for printers, and the bounded scanner that the IR parsers share.
#ifndef DT_RUNTIME_BASE_TEXT_H
#define DT_RUNTIME_BASE_TEXT_H

#include "ductile/base.h"

// ---- Writer: heap-backed, sticky failure (externally synchronised) --------------------------------
typedef struct dt_text_t {
  char *data; // NUL-terminated once anything was written; NULL when empty
  size_t len, cap;
  bool failed; // no memory: later writes do nothing
} dt_text_t;

void dt__text_init(dt_text_t *text);
void dt__text_fini(dt_text_t *text);
void dt__text_put(dt_text_t *text, const char *str);
void dt__text_write(dt_text_t *text, const char *str, size_t len);
void dt__text_i64(dt_text_t *text, int64_t value); // in decimal; cheaper than a format
void dt__text_printf(dt_text_t *text, const char *fmt, ...) DT_PRINTF(2, 3);
// In double quotes, as dt__scan_string reads it back; what is beyond `most` characters is left out.
void dt__text_quote(dt_text_t *text, const char *str, size_t most);
// As a JSON string holds it, without the quotes; what is no UTF-8 becomes U+FFFD.
void dt__text_json(dt_text_t *text, const char *str, size_t len);
// The string ("" when empty); borrowed.
const char *dt__text_str(const dt_text_t *text);
// DT_E_NO_MEMORY if a write failed.
dt_status_t dt__text_status(const dt_text_t *text) DT_MUST_USE;

// Bytes of the well-formed UTF-8 sequence at `at` (1 to 4), 0 where there is none. at < end.
size_t dt__utf8_length(const char *at, const char *end);

// ---- Scanner over a bounded buffer; tracks the line for messages ----------------------------------
typedef struct dt_scan_t {
  const char *at, *end, *begin;
  const char *what; // what is being read, for messages ("graph", a file name)
} dt_scan_t;

void dt__scan_init(dt_scan_t *scan, const char *data, size_t len, const char *what);
void dt__scan_space(dt_scan_t *scan);                     // skips blanks, newlines, `;` comments
bool dt__scan_end(dt_scan_t *scan);                       // after space: nothing left
bool dt__scan_accept(dt_scan_t *scan, const char *token); // skips space; consumes token if next
bool dt__scan_peek(dt_scan_t *scan, const char *token);   // skips space; looks only
// As accept, but the whole next word: "in" does not match "input". Tokens above match by prefix.
bool dt__scan_accept_word(dt_scan_t *scan, const char *word);
dt_status_t dt__scan_expect(dt_scan_t *scan, const char *token) DT_MUST_USE;
// [A-Za-z_][A-Za-z0-9_.]*; a view into the buffer.
dt_status_t dt__scan_word(dt_scan_t *scan, const char **out, size_t *out_len) DT_MUST_USE;
dt_status_t dt__scan_i64(dt_scan_t *scan, int64_t *out) DT_MUST_USE; // optional '-', decimal
dt_status_t dt__scan_f64(dt_scan_t *scan, double *out) DT_MUST_USE;  // also hexfloat, inf, nan
// "..." with \" \\ \n \xNN; arena-copied by the caller if it must live.
dt_status_t dt__scan_string(dt_scan_t *scan, char *buf, size_t cap, size_t *out_len) DT_MUST_USE;
// DT_E_FORMAT naming what, line, column and the next few characters.
dt_status_t dt__scan_fail(dt_scan_t *scan, const char *fmt, ...) DT_PRINTF(2, 3) DT_MUST_USE;

#endif // DT_RUNTIME_BASE_TEXT_H

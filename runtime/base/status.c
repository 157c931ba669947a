// SPDX-License-Identifier: Apache-2.0
// Statuses: one heap block each, holding the code, where it was made and the message. Where even
// that block cannot be had, a static status of the same code stands in, so a failure is never lost.
// Also the library's version.
#include "runtime/base/status.h"

#include "runtime/base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct dt_status {
  dt_code_t code;
  int line;
  const char *file;
  const char *message; // points behind the struct, or at static text
  bool is_static;
};

// CODE(id, what): every failure code, and the text of its static status.
#define CODES                                                                                      \
  CODE(DT_E_ARGUMENT, "bad argument")                                                              \
  CODE(DT_E_SHAPE, "shapes do not fit")                                                            \
  CODE(DT_E_DTYPE, "element types do not fit")                                                     \
  CODE(DT_E_RANGE, "data out of range")                                                            \
  CODE(DT_E_LIMIT, "a limit is exceeded")                                                          \
  CODE(DT_E_NO_MEMORY, "out of memory")                                                            \
  CODE(DT_E_UNSUPPORTED, "not supported")                                                          \
  CODE(DT_E_FORMAT, "malformed input")                                                             \
  CODE(DT_E_IO, "file operation refused")                                                          \
  CODE(DT_E_COMPILE, "code generation failed")                                                     \
  CODE(DT_E_FORKED, "used in a child after fork")                                                  \
  CODE(DT_E_STATE, "called at the wrong time")                                                     \
  CODE(DT_E_INTERNAL, "broken invariant")                                                          \
  CODE(DT_E_DEVICE, "the device failed")                                                           \
  CODE(DT_E_DEADLINE, "the deadline has passed")                                                   \
  CODE(DT_E_CANCELLED, "cancelled")

static struct dt_status static_statuses[] = {
#define CODE(id, what)                                                                             \
  [id] = {.code = id,                                                                              \
          .line = 0,                                                                               \
          .file = "",                                                                              \
          .message = what " (no memory for the full message)",                                     \
          .is_static = true},
    CODES
#undef CODE
};

enum { STATIC_COUNT = sizeof(static_statuses) / sizeof(static_statuses[0]) };

bool dt__code_is_failure(dt_code_t code) {
  return code > DT_OK && (unsigned)code < STATIC_COUNT && static_statuses[code].message;
}

static dt_status_t static_status(dt_code_t code) {
  return &static_statuses[dt__code_is_failure(code) ? code : DT_E_INTERNAL];
}

// A status with room for `len` message bytes and the NUL; *out_text is that room.
static dt_status_t status_new(dt_code_t code, const char *file, int line, size_t len,
                              char **out_text) {
  dt_status_t status = dt__alloc(sizeof(*status) + len + 1);
  if (!status)
    return NULL;
  *out_text = (char *)(status + 1);
  **out_text = '\0';
  *status = (struct dt_status){.code = code, .line = line, .file = file, .message = *out_text};
  return status;
}

// The length `fmt` needs; 0 where it cannot be formatted.
static size_t formatted_length(const char *fmt, va_list args) {
  int len = vsnprintf(NULL, 0, fmt, args);
  return len < 0 ? 0 : (size_t)len;
}

dt_status_t dt__status_make(dt_code_t code, const char *file, int line, const char *fmt, ...) {
  if (!dt__code_is_failure(code))
    code = DT_E_INTERNAL;
  va_list args;
  va_start(args, fmt);
  size_t len = formatted_length(fmt, args);
  va_end(args);
  char *text = NULL;
  dt_status_t status = status_new(code, file, line, len, &text);
  if (!status)
    return static_status(code);
  va_start(args, fmt);
  (void)vsnprintf(text, len + 1, fmt, args);
  va_end(args);
  return status;
}

dt_status_t dt_status_make(dt_code_t code, const char *message) {
  return dt__status_make(dt__code_is_failure(code) ? code : DT_E_ARGUMENT, "", 0, "%s",
                         message ? message : "failed");
}

dt_status_t dt__status_annotate(dt_status_t status, const char *fmt, ...) {
  if (!status || status->is_static)
    return status;
  va_list args;
  va_start(args, fmt);
  size_t context = formatted_length(fmt, args);
  va_end(args);
  size_t rest = strlen(status->message);
  char *text = NULL;
  dt_status_t longer =
      status_new(status->code, status->file, status->line, context + 2 + rest, &text);
  if (!longer)
    return status; // the failure itself matters more than its context
  va_start(args, fmt);
  (void)vsnprintf(text, context + 1, fmt, args);
  va_end(args);
  memcpy(text + context, ": ", 2);
  memcpy(text + context + 2, status->message, rest + 1);
  dt_status_free(status);
  return longer;
}

dt_status_t dt__status_join(dt_status_t first, dt_status_t second) {
  if (!first)
    return second;
  dt_status_free(second);
  return first;
}

dt_status_t dt__status_recode(dt_status_t status, dt_code_t code) {
  if (!status)
    return NULL;
  if (status->is_static)
    return static_status(code);
  status->code = static_status(code)->code;
  return status;
}

dt_status_t dt__status_clone(dt_status_t status) {
  if (!status || status->is_static)
    return status;
  size_t len = strlen(status->message);
  char *text = NULL;
  dt_status_t copy = status_new(status->code, status->file, status->line, len, &text);
  if (!copy)
    return static_status(status->code);
  memcpy(text, status->message, len + 1);
  return copy;
}

const char *dt__status_file(dt_status_t status) { return status ? status->file : ""; }

int dt__status_line(dt_status_t status) { return status ? status->line : 0; }

dt_code_t dt_status_code(dt_status_t status) { return status ? status->code : DT_OK; }

const char *dt_code_name(dt_code_t code) {
  switch (code) {
  case DT_OK:
    return "DT_OK";
#define CODE(id, what)                                                                             \
  case id:                                                                                         \
    return #id;
    CODES
#undef CODE
  }
  return "DT_E_UNKNOWN";
}

const char *dt_status_message(dt_status_t status) { return status ? status->message : ""; }

void dt_status_free(dt_status_t status) {
  if (status && !status->is_static)
    dt__free(status);
}

#define VERSION_TEXT(x) VERSION_TEXT_(x)
#define VERSION_TEXT_(x) #x

const char *dt_version(void) {
  return VERSION_TEXT(DT_VERSION_MAJOR) "." VERSION_TEXT(DT_VERSION_MINOR) "." VERSION_TEXT(
      DT_VERSION_PATCH);
}

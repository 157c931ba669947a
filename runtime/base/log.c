// SPDX-License-Identifier: Apache-2.0
// Log channels: their levels, the text that sets them, and the one write a line takes. Stage dumps
// stand in dump.c.
#include "runtime/base/log.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "runtime/base/text.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Atomic uint8_t dt__log_levels[DT_LOG_COUNT];

bool dt__log_asks(dt_channel_t channel, int level) { return dt__log_on(channel, level); }

static const char *const channel_names[DT_LOG_COUNT] = {
#define CHANNEL(id, name, doc) [DT_LOG_##id] = name,
#include "runtime/base/channels.def"
};

// `sink` and `sink_user` are guarded by `sink_mutex`; `sink_set` only spares the lock without one.
static dt_mutex_t sink_mutex = {.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = DT_RANK_LOG};
static dt_log_sink_t sink;
static void *sink_user;
static _Atomic bool sink_set;

void dt_log_sink_set(dt_log_sink_t write_line, void *user) {
  dt__mutex_lock(&sink_mutex);
  sink = write_line;
  sink_user = user;
  atomic_store_explicit(&sink_set, write_line != NULL, memory_order_relaxed);
  dt__mutex_unlock(&sink_mutex);
}

// One write in the ordinary case; goes on after a signal or a partial write, gives up on an error.
static void write_stderr(const char *line, size_t len) {
  while (len) {
    ssize_t done = dt__sys_write(STDERR_FILENO, line, len);
    if (done <= 0)
      return;
    line += done;
    len -= (size_t)done;
  }
}

static void emit(const char *line, size_t len) {
  if (atomic_load_explicit(&sink_set, memory_order_relaxed)) {
    dt__mutex_lock(&sink_mutex);
    dt_log_sink_t write_line = sink;
    if (write_line)
      write_line(sink_user, line, len);
    dt__mutex_unlock(&sink_mutex);
    if (write_line)
      return;
  }
  write_stderr(line, len);
}

void dt__log_write(dt_channel_t channel, const char *fmt, ...) {
  char small[1024];
  char *line = small;
  int saved_errno = errno;
  int head = snprintf(small, sizeof(small), "ductile [%s] ", channel_names[channel]);
  size_t at = head > 0 ? (size_t)head : 0;
  va_list args;
  va_start(args, fmt);
  int body = vsnprintf(small + at, sizeof(small) - at, fmt, args);
  va_end(args);
  size_t len = at + (body > 0 ? (size_t)body : 0);
  if (len + 1 >= sizeof(small)) {
    char *large = dt__alloc(len + 2);
    if (large) {
      memcpy(large, small, at);
      va_start(args, fmt);
      (void)vsnprintf(large + at, len + 1 - at, fmt, args);
      va_end(args);
      line = large;
    } else {
      len = sizeof(small) - 2; // the line's beginning is better than nothing
    }
  }
  if (len == 0 || line[len - 1] != '\n')
    line[len++] = '\n';
  emit(line, len);
  if (line != small)
    dt__free(line);
  errno = saved_errno;
}

static dt_status_t unknown_channel(const char *name, size_t len) {
  dt_text_t known;
  dt__text_init(&known);
  for (int i = 0; i < DT_LOG_COUNT; i++)
    dt__text_printf(&known, "%s%s", i ? ", " : "", channel_names[i]);
  dt_status_t status = DT_FAIL(DT_E_ARGUMENT, "no log channel '%.*s'; known: all, %s", (int)len,
                               name, dt__text_str(&known));
  dt__text_fini(&known);
  return status;
}

// Sets the level of all channels that `name` covers; false where it covers none.
static bool cover(uint8_t levels[DT_LOG_COUNT], const char *name, size_t len, uint8_t level) {
  bool all = len == 3 && memcmp(name, "all", 3) == 0, any = false;
  for (int i = 0; i < DT_LOG_COUNT; i++) {
    const char *channel = channel_names[i];
    bool covered =
        all || (strncmp(channel, name, len) == 0 && (channel[len] == '\0' || channel[len] == '.'));
    if (covered)
      levels[i] = level;
    any = any || covered;
  }
  return any;
}

// Reads the level behind the colon: 0 to 255.
static dt_status_t parse_level(const char *text, size_t len, uint8_t *out) {
  unsigned value = 0;
  for (size_t i = 0; i < len; i++) {
    bool digit = text[i] >= '0' && text[i] <= '9';
    value = digit ? value * 10 + (unsigned)(text[i] - '0') : 256;
    if (value > 255)
      break;
  }
  if (len == 0 || value > 255)
    return DT_FAIL(DT_E_ARGUMENT, "log level '%.*s' is not a number from 0 to 255", (int)len, text);
  *out = (uint8_t)value;
  return NULL;
}

dt_status_t dt_log_configure(const char *spec) {
  uint8_t levels[DT_LOG_COUNT] = {0};
  const char *at = spec ? spec : "";
  while (*at) {
    at += strspn(at, " ,");
    size_t len = strcspn(at, " ,");
    if (len == 0)
      break;
    const char *colon = memchr(at, ':', len);
    size_t name_len = colon ? (size_t)(colon - at) : len;
    uint8_t level = 1;
    if (colon)
      DT_TRY(parse_level(colon + 1, len - name_len - 1, &level));
    if (name_len == 0 || !cover(levels, at, name_len, level))
      return unknown_channel(at, name_len);
    at += len;
  }
  for (int i = 0; i < DT_LOG_COUNT; i++)
    atomic_store_explicit(&dt__log_levels[i], levels[i], memory_order_relaxed);
  return NULL;
}

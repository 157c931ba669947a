// SPDX-License-Identifier: Apache-2.0
// Parameters: defaults and ranges from tables, overrides from the environment. No other file
// reads the environment, and nothing here runs unless a runtime asks for it.
#include "runtime/base/params.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_status_t read_int(const char *name, const char *text, int64_t min, int64_t max,
                            int64_t *out) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  bool number = end != text && *end == '\0' && errno == 0;
  if (!number || value < min || value > max)
    return DT_FAIL(DT_E_ARGUMENT, "%s is '%s', expected an integer from %lld to %lld", name, text,
                   (long long)min, (long long)max);
  *out = value;
  return NULL;
}

static dt_status_t read_bool(const char *name, const char *text, bool *out) {
  static const char *const words[][2] = {
      {"0", "1"}, {"false", "true"}, {"off", "on"}, {"no", "yes"}};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    for (int value = 0; value < 2; value++) {
      if (strcmp(text, words[i][value]) == 0) {
        *out = value != 0;
        return NULL;
      }
    }
  }
  return DT_FAIL(DT_E_ARGUMENT, "%s is '%s', expected 0 or 1", name, text);
}

#define TEXT_BYTES sizeof(((dt_params_t *)0)->log)

static dt_status_t read_text(const char *name, const char *text, char *out) {
  size_t len = strlen(text);
  if (len >= TEXT_BYTES)
    return DT_FAIL(DT_E_ARGUMENT, "%s has %zu characters, at most %zu are allowed", name, len,
                   TEXT_BYTES - 1);
  memcpy(out, text, len + 1);
  return NULL;
}

static void set_default(const dt_param_row_t *row, void *to) {
  if (row->type == DT_PARAM_INT)
    *(int64_t *)to = row->value;
  else if (row->type == DT_PARAM_BOOL)
    *(bool *)to = row->value != 0;
  else
    memcpy(to, row->text, strlen(row->text) + 1);
}

static dt_status_t read_row(const dt_param_row_t *row, const char *name, const char *text,
                            void *to) {
  if (row->type == DT_PARAM_INT)
    return read_int(name, text, row->min, row->max, to);
  return row->type == DT_PARAM_BOOL ? read_bool(name, text, to) : read_text(name, text, to);
}

// An empty variable is as good as none: shells make it hard to unset one for a single command.
dt_status_t dt__params_read(const dt_param_row_t *rows, size_t n, void *out) {
  for (size_t i = 0; i < n; i++) {
    void *to = (char *)out + rows[i].offset;
    char name[64];
    (void)snprintf(name, sizeof(name), "DUCTILE_%s", rows[i].name);
    const char *text = getenv(name);
    set_default(&rows[i], to);
    if (text && text[0])
      DT_TRY(read_row(&rows[i], name, text, to));
  }
  return NULL;
}

static const dt_param_row_t own_rows[] = {
#define PARAM(...) DT_PARAM_ROW(dt_params_t, __VA_ARGS__),
#include "runtime/base/params.def"
};
#define N_ROWS (sizeof(own_rows) / sizeof(own_rows[0]))

const dt_param_row_t *dt__params_rows(size_t *out_n) {
  *out_n = N_ROWS;
  return own_rows;
}

// Where code is kept when nobody says: none without a home, or with one of too long a name.
static void find_cache_dir(dt_params_t *out) {
  const char *said = getenv("DUCTILE_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  int n = 0;
  if (said)
    return; // also where it is empty
  if (cache && cache[0] == '/')
    n = snprintf(out->cache_dir, sizeof(out->cache_dir), "%s/ductile", cache);
  else if (home && home[0] == '/')
    n = snprintf(out->cache_dir, sizeof(out->cache_dir), "%s/.cache/ductile", home);
  if (n < 0 || (size_t)n >= sizeof(out->cache_dir))
    out->cache_dir[0] = 0;
}

dt_status_t dt__params_load(dt_params_t *out) {
  memset(out, 0, sizeof(*out));
  DT_TRY(dt__params_read(own_rows, N_ROWS, out));
  find_cache_dir(out);
  return NULL;
}

dt_status_t dt__params_loader(dt_params_loader_t *out) {
  static const char *const names[DT_LOADER_VARIABLES] = {
      "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};
  memset(out, 0, sizeof(*out));
  size_t n = 0;
  for (size_t i = 0; i < DT_LOADER_VARIABLES; i++) {
    const char *value = getenv(names[i]);
    size_t bytes = value ? strlen(names[i]) + strlen(value) + 2 : 0;
    if (!value)
      continue;
    out->variables[n] = dt__alloc(bytes);
    if (!out->variables[n])
      return DT_NO_MEMORY();
    (void)snprintf(out->variables[n++], bytes, "%s=%s", names[i], value);
  }
  return NULL;
}

void dt__params_loader_fini(dt_params_loader_t *loader) {
  for (size_t i = 0; i < DT_LOADER_VARIABLES; i++)
    dt__free(loader->variables[i]);
  memset(loader, 0, sizeof(*loader));
}

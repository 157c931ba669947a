// SPDX-License-Identifier: Apache-2.0
// Parameters: defaults and ranges from params.def, overrides from the environment. No other file
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

static dt_status_t read_text(const char *name, const char *text, size_t cap, char *out) {
  size_t len = strlen(text);
  if (len >= cap)
    return DT_FAIL(DT_E_ARGUMENT, "%s has %zu characters, at most %zu are allowed", name, len,
                   cap - 1);
  memcpy(out, text, len + 1);
  return NULL;
}

// Per type: how the default is set and how a text is read.
#define DEFAULT_INT(id, value) out->id = (value)
#define DEFAULT_BOOL(id, value) out->id = (value) != 0
#define DEFAULT_TEXT(id, value) memcpy(out->id, value, sizeof(value))
#define READ_INT(id, name, text, min, max) read_int(name, text, min, max, &out->id)
#define READ_BOOL(id, name, text, min, max) read_bool(name, text, &out->id)
#define READ_TEXT(id, name, text, min, max) read_text(name, text, sizeof(out->id), out->id)

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
#define PARAM(id, type, name, value, min, max, doc) DEFAULT_##type(id, value);
#include "runtime/base/params.def"

  // An empty variable is as good as none: shells make it hard to unset one for a single command.
#define PARAM(id, type, name, value, min, max, doc)                                                \
  {                                                                                                \
    const char *text = getenv("DUCTILE_" name);                                                    \
    if (text && text[0])                                                                           \
      DT_TRY(READ_##type(id, "DUCTILE_" name, text, min, max));                                    \
  }
#include "runtime/base/params.def"
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

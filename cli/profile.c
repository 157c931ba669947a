// SPDX-License-Identifier: Apache-2.0
// Profiles of a command's calls: told on standard output, and written to a file in the form that
// its name asks for.
#include "cli/profile.h"

#include "cli/cli.h"

#include <string.h>

typedef struct form_t {
  const char *end;
  dt_profile_format_t format;
} form_t;

// The first that fits.
static const form_t forms[] = {{".html", DT_PROFILE_HTML},
                               {".trace.json", DT_PROFILE_TRACE},
                               {".json", DT_PROFILE_JSON},
                               {"", DT_PROFILE_TEXT}};

static bool ends(const char *text, const char *end) {
  size_t len = strlen(text), tail = strlen(end);
  return len >= tail && strcmp(text + len - tail, end) == 0;
}

static dt_status_t write_file(dt_profile_t *profile, const char *path) {
  const form_t *form = forms;
  while (!ends(path, form->end))
    form++;
  return dt_profile_write(profile, form->format, path);
}

static dt_status_t tell(dt_profile_t *profile, bool json) {
  char *text = NULL;
  dt_status_t status = dt_profile_text(profile, json ? DT_PROFILE_JSON : DT_PROFILE_TEXT, &text);
  if (status)
    return status;
  if (json)
    (void)printf("{\"event\":\"profile\",\"profile\":%.*s}\n", (int)strcspn(text, "\n"), text);
  else
    (void)fputs(text, stdout);
  (void)fflush(stdout);
  dt_text_free(text);
  return NULL;
}

int cli_profile_end(const char *me, dt_profile_t *profile, const char *path, bool json) {
  int result = cli_failed(me, "--profile", dt_profile_stop(profile));
  if (result == CLI_DONE)
    result = cli_failed(me, "--profile", tell(profile, json));
  if (result == CLI_DONE && path)
    result = cli_failed(me, path, write_file(profile, path));
  return result;
}

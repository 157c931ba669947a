// SPDX-License-Identifier: Apache-2.0
// Profiles of a command's calls: told on standard output, and written to a file in the form that
// its name asks for.
#include "cli/profile.h"

#include "cli/cli.h"

#include <string.h>

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
    result = cli_failed(me, path, dt_profile_write(profile, dt_profile_format_of(path), path));
  return result;
}

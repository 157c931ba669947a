// SPDX-License-Identifier: Apache-2.0
// Messages and JSON strings of the command.
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

int cli_complain(const char *command, int exit_status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)fprintf(stderr, "ductile %s: ", command);
  (void)vfprintf(stderr, fmt, args);
  (void)fprintf(stderr, "\n");
  va_end(args);
  return exit_status;
}

int cli_failed(const char *command, const char *what, dt_status_t status) {
  if (!status)
    return CLI_DONE;
  const char *message = dt_status_message(status);
  bool told = strncmp(message, what, strlen(what)) == 0; // messages on files begin with the path
  int result = dt_status_code(status) == DT_E_DEADLINE ? CLI_LATE : CLI_FAILED;
  (void)cli_complain(command, result, "%s%s%s: %s", told ? "" : what, told ? "" : ": ",
                     dt_code_name(dt_status_code(status)), message);
  dt_status_free(status);
  return result;
}

uint64_t cli_peak_bytes(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

void cli_json_string(FILE *out, const char *text) {
  (void)fputc('"', out);
  for (const char *at = text; *at; at++) {
    unsigned char c = (unsigned char)*at;
    if (c == '"' || c == '\\')
      (void)fprintf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      (void)fprintf(out, "\\u%04x", c);
    else
      (void)fputc(c, out);
  }
  (void)fputc('"', out);
}

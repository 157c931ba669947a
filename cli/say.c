// SPDX-License-Identifier: Apache-2.0
// Messages and JSON strings of the command.
#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static bool as_json;

void cli_errors_as_json(void) { as_json = true; }

// `code` is "" where no status of the library's tells it.
static void say(const char *command, int exit_status, const char *code, const char *message) {
  if (!as_json) {
    (void)fprintf(stderr, "ductile%s%s: %s\n", command[0] ? " " : "", command, message);
    return;
  }
  (void)fprintf(stderr, "{\"event\":\"error\",\"command\":\"%s\",\"exit\":%d", command,
                exit_status);
  if (code[0])
    (void)fprintf(stderr, ",\"code\":\"%s\"", code);
  (void)fprintf(stderr, ",\"message\":");
  cli_json_string(stderr, message);
  (void)fprintf(stderr, "}\n");
}

int cli_complain(const char *command, int exit_status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  char *message = len >= 0 ? malloc((size_t)len + 1) : NULL;
  va_start(args, fmt);
  if (message)
    (void)vsnprintf(message, (size_t)len + 1, fmt, args);
  va_end(args);
  say(command, exit_status, "", message ? message : "no memory for a message");
  free(message);
  return exit_status;
}

int cli_failed(const char *command, const char *what, dt_status_t status) {
  if (!status)
    return CLI_DONE;
  const char *message = dt_status_message(status);
  bool told = strncmp(message, what, strlen(what)) == 0; // messages on files begin with the path
  int result = dt_status_code(status) == DT_E_DEADLINE ? CLI_LATE : CLI_FAILED;
  const char *code = dt_code_name(dt_status_code(status));
  if (as_json)
    say(command, result, code, message);
  else
    (void)cli_complain(command, result, "%s%s%s: %s", told ? "" : what, told ? "" : ": ", code,
                       message);
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

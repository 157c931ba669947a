// SPDX-License-Identifier: Apache-2.0
// Reading files of graph IR.
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)64 << 20)

// The open file's bytes and a NUL; NULL with errno set.
static char *read_all(FILE *file, size_t *out_len) {
  size_t len = 0, cap = 0;
  char *text = NULL;
  for (;;) {
    if (cap - len < 2) {
      cap = cap ? 2 * cap : 1 << 16;
      char *more = cap <= 2 * MOST_BYTES ? realloc(text, cap) : NULL;
      if (!more) {
        free(text);
        errno = cap <= 2 * MOST_BYTES ? ENOMEM : EFBIG;
        return NULL;
      }
      text = more;
    }
    size_t got = fread(text + len, 1, cap - len - 1, file);
    len += got;
    if (got == 0)
      break;
  }
  if (ferror(file)) {
    int failed = errno; // of the read
    free(text);
    errno = failed;
    return NULL;
  }
  text[len] = '\0';
  *out_len = len;
  return text;
}

static bool is_heading(const char *line, size_t len, const char *heading) {
  return len == strlen(heading) && memcmp(line, heading, len) == 0;
}

static bool any_heading(const char *line, size_t len) {
  return is_heading(line, len, "--TEST--") || is_heading(line, len, "--ARGS--") ||
         is_heading(line, len, "--IN--") || is_heading(line, len, "--EXPECT--");
}

void cli_keep_ir(char *text, size_t len) {
  char *end = text + len;
  bool sections = false, keep = false;
  for (char *line = text; line < end;) {
    char *stop = memchr(line, '\n', (size_t)(end - line));
    size_t length = (size_t)((stop ? stop : end) - line);
    if (any_heading(line, length)) {
      if (!sections) // what stands before the first heading
        for (char *at = text; at < line; at++)
          *at = *at == '\n' ? '\n' : ' ';
      sections = true;
      keep = is_heading(line, length, "--IN--");
      memset(line, ' ', length);
    } else if (sections && !keep) {
      memset(line, ' ', length);
    }
    line += length + 1;
  }
}

char *cli_read_text(const char *command, int exit_status, const char *path, size_t *out_len) {
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  char *text = file ? read_all(file, out_len) : NULL;
  int failed = errno;
  if (file && !is_stdin)
    (void)fclose(file);
  if (!text)
    (void)cli_complain(command, exit_status, "%s: %s", path, strerror(failed));
  return text;
}

char *cli_read_ir(const char *command, int exit_status, const char *path, size_t *out_len) {
  char *text = cli_read_text(command, exit_status, path, out_len);
  if (text)
    cli_keep_ir(text, *out_len);
  return text;
}

// SPDX-License-Identifier: Apache-2.0
// ONNX models by path, or from standard input.
#include "cli/model.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool cli_is_onnx(const char *path) {
  bool standard = strcmp(path, "-") == 0;
  FILE *file = standard ? stdin : fopen(path, "rbe");
  int first = file ? getc(file) : EOF;
  if (standard && first != EOF)
    (void)ungetc(first, stdin);
  if (file && !standard)
    (void)fclose(file);
  return first != EOF && !isprint(first) && !isspace(first);
}

// Until it ends; NULL with errno set.
static unsigned char *read_standard(size_t *out_len) {
  size_t len = 0, room = (size_t)1 << 20;
  unsigned char *bytes = malloc(room);
  for (size_t got = 1; bytes && got > 0;) {
    got = fread(bytes + len, 1, room - len, stdin);
    len += got;
    if (len < room)
      continue;
    unsigned char *more = realloc(bytes, 2 * room);
    if (!more)
      free(bytes);
    bytes = more;
    room *= 2;
  }
  if (bytes && ferror(stdin)) {
    free(bytes);
    bytes = NULL;
  }
  *out_len = len;
  return bytes;
}

dt_status_t cli_onnx_open(const char *path, const dt_onnx_options_t *about, void **out_bytes,
                          dt_onnx_t **out) {
  size_t len = 0;
  *out_bytes = NULL;
  *out = NULL;
  if (strcmp(path, "-") != 0)
    return dt_onnx_open(path, about, out);
  *out_bytes = read_standard(&len);
  if (!*out_bytes)
    return dt_status_make(DT_E_IO, "standard input cannot be read");
  if (len >= sizeof(CLI_PACKAGE_BEGINS) - 1 &&
      memcmp(*out_bytes, CLI_PACKAGE_BEGINS, sizeof(CLI_PACKAGE_BEGINS) - 1) == 0)
    return dt_status_make(DT_E_UNSUPPORTED,
                          "a package is not read from standard input; give its file");
  return dt_onnx_open_memory(*out_bytes, len, about, out);
}

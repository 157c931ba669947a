// SPDX-License-Identifier: Apache-2.0
// See page.h.
#include "tools/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void page_put_cell(dt_text_t *out, const char *text) {
  for (; *text; text++) {
    if (*text == '|')
      dt__text_put(out, "\\");
    dt__text_write(out, text, 1);
  }
}

// The file's bytes equal `text`; else says which line differs first.
static int compare(const char *path, const char *text, const char *name, const char *source) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    (void)fprintf(stderr, "%s: %s cannot be read\n", name, path);
    return EXIT_FAILURE;
  }
  int line = 1;
  int c = fgetc(file);
  while (c != EOF && c == (unsigned char)*text && *text) {
    line += c == '\n';
    text++;
    c = fgetc(file);
  }
  (void)fclose(file);
  if (c == EOF && !*text)
    return EXIT_SUCCESS;
  (void)fprintf(stderr, "%s: %s differs from %s in line %d: run %s > %s\n", name, path, source,
                line, name, path);
  return EXIT_FAILURE;
}

int page_main(int argc, char **argv, const char *name, const char *source,
              void (*make)(dt_text_t *out)) {
  bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
  if (argc != 1 && !check) {
    (void)fprintf(stderr, "usage: %s [--check FILE]\n", name);
    return 2;
  }
  dt_text_t text;
  dt__text_init(&text);
  make(&text);
  int code = text.failed ? EXIT_FAILURE : EXIT_SUCCESS;
  if (code == EXIT_SUCCESS && check)
    code = compare(argv[2], dt__text_str(&text), name, source);
  else if (code == EXIT_SUCCESS)
    (void)fputs(dt__text_str(&text), stdout);
  dt__text_fini(&text);
  return code;
}

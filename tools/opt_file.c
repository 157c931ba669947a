// SPDX-License-Identifier: Apache-2.0
// Reading and writing the files of ductile-opt.
#include "tools/opt_file.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOST_BYTES ((size_t)64 << 20)

static dt_status_t read_all(const char *path, dt_text_t *out) {
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  if (!file)
    return DT_FAIL(DT_E_IO, "%s: %s", path, strerror(errno));
  char buf[8192];
  size_t len = 0;
  while ((len = fread(buf, 1, sizeof(buf), file)) > 0 && out->len <= MOST_BYTES)
    dt__text_write(out, buf, len);
  bool failed = ferror(file) != 0;
  if (!is_stdin)
    (void)fclose(file);
  if (failed)
    return DT_FAIL(DT_E_IO, "%s: cannot be read", path);
  if (out->len > MOST_BYTES)
    return DT_FAIL(DT_E_LIMIT, "%s: more than %zu bytes", path, MOST_BYTES);
  return dt__text_status(out);
}

static char *copy_range(const char *begin, const char *end) {
  size_t len = (size_t)(end - begin);
  char *copy = dt__alloc(len + 1);
  if (!copy)
    return NULL;
  memcpy(copy, begin, len);
  copy[len] = '\0';
  return copy;
}

// The section a line begins, if it is a heading.
static char **section_of(opt_file_t *file, const char *line, size_t len) {
  static const char *const headings[] = {"--TEST--", "--ARGS--", "--IN--", "--DATA--",
                                         "--EXPECT--"};
  char **const sections[] = {&file->test, &file->args, &file->in, &file->data, &file->expect};
  for (size_t i = 0; i < 5; i++) {
    if (len == strlen(headings[i]) && memcmp(line, headings[i], len) == 0)
      return sections[i];
  }
  return NULL;
}

static dt_status_t close_section(char **section, const char *begin, const char *end) {
  if (!section)
    return NULL;
  if (*section)
    return DT_FAIL(DT_E_FORMAT, "a section stands twice");
  *section = copy_range(begin, end);
  return *section ? NULL : DT_NO_MEMORY();
}

static dt_status_t split(const char *text, opt_file_t *file) {
  char **section = NULL;
  const char *begin = text;
  for (const char *line = text; *line;) {
    size_t len = strcspn(line, "\n");
    const char *next = line + len + (line[len] == '\n');
    char **heading = section_of(file, line, len);
    if (heading) {
      DT_TRY(close_section(section, begin, line));
      section = heading;
      begin = next;
      file->is_test = true;
    }
    line = next;
  }
  if (!file->is_test)
    section = &file->in;
  return close_section(section, begin, begin + strlen(begin));
}

static dt_status_t fill_absent(opt_file_t *file) {
  if (file->is_test && !file->in)
    return DT_FAIL(DT_E_FORMAT, "a test without a section --IN--");
  char **const sections[] = {&file->test, &file->args, &file->in, &file->data, &file->expect};
  for (size_t i = 0; i < 5; i++) {
    if (!*sections[i] && !(*sections[i] = dt__strdup("")))
      return DT_NO_MEMORY();
  }
  return NULL;
}

dt_status_t opt_file_read(const char *path, opt_file_t *out) {
  *out = (opt_file_t){0};
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = read_all(path, &text);
  if (!status)
    status = split(dt__text_str(&text), out);
  if (!status)
    status = fill_absent(out);
  dt__text_fini(&text);
  if (status)
    opt_file_fini(out);
  return dt__status_annotate(status, "%s", path);
}

dt_status_t opt_file_write(const char *path, const opt_file_t *file, const char *expect) {
  FILE *out = fopen(path, "wb");
  if (!out)
    return DT_FAIL(DT_E_IO, "%s: %s", path, strerror(errno));
  int printed =
      fprintf(out, "--TEST--\n%s--ARGS--\n%s--IN--\n%s%s%s--EXPECT--\n%s", file->test, file->args,
              file->in, file->data[0] ? "--DATA--\n" : "", file->data, expect);
  if (fclose(out) != 0 || printed < 0)
    return DT_FAIL(DT_E_IO, "%s: cannot be written", path);
  return NULL;
}

void opt_file_fini(opt_file_t *file) {
  dt__free(file->test);
  dt__free(file->args);
  dt__free(file->in);
  dt__free(file->data);
  dt__free(file->expect);
  *file = (opt_file_t){0};
}

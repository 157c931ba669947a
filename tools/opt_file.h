// SPDX-License-Identifier: Apache-2.0
// Files of ductile-opt: plain IR text, or .dtt tests in sections.
#ifndef DT_TOOLS_OPT_FILE_H
#define DT_TOOLS_OPT_FILE_H

#include "runtime/base/text.h"

// Sections of a file; plain text is all `in`. Absent ones are "".
typedef struct opt_file_t {
  char *test, *args, *in, *data, *expect; // owned, each a whole number of lines
  bool is_test;                           // it has sections
} opt_file_t;

// `path` "-" is standard input. DT_E_IO, DT_E_FORMAT (a section twice, or a test without --IN--).
dt_status_t opt_file_read(const char *path, opt_file_t *out) DT_MUST_USE;
// Writes the test with another --EXPECT-- section.
dt_status_t opt_file_write(const char *path, const opt_file_t *file,
                           const char *expect) DT_MUST_USE;
void opt_file_fini(opt_file_t *file);

// Prints how `actual` differs from `expected`, line by line.
void opt_diff_print(const char *expected, const char *actual);

#endif // DT_TOOLS_OPT_FILE_H

// SPDX-License-Identifier: Apache-2.0
// Programs that make a page of docs/ from tables, and compare it with the page that is there.
#ifndef DT_TOOLS_PAGE_H
#define DT_TOOLS_PAGE_H

#include "runtime/base/text.h"

// A table's cell: a bar would end it.
void page_put_cell(dt_text_t *out, const char *text);

// The program: prints what `make` writes, or with --check FILE compares it with a file. Its exit
// code: 0 printed or equal, 1 different or unreadable, 2 wrong usage. `name` is the program's, and
// `source` what the page is made from, for messages.
int page_main(int argc, char **argv, const char *name, const char *source,
              void (*make)(dt_text_t *out));

#endif // DT_TOOLS_PAGE_H

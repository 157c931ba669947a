// SPDX-License-Identifier: Apache-2.0
// What every row of a table of parameters (runtime/base/params.h) must take and refuse.
#ifndef DT_TESTS_SUPPORT_PARAM_ROWS_H
#define DT_TESTS_SUPPORT_PARAM_ROWS_H

#include "runtime/base/params.h"

// For each of the `n` rows, of a struct of `bytes`: its default lies within its range; the ends of
// the range are read; what lies beyond, or is no value of its type, is refused by a message that
// names the variable, the value and the range. Variables are left as they were.
void expect_param_rows(const dt_param_row_t *rows, size_t n, size_t bytes);

#endif // DT_TESTS_SUPPORT_PARAM_ROWS_H

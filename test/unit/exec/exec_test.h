// SPDX-License-Identifier: Apache-2.0
// The support of tests that call, by the name that it had.
#ifndef DT_TESTS_UNIT_EXEC_EXEC_TEST_H
#define DT_TESTS_UNIT_EXEC_EXEC_TEST_H

#include "test/support/subjects.h"

#endif // DT_TESTS_UNIT_EXEC_EXEC_TEST_H

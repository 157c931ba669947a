// SPDX-License-Identifier: Apache-2.0
// Running a planned program as a host would: segment by segment, temporaries at their offsets in
// one block that grows, numbers read from it.
#ifndef DT_TESTS_UNIT_FUSE_PLANNED_H
#define DT_TESTS_UNIT_FUSE_PLANNED_H

#include "lower/loop/loop.h"

// Memory that holds nothing yet is filled with garbage, and so are symbols that are not bound.
dt_status_t run_planned(const dt_program_t *program, const int64_t *symbols, void *const *inputs,
                        void *const *outputs);

#endif // DT_TESTS_UNIT_FUSE_PLANNED_H

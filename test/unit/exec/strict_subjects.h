// SPDX-License-Identifier: Apache-2.0
// What strict_fp is asked of: programs, and the same as plain loops of strict_model.h.
#ifndef DT_TESTS_UNIT_EXEC_STRICT_SUBJECTS_H
#define DT_TESTS_UNIT_EXEC_STRICT_SUBJECTS_H

#include "test/unit/exec/strict_model.h"

#define MOST_IN 3
#define MOST_OUT 14
#define MOST_SIZES 9

typedef struct subject_row_t {
  const char *name;
  dt_program_fn_t program;                                          // closure: the dtype
  void (*model)(dt_dtype_t dtype, const array_t *in, array_t *out); // before it is rounded
  uint32_t n_in, n_out, ranks[MOST_IN];
  uint32_t near_one; // inputs, by bit: numbers near 1; others are of many magnitudes
  uint32_t index;    // 1 + the input that holds indices; 0: none
  bool shows;        // vectors of a CPU give other bits without strict_fp
  int64_t sizes[MOST_SIZES][MOST_IN][4];
  uint32_t n_sizes;
} subject_row_t;

extern const subject_row_t strict_subjects[];
extern const size_t strict_n_subjects;
#define STRICT_SUMS 1 // the row of sums

// Elementary functions in models are the library's, which this fixture calls.
void strict_use(const fixture_t *fixture);

#endif // DT_TESTS_UNIT_EXEC_STRICT_SUBJECTS_H

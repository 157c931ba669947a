// SPDX-License-Identifier: Apache-2.0
// Programs whose sizes come from data: those that a device runs without the host reading anything,
// and two that cannot be so.
#ifndef DT_TESTS_UNIT_CUDA_EXEC_SIZE_PROGRAMS_H
#define DT_TESTS_UNIT_CUDA_EXEC_SIZE_PROGRAMS_H

#include "test/support/subjects.h"

extern const subject_t sizes_nonzero;   // x[n], t[n]: the sum of t where x is not 0
extern const subject_t sizes_softmax;   // x[n], t[n]: of x where t > 0, weighted by its softmax
extern const subject_t sizes_repeat;    // x[n, width], repeats[n]: sums over repeated rows
extern const subject_t sizes_chain;     // x[n], t[n]: a selection of a selection
extern const subject_t sizes_pair;      // x[n], t[n]: two selections that must be of one size
extern const subject_t sizes_cut;       // x[n], k: the first k elements against the others
extern const subject_t sizes_cut_chain; // x[n], k: what is above 0 of the first k elements
extern const subject_t sizes_product;   // x[n, 24], marks[n]: rows times constant w; closure: w
extern const subject_t sizes_attention; // x[n, 24], marks[n]: of each row to those with a mark
extern const subject_t sizes_norm;      // x[n, 24], marks[n]: softmax of rows times w; closure: w
extern const subject_t sizes_update;    // x[n], which takes its sum above 0: of three at most
extern const subject_t sizes_selection; // x[n], t[n]: a result of a size from data
extern const subject_t sizes_unbounded; // x[n], k: a temporary of k elements, however many

#endif // DT_TESTS_UNIT_CUDA_EXEC_SIZE_PROGRAMS_H

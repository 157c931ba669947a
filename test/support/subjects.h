// SPDX-License-Identifier: Apache-2.0
// Small programs with their declarations, for tests to which any program will do.
#ifndef DT_TESTS_SUPPORT_SUBJECTS_H
#define DT_TESTS_SUPPORT_SUBJECTS_H

#include "test/support/fixture.h"

typedef struct subject_t {
  const char *name;
  dt_program_fn_t program;
  uint32_t n_inputs, n_outputs;
  const dt_input_decl_t *inputs;
} subject_t;
dt_function_t *subject_function(dt_runtime_t *runtime, const subject_t *subject, void *closure,
                                dt_answer_t answer);

// Of one input: -x, and x + x.
dt_status_t negate_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t double_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);

extern const subject_t add_subject;        // a[n] + b[n]
extern const subject_t mlp_subject;        // x[batch, seq, 16] through two layers; closure: mlp_t
extern const subject_t turned_subject;     // the same of x as [seq, batch, 16]; closure: mlp_t
extern const subject_t layer_norm_subject; // x[rows, width], scale[width], bias[width]
extern const subject_t softmax_subject;    // x[rows, width] over width
extern const subject_t columns_subject;    // sums over the rows of x[rows, width]
extern const subject_t transpose_subject;  // x[rows, width] as [width, rows]
extern const subject_t gather_subject;     // table[rows, width] at ids[n]
extern const subject_t scale_subject;      // x[n] * sum(w * w) of constant w[4]; closure: w
// All that kept code holds: constants computed once, a check, a number read from data, the assert
// that waits for it, two results of table[rows, width] at ids[n]; closure: w[3]. The second one has
// another bound of a size.
extern const subject_t whole_subject, whole_short_subject;

typedef struct mlp_t {
  dt_tensor_t *w1, *b1, *w2, *b2;
} mlp_t;
void mlp_init(mlp_t *mlp, rng_t *rng);
void mlp_fini(mlp_t *mlp);

#endif // DT_TESTS_SUPPORT_SUBJECTS_H

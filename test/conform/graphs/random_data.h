// SPDX-License-Identifier: Apache-2.0
// Instructions that read places, amounts or ways from data: one row a form, behind RG_FORM_scan.
#ifndef DT_TESTS_CONFORM_RANDOM_DATA_H
#define DT_TESTS_CONFORM_RANDOM_DATA_H

#include "test/conform/graphs/random_graph.h"

typedef struct rg_check_t {
  rg_program_t *p;
  rg_node_t *node; // has the first operand's dtype and dims before its form is asked
  const rg_node_t *in[RG_ARGS];
} rg_check_t;

typedef struct rg_data_form_t {
  uint32_t n_args, n_numbers;
  bool (*check)(rg_check_t *c);
  dt_value_t (*build)(dt_trace_t *t, const rg_node_t *node, const dt_value_t *in);
} rg_data_form_t;

static inline bool rg_form_is_data(rg_form_t form) { return form >= RG_FORM_scan; }
const rg_data_form_t *rg_data_form(rg_form_t form);

#endif // DT_TESTS_CONFORM_RANDOM_DATA_H

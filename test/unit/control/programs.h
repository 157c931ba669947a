// SPDX-License-Identifier: Apache-2.0
// Programs whose control data decides, for the tests of every part on the way. All take x
// f32[rows, width], k i64[] (how often, or how much) and flag bool[] (which way).
#ifndef DT_TESTS_UNIT_CONTROL_PROGRAMS_H
#define DT_TESTS_UNIT_CONTROL_PROGRAMS_H

#include "ductile/ductile.h"

#define CONTROL_OUTPUTS 3

typedef struct control_program_t {
  const char *name;
  dt_program_fn_t program;
  uint32_t n_outputs;
} control_program_t;

extern const control_program_t control_programs[];
extern const uint32_t n_control_programs;
extern const dt_input_decl_t control_inputs[3];
// One program of these by name.
const control_program_t *control_program(const char *name);

// Branches and loops in each other at random; the closure is its seed. Which way they go depends on
// integers alone, so that roundings do not decide.
typedef struct control_seed_t {
  uint64_t seed;
} control_seed_t;
extern const control_program_t control_random;

#endif // DT_TESTS_UNIT_CONTROL_PROGRAMS_H

// SPDX-License-Identifier: Apache-2.0
// Programs written by hand, as text, each with an environment and memory of its own.
#ifndef DT_TESTS_UNIT_LOOP_HAND_H
#define DT_TESTS_UNIT_LOOP_HAND_H

#include "lower/loop/loop.h"

typedef struct hand_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_program_t *program;
} hand_t;

// The text must be that of a valid program.
void hand_parse(hand_t *h, const char *text);
void hand_fini(hand_t *h);
// Appends a load; leaves garbage in fields that loads do not have.
uint32_t hand_load(hand_t *h, dt_stage_t *stage, uint32_t buffer, const dt_sym_t *index,
                   uint32_t mask);

#endif // DT_TESTS_UNIT_LOOP_HAND_H

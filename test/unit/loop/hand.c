// SPDX-License-Identifier: Apache-2.0
// See hand.h.
#include "test/unit/loop/hand.h"

#include "test/support/graph_fixture.h"

#include <string.h>

void hand_parse(hand_t *h, const char *text) {
  dt_scan_t scan;
  dt__arena_init(&h->arena, 0);
  expect_ok(dt__symenv_create(&h->env));
  dt__scan_init(&scan, text, strlen(text), "program");
  expect_ok(dt__program_parse(&h->arena, h->env, &scan, &h->program));
  expect_ok(dt__program_verify(h->program));
}

void hand_fini(hand_t *h) {
  dt__symenv_destroy(h->env);
  dt__arena_fini(&h->arena);
}

uint32_t hand_load(hand_t *h, dt_stage_t *stage, uint32_t buffer, const dt_sym_t *index,
                   uint32_t mask) {
  dt_buffer_id_t id = {buffer};
  dt_inst_t inst = {.kind = DT_INST_LOAD,
                    .dtype = dt__program_buffer(h->program, id)->dtype,
                    .args = {DT_NO_INST, 7, 9},
                    .mask = mask,
                    .buffer = id,
                    .index = index};
  uint32_t out;
  expect_ok(dt__stage_add(h->program, stage, &inst, &out));
  return out;
}

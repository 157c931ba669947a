// SPDX-License-Identifier: Apache-2.0
// See commit.h. One thread reads once whether checks held. The record is in the host's memory;
// reading it in every thread of an update would take longer than the update.
#include "fuse/commit.h"

#include "runtime/base/status.h"

#include <string.h>

static dt_status_t gate_stage(dt_program_t *program, dt_buffer_id_t gate, dt_stage_t *stage) {
  dt_inst_t sound = {.kind = DT_INST_SOUND,
                     .dtype = DT_BOOL,
                     .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                     .mask = DT_NO_INST};
  dt_inst_t cast = {.kind = DT_INST_CAST,
                    .dtype = DT_I64,
                    .args = {0, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST};
  dt_store_t store = {.buffer = gate, .mask = DT_NO_INST};
  DT_TRY(dt__stage_add(program, stage, &sound, &cast.args[0]));
  DT_TRY(dt__stage_add(program, stage, &cast, &store.value));
  store.index = DT_ARENA_ARRAY(program->arena, dt_sym_t, 1);
  return store.index && DT_VEC_PUSH(program->arena, &stage->stores, store) ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__gate_updates(dt_program_t *program) {
  uint32_t at = dt__program_commit(program), n = program->kernels.len;
  if (at == n || !dt__program_checks(program))
    return NULL;
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = DT_I64};
  dt_buffer_id_t gate;
  dt_stage_t stage = {0};
  dt_schedule_t serial = {
      .kind = DT_SCHEDULE_SERIAL, .lanes = 1, .unroll = 1, .grain = 1, .team = 1};
  dt_kernel_t asks = {.name = "commit", .section = program->kernels.items[at].section};
  DT_TRY(dt__program_add_buffer(program, &buffer, &gate));
  DT_TRY(gate_stage(program, gate, &stage));
  dt_kernel_t *kernels = DT_ARENA_ARRAY(program->arena, dt_kernel_t, n + 1);
  if (!kernels || !DT_VEC_PUSH(program->arena, &asks.stages, stage) ||
      !DT_VEC_PUSH(program->arena, &asks.schedules, serial))
    return DT_NO_MEMORY();
  memcpy(kernels, program->kernels.items, at * sizeof(*kernels));
  kernels[at] = asks;
  memcpy(kernels + at + 1, program->kernels.items + at, (n - at) * sizeof(*kernels));
  for (uint32_t k = at + 1; k <= n; k++)
    kernels[k].gate = gate;
  program->kernels.items = kernels;
  program->kernels.len = program->kernels.cap = n + 1;
  // They are of the last segment.
  if (program->segments.len)
    program->segments.items[program->segments.len - 1].kernel_end++;
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// The order of a temporary's dims. Lowering gives a temporary the order of its op's result, which
// need not be the order in which it is read. A product makes heads as [b, h, m, d], for example,
// and the next product reads rows of h and d, [b, k // 32, m, k % 32], whose elements lie apart in
// memory. A dim moves in front of another one if more accesses then walk memory in steps of a fixed
// size. Before that temporaries beside arguments and results of other orders take these (follow.c).
// Nothing else of the program changes. The pass comes first, before anything depends on how
// addresses move.
#include "fuse/body.h"
#include "fuse/channels.h"
#include "fuse/flow.h"
#include "fuse/follow.h"
#include "fuse/fuse.h"
#include "fuse/loops.h"
#include "fuse/operands.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define UNEVEN 8 // what an access costs whose address does not move evenly with a loop
#define APART 1  // whose innermost loop does not go to the next element

typedef struct layouts_t {
  dt_program_t *program;
  dt_flow_t flow;
  bool *fixed; // by buffer, [id - 1]: its order must stay
} layouts_t;

// ---- What may move --------------------------------------------------------------------------------

// Readbacks are read by the host, and a search walks all of its buffer in order.
static dt_status_t find_fixed(layouts_t *l) {
  const dt_program_t *program = l->program;
  l->fixed = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1);
  if (!l->fixed)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++)
    l->fixed[b] = program->buffers.items[b].kind != DT_BUFFER_TEMP ||
                  program->buffers.items[b].layout != NULL;
  for (uint32_t i = 0; i < program->readbacks.len; i++)
    l->fixed[program->readbacks.items[i].buffer.id - 1] = true;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (stage->insts.items[i].kind == DT_INST_SEARCH)
          l->fixed[stage->insts.items[i].buffer.id - 1] = true;
    }
  return NULL;
}

// ---- Cost -----------------------------------------------------------------------------------------

static int64_t access_cost(dt_program_t *program, const dt_kernel_t *kernel,
                           const dt_stage_t *stage, dt_buffer_id_t id, const dt_sym_t *index) {
  int64_t cost = 0;
  for (uint32_t v = 0; v < kernel->n_loops + stage->n_loops; v++) {
    bool inner = v >= kernel->n_loops, last = v + 1 == kernel->n_loops + stage->n_loops;
    dt_sym_t var = inner ? stage->vars[v - kernel->n_loops] : kernel->vars[v];
    dt_step_t step = dt__access_step(program, id, index, var);
    cost += step == DT_STEP_OTHER ? UNEVEN : 0;
    cost += last && step > DT_STEP_UNIT ? APART : 0;
  }
  return cost;
}

// Of the buffer whose users stand in the flow.
static int64_t buffer_cost(const layouts_t *l, dt_buffer_id_t id) {
  dt_program_t *program = l->program;
  int64_t cost = 0;
  for (uint32_t u = 0; u < l->flow.users.len; u++) {
    const dt_kernel_t *kernel = &program->kernels.items[l->flow.users.items[u]];
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id == id.id)
          cost += access_cost(program, kernel, stage, id, stage->insts.items[i].index);
      for (uint32_t i = 0; i < stage->stores.len; i++)
        if (stage->stores.items[i].buffer.id == id.id)
          cost += access_cost(program, kernel, stage, id, stage->stores.items[i].index);
    }
  }
  return cost;
}

// ---- Moving a dim -----------------------------------------------------------------------------------

// Takes exprs[from] out and puts it in at `to`.
static void move_one(dt_sym_t *exprs, uint32_t from, uint32_t to) {
  dt_sym_t moved = exprs[from];
  for (; from < to; from++)
    exprs[from] = exprs[from + 1];
  for (; from > to; from--)
    exprs[from] = exprs[from - 1];
  exprs[to] = moved;
}

static const dt_sym_t *moved_index(dt_program_t *program, const dt_sym_t *index, uint32_t rank,
                                   uint32_t from, uint32_t to) {
  dt_sym_t *copy = DT_ARENA_ARRAY(program->arena, dt_sym_t, rank + 1);
  if (!copy)
    return NULL;
  memcpy(copy, index, rank * sizeof(*copy));
  move_one(copy, from, to);
  return copy;
}

static dt_status_t move_in_stage(dt_program_t *program, dt_stage_t *stage, dt_buffer_id_t id,
                                 uint32_t from, uint32_t to) {
  uint32_t rank = dt__program_buffer(program, id)->rank;
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    dt_inst_t *load = &stage->insts.items[i];
    if (dt__inst_reads(load).id == id.id &&
        !(load->index = moved_index(program, load->index, rank, from, to)))
      return DT_NO_MEMORY();
  }
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    dt_store_t *store = &stage->stores.items[i];
    if (store->buffer.id == id.id &&
        !(store->index = moved_index(program, store->index, rank, from, to)))
      return DT_NO_MEMORY();
  }
  return NULL;
}

static dt_status_t move_dim(layouts_t *l, dt_buffer_id_t id, uint32_t from, uint32_t to) {
  dt_program_t *program = l->program;
  dt_buffer_t *buffer = dt__program_buffer(program, id);
  move_one(buffer->sizes, from, to);
  dt__buffer_set_strides(program->env, buffer);
  for (uint32_t u = 0; u < l->flow.users.len; u++) {
    dt_kernel_t *kernel = &program->kernels.items[l->flow.users.items[u]];
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      DT_TRY(move_in_stage(program, &kernel->stages.items[s], id, from, to));
  }
  return NULL;
}

// Moves one dim where that makes an access even, and others no worse for it.
static dt_status_t lay_out(layouts_t *l, dt_buffer_id_t id) {
  uint32_t rank = dt__program_buffer(l->program, id)->rank;
  DT_TRY(dt__flow_users(&l->flow, id.id - 1));
  int64_t before = buffer_cost(l, id);
  for (uint32_t from = 0; from < rank && before >= UNEVEN; from++)
    for (uint32_t to = 0; to < rank; to++) {
      if (to == from)
        continue;
      DT_TRY(move_dim(l, id, from, to));
      if (buffer_cost(l, id) + UNEVEN / 2 < before) {
        DT_LOG(DT_LOG_FUSION, 1, "buffer %u: dim %u becomes dim %u", id.id, from, to);
        return NULL;
      }
      DT_TRY(move_dim(l, id, to, from));
    }
  return NULL;
}

dt_status_t dt__fuse_layouts(dt_program_t *program, const dt_target_t *target) {
  layouts_t l = {.program = program};
  bool changed = false;
  bool teams = dt__target_has_teams(target);
  DT_TRY(dt__flow_init(program, &l.flow));
  if (teams)
    DT_TRY(dt__operands_direct(program, &l.flow, &changed));
  if (changed)
    DT_TRY(dt__flow_init(program, &l.flow));
  DT_TRY(dt__channels_innermost(program, target, &l.flow, &changed));
  if (changed && !teams) {
    DT_TRY(dt__flow_init(program, &l.flow));
    DT_TRY(dt__borders_apart(program, &l.flow, &changed));
  }
  if (changed)
    DT_TRY(dt__flow_init(program, &l.flow));
  DT_TRY(dt__follow_orders(program, &l.flow));
  DT_TRY(find_fixed(&l));
  for (uint32_t b = 0; b < program->buffers.len; b++)
    if (!l.fixed[b] && program->buffers.items[b].rank > 2)
      DT_TRY(lay_out(&l, (dt_buffer_id_t){b + 1}));
  return dt__symenv_status(program->env);
}

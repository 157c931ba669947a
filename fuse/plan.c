// SPDX-License-Identifier: Apache-2.0
// The memory plan. Kernels that read only constants run once, when the variant is made, into memory
// of their own. Temporaries share slots of one block: two share when one is dead before the other
// is written, which holds for all sizes because it depends on the order of kernels alone. A slot is
// as large as its largest tenant, an expression; slots lie one after another.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define ALIGN 64

typedef struct slot_t {
  dt_sym_t bytes;
  uint32_t last; // kernel that reads its present tenant last
} slot_t;

typedef struct life_t {
  uint32_t first, last; // kernels that write and read it; first > last: never used
} life_t;

// Bytes of a buffer, rounded up to ALIGN.
static dt_sym_t rounded_bytes(dt_program_t *program, dt_buffer_id_t id) {
  dt_symenv_t *env = program->env;
  dt_sym_t size =
      dt__sym_const(env, (int64_t)dt_dtype_size(dt__program_buffer(program, id)->dtype));
  dt_sym_t bytes = dt__sym_mul(env, dt__buffer_count(program, id), size);
  dt_sym_t align = dt__sym_const(env, ALIGN);
  return dt__sym_mul(env, dt__sym_ceildiv(env, bytes, align), align);
}

// ---- Kernels that run once --------------------------------------------------------------------------

static bool static_loops(dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    if (!dt__sym_is_const(program->env, kernel->extents[v], NULL))
      return false;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t v = 0; v < kernel->stages.items[s].n_loops; v++)
      if (!dt__sym_is_const(program->env, kernel->stages.items[s].extents[v], NULL))
        return false;
  return true;
}

static bool depends_on_call(dt_program_t *program, dt_sym_t expr) {
  uint32_t symbols[64];
  uint32_t n = dt__sym_symbols(program->env, expr, symbols, 64);
  for (uint32_t k = 0; k < n && k < 64; k++) {
    dt_symbol_kind_t kind = dt__symbol_info(program->env, symbols[k]).kind;
    if (kind != DT_SYMBOL_LOOP && kind != DT_SYMBOL_DATA)
      return true;
  }
  return n > 64;
}

static bool stage_is_constant(dt_program_t *program, const dt_stage_t *stage, const bool *once) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind == DT_INST_BIND)
      return false; // its failure belongs to a call
    if (inst->kind == DT_INST_INDEX && depends_on_call(program, inst->sym))
      return false;
    if (inst->kind != DT_INST_LOAD)
      continue;
    dt_buffer_kind_t kind = dt__program_buffer(program, inst->buffer)->kind;
    if (kind != DT_BUFFER_CONSTANT && kind != DT_BUFFER_LOCAL && !once[inst->buffer.id - 1])
      return false;
    for (uint32_t d = 0; d < dt__program_buffer(program, inst->buffer)->rank; d++)
      if (depends_on_call(program, inst->index[d]))
        return false;
  }
  for (uint32_t k = 0; k < stage->stores.len; k++) {
    const dt_buffer_t *buffer = dt__program_buffer(program, stage->stores.items[k].buffer);
    if (buffer->kind != DT_BUFFER_TEMP && buffer->kind != DT_BUFFER_LOCAL)
      return false;
    for (uint32_t d = 0; d < buffer->rank; d++)
      if (!dt__sym_is_const(program->env, buffer->sizes[d], NULL))
        return false;
  }
  return true;
}

static dt_status_t hoist_constant(dt_program_t *program) {
  uint32_t n = program->kernels.len;
  bool *once = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1);
  dt_kernel_t *sorted = DT_ARENA_ARRAY(program->arena, dt_kernel_t, n + 1);
  dt_kernel_t *others = DT_ARENA_ARRAY(program->arena, dt_kernel_t, n + 1);
  if (!once || !sorted || !others)
    return DT_NO_MEMORY();
  // A buffer that several kernels write is constant only when all of them are; leave those alone.
  uint32_t *writers = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!writers)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++)
      for (uint32_t i = 0; i < program->kernels.items[k].stages.items[s].stores.len; i++)
        writers[program->kernels.items[k].stages.items[s].stores.items[i].buffer.id - 1]++;
  uint32_t n_others = 0;
  program->n_once = 0;
  for (uint32_t k = 0; k < n; k++) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    bool constant = static_loops(program, kernel);
    for (uint32_t s = 0; constant && s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      constant = stage_is_constant(program, stage, once);
      for (uint32_t i = 0; constant && i < stage->stores.len; i++)
        constant = writers[stage->stores.items[i].buffer.id - 1] == 1;
    }
    if (!constant) {
      others[n_others++] = *kernel;
      continue;
    }
    sorted[program->n_once++] = *kernel;
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
        dt_buffer_id_t id = kernel->stages.items[s].stores.items[i].buffer;
        if (dt__program_buffer(program, id)->kind != DT_BUFFER_TEMP)
          continue;
        once[id.id - 1] = true;
        dt__program_buffer(program, id)->kind = DT_BUFFER_ONCE;
      }
  }
  memcpy(sorted + program->n_once, others, n_others * sizeof(*others));
  memcpy(program->kernels.items, sorted, n * sizeof(*sorted));
  return NULL;
}

// ---- Slots ------------------------------------------------------------------------------------------

static dt_status_t find_lives(dt_program_t *program, life_t **out) {
  life_t *lives = DT_ARENA_ARRAY(program->arena, life_t, program->buffers.len + 1);
  if (!lives)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++)
    lives[b] = (life_t){.first = UINT32_MAX, .last = 0};
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++) {
        life_t *life = &lives[stage->stores.items[i].buffer.id - 1];
        life->first = life->first < k ? life->first : k;
        life->last = life->last > k ? life->last : k;
      }
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (stage->insts.items[i].kind == DT_INST_LOAD) {
          life_t *life = &lives[stage->insts.items[i].buffer.id - 1];
          life->last = life->last > k ? life->last : k;
        }
    }
  *out = lives;
  return NULL;
}

// How badly `bytes` fits a free slot; 0 is exact. Hints only choose among right answers.
static int64_t misfit(dt_program_t *program, dt_sym_t slot, dt_sym_t bytes) {
  int64_t have = 0, want = 0;
  if (slot.id == bytes.id)
    return 0;
  if (!dt__sym_hint(program->env, slot, &have) || !dt__sym_hint(program->env, bytes, &want))
    return INT64_MAX / 2;
  return 1 + (have > want ? have - want : want - have);
}

static dt_status_t place_temps(dt_program_t *program, const life_t *lives) {
  dt_symenv_t *env = program->env;
  DT_VEC(slot_t) slots = {0};
  uint32_t n = program->buffers.len;
  uint32_t *slot_of = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  if (!slot_of)
    return DT_NO_MEMORY();
  for (uint32_t k = program->n_once; k < program->kernels.len; k++)
    for (uint32_t b = 0; b < n; b++) {
      if (program->buffers.items[b].kind != DT_BUFFER_TEMP || lives[b].first != k)
        continue;
      dt_sym_t bytes = rounded_bytes(program, (dt_buffer_id_t){b + 1});
      uint32_t best = UINT32_MAX;
      int64_t best_misfit = INT64_MAX;
      for (uint32_t s = 0; s < slots.len; s++) {
        int64_t fit =
            slots.items[s].last < k ? misfit(program, slots.items[s].bytes, bytes) : INT64_MAX;
        if (fit < best_misfit) {
          best = s;
          best_misfit = fit;
        }
      }
      if (best == UINT32_MAX) {
        best = slots.len;
        if (!DT_VEC_PUSH(program->arena, &slots, ((slot_t){.bytes = bytes})))
          return DT_NO_MEMORY();
      }
      slots.items[best].bytes = dt__sym_max(env, slots.items[best].bytes, bytes);
      slots.items[best].last = lives[b].last;
      slot_of[b] = best + 1;
    }
  dt_sym_t *starts = DT_ARENA_ARRAY(program->arena, dt_sym_t, slots.len + 1);
  if (!starts)
    return DT_NO_MEMORY();
  dt_sym_t at = dt__sym_const(env, 0);
  for (uint32_t s = 0; s < slots.len; s++) {
    starts[s] = at;
    at = dt__sym_add(env, at, slots.items[s].bytes);
  }
  program->block_bytes = at;
  for (uint32_t b = 0; b < n; b++)
    if (slot_of[b])
      program->offsets.items[b] = starts[slot_of[b] - 1];
  DT_LOG(DT_LOG_MEMORY, 1, "%u slots for the temporaries of %u buffers", slots.len, n);
  return NULL;
}

dt_status_t dt__fuse_plan(dt_program_t *program, const dt_target_t *target) {
  (void)target;
  DT_TRY(hoist_constant(program));
  uint32_t n = program->buffers.len;
  program->offsets.items = DT_ARENA_ARRAY(program->arena, dt_sym_t, n + 1);
  program->offsets.len = program->offsets.cap = n;
  if (!program->offsets.items)
    return DT_NO_MEMORY();
  dt_sym_t at = dt__sym_const(program->env, 0);
  for (uint32_t b = 0; b < n; b++) {
    if (program->buffers.items[b].kind != DT_BUFFER_ONCE)
      continue;
    program->offsets.items[b] = at;
    at = dt__sym_add(program->env, at, rounded_bytes(program, (dt_buffer_id_t){b + 1}));
  }
  program->once_bytes = at;
  life_t *lives = NULL;
  DT_TRY(find_lives(program, &lives));
  DT_TRY(place_temps(program, lives));
  return dt__symenv_status(program->env);
}

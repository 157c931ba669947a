// SPDX-License-Identifier: Apache-2.0
// The memory plan. Kernels that read only constants run once, when the variant is made, into memory
// of their own. The others are put into segments; between two segments the host reads numbers from
// data. A device that can do without the host makes checks there instead (sized.c).
//
// Temporaries share slots of one block. Two share if one is dead before the other is written, or if
// the kernel that reads the one last stores the other at the very elements that it reads, or is a
// user's that says so. It must hold for all sizes. A slot is as large as its largest tenant, an
// expression; slots lie one after another. A slot belongs to the segment of its first tenant. Every
// tenant's size is known there, and slots of later segments lie behind it, so a placed slot never
// moves.
#include "fuse/body.h"
#include "fuse/commit.h"
#include "fuse/donate.h"
#include "fuse/fuse.h"
#include "fuse/order.h"
#include "fuse/place.h"
#include "fuse/sized.h"
#include "lower/graph/external.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Kernels that run once --------------------------------------------------------------------------

static bool static_loops(dt_program_t *program, const dt_kernel_t *kernel) {
  if (kernel->external)
    return false; // its failure belongs to a call
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
    if (dt__inst_checks(inst))
      return false; // its failure belongs to a call
    if (inst->kind == DT_INST_BIND && depends_on_call(program, inst->extent))
      return false;
    if (inst->kind == DT_INST_INDEX && depends_on_call(program, inst->sym))
      return false;
    if (!dt__inst_reads(inst).id)
      continue;
    dt_buffer_kind_t kind = dt__program_buffer(program, inst->buffer)->kind;
    if (kind != DT_BUFFER_CONSTANT && kind != DT_BUFFER_LOCAL && !once[inst->buffer.id - 1])
      return false;
    if (inst->kind != DT_INST_LOAD)
      continue;
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

typedef struct hoist_t {
  bool *constant; // kernel
  bool *once;     // buffer [id - 1]: a constant kernel writes it
  bool *mixed;    // buffer [id - 1]: so does another kernel, whose elements belong to a call
} hoist_t;

static bool writes_any(const dt_kernel_t *kernel, const bool *buffers) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++)
      if (buffers[kernel->stages.items[s].stores.items[i].buffer.id - 1])
        return true;
  return false;
}

static void mark_stores(const dt_program_t *program, const dt_kernel_t *kernel, bool *buffers) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      dt_buffer_id_t id = kernel->stages.items[s].stores.items[i].buffer;
      if (dt__program_buffer(program, id)->kind == DT_BUFFER_TEMP)
        buffers[id.id - 1] = true;
    }
}

// A buffer with several writers (concat) is constant when all of them are. Kernels stand in order,
// so what one reads is settled before it, but for a writer found to spoil a buffer: then again.
static void find_constant(dt_program_t *program, const hoist_t *hoist) {
  for (bool again = true; again;) {
    again = false;
    memset(hoist->once, 0, program->buffers.len * sizeof(*hoist->once));
    for (uint32_t k = 0; k < program->kernels.len; k++) {
      const dt_kernel_t *kernel = &program->kernels.items[k];
      bool constant = static_loops(program, kernel) && !writes_any(kernel, hoist->mixed);
      for (uint32_t s = 0; constant && s < kernel->stages.len; s++)
        constant = stage_is_constant(program, &kernel->stages.items[s], hoist->once);
      hoist->constant[k] = constant;
      if (constant)
        mark_stores(program, kernel, hoist->once);
    }
    for (uint32_t k = 0; k < program->kernels.len; k++) {
      if (hoist->constant[k] || !writes_any(&program->kernels.items[k], hoist->once))
        continue;
      mark_stores(program, &program->kernels.items[k], hoist->mixed);
      again = true;
    }
  }
}

static dt_status_t hoist_constant(dt_program_t *program) {
  uint32_t n = program->kernels.len, n_others = 0;
  hoist_t hoist = {.constant = DT_ARENA_ARRAY(program->arena, bool, n + 1),
                   .once = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1),
                   .mixed = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1)};
  dt_kernel_t *others = DT_ARENA_ARRAY(program->arena, dt_kernel_t, n + 1);
  if (!hoist.constant || !hoist.once || !hoist.mixed || !others)
    return DT_NO_MEMORY();
  find_constant(program, &hoist);
  program->n_once = 0;
  for (uint32_t k = 0; k < n; k++) {
    if (hoist.constant[k]) {
      program->kernels.items[program->n_once] = program->kernels.items[k];
      program->kernels.items[program->n_once++].section = 0; // out of any region
    } else {
      others[n_others++] = program->kernels.items[k];
    }
  }
  memcpy(program->kernels.items + program->n_once, others, n_others * sizeof(*others));
  for (uint32_t b = 0; b < program->buffers.len; b++)
    if (hoist.once[b])
      program->buffers.items[b].kind = DT_BUFFER_ONCE;
  return NULL;
}

// ---- Segments -------------------------------------------------------------------------------------

// Kernels in order of their segments, otherwise as they stand; without readbacks there are no
// segments.
static dt_status_t make_segments(dt_program_t *program) {
  uint32_t n = program->kernels.len, *of_kernel = NULL, *of_readback = NULL, at = program->n_once;
  memset(&program->segments, 0, sizeof(program->segments));
  if (program->readbacks.len == 0)
    return NULL;
  DT_TRY(dt__find_segments(program, &of_kernel, &of_readback));
  dt_kernel_t *sorted = DT_ARENA_ARRAY(program->arena, dt_kernel_t, n + 1);
  if (!sorted)
    return DT_NO_MEMORY();
  uint32_t last = of_readback[program->readbacks.len - 1], readbacks = 0;
  for (uint32_t k = program->n_once; k < n; k++)
    last = of_kernel[k] > last ? of_kernel[k] : last;
  memcpy(sorted, program->kernels.items, program->n_once * sizeof(*sorted));
  for (uint32_t segment = 0; segment <= last; segment++) {
    while (readbacks < program->readbacks.len && of_readback[readbacks] <= segment)
      readbacks++;
    for (uint32_t k = program->n_once; k < n; k++)
      if (of_kernel[k] == segment)
        sorted[at++] = program->kernels.items[k];
    dt_program_segment_t made = {.readback_end = readbacks, .kernel_end = at};
    if (!DT_VEC_PUSH(program->arena, &program->segments, made))
      return DT_NO_MEMORY();
  }
  memcpy(program->kernels.items, sorted, n * sizeof(*sorted));
  return NULL;
}

// Calls of users' ops have kernels where they run.
static dt_status_t check_calls(const dt_program_t *program, const dt_target_t *target) {
  for (uint32_t k = 0; k < program->externals.len; k++) {
    const dt_graph_external_t *call = program->externals.items[k];
    if (call->def && !dt__op_has_kernel(call->def, target->device))
      return DT_FAIL(DT_E_UNSUPPORTED,
                     "the op %s has no kernel for the device; give it one, or a decomposition",
                     call->name);
  }
  return NULL;
}

dt_status_t dt__fuse_plan(dt_program_t *program, const dt_target_t *target) {
  DT_TRY(check_calls(program, target));
  DT_TRY(hoist_constant(program));
  DT_TRY(dt__program_settle_regions(program));
  DT_TRY(dt__carry_in_place(program));
  DT_TRY(dt__take_donated(program));
  DT_TRY(make_segments(program));
  if (target->own_memory && program->readbacks.len)
    DT_TRY(dt__size_on_device(program));
  if (target->queued)
    DT_TRY(dt__gate_updates(program));
  DT_TRY(dt__program_settle_slices(program));
  DT_TRY(dt__program_settle_regions(program));
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
    at = dt__sym_add(program->env, at, dt__placed_bytes(program, (dt_buffer_id_t){b + 1}));
  }
  program->once_bytes = at;
  DT_TRY(dt__place_temps(program));
  return dt__symenv_status(program->env);
}

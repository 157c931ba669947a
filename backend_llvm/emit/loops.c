// SPDX-License-Identifier: Apache-2.0
// Kernels: the grid, stages in their loops, and the vector loops. A vector loop is a main loop of
// `unroll` whole vectors without masks, then a tail of single vectors under a mask.
#include "backend_llvm/emit/loops.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/index.h"
#include "backend_llvm/emit/insts.h"
#include "backend_llvm/emit/matmul.h"
#include "backend_llvm/emit/reductions.h"
#include "backend_llvm/emit/resident.h"

// ---- Grid --------------------------------------------------------------------------------------------
LLVMValueRef dt__at_least_one(dt_body_t *k, LLVMValueRef n) {
  LLVMValueRef one = dt__emit_i64(k->m, 1);
  LLVMValueRef less = LLVMBuildICmp(k->m->b, LLVMIntSLT, n, one, "");
  return LLVMBuildSelect(k->m->b, less, one, n, "");
}

// The position on each axis is found by division once, for the first item, and then counted on: the
// slots (kept in `counter` of no scope but on the stack) become registers.
typedef struct odometer_t {
  LLVMValueRef slots[DT_MAX_LOOPS], extents[DT_MAX_LOOPS];
  uint32_t n;
} odometer_t;

static void odometer_start(dt_body_t *k, odometer_t *o, LLVMValueRef first) {
  dt_emit_t *m = k->m;
  for (uint32_t i = o->n; i-- > 0;) {
    LLVMValueRef extent = dt__at_least_one(k, o->extents[i]);
    LLVMValueRef digit = i ? LLVMBuildURem(m->b, first, extent, "") : first;
    first = LLVMBuildUDiv(m->b, first, extent, "");
    o->slots[i] = dt__body_slot(k, m->t_i64, 1);
    LLVMBuildStore(m->b, digit, o->slots[i]);
  }
}

static void odometer_step(dt_body_t *k, const odometer_t *o) {
  dt_emit_t *m = k->m;
  LLVMValueRef carry = dt__emit_i64(m, 1);
  for (uint32_t i = o->n; i-- > 0;) {
    LLVMValueRef next =
        LLVMBuildAdd(m->b, LLVMBuildLoad2(m->b, m->t_i64, o->slots[i], ""), carry, "");
    LLVMValueRef wraps = LLVMBuildICmp(m->b, LLVMIntSGE, next, o->extents[i], "");
    LLVMBuildStore(m->b, LLVMBuildSelect(m->b, wraps, dt__emit_i64(m, 0), next, ""), o->slots[i]);
    carry = LLVMBuildZExt(m->b, wraps, m->t_i64, "");
  }
}

// ---- Stages ------------------------------------------------------------------------------------------
static void stage_body(dt_body_t *k) {
  dt__reductions_step(k);
  dt__stage_stores(k);
}

LLVMValueRef dt__tail_mask(dt_body_t *k, LLVMValueRef left) {
  dt_emit_t *m = k->m;
  LLVMValueRef all = dt__emit_i64(m, k->lanes);
  LLVMValueRef fewer = LLVMBuildICmp(m->b, LLVMIntSLT, left, all, "");
  LLVMValueRef n = LLVMBuildSelect(m->b, fewer, left, all, "");
  LLVMValueRef narrow = LLVMBuildTrunc(m->b, n, m->t_i32, "");
  return LLVMBuildICmp(m->b, LLVMIntULT, dt__emit_ramp(m->t_i32, k->lanes, 1),
                       dt__emit_splat(m, narrow, k->lanes), "");
}

static bool same_literal(LLVMValueRef a, LLVMValueRef b) {
  return a == b && LLVMIsAConstantInt(a) != NULL;
}

// A number, or what a parameter is multiplied by, that is a multiple of `group`.
static bool is_whole(dt_body_t *k, dt_sym_t extent, int64_t group) {
  dt_symenv_t *env = k->m->env;
  dt_sym_view_t view = dt__sym_view(env, extent);
  int64_t factor = 0;
  if (view.op == DT_SYM_CONST)
    return view.value % group == 0;
  if (view.op != DT_SYM_MUL || view.n_args != 2 || !k->kernel->by_offset)
    return false;
  for (uint32_t i = 0; i < 2; i++)
    if (dt__sym_is_const(env, view.args[i], &factor))
      return factor % group == 0;
  return false;
}

// Copies that a loop of n iterations can use.
static uint32_t useful_unroll(const dt_body_t *k, LLVMValueRef n) {
  uint32_t unroll = k->schedule->unroll;
  if (!LLVMIsAConstantInt(n))
    return unroll;
  int64_t vectors = LLVMConstIntGetSExtValue(n) / (int64_t)(k->lanes * k->team);
  if (vectors < 1)
    return 1;
  return vectors < (int64_t)unroll ? (uint32_t)vectors : unroll;
}

// What a vector loop runs, with copies, mask and lane_base set.
typedef void (*vector_body_t)(dt_body_t *k, void *user);

void dt__bind_lane(dt_body_t *k, uint32_t level) {
  dt__bind_symbol(k, k->lane_var, level, NULL);
  uint32_t symbol;
  if (dt__sym_is_symbol(k->m->env, k->lane_var, &symbol) && symbol < k->n_bindings)
    k->bindings[symbol].varying = true;
}

// Where this thread's first vector stands in a loop of its team from `start` on.
LLVMValueRef dt__own_start(dt_body_t *k, LLVMValueRef start) {
  dt_emit_t *m = k->m;
  if (!k->rank)
    return start;
  LLVMValueRef shift = LLVMBuildMul(m->b, k->rank, dt__emit_i64(m, k->lanes), "");
  return LLVMBuildNSWAdd(m->b, start, shift, "");
}

// On a device the condition of `aligned` leaves no part of a vector, so the tail has no mask.
static void vector_loops(dt_body_t *k, uint32_t level, LLVMValueRef from, LLVMValueRef to,
                         bool whole, uint32_t unroll, vector_body_t body, void *user) {
  dt_emit_t *m = k->m;
  int64_t wide = (int64_t)k->lanes * k->team, group = wide * unroll;
  k->lane_level = level;
  dt__body_at(k, level - 1);
  LLVMValueRef n = LLVMBuildSub(m->b, to, from, "");
  LLVMValueRef groups = LLVMBuildUDiv(m->b, n, dt__emit_i64(m, group), "");
  LLVMValueRef covered = LLVMBuildMul(m->b, groups, dt__emit_i64(m, group), "");
  LLVMValueRef middle = whole ? to : LLVMBuildAdd(m->b, from, covered, "");
  dt__bind_lane(k, level);
  if (!same_literal(from, middle)) {
    k->copies = unroll;
    k->masks[0] = NULL;
    k->lane_base = dt__loop_open(k, level, dt__own_start(k, from), middle, group);
    body(k, user);
    dt__loop_close(k, level);
  }
  if (!whole && !same_literal(middle, to)) {
    dt__bind_lane(k, level);
    k->copies = 1;
    k->lane_base = dt__loop_open(k, level, dt__own_start(k, middle), to, wide);
    k->masks[0] = m->device ? NULL : dt__tail_mask(k, LLVMBuildSub(m->b, to, k->lane_base, ""));
    body(k, user);
    dt__loop_close(k, level);
    k->masks[0] = NULL;
  }
  k->copies = 1;
}

static void inner_vector_body(dt_body_t *k, void *user) {
  (void)user;
  dt__reductions_iterate(k);
  dt__stage_binds(k, k->lane_level);
  stage_body(k);
}

static void stage_loops(dt_body_t *k, uint32_t j);

// Whether loop `j` and those in it are written out: a window's few elements, for one vector of
// places, whose steps wait for each other. Several copies have enough to do, and would be long.
static bool is_written_out(dt_body_t *k, uint32_t j) {
  const dt_stage_t *stage = k->stage;
  int64_t all = 1, extent;
  if (k->m->device || !k->outer_lanes || k->copies > 1 || k->beside.id)
    return false;
  for (; j < stage->n_loops; j++) {
    if (!dt__sym_is_const(k->m->env, stage->extents[j], &extent) || extent > DT_WRITTEN_OUT)
      return false;
    all *= extent;
  }
  return all <= DT_WRITTEN_OUT;
}

// The iterations of loop `j` one after another, as code of its level.
static void write_out(dt_body_t *k, uint32_t j, int64_t n) {
  uint32_t level = k->stage_level + 1 + j;
  for (int64_t i = 0; i < n; i++) {
    dt__level_enter(k, level);
    dt__bind_symbol(k, k->stage->vars[j], level, dt__emit_i64(k->m, i));
    dt__stage_binds(k, level);
    if (j + 1 == k->stage->n_loops)
      dt__reductions_iterate(k);
    stage_loops(k, j + 1);
    dt__level_leave(k, level);
  }
}

static void stage_loops(dt_body_t *k, uint32_t j) {
  const dt_stage_t *stage = k->stage;
  if (j == stage->n_loops) {
    stage_body(k);
    return;
  }
  uint32_t level = k->stage_level + 1 + j;
  LLVMValueRef extent = dt__index_scalar(k, stage->extents[j]);
  LLVMValueRef zero = dt__emit_i64(k->m, 0);
  if (k->resident.on && j + 1 == stage->n_loops) {
    k->copies = k->schedule->unroll;
    k->lane_level = level;
    dt__bind_lane(k, level);
    dt__resident_open(k, level, extent);
    inner_vector_body(k, NULL);
    dt__resident_close(k, level);
    k->copies = 1;
    return;
  }
  if (k->acc_vector && !k->outer_lanes && j + 1 == stage->n_loops) {
    uint32_t unroll = useful_unroll(k, extent);
    bool whole = !LLVMIsAConstantInt(extent) && k->kernel->by_offset &&
                 is_whole(k, stage->extents[j], (int64_t)k->lanes * k->team * unroll);
    vector_loops(k, level, zero, extent, whole, unroll, inner_vector_body, NULL);
    return;
  }
  if (is_written_out(k, j)) {
    write_out(k, j, LLVMConstIntGetSExtValue(extent));
    return;
  }
  LLVMValueRef counter = dt__loop_open(k, level, zero, extent, 1);
  dt__bind_symbol(k, stage->vars[j], level, counter);
  dt__stage_binds(k, level);
  stage_loops(k, j + 1);
  dt__loop_close(k, level);
}

void dt__stage_emit(dt_body_t *k, uint32_t index) {
  dt_emit_t *m = k->m;
  dt_status_t status = dt__stage_enter(k, index);
  const dt_stage_t *stage = k->stage;
  dt_accumulator_t *accs = DT_ARENA_ARRAY(&m->arena, dt_accumulator_t, stage->reductions.len + 1);
  if (status || !accs) {
    dt__emit_fail(m, status ? status : DT_NO_MEMORY());
    return;
  }
  bool vector = k->axis && (k->outer_lanes || stage->n_loops > 0);
  uint32_t copies = 1;
  if (vector)
    copies = k->outer_lanes ? k->copies
             : k->resident.on
                 ? k->schedule->unroll
                 : useful_unroll(k, dt__index_scalar(k, stage->extents[stage->n_loops - 1]));
  k->accs = accs;
  k->acc_vector = vector;
  dt__body_at(k, k->stage_level);
  for (uint32_t i = 0; i < stage->reductions.len; i++)
    dt__reduction_begin(k, &stage->reductions.items[i], &accs[i], vector, copies);
  dt__reductions_iterate(k);
  dt__stage_binds(k, k->stage_level);
  stage_loops(k, 0);
  dt__body_at(k, k->stage_level);
  for (uint32_t i = 0; i < stage->reductions.len; i++) {
    const dt_reduction_t *reduction = &stage->reductions.items[i];
    k->rows[reduction->row] =
        dt__reduction_end(k, reduction, &accs[i], vector, copies, k->outer_lanes);
  }
}

// ---- Lanes on the last outer loop ----------------------------------------------------------------------
typedef struct outer_t {
  uint32_t first, last;
  void (*prepare)(dt_body_t *k, void *user);
  void *user;
} outer_t;

static void outer_vector_body(dt_body_t *k, void *user) {
  const outer_t *outer = user;
  if (outer->prepare)
    outer->prepare(k, outer->user);
  for (uint32_t s = outer->first; s < outer->last; s++)
    dt__stage_emit(k, s);
}

// The lane axis is the last outer loop, inside of k->item_level.
bool dt__outer_enter(dt_body_t *k, uint32_t first, uint32_t last) {
  dt_emit_t *m = k->m;
  k->outer_lanes = k->axis = true;
  if (!m->device)
    k->lanes = k->schedule->lanes;
  k->stride = dt__local_stride(k->schedule);
  k->lane_var = k->kernel->vars[k->kernel->n_loops - 1];
  uint32_t level = k->item_level + 1;
  k->lane_level = level;
  k->stage_level = level;
  dt__bind_lane(k, level);
  for (uint32_t s = first; s < last; s++) {
    dt_status_t status = dt__stage_enter(k, s);
    if (status) {
      dt__emit_fail(m, status);
      return false;
    }
    dt__stage_binds(k, k->item_level);
  }
  dt__body_at(k, k->item_level);
  return true;
}

void dt__outer_vectors(dt_body_t *k, LLVMValueRef from, LLVMValueRef to, bool whole, uint32_t first,
                       uint32_t last, void (*prepare)(dt_body_t *k, void *user), void *user) {
  if (!dt__outer_enter(k, first, last))
    return;
  uint32_t unroll =
      whole ? k->schedule->unroll : useful_unroll(k, LLVMBuildSub(k->m->b, to, from, ""));
  outer_t outer = {first, last, prepare, user};
  vector_loops(k, k->item_level + 1, from, to, whole, unroll, outer_vector_body, &outer);
}

void dt__outer_vector(dt_body_t *k, LLVMValueRef at, uint32_t copies, uint32_t first, uint32_t last,
                      void (*prepare)(dt_body_t *k, void *user), void *user) {
  if (!dt__outer_enter(k, first, last))
    return;
  uint32_t level = k->item_level + 1;
  outer_t outer = {first, last, prepare, user};
  dt__level_enter(k, level);
  k->copies = copies;
  for (uint32_t c = 0; c < copies; c++)
    k->masks[c] = NULL;
  k->lane_base = at;
  outer_vector_body(k, &outer);
  k->copies = 1;
  dt__level_leave(k, level);
}

// True when every grid item has a whole number of unrolled groups.
bool dt__blocks_are_whole(dt_body_t *k) {
  if (k->m->device && k->team == 1 && k->schedule->unroll == 1)
    return true; // one vector, or single elements
  int64_t group = (int64_t)k->schedule->lanes * k->schedule->unroll * k->team;
  return is_whole(k, k->kernel->extents[k->kernel->n_loops - 1], group) &&
         k->schedule->outer.block % group == 0;
}

static void outer_lanes_item(dt_body_t *k, LLVMValueRef block_index) {
  dt_emit_t *m = k->m;
  LLVMValueRef extent = dt__index_scalar(k, k->kernel->extents[k->kernel->n_loops - 1]);
  dt__body_at(k, 1);
  LLVMValueRef block = dt__emit_i64(m, k->schedule->outer.block);
  LLVMValueRef from = LLVMBuildMul(m->b, block_index, block, "");
  LLVMValueRef to = LLVMBuildNSWAdd(m->b, from, block, "");
  LLVMValueRef over = LLVMBuildICmp(m->b, LLVMIntSLT, extent, to, "");
  to = LLVMBuildSelect(m->b, over, extent, to, "");
  if (k->schedule->outer.beside)
    dt__beside_item(k, from, to);
  else
    dt__outer_vectors(k, from, to, dt__blocks_are_whole(k), 0, k->kernel->stages.len, NULL, NULL);
}

// ---- Kernels -------------------------------------------------------------------------------------------
void dt__bind_parameter(dt_body_t *k, const dt_kernel_params_t *params, uint32_t i) {
  dt_emit_t *m = k->m;
  LLVMValueRef at = dt__emit_offset(m, k->words, dt__emit_i64(m, 8 * (int64_t)i));
  bool buffer = i < params->n_buffers;
  LLVMTypeRef pointer = m->device ? LLVMPointerTypeInContext(m->context, 1) : m->t_ptr;
  LLVMValueRef word = LLVMBuildLoad2(m->b, buffer ? pointer : m->t_i64, at, "");
  if (buffer && m->device) // global memory: later passes find every access's space from here
    word = LLVMBuildAddrSpaceCast(m->b, word, m->t_ptr, "");
  if (buffer)
    dt__body_place(k, params->buffers[i].id - 1, word);
  else
    dt__bind_uniform(k, params->symbols[i - params->n_buffers], 0, word);
}

void dt__bind_parameters(dt_body_t *k, const dt_kernel_params_t *params) {
  for (uint32_t i = 0; i < params->n_buffers + params->n_symbols; i++)
    dt__bind_parameter(k, params, i);
}

// The number in a buffer of rank 0: others may have written it while this kernel was set up, so it
// is an ordinary load.
static LLVMValueRef load_number(dt_body_t *k, dt_buffer_id_t buffer) {
  return LLVMBuildLoad2(k->m->b, k->m->t_i64, k->bases[buffer.id - 1], "");
}

void dt__bind_readbacks(dt_body_t *k, const dt_kernel_params_t *params) {
  dt_emit_t *m = k->m;
  if (params->gate.id) {
    LLVMBasicBlockRef open = dt__emit_block(m, k->fn, "open");
    LLVMBasicBlockRef closed = dt__emit_block(m, k->fn, "closed");
    LLVMValueRef holds =
        LLVMBuildICmp(m->b, LLVMIntNE, load_number(k, params->gate), dt__emit_i64(m, 0), "");
    LLVMBuildCondBr(m->b, holds, open, closed);
    LLVMPositionBuilderAtEnd(m->b, closed);
    LLVMBuildRetVoid(m->b);
    k->scopes[0].block = open;
    dt__body_at(k, 0);
  }
  for (uint32_t i = 0; i < params->n_readbacks; i++) {
    const dt_readback_t *item = &m->program.readbacks.items[params->readbacks[i]];
    dt__bind_uniform(k, item->symbol, 0, load_number(k, item->buffer));
  }
}

bool dt__grid_has_readbacks(dt_body_t *k) {
  dt_sym_t axes[DT_MAX_LOOPS];
  uint32_t n = dt__grid_axes(k->m, k->kernel, k->schedule, axes), items = 0;
  for (uint32_t i = 0; i < n; i++)
    items |= dt__expr_readbacks(&k->m->program, axes[i]);
  return items != 0 && k->m->program.device_sized;
}

void dt__place_locals(dt_body_t *k) {
  dt_emit_t *m = k->m;
  dt_sym_t *offsets = DT_ARENA_ARRAY(&m->arena, dt_sym_t, m->program.buffers.len + 1);
  if (!offsets) {
    dt__emit_fail(m, DT_NO_MEMORY());
    return;
  }
  (void)dt__scratch_layout(m, k->kernel, k->schedule, offsets);
  for (uint32_t i = 0; i < m->program.buffers.len; i++) {
    if (!offsets[i].id)
      continue;
    LLVMValueRef offset = dt__index_scalar(k, offsets[i]);
    dt__body_at(k, 0);
    dt__body_place(k, i, dt__emit_offset(m, k->scratch, offset));
  }
}

uint32_t dt__grid_extents(dt_body_t *k, LLVMValueRef *out) {
  dt_sym_t axes[DT_MAX_LOOPS];
  uint32_t n = dt__grid_axes(k->m, k->kernel, k->schedule, axes);
  for (uint32_t i = 0; i < n; i++)
    out[i] = dt__index_scalar(k, axes[i]);
  dt__body_at(k, 0);
  return n;
}

static void open_grid(dt_body_t *k, odometer_t *o, LLVMValueRef begin, LLVMValueRef end) {
  o->n = dt__grid_extents(k, o->extents);
  odometer_start(k, o, begin);
  (void)dt__loop_open(k, 1, begin, end, 1);
}

// Whether a buffer that the kernel stores to has the place of `read` in memory.
static bool is_overwritten(const dt_body_t *k, dt_buffer_id_t read) {
  const dt_program_t *program = &k->m->program;
  if (k->written[read.id - 1])
    return true;
  if (read.id > program->offsets.len || !program->offsets.items[read.id - 1].id)
    return false;
  for (uint32_t i = 0; i < program->offsets.len; i++)
    if (k->written[i] && program->offsets.items[i].id == program->offsets.items[read.id - 1].id)
      return true;
  return false;
}

static bool stage_has_binds(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND || stage->insts.items[i].kind == DT_INST_SEARCH)
      return true;
  return false;
}

// A stage may read what another thread of the team stored in an earlier one, or overwrite what it
// has read.
static bool stages_meet(dt_body_t *k) {
  const dt_kernel_t *kernel = k->kernel;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_buffer_id_t read = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
      if (read.id && is_overwritten(k, read) && !(k->resident.on && dt__resident_owns(k, read)))
        return true;
    }
  return false;
}

// Elements of a thread; `scripts/test-gpu run bench-models` shows the effect.
#define MOST_AHEAD 24

// Resident rows of short teams: what later stages load is on its way before the first one waits.
static void load_ahead(dt_body_t *k) {
  for (uint32_t s = 1; s < k->kernel->stages.len && !k->m->failure; s++) {
    dt_status_t status = dt__stage_enter(k, s);
    const dt_stage_t *stage = k->stage;
    if (status) {
      dt__emit_fail(k->m, status);
      return;
    }
    if (!stage->n_loops || stage_has_binds(stage))
      continue;
    uint32_t level = k->stage_level + 1;
    LLVMValueRef extent = dt__index_scalar(k, stage->extents[0]);
    k->copies = k->schedule->unroll;
    k->lane_level = level;
    dt__bind_lane(k, level);
    dt__resident_open(k, level, extent);
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      const dt_inst_t *inst = &stage->insts.items[i];
      if (inst->kind == DT_INST_LOAD && inst->mask == DT_NO_INST && k->inst_varying[i] &&
          k->inst_level[i] == level && !is_overwritten(k, inst->buffer))
        (void)dt__inst_value(k, i);
    }
    dt__resident_close(k, level);
    k->copies = 1;
  }
}

void dt__stages_emit(dt_body_t *k, bool resident) {
  bool serial = k->schedule->kind == DT_SCHEDULE_SERIAL;
  if (!k->m->device)
    k->lanes = serial ? 1 : k->schedule->lanes;
  k->axis = !serial && (k->lanes > 1 || k->m->device);
  k->stage_level = k->item_level;
  k->resident.on = resident;
  k->resident.kept.len = 0;
  bool meet = k->team > 1 && stages_meet(k);
  if (resident && k->chain.live && k->schedule->unroll * k->schedule->lanes <= MOST_AHEAD)
    load_ahead(k);
  for (uint32_t s = 0; s < k->kernel->stages.len; s++) {
    if (s && meet)
      k->m->device->sync(k);
    dt__stage_emit(k, s);
  }
}

void dt__item_emit(dt_body_t *k, LLVMValueRef *digits, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    dt__bind_symbol(k, k->kernel->vars[i], 1, digits[i]);
  if (k->schedule->kind == DT_SCHEDULE_TILES)
    k->m->device->tile(k, digits[n - 2], digits[n - 1]);
  else if (k->schedule->kind == DT_SCHEDULE_OUTER_LANES)
    outer_lanes_item(k, digits[n - 1]);
  else if (k->schedule->kind == DT_SCHEDULE_TEAM_MATMUL)
    k->m->device->matmul(k, digits[n - 2], digits[n - 1]);
  else if (k->schedule->kind == DT_SCHEDULE_MATMUL)
    dt__matmul_item(k, digits[n - 2], digits[n - 1]);
  else
    dt__stages_emit(k, k->aligned && dt__row_is_resident(k));
}

static void emit_items(dt_body_t *k, odometer_t *o) {
  LLVMValueRef digits[DT_MAX_LOOPS];
  for (uint32_t i = 0; i < o->n; i++)
    digits[i] = LLVMBuildLoad2(k->m->b, k->m->t_i64, o->slots[i], "");
  dt__item_emit(k, digits, o->n);
}

dt_status_t dt__schedule_verify(dt_emit_t *m, const dt_kernel_t *kernel,
                                const dt_schedule_t *schedule) {
  uint32_t lanes = schedule->lanes, unroll = schedule->unroll;
  bool outer = schedule->kind == DT_SCHEDULE_OUTER_LANES || dt__schedule_is_product(schedule);
  bool lanes_ok = lanes >= 1 && lanes <= DT_MAX_LANES && (lanes & (lanes - 1)) == 0;
  if (schedule->kind == DT_SCHEDULE_SERIAL)
    return NULL;
  if (!lanes_ok || unroll < 1 || unroll > DT_MAX_UNROLL || (outer && lanes < 2))
    return DT_FAIL(DT_E_INTERNAL, "schedule of kernel %s: %u lanes, %u vectors", kernel->name,
                   lanes, unroll);
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES &&
      (kernel->n_loops < 1 || schedule->outer.block < 1))
    return DT_FAIL(DT_E_INTERNAL, "schedule of kernel %s: no outer loop, or blocks of %lld",
                   kernel->name, (long long)schedule->outer.block);
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES && schedule->outer.beside &&
      (dt__target_has_teams(m->target) || !dt__kernel_runs_beside(&m->program, kernel)))
    return DT_FAIL(DT_E_INTERNAL, "schedule of kernel %s: iterations that cannot run side by side",
                   kernel->name);
  if (schedule->kind == DT_SCHEDULE_INNER_LANES && dt__kernel_in_order(kernel))
    return DT_FAIL(DT_E_INTERNAL, "schedule of kernel %s: lanes over loops that run in order",
                   kernel->name);
  if (schedule->kind == DT_SCHEDULE_INNER_LANES && dt__target_has_teams(m->target) &&
      m->target->strict_fp && dt__kernel_has_order(kernel))
    return DT_FAIL(DT_E_INTERNAL, "schedule of kernel %s: a team reduces what is reduced in order",
                   kernel->name);
  if (dt__schedule_is_product(schedule))
    return dt__matmul_verify(m, kernel, schedule);
  if (schedule->kind == DT_SCHEDULE_TILES &&
      (kernel->n_loops < 2 || kernel->stages.len != 1 || kernel->stages.items[0].n_loops))
    return DT_FAIL(DT_E_INTERNAL, "schedule of kernel %s: tiles of something else than a map",
                   kernel->name);
  return NULL;
}

void dt__emit_kernel(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                     const char *name) {
  dt_body_t k;
  dt_kernel_params_t params = {0};
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = dt__schedule_verify(m, kernel, schedule);
  if (!status)
    status = dt__kernel_print(&m->program, kernel, &params, &text);
  dt__text_fini(&text);
  if (!status)
    status = dt__body_init(&k, m, kernel, schedule);
  if (status) {
    dt__emit_fail(m, status);
    return;
  }
  LLVMTypeRef types[5] = {m->t_ptr, m->t_i64, m->t_i64, m->t_ptr, m->t_ptr};
  LLVMValueRef fn = dt__emit_function(m, name, LLVMFunctionType(m->t_void, types, 5, 0), true);
  k.words = k.dead = LLVMGetParam(fn, 0);
  k.scratch = LLVMGetParam(fn, 3);
  k.record = LLVMGetParam(fn, 4);
  dt__body_enter(&k, fn);
  dt__bind_parameters(&k, &params);
  dt__place_locals(&k);
  odometer_t odometer;
  open_grid(&k, &odometer, LLVMGetParam(fn, 1), LLVMGetParam(fn, 2));
  emit_items(&k, &odometer);
  dt__body_at(&k, 1);
  odometer_step(&k, &odometer);
  dt__loop_close(&k, 1);
  LLVMBuildRetVoid(m->b);
}

// SPDX-License-Identifier: Apache-2.0
// How each kernel is run: loop order, the axis that vector lanes take, block and grain sizes. Only
// cost changes here, never meaning. Decisions follow from how addresses move with each loop, which
// is known for all sizes. Extents count only if they are literals or have hints.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "fuse/loops.h"
#include "fuse/operands.h"
#include "fuse/split_reduction.h"
#include "fuse/teams.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// Nobody has noted how the first two were found. `scripts/bench kernels` (bench/bench_kernels.c)
// shows their effect. `scripts/bench many` (bench/bench_many.c) shows what the third spares a
// compile.
#define TASK_WORK 16384 // element operations worth handing to another thread
#define MAP_BLOCK 2048  // elements of a map in one grid item
// Windows: places side by side, which share loads of weights and do not wait for each other; lanes'
// elements of one item; elements of a window. `scripts/bench conv` (bench/bench_conv.c) measures.
#define BESIDE 7
#define MOST_ROW 256
#define MOST_WINDOW 256
#define FEW_STORES 8 // of a stage, for which more vectors an iteration are worth their code

static int64_t likely(dt_program_t *program, dt_sym_t extent, int64_t otherwise) {
  int64_t value = 0;
  if (dt__sym_is_const(program->env, extent, &value) || dt__sym_hint(program->env, extent, &value))
    return value > 1 ? value : 1;
  return otherwise;
}

// ---- Vectors --------------------------------------------------------------------------------------

// Lanes are counted in what kernels write: values that only index are split by the code generator.
static uint32_t lanes_for(const dt_program_t *program, const dt_kernel_t *kernel,
                          const dt_target_t *target) {
  size_t widest = 4;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      size_t size =
          dt_dtype_size(dt__program_buffer(program, stage->stores.items[k].buffer)->dtype);
      widest = size > widest ? size : widest;
    }
    for (uint32_t k = 0; k < stage->reductions.len; k++) {
      size_t size = dt_dtype_size(stage->insts.items[stage->reductions.items[k].value].dtype);
      widest = size > widest ? size : widest;
    }
  }
  uint32_t bytes = target->map_bytes ? target->map_bytes : target->vector_bytes;
  return bytes / (uint32_t)widest;
}

// Stores of a map that writes to very many places are most of its code; what reductions add up in
// which order does not hang on them.
static uint32_t many_stores(const dt_kernel_t *kernel, uint32_t stage) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].reductions.len)
      return 0;
  uint32_t n = kernel->stages.items[stage].stores.len;
  return n > FEW_STORES ? n : 0;
}

static uint32_t unroll_for(const dt_kernel_t *kernel) {
  uint32_t insts = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    uint32_t cost = dt__stage_cost(&kernel->stages.items[s]) +
                    dt__stage_loads(&kernel->stages.items[s]) + many_stores(kernel, s);
    insts = cost > insts ? cost : insts;
  }
  return insts <= 6 ? 4 : insts <= 24 ? 2 : 1;
}

// ---- Loop order -----------------------------------------------------------------------------------

// Higher is better: how well lanes over `var` read and write.
static int64_t lane_score(dt_program_t *program, const dt_kernel_t *kernel, dt_sym_t var,
                          dt_sym_t extent, uint32_t lanes) {
  dt_step_count_t count = {0};
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    dt__count_steps(program, &kernel->stages.items[s], var, &count);
  int64_t score = 4 * (int64_t)count.unit + 6 * (int64_t)count.unit_stores + count.none -
                  4 * (int64_t)count.strided - 8 * (int64_t)count.strided_stores -
                  6 * (int64_t)count.other;
  int64_t size = likely(program, extent, lanes);
  if (size < lanes)
    score -= 4 * size <= (int64_t)lanes ? 16 : 8; // most lanes would be masked
  return score;
}

// Puts the loop that lanes like best last; the others keep their order.
static void order_loops(dt_program_t *program, dt_kernel_t *kernel, uint32_t lanes) {
  if (kernel->n_loops < 2)
    return;
  uint32_t last = kernel->n_loops - 1, best = last;
  int64_t best_score =
      lane_score(program, kernel, kernel->vars[last], kernel->extents[last], lanes);
  for (uint32_t v = last; v-- > 0;) {
    int64_t score = lane_score(program, kernel, kernel->vars[v], kernel->extents[v], lanes);
    if (score > best_score) {
      best = v;
      best_score = score;
    }
  }
  dt__kernel_move_loop(kernel, best, last);
}

// The loop whose variable the expression is, or n_loops.
static uint32_t loop_of(const dt_kernel_t *kernel, dt_sym_t e) {
  uint32_t v = 0;
  while (v < kernel->n_loops && kernel->vars[v].id != e.id)
    v++;
  return v;
}

// Loops in the order in which a store's dims lie, where that is not the order of the dims: what
// they store is then stored one element behind the other. Loops that are no dim's come first.
static void follow_store(dt_program_t *program, dt_kernel_t *kernel, const dt_store_t *store) {
  const dt_buffer_t *buffer = dt__program_buffer(program, store->buffer);
  for (uint32_t k = 0; k < buffer->rank; k++) {
    uint32_t v = loop_of(kernel, store->index[buffer->layout->order[k]]);
    if (v < kernel->n_loops)
      dt__kernel_move_loop(kernel, v, kernel->n_loops - 1);
  }
}

static void follow_stores(dt_program_t *program, dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      const dt_store_t *store = &kernel->stages.items[s].stores.items[i];
      if (!store->whole && dt__program_buffer(program, store->buffer)->layout)
        follow_store(program, kernel, store);
    }
}

// ---- Lanes over inner or outer loops ----------------------------------------------------------------

static dt_status_t inner_lanes_win(dt_program_t *program, const dt_kernel_t *kernel, uint32_t lanes,
                                   bool *out) {
  *out = kernel->n_loops == 0;
  if (*out)
    return NULL;
  dt_step_count_t inner = {0}, outer = {0};
  bool short_inner = true;
  dt_sym_t last = kernel->vars[kernel->n_loops - 1];
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    dt__count_steps(program, stage, last, &outer);
    DT_TRY(dt__count_gathers(program, stage, last, &outer));
    if (stage->n_loops == 0)
      continue;
    dt__count_steps(program, stage, stage->vars[stage->n_loops - 1], &inner);
    DT_TRY(dt__count_gathers(program, stage, stage->vars[stage->n_loops - 1], &inner));
    int64_t size = 0;
    if (!dt__sym_is_const(program->env, stage->extents[stage->n_loops - 1], &size) ||
        size >= lanes / 2)
      short_inner = false;
  }
  uint32_t bad_inner = inner.strided + inner.other, bad_outer = outer.strided + outer.other;
  if (short_inner)
    return NULL;
  // Literals alone: hints must not change in which order a sum is made.
  int64_t columns = 0;
  bool few = dt__sym_is_const(program->env, kernel->extents[kernel->n_loops - 1], &columns) &&
             2 * columns < (int64_t)lanes;
  *out = bad_inner == 0 || bad_inner < bad_outer || (few && bad_inner == bad_outer);
  return NULL;
}

// ---- Schedules ------------------------------------------------------------------------------------

static int64_t stage_work(dt_program_t *program, const dt_kernel_t *kernel) {
  int64_t work = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    int64_t each = 1 + dt__stage_cost(stage) / 4;
    for (uint32_t v = 0; v < stage->n_loops && each < TASK_WORK; v++)
      each *= likely(program, stage->extents[v], 128);
    work += each;
  }
  return work > 0 ? work : 1;
}

static int64_t grain_for(int64_t item_work) {
  return item_work >= TASK_WORK ? 1 : (TASK_WORK + item_work - 1) / item_work;
}

// The extent where the call's sizes say it, else the likely one.
static dt_sym_t known(dt_program_t *program, dt_sym_t extent) {
  uint32_t symbols[8], n = dt__sym_symbols(program->env, extent, symbols, 8);
  bool of_call = n <= 8;
  for (uint32_t k = 0; of_call && k < n; k++) {
    dt_symbol_kind_t kind = dt__symbol_info(program->env, symbols[k]).kind;
    of_call = kind == DT_SYMBOL_SIZE || kind == DT_SYMBOL_INT;
  }
  return of_call ? extent : dt__sym_const(program->env, likely(program, extent, 128));
}

// As stage_work, of a grid item.
static dt_sym_t item_work(dt_program_t *program, const dt_kernel_t *kernel,
                          const dt_schedule_t *schedule) {
  dt_symenv_t *env = program->env;
  uint32_t n = kernel->n_loops;
  dt_sym_t work = dt__sym_const(env, 0);
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    dt_sym_t each = dt__sym_const(env, 1 + dt__stage_cost(stage) / 4);
    for (uint32_t v = 0; v < stage->n_loops; v++)
      each = dt__sym_mul(env, each, known(program, stage->extents[v]));
    work = dt__sym_add(env, work, each);
  }
  if (schedule->kind != DT_SCHEDULE_OUTER_LANES)
    return work;
  dt_sym_t block = dt__sym_const(env, schedule->outer.block);
  work = dt__sym_mul(env, work, dt__sym_min(env, known(program, kernel->extents[n - 1]), block));
  return schedule->outer.beside ? dt__sym_mul(env, work, known(program, kernel->extents[n - 2]))
                                : work;
}

dt_sym_t dt__schedule_grain(dt_program_t *program, const dt_kernel_t *kernel,
                            const dt_schedule_t *schedule) {
  dt_symenv_t *env = program->env;
  dt_schedule_kind_t kind = schedule->kind;
  dt_sym_t one = dt__sym_const(env, 1);
  if (kind != DT_SCHEDULE_SERIAL && kind != DT_SCHEDULE_INNER_LANES &&
      kind != DT_SCHEDULE_OUTER_LANES)
    return dt__sym_const(env, schedule->grain > 1 ? schedule->grain : 1);
  dt_sym_t work = item_work(program, kernel, schedule);
  if (dt__sym_range(env, work).lo >= TASK_WORK)
    return one;
  return dt__sym_ceildiv(env, dt__sym_const(env, TASK_WORK), dt__sym_max(env, one, work));
}

// Windows: sums of a few elements each, of which neighbours have most, or their weights, in common.
static bool sums_windows(dt_program_t *program, const dt_kernel_t *kernel) {
  bool any = false;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    int64_t extent = 0, all = 1;
    for (uint32_t v = 0; v < stage->n_loops; v++) {
      if (!dt__sym_is_const(program->env, stage->extents[v], &extent) || extent > DT_WRITTEN_OUT)
        return false;
      all *= extent;
    }
    any = any || (stage->n_loops && all > 1);
    if (all > MOST_WINDOW || (stage->n_loops && stage->reductions.len != 1))
      return false;
  }
  return any;
}

// Places of windows side by side, with all of the row that they stand in, which makes an item.
static void beside(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t *out) {
  dt_sym_t extent = kernel->extents[kernel->n_loops - 1];
  int64_t size = MOST_ROW, lanes = out->lanes;
  (void)dt__sym_is_const(program->env, extent, &size);
  size = size < MOST_ROW ? size : MOST_ROW;
  out->unroll = 1;
  out->outer.beside = BESIDE;
  out->outer.block = size < lanes ? lanes : (size + lanes - 1) / lanes * lanes;
  int64_t width = likely(program, extent, size);
  out->grain = grain_for(stage_work(program, kernel) * (width < size ? width : size) *
                         likely(program, kernel->extents[kernel->n_loops - 2], 32));
}

static void outer_lanes(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t *out) {
  out->kind = DT_SCHEDULE_OUTER_LANES;
  dt_sym_t extent = kernel->extents[kernel->n_loops - 1];
  int64_t size = 0;
  // No more vectors than there are: each one runs the inner loops.
  if (dt__has_inner_loops(kernel) && dt__sym_is_const(program->env, extent, &size))
    while (out->unroll > 1 && (int64_t)out->lanes * (out->unroll - 1) >= size)
      out->unroll--;
  int64_t chunk = (int64_t)out->lanes * out->unroll;
  out->outer.block = dt__has_inner_loops(kernel) ? chunk : MAP_BLOCK;
  if (dt__sym_is_const(program->env, extent, &size) && size < out->outer.block)
    out->outer.block = (size + chunk - 1) / chunk * chunk;
  if (out->outer.block < chunk)
    out->outer.block = chunk;
  int64_t width = likely(program, extent, out->outer.block);
  out->grain = grain_for(stage_work(program, kernel) *
                         (width < out->outer.block ? width : out->outer.block));
}

static void inner_lanes(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t *out) {
  out->kind = DT_SCHEDULE_INNER_LANES;
  out->grain = grain_for(stage_work(program, kernel));
}

static void serial(dt_program_t *program, dt_kernel_t *kernel, dt_schedule_t *out) {
  out->kind = DT_SCHEDULE_SERIAL;
  out->lanes = out->unroll = 1;
  if (kernel->n_loops)
    out->grain = grain_for(stage_work(program, kernel));
}

// Threads of a team reduce parts of a row each: where that may not be, a thread has rows for
// itself. A thread's own vectors are reduced lane after lane (backend_llvm/emit/reductions.c).
static bool reductions_alone(const dt_kernel_t *kernel, const dt_target_t *target) {
  return dt__target_has_teams(target) && target->strict_fp && dt__kernel_has_order(kernel);
}

// Loops that run in order leave only outer loops to lanes, which is worth it where no access is
// strided.
static bool is_serial(dt_program_t *program, const dt_kernel_t *kernel, bool alone) {
  bool in_order = dt__kernel_in_order(kernel);
  if (kernel->n_loops == 0)
    return in_order || alone || !dt__has_inner_loops(kernel);
  if (!in_order)
    return false;
  dt_step_count_t count = {0};
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    dt__count_steps(program, &kernel->stages.items[s], kernel->vars[kernel->n_loops - 1], &count);
  return count.strided || count.other;
}

// Stores one number to a temporary with an order: its loops stay as they are, since rows are short
// and kernels of other sizes then share its code.
static bool fills_border(const dt_program_t *program, const dt_kernel_t *kernel) {
  return kernel->stages.len == 1 && dt__stage_loads(&kernel->stages.items[0]) == 0 &&
         dt__kernel_is_map(program, kernel) &&
         dt__program_buffer(program, kernel->stages.items[0].stores.items[0].buffer)->layout;
}

static dt_status_t schedule_loops(dt_program_t *program, dt_kernel_t *kernel,
                                  const dt_target_t *target) {
  uint32_t lanes = lanes_for(program, kernel, target);
  dt_schedule_t schedule = {.lanes = lanes, .unroll = 1, .grain = 1};
  bool alone = reductions_alone(kernel, target);
  bool inner = dt__has_inner_loops(kernel) && !dt__kernel_in_order(kernel) && !alone, wins = false;
  follow_stores(program, kernel);
  if (inner)
    DT_TRY(inner_lanes_win(program, kernel, lanes, &wins));
  if (!wins)
    order_loops(program, kernel, lanes);
  if (!fills_border(program, kernel))
    DT_TRY(dt__merge_outer_loops(program, kernel, kernel->n_loops));
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    DT_TRY(dt__merge_inner_loops(program, &kernel->stages.items[s], DT_NO_INST));
  if (inner)
    DT_TRY(inner_lanes_win(program, kernel, lanes, &wins));
  schedule.unroll = unroll_for(kernel);
  if (is_serial(program, kernel, alone))
    serial(program, kernel, &schedule);
  else if (inner && wins)
    inner_lanes(program, kernel, &schedule);
  else
    outer_lanes(program, kernel, &schedule);
  if (schedule.kind == DT_SCHEDULE_OUTER_LANES && !dt__target_has_teams(target) &&
      sums_windows(program, kernel) && dt__kernel_runs_beside(program, kernel))
    beside(program, kernel, &schedule);
  return DT_VEC_PUSH(program->arena, &kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

// Batch loops that B does not know join m, so that short sequences still fill register tiles.
static dt_status_t schedule_matmul(dt_program_t *program, dt_kernel_t *kernel,
                                   const dt_target_t *target) {
  dt_schedule_t *schedule = &kernel->schedules.items[0];
  uint32_t a = 0, b = 0;
  bool squares = !dt__target_has_teams(target) && schedule->matmul.across.id;
  // Of codes and squares emission verifies that they are products.
  bool codes = squares || (!dt__target_has_teams(target) && schedule->matmul.bits);
  if (!squares)
    DT_TRY(dt__merge_outer_loops(program, kernel, kernel->n_loops - 1));
  if (!codes && !dt__kernel_is_product(kernel, &a, &b))
    return DT_FAIL(DT_E_INTERNAL, "fuse: %s lost its matrix form", kernel->name);
  if (!codes && !dt__target_has_teams(target) && !schedule->matmul.own_panels)
    DT_TRY(dt__merge_rows(program, kernel, schedule->matmul.a, schedule->matmul.b,
                          schedule->matmul.tile_rows));
  if (dt__target_has_teams(target))
    DT_TRY(dt__merge_places(program, kernel, schedule->product.a, schedule->product.b));
  // Elements of B that one tile reads: with few rows that is what it costs.
  const dt_stage_t *sums = &kernel->stages.items[0];
  int64_t depth = 1;
  for (uint32_t v = 0; v < sums->n_loops && depth < TASK_WORK; v++)
    depth *= likely(program, sums->extents[v], 128);
  schedule->grain = grain_for(depth * (int64_t)schedule->product.tile_cols);
  if (dt__target_has_teams(target)) {
    schedule->grain = 1;
    schedule->lanes = lanes_for(program, kernel, target);
  }
  return NULL;
}

// Their loops are as chains.c left them: shared.
static dt_status_t schedule_chain(dt_program_t *program, dt_kernel_chain_t chain,
                                  const dt_target_t *target) {
  for (uint32_t k = chain.first; k < chain.end; k++) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    uint32_t lanes = lanes_for(program, kernel, target);
    dt_schedule_t rows = {.kind = DT_SCHEDULE_INNER_LANES, .lanes = lanes, .unroll = 1, .grain = 1};
    if (kernel->schedules.len)
      kernel->schedules.items[0].lanes = lanes;
    else if (!DT_VEC_PUSH(program->arena, &kernel->schedules, rows))
      return DT_NO_MEMORY();
  }
  return dt__chain_teams(program, chain, target);
}

dt_status_t dt__fuse_schedule(dt_program_t *program, const dt_target_t *target) {
  DT_TRY(dt__split_reductions(program, target));
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    if (kernel->chain) {
      dt_kernel_chain_t chain = dt__kernel_chain(program, k);
      DT_TRY(schedule_chain(program, chain, target));
      k = chain.end - 1;
      continue;
    }
    if (kernel->schedules.len)
      DT_TRY(schedule_matmul(program, kernel, target));
    else
      DT_TRY(schedule_loops(program, kernel, target));
    if (dt__target_has_teams(target))
      DT_TRY(dt__schedule_teams(program, kernel, target));
  }
  DT_TRY(dt__program_settle_slices(program));
  return dt__symenv_status(program->env);
}

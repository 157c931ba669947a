// SPDX-License-Identifier: Apache-2.0
// Products of halves whose operand A stands in shared memory for the whole item: a slab, or a copy
// of A's rows made once. B streams through a ring that does not run dry between tiles of columns:
//
//   B   chunks of its depth, tile of columns after tile   ── copy ──►  [ 0 ][ 1 ][ 2 ][ 3 ]
//   A   rows x whole depth: slab or copy                                  │ ldmatrix
//        └────────────────── ldmatrix ──────────────►   tensor cores ◄────┘
//                                                            │ sums
//   what follows the product, on 4 columns of a row at a time, out of registers ──► memory, slab
//
// The first chunks may be on their way while makers still work (begin). Where k is innermost in B
// its columns stand in the ring in another order: of 16, those with number 4 c + 2 b + e are the
// e-th of pair c of the b-th matrix of 8. So thread c of four gets neighbours 4 c … 4 c + 3.
// Elsewhere threads exchange pairs for that. Where several warps share the depth they hand their
// sums to each other, and each adds up and finishes some, in the order of warps. Groups of warps
// read B themselves (chain_group.c); its chunks then lie in panels, rows in the same order.
//
// Here: which products have the form, and their loops; chain_product_copy.c has the copies,
// chain_product_finish.c what follows.
#include "backend_cuda/emit/chain_product.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/index.h"

#define MAX_GROUPS 32
#define MOST_DEPTH 256 // of an A that is no slab

static uint32_t panel_depth(const dt_program_t *program, const dt_kernel_t *kernel,
                            const dt_matmul_plan_t *plan) {
  int64_t depth = 0;
  if (!dt__sym_is_const(program->env, kernel->stages.items[0].extents[0], &depth) || depth < 1 ||
      depth > MOST_DEPTH)
    return 0;
  uint32_t chunk = plan->matmul->depth;
  return ((uint32_t)depth + chunk - 1) / chunk * chunk;
}

static uint32_t panel_pitch_of(uint32_t depth) { return depth * HALF + PAD; }

static uint32_t groups_of(const dt_matmul_plan_t *plan) {
  return plan->matmul->group_rows * plan->matmul->group_cols / DT_WARP / GROUP;
}

uint32_t dt__product_b_bytes(const dt_matmul_plan_t *plan) {
  uint32_t tall = plan->matmul->tile_cols, deep = plan->matmul->depth;
  if (plan->groups)
    return tall * deep * HALF;
  uint32_t along = tall * (deep * HALF + PAD), across = deep * (tall * HALF + PAD);
  return along > across ? along : across;
}

uint32_t dt__chain_product_bytes(const dt_program_t *program, const dt_kernel_t *kernel,
                                 const dt_matmul_plan_t *plan) {
  bool slab = plan->a.copy == DT_COPY_NONE;
  uint32_t depth = slab ? 1 : panel_depth(program, kernel, plan), groups = groups_of(plan);
  if (!plan->tensor || plan->b.copy != DT_COPY_UNITS || !depth || groups > MAX_GROUPS ||
      plan->parts != plan->slices ||
      (!slab && (plan->a.copy != DT_COPY_UNITS || !plan->a.along_k)) ||
      plan->matmul->tile_cols * plan->matmul->depth / UNIT < plan->threads ||
      plan->threads * UNIT / plan->matmul->depth % BLOCK ||
      (plan->groups && !dt__chain_group_fits(plan)) || dt__kernel_has_locals(program, kernel))
    return 0;
  uint32_t bytes = dt__product_b_bytes(plan) * plan->matmul->ring;
  if (!slab)
    bytes += panel_pitch_of(depth) * plan->matmul->tile_rows;
  return plan->slices > 1 ? bytes + plan->threads * groups * GROUP * 4 : bytes;
}

LLVMValueRef dt__chain_product_fits(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  dt_matmul_plan_t plan;
  dt_status_t status =
      dt__matmul_plan(&m->program, k->kernel, k->schedule, m->target->strict_fp, &plan);
  if (status) {
    dt__emit_fail(m, status);
    return NULL;
  }
  if (k->schedule->lanes != GROUP || !dt__chain_product_bytes(&m->program, k->kernel, &plan))
    return NULL;
  LLVMValueRef aligned = dt__cuda_matmul_aligned(k);
  int64_t cols = 0;
  if (!aligned)
    return NULL;
  if (dt__sym_is_const(m->env, k->kernel->extents[k->kernel->n_loops - 1], &cols) &&
      cols % GROUP == 0) { // else single columns may be finished, too
    LLVMValueRef groups = dt__lanes_aligned(k, GROUP);
    if (!groups)
      return NULL;
    dt__body_at(k, 0);
    aligned = LLVMBuildAnd(m->b, aligned, groups, "");
  }
  dt__body_at(k, 0);
  return LLVMBuildAnd(m->b, aligned, t->chain->in_shared, "");
}

bool dt__product_whole_columns(dt_product_t *p) {
  int64_t cols = 0;
  return dt__sym_is_const(p->m->env, p->plan.b.extent, &cols) &&
         cols % (int64_t)p->tile->tile_cols == 0;
}

// ---- Places ---------------------------------------------------------------------------------------
static bool open_product(dt_product_t *p, dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  *p = (dt_product_t){.t = t, .k = k, .m = m};
  dt_status_t status =
      dt__matmul_plan(&m->program, k->kernel, k->schedule, m->target->strict_fp, &p->plan);
  if (status) {
    dt__emit_fail(m, status);
    return false;
  }
  p->tile = p->plan.matmul;
  p->n_groups = groups_of(&p->plan);
  p->panel_at = dt__product_b_bytes(&p->plan) * p->tile->ring;
  p->sums_at = p->panel_at;
  if (p->plan.a.copy != DT_COPY_NONE) {
    p->panel_pitch = panel_pitch_of(panel_depth(&m->program, k->kernel, &p->plan));
    p->sums_at += p->panel_pitch * p->tile->tile_rows;
  }
  p->shared = dt__cuda_shared_base(m);
  if (p->plan.groups)
    LLVMSetAlignment(p->shared, 8 * DT_PANEL_BYTES); // after which places in panels repeat
  k->stage_index = 0;
  k->stage = &k->kernel->stages.items[0];
  k->axis = k->outer_lanes = k->acc_vector = false;
  k->rank = NULL;
  k->lanes = 1;
  k->item_level = PART;
  p->extent_m = dt__index_scalar(k, p->plan.a.extent);
  p->extent_n = dt__index_scalar(k, p->plan.b.extent);
  p->extent_k = dt__index_scalar(k, k->stage->extents[0]);
  if (!dt__sym_is_const(m->env, k->stage->extents[0], &p->depth))
    p->depth = 0;
  return true;
}

static LLVMValueRef ceil_div(dt_emit_t *m, LLVMValueRef n, uint32_t by) {
  LLVMValueRef up = LLVMBuildNSWAdd(m->b, n, dt__emit_i64(m, (int64_t)by - 1), "");
  return LLVMBuildUDiv(m->b, up, dt__emit_i64(m, by), "");
}

// At PART.
static void place_thread(dt_product_t *p) {
  dt_emit_t *m = p->m;
  const dt_matmul_plan_t *plan = &p->plan;
  p->chunks = ceil_div(m, p->extent_k, p->tile->depth);
  p->tiles = ceil_div(m, p->extent_n, p->tile->tile_cols);
  p->tid = dt__ptx_thread(m);
  p->lane = LLVMBuildAnd(m->b, p->tid, i32(m, DT_WARP - 1), "");
  LLVMValueRef warp = LLVMBuildLShr(m->b, p->tid, i32(m, 5), "");
  if (plan->groups) { // four neighbours
    p->warp_row = LLVMBuildURem(m->b, warp, i32(m, plan->warps_m), "");
    p->warp_col = LLVMBuildUDiv(m->b, warp, i32(m, plan->warps_m), "");
    p->slice = i32(m, 0);
    return;
  }
  p->warp_col = LLVMBuildURem(m->b, warp, i32(m, plan->warps_n), "");
  warp = LLVMBuildUDiv(m->b, warp, i32(m, plan->warps_n), "");
  p->warp_row = LLVMBuildURem(m->b, warp, i32(m, plan->warps_m), "");
  p->slice = LLVMBuildUDiv(m->b, warp, i32(m, plan->warps_m), "");
}

// Where this lane reads A's fragments: of four matrices lane l hands in row l % 8 of the (l /
// 8)-th.
static void place_rows(dt_product_t *p) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.a;
  LLVMValueRef base = NULL;
  if (o->copy == DT_COPY_NONE) {
    const dt_inst_t *load = &k->stage->insts.items[o->load];
    LLVMValueRef pitch = dt__chain_stride(k, load, o->var);
    dt__body_at(k, PART);
    LLVMTypeRef type = LLVMPointerTypeInContext(m->context, 3);
    LLVMValueRef above = LLVMBuildMul(m->b, p->t->first_row, pitch, "");
    base = dt__emit_offset(m, k->bases[load->buffer.id - 1], above);
    base = LLVMBuildAddrSpaceCast(m->b, base, type, "");
    p->a_pitch = narrow(m, pitch);
  } else {
    dt__body_at(k, PART);
    base = shared_at(m, p->shared, i32(m, p->panel_at), 0);
    p->a_pitch = i32(m, p->panel_pitch);
  }
  LLVMValueRef row = LLVMBuildAnd(m->b, p->lane, i32(m, 15), "");
  row = add(m, row, times(m, p->warp_row, p->tile->group_rows));
  LLVMValueRef deep = times(m, bit(m, p->lane, 4), 8);
  deep = add(m, deep, times(m, p->slice, p->tile->depth / p->plan.slices));
  LLVMValueRef at = add(m, LLVMBuildMul(m->b, row, p->a_pitch, ""), times(m, deep, HALF));
  p->a_at = shared_at(m, base, at, 0);
}

void dt__chain_product_begin(dt_chain_item_t *t, LLVMValueRef wanted, LLVMValueRef from,
                             LLVMValueRef step) {
  dt_product_t p;
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  if (!open_product(&p, t))
    return;
  if (!t->next_tile) {
    t->next_tile = dt__body_slot(k, m->t_i64, 1);
    t->next_chunk = dt__body_slot(k, m->t_i32, 1);
    t->next_at = dt__body_slot(k, m->t_i32, 1);
  }
  dt__scope_open(k, PART, wanted);
  place_thread(&p);
  dt__product_place_units(&p);
  dt__product_copy_begin(&p, from, step);
  dt__scope_close(k, PART);
}

// ---- Multiplication -------------------------------------------------------------------------------
// Where this lane reads B's fragments of the warp's first 16 columns, byte of a place of the ring.
static LLVMValueRef b_place(dt_product_t *p) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  LLVMValueRef row = LLVMBuildAnd(m->b, p->lane, i32(m, 7), "");
  LLVMValueRef along = times(m, bit(m, p->lane, 4), 8), deep = times(m, bit(m, p->lane, 3), 8);
  if (o->along_k)
    along = add(m, along, row);
  else
    deep = add(m, deep, row);
  along = add(m, along, times(m, p->warp_col, p->tile->group_cols));
  deep = add(m, deep, times(m, p->slice, p->tile->depth / p->plan.slices));
  LLVMValueRef inner = o->along_k ? deep : along, outer = o->along_k ? along : deep;
  return add(m, times(m, outer, o->pitch), times(m, inner, HALF));
}

static void multiply(dt_product_t *p, LLVMValueRef chunk, LLVMValueRef at) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  uint32_t rows = p->tile->group_rows / BLOCK, cols = p->tile->group_cols / BLOCK,
           n = p->n_groups * GROUP;
  LLVMTypeRef type = m->t_f32;
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS], a[4][4], b[4];
  for (uint32_t i = 0; i < n; i++)
    sums[i] = LLVMBuildLoad2(m->b, type, p->sums[i], "");
  LLVMValueRef a_at = times(m, chunk, p->tile->depth * HALF), b_at = add(m, at, b_place(p));
  for (uint32_t deep = 0; deep < p->tile->depth / p->plan.slices / BLOCK; deep++) {
    for (uint32_t i = 0; i < rows; i++) {
      LLVMValueRef row = add(m, a_at, times(m, p->a_pitch, i * BLOCK));
      dt__ptx_matrices(m, shared_at(m, p->a_at, row, deep * BLOCK * HALF), false, a[i]);
    }
    for (uint32_t j = 0; j < cols; j++) {
      uint32_t inner = BLOCK * (o->along_k ? deep : j), outer = BLOCK * (o->along_k ? j : deep);
      dt__ptx_matrices(m, shared_at(m, p->shared, b_at, outer * o->pitch + inner * HALF),
                       !o->along_k, b);
      for (uint32_t half = 0; half < 2; half++)
        for (uint32_t i = 0; i < rows; i++)
          dt__ptx_multiply(m, p->plan.a.dtype, a[i], &b[half * 2],
                           &sums[((i * cols + j) * 2 + half) * 4]);
    }
  }
  for (uint32_t i = 0; i < n; i++)
    LLVMBuildStore(m->b, sums[i], p->sums[i]);
}

static void clear_sums(dt_product_t *p) {
  dt_emit_t *m = p->m;
  for (uint32_t i = 0; i < p->n_groups * GROUP; i++) {
    if (!p->sums[i])
      p->sums[i] = dt__body_slot(p->k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), p->sums[i]);
  }
}

static void next_place(dt_product_t *p, LLVMValueRef slot) {
  dt_emit_t *m = p->m;
  uint32_t bytes = dt__product_b_bytes(&p->plan);
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, slot, "");
  LLVMValueRef next = add(m, at, i32(m, bytes));
  LLVMValueRef fits = below(m, next, i32(m, bytes * p->tile->ring));
  LLVMBuildStore(m->b, LLVMBuildSelect(m->b, fits, next, i32(m, 0), ""), slot);
}

static dt_chain_group_t group_of(dt_product_t *p) {
  return (dt_chain_group_t){.plan = &p->plan, .sums = p->sums, .n_sums = p->n_groups * GROUP};
}

// One chunk by groups, at `level`.
static void multiply_chunk(dt_product_t *p, LLVMValueRef chunk, LLVMValueRef step,
                           LLVMValueRef slot, uint32_t behind, uint32_t level) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  dt_chain_group_t g = group_of(p);
  dt__ptx_copies_wait(m, ahead_of(p) - 1);
  dt__ptx_fence_async(m);
  dt__cuda_block_sync(m);
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, slot, "");
  uint32_t width = p->tile->group_cols;
  uint32_t bytes = o->along_k ? width * DT_PANEL_BYTES : width * HALF * o->outer;
  g.b = shared_at(m, p->shared, add(m, at, times(m, p->warp_col, bytes)), 0);
  g.a = shared_at(m, p->a_at, times(m, narrow(m, chunk), p->tile->depth * HALF), 0);
  dt__chain_group_begin(m, &g);
  dt__product_copy_next(p, step, level);
  next_place(p, slot);
  dt__chain_group_end(m, &g, behind);
}

// 0: not known.
static uint32_t known_chunks(const dt_product_t *p) {
  return (uint32_t)((p->depth + p->tile->depth - 1) / p->tile->depth);
}

// By groups, in twos: registers of A that one chunk is multiplied from are not the next one's.
static void multiply_twos(dt_product_t *p, LLVMValueRef step, LLVMValueRef slot) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  uint32_t level = ROUND + 1;
  dt_chain_group_t g = group_of(p);
  uint32_t chunks = known_chunks(p), in_twos = chunks - chunks % 2;
  bool known = chunks > 0;
  LLVMValueRef end = known ? dt__emit_i64(m, in_twos) : p->chunks;
  LLVMValueRef chunk = dt__loop_open(k, level, dt__emit_i64(m, 0), end, known ? 2 : 1);
  dt__ptx_no_unroll(m);
  multiply_chunk(p, chunk, step, slot, known, level);
  if (known)
    multiply_chunk(p, LLVMBuildNSWAdd(m->b, chunk, dt__emit_i64(m, 1), ""), step, slot, 1, level);
  dt__loop_close(k, level);
  dt__body_at(k, ROUND);
  if (known && in_twos < chunks)
    multiply_chunk(p, dt__emit_i64(m, in_twos), step, slot, 0, ROUND);
  else if (known)
    dt__chain_group_end(m, &g, 0);
}

// The chunks of one tile; `at`, a slot: byte of the ring of the one in use.
static void multiply_chunks(dt_product_t *p, LLVMValueRef step, LLVMValueRef slot) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  uint32_t level = ROUND + 1;
  LLVMValueRef chunk = dt__loop_open(k, level, dt__emit_i64(m, 0), p->chunks, 1);
  dt__ptx_no_unroll(m);
  dt__ptx_copies_wait(m, p->tile->ring - 2);
  dt__cuda_block_sync(m);
  dt__product_copy_next(p, step, level);
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, slot, "");
  multiply(p, narrow(m, chunk), at);
  next_place(p, slot);
  dt__loop_close(k, level);
}

void dt__chain_product(dt_chain_item_t *t, LLVMValueRef wanted, LLVMValueRef from,
                       LLVMValueRef step) {
  dt_product_t p;
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  if (!open_product(&p, t))
    return;
  LLVMValueRef vectors = dt__lanes_aligned(k, GROUP), *bases = k->bases;
  dt__scope_open(k, PART, wanted);
  k->bases = dt__chain_shared_bases(t);
  if (!k->bases) {
    k->bases = bases;
    return;
  }
  k->base_level = PART;
  place_thread(&p);
  dt__product_place_units(&p);
  place_rows(&p);
  LLVMValueRef slot = dt__body_slot(k, m->t_i32, 1);
  LLVMBuildStore(m->b, i32(m, 0), slot);
  LLVMValueRef tile = dt__loop_open_by(k, ROUND, from, p.tiles, step);
  dt__ptx_no_unroll(m);
  LLVMValueRef first_col = LLVMBuildMul(m->b, tile, dt__emit_i64(m, p.tile->tile_cols), "");
  clear_sums(&p);
  (p.plan.groups ? multiply_twos : multiply_chunks)(&p, step, slot);
  dt__body_at(k, ROUND);
  dt__product_finish(&p, first_col, vectors);
  dt__loop_close(k, ROUND);
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
  dt__scope_close(k, PART);
  k->bases = bases;
  k->base_level = ITEM;
}

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
#include "backend_cuda/emit/chain.h"
#include "backend_cuda/emit/early.h"
#include "backend_cuda/emit/ptx.h"

#include <string.h>

#define ITEM DT_CHAIN_ITEM
#define PART DT_CHAIN_PART
#define ROUND DT_CHAIN_ROUND
#define BLOCK 16 // rows, columns and depth that one read of fragments covers
#define HALF 2   // bytes
#define UNIT 8   // halves of one copy
#define PAD 16   // bytes, after rows in shared memory
#define GROUP 4  // columns that a thread finishes at a time
#define MAX_GROUPS 32
#define TOGETHER 6     // groups of one row that are finished at once, where that is many
#define MOST_DEPTH 256 // of an A that is no slab

typedef struct product_t {
  dt_chain_item_t *t;
  dt_body_t *k;
  dt_emit_t *m;
  dt_matmul_plan_t plan;
  const dt_matmul_t *tile;
  int64_t depth;                  // 0: not known
  uint32_t n_groups, panel_pitch; // bytes; of A's copy
  uint32_t panel_at, sums_at;     // bytes in shared memory: A's copy; sums handed on
  LLVMValueRef shared;            // shared memory
  LLVMValueRef tid, lane, warp_row, warp_col, slice;        // i32
  LLVMValueRef extent_m, extent_n, extent_k, chunks, tiles; // i64
  LLVMValueRef from, by_var, by_k;                          // B's first unit of this thread; bytes
  LLVMValueRef own_var, own_k, to; // i32: where it stands in the chunk; byte of the ring
  LLVMValueRef a_at, a_pitch;      // shared memory: of this lane's row; i32, bytes
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS];
  LLVMValueRef group[TOGETHER][GROUP]; // being finished
  uint32_t first;                      // of them, where they are finished one by one
  bool early;                          // what is copied now comes before the wait for earlier work
} product_t;

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
  return plan->matmul->rows * plan->matmul->width / DT_WARP / GROUP;
}

static uint32_t b_bytes(const dt_matmul_plan_t *plan) {
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
  uint32_t bytes = b_bytes(plan) * plan->matmul->ring;
  if (!slab)
    bytes += panel_pitch_of(depth) * plan->matmul->tile_rows;
  return plan->slices > 1 ? bytes + plan->threads * groups * GROUP * 4 : bytes;
}

LLVMValueRef dt__chain_product_fits(dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  dt_matmul_plan_t plan;
  dt_status_t status = dt__matmul_plan(&m->program, k->kernel, k->schedule, m->strict_fp, &plan);
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

// ---- Small things ---------------------------------------------------------------------------------
static LLVMValueRef i32(product_t *p, uint32_t value) { return dt__emit_i32(p->m, value); }

static LLVMValueRef add(product_t *p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAdd(p->m->b, a, b, "");
}

static LLVMValueRef times(product_t *p, LLVMValueRef a, uint32_t by) {
  return LLVMBuildMul(p->m->b, a, i32(p, by), "");
}

static LLVMValueRef bit(product_t *p, LLVMValueRef value, uint32_t which) {
  LLVMValueRef low = LLVMBuildLShr(p->m->b, value, i32(p, which), "");
  return LLVMBuildAnd(p->m->b, low, i32(p, 1), "");
}

static LLVMValueRef below(product_t *p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(p->m->b, LLVMIntSLT, a, b, "");
}

static LLVMValueRef wide(product_t *p, LLVMValueRef value) {
  return LLVMBuildZExt(p->m->b, value, p->m->t_i64, "");
}

static LLVMValueRef narrow(product_t *p, LLVMValueRef value) {
  return LLVMBuildTrunc(p->m->b, value, p->m->t_i32, "");
}

static LLVMValueRef shared_at(product_t *p, LLVMValueRef base, LLVMValueRef byte, uint32_t plus) {
  LLVMValueRef at = plus ? add(p, byte, i32(p, plus)) : byte;
  return LLVMBuildGEP2(p->m->b, p->m->t_i8, base, &at, 1, "");
}

// What is left of `extent` from `first` on (i64), at most `most`: i32, less than 1 past the end.
static LLVMValueRef left_of(product_t *p, LLVMValueRef extent, LLVMValueRef first, uint32_t most) {
  LLVMValueRef left = LLVMBuildNSWSub(p->m->b, extent, first, "");
  LLVMValueRef all = dt__emit_i64(p->m, most);
  return narrow(p, LLVMBuildSelect(p->m->b, below(p, left, all), left, all, ""));
}

static LLVMValueRef lesser(product_t *p, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(p->m->b, below(p, a, b), a, b, "");
}

// Whether tiles of columns are all whole.
static bool whole_columns(product_t *p) {
  int64_t cols = 0;
  return dt__sym_is_const(p->m->env, p->plan.b.extent, &cols) &&
         cols % (int64_t)p->tile->tile_cols == 0;
}

// ---- Places ---------------------------------------------------------------------------------------
static bool open_product(product_t *p, dt_chain_item_t *t) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  *p = (product_t){.t = t, .k = k, .m = m};
  dt_status_t status = dt__matmul_plan(&m->program, k->kernel, k->schedule, m->strict_fp, &p->plan);
  if (status) {
    dt__emit_fail(m, status);
    return false;
  }
  p->tile = p->plan.matmul;
  p->n_groups = groups_of(&p->plan);
  p->panel_at = b_bytes(&p->plan) * p->tile->ring;
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
static void place_thread(product_t *p) {
  dt_emit_t *m = p->m;
  const dt_matmul_plan_t *plan = &p->plan;
  p->chunks = ceil_div(m, p->extent_k, p->tile->depth);
  p->tiles = ceil_div(m, p->extent_n, p->tile->tile_cols);
  p->tid = dt__ptx_thread(m);
  p->lane = LLVMBuildAnd(m->b, p->tid, i32(p, DT_WARP - 1), "");
  LLVMValueRef warp = LLVMBuildLShr(m->b, p->tid, i32(p, 5), "");
  if (plan->groups) { // four neighbours
    p->warp_row = LLVMBuildURem(m->b, warp, i32(p, plan->warps_m), "");
    p->warp_col = LLVMBuildUDiv(m->b, warp, i32(p, plan->warps_m), "");
    p->slice = i32(p, 0);
    return;
  }
  p->warp_col = LLVMBuildURem(m->b, warp, i32(p, plan->warps_n), "");
  warp = LLVMBuildUDiv(m->b, warp, i32(p, plan->warps_n), "");
  p->warp_row = LLVMBuildURem(m->b, warp, i32(p, plan->warps_m), "");
  p->slice = LLVMBuildUDiv(m->b, warp, i32(p, plan->warps_m), "");
}

// Bytes from one step of `var` to the next; a size, known to the whole kernel.
static LLVMValueRef stride_of(product_t *p, const dt_operand_t *o, dt_sym_t var) {
  dt_body_t *k = p->k;
  const dt_inst_t *load = &k->stage->insts.items[o->load];
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index), coef, rest;
  if (!dt__sym_linear(k->m->env, offset, var, &coef, &rest)) {
    dt__emit_fail(k->m, DT_FAIL(DT_E_INTERNAL, "chain: an operand is not linear"));
    return dt__emit_i64(k->m, 0);
  }
  LLVMValueRef stride = dt__index_scalar(k, coef);
  dt__body_at(k, 0);
  return LLVMBuildMul(k->m->b, stride, dt__emit_i64(k->m, HALF), "");
}

// The operand's element at `var` and `at_k` (i64), at ROUND.
static LLVMValueRef address_of(product_t *p, const dt_operand_t *o, LLVMValueRef var,
                               LLVMValueRef at_k) {
  dt_body_t *k = p->k;
  const dt_inst_t *load = &k->stage->insts.items[o->load];
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  dt__bind_symbol(k, o->var, ROUND, var);
  dt__bind_symbol(k, k->stage->vars[0], ROUND, at_k);
  LLVMValueRef at = dt__access_address(k, load->buffer, offset, ROUND).at[0];
  dt__body_at(k, ROUND);
  return at;
}

// A column's row in the ring.
static LLVMValueRef ring_row(product_t *p, LLVMValueRef col) {
  LLVMBuilderRef b = p->m->b;
  LLVMValueRef high = LLVMBuildAnd(b, col, i32(p, ~15U), "");
  LLVMValueRef pair = LLVMBuildAnd(b, LLVMBuildLShr(b, col, i32(p, 2), ""), i32(p, 3), "");
  LLVMValueRef row = add(p, add(p, times(p, bit(p, col, 1), 8), times(p, pair, 2)), bit(p, col, 0));
  return LLVMBuildOr(b, high, row, "");
}

// Of a panel's row, where there are panels.
static uint32_t units_in_row(const dt_operand_t *o) {
  return (o->panels ? DT_PANEL_BYTES / HALF : o->inner) / UNIT;
}

// The thread's first unit of B's first chunk, at PART. The scope is there to forget bindings.
static void place_units(product_t *p) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  p->by_k = stride_of(p, o, k->stage->vars[0]);
  p->by_var = stride_of(p, o, o->var);
  dt__body_at(k, PART);
  LLVMValueRef in_row = i32(p, units_in_row(o));
  LLVMValueRef inner = times(p, LLVMBuildURem(m->b, p->tid, in_row, ""), UNIT);
  LLVMValueRef outer = LLVMBuildUDiv(m->b, p->tid, in_row, "");
  p->own_var = o->along_k ? outer : inner;
  p->own_k = o->along_k ? inner : outer;
  LLVMValueRef row = o->along_k ? ring_row(p, outer) : outer;
  if (o->panels)
    p->to = dt__chain_group_unit(m, row, LLVMBuildURem(m->b, p->tid, in_row, ""));
  else
    p->to = add(p, times(p, row, o->pitch), times(p, inner, HALF));
  dt__scope_open(k, ROUND, NULL);
  p->from = address_of(p, o, wide(p, p->own_var), wide(p, p->own_k));
  dt__scope_close(k, ROUND);
}

// Where this lane reads A's fragments: of four matrices lane l hands in row l % 8 of the (l /
// 8)-th.
static void place_rows(product_t *p) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.a;
  LLVMValueRef base = NULL;
  if (o->copy == DT_COPY_NONE) {
    const dt_inst_t *load = &k->stage->insts.items[o->load];
    LLVMValueRef pitch = stride_of(p, o, o->var);
    dt__body_at(k, PART);
    LLVMTypeRef type = LLVMPointerTypeInContext(m->context, 3);
    LLVMValueRef above = LLVMBuildMul(m->b, p->t->first_row, pitch, "");
    base = dt__emit_offset(m, k->bases[load->buffer.id - 1], above);
    base = LLVMBuildAddrSpaceCast(m->b, base, type, "");
    p->a_pitch = narrow(p, pitch);
  } else {
    dt__body_at(k, PART);
    base = shared_at(p, p->shared, i32(p, p->panel_at), 0);
    p->a_pitch = i32(p, p->panel_pitch);
  }
  LLVMValueRef row = LLVMBuildAnd(m->b, p->lane, i32(p, 15), "");
  row = add(p, row, times(p, p->warp_row, p->tile->rows));
  LLVMValueRef deep = times(p, bit(p, p->lane, 4), 8);
  deep = add(p, deep, times(p, p->slice, p->tile->depth / p->plan.slices));
  LLVMValueRef at = add(p, LLVMBuildMul(m->b, row, p->a_pitch, ""), times(p, deep, HALF));
  p->a_at = shared_at(p, base, at, 0);
}

// ---- Copies ---------------------------------------------------------------------------------------
static void copy_unit(product_t *p, LLVMValueRef to, LLVMValueRef from, LLVMValueRef inside) {
  LLVMValueRef bytes = LLVMBuildSelect(p->m->b, inside, i32(p, 16), i32(p, 0), "");
  (p->early ? dt__cuda_copy_early : dt__ptx_copy)(p->m, to, from, bytes);
}

typedef struct chunk_t {
  LLVMValueRef cols, depth, to, from; // i32: what is left of them, and the ring's byte; address
  bool deep;                          // all of the depth is there, always
} chunk_t;

// The thread's unit in row `row` from its own on, `along` elements into it.
static void copy_one(product_t *p, const chunk_t *c, uint32_t row, uint32_t along) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  uint32_t cols = o->along_k ? row : along, deep = o->along_k ? along : row;
  uint32_t panel = along / units_in_row(o) / UNIT; // 0 where there are none
  LLVMValueRef yes = LLVMConstInt(m->t_i1, 1, 0);
  LLVMValueRef var = add(p, p->own_var, i32(p, cols)), at_k = add(p, p->own_k, i32(p, deep));
  LLVMValueRef inside = LLVMBuildAnd(m->b, whole_columns(p) ? yes : below(p, var, c->cols),
                                     c->deep ? yes : below(p, at_k, c->depth), "");
  LLVMValueRef shift = LLVMBuildMul(m->b, p->by_var, dt__emit_i64(m, cols), "");
  shift = LLVMBuildAdd(m->b, shift, LLVMBuildMul(m->b, p->by_k, dt__emit_i64(m, deep), ""), "");
  uint32_t plus = row * o->pitch + panel * o->outer * DT_PANEL_BYTES;
  copy_unit(p, shared_at(p, p->shared, c->to, plus), dt__emit_offset(m, c->from, shift), inside);
}

// All units of the chunk that this thread has, at the level at hand.
static void copy_chunk(product_t *p, LLVMValueRef tile, LLVMValueRef chunk, LLVMValueRef at) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  uint32_t rows = p->plan.threads / units_in_row(o), across = units_in_row(o) * UNIT;
  LLVMValueRef first_col = LLVMBuildMul(m->b, tile, dt__emit_i64(m, p->tile->tile_cols), "");
  LLVMValueRef first_k = wide(p, times(p, chunk, p->tile->depth));
  LLVMValueRef step = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, first_col, p->by_var, ""),
                                   LLVMBuildMul(m->b, first_k, p->by_k, ""), "");
  chunk_t c = {.cols = left_of(p, p->extent_n, first_col, p->tile->tile_cols),
               .depth = left_of(p, p->extent_k, first_k, p->tile->depth),
               .to = add(p, at, p->to),
               .from = dt__emit_offset(m, p->from, step),
               .deep = p->depth > 0 && p->depth % p->tile->depth == 0};
  for (uint32_t along = 0; along < o->inner; along += across)
    for (uint32_t row = 0; row < o->outer; row += rows)
      copy_one(p, &c, row, along);
}

// The next chunk, if there is one, into the ring's next place, at `level` with one for itself.
static void copy_next(product_t *p, LLVMValueRef step, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  dt_chain_item_t *t = p->t;
  dt__body_at(k, level);
  LLVMValueRef tile = LLVMBuildLoad2(m->b, m->t_i64, t->next_tile, "");
  LLVMValueRef chunk = LLVMBuildLoad2(m->b, m->t_i32, t->next_chunk, "");
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, t->next_at, "");
  dt__scope_open(k, level + 1, below(p, tile, p->tiles));
  copy_chunk(p, tile, chunk, at);
  dt__scope_close(k, level + 1);
  if (!p->early || p->plan.a.copy == DT_COPY_NONE)
    dt__ptx_copies_commit(m);
  LLVMValueRef next = add(p, chunk, i32(p, 1));
  LLVMValueRef more = below(p, wide(p, next), p->chunks);
  LLVMValueRef further = LLVMBuildNSWAdd(m->b, tile, step, "");
  LLVMBuildStore(m->b, LLVMBuildSelect(m->b, more, next, i32(p, 0), ""), t->next_chunk);
  LLVMBuildStore(m->b, LLVMBuildSelect(m->b, more, tile, further, ""), t->next_tile);
  uint32_t bytes = b_bytes(&p->plan);
  LLVMValueRef moved = add(p, at, i32(p, bytes));
  LLVMValueRef fits = below(p, moved, i32(p, bytes * p->tile->ring));
  LLVMBuildStore(m->b, LLVMBuildSelect(m->b, fits, moved, i32(p, 0), ""), t->next_at);
}

// The item's rows of A, zeros where the matrix ends, at PART.
static void copy_rows(product_t *p) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.a;
  uint32_t in_row = (p->panel_pitch - PAD) / HALF / UNIT, all = in_row * p->tile->tile_rows;
  LLVMValueRef by_k = stride_of(p, o, k->stage->vars[0]);
  dt__body_at(k, PART);
  LLVMValueRef rows = left_of(p, p->extent_m, p->t->first_row, p->tile->tile_rows);
  LLVMValueRef depth = narrow(p, p->extent_k);
  LLVMValueRef unit =
      dt__loop_open(k, ROUND, wide(p, p->tid), dt__emit_i64(m, all), p->plan.threads);
  unit = narrow(p, unit);
  LLVMValueRef row = LLVMBuildUDiv(m->b, unit, i32(p, in_row), "");
  LLVMValueRef deep = times(p, LLVMBuildURem(m->b, unit, i32(p, in_row), ""), UNIT);
  LLVMValueRef inside = LLVMBuildAnd(m->b, below(p, row, rows), below(p, deep, depth), "");
  LLVMValueRef place = LLVMBuildNSWAdd(m->b, p->t->first_row, wide(p, row), "");
  LLVMValueRef from = address_of(p, o, place, dt__emit_i64(m, 0));
  from = dt__emit_offset(m, from, LLVMBuildMul(m->b, wide(p, deep), by_k, ""));
  LLVMValueRef to = add(p, times(p, row, p->panel_pitch), times(p, deep, HALF));
  copy_unit(p, shared_at(p, p->shared, to, p->panel_at), from, inside);
  dt__loop_close(k, ROUND);
}

// Chunks whose copies are under way while one is multiplied; by groups the one before it still may
// be, too.
static uint32_t ahead_of(const product_t *p) { return p->tile->ring - 1 - p->plan.groups; }

static void copy_first_chunks(product_t *p, LLVMValueRef step) {
  for (uint32_t i = 0; i < ahead_of(p); i++)
    copy_next(p, step, PART);
}

// A's rows are in the first group. Where B is constant, and earlier work has still to be waited
// for, B's chunks go first, and are in that group, too.
static void begin_copies(product_t *p, LLVMValueRef from, LLVMValueRef step) {
  dt_chain_item_t *t = p->t;
  dt_emit_t *m = p->m;
  const dt_inst_t *load = &p->k->stage->insts.items[p->plan.b.load];
  bool panel = p->plan.a.copy != DT_COPY_NONE;
  p->early = t->waits && dt__cuda_is_settled(p->k, load->buffer);
  bool late = !p->early;
  LLVMBuildStore(m->b, from, t->next_tile);
  LLVMBuildStore(m->b, i32(p, 0), t->next_chunk);
  LLVMBuildStore(m->b, i32(p, 0), t->next_at);
  if (p->early)
    copy_first_chunks(p, step);
  p->early = false;
  dt__body_at(p->k, PART);
  if (late || panel)
    dt__chain_wait(t);
  if (panel)
    copy_rows(p);
  dt__body_at(p->k, PART);
  if (late)
    copy_first_chunks(p, step);
  for (uint32_t i = 0; panel && !late && i < ahead_of(p); i++)
    dt__ptx_copies_commit(m);
}

void dt__chain_product_begin(dt_chain_item_t *t, LLVMValueRef wanted, LLVMValueRef from,
                             LLVMValueRef step) {
  product_t p;
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
  place_units(&p);
  begin_copies(&p, from, step);
  dt__scope_close(k, PART);
}

// ---- Multiplication -------------------------------------------------------------------------------
// Where this lane reads B's fragments of the warp's first 16 columns, byte of a place of the ring.
static LLVMValueRef b_place(product_t *p) {
  const dt_operand_t *o = &p->plan.b;
  LLVMValueRef row = LLVMBuildAnd(p->m->b, p->lane, i32(p, 7), "");
  LLVMValueRef along = times(p, bit(p, p->lane, 4), 8), deep = times(p, bit(p, p->lane, 3), 8);
  if (o->along_k)
    along = add(p, along, row);
  else
    deep = add(p, deep, row);
  along = add(p, along, times(p, p->warp_col, p->tile->width));
  deep = add(p, deep, times(p, p->slice, p->tile->depth / p->plan.slices));
  LLVMValueRef inner = o->along_k ? deep : along, outer = o->along_k ? along : deep;
  return add(p, times(p, outer, o->pitch), times(p, inner, HALF));
}

static void multiply(product_t *p, LLVMValueRef chunk, LLVMValueRef at) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  uint32_t rows = p->tile->rows / BLOCK, cols = p->tile->width / BLOCK, n = p->n_groups * GROUP;
  LLVMTypeRef type = m->t_f32;
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS], a[4][4], b[4];
  for (uint32_t i = 0; i < n; i++)
    sums[i] = LLVMBuildLoad2(m->b, type, p->sums[i], "");
  LLVMValueRef a_at = times(p, chunk, p->tile->depth * HALF), b_at = add(p, at, b_place(p));
  for (uint32_t deep = 0; deep < p->tile->depth / p->plan.slices / BLOCK; deep++) {
    for (uint32_t i = 0; i < rows; i++) {
      LLVMValueRef row = add(p, a_at, times(p, p->a_pitch, i * BLOCK));
      dt__ptx_matrices(m, shared_at(p, p->a_at, row, deep * BLOCK * HALF), false, a[i]);
    }
    for (uint32_t j = 0; j < cols; j++) {
      uint32_t inner = BLOCK * (o->along_k ? deep : j), outer = BLOCK * (o->along_k ? j : deep);
      dt__ptx_matrices(m, shared_at(p, p->shared, b_at, outer * o->pitch + inner * HALF),
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

// ---- What follows ---------------------------------------------------------------------------------
static LLVMValueRef exchange(product_t *p, LLVMValueRef value) {
  uint32_t team = p->k->team;
  p->k->team = DT_WARP;
  value = p->m->device->exchange(p->k, value, 1);
  p->k->team = team;
  return value;
}

// Four neighbours of one row: of 16 rows number i, the upper or lower 8, of 16 columns number j.
static void take_group(product_t *p, uint32_t i, uint32_t low, uint32_t j,
                       LLVMValueRef out[GROUP]) {
  dt_emit_t *m = p->m;
  uint32_t cols = p->tile->width / BLOCK;
  LLVMValueRef v[2][2];
  for (uint32_t half = 0; half < 2; half++)
    for (uint32_t e = 0; e < 2; e++)
      v[half][e] = LLVMBuildLoad2(m->b, m->t_f32,
                                  p->sums[((i * cols + j) * 2 + half) * 4 + low * 2 + e], "");
  LLVMValueRef odd = LLVMBuildICmp(m->b, LLVMIntNE, bit(p, p->lane, 0), i32(p, 0), "");
  for (uint32_t e = 0; e < 2; e++) {
    if (p->plan.b.along_k) {
      out[e] = v[0][e];
      out[2 + e] = v[1][e];
      continue;
    }
    LLVMValueRef got = exchange(p, LLVMBuildSelect(m->b, odd, v[0][e], v[1][e], ""));
    out[e] = LLVMBuildSelect(m->b, odd, got, v[0][e], "");
    out[2 + e] = LLVMBuildSelect(m->b, odd, v[1][e], got, "");
  }
}

// Which four columns of 16 the thread has, in fours.
static LLVMValueRef own_group(product_t *p) {
  LLVMValueRef low = bit(p, p->lane, 0), high = bit(p, p->lane, 1);
  return p->plan.b.along_k ? add(p, low, times(p, high, 2)) : add(p, times(p, low, 2), high);
}

static void load_group(dt_body_t *k, void *user) {
  product_t *p = user;
  dt_emit_t *m = k->m;
  dt_lanes_t *row = &k->rows[k->kernel->stages.items[0].folds.items[0].row];
  dt__body_at(k, k->lane_level);
  row->varying = true;
  for (uint32_t c = 0; c < k->copies; c++) {
    row->v[c] = LLVMGetPoison(LLVMVectorType(m->t_f32, k->lanes));
    for (uint32_t i = 0; i < k->lanes; i++)
      row->v[c] = LLVMBuildInsertElement(m->b, row->v[c], p->group[c][p->first + i], i32(p, i), "");
  }
}

// The later stages on p->group, by vectors or one by one; `four`: number of the four columns in the
// tile (i32), `live`: there is such a row (i1). At `level`, where the row is bound, with the next
// one for itself. What is outside of the matrix is computed at its edge, and not stored.
static void finish_group(product_t *p, LLVMValueRef first_col, LLVMValueRef four, LLVMValueRef live,
                         uint32_t lanes, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  uint32_t stages = k->kernel->stages.len;
  for (p->first = 0; p->first < GROUP; p->first += lanes) {
    dt__body_at(k, level);
    LLVMValueRef shift = add(p, times(p, four, GROUP), i32(p, p->first));
    LLVMValueRef at = LLVMBuildNSWAdd(m->b, first_col, wide(p, shift), "");
    k->live = live;
    if (!whole_columns(p)) {
      LLVMValueRef last = LLVMBuildNSWSub(m->b, p->extent_n, dt__emit_i64(m, lanes), "");
      k->live = LLVMBuildAnd(m->b, live, below(p, at, p->extent_n), "");
      at = lesser(p, at, last);
    }
    k->lanes = lanes;
    k->aligned = lanes > 1;
    k->item_level = level;
    dt__outer_vector(k, at, 1, 1, stages, load_group, p);
    k->live = NULL;
  }
  p->first = 0;
  k->outer_lanes = k->axis = false;
}

// Enters `level` for the tile's row number `row` (i32), or the matrix' last one; whether it is
// that.
static LLVMValueRef enter_row(product_t *p, LLVMValueRef row, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  dt__level_enter(k, level);
  LLVMValueRef at = LLVMBuildNSWAdd(m->b, p->t->first_row, wide(p, row), "");
  LLVMValueRef last = LLVMBuildNSWSub(m->b, p->extent_m, dt__emit_i64(m, 1), "");
  LLVMValueRef live = below(p, at, p->extent_m);
  dt__bind_symbol(k, p->plan.a.var, level, lesser(p, at, last));
  return live;
}

static LLVMValueRef first_row_of(product_t *p) {
  LLVMValueRef row = LLVMBuildLShr(p->m->b, p->lane, i32(p, 2), "");
  return add(p, row, times(p, p->warp_row, p->tile->rows));
}

// Which four columns of the tile the thread has of the warp's block number j, in fours.
static LLVMValueRef own_four(product_t *p, uint32_t j) {
  LLVMValueRef four = times(p, p->warp_col, p->tile->width / GROUP);
  return add(p, add(p, four, own_group(p)), i32(p, j * BLOCK / GROUP));
}

// Groups j … j + n - 1 of one row at once, where all columns exist: what follows reads for all of
// them before it stores the first.
static void finish_groups(product_t *p, LLVMValueRef first_col, uint32_t j, uint32_t n,
                          LLVMValueRef live, uint32_t level) {
  dt_body_t *k = p->k;
  uint32_t team = k->team;
  dt__body_at(k, level);
  LLVMValueRef at = wide(p, times(p, own_four(p, j), GROUP));
  k->team = BLOCK / GROUP; // threads that have a row's neighbours
  k->live = live;
  k->lanes = GROUP;
  k->aligned = true;
  k->item_level = level;
  dt__outer_vector(k, LLVMBuildNSWAdd(p->m->b, first_col, at, ""), n, 1, k->kernel->stages.len,
                   load_group, p);
  k->live = NULL;
  k->team = team;
  k->outer_lanes = k->axis = false;
}

// As many of a row's groups as are finished at once; they divide it.
static uint32_t together(product_t *p, uint32_t lanes) {
  uint32_t cols = p->tile->width / BLOCK, n = TOGETHER;
  if (!p->plan.groups || lanes != GROUP || !whole_columns(p))
    return 1;
  while (cols % n)
    n--;
  return n;
}

// The thread's groups j … j + n - 1 of its rows' number r.
static void finish_part(product_t *p, LLVMValueRef first_col, uint32_t r, uint32_t j, uint32_t n,
                        uint32_t lanes, uint32_t level) {
  dt_body_t *k = p->k;
  dt__body_at(k, level);
  for (uint32_t i = 0; i < n; i++)
    take_group(p, r / 2, r % 2, j + i, p->group[i]);
  LLVMValueRef live = enter_row(p, add(p, first_row_of(p), i32(p, r * 8)), level + 1);
  dt__body_at(k, level + 1);
  if (n > 1)
    finish_groups(p, first_col, j, n, live, level + 1);
  else
    finish_group(p, first_col, own_four(p, j), live, lanes, level + 1);
  dt__level_leave(k, level + 1);
}

// Every warp has all of the sums that it made.
static void finish_own(product_t *p, LLVMValueRef first_col, uint32_t lanes, uint32_t level) {
  uint32_t cols = p->tile->width / BLOCK, n = together(p, lanes);
  for (uint32_t r = 0; r < p->tile->rows / 8; r++)
    for (uint32_t j = 0; j < cols; j += n)
      finish_part(p, first_col, r, j, n, lanes, level);
}

// Byte of the sums of this lane's group 0 as the warp of that slice handed them on.
static LLVMValueRef handed(product_t *p, LLVMValueRef slice) {
  uint32_t bytes = DT_WARP * GROUP * 4;
  LLVMValueRef warp = add(p, times(p, slice, p->plan.warps_m), p->warp_row);
  warp = add(p, times(p, warp, p->plan.warps_n), p->warp_col);
  LLVMValueRef at = add(p, times(p, warp, bytes * p->n_groups), times(p, p->lane, GROUP * 4));
  return add(p, at, i32(p, p->sums_at));
}

static void hand_on(product_t *p, uint32_t level) {
  dt_emit_t *m = p->m;
  uint32_t cols = p->tile->width / BLOCK;
  dt__body_at(p->k, level);
  LLVMValueRef at = handed(p, p->slice);
  for (uint32_t g = 0; g < p->n_groups; g++) {
    LLVMValueRef v[GROUP], all = LLVMGetPoison(LLVMVectorType(m->t_f32, GROUP));
    take_group(p, g / cols / 2, g / cols % 2, g % cols, v);
    for (uint32_t i = 0; i < GROUP; i++)
      all = LLVMBuildInsertElement(m->b, all, v[i], i32(p, i), "");
    dt__emit_store_at(m, DT_F32, all, shared_at(p, p->shared, at, g * DT_WARP * GROUP * 4), 16);
  }
  dt__cuda_block_sync(m);
}

// Warps that share the depth take turns at the groups.
static void finish_shared(product_t *p, LLVMValueRef first_col, uint32_t lanes, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  uint32_t cols = p->tile->width / BLOCK;
  dt__body_at(k, level);
  LLVMValueRef group =
      dt__loop_open(k, level + 1, wide(p, p->slice), dt__emit_i64(m, p->n_groups), p->plan.slices);
  group = narrow(p, group);
  LLVMValueRef sum = NULL;
  for (uint32_t s = 0; s < p->plan.slices; s++) {
    LLVMValueRef at = add(p, handed(p, i32(p, s)), times(p, group, DT_WARP * GROUP * 4));
    LLVMValueRef part =
        dt__emit_load_at(m, DT_F32, GROUP, shared_at(p, p->shared, at, 0), 16, false);
    sum = sum ? LLVMBuildFAdd(m->b, sum, part, "") : part;
  }
  for (uint32_t i = 0; i < GROUP; i++)
    p->group[0][i] = LLVMBuildExtractElement(m->b, sum, i32(p, i), "");
  LLVMValueRef eighth = LLVMBuildUDiv(m->b, group, i32(p, cols), "");
  LLVMValueRef j = LLVMBuildURem(m->b, group, i32(p, cols), "");
  LLVMValueRef four = add(p, times(p, p->warp_col, p->tile->width / GROUP), own_group(p));
  four = add(p, four, times(p, j, BLOCK / GROUP));
  LLVMValueRef live = enter_row(p, add(p, first_row_of(p), times(p, eighth, 8)), level + 2);
  finish_group(p, first_col, four, live, lanes, level + 2);
  dt__level_leave(k, level + 2);
  dt__loop_close(k, level + 1);
}

static void finish(product_t *p, LLVMValueRef first_col, LLVMValueRef vectors) {
  dt_body_t *k = p->k;
  void (*own)(product_t *, LLVMValueRef, uint32_t, uint32_t) =
      p->plan.slices > 1 ? finish_shared : finish_own;
  if (p->plan.slices > 1)
    hand_on(p, ROUND);
  int64_t cols = 0;
  bool whole = dt__sym_is_const(p->m->env, p->plan.b.extent, &cols) && cols % GROUP == 0;
  if (vectors) {
    dt__scope_open(k, ROUND + 1, whole ? NULL : vectors);
    own(p, first_col, GROUP, ROUND + 1);
    dt__scope_close(k, ROUND + 1);
  }
  if (whole)
    return;
  dt__body_at(k, ROUND);
  dt__scope_open(k, ROUND + 1, vectors ? LLVMBuildNot(p->m->b, vectors, "") : NULL);
  own(p, first_col, 1, ROUND + 1);
  dt__scope_close(k, ROUND + 1);
}

static void clear_sums(product_t *p) {
  dt_emit_t *m = p->m;
  for (uint32_t i = 0; i < p->n_groups * GROUP; i++) {
    if (!p->sums[i])
      p->sums[i] = dt__body_slot(p->k, m->t_f32, 1);
    LLVMBuildStore(m->b, LLVMConstNull(m->t_f32), p->sums[i]);
  }
}

static void next_place(product_t *p, LLVMValueRef slot) {
  uint32_t bytes = b_bytes(&p->plan);
  LLVMValueRef at = LLVMBuildLoad2(p->m->b, p->m->t_i32, slot, "");
  LLVMValueRef next = add(p, at, i32(p, bytes));
  LLVMValueRef fits = below(p, next, i32(p, bytes * p->tile->ring));
  LLVMBuildStore(p->m->b, LLVMBuildSelect(p->m->b, fits, next, i32(p, 0), ""), slot);
}

static dt_chain_group_t group_of(product_t *p) {
  return (dt_chain_group_t){.plan = &p->plan, .sums = p->sums, .n_sums = p->n_groups * GROUP};
}

// One chunk by groups, at `level`.
static void multiply_chunk(product_t *p, LLVMValueRef chunk, LLVMValueRef step, LLVMValueRef slot,
                           uint32_t behind, uint32_t level) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  dt_chain_group_t g = group_of(p);
  dt__ptx_copies_wait(m, ahead_of(p) - 1);
  dt__ptx_fence_async(m);
  dt__cuda_block_sync(m);
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, slot, "");
  uint32_t width = p->tile->width;
  uint32_t bytes = o->along_k ? width * DT_PANEL_BYTES : width * HALF * o->outer;
  g.b = shared_at(p, p->shared, add(p, at, times(p, p->warp_col, bytes)), 0);
  g.a = shared_at(p, p->a_at, times(p, narrow(p, chunk), p->tile->depth * HALF), 0);
  dt__chain_group_begin(m, &g);
  copy_next(p, step, level);
  next_place(p, slot);
  dt__chain_group_end(m, &g, behind);
}

// 0: not known.
static uint32_t known_chunks(const product_t *p) {
  return (uint32_t)((p->depth + p->tile->depth - 1) / p->tile->depth);
}

// By groups, in twos: registers of A that one chunk is multiplied from are not the next one's.
static void multiply_twos(product_t *p, LLVMValueRef step, LLVMValueRef slot) {
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
static void multiply_chunks(product_t *p, LLVMValueRef step, LLVMValueRef slot) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  uint32_t level = ROUND + 1;
  LLVMValueRef chunk = dt__loop_open(k, level, dt__emit_i64(m, 0), p->chunks, 1);
  dt__ptx_no_unroll(m);
  dt__ptx_copies_wait(m, p->tile->ring - 2);
  dt__cuda_block_sync(m);
  copy_next(p, step, level);
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, slot, "");
  multiply(p, narrow(p, chunk), at);
  next_place(p, slot);
  dt__loop_close(k, level);
}

void dt__chain_product(dt_chain_item_t *t, LLVMValueRef wanted, LLVMValueRef from,
                       LLVMValueRef step) {
  product_t p;
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
  place_units(&p);
  place_rows(&p);
  LLVMValueRef slot = dt__body_slot(k, m->t_i32, 1);
  LLVMBuildStore(m->b, i32(&p, 0), slot);
  LLVMValueRef tile = dt__loop_open_by(k, ROUND, from, p.tiles, step);
  dt__ptx_no_unroll(m);
  LLVMValueRef first_col = LLVMBuildMul(m->b, tile, dt__emit_i64(m, p.tile->tile_cols), "");
  clear_sums(&p);
  (p.plan.groups ? multiply_twos : multiply_chunks)(&p, step, slot);
  dt__body_at(k, ROUND);
  finish(&p, first_col, vectors);
  dt__loop_close(k, ROUND);
  dt__ptx_copies_wait(m, 0);
  dt__cuda_block_sync(m);
  dt__scope_close(k, PART);
  k->bases = bases;
  k->base_level = ITEM;
}

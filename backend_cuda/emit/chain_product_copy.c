// SPDX-License-Identifier: Apache-2.0
// The copies of a chain's products: B's chunks into the ring, and A's rows where that is no slab.
#include "backend_cuda/emit/chain_product.h"
#include "backend_cuda/emit/early.h"
#include "backend_cuda/emit/ptx.h"
#include "backend_llvm/emit/index.h"

// What is left of `extent` from `first` on (i64), at most `most`: i32, less than 1 past the end.
static LLVMValueRef left_of(dt_product_t *p, LLVMValueRef extent, LLVMValueRef first,
                            uint32_t most) {
  dt_emit_t *m = p->m;
  LLVMValueRef left = LLVMBuildNSWSub(m->b, extent, first, "");
  LLVMValueRef all = dt__emit_i64(m, most);
  return narrow(m, LLVMBuildSelect(m->b, below(m, left, all), left, all, ""));
}

// The operand's element at `var` and `at_k` (i64), at ROUND.
static LLVMValueRef address_of(dt_product_t *p, const dt_operand_t *o, LLVMValueRef var,
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
static LLVMValueRef ring_row(dt_emit_t *m, LLVMValueRef col) {
  LLVMValueRef high = low_bits(m, col, ~15U), pair = low_bits(m, down(m, col, 2), 3);
  LLVMValueRef row = add(m, add(m, times(m, bit(m, col, 1), 8), times(m, pair, 2)), bit(m, col, 0));
  return LLVMBuildOr(m->b, high, row, "");
}

// Of a panel's row, where there are panels.
static uint32_t units_in_row(const dt_operand_t *o) {
  return (o->panels ? DT_PANEL_BYTES / HALF : o->inner) / UNIT;
}

// The thread's first unit of B's first chunk, at PART. The scope is there to forget bindings.
void dt__product_place_units(dt_product_t *p) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  p->by_k = dt__chain_stride(k, &k->stage->insts.items[o->load], k->stage->vars[0]);
  p->by_var = dt__chain_stride(k, &k->stage->insts.items[o->load], o->var);
  dt__body_at(k, PART);
  LLVMValueRef in_row = i32(m, units_in_row(o));
  LLVMValueRef inner = times(m, LLVMBuildURem(m->b, p->tid, in_row, ""), UNIT);
  LLVMValueRef outer = LLVMBuildUDiv(m->b, p->tid, in_row, "");
  p->own_var = o->along_k ? outer : inner;
  p->own_k = o->along_k ? inner : outer;
  LLVMValueRef row = o->along_k ? ring_row(m, outer) : outer;
  if (o->panels)
    p->to = dt__chain_group_unit(m, row, LLVMBuildURem(m->b, p->tid, in_row, ""));
  else
    p->to = add(m, times(m, row, o->pitch), times(m, inner, HALF));
  dt__scope_open(k, ROUND, NULL);
  p->from = address_of(p, o, wide(m, p->own_var), wide(m, p->own_k));
  dt__scope_close(k, ROUND);
}

// ---- Chunks ---------------------------------------------------------------------------------------
static void copy_unit(dt_product_t *p, LLVMValueRef to, LLVMValueRef from, LLVMValueRef inside) {
  dt_emit_t *m = p->m;
  LLVMValueRef bytes = LLVMBuildSelect(m->b, inside, i32(m, 16), i32(m, 0), "");
  (p->early ? dt__cuda_copy_early : dt__ptx_copy)(m, to, from, bytes);
}

typedef struct chunk_t {
  LLVMValueRef cols, depth, to, from; // i32: what is left of them, and the ring's byte; address
  bool deep;                          // all of the depth is there, always
} chunk_t;

// The thread's unit in row `row` from its own on, `along` elements into it.
static void copy_one(dt_product_t *p, const chunk_t *c, uint32_t row, uint32_t along) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  uint32_t cols = o->along_k ? row : along, deep = o->along_k ? along : row;
  uint32_t panel = along / units_in_row(o) / UNIT; // 0 where there are none
  LLVMValueRef yes = LLVMConstInt(m->t_i1, 1, 0);
  LLVMValueRef var = add(m, p->own_var, i32(m, cols)), at_k = add(m, p->own_k, i32(m, deep));
  LLVMValueRef inside =
      LLVMBuildAnd(m->b, dt__product_whole_columns(p) ? yes : below(m, var, c->cols),
                   c->deep ? yes : below(m, at_k, c->depth), "");
  LLVMValueRef shift = LLVMBuildMul(m->b, p->by_var, dt__emit_i64(m, cols), "");
  shift = LLVMBuildAdd(m->b, shift, LLVMBuildMul(m->b, p->by_k, dt__emit_i64(m, deep), ""), "");
  uint32_t plus = row * o->pitch + panel * o->outer * DT_PANEL_BYTES;
  copy_unit(p, shared_at(m, p->shared, c->to, plus), dt__emit_offset(m, c->from, shift), inside);
}

// All units of the chunk that this thread has, at the level at hand.
static void copy_chunk(dt_product_t *p, LLVMValueRef tile, LLVMValueRef chunk, LLVMValueRef at) {
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.b;
  uint32_t rows = p->plan.threads / units_in_row(o), across = units_in_row(o) * UNIT;
  LLVMValueRef first_col = LLVMBuildMul(m->b, tile, dt__emit_i64(m, p->tile->tile_cols), "");
  LLVMValueRef first_k = wide(m, times(m, chunk, p->tile->depth));
  LLVMValueRef step = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, first_col, p->by_var, ""),
                                   LLVMBuildMul(m->b, first_k, p->by_k, ""), "");
  chunk_t c = {.cols = left_of(p, p->extent_n, first_col, p->tile->tile_cols),
               .depth = left_of(p, p->extent_k, first_k, p->tile->depth),
               .to = add(m, at, p->to),
               .from = dt__emit_offset(m, p->from, step),
               .deep = p->depth > 0 && p->depth % p->tile->depth == 0};
  for (uint32_t along = 0; along < o->inner; along += across)
    for (uint32_t row = 0; row < o->outer; row += rows)
      copy_one(p, &c, row, along);
}

// The next chunk, if there is one, into the ring's next place, at `level` with one for itself.
void dt__product_copy_next(dt_product_t *p, LLVMValueRef step, uint32_t level) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  dt_chain_item_t *t = p->t;
  dt__body_at(k, level);
  LLVMValueRef tile = LLVMBuildLoad2(m->b, m->t_i64, t->next_tile, "");
  LLVMValueRef chunk = LLVMBuildLoad2(m->b, m->t_i32, t->next_chunk, "");
  LLVMValueRef at = LLVMBuildLoad2(m->b, m->t_i32, t->next_at, "");
  dt__scope_open(k, level + 1, below(m, tile, p->tiles));
  copy_chunk(p, tile, chunk, at);
  dt__scope_close(k, level + 1);
  if (!p->early || p->plan.a.copy == DT_COPY_NONE)
    dt__ptx_copies_commit(m);
  LLVMValueRef next = add(m, chunk, i32(m, 1));
  LLVMValueRef more = below(m, wide(m, next), p->chunks);
  LLVMValueRef further = LLVMBuildNSWAdd(m->b, tile, step, "");
  LLVMBuildStore(m->b, LLVMBuildSelect(m->b, more, next, i32(m, 0), ""), t->next_chunk);
  LLVMBuildStore(m->b, LLVMBuildSelect(m->b, more, tile, further, ""), t->next_tile);
  uint32_t bytes = dt__product_b_bytes(&p->plan);
  LLVMValueRef moved = add(m, at, i32(m, bytes));
  LLVMValueRef fits = below(m, moved, i32(m, bytes * p->tile->ring));
  LLVMBuildStore(m->b, LLVMBuildSelect(m->b, fits, moved, i32(m, 0), ""), t->next_at);
}

// The item's rows of A, zeros where the matrix ends, at PART.
static void copy_rows(dt_product_t *p) {
  dt_body_t *k = p->k;
  dt_emit_t *m = p->m;
  const dt_operand_t *o = &p->plan.a;
  uint32_t in_row = (p->panel_pitch - PAD) / HALF / UNIT, all = in_row * p->tile->tile_rows;
  LLVMValueRef by_k = dt__chain_stride(k, &k->stage->insts.items[o->load], k->stage->vars[0]);
  dt__body_at(k, PART);
  LLVMValueRef rows = left_of(p, p->extent_m, p->t->first_row, p->tile->tile_rows);
  LLVMValueRef depth = narrow(m, p->extent_k);
  LLVMValueRef unit =
      dt__loop_open(k, ROUND, wide(m, p->tid), dt__emit_i64(m, all), p->plan.threads);
  unit = narrow(m, unit);
  LLVMValueRef row = LLVMBuildUDiv(m->b, unit, i32(m, in_row), "");
  LLVMValueRef deep = times(m, LLVMBuildURem(m->b, unit, i32(m, in_row), ""), UNIT);
  LLVMValueRef inside = LLVMBuildAnd(m->b, below(m, row, rows), below(m, deep, depth), "");
  LLVMValueRef place = LLVMBuildNSWAdd(m->b, p->t->first_row, wide(m, row), "");
  LLVMValueRef from = address_of(p, o, place, dt__emit_i64(m, 0));
  from = dt__emit_offset(m, from, LLVMBuildMul(m->b, wide(m, deep), by_k, ""));
  LLVMValueRef to = add(m, times(m, row, p->panel_pitch), times(m, deep, HALF));
  copy_unit(p, shared_at(m, p->shared, to, p->panel_at), from, inside);
  dt__loop_close(k, ROUND);
}

static void copy_first_chunks(dt_product_t *p, LLVMValueRef step) {
  for (uint32_t i = 0; i < ahead_of(p); i++)
    dt__product_copy_next(p, step, PART);
}

// A's rows are in the first group. Where B is constant, and earlier work has still to be waited
// for, B's chunks go first, and are in that group, too.
void dt__product_copy_begin(dt_product_t *p, LLVMValueRef from, LLVMValueRef step) {
  dt_chain_item_t *t = p->t;
  dt_emit_t *m = p->m;
  const dt_inst_t *load = &p->k->stage->insts.items[p->plan.b.load];
  bool panel = p->plan.a.copy != DT_COPY_NONE;
  p->early = t->waits && dt__cuda_is_settled(p->k, load->buffer);
  bool late = !p->early;
  LLVMBuildStore(m->b, from, t->next_tile);
  LLVMBuildStore(m->b, i32(m, 0), t->next_chunk);
  LLVMBuildStore(m->b, i32(m, 0), t->next_at);
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

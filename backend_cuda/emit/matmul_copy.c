// SPDX-License-Identifier: Apache-2.0
// Tiles of the operands from global to shared memory. Threads take neighbouring places of the loop
// that lies innermost, so that a warp reads whole lines. What is outside of the matrix is zero:
// nothing is read there.
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"

// One copy by each thread: so many elements from element (outer, inner) of the tile on.
typedef struct piece_t {
  dt_tile_t *t;
  const dt_operand_t *o;
  LLVMValueRef inner, outer; // i32
  LLVMValueRef inside;       // i1
  LLVMValueRef to;           // byte of shared memory, i32
  LLVMValueRef var, k;       // i64: positions in the matrix
} piece_t;

static uint32_t log2_of(uint32_t n) {
  uint32_t log = 0;
  while (n >>= 1)
    log++;
  return log;
}

static LLVMValueRef below(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(m->b, LLVMIntSLT, a, b, "");
}

static LLVMValueRef extent_of(piece_t *p) {
  dt_body_t *k = p->t->k;
  LLVMValueRef extent = dt__index_scalar(k, p->o->extent);
  dt__body_at(k, 4);
  return extent;
}

// Where the piece stands in the matrix; `at` is the ring's place, `number` the piece's.
static void place_piece(piece_t *p, uint32_t number, uint32_t elements, LLVMValueRef first_k,
                        LLVMValueRef at) {
  dt_tile_t *t = p->t;
  dt_emit_t *m = t->k->m;
  const dt_operand_t *o = p->o;
  uint32_t in_row = o->inner / elements, rows = t->plan.threads / in_row;
  LLVMValueRef low = LLVMBuildAnd(m->b, t->tid, dt__emit_i32(m, in_row - 1), "");
  LLVMValueRef high = LLVMBuildLShr(m->b, t->tid, dt__emit_i32(m, log2_of(in_row)), "");
  p->inner = dt__matmul_step(t, low, elements, 0);
  p->outer = dt__matmul_step(t, high, 1, number * rows);
  uint32_t element = (uint32_t)dt_dtype_size(o->dtype);
  LLVMValueRef in_tile = LLVMBuildAdd(m->b, dt__matmul_step(t, p->outer, o->pitch, o->offset),
                                      dt__matmul_step(t, p->inner, element, 0), "");
  p->to = LLVMBuildAdd(m->b, at, in_tile, "");
  LLVMValueRef inner = LLVMBuildZExt(m->b, p->inner, m->t_i64, "");
  LLVMValueRef outer = LLVMBuildZExt(m->b, p->outer, m->t_i64, "");
  LLVMValueRef first = o == &t->plan.a ? t->first_row : t->first_col;
  p->var = LLVMBuildNSWAdd(m->b, first, o->along_k ? outer : inner, "");
  p->k = LLVMBuildNSWAdd(m->b, first_k, o->along_k ? inner : outer, "");
  LLVMValueRef extent = extent_of(p);
  p->inside = LLVMBuildAnd(m->b, below(m, p->var, extent), below(m, p->k, t->extent_k), "");
}

// The stage's instructions at the piece's position.
static void enter_piece(piece_t *p, LLVMValueRef var, LLVMValueRef at_k) {
  dt_body_t *k = p->t->k;
  k->stage_level = 3;
  dt__bind_symbol(k, p->o->var, 4, var);
  dt_status_t status = dt__stage_enter(k, 0);
  if (status)
    dt__emit_fail(k->m, status);
  dt__bind_symbol(k, k->stage->vars[0], 4, at_k);
}

static void copy_units(piece_t *p) {
  dt_body_t *k = p->t->k;
  dt_emit_t *m = k->m;
  enter_piece(p, p->var, p->k);
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, 4).at[0];
  dt__body_at(k, 4);
  LLVMValueRef bytes =
      LLVMBuildSelect(m->b, p->inside, dt__emit_i32(m, 16), dt__emit_i32(m, 0), "");
  from = LLVMBuildSelect(m->b, p->inside, from, k->bases[load->buffer.id - 1], "");
  dt__ptx_copy(m, dt__matmul_shared(p->t, p->to, 0), from, bytes);
}

static LLVMValueRef last_at_most(piece_t *p, LLVMValueRef at, LLVMValueRef extent) {
  dt_emit_t *m = p->t->k->m;
  LLVMValueRef last = LLVMBuildNSWSub(m->b, extent, dt__emit_i64(m, 1), "");
  return LLVMBuildSelect(m->b, below(m, at, last), at, last, "");
}

// Outside of the matrix its last element is read instead.
static void copy_element(piece_t *p) {
  dt_body_t *k = p->t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef extent = extent_of(p);
  enter_piece(p, last_at_most(p, p->var, extent), last_at_most(p, p->k, p->t->extent_k));
  dt__stage_binds(k, 4);
  dt_dtype_t dtype = k->stage->insts.items[p->o->load].dtype;
  LLVMValueRef value = dt__inst_value(k, p->o->load).v[0];
  dt__body_at(k, 4);
  if (dtype != p->o->dtype)
    value = dt__emit_cast(m, dtype, p->o->dtype, value);
  value = LLVMBuildSelect(m->b, p->inside, value, LLVMConstNull(LLVMTypeOf(value)), "");
  dt__emit_store(m, p->o->dtype, value, dt__matmul_shared(p->t, p->to, 0), NULL);
}

static void copy_operand(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef first_k,
                         LLVMValueRef at) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t elements = t->asynchronous ? 16 / (uint32_t)dt_dtype_size(o->dtype) : 1;
  uint32_t pieces = o->inner / elements * o->outer;
  for (uint32_t i = 0; i * t->plan.threads < pieces; i++) {
    dt__body_at(k, 3);
    uint32_t left = pieces - i * t->plan.threads;
    LLVMValueRef wanted = NULL;
    if (left < t->plan.threads)
      wanted = LLVMBuildICmp(m->b, LLVMIntULT, t->tid, dt__emit_i32(m, left), "");
    dt__scope_open(k, 4, wanted);
    piece_t piece = {.t = t, .o = o};
    place_piece(&piece, i, elements, first_k, at);
    if (t->asynchronous)
      copy_units(&piece);
    else
      copy_element(&piece);
    dt__scope_close(k, 4);
  }
}

void dt__matmul_copy(dt_tile_t *t, LLVMValueRef first_k, LLVMValueRef at) {
  copy_operand(t, &t->plan.a, first_k, at);
  copy_operand(t, &t->plan.b, first_k, at);
}

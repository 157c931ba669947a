// SPDX-License-Identifier: Apache-2.0
// Tiles of the operands from global to shared memory. Threads take neighbouring places of the loop
// that lies innermost, so that a warp reads whole lines. What is outside of the matrix is zero:
// nothing is read there.
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"

#define TOGETHER 4 // elements of a thread that are read before the first of them is needed

// One copy by each thread: so many elements from element (outer, inner) of the tile on.
typedef struct piece_t {
  dt_tile_t *t;
  const dt_operand_t *o;
  uint32_t level, elements;
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
  dt__body_at(k, p->level);
  return extent;
}

// Where the piece stands in the matrix; `at` is the ring's place, `number` (i32) the piece's.
static void place_piece(piece_t *p, LLVMValueRef number, LLVMValueRef first_k, LLVMValueRef at) {
  dt_tile_t *t = p->t;
  dt_emit_t *m = t->k->m;
  const dt_operand_t *o = p->o;
  uint32_t in_row = o->inner / p->elements, rows = t->plan.threads / in_row;
  LLVMValueRef low = LLVMBuildAnd(m->b, t->tid, dt__emit_i32(m, in_row - 1), "");
  LLVMValueRef high = LLVMBuildLShr(m->b, t->tid, dt__emit_i32(m, log2_of(in_row)), "");
  p->inner = dt__matmul_step(t, low, p->elements, 0);
  p->outer = LLVMBuildAdd(m->b, high, dt__matmul_step(t, number, rows, 0), "");
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
  k->stage_level = p->level - 1;
  dt__bind_symbol(k, p->o->var, p->level, var);
  dt_status_t status = dt__stage_enter(k, 0);
  if (status)
    dt__emit_fail(k->m, status);
  dt__bind_symbol(k, k->stage->vars[0], p->level, at_k);
}

static void copy_unit(piece_t *p) {
  dt_body_t *k = p->t->k;
  dt_emit_t *m = k->m;
  enter_piece(p, p->var, p->k);
  const dt_inst_t *load = &k->stage->insts.items[p->o->load];
  dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
  LLVMValueRef from = dt__access_address(k, load->buffer, offset, p->level).at[0];
  dt__body_at(k, p->level);
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
static LLVMValueRef read_element(piece_t *p) {
  dt_body_t *k = p->t->k;
  dt_emit_t *m = k->m;
  LLVMValueRef extent = extent_of(p);
  enter_piece(p, last_at_most(p, p->var, extent), last_at_most(p, p->k, p->t->extent_k));
  dt__stage_binds(k, p->level);
  dt_dtype_t dtype = k->stage->insts.items[p->o->load].dtype;
  LLVMValueRef value = dt__inst_value(k, p->o->load).v[0];
  dt__body_at(k, p->level);
  if (dtype != p->o->dtype)
    value = dt__emit_cast(m, dtype, p->o->dtype, value);
  return LLVMBuildSelect(m->b, p->inside, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

// Every thread has the same number of units, or one that only the first threads have.
static void copy_units(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef first_k, LLVMValueRef at) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t elements = 16 / (uint32_t)dt_dtype_size(o->dtype);
  uint32_t pieces = o->inner / elements * o->outer;
  for (uint32_t i = 0; i * t->plan.threads < pieces; i++) {
    dt__body_at(k, 3);
    LLVMValueRef wanted = NULL;
    if (pieces < t->plan.threads)
      wanted = LLVMBuildICmp(m->b, LLVMIntULT, t->tid, dt__emit_i32(m, pieces), "");
    dt__scope_open(k, 4, wanted);
    piece_t piece = {.t = t, .o = o, .level = 4, .elements = elements};
    place_piece(&piece, dt__emit_i32(m, i), first_k, at);
    copy_unit(&piece);
    dt__scope_close(k, 4);
  }
}

// A loop over a few at a time keeps addresses out of registers that multiplication needs.
static void copy_elements(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef first_k,
                          LLVMValueRef at) {
  dt_body_t *k = t->k;
  dt_emit_t *m = k->m;
  uint32_t pieces = o->inner * o->outer / t->plan.threads;
  uint32_t together = pieces < TOGETHER ? pieces : TOGETHER;
  LLVMValueRef values[TOGETHER], places[TOGETHER];
  LLVMValueRef number =
      dt__loop_open(k, 4, dt__emit_i64(m, 0), dt__emit_i64(m, pieces), together);
  number = LLVMBuildTrunc(m->b, number, m->t_i32, "");
  for (uint32_t i = 0; i < together; i++) {
    dt__scope_open(k, 5, NULL);
    piece_t piece = {.t = t, .o = o, .level = 5, .elements = 1};
    place_piece(&piece, dt__matmul_step(t, number, 1, i), first_k, at);
    values[i] = read_element(&piece);
    places[i] = piece.to;
    dt__scope_close(k, 5);
  }
  for (uint32_t i = 0; i < together; i++)
    dt__emit_store(m, o->dtype, values[i], dt__matmul_shared(t, places[i], 0), NULL);
  dt__loop_close(k, 4);
}

void dt__matmul_copy(dt_tile_t *t, LLVMValueRef first_k, LLVMValueRef at) {
  const dt_operand_t *operands[2] = {&t->plan.a, &t->plan.b};
  for (uint32_t i = 0; i < 2; i++)
    (t->asynchronous ? copy_units : copy_elements)(t, operands[i], first_k, at);
}

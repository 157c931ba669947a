// SPDX-License-Identifier: Apache-2.0
// The transforms of squares of places (fuse/winograd.c), as functions that all kernels of a unit
// share: what they do to one square depends on no kernel.
#include "backend_llvm/emit/matmul.h"

#include <stdio.h>

#define SIDE 4
#define FORMS (SIDE * SIDE)

// A loop over vectors of one function, from 0 on.
typedef struct vectors_t {
  dt_emit_t *m;
  uint32_t lanes;
  LLVMValueRef at, end;
  LLVMBasicBlockRef before, body;
} vectors_t;

static void open_vectors(vectors_t *v, LLVMValueRef fn) {
  v->before = LLVMGetInsertBlock(v->m->b);
  v->body = dt__emit_block(v->m, fn, "vector");
  LLVMBuildBr(v->m->b, v->body);
  LLVMPositionBuilderAtEnd(v->m->b, v->body);
  v->at = LLVMBuildPhi(v->m->b, v->m->t_i64, "");
}

static void close_vectors(vectors_t *v, LLVMValueRef fn) {
  dt_emit_t *m = v->m;
  LLVMBasicBlockRef done = dt__emit_block(m, fn, "end"), from[2] = {v->before, v->body};
  LLVMValueRef next = LLVMBuildNSWAdd(m->b, v->at, dt__emit_i64(m, v->lanes), "");
  LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntSLT, next, v->end, ""), v->body, done);
  LLVMAddIncoming(v->at, (LLVMValueRef[]){dt__emit_i64(m, 0), next}, from, 2);
  LLVMPositionBuilderAtEnd(m->b, done);
}

static LLVMValueRef address(const vectors_t *v, LLVMValueRef base, LLVMValueRef offset) {
  LLVMValueRef at = LLVMBuildAdd(v->m->b, offset, v->at, "");
  return dt__emit_element(v->m, v->m->t_f32, base, at);
}

static LLVMValueRef load(const vectors_t *v, LLVMValueRef base, LLVMValueRef offset) {
  return dt__emit_load(v->m, DT_F32, v->lanes, address(v, base, offset), NULL, NULL);
}

static void store(const vectors_t *v, LLVMValueRef value, LLVMValueRef base, LLVMValueRef offset) {
  dt__emit_store(v->m, DT_F32, value, address(v, base, offset), NULL);
}

static LLVMValueRef form_at(const dt_squares_form_t *form, const dt_emit_t *m, uint32_t f) {
  return dt__emit_i64(m, f * form->apart);
}

// T along four vectors `step` apart; then S.
static void transform(LLVMBuilderRef b, LLVMValueRef *d, uint32_t step) {
  LLVMValueRef d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
  d[0] = LLVMBuildFSub(b, d0, d2, "");
  d[step] = LLVMBuildFAdd(b, d1, d2, "");
  d[2 * step] = LLVMBuildFSub(b, d2, d1, "");
  d[3 * step] = LLVMBuildFSub(b, d1, d3, "");
}

static void transform_back(LLVMBuilderRef b, LLVMValueRef *d, uint32_t step) {
  LLVMValueRef d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
  d[0] = LLVMBuildFAdd(b, LLVMBuildFAdd(b, d0, d1, ""), d2, "");
  d[step] = LLVMBuildFSub(b, LLVMBuildFSub(b, d1, d2, ""), d3, "");
}

// The function `what` of this form; *made: it is new, and the builder stands in its first block.
static LLVMValueRef function(dt_emit_t *m, const dt_squares_form_t *form, const char *what,
                             LLVMTypeRef type, bool *made) {
  char name[64];
  (void)snprintf(name, sizeof(name), "dt_squares_%s_%u_%lld", what, form->lanes,
                 (long long)form->apart);
  LLVMValueRef fn = LLVMGetNamedFunction(m->module, name);
  *made = !fn;
  if (fn)
    return fn;
  fn = dt__emit_function(m, name, type, false);
  dt__emit_noinline(m, fn);
  LLVMPositionBuilderAtEnd(m->b, dt__emit_block(m, fn, "entry"));
  return fn;
}

static void transform_body(dt_emit_t *m, const dt_squares_form_t *form, LLVMValueRef fn) {
  vectors_t v = {.m = m, .lanes = form->lanes, .end = LLVMGetParam(fn, DT_SQUARES_COUNT)};
  LLVMValueRef x = LLVMGetParam(fn, DT_SQUARES_X), d[FORMS], zero = dt__emit_i64(m, 0);
  LLVMValueRef row = LLVMGetParam(fn, DT_SQUARES_ROW), col = LLVMGetParam(fn, DT_SQUARES_COL);
  LLVMValueRef rows[SIDE] = {zero, row, LLVMBuildAdd(m->b, row, row, ""),
                             LLVMGetParam(fn, DT_SQUARES_LAST_ROW)};
  LLVMValueRef cols[SIDE] = {zero, col, LLVMBuildAdd(m->b, col, col, ""),
                             LLVMGetParam(fn, DT_SQUARES_LAST_COL)};
  open_vectors(&v, fn);
  for (uint32_t f = 0; f < FORMS; f++)
    d[f] = load(&v, x, LLVMBuildAdd(m->b, rows[f / SIDE], cols[f % SIDE], ""));
  for (uint32_t i = 0; i < SIDE; i++)
    transform(m->b, d + (size_t)i * SIDE, 1);
  for (uint32_t i = 0; i < SIDE; i++)
    transform(m->b, d + i, SIDE);
  for (uint32_t f = 0; f < FORMS; f++)
    store(&v, d[f], LLVMGetParam(fn, DT_SQUARES_V), form_at(form, m, f));
  close_vectors(&v, fn);
  LLVMBuildRetVoid(m->b);
}

void dt__squares_transform(dt_emit_t *m, const dt_squares_form_t *form,
                           LLVMValueRef args[DT_SQUARES_ARGS]) {
  LLVMTypeRef types[DT_SQUARES_ARGS] = {m->t_ptr, m->t_ptr, m->t_i64, m->t_i64,
                                        m->t_i64, m->t_i64, m->t_i64};
  LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
  LLVMTypeRef type = LLVMFunctionType(m->t_void, types, DT_SQUARES_ARGS, 0);
  bool made = false;
  LLVMValueRef fn = function(m, form, "in", type, &made);
  if (made) {
    transform_body(m, form, fn);
    dt__emit_resume(m, at);
  }
  LLVMBuildCall2(m->b, type, fn, args, DT_SQUARES_ARGS, "");
}

// Not 0 if any lane has a number that is not finite.
static LLVMValueRef is_spoiled(dt_emit_t *m, LLVMValueRef nothing) {
  LLVMValueRef lanes = LLVMBuildFCmp(m->b, LLVMRealUNO, nothing, nothing, "");
  return LLVMBuildZExt(m->b, dt__emit_intrinsic1(m, "llvm.vector.reduce.or", lanes), m->t_i64, "");
}

// Numbers less themselves are 0, and what is not finite is none: that is added up.
static void back_body(dt_emit_t *m, const dt_squares_form_t *form, LLVMValueRef fn) {
  vectors_t v = {.m = m, .lanes = form->lanes, .end = LLVMGetParam(fn, 1)};
  LLVMTypeRef wide = LLVMVectorType(m->t_f32, form->lanes);
  LLVMValueRef c = LLVMGetParam(fn, 0), d[FORMS];
  open_vectors(&v, fn);
  LLVMValueRef before = LLVMBuildPhi(m->b, wide, ""), nothing = before;
  for (uint32_t f = 0; f < FORMS; f++)
    d[f] = load(&v, c, form_at(form, m, f));
  for (uint32_t i = 0; i < SIDE; i++)
    transform_back(m->b, d + i, SIDE);
  for (uint32_t i = 0; i < 2; i++)
    transform_back(m->b, d + (size_t)i * SIDE, 1);
  for (uint32_t f = 0; f < 4; f++) {
    LLVMValueRef place = d[f / 2 * SIDE + f % 2];
    store(&v, place, c, form_at(form, m, f));
    nothing = LLVMBuildFAdd(m->b, nothing, LLVMBuildFSub(m->b, place, place, ""), "");
  }
  LLVMAddIncoming(before, (LLVMValueRef[]){LLVMConstNull(wide), nothing},
                  (LLVMBasicBlockRef[]){v.before, v.body}, 2);
  close_vectors(&v, fn);
  LLVMBuildRet(m->b, is_spoiled(m, nothing));
}

LLVMValueRef dt__squares_back(dt_emit_t *m, const dt_squares_form_t *form, LLVMValueRef c,
                              LLVMValueRef columns) {
  LLVMTypeRef types[2] = {m->t_ptr, m->t_i64};
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, types, 2, 0);
  LLVMBasicBlockRef at = LLVMGetInsertBlock(m->b);
  LLVMValueRef args[2] = {c, columns};
  bool made = false;
  LLVMValueRef fn = function(m, form, "out", type, &made);
  if (made) {
    back_body(m, form, fn);
    dt__emit_resume(m, at);
  }
  return LLVMBuildCall2(m->b, type, fn, args, 2, "");
}

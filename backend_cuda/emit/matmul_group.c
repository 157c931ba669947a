// SPDX-License-Identifier: Apache-2.0
// Products of halves by groups of four warps: 64 x 16 of A times 16 x width of B, both read from
// shared memory by the tensor cores themselves while the warps go on. Warp w of a group has the
// sums of rows 16 w … 16 w + 15, as matmul_mma.c has them.
//
// Descriptors say where factors are: rows of 128 bytes, eight of them in an order of 16-byte units
// that repeats (matmul.h), and
//
//   k innermost      rows are of m or n, 64 elements of k in each; `stride` to the next eight rows;
//                    the next 16 of k are 32 bytes further
//   else             rows are of k, 64 elements of m or n in each; `stride` to the next eight rows,
//                    `leading` to the panel of the next 64 elements; the next 16 of k are 16 rows
//                    further
#include "backend_cuda/emit/matmul.h"
#include "backend_cuda/emit/ptx.h"

#include "runtime/base/status.h"

#define STEP 16 // of k
#define HALF 2  // bytes
#define EIGHT_ROWS (8 * DT_PANEL_BYTES)
#define ADDRESS_BITS 0x3ffff
// Fields of a descriptor; all are in units of 16 bytes.
#define LEADING_AT 16
#define STRIDE_AT 32
#define KIND_128 ((uint64_t)1 << 62)

static LLVMValueRef bits(dt_emit_t *m, uint64_t value) {
  return LLVMConstInt(m->t_i64, value, false);
}

// Bytes from one place of k to the one `deep` further, in panels.
static uint32_t along_k(const dt_operand_t *o, uint32_t deep) {
  uint32_t wide = DT_PANEL_BYTES / HALF;
  return o->along_k ? deep / wide * o->outer * DT_PANEL_BYTES + deep % wide * HALF
                    : deep * DT_PANEL_BYTES;
}

LLVMValueRef dt__matmul_panels(dt_emit_t *m, const dt_operand_t *o, LLVMValueRef at) {
  LLVMValueRef address = LLVMBuildPtrToInt(m->b, at, m->t_i64, "");
  address =
      LLVMBuildLShr(m->b, LLVMBuildAnd(m->b, address, bits(m, ADDRESS_BITS), ""), bits(m, 4), "");
  uint64_t leading = o->along_k ? 1 : o->outer * DT_PANEL_BYTES / 16;
  uint64_t rest = leading << LEADING_AT | (uint64_t)(EIGHT_ROWS / 16) << STRIDE_AT | KIND_128;
  return LLVMBuildOr(m->b, address, bits(m, rest), "");
}

// Of the operand's part that this warp's group has, at the first k of its slice.
static LLVMValueRef descriptor(dt_tile_t *t, const dt_operand_t *o, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef from = LLVMBuildAdd(m->b, at, dt__emit_i32(m, o->offset), "");
  if (o == &t->plan.a && t->plan.warps_m > DT_GROUP) {
    LLVMValueRef group = LLVMBuildLShr(m->b, t->warp_row, dt__emit_i32(m, 2), "");
    uint32_t bytes = STEP * DT_GROUP * DT_PANEL_BYTES; // where k is innermost: rows of one panel
    if (!o->along_k)
      bytes = o->outer * DT_PANEL_BYTES; // a panel
    from = LLVMBuildAdd(m->b, from, dt__matmul_step(t, group, bytes, 0), "");
  }
  if (t->plan.parts > 1)
    from = LLVMBuildAdd(
        m->b, from,
        dt__matmul_step(t, t->slice, along_k(o, t->plan.matmul->depth / t->plan.parts), 0), "");
  return dt__matmul_panels(m, o, dt__matmul_shared(t, from, 0));
}

void dt__matmul_group_begin(dt_tile_t *t, LLVMValueRef at) {
  dt_emit_t *m = t->k->m;
  const dt_matmul_plan_t *p = &t->plan;
  dt_ptx_group_t group = {.dtype = p->a.dtype,
                          .width = p->matmul->group_cols,
                          .steps = p->matmul->depth / p->parts / STEP,
                          .a_turned = !p->a.along_k,
                          .b_turned = !p->b.along_k};
  if (group.steps > DT_PTX_MAX_STEPS || !m->target->matrix_groups) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "matrix template: no groups of warps for %s",
                             t->k->kernel->name));
    return;
  }
  LLVMValueRef a[DT_PTX_MAX_STEPS], b[DT_PTX_MAX_STEPS], sums[DT_MATMUL_MAX_SUMS];
  LLVMValueRef a_at = descriptor(t, &p->a, at), b_at = descriptor(t, &p->b, at);
  for (uint32_t s = 0; s < group.steps; s++) {
    a[s] = LLVMBuildAdd(m->b, a_at, bits(m, along_k(&p->a, s * STEP) / 16), "");
    b[s] = LLVMBuildAdd(m->b, b_at, bits(m, along_k(&p->b, s * STEP) / 16), "");
  }
  for (uint32_t i = 0; i < t->n_sums; i++)
    sums[i] = LLVMBuildLoad2(m->b, t->type, t->sums[i], "");
  dt__ptx_group_multiply(m, &group, a, b, sums);
  for (uint32_t i = 0; i < t->n_sums; i++)
    LLVMBuildStore(m->b, sums[i], t->sums[i]);
}

void dt__matmul_group_end(dt_tile_t *t, uint32_t behind) {
  dt_emit_t *m = t->k->m;
  LLVMValueRef sums[DT_MATMUL_MAX_SUMS];
  for (uint32_t i = 0; i < t->n_sums; i++)
    sums[i] = LLVMBuildLoad2(m->b, t->type, t->sums[i], "");
  dt__ptx_group_wait(m, behind, t->n_sums, sums);
  for (uint32_t i = 0; i < t->n_sums; i++)
    LLVMBuildStore(m->b, sums[i], t->sums[i]);
}

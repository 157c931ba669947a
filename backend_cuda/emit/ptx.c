// SPDX-License-Identifier: Apache-2.0
// See ptx.h.
#include "backend_cuda/emit/ptx.h"

#include "backend_cuda/emit/without_calls.h"

#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <stdio.h>
#include <string.h>

#define GLOBAL_SPACE 1

static LLVMValueRef call(dt_emit_t *m, const char *name, LLVMValueRef *args, uint32_t n) {
  return dt__emit_intrinsic(m, name, NULL, 0, args, n);
}

static LLVMValueRef inline_text(dt_emit_t *m, LLVMTypeRef result, const char *text,
                                const char *constraints) {
  LLVMTypeRef type = LLVMFunctionType(result, NULL, 0, 0);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                       true, false, LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(m->b, type, code, NULL, 0, "");
}

LLVMValueRef dt__ptx_thread(dt_emit_t *m) {
  return inline_text(m, m->t_i32, "mov.u32 $0, %tid.x;", "=r");
}

LLVMValueRef dt__ptx_anew(dt_emit_t *m, LLVMValueRef value) {
  static const char text[] = "mov.b64 $0, $1;", constraints[] = "=l,l";
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, &m->t_i64, 1, 0);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), constraints, strlen(constraints),
                                       true, false, LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(m->b, type, code, &value, 1, "");
}

void dt__ptx_part(dt_emit_t *m, uint32_t number) {
  char text[32];
  (void)snprintf(text, sizeof(text), "// part %u", number);
  (void)inline_text(m, m->t_void, text, "");
}

void dt__ptx_no_unroll(dt_emit_t *m) {
  (void)inline_text(m, m->t_void, ".pragma \"nounroll\";", "");
}

LLVMValueRef dt__ptx_any(dt_emit_t *m, LLVMValueRef value) {
  LLVMValueRef args[2] = {dt__emit_i32(m, UINT32_MAX), value};
  return call(m, "llvm.nvvm.vote.any.sync", args, 2);
}

void dt__ptx_meet(dt_emit_t *m, LLVMValueRef id, uint32_t threads, bool wait) {
  LLVMValueRef args[2] = {id, dt__emit_i32(m, threads)};
  (void)call(m,
             wait ? "llvm.nvvm.barrier.cta.sync.aligned.count"
                  : "llvm.nvvm.barrier.cta.arrive.aligned.count",
             args, 2);
}

void dt__ptx_copy(dt_emit_t *m, LLVMValueRef to, LLVMValueRef from, LLVMValueRef bytes) {
  LLVMTypeRef global = LLVMPointerTypeInContext(m->context, GLOBAL_SPACE);
  LLVMValueRef args[3] = {to, LLVMBuildAddrSpaceCast(m->b, from, global, ""), bytes};
  (void)call(m, "llvm.nvvm.cp.async.cg.shared.global.16.s", args, 3);
}

LLVMValueRef dt__ptx_power(dt_emit_t *m, LLVMValueRef x) {
  const char *name = m->device->fast.exp2;
  return LLVMIntrinsicIsOverloaded(LLVMLookupIntrinsicID(name, strlen(name)))
             ? dt__emit_intrinsic1(m, name, x)
             : call(m, name, &x, 1);
}

void dt__ptx_copies_commit(dt_emit_t *m) {
  LLVMValueRef none[1] = {dt__emit_i32(m, 0)};
  (void)call(m, "llvm.nvvm.cp.async.commit.group", none, 0);
}

void dt__ptx_copies_wait(dt_emit_t *m, uint32_t pending) {
  LLVMValueRef args[1] = {dt__emit_i32(m, pending)};
  (void)call(m, "llvm.nvvm.cp.async.wait.group", args, 1);
}

void dt__ptx_warp_sync(dt_emit_t *m) {
  LLVMValueRef all[1] = {dt__emit_i32(m, UINT32_MAX)};
  (void)call(m, "llvm.nvvm.bar.warp.sync", all, 1);
}

void dt__ptx_matrices(dt_emit_t *m, LLVMValueRef from, bool transposed, LLVMValueRef out[4]) {
  LLVMTypeRef type = LLVMTypeOf(from);
  const char *name = transposed ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                                : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16";
  LLVMValueRef all = dt__emit_intrinsic(m, name, &type, 1, &from, 1);
  for (uint32_t i = 0; i < 4; i++)
    out[i] = LLVMBuildExtractValue(m->b, all, i, "");
}

void dt__ptx_multiply(dt_emit_t *m, dt_dtype_t dtype, const LLVMValueRef a[4],
                      const LLVMValueRef b[2], LLVMValueRef c[4]) {
  const char *name = dtype == DT_F16 ? "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
                                     : "llvm.nvvm.mma.m16n8k16.row.col.bf16";
  LLVMTypeRef pair = LLVMVectorType(LLVMHalfTypeInContext(m->context), 2);
  LLVMValueRef args[10];
  for (uint32_t i = 0; i < 6; i++) {
    LLVMValueRef word = i < 4 ? a[i] : b[i - 4];
    args[i] = dtype == DT_F16 ? LLVMBuildBitCast(m->b, word, pair, "") : word;
  }
  for (uint32_t i = 0; i < 4; i++)
    args[6 + i] = c[i];
  LLVMValueRef all = call(m, name, args, 10);
  for (uint32_t i = 0; i < 4; i++)
    c[i] = LLVMBuildExtractValue(m->b, all, i, "");
}

void dt__ptx_cluster_sync(dt_emit_t *m) {
  LLVMValueRef none[1] = {dt__emit_i32(m, 0)};
  (void)call(m, "llvm.nvvm.barrier.cluster.arrive.aligned", none, 0);
  (void)call(m, "llvm.nvvm.barrier.cluster.wait.aligned", none, 0);
}

LLVMValueRef dt__ptx_cluster_place(dt_emit_t *m, LLVMValueRef at, LLVMValueRef rank) {
  LLVMValueRef args[2] = {at, rank};
  return call(m, "llvm.nvvm.mapa.shared.cluster", args, 2);
}

// ---- Groups of warps --------------------------------------------------------------------------------

#define MAX_SUMS 128
#define HELD 4 // registers of a step of A
#define MAX_ARGS ((HELD + 1) * DT_PTX_MAX_STEPS)

void dt__ptx_fence_async(dt_emit_t *m) {
  (void)inline_text(m, m->t_void, "fence.proxy.async.shared::cta;", "~{memory}");
}

// Runs `text` with sums as its operands 0 … n - 1, which it changes, and `n_args` more after twice
// as many.
static void change_sums(dt_emit_t *m, const char *text, uint32_t n, LLVMValueRef *sums,
                        const LLVMValueRef *args, uint32_t n_args) {
  LLVMTypeRef types[MAX_SUMS + MAX_ARGS];
  LLVMValueRef values[MAX_SUMS + MAX_ARGS];
  dt_text_t constraints;
  dt__text_init(&constraints);
  for (uint32_t i = 0; i < n; i++) {
    types[i] = m->t_f32;
    values[i] = sums[i];
    dt__text_printf(&constraints, "=f,");
  }
  LLVMTypeRef all = LLVMStructTypeInContext(m->context, types, n, false);
  for (uint32_t i = 0; i < n; i++)
    dt__text_printf(&constraints, "%u,", i);
  for (uint32_t i = 0; i < n_args; i++) {
    types[n + i] = LLVMTypeOf(args[i]);
    values[n + i] = args[i];
    dt__text_printf(&constraints, types[n + i] == m->t_i64 ? "l," : "r,");
  }
  dt__text_printf(&constraints, "~{memory}");
  LLVMTypeRef type = LLVMFunctionType(all, types, n + n_args, 0);
  const char *said = dt__text_str(&constraints);
  LLVMValueRef code = LLVMGetInlineAsm(type, text, strlen(text), said, strlen(said), true, false,
                                       LLVMInlineAsmDialectATT, false);
  LLVMValueRef result = LLVMBuildCall2(m->b, type, code, values, n + n_args, "");
  for (uint32_t i = 0; i < n; i++)
    sums[i] = LLVMBuildExtractValue(m->b, result, i, "");
  dt_status_t status = dt__text_status(&constraints);
  if (status)
    dt__emit_fail(m, status);
  dt__text_fini(&constraints);
}

// One step, whose operands stand from number `at` on; `add` is the predicate of what was there.
static void put_step(const dt_ptx_group_t *g, uint32_t at, const char *add, dt_text_t *text) {
  const char *type = g->dtype == DT_F16 ? "f16" : "bf16";
  uint32_t n = g->width / 2;
  dt__text_printf(text, "wgmma.mma_async.sync.aligned.m64n%uk16.f32.%s.%s {", g->width, type, type);
  for (uint32_t i = 0; i < n; i++)
    dt__text_printf(text, "%s$%u", i ? ", " : "", i);
  if (g->a_held)
    dt__text_printf(text, "}, {$%u, $%u, $%u, $%u}, $%u, %s, 1, 1, %d;\n", at, at + 1, at + 2,
                    at + 3, at + HELD, add, (int)g->b_turned);
  else
    dt__text_printf(text, "}, $%u, $%u, %s, 1, 1, %d, %d;\n", at, at + 1, add, (int)g->a_turned,
                    (int)g->b_turned);
}

void dt__ptx_group_multiply(dt_emit_t *m, const dt_ptx_group_t *g, const LLVMValueRef *a,
                            const LLVMValueRef *b, LLVMValueRef *sums) {
  dt__cuda_multiplies_together(m);
  uint32_t n = g->width / 2, of_a = g->a_held ? HELD : 1, n_args = 0;
  LLVMValueRef args[MAX_ARGS];
  dt_text_t text;
  dt__text_init(&text);
  dt__text_printf(&text, "{\n.reg .pred all, none;\nmov.pred all, -1;\nmov.pred none, 0;\n");
  dt__text_printf(&text, "wgmma.fence.sync.aligned;\n");
  for (uint32_t s = 0; s < g->steps; s++) {
    put_step(g, 2 * n + n_args, g->fresh && s == 0 ? "none" : "all", &text);
    for (uint32_t i = 0; i < of_a; i++)
      args[n_args++] = a[s * of_a + i];
    args[n_args++] = b[s];
  }
  dt__text_printf(&text, "wgmma.commit_group.sync.aligned;\n}");
  change_sums(m, dt__text_str(&text), n, sums, args, n_args);
  dt_status_t status = dt__text_status(&text);
  if (status)
    dt__emit_fail(m, status);
  dt__text_fini(&text);
}

void dt__ptx_group_wait(dt_emit_t *m, uint32_t behind, uint32_t n, LLVMValueRef *sums) {
  char text[48];
  (void)snprintf(text, sizeof(text), "wgmma.wait_group.sync.aligned %u;", behind);
  change_sums(m, text, n, sums, NULL, 0);
}

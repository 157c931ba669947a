// SPDX-License-Identifier: Apache-2.0
// See device.h. Values wider or narrower than a register are exchanged as words of 32 bits.
#include "backend_cuda/emit/device.h"

#include "backend_cuda/emit/without_calls.h"

#include "backend_cuda/emit/matmul.h"

#include <stdio.h>
#include <string.h>

#define SHARED_SPACE 3

static LLVMValueRef call(dt_emit_t *m, const char *name, LLVMValueRef *args, uint32_t n) {
  return dt__emit_intrinsic(m, name, NULL, 0, args, n);
}

LLVMValueRef dt__cuda_register(dt_emit_t *m, dt_cuda_register_t which) {
  static const char *const names[] = {
      [DT_CUDA_TID] = "llvm.nvvm.read.ptx.sreg.tid.x",
      [DT_CUDA_CTAID] = "llvm.nvvm.read.ptx.sreg.ctaid.x",
      [DT_CUDA_NCTAID] = "llvm.nvvm.read.ptx.sreg.nctaid.x",
  };
  LLVMValueRef none[1] = {dt__emit_i32(m, 0)};
  return LLVMBuildZExt(m->b, call(m, names[which], none, 0), m->t_i64, "");
}

void dt__cuda_block_sync(dt_emit_t *m) {
  LLVMValueRef barrier[1] = {dt__emit_i32(m, 0)};
  (void)call(m, "llvm.nvvm.barrier.cta.sync.aligned.all", barrier, 1);
}

static LLVMValueRef shared_global(dt_emit_t *m, const char *name, LLVMTypeRef type, bool outside) {
  LLVMValueRef global = LLVMGetNamedGlobal(m->module, name);
  if (global)
    return global;
  global = LLVMAddGlobalInAddressSpace(m->module, type, name, SHARED_SPACE);
  LLVMSetLinkage(global, outside ? LLVMExternalLinkage : LLVMInternalLinkage);
  if (!outside)
    LLVMSetInitializer(global, LLVMGetUndef(type));
  LLVMSetAlignment(global, 16);
  return global;
}

LLVMValueRef dt__cuda_shared(dt_emit_t *m, const char *name, LLVMTypeRef type) {
  return shared_global(m, name, type, false);
}

// Each of an entry's members has a name of its own for it: what is computed of the address is then
// not shared, and takes no register from where the entry begins on.
LLVMValueRef dt__cuda_shared_base(dt_emit_t *m) {
  char name[32] = "dt_shared";
  if (m->member)
    (void)snprintf(name, sizeof(name), "dt_shared%u", m->member);
  return shared_global(m, name, LLVMArrayType2(m->t_i8, 0), true);
}

LLVMValueRef dt__cuda_dynamic_shared(dt_emit_t *m) {
  return LLVMBuildAddrSpaceCast(m->b, dt__cuda_shared_base(m), m->t_ptr, "");
}

// ---- Teams -------------------------------------------------------------------------------------------
static void team_sync(dt_body_t *k) {
  LLVMValueRef all[1] = {dt__emit_i32(k->m, UINT32_MAX)};
  if (k->team > DT_WARP)
    dt__cuda_block_sync(k->m);
  else if (k->team > 1)
    (void)call(k->m, "llvm.nvvm.bar.warp.sync", all, 1);
}

// A value as words of 32 bits and back. i1 and small integers travel in one.
typedef struct words_t {
  LLVMTypeRef type;
  uint32_t bits, n;
  LLVMValueRef v[2];
} words_t;

static uint32_t bits_of(const dt_emit_t *m, LLVMTypeRef type) {
  if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind)
    return LLVMGetIntTypeWidth(type);
  return type == m->t_f64 ? 64 : type == m->t_f32 ? 32 : 16;
}

static words_t to_words(dt_emit_t *m, LLVMValueRef value) {
  words_t w = {.type = LLVMTypeOf(value)};
  w.bits = bits_of(m, w.type);
  LLVMTypeRef whole = LLVMIntTypeInContext(m->context, w.bits);
  value = LLVMBuildBitCast(m->b, value, whole, "");
  w.n = w.bits == 64 ? 2 : 1;
  if (w.n == 1) {
    w.v[0] = w.bits < 32 ? LLVMBuildZExt(m->b, value, m->t_i32, "") : value;
    return w;
  }
  w.v[0] = LLVMBuildTrunc(m->b, value, m->t_i32, "");
  LLVMValueRef high = LLVMBuildLShr(m->b, value, dt__emit_i64(m, 32), "");
  w.v[1] = LLVMBuildTrunc(m->b, high, m->t_i32, "");
  return w;
}

static LLVMValueRef from_words(dt_emit_t *m, const words_t *w) {
  LLVMTypeRef whole = LLVMIntTypeInContext(m->context, w->bits);
  LLVMValueRef value = w->v[0];
  if (w->n == 2) {
    LLVMValueRef low = LLVMBuildZExt(m->b, w->v[0], m->t_i64, "");
    LLVMValueRef high = LLVMBuildZExt(m->b, w->v[1], m->t_i64, "");
    value = LLVMBuildOr(m->b, low, LLVMBuildShl(m->b, high, dt__emit_i64(m, 32), ""), "");
  } else if (w->bits < 32) {
    value = LLVMBuildTrunc(m->b, value, whole, "");
  }
  return LLVMBuildBitCast(m->b, value, w->type, "");
}

static LLVMValueRef team_exchange(dt_body_t *k, LLVMValueRef value, uint32_t distance) {
  dt_emit_t *m = k->m;
  words_t w = to_words(m, value);
  for (uint32_t i = 0; i < w.n; i++) {
    LLVMValueRef args[4] = {dt__emit_i32(m, UINT32_MAX), w.v[i], dt__emit_i32(m, distance),
                            dt__emit_i32(m, DT_WARP - 1)};
    w.v[i] = call(m, "llvm.nvvm.shfl.sync.bfly.i32", args, 4);
  }
  return from_words(m, &w);
}

static LLVMValueRef slot_address(dt_emit_t *m, LLVMValueRef slots, LLVMValueRef index) {
  LLVMValueRef at =
      LLVMBuildTrunc(m->b, LLVMBuildShl(m->b, index, dt__emit_i64(m, 3), ""), m->t_i32, "");
  return LLVMBuildGEP2(m->b, m->t_i8, slots, &at, 1, "");
}

// A place of shared memory for each warp. It is written again in the team's next grid item only,
// which a barrier goes before.
static LLVMValueRef team_gather(dt_body_t *k, LLVMValueRef value, uint32_t slot) {
  dt_emit_t *m = k->m;
  char name[64];
  (void)snprintf(name, sizeof(name), "dt_slots_%s_%u", LLVMGetValueName(k->fn), slot);
  uint32_t warps = k->team / DT_WARP, level = k->stage_level;
  LLVMValueRef slots = dt__cuda_shared(m, name, LLVMArrayType2(m->t_i64, warps));
  LLVMValueRef lane = LLVMBuildAnd(m->b, k->rank, dt__emit_i64(m, DT_WARP - 1), "");
  LLVMValueRef warp = LLVMBuildLShr(m->b, k->rank, dt__emit_i64(m, 5), "");
  LLVMValueRef first = LLVMBuildICmp(m->b, LLVMIntEQ, lane, dt__emit_i64(m, 0), "");
  LLVMTypeRef type = LLVMTypeOf(value), whole = LLVMIntTypeInContext(m->context, bits_of(m, type));
  LLVMValueRef bits = LLVMBuildBitCast(m->b, value, whole, "");
  bits = whole == m->t_i64 ? bits : LLVMBuildZExt(m->b, bits, m->t_i64, "");
  LLVMBasicBlockRef some = dt__emit_block(m, k->fn, "hand"),
                    next = dt__emit_block(m, k->fn, "next");
  LLVMBuildCondBr(m->b, first, some, next);
  LLVMPositionBuilderAtEnd(m->b, some);
  LLVMBuildStore(m->b, bits, slot_address(m, slots, warp));
  LLVMBuildBr(m->b, next);
  k->scopes[level].block = next;
  dt__body_at(k, level);
  dt__cuda_block_sync(m);
  LLVMValueRef wanted = LLVMBuildAnd(m->b, lane, dt__emit_i64(m, warps - 1), "");
  bits = LLVMBuildLoad2(m->b, m->t_i64, slot_address(m, slots, wanted), "");
  bits = whole == m->t_i64 ? bits : LLVMBuildTrunc(m->b, bits, whole, "");
  return LLVMBuildBitCast(m->b, bits, type, "");
}

// ---- Failed checks -----------------------------------------------------------------------------------
static LLVMValueRef record_field(dt_emit_t *m, LLVMValueRef record, size_t offset) {
  return dt__emit_offset(m, record, dt__emit_i64(m, (int64_t)offset));
}

static LLVMValueRef claim_record(dt_emit_t *m, LLVMValueRef record, LLVMValueRef check) {
  (void)check; // comes last: see fill_record
  unsigned device = LLVMGetSyncScopeID(m->context, "device", 6);
  LLVMValueRef swap = LLVMBuildAtomicCmpXchgSyncScope(
      m->b, record_field(m, record, DT_RECORD_CLAIM), dt__emit_i64(m, 0), dt__emit_i64(m, 1),
      LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, device);
  return LLVMBuildExtractValue(m->b, swap, 1, "");
}

// The host may look at any time: the rest is there when it sees the check.
static void fill_record(dt_emit_t *m, LLVMValueRef record, LLVMValueRef check, LLVMValueRef value,
                        LLVMValueRef extent) {
  LLVMBuildStore(m->b, value, record_field(m, record, DT_RECORD_VALUE));
  LLVMBuildStore(m->b, extent, record_field(m, record, DT_RECORD_EXTENT));
  LLVMValueRef none[1] = {dt__emit_i32(m, 0)};
  (void)call(m, "llvm.nvvm.membar.sys", none, 0);
  LLVMBuildStore(m->b, check, record_field(m, record, DT_RECORD_CHECK));
}

_Static_assert(DT_RECORD_CHECK == 0, "where DT_INST_SOUND is read");

const dt_device_emit_t dt__cuda_device_emit = {
    .intrinsics = "llvm.nvvm.",
    .fast = {.exp2 = "llvm.nvvm.ex2.approx.ftz", .reciprocal = "llvm.nvvm.rcp.approx.ftz.f"},
    .halves = true,
    .sync = team_sync,
    .exchange = team_exchange,
    .gather = team_gather,
    .matmul = dt__cuda_matmul_item,
    .tile = dt__cuda_tile,
    .claim = claim_record,
    .fill = fill_record,
    .settle = dt__cuda_without_calls};

// SPDX-License-Identifier: Apache-2.0
// Loads and stores of elements: scalar, neighbouring lanes, gathered and scattered, with and
// without masks. BOOL is a byte of 0 or 1 in memory and i1 in registers.
#include "backend_llvm/emit/context.h"

static unsigned alignment_of(dt_dtype_t dtype) { return (unsigned)dt_dtype_size(dtype); }

unsigned dt__load_alignment(const dt_emit_t *m, dt_dtype_t dtype) {
  return m->device ? alignment_of(dtype) : 1;
}

static LLVMValueRef from_memory(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value) {
  if (dtype != DT_BOOL)
    return value;
  return LLVMBuildICmp(m->b, LLVMIntNE, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

static LLVMValueRef to_memory(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value) {
  if (dtype != DT_BOOL)
    return value;
  return LLVMBuildZExt(m->b, value, dt__emit_like(value, m->t_i8), "");
}

// States the alignment of a masked access: an attribute of its address argument (1-based).
static void align_argument(dt_emit_t *m, LLVMValueRef call, unsigned argument, unsigned alignment) {
  unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddCallSiteAttribute(call, argument, LLVMCreateEnumAttribute(m->context, kind, alignment));
}

LLVMValueRef dt__emit_load_at(dt_emit_t *m, dt_dtype_t dtype, uint32_t lanes, LLVMValueRef address,
                              uint32_t alignment, bool invariant) {
  LLVMTypeRef type = dt__emit_widen(dt__emit_memory_type(m, dtype), lanes);
  LLVMValueRef load = LLVMBuildLoad2(m->b, type, address, "");
  LLVMSetAlignment(load, alignment);
  if (invariant) {
    unsigned kind = LLVMGetMDKindIDInContext(m->context, "invariant.load", 14);
    LLVMSetMetadata(load, kind,
                    LLVMMetadataAsValue(m->context, LLVMMDNodeInContext2(m->context, NULL, 0)));
  }
  return from_memory(m, dtype, load);
}

void dt__emit_store_at(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value, LLVMValueRef address,
                       uint32_t alignment) {
  LLVMSetAlignment(LLVMBuildStore(m->b, to_memory(m, dtype, value), address), alignment);
}

LLVMValueRef dt__emit_load(dt_emit_t *m, dt_dtype_t dtype, uint32_t lanes, LLVMValueRef address,
                           LLVMValueRef mask, LLVMValueRef other) {
  if (!mask)
    return dt__emit_load_at(m, dtype, lanes, address, dt__load_alignment(m, dtype), false);
  LLVMTypeRef type = dt__emit_widen(dt__emit_memory_type(m, dtype), lanes);
  LLVMValueRef kept = other ? to_memory(m, dtype, other) : LLVMConstNull(type);
  LLVMTypeRef types[2] = {type, m->t_ptr};
  LLVMValueRef args[3] = {address, mask, kept};
  LLVMValueRef call = dt__emit_intrinsic(m, "llvm.masked.load", types, 2, args, 3);
  align_argument(m, call, 1, dt__load_alignment(m, dtype));
  return from_memory(m, dtype, call);
}

void dt__emit_store(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value, LLVMValueRef address,
                    LLVMValueRef mask) {
  if (!mask) {
    dt__emit_store_at(m, dtype, value, address, alignment_of(dtype));
    return;
  }
  value = to_memory(m, dtype, value);
  LLVMTypeRef types[2] = {LLVMTypeOf(value), m->t_ptr};
  LLVMValueRef args[3] = {value, address, mask};
  LLVMValueRef call = dt__emit_intrinsic(m, "llvm.masked.store", types, 2, args, 3);
  align_argument(m, call, 2, alignment_of(dtype));
}

// There are gather instructions for 4 and 8 bytes only.
static LLVMValueRef gather_by_scalars(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef addresses,
                                      uint32_t lanes) {
  LLVMTypeRef element = dt__emit_memory_type(m, dtype);
  LLVMValueRef all = LLVMGetPoison(LLVMVectorType(element, lanes));
  for (uint32_t i = 0; i < lanes; i++) {
    LLVMValueRef at = LLVMBuildExtractElement(m->b, addresses, dt__emit_i64(m, i), "");
    LLVMValueRef load = LLVMBuildLoad2(m->b, element, at, "");
    LLVMSetAlignment(load, dt__load_alignment(m, dtype));
    all = LLVMBuildInsertElement(m->b, all, load, dt__emit_i64(m, i), "");
  }
  return from_memory(m, dtype, all);
}

LLVMValueRef dt__emit_gather(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef addresses,
                             LLVMValueRef mask, LLVMValueRef other, LLVMValueRef dead) {
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(addresses));
  LLVMTypeRef type = LLVMVectorType(dt__emit_memory_type(m, dtype), lanes);
  if (dt_dtype_size(dtype) < 4 || m->target->vector_bytes < 32) {
    if (mask)
      addresses = LLVMBuildSelect(m->b, mask, addresses, dt__emit_splat(m, dead, lanes), "");
    LLVMValueRef all = gather_by_scalars(m, dtype, addresses, lanes);
    if (!mask)
      return all;
    return LLVMBuildSelect(m->b, mask, all, other ? other : LLVMConstNull(LLVMTypeOf(all)), "");
  }
  LLVMTypeRef types[2] = {type, LLVMTypeOf(addresses)};
  LLVMValueRef args[3] = {addresses, mask ? mask : LLVMConstAllOnes(LLVMVectorType(m->t_i1, lanes)),
                          other ? other : LLVMConstNull(type)};
  LLVMValueRef call = dt__emit_intrinsic(m, "llvm.masked.gather", types, 2, args, 3);
  align_argument(m, call, 1, dt__load_alignment(m, dtype));
  return call;
}

void dt__emit_scatter(dt_emit_t *m, dt_dtype_t dtype, LLVMValueRef value, LLVMValueRef addresses,
                      LLVMValueRef mask) {
  value = to_memory(m, dtype, value);
  uint32_t lanes = dt__emit_lanes(LLVMTypeOf(addresses));
  if (!mask) {
    for (uint32_t i = 0; i < lanes; i++) {
      LLVMValueRef lane = dt__emit_i64(m, i);
      LLVMValueRef store = LLVMBuildStore(m->b, LLVMBuildExtractElement(m->b, value, lane, ""),
                                          LLVMBuildExtractElement(m->b, addresses, lane, ""));
      LLVMSetAlignment(store, alignment_of(dtype));
    }
    return;
  }
  LLVMTypeRef types[2] = {LLVMTypeOf(value), LLVMTypeOf(addresses)};
  LLVMValueRef args[3] = {value, addresses, mask};
  LLVMValueRef call = dt__emit_intrinsic(m, "llvm.masked.scatter", types, 2, args, 3);
  align_argument(m, call, 2, alignment_of(dtype));
}

// SPDX-License-Identifier: Apache-2.0
// One function of the host program while it is emitted: what it reads from the frame, sizes and
// addresses. Only host….c include it.
#ifndef DT_BACKEND_LLVM_EMIT_HOST_BODY_H
#define DT_BACKEND_LLVM_EMIT_HOST_BODY_H

#include "backend_llvm/emit/body.h"
#include "backend_llvm/load/native.h"

typedef struct dt_host_program_t {
  dt_emit_t *m;
  const dt_unit_map_t *map;
  dt_kernel_params_t *params; // by kernel
  uint32_t *stands;           // by buffer, [id - 1]: 0 but while steps are compared
  uint32_t *once;             // by buffer, [id - 1]: of a ONCE buffer, how many are before it
  DT_VEC(uint32_t) symbols;   // that a call brings
} dt_host_program_t;

typedef struct dt_host_t {
  dt_body_t k;
  const dt_host_program_t *of;
  LLVMValueRef frame;
  LLVMValueRef words; // stack, for the kernel with the most
  LLVMValueRef table; // stack, addresses for a step that repeats another
  LLVMValueRef bad;   // plans: a slot (i1), whether anything was computed that has no value
  uint32_t level;     // of the code being made: 1 inside of a loop over slices
  bool numbered;      // a launch says which kernel it is of
} dt_host_t;

dt_status_t dt__host_find_symbols(dt_host_program_t *p) DT_MUST_USE;
// Opens `name`; `symbols`: binds every symbol that a call brings, and those of its first
// `readbacks` readbacks.
dt_status_t dt__host_open(dt_host_t *h, const dt_host_program_t *p, const char *name,
                          LLVMTypeRef result, bool symbols, uint32_t readbacks) DT_MUST_USE;
// The same for a function that gets a table besides, h->table.
dt_status_t dt__host_open_repeat(dt_host_t *h, const dt_host_program_t *p, const char *name,
                                 bool symbols, uint32_t readbacks) DT_MUST_USE;
// Calls a function of the host program, made before, on the frame, and on h->table.
LLVMValueRef dt__host_call(dt_host_t *h, const char *name, LLVMTypeRef result);
void dt__host_call_repeat(dt_host_t *h, const char *name);

// ---- The frame ------------------------------------------------------------------------------------
LLVMValueRef dt__host_field(dt_host_t *h, size_t offset); // its address
LLVMValueRef dt__host_load_field(dt_host_t *h, LLVMTypeRef type, size_t offset);
// Word `index` of an array of words.
LLVMValueRef dt__host_load_at(dt_host_t *h, LLVMTypeRef type, LLVMValueRef base, int64_t index);
void dt__host_store_at(dt_host_t *h, LLVMValueRef value, LLVMValueRef base, int64_t index);

// ---- Values ---------------------------------------------------------------------------------------
// Plans: where `bit` is true, something that is needed has no value.
void dt__host_note_bad(dt_host_t *h, LLVMValueRef bit);
// What was just computed is needed: a plan fails where it has no value.
LLVMValueRef dt__host_needed(dt_host_t *h, LLVMValueRef value);
LLVMValueRef dt__host_value(dt_host_t *h, dt_sym_t e);
// Made once a function, and known in all of it.
LLVMValueRef dt__host_address(dt_host_t *h, dt_buffer_id_t id);

// ---- Device sizes ---------------------------------------------------------------------------------
// In programs of device sizes the host knows no readback: what it computes are bounds.
dt_sym_t dt__host_most(const dt_host_t *h, dt_sym_t e);
// An axis of the grid that is launched. Kernels use a grid-stride loop, so any grid is right. An
// axis without a bound gets its length with every readback at its most, and at least 1.
dt_sym_t dt__host_axis(const dt_host_t *h, dt_sym_t axis);
// The schedule's predicate with every readback at its most. Readbacks may be less, and then the
// predicate need not hold: a schedule whose code relies on it is not taken, and has none here.
dt_sym_t dt__host_predicate(const dt_host_t *h, const dt_schedule_t *schedule);

// ---- Steps (host_repeats.c) -----------------------------------------------------------------------
// Kernels that are launched together.
typedef struct dt_host_step_t {
  uint32_t first, end;
  uint32_t of;             // 1 + the earlier step that it is but for its buffers; 0: none
  bool repeated;           // it is one that others are
  uint32_t n_buffers;      // of these:
  dt_buffer_id_t *buffers; // in one order for all that are alike
} dt_host_step_t;
// Cuts kernels [first, last) into steps. Only steps of a section that is not the first, and with
// `repeats` all, are compared with each other.
dt_status_t dt__host_steps(const dt_host_program_t *p, uint32_t first, uint32_t last, bool repeats,
                           dt_host_step_t **out, uint32_t *out_n) DT_MUST_USE;

// ---- Plans (host_plan.c) --------------------------------------------------------------------------
dt_status_t dt__host_plan(const dt_host_program_t *p, uint32_t segment) DT_MUST_USE;
// The largest scratch of kernels first … last - 1 under any of their schedules.
LLVMValueRef dt__host_scratch(dt_host_t *h, uint32_t first, uint32_t last);
// Whether the kernel is launched: makers of a chain run with its head.
bool dt__host_launches(const dt_program_t *program, uint32_t kernel);

#endif // DT_BACKEND_LLVM_EMIT_HOST_BODY_H

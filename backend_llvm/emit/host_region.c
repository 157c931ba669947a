// SPDX-License-Identifier: Apache-2.0
// Control in the host program: data decides which parts of a segment run, and how often. On CPUs
// this code reads the predicate's byte. On devices it asks the frame for the answer. If the frame
// is told of regions, every part runs once instead, between marks.
#include "backend_llvm/emit/host.h"

#include "backend_llvm/load/native.h"
#include "runtime/base/control.h"
#include "runtime/base/status.h"

#include <stdio.h>

typedef struct control_t {
  dt_emit_t *m;
  LLVMValueRef fn, frame;
  LLVMValueRef told;   // devices: i1, the frame is told of regions
  LLVMValueRef answer; // stack, i64: what was last decided
} control_t;

uint32_t dt__region_part_end(const dt_program_t *program, uint32_t first, uint32_t last,
                             uint32_t after) {
  uint32_t end = first + 1;
  while (end < last && dt__region_at(program, end, after) == UINT32_MAX)
    end++;
  return end;
}

// ---- Pieces ---------------------------------------------------------------------------------------
static LLVMValueRef load_field(control_t *c, LLVMTypeRef type, size_t offset) {
  dt_emit_t *m = c->m;
  LLVMValueRef at = dt__emit_offset(m, c->frame, dt__emit_i64(m, (int64_t)offset));
  return LLVMBuildLoad2(m->b, type, at, "");
}

static LLVMValueRef call_named(control_t *c, const char *prefix, uint32_t number,
                               LLVMTypeRef result) {
  dt_emit_t *m = c->m;
  char name[32];
  snprintf(name, sizeof(name), "%s_%u", prefix, number);
  LLVMValueRef fn = LLVMGetNamedFunction(m->module, name);
  if (!fn) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "host program: no function %s", name));
    return NULL;
  }
  LLVMTypeRef type = LLVMFunctionType(result, &m->t_ptr, 1, 0);
  return LLVMBuildCall2(m->b, type, fn, &c->frame, 1, "");
}

// Whether the frame has to read predicates, and may want to be told of regions.
static bool asks_frame(const control_t *c) { return c->m->target->own_memory; }

static LLVMBasicBlockRef block(control_t *c, const char *name) {
  return dt__emit_block(c->m, c->fn, name);
}

static void go_to(control_t *c, LLVMBasicBlockRef to) {
  LLVMBuildBr(c->m->b, to);
  LLVMPositionBuilderAtEnd(c->m->b, to);
}

static void set_answer(control_t *c, LLVMValueRef value) {
  LLVMBuildStore(c->m->b, value, c->answer);
}

static LLVMValueRef is_yes(control_t *c) {
  dt_emit_t *m = c->m;
  LLVMValueRef answer = LLVMBuildLoad2(m->b, m->t_i64, c->answer, "");
  return LLVMBuildICmp(m->b, LLVMIntNE, answer, dt__emit_i64(m, 0), "");
}

// ---- Decisions ------------------------------------------------------------------------------------
static void mark(control_t *c, int64_t which, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  LLVMTypeRef params[3] = {m->t_ptr, m->t_i64, m->t_ptr};
  LLVMTypeRef type = LLVMFunctionType(m->t_void, params, 3, 0);
  LLVMValueRef args[3] = {c->frame, dt__emit_i64(m, which), predicate};
  LLVMValueRef fn = load_field(c, m->t_ptr, offsetof(dt_frame_t, region));
  LLVMBuildCall2(m->b, type, fn, args, 3, "");
}

static void read_byte(control_t *c, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  LLVMValueRef byte = LLVMBuildLoad2(m->b, m->t_i8, predicate, "");
  set_answer(c, LLVMBuildZExt(m->b, byte, m->t_i64, ""));
}

static void ask_frame(control_t *c, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  LLVMTypeRef params[2] = {m->t_ptr, m->t_ptr};
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, params, 2, 0);
  LLVMValueRef args[2] = {c->frame, predicate};
  LLVMValueRef fn = load_field(c, m->t_ptr, offsetof(dt_frame_t, read_flag));
  set_answer(c, LLVMBuildCall2(m->b, type, fn, args, 2, ""));
}

// The predicate as the answer; a frame that is told of regions hears `which` and gets `told`.
static void decide(control_t *c, int64_t which, int64_t told, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  if (!asks_frame(c)) {
    read_byte(c, predicate);
    return;
  }
  LLVMBasicBlockRef tell = block(c, "tell"), ask = block(c, "ask"), next = block(c, "decided");
  LLVMBuildCondBr(m->b, c->told, tell, ask);
  LLVMPositionBuilderAtEnd(m->b, tell);
  mark(c, which, predicate);
  set_answer(c, dt__emit_i64(m, told));
  LLVMBuildBr(m->b, next);
  LLVMPositionBuilderAtEnd(m->b, ask);
  ask_frame(c, predicate);
  go_to(c, next);
}

// Marks a region for a frame that asked for marks (`told`); other frames hear nothing.
static void tell(control_t *c, int64_t which, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  if (!asks_frame(c))
    return;
  LLVMBasicBlockRef some = block(c, "tell"), next = block(c, "told");
  LLVMBuildCondBr(m->b, c->told, some, next);
  LLVMPositionBuilderAtEnd(m->b, some);
  mark(c, which, predicate);
  go_to(c, next);
}

// ---- Regions --------------------------------------------------------------------------------------
static void emit_kernels(control_t *c, uint32_t first, uint32_t last, uint32_t after);

static void emit_inside(control_t *c, uint32_t at) {
  const dt_program_region_t *region = &c->m->program.regions.items[at];
  emit_kernels(c, region->first, region->end, at + 1);
}

// Runs the region's kernels where `runs`.
static void emit_guarded(control_t *c, uint32_t at, LLVMValueRef runs) {
  LLVMBasicBlockRef some = block(c, "runs"), next = block(c, "next");
  LLVMBuildCondBr(c->m->b, runs, some, next);
  LLVMPositionBuilderAtEnd(c->m->b, some);
  emit_inside(c, at);
  go_to(c, next);
}

// The ELSE that follows the IF and has kernels, or UINT32_MAX.
static uint32_t else_of(const dt_program_t *program, uint32_t at) {
  uint32_t other = dt__region_else(program, at);
  bool some = other != UINT32_MAX &&
              program->regions.items[other].end > program->regions.items[other].first;
  return some ? other : UINT32_MAX;
}

// The IF's answer is kept: parts of it may write the predicate's memory when it is dead.
static void emit_if(control_t *c, uint32_t at, uint32_t other, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  decide(c, DT_MARK_IF, 1, predicate);
  LLVMValueRef then = is_yes(c);
  LLVMValueRef not_then = LLVMBuildXor(m->b, then, LLVMConstInt(m->t_i1, 1, 0), "");
  emit_guarded(c, at, then);
  if (other != UINT32_MAX) {
    tell(c, DT_MARK_ELSE, predicate);
    if (asks_frame(c))
      not_then = LLVMBuildOr(m->b, not_then, c->told, "");
    emit_guarded(c, other, not_then);
  }
  tell(c, DT_MARK_ENDIF, predicate);
}

// An ELSE whose IF has no kernels.
static void emit_else(control_t *c, uint32_t at, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  decide(c, DT_MARK_IF, 0, predicate);
  tell(c, DT_MARK_ELSE, predicate);
  emit_guarded(c, at, LLVMBuildXor(m->b, is_yes(c), LLVMConstInt(m->t_i1, 1, 0), ""));
  tell(c, DT_MARK_ENDIF, predicate);
}

// What ends the call ends its loops.
static LLVMValueRef is_stopped(control_t *c) {
  dt_emit_t *m = c->m;
  LLVMBasicBlockRef from = LLVMGetInsertBlock(m->b);
  LLVMBasicBlockRef look = block(c, "look"), next = block(c, "looked");
  LLVMValueRef control = load_field(c, m->t_ptr, offsetof(dt_frame_t, control));
  LLVMBuildCondBr(m->b, LLVMBuildIsNull(m->b, control, ""), next, look);
  LLVMPositionBuilderAtEnd(m->b, look);
  LLVMValueRef at = dt__emit_offset(m, control, dt__emit_i64(m, offsetof(dt_control_t, stopped)));
  LLVMValueRef code = LLVMBuildLoad2(m->b, m->t_i32, at, "");
  LLVMSetVolatile(code, 1);
  LLVMValueRef values[2] = {LLVMConstNull(m->t_i1),
                            LLVMBuildICmp(m->b, LLVMIntNE, code, dt__emit_i32(m, 0), "")};
  LLVMBasicBlockRef blocks[2] = {from, look};
  go_to(c, next);
  LLVMValueRef stopped = LLVMBuildPhi(m->b, m->t_i1, "");
  LLVMAddIncoming(stopped, values, blocks, 2);
  return stopped;
}

// A failed data check ends a loop: what decides about it was computed in spite of the failure.
static LLVMValueRef goes_on(control_t *c) {
  dt_emit_t *m = c->m;
  LLVMValueRef yes = is_yes(c);
  if (asks_frame(c)) // whose callback says no
    return yes;
  LLVMValueRef check =
      load_field(c, m->t_i64, offsetof(dt_frame_t, record) + offsetof(dt_launch_record_t, check));
  LLVMValueRef good = LLVMBuildICmp(m->b, LLVMIntEQ, check, dt__emit_i64(m, 0), "");
  LLVMValueRef stopped = is_stopped(c);
  return LLVMBuildAnd(m->b, LLVMBuildAnd(m->b, yes, good, ""), LLVMBuildNot(m->b, stopped, ""), "");
}

static void emit_while(control_t *c, uint32_t at, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  LLVMBasicBlockRef head = block(c, "while"), trip = block(c, "trip"), next = block(c, "done");
  decide(c, DT_MARK_WHILE, 1, predicate);
  go_to(c, head);
  LLVMBuildCondBr(m->b, goes_on(c), trip, next);
  LLVMPositionBuilderAtEnd(m->b, trip);
  emit_inside(c, at);
  decide(c, DT_MARK_AGAIN, 0, predicate);
  LLVMBuildBr(m->b, head);
  LLVMPositionBuilderAtEnd(m->b, next);
}

// Whether the answer is that of case `index` of `n`; a frame that is told comes to all of them.
static LLVMValueRef is_case(control_t *c, LLVMValueRef answer, uint32_t index, uint32_t n) {
  dt_emit_t *m = c->m;
  LLVMIntPredicate how = index + 1 == n ? LLVMIntUGE : LLVMIntEQ;
  LLVMValueRef is = LLVMBuildICmp(m->b, how, answer, dt__emit_i64(m, index), "");
  return asks_frame(c) ? LLVMBuildOr(m->b, is, c->told, "") : is;
}

// All cases of a switch; gives the kernel after them.
static uint32_t emit_switch(control_t *c, uint32_t first, LLVMValueRef predicate) {
  dt_emit_t *m = c->m;
  const dt_program_t *program = &m->program;
  uint32_t n = program->regions.items[first].n, end = 0;
  decide(c, (int64_t)DT_MARK_SWITCH | (int64_t)n << DT_MARK_CASES, 0, predicate);
  LLVMValueRef answer = LLVMBuildLoad2(m->b, m->t_i64, c->answer, "");
  for (uint32_t at = first; at != UINT32_MAX; at = dt__region_next_case(program, at)) {
    const dt_program_region_t *region = &program->regions.items[at];
    if (region->index)
      tell(c, DT_MARK_CASE, predicate);
    if (region->end == region->first)
      continue;
    emit_guarded(c, at, is_case(c, answer, region->index, n));
    end = region->end;
  }
  tell(c, DT_MARK_ENDSWITCH, predicate);
  return end;
}

// The region, the ELSE of an IF and the other cases of a switch; gives the kernel after them.
static uint32_t emit_region(control_t *c, uint32_t at) {
  const dt_program_t *program = &c->m->program;
  const dt_program_region_t *region = &program->regions.items[at];
  LLVMValueRef predicate = call_named(c, "dt_flag", at, c->m->t_ptr);
  if (!predicate)
    return region->end;
  if (region->kind == DT_REGION_WHILE) {
    emit_while(c, at, predicate);
    return region->end;
  }
  if (region->kind == DT_REGION_CASE)
    return emit_switch(c, dt__region_cases(program, at), predicate);
  if (region->kind == DT_REGION_ELSE) {
    emit_else(c, at, predicate);
    return region->end;
  }
  uint32_t other = else_of(program, at);
  emit_if(c, at, other, predicate);
  return other == UINT32_MAX ? region->end : program->regions.items[other].end;
}

static void emit_kernels(control_t *c, uint32_t first, uint32_t last, uint32_t after) {
  const dt_program_t *program = &c->m->program;
  for (uint32_t k = first; k < last && !c->m->failure;) {
    uint32_t at = dt__region_at(program, k, after);
    if (at != UINT32_MAX) {
      k = emit_region(c, at);
      continue;
    }
    (void)call_named(c, "dt_part", k, c->m->t_void);
    k = dt__region_part_end(program, k, last, after);
  }
}

dt_status_t dt__emit_regions(dt_emit_t *m, const char *name, uint32_t first, uint32_t last) {
  control_t c = {.m = m};
  LLVMTypeRef type = LLVMFunctionType(m->t_void, &m->t_ptr, 1, 0);
  c.fn = dt__emit_function(m, name, type, true);
  c.frame = LLVMGetParam(c.fn, 0);
  LLVMPositionBuilderAtEnd(m->b, block(&c, "entry"));
  c.answer = LLVMBuildAlloca(m->b, m->t_i64, "");
  if (asks_frame(&c)) {
    LLVMValueRef hook = load_field(&c, m->t_i64, offsetof(dt_frame_t, region));
    c.told = LLVMBuildICmp(m->b, LLVMIntNE, hook, dt__emit_i64(m, 0), "");
  }
  emit_kernels(&c, first, last, 0);
  LLVMBuildRetVoid(m->b);
  return NULL; // a failure is kept in m
}

// SPDX-License-Identifier: Apache-2.0
// dt_plan_<k>: binds the numbers that segment k reads from data and evaluates the sizes that are
// known by then, with every operation checked for overflow. Long plans are cut into pieces.
#include "backend_llvm/emit/host.h"

#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/host_body.h"
#include "backend_llvm/emit/index.h"
#include "runtime/base/status.h"

#include <stdio.h>

#define MOST_STEPS 256 // asserts, buffers, slices and outputs of one plan
#define PIECE_STEPS 64 // of a plan in pieces
#define PLAN_PARTS 5   // kinds of them
#define MOST_JOINED 16 // sizes that one symbolic maximum is made of

// Unsigned comparison: a negative value is refused too.
static void require_below_limit(dt_host_t *h, LLVMValueRef value) {
  dt_emit_t *m = h->k.m;
  dt__host_note_bad(h, LLVMBuildICmp(m->b, LLVMIntUGE, value, dt__emit_i64(m, DT_SIZE_LIMIT), ""));
}

// Goes on where `holds`; elsewhere the plan ends with `answer`.
static void require(dt_host_t *h, LLVMValueRef holds, int64_t answer) {
  dt_emit_t *m = h->k.m;
  LLVMBasicBlockRef failed = dt__emit_block(m, h->k.fn, "failed");
  LLVMBasicBlockRef next = dt__emit_block(m, h->k.fn, "next");
  LLVMBuildCondBr(m->b, holds, next, failed);
  LLVMPositionBuilderAtEnd(m->b, failed);
  LLVMBuildRet(m->b, dt__emit_i64(m, answer));
  h->k.scopes[0].block = next;
  dt__body_at(&h->k, 0);
}

// Reads the segment's readbacks into the frame's symbols. Whatever is computed from one later
// relies on its range, so that is tested first.
static void plan_readbacks(dt_host_t *h, const dt_segment_span_t *span) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = span->readback; i < span->readback_end; i++) {
    const dt_readback_t *readback = &m->program.readbacks.items[i];
    LLVMValueRef value =
        m->target->own_memory
            ? dt__host_load_at(
                  h, m->t_i64,
                  dt__host_load_field(h, m->t_ptr, offsetof(dt_frame_t, readback_values)), i)
            : LLVMBuildLoad2(m->b, m->t_i64, dt__host_address(h, readback->buffer), "");
    dt__host_store_at(h, value, dt__host_load_field(h, m->t_ptr, offsetof(dt_frame_t, symbols)),
                      readback->symbol);
    dt_range_t range = dt__symbol_info(m->env, readback->symbol).range;
    LLVMValueRef low = LLVMBuildICmp(m->b, LLVMIntSGE, value, dt__emit_i64(m, range.lo), "");
    LLVMValueRef high = LLVMBuildICmp(m->b, LLVMIntSLE, value, dt__emit_i64(m, range.hi), "");
    require(h, LLVMBuildAnd(m->b, low, high, ""), -2 - (int64_t)i);
    dt__bind_uniform(&h->k, readback->symbol, 0, value);
  }
}

static void plan_asserts(dt_host_t *h, uint32_t segment, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  const dt_graph_t *graph = m->program.graph;
  for (uint32_t i = first; i < last; i++) {
    dt_sym_t cond = graph->asserts.items[i].cond;
    bool later = m->program.device_sized && dt__expr_readbacks(&m->program, cond);
    if (later || dt__llvm_segment_of(&m->program, cond) != segment)
      continue;
    LLVMValueRef truth = dt__host_value(h, cond);
    require(h, LLVMBuildICmp(m->b, LLVMIntNE, truth, dt__emit_i64(m, 0), ""), (int64_t)i + 1);
  }
}

// A number that the program takes for data is what its expression says, or the call ends.
static void plan_number(dt_host_t *h, uint32_t segment, dt_sym_t number) {
  dt_emit_t *m = h->k.m;
  bool later = m->program.device_sized && dt__expr_readbacks(&m->program, number);
  if (later || dt__llvm_segment_of(&m->program, number) != segment)
    return;
  (void)dt__index_scalar(&h->k, number);
  dt__body_at(&h->k, h->level);
  LLVMValueRef none = h->k.overflow.none;
  h->k.overflow.none = NULL;
  if (none)
    require(h, LLVMBuildNot(m->b, none, ""), DT_PLAN_NO_NUMBER);
}

// Those of bodies, too, whatever way the call goes.
static void plan_numbers_of(dt_host_t *h, uint32_t segment, const dt_graph_t *graph) {
  for (uint32_t i = 0; i < graph->nodes.len; i++)
    if (graph->nodes.items[i].op == DT_OP_size)
      plan_number(h, segment, graph->nodes.items[i].attrs->syms[0]);
  for (uint32_t i = 0; i < graph->controls.len; i++)
    for (uint32_t k = 0; k < dt__control_own_n(&graph->controls.items[i]); k++)
      plan_numbers_of(h, segment, graph->controls.items[i].bodies[k]);
}

static void plan_numbers(dt_host_t *h, uint32_t segment, uint32_t first, uint32_t last) {
  if (first < last)
    plan_numbers_of(h, segment, h->k.m->program.graph);
}

#define FEW_BUFFERS 64 // of a layer, about

// A buffer shortly before it has the same sizes.
static bool is_alike_before(const dt_program_t *program, uint32_t at) {
  const dt_buffer_t *own = &program->buffers.items[at];
  for (uint32_t i = at; i-- > (at > FEW_BUFFERS ? at - FEW_BUFFERS : 0);) {
    const dt_buffer_t *other = &program->buffers.items[i];
    bool alike = other->kind == own->kind && other->dtype == own->dtype &&
                 other->rank == own->rank && dt__layouts_same(other, own);
    for (uint32_t d = 0; alike && d < own->rank; d++)
      alike = other->sizes[d].id == own->sizes[d].id;
    if (alike)
      return true;
  }
  return false;
}

// Sizes and bytes of the buffers that this segment is the first to know.
static void plan_buffers(dt_host_t *h, uint32_t segment, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = first; i < last; i++) {
    const dt_buffer_t *buffer = &m->program.buffers.items[i];
    dt_buffer_id_t id = {i + 1};
    if (buffer->kind == DT_BUFFER_INPUT || buffer->kind == DT_BUFFER_CONSTANT ||
        dt__llvm_sizes_segment(&m->program, id) != segment)
      continue;
    if (m->program.device_sized && !dt__program_stores_to(&m->program, id.id))
      continue; // it may have no bound
    if (!m->program.device_sized && is_alike_before(&m->program, i))
      continue;
    for (uint32_t d = 0; d < buffer->rank; d++) {
      dt_sym_t size = dt__host_most(h, buffer->sizes[d]);
      dt_range_t range = dt__sym_range(m->env, size);
      if (range.lo < 0 || range.hi >= DT_SIZE_LIMIT)
        require_below_limit(h, dt__host_value(h, size));
    }
    LLVMValueRef count = dt__host_value(h, dt__host_most(h, dt__buffer_count(&m->program, id)));
    LLVMValueRef item = dt__emit_i64(m, (int64_t)dt_dtype_size(buffer->dtype));
    require_below_limit(h, dt__host_needed(h, dt__index_product(&h->k, count, item)));
  }
}

// A loop over slices ends: its extent is no more than a size may be, also where the buffers that it
// walks have no elements.
static void plan_slices(dt_host_t *h, uint32_t segment, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  dt_segment_span_t span = dt__llvm_segment_span(&m->program, segment);
  for (uint32_t i = first; i < last; i++) {
    const dt_program_slices_t *slices = &m->program.slices.items[i];
    if (slices->first >= span.kernel && slices->end <= span.kernel_end)
      require_below_limit(h, dt__host_value(h, slices->extent));
  }
}

static void plan_outputs(dt_host_t *h, uint32_t segment, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef sizes = dt__host_load_field(h, m->t_ptr, offsetof(dt_frame_t, output_sizes));
  int64_t at = 0;
  for (uint32_t o = 0; o < first; o++)
    at += dt__program_buffer(&m->program, m->program.outputs.items[o])->rank;
  for (uint32_t o = first; o < last; o++) {
    dt_buffer_id_t id = m->program.outputs.items[o];
    const dt_buffer_t *buffer = dt__program_buffer(&m->program, id);
    bool known = dt__llvm_sizes_segment(&m->program, id) == segment;
    for (uint32_t d = 0; known && d < buffer->rank; d++) {
      bool packed = buffer->row.id && d + 1 == buffer->rank;
      dt_sym_t size = packed ? buffer->row : buffer->sizes[d];
      dt__host_store_at(h, dt__host_value(h, size), sizes, at + d);
    }
    at += buffer->rank;
  }
}

bool dt__host_launches(const dt_program_t *program, uint32_t kernel) {
  return dt__kernel_chain(program, kernel).end == kernel + 1;
}

// ---- Scratch --------------------------------------------------------------------------------------
// Of `a`, which may be NULL, and b.
static LLVMValueRef larger(dt_host_t *h, LLVMValueRef a, LLVMValueRef b) {
  dt_emit_t *m = h->k.m;
  if (!a)
    return b;
  LLVMValueRef more = LLVMBuildICmp(m->b, LLVMIntSGT, a, b, "");
  return LLVMBuildSelect(m->b, more, a, b, "");
}

LLVMValueRef dt__host_scratch(dt_host_t *h, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  dt_sym_t most = dt__sym_const(m->env, 0), last_own = DT_SYM_NONE_ID;
  LLVMValueRef value = NULL;
  uint32_t joined = 0;
  for (uint32_t i = first; i < last; i++) {
    uint32_t n = dt__host_launches(&m->program, i) ? m->program.kernels.items[i].schedules.len : 0;
    for (uint32_t s = 0; s < n; s++) {
      dt_sym_t own = dt__host_most(h, dt__chain_scratch(m, i, s, NULL));
      if (own.id == last_own.id)
        continue;
      last_own = own;
      most = dt__sym_max(m->env, most, own);
      if (++joined % MOST_JOINED)
        continue;
      value = larger(h, value, dt__host_value(h, most));
      most = dt__sym_const(m->env, 0);
    }
  }
  return larger(h, value, dt__host_value(h, most));
}

// ---- All of it ------------------------------------------------------------------------------------
// What a plan goes through, but for readbacks: in this order, and in pieces where it is much.
typedef struct plan_part_t {
  void (*emit)(dt_host_t *h, uint32_t segment, uint32_t first, uint32_t last);
  uint32_t n;
} plan_part_t;

static plan_part_t plan_part(const dt_program_t *program, uint32_t index) {
  const plan_part_t parts[PLAN_PARTS] = {
      {plan_asserts, program->graph ? program->graph->asserts.len : 0},
      {plan_numbers, program->graph ? 1 : 0},
      {plan_buffers, program->buffers.len},
      {plan_slices, program->slices.len},
      {plan_outputs, program->outputs.len},
  };
  return parts[index];
}

static dt_status_t open_plan(dt_host_t *h, const dt_host_program_t *p, const char *name,
                             uint32_t readbacks) {
  dt_emit_t *m = p->m;
  DT_TRY(dt__host_open(h, p, name, m->t_i64, true, readbacks));
  h->k.overflow.checks = true;
  h->bad = dt__body_slot(&h->k, m->t_i1, 1);
  LLVMBuildStore(m->b, LLVMConstNull(m->t_i1), h->bad);
  return NULL;
}

static void close_plan(dt_host_t *h) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef bad = LLVMBuildLoad2(m->b, m->t_i1, h->bad, "");
  LLVMBuildRet(m->b, LLVMBuildSelect(m->b, bad, dt__emit_i64(m, -1), dt__emit_i64(m, 0), ""));
}

// Functions for all of the parts; returns how many.
static dt_status_t emit_plan_pieces(const dt_host_program_t *p, uint32_t segment,
                                    uint32_t readbacks, uint32_t *out_n) {
  const dt_emit_t *m = p->m;
  for (uint32_t i = 0; i < PLAN_PARTS; i++) {
    plan_part_t part = plan_part(&m->program, i);
    for (uint32_t first = 0; first < part.n; first += PIECE_STEPS) {
      dt_host_t h;
      char name[48];
      snprintf(name, sizeof(name), "dt_plan_%u_%u", segment, (*out_n)++);
      DT_TRY(open_plan(&h, p, name, readbacks));
      part.emit(&h, segment, first, part.n - first < PIECE_STEPS ? part.n : first + PIECE_STEPS);
      close_plan(&h);
    }
  }
  return NULL;
}

// A piece's answer ends the plan; that something was too large (-1) is told when all is done.
static void call_plan_piece(dt_host_t *h, uint32_t segment, uint32_t piece) {
  dt_emit_t *m = h->k.m;
  char name[48];
  snprintf(name, sizeof(name), "dt_plan_%u_%u", segment, piece);
  LLVMValueRef answer = dt__host_call(h, name, m->t_i64);
  LLVMBasicBlockRef failed = dt__emit_block(m, h->k.fn, "failed");
  LLVMBasicBlockRef next = dt__emit_block(m, h->k.fn, "next");
  LLVMValueRef large = LLVMBuildICmp(m->b, LLVMIntEQ, answer, dt__emit_i64(m, -1), "");
  LLVMValueRef none = LLVMBuildICmp(m->b, LLVMIntEQ, answer, dt__emit_i64(m, 0), "");
  dt__host_note_bad(h, large);
  LLVMBuildCondBr(m->b, LLVMBuildOr(m->b, large, none, ""), next, failed);
  LLVMPositionBuilderAtEnd(m->b, failed);
  LLVMBuildRet(m->b, answer);
  h->k.scopes[0].block = next;
  dt__body_at(&h->k, 0);
}

dt_status_t dt__host_plan(const dt_host_program_t *p, uint32_t segment) {
  dt_emit_t *m = p->m;
  dt_host_t h;
  char name[32];
  uint32_t steps = 0, pieces = 0;
  snprintf(name, sizeof(name), "dt_plan_%u", segment);
  dt_segment_span_t span = dt__llvm_segment_span(&m->program, segment);
  for (uint32_t i = 0; i < PLAN_PARTS; i++)
    steps += plan_part(&m->program, i).n;
  if (steps > MOST_STEPS)
    DT_TRY(emit_plan_pieces(p, segment, span.readback_end, &pieces));
  DT_TRY(open_plan(&h, p, name, span.readback));
  plan_readbacks(&h, &span);
  for (uint32_t i = 0; i < PLAN_PARTS && !pieces; i++) {
    plan_part_t part = plan_part(&m->program, i);
    part.emit(&h, segment, 0, part.n);
  }
  for (uint32_t k = 0; k < pieces; k++)
    call_plan_piece(&h, segment, k);
  LLVMValueRef block =
      dt__host_value(&h, span.block_bytes.id ? span.block_bytes : dt__sym_const(m->env, 0));
  require_below_limit(&h, block);
  LLVMBuildStore(m->b, block, dt__host_field(&h, offsetof(dt_frame_t, block_bytes)));
  LLVMValueRef scratch = dt__host_scratch(&h, span.kernel, span.kernel_end);
  require_below_limit(&h, scratch);
  LLVMBuildStore(m->b, scratch, dt__host_field(&h, offsetof(dt_frame_t, scratch_bytes)));
  close_plan(&h);
  return NULL;
}

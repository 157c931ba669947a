// SPDX-License-Identifier: Apache-2.0
// Programs, buffers and stage bodies as data: making them, and sharing equal instructions.
// verify.c has the conditions that they must satisfy.
#include "lower/graph/external.h"
#include "lower/loop/loop_private.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

dt_program_t *dt__program_create(dt_arena_t *arena, dt_symenv_t *env, const dt_graph_t *graph) {
  dt_program_t *program = DT_ARENA_NEW(arena, dt_program_t);
  if (!program)
    return NULL;
  program->arena = arena;
  program->env = env;
  program->graph = graph;
  return program;
}

dt_status_t dt__program_put_buffer(dt_program_t *program, const dt_buffer_t *buffer) {
  if (!DT_VEC_PUSH(program->arena, &program->buffers, *buffer) ||
      !DT_VEC_PUSH(program->arena, &program->offsets, DT_SYM_NONE_ID))
    return DT_NO_MEMORY();
  return NULL;
}

dt_status_t dt__program_add_buffer(dt_program_t *program, const dt_buffer_t *buffer,
                                   dt_buffer_id_t *out) {
  dt_symenv_t *env = program->env;
  *out = (dt_buffer_id_t){0};
  if (buffer->rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_LIMIT, "a buffer of rank %u, the most is %d", buffer->rank, DT_MAX_RANK);
  dt_buffer_t made = *buffer;
  if (made.kind != DT_BUFFER_INPUT)
    dt__buffer_set_strides(env, &made);
  for (uint32_t d = made.rank; d < DT_MAX_RANK; d++)
    made.sizes[d] = made.strides[d] = DT_SYM_NONE_ID;
  DT_TRY(dt__program_put_buffer(program, &made));
  *out = (dt_buffer_id_t){program->buffers.len};
  return NULL;
}

dt_sym_t *dt__exprs_copy(dt_arena_t *arena, const dt_sym_t *exprs, uint32_t n) {
  dt_sym_t *copy = DT_ARENA_ARRAY(arena, dt_sym_t, n ? n : 1);
  if (copy && n)
    memcpy(copy, exprs, n * sizeof(*exprs));
  return copy;
}

// ---- Instructions -------------------------------------------------------------------------------
uint32_t dt__inst_arity(const dt_inst_t *inst) {
  switch (inst->kind) {
  case DT_INST_SCALAR:
    return dt__scalar_info(inst->op)->arity;
  case DT_INST_LOAD:
  case DT_INST_CAST:
  case DT_INST_BITS:
  case DT_INST_BIND:
  case DT_INST_SEARCH:
    return 1;
  case DT_INST_RUNNING:
  case DT_INST_PRIOR:
  case DT_INST_CONST:
  case DT_INST_INDEX:
  case DT_INST_ROW:
  case DT_INST_SOUND:
  case DT_INST_WHOLE:
    return 0;
  }
  return 0;
}

// The instruction with only the fields its kind reads, so that equal ones compare field by field.
static dt_inst_t normal_form(const dt_inst_t *inst) {
  dt_inst_t made = {.kind = inst->kind, .dtype = inst->dtype, .mask = DT_NO_INST};
  uint32_t arity = dt__inst_arity(inst);
  for (uint32_t k = 0; k < 3; k++)
    made.args[k] = k < arity ? inst->args[k] : DT_NO_INST;
  switch (inst->kind) {
  case DT_INST_CONST:
    made.value = inst->value;
    break;
  case DT_INST_INDEX:
    made.sym = inst->sym;
    break;
  case DT_INST_LOAD:
    made.buffer = inst->buffer;
    made.index = inst->index;
    made.mask = inst->mask;
    if (made.mask == DT_NO_INST)
      made.args[0] = DT_NO_INST;
    break;
  case DT_INST_SCALAR:
    made.op = inst->op;
    break;
  case DT_INST_CAST:
  case DT_INST_BITS:
  case DT_INST_SOUND:
    break;
  case DT_INST_WHOLE:
    made.buffer = inst->buffer;
    made.row = inst->row;
    break;
  case DT_INST_ROW:
  case DT_INST_RUNNING:
  case DT_INST_PRIOR:
    made.row = inst->row;
    break;
  case DT_INST_SEARCH:
    made.buffer = inst->buffer;
    made.inclusive = inst->inclusive;
    break;
  case DT_INST_BIND:
    made.sym = inst->sym;
    made.extent = inst->extent;
    made.check = inst->check;
    made.mask = inst->mask;
    break;
  }
  return made;
}

// Binds are equal when they bind to the same value, whatever their symbols are called.
static bool same_inst(const dt_inst_t *a, const dt_inst_t *b, uint32_t rank) {
  bool same_sym = a->kind == DT_INST_BIND || a->sym.id == b->sym.id;
  if (a->kind != b->kind || a->dtype != b->dtype || a->op != b->op || a->mask != b->mask ||
      a->row != b->row || a->inclusive != b->inclusive || a->check != b->check ||
      a->buffer.id != b->buffer.id || !same_sym || a->extent.id != b->extent.id ||
      a->value.i != b->value.i || memcmp(a->args, b->args, sizeof(a->args)) != 0)
    return false;
  return a->kind != DT_INST_LOAD || dt__syms_same(rank, a->index, b->index);
}

// The instruction of `stage` that `made`, in normal form, equals, or DT_NO_INST.
static uint32_t find_inst(const dt_program_t *program, const dt_stage_t *stage,
                          const dt_inst_t *made) {
  uint32_t rank = made->kind == DT_INST_LOAD ? dt__program_buffer(program, made->buffer)->rank : 0;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (same_inst(&stage->insts.items[i], made, rank))
      return i;
  return DT_NO_INST;
}

dt_status_t dt__stage_add(dt_program_t *program, dt_stage_t *stage, const dt_inst_t *inst,
                          uint32_t *out) {
  *out = DT_NO_INST;
  dt_inst_t made = normal_form(inst);
  bool reads = made.kind == DT_INST_LOAD || made.kind == DT_INST_SEARCH;
  if (reads && (made.buffer.id == 0 || made.buffer.id > program->buffers.len))
    return DT_FAIL(DT_E_INTERNAL, "a load from buffer %u of %u", made.buffer.id,
                   program->buffers.len);
  // Users of a bind name the symbol that it defines: only who renames them may share an equal one
  // (fusion, when it copies bodies).
  if (made.kind != DT_INST_BIND) {
    *out = find_inst(program, stage, &made);
    if (*out != DT_NO_INST)
      return NULL;
  }
  if (made.kind == DT_INST_LOAD) {
    made.index =
        dt__exprs_copy(program->arena, made.index, dt__program_buffer(program, made.buffer)->rank);
    if (!made.index)
      return DT_NO_MEMORY();
  }
  if (!DT_VEC_PUSH(program->arena, &stage->insts, made))
    return DT_NO_MEMORY();
  *out = stage->insts.len - 1;
  return NULL;
}

dt_sym_t dt__program_new_data(dt_program_t *program, dt_sym_t extent) {
  dt_range_t range = dt__sym_range(program->env, extent);
  int64_t hi = range.hi < 1 ? 0 : range.hi == INT64_MAX ? INT64_MAX : range.hi - 1;
  return dt__sym_new(program->env, DT_SYMBOL_DATA, (dt_range_t){0, hi}, NULL, "");
}

bool dt__call_takes_place(const dt_program_t *program, const dt_kernel_t *kernel, uint32_t old,
                          uint32_t fresh) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_graph_external_t *call = kernel->external <= program->externals.len
                                        ? program->externals.items[kernel->external - 1]
                                        : NULL;
  uint32_t k = 0;
  if (!call || !call->def || !call->def->options.in_place || call->part != DT_EXTERNAL_KERNEL)
    return false;
  while (k < stage->stores.len && stage->stores.items[k].buffer.id != fresh)
    k++;
  uint32_t operand = k < stage->stores.len ? call->def->options.updates[k] : 0;
  bool takes =
      operand && program->buffers.items[old - 1].dtype == program->buffers.items[fresh - 1].dtype;
  for (uint32_t i = 0; i < stage->insts.len && takes; i++)
    if (stage->insts.items[i].buffer.id)
      takes = (stage->insts.items[i].buffer.id == old) == (i + 1 == operand);
  return takes;
}

bool dt__kernel_stores_to(const dt_kernel_t *kernel, uint32_t id) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++)
      if (kernel->stages.items[s].stores.items[i].buffer.id == id)
        return true;
  return false;
}

bool dt__program_stores_to(const dt_program_t *program, uint32_t id) {
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (dt__kernel_stores_to(&program->kernels.items[k], id))
      return true;
  return false;
}

bool dt__kernel_has_locals(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
      dt_buffer_id_t id = kernel->stages.items[s].stores.items[i].buffer;
      if (dt__program_buffer(program, id)->kind == DT_BUFFER_LOCAL)
        return true;
    }
  return false;
}

// ---- Chains -------------------------------------------------------------------------------------
dt_kernel_chain_t dt__kernel_chain(const dt_program_t *program, uint32_t k) {
  dt_kernel_chain_t chain = {k, k + 1};
  uint32_t own = program->kernels.items[k].chain;
  while (own && chain.first > 0 && program->kernels.items[chain.first - 1].chain == own)
    chain.first--;
  while (own && chain.end < program->kernels.len && program->kernels.items[chain.end].chain == own)
    chain.end++;
  return chain;
}

bool dt__chain_is_bundle(const dt_program_t *program, dt_kernel_chain_t chain) {
  const dt_kernel_t *last = &program->kernels.items[chain.end - 1];
  return last->chain && last->schedules.len && !dt__schedule_is_product(&last->schedules.items[0]);
}

#define MANY_ROWS_GROUPS 3

// As many as processors have room for at once. Where tiles of rows are more than processors, as
// many as leave little idle at the end.
dt_sym_t dt__chain_groups(dt_symenv_t *env, int64_t processors, dt_sym_t made, dt_sym_t cols) {
  dt_sym_t one = dt__sym_const(env, 1), all = dt__sym_const(env, processors);
  dt_sym_t room = dt__sym_floordiv(env, all, dt__sym_max(env, one, made));
  room =
      dt__sym_select(env, dt__sym_le(env, made, all), room, dt__sym_const(env, MANY_ROWS_GROUPS));
  dt_sym_t each = dt__sym_ceildiv(env, cols, dt__sym_max(env, one, room));
  return dt__sym_max(env, one, dt__sym_ceildiv(env, cols, dt__sym_max(env, one, each)));
}

// ---- Slices -------------------------------------------------------------------------------------
const dt_program_slices_t *dt__kernel_slices(const dt_program_t *program, uint32_t k) {
  uint32_t slices = program->kernels.items[k].slices;
  return slices ? &program->slices.items[slices - 1] : NULL;
}

typedef struct settled_t {
  dt_program_slices_t slices;
  uint32_t number; // 1 + where they stood
} settled_t;

static int compare_first(const void *a, const void *b) {
  const settled_t *x = a, *y = b;
  return (x->slices.first > y->slices.first) - (x->slices.first < y->slices.first);
}

// Slices stand in the order of their kernels, whichever were found first. Room for n + 1 of both.
static void sort_slices(dt_program_t *program, settled_t *sorted, uint32_t *numbers) {
  uint32_t n = program->slices.len;
  for (uint32_t i = 0; i < n; i++)
    sorted[i] = (settled_t){.slices = program->slices.items[i], .number = i + 1};
  qsort(sorted, n, sizeof(*sorted), compare_first);
  numbers[0] = 0; // of kernels that run in none
  for (uint32_t i = 0; i < n; i++) {
    program->slices.items[i] = sorted[i].slices;
    numbers[sorted[i].number] = i + 1;
  }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    program->kernels.items[k].slices = numbers[program->kernels.items[k].slices];
}

// members: by the slices' number, zeroed.
static dt_status_t find_members(dt_program_t *program, uint32_t *members) {
  for (uint32_t i = 0; i < program->slices.len; i++)
    program->slices.items[i].first = program->slices.items[i].end = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    uint32_t own = program->kernels.items[k].slices;
    if (!own)
      continue;
    dt_program_slices_t *slices = &program->slices.items[own - 1];
    slices->first = members[own]++ ? slices->first : k;
    slices->end = k + 1;
  }
  for (uint32_t i = 0; i < program->slices.len; i++) {
    const dt_program_slices_t *slices = &program->slices.items[i];
    if (members[i + 1] == 0 || slices->end - slices->first != members[i + 1])
      return DT_FAIL(DT_E_INTERNAL, "slices %u: their %u kernels stand apart", i, members[i + 1]);
  }
  return NULL;
}

dt_status_t dt__program_settle_slices(dt_program_t *program) {
  size_t room = (size_t)program->slices.len + 1;
  if (program->slices.len == 0)
    return NULL;
  uint32_t *numbers = dt__calloc(room, sizeof(*numbers));
  settled_t *sorted = dt__calloc(room, sizeof(*sorted));
  dt_status_t status = numbers && sorted ? find_members(program, numbers) : DT_NO_MEMORY();
  if (!status)
    sort_slices(program, sorted, numbers);
  dt__free(numbers);
  dt__free(sorted);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// Kernels from text: loops, stages, instructions, schedules.
#include "lower/graph/scalar.h"
#include "lower/loop/parse_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

#define MAX_ROWS 65536u // of one kernel

// ---- Loops ------------------------------------------------------------------------------------------
// A loop's symbol is made where it is first met; its number must be the next one. Later stages may
// use it again.
static dt_status_t parse_loop(dt_loop_parser_t *p, dt_sym_t *var, dt_sym_t *extent) {
  uint32_t number = 0;
  DT_TRY(dt__loop_parse_id(p, 'i', &number));
  DT_TRY(dt__scan_expect(p->scan, "<"));
  DT_TRY(dt__sym_parse(p->env, p->scan, extent));
  uint32_t count = dt__symenv_symbol_count(p->env);
  if (number > count || (p->exact && number == count))
    return dt__scan_fail(p->scan, "the next symbol has number %u", count);
  if (number == count)
    *var = dt__sym_new_loop(p->env, *extent);
  else
    *var = dt__symbol_sym(p->env, number);
  return dt__symenv_status(p->env);
}

static dt_status_t parse_loops(dt_loop_parser_t *p, const char *word, dt_sym_t *vars,
                               dt_sym_t *extents, uint32_t *out_n) {
  *out_n = 0;
  if (!dt__scan_accept_word(p->scan, word))
    return NULL;
  do {
    if (*out_n == DT_MAX_LOOPS)
      return dt__scan_fail(p->scan, "more than %d loops", DT_MAX_LOOPS);
    DT_TRY(parse_loop(p, &vars[*out_n], &extents[*out_n]));
    (*out_n)++;
  } while (dt__scan_accept(p->scan, ","));
  return NULL;
}

// ---- Instructions -------------------------------------------------------------------------------------
static dt_status_t parse_element(dt_loop_parser_t *p, dt_buffer_id_t *buffer, dt_sym_t *index) {
  uint32_t n = 0;
  DT_TRY(dt__loop_parse_buffer(p, buffer));
  DT_TRY(dt__loop_parse_exprs(p, index, DT_MAX_RANK, &n));
  uint32_t rank = dt__program_buffer(p->program, *buffer)->rank, wanted = rank;
  if (p->by_offset && rank)
    wanted = 1;
  if (n != wanted)
    return dt__scan_fail(p->scan, "%u indices for b%u of rank %u", n, buffer->id, rank);
  for (; n < rank; n++)
    index[n] = dt__sym_const(p->env, 0);
  return NULL;
}

static dt_status_t parse_const(dt_loop_parser_t *p, dt_inst_t *inst) {
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  return dt__loop_parse_value(p, inst->dtype, &inst->value);
}

static dt_status_t parse_index(dt_loop_parser_t *p, dt_inst_t *inst) {
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  return dt__sym_parse(p->env, p->scan, &inst->sym);
}

static dt_status_t parse_load(dt_loop_parser_t *p, dt_inst_t *inst) {
  dt_sym_t index[DT_MAX_RANK];
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  DT_TRY(parse_element(p, &inst->buffer, index));
  inst->index = dt__exprs_copy(p->arena, index, dt__program_buffer(p->program, inst->buffer)->rank);
  if (!inst->index)
    return DT_NO_MEMORY();
  if (dt__scan_accept_word(p->scan, "mask"))
    DT_TRY(dt__loop_parse_id(p, 'v', &inst->mask));
  if (dt__scan_accept_word(p->scan, "else"))
    DT_TRY(dt__loop_parse_id(p, 'v', &inst->args[0]));
  return NULL;
}

static dt_status_t parse_cast(dt_loop_parser_t *p, dt_inst_t *inst) {
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  return dt__loop_parse_id(p, 'v', &inst->args[0]);
}

static dt_status_t parse_row(dt_loop_parser_t *p, dt_inst_t *inst) {
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  return dt__loop_parse_id(p, 'r', &inst->row);
}

static dt_status_t parse_bind(dt_loop_parser_t *p, dt_inst_t *inst) {
  uint32_t number = 0;
  dt_range_t range;
  inst->dtype = DT_BOOL;
  DT_TRY(dt__loop_parse_id(p, 'd', &number));
  DT_TRY(dt__scan_expect(p->scan, ":"));
  DT_TRY(dt__loop_parse_range(p, &range));
  DT_TRY(dt__scan_expect(p->scan, "<"));
  DT_TRY(dt__sym_parse(p->env, p->scan, &inst->extent));
  DT_TRY(dt__scan_expect(p->scan, "of"));
  DT_TRY(dt__loop_parse_id(p, 'v', &inst->args[0]));
  inst->check = DT_NO_CHECK;
  if (dt__scan_accept_word(p->scan, "check"))
    DT_TRY(dt__loop_parse_u32(p, &inst->check));
  if (dt__scan_accept_word(p->scan, "mask"))
    DT_TRY(dt__loop_parse_id(p, 'v', &inst->mask));
  if (p->exact) {
    inst->sym = dt__symbol_sym(p->env, number);
    return inst->sym.id ? NULL : dt__scan_fail(p->scan, "there is no symbol d%u", number);
  }
  if (number != dt__symenv_symbol_count(p->env))
    return dt__scan_fail(p->scan, "the next symbol has number %u", dt__symenv_symbol_count(p->env));
  inst->sym = dt__sym_new(p->env, DT_SYMBOL_DATA, range, NULL, "");
  return dt__symenv_status(p->env);
}

static dt_status_t parse_search(dt_loop_parser_t *p, dt_inst_t *inst) {
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  DT_TRY(dt__loop_parse_buffer(p, &inst->buffer));
  DT_TRY(dt__scan_expect(p->scan, "of"));
  DT_TRY(dt__loop_parse_id(p, 'v', &inst->args[0]));
  inst->inclusive = dt__scan_accept_word(p->scan, "inclusive");
  return NULL;
}

static dt_status_t parse_sound(dt_loop_parser_t *p, dt_inst_t *inst) {
  return dt__loop_parse_dtype(p, &inst->dtype);
}

static dt_status_t parse_whole(dt_loop_parser_t *p, dt_inst_t *inst) {
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  if (dt__scan_accept_word(p->scan, "result"))
    return dt__loop_parse_u32(p, &inst->row);
  return dt__loop_parse_buffer(p, &inst->buffer);
}

static dt_status_t parse_scalar(dt_loop_parser_t *p, dt_inst_t *inst) {
  const char *word = NULL;
  size_t len = 0;
  DT_TRY(dt__scan_word(p->scan, &word, &len));
  inst->op = dt__scalar_find(word, len);
  if (inst->op == DT_SCALAR_NONE)
    return dt__scan_fail(p->scan, "unknown instruction '%.*s'", (int)(len > 32 ? 32 : len), word);
  DT_TRY(dt__loop_parse_dtype(p, &inst->dtype));
  for (uint32_t k = 0; k < dt__scalar_info(inst->op)->arity; k++) {
    if (k)
      DT_TRY(dt__scan_expect(p->scan, ","));
    DT_TRY(dt__loop_parse_id(p, 'v', &inst->args[k]));
  }
  return NULL;
}

static dt_status_t parse_inst(dt_loop_parser_t *p, dt_stage_t *stage) {
  static const struct {
    const char *word;
    dt_inst_kind_t kind;
    dt_status_t (*parse)(dt_loop_parser_t *p, dt_inst_t *inst);
  } kinds[] = {{"const", DT_INST_CONST, parse_const},    {"index", DT_INST_INDEX, parse_index},
               {"load", DT_INST_LOAD, parse_load},       {"cast", DT_INST_CAST, parse_cast},
               {"bits", DT_INST_BITS, parse_cast},       {"row", DT_INST_ROW, parse_row},
               {"bind", DT_INST_BIND, parse_bind},       {"running", DT_INST_RUNNING, parse_row},
               {"search", DT_INST_SEARCH, parse_search}, {"prior", DT_INST_PRIOR, parse_row},
               {"sound", DT_INST_SOUND, parse_sound},    {"whole", DT_INST_WHOLE, parse_whole}};
  uint32_t number = 0;
  dt_inst_t inst = {
      .kind = DT_INST_SCALAR, .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST}, .mask = DT_NO_INST};
  DT_TRY(dt__loop_parse_id(p, 'v', &number));
  if (number != stage->insts.len)
    return dt__scan_fail(p->scan, "the next instruction is v%u", stage->insts.len);
  DT_TRY(dt__scan_expect(p->scan, "="));
  size_t k = 0, n = sizeof(kinds) / sizeof(kinds[0]);
  while (k < n && !dt__scan_accept_word(p->scan, kinds[k].word))
    k++;
  if (k < n)
    inst.kind = kinds[k].kind;
  DT_TRY(k < n ? kinds[k].parse(p, &inst) : parse_scalar(p, &inst));
  // Appended as it is, not shared: numbers in the text are positions.
  return DT_VEC_PUSH(p->arena, &stage->insts, inst) ? NULL : DT_NO_MEMORY();
}

static dt_status_t parse_store(dt_loop_parser_t *p, dt_stage_t *stage, dt_store_t store) {
  dt_sym_t index[DT_MAX_RANK];
  DT_TRY(parse_element(p, &store.buffer, index));
  store.index = dt__exprs_copy(p->arena, index, dt__program_buffer(p->program, store.buffer)->rank);
  if (!store.index)
    return DT_NO_MEMORY();
  DT_TRY(dt__scan_expect(p->scan, "="));
  DT_TRY(dt__loop_parse_id(p, 'v', &store.value));
  if (dt__scan_accept_word(p->scan, "mask"))
    DT_TRY(dt__loop_parse_id(p, 'v', &store.mask));
  return DT_VEC_PUSH(p->arena, &stage->stores, store) ? NULL : DT_NO_MEMORY();
}

static const char *reduction_kind(uint32_t k) {
  return dt__reduction_kind_name((dt_reduction_kind_t)k);
}

static dt_status_t parse_reduction(dt_loop_parser_t *p, dt_kernel_t *kernel, dt_stage_t *stage) {
  dt_reduction_t reduction = {.index = DT_NO_INST};
  uint32_t kind = 0;
  DT_TRY(dt__loop_parse_name(p, reduction_kind, DT_REDUCE_COUNT, "reduction", &kind));
  reduction.kind = (dt_reduction_kind_t)kind;
  DT_TRY(dt__loop_parse_dtype(p, &reduction.dtype));
  DT_TRY(dt__loop_parse_id(p, 'r', &reduction.row));
  if (reduction.row >= MAX_ROWS)
    return dt__scan_fail(p->scan, "row value r%u, the most is %u", reduction.row, MAX_ROWS - 1);
  DT_TRY(dt__scan_expect(p->scan, "="));
  DT_TRY(dt__loop_parse_id(p, 'v', &reduction.value));
  if (dt__scan_accept_word(p->scan, "at"))
    DT_TRY(dt__loop_parse_id(p, 'v', &reduction.index));
  if (reduction.row >= kernel->n_rows)
    kernel->n_rows = reduction.row + 1;
  return DT_VEC_PUSH(p->arena, &stage->reductions, reduction) ? NULL : DT_NO_MEMORY();
}

static dt_status_t parse_stage(dt_loop_parser_t *p, dt_kernel_t *kernel) {
  dt_stage_t stage = {0};
  DT_TRY(parse_loops(p, "inner", stage.vars, stage.extents, &stage.n_loops));
  DT_TRY(dt__scan_expect(p->scan, "{"));
  while (!dt__scan_accept(p->scan, "}")) {
    if (dt__scan_accept_word(p->scan, "store"))
      DT_TRY(parse_store(p, &stage, (dt_store_t){.mask = DT_NO_INST}));
    else if (dt__scan_accept_word(p->scan, "revise"))
      DT_TRY(parse_store(p, &stage, (dt_store_t){.mask = DT_NO_INST, .revises = true}));
    else if (dt__scan_accept_word(p->scan, "fill"))
      DT_TRY(parse_store(p, &stage, (dt_store_t){.mask = DT_NO_INST, .whole = true}));
    else if (dt__scan_accept_word(p->scan, "reduce"))
      DT_TRY(parse_reduction(p, kernel, &stage));
    else
      DT_TRY(parse_inst(p, &stage));
  }
  return DT_VEC_PUSH(p->arena, &kernel->stages, stage) ? NULL : DT_NO_MEMORY();
}

// ---- Schedules --------------------------------------------------------------------------------------------
static const char *schedule_kind(uint32_t k) {
  return dt__schedule_kind_name((dt_schedule_kind_t)k);
}

static dt_status_t parse_field(dt_loop_parser_t *p, const char *word, uint32_t *out) {
  DT_TRY(dt__scan_expect(p->scan, word));
  return dt__loop_parse_u32(p, out);
}

static dt_status_t parse_operands(dt_loop_parser_t *p, uint32_t *a, uint32_t *b) {
  DT_TRY(dt__scan_expect(p->scan, "a"));
  DT_TRY(dt__loop_parse_id(p, 'v', a));
  DT_TRY(dt__scan_expect(p->scan, "b"));
  return dt__loop_parse_id(p, 'v', b);
}

static dt_status_t parse_matmul(dt_loop_parser_t *p, dt_matmul_t *m) {
  DT_TRY(parse_operands(p, &m->a, &m->b));
  DT_TRY(parse_field(p, "width", &m->width));
  DT_TRY(parse_field(p, "rows", &m->rows));
  DT_TRY(parse_field(p, "tile", &m->tile_rows));
  DT_TRY(dt__loop_parse_u32(p, &m->tile_cols));
  m->own_panels = dt__scan_accept_word(p->scan, "own_panels");
  if (dt__scan_accept_word(p->scan, "across"))
    return dt__sym_parse(p->env, p->scan, &m->across);
  if (!dt__scan_accept_word(p->scan, "bits"))
    return NULL;
  DT_TRY(dt__loop_parse_u32(p, &m->bits));
  DT_TRY(parse_field(p, "block", &m->block));
  m->dots = dt__scan_accept_word(p->scan, "dots");
  return NULL;
}

// "word number", or nothing.
static dt_status_t parse_optional(dt_loop_parser_t *p, const char *word, uint32_t *out) {
  int64_t value = 0;
  if (!dt__scan_accept_word(p->scan, word))
    return NULL;
  DT_TRY(dt__scan_i64(p->scan, &value));
  if (value < 1 || value > 1024)
    return dt__scan_fail(p->scan, "expected a number from 1 to 1024");
  *out = (uint32_t)value;
  return NULL;
}

static dt_status_t parse_team_matmul(dt_loop_parser_t *p, dt_team_matmul_t *m) {
  DT_TRY(parse_operands(p, &m->a, &m->b));
  DT_TRY(parse_field(p, "tile", &m->tile_rows));
  DT_TRY(dt__loop_parse_u32(p, &m->tile_cols));
  DT_TRY(parse_field(p, "groups", &m->groups));
  DT_TRY(parse_field(p, "of", &m->group_rows));
  DT_TRY(dt__loop_parse_u32(p, &m->group_cols));
  DT_TRY(parse_field(p, "depth", &m->depth));
  DT_TRY(parse_field(p, "ring", &m->ring));
  DT_TRY(parse_optional(p, "cluster", &m->cluster));
  return parse_optional(p, "keys", &m->keys);
}

// A kind that says nothing of a block has one iteration.
static dt_status_t parse_block(dt_loop_parser_t *p, dt_schedule_t *out) {
  int64_t block = 0;
  DT_TRY(dt__scan_expect(p->scan, "block"));
  DT_TRY(dt__scan_i64(p->scan, &block));
  if (out->kind == DT_SCHEDULE_OUTER_LANES)
    out->outer.block = block;
  else if (out->kind == DT_SCHEDULE_TILES)
    out->tiles.side = block;
  else if (block != 1)
    return dt__scan_fail(p->scan, "a schedule of kind %s has no block",
                         dt__schedule_kind_name(out->kind));
  return NULL;
}

static dt_status_t parse_schedule(dt_loop_parser_t *p, dt_kernel_t *kernel) {
  dt_schedule_t schedule = {0};
  uint32_t kind = 0;
  DT_TRY(dt__loop_parse_name(p, schedule_kind, DT_SCHEDULE_KINDS, "schedule", &kind));
  schedule.kind = (dt_schedule_kind_t)kind;
  DT_TRY(parse_field(p, "lanes", &schedule.lanes));
  DT_TRY(parse_field(p, "unroll", &schedule.unroll));
  DT_TRY(parse_block(p, &schedule));
  DT_TRY(dt__scan_expect(p->scan, "grain"));
  DT_TRY(dt__scan_i64(p->scan, &schedule.grain));
  if (dt__scan_accept_word(p->scan, "team")) {
    int64_t team = 0;
    DT_TRY(dt__scan_i64(p->scan, &team));
    if (team < 1 || team > 1024)
      return dt__scan_fail(p->scan, "expected a team of 1 to 1024 threads");
    schedule.team = (uint32_t)team;
    if (schedule.kind == DT_SCHEDULE_INNER_LANES)
      schedule.inner.resident = dt__scan_accept_word(p->scan, "resident");
    DT_TRY(parse_optional(p, "room", &schedule.room));
    DT_TRY(parse_optional(p, "most", &schedule.most));
  }
  if (schedule.kind == DT_SCHEDULE_OUTER_LANES)
    DT_TRY(parse_optional(p, "beside", &schedule.outer.beside));
  if (schedule.kind == DT_SCHEDULE_MATMUL)
    DT_TRY(parse_matmul(p, &schedule.matmul));
  if (schedule.kind == DT_SCHEDULE_TEAM_MATMUL)
    DT_TRY(parse_team_matmul(p, &schedule.team_matmul));
  if (dt__scan_accept_word(p->scan, "if"))
    DT_TRY(dt__sym_parse(p->env, p->scan, &schedule.predicate));
  return DT_VEC_PUSH(p->arena, &kernel->schedules, schedule) ? NULL : DT_NO_MEMORY();
}

// Which call of a user's op a kernel is; 1 more.
static dt_status_t parse_call(dt_loop_parser_t *p, uint32_t *out) {
  DT_TRY(dt__loop_parse_u32(p, out));
  if (*out == UINT32_MAX)
    return dt__scan_fail(p->scan, "call %u of a user's op", *out);
  (*out)++;
  return NULL;
}

dt_status_t dt__loop_parse_kernel(dt_loop_parser_t *p) {
  dt_kernel_t kernel = {0};
  DT_TRY(dt__loop_parse_string(p, &kernel.name));
  if (dt__scan_accept_word(p->scan, "section"))
    DT_TRY(dt__loop_parse_section(p, &kernel.section));
  if (dt__scan_accept_word(p->scan, "external"))
    DT_TRY(parse_call(p, &kernel.external));
  if (dt__scan_accept_word(p->scan, "chain"))
    DT_TRY(dt__loop_parse_u32(p, &kernel.chain));
  if (dt__scan_accept_word(p->scan, "gate"))
    DT_TRY(dt__loop_parse_buffer(p, &kernel.gate));
  p->by_offset = kernel.by_offset = dt__scan_accept_word(p->scan, "by_offset");
  DT_TRY(parse_loops(p, "outer", kernel.vars, kernel.extents, &kernel.n_loops));
  DT_TRY(dt__scan_expect(p->scan, "{"));
  while (!dt__scan_accept(p->scan, "}")) {
    if (dt__scan_accept_word(p->scan, "stage"))
      DT_TRY(parse_stage(p, &kernel));
    else if (dt__scan_accept_word(p->scan, "schedule"))
      DT_TRY(parse_schedule(p, &kernel));
    else
      return dt__scan_fail(p->scan, "expected stage or schedule");
  }
  return DT_VEC_PUSH(p->arena, &p->program->kernels, kernel) ? NULL : DT_NO_MEMORY();
}

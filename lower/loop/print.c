// SPDX-License-Identifier: Apache-2.0
// Programs as text. The grammar, which parse.c reads:
//
//   program  program { LINE … }
//   LINE     symbol s0: [LO, HI] hint 5 "what binds it"            hint and string may be absent
//            buffer b1 = input 0 f32[s0, s1] strides [s1, 1]       strides of inputs only
//            buffer b2 = temp f32[s0]                              temp, once, local: no number
//            buffer b3 = temp f32[s0, s1] order [1, 0] block 16 of 1 halo [0, 1] [0, 1] fill 0
//            check 0 "gather: index of ids" op "gather"
//            kernel "exp_sum" outer i2 < s0 { STAGE … SCHEDULE … }
//            kernel "exp_sum" by_offset outer …    its loads and stores: b1[OFFSET]
//            outputs b2, …
//            readback b3 binds u4 "nonzero" op "item"                  in the order of binding
//            once COUNT, offset b2 = EXPR, block EXPR, kept EXPR   the plan, where it is made
//            segment readbacks 1 kernels 3 block EXPR                  where there are readbacks
//            slices kernels 2 5 over EXPR step EXPR begin p7 count p8
//            region while b4 sections 1 3                 kernels of section 1 say "section 1"
//   STAGE    stage inner i3 < s1, i4 < s2 { INST … }               "inner …" absent without loops
//   INST     v0 = load f32 b1[i2, i3] mask v1 else v2              mask and else may be absent
//            v1 = const f32 1.5        v2 = index i64 i3 + 1       v3 = exp f32 v0
//            v4 = cast i32 v3          v5 = row f32 r0
//            v6 = bind d5: [0, 41] < s1 of v4 check 0 mask v1      mask may be absent
//            v7 = running f32 r0       v8 = search i64 b2 of v0 inclusive
//            store b2[i2] = v3 mask v6                             mask may be absent
//            revise b2[i2] = v3                                    a store that revises
//            reduce max f32 r0 = v0      reduce argmax i64 r1 = v0 at v2
//   SCHEDULE schedule outer_lanes lanes 16 unroll 4 block 1 grain 8 if s0 <= 3
//            schedule matmul lanes … a v0 b v1 width 16 rows 6 tile 48 64
//            schedule team_matmul lanes … team 256 a v0 b v1 tile 64 64 groups 8 of 32 32 depth 16
//                     ring 4
#include "lower/graph/scalar.h"
#include "lower/loop/loop_private.h"
#include "runtime/base/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const buffer_kinds[] = {"input", "constant", "output", "temp", "once",
                                           "local", "slab",     "state"}; // ORDER(dt_buffer_kind_t)
static const char *const region_kinds[] = {"if", "else", "while",
                                           "case"}; // ORDER(dt_region_kind_t)
static const char *const schedule_kinds[] = {
    "outer_lanes", "inner_lanes", "serial",
    "matmul",      "tiles",       "team_matmul"}; // ORDER(dt_schedule_kind_t)
_Static_assert(DT_BUFFER_STATE == 7, "ORDER(dt_buffer_kind_t)");
_Static_assert(DT_REGION_CASE == 3, "ORDER(dt_region_kind_t)");
_Static_assert(DT_SCHEDULE_TEAM_MATMUL == 5 && DT_SCHEDULE_KINDS == 6, "ORDER(dt_schedule_kind_t)");

const char *dt__buffer_kind_name(dt_buffer_kind_t kind) {
  return (unsigned)kind <= DT_BUFFER_STATE ? buffer_kinds[kind] : NULL;
}
const char *dt__region_kind_name(dt_region_kind_t kind) {
  return (unsigned)kind <= DT_REGION_CASE ? region_kinds[kind] : NULL;
}
const char *dt__reduction_kind_name(dt_reduction_kind_t kind) {
  const dt_reduction_info_t *info = dt__reduction_info(kind);
  return info ? info->name : NULL;
}
const char *dt__schedule_kind_name(dt_schedule_kind_t kind) {
  return (unsigned)kind < DT_SCHEDULE_KINDS ? schedule_kinds[kind] : NULL;
}

// ---- Small things -----------------------------------------------------------------------------------
void dt__print_expr(dt_loop_printer_t *printer, dt_sym_t e) {
  if (dt__prints_exactly(printer)) {
    dt__sym_write(e, printer->out);
    return;
  }
  dt__sym_print(printer->rename->to, dt__rename_expr(printer->rename, e), printer->out);
}

void dt__print_exprs(dt_loop_printer_t *printer, const dt_sym_t *exprs, uint32_t n) {
  dt__text_put(printer->out, "[");
  for (uint32_t k = 0; k < n; k++) {
    dt__text_put(printer->out, k ? ", " : "");
    dt__print_expr(printer, exprs[k]);
  }
  dt__text_put(printer->out, "]");
}

// The symbol itself, also where it is known to be a literal.
static dt_sym_t print_symbol(dt_loop_printer_t *printer, dt_sym_t e) {
  uint32_t symbol = 0;
  if (dt__prints_exactly(printer)) {
    dt__sym_print(printer->program->env, e, printer->out);
    return e;
  }
  if (!dt__sym_is_symbol(printer->rename->from, e, &symbol))
    return DT_SYM_NONE_ID;
  dt__rename_symbol(printer->rename, symbol);
  dt_sym_t made = dt__rename_find(printer->rename, symbol);
  dt__sym_print(printer->rename->to, made, printer->out);
  return made;
}

// The parser has room for no more; names of many ops joined may be longer.
static void put_string(dt_text_t *out, const char *string) { dt__text_quote(out, string, 1000); }

// The shortest of a few precisions that reads back as the same number.
static void put_value(dt_text_t *out, dt_dtype_t dtype, dt_scalar_t value) {
  static const int precisions[] = {6, 9, 17};
  if (!dt__dtype_is_float(dtype)) {
    dt__text_printf(out, "%lld", (long long)value.i);
    return;
  }
  if (isnan(value.f)) {
    dt__text_put(out, "nan");
    return;
  }
  int precision = 17;
  for (size_t k = 3; k-- > 0;) {
    char buf[40];
    (void)snprintf(buf, sizeof(buf), "%.*g", precisions[k], value.f);
    if (strtod(buf, NULL) == value.f)
      precision = precisions[k];
  }
  dt__text_printf(out, "%.*g", precision, value.f);
}

static void put_range(dt_text_t *out, dt_range_t range) {
  dt__text_printf(out, "[%lld, %lld]", (long long)range.lo, (long long)range.hi);
}

static void print_loops(dt_loop_printer_t *printer, const char *title, uint32_t n,
                        const dt_sym_t *vars, const dt_sym_t *extents) {
  for (uint32_t k = 0; k < n; k++) {
    dt__text_put(printer->out, k ? ", " : title);
    print_symbol(printer, vars[k]);
    dt__text_put(printer->out, " < ");
    dt__print_expr(printer, extents[k]);
  }
}

// ---- Bodies -------------------------------------------------------------------------------------------
static void print_operands(dt_loop_printer_t *printer, const dt_inst_t *inst) {
  for (uint32_t k = 0; k < 3 && inst->args[k] != DT_NO_INST; k++)
    dt__text_printf(printer->out, "%s v%u", k ? "," : "", inst->args[k]);
}

// An index, or the offset that stands in its place.
static void print_element(dt_loop_printer_t *printer, dt_buffer_id_t buffer,
                          const dt_sym_t *index) {
  uint32_t rank = dt__program_buffer(printer->program, buffer)->rank;
  printer->buffer_name(printer, buffer);
  dt__print_exprs(printer, index, printer->kernel->by_offset && rank ? 1 : rank);
}

static void print_load(dt_loop_printer_t *printer, const dt_inst_t *inst) {
  dt__text_printf(printer->out, "load %s ", dt_dtype_name(inst->dtype));
  print_element(printer, inst->buffer, inst->index);
  if (inst->mask != DT_NO_INST)
    dt__text_printf(printer->out, " mask v%u", inst->mask);
  if (inst->args[0] != DT_NO_INST)
    dt__text_printf(printer->out, " else v%u", inst->args[0]);
}

static void print_bind(dt_loop_printer_t *printer, const dt_inst_t *inst) {
  uint32_t symbol = 0;
  const dt_symenv_t *env =
      dt__prints_exactly(printer) ? printer->program->env : printer->rename->to;
  dt__text_put(printer->out, "bind ");
  dt_sym_t made = print_symbol(printer, inst->sym);
  if (dt__sym_is_symbol(env, made, &symbol)) {
    dt__text_put(printer->out, ": ");
    put_range(printer->out, dt__symbol_info(env, symbol).range);
  }
  dt__text_put(printer->out, " < ");
  dt__print_expr(printer, inst->extent);
  dt__text_printf(printer->out, " of v%u", inst->args[0]);
  if (inst->check != DT_NO_CHECK)
    dt__text_printf(printer->out, " check %u", inst->check);
  if (inst->mask != DT_NO_INST)
    dt__text_printf(printer->out, " mask v%u", inst->mask);
}

static void print_inst(dt_loop_printer_t *printer, const dt_inst_t *inst, uint32_t at) {
  dt_text_t *out = printer->out;
  const char *dtype = dt_dtype_name(inst->dtype);
  dt__text_printf(out, "    v%u = ", at);
  switch (inst->kind) {
  case DT_INST_CONST:
    dt__text_printf(out, "const %s ", dtype);
    if (dt__prints_exactly(printer))
      dt__text_printf(out, "bits %lld", (long long)inst->value.i);
    else
      put_value(out, inst->dtype, inst->value);
    break;
  case DT_INST_INDEX:
    dt__text_printf(out, "index %s ", dtype);
    dt__print_expr(printer, inst->sym);
    break;
  case DT_INST_LOAD:
    print_load(printer, inst);
    break;
  case DT_INST_SCALAR:
    dt__text_printf(out, "%s %s", dt__scalar_info(inst->op)->name, dtype);
    print_operands(printer, inst);
    break;
  case DT_INST_CAST:
  case DT_INST_BITS:
    dt__text_printf(out, "%s %s", inst->kind == DT_INST_CAST ? "cast" : "bits", dtype);
    print_operands(printer, inst);
    break;
  case DT_INST_ROW:
    dt__text_printf(out, "row %s r%u", dtype, inst->row);
    break;
  case DT_INST_BIND:
    print_bind(printer, inst);
    break;
  case DT_INST_RUNNING:
    dt__text_printf(out, "running %s r%u", dtype, inst->row);
    break;
  case DT_INST_PRIOR:
    dt__text_printf(out, "prior %s r%u", dtype, inst->row);
    break;
  case DT_INST_SEARCH:
    dt__text_printf(out, "search %s ", dtype);
    printer->buffer_name(printer, inst->buffer);
    dt__text_printf(out, " of v%u%s", inst->args[0], inst->inclusive ? " inclusive" : "");
    break;
  case DT_INST_SOUND:
    dt__text_printf(out, "sound %s", dtype);
    break;
  case DT_INST_WHOLE:
    dt__text_printf(out, "whole %s ", dtype);
    if (inst->buffer.id)
      printer->buffer_name(printer, inst->buffer);
    else
      dt__text_printf(out, "result %u", inst->row);
    break;
  }
  dt__text_put(out, "\n");
}

static void print_stage(dt_loop_printer_t *printer, const dt_stage_t *stage) {
  dt_text_t *out = printer->out;
  dt__text_put(out, "  stage");
  print_loops(printer, " inner ", stage->n_loops, stage->vars, stage->extents);
  dt__text_put(out, " {\n");
  for (uint32_t i = 0; i < stage->insts.len; i++)
    print_inst(printer, &stage->insts.items[i], i);
  for (uint32_t k = 0; k < stage->stores.len; k++) {
    const dt_store_t *store = &stage->stores.items[k];
    dt__text_put(out, store->revises ? "    revise " : store->whole ? "    fill " : "    store ");
    print_element(printer, store->buffer, store->index);
    dt__text_printf(out, " = v%u", store->value);
    if (store->mask != DT_NO_INST)
      dt__text_printf(out, " mask v%u", store->mask);
    dt__text_put(out, "\n");
  }
  for (uint32_t k = 0; k < stage->reductions.len; k++) {
    const dt_reduction_t *reduction = &stage->reductions.items[k];
    dt__text_printf(out, "    reduce %s %s r%u = v%u", dt__reduction_kind_name(reduction->kind),
                    dt_dtype_name(reduction->dtype), reduction->row, reduction->value);
    if (reduction->index != DT_NO_INST)
      dt__text_printf(out, " at v%u", reduction->index);
    dt__text_put(out, "\n");
  }
  dt__text_put(out, "  }\n");
}

// Outer iterations of a grid item along the last loop, where a kind says so.
static int64_t block_of(const dt_schedule_t *schedule) {
  return schedule->kind == DT_SCHEDULE_OUTER_LANES ? schedule->outer.block
         : schedule->kind == DT_SCHEDULE_TILES     ? schedule->tiles.side
                                                   : 1;
}

static void print_matmul(dt_loop_printer_t *printer, const dt_matmul_t *m) {
  dt_text_t *out = printer->out;
  dt__text_printf(out, " a v%u b v%u width %u rows %u tile %u %u%s", m->a, m->b, m->width, m->rows,
                  m->tile_rows, m->tile_cols, m->own_panels ? " own_panels" : "");
  if (m->bits)
    dt__text_printf(out, " bits %u block %u%s", m->bits, m->block, m->dots ? " dots" : "");
  if (m->across.id) {
    dt__text_put(out, " across ");
    dt__print_expr(printer, m->across);
  }
}

static void print_team_matmul(dt_text_t *out, const dt_team_matmul_t *m) {
  dt__text_printf(out, " a v%u b v%u tile %u %u groups %u of %u %u depth %u ring %u", m->a, m->b,
                  m->tile_rows, m->tile_cols, m->groups, m->group_rows, m->group_cols, m->depth,
                  m->ring);
  if (m->cluster)
    dt__text_printf(out, " cluster %u", m->cluster);
  if (m->keys)
    dt__text_printf(out, " keys %u", m->keys);
}

static void print_schedule(dt_loop_printer_t *printer, const dt_schedule_t *schedule) {
  dt_text_t *out = printer->out;
  dt__text_printf(out, "  schedule %s lanes %u unroll %u block %lld",
                  dt__schedule_kind_name(schedule->kind), schedule->lanes, schedule->unroll,
                  (long long)block_of(schedule));
  if (!printer->code)
    dt__text_printf(out, " grain %lld", (long long)schedule->grain);
  if (schedule->team)
    dt__text_printf(out, " team %u%s", schedule->team,
                    dt__schedule_is_resident(schedule) ? " resident" : "");
  if (schedule->room)
    dt__text_printf(out, " room %u", schedule->room);
  if (schedule->most)
    dt__text_printf(out, " most %u", schedule->most);
  if (schedule->kind == DT_SCHEDULE_OUTER_LANES && schedule->outer.beside)
    dt__text_printf(out, " beside %u", schedule->outer.beside);
  if (schedule->kind == DT_SCHEDULE_MATMUL)
    print_matmul(printer, &schedule->matmul);
  if (schedule->kind == DT_SCHEDULE_TEAM_MATMUL)
    print_team_matmul(out, &schedule->team_matmul);
  if (schedule->predicate.id) {
    dt__text_put(out, " if ");
    dt__print_expr(printer, schedule->predicate);
  }
  dt__text_put(out, "\n");
}

void dt__print_kernel_body(dt_loop_printer_t *printer, const dt_kernel_t *kernel) {
  printer->kernel = kernel;
  if (kernel->by_offset)
    dt__text_put(printer->out, " by_offset");
  print_loops(printer, " outer ", kernel->n_loops, kernel->vars, kernel->extents);
  dt__text_put(printer->out, " {\n");
  for (uint32_t k = 0; k < kernel->stages.len; k++)
    print_stage(printer, &kernel->stages.items[k]);
  for (uint32_t k = 0; k < kernel->schedules.len; k++)
    print_schedule(printer, &kernel->schedules.items[k]);
  dt__text_put(printer->out, "}\n");
}

// ---- Programs -------------------------------------------------------------------------------------------
void dt__print_buffer_name(dt_loop_printer_t *printer, dt_buffer_id_t buffer) {
  dt__text_printf(printer->out, "b%u", buffer.id);
}

static void put_list(dt_text_t *out, const char *word, const int64_t *items, uint32_t n) {
  dt__text_printf(out, "%s[", word);
  for (uint32_t k = 0; k < n; k++)
    dt__text_printf(out, k ? ", %lld" : "%lld", (long long)items[k]);
  dt__text_put(out, "]");
}

void dt__print_layout(dt_loop_printer_t *printer, const dt_buffer_t *buffer) {
  const dt_buffer_layout_t *layout = buffer->layout;
  dt_text_t *out = printer->out;
  int64_t order[DT_MAX_RANK];
  if (!layout)
    return;
  for (uint32_t k = 0; k < buffer->rank; k++)
    order[k] = layout->order[k];
  put_list(out, " order ", order, buffer->rank);
  if (layout->block)
    dt__text_printf(out, " block %lld of %u", (long long)layout->block, layout->blocked);
  if (dt__layout_is_order(layout, buffer->rank))
    return;
  put_list(out, " halo ", layout->before, buffer->rank);
  put_list(out, " ", layout->behind, buffer->rank);
  if (!layout->filled)
    return;
  dt__text_put(out, " fill ");
  if (dt__prints_exactly(printer))
    dt__text_printf(out, "bits %lld", (long long)layout->fill.i);
  else
    put_value(out, buffer->dtype, layout->fill);
}

static void print_buffer(dt_loop_printer_t *printer, uint32_t id) {
  const dt_buffer_t *buffer = &printer->program->buffers.items[id - 1];
  dt_text_t *out = printer->out;
  bool numbered = buffer->kind <= DT_BUFFER_OUTPUT || buffer->kind == DT_BUFFER_STATE;
  const char *kind = dt__buffer_kind_name(buffer->kind);
  dt__text_printf(out, "buffer b%u = %s ", id, kind ? kind : "?");
  if (numbered)
    dt__text_printf(out, "%u ", buffer->index);
  dt__text_put(out, dt_dtype_name(buffer->dtype));
  dt__print_exprs(printer, buffer->sizes, buffer->rank);
  if (buffer->kind == DT_BUFFER_INPUT || dt__prints_exactly(printer)) {
    dt__text_put(out, " strides ");
    dt__print_exprs(printer, buffer->strides, buffer->rank);
  }
  if (buffer->row.id) {
    dt__text_put(out, " row ");
    dt__print_expr(printer, buffer->row);
  }
  dt__print_layout(printer, buffer);
  if (buffer->donated)
    dt__text_put(out, buffer->taken ? " donated taken" : " donated");
  dt__text_put(out, "\n");
}

static void print_plan(dt_loop_printer_t *printer) {
  const dt_program_t *program = printer->program;
  if (program->n_once)
    dt__text_printf(printer->out, "once %u\n", program->n_once);
  if (program->device_sized)
    dt__text_put(printer->out, "device_sized\n");
  if (program->segments_reason) {
    dt__text_put(printer->out, "host_reads ");
    put_string(printer->out, program->segments_reason);
    dt__text_put(printer->out, "\n");
  }
  for (uint32_t b = 0; b < program->offsets.len; b++) {
    if (!program->offsets.items[b].id)
      continue;
    dt__text_printf(printer->out, "offset b%u = ", b + 1);
    dt__print_expr(printer, program->offsets.items[b]);
    dt__text_put(printer->out, "\n");
  }
  const dt_sym_t totals[] = {program->block_bytes, program->once_bytes};
  static const char *const names[] = {"block ", "kept "};
  for (int k = 0; k < 2; k++) {
    if (!totals[k].id)
      continue;
    dt__text_put(printer->out, names[k]);
    dt__print_expr(printer, totals[k]);
    dt__text_put(printer->out, "\n");
  }
}

static void print_readbacks(dt_loop_printer_t *printer) {
  const dt_program_t *program = printer->program;
  for (uint32_t k = 0; k < program->readbacks.len; k++) {
    const dt_readback_t *readback = &program->readbacks.items[k];
    dt__text_printf(printer->out, "readback b%u binds ", readback->buffer.id);
    print_symbol(printer, dt__symbol_sym(program->env, readback->symbol));
    dt__text_put(printer->out, " ");
    put_string(printer->out, readback->what ? readback->what : "");
    dt__text_put(printer->out, " op ");
    put_string(printer->out, readback->origin.op ? readback->origin.op : "");
    if (readback->most.id) {
      dt__text_put(printer->out, " most ");
      dt__print_expr(printer, readback->most);
    }
    dt__text_put(printer->out, "\n");
  }
}

static void print_segments(dt_loop_printer_t *printer) {
  const dt_program_t *program = printer->program;
  for (uint32_t k = 0; k < program->segments.len; k++) {
    const dt_program_segment_t *segment = &program->segments.items[k];
    dt__text_printf(printer->out, "segment readbacks %u kernels %u block ", segment->readback_end,
                    segment->kernel_end);
    dt__print_expr(printer, segment->block_bytes);
    dt__text_put(printer->out, "\n");
  }
}

static void print_slices(dt_loop_printer_t *printer) {
  const dt_program_t *program = printer->program;
  for (uint32_t k = 0; k < program->slices.len; k++) {
    const dt_program_slices_t *slices = &program->slices.items[k];
    dt__text_printf(printer->out, "slices kernels %u %u over ", slices->first, slices->end);
    dt__print_expr(printer, slices->extent);
    dt__text_put(printer->out, " step ");
    dt__print_expr(printer, slices->step);
    dt__text_put(printer->out, " begin ");
    print_symbol(printer, dt__symbol_sym(program->env, slices->begin));
    dt__text_put(printer->out, " count ");
    print_symbol(printer, dt__symbol_sym(program->env, slices->count));
    dt__text_put(printer->out, "\n");
  }
}

static void print_regions(dt_loop_printer_t *printer) {
  const dt_program_t *program = printer->program;
  for (uint32_t k = 0; k < program->regions.len; k++) {
    const dt_program_region_t *region = &program->regions.items[k];
    dt__text_printf(printer->out, "region %s ", dt__region_kind_name(region->kind));
    if (region->kind == DT_REGION_CASE)
      dt__text_printf(printer->out, "%u of %u ", region->index, region->n);
    dt__text_printf(printer->out, "b%u sections %u %u\n", region->predicate.id,
                    region->section_first, region->section_end);
  }
}

static void print_symbols(dt_loop_printer_t *printer) {
  const dt_symenv_t *env = printer->rename->to;
  uint32_t n = dt__symenv_symbol_count(env);
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_info_t info = dt__symbol_info(env, k);
    dt__text_put(printer->out, "symbol ");
    dt__sym_print(env, dt__symbol_sym(env, k), printer->out);
    dt__text_put(printer->out, ": ");
    put_range(printer->out, info.range);
    if (info.has_hint)
      dt__text_printf(printer->out, " hint %lld", (long long)info.hint);
    if (info.name[0]) {
      dt__text_put(printer->out, " ");
      put_string(printer->out, info.name);
    }
    dt__text_put(printer->out, "\n");
  }
}

static void print_asserts(dt_loop_printer_t *printer) {
  const dt_graph_t *graph = printer->program->graph;
  for (uint32_t k = 0; graph && k < graph->asserts.len; k++) {
    dt__text_put(printer->out, "assert ");
    dt__print_expr(printer, graph->asserts.items[k].cond);
    dt__text_put(printer->out, "\n");
  }
}

// Numbers that the graph takes for data, which the host program checks; in the order of bodies,
// too.
static void print_numbers(dt_loop_printer_t *printer, const dt_graph_t *graph) {
  for (uint32_t k = 0; graph && k < graph->nodes.len; k++) {
    if (graph->nodes.items[k].op != DT_OP_size)
      continue;
    dt__text_put(printer->out, "number ");
    dt__print_expr(printer, graph->nodes.items[k].attrs->syms[0]);
    dt__text_put(printer->out, "\n");
  }
  for (uint32_t k = 0; graph && k < graph->controls.len; k++)
    for (uint32_t i = 0; i < dt__control_own_n(&graph->controls.items[k]); i++)
      print_numbers(printer, graph->controls.items[k].bodies[i]);
}

void dt__print_program(dt_loop_printer_t *printer) {
  const dt_program_t *program = printer->program;
  dt_text_t *out = printer->out;
  dt__text_put(out, "program {\n");
  if (dt__prints_exactly(printer)) {
    print_asserts(printer);
    print_numbers(printer, program->graph);
  } else {
    print_symbols(printer);
  }
  for (uint32_t id = 1; id <= program->buffers.len; id++)
    print_buffer(printer, id);
  for (uint32_t k = 0; k < program->checks.len; k++) {
    const dt_check_t *check = &program->checks.items[k];
    dt__text_printf(out, "check %u ", k);
    put_string(out, check->what);
    dt__text_put(out, " op ");
    put_string(out, check->origin.op ? check->origin.op : "");
    if (check->code)
      dt__text_printf(out, " code %u", (unsigned)check->code);
    if (check->readback)
      dt__text_printf(out, " readback %u", check->readback - 1);
    dt__text_put(out, "\n");
  }
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt__text_put(out, "kernel ");
    put_string(out, program->kernels.items[k].name);
    if (program->kernels.items[k].section)
      dt__text_printf(out, " section %u", program->kernels.items[k].section);
    if (program->kernels.items[k].external)
      dt__text_printf(out, " external %u", program->kernels.items[k].external - 1);
    if (program->kernels.items[k].chain)
      dt__text_printf(out, " chain %u", program->kernels.items[k].chain);
    if (program->kernels.items[k].gate.id)
      dt__text_printf(out, " gate b%u", program->kernels.items[k].gate.id);
    dt__print_kernel_body(printer, &program->kernels.items[k]);
  }
  for (uint32_t k = 0; k < program->outputs.len; k++)
    dt__text_printf(out, "%s b%u", k ? "," : "outputs", program->outputs.items[k].id);
  if (program->outputs.len)
    dt__text_put(out, "\n");
  print_readbacks(printer);
  print_plan(printer);
  print_segments(printer);
  print_slices(printer);
  print_regions(printer);
  dt__text_put(out, "}\n");
}

// Printed twice: the first time finds out which sizes are used, so that the second can declare
// them, numbered from 0, before anything else.
void dt__program_print(const dt_program_t *program, dt_text_t *out) {
  dt_rename_t found = {0}, final = {0};
  dt_text_t scratch;
  dt__text_init(&scratch);
  dt_status_t status = dt__rename_init(&found, program->env);
  if (!status)
    status = dt__rename_init(&final, program->env);
  if (!status) {
    dt_loop_printer_t printer = {.program = program,
                                 .rename = &found,
                                 .out = &scratch,
                                 .buffer_name = dt__print_buffer_name};
    dt__print_program(&printer);
    for (uint32_t k = 0; k < dt__symenv_symbol_count(program->env); k++) {
      dt_symbol_kind_t kind = dt__symbol_info(program->env, k).kind;
      if (dt__rename_find(&found, k).id && kind != DT_SYMBOL_LOOP && kind != DT_SYMBOL_DATA)
        dt__rename_symbol(&final, k);
    }
    printer.rename = &final;
    printer.out = out;
    dt__print_program(&printer);
  }
  out->failed |= status != NULL || found.failed || final.failed || scratch.failed;
  dt_status_free(status);
  dt__text_fini(&scratch);
  dt__rename_fini(&found);
  dt__rename_fini(&final);
}

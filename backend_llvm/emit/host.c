// SPDX-License-Identifier: Apache-2.0
// The host program: straight-line code over a dt_frame_t. dt_plan_<k> binds what segment k reads
// from data and evaluates the sizes that are known by then, with every operation checked for
// overflow; dt_once and dt_run_<k> fill the words of each kernel on the stack and hand it to the
// frame's launch function; where data decides about kernels, dt_run_<k> is made of parts
// (host_region.c). Everything is computed on the main line, so that values may be shared;
// only the launch itself is conditional.
#include "backend_llvm/emit/host.h"

#include "backend_llvm/emit/body.h"
#include "backend_llvm/load/native.h"

#include <stdio.h>

typedef struct host_t {
  dt_body_t k;
  const dt_unit_map_t *map;
  LLVMValueRef frame;
  LLVMValueRef words; // stack, for the kernel with the most
  uint32_t level;     // of the code being made: 1 inside of a loop over slices
} host_t;

static LLVMValueRef field(host_t *h, size_t offset) {
  return dt__emit_offset(h->k.m, h->frame, dt__emit_i64(h->k.m, (int64_t)offset));
}

static LLVMValueRef load_field(host_t *h, LLVMTypeRef type, size_t offset) {
  return LLVMBuildLoad2(h->k.m->b, type, field(h, offset), "");
}

static LLVMValueRef load_at(host_t *h, LLVMTypeRef type, LLVMValueRef base, int64_t index) {
  dt_emit_t *m = h->k.m;
  return LLVMBuildLoad2(m->b, type, dt__emit_offset(m, base, dt__emit_i64(m, index * 8)), "");
}

static void store_at(host_t *h, LLVMValueRef value, LLVMValueRef base, int64_t index) {
  dt_emit_t *m = h->k.m;
  LLVMBuildStore(m->b, value, dt__emit_offset(m, base, dt__emit_i64(m, index * 8)));
}

static LLVMValueRef evaluate(host_t *h, dt_sym_t e) {
  LLVMValueRef value = dt__index_scalar(&h->k, e);
  dt__body_at(&h->k, h->level);
  return value;
}

// ---- Device sizes ---------------------------------------------------------------------------------
// In programs of device sizes the host knows no item: what it computes are bounds.
static dt_sym_t most_of(const host_t *h, dt_sym_t e) {
  dt_emit_t *m = h->k.m;
  if (!m->program.device_sized || !e.id)
    return e;
  dt_sym_t most = dt__program_most(&m->program, e);
  if (!most.id)
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "a size that data decides has no bound"));
  return most.id ? most : dt__sym_const(m->env, 0);
}

// What `e` is where every item is at its most; none: an item of it has none.
static dt_sym_t at_most(const host_t *h, dt_sym_t e) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = 0; i < m->program.items.len && e.id; i++) {
    const dt_program_item_t *item = &m->program.items.items[i];
    dt_sym_t symbol = dt__symbol_sym(m->env, item->symbol);
    if (!dt__sym_depends(m->env, e, symbol))
      continue;
    e = item->most.id ? dt__sym_subst(m->env, e, &symbol, &item->most, 1) : DT_SYM_NONE_ID;
  }
  return e;
}

// Any grid computes everything, so where an axis has no bound its length at most does, and be it 1.
static dt_sym_t axis_of(const host_t *h, dt_sym_t axis) {
  dt_emit_t *m = h->k.m;
  if (!m->program.device_sized || !dt__expr_items(&m->program, axis))
    return axis;
  dt_sym_t one = dt__sym_const(m->env, 1), most = dt__program_most(&m->program, axis);
  if (most.id)
    return most;
  most = at_most(h, axis);
  return most.id ? dt__sym_max(m->env, one, most) : one;
}

// Which schedule suits the most that there may be. What holds then need not hold for less, so none
// is taken that relies on its predicate; none: it is not to be taken.
static dt_sym_t predicate_of(const host_t *h, const dt_schedule_t *schedule) {
  dt_emit_t *m = h->k.m;
  if (!m->program.device_sized || !dt__expr_items(&m->program, schedule->predicate))
    return schedule->predicate;
  return schedule->resident ? DT_SYM_NONE_ID : at_most(h, schedule->predicate);
}

static bool is_item(const dt_emit_t *m, uint32_t symbol) {
  for (uint32_t i = 0; i < m->program.items.len; i++)
    if (m->program.items.items[i].symbol == symbol)
      return true;
  return false;
}

// Opens `name` and binds every symbol that a call brings, and those of its first `items` items.
static dt_status_t open_function(host_t *h, dt_emit_t *m, const dt_unit_map_t *map,
                                 const char *name, LLVMTypeRef result, bool symbols,
                                 uint32_t items) {
  *h = (host_t){.map = map};
  DT_TRY(dt__body_init(&h->k, m, NULL, NULL));
  LLVMTypeRef type = LLVMFunctionType(result, &m->t_ptr, 1, 0);
  LLVMValueRef fn = dt__emit_function(m, name, type, true);
  h->frame = LLVMGetParam(fn, 0);
  dt__body_enter(&h->k, fn);
  if (!symbols)
    return NULL;
  LLVMValueRef values = load_field(h, m->t_ptr, offsetof(dt_frame_t, symbols));
  for (uint32_t i = 0; i < h->k.n_bindings; i++) {
    dt_symbol_kind_t kind = dt__symbol_info(m->env, i).kind;
    bool data = kind == DT_SYMBOL_UNBACKED && !is_item(m, i); // an argument's size, under no guard
    if (kind == DT_SYMBOL_SIZE || kind == DT_SYMBOL_INT || data)
      dt__bind_uniform(&h->k, i, 0, load_at(h, m->t_i64, values, i));
  }
  for (uint32_t i = 0; i < items; i++) {
    uint32_t symbol = m->program.items.items[i].symbol;
    dt__bind_uniform(&h->k, symbol, 0, load_at(h, m->t_i64, values, symbol));
  }
  return NULL;
}

// ---- Memory ---------------------------------------------------------------------------------------
static LLVMValueRef placed(host_t *h, size_t memory, uint32_t buffer) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef base = load_field(h, m->t_ptr, memory);
  if (buffer >= m->program.offsets.len || !m->program.offsets.items[buffer].id) {
    dt__emit_fail(m, DT_FAIL(DT_E_INTERNAL, "memory plan: buffer %u has no place", buffer + 1));
    return base;
  }
  return dt__emit_offset(m, base, evaluate(h, m->program.offsets.items[buffer]));
}

static LLVMValueRef buffer_address(host_t *h, dt_buffer_id_t id) {
  dt_emit_t *m = h->k.m;
  const dt_buffer_t *buffer = dt__program_buffer(&m->program, id);
  LLVMValueRef *base = &h->k.bases[id.id - 1];
  if (*base)
    return *base;
  // Kept for the whole function, so it is made outside of a loop over slices.
  uint32_t level = h->level;
  h->level = 0;
  dt__body_at(&h->k, 0);
  switch (buffer->kind) {
  case DT_BUFFER_INPUT:
    *base =
        load_at(h, m->t_ptr, load_field(h, m->t_ptr, offsetof(dt_frame_t, inputs)), buffer->index);
    break;
  case DT_BUFFER_CONSTANT:
    *base = load_at(h, m->t_ptr, load_field(h, m->t_ptr, offsetof(dt_frame_t, constants)),
                    buffer->index);
    break;
  case DT_BUFFER_OUTPUT:
    *base =
        load_at(h, m->t_ptr, load_field(h, m->t_ptr, offsetof(dt_frame_t, outputs)), buffer->index);
    break;
  case DT_BUFFER_ONCE:
    *base = placed(h, offsetof(dt_frame_t, once), id.id - 1);
    break;
  default:
    *base = placed(h, offsetof(dt_frame_t, block), id.id - 1);
    break;
  }
  h->level = level;
  dt__body_at(&h->k, level);
  return *base;
}

// ---- Plan ----------------------------------------------------------------------------------------------
static void note_bad(host_t *h, LLVMValueRef bit) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef before = LLVMBuildLoad2(m->b, m->t_i1, h->k.overflow, "");
  LLVMBuildStore(m->b, LLVMBuildOr(m->b, before, bit, ""), h->k.overflow);
}

// Unsigned comparison: a negative value is refused too.
static void require_below_limit(host_t *h, LLVMValueRef value) {
  dt_emit_t *m = h->k.m;
  note_bad(h, LLVMBuildICmp(m->b, LLVMIntUGE, value, dt__emit_i64(m, DT_SIZE_LIMIT), ""));
}

// Goes on where `holds`; elsewhere the plan ends with `answer`.
static void require(host_t *h, LLVMValueRef holds, int64_t answer) {
  dt_emit_t *m = h->k.m;
  LLVMBasicBlockRef failed = dt__emit_block(m, h->k.fn, "failed");
  LLVMBasicBlockRef next = dt__emit_block(m, h->k.fn, "next");
  LLVMBuildCondBr(m->b, holds, next, failed);
  LLVMPositionBuilderAtEnd(m->b, failed);
  LLVMBuildRet(m->b, dt__emit_i64(m, answer));
  h->k.scopes[0].block = next;
  dt__body_at(&h->k, 0);
}

// Reads the segment's items into the frame's symbols. Whatever is computed from one later relies on
// its range, so that is tested first.
static void plan_items(host_t *h, const dt_segment_span_t *span) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = span->item; i < span->item_end; i++) {
    const dt_program_item_t *item = &m->program.items.items[i];
    LLVMValueRef value =
        m->target->device == DT_CPU
            ? LLVMBuildLoad2(m->b, m->t_i64, buffer_address(h, item->buffer), "")
            : load_at(h, m->t_i64, load_field(h, m->t_ptr, offsetof(dt_frame_t, item_values)), i);
    store_at(h, value, load_field(h, m->t_ptr, offsetof(dt_frame_t, symbols)), item->symbol);
    dt_range_t range = dt__symbol_info(m->env, item->symbol).range;
    LLVMValueRef low = LLVMBuildICmp(m->b, LLVMIntSGE, value, dt__emit_i64(m, range.lo), "");
    LLVMValueRef high = LLVMBuildICmp(m->b, LLVMIntSLE, value, dt__emit_i64(m, range.hi), "");
    require(h, LLVMBuildAnd(m->b, low, high, ""), -2 - (int64_t)i);
    dt__bind_uniform(&h->k, item->symbol, 0, value);
  }
}

static void plan_asserts(host_t *h, uint32_t segment) {
  dt_emit_t *m = h->k.m;
  const dt_graph_t *graph = m->program.graph;
  for (uint32_t i = 0; graph && i < graph->asserts.len; i++) {
    dt_sym_t cond = graph->asserts.items[i].cond;
    bool later = m->program.device_sized && dt__expr_items(&m->program, cond);
    if (later || dt__llvm_segment_of(&m->program, cond) != segment)
      continue;
    LLVMValueRef truth = evaluate(h, cond);
    require(h, LLVMBuildICmp(m->b, LLVMIntNE, truth, dt__emit_i64(m, 0), ""), (int64_t)i + 1);
  }
}

// Sizes and bytes of the buffers that this segment is the first to know.
static void plan_buffers(host_t *h, uint32_t segment) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = 0; i < m->program.buffers.len; i++) {
    const dt_buffer_t *buffer = &m->program.buffers.items[i];
    dt_buffer_id_t id = {i + 1};
    if (buffer->kind == DT_BUFFER_INPUT || buffer->kind == DT_BUFFER_CONSTANT ||
        dt__llvm_sizes_segment(&m->program, id) != segment)
      continue;
    if (m->program.device_sized && !dt__program_stores_to(&m->program, id.id))
      continue; // it may have no bound
    for (uint32_t d = 0; d < buffer->rank; d++) {
      dt_sym_t size = most_of(h, buffer->sizes[d]);
      dt_range_t range = dt__sym_range(m->env, size);
      if (range.lo < 0 || range.hi >= DT_SIZE_LIMIT)
        require_below_limit(h, evaluate(h, size));
    }
    dt_sym_t count = most_of(h, dt__buffer_count(&m->program, id));
    dt_sym_t bytes =
        dt__sym_mul(m->env, count, dt__sym_const(m->env, (int64_t)dt_dtype_size(buffer->dtype)));
    require_below_limit(h, evaluate(h, bytes));
  }
}

// A loop over slices ends: its extent is no more than a size may be, also where the buffers that it
// walks have no elements.
static void plan_slices(host_t *h, const dt_segment_span_t *span) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = 0; i < m->program.slices.len; i++) {
    const dt_program_slices_t *slices = &m->program.slices.items[i];
    if (slices->first >= span->kernel && slices->end <= span->kernel_end)
      require_below_limit(h, evaluate(h, slices->extent));
  }
}

static void plan_outputs(host_t *h, uint32_t segment) {
  dt_emit_t *m = h->k.m;
  LLVMValueRef sizes = load_field(h, m->t_ptr, offsetof(dt_frame_t, output_sizes));
  int64_t at = 0;
  for (uint32_t o = 0; o < m->program.outputs.len; o++) {
    dt_buffer_id_t id = m->program.outputs.items[o];
    const dt_buffer_t *buffer = dt__program_buffer(&m->program, id);
    bool known = dt__llvm_sizes_segment(&m->program, id) == segment;
    for (uint32_t d = 0; known && d < buffer->rank; d++)
      store_at(h, evaluate(h, buffer->sizes[d]), sizes, at + d);
    at += buffer->rank;
  }
}

// Makers of a chain run with its head.
static bool is_launched(const dt_program_t *program, uint32_t kernel) {
  return dt__kernel_chain(program, kernel).end == kernel + 1;
}

// The largest scratch of kernels first … last - 1 under any of their schedules.
static LLVMValueRef largest_scratch(host_t *h, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  dt_sym_t most = dt__sym_const(m->env, 0);
  for (uint32_t i = first; i < last; i++) {
    uint32_t n = is_launched(&m->program, i) ? m->program.kernels.items[i].schedules.len : 0;
    for (uint32_t s = 0; s < n; s++)
      most = dt__sym_max(m->env, most, most_of(h, dt__chain_scratch(m, i, s, NULL)));
  }
  return evaluate(h, most);
}

static dt_status_t emit_plan(dt_emit_t *m, const dt_unit_map_t *map, uint32_t segment) {
  host_t h;
  char name[32];
  snprintf(name, sizeof(name), "dt_plan_%u", segment);
  dt_segment_span_t span = dt__llvm_segment_span(&m->program, segment);
  DT_TRY(open_function(&h, m, map, name, m->t_i64, true, span.item));
  h.k.overflow = dt__body_slot(&h.k, m->t_i1, 1);
  LLVMBuildStore(m->b, LLVMConstNull(m->t_i1), h.k.overflow);
  plan_items(&h, &span);
  plan_asserts(&h, segment);
  plan_buffers(&h, segment);
  plan_slices(&h, &span);
  plan_outputs(&h, segment);
  LLVMValueRef block =
      evaluate(&h, span.block_bytes.id ? span.block_bytes : dt__sym_const(m->env, 0));
  require_below_limit(&h, block);
  LLVMBuildStore(m->b, block, field(&h, offsetof(dt_frame_t, block_bytes)));
  LLVMValueRef scratch = largest_scratch(&h, span.kernel, span.kernel_end);
  require_below_limit(&h, scratch);
  LLVMBuildStore(m->b, scratch, field(&h, offsetof(dt_frame_t, scratch_bytes)));
  LLVMValueRef bad = LLVMBuildLoad2(m->b, m->t_i1, h.k.overflow, "");
  LLVMBuildRet(m->b, LLVMBuildSelect(m->b, bad, dt__emit_i64(m, -1), dt__emit_i64(m, 0), ""));
  return NULL;
}

// ---- Run -----------------------------------------------------------------------------------------------
// What is launched: of the first schedule whose predicate holds.
typedef struct choice_t {
  LLVMValueRef fn, count, grain;
} choice_t;

static choice_t schedule_choice(host_t *h, uint32_t kernel_index, uint32_t s,
                                LLVMValueRef functions) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[kernel_index];
  const dt_schedule_t *schedule = &kernel->schedules.items[s];
  uint32_t code = h->map->code_of_kernel[h->map->first_code[kernel_index] + s];
  dt_sym_t axes[DT_MAX_LOOPS];
  uint32_t n = dt__grid_axes(m, kernel, schedule, axes);
  dt_sym_t count = dt__sym_const(m->env, 1);
  for (uint32_t i = 0; i < n; i++)
    count = dt__sym_mul(m->env, count, axis_of(h, axes[i]));
  choice_t choice = {.count = evaluate(h, count)};
  choice.fn = load_at(h, m->t_ptr, functions, code);
  choice.grain = evaluate(h, m->target->device == DT_CPU
                                 ? dt__grid_grain(m, kernel, schedule)
                                 : most_of(h, dt__chain_scratch(m, kernel_index, s, NULL)));
  return choice;
}

static choice_t choose(host_t *h, uint32_t kernel_index) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[kernel_index];
  LLVMValueRef functions = load_field(h, m->t_ptr, offsetof(dt_frame_t, kernels));
  uint32_t n = kernel->schedules.len;
  choice_t best = schedule_choice(h, kernel_index, n - 1, functions);
  for (uint32_t s = n - 1; s-- > 0;) {
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    dt_sym_t predicate = predicate_of(h, schedule);
    if (schedule->predicate.id && !predicate.id)
      continue;
    choice_t other = schedule_choice(h, kernel_index, s, functions);
    if (!predicate.id) {
      best = other;
      continue;
    }
    LLVMValueRef take =
        LLVMBuildICmp(m->b, LLVMIntNE, evaluate(h, predicate), dt__emit_i64(m, 0), "");
    best.fn = LLVMBuildSelect(m->b, take, other.fn, best.fn, "");
    best.count = LLVMBuildSelect(m->b, take, other.count, best.count, "");
    best.grain = LLVMBuildSelect(m->b, take, other.grain, best.grain, "");
  }
  return best;
}

// A device's launch function is told of empty work, too: graphs have a node for each kernel.
static void launch(host_t *h, choice_t choice) {
  dt_emit_t *m = h->k.m;
  LLVMTypeRef params[5] = {m->t_ptr, m->t_ptr, m->t_ptr, m->t_i64, m->t_i64};
  LLVMTypeRef type = LLVMFunctionType(m->t_void, params, 5, 0);
  LLVMValueRef fn = load_field(h, m->t_ptr, offsetof(dt_frame_t, launch));
  LLVMValueRef args[5] = {h->frame, choice.fn, h->words, choice.count, choice.grain};
  if (m->target->device != DT_CPU) {
    LLVMBuildCall2(m->b, type, fn, args, 5, "");
    return;
  }
  LLVMBasicBlockRef some = dt__emit_block(m, h->k.fn, "launch");
  LLVMBasicBlockRef next = dt__emit_block(m, h->k.fn, "next");
  LLVMValueRef any = LLVMBuildICmp(m->b, LLVMIntSGT, choice.count, dt__emit_i64(m, 0), "");
  LLVMBuildCondBr(m->b, any, some, next);
  LLVMPositionBuilderAtEnd(m->b, some);
  LLVMBuildCall2(m->b, type, fn, args, 5, "");
  LLVMBuildBr(m->b, next);
  h->k.scopes[h->level].block = next;
  dt__body_at(&h->k, h->level);
}

// The host's loop over slices: its kernels' sizes and words are computed once a slice.
static void open_slices(host_t *h, const dt_program_slices_t *slices) {
  dt_emit_t *m = h->k.m;
  dt_sym_t number = dt__sym_ceildiv(m->env, slices->extent, slices->step);
  LLVMValueRef zero = dt__emit_i64(m, 0), end = evaluate(h, number);
  LLVMValueRef extent = evaluate(h, slices->extent), step = evaluate(h, slices->step);
  LLVMValueRef at = dt__loop_open(&h->k, 1, zero, end, 1);
  h->level = 1;
  LLVMValueRef begin = LLVMBuildMul(m->b, at, step, "");
  LLVMValueRef left = LLVMBuildSub(m->b, extent, begin, "");
  LLVMValueRef less = LLVMBuildICmp(m->b, LLVMIntSLT, left, step, "");
  dt__bind_uniform(&h->k, slices->begin, 1, begin);
  dt__bind_uniform(&h->k, slices->count, 1, LLVMBuildSelect(m->b, less, left, step, ""));
}

static void close_slices(host_t *h) {
  dt__loop_close(&h->k, 1);
  h->level = 0;
}

static dt_status_t run_kernel(host_t *h, uint32_t index, const dt_kernel_params_t *params) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[index];
  if (kernel->schedules.len == 0)
    return DT_FAIL(DT_E_INTERNAL, "kernel %s has no schedule", kernel->name);
  for (uint32_t s = 0; s < kernel->schedules.len; s++)
    DT_TRY(dt__schedule_verify(m, kernel, &kernel->schedules.items[s]));
  if (!is_launched(&m->program, index))
    return NULL;
  choice_t choice = choose(h, index);
  for (uint32_t i = 0; i < params->n_buffers; i++)
    store_at(h, buffer_address(h, params->buffers[i]), h->words, i);
  for (uint32_t i = 0; i < params->n_symbols; i++)
    store_at(h, evaluate(h, dt__symbol_sym(m->env, params->symbols[i])), h->words,
             (int64_t)params->n_buffers + i);
  launch(h, choice);
  return NULL;
}

static dt_status_t emit_run(dt_emit_t *m, const dt_unit_map_t *map, const char *name,
                            uint32_t first, uint32_t last, bool symbols, uint32_t items,
                            const dt_kernel_params_t *params) {
  host_t h;
  DT_TRY(open_function(&h, m, map, name, m->t_void, symbols, items));
  uint32_t most = 1;
  for (uint32_t i = first; i < last; i++)
    if (params[i].n_buffers + params[i].n_symbols > most)
      most = params[i].n_buffers + params[i].n_symbols;
  h.words = dt__body_slot(&h.k, m->t_i64, most);
  for (uint32_t i = first; i < last && !m->failure; i++) {
    const dt_program_slices_t *slices = dt__kernel_slices(&m->program, i);
    if (slices && i == slices->first)
      open_slices(&h, slices);
    DT_TRY(run_kernel(&h, i, &params[i]));
    if (slices && i + 1 == slices->end)
      close_slices(&h);
  }
  LLVMBuildRetVoid(m->b);
  return NULL;
}

// Where the host finds the numbers that the segment begins with, in memory that code here cannot
// read.
static dt_status_t emit_items(dt_emit_t *m, const dt_unit_map_t *map, uint32_t segment) {
  host_t h;
  char name[32];
  snprintf(name, sizeof(name), "dt_items_%u", segment);
  dt_segment_span_t span = dt__llvm_segment_span(&m->program, segment);
  if (m->target->device == DT_CPU || span.item == span.item_end)
    return NULL;
  DT_TRY(open_function(&h, m, map, name, m->t_void, true, span.item));
  LLVMValueRef to = load_field(&h, m->t_ptr, offsetof(dt_frame_t, item_addresses));
  for (uint32_t i = span.item; i < span.item_end; i++)
    store_at(&h, buffer_address(&h, m->program.items.items[i].buffer), to, i);
  LLVMBuildRetVoid(m->b);
  return NULL;
}

// ---- Regions ---------------------------------------------------------------------------------------
// The parts of kernels [first, last) between regions, and inside of them.
static dt_status_t emit_parts(dt_emit_t *m, const dt_unit_map_t *map, uint32_t first, uint32_t last,
                              uint32_t items, uint32_t after, const dt_kernel_params_t *params) {
  for (uint32_t k = first; k < last;) {
    uint32_t at = dt__region_at(&m->program, k, after), end = 0;
    if (at != UINT32_MAX) {
      end = m->program.regions.items[at].end;
      DT_TRY(emit_parts(m, map, k, end, items, at + 1, params));
    } else {
      char name[32];
      end = dt__region_part_end(&m->program, k, last, after);
      snprintf(name, sizeof(name), "dt_part_%u", k);
      DT_TRY(emit_run(m, map, name, k, end, true, items, params));
    }
    k = end;
  }
  return NULL;
}

// The addresses of the predicates of regions in kernels [first, last).
static dt_status_t emit_flags(dt_emit_t *m, const dt_unit_map_t *map, uint32_t first, uint32_t last,
                              uint32_t items) {
  for (uint32_t i = 0; i < m->program.regions.len; i++) {
    const dt_program_region_t *region = &m->program.regions.items[i];
    host_t h;
    char name[32];
    if (region->first < first || region->end > last || region->first == region->end)
      continue;
    snprintf(name, sizeof(name), "dt_flag_%u", i);
    DT_TRY(open_function(&h, m, map, name, m->t_ptr, true, items));
    LLVMBuildRet(m->b, buffer_address(&h, region->predicate));
  }
  return NULL;
}

static bool has_regions(const dt_program_t *program, uint32_t first, uint32_t last) {
  for (uint32_t k = first; k < last; k++)
    if (dt__region_at(program, k, 0) != UINT32_MAX)
      return true;
  return false;
}

static dt_status_t emit_segment(dt_emit_t *m, const dt_unit_map_t *map, const char *name,
                                const dt_segment_span_t *span, const dt_kernel_params_t *params) {
  uint32_t first = span->kernel, last = span->kernel_end, items = span->item_end;
  if (!has_regions(&m->program, first, last))
    return emit_run(m, map, name, first, last, true, items, params);
  DT_TRY(emit_parts(m, map, first, last, items, 0, params));
  DT_TRY(emit_flags(m, map, first, last, items));
  return dt__emit_regions(m, name, first, last);
}

static dt_status_t emit_once_scratch(dt_emit_t *m, const dt_unit_map_t *map) {
  host_t h = {.map = map};
  DT_TRY(dt__body_init(&h.k, m, NULL, NULL));
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, NULL, 0, 0);
  dt__body_enter(&h.k, dt__emit_function(m, "dt_once_scratch", type, true));
  LLVMBuildRet(m->b, largest_scratch(&h, 0, m->program.n_once));
  return NULL;
}

static dt_status_t emit_segments(dt_emit_t *m, const dt_unit_map_t *map,
                                 const dt_kernel_params_t *params) {
  uint32_t n = dt__llvm_segment_count(&m->program);
  for (uint32_t segment = 0; segment < n; segment++) {
    dt_segment_span_t span = dt__llvm_segment_span(&m->program, segment);
    char name[32];
    snprintf(name, sizeof(name), "dt_run_%u", segment);
    DT_TRY(emit_items(m, map, segment));
    DT_TRY(emit_plan(m, map, segment));
    DT_TRY(emit_segment(m, map, name, &span, params));
  }
  return NULL;
}

dt_status_t dt__emit_host(dt_emit_t *m, const dt_unit_map_t *map) {
  uint32_t n = m->program.kernels.len;
  DT_TRY(dt__llvm_segments_verify(&m->program));
  dt_kernel_params_t *params = DT_ARENA_ARRAY(&m->arena, dt_kernel_params_t, n + 1);
  if (!params)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    dt_text_t text;
    dt__text_init(&text);
    dt_status_t status =
        dt__chain_print(&m->program, dt__kernel_chain(&m->program, i), &params[i], &text);
    dt__text_fini(&text);
    DT_TRY(status);
  }
  DT_TRY(emit_once_scratch(m, map));
  DT_TRY(emit_run(m, map, "dt_once", 0, m->program.n_once, false, 0, params));
  return emit_segments(m, map, params);
}

// SPDX-License-Identifier: Apache-2.0
// The host program: straight-line code over a dt_frame_t.
// - dt_plan_<k> (host_plan.c) evaluates sizes.
// - dt_once and dt_run_<k> fill the words of each kernel on the stack and pass it to the frame's
//   launch function. If data decides about kernels, dt_run_<k> is made of parts (host_region.c).
// - dt_commit runs the kernels that update arguments.
//
// Everything is computed on the main line, so that values may be shared; only the launch itself is
// conditional.
//
// LLVM's time grows faster than the length of a function, and so does the time of the memos here.
// So long functions are cut into pieces, each of which computes what it needs for itself, and steps
// that are alike but for their buffers (host_repeats.c) are one function with a table of addresses.
#include "backend_llvm/emit/host.h"

#include "backend_llvm/emit/grid.h"
#include "backend_llvm/emit/host_body.h"
#include "backend_llvm/emit/loops.h"

#include <stdio.h>

#define PIECE_WORDS 2048 // of kernels' parameters, about, that one function of a run fills
#define LAUNCH_WORDS 16  // what choosing a schedule and launching it are worth

// ---- Launches -------------------------------------------------------------------------------------
// What is launched: of the first schedule whose predicate holds.
typedef struct choice_t {
  LLVMValueRef fn, count, grain;
} choice_t;

static dt_sym_t grid_items(dt_host_t *h, uint32_t kernel_index, const dt_schedule_t *schedule) {
  dt_emit_t *m = h->k.m;
  dt_kernel_chain_t chain = dt__kernel_chain(&m->program, kernel_index);
  dt_sym_t axes[DT_MAX_LOOPS], count = dt__sym_const(m->env, 1);
  if (dt__chain_is_bundle(&m->program, chain))
    return dt__bundle_blocks(m, chain);
  uint32_t n = dt__grid_axes(m, &m->program.kernels.items[kernel_index], schedule, axes);
  for (uint32_t i = 0; i < n; i++)
    count = dt__sym_mul(m->env, count, dt__host_axis(h, axes[i]));
  return count;
}

static choice_t schedule_choice(dt_host_t *h, uint32_t kernel_index, uint32_t s,
                                LLVMValueRef functions) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[kernel_index];
  const dt_schedule_t *schedule = &kernel->schedules.items[s];
  uint32_t code = h->of->map->code_of_kernel[h->of->map->first_code[kernel_index] + s];
  dt_sym_t count = grid_items(h, kernel_index, schedule);
  choice_t choice = {.count = dt__host_value(h, count)};
  choice.fn = dt__host_load_at(h, m->t_ptr, functions, code);
  choice.grain = dt__host_value(
      h, m->target->queued ? dt__host_most(h, dt__chain_scratch(m, kernel_index, s, NULL))
                           : dt__grid_grain(m, kernel, schedule));
  return choice;
}

static choice_t choose(dt_host_t *h, uint32_t kernel_index) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[kernel_index];
  LLVMValueRef functions = dt__host_load_field(h, m->t_ptr, offsetof(dt_frame_t, kernels));
  uint32_t n = kernel->schedules.len;
  choice_t best = schedule_choice(h, kernel_index, n - 1, functions);
  for (uint32_t s = n - 1; s-- > 0;) {
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    dt_sym_t predicate = dt__host_predicate(h, schedule);
    if (schedule->predicate.id && !predicate.id)
      continue;
    choice_t other = schedule_choice(h, kernel_index, s, functions);
    if (!predicate.id) {
      best = other;
      continue;
    }
    LLVMValueRef take =
        LLVMBuildICmp(m->b, LLVMIntNE, dt__host_value(h, predicate), dt__emit_i64(m, 0), "");
    best.fn = LLVMBuildSelect(m->b, take, other.fn, best.fn, "");
    best.count = LLVMBuildSelect(m->b, take, other.count, best.count, "");
    best.grain = LLVMBuildSelect(m->b, take, other.grain, best.grain, "");
  }
  return best;
}

static void set_kernel(dt_host_t *h, uint32_t number) {
  dt_emit_t *m = h->k.m;
  LLVMBuildStore(m->b, dt__emit_i64(m, number), dt__host_field(h, offsetof(dt_frame_t, kernel)));
}

// Where kernels are queued, empty work is, too: graphs of them have a node for each kernel.
static void launch(dt_host_t *h, uint32_t index, choice_t choice) {
  dt_emit_t *m = h->k.m;
  LLVMTypeRef params[5] = {m->t_ptr, m->t_ptr, m->t_ptr, m->t_i64, m->t_i64};
  LLVMTypeRef type = LLVMFunctionType(m->t_void, params, 5, 0);
  LLVMValueRef fn = dt__host_load_field(h, m->t_ptr, offsetof(dt_frame_t, launch));
  LLVMValueRef args[5] = {h->frame, choice.fn, h->words, choice.count, choice.grain};
  if (h->numbered)
    set_kernel(h, index + 1);
  LLVMValueRef known = LLVMIsAConstantInt(choice.count);
  if (m->target->queued || (known && LLVMConstIntGetSExtValue(known) > 0)) {
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
static void open_slices(dt_host_t *h, const dt_program_slices_t *slices) {
  dt_emit_t *m = h->k.m;
  dt_sym_t number = dt__sym_ceildiv(m->env, slices->extent, slices->step);
  LLVMValueRef zero = dt__emit_i64(m, 0), end = dt__host_value(h, number);
  LLVMValueRef extent = dt__host_value(h, slices->extent), step = dt__host_value(h, slices->step);
  LLVMValueRef at = dt__loop_open(&h->k, 1, zero, end, 1);
  h->level = 1;
  LLVMValueRef begin = LLVMBuildMul(m->b, at, step, "");
  LLVMValueRef left = LLVMBuildSub(m->b, extent, begin, "");
  LLVMValueRef less = LLVMBuildICmp(m->b, LLVMIntSLT, left, step, "");
  dt__bind_uniform(&h->k, slices->begin, 1, begin);
  dt__bind_uniform(&h->k, slices->count, 1, LLVMBuildSelect(m->b, less, left, step, ""));
}

static void close_slices(dt_host_t *h) {
  dt__loop_close(&h->k, 1);
  h->level = 0;
}

// ---- Calls of users' ops --------------------------------------------------------------------------
typedef void (*buffer_fn_t)(dt_host_t *h, dt_buffer_id_t id, uint32_t *at);

static void each_tensor(dt_host_t *h, const dt_stage_t *stage, buffer_fn_t visit, uint32_t *at) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].buffer.id)
      visit(h, stage->insts.items[i].buffer, at);
  for (uint32_t i = 0; i < stage->stores.len; i++)
    visit(h, stage->stores.items[i].buffer, at);
}

static void count_tensor(dt_host_t *h, dt_buffer_id_t id, uint32_t *at) {
  (void)h, (void)id;
  (*at)++;
}

static void put_address(dt_host_t *h, dt_buffer_id_t id, uint32_t *at) {
  dt__host_store_at(h, dt__host_address(h, id), h->words, (*at)++);
}

static void put_sizes(dt_host_t *h, dt_buffer_id_t id, uint32_t *at) {
  const dt_buffer_t *buffer = dt__program_buffer(&h->k.m->program, id);
  for (uint32_t d = 0; d < buffer->rank; d++)
    dt__host_store_at(h, dt__host_value(h, buffer->sizes[d]), h->words, (*at)++);
  for (uint32_t d = 0; d < buffer->rank; d++)
    dt__host_store_at(h, dt__host_value(h, buffer->strides[d]), h->words, (*at)++);
}

// Words of a kernel; for calls of users' ops as native.h has them.
static uint32_t count_words(const dt_host_program_t *p, uint32_t index) {
  const dt_kernel_t *kernel = &p->m->program.kernels.items[index];
  uint32_t n = 1;
  if (!kernel->external)
    return p->params[index].n_buffers + p->params[index].n_symbols;
  const dt_stage_t *stage = &kernel->stages.items[0];
  uint32_t each = p->m->target->queued ? 1 : 1 + (uint32_t)DT_EXTERNAL_TENSOR_WORDS;
  n += p->m->target->queued ? 0 : (uint32_t)DT_EXTERNAL_ARGS_WORDS;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].buffer.id)
      n += each + 2 * dt__program_buffer(&p->m->program, stage->insts.items[i].buffer)->rank;
  for (uint32_t i = 0; i < stage->stores.len; i++)
    n += each + 2 * dt__program_buffer(&p->m->program, stage->stores.items[i].buffer)->rank;
  return n;
}

// ---- Arguments where kernels are called in place --------------------------------------------------
_Static_assert(sizeof(dt_op_args_t) % 8 == 0 && sizeof(dt_op_tensor_t) % 8 == 0, "words");
_Static_assert(offsetof(dt_op_args_t, inputs) == 16 &&
                   offsetof(dt_op_tensor_t, rank) == offsetof(dt_op_tensor_t, dtype) + 4,
               "numbers of 4 bytes go in pairs");

// Where tensors and their numbers go.
typedef struct tensors_t {
  uint32_t list, tensor, numbers; // words
} tensors_t;

static LLVMValueRef word_address(dt_host_t *h, uint32_t at) {
  return dt__emit_offset(h->k.m, h->words, dt__emit_i64(h->k.m, (int64_t)at * 8));
}

static void put_tensor(dt_host_t *h, dt_buffer_id_t id, tensors_t *at) {
  const dt_buffer_t *buffer = dt__program_buffer(&h->k.m->program, id);
  const struct {
    size_t offset;
    LLVMValueRef value;
  } fields[] = {
      {offsetof(dt_op_tensor_t, data), dt__host_address(h, id)},
      {offsetof(dt_op_tensor_t, dtype),
       dt__emit_i64(h->k.m, (int64_t)((uint64_t)buffer->dtype | (uint64_t)buffer->rank << 32))},
      {offsetof(dt_op_tensor_t, sizes), word_address(h, at->numbers)},
      {offsetof(dt_op_tensor_t, strides), word_address(h, at->numbers + buffer->rank)},
  };
  dt__host_store_at(h, word_address(h, at->tensor), h->words, at->list++);
  for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++)
    dt__host_store_at(h, fields[k].value, h->words, at->tensor + (int64_t)(fields[k].offset / 8));
  at->tensor += (uint32_t)DT_EXTERNAL_TENSOR_WORDS;
  put_sizes(h, id, &at->numbers);
}

// The entry's args with the lists of tensors in their places.
static void put_args(dt_host_t *h, LLVMValueRef entry, uint32_t list, uint32_t n_inputs) {
  dt_emit_t *m = h->k.m;
  uint32_t from = offsetof(dt_external_entry_t, args) / 8;
  for (uint32_t k = 0; k < DT_EXTERNAL_ARGS_WORDS; k++) {
    LLVMValueRef value = k == offsetof(dt_op_args_t, inputs) / 8 ? word_address(h, list)
                         : k == offsetof(dt_op_args_t, results) / 8
                             ? word_address(h, list + n_inputs)
                             : dt__host_load_at(h, m->t_i64, entry, from + k);
    dt__host_store_at(h, value, h->words, DT_EXTERNAL_ARGS + k);
  }
}

static void put_in_place(dt_host_t *h, const dt_stage_t *stage, LLVMValueRef entry) {
  uint32_t n = 0;
  each_tensor(h, stage, count_tensor, &n);
  uint32_t list = DT_EXTERNAL_ARGS + (uint32_t)DT_EXTERNAL_ARGS_WORDS;
  tensors_t at = {.list = list, .tensor = list + n};
  at.numbers = at.tensor + n * (uint32_t)DT_EXTERNAL_TENSOR_WORDS;
  put_args(h, entry, list, n - stage->stores.len);
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].buffer.id)
      put_tensor(h, stage->insts.items[i].buffer, &at);
  for (uint32_t i = 0; i < stage->stores.len; i++)
    put_tensor(h, stage->stores.items[i].buffer, &at);
}

static dt_status_t run_external(dt_host_t *h, uint32_t index) {
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[index];
  LLVMValueRef externals = dt__host_load_field(h, m->t_ptr, offsetof(dt_frame_t, externals));
  LLVMValueRef entry = dt__host_load_at(h, m->t_ptr, externals, kernel->external - 1);
  uint32_t at = 0;
  dt__host_store_at(h, entry, h->words, at++);
  if (m->target->queued) {
    each_tensor(h, &kernel->stages.items[0], put_address, &at);
    each_tensor(h, &kernel->stages.items[0], put_sizes, &at);
  } else {
    put_in_place(h, &kernel->stages.items[0], entry);
  }
  choice_t choice = {
      .fn = dt__host_load_at(h, m->t_ptr, entry, offsetof(dt_external_entry_t, fn) / 8),
      .count = dt__host_value(h, kernel->extents[0]),
      .grain = dt__emit_i64(m, 1)};
  launch(h, index, choice);
  return NULL;
}

// Of a copy of an argument to a result nothing is run where the result is a view of the argument,
// which has no address here, or lies in its memory.
static void skip_copy(dt_host_t *h, const dt_kernel_t *kernel, choice_t *choice) {
  dt_emit_t *m = h->k.m;
  dt_buffer_id_t from, to;
  LLVMValueRef zero = dt__emit_i64(m, 0), skip = NULL, same = NULL;
  if (dt__kernel_copies_result(&m->program, kernel, &from, &to))
    skip = LLVMBuildIsNull(m->b, dt__host_address(h, to), "");
  if (dt__kernel_copies_whole(&m->program, kernel, &from, &to) &&
      dt__program_buffer(&m->program, from)->donated)
    same = LLVMBuildICmp(m->b, LLVMIntEQ, dt__host_address(h, from), dt__host_address(h, to), "");
  if (skip && same)
    skip = LLVMBuildOr(m->b, skip, same, "");
  else if (same)
    skip = same;
  if (skip)
    choice->count = LLVMBuildSelect(m->b, skip, zero, choice->count, "");
}

static dt_status_t run_kernel(dt_host_t *h, uint32_t index) {
  const dt_kernel_params_t *params = &h->of->params[index];
  dt_emit_t *m = h->k.m;
  const dt_kernel_t *kernel = &m->program.kernels.items[index];
  if (kernel->schedules.len == 0)
    return DT_FAIL(DT_E_INTERNAL, "kernel %s has no schedule", kernel->name);
  for (uint32_t s = 0; s < kernel->schedules.len; s++)
    DT_TRY(dt__schedule_verify(m, kernel, &kernel->schedules.items[s]));
  if (!dt__host_launches(&m->program, index))
    return NULL;
  if (kernel->external)
    return run_external(h, index);
  choice_t choice = choose(h, index);
  skip_copy(h, kernel, &choice);
  for (uint32_t i = 0; i < params->n_buffers; i++)
    dt__host_store_at(h, dt__host_address(h, params->buffers[i]), h->words, i);
  for (uint32_t i = 0; i < params->n_symbols; i++)
    dt__host_store_at(h, dt__host_value(h, dt__symbol_sym(m->env, params->symbols[i])), h->words,
                      (int64_t)params->n_buffers + i);
  launch(h, index, choice);
  return NULL;
}

// Kernels [first, last), by words on the stack that it makes room for.
static dt_status_t launch_kernels(dt_host_t *h, uint32_t first, uint32_t last) {
  dt_emit_t *m = h->k.m;
  for (uint32_t i = first; i < last && !m->failure; i++) {
    const dt_program_slices_t *slices = dt__kernel_slices(&m->program, i);
    if (slices && i == slices->first)
      open_slices(h, slices);
    DT_TRY(run_kernel(h, i));
    if (slices && i + 1 == slices->end)
      close_slices(h);
  }
  return NULL;
}

static uint32_t most_words(const dt_host_program_t *p, uint32_t first, uint32_t last) {
  uint32_t most = 1;
  for (uint32_t i = first; i < last; i++)
    most = count_words(p, i) > most ? count_words(p, i) : most;
  return most;
}

// ---- Steps ----------------------------------------------------------------------------------------
typedef struct run_t {
  const dt_host_program_t *p;
  const char *name;
  const dt_host_step_t *steps;
  uint32_t n;
  bool symbols;
  uint32_t readbacks;
} run_t;

static bool is_shared(const dt_host_step_t *step) { return step->of || step->repeated; }

static void name_repeat(const run_t *run, const dt_host_step_t *step, char *out, size_t size) {
  const dt_host_step_t *one = step->of ? &run->steps[step->of - 1] : step;
  snprintf(out, size, "dt_repeat_%u", one->first);
}

// What launches the step's kernels, and those of all steps that it stands for.
static dt_status_t emit_repeat(const run_t *run, const dt_host_step_t *step) {
  dt_emit_t *m = run->p->m;
  dt_host_t h;
  char name[32];
  name_repeat(run, step, name, sizeof(name));
  DT_TRY(dt__host_open_repeat(&h, run->p, name, run->symbols, run->readbacks));
  h.numbered = run->symbols;
  for (uint32_t i = 0; i < step->n_buffers; i++)
    dt__body_place(&h.k, step->buffers[i].id - 1, dt__host_load_at(&h, m->t_ptr, h.table, i));
  h.words = dt__body_slot(&h.k, m->t_i64, most_words(run->p, step->first, step->end));
  DT_TRY(launch_kernels(&h, step->first, step->end));
  LLVMBuildRetVoid(m->b);
  return NULL;
}

static void call_repeat(const run_t *run, dt_host_t *h, const dt_host_step_t *step) {
  char name[32];
  for (uint32_t i = 0; i < step->n_buffers; i++)
    dt__host_store_at(h, dt__host_address(h, step->buffers[i]), h->table, i);
  name_repeat(run, step, name, sizeof(name));
  dt__host_call_repeat(h, name);
}

// Steps [first, last) as a function.
static dt_status_t emit_steps(const run_t *run, const char *name, uint32_t first, uint32_t last) {
  dt_emit_t *m = run->p->m;
  dt_host_t h;
  uint32_t words = 1, addresses = 1;
  DT_TRY(dt__host_open(&h, run->p, name, m->t_void, run->symbols, run->readbacks));
  h.numbered = run->symbols;
  for (uint32_t k = first; k < last; k++) {
    const dt_host_step_t *step = &run->steps[k];
    uint32_t *most = is_shared(step) ? &addresses : &words;
    uint32_t own = is_shared(step) ? step->n_buffers : most_words(run->p, step->first, step->end);
    *most = own > *most ? own : *most;
  }
  h.words = dt__body_slot(&h.k, m->t_i64, words);
  h.table = dt__body_slot(&h.k, m->t_i64, addresses);
  for (uint32_t k = first; k < last && !m->failure; k++) {
    const dt_host_step_t *step = &run->steps[k];
    if (!h.numbered)
      set_kernel(&h, step->first);
    if (is_shared(step))
      call_repeat(run, &h, step);
    else
      DT_TRY(launch_kernels(&h, step->first, step->end));
  }
  LLVMBuildRetVoid(m->b);
  return NULL;
}

static uint32_t words_of(const run_t *run, const dt_host_step_t *step) {
  const dt_program_t *program = &run->p->m->program;
  uint32_t words = 0;
  if (is_shared(step))
    return LAUNCH_WORDS / 2 + step->n_buffers;
  for (uint32_t i = step->first; i < step->end; i++)
    words += LAUNCH_WORDS * program->kernels.items[i].schedules.len + count_words(run->p, i);
  return words;
}

// Where a piece of a run ends that begins with step `first`: behind so much code.
static uint32_t piece_end(const run_t *run, uint32_t first) {
  uint32_t words = 0;
  for (uint32_t k = first; k < run->n; k++) {
    words += words_of(run, &run->steps[k]);
    if (words > PIECE_WORDS && k > first)
      return k;
  }
  return run->n;
}

// One function, or where that would be long one that calls pieces.
static dt_status_t emit_pieces(const run_t *run) {
  dt_emit_t *m = run->p->m;
  dt_host_t h;
  char piece[64];
  if (piece_end(run, 0) == run->n)
    return emit_steps(run, run->name, 0, run->n);
  for (uint32_t k = 0, end = 0; k < run->n; k = end) {
    end = piece_end(run, k);
    snprintf(piece, sizeof(piece), "%s_from_%u", run->name, run->steps[k].first);
    DT_TRY(emit_steps(run, piece, k, end));
  }
  DT_TRY(dt__host_open(&h, run->p, run->name, m->t_void, false, 0));
  for (uint32_t k = 0; k < run->n; k = piece_end(run, k)) {
    snprintf(piece, sizeof(piece), "%s_from_%u", run->name, run->steps[k].first);
    (void)dt__host_call(&h, piece, m->t_void);
  }
  LLVMBuildRetVoid(m->b);
  return NULL;
}

// `symbols`: of a call; kernels of constants alone have none.
static dt_status_t emit_run(const dt_host_program_t *p, const char *name, uint32_t first,
                            uint32_t last, bool symbols, uint32_t readbacks) {
  run_t run = {.p = p, .name = name, .symbols = symbols, .readbacks = readbacks};
  dt_host_step_t *steps = NULL;
  DT_TRY(dt__host_steps(p, first, last, !symbols, &steps, &run.n));
  run.steps = steps;
  for (uint32_t k = 0; k < run.n; k++)
    if (steps[k].repeated)
      DT_TRY(emit_repeat(&run, &steps[k]));
  return emit_pieces(&run);
}

// Where the host finds the numbers that the segment begins with, in memory that code here cannot
// read.
static dt_status_t emit_readbacks(const dt_host_program_t *p, uint32_t segment) {
  dt_emit_t *m = p->m;
  dt_host_t h;
  char name[32];
  snprintf(name, sizeof(name), "dt_readbacks_%u", segment);
  dt_segment_span_t span = dt__llvm_segment_span(&m->program, segment);
  if (!m->target->own_memory || span.readback == span.readback_end)
    return NULL;
  DT_TRY(dt__host_open(&h, p, name, m->t_void, true, span.readback));
  LLVMValueRef to = dt__host_load_field(&h, m->t_ptr, offsetof(dt_frame_t, readback_addresses));
  for (uint32_t i = span.readback; i < span.readback_end; i++)
    dt__host_store_at(&h, dt__host_address(&h, m->program.readbacks.items[i].buffer), to, i);
  LLVMBuildRetVoid(m->b);
  return NULL;
}

// ---- Regions ---------------------------------------------------------------------------------------
// The parts of kernels [first, last) between regions, and inside of them.
static dt_status_t emit_parts(const dt_host_program_t *p, uint32_t first, uint32_t last,
                              uint32_t readbacks, uint32_t after) {
  dt_emit_t *m = p->m;
  for (uint32_t k = first; k < last;) {
    uint32_t at = dt__region_at(&m->program, k, after), end = 0;
    if (at != UINT32_MAX) {
      end = m->program.regions.items[at].end;
      DT_TRY(emit_parts(p, k, end, readbacks, at + 1));
    } else {
      char name[32];
      end = dt__region_part_end(&m->program, k, last, after);
      snprintf(name, sizeof(name), "dt_part_%u", k);
      DT_TRY(emit_run(p, name, k, end, true, readbacks));
    }
    k = end;
  }
  return NULL;
}

// The addresses of the predicates of regions in kernels [first, last).
static dt_status_t emit_flags(const dt_host_program_t *p, uint32_t first, uint32_t last,
                              uint32_t readbacks) {
  dt_emit_t *m = p->m;
  for (uint32_t i = 0; i < m->program.regions.len; i++) {
    const dt_program_region_t *region = &m->program.regions.items[i];
    dt_host_t h;
    char name[32];
    if (region->first < first || region->end > last || region->first == region->end)
      continue;
    snprintf(name, sizeof(name), "dt_flag_%u", i);
    DT_TRY(dt__host_open(&h, p, name, m->t_ptr, true, readbacks));
    LLVMBuildRet(m->b, dt__host_address(&h, region->predicate));
  }
  return NULL;
}

static bool has_regions(const dt_program_t *program, uint32_t first, uint32_t last) {
  for (uint32_t k = first; k < last; k++)
    if (dt__region_at(program, k, 0) != UINT32_MAX)
      return true;
  return false;
}

static dt_status_t emit_segment(const dt_host_program_t *p, const char *name,
                                const dt_segment_span_t *span) {
  dt_emit_t *m = p->m;
  uint32_t first = span->kernel, last = span->kernel_end, readbacks = span->readback_end;
  uint32_t commit = dt__program_commit(&m->program);
  last = commit < last ? commit : last;
  if (!has_regions(&m->program, first, last))
    return emit_run(p, name, first, last, true, readbacks);
  DT_TRY(emit_parts(p, first, last, readbacks, 0));
  DT_TRY(emit_flags(p, first, last, readbacks));
  return dt__emit_regions(m, name, first, last);
}

static dt_status_t emit_version(const dt_host_program_t *p) {
  dt_emit_t *m = p->m;
  dt_host_t h = {.of = p};
  DT_TRY(dt__body_init(&h.k, m, NULL, NULL));
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, NULL, 0, 0);
  dt__body_enter(&h.k, dt__emit_function(m, "dt_frame_version", type, true));
  LLVMBuildRet(m->b, dt__emit_i64(m, DT_FRAME_VERSION));
  return NULL;
}

static dt_status_t emit_once_scratch(const dt_host_program_t *p) {
  dt_emit_t *m = p->m;
  dt_host_t h = {.of = p};
  DT_TRY(dt__body_init(&h.k, m, NULL, NULL));
  LLVMTypeRef type = LLVMFunctionType(m->t_i64, NULL, 0, 0);
  dt__body_enter(&h.k, dt__emit_function(m, "dt_once_scratch", type, true));
  LLVMBuildRet(m->b, dt__host_scratch(&h, 0, m->program.n_once));
  return NULL;
}

// What is run of the last segment once nothing stops the call any more.
static dt_status_t emit_commit(const dt_host_program_t *p, const dt_segment_span_t *span) {
  dt_emit_t *m = p->m;
  uint32_t commit = dt__program_commit(&m->program);
  if (commit == m->program.kernels.len)
    return NULL;
  bool gated = dt__program_commit_gate(&m->program).id != 0;
  if (m->target->queued && dt__program_checks(&m->program) && !gated)
    return DT_FAIL(DT_E_INTERNAL, "a device's updates are behind no gate");
  return emit_run(p, "dt_commit", commit, span->kernel_end, true, span->readback_end);
}

static dt_status_t emit_segments(const dt_host_program_t *p) {
  dt_emit_t *m = p->m;
  uint32_t n = dt__llvm_segment_count(&m->program);
  for (uint32_t segment = 0; segment < n; segment++) {
    dt_segment_span_t span = dt__llvm_segment_span(&m->program, segment);
    char name[32];
    snprintf(name, sizeof(name), "dt_run_%u", segment);
    DT_TRY(emit_readbacks(p, segment));
    DT_TRY(dt__host_plan(p, segment));
    DT_TRY(emit_segment(p, name, &span));
    if (segment + 1 == n)
      DT_TRY(emit_commit(p, &span));
  }
  return NULL;
}

dt_status_t dt__emit_host(dt_emit_t *m, const dt_unit_map_t *map) {
  dt_host_program_t p = {.m = m, .map = map};
  uint32_t n = m->program.kernels.len;
  DT_TRY(dt__llvm_segments_verify(&m->program));
  p.params = DT_ARENA_ARRAY(&m->arena, dt_kernel_params_t, n + 1);
  p.stands = DT_ARENA_ARRAY(&m->arena, uint32_t, (size_t)m->program.buffers.len + 1);
  p.once = DT_ARENA_ARRAY(&m->arena, uint32_t, (size_t)m->program.buffers.len + 1);
  if (!p.params || !p.stands || !p.once)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < m->program.buffers.len; b++)
    p.once[b + 1] = p.once[b] + (m->program.buffers.items[b].kind == DT_BUFFER_ONCE);
  for (uint32_t i = 0; i < n; i++) {
    dt_text_t text;
    dt__text_init(&text);
    dt_status_t status =
        dt__chain_print(&m->program, dt__kernel_chain(&m->program, i), &p.params[i], &text);
    dt__text_fini(&text);
    DT_TRY(status);
  }
  DT_TRY(dt__host_find_symbols(&p));
  DT_TRY(emit_version(&p));
  DT_TRY(emit_once_scratch(&p));
  DT_TRY(emit_run(&p, "dt_once", 0, m->program.n_once, false, 0));
  return emit_segments(&p);
}

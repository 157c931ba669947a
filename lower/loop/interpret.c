// SPDX-License-Identifier: Apache-2.0
// The interpreter: loops, buffers in memory, and the checks that need values. Slow on purpose:
// fusion, schedules and every backend are compared with it.
#include "lower/loop/interpret_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

// ---- Loops ------------------------------------------------------------------------------------------
// Counts through extents[0 … n), the last one fastest, keeping the loops' symbols up to date.
typedef struct nest_t {
  uint32_t n;
  uint32_t symbols[DT_MAX_LOOPS];
  int64_t extents[DT_MAX_LOOPS];
  bool empty;
} nest_t;

static dt_status_t nest_begin(dt_interp_t *in, uint32_t n, const dt_sym_t *vars,
                              const dt_sym_t *extents, nest_t *nest) {
  *nest = (nest_t){.n = n};
  for (uint32_t k = 0; k < n; k++) {
    DT_TRY(dt__interp_eval(in, extents[k], "an extent", &nest->extents[k]));
    if (nest->extents[k] < 0)
      return DT_FAIL(DT_E_INTERNAL, "%s: a loop of extent %lld", in->kernel->name,
                     (long long)nest->extents[k]);
    if (!dt__sym_is_symbol(in->program->env, vars[k], &nest->symbols[k]))
      return DT_FAIL(DT_E_INTERNAL, "%s: a loop without a symbol", in->kernel->name);
    in->values[nest->symbols[k]] = 0;
    nest->empty |= nest->extents[k] == 0;
  }
  return NULL;
}

static bool nest_next(dt_interp_t *in, const nest_t *nest) {
  for (uint32_t k = nest->n; k-- > 0;) {
    int64_t *at = &in->values[nest->symbols[k]];
    if (++*at < nest->extents[k])
      return true;
    *at = 0;
  }
  return false;
}

static dt_status_t run_stage(dt_interp_t *in, const dt_stage_t *stage,
                             dt_interp_reduction_t *states) {
  nest_t nest;
  DT_TRY(nest_begin(in, stage->n_loops, stage->vars, stage->extents, &nest));
  for (uint32_t k = 0; k < stage->reductions.len; k++) {
    const dt_reduction_t *reduction = &stage->reductions.items[k];
    dt__interp_reduction_begin(reduction, stage->insts.items[reduction->value].dtype, &states[k]);
  }
  in->reductions = states;
  bool more = !nest.empty;
  for (; more; more = nest_next(in, &nest)) {
    DT_TRY(dt__interp_body(in, stage));
    for (uint32_t k = 0; k < stage->reductions.len; k++) {
      const dt_reduction_t *reduction = &stage->reductions.items[k];
      dt__interp_reduction_take(in, stage, reduction, &states[k]);
    }
  }
  for (uint32_t k = 0; k < stage->reductions.len; k++) {
    const dt_reduction_t *reduction = &stage->reductions.items[k];
    in->rows[reduction->row] =
        dt__reduction_is_arg(reduction->kind) ? states[k].index : states[k].value;
  }
  return NULL;
}

static dt_status_t run_outer(dt_interp_t *in, dt_interp_reduction_t *states) {
  const dt_kernel_t *kernel = in->kernel;
  nest_t nest;
  DT_TRY(nest_begin(in, kernel->n_loops, kernel->vars, kernel->extents, &nest));
  bool more = !nest.empty;
  for (; more; more = nest_next(in, &nest)) {
    if (++in->iteration == 0)
      return DT_FAIL(DT_E_LIMIT, "%s: too many iterations to interpret", kernel->name);
    for (uint32_t k = 0; k < kernel->stages.len; k++)
      DT_TRY(run_stage(in, &kernel->stages.items[k], states));
  }
  return NULL;
}

// ---- Buffers --------------------------------------------------------------------------------------------
dt_status_t dt__interp_measure(dt_interp_t *in, uint32_t id) {
  dt_interp_buffer_t *at = &in->buffers[id - 1];
  const dt_buffer_t *buffer = &in->program->buffers.items[id - 1];
  if (at->ready)
    return NULL;
  at->count = 1;
  for (uint32_t d = 0; d < buffer->rank; d++) {
    DT_TRY(dt__interp_eval(in, buffer->sizes[d], "a size", &at->sizes[d]));
    DT_TRY(dt__interp_eval(in, buffer->strides[d], "a stride", &at->strides[d]));
    if (at->sizes[d] < 0 || at->sizes[d] >= DT_SIZE_LIMIT)
      return DT_FAIL(DT_E_INTERNAL, "buffer %u has size %lld in dim %u", id,
                     (long long)at->sizes[d], d);
    int64_t places = at->sizes[d];
    const dt_buffer_layout_t *layout = buffer->layout;
    if (layout)
      places += layout->before[d] + layout->behind[d];
    if (layout && dt__layout_blocks(layout, d))
      places = (places + layout->block - 1) / layout->block * layout->block;
    if (!dt__mul_i64(at->count, places, &at->count))
      return DT_FAIL(DT_E_LIMIT, "buffer %u is too large", id);
  }
  at->ready = true;
  return NULL;
}

dt_status_t dt__interp_allocate(dt_interp_t *in, uint32_t id, bool memory) {
  dt_interp_buffer_t *at = &in->buffers[id - 1];
  size_t bytes = dt_dtype_size(in->program->buffers.items[id - 1].dtype);
  at->written = dt__calloc((size_t)at->count + 1, sizeof(*at->written));
  if (!at->written)
    return DT_NO_MEMORY();
  if (!memory)
    return NULL;
  at->base = dt__calloc((size_t)at->count + 1, bytes);
  return at->base ? NULL : DT_NO_MEMORY();
}

static void release_locals(dt_interp_t *in) {
  for (uint32_t b = 0; b < in->program->buffers.len; b++) {
    if (in->program->buffers.items[b].kind != DT_BUFFER_LOCAL)
      continue;
    dt__free(in->buffers[b].base);
    dt__free(in->buffers[b].written);
    in->buffers[b].base = NULL;
    in->buffers[b].written = NULL;
  }
}

static dt_status_t prepare_buffer(dt_interp_t *in, dt_buffer_id_t id) {
  DT_TRY(dt__interp_measure(in, id.id));
  dt_interp_buffer_t *at = &in->buffers[id.id - 1];
  bool local = dt__program_buffer(in->program, id)->kind == DT_BUFFER_LOCAL;
  if (local && !at->base)
    return dt__interp_allocate(in, id.id, true);
  if (!at->base && at->count)
    return DT_FAIL(DT_E_INTERNAL, "%s: buffer %u has no memory", in->kernel->name, id.id);
  return NULL;
}

static dt_status_t prepare_buffers(dt_interp_t *in) {
  for (uint32_t s = 0; s < in->kernel->stages.len; s++) {
    const dt_stage_t *stage = &in->kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (dt__inst_reads(&stage->insts.items[i]).id)
        DT_TRY(prepare_buffer(in, stage->insts.items[i].buffer));
    for (uint32_t k = 0; k < stage->stores.len; k++)
      DT_TRY(prepare_buffer(in, stage->stores.items[k].buffer));
  }
  return NULL;
}

// ---- One kernel -------------------------------------------------------------------------------------------
dt_status_t dt__interp_run(dt_interp_t *in, const dt_kernel_t *kernel) {
  uint32_t n_insts = 0, n_reductions = 0;
  for (uint32_t k = 0; k < kernel->stages.len; k++) {
    const dt_stage_t *stage = &kernel->stages.items[k];
    n_insts = stage->insts.len > n_insts ? stage->insts.len : n_insts;
    n_reductions = stage->reductions.len > n_reductions ? stage->reductions.len : n_reductions;
  }
  in->kernel = kernel;
  in->iteration = 0;
  in->failed_check = 0;
  in->rows = dt__calloc(kernel->n_rows + 1, sizeof(*in->rows));
  in->insts = dt__calloc(n_insts + 1, sizeof(*in->insts));
  dt_interp_reduction_t *states = dt__calloc(n_reductions + 1, sizeof(*states));
  dt_status_t status = in->rows && in->insts && states ? NULL : DT_NO_MEMORY();
  if (!status)
    status = prepare_buffers(in);
  if (!status)
    status = kernel->external ? dt__interp_external(in) : run_outer(in, states);
  if (!status && in->failed_check)
    status = DT_FAIL(DT_E_RANGE, "%s", in->program->checks.items[in->failed_check - 1].what);
  release_locals(in);
  dt__free(in->rows);
  dt__free(in->insts);
  dt__free(states);
  in->kernel = NULL;
  return status;
}

void dt__interp_fini(dt_interp_t *in) {
  dt__free(in->values);
  dt__free(in->buffers);
}

dt_status_t dt__interp_init(dt_interp_t *in, const dt_program_t *program, const int64_t *symbols) {
  uint32_t n = dt__symenv_symbol_count(program->env);
  *in = (dt_interp_t){.program = program};
  in->values = dt__calloc(n + 1, sizeof(*in->values));
  in->buffers = dt__calloc(program->buffers.len + 1, sizeof(*in->buffers));
  if (!in->values || !in->buffers) {
    dt__interp_fini(in);
    return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_info_t info = dt__symbol_info(program->env, k);
    if (info.kind == DT_SYMBOL_PARAMETER)
      in->values[k] = info.hint;
    else if (info.divisor)
      in->values[k] = in->values[info.whole] / info.divisor;
    else if (info.kind != DT_SYMBOL_LOOP && info.kind != DT_SYMBOL_DATA &&
             info.kind != DT_SYMBOL_SLICE)
      in->values[k] = symbols[k];
  }
  return NULL;
}

dt_status_t dt__kernel_interpret(const dt_program_t *program, const dt_kernel_t *kernel,
                                 const int64_t *symbols, void *const *base) {
  dt_interp_t in;
  DT_TRY(dt__interp_init(&in, program, symbols));
  for (uint32_t k = 0; k < dt__symenv_symbol_count(program->env); k++)
    if (dt__symbol_info(program->env, k).kind == DT_SYMBOL_SLICE)
      in.values[k] = symbols[k];
  for (uint32_t b = 0; b < program->buffers.len; b++)
    if (program->buffers.items[b].kind != DT_BUFFER_LOCAL)
      in.buffers[b].base = base[b];
  dt_status_t status = dt__interp_run(&in, kernel);
  dt__interp_fini(&in);
  return status;
}

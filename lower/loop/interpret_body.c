// SPDX-License-Identifier: Apache-2.0
// The meaning of instructions, stores and reductions on one iteration. Every result is rounded to
// the instruction's dtype, as compiled code rounds it.
#include "lower/graph/scalar.h"
#include "lower/loop/interpret_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

__attribute__((noinline)) static dt_status_t no_value(const dt_interp_t *in, dt_sym_t e,
                                                      const char *what) {
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(in->program->env, e, &text);
  dt_status_t status =
      DT_FAIL(DT_E_INTERNAL, "%s: %s %s has no value", in->kernel ? in->kernel->name : "program",
              what, dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

dt_status_t dt__interp_eval(const dt_interp_t *in, dt_sym_t e, const char *what, int64_t *out) {
  return dt__sym_eval(in->program->env, e, in->values, out) ? NULL : no_value(in, e, what);
}

static dt_scalar_t rounded(dt_dtype_t dtype, dt_scalar_t value) {
  return dt__dtype_is_float(dtype) ? dt__scalar_cast(DT_F64, dtype, value) : value;
}

// ---- Memory -----------------------------------------------------------------------------------------
// The element's offset, in `in->at`; DT_E_INTERNAL where the index leaves the buffer.
static dt_status_t locate(dt_interp_t *in, dt_buffer_id_t id, const dt_sym_t *index,
                          const char *what) {
  const dt_interp_buffer_t *buffer = &in->buffers[id.id - 1];
  const dt_buffer_t *info = dt__program_buffer(in->program, id);
  const dt_buffer_layout_t *layout = info->layout;
  int64_t offset = 0;
  if (in->kernel->by_offset && info->rank) {
    DT_TRY(dt__interp_eval(in, index[0], what, &in->at));
    bool strided = info->kind == DT_BUFFER_INPUT; // however the caller has it
    if (strided || (in->at >= 0 && in->at < buffer->count))
      return NULL;
    return DT_FAIL(DT_E_INTERNAL, "%s: %s buffer %u at %lld of %lld elements", in->kernel->name,
                   what, id.id, (long long)in->at, (long long)buffer->count);
  }
  for (uint32_t d = 0; d < info->rank; d++) {
    DT_TRY(dt__interp_eval(in, index[d], what, &in->at));
    int64_t before = layout ? layout->before[d] : 0, behind = layout ? layout->behind[d] : 0;
    if (in->at < -before || in->at >= buffer->sizes[d] + behind)
      return DT_FAIL(DT_E_INTERNAL, "%s: %s buffer %u at %lld in dim %u of size %lld",
                     in->kernel->name, what, id.id, (long long)in->at, d,
                     (long long)buffer->sizes[d]);
    if (in->at < 0 || in->at >= buffer->sizes[d])
      in->in_halo = true;
    in->at += before;
    if (layout && dt__layout_blocks(layout, d)) {
      offset += in->at % layout->block;
      in->at /= layout->block;
    }
    offset += in->at * buffer->strides[d];
  }
  in->at = offset;
  return NULL;
}

static dt_status_t load(dt_interp_t *in, const dt_inst_t *inst, dt_scalar_t *out) {
  *out = (dt_scalar_t){.i = 0};
  if (inst->mask != DT_NO_INST && !in->insts[inst->mask].i) {
    if (inst->args[0] != DT_NO_INST)
      *out = in->insts[inst->args[0]];
    return NULL;
  }
  const dt_interp_buffer_t *buffer = &in->buffers[inst->buffer.id - 1];
  DT_TRY(locate(in, inst->buffer, inst->index, "a load from"));
  int64_t at = in->at;
  bool local = dt__program_buffer(in->program, inst->buffer)->kind == DT_BUFFER_LOCAL;
  if (buffer->written && (local ? buffer->written[at] != in->iteration : buffer->written[at] == 0))
    return DT_FAIL(DT_E_INTERNAL, "%s: element %lld of buffer %u is read before it is written",
                   in->kernel->name, (long long)at, inst->buffer.id);
  *out = dt__scalar_load(inst->dtype, buffer->base + at * (int64_t)dt_dtype_size(inst->dtype));
  return NULL;
}

static bool is_fill(const dt_buffer_t *buffer, dt_scalar_t value) {
  if (!dt__dtype_is_float(buffer->dtype))
    return value.i == buffer->layout->fill.i;
  double fill = buffer->layout->fill.f;
  return value.f == fill || (isnan(value.f) && isnan(fill));
}

static dt_status_t store(dt_interp_t *in, const dt_stage_t *stage, const dt_store_t *to) {
  if (to->mask != DT_NO_INST && !in->insts[to->mask].i)
    return NULL;
  dt_interp_buffer_t *buffer = &in->buffers[to->buffer.id - 1];
  const dt_buffer_t *info = dt__program_buffer(in->program, to->buffer);
  dt_dtype_t dtype = stage->insts.items[to->value].dtype;
  in->in_halo = false;
  DT_TRY(locate(in, to->buffer, to->index, "a store to"));
  if (in->in_halo && info->layout->filled && !is_fill(info, in->insts[to->value]))
    return DT_FAIL(DT_E_INTERNAL, "%s: the halo of buffer %u is filled with another value",
                   in->kernel->name, to->buffer.id);
  int64_t at = in->at;
  if (buffer->written && to->revises && !buffer->written[at])
    return DT_FAIL(DT_E_INTERNAL, "%s: element %lld of buffer %u is revised before it is written",
                   in->kernel->name, (long long)at, to->buffer.id);
  if (buffer->written && !to->revises) {
    bool again = info->kind == DT_BUFFER_LOCAL   ? buffer->written[at] == in->iteration
                 : info->kind == DT_BUFFER_STATE ? false
                                                 : buffer->written[at] != 0;
    if (again)
      return DT_FAIL(DT_E_INTERNAL, "%s: element %lld of buffer %u is written twice",
                     in->kernel->name, (long long)at, to->buffer.id);
    buffer->written[at] = in->iteration;
  }
  dt__scalar_store(dtype, buffer->base + at * (int64_t)dt_dtype_size(dtype), in->insts[to->value]);
  return NULL;
}

// ---- Instructions -------------------------------------------------------------------------------------
// An index without a value is unspecified; here it is 0.
static dt_scalar_t index_value(dt_interp_t *in, const dt_inst_t *inst) {
  bool known = dt__sym_eval(in->program->env, inst->sym, in->values, &in->at);
  int64_t value = known ? in->at : 0;
  dt_scalar_t made = {.i = value};
  if (inst->dtype == DT_BOOL)
    made.i = value != 0;
  else if (inst->dtype != DT_I64)
    made = dt__scalar_cast(DT_I64, inst->dtype, made);
  return made;
}

static dt_status_t bind(dt_interp_t *in, const dt_inst_t *inst, dt_scalar_t *out) {
  int64_t extent = 0, at = in->insts[inst->args[0]].i;
  uint32_t symbol = 0;
  DT_TRY(dt__interp_eval(in, inst->extent, "a bind's extent", &extent));
  if (at < 0)
    at += extent;
  bool wanted = inst->mask == DT_NO_INST || in->insts[inst->mask].i;
  bool inside = wanted && at >= 0 && at < extent;
  if (dt__sym_is_symbol(in->program->env, inst->sym, &symbol))
    in->values[symbol] = inside ? at : 0;
  if (wanted && !inside && dt__inst_checks(inst) && !in->failed_check) {
    in->failed_check = inst->check + 1;
    in->failed_value = in->insts[inst->args[0]].i;
    in->failed_extent = extent;
  }
  out->i = inside;
  return NULL;
}

// The reduction with this iteration taken, which the loop takes for good at its end.
__attribute__((noinline)) static dt_status_t running(dt_interp_t *in, const dt_stage_t *stage,
                                                     const dt_inst_t *inst, dt_scalar_t *out) {
  for (uint32_t k = 0; k < stage->reductions.len; k++) {
    const dt_reduction_t *reduction = &stage->reductions.items[k];
    if (reduction->row != inst->row)
      continue;
    dt_interp_reduction_t state = in->reductions[k];
    dt__interp_reduction_take(in, stage, reduction, &state);
    *out = dt__reduction_is_arg(reduction->kind) ? state.index : state.value;
    return NULL;
  }
  return DT_FAIL(DT_E_INTERNAL, "%s: r%u is reduced by another stage", in->kernel->name, inst->row);
}

// The reduction as the iteration before left it: the loop takes this one's value at its end.
__attribute__((noinline)) static dt_status_t prior(const dt_interp_t *in, const dt_stage_t *stage,
                                                   const dt_inst_t *inst, dt_scalar_t *out) {
  for (uint32_t k = 0; k < stage->reductions.len; k++)
    if (stage->reductions.items[k].row == inst->row) {
      *out = in->reductions[k].value;
      return NULL;
    }
  return DT_FAIL(DT_E_INTERNAL, "%s: r%u is reduced by another stage", in->kernel->name, inst->row);
}

// By halving: where the buffer does not ascend, the answer is one of [0, size], the same
// everywhere.
static dt_status_t search(dt_interp_t *in, const dt_stage_t *stage, const dt_inst_t *inst,
                          dt_scalar_t *out) {
  const dt_interp_buffer_t *buffer = &in->buffers[inst->buffer.id - 1];
  dt_dtype_t dtype = stage->insts.items[inst->args[0]].dtype;
  int64_t low = 0, high = buffer->sizes[0];
  while (low < high) {
    int64_t middle = low + (high - low) / 2, at = middle * buffer->strides[0];
    if (buffer->written && !buffer->written[at])
      return DT_FAIL(DT_E_INTERNAL,
                     "%s: element %lld of buffer %u is searched before it is written",
                     in->kernel->name, (long long)middle, inst->buffer.id);
    in->args[0] = dt__scalar_load(dtype, buffer->base + at * (int64_t)dt_dtype_size(dtype));
    in->args[1] = in->insts[inst->args[0]];
    dt_scalar_op_t op = inst->inclusive ? DT_SCALAR_le : DT_SCALAR_lt;
    if (dt__scalar_eval(op, dtype, in->args).i)
      low = middle + 1;
    else
      high = middle;
  }
  out->i = low;
  return NULL;
}

static dt_scalar_t scalar_value(dt_interp_t *in, const dt_stage_t *stage, const dt_inst_t *inst) {
  uint32_t arity = dt__inst_arity(inst);
  for (uint32_t k = 0; k < arity; k++)
    in->args[k] = in->insts[inst->args[k]];
  uint32_t typed = inst->args[inst->op == DT_SCALAR_where ? 1 : 0];
  return rounded(inst->dtype, dt__scalar_eval(inst->op, stage->insts.items[typed].dtype, in->args));
}

static dt_status_t execute(dt_interp_t *in, const dt_stage_t *stage, const dt_inst_t *inst,
                           dt_scalar_t *out) {
  switch (inst->kind) {
  case DT_INST_CONST:
    *out = rounded(inst->dtype, inst->value);
    return NULL;
  case DT_INST_INDEX:
    *out = index_value(in, inst);
    return NULL;
  case DT_INST_LOAD:
    return load(in, inst, out);
  case DT_INST_SCALAR:
    *out = scalar_value(in, stage, inst);
    return NULL;
  case DT_INST_CAST:
    *out = rounded(inst->dtype, dt__scalar_cast(stage->insts.items[inst->args[0]].dtype,
                                                inst->dtype, in->insts[inst->args[0]]));
    return NULL;
  case DT_INST_BITS:
    *out = dt__scalar_bits(stage->insts.items[inst->args[0]].dtype, inst->dtype,
                           in->insts[inst->args[0]]);
    return NULL;
  case DT_INST_ROW:
    *out = in->rows[inst->row];
    return NULL;
  case DT_INST_BIND:
    return bind(in, inst, out);
  case DT_INST_RUNNING:
    return running(in, stage, inst, out);
  case DT_INST_PRIOR:
    return prior(in, stage, inst, out);
  case DT_INST_SEARCH:
    return search(in, stage, inst, out);
  case DT_INST_WHOLE: // of calls of users' ops, which run otherwise
    *out = (dt_scalar_t){0};
    return NULL;
  case DT_INST_SOUND: // a failure ends the run
    *out = (dt_scalar_t){.i = 1};
    return NULL;
  }
  return NULL;
}

dt_status_t dt__interp_body(dt_interp_t *in, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    DT_TRY(execute(in, stage, &stage->insts.items[i], &in->insts[i]));
  for (uint32_t k = 0; k < stage->stores.len; k++)
    DT_TRY(store(in, stage, &stage->stores.items[k]));
  return NULL;
}

// ---- Reductions ---------------------------------------------------------------------------------
void dt__interp_reduction_begin(const dt_reduction_t *reduction, dt_dtype_t dtype,
                                dt_interp_reduction_t *state) {
  *state = (dt_interp_reduction_t){.value = dt__reduction_identity(reduction->kind, dtype)};
}

static bool is_nan(dt_dtype_t dtype, dt_scalar_t value) {
  return dt__dtype_is_float(dtype) && isnan(value.f);
}

void dt__interp_reduction_take(dt_interp_t *in, const dt_stage_t *stage,
                               const dt_reduction_t *reduction, dt_interp_reduction_t *state) {
  dt_dtype_t dtype = stage->insts.items[reduction->value].dtype;
  dt_scalar_t value = in->insts[reduction->value];
  const dt_reduction_info_t *info = dt__reduction_info(reduction->kind);
  if (dt__reduction_is_last(reduction->kind)) {
    state->value = value;
    return;
  }
  if (!info->place) {
    in->args[0] = state->value;
    in->args[1] = value;
    state->value = rounded(dtype, dt__scalar_eval(info->combine, dtype, in->args));
    return;
  }
  bool better = !state->any;
  if (!better && !is_nan(dtype, state->value)) {
    in->args[0] = value;
    in->args[1] = state->value;
    better = is_nan(dtype, value) || dt__scalar_eval(info->combine, dtype, in->args).i;
  }
  if (better) {
    dt_scalar_t index = {.i = 0};
    if (reduction->index != DT_NO_INST)
      index = in->insts[reduction->index];
    *state = (dt_interp_reduction_t){true, value, index};
  }
}

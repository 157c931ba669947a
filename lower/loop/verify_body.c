// SPDX-License-Identifier: Apache-2.0
// The verifier of a stage's body: operands, dtypes, buffers, row values and checked indices.
#include "lower/graph/scalar.h"
#include "lower/loop/verify_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

static dt_dtype_t dtype_of(const dt_loop_verifier_t *v, uint32_t inst) {
  return v->stage->insts.items[inst].dtype;
}

// ---- Scalar ops -----------------------------------------------------------------------------------
static bool in_domain(char domain, dt_dtype_t dtype) {
  switch (domain) {
  case 'F':
    return dt__dtype_is_float(dtype);
  case 'I':
    return dt__dtype_is_int(dtype);
  case 'B':
    return dt__dtype_is_bool(dtype);
  case 'N':
    return dt__dtype_is_int(dtype) || dt__dtype_is_float(dtype);
  default:
    return dt__dtype_is_valid(dtype);
  }
}

static dt_status_t verify_scalar(const dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  const dt_scalar_info_t *info = dt__scalar_info(inst->op);
  uint32_t first = inst->op == DT_SCALAR_where;
  if (first && dtype_of(v, inst->args[0]) != DT_BOOL)
    return dt__loop_verify_fail(v, "v%u = where: its condition is no bool", at);
  dt_dtype_t dtype = dtype_of(v, inst->args[first]);
  for (uint32_t k = first; k < info->arity; k++)
    if (dtype_of(v, inst->args[k]) != dtype)
      return dt__loop_verify_fail(v, "v%u = %s of %s and %s", at, info->name, dt_dtype_name(dtype),
                                  dt_dtype_name(dtype_of(v, inst->args[k])));
  if (!in_domain(info->domain, dtype))
    return dt__loop_verify_fail(v, "v%u = %s of %s", at, info->name, dt_dtype_name(dtype));
  if (dt__dtype_is_half(dtype) && inst->op != DT_SCALAR_where)
    return dt__loop_verify_fail(v, "v%u = %s of %s, which is only stored; cast to f32 first", at,
                                info->name, dt_dtype_name(dtype));
  if (inst->dtype != (info->result_bool ? DT_BOOL : dtype))
    return dt__loop_verify_fail(v, "v%u = %s of %s gives %s", at, info->name, dt_dtype_name(dtype),
                                dt_dtype_name(inst->dtype));
  return NULL;
}

// ---- Memory -----------------------------------------------------------------------------------------
// The loops around an access have iterations: an index in others may be anything.
static bool is_run(const dt_loop_verifier_t *v) {
  bool run = true;
  for (uint32_t k = 0; k < v->kernel->n_loops; k++)
    run = run && dt__sym_range(v->program->env, v->kernel->extents[k]).lo >= 1;
  for (uint32_t k = 0; k < v->stage->n_loops; k++)
    run = run && dt__sym_range(v->program->env, v->stage->extents[k]).lo >= 1;
  return run;
}

// No place of dim d: known to be in front of the first one, or behind the last.
static bool is_outside(const dt_loop_verifier_t *v, const dt_buffer_t *buffer, uint32_t d,
                       dt_sym_t at) {
  dt_symenv_t *env = v->program->env;
  int64_t before = buffer->layout->before[d], behind = buffer->layout->behind[d];
  dt_sym_t end = dt__sym_add(env, buffer->sizes[d], dt__sym_const(env, behind));
  return dt__sym_known_true(env, dt__sym_lt(env, at, dt__sym_const(env, -before))) ||
         dt__sym_known_true(env, dt__sym_le(env, end, at));
}

static dt_status_t verify_access(const dt_loop_verifier_t *v, dt_buffer_id_t id,
                                 const dt_sym_t *index, dt_dtype_t dtype, const char *what) {
  if (id.id == 0 || id.id > v->program->buffers.len)
    return dt__loop_verify_fail(v, "%s: buffer %u of %u", what, id.id, v->program->buffers.len);
  const dt_buffer_t *buffer = dt__program_buffer(v->program, id);
  if (buffer->dtype != dtype)
    return dt__loop_verify_fail(v, "%s: %s, but buffer %u has %s", what, dt_dtype_name(dtype),
                                id.id, dt_dtype_name(buffer->dtype));
  if (buffer->rank && !index)
    return dt__loop_verify_fail(v, "%s: buffer %u without an index", what, id.id);
  for (uint32_t d = 0; d < buffer->rank; d++)
    DT_TRY(dt__loop_verify_expr(v, index[d], what));
  for (uint32_t d = 0; buffer->layout && !v->kernel->by_offset && is_run(v) && d < buffer->rank;
       d++)
    if (is_outside(v, buffer, d, index[d]))
      return dt__loop_verify_fail(v, "%s: buffer %u, dim %u, outside of its halo", what, id.id, d);
  return NULL;
}

static dt_status_t verify_local(dt_loop_verifier_t *v, dt_buffer_id_t id) {
  uint32_t *owner = &v->local_kernel[id.id - 1];
  if (*owner && *owner != v->kernel_at + 1)
    return dt__loop_verify_fail(v, "buffer %u is local to kernel %u", id.id, *owner - 1);
  *owner = v->kernel_at + 1;
  return NULL;
}

// A kernel may read what an earlier stage of it stored, in the same outer iteration: dims that move
// with the outer loops alone must be the same in the store and in the load.
static dt_status_t verify_own(const dt_loop_verifier_t *v, const dt_inst_t *load) {
  const dt_symenv_t *env = v->program->env;
  uint32_t rank = dt__program_buffer(v->program, load->buffer)->rank;
  for (uint32_t s = 0; s < v->stage_at; s++) {
    const dt_stage_t *stage = &v->kernel->stages.items[s];
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      const dt_store_t *store = &stage->stores.items[k];
      if (store->buffer.id == load->buffer.id && dt__store_scatters(v->program, store))
        return dt__loop_verify_fail(v, "buffer %u is read by the kernel that scatters into it",
                                    load->buffer.id);
      for (uint32_t d = 0; store->buffer.id == load->buffer.id && d < rank; d++) {
        bool outer = false, inner = false;
        for (uint32_t i = 0; i < v->kernel->n_loops; i++)
          outer = outer || dt__sym_depends(env, store->index[d], v->kernel->vars[i]);
        for (uint32_t i = 0; i < stage->n_loops; i++)
          inner = inner || dt__sym_depends(env, store->index[d], stage->vars[i]);
        if (outer && !inner && store->index[d].id != load->index[d].id)
          return dt__loop_verify_fail(v,
                                      "buffer %u is read in another outer iteration than the one "
                                      "that wrote it",
                                      load->buffer.id);
      }
    }
  }
  return NULL;
}

static dt_status_t verify_readable(dt_loop_verifier_t *v, const dt_inst_t *load) {
  dt_buffer_id_t id = load->buffer;
  const dt_buffer_t *buffer = dt__program_buffer(v->program, id);
  uint32_t b = id.id - 1;
  if (buffer->kind == DT_BUFFER_LOCAL) {
    DT_TRY(verify_local(v, id));
    if (!v->local_stage[b] || v->local_stage[b] > v->stage_at)
      return dt__loop_verify_fail(v, "local buffer %u is read before a stage wrote it", id.id);
    return NULL;
  }
  if (v->written_by[b] == v->kernel_at + 1)
    return verify_own(v, load);
  bool once = v->kernel_at < v->program->n_once;
  if (buffer->kind == DT_BUFFER_CONSTANT)
    return NULL;
  if (once && buffer->kind != DT_BUFFER_ONCE)
    return dt__loop_verify_fail(v, "a kernel that runs once reads buffer %u, which is %s", id.id,
                                dt__buffer_kind_name(buffer->kind));
  bool revised = v->stage->stores.len == 1 && v->stage->stores.items[0].revises &&
                 v->stage->stores.items[0].buffer.id == id.id;
  if (buffer->kind == DT_BUFFER_INPUT && v->earlier_writer[b] && !revised && !buffer->taken)
    return dt__loop_verify_fail(v, "buffer %u is read after it was updated", id.id);
  if (buffer->kind == DT_BUFFER_INPUT)
    return NULL;
  if (!v->earlier_writer[b])
    return dt__loop_verify_fail(v, "buffer %u is read before a kernel wrote it", id.id);
  return NULL;
}

// `mask` is false wherever bind instruction `bind` is.
static bool implies(const dt_stage_t *stage, uint32_t mask, uint32_t bind) {
  if (mask == DT_NO_INST)
    return false;
  if (mask == bind)
    return true;
  const dt_inst_t *inst = &stage->insts.items[mask];
  if (inst->kind != DT_INST_SCALAR || inst->op != DT_SCALAR_logical_and)
    return false;
  return implies(stage, inst->args[0], bind) || implies(stage, inst->args[1], bind);
}

// Wherever `mask` is true, every DATA symbol of an access is in its range.
static dt_status_t verify_checked(const dt_loop_verifier_t *v, dt_buffer_id_t buffer,
                                  const dt_sym_t *index, uint32_t mask, const char *what) {
  const dt_symenv_t *env = v->program->env;
  uint32_t rank = dt__program_buffer(v->program, buffer)->rank, symbols[512];
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t n = dt__sym_symbols(env, index[d], symbols, 512);
    for (uint32_t k = 0; k < n && k < 512; k++)
      if (dt__symbol_info(env, symbols[k]).kind == DT_SYMBOL_DATA &&
          !implies(v->stage, mask, v->bound_by[symbols[k]]))
        return dt__loop_verify_fail(v, "%s at d%u without the mask of its bind", what, symbols[k]);
  }
  return NULL;
}

static dt_status_t verify_load(dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  DT_TRY(verify_access(v, inst->buffer, inst->index, inst->dtype, "a load"));
  DT_TRY(verify_readable(v, inst));
  if (inst->mask != DT_NO_INST && dtype_of(v, inst->mask) != DT_BOOL)
    return dt__loop_verify_fail(v, "v%u: its mask is no bool", at);
  if (inst->args[0] != DT_NO_INST && inst->mask == DT_NO_INST)
    return dt__loop_verify_fail(v, "v%u has a fill, but no mask", at);
  if (inst->args[0] != DT_NO_INST && dtype_of(v, inst->args[0]) != inst->dtype)
    return dt__loop_verify_fail(v, "v%u: its fill is %s", at,
                                dt_dtype_name(dtype_of(v, inst->args[0])));
  return verify_checked(v, inst->buffer, inst->index, inst->mask, "a load");
}

// ---- Other instructions -------------------------------------------------------------------------------
static dt_status_t verify_row(const dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  if (inst->row >= v->kernel->n_rows || !v->row_stage[inst->row] ||
      v->row_stage[inst->row] > v->stage_at)
    return dt__loop_verify_fail(v, "v%u: r%u is defined by no earlier stage", at, inst->row);
  if (v->row_dtype[inst->row] != inst->dtype)
    return dt__loop_verify_fail(v, "v%u: r%u is %s, not %s", at, inst->row,
                                dt_dtype_name(v->row_dtype[inst->row]), dt_dtype_name(inst->dtype));
  return NULL;
}

// The reduction of this stage that defines `row`; its operands stand before instruction `at`.
static dt_status_t verify_running(const dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  for (uint32_t k = 0; k < v->stage->reductions.len; k++) {
    const dt_reduction_t *reduction = &v->stage->reductions.items[k];
    if (reduction->row != inst->row)
      continue;
    if (reduction->value >= at || (reduction->index != DT_NO_INST && reduction->index >= at))
      return dt__loop_verify_fail(v, "v%u: r%u reductions what comes after it", at, inst->row);
    if (reduction->dtype != inst->dtype)
      return dt__loop_verify_fail(v, "v%u: r%u is %s, not %s", at, inst->row,
                                  dt_dtype_name(reduction->dtype), dt_dtype_name(inst->dtype));
    return NULL;
  }
  return dt__loop_verify_fail(v, "v%u: r%u is no reduction of this stage", at, inst->row);
}

// The reduction of this stage that leaves `row` to the next iteration.
static dt_status_t verify_prior(const dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  for (uint32_t k = 0; k < v->stage->reductions.len; k++) {
    const dt_reduction_t *reduction = &v->stage->reductions.items[k];
    if (reduction->row != inst->row)
      continue;
    if (!dt__reduction_is_last(reduction->kind))
      return dt__loop_verify_fail(v, "v%u: r%u is not what an iteration leaves to the next", at,
                                  inst->row);
    if (reduction->dtype != inst->dtype)
      return dt__loop_verify_fail(v, "v%u: r%u is %s, not %s", at, inst->row,
                                  dt_dtype_name(reduction->dtype), dt_dtype_name(inst->dtype));
    return NULL;
  }
  return dt__loop_verify_fail(v, "v%u: r%u is no reduction of this stage", at, inst->row);
}

static dt_status_t verify_search(dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  dt_dtype_t dtype = dtype_of(v, inst->args[0]);
  if (!in_domain('N', dtype) || dt__dtype_is_half(dtype) || inst->dtype != DT_I64)
    return dt__loop_verify_fail(v, "v%u searches %s and gives %s", at, dt_dtype_name(dtype),
                                dt_dtype_name(inst->dtype));
  dt_buffer_id_t id = inst->buffer;
  if (id.id == 0 || id.id > v->program->buffers.len)
    return dt__loop_verify_fail(v, "v%u searches buffer %u of %u", at, id.id,
                                v->program->buffers.len);
  const dt_buffer_t *buffer = dt__program_buffer(v->program, id);
  if (buffer->layout)
    return dt__loop_verify_fail(v, "v%u searches buffer %u, which has a layout", at, id.id);
  if (buffer->rank != 1 || buffer->dtype != dtype)
    return dt__loop_verify_fail(v, "v%u searches buffer %u of rank %u and %s for %s", at, id.id,
                                buffer->rank, dt_dtype_name(buffer->dtype), dt_dtype_name(dtype));
  // All of it must be there: no other outer iteration may be writing it.
  if (buffer->kind == DT_BUFFER_LOCAL || v->written_by[id.id - 1] == v->kernel_at + 1)
    return dt__loop_verify_fail(v, "v%u searches buffer %u, which its own kernel writes", at,
                                id.id);
  return verify_readable(v, inst);
}

// An operand is written before, by other kernels.
static dt_status_t verify_whole(dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  dt_buffer_id_t id = inst->buffer;
  if (!v->kernel->external)
    return dt__loop_verify_fail(v, "v%u is of a call of a user's op, which the kernel is none of",
                                at);
  if (!id.id)
    return NULL;
  if (id.id > v->program->buffers.len || dt__program_buffer(v->program, id)->dtype != inst->dtype)
    return dt__loop_verify_fail(v, "v%u is no buffer of %s", at, dt_dtype_name(inst->dtype));
  const dt_buffer_t *buffer = dt__program_buffer(v->program, id);
  if (buffer->layout)
    return dt__loop_verify_fail(v, "v%u reads buffer %u, which has a layout", at, id.id);
  bool own = v->written_by[id.id - 1] == v->kernel_at + 1;
  bool unknown = v->program->externals.len == 0; // of a text, which has no calls
  if (own && buffer->taken &&
      (unknown || dt__call_takes_place(v->program, v->kernel, id.id, id.id)))
    return NULL;
  if (own || buffer->kind == DT_BUFFER_LOCAL)
    return dt__loop_verify_fail(v, "v%u reads buffer %u, which its own kernel writes", at, id.id);
  return verify_readable(v, inst);
}

static dt_status_t verify_bind(dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  uint32_t symbol = 0;
  const dt_symenv_t *env = v->program->env;
  if (inst->dtype != DT_BOOL || !dt__dtype_is_int(dtype_of(v, inst->args[0])))
    return dt__loop_verify_fail(v, "v%u binds %s", at, dt_dtype_name(dtype_of(v, inst->args[0])));
  if (!dt__sym_is_symbol(env, inst->sym, &symbol) ||
      dt__symbol_info(env, symbol).kind != DT_SYMBOL_DATA)
    return dt__loop_verify_fail(v, "v%u binds no DATA symbol", at);
  if (v->stamps[symbol] == v->stage_stamp)
    return dt__loop_verify_fail(v, "v%u binds d%u again", at, symbol);
  if (inst->mask != DT_NO_INST && dtype_of(v, inst->mask) != DT_BOOL)
    return dt__loop_verify_fail(v, "v%u: its mask is no bool", at);
  if (inst->check != DT_NO_CHECK && inst->check >= v->program->checks.len)
    return dt__loop_verify_fail(v, "v%u: check %u of %u", at, inst->check, v->program->checks.len);
  DT_TRY(dt__loop_verify_expr(v, inst->extent, "a bind's extent"));
  v->stamps[symbol] = v->stage_stamp;
  v->bound_by[symbol] = at;
  return NULL;
}

static dt_status_t verify_operands(const dt_loop_verifier_t *v, const dt_inst_t *inst,
                                   uint32_t at) {
  if ((unsigned)inst->kind > DT_INST_WHOLE)
    return dt__loop_verify_fail(v, "v%u is of no kind", at);
  if (!dt__dtype_is_valid(inst->dtype) || dt__dtype_is_low(inst->dtype))
    return dt__loop_verify_fail(v, "v%u has no dtype of loop IR", at);
  if (inst->kind == DT_INST_SCALAR &&
      (inst->op == DT_SCALAR_NONE || (unsigned)inst->op >= DT_SCALAR_COUNT))
    return dt__loop_verify_fail(v, "v%u has no scalar op", at);
  uint32_t arity = dt__inst_arity(inst);
  for (uint32_t k = 0; k < 3; k++) {
    bool none = inst->args[k] == DT_NO_INST;
    if (k >= arity ? !none : inst->args[k] >= at && !(none && inst->kind == DT_INST_LOAD))
      return dt__loop_verify_fail(v, "v%u: operand %u is not an earlier instruction", at, k);
  }
  bool maskable = inst->kind == DT_INST_LOAD || inst->kind == DT_INST_BIND;
  if (inst->mask != DT_NO_INST && (!maskable || inst->mask >= at))
    return dt__loop_verify_fail(v, "v%u: its mask is not an earlier instruction", at);
  return NULL;
}

static dt_status_t verify_bits(dt_loop_verifier_t *v, const dt_inst_t *inst, uint32_t at) {
  dt_dtype_t from = dtype_of(v, inst->args[0]), to = inst->dtype;
  if (from == DT_BOOL || to == DT_BOOL || dt_dtype_size(from) != dt_dtype_size(to))
    return dt__loop_verify_fail(v, "v%u takes the bits of %s as %s", at, dt_dtype_name(from),
                                dt_dtype_name(to));
  return NULL;
}

static dt_status_t verify_inst(dt_loop_verifier_t *v, uint32_t at) {
  const dt_inst_t *inst = &v->stage->insts.items[at];
  DT_TRY(verify_operands(v, inst, at));
  switch (inst->kind) {
  case DT_INST_CONST:
  case DT_INST_CAST:
    return NULL;
  case DT_INST_BITS:
    return verify_bits(v, inst, at);
  case DT_INST_INDEX:
    return dt__loop_verify_expr(v, inst->sym, "an index");
  case DT_INST_LOAD:
    return verify_load(v, inst, at);
  case DT_INST_SCALAR:
    return verify_scalar(v, inst, at);
  case DT_INST_ROW:
    return verify_row(v, inst, at);
  case DT_INST_BIND:
    return verify_bind(v, inst, at);
  case DT_INST_RUNNING:
    return verify_running(v, inst, at);
  case DT_INST_PRIOR:
    return verify_prior(v, inst, at);
  case DT_INST_SEARCH:
    return verify_search(v, inst, at);
  case DT_INST_WHOLE:
    return verify_whole(v, inst, at);
  case DT_INST_SOUND:
    return inst->dtype == DT_BOOL ? NULL
                                  : dt__loop_verify_fail(v, "v%u says %s whether checks failed", at,
                                                         dt_dtype_name(inst->dtype));
  }
  return NULL;
}

// ---- Stores and reductions ----------------------------------------------------------------------
static dt_status_t verify_store(dt_loop_verifier_t *v, const dt_store_t *store) {
  if (store->value >= v->stage->insts.len)
    return dt__loop_verify_fail(v, "a store of v%u, which does not exist", store->value);
  DT_TRY(verify_access(v, store->buffer, store->index, dtype_of(v, store->value), "a store"));
  const dt_buffer_t *buffer = dt__program_buffer(v->program, store->buffer);
  uint32_t b = store->buffer.id - 1;
  bool once = v->kernel_at < v->program->n_once;
  if (store->mask != DT_NO_INST &&
      (store->mask >= v->stage->insts.len || dtype_of(v, store->mask) != DT_BOOL))
    return dt__loop_verify_fail(v, "a store to buffer %u: its mask is no bool", store->buffer.id);
  DT_TRY(verify_checked(v, store->buffer, store->index, store->mask, "a store"));
  if (buffer->kind == DT_BUFFER_LOCAL && dt__store_scatters(v->program, store))
    return dt__loop_verify_fail(v, "a store scatters into local buffer %u", store->buffer.id);
  if (buffer->kind == DT_BUFFER_LOCAL) {
    DT_TRY(verify_local(v, store->buffer));
    if (!v->local_stage[b])
      v->local_stage[b] = v->stage_at + 1;
    return NULL;
  }
  if (buffer->kind == DT_BUFFER_CONSTANT || once != (buffer->kind == DT_BUFFER_ONCE))
    return dt__loop_verify_fail(v, "a store to buffer %u, which is %s, by a kernel that runs %s",
                                store->buffer.id, dt__buffer_kind_name(buffer->kind),
                                once ? "once" : "at each call");
  v->written_by[b] = v->kernel_at + 1;
  if (!v->first_writer[b])
    v->first_writer[b] = v->kernel_at + 1;
  return NULL;
}

// Whole stores are those of calls of users' ops, and these have no others. A buffer is one's alone.
static dt_status_t verify_fill(const dt_loop_verifier_t *v, const dt_store_t *store) {
  if (store->whole != (v->kernel->external != 0))
    return dt__loop_verify_fail(v, "a store to buffer %u that %s all of it", store->buffer.id,
                                store->whole ? "writes" : "does not write");
  if (!store->whole)
    return NULL;
  dt_buffer_kind_t kind = dt__program_buffer(v->program, store->buffer)->kind;
  const dt_inst_t *value = &v->stage->insts.items[store->value];
  bool taken = dt__program_buffer(v->program, store->buffer)->taken;
  if (kind != DT_BUFFER_TEMP && kind != DT_BUFFER_OUTPUT && !taken)
    return dt__loop_verify_fail(v, "a call of a user's op writes buffer %u, which is %s",
                                store->buffer.id, dt__buffer_kind_name(kind));
  if (value->kind != DT_INST_WHOLE || value->buffer.id || store->mask != DT_NO_INST ||
      v->earlier_writer[store->buffer.id - 1])
    return dt__loop_verify_fail(v, "buffer %u is no result of its own", store->buffer.id);
  return NULL;
}

// Of a store that is one: what a kernel revises an earlier one or the caller wrote; it stores
// nothing else.
static dt_status_t verify_revision(dt_loop_verifier_t *v, const dt_store_t *store) {
  uint32_t b = store->buffer.id - 1;
  if (!store->revises)
    return NULL;
  bool given = dt__program_buffer(v->program, store->buffer)->kind == DT_BUFFER_INPUT;
  if (!v->earlier_writer[b] && !given)
    return dt__loop_verify_fail(v, "buffer %u is revised before a kernel wrote it",
                                store->buffer.id);
  if (v->kernel->stages.len != 1 || v->stage->stores.len != 1 || v->stage->reductions.len)
    return dt__loop_verify_fail(v, "it revises buffer %u, and does more than that",
                                store->buffer.id);
  for (uint32_t i = 0; i < v->stage->insts.len; i++) {
    const dt_inst_t *inst = &v->stage->insts.items[i];
    if (dt__inst_reads(inst).id != store->buffer.id)
      continue;
    bool same = inst->kind == DT_INST_LOAD;
    for (uint32_t d = 0; same && d < dt__program_buffer(v->program, store->buffer)->rank; d++)
      same = inst->index[d].id == store->index[d].id;
    if (!same)
      return dt__loop_verify_fail(v, "it reads other elements of buffer %u than it revises",
                                  store->buffer.id);
  }
  return NULL;
}

static dt_status_t verify_reduction(dt_loop_verifier_t *v, const dt_reduction_t *reduction) {
  const dt_reduction_info_t *info = dt__reduction_info(reduction->kind);
  if (!info || reduction->value >= v->stage->insts.len)
    return dt__loop_verify_fail(v, "a reduction without kind or value");
  const char *name = info->name;
  bool arg = info->place;
  dt_dtype_t dtype = dtype_of(v, reduction->value);
  if (!(dtype == DT_BOOL ? info->logic : info->numbers) ||
      reduction->dtype != (arg ? DT_I64 : dtype))
    return dt__loop_verify_fail(v, "reduction %s of %s gives %s", name, dt_dtype_name(dtype),
                                dt_dtype_name(reduction->dtype));
  if (dt__dtype_is_half(dtype))
    return dt__loop_verify_fail(v, "reduction %s of %s, which is only stored; cast to f32 first",
                                name, dt_dtype_name(dtype));
  if (arg ? reduction->index >= v->stage->insts.len || dtype_of(v, reduction->index) != DT_I64
          : reduction->index != DT_NO_INST)
    return dt__loop_verify_fail(v, "reduction %s: its index is wrong", name);
  if (reduction->row >= v->kernel->n_rows || v->row_stage[reduction->row])
    return dt__loop_verify_fail(v, "reduction %s defines r%u, of %u, again or out of range", name,
                                reduction->row, v->kernel->n_rows);
  v->row_stage[reduction->row] = v->stage_at + 1;
  v->row_dtype[reduction->row] = reduction->dtype;
  return NULL;
}

dt_status_t dt__loop_verify_stage(dt_loop_verifier_t *v) {
  const dt_stage_t *stage = v->stage;
  DT_TRY(dt__loop_verify_loops(v, stage->n_loops, stage->vars, stage->extents, v->stage_stamp));
  for (uint32_t at = 0; at < stage->insts.len; at++)
    DT_TRY(verify_inst(v, at));
  for (uint32_t k = 0; k < stage->stores.len; k++) {
    DT_TRY(verify_store(v, &stage->stores.items[k]));
    DT_TRY(verify_revision(v, &stage->stores.items[k]));
    DT_TRY(verify_fill(v, &stage->stores.items[k]));
  }
  for (uint32_t k = 0; k < stage->reductions.len; k++)
    DT_TRY(verify_reduction(v, &stage->reductions.items[k]));
  return NULL;
}

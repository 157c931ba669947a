// SPDX-License-Identifier: Apache-2.0
// See body.h.
#include "fuse/body.h"

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

dt_status_t dt__body_rename(dt_body_copy_t *copy, dt_sym_t from, dt_sym_t to) {
  if (copy->n_renames == DT_MAX_RENAMES)
    return DT_FAIL(DT_E_LIMIT, "fuse: more than %d symbols to rename in one body", DT_MAX_RENAMES);
  copy->rename_from[copy->n_renames] = from;
  copy->rename_to[copy->n_renames] = to;
  copy->n_renames++;
  return NULL;
}

static dt_sym_t rename_expr(dt_body_copy_t *copy, dt_sym_t expr) {
  if (expr.id == 0 || copy->n_renames == 0)
    return expr;
  return dt__sym_subst(copy->program->env, expr, copy->rename_from, copy->rename_to,
                       copy->n_renames);
}

dt_sym_t *dt__body_exprs(dt_body_copy_t *copy, const dt_sym_t *exprs, uint32_t n) {
  dt_sym_t *out = DT_ARENA_ARRAY(copy->program->arena, dt_sym_t, n ? n : 1);
  for (uint32_t k = 0; out && k < n; k++)
    out[k] = rename_expr(copy, exprs[k]);
  return out;
}

static uint32_t mapped(const dt_body_copy_t *copy, uint32_t inst) {
  return inst == DT_NO_INST ? DT_NO_INST : copy->map[inst];
}

dt_status_t dt__body_and(dt_body_copy_t *copy, uint32_t mask, uint32_t extra, uint32_t *out) {
  if (mask == DT_NO_INST || extra == DT_NO_INST || mask == extra) {
    *out = mask == DT_NO_INST ? extra : mask;
    return NULL;
  }
  dt_inst_t both = {.kind = DT_INST_SCALAR,
                    .dtype = DT_BOOL,
                    .op = DT_SCALAR_logical_and,
                    .args = {mask, extra, DT_NO_INST},
                    .mask = DT_NO_INST};
  return dt__stage_add(copy->program, copy->into, &both, out);
}

// The bind of `into` that binds the same value under the same mask and check, or DT_NO_INST.
static uint32_t find_bind(const dt_stage_t *into, const dt_inst_t *bind) {
  for (uint32_t k = 0; k < into->insts.len; k++) {
    const dt_inst_t *inst = &into->insts.items[k];
    if (inst->kind == DT_INST_BIND && inst->args[0] == bind->args[0] && inst->mask == bind->mask &&
        inst->extent.id == bind->extent.id && inst->check == bind->check)
      return k;
  }
  return DT_NO_INST;
}

// A body may be copied into one stage more than once, so each copy binds a symbol of its own,
// unless it is for the same value.
static dt_status_t copy_bind(dt_body_copy_t *copy, dt_inst_t *inst, uint32_t *out) {
  dt_sym_t from = inst->sym;
  uint32_t symbol = 0;
  dt_range_t range = {0, DT_SIZE_LIMIT - 1};
  DT_TRY(dt__body_and(copy, inst->mask, copy->mask, &inst->mask));
  *out = find_bind(copy->into, inst);
  if (*out != DT_NO_INST)
    return dt__body_rename(copy, from, copy->into->insts.items[*out].sym);
  if (dt__sym_is_symbol(copy->program->env, from, &symbol))
    range = dt__symbol_info(copy->program->env, symbol).range;
  inst->sym = dt__sym_new(copy->program->env, DT_SYMBOL_DATA, range, NULL, "");
  DT_TRY(dt__body_rename(copy, from, inst->sym));
  return dt__stage_add(copy->program, copy->into, inst, out);
}

static dt_status_t copy_inst(dt_body_copy_t *copy, const dt_inst_t *from, uint32_t *out) {
  dt_inst_t inst = *from;
  for (int k = 0; k < 3; k++)
    inst.args[k] = mapped(copy, from->args[k]);
  inst.mask = mapped(copy, from->mask);
  inst.sym = rename_expr(copy, from->sym);
  inst.extent = rename_expr(copy, from->extent);
  switch (from->kind) {
  case DT_INST_ROW:
  case DT_INST_RUNNING:
    inst.row += copy->row_base;
    break;
  case DT_INST_PRIOR:
    inst.row += copy->row_base;
    if (copy->prior_hook)
      return copy->prior_hook(copy, &inst, copy->user, out);
    break;
  case DT_INST_BIND:
    inst.sym = from->sym;
    return copy_bind(copy, &inst, out);
  case DT_INST_LOAD: {
    uint32_t rank = dt__program_buffer(copy->program, from->buffer)->rank;
    inst.index = dt__body_exprs(copy, from->index, rank);
    if (!inst.index)
      return DT_NO_MEMORY();
    DT_TRY(dt__body_and(copy, inst.mask, copy->mask, &inst.mask));
    if (copy->hook) {
      DT_TRY(copy->hook(copy, &inst, copy->user, out));
      if (*out != DT_NO_INST)
        return NULL;
    }
    break;
  }
  default:
    break;
  }
  return dt__stage_add(copy->program, copy->into, &inst, out);
}

dt_status_t dt__body_copy(dt_body_copy_t *copy) {
  copy->map = DT_ARENA_ARRAY(copy->program->arena, uint32_t, copy->from->insts.len + 1);
  if (!copy->map)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < copy->from->insts.len; k++) {
    uint32_t id = DT_NO_INST;
    DT_TRY(copy_inst(copy, &copy->from->insts.items[k], &id));
    copy->map[k] = id;
  }
  return NULL;
}

dt_status_t dt__body_copy_results(dt_body_copy_t *copy) {
  dt_program_t *program = copy->program;
  for (uint32_t k = 0; k < copy->from->stores.len; k++) {
    dt_store_t store = copy->from->stores.items[k];
    store.index =
        dt__body_exprs(copy, store.index, dt__program_buffer(program, store.buffer)->rank);
    store.value = copy->map[store.value];
    store.mask = mapped(copy, store.mask);
    if (!store.index || !DT_VEC_PUSH(program->arena, &copy->into->stores, store))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < copy->from->reductions.len; k++) {
    dt_reduction_t reduction = copy->from->reductions.items[k];
    reduction.value = copy->map[reduction.value];
    reduction.index = mapped(copy, reduction.index);
    reduction.row += copy->row_base;
    if (!DT_VEC_PUSH(program->arena, &copy->into->reductions, reduction))
      return DT_NO_MEMORY();
  }
  return NULL;
}

void dt__stage_start(dt_stage_t *fresh, const dt_stage_t *from) {
  *fresh = *from;
  memset(&fresh->insts, 0, sizeof(fresh->insts));
  memset(&fresh->stores, 0, sizeof(fresh->stores));
  memset(&fresh->reductions, 0, sizeof(fresh->reductions));
}

dt_status_t dt__body_masked(dt_program_t *program, dt_stage_t *into, const dt_inst_t *load,
                            uint32_t value, uint32_t *out) {
  *out = value;
  if (load->mask == DT_NO_INST)
    return NULL;
  uint32_t other = load->args[0];
  if (other == DT_NO_INST) {
    dt_inst_t zero = {.kind = DT_INST_CONST,
                      .dtype = load->dtype,
                      .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                      .mask = DT_NO_INST};
    DT_TRY(dt__stage_add(program, into, &zero, &other));
  }
  dt_inst_t where = {.kind = DT_INST_SCALAR,
                     .dtype = load->dtype,
                     .op = DT_SCALAR_where,
                     .args = {load->mask, value, other},
                     .mask = DT_NO_INST};
  return dt__stage_add(program, into, &where, out);
}

// ---- Accesses -------------------------------------------------------------------------------------

static void note_writers(dt_program_t *program, dt_access_t *access) {
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++) {
        uint32_t buffer = stage->stores.items[i].buffer.id - 1;
        if (program->buffers.items[buffer].kind == DT_BUFFER_INPUT)
          continue;
        access->n_writers[buffer]++;
        access->writer[buffer] = k;
      }
    }
  }
}

static void note_loads(dt_program_t *program, dt_access_t *access) {
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id)
          access->n_loads[stage->insts.items[i].buffer.id - 1]++;
    }
}

dt_status_t dt__access_build(dt_program_t *program, dt_access_t *out) {
  uint32_t m = program->buffers.len;
  *out = (dt_access_t){.writer = DT_ARENA_ARRAY(program->arena, uint32_t, m + 1),
                       .n_writers = DT_ARENA_ARRAY(program->arena, uint32_t, m + 1),
                       .n_loads = DT_ARENA_ARRAY(program->arena, uint32_t, m + 1)};
  if (!out->writer || !out->n_writers || !out->n_loads)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < m; b++)
    out->writer[b] = UINT32_MAX;
  note_writers(program, out);
  note_loads(program, out);
  dt__count_readbacks(program, out->n_loads);
  return NULL;
}

void dt__count_readbacks(const dt_program_t *program, uint32_t *loads) {
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    loads[program->readbacks.items[k].buffer.id - 1]++;
}

// ---- Forms of kernels -----------------------------------------------------------------------------
bool dt__kernel_is_map(const dt_program_t *program, const dt_kernel_t *kernel) {
  return kernel->stages.len == 1 && kernel->stages.items[0].n_loops == 0 &&
         kernel->stages.items[0].reductions.len == 0 && kernel->stages.items[0].stores.len == 1 &&
         !dt__store_scatters(program, &kernel->stages.items[0].stores.items[0]) &&
         !dt__kernel_updates(program, kernel);
}

bool dt__map_invert(const dt_program_t *program, const dt_kernel_t *maker, const dt_inst_t *load,
                    dt_sym_t *out) {
  const dt_store_t *store = &maker->stages.items[0].stores.items[0];
  uint32_t rank = dt__program_buffer(program, store->buffer)->rank;
  for (uint32_t v = 0; v < maker->n_loops; v++) {
    out[v] = DT_SYM_NONE_ID;
    for (uint32_t d = 0; d < rank && out[v].id == 0; d++)
      if (store->index[d].id == maker->vars[v].id)
        out[v] = load->index[d];
    if (out[v].id == 0)
      return false;
  }
  return true;
}

bool dt__kernel_has_reductions(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].reductions.len)
      return true;
  return false;
}

// The load that a factor is, or is the cast of: halves and integers of 8 bits are cast where they
// are multiplied.
static bool is_widened(dt_dtype_t from, dt_dtype_t to) {
  return to == DT_F32 ? dt__dtype_is_half(from) : to == DT_I32 && (from == DT_U8 || from == DT_I8);
}

static bool factor_load(const dt_stage_t *stage, uint32_t factor, uint32_t *out, uint32_t *casts) {
  const dt_inst_t *inst = &stage->insts.items[factor];
  *out = factor;
  if (inst->kind == DT_INST_CAST &&
      is_widened(stage->insts.items[inst->args[0]].dtype, inst->dtype)) {
    *out = inst->args[0];
    ++*casts;
  }
  return stage->insts.items[*out].kind == DT_INST_LOAD;
}

// A mask that tells places apart, as the border of an image.
static bool tests_index(const dt_stage_t *stage, uint32_t mask) {
  return mask != DT_NO_INST && stage->insts.items[mask].kind == DT_INST_INDEX;
}

bool dt__stage_is_product(const dt_stage_t *stage, uint32_t *out_a, uint32_t *out_b) {
  if (stage->n_loops == 0 || stage->reductions.len != 1 || stage->stores.len != 0 ||
      stage->reductions.items[0].kind != DT_REDUCE_SUM)
    return false;
  const dt_inst_t *product = &stage->insts.items[stage->reductions.items[0].value];
  if (product->kind != DT_INST_SCALAR || product->op != DT_SCALAR_mul)
    return false;
  uint32_t more = 0;
  if (!factor_load(stage, product->args[0], out_a, &more) ||
      !factor_load(stage, product->args[1], out_b, &more))
    return false;
  uint32_t a = stage->insts.items[*out_a].mask, b = stage->insts.items[*out_b].mask;
  more += tests_index(stage, a) ? 1 : 0;
  more += a != b && tests_index(stage, b) ? 1 : 0;
  return stage->insts.len == 3 + more;
}

bool dt__stage_is_contraction(const dt_stage_t *stage, uint32_t *out_a, uint32_t *out_b) {
  return stage->n_loops == 1 && dt__stage_is_product(stage, out_a, out_b);
}

bool dt__kernel_is_product(const dt_kernel_t *kernel, uint32_t *out_a, uint32_t *out_b) {
  return kernel->stages.len > 0 && kernel->n_loops >= 2 &&
         dt__stage_is_product(&kernel->stages.items[0], out_a, out_b);
}

bool dt__kernel_is_contraction(const dt_kernel_t *kernel, uint32_t *out_a, uint32_t *out_b) {
  return dt__kernel_is_product(kernel, out_a, out_b) && kernel->stages.items[0].n_loops == 1;
}

#define SEARCH_COST 40 // halving some thousand elements

uint32_t dt__stage_cost(const dt_stage_t *stage) {
  uint32_t cost = 0;
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind == DT_INST_BIND)
      cost += 4;
    if (inst->kind == DT_INST_SEARCH)
      cost += SEARCH_COST;
    if (inst->kind == DT_INST_CAST || inst->kind == DT_INST_BITS)
      cost += 1;
    if (inst->kind == DT_INST_SCALAR)
      cost += dt__scalar_info(inst->op)->cost;
  }
  return cost;
}

uint32_t dt__stage_loads(const dt_stage_t *stage) {
  uint32_t loads = 0;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    loads += stage->insts.items[i].kind == DT_INST_LOAD;
  return loads;
}

bool dt__index_uses(dt_program_t *program, const dt_sym_t *index, uint32_t rank, dt_sym_t var) {
  for (uint32_t d = 0; d < rank; d++)
    if (dt__sym_depends(program->env, index[d], var))
      return true;
  return false;
}

bool dt__expr_uses_any(const dt_program_t *program, dt_sym_t e, const dt_sym_t *vars, uint32_t n) {
  for (uint32_t v = 0; v < n; v++)
    if (dt__sym_depends(program->env, e, vars[v]))
      return true;
  return false;
}

const dt_store_t *dt__kernel_only_store(const dt_kernel_t *kernel, uint32_t id,
                                        uint32_t *out_stage) {
  const dt_store_t *found = NULL;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++) {
      if (kernel->stages.items[s].stores.items[k].buffer.id != id)
        continue;
      if (found)
        return NULL;
      found = &kernel->stages.items[s].stores.items[k];
      *out_stage = s;
    }
  return found;
}

bool dt__buffer_is_readback(const dt_program_t *program, uint32_t id) {
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    if (program->readbacks.items[k].buffer.id == id)
      return true;
  return false;
}

// Buffers, by [id - 1]: a kernel writes it, and one that reads what a call brings.
typedef struct written_t {
  bool *any, *by_call;
} written_t;

static bool is_constant(const dt_program_t *program, const written_t *written,
                        const dt_access_t *access, uint32_t k) {
  const dt_kernel_t *kernel = &program->kernels.items[k];
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_buffer_id_t read = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
      if (!read.id)
        continue;
      uint32_t b = read.id - 1;
      bool from_constant = program->buffers.items[b].kind == DT_BUFFER_CONSTANT ||
                           (written->any[b] && !written->by_call[b]);
      if (!from_constant && access->writer[b] != k)
        return false;
    }
  return true;
}

// Kernels stand in order: all that write a buffer come before those that read it.
dt_status_t dt__find_constant(dt_program_t *program, bool **out) {
  dt_access_t access;
  uint32_t n = program->buffers.len;
  DT_TRY(dt__access_build(program, &access));
  written_t written = {.any = DT_ARENA_ARRAY(program->arena, bool, n + 1),
                       .by_call = DT_ARENA_ARRAY(program->arena, bool, n + 1)};
  *out = DT_ARENA_ARRAY(program->arena, bool, program->kernels.len + 1);
  if (!*out || !written.any || !written.by_call)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    (*out)[k] = is_constant(program, &written, &access, k);
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      for (uint32_t i = 0; i < kernel->stages.items[s].stores.len; i++) {
        uint32_t b = kernel->stages.items[s].stores.items[i].buffer.id - 1;
        written.any[b] = true;
        written.by_call[b] = written.by_call[b] || !(*out)[k];
      }
  }
  return NULL;
}

dt_status_t dt__find_fixed(dt_program_t *program, dt_fixed_t *out) {
  bool *constant = NULL;
  DT_TRY(dt__find_constant(program, &constant));
  out->n = program->buffers.len;
  out->made = DT_ARENA_ARRAY(program->arena, bool, out->n + 1);
  if (!out->made)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; constant[k] && s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        out->made[stage->stores.items[i].buffer.id - 1] = true;
    }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; !constant[k] && s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        out->made[stage->stores.items[i].buffer.id - 1] = false;
    }
  return NULL;
}

bool dt__is_fixed(const dt_program_t *program, const dt_fixed_t *fixed, dt_buffer_id_t id) {
  return dt__program_buffer(program, id)->kind == DT_BUFFER_CONSTANT ||
         (id.id <= fixed->n && fixed->made[id.id - 1]);
}

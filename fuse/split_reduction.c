// SPDX-License-Identifier: Apache-2.0
// See split_reduction.h.
//
//   r = reduce_k f(k), k < n
//
// becomes, with parts of L elements, c < ceil(n / L) and j < L,
//
//   p[c] = reduce_j f(c * L + j), or the reduction's identity past n
//   r    = reduce_c p[c]
#include "fuse/split_reduction.h"

#include "fuse/body.h"
#include "fuse/loops.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// Nobody has noted how these were found; bench/bench_kernels.c shows their effect: `scripts/bench
// kernels --only column_sum`, and on GPUs `scripts/test-gpu run bench`, sum of columns.
#define CHUNK 8192    // elements of one partial reduction
#define FEW_OUTER 4   // outer iterations that leave threads idle
#define LEAST_ROWS 16 // of a partial reduction of columns

static bool few_outer(dt_program_t *program, const dt_kernel_t *kernel) {
  int64_t total = 1;
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    int64_t size = 0;
    if (!dt__sym_is_const(program->env, kernel->extents[v], &size) || size > FEW_OUTER)
      return false;
    total *= size;
  }
  return total <= FEW_OUTER;
}

// Lanes run over the last outer loop, and each walks a column; what does not move with that loop
// they read together.
static bool reduces_columns(dt_program_t *program, const dt_kernel_t *kernel) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  if (kernel->n_loops == 0)
    return false;
  dt_step_count_t across = {0}, down = {0};
  dt__count_steps(program, stage, kernel->vars[kernel->n_loops - 1], &across);
  dt__count_steps(program, stage, stage->vars[0], &down);
  return across.unit && !across.strided && !across.other && down.strided;
}

static bool splittable(dt_program_t *program, const dt_kernel_t *kernel,
                       const dt_target_t *target) {
  if (kernel->schedules.len || kernel->stages.len == 0 || kernel->n_loops + 1 > DT_MAX_RANK ||
      kernel->slices) // one kernel more would stand between those of a slice
    return false;
  if (target->strict_fp && dt__kernel_has_order(kernel))
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  if (stage->n_loops != 1 || stage->reductions.len == 0 || stage->stores.len ||
      dt__stage_in_order(stage))
    return false;
  bool columns = dt__target_has_teams(target) && reduces_columns(program, kernel);
  if (!columns && !few_outer(program, kernel))
    return false;
  int64_t size = 0;
  if (dt__sym_is_const(program->env, stage->extents[0], &size) &&
      size < 2 * (columns ? LEAST_ROWS : CHUNK))
    return false;
  for (uint32_t f = 0; f < stage->reductions.len; f++)
    if (dt__reduction_is_arg(stage->reductions.items[f].kind))
      return false;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND || stage->insts.items[i].kind == DT_INST_ROW)
      return false;
  for (uint32_t s = 1; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].n_loops)
      return false; // rows that are walked again: splitting the first walk alone gains little
  return true;
}

static dt_status_t add_inst(dt_program_t *program, dt_stage_t *stage, dt_inst_t inst,
                            uint32_t *out) {
  for (int k = 0; k < 3; k++)
    if (inst.kind != DT_INST_SCALAR)
      inst.args[k] = DT_NO_INST;
  if (inst.kind != DT_INST_LOAD || inst.mask == 0)
    inst.mask = DT_NO_INST;
  return dt__stage_add(program, stage, &inst, out);
}

// The value that changes no reduction of this kind.
static dt_status_t identity(dt_program_t *program, dt_stage_t *stage, dt_reduction_kind_t kind,
                            dt_dtype_t dtype, uint32_t *out) {
  dt_inst_t inst = {
      .kind = DT_INST_CONST, .dtype = dtype, .value = dt__reduction_identity(kind, dtype)};
  return add_inst(program, stage, inst, out);
}

// The kernel of partial reductions. `partials[f]` receives the buffer of each.
// Every part has `length` iterations, those past the end without effect: `masked`: nothing is
// loaded there; else the last element is, which lets loads of several iterations go together.
static dt_status_t make_partial(dt_program_t *program, const dt_kernel_t *kernel, dt_sym_t length,
                                bool masked, dt_sym_t chunks, dt_buffer_id_t *partials,
                                dt_kernel_t *out) {
  dt_symenv_t *env = program->env;
  const dt_stage_t *from = &kernel->stages.items[0];
  *out = (dt_kernel_t){.name = kernel->name, .n_loops = kernel->n_loops};
  memcpy(out->vars, kernel->vars, sizeof(out->vars));
  memcpy(out->extents, kernel->extents, sizeof(out->extents));
  dt_sym_t chunk = dt__sym_new_loop(env, chunks), j = dt__sym_new_loop(env, length);
  // Outermost, so that loops that lanes may run over stay last.
  for (uint32_t v = out->n_loops++; v-- > 0;) {
    out->vars[v + 1] = out->vars[v];
    out->extents[v + 1] = out->extents[v];
  }
  out->vars[0] = chunk;
  out->extents[0] = chunks;
  out->n_rows = from->reductions.len;
  dt_sym_t begin = dt__sym_mul(env, chunk, length), at = dt__sym_add(env, begin, j);
  dt_stage_t reduction = {.n_loops = 1, .vars = {j}, .extents = {length}}, store = {0};
  dt_body_copy_t copy = {.program = program, .into = &reduction, .from = from, .mask = DT_NO_INST};
  dt_inst_t inside = {
      .kind = DT_INST_INDEX, .dtype = DT_BOOL, .sym = dt__sym_lt(env, at, from->extents[0])};
  uint32_t mask = 0;
  DT_TRY(add_inst(program, &reduction, inside, &mask));
  copy.mask = masked ? mask : DT_NO_INST;
  dt_sym_t last = dt__sym_sub(env, from->extents[0], dt__sym_const(env, 1));
  DT_TRY(dt__body_rename(&copy, from->vars[0], masked ? at : dt__sym_min(env, at, last)));
  DT_TRY(dt__body_copy(&copy));
  for (uint32_t f = 0; f < from->reductions.len; f++) {
    dt_reduction_t part = from->reductions.items[f];
    uint32_t none = 0, row = 0;
    dt_dtype_t dtype = from->insts.items[part.value].dtype;
    DT_TRY(identity(program, &reduction, part.kind, dtype, &none));
    dt_inst_t pick = {.kind = DT_INST_SCALAR,
                      .dtype = dtype,
                      .op = DT_SCALAR_where,
                      .args = {mask, copy.map[part.value], none}};
    DT_TRY(add_inst(program, &reduction, pick, &part.value));
    part.row = f;
    dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = part.dtype, .rank = out->n_loops};
    memcpy(buffer.sizes, out->extents, out->n_loops * sizeof(dt_sym_t));
    DT_TRY(dt__program_add_buffer(program, &buffer, &partials[f]));
    DT_TRY(add_inst(program, &store,
                    (dt_inst_t){.kind = DT_INST_ROW, .dtype = part.dtype, .row = f}, &row));
    dt_sym_t *index = DT_ARENA_ARRAY(program->arena, dt_sym_t, out->n_loops);
    if (!index || !DT_VEC_PUSH(program->arena, &reduction.reductions, part))
      return DT_NO_MEMORY();
    memcpy(index, out->vars, out->n_loops * sizeof(*index));
    dt_store_t to = {.buffer = partials[f], .index = index, .value = row, .mask = DT_NO_INST};
    if (!DT_VEC_PUSH(program->arena, &store.stores, to))
      return DT_NO_MEMORY();
  }
  if (!DT_VEC_PUSH(program->arena, &out->stages, reduction) ||
      !DT_VEC_PUSH(program->arena, &out->stages, store))
    return DT_NO_MEMORY();
  return dt__symenv_status(env);
}

// Stage 0 of the kernel becomes the reduction over chunks.
static dt_status_t reduce_again(dt_program_t *program, dt_kernel_t *kernel, dt_sym_t chunks,
                                const dt_buffer_id_t *partials) {
  dt_stage_t *stage = &kernel->stages.items[0];
  dt_sym_t c = dt__sym_new_loop(program->env, chunks);
  dt_stage_t fresh = {.n_loops = 1, .vars = {c}, .extents = {chunks}};
  for (uint32_t f = 0; f < stage->reductions.len; f++) {
    dt_reduction_t reduction = stage->reductions.items[f];
    dt_sym_t *index = DT_ARENA_ARRAY(program->arena, dt_sym_t, kernel->n_loops + 1);
    if (!index)
      return DT_NO_MEMORY();
    memcpy(index + 1, kernel->vars, kernel->n_loops * sizeof(*index));
    index[0] = c;
    dt_inst_t load = {
        .kind = DT_INST_LOAD, .dtype = reduction.dtype, .buffer = partials[f], .index = index};
    DT_TRY(add_inst(program, &fresh, load, &reduction.value));
    if (!DT_VEC_PUSH(program->arena, &fresh.reductions, reduction))
      return DT_NO_MEMORY();
  }
  *stage = fresh;
  return NULL;
}

// Teams of threads run over the last outer loop: see reduces_columns.
static bool is_columns(dt_program_t *program, const dt_kernel_t *kernel,
                       const dt_target_t *target) {
  return dt__target_has_teams(target) && reduces_columns(program, kernel);
}

// Elements of one partial reduction; of columns as few as keep all threads busy.
static dt_sym_t part_length(dt_program_t *program, const dt_kernel_t *kernel,
                            const dt_target_t *target) {
  dt_symenv_t *env = program->env;
  const dt_stage_t *stage = &kernel->stages.items[0];
  if (!is_columns(program, kernel, target))
    return dt__sym_const(env, CHUNK);
  dt_sym_t all = stage->extents[0];
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    all = dt__sym_mul(env, all, kernel->extents[v]);
  dt_sym_t share = dt__sym_floordiv(env, all, dt__sym_const(env, target->busy_parts));
  return dt__sym_max(env, dt__sym_const(env, LEAST_ROWS), share);
}

dt_status_t dt__split_reductions(dt_program_t *program, const dt_target_t *target) {
  DT_VEC(dt_kernel_t) kernels = {0};
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t kernel = program->kernels.items[k];
    if (kernel.chain) {
      if (!DT_VEC_PUSH(program->arena, &kernels, kernel))
        return DT_NO_MEMORY();
      continue;
    }
    if (kernel.schedules.len == 0 && kernel.stages.len && few_outer(program, &kernel))
      DT_TRY(dt__merge_inner_loops(program, &kernel.stages.items[0], DT_NO_INST));
    if (splittable(program, &kernel, target)) {
      dt_kernel_t partial;
      const dt_stage_t *stage = &kernel.stages.items[0];
      dt_sym_t length = part_length(program, &kernel, target);
      dt_sym_t chunks = dt__sym_ceildiv(program->env, stage->extents[0], length);
      dt_buffer_id_t *partials =
          DT_ARENA_ARRAY(program->arena, dt_buffer_id_t, stage->reductions.len);
      if (!partials)
        return DT_NO_MEMORY();
      DT_TRY(make_partial(program, &kernel, length, !is_columns(program, &kernel, target), chunks,
                          partials, &partial));
      DT_TRY(reduce_again(program, &kernel, chunks, partials));
      DT_LOG(DT_LOG_FUSION, 1, "%s reductions in two steps", kernel.name);
      if (!DT_VEC_PUSH(program->arena, &kernels, partial))
        return DT_NO_MEMORY();
    }
    if (!DT_VEC_PUSH(program->arena, &kernels, kernel))
      return DT_NO_MEMORY();
  }
  program->kernels.items = kernels.items;
  program->kernels.len = kernels.len;
  program->kernels.cap = kernels.cap;
  return dt__symenv_status(program->env);
}

// SPDX-License-Identifier: Apache-2.0
// Padding without a pass of its own. A kernel that copies what one other makes into the middle of a
// larger temporary, and stores the same number around it, becomes several: one that copies, which
// then goes into the kernel that makes it, and one for each dim that has borders. Every call
// stores the borders anew, as others may have had the memory meanwhile.
//
//   +-----------------+   first dim: below `from`, and from `to` on, all of the second
//   |  ###########  | |   second dim: the same, of the rows between
//   |  # copied  #  | |
//   +-----------------+
#include "fuse/channels.h"

#include "fuse/body.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct padding_t {
  const dt_kernel_t *kernel;
  const dt_store_t *store;
  const dt_inst_t *load;
  uint32_t fill;                                 // a constant, or DT_NO_INST: zero
  dt_sym_t from[DT_MAX_LOOPS], to[DT_MAX_LOOPS]; // by loop: what is copied
} padding_t;

// ---- Finding --------------------------------------------------------------------------------------

static uint32_t loop_number(const dt_kernel_t *kernel, dt_sym_t e) {
  uint32_t v = 0;
  while (v < kernel->n_loops && kernel->vars[v].id != e.id)
    v++;
  return v;
}

// One condition: a loop beside a number that does not move.
static bool take_bound(dt_program_t *program, dt_sym_t term, padding_t *out) {
  dt_symenv_t *env = program->env;
  const dt_kernel_t *kernel = out->kernel;
  dt_sym_view_t view = dt__sym_view(env, term);
  if ((view.op != DT_SYM_LT && view.op != DT_SYM_LE) || view.n_args != 2)
    return false;
  dt_sym_t a = view.args[0], b = view.args[1], one = dt__sym_const(env, 1);
  bool strict = view.op == DT_SYM_LT;
  uint32_t low = loop_number(kernel, b), high = loop_number(kernel, a);
  if (low < kernel->n_loops && !dt__expr_uses_any(program, a, kernel->vars, kernel->n_loops)) {
    out->from[low] = strict ? dt__sym_add(env, a, one) : a;
    return true;
  }
  if (high < kernel->n_loops && !dt__expr_uses_any(program, b, kernel->vars, kernel->n_loops)) {
    out->to[high] = strict ? b : dt__sym_add(env, b, one);
    return true;
  }
  return false;
}

static bool take_bounds(dt_program_t *program, dt_sym_t inside, padding_t *out) {
  dt_symenv_t *env = program->env;
  const dt_kernel_t *kernel = out->kernel;
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    out->from[v] = dt__sym_const(env, 0);
    out->to[v] = kernel->extents[v];
  }
  uint32_t n = dt__sym_view(env, inside).op == DT_SYM_AND ? dt__sym_view(env, inside).n_args : 1;
  bool all = dt__sym_view(env, inside).op == DT_SYM_AND;
  for (uint32_t i = 0; i < n; i++)
    if (!take_bound(program, all ? dt__sym_view(env, inside).args[i] : inside, out))
      return false;
  for (uint32_t v = 0; v < kernel->n_loops; v++)
    if (!dt__sym_known_true(env, dt__sym_le(env, dt__sym_const(env, 0), out->from[v])) ||
        !dt__sym_known_true(env, dt__sym_le(env, out->from[v], out->to[v])) ||
        !dt__sym_known_true(env, dt__sym_le(env, out->to[v], kernel->extents[v])))
      return false;
  return true;
}

// The kernel is a map of one masked load, or else a constant, whose loops are the dims it stores.
static bool find_padding(dt_program_t *program, const dt_kernel_t *kernel, padding_t *out) {
  *out = (padding_t){.kernel = kernel, .fill = DT_NO_INST};
  if (kernel->schedules.len || !dt__kernel_is_map(program, kernel))
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  out->store = &stage->stores.items[0];
  out->load = &stage->insts.items[out->store->value];
  const dt_buffer_t *buffer = dt__program_buffer(program, out->store->buffer);
  if (out->load->kind != DT_INST_LOAD || out->load->mask == DT_NO_INST ||
      out->store->mask != DT_NO_INST || buffer->kind != DT_BUFFER_TEMP || !buffer->layout)
    return false;
  out->fill = out->load->args[0];
  const dt_inst_t *mask = &stage->insts.items[out->load->mask];
  if (mask->kind != DT_INST_INDEX || stage->insts.len != (out->fill == DT_NO_INST ? 2u : 3u) ||
      (out->fill != DT_NO_INST && stage->insts.items[out->fill].kind != DT_INST_CONST))
    return false;
  uint32_t loops = 0;
  for (uint32_t d = 0; d < buffer->rank; d++)
    loops += loop_number(kernel, out->store->index[d]) < kernel->n_loops;
  return loops == kernel->n_loops && take_bounds(program, mask->sym, out);
}

// ---- Making -----------------------------------------------------------------------------------------

typedef DT_VEC(dt_kernel_t) kernels_t;

// What a part goes over: [begin, end) of each loop. `twice`, by 1 + its number: the same again that
// far on along this loop, by one loop more.
typedef struct part_t {
  dt_sym_t begin[DT_MAX_LOOPS], end[DT_MAX_LOOPS], apart;
  uint32_t twice;
} part_t;

// A map over the part: a copy of what is loaded, or the number around it.
static dt_status_t add_part(dt_program_t *program, const padding_t *p, const char *name,
                            const part_t *over, bool copies, kernels_t *out) {
  dt_symenv_t *env = program->env;
  const dt_kernel_t *kernel = p->kernel;
  const dt_stage_t *from = &kernel->stages.items[0];
  uint32_t rank = dt__program_buffer(program, p->store->buffer)->rank;
  dt_kernel_t part = {.name = name, .n_loops = kernel->n_loops, .section = kernel->section};
  dt_stage_t stage = {0};
  dt_body_copy_t copy = {.program = program, .into = &stage, .from = from, .mask = DT_NO_INST};
  dt_store_t store = *p->store;
  dt_sym_t side = dt__sym_const(env, 0);
  if (over->twice) {
    part.extents[part.n_loops] = dt__sym_const(env, 2);
    side = part.vars[part.n_loops] = dt__sym_new_loop(env, part.extents[part.n_loops]);
    part.n_loops++;
  }
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    part.extents[v] = dt__sym_sub(env, over->end[v], over->begin[v]);
    part.vars[v] = dt__sym_new_loop(env, part.extents[v]);
    dt_sym_t at = dt__sym_add(env, part.vars[v], over->begin[v]);
    if (v + 1 == over->twice)
      at = dt__sym_add(env, at, dt__sym_mul(env, side, over->apart));
    DT_TRY(dt__body_rename(&copy, kernel->vars[v], at));
  }
  dt_inst_t inst = copies ? *p->load : (dt_inst_t){.kind = DT_INST_CONST, .dtype = p->load->dtype};
  if (!copies && p->fill != DT_NO_INST)
    inst = from->insts.items[p->fill];
  inst.mask = inst.args[0] = DT_NO_INST;
  if (copies) {
    inst.index =
        dt__body_exprs(&copy, p->load->index, dt__program_buffer(program, p->load->buffer)->rank);
    if (!inst.index)
      return DT_NO_MEMORY();
  }
  DT_TRY(dt__stage_add(program, &stage, &inst, &store.value));
  store.index = dt__body_exprs(&copy, p->store->index, rank);
  return store.index && DT_VEC_PUSH(program->arena, &stage.stores, store) &&
                 DT_VEC_PUSH(program->arena, &part.stages, stage) &&
                 DT_VEC_PUSH(program->arena, out, part)
             ? NULL
             : DT_NO_MEMORY();
}

// Both sides along loop v, as one where they are as wide: of the loops before it what is copied, of
// those behind it all.
static dt_status_t add_sides(dt_program_t *program, const padding_t *p, uint32_t v,
                             kernels_t *out) {
  dt_symenv_t *env = program->env;
  const dt_kernel_t *kernel = p->kernel;
  dt_sym_t zero = dt__sym_const(env, 0), behind = dt__sym_sub(env, kernel->extents[v], p->to[v]);
  part_t over = {.twice = 0};
  for (uint32_t i = 0; i < kernel->n_loops; i++) {
    over.begin[i] = i < v ? p->from[i] : zero;
    over.end[i] = i < v ? p->to[i] : kernel->extents[i];
  }
  over.end[v] = p->from[v];
  if (dt__sym_known_eq(env, p->from[v], behind) && kernel->n_loops < DT_MAX_LOOPS) {
    over.twice = v + 1;
    over.apart = p->to[v];
  }
  if (!dt__sym_known_eq(env, p->from[v], zero))
    DT_TRY(add_part(program, p, "border", &over, false, out));
  over.begin[v] = p->to[v];
  over.end[v] = kernel->extents[v];
  if (!over.twice && !dt__sym_known_eq(env, behind, zero))
    DT_TRY(add_part(program, p, "border", &over, false, out));
  return NULL;
}

dt_status_t dt__borders_apart(dt_program_t *program, dt_flow_t *flow, bool *out_changed) {
  kernels_t kernels = {0};
  *out_changed = false;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t kernel = program->kernels.items[k];
    padding_t p;
    if (!find_padding(program, &kernel, &p) ||
        dt__program_buffer(program, p.load->buffer)->kind != DT_BUFFER_TEMP ||
        flow->loads[p.load->buffer.id - 1] != 1 || flow->stores[p.load->buffer.id - 1] != 1) {
      if (!DT_VEC_PUSH(program->arena, &kernels, kernel))
        return DT_NO_MEMORY();
      continue;
    }
    DT_LOG(DT_LOG_FUSION, 1, "%s: borders apart", kernel.name);
    part_t middle = {.twice = 0};
    memcpy(middle.begin, p.from, sizeof(middle.begin));
    memcpy(middle.end, p.to, sizeof(middle.end));
    DT_TRY(add_part(program, &p, "middle", &middle, true, &kernels));
    for (uint32_t v = 0; v < kernel.n_loops; v++)
      DT_TRY(add_sides(program, &p, v, &kernels));
    *out_changed = true;
  }
  program->kernels.items = kernels.items;
  program->kernels.len = kernels.len;
  program->kernels.cap = kernels.cap;
  return dt__symenv_status(program->env);
}

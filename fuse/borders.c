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
//
// What several kernels make, or read besides, lies in the middle from the beginning: who stores to
// it or reads it does so there, and nothing is copied.
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

// ---- What lies in the middle from the beginning -------------------------------------------------------

typedef struct middles_t {
  dt_program_t *program;
  dt_flow_t *flow;
  bool *made;  // by kernel: what it copied lies there by itself
  bool *taken; // by buffer, [id - 1]: others lie in it
} middles_t;

// By dim: how much further on an element lies in the middle.
typedef struct shift_t {
  dt_sym_t by[DT_MAX_RANK];
} shift_t;

// All of the load's buffer is copied, each dim along one loop, to a buffer of the same order.
static bool find_shift(dt_program_t *program, const padding_t *p, shift_t *out) {
  dt_symenv_t *env = program->env;
  const dt_buffer_t *from = dt__program_buffer(program, p->load->buffer);
  const dt_buffer_t *to = dt__program_buffer(program, p->store->buffer);
  if (from->rank != to->rank || !from->layout || from->dtype != to->dtype ||
      !dt__layout_is_order(from->layout, from->rank) ||
      !dt__layout_is_order(to->layout, to->rank) ||
      memcmp(from->layout->order, to->layout->order, from->rank))
    return false;
  for (uint32_t d = 0; d < from->rank; d++) {
    uint32_t v = loop_number(p->kernel, p->store->index[d]);
    dt_sym_t zero = dt__sym_const(env, 0), coef, rest;
    int64_t step = 0, size = 0;
    out->by[d] = zero;
    if (v == p->kernel->n_loops) { // one element
      if (p->load->index[d].id != p->store->index[d].id ||
          !dt__sym_is_const(env, from->sizes[d], &size) || size != 1)
        return false;
      continue;
    }
    if (!dt__sym_linear(env, p->load->index[d], p->kernel->vars[v], &coef, &rest) ||
        !dt__sym_is_const(env, coef, &step) || step != 1 ||
        dt__expr_uses_any(program, rest, p->kernel->vars, p->kernel->n_loops) ||
        !dt__sym_known_eq(env, dt__sym_add(env, rest, p->from[v]), zero) ||
        !dt__sym_known_eq(env, dt__sym_sub(env, p->to[v], p->from[v]), from->sizes[d]))
      return false;
    out->by[d] = p->from[v];
  }
  return true;
}

static const dt_sym_t *shifted(dt_program_t *program, const shift_t *shift, const dt_sym_t *index,
                               uint32_t rank) {
  dt_sym_t *out = DT_ARENA_ARRAY(program->arena, dt_sym_t, rank + 1);
  for (uint32_t d = 0; out && d < rank; d++)
    out[d] = dt__sym_add(program->env, index[d], shift->by[d]);
  return out;
}

static dt_status_t shift_kernel(dt_program_t *program, const shift_t *shift, dt_buffer_id_t from,
                                dt_buffer_id_t to, dt_kernel_t *kernel) {
  uint32_t rank = dt__program_buffer(program, from)->rank;
  if (!dt__kernel_copy(program, kernel))
    return DT_NO_MEMORY();
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      dt_inst_t *load = &stage->insts.items[i];
      if (dt__inst_reads(load).id != from.id)
        continue;
      load->buffer = to;
      if (!(load->index = shifted(program, shift, load->index, rank)))
        return DT_NO_MEMORY();
    }
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      dt_store_t *store = &stage->stores.items[i];
      if (store->buffer.id != from.id)
        continue;
      store->buffer = to;
      if (!(store->index = shifted(program, shift, store->index, rank)))
        return DT_NO_MEMORY();
    }
  }
  return NULL;
}

// The kernel reads and stores elements of it one by one.
static bool is_simple_user(const dt_kernel_t *kernel, dt_buffer_id_t id) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++)
      if (dt__inst_reads(&stage->insts.items[i]).id == id.id &&
          stage->insts.items[i].kind != DT_INST_LOAD)
        return false;
    for (uint32_t i = 0; i < stage->stores.len; i++)
      if (stage->stores.items[i].buffer.id == id.id &&
          (stage->stores.items[i].whole || stage->stores.items[i].revises))
        return false;
  }
  return true;
}

static dt_status_t users_are_simple(middles_t *m, uint32_t k, dt_buffer_id_t id, bool *out) {
  const dt_program_t *program = m->program;
  *out = false;
  DT_TRY(dt__flow_users(m->flow, id.id - 1));
  for (uint32_t u = 0; u < m->flow->users.len; u++) {
    const dt_kernel_t *kernel = &program->kernels.items[m->flow->users.items[u]];
    if (kernel->section != program->kernels.items[k].section || !is_simple_user(kernel, id))
      return NULL;
  }
  *out = true;
  return NULL;
}

static dt_status_t lie_in_middle(middles_t *m, uint32_t k) {
  dt_program_t *program = m->program;
  padding_t p;
  shift_t shift;
  bool simple = false;
  if (!find_padding(program, &program->kernels.items[k], &p))
    return NULL;
  dt_buffer_id_t from = p.load->buffer, to = p.store->buffer;
  uint32_t b = from.id - 1;
  if (dt__program_buffer(program, from)->kind != DT_BUFFER_TEMP ||
      (m->flow->loads[b] == 1 && m->flow->stores[b] == 1) || m->taken[b] ||
      dt__buffer_is_readback(program, from.id) || dt__flow_writer(m->flow, to.id - 1) != k ||
      !find_shift(program, &p, &shift))
    return NULL;
  DT_TRY(users_are_simple(m, k, from, &simple));
  if (!simple)
    return NULL;
  DT_LOG(DT_LOG_FUSION, 1, "buffer %u lies in the middle of %u", from.id, to.id);
  m->made[k] = m->taken[to.id - 1] = true;
  for (uint32_t u = 0; u < m->flow->users.len; u++)
    if (m->flow->users.items[u] != k)
      DT_TRY(shift_kernel(program, &shift, from, to,
                          &program->kernels.items[m->flow->users.items[u]]));
  return NULL;
}

static dt_status_t find_middles(dt_program_t *program, dt_flow_t *flow, middles_t *out) {
  *out = (middles_t){.program = program,
                     .flow = flow,
                     .made = DT_ARENA_ARRAY(program->arena, bool, program->kernels.len + 1),
                     .taken = DT_ARENA_ARRAY(program->arena, bool, program->buffers.len + 1)};
  if (!out->made || !out->taken)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(lie_in_middle(out, k));
  return NULL;
}

// ---- All ------------------------------------------------------------------------------------------

static bool has_own_borders(const middles_t *m, const padding_t *p) {
  uint32_t b = p->load->buffer.id - 1;
  return !m->taken[b] && m->program->buffers.items[b].kind == DT_BUFFER_TEMP &&
         m->flow->loads[b] == 1 && m->flow->stores[b] == 1;
}

dt_status_t dt__borders_apart(dt_program_t *program, dt_flow_t *flow, bool *out_changed) {
  kernels_t kernels = {0};
  middles_t middles;
  *out_changed = false;
  DT_TRY(find_middles(program, flow, &middles));
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t kernel = program->kernels.items[k];
    padding_t p;
    if (!find_padding(program, &kernel, &p) ||
        (!middles.made[k] && !has_own_borders(&middles, &p))) {
      if (!DT_VEC_PUSH(program->arena, &kernels, kernel))
        return DT_NO_MEMORY();
      continue;
    }
    DT_LOG(DT_LOG_FUSION, 1, "%s: borders apart", kernel.name);
    part_t middle = {.twice = 0};
    memcpy(middle.begin, p.from, sizeof(middle.begin));
    memcpy(middle.end, p.to, sizeof(middle.end));
    if (!middles.made[k])
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

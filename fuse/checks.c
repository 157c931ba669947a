// SPDX-License-Identifier: Apache-2.0
// Removes stages that only repeat checks. Inlining copies the checked index of a gather to every
// user; a kernel remains that checks the same numbers again and stores nothing. Such a stage is
// dropped if other stages make all of its checks, too. A check that stays is made once for each
// number that is checked: loops that no check depends on are dropped.
//
// A check covers another one if it is the same check of the same value in other loops: each loop
// that the value depends on has a partner of the same extent, and the remaining loops run whenever
// those of the dropped stage did. If several checks of a call fail, the first one found is
// reported. A stage is dropped only if the first one stays the same, because no other kernel checks
// in between.
#include "fuse/body.h"
#include "fuse/order.h"
#include "fuse/prune.h"
#include "runtime/base/status.h"

#include <string.h>

// A stage, and all loops that it runs in.
typedef struct place_t {
  uint32_t kernel, at; // positions
  const dt_stage_t *stage;
  uint32_t n_loops;
  dt_sym_t vars[2 * DT_MAX_LOOPS], extents[2 * DT_MAX_LOOPS];
} place_t;

typedef struct cover_t {
  dt_program_t *program;
  place_t a, b;                       // the stage in question, and one that may cover it
  uint32_t partner[2 * DT_MAX_LOOPS]; // of a's loops among b's, or UINT32_MAX
  dt_sym_t to[2 * DT_MAX_LOOPS];      // a's loops as b calls them; themselves without a partner
  const uint32_t *segment;            // by kernel
  uint32_t *same; // by instruction of a: 1 + the one of b that it was compared with
  bool pairing;   // partners are being found; else expressions are compared
} cover_t;

static place_t place_of(const dt_program_t *program, uint32_t k, uint32_t s) {
  const dt_kernel_t *kernel = &program->kernels.items[k];
  place_t place = {.kernel = k, .at = s, .stage = &kernel->stages.items[s]};
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    place.vars[place.n_loops] = kernel->vars[v];
    place.extents[place.n_loops++] = kernel->extents[v];
  }
  for (uint32_t v = 0; v < place.stage->n_loops; v++) {
    place.vars[place.n_loops] = place.stage->vars[v];
    place.extents[place.n_loops++] = place.stage->extents[v];
  }
  return place;
}

static uint32_t find_loop(const place_t *place, dt_sym_t var) {
  for (uint32_t v = 0; v < place->n_loops; v++)
    if (place->vars[v].id == var.id)
      return v;
  return UINT32_MAX;
}

// ---- Equal values -------------------------------------------------------------------------------
static bool pair_loops(cover_t *c, uint32_t x, dt_sym_t other) {
  uint32_t y = find_loop(&c->b, other);
  if (y == UINT32_MAX || !dt__sym_known_eq(c->program->env, c->a.extents[x], c->b.extents[y]))
    return false;
  for (uint32_t v = 0; v < c->a.n_loops; v++)
    if (v != x && c->partner[v] == y)
      return false;
  if (c->partner[x] != UINT32_MAX && c->partner[x] != y)
    return false;
  c->partner[x] = y;
  c->to[x] = other;
  return true;
}

static bool same_expr(cover_t *c, dt_sym_t x, dt_sym_t y) {
  uint32_t loop = find_loop(&c->a, x);
  if (c->pairing)
    return loop == UINT32_MAX || pair_loops(c, loop, y);
  dt_sym_t renamed =
      c->a.n_loops ? dt__sym_subst(c->program->env, x, c->a.vars, c->to, c->a.n_loops) : x;
  return renamed.id == y.id;
}

static bool same_value(cover_t *c, uint32_t i, uint32_t j);

static bool same_inputs(cover_t *c, const dt_inst_t *x, const dt_inst_t *y) {
  for (int k = 0; k < 3; k++)
    if (!same_value(c, x->args[k], y->args[k]))
      return false;
  return same_value(c, x->mask, y->mask);
}

// What others write during a kernel is not compared, nor what another check found.
static bool same_load(cover_t *c, const dt_inst_t *x, const dt_inst_t *y) {
  const dt_buffer_t *buffer = dt__program_buffer(c->program, x->buffer);
  if (x->buffer.id != y->buffer.id || buffer->kind == DT_BUFFER_LOCAL ||
      buffer->kind == DT_BUFFER_SLAB)
    return false;
  for (uint32_t d = 0; d < buffer->rank; d++)
    if (!same_expr(c, x->index[d], y->index[d]))
      return false;
  return same_inputs(c, x, y);
}

static bool same_inst(cover_t *c, const dt_inst_t *x, const dt_inst_t *y) {
  if (x->kind != y->kind || x->dtype != y->dtype)
    return false;
  switch (x->kind) {
  case DT_INST_CONST:
    return x->value.i == y->value.i;
  case DT_INST_INDEX:
    return same_expr(c, x->sym, y->sym);
  case DT_INST_LOAD:
    return same_load(c, x, y);
  case DT_INST_SCALAR:
    return x->op == y->op && same_inputs(c, x, y);
  case DT_INST_CAST:
  case DT_INST_BITS:
    return same_inputs(c, x, y);
  default:
    return false;
  }
}

// Instruction i of a and j of b; each is looked at once.
static bool same_value(cover_t *c, uint32_t i, uint32_t j) {
  if (i == DT_NO_INST || j == DT_NO_INST)
    return i == j;
  if (c->same[i])
    return c->same[i] == j + 1;
  c->same[i] = j + 1;
  return same_inst(c, &c->a.stage->insts.items[i], &c->b.stage->insts.items[j]);
}

static bool same_check(cover_t *c, const dt_inst_t *x, const dt_inst_t *y) {
  if (y->kind != DT_INST_BIND || x->check != y->check ||
      !dt__sym_known_eq(c->program->env, x->extent, y->extent))
    return false;
  for (uint32_t v = 0; v < c->a.n_loops; v++) {
    c->partner[v] = UINT32_MAX;
    c->to[v] = c->a.vars[v];
  }
  for (int pairing = 1; pairing >= 0; pairing--) {
    c->pairing = pairing;
    memset(c->same, 0, c->a.stage->insts.len * sizeof(*c->same));
    if (!same_value(c, x->args[0], y->args[0]) || !same_value(c, x->mask, y->mask))
      return false;
  }
  return true;
}

// ---- Covered stages -----------------------------------------------------------------------------
// b's loops without a partner run whenever a's do.
static bool runs_as_well(const cover_t *c) {
  for (uint32_t y = 0; y < c->b.n_loops; y++) {
    bool runs = dt__sym_range(c->program->env, c->b.extents[y]).lo >= 1;
    for (uint32_t x = 0; x < c->a.n_loops; x++)
      runs = runs || c->partner[x] == y ||
             (c->partner[x] == UINT32_MAX &&
              dt__sym_known_eq(c->program->env, c->a.extents[x], c->b.extents[y]));
    if (!runs)
      return false;
  }
  return true;
}

static bool checks_other(const dt_kernel_t *kernel, uint32_t check) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[i];
      if (dt__inst_checks(inst) && inst->check != check)
        return true;
    }
  return false;
}

// A check made at kernel k instead of before, at a's, is found no later than any other, and before
// the host reads a number.
static bool in_time(const cover_t *c, uint32_t k, uint32_t check) {
  const dt_program_t *program = c->program;
  if (k <= c->a.kernel)
    return true;
  if (c->segment[k] != c->segment[c->a.kernel] ||
      dt__kernel_updates(program, &program->kernels.items[k]))
    return false;
  for (uint32_t between = c->a.kernel + 1; between < k; between++)
    if (checks_other(&program->kernels.items[between], check))
      return false;
  return true;
}

static bool is_covered(cover_t *c, const dt_inst_t *bind) {
  const dt_program_t *program = c->program;
  for (uint32_t k = program->kernels.len; k-- > 0;) {
    if (!in_time(c, k, bind->check))
      continue;
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      if (k == c->a.kernel && s == c->a.at)
        continue;
      c->b = place_of(program, k, s);
      for (uint32_t i = 0; i < c->b.stage->insts.len; i++)
        if (same_check(c, bind, &c->b.stage->insts.items[i]) && runs_as_well(c))
          return true;
    }
  }
  return false;
}

static bool only_checks(const dt_stage_t *stage) {
  return !stage->stores.len && !stage->reductions.len;
}

static dt_status_t stage_is_covered(dt_program_t *program, const uint32_t *segment, uint32_t k,
                                    uint32_t s, bool *out) {
  cover_t c = {.program = program, .a = place_of(program, k, s), .segment = segment};
  *out = only_checks(c.a.stage);
  c.same = DT_ARENA_ARRAY(program->arena, uint32_t, c.a.stage->insts.len + 1);
  if (!c.same)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; *out && i < c.a.stage->insts.len; i++)
    if (c.a.stage->insts.items[i].kind == DT_INST_BIND)
      *out = is_covered(&c, &c.a.stage->insts.items[i]);
  return dt__symenv_status(program->env);
}

// ---- Loops of checks ----------------------------------------------------------------------------
static bool depends(dt_program_t *program, const dt_inst_t *inst, dt_sym_t var) {
  uint32_t rank = inst->kind == DT_INST_LOAD ? dt__program_buffer(program, inst->buffer)->rank : 0;
  return (inst->kind == DT_INST_INDEX && dt__sym_depends(program->env, inst->sym, var)) ||
         dt__index_uses(program, inst->index, rank, var);
}

// Outer loops of a kernel that only checks, on which nothing depends and which surely run.
static void drop_loops(dt_program_t *program, dt_kernel_t *kernel) {
  uint32_t kept = 0;
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    bool needed = dt__sym_range(program->env, kernel->extents[v]).lo < 1;
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      needed = needed || !only_checks(stage);
      for (uint32_t i = 0; !needed && i < stage->insts.len; i++)
        needed = depends(program, &stage->insts.items[i], kernel->vars[v]);
    }
    if (!needed)
      continue;
    kernel->vars[kept] = kernel->vars[v];
    kernel->extents[kept++] = kernel->extents[v];
  }
  kernel->n_loops = kept;
}

dt_status_t dt__prune_checks(dt_program_t *program, bool *out_changed) {
  uint32_t *segment = NULL;
  *out_changed = false;
  DT_TRY(dt__find_segments(program, &segment, NULL));
  for (uint32_t k = program->kernels.len; k-- > 0;) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t s = kernel->stages.len; s-- > 0;) {
      bool covered = false;
      DT_TRY(stage_is_covered(program, segment, k, s, &covered));
      if (!covered)
        continue;
      for (uint32_t t = s; t + 1 < kernel->stages.len; t++)
        kernel->stages.items[t] = kernel->stages.items[t + 1];
      kernel->stages.len--;
      *out_changed = true;
    }
    drop_loops(program, kernel);
  }
  return dt__symenv_status(program->env);
}

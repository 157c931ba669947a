// SPDX-License-Identifier: Apache-2.0
// Loop normalisation. Loops of extent 1 are removed. If indices split a loop i into i // c and i %
// c, and c provably divides its extent, it becomes two loops. Dims that were merged (a transpose,
// then a reshape) are plain loops afterwards, which vectors and other kernels' loops can match.
// Then scans are taken apart: while a tuple is whole, of which later passes drop what nobody reads.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "fuse/loops.h"
#include "fuse/split_scan.h"
#include "runtime/base/status.h"

#include <string.h>

// Replaces loop variable `from` by `to` in every stage of `kernel` (outer loops) or in one stage.
static dt_status_t substitute(dt_program_t *program, dt_stage_t *stage, dt_sym_t from,
                              dt_sym_t to) {
  dt_stage_t fresh;
  dt__stage_start(&fresh, stage);
  dt_body_copy_t copy = {.program = program, .into = &fresh, .from = stage, .mask = DT_NO_INST};
  DT_TRY(dt__body_rename(&copy, from, to));
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  *stage = fresh;
  return NULL;
}

// Finds i // c or i % c with i == var inside `expr`; c free of loop variables.
static dt_sym_t divisor_in(dt_program_t *program, dt_sym_t expr, dt_sym_t var, int depth) {
  dt_sym_view_t view = dt__sym_view(program->env, expr);
  if (depth == 0 || view.n_args == 0)
    return DT_SYM_NONE_ID;
  if ((view.op == DT_SYM_FLOORDIV || view.op == DT_SYM_MOD) && view.args[0].id == var.id)
    return view.args[1];
  for (uint32_t k = 0; k < view.n_args; k++) {
    dt_sym_t found = divisor_in(program, dt__sym_view(program->env, expr).args[k], var, depth - 1);
    if (found.id)
      return found;
  }
  return DT_SYM_NONE_ID;
}

static bool has_loop_symbol(dt_program_t *program, dt_sym_t expr) {
  uint32_t symbols[64];
  uint32_t n = dt__sym_symbols(program->env, expr, symbols, 64);
  for (uint32_t k = 0; k < n && k < 64; k++) {
    dt_symbol_kind_t kind = dt__symbol_info(program->env, symbols[k]).kind;
    if (kind == DT_SYMBOL_LOOP || kind == DT_SYMBOL_DATA)
      return true;
  }
  return n > 64;
}

static dt_sym_t divisor_of_stage(dt_program_t *program, const dt_stage_t *stage, dt_sym_t var) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    if (inst->kind != DT_INST_LOAD)
      continue;
    uint32_t rank = dt__program_buffer(program, inst->buffer)->rank;
    for (uint32_t d = 0; d < rank; d++) {
      dt_sym_t found = divisor_in(program, inst->index[d], var, 16);
      if (found.id && !has_loop_symbol(program, found))
        return found;
    }
  }
  return DT_SYM_NONE_ID;
}

// One loop list (a kernel's or a stage's) and the stages that see its variables.
typedef struct loops_t {
  uint32_t *n;
  dt_sym_t *vars, *extents;
  dt_stage_t *stages;
  uint32_t n_stages;
} loops_t;

static dt_status_t replace_everywhere(dt_program_t *program, const loops_t *loops, dt_sym_t var,
                                      dt_sym_t by) {
  for (uint32_t s = 0; s < loops->n_stages; s++)
    DT_TRY(substitute(program, &loops->stages[s], var, by));
  return dt__symenv_status(program->env);
}

static dt_status_t drop_loop(dt_program_t *program, const loops_t *loops, uint32_t at) {
  DT_TRY(replace_everywhere(program, loops, loops->vars[at], dt__sym_const(program->env, 0)));
  for (uint32_t k = at; k + 1 < *loops->n; k++) {
    loops->vars[k] = loops->vars[k + 1];
    loops->extents[k] = loops->extents[k + 1];
  }
  (*loops->n)--;
  return NULL;
}

// Whether a place moves by one element with each step of `var`, or not at all.
static bool moves_by_one(dt_program_t *program, dt_sym_t offset, dt_sym_t var) {
  dt_sym_t step, rest;
  int64_t literal = 0;
  return !dt__sym_depends(program->env, offset, var) ||
         (dt__sym_linear(program->env, offset, var, &step, &rest) &&
          dt__sym_is_const(program->env, step, &literal) && literal == 1);
}

// Lanes of one thread along the last loop, which stores neighbours, take turns: even ones load
// neighbours, and odd ones others (backend_llvm/emit/gather_runs.c). With that loop split they
// would store every second element.
static bool takes_turns(dt_program_t *program, const loops_t *loops, uint32_t at,
                        const dt_target_t *target) {
  dt_symenv_t *env = program->env;
  dt_sym_t var = loops->vars[at], two = dt__sym_const(env, 2);
  if (dt__target_has_teams(target) || target->vector_bytes < 32 || at + 1 != *loops->n)
    return false;
  dt_sym_t half = dt__sym_new_loop(env, dt__sym_floordiv(env, loops->extents[at], two));
  dt_sym_t whole = dt__sym_add(env, dt__sym_mul(env, half, two), dt__sym_new_loop(env, two));
  for (uint32_t s = 0; s < loops->n_stages; s++) {
    const dt_stage_t *stage = &loops->stages[s];
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      const dt_store_t *store = &stage->stores.items[k];
      if (!moves_by_one(program, dt__buffer_offset(program, store->buffer, store->index), var))
        return false;
    }
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      const dt_inst_t *load = &stage->insts.items[i];
      if (load->kind != DT_INST_LOAD)
        continue;
      dt_sym_t offset = dt__buffer_offset(program, load->buffer, load->index);
      dt_sym_t apart = dt__sym_subst(env, offset, &var, &whole, 1);
      if (!moves_by_one(program, offset, var) && !moves_by_one(program, apart, half))
        return false;
    }
  }
  return true;
}

static dt_status_t split_loop(dt_program_t *program, const loops_t *loops, uint32_t at,
                              dt_sym_t divisor, bool *changed) {
  dt_symenv_t *env = program->env;
  dt_sym_t extent = loops->extents[at], quotient = dt__sym_floordiv(env, extent, divisor);
  if (*loops->n == DT_MAX_LOOPS ||
      !dt__sym_known_true(env, dt__sym_lt(env, dt__sym_const(env, 0), divisor)) ||
      !dt__sym_known_eq(env, dt__sym_mul(env, quotient, divisor), extent))
    return NULL;
  dt_sym_t high = dt__sym_new_loop(env, quotient), low = dt__sym_new_loop(env, divisor);
  dt_sym_t whole = dt__sym_add(env, dt__sym_mul(env, high, divisor), low);
  DT_TRY(replace_everywhere(program, loops, loops->vars[at], whole));
  for (uint32_t k = *loops->n; k > at + 1; k--) {
    loops->vars[k] = loops->vars[k - 1];
    loops->extents[k] = loops->extents[k - 1];
  }
  loops->vars[at] = high;
  loops->extents[at] = quotient;
  loops->vars[at + 1] = low;
  loops->extents[at + 1] = divisor;
  (*loops->n)++;
  *changed = true;
  return NULL;
}

static dt_status_t drop_units(dt_program_t *program, const loops_t *loops) {
  for (uint32_t at = *loops->n; at-- > 0;) {
    int64_t extent = 0;
    if (dt__sym_is_const(program->env, loops->extents[at], &extent) && extent == 1)
      DT_TRY(drop_loop(program, loops, at));
  }
  return NULL;
}

static loops_t outer_loops(dt_kernel_t *kernel) {
  return (loops_t){.n = &kernel->n_loops,
                   .vars = kernel->vars,
                   .extents = kernel->extents,
                   .stages = kernel->stages.items,
                   .n_stages = kernel->stages.len};
}

static loops_t inner_loops(dt_stage_t *stage) {
  return (loops_t){.n = &stage->n_loops,
                   .vars = stage->vars,
                   .extents = stage->extents,
                   .stages = stage,
                   .n_stages = 1};
}

dt_status_t dt__drop_unit_loops(dt_program_t *program, dt_kernel_t *kernel) {
  loops_t outer = outer_loops(kernel);
  DT_TRY(drop_units(program, &outer));
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    loops_t inner = inner_loops(&kernel->stages.items[s]);
    DT_TRY(drop_units(program, &inner));
  }
  return NULL;
}

// With `whole` loops are dropped, but not split; nor is one that lanes of `target` (or NULL) like
// as it is.
static dt_status_t normalise(dt_program_t *program, const loops_t *loops, bool whole,
                             const dt_target_t *target) {
  DT_TRY(drop_units(program, loops));
  for (bool changed = !whole; changed;) {
    changed = false;
    for (uint32_t at = 0; at < *loops->n && !changed; at++)
      for (uint32_t s = 0; s < loops->n_stages && !changed; s++) {
        dt_sym_t divisor = divisor_of_stage(program, &loops->stages[s], loops->vars[at]);
        int64_t literal = 0;
        bool by_two =
            divisor.id && dt__sym_is_const(program->env, divisor, &literal) && literal == 2;
        if (by_two && target && takes_turns(program, loops, at, target))
          continue;
        if (divisor.id)
          DT_TRY(split_loop(program, loops, at, divisor, &changed));
      }
  }
  return NULL;
}

dt_status_t dt__split_inner_loops(dt_program_t *program, dt_stage_t *stage) {
  loops_t inner = inner_loops(stage);
  return normalise(program, &inner, dt__stage_in_order(stage), NULL);
}

dt_status_t dt__fuse_split(dt_program_t *program, const dt_target_t *target) {
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    dt_kernel_t *kernel = &program->kernels.items[k];
    if (kernel->schedules.len) // a template's loops keep their roles
      continue;
    loops_t outer = outer_loops(kernel);
    DT_TRY(normalise(program, &outer, false, target));
    for (uint32_t s = 0; s < kernel->stages.len; s++)
      DT_TRY(dt__split_inner_loops(program, &kernel->stages.items[s]));
  }
  return dt__split_scans(program, target);
}

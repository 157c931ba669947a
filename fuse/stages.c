// SPDX-License-Identifier: Apache-2.0
// Joining kernels: two kernels become one when, in each iteration of common outer loops, the second
// reads of the first's results only what the first wrote in the same iteration. Loops that are not
// common become inner loops of their stages, which only maps allow. Legality is a comparison of
// index expressions; order is kept by a topological sort over what kernels read.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "fuse/loops.h"
#include "fuse/merge.h"
#include "fuse/order.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define MAX_STAGES 24
#define MAX_INSTS 800
#define WINDOW 64 // how far apart unrelated kernels may stand to be joined side by side

typedef struct join_t {
  dt_program_t *program;
  dt_access_t access;
  bool *constant;    // per kernel: reads constants only
  uint32_t *segment; // per kernel
  // The pair under examination.
  const dt_kernel_t *a, *b;
  // b's outer loop that walks together with a's outer loop j; UINT32_MAX: none.
  uint32_t partner[DT_MAX_LOOPS];
} join_t;

static bool is_template(const dt_kernel_t *kernel) { return kernel->schedules.len != 0; }

// All stages map and have no loops of their own: any outer loop may become an inner one.
static bool only_maps(const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (kernel->stages.items[s].n_loops || kernel->stages.items[s].folds.len)
      return false;
  return true;
}

static uint32_t inst_count(const dt_kernel_t *kernel) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    n += kernel->stages.items[s].insts.len;
  return n;
}

// ---- Matching loops -------------------------------------------------------------------------------

static uint32_t loop_index(const dt_sym_t *vars, uint32_t n, dt_sym_t var) {
  for (uint32_t k = 0; k < n; k++)
    if (vars[k].id == var.id)
      return k;
  return UINT32_MAX;
}

// A store at `at` read at `index`: every outer loop of a that stands in the store's index must
// stand alone there and meet an outer loop of b (its partner) in the load, always the same one.
// With `may_skip` (a can give up loops) a loop that meets no loop of b is left without a partner.
static bool match_access(join_t *join, const dt_sym_t *at, const dt_sym_t *index, uint32_t rank,
                         bool may_skip) {
  const dt_kernel_t *a = join->a, *b = join->b;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t j = loop_index(a->vars, a->n_loops, at[d]);
    if (j == UINT32_MAX) {
      for (uint32_t v = 0; v < a->n_loops; v++)
        if (dt__sym_depends(join->program->env, at[d], a->vars[v]))
          return false;
      continue;
    }
    uint32_t v = loop_index(b->vars, b->n_loops, index[d]);
    bool meets =
        v != UINT32_MAX && dt__sym_known_eq(join->program->env, a->extents[j], b->extents[v]);
    if (!meets) {
      if (!may_skip || (join->partner[j] != UINT32_MAX && join->partner[j] != DT_MAX_LOOPS))
        return false;
      join->partner[j] = DT_MAX_LOOPS; // met something that is no loop: never a partner
      continue;
    }
    if (join->partner[j] == UINT32_MAX)
      join->partner[j] = v;
    else if (join->partner[j] != v)
      return false;
  }
  return true;
}

static const dt_store_t *find_store(const dt_kernel_t *kernel, dt_buffer_id_t buffer) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++)
      if (kernel->stages.items[s].stores.items[k].buffer.id == buffer.id)
        return &kernel->stages.items[s].stores.items[k];
  return NULL;
}

// Partners by what b reads of a. *found: b reads something of a. What a scatters, and what b
// searches, is read only when a is done.
static bool match_vertical(join_t *join, bool may_skip, bool *found) {
  *found = false;
  for (uint32_t s = 0; s < join->b->stages.len; s++)
    for (uint32_t k = 0; k < join->b->stages.items[s].insts.len; k++) {
      const dt_inst_t *load = &join->b->stages.items[s].insts.items[k];
      if (!dt__inst_reads(load).id)
        continue;
      const dt_store_t *store = find_store(join->a, load->buffer);
      if (!store)
        continue;
      *found = true;
      if (join->access.n_writers[load->buffer.id - 1] != 1 || load->kind != DT_INST_LOAD ||
          dt__store_scatters(join->program, store) ||
          !match_access(join, store->index, load->index,
                        dt__program_buffer(join->program, load->buffer)->rank, may_skip))
        return false;
    }
  return true;
}

static bool share_a_buffer(const join_t *join) {
  for (uint32_t s = 0; s < join->a->stages.len; s++)
    for (uint32_t k = 0; k < join->a->stages.items[s].insts.len; k++) {
      const dt_inst_t *x = &join->a->stages.items[s].insts.items[k];
      if (x->kind != DT_INST_LOAD)
        continue;
      for (uint32_t t = 0; t < join->b->stages.len; t++)
        for (uint32_t i = 0; i < join->b->stages.items[t].insts.len; i++) {
          const dt_inst_t *y = &join->b->stages.items[t].insts.items[i];
          if (y->kind == DT_INST_LOAD && y->buffer.id == x->buffer.id)
            return true;
        }
    }
  return false;
}

// Side by side: equal loops in equal order.
static bool match_horizontal(join_t *join) {
  if (join->a->n_loops != join->b->n_loops || is_template(join->a) || !share_a_buffer(join) ||
      only_maps(join->a) != only_maps(join->b))
    return false;
  for (uint32_t j = 0; j < join->a->n_loops; j++) {
    if (!dt__sym_known_eq(join->program->env, join->a->extents[j], join->b->extents[j]))
      return false;
    join->partner[j] = j;
  }
  return true;
}

// How the partners' count must be for each kernel's kind; NULL when the pair may be joined.
static const char *loops_refusal(join_t *join) {
  uint32_t pairs = 0;
  uint64_t taken = 0;
  for (uint32_t j = 0; j < join->a->n_loops; j++) {
    if (join->partner[j] >= DT_MAX_LOOPS) {
      join->partner[j] = UINT32_MAX;
      continue;
    }
    if ((taken >> join->partner[j]) & 1)
      return "two loops of the producer meet one of the consumer";
    taken |= UINT64_C(1) << join->partner[j];
    pairs++;
  }
  bool a_all = pairs == join->a->n_loops, b_all = pairs == join->b->n_loops;
  bool a_free = only_maps(join->a), b_free = only_maps(join->b);
  if (is_template(join->a) && !(a_all && b_all && b_free))
    return "a matrix template takes only maps over all its loops";
  if (a_free && b_free && !(a_all && b_all))
    return "two maps over different loops";
  if (!a_all && !a_free)
    return "the producer's folds need all its outer loops";
  if (!b_all && !b_free)
    return "the consumer's folds need all its outer loops";
  if (!a_all && !b_all)
    return "neither kernel's loops contain the other's";
  return NULL;
}

// Some third kernel needs a's results and b needs that kernel's.
static bool path_between(const join_t *join, uint32_t a, uint32_t b) {
  for (uint32_t c = a + 1; c < b; c++)
    if (dt__access_reaches(&join->access, c, a) && dt__access_reaches(&join->access, b, c))
      return true;
  return false;
}

// A plain copy that another kernel revises: by itself it can be left out (carry.c).
static bool is_revised_copy(const dt_program_t *program, const dt_kernel_t *kernel) {
  if (!dt__kernel_is_map(program, kernel))
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  const dt_store_t *store = &stage->stores.items[0];
  if (stage->insts.items[store->value].kind != DT_INST_LOAD)
    return false;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (dt__kernel_revises(&program->kernels.items[k]) &&
        dt__kernel_stores_to(&program->kernels.items[k], store->buffer.id))
      return true;
  return false;
}

// What other code would only make slower, or must not see.
static bool stands_alone(const dt_program_t *program, const dt_kernel_t *kernel) {
  return is_revised_copy(program, kernel) || dt__kernel_in_order(kernel) ||
         dt__kernel_updates(program, kernel) || dt__kernel_revises(kernel);
}

static const char *refusal(join_t *join, uint32_t ai, uint32_t bi) {
  join->a = &join->program->kernels.items[ai];
  join->b = &join->program->kernels.items[bi];
  for (uint32_t j = 0; j < DT_MAX_LOOPS; j++)
    join->partner[j] = UINT32_MAX;
  if (is_template(join->b))
    return "operands of a matrix template are memory";
  if (join->segment[ai] != join->segment[bi])
    return "they run in different segments";
  if (stands_alone(join->program, join->a) || stands_alone(join->program, join->b))
    return "one runs in order, or updates an argument";
  if (join->constant[ai] != join->constant[bi])
    return "one reads constants only";
  if (join->a->stages.len + join->b->stages.len > MAX_STAGES ||
      inst_count(join->a) + inst_count(join->b) > MAX_INSTS)
    return "the kernel would grow too large";
  if (path_between(join, ai, bi))
    return "a third kernel stands between them";
  bool reads = false;
  if (!match_vertical(join, only_maps(join->a), &reads))
    return "the consumer reads other elements than the producer's same iteration wrote";
  if (!reads) {
    if (dt__access_reaches(&join->access, bi, ai))
      return "a third kernel stands between them";
    if (bi - ai > WINDOW || !match_horizontal(join))
      return "they share neither loops nor data";
  }
  return loops_refusal(join);
}

// ---- Joining --------------------------------------------------------------------------------------

// Appends `kernel`'s stages to `out`; its outer loops that have no place among out's outer loops
// become each stage's first inner loops. `names[j]` is what outer loop j is called in `out`, or
// none.
static dt_status_t append_stages(dt_program_t *program, dt_kernel_t *out, const dt_kernel_t *kernel,
                                 const dt_sym_t *names) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *from = &kernel->stages.items[s];
    dt_stage_t stage = {0};
    dt_body_copy_t copy = {.program = program,
                           .into = &stage,
                           .from = from,
                           .mask = DT_NO_INST,
                           .row_base = out->n_rows};
    for (uint32_t j = 0; j < kernel->n_loops; j++) {
      if (names[j].id == 0) {
        // A variable of its own in every stage, so that no two stages share one.
        dt_sym_t var = dt__sym_new_loop(program->env, kernel->extents[j]);
        stage.vars[stage.n_loops] = var;
        stage.extents[stage.n_loops++] = kernel->extents[j];
        DT_TRY(dt__body_rename(&copy, kernel->vars[j], var));
      } else if (names[j].id != kernel->vars[j].id) {
        DT_TRY(dt__body_rename(&copy, kernel->vars[j], names[j]));
      }
    }
    if (stage.n_loops + from->n_loops > DT_MAX_LOOPS)
      return DT_FAIL(DT_E_LIMIT, "fuse: more than %d loops in a stage of %s", DT_MAX_LOOPS,
                     kernel->name);
    for (uint32_t v = 0; v < from->n_loops; v++) {
      stage.vars[stage.n_loops] = from->vars[v];
      stage.extents[stage.n_loops++] = from->extents[v];
    }
    DT_TRY(dt__body_copy(&copy));
    DT_TRY(dt__body_copy_results(&copy));
    if (!DT_VEC_PUSH(program->arena, &out->stages, stage))
      return DT_NO_MEMORY();
  }
  out->n_rows += kernel->n_rows;
  return NULL;
}

static dt_status_t build(join_t *join, dt_kernel_t *out) {
  const dt_kernel_t *a = join->a, *b = join->b;
  dt_program_t *program = join->program;
  memset(out, 0, sizeof(*out));
  bool a_all = true;
  for (uint32_t j = 0; j < a->n_loops; j++)
    a_all = a_all && join->partner[j] != UINT32_MAX;
  const dt_kernel_t *base = a_all ? a : b;
  out->n_loops = base->n_loops;
  memcpy(out->vars, base->vars, sizeof(out->vars));
  memcpy(out->extents, base->extents, sizeof(out->extents));
  dt_sym_t a_names[DT_MAX_LOOPS] = {{0}}, b_names[DT_MAX_LOOPS] = {{0}};
  for (uint32_t j = 0; j < a->n_loops; j++) {
    uint32_t v = join->partner[j];
    if (v == UINT32_MAX)
      continue;
    a_names[j] = base == a ? a->vars[j] : b->vars[v];
    b_names[v] = a_names[j];
  }
  DT_TRY(append_stages(program, out, a, a_names));
  DT_TRY(append_stages(program, out, b, b_names));
  out->schedules.items = a->schedules.items; // a template keeps its schedule
  out->schedules.len = a->schedules.len;
  out->schedules.cap = a->schedules.cap;
  out->name = strstr(a->name, b->name) || strlen(a->name) + strlen(b->name) > 96
                  ? a->name
                  : dt__arena_printf(program->arena, "%s_%s", a->name, b->name);
  return out->name ? dt__symenv_status(program->env) : DT_NO_MEMORY();
}

static dt_status_t count_all_loads(dt_program_t *program, uint32_t **out) {
  *out = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  if (!*out)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (dt__inst_reads(&stage->insts.items[i]).id)
          (*out)[stage->insts.items[i].buffer.id - 1]++;
    }
  dt__count_items(program, *out);
  return NULL;
}

static dt_status_t join_pair(join_t *join, uint32_t ai, uint32_t bi) {
  dt_program_t *program = join->program;
  dt_kernel_t joined;
  uint32_t n_fixed = is_template(join->a) ? 1 : 0;
  DT_LOG(DT_LOG_FUSION, 1, "%s and %s become one kernel", join->a->name, join->b->name);
  DT_TRY(build(join, &joined));
  program->kernels.items[bi] = joined;
  for (uint32_t k = ai; k + 1 < program->kernels.len; k++)
    program->kernels.items[k] = program->kernels.items[k + 1];
  program->kernels.len--;
  uint32_t *loads = NULL;
  DT_TRY(count_all_loads(program, &loads));
  DT_TRY(dt__merge_stages(program, &program->kernels.items[bi - 1], n_fixed, loads));
  return dt__sort_kernels(program);
}

// The first pair that may be joined: producers of each kernel first, then neighbours.
static bool next_pair(join_t *join, uint32_t *out_a, uint32_t *out_b) {
  for (int vertical = 1; vertical >= 0; vertical--)
    for (uint32_t b = 1; b < join->program->kernels.len; b++)
      for (uint32_t a = b; a-- > 0;) {
        const uint64_t *reads = &join->access.reads[(size_t)b * join->access.words];
        if (((reads[a / 64] >> (a % 64)) & 1) != (uint64_t)vertical)
          continue;
        const char *why = refusal(join, a, b);
        if (!why) {
          *out_a = a;
          *out_b = b;
          return true;
        }
        if (vertical)
          DT_LOG(DT_LOG_FUSION, 2, "%s | %s: %s", join->a->name, join->b->name, why);
      }
  return false;
}

dt_status_t dt__fuse_stages(dt_program_t *program, const dt_target_t *target) {
  DT_TRY(dt__fuse_prune(program, target));
  DT_TRY(dt__merge_columns(program));
  for (;;) {
    join_t join = {.program = program};
    uint32_t a = 0, b = 0;
    DT_TRY(dt__access_build(program, &join.access));
    DT_TRY(dt__find_constant(program, &join.access, &join.constant));
    DT_TRY(dt__find_segments(program, &join.segment, NULL));
    if (!next_pair(&join, &a, &b))
      break;
    DT_TRY(join_pair(&join, a, b));
  }
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    uint32_t *loads = NULL;
    DT_TRY(count_all_loads(program, &loads));
    DT_TRY(dt__merge_localise(program, &program->kernels.items[k], loads));
  }
  return dt__symenv_status(program->env);
}

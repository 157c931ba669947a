// SPDX-License-Identifier: Apache-2.0
// Which chains of product, rows, product keep their scores in registers, and where their operands
// stand in shared memory.
#include "backend_cuda/emit/chain_scores.h"
#include "fuse/attention.h"

#define SUMS_PAD 32 // bytes, after rows of sums: stores of pairs then meet no bank twice
#define ALWAYS 128  // columns that there is always room for

// ---- Form -----------------------------------------------------------------------------------------
static bool has_binds(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND || stage->insts.items[i].kind == DT_INST_SEARCH)
      return true;
  return false;
}

static dt_buffer_kind_t kind_of(const dt_program_t *program, dt_buffer_id_t id) {
  return dt__program_buffer(program, id)->kind;
}

static bool at_own_place(const dt_program_t *program, const dt_stage_t *stage, dt_buffer_id_t id,
                         const dt_sym_t *index, uint32_t mask) {
  return mask == DT_NO_INST &&
         index[dt__program_buffer(program, id)->rank - 1].id == stage->vars[0].id;
}

static bool moves_with(const dt_program_t *program, dt_sym_t e, dt_sym_t var) {
  uint32_t symbols[64], own = 0;
  uint32_t n = dt__sym_symbols(program->env, e, symbols, 64);
  bool known = dt__sym_is_symbol(program->env, var, &own) && n <= 64;
  for (uint32_t i = 0; i < n && known; i++)
    if (symbols[i] == own)
      return true;
  return !known;
}

static bool walks_loads(dt_scores_t *s, const dt_program_t *program, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    dt_buffer_id_t id = dt__inst_reads(inst);
    if (!id.id)
      continue;
    dt_buffer_kind_t kind = kind_of(program, id);
    bool own = kind == DT_BUFFER_LOCAL || id.id == s->made.id;
    if (own && !at_own_place(program, stage, id, inst->index, inst->mask))
      return false;
    if (!own && kind == DT_BUFFER_SLAB)
      return false;
    for (uint32_t d = 0; d < dt__program_buffer(program, id)->rank && !own; d++)
      if (moves_with(program, inst->index[d], stage->vars[0]))
        s->open = false;
    if (!own && inst->mask != DT_NO_INST)
      s->open = false;
  }
  return true;
}

static bool walks_stage(dt_scores_t *s, const dt_program_t *program, const dt_stage_t *stage) {
  dt_buffer_id_t weights = s->weights;
  if (stage->n_loops != 1 || has_binds(stage) ||
      stage->extents[0].id != s->score->extents[s->score->n_loops - 1].id ||
      !walks_loads(s, program, stage))
    return false;
  for (uint32_t i = 0; i < stage->stores.len; i++) {
    const dt_store_t *store = &stage->stores.items[i];
    bool local = kind_of(program, store->buffer) == DT_BUFFER_LOCAL;
    if ((!local && store->buffer.id != weights.id) ||
        !at_own_place(program, stage, store->buffer, store->index, store->mask))
      return false;
  }
  for (uint32_t i = 0; i < stage->reductions.len; i++) {
    const dt_reduction_t *reduction = &stage->reductions.items[i];
    if (dt__reduction_is_arg(reduction->kind) || reduction->dtype != DT_F32 ||
        stage->insts.items[reduction->value].dtype != DT_F32)
      return false;
  }
  s->n_reductions += stage->reductions.len;
  return true;
}

static bool copies_fit(const dt_scores_t *s) {
  const dt_operand_t *q = &s->score_plan.a, *k = &s->score_plan.b, *v = &s->head_plan.b;
  return s->score_plan.tensor && s->head_plan.tensor && q->copy == DT_COPY_UNITS && q->along_k &&
         k->copy == DT_COPY_UNITS && k->along_k && s->head_plan.a.copy == DT_COPY_NONE &&
         v->copy == DT_COPY_UNITS && !v->along_k && s->schedules[2]->lanes == LANES;
}

bool dt__scores_form(dt_scores_t *s, dt_program_t *program, dt_kernel_chain_t chain,
                     uint32_t schedule, bool strict) {
  if (chain.end - chain.first != MEMBERS)
    return false;
  const dt_kernel_t *kernels = &program->kernels.items[chain.first];
  *s = (dt_scores_t){.score = &kernels[0], .rows = &kernels[1], .head = &kernels[2], .open = true};
  for (uint32_t i = 0; i < MEMBERS; i++)
    s->schedules[i] = &kernels[i].schedules.items[schedule];
  if (s->schedules[0]->kind != DT_SCHEDULE_TEAM_MATMUL ||
      s->schedules[1]->kind != DT_SCHEDULE_INNER_LANES || strict)
    return false;
  dt_status_t status = dt__matmul_plan(program, s->score, s->schedules[0], strict, &s->score_plan);
  if (!status)
    status = dt__matmul_plan(program, s->head, s->schedules[2], strict, &s->head_plan);
  if (status) {
    dt_status_free(status); // whoever plans the members for good says so
    return false;
  }
  const dt_stage_t *last = &s->head->stages.items[0];
  s->weights = last->insts.items[s->head_plan.a.load].buffer;
  dt_attention_t products;
  if (!copies_fit(s) ||
      !dt__attention_products(program, s->score, s->head, s->head_plan.b.extent, &products))
    return false;
  s->made = products.scores;
  s->depth = products.depth;
  s->cols = products.cols;
  for (uint32_t i = 0; i < s->rows->stages.len; i++)
    if (!walks_stage(s, program, &s->rows->stages.items[i]))
      return false;
  uint32_t blocks = s->schedules[2]->team_matmul.tile_rows / BLOCK;
  s->warps_m = blocks < MOST_ROWS ? blocks : MOST_ROWS;
  s->steps = blocks / s->warps_m;
  s->warps_n = DT_CHAIN_WARPS / s->warps_m;
  return true;
}

// ---- Layout ---------------------------------------------------------------------------------------
uint32_t dt__scores_units(uint32_t elements) {
  uint32_t units = 1;
  while (units * UNIT < elements || units * UNIT < BLOCK)
    units *= 2;
  return units;
}

void dt__scores_lay_out(dt_scores_t *s, uint32_t vectors) {
  uint32_t tall = s->warps_m * BLOCK, all = tall * s->steps;
  s->vectors = vectors;
  s->row_pitch = dt__attention_pitch(s->depth);
  s->col_pitch = dt__attention_pitch(s->cols);
  s->sums_pitch = fragments_in(s->cols) * BLOCK * WORD + SUMS_PAD;
  s->k_at = all * s->row_pitch;
  uint32_t front = s->k_at + columns_of(s) * s->row_pitch;
  uint32_t sums = tall * s->warps_n * s->sums_pitch;
  s->sums_at = s->steps > 1 ? front : 0; // in the place of Q and K where these are done with
  s->v_at = front > s->sums_at + sums ? front : s->sums_at + sums;
  s->parts_at = s->v_at + columns_of(s) * s->col_pitch;
  s->bytes = s->parts_at + s->n_reductions * tall * s->warps_n * WORD;
}

// Vectors of rows of ALWAYS columns.
uint32_t dt__scores_usual_vectors(const dt_scores_t *s) {
  uint32_t vectors = ALWAYS / BLOCK / s->warps_n;
  return vectors ? vectors : 1;
}

uint32_t dt__scores_most_vectors(const dt_scores_t *s) {
  uint32_t vectors = 2 * dt__scores_usual_vectors(s);
  return vectors < MOST_VECTORS ? vectors : MOST_VECTORS;
}

uint32_t dt__chain_scores_bytes(dt_program_t *program, bool strict, dt_cuda_chain_t *chain) {
  dt_scores_t s;
  if (!dt__scores_form(&s, program, chain->kernels, chain->schedule, strict))
    return 0;
  chain->bare = s.warps_m == MOST_ROWS; // only rows of usual length have such tiles
  chain->covered = s.open ? dt__scores_most_vectors(&s) * BLOCK * s.warps_n : 0;
  dt__scores_lay_out(&s, dt__scores_usual_vectors(&s));
  uint32_t slabs =
      2 * s.steps * s.warps_m * BLOCK * (DT_SLAB_UNIT + PAD); // are there, and not used
  return s.bytes > slabs ? s.bytes - slabs : 64;
}

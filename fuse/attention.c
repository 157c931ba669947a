// SPDX-License-Identifier: Apache-2.0
// See attention.h. A softmax is what lowering makes of one:
//
//   stage over the row:  r0 = max of x
//   stage over the row:  e = exp(x - r0), kept or not; r1 = sum of e
//   stage over the row:  store e * (1 / r1), or e / r1, as a half
//
// with x an element of the scores, cast to f32, or one of f32 rounded to a half before. Blocks of a
// row can then be made one after another, with what is summed so far brought to the new maximum
// (online softmax: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao
// et al., "FlashAttention", 2022).
#include "fuse/attention.h"

#include "fuse/body.h"
#include "runtime/base/dtype.h"

#define MEMBERS 3
#define STAGES 3
#define UNIT 8 // halves of 16 bytes

static const dt_inst_t *inst_of(const dt_stage_t *stage, uint32_t id) {
  return id == DT_NO_INST ? NULL : &stage->insts.items[id];
}

static const dt_inst_t *scalar_of(const dt_stage_t *stage, uint32_t id, dt_scalar_op_t op) {
  const dt_inst_t *inst = inst_of(stage, id);
  return inst && inst->kind == DT_INST_SCALAR && inst->op == op ? inst : NULL;
}

static bool is_row(const dt_stage_t *stage, uint32_t id, uint32_t row) {
  const dt_inst_t *inst = inst_of(stage, id);
  return inst && inst->kind == DT_INST_ROW && inst->row == row;
}

// An element of the buffer at the stage's place in the row, cast to f32 where it is none, or
// rounded to *round (F32: not) and cast back.
static bool is_element(const dt_program_t *program, const dt_stage_t *stage, uint32_t id,
                       dt_buffer_id_t of, dt_dtype_t *round) {
  const dt_inst_t *inst = inst_of(stage, id);
  *round = DT_F32;
  if (inst && inst->kind == DT_INST_CAST && inst->dtype == DT_F32)
    inst = inst_of(stage, inst->args[0]);
  if (inst && inst->kind == DT_INST_CAST && dt__dtype_is_half(inst->dtype)) {
    *round = inst->dtype;
    inst = inst_of(stage, inst->args[0]);
    if (!inst || inst->dtype != DT_F32)
      return false;
  }
  return inst && inst->kind == DT_INST_LOAD && inst->buffer.id == of.id &&
         inst->mask == DT_NO_INST && inst->args[0] == DT_NO_INST &&
         inst->index[dt__program_buffer(program, of)->rank - 1].id == stage->vars[0].id;
}

static bool is_exp(const dt_program_t *program, const dt_stage_t *stage, uint32_t id,
                   const dt_attention_t *a, uint32_t max) {
  dt_dtype_t round = DT_F32;
  const dt_inst_t *exp = scalar_of(stage, id, DT_SCALAR_exp);
  const dt_inst_t *sub = exp ? scalar_of(stage, exp->args[0], DT_SCALAR_sub) : NULL;
  return sub && is_element(program, stage, sub->args[0], a->scores, &round) && round == a->round &&
         is_row(stage, sub->args[1], max);
}

static bool reduces(const dt_stage_t *stage, dt_reduction_kind_t kind) {
  return stage->reductions.len == 1 && stage->reductions.items[0].kind == kind &&
         stage->reductions.items[0].dtype == DT_F32;
}

// What the last stage stores: the exponential over the sum, as a half.
static bool stores_weights(const dt_program_t *program, const dt_stage_t *stage,
                           const dt_attention_t *a, dt_buffer_id_t kept, uint32_t max,
                           uint32_t sum) {
  if (stage->reductions.len || stage->stores.len != 1)
    return false;
  const dt_store_t *store = &stage->stores.items[0];
  const dt_inst_t *cast = inst_of(stage, store->value);
  if (store->buffer.id != a->weights.id || store->mask != DT_NO_INST ||
      store->index[dt__program_buffer(program, a->weights)->rank - 1].id != stage->vars[0].id ||
      cast->kind != DT_INST_CAST || !dt__dtype_is_half(cast->dtype))
    return false;
  const dt_inst_t *mul = scalar_of(stage, cast->args[0], DT_SCALAR_mul);
  const dt_inst_t *div = scalar_of(stage, cast->args[0], DT_SCALAR_div);
  if (!mul && !div)
    return false;
  uint32_t e = (mul ? mul : div)->args[0], by = (mul ? mul : div)->args[1];
  const dt_inst_t *one = mul ? scalar_of(stage, by, DT_SCALAR_reciprocal) : NULL;
  dt_dtype_t round = DT_F32;
  bool made = is_exp(program, stage, e, a, max) ||
              (kept.id && is_element(program, stage, e, kept, &round) && round == DT_F32);
  return made && (mul ? one && is_row(stage, one->args[0], sum) : is_row(stage, by, sum));
}

static bool is_softmax(const dt_program_t *program, dt_attention_t *a) {
  const dt_kernel_t *rows = a->rows;
  if (rows->stages.len != STAGES)
    return false;
  const dt_stage_t *stages = rows->stages.items;
  for (uint32_t s = 0; s < STAGES; s++)
    if (stages[s].n_loops != 1 ||
        stages[s].extents[0].id != a->score->extents[a->score->n_loops - 1].id)
      return false;
  if (!reduces(&stages[0], DT_REDUCE_MAX) || stages[0].stores.len ||
      !reduces(&stages[1], DT_REDUCE_SUM) || stages[1].stores.len > 1)
    return false;
  const dt_reduction_t *max = &stages[0].reductions.items[0];
  const dt_reduction_t *sum = &stages[1].reductions.items[0];
  if (!is_element(program, &stages[0], max->value, a->scores, &a->round) ||
      !is_exp(program, &stages[1], sum->value, a, max->row))
    return false;
  dt_buffer_id_t kept = {0};
  if (stages[1].stores.len) {
    const dt_store_t *store = &stages[1].stores.items[0];
    kept = store->buffer;
    if (dt__program_buffer(program, kept)->kind != DT_BUFFER_LOCAL || store->value != sum->value ||
        store->mask != DT_NO_INST ||
        store->index[dt__program_buffer(program, kept)->rank - 1].id != stages[1].vars[0].id)
      return false;
  }
  return stores_weights(program, &stages[2], a, kept, max->row, sum->row);
}

static bool has_binds(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND || stage->insts.items[i].kind == DT_INST_SEARCH)
      return true;
  return false;
}

// After a product: plain values, elements stored.
static bool follows_plainly(const dt_program_t *program, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    if (has_binds(stage) || (s && (stage->n_loops || stage->reductions.len)))
      return false;
  }
  return !dt__kernel_has_locals(program, kernel);
}

// What is passed on from one member to the next, and to nobody else where it is what one stores.
static bool is_between(const dt_buffer_t *buffer) {
  return buffer->kind == DT_BUFFER_SLAB || buffer->kind == DT_BUFFER_TEMP;
}

// The only store of the product that makes scores.
static bool stores_scores(const dt_program_t *program, const dt_kernel_t *score,
                          dt_attention_t *a) {
  uint32_t n = 0;
  for (uint32_t i = 1; i < score->stages.len; i++) {
    const dt_stage_t *stage = &score->stages.items[i];
    for (uint32_t j = 0; j < stage->stores.len; j++, n++) {
      const dt_store_t *store = &stage->stores.items[j];
      a->scores = store->buffer;
      if (!is_between(dt__program_buffer(program, a->scores)) || store->mask != DT_NO_INST)
        return false;
    }
  }
  return n == 1;
}

static bool has_size(const dt_program_t *program, dt_sym_t extent, uint32_t *out) {
  int64_t n = 0;
  if (!dt__sym_is_const(program->env, extent, &n) || n < 1 || n > DT_ATTENTION_MOST || n % UNIT)
    return false;
  *out = (uint32_t)n;
  return true;
}

bool dt__attention_products(const dt_program_t *program, const dt_kernel_t *score,
                            const dt_kernel_t *head, dt_sym_t cols, dt_attention_t *out) {
  return stores_scores(program, score, out) && follows_plainly(program, score) &&
         follows_plainly(program, head) &&
         has_size(program, score->stages.items[0].extents[0], &out->depth) &&
         has_size(program, cols, &out->cols);
}

// Whether the load moves by steps along `outer`, and to its neighbour along `inner`.
static bool walks(dt_program_t *program, const dt_inst_t *load, dt_sym_t outer, dt_sym_t inner) {
  dt_sym_t offset = dt__buffer_offset(program, load->buffer, load->index), coef, rest;
  int64_t step = 0;
  return load->mask == DT_NO_INST && load->args[0] == DT_NO_INST &&
         dt__sym_linear(program->env, offset, inner, &coef, &rest) &&
         dt__sym_is_const(program->env, coef, &step) && step == 1 &&
         dt__sym_linear(program->env, rest, outer, &coef, &rest);
}

static bool is_of_halves(const dt_contraction_t *c) {
  dt_dtype_t a = c->stage->insts.items[c->a].dtype, b = c->stage->insts.items[c->b].dtype;
  return a == b && dt__dtype_is_half(a) && c->stage->reductions.items[0].dtype == DT_F32;
}

bool dt__attention_of(dt_program_t *program, dt_kernel_t *const kernels[3], dt_attention_t *out) {
  *out = (dt_attention_t){.score = kernels[0], .rows = kernels[1], .head = kernels[2]};
  if (!dt__contraction_roles(program, kernels[0], &out->first, NULL) ||
      !dt__contraction_roles(program, kernels[2], &out->second, NULL) ||
      !is_of_halves(&out->first) || !is_of_halves(&out->second) ||
      !dt__attention_products(program, out->score, out->head, out->second.extent_n, out))
    return false;
  const dt_inst_t *first = out->first.stage->insts.items;
  const dt_inst_t *second = out->second.stage->insts.items, *w = &second[out->second.a];
  out->weights = w->buffer;
  const dt_buffer_t *between = dt__program_buffer(program, out->weights);
  if (!is_between(between) || w->mask != DT_NO_INST ||
      w->index[between->rank - 1].id != out->second.k.id ||
      out->second.extent_k.id != kernels[0]->extents[kernels[0]->n_loops - 1].id)
    return false;
  return walks(program, &first[out->first.a], out->first.m, out->first.k) &&
         walks(program, &first[out->first.b], out->first.n, out->first.k) &&
         walks(program, &second[out->second.b], out->second.k, out->second.n) &&
         is_softmax(program, out);
}

bool dt__chain_attention(dt_program_t *program, dt_kernel_chain_t chain, dt_attention_t *out) {
  dt_kernel_t *first = &program->kernels.items[chain.first];
  dt_kernel_t *kernels[MEMBERS] = {first, first + 1, first + 2};
  return chain.end - chain.first == MEMBERS && dt__attention_of(program, kernels, out);
}

uint32_t dt__attention_ring(uint32_t depth, uint32_t cols, int64_t bytes) {
  uint32_t ring = DT_ATTENTION_RING;
  while (ring > 1 && dt__attention_shares_bytes(depth, cols, ring) > bytes)
    ring--;
  return ring > 1 ? ring : 0;
}

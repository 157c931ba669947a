// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/guards_random.h"

#include "runtime/base/dtype.h"

#include <string.h>

// ---- Chance ---------------------------------------------------------------------------------------
bool fuzz_chance(rng_t *rng, uint32_t percent) { return rng_next(rng) % 100 < percent; }

static int64_t literal_value(rng_t *rng) {
  static const int64_t odd[] = {INT64_MIN, INT64_MIN + 1,   -1, INT32_MAX, 1 << 20,
                                INT64_MAX, (int64_t)1 << 46};
  if (fuzz_chance(rng, 6))
    return odd[rng_between(rng, 0, 6)];
  return rng_between(rng, 0, 9);
}

// ---- Signatures -----------------------------------------------------------------------------------
void fuzz_signature(rng_t *rng, fuzz_signature_t *out) {
  static const dt_dtype_t floats[] = {DT_F32, DT_U8, DT_F64, DT_I16};
  static const dt_dtype_t integers[] = {DT_I64, DT_I32, DT_BOOL, DT_U64, DT_I8, DT_U16};
  memset(out, 0, sizeof(*out));
  out->n_inputs = (uint32_t)rng_between(rng, 1, FUZZ_MAX_INPUTS);
  out->n_captures = fuzz_chance(rng, 30) ? (uint32_t)rng_between(rng, 1, FUZZ_MAX_CAPTURES) : 0;
  out->updates = fuzz_chance(rng, 25);
  out->modes = fuzz_chance(rng, 25);
  for (uint32_t k = 0; k < out->n_inputs; k++) {
    out->inputs[k].is_int = fuzz_chance(rng, 25);
    if (out->inputs[k].is_int) {
      out->inputs[k].dtype = integers[rng_between(rng, 0, 5)];
      out->inputs[k].contiguous = true;
      continue;
    }
    out->inputs[k].dtype = floats[rng_between(rng, 0, 3)];
    out->inputs[k].rank = (uint32_t)rng_between(rng, 0, 3);
    out->inputs[k].contiguous = fuzz_chance(rng, 70);
  }
}

// ---- Programs -------------------------------------------------------------------------------------
typedef struct maker_t {
  rng_t *rng;
  dt_symenv_t *env;
  dt_sym_t symbols[FUZZ_MAX_SYMBOLS];
  uint32_t n;
} maker_t;

static dt_sym_t some_literal(maker_t *m) { return dt__sym_const(m->env, literal_value(m->rng)); }

static dt_sym_t some_symbol(maker_t *m) {
  if (m->n == 0)
    return some_literal(m);
  return m->symbols[rng_between(m->rng, 0, m->n - 1)];
}

static dt_sym_t new_symbol(maker_t *m, bool size) {
  dt_range_t range = size ? (dt_range_t){0, DT_SIZE_LIMIT - 1} : (dt_range_t){INT64_MIN, INT64_MAX};
  if (fuzz_chance(m->rng, 25))
    range.lo = rng_between(m->rng, 0, 3);
  if (fuzz_chance(m->rng, 25))
    range.hi = rng_between(m->rng, 3, 9);
  dt_sym_t symbol = dt__sym_new(m->env, size ? DT_SYMBOL_SIZE : DT_SYMBOL_INT, range, NULL, "");
  if (m->n < FUZZ_MAX_SYMBOLS)
    m->symbols[m->n++] = symbol;
  return symbol;
}

static dt_sym_t some_number(maker_t *m, uint32_t depth) {
  dt_symenv_t *env = m->env;
  if (depth == 0 || fuzz_chance(m->rng, 20))
    return fuzz_chance(m->rng, 70) ? some_symbol(m) : some_literal(m);
  dt_sym_t a = some_number(m, depth - 1), b = some_number(m, depth - 1);
  switch (rng_between(m->rng, 0, 8)) {
  case 0:
  case 1:
    return dt__sym_add(env, a, b);
  case 2:
    return dt__sym_sub(env, a, b);
  case 3:
  case 4:
    return dt__sym_mul(env, a, b);
  case 5:
    return dt__sym_floordiv(env, a, b);
  case 6:
    return dt__sym_mod(env, a, b);
  case 7:
    return fuzz_chance(m->rng, 50) ? dt__sym_min(env, a, b) : dt__sym_max(env, a, b);
  default:
    return dt__sym_select(env, dt__sym_lt(env, a, b), b, some_symbol(m));
  }
}

static dt_sym_t some_comparison(maker_t *m, dt_sym_t a, dt_sym_t b) {
  switch (rng_between(m->rng, 0, 3)) {
  case 0:
    return dt__sym_eq(m->env, a, b);
  case 1:
    return dt__sym_ne(m->env, a, b);
  case 2:
    return dt__sym_lt(m->env, a, b);
  default:
    return dt__sym_le(m->env, a, b);
  }
}

static dt_sym_t some_condition(maker_t *m, uint32_t depth) {
  dt_symenv_t *env = m->env;
  switch (rng_between(m->rng, 0, depth ? 8 : 5)) {
  case 0:
  case 1:
    return some_comparison(m, some_symbol(m), some_literal(m));
  case 2:
    return some_comparison(m, some_literal(m), some_symbol(m));
  case 3: {
    dt_sym_t by = dt__sym_const(env, rng_between(m->rng, 1, 6));
    dt_sym_t rest = dt__sym_const(env, rng_between(m->rng, 0, 4));
    return dt__sym_eq(env, dt__sym_mod(env, some_symbol(m), by), rest);
  }
  case 4:
    return some_comparison(m, some_symbol(m), some_symbol(m));
  case 5:
    return some_comparison(m, some_number(m, 2), some_number(m, 2));
  case 6:
    return dt__sym_or(env, some_condition(m, depth - 1), some_condition(m, depth - 1));
  case 7:
    return dt__sym_and(env, some_condition(m, depth - 1), some_condition(m, depth - 1));
  default:
    return dt__sym_not(env, some_condition(m, depth - 1));
  }
}

// A size, stride or value: mostly a symbol, so that later ones have something to be made of.
static dt_sym_t some_place(maker_t *m, bool size) {
  int64_t what = rng_between(m->rng, 0, 9);
  if (what < 5 || m->n == 0)
    return new_symbol(m, size);
  if (what < 7)
    return some_symbol(m);
  if (what < 9)
    return dt__sym_const(m->env, rng_between(m->rng, 0, 6));
  return some_number(m, 2);
}

static dt_graph_input_t some_input(maker_t *m, const fuzz_signature_t *s, uint32_t k) {
  dt_graph_input_t input = {.name = "",
                            .dtype = s->inputs[k].dtype,
                            .rank = s->inputs[k].rank,
                            .contiguous = s->inputs[k].contiguous,
                            .is_int = s->inputs[k].is_int};
  if (fuzz_chance(m->rng, 4))
    input.dtype = input.is_int ? DT_I64 : DT_U8;
  if (fuzz_chance(m->rng, 4) && !input.is_int)
    input.rank = (input.rank + 1) % 4;
  if (fuzz_chance(m->rng, 5) && !input.is_int)
    input.contiguous = !input.contiguous;
  if (fuzz_chance(m->rng, 15))
    input.align = 1u << rng_between(m->rng, 0, 6);
  if (input.is_int)
    input.value = some_place(m, false);
  for (uint32_t d = 0; d < input.rank; d++)
    input.sizes[d] = some_place(m, true);
  dt_sym_t stride = dt__sym_const(m->env, 1);
  for (uint32_t d = input.rank; d-- > 0;) {
    input.strides[d] = stride;
    stride = dt__sym_mul(m->env, stride, input.sizes[d]);
    if (!input.contiguous && fuzz_chance(m->rng, 50))
      input.strides[d] = some_place(m, false);
  }
  return input;
}

static dt_status_t make_guards(maker_t *m, const fuzz_signature_t *s, fuzz_variant_t *v) {
  dt_guard_cond_t conds[8];
  uint32_t n = (uint32_t)rng_between(m->rng, 0, 6), shared[FUZZ_MAX_INPUTS];
  uint32_t kept = 0;
  for (uint32_t k = 0; k < n; k++) {
    dt_sym_t cond = some_condition(m, 2);
    if (cond.id)
      conds[kept++] = (dt_guard_cond_t){.cond = cond, .origin = {"fuzz", "fuzz.c", (int)k}};
  }
  for (uint32_t k = 0; k < s->n_inputs; k++) {
    shared[k] = k;
    if (k && fuzz_chance(m->rng, 20)) {
      uint32_t first = (uint32_t)rng_between(m->rng, 0, k - 1);
      shared[k] = shared[first];
    }
  }
  dt_guard_context_t context = {.shared = fuzz_chance(m->rng, 80) ? shared : NULL};
  if (s->modes && fuzz_chance(m->rng, 80)) {
    context.modes_mask = (uint64_t)rng_between(m->rng, 0, 7);
    context.modes = (uint64_t)rng_between(m->rng, 0, 7) & context.modes_mask;
  }
  // A builder may have failed on a literal that overflows: such an environment says so for ever.
  return dt__guards_create(v->graph, conds, kept, &context, &v->guards);
}

dt_status_t fuzz_variant_init(rng_t *rng, const fuzz_signature_t *s, fuzz_variant_t *v) {
  memset(v, 0, sizeof(*v));
  dt__arena_init(&v->arena, 4096);
  DT_TRY(dt__symenv_create(&v->env));
  v->graph = dt__graph_create(&v->arena, v->env);
  if (!v->graph)
    return DT_NO_MEMORY();
  maker_t m = {.rng = rng, .env = v->env};
  for (uint32_t k = 0; k < s->n_inputs; k++) {
    dt_graph_input_t input = some_input(&m, s, k);
    dt_node_id_t id;
    DT_TRY(dt__graph_add_input(v->graph, &input, &id));
    if (s->updates && fuzz_chance(rng, 40) &&
        !DT_VEC_PUSH(&v->arena, &v->graph->updates, ((dt_graph_update_t){k, id})))
      return DT_NO_MEMORY();
  }
  for (uint32_t k = 0; k < s->n_captures; k++) {
    dt_graph_capture_t capture = {.name = "c", .value = some_place(&m, false)};
    if (!DT_VEC_PUSH(&v->arena, &v->graph->captures, capture))
      return DT_NO_MEMORY();
  }
  DT_TRY(dt__symenv_status(v->env));
  return make_guards(&m, s, v);
}

void fuzz_variant_fini(fuzz_variant_t *v) {
  dt__guards_destroy(v->guards);
  dt__symenv_destroy(v->env);
  dt__arena_fini(&v->arena);
  memset(v, 0, sizeof(*v));
}

// ---- Arguments ------------------------------------------------------------------------------------
static _Alignas(64) char memory[FUZZ_MAX_INPUTS + 1][256];

typedef struct values_t {
  int64_t of[FUZZ_MAX_SYMBOLS];
} values_t;

static int64_t value_of(rng_t *rng, const fuzz_variant_t *v, const values_t *values, dt_sym_t e,
                        int64_t otherwise) {
  int64_t value = otherwise;
  if (!e.id || dt__symenv_symbol_count(v->env) > FUZZ_MAX_SYMBOLS ||
      !dt__sym_eval(v->env, e, values->of, &value))
    return otherwise;
  if (fuzz_chance(rng, 6) && value < INT64_MAX)
    value++;
  return value;
}

static dt_status_t some_integer(rng_t *rng, const dt_graph_input_t *like, dt_dtype_t dtype,
                                int64_t value, uint32_t slot, dt_tensor_t **out) {
  (void)like;
  uint32_t offset = 8 * (uint32_t)rng_between(rng, 0, 3);
  memcpy(memory[slot] + offset, &value, sizeof(value)); // little-endian
  dt_tensor_desc_t desc = {.dtype = dtype, .data = memory[slot] + offset};
  return dt_tensor_create(&desc, out);
}

static dt_status_t some_tensor(rng_t *rng, const fuzz_variant_t *v, const values_t *values,
                               const dt_graph_input_t *like, uint32_t slot, dt_tensor_t **out) {
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
  dt_dtype_t dtype = fuzz_chance(rng, 3) ? DT_I32 : like->dtype;
  uint32_t rank = fuzz_chance(rng, 3) ? (like->rank + 1) % 4 : like->rank;
  bool strided = !like->contiguous || fuzz_chance(rng, 5);
  for (uint32_t d = 0; d < rank; d++) {
    sizes[d] = value_of(rng, v, values, d < like->rank ? like->sizes[d] : DT_SYM_NONE_ID, 2);
    if (sizes[d] < 0 || sizes[d] > 4096)
      sizes[d] = rng_between(rng, 0, 9);
    strides[d] = value_of(rng, v, values, d < like->rank ? like->strides[d] : DT_SYM_NONE_ID, 1);
    if (strides[d] < -4096 || strides[d] > ((int64_t)1 << 20))
      strides[d] = rng_between(rng, -3, 9);
  }
  // Few places, so that arguments often share memory.
  uint32_t block = fuzz_chance(rng, 25) ? FUZZ_MAX_INPUTS : slot;
  uint32_t offset = 8 * (uint32_t)(fuzz_chance(rng, 60) ? 0 : rng_between(rng, 0, 9));
  dt_tensor_desc_t desc = {.dtype = dtype,
                           .rank = rank,
                           .sizes = sizes,
                           .strides = strided ? strides : NULL,
                           .data = memory[block] + offset};
  dt_status_t status = dt_tensor_create(&desc, out);
  if (!status)
    return NULL;
  // Too large a product of sizes, or strides beyond reason: something small instead.
  dt_status_free(status);
  for (uint32_t d = 0; d < rank; d++)
    sizes[d] = rng_between(rng, 0, 4);
  desc.strides = NULL;
  return dt_tensor_create(&desc, out);
}

dt_status_t fuzz_args_init(rng_t *rng, const fuzz_signature_t *s, const fuzz_variant_t *v,
                           fuzz_args_t *out) {
  memset(out, 0, sizeof(*out));
  values_t values;
  for (uint32_t k = 0; k < FUZZ_MAX_SYMBOLS; k++)
    values.of[k] = fuzz_chance(rng, 3) ? literal_value(rng) : rng_between(rng, 0, 9);
  for (uint32_t k = 0; k < s->n_inputs; k++) {
    const dt_graph_input_t *like = &v->graph->inputs.items[k];
    if (like->is_int && !fuzz_chance(rng, 3)) {
      dt_dtype_t dtype = fuzz_chance(rng, 4) ? DT_I8 : like->dtype;
      int64_t value =
          fuzz_chance(rng, 5) ? literal_value(rng) : value_of(rng, v, &values, like->value, 3);
      DT_TRY(some_integer(rng, like, dtype, value, k, &out->inputs[k]));
    } else {
      DT_TRY(some_tensor(rng, v, &values, like, k, &out->inputs[k]));
    }
    if (k && fuzz_chance(rng, 15)) { // the same tensor twice
      dt_tensor_release(out->inputs[k]);
      out->inputs[k] = out->inputs[rng_between(rng, 0, k - 1)];
      dt_tensor_retain(out->inputs[k]);
    }
  }
  for (uint32_t k = 0; k < FUZZ_MAX_CAPTURES; k++) {
    dt_sym_t e = k < v->graph->captures.len ? v->graph->captures.items[k].value : DT_SYM_NONE_ID;
    out->captured[k] = value_of(rng, v, &values, e, literal_value(rng));
  }
  out->args = (dt_guard_args_t){
      .inputs = out->inputs, .captures = out->captured, .modes = rng_next(rng) & 7};
  return NULL;
}

void fuzz_args_fini(fuzz_args_t *args) {
  for (uint32_t k = 0; k < FUZZ_MAX_INPUTS; k++)
    dt_tensor_release(args->inputs[k]);
}

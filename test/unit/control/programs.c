// SPDX-License-Identifier: Apache-2.0
#include "test/unit/control/programs.h"

#include <string.h>

typedef dt_value_t v_t;
enum { X, K, FLAG };

static const dt_dim_decl_t rows_width[] = {{.name = "rows"}, {.name = "width"}};
const dt_input_decl_t control_inputs[3] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = rows_width},
    {.name = "k", .dtype = DT_I64, .rank = 0},
    {.name = "flag", .dtype = DT_BOOL, .rank = 0}};

static v_t f32(dt_trace_t *t, double value) { return dt_scalar(t, DT_F32, value); }
static v_t i64(dt_trace_t *t, double value) { return dt_scalar(t, DT_I64, value); }
static v_t total(dt_trace_t *t, v_t x) { return dt_sum(t, x, 0, NULL, false); }

// in[0] < in[1], two numbers.
static dt_status_t is_less(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[1]);
  return NULL;
}

// ---- cond -----------------------------------------------------------------------------------------
static dt_status_t twice_plus_one(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, dt_mul(t, in[0], f32(t, 2)), f32(t, 1));
  return NULL;
}
static dt_status_t decayed(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_exp(t, dt_neg(t, dt_abs(t, in[0])));
  return NULL;
}
static dt_status_t branch(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  dt_cond(t, in[FLAG], twice_plus_one, decayed, closure, 1, in, 1, out);
  return NULL;
}

// The predicate is computed, and so is what the branches read; the result is read further on.
static dt_status_t normalised(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  v_t most = dt_amax(t, dt_abs(t, in[0]), 1, (int32_t[]){1}, true);
  out[0] = dt_div(t, in[0], dt_add(t, most, f32(t, 1)));
  out[1] = dt_sum(t, in[0], 1, (int32_t[]){1}, false);
  return NULL;
}
static dt_status_t passed_on(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = in[0];
  out[1] = dt_sum(t, dt_mul(t, in[0], in[0]), 1, (int32_t[]){1}, false);
  return NULL;
}
static dt_status_t computed(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t y = dt_sub(t, dt_mul(t, in[X], f32(t, 3)), f32(t, 1));
  v_t pred = dt_gt(t, total(t, dt_cast(t, dt_gt(t, y, f32(t, 0)), DT_I64)), in[K]);
  v_t made[2];
  dt_cond(t, pred, normalised, passed_on, closure, 1, &y, 2, made);
  out[0] = dt_mul(t, dt_softmax(t, made[0], 1), dt_unsqueeze(t, made[1], 1));
  out[1] = dt_add(t, made[0], y);
  out[2] = dt_add(t, made[1], f32(t, 1));
  return NULL;
}

// Outputs swapped, one of them dead, bodies that read what is outside of them.
typedef struct outside_t {
  v_t x, k;
} outside_t;
static dt_status_t swapped(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  out[0] = in[1];
  out[1] = in[0];
  out[2] = dt_add(t, outside->x, dt_cast(t, outside->k, DT_F32));
  return NULL;
}
static dt_status_t straight(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  out[0] = in[0];
  out[1] = in[1];
  out[2] = dt_exp(t, outside->x);
  return NULL;
}
static dt_status_t closures(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  outside_t outside = {in[X], in[K]};
  v_t both[2] = {dt_neg(t, in[X]), dt_mul(t, in[X], in[X])}, made[3];
  dt_cond(t, in[FLAG], swapped, straight, &outside, 2, both, 3, made);
  out[0] = made[0];
  out[1] = dt_sub(t, made[0], made[1]);
  return NULL;
}

// Branches whose results differ in both sizes, and agree in a third; what follows reads them.
static dt_status_t widened(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  dt_sym_t row[2] = {dt_sym_const(t, 1), dt_dim(t, in[0], 1)};
  out[0] = dt_concat(t, 2, (v_t[]){in[0], dt_full(t, DT_F32, -2, 2, row)}, 0);
  out[1] = dt_sum(t, in[0], 1, (int32_t[]){0}, false);
  return NULL;
}
static dt_status_t narrowed(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  dt_sym_t two = dt_sym_const(t, 2);
  v_t x = dt_mul(t, in[0], f32(t, 3));
  out[0] = dt_slice_range(t, x, 1, dt_sym_const(t, 0), two, 1);
  out[1] = dt_amax(t, in[0], 1, (int32_t[]){0}, false);
  return NULL;
}
static dt_status_t resized(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t made[2];
  dt_cond(t, in[FLAG], widened, narrowed, closure, 1, in, 2, made);
  out[0] = dt_add(t, made[0], f32(t, 1));
  out[1] = dt_sum(t, made[0], 1, (int32_t[]){0}, false);
  out[2] = dt_exp(t, made[1]);
  return NULL;
}

// A branch in a branch; literals and indices come out.
static dt_status_t zeros(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  dt_sym_t sizes[2] = {dt_dim(t, in[0], 0), dt_dim(t, in[0], 1)};
  out[0] = dt_full(t, DT_F32, 0.5, 2, sizes);
  return NULL;
}
static dt_status_t columns(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  dt_sym_t sizes[2] = {dt_dim(t, in[0], 0), dt_dim(t, in[0], 1)};
  out[0] = dt_iota(t, DT_F32, 2, sizes, 1);
  return NULL;
}
static dt_status_t inner(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t above = dt_gt(t, in[1], i64(t, 2)), made;
  dt_cond(t, above, zeros, columns, closure, 1, in, 1, &made);
  out[0] = dt_add(t, made, in[0]);
  return NULL;
}
static dt_status_t plain(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)t;
  (void)closure;
  out[0] = in[0];
  return NULL;
}
static dt_status_t nested(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  dt_cond(t, in[FLAG], inner, plain, closure, 2, in, 1, out);
  return NULL;
}

// ---- while ----------------------------------------------------------------------------------------
static dt_status_t halve(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  v_t i = dt_cast(t, in[0], DT_F32);
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  out[2] = dt_add(t, dt_mul(t, in[2], f32(t, 0.5)), i);
  return NULL;
}
static dt_status_t loop(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[K], in[X]};
  dt_while(t, is_less, halve, closure, 3, state, 0, NULL, state);
  out[0] = state[2];
  out[1] = dt_add(t, state[0], i64(t, 100));
  return NULL;
}

// One row a trip takes the place of another, in place; what a trip makes of all rows is kept.
static v_t first_row(dt_trace_t *t, v_t x) {
  return dt_slice_range(t, x, 0, dt_sym_const(t, 0), dt_sym_const(t, 1), 1);
}
static dt_status_t next_row(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  v_t row = dt_add(t, first_row(t, in[4]), dt_cast(t, in[0], DT_F32));
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  out[2] = dt_update_slice(t, in[2], row, in[0], 0, DT_UPDATE_CLAMPED);
  out[3] = dt_add(t, in[3], dt_sum(t, out[2], 1, (int32_t[]){0}, false));
  return NULL;
}
static dt_status_t updating(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[4] = {i64(t, 0), in[K], dt_neg(t, in[X]), dt_sum(t, in[X], 1, (int32_t[]){0}, false)};
  dt_while(t, is_less, next_row, closure, 4, state, 1, &in[X], state);
  out[0] = state[2];
  out[1] = state[3];
  return NULL;
}
// The new row is made of old rows, and the old state is read again after it is made.
static dt_status_t moved_row(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  v_t next = dt_add(t, in[0], i64(t, 1));
  v_t row = dt_mul(t, dt_sum(t, in[2], 1, (int32_t[]){0}, true), f32(t, 0.25));
  out[0] = next;
  out[1] = in[1];
  v_t once = dt_update_slice(t, in[2], dt_add(t, first_row(t, in[2]), first_row(t, row)), in[0], 0,
                             DT_UPDATE_CIRCULAR);
  out[2] = dt_update_slice(t, once, first_row(t, row), next, 0, DT_UPDATE_CIRCULAR);
  out[3] = dt_sub(t, dt_sum(t, in[2], 1, (int32_t[]){0}, false), in[3]);
  return NULL;
}
static dt_status_t moving(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[4] = {i64(t, 0), in[K], in[X], dt_sum(t, in[X], 1, (int32_t[]){0}, false)};
  dt_while(t, is_less, moved_row, closure, 4, state, 0, NULL, state);
  out[0] = state[2];
  out[1] = state[3];
  return NULL;
}

// Rows whose length nobody knows are put in order by a loop.
static dt_status_t ordering(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  v_t places;
  dt_sort(t, in[X], 1, true, &out[0], &out[1]);
  dt_topk(t, dt_round(t, in[X]), dt_sym_min(t, dt_dim(t, in[X], 0), dt_sym_const(t, 3)), 0, false,
          &out[2], &places);
  out[2] = dt_add(t, out[2], dt_cast(t, places, DT_F32));
  return NULL;
}

// State that changes places: what is written must not be read in its new form.
static dt_status_t step(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[2];
  out[2] = dt_add(t, in[1], in[2]);
  return NULL;
}
static dt_status_t below(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[3]);
  return NULL;
}
static dt_status_t exchange(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[X], dt_add(t, in[X], f32(t, 1))};
  dt_while(t, below, step, closure, 3, state, 1, &in[K], state);
  out[0] = state[1];
  out[1] = state[2];
  out[2] = state[0];
  return NULL;
}

// A product and a reduction in the body.
static dt_status_t power_step(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  v_t square = dt_matmul(t, in[3], dt_transpose(t, in[3], 0, 1));
  v_t moved = dt_matmul(t, square, in[1]);
  v_t most = dt_amax(t, dt_abs(t, moved), 0, NULL, false);
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = dt_div(t, moved, dt_add(t, most, f32(t, 1)));
  return NULL;
}
static dt_status_t power_test(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[2]);
  return NULL;
}
static dt_status_t power(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[2] = {i64(t, 0), dt_tanh(t, in[X])}, captured[2] = {in[K], in[X]};
  dt_while(t, power_test, power_step, closure, 2, state, 2, captured, state);
  out[0] = state[1];
  return NULL;
}

// Loops and branches in loops; the inner loop runs as often as the outer one has run.
static dt_status_t grow(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  out[2] = dt_mul(t, in[2], f32(t, 1.25));
  return NULL;
}
static dt_status_t inner_loop(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[0], in[1]};
  dt_while(t, is_less, grow, closure, 3, state, 0, NULL, state);
  out[0] = state[2];
  return NULL;
}
static dt_status_t lowered(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, in[1], dt_mean(t, in[1], 1, (int32_t[]){1}, true));
  return NULL;
}
static dt_status_t outer_step(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t odd = dt_eq(t, dt_mod(t, in[0], i64(t, 2)), i64(t, 1)), both[2] = {in[0], in[2]}, made;
  dt_cond(t, odd, inner_loop, lowered, closure, 2, both, 1, &made);
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  out[2] = dt_add(t, made, f32(t, 0.125));
  return NULL;
}
static dt_status_t loops_in_loops(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[K], in[X]};
  dt_while(t, is_less, outer_step, closure, 3, state, 0, NULL, state);
  out[0] = dt_relu(t, state[2]);
  return NULL;
}

// A loop in one branch alone, and a branch in a test.
static dt_status_t both_below(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t more = dt_lt(t, total(t, dt_cast(t, in[2], DT_I64)), i64(t, 1 << 30));
  dt_cond(t, more, is_less, is_less, closure, 2, in, 1, out);
  return NULL;
}
static dt_status_t looping(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[1], in[0]};
  dt_while(t, both_below, halve, closure, 3, state, 0, NULL, state);
  out[0] = state[2];
  return NULL;
}
static dt_status_t loop_in_branch(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  dt_cond(t, in[FLAG], looping, plain, closure, 2, in, 1, out);
  return NULL;
}

// A number that a loop made is a size, and so is one that a loop is about.
static dt_status_t count_up(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], i64(t, 2));
  out[1] = in[1];
  return NULL;
}
static dt_status_t sized(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[2] = {i64(t, 1), in[K]};
  dt_while(t, is_less, count_up, closure, 2, state, 0, NULL, state);
  dt_sym_t n = dt_item(t, state[0]), sizes[2] = {n, dt_dim(t, in[X], 1)};
  v_t row = dt_sum(t, in[X], 1, (int32_t[]){0}, true);
  v_t next[3] = {i64(t, 0), in[K], dt_expand(t, row, 2, sizes)};
  dt_while(t, is_less, halve, closure, 3, next, 0, NULL, next);
  out[0] = next[2];
  out[1] = dt_add(t, in[X], f32(t, 1));
  return NULL;
}

// Halves as state; a body with checks on data.
static dt_status_t walk(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  v_t row = dt_gather(t, in[4], in[0], 0);
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  out[2] = dt_add(t, in[2], dt_cast(t, row, DT_F16));
  out[3] = dt_logical_not(t, in[3]);
  return NULL;
}
static dt_status_t walk_on(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[1]);
  return NULL;
}
static dt_status_t gathering(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t scaled = dt_cast(t, dt_cast(t, dt_mul(t, in[X], f32(t, 4)), DT_I32), DT_F32);
  dt_sym_t width = dt_dim(t, in[X], 1);
  v_t state[4] = {i64(t, 0), in[K], dt_full(t, DT_F16, 0, 1, &width), in[FLAG]};
  dt_while(t, walk_on, walk, closure, 4, state, 1, &scaled, state);
  out[0] = dt_cast(t, state[2], DT_F32);
  out[1] = dt_cast(t, state[3], DT_I64);
  return NULL;
}

// State that decides about a branch in the same trip in which it changes.
static dt_status_t flip_step(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  out[3] = dt_logical_not(t, in[3]);
  dt_cond(t, in[3], twice_plus_one, decayed, closure, 1, &in[2], 1, &out[2]);
  return NULL;
}
static dt_status_t flipping(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[4] = {i64(t, 0), in[K], in[X], in[FLAG]};
  dt_while(t, is_less, flip_step, closure, 4, state, 0, NULL, state);
  out[0] = state[2];
  out[1] = dt_cast(t, state[3], DT_I64);
  return NULL;
}

// What a loop finds must outlast its first trip, in which much is computed after it was read; what
// constants alone make is made once.
static dt_status_t lasting_step(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  outside_t *outside = closure;
  v_t square = dt_matmul(t, in[2], dt_transpose(t, outside->x, 0, 1));
  v_t rows = dt_softmax(t, square, 1);
  v_t mixed = dt_softmax(t, dt_matmul(t, rows, in[2]), 1);
  v_t again = dt_softmax(t, dt_matmul(t, dt_transpose(t, rows, 0, 1), mixed), 0);
  dt_sym_t eight = dt_sym_const(t, 8), sizes[2] = {eight, eight};
  v_t table = dt_sin(t, dt_iota(t, DT_F32, 2, sizes, 0));
  dt_sym_t wide[2] = {dt_dim(t, in[2], 0), eight};
  v_t few = dt_expand(t, dt_sum(t, again, 1, (int32_t[]){1}, true), 2, wide);
  v_t looked = dt_amax(t, dt_matmul(t, few, table), 1, (int32_t[]){1}, true);
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  out[2] = dt_tanh(t, dt_add(t, dt_add(t, again, mixed), looked));
  return NULL;
}
static dt_status_t lasting(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  outside_t outside = {dt_softmax(t, in[X], 1), in[K]};
  v_t state[3] = {i64(t, 0), in[K], dt_tanh(t, in[X])};
  dt_while(t, is_less, lasting_step, &outside, 3, state, 0, NULL, state);
  out[0] = state[2];
  return NULL;
}

// ---- switch ---------------------------------------------------------------------------------------
static dt_status_t ones(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  dt_sym_t sizes[2] = {dt_dim(t, in[0], 0), dt_dim(t, in[0], 1)};
  out[0] = dt_full(t, DT_F32, 1, 2, sizes);
  return NULL;
}
static dt_status_t choice(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  static const dt_branch_fn_t cases[] = {plain, twice_plus_one, decayed, ones, columns};
  dt_switch(t, in[K], 5, cases, closure, 1, in, 1, out);
  return NULL;
}

// Cases of several results, one with a branch and one with a loop in it; what comes out is read on.
static dt_status_t branching(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  dt_cond(t, in[2], normalised, passed_on, closure, 1, in, 2, out);
  return NULL;
}
static dt_status_t repeating(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[1], in[0]};
  dt_while(t, is_less, halve, closure, 3, state, 0, NULL, state);
  out[0] = state[2];
  out[1] = dt_sum(t, in[0], 1, (int32_t[]){1}, false);
  return NULL;
}
static dt_status_t choices(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  static const dt_branch_fn_t cases[] = {branching, normalised, repeating};
  v_t operands[3] = {dt_mul(t, in[X], f32(t, 0.5)), in[K], in[FLAG]}, made[2];
  v_t index = dt_cast(t, dt_sub(t, in[K], i64(t, 1)), DT_I32);
  dt_switch(t, index, 3, cases, closure, 3, operands, 2, made);
  out[0] = dt_softmax(t, made[0], 1);
  out[1] = dt_add(t, made[1], f32(t, 1));
  return NULL;
}

static dt_status_t lowered_first(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, in[0], dt_mean(t, in[0], 1, (int32_t[]){1}, true));
  return NULL;
}

// A choice a trip, by state that changes in it; one result nobody reads.
static dt_status_t choose_step(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  static const dt_branch_fn_t cases[] = {twice_plus_one, decayed, plain};
  dt_switch(t, dt_mod(t, in[0], i64(t, 3)), 3, cases, closure, 1, &in[2], 1, &out[2]);
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  return NULL;
}
static dt_status_t choosing(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[K], in[X]};
  dt_while(t, is_less, choose_step, closure, 3, state, 0, NULL, state);
  dt_switch(t, in[FLAG], 2, (dt_branch_fn_t[]){plain, lowered_first}, closure, 1, &state[2], 1,
            out);
  return NULL;
}

// Running sums and what data number, behind a loop.
static dt_status_t counting(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[K], in[X]};
  dt_while(t, is_less, choose_step, closure, 3, state, 0, NULL, state);
  v_t positive = dt_gt(t, state[2], f32(t, 0)), all = dt_cumsum(t, state[2], 1, 0);
  out[0] = dt_add(t, all, f32(t, 1));
  out[1] = dt_sum(t, dt_masked_select(t, all, positive), 0, NULL, false);
  return NULL;
}

// ---- subgraphs ------------------------------------------------------------------------------------
// What it reads of the outside is what it was at the first call.
static dt_status_t layer(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  const v_t *outside = closure;
  v_t y = dt_softmax(t, dt_mul(t, in[0], dt_unsqueeze(t, in[1], 1)), 1);
  out[0] = dt_add(t, dt_mul(t, in[0], f32(t, 0.5)), dt_sub(t, y, *outside));
  out[1] = dt_sum(t, dt_abs(t, out[0]), 1, (int32_t[]){1}, false);
  return NULL;
}
// Literals of several values, then the results of calls; the first call reads arguments.
static dt_status_t layers(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  dt_sym_t rows = dt_dim(t, in[X], 0);
  v_t outside = dt_cast(t, in[K], DT_F32), state[2];
  (void)closure;
  state[0] = in[X];
  state[1] = dt_full(t, DT_F32, 2, 1, &rows);
  for (int k = 0; k < 5; k++)
    dt_subgraph(t, layer, &outside, 2, state, 2, 0, state);
  v_t other[2] = {state[0], dt_full(t, DT_F32, 3, 1, &rows)};
  dt_subgraph(t, layer, &outside, 2, other, 2, 0, other);
  out[0] = state[0];
  out[1] = other[1];
  out[2] = dt_add(t, other[0], f32(t, 1));
  return NULL;
}

// Views of operands and an operand come out, which the program gives back or goes on with.
static dt_status_t views(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_transpose(t, in[0], 0, 1);
  out[1] = in[0];
  out[2] = dt_exp(t, dt_neg(t, dt_abs(t, in[0])));
  out[3] = dt_transpose(t, out[2], 0, 1);
  return NULL;
}
static dt_status_t turning(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t one[4], other[4], y = dt_add(t, in[X], f32(t, 1));
  dt_subgraph(t, views, closure, 1, &in[X], 4, 0, one);
  dt_subgraph(t, views, closure, 1, &one[3], 4, 0, other);
  dt_subgraph(t, views, closure, 1, &y, 4, 0, one);
  out[0] = other[0];
  out[1] = one[1];
  out[2] = dt_add(t, dt_mul(t, one[0], other[2]), one[3]);
  return NULL;
}

// Calls in calls, in branches and in loops, around branches and loops.
static dt_status_t stepped(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[1], in[0]};
  dt_while(t, is_less, choose_step, closure, 3, state, 0, NULL, state);
  dt_cond(t, in[2], twice_plus_one, decayed, closure, 1, &state[2], 1, out);
  return NULL;
}
static dt_status_t two_steps(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {in[0], in[1], in[2]};
  dt_subgraph(t, stepped, closure, 3, state, 1, 0, state);
  dt_subgraph(t, stepped, closure, 3, state, 1, 0, out);
  return NULL;
}
static dt_status_t trip_of_calls(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {in[2], in[0], dt_ge(t, in[0], i64(t, 1))};
  dt_subgraph(t, two_steps, closure, 3, state, 1, 0, &out[2]);
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = in[1];
  return NULL;
}
static dt_status_t calls_in_calls(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  v_t state[3] = {i64(t, 0), in[K], in[X]};
  dt_while(t, is_less, trip_of_calls, closure, 3, state, 0, NULL, state);
  v_t again[3] = {dt_mul(t, state[2], f32(t, 0.25)), in[K], in[FLAG]};
  dt_subgraph(t, two_steps, closure, 3, again, 1, 0, again);
  dt_subgraph(t, two_steps, closure, 3, again, 1, 0, &out[0]);
  dt_cond(t, in[FLAG], lowered_first, plain, closure, 1, again, 1, &out[1]);
  return NULL;
}

const control_program_t control_programs[] = {
    {"branch", branch, 1},
    {"computed", computed, 3},
    {"closures", closures, 2},
    {"resized", resized, 3},
    {"nested", nested, 1},
    {"loop", loop, 2},
    {"updating", updating, 2},
    {"moving", moving, 2},
    {"ordering", ordering, 3},
    {"exchange", exchange, 3},
    {"power", power, 1},
    {"loops_in_loops", loops_in_loops, 1},
    {"loop_in_branch", loop_in_branch, 1},
    {"sized", sized, 2},
    {"counting", counting, 2},
    {"gathering", gathering, 2},
    {"flipping", flipping, 2},
    {"lasting", lasting, 1},
    {"choice", choice, 1},
    {"choices", choices, 2},
    {"choosing", choosing, 1},
    {"layers", layers, 3},
    {"turning", turning, 3},
    {"calls_in_calls", calls_in_calls, 2},
};
const uint32_t n_control_programs = sizeof(control_programs) / sizeof(control_programs[0]);

const control_program_t *control_program(const char *name) {
  for (uint32_t k = 0; k < n_control_programs; k++)
    if (strcmp(control_programs[k].name, name) == 0)
      return &control_programs[k];
  return NULL;
}

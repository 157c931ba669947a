// SPDX-License-Identifier: Apache-2.0
#include "test/unit/control/programs.h"

typedef dt_value_t v_t;

#define POOL 6
#define DEPTH 3

// What code at some place may use: values of x's sizes, and an integer that decides.
typedef struct place_t {
  uint64_t *rng;
  uint32_t depth, n;
  v_t pool[POOL];
  v_t number;
} place_t;

static uint32_t below(place_t *p, uint32_t n) {
  *p->rng ^= *p->rng << 13;
  *p->rng ^= *p->rng >> 7;
  *p->rng ^= *p->rng << 17;
  return (uint32_t)(*p->rng >> 33) % n;
}

static v_t pick(place_t *p) { return p->pool[below(p, p->n)]; }

static void put(place_t *p, v_t value) { p->pool[p->n < POOL ? p->n++ : below(p, POOL)] = value; }

static v_t f32(dt_trace_t *t, double value) { return dt_scalar(t, DT_F32, value); }
static v_t i64(dt_trace_t *t, double value) { return dt_scalar(t, DT_I64, value); }

static void steps(dt_trace_t *t, place_t *p, uint32_t n);

// The place in a body: what comes in, and some of what is outside.
static place_t inside(place_t *outer, const v_t *in, uint32_t n, v_t number) {
  place_t own = {.rng = outer->rng, .depth = outer->depth + 1, .number = number};
  for (uint32_t k = 0; k < n; k++)
    put(&own, in[k]);
  if (below(outer, 2))
    put(&own, pick(outer));
  return own;
}

// ---- cond -----------------------------------------------------------------------------------------
static dt_status_t branch(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  place_t own = inside(closure, in, 2, in[2]);
  steps(t, &own, below(&own, 3));
  out[0] = pick(&own);
  out[1] = below(&own, 4) ? pick(&own) : dt_tanh(t, pick(&own));
  return NULL;
}

static void add_cond(dt_trace_t *t, place_t *p) {
  v_t in[3] = {pick(p), pick(p), p->number}, out[2];
  v_t pred = below(p, 2) ? dt_lt(t, p->number, i64(t, 1 + below(p, 3)))
                         : dt_eq(t, dt_mod(t, p->number, i64(t, 2)), i64(t, 0));
  dt_cond(t, pred, branch, branch, p, 3, in, 2, out);
  put(p, out[0]);
  if (below(p, 3))
    put(p, out[1]);
}

static void add_switch(dt_trace_t *t, place_t *p) {
  static const dt_branch_fn_t cases[] = {branch, branch, branch, branch};
  v_t in[3] = {pick(p), pick(p), p->number}, out[2];
  v_t index = dt_sub(t, dt_mod(t, p->number, i64(t, 5)), i64(t, below(p, 2)));
  dt_switch(t, index, 2 + below(p, 3), cases, p, 3, in, 2, out);
  put(p, out[0]);
  put(p, out[1]);
}

// ---- while ----------------------------------------------------------------------------------------
static dt_status_t test(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[3]);
  return NULL;
}

static dt_status_t trip(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  place_t own = inside(closure, in + 1, 2, in[0]);
  steps(t, &own, 1 + below(&own, 2));
  out[0] = dt_add(t, in[0], i64(t, 1));
  out[1] = pick(&own);
  out[2] = below(&own, 3) ? pick(&own) : in[1 + below(&own, 2)];
  return NULL;
}

static void add_while(dt_trace_t *t, place_t *p) {
  v_t state[3] = {i64(t, 0), pick(p), pick(p)};
  v_t most = dt_mod(t, dt_add(t, p->number, i64(t, below(p, 3))), i64(t, 3));
  dt_while(t, test, trip, p, 3, state, 1, &most, state);
  put(p, state[1]);
  put(p, state[2]);
}

// ---- subgraphs ------------------------------------------------------------------------------------
// The same twice, of what comes out the first time.
static void add_calls(dt_trace_t *t, place_t *p) {
  v_t in[3] = {pick(p), pick(p), p->number};
  dt_subgraph(t, branch, p, 3, in, 2, 0, in);
  dt_subgraph(t, branch, p, 3, in, 2, 0, in);
  put(p, in[0]);
  put(p, in[1]);
}

// ---- Steps ----------------------------------------------------------------------------------------
static v_t reversed(dt_trace_t *t, v_t x) {
  dt_sym_t n = dt_dim(t, x, 0);
  return dt_slice(t, x, 0, dt_sym_sub(t, n, dt_sym_const(t, 1)), n, -1);
}

static void step(dt_trace_t *t, place_t *p) {
  v_t a = pick(p), b = pick(p);
  switch (below(p, p->depth < DEPTH ? 12 : 6)) {
  case 0:
    put(p, dt_mul(t, dt_add(t, a, b), f32(t, 0.5)));
    return;
  case 1:
    put(p, dt_tanh(t, dt_sub(t, a, dt_mul(t, b, b))));
    return;
  case 2:
    put(p, dt_softmax(t, a, 1));
    return;
  case 3:
    put(p, dt_sub(t, a, dt_amax(t, b, 1, (int32_t[]){1}, true)));
    return;
  case 4:
    put(p, dt_add(t, reversed(t, a), dt_cast(t, p->number, DT_F32)));
    return;
  case 5:
    put(p, dt_tanh(t, dt_matmul(t, dt_matmul(t, a, dt_transpose(t, b, 0, 1)),
                                dt_mul(t, a, f32(t, 0.125)))));
    return;
  case 6:
    add_while(t, p);
    return;
  case 7:
    add_switch(t, p);
    return;
  case 8:
  case 9:
    add_calls(t, p);
    return;
  default:
    add_cond(t, p);
    return;
  }
}

static void steps(dt_trace_t *t, place_t *p, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    step(t, p);
}

static dt_status_t program(dt_trace_t *t, const v_t *in, v_t *out, void *closure) {
  const control_seed_t *seed = closure;
  uint64_t rng = seed->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  place_t p = {.rng = &rng, .number = in[1]};
  put(&p, in[0]);
  add_while(t, &p);
  steps(t, &p, 2 + below(&p, 3));
  out[0] = pick(&p);
  out[1] = dt_tanh(t, pick(&p));
  return NULL;
}

const control_program_t control_random = {"random", program, 2};

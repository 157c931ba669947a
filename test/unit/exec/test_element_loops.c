// SPDX-License-Identifier: Apache-2.0
// Values by their elements (dt_loop): against the evaluator and against plain loops, at sizes that
// change; how many kernels they make beside other ops; indices outside; and what is refused.
#include "test/support/subjects.h"

#include "ductile/experimental.h"
#include "ductile/op.h"
#include "ductile/pass.h"

#include <math.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 2, 11); }

static const dt_dim_decl_t a_dims[] = {{.name = "m"}, {.name = "k"}};
static const dt_dim_decl_t b_dims[] = {{.name = "k"}, {.name = "n"}};
static const dt_dim_decl_t i_dims[] = {{.name = "m"}};
static const dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = a_dims},
                                         {.name = "b", .dtype = DT_F32, .rank = 2, .dims = b_dims},
                                         {.name = "i", .dtype = DT_I64, .rank = 1, .dims = i_dims}};

// What bodies read.
typedef struct reads_t {
  const dt_value_t *in;
  dt_sym_t m, k, n;
} reads_t;

static reads_t reads_of(dt_trace_t *t, const dt_value_t *in) {
  return (reads_t){in, dt_dim(t, in[0], 0), dt_dim(t, in[0], 1), dt_dim(t, in[1], 1)};
}

static dt_value_t load2(dt_loop_t *l, dt_value_t x, dt_value_t i, dt_value_t j) {
  const dt_value_t at[] = {i, j};
  return dt_loop_load(l, x, 2, at);
}

// ---- Programs -----------------------------------------------------------------------------------
// a[i, j] of the transposed, with a in front of it and behind it.
static dt_value_t turned_element(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  return load2(l, r->in[0], dt_loop_index(l, 1), dt_loop_index(l, 0));
}

static dt_status_t turned(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  dt_value_t twice = dt_add(t, in[0], in[0]);
  dt_value_t own[] = {twice, in[1], in[2]};
  (void)closure;
  r.in = own;
  out[0] = dt_relu(t, dt_loop(t, 2, (dt_sym_t[]){r.k, r.m}, turned_element, &r));
  return NULL;
}

// A product: sum over k of a[i, k] b[k, j].
typedef struct at_t {
  const reads_t *r;
  dt_value_t i, j;
} at_t;

static dt_value_t product_term(dt_loop_t *l, dt_value_t k, void *closure) {
  const at_t *at = closure;
  return dt_mul(dt_loop_trace(l), load2(l, at->r->in[0], at->i, k),
                load2(l, at->r->in[1], k, at->j));
}

static dt_value_t product_element(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  at_t at = {r, dt_loop_index(l, 0), dt_loop_index(l, 1)};
  return dt_loop_reduce(l, DT_LOOP_SUM, r->k, product_term, &at);
}

static dt_status_t product(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  (void)closure;
  out[0] = dt_neg(t, dt_loop(t, 2, (dt_sym_t[]){r.m, r.n}, product_element, &r));
  return NULL;
}

// Neighbours along a row, with nothing outside of it.
static dt_value_t stencil_element(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  dt_trace_t *t = dt_loop_trace(l);
  dt_value_t i = dt_loop_index(l, 0), j = dt_loop_index(l, 1), one = dt_scalar(t, DT_I64, 1);
  const dt_value_t left[] = {i, dt_sub(t, j, one)}, right[] = {i, dt_add(t, j, one)};
  dt_value_t none = dt_scalar(t, DT_F32, 0);
  dt_value_t sides = dt_add(t, dt_loop_load_or(l, r->in[0], 2, left, none),
                            dt_loop_load_or(l, r->in[0], 2, right, none));
  return dt_sub(t, sides, load2(l, r->in[0], i, j));
}

static dt_status_t stencil(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  (void)closure;
  out[0] = dt_loop(t, 2, (dt_sym_t[]){r.m, r.k}, stencil_element, &r);
  return NULL;
}

// Rows by index, added up along a diagonal that wraps around.
static dt_value_t row_term(dt_loop_t *l, dt_value_t k, void *closure) {
  const at_t *at = closure;
  dt_trace_t *t = dt_loop_trace(l);
  dt_value_t row = dt_loop_load(l, at->r->in[2], 1, &at->i);
  dt_value_t wide = dt_size_value(t, at->r->k);
  return load2(l, at->r->in[0], row, dt_mod(t, dt_add(t, at->i, k), wide));
}

static dt_value_t rows_element(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  at_t at = {r, dt_loop_index(l, 0), {0}};
  return dt_loop_reduce(l, DT_LOOP_MAX, r->k, row_term, &at);
}

static dt_status_t rows(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  (void)closure;
  out[0] = dt_loop(t, 1, &r.m, rows_element, &r);
  return NULL;
}

// A fold in a fold: the sum over k of the largest a[i, j] b[j, k] over j.
typedef struct inner_t {
  const reads_t *r;
  dt_value_t i, outer;
} inner_t;

static dt_value_t inner_term(dt_loop_t *l, dt_value_t j, void *closure) {
  const inner_t *own = closure;
  return dt_mul(dt_loop_trace(l), load2(l, own->r->in[0], own->i, j),
                load2(l, own->r->in[1], j, own->outer));
}

static dt_value_t outer_term(dt_loop_t *l, dt_value_t k, void *closure) {
  const at_t *at = closure;
  dt_trace_t *t = dt_loop_trace(l);
  inner_t own = {at->r, at->i, k};
  dt_value_t largest = dt_loop_reduce(l, DT_LOOP_MAX, at->r->k, inner_term, &own);
  return dt_mul(t, largest, dt_cast(t, k, DT_F32));
}

static dt_value_t nested_element(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  at_t at = {r, dt_loop_index(l, 0), {0}};
  return dt_loop_reduce(l, DT_LOOP_SUM, r->n, outer_term, &at);
}

static dt_status_t nested(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  (void)closure;
  out[0] = dt_loop(t, 1, &r.m, nested_element, &r);
  return NULL;
}

// Rank 0, and an element that is the same everywhere.
static dt_value_t parity(dt_loop_t *l, dt_value_t i, void *closure) {
  const reads_t *r = closure;
  dt_trace_t *t = dt_loop_trace(l);
  dt_value_t x = dt_loop_load(l, r->in[2], 1, &i);
  return dt_eq(t, dt_bit_and(t, x, dt_scalar(t, DT_I64, 1)), dt_scalar(t, DT_I64, 0));
}

static dt_value_t any_even(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  return dt_loop_reduce(l, DT_LOOP_ANY, r->m, parity, closure);
}

static dt_value_t all_even(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  return dt_loop_reduce(l, DT_LOOP_ALL, r->m, parity, closure);
}

static dt_value_t everywhere(dt_loop_t *l, void *closure) {
  return dt_loop_load(l, *(const dt_value_t *)closure, 0, NULL);
}

static dt_status_t of_rank_0(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  (void)closure;
  dt_value_t any = dt_loop(t, 0, NULL, any_even, &r), all = dt_loop(t, 0, NULL, all_even, &r);
  dt_value_t both = dt_add(t, dt_cast(t, any, DT_F32), dt_cast(t, all, DT_F32));
  out[0] = dt_loop(t, 2, (dt_sym_t[]){r.n, r.m}, everywhere, &both);
  return NULL;
}

// ---- Runs ---------------------------------------------------------------------------------------
static dt_function_t *make(fixture_t *f, dt_program_fn_t fn, bool evaluator) {
  dt_function_options_t options = options_of(3, inputs);
  if (evaluator)
    options.answer = DT_ANSWER_EVALUATOR;
  return function_of(f, fn, NULL, &options);
}

static dt_tensor_t *indices_of(rng_t *rng, int64_t n, int64_t below) {
  dt_tensor_t *made = tensor_empty(DT_I64, 1, &n);
  for (int64_t k = 0; k < n; k++)
    ((int64_t *)dt_tensor_data(made))[k] =
        below ? (k * 7 + (int64_t)(rng_next(rng) % 5)) % below : 0;
  return made;
}

static void test_programs(void **state) {
  fixture_t *f = *state;
  static const int64_t sizes[][3] = {{3, 5, 4}, {1, 1, 1}, {2, 1, 7}, {17, 33, 9}, {4, 6, 0}};
  static const struct {
    dt_program_fn_t program;
    uint64_t most_kernels;
    bool needs_rows;
  } cases[] = {{turned, 1, false}, {product, 2, false}, {stencil, 3, false}, // two masks of a row
               {rows, 2, true},    {nested, 2, true},   {of_rank_0, 3, false}};
  for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
    dt_function_t *compiled = make(f, cases[c].program, false);
    dt_function_t *oracle = make(f, cases[c].program, true);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
      int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
      dt_tensor_t *a = tensor_f32(&f->rng, 2, SIZES(k, m)), *turned_a = tensor_transposed(a);
      dt_tensor_t *straight = tensor_f32(&f->rng, 2, SIZES(m, k));
      dt_tensor_t *b = tensor_f32(&f->rng, 2, SIZES(k, n)), *ids = indices_of(&f->rng, m, m);
      for (int strided = 0; strided < 2; strided++) {
        dt_tensor_t *in[] = {strided ? turned_a : straight, b, ids}, *got = NULL, *want = NULL;
        expect_ok(dt_call(f->session, compiled, in, 3, &got, 1, NULL));
        expect_ok(dt_call(f->session, oracle, in, 3, &want, 1, NULL));
        expect_close(got, want, 1e-5, 1e-5, "a loop");
        RELEASE(got, want);
      }
      RELEASE(a, turned_a, straight, b, ids);
    }
    if (compiled_answer() == DT_ANSWER_COMPILED &&
        stats_of(compiled).kernels > cases[c].most_kernels)
      fail_msg("case %zu: %d kernels; expected %d at most", c, (int)stats_of(compiled).kernels,
               (int)cases[c].most_kernels);
    dt_function_release(compiled);
    dt_function_release(oracle);
  }
}

// ---- Dtypes -------------------------------------------------------------------------------------
// The largest of x[i, (j + k) mod width] over k, and their number below x[i, j]: views, look-ups
// and folds of each dtype.
typedef struct cast_t {
  const reads_t *r;
  dt_value_t x, i, j;
} cast_t;

static dt_value_t wrapped_term(dt_loop_t *l, dt_value_t k, void *closure) {
  const cast_t *own = closure;
  dt_trace_t *t = dt_loop_trace(l);
  dt_value_t wide = dt_size_value(t, own->r->k);
  return load2(l, own->x, own->i, dt_mod(t, dt_add(t, own->j, k), wide));
}

static dt_value_t below_term(dt_loop_t *l, dt_value_t k, void *closure) {
  const cast_t *own = closure;
  dt_trace_t *t = dt_loop_trace(l);
  return dt_cast(t, dt_lt(t, load2(l, own->x, own->i, k), load2(l, own->x, own->i, own->j)),
                 DT_I64);
}

static dt_value_t cast_element(dt_loop_t *l, void *closure) {
  cast_t *own = closure;
  dt_trace_t *t = dt_loop_trace(l);
  own->i = dt_loop_index(l, 0);
  own->j = dt_loop_index(l, 1);
  dt_value_t most = dt_loop_reduce(l, DT_LOOP_MAX, own->r->k, wrapped_term, own);
  dt_value_t below = dt_loop_reduce(l, DT_LOOP_SUM, own->r->k, below_term, own);
  return dt_add(t, dt_cast(t, most, DT_F32), dt_cast(t, below, DT_F32));
}

static dt_dtype_t dtype_of_x;
static dt_status_t of_dtype(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  (void)closure;
  dt_value_t scaled = dt_mul(t, in[0], dt_scalar(t, DT_F32, 30));
  cast_t own = {.r = &r, .x = dt_cast(t, scaled, dtype_of_x)};
  out[0] = dt_loop(t, 2, (dt_sym_t[]){r.m, r.k}, cast_element, &own);
  return NULL;
}

static void test_dtypes(void **state) {
  fixture_t *f = *state;
  static const dt_dtype_t dtypes[] = {DT_F16, DT_BF16, DT_F64, DT_I8, DT_I32, DT_I64};
  for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
    dtype_of_x = dtypes[d];
    dt_function_t *compiled = make(f, of_dtype, false), *oracle = make(f, of_dtype, true);
    dt_tensor_t *in[] = {tensor_f32(&f->rng, 2, SIZES(5, 9)), tensor_full(1, 2, SIZES(9, 1)),
                         indices_of(&f->rng, 5, 5)},
                *got = NULL, *want = NULL;
    expect_ok(dt_call(f->session, compiled, in, 3, &got, 1, NULL));
    expect_ok(dt_call(f->session, oracle, in, 3, &want, 1, NULL));
    expect_close(got, want, 0, 0, dt_dtype_name(dtypes[d]));
    RELEASE(in[0], in[1], in[2], got, want);
    dt_function_release(compiled);
    dt_function_release(oracle);
  }
}

static void test_products_by_hand(void **state) {
  fixture_t *f = *state;
  dt_function_t *function = make(f, product, false);
  dt_tensor_t *in[] = {tensor_f32(&f->rng, 2, SIZES(3, 4)), tensor_f32(&f->rng, 2, SIZES(4, 2)),
                       indices_of(&f->rng, 3, 3)},
              *out = NULL;
  expect_ok(dt_call(f->session, function, in, 3, &out, 1, NULL));
  const float *a = dt_tensor_data(in[0]), *b = dt_tensor_data(in[1]), *x = dt_tensor_data(out);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 2; j++) {
      double sum = 0;
      for (int k = 0; k < 4; k++)
        sum += (double)a[i * 4 + k] * (double)b[k * 2 + j];
      assert_true(fabs(x[i * 2 + j] + sum) < 1e-5);
    }
  RELEASE(in[0], in[1], in[2], out);
  dt_function_release(function);
}

static void test_indices_outside(void **state) {
  fixture_t *f = *state;
  static const int64_t bad[] = {3, -1, INT64_MIN, INT64_MAX};
  for (int evaluator = 0; evaluator < 2; evaluator++) {
    dt_function_t *function = make(f, rows, evaluator);
    for (size_t k = 0; k < 5; k++) {
      const int64_t ids[] = {0, k < 4 ? bad[k] : 2, 1};
      dt_tensor_t *in[] = {tensor_full(2, 2, SIZES(3, 4)), tensor_full(1, 2, SIZES(4, 1)),
                           tensor_i64(1, SIZES(3), ids)},
                  *out = NULL;
      dt_status_t status = dt_call(f->session, function, in, 3, &out, 1, NULL);
      if (k < 4)
        expect_told(status, DT_E_RANGE,
                    evaluator || compiled_answer() == DT_ANSWER_EVALUATOR ? "gather: index"
                                                                          : "test_element_loops.c");
      else
        expect_ok(status);
      RELEASE(in[0], in[1], in[2], out);
    }
    dt_function_release(function);
  }
}

// ---- Ops and lowerings --------------------------------------------------------------------------
static dt_status_t turn_infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  dt_sym_t sizes[] = {dt_dim(t, x, 1), dt_dim(t, x, 0)};
  (void)closure;
  dt_op_set_result(call, 0, dt_value_dtype(t, x), 2, sizes);
  return NULL;
}

static dt_value_t turn_element(dt_loop_t *l, void *closure) {
  return load2(l, *(const dt_value_t *)closure, dt_loop_index(l, 1), dt_loop_index(l, 0));
}

static dt_value_t turn(dt_trace_t *t, dt_value_t x) {
  dt_sym_t sizes[] = {dt_dim(t, x, 1), dt_dim(t, x, 0)};
  return dt_loop(t, 2, sizes, turn_element, &x);
}

static dt_status_t turn_decompose(dt_op_call_t *call, dt_value_t *results, void *closure) {
  (void)closure;
  results[0] = turn(dt_op_call_trace(call), dt_op_call_input(call, 0));
  return NULL;
}

static dt_status_t calls_turn(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = dt_add(t, in[0], in[0]);
  (void)closure;
  dt_op_call(t, "test.turn", 1, &x, 0, NULL, 1, &x);
  out[0] = dt_neg(t, x);
  return NULL;
}

// permute in another way.
static dt_status_t lower_permute(dt_rewriter_t *r, dt_value_t node, dt_value_t *out,
                                 void *closure) {
  ++*(int *)closure;
  *out = turn(dt_rewriter_trace(r), dt_rewriter_input(r, node, 0));
  return NULL;
}

static dt_status_t calls_permute(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  out[0] = dt_neg(t, dt_transpose(t, dt_add(t, in[0], in[0]), 0, 1));
  return NULL;
}

static void test_ops_and_lowerings(void **state) {
  fixture_t *f = *state;
  int lowered = 0;
  const dt_op_options_t op = {.struct_size = sizeof(op),
                              .name = "test.turn",
                              .infer = turn_infer,
                              .decompose = turn_decompose};
  const dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "turns"};
  expect_ok(dt_op_register(f->runtime, &op));
  expect_ok(dt_lowering_override(f->runtime, "permute", lower_permute, &lowered, &pass));
  dt_function_t *functions[] = {make(f, calls_turn, false), make(f, calls_permute, false)};
  for (size_t p = 0; p < 2; p++) {
    dt_tensor_t *in[] = {tensor_f32(&f->rng, 2, SIZES(3, 5)), tensor_full(1, 2, SIZES(5, 1)),
                         indices_of(&f->rng, 3, 3)},
                *out = NULL;
    expect_ok(dt_call(f->session, functions[p], in, 3, &out, 1, NULL));
    expect_sizes(out, 2, SIZES(5, 3));
    for (int k = 0; k < 15; k++)
      assert_true(((const float *)dt_tensor_data(out))[k] ==
                  -2 * ((const float *)dt_tensor_data(in[0]))[k % 3 * 5 + k / 3]);
    if (compiled_answer() == DT_ANSWER_COMPILED)
      assert_int_equal(stats_of(functions[p]).kernels, 1); // fused with both neighbours
    RELEASE(in[0], in[1], in[2], out);
    dt_function_release(functions[p]);
  }
  assert_true(lowered > 0 || compiled_answer() != DT_ANSWER_COMPILED);
}

// ---- What is refused ----------------------------------------------------------------------------
static dt_value_t kept; // a value of a fold
static dt_value_t keep_term(dt_loop_t *l, dt_value_t k, void *closure) {
  const at_t *at = closure;
  return kept = load2(l, at->r->in[0], at->i, k);
}

static dt_value_t of_an_ended_fold(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  at_t at = {r, dt_loop_index(l, 0), {0}};
  dt_value_t sum = dt_loop_reduce(l, DT_LOOP_SUM, r->k, keep_term, &at);
  return dt_add(dt_loop_trace(l), sum, kept);
}

static dt_value_t few_indices(dt_loop_t *l, void *closure) {
  dt_value_t i = dt_loop_index(l, 0);
  return dt_loop_load(l, ((const reads_t *)closure)->in[0], 1, &i);
}

static dt_value_t float_index(dt_loop_t *l, void *closure) {
  dt_value_t i = dt_cast(dt_loop_trace(l), dt_loop_index(l, 0), DT_F32);
  return dt_loop_load(l, ((const reads_t *)closure)->in[2], 1, &i);
}

static dt_value_t far_axis(dt_loop_t *l, void *closure) {
  (void)closure;
  return dt_loop_index(l, 1);
}

static dt_value_t nothing(dt_loop_t *l, void *closure) {
  (void)l, (void)closure;
  return (dt_value_t){0};
}

static dt_value_t no_fold(dt_loop_t *l, void *closure) {
  const reads_t *r = closure;
  return dt_loop_reduce(l, (dt_loop_fold_t)77, r->k, keep_term, closure);
}

static dt_value_t deep(dt_loop_t *l, dt_value_t k, void *closure) {
  return dt_add(dt_loop_trace(l), k,
                dt_loop_reduce(l, DT_LOOP_SUM, ((const reads_t *)closure)->k, deep, closure));
}

static dt_value_t too_deep(dt_loop_t *l, void *closure) {
  return dt_loop_reduce(l, DT_LOOP_SUM, ((const reads_t *)closure)->k, deep, closure);
}

static dt_loop_fn_t refused;
static dt_status_t of_refused(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  reads_t r = reads_of(t, in);
  (void)closure;
  out[0] = dt_loop(t, 1, &r.m, refused, &r);
  return NULL;
}

static void test_refusals(void **state) {
  fixture_t *f = *state;
  static const struct {
    dt_loop_fn_t body;
    dt_code_t code;
    const char *says;
  } cases[] = {
      {of_an_ended_fold, DT_E_ARGUMENT, "the element has rank 2 in a loop of 1 dims"},
      {few_indices, DT_E_ARGUMENT, "loop_load: 1 indices of a tensor of rank 2"},
      {float_index, DT_E_DTYPE, "index 0 is f32"},
      {far_axis, DT_E_ARGUMENT, "axis 1 of a loop of 1 dims"},
      {nothing, DT_E_ARGUMENT, "the element is the none value"},
      {no_fold, DT_E_ARGUMENT, "fold 77"},
      {too_deep, DT_E_LIMIT, "a loop of 1 dims and 7 folds; the most is 8 in all"},
      {NULL, DT_E_ARGUMENT, "body: NULL"},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    refused = cases[k].body;
    dt_function_t *function = make(f, of_refused, true);
    dt_tensor_t *in[] = {tensor_full(1, 2, SIZES(3, 4)), tensor_full(1, 2, SIZES(4, 1)),
                         indices_of(&f->rng, 3, 3)},
                *out = NULL;
    expect_told(dt_call(f->session, function, in, 3, &out, 1, NULL), cases[k].code, cases[k].says);
    RELEASE(in[0], in[1], in[2]);
    dt_function_release(function);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_programs, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_dtypes, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_products_by_hand, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_indices_outside, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_ops_and_lowerings, setup, fixture_close),
      cmocka_unit_test_setup_teardown(test_refusals, setup, fixture_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// The evaluator: each op's results by hand, written as graph texts over small constants; strided
// arguments, all dtypes, sizes 0 and 1, NaN and infinities, and what is refused.
#include "lower/graph/eval.h"
#include "runtime/base/dtype.h"
#include "test/support/graph_fixture.h"

#include <math.h>
#include <string.h>

typedef struct parsed_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
} parsed_t;

static void parse(parsed_t *p, const char *text) {
  dt_scan_t scan;
  dt__arena_init(&p->arena, 0);
  expect_ok(dt__symenv_create(&p->env));
  dt__scan_init(&scan, text, strlen(text), "test");
  dt_status_t status = dt__graph_parse(&p->arena, p->env, &scan, &p->graph);
  if (status)
    print_error("in %s\n", text);
  expect_ok(status);
}

static void release(parsed_t *p) {
  dt__symenv_destroy(p->env);
  dt__arena_fini(&p->arena);
}

// Evaluates with and without bounds; values must agree bit by bit.
static dt_eval_value_t evaluate(parsed_t *p, const int64_t *symbols, const dt_eval_arg_t *args) {
  dt_eval_value_t plain, bounded;
  const dt_eval_options_t options = {.error_bounds = true};
  expect_ok(dt__graph_eval(p->graph, symbols, args, NULL, &p->arena, &plain));
  expect_ok(dt__graph_eval(p->graph, symbols, args, &options, &p->arena, &bounded));
  assert_null(plain.bound);
  assert_non_null(bounded.bound);
  assert_int_equal(plain.count, bounded.count);
  for (int64_t k = 0; k < plain.count; k++) {
    bool nan = dt__dtype_is_float(plain.dtype) && isnan(plain.data[k].f);
    assert_true(nan ? isnan(bounded.data[k].f) : plain.data[k].i == bounded.data[k].i);
    assert_true(bounded.bound[k] >= 0.0);
  }
  return plain;
}

typedef struct text_case_t {
  const char *body; // lines of a graph without symbols
  int64_t count;
  double want[12]; // integers too
} text_case_t;

static void run_case(const text_case_t *c) {
  parsed_t p;
  dt_text_t text;
  dt__text_init(&text);
  dt__text_printf(&text, "graph () {\n%s\n}\n", c->body);
  parse(&p, dt__text_str(&text));
  dt_eval_value_t got = evaluate(&p, NULL, NULL);
  if (got.count != c->count)
    print_error("%s\nexpected %lld elements, got %lld\n", c->body, (long long)c->count,
                (long long)got.count);
  assert_int_equal(got.count, c->count);
  for (int64_t k = 0; k < got.count; k++) {
    double value = dt__dtype_is_float(got.dtype) ? got.data[k].f : (double)got.data[k].i;
    bool same = isnan(c->want[k])
                    ? isnan(value)
                    : value == c->want[k] || fabs(value - c->want[k]) <= 1e-14 * fabs(c->want[k]);
    if (!same)
      print_error("%s\nelement %lld: expected %.17g, got %.17g\n", c->body, (long long)k,
                  c->want[k], value);
    assert_true(same);
  }
  dt__text_fini(&text);
  release(&p);
}

#define X23 "%1 = constant \"x\" f32[2, 3] key 1 data [1, 2, 3, 4, 5, 6] "
#define I23 "%1 = constant \"x\" i32[2, 3] key 1 data [1, 2, 3, 4, 5, 6] "
#define N22 "%1 = constant \"x\" f32[2, 2] key 1 data [nan, 1, -inf, inf] "
#define E03 "%1 = constant \"x\" f32[0, 3] key 1 "
#define J03 "%1 = constant \"x\" i8[0, 3] key 1 "

static void test_leaves(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {"%1 = scalar {dtype = f32, value = 0.1} : f32[] return %1", 1, {(double)0.1f}},
      {"%1 = scalar {dtype = f64, value = 0.1} : f64[] return %1", 1, {0.1}},
      {"%1 = scalar {dtype = i8, value = -128} : i8[] return %1", 1, {-128}},
      {"%1 = scalar {dtype = bool, value = 1} : bool[] return %1", 1, {1}},
      {"%1 = size {syms = [7]} : i64[] return %1", 1, {7}},
      {"%1 = iota {dtype = i32, axes = [1], syms = [2, 3]} : i32[2, 3] return %1",
       6,
       {0, 1, 2, 0, 1, 2}},
      {"%1 = iota {dtype = f64, axes = [0], syms = [2, 3]} : f64[2, 3] return %1",
       6,
       {0, 0, 0, 1, 1, 1}},
      {"%1 = iota {dtype = f32, axes = [0], syms = [0]} : f32[0] return %1", 0, {0}},
      {X23 "return %1", 6, {1, 2, 3, 4, 5, 6}},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    run_case(&cases[k]);
  parsed_t p; // integers wrap
  parse(&p, "graph () { %1 = iota {dtype = i8, axes = [0], syms = [300]} : i8[300] return %1 }");
  dt_eval_value_t wrapped = evaluate(&p, NULL, NULL);
  assert_int_equal(wrapped.data[130].i, -126);
  assert_int_equal(wrapped.data[299].i, 43);
  release(&p);
}

static void test_casts(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {"%1 = constant \"x\" f64[3] key 1 data [0.1, 1e300, nan] "
       "%2 = cast %1 {dtype = f32} : f32[3] return %2",
       3,
       {(double)0.1f, INFINITY, NAN}},
      {"%1 = constant \"x\" f32[5] key 1 data [-1.9, 300, nan, inf, 0.5] "
       "%2 = cast %1 {dtype = i8} : i8[5] return %2",
       5,
       {-1, 127, 0, 127, 0}},
      {"%1 = constant \"x\" f32[3] key 1 data [0, -0.5, nan] "
       "%2 = cast %1 {dtype = bool} : bool[3] return %2",
       3,
       {0, 1, 1}},
      {"%1 = constant \"x\" i64[2] key 1 data [300, -1] "
       "%2 = cast %1 {dtype = u8} : u8[2] return %2",
       2,
       {44, 255}},
      {"%1 = constant \"x\" u64[1] key 1 data [-1] "
       "%2 = cast %1 {dtype = f32} : f32[1] return %2",
       1,
       {0x1p64}},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    run_case(&cases[k]);
}

static void test_views(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {X23 "%2 = reshape %1 {syms = [3, 2]} : f32[3, 2] return %2", 6, {1, 2, 3, 4, 5, 6}},
      {E03 "%2 = reshape %1 {syms = [5, 0]} : f32[5, 0] return %2", 0, {0}},
      {I23 "%2 = permute %1 {axes = [1, 0]} : i32[3, 2] return %2", 6, {1, 4, 2, 5, 3, 6}},
      {"%1 = constant \"x\" i8[2, 1] key 1 data [1, 2] "
       "%2 = expand %1 {syms = [2, 3]} : i8[2, 3] return %2",
       6,
       {1, 1, 1, 2, 2, 2}},
      {"%1 = constant \"x\" i8[1] key 1 data [1] %2 = expand %1 {syms = [0]} : i8[0] return %2",
       0,
       {0}},
      {X23 "%2 = slice %1 {syms = [1, 1, 2, 3], steps = [1, -1]} : f32[1, 3] return %2",
       3,
       {6, 5, 4}},
      {X23 "%2 = slice %1 {syms = [0, 2, 0, 2], steps = [1, 2]} : f32[2, 2] return %2",
       4,
       {1, 3, 4, 6}},
      {X23 "%2 = slice %1 {syms = [2, 0, 0, 3], steps = [1, 1]} : f32[0, 3] return %2", 0, {0}},
      {I23 "%2 = pad %1 {syms = [1, 0, 0, 1], value = -7} : i32[3, 4] return %2",
       12,
       {-7, -7, -7, -7, 1, 2, 3, -7, 4, 5, 6, -7}},
      {E03 "%2 = pad %1 {syms = [0, 1, 0, 0], value = 0.5} : f32[1, 3] return %2",
       3,
       {0.5, 0.5, 0.5}},
      {I23 "%2 = concat %1, %1 {axes = [0]} : i32[4, 3] return %2",
       12,
       {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}},
      {I23 "%2 = slice %1 {syms = [0, 2, 1, 1], steps = [1, 1]} : i32[2, 1] "
           "%3 = concat %2, %1 {axes = [1]} : i32[2, 4] return %3",
       8,
       {2, 1, 2, 3, 5, 4, 5, 6}},
      {J03 "%2 = constant \"y\" i8[1, 3] key 2 data [7, 8, 9] "
           "%3 = concat %1, %2 {axes = [0]} : i8[1, 3] return %3",
       3,
       {7, 8, 9}},
      {I23 "%2 = constant \"i\" i64[2] key 2 data [-1, 0] "
           "%3 = gather %1, %2 {axes = [1]} : i32[2, 2] return %3",
       4,
       {3, 1, 6, 4}},
      {I23 "%2 = constant \"i\" i32[] key 2 data [1] "
           "%3 = gather %1, %2 {axes = [0]} : i32[3] return %3",
       3,
       {4, 5, 6}},
      {E03 "%2 = constant \"i\" i64[0] key 2 "
           "%3 = gather %1, %2 {axes = [0]} : f32[0, 3] return %3",
       0,
       {0}},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    run_case(&cases[k]);
}

static void test_reductions(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {X23 "%2 = sum %1 {axes = [1], keepdims = 1} : f32[2, 1] return %2", 2, {6, 15}},
      {X23 "%2 = sum %1 {axes = [0], keepdims = 0} : f32[3] return %2", 3, {5, 7, 9}},
      {X23 "%2 = sum %1 {axes = [0, 1], keepdims = 0} : f32[] return %2", 1, {21}},
      {X23 "%2 = sum %1 {axes = [], keepdims = 0} : f32[2, 3] return %2", 6, {1, 2, 3, 4, 5, 6}},
      {E03 "%2 = sum %1 {axes = [0], keepdims = 0} : f32[3] return %2", 3, {0, 0, 0}},
      {E03 "%2 = sum %1 {axes = [1], keepdims = 0} : f32[0] return %2", 0, {0}},
      {N22 "%2 = sum %1 {axes = [1], keepdims = 0} : f32[2] return %2", 2, {NAN, NAN}},
      {"%1 = constant \"x\" i8[2] key 1 data [127, 2] "
       "%2 = sum %1 {axes = [0], keepdims = 0} : i8[] return %2",
       1,
       {-127}},
      // The compensated sum keeps what plain additions lose.
      {"%1 = constant \"x\" f64[3] key 1 data [1e16, 1, -1e16] "
       "%2 = sum %1 {axes = [0], keepdims = 0} : f64[] return %2",
       1,
       {1}},
      {X23 "%2 = prod %1 {axes = [1], keepdims = 0} : f32[2] return %2", 2, {6, 120}},
      {E03 "%2 = prod %1 {axes = [0], keepdims = 0} : f32[3] return %2", 3, {1, 1, 1}},
      {"%1 = constant \"x\" u8[2] key 1 data [20, 20] "
       "%2 = prod %1 {axes = [0], keepdims = 0} : u8[] return %2",
       1,
       {144}},
      {X23 "%2 = amax %1 {axes = [0], keepdims = 0} : f32[3] return %2", 3, {4, 5, 6}},
      {N22 "%2 = amax %1 {axes = [1], keepdims = 0} : f32[2] return %2", 2, {NAN, INFINITY}},
      {E03 "%2 = amax %1 {axes = [0], keepdims = 0} : f32[3] return %2",
       3,
       {-INFINITY, -INFINITY, -INFINITY}},
      {J03 "%2 = amax %1 {axes = [0], keepdims = 0} : i8[3] return %2", 3, {-128, -128, -128}},
      {J03 "%2 = amin %1 {axes = [0], keepdims = 0} : i8[3] return %2", 3, {127, 127, 127}},
      {N22 "%2 = amin %1 {axes = [0], keepdims = 0} : f32[2] return %2", 2, {NAN, 1}},
      {"%1 = constant \"x\" u64[2] key 1 data [-1, 1] "
       "%2 = amin %1 {axes = [0], keepdims = 0} : u64[] return %2",
       1,
       {1}},
      {"%1 = constant \"x\" bool[2, 2] key 1 data [0, 1, 1, 1] "
       "%2 = all %1 {axes = [1], keepdims = 0} : bool[2] return %2",
       2,
       {0, 1}},
      {"%1 = constant \"x\" bool[2, 2] key 1 data [0, 0, 1, 0] "
       "%2 = any %1 {axes = [1], keepdims = 0} : bool[2] return %2",
       2,
       {0, 1}},
      {"%1 = constant \"x\" bool[0] key 1 "
       "%2 = all %1 {axes = [0], keepdims = 0} : bool[] return %2",
       1,
       {1}},
      {"%1 = constant \"x\" bool[0] key 1 "
       "%2 = any %1 {axes = [0], keepdims = 0} : bool[] return %2",
       1,
       {0}},
      {"%1 = constant \"x\" f32[4] key 1 data [1, 3, 3, 2] "
       "%2 = argmax %1 {axes = [0], keepdims = 1} : i64[1] return %2",
       1,
       {1}},
      {"%1 = constant \"x\" f32[4] key 1 data [1, nan, 3, nan] "
       "%2 = argmax %1 {axes = [0], keepdims = 0} : i64[] return %2",
       1,
       {1}},
      {"%1 = constant \"x\" f32[4] key 1 data [1, nan, 0, nan] "
       "%2 = argmin %1 {axes = [0], keepdims = 0} : i64[] return %2",
       1,
       {1}},
      {"%1 = constant \"x\" u64[3] key 1 data [1, -1, 0] "
       "%2 = argmax %1 {axes = [0], keepdims = 0} : i64[] return %2",
       1,
       {1}},
      {"%1 = constant \"x\" f32[2] key 1 data [-inf, -inf] "
       "%2 = argmax %1 {axes = [0], keepdims = 0} : i64[] return %2",
       1,
       {0}},
      {E03 "%2 = argmin %1 {axes = [0], keepdims = 0} : i64[3] return %2", 3, {0, 0, 0}},
      {X23 "%2 = mean %1 {axes = [1], keepdims = 0} : f32[2] return %2", 2, {2, 5}},
      {E03 "%2 = mean %1 {axes = [0], keepdims = 0} : f32[3] return %2", 3, {NAN, NAN, NAN}},
      {X23 "%2 = var %1 {axes = [1], keepdims = 0} : f32[2] return %2", 2, {2.0 / 3, 2.0 / 3}},
      {X23 "%2 = var %1 {axes = [], keepdims = 0} : f32[2, 3] return %2", 6, {0, 0, 0, 0, 0, 0}},
      {E03 "%2 = var %1 {axes = [0], keepdims = 0} : f32[3] return %2", 3, {NAN, NAN, NAN}},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    run_case(&cases[k]);
}

static void test_composites(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {"%1 = constant \"x\" f32[4] key 1 data [-1, 0, 2, nan] %2 = relu %1 : f32[4] return %2",
       4,
       {0, 0, 2, NAN}},
      {"%1 = constant \"x\" i8[2] key 1 data [-1, 5] %2 = relu %1 : i8[2] return %2", 2, {0, 5}},
      {"%1 = constant \"x\" f64[4] key 1 data [0, 1, -800, inf] %2 = silu %1 : f64[4] return %2",
       4,
       {0, 0.73105857863000487925, 0, INFINITY}},
      {"%1 = constant \"x\" f64[4] key 1 data [0, 1, -1, inf] %2 = gelu %1 : f64[4] return %2",
       4,
       {0, 0.84134474606854294858, -0.15865525393145705142, INFINITY}},
      {"%1 = constant \"x\" f64[3] key 1 data [0, 1, inf] %2 = gelu_tanh %1 : f64[3] return %2",
       3,
       {0, 0.84119199060827670478, INFINITY}},
      {"%1 = constant \"x\" f64[2, 2] key 1 data [0, 0, 1000, 1000] "
       "%2 = softmax %1 {axes = [1]} : f64[2, 2] return %2",
       4,
       {0.5, 0.5, 0.5, 0.5}},
      {"%1 = constant \"x\" f64[3, 2] key 1 data [0, 1, -inf, 1, nan, 1] "
       "%2 = softmax %1 {axes = [1]} : f64[3, 2] return %2",
       6,
       {0.26894142136999512075, 0.73105857863000487925, 0, 1, NAN, NAN}},
      {"%1 = constant \"x\" f64[2] key 1 data [-inf, -inf] "
       "%2 = softmax %1 {axes = [0]} : f64[2] return %2",
       2,
       {NAN, NAN}},
      {"%1 = constant \"x\" f32[2, 1] key 1 data [7, -7] "
       "%2 = softmax %1 {axes = [1]} : f32[2, 1] return %2",
       2,
       {1, 1}},
      {E03 "%2 = softmax %1 {axes = [0]} : f32[0, 3] return %2", 0, {0}},
      {"%1 = constant \"x\" f64[2] key 1 data [0, 1] "
       "%2 = log_softmax %1 {axes = [0]} : f64[2] return %2",
       2,
       {-1.3132616875182228340, -0.31326168751822283405}},
      {"%1 = constant \"x\" f64[1, 2] key 1 data [1, 3] "
       "%2 = constant \"s\" f64[2] key 2 data [1, 2] %3 = constant \"b\" f64[2] key 3 data [10, "
       "20] "
       "%4 = layer_norm %1, %2, %3 {n_axes = 1, epsilon = 0} : f64[1, 2] return %4",
       2,
       {9, 22}},
      {"%1 = constant \"x\" f64[2] key 1 data [1, 3] %2 = constant \"s\" f64[2] key 2 data [1, 1] "
       "%3 = layer_norm %1, %2, %2 {n_axes = 1, epsilon = 3} : f64[2] return %3",
       2,
       {0.5, 1.5}},
      {"%1 = constant \"x\" f64[2, 2] key 1 data [3, 4, nan, 1] "
       "%2 = constant \"s\" f64[2] key 2 data [5, 10] "
       "%3 = rms_norm %1, %2 {n_axes = 1, epsilon = 12.5} : f64[2, 2] return %3",
       4,
       {3, 8, NAN, NAN}},
      // An epsilon that no half holds: it is one of f32, which they are computed in.
      {"%1 = constant \"x\" f16[2] key 1 data [3, 3] %2 = constant \"s\" f16[2] key 2 data [1, 2] "
       "%3 = layer_norm %1, %2, %2 {n_axes = 1, epsilon = 1e-12} : f16[2] return %3",
       2,
       {1, 2}},
      {"%1 = constant \"x\" bf16[2] key 1 data [0, 0] %2 = constant \"s\" bf16[2] key 2 data [1, "
       "2] "
       "%3 = rms_norm %1, %2 {n_axes = 1, epsilon = 1e-42} : bf16[2] return %3",
       2,
       {0, 0}},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    run_case(&cases[k]);
}

static void test_matmul(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {X23 "%2 = constant \"w\" f32[3, 2] key 2 data [1, 0, 0, 1, 1, 1] "
           "%3 = matmul %1, %2 : f32[2, 2] return %3",
       4,
       {4, 5, 10, 11}},
      {"%1 = constant \"x\" i8[1, 2] key 1 data [100, 100] "
       "%2 = constant \"w\" i8[2, 1] key 2 data [2, 1] %3 = matmul %1, %2 : i8[1, 1] return %3",
       1,
       {44}},
      {"%1 = constant \"x\" i32[2, 1, 2] key 1 data [1, 2, 3, 4] "
       "%2 = constant \"w\" i32[2, 2, 1] key 2 data [1, 1, 2, 2] "
       "%3 = matmul %1, %2 : i32[2, 1, 1] return %3",
       2,
       {3, 14}},
      {"%1 = constant \"x\" i32[2, 1, 2] key 1 data [1, 2, 3, 4] "
       "%2 = constant \"w\" i32[2, 1] key 2 data [1, 10] "
       "%3 = matmul %1, %2 : i32[2, 1, 1] return %3",
       2,
       {21, 43}},
      {"%1 = constant \"x\" f32[2, 0] key 1 %2 = constant \"w\" f32[0, 1] key 2 "
       "%3 = matmul %1, %2 : f32[2, 1] return %3",
       2,
       {0, 0}},
      {"%1 = constant \"x\" f32[1, 2] key 1 data [inf, 1] "
       "%2 = constant \"w\" f32[2, 2] key 2 data [0, 1, 1, 1] "
       "%3 = matmul %1, %2 : f32[1, 2] return %3",
       2,
       {NAN, INFINITY}},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    run_case(&cases[k]);
}

// Every op takes every dtype that inference admits, at sizes 0, 1 and 3, and agrees with and
// without bounds; element-wise ones agree with the scalar definitions, which test_scalar.c checks
// by hand.
static void test_every_op(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 3};
  for (uint32_t op = 1; op < DT_OP_COUNT; op++) {
    for (uint32_t dtype = 1; dtype < DT_DTYPE_END; dtype++) {
      if (!dt__dtype_is_valid((dt_dtype_t)dtype))
        continue;
      for (size_t s = 0; s < 3; s++) {
        graph_fixture_t f;
        graph_fixture_init(&f);
        (void)size_symbol(&f, 3);
        (void)size_symbol(&f, 3);
        dt_node_id_t id = add_example(&f, (dt_op_t)op, (dt_dtype_t)dtype);
        bool by_data = (op >= DT_OP_gather && op <= DT_OP_scatter_nd) || op == DT_OP_compress ||
                       op == DT_OP_nonzero ||
                       op == DT_OP_masked_select; // what any data is not good for
        if (id.id && !by_data) {
          expect_ok(dt__graph_add_output(f.graph, id));
          unsigned char bytes[256];
          for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char)(k % 2);
          dt_eval_arg_t args[4];
          int64_t dims[4][3], strides[4][3];
          for (uint32_t k = 0; k < f.graph->inputs.len; k++) {
            const dt_graph_input_t *in = &f.graph->inputs.items[k];
            const int64_t symbols[2] = {sizes[s], 2};
            for (uint32_t d = 0; d < in->rank; d++) {
              assert_true(dt__sym_eval(f.env, in->sizes[d], symbols, &dims[k][d]));
              assert_true(dt__sym_eval(f.env, in->strides[d], symbols, &strides[k][d]));
            }
            args[k] = (dt_eval_arg_t){bytes, dims[k], strides[k]};
          }
          parsed_t p = {.arena = f.arena, .env = f.env, .graph = f.graph};
          dt_eval_value_t got = evaluate(&p, (int64_t[]){sizes[s], 2}, args);
          assert_int_equal(got.dtype, dt__graph_node(f.graph, id)->dtype);
          if (op == DT_OP_where)
            assert_int_equal(got.count, sizes[s] * 4);
          f.arena = p.arena;
        }
        graph_fixture_fini(&f);
      }
    }
  }
}

static void test_strided(void **state) {
  (void)state;
  parsed_t p;
  parse(&p, "graph (s0: [0, 9], s1: [0, 9], n2: [-99, 99], n3: [-99, 99]) {"
            "  %1 = input \"x\" i16[s0, s1] strides [n2, n3]"
            "  return %1 }");
  int16_t data[12];
  for (int16_t k = 0; k < 12; k++)
    data[k] = k;
  int64_t sizes[2] = {2, 3};
  static const struct {
    int64_t strides[2], base, want[6];
  } cases[] = {
      {{3, 1}, 0, {0, 1, 2, 3, 4, 5}},      {{1, 2}, 0, {0, 2, 4, 1, 3, 5}},
      {{-6, -1}, 11, {11, 10, 9, 5, 4, 3}}, {{0, 4}, 1, {1, 5, 9, 1, 5, 9}},
      {{0, 0}, 7, {7, 7, 7, 7, 7, 7}},
  };
  for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
    dt_eval_arg_t arg = {data + cases[c].base, sizes, cases[c].strides};
    int64_t symbols[4] = {2, 3, cases[c].strides[0], cases[c].strides[1]};
    dt_eval_value_t got = evaluate(&p, symbols, &arg);
    for (int64_t k = 0; k < 6; k++)
      assert_int_equal(got.data[k].i, cases[c].want[k]);
  }
  int64_t none[2] = {0, 3}, strides[2] = {3, 1};
  dt_eval_arg_t empty = {NULL, none, strides};
  assert_int_equal(evaluate(&p, (int64_t[]){0, 3, 3, 1}, &empty).count, 0);
  release(&p);
}

static void check_refused(const char *text, const int64_t *symbols, const dt_eval_arg_t *args,
                          dt_code_t code, const char *part) {
  parsed_t p;
  dt_eval_value_t out;
  parse(&p, text);
  expect_told(dt__graph_eval(p.graph, symbols, args, NULL, &p.arena, &out), code, part);
  release(&p);
}

static void test_refusals(void **state) {
  (void)state;
  static const char gather[] = "graph () { %1 = constant \"x\" f32[2] key 1 data [1, 2] "
                               "%2 = constant \"i\" i64[2] key 2 data [0, INDEX] "
                               "%3 = gather %1, %2 {axes = [0]} : f32[2] return %3 }";
  static const char *const indices[] = {"2", "-3", "9223372036854775807"};
  for (size_t k = 0; k < 3; k++) {
    char text[512];
    const char *at = strstr(gather, "INDEX");
    dt_text_t made;
    dt__text_init(&made);
    dt__text_write(&made, gather, (size_t)(at - gather));
    dt__text_put(&made, indices[k]);
    dt__text_put(&made, at + 5);
    assert_true(made.len < sizeof(text));
    memcpy(text, dt__text_str(&made), made.len + 1);
    dt__text_fini(&made);
    check_refused(text, NULL, NULL, DT_E_RANGE, "(element 1) is not in [-2, 2)");
  }
  float data[4] = {0};
  int64_t sizes[1] = {3}, strides[1] = {1}, five = 5;
  dt_eval_arg_t arg = {data, sizes, strides};
  check_refused("graph (s0: [0, 9]) { %1 = input \"x\" f32[s0] strides [1] return %1 }", &five,
                &arg, DT_E_SHAPE, "argument 0: size 0 is 3, the symbols' values say 5");
  check_refused("graph (u0: [0, 9]) { assert u0 <= 4 \"at most four\" "
                "%1 = scalar {dtype = f32, value = 1} : f32[] return %1 }",
                &five, NULL, DT_E_SHAPE, "assert failed: at most four");
  int64_t large = INT64_C(1) << 32;
  check_refused("graph (s0: [0, 140737488355327]) { %1 = iota {dtype = i8, axes = [0], syms = "
                "[s0]} : i8[s0] return %1 }",
                &large, NULL, DT_E_LIMIT, "elements");
  // Values that break guards of the graph.
  check_refused("graph (s0: [0, 9], s1: [0, 9]) { %1 = iota {dtype = i8, axes = [0], syms = [s0]} "
                ": i8[s0] %2 = iota {dtype = i8, axes = [0], syms = [s1]} : i8[s1] "
                "%3 = add %1, %2 : i8[s0] return %3 }",
                (int64_t[]){2, 3}, NULL, DT_E_SHAPE, "break a guard");
  check_refused("graph (s0: [0, 9]) { %1 = iota {dtype = i8, axes = [0], syms = [4]} : i8[4] "
                "%2 = slice %1 {syms = [s0, 2], steps = [1]} : i8[2] return %2 }",
                (int64_t[]){3}, NULL, DT_E_SHAPE, "outside the input");
  // A value that no output needs is not evaluated.
  parsed_t p;
  parse(&p, "graph () { %1 = constant \"x\" f32[1] key 1 data [5] "
            "%2 = constant \"i\" i64[1] key 2 data [9] "
            "%3 = gather %1, %2 {axes = [0]} : f32[1] return %1 }");
  assert_true(evaluate(&p, NULL, NULL).data[0].f == 5);
  release(&p);
}

// Reads, checks and evaluates a graph; the status of whatever fails first.
static dt_status_t whole_way(const char *text) {
  parsed_t p = {.env = NULL};
  dt_scan_t scan;
  dt__arena_init(&p.arena, 256);
  dt__scan_init(&scan, text, strlen(text), "test");
  int64_t sizes[2] = {2, 4}, strides[2] = {4, 1}, symbol = 2;
  float data[8] = {0};
  const dt_eval_arg_t arg = {data, sizes, strides};
  const dt_eval_options_t options = {.error_bounds = true};
  dt_eval_value_t out;
  dt_status_t status = dt__symenv_create(&p.env);
  if (!status)
    status = dt__graph_parse(&p.arena, p.env, &scan, &p.graph);
  if (!status)
    status = dt__graph_verify(p.graph);
  if (!status)
    status = dt__graph_eval(p.graph, &symbol, &arg, &options, &p.arena, &out);
  release(&p);
  return status;
}

// Every allocation fails once: always a clean status.
static void test_no_memory(void **state) {
  (void)state;
  static const char text[] =
      "graph (s0: [0, 99] hint 2) { %1 = input \"x\" f32[s0, 4] strides [4, 1] contiguous "
      "%2 = reshape %1 {syms = [s0*2, 2]} : f32[s0*2, 2] "
      "%3 = slice %2 {syms = [0, 2, 1, 1], steps = [1, 1]} : f32[2, 1] "
      "%4 = softmax %1 {axes = [1]} : f32[s0, 4] "
      "%5 = sum %4 {axes = [0], keepdims = 0} : f32[4] return %5 }";
  expect_ok(whole_way(text));
  (void)dt__heap_fail_at(UINT64_MAX, false);
  expect_ok(whole_way(text));
  uint64_t allocations = dt__heap_fail_at(0, false);
  assert_true(allocations > 10);
  for (uint64_t n = 1; n <= allocations; n++) {
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = whole_way(text);
    (void)dt__heap_fail_at(0, false);
    // A failed message buffer is no failure of the work.
    if (status && dt_status_code(status) != DT_E_NO_MEMORY)
      print_error("allocation %llu: %s\n", (unsigned long long)n, dt_status_message(status));
    assert_true(!status || dt_status_code(status) == DT_E_NO_MEMORY);
    dt_status_free(status);
  }
}

RUN_TESTS(TEST(test_leaves), TEST(test_casts), TEST(test_views), TEST(test_reductions),
          TEST(test_composites), TEST(test_matmul), TEST(test_every_op), TEST(test_strided),
          TEST(test_refusals), TEST(test_no_memory))

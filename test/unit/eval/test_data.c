// SPDX-License-Identifier: Apache-2.0
// The evaluator on what reads sizes from data: items bind their symbols before what uses them,
// asserts are made as soon as their newest symbol is bound, and each op's results are those of its
// definition, by hand.
#include "lower/graph/eval.h"
#include "runtime/base/dtype.h"
#include "test/support/graph_fixture.h"

#include <math.h>
#include <string.h>

// Reads, checks and evaluates a graph, with error bounds too; the status of whatever fails first.
static dt_status_t evaluate(const char *text, dt_arena_t *arena, dt_symenv_t **env,
                            dt_eval_value_t *out) {
  dt_scan_t scan;
  dt_graph_t *graph;
  dt_eval_value_t plain;
  int64_t symbols[8] = {0};
  const dt_eval_options_t options = {.error_bounds = true};
  expect_ok(dt__symenv_create(env));
  dt__scan_init(&scan, text, strlen(text), "test");
  dt_status_t status = dt__graph_parse(arena, *env, &scan, &graph);
  if (!status)
    status = dt__graph_verify(graph);
  if (!status)
    status = dt__graph_eval(graph, symbols, NULL, NULL, arena, &plain);
  if (status)
    return status;
  expect_ok(dt__graph_eval(graph, symbols, NULL, &options, arena, out));
  assert_int_equal(out->count, plain.count);
  for (int64_t k = 0; k < out->count; k++)
    assert_true(out->data[k].i == plain.data[k].i ||
                (dt__dtype_is_float(out->dtype) && isnan(out->data[k].f)));
  return NULL;
}

typedef struct text_case_t {
  const char *text;
  uint32_t rank;
  int64_t sizes[2];
  double want[12];
} text_case_t;

static void run_case(const text_case_t *c) {
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_eval_value_t got;
  dt__arena_init(&arena, 0);
  dt_status_t status = evaluate(c->text, &arena, &env, &got);
  if (status)
    print_error("%s\n", c->text);
  expect_ok(status);
  assert_int_equal(got.rank, c->rank);
  for (uint32_t k = 0; k < c->rank; k++)
    assert_int_equal(got.sizes[k], c->sizes[k]);
  for (int64_t k = 0; k < got.count; k++) {
    double value = dt__dtype_is_float(got.dtype) ? got.data[k].f : (double)got.data[k].i;
    if (value != c->want[k] && !(isnan(value) && isnan(c->want[k]))) {
      print_error("%s\nelement %lld: expected %g, got %g\n", c->text, (long long)k, c->want[k],
                  value);
      fail();
    }
  }
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

static void run_cases(const text_case_t *cases, size_t n) {
  for (size_t k = 0; k < n; k++)
    run_case(&cases[k]);
}
#define RUN(cases) run_cases((cases), sizeof(cases) / sizeof((cases)[0]))

static void check_refused(const char *text, dt_code_t code, const char *part) {
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_eval_value_t got;
  dt__arena_init(&arena, 0);
  expect_told(evaluate(text, &arena, &env, &got), code, part);
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
}

// ---- Items --------------------------------------------------------------------------------------
#define ITEM(n) "%1 = constant \"n\" i32[] key 1 data [" #n "] %2 = item %1 {syms = [u0]} : i64[] "

static void test_items(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {"graph (u0: [-9, 9]) {" ITEM(3) "return %2 }", 0, {0}, {3}},
      {"graph (u0: [-9, 9]) {" ITEM(3) "%3 = iota {dtype = i64, axes = [0], syms = [u0]} : i64[u0] "
                                       "return %3 }",
       1,
       {3},
       {0, 1, 2}},
      {"graph (u0: [-9, 9]) {" ITEM(-3) "%3 = size {syms = [u0*2 + 1]} : i64[] return %3 }",
       0,
       {0},
       {-5}},
      // A bool; an unsigned number that wraps.
      {"graph (u0: [0, 1]) { %1 = constant \"b\" bool[] key 1 data [1] "
       "%2 = item %1 {syms = [u0]} : i64[] return %2 }",
       0,
       {0},
       {1}},
      {"graph (u0: [-99, 99]) { %1 = constant \"b\" u64[] key 1 data [-1] "
       "%2 = item %1 {syms = [u0]} : i64[] return %2 }",
       0,
       {0},
       {-1}},
      // No output is made of the item: the symbol in the size needs it.
      {"graph (u0: [0, 9]) {" ITEM(2) "%3 = scalar {dtype = f32, value = 7} : f32[] "
                                      "%4 = reshape %3 {syms = [1]} : f32[1] %5 = expand %4 {syms "
                                      "= [u0]} : f32[u0] return %5 }",
       1,
       {2},
       {7, 7}},
      // Two of them, the second read from data whose size the first is.
      {"graph (u0: [0, 9], u1: [0, 9]) {" ITEM(
           2) "%3 = iota {dtype = i64, axes = [0], syms = [u0]} : i64[u0] "
              "%4 = sum %3 {axes = [0]} : i64[] %5 = item %4 {syms = [u1]} : i64[] "
              "%6 = iota {dtype = i64, axes = [0], syms = [u0 + u1]} : i64[u0 + u1] "
              "assert u0 + u1 == 3 \"three\" return %6 }",
       1,
       {3},
       {0, 1, 2}},
  };
  RUN(cases);
}

static void test_asserts(void **state) {
  (void)state;
  check_refused("graph (u0: [0, 9]) {" ITEM(3) "assert u0 != 3 \"not three\" return %2 }",
                DT_E_SHAPE, "assert failed: not three");
  // One that no output needs is made, too, and says the code it has.
  check_refused("graph (u0: [0, 9]) {" ITEM(3) "%3 = scalar {dtype = i64, value = 1} : i64[] "
                                               "assert u0 != 3 \"not three\" code 5 return %3 }",
                (dt_code_t)5, "not three");
  // Before anything uses the symbol: the size would be refused otherwise.
  check_refused("graph (u0: [-9, 9]) { assert 0 <= u0 \"no size\" " ITEM(
                    -3) "%3 = iota {dtype = i64, axes = [0], syms = [u0]} : i64[u0] return %3 }",
                DT_E_SHAPE, "no size");
  check_refused("graph (u0: [-9, 9]) {" ITEM(-3) "%3 = iota {dtype = i64, axes = [0], syms = [u0]} "
                                                 ": i64[u0] return %3 }",
                DT_E_RANGE, "the data says -3; expected 0 to 9");
}

// What the checker refuses of symbols from data.
static void test_bound_once_before_use(void **state) {
  (void)state;
  check_refused("graph (u0: [0, 9]) { %1 = iota {dtype = i64, axes = [0], syms = [u0]} : i64[u0] "
                "%2 = constant \"n\" i32[] key 1 data [3] %3 = item %2 {syms = [u0]} : i64[] "
                "return %1 }",
                DT_E_FORMAT, "node %1: u0 is used before an item binds it");
  check_refused("graph (u0: [0, 9]) {" ITEM(3) "%3 = item %1 {syms = [u0]} : i64[] return %3 }",
                DT_E_FORMAT, "node %3: u0 is bound twice");
  check_refused("graph (s0: [0, 9]) { %1 = constant \"n\" i32[] key 1 data [3] "
                "%2 = item %1 {syms = [s0]} : i64[] return %2 }",
                DT_E_FORMAT, "must be an unbacked symbol");
  check_refused("graph (u0: [0, 9]) { %1 = constant \"n\" f32[] key 1 data [3] "
                "%2 = item %1 {syms = [u0]} : i64[] return %2 }",
                DT_E_FORMAT, "an integer or bool, got f32");
  check_refused("graph (u0: [0, 9]) { %1 = constant \"n\" i32[1] key 1 data [3] "
                "%2 = item %1 {syms = [u0]} : i64[] return %2 }",
                DT_E_FORMAT, "must have rank 0");
}

// ---- Running sums, searches ---------------------------------------------------------------------
#define SCAN(type, data, attrs)                                                                    \
  "graph () { %1 = constant \"x\" " type " key 1 data [" data "] %2 = cumsum %1 {" attrs           \
  "} : " type " return %2 }"

static void test_cumsum(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {SCAN("i32[4]", "1, 2, 3, 4", "axes = [0], mode = 0"), 1, {4}, {1, 3, 6, 10}},
      {SCAN("i32[4]", "1, 2, 3, 4", "axes = [0], mode = 1"), 1, {4}, {0, 1, 3, 6}},
      {SCAN("i32[4]", "1, 2, 3, 4", "axes = [0], mode = 2"), 1, {4}, {10, 9, 7, 4}},
      {SCAN("f64[4]", "1, 2, 3, 4", "axes = [0], mode = 3"), 1, {4}, {9, 7, 4, 0}},
      {SCAN("f64[4]", "1, 2, 3, 4", "axes = [0], mode = 4"), 1, {4}, {1, 3, 6, 10}},
      {SCAN("i8[3]", "100, 100, 100", "axes = [0], mode = 0"), 1, {3}, {100, -56, 44}},
      {SCAN("f32[2, 3]", "1, 2, 3, 4, 5, 6", "axes = [0], mode = 0"),
       2,
       {2, 3},
       {1, 2, 3, 5, 7, 9}},
      {SCAN("f32[2, 3]", "1, 2, 3, 4, 5, 6", "axes = [1], mode = 0"),
       2,
       {2, 3},
       {1, 3, 6, 4, 9, 15}},
      {SCAN("f64[4]", "1, inf, -inf, 1", "axes = [0], mode = 0"), 1, {4}, {1, INFINITY, NAN, NAN}},
      {"graph () { %1 = constant \"x\" f32[2, 0] key 1 %2 = cumsum %1 {axes = [1]} : f32[2, 0] "
       "return %2 }",
       2,
       {2, 0},
       {0}},
  };
  RUN(cases);
}

#define SEARCH(sorted, n, values, m, type, mode)                                                   \
  "graph () { %1 = constant \"x\" " type "[" n "] key 1 data [" sorted                             \
  "] %2 = constant \"v\" " type "[" m "] key 2 data [" values                                      \
  "] %3 = searchsorted %1, %2 {mode = " mode "} : i64[" m "] return %3 }"

static void test_searchsorted(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {SEARCH("1, 3, 3, 5", "4", "0, 1, 3, 4, 9", "5", "i32", "0"), 1, {5}, {0, 0, 1, 3, 4}},
      {SEARCH("1, 3, 3, 5", "4", "0, 1, 3, 4, 9", "5", "i32", "1"), 1, {5}, {0, 1, 3, 3, 4}},
      {SEARCH("-inf, 0, inf", "3", "-inf, inf, nan, 0.5", "4", "f32", "0"), 1, {4}, {0, 2, 0, 2}},
      {SEARCH("-inf, 0, inf", "3", "-inf, inf, nan, 0.5", "4", "f32", "1"), 1, {4}, {1, 3, 0, 2}},
      {SEARCH("1, 200", "2", "3, 255, 0, 200", "2, 2", "u8", "0"), 2, {2, 2}, {1, 2, 0, 1}},
      {"graph () { %1 = constant \"x\" i32[0] key 1 %2 = constant \"v\" i32[2] key 2 data [1, 2] "
       "%3 = searchsorted %1, %2 {mode = 0} : i64[2] return %3 }",
       1,
       {2},
       {0, 0}},
  };
  RUN(cases);
}

// ---- Selections ---------------------------------------------------------------------------------
#define MASK "%1 = constant \"m\" bool[2, 3] key 1 data [0, 1, 1, 0, 0, 1] "
#define X "%2 = constant \"x\" f32[2, 3] key 2 data [1, 2, 3, 4, 5, 6] "
#define PLACES(...) "%3 = constant \"p\" i64[2, 3] key 3 data [" #__VA_ARGS__ "] "

static void test_selections(void **state) {
  (void)state;
  static const text_case_t cases[] = {
      {"graph () {" MASK "%2 = nonzero %1 {syms = [3]} : i64[3, 2] return %2 }",
       2,
       {3, 2},
       {0, 1, 0, 2, 1, 2}},
      {"graph () { %1 = constant \"x\" f32[5] key 1 data [0, -0, nan, 2, 0] "
       "%2 = nonzero %1 {syms = [2]} : i64[2, 1] return %2 }",
       2,
       {2, 1},
       {2, 3}},
      {"graph () { %1 = constant \"x\" i8[] key 1 data [5] "
       "%2 = nonzero %1 {syms = [1]} : i64[1, 0] return %2 }",
       2,
       {1, 0},
       {0}},
      {"graph () {" MASK X "%3 = masked_select %2, %1 {syms = [3]} : f32[3] return %3 }",
       1,
       {3},
       {2, 3, 6}},
      {"graph () {" MASK X PLACES(9, 2, 0, 9, 9, 1) "%4 = compress %1, %3, %2, %2 {syms = [3]} : "
                                                    "f32[3, 2] return %4 }",
       2,
       {3, 2},
       {3, 3, 6, 6, 2, 2}},
  };
  RUN(cases);
  static const char *const counts[][2] = {
      {"graph () {" MASK "%2 = nonzero %1 {syms = [2]} : i64[2, 2] return %2 }", "more"},
      {"graph () {" MASK "%2 = nonzero %1 {syms = [4]} : i64[4, 2] return %2 }", "fewer"},
      {"graph () {" MASK X "%3 = masked_select %2, %1 {syms = [2]} : f32[2] return %3 }", "more"},
      {"graph () {" MASK X "%3 = masked_select %2, %1 {syms = [4]} : f32[4] return %3 }", "fewer"},
      {"graph () {" MASK X PLACES(0, 0, 1, 0, 0, 2) "%4 = compress %1, %3, %2 {syms = [4]} : "
                                                    "f32[4, 1] return %4 }",
       "not every row"},
  };
  for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
    check_refused(counts[k][0], DT_E_SHAPE, counts[k][1]);
  check_refused(
      "graph () {" MASK X PLACES(0, 0, 0, 0, 0, 2) "%4 = compress %1, %3, %2 {syms = [3]} "
                                                   ": f32[3, 1] return %4 }",
      DT_E_RANGE, "place 0 (element 2)");
  check_refused(
      "graph () {" MASK X PLACES(0, 0, 1, 0, 0, 3) "%4 = compress %1, %3, %2 {syms = [3]} "
                                                   ": f32[3, 1] return %4 }",
      DT_E_RANGE, "place 3 (element 5)");
}

RUN_TESTS(TEST(test_items), TEST(test_asserts), TEST(test_bound_once_before_use), TEST(test_cumsum),
          TEST(test_searchsorted), TEST(test_selections))

// SPDX-License-Identifier: Apache-2.0
// Graphs within nodes: branches, loops, scans, recurrent networks, sequences, functions of a model.
// Compiled code against the evaluator at several sizes, and against the definition where that is a
// few lines of C.
#include "test/support/fixture.h"

#include "ductile/onnx.h"
#include "test/unit/frontends/onnx_text.h"

#include <math.h>
#include <stdio.h>

// ---- Texts ----------------------------------------------------------------------------------------
#define MODEL(graph) "ir_version 8 opset_import { version 18 } graph { " graph "} "
#define TYPE(dims) "type { tensor_type { elem_type 1 shape { " dims "} } } "
#define NAME(n) "dim { dim_param '" n "' } "
#define SIZE(n) "dim { dim_value " #n " } "
#define IN(n, dims) "input { name '" n "' " TYPE(dims) "} "
#define ANY_IN(n) "input { name '" n "' } "
#define OUT(n) "output { name '" n "' } "
#define I(n) "input '" n "' "
#define O(n) "output '" n "' "
#define NODE(op, rest) "node { op_type '" op "' " rest "} "
#define NODE1(op, a, out) NODE(op, I(a) O(out))
#define NODE2(op, a, b, out) NODE(op, I(a) I(b) O(out))
#define INT(n, value) "attribute { name '" n "' type 2 i " #value " } "
#define INTS(n, values) "attribute { name '" n "' type 7 ints [" values "] } "
#define TEXT(n, value) "attribute { name '" n "' type 3 s '" value "' } "
#define GRAPH(n, body) "attribute { name '" n "' type 5 g { name 'inside' " body "} } "
#define FLOATS(n, dims, values)                                                                    \
  "initializer { name '" n "' data_type 1 " dims "float_data [" values "] } "
#define INT64S(n, dims, values)                                                                    \
  "initializer { name '" n "' data_type 7 " dims "int64_data [" values "] } "
#define YES(n) "initializer { name '" n "' data_type 9 int32_data [1] } "
// The number of rows of x.
#define ROWS(x, n)                                                                                 \
  NODE("Shape", I(x) O(n "1") INT("start", 0) INT("end", 1))                                       \
  NODE2("Squeeze", n "1", "zero", n)

// ---- Calls ----------------------------------------------------------------------------------------
typedef struct case_t {
  onnx_bytes_t bytes;
  dt_onnx_t *model;
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *functions[2]; // compiled, evaluator
} case_t;

static dt_status_t create(case_t *c, const char *text) {
  *c = (case_t){.bytes = onnx_make(&dt__onnx_model_message, text)};
  dt_status_t status = NULL;
  expect_ok(dt_onnx_open_memory(c->bytes.data, c->bytes.len, NULL, &c->model));
  c->runtime = runtime_of(0);
  c->session = session_of(c->runtime);
  for (int k = 0; k < 2 && !status; k++) {
    const dt_function_options_t about = {.struct_size = sizeof(about),
                                         .answer = k ? DT_ANSWER_EVALUATOR : compiled_answer()};
    const dt_onnx_function_options_t options = {.struct_size = sizeof(options), .function = &about};
    status = dt_onnx_function_create(c->runtime, c->model, &options, &c->functions[k]);
  }
  return status;
}

static void end(case_t *c) {
  dt_function_release(c->functions[0]);
  dt_function_release(c->functions[1]);
  dt_session_destroy(c->session);
  dt_runtime_release(c->runtime);
  dt_onnx_close(c->model);
  onnx_free(&c->bytes);
}

// Values in [-1, 1] that differ from one another.
static dt_tensor_t *floats(uint32_t rank, const int64_t *sizes, unsigned seed) {
  dt_tensor_t *x = NULL;
  assert_null(dt_tensor_create_empty(DT_F32, rank, sizes, &x));
  for (int64_t k = 0; k < dt_tensor_count(x); k++) {
    seed = seed * 1103515245u + 12345u;
    ((float *)dt_tensor_data(x))[k] = (float)((seed >> 8) % 4001u) / 2000.0f - 1.0f;
  }
  return x;
}

static double at(const dt_tensor_t *x, int64_t k) {
  const void *data = dt_tensor_data(x);
  switch (dt_tensor_dtype(x)) {
  case DT_F32:
    return (double)((const float *)data)[k];
  case DT_I64:
    return (double)((const int64_t *)data)[k];
  default:
    return ((const uint8_t *)data)[k];
  }
}

static void assert_near(double got, double want, double by) {
  if (!(fabs(got - want) <= by))
    fail_msg("%.9g; expected %.9g", got, want);
}

static void assert_same(const dt_tensor_t *got, const dt_tensor_t *want, uint32_t output) {
  assert_int_equal(dt_tensor_dtype(got), dt_tensor_dtype(want));
  assert_int_equal(dt_tensor_rank(got), dt_tensor_rank(want));
  for (uint32_t k = 0; k < dt_tensor_rank(got); k++)
    assert_int_equal(dt_tensor_sizes(got)[k], dt_tensor_sizes(want)[k]);
  for (int64_t k = 0; k < dt_tensor_count(got); k++) {
    double a = at(got, k), b = at(want, k);
    if (!(fabs(a - b) <= 1e-5 * (1 + fabs(b))))
      fail_msg("output %u, element %lld: %g, the evaluator has %g", output, (long long)k, a, b);
  }
}

#define MOST 4
static void answer(case_t *c, uint32_t n_in, dt_tensor_t **in, dt_tensor_t **out) {
  dt_tensor_t *other[MOST] = {NULL};
  uint32_t n_out = dt_onnx_n_outputs(c->model);
  assert_true(n_out <= MOST);
  for (int k = 0; k < 2; k++)
    expect_ok(dt_call(c->session, c->functions[k], in, n_in, k ? other : out, n_out, NULL));
  for (uint32_t k = 0; k < n_out; k++) {
    assert_same(out[k], other[k], k);
    dt_tensor_release(other[k]);
  }
}

// Inputs are x [n, 3] of different n.
typedef void (*want_t)(const float *x, int64_t n, const dt_tensor_t *const *out);

static void run_from(int64_t least, const char *text, want_t want) {
  static const int64_t rows[] = {4, 1, 2, 11, 4, 0};
  case_t c;
  expect_ok(create(&c, text));
  for (unsigned k = 0; k < sizeof(rows) / sizeof(rows[0]) && rows[k] >= least; k++) {
    const int64_t sizes[2] = {rows[k], 3};
    dt_tensor_t *x = floats(2, sizes, k), *out[MOST] = {NULL};
    answer(&c, 1, &x, out);
    if (want)
      want(dt_tensor_data(x), rows[k], (const dt_tensor_t *const *)out);
    dt_tensor_release(x);
    release_tensors(out, MOST);
  }
  end(&c);
}

static void run(const char *text, want_t want) { run_from(0, text, want); }

static void refuse(const char *text, dt_code_t code, const char *message) {
  case_t c;
  const int64_t sizes[2] = {4, 3};
  dt_tensor_t *x = floats(2, sizes, 1), *out[MOST] = {NULL};
  dt_status_t status = create(&c, text);
  if (!status)
    status = dt_call(c.session, c.functions[0], &x, 1, out, dt_onnx_n_outputs(c.model), NULL);
  expect_told(status, code, message);
  dt_tensor_release(x);
  end(&c);
}

#define X IN("x", NAME("n") SIZE(3))
#define CONSTANTS                                                                                  \
  FLOATS("w", "dims 3 ", "1 2 3")                                                                  \
  FLOATS("fz", "", "0") INT64S("zero", "dims 1 ", "0") YES("yes")

// ---- If -------------------------------------------------------------------------------------------
// Constants made in one branch are read in the other, in branches within, and behind the node.
#define PREDICATE(x, p)                                                                            \
  NODE("ReduceSum", I(x) O(p "s") INT("keepdims", 0)) NODE2("Greater", p "s", "fz", p)
static void want_if(const float *x, int64_t n, const dt_tensor_t *const *out) {
  double sum = 0;
  for (int64_t k = 0; k < 3 * n; k++)
    sum += (double)x[k];
  for (int64_t k = 0; k < 3 * n; k++) {
    double w = (double)(k % 3) + 1, y = (double)x[k];
    y = sum > 0 ? y + w : y * w;
    assert_near(at(out[0], k), y, 1e-5);
    assert_near(at(out[1], k), y + w, 1e-5);
  }
}

static void test_if_by_data(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS PREDICATE("x", "p")
                NODE("If", I("p") O("y") GRAPH("then_branch", NODE2("Add", "x", "w", "a") OUT("a"))
                               GRAPH("else_branch", NODE2("Mul", "x", "w", "b") OUT("b")))
                    NODE2("Add", "y", "w", "z") OUT("y") OUT("z")),
      want_if);
  run(MODEL(X CONSTANTS PREDICATE("x", "p") NODE(
          "If",
          I("p") O("y") GRAPH("then_branch", NODE2("Add", "x", "w", "a") OUT("a")) GRAPH(
              "else_branch",
              NODE2("Mul", "x", "w", "b") PREDICATE("b", "q") NODE(
                  "If", I("q") O("c") GRAPH("then_branch", NODE1("Identity", "b", "d") OUT("d"))
                            GRAPH("else_branch", NODE2("Sub", "b", "fz", "e") OUT("e"))) OUT("c")))
                NODE2("Add", "y", "w", "z") OUT("y") OUT("z")),
      want_if);
}

// Nodes that stand before what they read, also within a branch.
static void test_unsorted(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS NODE2("Add", "y", "w", "z")
                NODE("If", I("p") O("y") GRAPH("then_branch", NODE2("Add", "x2", "w2", "a") NODE1(
                                                                  "Identity", "w", "w2") OUT("a"))
                               GRAPH("else_branch", NODE2("Mul", "x2", "w", "b") OUT("b")))
                    NODE1("Identity", "x", "x2") PREDICATE("x2", "p") OUT("y") OUT("z")),
      want_if);
}

// Branches of different rank where sizes decide.
static void want_rank(const float *x, int64_t n, const dt_tensor_t *const *out) {
  assert_int_equal(dt_tensor_rank(out[0]), n == 1 ? 1 : 2);
  if (n > 0)
    assert_near(at(out[0], 0), (double)x[0], 0);
}

static void test_if_by_size(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS INT64S("one", "", "1") ROWS("x", "n") NODE2("Equal", "n", "one", "p") NODE(
          "If", I("p") O("y") GRAPH("then_branch", NODE2("Squeeze", "x", "zero", "a") OUT("a"))
                    GRAPH("else_branch", NODE1("Identity", "x", "b") OUT("b"))) OUT("y")),
      want_rank);
}

static void test_if_refused(void **state) {
  (void)state;
  refuse(MODEL(X CONSTANTS PREDICATE("x", "p") NODE(
             "If", I("p") O("y") GRAPH("then_branch", NODE1("SequenceConstruct", "x", "a") OUT("a"))
                       GRAPH("else_branch", NODE1("SequenceConstruct", "w", "b") OUT("b")))
                   NODE1("SequenceLength", "y", "l") OUT("l")),
         DT_E_UNSUPPORTED, "output 0 is a sequence or optional that data choose");
  refuse(MODEL(X CONSTANTS PREDICATE("x", "p") NODE(
             "If", I("p") O("y") GRAPH("then_branch", NODE1("Identity", "x", "a") OUT("a"))
                       GRAPH("else_branch", NODE1("Identity", "w", "b") OUT("b"))) OUT("y")),
         DT_E_SHAPE, "If, operator set 18");
}

// ---- Loop -----------------------------------------------------------------------------------------
#define LOOP_IN(more) ANY_IN("i") ANY_IN("go") more
#define GO NODE1("Identity", "go", "go_on") OUT("go_on")

static void want_sums(const float *x, int64_t n, const dt_tensor_t *const *out) {
  double sum[3] = {1, 2, 3};
  assert_int_equal(dt_tensor_sizes(out[1])[0], n);
  for (int64_t k = 0; k < 3 * n; k++) {
    sum[k % 3] += (double)x[k];
    assert_near(at(out[1], k), sum[k % 3], 1e-4);
  }
  for (int64_t k = 0; k < 3; k++)
    assert_near(at(out[0], k), sum[k], 1e-4);
}

// A row of x by the trip's number: as an index, and as a bound of a slice, which a number must be.
static void test_loop_over_rows(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS ROWS("x", "n") NODE(
          "Loop",
          I("n") I("yes") I("w") O("t") O("y") GRAPH(
              "body", LOOP_IN(ANY_IN("s")) NODE("Gather", I("x") I("i") O("r") INT("axis", 0))
                          NODE2("Add", "s", "r", "so") GO OUT("so") OUT("so"))) OUT("t") OUT("y")),
      want_sums);
  // Of no rows the slice below is no row.
  run_from(1,
           MODEL(X CONSTANTS ROWS("x", "n") INT64S("one", "dims 1 ", "1") NODE(
               "Loop", I("n") I("") I("w") O("t") O("y") GRAPH(
                           "body", LOOP_IN(ANY_IN("s")) NODE2("Unsqueeze", "i", "zero",
                                                              "at") NODE2("Add", "at", "one", "to")
                                       NODE("Slice", I("x") I("at") I("to") I("zero") O("q")) NODE2(
                                           "Squeeze", "q", "zero", "r") NODE2("Add", "s", "r", "so")
                                           GO OUT("so") OUT("so"))) OUT("t") OUT("y")),
           want_sums);
}

// Data end it: s doubles until its sum is above a bound; a row for each trip.
static void want_doubled(const float *x, int64_t n, const dt_tensor_t *const *out) {
  (void)x, (void)n;
  assert_int_equal(dt_tensor_sizes(out[1])[0], 3);
  for (int64_t k = 0; k < 9; k++)
    assert_near(at(out[1], k), (double)(k % 3 + 1) * (double)(2 << (k / 3)), 1e-5);
  assert_near(at(out[2], 0), 3, 0);
}

static void test_loop_by_data(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS INT64S("most", "", "20") INT64S("one", "", "1") INT64S("none", "", "0")
                FLOATS("bound", "", "40")
                    NODE("Loop",
                         I("most") I("yes") I("w") I("none") O("t") O("count") O("y") GRAPH(
                             "body", LOOP_IN(ANY_IN("s") ANY_IN("k")) NODE2("Add", "s", "s", "so")
                                         NODE("ReduceSum", I("so") O("sum") INT("keepdims", 0))
                                             NODE2("Less", "sum", "bound", "go_on")
                                                 NODE2("Add", "k", "one", "ko") OUT("go_on")
                                                     OUT("so") OUT("ko") OUT("so")))
                        NODE2("Add", "x", "t", "z") OUT("z") OUT("y") OUT("count")),
      want_doubled);
}

// Data say how many trips there may be, none too, and end it.
static void want_bounded(const float *x, int64_t n, const dt_tensor_t *const *out) {
  float sum = 0;
  for (int64_t k = 0; k < 3 * n; k++)
    sum += fabsf(x[k]);
  assert_int_equal(dt_tensor_sizes(out[0])[0], (int64_t)sum);
  for (int64_t k = 0; k < (int64_t)sum; k++)
    assert_near(at(out[0], k), (double)k, 0);
}

static void test_loop_bounded_by_data(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS FLOATS("none_yet", "", "0") NODE1("Abs", "x", "size")
                NODE("ReduceSum", I("size") O("all") INT("keepdims", 0))
                    NODE("Cast", I("all") O("most") INT("to", 7)) NODE(
                        "Loop", I("most") I("yes") I("w") O("t") O("y") GRAPH(
                                    "body", LOOP_IN(ANY_IN("s")) NODE2("Add", "s", "s", "so") NODE(
                                                "ReduceMin", I("so") O("least") INT("keepdims", 0))
                                                NODE2("Less", "none_yet", "least", "go_on")
                                                    OUT("go_on") OUT("so") OUT("i"))) OUT("y")),
      want_bounded);
}

// No trip count: the condition compares a counter with a number, as exporters of other frameworks'
// loops write it. k counts from `start`; a row is k.
typedef struct counted_t {
  const char *first, *start, *next, *condition; // nodes, and the first two names
  int64_t (*start_of)(int64_t n);
  int64_t step;
  bool (*goes_on)(int64_t k, int64_t i, int64_t n); // k as it is behind trip i
  bool (*begins)(int64_t n);
} counted_t;

static int64_t from_0(int64_t n) { return n * 0; }
static int64_t from_1(int64_t n) { return 1 + n * 0; }
static int64_t from_n(int64_t n) { return n; }
static bool always(int64_t n) { return n >= 0; }
static bool above_1(int64_t n) { return n > 1; }
static bool below_n(int64_t k, int64_t i, int64_t n) { return i >= 0 && k < n; }
static bool up_to_n(int64_t k, int64_t i, int64_t n) { return i >= 0 && k <= n; }
static bool above_0(int64_t k, int64_t i, int64_t n) { return i >= 0 && n >= 0 && k > 0; }
static bool few(int64_t k, int64_t i, int64_t n) { return i >= 0 && k < n && 6 * k < 20; }
static bool index_below(int64_t k, int64_t i, int64_t n) { return k >= 0 && i + 1 < n; }

#define UP NODE2("Add", "k", "one", "ko")
#define AS_F32(x, y) NODE("Cast", I(x) O(y) INT("to", 1))
static const counted_t counted[] = {
    {"yes", "none", UP, AS_F32("ko", "a") AS_F32("n", "b") NODE2("Less", "a", "b", "g"), from_0, 1,
     below_n, always},
    {"yes", "one", NODE2("Add", "two", "k", "ko"), NODE2("GreaterOrEqual", "n", "ko", "g"), from_1,
     2, up_to_n, always},
    {"yes", "n", NODE2("Sub", "k", "one", "ko"), NODE2("Greater", "ko", "none", "g"), from_n, -1,
     above_0, always},
    {"yes", "none", UP, NODE2("Add", "i", "one", "j") NODE2("Less", "j", "n", "g"), from_0, 1,
     index_below, always},
    {"yes", "none", UP,
     AS_F32("ko", "f") NODE2("Mul", "w", "f", "wf")
         NODE("ReduceSum", I("wf") O("q") INT("keepdims", 0)) NODE2("Less", "q", "bound", "e")
             NODE2("Less", "ko", "n", "d") NODE2("And", "d", "e", "g"),
     from_0, 1, few, always},
    {"more", "one", UP, NODE2("Less", "ko", "n", "g"), from_1, 1, below_n, above_1},
};
static const counted_t *counting; // what `run` is at

static void want_counted(const float *x, int64_t n, const dt_tensor_t *const *out) {
  (void)x;
  int64_t k = counting->start_of(n), trips = 0;
  for (bool on = counting->begins(n); on; trips++) {
    assert_true(trips < dt_tensor_sizes(out[1])[0]);
    assert_near(at(out[1], trips), (double)k, 0);
    k += counting->step;
    on = counting->goes_on(k, trips, n);
  }
  assert_int_equal(dt_tensor_sizes(out[1])[0], trips);
  assert_near(at(out[0], 0), (double)k, 0);
}

static void test_loop_counted(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
    counting = &counted[i];
    char text[4096];
    (void)snprintf(
        text, sizeof(text),
        MODEL(X CONSTANTS ROWS("x", "n") INT64S("one", "", "1") INT64S("two", "", "2") INT64S(
            "none", "", "0") FLOATS("bound", "", "20") NODE2("Less", "one", "n", "more")
                  NODE("Loop",
                       I("") I("%s") I("%s") O("t") O("y") GRAPH(
                           "body", LOOP_IN(ANY_IN("k")) "%s"
                                                        "%s" NODE1("Identity", "g", "go_on")
                                                            NODE1("Identity", "k", "row")
                                                                OUT("go_on") OUT("ko") OUT("row")))
                      OUT("t") OUT("y")),
        counting->first, counting->start, counting->next, counting->condition);
    run(text, want_counted);
  }
}

// A branch in a loop in a loop; constants of the bodies are read behind them.
static void test_loops_within(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS ROWS("x", "n") INT64S("three", "", "3") NODE(
          "Loop",
          I("n") I("yes") I("w") O("t") O("y") GRAPH(
              "body",
              LOOP_IN(ANY_IN("s")) NODE("Gather", I("x") I("i") O("r") INT("axis", 0))
                  NODE("Loop",
                       I("n") I("yes") I("r") O("so") GRAPH(
                           "body",
                           "input { name 'j' } input { name 'go2' } input { name 'u' } " NODE2(
                               "Mul", "u", "w", "v") PREDICATE("v", "q")
                               NODE("If",
                                    I("q") O("c") GRAPH("then_branch",
                                                        NODE2("Sub", "u", "w", "d") OUT("d"))
                                        GRAPH("else_branch", NODE2("Add", "u", "s", "e") OUT("e")))
                                   NODE1("Identity", "go2", "go3") OUT("go3") OUT("c")))
                      GO OUT("so") OUT("so"))) NODE2("Mul", "t", "w", "z") OUT("z") OUT("y")),
      NULL);
}

static void test_loop_refused(void **state) {
  (void)state;
  refuse(MODEL(X CONSTANTS ROWS("x", "n")
                   NODE("Loop", I("n") I("yes") I("w") O("t") GRAPH(
                                    "body", LOOP_IN(ANY_IN("s"))
                                                NODE("Concat", I("s") I("w") O("so") INT("axis", 0))
                                                    GO OUT("so"))) OUT("t")),
         DT_E_SHAPE, "Loop, operator set 18");
  refuse(MODEL(X CONSTANTS NODE("Loop",
                                I("") I("yes") I("w") O("t") O("y")
                                    GRAPH("body", LOOP_IN(ANY_IN("s")) NODE2("Add", "s", "s", "so")
                                                      PREDICATE("so", "go_on") OUT("go_on")
                                                          OUT("so") OUT("so"))) OUT("t") OUT("y")),
         DT_E_UNSUPPORTED, "scan outputs of a loop without a trip count that bounds their rows");
}

// ---- Scan -----------------------------------------------------------------------------------------
static void want_scan(const float *x, int64_t n, const dt_tensor_t *const *out) {
  for (int64_t k = 0; k < 3; k++) {
    double sum = (double)k + 1;
    for (int64_t r = n - 1; r >= 0; r--) { // from the last row on, and rows back to where they were
      sum += (double)x[3 * r + k];
      assert_near(at(out[1], k * n + r), sum, 1e-4);
    }
    assert_near(at(out[0], k), sum, 1e-4);
  }
}

static void test_scan(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS NODE(
          "Scan",
          I("w") I("x") O("t") O("y") INT("num_scan_inputs", 1) INTS("scan_input_directions", "1")
              INTS("scan_output_directions", "1") INTS("scan_output_axes", "1")
                  GRAPH("body", ANY_IN("s") ANY_IN("r") NODE2("Add", "s", "r", "so") OUT("so")
                                    OUT("so"))) OUT("t") OUT("y")),
      want_scan);
}

// ---- Recurrent networks ---------------------------------------------------------------------------
// One direction of two is the other's mirror: the same weights, x with all rows in opposite order.
#define LSTM_WEIGHTS                                                                               \
  "0.5 -0.25 0.25 0.75 0.1 -0.5 0.2 -0.3 "                                                         \
  "0.6 -0.4 0.7 0.15 "
static void want_mirror(const float *x, int64_t n, const dt_tensor_t *const *out) {
  (void)x;
  double c = 0, h = 0; // the first direction, from W = the first 12 weights and R = their first 4
  static const double w[12] = {.5, -.25, .25, .75, .1, -.5, .2, -.3, .6, -.4, .7, .15};
  for (int64_t t = 0; t < n; t++) {
    double g[4];
    for (int k = 0; k < 4; k++) {
      g[k] = w[k] * h;
      for (int i = 0; i < 3; i++)
        g[k] += w[3 * k + i] * (double)x[3 * t + i];
    }
    double i = 1 / (1 + exp(-g[0])), o = 1 / (1 + exp(-g[1])), f = 1 / (1 + exp(-g[2]));
    c = f * c + i * tanh(g[3]);
    h = o * tanh(c);
    assert_near(at(out[0], 2 * t), h, 1e-5); // [n, 2, 1, 1]
  }
  assert_near(at(out[1], 0), h, 1e-5);
  assert_near(at(out[2], 0), c, 1e-5);
}

static void test_lstm(void **state) {
  (void)state;
  run(MODEL(X INT64S("one", "dims 1 ", "1")
                FLOATS("W", "dims 2 dims 4 dims 3 ", LSTM_WEIGHTS LSTM_WEIGHTS)
                    FLOATS("R", "dims 2 dims 4 dims 1 ",
                           "0.5 -0.25 0.25 0.75 "
                           "0.5 -0.25 0.25 0.75") NODE2("Unsqueeze", "x", "one", "x1")
                        NODE("LSTM", I("x1") I("W") I("R") O("Y") O("H") O("C")
                                         TEXT("direction", "bidirectional") INT("hidden_size", 1))
                            OUT("Y") OUT("H") OUT("C")),
      want_mirror);
}

// Sequences of a batch shorter than the longest keep their last state.
static void test_gru_lengths(void **state) {
  (void)state;
  case_t c;
  expect_ok(create(
      &c,
      MODEL("input { name 'x' type { tensor_type { elem_type 1 shape { " NAME("l") NAME("b")
                SIZE(1) "} } } } input { name 'n' type { tensor_type { elem_type 6 shape { " NAME(
                    "b") "} } } } " FLOATS("W", "dims 1 dims 3 dims 1 ", "0.5 -0.25 0.25")
                    FLOATS("R", "dims 1 dims 3 dims 1 ", "0.5 0.75 -0.25")
                        NODE("GRU", I("x") I("W") I("R") I("") I("n") O("Y") O("H")
                                        TEXT("direction", "reverse") INT("hidden_size", 1)
                                            INT("linear_before_reset", 1)) OUT("Y") OUT("H"))));
  for (int64_t batch = 1; batch < 4; batch++) {
    const int64_t length = 2 * batch - 1, sizes[3] = {length, batch, 1};
    dt_tensor_t *in[2] = {floats(3, sizes, (unsigned)batch)}, *out[MOST] = {NULL};
    assert_null(dt_tensor_create_empty(DT_I32, 1, &batch, &in[1]));
    for (int64_t k = 0; k < batch; k++)
      ((int32_t *)dt_tensor_data(in[1]))[k] = (int32_t)(k % length + 1);
    answer(&c, 2, in, out);
    for (int64_t k = 0; k < batch; k++) {
      assert_near(at(out[0], k), at(out[1], k), 0); // of the opposite direction the first
      for (int64_t t = k % length + 1; t < length; t++)
        assert_near(at(out[0], t * batch + k), 0, 0);
    }
    for (uint32_t k = 0; k < 2; k++) {
      RELEASE(in[k], out[k]);
    }
  }
  end(&c);
}

// ---- Sequences ------------------------------------------------------------------------------------
static void want_squares(const float *x, int64_t n, const dt_tensor_t *const *out) {
  assert_near(at(out[1], 0), (double)n + 1, 0);
  assert_int_equal(dt_tensor_sizes(out[0])[0], n + 1);
  for (int64_t k = 0; k < 3 * n; k++)
    assert_near(at(out[0], k + 3), (double)x[k] * (double)x[k], 1e-6);
  for (int64_t k = 0; k < 3; k++)
    assert_near(at(out[0], k), (double)(k + 1) * (double)(k + 1), 1e-6);
}

static void test_sequences(void **state) {
  (void)state;
  run(MODEL(X CONSTANTS INT64S("at", "", "0") NODE("SplitToSequence",
                                                   I("x") O("s") INT("keepdims", 0))
                NODE("SequenceInsert", I("s") I("w") I("at") O("t"))
                    NODE("SequenceMap",
                         I("t") I("fz") O("u")
                             GRAPH("body", ANY_IN("e") ANY_IN("f") NODE2("Mul", "e", "e", "q")
                                               NODE2("Add", "q", "f", "r") OUT("r")))
                        NODE("ConcatFromSequence", I("u") O("y") INT("axis", 0) INT("new_axis", 1))
                            NODE1("SequenceLength", "u", "l") OUT("y") OUT("l")),
      want_squares);
  // Carried by a loop, whose trips are then known.
  run(MODEL(X CONSTANTS ROWS("x", "n") NODE2("Mul", "w", "w", "ww")
                NODE1("SequenceConstruct", "ww", "s")
                    NODE("Loop", I("n") I("yes") I("s") O("u") GRAPH(
                                     "body", LOOP_IN(ANY_IN("q"))
                                                 NODE("Gather", I("x") I("i") O("r") INT("axis", 0))
                                                     NODE2("Mul", "r", "r", "rr")
                                                         NODE2("SequenceInsert", "q", "rr", "qo")
                                                             GO OUT("qo")))
                        NODE("ConcatFromSequence", I("u") O("y") INT("axis", 0) INT("new_axis", 1))
                            NODE1("SequenceLength", "u", "l") OUT("y") OUT("l")),
      want_squares);
}

static void test_sequence_out(void **state) {
  (void)state;
  refuse(MODEL(X NODE1("SequenceConstruct", "x", "s") OUT("s")), DT_E_UNSUPPORTED,
         "output \"s\" of the model is a sequence or optional");
}

// ---- Functions of the model -----------------------------------------------------------------------
#define FUNCTION(n, rest)                                                                          \
  "functions { name '" n "' domain 'own' opset_import { version 18 } " rest "} "
#define OWN "opset_import { domain 'own' version 1 } "
#define CALL(op, rest) "node { domain 'own' op_type '" op "' " rest "} "
#define FLOAT(n, bits) "attribute { name '" n "' type 1 f " bits " } "
#define REFERS(n, to) "attribute { name '" n "' type 1 ref_attr_name '" to "' } "

static void want_functions(const float *x, int64_t n, const dt_tensor_t *const *out) {
  for (int64_t k = 0; k < 3 * n; k++) {
    assert_near(at(out[0], k), 3 * (double)x[k], 1e-5);
    assert_near(at(out[1], k), 2 * (double)x[k] + 4 * (double)x[k], 1e-5);
    assert_near(at(out[2], k), (double)x[k] * (double)x[k], 1e-5);
    assert_near(at(out[3], k), 2 * (double)x[k], 1e-5);
  }
}

static void test_functions(void **state) {
  (void)state;
  run(MODEL(X CALL("Scale", I("x") O("a") FLOAT("by", "3")) CALL("Twice", I("x") O("b"))
                CALL("Sum", I("x") O("c")) CALL("Sum", I("x") I("x") O("d")) OUT("a") OUT("b")
                    OUT("c") OUT("d")) OWN
          // An attribute with a default, given by reference.
          FUNCTION("Scale",
                   I("p") O("q") "attribute_proto { name 'by' type 1 f 2 } " NODE(
                       "Constant", O("k") REFERS("value_float", "by")) NODE2("Mul", "p", "k", "q"))
      // One without, passed on from a caller to what it calls; and the default.
      FUNCTION("Pass", I("p") O("q") "attribute 'factor' " OWN CALL(
                           "Scale", I("p") O("q") REFERS("by", "factor")))
          FUNCTION("Twice",
                   I("p") O("q") OWN CALL("Scale", I("p") O("u"))
                       CALL("Pass", I("p") O("v") FLOAT("factor", "4")) NODE2("Add", "u", "v", "q"))
      // An input that is left out.
      FUNCTION("Sum",
               I("p") I("other") O("q") NODE1("OptionalHasElement", "other", "has")
                   NODE("If", I("has") O("q")
                                  GRAPH("then_branch", NODE2("Add", "p", "other", "a") OUT("a"))
                                      GRAPH("else_branch", NODE2("Mul", "p", "p", "b") OUT("b")))),
      want_functions);
}

// ---- Transforms -----------------------------------------------------------------------------------
// Back and forth gives what it was, also by halves of spectra.
static void want_x(const float *x, int64_t n, const dt_tensor_t *const *out) {
  for (int64_t k = 0; k < 3 * n; k++) {
    assert_near(at(out[0], 2 * k), (double)x[k], 1e-4);
    assert_near(at(out[0], 2 * k + 1), 0, 1e-4);
    assert_near(at(out[1], k), (double)x[k], 1e-4);
  }
}

static void test_dft(void **state) {
  (void)state;
  run(MODEL(X INT64S("last", "dims 1 ", "-1") INT64S("zero", "dims 1 ", "0") ROWS("x", "n")
                NODE2("Unsqueeze", "x", "last", "x1") NODE("DFT", I("x1") O("s") INT("axis", 0))
                    NODE("DFT", I("s") O("y") INT("axis", 0) INT("inverse", 1))
                        NODE("DFT", I("x1") O("h") INT("axis", 0) INT("onesided", 1))
                            NODE("DFT", I("h") I("n") O("z") INT("axis", 0) INT("inverse", 1)
                                            INT("onesided", 1)) OUT("y") OUT("z")),
      want_x);
}

RUN_TESTS(TEST(test_if_by_data), TEST(test_unsorted), TEST(test_if_by_size), TEST(test_if_refused),
          TEST(test_loop_over_rows), TEST(test_loop_by_data), TEST(test_loop_bounded_by_data),
          TEST(test_loop_counted), TEST(test_loops_within), TEST(test_loop_refused),
          TEST(test_scan), TEST(test_lstm), TEST(test_gru_lengths), TEST(test_sequences),
          TEST(test_functions), TEST(test_sequence_out), TEST(test_dft))

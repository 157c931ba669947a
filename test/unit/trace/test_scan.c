// SPDX-License-Identifier: Apache-2.0
// Builders of scans: the graphs that they make, how often they trace what they are given, what they
// ask of sizes, and what they refuse.
#include "test/unit/trace/trace_test.h"

#include <string.h>

static const dt_input_decl_t declared[3] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                            {.name = "y", .dtype = DT_F32, .rank = 2},
                                            {.name = "c", .dtype = DT_F32, .rank = 0}};

// ---- Bodies ---------------------------------------------------------------------------------------
static int traced; // bodies, by all of these

static dt_status_t add_captured(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  traced++;
  assert_int_equal(dt_value_rank(t, in[0]), 0);
  out[0] = dt_add(t, dt_mul(t, in[0], *(const dt_value_t *)closure), in[1]);
  return NULL;
}
static dt_status_t sum_body(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sum(t, in[0], 0, NULL, false);
  return NULL;
}
static dt_status_t widen(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_cast(t, in[0], DT_F64);
  return NULL;
}
static dt_status_t nothing(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)t, (void)in, (void)out, (void)closure;
  return NULL;
}
static dt_status_t outer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_add(t, in[0], *(const dt_value_t *)closure);
  return NULL;
}
static dt_status_t keep(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)t, (void)closure;
  traced++;
  out[0] = in[0];
  out[1] = in[1];
  return NULL;
}
static dt_status_t number(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t n = dt_item(t, dt_cast(t, dt_sum(t, in[0], 0, NULL, false), DT_I64));
  out[0] = dt_iota(t, DT_F32, 1, &n, 0);
  return NULL;
}

// ---- Graphs ---------------------------------------------------------------------------------------
static dt_status_t scanned(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t factor = in[2];
  (void)closure;
  dt_associative_scan(t, add_captured, &factor, 1, in, 1, 0, out);
  return NULL;
}

static void test_graph(void **state) {
  (void)state;
  dt_trace_request_t request = {
      .name = "f", .program = scanned, .n_inputs = 3, .n_outputs = 1, .inputs = declared};
  traced = 0;
  dt_traced_t *made = trace_ok(&request);
  assert_int_equal(traced, 1);
  const char *text = text_of(made);
  if (!strstr(text, "associative_scan %1, %3 {axes = [1]} combine {") ||
      !strstr(text, "result %4 {index = 0} : f32[s0, s1]"))
    fail_msg("%s", text);
  dt__traced_destroy(made);
}

static dt_status_t looped(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t first = dt_full(t, DT_F32, 0, 0, NULL), made[2];
  (void)closure;
  dt_scan(t, keep, NULL, 1, &first, 1, in, (dt_sym_t){0}, 1, 0, made);
  out[0] = made[1];
  return NULL;
}

// The body is traced once, and the sizes of what is stacked are symbols.
static void test_loop(void **state) {
  (void)state;
  dt_trace_request_t request = {
      .name = "f", .program = looped, .n_inputs = 3, .n_outputs = 1, .inputs = declared};
  traced = 0;
  dt_traced_t *made = trace_ok(&request);
  assert_int_equal(traced, 1);
  const dt_node_t *node = dt__graph_node(made->graph, made->graph->outputs.items[0]);
  assert_int_equal(node->rank, 2);
  for (uint32_t d = 0; d < 2; d++)
    assert_true(dt__sym_known_eq(made->env, node->sizes[d], made->graph->inputs.items[0].sizes[d]));
  dt__traced_destroy(made);
}

// ---- Refusals -------------------------------------------------------------------------------------
#define ASSOCIATIVE(fn, n, xs, axis, flags) dt_associative_scan(t, fn, &x, n, xs, axis, flags, out)
#define SCAN(fn, n_xs, xs, length, n_ys, flags)                                                    \
  dt_scan(t, fn, &x, 1, &c, n_xs, xs, length, n_ys, flags, out)

#define REFUSALS                                                                                   \
  R(reduces, ASSOCIATIVE(sum_body, 1, &x, 0, 0), DT_E_UNSUPPORTED, "cannot use `sum` of rank 0")   \
  R(place, ASSOCIATIVE(sum_body, 1, &x, 0, 0), DT_E_UNSUPPORTED, "test_scan.c:")                   \
  R(captures, ASSOCIATIVE(outer, 1, &x, 0, 0), DT_E_SHAPE, "from outside, which has rank 2")       \
  R(widens, ASSOCIATIVE(widen, 1, &x, 0, 0), DT_E_DTYPE, "result 0 of combine is f64 of rank 0")   \
  R(unset, ASSOCIATIVE(nothing, 1, &x, 0, 0), DT_E_ARGUMENT,                                       \
    "output 0 of 1 was not set by combine")                                                        \
  R(axis, ASSOCIATIVE(keep, 1, &x, 2, 0), DT_E_ARGUMENT, "axis 2")                                 \
  R(ranks, ASSOCIATIVE(keep, 2, both, 0, 0), DT_E_SHAPE, "xs[1] has rank 0, xs[0] rank 2")         \
  R(flags, ASSOCIATIVE(keep, 1, &x, 0, 2), DT_E_ARGUMENT, "the flags 2")                           \
  R(none, ASSOCIATIVE(keep, 0, &x, 0, 0), DT_E_ARGUMENT, "nothing is scanned")                     \
  R(no_fn, ASSOCIATIVE(NULL, 1, &x, 0, 0), DT_E_ARGUMENT, "combine or the memory")                 \
  R(many, ASSOCIATIVE(keep, 65, &x, 0, 0), DT_E_LIMIT, "at most 64")                               \
  R(no_xs, ASSOCIATIVE(keep, 1, NULL, 0, 0), DT_E_ARGUMENT, "no values")                           \
  R(mode, (void)dt_cumprod(t, x, 0, (dt_cumsum_mode_t)4), DT_E_ARGUMENT, "the mode 4")             \
  R(of_bool, (void)dt_cummax(t, dt_eq(t, x, x), 0, 0), DT_E_DTYPE, "expected a number")            \
  R(of_int, (void)dt_logcumsumexp(t, dt_cast(t, x, DT_I32), 0, 0), DT_E_DTYPE, "expected a float") \
  R(rank_0, (void)dt_cummin(t, c, 0, 0), DT_E_ARGUMENT, "axis 0")                                  \
  R(no_length, SCAN(keep, 0, NULL, none, 0, 0), DT_E_ARGUMENT, "no xs, no length")                 \
  R(slices, SCAN(keep, 1, &c, none, 1, 0), DT_E_SHAPE, "xs[0] has rank 0")                         \
  R(lengths, SCAN(keep, 1, &x, dt_sym_add(t, dt_dim(t, x, 0), dt_sym_const(t, 1)), 1, 0),          \
    DT_E_SHAPE, "xs[0] has another size in dim 0")                                                 \
  R(carry, SCAN(widen, 1, &x, none, 0, 0), DT_E_DTYPE,                                             \
    "carry 0 begins as f32 of rank 0, and the body gives f64 of rank 0")                           \
  R(scan_flags, SCAN(keep, 1, &x, none, 1, 4), DT_E_ARGUMENT, "the flags 4")                       \
  R(no_out, dt_scan(t, keep, NULL, 1, &c, 1, &x, none, 1, 0, NULL), DT_E_ARGUMENT, "the memory")   \
  R(nothing_out, dt_scan(t, keep, NULL, 0, NULL, 1, &x, none, 0, 0, out), DT_E_ARGUMENT,           \
    "no value would come out")                                                                     \
  R(number, dt_map(t, number, NULL, 1, &x, 1, out), DT_E_STATE, "item")                            \
  R(map_nothing, dt_map(t, keep, NULL, 0, NULL, 1, out), DT_E_ARGUMENT, "no xs")

enum {
#define R(name, call, code, part) R_##name,
  REFUSALS
#undef R
};

static dt_status_t refused_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out_values,
                                   void *closure) {
  dt_value_t x = in[0], c = in[2], both[2] = {x, c}, out[4] = {{0}};
  dt_sym_t none = {0};
  out[0] = x;
  switch (*(const int *)closure) {
#define R(name, call, code, part)                                                                  \
  case R_##name:                                                                                   \
    call;                                                                                          \
    break;
    REFUSALS
#undef R
  }
  // Whatever had room for results has none; a builder of one value has other room.
  int which = *(const int *)closure;
  if (which != R_none && which != R_many && which != R_nothing_out && which != R_no_out &&
      (which < R_mode || which > R_rank_0))
    assert_int_equal(out[0].id, 0);
  out_values[0] = x;
  return NULL;
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *name, *part;
    dt_code_t code;
  } rows[] = {
#define R(name, call, code, part) {#name, part, code},
      REFUSALS
#undef R
  };
  for (int k = 0; k < (int)(sizeof(rows) / sizeof(rows[0])); k++) {
    dt_trace_request_t request = {.name = "model",
                                  .program = refused_program,
                                  .closure = &k,
                                  .n_inputs = 3,
                                  .n_outputs = 1,
                                  .inputs = declared};
    print_message("%s\n", rows[k].name);
    trace_fails(&request, rows[k].code, EACH_OF(rows[k].part));
  }
}

RUN_TESTS(TEST(test_graph), TEST(test_loop), TEST(test_refusals))

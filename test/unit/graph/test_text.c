// SPDX-License-Identifier: Apache-2.0
// Printing and parsing: one golden text, print-parse-print for every op and dtype, refusals, and
// garbage made by mutating good texts. The checker runs over everything that was built or parsed.
#include "runtime/base/dtype.h"
#include "test/support/graph_fixture.h"

#include <math.h>
#include <string.h>

static void print(const dt_graph_t *graph, dt_text_t *out) {
  dt__text_init(out);
  dt__graph_print(graph, out);
  expect_ok(dt__text_status(out));
}

// Parses `text` and prints the graph again; the status of parsing.
static dt_status_t reprint(const char *text, size_t len, dt_text_t *out) {
  dt_arena_t arena;
  dt_symenv_t *env = NULL;
  dt_graph_t *graph = NULL;
  dt_scan_t scan;
  dt__text_init(out);
  dt__arena_init(&arena, 0);
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, text, len, "test");
  dt_status_t status = dt__graph_parse(&arena, env, &scan, &graph);
  if (!status) {
    assert_non_null(graph);
    expect_ok(dt__graph_verify(graph));
    dt__graph_print(graph, out);
  } else {
    assert_null(graph);
  }
  dt__symenv_destroy(env);
  dt__arena_fini(&arena);
  return status;
}

static void check_round_trip(const dt_graph_t *graph) {
  dt_text_t first, second;
  expect_ok(dt__graph_verify(graph));
  print(graph, &first);
  dt_status_t status = reprint(dt__text_str(&first), first.len, &second);
  if (status)
    print_error("text was:\n%s\n", dt__text_str(&first));
  expect_ok(status);
  assert_string_equal(dt__text_str(&second), dt__text_str(&first));
  dt__text_fini(&first);
  dt__text_fini(&second);
}

static void test_golden(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t s0 = size_symbol(&f, 5), k = literal(&f, 3);
  dt_node_id_t x = input(&f, "x", DT_F32, 2, (dt_sym_t[]){s0, k});
  static const float w[6] = {1.0f, -2.5f, 0.1f, 0.0f, 1e30f, INFINITY};
  dt_graph_constant_t constant = {
      .name = "w \"q\"\n", .dtype = DT_F32, .rank = 2, .sizes = {3, 2}, .data = w, .key = 7};
  dt_node_id_t c;
  expect_ok(dt__graph_add_constant(f.graph, &constant, NULL, &c));
  dt_node_id_t product = add(&f, DT_OP_matmul, 2, (dt_node_id_t[]){x, c}, NULL);
  dt_attrs_t axes = {0};
  axes.n_axes = 1;
  axes.axes[0] = 1;
  axes.keepdims = 1;
  dt_node_id_t sum = add(&f, DT_OP_sum, 1, &product, &axes);
  expect_ok(dt__graph_add_output(f.graph, sum));
  expect_ok(dt__graph_add_output(f.graph, x));
  dt_text_t text;
  print(f.graph, &text);
  assert_string_equal(dt__text_str(&text),
                      "graph (s0: [0, 140737488355327] hint 5) {\n"
                      "  %1 = input \"x\" f32[s0, 3] strides [3, 1] contiguous\n"
                      "  %2 = constant \"w \\\"q\\\"\\n\" f32[3, 2] key 7 data [1, -2.5, "
                      "0.1, 0, 1e+30, inf]\n"
                      "  %3 = matmul %1, %2 : f32[s0, 2]\n"
                      "  %4 = sum %3 {axes = [1], keepdims = 1} : f32[s0, 1]\n"
                      "  return %4, %1\n"
                      "}\n");
  dt__text_fini(&text);
  check_round_trip(f.graph);
  graph_fixture_fini(&f);
}

static void test_every_op(void **state) {
  (void)state;
  for (uint32_t op = 1; op < DT_OP_COUNT; op++) {
    uint32_t taken = 0;
    for (uint32_t dtype = 1; dtype < DT_DTYPE_END; dtype++) {
      if (!dt__dtype_is_valid((dt_dtype_t)dtype))
        continue;
      graph_fixture_t f;
      graph_fixture_init(&f);
      (void)size_symbol(&f, 5);
      (void)size_symbol(&f, NO_HINT);
      dt_node_id_t id = add_example(&f, (dt_op_t)op, (dt_dtype_t)dtype);
      if (id.id) {
        taken++;
        expect_ok(dt__graph_add_output(f.graph, id));
        check_round_trip(f.graph);
      }
      graph_fixture_fini(&f);
    }
    if (taken == 0)
      print_error("%s takes no dtype\n", dt__op_info((dt_op_t)op)->name);
    assert_true(taken > 0);
  }
}

// What is not in the form of one leaf a declaration, in order.
static void test_odd_leaves(void **state) {
  (void)state;
  static const char text[] = "graph (s0: [0, 9], n1: [-5, 5] hint -2 \"stride\", u2: [1, 7]) {\n"
                             "  assert u2 <= 5 \"at \\\"most\\\" 5\"\n"
                             "  %1 = input \"\" f64[s0] strides [n1]\n"
                             "  constant \"big\" i64[100] key 3\n"
                             "  %2 = constant \"e\" f32[0, 4] key 4\n"
                             "  %3 = input {index = 0} : f64[s0]\n"
                             "  %4 = constant {index = 0} : i64[100]\n"
                             "  %5 = add %1, %3 : f64[s0]\n"
                             "  input \"unused\" bool[] strides []\n"
                             "  input \"last\" u8[u2] strides [1] contiguous\n"
                             "  return %5, %4, %2\n"
                             "}\n";
  dt_text_t out;
  expect_ok(reprint(text, sizeof(text) - 1, &out));
  assert_string_equal(dt__text_str(&out), text);
  dt__text_fini(&out);
}

static void test_literals(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  static const double values[] = {0.0, -0.0, 0.1, 1e-300, INFINITY, -INFINITY, NAN, 12345678.9};
  for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
    for (uint32_t wide = 0; wide < 2; wide++) {
      dt_attrs_t attrs = {0};
      attrs.dtype = wide ? DT_F64 : DT_F32;
      attrs.floats[0] = values[k];
      dt_node_id_t id = add(&f, DT_OP_scalar, 0, NULL, &attrs);
      double kept = dt__graph_node(f.graph, id)->attrs->floats[0];
      double want = wide ? values[k] : (double)(float)values[k];
      assert_true(isnan(want) ? isnan(kept) : kept == want && signbit(kept) == signbit(want));
    }
  }
  static const int64_t ints[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
  for (size_t k = 0; k < sizeof(ints) / sizeof(ints[0]); k++) {
    dt_attrs_t attrs = {0};
    attrs.dtype = DT_U64;
    attrs.ints[0] = ints[k];
    (void)add(&f, DT_OP_scalar, 0, NULL, &attrs);
    attrs.dtype = DT_I64;
    (void)add(&f, DT_OP_scalar, 0, NULL, &attrs);
  }
  check_round_trip(f.graph);
  graph_fixture_fini(&f);
}

// Guards taken while building: the text carries their consequences.
static void test_after_guards(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  dt_sym_t a = size_symbol(&f, 5), b = size_symbol(&f, 5), c = size_symbol(&f, 1);
  dt_node_id_t x = input(&f, "x", DT_F32, 1, &a), y = input(&f, "y", DT_F32, 1, &b);
  dt_node_id_t z = input(&f, "z", DT_F32, 1, &c);
  dt_node_id_t sum = add(&f, DT_OP_add, 2, (dt_node_id_t[]){x, y}, NULL);
  dt_node_id_t pair[2] = {sum, z};
  expect_ok(dt__graph_broadcast(f.graph, pair, 2, NULL));
  expect_ok(dt__graph_add_output(f.graph, add(&f, DT_OP_mul, 2, pair, NULL)));
  assert_int_equal(f.assumed, 2);
  check_round_trip(f.graph);
  graph_fixture_fini(&f);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"", "expected 'graph'"},
      {"graph (s1: [0, 4]) { return }", "symbol 0 must be"},
      {"graph (q0: [0, 4]) { return }", "symbol 0 must be"},
      {"graph (s0: [4, 0]) { return }", "two bounds in order"},
      {"graph () { return %1 }", "no value of this graph"},
      {"graph () { %2 = scalar {dtype = f32, value = 1} : f32[] return }", "next value is %1"},
      {"graph () { %1 = nonsense : f32[] return }", "'nonsense' is no op"},
      {"graph () { %1 = add %1, %1 : f32[] return }", "no value so far"},
      {"graph () { %1 = scalar {dtype = f99, value = 1} : f32[] return }", "is no dtype"},
      {"graph () { %1 = scalar {dtype = i8, value = 300} : i8[] return }", "does not fit i8"},
      {"graph () { %1 = scalar {dtype = f32, axes = [1]} : f32[] return }", "attribute of scalar"},
      {"graph () { %1 = scalar {dtype = f32, value = 1} : f64[] return }", "gives f32"},
      {"graph () { %1 = scalar {dtype = f32, value = 1} : f32[1] return }", "of rank 0"},
      {"graph () { %1 = input \"x\" f32[2] strides [1] %2 = neg %1 : f32[3] return }",
       "cannot be this"},
      {"graph () { %1 = input \"x\" f32[2] strides [] return }", "0 strides for 1 sizes"},
      {"graph () { %1 = constant \"c\" f32[-1] key 1 return }", "not in [0"},
      {"graph () { %1 = constant \"c\" f32[2] key 0 return }", "key is 0"},
      {"graph () { %1 = constant \"c\" f32[9000000000] key 1 return }", "constants of more"},
      {"graph () { %1 = constant \"c\" f32[2] key 1 data [1] return }", "expected ','"},
      {"graph () { %1 = constant \"c\" u8[1] key 1 data [256] return }", "does not fit u8"},
      {"graph () { %1 = input {index = 0} : f32[] return }", "there is no input 0"},
      {"graph () { %1 = input \"x\" f32[2, 3] strides [3, 1] %2 = sum %1 {axes = [2]} : f32[2] "
       "return }",
       "axis 2 is not in [0, 2)"},
  };
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_text_t out;
    dt_status_t status = reprint(cases[k].text, strlen(cases[k].text), &out);
    const char *message = dt_status_message(status);
    if (dt_status_code(status) != DT_E_FORMAT || !strstr(message, cases[k].part)) {
      print_error("%s\nexpected \"%s\", got %s \"%s\"\n", cases[k].text, cases[k].part,
                  dt_code_name(dt_status_code(status)), message);
      fail();
    }
    dt_status_free(status);
    dt__text_fini(&out);
  }
}

// A small generator; the sequence is part of the test.
static uint64_t next_random(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static void mutate(char *text, size_t *len, size_t cap, uint64_t *seed) {
  static const char alphabet[] = "%[]{}(),:=\"-0123456789sunifx \n.e+*/";
  size_t at = *len ? next_random(seed) % *len : 0;
  char c = alphabet[next_random(seed) % (sizeof(alphabet) - 1)];
  switch (next_random(seed) % 4) {
  case 0:
    if (*len)
      text[at] = c;
    break;
  case 1: // drop a few
    if (*len > at + 4) {
      memmove(text + at, text + at + 3, *len - at - 3);
      *len -= 3;
    }
    break;
  case 2: // insert
    if (*len < cap) {
      memmove(text + at + 1, text + at, *len - at);
      text[at] = c;
      (*len)++;
    }
    break;
  default:
    *len = next_random(seed) % 16 == 0 ? at : *len;
  }
}

static void test_garbage(void **state) {
  (void)state;
  graph_fixture_t f;
  graph_fixture_init(&f);
  (void)size_symbol(&f, 5);
  (void)size_symbol(&f, NO_HINT);
  for (uint32_t op = 1; op < DT_OP_COUNT; op++)
    (void)add_example(&f, (dt_op_t)op, DT_F32);
  dt_text_t good;
  print(f.graph, &good);
  uint64_t seed = 88172645463325252u;
  char *text = dt__arena_alloc(&f.arena, good.len + 64);
  assert_non_null(text);
  for (uint32_t round = 0; round < 1500; round++) {
    size_t len = good.len;
    memcpy(text, dt__text_str(&good), len);
    for (uint64_t k = next_random(&seed) % 6 + 1; k > 0; k--)
      mutate(text, &len, good.len + 64, &seed);
    dt_text_t out;
    dt_status_free(reprint(text, len, &out));
    dt__text_fini(&out);
  }
  dt__text_fini(&good);
  graph_fixture_fini(&f);
}

RUN_TESTS(TEST(test_golden), TEST(test_every_op), TEST(test_odd_leaves), TEST(test_literals),
          TEST(test_after_guards), TEST(test_refusals), TEST(test_garbage))

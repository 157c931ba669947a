// SPDX-License-Identifier: Apache-2.0
// Grouped products: how many are left, and that every result stays what it was, bit by bit.
#include "lower/graph/eval.h"
#include "lower/passes/passes.h"
#include "test/support/graph_fixture.h"

#include <math.h>
#include <string.h>

#define ROWS 3
#define MAX_OUTPUTS 4

// x is f32[s0, 2]; factors are [2, N].
typedef struct maker_t {
  graph_fixture_t f;
  dt_sym_t s0;
  dt_node_id_t x;
} maker_t;

static const float numbers[] = {1, 2, 0.1F, 4,    -0.0F, 6, 7,    0.3F, -1,       0.7F,
                                3, 9, -2,   0.2F, 5,     8, 2.5F, -4,   INFINITY, NAN};

// Of 16 numbers or fewer; `from` below 4 makes them different.
static dt_node_id_t constant(maker_t *m, uint32_t rank, int64_t rows, int64_t columns,
                             uint32_t from) {
  dt_graph_constant_t c = {.name = "c", .dtype = DT_F32, .rank = rank, .key = from + 1};
  dt_node_id_t id;
  c.sizes[0] = rank == 1 ? columns : rows;
  c.sizes[1] = columns;
  c.data = numbers + from;
  expect_ok(dt__graph_add_constant(m->f.graph, &c, NULL, &id));
  return id;
}

static dt_node_id_t factor(maker_t *m, int64_t columns, uint32_t from) {
  return constant(m, 2, 2, columns, from);
}

static dt_node_id_t one(maker_t *m, dt_op_t op, dt_node_id_t x) {
  return add(&m->f, op, 1, &x, NULL);
}

static dt_node_id_t two(maker_t *m, dt_op_t op, dt_node_id_t x, dt_node_id_t y) {
  dt_node_id_t in[2] = {x, y};
  if (op != DT_OP_matmul)
    expect_ok(dt__graph_broadcast(m->f.graph, in, 2, NULL));
  return add(&m->f, op, 2, in, NULL);
}

static dt_node_id_t product(maker_t *m, dt_node_id_t w) { return two(m, DT_OP_matmul, m->x, w); }

static dt_node_id_t biased(maker_t *m, dt_node_id_t x, uint32_t from) {
  return two(m, DT_OP_add, x, constant(m, 1, 1, 4, from));
}

static dt_node_id_t turned(maker_t *m, dt_node_id_t x) {
  dt_attrs_t attrs = {.n_axes = 2, .axes = {1, 0}};
  return add(&m->f, DT_OP_permute, 1, &x, &attrs);
}

static dt_node_id_t cast(maker_t *m, dt_node_id_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {.dtype = dtype};
  return add(&m->f, DT_OP_cast, 1, &x, &attrs);
}

static void give(maker_t *m, dt_node_id_t x) { expect_ok(dt__graph_add_output(m->f.graph, x)); }

// What nothing takes into the kernel of a product.
static void give_sum(maker_t *m, dt_node_id_t x) {
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)dt__graph_node(m->f.graph, x)->rank - 1}};
  give(m, add(&m->f, DT_OP_sum, 1, &x, &attrs));
}

// ---- Cases --------------------------------------------------------------------------------------
static void make_two(maker_t *m) {
  give_sum(m, product(m, factor(m, 4, 0)));
  give_sum(m, product(m, factor(m, 8, 1)));
}

static void make_three(maker_t *m) {
  make_two(m);
  give_sum(m, product(m, factor(m, 4, 3)));
}

static void make_turned(maker_t *m) {
  give_sum(m, product(m, turned(m, constant(m, 2, 4, 2, 0))));
  give_sum(m, product(m, turned(m, constant(m, 2, 8, 2, 1))));
}

static void make_one_turned(maker_t *m) {
  give_sum(m, product(m, factor(m, 4, 0)));
  give_sum(m, product(m, turned(m, constant(m, 2, 4, 2, 1))));
}

static void make_computed_factor(maker_t *m) {
  give_sum(m, product(m, two(m, DT_OP_mul, factor(m, 4, 0), constant(m, 1, 1, 4, 2))));
  give_sum(m, product(m, one(m, DT_OP_exp, factor(m, 4, 1))));
}

static void make_biases(maker_t *m) {
  give_sum(m, biased(m, product(m, factor(m, 4, 0)), 16));
  give_sum(m, biased(m, product(m, factor(m, 4, 1)), 5));
}

static void make_other_side(maker_t *m) {
  give_sum(m, biased(m, product(m, factor(m, 4, 0)), 16));
  give_sum(m, two(m, DT_OP_add, constant(m, 1, 1, 4, 3), product(m, factor(m, 4, 1))));
}

static void make_some_biases(maker_t *m) {
  make_biases(m);
  give_sum(m, product(m, factor(m, 4, 3)));
}

static void make_bias_of_call(maker_t *m) {
  dt_node_id_t x = biased(m, product(m, factor(m, 4, 0)), 2);
  give_sum(m, x);
  give_sum(m, two(m, DT_OP_add, product(m, factor(m, 4, 1)), x));
}

static void make_literal(maker_t *m) {
  dt_attrs_t half = {.dtype = DT_F32, .floats = {0.5}};
  for (uint32_t k = 0; k < 2; k++) {
    dt_node_id_t literal_half = add(&m->f, DT_OP_scalar, 0, NULL, &half);
    dt_node_id_t y = two(m, DT_OP_sub, literal_half, product(m, factor(m, 4, k)));
    give_sum(m, one(m, DT_OP_exp, biased(m, y, 3 + k)));
  }
}

static void make_other_literals(maker_t *m) {
  for (uint32_t k = 0; k < 2; k++) {
    dt_attrs_t attrs = {.dtype = DT_F32, .floats = {k ? -0.0 : 0.0}};
    dt_node_id_t zero = add(&m->f, DT_OP_scalar, 0, NULL, &attrs);
    give_sum(m, two(m, DT_OP_sub, zero, product(m, factor(m, 4, k))));
  }
}

static void make_unbiased_user(maker_t *m) {
  dt_node_id_t x = product(m, factor(m, 4, 0)), y = product(m, factor(m, 4, 1));
  give_sum(m, biased(m, x, 2));
  give_sum(m, biased(m, y, 3));
  give_sum(m, y);
}

static void make_more_users(maker_t *m) {
  dt_node_id_t x = product(m, factor(m, 4, 0)), y = product(m, factor(m, 4, 1));
  give_sum(m, x);
  give_sum(m, turned(m, x));
  give_sum(m, y);
}

static void make_results(maker_t *m) {
  give(m, product(m, factor(m, 4, 0)));
  give(m, turned(m, product(m, factor(m, 4, 1))));
}

static void make_gate(maker_t *m) {
  dt_node_id_t x = one(m, DT_OP_exp, product(m, factor(m, 4, 0)));
  give(m, two(m, DT_OP_mul, x, product(m, factor(m, 4, 1))));
}

static void make_no_whole_vectors(maker_t *m) {
  give_sum(m, product(m, factor(m, 3, 0)));
  give_sum(m, product(m, factor(m, 4, 1)));
  give_sum(m, product(m, factor(m, 5, 2)));
}

static void make_not_constant(maker_t *m) {
  int64_t sizes[2] = {2, 4};
  dt_node_id_t w = fixed(&m->f, "w", DT_F32, 2, sizes);
  give_sum(m, product(m, factor(m, 4, 0)));
  give_sum(m, product(m, w));
  give_sum(m, product(m, factor(m, 4, 1)));
}

static void make_other_left(maker_t *m) {
  give_sum(m, product(m, factor(m, 4, 0)));
  m->x = one(m, DT_OP_neg, m->x);
  give_sum(m, product(m, factor(m, 4, 1)));
}

static void make_batch(maker_t *m) {
  dt_sym_t sizes[3] = {literal(&m->f, 3), m->s0, literal(&m->f, 2)};
  dt_attrs_t reshape = {.n_syms = 3, .syms = {literal(&m->f, 1), sizes[1], sizes[2]}};
  dt_attrs_t expand = {.n_syms = 3, .syms = {sizes[0], sizes[1], sizes[2]}};
  dt_attrs_t swap = {.n_axes = 3, .axes = {0, 2, 1}};
  m->x = add(&m->f, DT_OP_reshape, 1, &m->x, &reshape);
  m->x = add(&m->f, DT_OP_expand, 1, &m->x, &expand);
  dt_node_id_t q = biased(m, product(m, factor(m, 4, 0)), 1);
  dt_node_id_t k = biased(m, product(m, factor(m, 4, 1)), 2);
  (void)one(m, DT_OP_exp, q); // nothing needs it
  give(m, two(m, DT_OP_matmul, q, add(&m->f, DT_OP_permute, 1, &k, &swap)));
}

static void make_halves(maker_t *m) {
  for (uint32_t k = 0; k < 2; k++) {
    dt_node_id_t w = turned(m, cast(m, constant(m, 2, 4, 2, k), DT_F16));
    dt_node_id_t bias = cast(m, constant(m, 1, 1, 4, 4 + k), DT_F16);
    dt_node_id_t y = cast(m, product(m, cast(m, w, DT_F32)), DT_F16);
    y = two(m, DT_OP_add, cast(m, y, DT_F32), cast(m, bias, DT_F32));
    give_sum(m, cast(m, cast(m, y, DT_F16), DT_F32));
  }
}

static void make_bfloats(maker_t *m) {
  int64_t sizes[2] = {ROWS, 2};
  m->x = cast(m, fixed(&m->f, "y", DT_F32, 2, sizes), DT_BF16);
  for (uint32_t k = 0; k < 3; k++)
    give_sum(m, product(m, cast(m, factor(m, 8, k), DT_BF16)));
}

typedef struct group_case_t {
  const char *what;
  void (*make)(maker_t *m);
  uint32_t products;
} group_case_t;

static const group_case_t cases[] = {
    {"two, of other widths", make_two, 1},
    {"three", make_three, 1},
    {"turned", make_turned, 1},
    {"one of them turned", make_one_turned, 1},
    {"factors computed from constants", make_computed_factor, 1},
    {"biases", make_biases, 1},
    {"a bias on the other side", make_other_side, 2},
    {"two of three with a bias", make_some_biases, 2},
    {"a bias that belongs to the call", make_bias_of_call, 2},
    {"a literal, a bias and a function", make_literal, 1},
    {"other literals", make_other_literals, 2},
    {"another user before the bias", make_unbiased_user, 2},
    {"several users", make_more_users, 1},
    {"results of the call", make_results, 2},
    {"a gate", make_gate, 2},
    {"no whole vectors in two of three", make_no_whole_vectors, 2},
    {"a factor of the call among them", make_not_constant, 2},
    {"other left operands", make_other_left, 2},
    {"batch dims, and a user that nothing needs", make_batch, 2},
    {"halves", make_halves, 1},
    {"bfloats", make_bfloats, 1},
};

// ---- Checking -----------------------------------------------------------------------------------
// As the pipeline does.
static const dt_graph_t *through(dt_arena_t *arena, const dt_graph_t *graph, bool group) {
  const dt_graph_pass_fn_t passes[] = {dt__pass_decompose, dt__pass_fold, dt__pass_cse,
                                       group ? dt__pass_group : dt__pass_dce, dt__pass_dce};
  for (size_t k = 0; k < sizeof(passes) / sizeof(passes[0]); k++) {
    expect_ok(passes[k](arena, graph, &graph));
    expect_ok(dt__graph_verify(graph));
  }
  return graph;
}

static void evaluate(maker_t *m, const dt_graph_t *graph, int64_t rows, dt_eval_value_t *out) {
  const int64_t sizes[2][2] = {{rows, 2}, {graph->inputs.len > 1 ? 2 : 0, 4}}, flat[2] = {ROWS, 2};
  const int64_t strides[2][2] = {{2, 1}, {4, 1}};
  dt_eval_arg_t args[2] = {{numbers + 3, sizes[0], strides[0]},
                           {numbers + 5, sizes[1], strides[1]}};
  if (graph->inputs.len > 1 && strcmp(graph->inputs.items[1].name, "y") == 0)
    args[1] = (dt_eval_arg_t){numbers + 5, flat, strides[0]};
  expect_ok(dt__graph_eval(graph, &rows, args, NULL, &m->f.arena, out));
}

static uint32_t products_of(const dt_graph_t *graph) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < graph->nodes.len; k++)
    n += graph->nodes.items[k].op == DT_OP_matmul;
  return n;
}

static void check(const group_case_t *c) {
  maker_t m;
  graph_fixture_init(&m.f);
  m.s0 = size_symbol(&m.f, 2);
  dt_sym_t sizes[2] = {m.s0, literal(&m.f, 2)};
  m.x = input(&m.f, "x", DT_F32, 2, sizes);
  c->make(&m);
  dt__symenv_freeze(m.f.env);
  const dt_graph_t *before = through(&m.f.arena, m.f.graph, false);
  const dt_graph_t *after = through(&m.f.arena, m.f.graph, true), *again;
  expect_ok(dt__pass_group(&m.f.arena, after, &again));
  assert_ptr_equal(again, after);
  if (products_of(after) != c->products)
    print_error("%s: %u products\n", c->what, products_of(after));
  assert_int_equal(products_of(after), c->products);
  for (int64_t rows = 0; rows <= ROWS; rows++) {
    dt_eval_value_t want[MAX_OUTPUTS], got[MAX_OUTPUTS];
    evaluate(&m, before, rows, want);
    evaluate(&m, after, rows, got);
    for (uint32_t k = 0; k < before->outputs.len; k++) {
      assert_int_equal(got[k].count, want[k].count);
      for (int64_t i = 0; i < want[k].count; i++) {
        bool nan = isnan(want[k].data[i].f);
        assert_true(nan ? isnan(got[k].data[i].f) : got[k].data[i].i == want[k].data[i].i);
      }
    }
  }
  graph_fixture_fini(&m.f);
}

static void test_groups(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
    check(&cases[k]);
}

RUN_TESTS(TEST(test_groups))

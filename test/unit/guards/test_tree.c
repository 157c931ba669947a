// SPDX-License-Identifier: Apache-2.0
// Decisions over many programs: what they share is asked once, the first that holds wins, nothing
// grows without bound, and no allocation that fails does harm. fuzz.guards.tree compares answers.
#include "guards/tree.h"
#include "test/unit/guards/guard_test.h"

#include <string.h>

enum { MOST = 300 };

typedef struct family_t {
  guard_fixture_t of[MOST];
  const dt_guards_t *programs[MOST];
  uint32_t n;
  dt_tree_t *tree;
} family_t;

// n variants over two vectors of sizes a and b, each with the condition that `cond` gives.
static void family_guards(family_t *x, uint32_t n,
                          dt_sym_t (*cond)(guard_fixture_t *, uint32_t v)) {
  x->n = n;
  for (uint32_t v = 0; v < n; v++) {
    guard_fixture_t *f = &x->of[v];
    guard_fixture_init(f);
    dt_sym_t a = size_symbol(f, 0, DT_SIZE_LIMIT - 1, "a");
    dt_sym_t b = size_symbol(f, 0, DT_SIZE_LIMIT - 1, "b");
    add_input(f, "x", DT_U8, 1, &a);
    add_input(f, "y", DT_U8, 1, &b);
    add_cond(f, cond(f, v), "test", NULL, 0);
    make_guards(f);
    x->programs[v] = f->guards;
  }
}

static void family_init(family_t *x, uint32_t n, dt_sym_t (*cond)(guard_fixture_t *, uint32_t v)) {
  family_guards(x, n, cond);
  expect_ok(dt__tree_create(x->programs, n, &x->tree));
}

static void family_fini(family_t *x) {
  dt__tree_destroy(x->tree);
  for (uint32_t v = 0; v < x->n; v++)
    guard_fixture_fini(&x->of[v]);
}

static int64_t decide(family_t *x, int64_t a, int64_t b) {
  guard_fixture_t *f = &x->of[0];
  set_input(f, 0, DT_U8, 1, &a, NULL);
  set_input(f, 1, DT_U8, 1, &b, NULL);
  int64_t symbols[64];
  return dt__tree_run(x->tree, &(dt_guard_args_t){.inputs = f->inputs}, symbols);
}

static dt_sym_t sym(guard_fixture_t *f, uint32_t k) { return dt__symbol_sym(f->env, k); }

static dt_sym_t exact(guard_fixture_t *f, uint32_t v) {
  return dt__sym_eq(f->env, sym(f, 0), literal(f, 3 * (int64_t)v));
}

// The longest way from `ref` on, in nodes.
static uint32_t depth_of(const dt_tree_t *tree) {
  uint32_t depths[8192] = {0}, most = 0;
  assert_true(tree->n_nodes < 8192);
  for (uint32_t k = 0; k < tree->n_nodes; k++) { // children stand before their parents
    const dt_tree_ref_t to[2] = {tree->nodes[k].yes, tree->nodes[k].no};
    for (int side = 0; side < 2; side++) {
      bool leaf = to[side] == DT_TREE_MISS || (to[side] & DT_TREE_HIT);
      uint32_t below = leaf ? 0 : depths[to[side] - 1];
      if (!leaf)
        assert_true(to[side] - 1 < k);
      if (below + 1 > depths[k])
        depths[k] = below + 1;
    }
    most = depths[k] > most ? depths[k] : most;
  }
  return most;
}

static void test_literals_are_searched(void **state) {
  (void)state;
  static family_t x;
  memset(&x, 0, sizeof(x));
  family_init(&x, 256, exact);
  for (int64_t a = 0; a < 3 * 256 + 4; a++)
    assert_int_equal(decide(&x, a, 1), a % 3 == 0 && a < 3 * 256 ? a / 3 : -1);
  // Two headers, then eight halvings and one equality.
  assert_in_range(depth_of(x.tree), 1, 12);
  family_fini(&x);
}

static dt_sym_t at_least(guard_fixture_t *f, uint32_t v) {
  return dt__sym_le(f->env, literal(f, 200 - (int64_t)v), sym(f, 0));
}

// Every later variant takes what the earlier ones take: the first must win.
static void test_first_wins(void **state) {
  (void)state;
  static family_t x;
  memset(&x, 0, sizeof(x));
  family_init(&x, 100, at_least);
  for (int64_t a = 0; a < 300; a++)
    assert_int_equal(decide(&x, a, 0), a >= 200 ? 0 : a > 100 ? 200 - a : -1);
  family_fini(&x);
}

static dt_sym_t awkward(guard_fixture_t *f, uint32_t v) {
  dt_symenv_t *env = f->env;
  dt_sym_t a = sym(f, v & 1), b = sym(f, !(v & 1));
  switch (v % 4) {
  case 0:
    return dt__sym_eq(env, dt__sym_mod(env, a, literal(f, 2 + v % 13)), literal(f, v % 2));
  case 1:
    return dt__sym_eq(env, dt__sym_add(env, a, dt__sym_mul(env, b, literal(f, 1 + v))),
                      literal(f, 17 * v));
  case 2:
    return dt__sym_lt(env, a, literal(f, v));
  default:
    return dt__sym_ne(env, b, literal(f, v));
  }
}

// Conditions that overlap in every way must not make the decision explode.
static void test_size_is_bounded(void **state) {
  (void)state;
  static family_t x;
  memset(&x, 0, sizeof(x));
  family_init(&x, MOST, awkward);
  assert_in_range(x.tree->n_nodes, 1, 64 * MOST);
  for (int64_t a = 0; a < 40; a++) {
    for (int64_t b = 0; b < 40; b += 3) {
      int64_t found = decide(&x, a, b), symbols[64];
      int64_t first = -1;
      for (uint32_t v = 0; first < 0 && v < x.n; v++) {
        if (dt__guards_run(x.programs[v], &(dt_guard_args_t){.inputs = x.of[0].inputs}, symbols))
          first = v;
      }
      assert_int_equal(found, first);
    }
  }
  family_fini(&x);
}

static void test_text(void **state) {
  (void)state;
  static family_t x;
  memset(&x, 0, sizeof(x));
  family_init(&x, 2, exact);
  dt_text_t text;
  dt__text_init(&text);
  dt__tree_print(x.tree, &text);
  assert_string_equal(dt__text_str(&text), "root 3\n"
                                           "3: key(0) & 0x1ffffff == 16842758 ? 2 : miss\n"
                                           "2: key(1) & 0x1ffffff == 16842758 ? 1 : miss\n"
                                           "1: size(0, 0) <= 0 ? hit 0 : 0\n"
                                           "0: size(0, 0) == 3 ? hit 1 : miss\n");
  dt__text_fini(&text);
  family_fini(&x);
}

static void test_empty(void **state) {
  (void)state;
  dt_tree_t *tree = NULL;
  expect_ok(dt__tree_create(NULL, 0, &tree));
  assert_int_equal(dt__tree_run(tree, &(dt_guard_args_t){0}, NULL), -1);
  dt__tree_destroy(tree);
}

static void test_too_many(void **state) {
  (void)state;
  dt_tree_t *tree = NULL;
  expect_code(dt__tree_create(NULL, 5000, &tree), DT_E_LIMIT);
}

// A sum of 60 remainders, another one for each variant.
static dt_sym_t long_sum(guard_fixture_t *f, uint32_t v) {
  dt_symenv_t *env = f->env;
  dt_sym_t sum = literal(f, v);
  for (uint32_t k = 0; k < 60; k++) {
    dt_sym_t top = dt__sym_add(env, dt__sym_mul(env, sym(f, 0), literal(f, k + 1)), sym(f, 1));
    sum = dt__sym_add(env, sum, dt__sym_mod(env, top, literal(f, 1001 + v + k)));
  }
  return dt__sym_le(env, sum, literal(f, 20000));
}

// What code generation would take seconds for is refused, and a few such programs are not.
static void test_too_long(void **state) {
  (void)state;
  static family_t x;
  memset(&x, 0, sizeof(x));
  family_guards(&x, 120, long_sum);
  expect_told(dt__tree_create(x.programs, 120, &x.tree), DT_E_LIMIT, "steps of expressions");
  expect_ok(dt__tree_create(x.programs, 20, &x.tree));
  assert_int_equal(decide(&x, 1, 1), 0);
  family_fini(&x);
}

static void test_no_memory(void **state) {
  (void)state;
  static family_t x;
  memset(&x, 0, sizeof(x));
  family_init(&x, 40, awkward);
  for (uint64_t n = 1;; n++) {
    dt_tree_t *tree = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt__tree_create(x.programs, x.n, &tree);
    uint64_t counted = dt__heap_fail_at(0, false);
    if (counted < n) {
      expect_ok(status);
      dt__tree_destroy(tree);
      break;
    }
    assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    assert_null(tree);
    dt_status_free(status);
  }
  family_fini(&x);
}

RUN_TESTS(TEST(test_literals_are_searched), TEST(test_first_wins), TEST(test_size_is_bounded),
          TEST(test_text), TEST(test_empty), TEST(test_too_many), TEST(test_too_long),
          TEST(test_no_memory))

// SPDX-License-Identifier: Apache-2.0
// Graphs cut up at random by a pass, a third of the edits invalid. Each edit is made to a model,
// too, which says beforehand whether it is valid: invalid ones are refused by name and change
// nothing, and what the graph computes is what the model does. usage: test_surgery [--runs N]
#include "test/support/subjects.h"

#include "ductile/pass.h"
#include "runtime/base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDITS 100
#define MOST 400
#define ELEMENTS 3

enum { KIND_X, KIND_Y, KIND_NEG, KIND_MIN, KIND_MAX, KIND_SUM, KIND_INT, KIND_COUNT };

typedef struct item_t {
  int kind;
  int in[2];
  dt_value_t value;
  bool erased, known;
  float elements[ELEMENTS];
} item_t;

// What the graph must be. Nodes stand in the order in which they were made.
typedef struct model_t {
  rng_t rng;
  uint32_t n, outputs[2];
  item_t items[MOST];
  uint32_t valid, invalid;
  float want[2][ELEMENTS];
} model_t;

static uint32_t arity(int kind) {
  return kind == KIND_X || kind == KIND_Y ? 0 : kind == KIND_MIN || kind == KIND_MAX ? 2 : 1;
}

// 0: f32[n], 1: f32[], 2: i32[n].
static int type_of(const item_t *item) {
  return item->kind == KIND_SUM ? 1 : item->kind == KIND_INT ? 2 : 0;
}

// Marks what `at` is made of, itself included.
static void mark(const model_t *m, uint32_t at, bool *marked) {
  const item_t *item = &m->items[at];
  if (marked[at])
    return;
  marked[at] = true;
  for (uint32_t k = 0; k < arity(item->kind); k++)
    mark(m, (uint32_t)item->in[k], marked);
}

static bool reaches(const model_t *m, uint32_t from, uint32_t to) {
  bool marked[MOST] = {false};
  mark(m, from, marked);
  return marked[to];
}

static bool is_used(const model_t *m, uint32_t at) {
  for (uint32_t i = 0; i < m->n; i++)
    for (uint32_t k = 0; !m->items[i].erased && k < arity(m->items[i].kind); k++)
      if ((uint32_t)m->items[i].in[k] == at)
        return true;
  return m->outputs[0] == at || m->outputs[1] == at;
}

static const float *compute(model_t *m, uint32_t at) {
  item_t *item = &m->items[at];
  const float *a[2] = {NULL, NULL};
  if (item->known)
    return item->elements;
  for (uint32_t k = 0; k < arity(item->kind); k++)
    a[k] = compute(m, (uint32_t)item->in[k]);
  for (int i = 0; i < ELEMENTS; i++) {
    float x = (float)(i + 1);
    item->elements[i] = item->kind == KIND_X     ? x
                        : item->kind == KIND_Y   ? -2 * x
                        : item->kind == KIND_NEG ? -a[0][i]
                        : item->kind == KIND_MIN ? (a[0][i] < a[1][i] ? a[0][i] : a[1][i])
                        : item->kind == KIND_MAX ? (a[0][i] > a[1][i] ? a[0][i] : a[1][i])
                                                 : 0;
  }
  item->known = true;
  return item->elements;
}

static uint32_t below(model_t *m, uint32_t n) { return (uint32_t)(rng_next(&m->rng) % n); }

static uint32_t any(model_t *m) {
  for (;;) {
    uint32_t at = below(m, m->n);
    if (!m->items[at].erased)
      return at;
  }
}

static dt_value_t build(dt_trace_t *t, int kind, dt_value_t a, dt_value_t b) {
  const int32_t axis = 0;
  switch (kind) {
  case KIND_NEG:
    return dt_neg(t, a);
  case KIND_MIN:
    return dt_minimum(t, a, b);
  case KIND_MAX:
    return dt_maximum(t, a, b);
  case KIND_SUM:
    return dt_sum(t, a, 1, &axis, false);
  default:
    return dt_cast(t, a, DT_I32);
  }
}

static uint32_t add_item(model_t *m, dt_trace_t *t, int kind, uint32_t a, uint32_t b) {
  item_t *item = &m->items[m->n];
  *item = (item_t){.kind = kind, .in = {(int)a, (int)b}};
  item->value = build(t, kind, m->items[a].value, m->items[b].value);
  assert_true(item->value.id != 0);
  return m->n++;
}

static uint32_t a_vector(model_t *m) {
  for (;;) {
    uint32_t at = any(m);
    if (type_of(&m->items[at]) == 0)
      return at;
  }
}

static void took(model_t *m, dt_status_t status, bool valid, const char *what) {
  bool done = status == NULL;
  if (done != valid)
    print_error("%s: the model says %s, the rewriter: %s\n", what, valid ? "valid" : "invalid",
                done ? "done" : dt_status_message(status));
  assert_true(done == valid);
  if (!done)
    assert_non_null(strstr(dt_status_message(status), "%"));
  m->valid += done;
  m->invalid += !done;
  dt_status_free(status);
}

// ---- Edits --------------------------------------------------------------------------------------
static void make(model_t *m, dt_rewriter_t *r) {
  dt_trace_t *t = dt_rewriter_trace(r);
  if (below(m, 4) == 0)
    expect_ok(dt_rewriter_at(r, below(m, 2) ? m->items[any(m)].value : (dt_value_t){0}));
  (void)add_item(m, t, KIND_NEG + (int)below(m, 5), a_vector(m), a_vector(m));
  m->valid++;
}

static void replace(model_t *m, dt_rewriter_t *r) {
  uint32_t old = any(m), made = any(m);
  bool valid = type_of(&m->items[old]) == type_of(&m->items[made]);
  took(m, dt_rewriter_replace(r, m->items[old].value, m->items[made].value), valid, "replace");
  if (!valid || old == made)
    return;
  bool needed[MOST] = {false};
  mark(m, made, needed);
  for (uint32_t i = 0; i < m->n; i++)
    for (uint32_t k = 0; !needed[i] && !m->items[i].erased && k < arity(m->items[i].kind); k++)
      if ((uint32_t)m->items[i].in[k] == old)
        m->items[i].in[k] = (int)made;
  for (int k = 0; k < 2; k++)
    if (m->outputs[k] == old)
      m->outputs[k] = made;
}

static void set_input(model_t *m, dt_rewriter_t *r) {
  uint32_t node = any(m), made = any(m), index = below(m, 3);
  item_t *item = &m->items[node];
  bool valid = index < arity(item->kind) && type_of(&m->items[made]) == 0 &&
               ((uint32_t)item->in[index] == made || !reaches(m, made, node));
  took(m, dt_rewriter_set_input(r, item->value, index, m->items[made].value), valid, "set_input");
  if (valid)
    item->in[index] = (int)made;
}

static void move(model_t *m, dt_rewriter_t *r) {
  uint32_t node = any(m), before = any(m);
  bool end = below(m, 5) == 0, valid = end || !reaches(m, node, before);
  took(m, dt_rewriter_move(r, m->items[node].value, end ? (dt_value_t){0} : m->items[before].value),
       valid, "move");
}

static void erase(model_t *m, dt_rewriter_t *r) {
  uint32_t at = below(m, m->n);
  const item_t *item = &m->items[at];
  bool valid = !item->erased && arity(item->kind) > 0 && !is_used(m, at);
  took(m, dt_rewriter_erase(r, item->value), valid, "erase");
  if (!valid)
    return;
  m->items[at].erased = true;
}

static dt_status_t operate(dt_rewriter_t *r, void *closure) {
  model_t *m = closure;
  dt_trace_t *t = dt_rewriter_trace(r);
  m->n = 0;
  m->items[m->n++] = (item_t){.kind = KIND_X, .value = dt_rewriter_next(r, (dt_value_t){0})};
  m->items[m->n++] = (item_t){.kind = KIND_Y, .value = dt_rewriter_next(r, m->items[0].value)};
  for (int k = 0; k < 2; k++) {
    m->outputs[k] = add_item(m, t, KIND_MAX, 0, 1);
    dt_value_t given = dt_rewriter_output(r, (uint32_t)k);
    expect_ok(dt_rewriter_replace(r, given, m->items[m->outputs[k]].value));
    expect_ok(dt_rewriter_erase(r, given));
  }
  static void (*const edits[])(model_t *, dt_rewriter_t *) = {make,      make, replace, set_input,
                                                              set_input, move, erase,   erase};
  for (int k = 0; k < EDITS; k++)
    edits[below(m, 8)](m, r);
  for (uint32_t k = 0; k < 2; k++)
    memcpy(m->want[k], compute(m, m->outputs[k]), sizeof(m->want[k]));
  return NULL;
}

// ---- Runs ---------------------------------------------------------------------------------------
static dt_status_t subject(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  out[1] = dt_sub(t, in[0], in[1]);
  return NULL;
}

static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                         {.name = "y", .dtype = DT_F32, .rank = 1}};
static uint32_t runs = 2000;

static void run(fixture_t *f, model_t *m, dt_answer_t answer) {
  dt_function_options_t options = options_of(2, inputs);
  options.n_outputs = 2;
  options.answer = answer;
  dt_function_t *function = function_of(f, subject, NULL, &options);
  dt_tensor_t *in[2] = {tensor_full(0, 1, SIZES(ELEMENTS)), tensor_full(0, 1, SIZES(ELEMENTS))};
  for (int i = 0; i < ELEMENTS; i++) {
    ((float *)dt_tensor_data(in[0]))[i] = (float)(i + 1);
    ((float *)dt_tensor_data(in[1]))[i] = -2 * (float)(i + 1);
  }
  dt_tensor_t *out[2] = {NULL, NULL};
  expect_ok(dt_call(f->session, function, in, 2, out, 2, NULL));
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < ELEMENTS; i++)
      assert_true(((const float *)dt_tensor_data(out[k]))[i] == m->want[k][i]);
  RELEASE(in[0], in[1], out[0], out[1]);
  dt_function_release(function);
}

static void test_surgery(void **state) {
  (void)state;
  fixture_t f = fixture_on(DT_CPU, 1);
  model_t *m = calloc(1, sizeof(*m));
  assert_non_null(m);
  static const dt_point_t points[] = {DT_POINT_TRACED, DT_POINT_BEFORE_DECOMPOSE,
                                      DT_POINT_AFTER_DECOMPOSE, DT_POINT_BEFORE_LOWER};
  for (uint32_t k = 0; k < runs; k++) {
    bool compiled = k % 20 == 0 && compiled_answer() == DT_ANSWER_COMPILED;
    dt_point_t point = compiled ? points[k / 20 % 4] : DT_POINT_TRACED;
    m->rng = (rng_t){.state = 100 + k};
    const dt_pass_options_t pass = {.struct_size = sizeof(pass), .name = "surgery"};
    expect_ok(dt_runtime_add_pass(f.runtime, point, operate, m, &pass));
    run(&f, m, compiled ? DT_ANSWER_COMPILED : DT_ANSWER_EVALUATOR);
    expect_ok(dt_runtime_remove_pass(f.runtime, "surgery"));
  }
  print_message("%u edits done, %u refused\n", m->valid, m->invalid);
  assert_true(m->invalid * 3 > m->valid + m->invalid);
  free(m);
  fixture_end(&f);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--runs") == 0)
    runs = (uint32_t)atoi(argv[2]);
  const struct CMUnitTest tests[] = {TEST(test_surgery)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Shared fixture of the guards' tests.
#include "test/unit/guards/guard_test.h"

#include "guards/tree.h"

#include <string.h>

static _Alignas(64) char memory[64]; // what tensors point at where their elements do not matter

static void on_assume(void *user, dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  (void)env;
  add_cond(user, cond, origin->op, origin->file, origin->line);
}

void guard_fixture_init(guard_fixture_t *f) {
  memset(f, 0, sizeof(*f));
  dt__arena_init(&f->arena, 0);
  expect_ok(dt__symenv_create(&f->env));
  dt__symenv_on_assume(f->env, on_assume, f);
  f->graph = dt__graph_create(&f->arena, f->env);
  assert_non_null(f->graph);
}

void guard_fixture_fini(guard_fixture_t *f) {
  for (uint32_t k = 0; k < MAX_INPUTS; k++)
    dt_tensor_release(f->inputs[k]);
  dt__guards_destroy(f->guards);
  dt__symenv_destroy(f->env);
  dt__arena_fini(&f->arena);
}

dt_sym_t size_symbol(guard_fixture_t *f, int64_t lo, int64_t hi, const char *name) {
  return dt__sym_new(f->env, DT_SYMBOL_SIZE, (dt_range_t){lo, hi}, NULL, name);
}

dt_sym_t literal(guard_fixture_t *f, int64_t value) { return dt__sym_const(f->env, value); }

static void declare(guard_fixture_t *f, const dt_graph_input_t *input) {
  dt_node_id_t id;
  expect_ok(dt__graph_add_input(f->graph, input, &id));
}

void add_input(guard_fixture_t *f, const char *name, dt_dtype_t dtype, uint32_t rank,
               const dt_sym_t *sizes) {
  dt_graph_input_t input = {.name = name, .dtype = dtype, .rank = rank, .contiguous = true};
  dt_sym_t stride = literal(f, 1);
  for (uint32_t d = rank; d-- > 0;) {
    input.sizes[d] = sizes[d];
    input.strides[d] = stride;
    stride = dt__sym_mul(f->env, stride, sizes[d]);
  }
  declare(f, &input);
}

void add_strided(guard_fixture_t *f, const char *name, uint32_t rank, const dt_sym_t *sizes,
                 const dt_sym_t *strides) {
  dt_graph_input_t input = {.name = name, .dtype = DT_U8, .rank = rank};
  memcpy(input.sizes, sizes, rank * sizeof(*sizes));
  memcpy(input.strides, strides, rank * sizeof(*strides));
  declare(f, &input);
}

void add_integer(guard_fixture_t *f, const char *name, dt_dtype_t dtype, dt_sym_t value) {
  declare(f, &(dt_graph_input_t){
                 .name = name, .dtype = dtype, .contiguous = true, .is_int = true, .value = value});
}

void add_capture(guard_fixture_t *f, const char *name, dt_sym_t value) {
  dt_graph_capture_t capture = {.name = name, .value = value};
  assert_true(DT_VEC_PUSH(&f->arena, &f->graph->captures, capture));
}

void add_update(guard_fixture_t *f, uint32_t input) {
  dt_graph_update_t update = {.input = input, .value = {1}}; // guards do not look at the value
  assert_true(DT_VEC_PUSH(&f->arena, &f->graph->updates, update));
}

void add_cond(guard_fixture_t *f, dt_sym_t cond, const char *op, const char *file, int line) {
  assert_true(cond.id != 0);
  assert_true(f->n_conds < MAX_CONDS);
  f->conds[f->n_conds++] = (dt_guard_cond_t){cond, {op, file, line}};
}

void make_guards(guard_fixture_t *f) {
  dt__guards_destroy(f->guards);
  f->guards = NULL;
  expect_ok(dt__guards_create(f->graph, f->conds, f->n_conds, &f->context, &f->guards));
  assert_true(dt__guards_symbol_count(f->guards) <= 64);
}

void set_input_at(guard_fixture_t *f, uint32_t k, dt_dtype_t dtype, uint32_t rank,
                  const int64_t *sizes, const int64_t *strides, void *data) {
  dt_tensor_release(f->inputs[k]);
  f->inputs[k] = NULL;
  dt_tensor_desc_t desc = {
      .dtype = dtype, .rank = rank, .sizes = sizes, .strides = strides, .data = data};
  expect_ok(dt_tensor_create(&desc, &f->inputs[k]));
}

void set_input(guard_fixture_t *f, uint32_t k, dt_dtype_t dtype, uint32_t rank,
               const int64_t *sizes, const int64_t *strides) {
  set_input_at(f, k, dtype, rank, sizes, strides, memory);
}

static dt_guard_args_t args_of(guard_fixture_t *f) {
  for (uint32_t k = 0; k < MAX_INPUTS; k++)
    f->captured[k] = f->captures[k] ? *f->captures[k] : 0;
  return (dt_guard_args_t){.inputs = f->inputs, .captures = f->captured, .modes = f->modes};
}

static void check_decision(guard_fixture_t *f, bool accepted) {
  const dt_guards_t *programs[] = {f->guards};
  dt_guard_args_t args = args_of(f);
  dt_tree_t *tree = NULL;
  int64_t symbols[64];
  expect_ok(dt__tree_create(programs, 1, &tree));
  int64_t found = dt__tree_run(tree, &args, symbols);
  dt__tree_destroy(tree);
  if ((found == 0) != accepted)
    fail_msg("run says %d, a decision over the one program %lld", accepted, (long long)found);
  if (accepted &&
      memcmp(symbols, f->symbols, dt__guards_symbol_count(f->guards) * sizeof(symbols[0])) != 0)
    fail_msg("a decision over the one program leaves other symbols");
}

bool hit(guard_fixture_t *f) {
  memset(f->symbols, 0x55, sizeof(f->symbols));
  dt_guard_args_t args = args_of(f);
  bool accepted = dt__guards_run(f->guards, &args, f->symbols);
  dt_text_t text;
  dt__text_init(&text);
  bool failed = dt__guards_explain(f->guards, &args, &text);
  if (failed == accepted || (text.len > 0) != failed)
    fail_msg("run says %d, explain says %d: \"%s\"", accepted, failed, dt__text_str(&text));
  dt__text_fini(&text);
  check_decision(f, accepted);
  return accepted;
}

const char *why(guard_fixture_t *f) {
  dt_text_t text;
  dt__text_init(&text);
  dt_guard_args_t args = args_of(f);
  dt__guards_explain(f->guards, &args, &text);
  const char *copy = dt__arena_strdup(&f->arena, dt__text_str(&text));
  dt__text_fini(&text);
  return copy;
}

const char *text_of(guard_fixture_t *f) {
  dt_text_t text;
  dt__text_init(&text);
  dt__guards_print(f->guards, &text);
  const char *copy = dt__arena_strdup(&f->arena, dt__text_str(&text));
  dt__text_fini(&text);
  return copy;
}

// SPDX-License-Identifier: Apache-2.0
// See rig.h.
#include "test/unit/loop/rig.h"

#include "lower/graph/eval_compare.h"
#include "lower/graph/scalar.h"
#include "lower/passes/passes.h"
#include "runtime/base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void rig_init(rig_t *rig, uint64_t seed) {
  memset(rig, 0, sizeof(*rig));
  graph_fixture_init(&rig->f);
  rig->random = seed * 0x9e3779b97f4a7c15u + 1;
  rig->run = dt__program_interpret;
}

void rig_fini(rig_t *rig) { graph_fixture_fini(&rig->f); }

uint32_t rig_below(rig_t *rig, uint32_t n) {
  rig->random ^= rig->random << 13;
  rig->random ^= rig->random >> 7;
  rig->random ^= rig->random << 17;
  return (uint32_t)(rig->random >> 33) % n;
}

// ---- Graphs -------------------------------------------------------------------------------------------
dt_node_id_t rig_input(rig_t *rig, dt_dtype_t dtype, uint32_t rank, const dt_sym_t *sizes,
                       bool strided, fill_t fill) {
  graph_fixture_t *f = &rig->f;
  rig->inputs[f->graph->inputs.len].fill = fill;
  if (!strided)
    return input(f, "x", dtype, rank, sizes);
  dt_graph_input_t made = {.name = "x", .dtype = dtype, .rank = rank};
  for (uint32_t k = 0; k < rank; k++) {
    made.sizes[k] = sizes[k];
    made.strides[k] =
        dt__sym_new(f->env, DT_SYMBOL_INT, (dt_range_t){INT64_MIN, INT64_MAX}, NULL, "");
  }
  dt_node_id_t id;
  expect_ok(dt__graph_add_input(f->graph, &made, &id));
  return id;
}

void rig_output(rig_t *rig, dt_node_id_t id) { expect_ok(dt__graph_add_output(rig->f.graph, id)); }

void check_text(const char *expected, const char *got) {
  if (strcmp(expected, got) == 0)
    return;
  // Long texts do not fit one message: the first line that differs comes first.
  size_t same = 0, line = 0;
  for (; expected[same] && expected[same] == got[same]; same++)
    if (expected[same] == '\n')
      line = same + 1;
  print_error("first difference: expected\n%.120s\ngot\n%.120s\n", expected + line, got + line);
  for (const char *at = got; *at; at += strlen(at) < 900 ? strlen(at) : 900)
    print_error("%.900s", at);
  print_error("\n");
  fail();
}

static void check_round_trip(rig_t *rig, const dt_program_t *program) {
  dt_text_t first, second;
  dt_symenv_t *env;
  dt_scan_t scan;
  dt_program_t *parsed;
  dt__text_init(&first);
  dt__text_init(&second);
  dt__program_print(program, &first);
  expect_ok(dt__text_status(&first));
  expect_ok(dt__symenv_create(&env));
  dt__scan_init(&scan, first.data, first.len, "program");
  dt_status_t status = dt__program_parse(&rig->f.arena, env, &scan, &parsed);
  if (status)
    print_error("%s\n", first.data);
  expect_ok(status);
  expect_ok(dt__program_verify(parsed));
  dt__program_print(parsed, &second);
  check_text(dt__text_str(&first), dt__text_str(&second));
  dt__symenv_destroy(env);
  dt__text_fini(&first);
  dt__text_fini(&second);
}

// The passes find an environment that answers from facts only.
static dt_program_t *lower_after(rig_t *rig, const dt_graph_pass_fn_t *passes, size_t n,
                                 dt_symenv_t **out_env) {
  const dt_graph_t *graph = rig->f.graph;
  dt_program_t *program;
  expect_ok(dt__symenv_status(rig->f.env));
  expect_ok(dt__graph_verify(graph));
  dt__symenv_freeze(rig->f.env);
  for (size_t k = 0; k < n; k++) {
    uint32_t n_inputs = graph->inputs.len, n_outputs = graph->outputs.len;
    expect_ok(passes[k](&rig->f.arena, graph, &graph));
    expect_ok(dt__graph_verify(graph));
    assert_int_equal(graph->inputs.len, n_inputs);
    assert_int_equal(graph->outputs.len, n_outputs);
  }
  expect_ok(dt__symenv_clone(rig->f.env, out_env));
  expect_ok(dt__lower_graph(&rig->f.arena, *out_env, graph, &program));
  expect_ok(dt__program_verify(program));
  check_round_trip(rig, program);
  return program;
}

dt_program_t *rig_lower(rig_t *rig, dt_symenv_t **out_env) {
  static const dt_graph_pass_fn_t passes[] = {dt__pass_decompose};
  return lower_after(rig, passes, 1, out_env);
}

dt_program_t *rig_lower_passed(rig_t *rig, dt_symenv_t **out_env) {
  static const dt_graph_pass_fn_t passes[] = {dt__pass_decompose, dt__pass_fold, dt__pass_cse,
                                              dt__pass_dce};
  return lower_after(rig, passes, 4, out_env);
}

// ---- Arguments ------------------------------------------------------------------------------------------
typedef struct memory_t {
  char *block; // owned
  char *at;    // element (0, …, 0)
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
  int64_t span; // elements of the block
} memory_t;

// Strides of one of several layouts: contiguous, transposed, with gaps, some dims backwards.
static void choose_layout(rig_t *rig, uint32_t rank, memory_t *m) {
  uint32_t order = rig_below(rig, 3), gaps = rig_below(rig, 2), flips = rig_below(rig, 1u << rank);
  int64_t stride = 1 + (int64_t)gaps;
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t d = order == 1 ? k : rank - 1 - k;
    m->strides[d] = flips >> d & 1 ? -stride : stride;
    stride *= m->sizes[d] > 0 ? m->sizes[d] : 1;
  }
}

static double random_float(rig_t *rig, fill_t fill) {
  static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0};
  if (fill == FILL_SPECIALS && rig_below(rig, 4) == 0)
    return specials[rig_below(rig, 6)];
  double value = (double)rig_below(rig, 4001) / 1000.0;
  return fill == FILL_POSITIVE ? value + 0.001 : value - 2.0;
}

static dt_scalar_t random_value(rig_t *rig, dt_dtype_t dtype, fill_t fill, int64_t limit) {
  if (dt__dtype_is_float(dtype))
    return (dt_scalar_t){.f = random_float(rig, fill)};
  if (dt__dtype_is_bool(dtype))
    return (dt_scalar_t){.i = rig_below(rig, 2)};
  if (fill == FILL_INDEX)
    return (dt_scalar_t){.i = limit > 0 ? (int64_t)rig_below(rig, (uint32_t)(2 * limit)) - limit
                                        : 0};
  dt_scalar_t value = {.i = (int64_t)rig_below(rig, 200) - 100};
  return dt__scalar_cast(DT_I64, dtype, value);
}

static void make_argument(rig_t *rig, uint32_t k, int64_t *symbols, memory_t *m) {
  const dt_graph_input_t *in = &rig->f.graph->inputs.items[k];
  dt_symenv_t *env = rig->f.env;
  memset(m, 0, sizeof(*m));
  for (uint32_t d = 0; d < in->rank; d++)
    assert_true(dt__sym_eval(env, in->sizes[d], symbols, &m->sizes[d]));
  if (!in->contiguous) {
    choose_layout(rig, in->rank, m);
    for (uint32_t d = 0; d < in->rank; d++) {
      uint32_t symbol;
      assert_true(dt__sym_is_symbol(env, in->strides[d], &symbol));
      symbols[symbol] = m->strides[d];
    }
  }
  int64_t low = 0, high = 0;
  for (uint32_t d = 0; d < in->rank; d++) {
    assert_true(dt__sym_eval(env, in->strides[d], symbols, &m->strides[d]));
    int64_t reach = m->sizes[d] > 0 ? (m->sizes[d] - 1) * m->strides[d] : 0;
    low += reach < 0 ? reach : 0;
    high += reach > 0 ? reach : 0;
  }
  size_t bytes = dt_dtype_size(in->dtype);
  m->span = high - low + 1;
  m->block = malloc((size_t)m->span * bytes);
  assert_non_null(m->block);
  m->at = m->block + (size_t)-low * bytes;
  int64_t limit = 0;
  if (rig->inputs[k].fill == FILL_INDEX)
    assert_true(dt__sym_eval(env, rig->inputs[k].limit, symbols, &limit));
  for (int64_t i = 0; i < m->span; i++)
    dt__scalar_store(in->dtype, m->block + (size_t)i * bytes,
                     random_value(rig, in->dtype, rig->inputs[k].fill, limit));
  double value = dt__dtype_is_signed(in->dtype) ? -4.0 : 0.0;
  for (int64_t i = 0; rig->inputs[k].fill == FILL_ASCENDING && i < m->sizes[0]; i++) {
    value += rig_below(rig, 3);
    dt_scalar_t made = dt__scalar_cast(DT_F64, in->dtype, (dt_scalar_t){.f = value});
    dt__scalar_store(in->dtype, m->at + i * m->strides[0] * (int64_t)bytes, made);
  }
}

// ---- Comparing --------------------------------------------------------------------------------------------
static void print_case(const rig_t *rig, const dt_program_t *program, const int64_t *symbols,
                       const char *what) {
  dt_text_t text;
  dt__text_init(&text);
  dt__graph_print(rig->f.graph, &text);
  dt__program_print(program, &text);
  print_error("%s, symbols", what);
  for (uint32_t k = 0; k < dt__symenv_symbol_count(rig->f.env); k++)
    print_error(" %lld", (long long)symbols[k]);
  print_error("\n%s\n", dt__text_str(&text));
  dt__text_fini(&text);
}

static void check_result(rig_t *rig, const dt_program_t *program, const int64_t *symbols,
                         const dt_eval_value_t *expected, const void *got, const char *what) {
  dt_eval_report_t report;
  bool same = dt__eval_compare(expected, got, NULL, &report);
  rig->compared += (uint32_t)report.compared;
  rig->uncertain += (uint32_t)report.uncertain;
  if (same)
    return;
  dt_text_t text;
  dt__text_init(&text);
  dt__eval_report_print(expected, &report, &text);
  print_case(rig, program, symbols, what);
  print_error("%s\n", dt__text_str(&text));
  fail();
}

// Memory for result k: of the size that the evaluator found, or, where it failed, large.
static void *make_result(const rig_t *rig, uint32_t k, const dt_eval_value_t *expected) {
  const dt_graph_t *graph = rig->f.graph;
  dt_dtype_t dtype = dt__graph_node(graph, graph->outputs.items[k])->dtype;
  int64_t count = expected ? expected[k].count : 1 << 16;
  void *made = malloc((size_t)count * dt_dtype_size(dtype) + 1);
  assert_non_null(made);
  return made;
}

void rig_compare(rig_t *rig, const dt_program_t *program, int64_t *symbols, const char *what) {
  const dt_graph_t *graph = rig->f.graph;
  uint32_t n_in = graph->inputs.len, n_out = graph->outputs.len;
  memory_t memory[RIG_INPUTS];
  void *inputs[RIG_INPUTS], *outputs[RIG_INPUTS];
  dt_eval_arg_t args[RIG_INPUTS];
  dt_eval_value_t expected[RIG_INPUTS];
  dt_arena_t arena;
  assert_true(n_in <= RIG_INPUTS && n_out <= RIG_INPUTS);
  dt__arena_init(&arena, 0);
  for (uint32_t k = 0; k < n_in; k++) {
    make_argument(rig, k, symbols, &memory[k]);
    inputs[k] = memory[k].at;
    args[k] = (dt_eval_arg_t){memory[k].at, memory[k].sizes, memory[k].strides};
  }
  const dt_eval_options_t options = {.error_bounds = true};
  dt_status_t want = dt__graph_eval(graph, symbols, args, &options, &arena, expected);
  for (uint32_t k = 0; k < n_out; k++)
    outputs[k] = make_result(rig, k, want ? NULL : expected);
  dt_status_t got = rig->run(program, symbols, inputs, outputs);
  if (dt_status_code(want) != dt_status_code(got)) {
    print_case(rig, program, symbols, what);
    print_error("expected %s (%s), got %s (%s)\n", dt_code_name(dt_status_code(want)),
                dt_status_message(want), dt_code_name(dt_status_code(got)), dt_status_message(got));
    fail();
  }
  for (uint32_t k = 0; k < n_out; k++) {
    if (!want)
      check_result(rig, program, symbols, &expected[k], outputs[k], what);
    free(outputs[k]);
  }
  for (uint32_t k = 0; k < n_in; k++)
    free(memory[k].block);
  dt_status_free(want);
  dt_status_free(got);
  dt__arena_fini(&arena);
}

void rig_worth(const rig_t *rig) {
  if (rig->uncertain > rig->compared / 2)
    print_error("%u elements compared, %u uncertain\n", rig->compared, rig->uncertain);
  assert_true(rig->uncertain <= rig->compared / 2);
}

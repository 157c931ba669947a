// SPDX-License-Identifier: Apache-2.0
// Chains in whole calls on the fake driver, against the evaluator within its bounds: lengths around
// the edges of tiles, warps and vectors, with one launch and with slabs in shared and in global
// memory.
#include "test/support/subjects.h"

#include "ductile/ir.h"
#include "lower/graph/eval.h"
#include "lower/graph/eval_compare.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "test/fake_cuda/fake_cuda.h"
#include "test/unit/cuda/emit/chain_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 8 // inputs, results

// A graph, its function on the device, and its meaning.
typedef struct subject_of_text_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
} subject_of_text_t;

static void open_subject(subject_of_text_t *s, const char *text, bool strict) {
  memset(s, 0, sizeof(*s));
  dt__arena_init(&s->arena, 0);
  expect_ok(dt__symenv_create(&s->env));
  dt_scan_t scan;
  dt__scan_init(&scan, text, strlen(text), "graph");
  expect_ok(dt__graph_parse(&s->arena, s->env, &scan, &s->graph));
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 1, .compile_threads = 2};
  expect_ok(dt_runtime_create(&options, &s->runtime));
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  expect_ok(dt_session_create(s->runtime, &on, &s->session));
  dt_function_options_t how = {.struct_size = sizeof(how),
                               .name = "chain",
                               .strict_fp = strict,
                               .answer = DT_ANSWER_COMPILED};
  expect_ok(dt_function_create_from_ir(s->runtime, text, strlen(text), "text", &how, &s->function));
}

static void close_subject(subject_of_text_t *s) {
  dt_function_release(s->function);
  dt_session_destroy(s->session);
  dt_runtime_release(s->runtime);
  dt__symenv_destroy(s->env);
  dt__arena_fini(&s->arena);
}

// ---- Arguments --------------------------------------------------------------------------------------
// What attention's operands have besides numbers.
typedef enum spice_t {
  SPICE_NONE,
  SPICE_BLIND, // the mask leaves nothing of the first batch, and of the others not the first 300
  SPICE_ENDS,  // some keys have infinities or NaN
} spice_t;
static spice_t spice;

static void add_spice(dt_tensor_t *tensor, uint32_t input, rng_t *rng) {
  static const double ends[] = {-INFINITY, INFINITY, NAN};
  dt_dtype_t dtype = dt_tensor_dtype(tensor);
  char *data = dt_tensor_data(tensor);
  int64_t count = dt_tensor_count(tensor),
          last = dt_tensor_sizes(tensor)[dt_tensor_rank(tensor) - 1];
  for (int64_t i = 0; i < count; i++) {
    bool blind = spice == SPICE_BLIND && input == 3 && (i < last || i % last < 300);
    bool ended = spice == SPICE_ENDS && input == 1 && rng_between(rng, 0, 300) == 0;
    double value = ended ? ends[rng_between(rng, 0, 20) % 19 % 3] : -INFINITY;
    if (blind || ended)
      dt__scalar_store(dtype, data + (size_t)i * dt_dtype_size(dtype),
                       dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = value}));
  }
}

static void fill(dt_tensor_t *tensor, rng_t *rng) {
  dt_dtype_t dtype = dt_tensor_dtype(tensor);
  char *data = dt_tensor_data(tensor);
  for (int64_t i = 0; i < dt_tensor_count(tensor); i++) {
    dt_scalar_t value = {.i = rng_between(rng, 0, 7)}; // rows of a table
    if (dt__dtype_is_float(dtype))
      value = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = rng_float(rng)});
    dt__scalar_store(dtype, data + (size_t)i * dt_dtype_size(dtype), value);
  }
}

typedef struct arguments_t {
  uint32_t n;
  dt_tensor_t *host[MOST], *there[MOST];
} arguments_t;

static void make_arguments(subject_of_text_t *s, const int64_t *symbols, rng_t *rng,
                           arguments_t *out) {
  out->n = s->graph->inputs.len;
  for (uint32_t k = 0; k < out->n; k++) {
    const dt_graph_input_t *input = &s->graph->inputs.items[k];
    int64_t sizes[DT_MAX_RANK];
    for (uint32_t d = 0; d < input->rank; d++)
      assert_true(dt__sym_eval(s->env, input->sizes[d], symbols, &sizes[d]));
    expect_ok(dt_tensor_create_empty(input->dtype, input->rank, sizes, &out->host[k]));
    fill(out->host[k], rng);
    add_spice(out->host[k], k, rng);
    expect_ok(dt_tensor_create_on(s->session, input->dtype, input->rank, sizes, &out->there[k]));
    expect_ok(dt_tensor_copy(s->session, out->host[k], out->there[k]));
  }
}

static void release_arguments(arguments_t *args) {
  for (uint32_t k = 0; k < args->n; k++) {
    RELEASE(args->host[k], args->there[k]);
  }
}

// ---- Calls --------------------------------------------------------------------------------------------
static void expect_result(const dt_eval_value_t *wanted, const void *got, const char *what) {
  dt_eval_report_t report;
  if (dt__eval_compare(wanted, got, NULL, &report))
    return;
  dt_text_t text;
  dt__text_init(&text);
  dt__eval_report_print(wanted, &report, &text);
  fail_msg("%s: %s", what, dt__text_str(&text));
}

#define BLOCK_OF_KEYS 64
#define FEW_ROWS 16
#define MANY_KEYS 256
// Attention by blocks of keys rounds weights before they are divided by their sum, not after
// (docs/kernels.md): each is off by half a unit in its last place on either side, and the result by
// as much as all of them times |v|. `wanted` are the evaluator's numbers.
static bool rounds_elsewhere, one_row;
static bool is_by_keys(const int64_t *symbols) {
  return one_row || (symbols[1] > BLOCK_OF_KEYS && symbols[2] > BLOCK_OF_KEYS) ||
         (symbols[1] > MANY_KEYS && symbols[2] <= FEW_ROWS);
}
static void widen_bounds(subject_of_text_t *s, const int64_t *symbols, const arguments_t *args,
                         dt_eval_arg_t *values, dt_arena_t *arena, dt_eval_value_t *wanted) {
  dt_tensor_t *v = args->host[2];
  size_t count = (size_t)dt_tensor_count(v);
  uint16_t *sizes_of = malloc(count * sizeof(*sizes_of) + 1);
  assert_non_null(sizes_of);
  for (size_t i = 0; i < count; i++)
    sizes_of[i] = ((const uint16_t *)dt_tensor_data(v))[i] & 0x7fff;
  const void *data = values[2].data;
  dt_eval_value_t whole[MOST];
  dt_eval_options_t options = {0};
  values[2].data = sizes_of;
  expect_ok(dt__graph_eval(s->graph, symbols, values, &options, arena, whole));
  values[2].data = data;
  double unit = dt_tensor_dtype(v) == DT_F16 ? 0x1p-11 : 0x1p-8;
  for (int64_t i = 0; i < wanted[0].count; i++)
    wanted[0].bound[i] += 2 * unit * whole[0].data[i].f;
  free(sizes_of);
}

static void compare(subject_of_text_t *s, const int64_t *symbols, const arguments_t *args,
                    dt_tensor_t **results, const char *what) {
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  uint32_t n = s->graph->outputs.len;
  dt_eval_arg_t values[MOST];
  dt_eval_value_t wanted[MOST];
  for (uint32_t k = 0; k < args->n; k++)
    values[k] = (dt_eval_arg_t){dt_tensor_data(args->host[k]), dt_tensor_sizes(args->host[k]),
                                dt_tensor_strides(args->host[k])};
  dt_eval_options_t options = {.error_bounds = true};
  expect_ok(dt__graph_eval(s->graph, symbols, values, &options, &arena, wanted));
  if (rounds_elsewhere && is_by_keys(symbols))
    widen_bounds(s, symbols, args, values, &arena, wanted);
  for (uint32_t o = 0; o < n; o++) {
    size_t bytes = (size_t)wanted[o].count * dt_dtype_size(wanted[o].dtype);
    void *got = malloc(bytes + 1);
    assert_non_null(got);
    assert_int_equal(dt_tensor_count(results[o]), wanted[o].count);
    expect_ok(dt_tensor_read(s->session, results[o], got, bytes));
    expect_result(&wanted[o], got, what);
    free(got);
  }
  dt__arena_fini(&arena);
}

// One call where symbols have these values, with so many launches.
static void call(subject_of_text_t *s, const int64_t *sizes, uint64_t launches, const char *what) {
  char name[160];
  (void)snprintf(name, sizeof(name), "%s, sizes %lld, %lld, %lld", what, (long long)sizes[0],
                 (long long)sizes[1], (long long)sizes[2]);
  int64_t *symbols = calloc(dt__symenv_symbol_count(s->env) + 3, sizeof(*symbols));
  assert_non_null(symbols);
  memcpy(symbols, sizes, 3 * sizeof(*sizes));
  rng_t rng = {(uint64_t)(sizes[0] * 31 + sizes[1] * 7 + sizes[2])};
  arguments_t args = {0};
  dt_tensor_t *results[MOST] = {NULL};
  make_arguments(s, symbols, &rng, &args);
  uint64_t before = fake_cuda_calls(DT_CUDA_SYM_launch);
  expect_ok(
      dt_call(s->session, s->function, args.there, args.n, results, s->graph->outputs.len, NULL));
  expect_ok(dt_session_wait(s->session));
  uint64_t made = fake_cuda_calls(DT_CUDA_SYM_launch) - before;
  const char *first = "";
  if (fake_cuda_violations(&first))
    fail_msg("%s: %s", name, first);
  if (made != launches)
    fail_msg("%s: %llu launches, expected %llu", name, (unsigned long long)made,
             (unsigned long long)launches);
  compare(s, symbols, &args, results, name);
  for (uint32_t o = 0; o < s->graph->outputs.len; o++)
    dt_tensor_release(results[o]);
  release_arguments(&args);
  free(symbols);
}

// `launches`: of a call that computes something.
static void check(const char *text, bool strict, const int64_t (*sizes)[3], uint32_t n,
                  uint64_t launches, const char *what) {
  subject_of_text_t s;
  open_subject(&s, text, strict);
  for (uint32_t i = 0; i < n; i++)
    call(&s, sizes[i], sizes[i][0] && sizes[i][2] ? launches : 0, what);
  close_subject(&s);
}

// ---- Attention ------------------------------------------------------------------------------------
#define COUNT(sizes) (sizeof(sizes) / sizeof((sizes)[0]))

static void attend_as(const attention_case_t *c, bool strict, const int64_t (*sizes)[3],
                      uint32_t n) {
  dt_text_t text;
  char what[128];
  (void)snprintf(what, sizeof(what), "attention %s, %d heads of %d%s%s%s%s%s", c->dtype, c->heads,
                 c->dim, c->masked ? ", mask" : "", c->chosen ? ", choice" : "",
                 c->scaled ? ", scale" : "", c->queries ? ", rows known" : "",
                 strict ? ", strict" : "");
  rounds_elsewhere = !strict && strstr(c->dtype, "f16"); // bf16, too
  one_row = c->queries == 1;
  // In order, a row of scores has one thread: no chain is made of it.
  check(attention_graph(c, &text), strict, sizes, n, strict ? 3 : 1, what);
  rounds_elsewhere = one_row = false;
  dt__text_fini(&text);
}

static void attend(const char *dtype, int heads, int dim, bool masked, bool strict,
                   const int64_t (*sizes)[3], uint32_t n) {
  attend_as(&(attention_case_t){.dtype = dtype, .heads = heads, .dim = dim, .masked = masked},
            strict, sizes, n);
}

static void attention(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{2, 7, 7},   {1, 16, 16}, {1, 17, 17},  {1, 65, 3},
                                     {1, 1, 1},   {0, 4, 4},   {3, 4, 0},    {1, 0, 2},
                                     {1, 40, 20}, {1, 8, 17},  {1, 130, 18}, {2, 64, 1}};
  attend("f16", 2, 32, true, false, sizes, COUNT(sizes));
  attend("f16", 3, 5, false, false, sizes, COUNT(sizes));
  attend("f32", 2, 32, false, false, sizes, COUNT(sizes));
  attend("f32", 2, 5, true, false, sizes, COUNT(sizes));
}

static void attention_of_other_types(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 7, 7}, {1, 24, 17}};
  attend("bf16", 2, 32, true, false, sizes, COUNT(sizes));
  attend("f64", 2, 8, true, false, sizes, COUNT(sizes));
  attend("f16", 2, 16, true, true, sizes, COUNT(sizes));
  attend("f32", 2, 16, false, true, sizes, COUNT(sizes));
}

static void attention_over_global_memory(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 3000, 17}, {1, 3001, 17}};
  attend("f16", 2, 16, false, false, sizes, COUNT(sizes));
}

// Several tiles of columns to a team: the head's, where one makes rows once for all of them.
static void columns_in_one_team(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{2, 9, 5}, {1, 20, 18}};
  fake_cuda_processors(1);
  attend("f16", 2, 100, true, false, sizes, COUNT(sizes));
  attend("f32", 2, 72, false, false, sizes, COUNT(sizes));
  fake_cuda_processors(0);
}

// Tiles of more rows, where a processor has many items; rows that end within a vector, and ones
// that take a warp's half, a whole one, and more than its registers.
static void tiles_of_more_rows(void **state) {
  (void)state;
  static const int64_t many[][3] = {{1, 70, 40}, {1, 131, 66}, {1, 8, 33}};
  static const int64_t some[][3] = {{1, 45, 20}, {1, 130, 17}};
  static const int64_t longer[][3] = {{1, 200, 3}, {1, 257, 17}, {1, 520, 17}};
  fake_cuda_processors(1);
  attend("f16", 2, 32, true, false, many, COUNT(many));
  attend("bf16", 2, 64, true, false, many, 1);
  attend("f16", 2, 32, true, false, some, COUNT(some));
  fake_cuda_processors(0);
  attend("f16", 2, 32, true, false, longer, COUNT(longer));
}

// Rows that stay in registers from the scores to the product: all tiles, rows that are shorter than
// what threads have, end within a vector, fill it, or are too long; depths and columns that are no
// powers of two; tiles of 128 rows in two steps, of which the second one may have none.
static void scores_in_registers(void **state) {
  (void)state;
  static const int64_t few[][3] = {{1, 128, 16}, {1, 129, 5}, {1, 256, 2}, {1, 3, 16}};
  static const int64_t steps[][3] = {{1, 128, 70}, {1, 33, 130}, {2, 100, 66}};
  static const int64_t full[][3] = {{1, 128, 34}, {1, 6, 64}, {1, 140, 34}};
  attend("f16", 2, 32, true, false, few, COUNT(few));
  attend("f16", 2, 48, true, false, few, 2);
  attend("bf16", 2, 8, false, false, few, COUNT(few));
  fake_cuda_processors(1);
  attend("f16", 2, 32, true, false, steps, COUNT(steps));
  attend("bf16", 2, 24, false, false, steps, 2);
  fake_cuda_processors(2);
  attend("f16", 2, 64, true, false, full, COUNT(full));
  fake_cuda_processors(0);
}

// One row of queries: keys are shared out by warps, and by blocks of clusters where there are
// enough of both; numbers of keys around the edges of what a warp, a block and a ring take.
static void one_row_of_queries(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 1, 1},   {2, 7, 1},   {1, 16, 1},  {1, 17, 1},
                                     {1, 63, 1},  {2, 64, 1},  {1, 65, 1},  {1, 128, 1},
                                     {1, 200, 1}, {3, 0, 1},   {0, 5, 1},   {1, 255, 1},
                                     {1, 256, 1}, {1, 513, 1}, {2, 640, 1}, {1, 1032, 1}};
  static const int64_t some[][3] = {{1, 96, 1}, {2, 129, 1}, {1, 515, 1}, {1, 1100, 1}};
  static const int64_t longer[][3] = {{1, 2048, 1}, {1, 3001, 1}};
  attention_case_t c = {.dtype = "f16", .heads = 2, .dim = 64, .queries = 1, .scaled = true};
  attend_as(&c, false, sizes, COUNT(sizes));
  c.heads = 3;
  c.masked = true;
  attend_as(&c, false, some, COUNT(some));
  c.dim = 128;
  attend_as(&c, false, some, COUNT(some));
  c.dim = 32;
  c.masked = c.scaled = false;
  c.chosen = true;
  attend_as(&c, false, some, COUNT(some));
  c.dim = 80;
  c.dtype = "bf16";
  attend_as(&c, false, some, COUNT(some));
  c.dim = 64;
  attend_as(&c, false, longer, COUNT(longer));
  c.dim = 5; // no such form: products of vectors and matrices
  c.queries = 0;
  attend_as(&c, false, some, 2);
}

// Without room for clusters, several items to a block, and rows that see nothing.
static void one_row_of_many_heads(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{3, 300, 1}, {2, 513, 1}, {3, 40, 1}, {2, 1100, 1}};
  attention_case_t c = {.dtype = "f16", .heads = 5, .dim = 64, .queries = 1, .masked = true};
  for (int n = 1; n <= 64; n *= 4) {
    fake_cuda_processors(n);
    spice = n == 4 ? SPICE_BLIND : n == 16 ? SPICE_ENDS : SPICE_NONE;
    attend_as(&c, false, sizes, COUNT(sizes));
  }
  fake_cuda_processors(0);
  spice = SPICE_BLIND;
  attend_as(&c, false, sizes, COUNT(sizes));
  spice = SPICE_ENDS;
  attend_as(&c, false, sizes, COUNT(sizes));
  spice = SPICE_NONE;
}

// A few rows whose number calls decide, or which is known, over many keys.
static void few_rows_of_queries(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{1, 257, 2}, {2, 300, 16}, {1, 1025, 9}, {1, 520, 1},
                                     {1, 700, 8}, {1, 80, 3},   {1, 300, 17}};
  static const int64_t known[][3] = {{1, 257, 4}, {2, 600, 4}, {1, 30, 4}};
  attention_case_t c = {.dtype = "f16", .heads = 2, .dim = 64, .masked = true};
  attend_as(&c, false, sizes, COUNT(sizes));
  c.dim = 128;
  attend_as(&c, false, sizes, 3);
  c.queries = 4;
  attend_as(&c, false, known, COUNT(known));
}

// Lengths that no vector fits, where only the mask's rows lie anywhere.
static void masks_of_odd_rows(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{3, 5, 4}, {2, 65, 17}, {2, 126, 3}};
  attend("f16", 2, 32, true, false, sizes, COUNT(sizes));
}

// ---- Rows -----------------------------------------------------------------------------------------
static void normalise(const rows_case_t *c, bool strict, const int64_t (*sizes)[3], uint32_t n) {
  static const char *const names[] = {"norm", "norm and its rows", "softmax", "norm of a table",
                                      "norm of a table and its rows"};
  dt_text_t text;
  char what[96];
  (void)snprintf(what, sizeof(what), "%s %s, %d to %d%s%s", names[c->rows], c->dtype, c->width,
                 c->columns, c->w_turned ? ", turned" : "", strict ? ", strict" : "");
  check(rows_graph(c, &text), strict, sizes, n, strict ? 2 : 1, what);
  dt__text_fini(&text);
}

static const int64_t row_sizes[][3] = {{1, 8, 1},  {7, 8, 1},  {16, 8, 1},
                                       {17, 8, 1}, {65, 8, 1}, {0, 8, 1}};

static void rows_in_front_of_products(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f16", "f32"};
  static const struct {
    int width, columns;
    bool turned;
  } shapes[] = {{64, 64, true}, {33, 70, false}, {100, 9, true}};
  for (uint32_t d = 0; d < 2; d++)
    for (uint32_t i = 0; i < 3; i++)
      for (int rows = ROWS_NORM; rows <= ROWS_SOFTMAX; rows++)
        normalise(&(rows_case_t){dtypes[d], (rows_t)rows, shapes[i].width, shapes[i].columns,
                                 shapes[i].turned},
                  false, row_sizes, i == 1 ? COUNT(row_sizes) : 4);
}

static void rows_of_other_types(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{5, 8, 1}, {18, 8, 1}};
  normalise(&(rows_case_t){"bf16", ROWS_NORM, 40, 66, false}, false, sizes, 2);
  normalise(&(rows_case_t){"f64", ROWS_SOFTMAX, 33, 9, false}, false, sizes, 2);
  normalise(&(rows_case_t){"f16", ROWS_NORM, 2, 5, true}, false, sizes, 2);
  normalise(&(rows_case_t){"f16", ROWS_NORM_RESULT, 70, 66, true}, true, sizes, 2);
  normalise(&(rows_case_t){"f32", ROWS_NORM, 24, 66, true}, true, sizes, 2);
}

static void tiles_of_more_normalised_rows(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{70, 8, 1}, {33, 8, 1}, {20, 8, 1}};
  fake_cuda_processors(1);
  normalise(&(rows_case_t){"f16", ROWS_NORM, 384, 136, true}, false, sizes, COUNT(sizes));
  normalise(&(rows_case_t){"f16", ROWS_NORM_RESULT, 40, 256, false}, false, sizes, COUNT(sizes));
  fake_cuda_processors(4);
  normalise(&(rows_case_t){"f16", ROWS_NORM, 64, 100, true}, false, sizes, COUNT(sizes));
  fake_cuda_processors(0);
}

// Tiles for groups of warps: whole ones, of which an item has several, and others; of a depth that
// is in the code chunk by chunk, in twos, and with one left over; both layouts.
static void rows_by_groups_of_warps(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{60, 8, 1}, {129, 8, 1}};
  fake_cuda_processors(1);
  normalise(&(rows_case_t){"f16", ROWS_NORM, 128, 384, true}, false, sizes, COUNT(sizes));
  normalise(&(rows_case_t){"f16", ROWS_NORM, 320, 136, true}, false, sizes, COUNT(sizes));
  normalise(&(rows_case_t){"bf16", ROWS_NORM, 72, 128, false}, false, sizes, 1);
  normalise(&(rows_case_t){"f16", ROWS_NORM_RESULT, 384, 196, false}, false, sizes, COUNT(sizes));
  normalise(&(rows_case_t){"f16", ROWS_SOFTMAX, 64, 99, true}, false, sizes, 1);
  normalise(&(rows_case_t){"f16", ROWS_NORM, 1100, 64, true}, false, sizes, 1);
  fake_cuda_processors(0);
}

static void rows_of_a_table(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{5, 8, 1}, {18, 8, 1}};
  normalise(&(rows_case_t){"f16", ROWS_GATHERED_NORM, 64, 70, true}, false, sizes, 2);
  normalise(&(rows_case_t){"f32", ROWS_GATHERED_NORM, 33, 9, false}, false, sizes, 2);
  normalise(&(rows_case_t){"f16", ROWS_GATHERED_RESULT, 33, 130, true}, false, sizes, 2);
  normalise(&(rows_case_t){"f32", ROWS_GATHERED_RESULT, 64, 130, true}, false, sizes, 2);
}

int main(int argc, char **argv) {
  if (argc > 1) // a pattern: only the tests that match
    cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {TEST(attention),
                                     TEST(attention_of_other_types),
                                     TEST(attention_over_global_memory),
                                     TEST(columns_in_one_team),
                                     TEST(tiles_of_more_rows),
                                     TEST(scores_in_registers),
                                     TEST(one_row_of_queries),
                                     TEST(one_row_of_many_heads),
                                     TEST(few_rows_of_queries),
                                     TEST(masks_of_odd_rows),
                                     TEST(tiles_of_more_normalised_rows),
                                     TEST(rows_by_groups_of_warps),
                                     TEST(rows_in_front_of_products),
                                     TEST(rows_of_other_types),
                                     TEST(rows_of_a_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Programs that write their arguments: whole, a row, through views of any kind, several times, on
// tensors of several layouts. What the call leaves in the arguments is what the evaluator leaves
// there, on the CPU and on a device (the fake driver runs the PTX), and what lies between their
// elements stays as it was.
#include "test/support/subjects.h"

#include <stdio.h>
#include <string.h>

#define ROWS 6
#define WIDTH 8

enum { X, Y, ROW, AT, P, N_IN };

// ---- Programs -------------------------------------------------------------------------------------
static dt_sym_t num(dt_trace_t *t, int64_t n) { return dt_sym_const(t, n); }
static dt_value_t row_of(dt_trace_t *t, dt_value_t x, dt_sym_t k) {
  return dt_slice(t, x, 0, k, num(t, 1), 1);
}
static dt_value_t at_p(dt_trace_t *t, const dt_value_t *in) {
  return dt_size_value(t, dt_int_value(t, in[P]));
}
#define PROGRAM(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure)

// A row at a position that data says.
PROGRAM(append) {
  (void)closure;
  dt_update(t, in[X], dt_update_slice(t, in[X], in[ROW], in[AT], 0, DT_UPDATE_CHECKED));
  out[0] = dt_neg(t, in[Y]);
  return NULL;
}
// A row at a position that is an integer of the call; the new value is read.
PROGRAM(append_symbol) {
  (void)closure;
  dt_update(t, in[X], dt_update_slice(t, in[X], in[ROW], at_p(t, in), 0, DT_UPDATE_CHECKED));
  out[0] = dt_mul(t, in[X], in[Y]);
  return NULL;
}
// Two caches, one of them at two places, and attention over both.
PROGRAM(append_both) {
  (void)closure;
  dt_value_t x = dt_update_slice(t, in[X], in[ROW], in[AT], 0, DT_UPDATE_CLAMPED);
  dt_value_t y = dt_update_slice(t, in[Y], dt_neg(t, in[ROW]), in[AT], 0, DT_UPDATE_CIRCULAR);
  y = dt_update_slice(t, y, dt_exp(t, in[ROW]), at_p(t, in), 0, DT_UPDATE_CIRCULAR);
  dt_update(t, in[X], x);
  dt_update(t, in[Y], y);
  dt_value_t scores = dt_matmul(t, in[ROW], dt_transpose(t, in[X], 0, 1));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 1), in[Y]);
  return NULL;
}
// An element each of all rows, at places of their own, which one update after the other writes.
PROGRAM(scatter_places) {
  (void)closure;
  dt_value_t at = dt_cast(
      t, dt_mod(t, dt_mul(t, in[Y], dt_scalar(t, DT_F32, 9)), dt_scalar(t, DT_F32, 3)), DT_I64);
  dt_update(t, in[X], dt_scatter_elements(t, in[X], at, in[Y], 1, DT_SCATTER_REPLACE));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
// The same joined with what is there, often several times.
static dt_status_t scatter_join(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                dt_scatter_mode_t mode) {
  dt_value_t at = dt_cast(
      t, dt_mod(t, dt_mul(t, in[Y], dt_scalar(t, DT_F32, 9)), dt_scalar(t, DT_F32, 3)), DT_I64);
  dt_update(t, in[X], dt_scatter_elements(t, in[X], at, in[Y], 1, mode));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
PROGRAM(scatter_add) {
  (void)closure;
  return scatter_join(t, in, out, DT_SCATTER_ADD);
}
PROGRAM(scatter_mul) {
  (void)closure;
  return scatter_join(t, in, out, DT_SCATTER_MUL);
}
PROGRAM(scatter_max) {
  (void)closure;
  return scatter_join(t, in, out, DT_SCATTER_MAX);
}
PROGRAM(scatter_min) {
  (void)closure;
  return scatter_join(t, in, out, DT_SCATTER_MIN);
}
// Whole rows, some of them several times: rows 0, 1, 0, 1, 0, then a row that data say, twice.
PROGRAM(put_join) {
  (void)closure;
  dt_sym_t five = num(t, 5);
  dt_value_t rows = dt_mod(t, dt_iota(t, DT_I64, 1, &five, 0), dt_scalar(t, DT_I64, 2));
  dt_value_t y = dt_slice(t, in[Y], 0, num(t, 1), five, 1), twice[2];
  twice[0] = twice[1] = dt_unsqueeze(t, in[AT], 0);
  dt_update(t, in[X], dt_index_put(t, in[X], 1, &rows, y, DT_SCATTER_ADD));
  dt_value_t at = dt_concat(t, 2, twice, 0), row = dt_squeeze(t, in[ROW], 0);
  dt_update(t, in[X], dt_index_put(t, in[X], 1, &at, row, DT_SCATTER_MUL));
  dt_update(t, in[X], dt_index_put(t, in[X], 1, &rows, row, DT_SCATTER_MAX));
  out[0] = dt_neg(t, in[Y]);
  return NULL;
}
// One row, joined and replaced in turn, which is read in between.
PROGRAM(row_join) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 1), num(t, WIDTH)};
  dt_value_t at =
      dt_expand(t, dt_reshape(t, in[AT], 2, (dt_sym_t[]){num(t, 1), num(t, 1)}), 2, sizes);
  dt_update(t, in[X], dt_scatter_elements(t, in[X], at, in[ROW], 0, DT_SCATTER_ADD));
  dt_value_t sum = dt_add(t, in[X], in[Y]);
  (void)dt_update_view(t, row_of(t, in[X], dt_int_value(t, in[P])), row_of(t, sum, num(t, 3)));
  dt_update(t, in[X], dt_scatter_elements(t, in[X], at, in[ROW], 0, DT_SCATTER_MIN));
  out[0] = dt_mul(t, in[X], sum);
  return NULL;
}
PROGRAM(view_row) {
  (void)closure;
  (void)dt_update_view(t, row_of(t, in[X], dt_int_value(t, in[P])), in[ROW]);
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
PROGRAM(view_column) {
  (void)closure;
  dt_value_t to = dt_slice(t, in[X], 1, num(t, 6), num(t, 3), -2);
  (void)dt_update_view(t, to, dt_slice(t, in[Y], 1, num(t, 1), num(t, 3), 1));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
// Turned, flattened, cut and turned again.
PROGRAM(view_turned) {
  (void)closure;
  dt_value_t turned = dt_transpose(t, in[X], 0, 1);
  dt_value_t cut = dt_slice(t, turned, 0, dt_int_value(t, in[P]), num(t, 2), 1);
  dt_value_t from = dt_slice(t, in[Y], 1, num(t, 0), num(t, 2), 1);
  (void)dt_update_view(t, dt_transpose(t, cut, 0, 1), from);
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
PROGRAM(view_flat) {
  (void)closure;
  dt_sym_t rows = dt_dim(t, in[X], 0), all = dt_sym_mul(t, rows, num(t, WIDTH));
  dt_value_t flat = dt_reshape(t, in[Y], 1, &all);
  (void)dt_update_view(t, dt_reshape(t, in[X], 1, &all), flat);
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
PROGRAM(view_of_view) {
  (void)closure;
  dt_value_t rows = dt_slice(t, in[X], 0, num(t, 1), num(t, 2), 2);
  dt_value_t part = dt_slice(t, rows, 1, num(t, 2), num(t, 3), 1);
  (void)dt_update_view(
      t, part,
      dt_slice(t, dt_slice(t, in[Y], 0, num(t, 0), num(t, 2), 1), 1, num(t, 0), num(t, 3), 1));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
PROGRAM(view_diagonal) {
  (void)closure;
  dt_value_t to = dt_diagonal(t, in[X], 1, 0, 1);
  (void)dt_update_view(t, to, dt_neg(t, dt_diagonal(t, in[Y], 1, 0, 1)));
  out[0] = dt_diagonal(t, in[X], -2, 0, 1);
  return NULL;
}
PROGRAM(view_strided) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 3), num(t, 2)}, strides[] = {num(t, 2), num(t, 11)};
  dt_value_t to = dt_as_strided(t, in[X], 2, sizes, strides, num(t, 5));
  (void)dt_update_view(t, to, dt_exp(t, dt_as_strided(t, in[Y], 2, sizes, strides, num(t, 1))));
  out[0] = to; // what it showed
  return NULL;
}
// Which of the strides is the larger one the call says.
PROGRAM(view_strided_here) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 3), num(t, 2)};
  dt_sym_t strides[] = {dt_int_value(t, in[P]), num(t, 9)};
  dt_value_t to = dt_as_strided(t, in[X], 2, sizes, strides, num(t, 5));
  (void)dt_update_view(t, to, dt_as_strided(t, in[Y], 2, sizes, strides, num(t, 1)));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
// No element of it.
PROGRAM(view_strided_empty) {
  (void)closure;
  dt_sym_t none = dt_sym_sub(t, dt_int_value(t, in[P]), num(t, 2));
  dt_sym_t sizes[] = {num(t, 3), none}, strides[] = {num(t, 2), num(t, 11)};
  dt_value_t to = dt_as_strided(t, in[X], 2, sizes, strides, num(t, 5));
  (void)dt_update_view(t, to, dt_neg(t, dt_as_strided(t, in[Y], 2, sizes, strides, num(t, 1))));
  out[0] = to;
  return NULL;
}
PROGRAM(view_unfold) {
  (void)closure;
  dt_value_t to = dt_unfold(t, in[X], 1, num(t, 2), num(t, 3));
  (void)dt_update_view(t, to, dt_unfold(t, in[Y], 1, num(t, 2), num(t, 3)));
  out[0] = dt_unfold(t, in[X], 0, num(t, 3), dt_int_value(t, in[P]));
  return NULL;
}
// Each update sees the one before; views that were made before do not.
PROGRAM(several) {
  (void)closure;
  dt_value_t first = row_of(t, in[X], num(t, 0)), old = dt_neg(t, first);
  (void)dt_update_view(t, first, in[ROW]);
  dt_update(t, in[X], dt_add(t, in[X], in[Y]));
  (void)dt_update_view(t, row_of(t, in[X], num(t, 1)), row_of(t, in[X], num(t, 0)));
  (void)dt_update_view(t, first, dt_add(t, old, first)); // zeros, at the row that it shows
  out[0] = dt_add(t, in[X], first);
  return NULL;
}
// Rows only, twice and overlapping; the second stays.
PROGRAM(rows_twice) {
  (void)closure;
  dt_value_t y = dt_slice(t, in[Y], 0, num(t, 0), num(t, 2), 1);
  (void)dt_update_view(t, dt_slice(t, in[X], 0, num(t, 1), num(t, 2), 1), y);
  (void)dt_update_view(t, dt_slice(t, in[X], 0, dt_int_value(t, in[P]), num(t, 1), 1), in[ROW]);
  out[0] = dt_neg(t, in[Y]);
  return NULL;
}
// What is written is read from the other argument before that is written.
PROGRAM(exchange) {
  (void)closure;
  dt_value_t x = row_of(t, in[X], num(t, 1)), y = row_of(t, in[Y], num(t, 2));
  (void)dt_update_view(t, x, y);
  (void)dt_update_view(t, y, x);
  out[0] = dt_add(t, in[X], in[Y]);
  return NULL;
}
// From one place of an argument to another that overlaps it.
PROGRAM(shift) {
  (void)closure;
  dt_value_t from = dt_slice(t, in[X], 0, num(t, 0), num(t, 4), 1);
  (void)dt_update_view(t, dt_slice(t, in[X], 0, num(t, 1), num(t, 4), 1), from);
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
PROGRAM(put) {
  (void)closure;
  dt_value_t index[] = {in[AT], dt_scalar(t, DT_I64, -2)};
  dt_value_t one = dt_index_put(t, in[X], 2, index, dt_scalar(t, DT_F32, 5), DT_SCATTER_REPLACE);
  dt_value_t row = dt_squeeze(t, in[ROW], 0);
  dt_value_t two = dt_index_put(t, one, 1, index, row, DT_SCATTER_ADD);
  dt_update(t, in[X], one);
  out[0] = two;
  return NULL;
}
// Rows one after another, as many as the call says, and heads that share them.
PROGRAM(rows_shared) {
  (void)closure;
  dt_sym_t n = dt_int_value(t, in[P]), two = num(t, 2), heads[] = {two, n, num(t, WIDTH)};
  dt_value_t from = dt_slice(t, in[Y], 0, num(t, 1), n, 1);
  (void)dt_update_view(t, dt_slice(t, in[X], 0, n, n, 1), dt_neg(t, from));
  dt_sym_t all[] = {two, dt_dim(t, in[X], 0), num(t, WIDTH)};
  dt_value_t shared = dt_expand(t, dt_unsqueeze(t, in[X], 0), 3, all);
  dt_value_t q = dt_expand(t, dt_unsqueeze(t, from, 0), 3, heads);
  out[0] = dt_matmul(t, q, dt_transpose(t, shared, 1, 2));
  return NULL;
}
// No argument: a new value of what the view is of.
PROGRAM(of_value) {
  (void)closure;
  dt_value_t x = dt_exp(t, in[X]);
  out[0] = dt_update_view(t, dt_slice(t, x, 1, num(t, 2), num(t, 2), 1),
                          dt_slice(t, in[Y], 1, num(t, 0), num(t, 2), 1));
  return NULL;
}
// An argument is written with another, which is then written itself.
PROGRAM(takes_over) {
  (void)closure;
  dt_update(t, in[X], in[Y]);
  dt_update(t, in[Y], dt_neg(t, in[Y]));
  dt_value_t product = dt_cumprod(t, in[X], 1, DT_CUMSUM_INCLUSIVE);
  (void)dt_update_view(t, row_of(t, in[X], num(t, 1)), row_of(t, product, num(t, 0)));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
PROGRAM(takes_over_view) {
  (void)closure;
  dt_value_t written = dt_update_view(t, in[X], in[Y]);
  dt_update(t, in[Y], dt_neg(t, in[Y]));
  dt_update(t, in[X], dt_add(t, written, in[X]));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
static dt_status_t hand_back(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)t;
  (void)closure;
  out[0] = in[0];
  return NULL;
}
// What is an argument unchanged stays what it was when that is written.
PROGRAM(stays) {
  (void)closure;
  dt_value_t taken;
  dt_sym_t sizes[] = {dt_dim(t, in[X], 0), num(t, WIDTH)};
  dt_value_t cast = dt_cast(t, in[X], DT_F32), shaped = dt_reshape(t, in[X], 2, sizes);
  dt_value_t whole = dt_expand(t, in[X], 2, sizes);
  dt_cond(t, dt_scalar(t, DT_BOOL, 1), hand_back, hand_back, NULL, 1, in, 1, &taken);
  dt_update(t, in[X], in[Y]);
  dt_update(t, in[Y], dt_add(t, dt_add(t, cast, shaped), dt_add(t, whole, taken)));
  out[0] = dt_neg(t, cast);
  return NULL;
}
// One value for both arguments; a view of one of them is then written.
PROGRAM(one_for_both) {
  (void)closure;
  dt_value_t sum = dt_add(t, in[X], in[Y]);
  dt_update(t, in[X], sum);
  dt_update(t, in[Y], sum);
  (void)dt_update_view(t, row_of(t, in[Y], num(t, 1)), in[ROW]);
  out[0] = dt_neg(t, in[X]);
  return NULL;
}
// As it was.
PROGRAM(nothing) {
  (void)closure;
  dt_update(t, in[X], dt_transpose(t, dt_transpose(t, in[X], 0, 1), 0, 1));
  out[0] = dt_neg(t, in[X]);
  return NULL;
}

static const struct {
  const char *name;
  dt_program_fn_t program;
} programs[] = {{"append", append},
                {"append_symbol", append_symbol},
                {"append_both", append_both},
                {"scatter_places", scatter_places},
                {"scatter_add", scatter_add},
                {"scatter_mul", scatter_mul},
                {"scatter_max", scatter_max},
                {"scatter_min", scatter_min},
                {"put_join", put_join},
                {"row_join", row_join},
                {"view_row", view_row},
                {"view_column", view_column},
                {"view_turned", view_turned},
                {"view_flat", view_flat},
                {"view_of_view", view_of_view},
                {"view_diagonal", view_diagonal},
                {"view_strided", view_strided},
                {"view_strided_here", view_strided_here},
                {"view_strided_empty", view_strided_empty},
                {"view_unfold", view_unfold},
                {"several", several},
                {"rows_twice", rows_twice},
                {"exchange", exchange},
                {"shift", shift},
                {"rows_shared", rows_shared},
                {"put", put},
                {"of_value", of_value},
                {"takes_over", takes_over},
                {"takes_over_view", takes_over_view},
                {"stays", stays},
                {"one_for_both", one_for_both},
                {"nothing", nothing}};
#define N_PROGRAMS (sizeof(programs) / sizeof(programs[0]))

static dt_function_t *function_at(dt_runtime_t *runtime, const char *name, dt_program_fn_t program,
                                  dt_answer_t answer) {
  static const dt_dim_decl_t sizes[] = {{.name = "rows"}, {.is_static = true, .value = WIDTH}};
  static const dt_dim_decl_t row[] = {{.is_static = true, .value = 1},
                                      {.is_static = true, .value = WIDTH}};
  static const dt_input_decl_t inputs[N_IN] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "y", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "row", .dtype = DT_F32, .rank = 2, .dims = row},
      {.name = "at", .dtype = DT_I64},
      {.name = "p", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
  subject_t subject = {name, program, N_IN, 1, inputs};
  return subject_function(runtime, &subject, NULL, answer);
}

// ---- Layouts --------------------------------------------------------------------------------------
#define ROOM 256 // elements

// How the elements of x and y lie.
typedef struct layout_t {
  const char *name;
  int64_t first, strides[2];
  bool shared; // y is x
} layout_t;
static const layout_t layouts[] = {{"contiguous", 0, {WIDTH, 1}, false},
                                   {"with gaps", 5, {WIDTH + 3, 1}, false},
                                   {"columns", 0, {1, ROWS}, false},
                                   {"every other", 1, {3 * WIDTH, 2}, false},
                                   {"backwards", 120, {-2 * WIDTH, -1}, false},
                                   {"shared", 0, {WIDTH + 1, 1}, true}};
#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

typedef struct arguments_t {
  float x[ROOM], y[ROOM];
  dt_tensor_t *in[N_IN];
} arguments_t;

static void fill(arguments_t *args, const layout_t *layout, int64_t at) {
  static const int64_t sizes[] = {ROWS, WIDTH}, row[] = {1, WIDTH};
  rng_t rng = {20261125};
  for (int k = 0; k < ROOM; k++) {
    args->x[k] = (float)(k % 17) / 16 - 0.5f;
    args->y[k] = (float)(k % 23) / 22 + 0.25f;
  }
  args->in[X] = tensor_over(DT_F32, 2, sizes, layout->strides, args->x + layout->first);
  args->in[Y] = tensor_over(DT_F32, 2, sizes, layout->strides,
                            (layout->shared ? args->x : args->y) + layout->first);
  args->in[ROW] = tensor_f32(&rng, 2, row);
  args->in[AT] = tensor_integer(at);
  args->in[P] = tensor_integer(2);
}

static dt_status_t call(const fixture_t *on, dt_function_t *function, arguments_t *args,
                        dt_tensor_t **out) {
  return dt_call(on->session, function, args->in, N_IN, out, 1, NULL);
}

static void expect_near(const float *actual, const float *expected, const char *what) {
  for (int k = 0; k < ROOM; k++) {
    double off = (double)actual[k] - (double)expected[k];
    if (off > 1e-5 || off < -1e-5)
      fail_msg("%s: number %d of the memory is %g; expected %g", what, k, (double)actual[k],
               (double)expected[k]);
  }
}

// ---- On the CPU -----------------------------------------------------------------------------------
static void check_layout(const fixture_t *on, size_t program, const layout_t *layout,
                         dt_function_t *compiled, dt_function_t *evaluated) {
  static arguments_t here, there;
  char what[96];
  dt_tensor_t *actual = NULL, *expected = NULL;
  snprintf(what, sizeof(what), "%s, %s", programs[program].name, layout->name);
  fill(&here, layout, 3);
  fill(&there, layout, 3);
  expect_ok(call(on, evaluated, &here, &expected));
  expect_ok(call(on, compiled, &there, &actual));
  expect_close(actual, expected, 1e-5, 1e-5, what);
  expect_near(there.x, here.x, what);
  expect_near(there.y, here.y, what);
  RELEASE(actual, expected);
  release_tensors(here.in, N_IN);
  release_tensors(there.in, N_IN);
}

static void test_cpu(void **state) {
  (void)state;
  fixture_t on = fixture_on(DT_CPU, 3);
  for (size_t k = 0; k < N_PROGRAMS; k++) {
    dt_function_t *compiled =
        function_at(on.runtime, programs[k].name, programs[k].program, compiled_answer());
    dt_function_t *evaluated =
        function_at(on.runtime, programs[k].name, programs[k].program, DT_ANSWER_EVALUATOR);
    for (size_t i = 0; i < N_LAYOUTS; i++)
      check_layout(&on, k, &layouts[i], compiled, evaluated);
    dt_function_release(compiled);
    dt_function_release(evaluated);
  }
  fixture_end(&on);
}

// ---- Other dtypes ---------------------------------------------------------------------------------
PROGRAM(append_any) {
  (void)closure;
  dt_update(t, in[0], dt_update_slice(t, in[0], in[1], in[2], 0, DT_UPDATE_CHECKED));
  (void)dt_update_view(t, dt_slice(t, in[0], 1, num(t, 1), num(t, 1), 1),
                       dt_slice(t, in[0], 1, num(t, 0), num(t, 1), 1));
  out[0] = dt_reshape(t, in[0], 1, (dt_sym_t[]){dt_sym_mul(t, dt_dim(t, in[0], 0), num(t, 3))});
  return NULL;
}

static void check_dtype(fixture_t *on, dt_dtype_t dtype) {
  static const dt_dim_decl_t x[] = {{.name = "rows"}, {.is_static = true, .value = 3}},
                             row[] = {{.is_static = true, .value = 1},
                                      {.is_static = true, .value = 3}};
  const dt_input_decl_t inputs[] = {{.name = "x", .dtype = dtype, .rank = 2, .dims = x},
                                    {.name = "row", .dtype = dtype, .rank = 2, .dims = row},
                                    {.name = "at", .dtype = DT_I64}};
  dt_function_options_t options = options_of(3, inputs);
  dt_function_t *function = function_of(on, append_any, NULL, &options);
  size_t size = dt_dtype_size(dtype);
  unsigned char want[15 * 8] = {0}, got[15 * 8] = {0}, given[3 * 8] = {0};
  for (size_t k = 0; k < 15 * size; k++)
    want[k] = got[k] = (unsigned char)(dtype == DT_BOOL ? k % 3 == 0 : k % 61);
  for (size_t k = 0; k < 3 * size; k++)
    given[k] = (unsigned char)(dtype == DT_BOOL ? k % 2 : 60 - k);
  memcpy(want + 6 * size, given, 3 * size);
  for (size_t i = 0; i < 5; i++)
    memcpy(want + (3 * i + 1) * size, want + 3 * i * size, size);
  dt_tensor_t *in[] = {tensor_over(dtype, 2, SIZES(5, 3), NULL, got),
                       tensor_over(dtype, 2, SIZES(1, 3), NULL, given), tensor_integer(-3)};
  dt_tensor_t *out = NULL;
  expect_code(dt_call(on->session, function, in, 3, &out, 1, NULL), DT_E_RANGE);
  dt_tensor_release(in[2]);
  in[2] = tensor_integer(2);
  expect_ok(dt_call(on->session, function, in, 3, &out, 1, NULL));
  assert_memory_equal(got, want, 15 * size);
  assert_memory_equal(dt_tensor_data(out), want, 15 * size);
  RELEASE(in[0], in[1], in[2], out);
  dt_function_release(function);
}

static void test_dtypes(void **state) {
  (void)state;
  static const dt_dtype_t dtypes[] = {DT_F16, DT_BF16, DT_F64, DT_I8, DT_I32, DT_U64, DT_BOOL};
  fixture_t on = fixture_on(DT_CPU, 1);
  for (size_t k = 0; k < sizeof(dtypes) / sizeof(dtypes[0]); k++)
    check_dtype(&on, dtypes[k]);
  fixture_end(&on);
}

// ---- What evaluators and compiled code may share: some answers by hand ------------------------------
static float element(const float *x, int64_t i, int64_t j) { return x[i * WIDTH + j]; }

static void run(dt_program_fn_t program, arguments_t *before, arguments_t *after) {
  fixture_t on = fixture_on(DT_CPU, 1);
  dt_function_t *function = function_at(on.runtime, "hand", program, compiled_answer());
  dt_tensor_t *out = NULL;
  fill(before, &layouts[0], 3);
  fill(after, &layouts[0], 3);
  expect_ok(call(&on, function, after, &out));
  dt_tensor_release(out);
  dt_function_release(function);
  fixture_end(&on);
}

static void test_by_hand(void **state) {
  (void)state;
  static arguments_t before, after;
  run(view_diagonal, &before, &after);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < WIDTH; j++)
      assert_true(element(after.x, i, j) ==
                  (j == i + 1 ? -element(before.y, i, j) : element(before.x, i, j)));
  release_tensors(before.in, N_IN);
  release_tensors(after.in, N_IN);
  run(view_of_view, &before, &after);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < WIDTH; j++) {
      bool written = (i == 1 || i == 3) && j >= 2 && j < 5;
      assert_true(element(after.x, i, j) ==
                  (written ? element(before.y, i / 2, j - 2) : element(before.x, i, j)));
    }
  release_tensors(before.in, N_IN);
  release_tensors(after.in, N_IN);
  run(several, &before, &after);
  const float *row = dt_tensor_data(before.in[ROW]);
  for (int j = 0; j < WIDTH; j++) {
    assert_true(element(after.x, 0, j) == 0);
    assert_true(element(after.x, 1, j) == row[j] + element(before.y, 0, j));
    assert_true(element(after.x, 2, j) == element(before.x, 2, j) + element(before.y, 2, j));
  }
  release_tensors(before.in, N_IN);
  release_tensors(after.in, N_IN);
}

// What was read of an argument before it is written.
static void test_kept(void **state) {
  (void)state;
  static arguments_t before, after;
  run(takes_over, &before, &after);
  for (int i = 0; i < ROWS; i++) {
    float product = 1;
    for (int j = 0; j < WIDTH; j++) {
      product *= element(before.y, 0, j);
      float want = i == 1 ? product : element(before.y, i, j);
      assert_float_equal(element(after.x, i, j), want, 1e-6);
      assert_true(element(after.y, i, j) == -element(before.y, i, j));
    }
  }
  release_tensors(before.in, N_IN);
  release_tensors(after.in, N_IN);
  run(takes_over_view, &before, &after);
  for (int i = 0; i < ROWS * WIDTH; i++) {
    assert_true(after.x[i] == 2 * before.y[i]);
    assert_true(after.y[i] == -before.y[i]);
  }
  release_tensors(before.in, N_IN);
  release_tensors(after.in, N_IN);
  run(stays, &before, &after);
  for (int i = 0; i < ROWS * WIDTH; i++) {
    assert_true(after.x[i] == before.y[i]);
    assert_true(after.y[i] == 4 * before.x[i]);
  }
  release_tensors(before.in, N_IN);
  release_tensors(after.in, N_IN);
  run(one_for_both, &before, &after);
  const float *row = dt_tensor_data(before.in[ROW]);
  for (int i = 0; i < ROWS * WIDTH; i++) {
    assert_true(after.x[i] == before.x[i] + before.y[i]);
    assert_true(after.y[i] == (i / WIDTH == 1 ? row[i - WIDTH] : after.x[i]));
  }
  release_tensors(before.in, N_IN);
  release_tensors(after.in, N_IN);
}

// ---- On a device ----------------------------------------------------------------------------------
static void check_device(const fixture_t *host, const fixture_t *device, size_t program) {
  static arguments_t here, there;
  dt_tensor_t *actual = NULL, *expected = NULL, *own[N_IN];
  dt_function_t *compiled = function_at(device->runtime, programs[program].name,
                                        programs[program].program, compiled_answer());
  dt_function_t *evaluated = function_at(host->runtime, programs[program].name,
                                         programs[program].program, DT_ANSWER_EVALUATOR);
  fill(&here, &layouts[0], 3);
  fill(&there, &layouts[0], 3);
  for (int k = 0; k < P; k++)
    own[k] = tensor_upload(device->session, there.in[k]);
  own[P] = there.in[P];
  expect_ok(call(host, evaluated, &here, &expected));
  expect_ok(dt_call(device->session, compiled, own, N_IN, &actual, 1, NULL));
  for (int k = X; k <= Y; k++) {
    dt_tensor_t *copy = tensor_download(device->session, own[k]);
    expect_close(copy, here.in[k], 1e-5, 1e-5, programs[program].name);
    dt_tensor_release(copy);
  }
  dt_tensor_t *copy = tensor_download(device->session, actual);
  expect_close(copy, expected, 1e-5, 1e-5, programs[program].name);
  RELEASE(copy, actual, expected);
  release_tensors(own, P);
  release_tensors(here.in, N_IN);
  release_tensors(there.in, N_IN);
  dt_function_release(compiled);
  dt_function_release(evaluated);
}

static void test_cuda(void **state) {
  (void)state;
  fixture_t host = fixture_on(DT_CPU, 1), device = fixture_on(DT_CUDA, 2);
  for (size_t k = 0; k < N_PROGRAMS; k++)
    check_device(&host, &device, k);
  fixture_end(&device);
  fixture_end(&host);
}

// ---- Refusals -------------------------------------------------------------------------------------
PROGRAM(through_expand) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 4), num(t, WIDTH)};
  (void)dt_update_view(t, dt_expand(t, in[ROW], 2, sizes),
                       dt_slice(t, in[Y], 0, num(t, 0), num(t, 4), 1));
  out[0] = in[Y];
  return NULL;
}
PROGRAM(through_windows) {
  (void)closure;
  dt_value_t to = dt_unfold(t, in[X], 1, num(t, 3), num(t, 2));
  (void)dt_update_view(t, to, to);
  out[0] = in[Y];
  return NULL;
}
PROGRAM(through_overlap) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 3), num(t, 3)}, strides[] = {num(t, 2), num(t, 1)};
  dt_value_t to = dt_as_strided(t, in[X], 2, sizes, strides, num(t, 0));
  (void)dt_update_view(t, to, to);
  out[0] = in[Y];
  return NULL;
}
PROGRAM(through_op) {
  (void)closure;
  (void)dt_update_view(t, dt_neg(t, in[X]), in[Y]);
  out[0] = in[Y];
  return NULL;
}
PROGRAM(other_sizes) {
  (void)closure;
  (void)dt_update_view(t, row_of(t, in[X], num(t, 0)),
                       dt_slice(t, in[Y], 0, num(t, 0), num(t, 2), 1));
  out[0] = in[Y];
  return NULL;
}
PROGRAM(other_dtype) {
  (void)closure;
  (void)dt_update_view(t, row_of(t, in[X], num(t, 0)), dt_cast(t, in[ROW], DT_I32));
  out[0] = in[Y];
  return NULL;
}
PROGRAM(through_integer) {
  (void)closure;
  (void)dt_update_view(t, in[P], in[P]);
  out[0] = in[Y];
  return NULL;
}
PROGRAM(strided_outside) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 7), num(t, 2)}, strides[] = {num(t, WIDTH), num(t, 1)};
  dt_value_t x = dt_slice(t, in[X], 0, num(t, 0), num(t, 6), 1);
  out[0] = dt_as_strided(t, x, 2, sizes, strides, num(t, 0));
  return NULL;
}
PROGRAM(strided_backwards) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 2)}, strides[] = {num(t, -1)};
  out[0] = dt_as_strided(t, in[X], 1, sizes, strides, num(t, 4));
  return NULL;
}
PROGRAM(one_axis) {
  (void)closure;
  out[0] = dt_diagonal(t, in[X], 0, 1, -1);
  return NULL;
}
PROGRAM(no_step) {
  (void)closure;
  out[0] = dt_unfold(t, in[X], 1, num(t, 2), num(t, 0));
  return NULL;
}
PROGRAM(long_unfold) {
  (void)closure;
  out[0] = dt_unfold(t, in[X], 1, num(t, WIDTH + 1), num(t, 1));
  return NULL;
}
PROGRAM(float_index) {
  (void)closure;
  out[0] = dt_index_put(t, in[X], 1, &in[Y], in[ROW], DT_SCATTER_REPLACE);
  return NULL;
}
PROGRAM(many_indices) {
  (void)closure;
  dt_value_t index[] = {in[AT], in[AT], in[AT]};
  out[0] = dt_index_put(t, in[X], 3, index, in[ROW], DT_SCATTER_REPLACE);
  return NULL;
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    dt_program_fn_t program;
    dt_code_t code;
    const char *told;
  } rows[] = {
      {through_expand, DT_E_ARGUMENT, "was made by expand, and repeats elements"},
      {through_windows, DT_E_ARGUMENT, "windows of the view overlap"},
      {through_overlap, DT_E_ARGUMENT, "windows of the view overlap"},
      {through_op, DT_E_ARGUMENT, "the view is made by 'neg', which is no view"},
      {other_sizes, DT_E_SHAPE, "a value has the sizes of the view"},
      {other_dtype, DT_E_DTYPE, "the value is i32 of rank 2; expected f32"},
      {through_integer, DT_E_ARGUMENT, "is an integer; expected a tensor"},
      {strided_outside, DT_E_SHAPE, "as_strided"},
      {strided_backwards, DT_E_SHAPE, "strides are 0 or more"},
      {one_axis, DT_E_ARGUMENT, "expected two dims of x"},
      {no_step, DT_E_SHAPE, "the step is 1 or more"},
      {long_unfold, DT_E_SHAPE, "the size is at most that of the dim"},
      {float_index, DT_E_DTYPE, "index 0 must be i32 or i64, got f32"},
      {many_indices, DT_E_ARGUMENT, "3 indices of a value of rank 2"},
  };
  static arguments_t args, before;
  fixture_t on = fixture_on(DT_CPU, 1);
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_function_t *function =
        function_at(on.runtime, "refused", rows[k].program, compiled_answer());
    dt_tensor_t *out = NULL;
    fill(&args, &layouts[1], 3);
    before = args;
    expect_told(call(&on, function, &args, &out), rows[k].code, rows[k].told);
    assert_memory_equal(args.x, before.x, sizeof(args.x));
    assert_memory_equal(args.y, before.y, sizeof(args.y));
    release_tensors(args.in, N_IN);
    dt_function_release(function);
  }
  fixture_end(&on);
}

// Positions outside of the argument write nothing.
static void test_outside(void **state) {
  (void)state;
  static const dt_program_fn_t some[] = {append, put};
  static const int64_t outside[] = {ROWS, ROWS + 100, -ROWS - 1, INT64_MAX, INT64_MIN};
  static arguments_t args, before;
  fixture_t on = fixture_on(DT_CPU, 2);
  for (size_t k = 0; k < sizeof(some) / sizeof(some[0]); k++) {
    dt_function_t *function = function_at(on.runtime, "outside", some[k], compiled_answer());
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
      dt_tensor_t *out = NULL;
      fill(&args, &layouts[i % N_LAYOUTS], outside[i]);
      before = args;
      expect_code(call(&on, function, &args, &out), DT_E_RANGE);
      assert_memory_equal(args.x, before.x, sizeof(args.x));
      release_tensors(args.in, N_IN);
    }
    dt_function_release(function);
  }
  fixture_end(&on);
}

RUN_TESTS(TEST(test_cpu), TEST(test_dtypes), TEST(test_by_hand), TEST(test_kept), TEST(test_cuda),
          TEST(test_refused), TEST(test_outside))

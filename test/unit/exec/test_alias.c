// SPDX-License-Identifier: Apache-2.0
// Whatever writes an argument, on arguments of any layout, on arguments that share memory, and on
// none and one of them: what the call leaves is what the evaluator leaves on copies, or the call is
// refused by name. Donated arguments and results that may be views: what they share, and when.
#include "test/support/fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { X, U, AT, N_IN };

#define ROOM 512
#define PROGRAM(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure)

static dt_sym_t num(dt_trace_t *t, int64_t n) { return dt_sym_const(t, n); }

// ---- Builders -----------------------------------------------------------------------------------
// The new value of x by each builder, from updates of x's sizes and indices of its rows.
typedef struct builder_t {
  const char *name;
  dt_value_t (*make)(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                     dt_scatter_mode_t mode);
  dt_scatter_mode_t mode;
} builder_t;

static dt_value_t whole(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                        dt_scatter_mode_t mode) {
  (void)at, (void)mode;
  return dt_add(t, dt_mul(t, x, dt_scalar(t, DT_F32, 0.5)), u);
}

static dt_value_t flat(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                       dt_scatter_mode_t mode) {
  (void)at, (void)mode;
  dt_sym_t all = dt_sym_mul(t, dt_dim(t, x, 0), dt_dim(t, x, 1));
  return dt_update_view(t, dt_reshape(t, x, 1, &all), dt_neg(t, dt_reshape(t, u, 1, &all)));
}

// The last column, turned.
static dt_value_t column(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                         dt_scatter_mode_t mode) {
  (void)at, (void)mode;
  dt_sym_t last = dt_sym_sub(t, dt_dim(t, x, 1), num(t, 1));
  dt_value_t to = dt_slice(t, dt_transpose(t, x, 0, 1), 0, last, num(t, 1), 1);
  return dt_update_view(t, to, dt_slice(t, dt_transpose(t, u, 0, 1), 0, num(t, 0), num(t, 1), 1));
}

static dt_value_t bits(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                       dt_scatter_mode_t mode) {
  (void)at, (void)mode;
  dt_sym_t rows = dt_dim(t, x, 0);
  dt_value_t to = dt_slice(t, dt_bitcast(t, x, DT_I32), 0, num(t, 0), rows, 1);
  return dt_update_view(t, to, dt_bitcast(t, u, DT_I32));
}

static dt_value_t elements(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                           dt_scatter_mode_t mode) {
  dt_sym_t sizes[] = {dt_dim(t, x, 0), dt_dim(t, x, 1)};
  at = dt_expand(t, dt_unsqueeze(t, at, 1), 2, sizes);
  return dt_scatter_elements(t, x, at, u, 0, mode);
}

static dt_value_t tuples(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                         dt_scatter_mode_t mode) {
  return dt_scatter_nd(t, x, dt_unsqueeze(t, at, 1), u, mode);
}

static dt_value_t put(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                      dt_scatter_mode_t mode) {
  return dt_index_put(t, x, 1, &at, u, mode);
}

static dt_value_t slices(dt_trace_t *t, dt_value_t x, dt_value_t u, dt_value_t at,
                         dt_scatter_mode_t mode) {
  (void)at;
  dt_value_t zero = dt_scalar(t, DT_I64, 0);
  return dt_update_slice(t, x, dt_exp(t, u), zero, 0, (dt_update_mode_t)mode);
}

static const builder_t builders[][2] = {
    {{"update", whole, 0}, {"flat", flat, 0}},
    {{"column", column, 0}, {"elements", elements, DT_SCATTER_ADD}},
    {{"tuples", tuples, DT_SCATTER_ADD}, {"column", column, 0}},
    {{"elements", elements, DT_SCATTER_MAX}, {"put", put, DT_SCATTER_REPLACE}},
    {{"put", put, DT_SCATTER_ADD}, {"tuples", tuples, DT_SCATTER_MIN}},
    {{"bits", bits, 0}, {"elements", elements, DT_SCATTER_REPLACE}},
    {{"slice", slices, (dt_scatter_mode_t)DT_UPDATE_CHECKED}, {"put", put, DT_SCATTER_MUL}},
    {{"slice", slices, (dt_scatter_mode_t)DT_UPDATE_CLAMPED}, {"update", whole, 0}}};
#define N_BUILDERS (sizeof(builders) / sizeof(builders[0]))

// One update, then another, and what it then reads.
PROGRAM(write_twice) {
  const builder_t *pair = closure;
  for (int k = 0; k < 2; k++)
    dt_update(t, in[X], pair[k].make(t, in[X], in[U], in[AT], pair[k].mode));
  out[0] = dt_add(t, in[X], dt_neg(t, in[U]));
  return NULL;
}

static dt_function_t *function_at(fixture_t *on, dt_program_fn_t program, const void *closure,
                                  dt_input_kind_t kind, dt_answer_t answer) {
  static const dt_dim_decl_t sizes[] = {{.name = "rows"}, {.name = "width"}};
  const dt_input_decl_t inputs[N_IN] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = sizes, .kind = kind},
      {.name = "u", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "at", .dtype = DT_I64, .rank = 1, .dims = sizes}};
  dt_function_options_t options = options_of(N_IN, inputs);
  options.answer = answer;
  return function_of(on, program, (void *)(uintptr_t)closure, &options);
}

// ---- Arguments ----------------------------------------------------------------------------------
typedef struct layout_t {
  const char *name;
  int64_t gap;    // between rows
  int64_t behind; // u lies so many elements behind x in one memory; 0: in memory of its own
  bool same;      // u is x
} layout_t;
static const layout_t layouts[] = {{"plain", 0, 0, false},
                                   {"strided", 3, 0, false},
                                   {"the same", 0, 0, true},
                                   {"in part", 0, 1, false}};

typedef struct arguments_t {
  float x[ROOM], u[ROOM];
  int64_t at[ROOM];
  dt_tensor_t *in[N_IN];
} arguments_t;

static void fill(arguments_t *args, const layout_t *layout, int64_t rows, int64_t width) {
  int64_t sizes[] = {rows, width}, strides[] = {width + layout->gap, 1};
  for (int k = 0; k < ROOM; k++) {
    args->x[k] = (float)(k % 17) / 16 - 0.5f;
    args->u[k] = (float)(k % 23) / 22 + 0.25f;
    args->at[k] = rows ? k * 7 % (rows > 2 ? 2 : rows) - (k % 3 == 0 ? rows : 0) : 0;
  }
  float *u = layout->same ? args->x : layout->behind ? args->x + layout->behind : args->u;
  args->in[X] = tensor_over(DT_F32, 2, sizes, strides, args->x);
  args->in[U] = tensor_over(DT_F32, 2, sizes, strides, u);
  args->in[AT] = tensor_over(DT_I64, 1, &rows, NULL, args->at);
}

static void expect_same(const float *actual, const float *expected, const char *what) {
  for (int k = 0; k < ROOM; k++)
    if (actual[k] - expected[k] > 1e-5f || expected[k] - actual[k] > 1e-5f)
      fail_msg("%s: number %d of the memory is %g; expected %g", what, k, (double)actual[k],
               (double)expected[k]);
}

static void check(const fixture_t *on, dt_function_t *compiled, dt_function_t *evaluated,
                  const layout_t *layout, const int64_t *sizes, const char *name) {
  static arguments_t here, there;
  char what[128];
  dt_tensor_t *actual = NULL, *expected = NULL;
  snprintf(what, sizeof(what), "%s, %s, %lld x %lld", name, layout->name, (long long)sizes[0],
           (long long)sizes[1]);
  fill(&here, layout, sizes[0], sizes[1]);
  fill(&there, layout, sizes[0], sizes[1]);
  dt_status_t status = dt_call(on->session, compiled, there.in, N_IN, &actual, 1, NULL);
  if (layout->behind && sizes[0] * sizes[1] > layout->behind) {
    expect_told(status, DT_E_ARGUMENT, "is updated and overlaps");
    expect_same(there.x, here.x, what);
  } else {
    expect_ok(status);
    expect_ok(dt_call(on->session, evaluated, here.in, N_IN, &expected, 1, NULL));
    expect_close(actual, expected, 1e-5, 1e-5, what);
    expect_same(there.x, here.x, what);
    expect_same(there.u, here.u, what);
    RELEASE(actual, expected);
  }
  release_tensors(here.in, N_IN);
  release_tensors(there.in, N_IN);
}

static void test_builders(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{5, 4}, {0, 4}, {1, 4}, {4, 1}, {1, 1}};
  fixture_t on = fixture_on(DT_CPU, 2);
  for (size_t k = 0; k < N_BUILDERS; k++) {
    dt_function_t *compiled =
        function_at(&on, write_twice, builders[k], DT_INPUT_TENSOR, compiled_answer());
    dt_function_t *evaluated =
        function_at(&on, write_twice, builders[k], DT_INPUT_TENSOR, DT_ANSWER_EVALUATOR);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
      for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        check(&on, compiled, evaluated, &layouts[i], sizes[s], builders[k][0].name);
    dt_function_release(compiled);
    dt_function_release(evaluated);
  }
  fixture_end(&on);
}

// ---- Donated arguments --------------------------------------------------------------------------
PROGRAM(each) {
  (void)closure;
  out[0] = dt_add(t, dt_exp(t, in[X]), in[U]);
  return NULL;
}
PROGRAM(rows_replaced) {
  (void)closure;
  out[0] = dt_index_put(t, in[X], 1, &in[AT], in[U], DT_SCATTER_ADD);
  return NULL;
}
// Whose rows are read again after the first is written, so they are read elsewhere first.
PROGRAM(turned_rows) {
  (void)closure;
  dt_sym_t all = dt_sym_mul(t, dt_dim(t, in[X], 0), dt_dim(t, in[X], 1));
  dt_sym_t sizes[] = {dt_dim(t, in[X], 0), dt_dim(t, in[X], 1)};
  dt_value_t x = dt_reshape(t, dt_transpose(t, in[X], 0, 1), 1, &all);
  out[0] = dt_add(t, dt_reshape(t, x, 2, sizes), in[X]);
  return NULL;
}
PROGRAM(normed) {
  (void)closure;
  dt_value_t centred = dt_sub(t, in[X], dt_amax(t, in[X], 1, (int32_t[]){1}, true));
  out[0] = dt_mul(t, centred, in[X]);
  return NULL;
}
PROGRAM(also_updated) {
  (void)closure;
  out[0] = dt_add(t, dt_exp(t, in[X]), in[U]);
  dt_update(t, in[X], dt_neg(t, in[U]));
  return NULL;
}

enum { OWNED, BORROWED, GAPS, TWICE, GIVEN, N_CASES };

typedef struct donation_t {
  const char *name;
  dt_program_fn_t program;
  bool shares; // where nothing stands against it
} donation_t;

static dt_tensor_t *owned_like(const dt_tensor_t *from) {
  dt_tensor_t *made = NULL;
  expect_ok(dt_tensor_create_empty(dt_tensor_dtype(from), dt_tensor_rank(from),
                                   dt_tensor_sizes(from), &made));
  memcpy(dt_tensor_data(made), dt_tensor_data(from), dt_tensor_bytes(from));
  return made;
}

static void check_donation(const fixture_t *on, const donation_t *row, dt_function_t *compiled,
                           dt_function_t *evaluated, int how) {
  static arguments_t here, there;
  char what[96];
  dt_tensor_t *actual = NULL, *expected = NULL, *given = NULL;
  snprintf(what, sizeof(what), "%s, case %d", row->name, how);
  fill(&here, &layouts[how == GAPS], 5, 4);
  fill(&there, &layouts[how == GAPS], 5, 4);
  if (how == OWNED || how == TWICE || how == GIVEN) {
    dt_tensor_t *own = owned_like(there.in[X]);
    dt_tensor_release(there.in[X]);
    there.in[X] = own;
  }
  if (how == TWICE) {
    dt_tensor_release(there.in[U]);
    dt_tensor_release(here.in[U]);
    there.in[U] = there.in[X];
    here.in[U] = here.in[X];
    dt_tensor_retain(there.in[U]);
    dt_tensor_retain(here.in[U]);
  }
  if (how == GIVEN)
    actual = given = owned_like(there.in[X]);
  const void *data = dt_tensor_data(there.in[X]);
  expect_ok(dt_call(on->session, compiled, there.in, N_IN, &actual, 1, NULL));
  expect_ok(dt_call(on->session, evaluated, here.in, N_IN, &expected, 1, NULL));
  assert_true((dt_tensor_data(actual) == data) == (row->shares && how == OWNED));
  release_tensors(there.in, N_IN); // the result keeps the storage
  expect_close(actual, expected, 1e-5, 1e-5, what);
  RELEASE(actual, expected);
  release_tensors(here.in, N_IN);
}

static void test_donated(void **state) {
  (void)state;
  bool coded = compiled_answer() == DT_ANSWER_COMPILED;
  const donation_t rows[] = {{"each", each, coded},
                             {"rows_replaced", rows_replaced, coded},
                             {"turned_rows", turned_rows, false},
                             {"normed", normed, coded},
                             {"also_updated", also_updated, false}};
  fixture_t on = fixture_on(DT_CPU, 2);
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_function_t *compiled =
        function_at(&on, rows[k].program, NULL, DT_INPUT_DONATED, compiled_answer());
    dt_function_t *evaluated =
        function_at(&on, rows[k].program, NULL, DT_INPUT_TENSOR, DT_ANSWER_EVALUATOR);
    for (int how = OWNED; how < N_CASES; how++)
      if (how != TWICE || rows[k].program != also_updated)
        check_donation(&on, &rows[k], compiled, evaluated, how);
    dt_function_release(compiled);
    dt_function_release(evaluated);
  }
  fixture_end(&on);
}

// One call's operand is donated, that of another call of the same body is not: it keeps its values
// and its memory.
PROGRAM(layer_of_both) {
  (void)closure;
  out[0] = dt_exp(t, in[0]);
  return NULL;
}
PROGRAM(called_twice) {
  (void)closure;
  for (int k = 0; k < 2; k++) {
    dt_value_t given[] = {in[k]};
    dt_subgraph(t, layer_of_both, NULL, 1, given, 1, 0, &out[k]);
  }
  return NULL;
}
static void test_calls_of_a_body(void **state) {
  (void)state;
  fixture_t on = fixture_on(DT_CPU, 2);
  static const dt_dim_decl_t sizes[] = {{.name = "rows"}, {.name = "width"}};
  for (int donated = 0; donated < 3; donated++) {
    dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = sizes},
                                {.name = "b", .dtype = DT_F32, .rank = 2, .dims = sizes}};
    if (donated < 2)
      inputs[donated].kind = DT_INPUT_DONATED;
    dt_function_options_t options = options_of(2, inputs);
    options.n_outputs = 2;
    dt_function_t *function = function_of(&on, called_twice, NULL, &options);
    dt_tensor_t *in[2] = {NULL}, *out[2] = {NULL};
    const void *memory[2];
    for (int k = 0; k < 2; k++) {
      dt_tensor_t *made = tensor_f32(&on.rng, 2, SIZES(4, 5));
      in[k] = owned_like(made);
      memory[k] = dt_tensor_data(in[k]);
      dt_tensor_release(made);
    }
    dt_tensor_t *before[2] = {owned_like(in[0]), owned_like(in[1])};
    expect_ok(dt_call(on.session, function, in, 2, out, 2, NULL));
    for (int k = 0; k < 2; k++) {
      if (k != donated) {
        assert_ptr_not_equal(dt_tensor_data(out[k]), memory[k]);
        expect_close(in[k], before[k], 0, 0, "an argument that was not donated");
      }
      for (int64_t i = 0; i < 20; i++)
        assert_true(fabs((double)((const float *)dt_tensor_data(out[k]))[i] -
                         exp((double)((const float *)dt_tensor_data(before[k]))[i])) < 1e-4);
    }
    release_tensors(in, 2);
    release_tensors(out, 2);
    release_tensors(before, 2);
    dt_function_release(function);
  }
  fixture_end(&on);
}

// Numbers that sizes are made of are read of the argument as it was given: the second one is read
// when kernels have run.
PROGRAM(sized_by_it) {
  (void)closure;
  dt_sym_t n = dt_item(t, in[1]);
  dt_value_t filled = dt_iota(t, DT_I64, 1, &n, 0);
  dt_sym_t first = dt_item(t, dt_sum(t, filled, 1, (int32_t[]){0}, false)), m = dt_item(t, in[0]);
  (void)first;
  out[0] = dt_add(t, in[0], dt_sum(t, filled, 1, (int32_t[]){0}, true));
  out[1] = dt_iota(t, DT_I64, 1, &m, 0);
  out[2] = dt_iota(t, DT_I64, 1, &first, 0);
  return NULL;
}
static void test_numbers_of_donated(void **state) {
  (void)state;
  fixture_t on = fixture_on(DT_CPU, 2);
  static const dt_dim_decl_t one = {.is_static = true, .value = 1};
  const dt_input_decl_t inputs[] = {
      {.name = "x", .dtype = DT_I64, .rank = 1, .dims = &one, .kind = DT_INPUT_DONATED},
      {.name = "n", .dtype = DT_I64}};
  dt_function_options_t options = options_of(2, inputs);
  options.n_outputs = 3;
  dt_function_t *function = function_of(&on, sized_by_it, NULL, &options);
  for (int64_t size = 0; size < 4; size++) {
    const int64_t n = 3;
    dt_tensor_t *in[2] = {NULL, tensor_i64(0, NULL, &n)}, *out[3] = {NULL};
    expect_ok(dt_tensor_create_empty(DT_I64, 1, SIZES(1), &in[0]));
    *(int64_t *)dt_tensor_data(in[0]) = size;
    expect_ok(dt_call(on.session, function, in, 2, out, 3, NULL));
    assert_int_equal(*(int64_t *)dt_tensor_data(out[0]), size + 3);
    assert_int_equal(dt_tensor_sizes(out[1])[0], size);
    assert_int_equal(dt_tensor_sizes(out[2])[0], 3);
    release_tensors(in, 2);
    release_tensors(out, 3);
  }
  dt_function_release(function);
  fixture_end(&on);
}

// A new value of a donated argument is made in its memory: the call may take little more than that
// of its result.
PROGRAM(in_place) {
  (void)closure;
  dt_value_t x = dt_sub(t, in[X], dt_mul(t, in[U], dt_scalar(t, DT_F32, 0.25)));
  dt_update(t, in[X], x);
  out[0] = dt_amax(t, dt_exp(t, in[X]), 1, (int32_t[]){0}, false);
  return NULL;
}
// Not where the old value is needed once more.
PROGRAM(not_in_place) {
  (void)closure;
  dt_value_t old = dt_transpose(t, in[X], 0, 1);
  dt_update(t, in[X], dt_neg(t, in[U]));
  out[0] = dt_add(t, dt_amax(t, dt_exp(t, old), 1, (int32_t[]){1}, false),
                  dt_amax(t, in[X], 1, (int32_t[]){0}, false));
  return NULL;
}

static void check_in_place(const fixture_t *on, dt_program_fn_t program, dt_input_kind_t kind,
                           const layout_t *layout) {
  static arguments_t here, there;
  dt_function_t *compiled =
      function_at((fixture_t *)(uintptr_t)on, program, NULL, kind, compiled_answer());
  dt_function_t *evaluated =
      function_at((fixture_t *)(uintptr_t)on, program, NULL, DT_INPUT_TENSOR, DT_ANSWER_EVALUATOR);
  dt_tensor_t *actual = NULL, *expected = NULL;
  fill(&here, layout, 5, 4);
  fill(&there, layout, 5, 4);
  expect_ok(dt_call(on->session, compiled, there.in, N_IN, &actual, 1, NULL));
  expect_ok(dt_call(on->session, evaluated, here.in, N_IN, &expected, 1, NULL));
  expect_close(actual, expected, 1e-5, 1e-5, "in place");
  expect_same(there.x, here.x, "in place: x"); // a call that succeeds leaves the new value there
  expect_same(there.u, here.u, "in place: u");
  RELEASE(actual, expected);
  release_tensors(here.in, N_IN);
  release_tensors(there.in, N_IN);
  dt_function_release(compiled);
  dt_function_release(evaluated);
}

static void test_in_place(void **state) {
  (void)state;
  static const dt_program_fn_t programs[] = {in_place, not_in_place, also_updated};
  fixture_t on = fixture_on(DT_CPU, 2);
  for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++)
    for (size_t i = 0; i < 3; i++)
      check_in_place(&on, programs[k], DT_INPUT_DONATED, &layouts[i]);
  static const dt_dim_decl_t sizes[] = {{.name = "rows"}, {.name = "width"}};
  dt_input_decl_t inputs[N_IN] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = sizes, .kind = DT_INPUT_DONATED},
      {.name = "u", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "at", .dtype = DT_I64, .rank = 1, .dims = sizes}};
  dt_function_options_t options = options_of(N_IN, inputs);
  options.max_call_bytes = 64 << 10;
  dt_tensor_t *in[N_IN] = {tensor_empty(DT_F32, 2, SIZES(1024, 64)),
                           tensor_empty(DT_F32, 2, SIZES(1024, 64)),
                           tensor_empty(DT_I64, 1, SIZES(1024))};
  memset(dt_tensor_data(in[X]), 0, dt_tensor_bytes(in[X]));
  memset(dt_tensor_data(in[U]), 0, dt_tensor_bytes(in[U]));
  dt_tensor_t *out = NULL;
  dt_function_t *small = function_of(&on, in_place, NULL, &options);
  if (compiled_answer() == DT_ANSWER_COMPILED)
    expect_ok(dt_call(on.session, small, in, N_IN, &out, 1, NULL));
  RELEASE(out);
  release_tensors(in, N_IN);
  dt_function_release(small);
  fixture_end(&on);
}

// On a device: in the order of the session's stream, and not in graphs of kernels.
static void check_device(dt_call_mode_t mode, bool shares) {
  static arguments_t args;
  fixture_t on = fixture_on(DT_CUDA, 2), host = fixture_on(DT_CPU, 1);
  dt_function_t *compiled = function_at(&on, each, NULL, DT_INPUT_DONATED, compiled_answer());
  dt_function_t *evaluated = function_at(&host, each, NULL, DT_INPUT_TENSOR, DT_ANSWER_EVALUATOR);
  dt_call_options_t options = {.struct_size = sizeof(options), .mode = mode};
  dt_tensor_t *own[N_IN], *actual = NULL, *expected = NULL;
  fill(&args, &layouts[0], 5, 4);
  expect_ok(dt_call(host.session, evaluated, args.in, N_IN, &expected, 1, NULL));
  for (int k = 0; k < N_IN; k++)
    own[k] = tensor_upload(on.session, args.in[k]);
  const void *data = dt_tensor_data(own[X]);
  expect_ok(dt_call(on.session, compiled, own, N_IN, &actual, 1, &options));
  assert_true((dt_tensor_data(actual) == data) == shares);
  release_tensors(own, N_IN);
  dt_tensor_t *copy = tensor_download(on.session, actual);
  expect_close(copy, expected, 1e-5, 1e-5, "donated on a device");
  RELEASE(copy, actual, expected);
  release_tensors(args.in, N_IN);
  dt_function_release(compiled);
  dt_function_release(evaluated);
  fixture_end(&on);
  fixture_end(&host);
}

static void test_donated_cuda(void **state) {
  (void)state;
  check_device(DT_CALL_PLAIN, true);
  check_device(DT_CALL_REDUCE_OVERHEAD, false);
}

// ---- Results that may be views ------------------------------------------------------------------
PROGRAM(itself) {
  (void)t, (void)closure;
  out[0] = in[X];
  return NULL;
}
PROGRAM(turned) {
  (void)closure;
  out[0] = dt_transpose(t, in[X], 0, 1);
  return NULL;
}
PROGRAM(cut) {
  (void)closure;
  dt_value_t rows = dt_slice(t, in[X], 0, num(t, 4), num(t, 2), -2);
  out[0] = dt_unsqueeze(t, dt_slice(t, rows, 1, num(t, 1), num(t, 2), 1), 1);
  return NULL;
}
PROGRAM(split) {
  (void)closure;
  dt_sym_t sizes[] = {dt_dim(t, in[X], 0), num(t, 2), num(t, 2)};
  out[0] = dt_permute(t, dt_reshape(t, in[X], 3, sizes), (int32_t[]){1, 0, 2});
  return NULL;
}
PROGRAM(flattened) {
  (void)closure;
  dt_sym_t all = dt_sym_mul(t, dt_dim(t, in[X], 0), dt_dim(t, in[X], 1));
  out[0] = dt_reshape(t, in[X], 1, &all);
  return NULL;
}
PROGRAM(flattened_turned) {
  (void)closure;
  dt_sym_t all = dt_sym_mul(t, dt_dim(t, in[X], 0), dt_dim(t, in[X], 1));
  out[0] = dt_reshape(t, dt_transpose(t, in[X], 0, 1), 1, &all);
  return NULL;
}
PROGRAM(diagonal) {
  (void)closure;
  out[0] = dt_diagonal(t, in[X], 1, 0, 1);
  return NULL;
}
PROGRAM(repeated) {
  (void)closure;
  dt_sym_t sizes[] = {num(t, 3), dt_dim(t, in[X], 0), dt_dim(t, in[X], 1)};
  out[0] = dt_expand(t, dt_unsqueeze(t, in[X], 0), 3, sizes);
  return NULL;
}
PROGRAM(as_bits) {
  (void)closure;
  out[0] = dt_bitcast(t, dt_slice(t, in[X], 0, num(t, 1), num(t, 3), 1), DT_U32);
  return NULL;
}
PROGRAM(before_update) {
  (void)closure;
  out[0] = dt_transpose(t, in[X], 0, 1);
  dt_update(t, in[X], in[U]);
  return NULL;
}
PROGRAM(computed) {
  (void)closure;
  out[0] = dt_neg(t, in[X]);
  return NULL;
}

// A copy that a call leaves out stands by itself, also where another kernel is as it is but for its
// buffers: that of the branches' operand.
static dt_status_t branch(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_transpose(t, in[0], 0, 1);
  return NULL;
}
PROGRAM(copied_twice) {
  (void)closure;
  dt_value_t first,
      low = dt_lt(t, dt_sum(t, in[AT], 1, (int32_t[]){0}, false), dt_scalar(t, DT_I64, 1e9));
  dt_cond(t, low, branch, branch, NULL, 1, in, 1, &first);
  dt_update(t, in[U], dt_transpose(t, dt_exp(t, first), 0, 1));
  out[0] = dt_transpose(t, in[X], 0, 1);
  return NULL;
}

// Element by element, whatever the strides.
static uint32_t word_at(const dt_tensor_t *x, int64_t number) {
  const uint32_t *data = dt_tensor_data(x);
  for (uint32_t d = dt_tensor_rank(x); d-- > 0; number /= dt_tensor_sizes(x)[d])
    data += number % dt_tensor_sizes(x)[d] * dt_tensor_strides(x)[d];
  return *data;
}

static void expect_words(const dt_tensor_t *actual, const dt_tensor_t *expected, const char *what) {
  int64_t count = 1;
  assert_int_equal(dt_tensor_rank(actual), dt_tensor_rank(expected));
  for (uint32_t d = 0; d < dt_tensor_rank(actual); d++) {
    assert_int_equal(dt_tensor_sizes(actual)[d], dt_tensor_sizes(expected)[d]);
    count *= dt_tensor_sizes(actual)[d];
  }
  for (int64_t k = 0; k < count; k++)
    if (word_at(actual, k) != word_at(expected, k))
      fail_msg("%s: element %lld differs", what, (long long)k);
}

static dt_function_t *viewer(fixture_t *on, dt_program_fn_t program, bool may, dt_answer_t answer) {
  static const dt_dim_decl_t sizes[] = {{.name = "rows"}, {.name = "width"}};
  static const dt_output_decl_t outputs[] = {{.name = "y", .may_alias_input = true}};
  static const dt_input_decl_t inputs[N_IN] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "u", .dtype = DT_F32, .rank = 2, .dims = sizes},
      {.name = "at", .dtype = DT_I64, .rank = 1, .dims = sizes}};
  dt_function_options_t options = options_of(N_IN, inputs);
  options.answer = answer;
  options.outputs = may ? outputs : NULL;
  options.output_size = sizeof(outputs[0]);
  return function_of(on, program, NULL, &options);
}

static bool lies_in(const dt_tensor_t *x, const void *data, size_t bytes) {
  return (uintptr_t)dt_tensor_data(x) >= (uintptr_t)data &&
         (uintptr_t)dt_tensor_data(x) < (uintptr_t)data + bytes;
}

typedef struct view_row_t {
  const char *name;
  dt_program_fn_t program;
  bool views, views_turned; // of a contiguous argument; of one that lies column by column
} view_row_t;

static void check_view(const fixture_t *on, const view_row_t *row, dt_function_t *may,
                       dt_function_t *copies, dt_function_t *evaluated, bool columns) {
  static arguments_t args;
  dt_tensor_t *actual = NULL, *copied = NULL, *expected = NULL, *whole_x = NULL, *given = NULL;
  fill(&args, &layouts[0], 5, 4);
  // Owned memory: a result of a call that is returned as a view is over Ductile's own storage.
  dt_tensor_t *own = owned_like(args.in[X]);
  dt_tensor_release(args.in[X]);
  args.in[X] = own;
  dt_tensor_retain(own);
  const void *data = dt_tensor_data(own);
  size_t bytes = dt_tensor_bytes(own);
  if (columns) { // x is a view itself
    dt_function_t *turn = viewer((fixture_t *)(uintptr_t)on, turned, true, compiled_answer());
    expect_ok(dt_call(on->session, turn, args.in, N_IN, &whole_x, 1, NULL));
    dt_tensor_release(args.in[X]);
    args.in[X] = whole_x;
    for (int k = U; k < N_IN; k++)
      dt_tensor_release(args.in[k]);
    args.in[U] = tensor_over(DT_F32, 2, SIZES(4, 5), NULL, args.u);
    args.in[AT] = tensor_over(DT_I64, 1, SIZES(4), NULL, args.at);
    dt_function_release(turn);
  }
  expect_ok(dt_call(on->session, copies, args.in, N_IN, &copied, 1, NULL));
  bool shares = columns ? row->views_turned : row->views;
  expect_ok(dt_call(on->session, may, args.in, N_IN, &actual, 1, NULL));
  expect_ok(dt_call(on->session, evaluated, args.in, N_IN, &expected, 1, NULL));
  if (lies_in(actual, data, bytes) != shares)
    fail_msg("%s: expected %s", row->name, shares ? "a view" : "a copy");
  given = owned_like(expected); // the caller's own stays a copy
  memset(dt_tensor_data(given), 0, dt_tensor_bytes(given));
  expect_ok(dt_call(on->session, may, args.in, N_IN, &given, 1, NULL));
  assert_false(lies_in(copied, data, bytes));
  dt_tensor_release(own);
  release_tensors(args.in, N_IN); // the view keeps the storage
  expect_words(actual, expected, row->name);
  expect_words(copied, expected, row->name);
  expect_words(given, expected, row->name);
  RELEASE(actual, copied, expected, given);
}

static void test_views(void **state) {
  (void)state;
  bool c = compiled_answer() == DT_ANSWER_COMPILED;
  const view_row_t rows[] = {
      {"itself", itself, c, c},
      {"turned", turned, c, c},
      {"cut", cut, c, c},
      {"split", split, c, c},
      {"flattened", flattened, c, false},
      {"flattened_turned", flattened_turned, false, c},
      {"diagonal", diagonal, false, false}, // cut to a square, then flattened
      {"repeated", repeated, c, c},
      {"as_bits", as_bits, c, c},
      {"copied_twice", copied_twice, c, c},
      {"computed", computed, false, false}};
  fixture_t on = fixture_on(DT_CPU, 2);
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_function_t *may = viewer(&on, rows[k].program, true, compiled_answer());
    dt_function_t *copies = viewer(&on, rows[k].program, false, compiled_answer());
    dt_function_t *evaluated = viewer(&on, rows[k].program, false, DT_ANSWER_EVALUATOR);
    check_view(&on, &rows[k], may, copies, evaluated, false);
    if (rows[k].program != split && rows[k].program != cut) // which need more rows or columns
      check_view(&on, &rows[k], may, copies, evaluated, true);
    dt_function_release(may);
    dt_function_release(copies);
    dt_function_release(evaluated);
  }
  fixture_end(&on);
}

static void test_views_cuda(void **state) {
  (void)state;
  static const dt_program_fn_t programs[] = {itself, turned, computed};
  static arguments_t args;
  fixture_t on = fixture_on(DT_CUDA, 2);
  for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++) {
    dt_function_t *may = viewer(&on, programs[k], true, compiled_answer());
    dt_tensor_t *own[N_IN], *out = NULL;
    fill(&args, &layouts[0], 5, 4);
    for (int i = 0; i < N_IN; i++)
      own[i] = tensor_upload(on.session, args.in[i]);
    expect_ok(dt_call(on.session, may, own, N_IN, &out, 1, NULL));
    expect_ok(dt_session_wait(on.session));
    assert_true((dt_tensor_data(out) == dt_tensor_data(own[X])) == (programs[k] != computed));
    RELEASE(out);
    out = NULL;
    expect_ok(dt_call(on.session, may, args.in, N_IN, &out, 1, NULL)); // staged: a copy
    expect_ok(dt_session_wait(on.session));
    RELEASE(out);
    release_tensors(own, N_IN);
    release_tensors(args.in, N_IN);
    dt_function_release(may);
  }
  fixture_end(&on);
}

// What is updated in the call is copied before.
static void test_view_of_updated(void **state) {
  (void)state;
  static arguments_t args;
  fixture_t on = fixture_on(DT_CPU, 1);
  dt_function_t *may = viewer(&on, before_update, true, compiled_answer());
  fill(&args, &layouts[0], 5, 4);
  dt_tensor_t *own = owned_like(args.in[X]), *out = NULL;
  float old = ((const float *)dt_tensor_data(own))[1];
  dt_tensor_release(args.in[X]);
  args.in[X] = own;
  expect_ok(dt_call(on.session, may, args.in, N_IN, &out, 1, NULL));
  assert_false(lies_in(out, dt_tensor_data(own), dt_tensor_bytes(own)));
  assert_true(((const float *)dt_tensor_data(out))[5] == old);
  assert_memory_equal(dt_tensor_data(own), args.u, 20 * sizeof(float));
  RELEASE(out);
  release_tensors(args.in, N_IN);
  dt_function_release(may);
  fixture_end(&on);
}

// ---- Random sequences ---------------------------------------------------------------------------
#define STEPS 4
#define PROGRAMS 6

static dt_value_t random_value(dt_trace_t *t, rng_t *rng, const dt_value_t *in) {
  switch (rng_below(rng, 4)) {
  case 0:
    return dt_mul(t, in[X], in[U]);
  case 1:
    return dt_sub(t, in[U], dt_scalar(t, DT_F32, 0.5));
  case 2:
    return dt_neg(t, in[X]);
  default:
    return in[U];
  }
}

// Two rows of it, or two columns.
static dt_value_t random_part(dt_trace_t *t, rng_t *rng, dt_value_t x, int32_t axis) {
  int64_t step = rng_below(rng, 2) ? 1 : 2, begin = (int64_t)rng_below(rng, 2);
  return dt_slice(t, x, axis, num(t, begin), num(t, 2), rng_below(rng, 3) ? step : 1);
}

// From a seed: each step updates x or u as a whole, through views, or by a scatter.
PROGRAM(random_steps) {
  rng_t rng = {*(const uint64_t *)closure};
  dt_value_t read = dt_neg(t, in[X]);
  for (int k = 0; k < STEPS; k++) {
    int to = rng_below(&rng, 3) ? X : U;
    dt_value_t value = random_value(t, &rng, in);
    int32_t axis = (int32_t)rng_below(&rng, 2);
    dt_value_t part = random_part(t, &rng, in[to], axis);
    static const dt_scatter_mode_t modes[] = {DT_SCATTER_REPLACE, DT_SCATTER_ADD, DT_SCATTER_MUL,
                                              DT_SCATTER_MAX, DT_SCATTER_MIN};
    dt_scatter_mode_t mode = modes[rng_below(&rng, 5)];
    switch (rng_below(&rng, 6)) {
    case 0:
      dt_update(t, in[to], value);
      break;
    case 1:
      (void)dt_update_view(t, part, dt_slice(t, value, axis, num(t, 0), num(t, 2), 1));
      break;
    case 2:
      value = dt_transpose(t, dt_slice(t, value, axis, num(t, 2), num(t, 2), 1), 0, 1);
      (void)dt_update_view(t, dt_transpose(t, part, 0, 1), value);
      break;
    case 3:
      dt_update(t, in[to], elements(t, in[to], value, in[AT], mode));
      break;
    case 4:
      dt_update(t, in[to], put(t, in[to], value, in[AT], mode));
      break;
    default:
      read = dt_add(t, read, in[to]);
      dt_update(t, in[to], bits(t, in[to], value, in[AT], mode));
    }
  }
  out[0] = rng_below(&rng, 2) ? read : dt_add(t, read, in[X]);
  return NULL;
}

static void test_random(void **state) {
  (void)state;
  static const int64_t sizes[] = {6, 5};
  fixture_t on = fixture_on(DT_CPU, 2);
  for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
    char name[32];
    snprintf(name, sizeof(name), "seed %llu", (unsigned long long)seed);
    dt_input_kind_t kind = seed % 2 ? DT_INPUT_DONATED : DT_INPUT_TENSOR;
    dt_function_t *compiled = function_at(&on, random_steps, &seed, kind, compiled_answer());
    dt_function_t *evaluated =
        function_at(&on, random_steps, &seed, DT_INPUT_TENSOR, DT_ANSWER_EVALUATOR);
    check(&on, compiled, evaluated, &layouts[seed % 3], sizes, name);
    dt_function_release(compiled);
    dt_function_release(evaluated);
  }
  fixture_end(&on);
}

RUN_TESTS(TEST(test_builders), TEST(test_donated), TEST(test_numbers_of_donated),
          TEST(test_calls_of_a_body), TEST(test_in_place), TEST(test_donated_cuda),
          TEST(test_views), TEST(test_views_cuda), TEST(test_view_of_updated), TEST(test_random))

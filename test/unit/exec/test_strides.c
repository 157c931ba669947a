// SPDX-License-Identifier: Apache-2.0
// Views by any strides (dt_as_strided, dt_diagonal, dt_unfold) against index arithmetic by hand, on
// tensors of several layouts, for sizes from none to many, each variant for many sizes.
#include "test/support/subjects.h"

#include <string.h>

#define ROOM 4096

// One view: what the closure says, of x f32[a, b, c].
typedef struct view_t {
  enum { STRIDED, DIAGONAL, UNFOLD } kind;
  uint32_t rank; // STRIDED
  int64_t sizes[4], strides[4], offset;
  int32_t axis[2];
  int64_t size, step;
  bool by_dim; // sizes[0] is x's first dim, and strides[0] the product of the others
} view_t;

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const view_t *view = closure;
  dt_sym_t sizes[4], strides[4];
  for (uint32_t d = 0; d < view->rank; d++) {
    sizes[d] = dt_sym_const(t, view->sizes[d]);
    strides[d] = dt_sym_const(t, view->strides[d]);
  }
  if (view->by_dim) {
    sizes[0] = dt_dim(t, in[0], 0);
    strides[0] = dt_sym_mul(t, dt_dim(t, in[0], 1), dt_dim(t, in[0], 2));
  }
  if (view->kind == STRIDED)
    out[0] = dt_as_strided(t, in[0], view->rank, sizes, strides, dt_sym_const(t, view->offset));
  else if (view->kind == DIAGONAL)
    out[0] = dt_diagonal(t, in[0], view->offset, view->axis[0], view->axis[1]);
  else
    out[0] = dt_unfold(t, in[0], view->axis[0], dt_sym_const(t, view->size),
                       dt_sym_const(t, view->step));
  return NULL;
}

// ---- By hand --------------------------------------------------------------------------------------
typedef struct answer_t {
  uint32_t rank;
  int64_t sizes[4];
  float data[ROOM];
} answer_t;

static int64_t count_of(uint32_t rank, const int64_t *sizes) {
  int64_t count = 1;
  for (uint32_t d = 0; d < rank; d++)
    count *= sizes[d];
  return count;
}

static void sizes_by_hand(const view_t *view, const int64_t *x, answer_t *out) {
  if (view->kind == STRIDED) {
    out->rank = view->rank;
    memcpy(out->sizes, view->sizes, sizeof(out->sizes));
    if (view->by_dim)
      out->sizes[0] = x[0];
    return;
  }
  int64_t *to = out->sizes;
  if (view->kind == UNFOLD) {
    memcpy(to, x, 3 * sizeof(*x));
    to[view->axis[0]] = (x[view->axis[0]] - view->size) / view->step + 1;
    to[3] = view->size;
    out->rank = 4;
    return;
  }
  int64_t a = x[view->axis[0]] + (view->offset < 0 ? view->offset : 0);
  int64_t b = x[view->axis[1]] - (view->offset > 0 ? view->offset : 0);
  int64_t n = a < b ? a : b;
  to[0] = x[3 - view->axis[0] - view->axis[1]];
  to[1] = n < 0 ? 0 : n;
  out->rank = 2;
}

// Which element of x, in row-major order, is at `at`.
static int64_t place_by_hand(const view_t *view, const int64_t *x, const int64_t *at) {
  int64_t from[3] = {0}, place = view->offset;
  if (view->kind == STRIDED) {
    for (uint32_t d = 0; d < view->rank; d++)
      place += at[d] * (view->by_dim && d == 0 ? x[1] * x[2] : view->strides[d]);
    return place;
  }
  if (view->kind == UNFOLD) {
    memcpy(from, at, sizeof(from));
    from[view->axis[0]] = at[view->axis[0]] * view->step + at[3];
  } else {
    from[3 - view->axis[0] - view->axis[1]] = at[0];
    from[view->axis[0]] = at[1] + (view->offset < 0 ? -view->offset : 0);
    from[view->axis[1]] = at[1] + (view->offset > 0 ? view->offset : 0);
  }
  return (from[0] * x[1] + from[1]) * x[2] + from[2];
}

static void by_hand(const view_t *view, const int64_t *x, answer_t *out) {
  sizes_by_hand(view, x, out);
  int64_t count = count_of(out->rank, out->sizes);
  assert_true(count <= ROOM);
  for (int64_t k = 0; k < count; k++) {
    int64_t at[4] = {0}, left = k;
    for (uint32_t d = out->rank; d-- > 0; left /= out->sizes[d])
      at[d] = left % out->sizes[d];
    out->data[k] = (float)place_by_hand(view, x, at);
  }
}

// ---- The cases ------------------------------------------------------------------------------------
static const view_t views[] = {
    {.kind = STRIDED, .rank = 2, .sizes = {3, 4}, .strides = {4, 1}},
    {.kind = STRIDED, .rank = 2, .sizes = {3, 4}, .strides = {1, 3}, .offset = 2},
    {.kind = STRIDED, .rank = 3, .sizes = {2, 3, 2}, .strides = {1, 2, 7}, .offset = 1},
    {.kind = STRIDED, .rank = 2, .sizes = {5, 3}, .strides = {1, 1}},
    {.kind = STRIDED, .rank = 3, .sizes = {2, 3, 4}, .strides = {0, 2, 0}, .offset = 3},
    {.kind = STRIDED, .rank = 0, .offset = 7},
    {.kind = STRIDED, .rank = 1, .sizes = {1}, .strides = {1000}, .offset = 4},
    {.kind = STRIDED, .rank = 2, .sizes = {0, 3}, .strides = {1, 1}, .offset = 1000},
    {.kind = STRIDED, .rank = 2, .sizes = {0, 2}, .strides = {0, 1}, .by_dim = true},
    {.kind = STRIDED, .rank = 2, .sizes = {0, 2}, .strides = {0, 0}, .by_dim = true},
    {.kind = DIAGONAL, .axis = {0, 1}},
    {.kind = DIAGONAL, .axis = {2, 0}, .offset = 1},
    {.kind = DIAGONAL, .axis = {1, 2}, .offset = -2},
    {.kind = DIAGONAL, .axis = {1, 0}, .offset = 50},
    {.kind = DIAGONAL, .axis = {0, 2}, .offset = -50},
    {.kind = UNFOLD, .axis = {0}, .size = 2, .step = 1},
    {.kind = UNFOLD, .axis = {1}, .size = 1, .step = 2},
    {.kind = UNFOLD, .axis = {2}, .size = 3, .step = 2},
    {.kind = UNFOLD, .axis = {2}, .size = 0, .step = 1},
};
#define N_VIEWS (sizeof(views) / sizeof(views[0]))

// Elements are numbered in row-major order, whatever their strides.
static dt_tensor_t *numbered(const int64_t *sizes, bool turned, float *memory) {
  int64_t strides[] = {sizes[1] * sizes[2], sizes[2], 1};
  if (turned) {
    strides[0] = 2;
    strides[1] = 2 * sizes[0];
    strides[2] = 2 * sizes[0] * sizes[1];
  }
  for (int64_t i = 0; i < sizes[0]; i++)
    for (int64_t j = 0; j < sizes[1]; j++)
      for (int64_t k = 0; k < sizes[2]; k++)
        memory[i * strides[0] + j * strides[1] + k * strides[2]] =
            (float)((i * sizes[1] + j) * sizes[2] + k);
  return tensor_over(DT_F32, 3, sizes, strides, memory);
}

static void check(fixture_t *on, dt_function_t *function, const view_t *view,
                  const int64_t *sizes) {
  static float memory[2 * ROOM];
  static answer_t answer;
  by_hand(view, sizes, &answer);
  for (int turned = 0; turned < 2; turned++) {
    dt_tensor_t *x = numbered(sizes, turned, memory), *out = NULL;
    expect_ok(dt_call(on->session, function, &x, 1, &out, 1, NULL));
    expect_sizes(out, answer.rank, answer.sizes);
    int64_t count = count_of(answer.rank, answer.sizes);
    assert_memory_equal(dt_tensor_data(out), answer.data, (size_t)count * sizeof(float));
    RELEASE(x, out);
  }
}

static void check_all(dt_answer_t answer) {
  static const int64_t sizes[][3] = {{4, 5, 6}, {6, 3, 7}, {2, 9, 3}, {3, 3, 3}, {5, 2, 4}};
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 3};
  fixture_t on = fixture_on(DT_CPU, 2);
  for (size_t k = 0; k < N_VIEWS; k++) {
    view_t view = views[k];
    dt_function_options_t options = options_of(1, &input);
    options.answer = answer;
    dt_function_t *function = function_of(&on, program, &view, &options);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
      check(&on, function, &view, sizes[i]);
    dt_function_release(function);
  }
  fixture_end(&on);
}

static void test_compiled(void **state) {
  (void)state;
  check_all(compiled_answer());
}
static void test_evaluator(void **state) {
  (void)state;
  check_all(DT_ANSWER_EVALUATOR);
}

RUN_TESTS(TEST(test_compiled), TEST(test_evaluator))

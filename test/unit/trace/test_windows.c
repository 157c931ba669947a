// SPDX-License-Identifier: Apache-2.0
// Builders of windows, pools and convolutions: what calls get by the evaluator against loops over
// the definition, for many windows; what they ask of sizes, and what they refuse.
#include "lower/graph/eval.h"
#include "test/unit/trace/trace_test.h"

#include <math.h>
#include <string.h>

enum { BATCH = 2, CHANNELS = 2 };

// One dim of a window.
typedef struct way_t {
  int64_t in, size, stride, dilation, low, high;
} way_t;

typedef struct config_t {
  way_t way[2];
  uint32_t flags;
  dt_value_t (*make)(dt_trace_t *t, dt_value_t x, const dt_window_t *w, uint32_t flags);
} config_t;

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const config_t *c = closure;
  dt_window_t w[2];
  for (uint32_t k = 0; k < 2; k++)
    w[k] = (dt_window_t){.size = dt_sym_const(t, c->way[k].size),
                         .stride = dt_sym_const(t, c->way[k].stride),
                         .dilation = dt_sym_const(t, c->way[k].dilation),
                         .low = dt_sym_const(t, c->way[k].low),
                         .high = dt_sym_const(t, c->way[k].high)};
  out[0] = c->make(t, in[0], w, c->flags);
  return NULL;
}

static dt_trace_request_t request_of(config_t *c, dt_input_decl_t *decl, dt_tensor_t **x) {
  const int64_t sizes[4] = {BATCH, CHANNELS, c->way[0].in, c->way[1].in};
  *decl = (dt_input_decl_t){.dtype = DT_F32, .rank = 4};
  *x = tensor_of(DT_F32, 4, sizes, NULL);
  return (dt_trace_request_t){.name = "f",
                              .program = program,
                              .closure = c,
                              .n_inputs = 1,
                              .n_outputs = 1,
                              .inputs = decl,
                              .example = x};
}

// ---- Loops over the definition --------------------------------------------------------------------
static int64_t reach_of(const way_t *w) { return (w->size - 1) * w->dilation + 1; }
static bool fits(const way_t *w) { return w->in + w->low + w->high >= reach_of(w); }

static int64_t places_of(const way_t *w, bool ceil) {
  int64_t room = w->in + w->low + w->high - reach_of(w);
  if (!ceil)
    return room / w->stride + 1;
  int64_t places = (room + w->stride - 1) / w->stride + 1;
  while (places > 0 && (places - 1) * w->stride >= w->in + w->low)
    places--;
  return places;
}

// What one window of the plane `x` has.
typedef struct seen_t {
  double largest, sum, squares;
  int64_t place[2]; // of the largest, by rows and by columns
  int64_t inside, padded;
} seen_t;

static seen_t look(const config_t *c, const float *x, int64_t at_y, int64_t at_x) {
  const way_t *h = &c->way[0], *w = &c->way[1];
  seen_t seen = {.largest = -INFINITY, .place = {-1, -1}};
  for (int64_t i = 0; i < h->size; i++)
    for (int64_t j = 0; j < w->size; j++) {
      int64_t y = at_y * h->stride + i * h->dilation - h->low;
      int64_t z = at_x * w->stride + j * w->dilation - w->low;
      seen.padded += y < h->in + h->high && z < w->in + w->high;
      if (y < 0 || y >= h->in || z < 0 || z >= w->in)
        continue;
      double value = x[y * w->in + z];
      if (value > seen.largest || seen.place[0] < 0) {
        seen.largest = value;
        seen.place[0] = y * w->in + z;
        seen.place[1] = z * h->in + y;
      }
      seen.sum += value;
      seen.squares += value * value;
      seen.inside++;
    }
  return seen;
}

typedef double (*expect_t)(const config_t *c, const seen_t *seen, int64_t plane);

static bool check_values(const config_t *c, const dt_eval_value_t *got, const float *x,
                         expect_t expect) {
  bool ceil = c->flags & DT_POOL_CEIL;
  int64_t rows = places_of(&c->way[0], ceil), columns = places_of(&c->way[1], ceil), at = 0;
  if (got->rank != 4 || got->sizes[2] != rows || got->sizes[3] != columns)
    return false;
  for (int64_t plane = 0; plane < BATCH * CHANNELS; plane++)
    for (int64_t row = 0; row < rows; row++)
      for (int64_t column = 0; column < columns; column++, at++) {
        seen_t seen = look(c, x + plane * c->way[0].in * c->way[1].in, row, column);
        double want = expect(c, &seen, plane);
        double have = got->dtype == DT_I64 ? (double)got->data[at].i : got->data[at].f;
        if (seen.inside && !(fabs(want - have) <= 1e-5 * fmax(1, fabs(want))))
          return false;
      }
  return true;
}

static void check_config(config_t *c, expect_t expect) {
  float data[BATCH * CHANNELS * 64];
  for (size_t k = 0; k < sizeof(data) / sizeof(data[0]); k++)
    data[k] = k % 11 == 3 ? -INFINITY : (float)((k * 37 + k / 7) % 23) - 11;
  for (size_t k = 0; c->flags & 8 && k < sizeof(data) / sizeof(data[0]); k++)
    data[k] = isinf(data[k]) ? 2 : data[k];
  c->flags &= 7;
  dt_input_decl_t decl;
  dt_tensor_t *x;
  dt_trace_request_t request = request_of(c, &decl, &x);
  dt_traced_t *traced = trace_ok(&request);
  dt_guards_t *guards = NULL;
  assert_null(
      dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, NULL, &guards));
  int64_t symbols[8] = {0};
  assert_true(dt__guards_run(guards, &(dt_guard_args_t){.inputs = &x}, symbols));
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_eval_value_t out;
  dt_eval_arg_t arg = {data, dt_tensor_sizes(x), dt_tensor_strides(x)};
  dt_status_t status = dt__graph_eval(traced->graph, symbols, &arg, NULL, &arena, &out);
  if (status || !check_values(c, &out, data, expect)) {
    for (uint32_t k = 0; k < 2; k++)
      print_error("in %d size %d stride %d dilation %d low %d high %d\n", (int)c->way[k].in,
                  (int)c->way[k].size, (int)c->way[k].stride, (int)c->way[k].dilation,
                  (int)c->way[k].low, (int)c->way[k].high);
    print_error("flags %u: %s\n%s", c->flags, status ? dt_status_message(status) : "differs",
                text_of(traced));
    fail();
  }
  dt__arena_fini(&arena);
  dt__guards_destroy(guards);
  dt__traced_destroy(traced);
  dt_tensor_release(x);
}

// ---- Pools ----------------------------------------------------------------------------------------
static dt_value_t make_max(dt_trace_t *t, dt_value_t x, const dt_window_t *w, uint32_t flags) {
  return dt_max_pool(t, x, w, flags, NULL);
}
static dt_value_t make_places(dt_trace_t *t, dt_value_t x, const dt_window_t *w, uint32_t flags) {
  dt_value_t places;
  (void)dt_max_pool(t, x, w, flags, &places);
  return places;
}
static dt_value_t make_norm(dt_trace_t *t, dt_value_t x, const dt_window_t *w, uint32_t flags) {
  return dt_lp_pool(t, x, w, flags, 2);
}
static double want_max(const config_t *c, const seen_t *seen, int64_t plane) {
  (void)c, (void)plane;
  return seen->largest == -INFINITY ? -INFINITY : seen->largest;
}
static double want_place(const config_t *c, const seen_t *seen, int64_t plane) {
  bool columns = c->flags & DT_POOL_COLUMN_MAJOR;
  return (double)(plane * c->way[0].in * c->way[1].in + seen->place[columns]);
}
static double want_mean(const config_t *c, const seen_t *seen, int64_t plane) {
  (void)plane;
  return seen->sum / (double)(c->flags & DT_POOL_COUNT_PADDING ? seen->padded : seen->inside);
}
static double want_norm(const config_t *c, const seen_t *seen, int64_t plane) {
  (void)c, (void)plane;
  return sqrt(seen->squares);
}

// Windows of all kinds, by and by; `flags` & 8: without infinities.
static void check_pool(dt_value_t (*make)(dt_trace_t *, dt_value_t, const dt_window_t *, uint32_t),
                       uint32_t flags, expect_t expect) {
  uint32_t state = 7 + flags, tried = 0;
  for (uint32_t i = 0; i < 400; i++) {
    config_t c = {.flags = flags, .make = make};
    bool good = true;
    for (uint32_t k = 0; k < 2; k++) {
      uint32_t bits[6];
      for (uint32_t j = 0; j < 6; j++) {
        state = state * 1664525U + 1013904223U;
        bits[j] = state >> 16;
      }
      c.way[k] = (way_t){1 + bits[0] % 7, 1 + bits[1] % 3, 1 + bits[2] % 3, 1 + bits[3] % 2, 0, 0};
      c.way[k].low = bits[4] % (uint32_t)reach_of(&c.way[k]) % 3;
      c.way[k].high = bits[5] % (uint32_t)reach_of(&c.way[k]) % 3;
      good = good && fits(&c.way[k]);
    }
    if (!good)
      continue;
    check_config(&c, expect);
    tried++;
  }
  assert_true(tried > 100);
}

static void test_max_pool(void **state) {
  (void)state;
  check_pool(make_max, 8, want_max);
  check_pool(make_max, 8 | DT_POOL_CEIL, want_max);
  check_pool(make_places, 0, want_place);
  check_pool(make_places, DT_POOL_CEIL | DT_POOL_COLUMN_MAJOR, want_place);
}

static void test_means(void **state) {
  (void)state;
  check_pool(dt_avg_pool, 8, want_mean);
  check_pool(dt_avg_pool, 8 | DT_POOL_CEIL, want_mean);
  check_pool(dt_avg_pool, 8 | DT_POOL_COUNT_PADDING, want_mean);
  check_pool(dt_avg_pool, 8 | DT_POOL_COUNT_PADDING | DT_POOL_CEIL, want_mean);
  check_pool(make_norm, 8 | DT_POOL_CEIL, want_norm);
}

// ---- What sizes are asked for -----------------------------------------------------------------------
static dt_status_t conv(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_window_t w[2];
  memset(w, 0, sizeof(w));
  w[0].low = w[0].high = w[1].low = w[1].high = dt_sym_const(t, 1);
  out[0] = dt_conv(t, in[0], in[1], w, 1);
  return NULL;
}

// A kernel of 3 with padding 1 asks for an element; of the channels it learns their number.
static void test_guards(void **state) {
  (void)state;
  const dt_dim_decl_t kernel[4] = {{.value = 8, .is_static = true},
                                   {.value = 4, .is_static = true},
                                   {.value = 3, .is_static = true},
                                   {.value = 3, .is_static = true}};
  const dt_input_decl_t decls[2] = {{.dtype = DT_F32, .rank = 4},
                                    {.dtype = DT_F32, .rank = 4, .dims = kernel}};
  dt_tensor_t *args[2] = {tensor_of(DT_F32, 4, SIZES(2, 4, 5, 6), NULL),
                          tensor_of(DT_F32, 4, SIZES(8, 4, 3, 3), NULL)};
  dt_trace_request_t request = {.name = "f",
                                .program = conv,
                                .n_inputs = 2,
                                .n_outputs = 1,
                                .inputs = decls,
                                .example = args};
  dt_traced_t *traced = trace_ok(&request);
  const char *text = text_of(traced);
  assert_non_null(strstr(text, "f32[s0, 8, s2, s3]"));
  assert_int_equal(traced->conds.len, 3);
  dt__traced_destroy(traced);
  dt_tensor_release(args[0]);
  args[0] = tensor_of(DT_F32, 4, SIZES(2, 4, 0, 6), NULL);
  trace_fails(&request, DT_E_SHAPE,
              EACH_OF("conv", "the kernel does not fit into dim 2 with its padding"));
  dt_tensor_release(args[0]);
  args[0] = tensor_of(DT_F32, 4, SIZES(2, 5, 5, 6), NULL);
  trace_fails(&request, DT_E_SHAPE, EACH_OF("conv", "times the groups"));
  dt_tensor_release(args[0]);
  dt_tensor_release(args[1]);
}

// ---- Refusals -----------------------------------------------------------------------------------------
// Each fails in one builder call over x f32[2, 4, 5, 6], w f32[6, 2, 3, 3] and plain windows `p`.
#define REFUSALS                                                                                   \
  R(rank, dt_conv(t, dt_reshape(t, x, 1, &minus), w, p, 1), DT_E_SHAPE, "conv", "ranks 1 and 4")   \
  R(groups, dt_conv(t, x, w, p, 1), DT_E_SHAPE, "conv", "dim 1 of the second times the groups")    \
  R(no_groups, dt_conv(t, x, w, p, 0), DT_E_SHAPE, "conv", "1 group or more")                      \
  R(uneven, dt_conv_transpose(t, x, dt_transpose(t, w, 0, 1), p, 2), DT_E_SHAPE, "conv_transpose", \
    "a row for each channel")                                                                      \
  R(stride, (q[1].stride = zero, dt_conv(t, x, w, q, 2)), DT_E_SHAPE, "conv",                      \
    "strides are 1 or more")                                                                       \
  R(dilation, (q[0].dilation = minus, dt_max_pool(t, x, q, 0, NULL)), DT_E_SHAPE, "max_pool",      \
    "dilations are 1 or more")                                                                     \
  R(low, (q[0].low = minus, dt_conv(t, x, w, q, 2)), DT_E_SHAPE, "conv",                           \
    "the padding before of dim 2 must not be negative")                                            \
  R(size_given, (q[0].size = one, dt_conv(t, x, w, q, 2)), DT_E_ARGUMENT, "conv", "expected none") \
  R(extra, (q[0].extra = one, dt_conv(t, x, w, q, 2)), DT_E_ARGUMENT, "conv", "expected none")     \
  R(dtypes, dt_conv(t, x, dt_cast(t, w, DT_F64), p, 2), DT_E_DTYPE, "conv", "use cast")            \
  R(too_large, dt_conv(t, x, dt_pad(t, w, pads, pads, 0), p, 2), DT_E_SHAPE, "conv",               \
    "does not fit into dim 2")                                                                     \
  R(no_size, dt_avg_pool(t, x, p, 0), DT_E_ARGUMENT, "avg_pool", "window 0 has no size")           \
  R(no_windows, dt_avg_pool(t, x, NULL, 0), DT_E_ARGUMENT, "avg_pool", "windows NULL")             \
  R(flags, dt_max_pool(t, x, p, 8, NULL), DT_E_ARGUMENT, "max_pool", "flags 8")                    \
  R(pool_rank, dt_max_pool(t, dt_reshape(t, x, 1, &minus), p, 0, NULL), DT_E_SHAPE, "max_pool",    \
    "rank 1")                                                                                      \
  R(whole, (q[0].size = q[1].size = one, dt_avg_pool(t, dt_cast(t, x, DT_I32), q, 0)), DT_E_DTYPE, \
    "avg_pool", "must be a float, got i32")                                                        \
  R(truth, (q[0].size = q[1].size = one, dt_max_pool(t, dt_cast(t, x, DT_BOOL), q, 0, NULL)),      \
    DT_E_DTYPE, "max_pool", "got bool")                                                            \
  R(no_power, (q[0].size = q[1].size = one, dt_lp_pool(t, x, q, 0, 0)), DT_E_ARGUMENT, "lp_pool",  \
    "p is 0")                                                                                      \
  R(pool_fit, (q[0].size = q[1].size = dt_sym_const(t, 6), dt_max_pool(t, x, q, 0, NULL)),         \
    DT_E_SHAPE, "max_pool", "the window fits into the padded input")                               \
  R(padded, (q[0].size = q[1].size = q[0].low = one, dt_windows(t, x, 2, q)), DT_E_ARGUMENT,       \
    "windows", "have no padding")                                                                  \
  R(many, dt_windows(t, x, 5, q), DT_E_ARGUMENT, "windows", "windows over 5 dims")                 \
  R(few, dt_overlap_add(t, x, 3, q, pads), DT_E_ARGUMENT, "overlap_add", "windows over 3 dims")

#define R(name, call, ...)                                                                         \
  static dt_status_t refused_##name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,          \
                                    void *closure) {                                               \
    dt_value_t x = in[0], w = in[1];                                                               \
    dt_window_t p[5], q[5];                                                                        \
    memset(p, 0, sizeof(p));                                                                       \
    memset(q, 0, sizeof(q));                                                                       \
    dt_sym_t one = dt_sym_const(t, 1), zero = dt_sym_const(t, 0), minus = dt_sym_const(t, -1);     \
    dt_sym_t pads[4] = {zero, zero, dt_sym_const(t, 2), one};                                      \
    (void)closure, (void)x, (void)w, (void)p, (void)q, (void)one, (void)zero, (void)minus;         \
    (void)pads;                                                                                    \
    out[0] = call;                                                                                 \
    return NULL;                                                                                   \
  }
REFUSALS
#undef R

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    dt_program_fn_t program;
    dt_code_t code;
    const char *op, *part;
  } rows[] = {
#define R(name, call, code, op, part) {refused_##name, code, op, part},
      REFUSALS
#undef R
  };
  const int64_t sizes[2][4] = {{2, 4, 5, 6}, {6, 2, 3, 3}};
  dt_dim_decl_t dims[2][4] = {{{0}}};
  dt_input_decl_t decls[2];
  for (uint32_t k = 0; k < 2; k++) {
    for (uint32_t d = 0; d < 4; d++)
      dims[k][d] = (dt_dim_decl_t){.value = sizes[k][d], .is_static = true};
    decls[k] = (dt_input_decl_t){.dtype = DT_F32, .rank = 4, .dims = dims[k]};
  }
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    dt_trace_request_t request = {
        .name = "f", .program = rows[k].program, .n_inputs = 2, .n_outputs = 1, .inputs = decls};
    trace_fails(&request, rows[k].code, EACH_OF(rows[k].op, rows[k].part));
  }
}

RUN_TESTS(TEST(test_max_pool), TEST(test_means), TEST(test_guards), TEST(test_refusals))

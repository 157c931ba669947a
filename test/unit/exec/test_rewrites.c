// SPDX-License-Identifier: Apache-2.0
// The library's own patterns (docs/rewrites.md) in functions: answers against the evaluator, which
// computes what the program says, and how often each was replaced, also where it must not be.
#include "test/unit/exec/pattern_kit.h"

#include <math.h>
#include <string.h>

#define CHANNELS 6

static int setup(void **state) { return fixture_open(state, 2, 61); }

static uint64_t count_of(fixture_t *f, const char *name) {
  dt_pattern_t *pattern = NULL;
  expect_ok(dt_runtime_find_pattern(f->runtime, name, &pattern));
  uint64_t n = dt_pattern_count(pattern);
  dt_pattern_release(pattern);
  return n;
}

// ---- Convolutions, scaled and shifted -----------------------------------------------------------
// Steps are pairs of an op and an operand: "+b" adds one number a channel, "*1" scales by one
// number, "-<" subtracts the value from the operand, "*x" by one that
// the call brings; "=" has the value so far as a result, too.
typedef struct chain_t {
  const char *what, *steps;
  uint64_t wanted; // places
  bool transposed;
  int64_t groups, stride, padding;
  dt_dtype_t dtype; // of all; NONE: f32
} chain_t;

static const chain_t chains[] = {
    {.what = "a batch norm", .steps = "-b*b+b", .wanted = 1, .padding = 1},
    {.what = "a bias and a batch norm",
     .steps = "+b-b/b*b+b",
     .wanted = 1,
     .padding = 1,
     .stride = 2},
    {.what = "one scale", .steps = "*b", .wanted = 1},
    {.what = "one deviation", .steps = "/b", .wanted = 1},
    {.what = "one number", .steps = "*1", .wanted = 1},
    {.what = "a number and channels", .steps = "*1+b", .wanted = 1},
    {.what = "subtracted from", .steps = "-<*b", .wanted = 1},
    {.what = "subtracted from twice", .steps = "+b*b-<-<", .wanted = 1},
    {.what = "scaled twice", .steps = "*b+b*b+b", .wanted = 1},
    {.what = "in groups", .steps = "-b*b+b", .wanted = 1, .groups = 2, .padding = 1},
    {.what = "each channel alone",
     .steps = "-b*b+b",
     .wanted = 1,
     .groups = CHANNELS,
     .padding = 1},
    {.what = "transposed", .steps = "+b-b/b*b+b", .wanted = 1, .transposed = true, .stride = 2},
    {.what = "f64", .steps = "+b*b", .wanted = 1, .dtype = DT_F64},
    {.what = "a result on the way", .steps = "*b=+b", .wanted = 1},
    {.what = "transposed, in groups", .steps = "*b", .wanted = 0, .transposed = true, .groups = 2},
    {.what = "nothing scales", .steps = "+b-b", .wanted = 0},
    {.what = "of the call", .steps = "*x", .wanted = 0},
    {.what = "a half", .steps = "*b+b", .wanted = 0, .dtype = DT_F16},
    {.what = "the product is a result", .steps = "=*b+b", .wanted = 0},
};

typedef struct conv_t {
  const chain_t *chain;
  dt_tensor_t *w, *operands[8];
} conv_t;

static dt_value_t constant(dt_trace_t *t, const char *name, dt_tensor_t *tensor, dt_dtype_t dtype) {
  return dt_cast(t, dt_constant(t, name, tensor), dtype);
}

static dt_value_t operand(const conv_t *c, dt_trace_t *t, char kind, uint32_t k, dt_value_t x) {
  static const int32_t axes[] = {0, 1, 2, 3};
  static const char *const names[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
  dt_dtype_t dtype = dt_value_dtype(t, x);
  if (kind == '1')
    return dt_scalar(t, dtype, 1.5);
  if (kind == 'x')
    return dt_mean(t, x, 4, axes, false);
  return constant(t, names[k], c->operands[k], dtype);
}

static dt_value_t convolution(const conv_t *c, dt_trace_t *t, dt_value_t x) {
  const chain_t *chain = c->chain;
  dt_window_t windows[2];
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    windows[d].stride = dt_sym_const(t, chain->stride ? chain->stride : 1);
    windows[d].low = windows[d].high = dt_sym_const(t, chain->padding);
  }
  int64_t groups = chain->groups ? chain->groups : 1;
  dt_value_t w = constant(t, "w", c->w, dt_value_dtype(t, x));
  return chain->transposed ? dt_conv_transpose(t, x, w, windows, groups)
                           : dt_conv(t, x, w, windows, groups);
}

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const conv_t *c = closure;
  dt_value_t x = dt_cast(t, in[0], c->chain->dtype ? c->chain->dtype : DT_F32);
  dt_value_t y = convolution(c, t, x);
  uint32_t k = 0;
  out[1] = in[0];
  for (const char *step = c->chain->steps; *step; step += *step == '=' ? 1 : 2) {
    if (*step == '=') {
      out[1] = dt_cast(t, y, DT_F32);
      continue;
    }
    dt_value_t a = operand(c, t, step[1] == '<' ? 'b' : step[1], k++, x);
    y = *step == '+'     ? dt_add(t, y, a)
        : *step == '*'   ? dt_mul(t, a, y)
        : *step == '/'   ? dt_div(t, y, a)
        : step[1] == '<' ? dt_sub(t, a, y)
                         : dt_sub(t, y, a);
  }
  out[0] = dt_cast(t, dt_relu(t, y), DT_F32);
  return NULL;
}

// Away from 0, which nothing is divided by.
static dt_tensor_t *numbers(fixture_t *f, uint32_t rank, const int64_t *sizes) {
  dt_tensor_t *x = tensor_f32(&f->rng, rank, sizes);
  for (int64_t k = 0; k < dt_tensor_count(x); k++) {
    float *at = (float *)dt_tensor_data(x) + k;
    *at += *at < 0 ? -0.5F : 0.5F;
  }
  return x;
}

static conv_t conv_of(fixture_t *f, const chain_t *chain) {
  conv_t c = {.chain = chain};
  int64_t groups = chain->groups ? chain->groups : 1;
  c.w = tensor_f32(&f->rng, 4, SIZES(CHANNELS, CHANNELS / groups, 3, 3));
  for (int k = 0; k < 8; k++)
    c.operands[k] = numbers(f, 3, SIZES(CHANNELS, 1, 1));
  return c;
}

static void conv_end(conv_t *c) {
  RELEASE(c->w);
  release_tensors(c->operands, 8);
}

static const dt_input_decl_t image = {.name = "x", .dtype = DT_F32, .rank = 4};

static void test_chains(void **state) {
  fixture_t *f = *state;
  static const int64_t sizes[][3] = {{2, 7, 6}, {1, 3, 3}, {0, 5, 4}, {3, 4, 9}};
  for (size_t k = 0; k < sizeof chains / sizeof chains[0]; k++) {
    conv_t c = conv_of(f, &chains[k]);
    uint64_t before = count_of(f, "ductile.conv_affine");
    dt_function_t *with = make(f, program, &c, 1, &image, 2, NULL);
    dt_function_t *evaluated = make(f, program, &c, 1, &image, 2, "");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      const int64_t *s = sizes[i];
      dt_tensor_t *x = tensor_f32(&f->rng, 4, SIZES(s[0], CHANNELS, s[1], s[2]));
      dt_tensor_t *got[2] = {NULL, NULL}, *want[2] = {NULL, NULL};
      expect_ok(dt_call(f->session, with, &x, 1, got, 2, NULL));
      expect_ok(dt_call(f->session, evaluated, &x, 1, want, 2, NULL));
      double most = chains[k].dtype == DT_F16 ? 2e-2 : 5e-5;
      expect_close(got[0], want[0], most, most, chains[k].what);
      expect_close(got[1], want[1], most, most, chains[k].what);
      release_tensors(got, 2);
      release_tensors(want, 2);
      RELEASE(x);
    }
    uint64_t n = count_of(f, "ductile.conv_affine") - before, wanted = chains[k].wanted;
    if (compiles() && n != wanted * variants_of(with))
      fail_msg("%s: %llu places replaced in %u variants, expected %llu in each", chains[k].what,
               (unsigned long long)n, variants_of(with), (unsigned long long)wanted);
    dt_function_release(with);
    dt_function_release(evaluated);
    conv_end(&c);
  }
}

// ---- Who has them -------------------------------------------------------------------------------
// Functions that leave it out, or compute in order, give the bits of the program as it is written.
static void test_choice(void **state) {
  fixture_t *f = *state;
  static const char *const passes[] = {NULL, "-ductile.conv_affine", NULL};
  conv_t c = conv_of(f, &chains[1]);
  for (int way = 0; way < 3; way++) {
    dt_function_options_t options = options_of(1, &image);
    options.n_outputs = 2;
    options.passes = passes[way];
    options.strict_fp = way == 2;
    uint64_t before = count_of(f, "ductile.conv_affine");
    dt_function_t *function = function_of(f, program, &c, &options);
    dt_tensor_t *x = tensor_f32(&f->rng, 4, SIZES(2, CHANNELS, 5, 5)), *y[2] = {NULL, NULL};
    expect_ok(dt_call(f->session, function, &x, 1, y, 2, NULL));
    if (compiles())
      assert_int_equal(count_of(f, "ductile.conv_affine") - before, way == 0);
    release_tensors(y, 2);
    RELEASE(x);
    dt_function_release(function);
  }
  conv_end(&c);
}

// The constants behind a replaced place can be updated as ever.
static void test_updated_constants(void **state) {
  fixture_t *f = *state;
  conv_t c = conv_of(f, &chains[0]);
  dt_function_t *with = make(f, program, &c, 1, &image, 2, NULL);
  dt_function_t *evaluated = make(f, program, &c, 1, &image, 2, "");
  dt_tensor_t *x = tensor_f32(&f->rng, 4, SIZES(1, CHANNELS, 6, 4));
  for (int k = 0; k < 3; k++) {
    dt_tensor_t *got[2] = {NULL, NULL}, *want[2] = {NULL, NULL};
    if (k) {
      dt_tensor_t *other = numbers(
          f, k == 1 ? 3 : 4, k == 1 ? SIZES(CHANNELS, 1, 1) : SIZES(CHANNELS, CHANNELS, 3, 3));
      const char *name = k == 1 ? "c1" : "w";
      expect_ok(dt_constant_update(with, name, other));
      expect_ok(dt_constant_update(evaluated, name, other));
      RELEASE(other);
    }
    expect_ok(dt_call(f->session, with, &x, 1, got, 2, NULL));
    expect_ok(dt_call(f->session, evaluated, &x, 1, want, 2, NULL));
    expect_close(got[0], want[0], 1e-4, 1e-4, "updated");
    release_tensors(got, 2);
    release_tensors(want, 2);
  }
  RELEASE(x);
  dt_function_release(with);
  dt_function_release(evaluated);
  conv_end(&c);
}

static void test_found_by_name(void **state) {
  fixture_t *f = *state;
  dt_pattern_t *pattern = NULL;
  expect_told(dt_runtime_find_pattern(f->runtime, "ductile.none", &pattern), DT_E_ARGUMENT,
              "no pattern \"ductile.none\"");
  expect_told(dt_runtime_find_pattern(NULL, "p", &pattern), DT_E_ARGUMENT, "runtime: NULL");
  expect_told(dt_runtime_find_pattern(f->runtime, NULL, &pattern), DT_E_ARGUMENT, "name: NULL");
  expect_told(dt_runtime_find_pattern(f->runtime, "p", NULL), DT_E_ARGUMENT, "out: NULL");
  assert_null(pattern);
}

// Why a place is none, as of any pattern.
static void test_explained(void **state) {
  fixture_t *f = *state;
  static const char *const reasons[] = {"a result of the graph", "nothing scales", "of constants"};
  static const size_t which[] = {18, 15, 16};
  dt_pattern_t *pattern = NULL;
  expect_ok(dt_runtime_find_pattern(f->runtime, "ductile.conv_affine", &pattern));
  for (size_t k = 0; k < 3; k++) {
    conv_t c = conv_of(f, &chains[which[k]]);
    dt_function_t *function = make(f, program, &c, 1, &image, 2, NULL);
    dt_tensor_t *x = tensor_f32(&f->rng, 4, SIZES(2, CHANNELS, 5, 5)), *y[2] = {NULL, NULL};
    char *text = NULL;
    expect_ok(dt_call(f->session, function, &x, 1, y, 2, NULL));
    expect_ok(dt_pattern_explain_function(pattern, function, &x, 1, &text));
    if (!strstr(text, reasons[k]))
      fail_msg("\"%s\" is not in: %s", reasons[k], text);
    dt_text_free(text);
    release_tensors(y, 2);
    RELEASE(x);
    dt_function_release(function);
    conv_end(&c);
  }
  dt_pattern_release(pattern);
}

// ---- A block of a residual network --------------------------------------------------------------
// relu(norm(conv(relu(norm(conv x)))) + x).
static dt_status_t block(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const conv_t *c = closure;
  dt_value_t y = in[0];
  for (uint32_t layer = 0; layer < 2; layer++) {
    y = dt_sub(t, convolution(&c[layer], t, y), operand(&c[layer], t, 'b', 4 * layer, y));
    dt_value_t spread = operand(&c[layer], t, 'b', 4 * layer + 1, y);
    dt_value_t factor =
        dt_rsqrt(t, dt_add(t, dt_mul(t, spread, spread), dt_scalar(t, DT_F32, 1e-5)));
    y = dt_mul(t, y, dt_mul(t, operand(&c[layer], t, 'b', 4 * layer + 2, y), factor));
    y = dt_add(t, y, operand(&c[layer], t, 'b', 4 * layer + 3, y));
    y = dt_relu(t, layer ? dt_add(t, y, in[0]) : y);
  }
  out[0] = y;
  return NULL;
}

static void test_residual_block(void **state) {
  fixture_t *f = *state;
  conv_t c[2] = {conv_of(f, &chains[0]), conv_of(f, &chains[0])};
  dt_tensor_t *first = c[1].w;
  c[1].w = c[0].w; // one name, one tensor
  uint64_t before = count_of(f, "ductile.conv_affine");
  for (int64_t n = 0; n < 4; n++) {
    dt_tensor_t *x = tensor_f32(&f->rng, 4, SIZES(n, CHANNELS, 8 - n, 5 + n));
    same_answers(f, block, c, 1, &image, 1, &x, "-ductile.conv_affine");
    RELEASE(x);
  }
  if (compiles())
    assert_int_equal(count_of(f, "ductile.conv_affine") - before, 4 * 2);
  c[1].w = first;
  conv_end(&c[0]);
  conv_end(&c[1]);
}

// ---- Padded products ----------------------------------------------------------------------------
typedef struct padded_t {
  const char *what;
  int64_t m[2], k[2], k_of_b[2], n[2]; // in front and behind
  int64_t cut[2];                      // elements that are left away in front, of rows and columns
  double value;
  bool used;  // the product is a result, too
  bool whole; // nothing is cut away
  dt_dtype_t dtype;
  uint64_t products, terms; // that are replaced
} padded_t;

static const padded_t padded_cases[] = {
    {.what = "rows", .m = {0, 5}, .products = 1},
    {.what = "rows in front", .m = {2, 1}, .cut = {2, 0}, .products = 1},
    {.what = "columns", .n = {1, 3}, .cut = {0, 1}, .products = 1},
    {.what = "rows and columns", .m = {0, 3}, .n = {2, 0}, .cut = {0, 2}, .products = 1},
    {.what = "everything", .m = {0, 3}, .k = {1, 2}, .k_of_b = {1, 2}, .n = {0, 4}, .products = 1},
    {.what = "terms", .k = {0, 6}, .k_of_b = {0, 6}, .whole = true, .terms = 1},
    {.what = "terms of padded rows",
     .m = {1, 1},
     .k = {2, 0},
     .k_of_b = {2, 0},
     .whole = true,
     .terms = 1},
    {.what = "halves", .m = {0, 3}, .k = {0, 2}, .k_of_b = {0, 2}, .dtype = DT_F16, .products = 1},
    {.what = "integers", .m = {0, 3}, .n = {0, 2}, .dtype = DT_I32, .products = 1},
    {.what = "rows of ones", .m = {0, 5}, .value = 1, .products = 1},
    {.what = "terms of ones", .k = {0, 6}, .k_of_b = {0, 6}, .value = 1, .whole = true},
    {.what = "terms on other sides", .k = {0, 2}, .k_of_b = {2, 0}, .whole = true},
    {.what = "padded rows are kept", .m = {2, 1}, .cut = {1, 0}},
    {.what = "the product is a result", .m = {0, 5}, .used = true},
};

static dt_value_t padded(dt_trace_t *t, dt_value_t x, const int64_t *rows, const int64_t *columns,
                         double value) {
  const dt_sym_t low[2] = {dt_sym_const(t, rows[0]), dt_sym_const(t, columns[0])};
  const dt_sym_t high[2] = {dt_sym_const(t, rows[1]), dt_sym_const(t, columns[1])};
  return dt_pad(t, x, low, high, value);
}

static dt_status_t padded_product(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  const padded_t *c = closure;
  dt_dtype_t dtype = c->dtype ? c->dtype : DT_F32;
  dt_value_t a = padded(t, dt_cast(t, in[0], dtype), c->m, c->k, c->value);
  dt_value_t b = padded(t, dt_cast(t, in[1], dtype), c->k_of_b, c->n, c->value);
  dt_value_t y = dt_matmul(t, a, b), whole = y;
  for (int32_t d = 0; d < 2 && !c->whole; d++)
    y = dt_slice(t, y, d, dt_sym_const(t, c->cut[d]), dt_dim(t, in[d], d), 1);
  out[0] = dt_cast(t, y, DT_F32);
  out[1] = c->used ? whole : in[0];
  return NULL;
}

// NaN and infinities, which must stay where they are.
static void spoil(fixture_t *f, dt_tensor_t *x) {
  static const float values[] = {INFINITY, NAN, -INFINITY, -0.0F};
  for (int64_t k = 0; k < dt_tensor_count(x); k++)
    if (rng_between(&f->rng, 0, 12) == 0)
      ((float *)dt_tensor_data(x))[k] = values[k % 4];
}

static void test_padded_products(void **state) {
  fixture_t *f = *state;
  static const int64_t sizes[][3] = {{4, 7, 5}, {1, 1, 1}, {0, 3, 2}, {5, 0, 3}, {2, 9, 0}};
  static const dt_dim_decl_t rows[] = {{.name = "m"}, {.name = "k"}},
                             columns[] = {{.name = "k"}, {.name = "n"}};
  const dt_input_decl_t inputs[] = {{.name = "a", .dtype = DT_F32, .rank = 2, .dims = rows},
                                    {.name = "b", .dtype = DT_F32, .rank = 2, .dims = columns}};
  for (size_t i = 0; i < sizeof padded_cases / sizeof padded_cases[0]; i++) {
    padded_t c = padded_cases[i];
    uint64_t products = count_of(f, "ductile.padded_product");
    uint64_t terms = count_of(f, "ductile.padded_terms");
    dt_function_t *with = make(f, padded_product, &c, 2, inputs, 2, NULL);
    dt_function_t *evaluated = make(f, padded_product, &c, 2, inputs, 2, "");
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
      dt_tensor_t *in[2] = {tensor_f32(&f->rng, 2, SIZES(sizes[s][0], sizes[s][1])),
                            tensor_f32(&f->rng, 2, SIZES(sizes[s][1], sizes[s][2]))};
      dt_tensor_t *got[2] = {NULL, NULL}, *want[2] = {NULL, NULL};
      if (c.dtype != DT_I32)
        spoil(f, in[s % 2]);
      expect_ok(dt_call(f->session, with, in, 2, got, 2, NULL));
      expect_ok(dt_call(f->session, evaluated, in, 2, want, 2, NULL));
      double most = c.dtype == DT_F16 ? 2e-2 : 2e-5;
      expect_close(got[0], want[0], most, most, c.what);
      expect_close(got[1], want[1], most, most, c.what);
      release_tensors(got, 2);
      release_tensors(want, 2);
      release_tensors(in, 2);
    }
    products = count_of(f, "ductile.padded_product") - products;
    terms = count_of(f, "ductile.padded_terms") - terms;
    uint64_t variants = variants_of(with);
    if (compiles() && (products != c.products * variants || terms != c.terms * variants))
      fail_msg("%s: %llu products and %llu terms replaced in %llu variants, expected %llu, %llu",
               c.what, (unsigned long long)products, (unsigned long long)terms,
               (unsigned long long)variants, (unsigned long long)c.products,
               (unsigned long long)c.terms);
    dt_function_release(with);
    dt_function_release(evaluated);
  }
}

// Slices whose next element would be beyond all numbers: nothing is computed of it.
static dt_status_t far_steps(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t parts[2];
  for (int64_t k = 0; k < 2; k++)
    parts[k] = dt_slice(t, in[0], 0, dt_sym_const(t, k + 1), dt_sym_const(t, 1), INT64_MAX);
  out[0] = dt_neg(t, dt_concat(t, 2, parts, 0));
  return NULL;
}

static void test_far_steps(void **state) {
  fixture_t *f = *state;
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_tensor_t *x = tensor_f32(&f->rng, 1, SIZES(5));
  same_answers(f, far_steps, NULL, 1, &input, 1, &x, "-ductile.conv_affine");
  RELEASE(x);
}

RUN_TESTS(TEST_WITH(test_chains, setup, fixture_close),
          TEST_WITH(test_far_steps, setup, fixture_close),
          TEST_WITH(test_choice, setup, fixture_close),
          TEST_WITH(test_updated_constants, setup, fixture_close),
          TEST_WITH(test_found_by_name, setup, fixture_close),
          TEST_WITH(test_explained, setup, fixture_close),
          TEST_WITH(test_residual_block, setup, fixture_close),
          TEST_WITH(test_padded_products, setup, fixture_close))

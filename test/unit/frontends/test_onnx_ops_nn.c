// SPDX-License-Identifier: Apache-2.0
// Operators of networks over dynamic dims: products, normalisation, convolution and pooling,
// resampling, attention, fused operators. Compiled code against the evaluator at several sizes in
// one variant, and for fused operators against numbers that ONNX Runtime gives.
#include "ductile/experimental.h"
#include "test/unit/frontends/onnx_rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Cases ------------------------------------------------------------------------------------------
#define INTS(name, values) "attribute { name '" name "' type 7 ints [" values "] } "
#define NUMBERS(name, size, values)                                                                \
  "initializer { name '" name "' data_type 1 dims " #size " float_data [" values "] } "

// An input's element type (f: f32, m: 0 and 1 in i32, l: 0 … 3 in i64) and dims: letters are open
// ones. Inputs are named a, b, … in their order.
typedef struct op_case_t {
  const char *name, *inputs, *node, *more;
  int n_out;
  const double *want; // the first elements of the first result, sizes being the first set's
} op_case_t;

#define N_WANT 4
#define WANT(...) ((const double[N_WANT]){__VA_ARGS__})

static const op_case_t cases[] = {
    {"Gemm", "f b 6; f 5 6; f 5",
     "op_type 'Gemm' input 'a' input 'b' input 'c' " INT("transB", "1") REAL("alpha", "0.5")
         REAL("beta", "2"),
     "", 1, NULL},
    {"Einsum", "f b s 2 4; f b t 2 4",
     "op_type 'Einsum' input 'a' input 'b' " TEXT("equation", "bqhd,bkhd->bhqk"), "", 1, NULL},
    {"Einsum of a diagonal", "f s s 3; f 3 t",
     "op_type 'Einsum' input 'a' input 'b' " TEXT("equation", "iij,j...->i..."), "", 1, NULL},
    {"LayerNormalization", "f b s 8; f 8; f 8",
     "op_type 'LayerNormalization' input 'a' input 'b' "
     "input 'c' ",
     "", 3, NULL},
    {"RMSNormalization", "f b s 8; f 8", "op_type 'RMSNormalization' input 'a' input 'b' ", "", 1,
     NULL},
    {"GroupNormalization", "f b 6 h w; f 6; f 6",
     "op_type 'GroupNormalization' input 'a' input "
     "'b' input 'c' " INT("num_groups", "3"),
     "", 1, NULL},
    {"LRN", "f b 5 h w", "op_type 'LRN' input 'a' " INT("size", "3") REAL("bias", "2"), "", 1,
     NULL},
    {"Conv", "f b 4 h w; f 6 2 3 3; f 6",
     "op_type 'Conv' input 'a' input 'b' input 'c' " INT("group", "2")
         TEXT("auto_pad", "SAME_LOWER") INTS("strides", "2 1"),
     "", 1, NULL},
    {"ConvTranspose", "f b 4 h w; f 4 3 3 2; f 3",
     "op_type 'ConvTranspose' input 'a' input 'b' "
     "input 'c' " TEXT("auto_pad", "SAME_UPPER") INTS("strides", "2 3"),
     "", 1, NULL},
    {"MaxPool", "f b 2 h w",
     "op_type 'MaxPool' input 'a' " INTS("kernel_shape", "3 2") INTS("strides", "2 2")
         INTS("pads", "1 1 1 1") INT("ceil_mode", "1"),
     "", 2, NULL},
    {"AveragePool", "f b 2 h w",
     "op_type 'AveragePool' input 'a' " INTS("kernel_shape", "3 3") INTS("strides", "2 2")
         TEXT("auto_pad", "SAME_UPPER"),
     "", 1, NULL},
    {"Resize to nearest", "f b 2 h w", "op_type 'Resize' input 'a' input '' input 'scales' ",
     NUMBERS("scales", 4, "1 1 2 0.5"), 1, NULL},
    {"Resize, linear", "f b 2 h w",
     "op_type 'Resize' input 'a' input '' input 'scales' " TEXT("mode", "linear")
         TEXT("coordinate_transformation_mode", "align_corners"),
     NUMBERS("scales", 4, "1 1 1.5 0.75"), 1, NULL},
    {"Resize, cubic", "f b 2 h w",
     "op_type 'Resize' input 'a' input '' input 'scales' " TEXT("mode", "cubic")
         INT("antialias", "1") INT("exclude_outside", "1"),
     NUMBERS("scales", 4, "1 1 0.5 1.25"), 1, NULL},
    {"GridSample", "f b 2 h w; f b 3 s 2",
     "op_type 'GridSample' input 'a' input 'b' " TEXT("padding_mode", "reflection"), "", 1, NULL},
    {"DepthToSpace", "f b 8 h w", "op_type 'DepthToSpace' input 'a' " INT("blocksize", "2"), "", 1,
     NULL},
    {"Attention", "f b s 8; f b t 4; f b t 4",
     "op_type 'Attention' input 'a' input 'b' input 'c' " INT("q_num_heads", "4")
         INT("kv_num_heads", "2") INT("is_causal", "1") REAL("softcap", "2"),
     "", 1, NULL},
    {"Attention with a past", "f b 2 s 4; f b 2 s 4; f b 2 s 4; f s u; f b 2 t 4; f b 2 t 4",
     "op_type 'Attention' input 'a' input 'b' input 'c' input '' input 'e' input 'f' " INT(
         "is_causal", "1"),
     "", 3, NULL},
    {"SkipLayerNormalization", "f b s 8; f b s 8; f 8; f 8; f 8",
     "op_type "
     "'SkipLayerNormalization' input 'a' input 'b' input 'c' input 'd' input 'e' " MS REAL(
         "epsilon", "1e-5"),
     "", 1, WANT(0.549287, 0.947846, -2.21314, -0.160725)},
    {"SkipSimplifiedLayerNormalization", "f b s 8; f b s 8; f 8",
     "op_type "
     "'SkipSimplifiedLayerNormalization' input 'a' input 'b' input 'c' " MS REAL("epsilon", "1e-5"),
     "", 1, WANT(0.236475, -0.250386, -1.53013, -0.0834619)},
    {"FastGelu", "f b s 8; f 8", "op_type 'FastGelu' input 'a' input 'b' " MS, "", 1,
     WANT(-0.0354804, -0.132692, 1.25849, 0.149675)},
    {"QuickGelu", "f b s 8", "op_type 'QuickGelu' input 'a' " MS, "", 1,
     WANT(-0.120785, -0.149612, 0.245384, 1.11693)},
    {"Attention of com.microsoft", "f b s 8; f 8 24; f 24; m b s",
     "op_type 'Attention' input 'a' "
     "input 'b' input 'c' input 'd' " MS INT("num_heads", "2"),
     "", 1, WANT(-2.38628, 2.50306, 3.50649, -2.82459)},
    {"MultiHeadAttention", "f b s 8; f b s 8; f b s 8; f 24",
     "op_type 'MultiHeadAttention' input "
     "'a' input 'b' input 'c' input 'd' " MS INT("num_heads", "2") INT("unidirectional", "1"),
     "", 1, WANT(0, 1.75, -2.25, -0.5)},
    {"RotaryEmbedding of com.microsoft", "f b s 16; l b s; f 6 4; f 6 4",
     "op_type "
     "'RotaryEmbedding' input 'a' input 'b' input 'c' input 'd' " MS INT("interleaved", "1"),
     "", 1, WANT(0.421875, -0.625, -1.4375, 1.45312)},
    {"FusedMatMul", "f b 4 s; f b 4 3",
     "op_type 'FusedMatMul' input 'a' input 'b' " MS INT("transA", "1") REAL("alpha", "0.5"), "", 1,
     WANT(1.40625, 0.0625, -0.921875, 0.695312)},
    {"FusedConv", "f b 2 h w; f 4 2 3 3; f 4",
     "op_type 'FusedConv' input 'a' input 'b' input 'c' " MS TEXT("activation", "Relu"), "", 1,
     WANT(0, 2.48438, 2.15625, 0)},
};

// Values of b, h, s, t, w; u is s + t.
#define N_SETS 4
static int64_t size_of(char dim, int set) {
  static const char letters[] = "bhstw";
  static const int64_t sizes[N_SETS][5] = {
      {2, 7, 5, 3, 9}, {1, 12, 4, 1, 3}, {3, 3, 1, 6, 16}, {2, 4, 7, 2, 8}};
  if (dim == 'u')
    return size_of('s', set) + size_of('t', set);
  return sizes[set][strchr(letters, dim) - letters];
}

// ---- Inputs -----------------------------------------------------------------------------------------
typedef struct input_t {
  char kind;
  uint32_t rank;
  char dims[DT_MAX_RANK]; // letters, or sizes
  bool open[DT_MAX_RANK];
} input_t;

static uint32_t read_inputs(const char *text, input_t *out) {
  uint32_t n = 0;
  for (out[0] = (input_t){0}; *text; text++) {
    if (*text == ';')
      out[++n] = (input_t){0};
    if (*text == ';' || *text == ' ')
      continue;
    if (!out[n].kind) {
      out[n].kind = *text;
      continue;
    }
    bool open = *text >= 'a';
    int value = *text;
    for (value = open ? value : 0; !open && *text >= '0' && *text <= '9'; text++)
      value = 10 * value + (*text - '0');
    text -= open ? 0 : 1;
    out[n].open[out[n].rank] = open;
    out[n].dims[out[n].rank++] = (char)value;
  }
  return n + 1;
}

static void element(dt_tensor_t *tensor, char kind, uint32_t input, int64_t k) {
  void *data = dt_tensor_data(tensor);
  if (kind == 'f')
    ((float *)data)[k] = (float)((k * 7 + (int64_t)input * 5) % 23 - 11) / 8.0f;
  else if (kind == 'm')
    ((int32_t *)data)[k] = k * 5 % 3 != 0;
  else
    ((int64_t *)data)[k] = k * 3 % 4;
}

static dt_tensor_t *make_input(const input_t *input, uint32_t at, int set) {
  dt_tensor_t *made = NULL;
  int64_t sizes[DT_MAX_RANK];
  for (uint32_t k = 0; k < input->rank; k++)
    sizes[k] = input->open[k] ? size_of(input->dims[k], set) : input->dims[k];
  dt_dtype_t dtype = input->kind == 'f' ? DT_F32 : input->kind == 'm' ? DT_I32 : DT_I64;
  expect_ok(dt_tensor_create_empty(dtype, input->rank, sizes, &made));
  for (int64_t k = 0; k < dt_tensor_count(made); k++)
    element(made, input->kind, at, k);
  return made;
}

// ---- Models -----------------------------------------------------------------------------------------
static int declare(char *to, size_t room, const input_t *input, uint32_t at) {
  int length = snprintf(to, room, "input { name '%c' type { tensor_type { elem_type %d shape { ",
                        (char)('a' + at),
                        input->kind == 'f'   ? 1
                        : input->kind == 'm' ? 6
                                             : 7);
  for (uint32_t k = 0; k < input->rank; k++)
    length += snprintf(to + length, room - (size_t)length,
                       input->open[k] ? "dim { dim_param '%c' } " : "dim { dim_value %d } ",
                       input->dims[k]);
  return length + snprintf(to + length, room - (size_t)length, "} } } } ");
}

static onnx_bytes_t make_model(const op_case_t *c, const input_t *inputs, uint32_t n) {
  char text[8192];
  int length = snprintf(text, sizeof text,
                        "ir_version 10 opset_import { version 23 } opset_import { domain "
                        "'com.microsoft' version 1 } graph { name 'g' ");
  for (uint32_t k = 0; k < n; k++)
    length += declare(text + length, sizeof text - (size_t)length, &inputs[k], k);
  for (int k = 0; k < c->n_out; k++)
    length += snprintf(text + length, sizeof text - (size_t)length, "output { name 'out%d' } ", k);
  length +=
      snprintf(text + length, sizeof text - (size_t)length, "%s node { %s ", c->more, c->node);
  for (int k = 0; k < c->n_out; k++)
    length += snprintf(text + length, sizeof text - (size_t)length, "output 'out%d' ", k);
  length += snprintf(text + length, sizeof text - (size_t)length, "} } ");
  assert_true(length < (int)sizeof text);
  return onnx_make(&dt__onnx_model_message, text);
}

// ---- Answers ----------------------------------------------------------------------------------------
static void expect_near(const char *name, int64_t k, double got, double want) {
  if (!(fabs(got - want) <= 2e-5 * (1.0 + fabs(want))))
    fail_msg("%s, element %lld: got %.9g, expected %.9g", name, (long long)k, got, want);
}

static void expect_equal(const char *name, const dt_tensor_t *got, const dt_tensor_t *want) {
  assert_int_equal(dt_tensor_rank(got), dt_tensor_rank(want));
  for (uint32_t k = 0; k < dt_tensor_rank(got); k++)
    assert_int_equal(dt_tensor_sizes(got)[k], dt_tensor_sizes(want)[k]);
  assert_int_equal(dt_tensor_dtype(got), dt_tensor_dtype(want));
  for (int64_t k = 0; k < dt_tensor_count(got); k++)
    expect_near(name, k, rig_get(got, k), rig_get(want, k));
}

static void run_set(const fixture_t *fixture, dt_function_t *const *functions, const op_case_t *c,
                    const input_t *inputs, uint32_t n, int set) {
  dt_tensor_t *in[8] = {0}, *out[2][4] = {0};
  for (uint32_t k = 0; k < n; k++)
    in[k] = make_input(&inputs[k], k, set);
  for (int which = 0; which < 2; which++)
    expect_ok(
        dt_call(fixture->session, functions[which], in, n, out[which], (uint32_t)c->n_out, NULL));
  for (int k = 0; k < c->n_out; k++)
    expect_equal(c->name, out[0][k], out[1][k]);
  for (int k = 0; set == 0 && c->want && k < N_WANT; k++)
    expect_near(c->name, k, rig_get(out[0][0], k), c->want[k]);
  release_tensors(in, 8);
  for (int k = 0; k < 8; k++)
    dt_tensor_release(out[k / 4][k % 4]);
}

static void test_operators(void **state) {
  const fixture_t *fixture = *state;
  for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
    input_t inputs[8];
    const op_case_t *c = &cases[at];
    uint32_t n = read_inputs(c->inputs, inputs);
    onnx_bytes_t bytes = make_model(c, inputs, n);
    dt_onnx_t *file = NULL;
    expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
    dt_function_t *functions[] = {rig_function(fixture, file, compiled_answer()),
                                  rig_function(fixture, file, DT_ANSWER_EVALUATOR)};
    for (int set = 0; set < N_SETS; set++)
      run_set(fixture, functions, c, inputs, n, set);
    dt_function_counters_t stats = {.struct_size = sizeof stats};
    expect_ok(dt_function_counters(functions[0], &stats));
    if (stats.variants > 1)
      fail_msg("%s has %u variants", c->name, stats.variants);
    dt_function_release(functions[0]);
    dt_function_release(functions[1]);
    dt_onnx_close(file);
    onnx_free(&bytes);
  }
}

// ---- Refusals ---------------------------------------------------------------------------------------
static void test_refused(void **state) {
  static const char *const rows[][2] = {
      {"op_type 'Einsum' input 'a' " TEXT("equation", "ab->a>"), "a malformed equation"},
      {"op_type 'Conv' input 'a' input 'a' " TEXT("auto_pad", "MIDDLE"), "\"auto_pad\""},
      {"op_type 'Conv' input 'a' input 'a' " INTS("strides", "0 1"), "a stride"},
      {"op_type 'MaxPool' input 'a' ", "\"kernel_shape\" is missing"},
      {"op_type 'Resize' input 'a' " TEXT("mode", "best"), "\"mode\""},
      {"op_type 'GridSample' input 'a' input 'a' " TEXT("padding_mode", "x"), "\"padding_mode\""},
      {"op_type 'GroupQueryAttention' input 'a' " MS INT("num_heads", "2"), "\"kv_num_heads\""},
  };
  const fixture_t *fixture = *state;
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    const op_case_t c = {rows[k][0], "f b 3", rows[k][0], "", 1, NULL};
    const dt_onnx_function_options_t options = {.struct_size = sizeof options};
    input_t inputs[8];
    dt_onnx_t *file = NULL;
    dt_function_t *made = NULL;
    onnx_bytes_t bytes = make_model(&c, inputs, read_inputs(c.inputs, inputs));
    expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
    expect_told(dt_onnx_function_create(fixture->runtime, file, &options, &made), DT_E_UNSUPPORTED,
                rows[k][1]);
    dt_onnx_close(file);
    onnx_free(&bytes);
  }
}

static int open_all(void **state) { return fixture_open(state, 1, 7); }

RUN_TESTS_WITH(open_all, fixture_close, TEST(test_operators), TEST(test_refused))

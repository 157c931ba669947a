// SPDX-License-Identifier: Apache-2.0
// Structs that stand in arrays: as far apart as this header says, as the first one did, and farther
// than either; and those that are fixed for ever, as they are.
#include "test/abi/every_struct.h"

// Bytes of the first header, which a size of 0 stands for.
enum { FIRST_INPUT = 32, FIRST_DIM = 72, FIRST_SHAPE = 72 };

// `n` elements of `size` bytes, `stride` apart, in memory of exactly that.
static void *spread(const void *elements, uint32_t n, size_t size, size_t stride) {
  char *all = exactly(n * stride);
  for (uint32_t k = 0; k < n; k++)
    memcpy(all + k * stride, (const char *)elements + k * size, size < stride ? size : stride);
  return all;
}

// ---- Declarations ---------------------------------------------------------------------------------

enum { INPUTS = 4 };

static dt_status_t declared(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                            void *closure) {
  (void)closure;
  dt_value_t sum = dt_add(trace, dt_sum(trace, in[0], 1, (const int32_t[]){0}, true),
                          dt_sum(trace, in[1], 1, (const int32_t[]){0}, true));
  out[0] = dt_mul(trace, sum, dt_cast(trace, in[2], DT_F32));
  out[1] = dt_where(trace, in[3], out[0], in[0]);
  return NULL;
}

static void call_declared(dt_function_t *function, int64_t rows, int64_t more) {
  dt_tensor_t *in[INPUTS] = {counting(2, (const int64_t[]){rows, 4}),
                             counting(2, (const int64_t[]){more, 4}), NULL, NULL};
  dt_tensor_t *out[2] = {NULL, NULL};
  must(dt_tensor_create_empty(DT_I64, 0, NULL, &in[2]));
  must(dt_tensor_create_empty(DT_BOOL, 0, NULL, &in[3]));
  *(int64_t *)dt_tensor_data(in[2]) = 3;
  *(bool *)dt_tensor_data(in[3]) = true;
  if (told("call", dt_call(place.session, function, in, INPUTS, out, 2, NULL))) {
    show_tensor("out[0]", out[0]);
    show_tensor("out[1]", out[1]);
  }
  for (uint32_t k = 0; k < INPUTS; k++)
    dt_tensor_release(in[k]);
}

// x [rows, 4] and y [2 * rows + 1, 4], an integer and a boolean.
static void declare(const char *how, size_t input_stride, size_t dim_stride, bool say) {
  const dt_dim_decl_t x[2] = {
      {.name = "rows", .min = 2, .max = 9, .multiple_of = 2, .mark = DT_MARK_DYNAMIC},
      {.value = 4, .is_static = true}};
  const dt_dim_decl_t y[2] = {{.name = "more", .of = "rows", .scale = 2, .offset = 1},
                              {.name = "columns", .max = 4}};
  void *x_dims = spread(x, 2, sizeof x[0], dim_stride);
  void *y_dims = spread(y, 2, sizeof y[0], dim_stride);
  const dt_input_decl_t inputs[INPUTS] = {
      {.name = "x", .dtype = DT_F32, .rank = 2, .dims = x_dims, .alignment = 4},
      {.name = "y", .dtype = DT_F32, .rank = 2, .dims = y_dims, .alignment = 16},
      {.name = "times", .dtype = DT_I64, .kind = DT_INPUT_INTEGER},
      {.name = "whether", .dtype = DT_BOOL, .kind = DT_INPUT_BOOLEAN}};
  void *given = spread(inputs, INPUTS, sizeof inputs[0], input_stride);
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "declared",
                                         .n_inputs = INPUTS,
                                         .n_outputs = 2,
                                         .inputs = given,
                                         .input_size = say ? (uint32_t)input_stride : 0,
                                         .dim_size = say ? (uint32_t)dim_stride : 0};
  dt_function_t *function = NULL;
  title("dt_input_decl_t and dt_dim_decl_t", how);
  bool made = told("dt_function_create",
                   dt_function_create(place.runtime, declared, NULL, &options, &function));
  free(given);
  free(x_dims);
  free(y_dims);
  if (!made)
    return;
  show_declared(function);
  call_declared(function, 2, 5);
  call_declared(function, 8, 17);
  call_declared(function, 10, 21); // more than declared
  call_declared(function, 4, 8);   // not derived
  dt_function_release(function);
}

// Two inputs, x [batch, 3] and y [3].
static void declare_of_model(const char *how, size_t stride, bool say) {
  const dt_dim_decl_t dims[2] = {{.name = "batch", .max = 2}, {.name = "nothing"}};
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/both.onnx", place.models);
  dt_onnx_t *model = NULL;
  must(dt_onnx_open(path, NULL, &model));
  title("dt_dim_decl_t of a model", how);
  for (uint32_t n = 0; n <= 2; n++) {
    void *given = spread(dims, n, sizeof dims[0], stride);
    const dt_onnx_function_options_t options = {.struct_size = sizeof options,
                                                .dims = given,
                                                .n_dims = n,
                                                .dim_size = say ? (uint32_t)stride : 0};
    dt_function_t *function = NULL;
    bool made = told("dt_onnx_function_create",
                     dt_onnx_function_create(place.runtime, model, &options, &function));
    free(given);
    if (made)
      show_declared(function);
    dt_function_release(function);
  }
  dt_onnx_close(model);
}

#ifdef EVERY_STRUCT_LATER
// A field that only newer headers have, of the last element.
static void declare_later(void) {
  dt_dim_decl_t dims[2] = {{.name = "rows"}, {.value = 4, .is_static = true}};
  dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims},
                               {.name = "y", .dtype = DT_F32, .rank = 2, .dims = dims}};
  dt_function_options_t options = {.struct_size = sizeof options,
                                   .name = "later",
                                   .n_inputs = 2,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .input_size = sizeof inputs[0],
                                   .dim_size = sizeof dims[0]};
  for (int which = 0; which < 2; which++) {
    char *last = which ? (char *)&dims[2] : (char *)&inputs[2];
    memset(last - sizeof(uint64_t), 1, sizeof(uint64_t));
    dt_function_t *function = NULL;
    dt_status_t status = dt_function_create(place.runtime, doubled, NULL, &options, &function);
    title(which ? "dt_dim_decl_t" : "dt_input_decl_t", "with a later field");
    (void)told_code("dt_function_create", status);
    dt_function_release(function);
    memset(last - sizeof(uint64_t), 0, sizeof(uint64_t));
  }
}
#endif

// ---- Sizes of results -----------------------------------------------------------------------------

static dt_status_t both(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(trace, in[0], in[0]);
  out[1] = dt_transpose(trace, in[0], 0, 1);
  return NULL;
}

static void measure(const char *how, size_t stride) {
  dt_function_options_t options = one_matrix();
  options.n_outputs = 2;
  dt_function_t *function = NULL;
  dt_tensor_t *x = counting(2, (const int64_t[]){5, 3});
  must(dt_function_create(place.runtime, both, NULL, &options, &function));
  unsigned char *shapes = exactly(2 * stride);
  memset(shapes, 0xA5, 2 * stride);
  title("dt_output_shape_t", how);
  if (told("dt_function_output_sizes",
           dt_function_output_sizes(place.session, function, &x, 1, (void *)shapes, stride, 2)))
    for (uint32_t k = 0; k < 2; k++) {
      dt_output_shape_t shape;
      memcpy(&shape, shapes + k * stride, FIRST_SHAPE);
      printf("  output %u: %s [%lld, %lld] of %u\n", k, dt_dtype_name(shape.dtype),
             (long long)shape.sizes[0], (long long)shape.sizes[1], shape.rank);
      bool zero = true;
      for (size_t b = FIRST_SHAPE; b < stride; b++)
        zero = zero && shapes[k * stride + b] == 0;
      printf("  the rest is %s\n", zero ? "zero" : "garbage");
    }
  free(shapes);
  dt_tensor_release(x);
  dt_function_release(function);
}

// ---- What does not grow ---------------------------------------------------------------------------

static dt_status_t slides(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  const dt_window_t windows[2] = {
      {.stride = dt_sym_const(trace, 2), .low = dt_sym_const(trace, 1)},
      {.dilation = dt_sym_const(trace, 2), .high = dt_sym_const(trace, 1)}};
  out[0] = dt_conv(trace, in[0], in[1], windows, 1);
  return NULL;
}

static void fixed(void) {
  const dt_input_decl_t inputs[2] = {{.name = "x", .dtype = DT_F32, .rank = 4},
                                     {.name = "w", .dtype = DT_F32, .rank = 4}};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "slides",
                                         .n_inputs = 2,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .input_size = sizeof inputs[0]};
  dt_function_t *function = NULL;
  dt_tensor_t *in[2] = {counting(4, (const int64_t[]){1, 1, 5, 5}),
                        counting(4, (const int64_t[]){1, 1, 2, 2})};
  dt_tensor_t *out = NULL;
  title("dt_window_t, dt_value_t, dt_sym_t and dt_cancel_t", "as they are");
  must(dt_function_create(place.runtime, slides, NULL, &options, &function));
  if (told("call", dt_call(place.session, function, in, 2, &out, 1, NULL)))
    show_tensor("out", out);
  dt_tensor_release(in[0]);
  dt_tensor_release(in[1]);
  dt_function_release(function);
}

void every_element(void) {
  declare("as far apart as they are large", sizeof(dt_input_decl_t), sizeof(dt_dim_decl_t), true);
  declare("as far apart as at first, not said", FIRST_INPUT, FIRST_DIM, false);
  declare("as far apart as at first, said", FIRST_INPUT, FIRST_DIM, true);
  declare("farther apart", 200, 264, true);
  declare_of_model("as far apart as they are large", sizeof(dt_dim_decl_t), true);
  declare_of_model("as far apart as at first, not said", FIRST_DIM, false);
  declare_of_model("farther apart", 264, true);
#ifdef EVERY_STRUCT_LATER
  declare_later();
#endif
  measure("as far apart as they are large", sizeof(dt_output_shape_t));
  measure("as far apart as at first", FIRST_SHAPE);
  measure("farther apart", 200);
  fixed();
}

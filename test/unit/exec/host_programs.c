// SPDX-License-Identifier: Apache-2.0
// See host_programs.h.
#include "test/unit/exec/host_programs.h"

#include "ductile/op.h"
#include "ductile/trace_index.h"
#include "ductile/trace_scan.h"
#include "ductile/trace_windows.h"

#include <string.h>

static const int32_t rows_axis[] = {0}, columns_axis[] = {1};

// ---- Weights --------------------------------------------------------------------------------------

enum { SQUARE, WIDE, NARROW, WINDOWS, MORE_WINDOWS };

static const struct {
  const char *name;
  uint32_t rank;
  int64_t sizes[4];
} weights[HOST_WEIGHTS] = {[SQUARE] = {"square", 2, {HOST_COLUMNS, HOST_COLUMNS}},
                           [WIDE] = {"wide", 2, {HOST_COLUMNS, 200}},
                           [NARROW] = {"narrow", 2, {200, HOST_COLUMNS}},
                           [WINDOWS] = {"windows", 4, {8, 1, 3, 3}},
                           [MORE_WINDOWS] = {"more windows", 4, {8, 8, 3, 3}}};

void host_weights_init(host_weights_t *own, rng_t *rng) {
  for (int k = 0; k < HOST_WEIGHTS; k++)
    own->items[k] = tensor_f32(rng, weights[k].rank, weights[k].sizes);
}

void host_weights_fini(host_weights_t *own) { release_tensors(own->items, HOST_WEIGHTS); }

static dt_value_t weight(dt_trace_t *t, void *closure, int k) {
  return dt_constant(t, weights[k].name, ((host_weights_t *)closure)->items[k]);
}

static dt_value_t number(dt_trace_t *t, double value) { return dt_scalar(t, DT_F32, value); }

// ---- Control --------------------------------------------------------------------------------------

static dt_value_t attend(dt_trace_t *t, dt_value_t x) {
  dt_value_t scores = dt_matmul(t, x, dt_transpose(t, x, 0, 1));
  return dt_matmul(t, dt_softmax(t, scores, -1), x);
}

static dt_status_t then_attend(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = attend(t, in[0]);
  return NULL;
}

static dt_status_t else_sum_up(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = dt_cumsum(t, dt_tanh(t, in[0]), 0, DT_CUMSUM_INCLUSIVE);
  return NULL;
}

static dt_status_t cond_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  dt_value_t some = dt_gt(t, in[1], dt_scalar(t, DT_I64, 3));
  dt_cond(t, some, then_attend, else_sum_up, closure, 1, in, 1, out);
  return NULL;
}

// Trips are counted in in[0]; in[1] is the state, in[2] x, in[3] how many.
static dt_status_t goes_on(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[3]);
  return NULL;
}

static dt_status_t trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_I64, 1));
  dt_value_t moved = dt_matmul(t, in[1], weight(t, closure, SQUARE));
  out[1] = dt_tanh(t, dt_add(t, dt_cumsum(t, moved, 0, DT_CUMSUM_INCLUSIVE), in[2]));
  return NULL;
}

static dt_status_t while_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  dt_value_t begin[] = {dt_scalar(t, DT_I64, 0), dt_neg(t, in[0])}, last[2];
  dt_while(t, goes_on, trip, closure, 2, begin, 2, in, last);
  out[0] = last[1];
  out[1] = last[0];
  return NULL;
}

static dt_status_t layer(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t h = dt_gelu(t, dt_matmul(t, in[0], weight(t, closure, WIDE)));
  out[0] = dt_add(t, in[0], dt_matmul(t, h, weight(t, closure, NARROW)));
  return NULL;
}

static dt_status_t subgraph_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  dt_value_t h = in[0];
  for (int k = 0; k < 3; k++)
    dt_subgraph(t, layer, closure, 1, &h, 1, 0, &h);
  out[0] = h;
  return NULL;
}

// ---- Sizes from data ------------------------------------------------------------------------------

// Each segment is sized by the one before it.
static dt_status_t selected_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  (void)closure;
  dt_value_t x = dt_mul(t, in[0], number(t, 2));
  dt_value_t some = dt_masked_select(t, x, dt_gt(t, x, number(t, -1)));
  dt_value_t fewer = dt_masked_select(t, some, dt_lt(t, some, number(t, 1)));
  out[0] = dt_nonzero(t, dt_gt(t, x, number(t, 0)));
  out[1] = dt_repeat_interleave(t, fewer, in[1], 0);
  out[2] = dt_cumsum(t, some, 0, DT_CUMSUM_INCLUSIVE);
  return NULL;
}

static dt_status_t repeated_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                    void *closure) {
  dt_value_t rows = dt_repeat_interleave(t, in[0], in[1], 0);
  out[0] = dt_matmul(t, dt_softmax(t, rows, 0), weight(t, closure, WIDE));
  out[1] = dt_sum(t, rows, 1, rows_axis, false);
  return NULL;
}

// ---- Orders ---------------------------------------------------------------------------------------

static dt_status_t recur(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], in[2]);
  out[1] = dt_add(t, dt_mul(t, in[2], in[1]), in[3]);
  return NULL;
}

static dt_status_t scan_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  dt_value_t pair[] = {dt_sigmoid(t, in[0]), in[0]};
  dt_associative_scan(t, recur, closure, 2, pair, 0, 0, out);
  out[2] = dt_cummax(t, in[0], 1, DT_CUMSUM_REVERSE);
  dt_value_t all = dt_reshape(t, in[0], 1, (const dt_sym_t[]){dt_sym_const(t, -1)});
  out[3] = dt_cumsum(t, all, 0, DT_CUMSUM_EXCLUSIVE);
  return NULL;
}

static dt_status_t sort_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  dt_value_t all = dt_reshape(t, in[0], 1, (const dt_sym_t[]){dt_sym_const(t, -1)}), places;
  dt_sort(t, all, 0, false, &out[0], &places);
  out[1] = dt_searchsorted(t, out[0], dt_neg(t, all), true);
  dt_topk(t, in[0], dt_sym_const(t, 7), 1, true, &out[2], &places);
  out[3] = dt_gather_elements(t, in[0], places, 1);
  return NULL;
}

// ---- Networks -------------------------------------------------------------------------------------

// in[0] is what a row leaves to the next one, in[1] the row.
static dt_status_t step(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t row = dt_unsqueeze(t, in[0], 0);
  dt_value_t moved = dt_squeeze(t, dt_matmul(t, row, weight(t, closure, SQUARE)), 0);
  out[0] = out[1] = dt_tanh(t, dt_add(t, moved, in[1]));
  return NULL;
}

static dt_status_t recurrent_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                     void *closure) {
  const dt_sym_t columns = dt_sym_const(t, HOST_COLUMNS);
  dt_value_t begin = dt_full(t, DT_F32, 0, 1, &columns);
  dt_scan(t, step, closure, 1, &begin, 1, in, (dt_sym_t){0}, 1, 0, out);
  return NULL;
}

static dt_status_t conv_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  const dt_sym_t one = dt_sym_const(t, 1), three = dt_sym_const(t, 3);
  const dt_window_t padded[] = {{.low = one, .high = one}, {.low = one, .high = one}};
  const dt_window_t pool[] = {{.size = three, .low = one, .high = one},
                              {.size = three, .stride = three}};
  dt_value_t x = dt_unsqueeze(t, dt_unsqueeze(t, in[0], 0), 0);
  x = dt_relu(t, dt_conv(t, x, weight(t, closure, WINDOWS), padded, 1));
  x = dt_relu(t, dt_conv(t, x, weight(t, closure, MORE_WINDOWS), padded, 1));
  out[0] = dt_max_pool(t, x, pool, 0, NULL);
  out[1] = dt_conv_transpose(t, x, weight(t, closure, MORE_WINDOWS), NULL, 1);
  return NULL;
}

static dt_status_t product_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                   void *closure) {
  dt_value_t x = in[0];
  (void)layer(t, &x, &x, closure);
  out[0] = attend(t, x);
  out[1] = dt_matmul(t, dt_transpose(t, x, 0, 1), in[0]);
  dt_value_t bytes = dt_cast(t, dt_round(t, dt_mul(t, in[0], number(t, 9))), DT_I8);
  dt_value_t turned = dt_transpose(t, bytes, 0, 1);
  out[2] = dt_matmul(t, dt_cast(t, turned, DT_I32), dt_cast(t, bytes, DT_I32));
  return NULL;
}

// ---- Reductions, casts, places --------------------------------------------------------------------

static dt_status_t reduce_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_value_t centred = dt_sub(t, in[0], dt_mean(t, in[0], 1, rows_axis, true));
  out[0] = dt_mul(t, centred, dt_rsqrt(t, dt_var(t, in[0], 1, rows_axis, true)));
  out[1] = dt_argmax(t, in[0], 0, false);
  out[2] = dt_sum(t, dt_exp(t, in[0]), 0, NULL, false);
  out[3] = dt_prod(t, in[0], 1, columns_axis, false);
  return NULL;
}

static dt_status_t cast_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_cast(t, dt_softmax(t, dt_cast(t, in[0], DT_F16), 0), DT_BF16);
  out[1] = dt_cumsum(t, dt_cast(t, in[0], DT_F64), 1, DT_CUMSUM_INCLUSIVE);
  out[2] = dt_cast(t, dt_mul(t, in[0], number(t, 50)), DT_I8);
  out[3] = dt_transpose(t, dt_bitcast(t, in[0], DT_I32), 0, 1);
  return NULL;
}

static dt_status_t places_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  const dt_sym_t none = dt_sym_const(t, 0), one = dt_sym_const(t, 1);
  dt_value_t first = dt_slice(t, in[0], 0, none, one, 1), place, largest;
  dt_value_t zero = dt_scalar(t, DT_I64, 0);
  out[0] = dt_update_slice(t, dt_relu(t, in[0]), first, zero, 0, DT_UPDATE_CLAMPED);
  dt_topk(t, in[0], dt_sym_const(t, 5), 1, false, &largest, &place);
  out[1] = dt_scatter_elements(t, in[0], place, dt_neg(t, largest), 1, DT_SCATTER_ADD);
  dt_value_t both[] = {dt_transpose(t, in[0], 0, 1), dt_transpose(t, out[0], 0, 1)};
  const dt_sym_t before[] = {one, none}, behind[] = {none, one};
  out[2] = dt_pad(t, dt_concat(t, 2, both, 0), before, behind, 3);
  return NULL;
}

// The new value needs all of the old one, and takes its place at the end of the call.
static dt_status_t update_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  out[0] = dt_matmul(t, in[0], weight(t, closure, WIDE));
  dt_update(t, in[0], dt_softmax(t, dt_cumsum(t, in[0], 0, DT_CUMSUM_REVERSE), 0));
  return NULL;
}

// ---- Ops of users ---------------------------------------------------------------------------------

static dt_status_t turn_infer(dt_op_call_t *call, void *closure) {
  dt_trace_t *t = dt_op_call_trace(call);
  dt_value_t x = dt_op_call_input(call, 0);
  const dt_sym_t turned[] = {dt_dim(t, x, 1), dt_dim(t, x, 0)};
  (void)closure;
  dt_op_set_result(call, 0, DT_F32, 2, turned);
  dt_op_set_result_like(call, 1, x, DT_DTYPE_NONE);
  dt_op_set_items(call, dt_dim(t, x, 0));
  return NULL;
}

// x turned, and half of it. An item is a row of x.
static dt_status_t turn_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0], *turned = args->results[0], *half = args->results[1];
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++)
    for (int64_t j = 0; j < x->sizes[1]; j++) {
      float value = ((const float *)x->data)[i * x->strides[0] + j * x->strides[1]];
      ((float *)turned->data)[j * turned->strides[0] + i] = value;
      ((float *)half->data)[i * half->strides[0] + j] = value / 2;
    }
  return NULL;
}

static dt_status_t double_infer(dt_op_call_t *call, void *closure) {
  dt_value_t x = dt_op_call_input(call, 0);
  (void)closure;
  dt_op_set_result_like(call, 0, x, DT_DTYPE_NONE);
  dt_op_set_items(call, dt_dim(dt_op_call_trace(call), x, 0));
  return NULL;
}

static dt_status_t double_kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0], *y = args->results[0];
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++)
    for (int64_t j = 0; j < x->sizes[1]; j++)
      ((float *)y->data)[i * y->strides[0] + j * y->strides[1]] =
          2 * ((const float *)x->data)[i * x->strides[0] + j * x->strides[1]];
  return NULL;
}

void host_ops_register(dt_runtime_t *runtime) {
  const dt_op_options_t turn = {.struct_size = sizeof(turn),
                                .name = "test.turn",
                                .infer = turn_infer,
                                .kernel = turn_kernel,
                                .least_inputs = 1};
  const dt_op_options_t twice = {.struct_size = sizeof(twice),
                                 .name = "test.double",
                                 .infer = double_infer,
                                 .kernel = double_kernel,
                                 .least_inputs = 1,
                                 .updates = {1},
                                 .in_place = true};
  expect_ok(dt_op_register(runtime, &turn));
  expect_ok(dt_op_register(runtime, &twice));
}

// One takes a view, one the argument as it lies, one its own result's memory.
static dt_status_t op_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t x = dt_transpose(t, in[0], 0, 1), w = weight(t, closure, NARROW), results[2];
  dt_op_call(t, "test.turn", 1, &x, 0, NULL, 2, results);
  out[0] = dt_cumsum(t, results[0], 0, DT_CUMSUM_INCLUSIVE);
  dt_op_call(t, "test.turn", 1, in, 0, NULL, 2, results);
  out[1] = results[0];
  dt_op_call(t, "test.turn", 1, &w, 0, NULL, 2, results);
  out[2] = results[1];
  x = dt_add(t, in[0], out[0]);
  dt_op_call(t, "test.double", 1, &x, 0, NULL, 1, results);
  out[3] = results[0];
  return NULL;
}

// ---- All of them ----------------------------------------------------------------------------------

static const dt_dim_decl_t dims[] = {{.name = "rows"}, {.is_static = true, .value = HOST_COLUMNS}};
static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 2, .dims = dims},
                                         {.name = "k", .dtype = DT_I64, .rank = 0}};

const subject_t host_programs[HOST_PROGRAMS] = {{"cond", cond_program, 2, 1, inputs},
                                                {"while", while_program, 2, 2, inputs},
                                                {"subgraph", subgraph_program, 2, 1, inputs},
                                                {"selected", selected_program, 2, 3, inputs},
                                                {"repeated", repeated_program, 2, 2, inputs},
                                                {"scan", scan_program, 2, 4, inputs},
                                                {"sort", sort_program, 2, 4, inputs},
                                                {"recurrent", recurrent_program, 2, 2, inputs},
                                                {"conv", conv_program, 2, 2, inputs},
                                                {"product", product_program, 2, 3, inputs},
                                                {"reduce", reduce_program, 2, 4, inputs},
                                                {"cast", cast_program, 2, 4, inputs},
                                                {"places", places_program, 2, 3, inputs},
                                                {"update", update_program, 2, 1, inputs},
                                                {"op", op_program, 2, 4, inputs}};

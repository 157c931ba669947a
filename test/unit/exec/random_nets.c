// SPDX-License-Identifier: Apache-2.0
#include "test/unit/exec/random_nets.h"

#include "runtime/base/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- Parts of networks ----------------------------------------------------------------------------

static int64_t pick(random_net_t *net, const int64_t *values, size_t n) {
  return values[rng_between(&net->rng, 0, (int64_t)n - 1)];
}
#define PICK(net, ...)                                                                             \
  pick(net, (const int64_t[]){__VA_ARGS__},                                                        \
       sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

// Rounded where they are made, or in the program.
static dt_tensor_t *as_halves(dt_dtype_t dtype, dt_tensor_t *numbers) {
  dt_tensor_t *made = tensor_empty(dtype, 4, dt_tensor_sizes(numbers));
  const float *from = dt_tensor_data(numbers);
  for (int64_t i = 0; i < dt_tensor_count(made); i++)
    if (dtype == DT_F16)
      ((dt_f16_t *)dt_tensor_data(made))[i] = dt__f16_round(from[i]);
    else
      ((dt_bf16_t *)dt_tensor_data(made))[i] = dt__bf16_round(from[i]);
  RELEASE(numbers);
  return made;
}

// The same numbers in every trace of the network.
static dt_value_t constant(dt_trace_t *t, random_net_t *net, const int64_t sizes[4], double scale) {
  uint32_t k = net->n_constants++;
  assert_true(k < RANDOM_NET_CONSTANTS);
  if (k == net->n_made) {
    rng_t rng = {net->seed * 1000 + k};
    net->constants[net->n_made++] = tensor_f32(&rng, 4, sizes);
    float *data = dt_tensor_data(net->constants[k]);
    for (int64_t i = 0; i < dt_tensor_count(net->constants[k]); i++)
      data[i] *= (float)scale;
    if (net->dtype != DT_F32 && k % 4)
      net->constants[k] = as_halves(net->dtype, net->constants[k]);
  }
  char name[16];
  snprintf(name, sizeof name, "w%u", k);
  return dt_cast(t, dt_constant(t, name, net->constants[k]), net->dtype);
}

typedef struct image_t {
  dt_value_t v;
  int64_t channels;
} image_t;

static dt_value_t row(dt_trace_t *t, random_net_t *net, image_t x) {
  return constant(t, net, SIZES(1, x.channels, 1, 1), 1);
}

typedef struct shape_t {
  int64_t rows, kernel, stride, dilation, groups;
} shape_t;

// Padded so that there is a place for every size, and by one more where the network likes.
static image_t convolved(dt_trace_t *t, random_net_t *net, image_t x, shape_t shape, bool same) {
  dt_window_t windows[2];
  int64_t channels = x.channels / shape.groups;
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    int64_t reach = shape.dilation * (shape.kernel - 1);
    int64_t more = same ? 0 : rng_between(&net->rng, 0, 1);
    windows[d].stride = dt_sym_const(t, shape.stride);
    windows[d].dilation = dt_sym_const(t, shape.dilation);
    windows[d].low = dt_sym_const(t, reach / 2);
    windows[d].high = dt_sym_const(t, reach - reach / 2 + more);
  }
  double scale = 1 / sqrt((double)(channels * shape.kernel * shape.kernel));
  dt_value_t w = constant(t, net, SIZES(shape.rows, channels, shape.kernel, shape.kernel), scale);
  return (image_t){dt_conv(t, x.v, w, windows, shape.groups), shape.rows};
}

static image_t dense(dt_trace_t *t, random_net_t *net, image_t x) {
  shape_t shape = {.rows = PICK(net, 16, 17, 24, 40, 64, 5),
                   .kernel = PICK(net, 1, 3, 3, 2),
                   .stride = PICK(net, 1, 1, 2, 3),
                   .dilation = PICK(net, 1, 1, 2),
                   .groups = 1};
  x = convolved(t, net, x, shape, false);
  x.v = dt_add(t, x.v, row(t, net, x));
  return x;
}

static image_t depthwise(dt_trace_t *t, random_net_t *net, image_t x) {
  shape_t shape = {.rows = x.channels * (x.channels < 40 ? PICK(net, 1, 1, 2) : 1),
                   .kernel = PICK(net, 3, 3, 5, 7),
                   .stride = PICK(net, 1, 1, 2),
                   .dilation = PICK(net, 1, 1, 2),
                   .groups = x.channels};
  x = convolved(t, net, x, shape, false);
  x.v = dt_relu(t, x.v);
  return x;
}

static image_t grouped(dt_trace_t *t, random_net_t *net, image_t x) {
  int64_t groups = x.channels % 2 ? 1 : 2;
  shape_t shape = {.rows = groups * PICK(net, 3, 16, 20), .kernel = 3, .groups = groups};
  shape.stride = shape.dilation = 1;
  return convolved(t, net, x, shape, false);
}

static image_t residual(dt_trace_t *t, random_net_t *net, image_t x) {
  shape_t shape = {.rows = x.channels, .kernel = 3, .stride = 1, .dilation = 1, .groups = 1};
  image_t y = convolved(t, net, x, shape, true);
  y.v = dt_relu(t, y.v);
  shape.kernel = 1;
  y = convolved(t, net, y, shape, true);
  y.v = dt_relu(t, dt_add(t, y.v, x.v));
  return y;
}

// Each channel times what all places of all channels say.
static image_t gated(dt_trace_t *t, random_net_t *net, image_t x) {
  shape_t shape = {.rows = 16, .kernel = 1, .stride = 1, .dilation = 1, .groups = 1};
  image_t mean = {dt_mean(t, x.v, 2, (const int32_t[]){2, 3}, true), x.channels};
  mean = convolved(t, net, mean, shape, true);
  mean.v = dt_relu(t, mean.v);
  shape.rows = x.channels;
  mean = convolved(t, net, mean, shape, true);
  x.v = dt_mul(t, x.v, dt_sigmoid(t, mean.v));
  return x;
}

static image_t pooled(dt_trace_t *t, random_net_t *net, image_t x) {
  dt_window_t windows[2];
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++) {
    windows[d].size = dt_sym_const(t, 3);
    windows[d].stride = dt_sym_const(t, PICK(net, 1, 2));
    windows[d].low = windows[d].high = dt_sym_const(t, 1);
  }
  x.v = PICK(net, 0, 1) ? dt_max_pool(t, x.v, windows, 0, NULL) : dt_avg_pool(t, x.v, windows, 0);
  return x;
}

static image_t joined(dt_trace_t *t, random_net_t *net, image_t x) {
  shape_t shape = {.rows = PICK(net, 16, 8), .kernel = 3, .stride = 1, .dilation = 1, .groups = 1};
  image_t y = convolved(t, net, x, shape, true);
  return (image_t){dt_concat(t, 2, (const dt_value_t[]){x.v, y.v}, 1), x.channels + y.channels};
}

static image_t scaled(dt_trace_t *t, random_net_t *net, image_t x) {
  x.v = dt_add(t, dt_mul(t, x.v, row(t, net, x)), row(t, net, x));
  x.v = dt_mul(t, x.v, dt_sigmoid(t, x.v));
  return x;
}

// So many groups that each has as many channels: one, several, or one channel each.
static int64_t pick_groups(random_net_t *net, int64_t channels) {
  int64_t groups = PICK(net, 1, 2, 4, 8, channels / 2, channels);
  return groups > 0 && channels % groups == 0 ? groups : 1;
}

// [1, rows, 1, …] of that rank.
static dt_value_t beside(dt_trace_t *t, random_net_t *net, int64_t rows, uint32_t rank) {
  dt_sym_t sizes[5];
  for (uint32_t d = 0; d < rank; d++)
    sizes[d] = dt_sym_const(t, d == 1 ? rows : 1);
  return dt_reshape(t, constant(t, net, SIZES(1, rows, 1, 1), 1), rank, sizes);
}

// Over all channels and places of a group, by a reshape: as [n, groups, all], or with channels and
// places apart; with a mean taken away or not; with a scale and a bias for each group or not.
static image_t normed(dt_trace_t *t, random_net_t *net, image_t x) {
  int64_t groups = pick_groups(net, x.channels), each = x.channels / groups;
  const dt_sym_t all[4] = {dt_dim(t, x.v, 0), dt_dim(t, x.v, 1), dt_dim(t, x.v, 2),
                           dt_dim(t, x.v, 3)};
  dt_sym_t places = dt_sym_mul(t, all[2], all[3]);
  const dt_sym_t joined[3] = {all[0], dt_sym_const(t, groups),
                              dt_sym_mul(t, dt_sym_const(t, each), places)};
  const dt_sym_t apart[5] = {all[0], joined[1], dt_sym_const(t, each), all[2], all[3]};
  static const int32_t axes[3] = {2, 3, 4};
  uint32_t rank = (uint32_t)PICK(net, 3, 3, 5), n_axes = rank - 2;
  dt_value_t y = dt_reshape(t, x.v, rank, rank == 3 ? joined : apart);
  if (PICK(net, 0, 1, 1))
    y = dt_sub(t, y, dt_mean(t, y, n_axes, axes, true));
  dt_value_t square = dt_mean(t, dt_mul(t, y, y), n_axes, axes, true);
  y = dt_mul(t, y, dt_rsqrt(t, dt_add(t, square, dt_full(t, net->dtype, 1e-2, 0, NULL))));
  if (PICK(net, 0, 1))
    y = dt_add(t, dt_mul(t, y, beside(t, net, groups, rank)), beside(t, net, groups, rank));
  x.v = dt_reshape(t, y, 4, all);
  return PICK(net, 0, 1) ? scaled(t, net, x) : x;
}

// Windows that lie side by side, overlap, or leave gaps.
static image_t transposed(dt_trace_t *t, random_net_t *net, image_t x) {
  static const int64_t ways[][2] = {{2, 2}, {2, 2}, {3, 2}, {2, 3}, {1, 1}};
  const int64_t *way = ways[PICK(net, 0, 1, 2, 3, 4)];
  dt_window_t windows[2];
  int64_t rows = PICK(net, 16, 16, 24, 5);
  memset(windows, 0, sizeof windows);
  for (int d = 0; d < 2; d++)
    windows[d].stride = dt_sym_const(t, way[1]);
  double scale = 1 / sqrt((double)x.channels);
  dt_value_t w = constant(t, net, SIZES(x.channels, rows, way[0], way[0]), scale);
  x = (image_t){dt_conv_transpose(t, x.v, w, windows, 1), rows};
  x.v = dt_add(t, x.v, row(t, net, x));
  return x;
}

static image_t viewed(dt_trace_t *t, random_net_t *net, image_t x) {
  dt_sym_t one = dt_sym_const(t, 1), zero = dt_sym_const(t, 0);
  const dt_sym_t low[4] = {zero, zero, one, zero}, high[4] = {zero, zero, zero, one};
  x.v = PICK(net, 0, 1) ? dt_transpose(t, x.v, 2, 3) : dt_pad(t, x.v, low, high, 1.5);
  return x;
}

typedef image_t (*part_t)(dt_trace_t *t, random_net_t *net, image_t x);
static const part_t parts[] = {dense,  dense,  depthwise, grouped, residual, gated,
                               pooled, joined, scaled,    normed,  viewed};

// As diffusion models and U-Nets have them.
static const part_t norm_parts[] = {dense,      dense,  normed, normed, residual,
                                    transposed, joined, scaled, gated,  depthwise};

dt_status_t random_net(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  random_net_t *net = closure;
  const part_t *from = net->norms ? norm_parts : parts;
  int64_t most = (int64_t)(net->norms ? sizeof norm_parts : sizeof parts) / (int64_t)sizeof *parts;
  image_t x = {in[0], net->channels};
  net->rng = (rng_t){net->seed};
  net->n_constants = 0;
  x = dense(t, net, x);
  for (uint32_t k = 0; k < net->steps; k++)
    x = from[rng_between(&net->rng, 0, most - 1)](t, net, x);
  out[0] = dt_cast(t, x.v, DT_F32);
  return NULL;
}

dt_function_t *random_net_function(fixture_t *fixture, random_net_t *net, dt_answer_t answer) {
  const dt_dim_decl_t dims[4] = {
      {.name = "n"}, {.is_static = true, .value = net->channels}, {.name = "h"}, {.name = "w"}};
  const dt_input_decl_t input = {.name = "x", .dtype = net->dtype, .rank = 4, .dims = dims};
  dt_function_options_t options = options_of(1, &input);
  options.answer = answer;
  return function_of(fixture, random_net, net, &options);
}

// Rows of elements with gaps between them, where `gap` is not 0; with some values that are no
// numbers, where `odd`.
dt_tensor_t *random_image(rng_t *rng, dt_dtype_t dtype, const int64_t sizes[4], int64_t gap,
                          bool odd, dt_tensor_t **base) {
  const int64_t wide[4] = {sizes[0], sizes[1], sizes[2], sizes[3] + gap};
  *base = tensor_f32(rng, 4, wide);
  float *data = dt_tensor_data(*base);
  int64_t count = dt_tensor_count(*base);
  static const float values[] = {NAN, INFINITY, -INFINITY};
  for (int k = 0; odd && k < 3; k++)
    data[rng_between(rng, 0, count - 1)] = values[k];
  if (dtype != DT_F32)
    *base = as_halves(dtype, *base);
  return tensor_over(dtype, 4, sizes, dt_tensor_strides(*base), dt_tensor_data(*base));
}

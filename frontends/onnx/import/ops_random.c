// SPDX-License-Identifier: Apache-2.0
// Operators that draw random numbers, and Dropout in training (docs/onnx.md, "Random numbers").
//
// A node with a seed of its own has the key that the seed gives, and offset 0. Others have the
// function's seed, and an offset that is a hash of their output's name. In loops each trip has a
// key of its own, made of the key outside and the trip's index.
#include "frontends/onnx/import/compute.h"
#include "frontends/onnx/import/walk.h"

#include <string.h>

// ---- Keys -------------------------------------------------------------------------------------------
typedef struct source_t {
  dt_value_t seed, offset;
} source_t;

#define EXACT_BITS 52 // of a hash that is given as a literal

static dt_value_t literal(dt_imp_node_t *n, uint64_t value) {
  dt_value_t low = dt_scalar(n->t, DT_U64, (double)(uint32_t)value);
  dt_value_t high = dt_scalar(n->t, DT_U64, (double)(value >> 32));
  if (value >> 32 == 0)
    return low;
  return dt_bit_or(n->t, dt_shift_left(n->t, high, dt_scalar(n->t, DT_U64, 32)), low);
}

// A seed that the node has itself, as Dropout's integer or as the others' float: its bits, above
// those of integers that people take.
static bool own_seed(dt_imp_node_t *n, uint64_t *out) {
  const dt_onnx_attribute_t *attr = dt__imp_find_attr(n->frame, n->node, "seed");
  if (!attr)
    return false;
  if (attr->type == DT_ONNX_ATTR_INT) {
    *out = (uint64_t)attr->i;
    return true;
  }
  float seed = (float)dt__imp_float(n, "seed", 0);
  uint32_t bits = 0;
  memcpy(&bits, &seed, sizeof(bits));
  *out = ((uint64_t)1 << 32) | bits;
  return true;
}

static source_t source_of(dt_imp_node_t *n) {
  const dt_imp_t *imp = n->imp;
  uint64_t own = 0,
           place = (imp->place ^ imp->place >> EXACT_BITS) & (((uint64_t)1 << EXACT_BITS) - 1);
  bool is_own = own_seed(n, &own);
  source_t s = {.offset = literal(n, is_own ? 0 : place)};
  if (is_own)
    s.seed = literal(n, own);
  else
    s.seed = imp->seed.id ? dt_cast(n->t, imp->seed, DT_U64) : literal(n, imp->model->seed);
  dt_value_t apart = dt_bit_not(n->t, literal(n, 0)); // an offset that no draw has
  for (uint32_t k = 0; k < imp->trips.len; k++)
    s.seed = dt_philox(n->t, s.seed, apart, dt_cast(n->t, imp->trips.items[k], DT_U64));
  return s;
}

// ---- Uniform, normal --------------------------------------------------------------------------------
const char *dt__imp_check_RandomLike(dt_imp_node_t *n) {
  dt_dtype_t dtype = dt__imp_attr_dtype(n, "dtype", DT_F32);
  return dt__imp_is_float(dtype) ? NULL : "random numbers of an element type that is no float";
}

const char *dt__imp_check_Random(dt_imp_node_t *n) {
  return dt__imp_has_attr(n, "shape") ? dt__imp_check_RandomLike(n)
                                      : "attribute \"shape\" is missing";
}

typedef struct shape_t {
  dt_dtype_t dtype;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];
} shape_t;

static bool shape_of(dt_imp_node_t *n, shape_t *out) {
  dt_imp_ints_t ints;
  *out = (shape_t){.dtype = dt__imp_attr_dtype(n, "dtype", DT_F32)};
  if (!dt__imp_attr_ints(n, "shape", &ints) || dt__imp_failed(n))
    return false;
  if (ints.len > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_LIMIT, "attribute \"shape\" has %u sizes; the most is %d", ints.len,
                 DT_MAX_RANK);
    return false;
  }
  out->rank = ints.len;
  for (uint32_t k = 0; k < ints.len; k++)
    out->sizes[k] = dt_sym_const(n->t, ints.items[k]);
  return !dt__imp_failed(n);
}

static bool shape_like(dt_imp_node_t *n, shape_t *out) {
  dt_value_t x = dt__imp_in(n, 0);
  *out = (shape_t){.dtype = dt__imp_attr_dtype(n, "dtype", dt__imp_dtype(n, 0)),
                   .rank = dt__imp_rank(n, 0)};
  dt__imp_sizes(n, x, out->sizes);
  if (!dt__imp_failed(n) && !dt__imp_is_float(out->dtype))
    dt__imp_fail(n, DT_E_UNSUPPORTED,
                 "random numbers of %s; give attribute \"dtype\" a float's element type",
                 dt_dtype_name(out->dtype));
  return !dt__imp_failed(n);
}

// Numbers times `scale` plus `shift`, of which halves are rounded once.
static void put_scaled(dt_imp_node_t *n, dt_value_t x, double scale, double shift,
                       dt_dtype_t dtype) {
  dt_dtype_t wide = dt_value_dtype(n->t, x);
  x = dt_mul(n->t, x, dt_scalar(n->t, wide, scale));
  dt__imp_out_as(n, 0, dt_add(n->t, x, dt_scalar(n->t, wide, shift)), dtype);
}

static dt_dtype_t wide_of(dt_dtype_t dtype) { return dtype == DT_F64 ? DT_F64 : DT_F32; }

static void put_uniform(dt_imp_node_t *n, const shape_t *shape) {
  double low = dt__imp_float(n, "low", 0), high = dt__imp_float(n, "high", 1);
  source_t s = source_of(n);
  dt_value_t x =
      dt_random_uniform(n->t, wide_of(shape->dtype), s.seed, s.offset, shape->rank, shape->sizes);
  put_scaled(n, x, high - low, low, shape->dtype);
}

static void put_normal(dt_imp_node_t *n, const shape_t *shape) {
  double mean = dt__imp_float(n, "mean", 0), scale = dt__imp_float(n, "scale", 1);
  source_t s = source_of(n);
  dt_value_t x =
      dt_random_normal(n->t, wide_of(shape->dtype), s.seed, s.offset, shape->rank, shape->sizes);
  put_scaled(n, x, scale, mean, shape->dtype);
}

#define DRAW(name, size, put)                                                                      \
  void dt__imp_make_##name(dt_imp_node_t *n) {                                                     \
    shape_t shape;                                                                                 \
    if (size(n, &shape))                                                                           \
      put(n, &shape);                                                                              \
  }
DRAW(RandomUniform, shape_of, put_uniform)
DRAW(RandomUniformLike, shape_like, put_uniform)
DRAW(RandomNormal, shape_of, put_normal)
DRAW(RandomNormalLike, shape_like, put_normal)

// ---- Bernoulli, Multinomial -------------------------------------------------------------------------
void dt__imp_make_Bernoulli(dt_imp_node_t *n) {
  source_t s = source_of(n);
  dt_dtype_t dtype = dt__imp_attr_dtype(n, "dtype", dt__imp_dtype(n, 0));
  dt__imp_out_as(n, 0, dt_bernoulli(n->t, s.seed, s.offset, dt__imp_in(n, 0)), dtype);
}

const char *dt__imp_check_Multinomial(dt_imp_node_t *n) {
  dt_dtype_t dtype = dt__imp_attr_dtype(n, "dtype", DT_I32);
  return dtype == DT_I32 || dtype == DT_I64 ? NULL : "classes that are neither int32 nor int64";
}

// The class of a sample is the number of classes whose cumulative weight is not above a uniform
// number times all weights. It is compared with the sum of all, too: then a class of weight 0 is
// never drawn, however the product is rounded. Weights are summed in f64.
void dt__imp_make_Multinomial(dt_imp_node_t *n) {
  dt_trace_t *t = n->t;
  const int32_t last = -1;
  if (dt__imp_rank(n, 0) != 2) {
    dt__imp_fail(n, DT_E_FORMAT, "the input has rank %u; expected [batch, classes]",
                 dt__imp_rank(n, 0));
    return;
  }
  source_t s = source_of(n);
  dt_value_t x = dt_cast(t, dt__imp_in(n, 0), DT_F64);
  dt_value_t weights = dt_exp(t, dt_sub(t, x, dt_amax(t, x, 1, &last, true)));
  dt_value_t sums = dt_cumsum(t, weights, 1, 0);
  dt_sym_t one = dt_sym_const(t, 1), classes = dt__imp_size(n, 0, 1);
  dt_value_t all = dt_slice(t, sums, 1, dt_sym_sub(t, classes, one), one, 1); // [batch, 1]
  const dt_sym_t sizes[2] = {dt__imp_size(n, 0, 0),
                             dt_sym_const(t, dt__imp_int(n, "sample_size", 1))};
  dt_value_t u = dt_random_uniform(t, DT_F64, s.seed, s.offset, 2, sizes);
  dt_value_t until = dt_unsqueeze(t, dt_mul(t, u, all), 2);
  dt_value_t below = dt_le(t, dt_unsqueeze(t, sums, 1), until);
  below = dt_logical_and(t, below, dt_unsqueeze(t, dt_lt(t, sums, all), 1));
  dt_value_t found = dt_sum(t, dt_cast(t, below, DT_I64), 1, &last, false);
  dt__imp_out_as(n, 0, found, dt__imp_attr_dtype(n, "dtype", DT_I32));
}

// ---- Dropout ----------------------------------------------------------------------------------------
// Whether nothing is dropped: not in training, or a ratio that is a literal 0.
static bool keeps_all(dt_imp_node_t *n, dt_sym_t training) {
  dt_imp_reals_t ratio;
  dt_sym_t still = dt_sym_not(n->t, training);
  bool known = false;
  if (dt_sym_known(n->t, still, &known) ? known : dt_sym_guard_or(n->t, still, false))
    return true;
  return dt__imp_reals(n, 1, &ratio) && ratio.len == 1 && ratio.items[0] == 0;
}

static void keep_all(dt_imp_node_t *n) {
  dt_sym_t sizes[DT_MAX_RANK];
  dt__imp_out_val(n, 0, dt__imp_val(n, 0));
  if (!dt__imp_wants(n, 1) || dt__imp_failed(n))
    return;
  dt__imp_sizes(n, dt__imp_in(n, 0), sizes);
  dt_dtype_t mask = n->opset < 10 ? dt__imp_dtype(n, 0) : DT_BOOL;
  dt__imp_out(n, 1, dt_full(n->t, mask, 1, dt__imp_rank(n, 0), sizes));
}

void dt__imp_make_Dropout(dt_imp_node_t *n) {
  dt_sym_t training = dt__imp_sym(n, 2, 0);
  dt_value_t mask;
  if (keeps_all(n, training)) {
    keep_all(n);
    return;
  }
  source_t s = source_of(n);
  dt_value_t ratio =
      dt__imp_has(n, 1) ? dt__imp_scalar(n, dt__imp_in(n, 1)) : dt_scalar(n->t, DT_F32, 0.5);
  bool known = false;
  if (!dt_sym_known(n->t, training, &known)) { // data decide: without training the ratio is 0
    dt_value_t is_on = dt_cast(n->t, dt_size_value(n->t, training), DT_BOOL);
    dt_value_t none = dt_scalar(n->t, dt_value_dtype(n->t, ratio), 0);
    ratio = dt_where(n->t, is_on, ratio, none);
  }
  dt__imp_out(n, 0, dt_dropout(n->t, s.seed, s.offset, dt__imp_in(n, 0), ratio, &mask));
  if (dt__imp_wants(n, 1))
    dt__imp_out(n, 1, mask);
}

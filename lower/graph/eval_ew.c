// SPDX-License-Identifier: Apache-2.0
// Evaluation of element-wise ops. Activations follow their closed forms, in the shape that loses no
// digits; what an implementation by simpler ops loses is in their bounds.
#include "lower/graph/eval_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <math.h>

static dt_status_t check_counts(const dt_eval_t *e, const dt_node_t *node,
                                const dt_eval_value_t *out) {
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    for (uint32_t dim = 0; dim < out->rank; dim++) {
      if (dt__eval_in(e, node, k)->sizes[dim] != out->sizes[dim])
        return dt__eval_misfit(node, "sizes differ");
    }
  }
  return NULL;
}

dt_status_t dt__eval_ew(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  DT_TRY(check_counts(e, node, out));
  const dt_eval_value_t *in[3] = {NULL, NULL, NULL};
  for (uint32_t k = 0; k < node->n_inputs && k < 3; k++)
    in[k] = dt__eval_in(e, node, k);
  dt_dtype_t dtype = in[node->n_inputs - 1]->dtype; // where's first operand is the odd one
  dt_scalar_op_t op = dt__op_info(node->op)->scalar;
  for (int64_t i = 0; i < out->count; i++) {
    if (e->bounds) {
      dt_approx_t args[3];
      for (uint32_t k = 0; k < node->n_inputs; k++)
        args[k] = dt__eval_at(in[k], i);
      dt__eval_put(out, i, dt__approx_scalar(op, dtype, args));
    } else {
      dt_scalar_t args[3];
      for (uint32_t k = 0; k < node->n_inputs; k++)
        args[k] = in[k]->data[i];
      out->data[i] = dt__scalar_eval(op, dtype, args);
    }
  }
  return NULL;
}

dt_status_t dt__eval_cast(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  DT_TRY(check_counts(e, node, out));
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  bool low = dt__dtype_is_low(out->dtype) && dt__dtype_is_float(out->dtype);
  for (int64_t i = 0; i < out->count; i++) {
    dt_approx_t x = dt__eval_at(in, i);
    dt__eval_put(out, i,
                 low ? dt__approx_cast_low(in->dtype, out->dtype, node->attrs->mode, x)
                     : dt__approx_cast(in->dtype, out->dtype, x));
  }
  return NULL;
}

// The bits of a number that is not known to the last one may be anything.
dt_status_t dt__eval_bitcast(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  DT_TRY(check_counts(e, node, out));
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  for (int64_t i = 0; i < out->count; i++) {
    dt_approx_t x = dt__eval_at(in, i);
    x.v = dt__scalar_bits(in->dtype, out->dtype, x.v);
    x.b = x.b > 0.0 ? INFINITY : 0.0;
    dt__eval_put(out, i, x);
  }
  return NULL;
}

dt_status_t dt__eval_relu(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  DT_TRY(check_counts(e, node, out));
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  // The zero of the union is 0 for floats and integers.
  const dt_approx_t zero = {.v = {.i = 0}, .b = 0.0};
  for (int64_t i = 0; i < out->count; i++)
    dt__eval_put(out, i, dt__approx_2(DT_SCALAR_maximum, out->dtype, dt__eval_at(in, i), zero));
  return NULL;
}

// x times a factor in [0, 1] of x. The product's slope is at most `slope` anywhere; implementations
// compute the factor with an absolute error of a few u, so the error is a few u of x.
static dt_status_t gated(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out,
                         double (*fn)(double x), double slope) {
  DT_TRY(check_counts(e, node, out));
  const dt_eval_value_t *in = dt__eval_in(e, node, 0);
  double u = dt__approx_unit(out->dtype), normal = dt__approx_normal(out->dtype);
  for (int64_t i = 0; i < out->count; i++) {
    dt_approx_t x = dt__eval_at(in, i);
    double size = isfinite(x.v.f) ? fabs(x.v.f) + x.b : 0.0;
    dt__eval_put(out, i,
                 dt__approx_rounded(out->dtype, fn(x.v.f), slope * x.b + 8 * u * size, 1,
                                    normal * (size + 1)));
  }
  return NULL;
}

static double silu(double x) { return x / (1.0 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }
static double gelu_tanh(double x) {
  // (1 + tanh z) / 2 is the sigmoid of 2 z.
  double z = M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x);
  return x * (1.0 / (1.0 + exp(-2.0 * z)));
}

dt_status_t dt__eval_silu(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return gated(e, node, out, silu, 1.1);
}

dt_status_t dt__eval_gelu(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return gated(e, node, out, gelu, 1.13);
}

dt_status_t dt__eval_gelu_tanh(const dt_eval_t *e, const dt_node_t *node, dt_eval_value_t *out) {
  return gated(e, node, out, gelu_tanh, 1.13);
}

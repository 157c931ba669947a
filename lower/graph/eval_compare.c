// SPDX-License-Identifier: Apache-2.0
// Comparison of an implementation's results with the evaluator's.
#include "lower/graph/eval_compare.h"

#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"

#include <math.h>

// The distance from |value| to the next number of `dtype`, `value` being one.
static double last_place(dt_dtype_t dtype, double value) {
  double size = fabs(value);
  if (dt__dtype_is_half(dtype)) {
    uint16_t bits = 0; // the next number has the next bits
    dt__scalar_store(dtype, &bits, (dt_scalar_t){.f = size});
    bits++;
    return dt__scalar_load(dtype, &bits).f - size;
  }
  if (dtype == DT_F32)
    return (double)nextafterf((float)size, INFINITY) - (double)(float)size;
  return nextafter(size, INFINITY) - size;
}

static double rounded(dt_dtype_t dtype, double value) {
  return dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = value}).f;
}

// Whether `got` may stand for `expected`; *out_ratio is how much of the allowance it takes.
static bool float_close(dt_dtype_t dtype, double expected, double got, double allowed,
                        double *out_ratio) {
  *out_ratio = 0.0;
  if (isnan(expected) || isnan(got))
    return isnan(expected) && isnan(got);
  double near = rounded(dtype, expected);
  if (got == near)
    return true;
  if (isinf(expected))
    return false;
  if (isinf(got))
    return got == rounded(dtype, expected + copysign(allowed, got));
  if (!isinf(near))
    allowed += last_place(dtype, near);
  double difference = fabs(expected - got);
  *out_ratio = allowed > 0.0 ? difference / allowed : INFINITY;
  return difference <= allowed;
}

bool dt__eval_compare(const dt_eval_value_t *expected, const void *got,
                      const dt_eval_tolerance_t *tolerance, dt_eval_report_t *out) {
  *out = (dt_eval_report_t){.index = -1};
  dt_dtype_t dtype = expected->dtype;
  for (int64_t k = 0; k < expected->count; k++) {
    dt_scalar_t want = expected->data[k];
    dt_scalar_t have = dt__element_load(dtype, got, dt__eval_row(expected), k);
    double bound = expected->bound ? expected->bound[k] : 0.0;
    if (isinf(bound)) {
      out->uncertain++;
      continue;
    }
    out->compared++;
    bool good = want.i == have.i;
    if (dt__dtype_is_float(dtype)) {
      double ratio = 0.0;
      if (tolerance && isfinite(want.f))
        bound += tolerance->atol + tolerance->rtol * fabs(want.f);
      good = float_close(dtype, want.f, have.f, bound, &ratio);
      out->worst = fmax(out->worst, ratio);
    } else if (dt__dtype_is_bool(dtype)) {
      // A bool is the byte 0 or 1; any other is wrong even though it reads as true.
      good = (int64_t)((const uint8_t *)got)[k] == want.i;
    }
    if (good)
      continue;
    if (out->wrong++ == 0) {
      out->index = k;
      out->expected = want;
      out->got = have;
      out->bound = bound;
    }
  }
  return out->wrong == 0;
}

void dt__eval_report_print(const dt_eval_value_t *expected, const dt_eval_report_t *report,
                           dt_text_t *out) {
  if (report->wrong && dt__dtype_is_float(expected->dtype))
    dt__text_printf(out, "element %lld: expected %.17g, got %.17g (allowed %g); ",
                    (long long)report->index, report->expected.f, report->got.f, report->bound);
  else if (report->wrong)
    dt__text_printf(out, "element %lld: expected %lld, got %lld; ", (long long)report->index,
                    (long long)report->expected.i, (long long)report->got.i);
  dt__text_printf(out, "%lld wrong, %lld compared, %lld uncertain, worst ratio %.3g",
                  (long long)report->wrong, (long long)report->compared,
                  (long long)report->uncertain, report->worst);
}

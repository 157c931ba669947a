// SPDX-License-Identifier: Apache-2.0
#include "test/unit/frontends/attention_reference.h"

#include <math.h>

enum { MOST_KEYS = 64 };

// One row of scores, of which the greatest is returned.
static double scores_of(const attention_reference_t *a, int64_t b, int64_t h, int64_t row,
                        double *scores) {
  double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)a->head), most = -INFINITY;
  const double *q = a->q + ((b * a->heads + h) * a->length + row) * a->head;
  const double *k = a->k + (b * a->shared + h / (a->heads / a->shared)) * a->total * a->head;
  for (int64_t t = 0; t < a->total; t++) {
    double sum = 0;
    for (int64_t i = 0; i < a->head; i++)
      sum += q[i] * k[t * a->head + i];
    sum *= scale;
    sum = a->softcap != 0 ? a->softcap * tanh(sum / a->softcap) : sum;
    scores[t] = sum + a->more[((b * a->heads + h) * a->length + row) * a->total + t];
    most = fmax(most, scores[t]);
  }
  return most;
}

void attention_reference(const attention_reference_t *a, double *out) {
  for (int64_t at = 0; at < a->batch * a->heads * a->length; at++) {
    int64_t b = at / (a->heads * a->length), h = at / a->length % a->heads, row = at % a->length;
    double scores[MOST_KEYS];
    double most = scores_of(a, b, h, row, scores);
    double sum = a->smooth ? exp(-fmax(most, 0)) : 0;
    most = a->smooth ? fmax(most, 0) : most;
    for (int64_t t = 0; t < a->total; t++) {
      scores[t] = isinf(scores[t]) ? 0 : exp(scores[t] - most);
      sum += scores[t];
    }
    const double *v =
        a->v + (b * a->shared + h / (a->heads / a->shared)) * a->total * a->value_head;
    double *to = out + ((b * a->length + row) * a->heads + h) * a->value_head;
    for (int64_t i = 0; i < a->value_head; i++) {
      to[i] = 0;
      for (int64_t t = 0; t < a->total && sum > 0; t++)
        to[i] += scores[t] / sum * v[t * a->value_head + i];
    }
  }
}

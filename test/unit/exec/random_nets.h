// SPDX-License-Identifier: Apache-2.0
// Networks of convolutions made at random: dense, grouped, depthwise and transposed ones, pools,
// norms over groups, residuals, gates, joined branches, padding and views between them. For tests
// of every device.
#ifndef DT_TESTS_UNIT_EXEC_RANDOM_NETS_H
#define DT_TESTS_UNIT_EXEC_RANDOM_NETS_H

#include "test/support/fixture.h"

enum { RANDOM_NET_CONSTANTS = 64 };

// Set the first five; release_tensors(constants, n_made) in the end.
typedef struct random_net_t {
  uint64_t seed;
  int64_t channels; // of the argument
  dt_dtype_t dtype; // F32, F16, BF16; the result is f32
  bool norms;       // most parts are norms
  uint32_t steps;   // parts after the first
  rng_t rng;        // begins anew with each trace
  dt_tensor_t *constants[RANDOM_NET_CONSTANTS];
  uint32_t n_constants; // used by this trace
  uint32_t n_made;
} random_net_t;

// x [n, channels, h, w]; n, h and w are symbols. `closure`: the net.
dt_status_t random_net(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
// A function of it, which the caller releases.
dt_function_t *random_net_function(fixture_t *fixture, random_net_t *net, dt_answer_t answer);

// An argument of these sizes with gaps of so many elements between rows, and with some values that
// are no numbers, where `odd`. It lies in *base; the caller releases both, this first.
dt_tensor_t *random_image(rng_t *rng, dt_dtype_t dtype, const int64_t sizes[4], int64_t gap,
                          bool odd, dt_tensor_t **base);

#endif // DT_TESTS_UNIT_EXEC_RANDOM_NETS_H

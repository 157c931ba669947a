// SPDX-License-Identifier: Apache-2.0
// What tests ask the fake driver, for runs of the same tests on a GPU: nothing is counted there,
// and nothing can be found wrong but by the results.
#include "test/fake_cuda/fake_cuda.h"

void fake_cuda_reset(uint64_t seed) { (void)seed; }
uint64_t fake_cuda_calls(dt_cuda_sym_t sym) {
  (void)sym;
  return 0;
}
uint32_t fake_cuda_violations(const char **out_first) {
  (void)out_first;
  return 0;
}
void fake_cuda_processors(int n) { (void)n; }

// SPDX-License-Identifier: Apache-2.0
// XXH3, compiled into this file alone so that no symbol of it is shared with the process.
#include "runtime/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t dt__hash(const void *data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

uint64_t dt__hash_mix(uint64_t a, uint64_t b) {
  uint64_t pair[2] = {a, b};
  return XXH3_64bits_withSeed(pair, sizeof(pair), 0);
}

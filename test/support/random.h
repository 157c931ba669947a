// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same in every run: where a test draws what it tries (splitmix64).
#ifndef DT_TESTS_SUPPORT_RANDOM_H
#define DT_TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

static inline uint64_t rng_step(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

typedef struct rng_t {
  uint64_t state; // at first the seed
} rng_t;

static inline uint64_t rng_next(rng_t *rng) { return rng_step(&rng->state); }
static inline uint32_t rng_below(rng_t *rng, uint32_t n) { return (uint32_t)(rng_next(rng) % n); }

// Both ends are among them.
static inline int64_t rng_between(rng_t *rng, int64_t low, int64_t high) {
  return low + (int64_t)(rng_next(rng) % (uint64_t)(high - low + 1));
}

// In [-1, 1).
static inline float rng_float(rng_t *rng) {
  return (float)((double)(rng_next(rng) >> 11) / (double)((uint64_t)1 << 52) - 1.0);
}

#endif // DT_TESTS_SUPPORT_RANDOM_H

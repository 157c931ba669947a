// SPDX-License-Identifier: Apache-2.0
// Each rate is the best of several rounds: what else runs on the machine makes rounds slower, and
// these are ceilings.
#include "runtime/exec/timing_rates.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ROUNDS 7
#define CACHE_BYTES ((size_t)128 << 10) // a thread: within the cache of a core
#define CACHE_PASSES 64
#define MEMORY_BYTES ((size_t)96 << 20) // all threads: more than the caches of cores
#define STEPS 20000
#define CHAINS 12 // that do not wait for each other: more than two units of four cycles use

typedef struct round_t {
  const char *from;
  size_t bytes; // of one thread
  int passes;
  _Atomic uint64_t sink; // what was computed, so that it is not left out
} round_t;

// ---- Bytes ------------------------------------------------------------------------------------------
typedef uint64_t words_t __attribute__((vector_size(64), aligned(64)));

#define READ_BODY                                                                                  \
  const words_t *at = (const void *)from, *end = (const void *)(from + bytes);                     \
  words_t a = {0}, b = {0}, c = {0}, d = {0};                                                      \
  for (; at + 4 <= end; at += 4) {                                                                 \
    a += at[0];                                                                                    \
    b += at[1];                                                                                    \
    c += at[2];                                                                                    \
    d += at[3];                                                                                    \
  }                                                                                                \
  a += b + c + d;                                                                                  \
  return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];

static uint64_t read_common(const char *from, size_t bytes) { READ_BODY }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_256(const char *from, size_t bytes) {
  READ_BODY
}
__attribute__((target("avx512f"))) static uint64_t read_512(const char *from, size_t bytes) {
  READ_BODY
}
#endif

typedef uint64_t (*read_fn_t)(const char *from, size_t bytes);

static read_fn_t reader(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return read_512;
  if (__builtin_cpu_supports("avx2"))
    return read_256;
#endif
  return read_common;
}

static void run_read(void *opaque, int64_t begin, int64_t end, uint32_t worker) {
  round_t *round = opaque;
  read_fn_t reads = reader();
  uint64_t sum = 0;
  (void)worker;
  for (int64_t k = begin; k < end; k++)
    for (int p = 0; p < round->passes; p++)
      sum += reads(round->from + (size_t)k * round->bytes, round->bytes);
  (void)atomic_fetch_add_explicit(&round->sink, sum, memory_order_relaxed);
}

// ---- Operations -------------------------------------------------------------------------------------
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float multiply_512(void) {
  __m512 sums[CHAINS], factor = _mm512_set1_ps(0.5f), term = _mm512_set1_ps(1.0f);
  for (int i = 0; i < CHAINS; i++)
    sums[i] = _mm512_set1_ps((float)i);
  for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
      sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  float all = 0;
  for (int i = 0; i < CHAINS; i++)
    all += _mm512_cvtss_f32(sums[i]);
  return all;
}

__attribute__((target("avx2,fma"))) static float multiply_256(void) {
  __m256 sums[CHAINS], factor = _mm256_set1_ps(0.5f), term = _mm256_set1_ps(1.0f);
  for (int i = 0; i < CHAINS; i++)
    sums[i] = _mm256_set1_ps((float)i);
  for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
      sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  float all = 0;
  for (int i = 0; i < CHAINS; i++)
    all += _mm256_cvtss_f32(sums[i]);
  return all;
}
#endif

typedef struct multiplier_t {
  float (*run)(void);
  double lanes;
} multiplier_t;

static multiplier_t multiplier(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return (multiplier_t){multiply_512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return (multiplier_t){multiply_256, 8};
#endif
  return (multiplier_t){NULL, 0};
}

static void run_multiply(void *opaque, int64_t begin, int64_t end, uint32_t worker) {
  round_t *round = opaque;
  (void)worker;
  for (int64_t k = begin; k < end; k++) {
    float all = multiplier().run();
    (void)atomic_fetch_add_explicit(&round->sink, (uint64_t)all, memory_order_relaxed);
  }
}

// ---- Measuring --------------------------------------------------------------------------------------
static double best_ns(dt_pool_t *pool, dt_range_fn_t run, round_t *round) {
  double best = 0;
  for (int k = 0; k < ROUNDS; k++) {
    int64_t begin = dt__now_ns();
    dt__pool_run(pool, dt__pool_width(pool), 1, run, round);
    double ns = (double)(dt__now_ns() - begin);
    best = best == 0 || ns < best ? ns : best;
  }
  return best > 0 ? best : 1;
}

dt_status_t dt__rates_measure(dt_pool_t *pool, dt_rates_t *out) {
  double threads = dt__pool_width(pool);
  size_t share = MEMORY_BYTES / dt__pool_width(pool) / 256 * 256;
  size_t least = CACHE_BYTES * dt__pool_width(pool);
  size_t bytes = share * dt__pool_width(pool) > least ? share * dt__pool_width(pool) : least;
  *out = (dt_rates_t){0};
  char *memory = dt__alloc_aligned(bytes, 64);
  if (!memory)
    return DT_NO_MEMORY();
  memset(memory, 1, bytes);
  round_t cache = {.from = memory, .bytes = CACHE_BYTES, .passes = CACHE_PASSES};
  round_t far = {.from = memory, .bytes = bytes / dt__pool_width(pool) / 256 * 256, .passes = 1};
  out->cache_bytes_per_s =
      1e9 * threads * (double)CACHE_BYTES * CACHE_PASSES / best_ns(pool, run_read, &cache);
  out->memory_bytes_per_s = 1e9 * threads * (double)far.bytes / best_ns(pool, run_read, &far);
  if (multiplier().run)
    out->flops_per_s = 1e9 * threads * 2 * multiplier().lanes * CHAINS * STEPS /
                       best_ns(pool, run_multiply, &cache);
  dt__free(memory);
  return NULL;
}

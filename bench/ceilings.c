// SPDX-License-Identifier: Apache-2.0
#include "bench/ceilings.h"

#include "bench/harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { ROUNDS_KEPT = 256 };
static const double shortly_ns = 0.2e9;
// Longer than a processor that is cool keeps the clock of its first instructions.
static const double sustained_ns = 2e9;

// ---- Threads that work at the same time ---------------------------------------------------------

typedef struct team_t team_t;

// One thread's share of the work.
typedef struct share_t {
  team_t *team;
  char *from, *to;
  size_t bytes;
  double round_ns[ROUNDS_KEPT]; // of the latest rounds
  long rounds;
  volatile double sink; // what was computed, so that computing it is not left out
} share_t;

struct team_t {
  void (*work)(share_t *share); // one round
  double measure_for_ns;
  _Atomic int ready; // threads that have touched their memory
  _Atomic int go;    // 1: all are ready; -1: give up
};

static void *run_share(void *argument) {
  share_t *share = argument;
  team_t *team = share->team;
  team->work(share);
  atomic_fetch_add(&team->ready, 1);
  while (!atomic_load(&team->go))
    sched_yield();
  if (atomic_load(&team->go) < 0)
    return NULL;
  double begin = bench_now_ns(), at = begin;
  while (at - begin < team->measure_for_ns) {
    double start = at;
    team->work(share);
    at = bench_now_ns();
    share->round_ns[share->rounds++ % ROUNDS_KEPT] = at - start;
  }
  return NULL;
}

// Rounds a second of all threads together, by the median round of each: like the figures that are
// compared with it, it leaves out the times when something else had the processor. 0 on failure.
static double run_team(void (*work)(share_t *), unsigned threads, share_t *shares, double for_ns) {
  team_t team = {.work = work, .measure_for_ns = for_ns};
  pthread_t ids[BENCH_MAX_THREADS];
  unsigned made = 0;
  for (; made < threads; made++) {
    shares[made].team = &team;
    if (pthread_create(&ids[made], NULL, run_share, &shares[made]))
      break;
  }
  while (made == threads && atomic_load(&team.ready) < (int)threads)
    sched_yield();
  atomic_store(&team.go, made == threads ? 1 : -1);
  double rate = 0;
  for (unsigned i = 0; i < made; i++) {
    pthread_join(ids[i], NULL);
    size_t kept = (size_t)(shares[i].rounds < ROUNDS_KEPT ? shares[i].rounds : ROUNDS_KEPT);
    if (kept)
      rate += 1e9 / bench_median(shares[i].round_ns, kept);
  }
  return made == threads ? rate : 0;
}

// ---- Multiply-adds ------------------------------------------------------------------------------

enum { CHAINS = 12, FMA_STEPS = 50000 }; // more chains than two units of four cycles can use

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void fma_512(share_t *share) {
  __m512 sums[CHAINS], factor = _mm512_set1_ps(0.5f), term = _mm512_set1_ps(1.0f);
  for (int i = 0; i < CHAINS; i++)
    sums[i] = _mm512_set1_ps((float)i);
  for (int step = 0; step < FMA_STEPS; step++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
      sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  for (int i = 0; i < CHAINS; i++)
    share->sink += (double)_mm512_reduce_add_ps(sums[i]);
}

__attribute__((target("avx2,fma"))) static void fma_256(share_t *share) {
  __m256 sums[CHAINS], factor = _mm256_set1_ps(0.5f), term = _mm256_set1_ps(1.0f);
  for (int i = 0; i < CHAINS; i++)
    sums[i] = _mm256_set1_ps((float)i);
  for (int step = 0; step < FMA_STEPS; step++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
      sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  for (int i = 0; i < CHAINS; i++)
    share->sink += (double)_mm256_cvtss_f32(sums[i]);
}
#endif

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) static void dot8_512(share_t *share) {
  __m512i sums[CHAINS], places = _mm512_set1_epi8(3), weights = _mm512_set1_epi8(-1);
  for (int i = 0; i < CHAINS; i++)
    sums[i] = _mm512_set1_epi32(i);
  for (int step = 0; step < FMA_STEPS; step++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
      sums[i] = _mm512_dpbusd_epi32(sums[i], places, weights);
  for (int i = 0; i < CHAINS; i++)
    share->sink += (double)_mm512_reduce_add_epi32(sums[i]);
}

// Without an instruction for sums of four products it takes three.
__attribute__((target("avx2"))) static void dot8_256(share_t *share) {
  __m256i sums[CHAINS], places = _mm256_set1_epi8(3), weights = _mm256_set1_epi8(-1);
  __m256i ones = _mm256_set1_epi16(1);
  for (int i = 0; i < CHAINS; i++)
    sums[i] = _mm256_set1_epi32(i);
  for (int step = 0; step < FMA_STEPS; step++)
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) {
      __m256i pairs = _mm256_maddubs_epi16(_mm256_xor_si256(places, sums[i]), weights);
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
    }
  for (int i = 0; i < CHAINS; i++)
    share->sink += (double)_mm256_extract_epi32(sums[i], 0);
}
#endif

typedef struct arithmetic_t {
  void (*work)(share_t *); // NULL: no code for this processor
  double lanes;            // products an instruction
} arithmetic_t;

static arithmetic_t fma_of_processor(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return (arithmetic_t){fma_512, 16};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return (arithmetic_t){fma_256, 8};
#endif
  return (arithmetic_t){NULL, 0};
}

static arithmetic_t dot8_of_processor(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni"))
    return (arithmetic_t){dot8_512, 64};
  if (__builtin_cpu_supports("avx2"))
    return (arithmetic_t){dot8_256, 32};
#endif
  return (arithmetic_t){NULL, 0};
}

static double arithmetic_rate(arithmetic_t what, unsigned threads, double for_ns) {
  static share_t shares[BENCH_MAX_THREADS];
  memset(shares, 0, sizeof shares);
  if (!what.work || !threads || threads > BENCH_MAX_THREADS)
    return 0;
  const double operations = 2.0 * CHAINS * FMA_STEPS * what.lanes;
  return run_team(what.work, threads, shares, for_ns) * operations * 1e-9;
}

double bench_ceiling_fma(unsigned threads) {
  return arithmetic_rate(fma_of_processor(), threads, shortly_ns);
}

double bench_sustained_fma(unsigned threads) {
  return arithmetic_rate(fma_of_processor(), threads, sustained_ns);
}

double bench_sustained_dot8(unsigned threads) {
  return arithmetic_rate(dot8_of_processor(), threads, sustained_ns);
}

// ---- Memory -------------------------------------------------------------------------------------

static void copy_slice(share_t *share) { memcpy(share->to, share->from, share->bytes); }

typedef uint64_t lanes_t __attribute__((vector_size(64)));

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void read_slice(share_t *share) {
  const lanes_t *at = (const lanes_t *)(const void *)share->from;
  lanes_t sums[4] = {{0}};
  for (size_t i = 0; i + 4 <= share->bytes / sizeof *at; i += 4) {
    sums[0] ^= at[i];
    sums[1] ^= at[i + 1];
    sums[2] ^= at[i + 2];
    sums[3] ^= at[i + 3];
  }
  share->sink += (double)(sums[0] ^ sums[1] ^ sums[2] ^ sums[3])[0];
}

// Bytes a second that pass through `work`, times `touched`.
static double memory_rate(void (*work)(share_t *), unsigned threads, size_t bytes, bool two,
                          double touched) {
  enum { ALIGN = 4096 };
  static share_t shares[BENCH_MAX_THREADS];
  memset(shares, 0, sizeof shares);
  if (!threads || threads > BENCH_MAX_THREADS)
    return 0;
  size_t slice = (bytes / threads + ALIGN - 1) / ALIGN * ALIGN;
  char *from = aligned_alloc(ALIGN, slice * threads);
  char *to = two ? aligned_alloc(ALIGN, slice * threads) : NULL;
  double rate = 0;
  if (from && (to || !two)) {
    memset(from, 1, slice * threads);
    for (unsigned i = 0; i < threads; i++) {
      shares[i].from = from + i * slice;
      shares[i].to = two ? to + i * slice : NULL;
      shares[i].bytes = slice;
    }
    rate = run_team(work, threads, shares, shortly_ns) * (double)slice * touched * 1e-9;
  }
  free(from);
  free(to);
  return rate;
}

double bench_ceiling_copy(unsigned threads, size_t bytes) {
  return memory_rate(copy_slice, threads, bytes, true, 2);
}

double bench_ceiling_read(unsigned threads, size_t bytes) {
  return memory_rate(read_slice, threads, bytes, false, 1);
}

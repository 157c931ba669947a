// SPDX-License-Identifier: Apache-2.0
// Every elementary function, compiled for this host as vector and as scalar code, against
// references of more precision. Fails where the error exceeds the bound in math_table.def or where
// vector and scalar results differ in a bit. Prints the greatest error found and its argument.
//   --cpu CPU before the others compiles for that LLVM CPU (which this host must be able to run)
//   --full NAME [STRIDE [FIRST LAST]]  all float arguments of one function (or every STRIDE-th,
//       from one bit pattern to another, in hexadecimal), as a table row
//   --asm NAME | --ptx NAME  [f64]  the machine code of one function
#include "test/support/check.h"

#include "test/support/random.h"
#include "test/unit/math/math_kernels.h"
#include "test/unit/math/math_oracle.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096, MPFR_EVERY = 1024 };

typedef struct worst_t {
  double ulp, x, y;
  uint64_t points, confirmed, split; // split: vector and scalar differ
  double split_x, split_y;
} worst_t;

// One function under test with its pending arguments.
typedef struct probe_t {
  int fn;
  bool wide;
  math_kernel_t kernel;
  uint64_t n;
  bool scalar_too;
  worst_t worst;
  union {
    float f[BATCH];
    double d[BATCH];
  } x, y, vector, scalar;
} probe_t;

static math_jit_t *jit;
static probe_t probe;
static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_bits(void) { return rng_step(&random_state); }

static bool same(const probe_t *p, uint64_t i) {
  if (p->wide)
    return !memcmp(&p->vector.d[i], &p->scalar.d[i], 8) ||
           (isnan(p->vector.d[i]) && isnan(p->scalar.d[i]));
  return !memcmp(&p->vector.f[i], &p->scalar.f[i], 4) ||
         (isnan(p->vector.f[i]) && isnan(p->scalar.f[i]));
}

static void judge(probe_t *p, uint64_t i) {
  double x = p->wide ? p->x.d[i] : (double)p->x.f[i];
  double y = p->wide ? p->y.d[i] : (double)p->y.f[i];
  double got = p->wide ? p->vector.d[i] : (double)p->vector.f[i];
  double ulp = p->wide ? math_ulp_f64(got, math_fast_f64(p->fn, x, y))
                       : math_ulp_f32(p->vector.f[i], math_fast_f32(p->fn, x, y));
  // A new greatest error counts only as MPFR sees it; a sample is always shown to MPFR.
  if (ulp > p->worst.ulp || p->worst.points % MPFR_EVERY == 0) {
    ulp = math_ulp_mpfr(p->fn, p->wide, got, x, y);
    p->worst.confirmed++;
    if (ulp > p->worst.ulp) {
      p->worst.ulp = ulp;
      p->worst.x = x;
      p->worst.y = y;
    }
  }
  p->worst.points++;
}

static void flush(probe_t *p) {
  if (!p->n)
    return;
  uint64_t padded = (p->n + MATH_BATCH_LANES - 1) / MATH_BATCH_LANES * MATH_BATCH_LANES;
  for (uint64_t i = p->n; i < padded; i++) {
    if (p->wide)
      p->x.d[i] = p->y.d[i] = 1;
    else
      p->x.f[i] = p->y.f[i] = 1;
  }
  p->kernel.vector(&p->x, &p->y, &p->vector, padded);
  if (p->scalar_too)
    p->kernel.scalar(&p->x, &p->y, &p->scalar, padded);
  for (uint64_t i = 0; i < p->n; i++) {
    judge(p, i);
    if (p->scalar_too && !same(p, i)) {
      p->worst.split++;
      p->worst.split_x = p->wide ? p->x.d[i] : (double)p->x.f[i];
      p->worst.split_y = p->wide ? p->y.d[i] : (double)p->y.f[i];
    }
  }
  p->n = 0;
}

static void add_bits(probe_t *p, uint64_t x, uint64_t y) {
  if (p->wide) {
    memcpy(&p->x.d[p->n], &x, 8);
    memcpy(&p->y.d[p->n], &y, 8);
  } else {
    uint32_t x32 = (uint32_t)x, y32 = (uint32_t)y;
    memcpy(&p->x.f[p->n], &x32, 4);
    memcpy(&p->y.f[p->n], &y32, 4);
  }
  if (++p->n == BATCH)
    flush(p);
}

static void add(probe_t *p, double x, double y) {
  uint64_t bx = 0, by = 0;
  if (p->wide) {
    memcpy(&bx, &x, 8);
    memcpy(&by, &y, 8);
  } else {
    float x32 = (float)x, y32 = (float)y;
    memcpy(&bx, &x32, 4);
    memcpy(&by, &y32, 4);
  }
  add_bits(p, bx, by);
}

static bool start(probe_t *p, int fn, bool wide) {
  memset(p, 0, sizeof *p);
  p->fn = fn;
  p->wide = wide;
  p->scalar_too = true;
  return math_jit_compile(jit, fn, wide, &p->kernel);
}

static void finish(probe_t *p) {
  flush(p);
  const math_oracle_t *oracle = math_oracle(p->fn);
  double bound = oracle->bound[p->wide];
  printf("%-8s %s  max %.3f ulp (bound %.1f) at %a", oracle->name, p->wide ? "f64" : "f32",
         p->worst.ulp, bound, p->worst.x);
  if (p->fn == MATH_POW)
    printf(", %a", p->worst.y);
  printf("; %" PRIu64 " points, %" PRIu64 " by MPFR\n", p->worst.points, p->worst.confirmed);
  if (p->worst.split)
    printf("  vector and scalar differ %" PRIu64 " times, last at %a, %a\n", p->worst.split,
           p->worst.split_x, p->worst.split_y);
}

// Mantissas around both ends of every binade, both signs: all zeros, denormals, infinities, NaN.
static uint64_t edge(bool wide, uint64_t k) {
  static const uint64_t LOW[8] = {0, 1, 2, 3, ~0ull, ~1ull, ~2ull, ~0ull / 2};
  uint32_t mantissa = wide ? 52 : 23;
  uint64_t exponent = k / 16 % (wide ? 2048 : 256), sign = k / 8 % 2;
  uint64_t low = LOW[k % 8] & (((uint64_t)1 << mantissa) - 1);
  return sign << (wide ? 63 : 31) | exponent << mantissa | low;
}

static void add_edges(probe_t *p) {
  uint64_t count = 16u * (p->wide ? 2048u : 256u);
  for (uint64_t k = 0; k < count; k++)
    add_bits(p, edge(p->wide, k), edge(p->wide, random_bits() % count));
}

// Neighbourhoods of thresholds, multiples of pi / 4, powers, and known hard arguments.
static void add_landmarks(probe_t *p) {
  static const double AT[] = {0.5,
                              1,
                              2,
                              3,
                              4,
                              6,
                              9,
                              10,
                              17,
                              18,
                              19,
                              20,
                              22,
                              40,
                              87.33,
                              88.0296918,
                              88.37,
                              88.72283,
                              89.415986,
                              103.27,
                              103.97,
                              104,
                              126,
                              127,
                              128,
                              149,
                              150,
                              151,
                              708.39,
                              709.782712893384,
                              710.4758600739439,
                              745.1332191019,
                              1022,
                              1023,
                              1024,
                              1074,
                              1075,
                              0.41421356,
                              2.41421356,
                              0x1p48,
                              0x1p52,
                              0x1p28,
                              3.9370039,
                              3.92,
                              5.92,
                              0.3465736,
                              2.0 / 3,
                              4.0 / 3};
  for (size_t k = 0; k < sizeof AT / sizeof *AT; k++)
    for (int d = -64; d <= 64; d++)
      for (int sign = -1; sign <= 1; sign += 2)
        add(p, sign * AT[k] * (1 + d * (p->wide ? 0x1p-52 : 0x1p-23)), AT[k] / 2);
  for (int k = 1; k <= 20000; k++)
    add(p, k * 0.78539816339744830962, 2.5);
  add(p, 6381956970095103.0 * 0x1p797, 0.5);
  add(p, 5319372648326541.0 * 0x1p+0, 0.5);
}

// A value of moderate size: sign, exponent in -20 .. 9.
static double moderate(void) {
  uint64_t r = random_bits();
  double m = 1 + (double)(r >> 12) * 0x1p-52;
  return ldexp(r & 1 ? m : -m, (int)(r >> 1 & 0x3ff) % 30 - 20);
}

static void check(int fn, bool wide) {
  assert_true(start(&probe, fn, wide));
  add_edges(&probe);
  add_landmarks(&probe);
  uint64_t random_count = wide ? 1u << 19 : 1u << 20;
  for (uint64_t k = 0; k < random_count; k++)
    add_bits(&probe, random_bits(), random_bits());
  if (wide) {
    for (uint64_t k = 0; k < 1000000; k++)
      add(&probe, moderate(), moderate());
    for (uint64_t k = 0; k < 600000; k++)
      add(&probe, ((double)k + 0.37) * (1500.0 / 600000) - 750, moderate());
  } else {
    for (uint64_t k = 0; k <= UINT32_MAX; k += 4099)
      add_bits(&probe, k, random_bits());
    for (uint64_t k = 0; fn == MATH_POW && k < 1000000; k++)
      add(&probe, fabs(moderate()), moderate());
  }
  finish(&probe);
  double bound = math_oracle(fn)->bound[wide];
  if (!(probe.worst.ulp <= bound))
    fail_msg("%s: %.3f ulp at %a, %a is above %.1f", math_oracle(fn)->name, probe.worst.ulp,
             probe.worst.x, probe.worst.y, bound);
  if (probe.worst.split)
    fail_msg("%s: vector and scalar differ at %a", math_oracle(fn)->name, probe.worst.split_x);
}

static void check_case(void **state) {
  uint64_t k = (uint64_t)(uintptr_t)*state;
  check((int)(k / 2), k % 2);
}

// pow's rules for each pair of special values, as libm has them (sign of zero included).
static void test_pow_specials(void **state) {
  (void)state;
  static const double V[] = {0.0,         -0.0,       1.0,   -1.0,     2.0,       -2.0,
                             3.0,         -3.0,       0.5,   -0.5,     INFINITY,  -INFINITY,
                             NAN,         1e30,       -1e30, 0x1p-149, -0x1p-149, 16777215.0,
                             -16777215.0, 16777216.0, 1.5,   -1.5};
  enum { N = sizeof V / sizeof *V };
  for (int wide = 0; wide < 2; wide++) {
    assert_true(start(&probe, MATH_POW, wide));
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++)
        add(&probe, V[i], V[j]);
    finish(&probe);
    assert_true(probe.worst.ulp <= math_oracle(MATH_POW)->bound[wide]);
  }
}

// How far ndtr is from what math.h says of it.
static void judge_ndtr(bool wide, double x, double got) {
  double want = (double)(0.5L * erfcl(-(long double)x * 0.70710678118654752440L));
  double wrong = fabs(got - want), allowed = wide ? 0x1p-51 : 0x1p-22;
  bool in_range = x >= -5.7 && x < 0;
  if (isnan(x) ? !isnan(got) : !(wrong <= allowed))
    fail_msg("ndtr of %a is %a, not %a", x, got, want);
  if (!wide && in_range && !(wrong <= 0x1p-14 * want))
    fail_msg("ndtr of %a is %a, too far from %a for its size", x, got, want);
  if (!wide && x < -5.7 && !(got >= 0 && got <= 0x1p-27))
    fail_msg("ndtr of %a is %a", x, got);
}

static void flush_ndtr(probe_t *p) {
  p->kernel.vector(&p->x, &p->y, &p->vector, BATCH);
  p->kernel.scalar(&p->x, &p->y, &p->scalar, BATCH);
  for (uint64_t i = 0; i < BATCH; i++) {
    double x = p->wide ? p->x.d[i] : (double)p->x.f[i];
    judge_ndtr(p->wide, x, p->wide ? p->vector.d[i] : (double)p->vector.f[i]);
    assert_true(same(p, i));
  }
}

// Floats of all sizes, which are all bf16 among others, and a fine grid where it is neither 0
// nor 1.
static void test_ndtr(void **state) {
  (void)state;
  for (int wide = 0; wide < 2; wide++) {
    assert_true(start(&probe, MATH_NDTR, wide));
    for (uint32_t batch = 0; batch < 512; batch++) {
      for (uint32_t i = 0; i < BATCH; i++) {
        uint32_t k = batch * BATCH + i, bits = k << 11;
        float any;
        memcpy(&any, &bits, sizeof any);
        double fine = ((double)k * 0x1p-21 - 0.5) * 30, x = batch % 2 ? fine : (double)any;
        if (wide)
          probe.x.d[i] = x;
        else
          probe.x.f[i] = (float)x;
      }
      flush_ndtr(&probe);
    }
  }
}

static int by_name(const char *name) {
  for (int fn = 0; fn < MATH_ALL; fn++)
    if (!strcmp(name, math_oracle(fn)->name))
      return fn;
  fprintf(stderr, "no function named %s\n", name);
  exit(2);
}

static int run_full(const char *name, uint64_t stride, uint64_t first, uint64_t last) {
  int fn = by_name(name);
  if (!start(&probe, fn, false) || fn == MATH_POW)
    return 2;
  for (uint64_t k = first; k <= last; k += stride)
    add_bits(&probe, k, 0);
  flush(&probe);
  double bound = math_oracle(fn)->bound[0];
  printf("| %s | %" PRIu64 " of 2^32 | %.3f | %a | %" PRIu64 " |\n", name, probe.worst.points,
         probe.worst.ulp, probe.worst.x, probe.worst.split);
  return probe.worst.ulp <= bound && !probe.worst.split ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *cpu = NULL;
  if (argc > 2 && !strcmp(argv[1], "--cpu")) {
    cpu = argv[2];
    argc -= 2;
    argv += 2;
  }
  jit = math_jit_create(cpu);
  if (!jit)
    return 2;
  int result;
  if (argc > 2 && !strcmp(argv[1], "--full")) {
    uint64_t stride = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    uint64_t first = argc > 4 ? strtoull(argv[4], NULL, 16) : 0;
    uint64_t last = argc > 5 ? strtoull(argv[5], NULL, 16) : UINT32_MAX;
    result = run_full(argv[2], stride ? stride : 1, first, last);
  } else if (argc > 2 && (!strcmp(argv[1], "--asm") || !strcmp(argv[1], "--ptx"))) {
    result =
        math_print_assembly(jit, by_name(argv[2]), argc > 3, !strcmp(argv[1], "--ptx")) ? 0 : 2;
  } else {
    struct CMUnitTest tests[2 * MATH_ALL + 2];
    char names[2 * MATH_ALL][32];
    for (uint64_t k = 0; k < 2 * MATH_ALL; k++) {
      snprintf(names[k], sizeof names[k], "%s_%s", math_oracle((int)(k / 2))->name,
               k % 2 ? "f64" : "f32");
      tests[k] = (struct CMUnitTest){names[k], check_case, NULL, NULL, (void *)(uintptr_t)k};
    }
    tests[2 * MATH_ALL] = (struct CMUnitTest){"pow_specials", test_pow_specials, NULL, NULL, NULL};
    tests[2 * MATH_ALL + 1] = (struct CMUnitTest){"ndtr", test_ndtr, NULL, NULL, NULL};
    result = cmocka_run_group_tests_name("math", tests, NULL, NULL);
  }
  math_jit_destroy(jit);
  return result;
}

// SPDX-License-Identifier: Apache-2.0
// The cost of symbolic sizes: a long trace's questions, and the cost of one question as guards
// grow.
#include "bench/harness.h"
#include "symshape/symshape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_SYMBOLS = 500, TRACE_QUERIES = 5000, ASKED = 5000, MAX_ROUNDS = 101 };
#define TRACE_LIMIT_MS 1000.0
// From 100 to 10,000 guards a logarithm doubles; the rest is for caches.
#define GROWTH_LIMIT 4.0

static const char usage[] =
    "usage: bench_symshape [--json] [--rounds N]\n"
    "\n"
    "Measures what symbolic sizes cost: the questions of a long trace, and one as guards grow.\n"
    "  --json      JSON lines\n"
    "  --rounds N  turns, of which medians are taken (default: 5)\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct sizes_t {
  dt_symenv_t *env;
  dt_sym_t *s;
  int64_t *hints;
  int64_t n;
  uint64_t seed;
} sizes_t;

static bool begin(sizes_t *z, int64_t n) {
  *z = (sizes_t){.n = n, .seed = 88172645463325252u};
  z->s = calloc((size_t)n, sizeof *z->s);
  z->hints = calloc((size_t)n, sizeof *z->hints);
  if (!z->s || !z->hints || !bench_ok(dt__symenv_create(&z->env), "making an environment"))
    return false;
  for (int64_t k = 0; k < n; k++) {
    z->hints[k] = 8 * bench_random(&z->seed, 1, 512);
    z->s[k] = dt__sym_new(z->env, DT_SYMBOL_SIZE, (dt_range_t){0, INT64_MAX}, &z->hints[k], "size");
  }
  return bench_ok(dt__symenv_status(z->env), "making sizes");
}

static void end(sizes_t *z) {
  dt__symenv_destroy(z->env);
  free(z->s);
  free(z->hints);
}

static dt_sym_t any(sizes_t *z) { return z->s[bench_random(&z->seed, 0, z->n - 1)]; }

// Questions as broadcasting, reshapes, concatenations and loops ask them.
static dt_sym_t question(sizes_t *z, int64_t kind) {
  dt_symenv_t *env = z->env;
  dt_sym_t a = any(z), b = any(z), c = any(z);
  int64_t literal = bench_random(&z->seed, 1, 4096);
  switch (kind % 6) {
  case 0:
    return dt__sym_eq(env, a, b);
  case 1:
    return dt__sym_le(env, a, dt__sym_add(env, b, c));
  case 2:
    return dt__sym_eq(env, dt__sym_mod(env, a, dt__sym_const(env, 8)), dt__sym_const(env, 0));
  case 3:
    return dt__sym_eq(env, dt__sym_mul(env, a, b), dt__sym_mul(env, b, c));
  case 4:
    return dt__sym_lt(env, dt__sym_const(env, literal), a);
  default:
    return dt__sym_lt(env, dt__sym_floordiv(env, a, dt__sym_const(env, 2)), b);
  }
}

static const dt_origin_t origin = {"bench", "bench_symshape.c", 1};

// One trace: every tenth question becomes a guard.
static double trace_ms(void) {
  sizes_t z;
  if (!begin(&z, TRACE_SYMBOLS))
    exit(BENCH_EXIT_FAILED);
  double start = bench_now_ns();
  for (int64_t k = 0; k < TRACE_QUERIES; k++) {
    dt_sym_t cond = question(&z, k);
    bool yes;
    if (k % 10 == 0) {
      if (!bench_ok(dt__sym_decide(z.env, cond, false, &origin, &yes), "deciding"))
        exit(BENCH_EXIT_FAILED);
    } else {
      (void)dt__sym_known(z.env, cond);
    }
  }
  double time = (bench_now_ns() - start) / 1e6;
  end(&z);
  return time;
}

// Guards about random sizes, or all about the first one.
static bool add_guards(sizes_t *z, int64_t n, bool hub) {
  for (int64_t k = 0; k < n; k++) {
    dt_sym_t a = hub ? z->s[0] : any(z), b = z->s[1 + k % (z->n - 1)];
    dt_sym_t cond = k % 2 ? dt__sym_le(z->env, a, dt__sym_add(z->env, b, any(z)))
                          : dt__sym_lt(z->env, dt__sym_mul(z->env, a, dt__sym_const(z->env, 3)),
                                       dt__sym_add(z->env, b, dt__sym_const(z->env, 7)));
    bool yes;
    if (!bench_ok(dt__sym_decide(z->env, cond, false, &origin, &yes), "adding a guard"))
      return false;
  }
  return true;
}

// Nanoseconds a question takes beside `guards` guards; in *out_guard, what a guard took.
static double query_ns(int64_t guards, bool hub, double *out_guard) {
  sizes_t z;
  if (!begin(&z, 64 + guards))
    exit(BENCH_EXIT_FAILED);
  double start = bench_now_ns();
  if (!add_guards(&z, guards, hub))
    exit(BENCH_EXIT_FAILED);
  double between = bench_now_ns();
  for (int64_t k = 0; k < ASKED; k++)
    (void)dt__sym_known(z.env, question(&z, k));
  double stop = bench_now_ns();
  *out_guard = (between - start) / (double)guards;
  end(&z);
  return (stop - between) / ASKED;
}

static void run_growth(bench_report_t *report, bool hub, int rounds) {
  static const int64_t counts[] = {100, 1000, 10000};
  double first = 0, last = 0;
  for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
    double query[MAX_ROUNDS], guard[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++)
      query[r] = query_ns(counts[k], hub, &guard[r]);
    char name[64];
    snprintf(name, sizeof name, "%s, %lld guards", hub ? "one size" : "many sizes",
             (long long)counts[k]);
    last = bench_median(query, (size_t)rounds);
    first = k ? first : last;
    bench_value(report, name, "question", "ns", last);
    bench_value(report, name, "guard", "ns", bench_median(guard, (size_t)rounds));
  }
  bench_limited(report, hub ? "one size" : "many sizes", "question, 10000 guards / 100 guards",
                "ratio", last / first, GROWTH_LIMIT);
}

int main(int argc, char **argv) {
  bool json = false;
  long rounds = 5;
  if (bench_help(argc, argv, usage))
    return 0;
  for (int k = 1; k < argc; k++) {
    if (strcmp(argv[k], "--json") == 0) {
      json = true;
    } else if (strcmp(argv[k], "--rounds") != 0 || k + 1 == argc ||
               !bench_parse_number(argv[++k], 1, MAX_ROUNDS, &rounds)) {
      fputs(usage, stderr);
      return BENCH_EXIT_USAGE;
    }
  }
  bench_report_t report;
  bench_begin(&report, "symshape", json);
  double times[MAX_ROUNDS];
  for (long r = 0; r < rounds; r++)
    times[r] = trace_ms();
  bench_limited(&report, "500 sizes, 5000 questions", "trace", "ms",
                bench_median(times, (size_t)rounds), TRACE_LIMIT_MS);
  run_growth(&report, false, (int)rounds);
  run_growth(&report, true, (int)rounds);
  return 0;
}

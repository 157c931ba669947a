// SPDX-License-Identifier: Apache-2.0
// One decision against the programs it was made of: random lists of 1 to 64 variants, random
// arguments; the first variant that holds and its symbols must be what running the programs one
// after another says, when the decision is walked and, in builds with a code generator, compiled.
#include "runtime/compile/decide.h"
#include "test/fuzz/guards_random.h"

#include "backend_llvm/jit/jit.h"
#include "guards/tree.h"
#include "runtime/base/text.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VARIANTS = 64, ARGUMENTS = 160 };

typedef struct options_t {
  uint64_t seed, rounds;
  bool walk_only;
} options_t;

typedef struct round_t {
  uint64_t seed;
  dt_compiler_t *compiler;
  fuzz_signature_t signature;
  fuzz_variant_t variants[MOST_VARIANTS];
  const dt_guards_t *programs[MOST_VARIANTS];
  uint32_t n;
  dt_tree_t *tree;
  dt_native_t *native;
  dt_decide_fn_t decide;
  uint64_t hits, misses;
} round_t;

static bool ok(dt_status_t status, uint64_t seed, const char *doing) {
  if (!status)
    return true;
  fprintf(stderr, "seed %llu: %s: %s: %s\n", (unsigned long long)seed, doing,
          dt_code_name(dt_status_code(status)), dt_status_message(status));
  dt_status_free(status);
  return false;
}

static dt_status_t run_compile(void *opaque) {
  round_t *r = opaque;
  return dt__decide_compile(r->compiler, r->programs, r->n, "fuzz", &r->native, &r->decide);
}

// Random variants; one whose sizes cannot be, or are no 64-bit integers, is left out.
static bool make_round(round_t *r, rng_t *rng) {
  fuzz_signature(rng, &r->signature);
  uint32_t wanted = 1u << rng_between(rng, 0, 6);
  wanted -= (uint32_t)rng_between(rng, 0, wanted - 1);
  for (uint32_t tries = 0; r->n < wanted && tries < 4 * MOST_VARIANTS; tries++) {
    dt_status_t status = fuzz_variant_init(rng, &r->signature, &r->variants[r->n]);
    dt_code_t code = dt_status_code(status);
    if (code == DT_E_LIMIT || code == DT_E_ARGUMENT || code == DT_E_SHAPE) {
      dt_status_free(status);
      fuzz_variant_fini(&r->variants[r->n]);
      continue;
    }
    if (!ok(status, r->seed, "a variant"))
      return false;
    r->programs[r->n] = r->variants[r->n].guards;
    r->n++;
  }
  if (!ok(dt__tree_create(r->programs, r->n, &r->tree), r->seed, "the decision"))
    return false;
  if (!r->compiler)
    return true;
  dt_job_t job = {.run = run_compile, .arg = r};
  return ok(dt__jobs_run(dt__compiler_jobs(r->compiler), &job, 1, 0), r->seed, "the code");
}

static void drop_round(round_t *r) {
  dt__native_unload(r->native);
  dt__tree_destroy(r->tree);
  for (uint32_t k = 0; k < r->n; k++)
    fuzz_variant_fini(&r->variants[k]);
}

static int64_t run_programs(const round_t *r, const dt_guard_args_t *args, int64_t *symbols) {
  for (uint32_t k = 0; k < r->n; k++) {
    if (dt__guards_run(r->programs[k], args, symbols))
      return k;
  }
  return -1;
}

static void tell(const round_t *r, const char *how, uint32_t number, int64_t expected,
                 int64_t actual, const dt_guard_args_t *args) {
  dt_text_t text;
  dt__text_init(&text);
  for (uint32_t k = 0; k < r->n; k++) {
    dt__text_printf(&text, "variant %u:\n", k);
    dt__guards_print(r->programs[k], &text);
    dt__text_put(&text, "  ");
    if (!dt__guards_explain(r->programs[k], args, &text))
      dt__text_put(&text, "holds");
    dt__text_put(&text, "\n");
  }
  dt__tree_print(r->tree, &text);
  fprintf(stderr, "seed %llu, arguments %u, %s: expected %lld, got %lld\n%s",
          (unsigned long long)r->seed, number, how, (long long)expected, (long long)actual,
          dt__text_str(&text));
  dt__text_fini(&text);
}

static bool check_one(round_t *r, uint32_t number, const dt_guard_args_t *args) {
  int64_t expected[FUZZ_MAX_SYMBOLS], actual[FUZZ_MAX_SYMBOLS];
  memset(expected, 0, sizeof(expected));
  int64_t first = run_programs(r, args, expected);
  r->hits += first >= 0;
  r->misses += first < 0;
  for (int form = 0; form < 2; form++) {
    if (form == 1 && !r->decide)
      continue;
    memset(actual, 0x55, sizeof(actual));
    int64_t found = form ? r->decide(args, actual) : dt__tree_run(r->tree, args, actual);
    const char *how = form ? "compiled" : "walked";
    if (found != first) {
      tell(r, how, number, first, found, args);
      return false;
    }
    uint32_t n = first < 0 ? 0 : dt__guards_symbol_count(r->programs[first]);
    if (memcmp(expected, actual, n * sizeof(actual[0])) != 0) {
      tell(r, how, number, first, found, args);
      fprintf(stderr, "the symbols differ\n");
      return false;
    }
  }
  return true;
}

static bool run_round(round_t *r) {
  rng_t rng = {r->seed};
  bool good = make_round(r, &rng);
  for (uint32_t k = 0; good && k < ARGUMENTS && r->n; k++) {
    fuzz_args_t args;
    const fuzz_variant_t *like = &r->variants[rng_between(&rng, 0, r->n - 1)];
    good = ok(fuzz_args_init(&rng, &r->signature, like, &args), r->seed, "arguments") &&
           check_one(r, k, &args.args);
    fuzz_args_fini(&args);
  }
  return good;
}

static bool parse(int argc, char **argv, options_t *out) {
  static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"walk-only", no_argument, NULL, 'w'},
                                          {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 's')
      out->seed = strtoull(optarg, NULL, 10);
    else if (option == 'r')
      out->rounds = strtoull(optarg, NULL, 10);
    else if (option == 'w')
      out->walk_only = true;
    else
      return false;
  }
  return optind == argc;
}

int main(int argc, char **argv) {
  options_t options = {.seed = 1, .rounds = 60};
  if (!parse(argc, argv, &options)) {
    fprintf(stderr, "usage: %s [--seed N] [--rounds N] [--walk-only]\n", argv[0]);
    return 2;
  }
  dt_compiler_t *compiler = NULL;
  dt_compiler_options_t make = {.threads = 1, .pool_width = 1, .cpu = "", .verify = true};
  if (dt__jit() && !options.walk_only &&
      !ok(dt__compiler_create(&make, &compiler), 0, "the compiler"))
    return 1;
  uint64_t hits = 0, misses = 0;
  bool good = true;
  for (uint64_t k = 0; good && k < options.rounds; k++) {
    round_t *r = calloc(1, sizeof(*r));
    if (!r)
      return 1;
    r->seed = options.seed + k;
    r->compiler = compiler;
    good = run_round(r);
    hits += r->hits;
    misses += r->misses;
    drop_round(r);
    free(r);
  }
  dt__compiler_destroy(compiler);
  printf("seeds %llu to %llu: %llu hits, %llu misses%s\n", (unsigned long long)options.seed,
         (unsigned long long)(options.seed + options.rounds - 1), (unsigned long long)hits,
         (unsigned long long)misses, good ? "" : ": a disagreement");
  // Arguments that never fit would show nothing.
  return good && hits > 0 && misses > 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Random programs that ask about their sizes, 40 sets of sizes at the edges of each question, in
// two orders and prepared: what is taken equals the evaluator's answer, what breaks a rule is
// refused, and there are as many variants as regions of sizes. usage:
//   test_sizes [--seed N] [--count N] [--minutes M] [--print] [--no-shrink] [--table]
// --table prints one line of totals, tab-separated, for the script that runs shards.
#include "test/conform/guards/size_program.h"

#include "runtime/base/status.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_FAILURES 2 // after so many no more programs are run

typedef struct options_t {
  uint64_t seed, count;
  double minutes;
  bool print, no_shrink, table;
} options_t;

// Shared with the child that runs programs, so that a crash names its program.
typedef struct totals_t {
  uint64_t next; // the program at work, or to be run next
  uint64_t ran, failures, crashes;
  uint64_t calls, variants, regions, accepted, refused, prepared;
  int64_t compared, uncertain;
} totals_t;

static void print_program(const sp_program_t *p) {
  dt_text_t text;
  dt__text_init(&text);
  sp_print(p, &text);
  printf("%s", dt__text_str(&text));
  dt__text_fini(&text);
}

// ---- Shrinking ------------------------------------------------------------------------------------
static bool fails_alike(dt_runtime_t *runtime, const sp_program_t *p, sp_fault_t fault,
                        sp_outcome_t *out) {
  sp_run(runtime, p, out);
  return out->fault == fault;
}

// Takes steps and sets away while the fault stays; a step is only taken away where what follows
// means the same, so those that change the shape go from the end.
static void shrink(dt_runtime_t *runtime, sp_program_t *p, sp_outcome_t *out) {
  sp_outcome_t tried;
  for (uint32_t k = p->n_steps; k-- > 0;) {
    sp_program_t smaller = *p;
    bool last = k + 1 == p->n_steps;
    if (!last && p->steps[k].kind >= SP_BROADCAST && p->steps[k].kind != SP_SLICE &&
        p->steps[k].kind != SP_SUM)
      continue;
    if (last)
      smaller.n_steps--;
    else
      smaller.steps[k] = (sp_step_t){.kind = SP_NOTHING};
    if (fails_alike(runtime, &smaller, out->fault, &tried)) {
      *p = smaller;
      *out = tried;
    }
  }
  for (uint32_t k = p->n_sets; k-- > 0;) {
    sp_program_t smaller = *p;
    memmove(&smaller.sets[k], &smaller.sets[k + 1], (p->n_sets - k - 1) * sizeof(sp_set_t));
    smaller.n_sets--;
    if (fails_alike(runtime, &smaller, out->fault, &tried)) {
      *p = smaller;
      *out = tried;
    }
  }
}

static void report(const options_t *options, dt_runtime_t *runtime, const sp_program_t *p,
                   const sp_outcome_t *out) {
  printf("FAIL seed %llu: %s: %s\n", (unsigned long long)p->seed, sp_fault_name(out->fault),
         out->text);
  sp_program_t small = *p;
  sp_outcome_t last = *out;
  if (!options->no_shrink)
    shrink(runtime, &small, &last);
  print_program(&small);
  for (uint32_t k = 0; k < small.n_sets && k < 6; k++) {
    dt_text_t text;
    sp_result_t model;
    sp_model(&small, k, &model);
    dt__text_init(&text);
    sp_print_set(&small, k, &text);
    printf("  set %s%s\n", dt__text_str(&text), model.refused ? " refused" : "");
    dt__text_fini(&text);
  }
  printf("=> %s: %s\n\n", sp_fault_name(last.fault), last.text);
}

// ---- Running --------------------------------------------------------------------------------------
static void add(totals_t *totals, const sp_outcome_t *out) {
  totals->ran++;
  totals->failures += out->fault != SP_RIGHT;
  totals->calls += out->calls;
  totals->variants += out->variants;
  totals->regions += out->regions;
  totals->accepted += out->accepted;
  totals->refused += out->refused;
  totals->prepared += out->prepared;
  totals->compared += out->compared;
  totals->uncertain += out->uncertain;
}

static int run_child(const options_t *options, totals_t *totals, int64_t until) {
  dt_runtime_options_t runtime_options = {
      .struct_size = sizeof(runtime_options), .threads = 1, .compile_threads = 1};
  dt_runtime_t *runtime = NULL;
  if (!options->print) {
    dt_status_t status = dt_runtime_create(&runtime_options, &runtime);
    if (status) {
      printf("FAIL %s\n", dt_status_message(status));
      return 1;
    }
  }
  for (; totals->next < options->seed + options->count && dt__now_ns() < until &&
         totals->failures < MOST_FAILURES;
       totals->next++) {
    static sp_program_t p;
    sp_outcome_t out;
    sp_generate(totals->next, &p);
    if (options->print) {
      print_program(&p);
      totals->ran++;
      continue;
    }
    sp_run(runtime, &p, &out);
    add(totals, &out);
    if (out.fault != SP_RIGHT)
      report(options, runtime, &p, &out);
  }
  dt_runtime_release(runtime);
  return 0;
}

// In a child process, begun again after a crash.
static void run_all(const options_t *options, totals_t *totals) {
  int64_t until =
      options->minutes > 0 ? dt__now_ns() + (int64_t)(options->minutes * 60e9) : INT64_MAX;
  for (;;) {
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      int code = run_child(options, totals, until);
      (void)fflush(stdout);
      exit(code);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
      return;
    printf("FAIL seed %llu: the process ended with status %d\n", (unsigned long long)totals->next,
           status);
    totals->crashes++;
    totals->next++;
    if (child < 0 || totals->crashes >= MOST_FAILURES)
      return;
  }
}

static bool parse_options(int argc, char **argv, options_t *out) {
  *out = (options_t){.seed = 1};
  for (int i = 1; i < argc; i++) {
    const char *arg = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    bool *flag = strcmp(arg, "--print") == 0       ? &out->print
                 : strcmp(arg, "--no-shrink") == 0 ? &out->no_shrink
                 : strcmp(arg, "--table") == 0     ? &out->table
                                                   : NULL;
    if (flag) {
      *flag = true;
      continue;
    }
    if (!value)
      return false;
    if (strcmp(arg, "--seed") == 0)
      out->seed = strtoull(value, NULL, 10);
    else if (strcmp(arg, "--count") == 0)
      out->count = strtoull(value, NULL, 10);
    else if (strcmp(arg, "--minutes") == 0)
      out->minutes = strtod(value, NULL);
    else
      return false;
    i++;
  }
  if (out->count == 0)
    out->count = out->minutes > 0 ? UINT64_MAX - out->seed : 100;
  return true;
}

int main(int argc, char **argv) {
  options_t options;
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  if (!parse_options(argc, argv, &options)) {
    printf("usage: %s [--seed N] [--count N] [--minutes M] [--print] [--no-shrink] [--table]\n",
           argv[0]);
    return 2;
  }
  totals_t *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (t == MAP_FAILED)
    return 2;
  t->next = options.seed;
  int64_t begin = dt__now_ns();
  run_all(&options, t);
  double seconds = (double)(dt__now_ns() - begin) * 1e-9;
  typedef unsigned long long u64;
  if (options.table)
    printf("%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%.0f\n", (u64)options.seed,
           (u64)t->ran, (u64)t->calls, (u64)t->accepted, (u64)t->refused, (u64)t->regions,
           (u64)t->variants, (u64)t->prepared, (u64)t->compared, (u64)(t->failures + t->crashes),
           seconds);
  else
    printf("%llu programs (seeds from %llu), %llu calls; of their sets %llu taken, %llu refused; "
           "%llu regions, %llu variants, %llu programs prepared; %lld elements compared, %lld "
           "uncertain; %llu failures, %.1f programs a second\n",
           (u64)t->ran, (u64)options.seed, (u64)t->calls, (u64)t->accepted, (u64)t->refused,
           (u64)t->regions, (u64)t->variants, (u64)t->prepared, (long long)t->compared,
           (long long)t->uncertain, (u64)(t->failures + t->crashes), (double)t->ran / seconds);
  return t->failures || t->crashes || t->ran == 0 ||
         (!options.print && t->accepted * 4 < t->accepted + t->refused);
}

// SPDX-License-Identifier: Apache-2.0
// Whole random programs through compiled code, many sizes a function, against the evaluator. A
// failure is shrunk and its stage named. usage:
//   test_graphs [--corpus FILE] [--seed N] [--count N] [--minutes M] [--shapes N] [--no-shrink]
//               [--interpret | --loops [--guarded] | --ways | --twins [--all-twins] | --ops]
//               [--dtt] [--show] [--print] [--op-stats] [--seconds-each S]
// --corpus runs the programs of a file, before any seeds.
// --shapes: how many calls a program has. Of the same seed it is then another program.
// --loops makes no code and interprets the loops after all passes; with --guarded it runs them as
// code between guards.
// --ways runs code made in several ways, --twins other programs of the same meaning; --all-twins
// fails where a kind of twin was not made.
// --ops runs nothing and asks whether every op of the table is drawn.
// --show prints the loops around the stage at fault, --print programs only.
#include "test/conform/graphs/run_graph.h"

#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "test/device/on_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options_t {
  const char *corpus;
  uint64_t seed, count;
  double minutes;
  bool no_shrink, interpret, show, print, op_stats, loops, ops, dtt, guarded, ways, twins,
      all_twins;
  uint32_t seconds_each, shapes;
} options_t;

typedef struct totals_t {
  uint64_t ran, checks, failures, variants, kernels; // checks: answers of right programs
  uint64_t graph_calls, launches;
  int64_t compared, uncertain;
  uint64_t used[RG_OP_COUNT];
  uint64_t ops[DT_OP_COUNT];
  uint64_t way_calls[RG_WAYS], way_bits[RG_WAYS], strict_bits;
  uint64_t twin_uses[RG_TWIN_COUNT];
} totals_t;

static uint32_t run_flags(const options_t *options) {
  return (options->interpret ? RG_INTERPRET : 0) | (options->loops ? RG_LOOPS : 0) |
         (options->ops ? RG_OPS : 0) | (options->dtt ? RG_DTT : 0) |
         (options->guarded ? RG_GUARDED : 0) |
         (options->ways || options->twins ? RG_WAYS_OF_CODE : 0) |
         (options->twins ? RG_TWINS_TOO : 0);
}

static void print_program(const rg_program_t *p) {
  dt_text_t text;
  dt__text_init(&text);
  rg_print(p, &text);
  printf("%s", dt__text_str(&text));
  dt__text_fini(&text);
}

// ---- Shrinking ------------------------------------------------------------------------------------
typedef struct shrinking_t {
  const options_t *options;
  rg_outcome_t like;
  int64_t until_ns;
} shrinking_t;

static rg_verdict_t still_fails(void *user, const rg_program_t *p) {
  shrinking_t *s = user;
  if (dt__now_ns() > s->until_ns)
    return RG_STOP;
  rg_outcome_t out;
  rg_run(p, run_flags(s->options), s->options->seconds_each, &out);
  bool same = out.kind == s->like.kind;
  if (out.kind == RG_REFUSED || out.kind == RG_CRASHED)
    same &= out.code == s->like.code;
  return same ? RG_FAILS : RG_GOOD;
}

static void report(const options_t *options, const rg_program_t *p, const rg_outcome_t *out) {
  printf("FAIL graph %llu: %s: %s\n", (unsigned long long)p->seed, rg_kind_name(out->kind),
         out->text);
  rg_program_t small = *p;
  rg_outcome_t last = *out;
  if (!options->no_shrink) {
    shrinking_t shrinking = {
        .options = options, .like = *out, .until_ns = dt__now_ns() + 90 * 1000000000LL};
    rg_shrink(&small, still_fails, &shrinking);
  }
  uint32_t flags = RG_DIAGNOSE | run_flags(options);
  rg_run(&small, flags | (options->show ? RG_SHOW : 0), options->seconds_each, &last);
  print_program(&small);
  printf("=> %s in %s: %s\n", rg_kind_name(last.kind), last.stage[0] ? last.stage : "?", last.text);
  small.calls[0] = small.calls[last.call < small.n_calls ? last.call : 0];
  small.n_calls = 1;
  if (rg_check(&small))
    rg_run(&small, RG_DTT, options->seconds_each, &last);
  printf("\n");
}

static void run_one(const options_t *options, const rg_program_t *p, totals_t *totals) {
  rg_outcome_t out;
  if (options->print) {
    print_program(p);
    return;
  }
  rg_run(p, run_flags(options), options->seconds_each, &out);
  totals->ran++;
  for (uint32_t op = 0; op < DT_OP_COUNT; op++)
    totals->ops[op] += out.ops[op];
  totals->compared += out.compared;
  totals->uncertain += out.uncertain;
  totals->variants += out.variants;
  totals->kernels += out.kernels;
  totals->graph_calls += out.graph_calls;
  totals->launches += out.launches;
  for (uint32_t w = 0; w < RG_WAYS; w++) {
    totals->way_calls[w] += out.way_calls[w];
    totals->way_bits[w] += out.way_bits[w];
  }
  totals->strict_bits += out.strict_bits;
  for (uint32_t t = 0; t < RG_TWIN_COUNT; t++)
    totals->twin_uses[t] += out.twin_uses[t];
  for (uint32_t i = 0; i < p->n_nodes; i++)
    totals->used[p->nodes[i].op]++;
  if (out.kind == RG_RIGHT) {
    totals->checks += p->n_calls;
    return;
  }
  totals->failures++;
  report(options, p, &out);
}

// ---- Corpus ---------------------------------------------------------------------------------------
static bool run_corpus(const options_t *options, totals_t *totals) {
  FILE *file = fopen(options->corpus, "rb");
  static char text[1 << 20];
  size_t len = file ? fread(text, 1, sizeof(text), file) : 0;
  if (!file || len == sizeof(text)) {
    printf("FAIL %s cannot be read\n", options->corpus);
    return false;
  }
  (void)fclose(file);
  dt_scan_t scan;
  dt__scan_init(&scan, text, len, options->corpus);
  while (!dt__scan_end(&scan)) {
    rg_program_t p;
    dt_status_t status = rg_parse(&scan, &p);
    if (status) {
      printf("FAIL %s\n", dt_status_message(status));
      dt_status_free(status);
      return false;
    }
    run_one(options, &p, totals);
  }
  return true;
}

// What is printed is read back as the same text.
static bool check_text(const rg_program_t *p) {
  dt_text_t first, second;
  dt__text_init(&first);
  dt__text_init(&second);
  rg_print(p, &first);
  dt_scan_t scan;
  dt__scan_init(&scan, dt__text_str(&first), first.len, "text");
  rg_program_t read;
  dt_status_t status = rg_parse(&scan, &read);
  if (!status)
    rg_print(&read, &second);
  bool same = !status && strcmp(dt__text_str(&first), dt__text_str(&second)) == 0;
  if (!same)
    printf("FAIL text of graph %llu: %s\n%s%s", (unsigned long long)p->seed,
           dt_status_message(status), dt__text_str(&first), dt__text_str(&second));
  dt_status_free(status);
  dt__text_fini(&first);
  dt__text_fini(&second);
  return same;
}

static void print_ways(const totals_t *totals) {
  const char *names[RG_WAYS];
  uint32_t n = rg_way_names(names);
  for (uint32_t w = 1; w < n; w++)
    printf("%-12s %8llu calls, of other bits: %llu\n", names[w],
           (unsigned long long)totals->way_calls[w], (unsigned long long)totals->way_bits[w]);
}

// Every relation must have been in some twin.
static void print_twins(const totals_t *totals) {
  uint64_t calls = 0, bits = 0;
  for (uint32_t w = 1; w < RG_WAYS; w++) {
    calls += totals->way_calls[w];
    bits += totals->way_bits[w];
  }
  for (uint32_t t = 0; t < RG_TWIN_COUNT; t++)
    printf("%-32s %8llu\n", rg_twin_text((rg_twin_t)t), (unsigned long long)totals->twin_uses[t]);
  printf("%llu calls of twins, of other bits of floats: %llu (strict: %llu)\n",
         (unsigned long long)calls, (unsigned long long)bits,
         (unsigned long long)totals->strict_bits);
}

// Whether every kind of twin was made. A few programs need not have them all.
static bool twins_complete(const totals_t *totals) {
  bool all = true;
  for (uint32_t t = 0; t < RG_TWIN_COUNT; t++)
    all = all && totals->twin_uses[t];
  if (!all)
    printf("a kind of twin was not made\n");
  return all;
}

// ---- Command line ---------------------------------------------------------------------------------
static bool parse_options(int argc, char **argv, options_t *out) {
  *out = (options_t){.seed = 1, .seconds_each = 60, .shapes = RG_USUAL_SHAPES};
  for (int i = 1; i < argc; i++) {
    const char *arg = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    bool *flag = strcmp(arg, "--no-shrink") == 0   ? &out->no_shrink
                 : strcmp(arg, "--interpret") == 0 ? &out->interpret
                 : strcmp(arg, "--show") == 0      ? &out->show
                 : strcmp(arg, "--print") == 0     ? &out->print
                 : strcmp(arg, "--op-stats") == 0  ? &out->op_stats
                 : strcmp(arg, "--loops") == 0     ? &out->loops
                 : strcmp(arg, "--ops") == 0       ? &out->ops
                 : strcmp(arg, "--dtt") == 0       ? &out->dtt
                 : strcmp(arg, "--guarded") == 0   ? &out->guarded
                 : strcmp(arg, "--ways") == 0      ? &out->ways
                 : strcmp(arg, "--twins") == 0     ? &out->twins
                 : strcmp(arg, "--all-twins") == 0 ? &out->all_twins
                                                   : NULL;
    if (flag) {
      *flag = true;
      continue;
    }
    if (!value)
      return false;
    if (strcmp(arg, "--corpus") == 0)
      out->corpus = value;
    else if (strcmp(arg, "--seed") == 0)
      out->seed = strtoull(value, NULL, 10);
    else if (strcmp(arg, "--count") == 0)
      out->count = strtoull(value, NULL, 10);
    else if (strcmp(arg, "--minutes") == 0)
      out->minutes = strtod(value, NULL);
    else if (strcmp(arg, "--shapes") == 0)
      out->shapes = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(arg, "--seconds-each") == 0)
      out->seconds_each = (uint32_t)strtoul(value, NULL, 10);
    else
      return false;
    i++;
  }
  if (out->minutes > 0 && out->count == 0)
    out->count = UINT64_MAX;
  return out->shapes >= 1 && out->shapes <= RG_SHAPES;
}

int main(int argc, char **argv) {
  options_t options;
  static totals_t totals;
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  if (!parse_options(argc, argv, &options)) {
    printf("usage: %s [--corpus FILE] [--seed N] [--count N] [--minutes M] [--shapes N]\n"
           "       [--no-shrink] [--interpret | --loops [--guarded] | --ways | --ops |\n"
           "       --twins [--all-twins]] [--dtt] [--show] [--print] [--op-stats]\n"
           "       [--seconds-each S]\n",
           argv[0]);
    return 2;
  }
  if (options.corpus && !run_corpus(&options, &totals))
    return 1;
  int64_t until =
      options.minutes > 0 ? dt__now_ns() + (int64_t)(options.minutes * 60e9) : INT64_MAX;
  for (uint64_t k = 0; k < options.count && dt__now_ns() < until; k++) {
    rg_program_t p;
    rg_generate(options.seed + k, options.shapes, &p);
    if (!check_text(&p))
      totals.failures++;
    run_one(&options, &p, &totals);
  }
  for (uint32_t op = 0; options.op_stats && op < RG_OP_COUNT; op++)
    printf("%-14s %llu\n", rg_ops[op].name, (unsigned long long)totals.used[op]);
  printf("%llu programs, %llu checks, %llu variants, %llu kernels, %lld elements compared, %lld "
         "uncertain, %llu failures\n",
         (unsigned long long)totals.ran, (unsigned long long)totals.checks,
         (unsigned long long)totals.variants, (unsigned long long)totals.kernels,
         (long long)totals.compared, (long long)totals.uncertain,
         (unsigned long long)totals.failures);
  if (options.ways)
    print_ways(&totals);
  if (options.guarded)
    printf("%llu launches between guards\n", (unsigned long long)totals.launches);
  if (on_device_graphs())
    printf("%llu calls were graphs\n", (unsigned long long)totals.graph_calls);
  if (options.ops && !rg_ops_complete(totals.ops))
    return 1;
  if (options.twins)
    print_twins(&totals);
  if (options.all_twins && !twins_complete(&totals))
    return 1;
  return totals.failures != 0 || (on_device_graphs() && !totals.graph_calls) ||
         (options.guarded && !totals.launches) || (totals.ran == 0 && !options.print);
}

// SPDX-License-Identifier: Apache-2.0
// What many patterns cost on a large graph: the time of a trace with them, less that of the same
// trace without.
#include "bench/harness.h"

#include "ductile/pattern.h"

#include <getopt.h>
#include <stdlib.h>
#include <time.h>

#define LAYER_NODES 5
#define NAME_BYTES 24

static const double limit_ms = 50; // of 200 patterns on 10,000 nodes

static const char usage[] =
    "usage: bench_patterns [--json] [--nodes N] [--patterns N] [--rounds N]\n"
    "\n"
    "Traces a graph of plain layers (5 nodes each) with patterns and without, and prints the\n"
    "processor time between: of patterns of which no node is the last op, of patterns whose last\n"
    "op many nodes are, of patterns that fit but for an axis, and of patterns of which one is in\n"
    "each layer, alone or with the graph's one input.\n"
    "  --nodes N     nodes of the graph (default: 10000)\n"
    "  --patterns N  (default: 200)\n"
    "  --rounds N    traces of each kind; the median counts (default: 5)\n"
    "  --json        JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  long nodes, patterns, rounds;
  bool json, help;
} arguments_t;

// ---- The graph ----------------------------------------------------------------------------------
// All layers read the one input: it has as many users as there are layers.
static dt_status_t program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                           void *closure) {
  const arguments_t *arguments = closure;
  const int32_t axis = -1;
  dt_value_t x = in[0];
  for (long layer = 0; layer < arguments->nodes / LAYER_NODES; layer++) {
    dt_value_t gated = dt_mul(trace, x, dt_sigmoid(trace, x));
    dt_value_t most = dt_amax(trace, gated, 1, &axis, true);
    x = dt_sub(trace, dt_minimum(trace, in[0], gated), most);
  }
  out[0] = x;
  return NULL;
}

// ---- Patterns -----------------------------------------------------------------------------------
typedef enum kind_t {
  KIND_NO_ROOT,
  KIND_NO_OPERAND,
  KIND_NO_AXIS,
  KIND_ONE,
  KIND_INPUT,
  KIND_COUNT
} kind_t;
static const char *const kind_names[] = {"no last op", "no operand", "another axis", "one a layer",
                                         "one a layer, of the input"};

typedef struct pattern_t {
  kind_t kind;
  long index;
} pattern_t;

static dt_value_t unary(dt_trace_t *trace, long index, dt_value_t x) {
  switch (index % 4) {
  case 0:
    return dt_exp(trace, x);
  case 1:
    return dt_sin(trace, x);
  case 2:
    return dt_tanh(trace, x);
  default:
    return dt_erf(trace, x);
  }
}

// x sigmoid(x), or with ops that the graph does not have: as many different ones as are wanted.
static dt_status_t wanted(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  const pattern_t *pattern = closure;
  const int32_t axis = 0;
  dt_value_t gated = dt_mul(trace, in[0], dt_sigmoid(trace, in[0])), other = in[0];
  out[0] = gated;
  if (pattern->kind == KIND_ONE && pattern->index == 0)
    return NULL;
  if (pattern->kind == KIND_INPUT && pattern->index == 0) {
    out[0] = dt_minimum(trace, in[0], in[1]);
    return NULL;
  }
  if (pattern->kind == KIND_NO_AXIS) {
    out[0] = dt_sub(trace, in[1], dt_amax(trace, gated, 1, &axis, true));
    return NULL;
  }
  for (long rest = pattern->index; rest; rest /= 4)
    other = unary(trace, rest, other);
  other = dt_cos(trace, other);
  out[0] = pattern->kind == KIND_NO_ROOT ? other : dt_mul(trace, in[0], other);
  return NULL;
}

static dt_status_t replacement(dt_match_t *match, dt_trace_t *trace, const dt_value_t *in,
                               dt_value_t *out, void *closure) {
  const pattern_t *pattern = closure;
  (void)match;
  if (pattern->kind == KIND_INPUT)
    out[0] = dt_neg(trace, dt_maximum(trace, dt_neg(trace, in[0]), dt_neg(trace, in[1])));
  else
    out[0] = dt_silu(trace, in[0]);
  return NULL;
}

static bool takes_two(const pattern_t *pattern) {
  return pattern->kind == KIND_NO_AXIS || (pattern->kind == KIND_INPUT && pattern->index == 0);
}

static dt_status_t add_pattern(dt_runtime_t *runtime, pattern_t *pattern) {
  static const dt_wildcard_t wildcards[] = {{.name = "x"}, {.name = "y"}};
  char name[NAME_BYTES];
  dt_pattern_t *made = NULL;
  (void)snprintf(name, sizeof name, "p%ld", pattern->index);
  const dt_pattern_options_t options = {.struct_size = sizeof options,
                                        .name = name,
                                        .point = DT_POINT_TRACED,
                                        .n_wildcards = takes_two(pattern) ? 2 : 1,
                                        .n_outputs = 1,
                                        .wildcard_size = sizeof(dt_wildcard_t),
                                        .dim_size = sizeof(dt_dim_decl_t),
                                        .wildcards = wildcards};
  dt_status_t status = dt_pattern_create(wanted, replacement, NULL, pattern, &options, &made);
  if (!status)
    status = dt_runtime_add_pattern(runtime, made);
  dt_pattern_release(made);
  return status;
}

// ---- Measuring ----------------------------------------------------------------------------------
// Processor time: others may have the processors in between.
static double processor_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static bool trace_once(dt_runtime_t *runtime, arguments_t *arguments, double *out_ms) {
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "layers",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input,
                                         .input_size = sizeof input,
                                         .dim_size = sizeof(dt_dim_decl_t),
                                         .answer = DT_ANSWER_EVALUATOR}; // traced, not compiled
  dt_function_t *function = NULL;
  double begin = processor_ns();
  bool good = bench_ok(dt_function_create(runtime, program, arguments, &options, &function),
                       "a function") &&
              bench_ok(dt_function_prepare(function, NULL), "the trace");
  *out_ms = (processor_ns() - begin) * 1e-6;
  dt_function_release(function);
  return good;
}

static bool median_of(dt_runtime_t *runtime, arguments_t *arguments, double *out_ms) {
  double ms[100];
  for (long k = 0; k < arguments->rounds; k++)
    if (!trace_once(runtime, arguments, &ms[k]))
      return false;
  *out_ms = bench_median(ms, (size_t)arguments->rounds);
  return true;
}

static bool measure(bench_report_t *report, arguments_t *arguments, kind_t kind) {
  dt_runtime_t *runtime = NULL;
  pattern_t *patterns = calloc((size_t)arguments->patterns, sizeof *patterns);
  double without = 0, with = 0, begin = 0;
  bool good = patterns && bench_ok(dt_runtime_create(NULL, &runtime), "a runtime") &&
              median_of(runtime, arguments, &without);
  begin = processor_ns();
  for (long k = 0; good && k < arguments->patterns; k++) {
    patterns[k] = (pattern_t){kind, k};
    good = bench_ok(add_pattern(runtime, &patterns[k]), "a pattern");
  }
  double make_us = (processor_ns() - begin) * 1e-3 / (double)arguments->patterns;
  good = good && median_of(runtime, arguments, &with);
  if (good) {
    bench_value(report, kind_names[kind], "trace without", "ms", without);
    bench_limited(report, kind_names[kind], "patterns", "ms", with - without, limit_ms);
    bench_value(report, kind_names[kind], "making a pattern", "us", make_us);
  }
  dt_runtime_release(runtime);
  free(patterns);
  return good;
}

// ---- Options ------------------------------------------------------------------------------------
static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {
      {"json", no_argument, NULL, 'j'},           {"nodes", required_argument, NULL, 'n'},
      {"patterns", required_argument, NULL, 'p'}, {"rounds", required_argument, NULL, 'r'},
      {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
  bool good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'j')
      out->json = true;
    else if (option == 'n')
      good = bench_parse_number(optarg, LAYER_NODES, 40000, &out->nodes);
    else if (option == 'p')
      good = bench_parse_number(optarg, 1, 10000, &out->patterns);
    else if (option == 'r')
      good = bench_parse_number(optarg, 1, 100, &out->rounds);
    else if (option == 'h')
      out->help = true;
    else
      good = false;
  }
  return good && optind == argc;
}

int main(int argc, char **argv) {
  arguments_t arguments = {.nodes = 10000, .patterns = 200, .rounds = 5};
  bench_report_t report;
  if (!parse(argc, argv, &arguments)) {
    (void)fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help)
    return fputs(usage, stdout) < 0;
  bench_begin(&report, "patterns", arguments.json);
  bool good = true;
  for (int kind = 0; good && kind < KIND_COUNT; kind++)
    good = measure(&report, &arguments, (kind_t)kind);
  return good ? 0 : BENCH_EXIT_FAILED;
}

// SPDX-License-Identifier: Apache-2.0
// The case "graphs" of bench_minilm: what the first call at a size that was never seen costs in
// mode reduce-overhead, once the largest size has been called; beside kernels launched one by one.
#include "bench/minilm.h"
#include "ductile/experimental.h"

#include <stdlib.h>

typedef struct size_pair_t {
  int64_t batch, length;
} size_pair_t;

// What a graph's nodes may have set for a call.
enum { NODES, GRIDS, SHARED, FUNCTIONS, SETS };

// A first call at a size may take so much longer than the later ones, or this share of them.
#define ALLOWED_NS 30e3
#define ALLOWED_SHARE 0.3

// What one mode showed. Nanoseconds; a first call during which memory was mapped counts apart.
typedef struct firsts_t {
  // Of each shape: the first call less, and over, the median of later ones; and what it takes
  // beyond that, over what it may.
  double *beyond, *ratios, *allowed;
  double *set[SETS];   // what was set for it
  long count;          // of all of these
  long growths;        // first calls that mapped memory
  double worst_growth; // the slowest of them
  uint64_t builds;     // graphs assembled after the largest shape's call
} firsts_t;

// Shapes no two of which are equal, in random order, the largest not among them.
static void draw(const minilm_graph_limits_t *limits, size_pair_t *shapes) {
  uint64_t state = 20261122;
  for (long count = 0; count < limits->shapes;) {
    size_pair_t shape = {bench_random(&state, 1, limits->batch),
                         bench_random(&state, 1, limits->length)};
    bool fresh = shape.batch < limits->batch || shape.length < limits->length;
    for (long i = 0; i < count && fresh; i++)
      fresh = shapes[i].batch != shape.batch || shapes[i].length != shape.length;
    if (fresh)
      shapes[count++] = shape;
  }
}

static bool stats_of(minilm_bench_t *bench, dt_session_counters_t *out) {
  *out = (dt_session_counters_t){.struct_size = sizeof *out};
  return bench_ok(dt_session_counters(bench->session, out), "reading the session's counters");
}

static bool call_at(minilm_bench_t *bench, dt_function_t *function, size_pair_t shape,
                    double *out_ns) {
  return bench_ok(minilm_io_bind(&bench->io, shape.batch, shape.length), "binding") &&
         bench_ok(minilm_call(bench, function, out_ns), "calling");
}

// The first call at `shape`, and the median of those that follow.
static bool one_shape(minilm_bench_t *bench, dt_function_t *function, size_pair_t shape,
                      firsts_t *out) {
  dt_session_counters_t before, after;
  double first = 0, *later = calloc((size_t)bench->graphs.later, sizeof *later);
  bool good = later && stats_of(bench, &before) && call_at(bench, function, shape, &first) &&
              stats_of(bench, &after);
  for (long i = 0; i < bench->graphs.later && good; i++)
    good = bench_ok(minilm_call(bench, function, &later[i]), "calling");
  double steady = good ? bench_median(later, (size_t)bench->graphs.later) : 0;
  free(later);
  if (!good)
    return false;
  if (after.growths > before.growths) {
    out->growths++;
    out->worst_growth = first > out->worst_growth ? first : out->worst_growth;
  } else {
    double share = ALLOWED_SHARE * steady;
    out->beyond[out->count] = first - steady;
    out->ratios[out->count] = first / steady;
    out->allowed[out->count] = (first - steady) / (share > ALLOWED_NS ? share : ALLOWED_NS);
    out->set[NODES][out->count] = (double)(after.nodes_set - before.nodes_set);
    out->set[GRIDS][out->count] = (double)(after.grids_set - before.grids_set);
    out->set[SHARED][out->count] = (double)(after.shared_set - before.shared_set);
    out->set[FUNCTIONS][out->count++] = (double)(after.functions_set - before.functions_set);
  }
  return true;
}

// That every call ran as a graph, of one variant, by compiled code; else these figures mean
// nothing.
static bool all_were_graphs(minilm_bench_t *bench, dt_function_t *function,
                            const dt_session_counters_t *stats) {
  dt_function_counters_t of = {.struct_size = sizeof of};
  if (!bench_ok(dt_function_counters(function, &of), "reading the counters"))
    return false;
  bench_limited(&bench->report, "graphs", "variants", "count", of.variants, 1);
  bench_value(&bench->report, "graphs", "kernels of a call", "count", (double)of.kernels);
  bench_limited(&bench->report, "graphs", "evaluator calls", "count", (double)of.evaluator_calls,
                0);
  bench_value(&bench->report, "graphs", "calls as graphs", "count", (double)stats->graph_calls);
  bench_limited(&bench->report, "graphs", "skips", "count", (double)stats->graph_skips, 0);
  if (of.variants == 1 && of.evaluator_calls == 0 && of.graph_calls == of.calls &&
      stats->graph_skips == 0)
    return true;
  fprintf(stderr, "bench: graphs: %llu of %llu calls ran as graphs (%s), %u variants\n",
          (unsigned long long)of.graph_calls, (unsigned long long)of.calls,
          stats->graph_skip ? stats->graph_skip : "none skipped", of.variants);
  return false;
}

// All shapes in one mode, with a function and a session of their own.
static bool run_mode(minilm_bench_t *bench, dt_call_mode_t mode, const size_pair_t *shapes,
                     firsts_t *out) {
  dt_function_t *function = minilm_prepared(bench);
  const dt_session_options_t on = {.struct_size = sizeof on, .device = bench->device};
  dt_session_t *kept = bench->session;
  dt_session_counters_t begin, end;
  double unused;
  // What fills the inputs' memory is queued there.
  bool good = function && bench_ok(dt_session_wait(kept), "waiting");
  bench->session = NULL;
  bench->mode = mode;
  good =
      good && bench_ok(dt_session_create(bench->runtime, &on, &bench->session), "a session") &&
      call_at(bench, function, (size_pair_t){bench->graphs.batch, bench->graphs.length}, &unused);
  good = good && stats_of(bench, &begin);
  for (long i = 0; i < bench->graphs.shapes && good; i++)
    good = one_shape(bench, function, shapes[i], out);
  good = good && stats_of(bench, &end);
  out->builds = good ? end.builds - begin.builds : 0;
  if (good && mode == DT_CALL_REDUCE_OVERHEAD)
    good = all_were_graphs(bench, function, &end);
  dt_session_destroy(bench->session);
  bench->session = kept;
  dt_function_release(function);
  return good;
}

static void report_quantiles(minilm_bench_t *bench, const char *name, firsts_t *firsts) {
  static const struct {
    const char *beyond, *ratio, *allowed;
    double share;
  } rows[] = {{"first call - steady, p50", "first call / steady, p50",
               "first call beyond its allowance, p50", 0.5},
              {"first call - steady, p99", "first call / steady, p99",
               "first call beyond its allowance, p99", 0.99},
              {"first call - steady, worst", "first call / steady, worst",
               "first call beyond its allowance, worst", 1}};
  size_t count = (size_t)firsts->count;
  bench_sort(firsts->beyond, count);
  bench_sort(firsts->ratios, count);
  bench_sort(firsts->allowed, count);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    bench_value(&bench->report, name, rows[i].beyond, "us",
                bench_quantile(firsts->beyond, count, rows[i].share) / 1e3);
    bench_value(&bench->report, name, rows[i].ratio, "ratio",
                bench_quantile(firsts->ratios, count, rows[i].share));
    bench_value(&bench->report, name, rows[i].allowed, "ratio",
                bench_quantile(firsts->allowed, count, rows[i].share));
  }
}

static void report_sets(minilm_bench_t *bench, const char *name, firsts_t *firsts) {
  static const char *const rows[SETS][2] = {
      [NODES] = {"nodes set a first call, median", "nodes set a first call, most"},
      [GRIDS] = {"grids set a first call, median", "grids set a first call, most"},
      [SHARED] = {"shared memory set a first call, median", "shared memory set a first call, most"},
      [FUNCTIONS] = {"functions set a first call, median", "functions set a first call, most"}};
  size_t count = (size_t)firsts->count;
  for (int i = 0; i < SETS; i++) {
    bench_sort(firsts->set[i], count);
    bench_value(&bench->report, name, rows[i][0], "count",
                bench_quantile(firsts->set[i], count, 0.5));
    bench_value(&bench->report, name, rows[i][1], "count",
                bench_quantile(firsts->set[i], count, 1));
  }
}

static void report(minilm_bench_t *bench, const char *name, firsts_t *firsts) {
  report_quantiles(bench, name, firsts);
  report_sets(bench, name, firsts);
  bench_value(&bench->report, name, "shapes", "count", (double)bench->graphs.shapes);
  bench_limited(&bench->report, name, "graphs built", "count", (double)firsts->builds, 0);
  bench_value(&bench->report, name, "first calls that mapped memory", "count",
              (double)firsts->growths);
  bench_value(&bench->report, name, "slowest of them", "us", firsts->worst_growth / 1e3);
}

// Lists of firsts_t.
enum { LISTS = 3 + SETS };

static void place(firsts_t *firsts, double *values, size_t count) {
  firsts->beyond = values;
  firsts->ratios = values + count;
  firsts->allowed = values + 2 * count;
  for (size_t i = 0; i < SETS; i++)
    firsts->set[i] = values + (3 + i) * count;
}

bool minilm_case_graphs(minilm_bench_t *bench) {
  if (bench->device == DT_CPU) {
    fprintf(stderr, "bench: graphs: a CPU has no graphs; a GPU (--device) has\n");
    return false;
  }
  size_t count = (size_t)bench->graphs.shapes;
  size_pair_t *shapes = calloc(count, sizeof *shapes);
  double *values = calloc(2 * LISTS * count, sizeof *values);
  dt_call_mode_t asked = bench->mode;
  bool good = shapes && values;
  if (!good)
    fprintf(stderr, "bench: out of memory\n");
  firsts_t graphs = {0}, plain = {0};
  if (good) {
    place(&graphs, values, count);
    place(&plain, values + LISTS * count, count);
    draw(&bench->graphs, shapes);
  }
  good = good && run_mode(bench, DT_CALL_REDUCE_OVERHEAD, shapes, &graphs) &&
         run_mode(bench, DT_CALL_PLAIN, shapes, &plain);
  if (good) {
    report(bench, "graphs, new sizes", &graphs);
    report(bench, "plain launches, new sizes", &plain);
  }
  bench->mode = asked;
  free(values);
  free(shapes);
  return good;
}

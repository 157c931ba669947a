// SPDX-License-Identifier: Apache-2.0
// The case "growth" of bench_graphs: sizes that become larger from call to call. Calls for which
// memory is mapped count apart from others at sizes that are new.
#include "bench/graphs.h"
#include "ductile/experimental.h"

#include <stdlib.h>

enum { LATER = 9 };

typedef struct growths_t {
  double *grown, *others; // nanoseconds beyond the steady call there
  size_t n_grown, n_others;
} growths_t;

// A small one for the fake driver.
static const graphs_program_t *program_of(const graphs_bench_t *bench) {
  return bench->tiny ? &graphs_stem : &graphs_encoder;
}

static double mapped(const dt_session_counters_t *stats) {
  return (double)(stats->pool_bytes + stats->scratch_bytes);
}

// The first call at a size, and later ones.
static bool step(graphs_place_t *place, dt_function_t *function, graphs_size_t size,
                 growths_t *out) {
  const graphs_program_t *program = program_of(place->bench);
  dt_session_counters_t before, after;
  double first, later[LATER];
  bool good = graphs_stats(place, &before) &&
              graphs_call(place, program, function, size, DT_CALL_REDUCE_OVERHEAD, &first) &&
              graphs_stats(place, &after);
  for (int i = 0; i < LATER && good; i++)
    good = graphs_call(place, program, function, size, DT_CALL_REDUCE_OVERHEAD, &later[i]);
  double beyond = good ? first - bench_median(later, LATER) : 0;
  if (good && after.growths > before.growths)
    out->grown[out->n_grown++] = beyond;
  else if (good)
    out->others[out->n_others++] = beyond;
  return good;
}

static void report(graphs_bench_t *bench, growths_t *growths, const dt_session_counters_t *first,
                   const dt_session_counters_t *last) {
  bench_report_t *to = &bench->report;
  bench_sort(growths->grown, growths->n_grown);
  bench_sort(growths->others, growths->n_others);
  bench_value(to, "growth", "calls that mapped memory", "count", (double)growths->n_grown);
  bench_value(to, "growth", "memory mapped by them", "MiB",
              (mapped(last) - mapped(first)) / 0x1p20);
  bench_value(to, "growth", "beyond the steady call, p50", "us",
              bench_quantile(growths->grown, growths->n_grown, 0.5) / 1e3);
  bench_limited(to, "growth", "beyond the steady call, worst", "us",
                bench_quantile(growths->grown, growths->n_grown, 1) / 1e3, 1000);
  bench_value(to, "growth", "longest mapping, the first call's too", "us",
              (double)last->growth_ns / 1e3);
  bench_value(to, "growth", "other calls at new sizes", "count", (double)growths->n_others);
  bench_value(to, "growth", "others beyond the steady call, p50", "us",
              bench_quantile(growths->others, growths->n_others, 0.5) / 1e3);
  bench_value(to, "growth", "others beyond the steady call, worst", "us",
              bench_quantile(growths->others, growths->n_others, 1) / 1e3);
  bench_limited(to, "growth", "skips", "count", (double)last->graph_skips, 0);
}

// By one row of a batch at a time, then twice as much each: small steps and large ones.
static bool walk(graphs_bench_t *bench, graphs_place_t *place, dt_function_t *function,
                 graphs_size_t most, growths_t *growths) {
  dt_session_counters_t first, last;
  const graphs_program_t *program = program_of(bench);
  graphs_size_t size = {1, 1};
  bool good = true;
  for (int i = 0; i < 3 && good; i++) // builds the graph
    good = graphs_call(place, program, function, size, DT_CALL_REDUCE_OVERHEAD, NULL);
  good = good && graphs_stats(place, &first);
  for (size.b = most.b; size.a <= most.a / 4 && good; size.a++)
    good = step(place, function, size, growths);
  for (; size.a <= most.a && good; size.a *= 2)
    good = step(place, function, size, growths);
  good = good && step(place, function, most, growths) && graphs_stats(place, &last);
  if (!good)
    return false;
  report(bench, growths, &first, &last);
  return last.graph_skips == 0 || graphs_fail("skips", (double)last.graph_skips, 0);
}

bool graphs_case_growth(graphs_bench_t *bench) {
  graphs_size_t most = bench->tiny ? (graphs_size_t){4, 1} : (graphs_size_t){256, 128};
  const graphs_program_t *program = program_of(bench);
  dt_function_t *function = graphs_function(bench, program);
  graphs_place_t place = {0};
  growths_t growths = {.grown = calloc((size_t)most.a + 16, sizeof(double)),
                       .others = calloc((size_t)most.a + 16, sizeof(double))};
  bool good = function && growths.grown && growths.others &&
              graphs_open(bench, graphs_elements(bench, program, most), &place) &&
              walk(bench, &place, function, most, &growths);
  graphs_close(&place);
  dt_function_release(function);
  free(growths.grown);
  free(growths.others);
  return good;
}

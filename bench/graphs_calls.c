// SPDX-License-Identifier: Apache-2.0
// Cases of bench_graphs with one session: the host's part of a call, memory over many shapes, a
// path of three functions with two branches.
#include "bench/graphs.h"
#include "ductile/experimental.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- The host's part of a call ------------------------------------------------------------------

enum { HOST_SAMPLES = 20000, HOST_BLOCK = 50 };

typedef enum host_change_t { CHANGE_NOTHING, CHANGE_ADDRESSES, CHANGE_SIZES } host_change_t;

// One mode under one kind of change: its samples, in nanoseconds.
typedef struct host_side_t {
  dt_call_mode_t mode;
  graphs_place_t place;
  double *returned, *done;
  size_t count;
} host_side_t;

// The next call's sizes: both numbers other than the last one's.
static graphs_size_t next_size(uint64_t *state, graphs_size_t last, graphs_size_t most) {
  graphs_size_t size = graphs_draw(state, most);
  size.a += size.a == last.a ? (size.a < most.a ? 1 : -1) : 0;
  size.b += size.b == last.b ? (size.b < most.b ? 1 : -1) : 0;
  return size;
}

// A block of calls, each waited for before the next one.
static bool host_block(host_side_t *side, dt_function_t *function, host_change_t change,
                       graphs_size_t most) {
  int calls = side->place.bench->tiny ? 1 : HOST_BLOCK;
  uint64_t state = side->count + 1; // the same for both sides
  graphs_size_t size = most;
  for (int i = 0; i < calls && side->count < HOST_SAMPLES; i++) {
    if (change == CHANGE_ADDRESSES)
      side->place.shift = side->place.shift ? 0 : 64;
    if (change == CHANGE_SIZES)
      size = next_size(&state, size, most);
    double returned, done;
    if (!graphs_bind(&side->place, &graphs_chain, size) ||
        !graphs_run(&side->place, function, side->mode, &returned, &done))
      return false;
    side->returned[side->count] = returned;
    side->done[side->count++] = done;
  }
  return true;
}

static void report_host(graphs_bench_t *bench, const char *name, host_side_t *graph,
                        host_side_t *plain) {
  host_side_t *sides[] = {graph, plain};
  for (size_t i = 0; i < 2; i++) {
    bench_sort(sides[i]->returned, sides[i]->count);
    bench_sort(sides[i]->done, sides[i]->count);
  }
  static const struct {
    const char *returned, *done;
    double share;
  } rows[] = {{"until dt_call returns, median", "until the result is there, median", 0.5},
              {"until dt_call returns, p99", "until the result is there, p99", 0.99}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    double share = rows[i].share;
    bench_time(&bench->report, name, rows[i].returned, "us",
               bench_quantile(graph->returned, graph->count, share) / 1e3, "plain launches",
               bench_quantile(plain->returned, plain->count, share) / 1e3);
    bench_time(&bench->report, name, rows[i].done, "us",
               bench_quantile(graph->done, graph->count, share) / 1e3, "plain launches",
               bench_quantile(plain->done, plain->count, share) / 1e3);
  }
  bench_value(&bench->report, name, "calls", "count", (double)graph->count);
}

// What the graphs' session did in all the calls of a kind; false if a call was no graph.
static bool report_sets(graphs_bench_t *bench, const char *name, const host_side_t *graph,
                        const dt_session_counters_t *before) {
  dt_session_counters_t after;
  if (!graphs_stats(&graph->place, &after))
    return false;
  double calls = (double)(after.graph_calls - before->graph_calls);
  bench_value(&bench->report, name, "unchanged, share of calls", "ratio",
              (double)(after.unchanged_calls - before->unchanged_calls) / calls);
  bench_value(&bench->report, name, "nodes set a call", "count",
              (double)(after.nodes_set - before->nodes_set) / calls);
  bench_value(&bench->report, name, "grids set a call", "count",
              (double)(after.grids_set - before->grids_set) / calls);
  bench_value(&bench->report, name, "shared memory set a call", "count",
              (double)(after.shared_set - before->shared_set) / calls);
  bench_value(&bench->report, name, "functions set a call", "count",
              (double)(after.functions_set - before->functions_set) / calls);
  bench_limited(&bench->report, name, "skips", "count", (double)after.graph_skips, 0);
  return after.graph_skips == 0 || graphs_fail("skips", (double)after.graph_skips, 0);
}

static bool host_measure(graphs_bench_t *bench, dt_function_t *function, host_side_t *graph,
                         host_side_t *plain, host_change_t change) {
  static const char *const names[] = {"host, equal sizes", "host, equal sizes, other addresses",
                                      "host, all sizes changed"};
  graphs_size_t most = bench->tiny ? (graphs_size_t){4, 5} : (graphs_size_t){256, 256};
  dt_session_counters_t before;
  bool good = true;
  // The first calls are not counted.
  for (int warm = bench->tiny ? 1 : 2; warm > 0 && good; warm--) {
    graph->count = plain->count = HOST_SAMPLES - HOST_BLOCK;
    good = host_block(graph, function, change, most) && host_block(plain, function, change, most);
  }
  graph->count = plain->count = 0;
  good = good && graphs_stats(&graph->place, &before);
  double end = bench_now_ns() + bench->seconds * 1e9;
  while (good && graph->count < HOST_SAMPLES && (graph->count == 0 || bench_now_ns() < end))
    good = host_block(graph, function, change, most) && host_block(plain, function, change, most);
  if (good)
    report_host(bench, names[change], graph, plain);
  return good && report_sets(bench, names[change], graph, &before);
}

// That a call launches as many kernels as these figures are about.
static bool check_chain(graphs_bench_t *bench, dt_function_t *function, host_side_t *side,
                        graphs_size_t size) {
  dt_function_counters_t before = {.struct_size = sizeof before}, after = before;
  if (!graphs_call(&side->place, &graphs_chain, function, size, side->mode, NULL) ||
      !bench_ok(dt_function_counters(function, &before), "reading the counters") ||
      !graphs_call(&side->place, &graphs_chain, function, size, side->mode, NULL) ||
      !bench_ok(dt_function_counters(function, &after), "reading the counters"))
    return false;
  double launches = (double)(after.launches - before.launches);
  bool graph = side->mode == DT_CALL_REDUCE_OVERHEAD;
  bench_value(&bench->report, "host", graph ? "kernels of a graph" : "launches of a call", "count",
              launches);
  return (launches == GRAPHS_CHAIN_KERNELS && after.kernels == GRAPHS_CHAIN_KERNELS) ||
         graphs_fail("kernels of the chain", launches, GRAPHS_CHAIN_KERNELS);
}

bool graphs_case_host(graphs_bench_t *bench) {
  graphs_size_t most = bench->tiny ? (graphs_size_t){4, 5} : (graphs_size_t){256, 256};
  double *samples = calloc((size_t)HOST_SAMPLES * 4, sizeof *samples);
  dt_function_t *function = graphs_function(bench, &graphs_chain);
  host_side_t graph = {.mode = DT_CALL_REDUCE_OVERHEAD}, plain = {.mode = DT_CALL_PLAIN};
  bool good = samples && function && graphs_open(bench, most.a * most.b, &graph.place) &&
              graphs_open(bench, most.a * most.b, &plain.place);
  if (good) {
    graph.returned = samples;
    graph.done = samples + HOST_SAMPLES;
    plain.returned = samples + (size_t)HOST_SAMPLES * 2;
    plain.done = samples + (size_t)HOST_SAMPLES * 3;
  }
  good = good && check_chain(bench, function, &graph, most) &&
         check_chain(bench, function, &plain, most) &&
         host_measure(bench, function, &graph, &plain, CHANGE_NOTHING) &&
         host_measure(bench, function, &graph, &plain, CHANGE_ADDRESSES) &&
         host_measure(bench, function, &graph, &plain, CHANGE_SIZES);
  graphs_close(&graph.place);
  graphs_close(&plain.place);
  dt_function_release(function);
  free(samples);
  return good;
}

// ---- Memory over many shapes --------------------------------------------------------------------

static double held_by(const dt_session_counters_t *stats) {
  return (double)(stats->pool_bytes + stats->scratch_bytes + stats->executable_bytes);
}

static bool report_memory(graphs_bench_t *bench, const dt_session_counters_t *first,
                          const dt_session_counters_t *last, int64_t device_first,
                          int64_t device_last) {
  bench_report_t *report = &bench->report;
  bench_value(report, "memory", "shapes", "count", (double)bench->shapes);
  bench_value(report, "memory", "session after the largest", "B", held_by(first));
  bench_value(report, "memory", "session after all", "B", held_by(last));
  bench_value(report, "memory", "of it pool", "B", (double)last->pool_bytes);
  bench_value(report, "memory", "of it scratch", "B", (double)last->scratch_bytes);
  bench_value(report, "memory", "of it graphs", "B", (double)last->executable_bytes);
  bench_value(report, "memory", "session after all / after the largest", "ratio",
              held_by(last) / held_by(first));
  bench_value(report, "memory", "graphs built after the largest", "count",
              (double)(last->builds - first->builds));
  if (device_first > 0)
    bench_value(report, "memory", "device memory in use, growth", "B",
                (double)(device_last - device_first));
  bench_limited(report, "memory", "skips", "count", (double)last->graph_skips, 0);
  return last->graph_skips == 0 || graphs_fail("skips", (double)last->graph_skips, 0);
}

bool graphs_case_memory(graphs_bench_t *bench) {
  graphs_size_t most = bench->tiny ? (graphs_size_t){2, 3} : (graphs_size_t){64, 128};
  dt_function_t *function = graphs_function(bench, &graphs_encoder);
  graphs_place_t place = {0};
  dt_session_counters_t first, last;
  uint64_t state = 3;
  int64_t device_first = 0, device_last = 0;
  bool good = function && graphs_open(bench, graphs_elements(bench, &graphs_encoder, most), &place);
  for (int i = 0; i < 2 && good; i++)
    good = graphs_call(&place, &graphs_encoder, function, most, DT_CALL_REDUCE_OVERHEAD, NULL);
  good = good && graphs_stats(&place, &first);
  device_first = good ? graphs_device_bytes() : 0;
  for (long i = 0; i < bench->shapes && good; i++)
    good = graphs_call(&place, &graphs_encoder, function, graphs_draw(&state, most),
                       DT_CALL_REDUCE_OVERHEAD, NULL);
  device_last = good ? graphs_device_bytes() : 0;
  good = good && graphs_stats(&place, &last) &&
         report_memory(bench, &first, &last, device_first, device_last);
  graphs_close(&place);
  dt_function_release(function);
  return good;
}

// ---- A path with branches -----------------------------------------------------------------------

enum { PATH_STEM, PATH_LEFT, PATH_RIGHT, PATH_HEAD, PATH_FUNCTIONS };
static const graphs_program_t *const path_programs[PATH_FUNCTIONS] = {[PATH_STEM] = &graphs_stem,
                                                                      [PATH_LEFT] = &graphs_left,
                                                                      [PATH_RIGHT] = &graphs_right,
                                                                      [PATH_HEAD] = &graphs_head};

typedef struct path_t {
  graphs_bench_t *bench;
  dt_function_t *functions[PATH_FUNCTIONS];
  float *got, *expected;
} path_t;

// One generation, as a server has it: results are the session's. *to receives the last result,
// where it is wanted.
static bool generation(const path_t *path, graphs_place_t *place, dt_call_mode_t mode, int branch,
                       int64_t rows, float *to) {
  const int order[3] = {PATH_STEM, branch, PATH_HEAD};
  const dt_call_options_t options = {.struct_size = sizeof options, .mode = mode};
  dt_tensor_t *results[3] = {NULL};
  bool good = graphs_bind(place, &graphs_stem, (graphs_size_t){rows, 1}) &&
              bench_ok(dt_step_begin(place->session), "beginning a generation");
  for (int i = 0; i < 3 && good; i++)
    good = bench_ok(dt_call(place->session, path->functions[order[i]],
                            i ? &results[i - 1] : place->views, 1, &results[i], 1, &options),
                    path_programs[order[i]]->name);
  size_t bytes = (size_t)(rows * path->bench->hidden) * sizeof *to;
  if (good && to)
    good = bench_ok(dt_tensor_read(place->session, results[2], to, bytes), "reading");
  else if (good)
    good = bench_ok(dt_session_wait(place->session), "waiting");
  for (int i = 0; i < 3; i++)
    dt_tensor_release(results[i]);
  return good;
}

// The same generation with kernels one by one must give the same numbers.
static bool check_generation(const path_t *path, graphs_place_t *place, graphs_place_t *plain,
                             int branch, int64_t rows) {
  if (!generation(path, place, DT_CALL_REDUCE_OVERHEAD, branch, rows, path->got) ||
      !generation(path, plain, DT_CALL_PLAIN, branch, rows, path->expected))
    return false;
  for (int64_t i = 0; i < rows * path->bench->hidden; i++)
    if (path->got[i] != path->expected[i] || !isfinite(path->got[i]))
      return graphs_fail("an element after a path", (double)path->got[i],
                         (double)path->expected[i]);
  return true;
}

static bool report_path(graphs_bench_t *bench, const dt_session_counters_t *warm,
                        const dt_session_counters_t *end, double pool, double *times) {
  bench_report_t *report = &bench->report;
  size_t count = (size_t)bench->generations;
  bench_value(report, "path", "generations", "count", (double)count);
  bench_limited(report, "path", "graphs built after each branch's first", "count",
                (double)(end->builds - warm->builds), 0);
  bench_value(report, "path", "graphs held", "count", (double)end->executables);
  bench_value(report, "path", "pool", "B", (double)end->pool_bytes);
  bench_value(report, "path", "pool / pool of the larger branch alone", "ratio",
              (double)end->pool_bytes / pool);
  bench_limited(report, "path", "skips", "count", (double)end->graph_skips, 0);
  bench_sort(times, count);
  bench_value(report, "path", "generation, median", "us", bench_quantile(times, count, 0.5) / 1e3);
  bench_value(report, "path", "generation, p99", "us", bench_quantile(times, count, 0.99) / 1e3);
  double calls = 3.0 * (double)count;
  if ((double)(end->graph_calls - warm->graph_calls) < calls)
    return graphs_fail("calls as graphs", (double)(end->graph_calls - warm->graph_calls), calls);
  return (end->graph_skips == 0 || graphs_fail("skips", (double)end->graph_skips, 0)) &&
         (end->builds == warm->builds ||
          graphs_fail("graphs built", (double)(end->builds - warm->builds), 0));
}

static bool run_path(const path_t *path, graphs_place_t *place, graphs_place_t *alone,
                     graphs_place_t *plain, double *times) {
  graphs_bench_t *bench = path->bench;
  int64_t most = bench->tiny ? 4 : 2048;
  dt_session_counters_t warm, end, larger;
  uint64_t state = 5;
  bool good = check_generation(path, place, plain, PATH_LEFT, most) &&
              check_generation(path, place, plain, PATH_RIGHT, most) &&
              check_generation(path, alone, plain, PATH_RIGHT, most) &&
              graphs_stats(place, &warm) && graphs_stats(alone, &larger);
  for (long i = 0; i < bench->generations && good; i++) {
    int branch = bench_random(&state, 0, 1) ? PATH_LEFT : PATH_RIGHT;
    int64_t rows = bench_random(&state, 1, most);
    double begin = bench_now_ns();
    good = generation(path, place, DT_CALL_REDUCE_OVERHEAD, branch, rows, NULL);
    times[i] = bench_now_ns() - begin;
    if (good && i % 1000 == 999)
      good = check_generation(path, place, plain, branch, rows);
  }
  return good && graphs_stats(place, &end) &&
         report_path(bench, &warm, &end, (double)larger.pool_bytes, times);
}

bool graphs_case_path(graphs_bench_t *bench) {
  int64_t elements = (bench->tiny ? 4 : 2048) * bench->hidden;
  double *times = calloc((size_t)bench->generations, sizeof *times);
  path_t path = {.bench = bench,
                 .got = calloc((size_t)elements, sizeof(float)),
                 .expected = calloc((size_t)elements, sizeof(float))};
  graphs_place_t place = {0}, alone = {0}, plain = {0};
  bool good = times && path.got && path.expected && graphs_open(bench, elements, &place) &&
              graphs_open(bench, elements, &alone) && graphs_open(bench, elements, &plain);
  for (int i = 0; i < PATH_FUNCTIONS && good; i++)
    good = (path.functions[i] = graphs_function(bench, path_programs[i])) != NULL;
  good = good && run_path(&path, &place, &alone, &plain, times);
  graphs_close(&place);
  graphs_close(&alone);
  graphs_close(&plain);
  for (int i = 0; i < PATH_FUNCTIONS; i++)
    dt_function_release(path.functions[i]);
  free(path.got);
  free(path.expected);
  free(times);
  return good;
}

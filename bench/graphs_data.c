// SPDX-License-Identifier: Apache-2.0
// Cases of bench_graphs about what data decides inside of one graph: "sized", how many rows there
// are, and "while", how often a loop goes round.
#include "bench/graphs.h"
#include "ductile/experimental.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4000, BLOCK = 20, MOST_SIDES = 3 };

// One way to have the same result.
typedef struct side_t {
  const char *name;
  const graphs_program_t *program;
  dt_function_t *function; // borrowed
  dt_call_mode_t mode;
  graphs_place_t place;
  float *got; // the result of the last checked call
  double samples[SAMPLES];
  size_t count;
} side_t;

// ---- Sides --------------------------------------------------------------------------------------

static bool open_side(graphs_bench_t *bench, side_t *side, graphs_size_t most) {
  int64_t elements = graphs_elements(bench, side->program, most);
  side->got = calloc((size_t)elements, sizeof *side->got);
  return side->function && side->got && graphs_open(bench, elements, &side->place);
}

static void close_side(side_t *side) {
  graphs_close(&side->place);
  free(side->got);
}

static bool call_side(side_t *side, graphs_size_t size, double *ns) {
  return graphs_call(&side->place, side->program, side->function, size, side->mode, ns);
}

static bool answer_of(side_t *side, graphs_size_t size) {
  return call_side(side, size, NULL) && graphs_read(&side->place, side->got);
}

// All sides by turns, in blocks of calls that are waited for; first calls are not counted.
static bool time_sides(graphs_bench_t *bench, side_t *sides, int n, graphs_size_t size,
                       double seconds) {
  bool good = true;
  for (int i = 0; i < n; i++)
    sides[i].count = 0;
  double end = bench_now_ns() + seconds * 1e9, unused;
  int block = bench->tiny ? 1 : BLOCK;
  do {
    for (int i = 0; i < n && good; i++) {
      good = bench->tiny || call_side(&sides[i], size, &unused);
      for (int k = 0; k < block && good && sides[i].count < SAMPLES; k++)
        good = call_side(&sides[i], size, &sides[i].samples[sides[i].count++]);
    }
  } while (good && sides[0].count < SAMPLES && bench_now_ns() < end);
  for (int i = 0; i < n; i++)
    bench_sort(sides[i].samples, sides[i].count);
  return good;
}

static double median_us(const side_t *side) {
  return bench_quantile(side->samples, side->count, 0.5) / 1e3;
}

// Numbers that the host waited for, by this function's calls so far.
static bool readbacks_of(dt_function_t *function, double *out) {
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  bool good = bench_ok(dt_function_counters(function, &stats), "reading the counters");
  *out = good ? (double)stats.readbacks : 0;
  return good;
}

// Whether every call of a side was a graph.
static bool check_graphs(graphs_bench_t *bench, const char *name, const side_t *side) {
  dt_session_counters_t stats;
  if (!graphs_stats(&side->place, &stats))
    return false;
  bench_limited(&bench->report, name, "skips", "count", (double)stats.graph_skips, 0);
  return stats.graph_skips == 0 || graphs_fail("skips", (double)stats.graph_skips, 0);
}

// ---- How many rows ------------------------------------------------------------------------------

// Every n-th row has a mark.
static int64_t mark_rows(float *marks, int64_t rows, int64_t every) {
  int64_t marked = 0;
  for (int64_t i = 0; i < rows; i++) {
    marks[i] = i % every == every - 1 ? 1 : 0;
    marked += marks[i] != 0;
  }
  return marked;
}

// What float64 gives, and how far a sum in f32 may be from it: half a unit of the last place of
// all magnitudes together, for each of 64 additions that an element goes through.
static bool check_sum(const side_t *side, const float *marks, const float *table, int64_t rows,
                      int64_t hidden) {
  for (int64_t c = 0; c < hidden; c++) {
    double sum = 0, all = 0;
    for (int64_t i = 0; i < rows; i++) {
      sum += marks[i] != 0 ? (double)table[i * hidden + c] : 0;
      all += marks[i] != 0 ? fabs((double)table[i * hidden + c]) : 0;
    }
    if (!(fabs((double)side->got[c] - sum) <= all * 64 * 0x1p-24))
      return graphs_fail("a sum of rows", (double)side->got[c], sum);
  }
  return true;
}

typedef struct sized_t {
  graphs_bench_t *bench;
  side_t *sides; // sized, fixed, sized by plain launches
  int64_t rows;
  float *marks, *table;
} sized_t;

static void report_sized(const sized_t *sized, const char *name, int64_t marked) {
  bench_report_t *report = &sized->bench->report;
  double ours = median_us(&sized->sides[0]), fixed = median_us(&sized->sides[1]);
  bench_value(report, name, "rows with a mark", "count", (double)marked);
  bench_time(report, name, "a call, median", "us", ours, "the size known", fixed);
  bench_time(report, name, "a call, median, beside plain launches", "us", ours, "plain launches",
             median_us(&sized->sides[2]));
  bench_limited(report, name, "over the size known", "ratio", ours / fixed, 1.15);
}

// One number of marks, right on all sides and then timed.
static bool one_share(const sized_t *sized, int64_t every) {
  graphs_bench_t *bench = sized->bench;
  int64_t marked = mark_rows(sized->marks, sized->rows, every);
  graphs_size_t size = {sized->rows, marked};
  char name[48];
  (void)snprintf(name, sizeof name, "sized, 1 row of %lld", (long long)every);
  size_t bytes = (size_t)bench->hidden * sizeof(float);
  for (int i = 0; i < MOST_SIDES; i++) {
    side_t *side = &sized->sides[i];
    if (!graphs_write(&side->place, 0, sized->marks, sized->rows) || !answer_of(side, size) ||
        !check_sum(side, sized->marks, sized->table, sized->rows, bench->hidden))
      return false;
    if (i && side->program == &graphs_picked && memcmp(side->got, sized->sides[0].got, bytes) != 0)
      return graphs_fail("bits of a graph and of plain launches that differ", 1, 0);
  }
  if (!time_sides(bench, sized->sides, MOST_SIDES, size, bench->seconds / 4))
    return false;
  report_sized(sized, name, marked);
  return true;
}

static bool run_sized(const sized_t *sized) {
  static const int64_t shares[] = {1, 2, 16, 512};
  graphs_bench_t *bench = sized->bench;
  dt_function_t *functions[] = {sized->sides[0].function, sized->sides[1].function};
  double readbacks[2];
  bool good = true;
  for (size_t i = 0; i < sizeof shares / sizeof shares[0] && good; i++)
    good = (bench->tiny && i > 1) || one_share(sized, shares[i]);
  for (int i = 0; i < 2 && good; i++)
    good = readbacks_of(functions[i], &readbacks[i]) &&
           check_graphs(bench, i ? "sized, the size known" : "sized", &sized->sides[i]);
  if (good)
    bench_limited(&bench->report, "sized", "readbacks", "count", readbacks[0], 0);
  return good && (readbacks[0] == 0 || graphs_fail("readbacks", readbacks[0], 0));
}

bool graphs_case_sized(graphs_bench_t *bench) {
  sized_t sized = {.bench = bench, .rows = bench->tiny ? 6 : 8192};
  size_t elements = (size_t)(sized.rows * bench->hidden);
  dt_function_t *picked = graphs_function(bench, &graphs_picked);
  dt_function_t *fixed = graphs_function(bench, &graphs_picked_fixed);
  sized.sides = calloc(MOST_SIDES, sizeof *sized.sides);
  sized.marks = calloc((size_t)sized.rows, sizeof *sized.marks);
  sized.table = calloc(elements, sizeof *sized.table);
  bool good = picked && fixed && sized.sides && sized.marks && sized.table;
  uint64_t state = 31;
  for (size_t i = 0; good && i < elements; i++)
    sized.table[i] = (float)bench_random(&state, -1000, 1000) / 1000;
  for (int i = 0; i < MOST_SIDES && good; i++) {
    side_t *side = &sized.sides[i];
    side->program = i == 1 ? &graphs_picked_fixed : &graphs_picked;
    side->function = i == 1 ? fixed : picked;
    side->mode = i == 2 ? DT_CALL_PLAIN : DT_CALL_REDUCE_OVERHEAD;
    good = open_side(bench, side, (graphs_size_t){sized.rows, sized.rows}) &&
           graphs_write(&side->place, 1, sized.table, (int64_t)elements);
  }
  good = good && run_sized(&sized);
  for (int i = 0; i < MOST_SIDES && sized.sides; i++)
    close_side(&sized.sides[i]);
  free(sized.sides);
  free(sized.marks);
  free(sized.table);
  dt_function_release(picked);
  dt_function_release(fixed);
  return good;
}

// ---- How often a loop goes round ----------------------------------------------------------------

enum { LOOP_GRAPH, LOOP_PLAIN, LOOP_UNROLLED, LOOP_SIDES };

static bool set_trips(side_t *sides, float trips) {
  return graphs_write(&sides[LOOP_GRAPH].place, 1, &trips, 1) &&
         graphs_write(&sides[LOOP_PLAIN].place, 1, &trips, 1);
}

// The loop as a graph gives the bits of plain launches, and where it goes round as often, what the
// unrolled one gives: sums may be in another order there, and each layer adds numbers of its size.
static bool check_loop(graphs_bench_t *bench, side_t *sides, graphs_size_t size, int trips) {
  int64_t count = size.a * bench->hidden;
  bool unrolled = trips == bench->trips;
  for (int i = 0; i < (unrolled ? LOOP_SIDES : LOOP_UNROLLED); i++)
    if (!answer_of(&sides[i], size))
      return false;
  for (int64_t i = 0; i < count; i++) {
    float got = sides[LOOP_GRAPH].got[i];
    if (!isfinite(got) || got != sides[LOOP_PLAIN].got[i])
      return graphs_fail("an element after a loop", (double)got, (double)sides[LOOP_PLAIN].got[i]);
    if (unrolled && !(fabsf(got - sides[LOOP_UNROLLED].got[i]) <= 1e-3f))
      return graphs_fail("an element after a loop, unrolled", (double)sides[LOOP_UNROLLED].got[i],
                         (double)got);
  }
  return true;
}

static void report_loop(graphs_bench_t *bench, const side_t *sides, int64_t rows, int trips,
                        double no_trip) {
  bench_report_t *report = &bench->report;
  char name[48];
  (void)snprintf(name, sizeof name, "while, %lld rows, %d trips", (long long)rows, trips);
  double ours = median_us(&sides[LOOP_GRAPH]);
  bench_time(report, name, "a call, median", "us", ours, "plain launches",
             median_us(&sides[LOOP_PLAIN]));
  if (trips)
    bench_value(report, name, "a trip", "us", (ours - no_trip) / trips);
  if (trips == bench->trips)
    bench_time(report, name, "a call, median, beside the loop unrolled", "us", ours,
               "a graph of all trips", median_us(&sides[LOOP_UNROLLED]));
}

static bool time_loop(graphs_bench_t *bench, side_t *sides, int64_t rows) {
  const int trips[] = {0, 1, bench->trips, 4 * bench->trips};
  double no_trip = 0;
  for (size_t i = 0; i < sizeof trips / sizeof trips[0]; i++) {
    graphs_size_t size = {rows, 1};
    int n = trips[i] == bench->trips ? LOOP_SIDES : LOOP_UNROLLED;
    if (bench->tiny && trips[i] > bench->trips)
      continue;
    if (!set_trips(sides, (float)trips[i]) || !check_loop(bench, sides, size, trips[i]) ||
        !time_sides(bench, sides, n, size, bench->seconds / 8))
      return false;
    if (!trips[i])
      no_trip = median_us(&sides[LOOP_GRAPH]);
    report_loop(bench, sides, rows, trips[i], no_trip);
  }
  return true;
}

// Calls of the graph wait for nothing; the same by plain launches reads a byte for each decision.
static bool check_readbacks(graphs_bench_t *bench, side_t *sides, graphs_size_t size) {
  double before, graph, plain;
  dt_function_t *function = sides[LOOP_GRAPH].function;
  if (!set_trips(sides, 3) || !readbacks_of(function, &before) ||
      !call_side(&sides[LOOP_GRAPH], size, NULL) || !readbacks_of(function, &graph) ||
      !call_side(&sides[LOOP_PLAIN], size, NULL) || !readbacks_of(function, &plain))
    return false;
  bench_limited(&bench->report, "while", "readbacks of a graph", "count", graph - before, 0);
  bench_value(&bench->report, "while", "readbacks of launches, 3 trips", "count", plain - graph);
  return graph == before || graphs_fail("readbacks", graph - before, 0);
}

bool graphs_case_while(graphs_bench_t *bench) {
  graphs_size_t most = {bench->tiny ? 3 : 2048, 1};
  dt_function_t *loop = graphs_function(bench, &graphs_loop);
  dt_function_t *unrolled = graphs_function(bench, &graphs_unrolled);
  side_t *sides = calloc(LOOP_SIDES, sizeof *sides);
  bool good = loop && unrolled && sides;
  for (int i = 0; i < LOOP_SIDES && good; i++) {
    sides[i].program = i == LOOP_UNROLLED ? &graphs_unrolled : &graphs_loop;
    sides[i].function = i == LOOP_UNROLLED ? unrolled : loop;
    sides[i].mode = i == LOOP_PLAIN ? DT_CALL_PLAIN : DT_CALL_REDUCE_OVERHEAD;
    good = open_side(bench, &sides[i], most);
  }
  good = good && check_readbacks(bench, sides, most) && time_loop(bench, sides, most.a) &&
         (bench->tiny || time_loop(bench, sides, 16)) &&
         check_graphs(bench, "while", &sides[LOOP_GRAPH]) &&
         check_graphs(bench, "while, unrolled", &sides[LOOP_UNROLLED]);
  for (int i = 0; i < LOOP_SIDES && sides; i++)
    close_side(&sides[i]);
  free(sides);
  dt_function_release(loop);
  dt_function_release(unrolled);
  return good;
}

// SPDX-License-Identifier: Apache-2.0
// The cases of bench_minilm: what is measured, over which shapes, with which limits.
#include "bench/minilm.h"
#include "ductile/experimental.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape_t {
  int64_t batch, length;
} shape_t;

static const uint64_t seed = 20261121; // of every list of random shapes

static const char *shape_name(const char *before, shape_t shape, char text[64]) {
  snprintf(text, 64, "%s%lldx%lld", before, (long long)shape.batch, (long long)shape.length);
  return text;
}

// ---- Calls --------------------------------------------------------------------------------------

static dt_status_t call_at(minilm_bench_t *bench, dt_function_t *function, shape_t shape,
                           double *out_ns) {
  dt_status_t status = minilm_io_bind(&bench->io, shape.batch, shape.length);
  return status ? status : minilm_call(bench, function, out_ns);
}

// The median of calls at the bound sizes: at least `least`, then for as long as `for_ns`.
static dt_status_t median_of_calls(minilm_bench_t *bench, dt_function_t *function, size_t least,
                                   double for_ns, double *out_ns) {
  enum { MOST = 401 };
  double times[MOST], begin = bench_now_ns();
  size_t count = 0;
  dt_status_t status = NULL;
  while (!status && count < MOST && (count < least || bench_now_ns() - begin < for_ns))
    status = minilm_call(bench, function, &times[count++]);
  *out_ns = bench_median(times, count);
  return status;
}

// The median of calls at `shape` that each come after the work that a new size came after: calls at
// `before` for as long as median_of_calls takes.
static dt_status_t median_of_comings(minilm_bench_t *bench, dt_function_t *function, shape_t before,
                                     shape_t shape, double *out_ns) {
  enum { COMINGS = 3 };
  double times[COMINGS], unused = 0;
  dt_status_t status = NULL;
  for (size_t i = 0; !status && i < COMINGS; i++) {
    status = call_at(bench, function, before, &unused);
    if (!status)
      status = median_of_calls(bench, function, 9, 0.05e9, &unused);
    if (!status)
      status = call_at(bench, function, shape, &times[i]);
  }
  *out_ns = status ? 0 : bench_median(times, COMINGS);
  return status;
}

static dt_function_t *function_of(minilm_bench_t *bench, dt_package_t *package) {
  dt_function_t *function = NULL;
  if (package)
    bench_ok(dt_package_function(package, NULL, NULL, &function), "opening the function");
  else
    bench_ok(minilm_create(bench->runtime, bench->weights, DT_ANSWER_COMPILED, &function),
             "making the model");
  return function;
}

static dt_function_t *make_function(minilm_bench_t *bench) {
  return function_of(bench, bench->package);
}

dt_function_t *minilm_prepared(minilm_bench_t *bench) {
  return minilm_prepared_of(bench, bench->package);
}

dt_function_t *minilm_prepared_of(minilm_bench_t *bench, dt_package_t *package) {
  dt_function_t *function = function_of(bench, package);
  if (function &&
      bench_ok(dt_function_prepare(function, &(dt_prepare_options_t){.device = bench->device}),
               "compiling"))
    return function;
  dt_function_release(function);
  return NULL;
}

// What must hold of every function here: one variant, compiled code only.
static bool report_counters(minilm_bench_t *bench, const char *name, dt_function_t *function) {
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  if (!bench_ok(dt_function_counters(function, &stats), "reading the counters"))
    return false;
  bench_limited(&bench->report, name, "variants", "count", stats.variants, 1);
  bench_limited(&bench->report, name, "compiles", "count", (double)stats.compiles, 1);
  bench_limited(&bench->report, name, "evaluator calls", "count", (double)stats.evaluator_calls, 0);
  bench_value(&bench->report, name, "kernels of a call", "count", (double)stats.kernels);
  return true;
}

// ---- Start --------------------------------------------------------------------------------------

// The steps from nothing to an answer. What a call of known sizes takes afterwards shows how much
// of the first one is the weights' way to the device.
static void report_start(minilm_bench_t *bench, const dt_function_counters_t *stats, double prepare,
                         double first, double second) {
  const minilm_start_t *start = &bench->start;
  bool packed = bench->package != NULL;
  double load = (double)stats->device_load_ns, compile = packed ? load : (double)stats->compile_ns,
         all = start->process + start->runtime + start->session + start->weights + prepare + first;
  const struct {
    const char *metric;
    double ns;
  } rows[] = {{"process", start->process},
              {"runtime", start->runtime},
              {"session: driver and context", start->session},
              {packed ? "package" : "weights from their file", start->weights},
              {packed ? "its traces, weights to the device" : "trace", prepare - compile},
              {"compile", compile - load},
              {"device code: link or cache, load", load},
              {"first call at 1x16, upload", first},
              {"second call", second},
              {"start to first answer", all},
              {"the same without session", all - start->session}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    bench_value(&bench->report, "start", rows[i].metric, "ms", rows[i].ns * 1e-6);
}

bool minilm_case_start(minilm_bench_t *bench) {
  double begin = bench_now_ns(), first = 0, second = 0;
  dt_function_t *function = minilm_prepared(bench);
  double prepare = bench_now_ns() - begin;
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  bool good = function &&
              bench_ok(call_at(bench, function, (shape_t){1, 16}, &first), "first call") &&
              bench_ok(call_at(bench, function, (shape_t){1, 16}, &second), "second call") &&
              bench_ok(dt_function_counters(function, &stats), "reading the counters");
  if (good)
    report_start(bench, &stats, prepare, first, second);
  dt_function_release(function);
  return good;
}

// ---- Cold ---------------------------------------------------------------------------------------

// The first call of a new function: tracing, compiling, packing the weights, computing.
static bool cold_once(minilm_bench_t *bench, const char *name) {
  dt_function_t *function = make_function(bench);
  double ns = 0;
  bool good = function && bench_ok(call_at(bench, function, (shape_t){1, 16}, &ns), "first call");
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  good = good && bench_ok(dt_function_counters(function, &stats), "reading the counters");
  if (good) {
    bench_limited(&bench->report, name, "first call at 1x16", "ms", ns * 1e-6, 1000);
    bench_value(&bench->report, name, "of it compiling", "ms", (double)stats.compile_ns * 1e-6);
    bench_value(&bench->report, name, "code", "KiB", (double)stats.code_bytes / 1024);
    bench_value(&bench->report, name, "packed constants", "MiB",
                (double)stats.constant_bytes / (1 << 20));
    good = report_counters(bench, name, function);
  }
  dt_function_release(function);
  return good;
}

bool minilm_case_cold(minilm_bench_t *bench) {
  return cold_once(bench, "cold") && cold_once(bench, "cold, second function");
}

// ---- Latency ------------------------------------------------------------------------------------

static const shape_t latency_shapes[] = {{1, 1},   {1, 16},   {3, 19},  {1, 64},
                                         {2, 37},  {1, 128},  {5, 41},  {4, 64},
                                         {8, 100}, {16, 128}, {32, 77}, {24, 111}};
static const shape_t device_shapes[] = {{1, 16},  {1, 128},  {2, 37},  {4, 64},
                                        {8, 100}, {16, 128}, {32, 77}, {64, 128}};

static bool latency_at(minilm_bench_t *bench, dt_function_t *function, shape_t shape) {
  char name[64];
  double first = 0, median = 0, guard = 0;
  bool on_device = bench->device != DT_CPU;
  shape_name("", shape, name);
  dt_function_counters_t before = {.struct_size = sizeof before}, after = before;
  bool good =
      bench_ok(dt_function_counters(function, &before), "reading the counters") &&
      bench_ok(call_at(bench, function, shape, &first), name) &&
      bench_ok(dt_function_counters(function, &after), "reading the counters") &&
      bench_ok(median_of_calls(bench, function, on_device ? 201 : 9, 1e9, &median), name) &&
      bench_ok(dt_function_guard_ns(bench->session, function, bench->io.inputs, 2, 10000, &guard),
               "timing the guards");
  if (!good)
    return false;
  bench_value(&bench->report, name, "latency", "ms", median * 1e-6);
  bench_value(&bench->report, name, "guards", "ns", guard);
  if (on_device)
    bench_value(&bench->report, name, "launches of a call", "count",
                (double)(after.launches - before.launches));
  return true;
}

bool minilm_case_latency(minilm_bench_t *bench) {
  bool on_cpu = bench->device == DT_CPU;
  const shape_t *shapes = on_cpu ? latency_shapes : device_shapes;
  size_t count = on_cpu ? sizeof latency_shapes : sizeof device_shapes;
  dt_function_t *function = minilm_prepared(bench);
  bool good = function != NULL;
  for (size_t i = 0; i < count / sizeof shapes[0] && good; i++)
    good = latency_at(bench, function, shapes[i]);
  if (good) {
    bench_value(&bench->report, "latency", "session", "MiB",
                (double)dt_session_bytes(bench->session) / (1 << 20));
    good = report_counters(bench, "latency", function);
  }
  dt_function_release(function);
  return good;
}

// ---- First call at a size -----------------------------------------------------------------------

enum { FIRST_SHAPES = 50, FIRST_TOKENS = 1024, FIRST_ROUNDS = 5 };

// Shapes no two of which are equal, of 1 to FIRST_TOKENS tokens.
static void draw_first_shapes(uint64_t state, shape_t shapes[FIRST_SHAPES]) {
  for (size_t count = 0; count < FIRST_SHAPES;) {
    shape_t shape = {bench_random(&state, 1, 64), bench_random(&state, 1, 512)};
    bool fits = shape.batch * shape.length <= FIRST_TOKENS;
    for (size_t i = 0; i < count && fits; i++)
      fits = shapes[i].batch != shape.batch || shapes[i].length != shape.length;
    if (fits)
      shapes[count++] = shape;
  }
}

// One round over the shapes with a function and a session of their own, so that every size is new.
// `first` and `again` receive each shape's ratios.
static bool first_round(minilm_bench_t *bench, shape_t before, const shape_t *shapes, double *first,
                        double *again) {
  double ns = 0, later = 0, median = 0;
  dt_function_t *function = minilm_prepared(bench);
  dt_session_destroy(bench->session);
  bench->session = NULL;
  const dt_session_options_t on = {.struct_size = sizeof on, .device = bench->device};
  bool good =
      function && bench_ok(dt_session_create(bench->runtime, &on, &bench->session), "a session");
  // Three calls, so that the processor and the threads are awake.
  for (int i = 0; good && i < 3; i++)
    good = bench_ok(call_at(bench, function, before, &ns), "calling");
  for (size_t i = 0; good && i < FIRST_SHAPES; i++) {
    shape_t other = i ? shapes[i - 1] : before;
    good = bench_ok(call_at(bench, function, shapes[i], &ns), "calling") &&
           bench_ok(median_of_calls(bench, function, 9, 0.05e9, &median), "calling") &&
           // What coming from another size costs where the size is not new: caches, and noise.
           bench_ok(median_of_comings(bench, function, other, shapes[i], &later), "calling");
    first[i] = ns / median;
    again[i] = later / median;
  }
  good = good && report_counters(bench, "first", function);
  dt_function_release(function);
  return good;
}

// The p99 is over sizes; so that it is not the machine's noise in single calls, each size's ratio
// is the median of several rounds. The worst single call is printed beside it.
static bool first_calls(minilm_bench_t *bench, const char *name, shape_t before, uint64_t state) {
  shape_t shapes[FIRST_SHAPES];
  double first[FIRST_ROUNDS][FIRST_SHAPES], again[FIRST_ROUNDS][FIRST_SHAPES];
  double ratios[FIRST_SHAPES], controls[FIRST_SHAPES], new_alone[FIRST_SHAPES], single = 0;
  draw_first_shapes(state, shapes);
  for (size_t r = 0; r < FIRST_ROUNDS; r++)
    if (!first_round(bench, before, shapes, first[r], again[r]))
      return false;
  for (size_t i = 0; i < FIRST_SHAPES; i++) {
    double of_first[FIRST_ROUNDS], of_again[FIRST_ROUNDS], of_new[FIRST_ROUNDS];
    for (size_t r = 0; r < FIRST_ROUNDS; r++) {
      of_first[r] = first[r][i];
      of_again[r] = again[r][i];
      of_new[r] = first[r][i] / again[r][i];
      single = first[r][i] > single ? first[r][i] : single;
    }
    ratios[i] = bench_median(of_first, FIRST_ROUNDS);
    controls[i] = bench_median(of_again, FIRST_ROUNDS);
    new_alone[i] = bench_median(of_new, FIRST_ROUNDS);
  }
  bench_sort(ratios, FIRST_SHAPES);
  bench_sort(controls, FIRST_SHAPES);
  bench_sort(new_alone, FIRST_SHAPES);
  bench_value(&bench->report, name, "first call / median, p50", "ratio",
              bench_quantile(ratios, FIRST_SHAPES, 0.5));
  bench_limited(&bench->report, name, "first call / median, p99", "ratio",
                bench_quantile(ratios, FIRST_SHAPES, 0.99), 1.3);
  bench_value(&bench->report, name, "the same at sizes seen before, p99", "ratio",
              bench_quantile(controls, FIRST_SHAPES, 0.99));
  bench_value(&bench->report, name, "first call / later ones that come from the same size, p99",
              "ratio", bench_quantile(new_alone, FIRST_SHAPES, 0.99));
  bench_value(&bench->report, name, "worst single first call / median", "ratio", single);
  return true;
}

bool minilm_case_first(minilm_bench_t *bench) {
  return first_calls(bench, "first, memory grows", (shape_t){1, 16}, seed) &&
         first_calls(bench, "first, memory held", (shape_t){2, 512}, seed + 1);
}

// ---- Memory -------------------------------------------------------------------------------------

enum { MEMORY_SHAPES = 500, MEMORY_TOKENS = 64 };

// All shapes of 1 to MEMORY_TOKENS tokens (there are fewer than MEMORY_SHAPES), then such without
// tokens, shuffled.
static void draw_memory_shapes(shape_t shapes[MEMORY_SHAPES]) {
  size_t count = 0;
  for (int64_t batch = 1; batch <= MEMORY_TOKENS; batch++)
    for (int64_t length = 1; batch * length <= MEMORY_TOKENS; length++)
      shapes[count++] = (shape_t){batch, length};
  for (int64_t size = 0; count < MEMORY_SHAPES; size++) {
    shapes[count++] = (shape_t){0, size};
    if (size && count < MEMORY_SHAPES)
      shapes[count++] = (shape_t){size, 0};
  }
  uint64_t state = seed;
  for (size_t i = MEMORY_SHAPES - 1; i > 0; i--) {
    size_t other = (size_t)bench_random(&state, 0, (int64_t)i);
    shape_t kept = shapes[i];
    shapes[i] = shapes[other];
    shapes[other] = kept;
  }
}

// As a server would: every call makes its output, which is released after use.
static dt_status_t call_and_release(minilm_bench_t *bench, dt_function_t *function, shape_t shape) {
  dt_status_t status = minilm_io_bind(&bench->io, shape.batch, shape.length);
  if (status)
    return status;
  dt_tensor_t *made = NULL;
  status = minilm_call_into(bench, function, &made);
  if (!status)
    status = dt_session_wait(bench->session);
  dt_tensor_release(made);
  return status;
}

bool minilm_case_memory(minilm_bench_t *bench) {
  shape_t shapes[MEMORY_SHAPES];
  draw_memory_shapes(shapes);
  dt_function_t *function = minilm_prepared(bench);
  bool good = function != NULL;
  // The first pass: every shape once, the largest among them.
  for (long i = 0; i < MEMORY_SHAPES && good; i++)
    good = bench_ok(call_and_release(bench, function, shapes[i]), "calling");
  double before = (double)bench_resident_bytes();
  for (long i = 0; i < bench->memory_calls && good; i++)
    good = bench_ok(call_and_release(bench, function, shapes[i % MEMORY_SHAPES]), "calling");
  double after = (double)bench_resident_bytes();
  if (good) {
    bench_value(&bench->report, "memory", "calls", "count", (double)bench->memory_calls);
    bench_value(&bench->report, "memory", "resident", "MiB", after / (1 << 20));
    bench_limited(&bench->report, "memory", "resident, growth", "MiB", (after - before) / (1 << 20),
                  2);
    bench_value(&bench->report, "memory", "session", "MiB",
                (double)dt_session_bytes(bench->session) / (1 << 20));
    good = report_counters(bench, "memory", function);
  }
  dt_function_release(function);
  return good;
}

// ---- Variants -----------------------------------------------------------------------------------

enum { VARIANT_TOKENS = 4096 };

static bool finite_rows(const minilm_io_t *io, int64_t rows) {
  for (int64_t i = 0; i < rows * MINILM_HIDDEN; i++)
    if (!isfinite(io->embeddings[i]))
      return false;
  return true;
}

// A function whose first call is at `start` (batch -1: it is prepared instead), then random shapes.
static bool variants_from(minilm_bench_t *bench, const char *name, shape_t start) {
  dt_function_t *function = start.batch < 0 ? minilm_prepared(bench) : make_function(bench);
  bool good = function != NULL;
  double ns;
  if (good && start.batch >= 0)
    good = bench_ok(call_at(bench, function, start, &ns), "first call");
  uint64_t state = seed;
  for (long i = 0; i < bench->variant_shapes && good; i++) {
    shape_t shape;
    do
      shape = (shape_t){bench_random(&state, 0, 64), bench_random(&state, 0, 512)};
    while (shape.batch * shape.length > VARIANT_TOKENS);
    good = bench_ok(call_at(bench, function, shape, &ns), "calling") &&
           bench_ok(minilm_io_read(bench), "reading the embeddings");
    // Rows without tokens are nobody's business here; all others must be numbers.
    if (good && shape.length && !finite_rows(&bench->io, shape.batch)) {
      fprintf(stderr, "bench: an embedding at %lldx%lld is not finite\n", (long long)shape.batch,
              (long long)shape.length);
      good = false;
    }
  }
  good = good && report_counters(bench, name, function);
  dt_function_release(function);
  return good;
}

bool minilm_case_variants(minilm_bench_t *bench) {
  bench_value(&bench->report, "variants", "shapes", "count", (double)bench->variant_shapes);
  return variants_from(bench, "variants from 1x1", (shape_t){1, 1}) &&
         variants_from(bench, "variants from 7x33", (shape_t){7, 33}) &&
         variants_from(bench, "variants from 0x5", (shape_t){0, 5}) &&
         variants_from(bench, "variants from prepare", (shape_t){-1, 0});
}

// SPDX-License-Identifier: Apache-2.0
// The case "swap" of bench_graphs: a function is compiled anew, linked, loaded and put in place of
// the code that threads on sessions of their own are calling as graphs; what their calls notice.
#include "bench/graphs.h"

#include "ductile/experimental.h"
#include "runtime/exec/swap.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALLERS = 8, SHAPES = 12, MOST_SWAPS = 32, LEAST_SWAPS = 3, MOST_SAMPLES = 1 << 17 };
// A call belongs to the phase in which it ends, so that one which begins early and then has to wait
// for a replacement counts there.
typedef enum phase_t { PHASE_BEFORE, PHASE_SWAPS, PHASES, PHASE_END = PHASES } phase_t;

typedef struct traffic_t {
  graphs_bench_t *bench; // with a runtime of its own
  const graphs_program_t *program;
  dt_function_t *function;
  int shapes;
  graphs_size_t sizes[SHAPES];
  float *expected[SHAPES]; // what launches kernel by kernel gave
  _Atomic int phase;
} traffic_t;

// A call's nanoseconds, and how many of them its thread waited for a core.
typedef struct sample_t {
  double ns, waited;
} sample_t;

typedef struct caller_t {
  traffic_t *traffic;
  pthread_t thread;
  int first; // shape
  graphs_place_t place;
  float *got;
  sample_t *samples[PHASES];
  // Results.
  bool good;
  size_t count[PHASES], left_out, wrong;
  _Atomic size_t calls;
} caller_t;

// ---- Callers ------------------------------------------------------------------------------------

// Nanoseconds that this thread has been ready to run and had no core: Linux counts them. 0 where it
// does not say.
static double waited_so_far(int file) {
  char text[96] = "";
  unsigned long long ran = 0, waited = 0;
  if (file < 0 || pread(file, text, sizeof text - 1, 0) <= 0 ||
      sscanf(text, "%llu %llu", &ran, &waited) != 2)
    return 0;
  return (double)waited;
}

static bool call_shape(caller_t *own, int shape, double *ns) {
  traffic_t *traffic = own->traffic;
  return graphs_call(&own->place, traffic->program, traffic->function, traffic->sizes[shape],
                     DT_CALL_REDUCE_OVERHEAD, ns);
}

// Every answer is looked at, between calls.
static bool check_answer(caller_t *own, int shape) {
  if (!graphs_read(&own->place, own->got))
    return false;
  size_t bytes = (size_t)graphs_count(&own->place) * sizeof *own->got;
  own->wrong += memcmp(own->got, own->traffic->expected[shape], bytes) != 0;
  return true;
}

static void *run_caller(void *opaque) {
  caller_t *own = opaque;
  traffic_t *traffic = own->traffic;
  int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  own->good = true;
  for (int i = own->first; own->good; i++) {
    double ns = 0, waited = waited_so_far(file);
    int shape = i % traffic->shapes;
    own->good = call_shape(own, shape, &ns);
    waited = waited_so_far(file) - waited;
    int phase = atomic_load(&traffic->phase);
    if (phase == PHASE_END)
      break;
    if (own->count[phase] < MOST_SAMPLES)
      own->samples[phase][own->count[phase]++] = (sample_t){ns, waited};
    else
      own->left_out++;
    own->good = own->good && check_answer(own, shape);
    (void)atomic_fetch_add(&own->calls, 1);
  }
  if (file >= 0)
    (void)close(file);
  return NULL;
}

static bool open_caller(traffic_t *traffic, caller_t *own, int index) {
  own->traffic = traffic;
  own->first = index;
  int64_t elements = graphs_elements(traffic->bench, traffic->program, traffic->sizes[0]);
  bool good = graphs_open(traffic->bench, elements, &own->place);
  own->got = calloc((size_t)elements, sizeof *own->got);
  good = good && own->got;
  for (int k = 0; k < PHASES; k++) {
    own->samples[k] = calloc(MOST_SAMPLES, sizeof *own->samples[k]);
    good = good && own->samples[k];
  }
  for (int i = 0; i < traffic->shapes && good; i++)
    good = call_shape(own, i, NULL);
  return good;
}

static void close_caller(caller_t *own) {
  graphs_close(&own->place);
  free(own->got);
  for (int k = 0; k < PHASES; k++)
    free(own->samples[k]);
}

// ---- The traffic --------------------------------------------------------------------------------

// A runtime that finds no code on the disk: a replacement is linked each time.
static dt_runtime_t *runtime_without_cache(void) {
  const char *name = "DUCTILE_CACHE_DIR", *value = getenv(name);
  char *kept = value ? strdup(value) : NULL;
  dt_runtime_t *runtime = NULL;
  (void)setenv(name, "", 1);
  if (!bench_ok(dt_runtime_create(NULL, &runtime), "a runtime"))
    runtime = NULL;
  if (kept)
    (void)setenv(name, kept, 1);
  else
    (void)unsetenv(name);
  free(kept);
  return runtime;
}

static bool expect_all(traffic_t *traffic) {
  graphs_place_t place = {0};
  int64_t elements = graphs_elements(traffic->bench, traffic->program, traffic->sizes[0]);
  bool good = graphs_open(traffic->bench, elements, &place);
  for (int i = 0; i < traffic->shapes && good; i++) {
    good = graphs_call(&place, traffic->program, traffic->function, traffic->sizes[i],
                       DT_CALL_PLAIN, NULL);
    traffic->expected[i] = good ? calloc((size_t)graphs_count(&place), sizeof(float)) : NULL;
    good = traffic->expected[i] && graphs_read(&place, traffic->expected[i]);
  }
  graphs_close(&place);
  return good;
}

static bool open_traffic(graphs_bench_t *bench, traffic_t *traffic) {
  *traffic = (traffic_t){.bench = bench,
                         .program = bench->tiny ? &graphs_stem : &graphs_encoder,
                         .shapes = bench->tiny ? 2 : SHAPES};
  graphs_size_t most = bench->tiny ? (graphs_size_t){2, 3} : (graphs_size_t){32, 64};
  uint64_t state = 23;
  traffic->sizes[0] = most; // first, so that memory has grown
  for (int i = 1; i < traffic->shapes; i++)
    traffic->sizes[i] = graphs_draw(&state, most);
  bench->runtime = runtime_without_cache();
  traffic->function = bench->runtime ? graphs_function(bench, traffic->program) : NULL;
  return traffic->function && expect_all(traffic);
}

static void close_traffic(traffic_t *traffic) {
  for (int i = 0; i < SHAPES; i++)
    free(traffic->expected[i]);
  dt_function_release(traffic->function);
  dt_runtime_release(traffic->bench->runtime);
}

// ---- What the calls saw ---------------------------------------------------------------------------

typedef struct swaps_t {
  int n;
  double ns[MOST_SWAPS];
  double kernels; // of a call, that the last one had each session set
} swaps_t;

// The times of all callers' calls in a phase, sorted; with or without the waits for a core. NULL
// without memory.
static double *times_of(const caller_t *callers, int n, phase_t phase, bool waits, size_t *count) {
  size_t at = 0;
  *count = 0;
  for (int i = 0; i < n; i++)
    *count += callers[i].count[phase];
  double *all = calloc(*count + 1, sizeof *all);
  for (int i = 0; all && i < n; i++)
    for (size_t k = 0; k < callers[i].count[phase]; k++) {
      const sample_t *sample = &callers[i].samples[phase][k];
      all[at++] = sample->ns - (waits ? 0 : sample->waited);
    }
  if (all)
    bench_sort(all, *count);
  return all;
}

static void say(bench_report_t *report, phase_t phase, const char *what, double ns) {
  static const char *const phases[PHASES] = {"before", "during replacements"};
  char metric[80];
  (void)snprintf(metric, sizeof metric, "a call %s, %s", phases[phase], what);
  bench_value(report, "swap", metric, "us", ns / 1e3);
}

// p50, p99 and the worst of a phase.
static bool report_phase(bench_report_t *report, const caller_t *callers, int n, phase_t phase,
                         double *p99, double *worst) {
  size_t count = 0;
  double *times = times_of(callers, n, phase, true, &count);
  double *ran = times_of(callers, n, phase, false, &count);
  bool good = times && ran;
  if (good) {
    bench_value(report, "swap",
                phase == PHASE_BEFORE ? "calls before" : "calls during replacements", "count",
                (double)count);
    *p99 = bench_quantile(times, count, 0.99);
    *worst = bench_quantile(times, count, 1);
    say(report, phase, "p50", bench_quantile(times, count, 0.5));
    say(report, phase, "p99", *p99);
    say(report, phase, "worst", *worst);
    say(report, phase, "worst but for waits for a core", bench_quantile(ran, count, 1));
  }
  free(times);
  free(ran);
  return good;
}

static bool report_times(bench_report_t *report, const caller_t *callers, int n) {
  double p99[PHASES], worst[PHASES];
  for (int phase = 0; phase < PHASES; phase++)
    if (!report_phase(report, callers, n, (phase_t)phase, &p99[phase], &worst[phase]))
      return false;
  bench_limited(report, "swap", "p99 over that of before", "ratio",
                p99[PHASE_SWAPS] / p99[PHASE_BEFORE], 1.3);
  bench_limited(report, "swap", "worst call beyond p99 of before", "us",
                (worst[PHASE_SWAPS] - p99[PHASE_BEFORE]) / 1e3, 1000);
  return true;
}

// Traffic at many sizes sets other code by itself. So, once it is over, each session has a graph
// that is set for its call, then the code is replaced, and the same call sets every kernel.
static bool kernels_replaced(traffic_t *traffic, caller_t *callers, int n, double *least) {
  dt_session_counters_t before[CALLERS], after;
  bool good = true;
  for (int i = 0; i < n && good; i++)
    good = call_shape(&callers[i], 0, NULL) && call_shape(&callers[i], 0, NULL) &&
           graphs_stats(&callers[i].place, &before[i]);
  good = good && bench_ok(dt__function_recompile(traffic->function), "replacing code");
  *least = 1e9;
  for (int i = 0; i < n && good; i++) {
    good = call_shape(&callers[i], 0, NULL) && check_answer(&callers[i], 0) &&
           graphs_stats(&callers[i].place, &after);
    double set = good ? (double)(after.functions_set - before[i].functions_set) : 0;
    *least = set < *least ? set : *least;
  }
  return good;
}

// Every session must have set its graphs to other code, and built none.
static bool report_counts(bench_report_t *report, const caller_t *callers, int n, swaps_t *swaps,
                          const dt_session_counters_t *warm) {
  double wrong = 0, builds = 0, skips = 0, left_out = 0;
  for (int i = 0; i < n; i++) {
    dt_session_counters_t stats;
    if (!graphs_stats(&callers[i].place, &stats))
      return false;
    builds += (double)(stats.builds - warm[i].builds);
    skips += (double)stats.graph_skips;
    wrong += (double)callers[i].wrong;
    left_out += (double)callers[i].left_out;
  }
  bench_value(report, "swap", "callers", "count", n);
  bench_value(report, "swap", "replacements", "count", swaps->n);
  bench_value(report, "swap", "a replacement, median", "ms",
              bench_median(swaps->ns, (size_t)swaps->n) / 1e6);
  bench_value(report, "swap", "kernels of a call set by a replacement, least", "count",
              swaps->kernels);
  bench_limited(report, "swap", "graphs built", "count", builds, 0);
  bench_limited(report, "swap", "skips", "count", skips, 0);
  bench_limited(report, "swap", "answers unlike plain launches'", "count", wrong, 0);
  return wrong > 0            ? graphs_fail("answers unlike plain launches'", wrong, 0)
         : skips > 0          ? graphs_fail("skips", skips, 0)
         : swaps->kernels < 1 ? graphs_fail("kernels set by a replacement", swaps->kernels, 1)
         : left_out > 0       ? graphs_fail("samples without a place", left_out, 0)
                              : true;
}

// ---- The case -----------------------------------------------------------------------------------

static void pause_for(double seconds) {
  struct timespec time = {.tv_sec = (time_t)seconds};
  time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
  (void)nanosleep(&time, NULL);
}

// Until every caller has had all shapes once more, so that its graphs are set to what is there.
static void let_all_call(const traffic_t *traffic, caller_t *callers, int n) {
  double limit = bench_now_ns() + 30e9; // one that failed calls no more
  for (int i = 0; i < n; i++) {
    size_t enough = atomic_load(&callers[i].calls) + (size_t)traffic->shapes + 1;
    while (atomic_load(&callers[i].calls) < enough && bench_now_ns() < limit)
      pause_for(1e-4);
  }
}

// One replacement after another, while time is left.
static bool replace_code(traffic_t *traffic, swaps_t *swaps) {
  int least = traffic->bench->tiny ? 1 : LEAST_SWAPS;
  double end = bench_now_ns() + traffic->bench->seconds * 1e9;
  bool good = true;
  while (good && swaps->n < MOST_SWAPS && (swaps->n < least || bench_now_ns() < end)) {
    double begin = bench_now_ns();
    good = bench_ok(dt__function_recompile(traffic->function), "replacing code");
    swaps->ns[swaps->n++] = bench_now_ns() - begin;
  }
  return good;
}

static bool run_traffic(traffic_t *traffic, caller_t *callers, int n, swaps_t *swaps) {
  int started = 0;
  bool good = true;
  while (started < n &&
         pthread_create(&callers[started].thread, NULL, run_caller, &callers[started]) == 0)
    started++;
  let_all_call(traffic, callers, started);
  pause_for(traffic->bench->seconds);
  atomic_store(&traffic->phase, PHASE_SWAPS);
  good = started == n && replace_code(traffic, swaps);
  let_all_call(traffic, callers, started);
  atomic_store(&traffic->phase, PHASE_END);
  for (int i = 0; i < started; i++) {
    (void)pthread_join(callers[i].thread, NULL);
    good = callers[i].good && good;
  }
  return good || graphs_fail("threads that called", started, n);
}

bool graphs_case_swap(graphs_bench_t *bench) {
  graphs_bench_t own = *bench;
  traffic_t traffic;
  caller_t callers[CALLERS] = {0};
  dt_session_counters_t warm[CALLERS];
  swaps_t swaps = {0};
  int n = bench->tiny ? 2 : CALLERS;
  bool good = open_traffic(&own, &traffic);
  for (int i = 0; i < n && good; i++)
    good = open_caller(&traffic, &callers[i], i) && graphs_stats(&callers[i].place, &warm[i]);
  good = good && run_traffic(&traffic, callers, n, &swaps) &&
         kernels_replaced(&traffic, callers, n, &swaps.kernels) &&
         report_times(&bench->report, callers, n) &&
         report_counts(&bench->report, callers, n, &swaps, warm);
  for (int i = 0; i < n; i++)
    close_caller(&callers[i]);
  close_traffic(&traffic);
  return good;
}

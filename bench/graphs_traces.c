// SPDX-License-Identifier: Apache-2.0
// The case "traces" of bench_graphs: what servers are asked, seeded. A session that has called the
// largest size is frozen together with its function; from then on nothing may be compiled, built or
// mapped.
#include "bench/graphs.h"
#include "ductile/experimental.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Loads --------------------------------------------------------------------------------------

enum { MOST_WAITING = 1 << 16, MOST_KNOWN = 256, MOST_BATCH = 16, MOST_SLOTS = 64 };

// A load's state. Sizes come from `next`; a server with arrivals also looks at the clock.
typedef struct load_t {
  const struct trace_t *trace;
  graphs_size_t most;
  uint64_t random;
  // T3
  int64_t order[MOST_KNOWN];
  int64_t n_known, n_fresh; // of `order`: popular ones first, then those to be seen once
  // T5, in nanoseconds of a clock that stands still while nothing happens
  double clock, next_arrival, gap, wait;
  double arrived[MOST_WAITING];
  int64_t lengths[MOST_WAITING];
  size_t head, tail, taken; // of a ring; `taken` requests are in the batch under way
  // T6
  int64_t slots, context[MOST_SLOTS];
} load_t;

typedef struct trace_t {
  const char *name;
  const graphs_program_t *program;
  graphs_size_t most, tiny;
  void (*begin)(load_t *load); // NULL: nothing to prepare
  graphs_size_t (*next)(load_t *load);
  bool arrivals; // latencies are those of requests, waiting included
} trace_t;

static double uniform(load_t *load) {
  return ((double)bench_random(&load->random, 0, (1 << 24) - 1) + 0.5) / (1 << 24);
}

// T2: every batch is as likely.
static graphs_size_t next_uniform(load_t *load) {
  return (graphs_size_t){bench_random(&load->random, 1, load->most.a), load->most.b};
}

// T3: half of the sizes are popular by Zipf's law (exponent 1.1); one call in twenty has one of the
// other half, each once until all were seen.
static void begin_zipf(load_t *load) {
  int64_t n = load->most.a;
  for (int64_t i = 0; i < n; i++)
    load->order[i] = i + 1;
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t other = bench_random(&load->random, 0, i), kept = load->order[i];
    load->order[i] = load->order[other];
    load->order[other] = kept;
  }
  load->n_known = n > 1 ? n / 2 : 1;
  load->n_fresh = n - load->n_known;
}
static graphs_size_t next_zipf(load_t *load) {
  if (load->n_fresh > 0 && uniform(load) < 0.05)
    return (graphs_size_t){load->order[load->n_known + --load->n_fresh], load->most.b};
  double all = 0, at = 0, sought = uniform(load);
  for (int64_t i = 1; i <= load->n_known; i++)
    all += pow((double)i, -1.1);
  int64_t rank = 0;
  while (rank < load->n_known - 1 && (at += pow((double)rank + 1, -1.1) / all) < sought)
    rank++;
  return (graphs_size_t){load->order[rank], load->most.b};
}

// T4: lines of text, a few of them, by width.
static graphs_size_t next_ocr(load_t *load) {
  int64_t least = load->most.b / 5 + 1;
  return (graphs_size_t){bench_random(&load->random, 1, load->most.a),
                         bench_random(&load->random, least, load->most.b)};
}

// T5: lengths as questions with their paragraphs have them: most between 100 and 200 tokens.
static int64_t draw_length(load_t *load) {
  static const struct {
    double share;
    int low, high; // in 384ths of the longest
  } bins[] = {{0.08, 40, 96},   {0.34, 97, 144},  {0.30, 145, 192},
              {0.17, 193, 256}, {0.08, 257, 340}, {0.03, 341, 384}};
  double sought = uniform(load), at = 0;
  size_t bin = 0;
  while (bin < sizeof bins / sizeof bins[0] - 1 && (at += bins[bin].share) < sought)
    bin++;
  int64_t length = bench_random(&load->random, bins[bin].low, bins[bin].high) * load->most.b / 384;
  return length > 0 ? length : 1;
}
static void arrive_until(load_t *load, double clock) {
  while (load->next_arrival <= clock && load->tail - load->head < MOST_WAITING) {
    load->arrived[load->tail % MOST_WAITING] = load->next_arrival;
    load->lengths[load->tail++ % MOST_WAITING] = draw_length(load);
    load->next_arrival += -log(uniform(load)) * load->gap;
  }
}
// A batch begins when it is full, or when its oldest request has waited long enough.
static graphs_size_t next_batch(load_t *load) {
  if (load->head == load->tail)
    load->clock = fmax(load->clock, load->next_arrival);
  arrive_until(load, load->clock);
  double limit = load->arrived[load->head % MOST_WAITING] + load->wait;
  while (load->tail - load->head < (size_t)load->most.a && load->clock < limit) {
    load->clock = fmin(limit, load->next_arrival);
    arrive_until(load, load->clock);
  }
  size_t waiting = load->tail - load->head;
  load->taken = waiting < (size_t)load->most.a ? waiting : (size_t)load->most.a;
  graphs_size_t size = {(int64_t)load->taken, 1};
  for (size_t i = 0; i < load->taken; i++) {
    int64_t length = load->lengths[(load->head + i) % MOST_WAITING];
    size.b = length > size.b ? length : size.b;
  }
  return size;
}

// T6: each step every slot is one token longer, some end, and others begin.
static graphs_size_t next_decode(load_t *load) {
  int64_t longest = 1, kept = 0;
  for (int64_t i = 0; i < load->slots; i++)
    if (load->context[i] < load->most.b && uniform(load) > 0.01)
      load->context[kept++] = load->context[i] + 1;
  load->slots = kept;
  while (load->slots < load->most.a && (load->slots == 0 || uniform(load) < 0.35))
    load->context[load->slots++] = bench_random(&load->random, 1, load->most.b / 2 + 1);
  for (int64_t i = 0; i < load->slots; i++)
    longest = load->context[i] > longest ? load->context[i] : longest;
  return (graphs_size_t){load->slots, longest < load->most.b ? longest : load->most.b};
}

static const trace_t traces[] = {
    {"T2 uniform batch", &graphs_encoder, {64, 32}, {3, 2}, NULL, next_uniform, false},
    {"T3 Zipf batch", &graphs_mlp, {256, 1}, {6, 1}, begin_zipf, next_zipf, false},
    {"T4 OCR", &graphs_encoder, {8, 120}, {2, 4}, NULL, next_ocr, false},
    {"T5 Poisson server", &graphs_encoder, {MOST_BATCH, 384}, {2, 4}, NULL, next_batch, true},
    {"T6 decode slots", &graphs_decode, {MOST_SLOTS, 512}, {3, 5}, NULL, next_decode, false},
};

// ---- One trace ----------------------------------------------------------------------------------

typedef struct run_t {
  graphs_bench_t *bench;
  const trace_t *trace;
  dt_function_t *function;
  graphs_place_t place;
  load_t *load;
  double *times; // of calls, or of requests
  size_t calls, n_times, cap;
} run_t;

// As a server calls: the result is the session's, until the next generation.
static bool serve_one(run_t *run, graphs_size_t size, double *out_ns) {
  const dt_call_options_t options = {.struct_size = sizeof options,
                                     .mode = DT_CALL_REDUCE_OVERHEAD};
  dt_tensor_t *result = NULL;
  double begin = bench_now_ns();
  bool good = graphs_bind(&run->place, run->trace->program, size) &&
              bench_ok(dt_step_begin(run->place.session), "beginning a generation") &&
              bench_ok(dt_call(run->place.session, run->function, run->place.views,
                               run->place.n_inputs, &result, 1, &options),
                       run->trace->name) &&
              bench_ok(dt_session_wait(run->place.session), "waiting");
  *out_ns = bench_now_ns() - begin;
  dt_tensor_release(result);
  return good;
}

static void note(run_t *run, double ns) {
  if (run->n_times < run->cap)
    run->times[run->n_times++] = ns;
}

// The requests of the batch that has just been answered.
static void note_requests(run_t *run, double service_ns) {
  load_t *load = run->load;
  load->clock += service_ns;
  for (size_t i = 0; i < load->taken; i++)
    note(run, load->clock - load->arrived[(load->head + i) % MOST_WAITING]);
  load->head += load->taken;
}

// The largest size; then requests arrive so that a server of full batches were half busy.
static bool warm_up(run_t *run, double *out_ns) {
  load_t *load = run->load;
  for (int i = 0; i < (run->bench->tiny ? 2 : 20); i++)
    if (!serve_one(run, load->most, out_ns))
      return false;
  load->wait = 2e6;
  load->gap = *out_ns / (double)load->most.a * 2;
  return true;
}

static bool serve_all(run_t *run) {
  load_t *load = run->load;
  double end = bench_now_ns() + run->bench->seconds * 1e9;
  while (run->calls < (size_t)run->bench->calls && (run->calls == 0 || bench_now_ns() < end)) {
    double ns;
    if (!serve_one(run, run->trace->next(load), &ns))
      return false;
    run->calls++;
    if (run->trace->arrivals)
      note_requests(run, ns);
    else
      note(run, ns);
  }
  return true;
}

// ---- What it showed -----------------------------------------------------------------------------

typedef struct counts_t {
  dt_session_counters_t session;
  dt_function_counters_t function;
  int64_t device_bytes;
} counts_t;

static bool count(const run_t *run, counts_t *out) {
  out->function = (dt_function_counters_t){.struct_size = sizeof out->function};
  out->device_bytes = graphs_device_bytes();
  return graphs_stats(&run->place, &out->session) &&
         bench_ok(dt_function_counters(run->function, &out->function), "reading the counters");
}

static bool report_trace(run_t *run, const counts_t *before, const counts_t *after) {
  bench_report_t *report = &run->bench->report;
  const dt_session_counters_t *a = &before->session, *b = &after->session;
  const char *name = run->trace->name;
  const struct {
    const char *metric;
    uint64_t was, is;
  } rows[] = {{"compiles", before->function.compiles, after->function.compiles},
              {"graphs built", a->builds, b->builds},
              {"growths", a->growths, b->growths},
              {"graphs not built, since frozen", a->frozen_builds, b->frozen_builds},
              {"growths, though frozen", a->frozen_growths, b->frozen_growths},
              {"bytes mapped", a->pool_bytes + a->scratch_bytes, b->pool_bytes + b->scratch_bytes},
              {"skips", a->graph_skips, b->graph_skips}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    bench_limited(report, name, rows[i].metric, "count", (double)(rows[i].is - rows[i].was), 0);
  if (before->device_bytes > 0)
    bench_value(report, name, "device memory in use, growth", "B",
                (double)(after->device_bytes - before->device_bytes));
  bench_sort(run->times, run->n_times);
  const char *of = run->trace->arrivals ? "request" : "call";
  static const struct {
    const char *name;
    double share;
  } shares[] = {{"p50", 0.5}, {"p99", 0.99}, {"worst", 1}};
  bench_value(report, name, "calls", "count", (double)run->calls);
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    char metric[64];
    (void)snprintf(metric, sizeof metric, "latency of a %s, %s", of, shares[i].name);
    bench_value(report, name, metric, "us",
                bench_quantile(run->times, run->n_times, shares[i].share) / 1e3);
  }
  double graphs = (double)(b->graph_calls - a->graph_calls);
  return graphs == (double)run->calls || graphs_fail("calls as graphs", graphs, (double)run->calls);
}

static bool run_frozen(run_t *run) {
  counts_t before, after;
  double largest = 0;
  bool good = warm_up(run, &largest) &&
              bench_ok(dt_session_freeze(run->place.session, true), "freezing the session") &&
              bench_ok(dt_function_freeze(run->function, true), "freezing the function") &&
              count(run, &before) && serve_all(run) && count(run, &after);
  if (good)
    bench_value(&run->bench->report, run->trace->name, "largest size, a call", "us", largest / 1e3);
  return good && report_trace(run, &before, &after);
}

static bool run_trace(graphs_bench_t *bench, const trace_t *trace) {
  run_t run = {.bench = bench, .trace = trace, .cap = (size_t)bench->calls * MOST_BATCH};
  run.load = calloc(1, sizeof *run.load);
  run.times = calloc(run.cap, sizeof *run.times);
  run.function = graphs_function(bench, trace->program);
  bool good = run.load && run.times && run.function;
  if (good) {
    *run.load =
        (load_t){.trace = trace, .most = bench->tiny ? trace->tiny : trace->most, .random = 17};
    if (trace->begin)
      trace->begin(run.load);
    int64_t most = graphs_elements(bench, trace->program, run.load->most);
    good = graphs_open(bench, most, &run.place) && run_frozen(&run);
  }
  graphs_close(&run.place);
  dt_function_release(run.function);
  free(run.times);
  free(run.load);
  return good;
}

bool graphs_case_traces(graphs_bench_t *bench) {
  bool good = true;
  for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++)
    good = run_trace(bench, &traces[i]) && good;
  return good;
}

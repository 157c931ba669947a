// SPDX-License-Identifier: Apache-2.0
// Scans of f32 on the CPU: the recurrence h = a h + b along the first axis, as an associative scan,
// as a loop of the graph, and by hand in C, in blocks of rows in two passes on as many threads.
// They take turns, so that what else the machine does meets all alike.
#include "bench/harness.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 60, MOST_CALLS = 100000, MOST_THREADS = 64 };

static const char usage[] =
    "usage: bench_scan [--json] [--threads N] [--calls N] [--loop-calls N]\n"
    "\n"
    "Measures recurrences h = a h + b, in microseconds a call (medians).\n"
    "  --threads N     threads that run kernels, and the peer (default: 2)\n"
    "  --calls N       calls of each (default: 60)\n"
    "  --loop-calls N  calls of the loop, which is slow (default: 5)\n"
    "Exit codes: 0 measured, 1 something failed, 2 wrong usage.\n";

typedef struct case_t {
  const char *name;
  int64_t steps, channels;
  bool few; // the number of channels is declared, and so known to be small
} case_t;
static const case_t cases[] = {
    {"recurrence_4096x64", 4096, 64, false},    {"recurrence_1024x1024", 1024, 1024, false},
    {"recurrence_65536x8", 65536, 8, false},    {"recurrence_65536x8_few", 65536, 8, true},
    {"recurrence_65536x1_few", 65536, 1, true},
};
enum { CASES = sizeof cases / sizeof cases[0] };

// ---- By hand ------------------------------------------------------------------------------------
// Code for the machine's vectors, as the library makes it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES                                                                                     \
  __attribute__((optimize("O3"), target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

// Threads that wait for work, as the pool's do; the caller is one of them.
typedef struct peer_t {
  pthread_t threads[MOST_THREADS];
  uint32_t n, started;
  atomic_uint arrived; // at any point where all wait for all
  const float *a, *b;
  float *h;
  float *products; // of the a of each block, by block and channel
  float *carried;  // what reaches each block, by block and channel
  int64_t steps, channels;
  bool passes; // two passes over blocks of rows; else one, of some of the channels a thread
  atomic_bool stop;
} peer_t;

typedef struct worker_t {
  peer_t *peer;
  uint32_t index;
} worker_t;

// Spins for a while, and then lets others run.
static void wait_for_all(peer_t *p) {
  uint32_t own = atomic_fetch_add(&p->arrived, 1) / p->n, spins = 0;
  while (atomic_load(&p->arrived) / p->n == own)
    if (++spins > 2000)
      sched_yield();
}

CLONES static void scan_columns(const float *restrict a, const float *restrict b, float *restrict h,
                                int64_t rows, int64_t stride, int64_t n) {
  for (int64_t c = 0; c < n; c++)
    h[c] = b[c];
  for (int64_t i = 1; i < rows; i++) {
    const float *restrict from = a + i * stride, *restrict plus = b + i * stride;
    for (int64_t c = 0; c < n; c++)
      h[i * stride + c] = from[c] * h[(i - 1) * stride + c] + plus[c];
  }
}

CLONES static void multiply(const float *restrict a, float *restrict product, int64_t rows,
                            int64_t n) {
  for (int64_t c = 0; c < n; c++)
    product[c] = a[c];
  for (int64_t i = 1; i < rows; i++)
    for (int64_t c = 0; c < n; c++)
      product[c] *= a[i * n + c];
}

// Adds what the blocks before left, times the products so far.
CLONES static void carry_on(const float *restrict a, float *restrict h, float *restrict carried,
                            int64_t rows, int64_t n) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t c = 0; c < n; c++) {
      carried[c] *= a[i * n + c];
      h[i * n + c] += carried[c];
    }
}

static void work(peer_t *p, uint32_t k) {
  int64_t n = p->channels, from = p->steps * k / p->n, to = p->steps * (k + 1) / p->n;
  if (!p->passes) {
    int64_t first = n * k / p->n, end = n * (k + 1) / p->n;
    scan_columns(p->a + first, p->b + first, p->h + first, p->steps, n, end - first);
    return;
  }
  scan_columns(p->a + from * n, p->b + from * n, p->h + from * n, to - from, n, n);
  multiply(p->a + from * n, p->products + k * n, to - from, n);
  wait_for_all(p);
  float *carried = p->carried + k * n;
  memset(carried, 0, (size_t)n * sizeof(float));
  for (uint32_t j = 0; j < k; j++)
    for (int64_t c = 0; c < n; c++)
      carried[c] =
          p->products[j * n + c] * carried[c] + p->h[(p->steps * (j + 1) / p->n - 1) * n + c];
  wait_for_all(p);
  if (k > 0)
    carry_on(p->a + from * n, p->h + from * n, carried, to - from, n);
}

static void *run_worker(void *user) {
  worker_t *own = user;
  for (;;) {
    wait_for_all(own->peer);
    if (atomic_load(&own->peer->stop))
      return NULL;
    work(own->peer, own->index);
    wait_for_all(own->peer);
  }
}

static void run_peer(peer_t *p, bool passes) {
  p->passes = passes;
  wait_for_all(p);
  work(p, 0);
  wait_for_all(p);
}

static bool start_peer(peer_t *p, worker_t *workers, uint32_t n) {
  p->n = n;
  for (uint32_t k = 1; k < n; k++) {
    workers[k] = (worker_t){p, k};
    if (pthread_create(&p->threads[k], NULL, run_worker, &workers[k]))
      return false;
    p->started = k;
  }
  return true;
}

static void stop_peer(peer_t *p) {
  atomic_store(&p->stop, true);
  if (p->started + 1 == p->n)
    wait_for_all(p);
  for (uint32_t k = 1; k <= p->started; k++)
    pthread_join(p->threads[k], NULL);
}

// ---- Programs -----------------------------------------------------------------------------------
static dt_status_t join(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, in[0], in[2]);
  out[1] = dt_add(t, dt_mul(t, in[2], in[1]), in[3]);
  return NULL;
}

static dt_status_t scan(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t made[2];
  (void)closure;
  dt_associative_scan(t, join, NULL, 2, in, 0, 0, made);
  out[0] = made[1];
  return NULL;
}

static dt_status_t step(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = out[1] = dt_add(t, dt_mul(t, in[1], in[0]), in[2]);
  return NULL;
}

static dt_status_t loop(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_sym_t n = dt_dim(t, in[0], 1);
  dt_value_t first = dt_full(t, DT_F32, 0, 1, &n), made[2];
  (void)closure;
  dt_scan(t, step, NULL, 1, &first, 2, in, (dt_sym_t){0}, 1, 0, made);
  out[0] = made[1];
  return NULL;
}

typedef struct made_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *functions[2];     // scan, loop
  dt_tensor_t *inputs[2], *result; // whose memory calls write to, as the peer does to its own
  peer_t peer;
  worker_t workers[MOST_THREADS];
} made_t;

static dt_status_t make_function(made_t *made, const case_t *c, const char *name,
                                 dt_program_fn_t program, dt_function_t **out) {
  dt_dim_decl_t dims[2];
  memset(dims, 0, sizeof dims);
  dims[0].name = "t";
  dims[1].name = "c";
  dims[1].is_static = c->few;
  dims[1].value = c->few ? c->channels : 0;
  dt_input_decl_t inputs[2];
  memset(inputs, 0, sizeof inputs);
  for (int k = 0; k < 2; k++) {
    inputs[k].dtype = DT_F32;
    inputs[k].rank = 2;
    inputs[k].dims = dims;
  }
  dt_function_options_t options = {
      .struct_size = sizeof options, .name = name, .n_inputs = 2, .n_outputs = 1, .inputs = inputs};
  return dt_function_create(made->runtime, program, NULL, &options, out);
}

static dt_status_t make_inputs(made_t *made, const case_t *c) {
  const int64_t sizes[2] = {c->steps, c->channels};
  uint64_t seed = 7;
  dt_tensor_release(made->result);
  made->result = NULL;
  for (int k = 0; k < 2; k++) {
    dt_tensor_release(made->inputs[k]);
    made->inputs[k] = NULL;
    dt_status_t status = dt_tensor_create_empty(DT_F32, 2, sizes, &made->inputs[k]);
    if (status)
      return status;
    float *data = dt_tensor_data(made->inputs[k]);
    for (int64_t i = 0; i < c->steps * c->channels; i++)
      data[i] = (float)bench_random(&seed, k ? -100 : 0, 100) * 0.0099f;
  }
  return NULL;
}

static double difference(const dt_tensor_t *out, const float *expected, int64_t count) {
  const float *data = dt_tensor_data((dt_tensor_t *)(uintptr_t)out);
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    double d = (double)data[i] - (double)expected[i];
    d = d < 0 ? -d : d;
    most = d > most || d != d ? d : most;
  }
  return most;
}

// One call of a function; its difference from the peer's last answer.
static dt_status_t call(made_t *made, int which, double *ns, double *off) {
  double start = bench_now_ns();
  dt_status_t status =
      dt_call(made->session, made->functions[which], made->inputs, 2, &made->result, 1, NULL);
  *ns = bench_now_ns() - start;
  if (!status && off)
    *off = difference(made->result, made->peer.h, made->peer.steps * made->peer.channels);
  return status;
}

static bool measure(made_t *made, const case_t *c, long calls, long loop_calls,
                    bench_report_t *report) {
  double *times[4] = {NULL}; // the scan, the loop, by hand in two passes, in one
  for (int k = 0; k < 4; k++)
    times[k] = calloc((size_t)calls, sizeof(double));
  size_t count = (size_t)(c->steps * c->channels);
  double off[2] = {0, 0}, ignored;
  peer_t *p = &made->peer;
  p->h = realloc(p->h, count * sizeof(float));
  p->products = realloc(p->products, (size_t)c->channels * p->n * sizeof(float));
  p->carried = realloc(p->carried, (size_t)c->channels * p->n * sizeof(float));
  bool ok = times[0] && times[1] && times[2] && times[3] && p->h && p->products && p->carried &&
            bench_ok(make_inputs(made, c), "making arguments");
  if (ok) {
    p->a = dt_tensor_data(made->inputs[0]);
    p->b = dt_tensor_data(made->inputs[1]);
    p->steps = c->steps;
    p->channels = c->channels;
    run_peer(p, true);
    ok = bench_ok(call(made, 0, &ignored, &off[0]), "the scan") &&
         bench_ok(call(made, 1, &ignored, &off[1]), "the loop");
  }
  for (long k = 0; ok && k < calls; k++) {
    for (int way = 0; way < 2; way++) {
      double start = bench_now_ns();
      run_peer(p, way == 0);
      times[2 + way][k] = bench_now_ns() - start;
    }
    ok = bench_ok(call(made, 0, &times[0][k], NULL), "the scan");
    if (ok && k < loop_calls)
      ok = bench_ok(call(made, 1, &times[1][k], NULL), "the loop");
  }
  if (ok && (off[0] > 1e-3 || off[1] > 1e-3)) {
    fprintf(stderr, "%s: answers differ by %g and %g\n", c->name, off[0], off[1]);
    ok = false;
  }
  if (ok) {
    double own = bench_median(times[0], (size_t)calls) / 1e3;
    bench_time(report, c->name, "call", "us", own, "two passes in C",
               bench_median(times[2], (size_t)calls) / 1e3);
    bench_time(report, c->name, "call", "us", own, "channels in C",
               bench_median(times[3], (size_t)calls) / 1e3);
    bench_time(report, c->name, "call", "us", own, "dt_while",
               bench_median(times[1], (size_t)loop_calls) / 1e3);
  }
  for (int k = 0; k < 4; k++)
    free(times[k]);
  return ok;
}

// The functions of a case; those of the one before go.
static bool make_functions(made_t *made, const case_t *c) {
  for (int k = 0; k < 2; k++) {
    dt_function_release(made->functions[k]);
    made->functions[k] = NULL;
  }
  return bench_ok(make_function(made, c, "scan", scan, &made->functions[0]), "making the scan") &&
         bench_ok(make_function(made, c, "loop", loop, &made->functions[1]), "making the loop");
}

static bool run_all(made_t *made, long threads, long calls, long loop_calls, bool json) {
  bench_report_t report;
  dt_runtime_options_t options = {.struct_size = sizeof options, .threads = (uint32_t)threads};
  bench_begin(&report, "scan", json);
  if (!start_peer(&made->peer, made->workers, (uint32_t)threads) ||
      !bench_ok(dt_runtime_create(&options, &made->runtime), "making a runtime") ||
      !bench_ok(dt_session_create(made->runtime, NULL, &made->session), "making a session"))
    return false;
  for (size_t i = 0; i < CASES; i++)
    if (!make_functions(made, &cases[i]) || !measure(made, &cases[i], calls, loop_calls, &report))
      return false;
  return true;
}

static void unmake(made_t *made) {
  stop_peer(&made->peer);
  free(made->peer.h);
  free(made->peer.products);
  free(made->peer.carried);
  dt_session_destroy(made->session);
  dt_tensor_release(made->result);
  for (int k = 0; k < 2; k++) {
    dt_function_release(made->functions[k]);
    dt_tensor_release(made->inputs[k]);
  }
  dt_runtime_release(made->runtime);
}

int main(int argc, char **argv) {
  static const struct option options[] = {
      {"json", no_argument, NULL, 'j'},        {"threads", required_argument, NULL, 't'},
      {"calls", required_argument, NULL, 'n'}, {"loop-calls", required_argument, NULL, 'l'},
      {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
  static made_t made;
  bool json = false;
  long threads = 2, calls = CALLS, loop_calls = 5;
  for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    bool good = true;
    if (c == 'j')
      json = true;
    else if (c == 't')
      good = bench_parse_number(optarg, 1, MOST_THREADS, &threads);
    else if (c == 'n')
      good = bench_parse_number(optarg, 1, MOST_CALLS, &calls);
    else if (c == 'l')
      good = bench_parse_number(optarg, 1, MOST_CALLS, &loop_calls);
    else
      good = false;
    if (!good) {
      fputs(usage, c == 'h' ? stdout : stderr);
      return c == 'h' ? 0 : BENCH_EXIT_USAGE;
    }
  }
  if (loop_calls > calls)
    loop_calls = calls;
  bool ok = run_all(&made, threads, calls, loop_calls, json);
  unmake(&made);
  return ok ? 0 : BENCH_EXIT_FAILED;
}

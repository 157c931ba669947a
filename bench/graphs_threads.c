// SPDX-License-Identifier: Apache-2.0
// The case "threads" of bench_graphs: sessions of one runtime on several threads, each with its own
// graphs of shared functions; beside as many processes.
#include "bench/graphs.h"
#include "ductile/experimental.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_THREADS = 8, SHAPES = 50, FUNCTIONS = 2 };
static const graphs_program_t *const programs[FUNCTIONS] = {&graphs_mlp, &graphs_encoder};

// What all threads share, and only read while they run.
typedef struct set_t {
  graphs_bench_t *bench;
  int shapes; // how many of those below
  graphs_size_t sizes[SHAPES], most;
  dt_function_t *functions[FUNCTIONS];
  float *expected[FUNCTIONS][SHAPES]; // what launches kernel by kernel gave
  pthread_barrier_t barrier;
} set_t;

typedef struct thread_t {
  set_t *set;
  pthread_t thread;
  bool started;
  uint64_t seed;
  graphs_place_t place;
  double seconds; // to call for; 0: check every answer once
  // Results.
  bool good;
  uint64_t calls, wrong;
} thread_t;

// ---- The set ------------------------------------------------------------------------------------

static int64_t place_elements(const set_t *set) {
  return graphs_elements(set->bench, &graphs_encoder, set->most);
}

static bool expect_one(set_t *set, graphs_place_t *place, int function, int shape) {
  if (!graphs_call(place, programs[function], set->functions[function], set->sizes[shape],
                   DT_CALL_PLAIN, NULL))
    return false;
  float **to = &set->expected[function][shape];
  *to = calloc((size_t)graphs_count(place), sizeof **to);
  return *to && graphs_read(place, *to);
}

static bool open_set(graphs_bench_t *bench, set_t *set, bool with_answers) {
  *set = (set_t){.bench = bench,
                 .shapes = bench->tiny ? 3 : SHAPES,
                 .most = bench->tiny ? (graphs_size_t){2, 3} : (graphs_size_t){32, 64}};
  uint64_t state = 11;
  set->sizes[0] = set->most; // first, so that memory has grown
  for (int i = 1; i < set->shapes; i++)
    set->sizes[i] = graphs_draw(&state, set->most);
  bool good = true;
  for (int f = 0; f < FUNCTIONS && good; f++)
    good = (set->functions[f] = graphs_function(bench, programs[f])) != NULL;
  graphs_place_t place = {0};
  good = good && (!with_answers || graphs_open(bench, place_elements(set), &place));
  for (int f = 0; f < FUNCTIONS && with_answers; f++)
    for (int i = 0; i < set->shapes && good; i++)
      good = expect_one(set, &place, f, i);
  graphs_close(&place);
  return good;
}

static void close_set(set_t *set) {
  for (int f = 0; f < FUNCTIONS; f++) {
    dt_function_release(set->functions[f]);
    for (int i = 0; i < SHAPES; i++)
      free(set->expected[f][i]);
  }
}

// ---- A thread -----------------------------------------------------------------------------------

static bool call_one(thread_t *t, int function, int shape) {
  const set_t *set = t->set;
  if (!graphs_call(&t->place, programs[function], set->functions[function], set->sizes[shape],
                   DT_CALL_REDUCE_OVERHEAD, NULL))
    return false;
  t->calls++;
  return true;
}

// Every shape of both functions, in an order of this thread's own, against plain launches.
static bool check_all(thread_t *t) {
  set_t *set = t->set;
  float *got = calloc((size_t)place_elements(set), sizeof *got);
  int order[FUNCTIONS * SHAPES], n = FUNCTIONS * set->shapes;
  for (int i = 0; i < n; i++)
    order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int other = (int)bench_random(&t->seed, 0, i), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  bool good = got != NULL;
  for (int i = 0; i < n && good; i++) {
    int function = order[i] % FUNCTIONS, shape = order[i] / FUNCTIONS;
    good = call_one(t, function, shape) && graphs_read(&t->place, got);
    size_t bytes = good ? (size_t)graphs_count(&t->place) * sizeof *got : 0;
    t->wrong += good && memcmp(got, set->expected[function][shape], bytes) != 0;
  }
  free(got);
  return good;
}

static bool call_for(thread_t *t) {
  double end = bench_now_ns() + t->seconds * 1e9;
  bool good = true;
  for (int i = 0; good && (i == 0 || bench_now_ns() < end); i = (i + 1) % (1 << 20))
    good = call_one(t, i % FUNCTIONS, (i / FUNCTIONS + (int)t->seed) % t->set->shapes);
  return good;
}

static void *run_thread(void *user) {
  thread_t *t = user;
  (void)pthread_barrier_wait(&t->set->barrier);
  t->good = t->seconds > 0 ? call_for(t) : check_all(t);
  return NULL;
}

// All together; false where one failed. *out_ns: from their beginning to the last one's end.
static bool run_threads(set_t *set, thread_t *threads, int n, double seconds, double *out_ns) {
  bool good = pthread_barrier_init(&set->barrier, NULL, (unsigned)n + 1) == 0;
  int started = 0;
  for (; started < n && good; started++) {
    thread_t *t = &threads[started];
    t->set = set;
    t->seconds = seconds;
    t->calls = t->wrong = 0;
    good = pthread_create(&t->thread, NULL, run_thread, t) == 0;
    if (!good)
      break;
  }
  if (!good) { // those that were started wait for ever: nothing can be measured here
    (void)fprintf(stderr, "bench: threads cannot be started\n");
    exit(BENCH_EXIT_FAILED);
  }
  double begin = bench_now_ns();
  (void)pthread_barrier_wait(&set->barrier);
  for (int i = 0; i < n; i++) {
    (void)pthread_join(threads[i].thread, NULL);
    good = good && threads[i].good;
  }
  *out_ns = bench_now_ns() - begin;
  (void)pthread_barrier_destroy(&set->barrier);
  return good;
}

static double calls_of(const thread_t *threads, int n) {
  double calls = 0;
  for (int i = 0; i < n; i++)
    calls += (double)threads[i].calls;
  return calls;
}

// ---- Processes ----------------------------------------------------------------------------------

bool graphs_worker(graphs_bench_t *bench) {
  set_t set;
  thread_t t = {.set = &set, .seconds = bench->seconds, .seed = (uint64_t)getpid()};
  char line[16];
  bool good = open_set(bench, &set, false) && graphs_open(bench, place_elements(&set), &t.place);
  for (int i = 0; i < set.shapes * FUNCTIONS && good; i++)
    good = call_one(&t, i % FUNCTIONS, i / FUNCTIONS);
  if (good) {
    printf("ready\n");
    (void)fflush(stdout);
    good = fgets(line, sizeof line, stdin) != NULL;
  }
  t.calls = 0;
  t.seed %= 1000;
  double begin = bench_now_ns();
  good = good && call_for(&t);
  if (good)
    printf("%.17g\n", (double)t.calls / ((bench_now_ns() - begin) / 1e9));
  graphs_close(&t.place);
  close_set(&set);
  return good;
}

typedef struct process_t {
  pid_t pid; // 0: not started
  FILE *to, *from;
} process_t;

extern char **environ;

// This program again, between two pipes.
static bool start_process(const graphs_bench_t *bench, process_t *out) {
  int in[2] = {-1, -1}, back[2] = {-1, -1};
  char seconds[32];
  (void)snprintf(seconds, sizeof seconds, "%.3f", bench->seconds);
  char *const arguments[] = {
      "bench_graphs", "--worker", "--seconds", seconds, bench->tiny ? "--tiny" : NULL, NULL};
  if (pipe(in) || pipe(back))
    return graphs_fail("a pipe", 0, 1);
  posix_spawn_file_actions_t actions;
  (void)posix_spawn_file_actions_init(&actions);
  (void)posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  (void)posix_spawn_file_actions_adddup2(&actions, back[1], STDOUT_FILENO);
  (void)posix_spawn_file_actions_addclose(&actions, in[1]);
  (void)posix_spawn_file_actions_addclose(&actions, back[0]);
  int failed = posix_spawn(&out->pid, "/proc/self/exe", &actions, NULL, arguments, environ);
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)close(in[0]);
  (void)close(back[1]);
  out->to = fdopen(in[1], "w");
  out->from = fdopen(back[0], "r");
  if (failed)
    out->pid = 0;
  return (!failed && out->to && out->from) || graphs_fail("a process", 0, 1);
}

static bool end_process(process_t *process) {
  int status = 0;
  if (process->to)
    (void)fclose(process->to);
  if (process->from)
    (void)fclose(process->from);
  if (process->pid && waitpid(process->pid, &status, 0) != process->pid)
    return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Calls a second of `n` processes that call at the same time.
static bool run_processes(const graphs_bench_t *bench, int n, double *out_rate) {
  process_t processes[MOST_THREADS] = {0};
  char line[64];
  bool good = true;
  *out_rate = 0;
  for (int i = 0; i < n && good; i++)
    good = start_process(bench, &processes[i]);
  for (int i = 0; i < n && good; i++)
    good = fgets(line, sizeof line, processes[i].from) && strcmp(line, "ready\n") == 0;
  for (int i = 0; i < n && good; i++)
    good = fputs("go\n", processes[i].to) >= 0 && fflush(processes[i].to) == 0;
  for (int i = 0; i < n && good; i++) {
    good = fgets(line, sizeof line, processes[i].from) != NULL;
    *out_rate += good ? strtod(line, NULL) : 0;
  }
  for (int i = 0; i < n; i++)
    good = end_process(&processes[i]) && good;
  return good || graphs_fail("processes that called", 0, n);
}

// ---- The case -----------------------------------------------------------------------------------

static double graph_budget(void) {
  const char *text = getenv("DUCTILE_GRAPH_MIB");
  return (text && *text ? strtod(text, NULL) : 256) * (1 << 20);
}

static bool check_threads(graphs_bench_t *bench, set_t *set, thread_t *threads) {
  double ns = 0, wrong = 0, bytes = 0, skips = 0;
  if (!run_threads(set, threads, MOST_THREADS, 0, &ns))
    return false;
  for (int i = 0; i < MOST_THREADS; i++) {
    dt_session_counters_t stats;
    if (!graphs_stats(&threads[i].place, &stats))
      return false;
    wrong += (double)threads[i].wrong;
    bytes += (double)stats.executable_bytes;
    skips += (double)stats.graph_skips;
  }
  bench_value(&bench->report, "threads", "answers compared", "count",
              calls_of(threads, MOST_THREADS));
  bench_limited(&bench->report, "threads", "answers unlike plain launches'", "count", wrong, 0);
  bench_limited(&bench->report, "threads", "graphs of 8 sessions", "B", bytes, graph_budget());
  bench_limited(&bench->report, "threads", "skips", "count", skips, 0);
  return wrong > 0   ? graphs_fail("answers unlike plain launches'", wrong, 0)
         : skips > 0 ? graphs_fail("skips", skips, 0)
                     : bytes <= graph_budget() || graphs_fail("bytes of graphs", bytes, 0);
}

static bool measure_threads(graphs_bench_t *bench, set_t *set, thread_t *threads) {
  static const int counts[] = {1, 2, 4, 8};
  double one = 0, all = 0, best = 0;
  bool good = true; // where processes fail, threads are measured all the same
  size_t steps = bench->tiny ? 2 : sizeof counts / sizeof counts[0];
  for (size_t k = 0; k < steps; k++) {
    int n = counts[k];
    double ns = 0, rate = 0, processes = 0;
    char name[32];
    (void)snprintf(name, sizeof name, "threads, %d", n);
    if (!run_threads(set, threads, n, bench->seconds, &ns))
      return false;
    good = run_processes(bench, n, &processes) && good;
    rate = calls_of(threads, n) / (ns / 1e9);
    bench_rate(&bench->report, name, "calls a second", "1/s", rate, "processes", processes);
    one = n == 1 ? rate : one;
    all = rate;
    best = processes > best ? processes : best;
  }
  double linear = counts[steps - 1] * one;
  bench_rate(&bench->report, "threads", "calls a second of most threads", "1/s", all,
             linear < best ? "as many times one thread" : "best of processes",
             linear < best ? linear : best);
  return good;
}

bool graphs_case_threads(graphs_bench_t *bench) {
  set_t set;
  thread_t threads[MOST_THREADS] = {0};
  bool good = open_set(bench, &set, true);
  for (int i = 0; i < MOST_THREADS && good; i++) {
    threads[i].seed = (uint64_t)i;
    good = graphs_open(bench, place_elements(&set), &threads[i].place);
  }
  good = good && check_threads(bench, &set, threads);
  for (int i = 0; i < MOST_THREADS; i++)
    threads[i].seed = (uint64_t)i * 7;
  good = good && measure_threads(bench, &set, threads);
  for (int i = 0; i < MOST_THREADS; i++)
    graphs_close(&threads[i].place);
  close_set(&set);
  return good;
}

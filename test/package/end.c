// SPDX-License-Identifier: Apache-2.0
// Ends a process in every phase of the library's work, in every way there is, with nothing
// released: no signal, no hang, soon. Without arguments for one run it is its own driver, which
// starts a process a run and watches it.
//
// Built twice: linked with the library, and (END_OPEN) opening it, so that the libraries beneath
// it are there from the start, or come after the program's own exit handlers.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ductile/ductile.h"

#define HANG_NS 20000000000
#define LIMIT_NS 2000000000
#define MOST_AT_ONCE 16

// ---- The library ----------------------------------------------------------------------------------

#define API(X)                                                                                     \
  X(runtime_create)                                                                                \
  X(runtime_release)                                                                               \
  X(function_create)                                                                               \
  X(function_release)                                                                              \
  X(session_create)                                                                                \
  X(session_destroy)                                                                               \
  X(call)                                                                                          \
  X(tensor_create_empty)                                                                           \
  X(tensor_release)                                                                                \
  X(status_code)                                                                                   \
  X(status_message)                                                                                \
  X(add)                                                                                           \
  X(matmul)                                                                                        \
  X(softmax)                                                                                       \
  X(transpose)                                                                                     \
  X(tanh)

static struct {
#define X(name) __typeof__(dt_##name) *name;
  API(X)
#undef X
} api;

static void *library;

#ifdef END_OPEN
static bool open_library(const char *path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    (void)fprintf(stderr, "end: %s\n", dlerror());
  bool good = library != NULL;
#define X(name)                                                                                    \
  {                                                                                                \
    void *symbol = good ? dlsym(library, "dt_" #name) : NULL;                                      \
    memcpy(&api.name, &symbol, sizeof(symbol));                                                    \
    good = good && symbol;                                                                         \
  }
  API(X)
#undef X
  return good;
}
#else
static bool open_library(const char *path) {
  (void)path;
#define X(name) api.name = dt_##name;
  API(X)
#undef X
  return true;
}
#endif

// ---- One run --------------------------------------------------------------------------------------

typedef struct run_t {
  const struct phase_t *phase;
  const struct way_t *way;
  uint32_t threads;
  long delay_us;
  dt_runtime_t *runtime;
  dt_function_t *function;
  dt_session_t *session;
  pthread_t worker;
} run_t;

static run_t run;
static _Atomic bool in_phase; // it has begun
static _Atomic bool stop;     // phases that go on for ever are to end

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_us(long us) {
  const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  (void)nanosleep(&pause, NULL);
}

static void tell_time(void) { // when the ending begins, for the driver
  int64_t now = now_ns();
  if (write(STDOUT_FILENO, &now, sizeof(now)) != (ssize_t)sizeof(now))
    _exit(4);
}

// A process whose main thread has ended goes on until the last of the host's threads ends.
static void *end_thread(void) {
  if (atomic_load(&stop))
    tell_time();
  return NULL;
}

// A status that says anything but that the process ends is a failure of the test.
static void check(dt_status_t status) {
  if (!status || api.status_code(status) == DT_E_STATE)
    return;
  (void)fprintf(stderr, "end: %s\n", api.status_message(status));
  _exit(3);
}

static void end_now(void);

#define LAYERS 12
static dt_status_t layers_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  dt_value_t x = in[0];
  for (int k = 0; k < LAYERS; k++) {
    dt_value_t y = api.matmul(t, x, api.transpose(t, x, 0, 1));
    x = api.add(t, api.matmul(t, api.softmax(t, y, -1), x), api.tanh(t, x));
  }
  out[0] = x;
  return NULL;
}

static dt_status_t one_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  (void)closure;
  out[0] = api.tanh(t, api.matmul(t, in[0], api.transpose(t, in[0], 0, 1)));
  return NULL;
}

// Traces until it is told to stop, or for as long as another compile would take.
static dt_status_t slow_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  atomic_store(&in_phase, true);
  out[0] = in[0];
  for (int k = 0; k < 100 && !atomic_load(&stop); k++) {
    out[0] = api.tanh(t, out[0]);
    sleep_us(1000);
  }
  return NULL;
}

// The process ends from inside it.
static dt_status_t ending_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  (void)closure;
  out[0] = api.tanh(t, in[0]);
  end_now();
  return NULL;
}

static void make_runtime(dt_runtime_t **out) {
  const dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 2, .compile_threads = run.threads};
  check(api.runtime_create(&options, out));
}

static void make_function(dt_program_fn_t program, dt_dynamic_t dynamic) {
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "end",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input,
                                         .dynamic = dynamic};
  check(api.function_create(run.runtime, program, NULL, &options, &run.function));
  check(api.session_create(run.runtime, NULL, &run.session));
}

static void call(int64_t rows) {
  const int64_t sizes[] = {rows, 64};
  dt_tensor_t *x = NULL, *out = NULL;
  check(api.tensor_create_empty(DT_F32, 2, sizes, &x));
  check(api.call(run.session, run.function, &x, 1, &out, 1, NULL));
  api.tensor_release(out);
  api.tensor_release(x);
}

// ---- Phases ---------------------------------------------------------------------------------------

static void *compile_main(void *unused) {
  atomic_store(&in_phase, true);
  call(17);
  (void)unused;
  return end_thread();
}

static void begin_compile(void) {
  make_runtime(&run.runtime);
  make_function(layers_program, DT_DYNAMIC_SYMBOLIC);
  (void)pthread_create(&run.worker, NULL, compile_main, NULL);
}

static void begin_trace(void) {
  make_runtime(&run.runtime);
  make_function(slow_program, DT_DYNAMIC_SYMBOLIC);
  (void)pthread_create(&run.worker, NULL, compile_main, NULL);
}

// The ending comes from the program itself; what follows is for ways that return from it.
static void begin_inside(void) {
  make_runtime(&run.runtime);
  make_function(ending_program, DT_DYNAMIC_SYMBOLIC);
  call(17);
}

// The last call's decider is being made, or will be in a moment.
static void begin_decide(void) {
  make_runtime(&run.runtime);
  make_function(one_program, DT_DYNAMIC_STATIC);
  for (int64_t rows = 2; rows < 5; rows++)
    call(rows);
  atomic_store(&in_phase, true);
}

static void begin_first(void) {
  make_runtime(&run.runtime);
  make_function(one_program, DT_DYNAMIC_SYMBOLIC);
  call(5);
  atomic_store(&in_phase, true);
}

// Pages are being made resident.
static void begin_warm(void) {
  (void)setenv("DUCTILE_WARM_MIB", "256", 1);
  make_runtime(&run.runtime);
  atomic_store(&in_phase, true);
}

static void *kernels_main(void *unused) {
  while (!atomic_load(&stop)) {
    call(700);
    atomic_store(&in_phase, true);
  }
  (void)unused;
  return end_thread();
}

static void begin_kernels(void) {
  make_runtime(&run.runtime);
  make_function(one_program, DT_DYNAMIC_SYMBOLIC);
  (void)pthread_create(&run.worker, NULL, kernels_main, NULL);
}

// Runtimes come and go; the last one stays.
static void *create_main(void *unused) {
  while (!atomic_load(&stop)) {
    dt_runtime_t *runtime = NULL;
    atomic_store(&in_phase, true);
    make_runtime(&runtime);
    if (!atomic_load(&stop))
      api.runtime_release(runtime);
  }
  (void)unused;
  return end_thread();
}

// All that was used is left behind by a thread that is gone; the main thread never uses anything.
static void *leave_main(void *unused) {
  begin_first();
  return unused;
}

static void begin_left(void) {
  (void)pthread_create(&run.worker, NULL, leave_main, NULL);
  (void)pthread_join(run.worker, NULL);
}

static void begin_create(void) { (void)pthread_create(&run.worker, NULL, create_main, NULL); }

typedef struct phase_t {
  const char *name;
  void (*begin)(void);
  long most_delay_us; // after it has begun
  bool alone;         // no other thread of the host's is at work: all may be released
} phase_t;

static const phase_t phases[] = {
    {"trace", begin_trace, 60000, false},      {"inside", begin_inside, 0, false},
    {"compile", begin_compile, 400000, false}, {"decide", begin_decide, 30000, true},
    {"first", begin_first, 3000, true},        {"warm", begin_warm, 20000, true},
    {"kernels", begin_kernels, 20000, false},  {"create", begin_create, 60000, false},
    {"left", begin_left, 3000, true},
};

// ---- Ways -----------------------------------------------------------------------------------------

static void by_return(void) {}
static void by_exit(void) { exit(0); }
static void by_quick_exit(void) { quick_exit(0); }

static void *exit_main(void *unused) {
  exit(0);
  return unused;
}

static void by_other_thread(void) {
  pthread_t thread;
  (void)pthread_create(&thread, NULL, exit_main, NULL);
  (void)pthread_join(thread, NULL);
}

static void by_close(void) {
  if (library)
    (void)dlclose(library);
}

// The child releases what it may, and ends as the parent does.
static void by_fork(void) {
  pid_t child = fork();
  if (child == 0) {
    if (run.phase->alone) {
      api.session_destroy(run.session);
      api.function_release(run.function);
      api.runtime_release(run.runtime);
    }
    dt_runtime_t *runtime = NULL;
    dt_status_t status = api.runtime_create(NULL, &runtime);
    // No runtime lives at some moments of phase `create`.
    exit(status && api.status_code(status) != DT_E_FORKED ? 5 : 0);
  }
  int how = 0;
  if (waitpid(child, &how, 0) != child || how != 0) {
    (void)fprintf(stderr, "end: the child ended with %#x\n", (unsigned)how);
    _exit(WIFSIGNALED(how) ? 128 + WTERMSIG(how) : 5);
  }
}

static void by_thread_exit(void) {
  atomic_store(&stop, true);
  pthread_exit(NULL);
}

static void release_all(void) {
  api.session_destroy(run.session);
  api.function_release(run.function);
  api.runtime_release(run.runtime);
}

static void by_handler(void) {}

typedef struct way_t {
  const char *name;
  void (*end)(void); // returns: main returns
  bool alone;        // for such phases only
} way_t;

static const way_t ways[] = {
    {"return", by_return, false},       {"exit", by_exit, false},
    {"thread", by_other_thread, false}, {"quick_exit", by_quick_exit, false},
    {"fork", by_fork, false},           {"pthread_exit", by_thread_exit, false},
    {"release", by_handler, true}, // by a handler that was registered before
#ifdef END_OPEN
    {"dlclose", by_close, false},
#endif
};

#define N_PHASES (sizeof(phases) / sizeof(phases[0]))
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

static bool possible(const phase_t *phase, const way_t *way) { return phase->alone || !way->alone; }

static void end_now(void) {
  tell_time();
  run.way->end();
}

static void *open_main(void *path) { return open_library(path) ? path : NULL; }

// Opens the library on this thread or on another, whose end precedes what follows.
static bool open_by(char *path, bool other) {
  pthread_t thread;
  void *opened = NULL;
  if (!other)
    return open_library(path);
  return pthread_create(&thread, NULL, open_main, path) == 0 &&
         pthread_join(thread, &opened) == 0 && opened;
}

static int run_one(char **argv) {
  for (size_t k = 0; k < N_PHASES; k++)
    run.phase = strcmp(phases[k].name, argv[2]) == 0 ? &phases[k] : run.phase;
  for (size_t k = 0; k < N_WAYS; k++)
    run.way = strcmp(ways[k].name, argv[3]) == 0 ? &ways[k] : run.way;
  run.threads = (uint32_t)strtoul(argv[4], NULL, 10);
  run.delay_us = strtol(argv[5], NULL, 10);
  if (!run.phase || !run.way || !open_by(argv[6], run.phase->begin == begin_left))
    return 2;
  if (run.way->alone)
    (void)atexit(release_all);
  run.phase->begin();
  if (run.phase->begin == begin_inside)
    return 0; // it has ended, or nearly
  while (!atomic_load(&in_phase))
    sleep_us(100);
  sleep_us(run.delay_us);
  end_now();
  (void)by_close;
  return 0;
}

// ---- The driver -----------------------------------------------------------------------------------

typedef struct count_t {
  unsigned runs, signals, hangs, failed;
  int64_t longest_ns;
} count_t;

typedef struct going_t {
  pid_t pid; // 0: none
  int pipe;
  int64_t began_ns;
  count_t *count;
  const char *what;
} going_t;

static void start(going_t *going, const char *const *args) {
  int ends[2];
  if (pipe(ends) != 0 || (going->pid = fork()) < 0)
    exit(2);
  if (going->pid == 0) {
    (void)dup2(ends[1], STDOUT_FILENO);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)execv("/proc/self/exe", (char *const *)(uintptr_t)args);
    _exit(2);
  }
  (void)close(ends[1]);
  going->pipe = ends[0];
  going->began_ns = now_ns();
}

// True when the process has ended, or was ended for hanging.
static bool look(going_t *going) {
  int how = 0;
  bool hangs = false;
  pid_t pid = waitpid(going->pid, &how, WNOHANG);
  if (pid == 0 && now_ns() - going->began_ns > HANG_NS) {
    hangs = true;
    (void)kill(going->pid, SIGKILL);
    pid = waitpid(going->pid, &how, 0);
  }
  if (pid == 0)
    return false;
  int64_t ended = now_ns(), told = going->began_ns;
  while (read(going->pipe, &told, sizeof(told)) == (ssize_t)sizeof(told)) {
  }
  (void)close(going->pipe);
  count_t *count = going->count;
  count->runs++;
  count->hangs += hangs;
  bool signalled = !hangs && (WIFSIGNALED(how) || (WIFEXITED(how) && WEXITSTATUS(how) > 128));
  count->signals += signalled;
  bool failed = !hangs && !signalled && WEXITSTATUS(how) != 0;
  count->failed += failed;
  if (ended - told > count->longest_ns)
    count->longest_ns = ended - told;
  if (hangs || signalled || failed)
    (void)fprintf(stderr, "end: %s: %s, status %#x\n", going->what,
                  hangs       ? "hangs"
                  : signalled ? "a signal"
                              : "a failure",
                  (unsigned)how);
  going->pid = 0;
  return true;
}

static going_t *find_free(going_t *all, int n) {
  for (;;) {
    for (int k = 0; k < n; k++) {
      if (all[k].pid == 0 || look(&all[k]))
        return &all[k];
    }
    sleep_us(1000);
  }
}

// Looks at all of them by turns: what ended counts until it is seen.
static void finish(going_t *all, int n) {
  for (int left = n; left > 0; sleep_us(1000)) {
    left = 0;
    for (int k = 0; k < n; k++)
      left += all[k].pid && !look(&all[k]);
  }
}

static long next_random(long below) {
  static uint64_t state = 0x9e3779b97f4a7c15u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return below > 0 ? (long)(state % (uint64_t)below) : 0;
}

// `runs` of one phase, by turns in every way that is possible.
static void run_phase(const phase_t *phase, const char *threads, long runs, const char *path,
                      going_t *all, int at_once, count_t *counts) {
  static char names[N_PHASES * N_WAYS][64];
  for (long k = 0, turn = 0; k < runs; turn++) {
    size_t w = (size_t)turn % N_WAYS;
    if (!possible(phase, &ways[w]))
      continue;
    char delay[32], *name = names[(size_t)(phase - phases) * N_WAYS + w];
    (void)snprintf(delay, sizeof(delay), "%ld", next_random(phase->most_delay_us));
    (void)snprintf(name, sizeof(names[0]), "%s by %s", phase->name, ways[w].name);
    going_t *going = find_free(all, at_once);
    *going = (going_t){.count = &counts[w], .what = name};
    start(going,
          (const char *[]){"end", "--one", phase->name, ways[w].name, threads, delay, path, NULL});
    k++;
  }
  finish(all, at_once);
}

static bool tell(const phase_t *phase, const char *threads, const count_t *counts) {
  count_t sum = {0};
  for (size_t w = 0; w < N_WAYS; w++) {
    sum.runs += counts[w].runs;
    sum.signals += counts[w].signals;
    sum.hangs += counts[w].hangs;
    sum.failed += counts[w].failed;
    if (counts[w].longest_ns > sum.longest_ns)
      sum.longest_ns = counts[w].longest_ns;
  }
  (void)printf("| %-8s | %15s | %5u | %7u | %5u | %8u | %7.0f |\n", phase->name, threads, sum.runs,
               sum.signals, sum.hangs, sum.failed, (double)sum.longest_ns * 1e-6);
  (void)fflush(stdout);
  return !sum.signals && !sum.hangs && !sum.failed && sum.longest_ns <= LIMIT_NS;
}

static const char usage[] =
    "usage: end LIBRARY [RUNS [AT_ONCE [PHASE]]]\n"
    "\n"
    "Ends processes in each phase of the library's work, RUNS times (default: 14) with 1 and with\n"
    "4 compile threads, AT_ONCE at a time (default: 2), by turns in every way; tells signals,\n"
    "hangs, other failures and the longest time from the ending's beginning to its end.\n";

int main(int argc, char **argv) {
  if (argc == 7 && strcmp(argv[1], "--one") == 0)
    return run_one(argv);
  long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 14;
  long at_once = argc > 3 ? strtol(argv[3], NULL, 10) : 2;
  if (argc < 2 || argc > 5 || runs < 1 || at_once < 1 || at_once > MOST_AT_ONCE) {
    (void)fputs(usage, stderr);
    return 2;
  }
  going_t all[MOST_AT_ONCE] = {{0}};
  bool good = true;
  (void)printf("| phase    | compile threads |  runs | signals | hangs | failures | longest |\n"
               "|----------|----------------:|------:|--------:|------:|---------:|--------:|\n");
  for (size_t k = 0; k < N_PHASES; k++) {
    for (int many = 0; many < 2; many++) {
      count_t counts[N_WAYS] = {{0}};
      if (argc > 4 && strcmp(argv[4], phases[k].name) != 0)
        continue;
      run_phase(&phases[k], many ? "4" : "1", runs, argv[1], all, (int)at_once, counts);
      good = tell(&phases[k], many ? "4" : "1", counts) && good;
    }
  }
  return good ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// What it takes to find the variant of a call: ten tensors of rank 4 with four symbols, each tensor
// a heap object of its own, and 1, 32 or 256 variants. Two families of variants: "grid", whose
// regions are the cells of a grid (a range of one symbol, a remainder of the next, an equality with
// a literal, an order or equality of two symbols), and "mixed", in which every variant asks another
// kind of question of every symbol.
//
// Warm: the same arguments over and over, and arguments of all variants in random order, in which
// branches cannot be foreseen. Cold: caches are swept between calls, and one reading of the clock
// is taken off.
#include "bench/harness.h"
#include "guards/tree.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/exec/decide.h"

#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INPUTS = 10, RANK = 4, MOST = 256, REPEATS = 4000, COLD_CALLS = 24 };
#define SWEEP_BYTES ((size_t)64 << 20)

static const char usage[] =
    "usage: bench_guards [--json] [--rounds N]\n"
    "\n"
    "Measures compiled look-up of variants and how long it takes to make it.\n"
    "  --rounds N  builds of which the median is taken (default: 15)\n"
    "  --json      JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct subject_t {
  const char *family;
  uint32_t n;
  dt_arena_t arenas[MOST];
  dt_symenv_t *envs[MOST];
  dt_guards_t *guards[MOST];
  dt_tensor_t *inputs[MOST][INPUTS]; // arguments that each variant takes
  dt_native_t *native;
  dt_decide_fn_t decide;
  const dt_compiler_t *compiler;
  double build_cpu_ns; // of the last build: what its thread computed
} subject_t;

// ---- Variants -------------------------------------------------------------------------------------
typedef struct wanted_t {
  dt_guard_cond_t conds[16];
  uint32_t n;
  int64_t sizes[RANK]; // that satisfy them
} wanted_t;

static void want(wanted_t *w, dt_sym_t cond) {
  w->conds[w->n++] = (dt_guard_cond_t){.cond = cond, .origin = {.op = "bench"}};
}

static void grid(dt_symenv_t *env, const dt_sym_t *s, uint32_t v, wanted_t *w) {
  static const int64_t edges[5] = {0, 16, 64, 256, 4096};
  uint32_t d[4] = {v & 3, v >> 2 & 3, v >> 4 & 3, v >> 6 & 3};
#define L(x) dt__sym_const(env, (x))
  want(w, dt__sym_lt(env, L(edges[d[0]]), s[0]));
  want(w, dt__sym_le(env, s[0], L(edges[d[0] + 1])));
  want(w, dt__sym_eq(env, dt__sym_mod(env, s[1], L(4)), L(d[1])));
  want(w, dt__sym_le(env, s[1], L(512)));
  want(w, dt__sym_eq(env, s[2], L(64 * (1 + d[2]))));
  w->sizes[0] = edges[d[0]] + 3;
  w->sizes[1] = 20 + d[1];
  w->sizes[2] = 64 * (1 + d[2]);
  const dt_sym_t others[2] = {s[0], s[1]};
  const int64_t sizes[2] = {w->sizes[0], w->sizes[1]};
  switch (d[3]) {
  case 0: // equal to a symbol
    want(w, dt__sym_eq(env, s[3], others[0]));
    w->sizes[3] = sizes[0];
    break;
  case 1:
    want(w, dt__sym_ne(env, s[3], others[0]));
    want(w, dt__sym_eq(env, s[3], others[1]));
    w->sizes[3] = sizes[1];
    if (sizes[0] == sizes[1])
      w->sizes[1] = w->sizes[3] += 4;
    break;
  case 2: // divisible
    want(w, dt__sym_lt(env, L(2048), s[3]));
    want(w, dt__sym_eq(env, dt__sym_mod(env, s[3], L(8)), L(0)));
    w->sizes[3] = 4096;
    break;
  default:
    want(w, dt__sym_lt(env, L(2048), s[3]));
    want(w, dt__sym_ne(env, dt__sym_mod(env, s[3], L(8)), L(0)));
    w->sizes[3] = 4099;
    break;
  }
}

static void mixed(dt_symenv_t *env, const dt_sym_t *s, uint32_t v, wanted_t *w) {
  uint64_t random = v * 7919u + 1;
  for (uint32_t j = 0; j < RANK; j++) {
    int64_t base = 16 + bench_random(&random, 0, 255) * 8;
    switch ((v + j + v / 16) % 4) {
    case 0:
      want(w, dt__sym_le(env, L(base), s[j]));
      want(w, dt__sym_le(env, s[j], L(base + 64)));
      w->sizes[j] = base + 5;
      break;
    case 1: {
      int64_t rest = bench_random(&random, 0, 15);
      want(w, dt__sym_eq(env, dt__sym_mod(env, s[j], L(16)), L(rest)));
      w->sizes[j] = base / 16 * 16 + rest;
      break;
    }
    case 2:
      want(w, dt__sym_eq(env, s[j], L(base)));
      w->sizes[j] = base;
      break;
    default:
      want(w, dt__sym_lt(env, s[j], L(base)));
      want(w, dt__sym_eq(env, dt__sym_mod(env, s[j], L(3)), L(v % 3)));
      w->sizes[j] = (base - 4) / 3 * 3 + v % 3;
      break;
    }
  }
#undef L
}

static dt_status_t make_variant(subject_t *subject, uint32_t v) {
  dt__arena_init(&subject->arenas[v], 4096);
  DT_TRY(dt__symenv_create(&subject->envs[v]));
  dt_symenv_t *env = subject->envs[v];
  dt_graph_t *graph = dt__graph_create(&subject->arenas[v], env);
  if (!graph)
    return DT_NO_MEMORY();
  dt_sym_t s[RANK];
  for (uint32_t d = 0; d < RANK; d++)
    s[d] = dt__sym_new(env, DT_SYMBOL_SIZE, (dt_range_t){0, DT_SIZE_LIMIT - 1}, NULL, "");
  for (uint32_t k = 0; k < INPUTS; k++) {
    dt_graph_input_t input = {.name = "", .dtype = DT_U8, .rank = RANK, .contiguous = true};
    dt_sym_t stride = dt__sym_const(env, 1);
    for (uint32_t d = RANK; d-- > 0;) {
      input.sizes[d] = s[d];
      input.strides[d] = stride;
      stride = dt__sym_mul(env, stride, s[d]);
    }
    dt_node_id_t id;
    DT_TRY(dt__graph_add_input(graph, &input, &id));
  }
  wanted_t w = {0};
  (strcmp(subject->family, "grid") == 0 ? grid : mixed)(env, s, v, &w);
  DT_TRY(dt__symenv_status(env));
  DT_TRY(dt__guards_create(graph, w.conds, w.n, NULL, &subject->guards[v]));
  for (uint32_t k = 0; k < INPUTS; k++) {
    static char byte; // nobody reads the elements
    dt_tensor_desc_t desc = {.dtype = DT_U8, .rank = RANK, .sizes = w.sizes, .data = &byte};
    DT_TRY(dt_tensor_create(&desc, &subject->inputs[v][k]));
  }
  return NULL;
}

static void drop(subject_t *subject) {
  dt__native_unload(subject->native);
  for (uint32_t v = 0; v < subject->n; v++) {
    for (uint32_t k = 0; k < INPUTS; k++)
      dt_tensor_release(subject->inputs[v][k]);
    dt__guards_destroy(subject->guards[v]);
    dt__symenv_destroy(subject->envs[v]);
    dt__arena_fini(&subject->arenas[v]);
  }
}

// ---- Hits -----------------------------------------------------------------------------------------
static inline int64_t find(const subject_t *subject, uint32_t v, int64_t *symbols) {
  dt_guard_args_t args = {.inputs = subject->inputs[v]};
  return subject->decide(&args, symbols);
}

// The answer must be the interpreter's for every variant's arguments.
static bool check(const subject_t *subject) {
  for (uint32_t v = 0; v < subject->n; v++) {
    int64_t symbols[RANK], expected[RANK];
    dt_guard_args_t args = {.inputs = subject->inputs[v]};
    int64_t first = -1;
    for (uint32_t k = 0; first < 0 && k < subject->n; k++)
      first = dt__guards_run(subject->guards[k], &args, expected) ? (int64_t)k : -1;
    int64_t found = find(subject, v, symbols);
    if (first < 0 || found != first || memcmp(symbols, expected, sizeof symbols) != 0) {
      fprintf(stderr, "bench: %s, %u variants: arguments of %u: expected %lld, found %lld\n",
              subject->family, subject->n, v, (long long)first, (long long)found);
      return false;
    }
  }
  return true;
}

static double warm_ns(const subject_t *subject, uint32_t v) {
  int64_t symbols[RANK];
  double best = 0;
  for (int round = 0; round < 3; round++) {
    double start = bench_now_ns();
    for (int i = 0; i < REPEATS; i++) {
      (void)find(subject, v, symbols);
      __asm__ volatile("" : : "r"(symbols) : "memory");
    }
    double ns = (bench_now_ns() - start) / REPEATS;
    best = round == 0 || ns < best ? ns : best;
  }
  return best;
}

static double interpreted_ns(const subject_t *subject, uint32_t v) {
  int64_t symbols[RANK];
  dt_guard_args_t args = {.inputs = subject->inputs[v]};
  int repeats = REPEATS / 8 / (int)subject->n + 4;
  double start = bench_now_ns();
  for (int i = 0; i < repeats; i++) {
    for (uint32_t k = 0; k < subject->n && !dt__guards_run(subject->guards[k], &args, symbols); k++)
      ;
    __asm__ volatile("" : : "r"(symbols) : "memory");
  }
  return (bench_now_ns() - start) / repeats;
}

static double shuffled_ns(const subject_t *subject) {
  enum { ORDER = 1 << 14 };
  static uint16_t order[ORDER];
  uint64_t random = 1;
  for (int i = 0; i < ORDER; i++)
    order[i] = (uint16_t)bench_random(&random, 0, subject->n - 1);
  int64_t symbols[RANK];
  double best = 0;
  for (int round = 0; round < 5; round++) {
    double start = bench_now_ns();
    for (int i = 0; i < ORDER; i++) {
      (void)find(subject, order[i], symbols);
      __asm__ volatile("" : : "r"(symbols) : "memory");
    }
    double ns = (bench_now_ns() - start) / ORDER;
    best = round == 0 || ns < best ? ns : best;
  }
  return best;
}

static void sweep_caches(void) {
  static char *bytes;
  if (!bytes)
    bytes = malloc(SWEEP_BYTES);
  for (size_t i = 0; bytes && i < SWEEP_BYTES; i += 64)
    bytes[i]++;
  __asm__ volatile("" : : "r"(bytes) : "memory");
}

static void report_cold(bench_report_t *report, const char *name, const subject_t *subject) {
  double times[COLD_CALLS], clock = bench_clock_ns(), sum = 0, worst = 0;
  for (uint32_t i = 0; i < COLD_CALLS; i++) {
    int64_t symbols[RANK];
    uint32_t v = i * 37u % subject->n;
    sweep_caches();
    double start = bench_now_ns();
    (void)find(subject, v, symbols);
    times[i] = bench_now_ns() - start - clock;
    __asm__ volatile("" : : "r"(symbols) : "memory");
    sum += times[i];
    worst = times[i] > worst ? times[i] : worst;
  }
  bench_value(report, name, "hit cold mean", "ns", sum / COLD_CALLS);
  bench_value(report, name, "hit cold worst", "ns", worst);
}

static void report_hits(bench_report_t *report, const char *name, const subject_t *subject,
                        double limit) {
  double sum = 0, worst = 0, slow = 0;
  for (uint32_t v = 0; v < subject->n; v++) {
    double ns = warm_ns(subject, v);
    sum += ns;
    worst = ns > worst ? ns : worst;
    slow += interpreted_ns(subject, v);
  }
  bench_limited(report, name, "hit warm mean", "ns", sum / subject->n, limit);
  bench_value(report, name, "hit warm worst", "ns", worst);
  bench_limited(report, name, "hit shuffled mean", "ns", shuffled_ns(subject), limit);
  bench_value(report, name, "interpreted mean", "ns", slow / subject->n);
  report_cold(report, name, subject);
}

// ---- Builds ---------------------------------------------------------------------------------------
static double thread_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static dt_status_t run_build(void *opaque) {
  subject_t *subject = opaque;
  dt__native_unload(subject->native);
  subject->native = NULL;
  const dt_guards_t *programs[MOST];
  for (uint32_t v = 0; v < subject->n; v++)
    programs[v] = subject->guards[v];
  double begin = thread_ns();
  dt_status_t status = dt__decide_compile(subject->compiler, programs, subject->n, "bench",
                                          &subject->native, &subject->decide);
  subject->build_cpu_ns = thread_ns() - begin;
  return status;
}

static bool build(bench_report_t *report, const char *name, dt_compiler_t *compiler,
                  subject_t *subject, long rounds) {
  double times[64];
  subject->compiler = compiler;
  for (long i = 0; i < rounds; i++) {
    dt_job_t job = {.run = run_build, .arg = subject};
    double start = bench_now_ns();
    if (!bench_ok(dt__jobs_run(dt__compiler_jobs(compiler), &job, 1, 1), "building"))
      return false;
    times[i] = (bench_now_ns() - start) * 1e-6;
  }
  double first = times[0], median = bench_median(times, (size_t)rounds);
  bench_value(report, name, "build first", "ms", first);
  if (subject->n == 32)
    bench_limited(report, name, "build", "ms", median, 15);
  else
    bench_value(report, name, "build", "ms", median);
  bench_value(report, name, "build, thread time", "ms", subject->build_cpu_ns * 1e-6);
  bench_value(report, name, "code", "bytes", (double)dt__native_bytes(subject->native));
  return true;
}

static bool run_subject(bench_report_t *report, dt_compiler_t *compiler, const char *family,
                        uint32_t n, double limit, long rounds) {
  char name[32];
  snprintf(name, sizeof name, "%s %u", family, n);
  subject_t *subject = calloc(1, sizeof *subject);
  if (!subject)
    return false;
  subject->family = family;
  bool good = true;
  for (uint32_t v = 0; good && v < n; v++) {
    subject->n = v + 1;
    good = bench_ok(make_variant(subject, v), "making a variant");
  }
  good = good && build(report, name, compiler, subject, rounds) && check(subject);
  if (good)
    report_hits(report, name, subject, limit);
  drop(subject);
  free(subject);
  return good;
}

// ---- Variants that come one by one ----------------------------------------------------------------
// Every size is a variant of its own; the evaluator answers, so that nothing but guards takes time.
static dt_status_t exact(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  (void)dt_sym_int(trace, dt_dim(trace, in[0], 0));
  out[0] = dt_add(trace, in[0], in[0]);
  return NULL;
}

static bool call_sizes(dt_session_t *session, dt_function_t *function) {
  static float memory[MOST];
  for (int64_t n = 1; n <= MOST; n++) {
    dt_tensor_desc_t desc = {.dtype = DT_F32, .rank = 1, .sizes = &n, .data = memory};
    dt_tensor_t *input = NULL, *output = NULL;
    bool good = bench_ok(dt_tensor_create(&desc, &input), "making a tensor") &&
                bench_ok(dt_call(session, function, &input, 1, &output, 1, NULL), "calling");
    dt_tensor_release(input);
    dt_tensor_release(output);
    if (!good)
      return false;
  }
  return true;
}

// Waits until the decider covers all variants.
static bool wait_for_decider(dt_function_t *function) {
  double start = bench_now_ns();
  for (;;) {
    dt__mutex_lock(&function->mutex);
    const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_relaxed);
    bool done = list->decider && list->decider->n == list->n;
    dt__mutex_unlock(&function->mutex);
    if (done)
      return true;
    if (bench_now_ns() - start > 20e9)
      return false;
    sched_yield();
  }
}

static bool run_arrivals(bench_report_t *report) {
  const dt_dim_decl_t dims[] = {{.name = "n"}};
  const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims}};
  const dt_function_options_t options = {.name = "exact",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = inputs,
                                         .answer = DT_ANSWER_EVALUATOR,
                                         .variant_limit = MOST};
  dt_runtime_t *runtime = NULL;
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  double start = bench_now_ns();
  bool good = bench_ok(dt_runtime_create(NULL, &runtime), "making the runtime") &&
              bench_ok(dt_function_create(runtime, exact, NULL, &options, &function),
                       "making the function") &&
              bench_ok(dt_session_create(runtime, NULL, &session), "making a session") &&
              call_sizes(session, function);
  double arrived = bench_now_ns();
  if (good && !wait_for_decider(function)) {
    fprintf(stderr, "bench: no decider came over all variants\n");
    good = false;
  }
  if (good) {
    bench_value(report, "arriving 256", "all calls", "ms", (arrived - start) * 1e-6);
    bench_value(report, "arriving 256", "until compiled", "ms", (bench_now_ns() - arrived) * 1e-6);
    bench_value(report, "arriving 256", "builds", "count", (double)function->decider.made);
    bench_limited(report, "arriving 256", "all builds", "ms",
                  (double)function->decider.all_ns * 1e-6, 1000);
  }
  dt_session_destroy(session);
  dt_function_release(function);
  dt_runtime_release(runtime);
  return good;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool json = false;
  long rounds = 15;
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'h') {
      fputs(usage, stdout);
      return 0;
    }
    json |= option == 'j';
    if (option == '?' || (option == 'r' && !bench_parse_number(optarg, 1, 64, &rounds))) {
      fputs(usage, stderr);
      return BENCH_EXIT_USAGE;
    }
  }
  dt_compiler_t *compiler = NULL;
  dt_compiler_options_t make = {.threads = 1, .pool_width = 1, .cpu = ""};
  bool good = bench_ok(dt__compiler_create(&make, &compiler), "making the compiler");
  bench_report_t report;
  bench_begin(&report, "guards", json);
  static const struct {
    uint32_t n;
    double limit;
  } counts[] = {{1, 30}, {32, 80}, {256, 200}};
  for (size_t k = 0; good && k < sizeof counts / sizeof counts[0]; k++) {
    good = run_subject(&report, compiler, "grid", counts[k].n, counts[k].limit, rounds) &&
           run_subject(&report, compiler, "mixed", counts[k].n, counts[k].limit, rounds);
  }
  dt__compiler_destroy(compiler);
  good = good && run_arrivals(&report);
  return good ? 0 : BENCH_EXIT_FAILED;
}

// SPDX-License-Identifier: Apache-2.0
// simulate SEED LIVES [--verbose]: lives of a host, each drawn from one seed. A life has a runtime
// of some options, and steps of one thread: functions and sessions (on the CPU and on the fake
// driver's device) come and go, calls of some program, size and data are made, clean or under one
// trouble (the n-th allocation, mapping, file operation or thread fails, once or for good; a
// deadline; a flag; data out of range), constants are updated, memory is trimmed, questions are
// asked, and arguments are wrong. Every answer is compared with plain C, bit for bit (data are
// small integers), and what a failed call updates must be as it was; every status must be one that
// its trouble explains, with a message. When the runtime is gone, no thread, descriptor or device
// memory is left. A failing life is told by its seed, which replays it.
#include "ductile/ductile.h"

#include "runtime/base/memory.h"
#include "runtime/base/system.h"
#include "test/fake_cuda/fake_cuda.h"
#include "test/support/process.h"
#include "test/support/random.h"
#include "test/support/report_as_text.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { X, STATE, AT, COUNT, N_IN };
enum { MOST_SIZE = 257, N_AT = 3, FUNCTIONS = 4, SESSIONS = 3, STEPS = 40 };

static uint64_t life; // its seed
static int step_no;
static bool verbose;

static void say(const char *fmt, ...) {
  va_list args;
  if (!verbose)
    return;
  va_start(args, fmt);
  (void)vprintf(fmt, args);
  va_end(args);
  (void)printf("\n");
}

static void fail(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)fprintf(stderr, "FAIL seed %llu, step %d: ", (unsigned long long)life, step_no);
  (void)vfprintf(stderr, fmt, args);
  (void)fprintf(stderr, "\n");
  exit(1);
}

static void ok(dt_status_t status, const char *what) {
  if (status)
    fail("%s: %s: %s", what, dt_code_name(dt_status_code(status)), dt_status_message(status));
}

// ---- Numbers --------------------------------------------------------------------------------------
static uint64_t drawn;

static uint32_t below(uint32_t n) { return (uint32_t)(rng_step(&drawn) % n); }
static bool chance(uint32_t percent) { return below(100) < percent; }

// ---- Programs -------------------------------------------------------------------------------------
typedef struct data_t {
  int64_t n, at[N_AT], count;
  float x[MOST_SIZE], state[MOST_SIZE], scale;
  // What is expected of them.
  int64_t n_out;
  float out[MOST_SIZE];
  bool in_range;
} data_t;

static dt_value_t number(dt_trace_t *t, double value) { return dt_scalar(t, DT_F32, value); }
static dt_value_t total(dt_trace_t *t, dt_value_t x) { return dt_sum(t, x, 0, NULL, true); }

static dt_status_t map(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, dt_mul(t, in[X], number(t, 3)), in[STATE]);
  return NULL;
}
static void map_in_c(data_t *d) {
  for (int64_t k = 0; k < d->n; k++)
    d->out[k] = d->x[k] * 3 + d->state[k];
}

static dt_status_t sum(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, in[X], total(t, in[X]));
  dt_update(t, in[STATE], dt_add(t, in[STATE], in[X]));
  return NULL;
}
static void sum_in_c(data_t *d) {
  float all = 0;
  for (int64_t k = 0; k < d->n; k++)
    all += d->x[k];
  for (int64_t k = 0; k < d->n; k++) {
    d->out[k] = d->x[k] - all;
    d->state[k] += d->x[k];
  }
}

static dt_status_t pick(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_gather(t, in[STATE], in[AT], 0);
  dt_update(t, in[STATE], dt_add(t, in[STATE], total(t, dt_gather(t, in[X], in[AT], 0))));
  return NULL;
}
static void pick_in_c(data_t *d) {
  float all = 0;
  d->n_out = N_AT;
  for (int k = 0; k < N_AT; k++)
    d->in_range = d->in_range && d->at[k] < d->n;
  for (int k = 0; k < N_AT && d->in_range; k++) {
    d->out[k] = d->state[d->at[k]];
    all += d->x[d->at[k]];
  }
  for (int64_t k = 0; k < d->n && d->in_range; k++)
    d->state[k] += all;
}

static dt_status_t goes_on(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[2 + COUNT]);
  return NULL;
}
static dt_status_t trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_I64, 1));
  out[1] = dt_add(t, in[1], in[2 + X]);
  return NULL;
}
static dt_status_t loop(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t state[2] = {dt_scalar(t, DT_I64, 0), in[STATE]};
  dt_while(t, goes_on, trip, closure, 2, state, N_IN, in, state);
  out[0] = state[1];
  return NULL;
}
static void loop_in_c(data_t *d) {
  for (int64_t k = 0; k < d->n; k++)
    d->out[k] = d->state[k] + (float)d->count * d->x[k];
}

static dt_status_t some(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_masked_select(t, in[X], dt_lt(t, in[X], in[STATE]));
  return NULL;
}
static void some_in_c(data_t *d) {
  d->n_out = 0;
  for (int64_t k = 0; k < d->n; k++)
    if (d->x[k] < d->state[k])
      d->out[d->n_out++] = d->x[k];
}

static dt_status_t scaled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = dt_mul(t, in[X], dt_constant(t, "scale", closure));
  return NULL;
}
static void scaled_in_c(data_t *d) {
  for (int64_t k = 0; k < d->n; k++)
    d->out[k] = d->x[k] * d->scale;
}

typedef struct program_t {
  const char *name;
  dt_program_fn_t program;
  void (*in_c)(data_t *d); // out, n_out where it is not n, state, in_range
} program_t;
static const program_t programs[] = {{"map", map, map_in_c},    {"sum", sum, sum_in_c},
                                     {"pick", pick, pick_in_c}, {"loop", loop, loop_in_c},
                                     {"some", some, some_in_c}, {"scaled", scaled, scaled_in_c}};
#define N_PROGRAMS ((uint32_t)(sizeof(programs) / sizeof(programs[0])))

static data_t draw_data(float scale) {
  static const int64_t sizes[] = {0, 1, 2, 3, 31, 64, MOST_SIZE};
  data_t d = {.n = sizes[below(7)], .count = below(30), .scale = scale, .in_range = true};
  d.n_out = d.n;
  for (int64_t k = 0; k < d.n; k++) {
    d.x[k] = (float)below(17) - 8;
    d.state[k] = (float)below(17) - 8;
  }
  for (int k = 0; k < N_AT; k++)
    d.at[k] = d.n && !chance(8) ? below((uint32_t)d.n) : d.n + below(1000);
  return d;
}

// ---- Trouble --------------------------------------------------------------------------------------
typedef struct trouble_t {
  const char *name;
  dt_system_kind_t kind; // of what fails; DT_SYSTEM_KINDS: allocations, or nothing
  uint32_t codes;        // that explain it, as bits
} trouble_t;
#define BIT(code) (1u << (code))
#define SYSTEM_CODES                                                                               \
  (BIT(DT_E_NO_MEMORY) | BIT(DT_E_COMPILE) | BIT(DT_E_IO) | BIT(DT_E_UNSUPPORTED) | BIT(DT_E_LIMIT))
enum { NONE, HEAP, MAPPING, FILES, THREADS, DEADLINE, PAST, CANCEL, TROUBLES };
static const trouble_t troubles[TROUBLES] = {
    [NONE] = {"", DT_SYSTEM_KINDS, 0},
    [HEAP] = {", an allocation fails", DT_SYSTEM_KINDS, BIT(DT_E_NO_MEMORY)},
    [MAPPING] = {", a mapping fails", DT_SYSTEM_MAPPING, SYSTEM_CODES},
    [FILES] = {", a file operation fails", DT_SYSTEM_FILE, SYSTEM_CODES},
    [THREADS] = {", a thread fails", DT_SYSTEM_THREAD, SYSTEM_CODES},
    [DEADLINE] = {", a deadline soon", DT_SYSTEM_KINDS, BIT(DT_E_DEADLINE)},
    [PAST] = {", a deadline that is past", DT_SYSTEM_KINDS, BIT(DT_E_DEADLINE)},
    [CANCEL] = {", cancelled", DT_SYSTEM_KINDS, BIT(DT_E_CANCELLED)},
};

static uint32_t draw_trouble(void) { return chance(50) ? NONE : 1 + below(TROUBLES - 1); }

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// From here to end_trouble it holds. `how` and `flag` get the deadline or the flag.
static void begin_trouble(uint32_t which, dt_call_options_t *how, dt_cancel_t *flag) {
  const trouble_t *trouble = &troubles[which];
  *how = (dt_call_options_t){.struct_size = sizeof(*how)};
  if (which == DEADLINE || which == PAST)
    how->deadline_ns = which == PAST ? 1 : now_ns() + 1000 * (int64_t)below(20000);
  if (which == CANCEL) {
    dt_cancel_request(flag);
    how->cancel = flag;
  }
  if (which == HEAP)
    (void)dt__heap_fail_at(1 + below(chance(50) ? 20 : 2000), chance(20));
  if (trouble->kind != DT_SYSTEM_KINDS)
    (void)dt__system_fail_at(trouble->kind, 1 + below(8), chance(50) ? ENOMEM : EAGAIN, chance(20));
}
static void end_trouble(void) {
  (void)dt__heap_fail_at(0, false);
  for (int kind = 0; kind < DT_SYSTEM_KINDS; kind++)
    (void)dt__system_fail_at((dt_system_kind_t)kind, 0, 0, false);
}

// Whether it went well; fails where `codes` do not explain that it did not. Frees the status.
static bool went(dt_status_t status, uint32_t codes, const char *what) {
  dt_code_t code = dt_status_code(status);
  if (status && (!(codes & BIT(code)) || !*dt_status_message(status)))
    fail("%s: %s: %s", what, dt_code_name(code), dt_status_message(status));
  if (status)
    say("    %s", dt_status_message(status));
  dt_status_free(status);
  return code == DT_OK;
}

// ---- The host -------------------------------------------------------------------------------------
typedef struct owned_t {
  dt_function_t *function; // or NULL
  const program_t *program;
  dt_tensor_t *scale;
  float scale_now;
} owned_t;

typedef struct host_t {
  dt_runtime_t *runtime;
  owned_t functions[FUNCTIONS];
  dt_session_t *sessions[SESSIONS];
  dt_device_t devices[SESSIONS];
  long calls, failed;
} host_t;

static dt_tensor_t *host_tensor(dt_dtype_t dtype, uint32_t rank, int64_t n, const void *data) {
  dt_tensor_t *tensor = NULL;
  ok(dt_tensor_create_empty(dtype, rank, &n, &tensor), "a tensor");
  size_t bytes = (rank ? (size_t)n : 1) * dt_dtype_size(dtype);
  if (bytes)
    memcpy(dt_tensor_data(tensor), data, bytes);
  return tensor;
}

static void drop_function(owned_t *owned) {
  dt_function_release(owned->function);
  dt_tensor_release(owned->scale);
  *owned = (owned_t){0};
}

static void make_function(host_t *host) {
  static const dt_dim_decl_t dims[] = {{.name = "n"}};
  static const dt_input_decl_t inputs[N_IN] = {
      {.name = "x", .dtype = DT_F32, .rank = 1, .dims = dims},
      {.name = "state", .dtype = DT_F32, .rank = 1, .dims = dims},
      {.name = "at", .dtype = DT_I64, .rank = 1},
      {.name = "count", .dtype = DT_I64, .rank = 0}};
  static const dt_dynamic_t policies[] = {DT_DYNAMIC_AUTOMATIC, DT_DYNAMIC_SYMBOLIC,
                                          DT_DYNAMIC_STATIC};
  owned_t *owned = &host->functions[below(FUNCTIONS)];
  drop_function(owned);
  owned->program = &programs[below(N_PROGRAMS)];
  owned->scale_now = (float)below(9);
  owned->scale = host_tensor(DT_F32, 1, 1, &owned->scale_now);
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = owned->program->name,
                                   .n_inputs = N_IN,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .dynamic = policies[below(3)]};
  say("  function %s, policy %d", options.name, (int)options.dynamic);
  ok(dt_function_create(host->runtime, owned->program->program, owned->scale, &options,
                        &owned->function),
     "a function");
}

static void make_session(host_t *host) {
  uint32_t k = below(SESSIONS);
  dt_session_destroy(host->sessions[k]);
  host->devices[k] = chance(30) ? DT_CUDA : DT_CPU;
  dt_session_options_t on = {.struct_size = sizeof(on), .device = host->devices[k]};
  say("  session %u on %s", k, host->devices[k] == DT_CUDA ? "the device" : "the CPU");
  ok(dt_session_create(host->runtime, &on, &host->sessions[k]), "a session");
}

// One that is there: there is always one.
static owned_t *draw_function(host_t *host) {
  uint32_t k = below(FUNCTIONS);
  while (!host->functions[k].function)
    k = (k + 1) % FUNCTIONS;
  return &host->functions[k];
}
static uint32_t draw_session(const host_t *host) {
  uint32_t k = below(SESSIONS);
  while (!host->sessions[k])
    k = (k + 1) % SESSIONS;
  return k;
}

// ---- Steps ----------------------------------------------------------------------------------------
static void fill(const host_t *host, uint32_t s, const data_t *d, dt_tensor_t *in[N_IN]) {
  in[X] = host_tensor(DT_F32, 1, d->n, d->x);
  in[STATE] = host_tensor(DT_F32, 1, d->n, d->state);
  in[AT] = host_tensor(DT_I64, 1, N_AT, d->at);
  in[COUNT] = host_tensor(DT_I64, 0, 0, &d->count);
  if (host->devices[s] != DT_CUDA)
    return;
  dt_tensor_t *there = NULL;
  ok(dt_tensor_create_on(host->sessions[s], DT_F32, 1, &d->n, &there), "a tensor of the device");
  ok(dt_tensor_copy(host->sessions[s], in[STATE], there), "a copy");
  ok(dt_session_wait(host->sessions[s]), "the copy");
  dt_tensor_release(in[STATE]);
  in[STATE] = there;
}

static void expect(host_t *host, uint32_t s, dt_tensor_t *tensor, int64_t n, const float *want,
                   const char *what) {
  float got[MOST_SIZE];
  if (dt_tensor_count(tensor) != n)
    fail("%s: %lld elements, expected %lld", what, (long long)dt_tensor_count(tensor),
         (long long)n);
  if (host->devices[s] == DT_CUDA)
    ok(dt_tensor_read(host->sessions[s], tensor, got, (size_t)n * sizeof(float)), what);
  else if (n)
    memcpy(got, dt_tensor_data(tensor), (size_t)n * sizeof(float));
  for (int64_t k = 0; k < n; k++)
    if (got[k] != want[k])
      fail("%s: element %lld of %lld: %g, expected %g", what, (long long)k, (long long)n,
           (double)got[k], (double)want[k]);
}

static void call(host_t *host) {
  owned_t *owned = draw_function(host);
  uint32_t s = draw_session(host), which = draw_trouble();
  data_t d = draw_data(0), after;
  d.scale = owned->scale_now;
  after = d;
  owned->program->in_c(&after);
  bool as_graph = chance(30);
  say("  call %s in session %u, n %lld%s%s", owned->program->name, s, (long long)d.n,
      as_graph ? " as a graph" : "", troubles[which].name);
  dt_tensor_t *in[N_IN], *out = NULL;
  fill(host, s, &d, in);
  dt_call_options_t how;
  dt_cancel_t flag = {0};
  begin_trouble(which, &how, &flag);
  how.mode = as_graph ? DT_CALL_REDUCE_OVERHEAD : DT_CALL_DEFAULT;
  dt_status_t status = dt_call(host->sessions[s], owned->function, in, N_IN, &out, 1, &how);
  end_trouble();
  if (!status) // a device tells then
    status = dt_session_wait(host->sessions[s]);
  bool good = went(status, troubles[which].codes | (after.in_range ? 0 : BIT(DT_E_RANGE)),
                   owned->program->name);
  if (good && !after.in_range)
    fail("%s: data out of range were taken", owned->program->name);
  if (good)
    expect(host, s, out, after.n_out, after.out, owned->program->name);
  expect(host, s, in[STATE], d.n, good ? after.state : d.state, "the state");
  host->calls++;
  host->failed += !good;
  dt_tensor_release(out);
  for (int k = 0; k < N_IN; k++)
    dt_tensor_release(in[k]);
}

static void prepare(host_t *host) {
  owned_t *owned = draw_function(host);
  uint32_t which = draw_trouble();
  dt_call_options_t how;
  dt_cancel_t flag = {0};
  say("  prepare %s%s", owned->program->name, troubles[which].name);
  begin_trouble(which, &how, &flag);
  const dt_prepare_options_t options = {
      .struct_size = sizeof(options), .deadline_ns = how.deadline_ns, .cancel = how.cancel};
  dt_status_t status = dt_function_prepare(owned->function, &options);
  end_trouble();
  // Some policies ask for the sizes of a call.
  (void)went(status, troubles[which].codes | BIT(DT_E_STATE), "prepare");
}

static void update_constant(host_t *host) {
  owned_t *owned = draw_function(host);
  if (owned->program->program != scaled)
    return;
  float next = (float)below(9);
  bool wrong = chance(20);
  const float two[] = {next, next};
  dt_tensor_t *tensor = host_tensor(DT_F32, 1, wrong ? 2 : 1, two);
  say("  scale = %g%s", (double)next, wrong ? ", of a wrong size" : "");
  // Before the first trace there is no constant of that name.
  dt_status_t status = dt_constant_update(owned->function, "scale", tensor);
  if (went(status, BIT(DT_E_SHAPE) | BIT(DT_E_ARGUMENT) | BIT(DT_E_STATE), "an update")) {
    if (wrong)
      fail("a constant of another size was taken");
    owned->scale_now = next;
  }
  dt_tensor_release(tensor);
}

static void trim(host_t *host) {
  uint32_t s = draw_session(host);
  say("  trim session %u", s);
  ok(dt_session_trim(host->sessions[s]), "trim");
}

static void ask(host_t *host) {
  owned_t *owned = draw_function(host);
  uint32_t s = draw_session(host);
  data_t d = draw_data(0);
  dt_tensor_t *in[N_IN];
  char *text = NULL;
  dt_output_shape_t shape;
  say("  questions about %s", owned->program->name);
  fill(host, s, &d, in);
  ok(dt_function_output_sizes(host->sessions[s], owned->function, in, N_IN, &shape, sizeof(shape),
                              1),
     "sizes");
  data_t after = d;
  owned->program->in_c(&after);
  if (shape.rank != 1 || (shape.sizes[0] != -1 && shape.sizes[0] != after.n_out))
    fail("%s: a result of %lld elements was told, expected %lld", owned->program->name,
         (long long)shape.sizes[0], (long long)after.n_out);
  ok(report_as_text(owned->function, NULL, 0, DT_REPORT_VARIANTS, &text), "explain");
  dt_text_free(text);
  for (int k = 0; k < N_IN; k++)
    dt_tensor_release(in[k]);
}

static void call_wrongly(host_t *host) {
  owned_t *owned = draw_function(host);
  uint32_t s = draw_session(host);
  data_t d = draw_data(0);
  dt_tensor_t *in[N_IN], *out = NULL;
  fill(host, s, &d, in);
  uint32_t wrong = below(4);
  dt_tensor_t *given[N_IN] = {in[X], in[STATE], in[AT], in[COUNT]};
  if (wrong < 2)
    given[wrong ? COUNT : X] = in[AT]; // of another dtype; of another rank
  if (wrong == 2)
    given[AT] = NULL;
  say("  a call of %s with wrong arguments, %u", owned->program->name, wrong);
  dt_status_t status =
      dt_call(host->sessions[s], owned->function, given, N_IN - (wrong == 3), &out, 1, NULL);
  if (went(status, BIT(DT_E_ARGUMENT) | BIT(DT_E_DTYPE) | BIT(DT_E_SHAPE), "wrong arguments"))
    fail("wrong arguments were taken");
  for (int k = 0; k < N_IN; k++)
    dt_tensor_release(in[k]);
}

static const struct {
  uint32_t weight;
  void (*take)(host_t *host);
} steps[] = {{3, make_function},   {2, make_session}, {20, call}, {1, prepare},
             {2, update_constant}, {1, trim},         {1, ask},   {2, call_wrongly}};
#define N_STEPS (sizeof(steps) / sizeof(steps[0]))

static void take_step(host_t *host) {
  uint32_t all = 0, k = 0;
  for (size_t i = 0; i < N_STEPS; i++)
    all += steps[i].weight;
  uint32_t at = below(all);
  while (at >= steps[k].weight)
    at -= steps[k++].weight;
  steps[k].take(host);
}

// ---- Lives ----------------------------------------------------------------------------------------
typedef struct sums_t {
  long calls, failed;
  uint64_t variants, graphs, trims; // that limits on memory took
  uint64_t of_devices;              // lives in which variants of devices went
} sums_t;

static void live(uint64_t seed, sums_t *sums) {
  host_t host = {0};
  life = drawn = seed;
  step_no = 0;
  dt_runtime_options_t options = {.struct_size = sizeof(options),
                                  .threads = 1 + below(3),
                                  .compile_threads = 1 + below(2),
                                  .max_bytes = chance(40) ? 100000 + below(1000000) : 0,
                                  .max_device_bytes = chance(40) ? 1 + below(3000000) : 0};
  say("life %llu: %u threads, %u compile threads, at most %llu bytes and %llu of the device",
      (unsigned long long)seed, options.threads, options.compile_threads,
      (unsigned long long)options.max_bytes, (unsigned long long)options.max_device_bytes);
  ok(dt_runtime_create(&options, &host.runtime), "a runtime");
  make_session(&host);
  make_function(&host);
  for (step_no = 1; step_no <= STEPS; step_no++)
    take_step(&host);
  dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
  ok(dt_runtime_stats(host.runtime, &stats), "what the runtime holds");
  sums->variants += stats.evicted_variants;
  sums->of_devices += stats.evicted_device_bytes > 0;
  sums->graphs += stats.evicted_graphs;
  sums->trims += stats.trims;
  for (uint32_t k = 0; k < FUNCTIONS; k++)
    drop_function(&host.functions[k]);
  for (uint32_t k = 0; k < SESSIONS; k++)
    dt_session_destroy(host.sessions[k]);
  dt_runtime_release(host.runtime);
  if (fake_cuda_held())
    fail("%u things of the device are left", fake_cuda_held());
  sums->calls += host.calls;
  sums->failed += host.failed;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    (void)fprintf(stderr, "usage: simulate SEED LIVES [--verbose]\n");
    return 2;
  }
  uint64_t first = strtoull(argv[1], NULL, 10), lives = strtoull(argv[2], NULL, 10);
  long threads = 0, files = 0;
  sums_t sums = {0};
  verbose = argc == 4;
  for (uint64_t k = 0; k < lives; k++) {
    live(first + k, &sums);
    // What a process takes once it has taken in its first lives.
    long threads_now = process_threads(k >= 8 ? threads : LONG_MAX),
         files_now = process_descriptors();
    if (k >= 8 && (threads_now > threads || files_now > files))
      fail("threads: %ld, then %ld; descriptors: %ld, then %ld", threads, threads_now, files,
           files_now);
    threads = threads_now > threads ? threads_now : threads;
    files = files_now > files ? files_now : files;
  }
  (void)printf(
      "%llu lives from seed %llu: %ld calls, %ld of them failed as they should; %llu "
      "variants, %llu graphs and %llu sessions' memory went for limits, variants of devices "
      "in %llu lives\n",
      (unsigned long long)lives, (unsigned long long)first, sums.calls, sums.failed,
      (unsigned long long)sums.variants, (unsigned long long)sums.graphs,
      (unsigned long long)sums.trims, (unsigned long long)sums.of_devices);
  if (lives >= 20 && (!sums.of_devices || !sums.variants || !sums.trims))
    fail("in so many lives nothing of a device, no variant or no session's memory went");
  return 0;
}

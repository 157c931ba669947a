// SPDX-License-Identifier: Apache-2.0
// late [--long [ROW]]: deadlines of 50 ms, and cancels at random moments, of calls that are inside
// a kernel of seconds, inside a loop of 2^62 trips, and wait for a compile of seconds, from 2
// callers and from 32, who begin together. A line each, as a table: the time from the end that was
// asked for until the call was back, and the processor time of the caller's thread in between. It
// fails where a status is another one, where the next call is not right, where descriptors or
// threads are left, and (--long) where a call was back more than 20 ms late or took more than 20 ms
// itself: that is for a machine with nothing else to do; ROW, from 0, is the only one that is run.
#include "ductile/ductile.h"

#include "test/late/programs.h"
#include "test/support/process.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS ((int64_t)1000000)
#define DEADLINE (50 * MS)
#define BOUND (20 * MS)
#define SHORT_COMPILE (400 * MS) // alone: far beyond each end
#define LONG_COMPILE (1000 * MS)
enum { MOST_CALLERS = 32, KERNEL_SIZE = 40000, SHORT_ROUNDS = 2, LONG_ROUNDS = 100 };
enum { MOST_STEPS = 5000 };
static int compile_steps = 10; // of the function that takes long to compile
static int functions;          // made so far

static void fail(const char *what) {
  fprintf(stderr, "late: %s\n", what);
  exit(1);
}

static void ok(dt_status_t status) {
  if (status)
    fail(dt_status_message(status));
}

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0)
    fail("a clock cannot be read");
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static void sleep_until(int64_t when) {
  const struct timespec at = {.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
    continue;
}

// ---- Programs -------------------------------------------------------------------------------------
static const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                         {.name = "trips", .dtype = DT_I64, .rank = 0}};

// A kept compile of an earlier function is none of this one's: nothing that keeps code has it.
static dt_status_t large(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = late_compile(t, in[0], compile_steps, functions);
  return NULL;
}

typedef struct place_t {
  const char *name;
  dt_program_fn_t program;
  int64_t size, trips;             // of the call that is ended
  int64_t small_size, small_trips; // of the next one
  bool fresh;                      // a new function for each round
} place_t;
static const place_t places[] = {
    {"kernel", late_kernel_program, KERNEL_SIZE, 0, 64, 0, false},
    {"loop", late_loop_program, 3, (int64_t)1 << 62, 3, 5, false},
    {"compile", large, 5, 0, 5, 0, true},
};
#define N_PLACES ((int)(sizeof(places) / sizeof(places[0])))

// ---- Calls ----------------------------------------------------------------------------------------
typedef struct args_t {
  dt_tensor_t *in[2];
} args_t;

static args_t make_args(int64_t n, int64_t trips) {
  args_t args;
  ok(dt_tensor_create_empty(DT_F32, 1, &n, &args.in[0]));
  ok(dt_tensor_create_empty(DT_I64, 0, NULL, &args.in[1]));
  for (int64_t k = 0; k < n; k++)
    ((float *)dt_tensor_data(args.in[0]))[k] = (float)(k % 17) / 16;
  *(int64_t *)dt_tensor_data(args.in[1]) = trips;
  return args;
}
static void drop_args(args_t *args) {
  dt_tensor_release(args->in[0]);
  dt_tensor_release(args->in[1]);
}

static dt_function_t *make_function(dt_runtime_t *runtime, const place_t *place) {
  dt_function_options_t about = {.struct_size = sizeof(about),
                                 .name = place->name,
                                 .n_inputs = 2,
                                 .inputs = inputs,
                                 .n_outputs = 1};
  dt_function_t *function = NULL;
  functions++;
  ok(dt_function_create(runtime, place->program, NULL, &about, &function));
  return function;
}

typedef struct round_t {
  dt_function_t *function;
  int64_t deadline_ns; // 0: cancelled
  dt_cancel_t *cancel;
} round_t;

typedef struct caller_t {
  pthread_t thread;
  clockid_t clock;
  dt_session_t *session;
  const place_t *place;
  const round_t *round;
  pthread_barrier_t *begin, *end;
  args_t args, small;
  float *right; // the small call's answer
  // Of the round.
  int64_t back_ns, cpu_ns; // the clocks when the call was back
  dt_code_t code;
  bool wrong, over; // over: there are no more rounds
} caller_t;

static dt_status_t call(const caller_t *caller, const args_t *args, dt_function_t *function,
                        const dt_call_options_t *how, dt_tensor_t **out) {
  *out = NULL;
  return dt_call(caller->session, function, args->in, 2, out, 1, how);
}

// The next call, which nothing ends.
static bool is_right(const caller_t *caller, dt_function_t *function) {
  dt_tensor_t *out = NULL;
  dt_status_t status = call(caller, &caller->small, function, NULL, &out);
  bool right = !status && memcmp(dt_tensor_data(out), caller->right,
                                 (size_t)caller->place->small_size * sizeof(float)) == 0;
  dt_status_free(status);
  dt_tensor_release(out);
  return right;
}

static void *caller_main(void *opaque) {
  caller_t *caller = opaque;
  for (;;) {
    (void)pthread_barrier_wait(caller->begin);
    if (caller->over)
      return NULL;
    dt_tensor_t *out = NULL;
    dt_call_options_t how = {.struct_size = sizeof(how),
                             .deadline_ns = caller->round->deadline_ns,
                             .cancel = caller->round->cancel};
    dt_status_t status = call(caller, &caller->args, caller->round->function, &how, &out);
    caller->back_ns = now_ns();
    caller->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    caller->code = dt_status_code(status);
    dt_status_free(status);
    dt_tensor_release(out);
    (void)pthread_barrier_wait(caller->end);
    // A fresh function's next call compiles for seconds: main makes one.
    caller->wrong = !caller->place->fresh && !is_right(caller, caller->round->function);
    (void)pthread_barrier_wait(caller->end);
  }
}

// ---- Rounds ---------------------------------------------------------------------------------------
typedef struct tally_t {
  int rounds, calls, wrong;
  int64_t *late;    // by call
  int64_t most_cpu; // nanoseconds
} tally_t;

static int compare_ns(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// A call that was back, and well, before its end came tells nothing: its compile was shorter than
// the one that was measured.
static bool any_before(const caller_t *callers, uint32_t n, int64_t end) {
  for (uint32_t k = 0; k < n; k++)
    if (callers[k].place->fresh && callers[k].code == DT_OK && callers[k].back_ns < end)
      return true;
  return false;
}

// False: it tells nothing, and is not in the tally.
static bool run_round(dt_runtime_t *runtime, caller_t *callers, uint32_t n, bool cancels,
                      dt_function_t *function, tally_t *tally) {
  static round_t round;
  dt_cancel_t cancel = {0};
  const place_t *place = callers[0].place;
  dt_code_t expected = cancels ? DT_E_CANCELLED : DT_E_DEADLINE;
  dt_function_t *fresh = place->fresh ? make_function(runtime, place) : NULL;
  int64_t cpu[MOST_CALLERS], end = now_ns() + (cancels ? (rand() % 60 + 1) * MS : DEADLINE);
  round = (round_t){fresh ? fresh : function, cancels ? 0 : end, cancels ? &cancel : NULL};
  for (uint32_t k = 0; k < n; k++)
    callers[k].round = &round;
  (void)pthread_barrier_wait(callers[0].begin);
  sleep_until(end);
  if (cancels) {
    end = now_ns();
    dt_cancel_request(&cancel);
  }
  for (uint32_t k = 0; k < n; k++)
    cpu[k] = clock_ns(callers[k].clock);
  (void)pthread_barrier_wait(callers[0].end);
  bool tells = !any_before(callers, n, end);
  for (uint32_t k = 0; k < n && tells; k++) {
    int64_t own = callers[k].cpu_ns - cpu[k];
    tally->late[tally->calls++] = callers[k].back_ns - end;
    tally->most_cpu = own > tally->most_cpu ? own : tally->most_cpu;
    if (callers[k].code != expected) {
      fprintf(stderr, "late: %s: %s; expected %s\n", place->name, dt_code_name(callers[k].code),
              dt_code_name(expected));
      tally->wrong++;
    }
  }
  (void)pthread_barrier_wait(callers[0].end);
  for (uint32_t k = 0; k < n; k++)
    tally->wrong += callers[k].wrong;
  if (fresh && tally->rounds == 0 && tells && !is_right(&callers[0], fresh))
    tally->wrong++;
  dt_function_release(fresh);
  tally->rounds++;
  return tells;
}

static void begin_callers(dt_runtime_t *runtime, const place_t *place, dt_function_t *function,
                          caller_t *callers, uint32_t n, pthread_barrier_t *barriers) {
  (void)pthread_barrier_init(&barriers[0], NULL, n + 1);
  (void)pthread_barrier_init(&barriers[1], NULL, n + 1);
  for (uint32_t k = 0; k < n; k++) {
    caller_t *caller = &callers[k];
    *caller = (caller_t){.place = place,
                         .begin = &barriers[0],
                         .end = &barriers[1],
                         .args = make_args(place->size, place->trips),
                         .small = make_args(place->small_size, place->small_trips),
                         .right = calloc((size_t)place->small_size, sizeof(float))};
    ok(dt_session_create(runtime, NULL, &caller->session));
    dt_tensor_t *out = NULL;
    ok(call(caller, &caller->small, function, NULL, &out));
    if (!caller->right)
      fail("no memory");
    memcpy(caller->right, dt_tensor_data(out), (size_t)place->small_size * sizeof(float));
    dt_tensor_release(out);
    if (pthread_create(&caller->thread, NULL, caller_main, caller) != 0 ||
        pthread_getcpuclockid(caller->thread, &caller->clock) != 0)
      fail("no thread");
  }
}

static void end_callers(caller_t *callers, uint32_t n, pthread_barrier_t *barriers) {
  for (uint32_t k = 0; k < n; k++)
    callers[k].over = true;
  (void)pthread_barrier_wait(&barriers[0]);
  for (uint32_t k = 0; k < n; k++) {
    (void)pthread_join(callers[k].thread, NULL);
    dt_session_destroy(callers[k].session);
    drop_args(&callers[k].args);
    drop_args(&callers[k].small);
    free(callers[k].right);
  }
  (void)pthread_barrier_destroy(&barriers[0]);
  (void)pthread_barrier_destroy(&barriers[1]);
}

static bool tell(const place_t *place, bool cancels, uint32_t n, tally_t *tally, bool bounded) {
  qsort(tally->late, (size_t)tally->calls, sizeof(tally->late[0]), compare_ns);
  int64_t most = tally->late[tally->calls - 1];
  (void)printf("%s\t%s\t%u\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%d\n", place->name,
               cancels ? "cancel" : "deadline", n, tally->calls,
               (double)tally->late[tally->calls / 2] / (double)MS,
               (double)tally->late[tally->calls * 99 / 100] / (double)MS, (double)most / (double)MS,
               (double)tally->most_cpu / (double)MS, tally->wrong);
  (void)fflush(stdout);
  return tally->wrong == 0 && (!bounded || (most <= BOUND && tally->most_cpu <= BOUND));
}

// False: a round of them tells nothing.
static bool run_rounds(dt_runtime_t *runtime, const place_t *place, bool cancels, uint32_t n,
                       int rounds, tally_t *tally) {
  static caller_t callers[MOST_CALLERS];
  pthread_barrier_t barriers[2];
  bool tells = true;
  dt_function_t *function = make_function(runtime, place);
  begin_callers(runtime, place, function, callers, n, barriers);
  for (int k = 0; k < rounds && tells; k++)
    tells = run_round(runtime, callers, n, cancels, function, tally);
  end_callers(callers, n, barriers);
  dt_function_release(function);
  return tells;
}

static bool run(dt_runtime_t *runtime, const place_t *place, bool cancels, uint32_t n, int rounds,
                bool bounded) {
  int64_t *late = calloc((size_t)rounds * n, sizeof(int64_t));
  tally_t tally = {.late = late};
  if (!late)
    fail("no memory");
  while (!run_rounds(runtime, place, cancels, n, rounds, &tally)) {
    tally = (tally_t){.late = late};
    compile_steps *= 2;
    if (compile_steps > MOST_STEPS)
      fail("a compile ends before each deadline");
  }
  bool good = tell(place, cancels, n, &tally, bounded);
  free(late);
  return good;
}

enum { ALL_ROWS = -1 };

static bool run_all(bool is_long, int row) {
  static const uint32_t counts[] = {2, MOST_CALLERS};
  int at = 0;
  dt_runtime_t *runtime = NULL;
  bool good = true;
  ok(dt_runtime_create(NULL, &runtime));
  (void)printf("inside\tended by\tcallers\tcalls\tlate ms, median\t99 %%\tmost\tprocessor ms, "
               "most\twrong\n");
  for (int p = 0; p < N_PLACES; p++)
    for (int cancels = 0; cancels < 2; cancels++)
      for (int c = 0; c < 2; c++, at++)
        if (row == ALL_ROWS || row == at)
          good &= run(runtime, &places[p], cancels, counts[c], is_long ? LONG_ROUNDS : SHORT_ROUNDS,
                      is_long);
  dt_runtime_release(runtime);
  return good;
}

// As many steps as make a compile take `at_least`, on this machine as it is now.
static void choose_steps(dt_runtime_t *runtime, int64_t at_least) {
  const place_t *place = &places[N_PLACES - 1];
  dt_session_t *session = NULL;
  ok(dt_session_create(runtime, NULL, &session));
  args_t args = make_args(place->size, place->trips);
  for (int64_t took = 0; took < at_least; compile_steps *= 2) {
    dt_function_t *function = make_function(runtime, place);
    dt_tensor_t *out = NULL;
    int64_t began = now_ns();
    ok(dt_call(session, function, args.in, 2, &out, 1, NULL));
    took = now_ns() - began;
    dt_tensor_release(out);
    dt_function_release(function);
  }
  compile_steps /= 2;
  drop_args(&args);
  dt_session_destroy(session);
}

int main(int argc, char **argv) {
  bool is_long = argc >= 2 && argc <= 3 && strcmp(argv[1], "--long") == 0;
  char *end = NULL;
  int row = is_long && argc == 3 ? (int)strtol(argv[2], &end, 10) : ALL_ROWS;
  if ((argc > 1 && !is_long) || (end && (*end || row < 0 || row >= 4 * N_PLACES))) {
    fprintf(stderr, "usage: late [--long [ROW]]\n");
    return 2;
  }
  srand(20261123);
  dt_runtime_t *first = NULL; // what a process takes once
  ok(dt_runtime_create(NULL, &first));
  choose_steps(first, is_long ? LONG_COMPILE : SHORT_COMPILE);
  dt_runtime_release(first);
  long threads = process_threads(LONG_MAX), files = process_descriptors();
  bool good = run_all(is_long, row);
  if (process_threads(threads) > threads || process_descriptors() > files)
    fail("threads or descriptors are left");
  return good ? 0 : 1;
}

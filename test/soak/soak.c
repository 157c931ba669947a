// SPDX-License-Identifier: Apache-2.0
// soak COMPILES SHAPES FUNCTIONS: a runtime with room for little, in which variants are compiled
// again and again, and functions made, called and freed. A line at each tenth: what the process
// holds. Memory may grow by 0.1 KiB a compile from half of the way on (and by SLACK, which short
// runs need), mappings, threads and descriptors not at all; each answer is looked at.
#include "ductile/ductile.h"
#include "ductile/experimental.h"

#include "test/support/process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT 8             // functions that live all the while
#define SLACK 1024         // KiB
#define MOST_BYTES 1000000 // of the runtime
#define FEW 8              // mappings that come and go

typedef struct state_t {
  long rss_kib, maps, threads, descriptors;
} state_t;

static void fail(const char *what) {
  fprintf(stderr, "soak: %s\n", what);
  exit(1);
}

static void ok(dt_status_t status) {
  if (status)
    fail(dt_status_message(status));
}

// ---- What the process holds ---------------------------------------------------------------------------

// The C library's heap opens a file for a moment when it first gives memory back, on whatever
// thread: what is open for longer counts.
static long look_at_descriptors(long expected) {
  long n = process_descriptors();
  for (int k = 0; k < 100 && n > expected; k++) {
    (void)usleep(1000);
    n = process_descriptors();
  }
  return n;
}

// As many threads and descriptors as are expected.
static state_t look(long threads, long descriptors) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%*s %ld", &pages) != 1)
    fail("/proc/self/statm");
  (void)fclose(file);
  return (state_t){.rss_kib = pages * (sysconf(_SC_PAGESIZE) / 1024),
                   .maps = process_mappings(),
                   .threads = process_threads(threads),
                   .descriptors = look_at_descriptors(descriptors)};
}

static void tell(const char *phase, long done, const state_t *state) {
  printf("%s\t%ld\t%ld\t%ld\t%ld\t%ld\n", phase, done, state->rss_kib, state->maps, state->threads,
         state->descriptors);
  (void)fflush(stdout);
}

static void compare(const char *phase, const state_t *half, const state_t *end, long done) {
  long grown = end->rss_kib - half->rss_kib;
  printf("# %s: %ld KiB more over %ld, %.3f KiB each\n", phase, grown, done,
         (double)grown / (double)done);
  if ((double)grown > 0.1 * (double)done + SLACK)
    fail("memory grows");
  if (end->maps > half->maps + FEW || end->threads > half->threads ||
      end->descriptors > half->descriptors)
    fail("mappings, threads or descriptors grow");
}

// ---- Programs -----------------------------------------------------------------------------------------

static const double added[KEPT] = {0, 1, 2, 3, 4, 5, 6, 7};

static dt_status_t add_number(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const double *number = closure;
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_F32, *number));
  return NULL;
}

static dt_function_t *make(dt_runtime_t *runtime, long k) {
  static const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = "soak",
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input,
                                         .dynamic = DT_DYNAMIC_STATIC,
                                         .limit_action = DT_LIMIT_ERROR};
  dt_function_t *function = NULL;
  ok(dt_function_create(runtime, add_number, (void *)(uintptr_t)&added[k % KEPT], &options,
                        &function));
  return function;
}

static void call(dt_session_t *session, dt_function_t *function, long k, int64_t n) {
  dt_tensor_t *x = NULL, *out = NULL;
  ok(dt_tensor_create_empty(DT_F32, 1, &n, &x));
  float *data = dt_tensor_data(x);
  for (int64_t i = 0; i < n; i++)
    data[i] = (float)i;
  ok(dt_call(session, function, &x, 1, &out, 1, NULL));
  if (dt_tensor_sizes(out)[0] != n ||
      ((const float *)dt_tensor_data(out))[n - 1] != (float)(n - 1 + k % KEPT))
    fail("a wrong answer");
  dt_tensor_release(x);
  dt_tensor_release(out);
}

// ---- Phases -------------------------------------------------------------------------------------------

static void recompile(dt_runtime_t *runtime, dt_session_t *session, long compiles, long shapes) {
  dt_function_t *functions[KEPT];
  state_t half = {0}, now = {0};
  for (long k = 0; k < KEPT; k++)
    functions[k] = make(runtime, k);
  for (long done = 1; done <= compiles; done++) {
    call(session, functions[done % KEPT], done, 1 + done * 7919 % shapes);
    if (done % (compiles / 10))
      continue;
    now = half.maps ? look(half.threads, half.descriptors) : look(LONG_MAX, LONG_MAX);
    tell("recompile", done, &now);
    if (done == compiles / 10 * 5)
      half = now;
  }
  uint64_t all = 0;
  for (long k = 0; k < KEPT; k++) {
    dt_function_counters_t stats = {.struct_size = sizeof(stats)};
    ok(dt_function_counters(functions[k], &stats));
    all += stats.compiles;
    dt_function_release(functions[k]);
  }
  dt_runtime_stats_t stats = {.struct_size = sizeof(stats)};
  ok(dt_runtime_stats(runtime, &stats));
  printf("# %llu compiles, %llu variants taken back\n", (unsigned long long)all,
         (unsigned long long)stats.evicted_variants);
  if (shapes > compiles / 4 && all < (uint64_t)compiles * 9 / 10)
    fail("variants were there that there was no room for");
  compare("recompile", &half, &now, compiles - compiles / 2);
}

static void come_and_go(dt_runtime_t *runtime, dt_session_t *session, long functions) {
  state_t half = {0}, now = {0};
  for (long done = 1; done <= functions; done++) {
    dt_function_t *function = make(runtime, done);
    call(session, function, done, 1 + done % 17);
    dt_function_release(function);
    if (done % (functions / 10))
      continue;
    now = half.maps ? look(half.threads, half.descriptors) : look(LONG_MAX, LONG_MAX);
    tell("functions", done, &now);
    if (done == functions / 10 * 5)
      half = now;
  }
  compare("functions", &half, &now, functions - functions / 2);
}

int main(int argc, char **argv) {
  long numbers[3] = {0};
  for (int i = 0; i < 3 && argc == 4; i++)
    numbers[i] = strtol(argv[1 + i], NULL, 10);
  if (numbers[0] < 10 || numbers[1] < 1 || numbers[2] < 10) {
    fprintf(stderr, "usage: soak COMPILES SHAPES FUNCTIONS (at least 10, 1 and 10)\n");
    return 2;
  }
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  const dt_runtime_options_t options = {
      .threads = 1, .compile_threads = 1, .max_bytes = MOST_BYTES};
  ok(dt_runtime_create(&options, &runtime));
  ok(dt_session_create(runtime, NULL, &session));
  printf("phase\tdone\trss_kib\tmaps\tthreads\tdescriptors\n");
  recompile(runtime, session, numbers[0], numbers[1]);
  come_and_go(runtime, session, numbers[2]);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Calls of one model by many threads over few sessions.
#include "cli/load.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

typedef struct run_t {
  const cli_load_t *load;
  cli_load_result_t *out;
  dt_session_t **sessions;
  double begin; // of the clock
  pthread_mutex_t mutex;
  pthread_cond_t freed;
  // Guarded by the mutex.
  uint32_t *free, n_free;
  uint64_t sent;      // requests that a caller took on
  uint64_t first_out; // tickets: who asked first is served first
  uint64_t next_in;
  double next_arrival; // of the next request, from `begin`
  uint64_t state;      // of the numbers drawn
  dt_status_t failed;  // the first failure; everybody stops
} run_t;

static double now(void) {
  struct timespec time;
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double cpu_now(void) {
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void sleep_until(double when) {
  for (double left = when - now(); left > 0; left = when - now()) {
    struct timespec time = {(time_t)left, (long)((left - floor(left)) * 1e9)};
    (void)nanosleep(&time, NULL);
  }
}

// Of an exponential distribution with mean 1.
static double draw_gap(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return -log(((double)(*state >> 11) + 1) * 0x1p-53);
}

// The next request: its number, and when it arrives, from `begin`; false: there is none.
static bool take_request(run_t *run, uint64_t *out_number, double *out_arrival) {
  const cli_load_t *load = run->load;
  (void)pthread_mutex_lock(&run->mutex);
  double arrival = load->rate > 0 ? run->next_arrival : now() - run->begin;
  bool more = !run->failed && arrival < load->seconds && run->sent < CLI_MOST_REQUESTS;
  if (more) {
    *out_number = run->sent++;
    *out_arrival = arrival;
    if (load->rate > 0)
      run->next_arrival += draw_gap(&run->state) / load->rate;
  }
  (void)pthread_mutex_unlock(&run->mutex);
  return more;
}

static uint32_t take_session(run_t *run) {
  (void)pthread_mutex_lock(&run->mutex);
  uint64_t ticket = run->next_in++;
  while (run->n_free == 0 || ticket != run->first_out)
    (void)pthread_cond_wait(&run->freed, &run->mutex);
  run->first_out++;
  uint32_t session = run->free[--run->n_free];
  (void)pthread_cond_broadcast(&run->freed);
  (void)pthread_mutex_unlock(&run->mutex);
  return session;
}

static void give_session(run_t *run, uint32_t session, dt_status_t status) {
  (void)pthread_mutex_lock(&run->mutex);
  run->free[run->n_free++] = session;
  if (status && !run->failed)
    run->failed = status;
  else
    dt_status_free(status);
  (void)pthread_cond_broadcast(&run->freed);
  (void)pthread_mutex_unlock(&run->mutex);
}

static void *call_on(void *user) {
  run_t *run = user;
  cli_model_t model = *run->load->model;
  dt_tensor_t **results = calloc(model.n_outputs + 1, sizeof(dt_tensor_t *));
  uint64_t number = 0;
  double arrival = 0;
  while (results && take_request(run, &number, &arrival)) {
    if (run->load->rate > 0)
      sleep_until(run->begin + arrival);
    uint32_t session = take_session(run);
    model.session = run->sessions[session];
    dt_status_t status = dt_step_begin(model.session);
    if (!status)
      status = cli_model_call(&model, run->load->inputs, results);
    run->out->times[number] = now() - run->begin - arrival;
    if (!status)
      cli_release_all(results, model.n_outputs);
    give_session(run, session, status);
  }
  free(results);
  return NULL;
}

static dt_status_t run_callers(run_t *run) {
  pthread_t *threads = calloc(run->load->callers, sizeof(*threads));
  uint32_t n = 0;
  if (!threads)
    return dt_status_make(DT_E_NO_MEMORY, "no memory for callers");
  double cpu = cpu_now();
  run->begin = now();
  while (n < run->load->callers && pthread_create(&threads[n], NULL, call_on, run) == 0)
    n++;
  dt_status_t status =
      n ? NULL : dt_status_make(DT_E_NO_MEMORY, "no thread of a caller could be made");
  for (uint32_t k = 0; k < n; k++)
    (void)pthread_join(threads[k], NULL);
  run->out->seconds = now() - run->begin;
  run->out->cpu_seconds = cpu_now() - cpu;
  run->out->n = run->sent;
  free(threads);
  return status ? status : run->failed;
}

static dt_status_t open_sessions(run_t *run) {
  const cli_load_t *load = run->load;
  const dt_session_options_t where = {
      .struct_size = sizeof(where), .device = load->place->device, .ordinal = load->place->ordinal};
  for (; run->n_free < load->sessions; run->n_free++) {
    dt_status_t status = dt_session_create(load->runtime, &where, &run->sessions[run->n_free]);
    if (status)
      return status;
    run->free[run->n_free] = run->n_free;
  }
  return NULL;
}

dt_status_t cli_load_run(const cli_load_t *load, cli_load_result_t *out) {
  run_t run = {.load = load,
               .out = out,
               .mutex = PTHREAD_MUTEX_INITIALIZER,
               .freed = PTHREAD_COND_INITIALIZER,
               .state = 1};
  *out = (cli_load_result_t){.times = calloc(CLI_MOST_REQUESTS, sizeof(double))};
  run.sessions = calloc(load->sessions, sizeof(dt_session_t *));
  run.free = calloc(load->sessions, sizeof(uint32_t));
  dt_status_t status = out->times && run.sessions && run.free
                           ? open_sessions(&run)
                           : dt_status_make(DT_E_NO_MEMORY, "no memory for sessions");
  if (!status)
    status = run_callers(&run);
  for (uint32_t k = 0; run.sessions && k < load->sessions; k++)
    dt_session_destroy(run.sessions[k]);
  free(run.sessions);
  free(run.free);
  (void)pthread_cond_destroy(&run.freed);
  (void)pthread_mutex_destroy(&run.mutex);
  return status;
}

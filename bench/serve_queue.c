// SPDX-License-Identifier: Apache-2.0
// See serve.h: clients on a queue, and workers that take batches from it.
#include "bench/harness.h"
#include "bench/serve.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct request_t {
  struct request_t *next;
  int64_t length;
  bool done;
} request_t;

typedef struct server_t {
  const serve_engine_t *engine;
  void *opened;
  const serve_load_t *load;
  pthread_mutex_t mutex;
  pthread_cond_t came, answered;
  // Guarded by the mutex, as is all that follows.
  request_t *first, **last;
  bool stopped, failed, counts;
  serve_figures_t figures;
  double *times; // milliseconds of the sentences that count
  size_t n_times, room;
} server_t;

int64_t serve_length(uint64_t *state) {
  double u = ((double)bench_random(state, 1, 1 << 30)) / ((1 << 30) + 1.0);
  double v = ((double)bench_random(state, 1, 1 << 30)) / ((1 << 30) + 1.0);
  double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v); // Box and Muller
  double tokens = 110 * exp(0.6 * normal);
  return tokens < 12 ? 12 : tokens > SERVE_LONGEST ? SERVE_LONGEST : (int64_t)tokens;
}

static double processor_seconds(void) {
  struct rusage used;
  (void)getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

// ---- Batches -------------------------------------------------------------------------------------

// Whether the queue's first fits into a batch of `rows` sentences of `length` tokens.
static bool fits(const server_t *server, uint32_t rows, int64_t length) {
  if (!server->first || rows == SERVE_ROWS)
    return false;
  int64_t longest = server->first->length > length ? server->first->length : length;
  return rows == 0 || (rows + 1) * longest <= SERVE_TOKENS;
}

// Sentences in the order in which they came; 0: the server is stopped.
static uint32_t take(server_t *server, request_t **out, int64_t *out_length) {
  struct timespec until;
  uint32_t rows = 0;
  *out_length = 0;
  pthread_mutex_lock(&server->mutex);
  while (!server->first && !server->stopped)
    pthread_cond_wait(&server->came, &server->mutex);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += server->load->batch_wait_ns;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  bool late = false;
  while (!server->stopped && (fits(server, rows, *out_length) || (!server->first && !late))) {
    if (!server->first) {
      late = pthread_cond_timedwait(&server->came, &server->mutex, &until) != 0;
      continue;
    }
    request_t *request = server->first;
    server->first = request->next;
    if (!server->first)
      server->last = &server->first;
    *out_length = request->length > *out_length ? request->length : *out_length;
    out[rows++] = request;
  }
  if (server->first)
    pthread_cond_signal(&server->came); // for another worker
  pthread_mutex_unlock(&server->mutex);
  return rows;
}

static void fill(serve_batch_t *batch, request_t *const *requests) {
  for (int64_t r = 0; r < batch->rows; r++)
    for (int64_t t = 0; t < batch->length; t++) {
      bool within = t < requests[r]->length;
      batch->ids[r * batch->length + t] = within ? 1000 + (t * 37 + r) % 5000 : 0;
      batch->mask[r * batch->length + t] = within;
    }
}

static void answer(server_t *server, request_t *const *requests, const serve_batch_t *batch,
                   bool good) {
  pthread_mutex_lock(&server->mutex);
  server->failed |= !good;
  server->figures.batches += server->counts;
  for (int64_t r = 0; r < batch->rows; r++) {
    if (server->counts) {
      server->figures.sentences++;
      server->figures.tokens += (uint64_t)requests[r]->length;
    }
    requests[r]->done = true;
  }
  pthread_cond_broadcast(&server->answered);
  pthread_mutex_unlock(&server->mutex);
}

static void *work(void *user) {
  server_t *server = user;
  request_t *requests[SERVE_ROWS];
  serve_batch_t batch = {.ids = malloc(sizeof(int64_t) * SERVE_TOKENS),
                         .mask = malloc(sizeof(int64_t) * SERVE_TOKENS)};
  serve_answer_t out = {.pooled = malloc(sizeof(float) * SERVE_ROWS * 4096), .width = 4096};
  void *worker = server->engine->worker(server->opened);
  bool good = worker && batch.ids && batch.mask && out.pooled;
  for (uint32_t rows; (rows = take(server, requests, &batch.length)) > 0;) {
    batch.rows = rows;
    if (good) {
      fill(&batch, requests);
      good = server->engine->run(worker, &batch, &out);
    }
    answer(server, requests, &batch, good);
  }
  if (worker)
    server->engine->worker_close(worker);
  free(out.pooled);
  free(batch.ids);
  free(batch.mask);
  return NULL;
}

// ---- Clients -------------------------------------------------------------------------------------
typedef struct client_t {
  server_t *server;
  uint64_t seed;
} client_t;

static void note_time(server_t *server, double ms) {
  if (server->n_times == server->room) {
    size_t room = 2 * server->room + 1024;
    double *more = realloc(server->times, room * sizeof(*more));
    server->failed |= !more;
    if (!more)
      return;
    server->times = more;
    server->room = room;
  }
  server->times[server->n_times++] = ms;
}

// False: the server is stopped.
static bool ask(server_t *server, request_t *request) {
  double began = bench_now_ns();
  pthread_mutex_lock(&server->mutex);
  if (!server->stopped) {
    *server->last = request;
    server->last = &request->next;
    pthread_cond_signal(&server->came);
    while (!request->done)
      pthread_cond_wait(&server->answered, &server->mutex);
  }
  bool goes_on = !server->stopped;
  if (goes_on && server->counts)
    note_time(server, (bench_now_ns() - began) * 1e-6);
  pthread_mutex_unlock(&server->mutex);
  return goes_on;
}

static void *live(void *user) {
  client_t *client = user;
  request_t request = {.length = 0};
  do {
    request = (request_t){.length = serve_length(&client->seed)};
  } while (ask(client->server, &request));
  return NULL;
}

// ---- A run ---------------------------------------------------------------------------------------
static void pause_for(double seconds) {
  struct timespec wait = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
  (void)nanosleep(&wait, NULL);
}

static void switch_counting(server_t *server, bool counts) {
  pthread_mutex_lock(&server->mutex);
  double sign = counts ? -1 : 1;
  server->counts = counts;
  server->figures.seconds += sign * bench_now_ns() * 1e-9;
  server->figures.processor_seconds += sign * processor_seconds();
  pthread_mutex_unlock(&server->mutex);
}

// What workers have is answered, what they have not is let go.
static void stop(server_t *server) {
  pthread_mutex_lock(&server->mutex);
  server->stopped = true;
  for (request_t *request = server->first; request; request = request->next)
    request->done = true;
  server->first = NULL;
  pthread_cond_broadcast(&server->came);
  pthread_cond_broadcast(&server->answered);
  pthread_mutex_unlock(&server->mutex);
}

bool serve(const serve_engine_t *engine, void *opened, const serve_config_t *config,
           const serve_load_t *load, serve_figures_t *out) {
  enum { MOST = 256 };
  pthread_t workers[MOST], clients[MOST];
  client_t client[MOST];
  uint32_t n_workers = 0, n_clients = 0;
  server_t server = {.engine = engine, .opened = opened, .load = load};
  server.last = &server.first;
  pthread_mutex_init(&server.mutex, NULL);
  pthread_cond_init(&server.came, NULL);
  pthread_cond_init(&server.answered, NULL);
  while (n_workers < config->workers && n_workers < MOST &&
         pthread_create(&workers[n_workers], NULL, work, &server) == 0)
    n_workers++;
  for (; n_clients < load->clients && n_clients < MOST; n_clients++) {
    client[n_clients] = (client_t){&server, load->seed + n_clients};
    if (pthread_create(&clients[n_clients], NULL, live, &client[n_clients]) != 0)
      break;
  }
  bool good = n_workers == config->workers && n_clients == load->clients;
  if (good) {
    pause_for(load->warmup);
    switch_counting(&server, true);
    pause_for(load->seconds);
    switch_counting(&server, false);
  }
  stop(&server);
  while (n_workers > 0)
    pthread_join(workers[--n_workers], NULL);
  while (n_clients > 0)
    pthread_join(clients[--n_clients], NULL);
  *out = server.figures;
  bench_sort(server.times, server.n_times);
  out->p50_ms = bench_quantile(server.times, server.n_times, 0.5);
  out->p99_ms = bench_quantile(server.times, server.n_times, 0.99);
  free(server.times);
  pthread_cond_destroy(&server.answered);
  pthread_cond_destroy(&server.came);
  pthread_mutex_destroy(&server.mutex);
  return good && !server.failed;
}

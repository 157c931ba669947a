// SPDX-License-Identifier: Apache-2.0
// Serves an ONNX model inside of a program: threads that send requests, a small batcher, workers
// with a session each, buffers that are made once, and a model that is exchanged under load.
//
// usage: serve_onnx MODEL [CLIENTS [REQUESTS [WORKERS]]]
//
// The first dim of each input and output is the batch; the second one, where it has a name, is the
// length, which differs from request to request and is padded with zeros within a batch; the others
// are fixed. docs/serving.md explains the parts.
#include "ductile/ductile.h"
#include "ductile/onnx.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BATCH 16
#define MOST_LENGTH 64
#define MOST_VALUES 8       // inputs, and outputs
#define BATCH_WAIT 2000000L // nanoseconds that a request waits for others

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
  exit(1);
}

static void *get(size_t bytes) {
  void *memory = calloc(1, bytes ? bytes : 1);
  if (!memory)
    exit(1);
  return memory;
}

// ---- What the model takes and gives ---------------------------------------------------------------
typedef struct value_t {
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t rest; // elements of the dims behind batch and length
  int has_length;
} value_t;

typedef struct shape_t {
  uint32_t n_inputs, n_outputs;
  value_t inputs[MOST_VALUES], outputs[MOST_VALUES];
} shape_t;

static value_t value_of(const dt_spec_t *spec, const char *length) {
  value_t value = {spec->dtype, spec->rank, 1, 0};
  value.has_length =
      spec->rank > 1 && spec->sizes[1] < 0 && (!length || !strcmp(spec->dims[1], length));
  for (uint32_t d = value.has_length ? 2 : 1; d < spec->rank; d++) {
    if (spec->sizes[d] < 0) {
      fprintf(stderr, "%s: dim %u (%s) is not fixed\n", spec->name, d, spec->dims[d]);
      exit(1);
    }
    value.rest *= spec->sizes[d];
  }
  return value;
}

static void read_shape(dt_onnx_t *model, dt_function_t *function, shape_t *out) {
  const char *length = NULL;
  dt_specs_t *outputs = NULL;
  must(dt_function_outputs(function, &outputs)); // before any call, and without a compile
  out->n_inputs = dt_onnx_n_inputs(model);
  out->n_outputs = outputs->n;
  if (out->n_inputs > MOST_VALUES || out->n_outputs > MOST_VALUES)
    exit(1);
  for (uint32_t k = 0; k < out->n_inputs; k++) {
    const dt_spec_t *spec = dt_onnx_input(model, k);
    out->inputs[k] = value_of(spec, NULL);
    if (spec->rank < 1 || spec->rank > (out->inputs[k].has_length ? 3u : 2u)) {
      fprintf(stderr, "%s: expected [batch], [batch, n], [batch, length] or [batch, length, n]\n",
              spec->name);
      exit(1);
    }
    length = out->inputs[k].has_length ? spec->dims[1] : length;
  }
  for (uint32_t k = 0; k < out->n_outputs; k++)
    out->outputs[k] = value_of(outputs->items[k], length);
  dt_specs_free(outputs);
}

static size_t row_bytes(const value_t *value, int64_t length) {
  return (size_t)(value->rest * (value->has_length ? length : 1)) * dt_dtype_size(value->dtype);
}

// ---- The server -----------------------------------------------------------------------------------
typedef struct request_t {
  struct request_t *next;
  int64_t length;
  void *inputs[MOST_VALUES], *outputs[MOST_VALUES]; // a row each
  int done, failed;
} request_t;

typedef struct server_t {
  dt_runtime_t *runtime;
  shape_t shape;
  pthread_mutex_t mutex;
  pthread_cond_t came, answered;
  request_t *first, **last; // guarded by the mutex, as is all that follows
  dt_function_t *function;
  int stopped;
  unsigned long batches, requests, failed;
} server_t;

// Opens the model and compiles for all sizes, and for inputs that are slices of larger buffers.
static dt_function_t *load(dt_runtime_t *runtime, const char *path, shape_t *out_shape) {
  const dt_dim_decl_t batch = {.name = "batch", .min = 1, .max = MOST_BATCH};
  dt_onnx_options_t file = {.struct_size = sizeof(file), .access = DT_ONNX_MAP};
  dt_onnx_function_options_t options = {
      .struct_size = sizeof(options), .dims = &batch, .n_dims = 1, .dim_size = sizeof(batch)};
  dt_prepare_options_t how = {.struct_size = sizeof(how), .layouts = DT_PREPARE_ROWS};
  dt_onnx_t *model = NULL;
  dt_function_t *function = NULL;
  must(dt_onnx_open(path, &file, &model));
  must(dt_onnx_function_create(runtime, model, &options, &function));
  must(dt_function_prepare(function, &how));
  must(dt_function_freeze(function, true)); // from now on a call that would compile fails instead
  if (out_shape)
    read_shape(model, function, out_shape);
  dt_onnx_close(model); // the function keeps what it needs
  return function;
}

// A reference of the caller's own: whoever swaps may release the server's at any time.
static dt_function_t *current(server_t *server) {
  pthread_mutex_lock(&server->mutex);
  dt_function_t *function = server->function;
  dt_function_retain(function);
  pthread_mutex_unlock(&server->mutex);
  return function;
}

// The old function goes with the last call that is in it.
static void swap(server_t *server, dt_function_t *function) {
  pthread_mutex_lock(&server->mutex);
  dt_function_t *old = server->function;
  server->function = function;
  pthread_mutex_unlock(&server->mutex);
  dt_function_release(old);
}

static void submit(server_t *server, request_t *request) {
  pthread_mutex_lock(&server->mutex);
  request->next = NULL;
  *server->last = request;
  server->last = &request->next;
  pthread_cond_signal(&server->came);
  while (!request->done)
    pthread_cond_wait(&server->answered, &server->mutex);
  pthread_mutex_unlock(&server->mutex);
}

// ---- Batches --------------------------------------------------------------------------------------
// What one worker has for all its life: no call allocates.
typedef struct worker_t {
  server_t *server;
  dt_session_t *session;
  void *inputs[MOST_VALUES], *outputs[MOST_VALUES];
  size_t rooms[MOST_VALUES];
  dt_tensor_t *in[MOST_VALUES], *out[MOST_VALUES];
} worker_t;

static uint32_t take_batch(server_t *server, request_t **batch) {
  struct timespec until;
  uint32_t n = 0;
  pthread_mutex_lock(&server->mutex);
  while (!server->first && !server->stopped)
    pthread_cond_wait(&server->came, &server->mutex);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += BATCH_WAIT;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  for (int late = 0; n < MOST_BATCH && (server->first || (n && !late && !server->stopped));) {
    if (!server->first) {
      late = pthread_cond_timedwait(&server->came, &server->mutex, &until) != 0;
      continue;
    }
    batch[n] = server->first;
    server->first = batch[n]->next;
    if (!server->first)
      server->last = &server->first;
    n++;
  }
  pthread_mutex_unlock(&server->mutex);
  return n;
}

// The tensor of input `k` over the corner of its buffer that the batch fills: rows lie as far apart
// as in the whole buffer.
static void bind_input(worker_t *worker, uint32_t k, int64_t n, int64_t length) {
  const value_t *value = &worker->server->shape.inputs[k];
  int64_t sizes[3] = {n, length, value->rest};
  int64_t strides[3] = {MOST_LENGTH * value->rest, value->rest, 1};
  if (!value->has_length) {
    sizes[1] = strides[0] = value->rest;
    strides[1] = 1;
  }
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = value->dtype,
                           .rank = value->rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = worker->inputs[k]};
  if (worker->in[k])
    must(dt_tensor_rebind(worker->in[k], &desc));
  else
    must(dt_tensor_create(&desc, &worker->in[k]));
}

static void fill(worker_t *worker, request_t **batch, uint32_t n, int64_t length) {
  const shape_t *shape = &worker->server->shape;
  for (uint32_t k = 0; k < shape->n_inputs; k++) {
    size_t apart = row_bytes(&shape->inputs[k], MOST_LENGTH);
    for (uint32_t r = 0; r < n; r++) {
      char *row = (char *)worker->inputs[k] + r * apart;
      size_t own = row_bytes(&shape->inputs[k], batch[r]->length);
      memcpy(row, batch[r]->inputs[k], own);
      memset(row + own, 0, row_bytes(&shape->inputs[k], length) - own);
    }
    bind_input(worker, k, (int64_t)n, length);
  }
}

static void answer(worker_t *worker, request_t **batch, uint32_t n, int64_t length, int failed) {
  server_t *server = worker->server;
  const shape_t *shape = &server->shape;
  for (uint32_t k = 0; k < shape->n_outputs && !failed; k++)
    for (uint32_t r = 0; r < n; r++)
      memcpy(batch[r]->outputs[k],
             (char *)dt_tensor_data(worker->out[k]) + r * row_bytes(&shape->outputs[k], length),
             row_bytes(&shape->outputs[k], batch[r]->length));
  pthread_mutex_lock(&server->mutex);
  server->batches++;
  server->requests += n;
  server->failed += failed ? n : 0;
  for (uint32_t r = 0; r < n; r++) {
    batch[r]->failed = failed;
    batch[r]->done = 1;
  }
  pthread_cond_broadcast(&server->answered);
  pthread_mutex_unlock(&server->mutex);
}

static void serve(worker_t *worker, request_t **batch, uint32_t n) {
  server_t *server = worker->server;
  const shape_t *shape = &server->shape;
  int64_t length = 1;
  for (uint32_t r = 0; r < n; r++)
    length = batch[r]->length > length ? batch[r]->length : length;
  fill(worker, batch, n, length);
  dt_function_t *function = current(server);
  dt_status_t status = dt_call(worker->session, function, worker->in, shape->n_inputs, worker->out,
                               shape->n_outputs, NULL);
  dt_function_release(function);
  if (status) // one bad request must not end the server
    fprintf(stderr, "a batch failed: %s\n", dt_status_message(status));
  answer(worker, batch, n, length, status != NULL);
  dt_status_free(status);
}

// Buffers for the largest batch: inputs by what the model says, results by what it would give.
static void make_buffers(worker_t *worker) {
  server_t *server = worker->server;
  const shape_t *shape = &server->shape;
  dt_output_shape_t sizes[MOST_VALUES];
  dt_function_t *function = current(server);
  for (uint32_t k = 0; k < shape->n_inputs; k++) {
    worker->inputs[k] = get(MOST_BATCH * row_bytes(&shape->inputs[k], MOST_LENGTH));
    bind_input(worker, k, MOST_BATCH, MOST_LENGTH);
  }
  must(dt_function_output_sizes(worker->session, function, worker->in, shape->n_inputs, sizes,
                                sizeof(sizes[0]), shape->n_outputs));
  for (uint32_t k = 0; k < shape->n_outputs; k++) {
    worker->rooms[k] = dt_dtype_size(sizes[k].dtype);
    for (uint32_t d = 0; d < sizes[k].rank; d++)
      worker->rooms[k] *= (size_t)sizes[k].sizes[d]; // -1 would be: the data decide
    worker->outputs[k] = get(worker->rooms[k]);
    int64_t none = 0;
    dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                             .dtype = sizes[k].dtype,
                             .rank = 1,
                             .sizes = &none,
                             .data = worker->outputs[k],
                             .room = worker->rooms[k]};
    must(dt_tensor_create(&desc, &worker->out[k]));
  }
  dt_function_release(function);
}

static void *work(void *user) {
  worker_t *worker = (worker_t *)user;
  request_t *batch[MOST_BATCH];
  must(dt_session_create(worker->server->runtime, NULL, &worker->session));
  make_buffers(worker);
  for (uint32_t n; (n = take_batch(worker->server, batch)) > 0;)
    serve(worker, batch, n);
  for (uint32_t k = 0; k < MOST_VALUES; k++) {
    dt_tensor_release(worker->in[k]);
    dt_tensor_release(worker->out[k]);
    free(worker->inputs[k]);
    free(worker->outputs[k]);
  }
  dt_session_destroy(worker->session);
  return NULL;
}

// ---- Clients --------------------------------------------------------------------------------------
typedef struct client_t {
  server_t *server;
  unsigned seed, requests, wrong;
} client_t;

static void fill_row(const value_t *value, void *row, int64_t length, unsigned *seed) {
  int64_t n = value->rest * (value->has_length ? length : 1);
  for (int64_t k = 0; k < n; k++) {
    *seed = *seed * 1664525u + 1013904223u;
    if (value->dtype == DT_F32)
      ((float *)row)[k] = (float)(*seed >> 16) / 65536.0F;
    else if (value->dtype == DT_I64)
      ((int64_t *)row)[k] = *seed >> 31;
  }
}

// The same request alone, without the batcher, in a session of its own.
static int is_as_alone(server_t *server, dt_session_t *session, const request_t *request) {
  const shape_t *shape = &server->shape;
  dt_tensor_t *in[MOST_VALUES] = {0}, *out[MOST_VALUES] = {0};
  int same = 1;
  for (uint32_t k = 0; k < shape->n_inputs; k++) {
    const value_t *value = &shape->inputs[k];
    int64_t sizes[3] = {1, value->has_length ? request->length : value->rest, value->rest};
    dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                             .dtype = value->dtype,
                             .rank = value->rank,
                             .sizes = sizes,
                             .data = request->inputs[k]};
    must(dt_tensor_create(&desc, &in[k]));
  }
  dt_function_t *function = current(server);
  must(dt_call(session, function, in, shape->n_inputs, out, shape->n_outputs, NULL));
  dt_function_release(function);
  for (uint32_t k = 0; k < shape->n_outputs; k++) {
    const float *a = (const float *)dt_tensor_data(out[k]), *b = (const float *)request->outputs[k];
    for (int64_t i = 0; shape->outputs[k].dtype == DT_F32 && i < dt_tensor_count(out[k]); i++)
      same = same && fabsf(a[i] - b[i]) <= 1e-5F + 1e-4F * fabsf(a[i]);
    dt_tensor_release(out[k]);
  }
  for (uint32_t k = 0; k < shape->n_inputs; k++)
    dt_tensor_release(in[k]);
  return same;
}

static void *send_requests(void *user) {
  client_t *client = (client_t *)user;
  const shape_t *shape = &client->server->shape;
  dt_session_t *session = NULL;
  request_t request = {0};
  must(dt_session_create(client->server->runtime, NULL, &session));
  for (uint32_t k = 0; k < shape->n_inputs; k++)
    request.inputs[k] = get(row_bytes(&shape->inputs[k], MOST_LENGTH));
  for (uint32_t k = 0; k < shape->n_outputs; k++)
    request.outputs[k] = get(row_bytes(&shape->outputs[k], MOST_LENGTH));
  for (unsigned r = 0; r < client->requests; r++) {
    request.length = 1 + (int64_t)((client->seed * 7 + r * 13) % MOST_LENGTH);
    request.done = 0;
    for (uint32_t k = 0; k < shape->n_inputs; k++)
      fill_row(&shape->inputs[k], request.inputs[k], request.length, &client->seed);
    submit(client->server, &request);
    client->wrong += request.failed || !is_as_alone(client->server, session, &request);
  }
  for (uint32_t k = 0; k < MOST_VALUES; k++) {
    free(request.inputs[k]);
    free(request.outputs[k]);
  }
  dt_session_destroy(session);
  return NULL;
}

// ---- All of it ------------------------------------------------------------------------------------
#define MOST_THREADS 64u

static unsigned number(int argc, char **argv, int k, unsigned other) {
  long value = argc > k ? strtol(argv[k], NULL, 10) : (long)other;
  return value < 1 ? 1 : value > 100000 ? 100000u : (unsigned)value;
}

static unsigned at_most(unsigned value, unsigned most) { return value < most ? value : most; }

static void report(server_t *server, unsigned wrong) {
  dt_function_stats_t stats = {.struct_size = sizeof(stats)};
  dt_runtime_stats_t memory = {.struct_size = sizeof(memory)};
  must(dt_function_stats(server->function, &stats));
  must(dt_runtime_stats(server->runtime, &memory));
  printf("%lu requests, %lu failed, %u wrong; %s\n", server->requests, server->failed, wrong,
         server->batches < server->requests ? "batched" : "one by one");
  printf("variants: %u; compiled by calls: %u; misses: %u\n", stats.variants,
         (unsigned)(stats.compiles - stats.variants), (unsigned)stats.misses);
  fprintf(stderr, "%lu batches; %lu KiB of code and packed weights\n", server->batches,
          (unsigned long)(memory.bytes / 1024));
}

int main(int argc, char **argv) {
  static server_t server;
  static worker_t workers[MOST_THREADS];
  static client_t clients[MOST_THREADS];
  static pthread_t threads[2 * MOST_THREADS];
  if (argc < 2) {
    fprintf(stderr, "usage: serve_onnx MODEL [CLIENTS [REQUESTS [WORKERS]]]\n");
    return 2;
  }
  unsigned n_clients = at_most(number(argc, argv, 2, 8), MOST_THREADS), wrong = 0;
  unsigned n_requests = number(argc, argv, 3, 100);
  unsigned n_workers = at_most(number(argc, argv, 4, 2), MOST_THREADS);
  must(dt_runtime_create(NULL, &server.runtime));
  // Workers are the parallelism: each call has one thread to itself.
  must(dt_runtime_mode_set(server.runtime, DT_MODE_KERNEL_THREADS, 1));
  pthread_mutex_init(&server.mutex, NULL);
  pthread_cond_init(&server.came, NULL);
  pthread_cond_init(&server.answered, NULL);
  server.last = &server.first;
  server.function = load(server.runtime, argv[1], &server.shape);
  for (unsigned k = 0; k < n_workers; k++) {
    workers[k].server = &server;
    pthread_create(&threads[k], NULL, work, &workers[k]);
  }
  for (unsigned k = 0; k < n_clients; k++) {
    clients[k] = (client_t){&server, k, n_requests, 0};
    pthread_create(&threads[n_workers + k], NULL, send_requests, &clients[k]);
  }
  swap(&server, load(server.runtime, argv[1], NULL)); // a new model, while requests go on
  for (unsigned k = 0; k < n_clients; k++) {
    pthread_join(threads[n_workers + k], NULL);
    wrong += clients[k].wrong;
  }
  pthread_mutex_lock(&server.mutex);
  server.stopped = 1;
  pthread_cond_broadcast(&server.came);
  pthread_mutex_unlock(&server.mutex);
  for (unsigned k = 0; k < n_workers; k++)
    pthread_join(threads[k], NULL);
  report(&server, wrong);
  dt_function_release(server.function);
  dt_runtime_release(server.runtime);
  return wrong || server.failed ? 1 : 0;
}

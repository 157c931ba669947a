// SPDX-License-Identifier: Apache-2.0
// The programs that bench_graphs calls, and the place where a caller calls them.
#include "bench/graphs.h"
#include "ductile/experimental.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Programs -----------------------------------------------------------------------------------

// A constant of seeded numbers that keep what they multiply about as large as it was.
static dt_value_t weight(dt_trace_t *t, const char *name, int64_t rows, int64_t columns) {
  const int64_t sizes[2] = {rows, columns};
  dt_tensor_t *tensor = NULL;
  dt_status_t status = dt_tensor_create_empty(DT_F32, 2, sizes, &tensor);
  if (status) {
    dt_trace_fail(t, dt_status_code(status), dt_status_message(status));
    dt_status_free(status);
    return (dt_value_t){0};
  }
  float *data = dt_tensor_data(tensor), scale = 1.7f / sqrtf((float)rows);
  uint64_t state = (uint64_t)(rows * 31 + columns) + strlen(name);
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = scale * (float)bench_random(&state, -1000, 1000) / 1000;
  dt_value_t value = dt_constant(t, name, tensor);
  dt_tensor_release(tensor);
  return value;
}

static dt_value_t linear(dt_trace_t *t, dt_value_t x, const char *layer, const char *name,
                         int64_t rows, int64_t columns) {
  char full[64];
  (void)snprintf(full, sizeof full, "%s.%s", layer, name);
  return dt_matmul(t, x, weight(t, full, rows, columns));
}

// Over the last dim, without weights.
static dt_value_t norm(dt_trace_t *t, dt_value_t x) {
  const int32_t last[] = {-1};
  dt_value_t centred = dt_sub(t, x, dt_mean(t, x, 1, last, true));
  dt_value_t variance = dt_mean(t, dt_mul(t, centred, centred), 1, last, true);
  return dt_mul(t, centred, dt_rsqrt(t, dt_add(t, variance, dt_scalar(t, DT_F32, 1e-5))));
}

static dt_value_t feed_forward(dt_trace_t *t, dt_value_t x, const char *layer, int64_t hidden) {
  dt_value_t inner = dt_gelu(t, linear(t, x, layer, "inner", hidden, 2 * hidden));
  return linear(t, inner, layer, "outer", 2 * hidden, hidden);
}

// Means along one axis and the other in turn, each of all that came before it: so many steps come
// out as GRAPHS_CHAIN_KERNELS kernels, which the case checks.
static dt_status_t trace_chain(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  enum { STEPS = 29 };
  (void)closure;
  dt_value_t x = in[0];
  for (int32_t i = 0; i < STEPS; i++) {
    const int32_t axis[] = {i % 2};
    x = dt_sub(t, x, dt_mean(t, x, 1, axis, true));
  }
  out[0] = x;
  return NULL;
}

static dt_value_t mlp(dt_trace_t *t, dt_value_t x, const char *name, int layers, int64_t hidden) {
  for (int i = 0; i < layers; i++) {
    char layer[32];
    (void)snprintf(layer, sizeof layer, "%s.%d", name, i);
    x = dt_add(t, x, feed_forward(t, norm(t, x), layer, hidden));
  }
  return x;
}

static dt_status_t trace_mlp(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = mlp(t, in[0], "mlp", 3, ((graphs_bench_t *)closure)->hidden);
  return NULL;
}
static dt_status_t trace_stem(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = mlp(t, in[0], "stem", 1, ((graphs_bench_t *)closure)->hidden);
  return NULL;
}
static dt_status_t trace_left(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = mlp(t, in[0], "left", 1, ((graphs_bench_t *)closure)->hidden);
  return NULL;
}
static dt_status_t trace_head(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = mlp(t, in[0], "head", 1, ((graphs_bench_t *)closure)->hidden);
  return NULL;
}
// The larger branch: its inner rows are four times as wide as the other's.
static dt_status_t trace_right(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                               void *closure) {
  int64_t hidden = ((graphs_bench_t *)closure)->hidden;
  dt_value_t inner = dt_gelu(t, linear(t, norm(t, in[0]), "right", "inner", hidden, 8 * hidden));
  out[0] = dt_add(t, in[0], linear(t, norm(t, inner), "right", "outer", 8 * hidden, hidden));
  return NULL;
}

// [a, b, H] → [a, heads, b, H / heads]
static dt_value_t heads_of(dt_trace_t *t, dt_value_t x, int64_t heads, int64_t hidden) {
  const dt_sym_t sizes[] = {dt_dim(t, x, 0), dt_dim(t, x, 1), dt_sym_const(t, heads),
                            dt_sym_const(t, hidden / heads)};
  return dt_transpose(t, dt_reshape(t, x, 4, sizes), 1, 2);
}

static dt_value_t attend(dt_trace_t *t, dt_value_t query, dt_value_t key, dt_value_t value,
                         int64_t depth) {
  dt_value_t scores = dt_matmul(t, query, dt_transpose(t, key, -1, -2));
  scores = dt_mul(t, scores, dt_scalar(t, DT_F32, 1 / sqrt((double)depth)));
  return dt_matmul(t, dt_softmax(t, scores, -1), value);
}

static dt_value_t encoder_layer(dt_trace_t *t, dt_value_t x, const char *layer, int64_t hidden) {
  enum { HEADS = 4 };
  dt_value_t in = norm(t, x);
  dt_value_t query = heads_of(t, linear(t, in, layer, "query", hidden, hidden), HEADS, hidden);
  dt_value_t key = heads_of(t, linear(t, in, layer, "key", hidden, hidden), HEADS, hidden);
  dt_value_t value = heads_of(t, linear(t, in, layer, "value", hidden, hidden), HEADS, hidden);
  dt_value_t context = attend(t, query, key, value, hidden / HEADS);
  const dt_sym_t sizes[] = {dt_dim(t, x, 0), dt_dim(t, x, 1), dt_sym_const(t, hidden)};
  context = dt_reshape(t, dt_transpose(t, context, 1, 2), 3, sizes);
  x = dt_add(t, x, linear(t, context, layer, "dense", hidden, hidden));
  return dt_add(t, x, feed_forward(t, norm(t, x), layer, hidden));
}

static dt_status_t trace_encoder(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  const graphs_bench_t *bench = closure;
  dt_value_t x = encoder_layer(t, in[0], "encoder.0", bench->hidden);
  if (!bench->tiny)
    x = encoder_layer(t, x, "encoder.1", bench->hidden);
  out[0] = dt_mean(t, x, 1, (const int32_t[]){1}, false);
  return NULL;
}

// x [a, H] looks at keys and values [a, b, H].
static dt_status_t trace_decode(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  int64_t hidden = ((graphs_bench_t *)closure)->hidden;
  dt_value_t query =
      dt_unsqueeze(t, linear(t, norm(t, in[0]), "decode", "query", hidden, hidden), 1);
  dt_value_t context = dt_squeeze(t, attend(t, query, in[1], in[2], hidden), 1);
  dt_value_t x = dt_add(t, in[0], linear(t, context, "decode", "dense", hidden, hidden));
  out[0] = dt_add(t, x, feed_forward(t, norm(t, x), "decode", hidden));
  return NULL;
}

// The rows of a table that have a mark, added up: as many as data says.
static dt_value_t picked_rows(dt_trace_t *t, dt_value_t marks) {
  return dt_squeeze(t, dt_nonzero(t, marks), 1);
}
static dt_value_t sum_of_rows(dt_trace_t *t, dt_value_t table, dt_value_t at) {
  return dt_sum(t, dt_gather(t, table, at, 0), 1, (const int32_t[]){0}, false);
}
static dt_status_t trace_picked(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = sum_of_rows(t, in[1], picked_rows(t, in[0]));
  return NULL;
}
// The same where the caller says how many: by a dim of the third input.
static dt_status_t trace_picked_fixed(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                      void *closure) {
  (void)closure;
  dt_value_t at = picked_rows(t, in[0]);
  dt_check(t, dt_sym_eq(t, dt_dim(t, at, 0), dt_dim(t, in[2], 0)), "as many marks as were said");
  out[0] = sum_of_rows(t, in[1], at);
  return NULL;
}

// A layer again and again, as often as a number of the data says.
static dt_value_t loop_layer(dt_trace_t *t, dt_value_t x, const dt_value_t *weights) {
  dt_value_t inner = dt_gelu(t, dt_matmul(t, norm(t, x), weights[0]));
  return dt_add(t, x, dt_matmul(t, inner, weights[1]));
}
static void loop_weights(dt_trace_t *t, int64_t hidden, dt_value_t *out) {
  out[0] = weight(t, "loop.inner", hidden, 2 * hidden);
  out[1] = weight(t, "loop.outer", 2 * hidden, hidden);
}
static dt_status_t loop_goes_on(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  out[0] = dt_lt(t, in[0], in[2]);
  return NULL;
}
static dt_status_t loop_trip(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_add(t, in[0], dt_scalar(t, DT_F32, 1));
  out[1] = loop_layer(t, in[1], &in[3]);
  return NULL;
}
static dt_status_t trace_loop(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  dt_value_t state[2] = {dt_scalar(t, DT_F32, 0), in[0]}, captured[3] = {in[1]};
  loop_weights(t, ((graphs_bench_t *)closure)->hidden, &captured[1]);
  dt_while(t, loop_goes_on, loop_trip, closure, 2, state, 3, captured, state);
  out[0] = state[1];
  return NULL;
}
static dt_status_t trace_unrolled(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  const graphs_bench_t *bench = closure;
  dt_value_t weights[2], x = in[0];
  loop_weights(t, bench->hidden, weights);
  for (int i = 0; i < bench->trips; i++)
    x = loop_layer(t, x, weights);
  out[0] = x;
  return NULL;
}

const graphs_program_t graphs_chain = {"chain", trace_chain, {"ab"}, "ab"};
const graphs_program_t graphs_mlp = {"mlp", trace_mlp, {"aH"}, "aH"};
const graphs_program_t graphs_encoder = {"encoder", trace_encoder, {"abH"}, "aH"};
const graphs_program_t graphs_decode = {"decode", trace_decode, {"aH", "abH", "abH"}, "aH"};
const graphs_program_t graphs_stem = {"stem", trace_stem, {"aH"}, "aH"};
const graphs_program_t graphs_left = {"left", trace_left, {"aH"}, "aH"};
const graphs_program_t graphs_right = {"right", trace_right, {"aH"}, "aH"};
const graphs_program_t graphs_head = {"head", trace_head, {"aH"}, "aH"};
const graphs_program_t graphs_picked = {"picked", trace_picked, {"a", "aH"}, "H"};
const graphs_program_t graphs_picked_fixed = {
    "picked fixed", trace_picked_fixed, {"a", "aH", "b"}, "H"};
const graphs_program_t graphs_loop = {"loop", trace_loop, {"aH", ""}, "aH"};
const graphs_program_t graphs_unrolled = {"unrolled", trace_unrolled, {"aH"}, "aH"};

dt_function_t *graphs_function(graphs_bench_t *bench, const graphs_program_t *program) {
  enum { MOST_RANK = 3 };
  dt_dim_decl_t dims[GRAPHS_INPUTS][MOST_RANK] = {0};
  dt_input_decl_t inputs[GRAPHS_INPUTS] = {0};
  uint32_t n = 0;
  for (; n < GRAPHS_INPUTS && program->inputs[n]; n++) {
    const char *letters = program->inputs[n];
    for (int d = 0; letters[d]; d++)
      dims[n][d] = letters[d] == 'H'   ? (dt_dim_decl_t){.value = bench->hidden, .is_static = true}
                   : letters[d] == 'a' ? (dt_dim_decl_t){.name = "a", .min = 1}
                                       : (dt_dim_decl_t){.name = "b", .min = 1};
    inputs[n] =
        (dt_input_decl_t){.dtype = DT_F32, .rank = (uint32_t)strlen(letters), .dims = dims[n]};
  }
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = program->name,
                                         .n_inputs = n,
                                         .n_outputs = 1,
                                         .inputs = inputs};
  dt_function_t *function = NULL;
  if (bench_ok(dt_function_create(bench->runtime, program->trace, bench, &options, &function),
               program->name) &&
      bench_ok(dt_function_prepare(function, &(dt_prepare_options_t){.device = DT_CUDA}),
               program->name))
    return function;
  dt_function_release(function);
  return NULL;
}

// ---- Places -------------------------------------------------------------------------------------

enum { SHIFTS = 64 }; // elements that inputs may begin later; 256 bytes keep vectors aligned

static int64_t sizes_of(const graphs_bench_t *bench, const char *letters, graphs_size_t size,
                        int64_t *out) {
  int64_t count = 1;
  for (int d = 0; letters[d]; d++) {
    out[d] = letters[d] == 'H' ? bench->hidden : letters[d] == 'a' ? size.a : size.b;
    count *= out[d];
  }
  return count;
}

int64_t graphs_elements(const graphs_bench_t *bench, const graphs_program_t *program,
                        graphs_size_t size) {
  int64_t sizes[3], most = sizes_of(bench, program->output, size, sizes);
  for (int i = 0; i < GRAPHS_INPUTS && program->inputs[i]; i++) {
    int64_t count = sizes_of(bench, program->inputs[i], size, sizes);
    most = count > most ? count : most;
  }
  return most;
}

static dt_tensor_desc_t desc_of(const graphs_place_t *place, int index, const char *letters,
                                const int64_t *sizes) {
  int64_t shift = index < GRAPHS_INPUTS ? place->shift : 0;
  return (dt_tensor_desc_t){.struct_size = sizeof(dt_tensor_desc_t),
                            .dtype = DT_F32,
                            .device = DT_CUDA,
                            .rank = (uint32_t)strlen(letters),
                            .sizes = sizes,
                            .data = (float *)dt_tensor_data(place->memory[index]) + shift};
}

static bool fill(graphs_place_t *place, int index, dt_tensor_t *host) {
  float *data = dt_tensor_data(host);
  uint64_t state = (uint64_t)index + 1;
  for (int64_t i = 0; i < dt_tensor_count(host); i++)
    data[i] = (float)bench_random(&state, -1000, 1000) / 1000;
  return bench_ok(dt_tensor_copy(place->session, host, place->memory[index]), "filling");
}

bool graphs_open(graphs_bench_t *bench, int64_t most, graphs_place_t *place) {
  const dt_session_options_t on = {.struct_size = sizeof on, .device = DT_CUDA};
  const int64_t count = most + SHIFTS, one[1] = {1};
  dt_tensor_t *host = NULL;
  *place = (graphs_place_t){.bench = bench, .most = most};
  bool good = bench_ok(dt_session_create(bench->runtime, &on, &place->session), "a session") &&
              bench_ok(dt_tensor_create_empty(DT_F32, 1, &count, &host), "a tensor");
  for (int i = 0; i <= GRAPHS_INPUTS && good; i++) {
    good = bench_ok(dt_tensor_create_on(place->session, DT_F32, 1, &count, &place->memory[i]),
                    "a tensor") &&
           fill(place, i, host);
    dt_tensor_desc_t desc = good ? desc_of(place, i, "a", one) : (dt_tensor_desc_t){0};
    good = good && bench_ok(dt_tensor_create(&desc, &place->views[i]), "a tensor");
  }
  dt_tensor_release(host);
  return good;
}

void graphs_close(graphs_place_t *place) {
  if (place->session)
    (void)bench_ok(dt_session_wait(place->session), "waiting");
  for (int i = 0; i <= GRAPHS_INPUTS; i++) {
    dt_tensor_release(place->views[i]);
    dt_tensor_release(place->memory[i]);
  }
  dt_session_destroy(place->session);
  *place = (graphs_place_t){0};
}

bool graphs_bind(graphs_place_t *place, const graphs_program_t *program, graphs_size_t size) {
  int64_t sizes[3];
  if (graphs_elements(place->bench, program, size) > place->most)
    return graphs_fail("elements of a tensor", (double)size.a * (double)size.b,
                       (double)place->most);
  place->n_inputs = 0;
  for (int i = 0; i <= GRAPHS_INPUTS; i++) {
    const char *letters = i == GRAPHS_INPUTS ? program->output : program->inputs[i];
    if (!letters)
      continue;
    place->n_inputs += i < GRAPHS_INPUTS;
    (void)sizes_of(place->bench, letters, size, sizes);
    dt_tensor_desc_t desc = desc_of(place, i, letters, sizes);
    if (!bench_ok(dt_tensor_rebind(place->views[i], &desc), "binding"))
      return false;
  }
  return true;
}

bool graphs_run(graphs_place_t *place, dt_function_t *function, dt_call_mode_t mode,
                double *returned, double *done) {
  const dt_call_options_t options = {.struct_size = sizeof options, .mode = mode};
  dt_tensor_t *output = place->views[GRAPHS_INPUTS];
  double begin = bench_now_ns();
  dt_status_t status =
      dt_call(place->session, function, place->views, place->n_inputs, &output, 1, &options);
  double back = bench_now_ns();
  if (!status)
    status = dt_session_wait(place->session);
  double end = bench_now_ns();
  if (returned)
    *returned = back - begin;
  if (done)
    *done = end - begin;
  return bench_ok(status, "calling");
}

bool graphs_call(graphs_place_t *place, const graphs_program_t *program, dt_function_t *function,
                 graphs_size_t size, dt_call_mode_t mode, double *done) {
  return graphs_bind(place, program, size) && graphs_run(place, function, mode, NULL, done);
}

int64_t graphs_count(const graphs_place_t *place) {
  return dt_tensor_count(place->views[GRAPHS_INPUTS]);
}

bool graphs_write(graphs_place_t *place, int index, const float *from, int64_t count) {
  const dt_tensor_desc_t there = {.struct_size = sizeof there,
                                  .dtype = DT_F32,
                                  .device = DT_CUDA,
                                  .rank = 1,
                                  .sizes = &count,
                                  .data = dt_tensor_data(place->memory[index])};
  dt_tensor_t *host = NULL, *view = NULL;
  bool good = bench_ok(dt_tensor_create_empty(DT_F32, 1, &count, &host), "a tensor") &&
              bench_ok(dt_tensor_create(&there, &view), "a tensor");
  if (good)
    memcpy(dt_tensor_data(host), from, (size_t)count * sizeof *from);
  good = good && bench_ok(dt_tensor_copy(place->session, host, view), "writing") &&
         bench_ok(dt_session_wait(place->session), "waiting");
  dt_tensor_release(host);
  dt_tensor_release(view);
  return good;
}

bool graphs_read(graphs_place_t *place, float *to) {
  size_t bytes = (size_t)graphs_count(place) * sizeof *to;
  return bench_ok(dt_tensor_read(place->session, place->views[GRAPHS_INPUTS], to, bytes),
                  "reading");
}

// ---- Counters -----------------------------------------------------------------------------------

bool graphs_stats(const graphs_place_t *place, dt_session_counters_t *out) {
  *out = (dt_session_counters_t){.struct_size = sizeof *out};
  return bench_ok(dt_session_counters(place->session, out), "reading the session's counters");
}

// The driver that the library has opened as well, asked directly.
int64_t graphs_device_bytes(void) {
  const char *path = getenv("DUCTILE_CUDA");
  void *driver = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    return 0;
  int (*retain)(void **, int) = NULL, (*push)(void *) = NULL, (*pop)(void **) = NULL,
                         (*release)(int) = NULL, (*info)(size_t *, size_t *) = NULL;
  *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&release = dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
  *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
  *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
  *(void **)&info = dlsym(driver, "cuMemGetInfo_v2");
  void *context = NULL;
  size_t left = 0, total = 0;
  if (retain && release && push && pop && info && retain(&context, 0) == 0) {
    if (push(context) == 0) {
      if (info(&left, &total) != 0)
        left = total = 0;
      (void)pop(&context);
    }
    (void)release(0);
  }
  (void)dlclose(driver);
  return (int64_t)(total - left);
}

graphs_size_t graphs_draw(uint64_t *state, graphs_size_t most) {
  int64_t a = bench_random(state, 1, most.a);
  return (graphs_size_t){a, bench_random(state, 1, most.b)};
}

bool graphs_fail(const char *what, double is, double expected) {
  (void)fprintf(stderr, "bench: %s: %.9g; expected %.9g\n", what, is, expected);
  return false;
}

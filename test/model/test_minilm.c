// SPDX-License-Identifier: Apache-2.0
// MiniLM through the public API, in f32 and f16: one variant for all shapes from any start,
// embeddings against the float64 evaluator, bad input that leaves the function working, and on a
// device the same bits from CUDA graphs as from kernels launched one by one; on the CPU, or where
// DUCTILE_TEST_DEVICE says. Trained weights from DUCTILE_TEST_MINILM or where scripts/fetch-minilm
// puts them, else seeded ones (said in the first line). See `usage`.
#include "ductile/experimental.h"
#include "ductile/graphs.h"
#include "examples/minilm/model.h"
#include "test/device/on_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(cond, ...)                                                                           \
  do {                                                                                             \
    if (!(cond)) {                                                                                 \
      failures++;                                                                                  \
      printf("FAIL %s:%d: ", __FILE__, __LINE__);                                                  \
      printf(__VA_ARGS__);                                                                         \
      printf("\n");                                                                                \
    }                                                                                              \
  } while (0)

static bool ok(dt_status_t status) {
  bool good = status == NULL;
  CHECK(good, "%s: %s", dt_code_name(dt_status_code(status)), dt_status_message(status));
  dt_status_free(status);
  return good;
}

static const char usage[] =
    "usage: model_minilm [--dtype f32|f16] [--full | --few]\n"
    "  --dtype TYPE  only this one (default: both)\n"
    "  --full        the shapes of the release check: 200 from each start, and 30 of up to 512\n"
    "                tokens against the evaluator; on a device 12 of up to 256, since minutes of\n"
    "                the evaluator's are not the device's\n"
    "  --few         one layer, a few tokens: for the fake driver\n";

// ---- What is asked of a dtype -------------------------------------------------------------------
// Roundings on the longest way through the model: in the embeddings, a layer, and pooling. Layer
// norms and residual sums pass an error on about as large as it came, so that this many times half
// a unit in the last place is the bound of an embedding's distance from the exact one.
enum { ROUNDINGS_BEFORE = 3, ROUNDINGS_OF_LAYER = 18, ROUNDINGS_AFTER = 5 };
// Kernels that a call may launch on a device.
enum { LAUNCHES_ALLOWED = 36 };

typedef struct demand_t {
  const char *name;
  dt_dtype_t dtype;
  double square;   // of an embedding's length, from 1
  double element;  // of an embedding, from the evaluator's
  double rounding; // half a unit in the last place of a number near 1
  double cosine;   // of an embedding and the evaluator's, at least
} demand_t;
static const demand_t demands[] = {
    {"f32", DT_F32, 1e-5, 2e-6, 0x1p-24, 0.999999},
    {"f16", DT_F16, 0x1p-8, 0x1p-8, 0x1p-11, 0.999},
};

// How much of it is tried.
typedef struct extent_t {
  int layers;                     // 0: all
  int starts, shapes;             // shapes from each start
  int64_t most_rows, most_length; // of a shape
  int64_t tokens;                 // of a shape, at most
  int exact_shapes;               // against the evaluator
  int64_t exact_tokens;
} extent_t;
static const extent_t usual = {0, 4, 25, 64, 512, 300, 4, 40},
                      full = {0, 4, 200, 64, 512, 4096, 30, 512},
                      full_device = {0, 4, 200, 64, 512, 4096, 12, 256},
                      few = {1, 1, 3, 2, 5, 6, 1, 6};

typedef struct test_t {
  dt_runtime_t *runtime;
  const minilm_weights_t *weights;
  const demand_t *demand;
  const extent_t *extent;
} test_t;

static uint32_t seed = 1;
static int64_t random_below(int64_t n) {
  seed = seed * 1664525U + 1013904223U;
  return (int64_t)(seed >> 8) % n;
}

// Tokens and a mask of random lengths, at least one token a row.
typedef struct batch_t {
  dt_tensor_t *inputs[2];
} batch_t;

static batch_t make_batch(int64_t batch, int64_t length) {
  const int64_t sizes[2] = {batch, length};
  batch_t b = {{NULL, NULL}};
  ok(dt_tensor_create_empty(DT_I64, 2, sizes, &b.inputs[0]));
  ok(dt_tensor_create_empty(DT_I64, 2, sizes, &b.inputs[1]));
  int64_t *ids = dt_tensor_data(b.inputs[0]), *mask = dt_tensor_data(b.inputs[1]);
  for (int64_t r = 0; r < batch; r++) {
    int64_t used = length ? 1 + random_below(length) : 0;
    for (int64_t k = 0; k < length; k++) {
      ids[r * length + k] = k < used ? random_below(MINILM_VOCAB) : 0;
      mask[r * length + k] = k < used;
    }
  }
  return b;
}

static void free_batch(batch_t *b) {
  dt_tensor_release(b->inputs[0]);
  dt_tensor_release(b->inputs[1]);
}

static dt_function_counters_t stats_of(dt_function_t *function) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  ok(dt_function_counters(function, &stats));
  return stats;
}

// Where the tests run.
static dt_status_t call_on(dt_session_t *session, dt_function_t *function,
                           dt_tensor_t *const *inputs, dt_tensor_t **out) {
  static const dt_input_decl_t decls[2] = {{.name = "ids"}, {.name = "mask"}};
  return on_device_call(session, function, decls, inputs, 2, out, 1);
}

static dt_tensor_t *call(dt_session_t *session, dt_function_t *function, batch_t *b) {
  dt_tensor_t *out = NULL;
  ok(call_on(session, function, b->inputs, &out));
  return out;
}

static void random_shape(const extent_t *extent, int64_t tokens, int64_t *batch, int64_t *length) {
  do {
    *batch = random_below(extent->most_rows + 1);
    *length = random_below(extent->most_length + 1);
  } while (*batch * *length > tokens);
}

// A function and a session of its own, where the tests run.
static bool open_model(const test_t *t, dt_function_t **function, dt_session_t **session) {
  return ok(minilm_create(t->runtime, t->weights, DT_ANSWER_COMPILED, function)) &&
         ok(on_device_session(t->runtime, session));
}

static double square_of(const float *row) {
  double sum = 0;
  for (int d = 0; d < MINILM_HIDDEN; d++)
    sum += (double)row[d] * (double)row[d];
  return sum;
}

// ---- One variant --------------------------------------------------------------------------------

static void check_result(const test_t *t, const dt_tensor_t *out, int64_t batch, int64_t length) {
  CHECK(out && dt_tensor_sizes(out)[0] == batch && dt_tensor_sizes(out)[1] == MINILM_HIDDEN,
        "sizes of the result at [%d, %d]", (int)batch, (int)length);
  for (int64_t r = 0; out && length && r < batch; r++) {
    double square = square_of((const float *)dt_tensor_data(out) + r * MINILM_HIDDEN);
    CHECK(fabs(square - 1) < t->demand->square, "row %d at [%d, %d] has length %g", (int)r,
          (int)batch, (int)length, sqrt(square));
  }
}

// All shapes through one function whose first call is at `start`; batch -1: it is prepared.
static void one_variant_from(const test_t *t, const int64_t start[2]) {
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  if (!open_model(t, &function, &session))
    return;
  if (start[0] < 0)
    ok(on_device_prepare(function));
  uint64_t launches = 0, most = 0;
  for (int k = 0; k < t->extent->shapes && failures < 10; k++) {
    int64_t batch = start[0], length = start[1];
    if (k > 0 || batch < 0)
      random_shape(t->extent, t->extent->tokens, &batch, &length);
    batch_t b = make_batch(batch, length);
    dt_tensor_t *out = call(session, function, &b);
    check_result(t, out, batch, length);
    dt_tensor_release(out);
    free_batch(&b);
    uint64_t now = stats_of(function).launches;
    most = now - launches > most ? now - launches : most;
    launches = now;
  }
  dt_function_counters_t stats = stats_of(function);
  printf("%s, start %2d x %2d: %d shapes, %u variants, %u compiles, %u evaluator calls\n",
         t->demand->name, (int)start[0], (int)start[1], t->extent->shapes, stats.variants,
         (unsigned)stats.compiles, (unsigned)stats.evaluator_calls);
  if (on_device())
    printf("  at most %u launches a call (allowed: %d)\n", (unsigned)most, LAUNCHES_ALLOWED);
  CHECK(stats.variants == 1 && stats.compiles == 1 && stats.evaluator_calls == 0,
        "one variant answers every shape");
  CHECK(most <= LAUNCHES_ALLOWED, "%u launches a call", (unsigned)most);
  CHECK((most > 0) == on_device() && (stats.device_load_ns > 0) == on_device(),
        "%u launches, %u ns for device code", (unsigned)most, (unsigned)stats.device_load_ns);
  dt_session_destroy(session);
  dt_function_release(function);
}

static void one_variant(const test_t *t) {
  static const int64_t starts[][2] = {{1, 1}, {7, 33}, {0, 5}, {-1, -1}};
  for (int s = 0; s < t->extent->starts; s++)
    one_variant_from(t, starts[s]);
}

// ---- Against the evaluator ----------------------------------------------------------------------

// The largest differences seen.
typedef struct worst_t {
  double element, distance, cosine;
} worst_t;

static double larger(double a, double b) { return b > a || isnan(b) ? b : a; }

static void compare_rows(const dt_tensor_t *got, const dt_tensor_t *want, worst_t *worst) {
  const float *a = dt_tensor_data(got), *b = dt_tensor_data(want);
  for (int64_t r = 0; r < dt_tensor_sizes(got)[0]; r++, a += MINILM_HIDDEN, b += MINILM_HIDDEN) {
    double distance = 0, dot = 0;
    for (int d = 0; d < MINILM_HIDDEN; d++) {
      double difference = (double)a[d] - (double)b[d];
      worst->element = larger(worst->element, fabs(difference));
      distance += difference * difference;
      dot += (double)a[d] * (double)b[d];
    }
    double cosine = dot / sqrt(square_of(a) * square_of(b));
    worst->distance = larger(worst->distance, sqrt(distance));
    worst->cosine = -larger(-worst->cosine, -cosine);
  }
}

static void compare_at(const test_t *t, dt_tensor_t *got, dt_tensor_t *want, batch_t *b,
                       worst_t *worst) {
  const demand_t *demand = t->demand;
  const int64_t *sizes = dt_tensor_sizes(b->inputs[0]);
  double bound =
      demand->rounding * (ROUNDINGS_BEFORE + ROUNDINGS_AFTER +
                          ROUNDINGS_OF_LAYER * (double)minilm_weights_layers(t->weights));
  worst_t here = {.cosine = 1};
  if (got && want)
    compare_rows(got, want, &here);
  CHECK(here.element <= demand->element, "[%d, %d]: an element differs by %g, allowed %g",
        (int)sizes[0], (int)sizes[1], here.element, demand->element);
  CHECK(here.distance <= bound, "[%d, %d]: an embedding is %g away, allowed %g", (int)sizes[0],
        (int)sizes[1], here.distance, bound);
  CHECK(here.cosine > demand->cosine, "[%d, %d]: a cosine of %.7f, allowed %g", (int)sizes[0],
        (int)sizes[1], here.cosine, demand->cosine);
  worst->element = larger(worst->element, here.element);
  worst->distance = larger(worst->distance, here.distance);
  worst->cosine = -larger(-worst->cosine, -here.cosine);
}

static void against_evaluator(const test_t *t) {
  dt_function_t *compiled = NULL, *exact = NULL;
  dt_session_t *session = NULL, *host = NULL;
  if (!open_model(t, &compiled, &session) ||
      !ok(minilm_create(t->runtime, t->weights, DT_ANSWER_EVALUATOR, &exact)) ||
      !ok(dt_session_create(t->runtime, NULL, &host)))
    return;
  worst_t worst = {.cosine = 1};
  for (int k = 0; k < t->extent->exact_shapes && failures < 10; k++) {
    int64_t batch = 0, length = 0;
    do
      random_shape(t->extent, t->extent->exact_tokens, &batch, &length);
    while (batch * length == 0);
    batch_t b = make_batch(batch, length);
    dt_tensor_t *got = call(session, compiled, &b), *want = NULL;
    ok(dt_call(host, exact, b.inputs, 2, &want, 1, NULL));
    compare_at(t, got, want, &b, &worst);
    dt_tensor_release(got);
    dt_tensor_release(want);
    free_batch(&b);
  }
  printf("%s, %d shapes against the evaluator: elements within %.3g, embeddings within %.3g, "
         "cosines from %.7f\n",
         t->demand->name, t->extent->exact_shapes, worst.element, worst.distance, worst.cosine);
  CHECK(stats_of(compiled).evaluator_calls == 0, "the evaluator answered for compiled code");
  CHECK(stats_of(exact).evaluator_calls == (uint64_t)t->extent->exact_shapes,
        "the oracle is not the evaluator");
  dt_session_destroy(session);
  dt_session_destroy(host);
  dt_function_release(compiled);
  dt_function_release(exact);
}

// ---- Bad input ----------------------------------------------------------------------------------

static void refuses(dt_session_t *session, dt_function_t *function, dt_tensor_t *const *inputs,
                    dt_code_t code, const char *mention) {
  dt_tensor_t *out = NULL;
  dt_status_t status = call_on(session, function, inputs, &out);
  CHECK(status && dt_status_code(status) == code && strstr(dt_status_message(status), mention),
        "expected %s mentioning '%s', got %s: %s", dt_code_name(code), mention,
        dt_code_name(dt_status_code(status)), dt_status_message(status));
  CHECK(out == NULL, "a failed call returned a tensor");
  dt_status_free(status);
  dt_tensor_release(out);
}

static void bad_input(const test_t *t) {
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  if (!open_model(t, &function, &session))
    return;
  batch_t good = make_batch(1, 5), longer = make_batch(1, 6), none = make_batch(1, 0),
          large = make_batch(1, 513);
  dt_tensor_t *floats = NULL, *vector = NULL;
  ok(dt_tensor_create_empty(DT_F32, 2, (const int64_t[]){1, 5}, &floats));
  ok(dt_tensor_create_empty(DT_I64, 1, (const int64_t[]){5}, &vector));
  // First with nothing compiled, then with a variant: the answers are the same.
  for (int round = 0; round < 2; round++) {
    refuses(session, function, (dt_tensor_t *[]){good.inputs[0], longer.inputs[1]}, DT_E_SHAPE,
            "mask");
    refuses(session, function, (dt_tensor_t *[]){good.inputs[0], none.inputs[1]}, DT_E_SHAPE,
            "mask");
    refuses(session, function, (dt_tensor_t *[]){good.inputs[0], floats}, DT_E_DTYPE, "mask");
    refuses(session, function, (dt_tensor_t *[]){vector, good.inputs[1]}, DT_E_SHAPE, "ids");
    refuses(session, function, (dt_tensor_t *[]){good.inputs[0], NULL}, DT_E_ARGUMENT, "mask");
    refuses(session, function, large.inputs, DT_E_SHAPE, "512");
    CHECK(stats_of(function).variants == (uint32_t)round, "bad input made a variant");
    dt_tensor_release(call(session, function, &good));
  }
  int64_t *ids = dt_tensor_data(good.inputs[0]), kept = ids[3];
  for (int side = 0; side < 2; side++) {
    ids[3] = side ? MINILM_VOCAB : -MINILM_VOCAB - 1;
    refuses(session, function, good.inputs, DT_E_RANGE, "gather");
  }
  ids[3] = kept;
  dt_tensor_release(call(session, function, &good));
  CHECK(stats_of(function).variants == 1, "the function works on with one variant");
  dt_tensor_release(floats);
  dt_tensor_release(vector);
  free_batch(&good);
  free_batch(&longer);
  free_batch(&none);
  free_batch(&large);
  dt_session_destroy(session);
  dt_function_release(function);
}

// ---- Graphs -------------------------------------------------------------------------------------

// Embeddings of `there` on the host, the caller's; NULL on failure.
static float *embed_as(dt_session_t *session, dt_function_t *function, dt_tensor_t *const *there,
                       dt_call_mode_t mode, size_t *bytes) {
  const dt_call_options_t options = {.struct_size = sizeof(options), .mode = mode};
  dt_tensor_t *out = NULL;
  float *rows = NULL;
  if (ok(dt_step_begin(session)) && ok(dt_call(session, function, there, 2, &out, 1, &options))) {
    *bytes = (size_t)dt_tensor_count(out) * sizeof(*rows);
    rows = malloc(*bytes ? *bytes : 1);
    CHECK(rows, "out of memory");
    if (rows)
      ok(dt_tensor_read(session, out, rows, *bytes));
  }
  dt_tensor_release(out);
  return rows;
}

static void graph_at(dt_session_t *session, dt_function_t *function, int64_t batch,
                     int64_t length) {
  batch_t b = make_batch(batch, length);
  dt_tensor_t *there[2] = {NULL, NULL};
  size_t plain_bytes = 0, graph_bytes = 0;
  if (ok(on_device_take(session, b.inputs[0], &there[0])) &&
      ok(on_device_take(session, b.inputs[1], &there[1]))) {
    float *plain = embed_as(session, function, there, DT_CALL_PLAIN, &plain_bytes),
          *graph = embed_as(session, function, there, DT_CALL_REDUCE_OVERHEAD, &graph_bytes);
    CHECK(plain && graph && plain_bytes == graph_bytes && memcmp(plain, graph, plain_bytes) == 0,
          "[%d, %d]: a graph's embeddings differ from those of plain launches", (int)batch,
          (int)length);
    free(plain);
    free(graph);
  }
  ok(dt_session_wait(session));
  dt_tensor_release(there[0]);
  dt_tensor_release(there[1]);
  free_batch(&b);
}

// One graph serves every shape.
static void as_graphs(const test_t *t) {
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  if (!on_device() || !open_model(t, &function, &session))
    return;
  uint64_t calls = 0;
  for (; calls < (uint64_t)t->extent->shapes && failures < 10; calls++) {
    int64_t batch = 0, length = 0;
    do
      random_shape(t->extent, t->extent->tokens, &batch, &length);
    while (batch * length == 0);
    graph_at(session, function, batch, length);
  }
  dt_session_counters_t stats = {.struct_size = sizeof(stats)};
  ok(dt_session_counters(session, &stats));
  printf("%s, %u shapes as graphs: %u graphs built, %u skips\n", t->demand->name, (unsigned)calls,
         (unsigned)stats.builds, (unsigned)stats.graph_skips);
  CHECK(stats.graph_calls == calls && stats.graph_skips == 0 && stats.builds == 1,
        "%u of %u calls were graphs, of %u built; the last skip: %s", (unsigned)stats.graph_calls,
        (unsigned)calls, (unsigned)stats.builds, stats.graph_skip ? stats.graph_skip : "none");
  dt_session_destroy(session);
  dt_function_release(function);
}

// ---- Program ------------------------------------------------------------------------------------

static minilm_weights_t *load(const minilm_config_t *config) {
  char dir[512], error[256];
  const char *given = getenv("DUCTILE_TEST_MINILM"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  if (given)
    snprintf(dir, sizeof(dir), "%s", given);
  else
    snprintf(dir, sizeof(dir), "%s%s/ductile/minilm-gt-0.1.0",
             cache  ? cache
             : home ? home
                    : "",
             cache ? "" : "/.cache");
  minilm_weights_t *weights = minilm_weights_load(dir, config, error, sizeof(error));
  CHECK(weights || !given, "%s", error);
  printf("weights: %s\n", weights ? "trained" : "seeded (scripts/fetch-minilm brings the trained)");
  if (!weights)
    weights = minilm_weights_seeded(config, error, sizeof(error));
  CHECK(weights, "%s", error);
  return weights;
}

static void run(dt_runtime_t *runtime, const demand_t *demand, const extent_t *extent) {
  const minilm_config_t config = {.dtype = demand->dtype, .layers = extent->layers};
  minilm_weights_t *weights = load(&config);
  if (!weights)
    return;
  const test_t test = {runtime, weights, demand, extent};
  one_variant(&test);
  against_evaluator(&test);
  bad_input(&test);
  as_graphs(&test);
  minilm_weights_free(weights);
}

int main(int argc, char **argv) {
  const extent_t *extent = &usual;
  const char *only = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--full") == 0) {
      extent = on_device() ? &full_device : &full;
    } else if (strcmp(argv[i], "--few") == 0) {
      extent = &few;
    } else if (strcmp(argv[i], "--dtype") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else {
      fputs(usage, stderr);
      return 2;
    }
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  dt_runtime_t *runtime = NULL;
  if (!ok(dt_runtime_create(NULL, &runtime)))
    return 1;
  for (size_t i = 0; i < sizeof(demands) / sizeof(demands[0]); i++)
    if (!only || strcmp(only, demands[i].name) == 0)
      run(runtime, &demands[i], extent);
  dt_runtime_release(runtime);
  printf("%d failures\n", failures);
  return failures != 0;
}

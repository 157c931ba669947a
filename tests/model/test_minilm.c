// SPDX-License-Identifier: Apache-2.0
// MiniLM through the public API: one variant for all shapes from any start, embeddings against the
// float64 evaluator, and bad input that leaves the function working. Trained weights where they are
// cached, else seeded ones (said in the first line). --full takes the shapes of the release check:
// 200 from each start, 30 against the evaluator.
#include "examples/minilm/model.h"

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

static dt_function_stats_t stats_of(dt_function_t *function) {
  dt_function_stats_t stats = {.struct_size = sizeof(stats)};
  ok(dt_function_stats(function, &stats));
  return stats;
}

static dt_tensor_t *call(dt_session_t *session, dt_function_t *function, batch_t *b) {
  dt_tensor_t *out = NULL;
  ok(dt_call(session, function, b->inputs, 2, &out, 1));
  return out;
}

// Batch 0–64 × length 0–512, at most `limit` tokens.
static void random_shape(int64_t limit, int64_t *batch, int64_t *length) {
  do {
    *batch = random_below(65);
    *length = random_below(513);
  } while (*batch * *length > limit);
}

static void one_variant(dt_runtime_t *runtime, const minilm_weights_t *weights, bool full) {
  static const int64_t starts[][2] = {{1, 1}, {7, 33}, {0, 5}, {-1, -1}};
  for (int s = 0; s < 4; s++) {
    dt_function_t *function = NULL;
    dt_session_t *session = NULL;
    if (!ok(minilm_create(runtime, weights, DT_ANSWER_COMPILED, &function)) ||
        !ok(dt_session_create(runtime, &session)))
      return;
    if (starts[s][0] < 0)
      ok(dt_function_prepare(function));
    int shapes = full ? 200 : 25;
    for (int k = 0; k < shapes && failures < 10; k++) {
      int64_t batch = starts[s][0], length = starts[s][1];
      if (k > 0 || batch < 0)
        random_shape(full ? 4096 : 300, &batch, &length);
      batch_t b = make_batch(batch, length);
      dt_tensor_t *out = call(session, function, &b);
      CHECK(out && dt_tensor_sizes(out)[0] == batch && dt_tensor_sizes(out)[1] == MINILM_HIDDEN,
            "sizes of the result at [%d, %d]", (int)batch, (int)length);
      for (int64_t r = 0; out && length && r < batch; r++) {
        const float *row = (const float *)dt_tensor_data(out) + r * MINILM_HIDDEN;
        double norm = 0;
        for (int d = 0; d < MINILM_HIDDEN; d++)
          norm += (double)row[d] * (double)row[d];
        CHECK(fabs(norm - 1) < 1e-5, "row %d at [%d, %d] has length %g", (int)r, (int)batch,
              (int)length, sqrt(norm));
      }
      dt_tensor_release(out);
      free_batch(&b);
    }
    dt_function_stats_t stats = stats_of(function);
    printf("start %2d x %2d: %u variants, %u compiles, %u evaluator calls\n", (int)starts[s][0],
           (int)starts[s][1], stats.variants, (unsigned)stats.compiles,
           (unsigned)stats.evaluator_calls);
    CHECK(stats.variants == 1 && stats.compiles == 1 && stats.evaluator_calls == 0,
          "one variant answers every shape");
    dt_session_destroy(session);
    dt_function_release(function);
  }
}

static void against_evaluator(dt_runtime_t *runtime, const minilm_weights_t *weights, bool full) {
  dt_function_t *compiled = NULL, *exact = NULL;
  dt_session_t *session = NULL;
  ok(minilm_create(runtime, weights, DT_ANSWER_COMPILED, &compiled));
  ok(minilm_create(runtime, weights, DT_ANSWER_EVALUATOR, &exact));
  ok(dt_session_create(runtime, &session));
  double worst = 0;
  int shapes = full ? 30 : 4;
  for (int k = 0; k < shapes && failures < 10; k++) {
    int64_t batch = 0, length = 0;
    do
      random_shape(full ? 512 : 40, &batch, &length);
    while (batch * length == 0);
    batch_t b = make_batch(batch, length);
    dt_tensor_t *got = call(session, compiled, &b), *want = call(session, exact, &b);
    double most = 0;
    for (int64_t i = 0; got && want && i < dt_tensor_count(got); i++) {
      double difference = fabs((double)((float *)dt_tensor_data(got))[i] -
                               (double)((float *)dt_tensor_data(want))[i]);
      most = difference > most || isnan(difference) ? difference : most;
    }
    CHECK(most <= 2e-6, "[%d, %d] differs by %g", (int)batch, (int)length, most);
    if (full)
      printf("[%2d, %3d] differs by %.2g\n", (int)batch, (int)length, most);
    worst = most > worst ? most : worst;
    dt_tensor_release(got);
    dt_tensor_release(want);
    free_batch(&b);
  }
  printf("%d shapes against the evaluator: largest difference %.3g (allowed 2e-6)\n", shapes,
         worst);
  CHECK(stats_of(compiled).evaluator_calls == 0, "the evaluator answered for compiled code");
  CHECK(stats_of(exact).evaluator_calls == (uint64_t)shapes, "the oracle is not the evaluator");
  dt_session_destroy(session);
  dt_function_release(compiled);
  dt_function_release(exact);
}

static void refuses(dt_session_t *session, dt_function_t *function, dt_tensor_t *const *inputs,
                    dt_code_t code, const char *mention) {
  dt_tensor_t *out = NULL;
  dt_status_t status = dt_call(session, function, inputs, 2, &out, 1);
  CHECK(status && dt_status_code(status) == code && strstr(dt_status_message(status), mention),
        "expected %s mentioning '%s', got %s: %s", dt_code_name(code), mention,
        dt_code_name(dt_status_code(status)), dt_status_message(status));
  CHECK(out == NULL, "a failed call returned a tensor");
  dt_status_free(status);
  dt_tensor_release(out);
}

static void bad_input(dt_runtime_t *runtime, const minilm_weights_t *weights) {
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  ok(minilm_create(runtime, weights, DT_ANSWER_COMPILED, &function));
  ok(dt_session_create(runtime, &session));
  batch_t good = make_batch(2, 7), longer = make_batch(2, 8), none = make_batch(2, 0),
          large = make_batch(1, 513);
  dt_tensor_t *floats = NULL, *vector = NULL;
  ok(dt_tensor_create_empty(DT_F32, 2, (const int64_t[]){2, 7}, &floats));
  ok(dt_tensor_create_empty(DT_I64, 1, (const int64_t[]){7}, &vector));
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

static minilm_weights_t *load(void) {
  char dir[512], error[256];
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  snprintf(dir, sizeof(dir), "%s%s/ductile/minilm-gt-0.1.0",
           cache  ? cache
           : home ? home
                  : "",
           cache ? "" : "/.cache");
  minilm_weights_t *weights = minilm_weights_load(dir, error, sizeof(error));
  printf("weights: %s\n", weights ? "trained" : "seeded (scripts/fetch-minilm brings the trained)");
  if (!weights)
    weights = minilm_weights_seeded(error, sizeof(error));
  CHECK(weights, "%s", error);
  return weights;
}

int main(int argc, char **argv) {
  bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  dt_runtime_t *runtime = NULL;
  minilm_weights_t *weights = load();
  if (!weights || !ok(dt_runtime_create(NULL, &runtime)))
    return 1;
  one_variant(runtime, weights, full);
  against_evaluator(runtime, weights, full);
  bad_input(runtime, weights);
  dt_runtime_release(runtime);
  minilm_weights_free(weights);
  printf("%d failures\n", failures);
  return failures != 0;
}

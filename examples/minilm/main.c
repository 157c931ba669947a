// SPDX-License-Identifier: Apache-2.0
// minilm: sentence embeddings with all-MiniLM-L6-v2, and what a call costs at changing sizes.
//
// The order of a program that uses Ductile: a runtime, a function (model.c), prepared before the
// first request; a session for each thread that calls; calls with whatever sizes come.
#include "ductile/device.h"
#include "ductile/experimental.h"
#include "examples/minilm/measure.h"
#include "examples/minilm/model.h"
#include "examples/minilm/place.h"
#include "examples/minilm/report.h"
#include "examples/minilm/sentences.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static const char usage[] =
    "usage: minilm [--model DIR | --seeded] [--device cpu|cuda] [--dtype f32|f16|bf16]\n"
    "              [--mode plain|reduce-overhead] [--sentence TEXT]… [--demo] [--json]\n"
    "              [--threads N] [--evaluator]\n"
    "\n"
    "Embeds sentences with all-MiniLM-L6-v2 and prints how alike they are.\n"
    "  --model DIR      folder with model.safetensors and vocab.txt (default: the one that\n"
    "                   scripts/fetch-minilm puts into the user's cache)\n"
    "  --seeded         made-up weights and words instead: same speed, answers without meaning\n"
    "  --device WHERE   cpu (default), or cuda: the first GPU\n"
    "  --dtype TYPE     what weights are converted to, and all is computed in: f32 (default), f16 "
    "or bf16\n"
    "  --mode MODE      plain (default): kernels one by one; reduce-overhead, GPUs only: a call "
    "is\n"
    "                   one launch of a graph\n"
    "  --sentence TEXT  a sentence to embed, may be repeated (default: a dozen of the program's "
    "own)\n"
    "  --demo           afterwards, measure calls over batch and length\n"
    "  --json           JSON lines: one a sentence with its ids, similarities and embedding, then\n"
    "                   one a measured value\n"
    "  --threads N      threads that run kernels (default: one a core)\n"
    "  --evaluator      let the reference evaluator answer: slow, for checking; cpu only\n"
    "Exit codes: 0 all went well, 1 something failed, 2 wrong usage.\n";

typedef struct arguments_t {
  const char *model; // NULL with seeded weights
  char default_model[1024];
  bool seeded, demo, json, evaluator;
  dt_device_t device;
  dt_call_mode_t mode;
  dt_dtype_t dtype;
  uint32_t threads;
  const char **sentences; // owner of the array
  size_t sentence_count;
} arguments_t;

// Everything that lives as long as the program.
typedef struct app_t {
  minilm_weights_t *weights;
  wordpiece_t *vocab;
  dt_runtime_t *runtime;
  dt_function_t *function;
  dt_session_t *session;
  dt_call_mode_t mode; // of every call
  double prepare_ns;
} app_t;

// True for success; else says on stderr what went wrong, and frees the status.
static bool ok(dt_status_t status, const char *doing) {
  if (!status)
    return true;
  fprintf(stderr, "minilm: %s: %s: %s\n", doing, dt_code_name(dt_status_code(status)),
          dt_status_message(status));
  dt_status_free(status);
  return false;
}

// ---- Arguments ----------------------------------------------------------------------------------

static const char *default_model(arguments_t *arguments) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool has_cache = cache && *cache;
  snprintf(arguments->default_model, sizeof arguments->default_model,
           "%s%s/ductile/minilm-gt-0.1.0",
           has_cache ? cache
           : home    ? home
                     : "",
           has_cache ? "" : "/.cache");
  return arguments->default_model;
}

static bool parse_threads(const char *text, uint32_t *out) {
  char *end;
  long value = strtol(text, &end, 10);
  *out = (uint32_t)value;
  return *text && !*end && value >= 1 && value <= 1024;
}

static bool parse_device(const char *text, dt_device_t *out) {
  int32_t ordinal = 0;
  dt_status_t status = dt_device_parse(text, out, &ordinal);
  dt_status_free(status);
  return !status && ordinal == 0;
}

static bool parse_mode(const char *text, dt_call_mode_t *out) {
  *out = strcmp(text, "plain") == 0 ? DT_CALL_PLAIN : DT_CALL_REDUCE_OVERHEAD;
  return *out == DT_CALL_PLAIN || strcmp(text, "reduce-overhead") == 0;
}

static bool parse_dtype(const char *text, dt_dtype_t *out) {
  static const dt_dtype_t dtypes[] = {DT_F32, DT_F16, DT_BF16};
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
    if (strcmp(text, dt_dtype_name(dtypes[i])) == 0) {
      *out = dtypes[i];
      return true;
    }
  return false;
}

// False for wrong usage. *out_help: asked for help.
static bool parse(int argc, char **argv, arguments_t *out, bool *out_help) {
  static const struct option options[] = {
      {"model", required_argument, NULL, 'm'},   {"seeded", no_argument, NULL, 's'},
      {"device", required_argument, NULL, 'c'},  {"dtype", required_argument, NULL, 'y'},
      {"mode", required_argument, NULL, 'o'},    {"sentence", required_argument, NULL, 't'},
      {"demo", no_argument, NULL, 'd'},          {"json", no_argument, NULL, 'j'},
      {"threads", required_argument, NULL, 'n'}, {"evaluator", no_argument, NULL, 'e'},
      {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
  };
  for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    switch (option) {
    case 'm':
      out->model = optarg;
      break;
    case 's':
      out->seeded = true;
      break;
    case 'c':
      if (!parse_device(optarg, &out->device))
        return false;
      break;
    case 'y':
      if (!parse_dtype(optarg, &out->dtype))
        return false;
      break;
    case 'o':
      if (!parse_mode(optarg, &out->mode))
        return false;
      break;
    case 't':
      out->sentences[out->sentence_count++] = optarg;
      break;
    case 'd':
      out->demo = true;
      break;
    case 'j':
      out->json = true;
      break;
    case 'e':
      out->evaluator = true;
      break;
    case 'n':
      if (!parse_threads(optarg, &out->threads))
        return false;
      break;
    case 'h':
      *out_help = true;
      return true;
    default:
      return false;
    }
  }
  if (optind < argc || (out->seeded && out->model) || (out->evaluator && out->device != DT_CPU) ||
      (out->mode == DT_CALL_REDUCE_OVERHEAD && out->device == DT_CPU))
    return false;
  if (!out->seeded && !out->model)
    out->model = default_model(out);
  return true;
}

// ---- Set-up -------------------------------------------------------------------------------------

static bool load_files(const arguments_t *arguments, app_t *app) {
  const minilm_config_t config = {.dtype = arguments->dtype};
  char error[512] = "";
  if (arguments->seeded) {
    app->weights = minilm_weights_seeded(&config, error, sizeof error);
  } else {
    char path[4096];
    snprintf(path, sizeof path, "%s/vocab.txt", arguments->model);
    app->vocab = wordpiece_load(path, error, sizeof error);
    if (app->vocab)
      app->weights = minilm_weights_load(arguments->model, &config, error, sizeof error);
  }
  if (app->weights)
    return true;
  fprintf(stderr, "minilm: %s\n", error);
  if (arguments->model == arguments->default_model)
    fprintf(stderr, "minilm: run scripts/fetch-minilm first, or use --seeded\n");
  return false;
}

static bool set_up(const arguments_t *arguments, app_t *app) {
  if (!load_files(arguments, app))
    return false;
  app->mode = arguments->mode;
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .threads = arguments->threads};
  dt_answer_t answer = arguments->evaluator ? DT_ANSWER_EVALUATOR : DT_ANSWER_COMPILED;
  if (!ok(dt_runtime_create(&options, &app->runtime), "making the runtime") ||
      !ok(minilm_create(app->runtime, app->weights, answer, &app->function), "making the model"))
    return false;
  // Compiles for all sizes at once, so that no call has to wait for a compiler.
  double start = now_ns();
  const dt_prepare_options_t where = {.struct_size = sizeof where, .device = arguments->device};
  if (!ok(dt_function_prepare(app->function, &where), "compiling the model"))
    return false;
  app->prepare_ns = now_ns() - start;
  const dt_session_options_t on = {.struct_size = sizeof on, .device = arguments->device};
  return ok(dt_session_create(app->runtime, &on, &app->session), "making a session");
}

static void tear_down(app_t *app) {
  dt_session_destroy(app->session);
  dt_function_release(app->function);
  dt_runtime_release(app->runtime);
  minilm_weights_free(app->weights); // after the function, which reads them
  wordpiece_free(app->vocab);
}

// ---- Work ---------------------------------------------------------------------------------------

// The embeddings of a batch on the host: the caller's, to be freed. NULL on failure.
static float *embeddings_of(app_t *app, const batch_t *batch) {
  size_t bytes = (size_t)batch->count * MINILM_HIDDEN * sizeof(float);
  float *rows = malloc(bytes);
  dt_tensor_t *embeddings = NULL;
  batch_t there = {0};
  bool good = rows && ok(batch_place(app->session, batch, &there), "placing tensors");
  dt_tensor_t *const inputs[] = {there.ids, there.mask};
  const dt_call_options_t options = {.struct_size = sizeof options, .mode = app->mode};
  good =
      good &&
      ok(dt_call(app->session, app->function, inputs, 2, &embeddings, 1, &options), "embedding") &&
      ok(dt_tensor_read(app->session, embeddings, rows, bytes), "reading the embeddings");
  dt_tensor_release(embeddings);
  batch_free(&there);
  if (good)
    return rows;
  free(rows);
  return NULL;
}

static bool embed(const arguments_t *arguments, app_t *app) {
  bool own = arguments->sentence_count == 0;
  const char *const *sentences = own ? builtin_sentences : arguments->sentences;
  size_t count = own ? builtin_sentence_count : arguments->sentence_count;
  batch_t batch;
  if (!ok(batch_from_sentences(app->vocab, sentences, count, &batch), "making tensors"))
    return false;
  float *rows = embeddings_of(app, &batch);
  if (rows)
    report_sentences(arguments->json, sentences, &batch, rows, MINILM_HIDDEN);
  bool good = rows != NULL;
  free(rows);
  batch_free(&batch);
  return good;
}

static bool demo(const arguments_t *arguments, app_t *app) {
  static const int64_t batches[] = {1, 2, 3, 8, 16}, lengths[] = {7, 16, 33, 64, 128};
  report_measurements_begin(arguments->json);
  for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++)
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
      measurement_t measurement;
      if (!ok(measure(app->session, app->function, app->mode, batches[b], lengths[l], &measurement),
              "measuring"))
        return false;
      report_measurement(arguments->json, &measurement);
    }
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  if (!ok(dt_function_counters(app->function, &stats), "reading the counters"))
    return false;
  report_totals(arguments->json, &stats, dt_session_bytes(app->session), app->prepare_ns);
  return true;
}

int main(int argc, char **argv) {
  arguments_t arguments = {.sentences = calloc((size_t)argc, sizeof(char *))};
  app_t app = {0};
  bool help = false;
  int code = EXIT_FAILURE;
  if (!arguments.sentences) {
    fprintf(stderr, "minilm: out of memory\n");
  } else if (!parse(argc, argv, &arguments, &help)) {
    fputs(usage, stderr);
    code = EXIT_USAGE;
  } else if (help) {
    fputs(usage, stdout);
    code = EXIT_SUCCESS;
  } else if (set_up(&arguments, &app) && embed(&arguments, &app) &&
             (!arguments.demo || demo(&arguments, &app))) {
    code = EXIT_SUCCESS;
  }
  tear_down(&app);
  free(arguments.sentences);
  return code;
}

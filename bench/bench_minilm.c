// SPDX-License-Identifier: Apache-2.0
// all-MiniLM-L6-v2 in one process: cold start, latency, new sizes, memory, variants; or, with
// --serve, calls on request. The model is the example's.
#include "bench/minilm.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: bench_minilm [--model DIR] [--device cpu|cuda] [--dtype f32|f16|bf16]\n"
    "                    [--mode MODE] [--cases LIST | --serve] [--threads N] [--json]\n"
    "\n"
    "  --model DIR         folder with model.safetensors (default: seeded weights)\n"
    "  --device WHERE      cpu (default), or cuda: the first GPU\n"
    "  --dtype TYPE        of weights and all that is computed (default: f32)\n"
    "  --layers N          of the model, the first ones (default: all)\n"
    "  --mode MODE         plain (default): kernels one by one; reduce-overhead: graphs\n"
    "  --cases LIST        which, by commas (default: all but start, graphs and package, in this\n"
    "                      order)\n"
    "      start           from nothing to the first answer, step by step\n"
    "      cold            first call of a new function, packing included\n"
    "      latency         medians over twelve shapes, or a GPU's eight\n"
    "      first           first call at a size against the median there, 50 sizes\n"
    "      memory          growth over 500 shapes after a pass that held the largest\n"
    "      variants        over random shapes from four starts\n"
    "      graphs          GPUs: first call at unseen sizes after the largest, as graphs and\n"
    "                      plain, whatever --mode says\n"
    "      package         writes --package for --levels, and compares its answers, bit by bit,\n"
    "                      with those of code that is made here\n"
    "  --package FILE      a package of the model, which functions are opened from: no weights\n"
    "                      are loaded; with --levels: that is written\n"
    "  --levels LIST       of CPUs, and architectures of devices, such as v3,sm_90a\n"
    "  --memory-calls N    calls of the case memory (default: 10000)\n"
    "  --variant-shapes N  shapes of the case variants (default: 200)\n"
    "  --graph-shapes N    shapes of the case graphs (default: 200)\n"
    "  --graph-largest BxL the largest of them (default: 64x128)\n"
    "  --graph-calls N     calls at each after its first (default: 25)\n"
    "  --started NS        case start: when the process was started, by the monotonic clock\n"
    "  --threads N         threads that run kernels (default: one a core)\n"
    "  --json              JSON lines\n"
    "  --serve             says \"ready VERSION\", then reads requests, one a line:\n"
    "      run B S N       N calls at batch B, length S: their nanoseconds\n"
    "      embed B S       one call: its embeddings\n"
    "      stats           variants, evaluator calls, kernels of a call, bytes of the session,\n"
    "                      launches on a device so far\n"
    "      graphs          calls that ran as graphs, skips, graphs built, growths, bytes of pool,\n"
    "                      scratch and graphs, and why the last skip was\n"
    "      quit\n"
    "    A request that fails is answered by a line \"error TEXT\".\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  const char *model, *cases, *package, *levels;
  long threads, memory_calls, variant_shapes, started;
  minilm_graph_limits_t graphs;
  minilm_config_t config;
  dt_device_t device;
  dt_call_mode_t mode;
  bool json, serve, help;
} arguments_t;

static const struct {
  const char *name;
  bool (*run)(minilm_bench_t *bench);
  bool asked_only; // not among those that run where no list is given
} cases[] = {
    {"start", minilm_case_start, true},      {"cold", minilm_case_cold, false},
    {"latency", minilm_case_latency, false}, {"first", minilm_case_first, false},
    {"memory", minilm_case_memory, false},   {"variants", minilm_case_variants, false},
    {"graphs", minilm_case_graphs, true},    {"package", minilm_case_package, true},
};
enum { CASES = sizeof cases / sizeof cases[0] };

// ---- Tensors ------------------------------------------------------------------------------------

// A view of `memory` with other sizes.
static dt_tensor_desc_t desc_of(dt_tensor_t *memory, const int64_t *sizes) {
  return (dt_tensor_desc_t){.struct_size = sizeof(dt_tensor_desc_t),
                            .dtype = dt_tensor_dtype(memory),
                            .device = dt_tensor_device(memory),
                            .ordinal = dt_tensor_ordinal(memory),
                            .rank = 2,
                            .sizes = sizes,
                            .data = dt_tensor_data(memory)};
}

// Puts arbitrary tokens, or ones, where calls run.
static bool fill(minilm_bench_t *bench, int which) {
  enum { FIRST_WORD = 1996 }; // of the vocabulary's whole words
  const int64_t count = MINILM_MAX_TOKENS;
  dt_tensor_t *host = NULL;
  bool good = bench_ok(dt_tensor_create_empty(DT_I64, 1, &count, &host), "making a tensor");
  int64_t *data = good ? dt_tensor_data(host) : NULL;
  for (int64_t i = 0; good && i < count; i++)
    data[i] = which ? 1 : FIRST_WORD + i * 7919 % (MINILM_VOCAB - FIRST_WORD);
  good = good && bench_ok(dt_tensor_copy(bench->session, host, bench->io.memory[which]), "filling");
  dt_tensor_release(host);
  return good;
}

bool minilm_io_create(minilm_bench_t *bench) {
  minilm_io_t *io = &bench->io;
  const int64_t counts[3] = {MINILM_MAX_TOKENS, MINILM_MAX_TOKENS,
                             (int64_t)MINILM_MAX_BATCH * MINILM_HIDDEN};
  io->embeddings = calloc((size_t)counts[2], sizeof io->embeddings[0]);
  if (!io->embeddings) {
    fprintf(stderr, "bench: out of memory\n");
    return false;
  }
  for (int i = 0; i < 3; i++) {
    const int64_t sizes[2] = {1, i < 2 ? 1 : MINILM_HIDDEN};
    if (!bench_ok(dt_tensor_create_on(bench->session, i < 2 ? DT_I64 : DT_F32, 1, &counts[i],
                                      &io->memory[i]),
                  "making a tensor"))
      return false;
    dt_tensor_desc_t desc = desc_of(io->memory[i], sizes);
    if (!bench_ok(dt_tensor_create(&desc, i < 2 ? &io->inputs[i] : &io->output), "making a tensor"))
      return false;
  }
  return fill(bench, 0) && fill(bench, 1);
}

void minilm_io_destroy(minilm_io_t *io) {
  dt_tensor_release(io->inputs[0]);
  dt_tensor_release(io->inputs[1]);
  dt_tensor_release(io->output);
  for (int i = 0; i < 3; i++)
    dt_tensor_release(io->memory[i]);
  free(io->embeddings);
}

dt_status_t minilm_io_bind(minilm_io_t *io, int64_t batch, int64_t length) {
  // Beyond the memory there is, the library's own check of the sizes refuses.
  bool fits = batch >= 0 && length >= 0 && batch <= MINILM_MAX_BATCH &&
              (batch == 0 || length <= MINILM_MAX_TOKENS / batch);
  const int64_t sizes[] = {fits ? batch : -1, length}, output_sizes[] = {batch, MINILM_HIDDEN};
  dt_tensor_desc_t ids = desc_of(io->memory[0], sizes), mask = desc_of(io->memory[1], sizes),
                   output = desc_of(io->memory[2], output_sizes);
  dt_status_t status = dt_tensor_rebind(io->inputs[0], &ids);
  if (!status)
    status = dt_tensor_rebind(io->inputs[1], &mask);
  return status ? status : dt_tensor_rebind(io->output, &output);
}

dt_status_t minilm_io_read(minilm_bench_t *bench) {
  const dt_tensor_t *output = bench->io.output;
  size_t bytes = (size_t)dt_tensor_count(output) * sizeof bench->io.embeddings[0];
  return dt_tensor_read(bench->session, output, bench->io.embeddings, bytes);
}

dt_status_t minilm_call_into(minilm_bench_t *bench, dt_function_t *function, dt_tensor_t **output) {
  const dt_call_options_t options = {.struct_size = sizeof options, .mode = bench->mode};
  return dt_call(bench->session, function, bench->io.inputs, 2, output, 1, &options);
}

dt_status_t minilm_call(minilm_bench_t *bench, dt_function_t *function, double *out_ns) {
  double start = bench_now_ns();
  dt_status_t status = minilm_call_into(bench, function, &bench->io.output);
  if (!status)
    status = dt_session_wait(bench->session);
  *out_ns = bench_now_ns() - start;
  return status;
}

// ---- Program ------------------------------------------------------------------------------------

static bool open_package(const arguments_t *arguments, minilm_bench_t *bench) {
  return bench_ok(dt_package_open(bench->runtime, arguments->package, NULL, &bench->package),
                  "opening the package");
}

static bool load_weights(const arguments_t *arguments, minilm_bench_t *bench) {
  const char *model = arguments->model;
  char error[512] = "";
  bench->weights = model ? minilm_weights_load(model, &arguments->config, error, sizeof error)
                         : minilm_weights_seeded(&arguments->config, error, sizeof error);
  if (!bench->weights)
    fprintf(stderr, "bench: %s\n", error);
  return bench->weights != NULL;
}

static bool set_up(const arguments_t *arguments, minilm_bench_t *bench) {
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .threads = (uint32_t)arguments->threads};
  const dt_session_options_t on = {.struct_size = sizeof on, .device = arguments->device};
  bench->memory_calls = arguments->memory_calls;
  bench->variant_shapes = arguments->variant_shapes;
  bench->graphs = arguments->graphs;
  bench->device = arguments->device;
  bench->mode = arguments->mode;
  bench->path = arguments->package;
  bench->levels = arguments->levels;
  double begin = bench_now_ns();
  bench->start.process = arguments->started ? begin - (double)arguments->started : 0;
  if (!bench_ok(dt_runtime_create(&options, &bench->runtime), "making the runtime"))
    return false;
  double made = bench_now_ns();
  if (!bench_ok(dt_session_create(bench->runtime, &on, &bench->session), "making a session"))
    return false;
  double opened = bench_now_ns();
  bool packed = arguments->package && !arguments->levels;
  if (!(packed ? open_package : load_weights)(arguments, bench))
    return false;
  bench->start.runtime = made - begin;
  bench->start.session = opened - made;
  bench->start.weights = bench_now_ns() - opened;
  return minilm_io_create(bench);
}

static void tear_down(minilm_bench_t *bench) {
  minilm_io_destroy(&bench->io);
  dt_package_release(bench->package);
  dt_session_destroy(bench->session);
  dt_runtime_release(bench->runtime);
  minilm_weights_free(bench->weights);
}

static bool known_cases(const char *list) {
  size_t commas = 0, known = 0;
  for (const char *at = list; *at; at++)
    commas += *at == ',';
  for (size_t i = 0; i < CASES; i++)
    known += bench_listed(list, cases[i].name);
  return known == commas + 1;
}

static bool run_cases(const arguments_t *arguments, minilm_bench_t *bench) {
  bench_begin(&bench->report, "minilm", arguments->json);
  for (size_t i = 0; i < CASES; i++)
    if ((arguments->cases ? bench_listed(arguments->cases, cases[i].name) : !cases[i].asked_only) &&
        !cases[i].run(bench))
      return false;
  return true;
}

static bool parse_device(const char *text, dt_device_t *out) {
  int32_t ordinal = 0;
  dt_status_t status = dt_device_parse(text, out, &ordinal);
  dt_status_free(status);
  return !status && ordinal == 0;
}

// Such as 64x128.
static bool parse_shape(const char *text, minilm_graph_limits_t *out) {
  int end = 0;
  return sscanf(text, "%ldx%ld%n", &out->batch, &out->length, &end) == 2 && !text[end] &&
         out->batch >= 1 && out->batch <= 64 && out->length >= 1 && out->length <= MINILM_POSITIONS;
}

static bool parse_layers(const char *text, minilm_config_t *out) {
  long layers = 0;
  bool good = bench_parse_number(text, 1, MINILM_LAYERS, &layers);
  out->layers = (int)layers;
  return good;
}

static bool parse_mode(const char *text, dt_call_mode_t *out) {
  *out = strcmp(text, "plain") == 0 ? DT_CALL_PLAIN : DT_CALL_REDUCE_OVERHEAD;
  return *out == DT_CALL_PLAIN || strcmp(text, "reduce-overhead") == 0;
}

static bool parse_dtype(const char *text, dt_dtype_t *out) {
  static const dt_dtype_t dtypes[] = {DT_F32, DT_F16, DT_BF16};
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
    *out = dtypes[i];
    if (strcmp(text, dt_dtype_name(*out)) == 0)
      return true;
  }
  return false;
}

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {
      {"model", required_argument, NULL, 'm'},
      {"device", required_argument, NULL, 'd'},
      {"dtype", required_argument, NULL, 'f'},
      {"mode", required_argument, NULL, 'o'},
      {"cases", required_argument, NULL, 'c'},
      {"package", required_argument, NULL, 'p'},
      {"levels", required_argument, NULL, 'e'},
      {"started", required_argument, NULL, 'a'},
      {"memory-calls", required_argument, NULL, 'y'},
      {"variant-shapes", required_argument, NULL, 'v'},
      {"layers", required_argument, NULL, 'l'},
      {"graph-shapes", required_argument, NULL, 'g'},
      {"graph-largest", required_argument, NULL, 'b'},
      {"graph-calls", required_argument, NULL, 'k'},
      {"threads", required_argument, NULL, 't'},
      {"json", no_argument, NULL, 'j'},
      {"serve", no_argument, NULL, 's'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0},
  };
  bool good = true;
  for (int option; good && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
    if (option == 'm')
      out->model = optarg;
    else if (option == 'd')
      good = parse_device(optarg, &out->device);
    else if (option == 'f')
      good = parse_dtype(optarg, &out->config.dtype);
    else if (option == 'o')
      good = parse_mode(optarg, &out->mode);
    else if (option == 'g')
      good = bench_parse_number(optarg, 1, 4096, &out->graphs.shapes);
    else if (option == 'b')
      good = parse_shape(optarg, &out->graphs);
    else if (option == 'k')
      good = bench_parse_number(optarg, 1, 1000, &out->graphs.later);
    else if (option == 'l')
      good = parse_layers(optarg, &out->config);
    else if (option == 'a')
      good = bench_parse_number(optarg, 1, LONG_MAX, &out->started);
    else if (option == 'c')
      good = known_cases(out->cases = optarg);
    else if (option == 'p')
      out->package = optarg;
    else if (option == 'e')
      out->levels = optarg;
    else if (option == 'y')
      good = bench_parse_number(optarg, 1, 100000000, &out->memory_calls);
    else if (option == 'v')
      good = bench_parse_number(optarg, 1, 1000000, &out->variant_shapes);
    else if (option == 't')
      good = bench_parse_number(optarg, 1, 1024, &out->threads);
    else if (option == 'j')
      out->json = true;
    else if (option == 's')
      out->serve = true;
    else if (option == 'h')
      out->help = true;
    else
      good = false;
  }
  // There must be as many shapes as are asked for, besides the largest.
  return good && optind == argc && !(out->serve && out->cases) && (out->package || !out->levels) &&
         out->graphs.shapes < out->graphs.batch * out->graphs.length;
}

int main(int argc, char **argv) {
  arguments_t arguments = {.memory_calls = 10000,
                           .variant_shapes = 200,
                           .graphs = {.shapes = 200, .batch = 64, .length = 128, .later = 25},
                           .mode = DT_CALL_PLAIN};
  if (!parse(argc, argv, &arguments)) {
    fputs(usage, stderr);
    return BENCH_EXIT_USAGE;
  }
  if (arguments.help) {
    fputs(usage, stdout);
    return 0;
  }
  minilm_bench_t bench = {0};
  bool good = set_up(&arguments, &bench) &&
              (arguments.serve ? minilm_serve(&bench) : run_cases(&arguments, &bench));
  tear_down(&bench);
  return good ? 0 : BENCH_EXIT_FAILED;
}

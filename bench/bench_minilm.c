// SPDX-License-Identifier: Apache-2.0
// all-MiniLM-L6-v2 in one process: cold start, latency, new sizes, memory, variants; or, with
// --serve, calls on request. The model is the example's.
#include "bench/minilm.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: bench_minilm [--model DIR] [--cases LIST | --serve] [--threads N] [--json]\n"
    "\n"
    "  --model DIR         folder with model.safetensors (default: seeded weights)\n"
    "  --cases LIST        which, by commas (default: all, in this order)\n"
    "      cold            first call of a new function, packing included\n"
    "      latency         medians over twelve shapes\n"
    "      first           first call at a size against the median there, 50 sizes\n"
    "      memory          growth over 500 shapes after a pass that held the largest\n"
    "      variants        over random shapes from four starts\n"
    "  --memory-calls N    calls of the case memory (default: 10000)\n"
    "  --variant-shapes N  shapes of the case variants (default: 200)\n"
    "  --threads N         threads that run kernels (default: one a core)\n"
    "  --json              JSON lines\n"
    "  --serve             says \"ready VERSION\", then reads requests, one a line:\n"
    "      run B S N       N calls at batch B, length S: their nanoseconds\n"
    "      embed B S       one call: its embeddings\n"
    "      stats           variants, evaluator calls, kernels of a call, bytes of the session\n"
    "      quit\n"
    "    A request that fails is answered by a line \"error TEXT\".\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  const char *model, *cases;
  long threads, memory_calls, variant_shapes;
  bool json, serve, help;
} arguments_t;

static const struct {
  const char *name;
  bool (*run)(minilm_bench_t *bench);
} cases[] = {
    {"cold", minilm_case_cold},         {"latency", minilm_case_latency},
    {"first", minilm_case_first},       {"memory", minilm_case_memory},
    {"variants", minilm_case_variants},
};
enum { CASES = sizeof cases / sizeof cases[0] };

// ---- Tensors ------------------------------------------------------------------------------------

static dt_tensor_desc_t desc_of(dt_dtype_t dtype, const int64_t *sizes, void *data) {
  return (dt_tensor_desc_t){.struct_size = sizeof(dt_tensor_desc_t),
                            .dtype = dtype,
                            .rank = 2,
                            .sizes = sizes,
                            .data = data};
}

bool minilm_io_create(minilm_io_t *io) {
  enum { FIRST_WORD = 1996 }; // of the vocabulary's whole words
  *io = (minilm_io_t){
      .ids = calloc(MINILM_MAX_TOKENS, sizeof io->ids[0]),
      .mask = calloc(MINILM_MAX_TOKENS, sizeof io->mask[0]),
      .embeddings = calloc((size_t)MINILM_MAX_BATCH * MINILM_HIDDEN, sizeof io->embeddings[0])};
  if (!io->ids || !io->mask || !io->embeddings) {
    fprintf(stderr, "bench: out of memory\n");
    return false;
  }
  for (int64_t i = 0; i < MINILM_MAX_TOKENS; i++) {
    io->ids[i] = FIRST_WORD + i * 7919 % (MINILM_VOCAB - FIRST_WORD);
    io->mask[i] = 1;
  }
  const int64_t sizes[] = {1, 1}, output_sizes[] = {1, MINILM_HIDDEN};
  dt_tensor_desc_t ids = desc_of(DT_I64, sizes, io->ids), mask = desc_of(DT_I64, sizes, io->mask),
                   output = desc_of(DT_F32, output_sizes, io->embeddings);
  return bench_ok(dt_tensor_create(&ids, &io->inputs[0]), "making a tensor") &&
         bench_ok(dt_tensor_create(&mask, &io->inputs[1]), "making a tensor") &&
         bench_ok(dt_tensor_create(&output, &io->output), "making a tensor");
}

void minilm_io_destroy(minilm_io_t *io) {
  dt_tensor_release(io->inputs[0]);
  dt_tensor_release(io->inputs[1]);
  dt_tensor_release(io->output);
  free(io->ids);
  free(io->mask);
  free(io->embeddings);
}

dt_status_t minilm_io_bind(minilm_io_t *io, int64_t batch, int64_t length) {
  // Beyond the memory there is, the library's own check of the sizes refuses.
  bool fits = batch >= 0 && length >= 0 && batch <= MINILM_MAX_BATCH &&
              (batch == 0 || length <= MINILM_MAX_TOKENS / batch);
  const int64_t sizes[] = {fits ? batch : -1, length}, output_sizes[] = {batch, MINILM_HIDDEN};
  dt_tensor_desc_t ids = desc_of(DT_I64, sizes, io->ids), mask = desc_of(DT_I64, sizes, io->mask),
                   output = desc_of(DT_F32, output_sizes, io->embeddings);
  dt_status_t status = dt_tensor_rebind(io->inputs[0], &ids);
  if (!status)
    status = dt_tensor_rebind(io->inputs[1], &mask);
  return status ? status : dt_tensor_rebind(io->output, &output);
}

dt_status_t minilm_call(minilm_bench_t *bench, dt_function_t *function, double *out_ns) {
  double start = bench_now_ns();
  dt_status_t status = dt_call(bench->session, function, bench->io.inputs, 2, &bench->io.output, 1);
  *out_ns = bench_now_ns() - start;
  return status;
}

// ---- Program ------------------------------------------------------------------------------------

static bool set_up(const arguments_t *arguments, minilm_bench_t *bench) {
  char error[512] = "";
  bench->memory_calls = arguments->memory_calls;
  bench->variant_shapes = arguments->variant_shapes;
  bench->weights = arguments->model ? minilm_weights_load(arguments->model, error, sizeof error)
                                    : minilm_weights_seeded(error, sizeof error);
  if (!bench->weights) {
    fprintf(stderr, "bench: %s\n", error);
    return false;
  }
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .threads = (uint32_t)arguments->threads};
  return minilm_io_create(&bench->io) &&
         bench_ok(dt_runtime_create(&options, &bench->runtime), "making the runtime") &&
         bench_ok(dt_session_create(bench->runtime, &bench->session), "making a session");
}

static void tear_down(minilm_bench_t *bench) {
  minilm_io_destroy(&bench->io);
  dt_session_destroy(bench->session);
  dt_runtime_release(bench->runtime);
  minilm_weights_free(bench->weights);
}

// Whether `name` is one of the words of `list`.
static bool listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
      return true;
  return false;
}

static bool known_cases(const char *list) {
  size_t commas = 0, known = 0;
  for (const char *at = list; *at; at++)
    commas += *at == ',';
  for (size_t i = 0; i < CASES; i++)
    known += listed(list, cases[i].name);
  return known == commas + 1;
}

static bool run_cases(const arguments_t *arguments, minilm_bench_t *bench) {
  bench_begin(&bench->report, "minilm", arguments->json);
  for (size_t i = 0; i < CASES; i++)
    if ((!arguments->cases || listed(arguments->cases, cases[i].name)) && !cases[i].run(bench))
      return false;
  return true;
}

static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {
      {"model", required_argument, NULL, 'm'},
      {"cases", required_argument, NULL, 'c'},
      {"memory-calls", required_argument, NULL, 'y'},
      {"variant-shapes", required_argument, NULL, 'v'},
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
    else if (option == 'c')
      good = known_cases(out->cases = optarg);
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
  return good && optind == argc && !(out->serve && out->cases);
}

int main(int argc, char **argv) {
  arguments_t arguments = {.memory_calls = 10000, .variant_shapes = 200};
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

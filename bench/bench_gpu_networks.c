// SPDX-License-Identifier: Apache-2.0
// ResNet50 and BERT in f16 on a GPU, with all sizes that users change symbolic: microseconds of a
// call, many queued behind each other, each one a CUDA graph, as the peer's are
// (tools/bench/networks_gpu_peer.py, which also makes the weights, the inputs and the right
// answers). A network has one function. Every answer that was timed is compared with the right one.
#include "bench/harness.h"
#include "bench/networks.h"
#include "bench/queued.h"
#include "ductile/device.h"
#include "ductile/experimental.h"
#include "examples/minilm/half.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: bench_gpu_networks --weights FOLDER [--networks LIST] [--batches LIST] [--json]\n"
    "                          [--mode MODE] [--device cuda|cpu] [--rounds R] [--tiny]\n"
    "\n"
    "Measures calls of whole networks in f16, microseconds each.\n"
    "  --weights FOLDER  with files that networks_gpu_peer.py --weights has made\n"
    "  --networks LIST   (default: resnet50,bert)\n"
    "  --batches LIST    at the sizes of each of the file's inputs but the first, at which "
    "answers\n"
    "                    are compared and nothing is timed (default: 1,64,8)\n"
    "  --mode MODE       reduce-overhead (default): calls are CUDA graphs; plain: kernels one by "
    "one\n"
    "  --device WHERE    cuda (default): the first GPU; cpu: for trying this program\n"
    "  --rounds R        measurements of which the median is taken (default: 9)\n"
    "  --tiny            networks of few layers and channels: the files are tiny ones, too\n"
    "Exit codes: 0 measured; 1 something failed or was wrong; 2 wrong usage.\n";

enum { LIST = 16, MOST_BATCH = 4096 };

typedef struct options_t {
  const char *weights, *networks;
  long batches[LIST], rounds;
  size_t n_batches;
  dt_call_mode_t mode;
  dt_device_t device;
  bool tiny, json;
} options_t;

typedef dt_status_t (*create_t)(dt_runtime_t *runtime, network_t *network, dt_call_mode_t mode,
                                dt_function_t **out);
static const struct {
  network_t full, tiny;
  create_t create;
} networks[] = {
    {{.name = "resnet50", .rank = 4, .resnet = {{3, 4, 6, 3}, 64, 1000}},
     {.name = "resnet50", .rank = 4, .resnet = {{2, 1, 1, 1}, 8, 10}},
     resnet_create},
    {{.name = "bert", .rank = 3, .bert = {12, 768, 3072}},
     {.name = "bert", .rank = 3, .bert = {2, 128, 256}},
     bert_create},
};
enum { NETWORKS = sizeof(networks) / sizeof(networks[0]) };

// One network and what it is called with.
typedef struct rig_t {
  const options_t *o;
  bench_report_t *report;
  network_t network;
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
} rig_t;

// ---- Inputs and right answers -------------------------------------------------------------------

// An input of the file with its answer, borrowed from the file.
typedef struct sample_t {
  dt_safetensors_info_t input, output;
  char sizes[48]; // of a row, such as 224x224: the input's dims but for batch and channels
} sample_t;

// False, with nothing on stderr, where the file has no sample of that number.
static bool find_sample(const rig_t *rig, int index, sample_t *out) {
  char name[32];
  *out = (sample_t){.input = {.struct_size = sizeof(out->input)},
                    .output = {.struct_size = sizeof(out->output)}};
  for (int i = 0; i < 2; i++) {
    (void)snprintf(name, sizeof(name), "%s.%d", i ? "output" : "input", index);
    dt_status_t status =
        dt_safetensors_find(rig->network.weights, name, i ? &out->output : &out->input);
    dt_status_free(status);
    if (status)
      return false;
  }
  const int64_t *sizes = out->input.sizes;
  if (rig->network.rank == 4)
    (void)snprintf(out->sizes, sizeof(out->sizes), "%lldx%lld", (long long)sizes[2],
                   (long long)sizes[3]);
  else
    (void)snprintf(out->sizes, sizeof(out->sizes), "%lld", (long long)sizes[1]);
  return true;
}

static bool usable(const rig_t *rig, const sample_t *s) {
  bool good = s->input.dtype == DT_F16 && s->input.rank == rig->network.rank &&
              s->output.dtype == DT_F32 && s->output.rank >= 2 && s->output.aligned &&
              s->input.sizes[0] > 0 && s->output.sizes[0] == s->input.sizes[0] && s->input.bytes &&
              s->output.bytes;
  if (!good)
    (void)fprintf(stderr,
                  "bench: %s: an input of the file or its answer is not what it should be\n",
                  rig->network.name);
  return good;
}

// The sample's rows over and over.
static bool upload(const rig_t *rig, const sample_t *s, int64_t batch, dt_tensor_t **out) {
  int64_t sizes[DT_MAX_RANK];
  memcpy(sizes, s->input.sizes, sizeof(sizes));
  size_t row = s->input.bytes / (size_t)sizes[0];
  dt_tensor_t *host = NULL;
  int64_t rows = sizes[0];
  sizes[0] = batch;
  bool good =
      bench_ok(dt_tensor_create_empty(DT_F16, s->input.rank, sizes, &host), "an input on the host");
  for (int64_t i = 0; good && i < batch; i++)
    memcpy((char *)dt_tensor_data(host) + (size_t)i * row,
           (const char *)s->input.data + (size_t)(i % rows) * row, row);
  good = good &&
         bench_ok(dt_tensor_create_on(rig->session, DT_F16, s->input.rank, sizes, out), "input") &&
         bench_ok(dt_tensor_copy(rig->session, host, *out), "upload");
  dt_tensor_release(host);
  return good;
}

// The least cosine of a row with the right one, and the largest error, of the right row's largest
// element. A row lies along the last dim.
typedef struct likeness_t {
  double cosine, error;
} likeness_t;

static void compare_row(const float *is, const float *right, int64_t n, likeness_t *likeness) {
  double dot = 0, a = 0, b = 0, error = 0, scale = 0;
  for (int64_t i = 0; i < n; i++) {
    dot += (double)is[i] * right[i];
    a += (double)is[i] * is[i];
    b += (double)right[i] * right[i];
    error = fmax(error, fabs((double)is[i] - right[i]));
    scale = fmax(scale, fabs((double)right[i]));
  }
  double cosine = dot / sqrt(a * b);
  if (!isnan(likeness->cosine) && !(cosine >= likeness->cosine)) // what is not a number stays so
    likeness->cosine = cosine;
  likeness->error = fmax(likeness->error, error / scale);
}

static bool compare(const rig_t *rig, const sample_t *s, const dt_tensor_t *result,
                    likeness_t *out) {
  int64_t n = s->output.sizes[s->output.rank - 1], count = dt_tensor_count(result);
  int64_t rows = (int64_t)(s->output.bytes / sizeof(float)) / n;
  uint16_t *halves = calloc((size_t)count, sizeof(halves[0]));
  float *row = calloc((size_t)n, sizeof(row[0]));
  bool good = halves && row &&
              bench_ok(dt_tensor_read(rig->session, result, halves, dt_tensor_bytes(result)),
                       "reading the result");
  *out = (likeness_t){.cosine = 1};
  for (int64_t i = 0; good && i < count / n; i++) {
    convert_floats(halves + i * n, DT_F16, row, DT_F32, n);
    compare_row(row, (const float *)s->output.data + i % rows * n, n, out);
  }
  free(halves);
  free(row);
  return good;
}

static bool check(const rig_t *rig, const sample_t *s, const dt_tensor_t *result,
                  const char *name) {
  likeness_t likeness;
  if (!compare(rig, s, result, &likeness))
    return false;
  bench_value(rig->report, name, "least cosine", "ratio", likeness.cosine);
  bench_value(rig->report, name, "largest error of row's largest", "ratio", likeness.error);
  bool good = likeness.cosine > 0.999 && likeness.error < 0.05;
  if (!good)
    (void)fprintf(stderr,
                  "bench: %s: wrong: a cosine of %.5f, an error of %.3g of the row's "
                  "largest\n",
                  name, likeness.cosine, likeness.error);
  return good;
}

// ---- Measuring ----------------------------------------------------------------------------------

// Calls at the sample's sizes; timed, where `timed` says so.
static bool run_batch(const rig_t *rig, const sample_t *s, int64_t batch, bool timed) {
  char name[96];
  (void)snprintf(name, sizeof(name), "%s %lldx%s", rig->network.name, (long long)batch, s->sizes);
  int64_t sizes[DT_MAX_RANK];
  memcpy(sizes, s->output.sizes, sizeof(sizes));
  sizes[0] = batch;
  dt_tensor_t *input = NULL, *result = NULL;
  bool good =
      upload(rig, s, batch, &input) &&
      bench_ok(dt_tensor_create_on(rig->session, DT_F16, s->output.rank, sizes, &result), "result");
  if (good && timed) {
    const queued_call_t call = {rig->session, rig->function, &input, &result, 1, 1};
    double us = queued_us(&call, rig->o->rounds);
    good = us > 0;
    if (good)
      bench_value(rig->report, name, "time", "us", us);
  } else if (good) {
    good = bench_ok(dt_call(rig->session, rig->function, &input, 1, &result, 1, NULL), name);
  }
  good = good && check(rig, s, result, name);
  dt_tensor_release(input);
  dt_tensor_release(result);
  return good;
}

static bool run_samples(const rig_t *rig) {
  sample_t s;
  int index = 0;
  for (; find_sample(rig, index, &s); index++) {
    if (!usable(rig, &s))
      return false;
    if (!index && !run_batch(rig, &s, s.input.sizes[0], false))
      return false;
    for (size_t i = 0; index && i < rig->o->n_batches; i++)
      if (!run_batch(rig, &s, rig->o->batches[i], true))
        return false;
  }
  if (index < 2)
    (void)fprintf(stderr, "bench: %s: the file has no inputs\n", rig->network.name);
  return index >= 2;
}

// Figures count only where compiled code answered all calls, as graphs where these were asked for.
static bool check_counters(const rig_t *rig) {
  const char *name = rig->network.name;
  dt_function_counters_t c = {.struct_size = sizeof(c)};
  if (!bench_ok(dt_function_counters(rig->function, &c), "reading the counters"))
    return false;
  bench_value(rig->report, name, "kernels of a call", "count", (double)c.kernels);
  bench_value(rig->report, name, "variants", "count", c.variants);
  bench_value(rig->report, name, "evaluator calls", "count", (double)c.evaluator_calls);
  bool graphs = rig->o->device == DT_CUDA && rig->o->mode == DT_CALL_REDUCE_OVERHEAD;
  if (graphs)
    bench_value(rig->report, name, "graph skips", "count", (double)c.graph_skips);
  if (c.evaluator_calls)
    (void)fprintf(stderr, "bench: %s: the reference evaluator answered calls\n", name);
  if (graphs && (c.graph_skips || !c.graph_calls))
    (void)fprintf(stderr, "bench: %s: calls were not graphs: %s\n", name,
                  c.graph_skip ? c.graph_skip : "none was");
  return !c.evaluator_calls && !(graphs && (c.graph_skips || !c.graph_calls));
}

static bool open_weights(rig_t *rig) {
  char path[4096];
  const dt_safetensors_options_t options = {.struct_size = sizeof(options),
                                            .access = DT_SAFETENSORS_MAP};
  if (snprintf(path, sizeof(path), "%s/%s.safetensors", rig->o->weights, rig->network.name) >=
      (int)sizeof(path)) {
    (void)fprintf(stderr, "bench: the folder's name is too long\n");
    return false;
  }
  return bench_ok(dt_safetensors_open(path, &options, &rig->network.weights),
                  "opening weights (networks_gpu_peer.py --weights FOLDER makes them)");
}

static bool run_network(rig_t *rig, create_t create) {
  const dt_prepare_options_t prepare = {.struct_size = sizeof(prepare), .device = rig->o->device};
  bool good = open_weights(rig) &&
              bench_ok(create(rig->runtime, &rig->network, rig->o->mode, &rig->function),
                       "making the function");
  double begin = bench_now_ns();
  good = good && bench_ok(dt_function_prepare(rig->function, &prepare), "compiling");
  if (good)
    bench_value(rig->report, rig->network.name, "compile", "ms", (bench_now_ns() - begin) * 1e-6);
  good = good && run_samples(rig) && check_counters(rig);
  dt_function_release(rig->function);
  dt_safetensors_close(rig->network.weights);
  return good;
}

static bool run(const options_t *o) {
  bench_report_t report;
  bench_begin(&report, "networks_gpu", o->json);
  dt_runtime_t *runtime = NULL;
  const dt_session_options_t on = {.struct_size = sizeof(on), .device = o->device};
  bool good = bench_ok(dt_runtime_create(NULL, &runtime), "runtime");
  for (size_t i = 0; runtime && i < NETWORKS; i++) {
    if (!bench_listed(o->networks, networks[i].full.name))
      continue;
    // A session each: no network is called among the other's memory. What fails leaves out its own.
    rig_t rig = {.o = o, .report = &report, .runtime = runtime};
    rig.network = o->tiny ? networks[i].tiny : networks[i].full;
    good = bench_ok(dt_session_create(runtime, &on, &rig.session), "session") &&
           run_network(&rig, networks[i].create) && good;
    dt_session_destroy(rig.session);
  }
  dt_runtime_release(runtime);
  return good;
}

// ---- Options ------------------------------------------------------------------------------------

static bool parse_batches(const char *text, options_t *o) {
  o->n_batches = 0;
  for (const char *at = text;; at++) {
    char *end = NULL;
    if (o->n_batches == LIST || *at < '0' || *at > '9')
      return false;
    long batch = strtol(at, &end, 10);
    if (batch < 1 || batch > MOST_BATCH || (*end && *end != ','))
      return false;
    o->batches[o->n_batches++] = batch;
    if (!*end)
      return true;
    at = end;
  }
}

static bool known_networks(const char *list) {
  size_t words = 1, known = 0;
  for (const char *at = list; *at; at++)
    words += *at == ',';
  for (size_t i = 0; i < NETWORKS; i++)
    known += bench_listed(list, networks[i].full.name);
  return known == words;
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

static bool parse(int c, options_t *o) {
  switch (c) {
  case 'w':
    o->weights = optarg;
    return true;
  case 'n':
    o->networks = optarg;
    return known_networks(optarg);
  case 'b':
    return parse_batches(optarg, o);
  case 'm':
    return parse_mode(optarg, &o->mode);
  case 'd':
    return parse_device(optarg, &o->device);
  case 'r':
    return bench_parse_number(optarg, 1, QUEUED_ROUNDS, &o->rounds);
  case 't':
    o->tiny = true;
    return true;
  case 'j':
    o->json = true;
    return true;
  default:
    return false;
  }
}

int main(int argc, char **argv) {
  options_t o = {
      .networks = "resnet50,bert", .device = DT_CUDA, .mode = DT_CALL_REDUCE_OVERHEAD, .rounds = 9};
  (void)parse_batches("1,64,8", &o);
  static const struct option longs[] = {
      {"weights", required_argument, NULL, 'w'}, {"networks", required_argument, NULL, 'n'},
      {"batches", required_argument, NULL, 'b'}, {"mode", required_argument, NULL, 'm'},
      {"device", required_argument, NULL, 'd'},  {"rounds", required_argument, NULL, 'r'},
      {"tiny", no_argument, NULL, 't'},          {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
  bool good = true;
  for (int c; good && (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
    if (c == 'h')
      return printf("%s", usage) < 0;
    good = parse(c, &o);
  }
  if (!good || optind != argc || !o.weights) {
    if (good && optind == argc)
      (void)fprintf(stderr, "bench_gpu_networks: --weights is missing\n");
    (void)fprintf(stderr, "%s", usage);
    return BENCH_EXIT_USAGE;
  }
  return run(&o) ? 0 : BENCH_EXIT_FAILED;
}

// SPDX-License-Identifier: Apache-2.0
// From nothing to the first answer of an ONNX model, or of a package of it, in this process: a
// runtime, the model, its function, one call; then what the process holds. Run once a process:
// tools/bench/bench_start.py does, beside onnxruntime.
#include "ductile/onnx.h"
#include "ductile/package.h"

#include "bench/harness.h"

#include <stdlib.h>
#include <string.h>

#define ME "bench_start"
enum { MOST_INPUTS = 64, MOST_DIMS = 64, LATER_CALLS = 5 };

typedef struct options_t {
  const char *path, *output;
  const char *dims[MOST_DIMS]; // NAME=SIZE
  int n_dims;
  uint32_t threads;
  bool json, hold;
} options_t;

typedef struct rig_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_onnx_t *model;
  dt_package_t *package;
  dt_function_t *function;
  dt_tensor_t *inputs[MOST_INPUTS], *outputs[MOST_INPUTS];
  uint32_t n_inputs, n_outputs;
} rig_t;

// A line of /proc/self/…, in bytes; 0 where there is none.
static double read_field(const char *path, const char *field) {
  FILE *file = fopen(path, "r");
  char line[256];
  unsigned long long kib = 0;
  size_t len = strlen(field);
  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, field, len) == 0 && line[len] == ':')
      kib = strtoull(line + len + 1, NULL, 10);
  if (file)
    (void)fclose(file);
  return (double)kib * 1024;
}

static double rollup(const char *field) { return read_field("/proc/self/smaps_rollup", field); }
static double about_self(const char *field) { return read_field("/proc/self/status", field); }

// The most that is resident is counted from here on.
static void forget_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file)
    return;
  (void)fputs("5", file);
  (void)fclose(file);
}

// The size of a dim that varies: what --dim says, or 1.
static int64_t size_of(const options_t *options, const char *name) {
  size_t len = name ? strlen(name) : 0;
  for (int k = 0; name && k < options->n_dims; k++)
    if (strncmp(options->dims[k], name, len) == 0 && options->dims[k][len] == '=')
      return strtoll(options->dims[k] + len + 1, NULL, 10);
  return 1;
}

// Small numbers of either sign; indices and lengths are 0 and 1. bench_start.py makes the same.
static void fill(dt_tensor_t *tensor) {
  int64_t n = dt_tensor_count(tensor);
  void *data = dt_tensor_data(tensor);
  for (int64_t k = 0; k < n; k++) {
    double value = (double)(k * 37 % 101 - 50) / 64;
    switch (dt_tensor_dtype(tensor)) {
    case DT_F32:
      ((float *)data)[k] = (float)value;
      break;
    case DT_F64:
      ((double *)data)[k] = value;
      break;
    case DT_I64:
      ((int64_t *)data)[k] = k % 2;
      break;
    case DT_I32:
      ((int32_t *)data)[k] = (int32_t)(k % 2);
      break;
    default: // bytes of zeros, as they are made
      return;
    }
  }
}

static dt_status_t make_input(const options_t *options, rig_t *rig, uint32_t index) {
  const dt_input_decl_t *input = dt_function_input(rig->function, index);
  int64_t sizes[DT_MAX_RANK];
  for (uint32_t d = 0; d < input->rank; d++) {
    const dt_dim_decl_t *dim = dt_function_input_dim(rig->function, index, d);
    sizes[d] = dim->is_static ? dim->value : size_of(options, dim->name);
  }
  dt_status_t status =
      dt_tensor_create_empty(input->dtype, input->rank, sizes, &rig->inputs[index]);
  if (!status)
    fill(rig->inputs[index]);
  return status;
}

static dt_status_t call(rig_t *rig) {
  for (uint32_t k = 0; k < rig->n_outputs; k++) {
    dt_tensor_release(rig->outputs[k]);
    rig->outputs[k] = NULL;
  }
  return dt_call(rig->session, rig->function, rig->inputs, rig->n_inputs, rig->outputs,
                 rig->n_outputs, NULL);
}

static dt_status_t open_model(const options_t *options, rig_t *rig) {
  dt_onnx_options_t access = {.struct_size = sizeof(access), .access = DT_ONNX_MAP};
  dt_status_t status = dt_onnx_open(options->path, &access, &rig->model);
  if (!status)
    status = dt_onnx_function_create(rig->runtime, rig->model, NULL, &rig->function);
  dt_onnx_close(rig->model);
  rig->model = NULL;
  return status;
}

static dt_status_t open_package(const options_t *options, rig_t *rig) {
  dt_status_t status = dt_package_open(rig->runtime, options->path, NULL, &rig->package);
  if (!status)
    status = dt_package_function(rig->package, NULL, NULL, &rig->function);
  dt_package_release(rig->package);
  rig->package = NULL;
  return status;
}

static dt_status_t start(const options_t *options, rig_t *rig) {
  dt_runtime_options_t about = {.struct_size = sizeof(about), .threads = options->threads};
  const char *ending = strrchr(options->path, '.');
  dt_status_t status = dt_runtime_create(&about, &rig->runtime);
  if (!status)
    status = dt_session_create(rig->runtime, NULL, &rig->session);
  if (!status && strcmp(options->path, "none") == 0)
    return NULL;
  if (!status)
    status = (ending && strcmp(ending, ".dtp") == 0 ? open_package : open_model)(options, rig);
  if (status)
    return status;
  rig->n_inputs = dt_function_n_inputs(rig->function);
  rig->n_outputs = dt_function_n_outputs(rig->function);
  if (rig->n_inputs > MOST_INPUTS || rig->n_outputs > MOST_INPUTS)
    return dt_status_make(DT_E_LIMIT, "more than 64 inputs or outputs");
  for (uint32_t k = 0; k < rig->n_inputs && !status; k++)
    status = make_input(options, rig, k);
  return status ? status : call(rig);
}

// The first result's bytes.
static bool save(const char *path, dt_tensor_t *tensor) {
  FILE *file = fopen(path, "wb");
  size_t bytes = (size_t)dt_tensor_count(tensor) * (dt_tensor_dtype(tensor) == DT_F64 ? 8 : 4);
  bool good = file && (dt_tensor_dtype(tensor) != DT_F32 ||
                       fwrite(dt_tensor_data(tensor), 1, bytes, file) == bytes);
  if (file)
    good = fclose(file) == 0 && good;
  if (!good)
    perror(path);
  return good;
}

static void finish(rig_t *rig) {
  for (uint32_t k = 0; k < rig->n_inputs && k < MOST_INPUTS; k++)
    dt_tensor_release(rig->inputs[k]);
  for (uint32_t k = 0; k < rig->n_outputs && k < MOST_INPUTS; k++)
    dt_tensor_release(rig->outputs[k]);
  dt_function_release(rig->function);
  dt_onnx_close(rig->model);
  dt_session_destroy(rig->session);
  dt_runtime_release(rig->runtime);
}

static bool measure(const options_t *options, rig_t *rig, bench_report_t *report) {
  const char *slash = strrchr(options->path, '/'), *name = slash ? slash + 1 : options->path;
  forget_peak();
  double before = rollup("Pss"), resident = about_self("VmRSS"), begin = bench_now_ns();
  double later[LATER_CALLS];
  if (!bench_ok(start(options, rig), options->path))
    return false;
  double first = bench_now_ns() - begin, held = rollup("Pss") - before;
  double peak = about_self("VmHWM") - resident;
  bench_value(report, name, "first answer", "ms", first / 1e6);
  bench_value(report, name, "memory added", "MB", held / 1e6);
  bench_value(report, name, "peak added", "MB", peak / 1e6);
  bench_value(report, name, "private", "MB",
              (rollup("Private_Dirty") + rollup("Private_Clean")) / 1e6);
  for (int k = 0; k < LATER_CALLS && rig->function; k++) {
    begin = bench_now_ns();
    if (!bench_ok(call(rig), options->path))
      return false;
    later[k] = bench_now_ns() - begin;
  }
  if (rig->function)
    bench_value(report, name, "later call", "ms", bench_median(later, LATER_CALLS) / 1e6);
  return !options->output || rig->n_outputs == 0 || save(options->output, rig->outputs[0]);
}

static int usage(FILE *to) {
  (void)fputs(
      "usage: " ME " [--threads N] [--dim NAME=SIZE]… [--output FILE] [--json] [--hold]\n"
      "                   MODEL\n"
      "\n"
      "Makes a runtime, opens the ONNX model, or a package (.dtp), and calls it once: "
      "how long that\n"
      "took, what memory it added (proportional set size; at most, what is resident), and "
      "how long later\n"
      "calls take. Dims that vary have "
      "size 1\n"
      "without --dim. --output writes the first result, if it is f32. DUCTILE_CACHE_DIR "
      "says whether\n"
      "kept code is used; not set: it is not. MODEL \"none\": a runtime alone. --hold keeps "
      "all until\n"
      "standard input ends.\n"
      "Exit codes: 0 measured; 1 a model was refused; 2 wrong usage.\n",
      to);
  return to == stdout ? 0 : BENCH_EXIT_USAGE;
}

// The exit code; -1: go on.
static int read_options(int argc, char **argv, options_t *options) {
  int k = 1;
  for (; k < argc && argv[k][0] == '-'; k++) {
    bool more = k + 1 < argc;
    if (strcmp(argv[k], "--json") == 0)
      options->json = true;
    else if (strcmp(argv[k], "--hold") == 0)
      options->hold = true;
    else if (strcmp(argv[k], "--help") == 0)
      return usage(stdout);
    else if (strcmp(argv[k], "--threads") == 0 && more)
      options->threads = (uint32_t)strtoul(argv[++k], NULL, 10);
    else if (strcmp(argv[k], "--output") == 0 && more)
      options->output = argv[++k];
    else if (strcmp(argv[k], "--dim") == 0 && more && options->n_dims < MOST_DIMS)
      options->dims[options->n_dims++] = argv[++k];
    else
      return usage(stderr);
  }
  options->path = k < argc ? argv[k] : NULL;
  return k + 1 == argc ? -1 : usage(stderr);
}

int main(int argc, char **argv) {
  options_t options = {0};
  int code = read_options(argc, argv, &options);
  if (code >= 0)
    return code;
  bench_report_t report;
  rig_t rig = {0};
  bench_begin(&report, "start", options.json);
  code = measure(&options, &rig, &report) ? 0 : BENCH_EXIT_FAILED;
  (void)fflush(stdout);
  while (options.hold && fgetc(stdin) != EOF)
    ;
  finish(&rig);
  return code;
}

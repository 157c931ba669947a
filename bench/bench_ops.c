// SPDX-License-Identifier: Apache-2.0
// What ops of users cost beside the same ops built in: running sums of a matrix along one axis and
// the other, three of them. In the one function all are the library's; in the other two are called
// as ops of C, and a lowering puts a third in the place of the library's. Both compute the same in
// the same order. Of one element there is nothing to compute: the difference is what a call of ops
// costs. The model has eight products with softmax besides, all so small that a call is mostly what
// the library does around kernels.
#include "bench/harness.h"

#include "ductile/accessor.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 8, BLOCKS = 8, WARM_UP = 20000, BATCH = 200 };
static const double limit = 1.05; // of ours against theirs

static const char usage[] =
    "usage: bench_ops [--json] [--calls N] [--threads N]\n"
    "\n"
    "Measures calls of three running sums, as ops of C and built in, by turns.\n"
    "  --calls N    calls of each (default: 400000)\n"
    "  --threads N  threads that run kernels (default: 1)\n"
    "  --json       JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef struct arguments_t {
  long calls, threads;
  bool json, help;
} arguments_t;

// ---- The op -------------------------------------------------------------------------------------
static dt_status_t infer(dt_op_call_t *call, void *closure) {
  (void)closure;
  dt_op_set_result_like(call, 0, dt_op_call_input(call, 0), DT_F32);
  return NULL;
}

// Row after row, each as it lies: the sums of rows that follow do not wait for it.
static void along_rows(const dt_op_tensor_t *x, const dt_op_tensor_t *y) {
  int64_t rows = x->sizes[0], n = x->sizes[1];
  for (int64_t r = 0; r < rows; r++) {
    const float *from = (const float *)x->data + r * x->strides[0];
    float *to = (float *)y->data + r * y->strides[0];
    float sum = 0;
    for (int64_t k = 0; k < n; k++)
      to[k] = sum += from[k * x->strides[1]];
  }
}

// A row is the one above and what is there: side by side.
static void down_columns(const dt_op_tensor_t *x, const dt_op_tensor_t *y) {
  int64_t rows = x->sizes[0], n = x->sizes[1];
  float sum[WIDTH] = {0};
  for (int64_t r = 0; r < rows; r++) {
    const float *from = (const float *)x->data + r * x->strides[0];
    float *to = (float *)y->data + r * y->strides[0];
    if (n == WIDTH && x->strides[1] == 1)
      for (int64_t k = 0; k < WIDTH; k++)
        to[k] = sum[k] += from[k];
    else
      for (int64_t k = 0; k < n; k++)
        to[k] = sum[k] += from[k * x->strides[1]];
  }
}

static dt_status_t kernel(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0], *y = args->results[0];
  (void)begin, (void)end;
  if (x->sizes[1] > WIDTH)
    return dt_status_make(DT_E_LIMIT, "too many columns");
  if (args->attrs[0].i)
    along_rows(x, y);
  else
    down_columns(x, y);
  return NULL;
}

static dt_value_t sums(dt_trace_t *t, dt_value_t x, int axis) {
  const dt_op_attr_t attr = {.name = "axis", .kind = DT_OP_ATTR_INT, .i = axis};
  dt_value_t out;
  dt_op_call(t, "bench.cumsum", 1, &x, 1, &attr, 1, &out);
  return out;
}

static dt_status_t lower(dt_rewriter_t *r, dt_value_t node, dt_value_t *out, void *closure) {
  dt_node_info_t info = {.struct_size = sizeof info};
  dt_status_t status = dt_rewriter_node(r, node, &info);
  (void)closure;
  if (!status)
    *out = sums(dt_rewriter_trace(r), dt_rewriter_input(r, node, 0), info.axes[0]);
  return status;
}

// ---- The functions ------------------------------------------------------------------------------
typedef struct side_t {
  const char *name;
  bool ops;       // two of three are ops, and the third is lowered
  dt_tensor_t *w; // [WIDTH, WIDTH] of the model; NULL: sums alone
  const char *passes;
  dt_function_t *function;
  dt_tensor_t *output;
  double *times; // means of batches
} side_t;

// Sums alone; or BLOCKS of a product and a softmax, with a sum behind every second one of the
// first.
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const side_t *side = closure;
  dt_value_t x = in[0], w = side->w ? dt_constant(t, "w", side->w) : x;
  for (int k = 0, n = 0; k < BLOCKS; k++) {
    if (side->w)
      x = dt_softmax(t, dt_matmul(t, x, w), 1);
    if (n == 3 || (side->w && k % 2))
      continue;
    x = side->ops && n < 2 ? sums(t, x, n != 1) : dt_cumsum(t, x, n != 1, DT_CUMSUM_INCLUSIVE);
    n++;
  }
  out[0] = x;
  return NULL;
}

typedef struct rig_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_tensor_t *input;
  int64_t sizes[2]; // of the matrix
  dt_tensor_t *w;   // of the model; NULL: there is none
  side_t sides[2];
} rig_t;

static bool open_side(rig_t *rig, side_t *side, size_t batches) {
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 2};
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = side->name,
                                         .n_inputs = 1,
                                         .n_outputs = 1,
                                         .inputs = &input,
                                         .passes = side->passes};
  side->w = rig->w;
  side->times = calloc(batches, sizeof side->times[0]);
  return side->times &&
         bench_ok(dt_function_create(rig->runtime, program, side, &options, &side->function),
                  "making a function") &&
         bench_ok(dt_tensor_create_empty(DT_F32, 2, rig->sizes, &side->output), "making a tensor");
}

static bool open_rig(const arguments_t *arguments, rig_t *rig, size_t batches) {
  const dt_runtime_options_t options = {.struct_size = sizeof options,
                                        .threads = (uint32_t)arguments->threads};
  const dt_op_options_t op = {
      .struct_size = sizeof op, .name = "bench.cumsum", .infer = infer, .kernel = kernel};
  const dt_pass_options_t pass = {.struct_size = sizeof pass, .name = "sums"};
  if (!bench_ok(dt_runtime_create(&options, &rig->runtime), "making the runtime") ||
      !bench_ok(dt_op_register(rig->runtime, &op), "registering the op") ||
      !bench_ok(dt_lowering_override(rig->runtime, "cumsum", lower, NULL, &pass), "lowering") ||
      !bench_ok(dt_session_create(rig->runtime, NULL, &rig->session), "making a session") ||
      !bench_ok(dt_tensor_create_empty(DT_F32, 2, rig->sizes, &rig->input), "making a tensor") ||
      (rig->sizes[1] == WIDTH &&
       !bench_ok(dt_tensor_create_empty(DT_F32, 2, (const int64_t[]){WIDTH, WIDTH}, &rig->w),
                 "making a tensor")))
    return false;
  for (int64_t k = 0; k < dt_tensor_count(rig->input); k++)
    ((float *)dt_tensor_data(rig->input))[k] = (float)(k % 7) - 3;
  for (int64_t k = 0; rig->w && k < WIDTH * WIDTH; k++)
    ((float *)dt_tensor_data(rig->w))[k] = (float)(k % 11 - 5) / 64;
  return open_side(rig, &rig->sides[0], batches) && open_side(rig, &rig->sides[1], batches);
}

static void close_rig(rig_t *rig) {
  for (int k = 0; k < 2; k++) {
    dt_tensor_release(rig->sides[k].output);
    dt_function_release(rig->sides[k].function);
    free(rig->sides[k].times);
  }
  dt_tensor_release(rig->input);
  dt_tensor_release(rig->w);
  dt_session_destroy(rig->session);
  dt_runtime_release(rig->runtime);
}

// ---- Calls --------------------------------------------------------------------------------------
static bool call(rig_t *rig, side_t *side, long n, double *out_ns) {
  double begin = bench_now_ns();
  for (long k = 0; k < n; k++)
    if (!bench_ok(dt_call(rig->session, side->function, &rig->input, 1, &side->output, 1, NULL),
                  "calling"))
      return false;
  *out_ns = (bench_now_ns() - begin) / (double)n;
  return true;
}

static bool measure(rig_t *rig, size_t batches) {
  double ns = 0;
  bool good = true;
  for (size_t k = 0; good && k < 2; k++)
    good = call(rig, &rig->sides[k], WARM_UP, &ns);
  size_t bytes = (size_t)dt_tensor_count(rig->input) * sizeof(float);
  if (good && memcmp(dt_tensor_data(rig->sides[0].output), dt_tensor_data(rig->sides[1].output),
                     bytes) != 0) {
    fprintf(stderr, "bench: the ops compute something else\n");
    return false;
  }
  for (size_t b = 0; good && b < batches; b++)
    for (size_t k = 0; good && k < 2; k++) {
      side_t *side = &rig->sides[(k + b) % 2];
      good = call(rig, side, BATCH, &side->times[b]);
    }
  return good;
}

// Of one element, or the model.
static bool run(const arguments_t *arguments, bench_report_t *report, bool model) {
  size_t batches = (size_t)(arguments->calls / BATCH);
  rig_t rig = {.sizes = {1, model ? WIDTH : 1},
               .sides = {{.name = "ops", .ops = true}, {.name = "built in", .passes = "-sums"}}};
  bool good = open_rig(arguments, &rig, batches) && measure(&rig, batches);
  if (good) {
    const char *name = model ? "model" : "one element";
    double ours = bench_median(rig.sides[0].times, batches);
    double theirs = bench_median(rig.sides[1].times, batches);
    bench_value(report, name, "call of ops", "ns", ours);
    bench_value(report, name, "call built in", "ns", theirs);
    bench_value(report, name, "an op more", "ns", (ours - theirs) / 3);
    if (model)
      bench_limited(report, name, "ops to built in", "ratio", ours / theirs, limit);
  }
  close_rig(&rig);
  return good;
}

// ---- Options ------------------------------------------------------------------------------------
static bool parse(int argc, char **argv, arguments_t *out) {
  static const struct option options[] = {{"calls", required_argument, NULL, 'c'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool good = true;
  for (int c; good && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (c == 'c')
      good = bench_parse_number(optarg, BATCH, 1000000000, &out->calls);
    else if (c == 't')
      good = bench_parse_number(optarg, 1, 1024, &out->threads);
    else if (c == 'j')
      out->json = true;
    else if (c == 'h')
      out->help = true;
    else
      good = false;
  }
  return good && optind == argc;
}

int main(int argc, char **argv) {
  arguments_t arguments = {.calls = 400000, .threads = 1};
  bench_report_t report;
  if (!parse(argc, argv, &arguments) || arguments.help) {
    fputs(usage, arguments.help ? stdout : stderr);
    return arguments.help ? 0 : BENCH_EXIT_USAGE;
  }
  bench_begin(&report, "ops", arguments.json);
  bool good = run(&arguments, &report, false) && run(&arguments, &report, true);
  return good ? 0 : BENCH_EXIT_FAILED;
}

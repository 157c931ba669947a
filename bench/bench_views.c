// SPDX-License-Identifier: Apache-2.0
// What gaps between rows cost: calls with inputs whose rows stand apart, as slices of a larger
// buffer do, beside calls with the same inputs contiguous, by turns and by one thread's processor
// time. The function is prepared for both, so no call compiles. Rows are apart by whole cache lines
// (a buffer for wider inputs), or by three elements, so that hardly a row begins with a line.
#include "bench/harness.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 41, MOST_RANK = 4, MOST_INPUTS = 4 };
static const double limit = 1.05; // of padded against contiguous

static const char usage[] =
    "usage: bench_views [--json] [--only CASES] [--ms N]\n"
    "\n"
    "Measures calls with rows that stand apart beside contiguous ones.\n"
    "  --only CASES  of pointwise,softmax,norm,rows,columns,matmul,weights,attention,conv\n"
    "  --ms N        of a turn (default: 8)\n"
    "  --json        JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

// ---- Programs -------------------------------------------------------------------------------------
#define PROGRAM(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure)

PROGRAM(pointwise) {
  (void)closure;
  out[0] = dt_add(t, dt_tanh(t, in[0]), in[1]);
  return NULL;
}
PROGRAM(softmax) {
  (void)closure;
  out[0] = dt_softmax(t, in[0], -1);
  return NULL;
}
PROGRAM(norm) {
  (void)closure;
  out[0] = dt_layer_norm(t, in[0], in[1], in[2], 1e-5);
  return NULL;
}
PROGRAM(rows) {
  (void)closure;
  out[0] = dt_sum(t, in[0], 1, (const int32_t[]){1}, false);
  return NULL;
}
PROGRAM(columns) {
  (void)closure;
  out[0] = dt_sum(t, in[0], 1, (const int32_t[]){0}, false);
  return NULL;
}
PROGRAM(matmul) {
  (void)closure;
  out[0] = dt_matmul(t, in[0], in[1]);
  return NULL;
}
PROGRAM(weights) {
  out[0] = dt_matmul(t, in[0], dt_constant(t, "w", closure));
  return NULL;
}
PROGRAM(attention) {
  (void)closure;
  dt_value_t scores = dt_matmul(t, in[0], dt_transpose(t, in[1], 1, 2));
  out[0] = dt_matmul(t, dt_softmax(t, scores, -1), in[2]);
  return NULL;
}
PROGRAM(conv) {
  dt_sym_t one = dt_sym_const(t, 1);
  const dt_window_t around = {.low = one, .high = one}, windows[2] = {around, around};
  out[0] = dt_conv(t, in[0], dt_constant(t, "w", closure), windows, 1);
  return NULL;
}

// ---- Cases ----------------------------------------------------------------------------------------
typedef struct case_t {
  const char *name;
  dt_program_fn_t program;
  uint32_t n_inputs;
  struct {
    uint32_t rank;
    int64_t sizes[MOST_RANK];
  } inputs[MOST_INPUTS], constant; // rank 0: there is none
} case_t;

static const case_t cases[] = {
    {"pointwise", pointwise, 2, {{2, {512, 200}}, {2, {512, 200}}}, {0}},
    {"softmax", softmax, 1, {{2, {256, 384}}}, {0}},
    {"norm", norm, 3, {{2, {256, 384}}, {1, {384}}, {1, {384}}}, {0}},
    {"rows", rows, 1, {{2, {512, 384}}}, {0}},
    {"columns", columns, 1, {{2, {512, 384}}}, {0}},
    {"matmul", matmul, 2, {{2, {192, 256}}, {2, {256, 192}}}, {0}},
    {"weights", weights, 1, {{2, {192, 256}}}, {2, {256, 256}}},
    {"attention", attention, 3, {{3, {4, 128, 64}}, {3, {4, 128, 64}}, {3, {4, 128, 64}}}, {0}},
    {"conv", conv, 1, {{4, {1, 32, 40, 40}}}, {4, {32, 32, 3, 3}}},
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

// ---- Tensors --------------------------------------------------------------------------------------
// Rows of whole lines from one to the next are `gap` elements apart. The memory stays.
static dt_tensor_t *tensor_of(uint32_t rank, const int64_t *sizes, int64_t gap) {
  int64_t strides[MOST_RANK] = {0}, stride = 1;
  for (uint32_t d = rank; d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
    if (d + 1 == rank && rank > 1)
      stride += gap;
  }
  float *data = aligned_alloc(64, ((size_t)stride * sizeof(*data) + 127) / 64 * 64);
  uint64_t seed = 7;
  if (!data)
    exit(BENCH_EXIT_FAILED);
  for (int64_t k = 0; k < stride; k++)
    data[k] = (float)bench_random(&seed, -1000, 1000) / 1000;
  const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                 .dtype = DT_F32,
                                 .rank = rank,
                                 .sizes = sizes,
                                 .strides = strides,
                                 .data = data};
  dt_tensor_t *tensor = NULL;
  if (!bench_ok(dt_tensor_create(&desc, &tensor), "dt_tensor_create"))
    exit(BENCH_EXIT_FAILED);
  return tensor;
}

// ---- Measuring ------------------------------------------------------------------------------------
typedef struct life_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
  const case_t *of;
  dt_tensor_t *out;
} life_t;

static double thread_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void call(life_t *life, dt_tensor_t *const *inputs) {
  if (!bench_ok(
          dt_call(life->session, life->function, inputs, life->of->n_inputs, &life->out, 1, NULL),
          "dt_call"))
    exit(BENCH_EXIT_FAILED);
}

static double turn(life_t *life, dt_tensor_t *const *inputs, int calls) {
  double from = thread_ns();
  for (int k = 0; k < calls; k++)
    call(life, inputs);
  return (thread_ns() - from) / calls;
}

static bool open_life(life_t *life, dt_tensor_t *constant) {
  dt_input_decl_t inputs[MOST_INPUTS] = {0};
  const dt_runtime_options_t one = {.struct_size = sizeof(one), .threads = 1};
  for (uint32_t k = 0; k < life->of->n_inputs; k++)
    inputs[k] = (dt_input_decl_t){.name = "x", .dtype = DT_F32, .rank = life->of->inputs[k].rank};
  const dt_function_options_t options = {.struct_size = sizeof(options),
                                         .name = life->of->name,
                                         .n_inputs = life->of->n_inputs,
                                         .inputs = inputs,
                                         .n_outputs = 1};
  const dt_prepare_options_t how = {.struct_size = sizeof(how), .layouts = DT_PREPARE_ROWS};
  return bench_ok(dt_runtime_create(&one, &life->runtime), "dt_runtime_create") &&
         bench_ok(dt_session_create(life->runtime, NULL, &life->session), "dt_session_create") &&
         bench_ok(dt_function_create(life->runtime, life->of->program, constant, &options,
                                     &life->function),
                  "dt_function_create") &&
         bench_ok(dt_function_prepare(life->function, &how), "dt_function_prepare") &&
         bench_ok(dt_function_freeze(life->function, true), "dt_function_freeze");
}

static void measure(bench_report_t *report, life_t *life, int64_t gap, const char *metric,
                    double ms) {
  dt_tensor_t *plain[MOST_INPUTS], *apart[MOST_INPUTS];
  double ratios[ROUNDS];
  for (uint32_t k = 0; k < life->of->n_inputs; k++) {
    plain[k] = tensor_of(life->of->inputs[k].rank, life->of->inputs[k].sizes, 0);
    apart[k] = tensor_of(life->of->inputs[k].rank, life->of->inputs[k].sizes, gap);
  }
  call(life, plain);
  call(life, apart);
  double one = turn(life, plain, 10);
  int calls = one > 0 ? (int)(ms * 1e6 / one) + 1 : 1;
  for (int k = 0; k < ROUNDS; k++) {
    double a = k & 1 ? turn(life, apart, calls) : 0, b = turn(life, plain, calls);
    a = k & 1 ? a : turn(life, apart, calls);
    ratios[k] = a / b;
  }
  bench_value(report, life->of->name, "contiguous", "us", one * 1e-3);
  bench_limited(report, life->of->name, metric, "x", bench_median(ratios, ROUNDS), limit);
  for (uint32_t k = 0; k < life->of->n_inputs; k++) {
    free(dt_tensor_data(plain[k]));
    free(dt_tensor_data(apart[k]));
    dt_tensor_release(plain[k]);
    dt_tensor_release(apart[k]);
  }
}

static bool run_case(bench_report_t *report, const case_t *of, double ms) {
  life_t life = {.of = of};
  dt_tensor_t *constant =
      of->constant.rank ? tensor_of(of->constant.rank, of->constant.sizes, 0) : NULL;
  bool good = open_life(&life, constant);
  if (good) {
    measure(report, &life, 48, "gaps of lines", ms);
    measure(report, &life, 3, "gaps of 3 elements", ms);
  }
  dt_tensor_release(life.out);
  dt_function_release(life.function);
  dt_session_destroy(life.session);
  dt_runtime_release(life.runtime);
  if (constant)
    free(dt_tensor_data(constant));
  dt_tensor_release(constant);
  return good;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"ms", required_argument, NULL, 'm'},
                                          {NULL, 0, NULL, 0}};
  const char *only = NULL;
  bench_report_t report;
  bool json = false;
  long ms = 8;
  int c;
  if (bench_help(argc, argv, usage))
    return 0;
  while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
    json = json || c == 'j';
    only = c == 'o' ? optarg : only;
    if (c == '?' || (c == 'm' && !bench_parse_number(optarg, 1, 1000, &ms))) {
      fputs(usage, stderr);
      return BENCH_EXIT_USAGE;
    }
  }
  bench_begin(&report, "views", json);
  for (size_t k = 0; k < N_CASES; k++)
    if ((!only || bench_listed(only, cases[k].name)) && !run_case(&report, &cases[k], (double)ms))
      return BENCH_EXIT_FAILED;
  return 0;
}

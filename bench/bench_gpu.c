// SPDX-License-Identifier: Apache-2.0
// Kernels that move memory, on a GPU: each of six programs over rows of f32, on one function for
// all shapes, beside a copy of the same bytes by the driver. Bytes are those that must move: what
// the program reads and writes of its large tensors, once.
#include "bench/harness.h"
#include "bench/queued.h"
#include "ductile/device.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: bench_gpu [--json] [--rows M] [--columns N] [--rounds R] [--case NAME]\n"
    "\n"
    "Measures programs over [M, N] tensors of f32 on CUDA device 0.\n"
    "  --rows M     (default: 65536)\n"
    "  --columns N  (default: 4096)\n"
    "  --rounds R   measurements of which the median is taken (default: 15)\n"
    "  --case NAME  only this one: gelu, layernorm, softmax, rmsnorm, sum0, transpose, copy\n"
    "  --json       JSON lines\n"
    "Exit codes: 0 measured, whatever the figures; 1 something failed; 2 wrong usage.\n";

typedef dt_value_t v_t;

static v_t gelu(dt_trace_t *t, const dt_value_t *in) {
  return dt_gelu(t, dt_add(t, dt_mul(t, in[0], in[1]), in[2]));
}
static v_t layernorm(dt_trace_t *t, const dt_value_t *in) {
  return dt_layer_norm(t, in[0], in[1], in[2], 1e-5);
}
static v_t softmax(dt_trace_t *t, const dt_value_t *in) { return dt_softmax(t, in[0], 1); }
static v_t rmsnorm(dt_trace_t *t, const dt_value_t *in) {
  return dt_silu(t, dt_rms_norm(t, in[0], in[1], 1e-5));
}
static v_t sum0(dt_trace_t *t, const dt_value_t *in) {
  return dt_sum(t, in[0], 1, (const int32_t[]){0}, false);
}
static v_t transpose(dt_trace_t *t, const dt_value_t *in) {
  return dt_permute(t, in[0], (const int32_t[]){1, 0});
}

typedef struct case_t {
  const char *name;
  v_t (*make)(dt_trace_t *t, const dt_value_t *in);
  uint32_t n_inputs;
  int writes; // all elements are written, too
} case_t;
static const case_t cases[] = {{"gelu", gelu, 3, 1},       {"layernorm", layernorm, 3, 1},
                               {"softmax", softmax, 1, 1}, {"rmsnorm", rmsnorm, 2, 1},
                               {"sum0", sum0, 1, 0},       {"transpose", transpose, 1, 1}};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  out[0] = ((const case_t *)closure)->make(t, in);
  return NULL;
}

typedef struct options_t {
  long rows, columns, rounds;
  const char *only;
  bool json;
} options_t;

static bool fill(dt_session_t *session, dt_tensor_t *to, float low, float high) {
  int64_t count = dt_tensor_count(to), block = count < 1 << 20 ? count : 1 << 20;
  dt_tensor_t *host = NULL;
  uint64_t state = 7;
  bool good =
      bench_ok(dt_tensor_create_empty(DT_F32, dt_tensor_rank(to), dt_tensor_sizes(to), &host),
               "host tensor");
  float *data = good ? dt_tensor_data(host) : NULL;
  for (int64_t i = 0; good && i < block; i++)
    data[i] = low + (high - low) * (float)bench_random(&state, 0, 1 << 20) / (1 << 20);
  for (int64_t i = block; good && i < count; i++)
    data[i] = data[i - block];
  good = good && bench_ok(dt_tensor_copy(session, host, to), "upload");
  dt_tensor_release(host);
  return good;
}

static bool run_case(bench_report_t *report, dt_runtime_t *runtime, dt_session_t *session,
                     const case_t *c, const options_t *o, dt_tensor_t *const *inputs) {
  dt_input_decl_t decls[3] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                              {.name = "w", .dtype = DT_F32, .rank = 1},
                              {.name = "b", .dtype = DT_F32, .rank = 1}};
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = c->name,
                                   .n_inputs = c->n_inputs,
                                   .n_outputs = 1,
                                   .inputs = decls};
  dt_function_t *function = NULL;
  dt_tensor_t *output = NULL;
  double first = bench_now_ns();
  bool good =
      bench_ok(dt_function_create(runtime, program, (void *)(uintptr_t)c, &options, &function),
               "function") &&
      bench_ok(dt_call(session, function, inputs, c->n_inputs, &output, 1, NULL), "first call") &&
      bench_ok(dt_session_wait(session), "first wait");
  first = (bench_now_ns() - first) / 1e6;
  const queued_call_t call = {session, function, inputs, &output, c->n_inputs, 1};
  double us = good ? queued_us(&call, o->rounds) : 0;
  if (good && us > 0) {
    char name[96];
    (void)snprintf(name, sizeof(name), "%s %lldx%lld", c->name, (long long)o->rows,
                   (long long)o->columns);
    double bytes = 4.0 * (double)o->rows * (double)o->columns * (c->writes ? 2 : 1);
    bench_value(report, name, "first call", "ms", first);
    bench_value(report, name, "time", "us", us);
    bench_value(report, name, "rate", "GB/s", bytes / us / 1e3);
  }
  dt_tensor_release(output);
  dt_function_release(function);
  return good;
}

static bool run_copy(bench_report_t *report, dt_session_t *session, const options_t *o,
                     const dt_tensor_t *x) {
  dt_tensor_t *to = NULL;
  double all[64];
  bool good = bench_ok(dt_tensor_create_on(session, DT_F32, 2, dt_tensor_sizes(x), &to), "tensor");
  int64_t rounds = o->rounds < 64 ? o->rounds : 64, calls = 32;
  for (int64_t r = -2; good && r < rounds; r++) {
    double begin = bench_now_ns();
    for (int64_t c = 0; good && c < calls; c++)
      good = bench_ok(dt_tensor_copy(session, x, to), "copy");
    good = good && bench_ok(dt_session_wait(session), "wait");
    if (r >= 0)
      all[r] = (bench_now_ns() - begin) / 1e3 / (double)calls;
  }
  if (good) {
    char name[96];
    (void)snprintf(name, sizeof(name), "copy %lldx%lld", (long long)o->rows, (long long)o->columns);
    double us = bench_median(all, (size_t)rounds);
    bench_value(report, name, "time", "us", us);
    bench_value(report, name, "rate", "GB/s",
                8.0 * (double)o->rows * (double)o->columns / us / 1e3);
  }
  dt_tensor_release(to);
  return good;
}

static bool run(const options_t *o) {
  bench_report_t report;
  bench_begin(&report, "gpu", o->json);
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  dt_tensor_t *inputs[3] = {NULL};
  bool good = bench_ok(dt_runtime_create(NULL, &runtime), "runtime") &&
              bench_ok(dt_session_create(runtime, &on, &session), "session");
  for (uint32_t k = 0; good && k < 3; k++) {
    int64_t sizes[2] = {o->rows, o->columns};
    good =
        bench_ok(dt_tensor_create_on(session, DT_F32, k ? 1 : 2, k ? sizes + 1 : sizes, &inputs[k]),
                 "tensor") &&
        fill(session, inputs[k], k == 1 ? 0.5f : -2, 2);
  }
  if (good && (!o->only || strcmp(o->only, "copy") == 0))
    good = run_copy(&report, session, o, inputs[0]);
  for (size_t i = 0; good && i < N_CASES; i++)
    if (!o->only || strcmp(o->only, cases[i].name) == 0)
      good = run_case(&report, runtime, session, &cases[i], o, inputs);
  for (uint32_t k = 0; k < 3; k++)
    dt_tensor_release(inputs[k]);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return good;
}

int main(int argc, char **argv) {
  options_t o = {.rows = 65536, .columns = 4096, .rounds = 15};
  static const struct option longs[] = {{"rows", required_argument, NULL, 'm'},
                                        {"columns", required_argument, NULL, 'n'},
                                        {"rounds", required_argument, NULL, 'r'},
                                        {"case", required_argument, NULL, 'c'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
    bool good = true;
    if (c == 'm')
      good = bench_parse_number(optarg, 1, 1 << 30, &o.rows);
    else if (c == 'n')
      good = bench_parse_number(optarg, 1, 1 << 30, &o.columns);
    else if (c == 'r')
      good = bench_parse_number(optarg, 1, 64, &o.rounds);
    else if (c == 'c')
      o.only = optarg;
    else if (c == 'j')
      o.json = true;
    else if (c == 'h')
      return printf("%s", usage) < 0;
    else
      good = false;
    if (!good) {
      (void)fprintf(stderr, "%s", usage);
      return BENCH_EXIT_USAGE;
    }
  }
  return run(&o) ? 0 : BENCH_EXIT_FAILED;
}

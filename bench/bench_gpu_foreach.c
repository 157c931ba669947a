// SPDX-License-Identifier: Apache-2.0
// Many small maps that have nothing to do with each other, on a GPU: a call of all of them, and its
// launches. With DUCTILE_WITHOUT=foreach each has a launch of its own.
#include "ductile/device.h"
#include "ductile/experimental.h"

#include "bench/harness.h"

#include <stdlib.h>
#include <string.h>

enum { MAPS = 200, WARM_UP = 20, CALLS = 201, MOST_LENGTH = 1 << 20 };

static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  for (int k = 0; k < MAPS; k++) {
    dt_value_t x = k % 2 ? dt_mul(t, in[k], in[k]) : dt_relu(t, in[k]);
    out[k] = dt_add(t, x, dt_scalar(t, DT_F32, k));
  }
  return NULL;
}

typedef struct rig_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
  dt_tensor_t *in[MAPS], *out[MAPS];
} rig_t;

static bool open_rig(rig_t *rig) {
  static char names[MAPS][16];
  static dt_input_decl_t inputs[MAPS];
  for (int k = 0; k < MAPS; k++) {
    (void)snprintf(names[k], sizeof(names[k]), "x%d", k);
    inputs[k] = (dt_input_decl_t){.name = names[k], .dtype = DT_F32, .rank = 1};
  }
  const dt_function_options_t options = {.struct_size = sizeof options,
                                         .name = "foreach",
                                         .n_inputs = MAPS,
                                         .n_outputs = MAPS,
                                         .inputs = inputs};
  const dt_session_options_t on = {.struct_size = sizeof on, .device = DT_CUDA};
  return bench_ok(dt_runtime_create(NULL, &rig->runtime), "making the runtime") &&
         bench_ok(dt_session_create(rig->runtime, &on, &rig->session), "making a session") &&
         bench_ok(dt_function_create(rig->runtime, program, NULL, &options, &rig->function),
                  "making the function");
}

static void drop(dt_tensor_t **tensors) {
  for (int k = 0; k < MAPS; k++) {
    dt_tensor_release(tensors[k]);
    tensors[k] = NULL;
  }
}

// Arguments of `length` elements, more or less, and results of theirs.
static bool make_tensors(rig_t *rig, long length) {
  drop(rig->in);
  drop(rig->out);
  for (int k = 0; k < MAPS; k++) {
    const int64_t n = length + k % 7;
    if (!bench_ok(dt_tensor_create_on(rig->session, DT_F32, 1, &n, &rig->in[k]),
                  "making tensors") ||
        !bench_ok(dt_tensor_create_on(rig->session, DT_F32, 1, &n, &rig->out[k]), "making tensors"))
      return false;
  }
  return true;
}

static bool call(rig_t *rig, dt_call_mode_t mode) {
  const dt_call_options_t how = {.struct_size = sizeof how, .mode = mode};
  return bench_ok(dt_call(rig->session, rig->function, rig->in, MAPS, rig->out, MAPS, &how),
                  "calling");
}

// Until all is done.
static bool measure(rig_t *rig, bench_report_t *report, long length, dt_call_mode_t mode) {
  static double times[CALLS];
  char name[48];
  bool good = true;
  for (int k = 0; good && k < WARM_UP; k++)
    good = call(rig, mode);
  good = good && bench_ok(dt_session_wait(rig->session), "waiting");
  for (int k = 0; good && k < CALLS; k++) {
    double begin = bench_now_ns();
    good = call(rig, mode) && bench_ok(dt_session_wait(rig->session), "waiting");
    times[k] = bench_now_ns() - begin;
  }
  (void)snprintf(name, sizeof(name), "%d maps of %ld%s", MAPS, length,
                 mode == DT_CALL_PLAIN ? "" : ", graph");
  if (good)
    bench_value(report, name, "call", "us", bench_median(times, CALLS) / 1e3);
  return good;
}

static bool run(rig_t *rig, bench_report_t *report) {
  static const long lengths[] = {64, 4096, 65536, MOST_LENGTH};
  dt_function_counters_t counters = {.struct_size = sizeof counters};
  bool good = open_rig(rig);
  for (size_t k = 0; good && k < sizeof(lengths) / sizeof(lengths[0]); k++)
    good = make_tensors(rig, lengths[k]) && measure(rig, report, lengths[k], DT_CALL_PLAIN) &&
           measure(rig, report, lengths[k], DT_CALL_REDUCE_OVERHEAD);
  good = good && bench_ok(dt_function_counters(rig->function, &counters), "counting");
  if (good)
    bench_value(report, "function", "kernels of a call", "count", (double)counters.kernels);
  return good;
}

int main(int argc, char **argv) {
  bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
  bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
  if (argc > 1 && !json) {
    (void)fputs("usage: bench_foreach [--json]\n"
                "\n"
                "Calls a function of 200 small maps on the first GPU, launch by launch and as a "
                "graph.\n"
                "Exit codes: 0 measured; 1 something failed; 2 wrong usage.\n",
                help ? stdout : stderr);
    return help ? 0 : BENCH_EXIT_USAGE;
  }
  bench_report_t report;
  rig_t rig = {0};
  bench_begin(&report, "foreach", json);
  bool good = run(&rig, &report);
  drop(rig.in);
  drop(rig.out);
  dt_function_release(rig.function);
  dt_session_destroy(rig.session);
  dt_runtime_release(rig.runtime);
  return good ? 0 : BENCH_EXIT_FAILED;
}

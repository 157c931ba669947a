// SPDX-License-Identifier: Apache-2.0
// bench_minilm --serve: calls on request, one line a request, so that a driver can take turns with
// another program.
#include "bench/minilm.h"
#include "ductile/experimental.h"

#include <stdlib.h>
#include <string.h>

static void run(minilm_bench_t *bench, dt_function_t *function, int64_t batch, int64_t length,
                long calls) {
  double *times = calloc((size_t)calls, sizeof times[0]);
  if (!times) {
    printf("error out of memory\n");
    return;
  }
  dt_status_t status = minilm_io_bind(&bench->io, batch, length);
  for (long i = 0; i < calls && !status; i++)
    status = minilm_call(bench, function, &times[i]);
  if (!bench_answer_error(status)) {
    for (long i = 0; i < calls; i++)
      printf(i ? " %.0f" : "%.0f", times[i]);
    putchar('\n');
  }
  free(times);
}

static void embed(minilm_bench_t *bench, dt_function_t *function, int64_t batch, int64_t length) {
  double ns;
  dt_status_t status = minilm_io_bind(&bench->io, batch, length);
  if (!status)
    status = minilm_call(bench, function, &ns);
  if (!status)
    status = minilm_io_read(bench);
  if (bench_answer_error(status))
    return;
  for (int64_t i = 0; i < batch * MINILM_HIDDEN; i++)
    printf(i ? " %.9g" : "%.9g", (double)bench->io.embeddings[i]);
  putchar('\n');
}

static void stats(minilm_bench_t *bench, dt_function_t *function) {
  dt_function_counters_t stats = {.struct_size = sizeof stats};
  if (!bench_answer_error(dt_function_counters(function, &stats)))
    printf("%u %llu %llu %llu %llu\n", stats.variants, (unsigned long long)stats.evaluator_calls,
           (unsigned long long)stats.kernels, (unsigned long long)dt_session_bytes(bench->session),
           (unsigned long long)stats.launches);
}

static void graphs(minilm_bench_t *bench) {
  dt_session_counters_t stats = {.struct_size = sizeof stats};
  if (!bench_answer_error(dt_session_counters(bench->session, &stats)))
    printf("%llu %llu %llu %llu %llu %llu %llu %s\n", (unsigned long long)stats.graph_calls,
           (unsigned long long)stats.graph_skips, (unsigned long long)stats.builds,
           (unsigned long long)stats.growths, (unsigned long long)stats.pool_bytes,
           (unsigned long long)stats.scratch_bytes, (unsigned long long)stats.executable_bytes,
           stats.graph_skip ? stats.graph_skip : "none");
}

bool minilm_serve(minilm_bench_t *bench) {
  dt_function_t *function = minilm_prepared(bench);
  bool good = function != NULL;
  if (good) {
    printf("ready %s\n", dt_version());
    fflush(stdout);
  }
  char line[256];
  while (good && fgets(line, sizeof line, stdin)) {
    long long batch, length;
    long calls;
    if (strcmp(line, "quit\n") == 0)
      break;
    if (strcmp(line, "stats\n") == 0)
      stats(bench, function);
    else if (strcmp(line, "graphs\n") == 0)
      graphs(bench);
    else if (sscanf(line, "run %lld %lld %ld", &batch, &length, &calls) == 3 && calls > 0 &&
             calls <= 1000000)
      run(bench, function, batch, length, calls);
    else if (sscanf(line, "embed %lld %lld", &batch, &length) == 2)
      embed(bench, function, batch, length);
    else
      printf("error unknown request\n");
    fflush(stdout);
  }
  dt_function_release(function);
  return good;
}

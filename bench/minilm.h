// SPDX-License-Identifier: Apache-2.0
// What the parts of bench_minilm share: the loaded model, calls at a given batch and length, and
// the cases.
#ifndef BENCH_MINILM_H
#define BENCH_MINILM_H

#include "bench/harness.h"
#include "examples/minilm/model.h"

// Most tokens of one call, and most rows.
enum { MINILM_MAX_TOKENS = 1 << 16, MINILM_MAX_BATCH = 1 << 12 };

// One set of tensors that is bound to other sizes for each call, so that the benchmark itself holds
// the same memory throughout.
typedef struct minilm_io_t {
  int64_t *ids, *mask; // MINILM_MAX_TOKENS each
  float *embeddings;   // MINILM_MAX_BATCH rows
  dt_tensor_t *inputs[2], *output;
} minilm_io_t;

// Owner of everything but `weights`, whose functions must be gone before it.
typedef struct minilm_bench_t {
  minilm_weights_t *weights; // owner
  dt_runtime_t *runtime;
  dt_session_t *session;
  minilm_io_t io;
  bench_report_t report;
  long memory_calls; // of the case "memory"
  long variant_shapes;
} minilm_bench_t;

// False with a message on stderr.
bool minilm_io_create(minilm_io_t *io);
void minilm_io_destroy(minilm_io_t *io);
// Binds the tensors to [batch, length], every token there and none of them padding.
dt_status_t minilm_io_bind(minilm_io_t *io, int64_t batch, int64_t length) DT_MUST_USE;
// Calls at the bound sizes into the bound output and times it.
dt_status_t minilm_call(minilm_bench_t *bench, dt_function_t *function, double *out_ns) DT_MUST_USE;

// Cases; false with a message on stderr. Each makes functions of its own.
bool minilm_case_cold(minilm_bench_t *bench); // must be the process's first
bool minilm_case_latency(minilm_bench_t *bench);
bool minilm_case_first(minilm_bench_t *bench);
bool minilm_case_memory(minilm_bench_t *bench);
bool minilm_case_variants(minilm_bench_t *bench);

// Answers requests on stdin until it ends or says "quit"; see bench_minilm --help.
bool minilm_serve(minilm_bench_t *bench);

#endif // BENCH_MINILM_H

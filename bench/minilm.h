// SPDX-License-Identifier: Apache-2.0
// What the parts of bench_minilm share: the loaded model, calls at a given batch and length, and
// the cases.
#ifndef BENCH_MINILM_H
#define BENCH_MINILM_H

#include "bench/harness.h"
#include "ductile/graphs.h"
#include "ductile/package.h"
#include "examples/minilm/model.h"

// Most tokens of one call, and most rows.
enum { MINILM_MAX_TOKENS = 1 << 16, MINILM_MAX_BATCH = 1 << 12 };

// One set of tensors that is bound to other sizes for each call, so that the benchmark itself holds
// the same memory throughout.
typedef struct minilm_io_t {
  dt_tensor_t *memory[3]; // where calls run: MINILM_MAX_TOKENS ids, as many of the mask, and
                          // MINILM_MAX_BATCH embeddings
  dt_tensor_t *inputs[2], *output; // over that memory, at the bound sizes
  float *embeddings;               // MINILM_MAX_BATCH rows on the host; minilm_io_read
} minilm_io_t;

// Nanoseconds of the steps before a first call can be made.
typedef struct minilm_start_t {
  double process; // before main, where --started tells it
  double runtime, session, weights;
} minilm_start_t;

// What the case "graphs" calls.
typedef struct minilm_graph_limits_t {
  long shapes, batch, length; // how many shapes, and the largest
  long later;                 // calls at each after its first
} minilm_graph_limits_t;

// Owner of everything but `weights`, whose functions must be gone before it.
typedef struct minilm_bench_t {
  minilm_weights_t *weights; // owner; NULL: functions are those of the package
  dt_package_t *package;     // owner; or NULL
  const char *path, *levels; // of the case "package"
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_device_t device;
  dt_call_mode_t mode; // of every call
  minilm_io_t io;
  minilm_start_t start;
  bench_report_t report;
  long memory_calls; // of the case "memory"
  long variant_shapes;
  minilm_graph_limits_t graphs;
} minilm_bench_t;

// In the memory of the bench's session. False with a message on stderr.
bool minilm_io_create(minilm_bench_t *bench);
void minilm_io_destroy(minilm_io_t *io);
// Binds the tensors to [batch, length], every token there and none of them padding.
dt_status_t minilm_io_bind(minilm_io_t *io, int64_t batch, int64_t length) DT_MUST_USE;
// Brings the bound output to `embeddings`.
dt_status_t minilm_io_read(minilm_bench_t *bench) DT_MUST_USE;
// dt_call in the bench's mode, at the bound sizes: *output as dt_call has it.
dt_status_t minilm_call_into(minilm_bench_t *bench, dt_function_t *function,
                             dt_tensor_t **output) DT_MUST_USE;
// Calls at the bound sizes into the bound output, and times it until the result is there.
dt_status_t minilm_call(minilm_bench_t *bench, dt_function_t *function, double *out_ns) DT_MUST_USE;

// A prepared function where the bench's calls run; that of a package or, where it is NULL, a new
// one of the weights. NULL with a message on stderr.
dt_function_t *minilm_prepared_of(minilm_bench_t *bench, dt_package_t *package);
dt_function_t *minilm_prepared(minilm_bench_t *bench);

// Cases; false with a message on stderr. Each makes functions of its own.
bool minilm_case_start(minilm_bench_t *bench); // must be the process's first
bool minilm_case_cold(minilm_bench_t *bench);  // must be the process's first
bool minilm_case_latency(minilm_bench_t *bench);
bool minilm_case_first(minilm_bench_t *bench);
bool minilm_case_memory(minilm_bench_t *bench);
bool minilm_case_variants(minilm_bench_t *bench);
bool minilm_case_graphs(minilm_bench_t *bench);
bool minilm_case_package(minilm_bench_t *bench);

// Answers requests on stdin until it ends or says "quit"; see bench_minilm --help.
bool minilm_serve(minilm_bench_t *bench);

#endif // BENCH_MINILM_H

// SPDX-License-Identifier: Apache-2.0
// A server of sentences as the benchmark of bench_serve.c has it, and what stands behind it: an
// engine that computes batches of them.
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERVE_ROWS = 16, SERVE_TOKENS = 512, SERVE_LONGEST = 384, SERVE_VALUES = 4 };

// Sentences of `length` tokens each, padded: [rows, length] for each of a model's inputs, whose
// rows lie without gaps.
typedef struct serve_batch_t {
  int64_t rows, length;
  int64_t *ids, *mask; // of the last input all ones with zeros behind each sentence; of others ids
} serve_batch_t;

typedef struct serve_answer_t {
  float *pooled; // [rows, width]: room for SERVE_ROWS of them
  int64_t width;
} serve_answer_t;

typedef struct serve_config_t {
  const char *model; // a file: inputs [batch, length] of int64; the last result [batch, width]
  const char *onnxruntime; // its library
  uint32_t workers, threads;
  bool spins; // whether the peer's threads wait for work by spinning
} serve_config_t;

// What computes. Failures are told on stderr.
typedef struct serve_engine_t {
  const char *name;
  void *(*open)(const serve_config_t *config); // NULL: it failed
  void (*close)(void *engine);
  // Of one of `workers` threads.
  void *(*worker)(void *engine);
  void (*worker_close)(void *worker);
  // Computes all results of the batch, and gives the last one.
  bool (*run)(void *worker, const serve_batch_t *batch, serve_answer_t *answer);
} serve_engine_t;

extern const serve_engine_t serve_ductile, serve_onnxruntime;

// ---- The server ----------------------------------------------------------------------------------

typedef struct serve_load_t {
  uint32_t clients;       // each sends its next sentence when it has an answer
  double warmup, seconds; // before figures are taken, and while
  int64_t batch_wait_ns;  // a sentence waits so long for others
  uint64_t seed;
} serve_load_t;

typedef struct serve_figures_t {
  uint64_t sentences, tokens, batches; // answered while figures were taken
  double seconds, processor_seconds;   // the whole process
  double p50_ms, p99_ms;               // from a client's asking to its answer
} serve_figures_t;

// Serves with `config->workers` threads. False: it failed.
bool serve(const serve_engine_t *engine, void *opened, const serve_config_t *config,
           const serve_load_t *load, serve_figures_t *out);

// The number of tokens of a sentence: log-normal, median 110, from 12 to SERVE_LONGEST.
int64_t serve_length(uint64_t *state);

#endif // BENCH_SERVE_H

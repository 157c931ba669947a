// SPDX-License-Identifier: Apache-2.0
// What the program prints: tables for people, or JSON lines for programs. See `minilm --help`.
#ifndef EXAMPLES_MINILM_REPORT_H
#define EXAMPLES_MINILM_REPORT_H

#include "ductile/experimental.h"
#include "examples/minilm/measure.h"
#include "examples/minilm/sentences.h"

// `rows` has `width` numbers for each sentence, of length 1.
void report_sentences(bool json, const char *const *sentences, const batch_t *batch,
                      const float *rows, int64_t width);
void report_measurements_begin(bool json);
void report_measurement(bool json, const measurement_t *measurement);
void report_totals(bool json, const dt_function_counters_t *stats, uint64_t session_bytes,
                   double prepare_ns);

#endif // EXAMPLES_MINILM_REPORT_H

// SPDX-License-Identifier: Apache-2.0
#include "examples/minilm/report.h"
#include "ductile/experimental.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

// ---- Text ---------------------------------------------------------------------------------------

// Prints `text` in exactly `width` columns.
static void print_cell(const char *text, int width) {
  size_t bytes = strlen(text);
  int used = 0;
  for (size_t at = 0; at < bytes;) {
    utf8proc_int32_t c;
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &c);
    int columns = len > 0 ? utf8proc_charwidth(c) : 1;
    if (used + columns > width)
      break;
    bool printable = len > 0 && utf8proc_category(c) != UTF8PROC_CATEGORY_CC;
    printf("%.*s", printable ? (int)len : 1, printable ? text + at : "?");
    used += printable ? columns : 1;
    at += len > 0 ? (size_t)len : 1;
  }
  printf("%*s", width > used ? width - used : 0, "");
}

static void print_json_string(const char *text) {
  size_t bytes = strlen(text);
  putchar('"');
  for (size_t at = 0; at < bytes;) {
    utf8proc_int32_t c;
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &c);
    if (len <= 0)
      printf("\\ufffd");
    else if (c < 0x20)
      printf("\\u%04x", (unsigned)c);
    else if (c == '"' || c == '\\')
      printf("\\%c", (char)c);
    else
      printf("%.*s", (int)len, text + at);
    at += len > 0 ? (size_t)len : 1;
  }
  putchar('"');
}

// ---- Sentences ----------------------------------------------------------------------------------

static float dot(const float *a, const float *b, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += a[i] * b[i];
  return sum;
}

static void print_sentence_lines(const char *const *sentences, const batch_t *batch,
                                 const float *rows, int64_t width) {
  const int64_t *ids = dt_tensor_data(batch->ids), *mask = dt_tensor_data(batch->mask);
  for (int64_t i = 0; i < batch->count; i++) {
    printf("{\"sentence\":");
    print_json_string(sentences[i]);
    printf(",\"ids\":[");
    for (int64_t k = 0; k < batch->length && mask[i * batch->length + k]; k++)
      printf("%s%lld", k ? "," : "", (long long)ids[i * batch->length + k]);
    printf("],\"similarity\":[");
    for (int64_t j = 0; j < batch->count; j++)
      printf("%s%.6f", j ? "," : "", (double)dot(rows + i * width, rows + j * width, width));
    printf("],\"embedding\":[");
    for (int64_t k = 0; k < width; k++)
      printf("%s%.9g", k ? "," : "", (double)rows[i * width + k]);
    printf("]}\n");
  }
}

// The other sentence that is most like sentence `i`.
static int64_t closest_to(int64_t i, int64_t count, const float *rows, int64_t width) {
  int64_t best = i;
  float most = -2;
  for (int64_t j = 0; j < count; j++) {
    float value = dot(rows + i * width, rows + j * width, width);
    if (j != i && value > most) {
      most = value;
      best = j;
    }
  }
  return best;
}

static void print_similarity_table(const char *const *sentences, int64_t count, const float *rows,
                                   int64_t width) {
  const int text_columns = 40;
  printf("How alike the sentences are: cosines of their embeddings, in hundredths\n\n");
  printf("%*s", text_columns + 4, "");
  for (int64_t j = 0; j < count; j++)
    printf("%4lld", (long long)j + 1);
  printf("  closest\n");
  for (int64_t i = 0; i < count; i++) {
    printf("%3lld ", (long long)i + 1);
    print_cell(sentences[i], text_columns);
    for (int64_t j = 0; j < count; j++)
      printf("%4ld", lroundf(100 * dot(rows + i * width, rows + j * width, width)));
    if (count > 1)
      printf("%9lld", (long long)closest_to(i, count, rows, width) + 1);
    printf("\n");
  }
}

void report_sentences(bool json, const char *const *sentences, const batch_t *batch,
                      const float *rows, int64_t width) {
  if (json)
    print_sentence_lines(sentences, batch, rows, width);
  else
    print_similarity_table(sentences, batch->count, rows, width);
}

// ---- Measurements -------------------------------------------------------------------------------

static void print_metric(const char *where, const char *metric, const char *unit, double value) {
  printf(
      "{\"bench\":\"minilm\",\"case\":\"%s\",\"metric\":\"%s\",\"unit\":\"%s\",\"value\":%.6g}\n",
      where, metric, unit, value);
}

void report_measurements_begin(bool json) {
  if (json)
    return;
  printf("\nCalls over batch and length; \"first\" is the first call ever made at that size\n\n");
  printf(
      "  batch  length    first ms   median ms  sentences/s  variants  guards ns  resident MiB\n");
}

void report_measurement(bool json, const measurement_t *m) {
  double per_second = (double)m->batch * 1e9 / m->median_ns;
  double resident = (double)m->resident_bytes / (1 << 20);
  if (json) {
    char where[64];
    snprintf(where, sizeof where, "batch=%lld,length=%lld", (long long)m->batch,
             (long long)m->length);
    print_metric(where, "first_call", "us", m->first_ns / 1e3);
    print_metric(where, "median", "us", m->median_ns / 1e3);
    print_metric(where, "guards", "ns", m->guard_ns);
    print_metric(where, "variants", "count", m->variants);
    print_metric(where, "resident", "MiB", resident);
  } else {
    printf("%7lld %7lld %11.3f %11.3f %12.0f %9u %10.1f %13.1f\n", (long long)m->batch,
           (long long)m->length, m->first_ns / 1e6, m->median_ns / 1e6, per_second, m->variants,
           m->guard_ns, resident);
  }
  fflush(stdout);
}

void report_totals(bool json, const dt_function_counters_t *stats, uint64_t session_bytes,
                   double prepare_ns) {
  const double mib = 1 << 20;
  if (json) {
    print_metric("total", "prepare", "ms", prepare_ns / 1e6);
    print_metric("total", "variants", "count", stats->variants);
    print_metric("total", "compiles", "count", (double)stats->compiles);
    print_metric("total", "calls", "count", (double)stats->calls);
    print_metric("total", "evaluator_calls", "count", (double)stats->evaluator_calls);
    print_metric("total", "kernels", "count", (double)stats->kernels);
    print_metric("total", "launches", "count", (double)stats->launches);
    print_metric("total", "code", "bytes", (double)stats->code_bytes);
    print_metric("total", "constants", "bytes", (double)stats->constant_bytes);
    print_metric("total", "session", "bytes", (double)session_bytes);
    return;
  }
  printf(
      "\nPrepared in %.2f s, before the first call. %llu calls, %u variants, %llu compiles, %llu "
      "answered by the\nreference evaluator. %llu kernels a call; code %.2f MiB, packed constants "
      "%.1f MiB, session %.1f MiB.\n",
      prepare_ns / 1e9, (unsigned long long)stats->calls, stats->variants,
      (unsigned long long)stats->compiles, (unsigned long long)stats->evaluator_calls,
      (unsigned long long)stats->kernels, (double)stats->code_bytes / mib,
      (double)stats->constant_bytes / mib, (double)session_bytes / mib);
}

// SPDX-License-Identifier: Apache-2.0
// The text of metrics, read as Prometheus reads it (version 0.0.4): families with HELP and TYPE
// before their samples, each sample once, histograms that ascend and end in all calls.
#include "test/support/subjects.h"

#include "ductile/profile.h"
#include "runtime/base/memory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 2048

typedef struct sample_t {
  char name[96], labels[160];
  double value;
} sample_t;

typedef struct metrics_t {
  int n, families;
  char family[96], type[16], told[96]; // of the family that is read; and of HELP
  sample_t samples[MOST];
} metrics_t;

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

// A metric's name: letters, digits, '_' and ':', no digit first.
static size_t read_name(const char *at, char *out, size_t bytes) {
  size_t n = 0;
  while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == ':')
    n++;
  assert_true(n > 0 && n < bytes && !isdigit((unsigned char)at[0]));
  (void)snprintf(out, bytes, "%.*s", (int)n, at);
  return n;
}

static void read_comment(metrics_t *m, const char *line) {
  if (begins(line, "# HELP ")) {
    size_t n = read_name(line + 7, m->told, sizeof(m->told));
    assert_true(line[7 + n] == ' ' && line[8 + n] && !strchr(line, '\\'));
    return;
  }
  assert_true(begins(line, "# TYPE "));
  size_t n = read_name(line + 7, m->family, sizeof(m->family));
  assert_string_equal(m->family, m->told);
  (void)snprintf(m->type, sizeof(m->type), "%s", line + 8 + n);
  assert_true(strcmp(m->type, "counter") == 0 || strcmp(m->type, "gauge") == 0 ||
              strcmp(m->type, "histogram") == 0);
  for (int k = 0; k < m->n; k++) // a family is whole before the next begins
    assert_false(begins(m->samples[k].name, m->family) &&
                 m->samples[k].name[strlen(m->family)] == '\0');
  m->families++;
}

// name="value",…}: only \\, \" and \n are escaped.
static size_t read_labels(const char *at, char *out, size_t bytes) {
  size_t n = 1;
  while (at[n] != '}') {
    char label[64];
    n += read_name(at + n, label, sizeof(label));
    assert_true(at[n] == '=' && at[n + 1] == '"');
    for (n += 2; at[n] != '"'; n++) {
      assert_true(at[n] && at[n] != '\n');
      if (at[n] == '\\')
        assert_non_null(strchr("\\\"n", at[++n]));
    }
    n += at[n + 1] == ',' ? 2 : 1;
  }
  (void)snprintf(out, bytes, "%.*s", (int)n + 1, at);
  return n + 1;
}

static void read_sample(metrics_t *m, const char *line) {
  assert_true(m->n < MOST);
  sample_t *sample = &m->samples[m->n];
  *sample = (sample_t){0};
  size_t at = read_name(line, sample->name, sizeof(sample->name));
  if (line[at] == '{')
    at += read_labels(line + at, sample->labels, sizeof(sample->labels));
  assert_int_equal(line[at], ' ');
  char *end = NULL;
  sample->value = strtod(line + at + 1, &end);
  assert_int_equal(*end, '\0');
  assert_true(begins(sample->name, m->family));
  const char *rest = sample->name + strlen(m->family);
  if (strcmp(m->type, "histogram") == 0)
    assert_true(!strcmp(rest, "_bucket") || !strcmp(rest, "_sum") || !strcmp(rest, "_count"));
  else
    assert_string_equal(rest, "");
  for (int k = 0; k < m->n; k++)
    assert_false(strcmp(m->samples[k].name, sample->name) == 0 &&
                 strcmp(m->samples[k].labels, sample->labels) == 0);
  m->n++;
}

static void read_metrics(char *text, metrics_t *m) {
  *m = (metrics_t){0};
  assert_int_equal(text[strlen(text) - 1], '\n');
  for (char *line = text, *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    *end = '\0';
    if (line[0] == '#')
      read_comment(m, line);
    else
      read_sample(m, line);
  }
}

static void metrics_of(dt_runtime_t *runtime, metrics_t *out) {
  char *text = NULL;
  expect_ok(dt_metrics_text(runtime, &text));
  read_metrics(text, out);
  dt_text_free(text);
}

static double value_of(const metrics_t *m, const char *name, const char *labels) {
  for (int k = 0; k < m->n; k++)
    if (strcmp(m->samples[k].name, name) == 0 && strcmp(m->samples[k].labels, labels) == 0)
      return m->samples[k].value;
  fail_msg("no %s%s", name, labels);
  return 0;
}

static void expect_histogram(const metrics_t *m, const char *labels, double calls) {
  char infinite[200];
  double last = 0;
  int buckets = 0;
  (void)snprintf(infinite, sizeof(infinite), "%.*s,le=\"+Inf\"}", (int)strlen(labels) - 1, labels);
  for (int k = 0; k < m->n; k++) {
    if (strcmp(m->samples[k].name, "ductile_call_seconds_bucket") != 0 ||
        strncmp(m->samples[k].labels, labels, strlen(labels) - 1) != 0)
      continue;
    assert_true(m->samples[k].value >= last);
    last = m->samples[k].value;
    buckets++;
  }
  assert_int_equal(buckets, 20);
  assert_true(last == calls);
  assert_true(value_of(m, "ductile_call_seconds_bucket", infinite) == calls);
  assert_true(value_of(m, "ductile_call_seconds_count", labels) == calls);
  assert_true((value_of(m, "ductile_call_seconds_sum", labels) > 0) == (calls > 0));
}

static void call(fixture_t *fixture, dt_function_t *function, int times) {
  dt_tensor_t *x = tensor_full(1, 1, SIZES(5));
  for (int k = 0; k < times; k++) {
    dt_tensor_t *y = NULL;
    expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
    RELEASE(y);
  }
  RELEASE(x);
}

static int setup(void **state) { return fixture_open(state, 2, 5); }

static void test_the_text_is_read(void **state) {
  fixture_t *fixture = *state;
  static metrics_t m;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *one = function_of(fixture, negate_program, NULL, &options);
  dt_function_t *same = function_of(fixture, double_program, NULL, &options);
  options.name = "a\\b \"c\"\nd";
  dt_function_t *odd = function_of(fixture, negate_program, NULL, &options);
  call(fixture, one, 3);
  call(fixture, same, 4);
  expect_ok(dt_metrics_latency(fixture->runtime, true));
  call(fixture, odd, 2);
  call(fixture, one, 1);
  expect_ok(dt_metrics_latency(fixture->runtime, false));
  call(fixture, odd, 5);
  metrics_of(fixture->runtime, &m);
  assert_true(m.families > 20);
  const char *odd_labels = "{function=\"a\\\\b \\\"c\\\"\\nd\"}";
  assert_true(value_of(&m, "ductile_calls_total", "{function=\"f\"}") == 8); // of two functions
  assert_true(value_of(&m, "ductile_compiles_total", "{function=\"f\"}") == 2);
  assert_true(value_of(&m, "ductile_calls_total", odd_labels) == 7);
  assert_true(value_of(&m, "ductile_bytes", "") > 0);
  expect_histogram(&m, "{function=\"f\"}", 1);
  expect_histogram(&m, odd_labels, 2);
  dt_function_release(one);
  dt_function_release(same);
  dt_function_release(odd);
  metrics_of(fixture->runtime, &m); // of a runtime without functions
}

static void test_misuse_and_memory(void **state) {
  fixture_t *fixture = *state;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  char *text = NULL;
  expect_code(dt_metrics_text(NULL, &text), DT_E_ARGUMENT);
  expect_code(dt_metrics_text(fixture->runtime, NULL), DT_E_ARGUMENT);
  expect_code(dt_metrics_latency(NULL, true), DT_E_ARGUMENT);
  for (uint64_t n = 1; !text; n++) {
    assert_true(n < 1000);
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_metrics_text(fixture->runtime, &text);
    (void)dt__heap_fail_at(0, false);
    assert_true(!status == (text != NULL));
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    dt_status_free(status);
  }
  dt_text_free(text);
  dt_function_release(function);
}

RUN_TESTS_WITH(setup, fixture_close, TEST(test_the_text_is_read), TEST(test_misuse_and_memory))

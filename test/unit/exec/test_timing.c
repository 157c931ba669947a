// SPDX-License-Identifier: Apache-2.0
// Profiles of time: what they count is what was called and launched, work is that of the call's own
// sizes, and a profile may be started, read and ended whatever other threads do. How near its times
// are is measured elsewhere (bench/bench_profile.c): here they only add up.
#include "test/support/folder.h"
#include "test/support/subjects.h"

#include "ductile/profile.h"
#include "frontends/json/json.h"
#include "runtime/base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setup(void **state) { return fixture_open(state, 3, 11); }

static bool is_compiled(void) { return compiled_answer() == DT_ANSWER_COMPILED; }

static dt_profile_t *start(dt_runtime_t *runtime) {
  dt_profile_t *profile = NULL;
  expect_ok(dt_profile_start(runtime, NULL, &profile));
  return profile;
}

static dt_profile_report_t *report_of(dt_profile_t *profile) {
  dt_profile_report_t *report = NULL;
  expect_ok(dt_profile_report(profile, &report));
  return report;
}

static void call_n(fixture_t *fixture, dt_function_t *function, uint32_t n_inputs,
                   dt_tensor_t *const *inputs, int times) {
  for (int k = 0; k < times; k++) {
    dt_tensor_t *out = NULL;
    expect_ok(dt_call(fixture->session, function, inputs, n_inputs, &out, 1, NULL));
    RELEASE(out);
  }
}

// ---- What adds up -----------------------------------------------------------------------------------

static void expect_sums(const dt_profile_report_t *report) {
  uint64_t calls = 0;
  assert_true(report->named > 0.95 && report->named < 1.001);
  assert_int_equal(report->lost, 0);
  for (uint32_t v = 0; v < report->n_variants; v++) {
    const dt_profile_variant_t *variant = report->variants[v];
    uint64_t parts = 0, kernels = 0;
    double shares = 0;
    for (uint32_t k = 0; k < DT_PROFILE_PARTS; k++)
      parts += variant->parts_ns[k];
    for (uint32_t k = 0; k < variant->n_kernels; k++) {
      const dt_profile_kernel_t *kernel = variant->kernels[k];
      kernels += kernel->total_ns;
      shares += kernel->share;
      assert_true(kernel->min_ns <= kernel->max_ns && kernel->max_ns <= kernel->total_ns);
      assert_true(kernel->sized_launches <= kernel->launches);
    }
    // Rounded once for each of them.
    assert_true(parts <= variant->total_ns + DT_PROFILE_PARTS);
    assert_true(kernels <= variant->parts_ns[DT_PROFILE_KERNELS] + variant->n_kernels);
    assert_true(shares <= 1.0001);
    calls += variant->calls;
  }
  assert_int_equal(calls, report->calls);
}

static void test_calls_and_launches_are_counted(void **state) {
  fixture_t *fixture = *state;
  mlp_t mlp;
  mlp_init(&mlp, &fixture->rng);
  dt_function_t *function =
      subject_function(fixture->runtime, &mlp_subject, &mlp, compiled_answer());
  dt_tensor_t *x = tensor_f32(&fixture->rng, 3, SIZES(2, 5, 16));
  dt_tensor_t *y = tensor_f32(&fixture->rng, 3, SIZES(7, 3, 16));
  call_n(fixture, function, 1, &x, 1); // nobody counts it
  dt_profile_t *profile = start(fixture->runtime);
  call_n(fixture, function, 1, &x, 5);
  call_n(fixture, function, 1, &y, 2);
  expect_ok(dt_profile_stop(profile));
  call_n(fixture, function, 1, &x, 3); // nor these
  dt_profile_report_t *report = report_of(profile);
  expect_sums(report);
  assert_int_equal(report->calls, 7);
  assert_int_equal(report->n_variants, 1);
  const dt_profile_variant_t *variant = report->variants[0];
  assert_string_equal(variant->function, "mlp");
  assert_int_equal(variant->calls, 7);
  assert_int_equal(variant->parts_ns[DT_PROFILE_COMPILE], 0);
  if (is_compiled()) {
    assert_string_equal(variant->unknown, "");
    assert_int_equal(variant->shapes, 2);
    assert_int_equal(variant->n_kernels, stats_of(function).kernels);
    for (uint32_t k = 0; k < variant->n_kernels; k++) {
      assert_int_equal(variant->kernels[k]->launches, 7);
      assert_int_equal(variant->kernels[k]->sized_launches, 7);
      assert_true(variant->kernels[k]->n_sources > 0);
      assert_non_null(strstr(variant->kernels[k]->sources[0]->file, "subjects.c"));
    }
  } else {
    assert_true(variant->parts_ns[DT_PROFILE_EVALUATOR] > 0);
  }
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(x, y);
  dt_function_release(function);
  mlp_fini(&mlp);
}

// a[n] + b[n]: three times n elements, n operations, at the sizes of each call.
static void test_work_is_that_of_the_sizes(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function =
      subject_function(fixture->runtime, &add_subject, NULL, compiled_answer());
  dt_profile_t *profile = start(fixture->runtime);
  const int64_t sizes[] = {2000000, 0, 1, 100};
  double elements = 0;
  for (size_t k = 0; k < 4; k++) {
    dt_tensor_t *in[2] = {tensor_full(1, 1, &sizes[k]), tensor_full(2, 1, &sizes[k])};
    call_n(fixture, function, 2, in, (int)k + 1);
    elements += (double)sizes[k] * (double)(k + 1);
    RELEASE(in[0], in[1]);
  }
  dt_profile_report_t *report = report_of(profile);
  expect_sums(report);
  const dt_profile_variant_t *variant = report->variants[0];
  assert_int_equal(variant->calls, 10);
  assert_true(variant->parts_ns[DT_PROFILE_COMPILE] > 0);
  if (is_compiled()) {
    assert_int_equal(variant->n_kernels, 1);
    const dt_profile_kernel_t *kernel = variant->kernels[0];
    assert_int_equal(kernel->launches, 8); // of 0 elements there is nothing to launch
    assert_int_equal(kernel->sized_launches, 8);
    assert_true(kernel->bytes == 12 * elements);
    assert_true(kernel->flops == elements);
    assert_true(kernel->floor_ns > 0);
    assert_true(kernel->busy_ns > 0); // 2000000 of them are shared by threads
    assert_string_equal(kernel->name, "add");
    assert_string_equal(kernel->sources[0]->op, "add");
    assert_true(kernel->sources[0]->line > 0);
  }
  dt_profile_report_free(report);
  dt_profile_free(profile);
  dt_function_release(function);
}

static dt_status_t chain_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                 void *closure) {
  (void)closure;
  out[0] = dt_softmax(t, dt_matmul(t, dt_neg(t, in[0]), in[1]), -1);
  return NULL;
}

// The product reads what another kernel made, and so on: at least one row is an edge of the graph.
static void test_rows_say_whom_they_read(void **state) {
  fixture_t *fixture = *state;
  const dt_input_decl_t inputs[] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                    {.name = "w", .dtype = DT_F32, .rank = 2}};
  dt_function_options_t options = options_of(2, inputs);
  dt_function_t *function = function_of(fixture, chain_program, NULL, &options);
  dt_tensor_t *in[2] = {tensor_f32(&fixture->rng, 2, SIZES(40, 24)),
                        tensor_f32(&fixture->rng, 2, SIZES(24, 50))};
  dt_profile_t *profile = start(fixture->runtime);
  call_n(fixture, function, 2, in, 3);
  dt_profile_report_t *report = report_of(profile);
  const dt_profile_variant_t *variant = report->variants[0];
  uint32_t edges = 0, products = 0;
  for (uint32_t k = 0; k < variant->n_kernels; k++) {
    for (uint32_t i = 0; i < variant->kernels[k]->n_reads; i++)
      assert_true(variant->kernels[k]->reads[i] < variant->n_kernels);
    edges += variant->kernels[k]->n_reads;
    products += variant->kernels[k]->flops >= 3 * 2.0 * 40 * 24 * 50;
  }
  if (is_compiled()) {
    assert_true(edges > 0);
    assert_int_equal(products, 1);
  }
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(in[0], in[1]);
  dt_function_release(function);
}

// ---- States -----------------------------------------------------------------------------------------

// ---- Kernels that share their code ------------------------------------------------------------------

static int then_line, else_line;

static dt_status_t then_softmax(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  then_line = __LINE__ + 1;
  out[0] = dt_softmax(t, in[0], 1);
  return NULL;
}
static dt_status_t else_softmax(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                void *closure) {
  (void)closure;
  else_line = __LINE__ + 1;
  out[0] = dt_softmax(t, in[1], 1);
  return NULL;
}
static dt_status_t either_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out,
                                  void *closure) {
  dt_value_t some = dt_gt(t, dt_squeeze(t, in[2], 0), dt_scalar(t, DT_F32, 0));
  dt_cond(t, some, then_softmax, else_softmax, closure, 2, in, 1, out);
  return NULL;
}
static const dt_dim_decl_t either_dims[] = {{.name = "rows"}, {.name = "width"}};
static const dt_dim_decl_t one_dim[] = {{.is_static = true, .value = 1}};
static const dt_input_decl_t either_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = either_dims},
    {.name = "y", .dtype = DT_F32, .rank = 2, .dims = either_dims},
    {.name = "flag", .dtype = DT_F32, .rank = 1, .dims = one_dim}};

static uint32_t code_of_line(const dt_profile_variant_t *variant, int line) {
  for (uint32_t k = 0; k < variant->n_kernels; k++)
    for (uint32_t i = 0; i < variant->kernels[k]->n_sources; i++)
      if (variant->kernels[k]->sources[i]->line == line)
        return variant->kernels[k]->code;
  return UINT32_MAX;
}

// How many launches rows have that came from the line.
static uint64_t launches_of(const dt_profile_variant_t *variant, int line) {
  uint64_t launches = 0;
  for (uint32_t k = 0; k < variant->n_kernels; k++)
    for (uint32_t i = 0; i < variant->kernels[k]->n_sources; i++)
      if (variant->kernels[k]->sources[i]->line == line) {
        launches += variant->kernels[k]->launches;
        break;
      }
  return launches;
}

// What the branches compute is the same code: rows are of the branch that was taken.
static void test_rows_are_of_the_branch_taken(void **state) {
  fixture_t *fixture = *state;
  const subject_t subject = {"either", either_program, 3, 1, either_inputs};
  dt_function_t *function = subject_function(fixture->runtime, &subject, NULL, compiled_answer());
  dt_tensor_t *x = tensor_f32(&fixture->rng, 2, SIZES(3, 9));
  dt_tensor_t *flags[2] = {tensor_full(-1, 1, SIZES(1)), tensor_full(1, 1, SIZES(1))};
  uint32_t codes[2] = {0, 1};
  for (uint32_t taken = 0; taken < 2; taken++) {
    dt_tensor_t *in[3] = {x, x, flags[taken]};
    dt_profile_t *profile = start(fixture->runtime);
    call_n(fixture, function, 3, in, 4);
    dt_profile_report_t *report = report_of(profile);
    expect_sums(report);
    if (is_compiled()) {
      uint64_t then_ones = launches_of(report->variants[0], then_line);
      uint64_t else_ones = launches_of(report->variants[0], else_line);
      assert_true((taken ? then_ones : else_ones) >= 4);
      assert_int_equal(taken ? else_ones : then_ones, 0);
      codes[taken] = code_of_line(report->variants[0], taken ? then_line : else_line);
    }
    dt_profile_report_free(report);
    dt_profile_free(profile);
  }
  if (is_compiled())
    assert_int_equal(codes[0], codes[1]);
  RELEASE(x, flags[0], flags[1]);
  dt_function_release(function);
}

static void test_misuse_is_refused(void **state) {
  fixture_t *fixture = *state;
  dt_profile_t *profile = start(fixture->runtime), *second = (dt_profile_t *)1;
  dt_profile_report_t *report = NULL;
  char *text = NULL;
  const dt_profile_options_t many = {.struct_size = sizeof(many), .most_events = UINT32_MAX};
  expect_told(dt_profile_start(fixture->runtime, NULL, &second), DT_E_STATE, "stop it first");
  assert_null(second);
  expect_code(dt_profile_start(NULL, NULL, &second), DT_E_ARGUMENT);
  expect_code(dt_profile_start(fixture->runtime, NULL, NULL), DT_E_ARGUMENT);
  expect_code(dt_profile_start(fixture->runtime, &many, &second), DT_E_ARGUMENT);
  const dt_profile_options_t odd = {.struct_size = sizeof(odd), .flags = 2};
  expect_told(dt_profile_start(fixture->runtime, &odd, &second), DT_E_ARGUMENT, "flags");
  expect_code(dt_profile_stop(NULL), DT_E_ARGUMENT);
  expect_code(dt_profile_report(NULL, &report), DT_E_ARGUMENT);
  expect_code(dt_profile_report(profile, NULL), DT_E_ARGUMENT);
  expect_code(dt_profile_text(profile, (dt_profile_format_t)9, &text), DT_E_ARGUMENT);
  expect_code(dt_profile_text(NULL, DT_PROFILE_TEXT, &text), DT_E_ARGUMENT);
  expect_code(dt_profile_write(profile, DT_PROFILE_TEXT, NULL), DT_E_ARGUMENT);
  expect_code(dt_profile_write(profile, DT_PROFILE_TEXT, "/none/of/this"), DT_E_IO);
  expect_ok(dt_profile_stop(profile));
  expect_ok(dt_profile_stop(profile));
  second = start(fixture->runtime); // the first one is stopped
  expect_ok(dt_profile_stop(profile));
  expect_told(dt_profile_start(fixture->runtime, NULL, &(dt_profile_t *){NULL}), DT_E_STATE, "");
  report = report_of(profile);
  assert_int_equal(report->calls, 0);
  assert_int_equal(report->n_variants, 0);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  dt_profile_free(second);
  dt_profile_free(NULL);
  dt_profile_report_free(NULL);
  assert_string_equal(dt_profile_part_name(DT_PROFILE_GUARDS), "guards");
  assert_string_equal(dt_profile_part_name((dt_profile_part_t)99), "unknown");
}

// A profile outlives the functions and the sessions that it saw, and its maker's runtime.
static void test_it_outlives_what_it_saw(void **state) {
  (void)state;
  fixture_t own = {.runtime = runtime_of(2)};
  own.session = session_of(own.runtime);
  dt_profile_t *profile = start(own.runtime);
  dt_function_t *function =
      subject_function(own.runtime, &softmax_subject, NULL, compiled_answer());
  dt_tensor_t *x = tensor_full(1, 2, SIZES(4, 9));
  call_n(&own, function, 1, &x, 2);
  // Failing calls have no place in it.
  dt_tensor_t *wrong = tensor_full(1, 1, SIZES(4)), *out = NULL;
  dt_status_t status = dt_call(own.session, function, &wrong, 1, &out, 1, NULL);
  assert_non_null(status);
  dt_status_free(status);
  RELEASE(x, wrong);
  dt_function_release(function);
  dt_session_destroy(own.session);
  dt_runtime_release(own.runtime);
  dt_profile_report_t *report = report_of(profile);
  expect_sums(report);
  assert_int_equal(report->calls, 2);
  dt_profile_report_free(report);
  dt_profile_free(profile);
}

// ---- Forms ------------------------------------------------------------------------------------------

static void expect_json(const char *text) {
  const dt_json_limits_t limits = {.depth = 64};
  dt_json_token_t token;
  dt_json_t json;
  expect_ok(dt__json_init(&json, text, strlen(text), "profile", &limits));
  expect_ok(dt__json_skip(&json));
  expect_ok(dt__json_expect(&json, DT_JSON_END, &token));
  dt__json_fini(&json);
}

// Elements are closed in the order of their opening; texts have no bare marks.
static void expect_page(const char *text) {
  char open[64][16];
  int depth = 0;
  for (const char *at = strchr(text + 1, '<'); at; at = strchr(at + 1, '<')) { // behind DOCTYPE
    const char *end = strchr(at, '>');
    size_t len = strcspn(at + 1 + (at[1] == '/'), " \n/>");
    assert_non_null(end);
    assert_true(len > 0 && len < sizeof(open[0]));
    if (at[1] == '/') {
      assert_true(depth > 0);
      depth--;
      if (strncmp(open[depth], at + 2, len) != 0 || open[depth][len])
        fail_msg("<%s> ends as %.*s", open[depth], (int)len, at + 2);
    } else if (end[-1] != '/') {
      assert_true(depth < 64);
      (void)snprintf(open[depth++], sizeof(open[0]), "%.*s", (int)len, at + 1);
    }
  }
  assert_int_equal(depth, 0);
}

static char *text_of(dt_profile_t *profile, dt_profile_format_t format) {
  char *text = NULL;
  expect_ok(dt_profile_text(profile, format, &text));
  return text;
}

static void expect_part(const char *text, const char *part) {
  if (!strstr(text, part))
    fail_msg("no %s in %.400s", part, text);
}

static void test_forms_are_whole(void **state) {
  fixture_t *fixture = *state;
  const dt_input_decl_t input = {.name = "x", .dtype = DT_F32, .rank = 1};
  dt_function_options_t options = options_of(1, &input);
  options.name = "a<b> & \"c\"\n";
  dt_function_t *function = function_of(fixture, negate_program, NULL, &options);
  dt_tensor_t *x = tensor_full(1, 1, SIZES(900000));
  dt_profile_t *profile = start(fixture->runtime);
  call_n(fixture, function, 1, &x, 4);
  char *table = text_of(profile, DT_PROFILE_TEXT), *json = text_of(profile, DT_PROFILE_JSON);
  char *trace = text_of(profile, DT_PROFILE_TRACE), *page = text_of(profile, DT_PROFILE_HTML);
  expect_part(table, ": 4 calls of ");
  expect_json(json);
  expect_part(json, "\"calls\":4");
  expect_json(trace);
  expect_part(trace, "\"traceEvents\":[");
  expect_part(trace, "\"ph\":\"X\"");
  expect_part(trace, "\"name\":\"compile\"");
  expect_part(trace, "\"name\":\"thread_name\"");
  expect_page(page);
  expect_part(page, "a&#60;b&#62; &#38; &#34;c&#34;");
  if (is_compiled()) {
    expect_part(table, "neg");
    expect_part(trace, "\"cat\":\"kernel\"");
    expect_part(trace, "\"cat\":\"thread\"");
    expect_part(page, "<svg xmlns");
  }
  char folder[FOLDER_BYTES], path[FOLDER_BYTES + 16];
  folder_make(folder);
  (void)snprintf(path, sizeof(path), "%s/p.html", folder);
  expect_ok(dt_profile_write(profile, DT_PROFILE_HTML, path));
  char *written = file_read(path, NULL);
  expect_page(written);
  free(written);
  assert_int_equal(folder_drop(folder), 0);
  dt_text_free(table);
  dt_text_free(json);
  dt_text_free(trace);
  dt_text_free(page);
  dt_profile_free(profile);
  RELEASE(x);
  dt_function_release(function);
}

static void test_forms_by_names(void **state) {
  (void)state;
  static const struct {
    const char *path;
    dt_profile_format_t format;
  } rows[] = {{"a/p.html", DT_PROFILE_HTML},
              {"p.trace.json", DT_PROFILE_TRACE},
              {".trace.json", DT_PROFILE_TRACE},
              {"trace.json", DT_PROFILE_JSON},
              {"p.html.json", DT_PROFILE_JSON},
              {".json", DT_PROFILE_JSON},
              {"p.html/p.txt", DT_PROFILE_TEXT},
              {"json", DT_PROFILE_TEXT},
              {"p.trace.json ", DT_PROFILE_TEXT},
              {"", DT_PROFILE_TEXT},
              {NULL, DT_PROFILE_TEXT}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++)
    if (dt_profile_format_of(rows[k].path) != rows[k].format)
      fail_msg("%s: %d; expected %d", rows[k].path, (int)dt_profile_format_of(rows[k].path),
               (int)rows[k].format);
}

// What compile threads do has its lines, by their names: the quick form, and the best one beside it
// or later; constants that are packed, and the guards.
static void test_compile_threads_have_lines(void **state) {
  (void)state;
  if (!is_compiled())
    skip();
  fixture_t own = {.rng = {7}};
  variable_set("DUCTILE_QUICK", "2"); // the best form is begun later
  const dt_runtime_options_t two = {.struct_size = sizeof(two), .threads = 2, .compile_threads = 2};
  expect_ok(dt_runtime_create(&two, &own.runtime));
  variable_set("DUCTILE_QUICK", NULL);
  own.session = session_of(own.runtime);
  mlp_t mlp;
  mlp_init(&mlp, &own.rng);
  dt_profile_t *profile = start(own.runtime);
  dt_function_t *function = subject_function(own.runtime, &mlp_subject, &mlp, DT_ANSWER_COMPILED);
  dt_tensor_t *x = tensor_f32(&own.rng, 3, SIZES(2, 5, 16));
  call_n(&own, function, 1, &x, 2);
  const dt_prepare_options_t best = {.struct_size = sizeof(best), .form = DT_PREPARE_BEST};
  expect_ok(dt_function_prepare(function, &best));
  call_n(&own, function, 1, &x, 2);
  char *trace = text_of(profile, DT_PROFILE_TRACE);
  expect_json(trace);
  static const char *const parts[] = {
      "\"dt-compile-0\"",    "\"name\":\"passes\"",        "\"name\":\"decompose\"",
      "\"name\":\"inline\"", "\"name\":\"load\"",          "\"name\":\"pack constants\"",
      "\"of\":\"mlp.",       "waits for a compile thread", "\"name\":\"code, quick form\"",
      "\"name\":\"code\"",   "\"name\":\"best forms\"",    "\"name\":\"guards\"",
      "\"dt-later-0\""};
  for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
    expect_part(trace, parts[k]);
  dt_text_free(trace);
  expect_ok(dt_profile_stop(profile));
  dt_tensor_t *y = tensor_f32(&own.rng, 2, SIZES(3, 4));
  dt_function_t *later = subject_function(own.runtime, &softmax_subject, NULL, DT_ANSWER_COMPILED);
  call_n(&own, later, 1, &y, 1); // nobody listens any more
  trace = text_of(profile, DT_PROFILE_TRACE);
  assert_null(strstr(trace, "\"of\":\"softmax"));
  dt_text_free(trace);
  dt_profile_free(profile);
  RELEASE(x, y);
  dt_function_release(function);
  dt_function_release(later);
  dt_session_destroy(own.session);
  dt_runtime_release(own.runtime);
  mlp_fini(&mlp);
}

// The newest events stay; the others are counted.
static void test_events_are_bounded(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function =
      subject_function(fixture->runtime, &add_subject, NULL, compiled_answer());
  dt_tensor_t *in[2] = {tensor_full(1, 1, SIZES(8)), tensor_full(2, 1, SIZES(8))};
  const dt_profile_options_t few = {.struct_size = sizeof(few), .most_events = 10};
  dt_profile_t *profile = NULL;
  expect_ok(dt_profile_start(fixture->runtime, &few, &profile));
  call_n(fixture, function, 2, in, 50);
  dt_profile_report_t *report = report_of(profile);
  assert_int_equal(report->events, 10);
  assert_true(report->dropped_events > 100);
  assert_int_equal(report->calls, 50);
  char *trace = text_of(profile, DT_PROFILE_TRACE);
  expect_json(trace);
  dt_text_free(trace);
  dt_profile_report_free(report);
  dt_profile_free(profile);
  RELEASE(in[0], in[1]);
  dt_function_release(function);
}

// ---- Memory -----------------------------------------------------------------------------------------

// Whatever allocation of a profile fails, its call says so or goes on, and nothing is left.
static void test_memory_fails(void **state) {
  fixture_t *fixture = *state;
  dt_function_t *function =
      subject_function(fixture->runtime, &add_subject, NULL, compiled_answer());
  dt_tensor_t *in[2] = {tensor_full(1, 1, SIZES(8)), tensor_full(2, 1, SIZES(8))};
  dt_tensor_t *out = tensor_full(0, 1, SIZES(8));
  call_n(fixture, function, 2, in, 1);
  bool done = false;
  for (uint64_t n = 1; !done && n < 20000; n += n < 200 ? 1 : 7) {
    dt_profile_t *profile = NULL;
    char *text = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_profile_start(fixture->runtime, NULL, &profile);
    if (!status)
      status = dt_call(fixture->session, function, in, 2, &out, 1, NULL);
    // Recording fails no call; the evaluator takes memory of its own.
    assert_true(!profile || !status || !is_compiled());
    if (!status)
      status = dt_profile_text(profile, (dt_profile_format_t)(n % 4), &text);
    done = dt__heap_fail_at(0, false) < n && !status;
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    dt_status_free(status);
    assert_true(!status == (text != NULL));
    dt_text_free(text);
    dt_profile_free(profile);
  }
  assert_true(done);
  RELEASE(in[0], in[1], out);
  dt_function_release(function);
}

// ---- Threads ----------------------------------------------------------------------------------------

enum { CALLERS = 8 };

typedef struct caller_t {
  dt_runtime_t *runtime;
  dt_function_t *function;
  _Atomic bool *stop;
  _Atomic int wrong; // counted, since cmocka's checks belong to the main thread
  _Atomic uint64_t calls;
  pthread_t thread;
} caller_t;

static void *call_on(void *opaque) {
  caller_t *caller = opaque;
  dt_session_t *session = NULL;
  dt_status_t status = dt_session_create(caller->runtime, NULL, &session);
  dt_tensor_t *in[2] = {tensor_full(1, 1, SIZES(3000)), tensor_full(2, 1, SIZES(3000))};
  while (!status && !atomic_load(caller->stop)) {
    dt_tensor_t *out = NULL;
    status = dt_call(session, caller->function, in, 2, &out, 1, NULL);
    dt_tensor_release(out);
    (void)atomic_fetch_add(&caller->calls, 1);
  }
  caller->wrong += status != NULL;
  dt_status_free(status);
  RELEASE(in[0], in[1]);
  dt_session_destroy(session);
  return NULL;
}

static uint64_t calls_of(const caller_t *callers) {
  uint64_t calls = 0;
  for (int k = 0; k < CALLERS; k++)
    calls += atomic_load(&callers[k].calls);
  return calls;
}

static void wait_for_calls(const caller_t *callers, uint64_t more) {
  uint64_t from = calls_of(callers);
  while (calls_of(callers) < from + more)
    (void)sched_yield();
}

static void test_others_call_meanwhile(void **state) {
  fixture_t *fixture = *state;
  static caller_t callers[CALLERS];
  _Atomic bool stop = false;
  dt_function_t *function =
      subject_function(fixture->runtime, &add_subject, NULL, compiled_answer());
  for (int k = 0; k < CALLERS; k++) {
    callers[k] = (caller_t){.runtime = fixture->runtime, .function = function, .stop = &stop};
    assert_int_equal(pthread_create(&callers[k].thread, NULL, call_on, &callers[k]), 0);
  }
  for (int round = 0; round < 12; round++) {
    dt_profile_t *profile = start(fixture->runtime);
    wait_for_calls(callers, 60);
    char *text = text_of(profile, (dt_profile_format_t)(round % 4));
    dt_text_free(text);
    if (round % 3)
      expect_ok(dt_profile_stop(profile));
    dt_profile_report_t *report = report_of(profile);
    assert_true(report->calls >= 30); // some were under way when it was started
    if (round % 3)
      expect_sums(report);
    dt_profile_report_free(report);
    dt_profile_free(profile); // calls may be recording
  }
  atomic_store(&stop, true);
  for (int k = 0; k < CALLERS; k++) {
    assert_int_equal(pthread_join(callers[k].thread, NULL), 0);
    assert_int_equal(callers[k].wrong, 0);
  }
  dt_function_release(function);
}

#define ALONE(name) TEST_WITH(name, setup, fixture_close)

RUN_TESTS(ALONE(test_calls_and_launches_are_counted), ALONE(test_work_is_that_of_the_sizes),
          ALONE(test_rows_say_whom_they_read), ALONE(test_rows_are_of_the_branch_taken),
          ALONE(test_misuse_is_refused), ALONE(test_it_outlives_what_it_saw),
          ALONE(test_forms_are_whole), TEST(test_forms_by_names),
          TEST(test_compile_threads_have_lines), ALONE(test_events_are_bounded),
          ALONE(test_memory_fails), ALONE(test_others_call_meanwhile))

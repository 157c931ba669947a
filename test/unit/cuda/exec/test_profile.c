// SPDX-License-Identifier: Apache-2.0
// Profiles of compiled programs on a device: rows have their sources, bytes and operations, and the
// time that the fake driver's device needed; the forms have them, too.
#include "test/support/subjects.h"

#include "ductile/profile.h"
#include "frontends/json/json.h"
#include "runtime/base/memory.h"
#include "test/fake_cuda/fake_cuda.h"

#include <stdio.h>
#include <string.h>

#define LAUNCH_NS ((uint64_t)FAKE_KERNEL_NS + FAKE_EVENT_NS)

static const dt_call_options_t as_graph = {.struct_size = sizeof(dt_call_options_t),
                                           .mode = DT_CALL_REDUCE_OVERHEAD};

static void call_n(fixture_t *there, dt_function_t *function, dt_tensor_t *x, int times,
                   const dt_call_options_t *options) {
  for (int k = 0; k < times; k++) {
    dt_tensor_t *out = NULL;
    expect_ok(dt_call(there->session, function, &x, 1, &out, 1, options));
    RELEASE(out);
    expect_ok(dt_step_begin(there->session));
  }
}

static dt_profile_report_t *report_of(dt_profile_t *profile) {
  dt_profile_report_t *report = NULL;
  expect_ok(dt_profile_report(profile, &report));
  return report;
}

typedef struct layers_t {
  fixture_t there;
  mlp_t mlp;
  dt_function_t *function;
  dt_tensor_t *x, *y;
} layers_t;

static void open_layers(layers_t *out) {
  *out = (layers_t){.there = fixture_on(DT_CUDA, 1)};
  layers_t l = *out;
  l.there.rng = (rng_t){31};
  mlp_init(&l.mlp, &l.there.rng);
  l.function = subject_function(l.there.runtime, &mlp_subject, &out->mlp, DT_ANSWER_COMPILED);
  dt_tensor_t *x = tensor_f32(&l.there.rng, 3, SIZES(2, 5, 16));
  dt_tensor_t *y = tensor_f32(&l.there.rng, 3, SIZES(3, 2, 16));
  l.x = tensor_upload(l.there.session, x);
  l.y = tensor_upload(l.there.session, y);
  expect_ok(dt_session_wait(l.there.session));
  RELEASE(x, y);
  *out = l;
}

static void close_layers(layers_t *l) {
  RELEASE(l->x, l->y);
  dt_function_release(l->function);
  mlp_fini(&l->mlp);
  fixture_end(&l->there);
}

static void rows_say_what_they_are(void **state) {
  (void)state;
  layers_t l;
  open_layers(&l);
  dt_profile_t *profile = NULL;
  expect_ok(dt_profile_start(l.there.runtime, NULL, &profile));
  call_n(&l.there, l.function, l.x, 3, NULL);
  call_n(&l.there, l.function, l.y, 2, &as_graph);
  dt_profile_report_t *report = report_of(profile);
  assert_int_equal(report->n_variants, 1);
  const dt_profile_variant_t *variant = report->variants[0];
  assert_string_equal(variant->unknown, "");
  assert_int_equal(variant->shapes, 2);
  assert_int_equal(variant->split_graphs, 2);
  assert_int_equal(variant->n_kernels, stats_of(l.function).kernels);
  double flops = 0;
  for (uint32_t k = 0; k < variant->n_kernels; k++) {
    const dt_profile_kernel_t *kernel = variant->kernels[k];
    assert_int_equal(kernel->launches, 5);
    assert_int_equal(kernel->sized_launches, 5);
    assert_true(kernel->bytes > 0);
    assert_true(kernel->total_ns >= 5 * LAUNCH_NS - 5 && kernel->total_ns <= 5 * LAUNCH_NS + 5);
    assert_true(kernel->n_sources > 0);
    assert_non_null(strstr(kernel->sources[0]->file, "subjects.c"));
    flops += kernel->flops;
  }
  int64_t width = dt_tensor_sizes(l.mlp.w1)[1], out = dt_tensor_sizes(l.mlp.w2)[1];
  double rows = 3 * 10 + 2 * 6;
  assert_true(flops >= rows * 2 * (double)(16 * width + width * out));
  dt_profile_report_free(report);
  dt_profile_free(profile);
  close_layers(&l);
}

// The work of a graph is that of all of its kernels.
static void graphs_have_the_names_of_their_kernels(void **state) {
  (void)state;
  layers_t l;
  open_layers(&l);
  const dt_profile_options_t options[] = {
      {.struct_size = sizeof(options[0])},
      {.struct_size = sizeof(options[0]), .flags = DT_PROFILE_WHOLE_GRAPHS}};
  double bytes[2] = {0}, flops[2] = {0};
  uint32_t kernels = 0;
  for (int whole = 0; whole < 2; whole++) {
    dt_profile_t *profile = NULL;
    expect_ok(dt_profile_start(l.there.runtime, &options[whole], &profile));
    call_n(&l.there, l.function, l.x, 2, &as_graph);
    dt_profile_report_t *report = report_of(profile);
    const dt_profile_variant_t *variant = report->variants[0];
    for (uint32_t k = 0; k < variant->n_kernels; k++) {
      bytes[whole] += variant->kernels[k]->bytes;
      flops[whole] += variant->kernels[k]->flops;
    }
    if (whole) {
      char name[32];
      (void)snprintf(name, sizeof(name), "graph of %u kernels", kernels);
      assert_int_equal(variant->n_kernels, 1);
      assert_string_equal(variant->kernels[0]->name, name);
      assert_true(variant->kernels[0]->n_sources > 1);
    }
    kernels = variant->n_kernels;
    dt_profile_report_free(report);
    dt_profile_free(profile);
  }
  assert_true(bytes[0] > 0 && bytes[0] == bytes[1]);
  assert_true(flops[0] > 0 && flops[0] == flops[1]);
  close_layers(&l);
}

// ---- Forms ------------------------------------------------------------------------------------------

static char *text_of(dt_profile_t *profile, dt_profile_format_t format) {
  char *text = NULL;
  expect_ok(dt_profile_text(profile, format, &text));
  return text;
}

static void expect_part(const char *text, const char *part) {
  if (!strstr(text, part))
    fail_msg("no %s in %.900s", part, text);
}

static void expect_json(const char *text) {
  const dt_json_limits_t limits = {.depth = 64};
  dt_json_token_t token;
  dt_json_t json;
  expect_ok(dt__json_init(&json, text, strlen(text), "profile", &limits));
  expect_ok(dt__json_skip(&json));
  expect_ok(dt__json_expect(&json, DT_JSON_END, &token));
  dt__json_fini(&json);
}

static void forms_have_the_device(void **state) {
  (void)state;
  layers_t l;
  open_layers(&l);
  dt_tensor_t *host = tensor_f32(&l.there.rng, 3, SIZES(2, 5, 16));
  dt_profile_t *profile = NULL;
  expect_ok(dt_profile_start(l.there.runtime, NULL, &profile));
  call_n(&l.there, l.function, host, 2, &as_graph);
  char *table = text_of(profile, DT_PROFILE_TEXT), *json = text_of(profile, DT_PROFILE_JSON);
  char *trace = text_of(profile, DT_PROFILE_TRACE), *page = text_of(profile, DT_PROFILE_HTML);
  expect_part(table, "on the device: ");
  expect_part(table, "copies to it ");
  expect_part(table, "2 graphs were launched kernel by kernel");
  expect_part(table, "matmul");
  expect_json(json);
  expect_part(json, "\"device_calls\":2");
  expect_part(json, "\"to_device\":{\"copies\":2,\"bytes\":1280");
  expect_json(trace);
  expect_part(trace, "CUDA device 0, queue 1");
  expect_part(trace, "\"copy to the device\"");
  expect_part(trace, "\"cat\":\"kernel\"");
  expect_part(trace, "\"cat\":\"queue\"");
  expect_part(page, "<svg xmlns");
  expect_part(page, "on the device: ");
  dt_text_free(table);
  dt_text_free(json);
  dt_text_free(trace);
  dt_text_free(page);
  dt_profile_free(profile);
  RELEASE(host);
  close_layers(&l);
}

RUN_TESTS(TEST(rows_say_what_they_are), TEST(graphs_have_the_names_of_their_kernels),
          TEST(forms_have_the_device))

// SPDX-License-Identifier: Apache-2.0
// Chains: functions and host functions called as one, on a CPU and on a device, in both modes:
// against the evaluator at sizes from 0 on; what is released when; what host functions may do
// wrong.
#include "test/support/subjects.h"
#include "test/support/tensors.h"

#include "ductile/chain.h"
#include "ductile/device.h"
#include "ductile/graphs.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST 64

static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t pair[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                       {.name = "scale", .dtype = DT_F32, .rank = 0}};

// x * x - 1/2, and its sum.
static dt_status_t score(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_sub(t, dt_mul(t, in[0], in[0]), dt_scalar(t, DT_F32, 0.5));
  out[1] = dt_sum(t, out[0], 0, NULL, false);
  return NULL;
}
static dt_status_t weigh(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  out[0] = dt_mul(t, dt_softmax(t, in[0], 0), in[1]);
  return NULL;
}
static const subject_t score_subject = {"score", score, 1, 2, vector};
static const subject_t weigh_subject = {"weigh", weigh, 2, 1, pair};

// What the host functions of a test see and do.
typedef struct host_t {
  int calls, freed;
  dt_status_t (*act)(struct host_t *host, dt_tensor_t **outputs);
  dt_session_t *session;
  dt_chain_t *chain;
  dt_cancel_t *cancel;
  int gone; // tensors that were released
} host_t;

// The positive elements, as a host tensor.
static dt_status_t keep_positive(dt_session_t *session, dt_tensor_t *const *inputs, uint32_t n_in,
                                 dt_tensor_t **outputs, uint32_t n_out, void *closure) {
  host_t *host = closure;
  float all[MOST];
  int64_t n = dt_tensor_count(inputs[0]), kept = 0;
  assert_int_equal(n_in, 1);
  assert_int_equal(n_out, 1);
  assert_null(outputs[0]);
  host->calls++;
  dt_status_t status = dt_tensor_read(session, inputs[0], all, (size_t)n * sizeof(*all));
  for (int64_t k = 0; k < n; k++)
    if (all[k] > 0)
      all[kept++] = all[k];
  if (!status)
    outputs[0] = tensor_from(DT_F32, 1, &kept, all);
  return status;
}

static void count_free(void *closure) { ((host_t *)closure)->freed++; }

#define LINK(...) ((dt_chain_link_t){__VA_ARGS__})
#define FROM(...) ((dt_chain_source_t[]){__VA_ARGS__})

static dt_status_t chain_of(dt_runtime_t *runtime, uint32_t n_inputs, uint32_t n_links,
                            const dt_chain_link_t *links, uint32_t n_results,
                            const dt_chain_source_t *results, dt_chain_t **out) {
  dt_chain_options_t options = {.struct_size = sizeof(options),
                                .n_inputs = n_inputs,
                                .n_links = n_links,
                                .n_results = n_results,
                                .link_size = sizeof(dt_chain_link_t),
                                .name = "router",
                                .links = links,
                                .results = results};
  return dt_chain_create(runtime, &options, out);
}

// score, then keep, then weigh by the sum of the scores: the sum, the weights and what was kept.
static dt_chain_t *router(dt_runtime_t *runtime, dt_answer_t answer, host_t *host) {
  dt_function_t *first = subject_function(runtime, &score_subject, NULL, answer);
  dt_function_t *last = subject_function(runtime, &weigh_subject, NULL, answer);
  const dt_chain_link_t links[] = {
      LINK(.function = first, .inputs = FROM({0, 0}), .n_inputs = 1),
      LINK(.name = "keep", .fn = keep_positive, .closure = host, .closure_free = count_free,
           .inputs = FROM({1, 0}), .n_inputs = 1, .n_outputs = 1),
      LINK(.function = last, .inputs = FROM({2, 0}, {1, 1}), .n_inputs = 2, .n_outputs = 1)};
  dt_chain_t *chain = NULL;
  expect_ok(chain_of(runtime, 1, 3, links, 3, FROM({1, 1}, {3, 0}, {2, 0}), &chain));
  dt_function_release(first); // the chain has them
  dt_function_release(last);
  return chain;
}

// ---- Answers --------------------------------------------------------------------------------------
static void compare(const fixture_t *fixture, dt_session_t *on_host, dt_chain_t *compiled,
                    dt_chain_t *evaluated, int64_t n, rng_t *rng, bool device,
                    const dt_call_options_t *options) {
  dt_tensor_t *x = tensor_f32(rng, 1, &n), *got[3] = {NULL}, *want[3] = {NULL};
  expect_ok(dt_chain_call(on_host, evaluated, &x, 1, want, 3, NULL));
  expect_ok(dt_step_begin(fixture->session));
  expect_ok(dt_chain_call(fixture->session, compiled, &x, 1, got, 3, options));
  for (int k = 0; k < 3; k++) {
    bool here = !device || k == 2; // what a host function gives stays where it is
    dt_tensor_t *back = here ? got[k] : tensor_download(fixture->session, got[k]);
    if (!here)
      dt_tensor_release(got[k]);
    expect_close(back, want[k], 1e-5, 1e-4, "chain");
    dt_tensor_release(back);
  }
  release_tensors(want, 3);
  dt_tensor_release(x);
}

static void test_answers(void **state) {
  (void)state;
  const dt_call_options_t graphs = {.struct_size = sizeof(graphs), .mode = DT_CALL_REDUCE_OVERHEAD};
  for (int form = 0; form < 3; form++) {
    bool device = form > 0;
    fixture_t fixture = fixture_on(device ? DT_CUDA : DT_CPU, 2);
    dt_session_t *on_host = session_of(fixture.runtime);
    host_t host = {0};
    rng_t rng = {7};
    dt_chain_t *compiled = router(fixture.runtime, compiled_answer(), &host);
    dt_chain_t *evaluated = router(fixture.runtime, DT_ANSWER_EVALUATOR, &host);
    if (!device)
      expect_ok(dt_chain_prepare(compiled, NULL));
    const int64_t sizes[] = {5, 0, 1, 17, 64, 5, 17, 1, 0};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
      compare(&fixture, on_host, compiled, evaluated, sizes[k], &rng, device,
              form == 2 ? &graphs : NULL);
    assert_int_equal(host.calls, 2 * 9);
    dt_session_stats_t stats = {.struct_size = sizeof(stats)};
    expect_ok(dt_session_stats(fixture.session, &stats));
    assert_int_equal(stats.graph_calls, form == 2 ? 2 * 9 : 0);
    assert_int_equal(stats.graph_skips, 0);
    assert_true(stats.builds <= 2); // one graph a function serves each size and each step
    dt_chain_release(compiled);
    dt_chain_release(evaluated);
    assert_int_equal(host.freed, 2);
    dt_session_destroy(on_host);
    fixture_end(&fixture);
  }
}

// ---- References -----------------------------------------------------------------------------------
static void note_gone(void *user) { ((host_t *)user)->gone++; }

// A tensor of its own, of which the test hears when it goes.
static dt_status_t make_noted(dt_session_t *session, dt_tensor_t *const *inputs, uint32_t n_in,
                              dt_tensor_t **outputs, uint32_t n_out, void *closure) {
  static float zeros[2];
  static const int64_t two = 2;
  (void)session, (void)inputs, (void)n_in;
  for (uint32_t k = 0; k < n_out; k++) {
    const dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                                   .dtype = DT_F32,
                                   .rank = 1,
                                   .sizes = &two,
                                   .data = zeros,
                                   .release = note_gone,
                                   .user = closure};
    DT_TRY(dt_tensor_create(&desc, &outputs[k]));
  }
  return NULL;
}
// As many tensors as `calls` says are gone; gives back its last input.
static dt_status_t expect_gone(dt_session_t *session, dt_tensor_t *const *inputs, uint32_t n_in,
                               dt_tensor_t **outputs, uint32_t n_out, void *closure) {
  host_t *host = closure;
  (void)session;
  assert_int_equal(host->gone, host->calls);
  for (uint32_t k = 0; k < n_out; k++)
    dt_tensor_retain(outputs[k] = inputs[n_in - 1]);
  return NULL;
}

// Of three tensors one is never read, one last by the first look, and one is a result.
static void test_references(void **state) {
  fixture_t *fixture = *state;
  host_t one = {.calls = 1}, two = {.calls = 2};
  const dt_chain_link_t links[] = {LINK(.fn = make_noted, .closure = &one, .n_outputs = 3),
                                   LINK(.fn = make_noted, .closure = &two, .n_outputs = 3),
                                   LINK(.fn = expect_gone, .closure = &one,
                                        .inputs = FROM({1, 1}, {1, 2}), .n_inputs = 2,
                                        .n_outputs = 1),
                                   LINK(.fn = expect_gone, .closure = &two, .inputs = FROM({0, 0}),
                                        .n_inputs = 1, .n_outputs = 1)};
  dt_chain_t *chain = NULL;
  expect_ok(
      chain_of(fixture->runtime, 1, 4, links, 4, FROM({3, 0}, {4, 0}, {0, 0}, {2, 1}), &chain));
  const int64_t n = 3;
  dt_tensor_t *x = tensor_full(2, 1, &n), *results[4] = {NULL};
  // The unread tensor of link 1, and two of link 2, are gone when the looks come.
  expect_ok(dt_chain_call(fixture->session, chain, &x, 1, results, 4, NULL));
  assert_int_equal(one.gone, 2); // and the one that the first look was the last to read
  assert_int_equal(two.gone, 2);
  assert_ptr_equal(results[1], x);
  assert_ptr_equal(results[2], x);
  release_tensors(results, 4);
  assert_int_equal(one.gone, 3);
  assert_int_equal(two.gone, 3);
  dt_tensor_release(x);
  dt_chain_release(chain);
}

// A result is written where the caller wants it, and goes on to later links from there.
static void test_given_results(void **state) {
  fixture_t *fixture = *state;
  host_t host = {0};
  const int64_t n = 4;
  dt_chain_t *chain = router(fixture->runtime, compiled_answer(), &host);
  dt_tensor_t *x = tensor_full(1, 1, &n), *sum = tensor_empty(DT_F32, 0, NULL);
  dt_tensor_t *weights = tensor_empty(DT_F32, 1, &n), *results[3] = {sum, weights, NULL};
  expect_ok(dt_chain_call(fixture->session, chain, &x, 1, results, 3, NULL));
  assert_ptr_equal(results[0], sum);
  assert_ptr_equal(results[1], weights);
  assert_float_equal(*(float *)dt_tensor_data(sum), 2, 1e-6);
  assert_float_equal(*(float *)dt_tensor_data(weights), 0.5, 1e-6);
  dt_tensor_release(results[2]);
  results[2] = x; // of the host function
  expect_told(dt_chain_call(fixture->session, chain, &x, 1, results, 3, NULL), DT_E_ARGUMENT,
              "chain router: result 2 is made by the host function of link 2: expected no tensor");
  release_tensors((dt_tensor_t *[]){x, sum, weights}, 3);
  dt_chain_release(chain);
}

// A result is written before what lies in its memory is read, or was to be given back.
static void test_given_results_in_the_way(void **state) {
  fixture_t *fixture = *state;
  const int64_t n = 4;
  dt_function_t *score =
      subject_function(fixture->runtime, &score_subject, NULL, compiled_answer());
  const dt_chain_link_t links[] = {LINK(.function = score, .inputs = FROM({0, 0}), .n_inputs = 1),
                                   LINK(.function = score, .inputs = FROM({0, 1}), .n_inputs = 1)};
  dt_chain_t *chain = NULL;
  expect_ok(chain_of(fixture->runtime, 2, 2, links, 2, FROM({1, 0}, {2, 0}), &chain));
  dt_tensor_t *in[2] = {tensor_full(1, 1, &n), tensor_full(2, 1, &n)}, *results[2] = {in[1], NULL};
  expect_told(dt_chain_call(fixture->session, chain, in, 2, results, 2, NULL), DT_E_ARGUMENT,
              "chain router: result 0 overlaps input 1, which is read behind link 1");
  dt_tensor_t *place = tensor_empty(DT_F32, 1, &n);
  results[0] = results[1] = place;
  expect_told(dt_chain_call(fixture->session, chain, in, 2, results, 2, NULL), DT_E_ARGUMENT,
              "chain router: result 1 overlaps result 0");
  results[0] = NULL;
  results[1] = in[0]; // read for the last time by the link before
  expect_ok(dt_chain_call(fixture->session, chain, in, 2, results, 2, NULL));
  release_tensors((dt_tensor_t *[]){in[0], in[1], place, results[0]}, 4);
  dt_chain_release(chain);
  dt_function_release(score);
}

// ---- Failures -------------------------------------------------------------------------------------
static dt_status_t act(dt_session_t *session, dt_tensor_t *const *inputs, uint32_t n_in,
                       dt_tensor_t **outputs, uint32_t n_out, void *closure) {
  host_t *host = closure;
  (void)session, (void)n_out;
  host->calls++;
  if (n_in)
    dt_tensor_retain(outputs[0] = inputs[0]);
  return host->act ? host->act(host, outputs) : NULL;
}
static dt_status_t fails(host_t *host, dt_tensor_t **outputs) {
  (void)host, (void)outputs;
  return DT_FAIL(DT_E_IO, "no such file");
}
static dt_status_t forgets(host_t *host, dt_tensor_t **outputs) {
  (void)host;
  dt_tensor_release(outputs[0]);
  outputs[0] = NULL;
  return NULL;
}
static dt_status_t cancels(host_t *host, dt_tensor_t **outputs) {
  (void)outputs;
  dt_cancel_request(host->cancel);
  return NULL;
}
static dt_status_t destroys(host_t *host, dt_tensor_t **outputs) {
  (void)outputs;
  dt_session_destroy(host->session);
  return NULL;
}
static dt_status_t lets_go(host_t *host, dt_tensor_t **outputs) {
  (void)outputs;
  dt_chain_release(host->chain);
  return NULL;
}
static dt_status_t calls_itself(host_t *host, dt_tensor_t **outputs) {
  dt_tensor_t *result = NULL;
  if (host->calls >= 4)
    return DT_FAIL(DT_E_LIMIT, "deep enough");
  return dt_chain_call(host->session, host->chain, outputs, 1, &result, 1, NULL);
}

// double, act, negate of one vector.
static dt_chain_t *acting(dt_runtime_t *runtime, host_t *host) {
  const subject_t twice = {"twice", double_program, 1, 1, vector};
  const subject_t negate = {"negate", negate_program, 1, 1, vector};
  dt_function_t *first = subject_function(runtime, &twice, NULL, compiled_answer());
  dt_function_t *last = subject_function(runtime, &negate, NULL, compiled_answer());
  const dt_chain_link_t links[] = {LINK(.function = first, .inputs = FROM({0, 0}), .n_inputs = 1),
                                   LINK(.name = "act", .fn = act, .closure = host,
                                        .inputs = FROM({1, 0}), .n_inputs = 1, .n_outputs = 1),
                                   LINK(.function = last, .inputs = FROM({2, 0}), .n_inputs = 1)};
  dt_chain_t *chain = NULL;
  expect_ok(chain_of(runtime, 1, 3, links, 1, FROM({3, 0}), &chain));
  dt_function_release(first);
  dt_function_release(last);
  return chain;
}

static void test_failing_links(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    dt_status_t (*act)(host_t *host, dt_tensor_t **outputs);
    dt_code_t code;
    const char *says;
  } all[] = {{fails, DT_E_IO, "chain router: link 2 (act): no such file"},
             {forgets, DT_E_ARGUMENT, "link 2 (act): output 0 of 1 was not set"},
             {cancels, DT_E_CANCELLED, "chain router: link 3 (negate)"},
             {calls_itself, DT_E_LIMIT, "deep enough"}};
  const int64_t n = 3;
  dt_tensor_t *x = tensor_full(2, 1, &n);
  for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
    dt_cancel_t cancel = {0};
    host_t host = {.act = all[k].act, .session = fixture->session, .cancel = &cancel};
    const dt_call_options_t options = {.struct_size = sizeof(options), .cancel = &cancel};
    dt_tensor_t *result = NULL;
    host.chain = acting(fixture->runtime, &host);
    expect_told(dt_chain_call(fixture->session, host.chain, &x, 1, &result, 1, &options),
                all[k].code, all[k].says);
    assert_null(result);
    host.act = NULL; // and the next call is a call like any
    expect_ok(dt_chain_call(fixture->session, host.chain, &x, 1, &result, 1, NULL));
    assert_float_equal(*(float *)dt_tensor_data(result), -4, 1e-6);
    dt_tensor_release(result);
    dt_chain_release(host.chain);
  }
  dt_tensor_release(x);
}

// A function that refuses what a host function gave.
static void test_refused_value(void **state) {
  fixture_t *fixture = *state;
  const subject_t negate = {"negate", negate_program, 1, 1, vector};
  dt_function_t *last = subject_function(fixture->runtime, &negate, NULL, compiled_answer());
  host_t host = {0};
  const dt_chain_link_t links[] = {
      LINK(.fn = act, .closure = &host, .inputs = FROM({0, 0}), .n_inputs = 1, .n_outputs = 1),
      LINK(.function = last, .inputs = FROM({1, 0}), .n_inputs = 1)};
  dt_chain_t *chain = NULL;
  dt_tensor_t *x = tensor_full(1, 0, NULL), *result = NULL;
  expect_ok(chain_of(fixture->runtime, 1, 2, links, 1, FROM({2, 0}), &chain));
  dt_function_release(last);
  expect_told(dt_chain_call(fixture->session, chain, &x, 1, &result, 1, NULL), DT_E_SHAPE,
              "chain router: link 2 (negate): function negate: ");
  assert_null(result);
  dt_tensor_release(x);
  dt_chain_release(chain);
}

static void test_deadline(void **state) {
  fixture_t *fixture = *state;
  host_t host = {0};
  const int64_t n = 3;
  const dt_call_options_t options = {.struct_size = sizeof(options), .deadline_ns = 1};
  dt_chain_t *chain = acting(fixture->runtime, &host);
  dt_tensor_t *x = tensor_full(2, 1, &n), *result = NULL;
  expect_told(dt_chain_call(fixture->session, chain, &x, 1, &result, 1, &options), DT_E_DEADLINE,
              "chain router");
  assert_int_equal(host.calls, 0);
  dt_tensor_release(x);
  dt_chain_release(chain);
}

// The session and the chain stay for as long as the call is in them.
static void test_destroyed(void **state) {
  (void)state;
  const int64_t n = 3;
  dt_runtime_t *runtime = runtime_of(2);
  dt_tensor_t *x = tensor_full(2, 1, &n), *result = NULL;
  host_t host = {.act = destroys, .session = session_of(runtime)};
  dt_chain_t *chain = acting(runtime, &host);
  expect_told(dt_chain_call(host.session, chain, &x, 1, &result, 1, NULL), DT_E_STATE,
              "link 2 (act): the host function destroyed the session");
  host = (host_t){.act = lets_go, .session = session_of(runtime), .chain = chain};
  expect_ok(dt_chain_call(host.session, chain, &x, 1, &result, 1, NULL));
  dt_tensor_release(result);
  dt_session_destroy(host.session);
  dt_tensor_release(x);
  dt_runtime_release(runtime);
}

// ---- Refusals -------------------------------------------------------------------------------------
static void test_refused_chains(void **state) {
  fixture_t *fixture = *state;
  fixture_t other = fixture_on(DT_CPU, 1);
  const subject_t negate = {"negate", negate_program, 1, 1, vector};
  dt_function_t *f = subject_function(fixture->runtime, &negate, NULL, compiled_answer());
  dt_function_t *foreign = subject_function(other.runtime, &negate, NULL, compiled_answer());
  host_t host = {0};
  const struct {
    dt_chain_link_t second; // the first gives two values
    dt_chain_source_t result;
    dt_code_t code;
    const char *says;
  } all[] = {
      {LINK(.inputs = FROM({0, 0})), {1, 0}, DT_E_ARGUMENT, "link 2: neither a function nor"},
      {LINK(.fn = act, .function = f), {1, 0}, DT_E_ARGUMENT, "both a function and a host"},
      {LINK(.function = foreign, .inputs = FROM({0, 0}), .n_inputs = 1),
       {1, 0},
       DT_E_ARGUMENT,
       "the function belongs to another runtime"},
      {LINK(.function = f), {1, 0}, DT_E_ARGUMENT, "got 0 inputs and 0 outputs; the function has"},
      {LINK(.function = f, .inputs = FROM({0, 0}), .n_inputs = 1, .n_outputs = 2),
       {1, 0},
       DT_E_ARGUMENT,
       "got 1 inputs and 2 outputs; the function has 1 and 1"},
      {LINK(.function = f, .inputs = FROM({0, 0}), .n_inputs = 1, .flags = 1),
       {1, 0},
       DT_E_ARGUMENT,
       "DT_CHAIN_QUEUED is for host functions"},
      {LINK(.fn = act, .flags = 8), {1, 0}, DT_E_UNSUPPORTED, "the flags 0x8 are none"},
      {LINK(.fn = act, .n_inputs = 1), {1, 0}, DT_E_ARGUMENT, "link 2: inputs: NULL"},
      {LINK(.fn = act, .inputs = FROM({2, 0}), .n_inputs = 1),
       {1, 0},
       DT_E_ARGUMENT,
       "link 2: input 0: link 2 is not before it"},
      {LINK(.fn = act, .inputs = FROM({1, 2}), .n_inputs = 1),
       {1, 0},
       DT_E_ARGUMENT,
       "input 0: link 1 has no output 2, but 2"},
      {LINK(.fn = act, .inputs = FROM({0, 1}), .n_inputs = 1),
       {1, 0},
       DT_E_ARGUMENT,
       "the chain (link 0) has no input 1, but 1"},
      {LINK(.fn = act, .n_outputs = UINT32_MAX), {1, 0}, DT_E_LIMIT, "more than 65536 values"},
      {LINK(.fn = act), {3, 0}, DT_E_ARGUMENT, "chain router: result 0: link 3 is not before it"},
      {LINK(.fn = act), {2, 0}, DT_E_ARGUMENT, "result 0: link 2 has no output 0, but 0"},
  };
  for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
    const dt_chain_link_t links[] = {
        LINK(.fn = act, .closure = &host, .closure_free = count_free, .n_outputs = 2),
        all[k].second};
    dt_chain_t *chain = NULL;
    expect_told(chain_of(fixture->runtime, 1, 2, links, 1, &all[k].result, &chain), all[k].code,
                all[k].says);
    assert_null(chain);
  }
  assert_int_equal(host.freed, 0);
  dt_chain_t *chain = NULL;
  dt_chain_options_t none = {.struct_size = sizeof(none)};
  expect_told(dt_chain_create(fixture->runtime, &none, &chain), DT_E_ARGUMENT, "n_links: 0");
  none.n_links = 1;
  expect_told(dt_chain_create(fixture->runtime, &none, &chain), DT_E_ARGUMENT, "links: NULL");
  none.links = &LINK(.fn = act);
  none.n_results = 1;
  expect_told(dt_chain_create(fixture->runtime, &none, &chain), DT_E_ARGUMENT, "results: NULL");
  none.n_links = 5000;
  expect_told(dt_chain_create(fixture->runtime, &none, &chain), DT_E_LIMIT, "5000 links");
  expect_told(dt_chain_create(NULL, &none, &chain), DT_E_ARGUMENT, "runtime: NULL");
  expect_told(dt_chain_create(fixture->runtime, NULL, &chain), DT_E_ARGUMENT, "options: NULL");
  expect_told(dt_chain_create(fixture->runtime, &none, NULL), DT_E_ARGUMENT, "out: NULL");
  dt_function_release(f);
  dt_function_release(foreign);
  fixture_end(&other);
}

static void test_refused_calls(void **state) {
  fixture_t *fixture = *state;
  fixture_t other = fixture_on(DT_CPU, 1);
  host_t host = {0};
  const int64_t n = 2;
  dt_chain_t *chain = acting(fixture->runtime, &host);
  dt_tensor_t *x = tensor_full(2, 1, &n), *none = NULL, *result = NULL;
  dt_session_t *session = fixture->session;
  const dt_call_options_t mode = {.struct_size = sizeof(mode), .mode = (dt_call_mode_t)77};
  expect_told(dt_chain_call(NULL, chain, &x, 1, &result, 1, NULL), DT_E_ARGUMENT, "session: NULL");
  expect_told(dt_chain_call(session, NULL, &x, 1, &result, 1, NULL), DT_E_ARGUMENT, "chain: NULL");
  expect_told(dt_chain_call(session, chain, &x, 2, &result, 1, NULL), DT_E_ARGUMENT,
              "chain router: got 2 inputs and 1 results; expected 1 and 1");
  expect_told(dt_chain_call(session, chain, &x, 1, &result, 0, NULL), DT_E_ARGUMENT, "0 results");
  expect_told(dt_chain_call(session, chain, NULL, 1, &result, 1, NULL), DT_E_ARGUMENT, "inputs");
  expect_told(dt_chain_call(session, chain, &x, 1, NULL, 1, NULL), DT_E_ARGUMENT, "results: NULL");
  expect_told(dt_chain_call(session, chain, &none, 1, &result, 1, NULL), DT_E_ARGUMENT,
              "input 0: NULL");
  expect_told(dt_chain_call(session, chain, &x, 1, &result, 1, &mode), DT_E_ARGUMENT, "call mode");
  expect_told(dt_chain_call(other.session, chain, &x, 1, &result, 1, NULL), DT_E_ARGUMENT,
              "different runtimes");
  expect_told(dt_chain_prepare(NULL, NULL), DT_E_ARGUMENT, "chain: NULL");
  assert_null(result);
  assert_int_equal(host.calls, 0);
  dt_chain_release(NULL);
  dt_chain_retain(NULL);
  dt_tensor_release(x);
  dt_chain_release(chain);
  fixture_end(&other);
}

// ---- Steps ----------------------------------------------------------------------------------------
// A step in the middle ends what came before; who reads it then is told, and which link it is.
static dt_status_t begins_step(host_t *host, dt_tensor_t **outputs) {
  (void)outputs;
  return dt_step_begin(host->session);
}

static void test_steps(void **state) {
  (void)state;
  fixture_t fixture = fixture_on(DT_CUDA, 2);
  const int64_t n = 3;
  host_t host = {.act = begins_step, .session = fixture.session};
  dt_chain_t *chain = acting(fixture.runtime, &host);
  dt_tensor_t *x = tensor_full(2, 1, &n), *result = NULL;
  const dt_call_options_t graphs = {.struct_size = sizeof(graphs), .mode = DT_CALL_REDUCE_OVERHEAD};
  expect_told(dt_chain_call(fixture.session, chain, &x, 1, &result, 1, &graphs), DT_E_STATE,
              "chain router: link 3 (negate): function negate: ");
  dt_tensor_release(x);
  dt_chain_release(chain);
  fixture_end(&fixture);
}

static int setup(void **state) { return fixture_open(state, 2, 11); }

int main(void) {
#define ON_CPU(name) cmocka_unit_test_setup_teardown(name, setup, fixture_close)
  const struct CMUnitTest tests[] = {TEST(test_answers),
                                     ON_CPU(test_references),
                                     ON_CPU(test_given_results),
                                     ON_CPU(test_failing_links),
                                     ON_CPU(test_given_results_in_the_way),
                                     ON_CPU(test_refused_value),
                                     ON_CPU(test_deadline),
                                     TEST(test_destroyed),
                                     ON_CPU(test_refused_chains),
                                     ON_CPU(test_refused_calls),
                                     TEST(test_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

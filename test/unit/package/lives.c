// SPDX-License-Identifier: Apache-2.0
// See lives.h.
#include "test/unit/package/lives.h"

#include <string.h>

// ---- Arguments ------------------------------------------------------------------------------------
static void one_matrix(rng_t *rng, const int64_t *sizes, dt_tensor_t **in) {
  in[0] = tensor_f32(rng, 2, sizes);
}

static void one_cube(rng_t *rng, const int64_t *sizes, dt_tensor_t **in) {
  in[0] = tensor_f32(rng, 3, SIZES(sizes[0], sizes[1], 16));
}

static void one_vector(rng_t *rng, const int64_t *sizes, dt_tensor_t **in) {
  in[0] = tensor_f32(rng, 1, sizes);
}

static void two_vectors(rng_t *rng, const int64_t *sizes, dt_tensor_t **in) {
  in[0] = tensor_f32(rng, 1, sizes);
  in[1] = tensor_f32(rng, 1, sizes);
}

static void norm(rng_t *rng, const int64_t *sizes, dt_tensor_t **in) {
  in[0] = tensor_f32(rng, 2, sizes);
  in[1] = tensor_f32(rng, 1, &sizes[1]);
  in[2] = tensor_f32(rng, 1, &sizes[1]);
}

static void table(rng_t *rng, const int64_t *sizes, dt_tensor_t **in) {
  in[0] = tensor_f32(rng, 2, sizes);
  in[1] = tensor_i64(1, SIZES(3), VALUES(3, 0, 2));
}

life_t lives[N_LIVES] = {
    {&add_subject, NULL, 2, {{5}, {1000}}, two_vectors},
    {&mlp_subject, NULL, 2, {{2, 3}, {5, 40}}, one_cube},
    {&layer_norm_subject, NULL, 2, {{3, 7}, {4, 200}}, norm},
    {&softmax_subject, NULL, 2, {{3, 7}, {40, 129}}, one_matrix},
    {&columns_subject, NULL, 2, {{3, 7}, {400, 65}}, one_matrix},
    {&transpose_subject, NULL, 2, {{3, 7}, {40, 65}}, one_matrix},
    {&gather_subject, NULL, 2, {{4, 5}, {9, 100}}, table},
    {&scale_subject, NULL, 2, {{1}, {333}}, one_vector},
    {&whole_subject, NULL, 2, {{4, 5}, {7, 33}}, table},
};

static mlp_t mlp;
static dt_tensor_t *w3, *w4;

void lives_begin(void) {
  rng_t rng = {11};
  mlp_init(&mlp, &rng);
  w3 = tensor_f32(&rng, 1, SIZES(3));
  w4 = tensor_f32(&rng, 1, SIZES(4));
  for (uint32_t k = 0; k < N_LIVES; k++)
    lives[k].closure = lives[k].subject == &mlp_subject     ? (void *)&mlp
                       : lives[k].subject == &scale_subject ? (void *)w4
                       : lives[k].subject == &whole_subject ? (void *)w3
                                                            : NULL;
}

void lives_end(void) {
  mlp_fini(&mlp);
  RELEASE(w3, w4);
}

// ---- Lives ----------------------------------------------------------------------------------------
dt_function_t *life_function(dt_runtime_t *runtime, const life_t *life) {
  return subject_function(runtime, life->subject, life->closure, DT_ANSWER_COMPILED);
}

uint64_t life_hash(dt_session_t *session, dt_function_t *function, const life_t *life) {
  rng_t rng = {7};
  uint64_t hash = 0;
  for (uint32_t k = 0; k < life->n_sizes; k++) {
    dt_tensor_t *in[4] = {NULL}, *out[4] = {NULL};
    life->arguments(&rng, life->sizes[k], in);
    expect_ok(dt_call(session, function, in, life->subject->n_inputs, out, life->subject->n_outputs,
                      NULL));
    for (uint32_t r = 0; r < life->subject->n_outputs; r++) {
      dt_tensor_t *host = tensor_download(session, out[r]);
      expect_ok(dt_session_wait(session));
      const unsigned char *bytes = dt_tensor_data(host);
      for (size_t i = 0; i < dt_tensor_bytes(host); i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
      RELEASE(host);
    }
    release_tensors(in, 4);
    release_tensors(out, 4);
  }
  return hash;
}

void lives_write(const char *path, const life_t *life, uint32_t n, uint32_t threads,
                 const char *levels) {
  const dt_package_write_options_t options = {.struct_size = sizeof(options), .levels = levels};
  const dt_runtime_options_t with = {
      .struct_size = sizeof(with), .threads = 1, .compile_threads = threads};
  dt_function_t *functions[N_LIVES];
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(&with, &runtime));
  dt_session_t *session = session_of(runtime);
  for (uint32_t k = 0; k < n; k++) {
    functions[k] = life_function(runtime, &life[k]);
    (void)life_hash(session, functions[k], &life[k]);
  }
  expect_ok(dt_package_write(path, functions, n, &options));
  for (uint32_t k = 0; k < n; k++)
    dt_function_release(functions[k]);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

// ---- Packages -----------------------------------------------------------------------------------
dt_package_t *opened(dt_runtime_t *runtime, const char *path) {
  dt_package_t *package = NULL;
  expect_ok(dt_package_open(runtime, path, NULL, &package));
  assert_non_null(package);
  return package;
}

dt_function_t *function_in(dt_package_t *package, const char *name) {
  dt_function_t *function = NULL;
  expect_ok(dt_package_function(package, name, NULL, &function));
  assert_non_null(function);
  return function;
}

dt_status_t branch_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_sym_t size = dt_dim(t, in[0], 0);
  out[0] = dt_sym_true(t, dt_sym_lt(t, size, dt_sym_const(t, 8))) ? dt_neg(t, in[0])
                                                                  : dt_add(t, in[0], in[0]);
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Which bits are the same (docs/testing.md, "Bits"): however many threads run a call, however often
// it is made, in whatever process, with whatever other rows beside it. usage: PROGRAM [WORKER];
// PROGRAM --print prints what all programs answer, as one number.
#include "test/support/subjects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *program_path, *worker_path;

// ---- Programs -------------------------------------------------------------------------------------
// softmax(x xT) x of x[batch, seq, 16]: products of three loops and folds between them.
static dt_status_t attention(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  (void)closure;
  dt_value_t scores = dt_matmul(t, in[0], dt_transpose(t, in[0], 1, 2));
  out[0] = dt_matmul(t, dt_softmax(t, scores, 2), in[0]);
  return NULL;
}

static const dt_dim_decl_t batch_seq[] = {
    {.name = "batch"}, {.name = "seq"}, {.value = 16, .is_static = true}};
static const dt_input_decl_t attention_inputs[] = {
    {.name = "x", .dtype = DT_F32, .rank = 3, .dims = batch_seq}};
static const subject_t attention_subject = {"attention", attention, 1, 1, attention_inputs};

typedef struct bits_case_t {
  const subject_t *subject;
  uint32_t rank;
  int64_t sizes[3];
  bool by_rows; // each row of the first dim is computed from that row alone
} bits_case_t;
static const bits_case_t bits_cases[] = {{&softmax_subject, 2, {67, 1003, 0}, true},
                                         {&mlp_subject, 3, {19, 37, 16}, true},
                                         {&attention_subject, 3, {13, 41, 16}, true},
                                         {&columns_subject, 2, {4099, 35, 0}, false},
                                         {&transpose_subject, 2, {130, 257, 0}, false}};
enum { N_CASES = sizeof(bits_cases) / sizeof(bits_cases[0]) };

static dt_function_t *make(dt_runtime_t *runtime, const subject_t *subject, bool strict,
                           mlp_t *mlp) {
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = subject->name,
                                   .n_inputs = subject->n_inputs,
                                   .n_outputs = 1,
                                   .inputs = subject->inputs,
                                   .strict_fp = strict,
                                   .answer = compiled_answer()};
  dt_function_t *function = NULL;
  expect_ok(dt_function_create(runtime, subject->program, mlp, &options, &function));
  return function;
}

static dt_tensor_t *call(dt_session_t *session, dt_function_t *function, dt_tensor_t *in) {
  dt_tensor_t *out = NULL;
  expect_ok(dt_call(session, function, &in, 1, &out, 1, NULL));
  return out;
}

static size_t bytes_of(const dt_tensor_t *tensor) {
  return (size_t)dt_tensor_count(tensor) * sizeof(float);
}

static void expect_same_bits(const dt_tensor_t *a, const dt_tensor_t *b, const char *what) {
  assert_int_equal(bytes_of(a), bytes_of(b));
  if (memcmp(dt_tensor_data(a), dt_tensor_data(b), bytes_of(a)) != 0)
    fail_msg("%s: other bits", what);
}

// ---- One number of everything -----------------------------------------------------------------------
static uint64_t fold_bytes(uint64_t sum, const unsigned char *at, size_t n) {
  for (size_t i = 0; i < n; i++)
    sum = (sum ^ at[i]) * 1099511628211u;
  return sum;
}

// What all cases answer, by a runtime of `threads` threads; 0: as the environment says. Each is
// called `again` more times.
static uint64_t answers(uint32_t threads, int again) {
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = threads};
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  rng_t rng = {71};
  mlp_t mlp;
  uint64_t sum = 14695981039346656037u;
  expect_ok(dt_runtime_create(&options, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  mlp_init(&mlp, &rng);
  for (uint32_t k = 0; k < 2 * N_CASES; k++) {
    const bits_case_t *c = &bits_cases[k / 2];
    dt_function_t *function = make(runtime, c->subject, k % 2, &mlp);
    dt_tensor_t *in = tensor_f32(&rng, c->rank, c->sizes), *out = call(session, function, in);
    for (int repeat = 0; repeat < again; repeat++) {
      dt_tensor_t *other = call(session, function, in);
      expect_same_bits(other, out, c->subject->name);
      dt_tensor_release(other);
    }
    sum = fold_bytes(sum, dt_tensor_data(out), bytes_of(out));
    RELEASE(in, out);
    dt_function_release(function);
  }
  mlp_fini(&mlp);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return sum;
}

static void test_threads(void **state) {
  (void)state;
  uint64_t one = answers(1, 5);
  static const uint32_t threads[] = {3, 16};
  for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++)
    assert_int_equal(answers(threads[k], 5), one);
}

// What a process of its own, with `setting` in its environment, prints.
static uint64_t answers_of_process(const char *setting) {
  char command[8192], line[64] = "";
  (void)snprintf(command, sizeof(command), "%s '%s' --print", setting, program_path);
  FILE *out = popen(command, "r"); // NOLINT(cert-env33-c)
  assert_non_null(out);
  assert_non_null(fgets(line, sizeof(line), out));
  assert_int_equal(pclose(out), 0);
  return strtoull(line, NULL, 16);
}

static void test_processes(void **state) {
  (void)state;
  uint64_t here = answers(0, 1);
  assert_int_equal(answers_of_process(""), here);
  assert_int_equal(answers_of_process("DUCTILE_THREADS=5 DUCTILE_COMPILE_THREADS=3 "
                                      "DUCTILE_VERIFY=1 MALLOC_PERTURB_=165"),
                   here);
  assert_int_equal(answers_of_process("DUCTILE_QUICK=2"), here);
  if (!worker_path)
    return;
  static const char *const forms[] = {"0", "2"};
  for (size_t k = 0; k < 2; k++) {
    char setting[4200];
    (void)snprintf(setting, sizeof(setting),
                   "DUCTILE_QUICK=%s DUCTILE_ISOLATION=worker DUCTILE_WORKER='%s'", forms[k],
                   worker_path);
    assert_int_equal(answers_of_process(setting), here);
  }
}

// ---- Rows beside others -----------------------------------------------------------------------------
// Row i of `whole` against the answer to row i alone, and to the first i + 1.
static void check_rows(fixture_t *f, dt_function_t *function, const bits_case_t *c, dt_tensor_t *in,
                       dt_tensor_t *whole) {
  int64_t rows = c->sizes[0], sizes[3] = {1, c->sizes[1], c->sizes[2]};
  size_t in_bytes = bytes_of(in) / (size_t)rows, out_bytes = bytes_of(whole) / (size_t)rows;
  for (int64_t i = 0; i < rows; i++)
    for (int first = 0; first < 2; first++) {
      sizes[0] = first ? i + 1 : 1;
      dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                               .dtype = DT_F32,
                               .rank = c->rank,
                               .sizes = sizes,
                               .data =
                                   (char *)dt_tensor_data(in) + (first ? 0 : (size_t)i * in_bytes)};
      dt_tensor_t *part = NULL;
      expect_ok(dt_tensor_create(&desc, &part));
      dt_tensor_t *out = call(f->session, function, part);
      const char *got = (const char *)dt_tensor_data(out) + (first ? (size_t)i * out_bytes : 0);
      if (memcmp(got, (const char *)dt_tensor_data(whole) + (size_t)i * out_bytes, out_bytes) != 0)
        fail_msg("%s: row %d of %d has other bits than among %d", c->subject->name, (int)i,
                 (int)sizes[0], (int)rows);
      RELEASE(out, part);
    }
}

static void test_batches(void **state) {
  fixture_t *f = *state;
  mlp_t mlp;
  mlp_init(&mlp, &f->rng);
  for (uint32_t k = 0; k < N_CASES; k++) {
    const bits_case_t *c = &bits_cases[k];
    if (!c->by_rows)
      continue;
    dt_function_t *function = make(f->runtime, c->subject, true, &mlp);
    dt_tensor_t *in = tensor_f32(&f->rng, c->rank, c->sizes),
                *whole = call(f->session, function, in);
    check_rows(f, function, c, in, whole);
    RELEASE(in, whole);
    dt_function_release(function);
  }
  mlp_fini(&mlp);
}

static int setup(void **state) { return fixture_open(state, 2, 73); }

int main(int argc, char **argv) {
  program_path = argv[0];
  if (argc > 1 && strcmp(argv[1], "--print") == 0) {
    printf("%llx\n", (unsigned long long)answers(0, 1));
    return 0;
  }
  worker_path = argc > 1 ? argv[1] : NULL;
  const struct CMUnitTest tests[] = {TEST(test_threads), TEST(test_processes),
                                     TEST_WITH(test_batches, setup, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Every log channel of the table prints what it is for, and no other does: the life of a program
// that gives each something to tell, once for each channel, on the CPU and on the fake driver. The
// same for what can be dumped.
#include "test/support/fixture.h"

#include "ductile/pass.h"
#include "runtime/base/log.h"
#include "test/support/folder.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define CHANNEL(id, name, doc) name,
#include "runtime/base/channels.def"
};

// ---- What was printed -----------------------------------------------------------------------------
static uint32_t counts[DT_LOG_COUNT], others;

static void count(void *user, const char *line, size_t len) {
  static const char head[] = "ductile [";
  (void)user;
  if (len < sizeof(head) || memcmp(line, head, sizeof(head) - 1) != 0) {
    others++;
    return;
  }
  line += sizeof(head) - 1;
  for (int k = 0; k < DT_LOG_COUNT; k++) {
    size_t n = strlen(names[k]);
    if (strncmp(line, names[k], n) == 0 && line[n] == ']') {
      counts[k]++;
      return;
    }
  }
  others++;
}

// ---- A life ---------------------------------------------------------------------------------------
// Folds (a product with one), fusion, a temporary with memory in the block (a product of matrices),
// and sizes that change.
static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static dt_status_t program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure) {
  const int32_t first[] = {0};
  (void)closure;
  dt_value_t x = dt_exp(t, dt_mul(t, in[0], dt_scalar(t, DT_F32, 1)));
  dt_value_t all = dt_matmul(t, dt_unsqueeze(t, x, 1), dt_unsqueeze(t, x, 0));
  out[0] = dt_tanh(t, dt_sum(t, all, 1, first, false));
  return NULL;
}

static void call(dt_session_t *session, dt_function_t *function, int64_t n, dt_call_mode_t mode) {
  rng_t rng = {5};
  dt_tensor_t *x = tensor_f32(&rng, 1, &n), *out = NULL;
  dt_call_options_t how = {.struct_size = sizeof(how), .mode = mode};
  expect_ok(dt_call(session, function, &x, 1, &out, 1, &how));
  expect_ok(dt_session_wait(session));
  RELEASE(out, x);
}

// A pass that makes a node.
static dt_status_t pass(dt_rewriter_t *rewriter, void *closure) {
  (void)closure;
  (void)dt_scalar(dt_rewriter_trace(rewriter), DT_F32, 2);
  return NULL;
}

static void live(const char *log) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *host = NULL, *device = NULL;
  dt_function_t *function = NULL;
  dt_runtime_options_t options = {.threads = 2, .compile_threads = 1};
  dt_session_options_t on = {.struct_size = sizeof(on), .device = DT_CUDA};
  dt_function_options_t about = {.struct_size = sizeof(about),
                                 .name = "f",
                                 .n_inputs = 1,
                                 .inputs = vector,
                                 .n_outputs = 1,
                                 .dynamic = DT_DYNAMIC_AUTOMATIC};
  variable_set("DUCTILE_LOG", log);
  expect_ok(dt_runtime_create(&options, &runtime));
  expect_ok(dt_runtime_add_pass(runtime, DT_POINT_TRACED, pass, NULL,
                                &(dt_pass_options_t){.name = "pass"}));
  expect_ok(dt_session_create(runtime, NULL, &host));
  expect_ok(dt_session_create(runtime, &on, &device));
  expect_ok(dt_function_create(runtime, program, NULL, &about, &function));
  call(host, function, 5, DT_CALL_PLAIN);
  call(host, function, 7, DT_CALL_PLAIN);
  call(device, function, 7, DT_CALL_REDUCE_OVERHEAD);
  dt_function_release(function);
  dt_session_destroy(host);
  dt_session_destroy(device);
  dt_runtime_release(runtime);
}

static void test_channels(void **state) {
  (void)state;
  dt_log_sink_set(count, NULL);
  variable_set("DUCTILE_CACHE_DIR", "/dev/null"); // no folder: the log says why nothing is kept
  for (int k = 0; k < DT_LOG_COUNT; k++) {
    char log[64];
    (void)snprintf(log, sizeof(log), "%s:2", names[k]);
    memset(counts, 0, sizeof(counts));
    live(log);
    for (int i = 0; i < DT_LOG_COUNT; i++)
      if ((counts[i] > 0) != (i == k))
        fail_msg("DUCTILE_LOG=%s: %u lines of %s", log, counts[i], names[i]);
  }
  assert_int_equal(others, 0);
  memset(counts, 0, sizeof(counts));
  live("");
  for (int i = 0; i < DT_LOG_COUNT; i++)
    assert_int_equal(counts[i], 0);
  variable_set("DUCTILE_CACHE_DIR", "");
  dt_log_sink_set(NULL, NULL);
}

// ---- Dumps ----------------------------------------------------------------------------------------
// Removes the folder; how many files it had.
static uint32_t take_files(const char *folder) {
  uint32_t n = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) {
    char path[512];
    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    assert_int_equal(unlink(path), 0);
    n++;
  }
  (void)closedir(dir);
  assert_int_equal(rmdir(folder), 0);
  return n;
}

static void test_dumps(void **state) {
  static const char *const dumped[] = {"graph", "fused",  "loops", "llvm",
                                       "ptx",   "guards", "fold",  "all"};
  (void)state;
  for (size_t k = 0; k < sizeof(dumped) / sizeof(dumped[0]); k++) {
    char folder[FOLDER_BYTES];
    folder_make(folder);
    variable_set("DUCTILE_DUMP", dumped[k]);
    variable_set("DUCTILE_DUMP_DIR", folder);
    live("");
    if (take_files(folder) == 0)
      fail_msg("DUCTILE_DUMP=%s wrote no file", dumped[k]);
  }
  variable_set("DUCTILE_DUMP", NULL);
  variable_set("DUCTILE_DUMP_DIR", NULL);
}

RUN_TESTS(TEST(test_channels), TEST(test_dumps))

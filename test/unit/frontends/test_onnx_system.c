// SPDX-License-Identifier: Apache-2.0
// A model's life (opened with external data, compiled, called, its profile saved and loaded, stages
// dumped) in which the n-th file operation, mapping or thread creation fails, for each n: a status
// or a right answer, the same objects go on working afterwards, and nothing stays open or mapped.
#include "test/unit/frontends/onnx_rig.h"

#include "runtime/base/log.h"
#include "runtime/base/system.h"
#include "test/support/folder.h"
#include "test/support/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[FOLDER_BYTES];

static const char *in_folder(const char *name) {
  static char path[400];
  (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

static const float weights[2][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};

static void ignore(void *user, const char *line, size_t len) { (void)user, (void)line, (void)len; }

static int setup(void **state) {
  (void)state;
  folder_make(folder);
  onnx_bytes_t bytes = onnx_make(
      &dt__onnx_model_message,
      "ir_version 8 opset_import { version 17 } graph { name 'g' "
      "initializer { name 'a' data_type 1 dims 4 data_location 1 external_data { key 'location' "
      "value "
      "'a.bin' } } "
      "initializer { name 'b' data_type 1 dims 4 data_location 1 external_data { key 'location' "
      "value "
      "'b.bin' } external_data { key 'offset' value '16' } external_data { key 'checksum' value "
      "'666895789489475b19ce6b6c6c169645090c86be' } } " INPUT("x", "1", OPEN("n") SIZE(4))
          OUTPUT("y") "node { op_type 'Mul' input 'x' input 'a' output 'm' } "
                      "node { op_type 'Add' input 'm' input 'b' output 'y' } }");
  file_write(in_folder("m.onnx"), bytes.data, bytes.len);
  onnx_free(&bytes);
  file_write(in_folder("a.bin"), weights[0], sizeof(weights[0]));
  float padded[12] = {0};
  memcpy(padded + 4, weights[1], sizeof(weights[1]));
  file_write(in_folder("b.bin"), padded, sizeof(padded));
  dt_log_sink_set(ignore, NULL); // a dump that fails is told
  (void)alarm(500);
  variable_set("DUCTILE_DUMP", "graph");
  variable_set("DUCTILE_DUMP_DIR", in_folder("dump/of"));
  variable_set("DUCTILE_WARM_MIB", "0");
  return 0;
}

static int teardown(void **state) {
  (void)state;
  (void)alarm(0);
  dt_log_sink_set(NULL, NULL);
  return folder_drop(folder);
}

// ---- A life ---------------------------------------------------------------------------------------
typedef struct life_t {
  dt_onnx_t *model;
  dt_runtime_t *runtime;
  dt_session_t *session;
  dt_function_t *function;
} life_t;

static dt_status_t call(life_t *life, int64_t rows) {
  rng_t rng = {7};
  dt_tensor_t *x = tensor_f32(&rng, 2, (int64_t[]){rows, 4}), *y = NULL;
  dt_status_t status = dt_call(life->session, life->function, &x, 1, &y, 1, NULL);
  for (int64_t k = 0; !status && k < 4 * rows; k++) {
    float expected = ((float *)dt_tensor_data(x))[k] * weights[0][k % 4] + weights[1][k % 4];
    float off = ((float *)dt_tensor_data(y))[k] - expected;
    if (!(off < 1e-4f && off > -1e-4f))
      fail_msg("element %d: off by %g", (int)k, (double)off);
  }
  dt_tensor_release(x);
  dt_tensor_release(y);
  return status;
}

static dt_status_t begin(life_t *life, dt_answer_t answer, dt_onnx_access_t access) {
  dt_runtime_options_t options = {
      .struct_size = sizeof(options), .threads = 2, .compile_threads = 1};
  dt_function_options_t about = {.struct_size = sizeof(about), .answer = answer};
  dt_onnx_function_options_t of = {.struct_size = sizeof(of), .function = &about};
  dt_onnx_options_t how = {.struct_size = sizeof(how), .access = access};
  dt_status_t status = dt_onnx_open(in_folder("m.onnx"), &how, &life->model);
  if (!status)
    status = dt_runtime_create(&options, &life->runtime);
  if (!status)
    status = dt_session_create(life->runtime, NULL, &life->session);
  if (!status)
    status = dt_onnx_function_create(life->runtime, life->model, &of, &life->function);
  return status;
}

static dt_status_t live(life_t *life, dt_answer_t answer, dt_onnx_access_t access) {
  dt_status_t status = begin(life, answer, access);
  if (!status)
    status = call(life, 3);
  if (!status)
    status = dt_function_profile_save(life->function, in_folder("p.profile"));
  if (!status)
    status = dt_function_profile_load(life->function, in_folder("p.profile"));
  if (!status)
    status = call(life, 5);
  return status;
}

static void end(life_t *life) {
  dt_function_release(life->function);
  dt_session_destroy(life->session);
  dt_runtime_release(life->runtime);
  dt_onnx_close(life->model);
}

// Whether any call was left to fail.
static bool live_with(dt_system_kind_t kind, uint64_t n, int error, bool sticky, dt_answer_t answer,
                      dt_onnx_access_t access) {
  life_t life = {0};
  long files = process_descriptors();
  (void)dt__system_fail_at(kind, n, error, sticky);
  dt_status_t status = live(&life, answer, access);
  uint64_t made = dt__system_fail_at(kind, 0, 0, false);
  dt_code_t code = dt_status_code(status);
  bool harmless = error == EINTR || error == DT_SYSTEM_SHORT;
  if (code == DT_E_INTERNAL || (harmless && status))
    fail_msg("error %d at operation %d: %s", error, (int)n, dt_status_message(status));
  dt_status_free(status);
  // What there is goes on.
  if (life.function) {
    expect_ok(call(&life, 4));
    expect_ok(dt_function_profile_save(life.function, in_folder("p.profile")));
    expect_ok(dt_function_profile_load(life.function, in_folder("p.profile")));
  }
  end(&life);
  if (process_descriptors() != files)
    fail_msg("error %d at operation %d: %ld files are open, %ld were", error, (int)n,
             process_descriptors(), files);
  DIR *list = opendir(folder);
  for (struct dirent *item; (item = readdir(list));)
    if (strstr(item->d_name, ".tmp") && (!sticky || unlink(in_folder(item->d_name)) != 0))
      fail_msg("error %d at operation %d: %s is left", error, (int)n, item->d_name);
  (void)closedir(list);
  return made >= n;
}

static void fail_each(dt_system_kind_t kind, const int *errors, size_t n_errors, dt_answer_t answer,
                      uint32_t least) {
  long mapped = 0;
  uint32_t most = 0;
  for (dt_onnx_access_t access = DT_ONNX_READ; access <= DT_ONNX_MAP; access++)
    for (size_t e = 0; e < n_errors; e++)
      for (uint64_t n = 1;
           live_with(kind, n, errors[e], errors[e] != EINTR && n % 2 == 0, answer, access); n++) {
        most = n > most ? (uint32_t)n : most;
        mapped = mapped ? mapped : process_mappings();
      }
  print_message("%u operations at most\n", most);
  if (most < least)
    fail_msg("%u operations, expected at least %u", most, least);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they map memory of their own
  if (process_mappings() > mapped + 16)
    fail_msg("%ld mappings, at first %ld", process_mappings(), mapped);
#endif
}

static void test_files(void **state) {
  static const int errors[] = {ENOSPC, EIO, EROFS, ESTALE, EACCES, EINTR, DT_SYSTEM_SHORT};
  (void)state;
  fail_each(DT_SYSTEM_FILE, errors, 7, DT_ANSWER_EVALUATOR, 25);
}

static void test_mappings(void **state) {
  static const int errors[] = {ENOMEM, EACCES};
  (void)state;
  fail_each(DT_SYSTEM_MAPPING, errors, 2, compiled_answer(),
            compiled_answer() == DT_ANSWER_COMPILED ? 8 : 1);
}

static void test_threads(void **state) {
  static const int errors[] = {EAGAIN};
  (void)state;
  fail_each(DT_SYSTEM_THREAD, errors, 1, compiled_answer(), 2);
}

#define IN_FOLDER(name) TEST_WITH(name, setup, teardown)
RUN_TESTS(IN_FOLDER(test_files), IN_FOLDER(test_mappings), IN_FOLDER(test_threads))

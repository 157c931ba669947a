// SPDX-License-Identifier: Apache-2.0
// Threads that read one open ONNX model: a file of external data is loaded once, whoever comes
// first.
#include "test/support/check.h"

#include "frontends/onnx/onnx.h"
#include "runtime/base/life.h"
#include "test/support/folder.h"
#include "test/unit/frontends/onnx_text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_THREADS = 8, BYTES = 1 << 16 };

static void *view(void *arg) {
  dt_onnx_t *file = arg;
  const void *data = NULL;
  dt_status_t status =
      dt__onnx_tensor_view(file, &file->model.graph->initializer.items[0], NULL, &data);
  dt_status_free(status);
  return (void *)(uintptr_t)data;
}

static dt_onnx_t *open_model(const char *folder, onnx_bytes_t *bytes) {
  *bytes =
      onnx_make(&dt__onnx_model_message,
                "ir_version 8 opset_import { version 17 } graph { initializer { name 'w' data_type "
                "2 dims 65536 "
                "data_location 1 external_data { key 'location' value 'w.bin' } } }");
  dt_onnx_t *file = NULL;
  dt_onnx_options_t options = {.data_folder = folder};
  expect_ok(dt_onnx_open_memory(bytes->data, bytes->len, &options, &file));
  return file;
}

static void test_threads(void **state) {
  (void)state;
  char folder[FOLDER_BYTES], path[FOLDER_BYTES + 8];
  pthread_t threads[N_THREADS];
  void *views[N_THREADS], *data = calloc(1, BYTES);
  assert_non_null(data);
  folder_make(folder);
  (void)snprintf(path, sizeof path, "%s/w.bin", folder);
  file_write(path, data, BYTES);
  onnx_bytes_t bytes;
  dt_onnx_t *file = open_model(folder, &bytes);
  for (int k = 0; k < N_THREADS; k++)
    assert_int_equal(pthread_create(&threads[k], NULL, view, file), 0);
  for (int k = 0; k < N_THREADS; k++)
    assert_int_equal(pthread_join(threads[k], &views[k]), 0);
  for (int k = 0; k < N_THREADS; k++)
    assert_true(views[k] && views[k] == views[0]);
  dt_onnx_close(file);
  onnx_free(&bytes);
  assert_int_equal(unlink(path) | rmdir(folder), 0);
  free(data);
}

// An open model spoils no fork: its child reads on, and has the library for itself.
static void test_fork(void **state) {
  (void)state;
  char folder[FOLDER_BYTES], path[FOLDER_BYTES + 8];
  static const char data[BYTES];
  folder_make(folder);
  (void)snprintf(path, sizeof path, "%s/w.bin", folder);
  file_write(path, data, BYTES);
  onnx_bytes_t bytes;
  dt_onnx_t *file = open_model(folder, &bytes);
  pid_t child = fork();
  if (child == 0)
    _exit(!dt__forked() && view(file) ? 0 : 1);
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_int_equal(how, 0);
  dt_onnx_close(file);
  onnx_free(&bytes);
  assert_int_equal(unlink(path) | rmdir(folder), 0);
}

RUN_TESTS(TEST(test_threads), TEST(test_fork))

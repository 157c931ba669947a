// SPDX-License-Identifier: Apache-2.0
// Deadlines and cancelling of opening a model, of making a function of it and of the trace in its
// first call: at each look that these take one ends them, with its status, nothing stays open or
// held, and the next one is right.
#include "test/unit/frontends/onnx_rig.h"

#include "runtime/base/control.h"
#include "runtime/base/thread.h"
#include "test/support/folder.h"
#include "test/support/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MS_NS 1000000
enum { NODES = 3000, SIZES = 400, CALLS = 30, TYPED = 30000, EXTERNAL = 1 << 21 };

static char folder[FOLDER_BYTES];
static int home = -1; // the working folder

// ---- The model ------------------------------------------------------------------------------------
typedef struct page_t {
  char *text;
  size_t len, room;
} page_t;

static void put(page_t *page, const char *fmt, ...) DT_PRINTF(2, 3);
static void put(page_t *page, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(page->text + page->len, page->room - page->len, fmt, args);
  va_end(args);
  assert_true(n >= 0 && page->len + (size_t)n < page->room);
  page->len += (size_t)n;
}

// Every part of a model that takes time: names, nodes that stand before what they read, calls of a
// function, numbers that are folded, elements in typed fields, files with and without a checksum.
static void put_model(page_t *page) {
  put(page, "ir_version 8 opset_import { version 17 } opset_import { domain 'd' version 1 } "
            "graph { name 'g' " INPUT("x", "1", OPEN("n")) OUTPUT("y"));
  put(page, "initializer { name 't' data_type 7 dims %d int64_data [", TYPED);
  for (int k = 0; k < TYPED; k++)
    put(page, " %d", k % 3);
  put(page, "] } initializer { name 'one' data_type 7 dims 1 int64_data 1 } ");
  for (int k = 0; k < 2; k++)
    put(page,
        "initializer { name 'e%d' data_type 2 dims %d data_location 1 external_data { key "
        "'location' value 'e%d.bin' } %s } ",
        k, EXTERNAL, k,
        k ? "external_data { key 'checksum' value '7d76d48d64d7ac5411d714a4bb83f37e3e5b8df6' }"
          : "");
  put(page, "node { op_type 'Expand' input 'v%d' input 's%d' output 'z' } ", NODES, SIZES);
  put(page, "node { op_type 'Identity' input 'one' output 's0' } ");
  for (int k = 0; k < SIZES; k++)
    put(page, "node { op_type 'Mul' input 's%d' input 'one' output 's%d' } ", k, k + 1);
  put(page, "node { op_type 'Identity' input 'x' output 'v0' } ");
  for (int k = 0; k < NODES; k++)
    put(page, "node { op_type '%s' input 'v%d' output 'v%d' } ", k % 2 ? "Neg" : "Identity", k,
        k + 1);
  put(page, "node { op_type 'Identity' input 'z' output 'c0' } ");
  for (int k = 0; k < CALLS; k++)
    put(page, "node { op_type 'F' domain 'd' input 'c%d' output 'c%d' } ", k, k + 1);
  put(page, "node { op_type 'Identity' input 'c%d' output 'y' } } ", CALLS);
  put(page, "functions { name 'F' domain 'd' input 'a' output 'b20' opset_import { version 17 } "
            "node { op_type 'Identity' input 'a' output 'b0' } ");
  for (int k = 0; k < 20; k++)
    put(page, "node { op_type 'Identity' input 'b%d' output 'b%d' } ", k, k + 1);
  put(page, "}");
}

static int setup(void **state) {
  (void)state;
  folder_make(folder);
  home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (home < 0 || chdir(folder) != 0)
    return -1;
  page_t page = {malloc(1 << 20), 0, 1 << 20};
  put_model(&page);
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, page.text);
  free(page.text);
  file_write("m.onnx", bytes.data, bytes.len);
  onnx_free(&bytes);
  void *zeros = calloc(1, EXTERNAL);
  file_write("e0.bin", zeros, EXTERNAL);
  file_write("e1.bin", zeros, EXTERNAL);
  free(zeros);
  (void)alarm(500);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  (void)alarm(0);
  bool back = fchdir(home) == 0;
  (void)close(home);
  return back ? folder_drop(folder) : -1;
}

// ---- One after another ----------------------------------------------------------------------------
static const dt_cancel_t never = {0};

static dt_status_t open_model(dt_onnx_access_t access, const dt_cancel_t *cancel, int64_t deadline,
                              dt_onnx_t **out) {
  dt_onnx_options_t how = {
      .struct_size = sizeof(how), .access = access, .deadline_ns = deadline, .cancel = cancel};
  return dt_onnx_open("m.onnx", &how, out);
}

static dt_status_t make(dt_runtime_t *runtime, dt_onnx_t *model, const dt_cancel_t *cancel,
                        int64_t deadline, dt_function_t **out) {
  dt_function_options_t about = {.struct_size = sizeof(about), .answer = DT_ANSWER_EVALUATOR};
  dt_onnx_function_options_t how = {
      .struct_size = sizeof(how), .function = &about, .deadline_ns = deadline, .cancel = cancel};
  return dt_onnx_function_create(runtime, model, &how, out);
}

static dt_status_t call(dt_session_t *session, dt_function_t *function, const dt_cancel_t *cancel,
                        int64_t deadline) {
  float data[3] = {1, -2, 3};
  int64_t n = 3;
  dt_tensor_desc_t desc = {
      .struct_size = sizeof(desc), .dtype = DT_F32, .rank = 1, .sizes = &n, .data = data};
  dt_tensor_t *x = NULL, *y = NULL;
  dt_call_options_t how = {.struct_size = sizeof(how), .deadline_ns = deadline, .cancel = cancel};
  expect_ok(dt_tensor_create(&desc, &x));
  dt_status_t status = dt_call(session, function, &x, 1, &y, 1, &how);
  assert_int_equal(status == NULL, y != NULL);
  if (!status)
    assert_memory_equal(dt_tensor_data(y), data, sizeof(data)); // an even number of Negs
  dt_tensor_release(y);
  dt_tensor_release(x);
  return status;
}

// Whether the n-th look came: it then ended the work, for that reason.
static bool ended(dt_status_t status, uint64_t n, dt_code_t code, const void *made) {
  bool came = dt__control_end_at(0, DT_OK) >= n;
  if (dt_status_code(status) != (came ? code : DT_OK))
    fail_msg("look %d: %s: %s", (int)n, dt_code_name(dt_status_code(status)),
             dt_status_message(status));
  assert_int_equal(made != NULL, !came);
  dt_status_free(status);
  return came;
}

static dt_code_t code_at(uint64_t n) { return n % 2 ? DT_E_CANCELLED : DT_E_DEADLINE; }

static void expect_least(const char *what, uint64_t looks, uint64_t least) {
  print_message("%s: %d looks\n", what, (int)looks);
  if (looks < least)
    fail_msg("%s: %d looks, expected at least %d", what, (int)looks, (int)least);
}

static void test_open(void **state) {
  (void)state;
  for (dt_onnx_access_t access = DT_ONNX_READ; access <= DT_ONNX_MAP; access++) {
    long files = process_descriptors();
    for (uint64_t n = 1;; n++) {
      dt_onnx_t *model = NULL;
      (void)dt__control_end_at(n, code_at(n));
      dt_status_t status = open_model(access, &never, 0, &model);
      bool came = ended(status, n, code_at(n), model);
      dt_onnx_close(model);
      assert_int_equal(process_descriptors(), files);
      if (!came) {
        expect_least("opening", n - 1, 30);
        break;
      }
    }
  }
}

static void test_function(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 1};
  expect_ok(dt_runtime_create(&options, &runtime));
  uint64_t looks = 0;
  for (uint64_t n = 1;; n++) {
    dt_onnx_t *model = NULL;
    dt_function_t *function = NULL;
    expect_ok(open_model(DT_ONNX_READ, NULL, 0, &model));
    (void)dt__control_end_at(n, code_at(n));
    dt_status_t status = make(runtime, model, &never, 0, &function);
    bool came = ended(status, n, code_at(n), function);
    dt_function_release(function);
    if (came) { // what was read in part is read again
      expect_ok(make(runtime, model, NULL, 0, &function));
      dt_function_release(function);
    }
    dt_onnx_close(model);
    if (!came)
      break;
    looks = n;
  }
  expect_least("making a function", looks, 20);
  dt_runtime_release(runtime);
}

static void test_trace(void **state) {
  (void)state;
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_onnx_t *model = NULL;
  dt_function_t *function = NULL;
  dt_runtime_options_t options = {.struct_size = sizeof(options), .threads = 1};
  expect_ok(dt_runtime_create(&options, &runtime));
  expect_ok(dt_session_create(runtime, NULL, &session));
  expect_ok(open_model(DT_ONNX_READ, NULL, 0, &model));
  uint64_t looks = 0;
  for (uint64_t n = 1;; n += 1 + n / 16) {
    expect_ok(make(runtime, model, NULL, 0, &function)); // a new one, which has not been traced
    (void)dt__control_end_at(n, code_at(n));
    dt_status_t status = call(session, function, &never, 0);
    bool came = ended(status, n, code_at(n), status ? NULL : function);
    expect_ok(call(session, function, NULL, 0));
    dt_function_release(function);
    if (!came)
      break;
    looks = n;
  }
  expect_least("tracing", looks, (NODES + SIZES + 20 * CALLS) / 16 / 2);
  dt_onnx_close(model);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
}

// ---- By the clock, and from other threads ---------------------------------------------------------
static void test_passed(void **state) {
  (void)state;
  dt_onnx_t *model = NULL;
  dt_function_t *function = NULL;
  dt_runtime_t *runtime = NULL;
  dt_cancel_t cancel = {0};
  expect_ok(dt_runtime_create(NULL, &runtime));
  dt_cancel_request(&cancel);
  expect_told(open_model(DT_ONNX_MAP, NULL, dt__now_ns() - 1, &model), DT_E_DEADLINE,
              "m.onnx: the deadline passed");
  expect_told(open_model(DT_ONNX_MAP, &cancel, 0, &model), DT_E_CANCELLED, "m.onnx: cancelled");
  dt_onnx_options_t how = {.struct_size = sizeof(how), .deadline_ns = 1};
  expect_told(dt_onnx_open_memory("no model", 8, &how, &model), DT_E_DEADLINE, "model in memory: ");
  assert_null(model);
  expect_ok(open_model(DT_ONNX_READ, NULL, dt__now_ns() + 400000 * (int64_t)MS_NS, &model));
  expect_told(make(runtime, model, NULL, 1, &function), DT_E_DEADLINE, "m.onnx: the deadline");
  expect_told(make(runtime, model, &cancel, 0, &function), DT_E_CANCELLED, "m.onnx: cancelled");
  assert_null(function);
  dt_cancel_reset(&cancel);
  expect_ok(make(runtime, model, &cancel, 0, &function));
  dt_function_release(function);
  dt_onnx_close(model);
  dt_runtime_release(runtime);
}

typedef struct maker_t {
  dt_runtime_t *runtime;
  dt_onnx_t *model;
  dt_cancel_t cancel;
  int64_t after_ns;
  dt_code_t code;
} maker_t;

static void *make_one(void *opaque) {
  maker_t *maker = opaque;
  dt_function_t *function = NULL;
  dt_status_t status =
      make(maker->runtime, maker->model, &maker->cancel, dt__now_ns() + maker->after_ns, &function);
  maker->code = dt_status_code(status);
  dt_status_free(status);
  dt_function_release(function);
  return NULL;
}

// Functions of one model at once, some of which give up while another reads its data.
static void test_together(void **state) {
  (void)state;
  enum { ROUNDS = 20, MAKERS = 4 };
  dt_runtime_t *runtime = NULL;
  expect_ok(dt_runtime_create(NULL, &runtime));
  for (int round = 0; round < ROUNDS; round++) {
    dt_onnx_t *model = NULL;
    maker_t makers[MAKERS];
    pthread_t threads[MAKERS];
    expect_ok(open_model(DT_ONNX_READ, NULL, 0, &model));
    for (int k = 0; k < MAKERS; k++) {
      makers[k] =
          (maker_t){.runtime = runtime,
                    .model = model,
                    .after_ns = k ? (round * 3 + k) * (int64_t)MS_NS / 8 : 400000 * (int64_t)MS_NS};
      assert_int_equal(pthread_create(&threads[k], NULL, make_one, &makers[k]), 0);
    }
    const struct timespec nap = {.tv_nsec = round * MS_NS / 8};
    (void)nanosleep(&nap, NULL);
    dt_cancel_request(&makers[1].cancel);
    for (int k = 0; k < MAKERS; k++)
      (void)pthread_join(threads[k], NULL);
    assert_int_equal(makers[0].code, DT_OK);
    for (int k = 1; k < MAKERS; k++)
      if (makers[k].code && makers[k].code != DT_E_DEADLINE &&
          !(k == 1 && makers[k].code == DT_E_CANCELLED))
        fail_msg("maker %d: %s", k, dt_code_name(makers[k].code));
    dt_onnx_close(model);
  }
  dt_runtime_release(runtime);
}

#define IN_FOLDER(name) TEST_WITH(name, setup, teardown)
RUN_TESTS(IN_FOLDER(test_open), IN_FOLDER(test_function), IN_FOLDER(test_trace),
          IN_FOLDER(test_passed), IN_FOLDER(test_together))

// SPDX-License-Identifier: Apache-2.0
// Functions that keep a model's f32 weights in bf16, beside those that do not: each has entries and
// forms of its own in the folder of compiled code, the next process finds the same bits, packages
// hold the rounded weights' products, and the two are never taken for each other.
#include "test/support/folder.h"
#include "test/unit/frontends/onnx_rig.h"

#include "ductile/package.h"
#include "runtime/base/log.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 70, DEEP = 300, ROWS = 9 };

static char folder[FOLDER_BYTES], package_path[FOLDER_BYTES + 16];
static float weights[DEEP * WIDE];
static onnx_bytes_t model;
static _Atomic int found, compiled;

static void hear(void *user, const char *line, size_t len) {
  (void)user;
  found += memmem(line, len, "[cache] all of", 14) != NULL;
  compiled += memmem(line, len, "the host program", 16) != NULL;
}

// The text of an initializer is 4 characters a byte.
static void make_model(void) {
  static char text[4 * sizeof weights + 2048];
  rng_t rng = {3};
  int at = snprintf(
      text, sizeof text,
      "ir_version 10 opset_import { version 21 } graph { name 'g' " INPUT(
          "a", "1", OPEN("m") "dim { dim_value %d } ") "initializer { name 'w' "
                                                       "data_type 1 dims %d dims %d raw_data '",
      DEEP, DEEP, WIDE);
  for (size_t k = 0; k < DEEP * WIDE; k++)
    weights[k] = (float)rng_between(&rng, -100000, 100000) / 65536;
  for (size_t k = 0; k < sizeof weights; k++)
    at += snprintf(text + at, sizeof text - (size_t)at, "\\x%02x",
                   ((const unsigned char *)weights)[k]);
  (void)snprintf(text + at, sizeof text - (size_t)at,
                 "' } node { op_type 'MatMul' input 'a' input 'w' output 'y' } " OUTPUT("y") "}");
  model = onnx_make(&dt__onnx_model_message, text);
}

// ---- A process's life -----------------------------------------------------------------------------
typedef struct life_t {
  fixture_t f;
  dt_onnx_t *file;
  dt_tensor_t *in;
} life_t;

static void live(life_t *l) {
  const int64_t sizes[] = {ROWS, DEEP};
  found = compiled = 0;
  variable_set("DUCTILE_LOG", "cache:2,compile:2");
  dt_log_sink_set(hear, NULL);
  *l = (life_t){.f = fixture_on(DT_CPU, 1)};
  l->f.rng = (rng_t){5};
  expect_ok(dt_onnx_open_memory(model.data, model.len, NULL, &l->file));
  l->in = rig_floats(&l->f, 2, sizes);
}

static void end(life_t *l) {
  dt_tensor_release(l->in);
  dt_onnx_close(l->file);
  fixture_end(&l->f);
  dt_log_sink_set(NULL, NULL);
  variable_set("DUCTILE_LOG", NULL);
}

static dt_function_t *onnx_function(const life_t *l, bool bf16, const char *name) {
  const dt_function_options_t about = {.struct_size = sizeof about, .name = name};
  const dt_onnx_function_options_t how = {
      .struct_size = sizeof how, .function = &about, .weights = bf16 ? DT_BF16 : DT_DTYPE_NONE};
  dt_function_t *function = NULL;
  expect_ok(dt_onnx_function_create(l->f.runtime, l->file, &how, &function));
  return function;
}

static void call(const life_t *l, dt_function_t *function, float out[ROWS * WIDE]) {
  dt_tensor_t *result = NULL;
  expect_ok(dt_call(l->f.session, function, &l->in, 1, &result, 1, NULL));
  assert_int_equal(dt_tensor_count(result), ROWS * WIDE);
  memcpy(out, dt_tensor_data(result), ROWS * WIDE * sizeof(float));
  dt_tensor_release(result);
}

static void live_once(bool bf16, float out[ROWS * WIDE]) {
  life_t l;
  live(&l);
  dt_function_t *function = onnx_function(&l, bf16, "g");
  call(&l, function, out);
  dt_function_release(function);
  end(&l);
}

static int count_entries(const char *ending) {
  int n = 0;
  DIR *dir = opendir(folder);
  for (const struct dirent *entry; dir && (entry = readdir(dir));)
    n += strstr(entry->d_name, ending) != NULL;
  if (dir)
    (void)closedir(dir);
  return n;
}

static void begin_folder(void) {
  folder_make(folder);
  variable_set("DUCTILE_CACHE_DIR", folder);
}

static void end_folder(void) {
  variable_set("DUCTILE_CACHE_DIR", "");
  assert_int_equal(folder_drop(folder), 0);
}

// ---- Tests ----------------------------------------------------------------------------------------
// Whichever comes first, the other finds nothing of it, and the next of each all of its own.
static void test_entries(void **state) {
  (void)state;
  static float alone[2][ROWS * WIDE], own[2][ROWS * WIDE], again[ROWS * WIDE];
  for (int bf16 = 0; bf16 < 2; bf16++)
    live_once(bf16, alone[bf16]);
  assert_memory_not_equal(alone[0], alone[1], sizeof alone[0]);
  for (int first = 0; first < 2; first++) {
    begin_folder();
    for (int at = 0; at < 2; at++) {
      int bf16 = at ^ first;
      live_once(bf16, own[bf16]);
      assert_int_equal(found, 0);
      assert_true(compiled > 0);
      assert_int_equal(count_entries(".variant"), at + 1);
      assert_memory_equal(own[bf16], alone[bf16], sizeof own[0]);
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
      live_once(bf16, again);
      assert_int_equal(found, 1);
      assert_int_equal(compiled, 0);
      assert_memory_equal(again, own[bf16], sizeof again);
    }
    end_folder();
  }
}

// Both in one process: neither's packed weights are the other's.
static void test_side_by_side(void **state) {
  (void)state;
  static float alone[2][ROWS * WIDE], got[ROWS * WIDE];
  life_t l;
  for (int bf16 = 0; bf16 < 2; bf16++)
    live_once(bf16, alone[bf16]);
  begin_folder();
  for (int life = 0; life < 2; life++) {
    live(&l);
    dt_function_t *functions[2] = {onnx_function(&l, false, "g"), onnx_function(&l, true, "g")};
    for (int k = 0; k < 6; k++) {
      call(&l, functions[k % 2], got);
      assert_memory_equal(got, alone[k % 2], sizeof got);
    }
    dt_function_release(functions[0]);
    dt_function_release(functions[1]);
    end(&l);
  }
  end_folder();
}

static dt_function_t *function_in(dt_package_t *package, const char *name) {
  dt_function_t *function = NULL;
  expect_ok(dt_package_function(package, name, NULL, &function));
  return function;
}

// A package has each under a name of its own, at whatever bits it has for the level.
static void test_package(void **state) {
  (void)state;
  static float own[2][ROWS * WIDE], got[ROWS * WIDE];
  life_t l;
  begin_folder();
  (void)snprintf(package_path, sizeof package_path, "%s/both.dtp", folder);
  const dt_package_write_options_t how = {.struct_size = sizeof how, .levels = "v2"};
  variable_set("DUCTILE_CPU", "x86-64-v2");
  live(&l);
  dt_function_t *functions[2] = {onnx_function(&l, false, "whole"),
                                 onnx_function(&l, true, "halves")};
  for (int k = 0; k < 2; k++)
    call(&l, functions[k], own[k]);
  expect_ok(dt_package_write(package_path, functions, 2, &how));
  dt_function_release(functions[0]);
  functions[0] = onnx_function(&l, false, "halves"); // one name for both is refused
  expect_told(dt_package_write(package_path, functions, 2, &how), DT_E_ARGUMENT,
              "both named 'halves'");
  dt_function_release(functions[0]);
  dt_function_release(functions[1]);
  end(&l);
  assert_memory_not_equal(own[0], own[1], sizeof own[0]);
  live(&l);
  dt_package_t *package = NULL;
  expect_ok(dt_package_open(l.f.runtime, package_path, NULL, &package));
  functions[0] = function_in(package, "whole");
  functions[1] = function_in(package, "halves");
  dt_package_release(package);
  for (int k = 0; k < 4; k++) {
    call(&l, functions[k % 2], got);
    assert_memory_equal(got, own[k % 2], sizeof got);
  }
  assert_int_equal(compiled, 0);
  dt_function_release(functions[0]);
  dt_function_release(functions[1]);
  end(&l);
  variable_set("DUCTILE_CPU", NULL);
  end_folder();
}

// An update is f32, as the model has it, and is rounded; data in bf16 are refused.
static void test_update(void **state) {
  (void)state;
  static float own[ROWS * WIDE], got[ROWS * WIDE];
  const int64_t sizes[] = {DEEP, WIDE};
  life_t l;
  live(&l);
  dt_function_t *function = onnx_function(&l, true, "g");
  call(&l, function, own);
  dt_tensor_t *half = NULL, *same = NULL, *twice = NULL;
  expect_ok(dt_tensor_create_empty(DT_BF16, 2, sizes, &half));
  memset(dt_tensor_data(half), 0, dt_tensor_bytes(half));
  expect_told(dt_constant_update(function, "w", half), DT_E_DTYPE, "w");
  call(&l, function, got);
  assert_memory_equal(got, own, sizeof got);
  expect_ok(dt_tensor_create_empty(DT_F32, 2, sizes, &same));
  memcpy(dt_tensor_data(same), weights, sizeof weights);
  expect_ok(dt_constant_update(function, "w", same));
  call(&l, function, got);
  assert_memory_equal(got, own, sizeof got);
  expect_ok(dt_tensor_create_empty(DT_F32, 2, sizes, &twice));
  for (size_t k = 0; k < DEEP * WIDE; k++)
    ((float *)dt_tensor_data(twice))[k] = 2 * weights[k]; // rounded to twice what it was
  expect_ok(dt_constant_update(function, "w", twice));
  call(&l, function, got);
  for (size_t k = 0; k < ROWS * WIDE; k++)
    assert_true(got[k] == 2 * own[k]);
  dt_tensor_release(half);
  dt_tensor_release(same);
  dt_tensor_release(twice);
  dt_function_release(function);
  end(&l);
}

static int begin(void **state) {
  (void)state;
  variable_set("DUCTILE_CACHE_DIR", "");
  make_model();
  return 0;
}

static int finish(void **state) {
  (void)state;
  onnx_free(&model);
  return 0;
}

RUN_TESTS_WITH(begin, finish, TEST(test_entries), TEST(test_side_by_side), TEST(test_package),
               TEST(test_update))

// SPDX-License-Identifier: Apache-2.0
// The safetensors reader over real files: both ways of access, alignment, and what cannot be
// opened.
#include "test/support/check.h"

#include "ductile/safetensors.h"
#include "runtime/base/memory.h"
#include "test/support/folder.h"
#include "test/unit/frontends/safetensors_bytes.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[FOLDER_BYTES];
static char path[128];

static int make_folder(void **state) {
  (void)state;
  folder_make(folder);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  return 0;
}

static int drop_folder(void **state) {
  (void)state;
  (void)unlink(path);
  return rmdir(folder); // nothing else was left
}

static const char header[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                             "\"y\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}";

static void expect_failure(dt_code_t code, const char *message) {
  dt_safetensors_t *file = (dt_safetensors_t *)path; // must be nulled
  expect_parts(dt_safetensors_open(path, NULL, &file), code, EACH_OF(message, path));
  assert_null(file);
}

static void test_both_ways(void **state) {
  (void)state;
  bytes_t bytes = bytes_make(header, 19);
  file_write(path, bytes.data, bytes.len);
  for (int access = 0; access < 2; access++) {
    const dt_safetensors_options_t options = {.struct_size = sizeof options,
                                              .access = (dt_safetensors_access_t)access};
    dt_safetensors_t *file = NULL;
    assert_null(dt_safetensors_open(path, &options, &file));
    dt_safetensors_info_t info = {.struct_size = sizeof(info)};
    assert_null(dt_safetensors_find(file, "x", &info));
    assert_int_equal(info.bytes, 16);
    for (unsigned i = 0; i < 16; i++)
      assert_int_equal(((const unsigned char *)info.data)[i], i);
    // Memory of our own begins aligned, wherever the data stood in the file.
    if (access == DT_SAFETENSORS_READ)
      assert_int_equal((uintptr_t)info.data % 64, 0);
    assert_null(dt_safetensors_find(file, "y", &info));
    assert_int_equal(((const unsigned char *)info.data)[2], 18);
    dt_safetensors_close(file);
  }
  bytes_free(&bytes);
}

// What was read stays as it was when the file goes.
static void test_read_is_private(void **state) {
  (void)state;
  bytes_t bytes = bytes_make(header, 19);
  file_write(path, bytes.data, bytes.len);
  dt_safetensors_t *file = NULL;
  assert_null(dt_safetensors_open(path, NULL, &file));
  assert_int_equal(truncate(path, 0), 0);
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  assert_null(dt_safetensors_find(file, "y", &info));
  assert_int_equal(((const unsigned char *)info.data)[0], 16);
  dt_safetensors_close(file);
  bytes_free(&bytes);
}

static void test_no_data(void **state) {
  (void)state;
  bytes_t bytes = bytes_make("{}", 0);
  file_write(path, bytes.data, bytes.len);
  for (int access = 0; access < 2; access++) {
    const dt_safetensors_options_t options = {.access = (dt_safetensors_access_t)access};
    dt_safetensors_t *file = NULL;
    assert_null(dt_safetensors_open(path, &options, &file));
    assert_int_equal(dt_safetensors_count(file), 0);
    dt_safetensors_close(file);
  }
  bytes_free(&bytes);
}

static void test_cannot_open(void **state) {
  (void)state;
  unlink(path);
  expect_failure(DT_E_IO, "No such file");
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_failure(DT_E_IO, "not a regular file");
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_failure(DT_E_IO, "not a regular file");
  assert_int_equal(rmdir(path), 0);
  file_write(path, "", 0);
  expect_failure(DT_E_FORMAT, "0 bytes are too few");
  bytes_t bytes = bytes_make(header, 18);
  file_write(path, bytes.data, bytes.len);
  expect_failure(DT_E_FORMAT, "do not lie in 18 bytes");
  file_write(path, bytes.data, 20);
  expect_failure(DT_E_FORMAT, "in a file of 20: truncated?");
  bytes_free(&bytes);
}

// A sparse file larger than the limit is refused before anything of it is read.
static void test_too_large(void **state) {
  (void)state;
  file_write(path, "", 0);
  if (truncate(path, ((off_t)16 << 30) + 1) != 0)
    skip(); // A file system without sparse files.
  expect_failure(DT_E_LIMIT, "17179869185 bytes, the limit is 17179869184");
  assert_int_equal(truncate(path, 0), 0);
}

static void test_no_memory(void **state) {
  (void)state;
  bytes_t bytes = bytes_make(header, 19);
  file_write(path, bytes.data, bytes.len);
  uint64_t n = 1;
  for (;; n++) {
    dt_safetensors_t *file = NULL;
    dt__heap_fail_at(n, false);
    dt_status_t status = dt_safetensors_open(path, NULL, &file);
    dt__heap_fail_at(0, false);
    if (!status) {
      dt_safetensors_close(file);
      break;
    }
    assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    dt_status_free(status);
  }
  assert_true(n > 3);
  bytes_free(&bytes);
}

RUN_TESTS_WITH(make_folder, drop_folder, TEST(test_both_ways), TEST(test_read_is_private),
               TEST(test_no_data), TEST(test_cannot_open), TEST(test_too_large),
               TEST(test_no_memory))

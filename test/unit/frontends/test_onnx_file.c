// SPDX-License-Identifier: Apache-2.0
// ONNX models in files, with and without external data: what is loaded, and every way out of the
// model's folder, which is refused.
#include "test/support/check.h"

#include "frontends/onnx/onnx.h"
#include "runtime/base/status.h"
#include "runtime/base/system.h"
#include "test/support/folder.h"
#include "test/unit/frontends/onnx_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALL_DATA "0123456789abcdef"
#define SHA1_OF_ALL "fe5567e8d769550852182cdf69d74bb16dff8e29"

static char folder[FOLDER_BYTES]; // of one test; the working folder while it runs
static int before = -1;           // the one from before

static int make_folder(void **state) {
  (void)state;
  folder_make(folder);
  before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return before < 0 || chdir(folder) != 0;
}

static int remove_folder(void **state) {
  (void)state;
  int failed = fchdir(before);
  close(before);
  return failed || folder_drop(folder);
}

// A model at `path` with tensor "w", U8, of `dim` elements, and external data of these keys.
static void write_model(const char *path, int dim, const char *location, const char *more) {
  char text[1024];
  (void)snprintf(
      text, sizeof text,
      "ir_version 8 opset_import { version 17 } graph { name 'g' initializer { name 'w' "
      "data_type 2 dims %d data_location 1 external_data { key 'location' value '%s' } %s "
      "} }",
      dim, location, more);
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  file_write(path, bytes.data, bytes.len);
  onnx_free(&bytes);
}

static void refuse(const char *path, dt_code_t code, const char *text) {
  dt_onnx_t *file = NULL;
  expect_told(dt_onnx_open(path, NULL, &file), code, text);
  assert_null(file);
}

static dt_onnx_t *open_good(const char *path, const dt_onnx_options_t *options) {
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open(path, options, &file));
  return file;
}

static dt_onnx_tensor_t *first(dt_onnx_t *file) { return &file->model.graph->initializer.items[0]; }

static void expect_data(dt_onnx_t *file, const char *expected) {
  const void *data = NULL;
  expect_ok(dt__onnx_tensor_view(file, first(file), NULL, &data));
  assert_int_equal(first(file)->bytes, strlen(expected));
  assert_memory_equal(data, expected, strlen(expected));
}

#define KEY(key, value) "external_data { key '" key "' value '" value "' } "

// ---- What is read ---------------------------------------------------------------------------------
static void test_external(void **state) {
  (void)state;
  assert_int_equal(mkdir("sub", 0700), 0);
  assert_int_equal(mkdir("sub/deep", 0700), 0);
  file_write("w.bin", ALL_DATA, 16);
  file_write("sub/deep/w.bin", "fedcba", 6);
  for (int access = DT_ONNX_READ; access <= DT_ONNX_MAP; access++) {
    dt_onnx_options_t options = {.access = (dt_onnx_access_t)access};
    write_model("m.onnx", 4, "w.bin", KEY("offset", "10") KEY("length", "4") KEY("later", "x"));
    dt_onnx_t *file = open_good("m.onnx", &options);
    expect_data(file, "abcd");
    expect_data(file, "abcd");
    dt_onnx_close(file);
    write_model("m.onnx", 16, "./w.bin", KEY("checksum", SHA1_OF_ALL));
    file = open_good("m.onnx", &options);
    expect_data(file, ALL_DATA);
    dt_onnx_close(file);
    write_model("sub/m.onnx", 6, "deep/w.bin", "");
    char path[128];
    (void)snprintf(path, sizeof path, "%s/sub/m.onnx", folder);
    file = open_good(path, &options);
    expect_data(file, "fedcba");
    dt_onnx_close(file);
  }
}

static void test_other_folder(void **state) {
  (void)state;
  assert_int_equal(mkdir("data", 0700), 0);
  file_write("data/w.bin", "xyz", 3);
  write_model("m.onnx", 3, "w.bin", "");
  refuse("m.onnx", DT_E_IO, "graph.initializer[0]: byte");
  dt_onnx_t *file = open_good("m.onnx", &(dt_onnx_options_t){.data_folder = "data"});
  expect_data(file, "xyz");
  char *text = NULL;
  assert_null(dt_onnx_report_text(file, &text));
  assert_non_null(
      strstr(text, "external files:\n  w.bin: 3 bytes, of which 1 tensors take 3 bytes\n"));
  dt__free(text);
  dt_onnx_close(file);
  file = NULL;
  expect_told(dt_onnx_open("m.onnx", &(dt_onnx_options_t){.data_folder = "nowhere"}, &file),
              DT_E_IO, "nowhere: cannot open the folder");
}

// Tensors in several files, and files of several tensors.
static void write_many(void) {
  onnx_bytes_t bytes = onnx_make(
      &dt__onnx_model_message,
      "ir_version 8 opset_import { version 17 } graph { "
      "initializer { name 'a' data_type 2 dims 2 data_location 1 " KEY(
          "location",
          "two.bin") "} "
                     "initializer { name 'b' data_type 2 dims 3 data_location 1 " KEY("location",
                                                                                      "one.bin")
                         KEY("checksum",
                             SHA1_OF_ALL) "} "
                                          "initializer { name 'c' data_type 2 dims 4 data_location "
                                          "1 " KEY("location", "one.bin") KEY("offset", "4")
                                              KEY("checksum",
                                                  SHA1_OF_ALL) "} "
                                                               "initializer { name 'd' data_type 2 "
                                                               "dims 1 data_location 1 " KEY(
                                                                   "location", "third") "} }");
  file_write("many.onnx", bytes.data, bytes.len);
  onnx_free(&bytes);
  file_write("one.bin", ALL_DATA, 16);
  file_write("two.bin", "xyz", 3);
  file_write("third", "t", 1);
}

static void test_many(void **state) {
  (void)state;
  static const char *const expected[] = {"xy", "012", "4567", "t"};
  char *text = NULL;
  write_many();
  dt_onnx_t *file = open_good("many.onnx", NULL);
  assert_int_equal(file->externals.files.len, 3);
  for (uint32_t k = 0; k < 4; k++) {
    char got[8];
    const dt_onnx_tensor_t *tensor = &file->model.graph->initializer.items[k];
    assert_null(dt__onnx_tensor_copy(file, tensor, NULL, got, strlen(expected[k])));
    assert_memory_equal(got, expected[k], strlen(expected[k]));
  }
  assert_null(dt_onnx_report_json(file, &text));
  assert_non_null(strstr(text, "{\"event\":\"external\",\"path\":\"one.bin\",\"bytes\":16,"
                               "\"tensors\":2,\"tensor_bytes\":7,\"checksum\":true}\n"));
  dt__free(text);
  dt_onnx_close(file);
}

static void test_no_memory(void **state) {
  (void)state;
  write_many();
  for (uint64_t n = 1;; n++) {
    dt_onnx_t *file = NULL;
    const void *data = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_onnx_open("many.onnx", NULL, &file);
    if (!status)
      status = dt__onnx_tensor_view(file, first(file), NULL, &data);
    (void)dt__heap_fail_at(0, false);
    dt_code_t code = dt_status_code(status);
    dt_status_free(status);
    dt_onnx_close(file);
    if (code == DT_OK)
      break;
    assert_int_equal(code, DT_E_NO_MEMORY);
    assert_true(n < 200);
  }
}

static void test_tensor_file(void **state) {
  (void)state;
  onnx_bytes_t bytes =
      onnx_make(&dt__onnx_tensor_message, "name 't' data_type 7 dims 2 int64_data [3 4]");
  file_write("t.pb", bytes.data, bytes.len);
  onnx_free(&bytes);
  dt_onnx_t *file = NULL;
  dt_onnx_tensor_t *tensor = NULL;
  int64_t got[2];
  assert_null(dt__onnx_open_tensor("t.pb", &file, &tensor));
  assert_null(dt__onnx_tensor_copy(file, tensor, NULL, got, sizeof got));
  assert_int_equal(got[0], 3);
  assert_int_equal(got[1], 4);
  dt_onnx_close(file);
  bytes = onnx_make(&dt__onnx_tensor_message,
                    "data_type 1 dims 1 data_location 1 " KEY("location", "w"));
  file_write("t.pb", bytes.data, bytes.len);
  onnx_free(&bytes);
  expect_told(dt__onnx_open_tensor("t.pb", &file, &tensor), DT_E_UNSUPPORTED, "another file");
  expect_told(dt__onnx_open_tensor("nowhere.pb", &file, &tensor), DT_E_IO,
              "nowhere.pb: cannot open");
}

// ---- What is refused ------------------------------------------------------------------------------
static void test_no_file(void **state) {
  (void)state;
  refuse("nowhere.onnx", DT_E_IO, "nowhere.onnx: cannot open: No such file");
  refuse(".", DT_E_IO, "not a regular file");
  assert_int_equal(mkfifo("fifo", 0600), 0);
  refuse("fifo", DT_E_IO, "fifo: not a regular file");
  file_write("empty", "", 0);
  refuse("empty", DT_E_FORMAT, "empty: an empty file is no ONNX model");
}

static void test_bounds(void **state) {
  (void)state;
  file_write("w.bin", ALL_DATA, 16);
  write_model("m.onnx", 17, "w.bin", "");
  refuse("m.onnx", DT_E_FORMAT,
         "m.onnx: graph.initializer[0]: byte 13: tensor \"w\" needs bytes 0 to 17 of external file "
         "\"w.bin\", which has 16");
  write_model("m.onnx", 4, "w.bin", KEY("offset", "13"));
  refuse("m.onnx", DT_E_FORMAT, "needs bytes 13 to 17");
  write_model("m.onnx", 4, "w.bin", KEY("offset", "140737488355328"));
  refuse("m.onnx", DT_E_FORMAT, "needs bytes 140737488355328 to 140737488355332");
  write_model("m.onnx", 0, "w.bin", KEY("offset", "17"));
  refuse("m.onnx", DT_E_FORMAT, "needs bytes 17 to 17");
  write_model("m.onnx", 0, "w.bin", KEY("offset", "16"));
  dt_onnx_close(open_good("m.onnx", NULL));
  dt_onnx_t *file = NULL;
  file_write("large.bin",
             "0123456789012345678901234567890123456789012345678901234567890123456789012345"
             "6789012345678901234567890123456789012345678901234567890123456789",
             140);
  write_model("m.onnx", 4, "large.bin", "");
  expect_told(dt_onnx_open("m.onnx", &(dt_onnx_options_t){.max_file_bytes = 120}, &file),
              DT_E_LIMIT, "external file \"large.bin\" has 140 bytes, the limit is 120");
}

static void test_links(void **state) {
  (void)state;
  assert_int_equal(mkdir("sub", 0700), 0);
  file_write("real.bin", ALL_DATA, 16);
  file_write("sub/real.bin", ALL_DATA, 16);
  assert_int_equal(symlink("real.bin", "soft.bin"), 0);
  assert_int_equal(symlink("sub", "softsub"), 0);
  assert_int_equal(symlink("/proc/self/fd", "magic"), 0);
  assert_int_equal(symlink("nowhere", "dangling"), 0);
  static const char *const links[][2] = {{"soft.bin", "\"soft.bin\" is a symbolic link"},
                                         {"softsub/real.bin", "\"softsub\" is a symbolic link"},
                                         {"magic/0", "\"magic\" is a symbolic link"},
                                         {"dangling", "\"dangling\" is a symbolic link"}};
  for (size_t k = 0; k < sizeof links / sizeof links[0]; k++) {
    write_model("m.onnx", 4, links[k][0], "");
    refuse("m.onnx", DT_E_IO, links[k][1]);
  }
  write_model("m.onnx", 4, "real.bin", "");
  dt_onnx_close(open_good("m.onnx", NULL));
  assert_int_equal(link("real.bin", "hard.bin"), 0);
  refuse("m.onnx", DT_E_IO, "external file \"real.bin\" has 2 names (hard links)");
  // The model itself is where its user says, and its folder is that of this path.
  assert_int_equal(unlink("hard.bin"), 0);
  assert_int_equal(symlink("m.onnx", "link.onnx"), 0);
  dt_onnx_close(open_good("link.onnx", NULL));
}

// What opens files relies on no earlier check of their paths.
static void test_beneath(void **state) {
  (void)state;
  static const char *const paths[] = {"..",
                                      ".",
                                      "",
                                      "../real.bin",
                                      "sub/../real.bin",
                                      "sub/..",
                                      "./real.bin",
                                      "sub//real.bin",
                                      "/etc/passwd",
                                      "sub/"};
  assert_int_equal(mkdir("sub", 0700), 0);
  file_write("real.bin", ALL_DATA, 16);
  file_write("sub/real.bin", ALL_DATA, 16);
  int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
  struct stat st;
  assert_true(at >= 0);
  for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
    dt_status_t status = dt__onnx_open_beneath(at, paths[k], &fd, &st);
    if (!status)
      fail_msg("\"%s\" was opened", paths[k]);
    dt_status_free(status);
    assert_int_equal(fd, -1);
  }
  assert_null(dt__onnx_open_beneath(at, "sub/real.bin", &fd, &st));
  assert_int_equal(st.st_size, 16);
  close(fd);
  close(at);
}

static void test_no_regular_file(void **state) {
  (void)state;
  assert_int_equal(mkdir("sub", 0700), 0);
  file_write("real.bin", ALL_DATA, 16);
  assert_int_equal(mkfifo("fifo", 0600), 0);
  write_model("m.onnx", 4, "sub", "");
  refuse("m.onnx", DT_E_IO, "external file \"sub\" is not a regular file");
  write_model("m.onnx", 4, "fifo", "");
  refuse("m.onnx", DT_E_IO, "external file \"fifo\" is not a regular file");
  write_model("m.onnx", 4, "real.bin/x", "");
  refuse("m.onnx", DT_E_IO, "external file \"real.bin/x\" cannot be opened: Not a directory");
  write_model("m.onnx", 4, "sub/nowhere.bin", "");
  refuse("m.onnx", DT_E_IO, "external file \"sub/nowhere.bin\" cannot be opened: No such file");
  char name[400];
  memset(name, 'n', sizeof name);
  name[300] = '\0';
  write_model("m.onnx", 4, name, "");
  refuse("m.onnx", DT_E_LIMIT, "a name of 300 bytes");
}

static void test_checksum(void **state) {
  (void)state;
  const void *data = NULL;
  file_write("w.bin", "0123456789abcdeF", 16);
  write_model("m.onnx", 4, "w.bin", KEY("checksum", SHA1_OF_ALL));
  dt_onnx_t *file = open_good("m.onnx", NULL); // data are not looked at
  expect_told(dt__onnx_tensor_view(file, first(file), NULL, &data), DT_E_FORMAT,
              "external file \"w.bin\" does not have the checksum");
  assert_null(data);
  dt_onnx_close(file);
  onnx_bytes_t bytes = onnx_make(
      &dt__onnx_model_message,
      "ir_version 8 opset_import { version 17 } graph { "
      "initializer { name 'a' data_type 2 dims 1 data_location 1 " KEY("location", "w.bin") KEY(
          "checksum", SHA1_OF_ALL) "} "
                                   "initializer { name 'b' data_type 2 dims 1 data_location 1 " KEY(
                                       "location", "w.bin") "} }");
  file_write("m.onnx", bytes.data, bytes.len);
  onnx_free(&bytes);
  refuse("m.onnx", DT_E_FORMAT,
         "graph.initializer[1]: byte 94: external file \"w.bin\": tensors give");
}

static void test_changed(void **state) {
  (void)state;
  const void *data = NULL;
  file_write("w.bin", ALL_DATA, 16);
  write_model("m.onnx", 4, "w.bin", "");
  dt_onnx_t *file = open_good("m.onnx", NULL);
  file_write("w.bin", ALL_DATA, 15);
  expect_told(dt__onnx_tensor_view(file, first(file), NULL, &data), DT_E_IO, "open the model anew");
  assert_int_equal(unlink("w.bin"), 0);
  expect_told(dt__onnx_tensor_view(file, first(file), NULL, &data), DT_E_IO, "No such file");
  file_write("other.bin", ALL_DATA, 16);
  assert_int_equal(symlink("other.bin", "w.bin"), 0);
  expect_told(dt__onnx_tensor_view(file, first(file), NULL, &data), DT_E_IO, "symbolic link");
  dt_onnx_close(file);
}

// A model of U8 tensors of four bytes each in these places of files.
typedef struct in_file_t {
  const char *path;
  unsigned long long offset;
  const char *checksum; // or NULL
} in_file_t;

static void write_places(const char *path, const in_file_t *places, size_t n) {
  char text[4096];
  int at = snprintf(text, sizeof text, "ir_version 8 opset_import { version 17 } graph { ");
  for (size_t k = 0; k < n; k++)
    at +=
        snprintf(text + at, sizeof text - (size_t)at,
                 "initializer { name 'w%zu' data_type 2 dims 4 data_location 1 external_data { key "
                 "'location' value '%s' } external_data { key 'offset' value '%llu' } %s%s%s } ",
                 k, places[k].path, places[k].offset,
                 places[k].checksum ? "external_data { key 'checksum' value '" : "",
                 places[k].checksum ? places[k].checksum : "", places[k].checksum ? "' }" : "");
  (void)snprintf(text + at, sizeof text - (size_t)at, "}");
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  file_write(path, bytes.data, bytes.len);
  onnx_free(&bytes);
}

// A file of that size, mostly a hole.
static void write_hole(const char *path, uint64_t size, const in_file_t *places, size_t n) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)size), 0);
  for (size_t k = 0; k < n; k++) {
    char data[24];
    (void)snprintf(data, sizeof data, "%04zu", k);
    assert_int_equal(pwrite(fd, data, 4, (off_t)places[k].offset), 4);
  }
  assert_int_equal(close(fd), 0);
}

static void expect_places(dt_onnx_t *file, size_t n) {
  for (size_t k = n; k-- > 0;) {
    char expected[24];
    const void *data = NULL;
    (void)snprintf(expected, sizeof expected, "%04zu", k);
    expect_ok(dt__onnx_tensor_view(file, &file->model.graph->initializer.items[k], NULL, &data));
    assert_memory_equal(data, expected, 4);
  }
}

// Of a file far larger than its tensors only what they use is held.
static void test_ranges(void **state) {
  static const in_file_t places[] = {{"big.bin", (uint64_t)12 << 30, NULL},
                                     {"big.bin", 0, NULL},
                                     {"big.bin", 4, NULL},
                                     {"big.bin", 65000, NULL},
                                     {"big.bin", ((uint64_t)8 << 30) + 3, NULL},
                                     {"big.bin", ((uint64_t)8 << 30) + 300000, NULL}};
  (void)state;
  write_hole("big.bin", ((uint64_t)12 << 30) + 4, places, 6);
  write_places("m.onnx", places, 6);
  for (dt_onnx_access_t access = DT_ONNX_READ; access <= DT_ONNX_MAP; access++) {
    dt_onnx_t *file = open_good("m.onnx", &(dt_onnx_options_t){.access = access});
    expect_places(file, 6);
    const dt_onnx_external_t *external = &file->externals.files.items[0];
    uint64_t held = 0;
    assert_int_equal(external->n_ranges, 4);
    for (uint32_t k = 0; k < external->n_ranges; k++)
      held += external->ranges[k].content.bytes;
    assert_true(held < 90000);
    assert_int_equal(external->file_bytes, ((uint64_t)12 << 30) + 4);
    assert_int_equal(file->externals.bytes, 65004 + 4 + 4 + 4);
    dt_onnx_close(file);
  }
}

static void test_limit_of_all(void **state) {
  static const in_file_t places[] = {{"a.bin", 0, NULL}, {"b.bin", 9, NULL}, {"b.bin", 11, NULL}};
  (void)state;
  dt_onnx_t *file = NULL;
  write_hole("a.bin", 16, places, 1);
  write_hole("b.bin", 20, places, 0);
  write_places("m.onnx", places, 3);
  dt_onnx_close(open_good("m.onnx", &(dt_onnx_options_t){.max_external_bytes = 10}));
  expect_told(dt_onnx_open("m.onnx", &(dt_onnx_options_t){.max_external_bytes = 9}, &file),
              DT_E_LIMIT,
              "external file \"b.bin\" of 20 bytes: tensors take 6 bytes of it and 4 of files "
              "before it; the limit of all is 9");
  assert_null(file);
  // Without memory, or cut while it is read: file, place and length are told.
  const void *data = NULL;
  file = open_good("m.onnx", NULL);
  const dt_onnx_tensor_t *last = &file->model.graph->initializer.items[2];
  (void)dt__heap_fail_at(1, false);
  dt_status_t status = dt__onnx_tensor_view(file, last, NULL, &data);
  (void)dt__heap_fail_at(0, false);
  expect_told(status, DT_E_NO_MEMORY,
              "m.onnx: external file \"b.bin\" of 20 bytes: no memory for 15 bytes from byte 0 on");
  (void)dt__system_fail_at(DT_SYSTEM_FILE, 3, EIO, false); // open, stat, read
  status = dt__onnx_tensor_view(file, last, NULL, &data);
  (void)dt__system_fail_at(DT_SYSTEM_FILE, 0, 0, false);
  expect_told(status, DT_E_IO, "external file \"b.bin\" of 20 bytes: cannot read");
  status = dt__onnx_tensor_view(file, last, NULL, &data);
  assert_null(status);
  dt_onnx_close(file);
}

// A checksum is of the whole file, of which no more is held for it.
static void test_checksum_of_ranges(void **state) {
  in_file_t places[] = {{"c.bin", 5, NULL}, {"c.bin", 2500000, NULL}, {"c.bin", 1048574, NULL}};
  enum { BYTES = 3000001 };
  (void)state;
  write_hole("c.bin", BYTES, places, 3);
  unsigned char *all = calloc(1, BYTES), sum[DT_SHA1_BYTES];
  char text[2 * DT_SHA1_BYTES + 1];
  for (int k = 0; k < 3; k++)
    (void)snprintf((char *)all + places[k].offset, 24, "%04d", k);
  dt__sha1(all, BYTES, sum);
  free(all);
  for (int k = 0; k < DT_SHA1_BYTES; k++)
    (void)snprintf(text + (size_t)2 * (size_t)k, 3, "%02x", sum[k]);
  for (int k = 0; k < 3; k++)
    places[k].checksum = text;
  write_places("m.onnx", places, 3);
  for (dt_onnx_access_t access = DT_ONNX_READ; access <= DT_ONNX_MAP; access++) {
    dt_onnx_t *file = open_good("m.onnx", &(dt_onnx_options_t){.access = access});
    expect_places(file, 3);
    assert_int_equal(file->externals.files.items[0].n_ranges, 3);
    dt_onnx_close(file);
  }
  int fd = open("c.bin", O_RDWR | O_CLOEXEC);
  assert_int_equal(pwrite(fd, "x", 1, BYTES - 1), 1); // no tensor's
  assert_int_equal(close(fd), 0);
  for (dt_onnx_access_t access = DT_ONNX_READ; access <= DT_ONNX_MAP; access++) {
    const void *data = NULL;
    dt_onnx_t *file = open_good("m.onnx", &(dt_onnx_options_t){.access = access});
    for (int k = 0; k < 2; k++) // and the next time, too
      expect_told(dt__onnx_tensor_view(file, first(file), NULL, &data), DT_E_FORMAT,
                  "does not have the checksum");
    dt_onnx_close(file);
  }
}

static void test_sha1(void **state) {
  (void)state;
  // FIPS 180-4's examples, and lengths around a block.
  static const struct {
    size_t len;
    const char *expected;
  } sums[] = {{0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
              {55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
              {56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
              {64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
              {1000, "291e9a6c66994949b57ba5e650361e98fc36b1ba"}};
  unsigned char data[1000], sum[DT_SHA1_BYTES];
  memset(data, 'a', sizeof data);
  for (size_t k = 0; k < sizeof sums / sizeof sums[0]; k++) {
    char text[2 * DT_SHA1_BYTES + 1];
    dt__sha1(data, sums[k].len, sum);
    for (int i = 0; i < DT_SHA1_BYTES; i++)
      (void)snprintf(text + 2 * i, 3, "%02x", sum[i]);
    assert_string_equal(text, sums[k].expected);
  }
}

#define IN_FOLDER(test) TEST_WITH(test, make_folder, remove_folder)

RUN_TESTS(IN_FOLDER(test_ranges), IN_FOLDER(test_limit_of_all), IN_FOLDER(test_checksum_of_ranges),
          IN_FOLDER(test_external), IN_FOLDER(test_other_folder), IN_FOLDER(test_tensor_file),
          IN_FOLDER(test_no_file), IN_FOLDER(test_bounds), IN_FOLDER(test_links),
          IN_FOLDER(test_no_regular_file), IN_FOLDER(test_checksum), IN_FOLDER(test_changed),
          IN_FOLDER(test_beneath), IN_FOLDER(test_many), IN_FOLDER(test_no_memory), TEST(test_sha1))

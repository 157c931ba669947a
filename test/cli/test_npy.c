// SPDX-License-Identifier: Apache-2.0
// .npy files: every element type, both byte orders and index orders, what is written is read again,
// one refusal a rule, every truncation and every changed bit of a small file.
#include "test/support/check.h"

#include "cli/elements.h"
#include "cli/tensor_file.h"

#include <stdlib.h>
#include <string.h>

#define MOST 4096

typedef struct file_t {
  unsigned char bytes[MOST];
  size_t len;
} file_t;

static file_t make(int major, const char *header, const void *data, size_t data_len) {
  file_t file;
  size_t len = strlen(header), at = major == 1 ? 10 : 12;
  memset(file.bytes, 0, sizeof(file.bytes));
  memcpy(file.bytes, "\x93NUMPY", 6);
  file.bytes[6] = (unsigned char)major;
  file.bytes[8] = (unsigned char)(len & 255);
  file.bytes[9] = (unsigned char)(len >> 8);
  memcpy(file.bytes + at, header, len);
  if (data_len > 0)
    memcpy(file.bytes + at + len, data, data_len);
  file.len = at + len + data_len;
  return file;
}

static dt_tensor_t *read_good(const file_t *file) {
  char message[CLI_MESSAGE];
  dt_tensor_t *tensor = NULL;
  if (!cli_npy_read((cli_bytes_t){file->bytes, file->len, NULL}, &tensor, message))
    fail_msg("%s", message);
  return tensor;
}

// ---- Good files -----------------------------------------------------------------------------------
static void test_types(void **state) {
  (void)state;
  static const struct {
    const char *little, *big;
    dt_dtype_t dtype;
    unsigned char element[8]; // little end first
    double value;
  } rows[] = {
      {"|b1", "|b1", DT_BOOL, {1}, 1},
      {"|i1", "|i1", DT_I8, {0xfe}, -2},
      {"<i2", ">i2", DT_I16, {0xfe, 0xff}, -2},
      {"<i4", ">i4", DT_I32, {1, 2}, 513},
      {"=i8", ">i8", DT_I64, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -1},
      {"|u1", "|u1", DT_U8, {200}, 200},
      {"<u2", ">u2", DT_U16, {1, 2}, 513},
      {"<u4", ">u4", DT_U32, {0xff, 0xff, 0xff, 0xff}, 4294967295.0},
      {"<u8", ">u8", DT_U64, {0, 0, 0, 0, 0, 0, 0, 0x80}, 0x1p63},
      {"<f2", ">f2", DT_F16, {0, 0x3e}, 1.5},
      {"<V2", ">V2", DT_BF16, {0xc0, 0x3f}, 1.5},
      {"<f4", ">f4", DT_F32, {0, 0, 0x20, 0xc0}, -2.5},
      {"<f8", ">f8", DT_F64, {0, 0, 0, 0, 0, 0, 4, 0xc0}, -2.5},
  };
  for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
    for (int big = 0; big < 2; big++) {
      char header[128];
      unsigned char element[8];
      size_t size = dt_dtype_size(rows[k].dtype);
      (void)snprintf(header, sizeof(header),
                     "{'descr': '%s', 'fortran_order': False, 'shape': (), }\n",
                     big ? rows[k].big : rows[k].little);
      for (size_t b = 0; b < size; b++)
        element[b] = rows[k].element[big && rows[k].big[0] == '>' ? size - 1 - b : b];
      file_t file = make(1 + (int)(k % 3), header, element, size);
      dt_tensor_t *tensor = read_good(&file);
      assert_int_equal(dt_tensor_dtype(tensor), rows[k].dtype);
      assert_int_equal(dt_tensor_rank(tensor), 0);
      if (cli_element(rows[k].dtype, dt_tensor_data(tensor), 0) != rows[k].value)
        fail_msg("%s: %g, expected %g", header,
                 cli_element(rows[k].dtype, dt_tensor_data(tensor), 0), rows[k].value);
      dt_tensor_release(tensor);
    }
  }
}

static void test_fortran(void **state) {
  (void)state;
  // Element (i, j, k) is 100 i + 10 j + k.
  int16_t data[2 * 3 * 4];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++)
      for (int k = 0; k < 4; k++)
        data[i + 2 * j + 6 * k] = (int16_t)__builtin_bswap16((uint16_t)(100 * i + 10 * j + k));
  file_t file =
      make(2, "{\"shape\": (2, 3, 4L), 'descr':'>i2','fortran_order': True}", data, sizeof(data));
  dt_tensor_t *tensor = read_good(&file);
  int64_t at = 0;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++)
      for (int k = 0; k < 4; k++)
        assert_int_equal(cli_element_integer(DT_I16, dt_tensor_data(tensor), at++),
                         100 * i + 10 * j + k);
  dt_tensor_release(tensor);
}

static void test_empty(void **state) {
  (void)state;
  file_t file =
      make(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1048576, 0, 3)}\n", NULL, 0);
  dt_tensor_t *tensor = read_good(&file);
  assert_int_equal(dt_tensor_count(tensor), 0);
  assert_int_equal(dt_tensor_sizes(tensor)[0], 1048576);
  dt_tensor_release(tensor);
}

static void test_round_trip(void **state) {
  (void)state;
  const int64_t sizes[DT_MAX_RANK] = {2, 1, 3, 1, 1, 2, 1, 1};
  for (int dtype = DT_BOOL; dtype <= DT_F64; dtype++) {
    for (uint32_t rank = 0; rank <= DT_MAX_RANK; rank++) {
      dt_tensor_t *tensor = NULL;
      assert_null(dt_tensor_create_empty((dt_dtype_t)dtype, rank, sizes, &tensor));
      int64_t count = dt_tensor_count(tensor);
      for (int64_t k = 0; k < count; k++)
        assert_true(cli_element_set_integer((dt_dtype_t)dtype, dt_tensor_data(tensor), k, k % 2));
      char header[CLI_NPY_HEADER];
      size_t len = cli_npy_header(tensor, header);
      size_t bytes = (size_t)count * dt_dtype_size((dt_dtype_t)dtype);
      assert_int_equal(len % 64, 0);
      file_t file = {.len = len + bytes};
      memcpy(file.bytes, header, len);
      memcpy(file.bytes + len, dt_tensor_data(tensor), bytes);
      dt_tensor_t *again = read_good(&file);
      assert_int_equal(dt_tensor_dtype(again), dtype);
      assert_int_equal(dt_tensor_rank(again), rank);
      assert_memory_equal(dt_tensor_data(again), dt_tensor_data(tensor), bytes);
      dt_tensor_release(again);
      dt_tensor_release(tensor);
    }
  }
}

// ---- Faults ---------------------------------------------------------------------------------------
static const struct {
  const char *header;
  size_t data;
  const char *message;
} faults[] = {
    {"", 4, "expected '{'"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, "7 bytes of elements"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9, "needs 8"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8, "behind the end"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", 8, "no tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}", 16, "no tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8, "no size below 2^47"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (140737488355328,)}", 8,
     "no size below 2^47"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 8,
     "no size below 2^47"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (8388608, 8388608, 8388608)}", 8,
     "too large"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 4, "more than 8"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", 8, "expected '('"},
    {"{'descr': '<f4', 'fortran_order': False}", 4, "lacks descr"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, "stands twice"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", 4, "expected True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}", 4, "no key"},
    {"{'descr': '<f4, 'fortran_order': False, 'shape': ()}", 4, "is not read"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (), ", 4, "its header"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': ()}", 4, "'|O' is not read"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': ()}", 8, "'<c8' is not read"},
    {"{'descr': '<U4', 'fortran_order': False, 'shape': ()}", 16, "'<U4' is not read"},
    {"{'descr': '<f16', 'fortran_order': False, 'shape': ()}", 16, "'<f16' is not read"},
    {"{'descr': '', 'fortran_order': False, 'shape': ()}", 4, "'' is not read"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", 4, "structured"},
    {"{'descr': '\\x3cf4', 'fortran_order': False, 'shape': ()}", 4, "not a plain text"},
    {"{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", 1, "no boolean"},
};

// The file's bytes stand at the end of a block of their own, so that a read behind them is seen.
static bool read_exactly(const file_t *file, size_t len, char message[CLI_MESSAGE]) {
  unsigned char *block = malloc(len + (len == 0));
  dt_tensor_t *tensor = NULL;
  assert_non_null(block);
  if (len > 0)
    memcpy(block, file->bytes, len);
  bool done = cli_npy_read((cli_bytes_t){block, len, NULL}, &tensor, message);
  assert_true(done == (tensor != NULL));
  dt_tensor_release(tensor);
  free(block);
  return done;
}

static void test_faults(void **state) {
  (void)state;
  char message[CLI_MESSAGE];
  static const unsigned char data[64] = {2};
  for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
    file_t file = make(1, faults[k].header, data, faults[k].data);
    if (read_exactly(&file, file.len, message))
      fail_msg("%s: taken", faults[k].header);
    if (!strstr(message, faults[k].message))
      fail_msg("%s: \"%s\", expected \"%s\"", faults[k].header, message, faults[k].message);
  }
  file_t file = make(4, "{}", NULL, 0);
  assert_false(read_exactly(&file, file.len, message));
  assert_non_null(strstr(message, "version 4.0"));
  file = make(2, "{}", NULL, 0);
  file.bytes[10] = 2; // 131074 bytes of header
  assert_false(read_exactly(&file, file.len, message));
  assert_non_null(strstr(message, "at most 65536"));
  file = make(1, "{'descr': '<f4',\0", NULL, 0);
  file.bytes[8]++;
  file.len++;
  assert_false(read_exactly(&file, file.len, message));
  assert_non_null(strstr(message, "a NUL"));
}

static void test_damage(void **state) {
  (void)state;
  char message[CLI_MESSAGE];
  static const float data[6] = {1, 2, 3, 4, 5, 6};
  file_t file =
      make(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", data, sizeof(data));
  assert_true(read_exactly(&file, file.len, message));
  for (size_t len = 0; len < file.len; len++)
    assert_false(read_exactly(&file, len, message));
  for (size_t bit = 0; bit < 8 * (file.len - sizeof(data)); bit++) {
    file.bytes[bit / 8] ^= (unsigned char)(1 << (bit % 8));
    (void)read_exactly(&file, file.len, message);
    file.bytes[bit / 8] ^= (unsigned char)(1 << (bit % 8));
  }
}

RUN_TESTS(TEST(test_types), TEST(test_fortran), TEST(test_empty), TEST(test_round_trip),
          TEST(test_faults), TEST(test_damage))

// SPDX-License-Identifier: Apache-2.0
// The safetensors reader over bytes in memory: what a good file gives, one refusal per rule, every
// truncation and every single-bit change of a small file, and a failing allocator.
#include "test/support/check.h"

#include "ductile/safetensors.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "test/unit/frontends/safetensors_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dt_safetensors_t *open_good(const bytes_t *bytes) {
  dt_safetensors_t *file = NULL;
  expect_ok(dt_safetensors_open_memory(bytes->data, bytes->len, NULL, &file));
  assert_non_null(file);
  return file;
}

// ---- Good files ---------------------------------------------------------------------------------

static const char good_header[] =
    "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
    "\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\"},"
    "\"a\\u00e9\":{\"data_offsets\":[0,8],\"shape\":[],\"dtype\":\"I64\"},"
    "\"none\":{\"dtype\":\"F64\",\"shape\":[4,0,3],\"data_offsets\":[8,8]},"
    "\"half\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[32,38]}}   ";

static void test_good(void **state) {
  (void)state;
  bytes_t bytes = bytes_make(good_header, 38);
  dt_safetensors_t *file = open_good(&bytes);
  assert_int_equal(dt_safetensors_count(file), 4);
  static const char *const names[] = {"a\xc3\xa9", "none", "b", "half"};
  static const char *const dtypes[] = {"I64", "F64", "F32", "BF16"};
  for (uint32_t i = 0; i < 4; i++) {
    assert_string_equal(dt_safetensors_name(file, i), names[i]);
    assert_string_equal(dt_safetensors_dtype_name(file, i), dtypes[i]);
  }
  assert_null(dt_safetensors_name(file, 4));
  assert_null(dt_safetensors_dtype_name(file, 4));

  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  assert_null(dt_safetensors_find(file, "b", &info));
  assert_int_equal(info.dtype, DT_F32);
  assert_int_equal(info.rank, 2);
  assert_int_equal(info.sizes[0], 2);
  assert_int_equal(info.sizes[1], 3);
  assert_int_equal(info.sizes[2], 0);
  assert_int_equal(info.bytes, 24);
  assert_int_equal(((const unsigned char *)info.data)[0], 8);
  unsigned char copy[24];
  assert_null(dt_safetensors_copy(file, "b", copy, sizeof copy));
  assert_int_equal(copy[23], 31);

  assert_null(dt_safetensors_find(file, "a\xc3\xa9", &info));
  assert_int_equal(info.rank, 0);
  assert_int_equal(info.bytes, 8);
  assert_null(dt_safetensors_find(file, "none", &info));
  assert_int_equal(info.bytes, 0);
  assert_int_equal(info.rank, 3);
  assert_null(dt_safetensors_copy(file, "none", NULL, 0));
  assert_null(dt_safetensors_find(file, "half", &info));
  assert_int_equal(info.dtype, DT_BF16);
  assert_int_equal(info.bytes, 6);
  assert_int_equal(((const unsigned char *)info.data)[5], 37);
  dt_safetensors_close(file);
  bytes_free(&bytes);
}

static void test_metadata(void **state) {
  (void)state;
  bytes_t bytes = bytes_make(good_header, 38);
  dt_safetensors_t *file = open_good(&bytes);
  assert_int_equal(dt_safetensors_metadata_count(file), 2);
  assert_string_equal(dt_safetensors_metadata_key(file, 0), "empty");
  assert_string_equal(dt_safetensors_metadata_key(file, 1), "format");
  assert_null(dt_safetensors_metadata_key(file, 2));
  assert_string_equal(dt_safetensors_metadata(file, "format"), "pt");
  assert_string_equal(dt_safetensors_metadata(file, "empty"), "");
  assert_null(dt_safetensors_metadata(file, "b"));
  dt_safetensors_close(file);
  bytes_free(&bytes);
}

static void test_empty_file(void **state) {
  (void)state;
  bytes_t bytes = bytes_make("{}", 0);
  dt_safetensors_t *file = open_good(&bytes);
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  assert_int_equal(dt_safetensors_count(file), 0);
  assert_int_equal(dt_safetensors_metadata_count(file), 0);
  assert_null(dt_safetensors_metadata(file, "x"));
  expect_code(dt_safetensors_find(file, "x", &info), DT_E_ARGUMENT);
  dt_safetensors_close(file);
  bytes_free(&bytes);
}

// Data that does not begin at a multiple of its dtype: listed as unaligned, copied rightly.
static void test_unaligned(void **state) {
  (void)state;
  bytes_t bytes = bytes_make("{\"p\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                             "\"q\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]},"
                             "\"r\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}",
                             6);
  dt_safetensors_t *file = open_good(&bytes);
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  assert_null(dt_safetensors_find(file, "q", &info));
  assert_int_equal(info.aligned, (uintptr_t)info.data % 4 == 0);
  const unsigned char expect[4] = {1, 2, 3, 4};
  unsigned char copy[4];
  assert_null(dt_safetensors_copy(file, "q", copy, 4));
  assert_memory_equal(copy, expect, 4);
  assert_null(dt_safetensors_find(file, "r", &info));
  assert_true(info.aligned);
  dt_safetensors_close(file);
  bytes_free(&bytes);
}

static void test_every_dtype(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t bytes; // of eight elements
    dt_dtype_t dtype;
  } rows[] = {
      {"BOOL", 8, DT_BOOL},
      {"I8", 8, DT_I8},
      {"U8", 8, DT_U8},
      {"I16", 16, DT_I16},
      {"U16", 16, DT_U16},
      {"I32", 32, DT_I32},
      {"U32", 32, DT_U32},
      {"I64", 64, DT_I64},
      {"U64", 64, DT_U64},
      {"F32", 32, DT_F32},
      {"F64", 64, DT_F64},
      {"F16", 16, DT_F16},
      {"BF16", 16, DT_BF16},
      {"C64", 64, 0},
      {"F8_E5M2", 8, DT_F8E5M2},
      {"F8_E4M3", 8, DT_F8E4M3FN},
      {"F8_E8M0", 8, DT_F8E8M0},
      {"F8_E5M2FNUZ", 8, DT_F8E5M2FNUZ},
      {"F8_E4M3FNUZ", 8, DT_F8E4M3FNUZ},
      {"F6_E2M3", 6, 0},
      {"F6_E3M2", 6, 0},
      {"F4", 4, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char header[128];
    snprintf(header, sizeof header,
             "{\"t\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%zu]}}", rows[i].name,
             rows[i].bytes);
    bytes_t bytes = bytes_make(header, rows[i].bytes);
    memset(bytes.data + bytes.len - rows[i].bytes, 1, rows[i].bytes);
    dt_safetensors_t *file = open_good(&bytes);
    assert_string_equal(dt_safetensors_dtype_name(file, 0), rows[i].name);
    dt_safetensors_info_t info = {.struct_size = sizeof(info)};
    dt_status_t status = dt_safetensors_find(file, "t", &info);
    assert_int_equal(dt_status_code(status), rows[i].dtype ? DT_OK : DT_E_UNSUPPORTED);
    assert_int_equal(info.dtype, rows[i].dtype);
    assert_int_equal(info.bytes, rows[i].dtype ? rows[i].bytes : 0);
    dt_status_free(status);
    dt_safetensors_close(file);
    bytes_free(&bytes);
  }
}

static void test_bool_values(void **state) {
  (void)state;
  bytes_t bytes =
      bytes_make("{\"t\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3);
  dt_safetensors_t *file = open_good(&bytes);
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  dt_status_t status = dt_safetensors_find(file, "t", &info);
  assert_int_equal(dt_status_code(status), DT_E_RANGE);
  assert_string_equal(dt_status_message(status), "tensor \"t\": element 2 of a BOOL tensor is 2");
  dt_status_free(status);
  dt_safetensors_close(file);
  bytes_free(&bytes);
}

// ---- Refusals -----------------------------------------------------------------------------------

#define T(offsets) "{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}"

static const struct {
  const char *fault, *header;
  size_t data_bytes;
  dt_code_t code;
  const char *message; // a part of it
} faults[] = {
    {"no object", "[]", 0, DT_E_FORMAT, "does not begin with '{'"},
    {"leading space", " {}", 0, DT_E_FORMAT, "does not begin with '{'"},
    {"empty header", "", 0, DT_E_FORMAT, "does not begin with '{'"},
    {"unclosed object", "{", 0, DT_E_FORMAT, "end of the text"},
    {"second object", "{}{}", 0, DT_E_FORMAT, "other than spaces"},
    {"newline padding", "{}\n", 0, DT_E_FORMAT, "other than spaces"},
    {"trailing data", "{}", 1, DT_E_FORMAT, "cover 0 of 1"},
    {"trailing data after a tensor", "{\"a\":" T("[0,4]") "}", 5, DT_E_FORMAT, "cover 4 of 5"},
    {"data too short", "{\"a\":" T("[0,4]") "}", 3, DT_E_FORMAT, "do not lie in 3 bytes"},
    {"hole at the start", "{\"a\":" T("[1,5]") "}", 5, DT_E_FORMAT, "leaving a gap after byte 0"},
    {"hole between", "{\"a\":" T("[0,4]") ",\"b\":" T("[5,9]") "}", 9, DT_E_FORMAT,
     "leaving a gap after byte 4"},
    {"overlap", "{\"a\":" T("[0,4]") ",\"b\":" T("[2,6]") "}", 6, DT_E_FORMAT,
     "overlapping the one that ends at 4"},
    {"same place", "{\"a\":" T("[0,4]") ",\"b\":" T("[0,4]") "}", 4, DT_E_FORMAT, "overlapping"},
    {"empty tensor inside another",
     "{\"a\":" T("[0,4]") ",\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}", 4,
     DT_E_FORMAT, "overlapping"},
    {"reversed offsets", "{\"a\":" T("[4,0]") "}", 4, DT_E_FORMAT, "[4, 0] do not lie"},
    {"lying length", "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "5 elements of U8 do not fill its 4 bytes"},
    {"wrong width", "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "do not fill"},
    {"part of a byte", "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1,
     DT_E_FORMAT, "3 elements of F4 do not fill"},
    {"product overflow",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[70368744177664,70368744177664,4],\"data_offsets\":[0,4]}"
     "}",
     4, DT_E_LIMIT, "2^47 bytes or more"},
    {"product that wraps to the right length",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     DT_E_LIMIT, "2^47 bytes or more"},
    {"bytes overflow",
     "{\"a\":{\"dtype\":\"F64\",\"shape\":[70368744177664],\"data_offsets\":[0,4]}}", 4, DT_E_LIMIT,
     "2^47 bytes or more"},
    {"dim too large",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[140737488355328],\"data_offsets\":[0,4]}}", 4, DT_E_LIMIT,
     "the limit is 2^47"},
    {"dim beyond int64",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "a size must be an integer"},
    {"negative dim", "{\"a\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "a size must be an integer"},
    {"fractional dim", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "a size must be an integer"},
    {"dim as text", "{\"a\":{\"dtype\":\"U8\",\"shape\":[\"4\"],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "a size must be an integer"},
    {"rank 9", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
     DT_E_LIMIT, "more than 8 dims"},
    {"NaN offset", "{\"a\":" T("[NaN,4]") "}", 4, DT_E_FORMAT, "expected a value, found 'N'"},
    {"negative offset", "{\"a\":" T("[-4,0]") "}", 4, DT_E_FORMAT, "two integers of 0 or more"},
    {"minus zero", "{\"a\":" T("[-0,4]") "}", 4, DT_E_FORMAT, "two integers of 0 or more"},
    {"fractional offset", "{\"a\":" T("[0,4e0]") "}", 4, DT_E_FORMAT, "two integers of 0 or more"},
    {"offset beyond int64", "{\"a\":" T("[0,18446744073709551615]") "}", 4, DT_E_FORMAT,
     "two integers of 0 or more"},
    {"offset far away", "{\"a\":" T("[0,9223372036854775807]") "}", 4, DT_E_FORMAT,
     "do not lie in"},
    {"one offset", "{\"a\":" T("[0]") "}", 4, DT_E_FORMAT, "two integers of 0 or more"},
    {"three offsets", "{\"a\":" T("[0,4,4]") "}", 4, DT_E_FORMAT, "expected the end of an array"},
    {"duplicate tensor", "{\"a\":" T("[0,4]") ",\"a\":" T("[4,8]") "}", 8, DT_E_FORMAT,
     "tensor \"a\" is there twice"},
    {"duplicate by escape", "{\"a\":" T("[0,4]") ",\"\\u0061\":" T("[4,8]") "}", 8, DT_E_FORMAT,
     "is there twice"},
    {"duplicate dtype",
     "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "one of them twice"},
    {"duplicate shape",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "one of them twice"},
    {"duplicate offsets",
     "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4],\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "one of them twice"},
    {"unknown key", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"x\":1}}", 4,
     DT_E_FORMAT, "a key other than"},
    {"no dtype", "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, DT_E_FORMAT,
     "dtype is missing"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, DT_E_FORMAT,
     "shape is missing"},
    {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, DT_E_FORMAT,
     "data_offsets is missing"},
    {"unknown dtype", "{\"a\":{\"dtype\":\"F31\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "unknown dtype \"F31\""},
    {"dtype as number", "{\"a\":{\"dtype\":1,\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     DT_E_FORMAT, "expected a string, found an integer"},
    {"tensor as number", "{\"a\":1}", 0, DT_E_FORMAT, "expected an object, found an integer"},
    {"nested shape", "{\"a\":{\"dtype\":\"U8\",\"shape\":[[4]],\"data_offsets\":[0,4]}}", 4,
     DT_E_LIMIT, "nested deeper"},
    {"nested metadata", "{\"__metadata__\":{\"a\":{}}}", 0, DT_E_FORMAT, "expected a string"},
    {"metadata as text", "{\"__metadata__\":\"x\"}", 0, DT_E_FORMAT, "expected an object"},
    {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, DT_E_FORMAT,
     "\"__metadata__\" twice"},
    {"metadata key twice", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, DT_E_FORMAT,
     "metadata key \"k\" is there twice"},
    {"bad UTF-8 in a name", "{\"\xc3(\":" T("[0,4]") "}", 4, DT_E_FORMAT, "not valid UTF-8"},
    {"bad UTF-8 in metadata", "{\"__metadata__\":{\"a\":\"\xff\"}}", 0, DT_E_FORMAT,
     "not valid UTF-8"},
    {"U+0000 in a name", "{\"a\\u0000b\":" T("[0,4]") "}", 4, DT_E_FORMAT, "U+0000"},
    {"lone surrogate", "{\"\\ud800\":" T("[0,4]") "}", 4, DT_E_FORMAT, "surrogate"},
};

static void test_faults(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    bytes_t bytes = bytes_make(faults[i].header, faults[i].data_bytes);
    dt_safetensors_t *file = (dt_safetensors_t *)&bytes; // must be nulled
    expect_told_of(faults[i].fault, dt_safetensors_open_memory(bytes.data, bytes.len, NULL, &file),
                   faults[i].code, faults[i].message);
    assert_null(file);
    bytes_free(&bytes);
  }
}

static void expect_open(const bytes_t *bytes, const dt_safetensors_options_t *options,
                        dt_code_t code, const char *message) {
  dt_safetensors_t *file = NULL;
  expect_told(dt_safetensors_open_memory(bytes->data, bytes->len, options, &file), code, message);
  dt_safetensors_close(file);
}

static void test_prefix(void **state) {
  (void)state;
  bytes_t bytes = bytes_make_raw("{}", 2, 3, 0);
  expect_open(&bytes, NULL, DT_E_FORMAT, "a header of 3 bytes in a file of 10");
  bytes_free(&bytes);
  bytes = bytes_make_raw("{}", 2, 100000001, 0);
  expect_open(&bytes, NULL, DT_E_LIMIT, "a header of 100000001 bytes, the limit is 100000000");
  bytes_free(&bytes);
  bytes = bytes_make_raw("{}", 2, UINT64_MAX, 0);
  expect_open(&bytes, NULL, DT_E_LIMIT, "the limit is 100000000");
  bytes_free(&bytes);
  bytes = bytes_make_raw("", 0, 0, 0);
  expect_open(&bytes, NULL, DT_E_FORMAT, "does not begin with '{'");
  bytes.len = 7;
  expect_open(&bytes, NULL, DT_E_FORMAT, "7 bytes are too few");
  bytes.len = 0;
  expect_open(&bytes, NULL, DT_E_FORMAT, "0 bytes are too few");
  bytes_free(&bytes);
}

static void test_options(void **state) {
  (void)state;
  bytes_t bytes = bytes_make("{\"a\":" T("[0,4]") ",\"b\":" T("[4,8]") "}", 8);
  dt_safetensors_options_t options = {
      .max_tensors = 2, .max_header_bytes = bytes.len - 16, .max_file_bytes = bytes.len};
  expect_open(&bytes, &options, DT_OK, "");
  options.max_tensors = 1;
  expect_open(&bytes, &options, DT_E_LIMIT, "more than 1 tensors");
  options.max_tensors = 0;
  options.max_header_bytes--;
  expect_open(&bytes, &options, DT_E_LIMIT, "a header of ");
  options.max_header_bytes = 0;
  options.max_file_bytes--;
  expect_open(&bytes, &options, DT_E_LIMIT, " bytes, the limit is ");
  options.max_file_bytes = 0;
  options.struct_size = 4;
  expect_open(&bytes, &options, DT_E_ARGUMENT, "struct_size: 4");
  options.struct_size = sizeof options;
  options.access = (dt_safetensors_access_t)7;
  expect_open(&bytes, &options, DT_E_ARGUMENT, "no access mode 7");
  bytes_free(&bytes);
}

static void test_name_length(void **state) {
  (void)state;
  for (size_t extra = 0; extra < 2; extra++) {
    size_t len = 4096 + extra;
    char *header = malloc(len + 128);
    assert_non_null(header);
    memcpy(header, "{\"", 2);
    memset(header + 2, 'n', len);
    strcpy(header + 2 + len, "\":" T("[0,4]") "}");
    bytes_t bytes = bytes_make(header, 4);
    expect_open(&bytes, NULL, extra ? DT_E_LIMIT : DT_OK, extra ? "a tensor name of 4097" : "");
    bytes_free(&bytes);
    free(header);
  }
}

static void test_deep_nesting(void **state) {
  (void)state;
  size_t len = 1000000;
  char *header = malloc(len);
  assert_non_null(header);
  memset(header, '[', len);
  memcpy(header, "{\"a\":", 5);
  bytes_t bytes = bytes_make_raw(header, len, len, 0);
  expect_open(&bytes, NULL, DT_E_FORMAT, "expected an object, found an array");
  bytes_free(&bytes);
  for (size_t i = 0; i + 5 <= len; i += 5)
    memcpy(header + i, "{\"a\":", 5);
  bytes = bytes_make_raw(header, len, len, 0);
  expect_open(&bytes, NULL, DT_E_FORMAT, "a key other than");
  bytes_free(&bytes);
  free(header);
}

static void test_arguments(void **state) {
  (void)state;
  bytes_t bytes = bytes_make("{\"a\":" T("[0,4]") "}", 4);
  dt_safetensors_t *file = NULL;
  expect_code(dt_safetensors_open_memory(bytes.data, bytes.len, NULL, NULL), DT_E_ARGUMENT);
  expect_code(dt_safetensors_open_memory(NULL, 0, NULL, &file), DT_E_ARGUMENT);
  expect_code(dt_safetensors_open(NULL, NULL, &file), DT_E_ARGUMENT);

  file = open_good(&bytes);
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  char room[8];
  expect_code(dt_safetensors_find(file, NULL, &info), DT_E_ARGUMENT);
  expect_code(dt_safetensors_find(NULL, "a", &info), DT_E_ARGUMENT);
  expect_code(dt_safetensors_find(file, "a", NULL), DT_E_ARGUMENT);
  dt_status_t status = dt_safetensors_copy(file, "a", room, 8);
  assert_string_equal(dt_status_message(status), "tensor \"a\" has 4 bytes, room for 8 was given");
  dt_status_free(status);
  expect_code(dt_safetensors_copy(file, "a", NULL, 4), DT_E_ARGUMENT);
  assert_int_equal(dt_safetensors_count(NULL), 0);
  assert_null(dt_safetensors_metadata(NULL, "a"));
  dt_safetensors_close(file);
  dt_safetensors_close(NULL);
  bytes_free(&bytes);
}

// ---- Hostile changes ----------------------------------------------------------------------------

// Opens and, when that works, touches everything a caller can reach.
static bool open_and_touch(const unsigned char *data, size_t len) {
  dt_safetensors_t *file = NULL;
  dt_status_t status = dt_safetensors_open_memory(data, len, NULL, &file);
  if (status) {
    assert_null(file);
    assert_true(strlen(dt_status_message(status)) > 0);
    dt_status_free(status);
    return false;
  }
  volatile unsigned sum = 0;
  for (uint32_t i = 0; i < dt_safetensors_count(file); i++) {
    dt_safetensors_info_t info = {.struct_size = sizeof(info)};
    status = dt_safetensors_find(file, dt_safetensors_name(file, i), &info);
    for (size_t b = 0; !status && b < info.bytes; b++)
      sum += ((const unsigned char *)info.data)[b];
    dt_status_free(status);
  }
  dt_safetensors_close(file);
  return true;
}

static void test_truncations(void **state) {
  (void)state;
  bytes_t whole = bytes_make(good_header, 38);
  assert_true(open_and_touch(whole.data, whole.len));
  for (size_t len = 0; len < whole.len; len++) {
    unsigned char *part = malloc(len ? len : 1);
    assert_non_null(part);
    memcpy(part, whole.data, len);
    if (open_and_touch(part, len))
      fail_msg("the first %zu of %zu bytes were accepted", len, whole.len);
    free(part);
  }
  bytes_free(&whole);
}

static void test_bit_flips(void **state) {
  (void)state;
  bytes_t whole = bytes_make(good_header, 38);
  size_t accepted = 0;
  for (size_t bit = 0; bit < whole.len * 8; bit++) {
    whole.data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    accepted += open_and_touch(whole.data, whole.len);
    whole.data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
  }
  // Flips in the data and in names change nothing that a rule speaks of.
  assert_true(accepted >= 38 * 8);
  bytes_free(&whole);
}

static void test_no_memory(void **state) {
  (void)state;
  bytes_t bytes = bytes_make(good_header, 38);
  dt__heap_fail_at(0, false);
  for (int sticky = 0; sticky < 2; sticky++) {
    uint64_t n = 1;
    for (;; n++) {
      dt_safetensors_t *file = NULL;
      dt__heap_fail_at(n, sticky != 0);
      dt_status_t status = dt_safetensors_open_memory(bytes.data, bytes.len, NULL, &file);
      dt__heap_fail_at(0, false);
      if (!status) {
        dt_safetensors_close(file);
        break;
      }
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
      assert_null(file);
      dt_status_free(status);
    }
    assert_true(n > 1);
  }
  bytes_free(&bytes);
}

static void test_many_tensors(void **state) {
  (void)state;
  dt_text_t text;
  dt__text_init(&text);
  const unsigned count = 20000;
  for (unsigned i = 0; i < count; i++)
    dt__text_printf(&text, "%c\"t%u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                    i ? ',' : '{', i, i, i + 1);
  dt__text_put(&text, "}");
  assert_null(dt__text_status(&text));
  bytes_t bytes = bytes_make(dt__text_str(&text), count);
  dt_safetensors_t *file = open_good(&bytes);
  assert_int_equal(dt_safetensors_count(file), count);
  dt_safetensors_info_t info = {.struct_size = sizeof(info)};
  assert_null(dt_safetensors_find(file, "t12345", &info));
  assert_int_equal(*(const unsigned char *)info.data, 12345 % 256);
  dt_safetensors_close(file);
  bytes_free(&bytes);
  dt__text_fini(&text);
}

RUN_TESTS(TEST(test_good), TEST(test_metadata), TEST(test_empty_file), TEST(test_unaligned),
          TEST(test_every_dtype), TEST(test_bool_values), TEST(test_faults), TEST(test_prefix),
          TEST(test_options), TEST(test_name_length), TEST(test_deep_nesting), TEST(test_arguments),
          TEST(test_truncations), TEST(test_bit_flips), TEST(test_no_memory),
          TEST(test_many_tensors))

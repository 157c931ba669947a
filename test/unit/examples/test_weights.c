// SPDX-License-Identifier: Apache-2.0
// The MiniLM example's weights and batches: seeded numbers that the NumPy reference makes too,
// files that are not the model's, padding and masks.
#include "test/support/check.h"

#include "examples/minilm/half.h"
#include "examples/minilm/sentences.h"
#include "examples/minilm/weights.h"
#include "test/support/folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void test_seeded(void **state) {
  (void)state;
  // From tools/minilm/reference.py.
  static const struct {
    const char *name;
    int64_t index;
    float value;
  } rows[] = {
      {"embeddings.word_embeddings.weight", 0, -0x1.57439p-5f},
      {"embeddings.word_embeddings.weight", 11720447, -0x1.439bap-6f},
      {"embeddings.LayerNorm.weight", 383, 0x1.e8b8b6p-1f},
      {"encoder.layer.5.output.dense.weight", 12345, -0x1.c51288p-5f},
      {"encoder.layer.0.attention.self.query.bias", 7, 0x1.3eaaf4p-5f},
  };
  char error[256] = "";
  minilm_weights_t *weights = minilm_weights_seeded(NULL, error, sizeof error);
  assert_non_null(weights);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    dt_tensor_t *tensor = minilm_weights_find(weights, rows[i].name);
    assert_non_null(tensor);
    assert_true(rows[i].index < dt_tensor_count(tensor));
    float value = ((const float *)dt_tensor_data(tensor))[rows[i].index];
    if (value != rows[i].value)
      fail_msg("%s[%lld] is %a, expected %a", rows[i].name, (long long)rows[i].index, (double)value,
               (double)rows[i].value);
  }
  assert_null(minilm_weights_find(weights, "pooler.dense.weight"));
  assert_null(minilm_weights_find(weights, "encoder.layer.6.output.dense.weight"));
  minilm_weights_free(weights);
  minilm_weights_free(NULL);
}

// A folder whose model file has the given header and data of zeros.
static void check_refused(const char *header, size_t data_bytes, const char *expect) {
  char folder[FOLDER_BYTES], path[FOLDER_BYTES + 24], error[256] = "";
  folder_make(folder);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  uint64_t len = strlen(header);
  fwrite(&len, 1, 8, file);
  fputs(header, file);
  for (size_t i = 0; i < data_bytes; i++)
    fputc(0, file);
  assert_int_equal(fclose(file), 0);
  minilm_weights_t *weights = minilm_weights_load(folder, NULL, error, sizeof error);
  assert_int_equal(folder_drop(folder), 0);
  assert_null(weights);
  if (!strstr(error, expect))
    fail_msg("got \"%s\", expected \"…%s…\"", error, expect);
}

static void test_wrong_files(void **state) {
  (void)state;
  check_refused("{", 0, "end of the text");
  check_refused("{}", 0, "no tensor \"embeddings.word_embeddings.weight\"");
  check_refused("{\"embeddings.word_embeddings.weight\":{\"dtype\":\"F32\",\"shape\":[2],"
                "\"data_offsets\":[0,8]}}",
                8, "\"embeddings.word_embeddings.weight\" is not that of all-MiniLM-L6-v2");
  check_refused("{\"embeddings.word_embeddings.weight\":{\"dtype\":\"C64\",\"shape\":[4],"
                "\"data_offsets\":[0,32]}}",
                32, "dtype C64 is not supported");
  char error[256] = "";
  assert_null(minilm_weights_load("/nonexistent", NULL, error, sizeof error));
  assert_non_null(strstr(error, "/nonexistent/model.safetensors"));
}

// Every number of a 16-bit dtype survives the way there and back.
static void check_all_halves(dt_dtype_t dtype, uint32_t infinity) {
  for (uint32_t bits = 0; bits <= 0xffff; bits++) {
    uint16_t half = (uint16_t)bits, back = 0;
    float value = 0;
    convert_floats(&half, dtype, &value, DT_F32, 1);
    convert_floats(&value, DT_F32, &back, dtype, 1);
    bool nan = (bits & 0x7fff) > infinity;
    if (nan ? !isnan(value) || (back & 0x7fff) <= infinity : back != half)
      fail_msg("%s %04x is %a and comes back as %04x", dt_dtype_name(dtype), bits, (double)value,
               back);
  }
}

static void test_halves(void **state) {
  (void)state;
  static const struct {
    float value;
    uint16_t f16, bf16;
  } rows[] = {
      {1, 0x3c00, 0x3f80},          {-2.5f, 0xc100, 0xc020},
      {65504, 0x7bff, 0x4780},      {65519.996f, 0x7bff, 0x4780},
      {65520, 0x7c00, 0x4780},      {-1e30f, 0xfc00, 0xf14a},
      {0x1p-24f, 1, 0x3380},        {0x1p-25f, 0, 0x3300},
      {0x1.8p-25f, 1, 0x3340},      {0x1.ffep-15f, 0x0400, 0x3880},
      {0x1.002p0f, 0x3c00, 0x3f80}, {0x1.006p0f, 0x3c02, 0x3f80},
      {0x1.01p0f, 0x3c04, 0x3f80},  {0x1.03p0f, 0x3c0c, 0x3f82},
      {INFINITY, 0x7c00, 0x7f80},   {0x1.fffffep127f, 0x7c00, 0x7f80},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint16_t f16 = 0, bf16 = 0;
    convert_floats(&rows[i].value, DT_F32, &f16, DT_F16, 1);
    convert_floats(&rows[i].value, DT_F32, &bf16, DT_BF16, 1);
    if (f16 != rows[i].f16 || bf16 != rows[i].bf16)
      fail_msg("%a is %04x and %04x, expected %04x and %04x", (double)rows[i].value, f16, bf16,
               rows[i].f16, rows[i].bf16);
  }
  check_all_halves(DT_F16, 0x7c00);
  check_all_halves(DT_BF16, 0x7f80);
}

// Other dtypes and fewer layers.
static void test_configurations(void **state) {
  (void)state;
  char error[256] = "";
  const minilm_config_t small = {.dtype = DT_F16, .layers = 1};
  minilm_weights_t *weights = minilm_weights_seeded(&small, error, sizeof error);
  assert_non_null(weights);
  assert_int_equal(minilm_weights_dtype(weights), DT_F16);
  assert_int_equal(minilm_weights_layers(weights), 1);
  dt_tensor_t *tensor = minilm_weights_find(weights, "embeddings.LayerNorm.weight");
  assert_non_null(tensor);
  assert_int_equal(dt_tensor_dtype(tensor), DT_F16);
  assert_int_equal(((const uint16_t *)dt_tensor_data(tensor))[383], 0x3ba3); // of 0x1.e8b8b6p-1
  assert_non_null(minilm_weights_find(weights, "encoder.layer.0.output.dense.weight"));
  assert_null(minilm_weights_find(weights, "encoder.layer.1.output.dense.weight"));
  minilm_weights_free(weights);
  const minilm_config_t wrong[] = {{.dtype = DT_F64}, {.layers = 7}, {.layers = -1}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_null(minilm_weights_seeded(&wrong[i], error, sizeof error));
    assert_non_null(strstr(error, "no such model"));
  }
}

static void test_batches(void **state) {
  (void)state;
  const char *const sentences[] = {"one two three", "", "  one  "};
  batch_t batch;
  assert_null(batch_from_sentences(NULL, sentences, 3, &batch));
  assert_int_equal(batch.count, 3);
  assert_int_equal(batch.length, 5);
  const int64_t *ids = dt_tensor_data(batch.ids), *mask = dt_tensor_data(batch.mask);
  static const int64_t expect_mask[] = {1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0};
  assert_memory_equal(mask, expect_mask, sizeof expect_mask);
  assert_int_equal(ids[0], 101);
  assert_int_equal(ids[4], 102);
  assert_int_equal(ids[6], 102);
  assert_int_equal(ids[7], 0);
  assert_int_equal(ids[11], ids[1]); // the same word
  assert_int_not_equal(ids[1], ids[2]);
  batch_free(&batch);

  assert_null(batch_of_size(2, 3, &batch));
  assert_int_equal(dt_tensor_count(batch.ids), 6);
  batch_free(&batch);
  assert_null(batch_of_size(0, 3, &batch));
  assert_int_equal(dt_tensor_count(batch.mask), 0);
  batch_free(&batch);
}

// Text of more words than the model reads is cut and still ends with [SEP].
static void test_long_text(void **state) {
  (void)state;
  char text[2001];
  for (int i = 0; i < 2000; i++)
    text[i] = i % 2 ? ' ' : 'w';
  text[2000] = '\0';
  const char *const sentences[] = {text};
  batch_t batch;
  assert_null(batch_from_sentences(NULL, sentences, 1, &batch));
  assert_int_equal(batch.length, 256);
  assert_int_equal(((const int64_t *)dt_tensor_data(batch.ids))[255], 102);
  batch_free(&batch);
}

RUN_TESTS(TEST(test_seeded), TEST(test_wrong_files), TEST(test_halves), TEST(test_configurations),
          TEST(test_batches), TEST(test_long_text))

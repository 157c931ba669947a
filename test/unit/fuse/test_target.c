// SPDX-License-Identifier: Apache-2.0
// Targets as text, which is in the key of code kept on disk: each field of target.def changes it,
// and it is read back as it was.
#include "test/support/check.h"

#include "ductile/device.h"
#include "fuse/matmul_rows.h"
#include "fuse/target.h"
#include "runtime/base/status.h"

#include <string.h>

static void text_of(const dt_target_t *target, dt_text_t *out) {
  dt__text_init(out);
  dt__target_write(target, out);
  assert_false(out->failed);
}

// The text is another than that of a target of zeros, and the target that it gives has that text.
static void check_told(const dt_target_t *target, const char *field) {
  dt_target_t none = {0}, back;
  dt_text_t text, zeros, again;
  text_of(target, &text);
  text_of(&none, &zeros);
  if (strcmp(dt__text_str(&text), dt__text_str(&zeros)) == 0)
    fail_msg("%s is not in a target's text", field);
  dt_scan_t scan;
  dt__scan_init(&scan, dt__text_str(&text), text.len, field);
  dt_status_t status = dt__target_read(&scan, &back);
  if (status)
    print_error("%s: %s\n", field, dt_status_message(status));
  assert_null(status);
  text_of(&back, &again);
  assert_string_equal(dt__text_str(&again), dt__text_str(&text));
  dt__text_fini(&text);
  dt__text_fini(&zeros);
  dt__text_fini(&again);
}

#define SET_place(field) target.field = DT_CUDA
#define SET_u32(field) target.field = UINT32_MAX
#define SET_i64(field) target.field = INT64_MAX
#define SET_flag(field) target.field = true
#define SET_bits(field) target.field = INT64_MAX
#define SET_sizes(field) target.field[1] = 3

static void test_fields(void **state) {
  (void)state;
#define FIELD(kind, name, doc)                                                                     \
  {                                                                                                \
    dt_target_t target = {0};                                                                      \
    SET_##kind(name);                                                                              \
    check_told(&target, #name);                                                                    \
  }
#define TEXT(name, bytes, doc)                                                                     \
  {                                                                                                \
    dt_target_t target = {0};                                                                      \
    memset(target.name, 'a', (bytes) - 1);                                                         \
    check_told(&target, #name);                                                                    \
  }
#include "fuse/target.def"
}

static void refuse(const char *text) {
  dt_scan_t scan;
  dt_target_t target;
  dt__scan_init(&scan, text, strlen(text), "target");
  dt_status_t status = dt__target_read(&scan, &target);
  assert_non_null(status);
  assert_int_equal(dt_status_code(status), DT_E_FORMAT);
  dt_status_free(status);
}

static void test_refusals(void **state) {
  (void)state;
  refuse("2");
  refuse("0 -1");
  refuse("0 32 16 2");
  refuse("0 4294967296");
}

// A product of other dtypes, or on a target without a tile, is refused with a reason.
static void test_matmul_rows(void **state) {
  (void)state;
  dt_target_t target = {.matmul_rows = {6, 0}, .matmul_width = {16, 0}};
  const char *why = NULL;
  const dt_matmul_row_t *row = dt__matmul_row(&target, DT_F32, DT_F32, DT_F32, &why);
  assert_non_null(row);
  assert_string_equal(row->name, "f32");
  assert_null(dt__matmul_row(&target, DT_I8, DT_I8, DT_I32, &why));
  assert_string_equal(why, "there is none for these dtypes");
  assert_null(dt__matmul_row(&target, DT_U8, DT_I8, DT_I32, &why));
  assert_string_equal(why, "the target lacks what it needs");
  target.dot_products = 1;
  row = dt__matmul_row(&target, DT_U8, DT_I8, DT_I32, &why);
  assert_non_null(row);
  assert_string_equal(row->name, "u8i8");
  assert_int_equal(row->k_step, 4);
  row = dt__matmul_row(&target, DT_I8, DT_U8, DT_I32, &why);
  assert_non_null(row);
  assert_string_equal(row->name, "i8u8");
  assert_null(dt__matmul_row(&target, DT_F64, DT_F64, DT_F64, &why));
  assert_string_equal(why, "the target has no register tile for this element size");
}

RUN_TESTS(TEST(test_fields), TEST(test_refusals), TEST(test_matmul_rows))

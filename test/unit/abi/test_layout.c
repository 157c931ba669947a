// SPDX-License-Identifier: Apache-2.0
// Pins what programs compile in: sizes and offsets of public structs, and values of constants, as
// layouts.def lists them.
#include "test/support/check.h"

#include "ductile/accessor.h"
#include "ductile/chain.h"
#include "ductile/ductile.h"
#include "ductile/experimental.h"
#include "ductile/onnx.h"
#include "ductile/package.h"
#include "ductile/pass.h"
#include "ductile/pattern.h"
#include "ductile/safetensors.h"

typedef struct row_t {
  const char *what;
  size_t actual;
  size_t pinned;
} row_t;

static const row_t rows[] = {
#define STRUCT(type, bytes) {"sizeof(" #type ")", sizeof(type), bytes},
#define FIELD(type, field, offset, bytes)                                                          \
  {"offset of " #type "." #field, offsetof(type, field), offset},                                  \
      {"size of " #type "." #field, sizeof(((type *)0)->field), bytes},
#define CONSTANT(name, value) {#name, (size_t)(name), value},
#include "test/unit/abi/layouts.def"
};

static void layouts_are_as_pinned(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    if (rows[i].actual != rows[i].pinned) {
      print_error("%s is %zu, pinned as %zu\n", rows[i].what, rows[i].actual, rows[i].pinned);
      wrong++;
    }
  }
  assert_int_equal(wrong, 0);
}

static void size_limit_is_as_pinned(void **state) {
  (void)state;
  assert_true(DT_SIZE_LIMIT == INT64_C(140737488355328));
}

RUN_TESTS(TEST(layouts_are_as_pinned), TEST(size_limit_is_as_pinned))

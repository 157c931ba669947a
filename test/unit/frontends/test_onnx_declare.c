// SPDX-License-Identifier: Apache-2.0
// A model's inputs as declarations, and names of dims that are expressions.
#include "test/support/check.h"

#include "frontends/onnx/declare.h"
#include "test/unit/frontends/onnx_text.h"

#include <string.h>

// ---- Expressions ----------------------------------------------------------------------------------
static const struct {
  const char *text;
  int64_t scale, offset;
  const char *name; // NULL: no expression
} expressions[] = {
    {"batch", 1, 0, "batch"},
    {"  batch ", 1, 0, "batch"},
    {"past_sequence_length + 1", 1, 1, "past_sequence_length"},
    {"1+past", 1, 1, "past"},
    {"2*batch", 2, 0, "batch"},
    {"batch*2 - 3", 2, -3, "batch"},
    {"3 - n", -1, 3, "n"},
    {"2*(n + 1) - (n - 4)", 1, 6, "n"},
    {"-(-n)", 1, 0, "n"},
    {"n - n", 0, 0, "n"},
    {"7", 0, 7, ""},
    {"2*3", 0, 6, ""},
    {"p2o.Dim.0 + 1", 1, 1, "p2o.Dim.0"},
    {"2147483647*n", 2147483647, 0, "n"},
    {"2147483648*n", 0, 0, NULL},
    {"65536*65536*n", 0, 0, NULL},
    {"a + b", 0, 0, NULL},
    {"a*b", 0, 0, NULL},
    {"a*a", 0, 0, NULL},
    {"n/2", 0, 0, NULL},
    {"floor(n)", 0, 0, NULL},
    {"n +", 0, 0, NULL},
    {"(n", 0, 0, NULL},
    {"n)", 0, 0, NULL},
    {"2n", 0, 0, NULL},
    {"", 0, 0, NULL},
    {"()", 0, 0, NULL},
    {"batch size", 0, 0, NULL},
    {"((((((((((((((((n))))))))))))))))", 1, 0, "n"},
    {"(((((((((((((((((n)))))))))))))))))", 0, 0, NULL},
};

static void test_expressions(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof expressions / sizeof expressions[0]; k++) {
    dt_onnx_affine_t got = {0};
    dt_onnx_str_t text = {expressions[k].text, strlen(expressions[k].text)};
    bool is_one = dt__onnx_read_affine(text, &got);
    if (is_one != (expressions[k].name != NULL))
      fail_msg("\"%s\" %s an expression", text.at, is_one ? "is" : "is not");
    if (is_one && (got.scale != expressions[k].scale || got.offset != expressions[k].offset ||
                   !dt__onnx_str_is(got.name, expressions[k].name)))
      fail_msg("\"%s\" is %lld * %.*s + %lld", text.at, (long long)got.scale, (int)got.name.len,
               got.name.at, (long long)got.offset);
  }
}

// ---- Declarations ---------------------------------------------------------------------------------
#define HEAD "ir_version 8 opset_import { version 17 } graph { "
#define INPUT(name, dtype, dims)                                                                   \
  "input { name '" name "' type { tensor_type { elem_type " dtype " shape { " dims " } } } } "
#define NAMED(text) "dim { dim_param '" text "' } "

typedef struct case_t {
  onnx_bytes_t bytes;
  dt_onnx_t *file;
  dt_arena_t arena;
  dt_onnx_decls_t decls;
} case_t;

static dt_status_t declare(case_t *c, const char *text) {
  c->bytes = onnx_make(&dt__onnx_model_message, text);
  dt__arena_init(&c->arena, 0);
  expect_ok(dt_onnx_open_memory(c->bytes.data, c->bytes.len, NULL, &c->file));
  return dt__onnx_declare(c->file, &c->arena, &c->decls);
}

static void end(case_t *c) {
  dt__arena_fini(&c->arena);
  dt_onnx_close(c->file);
  onnx_free(&c->bytes);
}

static void assert_derived(const dt_dim_decl_t *dim, const char *of, int64_t scale,
                           int64_t offset) {
  assert_null(dim->name);
  assert_non_null(dim->of);
  assert_string_equal(dim->of, of);
  assert_int_equal(dim->scale, scale);
  assert_int_equal(dim->offset, offset);
}

static void test_dims(void **state) {
  (void)state;
  case_t c = {0};
  assert_null(
      declare(&c, HEAD INPUT("x", "1",
                             NAMED("batch") "dim { dim_value 3 } dim { } "
                                            "dim { dim_value -1 } " NAMED("?"))             //
              INPUT("w", "1", NAMED("other"))                                               //
              INPUT("mask", "9", NAMED("batch") NAMED("past + 1") NAMED("other + 1"))       //
              INPUT("ids", "7", NAMED("2*batch") NAMED("past") NAMED("seq-1") NAMED("n/2")) //
              INPUT("s", "10", "")                                                          //
              "initializer { name 'w' data_type 1 dims 0 } }"));
  assert_int_equal(c.decls.len, 4);
  const dt_input_decl_t *x = &c.decls.items[0], *mask = &c.decls.items[1], *ids = &c.decls.items[2];
  assert_string_equal(x->name, "x");
  assert_int_equal(x->dtype, DT_F32);
  assert_int_equal(x->rank, 5);
  assert_string_equal(x->dims[0].name, "batch");
  assert_true(x->dims[1].is_static && x->dims[1].value == 3);
  for (int k = 2; k < 5; k++)
    assert_true(!x->dims[k].is_static && !x->dims[k].name && !x->dims[k].of);
  assert_int_equal(c.decls.inputs[1], 2);
  assert_int_equal(mask->dtype, DT_BOOL);
  assert_derived(&mask->dims[1], "past", 1, 1);
  // Of an input with an initializer, no name stands.
  assert_string_equal(mask->dims[2].name, "other + 1");
  assert_derived(&ids->dims[0], "batch", 2, 0);
  assert_string_equal(ids->dims[1].name, "past");
  assert_string_equal(ids->dims[2].name, "seq-1");
  assert_string_equal(ids->dims[3].name, "n/2");
  assert_int_equal(c.decls.items[3].dtype, DT_F16);
  assert_int_equal(c.decls.items[3].rank, 0);
  end(&c);
}

static void test_refused(void **state) {
  (void)state;
  case_t c = {0};
  dt_status_t status = declare(
      &c, HEAD INPUT("x", "1", "")
              INPUT("text", "8", "") "input { name 'list' type { sequence_type { "
                                     "elem_type { tensor_type { elem_type 1 } } } } } "
                                     "input { name 'any' type { tensor_type { elem_type 1 } } } }");
  assert_int_equal(dt_status_code(status), DT_E_UNSUPPORTED);
  assert_string_equal(dt_status_message(status),
                      "model in memory: inputs that cannot be declared: \"text\" (STRING), "
                      "\"list\" (no tensor), \"any\" (of unknown rank)");
  dt_status_free(status);
  end(&c);
}

// What callers are told of inputs and results, also of those that no function takes.
static void test_told(void **state) {
  (void)state;
  onnx_bytes_t bytes = onnx_make(
      &dt__onnx_model_message,
      HEAD INPUT("x", "1", NAMED("batch") "dim { dim_value 3 } dim { } dim { dim_value -1 } ")
          INPUT("w", "1", NAMED("other")) INPUT("h", "16", "") INPUT(
              "text", "8",
              NAMED(
                  "n + 1")) "input { name 'list' type { sequence_type { elem_type { tensor_type { "
                            "elem_type 1 } } } } } input { name 'any' type { tensor_type { "
                            "elem_type 7 } } } "
                            "output { name 'x' } output { name 'w' type { tensor_type { elem_type "
                            "1 shape { "
                            "dim { dim_value 0 } } } } } initializer { name 'w' data_type 1 dims 0 "
                            "} }");
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
  assert_int_equal(dt_onnx_n_inputs(file), 5);
  const dt_spec_t *x = dt_onnx_input(file, 0), *half = dt_onnx_input(file, 1);
  assert_string_equal(x->name, "x");
  assert_int_equal(x->dtype, DT_F32);
  assert_int_equal(x->rank, 4);
  const int64_t sizes[] = {-1, 3, -1, -1};
  const char *const dims[] = {"batch", "3", "?", "?"};
  for (int k = 0; k < 4; k++) {
    assert_int_equal(x->sizes[k], sizes[k]);
    assert_string_equal(x->dims[k], dims[k]);
  }
  assert_true(half->ranked && half->rank == 0 && half->dtype == DT_BF16);
  const dt_spec_t *text = dt_onnx_input(file, 2);
  assert_true(text->ranked && text->rank == 1 && text->dtype == DT_DTYPE_NONE);
  assert_string_equal(text->dims[0], "n + 1");
  const dt_spec_t *list = dt_onnx_input(file, 3), *any = dt_onnx_input(file, 4);
  assert_true(!list->ranked && list->rank == 0 && list->dtype == DT_DTYPE_NONE);
  assert_true(!any->ranked && any->rank == 0 && any->dtype == DT_I64);
  assert_null(dt_onnx_input(file, 5));
  const dt_spec_t *first = dt_onnx_output(file, 0), *second = dt_onnx_output(file, 1);
  assert_string_equal(first->name, "x");
  assert_true(!first->ranked && first->dtype == DT_DTYPE_NONE);
  assert_true(second->ranked && second->sizes[0] == 0 && second->dtype == DT_F32);
  assert_string_equal(second->dims[0], "0");
  assert_null(dt_onnx_output(file, 2));
  dt_onnx_close(file);
  onnx_free(&bytes);
}

static void test_no_memory(void **state) {
  (void)state;
  for (uint64_t n = 1;; n++) {
    onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message,
                                   HEAD INPUT("x", "1", NAMED("a")) INPUT("s", "8", "") "}");
    dt_onnx_t *file = NULL;
    dt_arena_t arena;
    dt_onnx_decls_t decls;
    dt__arena_init(&arena, 0);
    assert_null(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt__onnx_declare(file, &arena, &decls);
    (void)dt__heap_fail_at(0, false);
    dt_code_t code = dt_status_code(status);
    dt_status_free(status);
    dt__arena_fini(&arena);
    dt_onnx_close(file);
    onnx_free(&bytes);
    if (code == DT_E_UNSUPPORTED)
      break;
    assert_int_equal(code, DT_E_NO_MEMORY);
    assert_true(n < 100);
  }
}

RUN_TESTS(TEST(test_expressions), TEST(test_dims), TEST(test_refused), TEST(test_told),
          TEST(test_no_memory))

// SPDX-License-Identifier: Apache-2.0
// What hosts with a graph of their own need: external data that are in memory already, and which
// nodes keep a model from being compiled.
#include "test/unit/frontends/onnx_rig.h"

#include "frontends/onnx/onnx.h"
#include "runtime/base/memory.h"
#include "test/support/check.h"

#include <string.h>

#define HEAD "ir_version 8 opset_import { version 17 } "
#define KEY(key, value) "external_data { key '" key "' value '" value "' } "
#define AT(name, dims, keys)                                                                       \
  "initializer { name '" name "' data_type 1 " dims " data_location 1 " keys " } "
// y = x w + b.
#define LINEAR(w, b)                                                                               \
  HEAD "graph { " AT("w", "dims 2 dims 3", w) AT("b", "dims 3", b)                                 \
      INPUT("x", "1", OPEN("n") SIZE(2))                                                           \
          OUTPUT("y") "node { op_type 'MatMul' input 'x' input 'w' output 'p' } "                  \
                      "node { op_type 'Add' input 'p' input 'b' output 'y' } }"

static const float w_data[] = {1, 2, 3, 4, 5, 6}, b_data[] = {9, 9, 10, 20, 30};

static dt_status_t open_with(const char *text, const dt_onnx_memory_t *memory, uint32_t n,
                             onnx_bytes_t *bytes, dt_onnx_t **out) {
  dt_onnx_options_t options = {.struct_size = sizeof(options),
                               .max_external_bytes = 1, // of files: memory does not count
                               .memory = memory,
                               .n_memory = n,
                               .memory_size = sizeof(dt_onnx_memory_t)};
  *bytes = onnx_make(&dt__onnx_model_message, text);
  return dt_onnx_open_memory(bytes->data, bytes->len, &options, out);
}

static void refuse(const char *text, const dt_onnx_memory_t *memory, uint32_t n, dt_code_t code,
                   const char *told) {
  onnx_bytes_t bytes;
  dt_onnx_t *file = NULL;
  expect_told(open_with(text, memory, n, &bytes, &file), code, told);
  assert_null(file);
  onnx_free(&bytes);
}

// ---- Memory ---------------------------------------------------------------------------------------
static void test_memory(void **state) {
  fixture_t *fixture = *state;
  const dt_onnx_memory_t memory[] = {{"weights/w", w_data, sizeof(w_data)},
                                     {"all", b_data, sizeof(b_data)},
                                     {"not asked for", NULL, 0}};
  const char *text =
      LINEAR(KEY("location", "./weights/w"), KEY("location", "all") KEY("offset", "8"));
  onnx_bytes_t bytes;
  dt_onnx_t *file = NULL;
  expect_ok(open_with(text, memory, 3, &bytes, &file));
  const void *seen = NULL;
  expect_ok(dt__onnx_tensor_view(file, &file->model.graph->initializer.items[0], NULL, &seen));
  assert_ptr_equal(seen, w_data);
  expect_ok(dt__onnx_tensor_view(file, &file->model.graph->initializer.items[1], NULL, &seen));
  assert_ptr_equal(seen, b_data + 2);
  dt_function_t *function = rig_function(fixture, file, compiled_answer());
  dt_onnx_close(file);
  dt_tensor_t *x = NULL, *y = NULL;
  const int64_t sizes[] = {1, 2};
  expect_ok(dt_tensor_create_empty(DT_F32, 2, sizes, &x));
  ((float *)dt_tensor_data(x))[0] = 1;
  ((float *)dt_tensor_data(x))[1] = 2;
  expect_ok(dt_call(fixture->session, function, &x, 1, &y, 1, NULL));
  const float want[] = {19, 32, 45};
  assert_memory_equal(dt_tensor_data(y), want, sizeof(want));
  dt_tensor_release(x);
  dt_tensor_release(y);
  dt_function_release(function);
  onnx_free(&bytes);
}

static void test_memory_faults(void **state) {
  (void)state;
  const dt_onnx_memory_t memory[] = {{"w", w_data, sizeof(w_data)}, {"b", b_data, sizeof(b_data)}};
  const dt_onnx_memory_t twice[] = {{"w", w_data, 4}, {"w", w_data, sizeof(w_data)}};
  const dt_onnx_memory_t unnamed = {NULL, w_data, 4}, empty = {"w", NULL, 4};
  const char *good = LINEAR(KEY("location", "w"), KEY("location", "b"));
  refuse(LINEAR(KEY("location", "w"), KEY("location", "b") KEY("offset", "12")), memory, 2,
         DT_E_FORMAT, "tensor \"b\" needs bytes 12 to 24 of external file \"b\", which has 20");
  refuse(good, memory, 1, DT_E_ARGUMENT, "external file \"b\" of a model in memory");
  refuse(good, twice, 2, DT_E_ARGUMENT, "two are named \"w\"");
  refuse(good, NULL, 1, DT_E_ARGUMENT, "memory is NULL");
  refuse(good, &unnamed, 1, DT_E_ARGUMENT, "memory[0]: name is NULL");
  refuse(good, &empty, 1, DT_E_ARGUMENT, "memory[0]: data is NULL");
  refuse(LINEAR(KEY("location", "../w"), KEY("location", "b")), memory, 2, DT_E_FORMAT, "\"..\"");
}

// The checksum is of all that is there.
static void test_memory_checksum(void **state) {
  (void)state;
  const dt_onnx_memory_t memory[] = {{"w", w_data, sizeof(w_data)}, {"b", "abcdefghijkl", 12}};
  const void *seen = NULL;
  onnx_bytes_t bytes;
  dt_onnx_t *file = NULL;
#define SUM(sum) LINEAR(KEY("location", "w"), KEY("location", "b") KEY("checksum", sum))
  expect_ok(open_with(SUM("a4a0bc09a7cb7e51c5a2b34e9ea2dc7c1ca2b0bd"), memory, 2, &bytes, &file));
  expect_told(dt__onnx_tensor_view(file, &file->model.graph->initializer.items[1], NULL, &seen),
              DT_E_FORMAT, "external file \"b\" does not have the checksum");
  dt_onnx_close(file);
  onnx_free(&bytes);
  expect_ok(open_with(SUM("eb4608cebfcfd4df81410cbd06507ea6af978d9c"), memory, 2, &bytes, &file));
  expect_ok(dt__onnx_tensor_view(file, &file->model.graph->initializer.items[1], NULL, &seen));
  assert_ptr_equal(seen, memory[1].data);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

// ---- Obstacles ------------------------------------------------------------------------------------
typedef struct told_t {
  uint32_t node;
  const char *part;
} told_t;

static dt_status_t ask(const fixture_t *fixture, const char *text, onnx_bytes_t *bytes,
                       dt_onnx_obstacles_t **out) {
  dt_onnx_t *file = NULL;
  *bytes = onnx_make(&dt__onnx_model_message, text);
  expect_ok(dt_onnx_open_memory(bytes->data, bytes->len, NULL, &file));
  dt_status_t status = dt_onnx_obstacles(fixture->runtime, file, NULL, out);
  dt_onnx_close(file);
  return status;
}

static void expect_obstacles(const fixture_t *fixture, const char *text, uint32_t n,
                             const told_t *told) {
  dt_onnx_obstacles_t *found = NULL;
  onnx_bytes_t bytes;
  expect_ok(ask(fixture, text, &bytes, &found));
  assert_int_equal(found->n, n);
  for (uint32_t k = 0; k < n; k++) {
    assert_int_equal(found->items[k]->node, told[k].node);
    if (!strstr(found->items[k]->reason, told[k].part))
      fail_msg("obstacle %u: \"%s\", expected \"%s\"", k, found->items[k]->reason, told[k].part);
  }
  dt_onnx_obstacles_free(found);
  onnx_free(&bytes);
}

#define NODE(op, in, out, more) "node { op_type '" op "' input '" in "' output '" out "' " more "} "

static void test_obstacles(void **state) {
  fixture_t *fixture = *state;
#define X INPUT("x", "1", OPEN("n") SIZE(2))
  expect_obstacles(fixture, HEAD "graph { " X OUTPUT("y") NODE("Relu", "x", "y", "") "}", 0, NULL);
  // All that no row takes, and the one that has such a node within.
  const told_t all[] = {{1, "NoSuchOp (operator set 17, output \"b\"): the operator"},
                        {3, "Other (operator set 17, node \"in\"): the operator"}};
  expect_obstacles(
      fixture,
      HEAD "graph { " X INPUT("c", "9", "") OUTPUT("y") NODE("Relu", "x", "a", "")
          NODE("NoSuchOp", "a", "b", "") NODE("Relu", "b", "d", "")
              NODE("If", "c", "y",
                   "attribute { name 'then_branch' type 5 g { node { op_type 'Other' name 'in' "
                   "input 'd' output 't' } output { name 't' } } } attribute { name 'else_branch' "
                   "type 5 g { node { op_type 'Relu' input 'd' output 'e' } output { name 'e' } } "
                   "} ") "}",
      2, all);
  // What only a trace shows: the first node that fails.
  const told_t traced = {1, "node of \"y\" (MatMul"};
  expect_obstacles(
      fixture,
      HEAD "graph { " X INPUT("z", "1", SIZE(3)) OUTPUT("y")
          NODE("Relu", "x", "a", "") "node { op_type 'MatMul' input 'a' input 'z' output 'y' } }",
      1, &traced);
}

// What no node is the reason of.
static void test_obstacles_elsewhere(void **state) {
  fixture_t *fixture = *state;
  dt_onnx_obstacles_t *found = NULL;
  onnx_bytes_t bytes;
  expect_told(ask(fixture,
                  HEAD "graph { input { name 'x' type { tensor_type { elem_type 1 } } } " OUTPUT(
                      "y") NODE("Relu", "x", "y", "") "}",
                  &bytes, &found),
              DT_E_UNSUPPORTED, "inputs that cannot be declared: \"x\" (of unknown rank)");
  assert_null(found);
  onnx_free(&bytes);
  expect_told(dt_onnx_obstacles(fixture->runtime, NULL, NULL, &found), DT_E_ARGUMENT,
              "model is NULL");
  expect_told(dt_onnx_obstacles(fixture->runtime, NULL, NULL, NULL), DT_E_ARGUMENT, "out is NULL");
  dt_onnx_obstacles_free(NULL);
}

// A trace fails for want of memory: that is no node's fault.
static void test_no_memory(void **state) {
  fixture_t *fixture = *state;
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message,
                                 HEAD "graph { " X INPUT("z", "1", SIZE(3)) OUTPUT("y")
                                     NODE("Relu", "x", "a", "") NODE("NoSuchOp", "a", "y", "") "}");
  dt_onnx_t *file = NULL;
  expect_ok(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file));
  bool done = false;
  for (uint64_t n = 1; !done; n++) {
    dt_onnx_obstacles_t *found = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_onnx_obstacles(fixture->runtime, file, NULL, &found);
    (void)dt__heap_fail_at(0, false);
    done = status == NULL;
    if (status)
      assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
    else
      assert_int_equal(found->n, 1);
    dt_status_free(status);
    dt_onnx_obstacles_free(found);
    assert_true(n < 1000);
  }
  dt_onnx_close(file);
  onnx_free(&bytes);
}

static int setup(void **state) { return fixture_open(state, 2, 5); }
static int teardown(void **state) { return fixture_close(state); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_memory_faults),
                                     cmocka_unit_test(test_memory_checksum),
                                     cmocka_unit_test(test_obstacles),
                                     cmocka_unit_test(test_obstacles_elsewhere),
                                     cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, setup, teardown);
}

// SPDX-License-Identifier: Apache-2.0
// The ONNX reader over models in memory: what a good model gives, elements of every type,
// functions, limits, reports, every truncation and every single-bit change of a model, and a
// failing allocator.
#include "test/support/check.h"

#include "frontends/onnx/onnx.h"
#include "test/unit/frontends/onnx_text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char good_text[] =
#include "test/unit/frontends/onnx_good.def"
    ;

static dt_onnx_t *open_text(const char *text, onnx_bytes_t *bytes) {
  dt_onnx_t *file = NULL;
  *bytes = onnx_make(&dt__onnx_model_message, text);
  expect_ok(dt_onnx_open_memory(bytes->data, bytes->len, NULL, &file));
  assert_non_null(file);
  return file;
}

static void assert_str(dt_onnx_str_t actual, const char *expected) {
  if (!dt__onnx_str_is(actual, expected))
    fail_msg("expected \"%s\", found \"%.*s\"", expected, (int)actual.len, actual.at);
}

// ---- Good models ----------------------------------------------------------------------------------
static void check_values(const dt_onnx_graph_t *graph) {
  assert_int_equal(graph->input.len, 5);
  const dt_onnx_shape_t *shape = graph->input.items[0].type->tensor_type->shape;
  assert_int_equal(shape->dim.len, 4);
  assert_str(shape->dim.items[0].dim_param, "batch");
  assert_int_equal(shape->dim.items[1].dim_value, 3);
  assert_int_equal(shape->dim.items[2].head.has, 0);
  assert_int_equal(shape->dim.items[3].dim_value, -1);
  assert_null(graph->input.items[1].type->tensor_type->shape);
  const dt_onnx_type_t *list = graph->input.items[2].type;
  const dt_onnx_type_t *inner = list->sequence_type->elem_type->optional_type->elem_type;
  assert_int_equal(inner->tensor_type->elem_type, 7);
  assert_int_equal(graph->input.items[3].type->map_type->key_type, 7);
  assert_int_equal(graph->initializer.len, 2);
  assert_int_equal(graph->initializer.items[0].bytes, 8);
  assert_int_equal(graph->initializer.items[0].elements, 2);
  assert_int_equal(graph->initializer.items[0].dtype->dtype, DT_F32);
  // Equal names have equal ids, others have others, and 0 is the empty one.
  assert_int_equal(graph->input.items[1].name.id, graph->initializer.items[0].name.id);
  assert_int_not_equal(graph->input.items[0].name.id, graph->input.items[1].name.id);
  assert_int_equal(graph->node.items[1].output.items[1].id, 0);
  assert_int_equal(graph->node.items[2].input.items[1].id, 0);
}

static void check_attributes(const dt_onnx_node_t *node) {
  const dt_onnx_attribute_t *a = node->attribute.items;
  assert_int_equal(node->attribute.len, 8);
  const int64_t ints[] = {1, -2, 3, 4};
  assert_int_equal(a[0].ints.len, 4);
  assert_memory_equal(a[0].ints.items, ints, sizeof ints);
  assert_int_equal(a[1].floats.len, 2);
  assert_true(a[1].floats.items[0] == 0.5f && a[1].floats.items[1] == 1.5f);
  assert_int_equal(a[2].strings.len, 2);
  assert_str(a[2].strings.items[1], "\xff");
  assert_int_equal(a[3].i, -9);
  assert_int_equal(a[4].i, 0);
  assert_str(a[5].s, "text");
  assert_int_equal(a[6].t->elements, 2);
  assert_int_equal(a[7].tp->tensor_type->elem_type, 1);
}

static void test_good(void **state) {
  (void)state;
  onnx_bytes_t bytes;
  dt_onnx_t *file = open_text(good_text, &bytes);
  const dt_onnx_model_t *model = &file->model;
  assert_int_equal(model->ir_version, 10);
  assert_int_equal(model->model_version, 3);
  assert_str(model->producer_name, "tests");
  assert_int_equal(model->opset_import.len, 2);
  assert_int_equal(model->opset_import.items[0].version, 17);
  assert_str(model->opset_import.items[1].domain, "com.microsoft");
  const dt_onnx_graph_t *graph = model->graph;
  assert_str(graph->name, "main");
  assert_int_equal(graph->node.len, 4);
  check_values(graph);
  check_attributes(&graph->node.items[2]);
  assert_true(graph->node.items[0].attribute.items[0].f == 2.5f);
  const dt_onnx_graph_t *then = graph->node.items[1].attribute.items[0].g;
  assert_str(then->node.items[0].op_type, "Add");
  // Within a graph a name may hide one of those around it.
  assert_int_equal(then->output.items[0].name.id, graph->node.items[1].output.items[0].id);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

static dt_onnx_str_t str(const char *text) { return (dt_onnx_str_t){text, strlen(text)}; }

static void test_functions(void **state) {
  (void)state;
  onnx_bytes_t bytes;
  dt_onnx_t *file = open_text(good_text, &bytes);
  const dt_onnx_model_t *model = &file->model;
  const dt_onnx_function_t *plain =
      dt__onnx_find_function(model, str("own"), str("Twice"), str(""));
  const dt_onnx_function_t *other =
      dt__onnx_find_function(model, str("own"), str("Twice"), str("other"));
  assert_ptr_equal(plain, &model->functions.items[0]);
  assert_ptr_equal(other, &model->functions.items[1]);
  assert_null(dt__onnx_find_function(model, str("own"), str("Twice"), str("third")));
  assert_null(dt__onnx_find_function(model, str(""), str("Twice"), str("")));
  assert_null(dt__onnx_find_function(model, str("own"), str("Thrice"), str("")));
  assert_int_equal(model->graph->node.items[0].function, 1);
  assert_int_equal(model->graph->node.items[1].function, 0);
  assert_int_equal(plain->node.items[1].function, 2);
  assert_str(plain->node.items[0].attribute.items[0].ref_attr_name, "scale");
  assert_str(plain->attribute_proto.items[0].name, "beta");
  dt_onnx_close(file);
  onnx_free(&bytes);
}

// ---- Elements -------------------------------------------------------------------------------------
typedef struct elements_t {
  const char *tensor; // after its name
  const char *expected;
  size_t bytes;
} elements_t;

static const elements_t elements[] = {
    {"data_type 1 dims 2 float_data [1 -2]", "\x00\x00\x80\x3f\x00\x00\x00\xc0", 8},
    {"data_type 1 dims 2 float_data 1 float_data [-2]", "\x00\x00\x80\x3f\x00\x00\x00\xc0", 8},
    {"data_type 1 dims 1 raw_data 'abcd'", "abcd", 4},
    {"data_type 1 raw_data 'wxyz'", "wxyz", 4},
    {"data_type 2 dims 2 int32_data [0 255]", "\x00\xff", 2},
    {"data_type 3 dims 2 int32_data [-128 127]", "\x80\x7f", 2},
    {"data_type 4 dims 1 int32_data [65535]", "\xff\xff", 2},
    {"data_type 5 dims 1 int32_data [-32768]", "\x00\x80", 2},
    {"data_type 6 dims 2 int32_data [-1 0xffffffff]", "\xff\xff\xff\xff\xff\xff\xff\xff", 8},
    {"data_type 7 dims 1 int64_data -2", "\xfe\xff\xff\xff\xff\xff\xff\xff", 8},
    {"data_type 9 dims 2 int32_data [1 0]", "\x01\x00", 2},
    {"data_type 10 dims 1 int32_data [0x3c00]", "\x00\x3c", 2},
    {"data_type 11 dims 1 double_data [1]", "\x00\x00\x00\x00\x00\x00\xf0\x3f", 8},
    {"data_type 12 dims 1 uint64_data [0xffffffff]", "\xff\xff\xff\xff", 4},
    {"data_type 13 dims 1 uint64_data 1", "\x01\x00\x00\x00\x00\x00\x00\x00", 8},
    {"data_type 14 dims 1 float_data [1 -2]", "\x00\x00\x80\x3f\x00\x00\x00\xc0", 8},
    {"data_type 15 dims 1 double_data [1 0]",
     "\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x00", 16},
    {"data_type 16 dims 1 int32_data [0x3f80]", "\x80\x3f", 2},
    {"data_type 17 dims 1 int32_data [200]", "\xc8", 1},
    {"data_type 21 dims 3 int32_data [0x21 0x03]", "\x21\x03", 2},
    {"data_type 22 dims 3 raw_data 'ab'", "ab", 2},
    {"data_type 25 dims 5 int32_data [0xe4 0x03]", "\xe4\x03", 2},
    {"data_type 1 dims 0", "", 0},
    {"data_type 8 dims 0", "", 0},
};
#define N_ELEMENTS (sizeof(elements) / sizeof(elements[0]))

static dt_onnx_t *open_tensor(const char *tensor, onnx_bytes_t *bytes) {
  char text[512];
  (void)snprintf(text, sizeof text,
                 "ir_version 8 opset_import { version 17 } graph { initializer { name 'w' %s } }",
                 tensor);
  return open_text(text, bytes);
}

static void test_elements(void **state) {
  (void)state;
  for (size_t k = 0; k < N_ELEMENTS; k++) {
    onnx_bytes_t bytes;
    dt_onnx_t *file = open_tensor(elements[k].tensor, &bytes);
    const dt_onnx_tensor_t *tensor = &file->model.graph->initializer.items[0];
    size_t size = elements[k].bytes;
    unsigned char got[16];
    assert_int_equal(tensor->bytes, size);
    if (tensor->dtype->bits == 0) {
      expect_told(dt__onnx_tensor_copy(file, tensor, NULL, got, 0), DT_E_DTYPE, "strings");
    } else {
      dt_status_t status = dt__onnx_tensor_copy(file, tensor, NULL, got, size);
      if (status)
        fail_msg("%s: %s", elements[k].tensor, dt_status_message(status));
      assert_memory_equal(got, elements[k].expected, size);
      expect_told(dt__onnx_tensor_copy(file, tensor, NULL, got, size + 1), DT_E_ARGUMENT, "size");
    }
    dt_onnx_close(file);
    onnx_free(&bytes);
  }
}

static void test_elements_out_of_range(void **state) {
  (void)state;
  static const char *const tensors[] = {
      "data_type 2 dims 1 int32_data 256",
      "data_type 2 dims 1 int32_data -1",
      "data_type 3 dims 1 int32_data 128",
      "data_type 3 dims 1 int32_data -129",
      "data_type 4 dims 1 int32_data 65536",
      "data_type 5 dims 1 int32_data 32768",
      "data_type 9 dims 1 int32_data 2",
      "data_type 10 dims 1 int32_data 65536",
      "data_type 16 dims 1 int32_data -1",
      "data_type 17 dims 1 int32_data 256",
      "data_type 12 dims 1 uint64_data 0x100000000",
      "data_type 21 dims 1 int32_data 256",
      "data_type 9 dims 1 raw_data '\\x02'",
  };
  for (size_t k = 0; k < sizeof tensors / sizeof tensors[0]; k++) {
    onnx_bytes_t bytes;
    dt_onnx_t *file = open_tensor(tensors[k], &bytes);
    const dt_onnx_tensor_t *tensor = &file->model.graph->initializer.items[0];
    unsigned char got[16];
    expect_told(dt__onnx_tensor_copy(file, tensor, NULL, got, (size_t)tensor->bytes), DT_E_RANGE,
                "tensor \"w\" at byte");
    dt_onnx_close(file);
    onnx_free(&bytes);
  }
}

static void test_strings(void **state) {
  (void)state;
  onnx_bytes_t bytes;
  dt_onnx_t *file =
      open_tensor("data_type 8 dims 2 string_data 'one' string_data '\\x00\\xff'", &bytes);
  dt_onnx_str_t got[2];
  assert_null(dt__onnx_tensor_strings(file, &file->model.graph->initializer.items[0], got));
  assert_str(got[0], "one");
  assert_int_equal(got[1].len, 2);
  assert_memory_equal(got[1].at, "\x00\xff", 2);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

// ---- Limits ---------------------------------------------------------------------------------------
static void assert_limited(const char *text, const dt_onnx_options_t *options,
                           const char *message) {
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  dt_onnx_t *file = NULL;
  expect_told(dt_onnx_open_memory(bytes.data, bytes.len, options, &file), DT_E_LIMIT, message);
  assert_null(file);
  onnx_free(&bytes);
}

static void test_limits(void **state) {
  (void)state;
  assert_limited(good_text, &(dt_onnx_options_t){.max_file_bytes = 100}, "the limit is 100");
  assert_limited(good_text, &(dt_onnx_options_t){.max_nodes = 3}, "more than 3 nodes");
  assert_limited(good_text, &(dt_onnx_options_t){.max_tensors = 2}, "more than 2 tensors");
  assert_limited(good_text, &(dt_onnx_options_t){.max_depth = 1},
                 "graph.node[1].attribute[0].g: byte");
  // More than any one list takes, and less than all.
  assert_limited(good_text, &(dt_onnx_options_t){.max_structure_bytes = 6000},
                 "6000 bytes of memory");
}

// `prefix`, then `open` n times and `close` n times, then `suffix`.
static char *nest(const char *prefix, const char *open, const char *inner, const char *close,
                  const char *suffix, unsigned n) {
  size_t size =
      strlen(prefix) + strlen(inner) + strlen(suffix) + n * (strlen(open) + strlen(close));
  char *text = malloc(size + 1), *at = text;
  assert_non_null(text);
  at = stpcpy(at, prefix);
  for (unsigned k = 0; k < n; k++)
    at = stpcpy(at, open);
  at = stpcpy(at, inner);
  for (unsigned k = 0; k < n; k++)
    at = stpcpy(at, close);
  stpcpy(at, suffix);
  return text;
}

#define HEAD "ir_version 8 opset_import { version 17 } graph { "
#define OPEN_GRAPH "node { op_type 'If' attribute { name 'b' type 5 g { "

static void test_depth(void **state) {
  (void)state;
  // The model's graph is one of the 32.
  char *text = nest(HEAD, OPEN_GRAPH, "", "} } } ", "} ", 31);
  onnx_bytes_t bytes;
  dt_onnx_close(open_text(text, &bytes));
  onnx_free(&bytes);
  free(text);
  text = nest(HEAD, OPEN_GRAPH, "", "} } } ", "} ", 32);
  assert_limited(text, NULL, "more than 32 graphs within each other, the limit");
  free(text);
  text = nest(HEAD "input { name 'x' type { ", "sequence_type { elem_type { ",
              "tensor_type { elem_type 1 } ", "} } ", "} } } ", 64);
  assert_limited(text, NULL, "more than 128 messages within each other");
  free(text);
}

static void test_long_name(void **state) {
  (void)state;
  char *text = nest(HEAD "node { name '", "n", "", "", "' } } ", 4096);
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  dt_onnx_t *file = NULL;
  // Short enough, so that it is the missing op_type that is told; of the name, its beginning.
  expect_told(dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file), DT_E_FORMAT,
              "nnn...\" has no op_type");
  onnx_free(&bytes);
  free(text);
  text = nest(HEAD "node { name '", "n", "", "", "' } } ", 4097);
  assert_limited(text, NULL, "NodeProto.name has 4097 bytes, the limit is 4096");
  free(text);
}

// `format` n times, each with its number, between `prefix` and `suffix`.
DT_PRINTF(2, 0)
static char *repeat(const char *prefix, const char *format, const char *suffix, int n) {
  size_t size = strlen(prefix) + strlen(suffix) + (size_t)n * (strlen(format) + 8);
  char *text = malloc(size + 1), *at = text;
  assert_non_null(text);
  at = stpcpy(at, prefix);
  for (int k = 0; k < n; k++)
    at += snprintf(at, size - (size_t)(at - text), format, k);
  stpcpy(at, suffix);
  return text;
}

static void test_long_location(void **state) {
  (void)state;
  char *text =
      nest(HEAD "initializer { data_type 1 dims 1 name 'w' data_location 1 external_data { "
                "key 'location' value '",
           "n", "", "", "' } } }", 4097);
  assert_limited(text, NULL, "a location of 4097 bytes, the limit is 4096");
  free(text);
}

static void test_counts(void **state) {
  (void)state;
  static const struct {
    const char *prefix, *format, *suffix;
    int most;
    const char *message;
  } lists[] = {
      {HEAD "node { op_type 'A' ", "attribute { name 'a%d' type 2 } ", "} }", 1024,
       "graph.node[0].attribute[1024]: byte"},
      {HEAD "} functions { name 'f' ", "attribute 'a%d' ", "}", 1024, "functions[0]: byte"},
      {HEAD "} ", "opset_import { domain 'd%d' version 1 } ", "", 63, "opset_import[64]: byte"},
  };
  for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
    onnx_bytes_t bytes;
    char *text = repeat(lists[k].prefix, lists[k].format, lists[k].suffix, lists[k].most);
    dt_onnx_close(open_text(text, &bytes));
    onnx_free(&bytes);
    free(text);
    text = repeat(lists[k].prefix, lists[k].format, lists[k].suffix, lists[k].most + 1);
    assert_limited(text, NULL, lists[k].message);
    free(text);
  }
}

// Function k calls function k + 1 twice: 2^n nodes out of 2 n.
static char *doubling(unsigned n, const char *calls) {
  char *text = malloc(200 + n * 200), *at = text;
  assert_non_null(text);
  at = stpcpy(at, HEAD "node { op_type 'f0' domain 'd' } } ");
  for (unsigned k = 0; k < n; k++) {
    at += sprintf(at, "functions { name 'f%u' domain 'd' ", k);
    for (const char *call = calls; *call; call++)
      at += sprintf(at, "node { op_type 'f%u' domain 'd' } ", k + 1);
    at = stpcpy(at, "} ");
  }
  sprintf(at, "functions { name 'f%u' domain 'd' } ", n);
  return text;
}

static void test_expansion(void **state) {
  (void)state;
  char *text = doubling(12, "xx");
  onnx_bytes_t bytes;
  dt_onnx_close(open_text(text, &bytes));
  onnx_free(&bytes);
  free(text);
  text = doubling(60, "xx");
  assert_limited(text, NULL, "comes to too many nodes when functions are put in place");
  free(text);
  text = doubling(126, "x");
  dt_onnx_close(open_text(text, &bytes));
  onnx_free(&bytes);
  free(text);
  text = doubling(300, "x");
  assert_limited(text, NULL, "calls");
  free(text);
}

// Callers may have small stacks.
static void *run_deep(void *arg) {
  const onnx_bytes_t *bytes = arg;
  dt_onnx_t *file = NULL;
  dt_status_t status = dt_onnx_open_memory(bytes->data, bytes->len, NULL, &file);
  bool good = !status;
  dt_status_free(status);
  dt_onnx_close(file);
  return good ? arg : NULL;
}

static void test_small_stack(void **state) {
  (void)state;
  char *text = nest(HEAD, OPEN_GRAPH, "", "} } } ", "} ", 31);
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, text);
  pthread_attr_t attr;
  pthread_t thread;
  void *result = NULL;
  assert_int_equal(pthread_attr_init(&attr), 0);
#ifdef __SANITIZE_ADDRESS__
  assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)1 << 20), 0);
#else
  assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)128 << 10), 0);
#endif
  assert_int_equal(pthread_create(&thread, &attr, run_deep, &bytes), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_non_null(result);
  (void)pthread_attr_destroy(&attr);
  onnx_free(&bytes);
  free(text);
}

// ---- Reports --------------------------------------------------------------------------------------
static void test_report_text(void **state) {
  (void)state;
  static const char expected[] = //
      "model in memory: ONNX, IR version 10, 754 bytes\n"
      "producer: tests 1.0\n"
      "operator sets: ai.onnx 17, com.microsoft 1\n"
      "metadata:\n"
      "  k\\\": v\\ufffd\\u000a\n"
      "inputs:\n"
      "  x: FLOAT [batch, 3, ?, ?]\n"
      "  w: FLOAT of any rank, with a default\n"
      "  list: sequence(optional(INT64 []))\n"
      "  m: map(INT64, opaque o)\n"
      "  sp: sparse DOUBLE of any rank\n"
      "outputs:\n"
      "  g: of no type\n"
      "  ids: of no type\n"
      "initializers: 2, 24 bytes\n"
      "  FLOAT: 1, 8 bytes\n"
      "  INT64: 1, 16 bytes\n"
      "tensors in attributes: 1, 2 bytes\n"
      "nodes: 7 of 6 operators, 2 graphs within them\n"
      "       2 Twice of own, a function of the model\n"
      "       1 Add\n"
      "       1 Clip\n"
      "       1 Elu\n"
      "       1 Gelu of com.microsoft\n"
      "       1 If\n"
      "functions:\n"
      "  Twice of own: inputs 1, outputs 1, nodes 2\n"
      "  Twice of own, overload other: inputs 1, outputs 1, nodes 0\n";
  onnx_bytes_t bytes;
  dt_onnx_t *file = open_text(good_text, &bytes);
  char *text = NULL;
  assert_null(dt_onnx_report_text(file, &text));
  assert_string_equal(text, expected);
  dt__free(text);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

static void test_report_json(void **state) {
  (void)state;
  static const char *const lines[] = {
      "{\"event\":\"metadata\",\"key\":\"k\\\"\",\"value\":\"v\\ufffd\\u000a\"}\n",
      "{\"event\":\"input\",\"name\":\"x\",\"type\":\"FLOAT [batch, 3, ?, ?]\",\"dtype\":\"FLOAT\","
      "\"dims\":[\"batch\",3,null,null],\"default\":false}\n",
      "{\"event\":\"input\",\"name\":\"w\",\"type\":\"FLOAT of any rank\",\"dtype\":\"FLOAT\","
      "\"dims\":null,\"default\":true}\n",
      "{\"event\":\"output\",\"name\":\"ids\",\"type\":\"of no "
      "type\",\"dtype\":null,\"dims\":null}\n",
      "{\"event\":\"initializers\",\"dtype\":\"INT64\",\"count\":1,\"bytes\":16}\n",
      "{\"event\":\"operator\",\"domain\":\"own\",\"op_type\":\"Twice\",\"count\":2,\"function\":"
      "true}\n",
      "{\"event\":\"function\",\"domain\":\"own\",\"name\":\"Twice\",\"overload\":\"other\","
      "\"inputs\":1,\"outputs\":1,\"nodes\":0}\n",
  };
  onnx_bytes_t bytes;
  dt_onnx_t *file = open_text(good_text, &bytes);
  char *text = NULL;
  assert_null(dt_onnx_report_json(file, &text));
  for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
    if (!strstr(text, lines[k]))
      fail_msg("no line %s among\n%s", lines[k], text);
  dt__free(text);
  dt_onnx_close(file);
  onnx_free(&bytes);
}

// ---- Damage ---------------------------------------------------------------------------------------
// Opens what it is given; what is accepted must be fit for a report and for all copies.
static bool survive(const unsigned char *data, size_t len) {
  dt_onnx_t *file = NULL;
  dt_status_t status = dt_onnx_open_memory(data, len, NULL, &file);
  bool accepted = !status;
  assert_true(accepted == (file != NULL));
  if (accepted) {
    char *text = NULL;
    assert_null(dt_onnx_report_json(file, &text));
    dt__free(text);
    const dt_onnx_tensors_t *tensors = &file->model.graph->initializer;
    for (uint32_t k = 0; k < tensors->len; k++) {
      unsigned char *room = malloc((size_t)tensors->items[k].bytes + 1);
      assert_non_null(room);
      dt_status_free(dt__onnx_tensor_copy(file, &tensors->items[k], NULL, room,
                                          (size_t)tensors->items[k].bytes));
      free(room);
    }
  } else {
    assert_true(dt_status_code(status) != DT_E_INTERNAL);
  }
  dt_status_free(status);
  dt_onnx_close(file);
  return accepted;
}

static void test_truncations(void **state) {
  (void)state;
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, good_text);
  size_t accepted = 0;
  for (size_t len = 1; len < bytes.len; len++) {
    unsigned char *part = malloc(len);
    assert_non_null(part);
    memcpy(part, bytes.data, len);
    accepted += survive(part, len);
    free(part);
  }
  // Where a field of the model ends behind its graph and functions, the rest is a model, too.
  assert_true(accepted <= 5);
  onnx_free(&bytes);
}

static void test_bit_flips(void **state) {
  (void)state;
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, good_text);
  for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
    bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    (void)survive(bytes.data, bytes.len);
    bytes.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  assert_true(survive(bytes.data, bytes.len));
  onnx_free(&bytes);
}

static void test_no_memory(void **state) {
  (void)state;
  onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, good_text);
  bool done = false;
  for (uint64_t n = 1; !done; n++) {
    dt_onnx_t *file = NULL;
    char *text = NULL;
    (void)dt__heap_fail_at(n, false);
    dt_status_t status = dt_onnx_open_memory(bytes.data, bytes.len, NULL, &file);
    if (!status)
      status = dt_onnx_report_json(file, &text);
    (void)dt__heap_fail_at(0, false);
    done = !status;
    assert_true(done || dt_status_code(status) == DT_E_NO_MEMORY);
    assert_true(n < 1000);
    dt_status_free(status);
    dt__free(text);
    dt_onnx_close(file);
  }
  onnx_free(&bytes);
}

static void test_arguments(void **state) {
  (void)state;
  dt_onnx_t *file = NULL;
  char *text = NULL;
  expect_told(dt_onnx_open_memory("", 1, NULL, NULL), DT_E_ARGUMENT, "out is NULL");
  expect_told(dt_onnx_open_memory(NULL, 1, NULL, &file), DT_E_ARGUMENT, "data is NULL");
  expect_told(dt_onnx_open_memory("", 0, NULL, &file), DT_E_FORMAT, "an empty file");
  expect_told(dt_onnx_open_memory("a", 1, &(dt_onnx_options_t){.struct_size = 8}, &file),
              DT_E_ARGUMENT, "struct_size: 8");
  expect_told(
      dt_onnx_open_memory("a", 1, &(dt_onnx_options_t){.access = (dt_onnx_access_t)2}, &file),
      DT_E_ARGUMENT, "no access mode 2");
  expect_told(dt_onnx_open(NULL, NULL, &file), DT_E_ARGUMENT, "path is NULL");
  expect_told(dt_onnx_open("x", NULL, NULL), DT_E_ARGUMENT, "out is NULL");
  expect_told(dt_onnx_report_text(NULL, &text), DT_E_ARGUMENT, "model is NULL");
  expect_told(dt_onnx_report_json(NULL, NULL), DT_E_ARGUMENT, "out is NULL");
  dt_onnx_close(NULL);
}

RUN_TESTS(TEST(test_good), TEST(test_functions), TEST(test_elements),
          TEST(test_elements_out_of_range), TEST(test_strings), TEST(test_limits), TEST(test_depth),
          TEST(test_long_name), TEST(test_long_location), TEST(test_counts), TEST(test_expansion),
          TEST(test_small_stack), TEST(test_report_text), TEST(test_report_json),
          TEST(test_truncations), TEST(test_bit_flips), TEST(test_no_memory), TEST(test_arguments))

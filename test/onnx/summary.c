// SPDX-License-Identifier: Apache-2.0
// Prints all that the reader takes from ONNX files, for comparison with another reader (summary.py
// prints the same). Standard input names the files, a line each: models, and `.pb` files with one
// tensor.
#include "frontends/onnx/onnx.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Values ---------------------------------------------------------------------------------------
// What could be mistaken for the text around it is written as %XX.
static void put_str(dt_onnx_str_t str) {
  static const char plain[] = "_./:-";
  for (size_t k = 0; k < str.len; k++) {
    unsigned char c = (unsigned char)str.at[k];
    bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter || (c && strchr(plain, c)))
      putchar(c);
    else
      printf("%%%02X", c);
  }
}

static void put_named(const char *title, dt_onnx_str_t str) {
  printf(" %s=", title);
  put_str(str);
}

static void put_names(const char *title, const dt_onnx_names_t *names) {
  printf(" %s=", title);
  for (uint32_t k = 0; k < names->len; k++) {
    printf("%s", k ? "," : "");
    put_str(names->items[k].text);
  }
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static bool fill(dt_onnx_t *file, const dt_onnx_tensor_t *tensor, unsigned char **out,
                 size_t *out_bytes) {
  if (tensor->dtype->bits != 0) {
    *out_bytes = (size_t)tensor->bytes;
    *out = calloc(1, *out_bytes + 1);
    dt_status_t status = *out ? dt__onnx_tensor_copy(file, tensor, NULL, *out, *out_bytes) : NULL;
    if (status)
      printf("FAILED %s\n", dt_status_message(status));
    dt_status_free(status);
    return *out && !status;
  }
  // Each string behind its length.
  dt_onnx_str_t *strings = calloc(tensor->elements + 1, sizeof *strings);
  dt_status_t status = strings ? dt__onnx_tensor_strings(file, tensor, strings) : NULL;
  size_t bytes = 0;
  for (uint64_t k = 0; strings && !status && k < tensor->elements; k++)
    bytes += 4 + strings[k].len;
  *out = calloc(1, bytes + 1);
  *out_bytes = bytes;
  size_t at = 0;
  for (uint64_t k = 0; *out && strings && !status && k < tensor->elements; k++) {
    uint32_t len = (uint32_t)strings[k].len;
    memcpy(*out + at, &len, 4);
    memcpy(*out + at + 4, strings[k].at, len);
    at += 4 + len;
  }
  free(strings);
  dt_status_free(status);
  return *out && !status;
}

static void put_tensor(dt_onnx_t *file, const dt_onnx_tensor_t *tensor) {
  unsigned char *data = NULL, sum[DT_SHA1_BYTES];
  size_t bytes = 0;
  printf(" %lld[", (long long)tensor->data_type);
  for (uint32_t k = 0; k < tensor->dims.len; k++)
    printf("%s%lld", k ? "," : "", (long long)tensor->dims.items[k]);
  printf("] ");
  if (fill(file, tensor, &data, &bytes)) {
    dt__sha1(data, bytes, sum);
    for (unsigned k = 0; k < DT_SHA1_BYTES; k++)
      printf("%02x", sum[k]);
  }
  free(data);
}

static void put_shape(const dt_onnx_shape_t *shape) {
  if (!shape) {
    printf("*");
    return;
  }
  printf("[");
  for (uint32_t k = 0; k < shape->dim.len; k++) {
    const dt_onnx_dim_t *dim = &shape->dim.items[k];
    printf("%s", k ? "," : "");
    if (dim->head.has & 1)
      printf("%lld", (long long)dim->dim_value);
    else if (dim->head.has & 2)
      put_str(dim->dim_param);
    else
      printf("?");
  }
  printf("]");
}

static void put_type(const dt_onnx_type_t *type) {
  if (!type || type->head.has == 0) {
    printf("none");
  } else if (type->tensor_type || type->sparse_tensor_type) {
    const dt_onnx_tensor_type_t *tensor =
        type->tensor_type ? type->tensor_type : type->sparse_tensor_type;
    printf("%s%lld", type->tensor_type ? "" : "sparse", (long long)tensor->elem_type);
    put_shape(tensor->shape);
  } else if (type->opaque_type) {
    printf("opaque");
  } else {
    const dt_onnx_wrapped_type_t *inner = type->sequence_type   ? type->sequence_type
                                          : type->optional_type ? type->optional_type
                                                                : type->map_type;
    printf("%s%lld(",
           type->sequence_type   ? "seq"
           : type->optional_type ? "opt"
                                 : "map",
           (long long)inner->key_type);
    put_type(inner->elem_type);
    printf(")");
  }
}

// ---- Graphs ---------------------------------------------------------------------------------------
static void put_graph(dt_onnx_t *file, const dt_onnx_graph_t *graph);

static void put_lists(const dt_onnx_attribute_t *a) {
  for (uint32_t k = 0; k < a->floats.len; k++)
    printf(" %08x", bits_of(a->floats.items[k]));
  for (uint32_t k = 0; k < a->ints.len; k++)
    printf(" %lld", (long long)a->ints.items[k]);
  for (uint32_t k = 0; k < a->strings.len; k++) {
    printf(" ");
    put_str(a->strings.items[k]);
  }
}

static void put_attribute(dt_onnx_t *file, const dt_onnx_attribute_t *a) {
  printf("attribute");
  put_named("name", a->name);
  put_named("ref", a->ref_attr_name);
  printf(" type=%lld f=%08x i=%lld", (long long)a->type, bits_of(a->f), (long long)a->i);
  put_named("s", a->s);
  put_lists(a);
  if (a->t)
    put_tensor(file, a->t);
  for (uint32_t k = 0; k < a->tensors.len; k++)
    put_tensor(file, &a->tensors.items[k]);
  printf(" ");
  if (a->tp)
    put_type(a->tp);
  printf("\n");
  if (a->g)
    put_graph(file, a->g);
  for (uint32_t k = 0; k < a->graphs.len; k++)
    put_graph(file, &a->graphs.items[k]);
}

static void put_nodes(dt_onnx_t *file, const dt_onnx_nodes_t *nodes) {
  for (uint32_t k = 0; k < nodes->len; k++) {
    const dt_onnx_node_t *node = &nodes->items[k];
    printf("node");
    put_named("op", node->op_type);
    put_named("domain", node->domain);
    put_named("overload", node->overload);
    put_named("name", node->name);
    put_names("in", &node->input);
    put_names("out", &node->output);
    printf("\n");
    for (uint32_t i = 0; i < node->attribute.len; i++)
      put_attribute(file, &node->attribute.items[i]);
  }
}

static void put_values(const char *title, const dt_onnx_values_t *values) {
  for (uint32_t k = 0; k < values->len; k++) {
    printf("%s", title);
    put_named("name", values->items[k].name.text);
    printf(" ");
    put_type(values->items[k].type);
    printf("\n");
  }
}

static void put_graph(dt_onnx_t *file, const dt_onnx_graph_t *graph) {
  printf("graph");
  put_named("name", graph->name);
  printf("\n");
  put_values("input", &graph->input);
  put_values("output", &graph->output);
  put_values("value", &graph->value_info);
  for (uint32_t k = 0; k < graph->initializer.len; k++) {
    printf("initializer");
    put_named("name", graph->initializer.items[k].name.text);
    put_tensor(file, &graph->initializer.items[k]);
    printf("\n");
  }
  put_nodes(file, &graph->node);
  printf("end\n");
}

static void put_opsets(const dt_onnx_opsets_t *opsets) {
  for (uint32_t k = 0; k < opsets->len; k++) {
    printf("opset");
    put_named("domain", opsets->items[k].domain);
    printf(" %lld\n", (long long)opsets->items[k].version);
  }
}

static void put_function(dt_onnx_t *file, const dt_onnx_function_t *f) {
  printf("function");
  put_named("name", f->name);
  put_named("domain", f->domain);
  put_named("overload", f->overload);
  put_names("in", &f->input);
  put_names("out", &f->output);
  for (uint32_t k = 0; k < f->attribute.len; k++)
    put_named("attribute", f->attribute.items[k]);
  printf("\n");
  for (uint32_t k = 0; k < f->attribute_proto.len; k++)
    put_attribute(file, &f->attribute_proto.items[k]);
  put_opsets(&f->opset_import);
  put_nodes(file, &f->node);
}

static void put_model(dt_onnx_t *file) {
  const dt_onnx_model_t *model = &file->model;
  printf("model %lld %lld", (long long)model->ir_version, (long long)model->model_version);
  put_named("producer", model->producer_name);
  put_named("version", model->producer_version);
  put_named("domain", model->domain);
  printf("\n");
  put_opsets(&model->opset_import);
  for (uint32_t k = 0; k < model->metadata_props.len; k++) {
    printf("metadata");
    put_named("key", model->metadata_props.items[k].key);
    put_named("value", model->metadata_props.items[k].value);
    printf("\n");
  }
  put_graph(file, model->graph);
  for (uint32_t k = 0; k < model->functions.len; k++)
    put_function(file, &model->functions.items[k]);
}

// ---- Files ----------------------------------------------------------------------------------------
static bool put_file(const char *path) {
  dt_onnx_t *file = NULL;
  dt_onnx_tensor_t *tensor = NULL;
  size_t len = strlen(path);
  bool is_tensor = len > 3 && strcmp(path + len - 3, ".pb") == 0;
  printf("file %s\n", path);
  dt_status_t status =
      is_tensor ? dt__onnx_open_tensor(path, &file, &tensor) : dt_onnx_open(path, NULL, &file);
  if (status) {
    printf("refused: %s: %s\n", dt_code_name(dt_status_code(status)), dt_status_message(status));
  } else if (is_tensor) {
    printf("tensor");
    put_named("name", tensor->name.text);
    put_tensor(file, tensor);
    printf("\n");
  } else {
    put_model(file);
  }
  bool good = !status;
  dt_status_free(status);
  dt_onnx_close(file);
  return good;
}

int main(void) {
  static char line[8192];
  int refused = 0, files = 0;
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = '\0';
    refused += !put_file(line);
    files++;
  }
  (void)fprintf(stderr, "%d files, %d refused\n", files, refused);
  return refused > 0;
}

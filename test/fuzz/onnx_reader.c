// SPDX-License-Identifier: Apache-2.0
// Fuzzes the ONNX reader. What it accepts must hold: strings and data inside the input, names with
// ids in range, tensors of exactly their bytes, a report; memory is bounded by the input's size.
#include "frontends/onnx/onnx.h"
#include "frontends/onnx/visit.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input_t {
  dt_onnx_t *file;
  const uint8_t *data;
  size_t size;
} input_t;

static void require(bool held) {
  if (!held)
    abort();
}

static void check_inside(const input_t *in, const char *at, size_t len) {
  const uint8_t *begin = (const uint8_t *)at;
  require(len == 0 || (begin >= in->data && len <= in->size && begin <= in->data + in->size - len));
}

static void check_name(const input_t *in, const dt_onnx_name_t *name) {
  check_inside(in, name->text.at, name->text.len);
  require((name->id == 0) == (name->text.len == 0) && name->id < in->file->model.n_names);
}

// Reads a tensor's elements into a block of exactly their size.
static void check_tensor(const input_t *in, const dt_onnx_tensor_t *tensor) {
  require(tensor->dtype && !tensor->external);
  if (tensor->dtype->bits == 0) {
    require(tensor->elements <= in->size);
    dt_onnx_str_t *strings = calloc(tensor->elements + 1, sizeof *strings);
    require(strings && !dt__onnx_tensor_strings(in->file, tensor, strings));
    for (uint64_t k = 0; k < tensor->elements; k++)
      check_inside(in, strings[k].at, strings[k].len);
    free(strings);
    return;
  }
  // An item of one byte in the file can stand for 16 in memory.
  require(tensor->bytes <= 16 * (uint64_t)in->size);
  void *room = malloc((size_t)tensor->bytes + 1);
  require(room != NULL);
  dt_status_t status = dt__onnx_tensor_copy(in->file, tensor, NULL, room, (size_t)tensor->bytes);
  require(!status || dt_status_code(status) == DT_E_RANGE);
  dt_status_free(status);
  free(room);
}

static dt_status_t check_message(void *user, const dt_onnx_message_t *message, void *out,
                                 const dt_onnx_at_t *at) {
  (void)at;
  const input_t *in = user;
  const dt_onnx_head_t *head = out;
  require(head->offset <= in->size && head->bytes <= in->size - head->offset);
  for (uint32_t k = 0; k < message->n_fields; k++) {
    const void *member = (const char *)out + message->fields[k].member;
    dt_onnx_kind_t kind = message->fields[k].kind;
    if (kind == DT_ONNX_TEXT || kind == DT_ONNX_BYTES)
      check_inside(in, ((const dt_onnx_str_t *)member)->at, ((const dt_onnx_str_t *)member)->len);
    if (kind == DT_ONNX_NAME)
      check_name(in, member);
    const dt_onnx_names_t *names = member;
    for (uint32_t i = 0; kind == DT_ONNX_NAMES && i < names->len; i++)
      check_name(in, &names->items[i]);
  }
  if (message == &dt__onnx_tensor_message)
    check_tensor(in, out);
  return NULL;
}

static void check(dt_onnx_t *file, const uint8_t *data, size_t size) {
  input_t in = {file, data, size};
  char *text = NULL;
  require(!dt__onnx_visit(&dt__onnx_model_message, &file->model, NULL, check_message, &in));
  require(file->arena.total_bytes < ((size_t)1 << 20) + 400 * size);
  require(!dt_onnx_report_json(file, &text) && text);
  dt__free(text);
  require(!dt_onnx_report_text(file, &text) && text);
  dt__free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dt_onnx_t *file = NULL;
  dt_status_t status = dt_onnx_open_memory(data, size, NULL, &file);
  require(!status == (file != NULL));
  if (file)
    check(file, data, size);
  else // every failure says where
    require(dt_status_code(status) != DT_E_INTERNAL &&
            (size == 0 || strstr(dt_status_message(status), "byte ")));
  dt_status_free(status);
  dt_onnx_close(file);
  return 0;
}

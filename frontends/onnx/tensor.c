// SPDX-License-Identifier: Apache-2.0
// The data of tensors: where they lie, or, for typed fields, read from the tensor's message anew.
#include "frontends/onnx/onnx.h"

#include "frontends/onnx/wire.h"
#include "runtime/base/status.h"

#include <string.h>

static dt_status_t fail(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor, dt_code_t code,
                        const char *text) {
  return DT_FAIL(code, "%s: tensor \"%s\" at byte %llu: %s", file->what,
                 dt__onnx_show(tensor->name.text).text, (unsigned long long)tensor->head.offset,
                 text);
}

// ---- Typed fields ---------------------------------------------------------------------------------
// Little-endian bytes of an item in memory.
static uint32_t item_bytes(const dt_onnx_dtype_t *dtype) {
  uint32_t bits = dtype->per < 0 ? dtype->bits / 2 : dtype->bits;
  return bits < 8 ? 1 : bits / 8;
}

// The values that an item of a varint field may have.
static bool fits(const dt_onnx_dtype_t *dtype, uint64_t *value) {
  uint32_t bits = 8 * item_bytes(dtype);
  bool in_int32 = dtype->field == offsetof(dt_onnx_tensor_t, int32_data);
  int64_t number = (int64_t)*value;
  if (in_int32) // the field's own type, to which the wire's 64 bits are cut
    number = (int32_t)(uint32_t)*value;
  *value = (uint64_t)number;
  if (dtype->dtype == DT_BOOL)
    return *value <= 1;
  if (dtype->is_signed && bits < 64)
    return number >= -((int64_t)1 << (bits - 1)) && number < (int64_t)1 << (bits - 1);
  return dtype->is_signed || bits == 64 || *value >> bits == 0;
}

typedef struct typed_t {
  const dt_onnx_dtype_t *dtype;
  unsigned char *at, *end;
  dt_onnx_pace_t *pace;
  dt_status_t late; // what ended the pace
} typed_t;

// NULL, or what is wrong.
static const char *put_item(typed_t *to, uint32_t type, uint64_t value) {
  uint32_t bytes = item_bytes(to->dtype);
  if (to->at == to->end)
    return "its data changed while they were read";
  if (type == DT_WIRE_VARINT && !fits(to->dtype, &value))
    return "an item is outside the range of the element type";
  // The last item of narrow elements may reach beyond them; it is a byte all the same.
  for (uint32_t k = 0; k < bytes; k++)
    *to->at++ = (unsigned char)(value >> (8 * k));
  to->late = dt__onnx_go_on(to->pace, 1);
  return to->late ? "it took too long" : NULL;
}

static const char *put_field(typed_t *to, uint32_t type, dt_wire_field_t *field) {
  uint64_t value = 0;
  if (field->type == type)
    return put_item(to, type, field->value);
  while (field->body.at < field->body.end) {
    if (!dt__wire_element(&field->body, type, &value))
      return "its data changed while they were read";
    const char *wrong = put_item(to, type, value);
    if (wrong)
      return wrong;
  }
  return NULL;
}

static uint32_t number_of(const dt_onnx_dtype_t *dtype, uint32_t *out_type) {
  for (uint32_t k = 0; k < dt__onnx_tensor_message.n_fields; k++)
    if (dt__onnx_tensor_message.fields[k].member == dtype->field) {
      *out_type = dt__onnx_wire_type(dt__onnx_tensor_message.fields[k].kind);
      return dt__onnx_tensor_message.fields[k].number;
    }
  return 0;
}

static dt_wire_t body_of(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor) {
  const unsigned char *begin = file->bytes.data + tensor->head.offset;
  return (dt_wire_t){begin, begin + tensor->head.bytes};
}

static dt_status_t copy_typed(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                              dt_onnx_pace_t *pace, void *out, size_t bytes) {
  typed_t to = {tensor->dtype, out, (unsigned char *)out + bytes, pace, NULL};
  uint32_t type = 0, number = number_of(tensor->dtype, &type);
  dt_wire_t body = body_of(file, tensor);
  dt_wire_field_t field;
  const char *wrong = NULL;
  while (!wrong && body.at < body.end) {
    wrong = dt__wire_next(&body, &field);
    if (!wrong && field.number == number)
      wrong = put_field(&to, type, &field);
  }
  if (to.late)
    return to.late;
  if (!wrong && to.at != to.end)
    wrong = "its data changed while they were read";
  return wrong ? fail(file, tensor, DT_E_RANGE, wrong) : NULL;
}

dt_status_t dt__onnx_tensor_strings(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                    dt_onnx_str_t *out) {
  uint32_t type = 0, number = number_of(tensor->dtype, &type);
  dt_wire_t body = body_of(file, tensor);
  dt_wire_field_t field;
  uint64_t count = 0;
  if (tensor->dtype->bits != 0)
    return fail(file, tensor, DT_E_DTYPE, "its elements are no strings");
  while (body.at < body.end) {
    const char *wrong = dt__wire_next(&body, &field);
    bool item = !wrong && field.number == number;
    if (wrong || (item && (count == tensor->elements || field.type != type)))
      return fail(file, tensor, DT_E_IO, "its data changed while they were read");
    if (item)
      out[count++] =
          (dt_onnx_str_t){(const char *)field.body.at, (size_t)(field.body.end - field.body.at)};
  }
  return count == tensor->elements
             ? NULL
             : fail(file, tensor, DT_E_IO, "its data changed while they were read");
}

// ---- All ------------------------------------------------------------------------------------------
static dt_status_t check_bools(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                               dt_onnx_pace_t *pace, const unsigned char *data) {
  for (uint64_t k = 0; tensor->dtype->dtype == DT_BOOL && k < tensor->bytes; k++) {
    if (data[k] > 1)
      return fail(file, tensor, DT_E_RANGE, "an element of a BOOL tensor is neither 0 nor 1");
    DT_TRY(dt__onnx_go_on(pace, 1));
  }
  return NULL;
}

dt_status_t dt__onnx_tensor_view(dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                 dt_onnx_pace_t *pace, const void **out) {
  *out = NULL;
  if (tensor->dtype->bits == 0)
    return fail(file, tensor, DT_E_DTYPE, "its elements are strings");
  const unsigned char *data = NULL;
  if (tensor->external) {
    DT_TRY(dt__onnx_load_external(&file->externals, tensor, file->what, pace, &data));
  } else if (tensor->raw_data.len > 0) {
    data = (const unsigned char *)tensor->raw_data.at;
  }
  if (data)
    DT_TRY(check_bools(file, tensor, pace, data));
  *out = data;
  return NULL;
}

const dt_onnx_bytes_t *dt__onnx_tensor_bytes(const dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                             const void *data, uint64_t *out_at) {
  if (tensor->external)
    return dt__onnx_external_bytes(&file->externals, tensor, out_at);
  *out_at = (uint64_t)((const unsigned char *)data - file->bytes.data);
  return &file->bytes;
}

static dt_status_t copy_pieces(dt_onnx_pace_t *pace, unsigned char *out, const unsigned char *data,
                               size_t bytes) {
  for (size_t at = 0; at < bytes; at += DT_ONNX_PIECE_BYTES) {
    size_t piece = bytes - at < DT_ONNX_PIECE_BYTES ? bytes - at : DT_ONNX_PIECE_BYTES;
    DT_TRY(dt__onnx_go_on(pace, piece / 64));
    memcpy(out + at, data + at, piece);
  }
  return NULL;
}

dt_status_t dt__onnx_tensor_copy(dt_onnx_t *file, const dt_onnx_tensor_t *tensor,
                                 dt_onnx_pace_t *pace, void *out, size_t bytes) {
  const void *data = NULL;
  if (bytes != tensor->bytes || (!out && bytes > 0))
    return fail(file, tensor, DT_E_ARGUMENT, "room of another size than its data");
  DT_TRY(dt__onnx_tensor_view(file, tensor, pace, &data));
  if (bytes == 0)
    return NULL;
  return data ? copy_pieces(pace, out, data, bytes) : copy_typed(file, tensor, pace, out, bytes);
}

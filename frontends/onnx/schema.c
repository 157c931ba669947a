// SPDX-License-Identifier: Apache-2.0
// The tables of the format's messages (onnx.proto, IR version 14). A field without a row is
// skipped: documentation, annotations, devices, training.
#include "frontends/onnx/schema.h"

#include "frontends/onnx/wire.h"

// ---- Tables ---------------------------------------------------------------------------------------
#define FIELD(type, number, kind, member)                                                          \
  {number, DT_ONNX_##kind, offsetof(type, member), #member, 0}
#define SUB(type, number, kind, member, sub)                                                       \
  {number, DT_ONNX_##kind, offsetof(type, member), #member, &sub}
// The member's name is not the field's.
#define FIELD_AS(type, number, kind, member, name, sub)                                            \
  {number, DT_ONNX_##kind, offsetof(type, member), name, sub}
#define MESSAGE(scope, id, name, type, rows, counted)                                              \
  _Static_assert(sizeof(rows) / sizeof((rows)[0]) <= DT_ONNX_MAX_FIELDS, name);                    \
  _Static_assert(offsetof(type, head) == 0, name);                                                 \
  scope const dt_onnx_message_t id = {name, sizeof(type), rows, sizeof(rows) / sizeof((rows)[0]),  \
                                      counted}

// Messages that contain each other.
static const dt_onnx_message_t type_message, graph_message;

static const dt_onnx_field_t entry_fields[] = {
    FIELD(dt_onnx_entry_t, 1, BYTES, key),
    FIELD(dt_onnx_entry_t, 2, BYTES, value),
};
MESSAGE(static, entry_message, "StringStringEntryProto", dt_onnx_entry_t, entry_fields, 0);

static const dt_onnx_field_t opset_fields[] = {
    FIELD(dt_onnx_opset_t, 1, TEXT, domain),
    FIELD(dt_onnx_opset_t, 2, INT, version),
};
MESSAGE(static, opset_message, "OperatorSetIdProto", dt_onnx_opset_t, opset_fields, 0);

static const dt_onnx_field_t dim_fields[] = {
    FIELD(dt_onnx_dim_t, 1, INT, dim_value),
    FIELD(dt_onnx_dim_t, 2, TEXT, dim_param),
};
MESSAGE(static, dim_message, "TensorShapeProto.Dimension", dt_onnx_dim_t, dim_fields, 0);

static const dt_onnx_field_t shape_fields[] = {
    SUB(dt_onnx_shape_t, 1, MESSAGES, dim, dim_message),
};
MESSAGE(static, shape_message, "TensorShapeProto", dt_onnx_shape_t, shape_fields, 0);

static const dt_onnx_field_t tensor_type_fields[] = {
    FIELD(dt_onnx_tensor_type_t, 1, INT, elem_type),
    SUB(dt_onnx_tensor_type_t, 2, MESSAGE, shape, shape_message),
};
MESSAGE(static, tensor_type_message, "TypeProto.Tensor", dt_onnx_tensor_type_t, tensor_type_fields,
        0);

static const dt_onnx_field_t wrapped_fields[] = {
    SUB(dt_onnx_wrapped_type_t, 1, MESSAGE, elem_type, type_message),
};
MESSAGE(static, wrapped_message, "TypeProto.Sequence", dt_onnx_wrapped_type_t, wrapped_fields, 0);

static const dt_onnx_field_t map_fields[] = {
    FIELD(dt_onnx_wrapped_type_t, 1, INT, key_type),
    FIELD_AS(dt_onnx_wrapped_type_t, 2, MESSAGE, elem_type, "value_type", &type_message),
};
MESSAGE(static, map_message, "TypeProto.Map", dt_onnx_wrapped_type_t, map_fields, 0);

static const dt_onnx_field_t opaque_fields[] = {
    FIELD(dt_onnx_opaque_type_t, 1, TEXT, domain),
    FIELD(dt_onnx_opaque_type_t, 2, TEXT, name),
};
MESSAGE(static, opaque_message, "TypeProto.Opaque", dt_onnx_opaque_type_t, opaque_fields, 0);

static const dt_onnx_field_t type_fields[] = {
    SUB(dt_onnx_type_t, 1, MESSAGE, tensor_type, tensor_type_message),
    SUB(dt_onnx_type_t, 4, MESSAGE, sequence_type, wrapped_message),
    SUB(dt_onnx_type_t, 5, MESSAGE, map_type, map_message),
    SUB(dt_onnx_type_t, 7, MESSAGE, opaque_type, opaque_message),
    SUB(dt_onnx_type_t, 8, MESSAGE, sparse_tensor_type, tensor_type_message),
    SUB(dt_onnx_type_t, 9, MESSAGE, optional_type, wrapped_message),
};
MESSAGE(static, type_message, "TypeProto", dt_onnx_type_t, type_fields, 0);

static const dt_onnx_field_t value_fields[] = {
    FIELD(dt_onnx_value_t, 1, NAME, name),
    SUB(dt_onnx_value_t, 2, MESSAGE, type, type_message),
};
MESSAGE(static, value_message, "ValueInfoProto", dt_onnx_value_t, value_fields, 0);

static const dt_onnx_message_t segment_message = {"TensorProto.Segment", sizeof(dt_onnx_segment_t),
                                                  0, 0, 0};

static const dt_onnx_field_t tensor_fields[] = {
    FIELD(dt_onnx_tensor_t, 1, INTS, dims),
    FIELD(dt_onnx_tensor_t, 2, INT, data_type),
    SUB(dt_onnx_tensor_t, 3, MESSAGE, segment, segment_message),
    FIELD(dt_onnx_tensor_t, 4, WORDS32, float_data),
    FIELD(dt_onnx_tensor_t, 5, VARINTS, int32_data),
    FIELD(dt_onnx_tensor_t, 6, STRINGS, string_data),
    FIELD(dt_onnx_tensor_t, 7, VARINTS, int64_data),
    FIELD(dt_onnx_tensor_t, 8, NAME, name),
    FIELD(dt_onnx_tensor_t, 9, BYTES, raw_data),
    FIELD(dt_onnx_tensor_t, 10, WORDS64, double_data),
    FIELD(dt_onnx_tensor_t, 11, VARINTS, uint64_data),
    SUB(dt_onnx_tensor_t, 13, MESSAGES, external_data, entry_message),
    FIELD(dt_onnx_tensor_t, 14, INT, data_location),
};
MESSAGE(, dt__onnx_tensor_message, "TensorProto", dt_onnx_tensor_t, tensor_fields,
        DT_ONNX_COUNT_TENSORS);

static const dt_onnx_field_t sparse_fields[] = {
    SUB(dt_onnx_sparse_t, 1, MESSAGE, values, dt__onnx_tensor_message),
    SUB(dt_onnx_sparse_t, 2, MESSAGE, indices, dt__onnx_tensor_message),
};
MESSAGE(static, sparse_message, "SparseTensorProto", dt_onnx_sparse_t, sparse_fields, 0);

static const dt_onnx_field_t attribute_fields[] = {
    FIELD(dt_onnx_attribute_t, 1, TEXT, name),
    FIELD(dt_onnx_attribute_t, 2, FLOAT, f),
    FIELD(dt_onnx_attribute_t, 3, INT, i),
    FIELD(dt_onnx_attribute_t, 4, BYTES, s),
    SUB(dt_onnx_attribute_t, 5, MESSAGE, t, dt__onnx_tensor_message),
    SUB(dt_onnx_attribute_t, 6, MESSAGE, g, graph_message),
    FIELD(dt_onnx_attribute_t, 7, FLOATS, floats),
    FIELD(dt_onnx_attribute_t, 8, INTS, ints),
    FIELD(dt_onnx_attribute_t, 9, BYTESES, strings),
    SUB(dt_onnx_attribute_t, 10, MESSAGES, tensors, dt__onnx_tensor_message),
    SUB(dt_onnx_attribute_t, 11, MESSAGES, graphs, graph_message),
    SUB(dt_onnx_attribute_t, 14, MESSAGE, tp, type_message),
    SUB(dt_onnx_attribute_t, 15, MESSAGES, type_protos, type_message),
    FIELD(dt_onnx_attribute_t, 20, INT, type),
    FIELD(dt_onnx_attribute_t, 21, TEXT, ref_attr_name),
    SUB(dt_onnx_attribute_t, 22, MESSAGE, sparse_tensor, sparse_message),
    SUB(dt_onnx_attribute_t, 23, MESSAGES, sparse_tensors, sparse_message),
};
MESSAGE(static, attribute_message, "AttributeProto", dt_onnx_attribute_t, attribute_fields, 0);

static const dt_onnx_field_t node_fields[] = {
    FIELD(dt_onnx_node_t, 1, NAMES, input),
    FIELD(dt_onnx_node_t, 2, NAMES, output),
    FIELD(dt_onnx_node_t, 3, TEXT, name),
    FIELD(dt_onnx_node_t, 4, TEXT, op_type),
    SUB(dt_onnx_node_t, 5, MESSAGES, attribute, attribute_message),
    FIELD(dt_onnx_node_t, 7, TEXT, domain),
    FIELD(dt_onnx_node_t, 8, TEXT, overload),
};
MESSAGE(static, node_message, "NodeProto", dt_onnx_node_t, node_fields, DT_ONNX_COUNT_NODES);

static const dt_onnx_field_t graph_fields[] = {
    SUB(dt_onnx_graph_t, 1, MESSAGES, node, node_message),
    FIELD(dt_onnx_graph_t, 2, TEXT, name),
    SUB(dt_onnx_graph_t, 5, MESSAGES, initializer, dt__onnx_tensor_message),
    SUB(dt_onnx_graph_t, 11, MESSAGES, input, value_message),
    SUB(dt_onnx_graph_t, 12, MESSAGES, output, value_message),
    SUB(dt_onnx_graph_t, 13, MESSAGES, value_info, value_message),
    SUB(dt_onnx_graph_t, 15, MESSAGES, sparse_initializer, sparse_message),
};
MESSAGE(static, graph_message, "GraphProto", dt_onnx_graph_t, graph_fields, DT_ONNX_COUNT_GRAPHS);

static const dt_onnx_field_t function_fields[] = {
    FIELD(dt_onnx_function_t, 1, TEXT, name),
    FIELD(dt_onnx_function_t, 4, NAMES, input),
    FIELD(dt_onnx_function_t, 5, NAMES, output),
    FIELD(dt_onnx_function_t, 6, TEXTS, attribute),
    SUB(dt_onnx_function_t, 7, MESSAGES, node, node_message),
    SUB(dt_onnx_function_t, 9, MESSAGES, opset_import, opset_message),
    FIELD(dt_onnx_function_t, 10, TEXT, domain),
    SUB(dt_onnx_function_t, 11, MESSAGES, attribute_proto, attribute_message),
    SUB(dt_onnx_function_t, 12, MESSAGES, value_info, value_message),
    FIELD(dt_onnx_function_t, 13, TEXT, overload),
};
MESSAGE(static, function_message, "FunctionProto", dt_onnx_function_t, function_fields, 0);

static const dt_onnx_field_t model_fields[] = {
    FIELD(dt_onnx_model_t, 1, INT, ir_version),
    FIELD(dt_onnx_model_t, 2, BYTES, producer_name),
    FIELD(dt_onnx_model_t, 3, BYTES, producer_version),
    FIELD(dt_onnx_model_t, 4, BYTES, domain),
    FIELD(dt_onnx_model_t, 5, INT, model_version),
    SUB(dt_onnx_model_t, 7, MESSAGE, graph, graph_message),
    SUB(dt_onnx_model_t, 8, MESSAGES, opset_import, opset_message),
    SUB(dt_onnx_model_t, 14, MESSAGES, metadata_props, entry_message),
    SUB(dt_onnx_model_t, 25, MESSAGES, functions, function_message),
};
MESSAGE(, dt__onnx_model_message, "ModelProto", dt_onnx_model_t, model_fields, 0);

// ---- Questions ------------------------------------------------------------------------------------
typedef struct kind_row_t {
  uint32_t wire_type;
  bool repeated, packable;
  size_t item;
} kind_row_t;

static const kind_row_t kinds[] = {
    [DT_ONNX_INT] = {DT_WIRE_VARINT, false, false, 0},
    [DT_ONNX_FLOAT] = {DT_WIRE_FIXED32, false, false, 0},
    [DT_ONNX_TEXT] = {DT_WIRE_BYTES, false, false, 0},
    [DT_ONNX_BYTES] = {DT_WIRE_BYTES, false, false, 0},
    [DT_ONNX_NAME] = {DT_WIRE_BYTES, false, false, 0},
    [DT_ONNX_MESSAGE] = {DT_WIRE_BYTES, false, false, 0},
    [DT_ONNX_INTS] = {DT_WIRE_VARINT, true, true, sizeof(int64_t)},
    [DT_ONNX_FLOATS] = {DT_WIRE_FIXED32, true, true, sizeof(float)},
    [DT_ONNX_TEXTS] = {DT_WIRE_BYTES, true, false, sizeof(dt_onnx_str_t)},
    [DT_ONNX_BYTESES] = {DT_WIRE_BYTES, true, false, sizeof(dt_onnx_str_t)},
    [DT_ONNX_NAMES] = {DT_WIRE_BYTES, true, false, sizeof(dt_onnx_name_t)},
    [DT_ONNX_MESSAGES] = {DT_WIRE_BYTES, true, false, 0},
    [DT_ONNX_VARINTS] = {DT_WIRE_VARINT, true, true, 0},
    [DT_ONNX_WORDS32] = {DT_WIRE_FIXED32, true, true, 0},
    [DT_ONNX_WORDS64] = {DT_WIRE_FIXED64, true, true, 0},
    [DT_ONNX_STRINGS] = {DT_WIRE_BYTES, true, false, 0},
};

const dt_onnx_field_t *dt__onnx_field(const dt_onnx_message_t *message, uint64_t number) {
  for (uint32_t k = 0; k < message->n_fields; k++)
    if (message->fields[k].number == number)
      return &message->fields[k];
  return NULL;
}

uint32_t dt__onnx_wire_type(dt_onnx_kind_t kind) { return kinds[kind].wire_type; }
bool dt__onnx_is_repeated(dt_onnx_kind_t kind) { return kinds[kind].repeated; }
bool dt__onnx_is_packable(dt_onnx_kind_t kind) { return kinds[kind].packable; }

size_t dt__onnx_item_size(const dt_onnx_field_t *field) {
  return field->kind == DT_ONNX_MESSAGES ? field->sub->size : kinds[field->kind].item;
}

// SPDX-License-Identifier: Apache-2.0
// An ONNX model as it stands in its file: the messages of onnx.proto as plain structs in an arena.
// Strings and data are views of the file's bytes; members have the names of the format's fields.
// schema.c maps fields to members. What dt__onnx_check has passed may be relied on (check.h).
#ifndef DT_FRONTENDS_ONNX_MODEL_H
#define DT_FRONTENDS_ONNX_MODEL_H

#include "ductile/base.h"

// Bytes of the file, not terminated. `at` may be NULL where `len` is 0.
typedef struct dt_onnx_str_t {
  const char *at;
  size_t len;
} dt_onnx_str_t;

// The name of a value. Equal names of a model have equal ids; 0 is the empty name, which stands
// for an input that is left out or an output that nobody wants.
typedef struct dt_onnx_name_t {
  dt_onnx_str_t text;
  uint32_t id;
} dt_onnx_name_t;

#define DT_ONNX_LIST(type)                                                                         \
  struct {                                                                                         \
    type *items;                                                                                   \
    uint32_t len;                                                                                  \
  }
typedef DT_ONNX_LIST(dt_onnx_str_t) dt_onnx_strs_t;
typedef DT_ONNX_LIST(dt_onnx_name_t) dt_onnx_names_t;
typedef DT_ONNX_LIST(int64_t) dt_onnx_ints_t;
typedef DT_ONNX_LIST(float) dt_onnx_floats_t;
// Elements of a tensor that stand in the file as a typed field: counted, and read on demand.
typedef struct dt_onnx_typed_t {
  uint64_t count;
} dt_onnx_typed_t;

// What every message begins with.
typedef struct dt_onnx_head_t {
  uint64_t offset, bytes; // of its body in the file
  uint32_t has;           // bit k: the field of row k of its table is there
} dt_onnx_head_t;

typedef struct dt_onnx_entry_t { // StringStringEntryProto
  dt_onnx_head_t head;
  dt_onnx_str_t key, value;
} dt_onnx_entry_t;
typedef DT_ONNX_LIST(dt_onnx_entry_t) dt_onnx_entries_t;

typedef struct dt_onnx_opset_t { // OperatorSetIdProto
  dt_onnx_head_t head;
  dt_onnx_str_t domain; // "" is the format's own, as "ai.onnx" is
  int64_t version;
} dt_onnx_opset_t;
typedef DT_ONNX_LIST(dt_onnx_opset_t) dt_onnx_opsets_t;

// ---- Types ----------------------------------------------------------------------------------------
typedef struct dt_onnx_dim_t { // TensorShapeProto.Dimension: value, name or nothing
  dt_onnx_head_t head;
  int64_t dim_value;
  dt_onnx_str_t dim_param;
} dt_onnx_dim_t;

typedef struct dt_onnx_shape_t { // TensorShapeProto
  dt_onnx_head_t head;
  DT_ONNX_LIST(dt_onnx_dim_t) dim;
} dt_onnx_shape_t;

typedef struct dt_onnx_tensor_type_t { // TypeProto.Tensor and .SparseTensor
  dt_onnx_head_t head;
  int64_t elem_type;
  dt_onnx_shape_t *shape; // NULL: of unknown rank
} dt_onnx_tensor_type_t;

typedef struct dt_onnx_type_t dt_onnx_type_t;
typedef struct dt_onnx_wrapped_type_t { // TypeProto.Sequence, .Optional and .Map
  dt_onnx_head_t head;
  int64_t key_type; // of a map
  dt_onnx_type_t *elem_type;
} dt_onnx_wrapped_type_t;

typedef struct dt_onnx_opaque_type_t { // TypeProto.Opaque
  dt_onnx_head_t head;
  dt_onnx_str_t domain, name;
} dt_onnx_opaque_type_t;

struct dt_onnx_type_t { // TypeProto: exactly one of the pointers is set
  dt_onnx_head_t head;
  dt_onnx_tensor_type_t *tensor_type, *sparse_tensor_type;
  dt_onnx_wrapped_type_t *sequence_type, *map_type, *optional_type;
  dt_onnx_opaque_type_t *opaque_type;
};

typedef struct dt_onnx_value_t { // ValueInfoProto
  dt_onnx_head_t head;
  dt_onnx_name_t name;
  dt_onnx_type_t *type; // may be NULL but for inputs of the model
} dt_onnx_value_t;
typedef DT_ONNX_LIST(dt_onnx_value_t) dt_onnx_values_t;

// ---- Tensors --------------------------------------------------------------------------------------
typedef struct dt_onnx_dtype_t dt_onnx_dtype_t; // a row of dtypes.def (dtype.h)

typedef struct dt_onnx_segment_t { // TensorProto.Segment
  dt_onnx_head_t head;
} dt_onnx_segment_t;

typedef struct dt_onnx_tensor_t { // TensorProto; its data: tensor.h
  dt_onnx_head_t head;
  dt_onnx_name_t name;
  dt_onnx_ints_t dims;
  int64_t data_type, data_location;
  dt_onnx_segment_t *segment;
  dt_onnx_typed_t float_data, int32_data, int64_data, uint64_data, double_data, string_data;
  dt_onnx_str_t raw_data;
  dt_onnx_entries_t external_data;
  // Set by the check.
  const dt_onnx_dtype_t *dtype;
  uint64_t elements, bytes; // bytes: of the data in memory, packed as the format says; strings: 0
  uint32_t external;        // 1 + index among the model's external files; 0: none
  uint64_t external_offset;
} dt_onnx_tensor_t;
typedef DT_ONNX_LIST(dt_onnx_tensor_t) dt_onnx_tensors_t;

typedef struct dt_onnx_sparse_t { // SparseTensorProto
  dt_onnx_head_t head;
  dt_onnx_tensor_t *values, *indices;
} dt_onnx_sparse_t;
typedef DT_ONNX_LIST(dt_onnx_sparse_t) dt_onnx_sparses_t;

// ---- Graphs ---------------------------------------------------------------------------------------
typedef struct dt_onnx_graph_t dt_onnx_graph_t;

// AttributeProto.AttributeType.
typedef enum dt_onnx_attribute_type_t {
  DT_ONNX_ATTR_NONE = 0,
  DT_ONNX_ATTR_FLOAT = 1,
  DT_ONNX_ATTR_INT = 2,
  DT_ONNX_ATTR_STRING = 3,
  DT_ONNX_ATTR_TENSOR = 4,
  DT_ONNX_ATTR_GRAPH = 5,
  DT_ONNX_ATTR_FLOATS = 6,
  DT_ONNX_ATTR_INTS = 7,
  DT_ONNX_ATTR_STRINGS = 8,
  DT_ONNX_ATTR_TENSORS = 9,
  DT_ONNX_ATTR_GRAPHS = 10,
  DT_ONNX_ATTR_SPARSE_TENSOR = 11,
  DT_ONNX_ATTR_SPARSE_TENSORS = 12,
  DT_ONNX_ATTR_TYPE = 13,
  DT_ONNX_ATTR_TYPES = 14,
} dt_onnx_attribute_type_t;

typedef struct dt_onnx_attribute_t { // AttributeProto: the member that `type` names counts
  dt_onnx_head_t head;
  dt_onnx_str_t name;
  dt_onnx_str_t ref_attr_name; // in functions: the attribute of the caller that gives the value
  int64_t type;
  float f;
  int64_t i;
  dt_onnx_str_t s;
  dt_onnx_tensor_t *t;
  dt_onnx_graph_t *g;
  dt_onnx_sparse_t *sparse_tensor;
  dt_onnx_type_t *tp;
  dt_onnx_floats_t floats;
  dt_onnx_ints_t ints;
  dt_onnx_strs_t strings;
  dt_onnx_tensors_t tensors;
  DT_ONNX_LIST(dt_onnx_graph_t) graphs;
  dt_onnx_sparses_t sparse_tensors;
  DT_ONNX_LIST(dt_onnx_type_t) type_protos;
} dt_onnx_attribute_t;
typedef DT_ONNX_LIST(dt_onnx_attribute_t) dt_onnx_attributes_t;

typedef struct dt_onnx_node_t { // NodeProto
  dt_onnx_head_t head;
  dt_onnx_names_t input, output;
  dt_onnx_str_t name, op_type, domain, overload;
  dt_onnx_attributes_t attribute;
  uint32_t function; // 1 + index of the model's function that it calls; 0: an op
} dt_onnx_node_t;
typedef DT_ONNX_LIST(dt_onnx_node_t) dt_onnx_nodes_t;

struct dt_onnx_graph_t { // GraphProto; the nodes are sorted: each comes after what it reads
  dt_onnx_head_t head;
  dt_onnx_str_t name;
  dt_onnx_nodes_t node;
  dt_onnx_tensors_t initializer;
  dt_onnx_sparses_t sparse_initializer;
  dt_onnx_values_t input, output, value_info;
};

typedef struct dt_onnx_function_t { // FunctionProto
  dt_onnx_head_t head;
  dt_onnx_str_t name, domain, overload;
  dt_onnx_names_t input, output;
  dt_onnx_strs_t attribute;             // attributes without a default
  dt_onnx_attributes_t attribute_proto; // attributes with one
  dt_onnx_nodes_t node;
  dt_onnx_opsets_t opset_import;
  dt_onnx_values_t value_info;
} dt_onnx_function_t;

typedef struct dt_onnx_model_t { // ModelProto
  dt_onnx_head_t head;
  int64_t ir_version, model_version;
  dt_onnx_str_t producer_name, producer_version, domain;
  dt_onnx_opsets_t opset_import;
  dt_onnx_graph_t *graph;
  dt_onnx_entries_t metadata_props;
  DT_ONNX_LIST(dt_onnx_function_t) functions;
  // Set by the check.
  uint32_t n_names; // ids of names are below it
  DT_ONNX_LIST(const dt_onnx_function_t *)
  by_id; // the functions in order of dt__onnx_find_function
} dt_onnx_model_t;

// ---- Strings --------------------------------------------------------------------------------------
bool dt__onnx_str_is(dt_onnx_str_t a, const char *text);
bool dt__onnx_str_equal(dt_onnx_str_t a, dt_onnx_str_t b);
// By length, then by bytes.
int dt__onnx_str_compare(dt_onnx_str_t a, dt_onnx_str_t b);
// "" for "ai.onnx", which is the same domain.
dt_onnx_str_t dt__onnx_domain(dt_onnx_str_t domain);

#endif // DT_FRONTENDS_ONNX_MODEL_H

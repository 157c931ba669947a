// SPDX-License-Identifier: Apache-2.0
// Pieces of the texts in onnx_faults.def.
#ifndef DT_TESTS_UNIT_FRONTENDS_ONNX_PIECES_H
#define DT_TESTS_UNIT_FRONTENDS_ONNX_PIECES_H

#define OPS "opset_import { version 17 } "
#define HEAD "ir_version 8 " OPS
#define TYPED(name, dims)                                                                          \
  "input { name '" name "' type { tensor_type { elem_type 1 shape { " dims " } } } } "
#define GRAPH(more)                                                                                \
  HEAD "graph { name 'a graph of a test' " TYPED("x", "dim { dim_param 'n' }") more "}"
#define NODE(more) GRAPH("node { op_type 'Any' input 'x' " more "}")
#define RELU(out) "node { op_type 'Relu' input 'x' output '" out "' } "
#define WEIGHT(name) "initializer { name '" name "' data_type 1 dims 0 } "
#define TENSOR(more) GRAPH("initializer { name 'w' " more "}")
#define KEY(key, value) " external_data { key '" key "' value '" value "' } "
#define AT(location) KEY("location", location)
#define EXTERNAL(more) TENSOR("data_type 1 dims 1 data_location 1 " more)
#define FUNCTION(more) GRAPH("") " functions { " more "}"
#define NAMED(name) "name '" name "' domain 'd' "
#define CALL(name) "node { op_type '" name "' domain 'd' } "

#endif // DT_TESTS_UNIT_FRONTENDS_ONNX_PIECES_H

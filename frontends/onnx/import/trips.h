// SPDX-License-Identifier: Apache-2.0
// What a Loop's body says of its trips before it is traced. Private to the importer.
#ifndef DT_FRONTENDS_ONNX_IMPORT_TRIPS_H
#define DT_FRONTENDS_ONNX_IMPORT_TRIPS_H

#include "frontends/onnx/import/walk.h"

// What is known of an integral value of one element; id 0: nothing. `value` may be NULL.
dt_sym_t dt__imp_number_of(dt_imp_node_t *n, const dt_imp_val_t *value);
// The node of `graph` that makes the name; NULL: none does.
const dt_onnx_node_t *dt__imp_maker(const dt_onnx_graph_t *graph, uint32_t id);
// Whether it is that operator of the format's own; `node` may be NULL.
bool dt__imp_is_op(const dt_onnx_node_t *node, const char *type);
// What no trip of the body changes: a constant, an initializer, or what stands around it. NULL:
// anything else.
const dt_imp_val_t *dt__imp_body_val(dt_imp_node_t *n, const dt_onnx_graph_t *graph, uint32_t id);

// How many trips a loop makes at most once it has begun: where the condition that the body gives
// compares what counts by a literal with what counts slower or not at all, as in i + 1 < n, or is
// several of these and others by And. id 0: it is nothing of the kind. *out_exact: nothing else
// ends it, so that they are as many. `init`: of the body's state.
dt_sym_t dt__imp_counted_trips(dt_imp_node_t *n, const dt_onnx_graph_t *graph,
                               const dt_imp_val_t *const *init, bool *out_exact);

// ---- Writing out (written.c) --------------------------------------------------------------------
// Loops of as few trips as this, of a literal number, may be traced trip by trip.
#define DT_IMP_FEW_TRIPS 8
// Whether such a loop is: where the trace as a whole has room for it. Says no, and it is a loop of
// its own. Yes: dt__imp_written follows its trips.
bool dt__imp_write_out(dt_imp_node_t *n, const dt_onnx_graph_t *body, int64_t trips);
void dt__imp_written(dt_imp_node_t *n);

#endif // DT_FRONTENDS_ONNX_IMPORT_TRIPS_H

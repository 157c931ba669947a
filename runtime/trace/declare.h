// SPDX-License-Identifier: Apache-2.0
// Declared inputs as the checks and the trace read them: dims by name, all declarations of a name
// joined, derived dims, and the names of dims in messages.
#ifndef DT_RUNTIME_TRACE_DECLARE_H
#define DT_RUNTIME_TRACE_DECLARE_H

#include "runtime/trace/trace.h"

typedef struct dt_label_t {
  char text[240];
} dt_label_t;

// `argument 0 "ids"`
dt_label_t dt__input_label(const dt_trace_request_t *request, uint32_t input);
// `argument 0 "ids", dim 1 "seq"`
dt_label_t dt__dim_label(const dt_trace_request_t *request, uint32_t input, uint32_t dim);
// "ids.size(1)", "argument 0.stride(1)"
dt_label_t dt__part_label(const dt_trace_request_t *request, uint32_t input, const char *part,
                          uint32_t dim);

typedef struct dt_dim_at_t {
  uint32_t input, dim;
} dt_dim_at_t;

const dt_dim_decl_t *dt__dim_decl(const dt_trace_request_t *request, uint32_t input, uint32_t dim);
bool dt__dim_is_named(const dt_dim_decl_t *dim);
// The first dim of the same name; the dim itself where it has none. What it is goes for all of
// them.
dt_dim_at_t dt__dim_leader(const dt_trace_request_t *request, uint32_t input, uint32_t dim);

// What all declarations of a dim's name say together.
typedef struct dt_dim_facts_t {
  dt_range_t range; // their own; a static size is a range of one
  bool is_static;
  dt_mark_t mark;
  bool derived;
  dt_dim_at_t of; // derived: the leader of the dims it derives from
  int64_t scale, offset;
} dt_dim_facts_t;
dt_dim_facts_t dt__dim_facts(const dt_trace_request_t *request, uint32_t input, uint32_t dim);
// What a dim's own range and, where it is derived, that of the dims it derives from leave of it.
dt_range_t dt__dim_range(const dt_trace_request_t *request, dt_dim_at_t leader);

#endif // DT_RUNTIME_TRACE_DECLARE_H

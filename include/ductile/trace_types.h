// SPDX-License-Identifier: Apache-2.0
// What builders take and return. Programs include trace.h.
#ifndef DUCTILE_TRACE_TYPES_H
#define DUCTILE_TRACE_TYPES_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dt_trace dt_trace_t;

// A tensor of the trace. Copy freely.
typedef struct dt_value_t {
  uint32_t id;
} dt_value_t;

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_TYPES_H

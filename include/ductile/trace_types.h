// SPDX-License-Identifier: Apache-2.0
// What builders take and return. Programs include trace.h.
#ifndef DUCTILE_TRACE_TYPES_H
#define DUCTILE_TRACE_TYPES_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A program being traced: what every builder takes first. It ends with the program.
typedef struct dt_trace dt_trace_t;

// A tensor of the trace; id 0 is "none". Copy freely; both fields are the library's.
typedef struct dt_value_t {
  uint32_t id;
  uint32_t trace; // which trace made it, so that another one refuses it; 0: not told
} dt_value_t;

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_TYPES_H

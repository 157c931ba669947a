// SPDX-License-Identifier: Apache-2.0
// What builders take and return. Programs include trace.h.
#ifndef DUCTILE_TRACE_TYPES_H
#define DUCTILE_TRACE_TYPES_H

#include "ductile/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// A trace: a program that is being recorded. Every builder takes it first. It ends when the program
// returns.
typedef struct dt_trace dt_trace_t;

// A tensor of the trace; id 0 is "none". Copy freely. Both fields are for the library only.
typedef struct dt_value_t {
  uint32_t id;
  uint32_t trace; // the trace that made the value; any other trace refuses it. 0: not known
} dt_value_t;

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_TYPES_H

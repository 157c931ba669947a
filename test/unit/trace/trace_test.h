// SPDX-License-Identifier: Apache-2.0
// What tests of tracing share: programs as plain functions, example tensors, texts of what was
// traced.
#ifndef DT_TESTS_UNIT_TRACE_TRACE_TEST_H
#define DT_TESTS_UNIT_TRACE_TRACE_TEST_H

#include "runtime/trace/trace.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "test/support/tensors.h"

#define MAX_ARGUMENTS 4

// A tensor over no memory of its own. Strides NULL: contiguous.
dt_tensor_t *tensor_of(dt_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                       const int64_t *strides);

// Traces "f"; must succeed.
dt_traced_t *trace_ok(const dt_trace_request_t *request);
// Traces "f"; must fail with `code` and a message that holds each of `parts` (NULL-terminated).
void trace_fails(const dt_trace_request_t *request, dt_code_t code, const char *const *parts);

// The graph's text and the assumptions, "cond (op)" a line; in a static buffer.
const char *text_of(const dt_traced_t *traced);
// "<this file>:<line>"
#define STRING(x) STRING_(x)
#define STRING_(x) #x

#endif // DT_TESTS_UNIT_TRACE_TRACE_TEST_H

// SPDX-License-Identifier: Apache-2.0
// Visits every message of what was read, by the tables. Private to frontends/onnx.
#ifndef DT_FRONTENDS_ONNX_VISIT_H
#define DT_FRONTENDS_ONNX_VISIT_H

#include "frontends/onnx/read.h"

// `out` is the struct of `message`, `at` the way to it (NULL for the outermost).
typedef dt_status_t (*dt_onnx_visit_fn_t)(void *user, const dt_onnx_message_t *message, void *out,
                                          const dt_onnx_at_t *at);

// Calls `fn` for `out` and all messages within it, outer ones first, and stops at a failure. As
// deep as the reading was.
dt_status_t dt__onnx_visit(const dt_onnx_message_t *message, void *out, const dt_onnx_at_t *at,
                           dt_onnx_visit_fn_t fn, void *user) DT_MUST_USE;

// Gives all value names within the model their ids, and sets n_names.
dt_status_t dt__onnx_number_names(dt_onnx_model_t *model, dt_arena_t *arena,
                                  dt_onnx_pace_t *pace) DT_MUST_USE;

#endif // DT_FRONTENDS_ONNX_VISIT_H

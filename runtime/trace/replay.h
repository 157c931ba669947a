// SPDX-License-Identifier: Apache-2.0
// Replays: graph IR text as a program. The text's inputs become declarations, and the program
// appends the text's nodes to a trace. The text's symbols stand for the trace's expressions in the
// same places. So a graph from a file is guarded and compiled like one that was traced.
#ifndef DT_RUNTIME_TRACE_REPLAY_H
#define DT_RUNTIME_TRACE_REPLAY_H

#include "runtime/trace/trace.h"

typedef struct dt_replay_t dt_replay_t;

// Reads and checks `text`; `file` stands in messages and, with a node's line, in what is traced.
// Both are copied. DT_E_FORMAT with the place in the text, DT_E_UNSUPPORTED (a symbol that no input
// binds).
// `constants`, retained, are those of the text in its order (`n_constants` of them, of its dtypes
// and sizes); NULL: their data are the text's, or zeros.
dt_status_t dt__replay_create(const char *text, size_t len, const char *file,
                              dt_tensor_t *const *constants, uint32_t n_constants,
                              dt_replay_t **out) DT_MUST_USE;
// Replays what was traced, which it takes also on failure, and requires all that its trace assumed.
// It declares nothing, and the trace has neither captures nor updates.
dt_status_t dt__replay_create_traced(dt_traced_t *traced, dt_replay_t **out) DT_MUST_USE;
void dt__replay_destroy(dt_replay_t *replay); // NULL allowed

// The declarations, which live as long as the replay.
const dt_input_decl_t *dt__replay_inputs(const dt_replay_t *replay, uint32_t *out_n);
// What the text asks of results, one each; NULL: nothing.
const dt_output_decl_t *dt__replay_outputs(const dt_replay_t *r);
uint32_t dt__replay_n_outputs(const dt_replay_t *replay);
// The program; its closure is the replay.
dt_status_t dt__replay_program(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out,
                               void *replay);

#endif // DT_RUNTIME_TRACE_REPLAY_H

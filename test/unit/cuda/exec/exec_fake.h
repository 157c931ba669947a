// SPDX-License-Identifier: Apache-2.0
// Programs on the fake driver: what a compile for a device gives is built by hand here (the linker
// puts dt__compile aside), with host functions as kernels, so that everything behind it runs
// without a code generator.
#ifndef DT_TESTS_UNIT_CUDA_EXEC_EXEC_FAKE_H
#define DT_TESTS_UNIT_CUDA_EXEC_EXEC_FAKE_H

#include "test/support/fixture.h"

#include "test/fake_cuda/fake_cuda.h"

// Kernels by code index; all modules define all of them.
enum {
  FAKE_ADD,    // words: a, b, to, n
  FAKE_COPY,   // from, to, n
  FAKE_GATHER, // table, ids, to, rows, n; checks ids
  FAKE_COUNT,  // x, to, n: how many are above 0, an i64
  FAKE_SELECT, // x, to, n
  FAKE_SQUARE, // w, to: the sum of 4 squares
  FAKE_SCALE,  // x, factor, to, n
  FAKE_KERNELS
};

// Programs; compiles find them by these names.
dt_status_t add_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t gather_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t select_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
dt_status_t scale_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);
// x + x, in a launch for each FAKE_PIECE elements: none where there are none.
enum { FAKE_PIECE = 16 };
dt_status_t pieces_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);

typedef struct fake_fixture_t {
  dt_runtime_t *runtime;
  dt_session_t *session; // on CUDA device 0
} fake_fixture_t;

// Resets the fake driver and registers the kernels.
void fake_begin(uint64_t seed);
// No violation; `held` things are left (0 once all is released).
void fake_end(void);
// Calls that give something back. Where one fails there is nothing else to be done: it, and nothing
// else, stays held.
bool releases_something(dt_cuda_sym_t sym);
fake_fixture_t fake_fixture_open(void);
void fake_fixture_close(fake_fixture_t *fixture);
dt_status_t open_session(dt_runtime_t *runtime, int32_t ordinal, void *stream, dt_session_t **out);

// From now on, as long as `on`, streams of the session's device are said to be captured.
void set_capturing(dt_session_t *session, bool on);
// Functions "add", "gather", "select", "scale" (closure: its constant w[4]) and "pieces".
dt_function_t *function_named(dt_runtime_t *runtime, const char *name, void *closure);
// How many bytes the scratch of FAKE_ADD's teams is in calls from now on.
void set_scratch(int64_t bytes);
// How many grid items the launches of "pieces" are said to have from now on; 0: one an element.
void set_items(int64_t items);

dt_tensor_t *host_f32(int64_t n, float first, float step);
dt_tensor_t *host_i64(int64_t n, const int64_t *values);

#endif // DT_TESTS_UNIT_CUDA_EXEC_EXEC_FAKE_H

// SPDX-License-Identifier: Apache-2.0
// Calls at a place that queues its work: their segments, what they read back, and whose the failed
// checks are. A place has a table of what it does in its own way, and a dt_queued_t for each call;
// kernels are none of this file's: they go to frame->launch.
#ifndef DT_RUNTIME_EXEC_QUEUED_H
#define DT_RUNTIME_EXEC_QUEUED_H

#include "runtime/exec/call.h"

// ---- Failed checks ------------------------------------------------------------------------------

// The first failed check of a call, and whose it is. Valid when zeroed: nobody's.
typedef struct dt_note_t {
  dt_function_t *function; // a reference
  dt_variant_t *variant;   // a reference: it may have left the function's list
  dt_launch_record_t record;
  bool told;
} dt_note_t;

// The note was nobody's.
void dt__note_take(dt_note_t *note, dt_function_t *function, dt_variant_t *variant);
void dt__note_drop(dt_note_t *note); // no work writes the record any more
// What the record says, with the function's name. NULL: nothing, or it was told before.
dt_status_t dt__note_tell(dt_note_t *note) DT_MUST_USE;

// ---- Readbacks ----------------------------------------------------------------------------------

// Numbers that calls of a session read back. Valid when zeroed.
typedef struct dt_readbacks_t {
  uint64_t *addresses; // where the device has them
  int64_t *values;     // the place's memory for copies; behind them is one for predicates
  uint32_t cap;
} dt_readbacks_t;

// All copies have ended.
void dt__readbacks_fini(dt_readbacks_t *readbacks, dt_session_t *session);

// ---- Calls --------------------------------------------------------------------------------------

struct dt_queued_t;

typedef struct dt_queue_t {
  // Queues a copy to the host.
  dt_status_t (*fetch)(const struct dt_queued_t *queued, void *to, const void *from, size_t bytes);
  // Waits for all that is queued, or until the call ends; then tells what failed in the call.
  dt_status_t (*wait)(const struct dt_queued_t *queued);
  // Memory for frame->block_bytes, as frame->block; the first `used` bytes stay as they are.
  dt_status_t (*lease)(const struct dt_queued_t *queued, uint32_t segment, int64_t used);
} dt_queue_t;

typedef struct dt_queued_t {
  const dt_queue_t *queue;
  dt_call_t *call;
  dt_variant_t *variant;
  dt_frame_t *frame;
  dt_status_t *failed;       // what a launch failed with, or a readback of a predicate
  dt_readbacks_t *readbacks; // the session's
} dt_queued_t;

// Fills the zeroed frame, but for the launch callback.
dt_status_t dt__queued_begin(dt_queued_t *queued, const dt_bindings_t *bindings) DT_MUST_USE;
// All segments, one behind the other.
dt_status_t dt__queued_run(const dt_queued_t *queued) DT_MUST_USE;
// Brings the numbers that a segment begins with to the host, if there are any: waits for the
// segments before it, which are queued.
dt_status_t dt__queued_read(const dt_queued_t *queued, uint32_t segment) DT_MUST_USE;

#endif // DT_RUNTIME_EXEC_QUEUED_H

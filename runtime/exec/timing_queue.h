// SPDX-License-Identifier: Apache-2.0
// What a device does for recorded calls, timed by itself.
//
//   call ──► pieces of its work: a launch, a graph, a copy; a mark before and one behind each
//     │        when the call ends, its pieces are done with: whose they are is known
//     ▼
//   queue ── waits for marks, and adds what lies between them up      when a report is asked for,
//              in the profile's sums                                  or there is no more room
//
// A queue is of one session and one profile. The calling thread writes pieces, whoever has the
// mutex reads those of calls that ended, and neither waits for the other while there is room.
#ifndef DT_RUNTIME_EXEC_TIMING_QUEUE_H
#define DT_RUNTIME_EXEC_TIMING_QUEUE_H

#include "runtime/exec/place.h"
#include "runtime/exec/timing.h"

#define DT_MOST_PIECES 512u // that are not added up yet

typedef struct dt_timed_piece_t {
  dt_stamp_kind_t kind;
  bool first;          // of its call's
  bool cut;            // there is no mark behind it
  uint64_t queued;     // the tick before which it was not
  uint64_t bytes;      // of a copy
  dt_timed_t *timed;   // whose it is; NULL: nobody's, its call failed
  uint32_t site, link; // of a launch or graph: 1 + its site and its shape; 0: none
} dt_timed_piece_t;

typedef struct dt_timed_queue_t {
  _Atomic uint32_t refs;         // the profile's, and the session's
  struct dt_timed_queue_t *next; // in the profile
  const dt_place_timer_t *timer;
  void *own; // the place's
  dt_profile_t *profile;
  dt_device_t place;
  uint32_t number;              // of the profile's
  _Atomic bool ended;           // the profile goes, and the place's own has gone
  _Atomic uint64_t begin, done; // pieces [begin, done) wait to be added up
  uint64_t end;                 // [done, end) are the call's under way; the session's
  dt_mutex_t mutex;             // of whoever adds up; guards what follows
  bool chained;                 // mark `last` was passed at `at_ns`
  uint32_t last;                // of the piece before `begin`, whose place stays free
  double at_ns;                 // the device's clock, from its first mark on
  double ahead_ns;              // that the host's has more at least, from the profile's beginning
  dt_timed_piece_t pieces[DT_MOST_PIECES];
} dt_timed_queue_t;

// The queue of the session for its recorder's profile: the one that it has, or a new one. NULL: it
// has none.
dt_timed_queue_t *dt__timed_queue_of(dt_session_t *session, dt_recorder_t *recorder);
// NULL allowed.
void dt__timed_queue_release(dt_timed_queue_t *queue);
// What of the recorder's pieces was added up with its stamps is done with.
void dt__timed_queue_done(dt_recorder_t *recorder);
// Adds up all pieces that are done with, once the device has. Report mutex held.
void dt__timed_queues_take(dt_profile_t *profile);
// Nothing records into the profile any more: what is left is dropped.
void dt__timed_queues_end(dt_profile_t *profile);

#endif // DT_RUNTIME_EXEC_TIMING_QUEUE_H

// SPDX-License-Identifier: Apache-2.0
// Frames between a process and its workers, over a socket. Both sides check what they get: kind,
// length, hash. A worker speaks first.
//
//   worker → host   HELLO version and build
//   host → worker   SETUP limits and dumps
//   host → worker   TARGET cpu and threads          worker → host   DONE a target
//   host → worker   JOB number and text             (no answer: UNIT tells)
//   host → worker   UNIT index and budget           worker → host   DONE an object, or PTX
//   host → worker   DECIDE text                     worker → host   DONE an object
//   worker → host   FAILED a status, in place of DONE; DIED its last words
#ifndef DT_RUNTIME_COMPILE_WORKER_WIRE_H
#define DT_RUNTIME_COMPILE_WORKER_WIRE_H

#include "ductile/base.h"

#define DT_WORKER_FD 3                           // a worker's end of the socket
#define DT_WORKER_PROTOCOL 2                     // raised by every change of what is said
#define DT_WORKER_MOST_BYTES ((uint64_t)1 << 30) // of a frame

typedef enum dt_frame_kind_t {
  DT_FRAME_HELLO = 1,
  DT_FRAME_SETUP,
  DT_FRAME_TARGET,
  DT_FRAME_JOB,
  DT_FRAME_UNIT,
  DT_FRAME_DECIDE,
  DT_FRAME_MAKER,
  DT_FRAME_DESCRIBE,
  DT_FRAME_DONE,
  DT_FRAME_FAILED,
  DT_FRAME_DIED,
} dt_frame_kind_t;

// In front of a frame's bytes.
typedef struct dt_frame_head_t {
  uint32_t magic, kind;
  uint64_t bytes, hash;
  uint64_t ns; // of an answer: the worker's processor time since the last one
} dt_frame_head_t;

typedef struct dt_wire_frame_t {
  dt_frame_kind_t kind;
  char *data; // owned, with a zero behind it
  size_t bytes;
  uint64_t ns;
} dt_wire_frame_t;

typedef enum dt_wire_result_t {
  DT_WIRE_OK,
  DT_WIRE_CLOSED,    // the other side is gone
  DT_WIRE_LATE,      // the time is over
  DT_WIRE_STOPPED,   // `over` said so
  DT_WIRE_BAD,       // what came is no frame
  DT_WIRE_NO_MEMORY, // of ours
} dt_wire_result_t;

// How long to wait for the other side, and what ends it before: asked every few milliseconds.
typedef struct dt_wire_wait_t {
  int64_t until_ns;         // dt__now_ns; INT64_MAX: for ever
  bool (*over)(void *user); // or NULL
  void *user;
} dt_wire_wait_t;

// Never raises SIGPIPE.
dt_wire_result_t dt__wire_send(int fd, dt_frame_kind_t kind, const void *data, size_t bytes,
                               uint64_t ns, const dt_wire_wait_t *wait);
// `most`: bytes that are taken. out->data is NULL unless all is well.
dt_wire_result_t dt__wire_receive(int fd, uint64_t most, const dt_wire_wait_t *wait,
                                  dt_wire_frame_t *out);
void dt__wire_free(dt_wire_frame_t *frame);
// The head of a frame, for who must send without memory.
dt_frame_head_t dt__wire_head(dt_frame_kind_t kind, const void *data, size_t bytes, uint64_t ns);

#endif // DT_RUNTIME_COMPILE_WORKER_WIRE_H

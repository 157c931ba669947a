// SPDX-License-Identifier: Apache-2.0
// See worker_wire.h. Every wait is a poll, so a side that hangs, or sends half a frame, delays the
// other no longer than the wait allows.
#include "runtime/compile/worker_wire.h"

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define MAGIC 0x31577464u     // "dtW1"
#define LOOK_NS 5000000       // how often `over` is asked
#define FIRST_ROOM (1u << 16) // what comes may be less than what was announced

dt_frame_head_t dt__wire_head(dt_frame_kind_t kind, const void *data, size_t bytes, uint64_t ns) {
  return (dt_frame_head_t){.magic = MAGIC,
                           .kind = (uint32_t)kind,
                           .bytes = bytes,
                           .hash = dt__hash(data, bytes, (uint64_t)kind),
                           .ns = ns};
}

// Waits until the socket can be read or written, or has ended: which one the next operation says.
static dt_wire_result_t wait_for(int fd, short events, const dt_wire_wait_t *wait) {
  for (;;) {
    int64_t left = INT64_MAX;
    if (wait->over && wait->over(wait->user))
      return DT_WIRE_STOPPED;
    if (wait->until_ns != INT64_MAX) {
      left = wait->until_ns - dt__now_ns();
      if (left <= 0)
        return DT_WIRE_LATE;
    }
    if (wait->over && left > LOOK_NS)
      left = LOOK_NS;
    struct pollfd item = {.fd = fd, .events = events};
    int64_t ms = left == INT64_MAX ? -1 : left / 1000000 + 1;
    int n = poll(&item, 1, ms > 1000000 ? 1000000 : (int)ms);
    if (n > 0)
      return DT_WIRE_OK;
    if (n < 0 && errno != EINTR && errno != EAGAIN)
      return DT_WIRE_CLOSED;
  }
}

static dt_wire_result_t send_all(int fd, const void *data, size_t bytes,
                                 const dt_wire_wait_t *wait) {
  const char *at = data;
  while (bytes) {
    ssize_t n = send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      at += n;
      bytes -= (size_t)n;
      continue;
    }
    if (errno == EINTR)
      continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return DT_WIRE_CLOSED;
    dt_wire_result_t result = wait_for(fd, POLLOUT, wait);
    if (result)
      return result;
  }
  return DT_WIRE_OK;
}

dt_wire_result_t dt__wire_send(int fd, dt_frame_kind_t kind, const void *data, size_t bytes,
                               uint64_t ns, const dt_wire_wait_t *wait) {
  dt_frame_head_t head = dt__wire_head(kind, data, bytes, ns);
  dt_wire_result_t result = send_all(fd, &head, sizeof(head), wait);
  return result ? result : send_all(fd, data, bytes, wait);
}

static dt_wire_result_t receive_all(int fd, void *data, size_t bytes, const dt_wire_wait_t *wait) {
  char *at = data;
  while (bytes) {
    ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      bytes -= (size_t)n;
      continue;
    }
    if (n == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
      return DT_WIRE_CLOSED;
    dt_wire_result_t result = errno == EINTR ? DT_WIRE_OK : wait_for(fd, POLLIN, wait);
    if (result)
      return result;
  }
  return DT_WIRE_OK;
}

// Memory grows with what has come, not with what was announced.
static dt_wire_result_t receive_data(int fd, size_t bytes, const dt_wire_wait_t *wait, char **out) {
  size_t room = bytes < FIRST_ROOM ? bytes : FIRST_ROOM, have = 0;
  char *data = dt__alloc(room + 1);
  dt_wire_result_t result = data ? DT_WIRE_OK : DT_WIRE_NO_MEMORY;
  while (!result && have < bytes) {
    if (have == room) {
      room = bytes - room < room ? bytes : 2 * room;
      char *bigger = dt__realloc(data, room + 1);
      if (!bigger) {
        result = DT_WIRE_NO_MEMORY;
        break;
      }
      data = bigger;
    }
    result = receive_all(fd, data + have, room - have, wait);
    have = room;
  }
  if (result) {
    dt__free(data);
    return result;
  }
  data[bytes] = '\0';
  *out = data;
  return DT_WIRE_OK;
}

dt_wire_result_t dt__wire_receive(int fd, uint64_t most, const dt_wire_wait_t *wait,
                                  dt_wire_frame_t *out) {
  dt_frame_head_t head = {0};
  memset(out, 0, sizeof(*out));
  dt_wire_result_t result = receive_all(fd, &head, sizeof(head), wait);
  if (result)
    return result;
  if (head.magic != MAGIC || head.kind < DT_FRAME_HELLO || head.kind > DT_FRAME_DIED ||
      head.bytes > most)
    return DT_WIRE_BAD;
  result = receive_data(fd, (size_t)head.bytes, wait, &out->data);
  if (result)
    return result;
  out->kind = (dt_frame_kind_t)head.kind;
  out->bytes = (size_t)head.bytes;
  out->ns = head.ns;
  if (dt__hash(out->data, out->bytes, head.kind) == head.hash)
    return DT_WIRE_OK;
  dt__wire_free(out);
  return DT_WIRE_BAD;
}

void dt__wire_free(dt_wire_frame_t *frame) {
  dt__free(frame->data);
  memset(frame, 0, sizeof(*frame));
}

// SPDX-License-Identifier: Apache-2.0
// See device.h. There is one device, for the whole process. Addresses are taken from a range in
// which nothing may be read or written; the bytes lie in a second range of the same size, at the
// same distances. No address is used twice, and of the second range nothing is open but what is
// allocated.
#include "test/place/device.h"

#include "runtime/base/control.h"
#include "runtime/base/memory.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/tensor/tensor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RANGE ((size_t)1 << 37)
#define PAGE ((size_t)4096)
#define CLOSED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static struct {
  pthread_mutex_t mutex; // guards what is queued, and is held by who does a piece
  command_t *first, **last;
  char *shown, *bytes; // the two ranges
  _Atomic size_t used; // of both
} device = {.mutex = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void open_device(void) {
  device.shown = mmap(NULL, RANGE, PROT_NONE, CLOSED, -1, 0);
  device.bytes = mmap(NULL, RANGE, PROT_NONE, CLOSED, -1, 0);
  device.last = &device.first;
  if (device.shown == MAP_FAILED || device.bytes == MAP_FAILED)
    abort();
}

// ---- Memory ---------------------------------------------------------------------------------------

typedef struct memory_t {
  dt_storage_t storage; // first
  command_t end;
  size_t at, pages; // in the ranges
} memory_t;

void *device_reach(const void *address) {
  size_t at = (size_t)((uintptr_t)address - (uintptr_t)device.shown);
  return at < RANGE ? device.bytes + at : NULL;
}

static void end_memory(command_t *command) {
  memory_t *own = (memory_t *)((char *)command - offsetof(memory_t, end));
  if (own->pages &&
      mmap(device.bytes + own->at, own->pages, PROT_NONE, CLOSED | MAP_FIXED, -1, 0) == MAP_FAILED)
    abort();
  dt__free(own);
}

static void release_memory(dt_storage_t *storage) {
  if (!dt__forked()) // a child has no device
    device_queue(&((memory_t *)storage)->end);
}

// The bytes end where a page does, and a closed one follows.
dt_status_t device_allocate(const dt_place_t *place, dt_session_t *session, size_t bytes,
                            dt_storage_t **out) {
  (void)session;
  size_t whole = (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
  bool there = bytes < RANGE - atomic_load(&device.used) - 2 * PAGE;
  memory_t *own = there ? dt__calloc(1, sizeof(*own)) : NULL;
  *out = NULL;
  if (!own)
    return DT_NO_MEMORY();
  own->pages = (whole + PAGE - 1) / PAGE * PAGE;
  own->at = atomic_fetch_add(&device.used, own->pages + PAGE);
  if (own->pages && mprotect(device.bytes + own->at, own->pages, PROT_READ | PROT_WRITE) != 0)
    abort();
  own->storage = (dt_storage_t){.refs = 1,
                                .place = place->number,
                                .bytes = bytes,
                                .data = bytes ? device.shown + own->at + own->pages - whole : NULL,
                                .destroy = release_memory};
  own->end.run = end_memory;
  *out = &own->storage;
  return NULL;
}

// ---- Work -----------------------------------------------------------------------------------------

void device_queue(command_t *command) {
  command->next = NULL;
  (void)pthread_mutex_lock(&device.mutex);
  *device.last = command;
  device.last = &command->next;
  (void)pthread_mutex_unlock(&device.mutex);
}

// False: nothing is queued.
static bool do_one(void) {
  (void)pthread_mutex_lock(&device.mutex);
  command_t *command = device.first;
  device.first = command ? command->next : NULL;
  device.last = device.first ? device.last : &device.first;
  if (command)
    command->run(command);
  (void)pthread_mutex_unlock(&device.mutex);
  return command != NULL;
}

dt_status_t device_drain(struct dt_control_t *control) {
  do
    DT_TRY(dt__control_check(control));
  while (do_one());
  return NULL;
}

void device_wait(void) { dt_status_free(device_drain(NULL)); }

typedef struct copy_t {
  command_t command; // first
  char *to;
  const char *from;
  size_t bytes;
  char host[]; // what it is from, where that is memory of the host
} copy_t;

static void run_copy(command_t *command) {
  copy_t *copy = (copy_t *)command;
  memmove(copy->to, copy->from, copy->bytes);
  dt__free(copy);
}

dt_status_t device_copy(void *to, const void *from, size_t bytes) {
  char *to_there = device_reach(to), *from_there = device_reach(from);
  if (bytes == 0)
    return NULL;
  if (!to_there) {
    device_wait();
    memcpy(to, from_there, bytes);
    return NULL;
  }
  copy_t *copy = dt__alloc(sizeof(*copy) + (from_there ? 0 : bytes));
  if (!copy)
    return DT_NO_MEMORY();
  *copy = (copy_t){{.run = run_copy}, to_there, from_there ? from_there : copy->host, bytes};
  if (!from_there)
    memcpy(copy->host, from, bytes);
  device_queue(&copy->command);
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// See device.h. There is one device, for the whole process. Addresses are taken from a range in which
// nothing may be read or written; the bytes lie in a second range of the same size, at the same
// distances. No address is used twice, and of the second range nothing is open but what is allocated.
#include "test/place/device.h"

#include "runtime/base/memory.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RANGE ((size_t)1 << 37)
#define PAGE ((size_t)4096)

static struct {
  pthread_mutex_t work;  // held by who does a piece; taken before `state`
  pthread_mutex_t state; // guards what follows
  char *shown, *bytes;   // the two ranges
  size_t used;           // of both
  command_t *first, **last;
  uint64_t queued, done;
} device = {.work = PTHREAD_MUTEX_INITIALIZER, .state = PTHREAD_MUTEX_INITIALIZER};

// ---- Memory ---------------------------------------------------------------------------------------

typedef struct memory_t {
  dt_storage_t storage; // first
  command_t end;
  size_t at, pages; // in the ranges
} memory_t;

static char *reserve(size_t bytes) {
  void *range = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    abort();
  return range;
}

__attribute__((constructor)) static void open_device(void) {
  device.shown = reserve(RANGE);
  device.bytes = reserve(RANGE);
  device.last = &device.first;
}

void *device_reach(const void *address) {
  size_t at = (size_t)((uintptr_t)address - (uintptr_t)device.shown);
  return at < RANGE ? device.bytes + at : NULL;
}

static void end_memory(command_t *command) {
  memory_t *own = (memory_t *)((char *)command - offsetof(memory_t, end));
  if (mmap(device.bytes + own->at, own->pages, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    abort();
  dt__free(own);
}

static void release_memory(dt_storage_t *storage) {
  memory_t *own = (memory_t *)storage;
  if (!storage->bytes)
    dt__free(own);
  else if (!dt__forked()) // a child has no device
    device_queue(&own->end);
}

// The bytes end where a page does that is followed by a closed one.
static bool take_pages(memory_t *own) {
  (void)pthread_mutex_lock(&device.state);
  own->at = device.used;
  bool there = own->pages < RANGE - device.used - PAGE &&
               mprotect(device.bytes + own->at, own->pages, PROT_READ | PROT_WRITE) == 0;
  device.used += there ? own->pages + PAGE : 0;
  (void)pthread_mutex_unlock(&device.state);
  return there;
}

dt_status_t device_allocate(size_t bytes, dt_storage_t **out) {
  memory_t *own = dt__calloc(1, sizeof(*own));
  size_t lines = (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
  *out = NULL;
  if (!own)
    return DT_NO_MEMORY();
  own->pages = bytes < RANGE ? (lines + PAGE - 1) / PAGE * PAGE : RANGE;
  if (bytes && !take_pages(own)) {
    dt__free(own);
    return DT_FAIL(DT_E_NO_MEMORY, "out of memory: %zu bytes of the device's", bytes);
  }
  own->storage = (dt_storage_t){.refs = 1,
                                .place = dt__place(INTERPRETER, 0),
                                .bytes = bytes,
                                .data = bytes ? device.shown + own->at + own->pages - lines : NULL,
                                .destroy = release_memory};
  own->end.run = end_memory;
  *out = &own->storage;
  return NULL;
}

// ---- Work -----------------------------------------------------------------------------------------

void device_queue(command_t *command) {
  command->next = NULL;
  (void)pthread_mutex_lock(&device.state);
  *device.last = command;
  device.last = &command->next;
  device.queued++;
  (void)pthread_mutex_unlock(&device.state);
}

uint64_t device_queued(void) {
  (void)pthread_mutex_lock(&device.state);
  uint64_t queued = device.queued;
  (void)pthread_mutex_unlock(&device.state);
  return queued;
}

bool device_has_done(uint64_t queued) {
  (void)pthread_mutex_lock(&device.state);
  bool done = device.done >= queued;
  (void)pthread_mutex_unlock(&device.state);
  return done;
}

static command_t *take_command(void) {
  (void)pthread_mutex_lock(&device.state);
  command_t *command = device.first;
  device.first = command ? command->next : NULL;
  device.last = device.first ? device.last : &device.first;
  (void)pthread_mutex_unlock(&device.state);
  return command;
}

void device_advance(void) {
  (void)pthread_mutex_lock(&device.work);
  command_t *command = take_command();
  if (command) {
    command->run(command);
    (void)pthread_mutex_lock(&device.state);
    device.done++;
    (void)pthread_mutex_unlock(&device.state);
  }
  (void)pthread_mutex_unlock(&device.work);
}

dt_status_t device_drain(dt_control_t *control) {
  for (uint64_t queued = device_queued(); !device_has_done(queued); device_advance())
    DT_TRY(dt__control_check(control));
  return NULL;
}

void device_wait(void) { dt_status_free(device_drain(NULL)); }

// ---- Copies ---------------------------------------------------------------------------------------

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

// SPDX-License-Identifier: Apache-2.0
// A device made of the host, for tests of what the runtime asks of a kind of device. Its memory has
// addresses that the host cannot touch. Its work is queued, and done in order by whoever waits:
// before that nothing has happened. Its kernels are those of the loop IR, run by the interpreter.
#ifndef DT_TESTS_PLACE_DEVICE_H
#define DT_TESTS_PLACE_DEVICE_H

#include "runtime/compile/codegen.h"
#include "runtime/exec/place.h"

#define INTERPRETER ((dt_device_t)2)
#define DEVICE_ALIGNMENT ((size_t)512) // of its memory

extern const dt_place_kind_t interpreter_place;
extern const dt_codegen_t interpreter_codegen;

// ---- device.c -----------------------------------------------------------------------------------

// Memory of the device, which goes back behind all that is queued when it is released.
dt_status_t device_allocate(const dt_place_t *place, dt_session_t *session, size_t bytes,
                            dt_storage_t **out) DT_MUST_USE;
// Where the device has what the address stands for; NULL: it is no address of the device's.
void *device_reach(const void *address);

// A piece of work. `run` takes it over.
typedef struct command_t {
  struct command_t *next;
  void (*run)(struct command_t *command);
} command_t;
void device_queue(command_t *command);
// Does all that is queued, or until the call ends (NULL: of no call).
dt_status_t device_drain(struct dt_control_t *control) DT_MUST_USE;
void device_wait(void);
// Queues a copy; what is on the host has been read when this returns. To the host it waits.
dt_status_t device_copy(void *to, const void *from, size_t bytes) DT_MUST_USE;

// ---- codegen.c ----------------------------------------------------------------------------------

// Words of a kernel, by its entry in a frame's table.
uint32_t kernel_words(dt_kernel_fn_t fn);
// Runs it. A check that failed is noted in `record`; a status is a fault.
dt_status_t kernel_run(dt_kernel_fn_t fn, const uint64_t *words,
                       dt_launch_record_t *record) DT_MUST_USE;

#endif // DT_TESTS_PLACE_DEVICE_H

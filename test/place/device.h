// SPDX-License-Identifier: Apache-2.0
// A device made of the host, for tests of what the runtime asks of a kind of device. Its memory has
// addresses that the host cannot touch. Its work is queued, and done in order by whoever waits, so
// that nothing has happened before. Its kernels are those of the loop IR, which the interpreter runs.
#ifndef DT_TESTS_PLACE_DEVICE_H
#define DT_TESTS_PLACE_DEVICE_H

#include "lower/loop/loop.h"
#include "runtime/base/control.h"
#include "runtime/compile/codegen.h"
#include "runtime/exec/place.h"
#include "runtime/tensor/tensor.h"

#define INTERPRETER ((dt_device_t)2)
#define DEVICE_ALIGNMENT ((size_t)512) // of its memory

extern const dt_place_kind_t interpreter_place;
extern const dt_codegen_t interpreter_codegen;

// ---- Memory (device.c) --------------------------------------------------------------------------

// Memory of the device, which goes back behind all that is queued when it is released.
dt_status_t device_allocate(size_t bytes, dt_storage_t **out) DT_MUST_USE;
// Where the device has what the address stands for; NULL: it is no address of the device's.
void *device_reach(const void *address);

// ---- Work (device.c) ----------------------------------------------------------------------------

// A piece of work. `run` takes it over.
typedef struct command_t {
  struct command_t *next;
  void (*run)(struct command_t *command);
} command_t;
void device_queue(command_t *command);
// Does all that is queued, or until the call ends. NULL allowed.
dt_status_t device_drain(dt_control_t *control) DT_MUST_USE;
void device_wait(void); // the same for no call
void device_advance(void); // does one piece
// How much was queued since the process began, and whether so much was done.
uint64_t device_queued(void);
bool device_has_done(uint64_t queued);
// Queues a copy; what is on the host has been read when this returns. To the host it waits.
dt_status_t device_copy(void *to, const void *from, size_t bytes) DT_MUST_USE;

// ---- Kernels (codegen.c) ------------------------------------------------------------------------

// What an entry of a frame's table of kernels points to.
typedef struct kernel_t {
  const dt_program_t *program;
  const dt_kernel_t *kernel;
  dt_kernel_params_t params;
} kernel_t;
const kernel_t *kernel_of(dt_kernel_fn_t fn);
static inline uint32_t kernel_words(const kernel_t *kernel) {
  return kernel->params.n_buffers + kernel->params.n_symbols;
}
// Runs it. A check that failed is noted in `record`; a status is a fault.
dt_status_t kernel_run(const kernel_t *kernel, const uint64_t *words,
                       dt_launch_record_t *record) DT_MUST_USE;

#endif // DT_TESTS_PLACE_DEVICE_H

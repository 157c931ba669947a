// SPDX-License-Identifier: Apache-2.0
// The interpreter's device as a place (runtime/exec/place.h).
#include "test/place/device.h"

#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/exec/call.h"
#include "runtime/exec/queued.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/staged.h"

#include <string.h>

// ---- Sessions -------------------------------------------------------------------------------------

// The first failure in the last call, told by whoever waits or calls next.
typedef struct failure_t {
  dt_note_t note;    // from the call on until it was waited for
  dt_status_t fault; // of a kernel; owned
} failure_t;

typedef struct own_t {
  dt_storage_t *block;
  failure_t failure;
  dt_staged_t staged; // with memory of its own for each input
  dt_readbacks_t readbacks;
} own_t;

static uint64_t session_bytes(const dt_session_t *session) {
  const own_t *own = session->own;
  return own->block ? own->block->bytes : 0;
}

static void hold_block(dt_session_t *session, dt_storage_t *block) {
  own_t *own = session->own;
  dt__storage_release(own->block);
  own->block = block;
  atomic_store(&session->held[DT_MEMORY_DEVICE], session_bytes(session));
}

static void give(dt_session_t *session) { hold_block(session, NULL); }

// What it says, once. Behind a fault no check fails.
static dt_status_t look(failure_t *failure) {
  dt_status_t fault = failure->fault;
  failure->fault = NULL;
  return fault ? dt__status_annotate(fault, "function %s", failure->note.function->name)
               : dt__note_tell(&failure->note);
}

static dt_status_t settle(dt_session_t *session) {
  failure_t *failure = &((own_t *)session->own)->failure;
  device_wait();
  dt_status_t status = look(failure);
  dt__note_drop(&failure->note);
  return status;
}

static void session_close(dt_session_t *session) {
  own_t *own = session->own;
  if (dt__forked())
    return;
  dt_status_free(settle(session)); // a failure that nobody asked for
  give(session);
  dt__staged_fini(&own->staged);
  dt__readbacks_fini(&own->readbacks, session);
}

// ---- Launches -------------------------------------------------------------------------------------

typedef struct frame_t {
  dt_frame_t frame; // first
  dt_queued_t queued;
  failure_t *failure;
  dt_status_t status;
  uint64_t launches;
} frame_t;

typedef struct launch_t {
  command_t command; // first
  dt_kernel_fn_t fn;
  failure_t *failure;
  uint64_t words[];
} launch_t;

// Behind a failure nothing of a call is run.
static void run_launch(command_t *command) {
  launch_t *launch = (launch_t *)command;
  failure_t *failure = launch->failure;
  if (!failure->fault && !atomic_load(&failure->note.record.check))
    failure->fault = kernel_run(launch->fn, launch->words, &failure->note.record);
  dt__free(launch);
}

static dt_status_t queue_launch(frame_t *own, dt_kernel_fn_t fn, const uint64_t *words) {
  size_t bytes = kernel_words(fn) * sizeof(*words);
  DT_TRY(dt__control_check(own->frame.control));
  launch_t *launch = dt__alloc(sizeof(*launch) + bytes);
  if (!launch)
    return DT_NO_MEMORY();
  *launch = (launch_t){.command.run = run_launch, .fn = fn, .failure = own->failure};
  memcpy(launch->words, words, bytes);
  device_queue(&launch->command);
  own->launches++;
  return NULL;
}

static void launch_kernel(dt_frame_t *frame, dt_kernel_fn_t fn, const uint64_t *words,
                          int64_t count, int64_t grain) {
  frame_t *own = (frame_t *)frame;
  (void)grain;
  if (!own->status && count > 0)
    own->status = queue_launch(own, fn, words);
}

// ---- Calls ----------------------------------------------------------------------------------------

// A copy to the host waits, and so it ends where the call does.
static dt_status_t fetch(const dt_queued_t *queued, void *to, const void *from, size_t bytes) {
  DT_TRY(device_drain(queued->call->control));
  return device_copy(to, from, bytes);
}

static dt_status_t wait_and_look(const dt_queued_t *queued) {
  DT_TRY(device_drain(queued->call->control));
  return look(((const frame_t *)queued->frame)->failure);
}

// A larger block is another one.
static dt_status_t grow(dt_session_t *session, int64_t used, int64_t bytes) {
  dt_storage_t *block = NULL, *old = ((own_t *)session->own)->block;
  DT_TRY(device_allocate(session->home, session, (size_t)bytes, &block));
  dt_status_t status = used ? device_copy(block->data, old->data, (size_t)used) : NULL;
  if (status)
    dt__storage_release(block);
  else
    hold_block(session, block);
  dt__budget_keep(&session->runtime->budget);
  return status;
}

static dt_status_t lease(const dt_queued_t *queued, uint32_t segment, int64_t used) {
  dt_session_t *session = queued->call->session;
  const own_t *own = session->own;
  (void)segment;
  if ((uint64_t)queued->frame->block_bytes > session_bytes(session))
    DT_TRY(grow(session, used, queued->frame->block_bytes));
  queued->frame->block = own->block ? own->block->data : NULL;
  return NULL;
}

static const dt_queue_t queue = {.fetch = fetch, .wait = wait_and_look, .lease = lease};

static dt_status_t call_variant(dt_call_t *call, dt_variant_t *variant,
                                const dt_bindings_t *bindings) {
  own_t *there = call->session->own;
  frame_t own = {.failure = &there->failure};
  own.queued = (dt_queued_t){&queue, call, variant, &own.frame, &own.status, &there->readbacks};
  DT_TRY(dt__staged_check(&there->staged, call, variant));
  DT_TRY(dt__queued_begin(&own.queued, bindings));
  own.frame.launch = launch_kernel;
  dt__note_take(&there->failure.note, call->function, variant);
  dt_status_t status = dt__queued_run(&own.queued);
  atomic_fetch_add(&call->function->counters[call->session->counter].launches, own.launches);
  return status;
}

// Memory of staged inputs goes behind what is queued.
static void leave(dt_call_t *call) {
  const own_t *own = call->session->own;
  dt_staged_input_t input;
  for (uint32_t k = 0; dt__staged_next(&own->staged, &k, &input);)
    dt__storage_release(input.tensor->storage);
}

// Inputs on the host are copied at once, whatever comes of the call.
static dt_status_t place_inputs(dt_call_t *call) {
  dt_session_t *session = call->session;
  own_t *own = session->own;
  dt_staged_input_t input;
  DT_TRY(dt__staged_begin(&own->staged, call));
  for (uint32_t k = 0; dt__staged_next(&own->staged, &k, &input);) {
    DT_TRY(device_allocate(session->home, session, input.bytes, &input.tensor->storage));
    dt__staged_put(&input, input.tensor->storage->data);
    DT_TRY(device_copy(input.tensor->storage->data, input.from, input.bytes));
  }
  dt__staged_enter(&own->staged, call);
  return NULL;
}

static dt_status_t enter(dt_call_t *call) {
  DT_TRY(dt__call_check_queued(call));
  DT_TRY(dt__status_annotate(settle(call->session), "an earlier call of this session"));
  dt_status_t status = place_inputs(call);
  if (status)
    leave(call);
  return status;
}

// ---- Memory and constants -------------------------------------------------------------------------

static dt_status_t copy(dt_session_t *session, dt_device_t from_place, void *from,
                        dt_device_t to_place, void *to, size_t bytes) {
  (void)session, (void)from_place, (void)to_place;
  return device_copy(to, from, bytes);
}

static dt_status_t upload(const dt_variant_t *variant, dt_pool_t *pool, const dt_tensor_t *from,
                          dt_storage_t **out) {
  (void)pool;
  DT_TRY(device_allocate(variant->home, NULL, dt__tensor_bytes(from), out));
  dt_status_t status = device_copy((*out)->data, from->data, dt__tensor_bytes(from));
  if (status) {
    dt__storage_release(*out);
    *out = NULL;
  }
  return status;
}

static dt_status_t uploaded(const dt_variant_t *variant) {
  (void)variant;
  return NULL;
}

static dt_status_t once(const dt_variant_t *variant, dt_bindings_t *bindings) {
  failure_t failure = {0};
  frame_t own = {.frame = dt__once_frame(variant, bindings), .failure = &failure};
  own.frame.launch = launch_kernel;
  variant->compiled->once(&own.frame);
  device_wait();
  return dt__status_join(dt__status_join(own.status, failure.fault),
                         dt__record_status(variant->compiled, &failure.note.record));
}

static void unload(dt_variant_t *variant) {
  device_wait();
  if (variant->compiled)
    dt__compiled_unload(variant->compiled);
}

// ---- The device -----------------------------------------------------------------------------------

const dt_place_kind_t interpreter_place = {.name = "interpreter",
                                           .option = "interpreter",
                                           .memory = DT_MEMORY_DEVICE,
                                           .queues = true,
                                           .session_size = sizeof(own_t),
                                           .session_close = session_close,
                                           .session_bytes = session_bytes,
                                           .settle = settle,
                                           .give = give,
                                           .enter = enter,
                                           .leave = leave,
                                           .call = call_variant,
                                           .allocate = device_allocate,
                                           .copy = copy,
                                           .upload = upload,
                                           .uploaded = uploaded,
                                           .once = once,
                                           .unload = unload};

// ---- What a program with it has -------------------------------------------------------------------

const dt_place_kind_t *const dt__place_kinds[DT_DEVICES] = {[DT_CPU] = &dt__cpu_place,
                                                            [INTERPRETER] = &interpreter_place};
const dt_codegen_t *const dt__codegens[DT_DEVICES] = {[INTERPRETER] = &interpreter_codegen};

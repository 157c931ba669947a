// SPDX-License-Identifier: Apache-2.0
// The interpreter's device as a place (runtime/exec/place.h).
#include "test/place/device.h"

#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/exec/call.h"
#include "runtime/exec/runtime.h"

#include <string.h>

// ---- Sessions -------------------------------------------------------------------------------------

// The first failure in a call, told by whoever waits or calls next.
typedef struct note_t {
  dt_function_t *function; // references, from the call on until it was told
  dt_variant_t *variant;
  dt_launch_record_t record;
  dt_status_t fault; // of a kernel; owned
} note_t;

typedef struct staged_t {
  struct dt_tensor view;
  dt_storage_t *memory; // NULL: it is not on the host
} staged_t;

typedef struct own_t {
  dt_storage_t *block;
  note_t note;
  // Of the last call, by input: what it was made with, and what stood for those on the host.
  dt_tensor_t **inputs;
  staged_t *staged;
  dt_tensor_t *const *given;
  uint64_t *readbacks; // addresses, then values
} own_t;

static dt_status_t session_open(dt_session_t *session, const dt_session_options_t *options) {
  (void)options;
  session->own = dt__calloc(1, sizeof(own_t));
  return session->own ? NULL : DT_NO_MEMORY();
}

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

// What it says, once.
static dt_status_t note_look(note_t *note) {
  dt_status_t status = note->fault;
  note->fault = NULL;
  if (!status && note->variant)
    status = dt__record_status(note->variant->compiled, &note->record);
  atomic_store(&note->record.check, 0);
  return status ? dt__status_annotate(status, "function %s", note->function->name) : NULL;
}

static dt_status_t settle(dt_session_t *session) {
  note_t *note = &((own_t *)session->own)->note;
  device_wait();
  dt_status_t status = note_look(note);
  if (note->variant)
    dt__variant_release(note->variant);
  dt_function_release(note->function);
  *note = (note_t){0};
  return status;
}

static void free_arrays(own_t *own) {
  dt__free(own->inputs);
  dt__free(own->staged);
  dt__free(own->readbacks);
}

static void session_close(dt_session_t *session) {
  own_t *own = session->own;
  if (!own || dt__forked())
    return;
  dt_status_free(settle(session)); // a failure that nobody asked for
  give(session);
  free_arrays(own);
  dt__free(own);
}

// ---- Launches -------------------------------------------------------------------------------------

typedef struct frame_t {
  dt_frame_t frame;      // first
  const dt_call_t *call; // NULL: of constants
  note_t *note;
  dt_status_t status;
  uint64_t launches;
} frame_t;

typedef struct launch_t {
  command_t command; // first
  dt_kernel_fn_t fn;
  note_t *note;
  uint64_t words[];
} launch_t;

// Behind a failure nothing of a call is run.
static void run_launch(command_t *command) {
  launch_t *launch = (launch_t *)command;
  note_t *note = launch->note;
  if (!note->fault && !atomic_load(&note->record.check))
    note->fault = kernel_run(launch->fn, launch->words, &note->record);
  dt__free(launch);
}

static dt_status_t queue_launch(frame_t *own, dt_kernel_fn_t fn, const uint64_t *words) {
  size_t bytes = kernel_words(fn) * sizeof(*words);
  DT_TRY(dt__control_check(own->frame.control));
  launch_t *launch = dt__alloc(sizeof(*launch) + bytes);
  if (!launch)
    return DT_NO_MEMORY();
  *launch = (launch_t){.command.run = run_launch, .fn = fn, .note = own->note};
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

// Brings bytes to the host while a call is made, which ends here where it has failed already.
static dt_status_t read_back(frame_t *own, void *to, const void *from, size_t bytes) {
  DT_TRY(device_drain(own->call->control));
  memcpy(to, device_reach(from), bytes);
  return note_look(own->note);
}

static int64_t read_flag(dt_frame_t *frame, const void *predicate) {
  frame_t *own = (frame_t *)frame;
  uint8_t value = 0;
  if (!own->status)
    own->status = read_back(own, &value, predicate, 1);
  atomic_fetch_add(&own->call->function->readbacks, 1);
  return own->status ? 0 : value;
}

static dt_status_t read_items(frame_t *own, const dt_compiled_t *compiled, uint32_t segment) {
  const own_t *there = own->call->session->own;
  uint64_t *addresses = there->readbacks, *values = there->readbacks + compiled->n_readbacks;
  if (!compiled->segments[segment].readbacks)
    return NULL;
  memset(addresses, 0, compiled->n_readbacks * sizeof(*addresses));
  compiled->segments[segment].readbacks(&own->frame);
  for (uint32_t k = 0; k < compiled->n_readbacks; k++)
    if (addresses[k])
      DT_TRY(read_back(own, &values[k], (void *)(uintptr_t)addresses[k], sizeof(*values)));
  atomic_fetch_add(&own->call->function->readbacks, 1);
  return NULL;
}

// ---- Calls ----------------------------------------------------------------------------------------

// The first `used` bytes stay.
static dt_status_t lease(dt_session_t *session, int64_t used, int64_t bytes) {
  dt_storage_t *block = NULL, *old = ((own_t *)session->own)->block;
  if ((uint64_t)bytes <= session_bytes(session))
    return NULL;
  DT_TRY(device_allocate((size_t)bytes, &block));
  dt_status_t status = used ? device_copy(block->data, old->data, (size_t)used) : NULL;
  if (status)
    dt__storage_release(block);
  else
    hold_block(session, block);
  dt__budget_keep(&session->runtime->budget);
  return status;
}

static dt_status_t run_segment(frame_t *own, const dt_variant_t *variant, uint32_t segment) {
  dt_session_t *session = own->call->session;
  int64_t used = own->frame.block_bytes;
  DT_TRY(read_items(own, variant->compiled, segment));
  DT_TRY(dt__segment_plan(own->call, variant, segment, &own->frame));
  DT_TRY(lease(session, used, own->frame.block_bytes));
  DT_TRY(dt__segment_outputs(own->call, variant, segment));
  const own_t *there = session->own;
  own->frame.block = there->block ? there->block->data : NULL;
  dt__compiled_queue(variant->compiled, segment, &own->frame);
  return own->status;
}

// Copies inputs from the host.
static dt_status_t stage_inputs(const dt_call_t *call, const dt_variant_t *variant) {
  const own_t *own = call->session->own;
  const dt_graph_t *graph = variant->traced->graph;
  for (uint32_t k = 0; k < graph->updates.len; k++)
    if (own->staged[graph->updates.items[k].input].memory)
      return DT_FAIL(DT_E_ARGUMENT, "input %u: the program updates it, and it is on the host",
                     graph->updates.items[k].input);
  for (uint32_t k = 0; k < call->function->n_inputs; k++) {
    const dt_storage_t *to = own->staged[k].memory;
    if (to && to->bytes)
      DT_TRY(device_copy(to->data, (void *)dt__tensor_reach(own->given[k]).begin, to->bytes));
  }
  return NULL;
}

static dt_status_t call_variant(dt_call_t *call, dt_variant_t *variant,
                                const dt_bindings_t *bindings) {
  own_t *there = call->session->own;
  const dt_compiled_t *compiled = variant->compiled;
  frame_t own = {.call = call};
  dt__call_frame(call, variant, bindings, &own.frame);
  DT_TRY(stage_inputs(call, variant));
  there->readbacks = dt__calloc(compiled->n_readbacks, 2 * sizeof(*there->readbacks));
  if (!there->readbacks)
    return DT_NO_MEMORY();
  own.frame.readback_addresses = there->readbacks;
  own.frame.readback_values = (const int64_t *)there->readbacks + compiled->n_readbacks;
  there->note = (note_t){.function = call->function, .variant = variant};
  dt_function_retain(call->function);
  dt__variant_retain(variant);
  own.note = &there->note;
  own.frame.launch = launch_kernel;
  own.frame.read_flag = read_flag;
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < compiled->n_segments && !status; k++)
    status = run_segment(&own, variant, k);
  atomic_fetch_add(&call->function->counters[call->session->counter].launches, own.launches);
  return status;
}

static void leave(dt_call_t *call) {
  own_t *own = call->session->own;
  for (uint32_t k = 0; own->staged && k < call->function->n_inputs; k++)
    dt__storage_release(own->staged[k].memory);
}

// What a tensor of the host is there: its elements from address `begin` on lie at `there`.
static void make_view(struct dt_tensor *out, const dt_tensor_t *host, uintptr_t begin,
                      char *there) {
  *out = (struct dt_tensor){.refs = 1,
                            .dtype = host->dtype,
                            .device = dt__place(INTERPRETER, 0),
                            .rank = host->rank,
                            .data = host->count ? there + ((uintptr_t)host->data - begin) : NULL,
                            .count = host->count,
                            .contiguous = host->contiguous};
  memcpy(out->sizes, host->sizes, sizeof(out->sizes));
  memcpy(out->strides, host->strides, sizeof(out->strides));
}

// Inputs on the host get their places.
static dt_status_t replace_inputs(dt_call_t *call) {
  own_t *own = call->session->own;
  uint32_t n = call->function->n_inputs;
  own->inputs = dt__calloc(n, sizeof(dt_tensor_t *));
  own->staged = dt__calloc(n, sizeof(*own->staged));
  if (!own->inputs || !own->staged)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < n; k++) {
    dt_tensor_t *given = own->inputs[k] = call->inputs[k];
    if (given->device != DT_CPU || call->function->inputs[k].kind != DT_INPUT_TENSOR)
      continue;
    dt_bytes_t reach = dt__tensor_reach(given);
    staged_t *staged = &own->staged[k];
    DT_TRY(device_allocate(reach.end - reach.begin, &staged->memory));
    make_view(&staged->view, given, reach.begin, staged->memory->data);
    own->inputs[k] = &staged->view;
  }
  own->given = call->inputs;
  call->inputs = own->inputs;
  return NULL;
}

static dt_status_t enter(dt_call_t *call) {
  own_t *own = call->session->own;
  DT_TRY(dt__call_check_queued(call));
  DT_TRY(dt__status_annotate(settle(call->session), "an earlier call of this session"));
  free_arrays(own);
  *own = (own_t){.block = own->block};
  dt_status_t status = replace_inputs(call);
  if (status)
    leave(call);
  return status;
}

// ---- Tensors and constants ------------------------------------------------------------------------

static dt_status_t tensor(dt_session_t *session, dt_dtype_t dtype, uint32_t rank,
                          const int64_t *sizes, dt_tensor_t **out) {
  (void)session;
  dt_layout_t layout;
  dt_storage_t *storage = NULL;
  DT_TRY(dt__layout_set(&layout, dtype, rank, sizes, NULL));
  DT_TRY(device_allocate((size_t)layout.high, &storage));
  dt_status_t status = dt__tensor_create_over(storage, 0, dtype, rank, sizes, NULL, out);
  dt__storage_release(storage); // the tensor has its own share
  return status;
}

static dt_status_t copy(dt_session_t *session, dt_device_t from_place, void *from,
                        dt_device_t to_place, void *to, size_t bytes) {
  (void)session, (void)from_place, (void)to_place;
  return device_copy(to, from, bytes);
}

static dt_status_t upload(const dt_variant_t *variant, const dt_tensor_t *from,
                          dt_storage_t **out) {
  (void)variant;
  DT_TRY(device_allocate(dt__tensor_bytes(from), out));
  dt_status_t status =
      from->count ? device_copy((*out)->data, from->data, dt__tensor_bytes(from)) : NULL;
  if (status)
    dt__storage_release(*out);
  return status;
}

static dt_status_t once(const dt_variant_t *variant, dt_bindings_t *bindings) {
  const dt_compiled_t *compiled = variant->compiled;
  note_t note = {0};
  frame_t own = {.frame = {.version = DT_FRAME_VERSION,
                           .constants = bindings->addresses,
                           .kernels = compiled->kernels,
                           .launch = launch_kernel},
                 .note = &note};
  if (compiled->once_bytes == 0)
    return NULL;
  DT_TRY(device_allocate((size_t)compiled->once_bytes, &bindings->once_storage));
  bindings->once = own.frame.once = bindings->once_storage->data;
  compiled->once(&own.frame);
  device_wait();
  return dt__status_join(dt__status_join(own.status, note.fault),
                         dt__record_status(compiled, &note.record));
}

static void unload(dt_variant_t *variant) {
  if (!variant->compiled)
    return;
  device_wait();
  dt__compiled_unload(variant->compiled);
}

// ---- The device -----------------------------------------------------------------------------------

static dt_status_t record_event(dt_session_t *session, dt_event_t *event) {
  (void)session, (void)event;
  device_wait(); // then it has happened
  return NULL;
}

const dt_place_kind_t interpreter_place = {.name = "interpreter",
                                           .option = "interpreter",
                                           .memory = DT_MEMORY_DEVICE,
                                           .queues = true,
                                           .session_open = session_open,
                                           .session_close = session_close,
                                           .session_bytes = session_bytes,
                                           .settle = settle,
                                           .give = give,
                                           .enter = enter,
                                           .leave = leave,
                                           .call = call_variant,
                                           .tensor = tensor,
                                           .copy = copy,
                                           .upload = upload,
                                           .once = once,
                                           .unload = unload,
                                           .event_record = record_event};

// ---- What a program with it has -------------------------------------------------------------------

const dt_place_kind_t *const dt__place_kinds[DT_DEVICES] = {[DT_CPU] = &dt__cpu_place,
                                                            [INTERPRETER] = &interpreter_place};
const dt_codegen_t *const dt__codegens[DT_DEVICES] = {[INTERPRETER] = &interpreter_codegen};

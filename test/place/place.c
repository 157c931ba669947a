// SPDX-License-Identifier: Apache-2.0
// The interpreter's device as a place (runtime/exec/place.h).
#include "test/place/device.h"

#include "runtime/base/log.h"
#include "runtime/base/process.h"
#include "runtime/base/status.h"
#include "runtime/exec/call.h"

#include <stdio.h>
#include <string.h>

#define MOST_QUEUED 512 // pieces of work after which a call begins by waiting

// ---- Sessions -------------------------------------------------------------------------------------

// What a call leaves behind: the first failure in it, told by whoever waits or calls next.
typedef struct note_t {
  struct note_t *next; // younger
  dt_function_t *function; // references
  dt_variant_t *variant;
  uint64_t end; // queued when the call returned
  dt_launch_record_t record;
  dt_status_t fault; // of a kernel; owned
  bool told;
} note_t;

typedef struct own_t {
  dt_storage_t *block;
  note_t *notes; // oldest first
  // By input of the call that is being made: what stands for those on the host.
  struct dt_tensor *stand_ins;
  dt_tensor_t **inputs;
  dt_storage_t **staged;
  dt_tensor_t *const *given;
  uint32_t n_staged; // of these arrays, in a call; else 0
  uint64_t *item_addresses;
  int64_t *item_values;
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
  atomic_store_explicit(&session->held[DT_MEMORY_DEVICE], session_bytes(session),
                        memory_order_relaxed);
}

static void give(dt_session_t *session) { hold_block(session, NULL); }

static dt_status_t trim(dt_session_t *session) {
  give(session);
  return NULL;
}

// ---- Notes ----------------------------------------------------------------------------------------

static dt_status_t note_add(own_t *own, dt_function_t *function, dt_variant_t *variant,
                            note_t **out) {
  note_t **last = &own->notes;
  note_t *note = dt__calloc(1, sizeof(*note));
  if (!note)
    return DT_NO_MEMORY();
  while (*last)
    last = &(*last)->next;
  *last = *out = note;
  note->function = function;
  note->variant = variant;
  note->end = UINT64_MAX;
  dt_function_retain(function);
  dt__variant_retain(variant);
  return NULL;
}

// What it says, once.
static dt_status_t note_look(note_t *note) {
  dt_status_t status = note->fault;
  note->fault = NULL;
  if (!status && !note->told)
    status = dt__record_status(note->variant->compiled, &note->record);
  note->told = note->told || status;
  return dt__status_annotate(status, "function %s", note->function->name);
}

// Of calls that have ended, up to the first failure, which is the status.
static dt_status_t notes_tell(own_t *own) {
  while (own->notes && device_has_done(own->notes->end)) {
    note_t *note = own->notes;
    dt_status_t status = note_look(note);
    own->notes = note->next;
    dt__variant_release(note->variant);
    dt_function_release(note->function);
    dt__free(note);
    DT_TRY(status);
  }
  return NULL;
}

static dt_status_t settle(dt_session_t *session) {
  device_wait();
  return notes_tell(session->own);
}

static void session_close(dt_session_t *session) {
  own_t *own = session->own;
  if (!own || dt__forked())
    return;
  device_wait();
  while (own->notes) // failures that nobody asked for
    dt_status_free(notes_tell(own));
  dt__storage_release(own->block);
  dt__free(own->stand_ins);
  dt__free(own->inputs);
  dt__free(own->staged);
  dt__free(own->item_addresses);
  dt__free(own->item_values);
  dt__free(own);
}

// ---- Launches -------------------------------------------------------------------------------------

typedef struct frame_t {
  dt_frame_t frame; // first
  const dt_call_t *call; // NULL: of constants
  note_t *note;
  dt_status_t status;
  uint64_t launches;
} frame_t;

typedef struct launch_t {
  command_t command; // first
  const kernel_t *kernel;
  note_t *note;
  uint64_t words[];
} launch_t;

// Behind a failure nothing of a call is run.
static void run_launch(command_t *command) {
  launch_t *launch = (launch_t *)command;
  note_t *note = launch->note;
  if (!note->fault && !atomic_load(&note->record.check))
    note->fault = kernel_run(launch->kernel, launch->words, &note->record);
  dt__free(launch);
}

static dt_status_t queue_launch(frame_t *own, dt_kernel_fn_t fn, const uint64_t *words) {
  const kernel_t *kernel = kernel_of(fn);
  size_t bytes = kernel_words(kernel) * sizeof(*words);
  DT_TRY(dt__control_check(own->frame.control));
  launch_t *launch = dt__alloc(sizeof(*launch) + bytes);
  if (!launch)
    return DT_NO_MEMORY();
  *launch = (launch_t){.command.run = run_launch, .kernel = kernel, .note = own->note};
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

// Brings `bytes` to the host while a call is made, which ends here where it has failed already.
static dt_status_t read_back(frame_t *own, void *to, const void *from, size_t bytes) {
  DT_TRY(device_drain(own->call->control));
  memcpy(to, device_reach(from), bytes);
  return note_look(own->note);
}

static int64_t read_flag(dt_frame_t *frame, const void *predicate) {
  frame_t *own = (frame_t *)frame;
  uint8_t value = 0;
  if (!own->status)
    own->status = dt__control_check(own->call->control); // a loop's body may have no kernels
  if (!own->status)
    own->status = read_back(own, &value, predicate, 1);
  atomic_fetch_add(&own->call->function->readbacks, 1);
  return own->status ? 0 : value;
}

// ---- Calls ----------------------------------------------------------------------------------------

static dt_status_t read_items(frame_t *own, const dt_compiled_t *compiled, uint32_t segment) {
  const own_t *session = own->call->session->own;
  if (!compiled->segments[segment].items)
    return NULL;
  memset(session->item_addresses, 0, compiled->n_items * sizeof(*session->item_addresses));
  compiled->segments[segment].items(&own->frame);
  for (uint32_t k = 0; k < compiled->n_items; k++)
    if (session->item_addresses[k])
      DT_TRY(read_back(own, &session->item_values[k],
                       (void *)(uintptr_t)session->item_addresses[k], sizeof(int64_t)));
  atomic_fetch_add(&own->call->function->readbacks, 1);
  return NULL;
}

static dt_status_t reserve_items(own_t *own, uint32_t n) {
  dt__free(own->item_addresses);
  dt__free(own->item_values);
  own->item_addresses = dt__calloc(n + 1, sizeof(*own->item_addresses));
  own->item_values = dt__calloc(n + 1, sizeof(*own->item_values));
  return own->item_addresses && own->item_values ? NULL : DT_NO_MEMORY();
}

// The first `used` bytes stay.
static dt_status_t lease(dt_session_t *session, int64_t used, int64_t bytes) {
  dt_storage_t *block = NULL, *old = ((own_t *)session->own)->block;
  if ((uint64_t)bytes <= session_bytes(session))
    return NULL;
  DT_TRY(dt__status_annotate(device_allocate((size_t)bytes, &block),
                             "%lld bytes for the call's intermediate results", (long long)bytes));
  dt_status_t status = used ? device_copy(block->data, old->data, (size_t)used) : NULL;
  if (status) {
    dt__storage_release(block);
    return status;
  }
  hold_block(session, block);
  dt__budget_keep(&session->runtime->budget);
  return NULL;
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

static dt_status_t run_segments(frame_t *own, const dt_variant_t *variant) {
  for (uint32_t k = 0; k < variant->compiled->n_segments; k++)
    DT_TRY(run_segment(own, variant, k));
  return NULL;
}

static dt_status_t stage_inputs(const dt_call_t *call, const dt_variant_t *variant);

static dt_status_t call_variant(dt_call_t *call, dt_variant_t *variant,
                                const dt_bindings_t *bindings) {
  own_t *there = call->session->own;
  frame_t own = {.frame = dt__call_frame(call, variant, bindings), .call = call};
  DT_TRY(stage_inputs(call, variant));
  DT_TRY(reserve_items(there, variant->compiled->n_items));
  DT_TRY(note_add(there, call->function, variant, &own.note));
  own.frame.item_addresses = there->item_addresses;
  own.frame.item_values = there->item_values;
  own.frame.launch = launch_kernel;
  own.frame.read_flag = read_flag;
  dt_status_t status = run_segments(&own, variant);
  own.note->end = device_queued();
  atomic_fetch_add(&call->function->counters[call->session->counter].launches, own.launches);
  return status;
}

// ---- Inputs on the host ---------------------------------------------------------------------------

static bool is_staged(const dt_call_t *call, dt_tensor_t *const *given, uint32_t index) {
  return given[index]->device == DT_CPU && call->function->inputs[index].kind == DT_INPUT_TENSOR;
}

static void leave(dt_call_t *call) {
  own_t *own = call->session->own;
  for (uint32_t k = 0; k < own->n_staged; k++)
    dt__storage_release(own->staged[k]);
  own->n_staged = 0;
}

static dt_status_t reserve_inputs(own_t *own, uint32_t n) {
  dt__free(own->stand_ins);
  dt__free(own->inputs);
  dt__free(own->staged);
  own->stand_ins = dt__calloc(n + 1, sizeof(*own->stand_ins));
  own->inputs = dt__calloc(n + 1, sizeof(dt_tensor_t *));
  own->staged = dt__calloc(n + 1, sizeof(dt_storage_t *));
  return own->stand_ins && own->inputs && own->staged ? NULL : DT_NO_MEMORY();
}

// The tensor as it will be there: the same layout, gaps included.
static dt_status_t stand_in(own_t *own, uint32_t index, const dt_tensor_t *host) {
  struct dt_tensor *made = &own->stand_ins[index];
  dt_bytes_t reach = dt__tensor_reach(host);
  DT_TRY(device_allocate(reach.end - reach.begin, &own->staged[index]));
  *made = (struct dt_tensor){.refs = 1,
                             .dtype = host->dtype,
                             .device = own->staged[index]->place,
                             .rank = host->rank,
                             .count = host->count,
                             .contiguous = host->contiguous};
  if (own->staged[index]->data)
    made->data = (char *)own->staged[index]->data + ((uintptr_t)host->data - reach.begin);
  memcpy(made->sizes, host->sizes, sizeof(made->sizes));
  memcpy(made->strides, host->strides, sizeof(made->strides));
  own->inputs[index] = made;
  return NULL;
}

static dt_status_t replace_inputs(dt_call_t *call) {
  own_t *own = call->session->own;
  uint32_t n = call->function->n_inputs;
  DT_TRY(reserve_inputs(own, n));
  own->n_staged = n;
  own->given = call->inputs;
  for (uint32_t k = 0; k < n; k++) {
    own->inputs[k] = call->inputs[k];
    if (is_staged(call, call->inputs, k))
      DT_TRY(stand_in(own, k, call->inputs[k]));
  }
  call->inputs = own->inputs;
  return NULL;
}

static dt_status_t enter(dt_call_t *call) {
  own_t *own = call->session->own;
  DT_TRY(dt__call_check_queued(call));
  if (device_queued() > MOST_QUEUED && !device_has_done(device_queued() - MOST_QUEUED))
    device_wait();
  DT_TRY(dt__status_annotate(notes_tell(own), "an earlier call of this session"));
  dt_status_t status = replace_inputs(call);
  if (status)
    leave(call);
  return status;
}

// The variant is known.
static dt_status_t stage_inputs(const dt_call_t *call, const dt_variant_t *variant) {
  const own_t *own = call->session->own;
  const dt_graph_t *graph = variant->traced->graph;
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    char name[96];
    uint32_t index = graph->updates.items[k].input;
    if (own->staged[index])
      return DT_FAIL(DT_E_ARGUMENT, "%s: the program updates it, and it is on the host",
                     dt__input_name(call->function, index, name, sizeof(name)));
  }
  for (uint32_t k = 0; k < own->n_staged; k++) {
    const dt_storage_t *to = own->staged[k];
    if (to && to->bytes)
      DT_TRY(device_copy(to->data, (void *)dt__tensor_reach(own->given[k]).begin, to->bytes));
  }
  return NULL;
}

// ---- Tensors --------------------------------------------------------------------------------------

static dt_status_t tensor(dt_session_t *session, dt_dtype_t dtype, uint32_t rank,
                          const int64_t *sizes, dt_tensor_t **out) {
  (void)session;
  dt_layout_t layout;
  dt_storage_t *storage = NULL;
  *out = NULL;
  DT_TRY(dt__layout_set(&layout, dtype, rank, sizes, NULL));
  DT_TRY(device_allocate((size_t)layout.high, &storage));
  dt_status_t status = dt__tensor_create_over(storage, 0, dtype, rank, sizes, NULL, out);
  dt__storage_release(storage); // the tensor has its own share
  return status;
}

static dt_status_t result(const dt_call_t *call, uint32_t index, const dt_output_info_t *info,
                          const int64_t *sizes, dt_tensor_t **out) {
  (void)index;
  return tensor(call->session, info->dtype, info->rank, sizes, out);
}

static dt_status_t copy(dt_session_t *session, dt_device_t from_place, void *from,
                        dt_device_t to_place, void *to, size_t bytes) {
  (void)session, (void)from_place, (void)to_place;
  return device_copy(to, from, bytes);
}

static dt_status_t host_alloc(dt_session_t *session, size_t bytes, void **out) {
  (void)session;
  *out = dt__alloc_aligned(bytes, DT_STORAGE_ALIGNMENT);
  return *out ? NULL : DT_NO_MEMORY();
}

static void host_free(dt_session_t *session, void *ptr) {
  (void)session;
  dt__free(ptr);
}

// ---- Constants ------------------------------------------------------------------------------------

static dt_status_t upload(const dt_variant_t *variant, const dt_bindings_peers_t *peers,
                          dt_bindings_t *bindings) {
  (void)variant, (void)peers;
  bindings->copies = dt__calloc(bindings->n, sizeof(dt_storage_t *));
  if (!bindings->copies)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < bindings->n; k++) {
    const dt_tensor_t *from = bindings->tensors[k];
    DT_TRY(device_allocate(dt__tensor_bytes(from), &bindings->copies[k]));
    bindings->addresses[k] = bindings->copies[k]->data;
    if (bindings->addresses[k])
      DT_TRY(device_copy(bindings->addresses[k], from->data, dt__tensor_bytes(from)));
  }
  return NULL;
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

// ---- Events ---------------------------------------------------------------------------------------

typedef struct event_t {
  dt_event_t event; // first
  uint64_t behind;  // as device_queued says
} event_t;

static dt_status_t event_create(dt_session_t *session, dt_event_t **out) {
  (void)session;
  event_t *event = dt__calloc(1, sizeof(*event));
  *out = event ? &event->event : NULL;
  return event ? NULL : DT_NO_MEMORY();
}

static dt_status_t event_record(dt_session_t *session, dt_event_t *event) {
  (void)session;
  ((event_t *)event)->behind = device_queued();
  return NULL;
}

static dt_status_t event_settle(dt_event_t *event) {
  while (!device_has_done(((event_t *)event)->behind))
    device_advance();
  return NULL;
}

static dt_status_t event_query(dt_event_t *event, bool *out_done) {
  uint64_t behind = ((event_t *)event)->behind;
  if (!device_has_done(behind))
    device_advance();
  *out_done = device_has_done(behind);
  return NULL;
}

static void event_destroy(dt_event_t *event) { dt__free(event); }

// ---- The device -----------------------------------------------------------------------------------

static dt_status_t count(const dt_runtime_t *runtime, int32_t *out) {
  (void)runtime;
  *out = 1;
  return NULL;
}

static dt_status_t open_place(dt_runtime_t *runtime, int32_t ordinal, dt_place_t **out) {
  (void)runtime;
  if (ordinal != 0)
    return DT_FAIL(DT_E_UNSUPPORTED, "ordinal: %d; there is one interpreter", (int)ordinal);
  dt_place_t *place = dt__calloc(1, sizeof(*place));
  if (!place)
    return DT_NO_MEMORY();
  *place = (dt_place_t){.kind = &interpreter_place,
                        .number = dt__place(INTERPRETER, 0),
                        .codegen = &interpreter_codegen};
  *out = place;
  return NULL;
}

static void close_place(dt_place_t *place) { dt__free(place); }

static void describe(const dt_place_t *place, const dt_runtime_t *runtime, dt_device_info_t *out) {
  (void)place, (void)runtime;
  out->processors = 1;
  (void)snprintf(out->name, sizeof(out->name), "interpreter");
}

const dt_place_kind_t interpreter_place = {.name = "interpreter",
                                           .option = "interpreter",
                                           .memory = DT_MEMORY_DEVICE,
                                           .queues = true,
                                           .count = count,
                                           .open = open_place,
                                           .close = close_place,
                                           .describe = describe,
                                           .session_open = session_open,
                                           .session_close = session_close,
                                           .session_bytes = session_bytes,
                                           .settle = settle,
                                           .give = give,
                                           .trim = trim,
                                           .enter = enter,
                                           .leave = leave,
                                           .call = call_variant,
                                           .result = result,
                                           .tensor = tensor,
                                           .copy = copy,
                                           .host_alloc = host_alloc,
                                           .host_free = host_free,
                                           .upload = upload,
                                           .once = once,
                                           .unload = unload,
                                           .event_create = event_create,
                                           .event_record = event_record,
                                           .event_settle = event_settle,
                                           .event_query = event_query,
                                           .event_destroy = event_destroy};

// SPDX-License-Identifier: Apache-2.0
// Calls of parts. Inputs and results are onnxruntime's memory; results are made by it once their
// sizes are known, which is before the call, unless data decide.
#include "onnxruntime/provider.h"

#include <stdlib.h>

// ---- Threads ----------------------------------------------------------------------------------------
// The call that this thread is in: its kernels run on the session's threads.
static _Thread_local const ort_call_t *current;

typedef struct parts_t {
  dt_part_fn_t fn;
  void *arg;
} parts_t;

static void run_part(void *user, size_t index) {
  const parts_t *parts = user;
  parts->fn(parts->arg, (uint32_t)index);
}

void ep_run_parts(void *user, uint32_t n, dt_part_fn_t fn, void *arg) {
  const ort_api_t *api = user;
  parts_t parts = {fn, arg};
  // What is left out the caller does.
  if (current && n > 1)
    api->ReleaseStatus(api->KernelContext_ParallelFor(current, run_part, n, 0, &parts));
}

// ---- Seats ------------------------------------------------------------------------------------------
static void drop_seat(const ep_compute_t *compute, ep_seat_t *seat) {
  for (uint32_t k = 0; seat->tensors && k < compute->n_inputs + compute->n_outputs; k++)
    dt_tensor_release(seat->tensors[k]);
  dt_session_destroy(seat->session);
  free((void *)seat->tensors);
  free(seat->shapes);
  free(seat->numbers);
  free(seat);
}

void ep_seats_drop(ep_compute_t *compute) {
  while (compute->seats) {
    ep_seat_t *seat = compute->seats;
    compute->seats = seat->next;
    drop_seat(compute, seat);
  }
}

static ort_status_t *make_seat(const ep_compute_t *compute, ep_seat_t **out) {
  size_t n = (size_t)compute->n_inputs + compute->n_outputs;
  ep_seat_t *seat = calloc(1, sizeof(*seat));
  if (!seat)
    return ep_no_memory(compute->api);
  seat->tensors = (dt_tensor_t **)calloc(n + 1, sizeof(dt_tensor_t *));
  seat->shapes = calloc(compute->n_outputs + 1u, sizeof(*seat->shapes));
  if (compute->reads_numbers)
    seat->numbers = calloc(compute->n_inputs, EP_NUMBER_BYTES);
  dt_status_t status = NULL;
  bool memory = seat->tensors && seat->shapes && (seat->numbers || !compute->reads_numbers);
  if (memory)
    status = dt_session_create(compute->ep->runtime->runtime, NULL, &seat->session);
  if (memory && !status) {
    *out = seat;
    return NULL;
  }
  drop_seat(compute, seat);
  return memory ? ep_status(compute->api, status, compute->name) : ep_no_memory(compute->api);
}

static ort_status_t *take_seat(ep_compute_t *compute, ep_seat_t **out) {
  (void)pthread_mutex_lock(&compute->lock);
  ep_seat_t *seat = compute->seats;
  if (seat)
    compute->seats = seat->next;
  (void)pthread_mutex_unlock(&compute->lock);
  *out = seat;
  return seat ? NULL : make_seat(compute, out);
}

static void give_seat(ep_compute_t *compute, ep_seat_t *seat) {
  (void)pthread_mutex_lock(&compute->lock);
  seat->next = compute->seats;
  compute->seats = seat;
  (void)pthread_mutex_unlock(&compute->lock);
}

// ---- Constants --------------------------------------------------------------------------------------
// They were lent while the part was compiled. onnxruntime keeps those that calls are given; if they
// lie elsewhere now, the function is made anew over these.
static ort_status_t *find_constant(const ep_compute_t *compute, const ort_call_t *call, uint32_t k,
                                   const void **out) {
  const ort_value_t *value = NULL;
  EP_TRY(compute->api->KernelContext_GetInput(call, compute->lent[k], &value));
  if (!value)
    return ep_fail(compute->api, ORT_EP_FAIL, "Ductile: %s: a constant is not there",
                   compute->name);
  return compute->api->GetTensorData(value, out);
}

static ort_status_t *look(ep_compute_t *compute, const ort_call_t *call, ep_arena_t *arena) {
  ep_model_t *model = &compute->model;
  const void **data = EP_ARRAY(arena, const void *, model->n_lent + 1u);
  bool moved = !compute->function; // if making it anew has failed
  if (!data)
    return ep_no_memory(compute->api);
  for (uint32_t k = 0; k < model->n_lent; k++) {
    EP_TRY(find_constant(compute, call, k, &data[k]));
    moved |= data[k] != model->lent[k].data;
  }
  if (!moved)
    return NULL;
  ep_log(compute->api, compute->ep->logger, ORT_INFO,
         "Ductile: %s: constants have moved since it was compiled", compute->name);
  ep_seats_drop(compute);
  dt_function_release(compute->function);
  compute->function = NULL;
  for (uint32_t k = 0; k < model->n_lent; k++)
    model->lent[k].data = data[k];
  return ep_make_function(compute);
}

static ort_status_t *look_once(ep_compute_t *compute, const ort_call_t *call) {
  ort_status_t *status = NULL;
  if (atomic_load_explicit(&compute->looked, memory_order_acquire))
    return NULL;
  (void)pthread_mutex_lock(&compute->lock);
  if (!atomic_load_explicit(&compute->looked, memory_order_relaxed)) {
    ep_arena_t arena = {0};
    status = look(compute, call, &arena);
    ep_drop(&arena);
    if (!status)
      atomic_store_explicit(&compute->looked, true, memory_order_release);
  }
  (void)pthread_mutex_unlock(&compute->lock);
  return status;
}

// ---- Views ------------------------------------------------------------------------------------------
// One handle serves all calls of a seat.
static dt_status_t view(dt_tensor_t **tensor, dt_dtype_t dtype, size_t rank, const int64_t *sizes,
                        const void *data) {
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = dtype,
                           .rank = (uint32_t)rank,
                           .sizes = sizes,
                           .data = (void *)(uintptr_t)data};
  return *tensor ? dt_tensor_rebind(*tensor, &desc) : dt_tensor_create(&desc, tensor);
}

// The dims of a value; *out_shape is the caller's where there is one.
static ort_status_t *read_dims(const ort_api_t *api, const ort_value_t *value, int64_t *room,
                               const int64_t **out, size_t *out_rank) {
  ort_element_t element;
  if (api->GetTensorElementTypeAndShapeDataReference)
    return api->GetTensorElementTypeAndShapeDataReference(value, &element, out, out_rank);
  ort_shape_t *shape = NULL;
  EP_TRY(api->GetTensorTypeAndShape(value, &shape));
  ort_status_t *status = api->GetDimensionsCount(shape, out_rank);
  if (!status && *out_rank > 0 && *out_rank <= DT_MAX_RANK)
    status = api->GetDimensions(shape, room, *out_rank);
  api->ReleaseTensorTypeAndShapeInfo(shape);
  *out = room;
  return status;
}

static bool has_sizes(const dt_tensor_t *tensor, size_t rank, const int64_t *sizes) {
  return tensor && dt_tensor_rank(tensor) == rank &&
         (rank == 0 || memcmp(dt_tensor_sizes(tensor), sizes, rank * sizeof(*sizes)) == 0);
}

// Whether the input's elements are those of the last call; they are kept for the next one.
static bool has_numbers(const ep_seat_t *seat, uint32_t k) {
  const dt_tensor_t *tensor = seat->tensors[k];
  unsigned char *last = seat->numbers + (size_t)k * EP_NUMBER_BYTES;
  size_t bytes = dt_tensor_bytes(tensor);
  if (bytes == 0 || bytes > EP_NUMBER_BYTES)
    return bytes == 0;
  bool same = memcmp(last, dt_tensor_data(tensor), bytes) == 0;
  memcpy(last, dt_tensor_data(tensor), bytes);
  return same;
}

static ort_status_t *view_inputs(const ep_compute_t *compute, const ort_call_t *call,
                                 ep_seat_t *seat) {
  const ort_api_t *api = compute->api;
  for (uint32_t k = 0; k < compute->n_inputs; k++) {
    const ort_value_t *value = NULL;
    const void *data = NULL;
    const int64_t *dims = NULL;
    int64_t room[DT_MAX_RANK];
    size_t rank = 0;
    EP_TRY(api->KernelContext_GetInput(call, compute->inputs[k], &value));
    if (!value)
      return ep_fail(api, ORT_INVALID_ARGUMENT, "Ductile: %s: input %u is left out", compute->name,
                     k);
    EP_TRY(read_dims(api, value, room, &dims, &rank));
    if (rank > DT_MAX_RANK)
      return ep_fail(api, ORT_NOT_IMPLEMENTED, "Ductile: %s: input %u has %zu dims, at most %d",
                     compute->name, k, rank, DT_MAX_RANK);
    seat->knows_shapes &= has_sizes(seat->tensors[k], rank, dims);
    EP_TRY(api->GetTensorData(value, &data));
    EP_TRY(ep_status(api, view(&seat->tensors[k], compute->dtypes[k], rank, dims, data),
                     compute->name));
    if (compute->numbers[k])
      seat->knows_shapes &= has_numbers(seat, k);
  }
  return NULL;
}

// ---- Results ----------------------------------------------------------------------------------------
static bool overlaps(const dt_tensor_t *a, const dt_tensor_t *b) {
  uintptr_t x = (uintptr_t)dt_tensor_data(a), y = (uintptr_t)dt_tensor_data(b);
  return x < y + dt_tensor_bytes(b) && y < x + dt_tensor_bytes(a);
}

// Results that the user has bound may be inputs, too.
static bool is_input(const ep_compute_t *compute, const ep_seat_t *seat, const dt_tensor_t *out) {
  for (uint32_t k = 0; k < compute->n_inputs; k++)
    if (overlaps(seat->tensors[k], out))
      return true;
  return false;
}

static ort_status_t *take_output(const ort_api_t *api, ort_call_t *call, uint32_t k, uint32_t rank,
                                 const int64_t *sizes, void **out) {
  ort_value_t *value = NULL;
  EP_TRY(api->KernelContext_GetOutput(call, k, sizes, rank, &value));
  return api->GetTensorMutableData(value, out);
}

// Nothing is asked where the sizes of inputs, and their numbers, are those of the seat's last call.
static ort_status_t *find_shapes(const ep_compute_t *compute, ep_seat_t *seat) {
  if (seat->knows_shapes)
    return NULL;
  dt_status_t status =
      dt_function_output_sizes(seat->session, compute->function, seat->tensors, compute->n_inputs,
                               seat->shapes, sizeof(*seat->shapes), compute->n_outputs);
  seat->knows_shapes = !status;
  return ep_status(compute->api, status, NULL);
}

// Views of results; NULL in `outputs`: one that cannot be written in place.
static ort_status_t *view_outputs(const ep_compute_t *compute, ort_call_t *call, ep_seat_t *seat,
                                  dt_tensor_t **outputs) {
  const ort_api_t *api = compute->api;
  EP_TRY(find_shapes(compute, seat));
  for (uint32_t k = 0; k < compute->n_outputs; k++) {
    const dt_output_shape_t *shape = &seat->shapes[k];
    dt_tensor_t **own = &seat->tensors[compute->n_inputs + k];
    void *data = NULL;
    bool known = true;
    for (uint32_t i = 0; i < shape->rank; i++)
      known &= shape->sizes[i] >= 0;
    outputs[k] = NULL;
    if (!known)
      continue;
    EP_TRY(take_output(api, call, k, shape->rank, shape->sizes, &data));
    EP_TRY(ep_status(api, view(own, shape->dtype, shape->rank, shape->sizes, data), compute->name));
    if (!is_input(compute, seat, *own))
      outputs[k] = *own;
  }
  return NULL;
}

// Copies results that the call made in memory of its own.
static ort_status_t *copy_outputs(const ep_compute_t *compute, ort_call_t *call, ep_seat_t *seat,
                                  dt_tensor_t **outputs) {
  ort_status_t *status = NULL;
  for (uint32_t k = 0; k < compute->n_outputs; k++) {
    void *data = NULL;
    if (outputs[k] == seat->tensors[compute->n_inputs + k])
      continue;
    if (!status)
      status = take_output(compute->api, call, k, dt_tensor_rank(outputs[k]),
                           dt_tensor_sizes(outputs[k]), &data);
    if (!status && dt_tensor_bytes(outputs[k]) > 0)
      memcpy(data, dt_tensor_data(outputs[k]), dt_tensor_bytes(outputs[k]));
    dt_tensor_release(outputs[k]);
  }
  return status;
}

enum { FEW = 16 };

static ort_status_t *call_in(const ep_compute_t *compute, ort_call_t *call, ep_seat_t *seat) {
  dt_tensor_t *few[FEW];
  uint32_t n = compute->n_outputs;
  dt_tensor_t **outputs = n <= FEW ? few : (dt_tensor_t **)calloc(n, sizeof(dt_tensor_t *));
  if (!outputs)
    return ep_no_memory(compute->api);
  ort_status_t *status = view_inputs(compute, call, seat);
  if (!status)
    status = view_outputs(compute, call, seat, outputs);
  if (!status)
    status = ep_status(compute->api,
                       dt_call(seat->session, compute->function, seat->tensors, compute->n_inputs,
                               outputs, n, NULL),
                       NULL);
  if (!status)
    status = copy_outputs(compute, call, seat, outputs);
  if (outputs != few)
    free((void *)outputs);
  return status;
}

ort_status_t *ep_call(ort_compute_t *self, void *state, ort_call_t *call) {
  ep_compute_t *compute = (ep_compute_t *)self;
  ep_seat_t *seat = NULL;
  (void)state;
  const ort_call_t *around = current;
  current = call;
  ort_status_t *status = look_once(compute, call);
  if (!status)
    status = take_seat(compute, &seat);
  if (!status) {
    status = call_in(compute, call, seat);
    give_seat(compute, seat);
  }
  current = around;
  return status;
}

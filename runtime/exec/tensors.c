// SPDX-License-Identifier: Apache-2.0
// Tensors of sessions: made where the session runs, copied between there and the host, read.
#include "runtime/exec/call.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/session.h"

#include "runtime/base/status.h"

#include <string.h>

// ---- Making ---------------------------------------------------------------------------------------

// Memory of the place: of result `index` of `call`, or with NULL of any tensor.
static dt_status_t take_memory(dt_session_t *session, const dt_call_t *call, uint32_t index,
                               size_t bytes, dt_storage_t **out) {
  const dt_place_kind_t *kind = session->home->kind;
  return call && kind->result ? kind->result(call, index, bytes, out)
                              : kind->allocate(session->home, session, bytes, out);
}

// Without gaps, in the order that `info` has.
static dt_status_t make(dt_session_t *session, const dt_call_t *call, uint32_t index,
                        const dt_output_info_t *info, const int64_t *sizes, dt_tensor_t **out) {
  dt_layout_t layout;
  dt_storage_t *storage = NULL;
  int64_t strides[DT_MAX_RANK];
  bool ordered = info->order != DT_ORDER_ROW_MAJOR;
  const dt_allocator_t *from = dt__runtime_memory(session->runtime);
  *out = NULL;
  if (!session->home->kind->allocate && !ordered && !from)
    return dt_tensor_create_empty(info->dtype, info->rank, sizes, out);
  if (ordered)
    dt__order_strides(info->order, info->rank, sizes, strides);
  const int64_t *said = ordered ? strides : NULL;
  DT_TRY(dt__layout_set(&layout, info->dtype, info->rank, sizes, said));
  size_t bytes = (size_t)layout.high;
  DT_TRY(session->home->kind->allocate ? take_memory(session, call, index, bytes, &storage)
                                       : dt__storage_create_from(from, bytes, &storage));
  dt_status_t status =
      dt__tensor_create_over(storage, 0, info->dtype, info->rank, sizes, said, out);
  dt__storage_release(storage); // the tensor has its own share
  return status;
}

dt_status_t dt__place_tensor(dt_session_t *session, const dt_output_info_t *info,
                             const int64_t *sizes, dt_tensor_t **out) {
  return make(session, NULL, 0, info, sizes, out);
}

dt_status_t dt__place_result(const dt_call_t *call, uint32_t index, const dt_output_info_t *info,
                             const int64_t *sizes, dt_tensor_t **out) {
  return make(call->session, call, index, info, sizes, out);
}

// Where calls are not queued, tensors are made, copied and read without anything of the session's,
// so that they may be while it is in a call.
static dt_status_t begin(dt_session_t *session) {
  return session->home->kind->queues ? dt__session_begin(session) : NULL;
}

static void end(dt_session_t *session) {
  if (session->home->kind->queues)
    dt__session_end(session);
}

dt_status_t dt_tensor_create_on(dt_session_t *session, dt_dtype_t dtype, uint32_t rank,
                                const int64_t *sizes, dt_tensor_t **out) {
  if (!session || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_tensor_create_on: %s: NULL", session ? "out" : "session");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_tensor_create_on in a child after fork");
  dt_status_t status = begin(session);
  if (!status) {
    status =
        dt__place_tensor(session, &(dt_output_info_t){.dtype = dtype, .rank = rank}, sizes, out);
    end(session);
  }
  return dt__status_annotate(status, "dt_tensor_create_on");
}

// ---- Checks ---------------------------------------------------------------------------------------

// Whether the elements fill their memory, each once: contiguous with dims in some order.
static bool is_dense(const dt_tensor_t *tensor) {
  bool taken[DT_MAX_RANK] = {false};
  int64_t stride = 1;
  for (uint32_t n = 0; n < tensor->rank; n++) {
    uint32_t next = tensor->rank;
    for (uint32_t d = 0; d < tensor->rank; d++)
      if (!taken[d] && tensor->sizes[d] > 1 && tensor->strides[d] == stride)
        next = d;
    if (next == tensor->rank)
      break;
    taken[next] = true;
    stride *= tensor->sizes[next];
  }
  return stride == tensor->count;
}

static dt_status_t check_place(const dt_session_t *session, const dt_tensor_t *tensor,
                               const char *what) {
  char here[32], there[32];
  if (tensor->device == DT_CPU || tensor->device == session->place)
    return NULL;
  return DT_FAIL(DT_E_ARGUMENT,
                 "%s: on %s, and the session runs on %s; copy in a session on the tensor's device",
                 what, dt__place_name(tensor->device, there, sizeof(there)),
                 dt__place_name(session->place, here, sizeof(here)));
}

static dt_status_t check_copy(const dt_session_t *session, const dt_tensor_t *from,
                              const dt_tensor_t *to) {
  DT_TRY(dt__status_annotate(dt__tensor_check_live(from), "from"));
  DT_TRY(dt__status_annotate(dt__tensor_check_live(to), "to"));
  if (to->read_only)
    return DT_FAIL(DT_E_ARGUMENT, "to: read-only memory (DT_DLPACK_READ_ONLY)");
  if (from->dtype != to->dtype)
    return DT_FAIL(DT_E_DTYPE, "from %s to %s; expected one dtype", dt_dtype_name(from->dtype),
                   dt_dtype_name(to->dtype));
  if (from->rank != to->rank)
    return DT_FAIL(DT_E_SHAPE, "from rank %u to rank %u; expected one rank", from->rank, to->rank);
  for (uint32_t d = 0; d < from->rank; d++) {
    if (from->sizes[d] != to->sizes[d])
      return DT_FAIL(DT_E_SHAPE, "dim %u: from size %lld to size %lld; expected one size", d,
                     (long long)from->sizes[d], (long long)to->sizes[d]);
  }
  DT_TRY(check_place(session, from, "from"));
  DT_TRY(check_place(session, to, "to"));
  bool equal = memcmp(from->strides, to->strides, sizeof(from->strides)) == 0;
  if (from->count && !(from->contiguous && to->contiguous) && !(equal && is_dense(from)))
    return DT_FAIL(DT_E_UNSUPPORTED, "strides with gaps or of other orders; expected both tensors "
                                     "contiguous, or without gaps and of equal strides");
  return NULL;
}

// ---- Copying --------------------------------------------------------------------------------------

static dt_status_t copy_bytes(dt_session_t *session, dt_device_t from_place, void *from,
                              dt_device_t to_place, void *to, size_t bytes) {
  if (bytes == 0)
    return NULL;
  if (from_place == DT_CPU && to_place == DT_CPU) {
    memmove(to, from, bytes);
    return NULL;
  }
  return session->home->kind->copy(session, from_place, from, to_place, to, bytes);
}

dt_status_t dt__session_copy(dt_session_t *session, const dt_tensor_t *from, dt_tensor_t *to) {
  DT_TRY(check_copy(session, from, to));
  return copy_bytes(session, from->device, from->data, to->device, to->data,
                    dt__tensor_bytes(from));
}

dt_status_t dt_tensor_copy(dt_session_t *session, const dt_tensor_t *from, dt_tensor_t *to) {
  if (!session || !from || !to)
    return DT_FAIL(DT_E_ARGUMENT, "dt_tensor_copy: %s: NULL",
                   !session ? "session"
                   : !from  ? "from"
                            : "to");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_tensor_copy in a child after fork");
  dt_status_t status = begin(session);
  if (!status) {
    status = dt__session_copy(session, from, to);
    end(session);
  }
  return dt__status_annotate(status, "dt_tensor_copy");
}

// Elements that lie in the tensor's order, to row-major order.
static void put_in_row_major(const dt_tensor_t *tensor, const char *from, char *to) {
  size_t item = dt_dtype_size(tensor->dtype);
  int64_t at[DT_MAX_RANK] = {0}, offset = 0;
  for (int64_t i = 0; i < tensor->count; i++) {
    memcpy(to + (size_t)i * item, from + offset * (int64_t)item, item);
    for (uint32_t d = tensor->rank; d-- > 0;) {
      offset += tensor->strides[d];
      if (++at[d] < tensor->sizes[d])
        break;
      offset -= at[d] * tensor->strides[d];
      at[d] = 0;
    }
  }
}

// Of a tensor in another order: by way of the heap.
static dt_status_t read_ordered(dt_session_t *session, const dt_tensor_t *tensor, void *to,
                                size_t bytes) {
  char *lying = dt__alloc(bytes + 1);
  if (!lying)
    return DT_NO_MEMORY();
  dt_status_t status = copy_bytes(session, tensor->device, tensor->data, DT_CPU, lying, bytes);
  if (!status)
    status = dt__session_settle(session);
  if (!status)
    put_in_row_major(tensor, lying, to);
  dt__free(lying);
  return status;
}

static dt_status_t read_tensor(dt_session_t *session, const dt_tensor_t *tensor, void *to,
                               size_t bytes) {
  DT_TRY(dt__tensor_check_live(tensor));
  if (!tensor->contiguous && tensor->order == DT_ORDER_APART)
    return DT_FAIL(DT_E_SHAPE, "a tensor with gaps; expected contiguous, or without gaps");
  if (bytes != dt__tensor_bytes(tensor))
    return DT_FAIL(DT_E_ARGUMENT, "bytes: %zu; expected %zu, those of all elements", bytes,
                   dt__tensor_bytes(tensor));
  if (bytes && !to)
    return DT_FAIL(DT_E_ARGUMENT, "to: NULL; expected room for %zu bytes", bytes);
  DT_TRY(check_place(session, tensor, "tensor"));
  if (session->home->kind->may_wait)
    DT_TRY(session->home->kind->may_wait(session));
  if (!tensor->contiguous)
    return read_ordered(session, tensor, to, bytes);
  DT_TRY(copy_bytes(session, tensor->device, tensor->data, DT_CPU, to, bytes));
  return dt__session_settle(session);
}

dt_status_t dt_tensor_read(dt_session_t *session, const dt_tensor_t *tensor, void *to,
                           size_t bytes) {
  if (!session || !tensor)
    return DT_FAIL(DT_E_ARGUMENT, "dt_tensor_read: %s: NULL", session ? "tensor" : "session");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_tensor_read in a child after fork");
  dt_status_t status = begin(session);
  if (!status) {
    status = read_tensor(session, tensor, to, bytes);
    end(session);
  }
  return dt__status_annotate(status, "dt_tensor_read");
}

// ---- Pinned memory --------------------------------------------------------------------------------

dt_status_t dt__place_host_alloc(dt_session_t *session, size_t bytes, void **out) {
  if (session->home->kind->host_alloc)
    return session->home->kind->host_alloc(session, bytes, out);
  *out = dt__alloc_aligned(bytes, DT_STORAGE_ALIGNMENT);
  return *out ? NULL : DT_NO_MEMORY();
}

void dt__place_host_free(dt_session_t *session, void *ptr) {
  if (session->home->kind->host_free)
    session->home->kind->host_free(session, ptr);
  else
    dt__free(ptr);
}

dt_status_t dt_host_alloc(dt_session_t *session, size_t bytes, void **out) {
  if (!session || !out || bytes == 0)
    return DT_FAIL(DT_E_ARGUMENT, "dt_host_alloc: %s",
                   !session ? "session: NULL"
                   : !out   ? "out: NULL"
                            : "bytes: 0; expected at least 1");
  *out = NULL;
  dt_status_t status = begin(session);
  if (!status) {
    status = dt__place_host_alloc(session, bytes, out);
    end(session);
  }
  return dt__status_annotate(status, "dt_host_alloc");
}

void dt_host_free(dt_session_t *session, void *ptr) {
  if (session && ptr)
    dt__place_host_free(session, ptr);
}

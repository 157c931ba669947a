// SPDX-License-Identifier: Apache-2.0
#include "examples/minilm/place.h"

#include "ductile/device.h"

static dt_status_t place(dt_session_t *session, const dt_tensor_t *from, dt_tensor_t **out) {
  dt_status_t status = dt_tensor_create_on(session, dt_tensor_dtype(from), dt_tensor_rank(from),
                                           dt_tensor_sizes(from), out);
  return status ? status : dt_tensor_copy(session, from, *out);
}

dt_status_t batch_place(dt_session_t *session, const batch_t *batch, batch_t *out) {
  *out = (batch_t){.count = batch->count, .length = batch->length};
  dt_status_t status = place(session, batch->ids, &out->ids);
  if (!status)
    status = place(session, batch->mask, &out->mask);
  if (status)
    batch_free(out);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// Steps of a session (ductile/graphs.h): generations of results, copies to keep, trimming,
// freezing. A place that has nothing to do for them does nothing.
#include "ductile/graphs.h"

#include "runtime/base/status.h"
#include "runtime/exec/runtime.h"
#include "runtime/exec/session.h"

dt_status_t dt__check_call_mode(dt_call_mode_t mode) {
  if (mode != DT_CALL_DEFAULT && mode != DT_CALL_PLAIN && mode != DT_CALL_REDUCE_OVERHEAD)
    return DT_FAIL(DT_E_ARGUMENT, "call mode: %d is none", (int)mode);
  return NULL;
}

// Begins a use of the session.
static dt_status_t begin(dt_session_t *session, const char *what) {
  if (!session)
    return DT_FAIL(DT_E_ARGUMENT, "%s: session: NULL", what);
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "%s in a child after fork", what);
  return dt__status_annotate(dt__session_begin(session), "%s", what);
}

dt_status_t dt_step_begin(dt_session_t *session) {
  DT_TRY(begin(session, "dt_step_begin"));
  if (session->home->kind->step)
    session->home->kind->step(session);
  dt__session_end(session);
  return NULL;
}

dt_status_t dt_session_freeze(dt_session_t *session, bool frozen) {
  DT_TRY(begin(session, "dt_session_freeze"));
  if (session->home->kind->freeze)
    session->home->kind->freeze(session, frozen);
  dt__session_end(session);
  return NULL;
}

dt_status_t dt_session_trim(dt_session_t *session) {
  DT_TRY(begin(session, "dt_session_trim"));
  const dt_place_kind_t *kind = session->home->kind;
  dt_status_t status = kind->trim ? kind->trim(session) : NULL;
  if (!kind->trim)
    kind->give(session);
  dt__session_end(session);
  dt__runtime_collect(session->runtime);
  return status;
}

// ---- Copies ---------------------------------------------------------------------------------------

static dt_status_t keep(dt_session_t *session, const dt_tensor_t *tensor, dt_tensor_t **out) {
  DT_TRY(dt__tensor_check_live(tensor));
  if (tensor->order == DT_ORDER_APART)
    return DT_FAIL(DT_E_UNSUPPORTED, "a tensor with gaps; expected contiguous, or without gaps");
  const dt_output_info_t like = {
      .dtype = tensor->dtype, .rank = tensor->rank, .order = tensor->order};
  DT_TRY(dt__place_tensor(session, &like, tensor->sizes, out));
  dt_status_t status = dt__session_copy(session, tensor, *out);
  if (status) {
    dt_tensor_release(*out);
    *out = NULL;
  }
  return status;
}

dt_status_t dt_tensor_keep(dt_session_t *session, const dt_tensor_t *tensor, dt_tensor_t **out) {
  if (out)
    *out = NULL;
  if (!tensor || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_tensor_keep: %s: NULL", tensor ? "out" : "tensor");
  DT_TRY(begin(session, "dt_tensor_keep"));
  dt_status_t status = keep(session, tensor, out);
  dt__session_end(session);
  return dt__status_annotate(status, "dt_tensor_keep");
}

// SPDX-License-Identifier: Apache-2.0
// Events: the order of work between sessions. Their place implements them. If a place implements
// nothing, all its recorded work counts as ended: a session with a queue is waited for.
#include "runtime/exec/session.h"

#include "runtime/base/process.h"
#include "runtime/base/status.h"

static dt_status_t create_plain(dt_event_t **out) {
  *out = dt__calloc(1, sizeof(**out));
  return *out ? NULL : DT_NO_MEMORY();
}

dt_status_t dt_event_create(dt_session_t *session, dt_event_t **out) {
  if (!session || !out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_event_create: %s: NULL", session ? "out" : "session");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_event_create in a child after fork");
  const dt_place_kind_t *kind = session->home->kind;
  dt_status_t status = kind->event_create ? kind->event_create(session, out) : create_plain(out);
  if (!status)
    (*out)->kind = kind;
  return dt__status_annotate(status, "dt_event_create");
}

static dt_status_t use(dt_session_t *session, dt_event_t *event,
                       dt_status_t (*run)(dt_session_t *session, dt_event_t *event)) {
  if (!session || !event)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", session ? "event" : "session");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  DT_TRY(dt__session_begin(session));
  dt_status_t status = run(session, event);
  dt__session_end(session);
  return status;
}

static dt_status_t record(dt_session_t *session, dt_event_t *event) {
  if (session->home->kind != event->kind)
    return DT_FAIL(DT_E_ARGUMENT, "event: made on another device than the session's");
  return event->kind->event_record ? event->kind->event_record(session, event)
                                   : dt__session_settle(session);
}

dt_status_t dt_event_record(dt_session_t *session, dt_event_t *event) {
  return dt__status_annotate(use(session, event, record), "dt_event_record");
}

// A session of another kind of place cannot be told to wait: the host does.
static dt_status_t wait(dt_session_t *session, dt_event_t *event) {
  if (session->home->kind == event->kind)
    return event->kind->event_wait ? event->kind->event_wait(session, event) : NULL;
  return event->kind->event_settle ? event->kind->event_settle(event) : NULL;
}

dt_status_t dt_event_wait(dt_session_t *session, dt_event_t *event) {
  return dt__status_annotate(use(session, event, wait), "dt_event_wait");
}

dt_status_t dt_event_query(dt_event_t *event, bool *out_done) {
  if (!event || !out_done)
    return DT_FAIL(DT_E_ARGUMENT, "dt_event_query: %s: NULL", event ? "out_done" : "event");
  *out_done = !event->kind->event_query;
  if (!event->kind->event_query)
    return NULL;
  return dt__status_annotate(event->kind->event_query(event, out_done), "dt_event_query");
}

void dt_event_destroy(dt_event_t *event) {
  if (event && event->kind->event_destroy)
    event->kind->event_destroy(event);
  else
    dt__free(event);
}

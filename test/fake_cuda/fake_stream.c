// SPDX-License-Identifier: Apache-2.0
// Streams and events of the fake driver. Work is done as late as the host's waits allow, one piece
// at a time from a stream chosen by the seed. Order is kept as vector clocks (Fidge, Mattern):
// entry s of a clock counts the pieces of stream s that came before; an access is kept with its
// stream and number, and a later one that conflicts must have that number in its clock. What an
// interpreted kernel touches is known only once it has run: it is then compared both with what it
// had to come after and with what was queued since.
#include "test/fake_cuda/fake_graph.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_SYM(name, symbol, params) FAKE_API dt_cu_result_t symbol params;
#include "backend_cuda/driver/driver_syms.def"

#define MAX_EVENTS 16384 // a driver has no limit: more than profiles of some sessions hold

typedef struct clock_vector_t {
  uint64_t n[FAKE_STREAMS];
} clock_vector_t;

struct fake_order_t {
  uint32_t uses; // by the work and by records
  uint32_t stream;
  uint64_t number;
  clock_vector_t clock;
};

static struct CUstream_st {
  bool live;
  clock_vector_t clock;
  uint64_t queued, done;
  fake_work_t *first, *last;
  char what[64]; // was queued last, by which thread
  pthread_t by;
  bool waits; // it is a kernel that waits for what was before it
} streams[FAKE_STREAMS];

static struct CUevent_st {
  bool live, recorded, timing;
  uint64_t use, passed_ns; // the last record; when that was done
  uint32_t stream;         // where it was recorded, after so many pieces
  uint64_t number;
  clock_vector_t clock;
} events[MAX_EVENTS];

typedef struct record_t {
  dt_cu_ptr_t begin, end;
  bool write;
  fake_order_t *order;
  fake_touched_t parts; // of [begin, end); none: all of it
} record_t;
static record_t records[FAKE_RECORDS];
static uint32_t n_records;
static uint32_t n_deferred; // work queued whose accesses are not known yet
static clock_vector_t host; // what the host has waited for
static uint64_t now_ns;     // of all devices
static uint64_t event_uses;

static bool do_one(void);

static void join(clock_vector_t *into, const clock_vector_t *from) {
  for (uint32_t k = 0; k < FAKE_STREAMS; k++)
    if (from->n[k] > into->n[k])
      into->n[k] = from->n[k];
}

// ---- Orders and records -----------------------------------------------------------------------------

static void drop_order(fake_order_t *order) {
  if (order && --order->uses == 0)
    free(order);
}

static void drop_record(record_t *record) {
  drop_order(record->order);
  free(record->parts.at);
}

static void free_work(fake_work_t *work) {
  fake_replay_destroy(work->replay);
  drop_order(work->order);
  free(work->touched[0].at), free(work->touched[1].at), free(work->early.at);
  free(work);
}

static void add_record(record_t record) {
  if (n_records == FAKE_RECORDS) {
    fake_violation("more than %d accesses that the host has not waited for", FAKE_RECORDS);
    free(record.parts.at);
    return;
  }
  record.order->uses++;
  records[n_records++] = record;
}

void fake_stream_reset(void) {
  for (uint32_t k = 0; k < FAKE_STREAMS; k++) {
    while (streams[k].first) {
      fake_work_t *work = streams[k].first;
      streams[k].first = work->next;
      free_work(work);
    }
  }
  memset(streams, 0, sizeof(streams));
  memset(events, 0, sizeof(events));
  memset(&host, 0, sizeof(host));
  now_ns = 0;
  for (uint32_t k = 0; k < n_records; k++)
    drop_record(&records[k]);
  n_records = n_deferred = 0;
  fake_order_reset();
  streams[0].live = true;
}

uint32_t fake_stream_held(void) {
  uint32_t held = 0;
  for (uint32_t k = 1; k < FAKE_STREAMS; k++)
    held += streams[k].live;
  for (uint32_t k = 0; k < MAX_EVENTS; k++)
    held += events[k].live;
  return held;
}

// The default stream is NULL.
static uint32_t index_of(dt_cu_stream_t stream) {
  if (!stream)
    return streams[0].live ? 0 : FAKE_STREAMS;
  for (uint32_t k = 1; k < FAKE_STREAMS; k++)
    if (&streams[k] == stream && streams[k].live)
      return k;
  return FAKE_STREAMS;
}

bool fake_is_stream(dt_cu_stream_t stream) { return index_of(stream) < FAKE_STREAMS; }

static bool is_event(dt_cu_event_t event) {
  return event >= events && event < events + MAX_EVENTS && event->live;
}

// ---- Accesses -------------------------------------------------------------------------------------

// What the host has waited for is before all that comes, but not before what is queued already.
static void forget_old(void) {
  if (n_deferred)
    return;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < n_records; k++) {
    if (records[k].order->number > host.n[records[k].order->stream])
      records[kept++] = records[k];
    else
      drop_record(&records[k]);
  }
  n_records = kept;
}

// The first of ordered ranges that ends behind `begin`; n: none.
static uint32_t first_behind(const fake_touched_t *parts, dt_cu_ptr_t begin) {
  uint32_t low = 0, high = parts->n;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (parts->at[middle].end > begin)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// A place in [begin, end) that the record touches; 0: none.
static dt_cu_ptr_t meets(const record_t *record, dt_cu_ptr_t begin, dt_cu_ptr_t end) {
  if (record->begin >= end || begin >= record->end)
    return 0;
  if (record->parts.n == 0)
    return begin > record->begin ? begin : record->begin;
  uint32_t k = first_behind(&record->parts, begin);
  if (k == record->parts.n || record->parts.at[k].begin >= end)
    return 0;
  return begin > record->parts.at[k].begin ? begin : record->parts.at[k].begin;
}

// Within a stream fake_order.c looks at it.
static bool is_ordered(const fake_order_t *a, const fake_order_t *b) {
  return a->stream == b->stream || a->number <= b->clock.n[a->stream] ||
         b->number <= a->clock.n[b->stream];
}

static void check_access(const fake_access_t *access, const fake_order_t *order, const char *what) {
  dt_cu_ptr_t end = access->begin + access->bytes;
  for (uint32_t k = 0; k < n_records; k++) {
    const record_t *old = &records[k];
    if (!(old->write || access->write) || is_ordered(old->order, order))
      continue;
    dt_cu_ptr_t at = meets(old, access->begin, end);
    if (at)
      fake_violation("%s: %s of %zu bytes at %llx is not ordered after a %s on stream %u", what,
                     access->write ? "write" : "read", access->bytes, (unsigned long long)at,
                     old->write ? "write" : "read", old->order->stream);
  }
}

bool fake_range_idle(dt_cu_ptr_t begin, size_t bytes) {
  for (uint32_t k = 0; k < n_records; k++)
    if (meets(&records[k], begin, begin + bytes) &&
        records[k].order->number > host.n[records[k].order->stream])
      return false;
  return true;
}

static fake_order_t *new_order(uint32_t s) {
  struct CUstream_st *stream = &streams[s];
  join(&stream->clock, &host);
  fake_order_t *order = malloc(sizeof(*order));
  if (!order)
    return NULL;
  stream->clock.n[s] = ++stream->queued;
  *order = (fake_order_t){.uses = 1, .stream = s, .number = stream->queued, .clock = stream->clock};
  return order;
}

bool fake_add_bytes(fake_touched_t *list, dt_cu_ptr_t begin, dt_cu_ptr_t end) {
  fake_bytes_t *at = realloc(list->at, (list->n + 1) * sizeof(*at));
  if (!at)
    return false;
  list->at = at;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < list->n; k++) {
    if (at[k].end < begin || end < at[k].begin) {
      at[kept++] = at[k];
      continue;
    }
    begin = at[k].begin < begin ? at[k].begin : begin;
    end = at[k].end > end ? at[k].end : end;
  }
  uint32_t place = kept;
  for (; place > 0 && at[place - 1].begin > begin; place--)
    at[place] = at[place - 1];
  at[place] = (fake_bytes_t){begin, end};
  list->n = kept + 1;
  return true;
}

static void note_last(struct CUstream_st *stream, const char *what) {
  (void)snprintf(stream->what, sizeof(stream->what), "%s", what);
  stream->by = pthread_self();
  stream->waits = false;
}

void fake_may_be_early(dt_cu_stream_t handle, const char *name) {
  const struct CUstream_st *stream = &streams[index_of(handle)];
  bool ours = stream->queued > 0 && pthread_equal(stream->by, pthread_self());
  if (stream->queued == 0 || (ours && !stream->waits))
    fake_violation("%s: launched early after %s", name, stream->queued ? stream->what : "nothing");
}

void fake_last_waits(dt_cu_stream_t handle, fake_work_t *work, bool waits) {
  streams[index_of(handle)].waits = work->waits = waits;
}

fake_work_t *fake_queue(dt_cu_stream_t handle, const fake_access_t *accesses, uint32_t n,
                        size_t extra, const char *what) {
  uint32_t s = index_of(handle);
  if (s == FAKE_STREAMS)
    return NULL;
  if (n_records + n + 2 > FAKE_RECORDS) {
    while (n_deferred && do_one())
      continue;
    forget_old();
  }
  fake_work_t *work = calloc(1, sizeof(*work) + extra);
  fake_order_t *order = work ? new_order(s) : NULL;
  if (!order) {
    free(work);
    return NULL;
  }
  work->order = order;
  for (uint32_t k = 0; k < n; k++) {
    if (accesses[k].bytes == 0)
      continue;
    check_access(&accesses[k], order, what);
    (void)fake_use(accesses[k].begin, accesses[k].bytes, what);
  }
  for (uint32_t k = 0; k < n; k++)
    add_record((record_t){.begin = accesses[k].begin,
                          .end = accesses[k].begin + accesses[k].bytes,
                          .write = accesses[k].write,
                          .order = order});
  for (uint32_t k = 0; k < n; k++) {
    fake_touched_t *list = &work->touched[accesses[k].write];
    if (accesses[k].bytes &&
        !fake_add_bytes(list, accesses[k].begin, accesses[k].begin + accesses[k].bytes))
      abort();
  }
  struct CUstream_st *stream = &streams[s];
  (void)snprintf(work->what, sizeof(work->what), "%s", what);
  note_last(stream, what);
  if (stream->last)
    stream->last->next = work;
  else
    stream->first = work;
  stream->last = work;
  return work;
}

// ---- Deferred accesses ------------------------------------------------------------------------------

void fake_defer(fake_work_t *work, void (*run)(fake_work_t *work)) {
  work->run = run;
  work->deferred = true;
  n_deferred++;
}

void fake_check_touched(const fake_work_t *work, const char *what, const fake_touched_t *list,
                        bool write) {
  for (uint32_t k = 0; k < n_records; k++) {
    const record_t *old = &records[k];
    if (!(old->write || write) || is_ordered(old->order, work->order))
      continue;
    dt_cu_ptr_t at = 0;
    for (uint32_t p = first_behind(list, old->begin); p < list->n && !at; p++) {
      if (list->at[p].begin >= old->end)
        break;
      at = meets(old, list->at[p].begin, list->at[p].end);
    }
    if (at)
      fake_violation("%s: a %s at %llx is not ordered with a %s on stream %u", what,
                     write ? "write" : "read", (unsigned long long)at,
                     old->write ? "write" : "read", old->order->stream);
  }
}

void fake_touched(fake_work_t *work, fake_touched_t list, bool write) {
  if (list.n == 0) {
    free(list.at);
    return;
  }
  fake_touched_t *own = &work->touched[write];
  free(own->at);
  own->at = malloc(list.n * sizeof(own->at[0]));
  if (!own->at)
    abort();
  memcpy(own->at, list.at, list.n * sizeof(own->at[0]));
  own->n = list.n;
  add_record((record_t){.begin = list.at[0].begin,
                        .end = list.at[list.n - 1].end,
                        .write = write,
                        .order = work->order,
                        .parts = list});
}

// ---- Work that waits for other work -----------------------------------------------------------------

void fake_come_after(dt_cu_stream_t stream, const fake_order_t *order) {
  join(&streams[index_of(stream)].clock, &order->clock);
}

void fake_wait_for(fake_work_t *work, const fake_order_t *order) {
  work->waits_stream = order->stream;
  work->waits_for = order->number;
}

fake_order_t *fake_retain_order(fake_order_t *order) {
  order->uses++;
  return order;
}

void fake_release_order(fake_order_t *order) { drop_order(order); }

bool fake_is_waited_for(const fake_order_t *order) {
  return order->number <= host.n[order->stream];
}

// ---- Doing work -----------------------------------------------------------------------------------

static bool is_ready(const struct CUstream_st *stream) {
  const fake_work_t *work = stream->first;
  return work && (!work->waits_for || streams[work->waits_stream].done >= work->waits_for);
}

// How long the piece took; `nodes`: of graphs that were run.
static uint64_t time_of(const fake_work_t *work, uint64_t nodes) {
  if (work->replay)
    return nodes * FAKE_KERNEL_NS;
  return work->event ? FAKE_EVENT_NS : work->entry || work->kernel ? FAKE_KERNEL_NS : work->bytes;
}

static void pass(const fake_work_t *work, uint64_t nodes) {
  dt_cu_event_t event = work->event;
  if (event && event->live && event->use == work->event_use)
    event->passed_ns = now_ns;
  now_ns += time_of(work, nodes);
}

// One piece of some stream that can go on. False: nothing is left.
static bool do_one(void) {
  uint32_t ready[FAKE_STREAMS], n = 0;
  for (uint32_t k = 0; k < FAKE_STREAMS; k++)
    if (is_ready(&streams[k]))
      ready[n++] = k;
  if (n == 0)
    return false;
  struct CUstream_st *stream = &streams[ready[fake_random() % n]];
  fake_work_t *work = stream->first;
  stream->first = work->next;
  if (!stream->first)
    stream->last = NULL;
  uint64_t nodes = fake_graph_counts.nodes_run;
  if (work->run)
    work->run(work);
  pass(work, fake_graph_counts.nodes_run - nodes);
  n_deferred -= work->deferred;
  fake_order_done((uint32_t)(stream - streams), work);
  stream->done++;
  free_work(work);
  return true;
}

static void finish(uint32_t s, uint64_t number) {
  while (streams[s].done < number && do_one())
    continue;
}

bool fake_is_queued(const ptx_module_t *ptx, uint64_t module) {
  for (uint32_t k = 0; k < FAKE_STREAMS; k++)
    for (const fake_work_t *work = streams[k].first; work; work = work->next)
      if (work->module == ptx || (work->replay && fake_replay_uses(work->replay, module)))
        return true;
  return false;
}

void fake_drain(void) {
  while (do_one())
    continue;
  for (uint32_t k = 0; k < FAKE_STREAMS; k++)
    join(&host, &streams[k].clock);
  forget_old();
}

// ---- Streams --------------------------------------------------------------------------------------

dt_cu_result_t cuStreamCreate(dt_cu_stream_t *out, uint32_t flags) {
  FAKE_ENTER(stream_create, FAKE_IN_CONTEXT);
  (void)flags;
  for (uint32_t k = 1; k < FAKE_STREAMS; k++) {
    if (streams[k].live)
      continue;
    streams[k].live = true; // its numbers go on from the stream that was here before
    *out = &streams[k];
    return fake_leave(DT_CU_SUCCESS);
  }
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

dt_cu_result_t cuStreamDestroy_v2(dt_cu_stream_t stream) {
  FAKE_ENTER(stream_destroy, FAKE_IN_CONTEXT);
  uint32_t s = index_of(stream);
  if (s == 0 || s == FAKE_STREAMS) {
    fake_violation("cuStreamDestroy: no such stream");
    return fake_leave(400);
  }
  finish(s, streams[s].queued); // the driver lets its work end
  streams[s].live = false;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuStreamSynchronize(dt_cu_stream_t stream) {
  FAKE_ENTER(stream_synchronize, FAKE_IN_CONTEXT);
  uint32_t s = index_of(stream);
  if (s == FAKE_STREAMS)
    return fake_leave(400);
  finish(s, streams[s].queued);
  join(&host, &streams[s].clock);
  forget_old();
  return fake_leave(DT_CU_SUCCESS);
}

// A question makes some progress, so that whoever polls comes to an end.
dt_cu_result_t cuStreamQuery(dt_cu_stream_t stream) {
  FAKE_ENTER(stream_query, FAKE_IN_CONTEXT);
  uint32_t s = index_of(stream);
  if (s == FAKE_STREAMS)
    return fake_leave(400);
  if (streams[s].done < streams[s].queued) {
    (void)do_one();
    return fake_leave(DT_CU_NOT_READY);
  }
  join(&host, &streams[s].clock);
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuStreamWaitEvent(dt_cu_stream_t stream, dt_cu_event_t event, uint32_t flags) {
  FAKE_ENTER(stream_wait, FAKE_IN_CONTEXT);
  if (flags || !fake_is_stream(stream) || !is_event(event))
    return fake_leave(400);
  if (!event->recorded)
    return fake_leave(DT_CU_SUCCESS);
  join(&streams[index_of(stream)].clock, &event->clock);
  fake_work_t *work = fake_queue(stream, NULL, 0, 0, "cuStreamWaitEvent");
  if (!work)
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  work->waits_stream = event->stream;
  work->waits_for = event->number;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuStreamIsCapturing(dt_cu_stream_t stream, int *out) {
  FAKE_ENTER(stream_capturing, FAKE_IN_CONTEXT);
  *out = 0;
  return fake_leave(fake_is_stream(stream) ? DT_CU_SUCCESS : 400);
}

// ---- Events ---------------------------------------------------------------------------------------

dt_cu_result_t cuEventCreate(dt_cu_event_t *out, uint32_t flags) {
  FAKE_ENTER(event_create, FAKE_IN_CONTEXT);
  for (uint32_t k = 0; k < MAX_EVENTS; k++) {
    if (events[k].live)
      continue;
    memset(&events[k], 0, sizeof(events[k]));
    events[k].live = true;
    events[k].timing = !(flags & DT_CU_EVENT_NO_TIMING);
    *out = &events[k];
    return fake_leave(DT_CU_SUCCESS);
  }
  return fake_leave(DT_CU_OUT_OF_MEMORY);
}

dt_cu_result_t cuEventDestroy_v2(dt_cu_event_t event) {
  FAKE_ENTER(event_destroy, FAKE_IN_CONTEXT);
  if (!is_event(event)) {
    fake_violation("cuEventDestroy: no such event");
    return fake_leave(400);
  }
  event->live = false;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuEventRecord(dt_cu_event_t event, dt_cu_stream_t stream) {
  FAKE_ENTER(event_record, FAKE_IN_CONTEXT);
  if (!is_event(event) || !fake_is_stream(stream))
    return fake_leave(400);
  fake_work_t *work = fake_queue(stream, NULL, 0, 0, "cuEventRecord");
  if (!work)
    return fake_leave(DT_CU_OUT_OF_MEMORY);
  work->event = event;
  work->event_use = event->use = ++event_uses;
  event->recorded = true;
  event->stream = index_of(stream);
  event->number = streams[event->stream].queued;
  event->clock = streams[event->stream].clock;
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuEventQuery(dt_cu_event_t event) {
  FAKE_ENTER(event_query, FAKE_IN_CONTEXT);
  if (!is_event(event))
    return fake_leave(400);
  if (event->recorded && streams[event->stream].done < event->number) {
    (void)do_one();
    return fake_leave(DT_CU_NOT_READY);
  }
  join(&host, &event->clock);
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuEventSynchronize(dt_cu_event_t event) {
  FAKE_ENTER(event_synchronize, FAKE_IN_CONTEXT);
  if (!is_event(event))
    return fake_leave(400);
  if (event->recorded)
    finish(event->stream, event->number);
  join(&host, &event->clock);
  forget_old();
  return fake_leave(DT_CU_SUCCESS);
}

dt_cu_result_t cuEventElapsedTime(float *out_ms, dt_cu_event_t begin, dt_cu_event_t end) {
  FAKE_ENTER(event_elapsed, FAKE_IN_CONTEXT);
  if (!is_event(begin) || !is_event(end) || !begin->recorded || !end->recorded || !begin->timing ||
      !end->timing)
    return fake_leave(400);
  if (streams[begin->stream].done < begin->number || streams[end->stream].done < end->number)
    return fake_leave(DT_CU_NOT_READY);
  *out_ms = (float)(((double)end->passed_ns - (double)begin->passed_ns) * 1e-6);
  return fake_leave(DT_CU_SUCCESS);
}

// ---- Copies ---------------------------------------------------------------------------------------

static void run_copy(fake_work_t *work) { memcpy(work->to, work->from, work->bytes); }

static void run_fill(fake_work_t *work) { memset(work->to, work->value, work->bytes); }

// Host memory is named in records by the address that the device would see it at.
static fake_access_t host_access(const void *ptr, size_t bytes, bool write) {
  return (fake_access_t){
      .begin = (dt_cu_ptr_t)(uintptr_t)ptr + FAKE_OFFSET, .bytes = bytes, .write = write};
}

static dt_cu_result_t copy(dt_cu_stream_t stream, fake_access_t to, fake_access_t from,
                           void *to_host, const void *from_host, const char *what) {
  if (!fake_is_stream(stream))
    return 400;
  if (to.bytes == 0)
    return DT_CU_SUCCESS;
  void *into = to_host ? to_host : fake_use(to.begin, to.bytes, what);
  const void *out_of = from_host ? from_host : fake_use(from.begin, from.bytes, what);
  if (!into || !out_of)
    return DT_CU_INVALID_VALUE;
  // Pageable host memory is no block of ours and is copied before the call returns; pinned memory
  // is read and written when its turn comes.
  fake_access_t accesses[2];
  uint32_t n = 0;
  bool now = false;
  if (!to_host || fake_cuda_host(to.begin))
    accesses[n++] = to;
  else
    now = true;
  if (!from_host || fake_cuda_host(from.begin))
    accesses[n++] = from;
  else
    now = true;
  fake_work_t *work = fake_queue(stream, accesses, n, 0, what);
  if (!work)
    return DT_CU_OUT_OF_MEMORY;
  work->run = run_copy;
  work->to = into;
  work->from = out_of;
  work->bytes = to.bytes;
  if (now) {
    uint32_t s = index_of(stream);
    finish(s, streams[s].queued);
  }
  return DT_CU_SUCCESS;
}

dt_cu_result_t cuMemcpyHtoDAsync_v2(dt_cu_ptr_t to, const void *from, size_t bytes,
                                    dt_cu_stream_t stream) {
  FAKE_ENTER(copy_to_device, FAKE_IN_CONTEXT);
  fake_access_t into = {.begin = to, .bytes = bytes, .write = true};
  return fake_leave(
      copy(stream, into, host_access(from, bytes, false), NULL, from, "cuMemcpyHtoDAsync"));
}

dt_cu_result_t cuMemcpyDtoHAsync_v2(void *to, dt_cu_ptr_t from, size_t bytes,
                                    dt_cu_stream_t stream) {
  FAKE_ENTER(copy_to_host, FAKE_IN_CONTEXT);
  fake_access_t out_of = {.begin = from, .bytes = bytes};
  return fake_leave(
      copy(stream, host_access(to, bytes, true), out_of, to, NULL, "cuMemcpyDtoHAsync"));
}

dt_cu_result_t cuMemcpyDtoDAsync_v2(dt_cu_ptr_t to, dt_cu_ptr_t from, size_t bytes,
                                    dt_cu_stream_t stream) {
  FAKE_ENTER(copy_on_device, FAKE_IN_CONTEXT);
  fake_access_t into = {.begin = to, .bytes = bytes, .write = true};
  fake_access_t out_of = {.begin = from, .bytes = bytes};
  return fake_leave(copy(stream, into, out_of, NULL, NULL, "cuMemcpyDtoDAsync"));
}

dt_cu_result_t cuMemsetD8Async(dt_cu_ptr_t to, unsigned char value, size_t bytes,
                               dt_cu_stream_t stream) {
  FAKE_ENTER(fill_bytes, FAKE_IN_CONTEXT);
  if (bytes == 0)
    return fake_leave(DT_CU_SUCCESS);
  fake_access_t into = {.begin = to, .bytes = bytes, .write = true};
  void *host_to = fake_use(to, bytes, "cuMemsetD8Async");
  fake_work_t *work = host_to ? fake_queue(stream, &into, 1, 0, "cuMemsetD8Async") : NULL;
  if (!work)
    return fake_leave(DT_CU_INVALID_VALUE);
  work->run = run_fill;
  work->to = host_to;
  work->value = value;
  work->bytes = bytes;
  return fake_leave(DT_CU_SUCCESS);
}

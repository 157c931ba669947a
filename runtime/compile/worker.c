// SPDX-License-Identifier: Apache-2.0
// See worker.h. A worker belongs to one compile thread at a time. Between requests it is in a list,
// with the number of the program that it has read.
#include "runtime/compile/worker.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/params.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/compile/maker.h"
#include "runtime/compile/worker_spawn.h"
#include "runtime/compile/worker_text.h"
#include "runtime/compile/worker_wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define START_SECONDS 30                     // until a worker has said who it is
#define TRIES 2                              // of a request whose worker died without a word
#define KILLERS 64                           // requests that are remembered to have killed workers
#define KILLS 2                              // after failing so often for that one is refused
#define KILLER_NS (60 * (int64_t)1000000000) // for so long

typedef struct dt_worker_t {
  struct dt_worker_t *next;
  dt_process_t process;
  uint64_t number; // of the program that it has; 0: none
  int nice;        // as the thread that started it
} dt_worker_t;

typedef struct dt_killer_t {
  uint64_t hash;
  int64_t last_ns;
  uint32_t failures;
} dt_killer_t;

struct dt_workers {
  dt_mutex_t mutex;  // guards all below up to `path`
  dt_worker_t *idle; // a list
  dt_killer_t killers[KILLERS];
  dt_workers_stats_t stats;
  uint64_t numbers;
  _Atomic bool stopping;
  char *path; // from here on: set when made
  dt_text_t setup;
  uint32_t seconds;
  dt_params_loader_t loader;
};

// ---- All of them ------------------------------------------------------------------------------------
static dt_status_t init(dt_workers_t *workers, const dt_workers_options_t *options) {
  DT_TRY(dt__worker_find(options->path, &workers->path));
  workers->seconds = options->seconds;
  dt_text_t *setup = &workers->setup;
  dt__text_printf(setup, "%u %u %lld ", options->mib, options->seconds,
                  (long long)options->idle_ms * 1000000);
  dt__text_quote(setup, options->dump ? options->dump : "", 255);
  dt__text_put(setup, " ");
  dt__text_quote(setup, options->dump_dir ? options->dump_dir : "", 255);
  dt__text_put(setup, " ");
  dt__text_quote(setup, options->jit ? options->jit : "", DT_PARAM_TEXT_BYTES - 1);
  DT_TRY(dt__text_status(setup));
  return dt__params_loader(&workers->loader);
}

dt_status_t dt__workers_create(const dt_workers_options_t *options, dt_workers_t **out) {
  *out = NULL;
  dt_workers_t *workers = dt__calloc(1, sizeof(*workers));
  if (!workers)
    return DT_NO_MEMORY();
  dt__text_init(&workers->setup);
  dt_status_t status = dt__mutex_init(&workers->mutex, DT_RANK_WORKERS);
  if (status) {
    dt__free(workers);
    return status;
  }
  status = init(workers, options);
  if (status)
    dt__workers_destroy(workers);
  else
    *out = workers;
  return status;
}

static void end(dt_worker_t *worker) {
  dt__process_close(&worker->process);
  dt__free(worker);
}

void dt__workers_stop(dt_workers_t *workers) {
  if (!workers || dt__forked())
    return;
  atomic_store_explicit(&workers->stopping, true, memory_order_relaxed);
}

// A child after fork has the same sockets: closing them is all that it may do.
void dt__workers_destroy(dt_workers_t *workers) {
  if (!workers)
    return;
  for (dt_worker_t *worker = workers->idle, *next; worker; worker = next) {
    next = worker->next;
    end(worker);
  }
  if (!dt__forked())
    dt__mutex_fini(&workers->mutex);
  dt__params_loader_fini(&workers->loader);
  dt__text_fini(&workers->setup);
  dt__free(workers->path);
  dt__free(workers);
}

dt_workers_stats_t dt__workers_stats(dt_workers_t *workers) {
  dt__mutex_lock(&workers->mutex);
  dt_workers_stats_t stats = workers->stats;
  dt__mutex_unlock(&workers->mutex);
  return stats;
}

uint64_t dt__workers_number(dt_workers_t *workers) {
  dt__mutex_lock(&workers->mutex);
  uint64_t number = ++workers->numbers;
  dt__mutex_unlock(&workers->mutex);
  return number;
}

// ---- What killed workers ----------------------------------------------------------------------------
// Its entry, or the one that is taken for it: the oldest. Mutex held.
static dt_killer_t *killer_of(dt_workers_t *workers, uint64_t hash) {
  dt_killer_t *oldest = &workers->killers[0];
  for (uint32_t k = 0; k < KILLERS; k++) {
    dt_killer_t *killer = &workers->killers[k];
    if (killer->hash == hash && killer->failures)
      return killer;
    if (killer->last_ns < oldest->last_ns)
      oldest = killer;
  }
  return oldest;
}

static bool is_killer(dt_workers_t *workers, uint64_t hash) {
  dt__mutex_lock(&workers->mutex);
  const dt_killer_t *killer = killer_of(workers, hash);
  bool is = killer->hash == hash && killer->failures >= KILLS &&
            dt__now_ns() - killer->last_ns < KILLER_NS;
  dt__mutex_unlock(&workers->mutex);
  return is;
}

static void note_killer(dt_workers_t *workers, uint64_t hash) {
  int64_t now = dt__now_ns();
  dt__mutex_lock(&workers->mutex);
  dt_killer_t *killer = killer_of(workers, hash);
  if (killer->hash != hash || now - killer->last_ns >= KILLER_NS)
    *killer = (dt_killer_t){.hash = hash};
  killer->failures++;
  killer->last_ns = now;
  dt__mutex_unlock(&workers->mutex);
}

// ---- One worker -------------------------------------------------------------------------------------
static int own_nice(void) { return getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)); }

typedef struct waiting_t {
  const dt_workers_t *workers;
  dt_watch_t *watch;
} waiting_t;

static bool is_over(void *opaque) {
  const waiting_t *waiting = opaque;
  return atomic_load_explicit(&waiting->workers->stopping, memory_order_relaxed) ||
         (waiting->watch && dt__watch_is_over(waiting->watch));
}

static dt_wire_wait_t wait_of(waiting_t *waiting, uint32_t seconds) {
  int64_t until = seconds ? dt__now_ns() + seconds * (int64_t)1000000000 : INT64_MAX;
  return (dt_wire_wait_t){until, is_over, waiting};
}

// *out_again: it may have been killed by chance.
static dt_status_t greet(dt_workers_t *workers, dt_worker_t *worker, bool *out_again) {
  waiting_t waiting = {.workers = workers};
  dt_wire_wait_t wait = wait_of(&waiting, START_SECONDS);
  dt_wire_frame_t frame;
  dt_wire_result_t result = dt__wire_receive(worker->process.socket, 4096, &wait, &frame);
  *out_again = result == DT_WIRE_CLOSED;
  if (result || frame.kind != DT_FRAME_HELLO) {
    if (!result)
      dt__wire_free(&frame);
    return DT_FAIL(result == DT_WIRE_NO_MEMORY ? DT_E_NO_MEMORY : DT_E_COMPILE,
                   "the worker %s was started, but %s; expected the program ductile-worker, and "
                   "what it needs to run",
                   workers->path,
                   result == DT_WIRE_LATE     ? "said nothing"
                   : result == DT_WIRE_CLOSED ? "ended at once"
                                              : "said nothing that can be understood");
  }
  dt_status_t status = dt__worker_hello_check(frame.data, frame.bytes);
  dt__wire_free(&frame);
  if (status)
    return status;
  result = dt__wire_send(worker->process.socket, DT_FRAME_SETUP, dt__text_str(&workers->setup),
                         workers->setup.len, 0, &wait);
  *out_again = result == DT_WIRE_CLOSED;
  return result ? DT_FAIL(DT_E_COMPILE, "the worker %s ended before it was set up", workers->path)
                : NULL;
}

static dt_status_t start(dt_workers_t *workers, dt_worker_t **out, bool *out_again) {
  dt_worker_t *worker = dt__calloc(1, sizeof(*worker));
  if (!worker)
    return DT_NO_MEMORY();
  worker->nice = own_nice();
  dt_status_t status =
      dt__process_start(workers->path, workers->loader.variables, &worker->process);
  if (!status)
    status = greet(workers, worker, out_again);
  if (status) {
    dt__process_kill(&worker->process);
    end(worker);
    return status;
  }
  DT_LOG(DT_LOG_COMPILE, 2, "worker %d: started", worker->process.pid);
  *out = worker;
  return NULL;
}

// One that is idle says nothing, and nothing is to be heard of it: else it has ended.
static bool is_there(const dt_worker_t *worker) {
  struct pollfd item = {.fd = worker->process.socket, .events = POLLIN | POLLRDHUP};
  return poll(&item, 1, 0) == 0;
}

// Takes the best of the list: one that has the program. Mutex held.
static dt_worker_t *take_idle(dt_workers_t *workers, uint64_t number, int nice) {
  dt_worker_t **best = NULL;
  for (dt_worker_t **at = &workers->idle; *at; at = &(*at)->next)
    if ((*at)->nice == nice && (!best || (number && (*at)->number == number)))
      best = at;
  dt_worker_t *worker = best ? *best : NULL;
  if (worker)
    *best = worker->next;
  return worker;
}

static dt_status_t lease(dt_workers_t *workers, uint64_t number, dt_worker_t **out,
                         bool *out_again) {
  *out = NULL;
  *out_again = false;
  for (;;) {
    dt__mutex_lock(&workers->mutex);
    dt_worker_t *worker = take_idle(workers, number, own_nice());
    workers->stats.started += !worker;
    dt__mutex_unlock(&workers->mutex);
    if (!worker)
      return start(workers, out, out_again);
    if (is_there(worker)) {
      *out = worker;
      return NULL;
    }
    DT_LOG(DT_LOG_COMPILE, 2, "worker %d: ended", worker->process.pid);
    end(worker);
  }
}

static void give_back(dt_workers_t *workers, dt_worker_t *worker) {
  dt__mutex_lock(&workers->mutex);
  worker->next = workers->idle;
  workers->idle = worker;
  dt__mutex_unlock(&workers->mutex);
}

// ---- Requests ---------------------------------------------------------------------------------------
typedef struct request_t {
  const dt_worker_source_t *source; // NULL: `data` is all of it
  bool once;                        // the source itself is the request
  dt_frame_kind_t kind;
  const char *data;
  size_t bytes;
  const char *what; // "unit 3 of f", for messages
  dt_watch_t *watch;
  uint64_t hash;
} request_t;

static dt_wire_result_t converse(dt_worker_t *worker, const request_t *request,
                                 const dt_wire_wait_t *wait, dt_wire_frame_t *reply) {
  int fd = worker->process.socket;
  const dt_worker_source_t *source = request->source;
  if (source && worker->number != source->number) {
    worker->number = 0;
    dt_wire_result_t result = dt__wire_send(fd, DT_FRAME_JOB, source->text, source->bytes, 0, wait);
    if (result)
      return result;
    worker->number = source->number;
  }
  dt_wire_result_t result =
      dt__wire_send(fd, request->kind, request->data, request->bytes, 0, wait);
  // Who dies while it is being told leaves last words all the same.
  if (result && result != DT_WIRE_CLOSED)
    return result;
  return dt__wire_receive(fd, DT_WORKER_MOST_BYTES, wait, reply);
}

// "10 the message".
static dt_status_t told_status(const request_t *request, const dt_wire_frame_t *reply) {
  dt_scan_t scan;
  int64_t code = 0;
  dt__scan_init(&scan, reply->data, reply->bytes, "a worker's status");
  dt_status_t status = dt__scan_i64(&scan, &code);
  if (!status && (code <= DT_OK || strcmp(dt_code_name((dt_code_t)code), "DT_E_UNKNOWN") == 0))
    status = DT_FAIL(DT_E_COMPILE, "%lld is no status", (long long)code);
  if (status)
    return dt__status_annotate(status, "%s: the worker's answer", request->what);
  const char *message = scan.at < scan.end && *scan.at == ' ' ? scan.at + 1 : scan.at;
  return DT_FAIL((dt_code_t)code, "%s%s", message,
                 code == DT_E_NO_MEMORY ? " (in the worker: DUCTILE_WORKER_MIB is its limit)" : "");
}

// Of "signal 11\nwords": the words, on one line.
static void tell_words(const dt_wire_frame_t *reply, dt_text_t *out) {
  const char *line = strchr(reply->data, '\n');
  dt__text_put(out, line && line[1] ? ": " : "");
  for (const char *at = line ? line + 1 : ""; *at; at++)
    dt__text_write(out, *at < ' ' || *at > '~' ? " " : at, 1);
}

static dt_status_t died_status(const dt_workers_t *workers, const request_t *request,
                               const dt_wire_frame_t *reply) {
  dt_scan_t scan;
  int64_t signal = 0;
  dt__scan_init(&scan, reply->data, reply->bytes, "last words");
  bool memory = dt__scan_accept_word(&scan, "memory");
  bool budget = dt__scan_accept_word(&scan, "budget");
  bool processor = dt__scan_accept_word(&scan, "processor");
  (void)(memory || budget || processor || dt__scan_accept_word(&scan, "signal"));
  dt_status_free(dt__scan_i64(&scan, &signal));
  dt_status_t over = budget ? dt__watch_check(request->watch) : NULL;
  if (over)
    return over;
  dt_text_t words;
  dt__text_init(&words);
  tell_words(reply, &words);
  const char *name = sigabbrev_np((int)signal);
  dt_status_t status =
      memory ? DT_FAIL(DT_E_NO_MEMORY,
                       "%s: code generation ran out of memory%s; the worker that it killed may "
                       "take DUCTILE_WORKER_MIB",
                       request->what, dt__text_str(&words))
      : processor
          ? DT_FAIL(DT_E_COMPILE,
                    "%s: code generation took more than %u s of processor time and was ended; "
                    "DUCTILE_WORKER_SECONDS is the limit",
                    request->what, workers->seconds)
          : DT_FAIL(DT_E_COMPILE,
                    "%s: code generation ended its worker by signal %lld (SIG%s)%s; other "
                    "programs are not concerned",
                    request->what, (long long)signal, name ? name : "?", dt__text_str(&words));
  dt__text_fini(&words);
  return status;
}

static dt_status_t wire_status(const dt_workers_t *workers, const request_t *request,
                               dt_wire_result_t result) {
  switch (result) {
  case DT_WIRE_LATE:
    return DT_FAIL(DT_E_COMPILE,
                   "%s: code generation took longer than %u s, and its worker was killed; "
                   "DUCTILE_WORKER_SECONDS is the limit",
                   request->what, workers->seconds);
  case DT_WIRE_STOPPED:
    DT_TRY(dt__watch_check(request->watch));
    return DT_FAIL(DT_E_STATE, "%s: the runtime is being released", request->what);
  case DT_WIRE_BAD:
    return DT_FAIL(DT_E_COMPILE, "%s: the worker %s answered what is no answer", request->what,
                   workers->path);
  case DT_WIRE_NO_MEMORY:
    return DT_NO_MEMORY();
  default:
    return DT_FAIL(DT_E_COMPILE,
                   "%s: the worker that made its code was killed, twice; if it was for want of "
                   "memory, DUCTILE_WORKER_MIB may be set lower than what there is",
                   request->what);
  }
}

// What became of one try. A worker that did not answer as it should is not used again.
typedef struct try_t {
  dt_wire_result_t result;
  dt_status_t status;
  bool again; // it died without a word
} try_t;

static void discard(dt_workers_t *workers, dt_worker_t *worker, const request_t *request,
                    const try_t *one) {
  bool own = one->result == DT_WIRE_NO_MEMORY || one->result == DT_WIRE_STOPPED;
  dt__mutex_lock(&workers->mutex);
  workers->stats.died += !own;
  dt__mutex_unlock(&workers->mutex);
  if (!own && !one->again)
    note_killer(workers, request->hash);
  DT_LOG(DT_LOG_COMPILE, 1, "worker %d: lost with %s%s%s", worker->process.pid, request->what,
         one->status ? ": " : "", one->status ? dt_status_message(one->status) : "");
  dt__process_kill(&worker->process);
  end(worker);
}

static void note_time(dt_workers_t *workers, uint64_t ns) {
  dt__mutex_lock(&workers->mutex);
  workers->stats.ns += ns;
  dt__mutex_unlock(&workers->mutex);
}

static try_t try_once(dt_workers_t *workers, const request_t *request, dt_wire_frame_t *reply) {
  dt_worker_t *worker = NULL;
  try_t one = {0};
  one.status = lease(workers, request->source ? request->source->number : 0, &worker, &one.again);
  if (one.status)
    return one;
  waiting_t waiting = {workers, request->watch};
  dt_wire_wait_t wait = wait_of(&waiting, workers->seconds);
  one.result = converse(worker, request, &wait, reply);
  one.again = one.result == DT_WIRE_CLOSED;
  bool whole = one.result == DT_WIRE_OK;
  note_time(workers, whole ? reply->ns : 0);
  if (whole && request->watch)
    (void)atomic_fetch_add_explicit(&request->watch->ns, reply->ns, memory_order_relaxed);
  if (whole && reply->kind == DT_FRAME_DONE) {
    give_back(workers, worker);
    return one;
  }
  if (whole && reply->kind == DT_FRAME_FAILED) {
    one.status = told_status(request, reply);
    // What is left of a heap that was full serves nobody.
    if (dt_status_code(one.status) != DT_E_NO_MEMORY) {
      give_back(workers, worker);
      return one;
    }
  } else if (whole && reply->kind == DT_FRAME_DIED) {
    one.status = died_status(workers, request, reply);
  } else if (!one.again) {
    one.status = wire_status(workers, request, whole ? DT_WIRE_BAD : one.result);
  }
  discard(workers, worker, request, &one);
  return one;
}

static dt_status_t ask(dt_workers_t *workers, const request_t *request, dt_wire_frame_t *reply) {
  if (is_killer(workers, request->hash))
    return DT_FAIL(DT_E_COMPILE,
                   "%s: its code generation killed workers %d times over and is not tried again "
                   "for %lld s; DUCTILE_LOG=compile tells how",
                   request->what, KILLS, (long long)(KILLER_NS / 1000000000));
  for (int k = 0; k < TRIES; k++) {
    memset(reply, 0, sizeof(*reply));
    try_t one = try_once(workers, request, reply);
    bool last = !one.again || k + 1 == TRIES;
    if (one.status && last)
      dt__wire_free(reply);
    if (one.status ? last : !one.again)
      return one.status;
    dt_status_free(one.status);
  }
  note_killer(workers, request->hash);
  return wire_status(workers, request, DT_WIRE_CLOSED);
}

dt_status_t dt__workers_target(dt_workers_t *workers, const char *cpu, uint32_t threads,
                               dt_target_t *out) {
  dt_text_t text;
  dt_scan_t scan;
  dt_wire_frame_t reply = {0};
  dt__text_init(&text);
  dt__text_printf(&text, "%u ", threads);
  dt__text_quote(&text, cpu, sizeof(out->cpu) - 1);
  request_t request = {.kind = DT_FRAME_TARGET,
                       .data = dt__text_str(&text),
                       .bytes = text.len,
                       .what = "the description of this machine",
                       .hash = 1};
  dt_status_t status = dt__text_status(&text);
  if (!status)
    status = ask(workers, &request, &reply);
  if (!status) {
    dt__scan_init(&scan, reply.data, reply.bytes, "a worker's target");
    status = dt__target_read(&scan, out);
    if (!status && out->device != DT_CPU)
      status = DT_FAIL(DT_E_COMPILE, "the worker describes a machine that is none");
  }
  dt__wire_free(&reply);
  dt__text_fini(&text);
  return status;
}

dt_status_t dt__workers_maker(dt_workers_t *workers, dt_maker_t *out) {
  dt_wire_frame_t reply = {0};
  request_t request = {.kind = DT_FRAME_MAKER, .data = "", .what = "who makes the code", .hash = 2};
  dt_status_t status = ask(workers, &request, &reply);
  if (!status) {
    dt_scan_t scan;
    dt__scan_init(&scan, reply.data, reply.bytes, "a worker's maker");
    status = dt__maker_read(&scan, out);
  }
  dt__wire_free(&reply);
  return status;
}

// Hands the answer's bytes over.
static dt_status_t ask_object(dt_workers_t *workers, const request_t *request, void **out,
                              size_t *out_bytes) {
  dt_wire_frame_t reply = {0};
  DT_TRY(ask(workers, request, &reply));
  if (!reply.bytes) {
    dt__wire_free(&reply);
    return DT_FAIL(DT_E_COMPILE, "%s: the worker answered with no code", request->what);
  }
  *out = reply.data;
  *out_bytes = reply.bytes;
  return NULL;
}

dt_status_t dt__workers_unit(dt_workers_t *workers, const dt_worker_source_t *source, uint32_t unit,
                             dt_watch_t *watch, void **out, size_t *out_bytes) {
  char what[160], data[64];
  (void)snprintf(what, sizeof(what), "unit %u of %.100s", unit, source->name);
  uint64_t used = watch ? atomic_load_explicit(&watch->ns, memory_order_relaxed) : 0;
  uint64_t most = watch ? watch->limits.max_ns : 0;
  uint64_t budget = most ? (most > used ? most - used : 1) : 0;
  int n = snprintf(data, sizeof(data), "%u %llu", unit, (unsigned long long)budget);
  request_t request = {.source = source,
                       .kind = DT_FRAME_UNIT,
                       .data = data,
                       .bytes = (size_t)n,
                       .what = what,
                       .watch = watch,
                       .hash = dt__hash(source->text, source->bytes, unit + 2)};
  return ask_object(workers, &request, out, out_bytes);
}

static dt_status_t read_infos(const dt_wire_frame_t *reply, uint32_t *out, uint32_t n) {
  dt_scan_t scan;
  dt__scan_init(&scan, reply->data, reply->bytes, "a worker's infos");
  for (uint32_t k = 0; k < n; k++) {
    int64_t value = 0;
    DT_TRY(dt__scan_i64(&scan, &value));
    if (value < 0 || value > UINT32_MAX)
      return dt__scan_fail(&scan, "a number of 32 bits");
    out[k] = (uint32_t)value;
  }
  return NULL;
}

dt_status_t dt__workers_infos(dt_workers_t *workers, const dt_worker_source_t *source,
                              uint32_t *out, uint32_t n) {
  char what[160];
  (void)snprintf(what, sizeof(what), "launches of %.100s", source->name);
  dt_wire_frame_t reply = {0};
  request_t request = {.source = source,
                       .kind = DT_FRAME_DESCRIBE,
                       .data = "",
                       .what = what,
                       .hash = dt__hash(source->text, source->bytes, 0)};
  dt_status_t status = ask(workers, &request, &reply);
  if (!status)
    status = read_infos(&reply, out, n);
  dt__wire_free(&reply);
  return status;
}

dt_status_t dt__workers_decide(dt_workers_t *workers, const dt_worker_source_t *source, void **out,
                               size_t *out_bytes) {
  request_t request = {.kind = DT_FRAME_DECIDE,
                       .data = source->text,
                       .bytes = source->bytes,
                       .what = source->name,
                       .hash = dt__hash(source->text, source->bytes, 1)};
  return ask_object(workers, &request, out, out_bytes);
}

// SPDX-License-Identifier: Apache-2.0
// The program ductile-worker: compiles for another process until that is gone, or has asked for
// nothing for a while. A compile may kill the worker; it then sends as much of the reason as it
// can.
//
// The first thread watches the socket and the host, and ends this process with them, also in the
// middle of a compile. The second one answers; it has the large stack that LLVM needs.
#include "ductile/function.h"

#include "backend_llvm/host/target.h"
#include "backend_llvm/jit/jit.h"
#include "runtime/base/log.h"
#include "runtime/base/params.h"
#include "runtime/base/status.h"
#include "runtime/base/thread.h"
#include "runtime/compile/codegen.h"
#include "runtime/compile/maker.h"
#include "runtime/compile/worker.h"
#include "runtime/compile/worker_limits.h"
#include "runtime/compile/worker_text.h"
#include "runtime/compile/worker_wire.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct server_t {
  int64_t idle_ns;
  uint64_t mib, seconds; // limits of a request
  dt_worker_job_t job;
  dt_status_t job_failure; // why there is no job; told by the next unit
  bool has_job;
  char jit[DT_PARAM_TEXT_BYTES]; // the code generator's file; "": where it is looked for
} server_t;

static const dt_wire_wait_t for_ever = {.until_ns = INT64_MAX};

// ---- Answers ----------------------------------------------------------------------------------------
static int64_t processor_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// With the processor time since the last answer.
static bool say(dt_frame_kind_t kind, const void *data, size_t bytes) {
  static int64_t told_ns; // of the one thread that answers
  int64_t now = processor_ns();
  uint64_t ns = (uint64_t)(now - told_ns);
  told_ns = now;
  return dt__wire_send(DT_WORKER_FD, kind, data, bytes, ns, &for_ever) == DT_WIRE_OK;
}

// "10 the message". Consumes `status`.
static bool say_failed(dt_status_t status) {
  dt_text_t text;
  dt__text_init(&text);
  dt__text_printf(&text, "%d %s", (int)dt_status_code(status), dt_status_message(status));
  bool said = !text.failed && say(DT_FRAME_FAILED, dt__text_str(&text), text.len);
  dt__text_fini(&text);
  dt_status_free(status);
  return said;
}

static bool say_object(dt_status_t status, void *object, size_t bytes) {
  dt__worker_budget_end();
  bool said = status ? say_failed(status) : say(DT_FRAME_DONE, object, bytes);
  dt__free(object);
  return said;
}

// ---- Requests ---------------------------------------------------------------------------------------
static dt_status_t read_setup(const dt_wire_frame_t *frame, server_t *server) {
  dt_scan_t scan;
  int64_t mib = 0, seconds = 0;
  char stages[512], folder[512];
  size_t len = 0;
  dt__scan_init(&scan, frame->data, frame->bytes, "setup");
  DT_TRY(dt__scan_i64(&scan, &mib));
  DT_TRY(dt__scan_i64(&scan, &seconds));
  DT_TRY(dt__scan_i64(&scan, &server->idle_ns));
  DT_TRY(dt__scan_string(&scan, stages, sizeof(stages), &len));
  DT_TRY(dt__scan_string(&scan, folder, sizeof(folder), &len));
  DT_TRY(dt__scan_string(&scan, server->jit, sizeof(server->jit), &len));
  if (mib < 0 || seconds < 0 || server->idle_ns < 0)
    return dt__scan_fail(&scan, "a limit below 0");
  DT_TRY(dt__dump_configure(stages, folder));
  server->mib = (uint64_t)mib;
  server->seconds = (uint64_t)seconds;
  dt__worker_limit(server->mib, server->seconds);
  return NULL;
}

static bool answer_target(const dt_wire_frame_t *frame) {
  dt_scan_t scan;
  dt_target_t target;
  char cpu[64];
  size_t len = 0;
  int64_t threads = 0;
  dt_text_t text;
  dt__text_init(&text);
  dt__scan_init(&scan, frame->data, frame->bytes, "target");
  dt_status_t status = dt__scan_i64(&scan, &threads);
  if (!status)
    status = dt__scan_string(&scan, cpu, sizeof(cpu), &len);
  if (!status)
    status = dt__host_target(cpu, (uint32_t)threads, &target);
  if (!status) {
    dt__target_write(&target, &text);
    status = dt__text_status(&text);
  }
  bool said = status ? say_failed(status) : say(DT_FRAME_DONE, dt__text_str(&text), text.len);
  dt__text_fini(&text);
  return said;
}

static void drop_job(server_t *server) {
  if (server->has_job)
    dt__worker_job_fini(&server->job);
  server->has_job = false;
  dt_status_free(server->job_failure);
  server->job_failure = NULL;
}

static void take_job(server_t *server, const dt_wire_frame_t *frame) {
  dt_scan_t scan;
  drop_job(server);
  dt__scan_init(&scan, frame->data, frame->bytes, "job");
  server->job_failure = dt__worker_job_read(&scan, &server->job);
  server->has_job = true;
}

static dt_status_t open_jit(const server_t *server) {
  if (dt__jit())
    return NULL;
  dt__worker_lift();
  dt_status_t status = dt__codegen_open(NULL, server->jit);
  dt__worker_limit(server->mib, server->seconds);
  return status;
}

static dt_status_t make_unit(const server_t *server, int64_t unit, void **object, size_t *bytes) {
  const dt_worker_job_t *job = &server->job;
  if (!server->has_job || server->job_failure)
    return server->has_job ? dt__status_clone(server->job_failure)
                           : DT_FAIL(DT_E_STATE, "a unit of no job");
  if (!job->program || unit < 0 || unit >= job->map.n_units)
    return DT_FAIL(DT_E_STATE, "the job has no unit %lld", (long long)unit);
  DT_TRY(open_jit(server));
  const dt_codegen_t *codegen = dt__codegens[job->target.device];
  bool kernels = job->target.device != DT_CPU && unit + 1 < job->map.n_units;
  if (kernels && !codegen)
    return DT_FAIL(DT_E_UNSUPPORTED, "the worker makes no code for devices of kind %d",
                   (int)job->target.device);
  if (kernels)
    return codegen->emit(job->program, &job->map, (uint32_t)unit, &job->target, &job->options,
                         object, bytes);
  return dt__jit()->compile_unit(job->program, &job->map, (uint32_t)unit, &job->target,
                                 &job->options, object, bytes);
}

static bool answer_unit(const server_t *server, const dt_wire_frame_t *frame) {
  dt_scan_t scan;
  int64_t unit = 0, budget_ns = 0;
  void *object = NULL;
  size_t bytes = 0;
  dt__scan_init(&scan, frame->data, frame->bytes, "unit");
  dt_status_t status = dt__scan_i64(&scan, &unit);
  if (!status)
    status = dt__scan_i64(&scan, &budget_ns);
  if (!status) {
    dt__worker_budget_begin(budget_ns);
    status = make_unit(server, unit, &object, &bytes);
  }
  return say_object(status, object, bytes);
}

static bool answer_decide(const server_t *server, const dt_wire_frame_t *frame) {
  dt_scan_t scan;
  dt_worker_job_t job;
  void *object = NULL;
  size_t bytes = 0;
  dt__scan_init(&scan, frame->data, frame->bytes, "decision");
  dt__worker_budget_begin(0);
  dt_status_t status = dt__worker_job_read(&scan, &job);
  if (!status && !job.tree)
    status = DT_FAIL(DT_E_STATE, "a decision without its tree");
  if (!status)
    status = open_jit(server);
  if (!status)
    status = dt__jit()->compile_decider(job.tree, &job.target, &job.options, &object, &bytes);
  dt__worker_job_fini(&job);
  return say_object(status, object, bytes);
}

static bool answer_maker(const server_t *server) {
  dt_maker_t maker;
  dt_text_t text;
  dt__text_init(&text);
  dt__maker_init(&maker);
  dt_status_t status = open_jit(server);
  if (!status)
    status = dt__codegen_maker(NULL, server->jit, &maker);
  if (!status)
    status = dt__maker_write(&maker, &text);
  bool said = status ? say_failed(status) : say(DT_FRAME_DONE, dt__text_str(&text), text.len);
  dt__maker_fini(&maker);
  dt__text_fini(&text);
  return said;
}

static dt_status_t describe_codes(const server_t *server, dt_text_t *out) {
  const dt_worker_job_t *job = &server->job;
  const dt_codegen_t *codegen = server->has_job ? dt__codegens[job->target.device] : NULL;
  if (!server->has_job || server->job_failure || !job->program || !codegen || !codegen->describe)
    return DT_FAIL(DT_E_STATE, "no job of a device's");
  uint32_t n = job->map.n_codes * codegen->info_words;
  uint32_t *infos = DT_ARENA_ARRAY(job->program->arena, uint32_t, n + 1);
  if (!infos)
    return DT_NO_MEMORY();
  DT_TRY(open_jit(server));
  DT_TRY(codegen->describe(job->program, &job->map, &job->target, infos));
  for (uint32_t k = 0; k < n; k++)
    dt__text_printf(out, "%u ", infos[k]);
  return dt__text_status(out);
}

static bool answer_describe(const server_t *server) {
  dt_text_t text;
  dt__text_init(&text);
  dt_status_t status = describe_codes(server, &text);
  bool said = status ? say_failed(status) : say(DT_FRAME_DONE, dt__text_str(&text), text.len);
  dt__text_fini(&text);
  return said;
}

// False: it is over.
static bool answer(server_t *server, const dt_wire_frame_t *frame) {
  switch (frame->kind) {
  case DT_FRAME_TARGET:
    return answer_target(frame);
  case DT_FRAME_JOB:
    take_job(server, frame);
    return true;
  case DT_FRAME_UNIT:
    return answer_unit(server, frame);
  case DT_FRAME_DECIDE:
    return answer_decide(server, frame);
  case DT_FRAME_MAKER:
    return answer_maker(server);
  case DT_FRAME_DESCRIBE:
    return answer_describe(server);
  default:
    return false;
  }
}

static bool begin(server_t *server) {
  dt_wire_frame_t frame;
  dt_text_t hello;
  dt__text_init(&hello);
  dt__worker_hello(&hello);
  bool ok = !hello.failed && say(DT_FRAME_HELLO, dt__text_str(&hello), hello.len);
  dt__text_fini(&hello);
  ok = ok && dt__wire_receive(DT_WORKER_FD, DT_WORKER_MOST_BYTES, &for_ever, &frame) == DT_WIRE_OK;
  if (!ok)
    return false;
  dt_status_t status = frame.kind == DT_FRAME_SETUP ? read_setup(&frame, server)
                                                    : DT_FAIL(DT_E_STATE, "no setup came first");
  dt__wire_free(&frame);
  return status ? say_failed(status) && false : true;
}

// Until nothing was asked for `idle_ns`: what is asked in that moment is asked again of another.
static void *serve(void *opaque) {
  (void)opaque;
  server_t server = {0};
  dt_wire_frame_t frame;
  dt__worker_catch_signals();
  bool goes_on = begin(&server);
  while (goes_on) {
    struct pollfd item = {.fd = DT_WORKER_FD, .events = POLLIN};
    int64_t ms = server.idle_ns / 1000000;
    if (poll(&item, 1, ms > INT32_MAX ? INT32_MAX : (int)ms) <= 0)
      break;
    goes_on = dt__wire_receive(DT_WORKER_FD, DT_WORKER_MOST_BYTES, &for_ever, &frame) == DT_WIRE_OK;
    goes_on = goes_on && answer(&server, &frame);
    dt__wire_free(&frame);
  }
  _exit(0);
}

// ---- The program ------------------------------------------------------------------------------------
// The host's end of the socket may be open in children of the host, so its death is watched as
// well.
static void watch(void) {
  struct ucred host = {0};
  socklen_t len = sizeof(host);
  struct pollfd items[] = {{.fd = DT_WORKER_FD, .events = POLLRDHUP}, {.fd = -1, .events = POLLIN}};
  if (getsockopt(DT_WORKER_FD, SOL_SOCKET, SO_PEERCRED, &host, &len) == 0 && host.pid > 0)
    items[1].fd = (int)syscall(SYS_pidfd_open, host.pid, 0); // -1 is not looked at
  for (;;) {
    if (poll(items, 2, -1) > 0)
      _exit(0);
  }
}

static int usage(int argc, char **argv) {
  bool version = argc == 2 && strcmp(argv[1], "--version") == 0;
  bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
  if (version) {
    (void)printf("ductile-worker %d.%d.%d\n", DT_VERSION_MAJOR, DT_VERSION_MINOR, DT_VERSION_PATCH);
    return 0;
  }
  (void)fprintf(
      help ? stdout : stderr,
      "ductile-worker makes machine code for a process that uses Ductile, which starts it "
      "itself:\nDUCTILE_ISOLATION=worker, or dt_runtime_options_t.isolation. It is not for "
      "people.\n");
  return help ? 0 : 2;
}

int dt_worker_main(int argc, char **argv) {
  struct stat about;
  pthread_t thread;
  if (argc != 1 || fstat(DT_WORKER_FD, &about) != 0 || !S_ISSOCK(about.st_mode))
    return usage(argc, argv);
  dt__worker_prepare();
  dt_status_t status = dt__thread_start(&thread, "ductile-worker", false, serve, NULL);
  if (status) {
    dt_status_free(status);
    return 1;
  }
  watch();
  return 0;
}

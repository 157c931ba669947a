// SPDX-License-Identifier: Apache-2.0
// A graph and one call of it in a process of its own: compiled code beside the evaluator, whatever
// becomes of the process.
#include "cli/repro.h"

#include "cli/check.h"
#include "cli/elements.h"
#include "cli/low.h"
#include "cli/tensor_file.h"

#include "ductile/device.h"
#include "ductile/ir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct side_t {
  dt_function_t *function;
  dt_tensor_t **inputs, **results;
  dt_status_t status;
} side_t;

typedef struct run_t {
  const cli_replay_t *replay;
  dt_runtime_t *runtime;
  dt_session_t *session, *host; // of compiled code, and of the evaluator
  uint32_t n_inputs, n_outputs;
  side_t compiled, evaluated;
} run_t;

// ---- Elements -----------------------------------------------------------------------------------
// Knuth's 64-bit linear congruential generator; the upper bits are the good ones.
static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005U + 1442695040888963407U;
  return (uint32_t)(*state >> 33);
}

// Floats in [-2, 2), small integers so that indices may be right; scalars of integers keep what the
// call's text says.
static void fill(dt_tensor_t *tensor, uint64_t *state) {
  dt_dtype_t dtype = dt_tensor_dtype(tensor);
  const int64_t *sizes = dt_tensor_sizes(tensor), *strides = dt_tensor_strides(tensor);
  uint32_t rank = dt_tensor_rank(tensor);
  int64_t index[DT_MAX_RANK] = {0};
  if (rank == 0 && !cli_is_float(dtype))
    return;
  for (size_t k = 0; cli_is_low(dtype) && k < dt_tensor_bytes(tensor); k++)
    ((unsigned char *)dt_tensor_data(tensor))[k] = (unsigned char)(next_random(state) & 0x37);
  if (cli_is_low(dtype))
    return;
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++) {
    int64_t at = 0;
    for (uint32_t d = 0; d < rank; d++)
      at += index[d] * strides[d];
    double value = cli_is_float(dtype) ? next_random(state) * 0x1p-29 - 2 : next_random(state) % 2;
    (void)cli_element_set(dtype, dt_tensor_data(tensor), at, value);
    for (uint32_t d = rank; d-- > 0;) {
      if (++index[d] < sizes[d])
        break;
      index[d] = 0;
    }
  }
}

// ---- Both sides ---------------------------------------------------------------------------------
static dt_status_t make_side(const run_t *run, side_t *side, dt_answer_t answer) {
  const cli_replay_t *replay = run->replay;
  const dt_function_options_t about = {.struct_size = sizeof(about),
                                       .name = "repro",
                                       .answer = answer,
                                       .limit_action = DT_LIMIT_ERROR,
                                       .strict_fp = replay->strict_fp};
  return dt_function_create_from_ir(run->runtime, replay->text, replay->len, replay->file, &about,
                                    &side->function);
}

static dt_status_t make_sides(run_t *run) {
  const dt_runtime_options_t about = {.struct_size = sizeof(about),
                                      .threads = run->replay->threads};
  const dt_session_options_t where = {.struct_size = sizeof(where),
                                      .device = run->replay->place.device,
                                      .ordinal = run->replay->place.ordinal};
  dt_status_t status = dt_runtime_create(&about, &run->runtime);
  if (!status)
    status = dt_session_create(run->runtime, &where, &run->session);
  if (!status)
    status = dt_session_create(run->runtime, NULL, &run->host);
  if (!status)
    status = make_side(run, &run->evaluated, DT_ANSWER_EVALUATOR);
  if (!status)
    status = make_side(run, &run->compiled, DT_ANSWER_COMPILED);
  return status;
}

static bool make_arguments(run_t *run, side_t *side, char message[CLI_MESSAGE]) {
  uint64_t state = run->replay->seed;
  run->n_inputs = dt_function_n_inputs(side->function);
  run->n_outputs = dt_function_n_outputs(side->function);
  side->inputs = calloc((size_t)run->n_inputs + 1, sizeof(dt_tensor_t *));
  side->results = calloc((size_t)run->n_outputs + 1, sizeof(dt_tensor_t *));
  if (!side->inputs || !side->results)
    return cli_wrong(message, "no memory");
  if (!cli_make_args(run->replay->call, side->function, side->inputs, message))
    return false;
  for (uint32_t k = 0; k < run->n_inputs; k++)
    fill(side->inputs[k], &state);
  return true;
}

static void call(const run_t *run, dt_session_t *session, side_t *side) {
  side->status = dt_call(session, side->function, side->inputs, run->n_inputs, side->results,
                         run->n_outputs, NULL);
}

// cli_compare reads elements one after another.
static bool is_contiguous(const dt_tensor_t *tensor) {
  int64_t step = 1;
  for (uint32_t d = dt_tensor_rank(tensor); d-- > 0;) {
    if (dt_tensor_sizes(tensor)[d] != 1 && dt_tensor_strides(tensor)[d] != step)
      return false;
    step *= dt_tensor_sizes(tensor)[d];
  }
  return true;
}

// A result's elements in host memory and in row-major order, in place of the device's.
static dt_status_t fetch(dt_session_t *session, dt_tensor_t **tensor) {
  dt_tensor_t *there = *tensor, *here = NULL;
  if (dt_tensor_device(there) == DT_CPU && is_contiguous(there))
    return NULL;
  dt_status_t status = dt_tensor_create_empty(dt_tensor_dtype(there), dt_tensor_rank(there),
                                              dt_tensor_sizes(there), &here);
  if (!status)
    status = dt_tensor_read(session, there, dt_tensor_data(here), dt_tensor_bytes(there));
  if (status)
    return status;
  *tensor = here;
  return NULL;
}

static void fetch_all(const run_t *run, dt_session_t *session, side_t *side) {
  for (uint32_t k = 0; k < run->n_outputs && !side->status; k++)
    side->status = fetch(session, &side->results[k]);
}

// ---- The verdict --------------------------------------------------------------------------------
static void take_status(cli_fault_t *out, dt_status_t status) {
  *out = (cli_fault_t){.shown = CLI_SHOWN_STATUS, .number = (int32_t)dt_status_code(status)};
  (void)snprintf(out->message, CLI_MESSAGE, "%s: %s", dt_code_name(dt_status_code(status)),
                 dt_status_message(status));
}

static void take_sizes(const side_t *side, cli_fault_t *out) {
  if (side->status || !side->results[0])
    return;
  out->rank = dt_tensor_rank(side->results[0]);
  if (out->rank)
    memcpy(out->sizes, dt_tensor_sizes(side->results[0]), out->rank * sizeof(int64_t));
}

static void compare(const run_t *run, cli_fault_t *out) {
  const cli_replay_t *replay = run->replay;
  char reason[CLI_MESSAGE];
  dt_code_t compiled = dt_status_code(run->compiled.status);
  // Both refuse: what each says in words may differ, and data that one checks the other may not
  // read.
  if (compiled && compiled != DT_E_INTERNAL && compiled != DT_E_COMPILE && run->evaluated.status)
    return;
  if (compiled) {
    take_status(out, run->compiled.status);
    return;
  }
  if (run->evaluated.status)
    return;
  // Inputs too: a graph may update them.
  for (uint32_t k = 0; k < run->n_outputs + run->n_inputs; k++) {
    bool result = k < run->n_outputs;
    uint32_t at = result ? k : k - run->n_outputs;
    const dt_tensor_t *got = result ? run->compiled.results[at] : run->compiled.inputs[at];
    const dt_tensor_t *wanted = result ? run->evaluated.results[at] : run->evaluated.inputs[at];
    const cli_tolerance_t tolerance = {replay->rtol, replay->atol, 0};
    if (!is_contiguous(wanted) || cli_compare(got, wanted, &tolerance, NULL, reason))
      continue;
    out->shown = CLI_SHOWN_WRONG;
    (void)snprintf(out->message, CLI_MESSAGE, "%s %u: %.960s", result ? "result" : "input", at,
                   reason);
    return;
  }
}

static dt_status_t prepare(const run_t *run) {
  const dt_prepare_options_t where = {.struct_size = sizeof(where),
                                      .device = run->replay->place.device,
                                      .ordinal = run->replay->place.ordinal};
  return dt_function_prepare(run->compiled.function, &where);
}

static void replay_here(run_t *run, cli_fault_t *out) {
  dt_status_t status = make_sides(run);
  if (!status && !run->replay->call)
    status = prepare(run);
  if (status) {
    take_status(out, status);
    dt_status_free(status);
  }
  if (status || !run->replay->call)
    return;
  if (!make_arguments(run, &run->evaluated, out->message) ||
      !make_arguments(run, &run->compiled, out->message)) {
    out->shown = CLI_SHOWN_STATUS;
    out->number = (int32_t)DT_E_ARGUMENT;
    return;
  }
  call(run, run->host, &run->evaluated);
  take_sizes(&run->evaluated, out);
  if (run->replay->evaluate)
    return;
  call(run, run->session, &run->compiled);
  fetch_all(run, run->host, &run->evaluated);
  fetch_all(run, run->session, &run->compiled);
  compare(run, out);
}

// ---- The process --------------------------------------------------------------------------------
// Nothing is released: the process ends, and a fault may have left anything behind.
static void child(const cli_replay_t *replay, int to) {
  cli_fault_t fault = {.shown = CLI_SHOWN_NOTHING};
  const struct rlimit no_core = {0, 0};
  run_t run = {.replay = replay};
  (void)setrlimit(RLIMIT_CORE, &no_core);
  replay_here(&run, &fault);
  ssize_t put = write(to, &fault, sizeof(fault));
  _exit(put == (ssize_t)sizeof(fault) ? 0 : 1);
}

static void take_end(int status, cli_fault_t *out) {
  *out = (cli_fault_t){.shown = CLI_SHOWN_SIGNAL};
  if (WIFSIGNALED(status)) {
    out->number = WTERMSIG(status);
    (void)snprintf(out->message, CLI_MESSAGE, "ended by signal %d (%s)", out->number,
                   strsignal(out->number));
  } else {
    (void)snprintf(out->message, CLI_MESSAGE, "ended with status %d without an answer",
                   WEXITSTATUS(status));
  }
}

static void take_answer(const cli_replay_t *replay, pid_t pid, int from, cli_fault_t *out) {
  struct pollfd wait = {.fd = from, .events = POLLIN};
  int ready = poll(&wait, 1, (int)replay->timeout_s * 1000);
  bool got = ready > 0 && read(from, out, sizeof(*out)) == (ssize_t)sizeof(*out);
  if (ready == 0)
    (void)kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (ready == 0) {
    *out = (cli_fault_t){.shown = CLI_SHOWN_HANG};
    (void)snprintf(out->message, CLI_MESSAGE, "no answer in %u s", replay->timeout_s);
  } else if (!got) {
    take_end(status, out);
  }
}

bool cli_replay(const cli_replay_t *replay, cli_fault_t *out, char message[CLI_MESSAGE]) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cli_wrong(message, "%s", strerror(errno));
  (void)fflush(NULL);
  pid_t pid = fork();
  if (pid == 0)
    child(replay, ends[1]);
  (void)close(ends[1]);
  if (pid > 0)
    take_answer(replay, pid, ends[0], out);
  else
    (void)cli_wrong(message, "no process could be made: %s", strerror(errno));
  (void)close(ends[0]);
  return pid > 0;
}

bool cli_same_fault(const cli_fault_t *a, const cli_fault_t *b) {
  return a->shown == b->shown && a->number == b->number;
}

// SPDX-License-Identifier: Apache-2.0
// Suites that were written for the CPU, on the interpreter's device. The linker hands over their
// calls (--wrap): sessions are made on the device; a call's tensors go there and come back, those that
// overlap as they did; and every call is waited for, so that what it finds is told by it. What
// the evaluator answers is answered beside, since it answers on the CPU alone.
#include "test/place/device.h"

#include "runtime/base/status.h"
#include "runtime/exec/call.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WRAPPED(name) __typeof__(name) __real_##name, __wrap_##name
WRAPPED(dt_session_create);
WRAPPED(dt_session_destroy);
WRAPPED(dt_function_prepare);
WRAPPED(dt_call);
WRAPPED(_cmocka_run_group_tests);

// ---- Sessions -------------------------------------------------------------------------------------

// A session and, once it was asked for, one beside it on the CPU.
typedef struct pair_t {
  struct pair_t *next;
  dt_session_t *session, *beside;
} pair_t;
static pair_t *pairs;
static pthread_mutex_t pairs_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local dt_session_t *calling; // whose call this thread is in; NULL: it has ended

dt_status_t __wrap_dt_session_create(dt_runtime_t *runtime, const dt_session_options_t *options,
                                     dt_session_t **out) {
  dt_session_options_t own = {.struct_size = sizeof(own), .device = INTERPRETER};
  bool plain = !options || (options->ordinal == 0 && !options->stream);
  return __real_dt_session_create(runtime, plain ? &own : options, out);
}

static pair_t *take_pair(dt_session_t *session) {
  (void)pthread_mutex_lock(&pairs_mutex);
  pair_t **at = &pairs;
  while (*at && (*at)->session != session)
    at = &(*at)->next;
  pair_t *found = *at;
  if (found)
    *at = found->next;
  (void)pthread_mutex_unlock(&pairs_mutex);
  return found;
}

static dt_status_t call_beside(dt_session_t *session, dt_function_t *function,
                               dt_tensor_t *const *inputs, uint32_t n_inputs,
                               dt_tensor_t **outputs, uint32_t n_outputs,
                               const dt_call_options_t *options) {
  pair_t *pair = take_pair(session);
  dt_status_t status = NULL;
  if (!pair) {
    pair = calloc(1, sizeof(*pair));
    pair->session = session;
    status = __real_dt_session_create(session->runtime, NULL, &pair->beside);
  }
  if (!status)
    status =
        __real_dt_call(pair->beside, function, inputs, n_inputs, outputs, n_outputs, options);
  (void)pthread_mutex_lock(&pairs_mutex);
  pair->next = pairs;
  pairs = pair;
  (void)pthread_mutex_unlock(&pairs_mutex);
  return status;
}

void __wrap_dt_session_destroy(dt_session_t *session) {
  pair_t *pair = take_pair(session);
  __real_dt_session_destroy(pair ? pair->beside : NULL);
  free(pair);
  calling = session == calling ? NULL : calling;
  __real_dt_session_destroy(session);
}

dt_status_t __wrap_dt_function_prepare(dt_function_t *function,
                                       const dt_prepare_options_t *options) {
  dt_prepare_options_t own = {.struct_size = sizeof(own)};
  if (options)
    own = *options;
  if (function && own.ordinal == 0 && function->answer == DT_ANSWER_COMPILED)
    own.device = INTERPRETER;
  return __real_dt_function_prepare(function, &own);
}

// ---- Tensors of a call ----------------------------------------------------------------------------

typedef struct moved_t {
  struct dt_tensor view; // what stands for it there
  dt_tensor_t *host;
  dt_bytes_t reach; // with all that overlaps it
  dt_storage_t *storage; // of these bytes, where it is the first to have them
  const struct moved_t *first;
} moved_t;

static void find_reaches(moved_t *all, uint32_t n) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t k = 0; k < n; k++) {
        dt_bytes_t *a = &all[i].reach, *b = &all[k].reach;
        if (!dt__bytes_meet(*a, *b) || (a->begin == b->begin && a->end == b->end))
          continue;
        a->begin = b->begin = a->begin < b->begin ? a->begin : b->begin;
        a->end = b->end = a->end > b->end ? a->end : b->end;
        more = true;
      }
  }
  for (uint32_t i = n; i-- > 0;)
    for (uint32_t k = 0; k <= i; k++)
      if (all[k].reach.begin == all[i].reach.begin && all[k].reach.end == all[i].reach.end) {
        all[i].first = &all[k];
        break;
      }
}

// As far from a line's beginning as on the host.
static char *there_of(const moved_t *own) {
  return (char *)own->storage->data + own->reach.begin % DEVICE_ALIGNMENT;
}

static dt_status_t move_all(moved_t *all, uint32_t n) {
  find_reaches(all, n);
  for (uint32_t k = 0; k < n; k++) {
    moved_t *own = &all[k];
    size_t bytes = own->reach.end - own->reach.begin;
    own->view = (struct dt_tensor){.refs = 1, .dtype = own->host->dtype, .rank = own->host->rank};
    own->view.device = dt__place(INTERPRETER, 0);
    own->view.count = own->host->count;
    own->view.contiguous = own->host->contiguous;
    memcpy(own->view.sizes, own->host->sizes, sizeof(own->view.sizes));
    memcpy(own->view.strides, own->host->strides, sizeof(own->view.strides));
    if (bytes && own->first == own) {
      DT_TRY(device_allocate(bytes + own->reach.begin % DEVICE_ALIGNMENT, &own->storage));
      DT_TRY(device_copy(there_of(own), (void *)own->reach.begin, bytes));
    }
    if (bytes)
      own->view.data = there_of(own->first) + ((uintptr_t)own->host->data - own->reach.begin);
  }
  return NULL;
}

// What the call wrote; the host's memory may be for reading alone.
static void bring_back(const moved_t *all, uint32_t n) {
  device_wait();
  for (uint32_t k = 0; k < n; k++) {
    const moved_t *own = &all[k];
    size_t bytes = own->reach.end - own->reach.begin;
    if (own->storage && memcmp((void *)own->reach.begin, device_reach(there_of(own)), bytes) != 0)
      memcpy((void *)own->reach.begin, device_reach(there_of(own)), bytes);
  }
}

static dt_status_t bring_result(const dt_tensor_t *there, dt_tensor_t **out) {
  DT_TRY(dt_tensor_create_empty(there->dtype, there->rank, there->sizes, out));
  if (there->count)
    memcpy((*out)->data, device_reach(there->data), dt__tensor_bytes(there));
  return NULL;
}

// ---- Calls ----------------------------------------------------------------------------------------

// Every second call leaves its inputs to the place, where none is known to be updated.
static bool may_stage(dt_function_t *function) {
  static _Atomic unsigned turn;
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load(&function->list);
  bool may = list->n && atomic_fetch_add(&turn, 1) % 2;
  for (uint32_t k = 0; k < list->n; k++)
    may = may && list->items[k]->traced->graph->updates.len == 0;
  dt__mutex_unlock(&function->mutex);
  return may;
}

typedef struct call_t {
  dt_session_t *session;
  dt_function_t *function;
  const dt_call_options_t *options;
  uint32_t n_inputs, n_outputs, n_moved;
  dt_tensor_t **in, **out; // as they are there
  moved_t *moved;
} call_t;

static void add_moved(call_t *call, dt_tensor_t **tensor) {
  moved_t *own = &call->moved[call->n_moved++];
  *own = (moved_t){.host = *tensor, .reach = dt__tensor_reach(*tensor)};
  *tensor = &own->view;
}

// Also where other threads use the session.
static dt_status_t wait_patiently(dt_session_t *session) {
  dt_status_t status = dt_session_wait(session);
  while (dt_status_code(status) == DT_E_STATE) {
    dt_status_free(status);
    status = dt_session_wait(session);
  }
  return status;
}

static dt_status_t call_there(call_t *call, dt_tensor_t **outputs) {
  bool staged = may_stage(call->function), any = false;
  for (uint32_t k = 0; k < call->n_outputs; k++)
    if (call->out[k] && call->out[k]->device == DT_CPU)
      add_moved(call, &call->out[k]), any = true;
  for (uint32_t k = 0; k < call->n_inputs && !(staged && !any); k++)
    if (call->in[k] && call->in[k]->device == DT_CPU &&
        call->function->given[k].kind == DT_INPUT_TENSOR)
      add_moved(call, &call->in[k]);
  DT_TRY(move_all(call->moved, call->n_moved));
  dt_session_t *outer = calling;
  calling = call->session;
  dt_status_t status = __real_dt_call(call->session, call->function, call->in, call->n_inputs,
                                      call->out, call->n_outputs, call->options);
  if (!status && calling)
    status = wait_patiently(calling);
  calling = outer;
  bring_back(call->moved, call->n_moved);
  for (uint32_t k = 0; k < call->n_outputs; k++) {
    dt_tensor_t *made = NULL, *there = outputs[k] ? NULL : call->out[k];
    if (!status && there)
      status = bring_result(there, &made);
    if (there)
      outputs[k] = made;
    dt_tensor_release(there);
  }
  return status;
}

dt_status_t __wrap_dt_call(dt_session_t *session, dt_function_t *function,
        dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs, uint32_t n_outputs,
        const dt_call_options_t *options) {
  bool whole = session && function && n_inputs == function->n_given &&
               n_outputs == function->n_outputs && (inputs || !n_inputs) && (outputs || !n_outputs);
  if (!whole || session->place == DT_CPU)
    return __real_dt_call(session, function, inputs, n_inputs, outputs, n_outputs, options);
  if (function->answer == DT_ANSWER_EVALUATOR)
    return call_beside(session, function, inputs, n_inputs, outputs, n_outputs, options);
  call_t call = {.session = session, .function = function, .options = options};
  call.n_inputs = n_inputs;
  call.n_outputs = n_outputs;
  call.in = dt__calloc(n_inputs + n_outputs + 1, sizeof(dt_tensor_t *));
  call.moved = dt__calloc(n_inputs + n_outputs + 1, sizeof(*call.moved));
  dt_status_t status = DT_NO_MEMORY();
  if (call.in && call.moved) {
    dt_status_free(status);
    call.out = call.in + n_inputs;
    memcpy(call.in, inputs, n_inputs * sizeof(dt_tensor_t *));
    memcpy(call.out, outputs, n_outputs * sizeof(dt_tensor_t *));
    status = call_there(&call, outputs);
  }
  for (uint32_t k = 0; call.moved && k < call.n_moved; k++)
    dt__storage_release(call.moved[k].storage);
  dt__free(call.in);
  dt__free(call.moved);
  return status;
}

// ---- What stays out -------------------------------------------------------------------------------

static const struct {
  const char *test, *why;
} left_out[] = {
#define LEFT_OUT(test, why) {#test, why},
#include "test/place/left_out.def"
};

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction begin, CMFixtureFunction end) {
  struct CMUnitTest *some = calloc(n + 1, sizeof(*some));
  size_t taken = 0;
  for (size_t k = 0; some && k < n; k++) {
    bool out = false;
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
      if (strcmp(tests[k].name, left_out[i].test) == 0)
        out = true, printf("left out: %s: %s\n", left_out[i].test, left_out[i].why);
    if (!out)
      some[taken++] = tests[k];
  }
  int failed = __real__cmocka_run_group_tests(name, some, taken, begin, end);
  free(some);
  return failed;
}

// SPDX-License-Identifier: Apache-2.0
// Suites that were written for the CPU, on the device that DUCTILE_TEST_DEVICE names. The linker
// hands over what they call (--wrap): sessions are made on the device; a call's tensors go there
// and come back, those that overlap as they did; and each call is waited for, so that what it finds
// is told by it. What the evaluator answers is answered beside, since it answers on the CPU alone.
#include "runtime/base/status.h"
#include "runtime/exec/call.h"

#include <errno.h>
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
WRAPPED(dt_function_output_sizes);
WRAPPED(dt_call);
WRAPPED(_cmocka_run_group_tests);

#define ALIGNMENT ((uintptr_t)512) // of places of tensors, which they keep

// ---- Sessions -------------------------------------------------------------------------------------

// What a session has beside it: others of its runtime, for tensors and for the evaluator.
typedef struct beside_t {
  struct beside_t *next;
  dt_session_t *session, *there, *cpu;
} beside_t;
static beside_t *idle; // not in use
static pthread_mutex_t idle_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local dt_session_t *calling; // whose call this thread is in; NULL: it has ended

static dt_session_options_t device_options(void) {
  dt_session_options_t options = {.struct_size = sizeof(options)};
  dt_status_t status =
      dt_device_parse(getenv("DUCTILE_TEST_DEVICE"), &options.device, &options.ordinal);
  if (status)
    abort();
  return options;
}

dt_status_t __wrap_dt_session_create(dt_runtime_t *runtime, const dt_session_options_t *options,
                                     dt_session_t **out) {
  dt_session_options_t there = device_options();
  bool plain = !options || (options->ordinal == 0 && !options->stream);
  return __real_dt_session_create(runtime, plain ? &there : options, out);
}

static beside_t *find_beside(const dt_session_t *session) {
  (void)pthread_mutex_lock(&idle_mutex);
  beside_t **at = &idle;
  while (*at && (*at)->session != session)
    at = &(*at)->next;
  beside_t *found = *at;
  if (found)
    *at = found->next;
  (void)pthread_mutex_unlock(&idle_mutex);
  return found;
}

static void end_beside(beside_t *own) {
  __real_dt_session_destroy(own->there);
  __real_dt_session_destroy(own->cpu);
  free(own);
}

static void put_beside(beside_t *own) {
  (void)pthread_mutex_lock(&idle_mutex);
  own->next = idle;
  idle = own;
  (void)pthread_mutex_unlock(&idle_mutex);
}

static dt_status_t take_beside(dt_session_t *session, beside_t **out) {
  dt_session_options_t there = device_options();
  *out = find_beside(session);
  if (*out)
    return NULL;
  beside_t *own = calloc(1, sizeof(*own));
  own->session = session;
  dt_status_t status = __real_dt_session_create(session->runtime, &there, &own->there);
  if (!status)
    status = __real_dt_session_create(session->runtime, NULL, &own->cpu);
  if (status)
    end_beside(own);
  else
    *out = own;
  return status;
}

void __wrap_dt_session_destroy(dt_session_t *session) {
  for (beside_t *own = NULL; session && (own = find_beside(session));)
    end_beside(own);
  calling = session == calling ? NULL : calling;
  __real_dt_session_destroy(session);
}

// ---- Tensors of a call ----------------------------------------------------------------------------

typedef struct moved_t {
  dt_tensor_t *host;
  dt_bytes_t reach;            // with all that overlaps it
  const struct moved_t *first; // that has them
  dt_tensor_t *bytes, *flat;   // of the first: there, and on the host
  dt_tensor_t *view;           // what stands for it there
} moved_t;

static bool is_same(dt_bytes_t a, dt_bytes_t b) { return a.begin == b.begin && a.end == b.end; }

static void find_reaches(moved_t *all, uint32_t n) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t k = 0; k < n; k++) {
        dt_bytes_t *a = &all[i].reach, *b = &all[k].reach;
        if (!dt__bytes_meet(*a, *b) || is_same(*a, *b))
          continue;
        a->begin = b->begin = a->begin < b->begin ? a->begin : b->begin;
        a->end = b->end = a->end > b->end ? a->end : b->end;
        more = true;
      }
  }
  for (uint32_t i = n; i-- > 0;)
    for (uint32_t k = i + 1; k-- > 0;)
      if (is_same(all[k].reach, all[i].reach))
        all[i].first = &all[k];
}

// Its bytes there begin as far behind a multiple of the alignment as on the host.
static dt_status_t make_bytes(dt_session_t *there, moved_t *own) {
  int64_t size = (int64_t)(own->reach.end - own->reach.begin), room = size + (int64_t)ALIGNMENT;
  DT_TRY(dt_tensor_create_on(there, DT_U8, 1, &room, &own->bytes));
  uintptr_t at = (uintptr_t)own->bytes->data;
  char *begin = (char *)own->bytes->data + (own->reach.begin - at) % ALIGNMENT;
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc), .dtype = DT_U8, .rank = 1, .sizes = &size};
  desc.data = (void *)own->reach.begin;
  DT_TRY(dt_tensor_create(&desc, &own->flat));
  own->bytes->data = begin; // of `size` elements from here on
  own->bytes->sizes[0] = own->bytes->count = size;
  return dt_tensor_copy(there, own->flat, own->bytes);
}

static dt_status_t move_all(dt_session_t *there, moved_t *all, uint32_t n) {
  find_reaches(all, n);
  for (uint32_t k = 0; k < n; k++) {
    moved_t *own = &all[k];
    const dt_tensor_t *host = own->host;
    dt_tensor_desc_t desc = {.struct_size = sizeof(desc), .dtype = host->dtype, .rank = host->rank};
    desc.device = dt__place_device(there->place);
    desc.sizes = host->sizes;
    desc.strides = host->strides;
    if (host->count && own->first == own)
      DT_TRY(make_bytes(there, own));
    if (host->count)
      desc.data = (char *)own->first->bytes->data + ((uintptr_t)host->data - own->reach.begin);
    DT_TRY(dt_tensor_create(&desc, &own->view));
  }
  return dt_session_wait(there);
}

// What the call wrote. The host's memory may be for reading alone.
static dt_status_t bring_back(dt_session_t *there, const moved_t *all, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    if (!all[k].flat)
      continue;
    size_t bytes = (size_t)all[k].flat->count;
    void *now = malloc(bytes);
    dt_status_t status = dt_tensor_read(there, all[k].bytes, now, bytes);
    if (!status && memcmp(now, all[k].flat->data, bytes) != 0)
      memcpy(all[k].flat->data, now, bytes);
    free(now);
    DT_TRY(status);
  }
  return NULL;
}

static dt_status_t bring_result(dt_session_t *there, const dt_tensor_t *tensor, dt_tensor_t **out) {
  DT_TRY(dt_tensor_create_empty(tensor->dtype, tensor->rank, tensor->sizes, out));
  return dt_tensor_read(there, tensor, (*out)->data, dt__tensor_bytes(tensor));
}

// ---- Calls ----------------------------------------------------------------------------------------

// Every second call leaves its inputs on the host, where none is known to be updated, nor asked to
// be aligned.
static bool may_stage(dt_function_t *function) {
  static _Atomic unsigned turn;
  dt__mutex_lock(&function->mutex);
  const dt_variant_list_t *list = atomic_load(&function->list);
  bool may = list->n && atomic_fetch_add(&turn, 1) % 2;
  for (uint32_t k = 0; k < list->n; k++)
    may = may && list->items[k]->traced->graph->updates.len == 0;
  for (uint32_t k = 0; k < function->n_given; k++)
    may = may && function->given[k].alignment == 0;
  dt__mutex_unlock(&function->mutex);
  return may;
}

typedef struct call_t {
  dt_session_t *session;
  dt_function_t *function;
  const dt_call_options_t *options;
  uint32_t n_in, n_out, n_moved;
  dt_tensor_t **in, **out; // as they are there
  moved_t *moved;
} call_t;

// Where they are given on the host; outputs are first.
static void find_moved(call_t *call) {
  bool staged = may_stage(call->function);
  for (uint32_t k = 0; k < call->n_out; k++)
    if (call->out[k] && call->out[k]->device == DT_CPU)
      call->moved[call->n_moved++].host = call->out[k];
  for (uint32_t k = 0; k < call->n_in && (!staged || call->n_moved); k++)
    if (call->in[k] && call->in[k]->device == DT_CPU &&
        call->function->given[k].kind == DT_INPUT_TENSOR)
      call->moved[call->n_moved++].host = call->in[k];
  for (uint32_t k = 0; k < call->n_moved; k++)
    call->moved[k].reach = dt__tensor_reach(call->moved[k].host);
}

static void put_views(const call_t *call) {
  for (uint32_t k = 0; k < call->n_moved; k++)
    for (uint32_t i = 0; i < call->n_in + call->n_out; i++)
      if (call->in[i] == call->moved[k].host &&
          (i >= call->n_in || call->function->given[i].kind == DT_INPUT_TENSOR))
        call->in[i] = call->moved[k].view;
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

static _Atomic uint64_t n_calls; // that were made there

static dt_status_t call_and_wait(const call_t *call, bool *out_ended) {
  dt_session_t *outer = calling;
  calling = call->session;
  dt_status_t status = __real_dt_call(call->session, call->function, call->in, call->n_in,
                                      call->out, call->n_out, call->options);
  n_calls += !status;
  if (!status && calling)
    status = wait_patiently(calling);
  *out_ended = !calling;
  calling = outer;
  return status;
}

static dt_status_t call_there(call_t *call, dt_session_t *there, dt_tensor_t **outputs,
                              bool *out_ended) {
  find_moved(call);
  DT_TRY(move_all(there, call->moved, call->n_moved));
  put_views(call);
  dt_status_t status = call_and_wait(call, out_ended);
  dt_status_t brought = bring_back(there, call->moved, call->n_moved);
  status = dt__status_join(status, brought);
  for (uint32_t k = 0; k < call->n_out; k++) {
    dt_tensor_t *made = NULL, *got = outputs[k] ? NULL : call->out[k];
    if (!status && got)
      status = bring_result(there, got, &made);
    if (status) {
      dt_tensor_release(made);
      made = NULL;
    }
    if (got)
      outputs[k] = made;
    dt_tensor_release(got);
  }
  return status;
}

static dt_status_t call_moved(call_t *call, dt_tensor_t *const *inputs, dt_tensor_t **outputs) {
  uint32_t n = call->n_in + call->n_out;
  beside_t *beside = NULL;
  bool ended = false;
  DT_TRY(take_beside(call->session, &beside));
  call->in = calloc(n + 1, sizeof(dt_tensor_t *));
  call->moved = calloc(n + 1, sizeof(*call->moved));
  call->out = call->in + call->n_in;
  for (uint32_t k = 0; k < n; k++)
    call->in[k] = k < call->n_in ? inputs[k] : outputs[k - call->n_in];
  dt_status_t status = call_there(call, beside->there, outputs, &ended);
  for (uint32_t k = 0; k < call->n_moved; k++) {
    dt_tensor_release(call->moved[k].view);
    dt_tensor_release(call->moved[k].flat);
    dt_tensor_release(call->moved[k].bytes);
  }
  free(call->in);
  free(call->moved);
  if (ended)
    end_beside(beside);
  else
    put_beside(beside);
  return status;
}

static bool is_evaluated(const dt_session_t *session, const dt_function_t *function) {
  return session && function && session->place != DT_CPU && function->answer == DT_ANSWER_EVALUATOR;
}

dt_status_t __wrap_dt_call(dt_session_t *session, dt_function_t *function,
                           dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs,
                           uint32_t n_outputs, const dt_call_options_t *options) {
  bool whole = session && function && n_inputs == function->n_given &&
               n_outputs == function->n_outputs && (inputs || !n_inputs) && (outputs || !n_outputs);
  if (!whole || session->place == DT_CPU)
    return __real_dt_call(session, function, inputs, n_inputs, outputs, n_outputs, options);
  if (!is_evaluated(session, function)) {
    call_t call = {.session = session, .function = function, .options = options};
    call.n_in = n_inputs;
    call.n_out = n_outputs;
    return call_moved(&call, inputs, outputs);
  }
  beside_t *beside = NULL;
  DT_TRY(take_beside(session, &beside));
  dt_status_t status =
      __real_dt_call(beside->cpu, function, inputs, n_inputs, outputs, n_outputs, options);
  put_beside(beside);
  return status;
}

dt_status_t __wrap_dt_function_output_sizes(dt_session_t *session, dt_function_t *function,
                                            dt_tensor_t *const *inputs, uint32_t n_inputs,
                                            dt_output_shape_t *shapes, size_t shape_bytes,
                                            uint32_t n_outputs) {
  beside_t *beside = NULL;
  if (is_evaluated(session, function))
    DT_TRY(take_beside(session, &beside));
  dt_status_t status = __real_dt_function_output_sizes(
      beside ? beside->cpu : session, function, inputs, n_inputs, shapes, shape_bytes, n_outputs);
  if (beside)
    put_beside(beside);
  return status;
}

dt_status_t __wrap_dt_function_prepare(dt_function_t *function,
                                       const dt_prepare_options_t *options) {
  dt_prepare_options_t own = {.struct_size = sizeof(own)};
  if (options)
    own = *options;
  if (function && own.ordinal == 0 && function->answer == DT_ANSWER_COMPILED)
    own.device = device_options().device;
  return __real_dt_function_prepare(function, &own);
}

// ---- What stays out -------------------------------------------------------------------------------

static const struct {
  const char *program, *test, *why;
} left_out[] = {
#define LEFT_OUT(program, test, why) {#program, #test, why},
#include DUCTILE_LEFT_OUT
};

static const char *why_left_out(const char *test) {
  for (size_t k = 0; k < sizeof(left_out) / sizeof(left_out[0]); k++)
    if (strcmp(test, left_out[k].test) == 0 &&
        strcmp(program_invocation_short_name, left_out[k].program) == 0)
      return left_out[k].why;
  return NULL;
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction begin, CMFixtureFunction end) {
  struct CMUnitTest *some = calloc(n + 1, sizeof(*some));
  size_t taken = 0;
  for (size_t k = 0; k < n; k++) {
    const char *why = why_left_out(tests[k].name);
    if (why)
      printf("left out: %s: %s\n", tests[k].name, why);
    else
      some[taken++] = tests[k];
  }
  int failed = __real__cmocka_run_group_tests(name, some, taken, begin, end);
  free(some);
  printf("%llu calls on the device\n", (unsigned long long)n_calls);
  return n_calls ? failed : 1; // else the suite says nothing of it
}

// SPDX-License-Identifier: Apache-2.0
// dt_call. On a hit it takes no lock and, with outputs given and sizes seen before, allocates
// nothing: guards, the plan of the actual sizes, leased memory, kernels.
#include "runtime/exec/call.h"

#include "ductile/experimental.h"
#include "guards/modes.h"
#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/miss.h"
#include "runtime/exec/timing.h"

#include <stdio.h>
#include <string.h>

// ---- Checks of data -------------------------------------------------------------------------------

static dt_status_t range_status(const dt_compiled_readback_t *readback, int64_t value) {
  return DT_FAIL(DT_E_RANGE, "%s: the data says %lld; expected %lld to %lld", readback->text,
                 (long long)value, (long long)readback->range.lo, (long long)readback->range.hi);
}

// A check that a device made on a readback.
static dt_status_t readback_check_status(const dt_compiled_t *compiled,
                                         const dt_compiled_check_t *check, int64_t value) {
  const dt_compiled_readback_t *readback = &compiled->readbacks[check->readback - 1];
  if (check->code == DT_OK)
    return range_status(readback, value);
  return dt__status_annotate(DT_FAIL(check->code, "%s", check->text), "%s: the data says %lld",
                             readback->text, (long long)value);
}

dt_status_t dt__record_status(const dt_compiled_t *compiled, const dt_launch_record_t *record) {
  int64_t check = atomic_load_explicit(&record->check, memory_order_acquire);
  if (check == 0)
    return NULL;
  if (check == DT_RECORD_STATUS) // handed over: nobody asks again
    return (dt_status_t)(uintptr_t)record->value;
  if (check < 0 || check > (int64_t)compiled->n_checks)
    return DT_FAIL(DT_E_INTERNAL, "check %lld of %u failed", (long long)check, compiled->n_checks);
  const dt_compiled_check_t *own = &compiled->checks[check - 1];
  if (own->readback)
    return readback_check_status(compiled, own, record->value);
  return DT_FAIL(DT_E_RANGE, "%s: %lld is outside [%lld, %lld)", own->text,
                 (long long)record->value, (long long)-record->extent, (long long)record->extent);
}

// ---- Outputs --------------------------------------------------------------------------------------

// Constants are read by later calls, too.
static dt_status_t check_constants(const dt_variant_t *variant, uint32_t index, dt_bytes_t own) {
  const dt_bindings_t *bindings = atomic_load_explicit(&variant->bindings, memory_order_acquire);
  if (!bindings || !dt__bytes_meet(own, bindings->reach))
    return NULL;
  for (uint32_t i = 0; i < bindings->n; i++) {
    if (dt__bytes_meet(own, dt__tensor_reach(bindings->tensors[i])))
      return DT_FAIL(DT_E_ARGUMENT, "output %u overlaps constant '%s'; expected memory of its own",
                     index, variant->traced->graph->constants.items[i].name);
  }
  return NULL;
}

// The bytes of a given output that a call may write: of a buffer all.
static dt_bytes_t output_reach(const dt_tensor_t *output) {
  uintptr_t data = (uintptr_t)output->data;
  return output->room ? (dt_bytes_t){data, data + (uintptr_t)output->room}
                      : dt__tensor_reach(output);
}

// A given output is written while inputs and other outputs are in use.
static dt_status_t check_overlap(const dt_call_t *call, const dt_variant_t *variant,
                                 uint32_t index) {
  dt_bytes_t own = output_reach(call->outputs[index]);
  DT_TRY(check_constants(variant, index, own));
  for (uint32_t i = 0; i < call->function->n_inputs; i++) {
    char name[96];
    if (dt__bytes_meet(own, dt__tensor_reach(call->inputs[i])))
      return DT_FAIL(DT_E_ARGUMENT, "output %u overlaps %s; expected memory of its own", index,
                     dt__input_name(call->function, i, name, sizeof(name)));
  }
  for (uint32_t k = 0; k < index; k++) {
    if (call->outputs[k] && dt__bytes_meet(own, output_reach(call->outputs[k])))
      return DT_FAIL(DT_E_ARGUMENT, "output %u overlaps output %u; expected memory of its own",
                     index, k);
  }
  return NULL;
}

static dt_status_t check_strides(const dt_tensor_t *output, uint32_t index,
                                 const dt_output_info_t *info) {
  int64_t expected[DT_MAX_RANK];
  if (info->order == DT_ORDER_ROW_MAJOR)
    return output->contiguous
               ? NULL
               : DT_FAIL(DT_E_SHAPE, "output %u: got a tensor with strides; expected contiguous",
                         index);
  dt__order_strides(info->order, info->rank, output->sizes, expected);
  for (uint32_t k = 0; output->count && k < info->rank; k++)
    if (output->sizes[k] > 1 && output->strides[k] != expected[k])
      return DT_FAIL(DT_E_SHAPE,
                     "output %u, dim %u: got stride %lld; expected %lld: the result lies in the "
                     "order that is asked for",
                     index, k, (long long)output->strides[k], (long long)expected[k]);
  return NULL;
}

// `known` false: its sizes are not, yet.
static dt_status_t check_output(const dt_session_t *session, dt_tensor_t *output, uint32_t index,
                                const dt_output_info_t *info, const int64_t *sizes, bool known) {
  char here[32], there[32];
  if (output->device != session->place)
    return DT_FAIL(
        DT_E_ARGUMENT,
        "output %u is on %s, and the session runs on %s; make it by dt_tensor_create_on, "
        "and get at the elements by dt_tensor_copy or dt_tensor_read",
        index, dt__place_name(output->device, there, sizeof(there)),
        dt__place_name(session->place, here, sizeof(here)));
  if (output->read_only)
    return DT_FAIL(DT_E_ARGUMENT, "output %u: read-only memory (DT_DLPACK_READ_ONLY)", index);
  if (output->dtype != info->dtype)
    return DT_FAIL(DT_E_DTYPE, "output %u: got %s; expected %s", index,
                   dt_dtype_name(output->dtype), dt_dtype_name(info->dtype));
  if (output->room) // a buffer takes the result's sizes as soon as they are known
    return !known ? NULL
                  : dt__status_annotate(dt__tensor_fit(output, info->rank, sizes, info->order),
                                        "output %u", index);
  if (output->rank != info->rank)
    return DT_FAIL(DT_E_SHAPE, "output %u: got rank %u; expected %u", index, output->rank,
                   info->rank);
  for (uint32_t k = 0; known && k < info->rank; k++) {
    if (output->sizes[k] != sizes[k])
      return DT_FAIL(DT_E_SHAPE, "output %u, dim %u: got %lld; expected %lld", index, k,
                     (long long)output->sizes[k], (long long)sizes[k]);
  }
  return check_strides(output, index, info);
}

// Everything that can be told about given outputs is told by the first segment, before anything is
// written.
dt_status_t dt__outputs_prepare(const dt_call_t *call, const dt_variant_t *variant,
                                const uint32_t *segments, uint32_t segment) {
  dt_session_t *session = call->session;
  const int64_t *sizes = session->sizes;
  void **addresses = session->addresses + call->function->n_inputs;
  for (uint32_t k = 0; k < call->function->n_outputs; k++) {
    const dt_output_info_t *info = &variant->outputs[k];
    dt_tensor_t *result = call->outputs[k];
    bool known = !segments || segments[k] == segment;
    if (result) {
      if (known || segment == 0) {
        DT_TRY(check_output(session, result, k, info, sizes, known));
        DT_TRY(check_overlap(call, variant, k));
      }
    } else if (known) {
      DT_TRY(dt__result_make(call, variant, k, sizes, &result, &addresses[k]));
      session->results[k] = result;
    }
    if (known && call->outputs[k]) {
      session->results[k] = result;
      addresses[k] = result->data;
    }
    sizes += info->rank;
  }
  return NULL;
}

// ---- Running a variant ----------------------------------------------------------------------------

static dt_status_t assert_status(const dt_compiled_t *compiled, uint32_t index) {
  return DT_FAIL(compiled->assert_codes[index], "%s", compiled->assert_texts[index]);
}

// A range is what asserts allow and the dtype has: the assert that fails says who asked for it.
static dt_status_t readback_status(const dt_variant_t *variant, uint32_t index,
                                   const int64_t *symbols) {
  const dt_compiled_t *compiled = variant->compiled;
  const dt_compiled_readback_t *readback = &compiled->readbacks[index];
  const dt_graph_t *graph = variant->traced->graph;
  for (uint32_t i = 0; i < graph->asserts.len; i++) {
    uint32_t newest = 0;
    int64_t holds = 0;
    dt_sym_t cond = graph->asserts.items[i].cond;
    bool about = dt__sym_newest_unbacked(graph->env, cond, &newest) && newest == readback->symbol;
    if (about && (!dt__sym_eval(graph->env, cond, symbols, &holds) || !holds))
      return dt__status_annotate(assert_status(compiled, i), "%s: the data says %lld",
                                 readback->text, (long long)symbols[readback->symbol]);
  }
  return range_status(readback, symbols[readback->symbol]);
}

dt_status_t dt__plan_status(const dt_variant_t *variant, int64_t failed, const int64_t *symbols) {
  const dt_compiled_t *compiled = variant->compiled;
  if (failed == DT_PLAN_NO_NUMBER)
    return DT_FAIL(DT_E_SHAPE, "a number that the program makes of sizes (dt_size_value) does not "
                               "fit in 64 bits");
  if (failed == -1)
    return DT_FAIL(DT_E_LIMIT,
                   "these sizes make a tensor or the memory of the call %lld bytes or "
                   "more",
                   (long long)DT_SIZE_LIMIT);
  if (failed < 0 && -2 - failed < (int64_t)compiled->n_readbacks)
    return readback_status(variant, (uint32_t)(-2 - failed), symbols);
  if (failed > 0 && failed <= (int64_t)compiled->n_asserts)
    return assert_status(compiled, (uint32_t)failed - 1);
  return DT_FAIL(DT_E_INTERNAL, "a plan ended with %lld", (long long)failed);
}

// Inputs that the program updates are written.
static dt_status_t check_updates(const dt_call_t *call, const dt_graph_t *graph) {
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    char name[96];
    uint32_t input = graph->updates.items[k].input;
    if (call->inputs[input]->read_only)
      return DT_FAIL(DT_E_ARGUMENT,
                     "%s: the program updates it, and it is read-only memory (DT_DLPACK_READ_ONLY)",
                     dt__input_name(call->function, input, name, sizeof(name)));
  }
  return NULL;
}

ALSO_RECORDED dt_status_t run_variant(dt_call_t *call, dt_variant_t *variant, bool recorded) {
  if (recorded)
    dt__record_variant(call->recorder, variant, call->session->symbols);
  if (call->shapes)
    return dt__call_shapes(call, variant);
  if (variant->traced->graph->updates.len)
    DT_TRY(check_updates(call, variant->traced->graph));
  const dt_bindings_t *bindings = atomic_load_explicit(&variant->bindings, memory_order_acquire);
  memset(call->session->results, 0, call->function->n_outputs * sizeof(dt_tensor_t *));
  dt_status_t status = NULL;
  bool told = dt__log_on(DT_LOG_EXEC, 1);
  int64_t began = told ? dt__now_ns() : 0;
  if (variant->compiled) {
    const dt_place_kind_t *kind = call->session->home->kind;
    status = recorded && kind->call_recorded ? kind->call_recorded(call, variant, bindings)
                                             : kind->call(call, variant, bindings);
    if (recorded && !kind->call_recorded) // what it notes of its parts itself is not counted again
      dt__record_part(call->recorder, DT_PROFILE_KERNELS);
  } else {
    status = dt__evaluate(call, variant, bindings);
    if (recorded)
      dt__record_part(call->recorder, DT_PROFILE_EVALUATOR);
    (void)atomic_fetch_add_explicit(&call->function->evaluator_calls, 1, memory_order_relaxed);
  }
  if (told)
    dt__call_tell(call, variant, status, began);
  for (uint32_t k = 0; k < call->function->n_outputs; k++) {
    if (call->outputs[k])
      continue;
    if (status)
      dt_tensor_release(call->session->results[k]);
    else
      call->outputs[k] = call->session->results[k];
  }
  return status;
}

// ---- dt_call --------------------------------------------------------------------------------------

static dt_status_t check_arguments(const dt_call_t *call, uint32_t n_inputs, uint32_t n_outputs) {
  const dt_function_t *function = call->function;
  if (function->runtime != call->session->runtime)
    return DT_FAIL(DT_E_ARGUMENT, "session and function belong to different runtimes");
  if (n_inputs != function->n_given || n_outputs != function->n_outputs)
    return DT_FAIL(DT_E_ARGUMENT, "got %u inputs and %u outputs; expected %u and %u", n_inputs,
                   n_outputs, function->n_given, function->n_outputs);
  if ((n_inputs && !call->inputs) || (n_outputs && !call->outputs))
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", n_inputs && !call->inputs ? "inputs" : "outputs");
  for (uint32_t i = 0; i < n_inputs; i++) {
    char name[96];
    if (!call->inputs[i])
      return DT_FAIL(DT_E_ARGUMENT, "%s: NULL; expected a tensor",
                     dt__given_name(function, i, name, sizeof(name)));
  }
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "called in a child after fork");
  return NULL;
}

// Checks what was given, and spreads integers.
static dt_status_t take_arguments(dt_call_t *call, uint32_t n_inputs, uint32_t n_outputs) {
  DT_TRY(check_arguments(call, n_inputs, n_outputs));
  return call->function->spread ? dt__session_spread(call->session, call->function, &call->inputs)
                                : NULL;
}

// Finds the variant for the call, whose session is inside an epoch; with none found it is outside.
static dt_status_t find_variant(dt_call_t *call, dt_variant_t **out) {
  dt_session_t *session = call->session;
  const dt_variant_list_t *list = atomic_load_explicit(&call->function->list, memory_order_acquire);
  dt_status_t status = dt__session_reserve(session, call->function, list);
  int64_t captured[DT_MOST_CAPTURES];
  dt_guard_args_t args =
      dt__guard_args(call->function, list, session->place, call->inputs, captured);
  call->modes = args.modes;
  dt_variant_t *found = status ? NULL : dt__list_find(list, &args, session->symbols);
  *out = found;
  if (!found)
    dt__reclaim_pause(session->slot);
  else if (session->runtime->budget.limited)
    dt__session_touch(session, found);
  return status;
}

// Answers by a variant that was made for this call alone; destroys it. Its guards were found to
// hold, and are run again for the symbols.
ALSO_RECORDED dt_status_t run_once(dt_call_t *call, dt_variant_t *variant, bool recorded) {
  dt_session_t *session = call->session;
  const dt_variant_list_t sizes = {.n_symbols = variant->n_symbols,
                                   .n_output_sizes = variant->n_output_sizes};
  dt_status_t status = dt__session_reserve(session, call->function, &sizes);
  if (!status) {
    for (uint32_t k = 0; k < variant->n_symbols; k++)
      session->symbols[k] = variant->once_symbols[k];
    status = run_variant(call, variant, recorded);
  }
  if (recorded)
    dt__record_drop(call->recorder);
  dt__variant_destroy(variant);
  return status;
}

// Rounds of looking and making before a call gives up on captures and modes that keep changing.
#define MOST_ROUNDS 16

ALSO_RECORDED dt_status_t run_missed(dt_call_t *call, dt_variant_t **out, bool recorded) {
  (void)atomic_fetch_add_explicit(&call->function->misses, 1, memory_order_relaxed);
  for (int round = 0; round < MOST_ROUNDS; round++) {
    dt_variant_t *once = NULL;
    DT_TRY(dt__function_cover(call->session, call->function, call->session->place, call->inputs,
                              true, call->control, &once));
    if (recorded)
      dt__record_part(call->recorder, DT_PROFILE_COMPILE);
    if (once)
      return run_once(call, once, recorded);
    dt__reclaim_resume(call->session->runtime->reclaim, call->session->slot);
    DT_TRY(find_variant(call, out));
    if (*out)
      return NULL;
  }
  return DT_FAIL(DT_E_STATE,
                 "variants that covered the arguments no longer do, %d times in a row: arguments, "
                 "captures or modes are changed during the call",
                 MOST_ROUNDS);
}

ALSO_RECORDED dt_status_t run_call(dt_call_t *call, bool recorded) {
  dt_variant_t *variant = NULL;
  DT_TRY(find_variant(call, &variant));
  if (recorded)
    dt__record_part(call->recorder, DT_PROFILE_GUARDS);
  if (!variant) {
    DT_TRY(run_missed(call, &variant, recorded));
    if (!variant)
      return NULL; // answered for once
  }
  return run_variant(call, variant, recorded);
}

// Tensors whose elements somebody took back; a session that queues its calls may do that.
static dt_status_t check_live(const dt_call_t *call) {
  const dt_function_t *function = call->function;
  for (uint32_t i = 0; i < function->n_inputs; i++) {
    char name[96];
    dt_status_t status = dt__tensor_check_live(call->inputs[i]);
    if (status)
      return dt__status_annotate(status, "%s", dt__input_name(function, i, name, sizeof(name)));
  }
  for (uint32_t k = 0; k < function->n_outputs && !call->shapes; k++) { // else there are none
    if (call->outputs[k])
      DT_TRY(dt__status_annotate(dt__tensor_check_live(call->outputs[k]), "output %u", k));
  }
  return NULL;
}

dt_status_t dt__call_check_queued(const dt_call_t *call) {
  if (call->function->answer == DT_ANSWER_EVALUATOR)
    return DT_FAIL(DT_E_UNSUPPORTED,
                   "the reference evaluator answers on the CPU only: call it in a "
                   "session made by dt_session_create, with host tensors");
  return check_live(call);
}

static dt_status_t enter_place(dt_call_t *call) {
  const dt_place_kind_t *kind = call->session->home->kind;
  return kind->enter ? kind->enter(call) : NULL;
}

static void leave_place(dt_call_t *call) {
  const dt_place_kind_t *kind = call->session->home->kind;
  if (kind->leave)
    kind->leave(call);
}

// The session is held.
ALSO_RECORDED dt_status_t call_held(dt_call_t *call, uint32_t n_inputs, uint32_t n_outputs,
                                    bool recorded) {
  dt_session_t *session = call->session;
  dt_function_t *function = call->function;
  DT_TRY(take_arguments(call, n_inputs, n_outputs));
  DT_TRY(dt__control_check(call->control));
  DT_TRY(enter_place(call));
  if (recorded)
    dt__record_part(call->recorder, DT_PROFILE_ARGUMENTS);
  dt_status_t status = run_call(call, recorded);
  leave_place(call);
  DT_TRY(status);
  (void)atomic_fetch_add_explicit(&function->counters[session->counter].calls, 1,
                                  memory_order_relaxed);
  if (dt__session_samples(session))
    dt__histogram_sample(function, call->inputs);
  return NULL;
}

static dt_status_t call_recorded(dt_call_t *call, uint32_t n_inputs, uint32_t n_outputs) {
  call->recorder = dt__record_begin(call->session, call->function);
  if (!call->recorder)
    return call_held(call, n_inputs, n_outputs, false);
  dt_status_t status = call_held(call, n_inputs, n_outputs, true);
  dt__record_end(call->recorder, status == NULL);
  return status;
}

// A profile runs, or calls are timed.
static dt_status_t call_timed(dt_call_t *call, uint32_t n_inputs, uint32_t n_outputs) {
  dt_function_t *function = call->function;
  bool timed = atomic_load_explicit(&function->runtime->times_calls, memory_order_relaxed);
  int64_t began = timed ? dt__now_ns() : 0;
  dt_status_t status = call_recorded(call, n_inputs, n_outputs);
  if (timed && !status)
    dt__latency_note(&function->latency, dt__now_ns() - began);
  return status;
}

static inline bool is_timed(const dt_runtime_t *runtime) {
  return atomic_load_explicit(&runtime->profile, memory_order_relaxed) != NULL ||
         atomic_load_explicit(&runtime->times_calls, memory_order_relaxed);
}

static dt_status_t call_by(dt_session_t *session, dt_function_t *function,
                           dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs,
                           uint32_t n_outputs, const dt_call_options_t *options) {
  dt_call_t call = {.session = session,
                    .function = function,
                    .inputs = inputs,
                    .outputs = outputs,
                    .mode = options && options->mode ? options->mode : function->call_mode};
  dt_control_t control;
  if (options && dt__control_is_wanted(options->deadline_ns, options->cancel)) {
    dt__control_init(&control, options->deadline_ns, options->cancel);
    call.control = &control;
  }
  dt_status_t status = NULL;
  if (dt__reclaim_enter(session->runtime->reclaim, session->slot)) {
    status = __builtin_expect(is_timed(session->runtime), false)
                 ? call_timed(&call, n_inputs, n_outputs)
                 : call_held(&call, n_inputs, n_outputs, false);
    dt__session_end(session);
  } else {
    status = dt__session_busy();
  }
  if (status) {
    (void)atomic_fetch_add_explicit(&function->failed_calls, 1, memory_order_relaxed);
    return dt__status_annotate(status, "function %s", function->name);
  }
  if (atomic_load_explicit(&function->runtime->garbage, memory_order_relaxed))
    dt__runtime_collect(function->runtime);
  return NULL;
}

dt_status_t dt_call(dt_session_t *session, dt_function_t *function, dt_tensor_t *const *inputs,
                    uint32_t n_inputs, dt_tensor_t **outputs, uint32_t n_outputs,
                    const dt_call_options_t *options) {
  dt_call_options_t own;
  if (!session || !function)
    return DT_FAIL(DT_E_ARGUMENT, "dt_call: %s: NULL", session ? "function" : "session");
  if (!options)
    return call_by(session, function, inputs, n_inputs, outputs, n_outputs, NULL);
  dt_status_t status = DT_OPTIONS_TAKE(dt_call_options_t, &own, options);
  if (!status)
    status = dt__check_call_mode(own.mode);
  if (status)
    return dt__status_annotate(status, "dt_call");
  return call_by(session, function, inputs, n_inputs, outputs, n_outputs, &own);
}

typedef dt_status_t (*within_fn_t)(dt_call_t *call, dt_variant_t **variant);

// The session is the call's, and its place entered, while `run` runs.
static dt_status_t within_session(dt_call_t *call, uint32_t n_inputs, within_fn_t run,
                                  dt_variant_t **variant) {
  dt_session_t *session = call->session;
  if (!dt__reclaim_enter(session->runtime->reclaim, session->slot))
    return dt__session_busy();
  dt_status_t status = take_arguments(call, n_inputs, call->function->n_outputs);
  if (!status)
    status = enter_place(call);
  if (!status) {
    status = run(call, variant);
    leave_place(call);
  }
  dt__session_end(session);
  return status;
}

static dt_status_t measure(dt_call_t *call, dt_variant_t **variant) {
  (void)variant;
  return run_call(call, false);
}

dt_status_t dt__call_measure(dt_session_t *session, dt_function_t *function,
                             dt_tensor_t *const *inputs, uint32_t n_inputs,
                             struct dt_output_shape_t *shapes) {
  dt_tensor_t *none = NULL;
  dt_call_t call = {.session = session,
                    .function = function,
                    .inputs = inputs,
                    .outputs = &none,
                    .mode = function->call_mode,
                    .shapes = shapes};
  return within_session(&call, n_inputs, measure, NULL);
}

// ---- By a variant ---------------------------------------------------------------------------------

dt_status_t dt__call_find(dt_session_t *session, dt_function_t *function,
                          dt_tensor_t *const *inputs, uint32_t n_inputs, dt_variant_t **out) {
  dt_tensor_t *none = NULL;
  dt_call_t call = {.session = session, .function = function, .inputs = inputs, .outputs = &none};
  *out = NULL;
  return within_session(&call, n_inputs, find_variant, out);
}

static dt_status_t run_by(dt_call_t *call, dt_variant_t **by) {
  dt_variant_t *variant = *by;
  dt_session_t *session = call->session;
  const dt_variant_list_t *list = atomic_load_explicit(&call->function->list, memory_order_acquire);
  const dt_variant_list_t sizes = {.n_symbols = variant->n_symbols,
                                   .n_output_sizes = variant->n_output_sizes};
  int64_t captured[DT_MOST_CAPTURES];
  DT_TRY(dt__session_reserve(session, call->function, &sizes));
  dt_guard_args_t args =
      dt__guard_args(call->function, list, session->place, call->inputs, captured);
  call->modes = args.modes;
  if (!dt__guards_run(variant->guards, &args, session->symbols))
    return DT_FAIL(DT_E_STATE, "the variant does not take these arguments");
  return run_variant(call, variant, false);
}

dt_status_t dt__call_by(dt_session_t *session, dt_function_t *function, dt_variant_t *variant,
                        dt_tensor_t *const *inputs, uint32_t n_inputs, dt_tensor_t **outputs) {
  dt_call_t call = {.session = session,
                    .function = function,
                    .inputs = inputs,
                    .outputs = outputs,
                    .mode = function->call_mode};
  return within_session(&call, n_inputs, run_by, &variant);
}

// ---- Measuring ------------------------------------------------------------------------------------

static dt_status_t time_guards(dt_call_t *call, uint32_t repeats, double *out_ns) {
  dt_session_t *session = call->session;
  dt_function_t *function = call->function;
  dt_variant_t *variant = NULL;
  DT_TRY(find_variant(call, &variant));
  if (!variant)
    return DT_FAIL(DT_E_STATE, "no variant covers these arguments; call with them first");
  int64_t begin = dt__now_ns();
  for (uint32_t i = 0; i < repeats; i++) {
    const dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_acquire);
    int64_t captured[DT_MOST_CAPTURES];
    dt_guard_args_t args = dt__guard_args(function, list, session->place, call->inputs, captured);
    variant = dt__list_find(list, &args, session->symbols);
  }
  *out_ns = (double)(dt__now_ns() - begin) / repeats;
  return NULL;
}

static dt_status_t guard_ns(dt_call_t *call, uint32_t n_inputs, uint32_t repeats, double *out_ns) {
  DT_TRY(take_arguments(call, n_inputs, call->function->n_outputs));
  DT_TRY(enter_place(call));
  dt_status_t status = time_guards(call, repeats, out_ns);
  leave_place(call);
  return status;
}

dt_status_t dt_function_guard_ns(dt_session_t *session, dt_function_t *function,
                                 dt_tensor_t *const *inputs, uint32_t n_inputs, uint32_t repeats,
                                 double *out_ns) {
  if (!session || !function || !out_ns || repeats == 0)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_guard_ns: %s",
                   !session    ? "session: NULL"
                   : !function ? "function: NULL"
                   : !out_ns   ? "out_ns: NULL"
                               : "repeats: 0; expected at least 1");
  *out_ns = 0;
  dt_tensor_t *none = NULL;
  dt_call_t call = {.session = session, .function = function, .inputs = inputs, .outputs = &none};
  dt_status_t status = NULL;
  if (dt__reclaim_enter(session->runtime->reclaim, session->slot)) {
    status = guard_ns(&call, n_inputs, repeats, out_ns);
    dt__session_end(session);
  } else {
    status = dt__session_busy();
  }
  return dt__status_annotate(status, "function %s: guard_ns", function->name);
}

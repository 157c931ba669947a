// SPDX-License-Identifier: Apache-2.0
// Functions: their declarations, checked and copied; their creation and end; and their getters.
#include "runtime/exec/function.h"

#include "runtime/base/dtype.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/apart.h"
#include "runtime/exec/better.h"
#include "runtime/exec/decide.h"
#include "runtime/exec/evict.h"
#include "runtime/exec/explain.h"
#include "runtime/exec/miss.h"
#include "runtime/exec/runtime.h"
#include "runtime/trace/hooks.h"

#include <stdio.h>
#include <string.h>

#define MOST_ARGUMENTS 4096
#define MOST_VARIANTS 4096
#define MOST_COMPILES 1048576

// ---- Checking declarations ------------------------------------------------------------------------

// "argument 'ids'" or "argument 2".
static const char *describe_input(const dt_input_decl_t *input, uint32_t position, char *buf,
                                  size_t bytes) {
  if (input->name && input->name[0])
    (void)snprintf(buf, bytes, "argument '%s'", input->name);
  else
    (void)snprintf(buf, bytes, "argument %u", position);
  return buf;
}

const char *dt__given_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes) {
  return describe_input(&function->given[index], index, buf, bytes);
}

const char *dt__input_name(const dt_function_t *function, uint32_t index, char *buf, size_t bytes) {
  return describe_input(&function->inputs[index], dt__input_position(function, index), buf, bytes);
}

static dt_status_t check_counts(const dt_function_options_t *options) {
  if (!options->name || !options->name[0])
    return DT_FAIL(DT_E_ARGUMENT, "name: %s; expected a name for messages",
                   options->name ? "empty" : "NULL");
  if (options->n_inputs > MOST_ARGUMENTS || options->n_outputs > MOST_ARGUMENTS)
    return DT_FAIL(DT_E_LIMIT, "%u inputs and %u outputs; expected at most %d of each",
                   options->n_inputs, options->n_outputs, MOST_ARGUMENTS);
  if (options->n_inputs && !options->inputs)
    return DT_FAIL(DT_E_ARGUMENT, "inputs: NULL; expected %u declarations", options->n_inputs);
  if (options->n_outputs == 0)
    return DT_FAIL(DT_E_ARGUMENT, "n_outputs: 0; expected at least 1");
  return NULL;
}

static dt_status_t check_options(const dt_function_options_t *options, dt_program_fn_t program) {
  if (options->answer != DT_ANSWER_COMPILED && options->answer != DT_ANSWER_EVALUATOR)
    return DT_FAIL(DT_E_ARGUMENT, "answer: %d is no dt_answer_t", (int)options->answer);
  if (options->variant_limit > MOST_VARIANTS)
    return DT_FAIL(DT_E_ARGUMENT, "variant_limit: %u; expected at most %d", options->variant_limit,
                   MOST_VARIANTS);
  if (options->compile_limit > MOST_COMPILES)
    return DT_FAIL(DT_E_ARGUMENT, "compile_limit: %u; expected at most %d", options->compile_limit,
                   MOST_COMPILES);
  DT_TRY(dt__check_call_mode(options->call_mode));
  if (options->hot_percent > 100)
    return DT_FAIL(DT_E_ARGUMENT, "hot_percent: %llu; expected at most 100",
                   (unsigned long long)options->hot_percent);
  if ((unsigned)options->dynamic > DT_DYNAMIC_STATIC)
    return DT_FAIL(DT_E_ARGUMENT, "dynamic: %d is no dt_dynamic_t", (int)options->dynamic);
  if ((unsigned)options->limit_action > DT_LIMIT_EVALUATOR)
    return DT_FAIL(DT_E_ARGUMENT, "limit_action: %d is no dt_limit_action_t",
                   (int)options->limit_action);
  dt_trace_request_t request = {
      .program = program, .n_inputs = options->n_inputs, .inputs = options->inputs};
  return dt__trace_check_declarations(&request);
}

// ---- Making ---------------------------------------------------------------------------------------

// The caller's declarations, of whatever sizes, as this version's in the arena. Names stay the
// caller's.
static dt_status_t take_dims(dt_arena_t *arena, dt_input_decl_t *input, uint32_t size) {
  uint32_t n = input->dims && input->rank <= DT_MAX_RANK ? input->rank : 0;
  dt_dim_decl_t *dims = n ? DT_ARENA_ARRAY(arena, dt_dim_decl_t, n) : NULL;
  if (n && !dims)
    return DT_NO_MEMORY();
  for (uint32_t axis = 0; axis < n; axis++)
    DT_TRY(DT_ELEMENT_TAKE(dt_dim_decl_t, &dims[axis], input->dims, size, axis));
  input->dims = dims;
  return NULL;
}

static dt_status_t take_inputs(dt_arena_t *arena, dt_function_options_t *options) {
  dt_input_decl_t *inputs = DT_ARENA_ARRAY(arena, dt_input_decl_t, options->n_inputs);
  if (!inputs)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < options->n_inputs; i++) {
    DT_TRY(DT_ELEMENT_TAKE(dt_input_decl_t, &inputs[i], options->inputs, options->input_size, i));
    DT_TRY(take_dims(arena, &inputs[i], options->dim_size));
  }
  options->inputs = inputs;
  return NULL;
}

static bool copy_text(dt_arena_t *arena, const char **text) {
  if (*text)
    *text = dt__arena_strdup(arena, *text);
  return *text != NULL;
}

// Taken declarations with names of their own, for the function's life.
static dt_status_t copy_inputs(dt_function_t *function, const dt_function_options_t *options) {
  dt_arena_t *arena = &function->arena;
  dt_function_options_t own = *options;
  own.input_size = sizeof(dt_input_decl_t);
  own.dim_size = sizeof(dt_dim_decl_t);
  DT_TRY(take_inputs(arena, &own));
  for (uint32_t i = 0; i < own.n_inputs; i++) {
    dt_input_decl_t *input = (dt_input_decl_t *)&own.inputs[i]; // our own copies
    if (input->name && !copy_text(arena, &input->name))
      return DT_NO_MEMORY();
    for (uint32_t axis = 0; input->dims && axis < input->rank; axis++) {
      dt_dim_decl_t *dim = (dt_dim_decl_t *)&input->dims[axis];
      if ((dim->name && !copy_text(arena, &dim->name)) || (dim->of && !copy_text(arena, &dim->of)))
        return DT_NO_MEMORY();
    }
  }
  function->given = function->inputs = own.inputs;
  return NULL;
}

static dt_status_t spread_inputs(dt_function_t *function) {
  DT_TRY(
      dt__spread_create(&function->arena, function->n_given, function->given, &function->spread));
  if (!function->spread)
    return NULL;
  function->inputs = function->spread->inputs;
  function->n_inputs = function->spread->n_inputs;
  if (function->n_inputs > MOST_ARGUMENTS)
    return DT_FAIL(DT_E_LIMIT, "%u inputs, integers counted by element; expected at most %d",
                   function->n_inputs, MOST_ARGUMENTS);
  return NULL;
}

static dt_status_t function_init(dt_function_t *function, const dt_function_options_t *options) {
  function->name = dt__arena_strdup(&function->arena, options->name);
  if (!function->name)
    return DT_NO_MEMORY();
  DT_TRY(dt__passes_choose(function->runtime, options->passes, &function->hooks));
  DT_TRY(copy_inputs(function, options));
  DT_TRY(spread_inputs(function));
  DT_TRY(dt__outputs_take(function, options));
  DT_TRY(dt__policy_init(function));
  dt_variant_list_t *list = dt__calloc(1, sizeof(*list));
  if (!list)
    return DT_NO_MEMORY();
  atomic_store_explicit(&function->list, list, memory_order_release);
  return NULL;
}

static void function_free(dt_function_t *function) {
  dt_variant_list_t *list = atomic_load_explicit(&function->list, memory_order_acquire);
  for (uint32_t i = 0; list && i < list->n; i++)
    dt__variant_destroy(list->items[i]);
  if (list)
    dt__decider_destroy((dt_decider_t *)(uintptr_t)list->decider);
  dt__free(list);
  while (function->overrides) {
    dt_override_t *item = function->overrides;
    function->overrides = item->next;
    dt_tensor_release(item->tensor);
    dt__free(item);
  }
  dt__free(function->generic_tried);
  dt__history_fini(&function->history);
  dt__refused_destroy(function->refused);
  dt__hooks_release(function->hooks);
  dt__arena_fini(&function->arena);
  dt__free(function);
}

static dt_status_t create(dt_runtime_t *runtime, dt_program_fn_t program, void *closure,
                          const dt_function_options_t *options, dt_function_t **out) {
  dt_function_t *function = dt__alloc_aligned(sizeof(*function), _Alignof(dt_function_t));
  if (!function)
    return DT_NO_MEMORY();
  *function = (dt_function_t){
      .program = program,
      .closure = closure,
      .closure_free = options->closure_free,
      .runtime = runtime, // a reference from when nothing can fail
      .n_given = options->n_inputs,
      .n_inputs = options->n_inputs,
      .n_outputs = options->n_outputs,
      .answer = options->answer,
      .dynamic = options->dynamic,
      .limit_action = options->limit_action,
      .compile_limit =
          options->compile_limit ? options->compile_limit : (uint32_t)runtime->params.compile_limit,
      .variant_limit =
          options->variant_limit ? options->variant_limit : (uint32_t)runtime->params.variant_limit,
      .hot.percent = (uint32_t)(options->hot_percent ? options->hot_percent
                                                     : (uint64_t)runtime->params.hot_sizes),
      .strict_fp = options->strict_fp,
      .max_call_bytes = options->max_call_bytes ? options->max_call_bytes
                                                : (uint64_t)runtime->params.max_call_mib << 20,
      .call_mode = options->call_mode                ? options->call_mode
                   : runtime->params.reduce_overhead ? DT_CALL_REDUCE_OVERHEAD
                                                     : DT_CALL_PLAIN};
  atomic_init(&function->refs, 1);
  dt__arena_init(&function->arena, 1024);
  dt_status_t status = function_init(function, options);
  if (!status)
    status = dt__mutex_init(&function->mutex, DT_RANK_FUNCTION);
  if (status) {
    function_free(function);
    return status;
  }
  dt__cond_init(&function->idle);
  dt_runtime_retain(runtime);
  dt__budget_join(&runtime->budget, &function->holder, &dt__function_holder);
  *out = function;
  return NULL;
}

static dt_status_t take_and_create(dt_runtime_t *runtime, dt_program_fn_t program, void *closure,
                                   const dt_function_options_t *options, dt_function_t **out) {
  if (!runtime || !program)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? "program" : "runtime");
  if (!options)
    return DT_FAIL(DT_E_ARGUMENT, "options: NULL; expected name, inputs and outputs");
  dt_function_options_t own;
  dt_arena_t arena;
  DT_TRY(DT_OPTIONS_TAKE(dt_function_options_t, &own, options));
  DT_TRY(check_counts(&own));
  dt__arena_init(&arena, 1024);
  dt_status_t status = take_inputs(&arena, &own);
  if (!status)
    status = check_options(&own, program);
  if (!status)
    status = create(runtime, program, closure, &own, out);
  dt__arena_fini(&arena);
  return status;
}

dt_status_t dt_function_create(dt_runtime_t *runtime, dt_program_fn_t program, void *closure,
                               const dt_function_options_t *options, dt_function_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT,
                   "dt_function_create: out: NULL; expected where to put the function");
  *out = NULL;
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_create in a child after fork");
  return dt__status_annotate(take_and_create(runtime, program, closure, options, out),
                             "dt_function_create");
}

void dt_function_retain(dt_function_t *function) {
  if (function)
    (void)atomic_fetch_add_explicit(&function->refs, 1, memory_order_relaxed);
}

void dt_function_release(dt_function_t *function) {
  if (!function || atomic_fetch_sub_explicit(&function->refs, 1, memory_order_acq_rel) != 1)
    return;
  dt_runtime_t *runtime = function->runtime;
  dt__build_end(function);
  dt__budget_leave(&runtime->budget, &function->holder);
  dt__decider_stop(function);
  dt__better_stop(function);
  dt__hot_stop(function);
  if (!dt__forked()) {
    (void)pthread_cond_destroy(&function->idle);
    dt__mutex_fini(&function->mutex);
  }
  void (*closure_free)(void *closure) = function->closure_free;
  void *closure = function->closure;
  function_free(function);
  if (!dt__forked())
    dt__runtime_collect(runtime); // its old bindings hold the user's tensors
  if (closure_free)
    closure_free(closure);
  if (!dt__forked())
    dt__heap_trim(); // constants and code are much of what there is
  dt_runtime_release(runtime);
}

// ---- Declarations ---------------------------------------------------------------------------------

const dt_input_decl_t *dt_function_input(const dt_function_t *function, uint32_t index) {
  return function && index < function->n_given ? &function->given[index] : NULL;
}

const dt_dim_decl_t *dt_function_input_dim(const dt_function_t *function, uint32_t index,
                                           uint32_t dim) {
  const dt_input_decl_t *input = dt_function_input(function, index);
  return input && input->dims && dim < input->rank ? &input->dims[dim] : NULL;
}

const dt_output_decl_t *dt_function_output(const dt_function_t *function, uint32_t index) {
  return function && function->outputs && index < function->n_outputs ? &function->outputs[index]
                                                                      : NULL;
}

uint32_t dt_function_n_inputs(const dt_function_t *function) {
  return function ? function->n_given : 0;
}

uint32_t dt_function_n_outputs(const dt_function_t *function) {
  return function ? function->n_outputs : 0;
}

// ---- Preparing ------------------------------------------------------------------------------------

// A variant that a call was answered by may still have its first kernels.
static dt_status_t wait_for_best(dt_function_t *function, dt_control_t *control) {
  dt__mutex_lock(&function->mutex);
  dt_status_t status = dt__better_wait(function, control);
  dt__mutex_unlock(&function->mutex);
  return status;
}

static dt_status_t prepare(dt_function_t *function, const dt_prepare_options_t *options) {
  dt_prepare_options_t own;
  DT_TRY(DT_OPTIONS_TAKE(dt_prepare_options_t, &own, options));
  dt_place_t *home = NULL;
  if (own.form > DT_PREPARE_FIRST)
    return DT_FAIL(DT_E_ARGUMENT, "form: %u; expected a dt_prepare_form_t, at most %d", own.form,
                   DT_PREPARE_FIRST);
  if (own.layouts > DT_PREPARE_STRIDED)
    return DT_FAIL(DT_E_ARGUMENT, "layouts: %llu; expected a dt_prepare_layout_t, at most %d",
                   (unsigned long long)own.layouts, DT_PREPARE_STRIDED);
  DT_TRY(dt__runtime_place(function->runtime, own.device, own.ordinal, &home));
  if (home->kind->queues && function->answer == DT_ANSWER_EVALUATOR)
    return DT_FAIL(DT_E_UNSUPPORTED, "the reference evaluator answers on the CPU only");
  dt_control_t control;
  bool wanted = dt__control_is_wanted(own.deadline_ns, own.cancel);
  if (wanted)
    dt__control_init(&control, own.deadline_ns, own.cancel);
  dt_control_t *within = wanted ? &control : NULL;
  bool first = own.form == DT_PREPARE_FIRST;
  for (uint32_t layout = 0; layout <= own.layouts; layout++)
    DT_TRY(dt__function_cover_layout(function, home->number, layout, first, within));
  return first ? NULL : wait_for_best(function, within);
}

dt_status_t dt_function_prepare(dt_function_t *function, const dt_prepare_options_t *options) {
  if (!function)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_prepare: function: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_prepare in a child after fork");
  return dt__status_annotate(prepare(function, options), "function %s: prepare", function->name);
}

dt_status_t dt_function_freeze(dt_function_t *function, bool frozen) {
  if (!function)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_freeze: function: NULL");
  if (dt__forked())
    return DT_FAIL(DT_E_FORKED, "dt_function_freeze in a child after fork");
  dt__mutex_lock(&function->mutex);
  function->frozen = frozen;
  dt__mutex_unlock(&function->mutex);
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// One program through compiled code at all its sets of sizes, in two orders, and once more after
// dt_function_prepare where that compiles.
//
// What the model refuses must get a status in every order, and make no variant; what it takes must
// be answered as the evaluator answers, by compiled code. Variants are counted against regions: the
// different lists of answers (and layouts) among the sets that are taken. Broadcasting asks, too:
// whether a pair of sizes may be repeated, where that differs from set to set.
#include "test/conform/guards/size_program.h"

#include "ductile/experimental.h"
#include "lower/graph/eval.h"
#include "lower/graph/eval_compare.h"
#include "runtime/base/status.h"
#include "runtime/tensor/tensor.h"
#include "runtime/trace/trace.h"
#include "test/device/on_device.h"
#include "test/support/report_as_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct call_t {
  void *memory[SP_INPUTS];
  dt_tensor_t *inputs[SP_INPUTS];
  sp_result_t model;
  dt_eval_value_t expected; // in the run's arena
  uint32_t layout;
} call_t;

typedef struct run_t {
  dt_runtime_t *runtime;
  const sp_program_t *p;
  sp_outcome_t *out;
  dt_dim_decl_t dims[SP_SLOTS];
  dt_input_decl_t decls[SP_INPUTS];
  sp_replay_t replay;
  dt_arena_t arena;
  call_t calls[SP_SETS];
  uint32_t least; // variants
} run_t;

const char *sp_fault_name(sp_fault_t fault) {
  static const char *const names[] = {"right",   "wrong",    "took what it must refuse",
                                      "refused", "variants", "harness"};
  return names[fault];
}

static bool faulty(run_t *run, sp_fault_t fault, uint32_t set, const char *fmt, ...)
    DT_PRINTF(4, 5);
static bool faulty(run_t *run, sp_fault_t fault, uint32_t set, const char *fmt, ...) {
  sp_outcome_t *out = run->out;
  dt_text_t text;
  dt__text_init(&text);
  if (set < run->p->n_sets)
    sp_print_set(run->p, set, &text);
  va_list args;
  va_start(args, fmt);
  char what[600];
  (void)vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  out->fault = fault;
  out->set = set;
  (void)snprintf(out->text, sizeof out->text, "%s: %s", dt__text_str(&text), what);
  dt__text_fini(&text);
  return false;
}

static bool good(run_t *run, sp_fault_t fault, uint32_t set, const char *what, dt_status_t status) {
  if (!status)
    return true;
  (void)faulty(run, fault, set, "%s: %s: %s", what, dt_code_name(dt_status_code(status)),
               dt_status_message(status));
  dt_status_free(status);
  return false;
}

// ---- Arguments ------------------------------------------------------------------------------------
static void declare(run_t *run) {
  static const char *const names[] = {"a", "b", "c", "d"};
  const sp_program_t *p = run->p;
  for (uint32_t s = 0; s < SP_SLOTS; s++) {
    const sp_slot_t *slot = &p->slots[s];
    run->dims[s] = (dt_dim_decl_t){.name = slot->name >= 0 ? names[slot->name] : NULL,
                                   .min = slot->min,
                                   .max = slot->max,
                                   .value = slot->value,
                                   .is_static = slot->is_static};
  }
  for (uint32_t k = 0; k < p->n_inputs; k++)
    run->decls[k] =
        (dt_input_decl_t){.dtype = DT_F32, .rank = p->ranks[k], .dims = &run->dims[k * SP_RANK]};
}

// Whole numbers, so that every sum is exact.
static bool make_input(run_t *run, uint32_t set, uint32_t k, call_t *call) {
  const sp_set_t *sizes_of = &run->p->sets[set];
  int64_t sizes[SP_RANK], strides[SP_RANK], span = 1;
  uint32_t rank = run->p->ranks[k];
  for (uint32_t d = rank; d-- > 0;) {
    sizes[d] = sizes_of->sizes[k * SP_RANK + d];
    strides[d] = span;
    span *= sizes[d] ? sizes[d] : 1;
    span += sizes_of->strided && d + 1 == rank;
  }
  float *data = malloc(((size_t)span + 1) * sizeof(float));
  call->memory[k] = data;
  for (int64_t i = 0; data && i <= span; i++)
    data[i] = (float)((i * 7 + (int64_t)k * 3 + set) % 5 - 2);
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = DT_F32,
                           .rank = rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = data};
  if (!data || !good(run, SP_HARNESS, set, "tensor", dt_tensor_create(&desc, &call->inputs[k])))
    return false;
  call->layout = call->layout * 2 + !dt__tensor_is_contiguous(call->inputs[k]);
  return true;
}

// ---- What is expected -----------------------------------------------------------------------------
static bool same_answers(const sp_result_t *a, const sp_result_t *b) {
  return a->n_answers == b->n_answers &&
         memcmp(a->answers, b->answers, a->n_answers * sizeof(*a->answers)) == 0;
}

// The evaluator on a trace of its own, which must answer questions as the model does.
static bool evaluate(run_t *run, uint32_t set, const dt_traced_t *traced) {
  call_t *call = &run->calls[set];
  dt_guards_t *guards = NULL;
  if (!good(
          run, SP_REFUSED, set, "guards",
          dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, NULL, &guards)))
    return false;
  int64_t *symbols = calloc(dt__guards_symbol_count(guards) + 1, sizeof(*symbols));
  dt_eval_arg_t args[SP_INPUTS];
  for (uint32_t k = 0; k < run->p->n_inputs; k++)
    args[k] = (dt_eval_arg_t){.data = dt_tensor_data(call->inputs[k]),
                              .sizes = dt_tensor_sizes(call->inputs[k]),
                              .strides = dt_tensor_strides(call->inputs[k])};
  dt_eval_options_t options = {.error_bounds = true};
  bool right =
      symbols && dt__guards_run(guards, &(dt_guard_args_t){.inputs = call->inputs}, symbols);
  if (!right)
    (void)faulty(run, SP_WRONG, set, "the guards of a trace refuse its own example");
  right = right && good(run, SP_REFUSED, set, "evaluator",
                        dt__graph_eval(traced->graph, symbols, args, &options, &run->arena,
                                       &call->expected));
  free(symbols);
  dt__guards_destroy(guards);
  return right;
}

static bool expect(run_t *run, uint32_t set) {
  call_t *call = &run->calls[set];
  sp_model(run->p, set, &call->model);
  for (uint32_t k = 0; k < run->p->n_inputs; k++)
    if (!make_input(run, set, k, call))
      return false;
  if (call->model.refused)
    return true;
  sp_result_t record = {0};
  sp_replay_t replay = {run->p, &record};
  dt_trace_request_t request = {.name = "oracle",
                                .program = sp_replay,
                                .closure = &replay,
                                .n_inputs = run->p->n_inputs,
                                .n_outputs = 1,
                                .inputs = run->decls,
                                .example = call->inputs};
  dt_traced_t *traced = NULL;
  bool right = good(run, SP_REFUSED, set, "trace", dt__trace_run(&request, &traced)) &&
               evaluate(run, set, traced);
  dt__traced_destroy(traced);
  if (right && !same_answers(&record, &call->model))
    return faulty(run, SP_WRONG, set, "a trace answers its questions otherwise than the numbers");
  bool same = right && call->expected.rank == call->model.rank;
  for (uint32_t d = 0; same && d < call->model.rank; d++)
    same = call->expected.sizes[d] == call->model.sizes[d];
  if (right && !same)
    return faulty(run, SP_WRONG, set, "sizes of the result differ from the model's");
  return right;
}

// Whether some set repeats a size of this pair.
static bool pair_repeats(const run_t *run, uint32_t pair) {
  for (uint32_t k = 0; k < run->p->n_sets; k++)
    if (!run->calls[k].model.refused && run->calls[k].model.pairs[pair] == SP_PAIR_REPEATED)
      return true;
  return false;
}

static bool same_region(const run_t *run, const call_t *a, const call_t *b, bool with_pairs) {
  if (a->layout != b->layout || !same_answers(&a->model, &b->model))
    return false;
  for (uint32_t k = 0; with_pairs && k < a->model.n_pairs; k++)
    if ((a->model.pairs[k] == SP_PAIR_EQUAL) != (b->model.pairs[k] == SP_PAIR_EQUAL) &&
        pair_repeats(run, k))
      return false;
  return true;
}

static uint32_t count_regions(const run_t *run, bool with_pairs) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < run->p->n_sets; k++) {
    bool known = run->calls[k].model.refused;
    for (uint32_t b = 0; b < k && !known; b++)
      known = !run->calls[b].model.refused &&
              same_region(run, &run->calls[b], &run->calls[k], with_pairs);
    n += !known;
  }
  return n;
}

static void count(run_t *run) {
  for (uint32_t k = 0; k < run->p->n_sets; k++)
    *(run->calls[k].model.refused ? &run->out->refused : &run->out->accepted) += 1;
  run->out->regions = count_regions(run, true);
  run->least = run->p->strided ? 0 : count_regions(run, false);
}

// ---- Calls ----------------------------------------------------------------------------------------
static bool compare(run_t *run, uint32_t set, const dt_tensor_t *got) {
  const dt_eval_value_t *expected = &run->calls[set].expected;
  bool same = expected->rank == dt_tensor_rank(got) && dt_tensor_dtype(got) == expected->dtype;
  for (uint32_t d = 0; same && d < expected->rank; d++)
    same = expected->sizes[d] == dt_tensor_sizes(got)[d];
  if (!same)
    return faulty(run, SP_WRONG, set, "rank, dtype or sizes differ from the evaluator's");
  dt_eval_report_t report = {0};
  same = dt__eval_compare(expected, dt_tensor_data(got), NULL, &report);
  run->out->compared += report.compared;
  run->out->uncertain += report.uncertain;
  if (same)
    return true;
  dt_text_t text;
  dt__text_init(&text);
  dt__eval_report_print(expected, &report, &text);
  (void)faulty(run, SP_WRONG, set, "%s", dt__text_str(&text));
  dt__text_fini(&text);
  return false;
}

static bool call_once(run_t *run, dt_session_t *session, dt_function_t *function, uint32_t set) {
  call_t *call = &run->calls[set];
  dt_tensor_t *got = NULL;
  dt_status_t status =
      on_device_call(session, function, run->decls, call->inputs, run->p->n_inputs, &got, 1);
  run->out->calls++;
  bool right = true;
  if (call->model.refused && !status)
    right = faulty(run, SP_TOOK, set, "sizes that break a rule were answered");
  else if (call->model.refused && dt_status_code(status) != DT_E_SHAPE)
    right = good(run, SP_WRONG, set, "not refused as DT_E_SHAPE", status), status = NULL;
  else if (!call->model.refused)
    right = good(run, SP_REFUSED, set, "call", status) && compare(run, set, got), status = NULL;
  dt_status_free(status);
  dt_tensor_release(got);
  return right;
}

// More variants than regions are compiles for nothing; fewer than lists of answers cannot all be
// right (but a variant for strided arguments takes contiguous ones, too). One made without example
// sizes may be of a region that no set falls into.
static bool check_variants(run_t *run, dt_function_t *function, bool prepared) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  sp_outcome_t *out = run->out;
  if (!good(run, SP_HARNESS, SP_SETS, "stats", dt_function_counters(function, &stats)))
    return false;
  out->variants += stats.variants;
  if (stats.evaluator_calls)
    return faulty(run, SP_WRONG, SP_SETS, "the evaluator answered a call");
  if (stats.variants >= run->least && stats.variants <= out->regions + prepared)
    return true;
  char *explained = NULL;
  dt_status_free(report_as_text(function, NULL, 0, DT_REPORT_VARIANTS, &explained));
  (void)faulty(run, SP_VARIANTS, SP_SETS, "%u variants for %u to %u regions%s\n%s", stats.variants,
               run->least, out->regions, prepared ? ", prepared" : "", explained ? explained : "");
  dt_text_free(explained);
  return false;
}

typedef enum order_t { FORWARD, SHUFFLED, PREPARED, ORDER_COUNT } order_t;

static void make_order(const sp_program_t *p, order_t order, uint32_t *at) {
  uint64_t random = p->seed * 31 + 5;
  for (uint32_t k = 0; k < p->n_sets; k++)
    at[k] = k;
  for (uint32_t k = p->n_sets; order != FORWARD && k > 1; k--) {
    uint32_t other = sp_below(&random, k), kept = at[k - 1];
    at[k - 1] = at[other];
    at[other] = kept;
  }
}

static bool run_order(run_t *run, order_t order) {
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "sizes",
                                   .n_inputs = run->p->n_inputs,
                                   .n_outputs = 1,
                                   .inputs = run->decls,
                                   .variant_limit = 256};
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  uint32_t at[SP_SETS];
  make_order(run->p, order, at);
  bool right =
      good(run, SP_HARNESS, SP_SETS, "function",
           dt_function_create(run->runtime, sp_replay, &run->replay, &options, &function)) &&
      good(run, SP_HARNESS, SP_SETS, "session", on_device_session(run->runtime, &session));
  bool prepared = order == PREPARED;
  if (right && prepared) {
    // A question that no declaration answers cannot be compiled ahead.
    dt_status_t status = on_device_prepare(function);
    prepared = status == NULL;
    dt_status_free(status);
  }
  if (right && (order != PREPARED || prepared)) {
    for (uint32_t k = 0; right && k < run->p->n_sets; k++)
      right = call_once(run, session, function, at[k]);
    right = right && check_variants(run, function, prepared);
    run->out->prepared |= prepared;
  }
  dt_session_destroy(session);
  dt_function_release(function);
  return right;
}

void sp_run(dt_runtime_t *runtime, const sp_program_t *p, sp_outcome_t *out) {
  run_t *run = calloc(1, sizeof(*run));
  memset(out, 0, sizeof(*out));
  *run = (run_t){.runtime = runtime, .p = p, .out = out, .replay = {p, NULL}};
  dt__arena_init(&run->arena, 0);
  declare(run);
  bool right = true;
  for (uint32_t k = 0; right && k < p->n_sets; k++)
    right = expect(run, k);
  count(run);
  for (order_t order = FORWARD; right && order < ORDER_COUNT; order++)
    right = run_order(run, order);
  for (uint32_t k = 0; k < p->n_sets; k++)
    for (uint32_t i = 0; i < p->n_inputs; i++) {
      dt_tensor_release(run->calls[k].inputs[i]);
      free(run->calls[k].memory[i]);
    }
  dt__arena_fini(&run->arena);
  free(run);
}

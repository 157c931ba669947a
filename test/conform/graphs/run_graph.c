// SPDX-License-Identifier: Apache-2.0
// The child process of rg_run: arguments, calls, the evaluator's answers, and comparing.
#include "test/conform/graphs/run_graph.h"

#include "ductile/experimental.h"
#include "lower/graph/eval.h"
#include "lower/graph/eval_compare.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/tensor/tensor.h"
#include "runtime/trace/hooks.h"
#include "runtime/trace/trace.h"
#include "test/conform/graphs/random_calls.h"
#include "test/device/on_device.h"
#include "test/support/report_as_text.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const char *rg_kind_name(rg_kind_t kind) {
  static const char *const names[] = {"right",   "wrong", "refused", "variants",
                                      "crashed", "hung",  "harness"};
  return names[kind];
}

bool rg_failed(rg_run_t *run, rg_kind_t kind, const char *what, dt_status_t status) {
  if (!status)
    return false;
  run->out->kind = kind;
  run->out->code = (int)dt_status_code(status);
  (void)snprintf(run->out->text, sizeof(run->out->text), "%s: %s: %s", what,
                 dt_code_name(dt_status_code(status)), dt_status_message(status));
  dt_status_free(status);
  return true;
}

// ---- Declarations ----------------------------------------------------------------------------------
// Ranges of one size, or of 0 and 1, are among those of the calls: what moves along such a dim
// moves no more.
static dt_dim_decl_t declare_symbol(const rg_program_t *p, uint32_t symbol) {
  static const char *const names[RG_SYMBOLS] = {"m", "n", "k"};
  dt_dim_decl_t out = {.name = names[symbol]};
  if (!p->bounded || p->n_calls == 0)
    return out;
  int64_t most = p->calls[0].sizes[symbol];
  out.min = most;
  for (uint32_t k = 1; k < p->n_calls; k++) {
    int64_t size = p->calls[k].sizes[symbol];
    out.min = size < out.min ? size : out.min;
    most = size > most ? size : most;
  }
  out.max = most ? most : 1; // 0: no bound
  return out;
}

static bool prepare(rg_run_t *run, void **constant_memory) {
  const rg_program_t *p = run->p;
  static const int64_t none[RG_SYMBOLS] = {0};
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    const rg_node_t *node = &p->nodes[i];
    if (node->op == RG_constant && !rg_make_tensor(run, i, none, RG_LAYOUT_PLAIN, p->seed * 77,
                                                   &constant_memory[i], &run->constants[i]))
      return false;
    if (node->op != RG_input)
      continue;
    uint32_t k = run->n_inputs++;
    run->input_nodes[k] = i;
    for (uint32_t d = 0; d < node->rank; d++) {
      if (node->numbers[d] < 0)
        run->dims[k][d] = declare_symbol(p, (uint32_t)(-1 - node->numbers[d]));
      else
        run->dims[k][d] = (dt_dim_decl_t){.value = node->numbers[d], .is_static = true};
    }
    run->decls[k] =
        (dt_input_decl_t){.dtype = node->dtype, .rank = node->rank, .dims = run->dims[k]};
  }
  run->replay = (rg_replay_t){.program = p, .constants = run->constants};
  run->calling = run->replay;
  run->calling.calls = true;
  return !rg_failed(run, RG_HARNESS, "ops", rg_calls_hooks(&run->hooks));
}

// ---- One call against the evaluator -----------------------------------------------------------------
bool rg_oracle(rg_run_t *run, const rg_args_t *args, dt_arena_t *arena, dt_traced_t **traced,
               dt_eval_value_t *out) {
  dt_trace_request_t request = rg_request(run, "oracle", args->tensors);
  if (rg_failed(run, RG_REFUSED, "trace", dt__trace_run(&request, traced)))
    return false;
  dt_guards_t *guards = NULL;
  if (rg_failed(run, RG_REFUSED, "guards", rg_guards(*traced, &guards)))
    return false;
  int64_t *symbols = calloc(dt__guards_symbol_count(guards) + 1, sizeof(*symbols));
  dt_eval_arg_t eval_args[RG_NODES];
  for (uint32_t k = 0; k < run->n_inputs; k++)
    eval_args[k] = (dt_eval_arg_t){.data = dt_tensor_data(args->tensors[k]),
                                   .sizes = dt_tensor_sizes(args->tensors[k]),
                                   .strides = dt_tensor_strides(args->tensors[k])};
  bool right = symbols && rg_guards_take(run, guards, args->tensors, symbols);
  dt_eval_options_t options = {.error_bounds = true};
  right = right && !rg_failed(run, RG_REFUSED, "evaluator",
                              dt__graph_eval(rg_with_updates(arena, (*traced)->graph), symbols,
                                             eval_args, &options, arena, out));
  free(symbols);
  dt__guards_destroy(guards);
  return right;
}

static void wrong(rg_run_t *run, uint32_t call, uint32_t output, const char *what) {
  run->out->kind = RG_WRONG;
  run->out->call = call;
  run->out->output = output;
  (void)snprintf(run->out->text, sizeof(run->out->text), "call %u, output %u (%%%u): %s", call,
                 output, run->p->outputs[output], what);
}

static bool compare_output(rg_run_t *run, uint32_t call, uint32_t k,
                           const dt_eval_value_t *expected, const dt_tensor_t *got) {
  const rg_node_t *node = &run->p->nodes[run->p->outputs[k]];
  bool same = expected->rank == dt_tensor_rank(got) && expected->dtype == dt_tensor_dtype(got);
  for (uint32_t d = 0; same && d < expected->rank; d++)
    same = expected->sizes[d] == dt_tensor_sizes(got)[d];
  if (!same) {
    wrong(run, call, k, "rank, dtype or sizes differ from the evaluator's");
    return false;
  }
  same = expected->rank == node->rank && expected->dtype == node->dtype;
  for (uint32_t d = 0; same && d < expected->rank; d++)
    same = expected->sizes[d] == node->dims[d].at[call];
  if (!same) {
    wrong(run, call, k, "rank, dtype or sizes differ from the generator's");
    return false;
  }
  dt_eval_report_t report = {0};
  bool good = dt__eval_compare(expected, dt_tensor_data(got), NULL, &report);
  run->out->compared += report.compared;
  run->out->uncertain += report.uncertain;
  if (!good) {
    dt_text_t text;
    dt__text_init(&text);
    dt__eval_report_print(expected, &report, &text);
    wrong(run, call, k, dt__text_str(&text));
    dt__text_fini(&text);
  }
  return good;
}

// `args` as the call left them.
static bool compare(rg_run_t *run, uint32_t call, const rg_args_t *args,
                    dt_tensor_t *const *outputs) {
  dt_arena_t arena;
  dt__arena_init(&arena, 0);
  dt_traced_t *traced = NULL;
  dt_eval_value_t expected[RG_OUTPUTS + RG_UPDATES];
  rg_args_t fresh = {0};
  bool good = rg_make_args(run, call, &fresh) && rg_oracle(run, &fresh, &arena, &traced, expected);
  for (uint32_t k = 0; good && k < run->p->n_outputs; k++)
    good = compare_output(run, call, k, &expected[k], outputs[k]);
  const char *what = NULL;
  if (good &&
      !rg_same_memory(run, traced->graph, args, &fresh, expected + run->p->n_outputs, &what)) {
    wrong(run, call, 0, what);
    good = false;
  }
  rg_free_args(&fresh);
  dt__traced_destroy(traced);
  dt__arena_fini(&arena);
  return good;
}

// ---- Orders of outputs ----------------------------------------------------------------------------
typedef struct orders_t {
  dt_output_decl_t outputs[RG_OUTPUTS];
  uint32_t dims[RG_OUTPUTS][RG_RANK];
} orders_t;

// Every third program asks for its outputs with their dims turned.
static bool asks_orders(const rg_run_t *run) { return run->p->n_nodes % 3 == 1; }

static void ask_orders(const rg_run_t *run, orders_t *orders, dt_function_options_t *options) {
  memset(orders, 0, sizeof(*orders));
  for (uint32_t k = 0; k < run->p->n_outputs; k++) {
    const rg_node_t *node = &run->p->nodes[run->p->outputs[k]];
    dt_output_decl_t *output = &orders->outputs[k];
    for (uint32_t d = 0; d < node->rank; d++)
      orders->dims[k][d] = (d + k + 1) % node->rank;
    if (node->rank && !dt__dtype_is_packed(node->dtype))
      *output = (dt_output_decl_t){.order = orders->dims[k], .rank = node->rank};
  }
  options->outputs = orders->outputs;
  options->output_size = sizeof(orders->outputs[0]);
}

// Outputs in another order, as the ones they are compared with.
static bool in_row_major(rg_run_t *run, dt_session_t *session, dt_tensor_t **outputs) {
  for (uint32_t k = 0; k < run->p->n_outputs; k++) {
    dt_tensor_t *from = outputs[k];
    if (!from || dt__tensor_is_contiguous(from))
      continue;
    outputs[k] = NULL;
    dt_status_t status = dt_tensor_create_empty(from->dtype, from->rank, from->sizes, &outputs[k]);
    if (!status)
      status = dt_tensor_read(session, from, outputs[k]->data, dt__tensor_bytes(from));
    dt_tensor_release(from);
    if (rg_failed(run, RG_HARNESS, "an output in row-major order", status))
      return false;
  }
  return true;
}

// Outputs of the caller's own, filled with something else first, for every third call.
static bool own_outputs(rg_run_t *run, uint32_t call, dt_tensor_t **outputs) {
  for (uint32_t k = 0; call % 3 == 2 && !asks_orders(run) && k < run->p->n_outputs; k++) {
    const rg_node_t *node = &run->p->nodes[run->p->outputs[k]];
    int64_t sizes[RG_RANK];
    for (uint32_t d = 0; d < node->rank; d++)
      sizes[d] = node->dims[d].at[call];
    if (rg_failed(run, RG_HARNESS, "output",
                  dt_tensor_create_empty(node->dtype, node->rank, sizes, &outputs[k])))
      return false;
    memset(dt_tensor_data(outputs[k]), 0x5A,
           (size_t)dt_tensor_count(outputs[k]) * dt_dtype_size(node->dtype));
  }
  return true;
}

static bool run_call(rg_run_t *run, dt_session_t *session, dt_function_t *function, uint32_t call) {
  rg_args_t args;
  dt_tensor_t *outputs[RG_OUTPUTS] = {NULL};
  char what[64];
  (void)snprintf(what, sizeof(what), "call %u", call);
  run->out->call = call;
  bool good = rg_make_args(run, call, &args) && own_outputs(run, call, outputs) &&
              !rg_failed(run, RG_REFUSED, what,
                         on_device_call(session, function, run->decls, args.tensors, run->n_inputs,
                                        outputs, run->p->n_outputs)) &&
              in_row_major(run, session, outputs) && compare(run, call, &args, outputs);
  for (uint32_t k = 0; k < run->p->n_outputs; k++)
    dt_tensor_release(outputs[k]);
  rg_free_args(&args);
  return good;
}

// ---- Variants -------------------------------------------------------------------------------------
// How a trace sees an argument: contiguous, rows apart, or strided throughout.
static uint32_t layout_class(const dt_tensor_t *tensor) {
  if (dt__tensor_is_contiguous(tensor))
    return 0;
  return dt_tensor_strides(tensor)[dt_tensor_rank(tensor) - 1] == 1 ? 1 : 2;
}

// The number of different layouts, one variant each, that the calls come in.
static uint32_t count_layouts(rg_run_t *run) {
  uint64_t seen[RG_SHAPES + 1] = {0};
  uint32_t n = run->p->prepare;
  for (uint32_t call = 0; call < run->p->n_calls; call++) {
    rg_args_t args;
    uint64_t key = 0;
    if (!rg_make_args(run, call, &args))
      return 0;
    for (uint32_t k = 0; k < args.n; k++)
      key = key * 3 + layout_class(args.tensors[k]);
    rg_free_args(&args);
    bool known = false;
    for (uint32_t k = 0; k < n; k++)
      known |= seen[k] == key;
    if (!known)
      seen[n++] = key;
  }
  return n;
}

static void check_graphs(rg_run_t *run, const dt_function_counters_t *stats) {
  rg_outcome_t *out = run->out;
  const char *why = NULL;
  if (!on_device_graphs() || on_device_were_graphs(stats, &out->graph_calls, &why) ||
      out->kind != RG_RIGHT)
    return;
  out->kind = RG_WRONG;
  (void)snprintf(out->text, sizeof(out->text), "%d of %d calls were graphs: %s",
                 (int)stats->graph_calls, (int)stats->calls, why);
}

static void check_variants(rg_run_t *run, dt_function_t *function) {
  dt_function_counters_t stats = {.struct_size = sizeof(stats)};
  if (rg_failed(run, RG_HARNESS, "stats", dt_function_counters(function, &stats)))
    return;
  rg_outcome_t *out = run->out;
  out->variants = stats.variants;
  out->kernels = (uint32_t)stats.kernels;
  out->bound = count_layouts(run) * (run->p->asks ? 8 : 1);
  check_graphs(run, &stats);
  bool counted = run->p->dynamic == DT_DYNAMIC_SYMBOLIC && run->p->n_updates == 0;
  for (uint32_t k = 0; k < run->p->n_calls; k++)
    counted = counted && run->p->calls[k].layout <= RG_LAYOUT_TURNED;
  if (stats.evaluator_calls) {
    out->kind = RG_WRONG;
    (void)snprintf(out->text, sizeof(out->text), "the evaluator answered a call");
  } else if (counted && stats.variants > out->bound && out->kind == RG_RIGHT) {
    char *explained = NULL;
    out->kind = RG_VARIANTS;
    if (rg_failed(run, RG_HARNESS, "explain",
                  report_as_text(function, NULL, 0, DT_REPORT_VARIANTS, &explained)))
      return;
    (void)snprintf(out->text, sizeof(out->text), "%u variants; expected at most %u\n%s",
                   out->variants, out->bound, explained);
    dt_text_free(explained);
  }
}

static void run_calls(rg_run_t *run) {
  dt_runtime_options_t runtime_options = {
      .struct_size = sizeof(runtime_options), .threads = run->p->threads, .compile_threads = 1};
  dt_function_options_t options = {.struct_size = sizeof(options),
                                   .name = "graph",
                                   .n_inputs = run->n_inputs,
                                   .n_outputs = run->p->n_outputs,
                                   .inputs = run->decls,
                                   .dynamic = run->p->dynamic,
                                   .strict_fp = run->p->strict,
                                   .variant_limit = 64};
  dt_runtime_t *runtime = NULL;
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  orders_t orders;
  if (asks_orders(run))
    ask_orders(run, &orders, &options);
  if (!rg_failed(run, RG_HARNESS, "runtime", dt_runtime_create(&runtime_options, &runtime)) &&
      !rg_failed(run, RG_HARNESS, "ops", rg_calls_register(runtime)) &&
      !(run->p->seed % 8 == 3 &&
        rg_failed(run, RG_HARNESS, "passes", rg_calls_rewrite(runtime, run->p->seed))) &&
      !rg_failed(run, RG_HARNESS, "function",
                 dt_function_create(runtime, rg_replay, &run->calling, &options, &function)) &&
      !rg_failed(run, RG_HARNESS, "session", on_device_session(runtime, &session)) &&
      !(run->p->prepare && rg_failed(run, RG_REFUSED, "prepare", on_device_prepare(function)))) {
    uint32_t call = 0;
    while (call < run->p->n_calls && run_call(run, session, function, call))
      call++;
    bool good = call == run->p->n_calls;
    // Graphs are set from each size to the next, and back.
    for (uint32_t back = call; good && on_device_graphs() && back-- > 0;)
      good = run_call(run, session, function, back);
    if (good)
      check_variants(run, function);
  }
  dt_session_destroy(session);
  dt_function_release(function);
  dt_runtime_release(runtime);
}

static const rg_program_t *without_updates(const rg_program_t *p) {
  static rg_program_t copy;
  copy = *p;
  copy.n_updates = 0;
  return &copy;
}

static void run_child(const rg_program_t *p, uint32_t flags, rg_outcome_t *out) {
  rg_run_t *run = calloc(1, sizeof(*run));
  void *constant_memory[RG_NODES] = {NULL};
  if (!run)
    return;
  *run = (rg_run_t){.p = p, .flags = flags, .out = out};
  *out = (rg_outcome_t){.kind = RG_RIGHT};
  if (on_device()) // results of updates stay there
    run->p = without_updates(p);
  bool ready = prepare(run, constant_memory);
  if (ready && (flags & RG_DTT)) {
    rg_print_dtt(run, 0);
  } else if (ready && (flags & RG_OPS)) {
    (void)rg_count_ops(run, out->ops);
  } else if (ready && (flags & RG_LOOPS)) {
    rg_run_loops(run);
    if ((flags & RG_DIAGNOSE) && out->kind == RG_WRONG)
      rg_find_stage(run, out->call);
  } else if (ready && (flags & RG_WAYS_OF_CODE)) {
    rg_run_ways(run);
  } else if (ready) {
    run_calls(run);
    if ((flags & RG_DIAGNOSE) && out->kind == RG_WRONG && !out->stage[0])
      rg_find_stage(run, out->call);
    for (uint32_t call = 0; (flags & RG_INTERPRET) && out->kind == RG_RIGHT && call < p->n_calls;
         call++)
      rg_find_stage(run, call);
  }
  for (uint32_t i = 0; i < p->n_nodes; i++) {
    dt_tensor_release(run->constants[i]);
    free(constant_memory[i]);
  }
  dt__hooks_release(run->hooks);
  free(run);
}

// ---- The parent -----------------------------------------------------------------------------------
static void judge(int status, rg_outcome_t *out) {
  if (WIFSIGNALED(status)) {
    bool hung = WTERMSIG(status) == SIGALRM;
    out->kind = hung ? RG_HUNG : RG_CRASHED;
    out->code = WTERMSIG(status);
    (void)snprintf(out->text, sizeof(out->text), "call %u: signal %d %s", out->call,
                   WTERMSIG(status), out->note);
  } else if (WEXITSTATUS(status) != 0) { // a sanitizer's report
    out->kind = RG_CRASHED;
    out->code = 1000 + WEXITSTATUS(status);
    (void)snprintf(out->text, sizeof(out->text), "call %u: exit status %d", out->call,
                   WEXITSTATUS(status));
  }
}

void rg_run(const rg_program_t *p, uint32_t flags, uint32_t seconds, rg_outcome_t *out) {
  rg_outcome_t *shared =
      mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  *out = (rg_outcome_t){.kind = RG_HARNESS, .text = "no child process"};
  if (shared == MAP_FAILED)
    return;
  *shared = *out;
  (void)fflush(stdout);
  (void)fflush(stderr);
  pid_t child = fork();
  if (child == 0) {
    (void)alarm(seconds);
    run_child(p, flags, shared);
    (void)fflush(stdout);
    exit(0);
  }
  int status = 0;
  pid_t got = child;
  while (child > 0 && (got = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (child > 0 && got == child)
    judge(status, shared);
  *out = *shared;
  (void)munmap(shared, sizeof(*shared));
}

// SPDX-License-Identifier: Apache-2.0
// See opt_check.h. Each run has the arguments anew, since updates change them.
#include "tools/opt_check.h"

#include "ductile/ductile.h"
#include "guards/guards.h"
#include "lower/graph/eval.h"
#include "lower/graph/eval_compare.h"
#include "lower/loop/loop.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "runtime/compile/compile.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

typedef struct argument_t {
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK], first, count;
  void *bytes, *fresh; // fresh: as the text has them
  dt_tensor_t *tensor;
} argument_t;

typedef struct checking_t {
  dt_arena_t arena;
  const dt_target_t *target;
  dt_symenv_t *env;
  dt_graph_t *graph; // updates' values stand behind the outputs of `oracle`
  dt_graph_t oracle;
  argument_t args[MOST];
  int64_t symbols[MOST * DT_MAX_RANK + 4096];
  dt_eval_value_t expected[2 * MOST];
  dt_text_t *out;
  bool wrong;
} checking_t;

// ---- Arguments ------------------------------------------------------------------------------------
static dt_status_t read_list(dt_scan_t *scan, uint32_t n, int64_t *out) {
  DT_TRY(dt__scan_expect(scan, "("));
  for (uint32_t k = 0; k < n; k++) {
    if (k)
      DT_TRY(dt__scan_expect(scan, ","));
    DT_TRY(dt__scan_i64(scan, &out[k]));
  }
  return dt__scan_expect(scan, ")");
}

static bool is_inside(const argument_t *a, uint32_t rank) {
  int64_t low = a->first, high = a->first;
  for (uint32_t d = 0; d < rank; d++) {
    if (a->sizes[d] == 0)
      return true;
    int64_t reach = (a->sizes[d] - 1) * a->strides[d];
    low += reach < 0 ? reach : 0;
    high += reach > 0 ? reach : 0;
  }
  return low >= 0 && high < a->count;
}

static dt_status_t read_argument(checking_t *c, dt_scan_t *scan, uint32_t k) {
  const dt_graph_input_t *input = &c->graph->inputs.items[k];
  argument_t *a = &c->args[k];
  size_t size = dt_dtype_size(input->dtype);
  enum { MOST_ELEMENTS = 1 << 20 };
  DT_TRY(dt__scan_expect(scan, "input"));
  DT_TRY(read_list(scan, input->rank, a->sizes));
  DT_TRY(dt__scan_expect(scan, "strides"));
  DT_TRY(read_list(scan, input->rank, a->strides));
  DT_TRY(dt__scan_expect(scan, "first"));
  DT_TRY(dt__scan_i64(scan, &a->first));
  DT_TRY(dt__scan_expect(scan, "count"));
  DT_TRY(dt__scan_i64(scan, &a->count));
  if (a->count < 0 || a->count > MOST_ELEMENTS || !is_inside(a, input->rank))
    return dt__scan_fail(scan, "argument %u reaches outside of its %lld elements", k,
                         (long long)a->count);
  a->bytes = dt__arena_alloc(&c->arena, ((size_t)a->count + 1) * size);
  a->fresh = dt__arena_alloc(&c->arena, ((size_t)a->count + 1) * size);
  if (!a->bytes || !a->fresh)
    return DT_NO_MEMORY();
  DT_TRY(dt__scan_expect(scan, ":"));
  for (int64_t i = 0; i < a->count; i++) {
    int64_t bits = 0;
    DT_TRY(dt__scan_i64(scan, &bits));
    memcpy((char *)a->fresh + (size_t)i * size, &bits, size); // little-endian
  }
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = input->dtype,
                           .rank = input->rank,
                           .sizes = a->sizes,
                           .strides = a->strides,
                           .data = (char *)a->bytes + (size_t)a->first * size};
  return dt_tensor_create(&desc, &a->tensor);
}

static void begin(checking_t *c) {
  for (uint32_t k = 0; k < c->graph->inputs.len; k++)
    memcpy(c->args[k].bytes, c->args[k].fresh,
           (size_t)c->args[k].count * dt_dtype_size(c->graph->inputs.items[k].dtype));
}

static dt_status_t read_data(checking_t *c, const char *data) {
  dt_scan_t scan;
  dt__scan_init(&scan, data, strlen(data), "data");
  if (c->graph->inputs.len > MOST || c->graph->outputs.len > MOST)
    return DT_FAIL(DT_E_LIMIT, "more than %d inputs or outputs", MOST);
  for (uint32_t k = 0; k < c->graph->inputs.len; k++)
    DT_TRY(read_argument(c, &scan, k));
  if (!dt__scan_end(&scan))
    return dt__scan_fail(&scan, "expected the end of the data");
  begin(c);
  return NULL;
}

// ---- What is right --------------------------------------------------------------------------------
static dt_status_t evaluate(checking_t *c) {
  dt_graph_t *graph = c->graph;
  dt_tensor_t *tensors[MOST];
  dt_eval_arg_t args[MOST];
  dt_guards_t *guards = NULL;
  uint32_t n = graph->outputs.len;
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    tensors[k] = c->args[k].tensor;
    args[k] = (dt_eval_arg_t){dt_tensor_data(tensors[k]), c->args[k].sizes, c->args[k].strides};
  }
  DT_TRY(dt__guards_create(graph, NULL, 0, NULL, &guards));
  bool binds = dt__guards_symbol_count(guards) <= sizeof(c->symbols) / sizeof(c->symbols[0]) &&
               dt__guards_run(guards, &(dt_guard_args_t){.inputs = tensors}, c->symbols);
  dt__guards_destroy(guards);
  if (!binds)
    return DT_FAIL(DT_E_SHAPE, "the data's sizes and strides are not those of the graph's inputs");
  c->oracle = *graph;
  c->oracle.outputs.items = DT_ARENA_ARRAY(&c->arena, dt_node_id_t, n + graph->updates.len + 1);
  if (!c->oracle.outputs.items)
    return DT_NO_MEMORY();
  memcpy(c->oracle.outputs.items, graph->outputs.items, n * sizeof(dt_node_id_t));
  for (uint32_t k = 0; k < graph->updates.len; k++)
    c->oracle.outputs.items[n + k] = graph->updates.items[k].value;
  c->oracle.outputs.len = c->oracle.outputs.cap = n + graph->updates.len;
  dt_eval_options_t options = {.error_bounds = true};
  return dt__graph_eval(&c->oracle, c->symbols, args, &options, &c->arena, c->expected);
}

static void differ(checking_t *c, const char *stage, const char *what, uint32_t k,
                   const dt_eval_value_t *expected, const void *got) {
  dt_eval_report_t report;
  if (c->wrong || dt__eval_compare(expected, got, NULL, &report))
    return;
  c->wrong = true;
  dt__text_printf(c->out, "wrong after %s: %s %u: ", stage, what, k);
  dt__eval_report_print(expected, &report, c->out);
  dt__text_put(c->out, "\n");
}

static void compare_updates(checking_t *c, const char *stage) {
  for (uint32_t u = 0; u < c->graph->updates.len; u++) {
    const dt_eval_value_t *expected = &c->expected[c->graph->outputs.len + u];
    uint32_t k = c->graph->updates.items[u].input;
    size_t size = dt_dtype_size(expected->dtype);
    char *dense = dt__arena_alloc(&c->arena, (size_t)expected->count * size + 1);
    int64_t at[DT_MAX_RANK] = {0};
    for (int64_t i = 0; dense && i < expected->count; i++) {
      int64_t offset = c->args[k].first;
      for (uint32_t d = 0; d < expected->rank; d++)
        offset += at[d] * c->args[k].strides[d];
      memcpy(dense + (size_t)i * size, (char *)c->args[k].bytes + offset * (int64_t)size, size);
      for (uint32_t d = expected->rank; d-- > 0 && ++at[d] == expected->sizes[d];)
        at[d] = 0;
    }
    if (dense)
      differ(c, stage, "update of input", k, expected, dense);
  }
}

// ---- What is made of it ---------------------------------------------------------------------------
static void fail(checking_t *c, const char *stage, dt_status_t status) {
  if (status && !c->wrong) {
    c->wrong = true;
    dt__text_printf(c->out, "refused after %s: %s: %s\n", stage,
                    dt_code_name(dt_status_code(status)), dt_status_message(status));
  }
  dt_status_free(status);
}

static void check_graph(checking_t *c, const dt_stage_view_t *view) {
  dt_eval_arg_t args[MOST];
  dt_eval_value_t got[MOST];
  for (uint32_t k = 0; k < c->graph->inputs.len; k++)
    args[k] =
        (dt_eval_arg_t){dt_tensor_data(c->args[k].tensor), c->args[k].sizes, c->args[k].strides};
  fail(c, view->stage, dt__graph_eval(view->graph, c->symbols, args, NULL, &c->arena, got));
  for (uint32_t k = 0; !c->wrong && k < c->graph->outputs.len; k++) {
    size_t size = dt_dtype_size(got[k].dtype);
    char *bytes = dt__arena_alloc(&c->arena, (size_t)got[k].count * size + 1);
    for (int64_t i = 0; bytes && i < got[k].count; i++)
      dt__scalar_store(got[k].dtype, bytes + (size_t)i * size, got[k].data[i]);
    if (bytes && got[k].count == c->expected[k].count && got[k].dtype == c->expected[k].dtype)
      differ(c, view->stage, "output", k, &c->expected[k], bytes);
  }
}

// Output k as its order has it, element by element.
static const void *in_row_major(checking_t *c, uint32_t k, const void *from) {
  const dt_graph_order_t *order = dt__graph_order(c->graph, k);
  const dt_eval_value_t *expected = &c->expected[k];
  size_t size = dt_dtype_size(expected->dtype);
  int64_t at[DT_MAX_RANK] = {0}, strides[DT_MAX_RANK], stride = 1;
  if (!order || dt__dtype_is_packed(expected->dtype))
    return from;
  for (uint32_t d = expected->rank; d-- > 0; stride *= expected->sizes[order->dims[d]])
    strides[order->dims[d]] = stride;
  char *dense = dt__arena_alloc(&c->arena, (size_t)expected->count * size + 1);
  for (int64_t i = 0; dense && i < expected->count; i++) {
    int64_t offset = 0;
    for (uint32_t d = 0; d < expected->rank; d++)
      offset += at[d] * strides[d];
    memcpy(dense + (size_t)i * size, (const char *)from + offset * (int64_t)size, size);
    for (uint32_t d = expected->rank; d-- > 0 && ++at[d] == expected->sizes[d];)
      at[d] = 0;
  }
  return dense ? dense : from;
}

static void observe(void *user, const dt_stage_view_t *view) {
  checking_t *c = user;
  void *inputs[MOST], *outputs[MOST];
  begin(c);
  if (view->graph && !c->wrong)
    check_graph(c, view);
  if (c->wrong || !view->program)
    return;
  for (uint32_t k = 0; k < c->graph->inputs.len; k++)
    inputs[k] = dt_tensor_data(c->args[k].tensor);
  for (uint32_t k = 0; k < c->graph->outputs.len; k++) {
    outputs[k] = dt__arena_alloc(&c->arena, (size_t)c->expected[k].count * 8 + 8);
    if (!outputs[k])
      return;
  }
  fail(c, view->stage, dt__program_interpret(view->program, c->symbols, inputs, outputs));
  for (uint32_t k = 0; k < c->graph->outputs.len; k++)
    differ(c, view->stage, "output", k, &c->expected[k], in_row_major(c, k, outputs[k]));
  compare_updates(c, view->stage);
}

static dt_status_t run_stages(checking_t *c) {
  dt_program_t *program = NULL;
  return dt__pipeline_run(
      &c->arena, c->env, c->graph,
      &(dt_pipeline_request_t){.target = c->target, .verify = true, .observe = observe, .user = c},
      &program);
}

static dt_status_t call(checking_t *c, dt_function_t *function, dt_session_t *session) {
  dt_tensor_t *inputs[MOST], *outputs[MOST] = {NULL};
  begin(c);
  for (uint32_t k = 0; k < c->graph->inputs.len; k++)
    inputs[k] = c->args[k].tensor;
  dt_status_t status = dt_call(session, function, inputs, c->graph->inputs.len, outputs,
                               c->graph->outputs.len, NULL);
  for (uint32_t k = 0; k < c->graph->outputs.len; k++) {
    if (!status)
      differ(c, "code", "output", k, &c->expected[k],
             in_row_major(c, k, dt_tensor_data(outputs[k])));
    dt_tensor_release(outputs[k]);
  }
  if (!status)
    compare_updates(c, "code");
  return status;
}

static dt_status_t run_code(checking_t *c, const char *text) {
  dt_runtime_options_t runtime_options = {.struct_size = sizeof(runtime_options), .threads = 2};
  dt_function_options_t options = {.struct_size = sizeof(options), .name = "graph"};
  dt_runtime_t *runtime = NULL;
  dt_function_t *function = NULL;
  dt_session_t *session = NULL;
  dt_status_t status = dt_runtime_create(&runtime_options, &runtime);
  if (!status)
    status = dt_function_create_from_ir(runtime, text, strlen(text), "graph", &options, &function);
  if (!status)
    status = dt_session_create(runtime, NULL, &session);
  if (!status)
    status = call(c, function, session);
  dt_session_destroy(session);
  dt_function_release(function);
  dt_runtime_release(runtime);
  return status;
}

static dt_status_t check(checking_t *c, const char *text, const char *data) {
  dt_scan_t scan;
  DT_TRY(dt__symenv_create(&c->env));
  dt__scan_init(&scan, text, strlen(text), "graph");
  DT_TRY(dt__graph_parse(&c->arena, c->env, &scan, &c->graph));
  if (!dt__scan_end(&scan))
    return dt__scan_fail(&scan, "expected the end of the text");
  dt__symenv_freeze(c->env);
  DT_TRY(read_data(c, data));
  DT_TRY(evaluate(c));
  fail(c, "the stages", run_stages(c));
  dt_status_t status = c->wrong ? NULL : run_code(c, text);
  if (dt_status_code(status) == DT_E_UNSUPPORTED) { // no program is made of texts with items
    (void)fprintf(stderr, "ductile-opt: no code was run: %s\n", dt_status_message(status));
    dt_status_free(status);
  } else {
    fail(c, "code", status);
  }
  if (!c->wrong)
    dt__text_put(c->out, "right\n");
  return dt__text_status(c->out);
}

dt_status_t opt_check(const char *graph, const char *data, const dt_target_t *target,
                      dt_text_t *out) {
  checking_t *c = dt__alloc(sizeof(*c));
  if (!c)
    return DT_NO_MEMORY();
  memset(c, 0, sizeof(*c));
  c->out = out;
  c->target = target;
  dt__arena_init(&c->arena, 0);
  dt_status_t status = check(c, graph, data);
  for (uint32_t k = 0; k < MOST; k++)
    dt_tensor_release(c->args[k].tensor);
  dt__symenv_destroy(c->env);
  dt__arena_fini(&c->arena);
  dt__free(c);
  return status;
}

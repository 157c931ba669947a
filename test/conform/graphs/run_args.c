// SPDX-License-Identifier: Apache-2.0
// Arguments of random programs: their values, how they lie, and what a call must have left of them.
#include "lower/graph/eval_compare.h"
#include "runtime/base/dtype.h"
#include "test/conform/graphs/run_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Values ---------------------------------------------------------------------------------------
static dt_scalar_t any_whole(dt_dtype_t dtype, uint32_t bits, uint64_t *state) {
  unsigned unused = 64u - 8u * (unsigned)dt_dtype_size(dtype);
  const int64_t extremes[] = {0, 1, -1, INT64_MAX >> unused, INT64_MIN >> unused, INT64_MIN};
  uint64_t wide = ((uint64_t)bits << 32) ^ rg_random(state);
  int64_t value = bits % 4 ? (int64_t)(bits % 200) - 100 : (int64_t)wide;
  if (bits % 16 == 5)
    value = extremes[(bits >> 8) % (sizeof(extremes) / sizeof(extremes[0]))];
  return dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = value});
}

static dt_scalar_t random_value(dt_dtype_t dtype, int32_t fill, int32_t bound, uint64_t *state) {
  static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, 1e38, -1.0, 1.0};
  uint32_t bits = rg_random(state);
  bool is_float = dt__dtype_is_float(dtype);
  if (dtype == DT_BOOL)
    return (dt_scalar_t){.i = bits & 1};
  if (fill == RG_FILL_INDEX)
    return (dt_scalar_t){.i = (int64_t)(bits % (uint32_t)(2 * bound)) - bound};
  if (fill == RG_FILL_WHOLE || (!is_float && fill == RG_FILL_SMOOTH)) {
    dt_scalar_t small = {.i = (int64_t)(bits % 7) - 3};
    return is_float ? (dt_scalar_t){.f = (double)small.i} : dt__scalar_cast(DT_I64, dtype, small);
  }
  if (!is_float)
    return any_whole(dtype, bits, state);
  if (fill == RG_FILL_ANY && bits % 16 == 0)
    return (dt_scalar_t){.f = specials[(bits >> 8) % (sizeof(specials) / sizeof(double))]};
  return (dt_scalar_t){.f = ((double)bits / 0x1p31 - 1.0) * 3};
}

// ---- Layouts --------------------------------------------------------------------------------------
// Sizes of leaf `node` with the given symbol values.
static void leaf_sizes(const rg_node_t *node, const int64_t *symbols, int64_t *out) {
  for (uint32_t d = 0; d < node->rank; d++)
    out[d] = node->numbers[d] >= 0 ? node->numbers[d] : symbols[-1 - node->numbers[d]];
}

// Strides, the elements that they reach, and where the first one lies.
static int64_t lay_out(int32_t layout, uint32_t rank, const int64_t *sizes, int64_t *strides,
                       int64_t *first) {
  int64_t span = 1;
  *first = 0;
  for (uint32_t d = 0; d < rank; d++) {
    uint32_t at = layout == RG_LAYOUT_TURNED ? d : rank - 1 - d;
    strides[at] = span * (layout == RG_LAYOUT_GAPS ? 2 : 1);
    span = strides[at] * (sizes[at] > 0 ? sizes[at] : 1);
  }
  if (layout == RG_LAYOUT_TURNED && rank) {
    *first = strides[rank - 1] * (sizes[rank - 1] > 0 ? sizes[rank - 1] - 1 : 0);
    strides[rank - 1] = -strides[rank - 1];
  }
  for (uint32_t d = 0; layout == RG_LAYOUT_CROSSED && d < rank; d++)
    strides[d] = 1;
  if (layout == RG_LAYOUT_REPEATED && rank)
    strides[0] = 0;
  return span;
}

bool rg_make_tensor(rg_run_t *run, uint32_t i, const int64_t *symbols, int32_t layout,
                    uint64_t state, void **memory, dt_tensor_t **out) {
  const rg_node_t *node = &run->p->nodes[i];
  size_t size = dt_dtype_size(node->dtype);
  int64_t sizes[RG_RANK], strides[RG_RANK], first = 0;
  leaf_sizes(node, symbols, sizes);
  int64_t span = lay_out(layout, node->rank, sizes, strides, &first);
  int32_t fill = node->numbers[node->rank], bound = node->numbers[node->rank + 1];
  bool fresh = !*memory;
  if (fresh)
    *memory = malloc((size_t)(span + RG_NODES) * size);
  state += 1000003U * i;
  for (int64_t k = 0; fresh && *memory && k < span + RG_NODES; k++)
    dt__scalar_store(node->dtype, (char *)*memory + (size_t)k * size,
                     random_value(node->dtype, fill, bound, &state));
  dt_tensor_desc_t desc = {.struct_size = sizeof(desc),
                           .dtype = node->dtype,
                           .rank = node->rank,
                           .sizes = sizes,
                           .strides = strides,
                           .data = (char *)*memory + (size_t)first * size};
  return *memory && !rg_failed(run, RG_HARNESS, "tensor", dt_tensor_create(&desc, out));
}

// An earlier input of the same declaration; not two that are updated, and none where they overlap.
static uint32_t alike(const rg_run_t *run, uint32_t k, int32_t layout) {
  const rg_node_t *x = &run->p->nodes[run->input_nodes[k]];
  bool updated = rg_is_updated(run->p, run->input_nodes[k]);
  for (uint32_t j = 0; layout >= RG_LAYOUT_SHARED && j < k; j++) {
    const rg_node_t *y = &run->p->nodes[run->input_nodes[j]];
    bool other = rg_is_updated(run->p, run->input_nodes[j]);
    if (layout == RG_LAYOUT_SHARED ? updated && other : updated || other)
      continue;
    if (x->dtype == y->dtype && x->rank == y->rank &&
        memcmp(x->numbers, y->numbers, (x->rank + 2) * sizeof(x->numbers[0])) == 0)
      return j;
  }
  return k;
}

static bool make_arg(rg_run_t *run, const rg_call_t *c, uint32_t k, uint64_t state,
                     rg_args_t *args) {
  uint32_t node = run->input_nodes[k], from = alike(run, k, c->layout);
  int32_t layout = c->layout;
  if (layout >= RG_LAYOUT_SHARED)
    layout = RG_LAYOUT_PLAIN;
  else if (layout >= RG_LAYOUT_REPEATED && rg_is_updated(run->p, node))
    layout = RG_LAYOUT_GAPS;
  if (from == k) {
    args->owner[k] = k;
    bool made =
        rg_make_tensor(run, node, c->sizes, layout, state, &args->memory[k], &args->tensors[k]);
    int64_t span = 1;
    for (uint32_t d = 0; made && d < dt_tensor_rank(args->tensors[k]); d++) {
      int64_t stride = dt_tensor_strides(args->tensors[k])[d],
              n = dt_tensor_sizes(args->tensors[k])[d];
      span += n > 1 ? (stride < 0 ? -stride : stride) * (n - 1) : 0;
    }
    args->bytes[k] = (size_t)span * dt_dtype_size(run->p->nodes[node].dtype);
    return made;
  }
  args->owner[k] = args->owner[from];
  if (c->layout == RG_LAYOUT_SHARED) {
    args->tensors[k] = args->tensors[from];
    dt_tensor_retain(args->tensors[k]);
    return true;
  }
  void *memory =
      (char *)dt_tensor_data(args->tensors[from]) + dt_dtype_size(run->p->nodes[node].dtype);
  return rg_make_tensor(run, node, c->sizes, layout, state, &memory, &args->tensors[k]);
}

bool rg_make_args(rg_run_t *run, uint32_t call, rg_args_t *args) {
  const rg_call_t *c = &run->p->calls[call];
  *args = (rg_args_t){0};
  uint64_t state = run->p->seed * 31;
  for (uint32_t s = 0; s < run->p->n_symbols; s++)
    state = state * 131 + (uint64_t)c->sizes[s];
  for (uint32_t k = 0; k < run->n_inputs; k++) {
    args->n = k + 1;
    if (!make_arg(run, c, k, state, args))
      return false;
  }
  return true;
}

void rg_free_args(rg_args_t *args) {
  for (uint32_t k = 0; k < args->n; k++) {
    dt_tensor_release(args->tensors[k]);
    free(args->memory[k]);
  }
  args->n = 0;
}

// ---- Updates --------------------------------------------------------------------------------------
const dt_graph_t *rg_with_updates(dt_arena_t *arena, const dt_graph_t *graph) {
  dt_graph_t *copy = DT_ARENA_NEW(arena, dt_graph_t);
  uint32_t n = graph->outputs.len;
  dt_node_id_t *outputs = DT_ARENA_ARRAY(arena, dt_node_id_t, n + graph->updates.len + 1);
  if (!copy || !outputs)
    return graph;
  *copy = *graph;
  for (uint32_t k = 0; k < n; k++)
    outputs[k] = graph->outputs.items[k];
  for (uint32_t k = 0; k < graph->updates.len; k++)
    outputs[n + k] = graph->updates.items[k].value;
  copy->outputs.items = outputs;
  copy->outputs.len = copy->outputs.cap = n + graph->updates.len;
  return copy;
}

dt_status_t rg_guards(const dt_traced_t *traced, dt_guards_t **out) {
  dt_guard_context_t context = {.shared = traced->shared};
  return dt__guards_create(traced->graph, traced->conds.items, traced->conds.len, &context, out);
}

bool rg_guards_take(rg_run_t *run, const dt_guards_t *guards, dt_tensor_t *const *tensors,
                    int64_t *symbols) {
  dt_guard_args_t args = {.inputs = tensors};
  dt_guard_failure_t failure;
  if (dt__guards_run(guards, &args, symbols))
    return true;
  dt_text_t text;
  dt__text_init(&text);
  if (dt__guards_failure(guards, &args, &failure))
    dt__guard_failure_put(&failure, &text);
  dt__guard_failure_fini(&failure);
  run->out->kind = RG_WRONG;
  (void)snprintf(run->out->stage, sizeof(run->out->stage), "guards");
  (void)snprintf(run->out->text, sizeof(run->out->text),
                 "the guards of a trace refuse its own example: %s", dt__text_str(&text));
  dt__text_fini(&text);
  return false;
}

static bool holds(const dt_tensor_t *tensor, const dt_eval_value_t *expected) {
  size_t size = dt_dtype_size(expected->dtype);
  char *dense = malloc((size_t)expected->count * size + 1);
  int64_t at[DT_MAX_RANK] = {0};
  bool good = dense && dt_tensor_count(tensor) == expected->count;
  for (int64_t i = 0; good && i < expected->count; i++) {
    int64_t offset = 0;
    for (uint32_t d = 0; d < expected->rank; d++)
      offset += at[d] * dt_tensor_strides(tensor)[d];
    memcpy(dense + (size_t)i * size, (char *)dt_tensor_data(tensor) + offset * (int64_t)size, size);
    for (uint32_t d = expected->rank; d-- > 0;) {
      if (++at[d] < expected->sizes[d])
        break;
      at[d] = 0;
    }
  }
  dt_eval_report_t report;
  good = good && dt__eval_compare(expected, dense, NULL, &report);
  free(dense);
  return good;
}

bool rg_same_memory(const rg_run_t *run, const dt_graph_t *graph, const rg_args_t *args,
                    const rg_args_t *fresh, const dt_eval_value_t *expected,
                    const char **out_what) {
  bool updated[RG_NODES] = {false};
  for (uint32_t k = 0; k < graph->updates.len; k++) {
    uint32_t input = graph->updates.items[k].input;
    updated[args->owner[input]] = true;
    *out_what = "an input was not updated as the evaluator does";
    if (!holds(args->tensors[input], &expected[k]))
      return false;
  }
  *out_what = "an argument was written that nothing updates";
  for (uint32_t k = 0; k < run->n_inputs; k++)
    if (args->memory[k] && !updated[k] && memcmp(args->memory[k], fresh->memory[k], args->bytes[k]))
      return false;
  return true;
}

bool rg_same_outputs(rg_run_t *run, const dt_eval_value_t *expected, void *const *outputs,
                     dt_text_t *text) {
  for (uint32_t k = 0; k < run->p->n_outputs; k++) {
    dt_eval_report_t report = {0};
    bool good = dt__eval_compare(&expected[k], outputs[k], NULL, &report);
    run->out->compared += report.compared;
    run->out->uncertain += report.uncertain;
    if (good)
      continue;
    dt__text_printf(text, "output %u: ", k);
    dt__eval_report_print(&expected[k], &report, text);
    return false;
  }
  return true;
}

dt_trace_request_t rg_request(rg_run_t *run, const char *name, dt_tensor_t *const *example) {
  return (dt_trace_request_t){.name = name,
                              .program = rg_replay,
                              .closure = &run->replay,
                              .n_inputs = run->n_inputs,
                              .n_outputs = run->p->n_outputs,
                              .inputs = run->decls,
                              .example = example};
}

dt_trace_request_t rg_request_calls(rg_run_t *run, const char *name, dt_tensor_t *const *example) {
  dt_trace_request_t request = rg_request(run, name, example);
  request.closure = &run->calling;
  request.hooks = run->hooks;
  return request;
}

// SPDX-License-Identifier: Apache-2.0
// Tensors for results of calls that give none: over memory of their own, over that of a donated
// argument, or views of an argument (dt_output_decl_t).
#include "runtime/exec/call.h"

#include "runtime/base/dtype.h"

#include <string.h>

// ---- Memory of arguments --------------------------------------------------------------------------

static bool meets(const dt_call_t *call, uint32_t a, uint32_t b) {
  return dt__bytes_meet(dt__tensor_reach(call->inputs[a]), dt__tensor_reach(call->inputs[b]));
}

static bool meets_constants(const dt_call_t *call, const dt_variant_t *variant, uint32_t index) {
  const dt_bindings_t *bindings = atomic_load_explicit(&variant->bindings, memory_order_acquire);
  dt_bytes_t own = dt__tensor_reach(call->inputs[index]);
  if (!bindings || !dt__bytes_meet(own, bindings->reach))
    return false;
  for (uint32_t i = 0; i < bindings->n; i++)
    if (dt__bytes_meet(own, dt__tensor_reach(bindings->tensors[i])))
      return true;
  return false;
}

// A result may hold on to the argument's storage: it is Ductile's, where the session runs, and
// nobody takes it back. Results of graphs of kernels lie in the session's memory.
static bool may_share(const dt_call_t *call, uint32_t index) {
  const dt_session_t *session = call->session;
  const dt_tensor_t *input = call->inputs[index];
  const dt_place_kind_t *kind = session->home->kind;
  if (!dt__is_tensor_kind(call->function->inputs[index].kind) || !input->storage ||
      input->storage->why_ended || input->device != session->place || call->managed ||
      call->mode == DT_CALL_REDUCE_OVERHEAD)
    return false;
  return !kind->may_share || kind->may_share(session, input->storage);
}

static size_t offset_of(const dt_tensor_t *input, int64_t elements) {
  int64_t bytes = elements * (int64_t)dt_dtype_size(input->dtype);
  return (size_t)((intptr_t)input->data - (intptr_t)input->storage->data + (intptr_t)bytes);
}

// ---- Donated arguments ----------------------------------------------------------------------------

static bool may_take(const dt_call_t *call, const dt_variant_t *variant, uint32_t index) {
  if (call->function->inputs[index].kind != DT_INPUT_DONATED || !call->inputs[index]->contiguous ||
      !call->inputs[index]->count || !may_share(call, index) ||
      meets_constants(call, variant, index))
    return false;
  for (uint32_t i = 0; i < call->function->n_inputs; i++)
    if (i != index && meets(call, index, i))
      return false;
  return true;
}

// ---- Views ----------------------------------------------------------------------------------------

#define MOST_VIEWS 64

// The elements of a view of an argument, in those of the argument.
typedef struct view_t {
  const dt_graph_t *graph;
  const int64_t *symbols;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK], offset;
} view_t;

static bool value_of(const view_t *view, dt_sym_t e, int64_t *out) {
  return dt__sym_eval(view->graph->env, e, view->symbols, out);
}

static bool permute(view_t *view, const dt_node_t *node) {
  view_t old = *view;
  for (uint32_t d = 0; d < node->rank; d++)
    view->strides[d] = old.strides[node->attrs->axes[d]];
  return true;
}

static bool expand(view_t *view, const dt_node_t *node) {
  for (uint32_t d = 0; d < node->rank; d++) {
    int64_t size = 0;
    if (!value_of(view, node->sizes[d], &size))
      return false;
    view->strides[d] = view->sizes[d] == size ? view->strides[d] : 0;
  }
  return true;
}

static bool slice(view_t *view, const dt_node_t *node) {
  for (uint32_t d = 0; d < node->rank; d++) {
    int64_t begin = 0;
    if (!value_of(view, node->attrs->syms[2 * d], &begin))
      return false;
    view->offset += begin * view->strides[d];
    view->strides[d] *= node->attrs->ints[d];
  }
  return true;
}

static bool window(view_t *view, const dt_node_t *node) {
  uint32_t rank = view->rank, n = node->attrs->n_axes;
  for (uint32_t k = 0; k < n; k++) {
    int64_t stride = 0, dilation = 0, own = view->strides[rank - n + k];
    if (!value_of(view, node->attrs->syms[4 * k + 2], &stride) ||
        !value_of(view, node->attrs->syms[4 * k + 3], &dilation))
      return false;
    view->strides[rank - n + k] = own * stride;
    view->strides[rank + k] = own * dilation;
  }
  return true;
}

// Runs of old dims that lie in one another become new dims; a new dim over two runs has no stride.
static bool reshape(view_t *view, const dt_node_t *node) {
  int64_t sizes[DT_MAX_RANK] = {0}, strides[DT_MAX_RANK] = {0};
  uint32_t old = view->rank, made = node->rank;
  for (uint32_t d = 0; d < node->rank; d++) {
    if (!value_of(view, node->sizes[d], &sizes[d]))
      return false;
    strides[d] = 1;
  }
  while (made > 0) {
    int64_t run = 1, step = 1, filled = 1; // elements of the run, and of them in new dims
    while (old > 0 && view->sizes[old - 1] == 1)
      old--;
    if (old > 0) {
      run = view->sizes[old - 1];
      step = view->strides[--old];
      while (old > 0 && (view->sizes[old - 1] == 1 || view->strides[old - 1] == step * run))
        run *= view->sizes[--old];
    }
    while (made > 0 && (filled < run || sizes[made - 1] == 1)) {
      if (run % (filled * sizes[made - 1]))
        return false;
      strides[--made] = step * filled;
      filled *= sizes[made];
    }
    if (filled != run || (made > 0 && old == 0))
      return false;
  }
  memcpy(view->strides, strides, sizeof(strides));
  return true;
}

static const struct {
  bool (*apply)(view_t *view, const dt_node_t *node);
} views[DT_OP_COUNT] = {[DT_OP_permute] = {permute},
                        [DT_OP_expand] = {expand},
                        [DT_OP_slice] = {slice},
                        [DT_OP_window] = {window},
                        [DT_OP_reshape] = {reshape}};

// The strides of the node's elements, whose input's `view` has.
static bool apply(view_t *view, const dt_node_t *node) {
  bool good = node->op == DT_OP_bitcast || views[node->op].apply(view, node);
  view->rank = node->rank;
  for (uint32_t d = 0; good && d < node->rank; d++)
    good = value_of(view, node->sizes[d], &view->sizes[d]) && view->sizes[d] > 0;
  return good;
}

static bool shows(const dt_graph_t *graph, const dt_node_t *node) {
  if (dt__dtype_is_packed(node->dtype))
    return false;
  if (node->op != DT_OP_bitcast)
    return views[node->op].apply != NULL;
  return !dt__dtype_is_packed(dt__graph_node(graph, node->inputs[0])->dtype);
}

// The argument that result `index` is a view of, and its views, the last one first.
static bool find_views(const dt_graph_t *graph, uint32_t index, const dt_node_t **chain,
                       uint32_t *out_n, uint32_t *out_input) {
  const dt_node_t *node = dt__graph_node(graph, graph->outputs.items[index]);
  for (*out_n = 0; shows(graph, node) && *out_n < MOST_VIEWS; ++*out_n) {
    chain[*out_n] = node;
    node = dt__graph_node(graph, node->inputs[0]);
  }
  if (node->op != DT_OP_input || dt__dtype_is_packed(node->dtype))
    return false;
  *out_input = node->attrs->index;
  return true;
}

// What the call writes in arguments must not show in the view.
static bool is_written(const dt_call_t *call, const dt_graph_t *graph, uint32_t index) {
  for (uint32_t k = 0; k < graph->updates.len; k++)
    if (graph->updates.items[k].input == index || meets(call, graph->updates.items[k].input, index))
      return true;
  for (uint32_t i = 0; i < call->function->n_inputs; i++)
    if (call->function->inputs[i].kind == DT_INPUT_DONATED && (i == index || meets(call, i, index)))
      return true;
  return false;
}

static bool find_view(const dt_call_t *call, const dt_graph_t *graph, uint32_t index,
                      const dt_tensor_t **out_of, view_t *out) {
  const dt_node_t *chain[MOST_VIEWS];
  uint32_t n = 0, input = 0;
  if (!find_views(graph, index, chain, &n, &input) || !may_share(call, input) ||
      is_written(call, graph, input))
    return false;
  const dt_tensor_t *of = *out_of = call->inputs[input];
  *out = (view_t){.graph = graph, .symbols = call->session->symbols, .rank = of->rank};
  memcpy(out->sizes, of->sizes, sizeof(out->sizes));
  memcpy(out->strides, of->strides, sizeof(out->strides));
  bool good = of->count > 0;
  while (good && n > 0)
    good = apply(out, chain[--n]);
  return good;
}

// ---- Making ---------------------------------------------------------------------------------------

dt_status_t dt__result_make(const dt_call_t *call, const dt_variant_t *variant, uint32_t index,
                            const int64_t *sizes, dt_tensor_t **out, void **out_address) {
  const dt_output_info_t *info = &variant->outputs[index];
  const dt_compiled_t *compiled = variant->compiled;
  const dt_output_decl_t *decl = call->function->outputs;
  const dt_tensor_t *of = NULL;
  view_t view;
  uint32_t given = compiled && compiled->donations ? compiled->donations[index] : 0;
  *out_address = NULL;
  if (decl && decl[index].may_alias_input && !decl[index].order && !decl[index].like_input &&
      compiled && compiled->copies && compiled->copies[index] &&
      find_view(call, variant->traced->graph, index, &of, &view))
    return dt__tensor_create_over(of->storage, offset_of(of, view.offset), info->dtype, info->rank,
                                  sizes, view.strides, out);
  if (given && info->order == DT_ORDER_ROW_MAJOR && may_take(call, variant, given - 1)) {
    of = call->inputs[given - 1];
    DT_TRY(dt__tensor_create_over(of->storage, offset_of(of, 0), info->dtype, info->rank, sizes,
                                  NULL, out));
  } else {
    DT_TRY(dt__place_result(call, index, info, sizes, out));
  }
  *out_address = (*out)->data;
  return NULL;
}

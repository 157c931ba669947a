// SPDX-License-Identifier: Apache-2.0
// Sizes of a call: its results' before it runs, and its bytes against their limit.
#include "runtime/exec/call.h"

#include "runtime/base/dtype.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/exec/runtime.h"

#include <stdio.h>

// ---- Results --------------------------------------------------------------------------------------

// -1 where data decides.
static dt_status_t size_of(const dt_graph_t *graph, dt_sym_t size, const int64_t *symbols,
                           int64_t *out) {
  uint32_t newest = 0;
  *out = -1;
  if (dt__sym_newest_unbacked(graph->env, size, &newest))
    return NULL;
  if (!dt__sym_eval(graph->env, size, symbols, out) || *out < 0 || *out >= DT_SIZE_LIMIT)
    return DT_FAIL(DT_E_LIMIT, "a result would have a dim of %lld or more",
                   (long long)DT_SIZE_LIMIT);
  return NULL;
}

static dt_status_t shape_of(const dt_graph_t *graph, uint32_t index, const int64_t *symbols,
                            dt_output_shape_t *out) {
  const dt_node_t *node = dt__graph_node(graph, graph->outputs.items[index]);
  *out = (dt_output_shape_t){.dtype = node->dtype, .rank = node->rank};
  int64_t bytes = (int64_t)dt_dtype_size(node->dtype), per = dt__dtype_per_byte(node->dtype);
  for (uint32_t k = 0; k < node->rank; k++) {
    DT_TRY(size_of(graph, node->sizes[k], symbols, &out->sizes[k]));
    int64_t items = k + 1 == node->rank ? (out->sizes[k] + per - 1) / per : out->sizes[k];
    if (out->sizes[k] >= 0 && (!dt__mul_i64(bytes, items, &bytes) || bytes >= DT_SIZE_LIMIT))
      return DT_FAIL(DT_E_LIMIT, "output %u would have %lld bytes or more", index,
                     (long long)DT_SIZE_LIMIT);
  }
  return NULL;
}

dt_status_t dt__call_shapes(const dt_call_t *call, const dt_variant_t *variant) {
  for (uint32_t k = 0; k < call->function->n_outputs; k++)
    DT_TRY(shape_of(variant->traced->graph, k, call->session->symbols, &call->shapes[k]));
  return NULL;
}

static dt_status_t check(const dt_session_t *session, const dt_function_t *function,
                         const dt_output_shape_t *shapes, size_t shape_bytes, uint32_t n_outputs) {
  if (!session || !function || !shapes)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL",
                   !session    ? "session"
                   : !function ? "function"
                               : "shapes");
  DT_TRY(DT_ELEMENT_CHECK(dt_output_shape_t, shape_bytes));
  if (n_outputs != function->n_outputs)
    return DT_FAIL(DT_E_ARGUMENT, "n_outputs: %u; expected %u", n_outputs, function->n_outputs);
  return NULL;
}

dt_status_t dt_function_output_sizes(dt_session_t *session, dt_function_t *function,
                                     dt_tensor_t *const *inputs, uint32_t n_inputs,
                                     dt_output_shape_t *shapes, size_t shape_bytes,
                                     uint32_t n_outputs) {
  dt_status_t status = check(session, function, shapes, shape_bytes, n_outputs);
  if (status)
    return dt__status_annotate(status, "dt_function_output_sizes");
  dt_output_shape_t *own = dt__calloc(n_outputs, sizeof(*own));
  status = own ? dt__call_measure(session, function, inputs, n_inputs, own) : DT_NO_MEMORY();
  for (uint32_t k = 0; !status && k < n_outputs; k++)
    DT_ELEMENT_GIVE(dt_output_shape_t, shapes, shape_bytes, k, &own[k]);
  dt__free(own);
  return dt__status_annotate(status, "function %s: output sizes", function->name);
}

// ---- Bytes ----------------------------------------------------------------------------------------

// Of the results that this segment makes.
static uint64_t result_bytes(const dt_call_t *call, const dt_variant_t *variant,
                             const uint32_t *segments, uint32_t segment) {
  const int64_t *sizes = call->session->sizes;
  uint64_t sum = 0;
  for (uint32_t k = 0; k < call->function->n_outputs; k++) {
    const dt_output_info_t *info = &variant->outputs[k];
    int64_t bytes = 0;
    bool known = !segments || segments[k] <= segment;
    if (known) // below DT_SIZE_LIMIT: the plan has seen to it
      (void)dt__dtype_bytes(info->dtype, info->rank, sizes, &bytes);
    sum += known && !call->outputs[k] ? (uint64_t)bytes : 0;
    sizes += info->rank;
  }
  return sum;
}

// `needs` says what the call needs, and what for.
static dt_status_t refuse(const dt_call_t *call, const char *needs) {
  dt_text_t text;
  dt__text_init(&text);
  for (uint32_t i = 0; i < call->function->n_inputs && i < 8; i++) {
    const dt_tensor_t *tensor = call->inputs[i];
    char name[96];
    dt__text_printf(&text, "%s%s[", i ? ", " : "",
                    dt__input_name(call->function, i, name, sizeof(name)));
    for (uint32_t d = 0; d < tensor->rank; d++)
      dt__text_printf(&text, "%s%lld", d ? ", " : "", (long long)tensor->sizes[d]);
    dt__text_put(&text, "]");
  }
  dt_status_t status =
      DT_FAIL(DT_E_LIMIT,
              "%s; %llu are allowed (max_call_bytes, or DUCTILE_MAX_CALL_MIB); it "
              "was given %s",
              needs, (unsigned long long)call->function->max_call_bytes, dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

dt_status_t dt__call_admit_evaluated(const dt_call_t *call, const dt_variant_t *variant,
                                     uint64_t bytes) {
  uint64_t results = result_bytes(call, variant, NULL, 0), most = call->function->max_call_bytes;
  if (!most || (bytes <= most && results <= most - bytes))
    return NULL;
  char needs[64];
  (void)snprintf(needs, sizeof(needs), "the evaluator needs %llu bytes or more",
                 (unsigned long long)(bytes + results));
  return refuse(call, needs);
}

dt_status_t dt__call_admit(const dt_call_t *call, const dt_variant_t *variant, uint32_t segment,
                           const dt_frame_t *frame) {
  const dt_compiled_t *compiled = variant->compiled;
  const uint32_t *segments = compiled->n_segments > 1 ? compiled->output_segments : NULL;
  bool host = variant->place == DT_CPU;
  uint64_t threads = host ? dt__pool_width(call->session->runtime->pool) : 1;
  uint64_t block = (uint64_t)frame->block_bytes, scratch = (uint64_t)frame->scratch_bytes * threads;
  uint64_t results = result_bytes(call, variant, segments, segment);
  uint64_t most = call->function->max_call_bytes;
  if (block <= most && scratch <= most && results <= most && block + scratch + results <= most)
    return NULL;
  char needs[192];
  (void)snprintf(needs, sizeof(needs),
                 "the call needs %llu bytes (%llu between kernels, %llu of scratch, %llu of "
                 "results)",
                 (unsigned long long)(block + scratch + results), (unsigned long long)block,
                 (unsigned long long)scratch, (unsigned long long)results);
  return refuse(call, needs);
}

// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals: lists of values that are known while a model is traced, so that nothing
// of them is left in the program. Where sizes say how long a list is, they are guarded.
#include "frontends/onnx/import/walk.h"

// More elements than this are refused.
#define MOST_ITEMS 4096

// Input k, which must be a sequence. NULL: failed.
static const dt_imp_list_t *sequence(dt_imp_node_t *n, uint32_t k) {
  const dt_imp_list_t *list = dt__imp_list(n, k);
  if (list && !list->optional)
    return list;
  dt__imp_fail(n, DT_E_FORMAT, "input %u is no sequence", k);
  return NULL;
}

// A place in a list of `len`, or right behind it where `behind`; input k. False: failed.
static bool place_in(dt_imp_node_t *n, uint32_t k, uint32_t len, bool behind, uint32_t *out) {
  dt_imp_ints_t ints;
  if (!dt__imp_ints(n, k, &ints))
    return false;
  int64_t at = ints.len == 1 ? ints.items[0] : INT64_MIN;
  int64_t from_start = at < 0 && at >= -(int64_t)len ? at + (int64_t)len : at;
  if (from_start < 0 || from_start >= (int64_t)len + (behind ? 1 : 0)) {
    dt__imp_fail(n, DT_E_RANGE, "position %lld in a sequence of %u", (long long)at, len);
    return false;
  }
  *out = (uint32_t)from_start;
  return true;
}

// ---- Making -----------------------------------------------------------------------------------------
void dt__imp_make_SequenceEmpty(dt_imp_node_t *n) { dt__imp_out_list(n, 0, 0, NULL, false); }

void dt__imp_make_SequenceConstruct(dt_imp_node_t *n) {
  uint32_t len = dt__imp_n_in(n);
  const dt_imp_val_t **items = DT_IMP_ARRAY(n, const dt_imp_val_t *, len);
  for (uint32_t k = 0; items && k < len; k++)
    items[k] = dt__imp_val(n, k);
  if (items)
    dt__imp_out_list(n, 0, len, items, false);
}

void dt__imp_make_SequenceInsert(dt_imp_node_t *n) {
  const dt_imp_list_t *list = sequence(n, 0);
  uint32_t at = list ? list->len : 0;
  if (!list || (dt__imp_has(n, 2) && !place_in(n, 2, list->len, true, &at)))
    return;
  const dt_imp_val_t **items = DT_IMP_ARRAY(n, const dt_imp_val_t *, (size_t)list->len + 1);
  if (!items)
    return;
  for (uint32_t k = 0; k < list->len; k++)
    items[k < at ? k : k + 1] = list->items[k];
  items[at] = dt__imp_val(n, 1);
  dt__imp_out_list(n, 0, list->len + 1, items, false);
}

void dt__imp_make_SequenceErase(dt_imp_node_t *n) {
  const dt_imp_list_t *list = sequence(n, 0);
  if (list && list->len == 0)
    dt__imp_fail(n, DT_E_RANGE, "the sequence is empty");
  if (!list || list->len == 0)
    return;
  uint32_t at = list->len - 1;
  if (dt__imp_has(n, 1) && !place_in(n, 1, list->len, false, &at))
    return;
  const dt_imp_val_t **items = DT_IMP_ARRAY(n, const dt_imp_val_t *, list->len);
  if (!items)
    return;
  for (uint32_t k = 0; k < list->len; k++)
    if (k != at)
      items[k < at ? k : k - 1] = list->items[k];
  dt__imp_out_list(n, 0, list->len - 1, items, false);
}

// ---- Reading ----------------------------------------------------------------------------------------
void dt__imp_make_SequenceAt(dt_imp_node_t *n) {
  const dt_imp_list_t *list = sequence(n, 0);
  uint32_t at = 0;
  if (list && place_in(n, 1, list->len, false, &at))
    dt__imp_out_val(n, 0, list->items[at]);
}

static void out_number(dt_imp_node_t *n, dt_dtype_t dtype, int64_t value) {
  dt_imp_known_t *known = dt__imp_known_make(n, dtype, 0, NULL);
  if (known)
    known->items[0].sym = dt_sym_const(n->t, value);
  dt__imp_out_known(n, 0, known);
}

void dt__imp_make_SequenceLength(dt_imp_node_t *n) {
  const dt_imp_list_t *list = sequence(n, 0);
  if (list)
    out_number(n, DT_I64, list->len);
}

void dt__imp_make_ConcatFromSequence(dt_imp_node_t *n) {
  const dt_imp_list_t *list = sequence(n, 0);
  int64_t axis = dt__imp_int(n, "axis", 0);
  bool is_new = dt__imp_int(n, "new_axis", 0) != 0;
  dt_value_t *parts = list ? DT_IMP_ARRAY(n, dt_value_t, list->len) : NULL;
  if (!parts)
    return;
  if (list->len == 0 || axis < -DT_MAX_RANK || axis > DT_MAX_RANK) {
    dt__imp_fail(n, DT_E_SHAPE,
                 list->len ? "attribute \"axis\" is out of range"
                           : "an empty sequence has nothing to be joined");
    return;
  }
  for (uint32_t k = 0; k < list->len && !dt__imp_failed(n); k++) {
    parts[k] = dt__imp_val_tensor(n, list->items[k]);
    if (is_new)
      parts[k] = dt_unsqueeze(n->t, parts[k], (int32_t)axis);
  }
  dt__imp_out(n, 0, list->len == 1 ? parts[0] : dt_concat(n->t, list->len, parts, (int32_t)axis));
}

// ---- Splitting --------------------------------------------------------------------------------------
// The sizes of the parts. False: failed.
static bool part_sizes(dt_imp_node_t *n, dt_sym_t whole, dt_imp_syms_t *out) {
  dt_sym_t one = dt_sym_const(n->t, 1), step = one;
  if (dt__imp_has(n, 1)) {
    if (!dt__imp_syms(n, 1, out))
      return false;
    if (dt__imp_rank(n, 1) == 1)
      return true;
    step = out->items[0];
  }
  int64_t count = dt_sym_int(n->t, dt_sym_ceildiv(n->t, whole, step));
  if (count < 0 || count > MOST_ITEMS) {
    dt__imp_fail(n, DT_E_LIMIT, "%lld parts; at most %d", (long long)count, MOST_ITEMS);
    return false;
  }
  dt_sym_t *sizes = DT_IMP_ARRAY(n, dt_sym_t, (size_t)count);
  dt_sym_t rest = whole;
  for (int64_t k = 0; sizes && k < count; k++) {
    sizes[k] = k + 1 < count ? step : rest;
    rest = dt_sym_sub(n->t, rest, step);
  }
  *out = (dt_imp_syms_t){(uint32_t)count, sizes};
  return sizes && !dt__imp_failed(n);
}

void dt__imp_make_SplitToSequence(dt_imp_node_t *n) {
  int64_t axis = dt__imp_int(n, "axis", 0), rank = dt__imp_rank(n, 0);
  bool keeps = dt__imp_has(n, 1) || dt__imp_int(n, "keepdims", 1) != 0;
  dt_imp_syms_t sizes;
  dt_value_t x = dt__imp_in(n, 0);
  if (axis < -rank || axis >= rank) {
    dt__imp_fail(n, DT_E_SHAPE, "axis %lld of rank %lld", (long long)axis, (long long)rank);
    return;
  }
  if (dt__imp_failed(n) || !part_sizes(n, dt_dim(n->t, x, (int32_t)axis), &sizes))
    return;
  dt_value_t *parts = DT_IMP_ARRAY(n, dt_value_t, sizes.len);
  const dt_imp_val_t **items = DT_IMP_ARRAY(n, const dt_imp_val_t *, sizes.len);
  if (!parts || !items)
    return;
  if (sizes.len > 0)
    dt_split(n->t, x, (int32_t)axis, sizes.len, sizes.items, parts);
  for (uint32_t k = 0; k < sizes.len && !dt__imp_failed(n); k++)
    items[k] = dt__imp_val_of(n, keeps ? parts[k] : dt_squeeze(n->t, parts[k], (int32_t)axis));
  if (!dt__imp_failed(n))
    dt__imp_out_list(n, 0, sizes.len, items, false);
}

// ---- SequenceMap ------------------------------------------------------------------------------------
const char *dt__imp_check_SequenceMap(dt_imp_node_t *n) {
  const dt_onnx_graph_t *graph = dt__imp_attr_graph(n, "body");
  return !graph || graph->input.len != dt__imp_n_in(n) || graph->output.len < dt__imp_n_out(n)
             ? "inputs and outputs of the body are not those of the node"
             : NULL;
}

// Inputs of the body for one element: of sequences that element, tensors as they are.
static bool element_inputs(dt_imp_node_t *n, uint32_t len, uint32_t at, const dt_imp_val_t **in) {
  for (uint32_t k = 0; k < dt__imp_n_in(n); k++) {
    const dt_imp_list_t *list = dt__imp_list(n, k);
    if (list && list->len != len) {
      dt__imp_fail(n, DT_E_SHAPE, "input %u is a sequence of %u, the first one of %u", k, list->len,
                   len);
      return false;
    }
    in[k] = list ? list->items[at] : dt__imp_val(n, k);
  }
  return true;
}

void dt__imp_make_SequenceMap(dt_imp_node_t *n) {
  const dt_imp_list_t *first = sequence(n, 0);
  const dt_onnx_graph_t *graph = dt__imp_attr_graph(n, "body");
  if (!first)
    return;
  uint32_t n_in = dt__imp_n_in(n), n_out = graph->output.len, len = first->len;
  const dt_imp_val_t **in = DT_IMP_ARRAY(n, const dt_imp_val_t *, n_in);
  const dt_imp_val_t **out = DT_IMP_ARRAY(n, const dt_imp_val_t *, n_out);
  const dt_imp_val_t **all = DT_IMP_ARRAY(n, const dt_imp_val_t *, (size_t)n_out *len);
  if (!in || !out || !all)
    return;
  for (uint32_t i = 0; i < len; i++) {
    dt_value_t index = dt_scalar(n->t, DT_I64, i);
    if (!element_inputs(n, len, i, in) || !dt__imp_run_trip(n, index, graph, n_in, in, out))
      return;
    for (uint32_t k = 0; k < n_out; k++)
      all[(size_t)k * len + i] = out[k];
  }
  for (uint32_t k = 0; k < dt__imp_n_out(n); k++)
    if (dt__imp_wants(n, k))
      dt__imp_out_list(n, k, len, all + (size_t)k * len, false);
}

// ---- Optionals --------------------------------------------------------------------------------------
void dt__imp_make_Optional(dt_imp_node_t *n) {
  const dt_imp_val_t *value = dt__imp_has(n, 0) ? dt__imp_val(n, 0) : NULL;
  dt__imp_out_list(n, 0, value ? 1 : 0, &value, true);
}

void dt__imp_make_OptionalGetElement(dt_imp_node_t *n) {
  const dt_imp_list_t *list = dt__imp_list(n, 0);
  if (list && list->optional && list->len == 0)
    dt__imp_fail(n, DT_E_STATE, "the optional is empty");
  else
    dt__imp_out_val(n, 0, list && list->optional ? list->items[0] : dt__imp_val(n, 0));
}

void dt__imp_make_OptionalHasElement(dt_imp_node_t *n) {
  const dt_imp_list_t *list = dt__imp_has(n, 0) ? dt__imp_list(n, 0) : NULL;
  bool has = dt__imp_has(n, 0) && (!list || !list->optional || list->len > 0);
  out_number(n, DT_BOOL, has);
}

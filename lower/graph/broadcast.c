// SPDX-License-Identifier: Apache-2.0
// Broadcasting, made explicit: reshape adds leading dims of size 1, expand repeats. Two sizes of
// which nothing is known are asked to be equal; where the sizes at hand say that one of them is
// repeated, or one of them comes from data, so that nothing is at hand, the result's size is
// selected at run time, so that one variant covers all cases.
#include "lower/graph/infer.h"
#include "lower/graph/scalar.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

typedef struct broadcast_t {
  dt_graph_t *graph;
  dt_origin_t origin;
  uint32_t n;
  const dt_node_id_t *values;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t from[DT_MAX_RANK]; // the argument each size came from first, for messages
} broadcast_t;

// The size of value `k` in result dim `dim`; none where it lacks that dim.
static dt_sym_t size_at(const broadcast_t *b, uint32_t k, uint32_t dim) {
  const dt_node_t *node = dt__graph_node(b->graph, b->values[k]);
  uint32_t missing = b->rank - node->rank;
  return dim < missing ? DT_SYM_NONE_ID : node->sizes[dim - missing];
}

static void put_value(const broadcast_t *b, uint32_t k, dt_text_t *out) {
  const dt_node_t *node = dt__graph_node(b->graph, b->values[k]);
  dt__text_put(out, " (of ");
  dt__print_name(b->graph, b->values[k], out);
  dt__text_put(out, " ");
  dt__print_sizes(b->graph->env, node->rank, node->sizes, out);
  dt__text_put(out, ")");
}

// Requires `cond`, naming both sizes on failure.
static dt_status_t require(const broadcast_t *b, dt_sym_t cond, uint32_t k, uint32_t dim) {
  dt_symenv_t *env = b->graph->env;
  dt_status_t status = NULL;
  dt_tri_t known = cond.id ? dt__sym_known(env, cond) : DT_UNKNOWN;
  if (known == DT_TRUE)
    return NULL;
  if (known != DT_FALSE) {
    status = cond.id ? dt__sym_require(env, cond, &b->origin, "sizes are equal or 1")
                     : dt__symenv_status(env);
    if (!status)
      return cond.id ? NULL : DT_FAIL(DT_E_ARGUMENT, "broadcast: a size is no expression");
  }
  dt_text_t text;
  dt__text_init(&text);
  if (b->origin.file[0])
    dt__text_printf(&text, "%s:%d: ", b->origin.file, b->origin.line);
  dt__text_printf(&text, "%s: sizes must be equal or 1 in dim %u: ", b->origin.op, dim);
  dt__sym_print(env, b->sizes[dim], &text);
  put_value(b, b->from[dim], &text);
  dt__text_put(&text, " and ");
  dt__sym_print(env, size_at(b, k, dim), &text);
  put_value(b, k, &text);
  status = known == DT_FALSE ? DT_FAIL(DT_E_SHAPE, "%s", dt__text_str(&text))
                             : dt__status_annotate(status, "%s", dt__text_str(&text));
  dt__text_fini(&text);
  return status;
}

dt_sym_t dt__graph_broadcast_size(dt_symenv_t *env, dt_sym_t a, dt_sym_t b, dt_sym_t *must) {
  dt_sym_t one = dt__sym_const(env, 1);
  *must = one;
  if (dt__sym_known_eq(env, a, one))
    return b;
  if (dt__sym_known_eq(env, a, b) || dt__sym_known_eq(env, b, one))
    return a;
  int64_t a_hint = 0, b_hint = 0;
  uint32_t newest = 0;
  bool repeats = dt__sym_newest_unbacked(env, a, &newest) ||
                 dt__sym_newest_unbacked(env, b, &newest) ||
                 (dt__sym_hint(env, a, &a_hint) && dt__sym_hint(env, b, &b_hint) &&
                  (a_hint == 1 || b_hint == 1));
  dt_sym_t a_is_one = dt__sym_eq(env, a, one), equal = dt__sym_eq(env, a, b);
  dt_sym_t any = dt__sym_or(env, equal, dt__sym_or(env, a_is_one, dt__sym_eq(env, b, one)));
  // A rebuilt graph finds the question answered by the facts of the first time.
  repeats = repeats || (any.id && dt__sym_known_true(env, any));
  *must = repeats ? any : equal;
  return repeats ? dt__sym_select(env, a_is_one, b, a) : a;
}

// Folds the size of value `k` into the result's.
static dt_status_t join_size(broadcast_t *b, uint32_t k, uint32_t dim) {
  dt_sym_t a = b->sizes[dim], c = size_at(b, k, dim), must = {0};
  if (c.id == 0)
    return NULL;
  dt_sym_t size = a.id ? dt__graph_broadcast_size(b->graph->env, a, c, &must) : c;
  if (a.id)
    DT_TRY(require(b, must, k, dim));
  if (size.id != a.id)
    b->from[dim] = k;
  b->sizes[dim] = size;
  return NULL;
}

// Brings value `k` to the result's shape.
static dt_status_t bring(broadcast_t *b, dt_node_id_t *value) {
  dt_symenv_t *env = b->graph->env;
  const dt_node_t *node = dt__graph_node(b->graph, *value);
  uint32_t missing = b->rank - node->rank;
  dt_attrs_t attrs = {0};
  attrs.n_syms = b->rank;
  if (missing) {
    for (uint32_t dim = 0; dim < b->rank; dim++)
      attrs.syms[dim] = dim < missing ? dt__sym_const(env, 1) : node->sizes[dim - missing];
    DT_TRY(dt__graph_add(b->graph, DT_OP_reshape, value, 1, &attrs, &b->origin, value));
    node = dt__graph_node(b->graph, *value);
  }
  bool same = true;
  for (uint32_t dim = 0; dim < b->rank; dim++) {
    attrs.syms[dim] = b->sizes[dim];
    if (dt__sym_known_eq(env, node->sizes[dim], b->sizes[dim]))
      continue;
    same = false;
    // What was required of the pair implies this; the expand then asks nothing more.
    dt_sym_t repeats = dt__infer_repeats(env, node->sizes[dim], b->sizes[dim]);
    if (repeats.id && dt__sym_known(env, repeats) == DT_UNKNOWN)
      DT_TRY(dt__sym_learn_at(env, repeats, &b->origin));
  }
  if (same)
    return NULL;
  return dt__graph_add(b->graph, DT_OP_expand, value, 1, &attrs, &b->origin, value);
}

dt_status_t dt__graph_broadcast(dt_graph_t *graph, dt_node_id_t *values, uint32_t n,
                                const dt_origin_t *origin) {
  broadcast_t b = {.graph = graph, .n = n, .values = values};
  if (origin)
    b.origin = *origin;
  if (!b.origin.op)
    b.origin.op = "broadcast";
  if (!b.origin.file)
    b.origin.file = "";
  for (uint32_t k = 0; k < n; k++) {
    if (values[k].id == 0 || values[k].id > graph->nodes.len)
      return DT_FAIL(DT_E_ARGUMENT, "%s: argument %u is no value of this graph", b.origin.op, k);
    uint32_t rank = dt__graph_node(graph, values[k])->rank;
    b.rank = rank > b.rank ? rank : b.rank;
  }
  for (uint32_t dim = 0; dim < b.rank; dim++) {
    for (uint32_t k = 0; k < n; k++)
      DT_TRY(join_size(&b, k, dim));
    if (b.sizes[dim].id == 0) {
      DT_TRY(dt__symenv_status(graph->env));
      return DT_FAIL(DT_E_ARGUMENT, "%s: size %u is no expression", b.origin.op, dim);
    }
  }
  for (uint32_t k = 0; k < n; k++) {
    dt_node_id_t value = values[k];
    DT_TRY(bring(&b, &value));
    values[k] = value;
  }
  return NULL;
}

dt_status_t dt__graph_full(dt_graph_t *graph, dt_dtype_t dtype, double value, uint32_t rank,
                           const dt_sym_t *sizes, const dt_origin_t *origin, dt_node_id_t *out) {
  *out = (dt_node_id_t){0};
  if (rank > DT_MAX_RANK)
    return DT_FAIL(DT_E_LIMIT, "full: rank %u, the most is %d", rank, DT_MAX_RANK);
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  attrs.floats[0] = value;
  if (!dt__dtype_is_float(dtype)) {
    // Casts saturate, so a value that comes back changed does not fit.
    dt_scalar_t whole = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = value});
    // Two to the 63 or 64 is the exception: the saturated value rounds to it.
    bool fits = dt__scalar_cast(dtype, DT_F64, whole).f == value &&
                value < (dtype == DT_U64 ? 0x1p64 : 0x1p63);
    if (!fits)
      return DT_FAIL(DT_E_ARGUMENT, "full: the value %g is no %s", value, dt_dtype_name(dtype));
    attrs.ints[0] = whole.i;
  }
  dt_node_id_t node = {0};
  DT_TRY(dt__graph_add(graph, DT_OP_scalar, NULL, 0, &attrs, origin, &node));
  if (rank) {
    dt_attrs_t shape = {0};
    shape.n_syms = rank;
    for (uint32_t k = 0; k < rank; k++)
      shape.syms[k] = dt__sym_const(graph->env, 1);
    DT_TRY(dt__graph_add(graph, DT_OP_reshape, &node, 1, &shape, origin, &node));
    for (uint32_t k = 0; k < rank; k++)
      shape.syms[k] = sizes[k];
    DT_TRY(dt__graph_add(graph, DT_OP_expand, &node, 1, &shape, origin, &node));
  }
  *out = node;
  return NULL;
}

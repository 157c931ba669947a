// SPDX-License-Identifier: Apache-2.0
// Values by their elements (dt_loop): a body over indices becomes nodes over all of them at once.
//
// An element is a value that broadcasts over the loop. Dims are aligned at the last one, as
// element-wise builders do: those of the loop stand last, and each open fold has one in front of
// all others. So what is made outside of a fold broadcasts over it. An index is an iota in its dim,
// and a fold is a reduction of dim 0.
#include "runtime/trace/builder.h"

#include "ductile/experimental.h"

#include "runtime/base/dtype.h"

#include <string.h>

static const dt_value_t none_value = {0};

struct dt_loop {
  dt_trace_t *trace;
  uint32_t rank, n; // dims of the loop; with those of open folds
  // By dim: those of the loop, then open folds, the outermost first.
  dt_sym_t extents[DT_MAX_RANK];
  dt_value_t index[DT_MAX_RANK];
};

// How far the dim is from the end: the rank of its index.
static uint32_t reach(const dt_loop_t *loop, uint32_t dim) {
  return dim < loop->rank ? loop->rank - dim : dim + 1;
}

static const dt_node_t *node_of(const dt_loop_t *loop, dt_value_t x) {
  return dt__graph_node(loop->trace->graph, (dt_node_id_t){x.id});
}

static dt_sym_t constant(const dt_loop_t *loop, int64_t value) {
  return dt__sym_const(loop->trace->env, value);
}

// ---- Indices ------------------------------------------------------------------------------------
static dt_value_t make_index(dt_loop_t *loop, uint32_t dim) {
  dt_attrs_t attrs = {0};
  attrs.dtype = DT_I64;
  attrs.n_axes = 1;
  attrs.n_syms = reach(loop, dim);
  attrs.syms[0] = loop->extents[dim];
  for (uint32_t k = 1; k < attrs.n_syms; k++)
    attrs.syms[k] = constant(loop, 1);
  return loop->index[dim] = dt__trace_add(loop->trace, DT_OP_iota, NULL, 0, &attrs);
}

static bool begin(const dt_loop_t *loop, const char *op) {
  return loop && dt__trace_begin(loop->trace, op);
}

dt_trace_t *dt_loop_trace(const dt_loop_t *loop) { return loop ? loop->trace : NULL; }

dt_value_t dt_loop_index(dt_loop_t *loop, uint32_t axis) {
  if (!begin(loop, "loop_index"))
    return none_value;
  if (axis < loop->rank)
    return loop->index[axis].id ? loop->index[axis] : make_index(loop, axis);
  DT_TRACE_FAIL(loop->trace, DT_E_ARGUMENT, "axis %u of a loop of %u dims", axis, loop->rank);
  return none_value;
}

// The dim that the value is the index of; loop->n: none, it is computed.
static uint32_t dim_of(const dt_loop_t *loop, dt_value_t index) {
  uint32_t dim = 0;
  while (dim < loop->n && (!index.id || loop->index[dim].id != index.id))
    dim++;
  return dim;
}

// ---- Loads --------------------------------------------------------------------------------------
typedef struct load_t {
  dt_loop_t *loop;
  dt_value_t x;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];     // of x
  dt_value_t indices[DT_MAX_RANK]; // i64
  uint32_t dims[DT_MAX_RANK];      // of the loop, that indices are of; loop->n: none
  bool inside[DT_MAX_RANK];        // known to be
} load_t;

static bool check_index(const load_t *load, uint32_t k, dt_value_t index) {
  dt_trace_t *trace = load->loop->trace;
  const dt_node_t *node = dt__trace_node(trace, index, "an index");
  if (!node)
    return false;
  if (node->dtype != DT_I64 && node->dtype != DT_I32)
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "index %u is %s; expected i32 or i64", k,
                  dt_dtype_name(node->dtype));
  else if (node->rank > load->loop->n)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "index %u is no element of the loop: its rank is %u", k,
                  node->rank);
  return !trace->status;
}

static bool take_load(dt_loop_t *loop, dt_value_t x, uint32_t n, const dt_value_t *indices,
                      load_t *out) {
  dt_trace_t *trace = loop->trace;
  const dt_node_t *node = dt__trace_node(trace, x, "x");
  if (!node)
    return false;
  *out = (load_t){.loop = loop, .x = dt__trace_current(trace, x), .rank = node->rank};
  memcpy(out->sizes, node->sizes, sizeof(out->sizes));
  if (n != node->rank || (n && !indices)) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%u indices of a tensor of rank %u", indices ? n : 0,
                  node->rank);
    return false;
  }
  for (uint32_t k = 0; k < n; k++) {
    if (!check_index(out, k, indices[k]))
      return false;
    out->dims[k] = dim_of(loop, indices[k]);
    out->inside[k] = out->dims[k] < loop->n &&
                     dt__sym_known(trace->env, dt__sym_le(trace->env, loop->extents[out->dims[k]],
                                                          out->sizes[k])) == DT_TRUE;
    out->indices[k] = indices[k];
    if (dt__graph_node(trace->graph, (dt_node_id_t){indices[k].id})->dtype != DT_I64)
      out->indices[k] = (dt_cast)(trace, indices[k], DT_I64);
  }
  return !trace->status;
}

// All indices are dims of the loop, each another one, and inside: no element has to be looked for.
static bool is_view(const load_t *load) {
  bool view = true;
  for (uint32_t k = 0; k < load->rank; k++) {
    view = view && load->inside[k];
    for (uint32_t i = 0; i < k; i++)
      view = view && load->dims[i] != load->dims[k];
  }
  return view;
}

static dt_value_t view(const load_t *load) {
  dt_loop_t *loop = load->loop;
  dt_trace_t *trace = loop->trace;
  dt_value_t x = load->x;
  dt_attrs_t order = {.n_axes = load->rank};
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t rank = 0, n = 0;
  for (uint32_t k = 0; k < load->rank; k++) {
    uint32_t far = reach(loop, load->dims[k]);
    rank = far > rank ? far : rank;
    if (!dt__sym_known_eq(trace->env, load->sizes[k], loop->extents[load->dims[k]]))
      x = dt__trace_slice(trace, x, k, constant(loop, 0), loop->extents[load->dims[k]], 1);
  }
  for (uint32_t far = rank; far > 0; far--) { // dims as they stand in the loop
    sizes[rank - far] = constant(loop, 1);
    for (uint32_t k = 0; k < load->rank; k++)
      if (reach(loop, load->dims[k]) == far) {
        order.axes[n++] = (int32_t)k;
        sizes[rank - far] = loop->extents[load->dims[k]];
      }
  }
  if (load->rank > 1 && !trace->status)
    x = dt__trace_add(trace, DT_OP_permute, &x, 1, &order);
  return trace->status ? none_value : dt__trace_reshape(trace, x, rank, sizes);
}

static dt_value_t literal(const load_t *load, int64_t value) {
  return (dt_scalar)(load->loop->trace, DT_I64, (double)value);
}

static dt_value_t size_of(const load_t *load, dt_sym_t size) {
  return (dt_size_value)(load->loop->trace, dt__trace_told(load->loop->trace, size));
}

// Whether all indices are inside; none where that is known.
static dt_value_t is_inside(const load_t *load) {
  dt_trace_t *trace = load->loop->trace;
  dt_value_t all = none_value;
  for (uint32_t k = 0; k < load->rank; k++) {
    if (load->inside[k])
      continue;
    dt_value_t not_below = (dt_ge)(trace, load->indices[k], literal(load, 0));
    dt_value_t below = (dt_lt)(trace, load->indices[k], size_of(load, load->sizes[k]));
    dt_value_t both = (dt_logical_and)(trace, not_below, below);
    all = all.id ? (dt_logical_and)(trace, all, both) : both;
  }
  return all;
}

// x as a row, and the place in it.
static dt_value_t look_up(const load_t *load, dt_value_t inside, bool checked) {
  dt_trace_t *trace = load->loop->trace;
  dt_sym_t count = constant(load->loop, 1);
  dt_value_t at = none_value;
  for (uint32_t k = 0; k < load->rank && !trace->status; k++) {
    count = dt__trace_made(trace, dt__sym_mul(trace->env, count, load->sizes[k]));
    at = k ? (dt_add)(trace, (dt_mul)(trace, at, size_of(load, load->sizes[k])), load->indices[k])
           : load->indices[k];
  }
  if (inside.id && !trace->status)
    at = (dt_where)(trace, inside, at, checked ? size_of(load, count) : literal(load, 0));
  if (trace->status)
    return none_value;
  return (dt_gather)(trace, dt__trace_reshape(trace, load->x, 1, &count), at, 0);
}

static dt_value_t load_element(const load_t *load, const dt_value_t *outside) {
  dt_trace_t *trace = load->loop->trace;
  if (is_view(load))
    return view(load);
  dt_value_t inside = is_inside(load);
  dt_value_t found = look_up(load, inside, !outside);
  if (trace->status || !outside || !inside.id)
    return trace->status ? none_value : found;
  return (dt_where)(trace, inside, found, *outside);
}

dt_value_t dt_loop_load(dt_loop_t *loop, dt_value_t x, uint32_t n, const dt_value_t *indices) {
  load_t load;
  if (!begin(loop, "loop_load") || !take_load(loop, x, n, indices, &load))
    return none_value;
  return load_element(&load, NULL);
}

dt_value_t dt_loop_load_or(dt_loop_t *loop, dt_value_t x, uint32_t n, const dt_value_t *indices,
                           dt_value_t outside) {
  load_t load;
  if (!begin(loop, "loop_load_or") || !take_load(loop, x, n, indices, &load))
    return none_value;
  dt_trace_t *trace = loop->trace;
  const dt_node_t *other = dt__trace_node(trace, outside, "outside");
  dt_dtype_t dtype = dt__graph_node(trace->graph, (dt_node_id_t){load.x.id})->dtype;
  if (other && other->dtype != dtype)
    DT_TRACE_FAIL(trace, DT_E_DTYPE, "outside is %s; expected %s, x's dtype",
                  dt_dtype_name(other->dtype), dt_dtype_name(dtype));
  return trace->status ? none_value : load_element(&load, &outside);
}

// ---- Folds and loops ----------------------------------------------------------------------------
// An element over the first `n` dims, whose extents are given; over others it stays as it is.
static dt_value_t spread(dt_loop_t *loop, dt_value_t element, const char *what, uint32_t n,
                         const dt_sym_t *extents) {
  dt_trace_t *trace = loop->trace;
  dt_sym_t sizes[DT_MAX_RANK];
  if (trace->status || !dt__trace_node(trace, element, what))
    return none_value;
  element = dt__trace_current(trace, element);
  const dt_node_t *node = node_of(loop, element);
  uint32_t missing = loop->n - (node->rank < loop->n ? node->rank : loop->n);
  if (node->rank > loop->n) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                  "%s has rank %u in a loop of %u dims: it is a whole tensor, or belongs to a fold "
                  "that has ended",
                  what, node->rank, loop->n);
    return none_value;
  }
  for (uint32_t k = 0; k < loop->n; k++)
    sizes[k] = k < missing ? constant(loop, 1) : node->sizes[k - missing];
  element = dt__trace_reshape(trace, element, loop->n, sizes);
  memcpy(sizes, extents, n * sizeof(sizes[0]));
  return trace->status ? none_value : dt__trace_expand(trace, element, loop->n, sizes);
}

dt_value_t dt_loop_reduce(dt_loop_t *loop, dt_loop_fold_t fold, dt_sym_t extent,
                          dt_loop_term_fn_t term, void *closure) {
  typedef dt_value_t (*fold_fn_t)(dt_trace_t *, dt_value_t, uint32_t, const int32_t *, bool);
  static const fold_fn_t folds[] = {[DT_LOOP_SUM] = dt_sum,  [DT_LOOP_PROD] = dt_prod,
                                    [DT_LOOP_MAX] = dt_amax, [DT_LOOP_MIN] = dt_amin,
                                    [DT_LOOP_ANY] = dt_any,  [DT_LOOP_ALL] = dt_all};
  const int32_t first = 0;
  if (!begin(loop, "loop_reduce") || !dt__trace_sym(loop->trace, &extent, "extent"))
    return none_value;
  dt_trace_t *trace = loop->trace;
  if ((unsigned)fold >= sizeof(folds) / sizeof(folds[0]) || !folds[fold] || !term)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "fold %d, term %s", (int)fold, term ? "given" : "NULL");
  else if (loop->n == DT_MAX_RANK)
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "a loop of %u dims and %u folds; the most is %d in all",
                  loop->rank, loop->n - loop->rank, DT_MAX_RANK);
  if (trace->status)
    return none_value;
  loop->extents[loop->n] = extent;
  dt_value_t index = make_index(loop, loop->n++);
  dt_value_t element = trace->status ? none_value : term(loop, index, closure);
  dt_value_t all = spread(loop, element, "the term", 1, &extent);
  loop->index[--loop->n] = none_value;
  return trace->status ? none_value : folds[fold](trace, all, 1, &first, false);
}

dt_value_t dt_loop(dt_trace_t *trace, uint32_t rank, const dt_sym_t *sizes, dt_loop_fn_t body,
                   void *closure) {
  dt_loop_t loop = {.trace = trace, .rank = rank, .n = rank};
  if (!dt__trace_begin(trace, "loop") ||
      !dt__trace_syms(trace, rank, sizes, DT_MAX_RANK, "the loop's sizes", loop.extents))
    return none_value;
  if (!body)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "body: NULL");
  dt_value_t element = trace->status ? none_value : body(&loop, closure);
  return spread(&loop, element, "the element", rank, loop.extents);
}

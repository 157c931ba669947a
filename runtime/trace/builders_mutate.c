// SPDX-License-Identifier: Apache-2.0
// Writing through views. The views between a view and its base are undone one by one; one slice
// along one axis is written by a scatter along it. Other views are applied to the numbers of the
// base's elements, which then say where each element of the new value goes.
#include "runtime/trace/builder.h"

static const dt_value_t none_value = {0};

// ---- Bases --------------------------------------------------------------------------------------
typedef struct chain_t {
  dt_trace_t *trace;
  DT_VEC(dt_node_t) views; // from the base on
  dt_value_t base;         // its newest value
  dt_value_t input;        // whose value it is; or none
  uint32_t n_cuts, cut;    // slices of one axis, and which view is the last of them
  bool placed;             // the numbers of elements say best where they are
} chain_t;

// It shows each element of its input at most once, or the view is refused for it.
static bool shows(const dt_trace_t *trace, const dt_node_t *node) {
  if (node->op != DT_OP_bitcast)
    return dt__op_info(node->op)->lower == DT_LOWER_view;
  dt_dtype_t from = dt__graph_node(trace->graph, node->inputs[0])->dtype;
  return dt_dtype_bits(from) == dt_dtype_bits(node->dtype);
}

static bool find_base(chain_t *chain, dt_value_t view) {
  dt_trace_t *trace = chain->trace;
  uint32_t id = dt__trace_current(trace, view).id, n = 0;
  for (; !(chain->input = dt__trace_input_of(trace, id)).id; n++) {
    const dt_node_t *node = dt__graph_node(trace->graph, (dt_node_id_t){id});
    if (!shows(trace, node))
      break;
    if (!DT_VEC_PUSH(&trace->traced->arena, &chain->views, *node))
      return dt__trace_take(trace, DT_NO_MEMORY());
    id = node->inputs[0].id;
  }
  for (uint32_t k = 0; k < n / 2; k++) {
    dt_node_t other = chain->views.items[k];
    chain->views.items[k] = chain->views.items[n - 1 - k];
    chain->views.items[n - 1 - k] = other;
  }
  chain->base = dt__trace_current(trace, chain->input.id ? chain->input : (dt_value_t){.id = id});
  if (n == 0 && !chain->input.id)
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "the view is made by '%s', which is no view",
                  dt__op_info(dt__graph_node(trace->graph, (dt_node_id_t){id})->op)->name);
  return !trace->status;
}

// ---- Elements that show once --------------------------------------------------------------------
static bool expand_is_one_to_one(chain_t *chain, const dt_node_t *view) {
  dt_trace_t *trace = chain->trace;
  const dt_node_t *in = dt__graph_node(trace->graph, view->inputs[0]);
  for (uint32_t d = 0; d < view->rank; d++)
    if (!dt__sym_known_eq(trace->env, in->sizes[d], view->sizes[d])) {
      DT_TRACE_FAIL(
          trace, DT_E_ARGUMENT,
          "dim %u of the view was made by expand, and repeats elements: a value cannot be "
          "written through it",
          d);
      return false;
    }
  return true;
}

// Windows, or the elements in them, step over each other.
static bool windows_are_apart(chain_t *chain, const dt_node_t *view) {
  dt_trace_t *trace = chain->trace;
  dt_symenv_t *env = trace->env;
  dt_sym_t one = dt__sym_const(env, 1);
  for (uint32_t k = 0; k < view->attrs->n_axes; k++) {
    const dt_sym_t *field = &view->attrs->syms[4 * k];
    dt_sym_t elements = dt__sym_mul(env, dt__sym_sub(env, field[1], one), field[3]);
    dt_sym_t places = dt__sym_mul(env, dt__sym_sub(env, field[0], one), field[2]);
    dt_sym_t apart =
        dt__sym_or(env, dt__sym_lt(env, elements, field[2]), dt__sym_lt(env, places, field[3]));
    if (!dt__trace_made(trace, apart).id)
      return false;
    if (dt__sym_known(env, apart) == DT_FALSE)
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT,
                    "windows of the view overlap: a value cannot be written through them");
    else
      (void)dt__trace_take(
          trace, dt__sym_require(env, apart, &trace->origin, "windows that are written are apart"));
  }
  return !trace->status;
}

static bool cuts(const dt_trace_t *trace, const dt_node_t *view, uint32_t d) {
  const dt_node_t *in = dt__graph_node(trace->graph, view->inputs[0]);
  return view->attrs->ints[d] != 1 ||
         !dt__sym_known_eq(trace->env, view->attrs->syms[2 * d + 1], in->sizes[d]);
}

static bool find_cuts(chain_t *chain) {
  for (uint32_t k = 0; k < chain->views.len && !chain->trace->status; k++) {
    const dt_node_t *view = &chain->views.items[k];
    if (view->op == DT_OP_expand && !expand_is_one_to_one(chain, view))
      return false;
    if (view->op == DT_OP_window && !windows_are_apart(chain, view))
      return false;
    bool known = view->op == DT_OP_expand || view->op == DT_OP_permute ||
                 view->op == DT_OP_reshape || view->op == DT_OP_slice || view->op == DT_OP_bitcast;
    chain->placed |= !known;
    for (uint32_t d = 0; view->op == DT_OP_slice && d < view->rank; d++) {
      bool cut = cuts(chain->trace, view, d);
      chain->n_cuts += cut;
      chain->cut = cut ? k : chain->cut;
    }
  }
  chain->placed |= chain->n_cuts > 1;
  return !chain->trace->status;
}

// ---- There and back -----------------------------------------------------------------------------
// Of numbers of elements, which have no bits to show, `as_bits` leaves bitcasts out.
static dt_value_t view_again(chain_t *chain, uint32_t begin, uint32_t end, dt_value_t x,
                             bool as_bits) {
  for (uint32_t k = begin; k < end && !chain->trace->status; k++)
    if (as_bits || chain->views.items[k].op != DT_OP_bitcast)
      x = dt__trace_add(chain->trace, chain->views.items[k].op, &x, 1, chain->views.items[k].attrs);
  return x;
}

static dt_value_t bitcast(dt_trace_t *trace, dt_value_t x, dt_dtype_t dtype) {
  dt_attrs_t attrs = {.dtype = dtype};
  if (trace->status || dt__graph_node(trace->graph, (dt_node_id_t){x.id})->dtype == dtype)
    return x;
  return dt__trace_add(trace, DT_OP_bitcast, &x, 1, &attrs);
}

static dt_value_t permute_back(chain_t *chain, const dt_node_t *view, dt_value_t x) {
  dt_attrs_t attrs = {.n_axes = view->rank};
  for (uint32_t k = 0; k < view->rank; k++)
    attrs.axes[view->attrs->axes[k]] = (int32_t)k;
  return dt__trace_add(chain->trace, DT_OP_permute, &x, 1, &attrs);
}

// The views [begin, end), which leave no element out, the other way.
static dt_value_t undo(chain_t *chain, uint32_t begin, uint32_t end, dt_value_t x) {
  for (uint32_t k = end; k-- > begin && !chain->trace->status;) {
    const dt_node_t *view = &chain->views.items[k];
    dt_node_t in = *dt__graph_node(chain->trace->graph, view->inputs[0]);
    x = view->op == DT_OP_permute   ? permute_back(chain, view, x)
        : view->op == DT_OP_bitcast ? bitcast(chain->trace, x, in.dtype)
                                    : dt__trace_reshape(chain->trace, x, in.rank, in.sizes);
  }
  return x;
}

static dt_value_t replace(dt_trace_t *trace, dt_value_t x, dt_value_t indices, dt_value_t updates,
                          uint32_t axis) {
  dt_attrs_t attrs = {.n_axes = 1, .mode = DT_JOIN_REPLACE + DT_JOIN_APART};
  attrs.axes[0] = (int32_t)axis;
  if (trace->status)
    return none_value;
  return dt__trace_add(trace, DT_OP_scatter_elements, (dt_value_t[]){x, indices, updates}, 3,
                       &attrs);
}

static dt_value_t numbers(dt_trace_t *trace, dt_sym_t n) {
  dt_attrs_t attrs = {.n_syms = 1, .n_axes = 1, .dtype = DT_I64};
  attrs.syms[0] = n;
  return trace->status ? none_value : dt__trace_add(trace, DT_OP_iota, NULL, 0, &attrs);
}

// A slice without elements may begin anywhere. One that ends inside, as nearly all do, is written
// without checks and read beside what it is of: a guard says so where nothing else does.
static void ask_inside(dt_trace_t *trace, const dt_attrs_t *slice, dt_sym_t size) {
  dt_sym_t end = dt__sym_add(trace->env, slice->syms[0], slice->syms[1]);
  dt_sym_t inside = dt__trace_made(trace, dt__sym_le(trace->env, end, size));
  dt_origin_t origin = trace->origin;
  if (slice->ints[0] != 1 || dt__sym_known_true(trace->env, inside))
    return;
  inside = dt__trace_told(trace, inside);
  if (!trace->status)
    (void)(dt_sym_guard_or)(trace, inside, false);
  trace->origin = origin;
}

// `slice`, which cuts one axis of x alone, written with `value`.
static dt_value_t write_slice(dt_trace_t *trace, const dt_node_t *slice, dt_value_t x,
                              dt_value_t value) {
  uint32_t axis = 0;
  dt_sym_t sizes[DT_MAX_RANK];
  while (!cuts(trace, slice, axis))
    axis++;
  dt_attrs_t attrs = {.n_syms = 2};
  attrs.syms[0] = slice->attrs->syms[2 * axis];
  attrs.syms[1] = slice->attrs->syms[2 * axis + 1];
  attrs.ints[0] = slice->attrs->ints[axis];
  dt_sym_t size = dt__graph_node(trace->graph, slice->inputs[0])->sizes[axis];
  dt_value_t at = numbers(trace, size);
  if (!trace->status)
    ask_inside(trace, &attrs, size);
  if (trace->status)
    return none_value;
  at = dt__trace_add(trace, DT_OP_slice, &at, 1, &attrs);
  for (uint32_t d = 0; d < slice->rank; d++)
    sizes[d] = d == axis ? slice->sizes[d] : dt__trace_made(trace, dt__sym_const(trace->env, 1));
  if (!trace->status)
    at = dt__trace_reshape(trace, at, slice->rank, sizes);
  if (!trace->status)
    at = dt__trace_expand(trace, at, slice->rank, slice->sizes);
  return replace(trace, x, at, value, axis);
}

static dt_sym_t count_of(dt_trace_t *trace, uint32_t rank, const dt_sym_t *sizes) {
  dt_sym_t count = dt__sym_const(trace->env, 1);
  for (uint32_t d = 0; d < rank; d++)
    count = dt__sym_mul(trace->env, count, sizes[d]);
  return dt__trace_made(trace, count);
}

static dt_value_t write_places(chain_t *chain, dt_value_t value) {
  dt_trace_t *trace = chain->trace;
  dt_node_t base = *dt__graph_node(trace->graph, (dt_node_id_t){chain->base.id});
  dt_node_t view = chain->views.items[chain->views.len - 1];
  dt_sym_t all = count_of(trace, base.rank, base.sizes);
  dt_sym_t some = count_of(trace, view.rank, view.sizes);
  dt_value_t places = numbers(trace, all), x = chain->base;
  if (trace->status)
    return none_value;
  places = view_again(chain, 0, chain->views.len,
                      dt__trace_reshape(trace, places, base.rank, base.sizes), false);
  value = bitcast(trace, value, base.dtype);
  if (trace->status)
    return none_value;
  x = replace(trace, dt__trace_reshape(trace, x, 1, &all),
              dt__trace_reshape(trace, places, 1, &some), dt__trace_reshape(trace, value, 1, &some),
              0);
  return trace->status ? none_value : dt__trace_reshape(trace, x, base.rank, base.sizes);
}

static dt_value_t write_through(chain_t *chain, dt_value_t value) {
  if (chain->placed)
    return write_places(chain, value);
  if (chain->n_cuts == 0)
    return undo(chain, 0, chain->views.len, value);
  dt_node_t slice = chain->views.items[chain->cut];
  value = undo(chain, chain->cut + 1, chain->views.len, value);
  dt_value_t x = view_again(chain, 0, chain->cut, chain->base, true);
  if (chain->trace->status)
    return none_value;
  return undo(chain, 0, chain->cut, write_slice(chain->trace, &slice, x, value));
}

// ---- Builders -----------------------------------------------------------------------------------
static bool fits(dt_trace_t *trace, const dt_node_t *view, const dt_node_t *value) {
  if (view->dtype != value->dtype || view->rank != value->rank) {
    DT_TRACE_FAIL(trace, view->dtype == value->dtype ? DT_E_SHAPE : DT_E_DTYPE,
                  "the value is %s of rank %u; expected %s of rank %u as the view",
                  dt_dtype_name(value->dtype), value->rank, dt_dtype_name(view->dtype), view->rank);
    return false;
  }
  for (uint32_t d = 0; d < view->rank && !trace->status; d++) {
    dt_sym_t equal = dt__trace_made(trace, dt__sym_eq(trace->env, view->sizes[d], value->sizes[d]));
    if (equal.id)
      (void)dt__trace_take(trace, dt__sym_require(trace->env, equal, &trace->origin,
                                                  "a value has the sizes of the view it is "
                                                  "written through"));
  }
  return !trace->status;
}

dt_value_t dt_update_view(dt_trace_t *trace, dt_value_t view, dt_value_t value) {
  chain_t chain = {.trace = trace};
  if (!dt__trace_begin(trace, "update_view"))
    return none_value;
  const dt_node_t *shown = dt__trace_node(trace, view, "the view");
  const dt_node_t *given = shown ? dt__trace_node(trace, value, "the value") : NULL;
  if (!given || !fits(trace, shown, given))
    return none_value;
  value = dt__trace_current(trace, value);
  if (!find_base(&chain, view) || !find_cuts(&chain))
    return none_value;
  dt_value_t made = write_through(&chain, value);
  if (trace->status)
    return none_value;
  if (chain.input.id)
    dt__trace_update(trace, chain.input, made);
  return trace->status ? none_value : dt__trace_value(trace, (dt_node_id_t){made.id});
}

static bool check_indices(dt_trace_t *trace, uint32_t n, const dt_value_t *indices, uint32_t rank) {
  if (n == 0 || n > rank || !indices) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "%u indices%s of a value of rank %u; expected 1 to %u", n,
                  indices ? "" : " (NULL)", rank, rank);
    return false;
  }
  for (uint32_t k = 0; k < n; k++) {
    const dt_node_t *node = dt__trace_node(trace, indices[k], "an index");
    if (node && node->dtype != DT_I32 && node->dtype != DT_I64)
      DT_TRACE_FAIL(trace, DT_E_DTYPE, "index %u must be i32 or i64, got %s; use cast", k,
                    dt_dtype_name(node->dtype));
    if (trace->status)
      return false;
  }
  return true;
}

// The indices as i64 of one shape, one behind the other in a last dim.
static dt_value_t join_indices(dt_trace_t *trace, uint32_t n, const dt_value_t *indices) {
  dt_value_t parts[DT_MAX_RANK], zero = none_value;
  for (uint32_t k = 0; k < n; k++) {
    dt_value_t part = (dt_cast)(trace, indices[k], DT_I64);
    zero = k ? (dt_add)(trace, zero, part) : part; // of the shape that all of them have
  }
  zero = (dt_mul)(trace, zero, (dt_scalar)(trace, DT_I64, 0));
  for (uint32_t k = 0; k < n; k++)
    parts[k] =
        (dt_unsqueeze)(trace, (dt_add)(trace, (dt_cast)(trace, indices[k], DT_I64), zero), -1);
  return n == 1 ? parts[0] : (dt_concat)(trace, n, parts, -1);
}

dt_value_t dt_index_put(dt_trace_t *trace, dt_value_t x, uint32_t n, const dt_value_t *indices,
                        dt_value_t updates, dt_scatter_mode_t mode) {
  if (!dt__trace_begin(trace, "index_put"))
    return none_value;
  const dt_node_t *own = dt__trace_node(trace, x, "argument 0");
  if (!own || !dt__trace_node(trace, updates, "the updates") ||
      !check_indices(trace, n, indices, own->rank))
    return none_value;
  dt_node_t whole = *own;
  dt_origin_t origin = trace->origin;
  dt_value_t places = join_indices(trace, n, indices);
  trace->origin = origin;
  if (trace->status)
    return none_value;
  dt_node_t tuples = *dt__graph_node(trace->graph, (dt_node_id_t){places.id});
  uint32_t lead = tuples.rank - 1, rank = lead + whole.rank - n;
  dt_sym_t sizes[DT_MAX_RANK];
  if (rank > DT_MAX_RANK) {
    DT_TRACE_FAIL(trace, DT_E_LIMIT, "updates of %u dims; the most is %d", rank, DT_MAX_RANK);
    return none_value;
  }
  for (uint32_t d = 0; d < rank; d++)
    sizes[d] = d < lead ? tuples.sizes[d] : whole.sizes[n + d - lead];
  const dt_node_t *given = dt__trace_node(trace, updates, "the updates");
  if (given->rank > rank) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE, "updates of rank %u; expected at most %u", given->rank, rank);
    return none_value;
  }
  dt_sym_t aligned[DT_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++)
    aligned[d] = d < rank - given->rank ? dt__sym_const(trace->env, 1)
                                        : given->sizes[d - (rank - given->rank)];
  updates = dt__trace_reshape(trace, updates, rank, aligned);
  updates = trace->status ? none_value : dt__trace_expand(trace, updates, rank, sizes);
  return trace->status ? none_value : (dt_scatter_nd)(trace, x, places, updates, mode);
}

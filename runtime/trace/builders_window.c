// SPDX-License-Identifier: Apache-2.0
// Builders of windows over spatial dims, and of convolutions. builders_pool.c has pools.
#include "runtime/trace/builders_window.h"
#include "lower/graph/window.h"

static const dt_value_t none_value = {0};

// ---- Windows ------------------------------------------------------------------------------------
static dt_sym_t or_else(dt_trace_t *trace, dt_sym_t a, int64_t otherwise) {
  return a.id ? a : dt__trace_made(trace, dt__sym_const(trace->env, otherwise));
}

bool dt__windows_read(dt_trace_t *trace, uint32_t n, const dt_window_t *windows, dt_window_t *out) {
  static const dt_window_t plain = {.size = {0}};
  for (uint32_t k = 0; k < n; k++) {
    dt_window_t from = windows ? windows[k] : plain;
    const struct {
      dt_sym_t *given;
      const char *what;
    } fields[] = {{&from.size, "size"}, {&from.stride, "stride"}, {&from.dilation, "dilation"},
                  {&from.low, "low"},   {&from.high, "high"},     {&from.extra, "extra"}};
    if (from.reserved[0].id || from.reserved[1].id) {
      DT_TRACE_FAIL(trace, DT_E_UNSUPPORTED, "reserved fields of window %u are set; expected none",
                    k);
      return false;
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
      if (fields[i].given->id && !dt__trace_sym(trace, fields[i].given, fields[i].what))
        return false;
    out[k] = (dt_window_t){.size = from.size,
                           .stride = or_else(trace, from.stride, 1),
                           .dilation = or_else(trace, from.dilation, 1),
                           .low = or_else(trace, from.low, 0),
                           .high = or_else(trace, from.high, 0),
                           .extra = or_else(trace, from.extra, 0)};
    dt_symenv_t *env = trace->env;
    dt_sym_t one = dt__sym_const(env, 1);
    if (!dt__windows_need(trace, dt__sym_le(env, one, out[k].stride), "strides are 1 or more") ||
        !dt__windows_need(trace, dt__sym_le(env, one, out[k].dilation), "dilations are 1 or more"))
      return false;
  }
  return trace->status == NULL;
}

bool dt__windows_need(dt_trace_t *trace, dt_sym_t cond, const char *what) {
  return !trace->status && dt__trace_made(trace, cond).id &&
         dt__trace_take(trace, dt__sym_require(trace->env, cond, &trace->origin, what));
}

bool dt__windows_fit(dt_trace_t *trace, dt_sym_t reach, dt_sym_t room) {
  dt_symenv_t *env = trace->env;
  return dt__sym_known_eq(env, reach, dt__sym_const(env, 1)) ||
         dt__windows_need(trace, dt__sym_le(env, reach, room),
                          "the window fits into the padded input");
}

// Only its sizes, strides and dilations say something.
static bool has_padding(const dt_window_t *window) {
  return window->low.id || window->high.id || window->extra.id;
}

// n dims of x at `each` of its own, with windows in `out`.
static const dt_node_t *begin(dt_trace_t *trace, const char *op, dt_value_t x, uint32_t n,
                              uint32_t each, const dt_window_t *windows, dt_window_t *out) {
  const dt_node_t *node =
      dt__trace_begin(trace, op) ? dt__trace_node(trace, x, "argument 0") : NULL;
  if (!node)
    return NULL;
  if (n == 0 || n * each > node->rank || n > 4 || !windows) {
    DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "windows over %u dims of a value of rank %u%s", n,
                  node->rank, windows ? "" : ": NULL");
    return NULL;
  }
  return dt__windows_read(trace, n, windows, out) ? node : NULL;
}

dt_value_t dt_windows(dt_trace_t *trace, dt_value_t x, uint32_t n, const dt_window_t *windows) {
  dt_window_t w[4];
  const dt_node_t *node = begin(trace, "windows", x, n, 1, windows, w);
  dt_attrs_t attrs = {0};
  if (!node)
    return none_value;
  dt_symenv_t *env = trace->env;
  attrs.n_axes = n;
  attrs.n_syms = 4 * n;
  for (uint32_t k = 0; k < n; k++) {
    if (!w[k].size.id || has_padding(&windows[k])) {
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "windows %s here (dim %u of %u)",
                    w[k].size.id ? "have no padding" : "have a size", k, n);
      return none_value;
    }
    dt_sym_t room = node->sizes[node->rank - n + k];
    dt_sym_t reach = dt__window_reach(env, w[k].size, w[k].dilation);
    if (!dt__windows_fit(trace, reach, room))
      return none_value;
    attrs.syms[4 * k] = dt__trace_made(trace, dt__window_places(env, room, reach, w[k].stride));
    attrs.syms[4 * k + 1] = w[k].size;
    attrs.syms[4 * k + 2] = w[k].stride;
    attrs.syms[4 * k + 3] = w[k].dilation;
    dt__trace_known(
        trace, dt__sym_le(env, dt__window_span(env, attrs.syms[4 * k], w[k].stride, reach), room));
  }
  return trace->status ? none_value : dt__trace_add(trace, DT_OP_window, &x, 1, &attrs);
}

dt_value_t dt_overlap_add(dt_trace_t *trace, dt_value_t x, uint32_t n, const dt_window_t *windows,
                          const dt_sym_t *sizes) {
  dt_window_t w[4];
  dt_sym_t to[4];
  dt_attrs_t attrs = {0};
  if (!begin(trace, "overlap_add", x, n, 2, windows, w) ||
      !dt__trace_syms(trace, n, sizes, 4, "sizes", to))
    return none_value;
  attrs.n_axes = n;
  attrs.n_syms = 4 * n;
  for (uint32_t k = 0; k < n; k++) {
    attrs.syms[4 * k] = to[k];
    attrs.syms[4 * k + 1] = w[k].stride;
    attrs.syms[4 * k + 2] = w[k].dilation;
    attrs.syms[4 * k + 3] = w[k].low;
  }
  return dt__trace_add(trace, DT_OP_overlap_add, &x, 1, &attrs);
}

// ---- Convolutions -------------------------------------------------------------------------------
// x's rank and its windows; NULL fails the trace. The rest is for inference.
static const dt_node_t *begin_conv(dt_trace_t *trace, const char *op, dt_value_t x, dt_value_t w,
                                   const dt_window_t *windows, int64_t groups, dt_window_t *out,
                                   dt_attrs_t *attrs) {
  const dt_node_t *node =
      dt__trace_begin(trace, op) ? dt__trace_node(trace, x, "argument 0") : NULL;
  const dt_node_t *kernel = node ? dt__trace_node(trace, w, "argument 1") : NULL;
  if (!kernel)
    return NULL;
  if (node->rank < 3 || node->rank > 2 + DT_MOST_SPATIAL || kernel->rank != node->rank) {
    DT_TRACE_FAIL(trace, DT_E_SHAPE,
                  "arguments of ranks %u and %u; expected two of one rank, 3 to %d, or reshape",
                  node->rank, kernel->rank, 2 + DT_MOST_SPATIAL);
    return NULL;
  }
  uint32_t n = node->rank - 2;
  if (!dt__windows_read(trace, n, windows, out))
    return NULL;
  for (uint32_t k = 0; k < n; k++)
    if (out[k].size.id) {
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "a size for window %u; expected none: it is argument 1's",
                    k);
      return NULL;
    }
  attrs->n_axes = n;
  attrs->n_syms = 4 * n + 1;
  attrs->syms[4 * n] = dt__trace_made(trace, dt__sym_const(trace->env, groups));
  return trace->status ? NULL : node;
}

dt_value_t dt_conv(dt_trace_t *trace, dt_value_t x, dt_value_t w, const dt_window_t *windows,
                   int64_t groups) {
  dt_window_t read[DT_MOST_SPATIAL];
  dt_attrs_t attrs = {0};
  if (!begin_conv(trace, "conv", x, w, windows, groups, read, &attrs))
    return none_value;
  for (uint32_t k = 0; k < attrs.n_axes; k++) {
    if (windows && windows[k].extra.id) {
      DT_TRACE_FAIL(trace, DT_E_ARGUMENT, "extra elements of dim %u; expected none", k);
      return none_value;
    }
    attrs.syms[4 * k] = read[k].stride;
    attrs.syms[4 * k + 1] = read[k].dilation;
    attrs.syms[4 * k + 2] = read[k].low;
    attrs.syms[4 * k + 3] = read[k].high;
  }
  return dt__trace_add(trace, DT_OP_conv, (dt_value_t[]){x, w}, 2, &attrs);
}

dt_value_t dt_conv_transpose(dt_trace_t *trace, dt_value_t x, dt_value_t w,
                             const dt_window_t *windows, int64_t groups) {
  dt_window_t read[DT_MOST_SPATIAL];
  dt_attrs_t attrs = {0};
  const dt_node_t *node = begin_conv(trace, "conv_transpose", x, w, windows, groups, read, &attrs);
  if (!node)
    return none_value;
  dt_symenv_t *env = trace->env;
  const dt_node_t *kernel = dt__graph_node(trace->graph, (dt_node_id_t){w.id});
  for (uint32_t k = 0; k < attrs.n_axes; k++) {
    dt_sym_t reach = dt__window_reach(env, kernel->sizes[2 + k], read[k].dilation);
    dt_sym_t span = dt__window_span(env, node->sizes[2 + k], read[k].stride, reach);
    span = dt__sym_add(env, span, read[k].extra);
    span = dt__sym_sub(env, span, dt__sym_add(env, read[k].low, read[k].high));
    attrs.syms[4 * k] = dt__trace_made(trace, span);
    attrs.syms[4 * k + 1] = read[k].stride;
    attrs.syms[4 * k + 2] = read[k].dilation;
    attrs.syms[4 * k + 3] = read[k].low;
  }
  return trace->status
             ? none_value
             : dt__trace_add(trace, DT_OP_conv_transpose, (dt_value_t[]){x, w}, 2, &attrs);
}

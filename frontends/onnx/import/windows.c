// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/import/windows.h"

#define MOST ((int64_t)1 << 31) // of a stride, a dilation, a padding

// ---- Checks -----------------------------------------------------------------------------------------
static const char *const paddings[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};

static bool all_within(dt_imp_node_t *n, const char *name, int64_t least) {
  dt_imp_ints_t list;
  if (!dt__imp_attr_ints(n, name, &list))
    return true;
  for (uint32_t k = 0; k < list.len; k++)
    if (list.items[k] < least || list.items[k] >= MOST)
      return false;
  return true;
}

static int find_padding(dt_imp_node_t *n) {
  for (int k = 0; k < 4; k++)
    if (dt__imp_str_is(n, "auto_pad", "NOTSET", paddings[k]))
      return k;
  return dt__imp_str_is(n, "auto_pad", "NOTSET", "") ? 0 : -1;
}

const char *dt__imp_check_windows(dt_imp_node_t *n) {
  if (find_padding(n) < 0)
    return "attribute \"auto_pad\" has a value that is not known";
  if (!all_within(n, "strides", 1) || !all_within(n, "dilations", 1) ||
      !all_within(n, "kernel_shape", 1))
    return "a stride, a dilation or a kernel's size is not positive, or too large";
  if (!all_within(n, "pads", -MOST))
    return "a padding is too large";
  int64_t group = dt__imp_int(n, "group", 1);
  return group < 1 ? "attribute \"group\" is not positive" : NULL;
}

const char *dt__imp_check_pool(dt_imp_node_t *n) {
  dt_imp_ints_t kernel;
  if (!dt__imp_attr_ints(n, "kernel_shape", &kernel) || kernel.len < 1)
    return "attribute \"kernel_shape\" is missing";
  return kernel.len > 3 ? "pooling over more than 3 dims is not supported"
                        : dt__imp_check_windows(n);
}

// ---- Reading ----------------------------------------------------------------------------------------
dt_imp_padding_t dt__imp_padding(dt_imp_node_t *n) {
  int found = find_padding(n);
  return found < 0 ? DT_IMP_PADS : (dt_imp_padding_t)found;
}

int64_t dt__imp_entry(dt_imp_node_t *n, const char *name, uint32_t k, int64_t otherwise) {
  dt_imp_ints_t list;
  return dt__imp_attr_ints(n, name, &list) && k < list.len ? list.items[k] : otherwise;
}

dt_sym_t dt__imp_reach(dt_imp_node_t *n, const dt_window_t *window, dt_sym_t size) {
  dt_sym_t one = dt__imp_lit(n, 1);
  dt_sym_t steps = dt_sym_mul(n->t, dt_sym_sub(n->t, size, one), window->dilation);
  return dt_sym_add(n->t, steps, one);
}

// As much as makes a place of every stride.
static void pad_same(dt_imp_node_t *n, dt_sym_t in, dt_sym_t size, bool upper, dt_window_t *w) {
  dt_sym_t zero = dt__imp_lit(n, 0), two = dt__imp_lit(n, 2), one = dt__imp_lit(n, 1);
  dt_sym_t before = dt_sym_sub(n->t, dt_sym_ceildiv(n->t, in, w->stride), one);
  dt_sym_t needed =
      dt_sym_add(n->t, dt_sym_mul(n->t, before, w->stride), dt__imp_reach(n, w, size));
  dt_sym_t all = dt_sym_max(n->t, dt_sym_sub(n->t, needed, in), zero);
  dt_sym_t less = dt_sym_floordiv(n->t, all, two), more = dt_sym_sub(n->t, all, less);
  w->low = upper ? less : more;
  w->high = upper ? more : less;
}

static bool has_entries(dt_imp_node_t *n, const char *name, uint32_t count) {
  dt_imp_ints_t list;
  if (!dt__imp_attr_ints(n, name, &list) || list.len == count || dt__imp_failed(n))
    return !dt__imp_failed(n);
  dt__imp_fail(n, DT_E_SHAPE, "attribute \"%s\" has %u entries; %u are needed", name, list.len,
               count);
  return false;
}

bool dt__imp_windows(dt_imp_node_t *n, uint32_t count, const dt_sym_t *in, const dt_sym_t *size,
                     dt_window_t *out) {
  dt_imp_padding_t padding = dt__imp_padding(n);
  if (!has_entries(n, "strides", count) || !has_entries(n, "dilations", count) ||
      !has_entries(n, "kernel_shape", count) || !has_entries(n, "pads", 2 * count))
    return false;
  for (uint32_t k = 0; k < count; k++) {
    out[k] = (dt_window_t){
        .stride = dt__imp_lit(n, dt__imp_entry(n, "strides", k, 1)),
        .dilation = dt__imp_lit(n, dt__imp_entry(n, "dilations", k, 1)),
        .low = dt__imp_lit(n, 0),
        .high = dt__imp_lit(n, 0),
    };
    if (padding == DT_IMP_PADS) {
      out[k].low = dt__imp_lit(n, dt__imp_entry(n, "pads", k, 0));
      out[k].high = dt__imp_lit(n, dt__imp_entry(n, "pads", k + count, 0));
    } else if (padding != DT_IMP_VALID) {
      pad_same(n, in[k], size[k], padding == DT_IMP_SAME_UPPER, &out[k]);
    }
  }
  return !dt__imp_failed(n);
}

// SPDX-License-Identifier: Apache-2.0
// Attributes: which of them an op reads (it follows from its rules) and their normal form, in which
// everything unread is zero, so that equal meaning is equal bytes.
#include "lower/graph/infer.h"
#include "runtime/base/status.h"

#include <string.h>

uint32_t dt__op_attrs(dt_op_t op) { return dt__op_info(op)->attrs; }

dt_status_t dt__attrs_normalize(dt_op_t op, uint32_t rank, const dt_attrs_t *from, dt_attrs_t *to) {
  uint32_t mask = dt__op_attrs(op);
  memset(to, 0, sizeof(*to));
  if (!from)
    return NULL;
  if (mask & DT_ATTR_DTYPE)
    to->dtype = from->dtype;
  if (mask & DT_ATTR_INDEX)
    to->index = from->index;
  if (mask & (DT_ATTR_AXES | DT_ATTR_N_AXES)) {
    if (from->n_axes > DT_MAX_RANK)
      return DT_FAIL(DT_E_ARGUMENT, "%s: %u axes given, the most is %d", dt__op_info(op)->name,
                     from->n_axes, DT_MAX_RANK);
    to->n_axes = from->n_axes;
  }
  if (mask & DT_ATTR_AXES)
    memcpy(to->axes, from->axes, from->n_axes * sizeof(from->axes[0]));
  if (mask & DT_ATTR_KEEPDIMS)
    to->keepdims = from->keepdims != 0;
  if (mask & DT_ATTR_MODE)
    to->mode = from->mode;
  if (mask & DT_ATTR_SYMS) {
    if (from->n_syms > 2 * DT_MAX_RANK)
      return DT_FAIL(DT_E_ARGUMENT, "%s: %u sizes given, the most is %d", dt__op_info(op)->name,
                     from->n_syms, 2 * DT_MAX_RANK);
    to->n_syms = from->n_syms;
    memcpy(to->syms, from->syms, from->n_syms * sizeof(from->syms[0]));
  }
  if (mask & DT_ATTR_STEPS)
    memcpy(to->ints, from->ints, rank * sizeof(from->ints[0]));
  if (mask & DT_ATTR_VALUE)
    to->ints[0] = from->ints[0];
  if (mask & (DT_ATTR_VALUE | DT_ATTR_EPSILON))
    to->floats[0] = from->floats[0];
  return NULL;
}

bool dt__attrs_equal(const dt_attrs_t *a, const dt_attrs_t *b) {
  return memcmp(a, b, sizeof(*a)) == 0;
}

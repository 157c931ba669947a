// SPDX-License-Identifier: Apache-2.0
// What the files of fold rules share: the node under examination and the nodes a rule may answer
// with.
#ifndef DT_LOWER_PASSES_FOLD_H
#define DT_LOWER_PASSES_FOLD_H

#include "lower/graph/scalar.h"
#include "lower/passes/rewrite.h"
#include "runtime/base/dtype.h"

// For which dtypes of the root's operands a rule holds (of a leaf: its own dtype): kinds, joined.
typedef enum dt_holds_t {
  DT_HOLDS_BOOL = 1u << DT_KIND_BOOL,
  DT_HOLDS_UNSIGNED = 1u << DT_KIND_UINT,
  DT_HOLDS_SIGNED = 1u << DT_KIND_SINT,
  DT_HOLDS_FLOAT = 1u << DT_KIND_FLOAT,
  DT_HOLDS_INTEGER = DT_HOLDS_SIGNED | DT_HOLDS_UNSIGNED,
  DT_HOLDS_SIGNED_OR_FLOAT = DT_HOLDS_SIGNED | DT_HOLDS_FLOAT,
  DT_HOLDS_NUMBER = DT_HOLDS_INTEGER | DT_HOLDS_FLOAT,
  DT_HOLDS_ANY = DT_HOLDS_NUMBER | DT_HOLDS_BOOL,
} dt_holds_t;
static inline bool dt__holds_for(dt_holds_t dtypes, dt_dtype_t dtype) {
  return ((uint32_t)dtypes & (1u << dt__dtype_kind(dtype))) != 0;
}

typedef struct dt_folding_t {
  dt_rewrite_t *rw;
  const dt_node_t *node; // a copy: adding nodes does not move it
} dt_folding_t;

// A rule sets *out to a value of the node's dtype and sizes, or leaves it none.
typedef dt_status_t (*dt_fold_fn_t)(dt_folding_t *f, dt_node_id_t *out);

static inline const dt_node_t *dt__fold_node(const dt_folding_t *f, dt_node_id_t id) {
  return dt__graph_node(f->rw->to, id);
}
static inline const dt_node_t *dt__fold_input(const dt_folding_t *f, uint32_t k) {
  return dt__fold_node(f, f->node->inputs[k]);
}

// The literal that every element of `id` is, through views.
bool dt__fold_literal(const dt_folding_t *f, dt_node_id_t id, dt_scalar_t *out);
// Every element of `id` is `value`, a number that its dtype holds; zeros differ by their sign.
bool dt__fold_is(const dt_folding_t *f, dt_node_id_t id, double value);
// Appends a node of the examined one's dtype, sizes and origin.
dt_status_t dt__fold_push(dt_folding_t *f, dt_op_t op, const dt_node_id_t *inputs, uint32_t n,
                          const dt_attrs_t *attrs, dt_node_id_t *out) DT_MUST_USE;
// A literal, repeated to the examined node's sizes.
dt_status_t dt__fold_full(dt_folding_t *f, dt_scalar_t value, dt_node_id_t *out) DT_MUST_USE;
// The same of a whole number, in the examined node's dtype.
dt_status_t dt__fold_whole_full(dt_folding_t *f, int64_t value, dt_node_id_t *out) DT_MUST_USE;

#define FOLD(id, op, dtypes, fn, doc) dt_status_t dt__fold_##fn(dt_folding_t *f, dt_node_id_t *out);
#include "lower/passes/fold_rules.def"

#endif // DT_LOWER_PASSES_FOLD_H

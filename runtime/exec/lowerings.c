// SPDX-License-Identifier: Apache-2.0
// Lowerings of users for ops of the library (include/ductile/pass.h): each is a pass that asks the
// user's function at each node of the op.
#include "ductile/pass.h"

#include "lower/graph/graph.h"
#include "runtime/base/memory.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"

#include <string.h>

typedef struct lowering_t {
  dt_op_t op;
  dt_lowering_fn_t lower;
  void *closure;
  void (*closure_free)(void *closure);
} lowering_t;

static void free_lowering(void *closure) {
  lowering_t *lowering = closure;
  if (lowering->closure_free)
    lowering->closure_free(lowering->closure);
  dt__free(lowering);
}

// *next: the node to go on with.
static dt_status_t ask(const lowering_t *lowering, dt_rewriter_t *r, dt_value_t node,
                       dt_value_t *next) {
  dt_value_t made = {0};
  DT_TRY(dt_rewriter_at(r, node));
  DT_TRY(lowering->lower(r, node, &made, lowering->closure));
  dt_status_t failure = dt_rewriter_failure(r);
  if (failure)
    return failure;
  *next = dt_rewriter_next(r, node); // what was made stands in front of the node
  if (!made.id || made.id == node.id)
    return NULL;
  return dt_rewriter_replace(r, node, made); // `made` may read it; else it goes with what is unused
}

static dt_status_t run(dt_rewriter_t *r, void *closure) {
  const lowering_t *lowering = closure;
  const char *op = dt__op_info(lowering->op)->name;
  dt_value_t next;
  for (dt_value_t node = dt_rewriter_next(r, (dt_value_t){0}); node.id; node = next) {
    dt_node_info_t info = {.struct_size = sizeof(info)};
    DT_TRY(dt_rewriter_node(r, node, &info));
    next = dt_rewriter_next(r, node);
    if (strcmp(info.op, op) == 0 && info.n_users + info.n_outputs)
      DT_TRY(ask(lowering, r, node, &next));
  }
  return NULL;
}

static bool makes_values(dt_op_t op) {
  return op != DT_OP_NONE && !(dt__op_info(op)->flags & DT_OPF_LEAF) && !dt__op_is_control(op) &&
         op != DT_OP_item && op != DT_OP_result && op != DT_OP_external;
}

static dt_status_t make(const char *op, dt_lowering_fn_t lower, void *closure,
                        const dt_pass_options_t *options, lowering_t **out) {
  dt_op_t found = op ? dt__op_find(op, strlen(op)) : DT_OP_NONE;
  if (!lower)
    return DT_FAIL(DT_E_ARGUMENT, "lower: NULL");
  if (!makes_values(found))
    return DT_FAIL(DT_E_ARGUMENT,
                   "op: %s%.64s; expected the name of an op that makes a value of others",
                   op ? "the library has none such as " : "NULL", op ? op : "");
  lowering_t *made = dt__calloc(1, sizeof(*made));
  if (!made)
    return DT_NO_MEMORY();
  *made = (lowering_t){found, lower, closure, options->closure_free};
  *out = made;
  return NULL;
}

static dt_status_t add(dt_runtime_t *runtime, const char *op, dt_lowering_fn_t lower, void *closure,
                       const dt_pass_options_t *options) {
  dt_pass_options_t own;
  lowering_t *lowering = NULL;
  if (!runtime || !options)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", runtime ? "options" : "runtime");
  DT_TRY(DT_OPTIONS_TAKE(dt_pass_options_t, &own, options));
  DT_TRY(make(op, lower, closure, &own, &lowering));
  own.closure_free = free_lowering;
  dt_status_t status = dt_runtime_add_pass(runtime, DT_POINT_BEFORE_DECOMPOSE, run, lowering, &own);
  if (status)
    dt__free(lowering);
  return status;
}

dt_status_t dt_lowering_override(dt_runtime_t *runtime, const char *op, dt_lowering_fn_t lower,
                                 void *closure, const dt_pass_options_t *options) {
  return dt__status_annotate(add(runtime, op, lower, closure, options), "dt_lowering_override");
}

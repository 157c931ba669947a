// SPDX-License-Identifier: Apache-2.0
// The model's own functions: finding them, their bodies, and what putting them in place of their
// calls comes to.
#include "frontends/onnx/check.h"
#include "runtime/base/status.h"

#include <stdlib.h>

// ---- Finding --------------------------------------------------------------------------------------
typedef struct function_key_t {
  dt_onnx_str_t domain, name, overload;
} function_key_t;

static int compare_key(const function_key_t *a, const function_key_t *b) {
  int order = dt__onnx_str_compare(a->name, b->name);
  if (order == 0)
    order = dt__onnx_str_compare(dt__onnx_domain(a->domain), dt__onnx_domain(b->domain));
  return order ? order : dt__onnx_str_compare(a->overload, b->overload);
}

static function_key_t key_of(const dt_onnx_function_t *function) {
  return (function_key_t){function->domain, function->name, function->overload};
}

static int compare_functions(const void *left, const void *right) {
  function_key_t a = key_of(*(const dt_onnx_function_t *const *)left);
  function_key_t b = key_of(*(const dt_onnx_function_t *const *)right);
  return compare_key(&a, &b);
}

static int compare_to_key(const void *key, const void *item) {
  function_key_t b = key_of(*(const dt_onnx_function_t *const *)item);
  return compare_key(key, &b);
}

const dt_onnx_function_t *dt__onnx_find_function(const dt_onnx_model_t *model, dt_onnx_str_t domain,
                                                 dt_onnx_str_t name, dt_onnx_str_t overload) {
  function_key_t key = {domain, name, overload};
  if (model->by_id.len == 0)
    return NULL;
  const dt_onnx_function_t **found = bsearch(&key, model->by_id.items, model->by_id.len,
                                             sizeof model->by_id.items[0], compare_to_key);
  return found ? *found : NULL;
}

dt_status_t dt__onnx_index_functions(dt_onnx_check_t *c) {
  dt_onnx_model_t *model = c->model;
  uint32_t count = model->functions.len;
  model->by_id.items = DT_ARENA_ARRAY(c->arena, const dt_onnx_function_t *, (size_t)count + 1);
  if (!model->by_id.items)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < count; k++)
    model->by_id.items[k] = &model->functions.items[k];
  model->by_id.len = count;
  qsort(model->by_id.items, count, sizeof model->by_id.items[0], compare_functions);
  for (uint32_t k = 1; k < count; k++)
    if (compare_functions(&model->by_id.items[k - 1], &model->by_id.items[k]) == 0) {
      const dt_onnx_function_t *twice = model->by_id.items[k];
      dt_onnx_at_t at = {NULL, "functions", twice - model->functions.items};
      return dt__onnx_fail(c->what, DT_E_FORMAT, &at, twice->head.offset,
                           "function \"%s\" of domain \"%s\" is there twice",
                           dt__onnx_show(twice->name).text, dt__onnx_show(twice->domain).text);
    }
  return NULL;
}

// ---- Bodies ---------------------------------------------------------------------------------------
static int compare_strs(const void *left, const void *right) {
  return dt__onnx_str_compare(*(const dt_onnx_str_t *)left, *(const dt_onnx_str_t *)right);
}

static dt_status_t check_attribute_names(dt_onnx_check_t *c, const dt_onnx_function_t *f,
                                         const dt_onnx_at_t *at) {
  uint32_t count = f->attribute.len;
  if (count > DT_ONNX_MAX_ATTRIBUTES)
    return dt__onnx_fail(c->what, DT_E_LIMIT, at, f->head.offset,
                         "more than %u attributes, the limit", DT_ONNX_MAX_ATTRIBUTES);
  dt_onnx_str_t *sorted = DT_ARENA_ARRAY(&c->scratch, dt_onnx_str_t, (size_t)count + 1);
  if (!sorted)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < count; k++)
    sorted[k] = f->attribute.items[k];
  qsort(sorted, count, sizeof sorted[0], compare_strs);
  for (uint32_t k = 1; k < count; k++)
    if (dt__onnx_str_equal(sorted[k], sorted[k - 1]))
      return dt__onnx_fail(c->what, DT_E_FORMAT, at, f->head.offset,
                           "function \"%s\": attribute \"%s\" is there twice",
                           dt__onnx_show(f->name).text, dt__onnx_show(sorted[k]).text);
  return NULL;
}

static dt_status_t check_names(dt_onnx_check_t *c, dt_onnx_function_t *f, const dt_onnx_at_t *at) {
  if (f->name.len == 0)
    return dt__onnx_fail(c->what, DT_E_FORMAT, at, f->head.offset, "a function without a name");
  for (uint32_t k = 0; k < f->input.len; k++) {
    if (f->input.items[k].id == 0)
      return dt__onnx_fail(c->what, DT_E_FORMAT, at, f->head.offset,
                           "function \"%s\": input %u has no name", dt__onnx_show(f->name).text, k);
    DT_TRY(dt__onnx_define(c, f->input.items[k], at, f->head.offset));
  }
  return check_attribute_names(c, f, at);
}

static dt_status_t check_outputs(dt_onnx_check_t *c, const dt_onnx_function_t *f,
                                 const dt_onnx_at_t *at) {
  for (uint32_t k = 0; k < f->output.len; k++)
    if (f->output.items[k].id == 0 || !dt__onnx_is_defined(c, f->output.items[k]))
      return dt__onnx_fail(c->what, DT_E_FORMAT, at, f->head.offset,
                           "function \"%s\": output \"%s\" is defined by no node or input",
                           dt__onnx_show(f->name).text,
                           dt__onnx_show(f->output.items[k].text).text);
  return NULL;
}

dt_status_t dt__onnx_check_function(dt_onnx_check_t *c, dt_onnx_function_t *f,
                                    const dt_onnx_at_t *at) {
  DT_TRY(dt__onnx_check_opsets(c, &f->opset_import, at));
  uint32_t mark = c->undo.len;
  c->opsets = &f->opset_import;
  c->body = (uint32_t)(f - c->model->functions.items) + 1;
  c->serial = ++c->newest;
  DT_TRY(check_names(c, f, at));
  DT_TRY(dt__onnx_check_attributes(c, &f->attribute_proto, at, "attribute_proto"));
  DT_TRY(dt__onnx_check_nodes(c, &f->node, at));
  DT_TRY(check_outputs(c, f, at));
  dt__onnx_end_scope(c, mark);
  return NULL;
}

// ---- Calls ----------------------------------------------------------------------------------------
// What a body comes to when all calls in it are replaced: the graph's (index 0) or a function's.
typedef struct body_t {
  uint64_t own, nodes; // own: without what calls bring
  uint32_t first, n;   // its calls, among the check's
  uint32_t depth;      // of calls below it; UNKNOWN or RUNNING
} body_t;
enum { UNKNOWN = 0xffffffffu, RUNNING = 0xfffffffeu };

typedef struct calls_t {
  dt_onnx_check_t *check;
  body_t *bodies;
  uint64_t most_nodes;
} calls_t;

static dt_status_t fail_calls(const calls_t *calls, uint32_t index, dt_code_t code,
                              const char *text) {
  const dt_onnx_model_t *model = calls->check->model;
  if (index == 0) {
    dt_onnx_at_t at = {NULL, "graph", -1};
    return dt__onnx_fail(calls->check->what, code, &at, model->graph->head.offset, "the graph %s",
                         text);
  }
  const dt_onnx_function_t *function = &model->functions.items[index - 1];
  dt_onnx_at_t at = {NULL, "functions", index - 1};
  return dt__onnx_fail(calls->check->what, code, &at, function->head.offset, "function \"%s\" %s",
                       dt__onnx_show(function->name).text, text);
}

static dt_status_t work_out(calls_t *calls, uint32_t index, uint32_t level) {
  body_t *body = &calls->bodies[index];
  if (body->depth == RUNNING)
    return fail_calls(calls, index, DT_E_FORMAT, "calls itself: functions cannot recur");
  if (body->depth != UNKNOWN)
    return NULL;
  if (level > DT_ONNX_MAX_CALLS)
    return fail_calls(calls, index, DT_E_LIMIT, "stands below more than 128 calls, the limit");
  body->depth = RUNNING;
  uint32_t depth = 0;
  body->nodes = body->own;
  for (uint32_t k = 0; k < body->n; k++) {
    uint32_t callee = calls->check->calls.items[body->first + k].callee;
    DT_TRY(work_out(calls, callee, level + 1));
    // Both are far below 2^63: one by the check below, the other by the file's nodes.
    body->nodes += calls->bodies[callee].nodes;
    if (body->nodes > calls->most_nodes)
      return fail_calls(calls, index, DT_E_LIMIT,
                        "comes to too many nodes when functions are put in place of their calls: "
                        "the limit is ten times the model's nodes and 10000");
    depth = calls->bodies[callee].depth + 1 > depth ? calls->bodies[callee].depth + 1 : depth;
  }
  if (depth > DT_ONNX_MAX_CALLS)
    return fail_calls(calls, index, DT_E_LIMIT,
                      "has more than 128 calls within each other, the limit");
  body->depth = depth;
  return NULL;
}

dt_status_t dt__onnx_check_calls(dt_onnx_check_t *c) {
  uint32_t count = c->model->functions.len + 1;
  calls_t calls = {.check = c, .bodies = DT_ARENA_ARRAY(&c->scratch, body_t, count)};
  if (!calls.bodies)
    return DT_NO_MEMORY();
  uint64_t limit = c->limits->counted[DT_ONNX_COUNT_NODES];
  calls.most_nodes = 10 * c->nodes + 10000;
  calls.most_nodes = calls.most_nodes < limit ? calls.most_nodes : limit;
  for (uint32_t k = 0; k < count; k++)
    calls.bodies[k].depth = UNKNOWN;
  // Bodies were checked one after another, so that the calls of one stand together.
  for (uint32_t k = 0; k < c->calls.len; k++) {
    body_t *body = &calls.bodies[c->calls.items[k].caller];
    body->first = body->n == 0 ? k : body->first;
    body->n++;
  }
  for (uint32_t k = 0; k < count; k++)
    calls.bodies[k].own = c->own.items[k];
  for (uint32_t k = 0; k < count; k++)
    DT_TRY(work_out(&calls, k, 0));
  return NULL;
}

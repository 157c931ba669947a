// SPDX-License-Identifier: Apache-2.0
// Names everything of a model that is not supported, at once, before anything is traced.
#include "frontends/onnx/import/walk.h"

#include "frontends/onnx/read.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#define MOST_NAMED 100

typedef struct support_t {
  const dt_imp_model_t *model;
  dt_text_t text;
  uint32_t count;
  dt_status_t late; // what ended the pace; nothing is looked at any more
} support_t;

static void check_nodes(support_t *s, const dt_imp_frame_t *frame, const dt_onnx_nodes_t *nodes);

static void refuse(support_t *s, const dt_onnx_node_t *node, int64_t opset, const char *why) {
  if (++s->count > MOST_NAMED)
    return;
  dt_onnx_str_t domain = dt__onnx_domain(node->domain);
  dt__text_printf(&s->text, "%s%s%s%s (operator set %lld", s->text.len ? "; " : "",
                  domain.len ? dt__onnx_show(domain).text : "", domain.len ? "." : "",
                  dt__onnx_show(node->op_type).text, (long long)opset);
  if (node->overload.len > 0)
    dt__text_printf(&s->text, ", overload \"%s\"", dt__onnx_show(node->overload).text);
  if (node->name.len > 0)
    dt__text_printf(&s->text, ", node \"%s\"", dt__onnx_show(node->name).text);
  else if (node->output.len > 0)
    dt__text_printf(&s->text, ", output \"%s\"", dt__onnx_show(node->output.items[0].text).text);
  dt__text_printf(&s->text, "): %s", why);
}

static const char *why_not(support_t *s, const dt_imp_frame_t *frame, const dt_onnx_node_t *node,
                           int64_t opset) {
  const dt_imp_row_t *row = dt__imp_find_row(s->model, node->domain, node->op_type, opset);
  dt_imp_node_t n = {.node = node, .frame = frame, .opset = opset};
  if (node->overload.len > 0)
    return "no function of the model has that overload";
  if (row)
    return row->check(&n);
  if (dt__imp_has_user_op(s->model, node))
    return NULL;
  if (dt__imp_has_row(s->model, node->domain, node->op_type))
    return "no such operator in that operator set";
  return dt__onnx_domain(node->domain).len ? "the runtime has no op of that name (dt_op_register)"
                                           : "the operator is not supported";
}

static void check_node(support_t *s, const dt_imp_frame_t *frame, const dt_onnx_node_t *node) {
  s->late = dt__onnx_go_on(s->model->pace, 32 + 8 * (uint64_t)node->attribute.len);
  if (s->late)
    return;
  if (node->function) {
    dt_imp_frame_t inner = dt__imp_call_frame(s->model, frame, node);
    check_nodes(s, &inner, &inner.function->node);
    return;
  }
  int64_t opset = dt__imp_opset(frame, node->domain);
  const char *why = why_not(s, frame, node, opset);
  if (why)
    refuse(s, node, opset, why);
  for (uint32_t k = 0; k < node->attribute.len && !s->late; k++) {
    const dt_onnx_attribute_t *attr = &node->attribute.items[k];
    if (attr->g)
      check_nodes(s, frame, &attr->g->node);
    for (uint32_t i = 0; i < attr->graphs.len && !s->late; i++)
      check_nodes(s, frame, &attr->graphs.items[i].node);
  }
}

static void check_nodes(support_t *s, const dt_imp_frame_t *frame, const dt_onnx_nodes_t *nodes) {
  for (uint32_t k = 0; k < nodes->len && !s->late; k++)
    check_node(s, frame, &nodes->items[k]);
}

dt_status_t dt__imp_each_refused(const dt_imp_model_t *model, dt_imp_refused_fn_t found,
                                 void *user) {
  support_t s = {.model = model};
  dt_imp_frame_t frame = dt__imp_main_frame(model);
  const dt_onnx_nodes_t *nodes = &model->file->model.graph->node;
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < nodes->len && !status; k++) {
    s.count = 0;
    dt__text_init(&s.text);
    check_node(&s, &frame, &nodes->items[k]);
    status = s.late ? s.late : dt__text_status(&s.text);
    if (!status && s.count > 0)
      status = found(user, k, dt__text_str(&s.text));
    dt__text_fini(&s.text);
  }
  return status;
}

dt_status_t dt__imp_check_support(const dt_imp_model_t *model) {
  support_t s = {.model = model};
  dt_imp_frame_t frame = dt__imp_main_frame(model);
  dt__text_init(&s.text);
  check_nodes(&s, &frame, &model->file->model.graph->node);
  if (s.count > MOST_NAMED)
    dt__text_printf(&s.text, "; and %u more", s.count - MOST_NAMED);
  dt_status_t status = s.late ? s.late : dt__text_status(&s.text);
  if (!status && s.count > 0)
    status = DT_FAIL(DT_E_UNSUPPORTED, "%s: %u of its nodes cannot be compiled: %s",
                     model->file->what, s.count, dt__text_str(&s.text));
  dt__text_fini(&s.text);
  return status;
}

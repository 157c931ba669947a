// SPDX-License-Identifier: Apache-2.0
// The table of operators, and finding the form of one that an operator set has.
#include "frontends/onnx/import/walk.h"

#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

bool dt__imp_fold_none(dt_imp_node_t *n) {
  (void)n;
  return false;
}

const char *dt__imp_check_none(dt_imp_node_t *n) {
  (void)n;
  return NULL;
}

static const char ai[] = "", ms[] = "com.microsoft", training[] = "ai.onnx.preview.training",
                  ml[] = "ai.onnx.ml";

static const dt_imp_row_t rows[] = {
#define OP(domain, name, since, numbers, make, fold, check)                                        \
  {domain, #name, since, numbers, dt__imp_make_##make, dt__imp_fold_##fold, dt__imp_check_##check},
#include "frontends/onnx/import/ops.def"
    // Of no domain that a model can import: keeps the names of all domains in use.
    {ml, "", INT64_MAX, 0, NULL, NULL, NULL},
    {training, "", INT64_MAX, 0, NULL, NULL, NULL},
    {ms, "", INT64_MAX, 0, NULL, NULL, NULL},
    {ai, "", INT64_MAX, 0, NULL, NULL, NULL},
};
#define N_ROWS ((uint32_t)(sizeof(rows) / sizeof(rows[0])))

static int compare_names(const dt_imp_row_t *row, dt_onnx_str_t domain, dt_onnx_str_t name) {
  dt_onnx_str_t row_name = {row->name, strlen(row->name)};
  dt_onnx_str_t row_domain = {row->domain, strlen(row->domain)};
  int order = dt__onnx_str_compare(row_name, name);
  return order ? order : dt__onnx_str_compare(row_domain, dt__onnx_domain(domain));
}

static int compare_rows(const void *left, const void *right) {
  const dt_imp_row_t *a = *(const dt_imp_row_t *const *)left,
                     *b = *(const dt_imp_row_t *const *)right;
  int order = compare_names(a, (dt_onnx_str_t){b->domain, strlen(b->domain)},
                            (dt_onnx_str_t){b->name, strlen(b->name)});
  return order ? order : (a->since > b->since) - (a->since < b->since);
}

dt_status_t dt__imp_sort_rows(dt_imp_model_t *model) {
  model->rows = DT_ARENA_ARRAY(&model->arena, const dt_imp_row_t *, N_ROWS);
  if (!model->rows)
    return DT_NO_MEMORY();
  for (uint32_t k = 0; k < N_ROWS; k++)
    model->rows[k] = &rows[k];
  model->n_rows = N_ROWS;
  qsort(model->rows, N_ROWS, sizeof(model->rows[0]), compare_rows);
  return NULL;
}

// The first row that is not before (name, domain).
static uint32_t first_row(const dt_imp_model_t *model, dt_onnx_str_t domain, dt_onnx_str_t name) {
  uint32_t low = 0, high = model->n_rows;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (compare_names(model->rows[middle], domain, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const dt_imp_row_t *dt__imp_find_row(const dt_imp_model_t *model, dt_onnx_str_t domain,
                                     dt_onnx_str_t name, int64_t opset) {
  const dt_imp_row_t *found = NULL;
  for (uint32_t k = first_row(model, domain, name);
       k < model->n_rows && compare_names(model->rows[k], domain, name) == 0; k++)
    if (model->rows[k]->since <= opset)
      found = model->rows[k];
  return found;
}

bool dt__imp_has_row(const dt_imp_model_t *model, dt_onnx_str_t domain, dt_onnx_str_t name) {
  return dt__imp_find_row(model, domain, name, INT64_MAX - 1) != NULL;
}

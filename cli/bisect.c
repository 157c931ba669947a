// SPDX-License-Identifier: Apache-2.0
// Which node of a model is the first whose value leaves the tolerance: values from inside the graph
// are computed by compiled code and by the evaluator, node by node of a binary search.
#include "cli/check.h"
#include "cli/tensor_file.h"

#include "ductile/ir.h"

#include <stdlib.h>
#include <string.h>

typedef enum judged_t { JUDGED_RIGHT, JUDGED_WRONG, JUDGED_UNKNOWN } judged_t;

typedef struct search_t {
  const cli_bisecting_t *about;
  const char *graph;    // its text
  dt_session_t *host;   // of the evaluator
  dt_tensor_t **inputs; // as the graph takes them
  uint32_t n_inputs;
  char what[CLI_MESSAGE], difference[CLI_MESSAGE]; // of the last that was wrong
} search_t;

// ---- The graph's text ---------------------------------------------------------------------------
static const char *line_of(const search_t *search, uint32_t node) {
  char key[24];
  (void)snprintf(key, sizeof(key), "\n  %%%u = ", node);
  const char *at = strstr(search->graph, key);
  return at ? at + strlen(key) : NULL;
}

// The node that gives result `k`; 0: there is none.
static uint32_t node_of_result(const search_t *search, uint32_t k) {
  const char *at = strstr(search->graph, "\n  return");
  for (uint32_t i = 0; at && i <= k; i++)
    at = strchr(at + 1, '%');
  return at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
}

// ---- Arguments of the graph ---------------------------------------------------------------------
// Numbers of a DT_INPUT_INTEGERS are arguments by themselves there.
static bool add_numbers(search_t *search, const dt_tensor_t *tensor) {
  size_t bytes = dt_dtype_size(dt_tensor_dtype(tensor));
  for (int64_t k = 0; k < dt_tensor_count(tensor); k++) {
    dt_tensor_t **out = &search->inputs[search->n_inputs];
    dt_status_t status = dt_tensor_create_empty(dt_tensor_dtype(tensor), 0, NULL, out);
    if (status) {
      dt_status_free(status);
      return false;
    }
    search->n_inputs++;
    memcpy(dt_tensor_data(*out), (const char *)dt_tensor_data(tensor) + (size_t)k * bytes, bytes);
  }
  return true;
}

static bool spread(search_t *search) {
  const cli_model_t *model = search->about->model;
  size_t room = 1;
  for (uint32_t k = 0; k < model->n_inputs; k++)
    room += 1 + (size_t)dt_tensor_count(search->about->inputs[k]) *
                    (dt_function_input(model->function, k)->kind == DT_INPUT_INTEGERS);
  search->inputs = calloc(room, sizeof(*search->inputs));
  for (uint32_t k = 0; search->inputs && k < model->n_inputs; k++) {
    if (dt_function_input(model->function, k)->kind == DT_INPUT_INTEGERS) {
      if (!add_numbers(search, search->about->inputs[k]))
        return false;
      continue;
    }
    dt_tensor_retain(search->about->inputs[k]);
    search->inputs[search->n_inputs++] = search->about->inputs[k];
  }
  return search->inputs != NULL;
}

// ---- One node -----------------------------------------------------------------------------------
// The node's value, in host memory.
static dt_status_t value_of(search_t *search, uint32_t node, dt_answer_t answer,
                            dt_tensor_t **out) {
  const cli_model_t *model = search->about->model;
  const dt_function_options_t about = {.struct_size = sizeof(about),
                                       .name = "bisect",
                                       .answer = answer,
                                       .limit_action = DT_LIMIT_ERROR};
  dt_function_t *function = NULL;
  dt_tensor_t *value = NULL;
  char *what = NULL;
  *out = NULL;
  dt_status_t status = dt_function_create_cut(model->function, search->about->inputs,
                                              model->n_inputs, node, &about, &what, &function);
  if (status)
    return status;
  (void)snprintf(search->what, CLI_MESSAGE, "%.300s", what);
  dt_text_free(what);
  bool here = answer == DT_ANSWER_EVALUATOR;
  status = dt_call(here ? search->host : model->session, function, search->inputs, search->n_inputs,
                   &value, 1, NULL);
  if (!status && !here)
    status = cli_model_fetch(model, value, out);
  else if (!status)
    *out = value;
  if (*out != value)
    dt_tensor_release(value);
  dt_function_release(function);
  return status;
}

static judged_t judge(search_t *search, uint32_t node) {
  dt_tensor_t *got = NULL, *wanted = NULL;
  judged_t judged = JUDGED_UNKNOWN;
  dt_status_t status = value_of(search, node, DT_ANSWER_EVALUATOR, &wanted);
  if (!status)
    status = value_of(search, node, DT_ANSWER_COMPILED, &got);
  if (!status)
    judged = cli_compare(got, wanted, &search->about->tolerance, NULL, search->difference)
                 ? JUDGED_RIGHT
                 : JUDGED_WRONG;
  dt_status_free(status);
  dt_tensor_release(got);
  dt_tensor_release(wanted);
  return judged;
}

// ---- The search ---------------------------------------------------------------------------------
// A wrong operand of a wrong node; 0: all are right.
static uint32_t wrong_operand(search_t *search, uint32_t node) {
  const char *at = line_of(search, node), *end = at ? at + strcspn(at, "{:\n") : NULL;
  for (; at && (at = memchr(at, '%', (size_t)(end - at))) != NULL; at++) {
    uint32_t operand = (uint32_t)strtoul(at + 1, NULL, 10);
    if (judge(search, operand) == JUDGED_WRONG)
      return operand;
  }
  return 0;
}

// The numbers between which right turns into wrong, then up to where all operands are right: a
// wrong value may come right again, so the search alone need not find the first.
static uint32_t first_wrong(search_t *search, uint32_t wrong) {
  uint32_t right = 0;
  while (wrong - right > 1) {
    uint32_t middle = right + (wrong - right) / 2;
    if (judge(search, middle) == JUDGED_WRONG)
      wrong = middle;
    else
      right = middle;
  }
  for (uint32_t operand; (operand = wrong_operand(search, wrong)) != 0;)
    wrong = operand;
  (void)judge(search, wrong); // what it says is told
  return wrong;
}

static void search_from(search_t *search, uint32_t result, char out[CLI_MESSAGE]) {
  uint32_t node = node_of_result(search, result);
  judged_t judged = node && spread(search) ? judge(search, node) : JUDGED_UNKNOWN;
  if (judged == JUDGED_UNKNOWN) {
    (void)snprintf(out, CLI_MESSAGE, "no node can be looked at by itself");
    return;
  }
  if (judged == JUDGED_RIGHT) {
    (void)snprintf(out, CLI_MESSAGE,
                   "compiled code agrees with the evaluator: the graph or the data differ, not the "
                   "code");
    return;
  }
  (void)first_wrong(search, node);
  (void)snprintf(out, CLI_MESSAGE, "first wrong is %.300s: %.400s", search->what,
                 search->difference);
}

void cli_bisect(const cli_bisecting_t *about, uint32_t result, char out[CLI_MESSAGE]) {
  search_t search = {.about = about};
  char *graph = NULL;
  dt_status_t status =
      dt_function_graph(about->model->function, about->inputs, about->model->n_inputs, &graph);
  if (!status)
    status = dt_session_create(about->runtime, NULL, &search.host);
  search.graph = graph;
  if (status)
    (void)snprintf(out, CLI_MESSAGE, "%.500s", dt_status_message(status));
  else
    search_from(&search, result, out);
  dt_status_free(status);
  if (search.inputs)
    cli_release_all(search.inputs, search.n_inputs);
  free(search.inputs);
  dt_session_destroy(search.host);
  dt_text_free(graph);
}

// SPDX-License-Identifier: Apache-2.0
// Files that repeat a fault: graph IR in the sections of a test (.dtt), so that `ductile-opt` and
// `ductile explain` read them, too. In --TEST-- are lines "key: value" with what `ductile repro`
// needs besides the graph; it reads them by these keys.
#include "runtime/exec/explain.h"

#include "ductile/experimental.h"
#include "guards/modes.h"
#include "lower/graph/scalar.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/exec/runtime.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Files that one process writes: a fault that each of a million calls meets fills no disk.
#define MOST_FILES 64

typedef struct subject_t {
  const dt_function_t *function;
  const dt_graph_t *graph;
  dt_tensor_t *const *inputs; // as guards see them; NULL: compiled without a call
  dt_device_t place;
  bool strict_fp;
  const char *why;
} subject_t;

// ---- The text -----------------------------------------------------------------------------------
static void put_numbers(dt_text_t *out, uint32_t n, const int64_t *numbers) {
  for (uint32_t k = 0; k < n; k++)
    dt__text_printf(out, k ? "x%lld" : "%lld", (long long)numbers[k]);
}

// "0=3x4@4x1,1=7": by number, since names may hold what the text divides by.
static void put_call(const subject_t *subject, dt_text_t *out) {
  dt__text_put(out, "call: ");
  for (uint32_t k = 0; k < subject->graph->inputs.len; k++) {
    const dt_graph_input_t *input = &subject->graph->inputs.items[k];
    const dt_tensor_t *tensor = subject->inputs[k];
    dt__text_printf(out, k ? ",%u=" : "%u=", k);
    if (input->is_int) {
      dt__text_printf(out, "%lld", (long long)dt__scalar_load(input->dtype, tensor->data).i);
      continue;
    }
    int64_t strides[DT_MAX_RANK];
    bool ordered = tensor->order != DT_ORDER_APART && tensor->order != DT_ORDER_ROW_MAJOR;
    if (ordered) // dims of one element have their place, too
      dt__order_strides(tensor->order, tensor->rank, tensor->sizes, strides);
    put_numbers(out, tensor->rank, tensor->sizes);
    if (tensor->rank && (ordered || !tensor->contiguous)) {
      dt__text_put(out, "@");
      put_numbers(out, tensor->rank, ordered ? strides : tensor->strides);
    }
  }
  dt__text_put(out, "\n");
}

static void put_line(const char *text, dt_text_t *out) {
  for (const char *at = text; *at; at++)
    dt__text_write(out, *at == '\n' ? " " : at, 1);
  dt__text_put(out, "\n");
}

static void put_subject(const subject_t *subject, dt_text_t *out) {
  const dt_runtime_t *runtime = subject->function->runtime;
  const dt_target_t *target = dt__compiler_target(runtime->compiler);
  char place[32];
  dt__text_put(out, "--TEST--\n");
  put_line(subject->why, out);
  dt__text_put(out, "function: ");
  put_line(subject->function->name, out);
  dt__text_printf(out, "library: ductile %s\ndevice: %s\ntarget: %s %s\n", dt_version(),
                  dt__place_name(subject->place, place, sizeof(place)), target->cpu,
                  target->features);
  dt__text_printf(out, "threads: %u\nstrict_fp: %d\n", dt__pool_width(runtime->pool),
                  subject->strict_fp);
  if (subject->inputs)
    put_call(subject, out);
  dt__text_put(out, "--IN--\n");
  if (runtime->params.repro_weights)
    dt__graph_print_whole(subject->graph, out);
  else
    dt__graph_print(subject->graph, out);
}

// ---- The file -----------------------------------------------------------------------------------
// False: there is none, which was logged, or too many were written.
static bool write_repro(const subject_t *subject, uint32_t variant, dt_text_t *out_path) {
  static _Atomic uint32_t written;
  uint32_t number = atomic_fetch_add_explicit(&written, 1, memory_order_relaxed);
  if (number >= MOST_FILES)
    return false;
  char tail[64];
  (void)snprintf(tail, sizeof(tail), "%u.%ld-%u", variant, (long)getpid(), number);
  const dt_runtime_t *runtime = subject->function->runtime;
  dt_text_t text;
  dt__text_init(&text);
  put_subject(subject, &text);
  bool good = !text.failed && dt__dump_file(runtime->params.repro_dir, subject->function->name,
                                            tail, dt__text_str(&text), out_path);
  dt__text_fini(&text);
  return good;
}

static bool is_asked_for(const dt_function_t *function) {
  return function->runtime->params.repro_dir[0] != '\0';
}

dt_status_t dt__repro_failed(const dt_function_t *function, const dt_traced_t *traced,
                             const dt_variant_request_t *how, dt_status_t status) {
  dt_code_t code = dt_status_code(status);
  if ((code != DT_E_COMPILE && code != DT_E_INTERNAL) || !traced || !is_asked_for(function))
    return status;
  dt_text_t why, path;
  dt__text_init(&why);
  dt__text_init(&path);
  dt__text_printf(&why, "%s: %s", dt_code_name(code), dt_status_message(status));
  const subject_t subject = {.function = function,
                             .graph = traced->graph,
                             .inputs = how->generic ? NULL : how->inputs,
                             .place = dt__modes_place(how->modes),
                             .strict_fp = function->strict_fp || (how->modes & DT_MODES_STRICT_FP),
                             .why = dt__text_str(&why)};
  if (write_repro(&subject, how->number, &path))
    status = dt__status_annotate(status, "%s shows it again (ductile repro)", dt__text_str(&path));
  dt__text_fini(&why);
  dt__text_fini(&path);
  return status;
}

// ---- Of a call ----------------------------------------------------------------------------------
typedef struct asked_t {
  const dt_function_t *function;
  const char *why;
  dt_text_t path;
} asked_t;

static dt_status_t write_call(void *arg, const dt_variant_t *variant, dt_tensor_t *const *inputs) {
  asked_t *asked = arg;
  const subject_t subject = {.function = asked->function,
                             .graph = variant->traced->graph,
                             .inputs = inputs,
                             .place = variant->place,
                             .strict_fp = variant->strict_fp,
                             .why = asked->why};
  return write_repro(&subject, variant->number, &asked->path)
             ? NULL
             : DT_FAIL(DT_E_IO, "%s: the file was not written",
                       asked->function->runtime->params.repro_dir);
}

dt_status_t dt_function_repro(dt_function_t *function, dt_tensor_t *const *inputs,
                              uint32_t n_inputs, const char *why, char **out_path) {
  if (out_path)
    *out_path = NULL;
  if (!function || !inputs || !out_path || !why)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_repro: %s: NULL",
                   !function   ? "function"
                   : !inputs   ? "inputs"
                   : !out_path ? "out_path"
                               : "why");
  if (!is_asked_for(function))
    return NULL;
  asked_t asked = {.function = function, .why = why};
  dt__text_init(&asked.path);
  dt_status_t status = dt__with_traced(function, inputs, n_inputs, write_call, &asked);
  if (!status && !(*out_path = dt__strdup(dt__text_str(&asked.path))))
    status = DT_NO_MEMORY();
  dt__text_fini(&asked.path);
  return dt__status_annotate(status, "dt_function_repro");
}

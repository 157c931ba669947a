// SPDX-License-Identifier: Apache-2.0
// Functions whose program is a replay of graph IR text.
#include "ductile/ir.h"

#include "runtime/base/status.h"
#include "runtime/exec/exec.h"
#include "runtime/trace/replay.h"

#include <string.h>

#define VERSION_0_1_BYTES (offsetof(dt_function_options_t, closure_free) + sizeof(void (*)(void *)))

static void free_replay(void *replay) { dt__replay_destroy(replay); }

static dt_status_t check(const char *text, const char *file, const dt_function_options_t *options) {
  if (!text || !file || !options)
    return DT_FAIL(DT_E_ARGUMENT, "%s: NULL", !text ? "text" : !file ? "file" : "options");
  if (options->n_inputs || options->inputs || options->n_outputs || options->closure_free)
    return DT_FAIL(DT_E_ARGUMENT, "options: the text gives inputs, outputs and closure: leave them "
                                  "0");
  return NULL;
}

static dt_status_t create(dt_runtime_t *runtime, const char *text, size_t len, const char *file,
                          const dt_function_options_t *options, dt_function_t **out) {
  DT_TRY(check(text, file, options));
  size_t size = options->struct_size ? options->struct_size : VERSION_0_1_BYTES;
  size_t known = size < VERSION_0_1_BYTES ? VERSION_0_1_BYTES : sizeof(*options);
  if (size < VERSION_0_1_BYTES || size > known)
    DT_TRY(dt__check_struct_size(options, (uint32_t)size, known, "dt_function_options_t"));
  dt_replay_t *replay = NULL;
  DT_TRY(dt__replay_create(text, len, file, &replay));
  dt_function_options_t all = {0};
  memcpy(&all, options, size < sizeof(all) ? size : sizeof(all));
  all.struct_size = (uint32_t)sizeof(all);
  all.inputs = dt__replay_inputs(replay, &all.n_inputs);
  all.n_outputs = dt__replay_n_outputs(replay);
  all.closure_free = free_replay;
  dt_status_t status = dt_function_create(runtime, dt__replay_program, replay, &all, out);
  if (status)
    dt__replay_destroy(replay);
  return status;
}

dt_status_t dt_function_create_from_ir(dt_runtime_t *runtime, const char *text, size_t len,
                                       const char *file, const dt_function_options_t *options,
                                       dt_function_t **out) {
  if (!out)
    return DT_FAIL(DT_E_ARGUMENT, "dt_function_create_from_ir: out: NULL");
  *out = NULL;
  return dt__status_annotate(create(runtime, text, len, file, options, out),
                             "dt_function_create_from_ir");
}

const dt_input_decl_t *dt_function_inputs(const dt_function_t *function, uint32_t *out_n) {
  if (out_n)
    *out_n = function ? function->n_given : 0;
  return function ? function->given : NULL;
}

uint32_t dt_function_n_outputs(const dt_function_t *function) {
  return function ? function->n_outputs : 0;
}

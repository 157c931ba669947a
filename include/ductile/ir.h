// SPDX-License-Identifier: Apache-2.0
// Functions from graph IR text, as DUCTILE_DUMP=graph writes it.
#ifndef DUCTILE_IR_H
#define DUCTILE_IR_H

#include "ductile/function.h"

#ifdef __cplusplus
extern "C" {
#endif

// Makes a function of the graph in `text` (`len` bytes, copied). `file` names the text in messages:
// `file` and a node's line stand for a program's source line. `options` are as for
// dt_function_create, but n_inputs, inputs, n_outputs and closure_free must be 0, since the text
// gives them. Sizes that are one symbol in the text get one declared name. Captured integers hold
// the text's hints. On failure *out is NULL: DT_E_FORMAT with the place in the text, DT_E_ARGUMENT,
// DT_E_UNSUPPORTED (no input binds a symbol), DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_function_create_from_ir(dt_runtime_t *runtime, const char *text, size_t len,
                                              const char *file,
                                              const dt_function_options_t *options,
                                              dt_function_t **out) DT_MUST_USE;

// The graph of the variant that accepts `inputs`, as DUCTILE_DUMP=graph writes it. *out is released
// with dt_text_free. DT_E_ARGUMENT, DT_E_STATE (no variant accepts them: call with them first),
// DT_E_NO_MEMORY. [any]
DT_API dt_status_t dt_function_graph(dt_function_t *function, dt_tensor_t *const *inputs,
                                     uint32_t n_inputs, char **out) DT_MUST_USE;
// What dt_function_export writes.
typedef enum dt_export_t {
  DT_EXPORT_TEXT = 0,    // graph IR text with the data of all constants
  DT_EXPORT_PACKAGE = 1, // code besides: DT_E_UNSUPPORTED so far
} dt_export_t;

// Writes the function's whole graph to the file at `path`, which is replaced as a whole: traced
// from the declared inputs alone, without example sizes, so that it holds for all sizes that they
// allow. dt_function_create_from_ir makes a function of it, in this process or another. Compiles
// nothing. DT_E_STATE where the program needs the sizes of a call: `dynamic` or a mark asks for
// them, or a C branch of the program does. Else DT_E_ARGUMENT, DT_E_IO, DT_E_NO_MEMORY, or what the
// program failed with. [any]
DT_API dt_status_t dt_function_export(dt_function_t *function, dt_export_t form,
                                      const char *path) DT_MUST_USE;
// Makes a function that returns one value inside of another function: the value of `node` in the
// graph that dt_function_graph gives for `inputs`, numbered as in its text. The new function takes
// the graph's inputs (each number of a DT_INPUT_INTEGERS as an input of its own), shares the other
// function's constants as they were traced, and updates nothing. `options` as for
// dt_function_create_from_ir. If `out_what` is not NULL, *out_what describes the node and its place
// in the source; it is released with dt_text_free. Errors as dt_function_graph and
// dt_function_create_from_ir; on failure *out is NULL. [any]
DT_API dt_status_t dt_function_create_cut(dt_function_t *function, dt_tensor_t *const *inputs,
                                          uint32_t n_inputs, uint32_t node,
                                          const dt_function_options_t *options, char **out_what,
                                          dt_function_t **out) DT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_IR_H

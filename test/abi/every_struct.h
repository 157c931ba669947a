// SPDX-License-Identifier: Apache-2.0
// A program as users write it, in three files: what they share. It sees the public headers only and
// prints what each struct comes to, in one line a fact, without times, addresses and counts of
// bytes: so what it prints is the same whatever has grown.
#ifndef DT_TEST_ABI_EVERY_STRUCT_H
#define DT_TEST_ABI_EVERY_STRUCT_H

#include "ductile/accessor.h"
#include "ductile/ductile.h"
#include "ductile/experimental.h"
#include "ductile/ir.h"
#include "ductile/onnx.h"
#include "ductile/package.h"
#include "ductile/pass.h"
#include "ductile/pattern.h"
#include "ductile/safetensors.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place_t {
  dt_runtime_t *runtime;
  dt_session_t *session;
  const char *models; // a folder: test/cli/models
  const char *worker; // the program ductile-worker
  int32_t devices;    // of CUDA
} place_t;
extern place_t place;

// A name that the lines which follow are about: `dt_x_t, how it is handed over`.
void title(const char *name, const char *how);
// Prints what a call came to and frees it; whether it was done. The message of a deadline is left
// out, which says when it was.
bool told(const char *what, dt_status_t status);
// The same without the message, where it may say how large a struct is.
bool told_code(const char *what, dt_status_t status);
// Ends the program where the call was not done: of what these lines are not about.
void must(dt_status_t status);
// Memory of exactly `bytes`, so that what is read or written beyond is found.
void *exactly(size_t bytes);

// A tensor of f32 that counts from 1, of `rank` sizes.
dt_tensor_t *counting(uint32_t rank, const int64_t *sizes);
// Prints dtype, sizes and elements, and releases.
void show_tensor(const char *name, dt_tensor_t *tensor);
// The program of most functions here: in[0] + in[1], or in[0] + in[0] of a single input.
dt_status_t doubled(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure);
dt_function_options_t one_matrix(void);
// Prints what a function says of its inputs.
void show_declared(const dt_function_t *function);
// Calls with x of [rows, 3], prints what comes, and releases.
void call_rows(dt_function_t *function, int64_t rows, const dt_call_options_t *options);

void every_option(void);
void every_element(void);
void every_result(void);

#endif // DT_TEST_ABI_EVERY_STRUCT_H

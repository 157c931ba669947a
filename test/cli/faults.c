// SPDX-License-Identifier: Apache-2.0
// Loaded before the command: a model whose path has "crash" in it ends the process, one with "hang"
// never opens, one with "leave" exits in good order.
#include "ductile/onnx.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef dt_status_t open_fn_t(const char *path, const dt_onnx_options_t *options, dt_onnx_t **out);

DT_API dt_status_t dt_onnx_open(const char *path, const dt_onnx_options_t *options,
                                dt_onnx_t **out) {
  if (strstr(path, "crash"))
    abort();
  if (strstr(path, "leave"))
    _exit(0);
  while (strstr(path, "hang"))
    (void)pause();
  open_fn_t *next = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "dt_onnx_open");
  return next(path, options, out);
}

// SPDX-License-Identifier: Apache-2.0
// usage: ops_onnx_domain LIBRARY
// An ONNX file with an operator of its own domain, which a library of ops brings. docs/own-ops.md
// explains it.
#include "ductile/ductile.h"
#include "ductile/onnx.h"
#include "ductile/op.h"

#include <stdio.h>
#include <stdlib.h>

static void must(dt_status_t status) {
  if (!status)
    return;
  fprintf(stderr, "%s\n", dt_status_message(status));
  exit(1);
}

// The file: y = com.acme.Swish(x) with beta = 1.5, of f32 [n].
static const unsigned char file[] = {
    0x08, 0x0a, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x15, 0x42, 0x0c, 0x0a, 0x08, 0x63, 0x6f, 0x6d, 0x2e,
    0x61, 0x63, 0x6d, 0x65, 0x10, 0x01, 0x3a, 0x53, 0x0a, 0x27, 0x0a, 0x01, 0x78, 0x12, 0x01, 0x79,
    0x22, 0x05, 0x53, 0x77, 0x69, 0x73, 0x68, 0x2a, 0x0e, 0x0a, 0x04, 0x62, 0x65, 0x74, 0x61, 0x15,
    0x00, 0x00, 0xc0, 0x3f, 0xa0, 0x01, 0x01, 0x3a, 0x08, 0x63, 0x6f, 0x6d, 0x2e, 0x61, 0x63, 0x6d,
    0x65, 0x12, 0x04, 0x61, 0x63, 0x6d, 0x65, 0x5a, 0x10, 0x0a, 0x01, 0x78, 0x12, 0x0b, 0x0a, 0x09,
    0x08, 0x01, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x62, 0x10, 0x0a, 0x01, 0x79, 0x12, 0x0b,
    0x0a, 0x09, 0x08, 0x01, 0x12, 0x05, 0x0a, 0x03, 0x12, 0x01, 0x6e,
};

int main(int argc, char **argv) {
  dt_runtime_t *runtime = NULL;
  dt_session_t *session = NULL;
  dt_onnx_t *model = NULL;
  dt_function_t *function = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: ops_onnx_domain LIBRARY\n");
    return 2;
  }
  must(dt_runtime_create(NULL, &runtime));
  must(dt_session_create(runtime, NULL, &session));
  must(dt_onnx_open_memory(file, sizeof file, NULL, &model));

  dt_status_t status = dt_onnx_function_create(runtime, model, NULL, &function);
  printf("without the library: %s\n", dt_status_message(status));
  dt_status_free(status);
  must(dt_op_library_open(runtime, argv[1]));
  must(dt_onnx_function_create(runtime, model, NULL, &function));
  printf("with it:\n");
  for (int64_t n = 1; n < 4; n++) {
    dt_tensor_t *x = NULL, *y = NULL;
    must(dt_tensor_create_empty(DT_F32, 1, &n, &x));
    for (int64_t i = 0; i < n; i++)
      ((float *)dt_tensor_data(x))[i] = (float)(i - 1);
    must(dt_call(session, function, &x, 1, &y, 1, NULL));
    for (int64_t i = 0; i < n; i++)
      printf(" %7.4f", (double)((const float *)dt_tensor_data(y))[i]);
    printf("\n");
    dt_tensor_release(x);
    dt_tensor_release(y);
  }
  // Functions that exist keep what they need; others get it no more.
  must(dt_op_library_close(runtime, "acme"));
  dt_function_release(function);
  dt_onnx_close(model);
  dt_session_destroy(session);
  dt_runtime_release(runtime);
  return 0;
}

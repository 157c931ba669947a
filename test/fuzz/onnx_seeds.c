// SPDX-License-Identifier: Apache-2.0
// usage: onnx_seeds FOLDER. Writes the models of onnx_faults.def and the good one there, as seeds
// of the ONNX fuzzer.
#include "test/unit/frontends/onnx_pieces.h"
#include "test/unit/frontends/onnx_text.h"

#include <stdio.h>

static const char *const texts[] = {
#define FAULT(code, expected, text) text,
#include "test/unit/frontends/onnx_faults.def"
#include "test/unit/frontends/onnx_good.def"
};

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  int failed = 0;
  for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%03zu", argv[1], k);
    onnx_bytes_t bytes = onnx_make(&dt__onnx_model_message, texts[k]);
    FILE *file = fopen(path, "wb");
    failed += !file || fwrite(bytes.data, 1, bytes.len, file) != bytes.len;
    failed += file && fclose(file) != 0;
    onnx_free(&bytes);
  }
  return failed > 0;
}

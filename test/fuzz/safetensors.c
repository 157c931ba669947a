// SPDX-License-Identifier: Apache-2.0
// Fuzzes the safetensors reader. What it accepts must hold: tensors inside the input, each byte of
// the data covered by exactly one of them, every name found again.
#include "ductile/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const dt_safetensors_t *file, const uint8_t *data, size_t size) {
  const uint8_t *next = NULL;
  bool all = true;
  for (uint32_t i = 0; i < dt_safetensors_count(file); i++) {
    const char *name = dt_safetensors_name(file, i);
    dt_safetensors_info_t info = {.struct_size = sizeof(info)};
    dt_status_t status = dt_safetensors_find(file, name, &info);
    dt_code_t code = dt_status_code(status);
    dt_status_free(status);
    if (code == DT_E_UNSUPPORTED || code == DT_E_RANGE) {
      all = false;
      next = NULL;
      continue;
    }
    const uint8_t *at = info.data;
    if (code != DT_OK || at < data || info.bytes > size || at > data + size - info.bytes)
      abort();
    if (next && at != next)
      abort();
    next = at + info.bytes;
    size_t bytes = dt_dtype_size(info.dtype);
    for (uint32_t d = 0; d < info.rank; d++)
      bytes *= (size_t)info.sizes[d];
    if (bytes != info.bytes)
      abort();
  }
  if (all && next && next != data + size)
    abort();
  for (uint32_t i = 0; i < dt_safetensors_metadata_count(file); i++)
    if (!dt_safetensors_metadata(file, dt_safetensors_metadata_key(file, i)))
      abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dt_safetensors_t *file = NULL;
  dt_status_t status = dt_safetensors_open_memory(data, size, NULL, &file);
  if (!status)
    check(file, data, size);
  else if (file)
    abort();
  dt_status_free(status);
  dt_safetensors_close(file);
  return 0;
}

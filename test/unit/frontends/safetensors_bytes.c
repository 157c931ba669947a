// SPDX-License-Identifier: Apache-2.0
#include "test/unit/frontends/safetensors_bytes.h"

#include <stdlib.h>
#include <string.h>

bytes_t bytes_make_raw(const char *header, size_t header_bytes, uint64_t stated,
                       size_t data_bytes) {
  bytes_t out = {.len = 8 + header_bytes + data_bytes};
  out.data = malloc(out.len);
  if (!out.data)
    abort();
  for (int i = 0; i < 8; i++)
    out.data[i] = (unsigned char)(stated >> (8 * i));
  memcpy(out.data + 8, header, header_bytes);
  for (size_t i = 0; i < data_bytes; i++)
    out.data[8 + header_bytes + i] = (unsigned char)i;
  return out;
}

bytes_t bytes_make(const char *header, size_t data_bytes) {
  return bytes_make_raw(header, strlen(header), strlen(header), data_bytes);
}

void bytes_free(bytes_t *bytes) {
  free(bytes->data);
  bytes->data = NULL;
}

// SPDX-License-Identifier: Apache-2.0
// SHA-1 (FIPS 180-4), which the format uses for checksums of external files. Against accidents: it
// is no defence against whoever can choose both files.
#ifndef DT_FRONTENDS_ONNX_SHA1_H
#define DT_FRONTENDS_ONNX_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define DT_SHA1_BYTES 20

typedef struct dt_sha1_t {
  uint32_t state[5];
  uint64_t bytes; // taken so far
  unsigned char block[64];
} dt_sha1_t;

void dt__sha1_init(dt_sha1_t *sum);
void dt__sha1_add(dt_sha1_t *sum, const void *data, size_t bytes);
void dt__sha1_end(dt_sha1_t *sum, unsigned char out[DT_SHA1_BYTES]);
void dt__sha1(const void *data, size_t bytes, unsigned char out[DT_SHA1_BYTES]); // all at once

#endif // DT_FRONTENDS_ONNX_SHA1_H

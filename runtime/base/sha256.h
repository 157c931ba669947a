// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for what was written by another process and must be told from what was
// damaged since. Hash tables use hash.h.
#ifndef DT_RUNTIME_BASE_SHA256_H
#define DT_RUNTIME_BASE_SHA256_H

#include "ductile/base.h"

#define DT_SHA256_BYTES 32

typedef struct dt_sha256_t {
  uint32_t state[8];
  uint64_t bytes; // taken so far
  unsigned char block[64];
} dt_sha256_t;

void dt__sha256_init(dt_sha256_t *sum);
void dt__sha256_add(dt_sha256_t *sum, const void *data, size_t bytes);
void dt__sha256_end(dt_sha256_t *sum, unsigned char out[DT_SHA256_BYTES]);

#endif // DT_RUNTIME_BASE_SHA256_H

// SPDX-License-Identifier: Apache-2.0
// Builds safetensors files, well-formed or not, for the tests.
#ifndef DT_TESTS_UNIT_FRONTENDS_SAFETENSORS_BYTES_H
#define DT_TESTS_UNIT_FRONTENDS_SAFETENSORS_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct bytes_t {
  unsigned char *data; // on the heap, exactly `len` bytes; owner
  size_t len;
} bytes_t;

// A file of `header`, preceded by its length, and `data_bytes` bytes of data counting 0, 1, 2, ….
bytes_t bytes_make(const char *header, size_t data_bytes);
// The same with a header of `header_bytes` bytes and any stated length.
bytes_t bytes_make_raw(const char *header, size_t header_bytes, uint64_t stated, size_t data_bytes);
void bytes_free(bytes_t *bytes);

#endif // DT_TESTS_UNIT_FRONTENDS_SAFETENSORS_BYTES_H

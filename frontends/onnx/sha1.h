// SPDX-License-Identifier: Apache-2.0
// SHA-1 (FIPS 180-4), which the format uses for checksums of external files. Against accidents: it
// is no defence against whoever can choose both files.
#ifndef DT_FRONTENDS_ONNX_SHA1_H
#define DT_FRONTENDS_ONNX_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define DT_SHA1_BYTES 20

void dt__sha1(const void *data, size_t bytes, unsigned char out[DT_SHA1_BYTES]);

#endif // DT_FRONTENDS_ONNX_SHA1_H

// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011. Each of ten rounds multiplies two words of the counter by constants, and mixes the
// upper halves of the products with the other two words and the key. The key grows by constants.
#ifndef DT_LOWER_GRAPH_PHILOX_H
#define DT_LOWER_GRAPH_PHILOX_H

#include <stdint.h>

#define DT_PHILOX_ROUNDS 10
#define DT_PHILOX_M0 0xD2511F53u
#define DT_PHILOX_M1 0xCD9E8D57u
#define DT_PHILOX_W0 0x9E3779B9u // the golden ratio's fraction
#define DT_PHILOX_W1 0xBB67AE85u // the fraction of the square root of 3

// The block of four words. Key: seed's low and high word. Counter: index's low and high word, then
// offset's. (scalar.c)
void dt__philox(uint64_t seed, uint64_t offset, uint64_t index, uint32_t out[4]);

#endif // DT_LOWER_GRAPH_PHILOX_H

// SPDX-License-Identifier: Apache-2.0
// See sha256.h.
#include "runtime/base/sha256.h"

#include <string.h>

#define BLOCK ((size_t)64)

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

// One round over the state as it lies from `k` on, each eight of them back in place: nothing moves.
static inline void take_round(uint32_t s[8], unsigned k, uint32_t word) {
#define S(i) s[((i) - k) & 7]
  uint32_t first = S(7) + (turn(S(4), 6) ^ turn(S(4), 11) ^ turn(S(4), 25)) +
                   ((S(4) & S(5)) ^ (~S(4) & S(6))) + word;
  S(3) += first;
  S(7) = first + (turn(S(0), 2) ^ turn(S(0), 13) ^ turn(S(0), 22)) +
         ((S(0) & S(1)) ^ (S(0) & S(2)) ^ (S(1) & S(2)));
#undef S
}

static void take_block(uint32_t state[8], const unsigned char *data) {
  uint32_t w[64], s[8];
  for (int k = 0; k < 16; k++)
    w[k] = (uint32_t)data[4 * k] << 24 | (uint32_t)data[4 * k + 1] << 16 |
           (uint32_t)data[4 * k + 2] << 8 | data[4 * k + 3];
  for (int k = 16; k < 64; k++)
    w[k] = w[k - 16] + w[k - 7] + (turn(w[k - 15], 7) ^ turn(w[k - 15], 18) ^ w[k - 15] >> 3) +
           (turn(w[k - 2], 17) ^ turn(w[k - 2], 19) ^ w[k - 2] >> 10);
  memcpy(s, state, sizeof(s));
  for (unsigned k = 0; k < 64; k += 8) {
    take_round(s, 0, w[k] + rounds[k]);
    take_round(s, 1, w[k + 1] + rounds[k + 1]);
    take_round(s, 2, w[k + 2] + rounds[k + 2]);
    take_round(s, 3, w[k + 3] + rounds[k + 3]);
    take_round(s, 4, w[k + 4] + rounds[k + 4]);
    take_round(s, 5, w[k + 5] + rounds[k + 5]);
    take_round(s, 6, w[k + 6] + rounds[k + 6]);
    take_round(s, 7, w[k + 7] + rounds[k + 7]);
  }
  for (int k = 0; k < 8; k++)
    state[k] += s[k];
}

void dt__sha256_init(dt_sha256_t *sum) {
  *sum = (dt_sha256_t){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void dt__sha256_add(dt_sha256_t *sum, const void *data, size_t bytes) {
  const unsigned char *at = data;
  size_t held = (size_t)(sum->bytes % BLOCK);
  sum->bytes += bytes;
  if (held > 0) {
    size_t more = bytes < BLOCK - held ? bytes : BLOCK - held;
    memcpy(sum->block + held, at, more);
    at += more;
    bytes -= more;
    if (held + more < BLOCK)
      return;
    take_block(sum->state, sum->block);
  }
  for (; bytes >= BLOCK; at += BLOCK, bytes -= BLOCK)
    take_block(sum->state, at);
  if (bytes > 0)
    memcpy(sum->block, at, bytes);
}

void dt__sha256_end(dt_sha256_t *sum, unsigned char out[DT_SHA256_BYTES]) {
  static const unsigned char padding[BLOCK] = {0x80};
  unsigned char bits[8];
  uint64_t count = 8 * sum->bytes;
  for (int k = 0; k < 8; k++)
    bits[k] = (unsigned char)(count >> (56 - 8 * k));
  size_t held = (size_t)(sum->bytes % BLOCK);
  dt__sha256_add(sum, padding, held < 56 ? 56 - held : 120 - held);
  dt__sha256_add(sum, bits, sizeof(bits));
  for (int k = 0; k < DT_SHA256_BYTES; k++)
    out[k] = (unsigned char)(sum->state[k / 4] >> (24 - 8 * (k % 4)));
}

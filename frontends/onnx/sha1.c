// SPDX-License-Identifier: Apache-2.0
// SHA-1.
#include "frontends/onnx/sha1.h"

#include <string.h>

#define BLOCK 64u

static uint32_t rotate(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }

static uint32_t word_at(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

// The round's function and constant (FIPS 180-4, 4.1.1 and 4.2.1).
static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d) {
  if (round < 20)
    return ((b & c) | (~b & d)) + 0x5a827999u;
  if (round < 40)
    return (b ^ c ^ d) + 0x6ed9eba1u;
  if (round < 60)
    return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu;
  return (b ^ c ^ d) + 0xca62c1d6u;
}

static void add_block(uint32_t state[5], const unsigned char *block) {
  uint32_t w[80];
  for (unsigned t = 0; t < 16; t++)
    w[t] = word_at(block + 4 * t);
  for (unsigned t = 16; t < 80; t++)
    w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (unsigned t = 0; t < 80; t++) {
    uint32_t next = rotate(a, 5) + mix(t, b, c, d) + e + w[t];
    e = d;
    d = c;
    c = rotate(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

void dt__sha1_init(dt_sha1_t *sum) {
  *sum = (dt_sha1_t){.state = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u}};
}

void dt__sha1_add(dt_sha1_t *sum, const void *data, size_t bytes) {
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
    add_block(sum->state, sum->block);
  }
  for (; bytes >= BLOCK; at += BLOCK, bytes -= BLOCK)
    add_block(sum->state, at);
  if (bytes > 0)
    memcpy(sum->block, at, bytes);
}

void dt__sha1_end(dt_sha1_t *sum, unsigned char out[DT_SHA1_BYTES]) {
  // A bit of one, zeros, and the length in bits: what ends the block, or one more.
  static const unsigned char padding[BLOCK] = {0x80};
  unsigned char last[8];
  uint64_t bits = sum->bytes * 8;
  for (unsigned k = 0; k < 8; k++)
    last[7 - k] = (unsigned char)(bits >> (8 * k));
  size_t held = (size_t)(sum->bytes % BLOCK);
  dt__sha1_add(sum, padding, held < BLOCK - 8 ? BLOCK - 8 - held : 2 * BLOCK - 8 - held);
  dt__sha1_add(sum, last, sizeof last);
  for (unsigned k = 0; k < DT_SHA1_BYTES; k++)
    out[k] = (unsigned char)(sum->state[k / 4] >> (24 - 8 * (k % 4)));
}

void dt__sha1(const void *data, size_t bytes, unsigned char out[DT_SHA1_BYTES]) {
  dt_sha1_t sum;
  dt__sha1_init(&sum);
  dt__sha1_add(&sum, data, bytes);
  dt__sha1_end(&sum, out);
}

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

void dt__sha1(const void *data, size_t bytes, unsigned char out[DT_SHA1_BYTES]) {
  uint32_t state[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u, 0xc3d2e1f0u};
  const unsigned char *at = data;
  size_t left = bytes;
  for (; left >= BLOCK; left -= BLOCK, at += BLOCK)
    add_block(state, at);
  // The rest, a bit of one, zeros, and the length in bits: one block more or two.
  unsigned char last[2 * BLOCK] = {0};
  if (left > 0)
    memcpy(last, at, left);
  last[left] = 0x80;
  size_t end = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
  uint64_t bits = (uint64_t)bytes * 8;
  for (unsigned k = 0; k < 8; k++)
    last[end - 1 - k] = (unsigned char)(bits >> (8 * k));
  for (size_t k = 0; k < end; k += BLOCK)
    add_block(state, last + k);
  for (unsigned k = 0; k < DT_SHA1_BYTES; k++)
    out[k] = (unsigned char)(state[k / 4] >> (24 - 8 * (k % 4)));
}

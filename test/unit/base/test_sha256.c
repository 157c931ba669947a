// SPDX-License-Identifier: Apache-2.0
// SHA-256 of the standard's examples and of texts of every length around a block, in any pieces.
#include "test/support/check.h"

#include "runtime/base/sha256.h"

#include <stdio.h>
#include <string.h>

static void expect(const char *what, const void *data, size_t bytes, size_t piece,
                   const char *expected) {
  dt_sha256_t sum;
  unsigned char out[DT_SHA256_BYTES];
  char text[2 * DT_SHA256_BYTES + 1];
  dt__sha256_init(&sum);
  for (size_t at = 0; at < bytes; at += piece)
    dt__sha256_add(&sum, (const char *)data + at, bytes - at < piece ? bytes - at : piece);
  dt__sha256_end(&sum, out);
  for (size_t k = 0; k < DT_SHA256_BYTES; k++)
    (void)snprintf(text + 2 * k, 3, "%02x", out[k]);
  if (strcmp(text, expected) != 0)
    fail_msg("%s in pieces of %zu: %s, expected %s", what, piece, text, expected);
}

static void test_examples(void **state) {
  static char million[1000000];
  (void)state;
  memset(million, 'a', sizeof(million));
  static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  for (size_t piece = 1; piece < 200; piece += piece < 70 ? 1 : 29) {
    expect("nothing", "", 0, piece,
           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", "abc", 3, piece,
           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect("two blocks", two_blocks, strlen(two_blocks), piece,
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  }
  for (size_t piece = 1; piece < 2000; piece = 7 * piece + 1)
    expect("a million", million, sizeof(million), piece,
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The sum of the sums of 0 to 200 bytes.
static void test_lengths(void **state) {
  unsigned char data[200], all[201 * DT_SHA256_BYTES];
  (void)state;
  for (size_t k = 0; k < sizeof(data); k++)
    data[k] = (unsigned char)(k * 7 + 3);
  for (size_t len = 0; len <= sizeof(data); len++) {
    dt_sha256_t sum;
    dt__sha256_init(&sum);
    dt__sha256_add(&sum, data, len);
    dt__sha256_end(&sum, all + len * DT_SHA256_BYTES);
  }
  expect("sums", all, sizeof(all), sizeof(all),
         "3275febb4612d86d586eb9f11cd21e648a9fc7d95e0f6b8d362786e28c9c5b79");
}

RUN_TESTS(TEST(test_examples), TEST(test_lengths))

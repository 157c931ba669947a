// SPDX-License-Identifier: Apache-2.0
// Packages that were damaged, cut off or written for another ABI number: refused, or right.
#include "test/unit/package/lives.h"

#include "runtime/base/hash.h"
#include "runtime/package/package.h"
#include "test/support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[FOLDER_BYTES], *sound;
static size_t n_bytes;
static uint64_t hashes[2];
static fixture_t f;

#define N_USED 2 // of the lives from FIRST on: with constants and with checks
#define FIRST 7

// Opens and calls all. Whether it was taken; what was taken must be right.
static bool is_taken(const char *data, size_t bytes) {
  dt_package_t *package = NULL;
  const dt_package_options_t options = {.struct_size = sizeof(options), .copy = true};
  dt_status_t status = dt_package_open_memory(f.runtime, data, bytes, &options, &package);
  bool taken = !status;
  for (uint32_t k = 0; k < N_USED && !status; k++) {
    dt_function_t *function = NULL;
    const life_t *life = &lives[FIRST + k];
    status = dt_package_function(package, life->subject->name, NULL, &function);
    taken = taken && !status;
    if (!status && life_hash(f.session, function, life) != hashes[k])
      fail_msg("a damaged package gives another answer");
    dt_function_release(function);
  }
  if (status && dt_status_code(status) != DT_E_FORMAT && dt_status_code(status) != DT_E_UNSUPPORTED)
    fail_msg("refused by %s", dt_status_message(status));
  dt_status_free(status);
  dt_package_release(package);
  return taken;
}

static char *copy_of_it(size_t bytes) {
  char *copy = malloc(bytes);
  assert_non_null(copy);
  memcpy(copy, sound, bytes < n_bytes ? bytes : n_bytes);
  return copy;
}

static void test_each_bit_of_the_head(void **state) {
  (void)state;
  char *copy = copy_of_it(n_bytes);
  assert_true(is_taken(copy, n_bytes));
  for (uint32_t bit = 0; bit < DT_PACK_HEAD_BYTES * 8; bit++) {
    copy[bit / 8] ^= (char)(1 << bit % 8);
    if (is_taken(copy, n_bytes))
      fail_msg("bit %u of the head may be another", bit);
    copy[bit / 8] ^= (char)(1 << bit % 8);
  }
  free(copy);
}

// Those between parts may be; all others are in some sum. The argument makes it 20,000.
static uint32_t n_flips = 600;

static void test_bits_all_over(void **state) {
  (void)state;
  dt_pack_part_t *parts = NULL;
  uint32_t n_parts = 0;
  rng_t rng = {23};
  char *copy = copy_of_it(n_bytes);
  expect_ok(dt__pack_open(copy, n_bytes, &parts, &n_parts));
  size_t table = n_bytes - n_parts * sizeof(*parts);
  for (uint32_t k = 0; k < n_flips; k++) {
    size_t at = (size_t)(rng_next(&rng) % n_bytes), bit = (size_t)(rng_next(&rng) % 8);
    bool inside = at < DT_PACK_HEAD_BYTES || at >= table;
    for (uint32_t p = 0; p < n_parts; p++)
      inside |= at >= parts[p].offset && at < parts[p].offset + parts[p].bytes;
    copy[at] ^= (char)(1 << bit);
    bool taken = is_taken(copy, n_bytes);
    if (taken && inside)
      fail_msg("bit %zu of byte %zu may be another", bit, at);
    copy[at] ^= (char)(1 << bit);
  }
  dt__free(parts);
  free(copy);
}

// With sums that are right: what is read is checked, number by number. Its code is loaded, and not
// run, since it may be any.
static void look_at(const char *data, size_t bytes) {
  dt_package_t *package = NULL;
  char *text = NULL;
  const dt_package_options_t options = {.struct_size = sizeof(options), .copy = true};
  dt_status_t status = dt_package_open_memory(f.runtime, data, bytes, &options, &package);
  if (!status)
    status = dt_package_report_json(package, &text);
  if (!status)
    status = dt__package_load_all(package, NULL);
  if (status)
    assert_int_not_equal(dt_status_code(status), DT_E_INTERNAL);
  dt_status_free(status);
  dt_text_free(text);
  dt_package_release(package);
}

static void test_forged_numbers(void **state) {
  (void)state;
  rng_t rng = {29};
  dt_pack_part_t *parts = NULL;
  uint32_t n_parts = 0;
  expect_ok(dt__pack_open(sound, n_bytes, &parts, &n_parts));
  for (uint32_t k = 0; k < n_flips / 10; k++) {
    char *copy = copy_of_it(n_bytes);
    const dt_pack_part_t *part = &parts[rng_below(&rng, n_parts)];
    for (uint32_t n = 1 + rng_below(&rng, 3); n > 0 && part->bytes; n--) {
      char *at = copy + part->offset + rng_next(&rng) % part->bytes;
      *at = (char)(rng_below(&rng, 2) ? rng_next(&rng) : (uint64_t)(*at ^ 1 << rng_below(&rng, 8)));
    }
    assert_true(dt__pack_forge(copy, n_bytes));
    look_at(copy, n_bytes);
    free(copy);
  }
  dt__free(parts);
}

// The same of each byte of small parts: the index, traces, entries.
#define SMALL_PART 3000
static void test_each_forged_byte(void **state) {
  (void)state;
  static const unsigned char values[] = {0, 1, 3, 37, 127};
  dt_pack_part_t *parts = NULL;
  uint32_t n_parts = 0;
  char *copy = copy_of_it(n_bytes);
  expect_ok(dt__pack_open(sound, n_bytes, &parts, &n_parts));
  for (uint32_t p = 0; p < n_parts; p++)
    for (uint64_t at = 0; parts[p].bytes < SMALL_PART && at < parts[p].bytes; at++)
      for (size_t v = 0; v < sizeof(values); v++) {
        memcpy(copy, sound, n_bytes);
        copy[parts[p].offset + at] = (char)values[v];
        assert_true(dt__pack_forge(copy, n_bytes));
        look_at(copy, n_bytes);
      }
  dt__free(parts);
  free(copy);
}

static void test_cut_off_or_longer(void **state) {
  (void)state;
  for (size_t k = 0; k < 200; k++) {
    size_t bytes = k < 100 ? k : n_bytes * (k - 100) / 100;
    char *copy = copy_of_it(bytes + 1);
    assert_false(is_taken(copy, bytes));
    free(copy);
  }
  char *copy = copy_of_it(n_bytes + 24);
  assert_false(is_taken(copy, n_bytes + 24));
  free(copy);
}

static void test_another_abi_number_is_told(void **state) {
  (void)state;
  char *copy = copy_of_it(n_bytes);
  uint32_t abi = DT_PACKAGE_ABI + 1;
  dt_package_t *package = NULL;
  memcpy(copy + 8, &abi, sizeof(abi));
  uint64_t sum = dt__hash(copy, DT_PACK_HEAD_BYTES - 8, 0);
  memcpy(copy + DT_PACK_HEAD_BYTES - 8, &sum, sizeof(sum));
  const dt_package_options_t options = {.struct_size = sizeof(options), .copy = true};
  expect_told(dt_package_open_memory(f.runtime, copy, n_bytes, &options, &package),
              DT_E_UNSUPPORTED, "ABI number");
  free(copy);
}

static int begin(void **state) {
  (void)state;
  char path[FOLDER_BYTES + 16];
  folder_make(folder);
  lives_begin();
  (void)snprintf(path, sizeof(path), "%s/sound.dtp", folder);
  lives_write(path, &lives[FIRST], N_USED, 1, "v2");
  sound = file_read(path, &n_bytes);
  f = fixture_on(DT_CPU, 1);
  dt_package_t *package = NULL;
  expect_ok(dt_package_open(f.runtime, path, NULL, &package));
  for (uint32_t k = 0; k < N_USED; k++) {
    dt_function_t *function = NULL;
    const life_t *life = &lives[FIRST + k];
    expect_ok(dt_package_function(package, life->subject->name, NULL, &function));
    hashes[k] = life_hash(f.session, function, life);
    dt_function_release(function);
  }
  dt_package_release(package);
  return 0;
}

static int end(void **state) {
  (void)state;
  free(sound);
  fixture_end(&f);
  lives_end();
  return folder_drop(folder);
}

int main(int argc, char **argv) {
  if (argc > 1)
    n_flips = (uint32_t)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      TEST(test_each_bit_of_the_head), TEST(test_bits_all_over),
      TEST(test_forged_numbers),       TEST(test_each_forged_byte),
      TEST(test_cut_off_or_longer),    TEST(test_another_abi_number_is_told)};
  return cmocka_run_group_tests(tests, begin, end);
}

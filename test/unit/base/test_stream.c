// SPDX-License-Identifier: Apache-2.0
// Streams: what was written is read, whatever it is; what is cut off, too long or out of bounds
// fails, reads nothing outside, and gives zeros.
#include "runtime/base/stream.h"

#include "test/support/check.h"
#include "test/support/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- Numbers --------------------------------------------------------------------------------------
static const uint64_t words[] = {0,
                                 1,
                                 127,
                                 128,
                                 16383,
                                 16384,
                                 UINT32_MAX,
                                 (uint64_t)UINT32_MAX + 1,
                                 INT64_MAX,
                                 UINT64_MAX,
                                 UINT64_C(1) << 63,
                                 UINT64_C(1) << 56};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

static void test_words_take_seven_bits_a_byte(void **state) {
  (void)state;
  for (size_t k = 0; k < N_WORDS; k++) {
    dt_text_t text;
    dt__text_init(&text);
    dt_stream_t out = {.to = &text};
    uint64_t value = words[k], read = 77;
    dt__stream_word(&out, &value);
    size_t bytes = 1;
    for (uint64_t left = words[k]; left >= 128; left >>= 7)
      bytes++;
    assert_int_equal(text.len, bytes);
    for (size_t left = 0; left <= bytes; left++) {
      dt_stream_t in = {.from = (const unsigned char *)text.data, .left = left};
      dt__stream_word(&in, &read);
      assert_int_equal(in.failed, left < bytes);
      assert_true(read == (left < bytes ? 0 : words[k]));
    }
    dt__text_fini(&text);
  }
}

// A number has one form: no zeros behind it, no more than 64 bits.
static void test_other_forms_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t n;
  } cases[] = {{"\x80\x00", 2},
               {"\xff\x80\x00", 3},
               {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},
               {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11}};
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    dt_stream_t in = {.from = (const unsigned char *)cases[k].bytes, .left = cases[k].n};
    uint64_t value = 77;
    dt__stream_word(&in, &value);
    assert_true(in.failed && value == 0);
    dt__stream_word(&in, &value); // nothing comes behind a failure
    assert_true(in.failed && value == 0);
  }
}

static void test_bounds(void **state) {
  (void)state;
  const unsigned char five[] = {5};
  for (uint32_t end = 4; end < 8; end++) {
    dt_stream_t in = {.from = five, .left = 1};
    assert_int_equal(dt__stream_below(&in, 0, end), end > 5 ? 5 : 0);
    assert_int_equal(in.failed, end <= 5);
  }
  dt_stream_t in = {.from = five, .left = 1};
  bool flag = true;
  dt__stream_flag(&in, &flag);
  assert_true(in.failed && !flag);
}

// ---- A thing --------------------------------------------------------------------------------------
typedef struct thing_t {
  uint32_t number, n;
  int64_t lowest, small;
  double real, none;
  bool yes;
  const char *text, *absent, *name, *again, *no_name;
  void *data;
  size_t bytes;
  int64_t *list;
} thing_t;

static void describe(dt_stream_t *s, thing_t *t) {
  dt__stream_number(s, &t->number);
  dt__stream_signed(s, &t->lowest);
  dt__stream_signed(s, &t->small);
  dt__stream_double(s, &t->real);
  dt__stream_double(s, &t->none);
  dt__stream_flag(s, &t->yes);
  dt__stream_text(s, &t->text);
  dt__stream_text_or_none(s, &t->absent);
  dt__stream_name(s, &t->name);
  dt__stream_name(s, &t->again);
  dt__stream_name(s, &t->no_name);
  dt__stream_bytes(s, &t->data, &t->bytes);
  t->list = dt__stream_list(s, &t->n, t->list, sizeof(t->list[0]));
  for (uint32_t k = 0; k < t->n && !s->failed; k++)
    dt__stream_signed(s, &t->list[k]);
}

static void write_thing(dt_text_t *text, dt_arena_t *arena) {
  static int64_t list[] = {1, -1, INT64_MAX};
  static char data[] = "a\0b";
  thing_t thing = {.number = UINT32_MAX,
                   .n = 3,
                   .lowest = INT64_MIN,
                   .small = -3,
                   .real = -0.0,
                   .none = NAN,
                   .yes = true,
                   .text = "text",
                   .name = "name",
                   .again = "name",
                   .data = data,
                   .bytes = 3,
                   .list = list};
  dt_stream_names_t names = {.arena = arena};
  dt_stream_t s = {.to = text, .names = &names};
  describe(&s, &thing);
  assert_false(text->failed || s.failed);
}

static bool read_thing(const void *data, size_t bytes, dt_arena_t *arena, thing_t *out) {
  dt_stream_names_t names = {.arena = arena};
  dt_stream_t s = {.from = data, .left = bytes, .arena = arena, .names = &names};
  *out = (thing_t){0};
  describe(&s, out);
  return dt__stream_is_done(&s);
}

static void test_a_thing_comes_back(void **state) {
  (void)state;
  dt_arena_t arena;
  dt_text_t text;
  thing_t t;
  dt__arena_init(&arena, 0);
  dt__text_init(&text);
  write_thing(&text, &arena);
  assert_true(read_thing(text.data, text.len, &arena, &t));
  assert_true(t.number == UINT32_MAX && t.lowest == INT64_MIN && t.small == -3 && t.yes);
  assert_true(t.real == 0 && signbit(t.real) && isnan(t.none));
  assert_string_equal(t.text, "text");
  assert_true(!t.absent && !t.no_name && t.name == t.again);
  assert_string_equal(t.name, "name");
  assert_true(t.bytes == 3 && memcmp(t.data, "a\0b\0", 4) == 0);
  assert_true(t.n == 3 && t.list[0] == 1 && t.list[1] == -1 && t.list[2] == INT64_MAX);
  dt__text_fini(&text);
  dt__arena_fini(&arena);
}

// In blocks of exactly their size, so that a sanitizer sees what is read outside.
static void test_damaged_things(void **state) {
  (void)state;
  rng_t rng = {5};
  dt_arena_t arena;
  dt_text_t text;
  thing_t t;
  dt__arena_init(&arena, 0);
  dt__text_init(&text);
  write_thing(&text, &arena);
  for (size_t k = 0; k < text.len; k++) {
    char *cut = malloc(k + 1);
    assert_non_null(cut);
    memcpy(cut, text.data, k);
    assert_false(read_thing(cut, k, &arena, &t));
    free(cut);
  }
  for (uint32_t k = 0; k < 5000; k++) {
    char *copy = malloc(text.len);
    assert_non_null(copy);
    memcpy(copy, text.data, text.len);
    copy[rng_below(&rng, (uint32_t)text.len)] = (char)rng_next(&rng);
    (void)read_thing(copy, text.len, &arena, &t);
    free(copy);
  }
  dt__text_fini(&text);
  dt__arena_fini(&arena);
}

// A list that says it is long, of a short file, asks for no room.
static void test_long_lists_of_short_files(void **state) {
  (void)state;
  const unsigned char million[] = {0x80, 0x80, 0x40, 1, 2};
  dt_stream_t in = {.from = million, .left = sizeof(million)};
  uint32_t n = 0;
  assert_null(dt__stream_list(&in, &n, NULL, 1024));
  assert_true(in.failed && n == 0);
}

RUN_TESTS(TEST(test_words_take_seven_bits_a_byte), TEST(test_other_forms_are_refused),
          TEST(test_bounds), TEST(test_a_thing_comes_back), TEST(test_damaged_things),
          TEST(test_long_lists_of_short_files))

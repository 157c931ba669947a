// SPDX-License-Identifier: Apache-2.0
// The writer and the scanner.
#include "test/support/check.h"

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

#include <math.h>
#include <string.h>

static void test_writer(void **state) {
  (void)state;
  dt_text_t text;
  dt__text_init(&text);
  assert_string_equal(dt__text_str(&text), "");
  dt__text_put(&text, "");
  assert_string_equal(dt__text_str(&text), "");
  dt__text_put(&text, "ab");
  dt__text_write(&text, "cdef", 2);
  dt__text_printf(&text, "[%d %s]", -5, "x");
  assert_string_equal(dt__text_str(&text), "abcd[-5 x]");
  assert_int_equal(text.len, 10);
  for (int i = 0; i < 5000; i++)
    dt__text_printf(&text, "%04d", i);
  assert_int_equal(text.len, 10 + 4 * 5000);
  assert_string_equal(dt__text_str(&text) + text.len - 8, "49984999");
  char wide[300];
  memset(wide, 'w', sizeof(wide) - 1);
  wide[sizeof(wide) - 1] = '\0';
  dt__text_printf(&text, "%s", wide);
  assert_string_equal(dt__text_str(&text) + text.len - 299, wide);
  assert_null(dt__text_status(&text));
  dt__text_fini(&text);
}

static void test_writer_failure_is_sticky(void **state) {
  (void)state;
  dt_text_t text;
  dt__text_init(&text);
  dt__text_put(&text, "kept");
  char large[500];
  memset(large, 'x', sizeof(large));
  (void)dt__heap_fail_at(1, false);
  dt__text_write(&text, large, sizeof(large));
  (void)dt__heap_fail_at(0, false);
  dt__text_put(&text, "y");
  dt__text_printf(&text, "%d", 1);
  assert_string_equal(dt__text_str(&text), "kept");
  expect_code(dt__text_status(&text), DT_E_NO_MEMORY);
  dt__text_fini(&text);
}

// Exact heap copies again: the last byte may begin a longer sequence.
static void expect_json(const char *str, size_t len, const char *expected) {
  char *copy = dt__alloc(len);
  memcpy(copy, str, len);
  dt_text_t text;
  dt__text_init(&text);
  dt__text_json(&text, copy, len);
  assert_string_equal(dt__text_str(&text), expected);
  dt__text_fini(&text);
  dt__free(copy);
}

static void test_json(void **state) {
  (void)state;
  expect_json("a \"b\" \\c", 8, "a \\\"b\\\" \\\\c");
  expect_json("\n\x01\x7f", 3, "\\u000a\\u0001\\u007f");
  expect_json("\0x", 2, "\\u0000x");
  expect_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  expect_json("x\xff\xc0\xaf\xed\xa0\x80y", 8, "x\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffdy");
  expect_json("x\xe2\x82", 3, "x\\ufffd\\ufffd");
}

// The buffer is an exact heap copy, so that the address sanitizer sees a read past its end.
static dt_scan_t scan_of(const char *text, char **out_copy) {
  size_t len = strlen(text);
  *out_copy = dt__alloc(len);
  memcpy(*out_copy, text, len);
  dt_scan_t scan;
  dt__scan_init(&scan, *out_copy, len, "test");
  return scan;
}

static void test_tokens(void **state) {
  (void)state;
  char *copy;
  dt_scan_t scan = scan_of("  graph ; comment ) here\n\t( input, in) ; end", &copy);
  const char *word;
  size_t len;
  assert_false(dt__scan_end(&scan));
  assert_null(dt__scan_word(&scan, &word, &len));
  assert_int_equal(len, 5);
  assert_memory_equal(word, "graph", 5);
  assert_true(dt__scan_peek(&scan, "("));
  assert_true(dt__scan_accept(&scan, "("));
  assert_false(dt__scan_accept(&scan, "("));
  assert_false(dt__scan_accept_word(&scan, "in"));
  assert_true(dt__scan_peek(&scan, "in"));
  assert_true(dt__scan_accept_word(&scan, "input"));
  assert_null(dt__scan_expect(&scan, ","));
  assert_true(dt__scan_accept_word(&scan, "in"));
  assert_null(dt__scan_expect(&scan, ")"));
  assert_true(dt__scan_end(&scan));
  assert_false(dt__scan_accept(&scan, ")"));
  assert_false(dt__scan_accept(&scan, "longer than what is left"));
  dt__free(copy);
}

static void test_failure_names_the_place(void **state) {
  (void)state;
  char *copy;
  dt_scan_t scan = scan_of("one\n  two three", &copy);
  const char *word;
  size_t len;
  assert_null(dt__scan_word(&scan, &word, &len));
  assert_true(dt__scan_accept(&scan, "two"));
  dt_status_t status = dt__scan_expect(&scan, "=");
  assert_int_equal(dt_status_code(status), DT_E_FORMAT);
  assert_string_equal(dt_status_message(status), "test:2:7: expected '=', found 'three'");
  dt_status_free(status);
  assert_true(dt__scan_accept(&scan, "three"));
  status = dt__scan_expect(&scan, "=");
  assert_string_equal(dt_status_message(status), "test:2:12: expected '=', found the end");
  dt_status_free(status);
  dt__free(copy);

  dt__scan_init(&scan, NULL, 0, NULL);
  assert_true(dt__scan_end(&scan));
  status = dt__scan_word(&scan, &word, &len);
  assert_string_equal(dt_status_message(status), "text:1:1: expected a word, found the end");
  assert_null(word);
  dt_status_free(status);
}

static void test_i64(void **state) {
  (void)state;
  const struct {
    const char *text;
    bool ok;
    int64_t value;
  } cases[] = {
      {"0", true, 0},
      {" -17 ", true, -17},
      {"9223372036854775807", true, INT64_MAX},
      {"-9223372036854775808", true, INT64_MIN},
      {"0009", true, 9},
      {"9223372036854775808", false, 0},
      {"-9223372036854775809", false, 0},
      {"99999999999999999999", false, 0},
      {"-", false, 0},
      {"- 1", false, 0},
      {"+1", false, 0},
      {"x", false, 0},
      {"", false, 0},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char *copy;
    dt_scan_t scan = scan_of(cases[i].text, &copy);
    int64_t value = 1;
    dt_status_t status = dt__scan_i64(&scan, &value);
    if ((status == NULL) != cases[i].ok || value != cases[i].value)
      fail_msg("'%s': got %lld (%s), expected %lld", cases[i].text, (long long)value,
               dt_status_message(status), (long long)cases[i].value);
    dt_status_free(status);
    dt__free(copy);
  }
}

static void check_f64(const char *text, double expected, size_t consumed) {
  char *copy;
  dt_scan_t scan = scan_of(text, &copy);
  double value = -1;
  dt_status_t status = dt__scan_f64(&scan, &value);
  bool same = isnan(expected) ? isnan(value) : value == expected;
  if (status || !same || signbit(value) != signbit(expected) ||
      (size_t)(scan.at - scan.begin) != consumed)
    fail_msg("'%s': got %a after %zu characters (%s), expected %a after %zu", text, value,
             (size_t)(scan.at - scan.begin), dt_status_message(status), expected, consumed);
  dt__free(copy);
}

static void test_f64(void **state) {
  (void)state;
  check_f64("0", 0.0, 1);
  check_f64("-0", -0.0, 2);
  check_f64("1.5,", 1.5, 3);
  check_f64("1.", 1.0, 2);
  check_f64(".5", 0.5, 2);
  check_f64("-1e-3x", -1e-3, 5);
  check_f64("1e", 1.0, 1);
  check_f64("1e+", 1.0, 1);
  check_f64("0x1.8p+1", 3.0, 8);
  check_f64("-0x0.0000000000001p-1022", -0x0.0000000000001p-1022, 24);
  check_f64("0x1p", 1.0, 3);
  check_f64("1.7976931348623157e308", 1.7976931348623157e308, 22);
  check_f64("inf", (double)INFINITY, 3);
  check_f64("-inf)", -(double)INFINITY, 4);
  check_f64("nan", (double)NAN, 3);
  check_f64("1e999", (double)INFINITY, 5);
  const char *bad[] = {"", "x", "-", ".", "0x", "in", "e5"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    char *copy;
    dt_scan_t scan = scan_of(bad[i], &copy);
    double value;
    dt_status_t status = dt__scan_f64(&scan, &value);
    if (dt_status_code(status) != DT_E_FORMAT)
      fail_msg("'%s' was read as %a", bad[i], value);
    dt_status_free(status);
    dt__free(copy);
  }
}

static void test_f64_round_trip(void **state) {
  (void)state;
  uint64_t bits = 0x123456789ABCDEFu;
  for (int i = 0; i < 2000; i++) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    double expected;
    memcpy(&expected, &bits, sizeof(expected));
    if (isnan(expected))
      continue;
    const char *formats[] = {"%a", "%.17g", "%.1074f"};
    for (int f = 0; f < 3; f++) {
      dt_text_t text;
      dt__text_init(&text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      dt__text_printf(&text, formats[f], expected);
#pragma GCC diagnostic pop
      dt_scan_t scan;
      dt__scan_init(&scan, text.data, text.len, "test");
      double value = 0;
      dt_status_t status = dt__scan_f64(&scan, &value);
      bool too_long = text.len >= 1200; // the largest doubles with all their fraction digits
      if (!too_long && (status || memcmp(&value, &expected, sizeof(value)) != 0))
        fail_msg("%s: got %a, expected %a (%s)", dt__text_str(&text), value, expected,
                 dt_status_message(status));
      if (too_long)
        assert_int_equal(dt_status_code(status), DT_E_FORMAT);
      dt_status_free(status);
      dt__text_fini(&text);
    }
  }
}

static void test_string(void **state) {
  (void)state;
  char *copy;
  dt_scan_t scan = scan_of(" \"a\\\"b\\\\c\\n\\x41\\x00z\" \"\"", &copy);
  char buf[32];
  size_t len;
  assert_null(dt__scan_string(&scan, buf, sizeof(buf), &len));
  assert_int_equal(len, 9);
  assert_memory_equal(buf, "a\"b\\c\nA\0z", 10);
  assert_null(dt__scan_string(&scan, buf, 1, &len));
  assert_int_equal(len, 0);
  assert_string_equal(buf, "");
  dt__free(copy);

  const char *bad[] = {"x",        "\"",     "\"abc",    "\"abc\\",     "\"\\q\"",
                       "\"\\x4\"", "\"\\x4", "\"a\nb\"", "\"12345678\""};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    scan = scan_of(bad[i], &copy);
    dt_status_t status = dt__scan_string(&scan, buf, 8, &len);
    if (dt_status_code(status) != DT_E_FORMAT)
      fail_msg("<%s> was read as a string of %zu", bad[i], len);
    assert_int_equal(len, 0);
    dt_status_free(status);
    dt__free(copy);
  }
  scan = scan_of("\"1234567\"", &copy); // just fits
  assert_null(dt__scan_string(&scan, buf, 8, &len));
  assert_int_equal(len, 7);
  dt__free(copy);
  scan = scan_of("\"\"", &copy);
  expect_code(dt__scan_string(&scan, buf, 0, &len), DT_E_FORMAT);
  dt__free(copy);
}

RUN_TESTS(TEST(test_writer), TEST(test_writer_failure_is_sticky), TEST(test_json),
          TEST(test_tokens), TEST(test_failure_names_the_place), TEST(test_i64), TEST(test_f64),
          TEST(test_f64_round_trip), TEST(test_string))

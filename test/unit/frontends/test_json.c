// SPDX-License-Identifier: Apache-2.0
// The JSON reader: a table of documents with the tokens or the failure they must give.
#include "test/support/check.h"

#include "frontends/json/json.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One letter a token: { } [ ] then k:text s"text" i<int> f<%.17g> T F N, separated by spaces.
static void print_token(dt_text_t *out, const dt_json_token_t *token) {
  switch (token->kind) {
  case DT_JSON_END:
    dt__text_put(out, "end");
    break;
  case DT_JSON_OBJECT_BEGIN:
    dt__text_put(out, "{ ");
    break;
  case DT_JSON_OBJECT_END:
    dt__text_put(out, "} ");
    break;
  case DT_JSON_ARRAY_BEGIN:
    dt__text_put(out, "[ ");
    break;
  case DT_JSON_ARRAY_END:
    dt__text_put(out, "] ");
    break;
  case DT_JSON_KEY:
  case DT_JSON_STRING:
    dt__text_put(out, token->kind == DT_JSON_KEY ? "k:" : "s:");
    for (size_t i = 0; i < token->len; i++) {
      unsigned char c = (unsigned char)token->text[i];
      if (c > 0x20 && c < 0x7f)
        dt__text_printf(out, "%c", c);
      else
        dt__text_printf(out, "<%02x>", c);
    }
    dt__text_put(out, " ");
    break;
  case DT_JSON_INT:
    dt__text_printf(out, "i%lld ", (long long)token->integer);
    break;
  case DT_JSON_FLOAT:
    dt__text_printf(out, "f%.17g ", token->number);
    break;
  case DT_JSON_BOOL:
    dt__text_put(out, token->boolean ? "T " : "F ");
    break;
  case DT_JSON_NULL:
    dt__text_put(out, "N ");
    break;
  }
}

// All tokens of a document as text; a failure is printed as "! CODE message".
static char *tokens_of(const char *data, size_t len, const dt_json_limits_t *limits) {
  // An exact copy on the heap, so that a sanitizer sees a read past the end.
  char *copy = malloc(len ? len : 1);
  assert_non_null(copy);
  memcpy(copy, data, len);
  dt_text_t out;
  dt__text_init(&out);
  dt_json_t json;
  dt_json_token_t token = {.kind = DT_JSON_NULL};
  dt_status_t status = dt__json_init(&json, copy, len, "doc", limits);
  while (!status) {
    status = dt__json_next(&json, &token);
    if (status)
      break;
    print_token(&out, &token);
    if (token.kind == DT_JSON_END)
      break;
  }
  if (status)
    dt__text_printf(&out, "! %s %s", dt_code_name(dt_status_code(status)),
                    dt_status_message(status));
  dt_status_free(status);
  dt__json_fini(&json);
  free(copy);
  char *text = strdup(dt__text_str(&out));
  assert_non_null(text);
  dt__text_fini(&out);
  return text;
}

typedef struct case_t {
  const char *document, *expect;
} case_t;

static void check_cases(const case_t *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *got = tokens_of(cases[i].document, strlen(cases[i].document), NULL);
    if (strcmp(got, cases[i].expect) != 0)
      fail_msg("%s\n  gave    %s\n  expects %s", cases[i].document, got, cases[i].expect);
    free(got);
  }
}

static void test_documents(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"{}", "{ } end"},
      {" [ ] ", "[ ] end"},
      {"null", "N end"},
      {"[true,false,null]", "[ T F N ] end"},
      {"{\"a\":1,\"b\":[{},[\"x\"]]}", "{ k:a i1 k:b [ { } [ s:x ] ] } end"},
      {"\t\r\n{\"\" : \"\"}\n", "{ k: s: } end"},
      {"[0,-1,9223372036854775807,-9223372036854775808]",
       "[ i0 i-1 i9223372036854775807 i-9223372036854775808 ] end"},
      {"[9223372036854775808,-9223372036854775809,18446744073709551615]",
       "[ f9.2233720368547758e+18 f-9.2233720368547758e+18 f1.8446744073709552e+19 ] end"},
      {"[-0,0.0,-0.5,1e3,1E-2,2.5e+1]", "[ f-0 f0 f-0.5 f1000 f0.01 f25 ] end"},
      {"[1e-400]", "[ f0 ] end"},
  };
  check_cases(cases, sizeof cases / sizeof cases[0]);
}

static void test_strings(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s:\"\\/<08><0c><0a><0d><09> end"},
      {"\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00\"", "s:A<c3><a9><e2><82><ac><f0><9f><98><80> end"},
      {"\"\\u0000\"", "s:<00> end"},
      {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"",
       "s:<c3><a9><e2><82><ac><f0><9f><98><80><7f> end"},
      {"\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\"",
       "s:<f4><8f><bf><bf><ed><9f><bf><ee><80><80> end"},
  };
  check_cases(cases, sizeof cases / sizeof cases[0]);
}

static void test_malformed(void **state) {
  (void)state;
  static const case_t cases[] = {
      {"", "! DT_E_FORMAT doc: byte 0: expected a value, found the end of the text"},
      {"{", "{ ! DT_E_FORMAT doc: byte 1: expected a key in quotes, found the end of the text"},
      {"[1", "[ i1 ! DT_E_FORMAT doc: byte 2: expected ',' or ']', found the end of the text"},
      {"[1,]", "[ i1 ! DT_E_FORMAT doc: byte 3: expected a value, found ']'"},
      {"[,1]", "[ ! DT_E_FORMAT doc: byte 1: expected a value, found ','"},
      {"[1}", "[ i1 ! DT_E_FORMAT doc: byte 2: expected ',' or ']', found '}'"},
      {"{\"a\":1,}", "{ k:a i1 ! DT_E_FORMAT doc: byte 7: expected a key in quotes, found '}'"},
      {"{\"a\" 1}", "{ ! DT_E_FORMAT doc: byte 5: expected ':' after a key, found '1'"},
      {"{a:1}", "{ ! DT_E_FORMAT doc: byte 1: expected a key in quotes, found 'a'"},
      {"{1:1}", "{ ! DT_E_FORMAT doc: byte 1: expected a key in quotes, found '1'"},
      {"{} {}", "{ } ! DT_E_FORMAT doc: byte 3: expected the end, found '{'"},
      {"[1 2]", "[ i1 ! DT_E_FORMAT doc: byte 3: expected ',' or ']', found '2'"},
      {"tru", "! DT_E_FORMAT doc: byte 0: expected a value, found 't'"},
      {"NaN", "! DT_E_FORMAT doc: byte 0: expected a value, found 'N'"},
      {"-", "! DT_E_FORMAT doc: byte 0: a number without digits"},
      {"01", "! DT_E_FORMAT doc: byte 0: a number with a leading zero"},
      {"+1", "! DT_E_FORMAT doc: byte 0: expected a value, found '+'"},
      {"1.", "! DT_E_FORMAT doc: byte 0: no digit after the decimal point"},
      {"1e", "! DT_E_FORMAT doc: byte 0: no digit in the exponent"},
      {"1e999", "! DT_E_FORMAT doc: byte 0: a number beyond the range of a double"},
      {"-Infinity", "! DT_E_FORMAT doc: byte 0: a number without digits"},
      {"0x10", "i0 ! DT_E_FORMAT doc: byte 1: expected the end, found 'x'"},
      {"\"a", "! DT_E_FORMAT doc: byte 2: the text ends inside a string"},
      {"\"a\\", "! DT_E_FORMAT doc: byte 2: the text ends inside a string"},
      {"\"a\nb\"", "! DT_E_FORMAT doc: byte 2: control byte 0x0a inside a string"},
      {"\"\\x\"", "! DT_E_FORMAT doc: byte 1: unknown escape in a string"},
      {"\"\\u12g4\"", "! DT_E_FORMAT doc: byte 1: \\u needs four hexadecimal digits"},
      {"\"\\u123\"", "! DT_E_FORMAT doc: byte 1: \\u needs four hexadecimal digits"},
      {"\"\\ud800\"", "! DT_E_FORMAT doc: byte 1: a high surrogate without its low surrogate"},
      {"\"\\ud800\\u0041\"",
       "! DT_E_FORMAT doc: byte 1: a high surrogate without its low surrogate"},
      {"\"\\udc00\"", "! DT_E_FORMAT doc: byte 1: a low surrogate without its high surrogate"},
      {"// x", "! DT_E_FORMAT doc: byte 0: expected a value, found '/'"},
      {"\xef\xbb\xbf{}", "! DT_E_FORMAT doc: byte 0: expected a value, found byte 0xef"},
  };
  check_cases(cases, sizeof cases / sizeof cases[0]);
}

// Each malformed sequence, alone and cut short, inside a string.
static void test_bad_utf8(void **state) {
  (void)state;
  static const char *const bad[] = {
      "\x80",
      "\xbf",
      "\xc0\x80",
      "\xc1\xbf",
      "\xc3",
      "\xc3(",
      "\xe0\x9f\xbf",
      "\xe2\x82",
      "\xed\xa0\x80",
      "\xed\xbf\xbf",
      "\xf0\x8f\xbf\xbf",
      "\xf0\x9f\x98",
      "\xf4\x90\x80\x80",
      "\xf5\x80\x80\x80",
      "\xff",
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char document[16];
    int len = snprintf(document, sizeof document, "\"%s\"", bad[i]);
    char *got = tokens_of(document, (size_t)len, NULL);
    if (!strstr(got, "! DT_E_FORMAT doc: byte 1: ") || !strstr(got, "is not valid UTF-8"))
      fail_msg("sequence %zu gave %s", i, got);
    free(got);
    len = snprintf(document, sizeof document, "\"%s", bad[i]);
    got = tokens_of(document, (size_t)len, NULL);
    if (!strstr(got, "! DT_E_FORMAT"))
      fail_msg("unclosed sequence %zu gave %s", i, got);
    free(got);
  }
}

static void test_limits(void **state) {
  (void)state;
  const dt_json_limits_t depth = {.depth = 3};
  char *got = tokens_of("[[[1]]]", 7, &depth);
  assert_string_equal(got, "[ [ [ i1 ] ] ] end");
  free(got);
  got = tokens_of("[[[[1]]]]", 9, &depth);
  assert_string_equal(got, "[ [ [ ! DT_E_LIMIT doc: byte 3: nested deeper than the limit of 3");
  free(got);

  const dt_json_limits_t string = {.string_bytes = 2};
  got = tokens_of("[\"ab\",\"\\u00e9\"]", 15, &string);
  assert_string_equal(got, "[ s:ab s:<c3><a9> ] end");
  free(got);
  got = tokens_of("[\"abc\"]", 7, &string);
  assert_string_equal(got, "[ ! DT_E_LIMIT doc: byte 1: a string of 3 bytes, the limit is 2");
  free(got);

  const dt_json_limits_t total = {.total_bytes = 3};
  got = tokens_of("[1]", 3, &total);
  assert_string_equal(got, "[ i1 ] end");
  free(got);
  got = tokens_of("[12]", 4, &total);
  assert_string_equal(got, "! DT_E_LIMIT doc: 4 bytes of JSON, the limit is 3");
  free(got);

  // Nesting far beyond any limit must cost neither stack nor time.
  size_t deep = 1000000;
  char *document = malloc(deep);
  assert_non_null(document);
  memset(document, '[', deep);
  const dt_json_limits_t most = {.depth = UINT32_MAX};
  got = tokens_of(document, deep, &most);
  assert_non_null(strstr(got, "DT_E_LIMIT doc: byte 256: nested deeper than the limit of 256"));
  free(got);

  // A number longer than any double needs.
  memset(document, '1', 500);
  got = tokens_of(document, 500, NULL);
  assert_string_equal(got, "! DT_E_FORMAT doc: byte 0: a number of 500 characters");
  free(got);
  free(document);
}

static void test_mixed_nesting(void **state) {
  (void)state;
  // 256 levels that alternate, so that every bit of the stack of containers is told apart.
  char document[4096];
  size_t len = 0;
  for (int i = 0; i < 128; i++)
    len += (size_t)snprintf(document + len, sizeof document - len, "[{\"k\":");
  len += (size_t)snprintf(document + len, sizeof document - len, "7");
  size_t core = len;
  for (int i = 0; i < 128; i++)
    len += (size_t)snprintf(document + len, sizeof document - len, "}]");
  const dt_json_limits_t limits = {.depth = 256};
  char *got = tokens_of(document, len, &limits);
  assert_non_null(strstr(got, "i7 } ]"));
  assert_non_null(strstr(got, "] end"));
  free(got);
  document[core] = ']';
  got = tokens_of(document, len, &limits);
  assert_non_null(strstr(got, "! DT_E_FORMAT"));
  free(got);
}

static void test_skip_and_expect(void **state) {
  (void)state;
  static const char document[] = "{\"a\":{\"x\":[1,{\"y\":2}]},\"b\":3,\"c\":[]}";
  dt_json_t json;
  dt_json_token_t token;
  assert_null(dt__json_init(&json, document, sizeof document - 1, "doc", NULL));
  assert_null(dt__json_expect(&json, DT_JSON_OBJECT_BEGIN, &token));
  assert_null(dt__json_expect(&json, DT_JSON_KEY, &token));
  assert_null(dt__json_skip(&json));
  assert_null(dt__json_expect(&json, DT_JSON_KEY, &token));
  assert_int_equal(token.len, 1);
  assert_int_equal(token.text[0], 'b');
  assert_null(dt__json_skip(&json));
  assert_null(dt__json_expect(&json, DT_JSON_KEY, &token));
  assert_int_equal(token.offset, 29);
  assert_null(dt__json_skip(&json));
  dt_status_t status = dt__json_expect(&json, DT_JSON_KEY, &token);
  assert_string_equal(dt_status_message(status),
                      "doc: byte 35: expected a key, found the end of an object");
  dt_status_free(status);
  dt__json_fini(&json);

  assert_null(dt__json_init(&json, "[]", 2, "doc", NULL));
  assert_null(dt__json_expect(&json, DT_JSON_ARRAY_BEGIN, &token));
  expect_code(dt__json_skip(&json), DT_E_FORMAT);
  dt__json_fini(&json);
}

static void test_number_under_another_locale(void **state) {
  (void)state;
  // Where the machine has no such locale the test still checks the value.
  setlocale(LC_NUMERIC, "de_DE.UTF-8");
  char *got = tokens_of("[0.5]", 5, NULL);
  setlocale(LC_NUMERIC, "C");
  assert_string_equal(got, "[ f0.5 ] end");
  free(got);
}

static void test_no_memory(void **state) {
  (void)state;
  dt_json_t json;
  dt_json_token_t token;
  assert_null(dt__json_init(&json, "\"\\n\"", 4, "doc", NULL));
  dt__heap_fail_at(1, false);
  dt_status_t status = dt__json_next(&json, &token);
  dt__heap_fail_at(0, false);
  assert_int_equal(dt_status_code(status), DT_E_NO_MEMORY);
  dt_status_free(status);
  dt__json_fini(&json);
}

RUN_TESTS(TEST(test_documents), TEST(test_strings), TEST(test_malformed), TEST(test_bad_utf8),
          TEST(test_limits), TEST(test_mixed_nesting), TEST(test_skip_and_expect),
          TEST(test_number_under_another_locale), TEST(test_no_memory))

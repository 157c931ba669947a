// SPDX-License-Identifier: Apache-2.0
// Tokens of PTX: words (names, directives and opcodes with all their parts), numbers in all their
// spellings, strings, signs.
#include "test/fake_cuda/ptx_read.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ptx_is(ptx_slice_t slice, const char *text) {
  return strlen(text) == slice.n && memcmp(slice.at, text, slice.n) == 0;
}

bool ptx_same(ptx_slice_t a, ptx_slice_t b) { return a.n == b.n && memcmp(a.at, b.at, a.n) == 0; }

void *ptx_grow(void *array, uint32_t *n, size_t size) {
  uint32_t at = (*n)++;
  if ((at & (at - 1)) == 0) { // a power of two: full
    void *grown = realloc(array, size * (at ? 2 * (size_t)at : 1));
    if (!grown) // the process of a test: nothing goes on without memory
      abort();
    array = grown;
  }
  memset((char *)array + size * at, 0, size);
  return array;
}

bool ptx_fail(ptx_reader_t *r, uint32_t line, const char *fmt, ...) {
  if (r->failed)
    return false;
  r->failed = true;
  char what[256];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(what, sizeof(what), fmt, args);
  va_end(args);
  const char *text = line && line <= r->module->n_lines ? r->module->lines[line - 1] : "";
  (void)snprintf(r->module->error, sizeof(r->module->error), "line %u: %s: %.160s", line, what,
                 text + strspn(text, " \t"));
  return false;
}

// ---- Blanks and comments --------------------------------------------------------------------------

static void skip_blanks(ptx_reader_t *r) {
  for (;;) {
    if (*r->at == '\n') {
      r->line++;
      r->at++;
    } else if (isspace((unsigned char)*r->at)) {
      r->at++;
    } else if (r->at[0] == '/' && r->at[1] == '/') {
      while (*r->at && *r->at != '\n')
        r->at++;
    } else if (r->at[0] == '/' && r->at[1] == '*') {
      for (r->at += 2; *r->at && !(r->at[0] == '*' && r->at[1] == '/'); r->at++)
        r->line += *r->at == '\n';
      r->at += *r->at ? 2 : 0;
    } else {
      return;
    }
  }
}

// ---- Words ----------------------------------------------------------------------------------------

static bool in_word(const char *at) {
  return isalnum((unsigned char)*at) || *at == '_' || *at == '$' || *at == '%' || *at == '.';
}

static void read_word(ptx_reader_t *r) {
  const char *begin = r->at;
  for (;;) {
    if (in_word(r->at))
      r->at++;
    else if (r->at[0] == ':' && r->at[1] == ':') // shared::cta
      r->at += 2;
    else
      break;
  }
  r->token.kind = PTX_WORD;
  r->token.text = (ptx_slice_t){begin, (size_t)(r->at - begin)};
}

// ---- Numbers --------------------------------------------------------------------------------------

static void read_bits(ptx_reader_t *r, ptx_number_t number, uint32_t digits) {
  char text[17] = {0};
  uint32_t n = 0;
  for (r->at += 2; n < digits && isxdigit((unsigned char)*r->at); r->at++)
    text[n++] = *r->at;
  r->token.number = number;
  r->token.bits = strtoull(text, NULL, 16);
  if (n != digits)
    (void)ptx_fail(r, r->line, "a float of %u digits instead of %u", n, digits);
}

// The number's characters, apart from the text behind them.
static void copy_number(const char *from, char *out, size_t room) {
  size_t n = 0;
  for (; n + 1 < room; n++) {
    bool sign =
        n && (from[n] == '+' || from[n] == '-') && tolower((unsigned char)from[n - 1]) == 'e';
    if (!isalnum((unsigned char)from[n]) && from[n] != '.' && !sign)
      break;
    out[n] = from[n];
  }
  out[n] = 0;
}

static void read_number(ptx_reader_t *r) {
  const char *start = r->at;
  char begin[128];
  copy_number(start, begin, sizeof(begin));
  r->token.kind = PTX_NUMBER;
  r->token.number = PTX_INTEGER;
  char mark = (char)(begin[0] == '0' ? tolower((unsigned char)begin[1]) : 0);
  char *end = NULL;
  if (mark == 'f') {
    read_bits(r, PTX_SINGLE, 8);
  } else if (mark == 'd') {
    read_bits(r, PTX_DOUBLE, 16);
  } else if (mark == 'b') {
    r->token.bits = strtoull(begin + 2, &end, 2);
    r->at += end - begin;
  } else {
    r->token.bits = strtoull(begin, &end, 0);
    if (mark != 'x' && (*end == '.' || *end == 'e' || *end == 'E')) {
      double value = strtod(begin, &end);
      memcpy(&r->token.bits, &value, sizeof(value));
      r->token.number = PTX_DOUBLE;
    }
    r->at += end - begin;
  }
  if (*r->at == 'U')
    r->at++;
  if (in_word(r->at))
    (void)ptx_fail(r, r->line, "a number that goes on with '%c'", *r->at);
  r->token.text = (ptx_slice_t){start, (size_t)(r->at - start)};
}

// ---- Tokens ---------------------------------------------------------------------------------------

void ptx_advance(ptx_reader_t *r) {
  skip_blanks(r);
  r->token = (ptx_token_t){.line = r->line, .text = {r->at, 1}};
  if (r->failed || !*r->at) {
    r->token.kind = PTX_END;
    return;
  }
  if (isdigit((unsigned char)*r->at)) {
    read_number(r);
  } else if (in_word(r->at)) {
    read_word(r);
  } else if (*r->at == '"') {
    const char *begin = ++r->at;
    while (*r->at && *r->at != '"' && *r->at != '\n')
      r->at++;
    r->token.kind = PTX_STRING;
    r->token.text = (ptx_slice_t){begin, (size_t)(r->at - begin)};
    r->at += *r->at == '"';
  } else {
    r->token.kind = PTX_SIGN;
    r->at++;
  }
}

bool ptx_at_sign(const ptx_reader_t *r, char sign) {
  return r->token.kind == PTX_SIGN && *r->token.text.at == sign;
}

bool ptx_skip_sign(ptx_reader_t *r, char sign) {
  if (!ptx_at_sign(r, sign))
    return false;
  ptx_advance(r);
  return true;
}

bool ptx_expect(ptx_reader_t *r, char sign) {
  if (ptx_skip_sign(r, sign))
    return true;
  return ptx_fail(r, r->token.line, "'%c' expected before '%.*s'", sign, (int)r->token.text.n,
                  r->token.text.at);
}

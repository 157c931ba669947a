// SPDX-License-Identifier: Apache-2.0
// Text to expressions: a recursive descent over what print.c writes, with a depth limit. Builders
// simplify on the way, so text that print wrote in the same environment gives the same id. Forms
// that print never writes, because they are built from others, are understood too.
#include "symshape/sym_private.h"

#include <string.h>

#define MAX_PARSE_DEPTH 300u

typedef struct dt_parse_t {
  dt_symenv_t *env;
  dt_scan_t *scan;
  uint32_t depth;
} dt_parse_t;

static dt_status_t parse_or(dt_parse_t *p, dt_sym_t *out);

static bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Takes `word` when it is next and no longer word begins with it.
static bool accept_word(dt_scan_t *scan, const char *word) {
  const char *before = scan->at;
  if (!dt__scan_accept(scan, word))
    return false;
  if (scan->at < scan->end && word_char(*scan->at)) {
    scan->at = before;
    return false;
  }
  return true;
}

// Takes `sign` when it is next and not the beginning of an arrow.
static bool accept_sign(dt_scan_t *scan, const char *sign) {
  const char *before = scan->at;
  if (!dt__scan_accept(scan, sign))
    return false;
  if (scan->at < scan->end && *scan->at == '>') {
    scan->at = before;
    return false;
  }
  return true;
}

// "e12": an expression of an environment that was read back, by its id.
static bool parse_named(const dt_parse_t *p, const char *word, size_t len, dt_sym_t *out) {
  uint64_t id = 0;
  if (!p->env->named || len < 2 || len > 10 || word[0] != 'e')
    return false;
  for (size_t k = 1; k < len; k++) {
    if (word[k] < '0' || word[k] > '9')
      return false;
    id = id * 10 + (uint64_t)(word[k] - '0');
  }
  if (id == 0 || id >= p->env->n_nodes)
    return false;
  *out = SYM((uint32_t)id);
  return true;
}

static dt_status_t parse_symbol(dt_parse_t *p, const char *word, size_t len, dt_sym_t *out) {
  uint64_t index = 0;
  bool ok = len >= 2 && len <= 10 && (len == 2 || word[1] != '0');
  for (size_t k = 1; ok && k < len; k++) {
    ok = word[k] >= '0' && word[k] <= '9';
    index = index * 10 + (uint64_t)(word[k] - '0');
  }
  char letter[16] = "";
  if (ok && index < p->env->n_symbols)
    dt__symbol_letter(p->env, (uint32_t)index, letter);
  if (strlen(letter) != len || memcmp(letter, word, len) != 0)
    return dt__scan_fail(p->scan, "unknown symbol '%.*s'", (int)(len > 64 ? 64 : len), word);
  *out = dt__symbol_sym(p->env, (uint32_t)index);
  return NULL;
}

// What is written like a function: operations, and forms that are built from others.
typedef struct call_t {
  const char *name;
  dt_sym_op_t op; // NONE: `one` or `two` builds it
  uint32_t n;
  dt_sym_t (*one)(dt_symenv_t *env, dt_sym_t a);
  dt_sym_t (*two)(dt_symenv_t *env, dt_sym_t a, dt_sym_t b);
} call_t;

static const call_t calls[] = {
    {"min", DT_SYM_MIN, 2, NULL, NULL},
    {"max", DT_SYM_MAX, 2, NULL, NULL},
    {"select", DT_SYM_SELECT, 3, NULL, NULL},
    {"not", DT_SYM_NOT, 1, NULL, NULL},
    {"shl", DT_SYM_SHL, 2, NULL, NULL},
    {"shr", DT_SYM_SHR, 2, NULL, NULL},
    {"abs", DT_SYM_NONE, 1, dt__sym_abs, NULL},
    {"ceildiv", DT_SYM_NONE, 2, NULL, dt__sym_ceildiv},
    {"exactdiv", DT_SYM_NONE, 2, NULL, dt__sym_exactdiv},
    {"truncdiv", DT_SYM_NONE, 2, NULL, dt__sym_truncdiv},
    {"truncmod", DT_SYM_NONE, 2, NULL, dt__sym_truncmod},
};

static const call_t *find_call(const char *word, size_t len) {
  for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++)
    if (strlen(calls[k].name) == len && memcmp(calls[k].name, word, len) == 0)
      return &calls[k];
  return NULL;
}

static dt_status_t parse_call(dt_parse_t *p, const call_t *call, dt_sym_t *out) {
  dt_sym_t args[3];
  uint32_t n = 0;
  bool any = call->op == DT_SYM_MIN || call->op == DT_SYM_MAX;
  DT_TRY(dt__scan_expect(p->scan, "("));
  do {
    if (n == call->n) {
      if (!any)
        return dt__scan_fail(p->scan, "too many arguments");
      args[0] = dt__rebuild(p->env, call->op, args, 2); // min and max of many: fold pairwise
      n = 1;
    }
    DT_TRY(parse_or(p, &args[n++]));
  } while (dt__scan_accept(p->scan, ","));
  DT_TRY(dt__scan_expect(p->scan, ")"));
  if (n != call->n)
    return dt__scan_fail(p->scan, "wrong number of arguments");
  *out = call->one   ? call->one(p->env, args[0])
         : call->two ? call->two(p->env, args[0], args[1])
                     : dt__rebuild(p->env, call->op, args, n);
  return NULL;
}

static dt_status_t parse_atom(dt_parse_t *p, dt_sym_t *out) {
  dt_scan_t *scan = p->scan;
  if (dt__scan_accept(scan, "(")) {
    DT_TRY(parse_or(p, out));
    return dt__scan_expect(scan, ")");
  }
  dt__scan_space(scan);
  bool minus = scan->end - scan->at >= 2 && scan->at[0] == '-';
  char next = scan->at < scan->end ? scan->at[minus ? 1 : 0] : '\0';
  if (next >= '0' && next <= '9') {
    int64_t value;
    DT_TRY(dt__scan_i64(scan, &value));
    *out = dt__sym_const(p->env, value);
    return NULL;
  }
  const char *word;
  size_t len;
  DT_TRY(dt__scan_word(scan, &word, &len));
  const call_t *call = find_call(word, len);
  if (call)
    return parse_call(p, call, out);
  return parse_named(p, word, len, out) ? NULL : parse_symbol(p, word, len, out);
}

// A minus in front belongs to the whole product: -s0*384 is -(s0*384). A digit after it makes it a
// literal's sign.
static dt_status_t parse_product(dt_parse_t *p, dt_sym_t *out) {
  dt_scan_t *scan = p->scan;
  dt__scan_space(scan);
  bool negate = scan->end - scan->at >= 2 && scan->at[0] == '-' &&
                !(scan->at[1] >= '0' && scan->at[1] <= '9') && dt__scan_accept(scan, "-");
  DT_TRY(parse_atom(p, out));
  for (;;) {
    dt_sym_op_t op = dt__scan_accept(scan, "*")    ? DT_SYM_MUL
                     : dt__scan_accept(scan, "//") ? DT_SYM_FLOORDIV
                     : dt__scan_accept(scan, "%")  ? DT_SYM_MOD
                                                   : DT_SYM_NONE;
    if (op == DT_SYM_NONE)
      break;
    dt_sym_t args[2] = {*out, DT_SYM_NONE_ID};
    DT_TRY(parse_atom(p, &args[1]));
    *out = dt__rebuild(p->env, op, args, 2);
  }
  if (negate)
    *out = dt__sym_neg(p->env, *out);
  return NULL;
}

static dt_status_t parse_sum(dt_parse_t *p, dt_sym_t *out) {
  DT_TRY(parse_product(p, out));
  for (;;) {
    bool plus = dt__scan_accept(p->scan, "+");
    if (!plus && !accept_sign(p->scan, "-"))
      return NULL;
    dt_sym_t next;
    DT_TRY(parse_product(p, &next));
    *out = plus ? dt__sym_add(p->env, *out, next) : dt__sym_sub(p->env, *out, next);
  }
}

static dt_status_t parse_compare(dt_parse_t *p, dt_sym_t *out) {
  DT_TRY(parse_sum(p, out));
  dt_sym_op_t op = dt__scan_accept(p->scan, "==")   ? DT_SYM_EQ
                   : dt__scan_accept(p->scan, "!=") ? DT_SYM_NE
                   : dt__scan_accept(p->scan, "<=") ? DT_SYM_LE
                   : dt__scan_accept(p->scan, "<")  ? DT_SYM_LT
                                                    : DT_SYM_NONE;
  if (op == DT_SYM_NONE)
    return NULL;
  dt_sym_t args[2] = {*out, DT_SYM_NONE_ID};
  DT_TRY(parse_sum(p, &args[1]));
  *out = dt__rebuild(p->env, op, args, 2);
  return NULL;
}

static dt_status_t parse_and(dt_parse_t *p, dt_sym_t *out) {
  DT_TRY(parse_compare(p, out));
  while (accept_word(p->scan, "and")) {
    dt_sym_t next;
    DT_TRY(parse_compare(p, &next));
    *out = dt__sym_and(p->env, *out, next);
  }
  return NULL;
}

static dt_status_t parse_or(dt_parse_t *p, dt_sym_t *out) {
  *out = DT_SYM_NONE_ID;
  if (p->depth++ >= MAX_PARSE_DEPTH)
    return dt__scan_fail(p->scan, "an expression nested deeper than %u", MAX_PARSE_DEPTH);
  DT_TRY(parse_and(p, out));
  while (accept_word(p->scan, "or")) {
    dt_sym_t next;
    DT_TRY(parse_and(p, &next));
    *out = dt__sym_or(p->env, *out, next);
  }
  p->depth--;
  return NULL;
}

dt_status_t dt__sym_parse(dt_symenv_t *env, dt_scan_t *scan, dt_sym_t *out) {
  dt_parse_t parse = {env, scan, 0};
  *out = DT_SYM_NONE_ID;
  dt_sym_t e;
  DT_TRY(parse_or(&parse, &e));
  if (!e.id) {
    dt_status_t status = dt__symenv_status(env);
    return status ? status : dt__scan_fail(scan, "an expression without a value");
  }
  *out = e;
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Differential fuzzing: random expressions, evaluated as written with 64-bit checks at every step,
// against what the simplifier made of them; with and without learned facts, and near overflow.
//
// Where the written form has a value, the simplified one must have the same; its value must lie in
// its range; and a question answered from facts must be answered rightly.
#include "test/unit/symshape/sym_test.h"

#include <stdlib.h>

#define MAX_AST 200
#define SYMBOLS 8
#define ASSIGNMENTS 48

// Operations that are built from others.
enum { FORM_ABS = DT_SYM_OP_COUNT, FORM_CEILDIV, FORM_TRUNCDIV, FORM_TRUNCMOD, FORM_COUNT };

typedef struct ast_t {
  int op; // dt_sym_op_t, or a form
  int a, b, c;
  int64_t value; // literal, or symbol index
} ast_t;

typedef struct fuzz_t {
  uint64_t seed;
  ast_t ast[MAX_AST];
  int n;
  dt_symenv_t *env;
  bool large; // values near the ends of 64 bits
  int64_t values[ASSIGNMENTS][SYMBOLS];
  int n_values;
  uint64_t checks, lost;
} fuzz_t;

static uint64_t next(fuzz_t *f) {
  f->seed ^= f->seed << 13;
  f->seed ^= f->seed >> 7;
  f->seed ^= f->seed << 17;
  return f->seed;
}
static int64_t pick(fuzz_t *f, int64_t n) { return (int64_t)(next(f) % (uint64_t)n); }

// ---- The written form --------------------------------------------------------------------------
static int leaf(fuzz_t *f) {
  ast_t *node = &f->ast[f->n];
  if (pick(f, 3) == 0) {
    static const int64_t literals[] = {0, 1, 2, 3, 4, 5, 6, 8, 12, 32, -1, -2, -3, -4};
    static const int64_t big[] = {INT64_MAX,       INT64_MIN,        INT64_MAX - 1,
                                  INT64_MIN + 1,   (int64_t)1 << 62, (int64_t)1 << 32,
                                  (int64_t)3 << 40};
    bool huge = f->large && pick(f, 4) == 0;
    *node = (ast_t){.op = DT_SYM_CONST, .value = huge ? big[pick(f, 7)] : literals[pick(f, 14)]};
  } else {
    *node = (ast_t){.op = DT_SYM_SYMBOL, .value = pick(f, SYMBOLS)};
  }
  return f->n++;
}

static int node_of(fuzz_t *f, int op, int a, int b) {
  f->ast[f->n] = (ast_t){.op = op, .a = a, .b = b};
  return f->n++;
}

static int tree(fuzz_t *f, int depth);

// Forms that index expressions take: q*(x//q) + x%q, q*((x//q)%r) + x%q, (x*q + r)//q and its
// remainder, (x//q)//r.
static int index_form(fuzz_t *f, int depth) {
  int x = tree(f, depth), q = leaf(f), r = leaf(f);
  int div = node_of(f, DT_SYM_FLOORDIV, x, q), mod = node_of(f, DT_SYM_MOD, x, q);
  int flat = node_of(f, DT_SYM_ADD, node_of(f, DT_SYM_MUL, x, q), r);
  static const int64_t powers[] = {2, 4, 8};
  int other, same, c;
  switch (pick(f, 10)) {
  case 9: // q*((x//q)%r) + x%q
    other = node_of(f, DT_SYM_MUL, node_of(f, DT_SYM_MOD, div, r), q);
    return node_of(f, DT_SYM_ADD, other, mod);
  case 8:
  case 6: // (x//4)*2 == x//2
    f->ast[f->n] = (ast_t){.op = DT_SYM_CONST, .value = powers[pick(f, 2)]};
    r = f->n++;
    f->ast[f->n] = (ast_t){.op = DT_SYM_CONST, .value = f->ast[r].value * 2};
    q = f->n++;
    f->ast[f->n] = (ast_t){.op = DT_SYM_CONST, .value = 2};
    c = f->n++;
    x = pick(f, 2) ? leaf(f) : x;
    other = node_of(f, DT_SYM_MUL, node_of(f, DT_SYM_FLOORDIV, x, q), c);
    return node_of(f, DT_SYM_EQ, other, node_of(f, DT_SYM_FLOORDIV, x, r));
  case 7: // select(c, select(c, x, q), r)
    c = node_of(f, DT_SYM_LT, q, leaf(f));
    same = node_of(f, DT_SYM_SELECT, c, x);
    f->ast[same].c = q;
    other = node_of(f, DT_SYM_SELECT, c, same);
    f->ast[other].c = r;
    return other;
  case 0:
    return node_of(f, DT_SYM_ADD, node_of(f, DT_SYM_MUL, q, div), mod);
  case 1:
    return node_of(f, DT_SYM_FLOORDIV, flat, q);
  case 2:
    return node_of(f, DT_SYM_MOD, flat, q);
  case 3:
    return node_of(f, DT_SYM_FLOORDIV, flat, node_of(f, DT_SYM_MUL, q, leaf(f)));
  case 4:
    return node_of(f, pick(f, 2) ? DT_SYM_FLOORDIV : DT_SYM_MOD, div, r);
  default:
    return node_of(f, pick(f, 2) ? DT_SYM_FLOORDIV : DT_SYM_MOD,
                   node_of(f, DT_SYM_MOD, x, node_of(f, DT_SYM_MUL, q, r)), r);
  }
}

// A shift by a symbol, or by a literal that may be no count; small ones to the left, or nothing
// fits.
static int shift(fuzz_t *f, int op, int depth) {
  static const int64_t counts[] = {0, 1, 2, 3, -1, 62, 63, 64};
  int x = tree(f, depth), count;
  if (pick(f, 2)) {
    count = f->n++;
    bool any = op == DT_SYM_SHR || f->large;
    f->ast[count] = (ast_t){.op = DT_SYM_CONST, .value = counts[pick(f, any ? 8 : 5)]};
  } else {
    count = f->n++;
    f->ast[count] = (ast_t){.op = DT_SYM_SYMBOL, .value = pick(f, SYMBOLS)};
    if (op == DT_SYM_SHR && pick(f, 4) == 0) // shr(shl(x, y), y)
      x = node_of(f, DT_SYM_SHL, x, count);
  }
  return node_of(f, op, x, count);
}

static int tree(fuzz_t *f, int depth) {
  if (depth > 0 && f->n < MAX_AST - 60 && pick(f, 8) == 0)
    return index_form(f, depth - 1);
  if (depth == 0 || pick(f, 8) == 0 || f->n > MAX_AST - 40)
    return leaf(f);
  static const int ops[] = {
      DT_SYM_ADD,      DT_SYM_ADD,      DT_SYM_ADD,    DT_SYM_MUL, DT_SYM_MUL,
      DT_SYM_FLOORDIV, DT_SYM_FLOORDIV, DT_SYM_MOD,    DT_SYM_MOD, DT_SYM_MIN,
      DT_SYM_MAX,      DT_SYM_SHL,      DT_SYM_SHR,    FORM_ABS,   FORM_CEILDIV,
      FORM_TRUNCDIV,   FORM_TRUNCMOD,   DT_SYM_SELECT, DT_SYM_EQ,  DT_SYM_NE,
      DT_SYM_LT,       DT_SYM_LE,       DT_SYM_AND,    DT_SYM_OR,  DT_SYM_NOT};
  ast_t node = {.op = ops[pick(f, sizeof ops / sizeof ops[0] - (depth > 2 ? 7 : 0))]};
  if (node.op == DT_SYM_SHL || node.op == DT_SYM_SHR)
    return shift(f, node.op, depth - 1);
  node.a = tree(f, depth - 1);
  node.b = tree(f, depth - 1);
  node.c = node.op == DT_SYM_SELECT ? tree(f, depth - 1) : 0;
  f->ast[f->n] = node;
  return f->n++;
}

// A comparison on top.
static int condition(fuzz_t *f, int depth) {
  static const dt_sym_op_t ops[] = {DT_SYM_EQ, DT_SYM_NE, DT_SYM_LT, DT_SYM_LE, DT_SYM_EQ};
  ast_t node = {.op = (int)ops[pick(f, 5)]};
  node.a = tree(f, depth);
  node.b = tree(f, depth);
  f->ast[f->n] = node;
  return f->n++;
}

// A symbol's remainder by a literal is what it is at the first assignment.
static int residue(fuzz_t *f) {
  int64_t symbol = pick(f, 3) ? 0 : pick(f, SYMBOLS), modulus = 2 + pick(f, 7);
  int64_t value = f->values[0][symbol] % modulus;
  f->ast[f->n++] = (ast_t){.op = DT_SYM_SYMBOL, .value = symbol};
  f->ast[f->n++] = (ast_t){.op = DT_SYM_CONST, .value = modulus};
  f->ast[f->n++] = (ast_t){.op = DT_SYM_CONST, .value = value < 0 ? value + modulus : value};
  int mod = node_of(f, DT_SYM_MOD, f->n - 3, f->n - 2);
  return node_of(f, DT_SYM_EQ, mod, mod - 1);
}

// C's operators and the shifts, in C.
static bool eval_form(int op, int64_t a, int64_t b, int64_t *out) {
  switch (op) {
  case DT_SYM_SHL:
    return b >= 0 && b <= 62 && !__builtin_mul_overflow(a, (int64_t)1 << b, out);
  case DT_SYM_SHR:
    *out = b >= 0 && b <= 63 ? a >> b : 0;
    return b >= 0 && b <= 63;
  case FORM_ABS:
    *out = a < 0 && a != INT64_MIN ? -a : a;
    return a != INT64_MIN;
  default:
    if (b == 0 || (b == -1 && a == INT64_MIN))
      return false;
    *out = op == FORM_TRUNCDIV   ? a / b
           : op == FORM_TRUNCMOD ? a % b
                                 : a / b + (a % b != 0 && (a < 0) == (b < 0)); // CEILDIV
    // The sum that a ceiling is made from must fit, and its divisor be positive.
    return op != FORM_CEILDIV || (b > 0 && a <= INT64_MAX - b + 1);
  }
}

static bool eval_ast(const fuzz_t *f, int at, const int64_t *values, int64_t *out) {
  const ast_t *node = &f->ast[at];
  int64_t a = 0, b = 0;
  if (node->op == DT_SYM_CONST || node->op == DT_SYM_SYMBOL) {
    *out = node->op == DT_SYM_CONST ? node->value : values[node->value];
    return true;
  }
  bool ok_a = eval_ast(f, node->a, values, &a);
  if (node->op == DT_SYM_SELECT)
    return ok_a && eval_ast(f, a ? node->b : node->c, values, out);
  if (node->op == DT_SYM_NOT) {
    *out = !a;
    return ok_a;
  }
  if (node->op == FORM_ABS)
    return ok_a && eval_form(node->op, a, 0, out);
  bool ok_b = eval_ast(f, node->b, values, &b);
  if (node->op == DT_SYM_AND || node->op == DT_SYM_OR) {
    bool deciding = node->op == DT_SYM_OR;
    bool found = (ok_a && (a != 0) == deciding) || (ok_b && (b != 0) == deciding);
    *out = found ? deciding : !deciding;
    return found || (ok_a && ok_b);
  }
  if (!ok_a || !ok_b)
    return false;
  if (node->op >= FORM_ABS || node->op == DT_SYM_SHL || node->op == DT_SYM_SHR)
    return eval_form(node->op, a, b, out);
  int64_t q;
  switch (node->op) {
  case DT_SYM_ADD:
    return !__builtin_add_overflow(a, b, out);
  case DT_SYM_MUL:
    return !__builtin_mul_overflow(a, b, out);
  case DT_SYM_FLOORDIV:
  case DT_SYM_MOD:
    if (b == 0 || (b == -1 && a == INT64_MIN))
      return false;
    q = a % b != 0 && (a < 0) != (b < 0); // 1 when the quotient is rounded down
    *out = node->op == DT_SYM_MOD ? a % b + q * b : a / b - q;
    return true;
  case DT_SYM_MIN:
    *out = a < b ? a : b;
    return true;
  case DT_SYM_MAX:
    *out = a > b ? a : b;
    return true;
  case DT_SYM_EQ:
    *out = a == b;
    return true;
  case DT_SYM_NE:
    *out = a != b;
    return true;
  case DT_SYM_LT:
    *out = a < b;
    return true;
  default:
    *out = a <= b;
    return true;
  }
}

static dt_sym_t build(fuzz_t *f, int at) {
  const ast_t *node = &f->ast[at];
  if (node->op == DT_SYM_CONST)
    return dt__sym_const(f->env, node->value);
  if (node->op == DT_SYM_SYMBOL)
    return dt__symbol_sym(f->env, (uint32_t)node->value);
  dt_sym_t args[3] = {build(f, node->a), DT_SYM_NONE_ID, DT_SYM_NONE_ID};
  if (node->op == FORM_ABS)
    return dt__sym_abs(f->env, args[0]);
  if (node->op > FORM_ABS)
    return (node->op == FORM_CEILDIV    ? dt__sym_ceildiv
            : node->op == FORM_TRUNCDIV ? dt__sym_truncdiv
                                        : dt__sym_truncmod)(f->env, args[0], build(f, node->b));
  if (node->op != DT_SYM_NOT)
    args[1] = build(f, node->b);
  if (node->op == DT_SYM_SELECT)
    args[2] = build(f, node->c);
  uint32_t n = node->op == DT_SYM_NOT ? 1 : node->op == DT_SYM_SELECT ? 3 : 2;
  return dt__rebuild(f->env, (dt_sym_op_t)node->op, args, n);
}

static void print_ast(const fuzz_t *f, int at) {
  static const char *const names[] = {
#define SYM_OP(id, name, arity, kind, doc) name,
#include "symshape/sym_ops.def"
      "abs",
      "ceildiv",
      "truncdiv",
      "truncmod",
  };
  const ast_t *node = &f->ast[at];
  if (node->op == DT_SYM_CONST) {
    print_error("%lld", (long long)node->value);
    return;
  }
  if (node->op == DT_SYM_SYMBOL) {
    print_error("x%lld", (long long)node->value);
    return;
  }
  print_error("%s(", names[node->op]);
  print_ast(f, node->a);
  if (node->op != DT_SYM_NOT && node->op != FORM_ABS) {
    print_error(", ");
    print_ast(f, node->b);
  }
  if (node->op == DT_SYM_SELECT) {
    print_error(", ");
    print_ast(f, node->c);
  }
  print_error(")");
}

static void report(fuzz_t *f, int at, dt_sym_t e, const int64_t *values, const char *what,
                   int64_t want, int64_t got) {
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(f->env, e, &text);
  print_error("%s: ", what);
  print_ast(f, at);
  print_error("\n  simplified: %s\n  expected %lld, have %lld; symbols", dt__text_str(&text),
              (long long)want, (long long)got);
  for (int k = 0; k < SYMBOLS; k++)
    print_error(" %lld", (long long)values[k]);
  print_error("\n");
  dt__text_fini(&text);
  fail();
}

// ---- Environments ------------------------------------------------------------------------------
// x0 x1 sizes, x2 an integer, x3 < x0, x4 < x1, x5 a size or integer, x6 < (some expression), x7 a
// size. Bounds tight or not, by `tight`.
static void make_env(fuzz_t *f, bool tight) {
  dt_symenv_t *env;
  expect_ok(dt__symenv_create(&env));
  f->env = env;
  dt__sym_new(env, DT_SYMBOL_SIZE, tight ? (dt_range_t){0, 4} : UNBOUNDED, NULL, "");
  dt__sym_new(env, DT_SYMBOL_SIZE, tight ? (dt_range_t){1, 5} : UNBOUNDED, NULL, "");
  dt__sym_new(env, DT_SYMBOL_INT, tight ? (dt_range_t){-5, 5} : UNBOUNDED, NULL, "");
  dt__sym_new_loop(env, dt__symbol_sym(env, 0));
  dt__sym_new_loop(env, dt__symbol_sym(env, 1));
  dt__sym_new(env, DT_SYMBOL_INT, tight ? (dt_range_t){-2, 7} : UNBOUNDED, NULL, "");
  static const char *const extents[] = {"s0*s1", "(s0 + 3)//4", "4", "s1*4", "s0 + 1"};
  dt__sym_new_loop(env, P(extents[pick(f, 5)]));
  dt__sym_new(env, DT_SYMBOL_SIZE, tight ? (dt_range_t){0, 6} : UNBOUNDED, NULL, "");
}

static int64_t choose(fuzz_t *f, int64_t lo, int64_t hi) {
  if (f->large && lo < 0 && pick(f, 2) == 0) {
    static const int64_t big[] = {INT64_MAX,     INT64_MIN,        INT64_MAX - 1,
                                  INT64_MIN + 1, (int64_t)1 << 62, -((int64_t)1 << 62),
                                  3037000500};
    return big[pick(f, 7)];
  }
  if (f->large && hi > 100 && pick(f, 2) == 0)
    return DT_SIZE_LIMIT - 1 - pick(f, 3);
  return lo + pick(f, hi - lo + 1);
}

// One random assignment that keeps all bounds; false when a loop does not run.
static bool assign(fuzz_t *f, bool tight, int64_t *v) {
  memset(v, 0, SYMBOLS * sizeof *v);
  int64_t extent, wide = f->large ? 200 : 9;
  v[0] = tight ? pick(f, 5) : choose(f, 0, wide);
  v[1] = tight ? 1 + pick(f, 5) : choose(f, 0, wide);
  v[2] = tight ? pick(f, 11) - 5 : choose(f, -9, 9);
  v[5] = tight ? pick(f, 10) - 2 : choose(f, -9, 9);
  v[7] = tight ? pick(f, 7) : choose(f, 0, wide);
  static const uint32_t loops[] = {3, 4, 6};
  for (int k = 0; k < 3; k++) {
    if (!dt__sym_eval(f->env, dt__symbol_extent(f->env, loops[k]), v, &extent) || extent < 1)
      return false;
    v[loops[k]] = pick(f, 3) == 0 ? extent - 1 : pick(f, extent);
  }
  return true;
}

static void make_values(fuzz_t *f, bool tight) {
  f->n_values = 0;
  for (int tries = 0; f->n_values < ASSIGNMENTS && tries < 400; tries++)
    f->n_values += assign(f, tight, f->values[f->n_values]);
}

// ---- Checks ------------------------------------------------------------------------------------
static void check_values(fuzz_t *f, int at, dt_sym_t e, const char *what) {
  dt_range_t range = dt__sym_range(f->env, e);
  for (int k = 0; k < f->n_values; k++) {
    int64_t want, got = 0;
    if (!eval_ast(f, at, f->values[k], &want))
      continue;
    bool has = dt__sym_eval(f->env, e, f->values[k], &got);
    f->lost += !has && f->large;
    if (has ? want != got : !f->large)
      report(f, at, e, f->values[k], what, want, got);
    if (want < range.lo || want > range.hi)
      report(f, at, e, f->values[k], "out of its range", range.lo, range.hi);
    f->checks++;
  }
}

// Printing and parsing give the same node.
static void check_text_round(fuzz_t *f, int at, dt_sym_t e) {
  dt_text_t text;
  dt__text_init(&text);
  dt__sym_print(f->env, e, &text);
  dt_scan_t scan;
  dt__scan_init(&scan, dt__text_str(&text), text.len, "fuzz");
  dt_sym_t again;
  expect_ok(dt__sym_parse(f->env, &scan, &again));
  if (again.id != e.id) {
    dt_text_t other;
    dt__text_init(&other);
    dt__sym_print(f->env, again, &other);
    print_error("printed %s, parsed %s\n", dt__text_str(&text), dt__text_str(&other));
    dt__text_fini(&other);
    report(f, at, e, f->values[0], "text", e.id, again.id);
  }
  dt__text_fini(&text);
}

static void check_linear(fuzz_t *f, int at, dt_sym_t e) {
  uint32_t symbol = (uint32_t)pick(f, SYMBOLS);
  dt_sym_t coef, rest, var = dt__symbol_sym(f->env, symbol);
  if (!dt__sym_linear(f->env, e, var, &coef, &rest))
    return;
  assert_false(dt__sym_depends(f->env, coef, var));
  assert_false(dt__sym_depends(f->env, rest, var));
  for (int k = 0; k < f->n_values; k++) {
    int64_t want, c, r;
    if (eval_ast(f, at, f->values[k], &want) && dt__sym_eval(f->env, coef, f->values[k], &c) &&
        dt__sym_eval(f->env, rest, f->values[k], &r) &&
        want != (int64_t)((uint64_t)c * (uint64_t)f->values[k][symbol] + (uint64_t)r))
      report(f, at, e, f->values[k], "linear", want, c);
  }
}

// e[x2 := t] at v is e at v with x2 = t(v).
static void check_subst(fuzz_t *f, int at, dt_sym_t e) {
  int by = leaf(f);
  dt_sym_t from = dt__symbol_sym(f->env, 2), to = build(f, by);
  dt_sym_t put = dt__sym_subst(f->env, e, &from, &to, 1);
  for (int k = 0; put.id && k < f->n_values; k++) {
    int64_t v[SYMBOLS], want, got = 0;
    memcpy(v, f->values[k], sizeof v);
    assert_true(eval_ast(f, by, f->values[k], &v[2]));
    dt_range_t r = dt__symbol_info(f->env, 2).range;
    if (v[2] < r.lo || v[2] > r.hi || !eval_ast(f, at, v, &want))
      continue;
    bool has = dt__sym_eval(f->env, put, f->values[k], &got);
    f->lost += !has && f->large;
    if (has ? want != got : !f->large)
      report(f, at, put, f->values[k], "substitution", want, got);
    f->checks++;
  }
}

static uint64_t rule_hits[DT_RULE_COUNT];

static void end_env(fuzz_t *f) {
  for (int r = 0; r < DT_RULE_COUNT; r++)
    rule_hits[r] += f->env->rule_hits[r];
  // Literals may overflow in large mode only.
  dt_status_t status = dt__symenv_status(f->env);
  if (status && !(f->large && dt_status_code(status) == DT_E_LIMIT))
    expect_ok(status);
  dt_status_free(status);
  dt__symenv_destroy(f->env);
}

static void run_plain(fuzz_t *f, int rounds, int depth) {
  for (int round = 0; round < rounds; round++) {
    bool tight = !f->large && pick(f, 2);
    make_env(f, tight);
    make_values(f, tight);
    for (int k = 0; k < 8; k++) {
      f->n = 0;
      int at = pick(f, 3) ? tree(f, depth) : condition(f, depth - 1);
      dt_sym_t e = build(f, at);
      if (!e.id)
        continue;
      check_values(f, at, e, "wrong value");
      check_text_round(f, at, e);
      check_linear(f, at, e);
      check_subst(f, at, e);
    }
    end_env(f);
  }
}

// Learns conditions that hold at one assignment; then all assignments that keep them must agree.
static void run_facts(fuzz_t *f, int rounds) {
  for (int round = 0; round < rounds; round++) {
    bool tight = pick(f, 2);
    make_env(f, tight);
    make_values(f, tight);
    if (!f->n_values) {
      end_env(f);
      continue;
    }
    f->n = 0;
    int facts = 1 + (int)pick(f, 3);
    dt_sym_t early[4];
    int early_ast[4];
    for (int k = 0; k < 4; k++)
      early[k] = build(f, early_ast[k] = tree(f, 2));
    for (int k = 0; k < facts; k++) {
      int cond = pick(f, 3) ? condition(f, 1) : residue(f);
      int64_t truth;
      if (!eval_ast(f, cond, f->values[0], &truth))
        continue;
      dt_sym_t asked = build(f, cond);
      dt_sym_t e = truth ? asked : dt__sym_not(f->env, asked);
      dt_status_t status = dt__sym_learn(f->env, e);
      if (status) {
        print_error("%s\n", dt_status_message(status));
        dt_status_free(status);
        report(f, cond, e, f->values[0], "cannot learn what is true", truth, 0);
      }
      if (dt__sym_known(f->env, e) != DT_TRUE)
        report(f, cond, e, f->values[0], "learned but not known", 1, dt__sym_known(f->env, e));
      // Keep the assignments under which it holds.
      int kept = 0;
      for (int v = 0; v < f->n_values; v++) {
        int64_t now;
        if (eval_ast(f, cond, f->values[v], &now) && now == truth)
          memcpy(f->values[kept++], f->values[v], sizeof f->values[0]);
      }
      f->n_values = kept;
    }
    for (int k = 0; k < 4; k++)
      check_values(f, early_ast[k], dt__sym_simplify(f->env, early[k]), "wrong by facts");
    for (int k = 0; k < 4; k++) {
      f->n = 0;
      int at = pick(f, 2) ? tree(f, 3) : condition(f, 2);
      dt_sym_t e = build(f, at);
      check_values(f, at, e, "wrong by facts");
      check_values(f, at, dt__sym_simplify(f->env, e), "wrong by facts, simplified");
      check_text_round(f, at, dt__sym_simplify(f->env, e));
    }
    end_env(f);
  }
}

static int rounds_scale(void) {
  const char *text = getenv("DUCTILE_FUZZ_SCALE"); // more rounds for a long run by hand
  int scale = text ? atoi(text) : 1;
  return scale < 1 ? 1 : scale;
}

static uint64_t seed_of(uint64_t fixed) {
  const char *text = getenv("DUCTILE_FUZZ_SEED");
  return text ? fixed * 31 + strtoull(text, NULL, 10) : fixed;
}

static void test_small(void **state) {
  (void)state;
  static fuzz_t f;
  f = (fuzz_t){.seed = seed_of(0x9e3779b97f4a7c15u)};
  run_plain(&f, 2500 * rounds_scale(), 3);
  run_plain(&f, 400 * rounds_scale(), 4);
  print_message("%llu values compared\n", (unsigned long long)f.checks);
  assert_true(f.checks >= 200000);
}

static void test_large(void **state) {
  (void)state;
  static fuzz_t f;
  f = (fuzz_t){.seed = seed_of(0xd1b54a32d192ed03u), .large = true};
  run_plain(&f, 1000 * rounds_scale(), 3);
  print_message("%llu values compared, %llu lost in sums with parts beyond 2^180\n",
                (unsigned long long)f.checks, (unsigned long long)f.lost);
  assert_true(f.checks >= 50000);
  assert_true(f.lost * 10000 <= f.checks);
}

static void test_facts(void **state) {
  (void)state;
  static fuzz_t f;
  f = (fuzz_t){.seed = seed_of(0x94d049bb133111ebu)};
  run_facts(&f, 4000 * rounds_scale());
  print_message("%llu values compared\n", (unsigned long long)f.checks);
  assert_true(f.checks >= 20000);
}

// Simplification ends, and soon: large expressions, built, simplified again after facts, within a
// number of rule applications that any loop would exceed.
static void test_ends(void **state) {
  (void)state;
  static fuzz_t f;
  f = (fuzz_t){.seed = seed_of(0xbf58476d1ce4e5b9u)};
  uint64_t most = 0;
  for (int round = 0; round < 200 * rounds_scale(); round++) {
    make_env(&f, pick(&f, 2));
    f.n = 0;
    int at = tree(&f, 7), cond = f.n < MAX_AST - 100 ? condition(&f, 2) : at;
    uint64_t before = 0, after = 0;
    for (int r = 0; r < DT_RULE_COUNT; r++)
      before += f.env->rule_hits[r];
    dt_sym_t e = build(&f, at), c = build(&f, cond);
    if (c.id)
      dt_status_free(dt__sym_learn(f.env, c)); // may contradict itself
    (void)dt__sym_simplify(f.env, e);
    for (int r = 0; r < DT_RULE_COUNT; r++)
      after += f.env->rule_hits[r];
    most = after - before > most ? after - before : most;
    dt__symenv_destroy(f.env);
  }
  print_message("at most %llu rule applications for one expression\n", (unsigned long long)most);
  assert_true(most < 5000000);
}

// The comparisons above say something about each rule.
static void test_rules_fired(void **state) {
  (void)state;
  static const char *const names[] = {
#define RULE(id, doc) #id,
#include "symshape/rules.def"
  };
  for (int r = 0; r < DT_RULE_COUNT; r++)
    if (rule_hits[r] < 3) {
      print_error("rule %s fired %llu times\n", names[r], (unsigned long long)rule_hits[r]);
      fail();
    }
}

RUN_TESTS(TEST(test_small), TEST(test_large), TEST(test_facts), TEST(test_ends),
          TEST(test_rules_fired))

// SPDX-License-Identifier: Apache-2.0
// Every fold rule over every dtype, with hostile literals and over hostile data: the graph that it
// applies to, evaluated before and after, bit for bit. Where a rule's row admits the dtype it must
// fire, elsewhere it must not. A rule without a case here does not compile.
#include "lower/graph/eval.h"
#include "lower/passes/fold.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "test/support/graph_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIDE 4
#define ELEMENTS (SIDE * SIDE)

static const dt_dtype_t dtypes[] = {
#define DTYPE(id, value, name, bytes, kind, c_type) DT_##id,
#include "runtime/base/dtypes.def"
};
#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

// ---- Hostile values -----------------------------------------------------------------------------
// 0, -0, 1, -1, extremes, infinities, NaN, all ones, and what rules look for; in range of `dtype`.
static uint32_t hostile_values(dt_dtype_t dtype, dt_scalar_t *out) {
  static const double reals[] = {0,   -0.0,     1,         -1,  2,      -2,     0.5,    1.5,
                                 NAN, INFINITY, -INFINITY, 3e4, 0x1p-3, 0x1p15, 0x1p-14};
  static const int64_t wholes[] = {0, 1, -1, 2, -2, 3, 8, INT64_MAX, INT64_MIN, 127, -128};
  uint64_t ones = UINT64_MAX;
  uint32_t n = 0;
  if (!dt__dtype_is_float(dtype)) {
    unsigned unused = 64u - 8u * (unsigned)dt_dtype_size(dtype);
    for (size_t k = 0; k < sizeof(wholes) / sizeof(wholes[0]); k++)
      out[n++] = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = wholes[k]});
    out[n++] = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = INT64_MAX >> unused});
    out[n++] = dt__scalar_cast(DT_I64, dtype, (dt_scalar_t){.i = INT64_MIN >> unused});
    return n;
  }
  for (size_t k = 0; k < sizeof(reals) / sizeof(reals[0]); k++)
    out[n++] = dt__scalar_cast(DT_F64, dtype, (dt_scalar_t){.f = reals[k]});
  out[n++] = dt__scalar_load(dtype, &ones);
  return n;
}
#define MOST_VALUES 16

static void fill(dt_dtype_t dtype, void *data, uint32_t turn) {
  dt_scalar_t values[MOST_VALUES];
  uint32_t n = hostile_values(dtype, values);
  for (uint32_t k = 0; k < ELEMENTS; k++)
    dt__scalar_store(dtype, (char *)data + k * dt_dtype_size(dtype), values[(k + turn * k) % n]);
}

// ---- Building -----------------------------------------------------------------------------------
typedef struct make_t {
  graph_fixture_t f;
  dt_dtype_t dtype;
  dt_node_id_t x, y, grid, flag; // [n], [n], [SIDE, SIDE] of dtype; [n] of bool
  dt_sym_t n;                    // a symbol of value ELEMENTS
  dt_scalar_t values[MOST_VALUES];
  uint32_t n_values;
  dt_node_id_t literals[MOST_VALUES]; // [n], of values
} make_t;

// The node, or none where an operand is none or the op takes no such dtype.
static dt_node_id_t node(make_t *m, dt_op_t op, uint32_t n, const dt_node_id_t *in,
                         const dt_attrs_t *attrs) {
  dt_node_id_t id = {0};
  for (uint32_t k = 0; k < n; k++)
    if (!in[k].id)
      return id;
  dt_status_t status = dt__graph_add(m->f.graph, op, in, n, attrs, NULL, &id);
  if (dt_status_code(status) == DT_E_DTYPE)
    dt_status_free(status);
  else
    expect_ok(status);
  return id;
}

static dt_node_id_t one(make_t *m, dt_op_t op, dt_node_id_t a) { return node(m, op, 1, &a, NULL); }
static dt_node_id_t two(make_t *m, dt_op_t op, dt_node_id_t a, dt_node_id_t b) {
  return node(m, op, 2, (dt_node_id_t[]){a, b}, NULL);
}
static dt_node_id_t three(make_t *m, dt_op_t op, dt_node_id_t a, dt_node_id_t b, dt_node_id_t c) {
  return node(m, op, 3, (dt_node_id_t[]){a, b, c}, NULL);
}

static dt_node_id_t sized(make_t *m, dt_op_t op, dt_node_id_t a, uint32_t n,
                          const dt_sym_t *sizes) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = n;
  memcpy(attrs.syms, sizes, n * sizeof(*sizes));
  return node(m, op, 1, &a, &attrs);
}

static dt_node_id_t cast(make_t *m, dt_node_id_t a, dt_dtype_t dtype) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  return node(m, DT_OP_cast, 1, &a, &attrs);
}

static dt_node_id_t permuted(make_t *m, dt_node_id_t a, int32_t first, int32_t second) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = 2;
  attrs.axes[0] = first;
  attrs.axes[1] = second;
  return node(m, DT_OP_permute, 1, &a, &attrs);
}

static dt_node_id_t sliced(make_t *m, dt_node_id_t a, dt_sym_t start, dt_sym_t size, int64_t step) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = 2;
  attrs.syms[0] = start;
  attrs.syms[1] = size;
  attrs.ints[0] = step;
  return node(m, DT_OP_slice, 1, &a, &attrs);
}

static dt_node_id_t number(make_t *m, dt_dtype_t dtype, dt_scalar_t value) {
  dt_attrs_t attrs = {0};
  attrs.dtype = dtype;
  if (dt__dtype_is_float(dtype))
    attrs.floats[0] = value.f;
  else
    attrs.ints[0] = value.i;
  dt_sym_t ones[1] = {literal(&m->f, 1)};
  dt_node_id_t id = node(m, DT_OP_scalar, 0, NULL, &attrs);
  return sized(m, DT_OP_expand, sized(m, DT_OP_reshape, id, 1, ones), 1, &m->n);
}

static void out(make_t *m, dt_node_id_t id) {
  if (id.id)
    expect_ok(dt__graph_add_output(m->f.graph, id));
}

// ---- Cases, one a rule --------------------------------------------------------------------------
// The op with each literal on either side, and with one operand twice.
static void with_literals(make_t *m, dt_op_t op) {
  for (uint32_t k = 0; k < m->n_values; k++) {
    out(m, two(m, op, m->x, m->literals[k]));
    out(m, two(m, op, m->literals[k], m->x));
  }
  out(m, two(m, op, m->x, m->x));
}

static void of_literals(make_t *m, dt_op_t op) {
  uint32_t arity = (uint32_t)dt__op_info(op)->arity;
  dt_node_id_t truth[2] = {number(m, DT_BOOL, (dt_scalar_t){.i = 0}),
                           number(m, DT_BOOL, (dt_scalar_t){.i = 1})};
  for (uint32_t k = 0; k < m->n_values; k++) {
    if (arity == 1)
      out(m, one(m, op, m->literals[k]));
    for (uint32_t j = 0; arity > 1 && j < m->n_values; j++) {
      if (arity == 2)
        out(m, two(m, op, m->literals[k], m->literals[j]));
      else
        out(m, three(m, op, truth[(j + k) % 2], m->literals[k], m->literals[j]));
    }
  }
}

static void case_ew_scalars(make_t *m) {
  for (uint32_t op = DT_OP_NONE + 1; op < DT_OP_COUNT; op++) {
    dt_lower_kind_t lower = dt__op_info((dt_op_t)op)->lower;
    if (lower == DT_LOWER_ew || lower == DT_LOWER_part)
      of_literals(m, (dt_op_t)op);
  }
  for (uint32_t k = 0; k < m->n_values; k++)
    for (size_t to = 0; to < N_DTYPES; to++)
      out(m, cast(m, m->literals[k], dtypes[to]));
}

static void case_literal_right(make_t *m) {
  for (uint32_t op = DT_OP_NONE + 1; op < DT_OP_COUNT; op++)
    if (dt__op_info((dt_op_t)op)->flags & DT_OPF_COMM)
      with_literals(m, (dt_op_t)op);
}

static void case_size_literal(make_t *m) {
  static const int64_t sizes[] = {0, 1, 12, INT64_MAX};
  for (size_t k = 0; m->dtype == DT_I64 && k < sizeof(sizes) / sizeof(sizes[0]); k++) {
    dt_attrs_t attrs = {0};
    attrs.n_syms = 1;
    attrs.syms[0] = literal(&m->f, sizes[k]);
    out(m, node(m, DT_OP_size, 0, NULL, &attrs));
  }
}

static void case_view_literal(make_t *m) {
  dt_sym_t zero = literal(&m->f, 0), column[2] = {m->n, literal(&m->f, 1)};
  dt_sym_t last = dt__sym_sub(m->f.env, m->n, column[1]);
  for (uint32_t k = 0; k < m->n_values; k++) {
    out(m, sliced(m, m->literals[k], zero, column[1], 1));
    out(m, sliced(m, m->literals[k], last, m->n, -1));
    out(m, permuted(m, sized(m, DT_OP_reshape, m->literals[k], 2, column), 1, 0));
  }
}

static void case_where_known(make_t *m) {
  for (int64_t k = 0; k < 2; k++)
    out(m, three(m, DT_OP_where, number(m, DT_BOOL, (dt_scalar_t){.i = k}), m->x, m->y));
}

static void case_where_same(make_t *m) { out(m, three(m, DT_OP_where, m->flag, m->x, m->x)); }
static void case_cast_same(make_t *m) { out(m, cast(m, m->x, m->dtype)); }

// Over sources of every dtype, through the examined one.
static void case_cast_cast(make_t *m) {
  for (size_t from = 0; from < N_DTYPES; from++) {
    dt_node_id_t x = input(&m->f, "from", dtypes[from], 1, &m->n);
    for (size_t to = 0; to < N_DTYPES; to++)
      out(m, cast(m, cast(m, x, m->dtype), dtypes[to]));
  }
}

static void case_reshape_reshape(make_t *m) {
  dt_sym_t row[2] = {literal(&m->f, 1), m->n};
  out(m, sized(m, DT_OP_reshape, sized(m, DT_OP_reshape, m->x, 2, row), 1, &m->n));
}

static void case_permute_permute(make_t *m) {
  out(m, permuted(m, permuted(m, m->grid, 1, 0), 1, 0));
}

static void case_expand_expand(make_t *m) {
  dt_sym_t one = literal(&m->f, 1), two = literal(&m->f, 2);
  dt_node_id_t x = sized(m, DT_OP_reshape, m->x, 3, (dt_sym_t[]){one, m->n, one});
  x = sized(m, DT_OP_expand, x, 3, (dt_sym_t[]){two, m->n, one});
  out(m, sized(m, DT_OP_expand, x, 3, (dt_sym_t[]){two, m->n, two}));
}

static void case_slice_slice(make_t *m) {
  dt_sym_t one = literal(&m->f, 1), four = literal(&m->f, 4), five = literal(&m->f, 5);
  out(m, sliced(m, sliced(m, m->x, one, five, 2), four, four, -1));
  out(m, sliced(m, sliced(m, m->x, dt__sym_sub(m->f.env, m->n, one), m->n, -1), one, five, 3));
}

static void case_reshape_same(make_t *m) { out(m, sized(m, DT_OP_reshape, m->x, 1, &m->n)); }
static void case_expand_same(make_t *m) { out(m, sized(m, DT_OP_expand, m->x, 1, &m->n)); }
static void case_permute_same(make_t *m) { out(m, permuted(m, m->grid, 0, 1)); }
static void case_slice_whole(make_t *m) { out(m, sliced(m, m->x, literal(&m->f, 0), m->n, 1)); }

static void case_pad_nothing(make_t *m) {
  for (uint32_t k = 0; k < m->n_values; k++) {
    dt_attrs_t attrs = {0};
    attrs.n_syms = 2;
    attrs.syms[0] = attrs.syms[1] = literal(&m->f, 0);
    if (dt__dtype_is_float(m->dtype))
      attrs.floats[0] = m->values[k].f;
    else
      attrs.ints[0] = m->values[k].i;
    out(m, node(m, DT_OP_pad, 1, &m->x, &attrs));
  }
}

static dt_node_id_t joined(make_t *m, uint32_t n, const dt_node_id_t *parts) {
  dt_attrs_t attrs = {0};
  attrs.n_axes = 1;
  return node(m, DT_OP_concat, n, parts, &attrs);
}

static void case_concat_one(make_t *m) { out(m, joined(m, 1, &m->x)); }

// By one element in front and two behind.
static dt_node_id_t padded(make_t *m, dt_node_id_t x, uint32_t value) {
  dt_attrs_t attrs = {0};
  attrs.n_syms = 2;
  attrs.syms[0] = literal(&m->f, 1);
  attrs.syms[1] = literal(&m->f, 2);
  if (dt__dtype_is_float(m->dtype))
    attrs.floats[0] = m->values[value].f;
  else
    attrs.ints[0] = m->values[value].i;
  return node(m, DT_OP_pad, 1, &x, &attrs);
}

static void case_pad_pad(make_t *m) {
  for (uint32_t k = 0; k < m->n_values; k++)
    out(m, padded(m, padded(m, m->x, k), k));
}
static void case_slice_pad(make_t *m) {
  for (uint32_t k = 0; k < m->n_values; k++)
    out(m, sliced(m, padded(m, m->x, k), literal(&m->f, 1), m->n, 1));
}
static void case_slice_concat(make_t *m) {
  dt_node_id_t all = joined(m, 2, (dt_node_id_t[]){m->x, m->y});
  out(m, sliced(m, all, m->n, m->n, 1));
  out(m, sliced(m, all, literal(&m->f, 1), dt__sym_sub(m->f.env, m->n, literal(&m->f, 1)), 1));
}
static void case_concat_concat(make_t *m) {
  dt_node_id_t both = joined(m, 2, (dt_node_id_t[]){m->x, m->y});
  out(m, joined(m, 3, (dt_node_id_t[]){m->y, both, m->x}));
}
static void case_concat_slices(make_t *m) {
  dt_sym_t zero = literal(&m->f, 0), two = literal(&m->f, 2);
  dt_node_id_t parts[3] = {sliced(m, m->x, zero, two, 1),
                           sliced(m, m->x, two, dt__sym_sub(m->f.env, m->n, two), 1), m->y};
  out(m, joined(m, 2, parts));
  out(m, joined(m, 3, parts));
}

static void case_neg_neg(make_t *m) { out(m, one(m, DT_OP_neg, one(m, DT_OP_neg, m->x))); }
static void case_not_not(make_t *m) {
  out(m, one(m, DT_OP_logical_not, one(m, DT_OP_logical_not, m->x)));
}
static void case_abs_abs(make_t *m) { out(m, one(m, DT_OP_abs, one(m, DT_OP_abs, m->x))); }
static void case_sign_sign(make_t *m) { out(m, one(m, DT_OP_sign, one(m, DT_OP_sign, m->x))); }
static void case_abs_neg(make_t *m) { out(m, one(m, DT_OP_abs, one(m, DT_OP_neg, m->x))); }

static void of_whole(make_t *m, dt_op_t op) {
  static const dt_op_t inner[] = {DT_OP_floor, DT_OP_ceil, DT_OP_trunc, DT_OP_round};
  for (size_t k = 0; k < sizeof(inner) / sizeof(inner[0]); k++)
    out(m, one(m, op, one(m, inner[k], m->x)));
}
static void case_floor_whole(make_t *m) { of_whole(m, DT_OP_floor); }
static void case_ceil_whole(make_t *m) { of_whole(m, DT_OP_ceil); }
static void case_trunc_whole(make_t *m) { of_whole(m, DT_OP_trunc); }
static void case_round_whole(make_t *m) { of_whole(m, DT_OP_round); }

#define WITH_LITERALS(id, op)                                                                      \
  static void case_##id(make_t *m) { with_literals(m, DT_OP_##op); }
WITH_LITERALS(one_mul, mul)
WITH_LITERALS(add_zero, add)
WITH_LITERALS(add_minus_zero, add)
WITH_LITERALS(sub_zero, sub)
WITH_LITERALS(sub_same, sub)
WITH_LITERALS(mul_one, mul)
WITH_LITERALS(mul_zero, mul)
WITH_LITERALS(div_one, div)
WITH_LITERALS(div_power, div)
WITH_LITERALS(pow_zero, pow)
WITH_LITERALS(pow_one, pow)
WITH_LITERALS(pow_two, pow)
WITH_LITERALS(pow_minus_one, pow)
WITH_LITERALS(max_same, maximum)
WITH_LITERALS(min_same, minimum)
WITH_LITERALS(and_same, logical_and)
WITH_LITERALS(or_same, logical_or)
WITH_LITERALS(and_literal, logical_and)
WITH_LITERALS(or_literal, logical_or)

static const struct {
  const char *id;
  dt_holds_t dtypes;
  void (*make)(make_t *m);
} rules[] = {
#define FOLD(id, op, dtypes, fn, doc) {#id, DT_HOLDS_##dtypes, case_##id},
#include "lower/passes/fold_rules.def"
};
#define N_RULES (sizeof(rules) / sizeof(rules[0]))

// ---- Running ------------------------------------------------------------------------------------
static struct {
  const char *id;
  uint32_t fired;
} watch;

// A line says the rule's name before a colon.
static void count_rule(void *user, const char *line, size_t len) {
  char text[256], word[64];
  (void)user;
  (void)snprintf(text, sizeof(text), " %.*s", (int)len, line);
  (void)snprintf(word, sizeof(word), " %s: ", watch.id);
  watch.fired += strstr(text, word) != NULL;
}

static void start(make_t *m, dt_dtype_t dtype) {
  graph_fixture_init(&m->f);
  m->dtype = dtype;
  m->n = size_symbol(&m->f, ELEMENTS);
  m->x = input(&m->f, "x", dtype, 1, &m->n);
  m->y = input(&m->f, "y", dtype, 1, &m->n);
  m->grid = fixed(&m->f, "grid", dtype, 2, (int64_t[]){SIDE, SIDE});
  m->flag = input(&m->f, "flag", DT_BOOL, 1, &m->n);
  m->n_values = hostile_values(dtype, m->values);
  for (uint32_t k = 0; k < m->n_values; k++)
    m->literals[k] = number(m, dtype, m->values[k]);
}

static void evaluate(const dt_graph_t *graph, dt_arena_t *arena, dt_eval_value_t *values) {
  static uint64_t data[4 + N_DTYPES][ELEMENTS];
  static const int64_t sizes[2][2] = {{ELEMENTS}, {SIDE, SIDE}}, strides[2][2] = {{1}, {SIDE, 1}};
  dt_eval_arg_t args[4 + N_DTYPES];
  int64_t symbols[1] = {ELEMENTS};
  for (uint32_t k = 0; k < graph->inputs.len; k++) {
    uint32_t shape = graph->inputs.items[k].rank - 1;
    fill(graph->inputs.items[k].dtype, data[k], k);
    args[k] = (dt_eval_arg_t){data[k], sizes[shape], strides[shape]};
  }
  expect_ok(dt__graph_eval(graph, symbols, args, NULL, arena, values));
}

// As memory would hold them; one NaN is as good as another.
static bool same_bits(dt_dtype_t dtype, dt_scalar_t a, dt_scalar_t b) {
  uint64_t x = 0, y = 0;
  if (dt__dtype_is_float(dtype) && (isnan(a.f) || isnan(b.f)))
    return isnan(a.f) && isnan(b.f);
  dt__scalar_store(dtype, &x, a);
  dt__scalar_store(dtype, &y, b);
  return x == y;
}

static void compare(const char *id, dt_dtype_t dtype, const dt_graph_t *before,
                    const dt_graph_t *after, dt_arena_t *arena) {
  uint32_t n = before->outputs.len;
  dt_eval_value_t *a = DT_ARENA_ARRAY(arena, dt_eval_value_t, n);
  dt_eval_value_t *b = DT_ARENA_ARRAY(arena, dt_eval_value_t, n);
  assert_true(a && b && after->outputs.len == n);
  evaluate(before, arena, a);
  evaluate(after, arena, b);
  for (uint32_t k = 0; k < n; k++) {
    assert_int_equal(a[k].count, b[k].count);
    assert_int_equal(a[k].dtype, b[k].dtype);
    for (int64_t i = 0; i < a[k].count; i++)
      if (!same_bits(a[k].dtype, a[k].data[i], b[k].data[i]))
        fail_msg("%s of %s, output %u (%s), element %lld: expected %.17g (%lld), got %.17g (%lld)",
                 id, dt_dtype_name(dtype), k,
                 dt__op_info(dt__graph_node(before, before->outputs.items[k])->op)->name,
                 (long long)i, a[k].data[i].f, (long long)a[k].data[i].i, b[k].data[i].f,
                 (long long)b[k].data[i].i);
  }
}

// Whether the rule fired on graphs of the dtype.
static bool check_rule(size_t rule, dt_dtype_t dtype) {
  make_t m;
  const dt_graph_t *folded;
  start(&m, dtype);
  rules[rule].make(&m);
  bool any = m.f.graph->outputs.len > 0, admitted = dt__holds_for(rules[rule].dtypes, dtype);
  dt__symenv_freeze(m.f.env);
  watch.id = rules[rule].id;
  watch.fired = 0;
  expect_ok(dt_log_configure("lower.fold:1"));
  dt_log_sink_set(count_rule, NULL);
  expect_ok(dt__pass_fold(&m.f.arena, m.f.graph, &folded));
  dt_log_sink_set(NULL, NULL);
  expect_ok(dt_log_configure(""));
  expect_ok(dt__graph_verify(folded));
  if (any && admitted != (watch.fired > 0))
    fail_msg("%s %s for %s, which its row %s", rules[rule].id,
             watch.fired ? "fired" : "did not fire", dt_dtype_name(dtype),
             admitted ? "admits" : "does not admit");
  if (any)
    compare(rules[rule].id, dtype, m.f.graph, folded, &m.f.arena);
  graph_fixture_fini(&m.f);
  return watch.fired > 0;
}

// A row must not admit a kind of dtypes that its op does not take.
static void test_rules(void **state) {
  (void)state;
  for (size_t rule = 0; rule < N_RULES; rule++) {
    uint32_t fired = 0;
    for (size_t d = 0; d < N_DTYPES; d++)
      if (check_rule(rule, dtypes[d]))
        fired |= 1u << dt__dtype_kind(dtypes[d]);
    if (fired != (uint32_t)rules[rule].dtypes)
      fail_msg("%s fired for the kinds %x; its row says %x", rules[rule].id, fired,
               (uint32_t)rules[rule].dtypes);
  }
}

RUN_TESTS(TEST(test_rules))

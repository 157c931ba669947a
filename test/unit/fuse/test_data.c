// SPDX-License-Identifier: Apache-2.0
// Sizes from data through fusion and the memory plan: after each pass the interpreter gives what
// the evaluator gives, and so does the planned program run segment by segment at its offsets. How
// many segments and kernels there are is checked where it is the point.
#include "ductile/device.h"
#include "fuse/fuse.h"
#include "test/unit/fuse/planned.h"
#include "test/unit/loop/rig.h"

#include <stdio.h>
#include <string.h>

#define MOST (DT_SIZE_LIMIT / 8 - 1) // elements of an i64 tensor

typedef struct make_t {
  rig_t rig;
  dt_sym_t s[2], zero, one;
} make_t;

// ---- Pieces -------------------------------------------------------------------------------------
static dt_node_id_t op1(make_t *m, dt_op_t op, dt_node_id_t x) {
  return add(&m->rig.f, op, 1, &x, NULL);
}

static dt_node_id_t op2(make_t *m, dt_op_t op, dt_node_id_t x, dt_node_id_t y) {
  dt_node_id_t in[2] = {x, y};
  expect_ok(dt__graph_broadcast(m->rig.f.graph, in, 2, NULL));
  return add(&m->rig.f, op, 2, in, NULL);
}

static dt_node_id_t number(make_t *m, dt_dtype_t dtype, int64_t value) {
  dt_attrs_t attrs = {.dtype = dtype, .ints = {value}, .floats = {(double)value}};
  if (dtype == DT_F32)
    attrs.ints[0] = 0;
  else
    attrs.floats[0] = 0;
  return add(&m->rig.f, DT_OP_scalar, 0, NULL, &attrs);
}

static dt_node_id_t cast_to(make_t *m, dt_node_id_t x, dt_dtype_t dtype) {
  return add(&m->rig.f, DT_OP_cast, 1, &x, &(dt_attrs_t){.dtype = dtype});
}

static dt_node_id_t floats(make_t *m, uint32_t rank, bool strided) {
  return rig_input(&m->rig, DT_F32, rank, m->s, strided, FILL_FINITE);
}

static dt_node_id_t positive(make_t *m, dt_node_id_t x) {
  return op2(m, DT_OP_gt, x, number(m, DT_F32, 0));
}

static dt_node_id_t sum_all(make_t *m, dt_node_id_t x, uint32_t rank) {
  return add(&m->rig.f, DT_OP_sum, 1, &x, &(dt_attrs_t){.n_axes = rank, .axes = {0, 1}});
}

static dt_sym_t item(make_t *m, dt_node_id_t x, int64_t lo, int64_t hi) {
  dt_sym_t u = dt__sym_new(m->rig.f.env, DT_SYMBOL_UNBACKED, (dt_range_t){lo, hi}, NULL, "data");
  dt_attrs_t attrs = {.n_syms = 1, .syms = {u}};
  (void)add(&m->rig.f, DT_OP_item, 1, &x, &attrs);
  return u;
}

static dt_sym_t count_true(make_t *m, dt_node_id_t mask, uint32_t rank) {
  return item(m, sum_all(m, cast_to(m, mask, DT_I64), rank), 0, MOST);
}

static dt_node_id_t select_by(make_t *m, dt_node_id_t x, dt_node_id_t mask, dt_sym_t u) {
  dt_node_id_t in[2] = {x, mask};
  dt_attrs_t attrs = {.n_syms = 1, .syms = {u}};
  return add(&m->rig.f, DT_OP_masked_select, 2, in, &attrs);
}

static dt_node_id_t nonzero_of(make_t *m, dt_node_id_t x, dt_sym_t u) {
  dt_attrs_t attrs = {.n_syms = 1, .syms = {u}};
  return add(&m->rig.f, DT_OP_nonzero, 1, &x, &attrs);
}

static dt_node_id_t cumsum(make_t *m, dt_node_id_t x, int32_t axis, uint32_t mode) {
  dt_attrs_t attrs = {.n_axes = 1, .axes = {axis}, .mode = mode};
  return add(&m->rig.f, DT_OP_cumsum, 1, &x, &attrs);
}

static dt_node_id_t ramp(make_t *m, dt_sym_t size) {
  dt_attrs_t attrs = {.dtype = DT_I64, .n_syms = 1, .syms = {size}, .n_axes = 1};
  return add(&m->rig.f, DT_OP_iota, 0, NULL, &attrs);
}

static void result(make_t *m, dt_node_id_t x) { rig_output(&m->rig, x); }

// ---- Programs -------------------------------------------------------------------------------------
static void make_nonzero(make_t *m) {
  dt_node_id_t x = floats(m, 2, true), mask = positive(m, x);
  dt_node_id_t at = nonzero_of(m, mask, count_true(m, mask, 2));
  result(m, at);
  result(m, sum_all(m, op1(m, DT_OP_neg, at), 2));
}

// What is selected is used again; the selection itself is no result.
static void make_select(make_t *m) {
  dt_node_id_t x = floats(m, 2, false), mask = positive(m, x);
  dt_node_id_t y = select_by(m, op1(m, DT_OP_exp, x), mask, count_true(m, mask, 2));
  result(m, sum_all(m, y, 1));
  result(m, op2(m, DT_OP_mul, op1(m, DT_OP_sqrt, y), y));
  result(m, op1(m, DT_OP_tanh, x));
}

// Row i of x as many times as counts[i] says.
static void make_repeat(make_t *m) {
  dt_node_id_t x = floats(m, 2, false);
  dt_node_id_t counts = rig_input(&m->rig, DT_I64, 1, m->s, true, FILL_FINITE);
  counts = op2(m, DT_OP_mod, counts, number(m, DT_I64, 4));
  dt_node_id_t ends = cumsum(m, counts, 0, 0);
  dt_sym_t u = item(m, sum_all(m, counts, 1), 0, MOST);
  dt_node_id_t in[2] = {ends, ramp(m, u)};
  in[1] = add(&m->rig.f, DT_OP_searchsorted, 2, in, &(dt_attrs_t){.mode = DT_SEARCH_INCLUSIVE});
  in[0] = x;
  result(m, op1(m, DT_OP_neg, add(&m->rig.f, DT_OP_gather, 2, in, &(dt_attrs_t){.n_axes = 1})));
}

static void make_full(make_t *m) {
  dt_node_id_t n = rig_input(&m->rig, DT_I64, 0, NULL, false, FILL_FINITE);
  dt_sym_t u = item(m, op2(m, DT_OP_mod, n, number(m, DT_I64, 7)), 0, 6);
  dt_sym_t sizes[2] = {u, m->s[0]};
  dt_node_id_t full;
  expect_ok(dt__graph_full(m->rig.f.graph, DT_F32, 2.5, 2, sizes, NULL, &full));
  result(m, full);
  result(m, op2(m, DT_OP_add, full, floats(m, 1, false)));
}

// The second selection is from what the first one selected.
static void make_chain(make_t *m) {
  dt_node_id_t x = floats(m, 1, false), mask = positive(m, x);
  dt_node_id_t y = select_by(m, x, mask, count_true(m, mask, 1));
  dt_node_id_t more = op2(m, DT_OP_gt, op2(m, DT_OP_mul, y, y), number(m, DT_F32, 1));
  dt_node_id_t z = select_by(m, y, more, count_true(m, more, 1));
  result(m, op2(m, DT_OP_add, z, sum_all(m, y, 1)));
  result(m, nonzero_of(m, more, count_true(m, more, 1)));
}

// Both numbers are there after the first segment.
static void make_two(make_t *m) {
  dt_node_id_t x = floats(m, 2, false), y = op1(m, DT_OP_sin, x);
  dt_node_id_t a = positive(m, x), b = positive(m, y);
  dt_sym_t u = count_true(m, a, 2), v = count_true(m, b, 2);
  result(m, op2(m, DT_OP_mul, select_by(m, x, a, u), number(m, DT_F32, 3)));
  result(m, select_by(m, y, b, v));
}

// Several selections by one mask share their walk.
static void make_many(make_t *m) {
  dt_node_id_t x = floats(m, 2, false), y = floats(m, 2, false), mask = positive(m, x);
  dt_sym_t u = count_true(m, mask, 2);
  result(m, select_by(m, x, mask, u));
  result(m, select_by(m, op1(m, DT_OP_neg, y), mask, u));
  result(m, nonzero_of(m, mask, u));
}

// A search in what a map makes, for a strided argument and for what the same map makes.
static void make_search(make_t *m) {
  dt_node_id_t x = rig_input(&m->rig, DT_I64, 1, m->s, true, FILL_FINITE);
  dt_node_id_t in[2] = {op2(m, DT_OP_mul, ramp(m, m->s[0]), number(m, DT_I64, 3)), x};
  dt_node_id_t found = add(&m->rig.f, DT_OP_searchsorted, 2, in, NULL);
  in[1] = in[0];
  dt_node_id_t own = add(&m->rig.f, DT_OP_searchsorted, 2, in, NULL);
  result(m, op2(m, DT_OP_add, found, op2(m, DT_OP_mul, own, number(m, DT_I64, 10))));
}

static void make_scans(make_t *m) {
  dt_node_id_t x = floats(m, 2, true);
  dt_node_id_t rows = cumsum(m, op1(m, DT_OP_exp, x), 1, 0);
  dt_node_id_t columns = cumsum(m, op1(m, DT_OP_neg, x), 0, DT_SCAN_REVERSE | DT_SCAN_EXCLUSIVE);
  dt_attrs_t axis = {.n_axes = 1, .axes = {1}};
  result(m, op2(m, DT_OP_add, op1(m, DT_OP_tanh, rows), columns));
  result(m, add(&m->rig.f, DT_OP_softmax, 1, &columns, &axis));
}

// A number that only constants decide: it is known when the call begins.
static void make_constant(make_t *m) {
  static const int64_t data[4] = {2, 0, 1, 3};
  dt_graph_constant_t constant = {
      .name = "c", .dtype = DT_I64, .rank = 1, .sizes = {4}, .data = data, .key = 3};
  dt_node_id_t c;
  expect_ok(dt__graph_add_constant(m->rig.f.graph, &constant, NULL, &c));
  dt_sym_t u = item(m, sum_all(m, c, 1), 0, 100);
  result(m, op1(m, DT_OP_neg, ramp(m, u)));
  result(m, cumsum(m, cast_to(m, positive(m, floats(m, 1, false)), DT_I64), 0, 0));
}

// A slice from where data says. Its asserts may fail: then both sides say so.
static void make_slice(make_t *m) {
  dt_symenv_t *env = m->rig.f.env;
  dt_node_id_t x = floats(m, 2, true);
  dt_node_id_t n = rig_input(&m->rig, DT_I32, 0, NULL, false, FILL_FINITE);
  n = op2(m, DT_OP_mod, n, number(m, DT_I32, 8));
  dt_sym_t u = item(m, n, 0, 7), rest = dt__sym_sub(env, m->s[0], u);
  dt_graph_assert_t check = {.cond = dt__sym_le(env, u, m->s[0]), .what = "the slice's start"};
  assert_true(DT_VEC_PUSH(&m->rig.f.arena, &m->rig.f.graph->asserts, check));
  expect_ok(dt__sym_learn(env, check.cond));
  dt_attrs_t part = {.n_syms = 4, .syms = {u, rest, m->zero, m->s[1]}, .ints = {1, 1}};
  dt_node_id_t y = add(&m->rig.f, DT_OP_slice, 1, &x, &part);
  result(m, op1(m, DT_OP_exp, y));
  result(m, sum_all(m, y, 2));
}

// Scores of as many rows as the data says, so that their chain runs in slices in segment 1.
static void make_scores(make_t *m) {
  dt_sym_t heads = dt__sym_const(m->rig.f.env, 3), dim = dt__sym_const(m->rig.f.env, 2);
  dt_node_id_t n = rig_input(&m->rig, DT_I32, 0, NULL, false, FILL_FINITE);
  n = op2(m, DT_OP_mod, n, number(m, DT_I32, 6));
  dt_sym_t rows = item(m, n, 0, 5), sizes[4] = {m->s[0], heads, m->s[1], dim};
  dt_node_id_t x = rig_input(&m->rig, DT_F32, 4, sizes, false, FILL_FINITE);
  dt_sym_t one = m->one;
  dt_node_id_t half = number(m, DT_F32, 1);
  half = add(&m->rig.f, DT_OP_reshape, 1, &half,
             &(dt_attrs_t){.n_syms = 4, .syms = {one, one, one, one}});
  half = add(&m->rig.f, DT_OP_expand, 1, &half,
             &(dt_attrs_t){.n_syms = 4, .syms = {m->s[0], heads, rows, dim}});
  dt_node_id_t turned =
      add(&m->rig.f, DT_OP_permute, 1, &x, &(dt_attrs_t){.n_axes = 4, .axes = {0, 1, 3, 2}});
  dt_node_id_t in[2] = {half, turned};
  dt_node_id_t scores = add(&m->rig.f, DT_OP_matmul, 2, in, NULL);
  dt_node_id_t p =
      add(&m->rig.f, DT_OP_softmax, 1, &scores, &(dt_attrs_t){.n_axes = 1, .axes = {3}});
  dt_node_id_t pair[2] = {p, x};
  result(m, add(&m->rig.f, DT_OP_matmul, 2, pair, NULL));
}

// ---- Sizes that no result has -----------------------------------------------------------------------
static dt_sym_t count_below(make_t *m, dt_node_id_t mask, uint32_t rank, dt_sym_t most) {
  dt_sym_t u = count_true(m, mask, rank);
  expect_ok(dt__sym_learn(m->rig.f.env, dt__sym_le(m->rig.f.env, u, most)));
  return u;
}

static void make_select_sums(make_t *m) {
  dt_node_id_t x = floats(m, 2, false), mask = positive(m, x);
  dt_sym_t all = dt__sym_mul(m->rig.f.env, m->s[0], m->s[1]);
  dt_node_id_t y = select_by(m, op1(m, DT_OP_exp, x), mask, count_below(m, mask, 2, all));
  result(m, sum_all(m, op1(m, DT_OP_sqrt, cumsum(m, y, 0, 0)), 1));
  result(m, op1(m, DT_OP_tanh, x));
}

// The second size is bounded by the first one only.
static void make_chain_sums(make_t *m) {
  dt_node_id_t x = floats(m, 1, false), mask = positive(m, x);
  dt_sym_t u = count_below(m, mask, 1, m->s[0]);
  dt_node_id_t y = select_by(m, x, mask, u);
  dt_node_id_t more = op2(m, DT_OP_gt, op2(m, DT_OP_mul, y, y), number(m, DT_F32, 1));
  dt_node_id_t z = select_by(m, y, more, count_below(m, more, 1, u));
  result(m, op2(m, DT_OP_mul, x, sum_all(m, z, 1)));
  dt_node_id_t above = positive(m, z);
  result(m, sum_all(m, nonzero_of(m, above, count_below(m, above, 1, u)), 2));
}

// As make_slice; what is left has no item's bound, but s0's.
static void make_slice_sums(make_t *m) {
  dt_symenv_t *env = m->rig.f.env;
  dt_node_id_t x = floats(m, 2, true);
  dt_node_id_t n = rig_input(&m->rig, DT_I32, 0, NULL, false, FILL_FINITE);
  n = op2(m, DT_OP_mod, n, number(m, DT_I32, 8));
  dt_sym_t u = item(m, n, 0, 7), rest = dt__sym_sub(env, m->s[0], u);
  dt_graph_assert_t check = {.cond = dt__sym_le(env, u, m->s[0]), .what = "the slice's start"};
  assert_true(DT_VEC_PUSH(&m->rig.f.arena, &m->rig.f.graph->asserts, check));
  expect_ok(dt__sym_learn(env, check.cond));
  dt_attrs_t part = {.n_syms = 4, .syms = {u, rest, m->zero, m->s[1]}, .ints = {1, 1}};
  dt_node_id_t y = add(&m->rig.f, DT_OP_slice, 1, &x, &part);
  result(m, sum_all(m, cumsum(m, y, 0, 0), 2));
}

// ---- Checks that are made again elsewhere -----------------------------------------------------------
// Rows of a table of five, by indices of which some are outside when `limit` is above that.
static dt_node_id_t rows_of(make_t *m, dt_sym_t width, int64_t limit) {
  const dt_sym_t sizes[2] = {literal(&m->rig.f, 5), width};
  dt_node_id_t in[2] = {rig_input(&m->rig, DT_F32, 2, sizes, true, FILL_FINITE)};
  in[1] = rig_input(&m->rig, DT_I64, 1, m->s, true, FILL_INDEX);
  m->rig.inputs[m->rig.f.graph->inputs.len - 1].limit = literal(&m->rig.f, limit);
  return add(&m->rig.f, DT_OP_gather, 2, in, &(dt_attrs_t){.n_axes = 1});
}

static dt_node_id_t softmax_of(make_t *m, dt_node_id_t x) {
  return add(&m->rig.f, DT_OP_softmax, 1, &x, &(dt_attrs_t){.n_axes = 1, .axes = {1}});
}

static void embed(make_t *m, dt_sym_t width, int64_t limit) {
  dt_node_id_t x = rows_of(m, width, limit);
  result(m, softmax_of(m, op2(m, DT_OP_add, x,
                              rig_input(&m->rig, DT_F32, 1, &width, false, FILL_FINITE))));
}

static void make_embed(make_t *m) { embed(m, literal(&m->rig.f, 8), 5); }

static void make_embed_fails(make_t *m) { embed(m, literal(&m->rig.f, 8), 6); }

// A width of 0 checks nothing.
static void make_embed_width(make_t *m) { embed(m, m->s[1], 6); }

static void make_embed_two(make_t *m) {
  dt_sym_t width = literal(&m->rig.f, 8);
  dt_node_id_t x = rows_of(m, width, 6), y = rows_of(m, width, 7);
  result(m, softmax_of(m, op2(m, DT_OP_add, x, y)));
}

// Only a part of what is gathered is used, but all of it is checked: once a row.
static void make_embed_part(make_t *m) {
  dt_symenv_t *env = m->rig.f.env;
  dt_sym_t half = dt__sym_floordiv(env, m->s[0], literal(&m->rig.f, 2));
  dt_attrs_t attrs = {.n_syms = 4, .ints = {1, 1}};
  const dt_sym_t syms[4] = {m->zero, half, m->zero, literal(&m->rig.f, 8)};
  memcpy(attrs.syms, syms, sizeof(syms));
  dt_node_id_t x = rows_of(m, syms[3], 6);
  result(m, softmax_of(m, op1(m, DT_OP_neg, add(&m->rig.f, DT_OP_slice, 1, &x, &attrs))));
}

static const struct {
  const char *name;
  void (*make)(make_t *);
  uint32_t segments, kernels; // 0: any number of kernels
} programs[] = {
    {"embed", make_embed, 0, 1},
    {"embed, out of range", make_embed_fails, 0, 1},
    {"width", make_embed_width, 0, 1},
    {"embed two", make_embed_two, 0, 1},
    {"embed part", make_embed_part, 0, 2},
    {"nonzero", make_nonzero, 2, 0},
    {"select", make_select, 2, 0},
    {"repeat", make_repeat, 2, 0},
    {"full", make_full, 2, 0},
    {"chain", make_chain, 3, 0},
    {"two", make_two, 2, 0},
    {"scans", make_scans, 0, 0},
    {"slice", make_slice, 2, 0},
    {"constant", make_constant, 1, 0},
    {"many", make_many, 2, 8},
    {"search", make_search, 0, 2},
    {"scores", make_scores, 2, 0},
};

static const struct {
  const char *name;
  void (*make)(make_t *);
} device_programs[] = {
    {"select sums", make_select_sums},
    {"chain sums", make_chain_sums},
    {"slice sums", make_slice_sums},
};

// ---- Running --------------------------------------------------------------------------------------
typedef dt_status_t (*fuse_fn_t)(dt_program_t *, const dt_target_t *);
static const struct {
  const char *name;
  fuse_fn_t fn;
} passes[] = {
    {"operands", dt__fuse_operands}, {"split", dt__fuse_split},       {"inline", dt__fuse_inline},
    {"stages", dt__fuse_stages},     {"prune", dt__fuse_prune},       {"proven", dt__fuse_proven},
    {"slices", dt__fuse_slices},     {"schedule", dt__fuse_schedule}, {"foreach", dt__fuse_foreach},
    {"plan", dt__fuse_plan},
};
#define N_PASSES (sizeof(passes) / sizeof(passes[0]))

static const dt_target_t target = {.vector_bytes = 64,
                                   .vector_registers = 32,
                                   .masked_memory = true,
                                   .fma = true,
                                   .dot_products = 1,
                                   .threads = 2,
                                   .l1_bytes = 32768,
                                   .l2_bytes = 100,
                                   .matmul_rows = {6, 6},
                                   .matmul_width = {16, 8}};

static const dt_target_t gpu = {.device = DT_CUDA,
                                .cpu = "sm_90",
                                .vector_bytes = 16,
                                .vector_registers = 32,
                                .threads = 2,
                                .l1_bytes = 32768,
                                .l2_bytes = 100,
                                .queued = true,
                                .own_memory = true,
                                .entries = true,
                                .block_threads = 256,
                                .warp = 32,
                                .half_sums = 64,
                                .map_blocks = 128,
                                .busy_parts = 1 << 20,
                                .tile_bytes = 48 << 10,
                                .slab_unit = 256,
                                .slab_pad = 16,
                                .bundle_words = 192};

static const int64_t shapes[][2] = {{0, 0}, {0, 3}, {3, 0},  {1, 1},   {1, 5},
                                    {2, 1}, {4, 3}, {7, 11}, {1500, 1}};

static void make_init(make_t *m, uint64_t seed) {
  rig_init(&m->rig, seed);
  m->s[0] = size_symbol(&m->rig.f, NO_HINT);
  m->s[1] = size_symbol(&m->rig.f, NO_HINT);
  m->zero = literal(&m->rig.f, 0);
  m->one = literal(&m->rig.f, 1);
}

static void compare_all(make_t *m, const dt_program_t *program, const char *name,
                        const char *after) {
  int64_t symbols[64] = {0};
  char what[96];
  assert_true(dt__symenv_symbol_count(m->rig.f.env) <= 64);
  for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
    symbols[0] = shapes[k][0];
    symbols[1] = shapes[k][1];
    (void)snprintf(what, sizeof(what), "%s after %s, [%d, %d]", name, after, (int)symbols[0],
                   (int)symbols[1]);
    rig_compare(&m->rig, program, symbols, what);
  }
}

static void show_and_fail(const dt_program_t *program, const char *what, dt_status_t status) {
  dt_text_t text;
  dt__text_init(&text);
  dt__program_print(program, &text);
  fprintf(stderr, "%s: %s\n%s\n", what, dt_status_message(status), dt__text_str(&text));
  dt__text_fini(&text);
  dt_status_free(status);
  fail();
}

static void check_program(const char *name, void (*make)(make_t *), const dt_target_t *on,
                          uint32_t segments, uint32_t kernels) {
  make_t m;
  make_init(&m, 7);
  make(&m);
  dt_symenv_t *env;
  dt_program_t *program = rig_lower_passed(&m.rig, &env);
  compare_all(&m, program, name, "lower");
  for (size_t k = 0; k < N_PASSES; k++) {
    dt_status_t status = passes[k].fn(program, on);
    if (!status)
      status = dt__program_verify(program);
    if (status)
      show_and_fail(program, passes[k].name, status);
    compare_all(&m, program, name, passes[k].name);
  }
  if (program->segments.len != segments || (kernels && program->kernels.len != kernels) ||
      program->device_sized != (on == &gpu))
    show_and_fail(program, name, NULL);
  m.rig.run = run_planned;
  compare_all(&m, program, name, "plan, as planned");
  rig_worth(&m.rig);
  dt__symenv_destroy(env);
  rig_fini(&m.rig);
}

// ---- Updates ----------------------------------------------------------------------------------------
// x becomes y backwards and y becomes x + y, both of what they held; a view and a sum of the old x
// are results.
static void check_updates(const dt_program_t *program, rig_run_t run, int64_t n) {
  float x[16], y[16], new_x[16], new_y[16], old_x[16], view[16], sum = 0, want = 0;
  for (int64_t k = 0; k < n; k++) {
    x[k] = old_x[k] = (float)(k + 1);
    y[k] = (float)(10 * k);
    want += x[k];
  }
  for (int64_t k = 0; k < n; k++) {
    new_x[k] = y[n - 1 - k];
    new_y[k] = x[k] + y[k];
  }
  void *in[2] = {x, y}, *out[2] = {view, &sum};
  int64_t symbols[64] = {n};
  expect_ok(run(program, symbols, in, out));
  assert_memory_equal(x, new_x, (size_t)n * sizeof(float));
  assert_memory_equal(y, new_y, (size_t)n * sizeof(float));
  assert_memory_equal(view, old_x, (size_t)n * sizeof(float));
  assert_true(sum == want);
}

static void test_updates(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 2, 5, 16};
  make_t m;
  make_init(&m, 3);
  dt_node_id_t x = floats(&m, 1, false), y = floats(&m, 1, false);
  dt_attrs_t row = {.n_syms = 2, .syms = {m.one, m.s[0]}};
  dt_attrs_t back = {
      .n_syms = 2, .syms = {dt__sym_sub(m.rig.f.env, m.s[0], m.one), m.s[0]}, .ints = {-1}};
  result(&m, add(&m.rig.f, DT_OP_reshape, 1, &x, &row));
  result(&m, sum_all(&m, x, 1));
  dt_graph_update_t updates[2] = {{0, add(&m.rig.f, DT_OP_slice, 1, &y, &back)},
                                  {1, op2(&m, DT_OP_add, x, y)}};
  for (int k = 0; k < 2; k++)
    assert_true(DT_VEC_PUSH(&m.rig.f.arena, &m.rig.f.graph->updates, updates[k]));
  dt_symenv_t *env;
  dt_program_t *program = rig_lower_passed(&m.rig, &env);
  for (size_t k = 0; k <= N_PASSES; k++) {
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
      check_updates(program, dt__program_interpret, sizes[i]);
      if (k == N_PASSES)
        check_updates(program, run_planned, sizes[i]);
    }
    if (k == N_PASSES)
      break;
    expect_ok(passes[k].fn(program, &target));
    expect_ok(dt__program_verify(program));
  }
  dt__symenv_destroy(env);
  rig_fini(&m.rig);
}

static void test_data_keeps_meaning(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof(programs) / sizeof(programs[0]); k++) {
    printf("%s\n", programs[k].name);
    check_program(programs[k].name, programs[k].make, &target, programs[k].segments,
                  programs[k].kernels);
  }
}

static void test_device_sizes_keep_meaning(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof(device_programs) / sizeof(device_programs[0]); k++) {
    printf("%s\n", device_programs[k].name);
    check_program(device_programs[k].name, device_programs[k].make, &gpu, 0, 0);
  }
}

RUN_TESTS(TEST(test_data_keeps_meaning), TEST(test_device_sizes_keep_meaning), TEST(test_updates))

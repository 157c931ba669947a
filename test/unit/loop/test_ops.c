// SPDX-License-Identifier: Apache-2.0
// Every op of ops.def through lowering (composites through their decomposition) and the
// interpreter, against the evaluator: all dtypes that it takes, sizes 0, 1, 2, 3 and 7, contiguous
// and strided.
#include "lower/graph/external.h"
#include "runtime/base/dtype.h"
#include "test/unit/loop/rig.h"

#include <stdio.h>
#include <string.h>

static const int64_t sizes[] = {0, 1, 2, 3, 7};
#define N_SIZES 5
#define N_SYMBOLS 3 // s0, s1, s2 of each case

typedef struct case_t {
  rig_t rig;
  dt_dtype_t dtype;
  bool strided;
  uint32_t form; // which variant of the op
  dt_sym_t s[N_SYMBOLS], one, two, zero;
} case_t;

static dt_node_id_t in2(case_t *c, dt_dtype_t dtype, fill_t fill, dt_sym_t a, dt_sym_t b) {
  dt_sym_t shape[2] = {a, b};
  return rig_input(&c->rig, dtype, 2, shape, c->strided, fill);
}

static dt_node_id_t in3(case_t *c, dt_sym_t a, dt_sym_t b, dt_sym_t d) {
  dt_sym_t shape[3] = {a, b, d};
  return rig_input(&c->rig, c->dtype, 3, shape, c->strided, FILL_SPECIALS);
}

// Adds the op and makes it the result; false when it does not take the dtype.
static bool finish(case_t *c, dt_op_t op, uint32_t n, const dt_node_id_t *in,
                   const dt_attrs_t *attrs) {
  dt_node_id_t id;
  dt_status_t status = dt__graph_add(c->rig.f.graph, op, in, n, attrs, NULL, &id);
  if (status && dt_status_code(status) == DT_E_DTYPE) {
    dt_status_free(status);
    return false;
  }
  expect_ok(status);
  rig_output(&c->rig, id);
  return true;
}

// ---- Builders: by the op's shape rule; `forms` counts their variants ------------------------------------
typedef bool (*build_fn_t)(case_t *c, dt_op_t op);

static bool build_leaf(case_t *c, dt_op_t op) {
  dt_attrs_t attrs = {.dtype = c->dtype, .n_syms = 2, .n_axes = 1, .axes = {(int32_t)c->form}};
  if (op == DT_OP_input) {
    dt_node_id_t x = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]);
    rig_output(&c->rig, x);
    rig_output(&c->rig, x); // two results of one value
    return true;
  }
  if (op == DT_OP_constant) {
    static const double data[8] = {1.5, -2, 0, 3};
    dt_graph_constant_t constant = {
        .name = "c", .dtype = c->dtype, .rank = 1, .sizes = {8}, .data = data, .key = 7};
    if (c->dtype == DT_BOOL)
      return false; // the bytes above are no bools
    dt_node_id_t id;
    expect_ok(dt__graph_add_constant(c->rig.f.graph, &constant, NULL, &id));
    rig_output(&c->rig, id);
    return true;
  }
  attrs.syms[0] = op == DT_OP_size ? dt__sym_mul(c->rig.f.env, c->s[0], c->s[1]) : c->s[0];
  attrs.syms[1] = c->s[1];
  attrs.floats[0] = 0.1;
  attrs.ints[0] = 1;
  if (op == DT_OP_size)
    attrs.n_syms = 1;
  return finish(c, op, 0, NULL, &attrs);
}

static fill_t fill_of(dt_op_t op) {
  return op == DT_OP_log || op == DT_OP_log2 || op == DT_OP_sqrt || op == DT_OP_rsqrt ||
                 op == DT_OP_pow
             ? FILL_POSITIVE
             : FILL_SPECIALS;
}

static bool build_same(case_t *c, dt_op_t op) {
  dt_node_id_t in[3];
  uint32_t n = (uint32_t)dt__op_info(op)->arity;
  for (uint32_t k = 0; k < n; k++)
    in[k] = in2(c, op == DT_OP_where && k == 0 ? DT_BOOL : c->dtype, fill_of(op), c->s[0],
                c->form ? c->one : c->s[1]);
  return finish(c, op, n, in, NULL);
}

static bool build_cast(case_t *c, dt_op_t op) {
  static const dt_dtype_t to[] = {DT_BOOL, DT_I8,  DT_I16, DT_I32,  DT_I64, DT_U8, DT_U16,
                                  DT_U32,  DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64};
  dt_node_id_t x = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]);
  dt_attrs_t attrs = {.dtype = to[c->form]};
  return finish(c, op, 1, &x, &attrs);
}

// To each dtype of the same width; `to` is an unsigned, a signed and a float one of each.
static bool build_bitcast(case_t *c, dt_op_t op) {
  static const dt_dtype_t to[] = {DT_I8,  DT_U8,  DT_I16, DT_U16, DT_F16, DT_BF16,
                                  DT_I32, DT_U32, DT_F32, DT_I64, DT_U64, DT_F64};
  if (c->dtype == DT_BOOL || dt_dtype_size(c->dtype) != dt_dtype_size(to[c->form]))
    return false;
  dt_node_id_t x = in2(c, c->dtype, FILL_FINITE, c->s[0], c->s[1]);
  dt_attrs_t attrs = {.dtype = to[c->form]};
  return finish(c, op, 1, &x, &attrs);
}

static bool build_view(case_t *c, dt_op_t op) {
  dt_symenv_t *env = c->rig.f.env;
  dt_attrs_t attrs = {0};
  dt_node_id_t x;
  if (op == DT_OP_reshape) {
    dt_sym_t product = dt__sym_mul(env, c->s[0], c->s[1]);
    x = in3(c, c->s[0], c->s[1], c->s[2]);
    const dt_sym_t shapes[4][4] = {{product, c->s[2]},
                                   {c->s[0], c->one, dt__sym_mul(env, c->s[1], c->s[2])},
                                   {c->s[2], c->s[0], c->s[1]},
                                   {c->s[1], c->one, c->s[0], c->s[2]}};
    static const uint32_t ranks[4] = {2, 3, 3, 4};
    attrs.n_syms = ranks[c->form];
    memcpy(attrs.syms, shapes[c->form], sizeof(shapes[0]));
  } else if (op == DT_OP_permute) {
    static const int32_t orders[4][3] = {{1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {2, 1, 0}};
    x = in3(c, c->s[0], c->s[1], c->s[2]);
    attrs.n_axes = 3;
    memcpy(attrs.axes, orders[c->form], sizeof(orders[0]));
  } else if (op == DT_OP_expand) {
    bool both = c->form & 1;
    x = in3(c, c->one, c->s[1], both ? c->one : c->s[2]);
    attrs.n_syms = 3;
    memcpy(attrs.syms, c->s, sizeof(c->s));
  } else {
    // Backwards; every second; all but the first; nothing.
    x = in2(c, c->dtype, FILL_SPECIALS, dt__sym_add(env, c->s[0], c->two), c->s[1]);
    const dt_sym_t starts[4] = {dt__sym_add(env, c->s[0], c->one), c->zero, c->one, c->zero};
    const dt_sym_t counts[4] = {
        dt__sym_add(env, c->s[0], c->two),
        dt__sym_floordiv(env, dt__sym_add(env, c->s[0], dt__sym_const(env, 3)), c->two),
        dt__sym_add(env, c->s[0], c->one), c->zero};
    static const int64_t steps[4] = {-1, 2, 1, 5};
    attrs.n_syms = 4;
    attrs.syms[0] = starts[c->form];
    attrs.syms[1] = counts[c->form];
    attrs.ints[0] = steps[c->form];
    attrs.syms[2] = c->zero;
    attrs.syms[3] = c->s[1];
    attrs.ints[1] = 1;
  }
  return finish(c, op, 1, &x, &attrs);
}

static bool build_pad(case_t *c, dt_op_t op) {
  dt_node_id_t x = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]);
  dt_attrs_t attrs = {
      .n_syms = 4,
      .syms = {c->form == 0 ? c->two : c->zero, c->s[1], c->zero, c->form < 2 ? c->one : c->zero},
      .floats = {-0.5},
      .ints = {c->dtype == DT_BOOL ? 1 : 5}};
  if (c->form == 2)
    attrs.syms[1] = c->zero;
  return finish(c, op, 1, &x, &attrs);
}

static bool build_concat(case_t *c, dt_op_t op) {
  dt_node_id_t in[3] = {
      in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]),
      in2(c, c->dtype, FILL_SPECIALS, c->form ? c->s[0] : c->s[2], c->form ? c->s[2] : c->s[1]),
      in2(c, c->dtype, FILL_SPECIALS, c->form ? c->s[0] : c->one, c->form ? c->two : c->s[1])};
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)c->form}};
  return finish(c, op, 3, in, &attrs);
}

static bool build_gather(case_t *c, dt_op_t op) {
  uint32_t axis = c->form & 1;
  dt_node_id_t in[2] = {in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1])};
  c->rig.inputs[1].limit = c->s[axis];
  in[1] = in2(c, c->form < 2 ? DT_I64 : DT_I32, FILL_INDEX, c->s[2], c->two);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)axis}};
  return finish(c, op, 2, in, &attrs);
}

// Indices of x at each place, and updates for a scatter: both modes of each, that are tried by
// form.
static bool build_elements(case_t *c, dt_op_t op) {
  uint32_t axis = c->form & 1;
  dt_sym_t shape[2] = {axis ? c->s[0] : c->s[2], axis ? c->s[2] : c->s[1]};
  dt_node_id_t in[3] = {in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1])};
  c->rig.inputs[1].limit = c->s[axis];
  in[1] = in2(c, c->form % 4 < 2 ? DT_I64 : DT_I32, FILL_INDEX, shape[0], shape[1]);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)axis}, .mode = c->form / 2};
  if (op == DT_OP_gather_elements)
    return finish(c, op, 2, in, &attrs);
  in[2] = in2(c, c->dtype, FILL_SPECIALS, shape[0], shape[1]);
  return finish(c, op, 3, in, &attrs);
}

// Tuples of one index and of two.
static bool build_tuples(case_t *c, dt_op_t op) {
  bool both = c->form & 1, batch = op == DT_OP_gather_nd && c->form == 2;
  dt_sym_t shape[3] = {batch ? c->s[0] : c->s[2], both ? c->two : batch ? c->s[2] : c->one, c->one};
  dt_node_id_t in[3] = {in2(c, c->dtype, FILL_SPECIALS, c->s[0], both ? c->s[0] : c->s[1])};
  c->rig.inputs[1].limit = c->s[batch];
  in[1] = rig_input(&c->rig, c->form % 4 < 3 ? DT_I64 : DT_I32, 2 + batch, shape, c->strided,
                    FILL_INDEX);
  if (op == DT_OP_gather_nd)
    return finish(c, op, 2, in, &(dt_attrs_t){.n_axes = batch});
  shape[1] = c->s[1];
  in[2] = rig_input(&c->rig, c->dtype, 2 - both, shape, c->strided, FILL_SPECIALS);
  return finish(c, op, 3, in, &(dt_attrs_t){.mode = c->form / 2});
}

static bool build_reduce(case_t *c, dt_op_t op) {
  static const struct {
    uint32_t n;
    int32_t axes[3];
  } reduced[4] = {{1, {0}}, {1, {2}}, {2, {0, 2}}, {3, {0, 1, 2}}};
  bool single = op == DT_OP_argmax || op == DT_OP_argmin;
  uint32_t which = c->form / 2;
  if (single && reduced[which].n > 1)
    return false;
  dt_sym_t last = which == 2 ? c->one : c->s[2];
  dt_node_id_t x = in3(c, c->s[0], c->s[1], last);
  dt_attrs_t attrs = {.n_axes = reduced[which].n, .keepdims = c->form & 1};
  memcpy(attrs.axes, reduced[which].axes, sizeof(attrs.axes[0]) * 3);
  for (uint32_t k = attrs.n_axes; k < 3; k++)
    attrs.axes[k] = 0;
  return finish(c, op, 1, &x, &attrs);
}

static bool build_axis(case_t *c, dt_op_t op) {
  dt_node_id_t x = in3(c, c->s[0], c->s[1], c->s[2]);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)c->form}};
  return finish(c, op, 1, &x, &attrs);
}

static bool build_norm(case_t *c, dt_op_t op) {
  uint32_t n = 1 + c->form;
  dt_node_id_t in[3] = {in3(c, c->s[0], c->s[1], c->s[2])};
  for (uint32_t k = 1; k < 3; k++)
    in[k] = rig_input(&c->rig, c->dtype, n, c->s + 3 - n, c->strided, FILL_FINITE);
  dt_attrs_t attrs = {.n_axes = n, .floats = {1e-5}};
  return finish(c, op, (uint32_t)dt__op_info(op)->arity, in, &attrs);
}

static bool build_matmul(case_t *c, dt_op_t op) {
  dt_node_id_t in[2];
  if (c->form < 2) {
    in[0] = in2(c, c->dtype, FILL_FINITE, c->form ? c->one : c->s[0], c->s[1]);
    in[1] = in2(c, c->dtype, FILL_FINITE, c->s[1], c->form ? c->one : c->s[2]);
  } else {
    in[0] = in3(c, c->two, c->s[0], c->s[1]);
    in[1] = c->form == 2 ? in3(c, c->two, c->s[1], c->s[2])
                         : in2(c, c->dtype, FILL_SPECIALS, c->s[1], c->s[2]);
  }
  return finish(c, op, 2, in, NULL);
}

// ---- Sizes from data --------------------------------------------------------------------------------------
static dt_sym_t unbacked(case_t *c, int64_t lo, int64_t hi) {
  return dt__sym_new(c->rig.f.env, DT_SYMBOL_UNBACKED, (dt_range_t){lo, hi}, NULL, "data");
}

static dt_node_id_t cast_to(case_t *c, dt_node_id_t x, dt_dtype_t dtype) {
  return add(&c->rig.f, DT_OP_cast, 1, &x, &(dt_attrs_t){.dtype = dtype});
}

static dt_node_id_t add_item(case_t *c, dt_node_id_t x, dt_sym_t u) {
  return add(&c->rig.f, DT_OP_item, 1, &x, &(dt_attrs_t){.n_syms = 1, .syms = {u}});
}

// How many elements of the bool `mask` (rank 2) are true, as a symbol.
static dt_sym_t count_true(case_t *c, dt_node_id_t mask) {
  dt_sym_t u = unbacked(c, 0, DT_SIZE_LIMIT - 1);
  dt_node_id_t ones = cast_to(c, mask, DT_I64);
  (void)add_item(c, add(&c->rig.f, DT_OP_sum, 1, &ones, &(dt_attrs_t){.n_axes = 2, .axes = {0, 1}}),
                 u);
  return u;
}

// The number itself; or a result whose sizes it gives.
static bool build_item(case_t *c, dt_op_t op) {
  dt_node_id_t x = rig_input(&c->rig, c->dtype, 0, NULL, false, FILL_FINITE);
  dt_attrs_t attrs = {.n_syms = 1, .syms = {unbacked(c, INT64_MIN, INT64_MAX)}};
  if (c->form == 0)
    return finish(c, op, 1, &x, &attrs);
  if (dt__dtype_is_float(c->dtype))
    return false;
  dt_node_id_t five =
      add(&c->rig.f, DT_OP_scalar, 0, NULL, &(dt_attrs_t){.dtype = DT_I64, .ints = {5}});
  dt_node_id_t size =
      add(&c->rig.f, DT_OP_mod, 2, (dt_node_id_t[]){cast_to(c, x, DT_I64), five}, NULL);
  attrs.syms[0] = unbacked(c, 0, 4);
  rig_output(&c->rig, add(&c->rig.f, op, 1, &size, &attrs));
  dt_attrs_t shape = {.dtype = DT_I64, .n_syms = 2, .syms = {attrs.syms[0], c->s[1]}, .n_axes = 1};
  dt_node_id_t ramp = add(&c->rig.f, DT_OP_iota, 0, NULL, &shape);
  rig_output(&c->rig, ramp);
  return finish(c, DT_OP_sum, 1, &ramp, &(dt_attrs_t){.n_axes = 1});
}

static bool build_scan(case_t *c, dt_op_t op) {
  dt_node_id_t x = in3(c, c->s[0], c->s[1], c->form % 3 == 1 ? c->one : c->s[2]);
  dt_attrs_t attrs = {.n_axes = 1, .axes = {(int32_t)c->form % 3}, .mode = c->form / 3};
  return finish(c, op, 1, &x, &attrs);
}

static bool build_search(case_t *c, dt_op_t op) {
  if (c->dtype == DT_BOOL)
    return false;
  dt_sym_t size = c->form & 2 ? c->one : c->s[2];
  dt_node_id_t in[2] = {rig_input(&c->rig, c->dtype, 1, &size, c->strided, FILL_ASCENDING)};
  if (c->form & 4) { // all but the first: a view, which is made a buffer
    if (c->form & 2)
      return false;
    dt_attrs_t part = {.n_syms = 2,
                       .syms = {c->one, dt__sym_max(c->rig.f.env, c->zero,
                                                    dt__sym_sub(c->rig.f.env, size, c->one))},
                       .ints = {1}};
    dt_status_t status = dt__graph_add(c->rig.f.graph, DT_OP_slice, in, 1, &part, NULL, &in[0]);
    bool refused = status != NULL; // an empty one has no such view
    dt_status_free(status);
    if (refused)
      return false;
  }
  in[1] = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]);
  return finish(c, op, 2, in, &(dt_attrs_t){.mode = c->form & 1});
}

static dt_node_id_t truth_input(case_t *c) {
  return in2(c, DT_BOOL, FILL_FINITE, c->s[0], c->form & 1 ? c->one : c->s[1]);
}

static bool build_compress(case_t *c, dt_op_t op) {
  dt_symenv_t *env = c->rig.f.env;
  dt_sym_t shape[2] = {c->s[0], c->form & 1 ? c->one : c->s[1]};
  dt_sym_t count = dt__sym_mul(env, shape[0], shape[1]);
  dt_node_id_t mask = truth_input(c);
  dt_attrs_t attrs = {.n_syms = 1, .syms = {count_true(c, mask)}};
  dt_attrs_t flat = {.n_syms = 1, .syms = {count}}, whole = {.n_syms = 2};
  memcpy(whole.syms, shape, sizeof(shape));
  dt_node_id_t places = cast_to(c, mask, DT_I64);
  places = add(&c->rig.f, DT_OP_reshape, 1, &places, &flat);
  places = add(&c->rig.f, DT_OP_cumsum, 1, &places,
               &(dt_attrs_t){.n_axes = 1, .mode = DT_SCAN_EXCLUSIVE});
  places = add(&c->rig.f, DT_OP_reshape, 1, &places, &whole);
  uint32_t columns = 1 + c->form / 2;
  dt_node_id_t in[4] = {mask, places};
  for (uint32_t k = 0; k < columns; k++)
    in[2 + k] = in2(c, c->dtype, FILL_SPECIALS, shape[0], shape[1]);
  return finish(c, op, 2 + columns, in, &attrs);
}

static bool build_nonzero(case_t *c, dt_op_t op) {
  dt_node_id_t x = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->form & 1 ? c->one : c->s[1]);
  dt_node_id_t truth = c->dtype == DT_BOOL ? x : cast_to(c, x, DT_BOOL);
  return finish(c, op, 1, &x, &(dt_attrs_t){.n_syms = 1, .syms = {count_true(c, truth)}});
}

static bool build_select(case_t *c, dt_op_t op) {
  dt_node_id_t in[2] = {in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->form & 1 ? c->one : c->s[1]),
                        truth_input(c)};
  return finish(c, op, 2, in, &(dt_attrs_t){.n_syms = 1, .syms = {count_true(c, in[1])}});
}

// The builder of each op: by its shape rule, where it has no own.
typedef struct builder_t {
  build_fn_t fn;
  uint32_t forms;
} builder_t;

// ---- Control ----------------------------------------------------------------------------------------------
// A body of a counter and x: one more and -x, or whether the counter is less than `limit`.
static const dt_graph_t *body_of(case_t *c, int64_t limit) {
  dt_graph_t *body = dt__graph_create(&c->rig.f.arena, c->rig.f.env);
  dt_graph_input_t count = {.name = "", .dtype = DT_I64, .contiguous = true};
  dt_graph_input_t x = {.name = "",
                        .dtype = c->dtype,
                        .rank = 2,
                        .sizes = {c->s[0], c->s[1]},
                        .strides = {c->s[1], c->one},
                        .contiguous = true};
  dt_node_id_t in[2], two[2], made;
  expect_ok(dt__graph_add_input(body, &count, &in[0]));
  expect_ok(dt__graph_add_input(body, &x, &in[1]));
  dt_attrs_t attrs = {.dtype = DT_I64, .ints = {limit ? limit : 1}};
  two[0] = in[0];
  expect_ok(dt__graph_add(body, DT_OP_scalar, NULL, 0, &attrs, NULL, &two[1]));
  expect_ok(dt__graph_add(body, limit ? DT_OP_lt : DT_OP_add, two, 2, NULL, NULL, &made));
  expect_ok(dt__graph_add_output(body, made));
  if (limit)
    return body;
  if (c->dtype == DT_BOOL)
    expect_ok(dt__graph_add(body, DT_OP_logical_not, &in[1], 1, NULL, NULL, &made));
  else if (c->dtype == DT_U8)
    made = in[1];
  else
    expect_ok(dt__graph_add(body, DT_OP_neg, &in[1], 1, NULL, NULL, &made));
  expect_ok(dt__graph_add_output(body, made));
  return body;
}

// Forms: the branch that adds, and the other way round; no trip, and three.
static bool build_control(case_t *c, dt_op_t op) {
  bool loop = op == DT_OP_while, cases = op == DT_OP_switch, call = op == DT_OP_call;
  dt_attrs_t attrs = {.dtype = DT_I64};
  dt_node_id_t in[3], id;
  in[1] = add(&c->rig.f, DT_OP_scalar, 0, NULL, &attrs);
  in[2] = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]);
  dt_node_id_t equal[2] = {in[2], in[2]};
  id = add(&c->rig.f, c->form ? DT_OP_eq : DT_OP_ne, 2, equal, NULL);
  in[0] = add(&c->rig.f, DT_OP_any, 1, &id, &(dt_attrs_t){.n_axes = 2, .axes = {0, 1}});
  if (cases)
    in[0] = add(&c->rig.f, DT_OP_cast, 1, in, &(dt_attrs_t){.dtype = DT_U8});
  const dt_graph_t *step = body_of(c, 0);
  dt_graph_control_t control = {.bodies = {loop ? body_of(c, c->form ? 3 : -1) : step}};
  control.bodies[1] = call ? NULL : step;
  control.bodies[2] = cases ? step : NULL;
  uint32_t first = loop || call; // of these there is no predicate
  expect_ok(dt__graph_add_control(c->rig.f.graph, op == DT_OP_result ? DT_OP_cond : op, &control,
                                  in + first, 3 - first, NULL, NULL, &id));
  for (uint32_t k = 0; k < 2; k++) {
    attrs = (dt_attrs_t){.index = k};
    rig_output(&c->rig, add(&c->rig.f, DT_OP_result, 1, &id, &attrs));
  }
  return true;
}

// (p, x) and (q, y) become (p or q, q differs from what is captured ? y : both joined). Forms: the
// axis; both results, or the second alone.
static const dt_graph_t *combine_of(case_t *c) {
  dt_graph_t *body = dt__graph_create(&c->rig.f.arena, c->rig.f.env);
  const dt_dtype_t dtypes[5] = {DT_BOOL, c->dtype, DT_BOOL, c->dtype, DT_BOOL};
  dt_node_id_t in[5], made, flags;
  assert_non_null(body);
  for (uint32_t k = 0; k < 5; k++) {
    dt_graph_input_t input = {.name = "", .dtype = dtypes[k], .contiguous = true};
    expect_ok(dt__graph_add_input(body, &input, &in[k]));
  }
  dt_node_id_t both[2] = {in[0], in[2]}, values[2] = {in[1], in[3]};
  expect_ok(dt__graph_add(body, DT_OP_logical_or, both, 2, NULL, NULL, &flags));
  both[0] = in[2];
  both[1] = in[4];
  expect_ok(dt__graph_add(body, DT_OP_logical_xor, both, 2, NULL, NULL, &made));
  expect_ok(dt__graph_add(body, c->dtype == DT_BOOL ? DT_OP_logical_xor : DT_OP_add, values, 2,
                          NULL, NULL, &values[0]));
  dt_node_id_t chosen[3] = {made, in[3], values[0]};
  expect_ok(dt__graph_add(body, DT_OP_where, chosen, 3, NULL, NULL, &made));
  expect_ok(dt__graph_add_output(body, flags));
  expect_ok(dt__graph_add_output(body, made));
  return body;
}

static bool build_associative(case_t *c, dt_op_t op) {
  dt_graph_control_t control = {.bodies = {NULL}};
  dt_node_id_t in[3], id;
  if (dt__dtype_is_half(c->dtype))
    return false; // joined in f32
  in[0] = in2(c, DT_BOOL, FILL_SPECIALS, c->s[0], c->s[1]);
  in[1] = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]);
  id = add(&c->rig.f, DT_OP_any, 1, in, &(dt_attrs_t){.n_axes = 2, .axes = {0, 1}});
  in[2] = id;
  control.bodies[0] = combine_of(c);
  expect_ok(dt__graph_add_control(c->rig.f.graph, op, &control, in, 3,
                                  &(dt_attrs_t){.n_axes = 1, .axes = {(int32_t)c->form & 1}}, NULL,
                                  &id));
  for (uint32_t k = c->form < 2; k < 2; k++) {
    dt_attrs_t attrs = {.index = k};
    rig_output(&c->rig, add(&c->rig.f, DT_OP_result, 1, &id, &attrs));
  }
  return true;
}

// The first result has x's rows the other way round, the second says which columns are the first.
static dt_status_t turn(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0], *y = args->results[0];
  size_t size = dt_dtype_size(x->dtype);
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++)
    for (int64_t j = 0; j < x->sizes[1]; j++) {
      int64_t from = (x->sizes[0] - 1 - i) * x->strides[0] + j * x->strides[1];
      memcpy((char *)y->data + (size_t)(i * y->strides[0] + j) * size,
             (const char *)x->data + from * (int64_t)size, size);
      ((uint8_t *)args->results[1]->data)[i * x->sizes[1] + j] = j == 0;
    }
  return NULL;
}

// Forms: an argument; what a kernel before it made, which one behind it reads.
static bool build_external(case_t *c, dt_op_t op) {
  static const dt_op_def_t def = {
      .options = {.name = "test.turn", .identity = "test.turn", .kernel = turn}};
  dt_node_id_t x = in2(c, c->dtype, FILL_SPECIALS, c->s[0], c->s[1]), id;
  dt_op_t joins = c->dtype == DT_BOOL ? DT_OP_logical_xor : DT_OP_maximum;
  dt_node_id_t pair[2] = {x, x};
  if (c->form)
    pair[0] = x = add(&c->rig.f, joins, 2, pair, NULL);
  const dt_external_result_t results[2] = {{c->dtype, 2, {c->s[0], c->s[1]}},
                                           {DT_BOOL, 2, {c->s[0], c->s[1]}}};
  const dt_graph_external_t external = {.name = def.options.name,
                                        .identity = def.options.identity,
                                        .def = &def,
                                        .n_results = 2,
                                        .results = results,
                                        .items = c->s[0]};
  (void)op;
  expect_ok(dt__graph_add_external(c->rig.f.graph, &external, &x, 1, NULL, &id));
  dt_node_id_t second = add(&c->rig.f, DT_OP_result, 1, &id, &(dt_attrs_t){.index = 1});
  pair[1] = id;
  rig_output(&c->rig, c->form ? add(&c->rig.f, joins, 2, pair, NULL) : id);
  rig_output(&c->rig, second);
  return true;
}

// Windows over the last dim, which has three elements more than s[1].
static bool build_window(case_t *c, dt_op_t op) {
  dt_symenv_t *env = c->rig.f.env;
  dt_sym_t three = dt__sym_const(env, 3), stride = c->form & 1 ? c->two : c->one;
  dt_node_id_t x =
      in3(c, c->s[0], c->two, op == DT_OP_window ? dt__sym_add(env, c->s[1], three) : c->s[1]);
  dt_sym_t places = dt__sym_add(env, dt__sym_floordiv(env, c->s[1], stride), c->one);
  dt_sym_t size = dt__sym_add(env, dt__sym_mul(env, c->s[1], c->two), three);
  dt_attrs_t attrs = {.n_axes = 1, .n_syms = 4, .syms = {places, c->two, stride, c->two}};
  const dt_sym_t added[4] = {size, stride, c->form & 2 ? c->one : c->two, c->one};
  if (op == DT_OP_overlap_add)
    memcpy(attrs.syms, added, sizeof(added));
  return finish(c, op, 1, &x, &attrs);
}

// A product, a sum of products, one for each channel.
static bool build_conv(case_t *c, dt_op_t op) {
  dt_symenv_t *env = c->rig.f.env;
  dt_sym_t four = dt__sym_const(env, 4), groups = c->form == 2 ? c->two : c->one;
  dt_sym_t five = dt__sym_const(env, 5), rows = c->form == 0 ? five : c->two;
  dt_sym_t size = dt__sym_add(env, dt__sym_mul(env, c->s[1], c->two), four);
  dt_sym_t own = c->form == 2 ? c->one : c->two;
  if (c->dtype == DT_I16 || c->dtype == DT_I64 || dt__dtype_kind(c->dtype) == DT_KIND_UINT)
    return false; // what it is made of is tried with all of them
  dt_node_id_t in[2] = {in3(c, c->s[0], c->two, c->s[1])};
  dt_attrs_t attrs = {.n_axes = 1, .n_syms = 5, .syms = {c->two, c->one, c->two, c->one, groups}};
  in[1] = op == DT_OP_conv ? in3(c, rows, own, c->two) : in3(c, c->two, rows, c->two);
  const dt_sym_t added[4] = {size, c->two, c->two, c->one};
  if (op == DT_OP_conv_transpose)
    memcpy(attrs.syms, added, sizeof(added));
  return finish(c, op, 2, in, &attrs);
}

static builder_t builder_of(dt_op_t op) {
  const dt_op_info_t *info = dt__op_info(op);
  if (info->flags & DT_OPF_LEAF)
    return (builder_t){build_leaf, op == DT_OP_iota ? 2 : 1};
  if (op == DT_OP_cast)
    return (builder_t){build_cast, 13};
  if (op == DT_OP_bitcast)
    return (builder_t){build_bitcast, 12};
  if (info->flags & DT_OPF_EW)
    return (builder_t){build_same, 2};
  if (op == DT_OP_window)
    return (builder_t){build_window, 2};
  if (info->flags & DT_OPF_VIEW)
    return (builder_t){build_view, 4};
  if (info->flags & DT_OPF_REDUCE)
    return (builder_t){build_reduce, 8};
  static const struct {
    dt_op_t op;
    builder_t builder;
  } others[] = {{DT_OP_pad, {build_pad, 3}},
                {DT_OP_concat, {build_concat, 2}},
                {DT_OP_gather, {build_gather, 4}},
                {DT_OP_gather_elements, {build_elements, 4}},
                {DT_OP_gather_nd, {build_tuples, 4}},
                {DT_OP_scatter_elements, {build_elements, 10}},
                {DT_OP_scatter_nd, {build_tuples, 10}},
                {DT_OP_softmax, {build_axis, 3}},
                {DT_OP_log_softmax, {build_axis, 3}},
                {DT_OP_layer_norm, {build_norm, 2}},
                {DT_OP_rms_norm, {build_norm, 2}},
                {DT_OP_matmul, {build_matmul, 4}},
                {DT_OP_overlap_add, {build_window, 4}},
                {DT_OP_conv, {build_conv, 3}},
                {DT_OP_conv_transpose, {build_conv, 3}},
                {DT_OP_item, {build_item, 2}},
                {DT_OP_cumsum, {build_scan, 12}},
                {DT_OP_searchsorted, {build_search, 6}},
                {DT_OP_compress, {build_compress, 4}},
                {DT_OP_nonzero, {build_nonzero, 2}},
                {DT_OP_masked_select, {build_select, 2}},
                {DT_OP_cond, {build_control, 2}},
                {DT_OP_switch, {build_control, 2}},
                {DT_OP_while, {build_control, 2}},
                {DT_OP_associative_scan, {build_associative, 4}},
                {DT_OP_call, {build_control, 2}},
                {DT_OP_external, {build_external, 2}},
                {DT_OP_result, {build_control, 2}}};
  for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
    if (others[k].op == op)
      return others[k].builder;
  return (builder_t){NULL, 0};
}

// ---- Running ----------------------------------------------------------------------------------------------
// All sizes for the form; the graph is lowered once.
static bool run_form(dt_op_t op, dt_dtype_t dtype, uint32_t form, bool strided, build_fn_t build) {
  case_t c = {.dtype = dtype, .strided = strided, .form = form};
  char what[96];
  (void)snprintf(what, sizeof(what), "%s %s form %u%s", dt__op_info(op)->name, dt_dtype_name(dtype),
                 form, strided ? " strided" : "");
  rig_init(&c.rig, (uint64_t)op * 1000 + (uint64_t)dtype * 20 + form * 2 + strided + 1);
  for (uint32_t k = 0; k < N_SYMBOLS; k++)
    c.s[k] = size_symbol(&c.rig.f, NO_HINT);
  c.zero = literal(&c.rig.f, 0);
  c.one = literal(&c.rig.f, 1);
  c.two = literal(&c.rig.f, 2);
  bool built = build(&c, op);
  if (built) {
    dt_symenv_t *env;
    dt_program_t *program = rig_lower(&c.rig, &env);
    int64_t symbols[64] = {0};
    assert_true(dt__symenv_symbol_count(c.rig.f.env) <= 64);
    for (uint32_t k = 0; k < N_SIZES * N_SIZES * N_SIZES; k++) {
      symbols[0] = sizes[k % N_SIZES];
      symbols[1] = sizes[k / N_SIZES % N_SIZES];
      symbols[2] = sizes[k / N_SIZES / N_SIZES];
      if (k % 3 && k > 30)
        continue; // all pairs, and a third of the triples
      rig_compare(&c.rig, program, symbols, what);
    }
    rig_worth(&c.rig);
    dt__symenv_destroy(env);
  }
  rig_fini(&c.rig);
  return built;
}

static void run_op(dt_op_t op) {
  builder_t builder = builder_of(op);
  uint32_t built = 0;
  if (!builder.fn)
    print_error("%s has no case here\n", dt__op_info(op)->name);
  assert_non_null(builder.fn);
  for (int dtype = 1; dtype < DT_LOW_DTYPES; dtype++)
    for (uint32_t form = 0; dt__dtype_is_valid((dt_dtype_t)dtype) && form < builder.forms; form++)
      for (int strided = 0; strided < 2; strided++)
        built += run_form(op, (dt_dtype_t)dtype, form, strided, builder.fn);
  if (!built)
    print_error("%s took no dtype\n", dt__op_info(op)->name);
  assert_true(built > 0);
}

#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  static void test_##name(void **state) {                                                          \
    (void)state;                                                                                   \
    run_op(DT_OP_##name);                                                                          \
  }
#include "lower/graph/ops.def"

int main(void) {
  const struct CMUnitTest tests[] = {
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  TEST(test_##name),
#include "lower/graph/ops.def"
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// See graph_fixture.h. Failures print both sides and where the test stands.
#include "test/support/graph_fixture.h"

#include "lower/graph/external.h"
#include "runtime/base/dtype.h"

#include <stdio.h>
#include <string.h>

static void on_assume(void *user, dt_symenv_t *env, dt_sym_t cond, const dt_origin_t *origin) {
  graph_fixture_t *f = user;
  dt_text_t text;
  (void)origin;
  f->assumed++;
  dt__text_init(&text);
  dt__sym_print(env, cond, &text);
  (void)snprintf(f->last, sizeof(f->last), "%s", dt__text_str(&text));
  dt__text_fini(&text);
}

void graph_fixture_init(graph_fixture_t *f) {
  memset(f, 0, sizeof(*f));
  dt__arena_init(&f->arena, 0);
  expect_ok(dt__symenv_create(&f->env));
  dt__symenv_on_assume(f->env, on_assume, f);
  f->graph = dt__graph_create(&f->arena, f->env);
  assert_non_null(f->graph);
}

void graph_fixture_fini(graph_fixture_t *f) {
  dt__symenv_destroy(f->env);
  dt__arena_fini(&f->arena);
}

dt_sym_t size_symbol(graph_fixture_t *f, int64_t hint) {
  dt_range_t range = {0, DT_SIZE_LIMIT - 1};
  return dt__sym_new(f->env, DT_SYMBOL_SIZE, range, hint == NO_HINT ? NULL : &hint, "");
}

dt_sym_t literal(graph_fixture_t *f, int64_t value) { return dt__sym_const(f->env, value); }

dt_node_id_t input(graph_fixture_t *f, const char *name, dt_dtype_t dtype, uint32_t rank,
                   const dt_sym_t *sizes) {
  dt_graph_input_t made = {.name = name, .dtype = dtype, .rank = rank, .contiguous = true};
  dt_sym_t stride = literal(f, 1);
  for (uint32_t k = rank; k-- > 0;) {
    made.sizes[k] = sizes[k];
    made.strides[k] = stride;
    stride = dt__sym_mul(f->env, stride, sizes[k]);
  }
  dt_node_id_t id;
  expect_ok(dt__graph_add_input(f->graph, &made, &id));
  return id;
}

dt_node_id_t fixed(graph_fixture_t *f, const char *name, dt_dtype_t dtype, uint32_t rank,
                   const int64_t *sizes) {
  dt_sym_t syms[DT_MAX_RANK];
  for (uint32_t k = 0; k < rank; k++)
    syms[k] = literal(f, sizes[k]);
  return input(f, name, dtype, rank, syms);
}

dt_node_id_t add(graph_fixture_t *f, dt_op_t op, uint32_t n, const dt_node_id_t *inputs,
                 const dt_attrs_t *attrs) {
  dt_node_id_t id;
  expect_ok(dt__graph_add(f->graph, op, inputs, n, attrs, NULL, &id));
  return id;
}

void refuse(graph_fixture_t *f, dt_op_t op, uint32_t n, const dt_node_id_t *inputs,
            const dt_attrs_t *attrs, dt_code_t code, const char *const *parts) {
  dt_node_id_t id = {7};
  uint32_t before = f->graph->nodes.len;
  expect_parts(dt__graph_add(f->graph, op, inputs, n, attrs, NULL, &id), code,
               parts ? parts : EACH_OF(""));
  assert_int_equal(id.id, 0);
  assert_int_equal(f->graph->nodes.len, before);
}

const char *type_of(graph_fixture_t *f, dt_node_id_t id) {
  const dt_node_t *node = dt__graph_node(f->graph, id);
  dt_text_t text;
  dt__text_init(&text);
  dt__text_printf(&text, "%s[", dt_dtype_name(node->dtype));
  for (uint32_t k = 0; k < node->rank; k++) {
    dt__text_put(&text, k ? ", " : "");
    dt__sym_print(f->env, node->sizes[k], &text);
  }
  dt__text_put(&text, "]");
  const char *copy = dt__arena_strdup(&f->arena, dt__text_str(&text));
  dt__text_fini(&text);
  assert_non_null(copy);
  return copy;
}

// ---- Examples -----------------------------------------------------------------------------------
static void example_attrs(graph_fixture_t *f, dt_op_t op, dt_dtype_t dtype, dt_attrs_t *attrs) {
  dt_sym_t s0 = dt__symbol_sym(f->env, 0), four = literal(f, 4), three = literal(f, 3);
  dt_sym_t zero = literal(f, 0);
  attrs->dtype = dtype;
  attrs->keepdims = 1;
  attrs->n_axes = 1;
  attrs->axes[0] = op == DT_OP_layer_norm || op == DT_OP_rms_norm ? 0 : 1;
  attrs->floats[0] = 0.1;
  attrs->ints[0] = 1;
  attrs->ints[1] = op == DT_OP_slice ? -1 : 0;
  attrs->n_syms = 2;
  attrs->syms[0] = s0;
  attrs->syms[1] = four;
  if (op == DT_OP_permute) {
    attrs->n_axes = 2;
    attrs->axes[0] = 1;
    attrs->axes[1] = 0;
  } else if (op == DT_OP_gather_nd) {
    attrs->n_axes = 0;
  } else if (op == DT_OP_reshape) {
    attrs->syms[0] = four;
    attrs->syms[1] = s0;
  } else if (op == DT_OP_slice || op == DT_OP_pad) {
    // The slice takes all rows, and columns 3, 2 and 1.
    attrs->n_syms = 4;
    attrs->syms[0] = zero;
    attrs->syms[1] = s0;
    attrs->syms[2] = three;
    attrs->syms[3] = three;
  } else if (op == DT_OP_size) {
    attrs->n_syms = 1;
    attrs->syms[0] = dt__sym_add(f->env, dt__sym_mul(f->env, s0, three), three);
  } else if (op == DT_OP_item) {
    attrs->n_syms = 1;
    const dt_range_t any = {-((int64_t)1 << 62), (int64_t)1 << 62}; // whatever the bytes are
    attrs->syms[0] = dt__sym_new(f->env, DT_SYMBOL_UNBACKED, any, NULL, "a number");
  } else if (op >= DT_OP_cumsum && op <= DT_OP_masked_select) {
    attrs->n_syms = 1;
    attrs->mode = op == DT_OP_cumsum ? DT_SCAN_EXCLUSIVE | DT_SCAN_REVERSE : DT_SEARCH_INCLUSIVE;
  }
}

// Fields of the windows, and x's and w's sizes, of an op that has them.
static void window_attrs(graph_fixture_t *f, dt_op_t op, dt_attrs_t *attrs) {
  static const int64_t fields[][5] = {{2, 3, 1, 1}, {5, 2, 1, 1}, {1, 1, 1, 0, 1}, {3, 2, 1, 1, 1}};
  attrs->n_axes = 1;
  attrs->n_syms = op == DT_OP_conv || op == DT_OP_conv_transpose ? 5 : 4;
  for (uint32_t k = 0; k < attrs->n_syms; k++)
    attrs->syms[k] = literal(f, fields[op - DT_OP_window][k]);
}

static void conv_shape(graph_fixture_t *f, dt_op_t op, uint32_t k, dt_sym_t *shape) {
  dt_sym_t two = literal(f, 2), three = literal(f, 3);
  shape[0] = k == 0 ? dt__symbol_sym(f->env, 0) : op == DT_OP_conv ? three : two;
  shape[1] = k == 1 && op != DT_OP_conv ? three : two;
  shape[2] = two;
}

// A body that gives input 0, negated where that is possible; `test`: whether it is anything.
static const dt_graph_t *example_body(graph_fixture_t *f, dt_dtype_t dtype, bool test) {
  dt_graph_t *body = dt__graph_create(&f->arena, f->env);
  dt_sym_t s0 = dt__symbol_sym(f->env, 0), four = literal(f, 4), one = literal(f, 1);
  dt_graph_input_t x = {.name = "",
                        .dtype = dtype,
                        .rank = 2,
                        .sizes = {s0, four},
                        .strides = {four, one},
                        .contiguous = true};
  dt_node_id_t id;
  assert_non_null(body);
  expect_ok(dt__graph_add_input(body, &x, &id));
  if (test) {
    dt_node_id_t two[2] = {id, id};
    expect_ok(dt__graph_add(body, DT_OP_ne, two, 2, NULL, NULL, &id));
    dt_attrs_t attrs = {.n_axes = 2, .axes = {0, 1}};
    expect_ok(dt__graph_add(body, DT_OP_any, &id, 1, &attrs, NULL, &id));
  } else if (dtype != DT_BOOL) {
    expect_ok(dt__graph_add(body, DT_OP_neg, &id, 1, NULL, NULL, &id));
  }
  expect_ok(dt__graph_add_output(body, id));
  return body;
}

// Its first result. Of NaN, which differs from itself for ever, there is none in examples.
static dt_node_id_t add_control(graph_fixture_t *f, dt_op_t op, dt_dtype_t dtype) {
  dt_sym_t shape[2] = {dt__symbol_sym(f->env, 0), literal(f, 4)};
  bool cases = op == DT_OP_switch, call = op == DT_OP_call, loop = op == DT_OP_while;
  dt_graph_control_t control = {.bodies = {example_body(f, dtype, loop)}};
  control.bodies[1] = call ? NULL : example_body(f, dtype, false);
  control.bodies[2] = cases ? example_body(f, dtype, false) : NULL;
  dt_node_id_t in[2] = {input(f, "p", cases ? DT_U8 : DT_BOOL, 0, NULL),
                        input(f, "x", dtype, 2, shape)},
               id;
  uint32_t first = loop || call; // of these there is no predicate
  expect_ok(dt__graph_add_control(f->graph, op == DT_OP_result ? DT_OP_cond : op, &control,
                                  in + first, 2 - first, NULL, NULL, &id));
  expect_ok(dt__graph_add(f->graph, DT_OP_result, &id, 1, NULL, NULL, &id));
  return id;
}

// The larger, or one of the two.
static dt_node_id_t add_associative(graph_fixture_t *f, dt_dtype_t dtype) {
  dt_sym_t shape[2] = {dt__symbol_sym(f->env, 0), literal(f, 4)};
  dt_graph_t *body = dt__graph_create(&f->arena, f->env);
  dt_graph_control_t control = {.bodies = {body}};
  dt_graph_input_t element = {.name = "", .dtype = dtype, .contiguous = true};
  dt_node_id_t in[2], made, id, x = input(f, "x", dtype, 2, shape);
  if (dt__dtype_is_half(dtype) || dt__dtype_is_low(dtype)) // joined in f32; refused
    return (dt_node_id_t){0};
  assert_non_null(body);
  for (uint32_t k = 0; k < 2; k++)
    expect_ok(dt__graph_add_input(body, &element, &in[k]));
  expect_ok(dt__graph_add(body, dtype == DT_BOOL ? DT_OP_logical_or : DT_OP_maximum, in, 2, NULL,
                          NULL, &made));
  expect_ok(dt__graph_add_output(body, made));
  expect_ok(dt__graph_add_control(f->graph, DT_OP_associative_scan, &control, &x, 1,
                                  &(dt_attrs_t){.n_axes = 1}, NULL, &id));
  expect_ok(dt__graph_add(f->graph, DT_OP_result, &id, 1, NULL, NULL, &id));
  return id;
}

static dt_status_t copies(const dt_op_args_t *args, int64_t begin, int64_t end) {
  const dt_op_tensor_t *x = args->inputs[0], *y = args->results[0];
  size_t size = dt_dtype_size(x->dtype);
  for (int64_t i = begin; i < end && i < x->sizes[0]; i++)
    for (int64_t j = 0; j < x->sizes[1]; j++)
      memcpy((char *)y->data + (size_t)(i * y->strides[0] + j) * size,
             (const char *)x->data + (i * x->strides[0] + j * x->strides[1]) * (int64_t)size, size);
  return NULL;
}

// A user's op that copies rows.
static dt_node_id_t add_external(graph_fixture_t *f, dt_dtype_t dtype) {
  static const dt_op_def_t def = {
      .options = {.name = "test.copies", .identity = "test.copies", .kernel = copies}};
  dt_sym_t shape[2] = {dt__symbol_sym(f->env, 0), literal(f, 4)};
  const dt_external_result_t result = {dtype, 2, {shape[0], shape[1]}};
  const dt_graph_external_t external = {.name = def.options.name,
                                        .identity = def.options.identity,
                                        .def = &def,
                                        .n_results = 1,
                                        .results = &result,
                                        .items = shape[0]};
  dt_node_id_t id, x = input(f, "x", dtype, 2, shape);
  expect_ok(dt__graph_add_external(f->graph, &external, &x, 1, NULL, &id));
  return id;
}

dt_node_id_t add_example(graph_fixture_t *f, dt_op_t op, dt_dtype_t dtype) {
  const dt_op_info_t *info = dt__op_info(op);
  dt_sym_t whole[2] = {dt__symbol_sym(f->env, 0), literal(f, 4)};
  dt_node_id_t in[4] = {{0}};
  uint32_t n = info->arity < 0 ? 3 : (uint32_t)info->arity;
  dt_attrs_t attrs = {0};
  if (op == DT_OP_associative_scan)
    return add_associative(f, dtype);
  if (op == DT_OP_external)
    return dt__dtype_is_low(dtype) ? (dt_node_id_t){0} : add_external(f, dtype);
  if (dt__op_info(op)->lower == DT_LOWER_control) // which refuses low-bit dtypes
    return dt__dtype_is_low(dtype) ? (dt_node_id_t){0} : add_control(f, op, dtype);
  example_attrs(f, op, dtype, &attrs);
  if (op >= DT_OP_window && op <= DT_OP_conv_transpose)
    window_attrs(f, op, &attrs);
  for (uint32_t k = 0; k < n; k++) {
    dt_sym_t shape[3] = {whole[0], whole[1]};
    dt_dtype_t own = dtype;
    uint32_t rank = 2;
    if (op == DT_OP_conv || op == DT_OP_conv_transpose) {
      rank = 3;
      conv_shape(f, op, k, shape);
    }
    if (op == DT_OP_where && k == 0)
      own = DT_BOOL;
    if (op == DT_OP_gather && k == 1) {
      own = DT_I64;
      shape[0] = dt__symbol_sym(f->env, 1);
    }
    bool by_element = op == DT_OP_gather_elements || op == DT_OP_scatter_elements;
    bool by_tuple = op == DT_OP_gather_nd || op == DT_OP_scatter_nd;
    if ((by_element || by_tuple) && k == 1)
      own = DT_I64;
    if (by_tuple && k > 0)
      shape[0] = dt__symbol_sym(f->env, 1);
    if (by_tuple && k == 1)
      shape[1] = literal(f, 1);
    if (op == DT_OP_matmul && k == 1) {
      shape[0] = whole[1];
      shape[1] = literal(f, 3);
    }
    if (op == DT_OP_item)
      rank = 0;
    if (op == DT_OP_searchsorted && k == 0)
      rank = 1;
    if ((op == DT_OP_compress && k == 0) || (op == DT_OP_masked_select && k == 1))
      own = DT_BOOL;
    if (op == DT_OP_compress && k == 1)
      own = DT_I64;
    if ((op == DT_OP_layer_norm || op == DT_OP_rms_norm) && k > 0) {
      rank = 1;
      shape[0] = whole[1];
    }
    in[k] = input(f, k == 0 ? "x" : "", own, rank, shape);
  }
  if (op == DT_OP_input)
    return input(f, "in", dtype, 2, whole);
  if (op == DT_OP_constant) {
    static const double zeros[8] = {0};
    dt_graph_constant_t constant = {
        .name = "c", .dtype = dtype, .rank = 2, .sizes = {2, 4}, .data = zeros, .key = 9};
    dt_node_id_t id;
    expect_ok(dt__graph_add_constant(f->graph, &constant, NULL, &id));
    return id;
  }
  dt_node_id_t id = {0};
  dt_status_t status = dt__graph_add(f->graph, op, in, n, &attrs, NULL, &id);
  if (status && dt_status_code(status) == DT_E_DTYPE) {
    dt_status_free(status);
    return (dt_node_id_t){0};
  }
  expect_ok(status);
  return id;
}

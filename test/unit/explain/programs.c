// SPDX-License-Identifier: Apache-2.0
// Each program has a file name and lines of its own, as if it stood alone, so that explanations say
// the same wherever this file lies and whatever is added to it.
#include "test/unit/explain/programs.h"

#include <string.h>

#define PROGRAM(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure)

static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t matrix[] = {{.name = "x", .dtype = DT_F32, .rank = 2}};
static const dt_input_decl_t two_vectors[] = {{.name = "x", .dtype = DT_F32, .rank = 1},
                                              {.name = "y", .dtype = DT_F32, .rank = 1}};

// ---- Refused by the declarations ----------------------------------------------------------------
#line 1 "relu.c"
PROGRAM(relu) {
  (void)closure;
  out[0] = dt_relu(t, in[0]);
  return NULL;
}
static const dt_dim_decl_t static_dims[] = {{.name = "rows"}, {.is_static = true, .value = 4}};
static const dt_input_decl_t static_matrix[] = {
    {.name = "x", .dtype = DT_F32, .rank = 2, .dims = static_dims}};
static const dt_dim_decl_t range_dims[] = {{.name = "batch", .min = 1, .max = 64}};
static const dt_input_decl_t range_vector[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = range_dims}};

#line 1 "named.c"
PROGRAM(add) {
  (void)closure;
  out[0] = dt_add(t, in[0], in[1]);
  return NULL;
}
static const dt_dim_decl_t n_dim[] = {{.name = "n"}};
static const dt_input_decl_t named_vectors[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = n_dim},
    {.name = "y", .dtype = DT_F32, .rank = 1, .dims = n_dim}};

// ---- Branches -----------------------------------------------------------------------------------
#line 1 "branch.c"
PROGRAM(branch) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0);
  if (dt_sym_true(t, dt_sym_lt(t, n, dt_sym_const(t, 512))))
    out[0] = dt_neg(t, in[0]);
  else
    out[0] = dt_relu(t, in[0]);
  return NULL;
}
static const dt_dim_decl_t batch_dim[] = {{.name = "batch"}};
static const dt_input_decl_t batch_vector[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = batch_dim}};

#line 1 "multiple.c"
PROGRAM(multiple) {
  (void)closure;
  dt_sym_t rest = dt_sym_mod(t, dt_dim(t, in[0], 0), dt_sym_const(t, 8));
  bool even = dt_sym_true(t, dt_sym_eq(t, rest, dt_sym_const(t, 0)));
  out[0] = even ? dt_neg(t, in[0]) : dt_relu(t, in[0]);
  return NULL;
}

#line 1 "order.c"
PROGRAM(order) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_sym_t m = dt_dim(t, in[1], 0);
  out[0] = dt_sym_true(t, dt_sym_lt(t, n, m)) ? dt_neg(t, in[0]) : dt_neg(t, in[1]);
  return NULL;
}

#line 1 "same.c"
PROGRAM(same) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_sym_t m = dt_dim(t, in[1], 0);
  out[0] = dt_sym_true(t, dt_sym_eq(t, n, m)) ? dt_add(t, in[0], in[1]) : dt_neg(t, in[1]);
  return NULL;
}

#line 1 "product.c"
PROGRAM(product) {
  (void)closure;
  dt_sym_t count = dt_sym_mul(t, dt_dim(t, in[0], 0), dt_dim(t, in[0], 1));
  bool small = dt_sym_true(t, dt_sym_le(t, count, dt_sym_const(t, 100)));
  out[0] = small ? dt_neg(t, in[0]) : dt_relu(t, in[0]);
  return NULL;
}

// Two sides pin the size between them.
#line 1 "pinned.c"
PROGRAM(pinned) {
  (void)closure;
  dt_sym_t n = dt_dim(t, in[0], 0);
  dt_sym_t five = dt_sym_const(t, 5);
  bool least = dt_sym_true(t, dt_sym_le(t, five, n));
  bool most = dt_sym_true(t, dt_sym_le(t, n, five));
  out[0] = least && most ? dt_neg(t, in[0]) : dt_relu(t, in[0]);
  return NULL;
}

// ---- Numbers ------------------------------------------------------------------------------------
#line 1 "number.c"
PROGRAM(number) {
  (void)closure;
  int64_t heads = dt_sym_int(t, dt_dim(t, in[0], 1));
  out[0] = dt_mul(t, in[0], dt_scalar(t, DT_F32, 1.0 / (double)heads));
  return NULL;
}

// The number of one dim fixes another, which an op made equal to it before.
#line 1 "chain.c"
PROGRAM(chain) {
  (void)closure;
  dt_value_t sum = dt_add(t, in[0], in[1]);
  int64_t n = dt_sym_int(t, dt_dim(t, in[1], 0));
  out[0] = dt_mul(t, sum, dt_scalar(t, DT_F32, (double)n));
  return NULL;
}

// ---- What ops need ------------------------------------------------------------------------------
#line 1 "halves.c"
PROGRAM(halves) {
  (void)closure;
  dt_sym_t four = dt_sym_const(t, 4);
  dt_sym_t sizes[2] = {dt_sym_floordiv(t, dt_dim(t, in[0], 0), four), four};
  out[0] = dt_reshape(t, in[0], 2, sizes);
  return NULL;
}

#line 1 "tail.c"
PROGRAM(tail) {
  (void)closure;
  dt_sym_t two = dt_sym_const(t, 2);
  out[0] = dt_slice(t, in[0], 0, two, dt_sym_sub(t, dt_dim(t, in[0], 0), two), 1);
  return NULL;
}

#line 1 "linear.c"
PROGRAM(linear) {
  (void)closure;
  dt_sym_t sizes[2] = {dt_sym_const(t, 16), dt_sym_const(t, 3)};
  dt_value_t weight = dt_iota(t, DT_F32, 2, sizes, 0);
  out[0] = dt_matmul(t, in[0], weight);
  return NULL;
}

#line 1 "product_of_two.c"
PROGRAM(inner) {
  (void)closure;
  out[0] = dt_matmul(t, in[0], in[1]);
  return NULL;
}
static const dt_input_decl_t two_matrices[] = {{.name = "a", .dtype = DT_F32, .rank = 2},
                                               {.name = "b", .dtype = DT_F32, .rank = 2}};

#line 1 "share.c"
PROGRAM(share) {
  (void)closure;
  dt_sym_t each = dt_sym_floordiv(t, dt_sym_const(t, 100), dt_dim(t, in[0], 0));
  out[0] = dt_mul(t, in[0], dt_cast(t, dt_size_value(t, each), DT_F32));
  return NULL;
}

#line 1 "squeeze.c"
PROGRAM(squeeze) {
  (void)closure;
  out[0] = dt_squeeze(t, in[0], 0);
  return NULL;
}

#line 1 "flat.c"
PROGRAM(flat) {
  (void)closure;
  dt_sym_t size = dt_dim(t, in[1], 0);
  out[0] = dt_reshape(t, in[0], 1, &size);
  return NULL;
}
static const dt_input_decl_t matrix_and_vector[] = {{.name = "x", .dtype = DT_F32, .rank = 2},
                                                    {.name = "y", .dtype = DT_F32, .rank = 1}};

// ---- Declarations and policies ------------------------------------------------------------------
static const dt_dim_decl_t eights_dim[] = {{.multiple_of = 8}};
static const dt_input_decl_t eights[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = eights_dim}};
static const dt_dim_decl_t pairs_dim[] = {{.of = "n", .scale = 2, .offset = 1}};
static const dt_input_decl_t derived[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = n_dim},
    {.name = "pairs", .dtype = DT_F32, .rank = 1, .dims = pairs_dim}};
static const dt_dim_decl_t marked_dim[] = {{.mark = DT_MARK_STATIC}};
static const dt_input_decl_t marked[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = marked_dim}};

#line 1 "pairs.c"
PROGRAM(second) {
  (void)closure;
  out[0] = dt_relu(t, in[1]);
  return NULL;
}

// ---- The table ----------------------------------------------------------------------------------
#define V(n)                                                                                       \
  {                                                                                                \
    .rank = 1, .sizes = { n }                                                                      \
  }
#define M(n, m)                                                                                    \
  {                                                                                                \
    .rank = 2, .sizes = { n, m }                                                                   \
  }
#define CALL(...)                                                                                  \
  {                                                                                                \
    .args = { __VA_ARGS__ }                                                                        \
  }
#define CASE(id, fn, n, decls, a, b, ...)                                                          \
  {.name = id, .program = fn, .n_inputs = n, .inputs = decls, .first = a, .second = b, __VA_ARGS__}

static const case_t cases[] = {
    CASE("dtype", relu, 1, vector, CALL(V(3)), CALL({.dtype = DT_F64, .rank = 1, .sizes = {3}})),
    CASE("rank", relu, 1, vector, CALL(V(3)), CALL(M(3, 2))),
    CASE("static_dim", relu, 1, static_matrix, CALL(M(2, 4)), CALL(M(2, 5))),
    CASE("declared_range", relu, 1, range_vector, CALL(V(64)), CALL(V(65))),
    CASE("declared_multiple", relu, 1, eights, CALL(V(16)), CALL(V(12))),
    CASE("named_dims", add, 2, named_vectors, CALL(V(3), V(3)), CALL(V(3), V(4))),
    CASE("derived_dim", second, 2, derived, CALL(V(3), V(7)), CALL(V(3), V(8))),
    CASE("contiguity", relu, 1, matrix, CALL(M(2, 3)),
         CALL({.rank = 2, .sizes = {2, 3}, .strides = {1, 2}})),
    CASE("stride", relu, 1, matrix, CALL({.rank = 2, .sizes = {2, 3}, .strides = {4, 1}}),
         CALL({.rank = 2, .sizes = {2, 3}, .strides = {1, 2}})),
    CASE("branch", branch, 1, batch_vector, CALL(V(10)), CALL(V(600))),
    CASE("branch_multiple", multiple, 1, batch_vector, CALL(V(16)), CALL(V(17))),
    CASE("branch_order", order, 2, two_vectors, CALL(V(2), V(3)), CALL(V(3), V(2))),
    CASE("branch_equal", same, 2, two_vectors, CALL(V(3), V(3)), CALL(V(3), V(4))),
    CASE("branch_product", product, 1, matrix, CALL(M(5, 6)), CALL(M(50, 60))),
    CASE("pinned", pinned, 1, vector, CALL(V(5)), CALL(V(6))),
    CASE("number", number, 1, matrix, CALL(M(2, 8)), CALL(M(2, 12))),
    CASE("chain", chain, 2, two_vectors, CALL(V(3), V(3)), CALL(V(4), V(4))),
    CASE("op_equal", add, 2, two_vectors, CALL(V(3), V(3)), CALL(V(3), V(1))),
    CASE("broadcast", add, 2, two_vectors, CALL(V(3), V(1)), CALL(V(3), V(4))),
    CASE("reshape_multiple", halves, 1, batch_vector, CALL(V(8)), CALL(V(6))),
    CASE("reshape_derived", flat, 2, matrix_and_vector, CALL(M(2, 3), V(6)), CALL(M(2, 3), V(5))),
    CASE("slice_range", tail, 1, vector, CALL(V(5)), CALL(V(1))),
    CASE("op_value", linear, 1, matrix, CALL(M(2, 16)), CALL(M(2, 8))),
    CASE("inner_equal", inner, 2, two_matrices, CALL(M(2, 3), M(3, 4)), CALL(M(2, 3), M(5, 4))),
    CASE("divisor", share, 1, vector, CALL(V(4)), CALL(V(0))),
    CASE("squeeze", squeeze, 1, matrix, CALL(M(1, 3)), CALL(M(2, 3))),
    CASE("variant_limit", branch, 1, batch_vector, CALL(V(10)), CALL(V(600)), .variant_limit = 1),
    CASE("static_first", relu, 1, vector, CALL(V(3)), CALL(V(4)), .dynamic = DT_DYNAMIC_AUTOMATIC),
    CASE("marked_static", relu, 1, marked, CALL(V(3)), CALL(V(4))),
};
const case_list_t explain_cases = {sizeof(cases) / sizeof(cases[0]), cases};

const case_t *explain_case(const char *name) {
  for (uint32_t k = 0; k < explain_cases.n; k++) {
    if (strcmp(cases[k].name, name) == 0)
      return &cases[k];
  }
  return NULL;
}

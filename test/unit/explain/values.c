// SPDX-License-Identifier: Apache-2.0
// Second calls that miss by what is no size: integer and boolean arguments, captured integers,
// modes of the runtime, and how inputs share memory.
#include "test/unit/explain/programs.h"

#define PROGRAM(name)                                                                              \
  static dt_status_t name(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure)

static const dt_input_decl_t with_integer[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1},
    {.name = "n", .dtype = DT_I64, .kind = DT_INPUT_INTEGER}};
static const dt_input_decl_t with_flag[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1},
    {.name = "causal", .dtype = DT_BOOL, .kind = DT_INPUT_BOOLEAN}};
static const dt_input_decl_t vector[] = {{.name = "x", .dtype = DT_F32, .rank = 1}};
static const dt_input_decl_t aligned[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .alignment = 64}};
static const dt_dim_decl_t n_dim[] = {{.name = "n"}};
static const dt_input_decl_t two_vectors[] = {
    {.name = "x", .dtype = DT_F32, .rank = 1, .dims = n_dim},
    {.name = "y", .dtype = DT_F32, .rank = 1, .dims = n_dim}};

// ---- Integers -----------------------------------------------------------------------------------
#line 1 "power.c"
PROGRAM(power) {
  (void)closure;
  int64_t n = dt_sym_int(t, dt_int_value(t, in[1]));
  out[0] = in[0];
  for (int64_t k = 1; k < n && k < 8; k++)
    out[0] = dt_mul(t, out[0], in[0]);
  return NULL;
}

#line 1 "window.c"
PROGRAM(window) {
  (void)closure;
  dt_sym_t small = dt_sym_lt(t, dt_int_value(t, in[1]), dt_sym_const(t, 4));
  out[0] = dt_sym_true(t, small) ? dt_neg(t, in[0]) : dt_relu(t, in[0]);
  return NULL;
}

#line 1 "causal.c"
PROGRAM(causal) {
  (void)closure;
  dt_sym_t flag = dt_int_value(t, in[1]);
  out[0] = dt_sym_true(t, flag) ? dt_neg(t, in[0]) : dt_relu(t, in[0]);
  return NULL;
}

// ---- Captures -----------------------------------------------------------------------------------
static int64_t depth = 2;
static void deepen(dt_runtime_t *runtime) {
  (void)runtime;
  depth = 3;
}

#line 1 "depth.c"
PROGRAM(deep) {
  int64_t n = dt_sym_int(t, dt_capture(t, "depth", closure));
  out[0] = in[0];
  for (int64_t k = 0; k < n && k < 8; k++)
    out[0] = dt_relu(t, out[0]);
  return NULL;
}

// ---- Modes and memory ---------------------------------------------------------------------------
static void set_strict(dt_runtime_t *runtime) {
  dt_status_free(dt_runtime_mode_set(runtime, DT_MODE_STRICT_FP, 1));
}

#line 1 "mode.c"
PROGRAM(relu) {
  (void)closure;
  out[0] = dt_relu(t, in[0]);
  return NULL;
}

#line 1 "update.c"
PROGRAM(update) {
  (void)closure;
  dt_update(t, in[0], dt_add(t, in[0], in[1]));
  out[0] = dt_neg(t, in[1]);
  return NULL;
}

// ---- The table ----------------------------------------------------------------------------------
#define V(n)                                                                                       \
  {                                                                                                \
    .rank = 1, .sizes = { n }                                                                      \
  }
#define N(n) {.dtype = DT_I64, .value = n}
#define CALL(...)                                                                                  \
  {                                                                                                \
    .args = { __VA_ARGS__ }                                                                        \
  }
#define CASE(id, fn, n, decls, a, b, ...)                                                          \
  {.name = id, .program = fn, .n_inputs = n, .inputs = decls, .first = a, .second = b, __VA_ARGS__}

static const case_t cases[] = {
    CASE("integer_number", power, 2, with_integer, CALL(V(3), N(2)), CALL(V(3), N(3))),
    CASE("integer_branch", window, 2, with_integer, CALL(V(3), N(2)), CALL(V(3), N(9))),
    CASE("integer_static", window, 2, with_integer, CALL(V(3), N(5)), CALL(V(3), N(9)),
         .dynamic = DT_DYNAMIC_STATIC),
    CASE("boolean", causal, 2, with_flag, CALL(V(3), {.dtype = DT_BOOL, .value = 1}),
         CALL(V(3), {.dtype = DT_BOOL})),
    CASE("capture", deep, 1, vector, CALL(V(3)), CALL(V(3)), .closure = &depth, .between = deepen),
    CASE("declared_alignment", relu, 1, aligned, CALL(V(3)),
         CALL({.rank = 1, .sizes = {3}, .past = 1})),
    CASE("mode", relu, 1, vector, CALL(V(3)), CALL(V(3)), .compiled = true, .between = set_strict),
    CASE("alias", update, 2, two_vectors, CALL(V(3), V(3)),
         CALL(V(3), {.rank = 1, .sizes = {3}, .shares = 1})),
};
const case_list_t explain_values = {sizeof(cases) / sizeof(cases[0]), cases};

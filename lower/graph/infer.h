// SPDX-License-Identifier: Apache-2.0
// Inference of one node's dtype and sizes: what the builder, the rules and the verifier share. A
// rule reads inputs and attributes, may normalise the attributes, and fills the result; what it
// demands of sizes goes through dt__infer_demand, so that building makes guards and checking makes
// none.
#ifndef DT_LOWER_GRAPH_INFER_H
#define DT_LOWER_GRAPH_INFER_H

#include "lower/graph/graph.h"

// Which attributes an op reads; all others are zero in its node.
enum {
  DT_ATTR_DTYPE = 1,
  DT_ATTR_INDEX = 2,
  DT_ATTR_AXES = 4,
  DT_ATTR_N_AXES = 8, // the count alone
  DT_ATTR_KEEPDIMS = 16,
  DT_ATTR_SYMS = 32,
  DT_ATTR_STEPS = 64,    // ints, one a dim of the first input
  DT_ATTR_VALUE = 128,   // floats[0] or ints[0], by dtype
  DT_ATTR_EPSILON = 256, // floats[0]
  DT_ATTR_MODE = 512,
  DT_ATTR_BINDS = 1024 // syms[0] is a symbol that the node binds: it stays as it is
};

#define DT_GRAPH_MAX_NODES 1000000u

struct dt_infer_t {
  const dt_graph_t *graph;
  dt_symenv_t *env; // the graph's, or a clone when only checking
  bool check_only;  // refuse what is known to be wrong; assume nothing, ask for no guard
  dt_op_t op;
  const dt_op_info_t *info;
  dt_origin_t origin;
  uint32_t n_inputs;
  const dt_node_id_t *inputs;
  dt_attrs_t *attrs; // normalised on return
  // The result.
  dt_dtype_t dtype;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];
};

// Runs both rules of ctx->op on valid inputs and checks the sizes that come out.
dt_status_t dt__infer(dt_infer_t *ctx) DT_MUST_USE;
// DT_ATTR_* of what `op` reads, and a copy of `from` reduced to them (`rank`: of the first input).
uint32_t dt__op_attrs(dt_op_t op);
dt_status_t dt__attrs_normalize(dt_op_t op, uint32_t rank, const dt_attrs_t *from,
                                dt_attrs_t *to) DT_MUST_USE;

// Declares an input or constant without a leaf node.
dt_status_t dt__graph_declare_input(dt_graph_t *graph, const dt_graph_input_t *input) DT_MUST_USE;
dt_status_t dt__graph_declare_constant(dt_graph_t *graph,
                                       const dt_graph_constant_t *constant) DT_MUST_USE;

// ---- For rules ----------------------------------------------------------------------------------
static inline const dt_node_t *dt__infer_in(const dt_infer_t *ctx, uint32_t k) {
  return dt__graph_node(ctx->graph, ctx->inputs[k]);
}
// True when nothing remains to be said: `cond` is known, or only checking and not known to be
// false.
bool dt__infer_holds(const dt_infer_t *ctx, dt_sym_t cond);
// The program needs `cond`: a guard, or a failure whose message is "op: " and `message` (consumed).
// `what` is a literal.
dt_status_t dt__infer_demand(const dt_infer_t *ctx, dt_sym_t cond, const char *what,
                             dt_text_t *message) DT_MUST_USE;
// dt__infer_demand with a message of plain text and the inputs' sizes appended.
dt_status_t dt__infer_need(const dt_infer_t *ctx, dt_sym_t cond, const char *what, const char *fmt,
                           ...) DT_PRINTF(4, 5) DT_MUST_USE;
// A failure: "op: message; inputs x f32[s0, 4], %3 i64[7]".
dt_status_t dt__infer_fail(const dt_infer_t *ctx, dt_code_t code, const char *fmt, ...)
    DT_PRINTF(3, 4) DT_MUST_USE;
// Size `da` of input `a` must equal size `db` of input `b`; `advice` ends the message.
dt_status_t dt__infer_equal(const dt_infer_t *ctx, uint32_t a, uint32_t da, uint32_t b, uint32_t db,
                            const char *advice) DT_MUST_USE;
// All inputs have the rank and the sizes of input 0.
dt_status_t dt__infer_same_sizes(const dt_infer_t *ctx) DT_MUST_USE;
// attrs.axes name dims below `rank`; ascending and without repetition.
dt_status_t dt__infer_axes(const dt_infer_t *ctx, uint32_t rank) DT_MUST_USE;
// attrs.axes name exactly one dim below `rank`.
dt_status_t dt__infer_axis(const dt_infer_t *ctx, uint32_t rank) DT_MUST_USE;
// attrs.syms hold exactly `n` expressions.
dt_status_t dt__infer_syms(const dt_infer_t *ctx, uint32_t n) DT_MUST_USE;
// Learns that `e` is not negative where `follows` says that this follows from what is known, though
// expressions, which are sums of products, need not show it. `k`: its argument.
typedef bool (*dt_infer_follows_fn_t)(const dt_infer_t *ctx, dt_sym_t e, uint32_t k);
dt_status_t dt__infer_natural(const dt_infer_t *ctx, dt_sym_t e, dt_infer_follows_fn_t follows,
                              uint32_t k) DT_MUST_USE;
// `e` can be a size: not negative and, where it is made of data, below the limit that the sizes of
// arguments keep. `what` begins the message: "the size" of dim `dim`.
dt_status_t dt__infer_size(const dt_infer_t *ctx, dt_sym_t e, const char *what,
                           uint32_t dim) DT_MUST_USE;
// attrs' literal rounded or checked for `dtype`.
dt_status_t dt__infer_value(const dt_infer_t *ctx, dt_dtype_t dtype) DT_MUST_USE;
// Both say "one of them is 1" or "equal" for a dim of size `in` repeated to `out`.
dt_sym_t dt__infer_repeats(dt_symenv_t *env, dt_sym_t in, dt_sym_t out);

// What is printed of a value: its name (or %id), and its dtype and sizes.
void dt__print_name(const dt_graph_t *graph, dt_node_id_t id, dt_text_t *out);
void dt__print_sizes(const dt_symenv_t *env, uint32_t rank, const dt_sym_t *sizes, dt_text_t *out);

// What `result` reads: the node of a body (`cond`: of the first) that gives output attrs.index.
typedef struct dt_infer_output_t {
  dt_dtype_t dtype;
  uint32_t rank;
  const dt_sym_t *sizes;
} dt_infer_output_t;
dt_status_t dt__infer_output(const dt_infer_t *ctx, dt_infer_output_t *out) DT_MUST_USE;

// ---- Rules (columns of ops.def) -----------------------------------------------------------------
// Which attributes ops of the rule read, whether they compute with their inputs
// (dt_op_info_t.computes), and whether they take low-bit dtypes (dt_op_info_t.moves).
#define DT_DTYPE_RULES                                                                             \
  DTYPE_RULE(same, 0, false, true)                                                                 \
  DTYPE_RULE(float_only, 0, true, false)                                                           \
  DTYPE_RULE(number, 0, true, false)                                                               \
  DTYPE_RULE(integer, 0, false, false)                                                             \
  DTYPE_RULE(logic, 0, false, false)                                                               \
  DTYPE_RULE(compare, 0, true, false)                                                              \
  DTYPE_RULE(order, 0, true, false)                                                                \
  DTYPE_RULE(float_test, 0, true, false)                                                           \
  DTYPE_RULE(arg, 0, true, false)                                                                  \
  DTYPE_RULE(attr, DT_ATTR_DTYPE, false, false)                                                    \
  DTYPE_RULE(cast, DT_ATTR_DTYPE | DT_ATTR_MODE, false, true)                                      \
  DTYPE_RULE(bits, DT_ATTR_DTYPE, false, true)                                                     \
  DTYPE_RULE(iota, DT_ATTR_DTYPE, false, false)                                                    \
  DTYPE_RULE(where, 0, false, true)                                                                \
  DTYPE_RULE(gather, 0, false, true)                                                               \
  DTYPE_RULE(scatter, 0, false, true) /* widened by their decomposition */                         \
  DTYPE_RULE(index, 0, false, false)                                                               \
  DTYPE_RULE(item, 0, false, false)                                                                \
  DTYPE_RULE(search, 0, true, false)                                                               \
  DTYPE_RULE(compress, 0, false, false)                                                            \
  DTYPE_RULE(select, 0, false, false)                                                              \
  DTYPE_RULE(input, 0, false, true)                                                                \
  DTYPE_RULE(constant, 0, false, true)                                                             \
  DTYPE_RULE(control, 0, false, false)                                                             \
  DTYPE_RULE(result, 0, false, false)                                                              \
  DTYPE_RULE(external, 0, false, false)

#define DTYPE_RULE(name, attrs, computes, moves)                                                   \
  dt_status_t dt__dtype_rule_##name(dt_infer_t *ctx) DT_MUST_USE;
DT_DTYPE_RULES
#undef DTYPE_RULE

// Which attributes ops of the rule read.
#define DT_SHAPE_RULES                                                                             \
  RULE(input, DT_ATTR_INDEX)                                                                       \
  RULE(constant, DT_ATTR_INDEX)                                                                    \
  RULE(scalar, DT_ATTR_VALUE)                                                                      \
  RULE(size, DT_ATTR_SYMS)                                                                         \
  RULE(iota, DT_ATTR_SYMS | DT_ATTR_AXES)                                                          \
  RULE(same, 0)                                                                                    \
  RULE(axis, DT_ATTR_AXES)                                                                         \
  RULE(reduce, DT_ATTR_AXES | DT_ATTR_KEEPDIMS)                                                    \
  RULE(reshape, DT_ATTR_SYMS)                                                                      \
  RULE(permute, DT_ATTR_AXES)                                                                      \
  RULE(expand, DT_ATTR_SYMS)                                                                       \
  RULE(slice, DT_ATTR_SYMS | DT_ATTR_STEPS)                                                        \
  RULE(pad, DT_ATTR_SYMS | DT_ATTR_VALUE)                                                          \
  RULE(concat, DT_ATTR_AXES)                                                                       \
  RULE(gather, DT_ATTR_AXES)                                                                       \
  RULE(gather_elements, DT_ATTR_AXES)                                                              \
  RULE(gather_nd, DT_ATTR_N_AXES)                                                                  \
  RULE(scatter_elements, DT_ATTR_AXES | DT_ATTR_MODE)                                              \
  RULE(scatter_nd, DT_ATTR_MODE)                                                                   \
  RULE(item, DT_ATTR_SYMS | DT_ATTR_BINDS)                                                         \
  RULE(scan, DT_ATTR_AXES | DT_ATTR_MODE)                                                          \
  RULE(search, DT_ATTR_MODE)                                                                       \
  RULE(compress, DT_ATTR_SYMS)                                                                     \
  RULE(nonzero, DT_ATTR_SYMS)                                                                      \
  RULE(select, DT_ATTR_SYMS)                                                                       \
  RULE(cond, DT_ATTR_INDEX)                                                                        \
  RULE(call, DT_ATTR_INDEX)                                                                        \
  RULE(switch, DT_ATTR_INDEX)                                                                      \
  RULE(while, DT_ATTR_INDEX)                                                                       \
  RULE(associative_scan, DT_ATTR_INDEX | DT_ATTR_AXES)                                             \
  RULE(result, DT_ATTR_INDEX)                                                                      \
  RULE(external, DT_ATTR_INDEX | DT_ATTR_SYMS)                                                     \
  RULE(window, DT_ATTR_N_AXES | DT_ATTR_SYMS)                                                      \
  RULE(overlap, DT_ATTR_N_AXES | DT_ATTR_SYMS)                                                     \
  RULE(conv, DT_ATTR_N_AXES | DT_ATTR_SYMS)                                                        \
  RULE(conv_transpose, DT_ATTR_N_AXES | DT_ATTR_SYMS)                                              \
  RULE(matmul, 0)                                                                                  \
  RULE(norm, DT_ATTR_N_AXES | DT_ATTR_EPSILON)

#define RULE(name, attrs) dt_status_t dt__shape_rule_##name(dt_infer_t *ctx) DT_MUST_USE;
DT_SHAPE_RULES
#undef RULE

#endif // DT_LOWER_GRAPH_INFER_H

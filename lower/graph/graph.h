// SPDX-License-Identifier: Apache-2.0
// The graph IR: small, functional, one result a node. Ops come from ops.def; sizes are symbolic
// expressions in the graph's environment. A graph is appended to and then frozen; passes build a
// new graph instead of editing one.
//
// A node's id is its value's id; inputs have smaller ids, so ids are a topological order.
// Element-wise ops take inputs of one shape: broadcasting is an explicit `expand`
// (dt__graph_broadcast makes it). There is no implicit conversion of dtypes either: `cast` says it.
#ifndef DT_LOWER_GRAPH_GRAPH_H
#define DT_LOWER_GRAPH_GRAPH_H

#include "ductile/base.h"
#include "lower/graph/scalar.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "symshape/symshape.h"

// The ops of ops.def. Ids from DT_OP_COUNT on are kept for ops that a runtime registers: whoever
// holds an id asks dt__op_info what it is.
typedef enum dt_op_t {
  DT_OP_NONE = 0,
#define OP(name, arity, flags, dtype_rule, shape_rule, decompose, lower, eval, build, derivative,  \
           batch, doc)                                                                             \
  DT_OP_##name,
#include "lower/graph/ops.def"
  DT_OP_COUNT
} dt_op_t;

// Flags of ops.def rows.
enum {
  DT_OPF_EW = 1,        // element-wise: all inputs and the result have one shape
  DT_OPF_COMM = 2,      // a op b == b op a
  DT_OPF_ASSOC = 4,     // exact for integers; floats are never reassociated by passes
  DT_OPF_VIEW = 8,      // only renames indices: never becomes a kernel of its own accord
  DT_OPF_REDUCE = 16,   // folds the dims in attrs.axes
  DT_OPF_LEAF = 32,     // no inputs
  DT_OPF_COMPOSITE = 64 // must be decomposed before lowering
};

typedef struct dt_node_id_t {
  uint32_t id; // 1 … node count; 0 is none
} dt_node_id_t;

// Bits of attrs.mode.
enum { DT_SCAN_EXCLUSIVE = 1, DT_SCAN_REVERSE = 2, DT_SCAN_WHOLE = 4 }; // WHOLE: rows stay whole
enum { DT_SEARCH_INCLUSIVE = 1 };
// How a scatter's updates join what they meet; APART, with one of them: no two meet each other.
enum {
  DT_JOIN_REPLACE,
  DT_JOIN_ADD,
  DT_JOIN_MUL,
  DT_JOIN_MAX,
  DT_JOIN_MIN,
  DT_JOIN_COUNT,
  DT_JOIN_APART = 8
};

// Attributes; which fields an op reads stands in its ops.def doc. Unused fields are zero, so that
// attributes compare and hash as bytes (padding included: always start from {0}).
typedef struct dt_attrs_t {
  dt_dtype_t dtype; // cast, scalar, iota, size
  uint32_t
      index; // input, constant: which; cond, switch, while, call: of graph->controls; result: which
             // external: of graph->externals
  uint32_t n_axes; // reductions (ascending), permute (order), concat, gather, iota, softmax (one)
                   // windows: how many dims they have
  int32_t axes[DT_MAX_RANK];
  uint32_t keepdims; // reductions: 1 keeps folded dims as size 1
  uint32_t mode;     // cumsum: DT_SCAN_* joined; searchsorted: DT_SEARCH_*; scatters: DT_JOIN_*
                     // cast: DT_CAST_* joined
  uint32_t n_syms;   // reshape, expand, iota: result sizes; slice: start then size, a pair a dim;
  dt_sym_t syms[2 * DT_MAX_RANK]; // pad: low then high, a pair a dim; size, item, nonzero: one;
                                  // windows: four a dim, and groups
  int64_t ints[DT_MAX_RANK];      // slice: step of each dim (not 0); scalar of an integer: ints[0]
  double floats[2]; // scalar of a float: [0]; layer_norm, rms_norm: epsilon; pad: fill value
} dt_attrs_t;

typedef struct dt_node_t {
  dt_op_t op;
  dt_dtype_t dtype;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];
  uint32_t n_inputs;
  const dt_node_id_t *inputs;
  const dt_attrs_t *attrs;
  dt_origin_t origin;
} dt_node_t;

// An argument of the function: what a call must bring. Strides are what layout guards promise: in
// elements, expressions in the sizes (contiguous) or INT symbols of their own.
typedef struct dt_graph_input_t {
  const char *name; // "" when unnamed
  dt_dtype_t dtype;
  uint32_t rank;
  dt_sym_t sizes[DT_MAX_RANK];
  dt_sym_t strides[DT_MAX_RANK];
  bool contiguous; // strides are the contiguous ones
  uint32_t align;  // of the data, in bytes, a power of two; 0: the dtype's
  bool donated;    // its elements may be anything after the call
  // An integer or boolean argument: rank 0, in host memory, read when guards are run. Its value is
  // the symbol `value`; no kernel reads its memory.
  bool is_int;
  dt_sym_t value;
} dt_graph_input_t;

// An integer outside of the call's arguments that the program read: part of the call's guards.
typedef struct dt_graph_capture_t {
  const char *name;
  dt_sym_t value; // a symbol, or a literal where it was specialised
} dt_graph_capture_t;

// A value that the call writes into an input's memory, after everything has read it.
typedef struct dt_graph_update_t {
  uint32_t input;
  dt_node_id_t value; // of the input's dtype and sizes
} dt_graph_update_t;

// A constant: contiguous host data, borrowed for the graph's life, static sizes. `key` is its
// identity across variants and updates (never 0).
typedef struct dt_graph_constant_t {
  const char *name;
  dt_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[DT_MAX_RANK];
  const void *data;
  uint64_t key;
} dt_graph_constant_t;

// A check a call must pass at run time besides its guards. It is made as soon as the newest
// unbacked symbol in `cond` is bound, before anything uses that symbol (at entry when there is
// none).
typedef struct dt_graph_assert_t {
  dt_sym_t cond;
  const char *what;
  dt_origin_t origin;
  dt_code_t code; // what a call that fails it gets; DT_OK: DT_E_SHAPE
} dt_graph_assert_t;

// The bodies of a `cond` (then, else), of a `switch` (its cases), of a `while` (test, body) or of a
// `call` (the one):
// graphs in the same environment that read operands as their inputs, in order, without the
// predicate. They have no constants, captures, asserts or updates and bind no symbols. Branches
// agree in their outputs' dtypes, ranks and sizes; a test gives one rank-0 bool; a body's outputs
// are the new state, as many as the state and each of its dtype and sizes. The one body of an
// `associative_scan` has only nodes of rank 0: its inputs are the elements on the left, those on
// the right and what is captured. Shared by graphs that passes make of one another.
#define DT_MOST_CASES 64u
typedef struct dt_graph_control_t {
  const struct dt_graph *bodies[DT_MOST_CASES]; // the others are NULL
  uint32_t same; // call: 1 + an earlier control of this graph whose body it is; 0: it has its own
} dt_graph_control_t;
static inline uint32_t dt__control_n(const dt_graph_control_t *control) {
  uint32_t n = 0;
  while (n < DT_MOST_CASES && control->bodies[n])
    n++;
  return n;
}

// Of these, those that no earlier control of the graph has.
static inline uint32_t dt__control_own_n(const dt_graph_control_t *control) {
  return control->same ? 0 : dt__control_n(control);
}
// Bodies in bodies; deeper ones are refused.
#define DT_MOST_BODY_DEPTH 32u

// How a result lies in memory, without gaps: its dims from the outermost to the innermost.
typedef struct dt_graph_order_t {
  uint8_t dims[DT_MAX_RANK];
  uint32_t
      like; // 1 + the input whose order it is: calls with another one have another graph. Where
            // that has none the result is row-major. 0: the order is the program's
} dt_graph_order_t;

// A call of a user's op (external.h).
typedef struct dt_graph_external_t dt_graph_external_t;

typedef struct dt_graph {
  dt_arena_t *arena;       // owns everything below; borrowed
  dt_symenv_t *env;        // borrowed
  DT_VEC(dt_node_t) nodes; // nodes.items[id - 1]
  DT_VEC(dt_graph_input_t) inputs;
  DT_VEC(dt_graph_constant_t) constants;
  DT_VEC(dt_node_id_t) outputs;
  DT_VEC(dt_graph_assert_t) asserts;
  DT_VEC(dt_graph_capture_t) captures;
  DT_VEC(dt_graph_update_t) updates; // at most one an input
  DT_VEC(dt_graph_control_t) controls;
  DT_VEC(const dt_graph_external_t *) externals;
  DT_VEC(dt_graph_order_t) orders; // of the first outputs; others are row-major
} dt_graph_t;

// An empty graph in `arena`; NULL without memory.
dt_graph_t *dt__graph_create(dt_arena_t *arena, dt_symenv_t *env);

static inline const dt_node_t *dt__graph_node(const dt_graph_t *graph, dt_node_id_t id) {
  return &graph->nodes.items[id.id - 1];
}

// ---- Building -----------------------------------------------------------------------------------
// Checks inputs and attributes, infers dtype and sizes, appends. Failures name the op, the
// argument, what was expected and what came, with sizes of all inputs printed: DT_E_SHAPE,
// DT_E_DTYPE, DT_E_ARGUMENT, DT_E_LIMIT. May ask the environment for guards (dt__sym_require).
// `out` may be one of the inputs. A reshape may give one size as the literal -1: the node then has
// the size that fits.
dt_status_t dt__graph_add(dt_graph_t *graph, dt_op_t op, const dt_node_id_t *inputs,
                          uint32_t n_inputs, const dt_attrs_t *attrs /* NULL: all zero */,
                          const dt_origin_t *origin, dt_node_id_t *out) DT_MUST_USE;
// Declares the next input or constant and its leaf node. The struct is copied, names too.
dt_status_t dt__graph_add_input(dt_graph_t *graph, const dt_graph_input_t *input,
                                dt_node_id_t *out) DT_MUST_USE;
dt_status_t dt__graph_add_constant(dt_graph_t *graph, const dt_graph_constant_t *constant,
                                   const dt_origin_t *origin, dt_node_id_t *out) DT_MUST_USE;
// Brings `values` to one shape by the broadcasting rule (aligned at the last dim, sizes equal or
// 1), inserting reshape and expand nodes; nodes already of that shape stay as they are.
dt_status_t dt__graph_broadcast(dt_graph_t *graph, dt_node_id_t *values, uint32_t n,
                                const dt_origin_t *origin) DT_MUST_USE;
// The size that sizes `a` and `b` broadcast to, where `*must` holds: they are equal or one of them
// is 1. Sizes whose hints are equal are taken to be: another call makes another variant. Where one
// is of data, which makes none, or a hint is 1, the size is selected at run time. Ids are 0 where
// memory ran out.
dt_sym_t dt__graph_broadcast_size(dt_symenv_t *env, dt_sym_t a, dt_sym_t b, dt_sym_t *must);
// A rank-0 literal of `dtype`, expanded to `sizes`.
dt_status_t dt__graph_full(dt_graph_t *graph, dt_dtype_t dtype, double value, uint32_t rank,
                           const dt_sym_t *sizes, const dt_origin_t *origin,
                           dt_node_id_t *out) DT_MUST_USE;
dt_status_t dt__graph_add_output(dt_graph_t *graph, dt_node_id_t value) DT_MUST_USE;
// Of an output that has been added; after that of the one before it. DT_E_ARGUMENT: no order of its
// dims; DT_E_UNSUPPORTED: elements share bytes, and it is not row-major.
dt_status_t dt__graph_add_order(dt_graph_t *graph, const dt_graph_order_t *order) DT_MUST_USE;
// Of output `index`; NULL: row-major, whatever a call brings.
static inline const dt_graph_order_t *dt__graph_order(const dt_graph_t *graph, uint32_t index) {
  return index < graph->orders.len ? &graph->orders.items[index] : NULL;
}
// Whether calls must bring input `index` with dims in one order, and which (as a tensor has it).
bool dt__graph_input_order(const dt_graph_t *graph, uint32_t index, uint32_t *out);
// The next captured integer; the name is copied.
dt_status_t dt__graph_add_capture(dt_graph_t *graph, const dt_graph_capture_t *capture) DT_MUST_USE;
// A value of the input's dtype and rank, whose sizes are the input's at each call (the caller sees
// to that); an input is in one of them at most.
dt_status_t dt__graph_add_update(dt_graph_t *graph, const dt_graph_update_t *update) DT_MUST_USE;

// A `cond`, `switch`, `while`, `associative_scan` or `call` over bodies that are complete.
// `inputs`: the predicate and operands, or the state (what is scanned) and what is captured, or
// the operands. A body that an earlier `call` of the graph has is shared with it. `others`:
// attributes
// besides the bodies, or NULL.
dt_status_t dt__graph_add_control(dt_graph_t *graph, dt_op_t op, const dt_graph_control_t *control,
                                  const dt_node_id_t *inputs, uint32_t n_inputs,
                                  const dt_attrs_t *others, const dt_origin_t *origin,
                                  dt_node_id_t *out) DT_MUST_USE;
static inline bool dt__op_is_control(dt_op_t op) {
  return op == DT_OP_cond || op == DT_OP_switch || op == DT_OP_while ||
         op == DT_OP_associative_scan || op == DT_OP_call;
}
// The bodies of one of these.
static inline const dt_graph_control_t *dt__graph_control(const dt_graph_t *graph,
                                                          const dt_node_t *node) {
  return &graph->controls.items[node->attrs->index];
}
// 1 + the first of the graph's controls before `end` with this first body, or 0.
uint32_t dt__control_same(const dt_graph_t *graph, const dt_graph_t *body, uint32_t end);
// While new bodies are made of `from`'s, control by control: `to`'s control k is that of a body
// which has been made, where it shares one, and true is given.
static inline bool dt__control_shares(const dt_graph_control_t *from, dt_graph_control_t *to,
                                      uint32_t k) {
  to[k].same = from[k].same;
  if (from[k].same)
    to[k].bodies[0] = to[from[k].same - 1].bodies[0];
  return from[k].same != 0;
}
// What the bodies are called: then, else, case, test, body, combine.
const char *dt__control_body_name(dt_op_t op, uint32_t body);
// A copy of the bodies, and of theirs, with `env` as environment; nodes are shared.
dt_status_t dt__graph_rehome_controls(dt_graph_t *graph) DT_MUST_USE;

// The graph with all that it is made of, bodies included, in another arena; the environment, data
// of constants and texts of origins are shared.
dt_status_t dt__graph_copy(dt_arena_t *arena, const dt_graph_t *graph,
                           dt_graph_t **out) DT_MUST_USE;

// The nodes that outputs, updates and asserts need, by id - 1: those they are made of, and the
// items of all symbols in sizes and attributes of such nodes.
dt_status_t dt__graph_live(const dt_graph_t *graph, dt_arena_t *arena, bool **out) DT_MUST_USE;

// ---- Op table -----------------------------------------------------------------------------------
typedef enum dt_lower_kind_t {
  DT_LOWER_none,
  DT_LOWER_leaf,
  DT_LOWER_ew,   // the scalar op of the same name (scalar_ops.def)
  DT_LOWER_part, // the same; only decompositions make it
  DT_LOWER_cast,
  DT_LOWER_bits,   // DT_INST_BITS, or the bytes of packed elements
  DT_LOWER_view,   // index map
  DT_LOWER_reduce, // the scalar op that folds, by the row's name
  DT_LOWER_argreduce,
  DT_LOWER_gather,
  DT_LOWER_gather_at, // elements at places that indices say, dim by dim
  DT_LOWER_scatter,   // a copy, then revising stores at such places
  DT_LOWER_pad,
  DT_LOWER_concat,
  DT_LOWER_matmul,
  DT_LOWER_overlap,  // sums of masked loads
  DT_LOWER_item,     // a cast into a rank-0 I64 buffer that the program lists in `items`
  DT_LOWER_scan,     // inclusive, forwards (mode 0 or WHOLE): the running fold of its axis
  DT_LOWER_search,   // DT_INST_SEARCH
  DT_LOWER_compress, // masked stores at DATA indices
  DT_LOWER_control,  // regions of the program around the bodies' kernels
  DT_LOWER_external, // a kernel that names the call
} dt_lower_kind_t;

// An op: its row of ops.def at run time.
typedef struct dt_infer_t dt_infer_t;
typedef dt_status_t (*dt_infer_rule_t)(dt_infer_t *ctx);
typedef struct dt_op_info_t {
  const char *name;
  int arity; // -1: any number, at least one
  uint32_t flags;
  uint32_t attrs;                           // which of them it reads: DT_ATTR_* of infer.h
  dt_infer_rule_t infer_dtype, infer_shape; // of its result, in this order
  dt_lower_kind_t lower;
  dt_scalar_op_t scalar; // that it is lowered to, element by element; or none
  bool has_decomposition;
  // Its inputs' values matter, not only their places: halves are widened to f32 before it, and its
  // result is rounded after it. Others move elements, or convert them (cast).
  bool computes;
  bool moves; // elements, of low-bit dtypes, too, or converts them: others refuse these
  const char *doc;
} dt_op_info_t;
const dt_op_info_t *dt__op_info(dt_op_t op); // of what is no op: a row named "none"
bool dt__op_exists(dt_op_t op);
// The op named `name` of `len` characters, or DT_OP_NONE.
dt_op_t dt__op_find(const char *name, size_t len);

// ---- Checking and text --------------------------------------------------------------------------
// Every invariant above, for graphs of any origin (a parsed file). DT_E_FORMAT naming the node.
dt_status_t dt__graph_verify(const dt_graph_t *graph) DT_MUST_USE;
// Deterministic: values renumbered in order, no addresses; constants by name, dtype and sizes, and
// with their data when small. Reads back with dt__graph_parse.
void dt__graph_print(const dt_graph_t *graph, dt_text_t *out);
void dt__graph_print_whole(const dt_graph_t *graph, dt_text_t *out); // all constants' data, too
// A fresh graph in `arena` with symbols in `env` (which must be empty).
dt_status_t dt__graph_parse(dt_arena_t *arena, dt_symenv_t *env, dt_scan_t *scan,
                            dt_graph_t **out) DT_MUST_USE;
// The same over data that the caller has: `data` holds, by constant in the text's order, addresses
// of as many elements as the text says, borrowed for the graph's life.
dt_status_t dt__graph_parse_over(dt_arena_t *arena, dt_symenv_t *env, dt_scan_t *scan,
                                 const void *const *data, dt_graph_t **out) DT_MUST_USE;
// Whole graphs in files, and parts of them (store.c; runtime/base/stream.h). A graph is read into
// an empty one, whose environment has its expressions; it is then to be given the data of its
// constants, and the ops of its externals, and to be verified.
struct dt_stream_t;
void dt__graph_store(struct dt_stream_t *s, dt_graph_t *graph);
void dt__sym_store(struct dt_stream_t *s, const dt_symenv_t *env, dt_sym_t *e); // may be none
void dt__dtype_store(struct dt_stream_t *s, dt_dtype_t *dtype);
void dt__origin_store(struct dt_stream_t *s, dt_origin_t *origin); // texts are the stream's names
// Structural equality of attributes, for common subexpressions.
bool dt__attrs_equal(const dt_attrs_t *a, const dt_attrs_t *b);

#endif // DT_LOWER_GRAPH_GRAPH_H

// SPDX-License-Identifier: Apache-2.0
// Random tensor programs as data: generated from a seed, checked, replayed on a trace, written as
// text and read back, shrunk. What an instruction takes from sizes it takes from its operands'
// dims, so that an instruction stays valid when what stands before it is changed.
//
// Instead of symbolic algebra each dim is carried as its values at all shapes of the program and at
// a few sets of large primes: two dims are taken to be equal when they are so everywhere.
#ifndef DT_TESTS_CONFORM_RANDOM_GRAPH_H
#define DT_TESTS_CONFORM_RANDOM_GRAPH_H

#include "ductile/ductile.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

enum {
  RG_NODES = 96,
  RG_ARGS = 4,
  RG_NUMBERS = 16,
  RG_RANK = 5,
  RG_SYMBOLS = 3, // m, n, k
  RG_SHAPES = 32, // calls of one function, at most
  RG_USUAL_SHAPES = 8,
  RG_PRIMES = 3,
  RG_POINTS = RG_SHAPES + RG_PRIMES, // where dims are evaluated
  RG_OUTPUTS = 4,
  RG_UPDATES = 2,
  RG_LAYOUTS = 7,
};

// The numbers of an instruction, by form:
//   input, constant  a dim each: a literal, or -1, -2, -3 for m, n, k; then the fill, and its bound
//   size             axis                    iota        axis; the sizes are those of the operand
//   permute          axes                    transpose   two axes
//   unsqueeze, squeeze, along   axis         argreduce   axis, keepdims
//   regroup          axes in their new order, -1 between groups that become one dim
//   split            axis, factor, whether the factor comes first
//   flatten          first and last axis that become one, by the size -1
//   reshape_like     (operand 1 gives the sizes)
//   expand           axis (-1: a new leading dim), then the literal size, or the axis of operand 1
//   slice            axis, mode (rg_slice_t), number; LITERAL: start, size, step
//   concat           axis                    pad         low and high of each dim
//   gather           axis, whether the indices are used as they are
//   reduce           keepdims, axes (none: all)
//   branch           axis, number: negates where the size is below it
// and those of random_data.c, whose operands say places, amounts or ways:
//   scan             axis, dt_cumsum_mode_t  search      whether inclusive
//   pick             axis                    scatter     axis, dt_scatter_mode_t
//   scatter_rows     dt_scatter_mode_t       conv, conv_transpose  stride, dilation, padding
//   call_…           axis (else 0), which result
typedef enum rg_form_t {
  RG_FORM_input,
  RG_FORM_constant,
  RG_FORM_scalar,
  RG_FORM_size,
  RG_FORM_iota,
  RG_FORM_unary,
  RG_FORM_test,
  RG_FORM_cast,
  RG_FORM_binary,
  RG_FORM_compare,
  RG_FORM_where,
  RG_FORM_ternary,
  RG_FORM_permute,
  RG_FORM_transpose,
  RG_FORM_unsqueeze,
  RG_FORM_squeeze,
  RG_FORM_regroup,
  RG_FORM_split,
  RG_FORM_flatten,
  RG_FORM_reshape_like,
  RG_FORM_expand,
  RG_FORM_slice,
  RG_FORM_concat,
  RG_FORM_pad,
  RG_FORM_gather,
  RG_FORM_reduce,
  RG_FORM_argreduce,
  RG_FORM_along,
  RG_FORM_layer_norm,
  RG_FORM_rms_norm,
  RG_FORM_matmul,
  RG_FORM_branch,
  RG_FORM_scan, // and all that follow are rows of random_data.c
  RG_FORM_search,
  RG_FORM_pick,
  RG_FORM_pick_rows,
  RG_FORM_scatter,
  RG_FORM_scatter_rows,
  RG_FORM_places,
  RG_FORM_select,
  RG_FORM_item,
  RG_FORM_cond,
  RG_FORM_switch,
  RG_FORM_while,
  RG_FORM_call,
  RG_FORM_conv,
  RG_FORM_conv_transpose,
  RG_FORM_call_axis, // and all that follow are calls of users' ops
  RG_FORM_call_where,
  RG_FORM_call_pair,
} rg_form_t;

typedef enum rg_style_t { RG_STYLE_exact, RG_STYLE_tame, RG_STYLE_wild } rg_style_t;

typedef enum rg_op_t {
#define RG_OP(name, form, domain, weight, style) RG_##name,
#include "test/conform/graphs/random_ops.def"
  RG_OP_COUNT
} rg_op_t;

typedef struct rg_op_info_t {
  const char *name;
  rg_form_t form;
  char domain;
  uint32_t weight;
  rg_style_t style;
} rg_op_info_t;
extern const rg_op_info_t rg_ops[RG_OP_COUNT];

typedef enum rg_slice_t {
  RG_SLICE_HALF,     // the first dim // 2
  RG_SLICE_REST,     // the other ones
  RG_SLICE_TAIL,     // all but the first `number`
  RG_SLICE_FIRST,    // at most `number`
  RG_SLICE_REVERSE,  // all, backwards
  RG_SLICE_EVERY,    // every `number`-th
  RG_SLICE_BACKWARD, // the same, backwards from the last
  RG_SLICE_NONE,     // nothing
  RG_SLICE_LITERAL,  // of a literal dim
  RG_SLICE_COUNT
} rg_slice_t;

typedef enum rg_fill_t {
  RG_FILL_WHOLE,  // small whole numbers
  RG_FILL_SMOOTH, // ordinary numbers
  RG_FILL_ANY,    // and NaN, infinities, zeros of both signs, denormals, large integers
  RG_FILL_INDEX,  // in [-bound, bound)
  RG_FILL_COUNT
} rg_fill_t;

typedef struct rg_dim_t {
  int64_t at[RG_POINTS];
} rg_dim_t;

typedef struct rg_node_t {
  rg_op_t op;
  dt_dtype_t dtype; // given for input, constant, scalar, iota and cast; else the result of checking
  uint32_t n_args, args[RG_ARGS]; // earlier nodes
  uint32_t n_numbers;
  int32_t numbers[RG_NUMBERS];
  double value; // of scalar and pad
  // Results of rg_check.
  uint32_t rank;
  rg_dim_t dims[RG_RANK];
} rg_node_t;

typedef struct rg_call_t {
  int64_t sizes[RG_SYMBOLS];
  int32_t layout; // rg_layout_t
} rg_call_t;

// How a call's arguments lie. Inputs that are updated have memory of their own, without two indices
// for one element; on layouts that cannot give that they are as in GAPS.
typedef enum rg_layout_t {
  RG_LAYOUT_PLAIN,    // contiguous
  RG_LAYOUT_GAPS,     // each dim with a gap
  RG_LAYOUT_TURNED,   // dims in reversed order, the last backwards
  RG_LAYOUT_REPEATED, // the first dim has stride 0
  RG_LAYOUT_CROSSED,  // all strides are 1: elements of different indices are one
  RG_LAYOUT_SHARED,   // inputs of one dtype and dims are one tensor
  RG_LAYOUT_OVERLAID, // of these each begins an element behind the one before, in one memory
} rg_layout_t;

typedef struct rg_program_t {
  uint64_t seed; // of the generator and of the arguments' values
  uint32_t n_symbols;
  bool prepare; // compiled before the first call
  bool bounded; // sizes are declared to lie where those of the calls do
  bool asks;    // distinguishes regions of sizes: result of rg_check
  dt_dynamic_t dynamic;
  bool strict;
  bool odd; // calls may come in any layout: known to the generator alone
  uint32_t threads;
  uint32_t n_calls;
  rg_call_t calls[RG_SHAPES];
  int64_t primes[RG_PRIMES][RG_SYMBOLS];
  uint32_t n_nodes;
  rg_node_t nodes[RG_NODES];
  uint32_t n_outputs, outputs[RG_OUTPUTS];
  uint32_t n_updates; // at the end of the program, of different inputs
  struct {
    uint32_t input, value;
  } updates[RG_UPDATES];
} rg_program_t;

// Limits of one value, so that a program takes well under a second to evaluate.
enum { RG_MAX_ELEMENTS = 20000, RG_MAX_WORK = 600000 };

static inline uint32_t rg_point_count(const rg_program_t *p) { return p->n_calls + RG_PRIMES; }
// Points 0 … n_calls - 1 are the calls, the rest the primes.
int64_t rg_symbol_at(const rg_program_t *p, uint32_t symbol, uint32_t point);
// Whether instructions may be calls of users' ops.
static inline bool rg_has_calls(const rg_program_t *p) { return p->seed % 4 == 3; }
bool rg_is_updated(const rg_program_t *p, uint32_t node);
bool rg_dim_same(const rg_program_t *p, const rg_dim_t *a, const rg_dim_t *b);
bool rg_dim_is(const rg_program_t *p, const rg_dim_t *dim, int64_t value);

// Checks node `i` against those before it and fills its dtype and dims; false: not valid.
bool rg_check_node(rg_program_t *p, uint32_t i);
// All of it. Sets `asks`.
bool rg_check(rg_program_t *p);

// A valid program.
void rg_generate(uint64_t seed, uint32_t n_calls, rg_program_t *out);
uint32_t rg_random(uint64_t *state); // 32 random bits
static inline uint32_t rg_below(uint64_t *state, uint32_t n) { return rg_random(state) % n; }

// The program as a dt_program_fn_t; the closure is a rg_replay_t.
typedef struct rg_replay_t {
  const rg_program_t *program;
  dt_tensor_t *const *constants; // by node
  bool calls;                    // users' ops are called, else written out
} rg_replay_t;
dt_status_t rg_replay(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out, void *closure);

void rg_print(const rg_program_t *p, dt_text_t *out);
dt_status_t rg_parse(dt_scan_t *scan, rg_program_t *out) DT_MUST_USE;

// Removes nodes that no output needs; operands are renumbered.
void rg_sweep(rg_program_t *p);
// Makes the program smaller while `fails` says so; `fails` is asked about valid programs only and
// is not asked again after it returned RG_STOP.
typedef enum rg_verdict_t { RG_GOOD, RG_FAILS, RG_STOP } rg_verdict_t;
typedef rg_verdict_t (*rg_fails_fn_t)(void *user, const rg_program_t *p);
void rg_shrink(rg_program_t *p, rg_fails_fn_t fails, void *user);

#endif // DT_TESTS_CONFORM_RANDOM_GRAPH_H

// SPDX-License-Identifier: Apache-2.0
// A trace under way, and what the builders share: refusing foreign handles, remembering the first
// failure, appending nodes. Include it first: it keeps the public header from renaming builders.
#ifndef DT_RUNTIME_TRACE_BUILDER_H
#define DT_RUNTIME_TRACE_BUILDER_H

#define DT_NO_SOURCE_LINES
#include "runtime/trace/trace.h"

#include "runtime/base/status.h"

// A number read from data, and what it is the element of.
typedef struct dt_trace_item_t {
  dt_value_t value;
  int64_t at[DT_MAX_RANK];
  dt_sym_t number;
} dt_trace_item_t;
// An input as the program sees it.
typedef struct dt_trace_input_t {
  dt_value_t handle;  // what in[] holds; of a tensor marked DT_TRACE_ARGUMENT
  dt_value_t current; // what reading it gives, once it is updated; 0: the handle
  dt_sym_t value;     // of an integer or boolean argument
} dt_trace_input_t;
// What an input was updated to once.
typedef struct dt_trace_version_t {
  dt_value_t value, input; // a node's, and the input's handle
} dt_trace_version_t;

// A given input of kind DT_INPUT_INTEGERS.
typedef struct dt_trace_integers_t {
  dt_value_t handle; // what in[] holds; 0: an input of another kind
  uint32_t n;
  dt_sym_t *symbols;
  dt_sym_t *told; // as the program gets them
} dt_trace_integers_t;

// The nodes [begin, end) of a body, by position. Bodies are traced into the program's graph and
// then cut out: what was made in one is no value for anybody else.
typedef struct dt_trace_body_t {
  uint32_t begin, end;
} dt_trace_body_t;
// A constant made in a body, and the same one outside of it.
typedef struct dt_trace_lift_t {
  dt_value_t inside, outside;
} dt_trace_lift_t;

// A subgraph that was called: another call with its key has its body.
typedef struct dt_trace_subgraph_t {
  dt_branch_fn_t fn;
  void *closure;
  uint32_t n_in, n_out;
  dt_node_id_t call; // its first n_in inputs are operands of the key's types, the others captured
} dt_trace_subgraph_t;

struct dt_node_info_t; // ductile/pass.h

// Whether a trace is a pass's (rewriter.h), and what builders may make in it.
typedef enum dt_trace_pass_t {
  DT_PASS_NONE,      // it is a program's
  DT_PASS_LOOK,      // nothing
  DT_PASS_PLAIN,     // nodes, nothing that calls bring or check
  DT_PASS_CONSTANTS, // and constants
} dt_trace_pass_t;

struct dt_trace {
  uint32_t
      tag; // of its values and symbols where a program sees them: not 0, another trace's differs
  const dt_trace_request_t *request;
  dt_trace_input_t *inputs;      // by input
  bool updates;                  // any input has a `current`
  dt_trace_integers_t *integers; // by given input; NULL: none are spread
  dt_traced_t *traced;           // what is being made; owned by dt__trace_run until it succeeds
  dt_graph_t *graph;             // traced's
  dt_symenv_t *env;              // traced's
  dt_status_t status;            // the first failure; owned
  dt_origin_t origin; // the builder at work and the user's line; strings live as long as `traced`
  bool lost_cond;     // an assumption could not be recorded: no memory
  DT_VEC(dt_value_t) constant_values;  // by index in traced->constants
  DT_VEC(dt_trace_item_t) items;       // in the order they were read
  struct dt_trace_reads_t *reads;      // what users' ops read (op_numbers.c); NULL: nothing
  DT_VEC(dt_trace_version_t) versions; // of updated inputs, in order
  DT_VEC(dt_trace_body_t) bodies;      // that have ended
  DT_VEC(dt_trace_lift_t) lifts;       // constants made in them
  DT_VEC(dt_trace_subgraph_t) subgraphs;
  uint32_t n_open;  // bodies that are being traced
  uint32_t n_calls; // of users' ops, one inside of the other
  dt_trace_pass_t pass;
  // Who sees what builders make (interpose.c); NULL: nobody. Builders that it calls are not seen.
  dt_value_t (*interposer)(dt_trace_t *trace, dt_value_t made, const struct dt_node_info_t *info,
                           const dt_value_t *inputs, void *closure);
  void *interposer_closure;
  bool interposing;
  bool no_calls; // of users' ops: a pattern's program is traced
};

// outputs.c. What the program gave for its results, in the orders that are asked for.
dt_status_t dt__trace_add_outputs(dt_trace_t *trace, const dt_value_t *out) DT_MUST_USE;
// A result takes the order of this input.
bool dt__trace_order_is_asked(const dt_trace_request_t *request, uint32_t input);

// The tag of a new trace, 1 to 255: any 255 of the process, one after the other, have different
// ones.
uint32_t dt__trace_new_tag(void);

// ---- Entry and failure --------------------------------------------------------------------------
// Every builder's first line: false when the trace has failed (or is NULL), so nothing is to be
// done.
bool dt__trace_begin(dt_trace_t *trace, const char *op);
// Remembers `status` as the trace's failure, with the op and the user's line in front where the
// message lacks them. Takes `status`; NULL does nothing. Returns whether the trace is still good.
bool dt__trace_take(dt_trace_t *trace, dt_status_t status);
// dt__trace_take of a fresh failure.
#define DT_TRACE_FAIL(trace, code, ...)                                                            \
  ((void)dt__trace_take((trace), DT_FAIL((code), __VA_ARGS__)))

// ---- Handles ------------------------------------------------------------------------------------
// What a program gets carries the trace's tag, its sizes in the upper bits of their id; what the
// library passes on to its own builders may have none.
#define DT_TRACE_TAG_SHIFT 24
#define DT_TRACE_MOST_SYMS ((uint32_t)1 << DT_TRACE_TAG_SHIFT)
// Beside the tag where in[] holds a tensor: reading it gives its newest value. A value without the
// mark is that of its node, even where an input has the same id.
#define DT_TRACE_ARGUMENT ((uint32_t)1 << 8)
static inline dt_value_t dt__trace_value(const dt_trace_t *trace, dt_node_id_t id) {
  return (dt_value_t){.id = id.id, .trace = id.id ? trace->tag : 0};
}
// The node behind a value; NULL fails the trace, naming the argument as `what`.
const dt_node_t *dt__trace_node(dt_trace_t *trace, dt_value_t x, const char *what);
// What reading `x` gives, whatever is updated later: of an input its newest value, else `x`.
dt_value_t dt__trace_current(const dt_trace_t *trace, dt_value_t x);
// A size from a program, made one of the environment's in place. False fails the trace: it is none,
// or not of this trace.
bool dt__trace_sym(dt_trace_t *trace, dt_sym_t *a, const char *what);
// The opposite: an expression of the environment as a program gets it; none fails the trace.
dt_sym_t dt__trace_told(dt_trace_t *trace, dt_sym_t e);
// `n` symbols at `syms` (checked, NULL refused) into `out`; n at most `most`.
bool dt__trace_syms(dt_trace_t *trace, uint32_t n, const dt_sym_t *syms, uint32_t most,
                    const char *what, dt_sym_t *out);
// The expression, or none with the trace failed when the environment could not make it.
dt_sym_t dt__trace_made(dt_trace_t *trace, dt_sym_t e);
// Counts negative axes from the end; false fails the trace.
bool dt__trace_axis(dt_trace_t *trace, int32_t axis, uint32_t rank, uint32_t *out);
// Learns a condition that holds by construction: no guard, no check.
void dt__trace_known(dt_trace_t *trace, dt_sym_t cond);
// Learns a condition that follows from what was required of `from`. Where that was about data and
// the condition is about numbers that are there before, it is required of those.
void dt__trace_follows(dt_trace_t *trace, dt_sym_t cond, uint32_t n, const dt_sym_t *from);

// ---- Nodes --------------------------------------------------------------------------------------
// Appends `op` and returns its value; none with the trace failed.
dt_value_t dt__trace_add(dt_trace_t *trace, dt_op_t op, const dt_value_t *inputs, uint32_t n,
                         const dt_attrs_t *attrs);
// What stands for a node that a builder made. (interpose.c)
dt_value_t dt__trace_interpose(dt_trace_t *trace, dt_value_t made);
// The same, for element-wise ops: all inputs are checked and brought to one shape first.
// A call of a user's op, or the numbers that one reads.
dt_value_t dt__trace_add_external(dt_trace_t *trace, const dt_graph_external_t *external,
                                  const dt_value_t *inputs, uint32_t n);
dt_value_t dt__trace_add_broadcast(dt_trace_t *trace, dt_op_t op, const dt_value_t *inputs,
                                   uint32_t n, const dt_attrs_t *attrs);
// x with the given sizes by a reshape or an expand node, or what reading x gives where it has them.
dt_value_t dt__trace_reshape(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes);
dt_value_t dt__trace_expand(dt_trace_t *trace, dt_value_t x, uint32_t rank, const dt_sym_t *sizes);
// `size` elements of x along `axis`, from `start` on, `step` apart.
dt_value_t dt__trace_slice(dt_trace_t *trace, dt_value_t x, uint32_t axis, dt_sym_t start,
                           dt_sym_t size, int64_t step);
// Whether numbers may be bound here; false fails the trace, in a body.
bool dt__trace_may_bind(dt_trace_t *trace);
// `number` is bound to `scalar`: kept where it is one that a user's op reads. (op_numbers.c)
void dt__op_note_number(dt_trace_t *trace, dt_value_t scalar, dt_sym_t number);
// A new symbol, in `range`, for the one element of x.
dt_sym_t dt__trace_bind(dt_trace_t *trace, dt_value_t x, dt_range_t range);
// The number that x's one element is: known without reading it, or a symbol that is one however
// often it is asked for, and by whatever views. None with the trace failed. (numbers.c)
dt_sym_t dt__trace_number(dt_trace_t *trace, dt_value_t x);
// A literal for `dtype` into attrs (floats[0] or ints[0]); false fails the trace.
bool dt__trace_literal(dt_trace_t *trace, dt_dtype_t dtype, double value, dt_attrs_t *attrs);

// ---- Inputs (inputs.c) --------------------------------------------------------------------------
// Declares every input in the graph and puts its value into `out`.
dt_status_t dt__trace_declare(dt_trace_t *trace, const dt_trace_request_t *request,
                              dt_value_t *out) DT_MUST_USE;
// The values of the given inputs into `out`, of those of the spread ones. (integers.c)
dt_status_t dt__trace_gather(dt_trace_t *trace, const dt_value_t *in, dt_value_t *out) DT_MUST_USE;
// DT_E_SHAPE where the program needs one size of a dim that is declared dynamic.
dt_status_t dt__trace_check_marks(dt_trace_t *trace) DT_MUST_USE;
// Symbols for captures that earlier traces read and this one did not. (builders_int.c)
dt_status_t dt__trace_finish_captures(dt_trace_t *trace) DT_MUST_USE;
// ---- Bodies of cond, switch and while (bodies.c) ------------------------------------------------
// The body that value `x` was made in has ended.
bool dt__trace_has_ended(const dt_trace_t *trace, dt_value_t x);
// Ends the body with the last node so far; constants made in it go on outside. False fails the
// trace.
bool dt__trace_end_body(dt_trace_t *trace, dt_trace_body_t *body);
// What goes on outside of the body that made the node: of a constant its like, else the node.
dt_node_id_t dt__trace_lifted(const dt_trace_t *trace, dt_node_id_t id);
// Ended bodies as graphs, joined by a `cond`, `switch`, `while`, `associative_scan` or `call` over
// `inputs` and whatever else they read. `states[b]` is the state as body b sees it, by node of the
// trace.
typedef struct dt_trace_control_t {
  dt_op_t op;
  uint32_t n_bodies;
  dt_trace_body_t bodies[DT_MOST_CASES];
  const dt_value_t *outputs[DT_MOST_CASES];
  uint32_t n_outputs[DT_MOST_CASES];
  dt_value_t pred;        // cond, switch
  uint32_t n_state;       // while, call; of an associative_scan twice as many as are scanned
  const dt_value_t *init; // while; call: operands; of an associative_scan what is scanned, twice
  const dt_value_t *states[DT_MOST_CASES]; // by body, n_state
  uint32_t axis;                           // associative_scan
} dt_trace_control_t;
// The node; none with the trace failed.
dt_value_t dt__trace_add_control(dt_trace_t *trace, const dt_trace_control_t *control);
// ---- Bodies under way (builders_control.c) --------------------------------------------------------
// Memory for `n` values; NULL fails the trace.
dt_value_t *dt__trace_values(dt_trace_t *trace, uint32_t n);
// No values, where `out` is given.
void dt__trace_clear(uint32_t n, dt_value_t *out);
// `in` as it reads now; false fails the trace.
bool dt__trace_operands(dt_trace_t *trace, uint32_t n, const dt_value_t *in, const char *what,
                        dt_value_t *out);
// Values of a body that nothing is known of, of the dtypes and sizes of `like`; `elements`: of rank
// 0. False fails the trace.
bool dt__trace_declare_state(dt_trace_t *trace, uint32_t n, const dt_value_t *like, bool elements,
                             dt_value_t *out);
// Runs a body; its outputs are values of the trace.
bool dt__trace_run_body(dt_trace_t *trace, dt_branch_fn_t fn, void *closure, const dt_value_t *in,
                        uint32_t n_out, dt_value_t *out, const char *name);
// Traces body b of `control` over `in`, of which the first n_state are replaced.
bool dt__trace_body(dt_trace_t *trace, dt_trace_control_t *control, uint32_t b, dt_branch_fn_t fn,
                    void *closure, dt_value_t *in, uint32_t n_out);
// What `control` gives, into `out`; none with the trace failed.
void dt__trace_results(dt_trace_t *trace, dt_value_t control, uint32_t n, dt_value_t *out);
// Drops what was traced in bodies from the graph, which no node outside of them uses.
dt_status_t dt__trace_drop_bodies(dt_trace_t *trace) DT_MUST_USE;

// The handle of the argument that the node is a value of, or was; or none. (builders_update.c)
// Whether two handles of in[] are one argument, or arguments in one memory in the traced call.
bool dt__trace_is_shared(dt_trace_t *trace, dt_value_t a, dt_value_t b);
dt_value_t dt__trace_input_of(const dt_trace_t *trace, uint32_t id);
// Updates the input; dt_update begins with it. (builders_update.c)
void dt__trace_update(dt_trace_t *trace, dt_value_t input, dt_value_t value);
// DT_E_ARGUMENT where an updated input overlaps another in part. (builders_update.c)
dt_status_t dt__trace_check_updates(dt_trace_t *trace) DT_MUST_USE;

#endif // DT_RUNTIME_TRACE_BUILDER_H

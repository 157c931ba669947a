// SPDX-License-Identifier: Apache-2.0
// Passes of users: functions that look at the graphs that the library compiles, and change them.
//
// A pass stands at a point of the compile and gets a rewriter: the graph as it is there. Graphs are
// functional: each node is one value, and what a program writes into its arguments stands at the
// graph's end. The pass makes nodes with the builders of trace.h, over the rewriter's trace, puts
// them in the place of others, moves and erases nodes. Sizes are the symbolic ones of the variant
// that is compiled. A pass asks what is known of them (dt_sym_known, dt_sym_constant); a question
// that would need a new guard fails.
//
// What a pass made is checked when it ends, and then takes the place of the graph. A pass that
// fails leaves the graph as it was: the compile fails with its status, in front of which the pass
// and the point are named, unless the pass is optional.
//
// A pass must keep what the program means. Passes at DT_POINT_TRACED may change that, too: all that
// answers for the function (kernels, the evaluator, reports) is made of the graph behind them.
//
// Not part of ductile.h.
#ifndef DUCTILE_PASS_H
#define DUCTILE_PASS_H

#include "ductile/function.h"
#include "ductile/runtime.h"
#include "ductile/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Passes -------------------------------------------------------------------------------------

// Where in a compile a pass runs. Values are stable; 16 to 31 are kept for graphs with gradients.
typedef enum dt_point_t {
  DT_POINT_TRACED = 1,           // once for each trace. Ops are whole, as the program called them
  DT_POINT_BEFORE_DECOMPOSE = 2, // in each compile of a trace. Ops are whole
  DT_POINT_AFTER_DECOMPOSE = 3,  // composites are simple ops; f16 and bf16 are computed in f32
  DT_POINT_BEFORE_LOWER = 4,     // literals are folded, equal nodes shared, dead ones gone
  DT_POINT_FUSED = 5,            // kernels are made. To look at: changes are refused
} dt_point_t;
// Its name, such as "before_decompose"; "none" for a value that is no point. Static. [any]
DT_API const char *dt_point_name(dt_point_t point);

// A graph while a pass is at work on it. It ends with the pass.
typedef struct dt_rewriter dt_rewriter_t;

// A pass: NULL, or why it failed. It may run on any thread; passes of one runtime run one at a
// time. It runs once for the graph and once for each body of its branches, loops and subgraphs, but
// not for combines of scans, which work on single elements. It must end by itself: a call with a
// deadline leaves it behind, but waits for it when the function is released. It makes no call and
// no function of the same runtime; a compile in it would wait for itself, and is refused with
// DT_E_STATE.
typedef dt_status_t (*dt_pass_fn_t)(dt_rewriter_t *rewriter, void *closure);

// `name` is required; the rest is valid when zeroed. Texts are copied.
typedef struct dt_pass_options_t {
  uint32_t struct_size; // sizeof(dt_pass_options_t); 0 is taken as the size of version 0.1
  int32_t priority; // passes of a point run in this order, the lowest first; equal ones as added
  const char *name; // for messages, logs and dt_function_options_t.passes: letters, digits, _, -
                    // and .; one that no other pass of the runtime has
  // Says what the pass does to graphs: another text is another pass. It is part of the key of all
  // code that is kept on disk. NULL: the name.
  const char *identity;
  bool on_demand; // only for functions that name it (dt_function_options_t.passes)
  bool optional;  // where it fails the failure is logged, and the compile goes on without it
  void (*closure_free)(void *closure); // called once when nothing can run the pass any more
} dt_pass_options_t;

// Adds a pass. It runs for functions that are made from then on; each function keeps the passes
// that it was made with. DT_E_ARGUMENT (a NULL, a point that is none, a name that is taken or has
// other characters), DT_E_NO_MEMORY: closure_free is not called. [any]
DT_API dt_status_t dt_runtime_add_pass(dt_runtime_t *runtime, dt_point_t point, dt_pass_fn_t pass,
                                       void *closure, const dt_pass_options_t *options) DT_MUST_USE;
// Takes a pass out: functions that are made from then on have it no more. DT_E_ARGUMENT where there
// is none of that name. [any]
DT_API dt_status_t dt_runtime_remove_pass(dt_runtime_t *runtime, const char *name) DT_MUST_USE;

// ---- The graph ----------------------------------------------------------------------------------
// Values are those of this rewriter's trace.

// The trace by which builders append nodes to the graph. As in a program the first failure of a
// builder stays, and the pass then fails with it, unless dt_rewriter_failure takes it away. Some
// builders are refused (DT_E_STATE): dt_check, dt_capture, dt_update, dt_item and other readers of
// data, branches and loops. dt_constant is refused but at DT_POINT_TRACED, outside of bodies.
// [external by rewriter]
DT_API dt_trace_t *dt_rewriter_trace(dt_rewriter_t *rewriter);
// Takes the builders' failure, so that the pass can go on. NULL: there is none.
// [external by rewriter]
DT_API dt_status_t dt_rewriter_failure(dt_rewriter_t *rewriter) DT_MUST_USE;

// Where the pass runs, and the device that is compiled for. [external by rewriter]
DT_API dt_point_t dt_rewriter_point(const dt_rewriter_t *rewriter);
DT_API dt_device_t dt_rewriter_device(const dt_rewriter_t *rewriter);
// 0: the program's graph; 1: the body of a branch or loop in it, and so on. [external by rewriter]
DT_API uint32_t dt_rewriter_depth(const dt_rewriter_t *rewriter);

// The number of nodes. [external by rewriter]
DT_API uint32_t dt_rewriter_length(dt_rewriter_t *rewriter);
// The node after `after` in the graph's order; of the none value the first one. The none value
// behind the last node, behind a node that was erased, and once the compile's deadline has passed
// or it was cancelled. [external by rewriter]
DT_API dt_value_t dt_rewriter_next(dt_rewriter_t *rewriter, dt_value_t after);

// A node. Texts live as long as the pass.
typedef struct dt_node_info_t {
  uint32_t struct_size; // set it before asking: nothing beyond it is written
  dt_dtype_t dtype;
  const char *op;   // "matmul"
  const char *name; // of an input, a constant; of a user's op (`external`, op.h); "" else
  const char *file; // the line that made it; "" where none is known
  int32_t line;
  uint32_t n_inputs;  // values it is made of
  uint32_t n_users;   // uses by other nodes, one for each of their operands; outputs do not count
  uint32_t n_outputs; // results of the graph, and updates of arguments, that it is
  uint32_t rank;
  // Attributes; which of them an op reads stands in docs/ops.md.
  uint32_t index; // of an input, a constant
  uint32_t mode;
  uint32_t keepdims;
  uint32_t n_axes, n_sizes;
  int32_t axes[DT_MAX_RANK];
  dt_sym_t sizes[2 * DT_MAX_RANK]; // attributes; the node's own sizes are dt_dim's
  int64_t ints[DT_MAX_RANK];
  double floats[2];
} dt_node_info_t;
// DT_E_ARGUMENT for what is no node of the graph any more. [external by rewriter]
DT_API dt_status_t dt_rewriter_node(dt_rewriter_t *rewriter, dt_value_t node,
                                    dt_node_info_t *info) DT_MUST_USE;
// Operand `index` of the node; the none value beyond the last. [external by rewriter]
DT_API dt_value_t dt_rewriter_input(dt_rewriter_t *rewriter, dt_value_t node, uint32_t index);
// A node that has this one as an operand: use `index` of n_users, in no stated order; the none
// value beyond the last. [external by rewriter]
DT_API dt_value_t dt_rewriter_user(dt_rewriter_t *rewriter, dt_value_t node, uint32_t index);
// Result `index` of the graph. Behind the results stand the new values of arguments that the graph
// updates. The none value beyond the last. [external by rewriter]
DT_API dt_value_t dt_rewriter_output(dt_rewriter_t *rewriter, uint32_t index);

// The elements of a constant, contiguous and in row-major order; they live as long as the pass. A
// function of which a pass has read them refuses dt_constant_update of that constant
// (DT_E_UNSUPPORTED). DT_E_ARGUMENT for a node that is no constant, DT_E_STATE at other points than
// DT_POINT_TRACED. [external by rewriter]
DT_API dt_status_t dt_rewriter_constant(dt_rewriter_t *rewriter, dt_value_t node,
                                        const void **out_data, uint64_t *out_bytes) DT_MUST_USE;

// The graph as text; at DT_POINT_FUSED the kernels. *out is released with dt_text_free.
// DT_E_NO_MEMORY. [external by rewriter]
DT_API dt_status_t dt_rewriter_text(dt_rewriter_t *rewriter, char **out) DT_MUST_USE;

// ---- Changes ------------------------------------------------------------------------------------
// Each is done whole or not at all. DT_E_ARGUMENT for a value that is no node of the graph (any
// more), naming it; DT_E_STATE at DT_POINT_FUSED; DT_E_NO_MEMORY.

// All that uses `old` uses `made` from now on: other nodes, results and updates. What `made` itself
// is made of keeps `old`. Both have one dtype and sizes that are known to be equal, else
// DT_E_DTYPE, DT_E_SHAPE. `old` stays, without users, until it is erased or the library drops it.
// [external by rewriter]
DT_API dt_status_t dt_rewriter_replace(dt_rewriter_t *rewriter, dt_value_t old,
                                       dt_value_t made) DT_MUST_USE;
// The same of one operand of one node. DT_E_SHAPE where `made` is made of the node.
// [external by rewriter]
DT_API dt_status_t dt_rewriter_set_input(dt_rewriter_t *rewriter, dt_value_t node, uint32_t index,
                                         dt_value_t made) DT_MUST_USE;
// Puts `node` in front of `before` in the graph's order; in front of the none value: at the end.
// Its operands come to stand in front of it. Kernels are made in this order where nothing else
// decides. DT_E_ARGUMENT where `node` is made of `before`. [external by rewriter]
DT_API dt_status_t dt_rewriter_move(dt_rewriter_t *rewriter, dt_value_t node,
                                    dt_value_t before) DT_MUST_USE;
// Builders put what they make in front of `before` from now on; the none value: at the end.
// [external by rewriter]
DT_API dt_status_t dt_rewriter_at(dt_rewriter_t *rewriter, dt_value_t before) DT_MUST_USE;
// Takes a node out. DT_E_STATE where something uses it (named), or where it binds a number from
// data; inputs and constants stay. [external by rewriter]
DT_API dt_status_t dt_rewriter_erase(dt_rewriter_t *rewriter, dt_value_t node) DT_MUST_USE;

// ---- Lowerings ----------------------------------------------------------------------------------

// A lowering of an op of the library: makes `node` in another way, by builders over the rewriter's
// trace, and puts it into *out; or declines, and leaves *out the none value. What it makes has the
// node's dtype and sizes. A failure is the compile's.
typedef dt_status_t (*dt_lowering_fn_t)(dt_rewriter_t *rewriter, dt_value_t node, dt_value_t *out,
                                        void *closure);
// Lets `lower` replace nodes of `op` ("softmax"), wherever it does not decline. It is a pass at
// DT_POINT_BEFORE_DECOMPOSE, and goes by the rules of passes: `options` name it, and lowerings of
// lower priority are asked first. DT_E_ARGUMENT also for an op that the library does not have, and
// for one that makes no value of others. [any]
DT_API dt_status_t dt_lowering_override(dt_runtime_t *runtime, const char *op,
                                        dt_lowering_fn_t lower, void *closure,
                                        const dt_pass_options_t *options) DT_MUST_USE;

// ---- Interposers --------------------------------------------------------------------------------

// Sees each node that builders make of other values: `made`, what it is (without users), and its
// operands. It gives the value that stands for the builder's, which it may make by builders: of the
// same dtype and sizes; or the none value, for `made`. Inside of it builders are not interposed.
// Calls of users' ops, and the expands that broadcast operands, are not shown.
typedef dt_value_t (*dt_interposer_fn_t)(dt_trace_t *trace, dt_value_t made,
                                         const dt_node_info_t *info, const dt_value_t *inputs,
                                         void *closure);
// For the builders that follow in this trace; NULL: none any more. Builders that make several nodes
// are seen node by node. [external by trace]
DT_API void dt_trace_set_interposer(dt_trace_t *trace, dt_interposer_fn_t interposer,
                                    void *closure);

#ifdef __cplusplus
}
#endif
#endif // DUCTILE_PASS_H

// SPDX-License-Identifier: Apache-2.0
// Runs one random program through compiled code and the evaluator, in a process of its own, so that
// a crash or a hang is an outcome like any other.
#ifndef DT_TESTS_CONFORM_RUN_GRAPH_H
#define DT_TESTS_CONFORM_RUN_GRAPH_H

#include "lower/graph/eval.h"
#include "runtime/trace/trace.h"
#include "test/conform/graphs/random_graph.h"
#include "test/conform/graphs/random_twin.h"

typedef enum rg_kind_t {
  RG_RIGHT,
  RG_WRONG,    // an answer differs
  RG_REFUSED,  // a valid call got a status
  RG_VARIANTS, // more variants than layouts
  RG_CRASHED,
  RG_HUNG,
  RG_HARNESS, // this test is at fault
} rg_kind_t;
const char *rg_kind_name(rg_kind_t kind);

enum { RG_WAYS = 56 };

typedef struct rg_outcome_t {
  rg_kind_t kind;
  int code; // of a status, or the signal
  uint32_t call, output;
  uint32_t variants, bound, kernels;
  uint64_t graph_calls; // with on_device_graphs()
  int64_t compared, uncertain;
  uint64_t ops[DT_OP_COUNT]; // with RG_OPS
  char stage[32]; // the first stage that was wrong when interpreted; "emitted code" when none was
  uint64_t launches; // with RG_GUARDED
  char note[200];    // with RG_GUARDED: whose memory was touched
  // With RG_WAYS_OF_CODE, by way: calls, and those with other bits of floats.
  uint64_t way_calls[RG_WAYS], way_bits[RG_WAYS], strict_bits;
  uint64_t twin_uses[RG_TWIN_COUNT];
  char text[1800]; // what happened
} rg_outcome_t;

enum {
  RG_DIAGNOSE = 1,       // find the stage
  RG_INTERPRET = 2,      // interpret every stage of right programs, too
  RG_SHOW = 4,           // print the graph and the loops of the stage at fault
  RG_LOOPS = 8,          // no code: the loops after all passes are interpreted
  RG_OPS = 16,           // nothing is run: ops are counted
  RG_DTT = 32,           // nothing is run: the first call is printed as a test of ductile-opt
  RG_WAYS_OF_CODE = 128, // code made in several ways (run_ways.c)
  RG_TWINS_TOO = 256,    // with RG_WAYS_OF_CODE: of programs of the same meaning instead
  RG_GUARDED = 64,       // with RG_LOOPS: code runs instead, between guards (../guarded/guarded.h)
};
void rg_run(const rg_program_t *p, uint32_t flags, uint32_t seconds, rg_outcome_t *out);

// ---- Between the files of run_*.c -----------------------------------------------------------------
typedef struct rg_args_t {
  uint32_t n;
  void *memory[RG_NODES]; // NULL: an earlier one's
  size_t bytes[RG_NODES];
  uint32_t owner[RG_NODES]; // whose memory
  dt_tensor_t *tensors[RG_NODES];
} rg_args_t;

typedef struct rg_run_t {
  const rg_program_t *p;
  uint32_t flags;
  rg_replay_t replay, calling; // users' ops written out, and called
  struct dt_hooks_t *hooks;    // their list
  dt_tensor_t *constants[RG_NODES];
  uint32_t n_inputs;
  uint32_t input_nodes[RG_NODES];
  dt_dim_decl_t dims[RG_NODES][RG_RANK];
  dt_input_decl_t decls[RG_NODES];
  rg_outcome_t *out;
} rg_run_t;

// Leaf `i` with the symbols' values, filled with what `state` makes.
bool rg_make_tensor(rg_run_t *run, uint32_t i, const int64_t *symbols, int32_t layout,
                    uint64_t state, void **memory, dt_tensor_t **out);
// Arguments of call `call`; false: the outcome says why.
bool rg_make_args(rg_run_t *run, uint32_t call, rg_args_t *args);
void rg_free_args(rg_args_t *args);
// What traces the program with these arguments.
dt_trace_request_t rg_request(rg_run_t *run, const char *name, dt_tensor_t *const *example);
// The same with calls of users' ops.
dt_trace_request_t rg_request_calls(rg_run_t *run, const char *name, dt_tensor_t *const *example);
// What the evaluator finds with users' ops written out: the outputs, and behind them what inputs
// are updated with. False: the outcome says why.
bool rg_oracle(rg_run_t *run, const rg_args_t *args, dt_arena_t *arena, dt_traced_t **traced,
               dt_eval_value_t *out);
// The graph with the values of its updates behind the outputs.
const dt_graph_t *rg_with_updates(dt_arena_t *arena, const dt_graph_t *graph);
// A trace's guards, as a variant has them.
dt_status_t rg_guards(const dt_traced_t *traced, dt_guards_t **out) DT_MUST_USE;
// Whether they take the tensors that they were traced for; false: the outcome says which does not.
bool rg_guards_take(rg_run_t *run, const dt_guards_t *guards, dt_tensor_t *const *tensors,
                    int64_t *symbols);
// Whether a call left `args` as `fresh` ones with the graph's updates, of values `expected`, made.
bool rg_same_memory(const rg_run_t *run, const dt_graph_t *graph, const rg_args_t *args,
                    const rg_args_t *fresh, const dt_eval_value_t *expected, const char **out_what);
// Whether the memory of all outputs holds what the evaluator finds; what was compared is counted.
// False: `*text`, initialised, says which does not.
bool rg_same_outputs(rg_run_t *run, const dt_eval_value_t *expected, void *const *outputs,
                     dt_text_t *text);
// Whether `status` is a failure, which then is the outcome; frees it.
bool rg_failed(rg_run_t *run, rg_kind_t kind, const char *what, dt_status_t status);
// Finds the first stage whose interpretation is wrong at call `call`. With `kind` RG_RIGHT a wrong
// stage becomes the outcome.
void rg_find_stage(rg_run_t *run, uint32_t call);
// Adds the ops of the program, traced and decomposed, to `used`, by op.
bool rg_count_ops(rg_run_t *run, uint64_t *used);
// Every op of the table is used, or left out for a reason. Says which are not.
bool rg_ops_complete(const uint64_t *used);
// The call as a text that `ductile-opt --check` replays, to standard output.
void rg_print_dtt(rg_run_t *run, uint32_t call);
// All calls through all passes and the loop interpreter.
void rg_run_loops(rg_run_t *run);
// All calls as code made in several ways; their number and names (RG_WAYS at most).
void rg_run_ways(rg_run_t *run);
uint32_t rg_way_names(const char **out);

#endif // DT_TESTS_CONFORM_RUN_GRAPH_H

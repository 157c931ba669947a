// SPDX-License-Identifier: Apache-2.0
// Runs one random program through compiled code and the evaluator, in a process of its own, so that
// a crash or a hang is an outcome like any other.
#ifndef DT_TESTS_CONFORM_RUN_GRAPH_H
#define DT_TESTS_CONFORM_RUN_GRAPH_H

#include "tests/conform/graphs/random_graph.h"

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

typedef struct rg_outcome_t {
  rg_kind_t kind;
  int code; // of a status, or the signal
  uint32_t call, output;
  uint32_t variants, bound, kernels;
  uint64_t graph_calls; // with on_device_graphs()
  int64_t compared, uncertain;
  char stage[32];  // the first stage that was wrong when interpreted; "emitted code" when none was
  char text[1800]; // what happened
} rg_outcome_t;

enum {
  RG_DIAGNOSE = 1,  // find the stage
  RG_INTERPRET = 2, // interpret every stage of right programs, too
  RG_SHOW = 4,      // print the graph and the loops of the stage at fault
};
void rg_run(const rg_program_t *p, uint32_t flags, uint32_t seconds, rg_outcome_t *out);

// ---- Between run_graph.c and run_stages.c ---------------------------------------------------------
typedef struct rg_args_t {
  uint32_t n;
  void *memory[RG_NODES];
  dt_tensor_t *tensors[RG_NODES];
} rg_args_t;

typedef struct rg_run_t {
  const rg_program_t *p;
  uint32_t flags;
  rg_replay_t replay;
  dt_tensor_t *constants[RG_NODES];
  uint32_t n_inputs;
  uint32_t input_nodes[RG_NODES];
  dt_dim_decl_t dims[RG_NODES][RG_RANK];
  dt_input_decl_t decls[RG_NODES];
  rg_outcome_t *out;
} rg_run_t;

// Arguments of call `call`; false: the outcome says why.
bool rg_make_args(rg_run_t *run, uint32_t call, rg_args_t *args);
void rg_free_args(rg_args_t *args);
// Whether `status` is a failure, which then is the outcome; frees it.
bool rg_failed(rg_run_t *run, rg_kind_t kind, const char *what, dt_status_t status);
// Finds the first stage whose interpretation is wrong at call `call`. With `kind` RG_RIGHT a wrong
// stage becomes the outcome.
void rg_find_stage(rg_run_t *run, uint32_t call);

#endif // DT_TESTS_CONFORM_RUN_GRAPH_H

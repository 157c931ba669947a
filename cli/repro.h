// SPDX-License-Identifier: Apache-2.0
// Inside ductile repro: a graph with a call, run where it can do no harm, and made smaller.
#ifndef DUCTILE_CLI_REPRO_H
#define DUCTILE_CLI_REPRO_H

#include "cli/model.h"

// ---- One run (replay.c) -------------------------------------------------------------------------
// Words for them stand in repro.c, in this order.
typedef enum cli_shown_t {
  CLI_SHOWN_NOTHING = 0, // compiled code and the evaluator agree, be it in a refusal
  CLI_SHOWN_STATUS = 1,  // a status that the evaluator does not give; `number` is its code
  CLI_SHOWN_WRONG = 2,   // another answer
  CLI_SHOWN_SIGNAL = 3,  // the process was ended; `number` is the signal
  CLI_SHOWN_HANG = 4     // no answer in time
} cli_shown_t;

// Goes through a pipe in one piece: shorter than PIPE_BUF.
typedef struct cli_fault_t {
  cli_shown_t shown;
  int32_t number;
  uint32_t rank; // of the first result, as the evaluator gives it, with its sizes
  int64_t sizes[DT_MAX_RANK];
  char message[CLI_MESSAGE];
} cli_fault_t;

typedef struct cli_replay_t {
  const char *file; // in messages
  const char *text; // graph IR
  size_t len;
  const char *call; // as cli_make_args takes it; NULL: compiled without a call
  cli_place_t place;
  uint32_t threads; // 0: the library's default
  bool strict_fp;
  bool evaluate; // by the evaluator alone
  double rtol, atol;
  uint64_t seed; // of the elements
  uint32_t timeout_s;
} cli_replay_t;

// Runs it in a process of its own; this one must have made no runtime. False: no process could be
// made, or the call's text is wrong; `message` says it.
bool cli_replay(const cli_replay_t *replay, cli_fault_t *out, char message[CLI_MESSAGE]);
// Whether both are the same fault, as far as can be told.
bool cli_same_fault(const cli_fault_t *a, const cli_fault_t *b);

// ---- Making it smaller (reduce.c) ---------------------------------------------------------------
typedef struct cli_reduced_t {
  char *text, *call; // the caller's (free); call NULL where there was none
  uint32_t nodes, before, tries;
} cli_reduced_t;
// Takes away what `fault` does not need: updates, asserts, results, nodes whose value an input can
// stand for. `told` is called after each try with the nodes that are left. False: `message`.
bool cli_reduce(const cli_replay_t *replay, const cli_fault_t *fault, uint32_t most_tries,
                void (*told)(void *user, uint32_t tries, uint32_t nodes), void *user,
                cli_reduced_t *out, char message[CLI_MESSAGE]);

#endif // DUCTILE_CLI_REPRO_H

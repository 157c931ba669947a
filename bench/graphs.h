// SPDX-License-Identifier: Apache-2.0
// What the parts of bench_graphs share: the programs it calls, the place a caller has (a session
// with tensors that are bound to other sizes for each call), and the cases.
#ifndef BENCH_GRAPHS_H
#define BENCH_GRAPHS_H

#include "bench/harness.h"
#include "ductile/experimental.h"
#include "ductile/graphs.h"

// ---- What is run --------------------------------------------------------------------------------

typedef struct graphs_bench_t {
  dt_runtime_t *runtime;
  bench_report_t report;
  double seconds;           // of each measurement
  long calls;               // of each trace, at most
  long generations, shapes; // of the cases path and memory
  bool tiny;                // sizes for the fake driver
  int64_t hidden;           // width of the programs
  int trips;                // of the loop that is unrolled
} graphs_bench_t;

// What a call's tensors are made of: "a" and "b" in a program's letters.
typedef struct graphs_size_t {
  int64_t a, b;
} graphs_size_t;

enum { GRAPHS_INPUTS = 3, GRAPHS_CHAIN_KERNELS = 40 };

// A tensor's sizes are letters: a, b, and H for the bench's width.
typedef struct graphs_program_t {
  const char *name;
  dt_program_fn_t trace; // its closure is the bench
  const char *inputs[GRAPHS_INPUTS], *output;
} graphs_program_t;

extern const graphs_program_t graphs_chain;   // 40 kernels that no fusion joins, over [a, b]
extern const graphs_program_t graphs_mlp;     // [a, H] → [a, H]
extern const graphs_program_t graphs_encoder; // two layers with attention, [a, b, H] → [a, H]
extern const graphs_program_t graphs_decode;  // one token for each of a slots, b of context
extern const graphs_program_t graphs_stem, graphs_left, graphs_right, graphs_head; // [a, H] → same
// The rows of a table [a, H] that have a mark in [a], added up; the second is told by its third
// input's size how many there are.
extern const graphs_program_t graphs_picked, graphs_picked_fixed;
// A layer over [a, H] as often as the number in the second input says; and as the bench says.
extern const graphs_program_t graphs_loop, graphs_unrolled;

// Compiled for all sizes, on the device. NULL with a message on stderr.
dt_function_t *graphs_function(graphs_bench_t *bench, const graphs_program_t *program);

// ---- Where it is run ----------------------------------------------------------------------------

// A session, with memory that is bound to the sizes of each call. One thread at a time.
typedef struct graphs_place_t {
  graphs_bench_t *bench;
  dt_session_t *session;
  int64_t most;                           // f32 elements of each memory
  dt_tensor_t *memory[GRAPHS_INPUTS + 1]; // inputs (two callers' are equal), output
  dt_tensor_t *views[GRAPHS_INPUTS + 1];  // over it, at the bound sizes
  int64_t shift;                          // elements that inputs begin behind their memory's
  uint32_t n_inputs;                      // of the bound program
} graphs_place_t;

// False with a message on stderr; close it in either case.
bool graphs_open(graphs_bench_t *bench, int64_t most, graphs_place_t *place);
void graphs_close(graphs_place_t *place);
// f32 elements that the largest tensor of a call at `size` has.
int64_t graphs_elements(const graphs_bench_t *bench, const graphs_program_t *program,
                        graphs_size_t size);

bool graphs_bind(graphs_place_t *place, const graphs_program_t *program, graphs_size_t size);
// At the bound sizes, into the place's output. Nanoseconds until dt_call has returned, and until
// the result is there; both may be NULL.
bool graphs_run(graphs_place_t *place, dt_function_t *function, dt_call_mode_t mode,
                double *returned, double *done);
// Binds, and runs.
bool graphs_call(graphs_place_t *place, const graphs_program_t *program, dt_function_t *function,
                 graphs_size_t size, dt_call_mode_t mode, double *done);
// Elements of the bound output.
int64_t graphs_count(const graphs_place_t *place);
// Elements of a memory from its beginning on.
bool graphs_write(graphs_place_t *place, int index, const float *from, int64_t count);
bool graphs_read(graphs_place_t *place, float *to);

bool graphs_stats(const graphs_place_t *place, dt_session_counters_t *out);
// Bytes of the device that are in use, by anybody, as the driver says; 0 where it cannot be asked.
int64_t graphs_device_bytes(void);
// A size with both numbers in [1, most].
graphs_size_t graphs_draw(uint64_t *state, graphs_size_t most);
// Says on stderr that something did not hold; false.
bool graphs_fail(const char *what, double is, double expected);

// ---- Cases --------------------------------------------------------------------------------------

// False with a message on stderr, also where answers are wrong or calls were no graphs.
bool graphs_case_host(graphs_bench_t *bench);
bool graphs_case_memory(graphs_bench_t *bench);
bool graphs_case_threads(graphs_bench_t *bench);
bool graphs_case_path(graphs_bench_t *bench);
bool graphs_case_traces(graphs_bench_t *bench);
bool graphs_case_swap(graphs_bench_t *bench);
bool graphs_case_sized(graphs_bench_t *bench);
bool graphs_case_while(graphs_bench_t *bench);
bool graphs_case_growth(graphs_bench_t *bench);

// One of several equal processes of the case "threads": says "ready", waits for a line, calls for
// the bench's seconds, and prints how many calls those were.
bool graphs_worker(graphs_bench_t *bench);

#endif // BENCH_GRAPHS_H

// SPDX-License-Identifier: Apache-2.0
// Builds small programs by hand, compiles and loads them, and runs them beside the interpreter.
// Memory of inputs and results ends at a page nobody may touch, so that an access past the end
// dies.
#ifndef DT_TESTS_BACKEND_LLVM_RIG_H
#define DT_TESTS_BACKEND_LLVM_RIG_H

#include "backend_llvm/emit/compile.h"
#include "backend_llvm/load/native.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"
#include "test/support/check.h"

#define RIG_MAX_SYMBOLS 256
#define RIG_MAX_ARGS 8
#define RIG_MAX_SEGMENTS 4

typedef struct rig_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  dt_program_t *program;
  dt_target_t target;
  dt_kernel_t kernel;  // being built
  dt_stage_t stage;    // being built
  uint32_t next_items; // bound when the next segment begins
} rig_t;

// Takes the CPU to make code for from the first argument (none: the host's). False, after saying
// so: the host cannot run it, and the program should exit with 77.
bool rig_use_cpu(int argc, char **argv);
// main() of such a program: RUN_RIG_TESTS(TEST(this), TEST(that)).
#define RUN_RIG_TESTS(...)                                                                         \
  int main(int argc, char **argv) {                                                                \
    const struct CMUnitTest tests[] = {__VA_ARGS__};                                               \
    return rig_use_cpu(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 77;               \
  }

void rig_open(rig_t *r);
void rig_close(rig_t *r);
dt_sym_t rig_size(rig_t *r);
dt_sym_t rig_const(rig_t *r, int64_t value);
// Sizes and strides are literals or symbols; strides NULL: contiguous.
dt_buffer_id_t rig_buffer(rig_t *r, dt_buffer_kind_t kind, dt_dtype_t dtype, uint32_t index,
                          uint32_t rank, const dt_sym_t *sizes, const dt_sym_t *strides);

// ---- Kernels: begin, outer loops, stages, end ------------------------------------------------------
void rig_kernel(rig_t *r, const char *name);
dt_sym_t rig_outer(rig_t *r, dt_sym_t extent);
void rig_stage(rig_t *r);
dt_sym_t rig_inner(rig_t *r, dt_sym_t extent);
uint32_t rig_load(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index);
uint32_t rig_load_masked(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t mask,
                         uint32_t other);
uint32_t rig_op(rig_t *r, dt_scalar_op_t op, uint32_t a, uint32_t b, uint32_t c);
uint32_t rig_cast(rig_t *r, dt_dtype_t dtype, uint32_t a);
uint32_t rig_literal(rig_t *r, dt_dtype_t dtype, double value);
uint32_t rig_index(rig_t *r, dt_dtype_t dtype, dt_sym_t e);
uint32_t rig_row(rig_t *r, uint32_t row, dt_dtype_t dtype);
uint32_t rig_bind(rig_t *r, dt_sym_t data, dt_sym_t extent, uint32_t value, const char *what);
uint32_t rig_bind_masked(rig_t *r, dt_sym_t data, dt_sym_t extent, uint32_t value, uint32_t mask,
                         const char *what);
// How many elements of `buffer` are less than `value`, or not greater.
uint32_t rig_search(rig_t *r, dt_buffer_id_t buffer, uint32_t value, bool inclusive);
// The reduction of this stage that defines `row`, so far.
uint32_t rig_running(rig_t *r, uint32_t row, dt_dtype_t dtype);
// The same as the iteration before left it; the reduction, of kind LAST, may be added later.
uint32_t rig_prior(rig_t *r, uint32_t row, dt_dtype_t dtype);
void rig_store(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t value);
void rig_store_masked(rig_t *r, dt_buffer_id_t buffer, const dt_sym_t *index, uint32_t value,
                      uint32_t mask);
// Returns the row.
uint32_t rig_fold(rig_t *r, dt_reduction_kind_t kind, uint32_t value, uint32_t index);
void rig_stage_end(rig_t *r);
void rig_schedule(rig_t *r, dt_schedule_t schedule);
void rig_kernel_end(rig_t *r);
// An UNBACKED symbol in [lo, hi], bound by a readback of `buffer`.
dt_sym_t rig_item(rig_t *r, dt_buffer_id_t buffer, int64_t lo, int64_t hi, const char *what);
// Ends a segment after the kernels so far. Items made since the last segment ended are bound when
// the next one begins.
void rig_segment(rig_t *r);
// The widest lanes for elements of `dtype` on the target.
uint32_t rig_lanes(const rig_t *r, dt_dtype_t dtype);

// ---- Compiled code -------------------------------------------------------------------------------------
typedef struct code_t {
  uint32_t n_units;
  size_t bytes; // of all units' objects
  dt_native_t *natives[16];
  dt_kernel_fn_t kernels[64];
  uint32_t n_kernels;
  uint32_t n_segments;
  dt_host_plan_fn_t plan[RIG_MAX_SEGMENTS];
  dt_host_run_fn_t once, run[RIG_MAX_SEGMENTS];
  dt_host_run_fn_t commit; // NULL: the program updates nothing
  int64_t (*once_scratch)(void);
  void *once_memory[4]; // by ONCE buffer
} code_t;

void rig_compile(rig_t *r, code_t *code);
dt_status_t rig_try_compile(rig_t *r, code_t *code) DT_MUST_USE;
void code_close(code_t *code);

// Memory of `bytes` that ends where a forbidden page begins.
typedef struct region_t {
  void *base, *at;
  size_t mapped;
} region_t;
region_t region_open(size_t bytes);
void region_close(region_t *region);

typedef struct call_t {
  int64_t symbols[RIG_MAX_SYMBOLS];
  void *inputs[RIG_MAX_ARGS], *outputs[RIG_MAX_ARGS], *constants[RIG_MAX_ARGS];
  int64_t output_sizes[RIG_MAX_ARGS * DT_MAX_RANK];
  uint32_t pieces; // chunks that each grid is cut into
  dt_launch_record_t record;
  uint32_t launches;
  int64_t items;
  uint32_t segments; // planned
} call_t;

// Plans and runs every segment, each with the block somewhere else; returns the first answer of a
// plan that is not 0. Ends after a segment in which a check failed.
int64_t code_call(code_t *code, call_t *call);

// Fills with small whole numbers, exact in every dtype (floats: quarters too when `fractions`).
void fill(dt_dtype_t dtype, void *at, size_t n, uint32_t seed, bool fractions);
// Runs compiled and interpreted code over the call's inputs and compares output k of n[k] elements.
void compare_call(rig_t *r, code_t *code, call_t *call, uint32_t n_outputs, const size_t *n,
                  double rtol, const char *what);
void expect_equal(dt_dtype_t dtype, const void *got, const void *want, size_t n, double rtol,
                  const char *what);

#endif // DT_TESTS_BACKEND_LLVM_RIG_H

// SPDX-License-Identifier: Apache-2.0
// The interpreter's state: values of symbols, where buffers lie, and what was written.
#ifndef DT_LOWER_LOOP_INTERPRET_PRIVATE_H
#define DT_LOWER_LOOP_INTERPRET_PRIVATE_H

#include "lower/loop/loop_private.h"

// A buffer at run time.
typedef struct dt_interp_buffer_t {
  bool ready;  // sizes and strides are evaluated
  bool placed; // it has its memory (dt__program_interpret)
  int64_t sizes[DT_MAX_RANK], strides[DT_MAX_RANK];
  int64_t count;
  char *base;
  // Who wrote each element: the number of the outer iteration (LOCAL) or of the store (others), 0
  // for nobody. NULL where nobody asks. By offset: what is checked is contiguous.
  uint32_t *written;
} dt_interp_buffer_t;

// A reduction in progress.
typedef struct dt_interp_reduction_t {
  bool any;
  dt_scalar_t value, index;
} dt_interp_reduction_t;

typedef struct dt_interp_t {
  const dt_program_t *program;
  const dt_kernel_t *kernel;
  int64_t *values;                     // by symbol
  dt_interp_buffer_t *buffers;         // [id - 1]
  dt_scalar_t *rows;                   // row values of the kernel
  dt_scalar_t *insts;                  // instructions of the stage
  dt_interp_reduction_t *reductions;   // of the stage, up to the iteration before this one
  uint32_t iteration;                  // outer iterations begun, from 1
  uint32_t failed_check;               // 1 + the first check that failed, or 0
  int64_t failed_value, failed_extent; // what it was made on
  // An index and operands in hand. Here, not in frames: those whose address is taken cost a
  // sanitizer more than all else that an element does.
  int64_t at;
  bool in_halo; // set where the element located is outside of its buffer's sizes
  dt_scalar_t args[3];
} dt_interp_t;

dt_status_t dt__interp_init(dt_interp_t *in, const dt_program_t *program,
                            const int64_t *symbols) DT_MUST_USE;
void dt__interp_fini(dt_interp_t *in);
// Sizes and strides of buffer `id` for the present values.
dt_status_t dt__interp_measure(dt_interp_t *in, uint32_t id) DT_MUST_USE;
// Notes who writes the measured buffer; with `memory`, gives it some.
dt_status_t dt__interp_allocate(dt_interp_t *in, uint32_t id, bool memory) DT_MUST_USE;
dt_status_t dt__interp_run(dt_interp_t *in, const dt_kernel_t *kernel) DT_MUST_USE;
// in->kernel, a call of a user's op.
dt_status_t dt__interp_external(dt_interp_t *in) DT_MUST_USE;

// `e` for the present values; DT_E_INTERNAL naming the kernel and `what` where it has none.
dt_status_t dt__interp_eval(const dt_interp_t *in, dt_sym_t e, const char *what,
                            int64_t *out) DT_MUST_USE;
// One inner iteration of `stage`: its instructions, then its stores.
dt_status_t dt__interp_body(dt_interp_t *in, const dt_stage_t *stage) DT_MUST_USE;

void dt__interp_reduction_begin(const dt_reduction_t *reduction, dt_dtype_t dtype,
                                dt_interp_reduction_t *state);
// Takes the iteration whose instructions have run, by way of `in->args`.
void dt__interp_reduction_take(dt_interp_t *in, const dt_stage_t *stage,
                               const dt_reduction_t *reduction, dt_interp_reduction_t *state);

#endif // DT_LOWER_LOOP_INTERPRET_PRIVATE_H

// SPDX-License-Identifier: Apache-2.0
// An op of a user with PTX, and a program that calls it between maps of ours.
#ifndef DT_TESTS_UNIT_CUDA_EXEC_TWICE_OP_H
#define DT_TESTS_UNIT_CUDA_EXEC_TWICE_OP_H

#include "ductile/op.h"

extern const dt_op_device_kernel_t twice_device_kernel;
// "test.twice": y = 2 x of a vector, 64 elements an item. It has kernels for the CPU and for CUDA.
dt_op_options_t twice_op(void);
// relu(-(twice(x + 1) + 3)) of a vector.
dt_status_t twice_program(dt_trace_t *t, const dt_value_t *in, dt_value_t *out, void *closure);

#endif // DT_TESTS_UNIT_CUDA_EXEC_TWICE_OP_H

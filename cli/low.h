// SPDX-License-Identifier: Apache-2.0
// Tensors of low-bit types as tensors of types that elements.h reads.
#ifndef DUCTILE_CLI_LOW_H
#define DUCTILE_CLI_LOW_H

#include "ductile/tensor.h"

bool cli_is_low(dt_dtype_t dtype);
// The same numbers in f32, i8 or u8, of a tensor of a low-bit type in host memory.
dt_status_t cli_widen(const dt_tensor_t *tensor, dt_tensor_t **out) DT_MUST_USE;

#endif // DUCTILE_CLI_LOW_H

// SPDX-License-Identifier: Apache-2.0
// Floats of one dtype as floats of another, on the host.
#ifndef EXAMPLES_MINILM_HALF_H
#define EXAMPLES_MINILM_HALF_H

#include "ductile/ductile.h"

// Converts `count` elements, rounding to nearest, ties to even; what is too large becomes infinite.
// Both dtypes are one of DT_F32, DT_F16 and DT_BF16.
void convert_floats(const void *from, dt_dtype_t from_dtype, void *to, dt_dtype_t to_dtype,
                    int64_t count);

#endif // EXAMPLES_MINILM_HALF_H

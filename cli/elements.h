// SPDX-License-Identifier: Apache-2.0
// Elements of tensors in host memory as numbers.
#ifndef DUCTILE_CLI_ELEMENTS_H
#define DUCTILE_CLI_ELEMENTS_H

#include "ductile/tensor.h"

// All floating-point types; of the others none.
bool cli_is_float(dt_dtype_t dtype);
// An element as a number: exact but for 64-bit integers above 2^53.
double cli_element(dt_dtype_t dtype, const void *data, int64_t index);
// An integer or bool element; u64 above INT64_MAX wraps, so ask cli_element_text for people.
int64_t cli_element_integer(dt_dtype_t dtype, const void *data, int64_t index);
// As people read it: enough digits to tell values of the type apart.
#define CLI_ELEMENT_TEXT 40
void cli_element_text(dt_dtype_t dtype, const void *data, int64_t index,
                      char out[CLI_ELEMENT_TEXT]);
// Stores a number, rounded to nearest even. False: an integer type does not hold it.
bool cli_element_set(dt_dtype_t dtype, void *data, int64_t index, double value);
bool cli_element_set_integer(dt_dtype_t dtype, void *data, int64_t index, int64_t value);

#endif // DUCTILE_CLI_ELEMENTS_H

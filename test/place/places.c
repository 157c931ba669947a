// SPDX-License-Identifier: Apache-2.0
// The places of a program of the tests: the CPU, and the interpreter's device.
#include "test/place/device.h"

const dt_place_kind_t *const dt__place_kinds[DT_DEVICES] = {
    [DT_CPU] = &dt__cpu_place,
    [INTERPRETER] = &interpreter_place,
};
const dt_codegen_t *const dt__codegens[DT_DEVICES] = {[INTERPRETER] = &interpreter_codegen};

// SPDX-License-Identifier: Apache-2.0
// The places of the library. It stands in an object of its own, so that a program may have others.
#include "backend_cuda/place/place.h"

const dt_place_kind_t *const dt__place_kinds[DT_DEVICES] = {
    [DT_CPU] = &dt__cpu_place,
    [DT_CUDA] = &dt__cuda_place,
};

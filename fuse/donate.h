// SPDX-License-Identifier: Apache-2.0
// Donated arguments: which results a call may have in their memory.
#ifndef DT_FUSE_DONATE_H
#define DT_FUSE_DONATE_H

#include "lower/loop/loop.h"

// Of a planned program. out[k]: 1 + the argument in whose memory result k may lie, if that is
// contiguous and no other argument and no constant meets it; or 0. The result has as many bytes,
// and is written where nothing of the argument is needed any more. No argument twice, and none that
// is updated. `out` has an entry a result.
dt_status_t dt__find_donations(const dt_program_t *program, uint32_t *out) DT_MUST_USE;
// Kernels that make the new value of a donated argument in a temporary, which is then copied to the
// argument, make it there where nothing else needs the old value any more. Before anything is
// placed; slices and regions are settled.
dt_status_t dt__take_donated(dt_program_t *program) DT_MUST_USE;
// There may be such a result.
bool dt__program_is_given(const dt_program_t *program);

#endif // DT_FUSE_DONATE_H

// SPDX-License-Identifier: Apache-2.0
// Batches where calls run.
#ifndef EXAMPLES_MINILM_PLACE_H
#define EXAMPLES_MINILM_PLACE_H

#include "examples/minilm/sentences.h"

// A copy of a host batch where the session's calls take it from: on its device, or in other host
// memory. To be freed by batch_free; on failure *out is empty.
dt_status_t batch_place(dt_session_t *session, const batch_t *batch, batch_t *out) DT_MUST_USE;

#endif // EXAMPLES_MINILM_PLACE_H

// SPDX-License-Identifier: Apache-2.0
// The interpreter of calls of users' ops: their own kernels, over all items at once.
#include "lower/graph/external.h"
#include "lower/loop/interpret_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_TENSORS (DT_OP_MAX_INPUTS + DT_OP_MAX_RESULTS)

typedef struct tensors_t {
  uint32_t n;
  dt_op_tensor_t items[MOST_TENSORS];
  int64_t numbers[MOST_TENSORS][2 * DT_MAX_RANK];
} tensors_t;

static dt_status_t add(dt_interp_t *in, dt_buffer_id_t id, tensors_t *tensors) {
  const dt_buffer_t *buffer = dt__program_buffer(in->program, id);
  int64_t *numbers = tensors->numbers[tensors->n];
  if (tensors->n == MOST_TENSORS)
    return DT_FAIL(DT_E_INTERNAL, "%s: more than %d tensors", in->kernel->name, MOST_TENSORS);
  for (uint32_t d = 0; d < buffer->rank; d++) {
    DT_TRY(dt__interp_eval(in, buffer->sizes[d], "a size", &numbers[d]));
    DT_TRY(dt__interp_eval(in, buffer->strides[d], "a stride", &numbers[DT_MAX_RANK + d]));
  }
  tensors->items[tensors->n++] = (dt_op_tensor_t){.data = in->buffers[id.id - 1].base,
                                                  .dtype = buffer->dtype,
                                                  .rank = buffer->rank,
                                                  .sizes = numbers,
                                                  .strides = numbers + DT_MAX_RANK};
  return NULL;
}

// All of a buffer is written once, before anything reads it.
static dt_status_t note_written(dt_interp_t *in, dt_buffer_id_t id) {
  dt_interp_buffer_t *at = &in->buffers[id.id - 1];
  for (int64_t k = 0; at->written && k < at->count; k++)
    if (at->written[k])
      return DT_FAIL(DT_E_INTERNAL, "%s: buffer %u is written twice", in->kernel->name, id.id);
  if (at->written && at->count)
    memset(at->written, 1, (size_t)at->count * sizeof(*at->written));
  return NULL;
}

dt_status_t dt__interp_external(dt_interp_t *in) {
  const dt_program_t *program = in->program;
  const dt_kernel_t *kernel = in->kernel;
  const dt_stage_t *stage = &kernel->stages.items[0];
  tensors_t *tensors = dt__calloc(1, sizeof(*tensors));
  int64_t items = 0;
  dt_status_t status = tensors ? NULL : DT_NO_MEMORY();
  if (!status && kernel->external > program->externals.len)
    status = DT_FAIL(DT_E_STATE, "%s: the program has no calls of users' ops", kernel->name);
  for (uint32_t i = 0; !status && i < stage->insts.len; i++)
    if (stage->insts.items[i].buffer.id)
      status = add(in, stage->insts.items[i].buffer, tensors);
  uint32_t n_inputs = status ? 0 : tensors->n;
  for (uint32_t i = 0; !status && i < stage->stores.len; i++)
    status = add(in, stage->stores.items[i].buffer, tensors);
  if (!status)
    status = dt__interp_eval(in, kernel->extents[0], "the items", &items);
  if (!status)
    status = dt__external_invoke(program->externals.items[kernel->external - 1], tensors->items,
                                 n_inputs, 0, items);
  for (uint32_t i = 0; !status && i < stage->stores.len; i++)
    status = note_written(in, stage->stores.items[i].buffer);
  dt__free(tensors);
  return status;
}

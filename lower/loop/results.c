// SPDX-License-Identifier: Apache-2.0
// Kernels that copy arguments to results: a call need not run them where it has the result without
// them.
#include "lower/loop/loop.h"

// What the one store stores the bits of, where the stage does nothing else.
static const dt_inst_t *copied(const dt_stage_t *stage) {
  const dt_inst_t *value = &stage->insts.items[stage->stores.items[0].value];
  uint32_t n = 1;
  for (; value->kind == DT_INST_BITS; n++)
    value = &stage->insts.items[value->args[0]];
  return stage->insts.len == n ? value : NULL;
}

// The kernel copies elements of an argument to a result, and nothing else.
static const dt_store_t *only_copies(const dt_program_t *program, const dt_kernel_t *kernel,
                                     dt_buffer_id_t *out_from, dt_buffer_id_t *out_to) {
  if (kernel->stages.len != 1 || kernel->external || kernel->chain || kernel->slices)
    return NULL;
  const dt_stage_t *stage = &kernel->stages.items[0];
  if (stage->n_loops || stage->reductions.len || stage->stores.len != 1)
    return NULL;
  const dt_store_t *store = &stage->stores.items[0];
  const dt_inst_t *load = copied(stage);
  if (!load || load->kind != DT_INST_LOAD || load->mask != DT_NO_INST ||
      store->mask != DT_NO_INST || store->revises)
    return NULL;
  *out_from = load->buffer;
  *out_to = store->buffer;
  return dt__program_buffer(program, load->buffer)->kind == DT_BUFFER_INPUT &&
                 dt__program_buffer(program, store->buffer)->kind == DT_BUFFER_OUTPUT
             ? store
             : NULL;
}

static uint32_t count_uses(const dt_program_t *program, dt_buffer_id_t id) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        n += stage->stores.items[i].buffer.id == id.id;
      for (uint32_t i = 0; i < stage->insts.len; i++)
        n += dt__inst_reads(&stage->insts.items[i]).id == id.id;
    }
  return n;
}

bool dt__kernel_copies_result(const dt_program_t *program, const dt_kernel_t *kernel,
                              dt_buffer_id_t *out_from, dt_buffer_id_t *out_to) {
  return only_copies(program, kernel, out_from, out_to) && count_uses(program, *out_to) == 1;
}

bool dt__kernel_copies_whole(const dt_program_t *program, const dt_kernel_t *kernel,
                             dt_buffer_id_t *out_from, dt_buffer_id_t *out_to) {
  const dt_store_t *store = only_copies(program, kernel, out_from, out_to);
  if (!store)
    return false;
  const dt_inst_t *load = copied(&kernel->stages.items[0]);
  const dt_buffer_t *from = dt__program_buffer(program, *out_from);
  const dt_buffer_t *to = dt__program_buffer(program, *out_to);
  if (from->rank != to->rank || to->layout ||
      dt_dtype_size(from->dtype) != dt_dtype_size(to->dtype))
    return false;
  for (uint32_t d = 0; d < from->rank; d++)
    if (load->index[d].id != store->index[d].id || from->sizes[d].id != to->sizes[d].id)
      return false;
  return true;
}

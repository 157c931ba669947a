// SPDX-License-Identifier: Apache-2.0
// The verifier of everything around kernels: readbacks are written before they are bound and bound
// before they are used, segments keep that order, the memory plan uses only bound symbols.
#include "lower/loop/verify_private.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"

// ---- Readbacks ----------------------------------------------------------------------------------
static dt_status_t verify_readback(const dt_loop_verifier_t *v, uint32_t at) {
  const dt_program_t *program = v->program;
  const dt_readback_t *readback = &program->readbacks.items[at];
  uint32_t id = readback->buffer.id;
  if (id == 0 || id > program->buffers.len)
    return dt__loop_verify_fail(v, "readback %u: buffer %u of %u", at, id, program->buffers.len);
  const dt_buffer_t *buffer = &program->buffers.items[id - 1];
  if (buffer->rank || buffer->dtype != DT_I64 || buffer->kind == DT_BUFFER_LOCAL ||
      buffer->kind == DT_BUFFER_OUTPUT)
    return dt__loop_verify_fail(v, "readback %u: buffer %u, which is %s, holds no single i64", at,
                                id, dt__buffer_kind_name(buffer->kind));
  bool memory = buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_ONCE;
  if (memory && !v->written_by[id - 1])
    return dt__loop_verify_fail(v, "readback %u: buffer %u is written by no kernel", at, id);
  if (readback->symbol >= v->n_symbols ||
      dt__symbol_info(program->env, readback->symbol).kind != DT_SYMBOL_UNBACKED)
    return dt__loop_verify_fail(v, "readback %u binds no UNBACKED symbol", at);
  for (uint32_t k = 0; k < at; k++)
    if (program->readbacks.items[k].symbol == readback->symbol)
      return dt__loop_verify_fail(v, "readbacks %u and %u bind the same symbol", k, at);
  return NULL;
}

// Kernels before which the first `readbacks` readbacks cannot be bound.
static uint32_t bound_after(const dt_loop_verifier_t *v, uint32_t readbacks) {
  uint32_t after = 0;
  for (uint32_t k = 0; k < readbacks; k++) {
    uint32_t written = v->written_by[v->program->readbacks.items[k].buffer.id - 1];
    after = written > after ? written : after;
  }
  return after;
}

static dt_status_t verify_readbacks(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    DT_TRY(verify_readback(v, k));
  for (uint32_t k = 0; k < program->kernels.len && program->readbacks.len; k++) {
    uint32_t readbacks = dt__kernel_readbacks(program, &program->kernels.items[k]);
    if (bound_after(v, readbacks) > k)
      return dt__loop_verify_fail(v, "kernel %u (%s) uses readback %u before it is written", k,
                                  program->kernels.items[k].name, readbacks - 1);
  }
  return NULL;
}

// ---- Memory -----------------------------------------------------------------------------------------
dt_status_t dt__loop_verify_plan(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  if (program->n_once > program->kernels.len)
    return dt__loop_verify_fail(v, "%u kernels run once, of %u", program->n_once,
                                program->kernels.len);
  if (program->offsets.len != program->buffers.len)
    return dt__loop_verify_fail(v, "%u offsets for %u buffers", program->offsets.len,
                                program->buffers.len);
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    dt_buffer_kind_t kind = program->buffers.items[b].kind;
    dt_sym_t offset = program->offsets.items[b];
    if (!offset.id)
      continue;
    if (kind != DT_BUFFER_TEMP && kind != DT_BUFFER_ONCE && kind != DT_BUFFER_STATE)
      return dt__loop_verify_fail(v, "buffer %u has an offset, but is %s", b + 1,
                                  dt__buffer_kind_name(kind));
    DT_TRY(dt__loop_verify_expr(v, offset, "a buffer's offset"));
  }
  if (program->block_bytes.id)
    DT_TRY(dt__loop_verify_expr(v, program->block_bytes, "the block's size"));
  if (program->once_bytes.id)
    DT_TRY(dt__loop_verify_expr(v, program->once_bytes, "the size of what is kept"));
  return NULL;
}

// ---- Segments -----------------------------------------------------------------------------------------
static dt_status_t verify_segment(const dt_loop_verifier_t *v, uint32_t at, uint32_t first_kernel) {
  const dt_program_t *program = v->program;
  const dt_program_segment_t *segment = &program->segments.items[at];
  uint32_t first_item = at ? program->segments.items[at - 1].readback_end : 0;
  if (segment->readback_end < first_item || segment->readback_end > program->readbacks.len ||
      segment->kernel_end < first_kernel || segment->kernel_end > program->kernels.len)
    return dt__loop_verify_fail(v, "segment %u: readbacks up to %u, kernels up to %u", at,
                                segment->readback_end, segment->kernel_end);
  if (bound_after(v, segment->readback_end) > first_kernel)
    return dt__loop_verify_fail(v, "segment %u: its readbacks are not written when it begins", at);
  for (uint32_t k = first_kernel; k < segment->kernel_end; k++)
    if (dt__kernel_readbacks(program, &program->kernels.items[k]) > segment->readback_end)
      return dt__loop_verify_fail(v, "segment %u: kernel %u (%s) uses readbacks that are not bound",
                                  at, k, program->kernels.items[k].name);
  if (segment->block_bytes.id) {
    DT_TRY(dt__loop_verify_expr(v, segment->block_bytes, "the block's size"));
    if (dt__expr_readbacks(program, segment->block_bytes) > segment->readback_end)
      return dt__loop_verify_fail(v, "segment %u: its block's size is not known in it", at);
  }
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    uint32_t first = v->first_writer[b];
    if (first > first_kernel && first <= segment->kernel_end &&
        dt__expr_readbacks(program, program->offsets.items[b]) > segment->readback_end)
      return dt__loop_verify_fail(v, "segment %u: the offset of buffer %u is not known in it", at,
                                  b + 1);
  }
  return NULL;
}

static dt_status_t verify_segments(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  uint32_t n = program->segments.len, kernels = program->n_once;
  for (uint32_t k = 0; k < n; k++) {
    DT_TRY(verify_segment(v, k, kernels));
    kernels = program->segments.items[k].kernel_end;
  }
  if (n && (kernels != program->kernels.len ||
            program->segments.items[n - 1].readback_end != program->readbacks.len))
    return dt__loop_verify_fail(v, "%u kernels and %u readbacks in segments, of %u and %u", kernels,
                                program->segments.items[n - 1].readback_end, program->kernels.len,
                                program->readbacks.len);
  return NULL;
}

// ---- Device sizes -----------------------------------------------------------------------------------
// Whether a check is made on readback `at` by kernel k.
static bool checks_item(const dt_program_t *program, const dt_kernel_t *kernel, uint32_t at) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[i];
      if (inst->kind == DT_INST_BIND && inst->check < program->checks.len &&
          program->checks.items[inst->check].readback == at + 1)
        return true;
    }
  return false;
}

static dt_status_t verify_gate(const dt_loop_verifier_t *v, uint32_t at, uint32_t commit) {
  const dt_program_t *program = v->program;
  const dt_kernel_t *kernel = &program->kernels.items[at];
  uint32_t id = kernel->gate.id, readbacks = dt__kernel_readbacks(program, kernel);
  bool known = program->device_sized || id == commit;
  if (id > program->buffers.len || (id && !known))
    return dt__loop_verify_fail(v, "kernel %u (%s): no gate is buffer %u", at, kernel->name, id);
  if (id) {
    const dt_buffer_t *gate = &program->buffers.items[id - 1];
    if (gate->rank || gate->dtype != DT_I64 || gate->kind != DT_BUFFER_TEMP ||
        !v->first_writer[id - 1] || v->written_by[id - 1] > at)
      return dt__loop_verify_fail(v, "kernel %u (%s): its gate, buffer %u, is not written before",
                                  at, kernel->name, id);
  }
  // Checks of a readback stand between its writers and its users.
  for (uint32_t k = 0; k < program->kernels.len && program->device_sized; k++)
    for (uint32_t i = 0; i < readbacks; i++)
      if (k >= at && checks_item(program, &program->kernels.items[k], i))
        return dt__loop_verify_fail(v, "kernel %u (%s) uses readback %u before it is checked", at,
                                    kernel->name, i);
  return NULL;
}

static bool has_readbacks(const dt_program_t *program, dt_sym_t e) {
  return dt__expr_readbacks(program, e) != 0;
}

// The host knows no readback: nothing that it computes may need one.
static dt_status_t verify_device_sizes(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  uint32_t commit = dt__program_commit_gate(program).id;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(verify_gate(v, k, commit));
  if (!program->device_sized)
    return NULL;
  if (program->segments.len)
    return dt__loop_verify_fail(v, "a program of device sizes in %u segments",
                                program->segments.len);
  bool known = !has_readbacks(program, program->block_bytes);
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    known &= !has_readbacks(program, program->readbacks.items[k].most);
  for (uint32_t b = 0; b < program->offsets.len; b++)
    known &= !has_readbacks(program, program->offsets.items[b]);
  for (uint32_t k = 0; k < program->slices.len; k++)
    known &= !has_readbacks(program, program->slices.items[k].extent) &&
             !has_readbacks(program, program->slices.items[k].step);
  for (uint32_t k = 0; k < program->outputs.len; k++) {
    const dt_buffer_t *buffer = dt__program_buffer(program, program->outputs.items[k]);
    for (uint32_t d = 0; d < buffer->rank; d++)
      known &= !has_readbacks(program, buffer->sizes[d]);
  }
  return known ? NULL
               : dt__loop_verify_fail(
                     v, "a program of device sizes in which the host needs readbacks");
}

// ---- Slices -----------------------------------------------------------------------------------------
static dt_status_t verify_slices_of(const dt_loop_verifier_t *v, uint32_t at) {
  const dt_program_t *program = v->program;
  const dt_program_slices_t *slices = &program->slices.items[at];
  uint32_t before = at ? program->slices.items[at - 1].end : program->n_once;
  if (slices->first < before || slices->end <= slices->first ||
      slices->end > program->kernels.len || slices->begin >= v->n_symbols ||
      slices->count >= v->n_symbols)
    return dt__loop_verify_fail(v, "slices %u: kernels %u to %u", at, slices->first, slices->end);
  for (uint32_t k = 0; k < program->segments.len; k++)
    if (slices->first < program->segments.items[k].kernel_end &&
        slices->end > program->segments.items[k].kernel_end)
      return dt__loop_verify_fail(v, "slices %u: they go over the end of segment %u", at, k);
  DT_TRY(dt__loop_verify_expr(v, slices->extent, "the extent of slices"));
  DT_TRY(dt__loop_verify_expr(v, slices->step, "the step of slices"));
  for (uint32_t k = slices->first; k < slices->end; k++)
    if (program->kernels.items[k].slices != at + 1)
      return dt__loop_verify_fail(v, "slices %u: kernel %u does not know of them", at, k);
  return NULL;
}

// The slices that the expression uses a symbol of, by 1 + their number; 0: none. What uses those of
// several is of none of them.
static uint32_t slices_in(const dt_program_t *program, const uint32_t *slices_of, dt_sym_t e) {
  uint32_t symbols[64], found = 0;
  uint32_t n = e.id ? dt__sym_symbols(program->env, e, symbols, 64) : 0;
  for (uint32_t k = 0; k < n && k < 64; k++)
    found = slices_of[symbols[k]] ? slices_of[symbols[k]] : found;
  return found;
}

// Sizes change with no slices, and loops only of their own kernels do.
static dt_status_t verify_slice_symbols(const dt_loop_verifier_t *v, uint32_t *slices_of) {
  const dt_program_t *program = v->program;
  for (uint32_t i = 0; i < program->slices.len; i++)
    slices_of[program->slices.items[i].begin] = slices_of[program->slices.items[i].count] = i + 1;
  for (uint32_t b = 0; b < program->buffers.len; b++)
    for (uint32_t d = 0; d < program->buffers.items[b].rank; d++) {
      uint32_t used = slices_in(program, slices_of, program->buffers.items[b].sizes[d]);
      if (used)
        return dt__loop_verify_fail(v, "slices %u: the size of buffer %u changes with them",
                                    used - 1, b + 1);
    }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t l = 0; l < program->kernels.items[k].n_loops; l++) {
      const dt_kernel_t *kernel = &program->kernels.items[k];
      uint32_t used = slices_in(program, slices_of, kernel->extents[l]);
      if (used && used != kernel->slices)
        return dt__loop_verify_fail(v, "slices %u: kernel %u uses their symbols", used - 1, k);
    }
  return NULL;
}

static dt_status_t verify_slices(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  for (uint32_t k = 0; k < program->slices.len; k++)
    DT_TRY(verify_slices_of(v, k));
  uint32_t most = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    most = program->kernels.items[k].slices > most ? program->kernels.items[k].slices : most;
  if (most > program->slices.len)
    return dt__loop_verify_fail(v, "a kernel runs in slices %u of %u", most, program->slices.len);
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_program_slices_t *slices = dt__kernel_slices(program, k);
    if (slices && (k < slices->first || k >= slices->end))
      return dt__loop_verify_fail(v, "slices %u: kernel %u does not know of them",
                                  program->kernels.items[k].slices - 1, k);
  }
  uint32_t *slices_of = dt__calloc((size_t)v->n_symbols + 1, sizeof(*slices_of));
  if (!slices_of)
    return DT_NO_MEMORY();
  dt_status_t status = program->slices.len ? verify_slice_symbols(v, slices_of) : NULL;
  dt__free(slices_of);
  return status;
}

dt_status_t dt__loop_verify_order(const dt_loop_verifier_t *v) {
  DT_TRY(verify_readbacks(v));
  DT_TRY(verify_segments(v));
  DT_TRY(verify_device_sizes(v));
  DT_TRY(verify_slices(v));
  DT_TRY(dt__loop_verify_regions(v));
  return dt__loop_verify_chains(v);
}

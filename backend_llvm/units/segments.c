// SPDX-License-Identifier: Apache-2.0
// Segments of a call: which kernels and readbacks each has, and from which segment on the symbols
// of an expression have values.
#include "backend_llvm/units/units.h"
#include "runtime/base/status.h"

uint32_t dt__llvm_segment_count(const dt_program_t *program) {
  return program->segments.len ? program->segments.len : 1;
}

dt_segment_span_t dt__llvm_segment_span(const dt_program_t *program, uint32_t segment) {
  if (!program->segments.len)
    return (dt_segment_span_t){.kernel = program->n_once,
                               .kernel_end = program->kernels.len,
                               .block_bytes = program->block_bytes};
  const dt_program_segment_t *own = &program->segments.items[segment];
  const dt_program_segment_t *before = segment ? own - 1 : NULL;
  return (dt_segment_span_t){.readback = before ? before->readback_end : 0,
                             .readback_end = own->readback_end,
                             .kernel = before ? before->kernel_end : program->n_once,
                             .kernel_end = own->kernel_end,
                             .block_bytes = own->block_bytes};
}

static dt_status_t verify_readback(const dt_program_t *program, uint32_t index) {
  const dt_readback_t *readback = &program->readbacks.items[index];
  if (readback->buffer.id == 0 || readback->buffer.id > program->buffers.len)
    return DT_FAIL(DT_E_INTERNAL, "readback %u of the program: no buffer %u", index,
                   readback->buffer.id);
  const dt_buffer_t *buffer = dt__program_buffer(program, readback->buffer);
  if (buffer->rank != 0 || buffer->dtype != DT_I64 || buffer->kind == DT_BUFFER_LOCAL)
    return DT_FAIL(DT_E_INTERNAL, "readback %u of the program: its buffer is no single i64", index);
  if (readback->symbol >= dt__symenv_symbol_count(program->env) ||
      dt__symbol_info(program->env, readback->symbol).kind != DT_SYMBOL_UNBACKED)
    return DT_FAIL(DT_E_INTERNAL, "readback %u of the program: symbol %u is not bound by data",
                   index, readback->symbol);
  for (uint32_t i = 0; i < index; i++)
    if (program->readbacks.items[i].symbol == readback->symbol)
      return DT_FAIL(DT_E_INTERNAL, "readbacks %u and %u of the program bind one symbol", i, index);
  return NULL;
}

dt_status_t dt__llvm_segments_verify(const dt_program_t *program) {
  uint32_t n = dt__llvm_segment_count(program), readback = 0, kernel = program->n_once;
  if (kernel > program->kernels.len)
    return DT_FAIL(DT_E_INTERNAL, "program: %u of %u kernels run once", kernel,
                   program->kernels.len);
  for (uint32_t i = 0; i < program->readbacks.len; i++)
    DT_TRY(verify_readback(program, i));
  for (uint32_t s = 0; s < n; s++) {
    dt_segment_span_t span = dt__llvm_segment_span(program, s);
    if (span.readback_end < readback || span.kernel_end < kernel)
      return DT_FAIL(DT_E_INTERNAL, "segment %u of the program ends before it begins", s);
    readback = span.readback_end;
    kernel = span.kernel_end;
  }
  uint32_t read = program->device_sized ? 0 : program->readbacks.len; // by the host
  if (readback != read || kernel != program->kernels.len)
    return DT_FAIL(DT_E_INTERNAL, "segments cover %u of %u readbacks, %u of %u kernels", readback,
                   read, kernel, program->kernels.len);
  return NULL;
}

// The first segment that begins with that many readbacks bound.
static uint32_t segment_after(const dt_program_t *program, uint32_t readbacks) {
  uint32_t s = 0;
  while (s + 1 < program->segments.len && program->segments.items[s].readback_end < readbacks)
    s++;
  return s;
}

uint32_t dt__llvm_segment_of(const dt_program_t *program, dt_sym_t e) {
  return segment_after(program, dt__expr_readbacks(program, e));
}

uint32_t dt__llvm_sizes_segment(const dt_program_t *program, dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(program, id);
  uint32_t last = 0;
  for (uint32_t d = 0; d < buffer->rank; d++) {
    uint32_t own = dt__llvm_segment_of(program, buffer->sizes[d]);
    last = own > last ? own : last;
  }
  return last;
}

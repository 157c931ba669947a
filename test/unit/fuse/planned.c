// SPDX-License-Identifier: Apache-2.0
// See planned.h.
#include "test/unit/fuse/planned.h"

#include "runtime/base/status.h"
#include "test/support/check.h"

#include <stdlib.h>
#include <string.h>

#define UNBOUND (-123456789)

typedef struct planned_t {
  const dt_program_t *program;
  int64_t *symbols;
  void **base; // by buffer, [id - 1]
  char *once, *block;
  int64_t block_bytes;
  uint32_t bound; // readbacks
} planned_t;

static int64_t value_of(const planned_t *p, dt_sym_t e) {
  int64_t value = 0;
  assert_true(dt__sym_eval(p->program->env, e, p->symbols, &value));
  return value;
}

static int64_t bytes_of(const planned_t *p, const dt_buffer_t *buffer) {
  int64_t bytes = (int64_t)dt_dtype_size(buffer->dtype);
  for (uint32_t d = 0; d < buffer->rank; d++)
    bytes *= value_of(p, buffer->sizes[d]);
  return bytes;
}

// Arguments, results and what is kept lie where they lie for the whole call.
static void place_fixed(planned_t *p, void *const *inputs, void *const *outputs) {
  const dt_program_t *program = p->program;
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    const dt_buffer_t *buffer = &program->buffers.items[b];
    if (buffer->kind == DT_BUFFER_INPUT)
      p->base[b] = inputs[buffer->index];
    if (buffer->kind == DT_BUFFER_OUTPUT)
      p->base[b] = outputs[buffer->index];
    if (buffer->kind == DT_BUFFER_ONCE)
      p->base[b] = p->once + value_of(p, program->offsets.items[b]);
    if (buffer->kind == DT_BUFFER_CONSTANT) {
      const void *data = program->graph->constants.items[buffer->index].data;
      memcpy(&p->base[b], &data, sizeof(data));
    }
  }
}

static void grow_block(planned_t *p, int64_t bytes) {
  assert_true(bytes >= p->block_bytes && bytes % 64 == 0);
  char *block = malloc((size_t)bytes + 1);
  assert_non_null(block);
  memset(block, 0xa5, (size_t)bytes);
  if (p->block)
    memcpy(block, p->block, (size_t)p->block_bytes);
  free(p->block);
  p->block = block;
  p->block_bytes = bytes;
}

static void place_temp(planned_t *p, dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(p->program, id);
  if (buffer->kind != DT_BUFFER_TEMP)
    return;
  assert_true(p->program->offsets.items[id.id - 1].id != 0);
  int64_t offset = value_of(p, p->program->offsets.items[id.id - 1]);
  assert_true(offset >= 0 && offset + bytes_of(p, buffer) <= p->block_bytes);
  p->base[id.id - 1] = p->block + offset;
}

static void place_temps(planned_t *p, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      dt_buffer_id_t read = dt__inst_reads(&stage->insts.items[i]);
      if (read.id)
        place_temp(p, read);
    }
    for (uint32_t k = 0; k < stage->stores.len; k++)
      place_temp(p, stage->stores.items[k].buffer);
  }
}

static dt_status_t check_asserts(const planned_t *p) {
  const dt_graph_t *graph = p->program->graph;
  for (uint32_t k = 0; graph && k < graph->asserts.len; k++) {
    const dt_graph_assert_t *check = &graph->asserts.items[k];
    if (dt__expr_readbacks(p->program, check->cond) != p->bound || value_of(p, check->cond))
      continue;
    return DT_FAIL(check->code == DT_OK ? DT_E_SHAPE : check->code, "%s", check->what);
  }
  return NULL;
}

static dt_status_t bind(planned_t *p, uint32_t end) {
  while (p->bound < end) {
    const dt_readback_t *readback = &p->program->readbacks.items[p->bound];
    place_temp(p, readback->buffer);
    memcpy(&p->symbols[readback->symbol], p->base[readback->buffer.id - 1], sizeof(int64_t));
    p->bound++;
    DT_TRY(check_asserts(p));
  }
  return NULL;
}

// Readbacks of a program of device sizes are there once no kernel from k on writes them.
static uint32_t items_before(const dt_program_t *program, uint32_t k) {
  uint32_t n = 0;
  for (; n < program->readbacks.len && program->device_sized; n++)
    for (uint32_t later = k; later < program->kernels.len; later++)
      if (dt__kernel_stores_to(&program->kernels.items[later],
                               program->readbacks.items[n].buffer.id))
        return n;
  return n;
}

static dt_status_t run_kernel(planned_t *p, uint32_t k) {
  const dt_kernel_t *kernel = &p->program->kernels.items[k];
  DT_TRY(bind(p, items_before(p->program, k)));
  if (kernel->gate.id) {
    int64_t open = 0;
    place_temp(p, kernel->gate);
    memcpy(&open, p->base[kernel->gate.id - 1], sizeof(open));
    assert_true(open == 1); // what a check refused was refused here before
  }
  place_temps(p, kernel);
  return dt__kernel_interpret(p->program, kernel, p->symbols, p->base);
}

static dt_status_t run_slices(planned_t *p, const dt_program_slices_t *slices) {
  int64_t extent = value_of(p, slices->extent), step = value_of(p, slices->step);
  assert_true(step >= 1);
  for (int64_t begin = 0; begin < extent; begin += step) {
    p->symbols[slices->begin] = begin;
    p->symbols[slices->count] = extent - begin < step ? extent - begin : step;
    for (uint32_t k = slices->first; k < slices->end; k++)
      DT_TRY(run_kernel(p, k));
  }
  return NULL;
}

static dt_status_t run_segment(planned_t *p, const dt_program_segment_t *segment, uint32_t first) {
  DT_TRY(bind(p, segment->readback_end));
  grow_block(p, value_of(p, segment->block_bytes));
  for (uint32_t k = first; k < segment->kernel_end; k++) {
    const dt_program_slices_t *slices = dt__kernel_slices(p->program, k);
    DT_TRY(slices ? run_slices(p, slices) : run_kernel(p, k));
    k = slices ? slices->end - 1 : k;
  }
  return NULL;
}

static dt_status_t run_all(planned_t *p) {
  const dt_program_t *program = p->program;
  uint32_t at = program->n_once;
  for (uint32_t k = 0; k < at; k++)
    DT_TRY(dt__kernel_interpret(program, &program->kernels.items[k], p->symbols, p->base));
  DT_TRY(check_asserts(p));
  dt_program_segment_t all = {.kernel_end = program->kernels.len,
                              .block_bytes = program->block_bytes};
  if (!program->segments.len)
    return run_segment(p, &all, at);
  for (uint32_t k = 0; k < program->segments.len; k++) {
    DT_TRY(run_segment(p, &program->segments.items[k], at));
    at = program->segments.items[k].kernel_end;
  }
  return NULL;
}

dt_status_t run_planned(const dt_program_t *program, const int64_t *symbols, void *const *inputs,
                        void *const *outputs) {
  uint32_t n = dt__symenv_symbol_count(program->env);
  planned_t p = {.program = program,
                 .symbols = calloc(n + 1, sizeof(int64_t)),
                 .base = calloc(program->buffers.len + 1, sizeof(void *))};
  assert_true(p.symbols && p.base);
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_kind_t kind = dt__symbol_info(program->env, k).kind;
    if (kind == DT_SYMBOL_SIZE || kind == DT_SYMBOL_INT)
      p.symbols[k] = symbols[k];
    else if (kind == DT_SYMBOL_UNBACKED || kind == DT_SYMBOL_SLICE)
      p.symbols[k] = UNBOUND;
  }
  int64_t once = value_of(&p, program->once_bytes);
  p.once = malloc((size_t)once + 1);
  assert_non_null(p.once);
  memset(p.once, 0xa5, (size_t)once);
  place_fixed(&p, inputs, outputs);
  dt_status_t status = run_all(&p);
  free(p.once);
  free(p.block);
  free(p.base);
  free(p.symbols);
  return status;
}

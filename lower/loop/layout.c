// SPDX-License-Identifier: Apache-2.0
// Where an index of a buffer lies in its memory. This file alone knows: strides, offsets and sizes
// of memory come from here, for fusion and code; the interpreter computes places by itself.
//
// Each dim d has before[d] + size + behind[d] places. Those of the blocked dim are counted in
// blocks, of which the last may be in part beyond the places. Dims lie one inside of another in
// their order, and inside of all lies the block:
//
//   order [0, 2, 3, 1], block 16 of 1:   [n, h, w, ceil(c / 16)] of 16 elements each
#include "lower/loop/loop_private.h"
#include "runtime/base/status.h"

#include <string.h>

// The places of dim d; of the blocked one, its blocks.
static dt_sym_t places(dt_symenv_t *env, const dt_buffer_t *buffer, uint32_t d) {
  const dt_buffer_layout_t *layout = buffer->layout;
  if (!layout)
    return buffer->sizes[d];
  dt_sym_t all = dt__sym_const(env, layout->before[d] + layout->behind[d]);
  all = dt__sym_add(env, buffer->sizes[d], all);
  return dt__layout_blocks(layout, d) ? dt__sym_ceildiv(env, all, dt__sym_const(env, layout->block))
                                      : all;
}

static int64_t innermost(const dt_buffer_t *buffer) {
  return buffer->layout && buffer->layout->block ? buffer->layout->block : 1;
}

void dt__buffer_find_strides(dt_symenv_t *env, const dt_buffer_t *buffer, dt_sym_t *out) {
  dt_sym_t stride = dt__sym_const(env, innermost(buffer));
  for (uint32_t k = buffer->rank; k-- > 0;) {
    uint32_t d = buffer->layout ? buffer->layout->order[k] : k;
    out[d] = stride;
    stride = dt__sym_mul(env, stride, places(env, buffer, d));
  }
}

void dt__buffer_set_strides(dt_symenv_t *env, dt_buffer_t *buffer) {
  dt__buffer_find_strides(env, buffer, buffer->strides);
}

dt_sym_t dt__buffer_offset(dt_program_t *program, dt_buffer_id_t buffer, const dt_sym_t *index) {
  dt_symenv_t *env = program->env;
  const dt_buffer_t *b = dt__program_buffer(program, buffer);
  dt_sym_t offset = dt__sym_const(env, 0);
  for (uint32_t d = 0; d < b->rank; d++) {
    dt_sym_t at = index[d];
    if (b->layout)
      at = dt__sym_add(env, at, dt__sym_const(env, b->layout->before[d]));
    if (b->layout && dt__layout_blocks(b->layout, d)) {
      dt_sym_t block = dt__sym_const(env, b->layout->block);
      offset = dt__sym_add(env, offset, dt__sym_mod(env, at, block));
      at = dt__sym_floordiv(env, at, block);
    }
    offset = dt__sym_add(env, offset, dt__sym_mul(env, at, b->strides[d]));
  }
  return offset;
}

dt_sym_t dt__access_place(dt_program_t *program, const dt_kernel_t *kernel, dt_buffer_id_t buffer,
                          const dt_sym_t *index) {
  if (kernel->by_offset && dt__program_buffer(program, buffer)->rank)
    return index[0];
  return dt__buffer_offset(program, buffer, index);
}

dt_sym_t dt__buffer_count(dt_program_t *program, dt_buffer_id_t buffer) {
  const dt_buffer_t *b = dt__program_buffer(program, buffer);
  dt_sym_t count = dt__sym_const(program->env, innermost(b));
  for (uint32_t d = 0; d < b->rank; d++)
    count = dt__sym_mul(program->env, count, places(program->env, b, d));
  return count;
}

bool dt__layout_check(const dt_buffer_t *buffer) {
  const dt_buffer_layout_t *layout = buffer->layout;
  uint32_t seen = 0;
  for (uint32_t k = 0; k < buffer->rank; k++) {
    if (layout->order[k] >= buffer->rank || layout->before[k] < 0 || layout->behind[k] < 0 ||
        layout->before[k] >= DT_SIZE_LIMIT || layout->behind[k] >= DT_SIZE_LIMIT)
      return false;
    seen |= 1u << layout->order[k];
  }
  bool blocks =
      layout->block >= 2 && layout->block < DT_SIZE_LIMIT && layout->blocked < buffer->rank;
  return seen == (1u << buffer->rank) - 1 && (layout->block == 0 || blocks);
}

bool dt__layout_is_order(const dt_buffer_layout_t *layout, uint32_t rank) {
  if (!layout)
    return true;
  for (uint32_t d = 0; d < rank; d++)
    if (layout->before[d] || layout->behind[d])
      return false;
  return layout->block == 0 && !layout->filled;
}

bool dt__layout_is_row_major(const dt_buffer_layout_t *layout, uint32_t rank) {
  for (uint32_t k = 0; layout && k < rank; k++)
    if (layout->order[k] != k)
      return false;
  return dt__layout_is_order(layout, rank);
}

bool dt__layouts_same(const dt_buffer_t *a, const dt_buffer_t *b) {
  const dt_buffer_layout_t *x = a->layout, *y = b->layout;
  if (a->rank != b->rank)
    return false;
  if (!x || !y)
    return dt__layout_is_row_major(x, a->rank) && dt__layout_is_row_major(y, b->rank);
  return memcmp(x->order, y->order, a->rank * sizeof(*x->order)) == 0 &&
         memcmp(x->before, y->before, a->rank * sizeof(*x->before)) == 0 &&
         memcmp(x->behind, y->behind, a->rank * sizeof(*x->behind)) == 0 && x->block == y->block &&
         (x->block == 0 || x->blocked == y->blocked);
}

bool dt__buffers_alike(const dt_buffer_t *a, const dt_buffer_t *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
         a->row.id == b->row.id && a->donated == b->donated && a->taken == b->taken &&
         dt__layouts_same(a, b) && dt__syms_same(a->rank, a->sizes, b->sizes) &&
         dt__syms_same(a->rank, a->strides, b->strides);
}

dt_status_t dt__layout_of_order(dt_arena_t *arena, const uint8_t *order, uint32_t rank,
                                const dt_buffer_layout_t **out) {
  *out = NULL;
  dt_buffer_layout_t *made = DT_ARENA_NEW(arena, dt_buffer_layout_t);
  if (!made)
    return DT_NO_MEMORY();
  memcpy(made->order, order, rank * sizeof(*order));
  *out = dt__layout_is_row_major(made, rank) ? NULL : made;
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// See donate.h. A result, or the argument's own new value, is first written behind the last kernel
// that reads the argument, or by that kernel itself, if it stores each element where it has read
// it. So may one of a bundle, where the others touch neither.
#include "fuse/donate.h"

#include "fuse/body.h"
#include "fuse/place.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

typedef struct span_t {
  uint32_t first, end; // kernels
} span_t;

typedef struct uses_t {
  span_t *spans; // by kernel: those that it may run before or behind, in turns
  // By buffer, [id - 1]: the first kernel that stores to it, and the last that reads it, turns
  // counted; and that kernel itself.
  uint32_t *writer, *written_from, *reader, *read_until;
  bool *updated, *decides; // a kernel stores to the argument; the host reads it
} uses_t;

// ---- Who uses what ------------------------------------------------------------------------------
static void widen(span_t *span, uint32_t first, uint32_t end) {
  span->first = first < span->first ? first : span->first;
  span->end = end > span->end ? end : span->end;
}

static void find_spans(const dt_program_t *program, span_t *spans) {
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_program_slices_t *slices = dt__kernel_slices(program, k);
    dt_kernel_chain_t chain = dt__kernel_chain(program, k);
    spans[k] = (span_t){chain.first, chain.end};
    if (slices)
      widen(&spans[k], slices->first, slices->end);
  }
  for (uint32_t i = 0; i < program->regions.len; i++) {
    const dt_program_region_t *region = &program->regions.items[i];
    for (uint32_t k = region->first; k < region->end; k++)
      widen(&spans[k], region->first, region->end);
  }
}

static void note_kernel(const dt_program_t *program, uses_t *uses, uint32_t k) {
  const dt_kernel_t *kernel = &program->kernels.items[k];
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->stores.len; i++) {
      uint32_t b = stage->stores.items[i].buffer.id - 1;
      uses->updated[b] |= program->buffers.items[b].kind == DT_BUFFER_INPUT;
      if (uses->writer[b] == UINT32_MAX)
        uses->writer[b] = k;
      uint32_t from = uses->spans[k].first;
      uses->written_from[b] = from < uses->written_from[b] ? from : uses->written_from[b];
    }
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      uint32_t b = dt__inst_reads(&stage->insts.items[i]).id, until = uses->spans[k].end;
      if (b == 0)
        continue;
      uses->reader[b - 1] = k;
      uses->read_until[b - 1] = until > uses->read_until[b - 1] ? until : uses->read_until[b - 1];
    }
  }
}

static dt_status_t find_uses(const dt_program_t *program, uses_t *out) {
  uint32_t n = program->buffers.len;
  *out = (uses_t){.spans = DT_ARENA_ARRAY(program->arena, span_t, program->kernels.len + 1),
                  .writer = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1),
                  .written_from = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1),
                  .reader = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1),
                  .read_until = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1),
                  .updated = DT_ARENA_ARRAY(program->arena, bool, n + 1),
                  .decides = DT_ARENA_ARRAY(program->arena, bool, n + 1)};
  if (!out->spans || !out->writer || !out->written_from || !out->reader || !out->read_until ||
      !out->updated || !out->decides)
    return DT_NO_MEMORY();
  for (uint32_t b = 0; b < n; b++)
    out->writer[b] = out->written_from[b] = UINT32_MAX;
  find_spans(program, out->spans);
  for (uint32_t k = 0; k < program->kernels.len; k++)
    note_kernel(program, out, k);
  for (uint32_t i = 0; i < program->regions.len; i++)
    out->decides[program->regions.items[i].predicate.id - 1] = true;
  for (uint32_t i = 0; i < program->readbacks.len; i++)
    out->decides[program->readbacks.items[i].buffer.id - 1] = true;
  return NULL;
}

// ---- One argument and one result ----------------------------------------------------------------
static dt_sym_t bytes_of(const dt_program_t *program, const dt_buffer_t *buffer) {
  dt_sym_t bytes = dt__sym_const(program->env, (int64_t)dt_dtype_size(buffer->dtype));
  for (uint32_t d = 0; d < buffer->rank; d++)
    bytes = dt__sym_mul(program->env, bytes, buffer->sizes[d]);
  return bytes;
}

static bool same_sizes(const dt_buffer_t *a, const dt_buffer_t *b) {
  return a->rank == b->rank && dt_dtype_size(a->dtype) == dt_dtype_size(b->dtype) &&
         dt__syms_same(a->rank, a->sizes, b->sizes);
}

// Kernel k reads elements of `from` only before it stores them to `to`.
static bool replaces(const dt_program_t *program, uint32_t k, uint32_t from, uint32_t to) {
  const dt_kernel_t *kernel = &program->kernels.items[k];
  uint32_t stage = 0;
  const dt_store_t *store = dt__kernel_only_store(kernel, to + 1, &stage);
  if (!store || store->revises ||
      !same_sizes(&program->buffers.items[from], &program->buffers.items[to]))
    return false;
  if (kernel->external)
    return dt__call_takes_place(program, kernel, from + 1, to + 1);
  if (dt__store_scatters(program, store))
    return false;
  for (uint32_t i = 0; i < kernel->schedules.len; i++)
    if (dt__schedule_is_product(&kernel->schedules.items[i]))
      return false; // a template reads its operands in an order of its own
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      const dt_inst_t *inst = &kernel->stages.items[s].insts.items[i];
      if (dt__inst_reads(inst).id == from + 1 &&
          !dt__reads_before(program, kernel, inst, s, store, stage))
        return false;
    }
  return true;
}

static bool touches(const dt_kernel_t *kernel, dt_buffer_id_t id) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++)
      if (dt__inst_reads(&kernel->stages.items[s].insts.items[i]).id == id.id)
        return true;
  return dt__kernel_stores_to(kernel, id.id);
}

// Of the kernels that run in turns with kernel k, and are all of one bundle, no other touches the
// buffer.
static bool is_its_own(const dt_program_t *program, const uses_t *uses, uint32_t k, uint32_t b) {
  span_t span = uses->spans[k];
  dt_kernel_chain_t chain = dt__kernel_chain(program, k);
  bool own = span.first == chain.first && span.end == chain.end &&
             (span.end == span.first + 1 || dt__chain_is_bundle(program, chain));
  for (uint32_t other = span.first; own && other < span.end; other++)
    own = other == k || !touches(&program->kernels.items[other], (dt_buffer_id_t){b + 1});
  return own;
}

// `from` and `to` are buffers, [id - 1].
static bool may_lie_in(const dt_program_t *program, const uses_t *uses, uint32_t from,
                       uint32_t to) {
  const dt_buffer_t *a = &program->buffers.items[from], *b = &program->buffers.items[to];
  uint32_t writer = uses->writer[to];
  if (!a->donated || b->layout || uses->decides[from] || writer == UINT32_MAX ||
      !dt__sym_known_eq(program->env, bytes_of(program, a), bytes_of(program, b)))
    return false;
  if (uses->read_until[from] <= uses->written_from[to])
    return true;
  span_t span = uses->spans[writer];
  return uses->written_from[to] == span.first && uses->reader[from] == writer &&
         uses->read_until[from] == span.end && is_its_own(program, uses, writer, from) &&
         is_its_own(program, uses, writer, to) && replaces(program, writer, from, to);
}

// ---- New values ---------------------------------------------------------------------------------
// Kernel k does nothing but copy a temporary to a donated argument of the same layout.
static bool is_update(const dt_program_t *program, uint32_t k, dt_buffer_id_t *from,
                      dt_buffer_id_t *to) {
  const dt_kernel_t *kernel = &program->kernels.items[k];
  if (kernel->stages.len != 1 || kernel->stages.items[0].n_loops ||
      kernel->stages.items[0].stores.len != 1 || kernel->stages.items[0].insts.len != 1)
    return false;
  const dt_inst_t *load = &kernel->stages.items[0].insts.items[0];
  const dt_store_t *store = &kernel->stages.items[0].stores.items[0];
  if (load->kind != DT_INST_LOAD || load->mask != DT_NO_INST || store->mask != DT_NO_INST)
    return false;
  *from = load->buffer;
  *to = store->buffer;
  const dt_buffer_t *a = dt__program_buffer(program, *from), *b = dt__program_buffer(program, *to);
  bool same = a->kind == DT_BUFFER_TEMP && !a->layout && b->kind == DT_BUFFER_INPUT && b->donated &&
              a->dtype == b->dtype && same_sizes(a, b);
  for (uint32_t d = 0; same && d < a->rank; d++)
    same = a->strides[d].id == b->strides[d].id && load->index[d].id == store->index[d].id;
  return same;
}

// Kernel `copy` is the only one that stores to the argument, and of those that update any the only
// one that reads the temporary. All who touch the temporary run once, and in order.
static bool is_alone(const dt_program_t *program, const uses_t *uses, uint32_t copy,
                     dt_buffer_id_t from, dt_buffer_id_t to) {
  if (uses->decides[from.id - 1])
    return false;
  for (uint32_t k = 0; k < program->kernels.len; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    span_t span = uses->spans[k];
    if (k != copy && dt__kernel_stores_to(kernel, to.id))
      return false;
    if (k != copy && touches(kernel, from) &&
        (span.end != span.first + 1 || k > copy || dt__kernel_updates(program, kernel)))
      return false;
  }
  return true;
}

static void rename_in(dt_stage_t *stage, dt_buffer_id_t from, dt_buffer_id_t to) {
  for (uint32_t i = 0; i < stage->stores.len; i++)
    if (stage->stores.items[i].buffer.id == from.id)
      stage->stores.items[i].buffer = to;
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (dt__inst_reads(&stage->insts.items[i]).id == from.id)
      stage->insts.items[i].buffer = to;
}

static void take(dt_program_t *program, uint32_t copy, dt_buffer_id_t from, dt_buffer_id_t to) {
  DT_LOG(DT_LOG_MEMORY, 1, "argument %u is donated, and its new value made in place",
         dt__program_buffer(program, to)->index);
  program->kernels.items[copy].stages.len = 0;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++)
      rename_in(&program->kernels.items[k].stages.items[s], from, to);
  dt__program_buffer(program, to)->taken = true;
}

// Segments may yet move a reader of the argument behind what writes it.
dt_status_t dt__take_donated(dt_program_t *program) {
  uint32_t n = 0;
  uses_t uses;
  if (!dt__program_is_given(program) || program->readbacks.len)
    return NULL;
  for (uint32_t k = program->n_once; k < program->kernels.len; k++) {
    dt_buffer_id_t from, to;
    if (!is_update(program, k, &from, &to))
      continue;
    DT_TRY(find_uses(program, &uses));
    if (is_alone(program, &uses, k, from, to) && may_lie_in(program, &uses, to.id - 1, from.id - 1))
      take(program, k, from, to);
  }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (program->kernels.items[k].stages.len)
      program->kernels.items[n++] = program->kernels.items[k];
  program->kernels.len = n;
  DT_TRY(dt__program_settle_slices(program));
  return dt__program_settle_regions(program);
}

// ---- All of them --------------------------------------------------------------------------------
bool dt__program_is_given(const dt_program_t *program) {
  for (uint32_t b = 0; b < program->buffers.len; b++)
    if (program->buffers.items[b].donated)
      return true;
  return false;
}

dt_status_t dt__find_donations(const dt_program_t *program, uint32_t *out) {
  uint32_t n = program->buffers.len;
  uses_t uses;
  for (uint32_t k = 0; k < program->outputs.len; k++)
    out[k] = 0;
  if (!dt__program_is_given(program))
    return NULL;
  bool *taken = DT_ARENA_ARRAY(program->arena, bool, n + 1);
  if (!taken)
    return DT_NO_MEMORY();
  DT_TRY(find_uses(program, &uses));
  for (uint32_t k = 0; k < program->outputs.len; k++)
    for (uint32_t b = 0; b < n && !out[k]; b++) {
      if (taken[b] || uses.updated[b] ||
          !may_lie_in(program, &uses, b, program->outputs.items[k].id - 1))
        continue;
      out[k] = 1 + program->buffers.items[b].index;
      taken[b] = true;
    }
  return dt__symenv_status(program->env);
}

// SPDX-License-Identifier: Apache-2.0
// Interprets a whole program: regions, memory for its buffers, readbacks bound as their buffers are
// written, asserts checked as their symbols are bound. Checks that results are written in full.
#include "lower/graph/scalar.h"
#include "lower/loop/interpret_private.h"
#include "runtime/base/status.h"

#include <string.h>

#define MAX_TRIPS ((int64_t)1 << 20) // of one loop

typedef struct run_t {
  dt_interp_t in;
  void *const *inputs, *const *outputs;
  uint32_t *written_after; // by buffer, [id - 1]: kernels after which all of it is written
  uint32_t bound;          // readbacks bound so far
} run_t;

// ---- Memory ---------------------------------------------------------------------------------------------
// The interpreter only reads constants; their memory is passed on without a qualifier because
// outputs lie in the same array.
static char *not_const(const void *data) {
  char *made = NULL;
  memcpy(&made, &data, sizeof(made));
  return made;
}

static dt_status_t place(run_t *run, uint32_t id) {
  dt_interp_t *in = &run->in;
  const dt_buffer_t *buffer = &in->program->buffers.items[id - 1];
  dt_interp_buffer_t *at = &in->buffers[id - 1];
  if (at->placed)
    return NULL;
  DT_TRY(dt__interp_measure(in, id));
  at->placed = true;
  switch (buffer->kind) {
  case DT_BUFFER_INPUT:
    at->base = run->inputs[buffer->index];
    return NULL;
  case DT_BUFFER_CONSTANT:
    if (!in->program->graph)
      return DT_FAIL(DT_E_STATE, "buffer %u is a constant, and the program has no graph", id);
    at->base = not_const(in->program->graph->constants.items[buffer->index].data);
    return NULL;
  case DT_BUFFER_OUTPUT:
    at->base = run->outputs[buffer->index];
    return dt__interp_allocate(in, id, false);
  case DT_BUFFER_TEMP:
  case DT_BUFFER_ONCE:
  case DT_BUFFER_SLAB:
  case DT_BUFFER_STATE:
    return dt__interp_allocate(in, id, true);
  case DT_BUFFER_LOCAL:
    return NULL;
  }
  return NULL;
}

static dt_status_t place_all_of(run_t *run, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      dt_buffer_id_t buffer = dt__inst_reads(&stage->insts.items[i]);
      if (buffer.id)
        DT_TRY(place(run, buffer.id));
    }
    for (uint32_t k = 0; k < stage->stores.len; k++)
      DT_TRY(place(run, stage->stores.items[k].buffer.id));
  }
  return NULL;
}

// ---- Readbacks ----------------------------------------------------------------------------------
static void find_writers(run_t *run) {
  const dt_program_t *program = run->in.program;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        run->written_after[stage->stores.items[i].buffer.id - 1] = k + 1;
    }
}

// The asserts that the first `bound` readbacks decide, and fewer do not.
static dt_status_t check_asserts(const run_t *run) {
  const dt_program_t *program = run->in.program;
  uint32_t n = program->graph ? program->graph->asserts.len : 0;
  for (uint32_t k = 0; k < n; k++) {
    const dt_graph_assert_t *check = &program->graph->asserts.items[k];
    int64_t holds = 0;
    if (dt__expr_readbacks(program, check->cond) != run->bound)
      continue;
    DT_TRY(dt__interp_eval(&run->in, check->cond, "an assert", &holds));
    if (!holds)
      return DT_FAIL(check->code == DT_OK ? DT_E_SHAPE : check->code, "assert failed: %s",
                     check->what ? check->what : "");
  }
  return NULL;
}

// After the asserts, which say more: what is left is what the dtype cannot say.
static dt_status_t check_range(const run_t *run, const dt_readback_t *readback) {
  dt_range_t range = dt__symbol_info(run->in.program->env, readback->symbol).range;
  int64_t value = run->in.values[readback->symbol];
  if (value >= range.lo && value <= range.hi)
    return NULL;
  return DT_FAIL(DT_E_RANGE, "%s: the data says %lld; expected %lld to %lld",
                 readback->what ? readback->what : "item", (long long)value, (long long)range.lo,
                 (long long)range.hi);
}

static dt_status_t bind_readbacks(run_t *run, uint32_t kernels_run) {
  const dt_program_t *program = run->in.program;
  while (run->bound < program->readbacks.len) {
    const dt_readback_t *readback = &program->readbacks.items[run->bound];
    uint32_t b = readback->buffer.id - 1;
    if (run->written_after[b] > kernels_run)
      return NULL;
    DT_TRY(place(run, readback->buffer.id));
    const dt_interp_buffer_t *at = &run->in.buffers[b];
    if (at->written && !at->written[0])
      return DT_FAIL(DT_E_INTERNAL, "readback %u is bound before buffer %u is written", run->bound,
                     readback->buffer.id);
    run->in.values[readback->symbol] = dt__scalar_load(DT_I64, at->base).i;
    run->bound++;
    DT_TRY(check_asserts(run));
    DT_TRY(check_range(run, readback));
  }
  return NULL;
}

// ---- The program ------------------------------------------------------------------------------------------
static dt_status_t check_complete(const run_t *run) {
  const dt_program_t *program = run->in.program;
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    const dt_interp_buffer_t *at = &run->in.buffers[b];
    if (program->buffers.items[b].kind != DT_BUFFER_OUTPUT)
      continue;
    for (int64_t k = 0; k < at->count; k++)
      if (!at->written[k])
        return DT_FAIL(DT_E_INTERNAL, "element %lld of result %u is never written", (long long)k,
                       program->buffers.items[b].index);
  }
  return NULL;
}

static dt_status_t run_one(run_t *run, uint32_t k) {
  const dt_kernel_t *kernel = &run->in.program->kernels.items[k];
  if (dt__kernel_readbacks(run->in.program, kernel) > run->bound)
    return DT_FAIL(DT_E_INTERNAL, "%s: readback %u is used before it is bound", kernel->name,
                   run->bound);
  if (kernel->gate.id) {
    const dt_interp_buffer_t *gate = &run->in.buffers[kernel->gate.id - 1];
    if (!gate->placed || !gate->written || !gate->written[0])
      return DT_FAIL(DT_E_INTERNAL, "%s: its gate is not written", kernel->name);
    if (!dt__scalar_load(DT_I64, gate->base).i)
      return NULL;
  }
  DT_TRY(place_all_of(run, kernel));
  return dt__interp_run(&run->in, kernel);
}

// What earlier slices left in temporaries that only these kernels use is gone with the next slice.
static void forget_slice(run_t *run, const dt_program_slices_t *slices) {
  const dt_program_t *program = run->in.program;
  for (uint32_t k = slices->first; k < slices->end; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++) {
        uint32_t b = stage->stores.items[i].buffer.id - 1;
        const dt_buffer_t *buffer = &program->buffers.items[b];
        dt_interp_buffer_t *at = &run->in.buffers[b];
        bool own = buffer->kind == DT_BUFFER_TEMP && buffer->rank &&
                   buffer->sizes[0].id == slices->step.id;
        if (own && at->written)
          memset(at->written, 0, (size_t)at->count * sizeof(*at->written));
      }
    }
}

static dt_status_t run_slices(run_t *run, const dt_program_slices_t *slices) {
  int64_t extent = 0, step = 0;
  DT_TRY(dt__interp_eval(&run->in, slices->extent, "the extent of slices", &extent));
  DT_TRY(dt__interp_eval(&run->in, slices->step, "the step of slices", &step));
  if (step < 1)
    return DT_FAIL(DT_E_INTERNAL, "slices of %lld iterations", (long long)step);
  for (int64_t begin = 0; begin < extent; begin += step) {
    run->in.values[slices->begin] = begin;
    run->in.values[slices->count] = extent - begin < step ? extent - begin : step;
    forget_slice(run, slices);
    for (uint32_t k = slices->first; k < slices->end; k++)
      DT_TRY(run_one(run, k));
  }
  return NULL;
}

// ---- Regions --------------------------------------------------------------------------------------------
static dt_status_t run_kernels(run_t *run, uint32_t first, uint32_t end, uint32_t after);

// Whether the region's kernels run.
static bool decides(const dt_program_region_t *region, uint64_t predicate) {
  if (region->kind == DT_REGION_CASE)
    return predicate < region->n ? predicate == region->index : region->index + 1 == region->n;
  return (predicate != 0) == (region->kind != DT_REGION_ELSE);
}

static dt_status_t read_predicate(run_t *run, const dt_program_region_t *region, bool *out) {
  DT_TRY(place(run, region->predicate.id));
  const dt_interp_buffer_t *at = &run->in.buffers[region->predicate.id - 1];
  if (at->written && !at->written[0])
    return DT_FAIL(DT_E_INTERNAL, "buffer %u decides before it is written", region->predicate.id);
  *out = decides(region, *(const unsigned char *)at->base);
  return NULL;
}

// A trip sees nothing of what earlier ones wrote, but the state.
static void forget_trip(run_t *run, const dt_program_region_t *region) {
  const dt_program_t *program = run->in.program;
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    dt_interp_buffer_t *at = &run->in.buffers[b];
    bool own = false;
    for (uint32_t k = region->first; k < region->end && !own; k++)
      own = dt__kernel_stores_to(&program->kernels.items[k], b + 1);
    if (own && at->written && program->buffers.items[b].kind != DT_BUFFER_STATE)
      memset(at->written, 0, (size_t)at->count * sizeof(*at->written));
  }
}

static dt_status_t run_region(run_t *run, uint32_t index) {
  const dt_program_region_t *region = &run->in.program->regions.items[index];
  bool loop = region->kind == DT_REGION_WHILE, go_on = false;
  for (int64_t trips = 0;; trips++) {
    DT_TRY(read_predicate(run, region, &go_on));
    if (!go_on || (trips && !loop))
      return NULL;
    if (trips == MAX_TRIPS)
      return DT_FAIL(DT_E_LIMIT, "a loop has not ended after %lld trips", (long long)trips);
    forget_trip(run, region);
    DT_TRY(run_kernels(run, region->first, region->end, index + 1));
  }
}

// Kernels [first, end), and the regions among them from number `after` on.
static dt_status_t run_kernels(run_t *run, uint32_t first, uint32_t end, uint32_t after) {
  const dt_program_t *program = run->in.program;
  for (uint32_t k = first; k < end;) {
    const dt_program_slices_t *slices = dt__kernel_slices(program, k);
    uint32_t region = dt__region_at(program, k, after);
    DT_TRY(bind_readbacks(run, k));
    if (region != UINT32_MAX) {
      DT_TRY(run_region(run, region));
      k = program->regions.items[region].end;
    } else if (slices) {
      DT_TRY(run_slices(run, slices));
      k = slices->end;
    } else {
      DT_TRY(run_one(run, k++));
    }
  }
  return NULL;
}

static dt_status_t run_all(run_t *run) {
  const dt_program_t *program = run->in.program;
  find_writers(run);
  DT_TRY(check_asserts(run));
  DT_TRY(run_kernels(run, 0, program->kernels.len, 0));
  DT_TRY(bind_readbacks(run, program->kernels.len));
  for (uint32_t id = 1; id <= program->buffers.len; id++)
    if (program->buffers.items[id - 1].kind == DT_BUFFER_OUTPUT)
      DT_TRY(place(run, id));
  return check_complete(run);
}

dt_status_t dt__program_interpret(const dt_program_t *program, const int64_t *symbols,
                                  void *const *inputs, void *const *outputs) {
  run_t run = {.inputs = inputs, .outputs = outputs};
  DT_TRY(dt__interp_init(&run.in, program, symbols));
  run.written_after = dt__calloc(program->buffers.len + 1, sizeof(*run.written_after));
  dt_status_t status = run.written_after ? run_all(&run) : DT_NO_MEMORY();
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    dt_buffer_kind_t kind = program->buffers.items[b].kind;
    if (kind == DT_BUFFER_TEMP || kind == DT_BUFFER_ONCE || kind == DT_BUFFER_SLAB ||
        kind == DT_BUFFER_STATE)
      dt__free(run.in.buffers[b].base);
    dt__free(run.in.buffers[b].written);
  }
  dt__free(run.written_after);
  dt__interp_fini(&run.in);
  return status;
}

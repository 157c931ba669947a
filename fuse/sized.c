// SPDX-License-Identifier: Apache-2.0
// See sized.h. In a program of device sizes the host computes memory and grids from bounds. So
// every size needs a bound. No size may be a product of several readbacks, since its bound would be
// far above its value.
#include "fuse/sized.h"

#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_BOUNDS 8                   // of one readback, that are looked at
#define MOST_NUMBER ((int64_t)1 << 32) // what allows more is no bound for memory

typedef struct sized_t {
  dt_program_t *program;
  char reason[160]; // why not; "": nothing so far
} sized_t;

static void refuse(sized_t *s, const char *fmt, ...) DT_PRINTF(2, 3);
static void refuse(sized_t *s, const char *fmt, ...) {
  va_list args;
  if (s->reason[0])
    return;
  va_start(args, fmt);
  (void)vsnprintf(s->reason, sizeof(s->reason), fmt, args);
  va_end(args);
}

// ---- Bounds ---------------------------------------------------------------------------------------

static void narrow(dt_program_t *program, dt_readback_t *readback, dt_sym_t bound) {
  dt_sym_t most = dt__program_most(program, bound); // none of none
  int64_t value = 0;
  if (most.id && (!dt__sym_is_const(program->env, most, &value) || value < MOST_NUMBER))
    readback->most = readback->most.id ? dt__sym_min(program->env, readback->most, most) : most;
}

// The most that `symbol` may be where `sum`, in which it is subtracted, is at least 0; none: not
// known.
static dt_sym_t bound_by_sum(dt_symenv_t *env, dt_sym_t sum, dt_sym_t symbol) {
  dt_sym_t coef, rest;
  int64_t by = 0;
  bool linear = dt__sym_linear(env, sum, symbol, &coef, &rest);
  return linear && dt__sym_is_const(env, coef, &by) && by == -1 ? rest : DT_SYM_NONE_ID;
}

// The most that `symbol` may be where `cond` holds; none: not known. Where only one of several
// conditions need hold (or), it is the most that any of them allows.
static dt_sym_t bound_by(dt_symenv_t *env, dt_sym_t cond, dt_sym_t symbol) {
  dt_sym_t args[MAX_BOUNDS], all = DT_SYM_NONE_ID;
  dt_sym_view_t view = dt__sym_view(env, cond);
  if (view.n_args > MAX_BOUNDS)
    return all;
  for (uint32_t k = 0; k < view.n_args; k++)
    args[k] = view.args[k];
  if (view.op == DT_SYM_LE)
    return bound_by_sum(env, dt__sym_sub(env, args[1], args[0]), symbol);
  if (view.op == DT_SYM_LT)
    return bound_by_sum(
        env, dt__sym_sub(env, dt__sym_sub(env, args[1], args[0]), dt__sym_const(env, 1)), symbol);
  if (view.op == DT_SYM_EQ) {
    all = bound_by_sum(env, dt__sym_sub(env, args[1], args[0]), symbol);
    return all.id ? all : bound_by_sum(env, dt__sym_sub(env, args[0], args[1]), symbol);
  }
  for (uint32_t k = 0; k < view.n_args && view.op == DT_SYM_OR; k++) {
    dt_sym_t own = bound_by(env, args[k], symbol);
    if (!own.id)
      return own;
    all = all.id ? dt__sym_max(env, all, own) : own;
  }
  return all;
}

// The most that the program lets a readback be: other sizes, readbacks before it, or a number.
static void find_most(dt_program_t *program, dt_readback_t *readback) {
  dt_sym_t bounds[MAX_BOUNDS];
  dt_symbol_info_t info = dt__symbol_info(program->env, readback->symbol);
  uint32_t n = dt__symbol_bounds(program->env, readback->symbol, bounds, MAX_BOUNDS);
  readback->most = DT_SYM_NONE_ID;
  if (info.range.hi < info.made.hi)
    narrow(program, readback, dt__sym_const(program->env, info.range.hi));
  for (uint32_t k = 0; k < n && k < MAX_BOUNDS; k++)
    narrow(program, readback, bounds[k]);
  for (uint32_t k = 0; program->graph && k < program->graph->asserts.len; k++)
    narrow(program, readback,
           bound_by(program->env, program->graph->asserts.items[k].cond,
                    dt__symbol_sym(program->env, readback->symbol)));
}

static bool never_negative(dt_program_t *program, dt_sym_t e) {
  dt_symenv_t *env = program->env;
  dt_sym_t zero = dt__sym_const(env, 0), least = dt__program_least(program, e);
  return dt__sym_known_true(env, dt__sym_le(env, zero, e)) ||
         (least.id && dt__sym_known_true(env, dt__sym_le(env, zero, least)));
}

static bool has_bound(dt_program_t *program, dt_sym_t e) {
  return !dt__expr_readbacks(program, e) ||
         (dt__program_most(program, e).id && never_negative(program, e));
}

// ---- What the host needs --------------------------------------------------------------------------

static void look_at_results(sized_t *s) {
  dt_program_t *program = s->program;
  for (uint32_t k = 0; k < program->outputs.len; k++) {
    const dt_buffer_t *buffer = dt__program_buffer(program, program->outputs.items[k]);
    for (uint32_t d = 0; d < buffer->rank; d++)
      if (dt__expr_readbacks(program, buffer->sizes[d]))
        refuse(s, "dim %u of result %u is read from data", d, k);
  }
}

static void look_at_buffers(sized_t *s) {
  dt_program_t *program = s->program;
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    const dt_buffer_t *buffer = &program->buffers.items[b];
    if (buffer->kind == DT_BUFFER_INPUT || !dt__program_stores_to(program, b + 1))
      continue;
    bool known = dt__program_most(program, dt__buffer_count(program, (dt_buffer_id_t){b + 1})).id;
    for (uint32_t d = 0; d < buffer->rank; d++)
      known &= has_bound(program, buffer->sizes[d]);
    if (!known)
      refuse(s, "nothing bounds the size of buffer %u before data is read", b + 1);
  }
}

// A kernel whose grid has two lengths from data has none that suits it.
static void look_at_loops(sized_t *s, const dt_kernel_t *kernel) {
  dt_program_t *program = s->program;
  uint32_t from_data = 0;
  for (uint32_t v = 0; v < kernel->n_loops; v++) {
    from_data += dt__expr_readbacks(program, kernel->extents[v]) != 0;
    if (!has_bound(program, kernel->extents[v]))
      refuse(s, "nothing bounds the loops of %s before data is read", kernel->name);
  }
  if (from_data > 1)
    refuse(s, "%u loops of %s have lengths that are read from data", from_data, kernel->name);
  for (uint32_t t = 0; t < kernel->stages.len; t++)
    for (uint32_t v = 0; v < kernel->stages.items[t].n_loops; v++) {
      dt_sym_t extent = kernel->stages.items[t].extents[v];
      if (dt__expr_readbacks(program, extent) && !never_negative(program, extent))
        refuse(s, "a length that is read from data in %s may be negative", kernel->name);
    }
}

static void look_at_slices(sized_t *s) {
  const dt_program_t *program = s->program;
  for (uint32_t k = 0; k < program->slices.len; k++)
    if (dt__expr_readbacks(program, program->slices.items[k].extent) ||
        dt__expr_readbacks(program, program->slices.items[k].step))
      refuse(s, "the host walks slices of a loop whose length is read from data");
}

// The host tells where a number that the program makes of readbacks does not fit in 64 bits.
static void look_at_numbers(sized_t *s, const dt_graph_t *graph) {
  const dt_program_t *program = s->program;
  for (uint32_t i = 0; i < graph->nodes.len; i++) {
    const dt_node_t *node = &graph->nodes.items[i];
    if (node->op != DT_OP_size || !dt__expr_readbacks(program, node->attrs->syms[0]) ||
        dt__sym_is_symbol(program->env, node->attrs->syms[0], NULL))
      continue;
    dt_range_t range = dt__sym_range(program->env, node->attrs->syms[0]);
    if (range.lo == INT64_MIN || range.hi == INT64_MAX)
      refuse(s, "a number that is made of what is read from data may not fit in 64 bits");
  }
  for (uint32_t i = 0; i < graph->controls.len; i++)
    for (uint32_t k = 0; k < dt__control_own_n(&graph->controls.items[i]); k++)
      look_at_numbers(s, graph->controls.items[i].bodies[k]);
}

// ---- The program ----------------------------------------------------------------------------------

// Kernels in order of their segments, checks between these.
static dt_status_t join(sized_t *s, dt_kernel_t *kernels, uint32_t *out_n) {
  dt_program_t *program = s->program;
  uint32_t at = 0, readback = 0, kernel = 0;
  dt_buffer_id_t gate = {0};
  while (kernel < program->n_once)
    kernels[at++] = program->kernels.items[kernel++];
  for (uint32_t k = 0; k < program->segments.len && !s->reason[0]; k++) {
    const dt_program_segment_t *segment = &program->segments.items[k];
    const char *reason = NULL;
    DT_TRY(dt__readback_checks(program, readback, segment->readback_end, &gate, &kernels[at],
                               &reason));
    if (reason)
      refuse(s, "%s", reason);
    at += kernels[at].stages.len != 0;
    readback = segment->readback_end;
    for (; kernel < segment->kernel_end; kernel++) {
      kernels[at] = program->kernels.items[kernel];
      kernels[at++].gate = gate;
    }
  }
  *out_n = at;
  return NULL;
}

static dt_status_t keep_segments(sized_t *s) {
  for (uint32_t k = 0; k < s->program->readbacks.len; k++)
    s->program->readbacks.items[k].most = DT_SYM_NONE_ID;
  s->program->segments_reason = dt__arena_strdup(s->program->arena, s->reason);
  return s->program->segments_reason ? NULL : DT_NO_MEMORY();
}

dt_status_t dt__size_on_device(dt_program_t *program) {
  sized_t s = {.program = program};
  uint32_t n_buffers = program->buffers.len, n_checks = program->checks.len, n = 0;
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    find_most(program, &program->readbacks.items[k]);
  look_at_results(&s);
  look_at_buffers(&s);
  for (uint32_t k = 0; k < program->kernels.len; k++)
    look_at_loops(&s, &program->kernels.items[k]);
  look_at_slices(&s);
  if (program->graph)
    look_at_numbers(&s, program->graph);
  if (s.reason[0])
    return keep_segments(&s);
  uint32_t room = program->kernels.len + program->segments.len;
  dt_kernel_t *kernels = DT_ARENA_ARRAY(program->arena, dt_kernel_t, room + 1);
  if (!kernels)
    return DT_NO_MEMORY();
  DT_TRY(join(&s, kernels, &n));
  if (s.reason[0]) {
    program->buffers.len = n_buffers;
    program->checks.len = n_checks;
    return keep_segments(&s);
  }
  program->kernels.items = kernels;
  program->kernels.len = n;
  program->kernels.cap = room + 1;
  program->segments.len = 0;
  program->device_sized = true;
  return NULL;
}

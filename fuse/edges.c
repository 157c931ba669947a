// SPDX-License-Identifier: Apache-2.0
// See edges.h. Memory is a small number of cells: a cell is written or read as a whole. The
// transitive reduction keeps, of a launch's predecessors, those that no other one of them follows.
#include "fuse/edges.h"

#include "runtime/base/status.h"

#include <string.h>

#define CELL_NONE 0u    // nothing that a call writes
#define CELL_INPUTS 1u  // arguments, any of which may be the same memory
#define CELL_SCRATCH 2u // what kernels keep in global memory for their teams
#define CELL_FIRST 3u   // slots and results

typedef struct cells_t {
  const dt_program_t *program;
  uint32_t *of; // [buffer - 1]
  uint32_t n;
} cells_t;

typedef struct launch_t {
  uint32_t first, end;      // kernels
  uint64_t *reads, *writes; // by cell, a bit each
  uint64_t *behind;         // launches that have ended when it begins, a bit each
} launch_t;

static bool has_bit(const uint64_t *bits, uint32_t k) { return bits[k / 64] >> k % 64 & 1; }
static void set_bit(uint64_t *bits, uint32_t k) { bits[k / 64] |= UINT64_C(1) << k % 64; }

static bool meet(const uint64_t *a, const uint64_t *b, uint32_t n) {
  for (uint32_t k = 0; k <= n / 64; k++)
    if (a[k] & b[k])
      return true;
  return false;
}

// ---- Cells ----------------------------------------------------------------------------------------

// Temporaries of one slot have one offset.
static uint32_t slot_cell(cells_t *cells, uint32_t b) {
  const dt_program_t *program = cells->program;
  for (uint32_t k = 0; k < b; k++)
    if (program->buffers.items[k].kind == DT_BUFFER_TEMP && cells->of[k] &&
        program->offsets.items[k].id == program->offsets.items[b].id)
      return cells->of[k];
  return cells->n++;
}

static bool updates(const dt_program_t *program) {
  for (uint32_t k = program->n_once; k < program->kernels.len; k++)
    if (dt__kernel_updates(program, &program->kernels.items[k]))
      return true;
  return false;
}

static void find_cells(cells_t *cells) {
  const dt_program_t *program = cells->program;
  bool updated = updates(program);
  cells->n = CELL_FIRST;
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    dt_buffer_kind_t kind = program->buffers.items[b].kind;
    if (kind == DT_BUFFER_INPUT)
      cells->of[b] = updated ? CELL_INPUTS : CELL_NONE;
    else if (kind == DT_BUFFER_LOCAL || kind == DT_BUFFER_SLAB)
      cells->of[b] = CELL_SCRATCH;
    else if (kind == DT_BUFFER_OUTPUT)
      cells->of[b] = cells->n++;
    else if (kind == DT_BUFFER_TEMP && program->offsets.items[b].id)
      cells->of[b] = slot_cell(cells, b);
  }
}

static void touch(uint64_t *bits, const cells_t *cells, dt_buffer_id_t id) {
  if (id.id && cells->of[id.id - 1] != CELL_NONE)
    set_bit(bits, cells->of[id.id - 1]);
}

static void find_touched(const cells_t *cells, launch_t *launch) {
  const dt_program_t *program = cells->program;
  for (uint32_t k = launch->first; k < launch->end; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    // What a kernel of device sizes reads where it begins.
    uint32_t n_items = program->device_sized ? dt__kernel_items(program, kernel) : 0;
    for (uint32_t i = 0; i < n_items; i++)
      touch(launch->reads, cells, program->items.items[i].buffer);
    touch(launch->reads, cells, kernel->gate);
    for (uint32_t s = 0; s < kernel->stages.len; s++) {
      const dt_stage_t *stage = &kernel->stages.items[s];
      for (uint32_t i = 0; i < stage->insts.len; i++)
        touch(launch->reads, cells, dt__inst_reads(&stage->insts.items[i]));
      for (uint32_t i = 0; i < stage->stores.len; i++)
        touch(launch->writes, cells, stage->stores.items[i].buffer);
    }
  }
  if (has_bit(launch->reads, CELL_SCRATCH))
    set_bit(launch->writes, CELL_SCRATCH);
}

// ---- Launches -------------------------------------------------------------------------------------

static uint32_t count_launches(const dt_program_t *program) {
  uint32_t n = 0;
  for (uint32_t k = program->n_once; k < program->kernels.len; k = dt__kernel_chain(program, k).end)
    n++;
  return n;
}

static bool find_launches(const cells_t *cells, launch_t *launches, uint32_t n) {
  const dt_program_t *program = cells->program;
  uint32_t first = program->n_once;
  for (uint32_t l = 0; l < n; l++) {
    launch_t *launch = &launches[l];
    launch->first = first;
    launch->end = first = dt__kernel_chain(program, first).end;
    launch->reads = DT_ARENA_ARRAY(program->arena, uint64_t, cells->n / 64 + 1);
    launch->writes = DT_ARENA_ARRAY(program->arena, uint64_t, cells->n / 64 + 1);
    launch->behind = DT_ARENA_ARRAY(program->arena, uint64_t, n / 64 + 1);
    if (!launch->reads || !launch->writes || !launch->behind)
      return false;
    find_touched(cells, launch);
  }
  return true;
}

static bool conflict(const launch_t *a, const launch_t *b, uint32_t cells) {
  return meet(a->writes, b->writes, cells) || meet(a->writes, b->reads, cells) ||
         meet(a->reads, b->writes, cells);
}

// From the nearest launch before it on: whatever that one is behind needs no edge.
static dt_status_t add_edges(const cells_t *cells, launch_t *launches, uint32_t to, uint32_t n,
                             dt_edges_t *out) {
  for (uint32_t from = to; from-- > 0;) {
    if (has_bit(launches[to].behind, from) || !conflict(&launches[from], &launches[to], cells->n))
      continue;
    dt_edge_t edge = {.from = from, .to = to};
    if (!DT_VEC_PUSH(cells->program->arena, out, edge))
      return DT_NO_MEMORY();
    set_bit(launches[to].behind, from);
    for (uint32_t k = 0; k <= n / 64; k++)
      launches[to].behind[k] |= launches[from].behind[k];
  }
  return NULL;
}

static bool is_chain(const dt_program_t *program, const dt_edges_t *edges, uint32_t n) {
  if (program->slices.len || program->regions.len || program->segments.len > 1)
    return true;
  bool chain = edges->len + 1 == n || n == 0;
  for (uint32_t k = 0; chain && k < edges->len; k++)
    chain = edges->items[k].from == k && edges->items[k].to == k + 1;
  return chain;
}

dt_status_t dt__program_edges(const dt_program_t *program, dt_edges_t *out, bool *out_chain) {
  uint32_t n = count_launches(program);
  cells_t cells = {.program = program,
                   .of = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1)};
  launch_t *launches = DT_ARENA_ARRAY(program->arena, launch_t, n + 1);
  *out = (dt_edges_t){0};
  if (!cells.of || !launches)
    return DT_NO_MEMORY();
  find_cells(&cells);
  if (!find_launches(&cells, launches, n))
    return DT_NO_MEMORY();
  for (uint32_t to = 0; to < n; to++)
    DT_TRY(add_edges(&cells, launches, to, n, out));
  *out_chain = is_chain(program, out, n);
  return NULL;
}

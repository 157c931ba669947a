// SPDX-License-Identifier: Apache-2.0
// See edges.h. Memory is modelled as a small number of cells, each written or read as a whole. The
// transitive reduction keeps a launch's predecessor only if no other predecessor comes after that
// one. The order is known for WINDOW launches back, so the whole takes linear time.
#include "fuse/edges.h"

#include "fuse/donate.h"
#include "runtime/base/status.h"

#include <stdlib.h>

#define WINDOW ((uint32_t)DT_EDGES_WINDOW / 64) // words

#define CELL_NONE 0u    // nothing that a call writes
#define CELL_INPUTS 1u  // arguments, any of which may be the same memory, and results in theirs
#define CELL_SCRATCH 2u // what kernels keep in global memory for their teams
#define CELL_RECORD 3u  // of failed checks
#define CELL_FIRST 4u   // slots and results

typedef struct cells_t {
  const dt_program_t *program;
  uint32_t *of; // [buffer - 1]
  uint32_t n;
} cells_t;

// What the launches so far did to a cell. Whatever touched it before the last that wrote it is
// behind that one.
typedef struct touched_t {
  uint32_t writer;          // 1 + the last launch that writes it; 0: none
  DT_VEC(uint32_t) readers; // launches that have read it since
} touched_t;

typedef struct launch_t {
  uint32_t first, end; // kernels
  uint64_t *behind;    // launches that have ended when it begins, a bit each, from word `base` on
  uint32_t base;
} launch_t;

typedef struct edges_t {
  const dt_program_t *program;
  cells_t cells;
  touched_t *touched;        // by cell
  uint32_t *read, *write;    // by cell: 1 + the last launch that was seen to read, to write it
  DT_VEC(uint32_t) cells_of; // that the launch in question touches, some of them twice
  DT_VEC(uint32_t) before;   // launches that it conflicts with
  launch_t *launches;
  uint32_t n;
} edges_t;

// What was too long ago is not known to be behind it.
static bool is_behind(const launch_t *launch, uint32_t k) {
  return k / 64 >= launch->base && launch->behind[k / 64 - launch->base] >> k % 64 & 1;
}

// So is what `earlier`, number k, is behind.
static void go_behind(launch_t *launch, const launch_t *earlier, uint32_t k) {
  if (k / 64 >= launch->base)
    launch->behind[k / 64 - launch->base] |= UINT64_C(1) << k % 64;
  for (uint32_t word = launch->base; word <= k / 64; word++)
    launch->behind[word - launch->base] |= earlier->behind[word - earlier->base];
}

// ---- Cells ----------------------------------------------------------------------------------------

static bool updates(const dt_program_t *program) {
  for (uint32_t k = program->n_once; k < program->kernels.len; k++)
    if (dt__kernel_updates(program, &program->kernels.items[k]))
      return true;
  return false;
}

// Temporaries of one slot have one offset; `slots`: 1 + the cell, by the offset's id.
static uint32_t slot_cell(cells_t *cells, uint32_t *slots, dt_sym_t offset) {
  if (!slots[offset.id])
    slots[offset.id] = 1 + cells->n++;
  return slots[offset.id] - 1;
}

static dt_status_t find_cells(cells_t *cells) {
  const dt_program_t *program = cells->program;
  bool given = dt__program_is_given(program), updated = given || updates(program);
  uint32_t last = 0;
  for (uint32_t b = 0; b < program->offsets.len; b++)
    last = program->offsets.items[b].id > last ? program->offsets.items[b].id : last;
  uint32_t *slots = DT_ARENA_ARRAY(program->arena, uint32_t, (size_t)last + 1);
  if (!slots)
    return DT_NO_MEMORY();
  cells->n = CELL_FIRST;
  for (uint32_t b = 0; b < program->buffers.len; b++) {
    dt_buffer_kind_t kind = program->buffers.items[b].kind;
    if (kind == DT_BUFFER_INPUT)
      cells->of[b] = updated ? CELL_INPUTS : CELL_NONE;
    else if (kind == DT_BUFFER_LOCAL || kind == DT_BUFFER_SLAB)
      cells->of[b] = CELL_SCRATCH;
    else if (kind == DT_BUFFER_OUTPUT)
      cells->of[b] = given ? CELL_INPUTS : cells->n++;
    else if (kind == DT_BUFFER_TEMP && program->offsets.items[b].id)
      cells->of[b] = slot_cell(cells, slots, program->offsets.items[b]);
  }
  return NULL;
}

// ---- What a launch touches --------------------------------------------------------------------------

// Cells are noted once a launch, in each way.
static bool touch_cell(edges_t *e, uint32_t *seen, uint32_t cell, uint32_t launch) {
  if (cell == CELL_NONE || seen[cell] == launch + 1)
    return true;
  seen[cell] = launch + 1;
  return DT_VEC_PUSH(e->program->arena, &e->cells_of, cell);
}

static bool touch(edges_t *e, uint32_t *seen, dt_buffer_id_t id, uint32_t launch) {
  return !id.id || touch_cell(e, seen, e->cells.of[id.id - 1], launch);
}

// Checks may be made in any order, but before what asks whether they held.
static bool touch_inst(edges_t *e, const dt_inst_t *inst, uint32_t launch) {
  bool good = touch(e, e->read, dt__inst_reads(inst), launch);
  if (inst->kind == DT_INST_BIND)
    good = good && touch_cell(e, e->read, CELL_RECORD, launch);
  if (inst->kind == DT_INST_SOUND)
    good = good && touch_cell(e, e->write, CELL_RECORD, launch);
  return good;
}

static bool touch_stage(edges_t *e, const dt_stage_t *stage, uint32_t launch) {
  bool good = true;
  for (uint32_t i = 0; good && i < stage->insts.len; i++)
    good = touch_inst(e, &stage->insts.items[i], launch);
  for (uint32_t i = 0; good && i < stage->stores.len; i++)
    good = touch(e, e->write, stage->stores.items[i].buffer, launch);
  return good;
}

static bool find_touched(edges_t *e, uint32_t launch) {
  const dt_program_t *program = e->program;
  bool good = true;
  e->cells_of.len = 0;
  for (uint32_t k = e->launches[launch].first; good && k < e->launches[launch].end; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    // What a kernel of device sizes reads where it begins.
    uint32_t n_readbacks = program->device_sized ? dt__kernel_readbacks(program, kernel) : 0;
    for (uint32_t i = 0; good && i < n_readbacks; i++)
      good = touch(e, e->read, program->readbacks.items[i].buffer, launch);
    good = good && touch(e, e->read, kernel->gate, launch);
    for (uint32_t s = 0; good && s < kernel->stages.len; s++)
      good = touch_stage(e, &kernel->stages.items[s], launch);
  }
  if (e->read[CELL_SCRATCH] == launch + 1)
    good = good && touch_cell(e, e->write, CELL_SCRATCH, launch);
  return good;
}

// ---- Launches -------------------------------------------------------------------------------------

static uint32_t count_launches(const dt_program_t *program) {
  uint32_t n = 0;
  for (uint32_t k = program->n_once; k < program->kernels.len; k = dt__kernel_chain(program, k).end)
    n++;
  return n;
}

static bool find_launches(edges_t *e) {
  uint32_t first = e->program->n_once;
  for (uint32_t l = 0; l < e->n; l++) {
    launch_t *launch = &e->launches[l];
    launch->first = first;
    launch->end = first = dt__kernel_chain(e->program, first).end;
    launch->base = l / 64 < WINDOW ? 0 : l / 64 - WINDOW;
    launch->behind = DT_ARENA_ARRAY(e->program->arena, uint64_t, l / 64 - launch->base + 1);
    if (!launch->behind)
      return false;
  }
  return true;
}

// Launches that `to` conflicts with, but for those that are behind one of these.
static bool find_before(edges_t *e, uint32_t to) {
  dt_arena_t *arena = e->program->arena;
  bool good = true;
  e->before.len = 0;
  for (uint32_t i = 0; good && i < e->cells_of.len; i++) {
    const touched_t *cell = &e->touched[e->cells_of.items[i]];
    if (cell->writer)
      good = DT_VEC_PUSH(arena, &e->before, cell->writer - 1);
    bool written = e->write[e->cells_of.items[i]] == to + 1;
    for (uint32_t k = 0; good && written && k < cell->readers.len; k++)
      good = DT_VEC_PUSH(arena, &e->before, cell->readers.items[k]);
  }
  return good;
}

static bool leave(edges_t *e, uint32_t launch) {
  bool good = true;
  for (uint32_t i = 0; good && i < e->cells_of.len; i++) {
    uint32_t at = e->cells_of.items[i];
    touched_t *cell = &e->touched[at];
    if (e->write[at] == launch + 1) {
      cell->writer = launch + 1;
      cell->readers.len = 0;
    } else {
      good = DT_VEC_PUSH(e->program->arena, &cell->readers, launch);
    }
  }
  return good;
}

static int nearest_first(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x > y ? -1 : x < y;
}

// From the nearest launch before it on: whatever that one is behind needs no edge.
static dt_status_t add_edges(edges_t *e, uint32_t to, dt_edges_t *out) {
  launch_t *launch = &e->launches[to];
  if (!find_touched(e, to) || !find_before(e, to) || !leave(e, to))
    return DT_NO_MEMORY();
  if (e->before.len)
    qsort(e->before.items, e->before.len, sizeof(*e->before.items), nearest_first);
  for (uint32_t i = 0; i < e->before.len; i++) {
    uint32_t from = e->before.items[i];
    if (is_behind(launch, from))
      continue;
    dt_edge_t edge = {.from = from, .to = to};
    if (!DT_VEC_PUSH(e->program->arena, out, edge))
      return DT_NO_MEMORY();
    go_behind(launch, &e->launches[from], from);
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

static dt_status_t find_edges(edges_t *e, dt_edges_t *out) {
  dt_arena_t *arena = e->program->arena;
  DT_TRY(find_cells(&e->cells));
  e->touched = DT_ARENA_ARRAY(arena, touched_t, e->cells.n);
  e->read = DT_ARENA_ARRAY(arena, uint32_t, e->cells.n);
  e->write = DT_ARENA_ARRAY(arena, uint32_t, e->cells.n);
  if (!e->touched || !e->read || !e->write || !find_launches(e))
    return DT_NO_MEMORY();
  for (uint32_t to = 0; to < e->n; to++)
    DT_TRY(add_edges(e, to, out));
  return NULL;
}

dt_status_t dt__program_edges(const dt_program_t *program, dt_edges_t *out, bool *out_chain) {
  edges_t e = {.program = program, .n = count_launches(program)};
  e.cells.program = program;
  e.cells.of = DT_ARENA_ARRAY(program->arena, uint32_t, program->buffers.len + 1);
  e.launches = DT_ARENA_ARRAY(program->arena, launch_t, e.n + 1);
  *out = (dt_edges_t){0};
  if (!e.cells.of || !e.launches)
    return DT_NO_MEMORY();
  DT_TRY(find_edges(&e, out));
  *out_chain = is_chain(program, out, e.n);
  return NULL;
}

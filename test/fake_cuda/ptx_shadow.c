// SPDX-License-Identifier: Apache-2.0
// Which bytes a launch has touched, and who touched them last: two accesses by different threads,
// one of them a write and not both atomic, with nothing that orders them, are a race. Order within
// a cluster is kept by warps, as vector clocks that barriers join; within a warp by the times at
// which lanes met. Between clusters of a launch, most of one block, there is none.
#include "test/fake_cuda/ptx_run.h"

#include <stdlib.h>
#include <string.h>

// ---- Pages ----------------------------------------------------------------------------------------

static uint32_t slot_of(const ptx_shadow_t *shadow, uint64_t number) {
  uint32_t at = (uint32_t)(number * 0x9e3779b97f4a7c15u >> 32) & (shadow->size - 1);
  while (shadow->table[at] && shadow->table[at]->number != number)
    at = (at + 1) & (shadow->size - 1);
  return at;
}

static void enlarge(ptx_shadow_t *shadow) {
  ptx_shadow_t old = *shadow;
  shadow->size = old.size ? 2 * old.size : 64;
  shadow->table = calloc(shadow->size, sizeof(shadow->table[0]));
  if (!shadow->table)
    abort();
  for (uint32_t k = 0; k < old.size; k++)
    if (old.table[k])
      shadow->table[slot_of(shadow, old.table[k]->number)] = old.table[k];
  free(old.table);
}

ptx_page_t *ptx_page(ptx_shadow_t *shadow, uint64_t address, bool cells) {
  uint64_t number = address / PTX_PAGE;
  ptx_page_t *page = shadow->last;
  if (!page || page->number != number) {
    if (2 * shadow->n >= shadow->size)
      enlarge(shadow);
    uint32_t at = slot_of(shadow, number);
    page = shadow->table[at];
    if (!page) {
      page = shadow->table[at] = calloc(1, sizeof(*page));
      if (!page)
        abort();
      page->number = number;
      page->unit = 4;
      shadow->n++;
    }
    shadow->last = page;
  }
  if (cells && !page->cells) {
    page->cells = calloc(PTX_PAGE / page->unit, sizeof(page->cells[0]));
    if (!page->cells)
      abort();
  }
  return page;
}

void ptx_shadow_destroy(ptx_shadow_t *shadow) {
  for (uint32_t k = 0; k < shadow->size; k++)
    if (shadow->table[k])
      free(shadow->table[k]->cells), free(shadow->table[k]);
  free(shadow->table);
  *shadow = (ptx_shadow_t){0};
}

// From a cell for four bytes to one for each.
static void split(ptx_page_t *page) {
  ptx_cell_t *cells = malloc(PTX_PAGE * sizeof(*cells));
  if (!cells)
    abort();
  for (uint32_t k = 0; k < PTX_PAGE; k++)
    cells[k] = page->cells[k / page->unit];
  free(page->cells);
  page->cells = cells;
  page->unit = 1;
}

static void set_bits(uint64_t *bits, uint32_t first, uint32_t n) {
  uint32_t word = first / 64, shift = first % 64;
  uint64_t ones = ((uint64_t)1 << n) - 1; // n is at most 16
  bits[word] |= ones << shift;
  if (shift + n > 64)
    bits[word + 1] |= ones >> (64 - shift);
}

void ptx_note_early(ptx_run_t *run, uint64_t address, uint32_t bytes) {
  set_bits(ptx_page(&run->global, address, false)->early, (uint32_t)(address % PTX_PAGE), bytes);
}

// ---- Order ------------------------------------------------------------------------------------------

void ptx_order_lanes(ptx_warp_t *warp, uint32_t mask) {
  if ((warp->alive & ~mask) == 0) {
    warp->all_met = warp->time++;
    return;
  }
  PTX_EACH(lane, mask)
  for (uint32_t other = 0; other < PTX_LANES; other++)
    if (mask >> other & 1)
      warp->met[lane][other] = warp->time;
  warp->time++;
}

// Whether what thread `number` did at `time` is before what this lane does now.
static bool is_before(const ptx_warp_t *warp, uint32_t lane, uint32_t number, uint32_t time) {
  const ptx_run_t *run = warp->run;
  if (number < run->first_number || number - run->first_number >= run->n_threads * run->cluster)
    return false; // another cluster
  uint32_t thread = number - run->first_number;
  uint32_t from = thread / PTX_LANES, from_lane = thread % PTX_LANES;
  if (from != warp->index)
    return time <= warp->known[from];
  return from_lane == lane || time <= warp->all_met || time <= warp->met[lane][from_lane];
}

static void name_race(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, bool shared,
                      uint64_t address, uint32_t touch, uint32_t number, bool wrote) {
  ptx_run_t *run = warp->run;
  if (run->races++)
    return; // one is enough
  uint32_t thread = (number - 1) % run->n_threads, block = (number - 1) / run->n_threads;
  char where[160];
  ptx_name_address(run, shared ? PTX_WINDOW(PTX_SHARED) + address : address, where, sizeof(where));
  ptx_violation(warp, in, lane, "race: %s %s, which thread %u of block number %u has %s, unordered",
                touch & PTX_WRITE ? "writes" : "reads", where, thread, block,
                wrote ? "written" : "read");
}

// ---- Cells ------------------------------------------------------------------------------------------

typedef struct touch_t {
  ptx_warp_t *warp;
  const ptx_insn_t *in;
  uint32_t lane, number, time, touch;
  bool shared;
  uint64_t address;
} touch_t;

static void race(const touch_t *t, uint32_t number, bool wrote) {
  name_race(t->warp, t->in, t->lane, t->shared, t->address, t->touch, number, wrote);
}

// Two readers are kept: preferably of different warps, so that one of them is not the writer to
// come and not ordered with it by chance.
static void note_read(const touch_t *t, ptx_cell_t *cell) {
  for (uint32_t k = 0; k < 2; k++) {
    if (cell->reader[k] == t->number || cell->reader[k] == 0 ||
        is_before(t->warp, t->lane, cell->reader[k], cell->read_time[k])) {
      cell->reader[k] = t->number;
      cell->read_time[k] = t->time;
      return;
    }
  }
  uint32_t per_block = t->warp->run->n_threads;
  uint32_t mine = (t->number - 1) % per_block / PTX_LANES;
  uint32_t first = (cell->reader[0] - 1) % per_block / PTX_LANES;
  uint32_t k = mine == first ? 0 : 1;
  cell->reader[k] = t->number;
  cell->read_time[k] = t->time;
}

static void touch_cell(const touch_t *t, ptx_cell_t *cell) {
  bool write = t->touch & PTX_WRITE, strong = t->touch & PTX_STRONG;
  bool both_strong = strong && (cell->write_time & 1);
  if (cell->writer && cell->writer != t->number && !both_strong &&
      !is_before(t->warp, t->lane, cell->writer, cell->write_time >> 1))
    race(t, cell->writer, true);
  if (!write) {
    if (!strong)
      note_read(t, cell);
    return;
  }
  for (uint32_t k = 0; k < 2; k++)
    if (cell->reader[k] && cell->reader[k] != t->number &&
        !is_before(t->warp, t->lane, cell->reader[k], cell->read_time[k]))
      race(t, cell->reader[k], false);
  *cell = (ptx_cell_t){.writer = t->number, .write_time = t->time << 1 | (uint32_t)strong};
}

void ptx_touch(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, bool shared, uint64_t address,
               uint32_t bytes, uint32_t touch) {
  ptx_run_t *run = warp->run;
  if (shared && !run->racecheck)
    return;
  ptx_page_t *page = ptx_page(shared ? &run->shared : &run->global, address, run->racecheck);
  uint32_t first = (uint32_t)(address % PTX_PAGE);
  if (!shared)
    set_bits(touch & PTX_WRITE ? page->written : page->read, first, bytes);
  if (!run->racecheck)
    return;
  if (page->unit > 1 && (bytes | first) % page->unit)
    split(page);
  touch_t t = {.warp = warp,
               .in = in,
               .lane = lane,
               .number = run->first_number + warp->index * PTX_LANES + lane,
               .time = warp->time,
               .touch = touch,
               .shared = shared,
               .address = address};
  for (uint32_t k = first / page->unit; k < (first + bytes) / page->unit; k++)
    touch_cell(&t, &page->cells[k]);
}

// SPDX-License-Identifier: Apache-2.0
// Runs a launch: what the device may touch, its blocks one after the other in an order of the
// seed's choice, and afterwards what they did touch.
#include "test/fake_cuda/ptx_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool racecheck = true;
static uint64_t instructions;

void fake_cuda_racecheck(bool on) { racecheck = on; }
uint64_t fake_cuda_instructions(void) { return instructions; }

void fake_ptx_reset(void) {
  racecheck = true;
  instructions = 0;
}

// ---- Violations -------------------------------------------------------------------------------------

void ptx_name_address(const ptx_run_t *run, uint64_t address, char *out, size_t bytes) {
  uint64_t space = address >> 60, at = address & (PTX_WINDOW(1) - 1);
  static const char *const names[] = {
      [PTX_SHARED] = "shared", [PTX_LOCAL] = "local", [PTX_PARAM] = "parameter"};
  if (space >= PTX_SHARED && space <= PTX_PARAM) {
    if (space == PTX_SHARED)
      at &= PTX_BESIDE(0) - 1;
    uint64_t size = space == PTX_SHARED  ? run->shared_bytes
                    : space == PTX_LOCAL ? run->module->local_bytes
                                         : run->launch->param_bytes;
    (void)snprintf(out, bytes, "%s address %llu of %llu bytes", names[space],
                   (unsigned long long)at, (unsigned long long)size);
    return;
  }
  const ptx_range_t *near = NULL;
  uint64_t distance = UINT64_MAX;
  for (uint32_t k = 0; k < run->n_ranges; k++) {
    const ptx_range_t *range = &run->ranges[k];
    uint64_t away = address < range->begin ? range->begin - address
                    : address < range->end ? 0
                                           : address - range->end + 1;
    if (away < distance)
      near = range, distance = away;
  }
  if (!near)
    (void)snprintf(out, bytes, "address %llx, with no memory allocated",
                   (unsigned long long)address);
  else
    (void)snprintf(out, bytes, "address %llx, %s%lld of the %llu bytes at %llx",
                   (unsigned long long)address, distance ? "out, at " : "at ",
                   (long long)(address - near->begin),
                   (unsigned long long)(near->end - near->begin), (unsigned long long)near->begin);
}

void ptx_violation(ptx_warp_t *warp, const ptx_insn_t *in, uint32_t lane, const char *fmt, ...) {
  ptx_run_t *run = warp->run;
  run->stopped = true;
  char what[384];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(what, sizeof(what), fmt, args);
  va_end(args);
  uint32_t thread = warp->first_thread + lane;
  const uint32_t *size = run->launch->block;
  const char *text = run->module->lines[in->line - 1];
  const uint32_t *block = run->block[warp->rank];
  fake_violation("kernel %s, line %u \"%.120s\", block (%u, %u, %u), thread (%u, %u, %u): %s",
                 run->launch->name, in->line, text + strspn(text, " \t"), block[0], block[1],
                 block[2], thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1],
                 what);
}

// ---- Memory -----------------------------------------------------------------------------------------

static int by_begin(const void *a, const void *b) {
  const ptx_range_t *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void add_range(void *user, dt_cu_ptr_t begin, size_t bytes, unsigned char *host) {
  ptx_run_t *run = user;
  run->ranges = realloc(run->ranges, (run->n_ranges + 1) * sizeof(run->ranges[0]));
  if (!run->ranges)
    abort();
  run->ranges[run->n_ranges++] = (ptx_range_t){.begin = begin, .end = begin + bytes, .host = host};
}

static void find_memory(ptx_run_t *run) {
  fake_each_range(add_range, run);
  for (uint32_t k = 0; k < run->module->n_variables; k++) {
    const ptx_variable_t *v = &run->module->variables[k];
    if (!v->host || v->bytes == 0)
      continue;
    add_range(run, v->address, v->bytes, v->host);
    run->ranges[run->n_ranges - 1].constant = v->space == PTX_CONST;
  }
  if (run->n_ranges)
    qsort(run->ranges, run->n_ranges, sizeof(run->ranges[0]), by_begin);
}

static void *room(size_t n, size_t size) {
  void *at = calloc(n ? n : 1, size);
  if (!at)
    abort();
  return at;
}

// Not cleared: most of a module's registers are other entries', and are never touched; what a
// launch may touch is set as its blocks start.
static void *raw_room(size_t n, size_t size) {
  void *at = malloc(n * size + 1);
  if (!at)
    abort();
  return at;
}

static void make_room(ptx_run_t *run) {
  const ptx_module_t *m = run->module;
  run->hints = room(m->n_code, sizeof(run->hints[0]));
  run->regs = raw_room((size_t)run->n_warps * m->n_slots * PTX_LANES, sizeof(run->regs[0]));
  run->shared_memory = raw_room((size_t)run->shared_bytes * run->cluster, 1);
  run->shared_used = run->shared_bytes;
  size_t local = ((size_t)m->local_bytes + 16) / 16 * 16;
  run->local_memory = raw_room((size_t)run->n_warps * PTX_LANES, local);
  run->warps = room(run->n_warps, sizeof(run->warps[0]));
}

static void release_room(ptx_run_t *run) {
  for (uint32_t w = 0; w < run->n_warps; w++) {
    free(run->warps[w].products.list);
    for (uint32_t lane = 0; lane < PTX_LANES; lane++)
      free(run->warps[w].asyncs[lane].list);
  }
  free(run->ranges), free(run->hints), free(run->regs), free(run->shared_memory);
  free(run->local_memory), free(run->warps);
  ptx_shadow_destroy(&run->global);
  ptx_shadow_destroy(&run->shared);
}

// ---- Blocks -----------------------------------------------------------------------------------------

static void set_all(ptx_warp_t *warp, int32_t slot, uint32_t value) {
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    ptx_out(warp, slot)[lane] = value;
}

// Those that are another block's alone are set for each.
static void set_place(ptx_warp_t *warp) {
  const ptx_run_t *run = warp->run;
  set_all(warp, PTX_SP_CTAID_X, run->block[warp->rank][0]);
  set_all(warp, PTX_SP_CTAID_Y, run->block[warp->rank][1]);
  set_all(warp, PTX_SP_CTAID_Z, run->block[warp->rank][2]);
  set_all(warp, PTX_SP_SMID, (uint32_t)((run->block_number + warp->rank) % 132));
  set_all(warp, PTX_CARRY, 0);
  set_all(warp, PTX_SINK, 0);
}

static void set_specials(ptx_warp_t *warp) {
  const ptx_run_t *run = warp->run;
  const uint32_t *size = run->launch->block, *grid = run->launch->grid;
  for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
    uint32_t thread = warp->first_thread + lane, bit = 1u << lane;
    const uint32_t values[PTX_SPECIAL_COUNT] = {
        [PTX_SP_TID_X] = thread % size[0],
        [PTX_SP_TID_Y] = thread / size[0] % size[1],
        [PTX_SP_TID_Z] = thread / size[0] / size[1],
        [PTX_SP_LANEID] = lane,
        [PTX_SP_LANEMASK_EQ] = bit,
        [PTX_SP_LANEMASK_LT] = bit - 1,
        [PTX_SP_LANEMASK_LE] = bit | (bit - 1),
        [PTX_SP_LANEMASK_GT] = ~(bit | (bit - 1)),
        [PTX_SP_LANEMASK_GE] = ~(bit - 1),
        [PTX_SP_NTID_X] = size[0],
        [PTX_SP_NTID_Y] = size[1],
        [PTX_SP_NTID_Z] = size[2],
        [PTX_SP_NCTAID_X] = grid[0],
        [PTX_SP_NCTAID_Y] = grid[1],
        [PTX_SP_NCTAID_Z] = grid[2],
        [PTX_SP_CLUSTER_RANK] = warp->rank,
        [PTX_SP_CLUSTER_SIZE] = run->cluster,
        [PTX_SP_WARPID] = warp->first_thread / PTX_LANES,
        [PTX_SP_NWARPID] = run->n_warps / run->cluster,
        [PTX_SP_NSMID] = 132,
        [PTX_SP_WARPSZ] = PTX_LANES,
        [PTX_SP_DYNAMIC_SHARED] = run->launch->shared_bytes,
        [PTX_SP_TOTAL_SHARED] = run->shared_bytes,
    };
    for (int32_t k = 0; k < PTX_SPECIAL_COUNT; k++)
      ptx_out(warp, k)[lane] = values[k];
  }
}

bool ptx_takes_part(const ptx_run_t *run, const ptx_function_t *f) {
  return f == run->entry || !f->entry;
}

static void spoil_slots(ptx_warp_t *warp, uint32_t first, uint32_t n) {
  memset(ptx_out(warp, (int32_t)first), 0xcb, (size_t)n * PTX_LANES * sizeof(warp->regs[0]));
}

static void spoil_params(ptx_warp_t *warp, const ptx_param_t *params, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (params[k].slot >= 0)
      spoil_slots(warp, (uint32_t)params[k].slot, (uint32_t)params[k].n_slots);
}

// What was never written reads as something that no program can want. A module's other entries
// have slots and local memory, too, which nobody touches.
static void spoil(ptx_warp_t *warp) {
  const ptx_module_t *m = warp->run->module;
  size_t local = ((size_t)m->local_bytes + 16) / 16 * 16;
  for (uint32_t k = 0; k < m->n_functions; k++) {
    const ptx_function_t *f = &m->functions[k];
    if (!ptx_takes_part(warp->run, f))
      continue;
    spoil_slots(warp, f->slot_begin, f->slot_end - f->slot_begin);
    if (f != warp->run->entry) {
      spoil_params(warp, f->params, f->n_params);
      spoil_params(warp, f->results, f->n_results);
    }
    if (f->local_end == f->local_begin)
      continue;
    for (size_t lane = 0; lane < PTX_LANES; lane++)
      memset(warp->run->local_memory + (warp->index * PTX_LANES + lane) * local + f->local_begin,
             0xcb, f->local_end - f->local_begin);
  }
}

static void start_warp(ptx_run_t *run, uint32_t index) {
  ptx_warp_t *warp = &run->warps[index];
  ptx_asyncs_t asyncs[PTX_LANES];
  memcpy(asyncs, warp->asyncs, sizeof(asyncs)); // their room is used again
  ptx_product_t *products = warp->products.list;
  memset(warp, 0, sizeof(*warp));
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    warp->asyncs[lane] = (ptx_asyncs_t){.list = asyncs[lane].list};
  warp->products.list = products;
  warp->run = run;
  uint32_t own = run->n_warps / run->cluster; // of a block
  warp->index = index;
  warp->rank = index / own;
  warp->first_thread = index % own * PTX_LANES;
  uint32_t n = run->n_threads - warp->first_thread;
  warp->exists = warp->alive = n >= PTX_LANES ? PTX_ALL : (1u << n) - 1;
  warp->regs = run->regs + (size_t)index * run->module->n_slots * PTX_LANES;
  warp->time = 1;
  spoil(warp);
  if (run->n_blocks == 0)
    set_specials(warp);
  set_place(warp);
  for (uint32_t lane = 0; lane < PTX_LANES; lane++)
    warp->pc[lane] = run->entry->begin;
}

// The blocks of a cluster from `number` on, together.
static void run_cluster(ptx_run_t *run, uint64_t number) {
  const uint32_t *grid = run->launch->grid;
  run->block_number = number;
  run->alive = run->cluster * run->n_threads;
  for (uint32_t r = 0; r < run->cluster; r++) {
    run->block[r][0] = (uint32_t)((number + r) % grid[0]);
    run->block[r][1] = (uint32_t)((number + r) / grid[0] % grid[1]);
    run->block[r][2] = (uint32_t)((number + r) / grid[0] / grid[1]);
    run->block_alive[r] = run->n_threads;
    memset(run->shared_memory + (size_t)r * run->shared_bytes, 0xcb, run->shared_used);
  }
  run->first_number = (uint32_t)(number * run->n_threads + 1);
  memset(run->barriers, 0, sizeof(run->barriers));
  memset(&run->meeting, 0, sizeof(run->meeting));
  run->shared_used = 0;
  for (uint32_t w = 0; w < run->n_warps; w++)
    start_warp(run, w);
  run->n_blocks += run->cluster;
  // Shared memory begins anew: what blocks before did to it is nobody's business.
  ptx_shadow_destroy(&run->shared);
  ptx_run_block(run);
}

static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }

// Clusters k * step + first, for a step without a common divisor with their number.
static void run_blocks(ptx_run_t *run) {
  const uint32_t *grid = run->launch->grid;
  uint64_t n = (uint64_t)grid[0] * grid[1] * grid[2];
  if (n * run->n_threads >= UINT32_MAX) {
    fake_violation("%s: more threads than are simulated", run->launch->name);
    return;
  }
  n /= run->cluster;
  uint64_t first = fake_random() % n, step = fake_random() % n + 1;
  while (divisor(n, step) != 1)
    step = step % n + 1;
  for (uint64_t k = 0; k < n && !run->stopped; k++)
    run_cluster(run, (first + k * step) % n * run->cluster);
}

// ---- What was touched -------------------------------------------------------------------------------

static int by_number(const void *a, const void *b) {
  const ptx_page_t *x = *(ptx_page_t *const *)a, *y = *(ptx_page_t *const *)b;
  return x->number < y->number ? -1 : x->number > y->number;
}

static void add_bytes(fake_touched_t *list, uint64_t begin, uint64_t end) {
  if (list->n && list->at[list->n - 1].end == begin) {
    list->at[list->n - 1].end = end;
    return;
  }
  if ((list->n & (list->n - 1)) == 0) {
    list->at = realloc(list->at, (list->n ? 2 * (size_t)list->n : 1) * sizeof(list->at[0]));
    if (!list->at)
      abort();
  }
  list->at[list->n++] = (fake_bytes_t){begin, end};
}

static void add_page(fake_touched_t *list, const ptx_page_t *page, const uint64_t *bits) {
  uint64_t base = page->number * PTX_PAGE;
  for (uint32_t k = 0; k < PTX_PAGE;) {
    uint64_t rest = bits[k / 64] >> k % 64;
    if (rest == 0) {
      k = (k / 64 + 1) * 64;
      continue;
    }
    k += (uint32_t)__builtin_ctzll(rest);
    uint64_t from = ~(bits[k / 64] >> k % 64);
    uint32_t run = from ? (uint32_t)__builtin_ctzll(from) : 64;
    if (run > 64 - k % 64)
      run = 64 - k % 64;
    add_bytes(list, base + k, base + k + run);
    k += run;
  }
}

static void tell_touched(const ptx_run_t *run, fake_touched_t out[2], fake_touched_t *early) {
  ptx_page_t **pages = room(run->global.n, sizeof(pages[0]));
  uint32_t n = 0;
  for (uint32_t k = 0; k < run->global.size; k++)
    if (run->global.table[k])
      pages[n++] = run->global.table[k];
  if (n)
    qsort(pages, n, sizeof(pages[0]), by_number);
  memset(out, 0, 2 * sizeof(out[0]));
  for (uint32_t k = 0; k < n; k++) {
    add_page(&out[0], pages[k], pages[k]->read);
    add_page(&out[1], pages[k], pages[k]->written);
    add_page(early, pages[k], pages[k]->early);
  }
  free(pages);
}

void fake_ptx_run(fake_work_t *work) {
  fake_touched_t touched[2];
  fake_ptx_do(work, touched);
  for (uint32_t k = 0; k < 2; k++) {
    fake_check_touched(work, work->launch.name, &touched[k], k == 1);
    fake_touched(work, touched[k], k == 1);
  }
}

void fake_ptx_do(fake_work_t *work, fake_touched_t out[2]) {
  const ptx_module_t *module = work->module;
  const fake_launch_t *launch = &work->launch;
  ptx_run_t *run = room(1, sizeof(*run));
  run->module = module;
  run->entry = work->entry;
  run->launch = launch;
  run->racecheck = racecheck;
  run->constants = module->constants;
  run->n_threads = launch->block[0] * launch->block[1] * launch->block[2];
  // Along x alone, as neighbours in the grid; launches that do not fit are refused before.
  run->cluster = work->entry->cluster[0] ? work->entry->cluster[0] : 1;
  run->n_warps = (run->n_threads + PTX_LANES - 1) / PTX_LANES * run->cluster;
  run->shared_bytes = module->dynamic_begin + launch->shared_bytes;
  find_memory(run);
  make_room(run);
  run_blocks(run);
  tell_touched(run, out, &work->early);
  work->waits &= !run->hasty;
  instructions += run->instructions;
  release_room(run);
  free(run);
}

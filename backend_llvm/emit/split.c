// SPDX-License-Identifier: Apache-2.0
// Cuts a program into units: equal kernels (or chains) under equal schedules become one code, found
// by hash and told apart by their whole text; codes are spread over units by estimated cost,
// dearest first. On devices cheap codes of one kernel that ask the same of a multiprocessor share
// an entry: which of them a launch runs is then an argument, which costs a graph less to change
// than the function does. Dear ones are compiled side by side (docs/graphs.md).
#include "backend_llvm/emit/compile.h"
#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <string.h>

#define UNIT_COST 600   // below this a unit of its own costs more than it saves
#define ENTRY_COST 1200 // above this an entry of several codes keeps the others waiting for it

// What the schedules of an entry have in common: threads of a block, and how many registers a
// thread may have.
typedef struct class_t {
  dt_schedule_kind_t kind;
  uint32_t threads, room;
  bool wide; // so many sums that a multiprocessor holds one block
} class_t;

typedef struct code_t {
  uint64_t hash;
  char *text; // of the kernel, then of its schedules
  size_t kernel_len;
  uint64_t cost;
  class_t class;
  uint32_t entry, member; // the first code of its entry, and which of the entry's it is
  uint64_t entry_cost;    // of an entry's first code: of all of them
} code_t;

// What code depends on besides the kernel's text: the schedule and the numbers of its checks.
static void print_key(const dt_kernel_t *kernel, const dt_schedule_t *s, dt_text_t *out) {
  dt__text_printf(out, "\nschedule %d %u %u %lld %u %d %u %u", (int)s->kind, s->lanes, s->unroll,
                  (long long)s->block, s->team, s->resident, s->room, s->most);
  if (s->kind == DT_SCHEDULE_MATMUL)
    dt__text_printf(out, " matmul %u %u %u %u %u %u %u %u %d", s->matmul.a, s->matmul.b,
                    s->matmul.width, s->matmul.rows, s->matmul.tile_rows, s->matmul.tile_cols,
                    s->matmul.depth, s->matmul.ring, s->matmul.own_panels);
  for (uint32_t i = 0; i < kernel->stages.len; i++)
    for (uint32_t j = 0; j < kernel->stages.items[i].insts.len; j++)
      if (kernel->stages.items[i].insts.items[j].kind == DT_INST_BIND)
        dt__text_printf(out, " check %u", kernel->stages.items[i].insts.items[j].check);
}

// Scalar ops on floats alone are elementary functions for the most part: tens of instructions.
static uint64_t inst_cost(const dt_inst_t *inst) {
  if (inst->kind != DT_INST_SCALAR)
    return inst->kind == DT_INST_CONST ? 1 : 3;
  return dt__scalar_info(inst->op)->domain == 'F' ? 20 : 2;
}

static uint64_t code_cost(const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  uint64_t cost = 40;
  for (uint32_t i = 0; i < kernel->stages.len; i++) {
    const dt_stage_t *stage = &kernel->stages.items[i];
    cost += 10 * (stage->n_loops + stage->stores.len + stage->folds.len);
    for (uint32_t j = 0; j < stage->insts.len; j++)
      cost += inst_cost(&stage->insts.items[j]) * (schedule->unroll + 1);
  }
  return schedule->kind == DT_SCHEDULE_MATMUL ? cost + 800 : cost;
}

// ---- Entries --------------------------------------------------------------------------------------

// As backend_cuda/emit/matmul_plan.c shares registers out: of 64 sums in a thread, half of a
// multiprocessor's are enough for tensor cores alone.
#define HALF_SUMS 64

static bool is_wide(const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  const dt_matmul_t *matmul = &schedule->matmul;
  if (schedule->kind != DT_SCHEDULE_MATMUL || !schedule->team)
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  size_t words =
      (size_t)matmul->rows * matmul->width / 32 * dt_dtype_size(stage->folds.items[0].dtype) / 4;
  bool halves = dt__dtype_is_half(stage->insts.items[matmul->a].dtype) &&
                dt__dtype_is_half(stage->insts.items[matmul->b].dtype);
  return words > HALF_SUMS || (words == HALF_SUMS && !halves);
}

// Of a chain's last kernel; `wide` is told of any of them.
static class_t class_of(const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                        const dt_target_t *target, bool wide) {
  return (class_t){.kind = schedule->kind,
                   .threads = schedule->team > 32 ? schedule->team : target->block_threads,
                   .room = schedule->room,
                   .wide = wide || is_wide(kernel, schedule)};
}

// Gives codes[at] its place in an entry: that of an earlier code of the same kernel, or one of its
// own. A CPU calls codes by themselves.
static void place_code(code_t *codes, uint32_t at, const dt_target_t *target) {
  code_t *code = &codes[at];
  code->entry = at;
  for (uint32_t i = 0; i < at && target->device != DT_CPU; i++) {
    const code_t *other = &codes[i];
    if (other->kernel_len != code->kernel_len || other->class.kind != code->class.kind ||
        other->class.threads != code->class.threads || other->class.room != code->class.room ||
        other->class.wide != code->class.wide ||
        codes[other->entry].entry_cost + code->cost > ENTRY_COST ||
        memcmp(other->text, code->text, code->kernel_len) != 0)
      continue;
    code->entry = other->entry;
    code->member = other->member + 1;
  }
  codes[code->entry].entry_cost += code->cost;
}

// ---- Codes ----------------------------------------------------------------------------------------

// The code of a chain under the schedule number `s` of each of its kernels.
static dt_status_t find_code(dt_program_t *program, const dt_target_t *target, dt_chain_t chain,
                             uint32_t s, code_t *codes, uint32_t *n, uint32_t *out) {
  dt_text_t text;
  dt_kernel_params_t params = {0};
  code_t own = {0};
  dt__text_init(&text);
  dt_status_t status = dt__chain_print(program, chain, &params, &text);
  own.kernel_len = text.len;
  for (uint32_t k = chain.first; k < chain.end && !status; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    print_key(kernel, schedule, &text);
    own.cost += code_cost(kernel, schedule);
    own.class = class_of(kernel, schedule, target, own.class.wide);
    status = dt__text_status(&text);
  }
  if (!status) {
    own.hash = dt__hash(dt__text_str(&text), text.len, 0);
    uint32_t i = 0;
    while (i < *n && (codes[i].hash != own.hash || strcmp(codes[i].text, dt__text_str(&text)) != 0))
      i++;
    if (i == *n) {
      own.text = dt__arena_strdup(program->arena, dt__text_str(&text));
      codes[i] = own;
      if (own.text)
        place_code(codes, (*n)++, target);
      else
        status = DT_NO_MEMORY();
    }
    *out = i;
  }
  dt__text_fini(&text);
  return status;
}

// Entries, dearest first. `cost` is that of all codes of an entry, at its first one.
static void spread(const uint64_t *cost, uint32_t n, uint32_t units, uint64_t *load, bool *done,
                   uint32_t *unit_of_code) {
  for (uint32_t round = 0; round < n; round++) {
    uint32_t dearest = n;
    for (uint32_t i = 0; i < n; i++)
      if (!done[i] && (dearest == n || cost[i] > cost[dearest]))
        dearest = i;
    if (dearest == n)
      return;
    uint32_t least = 0;
    for (uint32_t u = 1; u < units; u++)
      if (load[u] < load[least])
        least = u;
    done[dearest] = true;
    load[least] += cost[dearest];
    unit_of_code[dearest] = least;
  }
}

static dt_status_t assign_units(dt_program_t *program, const code_t *codes, uint32_t max_units,
                                dt_unit_map_t *map) {
  uint64_t total = 0;
  uint32_t n = map->n_codes, entries = 0;
  uint64_t *cost = DT_ARENA_ARRAY(program->arena, uint64_t, n + 1);
  map->unit_of_code = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  map->entry_of_code = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  map->member_of_code = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  if (!cost || !map->unit_of_code || !map->entry_of_code || !map->member_of_code)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    map->entry_of_code[i] = codes[i].entry;
    map->member_of_code[i] = codes[i].member;
    cost[codes[i].entry] += codes[i].cost;
    total += codes[i].cost;
    entries += codes[i].entry == i;
  }
  uint64_t units = (total + UNIT_COST - 1) / UNIT_COST;
  if (units > max_units - 1)
    units = max_units - 1;
  if (units > entries)
    units = entries;
  map->n_units = (uint32_t)units + 1;
  uint64_t *load = DT_ARENA_ARRAY(program->arena, uint64_t, units + 1);
  bool *done = DT_ARENA_ARRAY(program->arena, bool, n + 1);
  if (!load || !done)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++)
    done[i] = codes[i].entry != i;
  spread(cost, n, (uint32_t)units, load, done, map->unit_of_code);
  for (uint32_t i = 0; i < n; i++)
    map->unit_of_code[i] = map->unit_of_code[codes[i].entry];
  return NULL;
}

dt_status_t dt__llvm_split(dt_program_t *program, const dt_target_t *target, uint32_t max_units,
                           dt_unit_map_t *out) {
  *out = (dt_unit_map_t){.n_kernels = program->kernels.len};
  if (max_units < 2)
    return DT_FAIL(DT_E_ARGUMENT, "a program is compiled in at least 2 units, not %u", max_units);
  uint32_t n = 0;
  for (uint32_t i = 0; i < program->kernels.len; i++)
    n += program->kernels.items[i].schedules.len;
  code_t *codes = DT_ARENA_ARRAY(program->arena, code_t, n + 1);
  out->first_code = DT_ARENA_ARRAY(program->arena, uint32_t, program->kernels.len + 1);
  out->code_of_kernel = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  if (!codes || !out->first_code || !out->code_of_kernel)
    return DT_NO_MEMORY();
  uint32_t at = 0;
  for (uint32_t i = 0; i < program->kernels.len; i++) {
    dt_chain_t chain = dt__kernel_chain(program, i);
    out->first_code[i] = at;
    for (uint32_t s = 0; s < program->kernels.items[i].schedules.len; s++, at++) {
      out->code_of_kernel[at] = DT_NO_CODE;
      if (i + 1 == chain.end)
        DT_TRY(
            find_code(program, target, chain, s, codes, &out->n_codes, &out->code_of_kernel[at]));
    }
  }
  return assign_units(program, codes, max_units, out);
}

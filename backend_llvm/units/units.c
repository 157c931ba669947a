// SPDX-License-Identifier: Apache-2.0
// Cuts a program into units, which are compiled in parallel. Equal kernels (or chains) under equal
// schedules become one code; they are found by hash and compared by their whole text. Codes are
// spread over units by estimated cost, dearest first, and no unit takes LLVM more than some 300 ms.
// On devices cheap codes of one kernel with equal demands on a processor share an entry, and an
// argument of the launch selects one: in a graph an argument is cheaper to change than the
// function. Dear codes are compiled in parallel instead (docs/graphs.md).
#include "backend_llvm/units/units.h"
#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

// Nobody has noted how the first was found; `scripts/bench compile` (bench/bench_compile.c) shows
// its effect. The second was measured once on a GPU (docs/graphs.md, "Entries of several codes");
// `scripts/test-gpu run bench-graphs` (bench/bench_graphs.c) shows its effect.
#define UNIT_COST 600   // below this a unit of its own costs more than it saves
#define ENTRY_COST 1200 // above this an entry of several codes keeps the others waiting for it

#define PHILOX_INSTS 90  // ten rounds, written out
#define PRODUCT_COST 800 // a product's micro-kernels; products of a unit share them
#define PRODUCT_WORK 3000

// What the schedules of an entry have in common: threads of a block, and how many registers a
// thread may have.
typedef struct class_t {
  dt_schedule_kind_t kind;
  uint32_t threads, room;
  uint32_t cluster; // teams; 0: not of a product by teams
  bool wide;        // so many sums that a processor holds one block
} class_t;

typedef struct code_t {
  uint64_t hash;
  char *text; // of the kernel, then of its schedules
  size_t kernel_len;
  uint64_t kernel_hash;
  uint64_t cost, work;
  bool product; // with micro-kernels
  class_t class;
  dt_code_origin_t origin;
  uint32_t before;        // the last code before it that has this kernel_hash; DT_NO_CODE: none
  uint32_t entry, member; // the first code of its entry, and which of the entry's it is
  uint64_t entry_cost;    // of an entry's first code: of all of them
} code_t;

// What the union of a schedule holds, by its kind.
static void print_fields(const dt_schedule_t *s, dt_text_t *out) {
  const dt_matmul_t *matmul = &s->matmul;
  const dt_team_matmul_t *team = &s->team_matmul;
  if (s->kind == DT_SCHEDULE_OUTER_LANES)
    dt__text_printf(out, " block %lld beside %u", (long long)s->outer.block, s->outer.beside);
  if (s->kind == DT_SCHEDULE_INNER_LANES)
    dt__text_printf(out, " resident %d", s->inner.resident);
  if (s->kind == DT_SCHEDULE_TILES)
    dt__text_printf(out, " side %lld", (long long)s->tiles.side);
  if (s->kind == DT_SCHEDULE_MATMUL)
    dt__text_printf(out, " matmul %u %u %u %u %u %u %d %u %u %d %d", matmul->a, matmul->b,
                    matmul->tile_rows, matmul->tile_cols, matmul->width, matmul->rows,
                    matmul->own_panels, matmul->bits, matmul->block, matmul->dots,
                    matmul->across.id != 0);
  if (s->kind == DT_SCHEDULE_TEAM_MATMUL)
    dt__text_printf(out, " matmul %u %u %u %u %u %u %u %u %u %u %u", team->a, team->b,
                    team->tile_rows, team->tile_cols, team->groups, team->group_rows,
                    team->group_cols, team->depth, team->ring, dt__matmul_cluster(team),
                    team->keys);
}

// What code depends on besides the kernel's text: the schedule and the numbers of its checks.
static void print_key(const dt_kernel_t *kernel, const dt_schedule_t *s, dt_text_t *out) {
  dt__text_printf(out, "\nschedule %d %u %u %u %u %u", (int)s->kind, s->lanes, s->unroll, s->team,
                  s->room, s->most);
  print_fields(s, out);
  for (uint32_t i = 0; i < kernel->stages.len; i++)
    for (uint32_t j = 0; j < kernel->stages.items[i].insts.len; j++)
      if (kernel->stages.items[i].insts.items[j].kind == DT_INST_BIND)
        dt__text_printf(out, " check %u", kernel->stages.items[i].insts.items[j].check);
}

// Scalar ops on floats alone are elementary functions for the most part: tens of instructions.
static uint64_t inst_cost(const dt_inst_t *inst) {
  if (inst->kind != DT_INST_SCALAR)
    return inst->kind == DT_INST_CONST ? 1 : 3;
  if (inst->op == DT_SCALAR_philox)
    return PHILOX_INSTS;
  return dt__scalar_info(inst->op)->domain == 'F' ? 20 : 2;
}

static uint64_t code_cost(const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  uint64_t cost = 40;
  for (uint32_t i = 0; i < kernel->stages.len; i++) {
    const dt_stage_t *stage = &kernel->stages.items[i];
    cost += 10 * (stage->n_loops + stage->stores.len + stage->reductions.len);
    for (uint32_t j = 0; j < stage->insts.len; j++)
      cost += inst_cost(&stage->insts.items[j]) * (schedule->unroll + 1);
  }
  return dt__schedule_is_product(schedule) ? cost + PRODUCT_COST : cost;
}

// ---- Work ----------------------------------------------------------------------------------------
// About how many instructions LLVM gets for one of the loop IR, by what it is; a masked access and
// a test of an index are vectors made of numbers.
static uint64_t inst_work(const dt_inst_t *inst) {
  switch (inst->kind) {
  case DT_INST_CONST:
    return 1;
  case DT_INST_LOAD:
    return inst->mask == DT_NO_INST ? 6 : 20;
  case DT_INST_INDEX:
    return inst->dtype == DT_BOOL ? 25 : 4;
  case DT_INST_SCALAR:
    if (inst->op == DT_SCALAR_philox)
      return PHILOX_INSTS;
    return dt__scalar_info(inst->op)->domain == 'F' ? 40 : 3;
  case DT_INST_SEARCH:
    return 40;
  default:
    return 6;
  }
}

// The loop over vectors, its copies, and what is left of it.
static uint64_t code_work(const dt_kernel_t *kernel, const dt_schedule_t *schedule) {
  uint64_t work = 200;
  for (uint32_t i = 0; i < kernel->stages.len; i++) {
    const dt_stage_t *stage = &kernel->stages.items[i];
    uint64_t body = 20 * (uint64_t)stage->reductions.len + 8 * (uint64_t)stage->stores.len;
    for (uint32_t j = 0; j < stage->insts.len; j++)
      body += inst_work(&stage->insts.items[j]);
    work += 40 * (uint64_t)stage->n_loops + body * (schedule->unroll + 1);
  }
  return dt__schedule_is_product(schedule) ? work + PRODUCT_WORK : work;
}

// ---- Entries --------------------------------------------------------------------------------------

// Whether half of a processor's registers are not enough: of just so many sums, they are for halves
// alone, which are multiplied without registers for each factor.
static bool is_wide(const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                    const dt_target_t *target) {
  const dt_team_matmul_t *matmul = &schedule->team_matmul;
  if (schedule->kind != DT_SCHEDULE_TEAM_MATMUL)
    return false;
  const dt_stage_t *stage = &kernel->stages.items[0];
  size_t words = (size_t)matmul->group_rows * matmul->group_cols / dt__target_warp(target) *
                 dt_dtype_size(stage->reductions.items[0].dtype) / 4;
  bool halves = dt__dtype_is_half(stage->insts.items[matmul->a].dtype) &&
                dt__dtype_is_half(stage->insts.items[matmul->b].dtype);
  return words > target->half_sums || (words == target->half_sums && !halves);
}

// Of a chain's last kernel; `wide` is told of any of them.
static class_t class_of(const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                        const dt_target_t *target, bool wide) {
  bool block = schedule->team > dt__target_warp(target);
  return (class_t){.kind = schedule->kind,
                   .threads = block ? schedule->team : target->block_threads,
                   .room = schedule->room,
                   .cluster = schedule->kind == DT_SCHEDULE_TEAM_MATMUL
                                  ? dt__matmul_cluster(&schedule->team_matmul)
                                  : 0,
                   .wide = wide || is_wide(kernel, schedule, target)};
}

// Gives codes[at] its place in an entry: that of an earlier code of the same kernel, or one of its
// own. Only targets with entries have several in one.
static void place_code(code_t *codes, uint32_t at, const dt_target_t *target) {
  code_t *code = &codes[at];
  code->entry = at;
  if (!target->entries) {
    codes[at].entry_cost += code->cost;
    return;
  }
  for (uint32_t i = code->before; i != DT_NO_CODE; i = codes[i].before) {
    const code_t *other = &codes[i];
    if (other->kernel_len != code->kernel_len || other->class.kind != code->class.kind ||
        other->class.threads != code->class.threads || other->class.room != code->class.room ||
        other->class.cluster != code->class.cluster || other->class.wide != code->class.wide ||
        codes[other->entry].entry_cost + code->cost > ENTRY_COST ||
        memcmp(other->text, code->text, code->kernel_len) != 0)
      continue;
    code->entry = other->entry;
    code->member = other->member + 1;
    break;
  }
  codes[code->entry].entry_cost += code->cost;
}

// ---- Codes ----------------------------------------------------------------------------------------

// Those found so far, with tables by the hash of all that makes a code, and of its kernel alone.
typedef struct codes_t {
  code_t *items;
  uint32_t n, mask;    // places of a table, less 1
  uint32_t *by_all;    // 1 + the code; 0: free
  uint32_t *by_kernel; // 1 + the last code of that kernel_hash
} codes_t;

static dt_status_t open_codes(dt_arena_t *arena, uint32_t most, codes_t *out) {
  uint32_t places = 16;
  while (places < 2 * most && places < 1U << 31)
    places *= 2;
  *out = (codes_t){.mask = places - 1};
  out->items = DT_ARENA_ARRAY(arena, code_t, most + 1);
  out->by_all = DT_ARENA_ARRAY(arena, uint32_t, places);
  out->by_kernel = DT_ARENA_ARRAY(arena, uint32_t, places);
  return out->items && out->by_all && out->by_kernel ? NULL : DT_NO_MEMORY();
}

// The place of the code of that text, or the free one where it belongs.
static uint32_t *place_of(const codes_t *codes, uint64_t hash, const char *text) {
  for (uint32_t at = (uint32_t)hash & codes->mask;; at = (at + 1) & codes->mask) {
    uint32_t *place = &codes->by_all[at];
    const code_t *code = *place ? &codes->items[*place - 1] : NULL;
    if (!code || (code->hash == hash && strcmp(code->text, text) == 0))
      return place;
  }
}

// The place of the last code whose kernel has that hash, or a free one.
static uint32_t *kernel_place(const codes_t *codes, uint64_t hash) {
  for (uint32_t at = (uint32_t)hash & codes->mask;; at = (at + 1) & codes->mask) {
    uint32_t *place = &codes->by_kernel[at];
    if (!*place || codes->items[*place - 1].kernel_hash == hash)
      return place;
  }
}

static dt_status_t keep_code(dt_arena_t *arena, const dt_target_t *target, code_t own,
                             const char *text, codes_t *codes, uint32_t *out) {
  own.text = dt__arena_strdup(arena, text);
  if (!own.text)
    return DT_NO_MEMORY();
  uint32_t *last = kernel_place(codes, own.kernel_hash);
  own.before = *last ? *last - 1 : DT_NO_CODE;
  codes->items[codes->n] = own;
  place_code(codes->items, codes->n, target);
  *last = *out = ++codes->n;
  return NULL;
}

// The code of a chain under the schedule number `s` of each of its kernels.
static dt_status_t find_code(dt_program_t *program, const dt_target_t *target,
                             dt_kernel_chain_t chain, uint32_t s, codes_t *codes, uint32_t *out) {
  dt_text_t text;
  dt_kernel_params_t params = {0};
  code_t own = {.origin = {chain.end - 1, s}};
  dt__text_init(&text);
  dt_status_t status = dt__chain_print(program, chain, &params, &text);
  own.kernel_len = text.len;
  for (uint32_t k = chain.first; k < chain.end && !status; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    const dt_schedule_t *schedule = &kernel->schedules.items[s];
    print_key(kernel, schedule, &text);
    own.cost += code_cost(kernel, schedule);
    own.work += code_work(kernel, schedule);
    own.product = schedule->kind == DT_SCHEDULE_MATMUL;
    own.class = class_of(kernel, schedule, target, own.class.wide);
    status = dt__text_status(&text);
  }
  if (!status) {
    own.hash = dt__hash(dt__text_str(&text), text.len, 0);
    own.kernel_hash = dt__hash(dt__text_str(&text), own.kernel_len, 0);
    uint32_t *place = place_of(codes, own.hash, dt__text_str(&text));
    if (!*place)
      status = keep_code(program->arena, target, own, dt__text_str(&text), codes, place);
    *out = *place - 1;
  }
  dt__text_fini(&text);
  return status;
}

// ---- Units ---------------------------------------------------------------------------------------
typedef struct entry_t {
  uint64_t cost; // of all its codes
  uint32_t code; // the first of them
} entry_t;

static int dearest_first(const void *a, const void *b) {
  const entry_t *x = a, *y = b;
  if (x->cost != y->cost)
    return x->cost > y->cost ? -1 : 1;
  return x->code < y->code ? -1 : 1;
}

// Each entry goes to the unit with the least so far, or to a new one where that would be too much.
// Gives the number of units.
static uint32_t spread(entry_t *entries, uint32_t n, uint64_t *load, uint32_t units, uint64_t most,
                       uint32_t *unit_of_code) {
  qsort(entries, n, sizeof(*entries), dearest_first);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t least = 0;
    for (uint32_t u = 1; u < units; u++)
      if (load[u] < load[least])
        least = u;
    if (load[least] && load[least] + entries[i].cost > most)
      least = units++;
    load[least] += entries[i].cost;
    unit_of_code[entries[i].code] = least;
  }
  return units;
}

// One unit for each thread where that is worth it. *by_work: these would be above `unit_work`.
static uint32_t unit_count(const codes_t *codes, uint32_t entries, uint32_t most,
                           uint64_t unit_work, bool *by_work) {
  uint64_t cost = 0, work = 0;
  for (uint32_t i = 0; i < codes->n; i++) {
    cost += codes->items[i].cost;
    work += codes->items[i].work;
  }
  uint64_t units = (cost + UNIT_COST - 1) / UNIT_COST;
  if (units > most)
    units = most;
  *by_work = unit_work != DT_UNIT_WORK_ANY && work > units * unit_work;
  return units > entries ? entries : (uint32_t)units;
}

static bool is_shared(const codes_t *codes, uint32_t i) {
  return codes->items[i].product && codes->items[i].entry == i;
}

// Products go together, so that their micro-kernels, which cost `shared`, are compiled once: up to
// what each of the units would have if all had the same, but at least to twice what is shared.
// leader[i]: the first of those that go with code i, which has the cost of all of them.
static void join_products(const codes_t *codes, uint64_t shared, uint32_t units, uint64_t *cost,
                          uint32_t *leader) {
  uint32_t head = DT_NO_CODE;
  uint64_t all = shared, most = 2 * shared;
  for (uint32_t i = 0; i < codes->n; i++)
    all += is_shared(codes, i) ? cost[i] - shared : cost[i];
  if (units && all / units > most)
    most = all / units;
  for (uint32_t i = 0; i < codes->n; i++) {
    leader[i] = i;
    if (!is_shared(codes, i))
      continue;
    uint64_t own = cost[i] - shared;
    if (head == DT_NO_CODE || cost[head] + own > most) {
      head = i;
      continue;
    }
    leader[i] = head;
    cost[head] += own;
    cost[i] = 0;
  }
}

static dt_status_t assign_units(dt_program_t *program, const codes_t *codes, uint32_t max_units,
                                uint64_t unit_work, dt_unit_map_t *map) {
  uint32_t n = map->n_codes = codes->n, n_entries = 0;
  dt_arena_t *arena = program->arena;
  entry_t *entries = DT_ARENA_ARRAY(arena, entry_t, n + 1);
  uint64_t *cost = DT_ARENA_ARRAY(arena, uint64_t, n + 1);
  map->unit_of_code = DT_ARENA_ARRAY(arena, uint32_t, n + 1);
  map->entry_of_code = DT_ARENA_ARRAY(arena, uint32_t, n + 1);
  map->member_of_code = DT_ARENA_ARRAY(arena, uint32_t, n + 1);
  map->origin_of_code = DT_ARENA_ARRAY(arena, dt_code_origin_t, n + 1);
  map->work_of_code = DT_ARENA_ARRAY(arena, uint64_t, n + 1);
  if (!entries || !cost || !map->unit_of_code || !map->entry_of_code || !map->member_of_code ||
      !map->origin_of_code || !map->work_of_code)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++)
    n_entries += codes->items[i].entry == i;
  bool by_work = false;
  uint32_t units = unit_count(codes, n_entries, max_units - 1, unit_work, &by_work);
  uint64_t *load = DT_ARENA_ARRAY(arena, uint64_t, n + 1);
  uint32_t *leader = DT_ARENA_ARRAY(arena, uint32_t, n + 1);
  if (!load || !leader)
    return DT_NO_MEMORY();
  for (uint32_t i = 0; i < n; i++) {
    const code_t *code = &codes->items[i];
    map->entry_of_code[i] = code->entry;
    map->member_of_code[i] = code->member;
    map->origin_of_code[i] = code->origin;
    map->work_of_code[i] = code->work;
    cost[code->entry] += by_work ? code->work : code->cost;
  }
  n_entries = 0;
  join_products(codes, by_work ? PRODUCT_WORK : PRODUCT_COST, units, cost, leader);
  for (uint32_t i = 0; i < n; i++)
    if (codes->items[i].entry == i && leader[i] == i)
      entries[n_entries++] = (entry_t){cost[i], i};
  units = units < n_entries ? units : n_entries;
  units =
      spread(entries, n_entries, load, units, by_work ? unit_work : UINT64_MAX, map->unit_of_code);
  map->n_units = units + 1;
  for (uint32_t i = 0; i < n; i++)
    map->unit_of_code[i] = map->unit_of_code[leader[codes->items[i].entry]];
  return NULL;
}

dt_status_t dt__llvm_split(dt_program_t *program, const dt_target_t *target, uint32_t max_units,
                           uint64_t unit_work, dt_unit_map_t *out) {
  *out = (dt_unit_map_t){.n_kernels = program->kernels.len};
  if (max_units < 2)
    return DT_FAIL(DT_E_ARGUMENT, "a program is compiled in at least 2 units, not %u", max_units);
  uint32_t n = 0;
  for (uint32_t i = 0; i < program->kernels.len; i++)
    n += program->kernels.items[i].schedules.len;
  codes_t codes;
  DT_TRY(open_codes(program->arena, n, &codes));
  out->first_code = DT_ARENA_ARRAY(program->arena, uint32_t, program->kernels.len + 1);
  out->code_of_kernel = DT_ARENA_ARRAY(program->arena, uint32_t, n + 1);
  if (!out->first_code || !out->code_of_kernel)
    return DT_NO_MEMORY();
  uint32_t at = 0;
  for (uint32_t i = 0; i < program->kernels.len; i++) {
    dt_kernel_chain_t chain = dt__kernel_chain(program, i);
    out->first_code[i] = at;
    for (uint32_t s = 0; s < program->kernels.items[i].schedules.len; s++, at++) {
      out->code_of_kernel[at] = DT_NO_CODE;
      if (i + 1 == chain.end && !program->kernels.items[i].external)
        DT_TRY(find_code(program, target, chain, s, &codes, &out->code_of_kernel[at]));
    }
  }
  return assign_units(program, &codes, max_units, unit_work, out);
}

// ---- Memory --------------------------------------------------------------------------------------
// What LLVM needs for any unit, for an instruction, for a launch with its words, and for a dim of a
// buffer that is no literal: of the largest of bench/bench_compile.c's graphs, as the memory behind
// each stage says (`scripts/bench compile --stages`; docs/performance.md, "Compile time").
#define UNIT_BYTES ((uint64_t)4 << 20)
#define WORK_BYTES 1024
#define LAUNCH_BYTES 12288
#define SIZE_BYTES 1536

static uint64_t host_bytes(const dt_program_t *program) {
  uint64_t bytes = (uint64_t)program->kernels.len * LAUNCH_BYTES;
  for (uint32_t i = 0; i < program->buffers.len; i++) {
    const dt_buffer_t *buffer = &program->buffers.items[i];
    bool planned = buffer->kind != DT_BUFFER_INPUT && buffer->kind != DT_BUFFER_CONSTANT;
    for (uint32_t d = 0; planned && d < buffer->rank; d++)
      bytes += dt__sym_is_const(program->env, buffer->sizes[d], NULL) ? 0 : SIZE_BYTES;
  }
  return bytes;
}

uint64_t dt__llvm_unit_bytes(const dt_program_t *program, const dt_unit_map_t *map, uint32_t unit) {
  uint64_t bytes = UNIT_BYTES + dt__symenv_bytes(program->env);
  if (unit + 1 == map->n_units)
    return bytes + host_bytes(program);
  for (uint32_t i = 0; i < map->n_codes; i++)
    if (map->unit_of_code[i] == unit)
      bytes += map->work_of_code[i] * WORK_BYTES;
  return bytes;
}

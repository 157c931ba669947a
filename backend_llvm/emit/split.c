// SPDX-License-Identifier: Apache-2.0
// Cuts a program into units: equal kernels (or chains) under equal schedules become one code, found
// by hash and told apart by their whole text; codes are spread over units by estimated cost,
// dearest first.
#include "backend_llvm/emit/compile.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <string.h>

#define UNIT_COST 600 // below this a unit of its own costs more than it saves

typedef struct code_t {
  uint64_t hash;
  char *text;
  uint64_t cost;
  uint32_t id;
} code_t;

// What code depends on besides the kernel's text: the schedule and the numbers of its checks.
static void print_key(const dt_kernel_t *kernel, const dt_schedule_t *s, dt_text_t *out) {
  dt__text_printf(out, "\nschedule %d %u %u %lld %u %d %u %u", (int)s->kind, s->lanes, s->unroll,
                  (long long)s->block, s->team, s->resident, s->room, s->most);
  if (s->kind == DT_SCHEDULE_MATMUL)
    dt__text_printf(out, " matmul %u %u %u %u %u %u %u %u", s->matmul.a, s->matmul.b,
                    s->matmul.width, s->matmul.rows, s->matmul.tile_rows, s->matmul.tile_cols,
                    s->matmul.depth, s->matmul.ring);
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

// The code of a chain under the schedule number `s` of each of its kernels.
static dt_status_t find_code(dt_program_t *program, dt_chain_t chain, uint32_t s, code_t *codes,
                             uint32_t *n, uint32_t *out) {
  dt_text_t text;
  dt_kernel_params_t params = {0};
  uint64_t cost = 0;
  dt__text_init(&text);
  dt_status_t status = dt__chain_print(program, chain, &params, &text);
  for (uint32_t k = chain.first; k < chain.end && !status; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    print_key(kernel, &kernel->schedules.items[s], &text);
    cost += code_cost(kernel, &kernel->schedules.items[s]);
    status = dt__text_status(&text);
  }
  if (!status) {
    uint64_t hash = dt__hash(dt__text_str(&text), text.len, 0);
    uint32_t i = 0;
    while (i < *n && (codes[i].hash != hash || strcmp(codes[i].text, dt__text_str(&text)) != 0))
      i++;
    if (i == *n) {
      codes[i] = (code_t){hash, dt__arena_strdup(program->arena, dt__text_str(&text)), cost, i};
      if (!codes[i].text)
        status = DT_NO_MEMORY();
      (*n)++;
    }
    *out = i;
  }
  dt__text_fini(&text);
  return status;
}

static void spread(const code_t *codes, uint32_t n, uint32_t units, uint64_t *load, bool *done,
                   uint32_t *unit_of_code) {
  for (uint32_t round = 0; round < n; round++) {
    uint32_t dearest = n;
    for (uint32_t i = 0; i < n; i++)
      if (!done[i] && (dearest == n || codes[i].cost > codes[dearest].cost))
        dearest = i;
    uint32_t least = 0;
    for (uint32_t u = 1; u < units; u++)
      if (load[u] < load[least])
        least = u;
    done[dearest] = true;
    load[least] += codes[dearest].cost;
    unit_of_code[dearest] = least;
  }
}

static dt_status_t assign_units(dt_program_t *program, const code_t *codes, uint32_t max_units,
                                dt_unit_map_t *map) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < map->n_codes; i++)
    total += codes[i].cost;
  uint64_t units = (total + UNIT_COST - 1) / UNIT_COST;
  if (units > max_units - 1)
    units = max_units - 1;
  if (units > map->n_codes)
    units = map->n_codes;
  map->n_units = (uint32_t)units + 1;
  map->unit_of_code = DT_ARENA_ARRAY(program->arena, uint32_t, map->n_codes + 1);
  uint64_t *load = DT_ARENA_ARRAY(program->arena, uint64_t, units + 1);
  bool *done = DT_ARENA_ARRAY(program->arena, bool, map->n_codes + 1);
  if (!map->unit_of_code || !load || !done)
    return DT_NO_MEMORY();
  spread(codes, map->n_codes, (uint32_t)units, load, done, map->unit_of_code);
  return NULL;
}

dt_status_t dt__llvm_split(dt_program_t *program, const dt_target_t *target, uint32_t max_units,
                           dt_unit_map_t *out) {
  (void)target;
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
        DT_TRY(find_code(program, chain, s, codes, &out->n_codes, &out->code_of_kernel[at]));
    }
  }
  return assign_units(program, codes, max_units, out);
}

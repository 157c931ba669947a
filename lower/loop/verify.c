// SPDX-License-Identifier: Apache-2.0
// The verifier of programs: buffers, loops, writes before reads, schedules, the plan. verify_body.c
// checks bodies of stages. The interpreter checks what depends on values (bounds, that no element
// is stored twice).
#include "lower/loop/verify_private.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_SYMBOLS 512 // in one expression

dt_status_t dt__loop_verify_fail(const dt_loop_verifier_t *v, const char *fmt, ...) {
  char text[256];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  if (!v->kernel)
    return DT_FAIL(DT_E_INTERNAL, "loop program: %s", text);
  const char *name = v->kernel->name ? v->kernel->name : "";
  if (!v->stage)
    return DT_FAIL(DT_E_INTERNAL, "kernel %u (%s): %s", v->kernel_at, name, text);
  return DT_FAIL(DT_E_INTERNAL, "kernel %u (%s), stage %u: %s", v->kernel_at, name, v->stage_at,
                 text);
}

// ---- Expressions and loops ------------------------------------------------------------------------
dt_status_t dt__loop_verify_expr(const dt_loop_verifier_t *v, dt_sym_t e, const char *what) {
  uint32_t symbols[MAX_SYMBOLS];
  if (!e.id)
    return dt__loop_verify_fail(v, "%s is missing", what);
  const dt_symenv_t *env = v->program->env;
  uint32_t n = dt__sym_symbols(env, e, symbols, MAX_SYMBOLS);
  if (n > MAX_SYMBOLS)
    return dt__loop_verify_fail(v, "%s has more than %d symbols", what, MAX_SYMBOLS);
  for (uint32_t k = 0; k < n; k++) {
    dt_symbol_kind_t kind = dt__symbol_info(env, symbols[k]).kind;
    if (kind != DT_SYMBOL_LOOP && kind != DT_SYMBOL_DATA)
      continue;
    uint32_t stamp = v->stamps[symbols[k]];
    if (!stamp || (stamp != v->kernel_stamp && stamp != v->stage_stamp))
      return dt__loop_verify_fail(v, "%s uses %c%u, which is not visible there", what,
                                  kind == DT_SYMBOL_LOOP ? 'i' : 'd', symbols[k]);
  }
  return NULL;
}

dt_status_t dt__loop_verify_loops(dt_loop_verifier_t *v, uint32_t n, const dt_sym_t *vars,
                                  const dt_sym_t *extents, uint32_t stamp) {
  dt_symenv_t *env = v->program->env;
  if (n > DT_MAX_LOOPS)
    return dt__loop_verify_fail(v, "%u loops, the most is %d", n, DT_MAX_LOOPS);
  // Extents are fixed for the whole call, so the loops are not visible in each other's.
  uint32_t kernel_stamp = v->kernel_stamp, stage_stamp = v->stage_stamp;
  v->kernel_stamp = v->stage_stamp = UINT32_MAX;
  dt_status_t status = NULL;
  for (uint32_t k = 0; k < n && !status; k++)
    status = dt__loop_verify_expr(v, extents[k], "a loop's extent");
  v->kernel_stamp = kernel_stamp;
  v->stage_stamp = stage_stamp;
  if (status)
    return status;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t symbol = 0;
    if (!dt__sym_is_symbol(env, vars[k], &symbol) ||
        dt__symbol_info(env, symbol).kind != DT_SYMBOL_LOOP)
      return dt__loop_verify_fail(v, "loop %u has no LOOP symbol", k);
    if (!dt__sym_known_eq(env, dt__symbol_extent(env, symbol), extents[k]))
      return dt__loop_verify_fail(v, "loop i%u was made for another extent", symbol);
    if (v->stamps[symbol] == v->kernel_stamp || v->stamps[symbol] == stamp)
      return dt__loop_verify_fail(v, "loop i%u is used twice", symbol);
    v->stamps[symbol] = stamp;
  }
  return NULL;
}

// ---- Buffers ------------------------------------------------------------------------------------------
// What has a layout may have it, and lies as it says.
static dt_status_t verify_layout(const dt_loop_verifier_t *v, uint32_t id) {
  const dt_buffer_t *buffer = &v->program->buffers.items[id - 1];
  bool whole = buffer->kind == DT_BUFFER_TEMP || buffer->kind == DT_BUFFER_ONCE;
  dt_sym_t strides[DT_MAX_RANK];
  if (!dt__layout_check(buffer))
    return dt__loop_verify_fail(v, "buffer %u has a layout of another rank, or none", id);
  if (!whole &&
      (buffer->kind != DT_BUFFER_OUTPUT || !dt__layout_is_order(buffer->layout, buffer->rank)))
    return dt__loop_verify_fail(v, "buffer %u, which is %s, has a layout", id,
                                dt__buffer_kind_name(buffer->kind));
  if (buffer->row.id && buffer->layout->order[buffer->rank - 1] != buffer->rank - 1)
    return dt__loop_verify_fail(v, "buffer %u has rows of packed elements that lie apart", id);
  dt__buffer_find_strides(v->program->env, buffer, strides);
  for (uint32_t d = 0; d < buffer->rank; d++)
    if (!dt__sym_known_eq(v->program->env, strides[d], buffer->strides[d]))
      return dt__loop_verify_fail(v, "buffer %u, dim %u: the stride is not the layout's", id, d);
  return NULL;
}

static dt_status_t verify_buffer(const dt_loop_verifier_t *v, uint32_t id) {
  const dt_program_t *program = v->program;
  const dt_buffer_t *buffer = &program->buffers.items[id - 1];
  if (!dt__buffer_kind_name(buffer->kind) || !dt__dtype_is_valid(buffer->dtype) ||
      dt__dtype_is_low(buffer->dtype) || buffer->rank > DT_MAX_RANK)
    return dt__loop_verify_fail(v, "buffer %u has no valid kind, dtype or rank", id);
  for (uint32_t d = 0; d < buffer->rank; d++) {
    DT_TRY(dt__loop_verify_expr(v, buffer->sizes[d], "a buffer's size"));
    DT_TRY(dt__loop_verify_expr(v, buffer->strides[d], "a buffer's stride"));
  }
  if (buffer->row.id) {
    if (buffer->rank == 0 || buffer->dtype != DT_U8)
      return dt__loop_verify_fail(v, "buffer %u has rows of packed elements, and no bytes", id);
    DT_TRY(dt__loop_verify_expr(v, buffer->row, "a buffer's row"));
  }
  if (buffer->layout)
    DT_TRY(verify_layout(v, id));
  const dt_graph_t *graph = program->graph;
  uint32_t limit = UINT32_MAX;
  if (buffer->kind == DT_BUFFER_INPUT && graph)
    limit = graph->inputs.len;
  if (buffer->kind == DT_BUFFER_CONSTANT && graph)
    limit = graph->constants.len;
  if (buffer->kind == DT_BUFFER_OUTPUT)
    limit = program->outputs.len;
  if (buffer->index >= limit)
    return dt__loop_verify_fail(v, "buffer %u is number %u of %u of its kind", id, buffer->index,
                                limit);
  return NULL;
}

static dt_status_t verify_outputs(const dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  for (uint32_t k = 0; k < program->outputs.len; k++) {
    uint32_t id = program->outputs.items[k].id;
    if (id == 0 || id > program->buffers.len)
      return dt__loop_verify_fail(v, "result %u has no buffer", k);
    const dt_buffer_t *buffer = &program->buffers.items[id - 1];
    if (buffer->kind != DT_BUFFER_OUTPUT || buffer->index != k)
      return dt__loop_verify_fail(v, "result %u is buffer %u, which is %s %u", k, id,
                                  dt__buffer_kind_name(buffer->kind), buffer->index);
    if (!v->written_by[id - 1])
      return dt__loop_verify_fail(v, "result %u (buffer %u) is written by no kernel", k, id);
  }
  return NULL;
}

// ---- Schedules ------------------------------------------------------------------------------------------
static bool is_load(const dt_stage_t *stage, uint32_t inst) {
  return inst < stage->insts.len && stage->insts.items[inst].kind == DT_INST_LOAD;
}

// Stage 0 is what a product of either kind takes, and its tiles are whole numbers of parts.
static dt_status_t verify_product(const dt_loop_verifier_t *v, const dt_matmul_common_t *m,
                                  uint32_t rows, uint32_t cols) {
  const dt_kernel_t *kernel = v->kernel;
  if (kernel->n_loops < 2 || kernel->stages.len == 0 || kernel->stages.items[0].n_loops == 0 ||
      kernel->stages.items[0].reductions.len != 1)
    return dt__loop_verify_fail(v, "a matmul schedule on loops of another form");
  const dt_stage_t *stage = &kernel->stages.items[0];
  if (!is_load(stage, m->a) || !is_load(stage, m->b) ||
      stage->reductions.items[0].kind != DT_REDUCE_SUM)
    return dt__loop_verify_fail(v, "a matmul schedule whose operands are not loads");
  if (!cols || !rows || !m->tile_rows || !m->tile_cols || m->tile_rows % rows ||
      m->tile_cols % cols)
    return dt__loop_verify_fail(v, "matmul tiles of %u x %u with parts of %u x %u", m->tile_rows,
                                m->tile_cols, rows, cols);
  return NULL;
}

static dt_status_t verify_outer_lanes(const dt_loop_verifier_t *v, const dt_schedule_t *schedule) {
  uint32_t beside = schedule->outer.beside;
  if (beside && (beside < 2 || beside > 8 || schedule->unroll != 1 || v->kernel->n_loops < 2))
    return dt__loop_verify_fail(v, "%u iterations side by side", beside);
  return schedule->outer.block >= 1 ? NULL
                                    : dt__loop_verify_fail(v, "blocks of %lld iterations",
                                                           (long long)schedule->outer.block);
}

static dt_status_t verify_inner_lanes(const dt_loop_verifier_t *v, const dt_schedule_t *schedule) {
  uint32_t k = (uint32_t)(schedule - v->kernel->schedules.items);
  if (dt__kernel_in_order(v->kernel))
    return dt__loop_verify_fail(v, "schedule %u takes loops apart that run in order", k);
  if (schedule->inner.resident && !schedule->team)
    return dt__loop_verify_fail(v, "rows are resident without a team");
  return NULL;
}

static dt_status_t verify_serial(const dt_loop_verifier_t *v, const dt_schedule_t *schedule) {
  return schedule->lanes == 1
             ? NULL
             : dt__loop_verify_fail(v, "scalar code with %u lanes", schedule->lanes);
}

static dt_status_t verify_tiles(const dt_loop_verifier_t *v, const dt_schedule_t *schedule) {
  if (!schedule->team || schedule->tiles.side < 1)
    return dt__loop_verify_fail(v, "squares of %lld for a team of %u",
                                (long long)schedule->tiles.side, schedule->team);
  return NULL;
}

// Stage 0 sums over windows of 3 x 3 places and channels.
static dt_status_t verify_squares(const dt_loop_verifier_t *v, const dt_matmul_t *m) {
  const dt_kernel_t *kernel = v->kernel;
  const dt_stage_t *stage = kernel->stages.len ? &kernel->stages.items[0] : NULL;
  int64_t sides[2] = {0, 0};
  for (uint32_t k = 0; k < 2 && stage && stage->n_loops == 3; k++)
    (void)dt__sym_is_const(v->program->env, stage->extents[k], &sides[k]);
  if (sides[0] != 3 || sides[1] != 3 || m->bits || m->own_panels || kernel->n_loops < 2)
    return dt__loop_verify_fail(v, "squares of places on loops of another form");
  return dt__loop_verify_expr(v, m->across, "a row of places");
}

static dt_status_t verify_matmul(const dt_loop_verifier_t *v, const dt_schedule_t *schedule) {
  if (schedule->team)
    return dt__loop_verify_fail(v, "a matmul schedule of panels with a team of %u", schedule->team);
  const dt_matmul_t *m = &schedule->matmul;
  bool codes = m->bits == 2 || m->bits == 4 || m->bits == 8;
  if ((m->bits && !codes) || (codes && (m->block == 0 || m->block % 16 || m->own_panels)) ||
      (m->dots && !codes))
    return dt__loop_verify_fail(v, "a matmul schedule of panels of %u bits in blocks of %u",
                                m->bits, m->block);
  if (m->across.id)
    DT_TRY(verify_squares(v, m));
  return verify_product(v, &schedule->product, schedule->matmul.rows, schedule->matmul.width);
}

// A team has as many groups as the tile needs, or a multiple of that which the depth can be shared
// by.
static dt_status_t verify_team_matmul(const dt_loop_verifier_t *v, const dt_schedule_t *schedule) {
  const dt_team_matmul_t *m = &schedule->team_matmul;
  if (v->kernel->chain && v->kernel->stages.len && v->kernel->stages.items[0].n_loops != 1)
    return dt__loop_verify_fail(v, "a chain's product that sums over several loops");
  DT_TRY(verify_product(v, &schedule->product, m->group_rows, m->group_cols));
  bool shares = dt__matmul_shares(m);
  if (m->keys &&
      (!v->kernel->chain || (m->keys != 64 && !shares) || m->tile_rows != (shares ? 16U : 128U)))
    return dt__loop_verify_fail(v, "a product for %u keys at a time", m->keys);
  uint64_t needed = (uint64_t)(m->tile_rows / m->group_rows) * (m->tile_cols / m->group_cols);
  if (!schedule->team || !m->groups || schedule->team % m->groups)
    return dt__loop_verify_fail(v, "a matmul schedule with a team of %u in %u groups",
                                schedule->team, m->groups);
  if (needed > m->groups || m->groups % needed || !m->depth || m->depth % (m->groups / needed) ||
      m->ring < 2 || (m->cluster && m->cluster != (shares ? 8U : 2U)) ||
      m->tile_rows % dt__matmul_cluster(m))
    return dt__loop_verify_fail(v, "matmul tiles of %u x %u x %u in %u groups of %u x %u, %u teams",
                                m->tile_rows, m->tile_cols, m->depth, m->groups, m->group_rows,
                                m->group_cols, dt__matmul_cluster(m));
  return NULL;
}

// What each kind promises of its own fields.
static dt_status_t (*const verify_kind[])(const dt_loop_verifier_t *v,
                                          const dt_schedule_t *schedule) = {
    [DT_SCHEDULE_OUTER_LANES] = verify_outer_lanes,
    [DT_SCHEDULE_INNER_LANES] = verify_inner_lanes,
    [DT_SCHEDULE_SERIAL] = verify_serial,
    [DT_SCHEDULE_MATMUL] = verify_matmul,
    [DT_SCHEDULE_TILES] = verify_tiles,
    [DT_SCHEDULE_TEAM_MATMUL] = verify_team_matmul};
_Static_assert(sizeof(verify_kind) / sizeof(verify_kind[0]) == DT_SCHEDULE_KINDS, "a kind each");

static dt_status_t verify_schedules(const dt_loop_verifier_t *v) {
  uint32_t n = v->kernel->schedules.len;
  for (uint32_t k = 0; k < n; k++) {
    const dt_schedule_t *schedule = &v->kernel->schedules.items[k];
    if (!dt__schedule_kind_name(schedule->kind))
      return dt__loop_verify_fail(v, "schedule %u is of no kind: %u", k, (unsigned)schedule->kind);
    if (schedule->lanes < 1 || schedule->unroll < 1 || schedule->unroll > 8 || schedule->grain < 1)
      return dt__loop_verify_fail(v, "schedule %u: lanes %u, unroll %u, grain %lld", k,
                                  schedule->lanes, schedule->unroll, (long long)schedule->grain);
    if ((schedule->predicate.id == 0) != (k + 1 == n))
      return dt__loop_verify_fail(v, "schedule %u of %u: all but the last need a predicate", k, n);
    DT_TRY(verify_kind[schedule->kind](v, schedule));
  }
  return NULL;
}

static dt_status_t verify_predicates(const dt_loop_verifier_t *v) {
  for (uint32_t k = 0; k + 1 < v->kernel->schedules.len; k++)
    DT_TRY(dt__loop_verify_expr(v, v->kernel->schedules.items[k].predicate, "a predicate"));
  return NULL;
}

// ---- Kernels --------------------------------------------------------------------------------------------
// What the kernel stored was stored earlier, for those that come. Its ids may be wrong yet.
static void note_earlier(dt_loop_verifier_t *v, const dt_kernel_t *kernel) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t k = 0; k < kernel->stages.items[s].stores.len; k++) {
      uint32_t id = kernel->stages.items[s].stores.items[k].buffer.id;
      if (id && id <= v->program->buffers.len)
        v->earlier_writer[id - 1] = v->written_by[id - 1];
    }
}

// A call of a user's op: operands, then results in order, and nothing else.
static dt_status_t verify_external(const dt_loop_verifier_t *v, const dt_kernel_t *kernel) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  uint32_t n = stage->insts.len, m = stage->stores.len;
  uint32_t n_calls = v->program->externals.len;
  if (kernel->stages.len != 1 || kernel->n_loops != 1 || stage->n_loops || stage->reductions.len ||
      kernel->slices || kernel->chain || kernel->gate.id || m > n ||
      v->kernel_at < v->program->n_once)
    return dt__loop_verify_fail(v, "a call of a user's op of another form");
  if (n_calls && kernel->external > n_calls)
    return dt__loop_verify_fail(v, "call %u of %u of users' ops", kernel->external - 1, n_calls);
  for (uint32_t i = 0; i < n; i++) {
    const dt_inst_t *inst = &stage->insts.items[i];
    bool result = i >= n - m;
    if (inst->kind != DT_INST_WHOLE || (inst->buffer.id == 0) != result ||
        (result && (inst->row != i - (n - m) || stage->stores.items[inst->row].value != i)))
      return dt__loop_verify_fail(v, "v%u is no operand and no result in order", i);
  }
  return NULL;
}

static dt_status_t verify_kernel(dt_loop_verifier_t *v) {
  const dt_kernel_t *kernel = v->kernel;
  if (!kernel->name)
    return dt__loop_verify_fail(v, "no name");
  if (kernel->stages.len == 0)
    return dt__loop_verify_fail(v, "no stages");
  if (kernel->external)
    DT_TRY(verify_external(v, kernel));
  DT_TRY(verify_predicates(v));
  v->row_stage = dt__calloc(kernel->n_rows + 1, sizeof(*v->row_stage));
  v->row_dtype = dt__calloc(kernel->n_rows + 1, sizeof(*v->row_dtype));
  dt_status_t status = NULL;
  if (!v->row_stage || !v->row_dtype) {
    status = DT_NO_MEMORY();
    goto done;
  }
  v->kernel_stamp = v->next_stamp++;
  v->stage_stamp = v->kernel_stamp;
  DT_TRY_GOTO(
      dt__loop_verify_loops(v, kernel->n_loops, kernel->vars, kernel->extents, v->kernel_stamp),
      done);
  for (v->stage_at = 0; v->stage_at < kernel->stages.len; v->stage_at++) {
    v->stage = &kernel->stages.items[v->stage_at];
    v->stage_stamp = v->next_stamp++;
    DT_TRY_GOTO(dt__loop_verify_stage(v), done);
  }
  v->stage = NULL;
  status = verify_schedules(v);
done:
  dt__free(v->row_stage);
  dt__free(v->row_dtype);
  v->stage = NULL;
  v->kernel_stamp = v->stage_stamp = UINT32_MAX;
  note_earlier(v, kernel);
  return status;
}

static dt_status_t verify(dt_loop_verifier_t *v) {
  const dt_program_t *program = v->program;
  // Without memory expressions are missing everywhere: that is then the failure to tell.
  DT_TRY(dt__symenv_status(program->env));
  for (uint32_t id = 1; id <= program->buffers.len; id++)
    DT_TRY(verify_buffer(v, id));
  DT_TRY(dt__loop_verify_plan(v));
  for (v->kernel_at = 0; v->kernel_at < program->kernels.len; v->kernel_at++) {
    v->kernel = &program->kernels.items[v->kernel_at];
    DT_TRY(verify_kernel(v));
  }
  v->kernel = NULL;
  DT_TRY(dt__loop_verify_commit(v));
  DT_TRY(verify_outputs(v));
  return dt__loop_verify_order(v);
}

dt_status_t dt__program_verify(const dt_program_t *program) {
  uint32_t n = program->buffers.len + 1, n_symbols = dt__symenv_symbol_count(program->env);
  dt_loop_verifier_t v = {.program = program,
                          .n_symbols = n_symbols,
                          .next_stamp = 1,
                          .kernel_stamp = UINT32_MAX,
                          .stage_stamp = UINT32_MAX};
  uint32_t **tables[] = {&v.written_by, &v.first_writer, &v.earlier_writer, &v.local_kernel,
                         &v.local_stage};
  bool ok = true;
  v.stamps = dt__calloc(n_symbols + 1, sizeof(*v.stamps));
  v.bound_by = dt__calloc(n_symbols + 1, sizeof(*v.bound_by));
  for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++) {
    *tables[k] = dt__calloc(n, sizeof(**tables[k]));
    ok &= *tables[k] != NULL;
  }
  dt_status_t status = ok && v.stamps && v.bound_by ? verify(&v) : DT_NO_MEMORY();
  for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++)
    dt__free(*tables[k]);
  dt__free(v.stamps);
  dt__free(v.bound_by);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// Inlining: a load of a map kernel's result becomes the map's body at the load's index. It is
// always legal, since maps are pure and their store index can be inverted. It is done if it saves
// traffic without repeating work. dt__fuse_prune removes kernels whose results are all inlined.
#include "fuse/body.h"
#include "fuse/fuse.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

// `scripts/bench many` (bench/bench_many.c) measures what they cost a compile, `scripts/bench
// kernels` (bench/bench_kernels.c) what they bring.
#define MAX_BODY 400  // instructions a stage may grow to, of which tests of indices count as TEST
#define TEST 8        // lanes, masks and ranges: code generation is long over chains of them
#define CHOICE_COST 4 // of what decides between two elements, and makes one
#define SCALAR_COST 4 // of what is better done in lanes, in a kernel of its own
#define WIDER_COST 4  // of what makes four bytes of one: less to do again than to store and read

typedef struct inline_ctx_t {
  dt_program_t *program;
  uint32_t repeated_cost; // the target's
  bool keeps_orders;      // copies of constants in another order stay
  dt_access_t access;
  const dt_kernel_t *consumer;
  const dt_stage_t *stage; // of the consumer, as it was
  uint32_t weight;         // its own
  bool in_order;           // the consumer may not run in lanes
} inline_ctx_t;

// Loads that touch a new element in every iteration (others stay in registers or cache).
static uint32_t full_loads(dt_program_t *program, const dt_kernel_t *kernel) {
  const dt_stage_t *stage = &kernel->stages.items[0];
  uint32_t full = 0;
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    const dt_inst_t *load = &stage->insts.items[i];
    if (load->kind != DT_INST_LOAD)
      continue;
    bool all = true;
    uint32_t rank = dt__program_buffer(program, load->buffer)->rank;
    for (uint32_t v = 0; v < kernel->n_loops; v++)
      all = all && dt__index_uses(program, load->index, rank, kernel->vars[v]);
    full += all;
  }
  return full;
}

static bool has_bind(const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_BIND)
      return true;
  return false;
}

static bool uses_loops(dt_program_t *program, dt_sym_t e) {
  uint32_t symbols[64];
  uint32_t n = dt__sym_symbols(program->env, e, symbols, 64);
  for (uint32_t k = 0; k < n && k < 64; k++)
    if (dt__symbol_info(program->env, symbols[k]).kind == DT_SYMBOL_LOOP)
      return true;
  return n > 64;
}

// What a term moves by when the part of it that loops make moves by one.
static dt_sym_t step_of(dt_program_t *program, dt_sym_t term) {
  dt_symenv_t *env = program->env;
  dt_sym_t step = dt__sym_const(env, 1);
  dt_sym_view_t view = dt__sym_view(env, term);
  for (uint32_t k = 0; view.op == DT_SYM_MUL && k < view.n_args; k++) {
    dt_sym_t factor = dt__sym_view(env, term).args[k];
    if (!uses_loops(program, factor))
      step = dt__sym_mul(env, step, factor);
  }
  return step;
}

// Two terms of an index that loops move, neither of which stays within one step of the other: as
// the place of a window and its element, they meet the same element again.
static bool overlaps(dt_program_t *program, dt_sym_t index) {
  dt_symenv_t *env = program->env;
  dt_sym_view_t view = dt__sym_view(env, index);
  for (uint32_t a = 0; view.op == DT_SYM_ADD && a < view.n_args; a++)
    for (uint32_t b = 0; b < a; b++) {
      dt_sym_t x = dt__sym_view(env, index).args[a], y = dt__sym_view(env, index).args[b];
      if (uses_loops(program, x) && uses_loops(program, y) &&
          !dt__sym_known_true(env, dt__sym_lt(env, y, step_of(program, x))) &&
          !dt__sym_known_true(env, dt__sym_lt(env, x, step_of(program, y))))
        return true;
    }
  return false;
}

static bool overlapping(const inline_ctx_t *ctx, const dt_inst_t *load, uint32_t rank) {
  for (uint32_t d = 0; d < rank; d++)
    if (overlaps(ctx->program, load->index[d]))
      return true;
  return false;
}

// As padding does.
static bool tests_indices(const dt_stage_t *body) {
  for (uint32_t i = 0; i < body->insts.len; i++)
    if (body->insts.items[i].kind == DT_INST_INDEX && body->insts.items[i].dtype == DT_BOOL)
      return true;
  return false;
}

static uint32_t weight_of(const dt_stage_t *body) {
  uint32_t weight = body->insts.len;
  for (uint32_t i = 0; i < body->insts.len; i++)
    if (body->insts.items[i].kind == DT_INST_INDEX && body->insts.items[i].dtype == DT_BOOL)
      weight += TEST - 1;
  return weight;
}

// The load's element is wanted again in other iterations of the consumer.
static bool repeated(const inline_ctx_t *ctx, const dt_inst_t *load, uint32_t rank) {
  const dt_sym_t *lists[2] = {ctx->consumer->vars, ctx->stage->vars};
  const uint32_t counts[2] = {ctx->consumer->n_loops, ctx->stage->n_loops};
  for (int list = 0; list < 2; list++)
    for (uint32_t v = 0; v < counts[list]; v++)
      if (!dt__index_uses(ctx->program, load->index, rank, lists[list][v]))
        return true;
  return overlapping(ctx, load, rank);
}

// What instruction `at` is the bits of, be it of another dtype.
static const dt_inst_t *plain(const dt_stage_t *body, uint32_t at) {
  while (body->insts.items[at].kind == DT_INST_BITS)
    at = body->insts.items[at].args[0];
  return &body->insts.items[at];
}

// One of two elements in memory is taken: a row of a cache is new, the others are old. The copy
// that this saves is as long as the cache.
static bool chooses(const dt_stage_t *body, uint32_t full) {
  const dt_inst_t *made = plain(body, body->stores.items[0].value);
  uint32_t other = DT_NO_INST;
  if (made->kind == DT_INST_LOAD && made->mask != DT_NO_INST)
    other = made->args[0];
  if (made->kind == DT_INST_SCALAR && made->op == DT_SCALAR_where && full <= 1)
    other = made->args[2]; // what makes the row of few elements is done here, too
  return other != DT_NO_INST && plain(body, other)->kind == DT_INST_LOAD;
}

// What is made of one byte alone, and takes several: integers of 8 bits as numbers.
static bool widens_byte(const dt_stage_t *body, uint32_t cost, const dt_buffer_t *made) {
  if (cost > WIDER_COST || dt_dtype_size(made->dtype) < 4 || dt__stage_loads(body) != 1)
    return false;
  for (uint32_t i = 0; i < body->insts.len; i++)
    if (dt__inst_reads(&body->insts.items[i]).id)
      return body->insts.items[i].kind == DT_INST_LOAD &&
             dt_dtype_size(body->insts.items[i].dtype) == 1;
  return false;
}

// So little is done to what lies in memory anyway that every user may do it again.
static bool is_trifle(const inline_ctx_t *ctx, const dt_stage_t *body, uint32_t cost,
                      uint32_t full) {
  if (cost <= CHOICE_COST && chooses(body, full))
    return true;
  if (dt__stage_loads(body) > 1 || cost > ctx->repeated_cost)
    return false;
  for (uint32_t i = 0; cost > 1 && i < body->insts.len; i++) {
    dt_buffer_id_t buffer = dt__inst_reads(&body->insts.items[i]);
    if (buffer.id) {
      dt_buffer_kind_t kind = dt__program_buffer(ctx->program, buffer)->kind;
      return kind == DT_BUFFER_INPUT || kind == DT_BUFFER_CONSTANT;
    }
  }
  return true;
}

// An index is a quotient: neighbours read the same element.
static bool repeats_elements(const dt_program_t *program, const dt_inst_t *load) {
  for (uint32_t d = 0; d < dt__program_buffer(program, load->buffer)->rank; d++)
    if (dt__sym_view(program->env, load->index[d]).op == DT_SYM_FLOORDIV)
      return true;
  return false;
}

// Constants in another order, or some of them several times: the copy is made once.
static bool orders_constants(const inline_ctx_t *ctx, const dt_stage_t *body,
                             const dt_buffer_t *buffer) {
  bool copies = buffer->layout != NULL;
  for (uint32_t i = 0; i < body->insts.len; i++) {
    const dt_inst_t *inst = &body->insts.items[i];
    dt_buffer_id_t read = dt__inst_reads(inst);
    if (read.id && dt__program_buffer(ctx->program, read)->kind != DT_BUFFER_CONSTANT)
      return false;
    copies |=
        inst->kind == DT_INST_LOAD && body->insts.len == 1 && repeats_elements(ctx->program, inst);
  }
  return ctx->keeps_orders && copies;
}

static const char *refusal(const inline_ctx_t *ctx, const dt_stage_t *into,
                           const dt_kernel_t *producer, const dt_inst_t *load) {
  dt_program_t *program = ctx->program;
  const dt_buffer_t *buffer = dt__program_buffer(program, load->buffer);
  const dt_stage_t *body = &producer->stages.items[0];
  uint32_t b = load->buffer.id - 1;
  if (load->mask != DT_NO_INST && has_bind(body))
    return "a checked index under a mask";
  if (ctx->weight + weight_of(body) > MAX_BODY || into->insts.len > MAX_BODY)
    return "the body would grow too large";
  if (orders_constants(ctx, body, buffer))
    return "constants are put in order once";
  uint32_t cost = dt__stage_cost(body), full = full_loads(program, producer);
  if (overlapping(ctx, load, buffer->rank) && tests_indices(body))
    return "windows would ask for the padding again and again";
  if (is_trifle(ctx, body, cost, full) ||
      (!dt__buffer_visible(buffer) && ctx->keeps_orders && widens_byte(body, cost, buffer)))
    return NULL;
  if (cost > SCALAR_COST && ctx->in_order)
    return "its user's loops run in order";
  bool again = repeated(ctx, load, buffer->rank);
  if (!again && ctx->access.n_loads[b] == 1 && !dt__buffer_visible(buffer))
    return NULL;
  if (!again && cost <= 4 && full <= 1)
    return NULL;
  return again ? "it would be computed again in every iteration"
               : "it is dear and has several users";
}

static dt_status_t answer_load(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                               uint32_t *out) {
  inline_ctx_t *ctx = user;
  dt_program_t *program = ctx->program;
  uint32_t b = load->buffer.id - 1;
  *out = DT_NO_INST;
  if (ctx->access.n_writers[b] != 1)
    return NULL;
  const dt_kernel_t *producer = &program->kernels.items[ctx->access.writer[b]];
  dt_sym_t at[DT_MAX_LOOPS];
  if (producer == ctx->consumer || !dt__kernel_is_map(program, producer) ||
      !dt__map_invert(program, producer, load, at))
    return NULL;
  const char *why = refusal(ctx, copy->into, producer, load);
  if (why) {
    DT_LOG(DT_LOG_FUSION, 2, "%s stays out of %s: %s", producer->name, ctx->consumer->name, why);
    return NULL;
  }
  DT_LOG(DT_LOG_FUSION, 2, "%s goes into %s", producer->name, ctx->consumer->name);
  dt_body_copy_t body = {.program = program,
                         .into = copy->into,
                         .from = &producer->stages.items[0],
                         .mask = load->mask};
  for (uint32_t v = 0; v < producer->n_loops; v++)
    DT_TRY(dt__body_rename(&body, producer->vars[v], at[v]));
  DT_TRY(dt__body_copy(&body));
  uint32_t value = body.map[body.from->stores.items[0].value];
  return dt__body_masked(program, copy->into, load, value, out);
}

static const char *joined_name(dt_program_t *program, const char *first, const char *second) {
  if (strstr(first, second) || strlen(first) + strlen(second) > 96)
    return first;
  return dt__arena_printf(program->arena, "%s_%s", second, first);
}

static dt_status_t inline_stage(inline_ctx_t *ctx, dt_kernel_t *kernel, dt_stage_t *stage) {
  dt_program_t *program = ctx->program;
  dt_stage_t before = *stage, fresh;
  dt__stage_start(&fresh, &before);
  ctx->consumer = kernel;
  ctx->stage = &before;
  ctx->weight = weight_of(&before);
  dt_body_copy_t copy = {.program = program,
                         .into = &fresh,
                         .from = &before,
                         .mask = DT_NO_INST,
                         .hook = answer_load,
                         .user = ctx};
  DT_TRY(dt__body_copy(&copy));
  DT_TRY(dt__body_copy_results(&copy));
  for (uint32_t i = 0; i < before.insts.len; i++) {
    const dt_inst_t *load = &before.insts.items[i];
    const dt_inst_t *now = &fresh.insts.items[copy.map[i]];
    if (load->kind == DT_INST_LOAD && dt__inst_reads(now).id != load->buffer.id)
      kernel->name =
          joined_name(program, kernel->name,
                      program->kernels.items[ctx->access.writer[load->buffer.id - 1]].name);
    if (!kernel->name)
      return DT_NO_MEMORY();
  }
  *stage = fresh;
  return NULL;
}

static dt_status_t inline_kernel(inline_ctx_t *ctx, dt_kernel_t *kernel) {
  if (dt__kernel_updates(ctx->program, kernel))
    return NULL; // what it reads must not be what it writes
  ctx->in_order = dt__kernel_in_order(kernel);
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    if (s > 0 || kernel->schedules.len == 0) // the operands of a template are memory by contract
      DT_TRY(inline_stage(ctx, kernel, &kernel->stages.items[s]));
  return NULL;
}

// ---- Users that went into others ----------------------------------------------------------------------
// What x * sigmoid(x) makes of a dear x has two users, until one of them goes into the other.

// Nobody reads what the kernel makes.
static bool is_idle(const inline_ctx_t *ctx, const dt_kernel_t *kernel) {
  if (!dt__kernel_is_map(ctx->program, kernel) || has_bind(&kernel->stages.items[0]))
    return false;
  uint32_t b = kernel->stages.items[0].stores.items[0].buffer.id - 1;
  return !dt__buffer_visible(&ctx->program->buffers.items[b]) && ctx->access.n_loads[b] == 0;
}

static void forget_loads(inline_ctx_t *ctx, const dt_stage_t *stage) {
  for (uint32_t i = 0; i < stage->insts.len; i++) {
    dt_buffer_id_t read = dt__inst_reads(&stage->insts.items[i]);
    if (read.id)
      ctx->access.n_loads[read.id - 1]--;
  }
}

static bool reads_alone(const inline_ctx_t *ctx, const dt_kernel_t *kernel,
                        const uint32_t *before) {
  for (uint32_t s = 0; s < kernel->stages.len; s++)
    for (uint32_t i = 0; i < kernel->stages.items[s].insts.len; i++) {
      dt_buffer_id_t read = dt__inst_reads(&kernel->stages.items[s].insts.items[i]);
      if (read.id && before[read.id - 1] > 1 && ctx->access.n_loads[read.id - 1] == 1)
        return true;
    }
  return false;
}

// Kernels that are the only users left of something have it now.
static dt_status_t inline_again(inline_ctx_t *ctx) {
  dt_program_t *program = ctx->program;
  const uint32_t *before = ctx->access.n_loads;
  DT_TRY(dt__access_build(program, &ctx->access));
  bool *idle = DT_ARENA_ARRAY(program->arena, bool, program->kernels.len + 1);
  if (!idle)
    return DT_NO_MEMORY();
  for (uint32_t k = program->kernels.len; k-- > 0;) {
    idle[k] = is_idle(ctx, &program->kernels.items[k]);
    if (idle[k])
      forget_loads(ctx, &program->kernels.items[k].stages.items[0]);
  }
  for (uint32_t k = 0; k < program->kernels.len; k++)
    if (!idle[k] && reads_alone(ctx, &program->kernels.items[k], before))
      DT_TRY(inline_kernel(ctx, &program->kernels.items[k]));
  return NULL;
}

dt_status_t dt__fuse_inline(dt_program_t *program, const dt_target_t *target) {
  inline_ctx_t ctx = {.program = program,
                      .keeps_orders = !dt__target_has_teams(target),
                      .repeated_cost = target->repeated_cost ? target->repeated_cost : 1};
  DT_TRY(dt__access_build(program, &ctx.access));
  for (uint32_t k = 0; k < program->kernels.len; k++)
    DT_TRY(inline_kernel(&ctx, &program->kernels.items[k]));
  DT_TRY(inline_again(&ctx));
  return dt__symenv_status(program->env);
}

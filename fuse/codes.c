// SPDX-License-Identifier: Apache-2.0
// Weights of few bits as operands of matrix products. Where B is made of constants, as codes of 8
// bits or less, minus a zero, times a scale that a block of k shares, panels hold codes, and the
// product's body says how elements are made of them: micro-kernels read the bytes that the codes
// have (lower/loop/schedule.h has the layout). What makes B may be several kernels, which are read
// into one body first. Where A is made of integers and a scale for each block, too, because the
// model quantises it, integers are multiplied.
//
//   B[k, n] = (codes[n, k] - zeros[n, k / block]) * scales[n, k / block]
//   A[m, k] = integers[m, k] * scales[m, k / block]
#include "fuse/codes.h"

#include "fuse/body.h"
#include "fuse/fuse.h"
#include "fuse/prune.h"
#include "runtime/base/dtype.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

#define MOST_INSTS 96    // that make an element of B
#define MOST_SCALED 8    // of A
#define MOST_BLOCK 65536 // elements of k
#define LEAST_BLOCK 16   // the largest group of codes
#define LEAST_DEPTH 32   // shorter sums are left as they are
#define DOT_REGISTERS 6  // that products of integers need besides sums

typedef struct codes_t {
  dt_program_t *program;
  const dt_codes_ctx_t *ctx;
  const dt_contraction_t *c;
  dt_stage_t body;            // B's element at (k, n), of loads
  uint32_t code, zero, scale; // its instructions; `zero` may be DT_NO_INST: 0
  uint32_t bits;
  int64_t depth, block;
  dt_sym_t block_var, within; // k is block_var * block + within
  bool dots;
  dt_inst_t a, a_scale; // loads
} codes_t;

static dt_status_t add(codes_t *q, dt_stage_t *stage, dt_inst_t inst, uint32_t *out) {
  return dt__stage_add(q->program, stage, &inst, out);
}

// ---- Reading what makes B -----------------------------------------------------------------------------
static const dt_kernel_t *maker_of(const dt_program_t *program, const dt_access_t *access,
                                   dt_buffer_id_t id) {
  const dt_buffer_t *buffer = dt__program_buffer(program, id);
  if (buffer->kind != DT_BUFFER_TEMP || access->n_writers[id.id - 1] != 1)
    return NULL;
  const dt_kernel_t *kernel = &program->kernels.items[access->writer[id.id - 1]];
  return dt__kernel_is_map(program, kernel) && !kernel->schedules.len ? kernel : NULL;
}

static dt_status_t read_maker(dt_body_copy_t *copy, const dt_inst_t *load, uint32_t most,
                              uint32_t *out) {
  const codes_t *q = copy->user;
  dt_program_t *program = q->program;
  const dt_kernel_t *maker = maker_of(program, q->ctx->access, load->buffer);
  dt_sym_t at[DT_MAX_LOOPS];
  *out = DT_NO_INST;
  if (!maker || copy->into->insts.len + maker->stages.items[0].insts.len > most ||
      !dt__map_invert(program, maker, load, at))
    return NULL;
  dt_body_copy_t body = {.program = program,
                         .into = copy->into,
                         .from = &maker->stages.items[0],
                         .mask = load->mask,
                         .hook = copy->hook,
                         .user = copy->user};
  for (uint32_t v = 0; v < maker->n_loops; v++)
    DT_TRY(dt__body_rename(&body, maker->vars[v], at[v]));
  DT_TRY(dt__body_copy(&body));
  uint32_t value = body.map[body.from->stores.items[0].value];
  return dt__body_masked(program, copy->into, load, value, out);
}

static dt_status_t read_into(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                             uint32_t *out) {
  (void)user;
  return read_maker(copy, load, MOST_INSTS, out);
}

static dt_status_t read_b(codes_t *q, uint32_t *out_value) {
  const dt_stage_t *stage = q->c->stage;
  dt_stage_t from = {.insts = {.items = stage->insts.items, .len = q->c->b_factor + 1}};
  dt_stage_t only = {0};
  // The other operand's instructions stay behind.
  dt_body_copy_t copy = {.program = q->program, .into = &only, .from = &from, .mask = DT_NO_INST};
  DT_TRY(dt__body_copy(&copy));
  uint32_t root = copy.map[q->c->b_factor];
  dt_store_t keep = {.buffer = only.insts.items[copy.map[q->c->b]].buffer,
                     .index = only.insts.items[copy.map[q->c->b]].index,
                     .value = root,
                     .mask = DT_NO_INST};
  if (!DT_VEC_PUSH(q->program->arena, &only.stores, keep))
    return DT_NO_MEMORY();
  DT_TRY(dt__prune_stage(q->program, &only));
  dt_body_copy_t whole = {.program = q->program,
                          .into = &q->body,
                          .from = &only,
                          .mask = DT_NO_INST,
                          .hook = read_into,
                          .user = q};
  DT_TRY(dt__body_copy(&whole));
  *out_value = whole.map[only.stores.items[0].value];
  return NULL;
}

// ---- Its form -----------------------------------------------------------------------------------------
static const dt_inst_t *inst_of(const codes_t *q, uint32_t id) { return &q->body.insts.items[id]; }

static bool is_op(const dt_inst_t *inst, dt_scalar_op_t op) {
  return inst->kind == DT_INST_SCALAR && inst->op == op && inst->dtype == DT_F32;
}

// Integers of a byte without a sign, as a float.
static bool is_code(const codes_t *q, uint32_t id) {
  const dt_inst_t *inst = inst_of(q, id);
  return inst->kind == DT_INST_CAST && inst->dtype == DT_F32 &&
         inst_of(q, inst->args[0])->dtype == DT_U8;
}

// code, or code - zero
static bool is_centred(codes_t *q, uint32_t id) {
  const dt_inst_t *inst = inst_of(q, id);
  bool less = is_op(inst, DT_SCALAR_sub);
  uint32_t code = less ? inst->args[0] : id;
  if (!is_code(q, code))
    return false;
  q->code = inst_of(q, code)->args[0];
  q->zero = less ? inst->args[1] : DT_NO_INST;
  return true;
}

static bool is_decoded(codes_t *q, uint32_t id) {
  const dt_inst_t *inst = inst_of(q, id);
  if (!is_op(inst, DT_SCALAR_mul))
    return false;
  for (uint32_t k = 0; k < 2; k++)
    if (is_centred(q, inst->args[k])) {
      q->scale = inst->args[1 - k];
      return true;
    }
  return false;
}

// How many bits a code has at most, of those that panels hold.
static uint32_t bits_of(const codes_t *q) {
  const dt_inst_t *inst = inst_of(q, q->code);
  if (inst->kind == DT_INST_SCALAR && inst->op == DT_SCALAR_bit_and)
    for (uint32_t k = 0; k < 2; k++) {
      const dt_inst_t *mask = inst_of(q, inst->args[k]);
      if (mask->kind == DT_INST_CONST && (mask->value.i == 3 || mask->value.i == 15))
        return mask->value.i == 3 ? 2 : 4;
    }
  return 8;
}

// ---- Blocks -------------------------------------------------------------------------------------------
// The expression does not move within a block.
static bool stays(codes_t *q, dt_sym_t e) {
  dt_symenv_t *env = q->program->env;
  if (!dt__sym_depends(env, e, q->c->k))
    return true;
  dt_sym_t k = dt__sym_mul(env, q->block_var, dt__sym_const(env, q->block));
  k = dt__sym_add(env, k, q->within);
  return !dt__sym_depends(env, dt__sym_subst(env, e, &q->c->k, &k, 1), q->within);
}

static bool load_stays(codes_t *q, const dt_inst_t *load) {
  uint32_t rank = dt__program_buffer(q->program, load->buffer)->rank;
  for (uint32_t d = 0; d < rank; d++)
    if (!stays(q, load->index[d]))
      return false;
  return true;
}

static bool inst_stays(codes_t *q, uint32_t id) {
  const dt_inst_t *inst = id == DT_NO_INST ? NULL : inst_of(q, id);
  if (!inst)
    return true;
  if (inst->kind == DT_INST_LOAD && !load_stays(q, inst))
    return false;
  if (inst->kind == DT_INST_INDEX && !stays(q, inst->sym))
    return false;
  for (uint32_t k = 0; k < 3; k++)
    if (!inst_stays(q, inst->args[k]))
      return false;
  return inst_stays(q, inst->mask);
}

// Loads, and what is computed of them and of places, but no row and nothing bound by data.
static bool is_simple(const codes_t *q) {
  for (uint32_t i = 0; i < q->body.insts.len; i++)
    switch (q->body.insts.items[i].kind) {
    case DT_INST_CONST:
    case DT_INST_INDEX:
    case DT_INST_LOAD:
    case DT_INST_SCALAR:
    case DT_INST_CAST:
    case DT_INST_BITS:
      continue;
    default:
      return false;
    }
  return true;
}

// The longest blocks in which scales and zeros stay the same; false: there are none.
static bool find_block(codes_t *q) {
  dt_symenv_t *env = q->program->env;
  for (q->block = MOST_BLOCK; q->block >= LEAST_BLOCK; q->block /= 2) {
    int64_t blocks = (q->depth + q->block - 1) / q->block;
    q->block_var = dt__sym_new_loop(env, dt__sym_const(env, blocks));
    q->within = dt__sym_new_loop(env, dt__sym_const(env, q->block));
    if (inst_stays(q, q->scale) && inst_stays(q, q->zero) &&
        (!q->dots || load_stays(q, &q->a_scale)))
      return true;
  }
  return false;
}

// ---- The other operand --------------------------------------------------------------------------------
static bool is_integers(const dt_stage_t *body, uint32_t id) {
  const dt_inst_t *cast = &body->insts.items[id];
  if (cast->kind != DT_INST_CAST || cast->dtype != DT_F32)
    return false;
  const dt_inst_t *load = &body->insts.items[cast->args[0]];
  return load->kind == DT_INST_LOAD && load->dtype == DT_I8 && load->mask == DT_NO_INST;
}

static bool is_plain_float(const dt_stage_t *body, uint32_t id) {
  const dt_inst_t *load = &body->insts.items[id];
  return load->kind == DT_INST_LOAD && load->dtype == DT_F32 && load->mask == DT_NO_INST;
}

// Neighbours along k, and a step in the loops of rows is any.
static bool rows_lie_plainly(codes_t *q, const dt_inst_t *load) {
  dt_program_t *program = q->program;
  dt_sym_t offset = dt__buffer_offset(program, load->buffer, load->index), coef, rest;
  int64_t step = 0;
  if (!dt__sym_linear(program->env, offset, q->c->k, &coef, &rest) ||
      !dt__sym_is_const(program->env, coef, &step) || step != 1)
    return false;
  for (uint32_t v = 0; v + 1 < q->c->kernel->n_loops; v++)
    if (!dt__sym_linear(program->env, rest, q->c->kernel->vars[v], &coef, &rest))
      return false;
  return true;
}

// Makers of integers as floats, and the product of those with scales, but nothing that makes these.
static dt_status_t read_scaled(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                               uint32_t *out) {
  const codes_t *q = user;
  const dt_kernel_t *maker = maker_of(q->program, q->ctx->access, load->buffer);
  *out = DT_NO_INST;
  if (!maker || load->dtype != DT_F32 || load->mask != DT_NO_INST)
    return NULL;
  const dt_stage_t *body = &maker->stages.items[0];
  const dt_inst_t *made = &body->insts.items[body->stores.items[0].value];
  bool wanted = is_integers(body, body->stores.items[0].value) || is_op(made, DT_SCALAR_mul);
  return wanted ? read_maker(copy, load, MOST_SCALED, out) : NULL;
}

// A's factor as integers times scales, whose loads q->a and q->a_scale become.
static dt_status_t find_integers(codes_t *q, bool *out) {
  const dt_stage_t *stage = q->c->stage;
  dt_stage_t from = {0}, body = {0};
  uint32_t load = 0;
  *out = false;
  DT_TRY(add(q, &from, stage->insts.items[q->c->a], &load));
  dt_body_copy_t copy = {.program = q->program,
                         .into = &body,
                         .from = &from,
                         .mask = DT_NO_INST,
                         .hook = read_scaled,
                         .user = q};
  DT_TRY(dt__body_copy(&copy));
  const dt_inst_t *product = &body.insts.items[copy.map[load]];
  for (uint32_t k = 0; k < 2 && is_op(product, DT_SCALAR_mul) && !*out; k++) {
    uint32_t integers = product->args[k], scale = product->args[1 - k];
    if (!is_integers(&body, integers) || !is_plain_float(&body, scale))
      continue;
    q->a = body.insts.items[body.insts.items[integers].args[0]];
    q->a_scale = body.insts.items[scale];
    *out = rows_lie_plainly(q, &q->a);
  }
  return NULL;
}

// ---- Panels -------------------------------------------------------------------------------------------
typedef struct panel_t {
  dt_kernel_t *out;
  dt_stage_t stage;
  uint32_t mask; // columns, and elements of k, that there are
  dt_sym_t vars[4];
} panel_t;

static dt_status_t open_panel(codes_t *q, panel_t *p, const char *name, uint32_t n,
                              const int64_t *extents) {
  dt_symenv_t *env = q->program->env;
  memset(p->out, 0, sizeof(*p->out));
  p->out->name = name;
  p->out->n_loops = n;
  for (uint32_t v = 0; v < n; v++) {
    p->out->extents[v] = dt__sym_const(env, extents[v]);
    p->out->vars[v] = p->vars[v] = dt__sym_new_loop(env, p->out->extents[v]);
  }
  return dt__symenv_status(env);
}

static dt_inst_t scalar(dt_scalar_op_t op, dt_dtype_t dtype, uint32_t a, uint32_t b) {
  return (dt_inst_t){.kind = DT_INST_SCALAR,
                     .dtype = dtype,
                     .op = op,
                     .args = {a, b, DT_NO_INST},
                     .mask = DT_NO_INST};
}

static dt_inst_t number(dt_dtype_t dtype, int64_t value) {
  return (dt_inst_t){.kind = DT_INST_CONST,
                     .dtype = dtype,
                     .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                     .mask = DT_NO_INST,
                     .value = {.i = value}};
}

static dt_inst_t place(dt_dtype_t dtype, dt_sym_t sym) {
  return (dt_inst_t){.kind = DT_INST_INDEX,
                     .dtype = dtype,
                     .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                     .mask = DT_NO_INST,
                     .sym = sym};
}

// What B's instruction `what` is in column n and at k, where there is one; else what loads give
// that read nothing.
static dt_status_t element(codes_t *q, panel_t *p, uint32_t what, dt_sym_t n, dt_sym_t k,
                           uint32_t *out) {
  dt_symenv_t *env = q->program->env;
  dt_sym_t inside =
      dt__sym_and(env, dt__sym_lt(env, n, q->c->extent_n), dt__sym_lt(env, k, q->c->extent_k));
  dt_stage_t from = {.insts = {.items = q->body.insts.items, .len = what + 1}};
  dt_body_copy_t copy = {
      .program = q->program, .into = &p->stage, .from = &from, .mask = DT_NO_INST};
  if (!dt__sym_known_true(env, inside))
    DT_TRY(add(q, &p->stage, place(DT_BOOL, inside), &copy.mask));
  DT_TRY(dt__body_rename(&copy, q->c->n, n));
  DT_TRY(dt__body_rename(&copy, q->c->k, k));
  DT_TRY(dt__body_copy(&copy));
  *out = copy.map[what];
  p->mask = copy.mask;
  return NULL;
}

static dt_status_t close_panel(codes_t *q, panel_t *p, uint32_t value, dt_dtype_t dtype,
                               dt_buffer_id_t *out) {
  dt_program_t *program = q->program;
  dt_buffer_t buffer = {.kind = DT_BUFFER_TEMP, .dtype = dtype, .rank = p->out->n_loops};
  dt_sym_t *index = DT_ARENA_ARRAY(program->arena, dt_sym_t, buffer.rank);
  if (!index)
    return DT_NO_MEMORY();
  for (uint32_t d = 0; d < buffer.rank; d++) {
    buffer.sizes[d] = p->out->extents[d];
    index[d] = p->vars[d];
  }
  DT_TRY(dt__program_add_buffer(program, &buffer, out));
  dt_store_t store = {.buffer = *out, .index = index, .value = value, .mask = DT_NO_INST};
  if (!DT_VEC_PUSH(program->arena, &p->stage.stores, store))
    return DT_NO_MEMORY();
  DT_TRY(dt__prune_stage(program, &p->stage));
  return DT_VEC_PUSH(program->arena, &p->out->stages, p->stage) ? NULL : DT_NO_MEMORY();
}

static dt_sym_t column(codes_t *q, dt_sym_t panel, dt_sym_t within) {
  dt_symenv_t *env = q->program->env;
  dt_sym_t width = dt__sym_const(env, q->ctx->width);
  return dt__sym_add(env, dt__sym_mul(env, panel, width), within);
}

static int64_t panels(const codes_t *q) {
  int64_t n = 0;
  (void)dt__sym_is_const(q->program->env, q->c->extent_n, &n);
  return (n + q->ctx->width - 1) / q->ctx->width;
}

static int64_t group(const codes_t *q) { return 32 / q->bits; }

// Codes outside of the matrix are 0, whatever is computed of what loads give there.
static dt_status_t masked_code(codes_t *q, panel_t *p, uint32_t *code) {
  uint32_t zero = 0;
  if (p->mask == DT_NO_INST)
    return NULL;
  DT_TRY(add(q, &p->stage, number(DT_U8, 0), &zero));
  dt_inst_t where = scalar(DT_SCALAR_where, DT_U8, p->mask, *code);
  where.args[2] = zero;
  return add(q, &p->stage, where, code);
}

// [panel, group of k, column, byte]
static dt_status_t pack_codes(codes_t *q, dt_kernel_t *out, dt_buffer_id_t *id) {
  dt_symenv_t *env = q->program->env;
  int64_t segment = dt__matmul_segment((uint32_t)q->block);
  int64_t extents[] = {panels(q), (q->depth + segment - 1) / segment * segment / group(q),
                       q->ctx->width, 4};
  panel_t p = {.out = out};
  uint32_t byte = 0;
  DT_TRY(open_panel(q, &p, "pack", 4, extents));
  dt_sym_t n = column(q, p.vars[0], p.vars[2]);
  for (uint32_t part = 0; part < 8 / q->bits; part++) {
    dt_sym_t k = dt__sym_mul(env, p.vars[1], dt__sym_const(env, group(q)));
    k = dt__sym_add(env, dt__sym_add(env, k, p.vars[3]), dt__sym_const(env, 4 * part));
    uint32_t code = 0, by = 0;
    DT_TRY(element(q, &p, q->code, n, k, &code));
    DT_TRY(masked_code(q, &p, &code));
    if (part == 0) {
      byte = code;
      continue;
    }
    DT_TRY(add(q, &p.stage, number(DT_U8, (int64_t)part * q->bits), &by));
    DT_TRY(add(q, &p.stage, scalar(DT_SCALAR_shift_left, DT_U8, code, by), &code));
    DT_TRY(add(q, &p.stage, scalar(DT_SCALAR_bit_or, DT_U8, byte, code), &byte));
  }
  return close_panel(q, &p, byte, DT_U8, id);
}

// [panel, block, column] of B's instruction `what`.
static dt_status_t pack_factors(codes_t *q, uint32_t what, dt_dtype_t dtype, dt_kernel_t *out,
                                dt_buffer_id_t *id) {
  dt_symenv_t *env = q->program->env;
  int64_t extents[] = {panels(q), (q->depth + q->block - 1) / q->block, q->ctx->width};
  panel_t p = {.out = out};
  uint32_t value = 0;
  DT_TRY(open_panel(q, &p, dtype == DT_U8 ? "zeros" : "scales", 3, extents));
  dt_sym_t k = dt__sym_mul(env, p.vars[1], dt__sym_const(env, q->block));
  DT_TRY(element(q, &p, what, column(q, p.vars[0], p.vars[2]), k, &value));
  return close_panel(q, &p, value, dtype, id);
}

// ---- The product --------------------------------------------------------------------------------------
static dt_status_t load_from(codes_t *q, dt_stage_t *stage, dt_buffer_id_t buffer, dt_dtype_t dtype,
                             const dt_sym_t *index, uint32_t *out) {
  dt_inst_t load = {.kind = DT_INST_LOAD,
                    .dtype = dtype,
                    .args = {DT_NO_INST, DT_NO_INST, DT_NO_INST},
                    .mask = DT_NO_INST,
                    .buffer = buffer,
                    .index = index};
  return add(q, stage, load, out);
}

static dt_status_t load_factors(codes_t *q, dt_stage_t *stage, dt_buffer_id_t buffer,
                                dt_dtype_t dtype, uint32_t *out) {
  dt_symenv_t *env = q->program->env;
  dt_sym_t width = dt__sym_const(env, q->ctx->width);
  const dt_sym_t index[] = {dt__sym_floordiv(env, q->c->n, width),
                            dt__sym_floordiv(env, q->c->k, dt__sym_const(env, q->block)),
                            dt__sym_mod(env, q->c->n, width)};
  return load_from(q, stage, buffer, dtype, index, out);
}

static dt_inst_t cast_to_float(uint32_t from) {
  return (dt_inst_t){.kind = DT_INST_CAST,
                     .dtype = DT_F32,
                     .args = {from, DT_NO_INST, DT_NO_INST},
                     .mask = DT_NO_INST};
}

// The code of (k, n) as a float; *out_load: the byte.
static dt_status_t load_code(codes_t *q, dt_stage_t *stage, dt_buffer_id_t buffer,
                             uint32_t *out_load, uint32_t *out) {
  dt_symenv_t *env = q->program->env;
  dt_sym_t width = dt__sym_const(env, q->ctx->width), g = dt__sym_const(env, group(q));
  dt_sym_t four = dt__sym_const(env, 4), in = dt__sym_mod(env, q->c->k, g);
  const dt_sym_t index[] = {dt__sym_floordiv(env, q->c->n, width),
                            dt__sym_floordiv(env, q->c->k, g), dt__sym_mod(env, q->c->n, width),
                            dt__sym_mod(env, q->c->k, four)};
  DT_TRY(load_from(q, stage, buffer, DT_U8, index, out_load));
  uint32_t code = *out_load, by = 0, mask = 0;
  if (q->bits < 8) {
    dt_sym_t above = dt__sym_mul(env, dt__sym_floordiv(env, in, four), dt__sym_const(env, q->bits));
    DT_TRY(add(q, stage, place(DT_U8, above), &by));
    DT_TRY(add(q, stage, scalar(DT_SCALAR_shift_right, DT_U8, code, by), &code));
    DT_TRY(add(q, stage, number(DT_U8, (1 << q->bits) - 1), &mask));
    DT_TRY(add(q, stage, scalar(DT_SCALAR_bit_and, DT_U8, code, mask), &code));
  }
  return add(q, stage, cast_to_float(code), out);
}

// Zeros as a float: a literal, codes, or floats, packed into `kernel` where they are none.
static dt_status_t load_zeros(codes_t *q, dt_stage_t *stage, dt_kernel_t *before, uint32_t *n,
                              uint32_t *out) {
  dt_inst_t zero = number(DT_F32, 0);
  bool literal = q->zero == DT_NO_INST || inst_of(q, q->zero)->kind == DT_INST_CONST;
  bool codes = !literal && is_code(q, q->zero);
  dt_buffer_id_t buffer;
  if (literal && q->zero != DT_NO_INST)
    zero.value = inst_of(q, q->zero)->value;
  if (literal)
    return add(q, stage, zero, out);
  dt_dtype_t dtype = codes ? DT_U8 : DT_F32;
  uint32_t what = codes ? inst_of(q, q->zero)->args[0] : q->zero;
  DT_TRY(pack_factors(q, what, dtype, &before[(*n)++], &buffer));
  DT_TRY(load_factors(q, stage, buffer, dtype, out));
  return codes ? add(q, stage, cast_to_float(*out), out) : NULL;
}

static dt_status_t load_a(codes_t *q, dt_stage_t *stage, uint32_t *out_load, uint32_t *out) {
  uint32_t scale = 0;
  if (!q->dots) {
    DT_TRY(add(q, stage, q->c->stage->insts.items[q->c->a], out_load));
    *out = *out_load;
    return NULL;
  }
  DT_TRY(add(q, stage, q->a, out_load));
  DT_TRY(add(q, stage, cast_to_float(*out_load), out));
  DT_TRY(add(q, stage, q->a_scale, &scale));
  return add(q, stage, scalar(DT_SCALAR_mul, DT_F32, *out, scale), out);
}

static dt_status_t rebuild(codes_t *q, dt_matmul_t *matmul, dt_kernel_t *before,
                           uint32_t *n_before) {
  dt_stage_t *stage = q->c->stage, fresh;
  dt_buffer_id_t codes, scales;
  uint32_t a = 0, b = 0, zeros = 0, scale = 0;
  dt__stage_start(&fresh, stage);
  dt_reduction_t sum = stage->reductions.items[0];
  DT_TRY(pack_codes(q, &before[(*n_before)++], &codes));
  DT_TRY(pack_factors(q, q->scale, DT_F32, &before[(*n_before)++], &scales));
  DT_TRY(load_a(q, &fresh, &matmul->a, &a));
  DT_TRY(load_code(q, &fresh, codes, &matmul->b, &b));
  DT_TRY(load_zeros(q, &fresh, before, n_before, &zeros));
  DT_TRY(add(q, &fresh, scalar(DT_SCALAR_sub, DT_F32, b, zeros), &b));
  DT_TRY(load_factors(q, &fresh, scales, DT_F32, &scale));
  DT_TRY(add(q, &fresh, scalar(DT_SCALAR_mul, DT_F32, b, scale), &b));
  DT_TRY(add(q, &fresh, scalar(DT_SCALAR_mul, DT_F32, a, b), &sum.value));
  if (!DT_VEC_PUSH(q->program->arena, &fresh.reductions, sum))
    return DT_NO_MEMORY();
  *stage = fresh;
  matmul->bits = q->bits;
  matmul->block = (uint32_t)q->block;
  matmul->dots = q->dots;
  return NULL;
}

// The tile of integers: sums of a segment lie beside those of all.
static void set_tile(const codes_t *q, dt_matmul_t *matmul) {
  const dt_target_t *target = q->ctx->target;
  uint32_t lanes = target->vector_bytes / 4, vectors = matmul->width / lanes;
  uint32_t groups = matmul->tile_rows / matmul->rows;
  if (!q->dots)
    return;
  matmul->rows = (target->vector_registers - DOT_REGISTERS) / (2 * vectors);
  matmul->tile_rows = groups * matmul->rows;
}

// Why B's panels hold no codes; NULL: they may.
static const char *refusal(codes_t *q) {
  const dt_contraction_t *c = q->c;
  const dt_inst_t *b = &c->stage->insts.items[c->b];
  dt_symenv_t *env = q->program->env;
  uint32_t rank = dt__program_buffer(q->program, b->buffer)->rank;
  for (uint32_t v = 0; v + 1 < c->kernel->n_loops; v++)
    if (dt__index_uses(q->program, b->index, rank, c->kernel->vars[v]))
      return "weights differ by batch";
  if (c->stage->n_loops != 1 || !dt__sym_is_const(env, c->extent_k, &q->depth) ||
      !dt__sym_is_const(env, c->extent_n, NULL))
    return "its sizes are not literal";
  return q->depth < LEAST_DEPTH ? "its sums are short" : NULL;
}

// ---- Halves -------------------------------------------------------------------------------------------
// B's element is a half as a float.
static bool is_half(const codes_t *q, uint32_t id) {
  const dt_inst_t *cast = inst_of(q, id);
  const dt_inst_t *load = cast->kind == DT_INST_CAST ? inst_of(q, cast->args[0]) : cast;
  return load != cast && cast->dtype == DT_F32 && load->kind == DT_INST_LOAD &&
         load->mask == DT_NO_INST && dt__dtype_is_half(load->dtype);
}

static dt_status_t read_cast(dt_body_copy_t *copy, const dt_inst_t *load, void *user,
                             uint32_t *out) {
  (void)user;
  *out = DT_NO_INST;
  return load->dtype == DT_F32 ? read_maker(copy, load, MOST_SCALED, out) : NULL;
}

dt_status_t dt__read_halves(dt_program_t *program, const dt_access_t *access, dt_contraction_t *c) {
  const dt_codes_ctx_t ctx = {.access = access};
  codes_t q = {.program = program, .ctx = &ctx, .c = c};
  const dt_inst_t *insts = c->stage->insts.items;
  uint32_t load = 0, a = 0, half = 0, b = 0;
  dt_stage_t from = {0}, fresh;
  if (c->b != c->b_factor || insts[c->b].dtype != DT_F32 || insts[c->b].mask != DT_NO_INST)
    return NULL;
  DT_TRY(add(&q, &from, insts[c->b], &load));
  dt_body_copy_t copy = {.program = program,
                         .into = &q.body,
                         .from = &from,
                         .mask = DT_NO_INST,
                         .hook = read_cast,
                         .user = &q};
  DT_TRY(dt__body_copy(&copy));
  if (!is_half(&q, copy.map[load]))
    return NULL;
  dt__stage_start(&fresh, c->stage);
  dt_reduction_t sum = c->stage->reductions.items[0];
  DT_TRY(add(&q, &fresh, insts[c->a], &a));
  bool widened = c->a_factor != c->a;
  c->a = a;
  if (widened) {
    dt_inst_t cast = insts[c->a_factor];
    cast.args[0] = a;
    DT_TRY(add(&q, &fresh, cast, &a));
  }
  DT_TRY(add(&q, &fresh, *inst_of(&q, inst_of(&q, copy.map[load])->args[0]), &half));
  DT_TRY(add(&q, &fresh, cast_to_float(half), &b));
  DT_TRY(add(&q, &fresh, scalar(DT_SCALAR_mul, DT_F32, a, b), &sum.value));
  if (!DT_VEC_PUSH(program->arena, &fresh.reductions, sum))
    return DT_NO_MEMORY();
  *c->stage = fresh;
  c->a_factor = a;
  c->b = half;
  c->b_factor = b;
  return dt__symenv_status(program->env);
}

// ---- Codes --------------------------------------------------------------------------------------------
dt_status_t dt__take_codes(dt_program_t *program, const dt_codes_ctx_t *ctx,
                           const dt_contraction_t *c, dt_matmul_t *matmul, dt_kernel_t *before,
                           uint32_t *n_before, bool *taken) {
  codes_t q = {.program = program, .ctx = ctx, .c = c};
  const dt_inst_t *insts = c->stage->insts.items;
  uint32_t root = 0;
  bool integers = false;
  *taken = false;
  if (insts[c->b_factor].dtype != DT_F32 || insts[c->b].mask != DT_NO_INST ||
      c->stage->reductions.items[0].dtype != DT_F32 || refusal(&q))
    return NULL;
  DT_TRY(read_b(&q, &root));
  if (!is_decoded(&q, root) || !is_simple(&q))
    return NULL;
  q.bits = bits_of(&q);
  if (ctx->target->dot_products && !ctx->target->strict_fp && c->a == c->a_factor)
    DT_TRY(find_integers(&q, &integers));
  q.dots = integers;
  bool good = (q.dots && find_block(&q));
  if (!good) {
    q.dots = false;
    good = c->a == c->a_factor && insts[c->a].dtype == DT_F32 &&
           rows_lie_plainly(&q, &insts[c->a]) && insts[c->a].mask == DT_NO_INST && find_block(&q);
  }
  DT_TRY(dt__symenv_status(program->env));
  if (!good)
    return NULL;
  DT_TRY(rebuild(&q, matmul, before, n_before));
  set_tile(&q, matmul);
  DT_LOG(DT_LOG_FUSION, 2, "%s reads weights of %u bits in blocks of %lld%s", c->kernel->name,
         q.bits, (long long)q.block, q.dots ? ", and multiplies integers" : "");
  *taken = true;
  return dt__symenv_status(program->env);
}

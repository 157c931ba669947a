// SPDX-License-Identifier: Apache-2.0
// Where vector accesses are aligned. The address of an access that moves by one element a lane is
//
//   address = base + element * (lane + c1 * v1 + c2 * v2 + … + rest)
//
// with loop and data variables v, and steps c that the sizes of the call give. It is aligned in
// every iteration if base, all steps and the rest are multiples of a whole vector, and lanes begin
// at multiples of one. Literals are tested here. One test at run time, the same for all threads,
// covers the other values.
#include "backend_llvm/emit/aligned.h"
#include "backend_llvm/emit/body.h"
#include "backend_llvm/emit/index.h"

// Steps and rest of one access: at most this many, or it counts as unaligned.
#define MOST_TERMS 16

typedef struct terms_t {
  dt_sym_t items[MOST_TERMS];
  uint32_t n;
} terms_t;

// Known only inside of the kernel.
static bool is_inner(const dt_body_t *k, uint32_t symbol) {
  dt_symbol_kind_t kind = dt__symbol_info(k->m->env, symbol).kind;
  return kind == DT_SYMBOL_LOOP || kind == DT_SYMBOL_DATA;
}

// The first symbol of `e` that only the kernel knows; false: none.
static bool inner_symbol(const dt_body_t *k, dt_sym_t e, uint32_t *out) {
  uint32_t symbols[64];
  uint32_t n = dt__sym_symbols(k->m->env, e, symbols, 64);
  for (uint32_t i = 0; i < n && i < 64; i++)
    if (is_inner(k, symbols[i])) {
      *out = symbols[i];
      return true;
    }
  return false;
}

static bool uses_inner(const dt_body_t *k, dt_sym_t e) {
  uint32_t ignored;
  return inner_symbol(k, e, &ignored);
}

static bool is_multiple(const dt_body_t *k, dt_sym_t e, uint32_t lanes, bool *known) {
  int64_t literal;
  *known = dt__sym_is_const(k->m->env, e, &literal);
  return *known && literal % (int64_t)lanes == 0;
}

// `term` must be a multiple of a vector; false when it never is.
static bool add_term(const dt_body_t *k, dt_sym_t term, uint32_t lanes, terms_t *out) {
  bool known;
  if (is_multiple(k, term, lanes, &known))
    return true;
  if (known || out->n == MOST_TERMS)
    return false;
  out->items[out->n++] = term;
  return true;
}

// An addend that changes inside of the kernel: the product of its factors that do not is the step.
static bool add_step(const dt_body_t *k, dt_sym_t addend, uint32_t lanes, terms_t *out) {
  dt_symenv_t *env = k->m->env;
  dt_sym_view_t view = dt__sym_view(env, addend);
  dt_sym_t step = dt__sym_const(env, 1);
  if (view.op != DT_SYM_MUL)
    return false;
  for (uint32_t i = 0; i < view.n_args; i++)
    if (!uses_inner(k, view.args[i])) {
      step = dt__sym_mul(env, step, view.args[i]);
      view = dt__sym_view(env, addend); // the environment may have moved
    }
  return add_term(k, step, lanes, out);
}

// Takes `offset` apart; false when lanes are no neighbours, or a literal step breaks alignment.
static bool take_terms(dt_body_t *k, dt_sym_t offset, dt_sym_t lane_var, uint32_t lanes,
                       terms_t *out) {
  dt_symenv_t *env = k->m->env;
  dt_sym_t coef, rest, fixed = dt__sym_const(env, 0);
  int64_t step = 0;
  out->n = 0;
  if (!dt__sym_linear(env, offset, lane_var, &coef, &rest) || !dt__sym_is_const(env, coef, &step) ||
      step != 1)
    return false;
  dt_sym_view_t view = dt__sym_view(env, rest);
  uint32_t n = view.op == DT_SYM_ADD ? view.n_args : 1;
  for (uint32_t i = 0; i < n; i++) {
    dt_sym_t addend = view.op == DT_SYM_ADD ? dt__sym_view(env, rest).args[i] : rest;
    if (!uses_inner(k, addend))
      fixed = dt__sym_add(env, fixed, addend);
    else if (!add_step(k, addend, lanes, out))
      return false;
  }
  return add_term(k, fixed, lanes, out);
}

bool dt__offset_aligned(dt_body_t *k, dt_sym_t offset, dt_sym_t lane_var, uint32_t lanes) {
  terms_t terms;
  return take_terms(k, offset, lane_var, lanes, &terms);
}

// ---- The condition ---------------------------------------------------------------------------------
typedef struct condition_t {
  LLVMValueRef terms, addresses; // or-ed together; NULL: none yet
  uint32_t lanes, alignment;
  bool useful; // some access gains by it
  bool never;
} condition_t;

static LLVMValueRef join(dt_emit_t *m, LLVMValueRef a, LLVMValueRef b) {
  return a ? LLVMBuildOr(m->b, a, b, "") : b;
}

static void require_extent(dt_body_t *k, condition_t *c, dt_sym_t extent) {
  bool known;
  if (is_multiple(k, extent, c->lanes, &known))
    return;
  if (known) {
    c->never = true;
    return;
  }
  LLVMValueRef value = dt__index_scalar(k, extent);
  dt__body_at(k, 0);
  c->terms = join(k->m, c->terms, value);
}

static void require_access(dt_body_t *k, condition_t *c, dt_buffer_id_t id, const dt_sym_t *index,
                           dt_sym_t lane_var) {
  dt_emit_t *m = k->m;
  terms_t terms;
  if (!take_terms(k, dt__access_offset(k, id, index), lane_var, c->lanes, &terms))
    return;
  c->useful = true;
  for (uint32_t i = 0; i < terms.n; i++) {
    LLVMValueRef value = dt__index_scalar(k, terms.items[i]);
    dt__body_at(k, 0);
    c->terms = join(m, c->terms, value);
  }
  const dt_buffer_t *buffer = dt__program_buffer(&m->program, id);
  uint32_t alignment = dt__vector_alignment(buffer->dtype, c->lanes);
  c->alignment = alignment > c->alignment ? alignment : c->alignment;
  if (buffer->kind != DT_BUFFER_INPUT && buffer->kind != DT_BUFFER_OUTPUT &&
      buffer->kind != DT_BUFFER_CONSTANT)
    return; // placed by us, at multiples of 64
  LLVMValueRef address = LLVMBuildPtrToInt(m->b, k->bases[id.id - 1], m->t_i64, "");
  c->addresses = join(m, c->addresses, address);
}

static void require_stage(dt_body_t *k, condition_t *c, const dt_stage_t *stage,
                          dt_sym_t lane_var) {
  for (uint32_t i = 0; i < stage->insts.len; i++)
    if (stage->insts.items[i].kind == DT_INST_LOAD)
      require_access(k, c, stage->insts.items[i].buffer, stage->insts.items[i].index, lane_var);
  for (uint32_t i = 0; i < stage->stores.len; i++)
    require_access(k, c, stage->stores.items[i].buffer, stage->stores.items[i].index, lane_var);
}

static LLVMValueRef is_multiple_of(dt_emit_t *m, LLVMValueRef all, uint32_t unit) {
  LLVMValueRef low = LLVMBuildAnd(m->b, all, dt__emit_i64(m, (int64_t)unit - 1), "");
  return LLVMBuildICmp(m->b, LLVMIntEQ, low, dt__emit_i64(m, 0), "");
}

static LLVMValueRef test(dt_emit_t *m, const condition_t *c) {
  LLVMValueRef terms =
      c->terms ? is_multiple_of(m, c->terms, c->lanes) : LLVMConstInt(m->t_i1, 1, 0);
  return c->addresses ? LLVMBuildAnd(m->b, terms, is_multiple_of(m, c->addresses, c->alignment), "")
                      : terms;
}

LLVMValueRef dt__loads_aligned(dt_body_t *k, const dt_load_walk_t *walks, uint32_t n,
                               uint32_t lanes) {
  condition_t c = {.lanes = lanes, .alignment = 1};
  dt__body_at(k, 0);
  for (uint32_t i = 0; i < n; i++) {
    const dt_inst_t *load = walks[i].load;
    dt_sym_t offset = dt__access_offset(k, load->buffer, load->index);
    if (!dt__offset_aligned(k, offset, walks[i].var, lanes))
      return NULL;
    require_extent(k, &c, walks[i].extent);
    require_access(k, &c, load->buffer, load->index, walks[i].var);
  }
  return c.never ? NULL : test(k->m, &c);
}

LLVMValueRef dt__lanes_aligned(dt_body_t *k, uint32_t lanes) {
  dt_emit_t *m = k->m;
  const dt_kernel_t *kernel = k->kernel;
  condition_t c = {.lanes = lanes, .alignment = 1};
  bool matmul = dt__schedule_is_product(k->schedule);
  bool outer = k->schedule->kind == DT_SCHEDULE_OUTER_LANES || matmul;
  dt__body_at(k, 0);
  if (outer)
    require_extent(k, &c, kernel->extents[kernel->n_loops - 1]);
  for (uint32_t s = matmul ? 1 : 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    if (!outer && stage->n_loops == 0)
      continue;
    dt_sym_t var = outer ? kernel->vars[kernel->n_loops - 1] : stage->vars[stage->n_loops - 1];
    if (!outer) {
      dt_sym_t extent = stage->extents[stage->n_loops - 1];
      if (uses_inner(k, extent))
        return NULL;
      require_extent(k, &c, extent);
    }
    require_stage(k, &c, stage, var);
  }
  if (c.never || !c.useful)
    return NULL;
  return test(m, &c);
}

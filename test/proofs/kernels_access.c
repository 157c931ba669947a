// SPDX-License-Identifier: Apache-2.0
// Loads and stores: indices inside sizes, values that do not wrap where operations read them, and
// offsets that are what indices and strides say.
//
// Given are the program's own givens, that the loops around the access run, and what its mask and
// the binds of its stage say. Code computes sums and products of 64 bits that may wrap inside,
// which is right as long as the end fits; every other operation reads its operands, which must fit.
#include "test/proofs/kernels.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct access_t {
  const dt_kernel_t *kernel;
  const dt_stage_t *stage;
  uint32_t kernel_at, stage_at;
  const char *what;
  dt_buffer_id_t buffer;
  const dt_sym_t *index;
  uint32_t mask;
  dt_sym_t panels; // iterations of the last outer loop that a template runs; none: its extent
} access_t;

typedef enum claim_kind_t { INSIDE, HAS_VALUE, IS_OFFSET } claim_kind_t;

typedef struct claim_t {
  claim_kind_t kind;
  uint32_t dim;
  bool checked; // rests on a run-time check
  bool known;   // by the simplifier
} claim_t;

static const char *const claim_names[] = {"inside its dim", "has a 64-bit value",
                                          "is the offset of the index"};

// ---- Conditions of instructions ---------------------------------------------------------------------
// Conditions and integers of a stage's instructions as terms; NULL until made.
typedef struct body_t {
  kz_t *kz;
  const dt_program_t *program;
  const dt_stage_t *stage;
  Z3_ast *terms;
} body_t;

static Z3_ast inst_term(body_t *body, uint32_t i);

static bool is_bool(const body_t *body, uint32_t i) {
  return body->stage->insts.items[i].dtype == DT_BOOL;
}

static Z3_ast unknown_of(body_t *body, const dt_inst_t *inst) {
  return inst->dtype == DT_BOOL ? kz_flag(body->kz) : kz_fresh(body->kz);
}

// Where it has no value it may be anything.
static Z3_ast index_term(body_t *body, const dt_inst_t *inst) {
  kz_t *kz = body->kz;
  kz_value_t value = kz_term(kz, inst->sym);
  Z3_ast made = unknown_of(body, inst), is;
  if (inst->dtype == DT_BOOL)
    is = Z3_mk_eq(kz_context(kz), made, kz_is_true(kz, value.v));
  else if (inst->dtype == DT_I64)
    is = Z3_mk_eq(kz_context(kz), made, value.v);
  else
    return made;
  kz_given(kz, Z3_mk_implies(kz_context(kz), kz_whole(kz, value), is));
  return made;
}

static Z3_ast bind_term(body_t *body, const dt_inst_t *inst) {
  kz_t *kz = body->kz;
  Z3_context z3 = kz_context(kz);
  Z3_ast found = kz_flag(kz);
  kz_value_t d = kz_term(kz, inst->sym), end = kz_term(kz, inst->extent);
  Z3_ast none = Z3_mk_eq(z3, d.v, kz_int(kz, 0));
  kz_given(kz, kz_whole(kz, end));
  kz_given(kz, Z3_mk_ite(z3, found, kz_inside(kz, d.v, end.v), none));
  return found;
}

static Z3_ast compare_term(Z3_context z3, dt_scalar_op_t op, Z3_ast a, Z3_ast b) {
  switch (op) {
  case DT_SCALAR_eq:
    return Z3_mk_eq(z3, a, b);
  case DT_SCALAR_ne:
    return Z3_mk_not(z3, Z3_mk_eq(z3, a, b));
  case DT_SCALAR_lt:
    return Z3_mk_lt(z3, a, b);
  case DT_SCALAR_le:
    return Z3_mk_le(z3, a, b);
  case DT_SCALAR_gt:
    return Z3_mk_gt(z3, a, b);
  case DT_SCALAR_ge:
    return Z3_mk_ge(z3, a, b);
  default:
    return NULL;
  }
}

static Z3_ast scalar_term(body_t *body, const dt_inst_t *inst) {
  Z3_context z3 = kz_context(body->kz);
  if (inst->dtype != DT_BOOL)
    return unknown_of(body, inst);
  bool bools = is_bool(body, inst->args[0]);
  Z3_ast a = inst_term(body, inst->args[0]);
  if (inst->op == DT_SCALAR_logical_not)
    return Z3_mk_not(z3, a);
  if (inst->op == DT_SCALAR_where)
    return Z3_mk_ite(z3, a, inst_term(body, inst->args[1]), inst_term(body, inst->args[2]));
  if (inst->args[1] == DT_NO_INST)
    return unknown_of(body, inst);
  Z3_ast b = inst_term(body, inst->args[1]), made = NULL;
  if (inst->op == DT_SCALAR_logical_and)
    return kz_and(body->kz, a, b);
  if (inst->op == DT_SCALAR_logical_or)
    return kz_or(body->kz, a, b);
  if (inst->op == DT_SCALAR_logical_xor)
    return Z3_mk_xor(z3, a, b);
  if (!bools && body->stage->insts.items[inst->args[0]].dtype == DT_I64)
    made = compare_term(z3, inst->op, a, b);
  return made ? made : unknown_of(body, inst);
}

// A number of elements of the buffer.
static Z3_ast search_term(body_t *body, const dt_inst_t *inst) {
  Z3_ast made = unknown_of(body, inst);
  kz_value_t size = kz_term(body->kz, dt__program_buffer(body->program, inst->buffer)->sizes[0]);
  Z3_ast past = Z3_mk_lt(kz_context(body->kz), size.v, made);
  if (inst->dtype == DT_I64)
    kz_given(body->kz, kz_and(body->kz, Z3_mk_le(kz_context(body->kz), kz_int(body->kz, 0), made),
                              Z3_mk_not(kz_context(body->kz), past)));
  return made;
}

static Z3_ast make_inst(body_t *body, uint32_t i) {
  const dt_inst_t *inst = &body->stage->insts.items[i];
  switch (inst->kind) {
  case DT_INST_INDEX:
    return index_term(body, inst);
  case DT_INST_BIND:
    return bind_term(body, inst);
  case DT_INST_SCALAR:
    return scalar_term(body, inst);
  case DT_INST_CONST:
    if (inst->dtype == DT_BOOL)
      return inst->value.i ? kz_true(body->kz) : Z3_mk_false(kz_context(body->kz));
    if (inst->dtype == DT_I64)
      return kz_int(body->kz, inst->value.i);
    break;
  case DT_INST_CAST:
    if (inst->dtype == body->stage->insts.items[inst->args[0]].dtype)
      return inst_term(body, inst->args[0]);
    break;
  case DT_INST_SEARCH:
    return search_term(body, inst);
  default:
    break;
  }
  return unknown_of(body, inst);
}

static Z3_ast inst_term(body_t *body, uint32_t i) {
  if (!body->terms[i])
    body->terms[i] = make_inst(body, i);
  return body->terms[i];
}

// ---- Givens -----------------------------------------------------------------------------------------
// No buffer that the kernel uses takes DT_SIZE_LIMIT bytes or more: checked of arguments when a
// tensor is made, of the others by the plan of a call. Where loops run no size here is 0.
static void given_bytes(kp_t *kp, const access_t *access) {
  kz_t *kz = kp->kz;
  for (uint32_t s = 0; s < access->kernel->stages.len; s++) {
    const dt_stage_t *stage = &access->kernel->stages.items[s];
    uint32_t n = stage->insts.len + stage->stores.len;
    for (uint32_t i = 0; i < n; i++) {
      dt_buffer_id_t id = i < stage->insts.len ? stage->insts.items[i].buffer
                                               : stage->stores.items[i - stage->insts.len].buffer;
      if (i < stage->insts.len && !dt__inst_reads(&stage->insts.items[i]).id)
        continue;
      const dt_buffer_t *buffer = dt__program_buffer(kp->program, id);
      kz_value_t count = kz_term(kz, dt__buffer_count(kp->program, id));
      int64_t most = (DT_SIZE_LIMIT - 1) / (int64_t)dt_dtype_size(buffer->dtype);
      kz_given(kz, Z3_mk_le(kz_context(kz), count.v, kz_int(kz, most)));
      for (uint32_t d = 0; d < buffer->rank; d++)
        kz_given(kz, kz_inside(kz, kz_term(kz, buffer->sizes[d]).v, kz_int(kz, DT_SIZE_LIMIT)));
    }
  }
}

// The slice and the loops around the access, what was bound in its stage, and its mask.
static void given_place(kp_t *kp, const access_t *access) {
  kz_t *kz = kp->kz;
  kp_given_slice(kp, access->kernel_at);
  for (uint32_t v = 0; v < access->kernel->n_loops; v++) {
    bool last = v + 1 == access->kernel->n_loops;
    kz_given_loop(kz, access->kernel->vars[v],
                  last && access->panels.id ? access->panels : access->kernel->extents[v]);
  }
  for (uint32_t v = 0; v < access->stage->n_loops; v++)
    kz_given_loop(kz, access->stage->vars[v], access->stage->extents[v]);
  given_bytes(kp, access);
  body_t body = {.kz = kz, .program = kp->program, .stage = access->stage};
  body.terms = calloc(access->stage->insts.len + 1, sizeof(Z3_ast));
  for (uint32_t i = 0; i < access->stage->insts.len; i++)
    if (access->stage->insts.items[i].kind == DT_INST_BIND)
      (void)inst_term(&body, i);
  if (access->mask != DT_NO_INST)
    kz_given(kz, inst_term(&body, access->mask));
  free(body.terms);
}

// What the index is counted from, and how many places there are: with the halo.
static dt_sym_t place_at(kp_t *kp, const access_t *access, uint32_t dim) {
  const dt_buffer_layout_t *layout = dt__program_buffer(kp->program, access->buffer)->layout;
  dt_symenv_t *env = kp->program->env;
  dt_sym_t at = access->index[dim];
  return layout ? dt__sym_add(env, at, dt__sym_const(env, layout->before[dim])) : at;
}

static dt_sym_t places_of(kp_t *kp, const access_t *access, uint32_t dim) {
  const dt_buffer_t *buffer = dt__program_buffer(kp->program, access->buffer);
  dt_symenv_t *env = kp->program->env;
  if (!buffer->layout)
    return buffer->sizes[dim];
  int64_t halo = buffer->layout->before[dim] + buffer->layout->behind[dim];
  return dt__sym_add(env, buffer->sizes[dim], dt__sym_const(env, halo));
}

// ---- Claims to Z3 -----------------------------------------------------------------------------------
static Z3_ast claim_term(kp_t *kp, const access_t *access, const claim_t *claim) {
  kz_t *kz = kp->kz;
  const dt_buffer_t *buffer = dt__program_buffer(kp->program, access->buffer);
  dt_sym_t offset = dt__buffer_offset(kp->program, access->buffer, access->index);
  if (claim->kind == INSIDE) {
    dt_sym_t at = place_at(kp, access, claim->dim), places = places_of(kp, access, claim->dim);
    kz_compare_quotients(kz, at, places);
    kz_bound_products(kz, at);
    return kz_inside(kz, kz_term(kz, at).v, kz_term(kz, places).v);
  }
  if (claim->kind == HAS_VALUE) {
    Z3_ast all = kz_term(kz, offset).has;
    for (uint32_t d = 0; d < buffer->rank; d++)
      all = kz_and(kz, all, kz_term(kz, access->index[d]).has);
    return all;
  }
  Z3_ast sum = kz_int(kz, 0);
  for (uint32_t d = 0; d < buffer->rank; d++) {
    Z3_ast step[2] = {kz_term(kz, access->index[d]).v, kz_term(kz, buffer->strides[d]).v};
    Z3_ast both[2] = {sum, Z3_mk_mul(kz_context(kz), 2, step)};
    sum = Z3_mk_add(kz_context(kz), 2, both);
  }
  return Z3_mk_eq(kz_context(kz), kz_term(kz, offset).v, sum);
}

static verdict_t ask(kp_t *kp, const access_t *access, const claim_t *claims, uint32_t n,
                     char **model) {
  kz_begin(kp->kz);
  given_place(kp, access);
  Z3_ast all = kz_true(kp->kz);
  for (uint32_t k = 0; k < n; k++)
    all = kz_and(kp->kz, all, claim_term(kp, access, &claims[k]));
  return kz_prove(kp->kz, all, model);
}

static void print_claim(kp_t *kp, const access_t *access, const claim_t *claim, dt_text_t *text) {
  const dt_buffer_t *buffer = dt__program_buffer(kp->program, access->buffer);
  dt__text_init(text);
  dt__text_printf(text, "kernel %u (%s), stage %u, %s buffer %u, dim %u %s: [", access->kernel_at,
                  access->kernel->name, access->stage_at, access->what, access->buffer.id,
                  claim->dim, claim_names[claim->kind]);
  for (uint32_t d = 0; d < buffer->rank; d++) {
    dt__text_put(text, d ? ", " : "");
    dt__sym_print(kp->program->env, access->index[d], text);
    dt__text_put(text, " of ");
    dt__sym_print(kp->program->env, buffer->sizes[d], text);
  }
  dt__text_put(text, "]");
}

// ---- Claims to the simplifier -----------------------------------------------------------------------
static bool reads_fit(dt_symenv_t *env, dt_sym_t e) {
  dt_sym_view_t view = dt__sym_view(env, e);
  uint32_t n = view.n_args;
  dt_sym_op_t op = view.op;
  dt_sym_t args[8];
  if (n > 8)
    return false;
  for (uint32_t k = 0; k < n; k++)
    args[k] = view.args[k];
  for (uint32_t k = 0; k < n; k++) {
    if (!reads_fit(env, args[k]))
      return false;
    dt_range_t range = dt__sym_range(env, args[k]);
    if (op != DT_SYM_ADD && op != DT_SYM_MUL && (range.lo == INT64_MIN || range.hi == INT64_MAX))
      return false;
  }
  return (op != DT_SYM_FLOORDIV && op != DT_SYM_MOD) ||
         dt__sym_known_true(env, dt__sym_ne(env, args[1], dt__sym_const(env, 0)));
}

static bool known(kp_t *kp, dt_symenv_t *env, const access_t *access, const claim_t *claim) {
  const dt_buffer_t *buffer = dt__program_buffer(kp->program, access->buffer);
  if (access->panels.id)
    return false; // more iterations than the simplifier takes the loop to have
  if (claim->kind == INSIDE) {
    dt_sym_t at = place_at(kp, access, claim->dim);
    return dt__sym_known_true(env, dt__sym_le(env, dt__sym_const(env, 0), at)) &&
           dt__sym_known_true(env, dt__sym_lt(env, at, places_of(kp, access, claim->dim)));
  }
  if (claim->kind == IS_OFFSET)
    return true; // it is what the simplifier made of them
  bool all = reads_fit(env, dt__buffer_offset(kp->program, access->buffer, access->index));
  for (uint32_t d = 0; all && d < buffer->rank; d++)
    all = reads_fit(env, access->index[d]);
  return all;
}

// Learns what holds where `inst` is true.
static void learn(dt_symenv_t *env, const dt_stage_t *stage, uint32_t i) {
  const dt_inst_t *inst = &stage->insts.items[i];
  if (inst->kind == DT_INST_INDEX && inst->dtype == DT_BOOL)
    dt_status_free(dt__sym_learn(env, inst->sym));
  if (inst->kind == DT_INST_BIND)
    dt_status_free(dt__sym_learn(env, dt__sym_lt(env, inst->sym, inst->extent)));
  if (inst->kind == DT_INST_SCALAR && inst->op == DT_SCALAR_logical_and)
    for (uint32_t k = 0; k < 2; k++)
      learn(env, stage, inst->args[k]);
}

// ---- Accesses ---------------------------------------------------------------------------------------
static bool uses_data(const dt_symenv_t *env, dt_sym_t e) {
  uint32_t symbols[64], n = dt__sym_symbols(env, e, symbols, 64);
  for (uint32_t k = 0; k < n && k < 64; k++)
    if (dt__symbol_info(env, symbols[k]).kind == DT_SYMBOL_DATA)
      return true;
  return n > 64;
}

static uint32_t make_claims(kp_t *kp, const access_t *access, claim_t *claims) {
  const dt_buffer_t *buffer = dt__program_buffer(kp->program, access->buffer);
  uint32_t n = 0;
  bool any = false;
  for (uint32_t d = 0; d < buffer->rank; d++) {
    bool data = uses_data(kp->program->env, access->index[d]);
    any |= data;
    claims[n++] = (claim_t){.kind = INSIDE, .dim = d, .checked = data};
  }
  claims[n++] = (claim_t){.kind = HAS_VALUE, .checked = any};
  claims[n++] = (claim_t){.kind = IS_OFFSET, .checked = any};
  return n;
}

// What the simplifier answered, once more by Z3: all together, and one by one where that has no
// answer.
static void repeat_claims(kp_t *kp, const access_t *access, const claim_t *claims, uint32_t n) {
  char *model = NULL;
  verdict_t verdict = ask(kp, access, claims, n, &model);
  if (verdict == UNKNOWN && n > 1) {
    for (uint32_t k = 0; k < n; k++)
      repeat_claims(kp, access, &claims[k], 1);
    free(model);
    return;
  }
  kp->counts.repeated += n;
  kp->counts.unsure += verdict == UNKNOWN;
  kp->counts.contradicted += verdict == REFUTED;
  if (verdict != PROVED && !kp->options->quiet) {
    dt_text_t text;
    print_claim(kp, access, &claims[0], &text);
    printf("%s: the simplifier answers, Z3 %s: %s\n%s\n", kp->name,
           verdict == REFUTED ? "refutes it" : "does not", dt__text_str(&text), model);
    dt__text_fini(&text);
  }
  free(model);
}

static void repeat(kp_t *kp, const access_t *access, const claim_t *claims, uint32_t n) {
  claim_t answered[DT_MAX_RANK + 2];
  uint32_t n_answered = 0;
  for (uint32_t k = 0; k < n; k++)
    if (claims[k].known)
      answered[n_answered++] = claims[k];
  if (n_answered == 0 || kp->sampled++ % kp->options->share != 0)
    return;
  kz_limit(kp->kz, kp->options->repeat_ms);
  repeat_claims(kp, access, answered, n_answered);
  kz_limit(kp->kz, kp->options->limit_ms);
}

static void prove_access(kp_t *kp, const access_t *access) {
  claim_t claims[DT_MAX_RANK + 2];
  uint32_t n = make_claims(kp, access, claims);
  dt_symenv_t *env = kp->program->env, *own = NULL;
  if (access->mask != DT_NO_INST && !dt__symenv_clone(env, &own)) {
    learn(own, access->stage, access->mask);
    env = own;
  }
  kp->counts.accesses++;
  for (uint32_t k = 0; k < n; k++) {
    claims[k].known = known(kp, env, access, &claims[k]);
    if (claims[k].known) {
      kp->counts.obligations++;
      *(claims[k].checked ? &kp->counts.checked : &kp->counts.by_ranges) += 1;
      continue;
    }
    char *model = NULL;
    verdict_t verdict = ask(kp, access, &claims[k], 1, &model);
    dt_text_t text;
    print_claim(kp, access, &claims[k], &text);
    kp_judge(kp, verdict, claims[k].checked, dt__text_str(&text), model);
    dt__text_fini(&text);
    free(model);
  }
  dt__symenv_destroy(own);
  repeat(kp, access, claims, n);
}

// A template reads whole panels of the packed operand, beyond the last column too.
static void prove_panels(kp_t *kp, access_t *access) {
  for (uint32_t s = 0; s < access->kernel->schedules.len; s++) {
    const dt_schedule_t *schedule = &access->kernel->schedules.items[s];
    if (schedule->kind != DT_SCHEDULE_MATMUL || access->stage_at != 0 ||
        schedule->matmul.own_panels)
      continue;
    dt_symenv_t *env = kp->program->env;
    const dt_inst_t *load = &access->stage->insts.items[schedule->matmul.b];
    dt_sym_t width = dt__sym_const(env, schedule->matmul.width);
    dt_sym_t columns = access->kernel->extents[access->kernel->n_loops - 1];
    access_t panel = *access;
    panel.what = "a panel of";
    panel.buffer = load->buffer;
    panel.index = load->index;
    panel.mask = load->mask;
    panel.panels = dt__sym_mul(env, dt__sym_ceildiv(env, columns, width), width);
    prove_access(kp, &panel);
  }
}

void kp_prove_kernel(kp_t *kp, uint32_t at) {
  const dt_kernel_t *kernel = &kp->program->kernels.items[at];
  kp->counts.kernels++;
  for (uint32_t s = 0; s < kernel->stages.len; s++) {
    const dt_stage_t *stage = &kernel->stages.items[s];
    access_t access = {.kernel = kernel, .stage = stage, .kernel_at = at, .stage_at = s};
    for (uint32_t i = 0; i < stage->insts.len; i++) {
      const dt_inst_t *inst = &stage->insts.items[i];
      if (inst->kind != DT_INST_LOAD)
        continue;
      access.what = "a load from";
      access.buffer = inst->buffer;
      access.index = inst->index;
      access.mask = inst->mask;
      prove_access(kp, &access);
    }
    for (uint32_t k = 0; k < stage->stores.len; k++) {
      const dt_store_t *store = &stage->stores.items[k];
      access.what = "a store to";
      access.buffer = store->buffer;
      access.index = store->index;
      access.mask = store->mask;
      prove_access(kp, &access);
    }
    prove_panels(kp, &access);
  }
}

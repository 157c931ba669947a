// SPDX-License-Identifier: Apache-2.0
// Making random programs over sizes, and sets of sizes at the edges of what they ask.
#include "test/conform/guards/size_program.h"

#include "test/support/random.h"

#include <string.h>

uint32_t sp_below(uint64_t *state, uint32_t n) { return (uint32_t)(rng_step(state) >> 32) % n; }

typedef struct maker_t {
  sp_program_t *p;
  uint64_t random;
  uint32_t rank;         // of the value at work
  int32_t constants[32]; // that questions compare with
  uint32_t n_constants;
} maker_t;

static uint32_t pick(maker_t *m, uint32_t n) { return sp_below(&m->random, n); }

static int32_t constant(maker_t *m) {
  static const int32_t usual[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12};
  int32_t value = usual[pick(m, sizeof(usual) / sizeof(usual[0]))];
  if (m->n_constants < 32)
    m->constants[m->n_constants++] = value;
  return value;
}

// ---- Expressions ----------------------------------------------------------------------------------
static uint8_t put(sp_step_t *step, sp_expr_t e) {
  step->exprs[step->n_exprs] = e;
  return step->n_exprs++;
}

static uint8_t leaf(maker_t *m, sp_step_t *step) {
  if (m->rank && pick(m, 4) == 0)
    return put(step, (sp_expr_t){.op = SP_HERE, .a = (uint8_t)pick(m, m->rank)});
  uint32_t input = pick(m, m->p->n_inputs);
  return put(
      step,
      (sp_expr_t){.op = SP_DIM, .a = (uint8_t)input, .b = (uint8_t)pick(m, m->p->ranks[input])});
}

static uint8_t literal(maker_t *m, sp_step_t *step) {
  return put(step, (sp_expr_t){.op = SP_CONST, .value = constant(m)});
}

// Room is left for the nodes that the caller still puts.
static uint8_t number(maker_t *m, sp_step_t *step, uint32_t depth) {
  static const sp_op_t ops[] = {SP_ADD, SP_SUB, SP_MUL, SP_DIV, SP_MOD, SP_MIN, SP_MAX};
  if (depth == 0 || step->n_exprs + 6 > SP_EXPRS || pick(m, 3) == 0)
    return leaf(m, step);
  sp_op_t op = ops[pick(m, sizeof(ops) / sizeof(ops[0]))];
  uint8_t a = number(m, step, depth - 1);
  bool literal_only = op == SP_MUL || ((op == SP_DIV || op == SP_MOD) && pick(m, 5) != 0);
  uint8_t b = literal_only || pick(m, 2) ? literal(m, step) : number(m, step, depth - 1);
  return put(step, (sp_expr_t){.op = op, .a = a, .b = b});
}

static uint8_t question(maker_t *m, sp_step_t *step) {
  static const sp_op_t ops[] = {SP_EQ, SP_LT, SP_LE};
  uint8_t a = number(m, step, 1), b;
  if (pick(m, 4) == 0) { // divisibility
    uint8_t by = literal(m, step);
    a = put(step, (sp_expr_t){.op = SP_MOD, .a = a, .b = by});
    b = put(step, (sp_expr_t){.op = SP_CONST, .value = 0});
    return put(step, (sp_expr_t){.op = SP_EQ, .a = a, .b = b});
  }
  b = pick(m, 2) ? literal(m, step) : leaf(m, step);
  sp_op_t op = ops[pick(m, 3)];
  return pick(m, 2) ? put(step, (sp_expr_t){.op = op, .a = a, .b = b})
                    : put(step, (sp_expr_t){.op = op, .a = b, .b = a});
}

static uint8_t condition(maker_t *m, sp_step_t *step) {
  uint8_t a = question(m, step);
  if (step->n_exprs + 6 > SP_EXPRS || pick(m, 5) != 0)
    return a;
  uint8_t b = leaf(m, step), c = literal(m, step);
  b = put(step, (sp_expr_t){.op = SP_LE, .a = b, .b = c});
  return put(step, (sp_expr_t){.op = pick(m, 2) ? SP_MIN : SP_MAX, .a = a, .b = b});
}

// ---- Steps ----------------------------------------------------------------------------------------
// A start and a number of elements, mostly such that some sizes fit.
static void make_slice(maker_t *m, sp_step_t *step) {
  step->k = (uint8_t)pick(m, m->rank);
  uint8_t here = put(step, (sp_expr_t){.op = SP_HERE, .a = step->k});
  switch (pick(m, 4)) {
  case 0: // all but the first few
    step->e = literal(m, step);
    step->f = put(step, (sp_expr_t){.op = SP_SUB, .a = here, .b = step->e});
    return;
  case 1: // a literal number
    step->e = put(step, (sp_expr_t){.op = SP_CONST, .value = (int32_t)pick(m, 2)});
    step->f = literal(m, step);
    return;
  case 2: // the first part
    step->e = put(step, (sp_expr_t){.op = SP_CONST, .value = 0});
    step->f = literal(m, step);
    step->f = put(step, (sp_expr_t){.op = SP_DIV, .a = here, .b = step->f});
    return;
  default: // as many as another size says
    step->e = put(step, (sp_expr_t){.op = SP_CONST, .value = (int32_t)pick(m, 2)});
    step->f = number(m, step, 1);
  }
}

static bool make_shape(maker_t *m, sp_step_t *step, sp_kind_t kind) {
  const sp_program_t *p = m->p;
  step->k = (uint8_t)pick(m, kind == SP_SPLIT || kind == SP_SUM ? m->rank : p->n_inputs);
  if (kind == SP_SPLIT && m->rank == SP_MOST_RANK)
    return false;
  if (kind == SP_JOIN && p->ranks[step->k] != m->rank)
    return false;
  if (kind == SP_SPLIT)
    m->rank++;
  if (kind == SP_OPEN)
    m->rank = 2;
  if (kind == SP_LIKE)
    m->rank = p->ranks[step->k];
  if (kind == SP_BROADCAST && p->ranks[step->k] > m->rank)
    m->rank = p->ranks[step->k];
  if (kind == SP_SPLIT || kind == SP_OPEN)
    step->number = constant(m);
  return true;
}

static bool make_step(maker_t *m, sp_step_t *step) {
  static const sp_kind_t kinds[] = {
      SP_BRANCH, SP_BRANCH, SP_BRANCH, SP_BRANCH, SP_BRANCH, SP_BRANCH,    SP_BRANCH,
      SP_INT,    SP_INT,    SP_CHECK,  SP_CHECK,  SP_SIZE,   SP_BROADCAST, SP_BROADCAST,
      SP_SPLIT,  SP_OPEN,   SP_LIKE,   SP_SLICE,  SP_SLICE,  SP_SUM,       SP_JOIN};
  *step = (sp_step_t){.kind = kinds[pick(m, sizeof(kinds) / sizeof(kinds[0]))]};
  switch (step->kind) {
  case SP_BRANCH:
  case SP_CHECK:
    step->e = condition(m, step);
    return true;
  case SP_INT:
  case SP_SIZE:
    step->e = number(m, step, 2);
    return true;
  case SP_SLICE:
    make_slice(m, step);
    return true;
  default:
    return make_shape(m, step, step->kind);
  }
}

// ---- Inputs and sets ------------------------------------------------------------------------------
static void make_slot(maker_t *m, sp_slot_t *slot) {
  *slot = (sp_slot_t){.name = (int8_t)(pick(m, 3) ? (int)pick(m, 3) : -1)};
  uint32_t kind = pick(m, 16);
  if (kind == 0) {
    *slot = (sp_slot_t){.name = -1, .is_static = true, .value = constant(m)};
  } else if (kind == 1) {
    slot->min = (int32_t)pick(m, 3);
    slot->max = slot->min + constant(m) + 2;
  }
}

// A size at an edge: of a constant, 0, 1, a multiple and its neighbours, or that of another slot.
static int32_t edge(maker_t *m, const sp_set_t *set) {
  static const int32_t shifts[] = {0, 0, -1, 1};
  int32_t value = m->n_constants ? m->constants[pick(m, m->n_constants)] : 3;
  switch (pick(m, 8)) {
  case 0:
    return (int32_t)pick(m, 2);
  case 1:
    return (int32_t)pick(m, 14);
  case 2:
    return set->sizes[pick(m, SP_SLOTS)] + shifts[pick(m, 4)];
  case 3:
  case 4:
    return value * (int32_t)(1 + pick(m, 3)) + shifts[pick(m, 4)];
  default:
    return value + shifts[pick(m, 4)];
  }
}

static int32_t clamped(int32_t size) { return size < 0 ? 0 : size > 24 ? 24 : size; }

// Sizes by slot: mostly as declared, now and then not.
static void make_set(maker_t *m, sp_set_t *set) {
  const sp_program_t *p = m->p;
  int32_t named[4];
  bool loose = pick(m, 12) == 0;
  for (uint32_t s = 0; s < SP_SLOTS; s++)
    set->sizes[s] = clamped(edge(m, set));
  for (uint32_t n = 0; n < 4; n++)
    named[n] = clamped(edge(m, set));
  for (uint32_t s = 0; s < SP_SLOTS; s++) {
    const sp_slot_t *slot = &p->slots[s];
    if (loose && pick(m, 6) == 0)
      continue;
    if (slot->is_static)
      set->sizes[s] = slot->value;
    else if (slot->name >= 0)
      set->sizes[s] = named[slot->name];
    if (!loose && set->sizes[s] < slot->min)
      set->sizes[s] = slot->min;
  }
  set->strided = p->strided && pick(m, 3) == 0;
}

// Whether an earlier set has the same sizes where inputs have dims.
static bool is_old(const sp_program_t *p, uint32_t at) {
  for (uint32_t k = 0; k < at; k++) {
    bool same = p->sets[k].strided == p->sets[at].strided;
    for (uint32_t s = 0; s < SP_SLOTS && same; s++)
      same = s / SP_RANK >= p->n_inputs || s % SP_RANK >= p->ranks[s / SP_RANK] ||
             p->sets[k].sizes[s] == p->sets[at].sizes[s];
    if (same)
      return true;
  }
  return false;
}

// The best of a few: a new one, that the model takes mostly.
static void choose_set(maker_t *m, uint32_t at) {
  bool any = pick(m, 5) == 0;
  for (uint32_t k = 0; k < 24; k++) {
    sp_result_t result;
    make_set(m, &m->p->sets[at]);
    sp_model(m->p, at, &result);
    if ((any || !result.refused) && !is_old(m->p, at))
      return;
  }
}

// Returns how many sets the model takes.
static uint32_t generate(uint64_t seed, uint64_t attempt, sp_program_t *out) {
  maker_t m = {.p = out, .random = (seed * 16 + attempt) * 0x2545F4914F6CDD1DU + 99};
  memset(out, 0, sizeof(*out));
  out->seed = seed;
  out->n_inputs = 1 + pick(&m, SP_INPUTS);
  out->strided = pick(&m, 12) == 0;
  for (uint32_t k = 0; k < out->n_inputs; k++) {
    out->ranks[k] = 1 + pick(&m, SP_RANK);
    for (uint32_t d = 0; d < out->ranks[k]; d++)
      make_slot(&m, &out->slots[k * SP_RANK + d]);
  }
  m.rank = out->ranks[0];
  uint32_t wanted = 2 + pick(&m, SP_STEPS - 2);
  while (out->n_steps < wanted) {
    uint32_t rank = m.rank;
    if (make_step(&m, &out->steps[out->n_steps]))
      out->n_steps++;
    else
      m.rank = rank;
  }
  out->n_sets = SP_SETS;
  uint32_t taken = 0;
  for (uint32_t k = 0; k < out->n_sets; k++) {
    sp_result_t result;
    choose_set(&m, k);
    sp_model(out, k, &result);
    taken += !result.refused;
  }
  return taken;
}

// Few sets fit where many demands meet: some attempts are given to find a program that more do.
void sp_generate(uint64_t seed, sp_program_t *out) {
  for (uint64_t attempt = 0; attempt < 8; attempt++)
    if (generate(seed, attempt, out) >= SP_SETS / 4)
      return;
}

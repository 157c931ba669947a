// SPDX-License-Identifier: Apache-2.0
// The memory plan: buffers that live at the same time share no byte, or one takes the place of the
// other element by element; and each lies inside its block.
//
// When a buffer lives is found here from the kernels, not taken from the pass that made the plan.
#include "test/proofs/kernels.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct life_t {
  uint32_t first, last; // kernels; first > last: never used
} life_t;

typedef struct plan_t {
  kp_t *kp;
  life_t *lives;
} plan_t;

static void touch(life_t *life, uint32_t kernel) {
  life->first = life->first < kernel ? life->first : kernel;
  life->last = life->last > kernel ? life->last : kernel;
}

// Kernels of slices run again and again: what is not of one slice lives in all of them.
static void live_in_slices(const dt_program_t *program, life_t *lives) {
  for (uint32_t s = 0; s < program->slices.len; s++) {
    const dt_program_slices_t *slices = &program->slices.items[s];
    for (uint32_t b = 0; b < program->buffers.len; b++) {
      life_t *life = &lives[b];
      if (life->first > life->last || life->first >= slices->end || life->last < slices->first ||
          kp_of_slice(program, b, slices))
        continue;
      touch(life, slices->first > life->first ? life->first : slices->first);
      touch(life, slices->end - 1 < life->last ? life->last : slices->end - 1);
    }
  }
}

static life_t *find_lives(const dt_program_t *program) {
  life_t *lives = calloc(program->buffers.len + 1, sizeof(*lives));
  for (uint32_t b = 0; b < program->buffers.len; b++)
    lives[b].first = UINT32_MAX;
  for (uint32_t k = 0; k < program->kernels.len; k++)
    for (uint32_t s = 0; s < program->kernels.items[k].stages.len; s++) {
      const dt_stage_t *stage = &program->kernels.items[k].stages.items[s];
      for (uint32_t i = 0; i < stage->stores.len; i++)
        touch(&lives[stage->stores.items[i].buffer.id - 1], k);
      for (uint32_t i = 0; i < stage->insts.len; i++)
        if (stage->insts.items[i].buffer.id)
          touch(&lives[stage->insts.items[i].buffer.id - 1], k);
    }
  // Where the host reads nothing, kernels do, where they begin: numbers and gates.
  for (uint32_t k = 0; k < program->kernels.len && program->device_sized; k++) {
    const dt_kernel_t *kernel = &program->kernels.items[k];
    for (uint32_t i = 0; i < dt__kernel_readbacks(program, kernel); i++)
      touch(&lives[program->readbacks.items[i].buffer.id - 1], k);
    if (kernel->gate.id)
      touch(&lives[kernel->gate.id - 1], k);
  }
  // What the host reads is there until the last kernel of the segment before has run.
  for (uint32_t k = 0; k < program->readbacks.len; k++)
    for (uint32_t s = 0; s < program->segments.len; s++) {
      uint32_t end = program->segments.items[s].kernel_end;
      life_t *life = &lives[program->readbacks.items[k].buffer.id - 1];
      if (program->segments.items[s].readback_end <= k && life->first < end && life->last < end)
        life->last = end - 1;
    }
  live_in_slices(program, lives);
  return lives;
}

// Of a program of device sizes at most: with the most of each dim (prove_sizes) in its place, by
// the lemma that factors from 0 to their bounds have a product up to that of the bounds.
static dt_sym_t bytes_of(dt_program_t *program, uint32_t b) {
  const dt_buffer_t *buffer = &program->buffers.items[b];
  dt_sym_t bytes = dt__sym_const(program->env, (int64_t)dt_dtype_size(buffer->dtype));
  for (uint32_t d = 0; d < buffer->rank; d++) {
    dt_sym_t size = buffer->sizes[d];
    bytes = dt__sym_mul(program->env, bytes,
                        program->device_sized ? dt__program_most(program, size) : size);
  }
  return bytes;
}

static dt_sym_t end_of(dt_program_t *program, uint32_t b) {
  return dt__sym_add(program->env, program->offsets.items[b], bytes_of(program, b));
}

// The block that buffer `b` must lie in: what is kept, or what its first kernel's segment asks for.
static dt_sym_t block_of(const plan_t *plan, uint32_t b) {
  const dt_program_t *program = plan->kp->program;
  if (program->buffers.items[b].kind == DT_BUFFER_ONCE)
    return program->once_bytes;
  for (uint32_t s = 0; s < program->segments.len; s++)
    if (plan->lives[b].first < program->segments.items[s].kernel_end)
      return program->segments.items[s].block_bytes;
  return program->block_bytes;
}

// ---- Claims -----------------------------------------------------------------------------------------
static void given_sizes(plan_t *plan, uint32_t b) {
  kz_t *kz = plan->kp->kz;
  const dt_buffer_t *buffer = &plan->kp->program->buffers.items[b];
  for (uint32_t d = 0; d < buffer->rank; d++)
    kz_given(kz, kz_inside(kz, kz_term(kz, buffer->sizes[d]).v, kz_int(kz, DT_SIZE_LIMIT)));
  Z3_ast bytes = kz_term(kz, bytes_of(plan->kp->program, b)).v;
  kz_given(kz, kz_inside(kz, bytes, kz_int(kz, DT_SIZE_LIMIT)));
}

// One of two orders holds; `cond[1]` may be none.
static void prove_one_of(plan_t *plan, uint32_t a, uint32_t b, const dt_sym_t cond[2],
                         const char *what) {
  kp_t *kp = plan->kp;
  dt_symenv_t *env = kp->program->env;
  bool known = dt__sym_known_true(env, cond[0]) || (cond[1].id && dt__sym_known_true(env, cond[1]));
  if (known) {
    kp->counts.obligations++;
    kp->counts.by_ranges++;
    if (kp->sampled++ % kp->options->share != 0)
      return;
  }
  kz_begin(kp->kz);
  given_sizes(plan, a);
  given_sizes(plan, b);
  Z3_ast claim = kz_is_true(kp->kz, kz_term(kp->kz, cond[0]).v);
  if (cond[1].id)
    claim = kz_or(kp->kz, claim, kz_is_true(kp->kz, kz_term(kp->kz, cond[1]).v));
  char *model = NULL, text[96];
  verdict_t verdict = kz_prove(kp->kz, claim, &model);
  snprintf(text, sizeof text, "memory plan: buffers %u and %u %s", a + 1, b + 1, what);
  if (!known) {
    kp_judge(kp, verdict, false, text, model);
  } else {
    kp->counts.repeated++;
    kp->counts.unsure += verdict == UNKNOWN;
    kp->counts.contradicted += verdict == REFUTED;
    if (verdict != PROVED && !kp->options->quiet)
      printf("%s: %s: the simplifier answers, Z3 %s\n%s\n", kp->name, text,
             verdict == REFUTED ? "refutes it" : "does not", model);
  }
  free(model);
}

static void prove_inside(plan_t *plan, uint32_t b) {
  dt_program_t *program = plan->kp->program;
  dt_symenv_t *env = program->env;
  dt_sym_t at = program->offsets.items[b], zero = dt__sym_const(env, 0);
  dt_sym_t low[2] = {dt__sym_le(env, zero, at), DT_SYM_NONE_ID};
  dt_sym_t high[2] = {dt__sym_le(env, end_of(program, b), block_of(plan, b)), DT_SYM_NONE_ID};
  dt_sym_t whole[2] = {dt__sym_eq(env, dt__sym_mod(env, at, dt__sym_const(env, 64)), zero),
                       DT_SYM_NONE_ID};
  prove_one_of(plan, b, b, low, "begin in the block");
  prove_one_of(plan, b, b, high, "end in the block");
  prove_one_of(plan, b, b, whole, "begin at multiples of 64");
}

static void prove_sizes(plan_t *plan, uint32_t b) {
  dt_program_t *program = plan->kp->program;
  dt_symenv_t *env = program->env;
  const dt_buffer_t buffer = program->buffers.items[b];
  for (uint32_t d = 0; d < buffer.rank && program->device_sized; d++) {
    dt_sym_t low[2] = {dt__sym_le(env, dt__sym_const(env, 0), buffer.sizes[d]), DT_SYM_NONE_ID};
    dt_sym_t high[2] = {
        dt__sym_le(env, buffer.sizes[d], dt__program_most(program, buffer.sizes[d])),
        DT_SYM_NONE_ID};
    if (!dt__expr_readbacks(program, buffer.sizes[d]))
      continue;
    prove_one_of(plan, b, b, low, "are not negative");
    prove_one_of(plan, b, b, high, "are not above what was planned");
  }
}

// The last kernel of `old` is the first one of `fresh`, and both have one place.
static bool follows_in_place(const plan_t *plan, uint32_t old, uint32_t fresh) {
  const dt_program_t *program = plan->kp->program;
  return plan->lives[old].first < plan->lives[old].last &&
         plan->lives[old].last == plan->lives[fresh].first &&
         program->buffers.items[old].kind == DT_BUFFER_TEMP &&
         program->offsets.items[old].id == program->offsets.items[fresh].id &&
         kp_may_replace(plan->kp, old, fresh, plan->lives[fresh].first);
}

static void prove_apart(plan_t *plan, uint32_t a, uint32_t b) {
  dt_program_t *program = plan->kp->program;
  for (uint32_t turn = 0; turn < 2; turn++) {
    uint32_t old = turn ? b : a, fresh = turn ? a : b;
    if (follows_in_place(plan, old, fresh)) {
      kp_prove_in_place(plan->kp, old, fresh, plan->lives[fresh].first);
      return;
    }
  }
  dt_symenv_t *env = program->env;
  dt_sym_t orders[2] = {dt__sym_le(env, end_of(program, a), program->offsets.items[b]),
                        dt__sym_le(env, end_of(program, b), program->offsets.items[a])};
  prove_one_of(plan, a, b, orders, "live together apart");
}

static bool placed(const plan_t *plan, uint32_t b) {
  const dt_program_t *program = plan->kp->program;
  return b < program->offsets.len && program->offsets.items[b].id &&
         plan->lives[b].first <= plan->lives[b].last;
}

// Memory that is kept is never reused.
static bool together(const plan_t *plan, uint32_t a, uint32_t b) {
  const dt_buffer_t *buffers = plan->kp->program->buffers.items;
  if (buffers[a].kind != buffers[b].kind)
    return false;
  return buffers[a].kind == DT_BUFFER_ONCE || (plan->lives[a].first <= plan->lives[b].last &&
                                               plan->lives[b].first <= plan->lives[a].last);
}

// A used buffer without memory of its own would be placed nowhere.
static void prove_placed(plan_t *plan, uint32_t b) {
  const dt_program_t *program = plan->kp->program;
  dt_buffer_kind_t kind = program->buffers.items[b].kind;
  bool needs = (kind == DT_BUFFER_TEMP || kind == DT_BUFFER_ONCE) &&
               plan->lives[b].first <= plan->lives[b].last;
  if (!needs || placed(plan, b))
    return;
  char text[64];
  snprintf(text, sizeof text, "memory plan: buffer %u has no place", b + 1);
  kp_judge(plan->kp, REFUTED, false, text, NULL);
}

void kp_prove_plan(kp_t *kp) {
  plan_t plan = {.kp = kp, .lives = find_lives(kp->program)};
  uint32_t n = kp->program->buffers.len;
  for (uint32_t a = 0; a < n; a++) {
    prove_placed(&plan, a);
    if (!placed(&plan, a))
      continue;
    prove_sizes(&plan, a);
    prove_inside(&plan, a);
    for (uint32_t b = 0; b < a; b++)
      if (placed(&plan, b) && together(&plan, a, b))
        prove_apart(&plan, a, b);
  }
  free(plan.lives);
}

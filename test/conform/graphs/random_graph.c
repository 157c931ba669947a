// SPDX-License-Identifier: Apache-2.0
// Generates random programs. Instructions are chosen by weight and filled in at random
// (random_forms.c); those that the check refuses are dropped and another is tried. Patterns are put
// in whole now and then (random_patterns.c).
#include "test/conform/graphs/random_gen.h"

#include "test/support/random.h"

#include <string.h>

uint32_t rg_random(uint64_t *state) { return (uint32_t)(rng_step(state) >> 16); }

// One program of four calls ops of users.
static uint32_t weight_of(const gen_t *g, rg_op_t op) {
  bool left_out = rg_ops[op].form >= RG_FORM_call_axis && !rg_has_calls(g->p);
  return rg_ops[op].style <= g->style && !left_out ? rg_ops[op].weight : 0;
}

static void put_by_weight(gen_t *g) {
  for (uint32_t tries = 0; tries < 40; tries++) {
    uint32_t roll = gen_below(g, g->total_weight), op = 0;
    for (;; op++) {
      uint32_t weight = weight_of(g, (rg_op_t)op);
      if (roll < weight)
        break;
      roll -= weight;
    }
    uint32_t before = g->p->n_nodes;
    // Questions split programs into regions; few should.
    if (rg_ops[op].form == RG_FORM_branch && gen_chance(g, 70))
      continue;
    if (gen_put_form(g, (rg_op_t)op) != NONE)
      return;
    g->p->n_nodes = before;
  }
}

static const int64_t alphabet[] = {0,  1,  2,  3,  4,  5,  7,   8,   15,
                                   16, 17, 31, 33, 64, 65, 129, 257, 1025};

static void choose_sizes(gen_t *g, bool paired) {
  rg_program_t *p = g->p;
  static const int64_t primes[RG_PRIMES][RG_SYMBOLS] = {
      {1009, 1013, 1019}, {499, 563, 521}, {1163, 1151, 1153}};
  memcpy(p->primes, primes, sizeof(primes));
  for (uint32_t k = 0; k < p->n_calls; k++) {
    rg_call_t *call = &p->calls[k];
    do {
      for (uint32_t s = 0; s < p->n_symbols; s++)
        call->sizes[s] = alphabet[gen_below(g, COUNT(alphabet))];
    } while ((call->sizes[0] + 1) * (call->sizes[1] + 1) * (call->sizes[2] + 1) > 3000);
    call->layout = gen_chance(g, 25) ? 1 + (int32_t)gen_below(g, p->odd ? RG_LAYOUTS - 1 : 2) : 0;
    // Half of the programs whose sizes are bounded have a symbol of at most 1, or of 1.
    if (p->seed % 12 == 1)
      call->sizes[p->seed / 12 % RG_SYMBOLS] = (int64_t)(p->seed / 36 + k) % 3 == 0;
    if (p->seed % 12 == 4)
      call->sizes[p->seed / 12 % RG_SYMBOLS] = 1;
  }
  if (!paired)
    return;
  // m and n broadcast with each other: equal, or one of them 1.
  p->primes[0][1] = p->primes[0][0];
  p->primes[1][1] = 1;
  p->primes[2][0] = 1;
  for (uint32_t k = 0; k < p->n_calls; k++) {
    uint32_t roll = gen_below(g, 4);
    int64_t *sizes = p->calls[k].sizes;
    if (roll < 2)
      sizes[1] = sizes[0];
    else
      sizes[roll - 2] = 1;
  }
}

static void choose_outputs(gen_t *g, uint32_t first_op) {
  rg_program_t *p = g->p;
  bool used[RG_NODES] = {false};
  for (uint32_t i = 0; i < p->n_nodes; i++)
    for (uint32_t k = 0; k < p->nodes[i].n_args; k++)
      used[p->nodes[i].args[k]] = true;
  p->outputs[p->n_outputs++] = p->n_nodes - 1;
  for (uint32_t i = p->n_nodes - 1; i-- > first_op && p->n_outputs < RG_OUTPUTS;)
    if (!used[i] && gen_chance(g, 75))
      p->outputs[p->n_outputs++] = i;
  while (p->n_outputs < RG_OUTPUTS && gen_chance(g, 25))
    p->outputs[p->n_outputs++] = gen_below(g, p->n_nodes);
}

// Inputs that take a value of their dtype and dims at the end.
static void choose_updates(gen_t *g) {
  rg_program_t *p = g->p;
  for (uint32_t i = 0; i < p->n_nodes && p->n_updates < RG_UPDATES; i++) {
    if (p->nodes[i].op != RG_input || gen_chance(g, 50))
      continue;
    for (uint32_t k = p->n_nodes; k-- > 0;) {
      const rg_node_t *from = &p->nodes[k];
      bool fits = k != i && from->dtype == p->nodes[i].dtype && from->rank == p->nodes[i].rank;
      for (uint32_t d = 0; fits && d < from->rank; d++)
        fits = rg_dim_same(p, &from->dims[d], &p->nodes[i].dims[d]);
      if (!fits || gen_chance(g, 30))
        continue;
      p->updates[p->n_updates].input = i;
      p->updates[p->n_updates++].value = k;
      break;
    }
  }
}

static void choose_options(gen_t *g) {
  rg_program_t *p = g->p;
  p->threads = 1 + gen_below(g, 3);
  p->strict = gen_chance(g, 15);
  p->dynamic = gen_chance(g, 20) ? (dt_dynamic_t)(1 + gen_below(g, 2)) : DT_DYNAMIC_SYMBOLIC;
  p->odd = gen_chance(g, 20);
}

void rg_generate(uint64_t seed, uint32_t n_calls, rg_program_t *out) {
  for (uint64_t attempt = 0;; attempt++) {
    *out = (rg_program_t){.seed = seed, .n_calls = n_calls, .bounded = seed % 3 == 1};
    gen_t g = {.p = out, .state = seed * 0x2545F4914F6CDD1DU + attempt * 977};
    uint32_t style = gen_below(&g, 20);
    g.style = style < 7 ? RG_STYLE_exact : style < 15 ? RG_STYLE_tame : RG_STYLE_wild;
    for (uint32_t op = 0; op < RG_OP_COUNT; op++)
      g.total_weight += weight_of(&g, (rg_op_t)op);
    out->n_symbols = 1 + gen_below(&g, RG_SYMBOLS);
    out->prepare = gen_chance(&g, 40);
    choose_options(&g);
    choose_sizes(&g, out->n_symbols > 1 && gen_chance(&g, 8));
    uint32_t n_inputs = 1 + gen_below(&g, 3);
    for (uint32_t k = 0; k < n_inputs; k++)
      (void)gen_put_input(&g);
    uint32_t first_op = out->n_nodes, n_ops = 1 + gen_below(&g, 30);
    while (out->n_nodes < first_op + n_ops && out->n_nodes + 20 < RG_NODES && out->n_nodes) {
      uint32_t before = out->n_nodes;
      if (gen_chance(&g, 14))
        gen_put_pattern(&g);
      else
        put_by_weight(&g);
      if (out->n_nodes == before)
        break;
    }
    if (out->n_nodes > first_op)
      choose_outputs(&g, first_op);
    if (out->n_nodes > first_op && gen_chance(&g, 25))
      choose_updates(&g);
    // A question about sizes has no answer without them, and of static ones none is known.
    if (out->dynamic == DT_DYNAMIC_STATIC)
      out->prepare = false;
    for (uint32_t i = 0; i < out->n_nodes; i++)
      if (out->nodes[i].op == RG_branch || out->nodes[i].op == RG_conv ||
          out->nodes[i].op == RG_conv_transpose)
        out->prepare = false;
    if (rg_check(out))
      return;
  }
}

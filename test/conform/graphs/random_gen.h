// SPDX-License-Identifier: Apache-2.0
// What the files of the generator share: the program in the making, and what it grows by. A node
// that the check refuses is not appended; the number of such a one is NONE, and what takes NONE for
// an operand gives NONE, too.
#ifndef DT_TESTS_CONFORM_RANDOM_GEN_H
#define DT_TESTS_CONFORM_RANDOM_GEN_H

#include "test/conform/graphs/random_graph.h"

#define NONE UINT32_MAX
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

typedef struct gen_t {
  rg_program_t *p;
  uint64_t state;
  rg_style_t style; // the wildest ops allowed
  uint32_t total_weight;
} gen_t;

// ---- Chance ---------------------------------------------------------------------------------------
static inline uint32_t gen_below(gen_t *g, uint32_t n) { return n ? rg_below(&g->state, n) : 0; }
static inline bool gen_chance(gen_t *g, uint32_t percent) { return gen_below(g, 100) < percent; }
// A dtype of the domain; one that a model computes in.
dt_dtype_t gen_dtype(gen_t *g, char domain);
dt_dtype_t gen_float(gen_t *g);
int32_t gen_literal(gen_t *g); // a size
int32_t gen_dim(gen_t *g);     // a size or a symbol, as a declaration says it
int32_t gen_fill(gen_t *g);    // rg_fill_t, by the style
// What rules and code look for: zeros of both signs, ones, extremes, and what is no number.
double gen_hostile(gen_t *g, dt_dtype_t dtype);

// ---- Nodes: random_nodes.c ------------------------------------------------------------------------
static inline const rg_node_t *gen_node(const gen_t *g, uint32_t i) { return &g->p->nodes[i]; }
uint32_t gen_put(gen_t *g, const rg_node_t *node);
uint32_t gen_put_op(gen_t *g, rg_op_t op, uint32_t n_args, const uint32_t *args, uint32_t n_numbers,
                    const int32_t *numbers);
#define PUT(g, op, arg, ...)                                                                       \
  gen_put_op((g), (op), 1, (const uint32_t[]){arg},                                                \
             (uint32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)),                       \
             (int32_t[]){__VA_ARGS__})
#define PUT_2(g, op, a, b) gen_put_op((g), (op), 2, (const uint32_t[]){a, b}, 0, NULL)

// A node of the domain, a late one more often than not.
uint32_t gen_pick(gen_t *g, char domain);
// Something of `dtype` to go with `a` in an element-wise op; whether it fits is checked later.
uint32_t gen_partner(gen_t *g, uint32_t a, dt_dtype_t dtype);

// A dim as a declaration says it; false: none does.
bool gen_express(const gen_t *g, const rg_dim_t *dim, int32_t *out);
// An input or a constant: of chosen dims, of any, and of given dims where a declaration says them.
uint32_t gen_put_leaf(gen_t *g, dt_dtype_t dtype, uint32_t rank, const int32_t *dims, int32_t fill,
                      int32_t bound);
uint32_t gen_put_input(gen_t *g);
uint32_t gen_put_leaf_like(gen_t *g, dt_dtype_t dtype, uint32_t rank, const rg_dim_t *dims);
uint32_t gen_put_scalar(gen_t *g, dt_dtype_t dtype);

// ---- Instructions ---------------------------------------------------------------------------------
// `op` on a picked operand, filled in at random: random_forms.c.
uint32_t gen_put_form(gen_t *g, rg_op_t op);
uint32_t gen_put_cast(gen_t *g, uint32_t a);
// The forms behind RG_FORM_scan, on `a`: random_decided.c.
uint32_t gen_put_data(gen_t *g, rg_op_t op, uint32_t a);
// A few instructions that models, or fold rules, are made of: random_patterns.c.
void gen_put_pattern(gen_t *g);

#endif // DT_TESTS_CONFORM_RANDOM_GEN_H

// SPDX-License-Identifier: Apache-2.0
// What tests of growth share: how work is counted, and graphs of any size.
#ifndef DT_TESTS_UNIT_GROWTH_GROWTH_H
#define DT_TESTS_UNIT_GROWTH_GROWTH_H

#include "lower/graph/graph.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "test/support/check.h"

#define SIZES 4         // how many times as large the large graph is
#define MOST_GROWTH 1.5 // a node, from the small graph to the large one
#define FEW_BLOCKS 2e5  // what runs fewer of them is not looked at

extern uint64_t blocks_run; // basic blocks of the parts under test, since the program began

// Each puts the text of a graph and gives how many nodes it has.
typedef uint32_t (*put_fn_t)(dt_text_t *out, uint32_t n);
// MatMul, Add, LayerNormalization, Softmax, Transpose, ReduceMax, Add, again and again.
uint32_t put_layers(dt_text_t *out, uint32_t layers);
// Attention over heads with one mask for all, which every layer reads.
uint32_t put_attention(dt_text_t *out, uint32_t layers);
// Rows of one table by many lists of indices, each checked, and all of them needed in the end.
uint32_t put_gathers(dt_text_t *out, uint32_t n);
// Maxima of columns, each plus another number: no two kernels of them are equal.
uint32_t put_unequal(dt_text_t *out, uint32_t n);
// Products, each with another number added: no two kernels of them are equal.
uint32_t put_products(dt_text_t *out, uint32_t n);

// Branches one after another, each on the result of the one before.
uint32_t put_branches(dt_text_t *out, uint32_t n);
// Loops one after another, likewise.
uint32_t put_loops(dt_text_t *out, uint32_t n);

// The graph that `put` makes, in `arena` and an environment that the caller destroys.
dt_graph_t *make_graph(put_fn_t put, uint32_t n, dt_arena_t *arena, dt_symenv_t **out_env,
                       uint32_t *out_nodes);

#endif // DT_TESTS_UNIT_GROWTH_GROWTH_H

// SPDX-License-Identifier: Apache-2.0
// What tests of graphs share: an arena, an environment and a graph, and short ways to add to it.
#ifndef DT_TESTS_SUPPORT_GRAPH_FIXTURE_H
#define DT_TESTS_SUPPORT_GRAPH_FIXTURE_H

#include "lower/graph/graph.h"
#include "runtime/base/status.h"
#include "test/support/check.h"

#define NO_HINT INT64_MIN

typedef struct graph_fixture_t {
  dt_arena_t arena;
  dt_symenv_t *env;
  dt_graph_t *graph;
  uint32_t assumed; // guards asked for so far
  char last[256];   // the last one, printed
} graph_fixture_t;

void graph_fixture_init(graph_fixture_t *f);
void graph_fixture_fini(graph_fixture_t *f);

// A size symbol, with a hint unless NO_HINT; a literal.
dt_sym_t size_symbol(graph_fixture_t *f, int64_t hint);
dt_sym_t literal(graph_fixture_t *f, int64_t value);

// An input node of contiguous layout. Sizes are `rank` expressions.
dt_node_id_t input(graph_fixture_t *f, const char *name, dt_dtype_t dtype, uint32_t rank,
                   const dt_sym_t *sizes);
// The same with literal sizes.
dt_node_id_t fixed(graph_fixture_t *f, const char *name, dt_dtype_t dtype, uint32_t rank,
                   const int64_t *sizes);
// Adds an op that must succeed.
dt_node_id_t add(graph_fixture_t *f, dt_op_t op, uint32_t n, const dt_node_id_t *inputs,
                 const dt_attrs_t *attrs);
// Adds an op that must fail with `code` and a message holding each of `parts` (NULL-terminated).
void refuse(graph_fixture_t *f, dt_op_t op, uint32_t n, const dt_node_id_t *inputs,
            const dt_attrs_t *attrs, dt_code_t code, const char *const *parts);
// The dtype and sizes of a value as text: "f32[s0, 4]"; in the fixture's arena.
const char *type_of(graph_fixture_t *f, dt_node_id_t id);

// Adds `op` on valid inputs of `dtype` with shapes around [s0, 4]; none when the op takes no such
// dtype. The symbol s0 must be there; s1 too, for gather.
dt_node_id_t add_example(graph_fixture_t *f, dt_op_t op, dt_dtype_t dtype);

#endif // DT_TESTS_SUPPORT_GRAPH_FIXTURE_H

// SPDX-License-Identifier: Apache-2.0
// Lowering: how a value is read, and the functions that the lowering of all ops shares.
#ifndef DT_LOWER_LOOP_LOWER_PRIVATE_H
#define DT_LOWER_LOOP_LOWER_PRIVATE_H

#include "lower/loop/loop_private.h"

// A value as one instruction that reads an element of it: a LOAD (of a buffer, through whatever
// views lie in between), a CONST or an INDEX. Its expressions are in `places`, one LOOP symbol a
// dim; a dim whose size is the literal 1 has none, and its index is 0.
typedef struct dt_lowered_t {
  uint32_t rank;
  dt_sym_t places[DT_MAX_RANK];
  dt_inst_t read;
} dt_lowered_t;

// A call that was lowered, for others of its body (lower_call.c).
typedef struct dt_lowered_call_t dt_lowered_call_t;

typedef struct dt_lowering_t {
  dt_program_t *program;
  dt_arena_t *arena;
  dt_symenv_t *env;
  const dt_graph_t *graph;
  dt_lowered_t *values;   // by node, [id - 1]
  uint32_t *next_result;  // by node, [id - 1]: of a control the id of its first `result` node, of
                          // one of these of the next; 0: none
  dt_buffer_id_t *inputs; // by input
  dt_buffer_id_t *constants; // by constant; none until used
  bool *commits;             // by node, [id - 1]: a scatter whose updates an argument may receive
  dt_buffer_id_t *places;    // by node, [id - 1]: of these the places of the updates, checked
  dt_lowered_call_t **calls; // the program's, the newest first
} dt_lowering_t;

typedef dt_status_t (*dt_lower_fn_t)(dt_lowering_t *ctx, dt_node_id_t id);

dt_status_t dt__lower_leaf(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_view(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_ew(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_cast(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_bits(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
// Instruction `*value`, an element of `from`, as the bits of `to`: itself or another one.
// (lower_bits.c)
dt_status_t dt__lower_bits_inst(dt_lowering_t *ctx, dt_stage_t *stage, dt_dtype_t from,
                                dt_dtype_t to, uint32_t *value) DT_MUST_USE;
// Bitcast `node` shows one element in each element: no side is packed.
bool dt__lower_is_alias(const dt_lowering_t *ctx, const dt_node_t *node);
// Value `id` is read where its first input is: no kernel makes it. Its input was lowered before.
bool dt__lower_is_view(const dt_lowering_t *ctx, dt_node_id_t id);
dt_status_t dt__lower_reduce(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_argreduce(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_matmul(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_gather(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_gather_at(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_scatter(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_pad(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_concat(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_item(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_scan(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_search(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_compress(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_overlap(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_control(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_external(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
dt_status_t dt__lower_call(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
// Lowers what `wanted` outputs (NULL: all) of a body need, in a context of its own.
// (lower_control.c)
dt_status_t dt__lower_body(dt_lowering_t *outer, const dt_graph_t *body,
                           const dt_lowered_t *operands, const bool *wanted,
                           dt_lowering_t *out) DT_MUST_USE;
dt_status_t dt__lower_associative_scan(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;
// Makes the tables by node, for ctx->graph.
dt_status_t dt__lower_tables(dt_lowering_t *ctx) DT_MUST_USE;
// The kernel that writes the updates of scatter `id` to where its value is read as `whole`.
// `source` is a buffer with the updates alone; none: they are read as the graph says.
dt_status_t dt__lower_revision(dt_lowering_t *ctx, dt_node_id_t id, const dt_lowered_t *whole,
                               dt_buffer_id_t source) DT_MUST_USE;
// Updates of arguments: which scatters they may consist of, before any node is lowered, and the
// kernels that make them, after all else.
void dt__lower_find_commits(dt_lowering_t *ctx);
dt_status_t dt__lower_updates(dt_lowering_t *ctx) DT_MUST_USE;
// Any node, by its lowering.
dt_status_t dt__lower_node_of(dt_lowering_t *ctx, dt_node_id_t id) DT_MUST_USE;

// ---- Pieces ---------------------------------------------------------------------------------------
static inline const dt_node_t *dt__lower_node(const dt_lowering_t *ctx, dt_node_id_t id) {
  return dt__graph_node(ctx->graph, id);
}

// What a kernel's outer loops are opened over; ONES keeps loops of literal extent 1.
typedef enum dt_open_t { DT_OPEN_SQUEEZED, DT_OPEN_ONES } dt_open_t;

// The sizes of what is stored of a value: its own, but bytes along the last dim of a packed one.
// Loops, places and buffers of a node are over these.
void dt__lower_stored(const dt_lowering_t *ctx, dt_dtype_t dtype, uint32_t rank,
                      const dt_sym_t *sizes, dt_sym_t *out);

// Which section a kernel made now belongs to.
uint32_t dt__lower_section(const dt_lowering_t *ctx);
// Kernels made from now on are of a new section: its number.
uint32_t dt__lower_new_section(dt_lowering_t *ctx);
// Opens one loop a size; at[k] is the index along it. `vars`, `extents` and `n_loops` are a
// kernel's or a stage's, and grow.
dt_status_t dt__lower_loops(dt_lowering_t *ctx, uint32_t rank, const dt_sym_t *sizes, dt_open_t how,
                            dt_sym_t *vars, dt_sym_t *extents, uint32_t *n_loops,
                            dt_sym_t *at) DT_MUST_USE;
// The kernel of node `id` with outer loops over its result; at[k] is the index along dim k.
dt_status_t dt__lower_begin(dt_lowering_t *ctx, dt_node_id_t id, dt_open_t how, dt_kernel_t *kernel,
                            dt_sym_t *at) DT_MUST_USE;
// Gives node `id` a TEMP buffer, in which its value is read from now on.
dt_status_t dt__lower_result(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t *out) DT_MUST_USE;
// A TEMP buffer of the dtype and sizes of node `id`, for something else than its value.
dt_status_t dt__lower_temp(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t *out) DT_MUST_USE;
// The buffer that a kernel made for node `id`, or for what it is a bitcast of, alone; or none:
// views, leaves and arguments.
dt_buffer_id_t dt__lower_own_buffer(const dt_lowering_t *ctx, dt_node_id_t id);
// A kernel that copies value `id` into `buffer`.
dt_status_t dt__lower_copy(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t buffer) DT_MUST_USE;
// A kernel `name` by which `to` becomes what `from` holds; both have the sizes of node `id`.
dt_status_t dt__lower_move(dt_lowering_t *ctx, dt_node_id_t id, dt_buffer_id_t from,
                           dt_buffer_id_t to, const char *name) DT_MUST_USE;
// Stores instruction `value` of `stage` at `at`, ends the kernel with that stage and appends it.
dt_status_t dt__lower_end(dt_lowering_t *ctx, dt_kernel_t *kernel, dt_stage_t *stage,
                          dt_buffer_id_t buffer, const dt_sym_t *at, uint32_t value) DT_MUST_USE;
// Ends the kernel of node `id`: its first stage is `reductions` with `reduction`, its second stores
// the row value at `at`.
dt_status_t dt__lower_end_row(dt_lowering_t *ctx, dt_node_id_t id, dt_kernel_t *kernel,
                              dt_stage_t *reductions, dt_reduction_t *reduction,
                              const dt_sym_t *at) DT_MUST_USE;
// Appends the instruction that reads value `id` at `at`; where the BOOL instruction `mask` is false
// the result is `fill`, or zero for DT_NO_INST. `mask` may be DT_NO_INST.
dt_status_t dt__lower_read(dt_lowering_t *ctx, dt_stage_t *stage, dt_node_id_t id,
                           const dt_sym_t *at, uint32_t mask, uint32_t fill,
                           uint32_t *out) DT_MUST_USE;
// Value `id` is an element of `buffer`.
dt_status_t dt__lower_from_buffer(dt_lowering_t *ctx, dt_node_id_t id,
                                  dt_buffer_id_t buffer) DT_MUST_USE;
// The instruction that reads `value` at `at`; its index, if it has one, is written to `index`.
void dt__lower_substitute(dt_lowering_t *ctx, const dt_lowered_t *value, const dt_sym_t *at,
                          dt_inst_t *out, dt_sym_t *index);
// Fresh places for a value of the sizes of node `id`; at[k] is the index along dim k.
dt_status_t dt__lower_places(dt_lowering_t *ctx, dt_node_id_t id, dt_lowered_t *value,
                             dt_sym_t *at) DT_MUST_USE;
// The instruction for row value `row` of an earlier stage.
dt_status_t dt__lower_row(dt_lowering_t *ctx, dt_stage_t *stage, dt_dtype_t dtype, uint32_t row,
                          uint32_t *out) DT_MUST_USE;

#endif // DT_LOWER_LOOP_LOWER_PRIVATE_H

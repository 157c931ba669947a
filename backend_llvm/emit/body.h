// SPDX-License-Identifier: Apache-2.0
// The state of one kernel's emission: nested scopes, the values of symbols and instructions in
// them, and the lane axis.
//
// A scope is one level of the loop nest. Code that depends on no deeper loop is put into it,
// whenever it is first asked for, so loop invariants are hoisted by construction:
//
//   level 0   once a call of the kernel function: parameters, sizes
//   level 1   once a grid item: outer loop variables
//   level 2…  OUTER_LANES: the vector loop over the last outer variable, then a stage's inner loops
//             INNER_LANES, SERIAL: a stage's inner loops (the last one is the vector loop)
//
// A value is uniform (one scalar) or varying: it depends on the lane variable, and is one vector
// for each of the `copies` by which the vector loop is unrolled.
#ifndef DT_BACKEND_LLVM_EMIT_BODY_H
#define DT_BACKEND_LLVM_EMIT_BODY_H

#include "backend_llvm/emit/context.h"

#define DT_MAX_LEVELS (DT_MAX_LOOPS + 4)

typedef struct dt_lanes_t {
  bool varying;
  LLVMValueRef v[DT_MAX_UNROLL]; // uniform: v[0] only
  LLVMValueRef none;             // plans: whether it has no value (i1); NULL: it always has
} dt_lanes_t;

typedef struct dt_memo_t {
  uint64_t key;
  dt_lanes_t value;
} dt_memo_t;

typedef struct dt_scope_t {
  LLVMBasicBlockRef block; // where code of this level goes now; dominates all that is deeper
  DT_VEC(dt_memo_t) memo;
  LLVMBasicBlockRef header, exit; // of the loop that opened it
  LLVMValueRef counter, end, step;
} dt_scope_t;

typedef struct dt_binding_t {
  bool bound;
  bool varying;
  uint32_t level;
  dt_lanes_t value; // the lane variable: made on demand from lane_base
} dt_binding_t;

// What symbols and buffers are worth, for one body of a unit after another: each leaves the tables
// as it found them, at the cost of what it used.
typedef struct dt_tables_t {
  uint32_t n_symbols, n_buffers;
  dt_binding_t *bindings; // by symbol
  LLVMValueRef *bases;    // by buffer - 1
  bool *written;          // by buffer - 1
  DT_VEC(uint32_t) bound; // symbols, and indices of buffers, that the body has entries for; a few
  DT_VEC(uint32_t) used;  // several times
} dt_tables_t;

// A row's part that a thread has in registers: elements of `buffer` at `offset`, with the lane
// variable of the first stage in the place of the others'.
typedef struct dt_resident_t {
  dt_buffer_id_t buffer;
  dt_sym_t offset;
  dt_lanes_t value;
} dt_resident_t;

// Resident rows (resident.h).
typedef struct dt_resident_rows_t {
  bool on;                            // what is emitted keeps rows in registers
  bool ragged;                        // rows that end within a vector: SLABs have zeros there
  bool full;                          // rows have all vectors
  LLVMValueRef inside[DT_MAX_UNROLL]; // by copy: whether its vector exists, i1; NULL elsewhere
  dt_buffer_id_t held;                // chains: a SLAB that is nowhere but in registers, or none
  LLVMValueRef held_value; // what was stored to it last, a vector; rows that are resident keep it
  DT_VEC(dt_resident_t) kept;
} dt_resident_rows_t;

// What a team has to do with its row of a chain.
typedef struct dt_chain_row_t {
  LLVMValueRef owner; // whether this team makes the stores that leave the chain, i1
  LLVMValueRef live;  // whether this team's row exists and is stored, i1; NULL: it does
} dt_chain_row_t;

// Plans check every operation for overflow. A number that has no value spoils only what is made of
// it: not the side of a select that is not chosen.
typedef struct dt_overflow_t {
  bool checks;
  LLVMValueRef none; // whether anything has no value since this was last cleared, i1; NULL: all has
} dt_overflow_t;

// Accumulators of one reduction: stack slots that become registers.
typedef struct dt_accumulator_t {
  LLVMTypeRef type, index_type;
  bool in_order; // one scalar, which takes the lanes of each vector one after another
  LLVMValueRef value[DT_MAX_UNROLL], index[DT_MAX_UNROLL];
  // After this iteration, once it has stepped in it.
  bool stepped;
  LLVMValueRef after[DT_MAX_UNROLL], after_index[DT_MAX_UNROLL];
} dt_accumulator_t;

typedef struct dt_body_t {
  dt_emit_t *m;
  const dt_kernel_t *kernel;
  const dt_schedule_t *schedule;
  LLVMValueRef fn, words, scratch, record;
  LLVMValueRef dead;       // an address that can always be read, 8 bytes
  LLVMBasicBlockRef slots; // entry block: stack slots only
  dt_scope_t scopes[DT_MAX_LEVELS];
  dt_binding_t *bindings; // by symbol; made by dt__bind_at
  uint32_t n_bindings;
  LLVMValueRef *bases; // by buffer - 1: address of element 0; LOCAL: in scratch; SLAB: of what
                       // would be row 0; set first by dt__body_place
  uint32_t base_level; // where all of them are known
  bool *written;       // by buffer - 1: stored to by this kernel, or by its chain
  dt_chain_row_t chain;
  bool updates;     // the kernel stores to an argument of the call
  dt_lanes_t *rows; // by row value

  // The lane axis. Threads of a team take neighbouring vectors of it, so that the next copy of a
  // thread's vector stands lanes * team elements further.
  bool axis;              // there is one
  uint32_t lanes, copies; // copies: of the vector loop being emitted
  uint32_t first_copy;    // what copy 0 is, where copies are emitted one by one; else 0
  uint32_t team;          // threads that share a grid item; 1 on a CPU
  LLVMValueRef rank;      // i64: of this thread in its team; NULL when team is 1
  uint32_t joined; // neighbours whose parts a reduction joins, the rest is left to others; 0: team
  bool aligned;    // dt__lanes_aligned holds where this code runs
  uint32_t stride; // LOCAL buffers with lanes on an outer loop: elements a lane group takes
  uint32_t lane_level;
  uint32_t least_level; // instructions stand no further out: in front of it a kernel may not load
  uint32_t item_level;  // of the last outer variable that is no lane: 1, with tiles of rows 2
  bool outer_lanes;
  dt_sym_t lane_var;
  dt_sym_t beside; // copies are of neighbouring iterations of this outer loop; none: of the lanes'
  LLVMValueRef lane_base;            // lane variable's value in lane 0 of the loop's first copy
  LLVMValueRef masks[DT_MAX_UNROLL]; // by copy: lanes that exist, in the masked tail; NULL: all
  dt_resident_rows_t resident;

  // The stage being emitted.
  const dt_stage_t *stage;
  uint32_t stage_index, stage_level; // its loops are at stage_level + 1 …
  uint32_t *inst_level;
  bool *inst_varying;
  dt_accumulator_t *accs; // by reduction
  bool acc_vector;        // accumulators are vectors
  LLVMValueRef nowhere;   // stack slot that masked scalar stores write to when they are off

  dt_overflow_t overflow; // of host programs
} dt_body_t;

// ---- Scopes (body.c) ------------------------------------------------------------------------------
// Prepares everything but the function: no symbol is bound, no buffer has an address. The body
// before it in this unit is done.
dt_status_t dt__body_init(dt_body_t *k, dt_emit_t *m, const dt_kernel_t *kernel,
                          const dt_schedule_t *schedule) DT_MUST_USE;
// Goes on with another kernel of the same chain: nothing of the one before is remembered but what
// symbols are bound to and what is written.
dt_status_t dt__body_take(dt_body_t *k, const dt_kernel_t *kernel,
                          const dt_schedule_t *schedule) DT_MUST_USE;
// Makes the entry blocks of `fn` and opens level 0.
void dt__body_enter(dt_body_t *k, LLVMValueRef fn);
// Positions the builder where code of `level` goes.
void dt__body_at(dt_body_t *k, uint32_t level);
LLVMValueRef dt__body_slot(dt_body_t *k, LLVMTypeRef type, uint32_t count);
bool dt__memo_find(const dt_body_t *k, uint32_t level, uint64_t key, dt_lanes_t *out);
void dt__memo_put(dt_body_t *k, uint32_t level, uint64_t key, dt_lanes_t value);
// Code of `level` once, inside of level - 1, which forgets it afterwards.
void dt__level_enter(dt_body_t *k, uint32_t level);
void dt__level_leave(dt_body_t *k, uint32_t level);
// for (counter = start; counter < end; counter += step), its body at `level`, inside level - 1.
LLVMValueRef dt__loop_open(dt_body_t *k, uint32_t level, LLVMValueRef start, LLVMValueRef end,
                           int64_t step);
LLVMValueRef dt__loop_open_by(dt_body_t *k, uint32_t level, LLVMValueRef start, LLVMValueRef end,
                              LLVMValueRef step);
void dt__loop_close(dt_body_t *k, uint32_t level);
// The address of a buffer, by its index; that a buffer is stored to.
void dt__body_place(dt_body_t *k, uint32_t index, LLVMValueRef base);
void dt__body_writes(dt_body_t *k, dt_buffer_id_t buffer);
// The symbol's binding, which it has from here on; NULL: the symbol came into being after the body.
dt_binding_t *dt__bind_at(dt_body_t *k, uint32_t symbol);
void dt__bind_uniform(dt_body_t *k, uint32_t symbol, uint32_t level, LLVMValueRef value);
void dt__bind_symbol(dt_body_t *k, dt_sym_t var, uint32_t level, LLVMValueRef value);

#endif // DT_BACKEND_LLVM_EMIT_BODY_H

// SPDX-License-Identifier: Apache-2.0
// The state of one kernel's emission: nested scopes, what symbols and instructions are worth in
// them, and the lane axis.
//
// A scope is one level of the loop nest; code that depends on no deeper loop is put into it,
// whenever it is first asked for, so that loop invariants are hoisted by construction:
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

// Accumulators of one fold: stack slots that become registers.
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
  LLVMValueRef owner;  // chains: whether this team makes the stores that leave the chain, i1
  LLVMValueRef live;   // chains: whether this team's row exists and is stored, i1; NULL: it does
  bool updates;        // the kernel stores to an argument of the call
  dt_lanes_t *rows;    // by row value

  // The lane axis. Threads of a team take neighbouring vectors of it, so that the next copy of a
  // thread's vector stands lanes * team elements further.
  bool axis;              // there is one
  uint32_t lanes, copies; // copies: of the vector loop being emitted
  uint32_t first_copy;    // what copy 0 is, where copies are emitted one by one; else 0
  uint32_t team;          // threads that share a grid item; 1 on a CPU
  LLVMValueRef rank;      // i64: of this thread in its team; NULL when team is 1
  uint32_t joined; // neighbours whose parts a fold joins, the rest is left to others; 0: team
  bool aligned;    // dt__lanes_aligned holds where this code runs
  uint32_t stride; // LOCAL buffers with lanes on an outer loop: elements a lane group takes
  uint32_t lane_level;
  uint32_t least_level; // instructions stand no further out: in front of it a kernel may not load
  uint32_t item_level;  // of the last outer variable that is no lane: 1, with tiles of rows 2
  bool outer_lanes;
  dt_sym_t lane_var;
  LLVMValueRef lane_base;            // lane variable's value in lane 0 of the loop's first copy
  LLVMValueRef masks[DT_MAX_UNROLL]; // by copy: lanes that exist, in the masked tail; NULL: all
  // Resident rows (resident.c): whether a copy's vector exists, i1; NULL elsewhere.
  LLVMValueRef inside[DT_MAX_UNROLL];
  bool resident;           // what is emitted keeps rows in registers
  bool ragged;             // rows that end within a vector: SLABs have zeros there
  bool full;               // rows have all vectors
  dt_buffer_id_t held;     // chains: a SLAB that is nowhere but in registers, or none
  LLVMValueRef held_value; // what was stored to it last, a vector; rows that are resident keep it
  DT_VEC(dt_resident_t) kept;

  // The stage being emitted.
  const dt_stage_t *stage;
  uint32_t stage_index, stage_level; // its loops are at stage_level + 1 …
  uint32_t *inst_level;
  bool *inst_varying;
  dt_accumulator_t *accs; // by fold
  bool acc_vector;        // accumulators are vectors
  LLVMValueRef nowhere;   // stack slot that masked scalar stores write to when they are off

  // Plans check every operation for overflow. A number that has no value spoils only what is made
  // of it: not the side of a select that is not chosen.
  bool checks;
  LLVMValueRef
      none; // whether anything has no value since this was last cleared (i1); NULL: all has
} dt_body_t;

// ---- Scopes (body.c) -----------------------------------------------------------------------------------
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

// ---- Expressions (index.c) --------------------------------------------------------------------------------
void dt__index_info(dt_body_t *k, dt_sym_t e, uint32_t *level, bool *varying);
// The value as i64.
dt_lanes_t dt__index_eval(dt_body_t *k, dt_sym_t e);
// A uniform one.
LLVMValueRef dt__index_scalar(dt_body_t *k, dt_sym_t e);
// a + b and a * b where the builder stands; host programs check them.
LLVMValueRef dt__index_sum(dt_body_t *k, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef dt__index_product(dt_body_t *k, LLVMValueRef a, LLVMValueRef b);
// Sums of so many terms that common factors are taken out of them first (sums.c). `e` is uniform
// and known at `level`.
bool dt__sum_is_long(const dt_body_t *k, dt_sym_t e);
LLVMValueRef dt__sum_emit(dt_body_t *k, dt_sym_t e, uint32_t level);
// The vector of copy `c`; a uniform value is splat at `level`, its own.
LLVMValueRef dt__lanes_vector(dt_body_t *k, const dt_lanes_t *value, uint32_t c, uint32_t level);

typedef enum dt_lane_access_t {
  DT_ACCESS_UNIFORM,  // one address for all lanes
  DT_ACCESS_UNIT,     // neighbours
  DT_ACCESS_REVERSED, // neighbours, last lane first
  DT_ACCESS_EACH,     // an address a lane
} dt_lane_access_t;
typedef struct dt_address_t {
  dt_lane_access_t access;
  uint32_t alignment; // UNIT: bytes, where more than an element's is known; else 0
  LLVMValueRef at[DT_MAX_UNROLL];
} dt_address_t;
// Level and lane dependence of an access; then its addresses, computed at `level` (not above them).
dt_sym_t dt__access_offset(dt_body_t *k, dt_buffer_id_t buffer, const dt_sym_t *index);
dt_address_t dt__access_address(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                                uint32_t level);

// Whether neighbouring lanes are `*step` elements apart, a literal, in all of the vector.
bool dt__lane_step(dt_body_t *k, dt_sym_t offset, int64_t *step);

// ---- Runs (runs.c) ----------------------------------------------------------------------------------------
// Whether a load with an address a lane (DT_ACCESS_EACH) is better put together of neighbours, and
// that load, of copy `c`; lanes off in `mask` (NULL: none) are `other` (NULL: 0). The scope of
// `level` may go on in another block.
bool dt__runs_apply(dt_body_t *k, const dt_inst_t *load, dt_sym_t offset, uint32_t level);
LLVMValueRef dt__runs_load(dt_body_t *k, const dt_inst_t *load, dt_sym_t offset, uint32_t level,
                           const dt_address_t *address, uint32_t c, LLVMValueRef mask,
                           LLVMValueRef other);

// ---- Alignment (aligned.c) --------------------------------------------------------------------------------
// Vector accesses of devices must be aligned. An i1, at level 0, that says where `lanes` lanes can
// be used: extents of lane loops, steps between rows and addresses of buffers are multiples of
// whole vectors. NULL: nowhere. Accesses that can never be aligned are left out.
// Of a matrix product the stages after the first count.
LLVMValueRef dt__lanes_aligned(dt_body_t *k, uint32_t lanes);
// The same for loads that each go by vectors of `lanes` along a loop of their own; NULL: one of
// them never can.
typedef struct dt_load_walk_t {
  const dt_inst_t *load;
  dt_sym_t var, extent;
} dt_load_walk_t;
LLVMValueRef dt__loads_aligned(dt_body_t *k, const dt_load_walk_t *walks, uint32_t n,
                               uint32_t lanes);
// Of a vector that the condition speaks of, bytes: at most what one instruction takes.
static inline uint32_t dt__vector_alignment(dt_dtype_t dtype, uint32_t lanes) {
  uint32_t bytes = lanes * (uint32_t)dt_dtype_size(dtype);
  return bytes < 16 ? bytes : 16;
}
// Whether the access is among those that the condition speaks of.
bool dt__offset_aligned(dt_body_t *k, dt_sym_t offset, dt_sym_t lane_var, uint32_t lanes);

// ---- Resident rows (resident.c) ---------------------------------------------------------------------------
// A row that is not longer than the vectors of a team's copies is walked without a loop, and each
// thread keeps what it loaded or stored of it for later stages.
// Whether the schedule and the kernel allow it.
bool dt__row_is_resident(dt_body_t *k);
// Opens the vector loop's level for the only iteration, with `inside` and masks set.
void dt__resident_open(dt_body_t *k, uint32_t level, LLVMValueRef extent);
void dt__resident_close(dt_body_t *k, uint32_t level);
bool dt__resident_find(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset, dt_lanes_t *out);
void dt__resident_put(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                      const dt_lanes_t *value);
// After a store: `value` is what stands at `offset` now, and nothing else is known of the buffer.
void dt__resident_store(dt_body_t *k, dt_buffer_id_t buffer, dt_sym_t offset,
                        const dt_lanes_t *value);
// A LOCAL buffer of which every access is kept: it needs no memory.
bool dt__resident_owns(dt_body_t *k, dt_buffer_id_t buffer);

// ---- Instructions (insts.c) -------------------------------------------------------------------------------
// Levels and lane dependence of every instruction of the stage, and bindings of its loop symbols.
dt_status_t dt__stage_enter(dt_body_t *k, uint32_t stage_index) DT_MUST_USE;
dt_lanes_t dt__inst_value(dt_body_t *k, uint32_t inst);
// Says what the instruction is worth where the stage's innermost code goes, instead of making it.
void dt__inst_preset(dt_body_t *k, uint32_t inst, LLVMValueRef value);
// Its vector in copy `c`, or scalar when the lane axis is none.
LLVMValueRef dt__inst_lane(dt_body_t *k, uint32_t inst, uint32_t c, bool vector);
// Emits the BIND instructions of `level`; they make blocks, so the scope must still be open.
void dt__stage_binds(dt_body_t *k, uint32_t level);
void dt__stage_stores(dt_body_t *k); // stores.c
// Lanes in reverse order; NULL gives NULL. The value of the first lane where `mask` is true.
LLVMValueRef dt__lanes_reverse(dt_body_t *k, LLVMValueRef value);
LLVMValueRef dt__lanes_first(dt_body_t *k, LLVMValueRef mask, LLVMValueRef vector);

// ---- Folds (folds.c) --------------------------------------------------------------------------------------
void dt__fold_begin(dt_body_t *k, const dt_fold_t *fold, dt_accumulator_t *acc, bool vector,
                    uint32_t copies);
// Teams: the row values of all threads together, in each of them.
// A new iteration begins; then every fold of the stage takes its step, or has taken it because the
// iteration asked for its value.
void dt__folds_iterate(dt_body_t *k);
void dt__folds_step(dt_body_t *k);
// Two parts of a fold of the stage as one; no ARGMAX, no ARGMIN.
LLVMValueRef dt__fold_join(dt_body_t *k, const dt_fold_t *fold, LLVMValueRef a, LLVMValueRef b);
// The fold of the stage that defines `row`, up to and with this iteration.
dt_lanes_t dt__fold_running(dt_body_t *k, uint32_t row);
// The row value: per lane when `keep_lanes`, else of all lanes and copies together.
dt_lanes_t dt__fold_end(dt_body_t *k, const dt_fold_t *fold, dt_accumulator_t *acc, bool vector,
                        uint32_t copies, bool keep_lanes);

// ---- Kernels ------------------------------------------------------------------------------------------------
// Stage `index` in all its loops, and its row values (loops.c).
void dt__stage_emit(dt_body_t *k, uint32_t index);
// The vector loop over the last outer variable in [from, to), with stages first … last - 1 inside.
// `prepare` (or NULL) runs at its beginning, once a vector.
void dt__outer_vectors(dt_body_t *k, LLVMValueRef from, LLVMValueRef to, bool whole, uint32_t first,
                       uint32_t last, void (*prepare)(dt_body_t *k, void *user), void *user);
// The same for the one vector at `at`, or for so many copies of it, a team's vectors apart.
void dt__outer_vector(dt_body_t *k, LLVMValueRef at, uint32_t copies, uint32_t first, uint32_t last,
                      void (*prepare)(dt_body_t *k, void *user), void *user);
// All stages of INNER_LANES and SERIAL kernels, once, at k->item_level; `resident`: rows stay in
// registers (loops.c).
void dt__stages_emit(dt_body_t *k, bool resident);
// One grid item at its position on each of the `n` axes, at level 1 (loops.c).
void dt__item_emit(dt_body_t *k, LLVMValueRef *digits, uint32_t n);
// Buffer addresses and symbols from k->words, LOCAL buffers in k->scratch (loops.c).
void dt__bind_parameters(dt_body_t *k, const dt_kernel_params_t *params);
// Programs of device sizes, after that: the kernel ends where its gate is shut; else binds symbols
// of items to what their buffers hold.
void dt__bind_items(dt_body_t *k, const dt_kernel_params_t *params);
// Programs of device sizes: some axis of the grid is only known once items are bound.
bool dt__grid_has_items(dt_body_t *k);
void dt__place_locals(dt_body_t *k);
// The extents of the grid's axes, at level 0 (loops.c).
uint32_t dt__grid_extents(dt_body_t *k, LLVMValueRef *out);
// Makes the lane variable one of `level` (loops.c).
void dt__bind_lane(dt_body_t *k, uint32_t level);
// Where this thread's first vector stands in a loop of its team from `start` on (loops.c).
LLVMValueRef dt__own_start(dt_body_t *k, LLVMValueRef start);
// n, or 1 where it is less.
LLVMValueRef dt__at_least_one(dt_body_t *k, LLVMValueRef n);
// One kernel under one schedule as function `name`.
void dt__emit_kernel(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                     const char *name);
// matmul.c: one tile of C, inside the grid loop, at the two tile coordinates.
void dt__matmul_item(dt_body_t *k, LLVMValueRef tile_col, LLVMValueRef tile_row);
dt_status_t dt__matmul_verify(dt_emit_t *m, const dt_kernel_t *kernel,
                              const dt_schedule_t *schedule) DT_MUST_USE;
// Checks what emission relies on in a kernel and a schedule.
dt_status_t dt__schedule_verify(dt_emit_t *m, const dt_kernel_t *kernel,
                                const dt_schedule_t *schedule) DT_MUST_USE;

// ---- Sizes shared by kernels and the host program (grid.c) ---------------------------------------------------
// Extents of the grid axes, outermost first; their product is the number of grid items. Of a
// chain's head: its batch loops, tiles of rows, and groups of tiles of columns: as many as it takes
// to have some items for each processor, of which each makes its rows anew.
uint32_t dt__grid_axes(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                       dt_sym_t *out_extents);
// Byte offset of LOCAL buffers in scratch, by buffer - 1 (none for others), and the total.
dt_sym_t dt__scratch_layout(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                            dt_sym_t *out_offsets);
// The same for the chain whose head is kernel `head`, or for that one kernel, under schedule number
// `s`: SLABs come first, then what the members have for themselves, one after another in the same
// place. Each group of a block has a copy of its own for makers of rows, a multiple of 64 bytes.
dt_sym_t dt__chain_scratch(dt_emit_t *m, uint32_t head, uint32_t s, dt_sym_t *out_offsets);
// Elements from one row of a SLAB to the next.
dt_sym_t dt__slab_pitch(dt_emit_t *m, const dt_buffer_t *slab);
// Lanes on an outer loop: copies of each LOCAL element, side by side. In a team's matrix product
// each thread has its own.
static inline uint32_t dt__local_stride(const dt_schedule_t *schedule) {
  uint32_t copies = schedule->lanes * schedule->unroll;
  return schedule->kind == DT_SCHEDULE_TEAM_MATMUL ? copies * schedule->team : copies;
}
// Grid items a thread should take at least.
dt_sym_t dt__grid_grain(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule);

// MATMUL: a grid item's tile is the schedule's, or so many times that where sizes give every thread
// several of the larger ones: A is then copied, and B read, less often.
#define DT_MATMUL_BIG_ROWS 2
#define DT_MATMUL_BIG_COLS 3
void dt__matmul_tile(dt_emit_t *m, const dt_kernel_t *kernel, const dt_schedule_t *schedule,
                     dt_sym_t *out_rows, dt_sym_t *out_cols);
// Elements of k that are worked on at a time, and the stride of A's copied rows.
#define DT_MATMUL_DEPTH 256
static inline int64_t dt__matmul_a_stride(size_t element) {
  return DT_MATMUL_DEPTH + (int64_t)(64 / element);
}
// Bytes of scratch for the copy of A's rows; the C tile follows.
static inline int64_t dt__matmul_a_bytes(const dt_matmul_t *matmul, size_t element) {
  int64_t rows = (int64_t)matmul->tile_rows * DT_MATMUL_BIG_ROWS;
  return (rows * dt__matmul_a_stride(element) * (int64_t)element + 63) & ~(int64_t)63;
}
// Bytes of the C tile.
static inline int64_t dt__matmul_c_bytes(const dt_matmul_t *matmul, size_t element) {
  int64_t elements = (int64_t)matmul->tile_rows * DT_MATMUL_BIG_ROWS * matmul->tile_cols;
  return (elements * DT_MATMUL_BIG_COLS * (int64_t)element + 63) & ~(int64_t)63;
}
// Of the panel that a tile packs for itself; behind the C tile.
int64_t dt__matmul_panel_bytes(const dt_matmul_t *matmul, size_t element);
// Packs the panel of columns from `col` on, up to `end`, and `depth` elements of k from `first_k`
// on, at `level` (matmul_pack.c).
void dt__matmul_pack(dt_body_t *k, uint32_t level, LLVMValueRef col, LLVMValueRef end,
                     LLVMValueRef first_k, LLVMValueRef depth, LLVMValueRef panel);
// Elements from one row of the C tile to the next.
static inline int64_t dt__matmul_c_stride(const dt_matmul_t *matmul) {
  return (int64_t)matmul->tile_cols * DT_MATMUL_BIG_COLS;
}

#endif // DT_BACKEND_LLVM_EMIT_BODY_H

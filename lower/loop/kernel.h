// SPDX-License-Identifier: Apache-2.0
// The parts of a kernel of loop IR: buffers, instructions, stores and reductions of stages. loop.h
// says what they mean, schedule.h how they are run.
#ifndef DT_LOWER_LOOP_KERNEL_H
#define DT_LOWER_LOOP_KERNEL_H

#include "lower/graph/graph.h"
#include "lower/graph/scalar.h"
#include "lower/loop/schedule.h"

#define DT_MAX_LOOPS 16 // outer or inner loops of one kernel or stage

typedef struct dt_buffer_id_t {
  uint32_t id; // 1 … buffer count; 0 is none
} dt_buffer_id_t;

typedef enum dt_buffer_kind_t {
  DT_BUFFER_INPUT,    // argument `index` of the call; strides as the graph's input says
  DT_BUFFER_CONSTANT, // constant `index`
  DT_BUFFER_OUTPUT,   // result `index`; without gaps
  DT_BUFFER_TEMP,     // lives inside one call, in the leased block
  DT_BUFFER_ONCE,     // computed when the variant is made, from constants only; kept with it
  DT_BUFFER_LOCAL, // scratch of one kernel, private to one outer iteration; sizes depend on no loop
  DT_BUFFER_SLAB,  // scratch of one chain: its sizes are the extents of the chain's shared loops,
                   // then one more; every index is [shared loops…, an expression]
  DT_BUFFER_STATE, // what control hands on, in the block like a TEMP, contiguous. `index` 0: a
                   // result of branches, written in each. Else 1 + the WHILE region that carries
                   // it: written before the loop and by the last kernels of each trip, which read
                   // no state of it; once planned, by any kernel after which none of the trip needs
                   // the old state
} dt_buffer_kind_t;

// How a buffer's elements lie in its memory; layout.c says where an index is. A fact of the buffer:
// indices count its dims as its sizes do, whatever the layout. A result may have an order, TEMP and
// ONCE buffers all of it, others none.
typedef struct dt_buffer_layout_t {
  uint8_t order[DT_MAX_RANK]; // dims from the outermost to the innermost, each once
  // The innermost elements are `block` neighbours of dim `blocked`, which `order` then counts in
  // blocks. 0: none; else 2 or more.
  uint8_t blocked;
  int64_t block;
  // Elements in front of the first and behind the last of each dim. Kernels store and load them at
  // indices from -before to size + behind - 1, as they do others. What a kernel stores outside of
  // the sizes is `fill`, where `filled`.
  int64_t before[DT_MAX_RANK], behind[DT_MAX_RANK];
  bool filled;
  dt_scalar_t fill; // of the buffer's dtype
} dt_buffer_layout_t;
static inline bool dt__layout_blocks(const dt_buffer_layout_t *layout, uint32_t dim) {
  return layout->block && layout->blocked == dim;
}

typedef struct dt_buffer_t {
  dt_buffer_kind_t kind;
  dt_dtype_t dtype;
  uint32_t rank;
  uint32_t index;
  dt_sym_t sizes[DT_MAX_RANK];
  dt_sym_t strides[DT_MAX_RANK]; // elements; of a blocked dim, from one block to the next
  dt_sym_t row; // OUTPUT of bytes of packed elements: how many elements the last dim has; else none
  const dt_buffer_layout_t *layout; // in the program's arena; NULL: row-major, nothing else
  bool donated; // INPUT: a call may have an OUTPUT in its memory (fuse/donate.h)
  bool taken;   // INPUT that is donated: kernels write it as they write a TEMP (set by fuse)
} dt_buffer_t;

// Index expressions of a load have a value, inside the buffer, wherever its mask holds. Elsewhere
// they may have none (a division by zero): code for them must not trap. So may an INDEX whose value
// nothing selects; what it gives then is unspecified.
typedef enum dt_inst_kind_t {
  DT_INST_CONST,   // value
  DT_INST_INDEX,   // the integer expression `sym` as `dtype` (BOOL: sym != 0)
  DT_INST_LOAD,    // buffer[index…]; where `mask` is false: args[0] (or zero when args[0] is none)
  DT_INST_SCALAR,  // scalar op on args
  DT_INST_CAST,    // args[0] to dtype; the way in and out of F16 and BF16, which are loaded, moved
                   // and stored, and which no reduction and no scalar op but where takes
  DT_INST_ROW,     // row value `row` of an earlier stage
  DT_INST_RUNNING, // the reduction of this stage that defines row value `row`, up to and with this
                   // iteration of the inner loops in their order: the stage runs in order
  DT_INST_PRIOR,  // row value `row`, which a LAST reduction of this stage defines, as the iteration
                  // before left it; the reduction's start in the first: the stage runs in order
  DT_INST_SEARCH, // how many elements of the rank-1 `buffer`, which ascends, are less than args[0]
                  // (`inclusive`: or equal); I64. Found by halving [0, size) at (low + high) / 2,
                  // so that it is the same number everywhere also where the buffer does not ascend
  DT_INST_BIND,   // binds the DATA symbol `sym` to integer args[0], plus `extent` if negative; the
                  // result (BOOL) says 0 <= sym < extent. Where it is false the failure `check` is
                  // recorded, sym is 0, and loads that use it must be masked by this result. Where
                  // `mask` is false the result is false and sym is 0, but nothing is recorded. Nor
                  // is it where `check` is DT_NO_CHECK: the value is a place that another kernel
                  // has checked and kept.
  DT_INST_SOUND,  // no BIND of an earlier kernel has recorded a failure in this call (BOOL)
  DT_INST_BITS,   // the bits of args[0] as `dtype`, of the same width; neither is BOOL
  DT_INST_WHOLE,  // of a call of a user's op: the next operand, all of `buffer`; or, without a
                  // buffer, what it stores in result `row`. No value to anything else
} dt_inst_kind_t;

// An instruction; its id is its position in the stage's body, args are ids of earlier ones.
#define DT_NO_INST UINT32_MAX
#define DT_NO_CHECK UINT32_MAX
typedef struct dt_inst_t {
  dt_inst_kind_t kind;
  dt_dtype_t dtype; // of the result
  dt_scalar_op_t op;
  uint32_t args[3]; // DT_NO_INST where unused
  uint32_t mask;    // LOAD, BIND: a BOOL instruction, or DT_NO_INST
  uint32_t row;     // ROW, RUNNING, PRIOR
  bool inclusive;   // SEARCH
  uint32_t check;   // BIND: index into the program's checks, or DT_NO_CHECK
  dt_buffer_id_t buffer;
  const dt_sym_t *index; // LOAD: one expression a dim of the buffer
  dt_sym_t sym;          // INDEX, BIND
  dt_sym_t extent;       // BIND
  dt_scalar_t value;     // CONST
} dt_inst_t;

// Stores to an INPUT buffer (an argument that the call updates) that is not `taken` are made by the
// last kernels only, which read no argument, check nothing and are fused with nothing: once the
// first of them has begun the call cannot fail. Where the new value is the argument with some
// elements replaced, or joined with others, they revise it: they write these elements alone, and of
// arguments read no others.
typedef struct dt_store_t {
  dt_buffer_id_t buffer;
  const dt_sym_t *index; // one a dim; over all iterations of all kernels no two are equal (but of
                         // those that revise), so several kernels may write one buffer (concat),
                         // each another part of it
  uint32_t value;        // instruction
  uint32_t mask;         // a BOOL instruction: where it is false nothing is stored; or DT_NO_INST.
                         // An index may use DATA symbols (a scatter): its lowering then promises
                         // that no two are equal, and the mask implies that they are bound in range
  // Writes over what earlier kernels stored, the whole buffer between them, or over an INPUT.
  // Stores of different outer iterations are apart; those of one, which its inner loops make in
  // order, may meet. The kernel may load what it writes, at the store's index, and has no other
  // store. Until plans are made one kernel at most revises a buffer, but for INPUTs.
  bool revises;
  bool whole; // all of the buffer, by a call of a user's op, in an order of its own; index: zeros
} dt_store_t;

// The kinds of reductions and what each does: reductions.def.
typedef enum dt_reduction_kind_t {
#define REDUCTION(id, name, op, combine, start, takes, gives, order, doc) DT_REDUCE_##id,
#include "lower/loop/reductions.def"
  DT_REDUCE_COUNT
} dt_reduction_kind_t;

typedef struct dt_reduction_t {
  dt_reduction_kind_t kind;
  uint32_t value;   // instruction
  uint32_t index;   // where it gives a place: instruction of dtype I64, else DT_NO_INST
  uint32_t row;     // the row value it defines, unique in the kernel
  dt_dtype_t dtype; // of the row value
} dt_reduction_t;

typedef struct dt_stage_t {
  uint32_t n_loops;
  dt_sym_t vars[DT_MAX_LOOPS]; // LOOP symbols of these extents, outermost first
  dt_sym_t extents[DT_MAX_LOOPS];
  DT_VEC(dt_inst_t) insts;
  DT_VEC(dt_store_t) stores;
  DT_VEC(dt_reduction_t) reductions;
} dt_stage_t;

// Kernels with one number `chain` stand side by side and are run by one launch (devices). The last
// of them, the head, has TEAM_MATMUL schedules; those before it, its makers, fill SLABs, which
// later kernels of the chain read: as operand A of a product, or row by row. The first outer loops
// of all are the same, symbols and extents: the head's batch loops and its m. A maker has no more
// (a maker of rows), or one more (a product, with TEAM_MATMUL schedules). Kernels of a chain read
// nothing else that another of them writes.
//
// A team runs the makers for a tile of rows, then the head for these rows and some of its columns;
// a SLAB holds the tile's rows. Teams that take other columns of the same rows run the makers
// again; what makers store elsewhere is stored by the team of the first columns. Makers have as
// many schedules as the head: the n-th is taken with the head's n-th, and for a product has the
// same tile_rows; their predicates repeat the head's. The meaning is that of the kernels in order,
// with SLABs as large as they say.
//
// A chain without a product is a bundle: maps that one launch runs side by side, each with loops of
// its own. None reads what another writes, either all of them update arguments or none does, and
// each has one schedule, OUTER_LANES or SERIAL. They are made when there are schedules. Blocks of
// the grid are dealt out to them in their order, to each as many as it would have alone.
typedef struct dt_kernel_t {
  const char *name;   // op names joined, for people
  dt_origin_t origin; // of the node that it was lowered from, as far as passes know; else zeros
  uint32_t n_loops;
  dt_sym_t vars[DT_MAX_LOOPS];
  dt_sym_t extents[DT_MAX_LOOPS];
  // Indices are places in memory: the first is the element's offset, all behind it are 0. Of its
  // buffers the kernel knows nothing else, but for the sizes of LOCAL ones (set by fuse).
  bool by_offset;
  DT_VEC(dt_stage_t) stages;
  uint32_t n_rows; // row values
  // 1 + which call of a user's op it is (dt_program_t.externals), or 0. Its one loop goes over the
  // call's items; its one stage has a WHOLE an operand, in their order, then a WHOLE and a whole
  // store a result. It is alone in its section, and has the one schedule that lowering gave it.
  uint32_t external;
  uint32_t slices;     // 1 + which of the program's slices it runs in; 0: none
  uint32_t chain;      // 0: none
  dt_buffer_id_t gate; // rank 0, I64; where it holds 0 nothing is run. Or none
  uint32_t section;    // which of the program's sections it belongs to
  uint32_t region;     // 1 + the innermost region that it lies in, or 0; set by settling regions
  uint32_t begins; // 1 + the outermost region with kernels whose first it is, or 0; set likewise
  DT_VEC(dt_schedule_t) schedules; // empty until scheduled
} dt_kernel_t;

#endif // DT_LOWER_LOOP_KERNEL_H

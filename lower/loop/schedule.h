// SPDX-License-Identifier: Apache-2.0
// How a kernel is run, never what it means. No device is named here: a schedule says how many
// threads share a grid item, and what each of them takes.
#ifndef DT_LOWER_LOOP_SCHEDULE_H
#define DT_LOWER_LOOP_SCHEDULE_H

#include "symshape/symshape.h"

#include <stddef.h>

// A grid item is run by one thread, or by a team of several, which have memory in common. Threads
// of a team come in groups that run in lockstep.
typedef enum dt_schedule_kind_t {
  DT_SCHEDULE_OUTER_LANES, // vector lanes run over the last outer loop; inner loops are serial
  DT_SCHEDULE_INNER_LANES, // one outer iteration at a time; lanes run over each stage's last inner
                           // loop
  DT_SCHEDULE_SERIAL,      // scalar code
  DT_SCHEDULE_MATMUL,      // a product, without teams
  DT_SCHEDULE_TILES,       // teams: squares of the last two outer loops; what is loaded across the
                           // last one goes through the team's memory
  DT_SCHEDULE_TEAM_MATMUL, // a product, by teams
  DT_SCHEDULE_KINDS
} dt_schedule_kind_t;

typedef struct dt_outer_lanes_t {
  int64_t block; // iterations of the last outer loop in one grid item
  // Not 0: an item has all iterations of the loop before the last, and runs so many of them side by
  // side, 2 … 8, for each vector. There is no unrolling.
  uint32_t beside;
} dt_outer_lanes_t;

typedef struct dt_inner_lanes_t {
  bool resident; // teams: each stage has at most one loop, all of one extent, which is in
                 // [1, team * lanes * unroll], or of a chain's rows may be: threads may keep rows
                 // in registers
} dt_inner_lanes_t;

typedef struct dt_tiles_t {
  int64_t side; // iterations of each of the two loops
} dt_tiles_t;

// Products: stage 0 is the reduction of A[…, m, k] * B[…, k, n], stages after it store. Outer loops
// are batch loops, then m, then n. Both kinds begin with these fields.
typedef struct dt_matmul_common_t {
  uint32_t a, b;                 // LOAD instructions of stage 0
  uint32_t tile_rows, tile_cols; // of C, of one grid item
} dt_matmul_common_t;

// A is loaded with stride 1 over k. B's load is from a packed buffer [batch…, ceil(N / width), K,
// width] at [b…, n // width, k, n % width], whose lanes past N are zero. Where B is of bf16, and a
// row of a panel two vectors, these lie in pairs: the last dim is [width / 2, 2], at [n % (width /
// 2), n % width // (width / 2)].
typedef struct dt_matmul_t {
  uint32_t a, b;
  uint32_t tile_rows, tile_cols; // multiples of `rows` and `width`
  uint32_t width;                // columns of a packed panel
  uint32_t rows;                 // of the micro-kernel
  bool own_panels; // B's columns lie anywhere and each tile packs its own; else they are packed in
                   // memory
  bool dots; // with `bits`: A's element is an I8 times a scale for each block, and integers are
             // multiplied
  // Not 0: B's element is (code - zero) * scale. B's load is of U8, words of codes of so many bits:
  // [ceil(N / width), ceil(K / segment) * segment / g, width, 4] at [n // width, k // g, n % width,
  // k % 4], with g = 32 / bits elements of k in a word, and a segment as below. Code k is bits
  // (k % g) // 4 * bits and up of its byte; codes past N and K are 0. Scales and zeros have rows of
  // `width`, one for each `block` elements of k.
  uint32_t bits;
  uint32_t block; // a multiple of 16
  // Not none: m counts places of an image of rows of so many, which are made in squares of 2 x 2
  // (fuse/winograd.c). Stage 0 sums x times a weight over dy < 3, dx < 3 and channels c. `a` loads
  // x; `b`, one of the loads that the weight is made of, is at [0, 0, n // width, c, n % width] of
  // [4, 4, ceil(N / width), C, width] where dy = dx = 0. A tile has `tile_rows` squares.
  dt_sym_t across;
} dt_matmul_t;
// Elements of k of which codes are there whole, and integers summed before they are scaled.
#define DT_MATMUL_SEGMENT 512
static inline int64_t dt__matmul_segment(uint32_t block) {
  return block < DT_MATMUL_SEGMENT ? block : DT_MATMUL_SEGMENT;
}

// A team reads A and B wherever they are. It keeps `ring` tiles of each, `depth` elements of k
// deep, in its memory, and works on one while the others are on their way. Each group takes a part
// of the C tile; where the team has more groups than that needs, they share the depth of each tile
// and add up their sums at the end, in order. A cluster is so many teams (blocks of a grid) under
// way together that have a tile of C in common: a part of its depth each, and at the end a part of
// its rows each, for which they read one another's sums.
typedef struct dt_team_matmul_t {
  uint32_t a, b;
  uint32_t tile_rows, tile_cols;   // multiples of group_rows and group_cols
  uint32_t groups;                 // of the team
  uint32_t group_rows, group_cols; // of the C tile that each group takes
  uint32_t depth, ring;
  uint32_t cluster; // 2, or 8 (keys); 0: none
  // Of a chain's head, and of its makers: attention, whose scores are made for so many keys at a
  // time in registers alone (fuse/attention.h): 64, by a team that has 128 rows; or 128, by one of
  // 16 rows whose groups have keys of their own, in a cluster of 8 or alone. 0: rows of scores
  // are made whole.
  uint32_t keys;
} dt_team_matmul_t;
#define DT_MATMUL_SHARE_KEYS 128
// Whether groups, and teams of a cluster, share out keys.
static inline bool dt__matmul_shares(const dt_team_matmul_t *m) {
  return m->keys == DT_MATMUL_SHARE_KEYS;
}
static inline uint32_t dt__matmul_cluster(const dt_team_matmul_t *m) {
  return m->cluster ? m->cluster : 1;
}
_Static_assert(offsetof(dt_matmul_t, tile_cols) == offsetof(dt_matmul_common_t, tile_cols) &&
                   offsetof(dt_team_matmul_t, tile_cols) == offsetof(dt_matmul_common_t, tile_cols),
               "products begin with the fields of all products");

// Tiles of this form are for four groups that multiply together: each has a quarter of the 64 rows
// that they multiply at once, and many columns, mostly all.
static inline bool dt__matmul_for_groups(const dt_team_matmul_t *m) {
  return m->group_rows == 16 && m->tile_rows % 64 == 0 &&
         (m->group_cols == m->tile_cols || m->group_cols >= 64);
}

typedef struct dt_schedule_t {
  dt_schedule_kind_t kind; // says which member of the union there is
  dt_sym_t predicate;      // chosen at run time when not 0; none: always. The last one has none.
  uint32_t lanes;          // elements a vector, by the widest dtype in the body; 1 for SERIAL
  uint32_t unroll;         // vectors an iteration of the main loop, 1 … 8
  int64_t grain;           // grid items a thread should take at least
  uint32_t team;           // threads that share a grid item, a power of two; 0: there are no teams
  uint32_t room; // teams: blocks that one processor must have registers for (launch bounds); 0: no
                 // such demand
  uint32_t most; // teams: most blocks of the grid for each processor; 0: no limit
  union {        // SERIAL has none
    dt_outer_lanes_t outer;
    dt_inner_lanes_t inner;
    dt_tiles_t tiles;
    dt_matmul_common_t product; // of either of the two that follow
    dt_matmul_t matmul;
    dt_team_matmul_t team_matmul;
  };
} dt_schedule_t;

// Iterations of inner loops that code writes out, where lanes are on an outer loop.
#define DT_WRITTEN_OUT 32

static inline bool dt__schedule_is_product(const dt_schedule_t *schedule) {
  return schedule->kind == DT_SCHEDULE_MATMUL || schedule->kind == DT_SCHEDULE_TEAM_MATMUL;
}
static inline bool dt__schedule_is_resident(const dt_schedule_t *schedule) {
  return schedule->kind == DT_SCHEDULE_INNER_LANES && schedule->inner.resident;
}

#endif // DT_LOWER_LOOP_SCHEDULE_H

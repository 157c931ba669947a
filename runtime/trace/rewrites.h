// SPDX-License-Identifier: Apache-2.0
// The library's own patterns. They are in the lists of functions as those of users are, can be left
// out by their names, and are tried in the same walk, behind those of users. Programs of patterns
// have fixed attributes; these are found by functions instead, over convolutions of any stride and
// chains of any length. rewrites.def lists them.
#ifndef DT_RUNTIME_TRACE_REWRITES_H
#define DT_RUNTIME_TRACE_REWRITES_H

#include "runtime/trace/pattern.h"

// What a row of rewrites.def stands for.
typedef struct dt_rewrite_row_t {
  dt_op_t roots[DT_PATTERN_MOST_ROOTS];   // DT_OP_NONE: no more
  dt_op_t anchors[DT_PATTERN_MOST_ROOTS]; // one of these is in every place
  uint32_t n_values;                      // that `find` puts into m->wild
  dt_pattern_find_fn_t find;
  dt_replacement_fn_t build;
} dt_rewrite_row_t;

#define REWRITE(id, point, exactness, looks_for, needs, exactly)                                   \
  extern const dt_rewrite_row_t dt__rewrite_##id;
#include "runtime/trace/rewrites.def"

// `hooks` and the library's own patterns. Takes the caller's share of `hooks`, also on failure.
dt_status_t dt__rewrites_add(dt_hooks_t *hooks, dt_hooks_t **out) DT_MUST_USE;

// ---- For rows -----------------------------------------------------------------------------------
// Made of constants and literals alone, by few nodes, whatever the call's sizes are.
bool dt__rewrite_is_constant(const dt_match_t *m, uint32_t id);
// Takes a node into the match, behind its operands. False: no memory.
bool dt__rewrite_take(dt_match_t *m, uint32_t id);

// rewrite_integer.c: x of a cast from 8 bits to 32, by its node; 0: node `id` is none.
uint32_t dt__match_byte(const dt_match_t *m, uint32_t id);

// (x - zero), or (x - zero) * scale where `real`: x of 8 bits, the others before they are repeated.
typedef struct dt_match_bytes_t {
  uint32_t x, zero, scale; // nodes; 0: none
} dt_match_bytes_t;
bool dt__match_bytes(const dt_match_t *m, uint32_t id, bool real, dt_match_bytes_t *out);
// Whether sums of so many products of integers of 8 bits less zero points fit 32 bits.
#define DT_MOST_BYTE_TERMS (INT32_MAX / (255 * 255))
bool dt__match_sums_fit(const dt_match_t *m, dt_sym_t terms);

// rewrite_integer_conv.c: whether node `conv` is a convolution of dequantised integers of 8 bits.
bool dt__match_real_conv(const dt_match_t *m, uint32_t conv);
// The same as a sum of integers times scales, and times `more`, of the result's dims, if not NULL.
dt_status_t dt__rewrite_real_sum(dt_match_t *m, dt_trace_t *t, uint32_t conv,
                                 const dt_value_t *more, dt_value_t *out) DT_MUST_USE;

#endif // DT_RUNTIME_TRACE_REWRITES_H

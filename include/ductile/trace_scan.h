// SPDX-License-Identifier: Apache-2.0
// Builders of scans: bodies that run along an axis. A part of trace.h, which programs include. All
// functions here are [external].
#ifndef DUCTILE_TRACE_SCAN_H
#define DUCTILE_TRACE_SCAN_H

#include "ductile/trace_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of dt_associative_scan and dt_scan.
typedef enum dt_scan_flag_t {
  DT_SCAN_BACKWARDS = 1, // from the end of the axis to its beginning
  DT_SCAN_NUMBERED = 2,  // dt_scan: the body gets the trip's number (i64, rank 0; the first is 0)
                         // in front of the carry
} dt_scan_flag_t;

// Joins the tuples along `axis`, one after another. Tuple i has the elements at i of xs[0 … n-1],
// which have one shape. out[k] has the dtype and shape of xs[k]. The first tuple of each row stays
// as it is. Each other one becomes combine(the result before it, the tuple).
//
// `combine` gets 2n elements, values of rank 0: first the n of the left tuple, then the n of the
// right one. It sets the n elements of the joined tuple, each of its dtype. It may use element-wise
// ops, casts, literals, sizes and values of rank 0 made outside of it; other ops are
// DT_E_UNSUPPORTED, which names the op. f16 and bf16 are joined in f32: `combine` gets f32, and
// results are rounded once, at the end.
//
// `combine` must be associative: parts of a row may be joined first. What comes of another one is
// unspecified. `flags`: DT_SCAN_* joined by or.
DT_API void dt_associative_scan(dt_trace_t *trace, dt_branch_fn_t combine, void *closure,
                                uint32_t n, const dt_value_t *xs, int32_t axis, uint32_t flags,
                                dt_value_t *out);
// As dt_cumsum: products (not bool; 1 over nothing), the largest (NaN wins) and the smallest
// elements (not bool; over nothing the lowest or highest of the dtype), and log(sum(exp)) (floats;
// -infinity over nothing), of the elements up to each one along `axis`.
DT_API dt_value_t dt_cumprod(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode);
DT_API dt_value_t dt_cummax(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode);
DT_API dt_value_t dt_cummin(dt_trace_t *trace, dt_value_t x, int32_t axis, dt_cumsum_mode_t mode);
DT_API dt_value_t dt_logcumsumexp(dt_trace_t *trace, dt_value_t x, int32_t axis,
                                  dt_cumsum_mode_t mode);

// A loop over the first axis of xs[0 … n_xs-1], which have one size there. Trip i runs `body` on
// the carry and the slices xs[k][i], in[0 … n_carry+n_xs-1]. The body sets the next carry, each of
// its init's dtype and sizes, and n_ys values, out[0 … n_carry+n_ys-1]. The carry begins as `init`.
//
// out[0 … n_carry-1] receives the last carry. out[n_carry … n_carry+n_ys-1] receives the values of
// all trips, stacked: slice i is trip i's. `length` is the number of trips; none (id 0): the size
// of the xs, of which there must then be one. With DT_SCAN_BACKWARDS the first trip has the last
// slices and gives the last values. The body is traced once; dt_branch_fn_t says what it may do.
DT_API void dt_scan(dt_trace_t *trace, dt_branch_fn_t body, void *closure, uint32_t n_carry,
                    const dt_value_t *init, uint32_t n_xs, const dt_value_t *xs, dt_sym_t length,
                    uint32_t n_ys, uint32_t flags, dt_value_t *out);
// `body` for each slice along the first axis of xs[0 … n_xs-1], at least one: it gets the slices
// and sets n_ys values. out[0 … n_ys-1] receives these, stacked.
DT_API void dt_map(dt_trace_t *trace, dt_branch_fn_t body, void *closure, uint32_t n_xs,
                   const dt_value_t *xs, uint32_t n_ys, dt_value_t *out);

// How many rows a tensor needs that a loop of `length` trips (dt_while) writes a row a trip into,
// for a body puts its row somewhere even where it never runs: `length`, if it is known to be 1 or
// more. Else no trips are another variant with room for 1 row, or, if data says how many trips
// there are, the room is 1 row or more. Cut what comes out to `length`. dt_scan and dt_map do this
// themselves.
DT_API dt_sym_t dt_scan_room(dt_trace_t *trace, dt_sym_t length);

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_TRACE_SCAN_H

// SPDX-License-Identifier: Apache-2.0
// Builders of random numbers. A part of trace.h, which programs include. All functions here are
// [external].
//
// There is no hidden state. A number depends on the seed, the offset and the element's index in the
// result alone. So a call with the same seed and offset gives the same numbers, for any number of
// threads, on every device, launched or replayed, and however the program is fused or cut.
//
// Seeds and offsets are values: an integer input, or a literal by dt_scalar. Both are integers of
// any width; signed ones are extended by their sign to 64 bits. They have rank 0, or sizes that
// broadcast to the result's, and then each element has its own. An offset that is none (id 0) is 0.
//
// Two draws with one seed and one offset share their bits. A program that draws several times gives
// each draw an offset of its own, for example offset + 0, offset + 1, and the next call goes on
// after them. Streams of different offsets do not overlap, whatever their sizes are.
//
// The bits are those of Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011), a block of four 32-bit words an element:
//   key      word 0: the seed's low 32 bits      word 1: its high 32 bits
//   counter  word 0: the index's low 32 bits     word 1: its high 32 bits
//            word 2: the offset's low 32 bits    word 3: its high 32 bits
// The index counts the result's elements in row-major order from 0. An element's 64 bits are word 1
// * 2^32 + word 0 of the block; words 2 and 3 are not used.
//
// dt_random_bits, dt_random_uniform, dt_random_integers, dt_random_permutation, dt_bernoulli and
// the mask of dt_dropout are equal bit by bit everywhere. dt_random_normal is made of the same bits
// by log, sqrt and cos, which are as precise on every device as docs/math-accuracy.md says.
// These numbers are no secrets: do not make keys or passwords of them.
#ifndef DUCTILE_RANDOM_H
#define DUCTILE_RANDOM_H

#include "ductile/trace_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// The generator itself, element by element, for a program that counts in its own way: the 64 bits
// of the block with this seed, offset and index. All three have one integer dtype, which is the
// result's, and are broadcast. Narrower ones are extended to 64 bits, and of the result the low
// bits are kept.
DT_API dt_value_t dt_philox(dt_trace_t *trace, dt_value_t seed, dt_value_t offset,
                            dt_value_t index);
// An element's 64 bits as u64.
DT_API dt_value_t dt_random_bits(dt_trace_t *trace, dt_value_t seed, dt_value_t offset,
                                 uint32_t rank, const dt_sym_t *sizes);
// Numbers in [0, 1), each equally likely: the upper d bits of the element times 2^-d, which is
// exact. d is 53 for f64, 24 for f32, 11 for f16, 8 for bf16.
DT_API dt_value_t dt_random_uniform(dt_trace_t *trace, dt_dtype_t dtype, dt_value_t seed,
                                    dt_value_t offset, uint32_t rank, const dt_sym_t *sizes);
// Numbers of the normal distribution with mean 0 and deviation 1, by the transform of Box and
// Muller: sqrt(-2 log u) cos(2 pi v). u is the upper 32 bits times 2^-32, or 2^-33 where they are
// 0; v is the lower 32 bits, as a signed number, times 2^-32. Both are rounded to f32. f64 takes 64
// bits each, those of u of index 2i and those of v of index 2i + 1. f16 and bf16 are rounded from
// f32. No number is farther from 0 than 6.77, or 9.5 in f64.
DT_API dt_value_t dt_random_normal(dt_trace_t *trace, dt_dtype_t dtype, dt_value_t seed,
                                   dt_value_t offset, uint32_t rank, const dt_sym_t *sizes);
// Integers in [low, high): low plus the upper 64 bits of the element times (high - low). Each is
// drawn with a probability that differs from 1 / (high - low) by less than 2^-64. Where high is not
// above low the result is low. low and high have one integer dtype, which is the result's, and are
// broadcast to the result's sizes.
DT_API dt_value_t dt_random_integers(dt_trace_t *trace, dt_value_t seed, dt_value_t offset,
                                     dt_value_t low, dt_value_t high, uint32_t rank,
                                     const dt_sym_t *sizes);
// The numbers 0 to n - 1 in random order, as i64 of size [n]: the order in which the elements' bits
// are sorted. Of equal bits, which some two elements have with a probability below n^2 / 2^65, the
// lower index comes first.
DT_API dt_value_t dt_random_permutation(dt_trace_t *trace, dt_value_t seed, dt_value_t offset,
                                        dt_sym_t n);
// True with probability p, a bool of p's sizes: true where a uniform number (in f64 if p is f64,
// else in f32) is below p. The probability is exact to 2^-53 or 2^-24. Where p is NaN: false.
DT_API dt_value_t dt_bernoulli(dt_trace_t *trace, dt_value_t seed, dt_value_t offset, dt_value_t p);
// x with each element dropped (0) with probability `ratio`, the others times 1 / (1 - ratio), so
// that the mean stays. x is a float. `ratio` is a float of rank 0, of x's dtype or another. It is
// taken into [0, 1]; where it is NaN everything is dropped. *out_mask (NULL: not wanted) receives
// whether an element is kept, as bool.
DT_API dt_value_t dt_dropout(dt_trace_t *trace, dt_value_t seed, dt_value_t offset, dt_value_t x,
                             dt_value_t ratio, dt_value_t *out_mask);

#ifdef __cplusplus
}
#endif

#endif // DUCTILE_RANDOM_H

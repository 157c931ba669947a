// SPDX-License-Identifier: Apache-2.0
// What the machine can do at best, measured: multiply-adds, copying, reading. Figures of kernels
// are judged beside these, taken in the same run.
#ifndef BENCH_CEILINGS_H
#define BENCH_CEILINGS_H

#include <stddef.h>

enum { BENCH_MAX_THREADS = 256 };

// Not to be called by two threads at once. All give 0 when there is no memory or no thread to be
// had, or no code for this processor.

// f32 multiply-adds from registers, in 10^9 operations a second (an fma counts two).
double bench_ceiling_fma(unsigned threads);
// The same by the last of two seconds' rounds, when the clock has settled: of f32, and of sums of
// products of 8-bit integers in 32 bits.
double bench_sustained_fma(unsigned threads);
double bench_sustained_dot8(unsigned threads);
// memcpy of `bytes` in all, a slice for each thread, over and over; bytes read + written, GB/s.
double bench_ceiling_copy(unsigned threads, size_t bytes);
// Reading `bytes` in all, a slice for each thread, over and over; GB/s.
double bench_ceiling_read(unsigned threads, size_t bytes);

#endif // BENCH_CEILINGS_H
